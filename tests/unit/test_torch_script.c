/* TorchScript archives of both layouts: which attributes are the state dict, and which archives are
 * refused. */
#include <stdio.h>

#include "pickled.h"

static const char data[16];

/* ------------------------------------------------------------- torch >= 1.4 */

#define NET(attributes) "new __torch__.Net()!{" attributes "}"
#define CODE                                                                                                 \
    "class Netz(Module):\n  __parameters__ = [\"x\"]\nclass Net(Module):\n  __parameters__ = [\"w\","        \
    " ]\n"                                                                                                   \
    "  __buffers__ = [\"b\", ]\n  def forward(self): pass\n"

/* make_script - builds and opens an archive of the pickle TEXT, the Python source CODE and the pickle
 * CONSTANTS. */
static struct test_file make_script(const char *text, const char *code, const char *constants,
                                    const ckpt_limits *limits)
{
    buf b, c;
    buf_init(&b, 1 << 16);
    buf_init(&c, 1 << 16);
    put_pickle(&c, constants);
    put_pickle(&b, text);
    const struct record r[] = {{"data.pkl", (char *)b.data, b.len},
                               {"code/__torch__.py", code, strlen(code)},
                               {"constants.pkl", (char *)c.data, c.len},
                               {"data/0", data, 16}};
    struct test_file m = make_archive(r, 4, limits);
    buf_free(&b);
    buf_free(&c);
    return m;
}

static void check_state_dict(const char *text, const char *code, const char *want)
{
    struct test_file m = make_script(text, code, "()", NULL);
    check_rows(&m, want);
    if (m.f)
        CU_ASSERT_STRING_EQUAL(ckpt_file_format(m.f), "torchscript");
    close_file(&m);
}

static void the_code_lists_parameters_and_buffers(void)
{
    static const char net[] = NET("'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" FLOAT_TENSOR
                                  ",'n':5,7:" FLOAT_TENSOR);
    check_state_dict(net, CODE, "w dense float32[4]@0+0;b dense float32[4]@0+0;");
    check_state_dict(net, "class Net(Module):\n  __parameters__ = [\"w\", ]\n",
                     "w dense float32[4]@0+0;b dense float32[4]@0+0;c dense float32[4]@0+0;");
    check_state_dict(net, "class Net(Module):\n  __parameters__ = [\"w\n]\n  __buffers__ = [\"b\", \"c]\n",
                     "b dense float32[4]@0+0;");
    check_state_dict(
        net, "class Net(Module):\n  __parameters__ = [\"w\"\nclass Other(Module):\n  __buffers__ = [\"b\"]\n",
        "w dense float32[4]@0+0;b dense float32[4]@0+0;c dense float32[4]@0+0;");
    check_state_dict(net, "class Net(Module):\n  __parameters__ = [\"w\"",
                     "w dense float32[4]@0+0;b dense float32[4]@0+0;"
                     "c dense float32[4]@0+0;");
    check_state_dict(net, "class Net:\n  w : Tensor\n", "");
    check_state_dict(net, "  class Net(Module):\nclass Nett(Module):\nclass Net",
                     "w dense float32[4]@0+0;b dense float32[4]@0+0;c dense float32[4]@0+0;");
    check_state_dict("new __torch__.a.b.Net()!{'w':" FLOAT_TENSOR "}", CODE, "w dense float32[4]@0+0;");
}

static void all_kinds_of_tensors_are_read(void)
{
    check_state_dict(
        NET("'w':torch._utils._rebuild_tensor_v3(@('storage',torch.storage.UntypedStorage,'0','cpu',16),"
            "0,(2,),(1,),"
            "False,collections.OrderedDict(),torch.int64)"),
        CODE, "w dense int64[2]@0+0;");
    check_state_dict(NET("'w':torch._utils._rebuild_qtensor(" STORAGE(
                         "QInt8", "0", 4) ",0,(4,),(1,),(torch.per_tensor_affine,"
                                          "0.5,3),False,collections.OrderedDict())"),
                     CODE, "w quantized qint8[4]@0+0 (per_tensor_affine, scale 0.5, zero_point 3);");
    check_state_dict(
        NET("'w':torch._utils._rebuild_sparse_tensor(torch.serialization._get_layout('torch.sparse_coo'),(" FLOAT_TENSOR
            "," FLOAT_TENSOR ",(9,)))"),
        CODE, "w sparse_coo float32[9];w.indices dense float32[4]@0+0;w.values dense float32[4]@0+0;");
    check_state_dict(NET("'w':torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1,2,3,4)"),
                     CODE, "w dense float32[4]@0+0;");
    check_state_dict(NET("'w':torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1,2,3,4,5)"),
                     CODE, "w dense float32[4]@0+0 grad;");
    check_state_dict(
        NET("'w':#1=torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1),'b':#1"), CODE,
        "w dense float32[4]@0+0;b dense float32[4]@0+0;");
}

static void submodules_are_walked(void)
{
    check_state_dict(NET("'w':" FLOAT_TENSOR
                         ",'sub':" NET("'w':" FLOAT_TENSOR ",'deep':" NET("'b':" FLOAT_TENSOR)) ",5:" NET(
                             "'w':" FLOAT_TENSOR) ",'o':my.Net()!{'w':" FLOAT_TENSOR
                                                  "},'e':new __torch__.Net(),'t':new __torch__.Net()!(1,2)"),
                     CODE,
                     "w dense float32[4]@0+0;sub.w dense float32[4]@0+0;sub.deep.b dense float32[4]@0+0;");
}

static void check_fails(const char *text, const ckpt_limits *limits, ckpt_status want, const char *words)
{
    struct test_file m = make_script(text, CODE, "()", limits);
    CU_ASSERT_EQUAL(m.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(m.err.what, words));
    if (!strstr(m.err.what, words))
        printf("  found: %s: %s\n", m.err.where, m.err.what);
    if (want == CKPT_EFORMAT)
        CU_ASSERT_EQUAL(m.err.offset, 64 + caret_offset);
    close_file(&m);
}

static void limits_are_enforced(void)
{
    struct test_file m = make_script("[1]", CODE, "()", NULL);
    CU_ASSERT_EQUAL(m.status, CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(m.err.what, "the root of a TorchScript archive must be a module,"
                                       " this is a list");
    CU_ASSERT_STRING_EQUAL(m.err.where, "archive/data.pkl");
    CU_ASSERT_EQUAL(m.err.offset, 64 + 6);
    close_file(&m);
    check_fails(NET("'a':" NET("'b':" NET(""))),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_depth = 2}, CKPT_ELIMIT,
                "modules nested deeper than 2");
    m = make_script(NET("'a':" NET("'b':^" NET(""))), CODE, "()",
                    &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_depth = 2});
    CU_ASSERT_EQUAL(m.err.offset, 64 + caret_offset);
    close_file(&m);
    check_fails(NET("'a':" NET("") ",'b':" NET("") ","
                                                   "'c':" NET("")),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = 2}, CKPT_ELIMIT,
                "more than 2 modules");
    check_fails(NET("'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" NET("")),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = 2}, CKPT_ELIMIT,
                "more than 0 modules");
}

static void constants_are_noticed(void)
{
    struct test_file m = make_script(NET("'w':" FLOAT_TENSOR), CODE,
                                     "(1," FLOAT_TENSOR ",torch.jit._pickle.build_tensor_from_id(0))", NULL);
    check_rows(&m, "w dense float32[4]@0+0;");
    CU_ASSERT_EQUAL(ckpt_leaf_count(m.f), 2);
    CU_ASSERT_STRING_EQUAL(ckpt_notice_at(m.f, ckpt_notice_at(m.f, 1) ? 1 : 0),
                           "2 tensors are constants in the code, outside of the state dict");
    close_file(&m);
    m = make_script(NET(""), CODE, "[" FLOAT_TENSOR "]", NULL);
    check_rows(&m, "");
    CU_ASSERT_PTR_NOT_NULL(
        strstr(ckpt_notice_at(m.f, ckpt_notice_at(m.f, 1) ? 1 : 0), "a frozen module: its weights are 1"));
    close_file(&m);
    m = make_script(NET("'w':" FLOAT_TENSOR), CODE, "{'not':'a list'}", NULL);
    check_rows(&m, "w dense float32[4]@0+0;");
    close_file(&m);
}

/* ------------------------------------------------------ torch 1.0 to 1.3 */

#define TENSOR(more)                                                                                         \
    "{\"dims\":[\"4\"],\"strides\":[\"1\"],\"offset\":\"0\",\"dataType\":\"FLOAT\","                         \
    "\"data\":{\"key\":\"tensors/0\"}" more "}"
#define PARAM(name, id) "{\"name\":\"" name "\",\"tensorId\":" id ",\"isBuffer\":false}"
#define MODEL(modules, tensors)                                                                              \
    "{\"protoVersion\":\"2\",\"mainModule\":" modules ",\"tensors\":[" tensors "]}"

static struct test_file make_model_json(const char *json, const ckpt_limits *limits)
{
    const struct record r[] = {
        {"model.json", json, strlen(json)}, {"tensors/0", data, 16}, {"code/model.py", "", 0}};
    return make_archive(r, 3, limits);
}

static void check_model(const char *json, const char *want)
{
    struct test_file m = make_model_json(json, NULL);
    check_rows(&m, want);
    close_file(&m);
}

static void check_model_refused(const char *json, ckpt_status want, const char *words)
{
    struct test_file m = make_model_json(json, NULL);
    CU_ASSERT_EQUAL(m.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(m.err.what, words));
    CU_ASSERT_PTR_NOT_NULL(strstr(m.err.where, "archive/model.json"));
    CU_ASSERT(m.err.offset < m.size);
    if (m.status != want || !strstr(m.err.what, words) || !strstr(m.err.where, "archive/model.json"))
        printf("  of %s\n  found: %s: %s: %s\n", json, ckpt_status_name(m.status), m.err.where, m.err.what);
    close_file(&m);
}

static void model_json_is_read(void)
{
    check_model(MODEL("{\"name\":\"main\",\"parameters\":[" PARAM("w", "\"0\"") ","
                                                                                "" PARAM("v", "0") "]}",
                      TENSOR("")),
                "w dense float32[4]@0+0;v dense float32[4]@0+0;");
    check_model(MODEL("{\"submodules\":[{\"parameters\":[" PARAM(
                          "w", "\"0\"") "],\"submodules\":[],\"name\":\"fc\",\"x\":[1]}]}",
                      TENSOR(",\"device\":\"cpu\",\"more\":{}")),
                "fc.w dense float32[4]@0+0;");
    check_model(MODEL("{\"parameters\":[" PARAM("w", "\"1\"") "]}",
                      TENSOR("") ",{\"dataType\":\"BFLOAT16\",\"device\":7,\"data\":{\"size\":\"2\","
                                 "\"key\":\"tensors/0\"}}"),
                "w dense bfloat16[]@0+0;");
    check_model(MODEL("{\"parameters\":[{\"name\":7,\"tensorId\":0}]}", TENSOR("")),
                " dense float32[4]@0+0;");
    check_model("{\"tensors\":[],\"mainModule\":{}}", "");
    check_model("{\"mainModule\":{},\"mainModule\":{\"parameters\":7}}", "");
}

static void malformed_model_json_is_refused(void)
{
    check_model_refused("[]", CKPT_EFORMAT, "the text must be an object");
    check_model_refused(MODEL("[]", ""), CKPT_EFORMAT, "mainModule must be an object");
    check_model_refused(MODEL("{\"parameters\":{}}", ""), CKPT_EFORMAT, "parameters must be an array");
    check_model_refused(MODEL("{\"parameters\":[7]}", ""), CKPT_EFORMAT, "a parameter must be an object");
    check_model_refused(MODEL("{\"parameters\":[{\"tensorId\":-1}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL("{\"parameters\":[{\"tensorId\":\"x\"}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL("{\"parameters\":[{\"tensorId\":null}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL("{\"parameters\":[" PARAM("w", "1") "]}", TENSOR("")), CKPT_EFORMAT,
                        "\"w\" is tensor 1 of 1");
    check_model_refused(MODEL("{\"submodules\":{}}", ""), CKPT_EFORMAT, "submodules must be an array");
    check_model_refused(MODEL("{\"submodules\":[7]}", ""), CKPT_EFORMAT, "a submodule must be an object");
    check_model_refused(MODEL("{\"name\":7}", ""), CKPT_EFORMAT, "the name of a module must be a text");
    check_model_refused(MODEL("{}", "7"), CKPT_EFORMAT, "a tensor must be an object");
    check_model_refused("{\"tensors\":{}}", CKPT_EFORMAT, "tensors must be an array");
    check_model_refused(MODEL("{}", "{\"dims\":7}"), CKPT_EFORMAT, "dims and strides must be arrays");
    check_model_refused(MODEL("{}", "{\"dims\":[null]}"), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL("{}", "{\"offset\":-1}"), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL("{}", "{\"data\":7}"), CKPT_EFORMAT, "data must be an object");
    check_model_refused(MODEL("{}", "{}"), CKPT_EFORMAT,
                        "tensor 0 lacks its data, its type or some of its strides");
    check_model_refused(MODEL("{}", "{\"data\":{\"key\":7},\"dataType\":\"FLOAT\"}"), CKPT_EFORMAT,
                        "tensor 0 lacks");
    check_model_refused(MODEL("{}", "{\"data\":{\"key\":\"tensors/0\"},"
                                    "\"dataType\":7}"),
                        CKPT_EFORMAT, "tensor 0 lacks");
    check_model_refused(
        MODEL("{}", "{\"data\":{\"key\":\"tensors/0\"},\"dataType\":\"FLOAT\",\"strides\":[1]}"),
        CKPT_EFORMAT, "tensor 0 lacks");
    check_model_refused(MODEL("{\"parameters\":[" PARAM("w", "0") "]}",
                              "{\"data\":{\"key\":\"tensors/1\"},\"dataType\":\"FLOAT\"}"),
                        CKPT_ETRUNCATED, "the record \"tensors/1\" is missing");
}

static void truncated_model_json_is_refused(void)
{
    static const char complete[] = MODEL(
        "{\"x\":[0],\"parameters\":[" PARAM("w", "\"0\"") "],\"submodules\":[{\"name\":\"a\"}]}",
        TENSOR(",\"device\":\"cpu\",\"more\":[1]") ",{\"dataType\":\"BOOL\",\"data\":{\"size\":[1],"
                                                   "\"key\":\"tensors/0\"}}");
    check_every_cut(complete, sizeof complete, make_model_json);
    check_model_refused(MODEL("{}", "") "x", CKPT_EFORMAT, "");
}

static void model_json_without_tensors_is_not_recognized(void)
{
    const struct record r[] = {{"model.json", "{}", 2}, {"code/model.py", "", 0}};
    struct test_file m = make_archive(r, 2, NULL);
    CU_ASSERT_EQUAL(m.status, CKPT_EUNKNOWN);
    close_file(&m);
}

void suite_torch_script(void)
{
    UNIT(the_code_lists_parameters_and_buffers);
    UNIT(all_kinds_of_tensors_are_read);
    UNIT(submodules_are_walked);
    UNIT(limits_are_enforced);
    UNIT(constants_are_noticed);
    UNIT(model_json_is_read);
    UNIT(malformed_model_json_is_refused);
    UNIT(truncated_model_json_is_refused);
    UNIT(model_json_without_tensors_is_not_recognized);
}
