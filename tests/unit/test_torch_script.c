/* TorchScript archives of both layouts: which attributes are the state dict, and which archives are
 * refused. */
#include <stdio.h>

#include "pickled.h"

static const char data[16];

/* ------------------------------------------------------------- torch >= 1.4 */

#define NET_WITH(attributes) "new __torch__.Net()!{" attributes "}"
/* Netz is another class than Net, although its name begins with "Net". */
#define NET_CODE                                                                                             \
    "class Netz(Module):\n  __parameters__ = [\"x\"]\nclass Net(Module):\n  __parameters__ = [\"w\","        \
    " ]\n"                                                                                                   \
    "  __buffers__ = [\"b\", ]\n  def forward(self): pass\n"

/* make_script - builds and opens an archive of the pickle TEXT, the Python source CODE and the pickle
 * CONSTANTS. */
static struct test_file make_script(const char *text, const char *code, const char *constants,
                                    const ckpt_limits *limits)
{
    buf pickle, constants_pickle;
    buf_init(&pickle, 1 << 16);
    buf_init(&constants_pickle, 1 << 16);
    put_pickle(&constants_pickle, constants);
    put_pickle(&pickle, text);
    const struct record records[] = {{"data.pkl", (char *)pickle.data, pickle.len},
                                     {"code/__torch__.py", code, strlen(code)},
                                     {"constants.pkl", (char *)constants_pickle.data, constants_pickle.len},
                                     {"data/0", data, 16}};
    struct test_file made = make_archive(records, 4, limits);
    buf_free(&pickle);
    buf_free(&constants_pickle);
    return made;
}

static void check_state_dict(const char *text, const char *code, const char *want)
{
    struct test_file made = make_script(text, code, "()", NULL);
    check_tensors(&made, want);
    if (made.file)
        CU_ASSERT_STRING_EQUAL(ckpt_file_format(made.file), "torchscript");
    close_file(&made);
}

/* If the class has no list of buffers, as before torch 1.6, each tensor that is no parameter is a buffer. */
static void the_code_lists_parameters_and_buffers(void)
{
    static const char net[] = NET_WITH("'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" FLOAT_TENSOR
                                       ",'n':5,7:" FLOAT_TENSOR);
    check_state_dict(net, NET_CODE, "w dense float32[4]@0+0;b dense float32[4]@0+0;");
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
    check_state_dict("new __torch__.a.b.Net()!{'w':" FLOAT_TENSOR "}", NET_CODE, "w dense float32[4]@0+0;");
}

static void all_kinds_of_tensors_are_read(void)
{
    check_state_dict(
        NET_WITH("'w':torch._utils._rebuild_tensor_v3(@('storage',torch.storage.UntypedStorage,'0','cpu',16),"
                 "0,(2,),(1,),False," ORDERED_DICT ",torch.int64)"),
        NET_CODE, "w dense int64[2]@0+0;");
    check_state_dict(
        NET_WITH("'w':torch._utils._rebuild_qtensor(" STORAGE(
            "QInt8", "0", 4) ",0,(4,),(1,),(torch.per_tensor_affine,0.5,3),False," ORDERED_DICT ")"),
        NET_CODE, "w quantized qint8[4]@0+0 (per_tensor_affine, scale 0.5, zero_point 3);");
    check_state_dict(
        NET_WITH(
            "'w':torch._utils._rebuild_sparse_tensor(torch.serialization._get_layout('torch.sparse_coo'),"
            "(" FLOAT_TENSOR "," FLOAT_TENSOR ",(9,)))"),
        NET_CODE, "w sparse_coo float32[9];w.indices dense float32[4]@0+0;w.values dense float32[4]@0+0;");
    check_state_dict(
        NET_WITH("'w':torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1,2,3,4)"), NET_CODE,
        "w dense float32[4]@0+0;");
    check_state_dict(
        NET_WITH("'w':torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1,2,3,4,5)"),
        NET_CODE, "w dense float32[4]@0+0 grad;");
    check_state_dict(
        NET_WITH("'w':#1=torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,),True,1),'b':#1"),
        NET_CODE, "w dense float32[4]@0+0;b dense float32[4]@0+0;");
}

static void tensors_of_submodules_are_found(void)
{
    check_state_dict(
        NET_WITH(
            "'w':" FLOAT_TENSOR
            ",'sub':" NET_WITH("'w':" FLOAT_TENSOR ",'deep':" NET_WITH("'b':" FLOAT_TENSOR)) ",5:" NET_WITH(
                "'w':" FLOAT_TENSOR) ",'o':my.Net()!{'w':" FLOAT_TENSOR
                                     "},'e':new __torch__.Net(),'t':new __torch__.Net()!(1,2)"),
        NET_CODE, "w dense float32[4]@0+0;sub.w dense float32[4]@0+0;sub.deep.b dense float32[4]@0+0;");
}

static void check_fails(const char *text, const ckpt_limits *limits, ckpt_status want, const char *words)
{
    struct test_file made = make_script(text, NET_CODE, "()", limits);
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    if (!strstr(made.err.what, words))
        printf("  found: %s: %s\n", made.err.where, made.err.what);
    if (want == CKPT_EFORMAT)
        CU_ASSERT_EQUAL(made.err.offset, PICKLE_OFFSET + caret_offset);
    close_file(&made);
}

static void a_root_that_is_not_a_module_is_refused(void)
{
    struct test_file made = make_script("^[1]", NET_CODE, "()", NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(made.err.what, "the root of a TorchScript archive must be a module,"
                                          " found a list");
    CU_ASSERT_STRING_EQUAL(made.err.where, "archive/data.pkl");
    CU_ASSERT_EQUAL(made.err.offset, PICKLE_OFFSET + caret_offset);
    close_file(&made);
}

static void limits_are_enforced(void)
{
    check_fails(NET_WITH("'a':" NET_WITH("'b':" NET_WITH(""))),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_depth = 2}, CKPT_ELIMIT,
                "modules are nested deeper than 2");
    struct test_file made = make_script(NET_WITH("'a':" NET_WITH("'b':^" NET_WITH(""))), NET_CODE, "()",
                                        &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_depth = 2});
    CU_ASSERT_EQUAL(made.err.offset, PICKLE_OFFSET + caret_offset);
    close_file(&made);
    check_fails(NET_WITH("'a':" NET_WITH("") ",'b':" NET_WITH("") ","
                                                                  "'c':" NET_WITH("")),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = 2}, CKPT_ELIMIT,
                "the model has more than 2 modules");
    /* two tensors leave no room for modules */
    check_fails(NET_WITH("'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" NET_WITH("")),
                &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = 2}, CKPT_ELIMIT,
                "the model has more than 0 modules");
}

static const char *last_of_two_notices(const ckpt_file *f)
{
    const char *second = ckpt_notice_at(f, 1);
    return second ? second : ckpt_notice_at(f, 0);
}

static void constants_are_noticed(void)
{
    struct test_file made = make_script(NET_WITH("'w':" FLOAT_TENSOR), NET_CODE,
                                        "(1," FLOAT_TENSOR ",torch.jit._pickle.build_tensor_from_id(0))",
                                        NULL);
    check_tensors(&made, "w dense float32[4]@0+0;");
    CU_ASSERT_EQUAL(ckpt_leaf_count(made.file), 2);
    CU_ASSERT_STRING_EQUAL(last_of_two_notices(made.file),
                           "2 tensors are constants in the code, outside of the state dict");
    close_file(&made);
    made = make_script(NET_WITH(""), NET_CODE, "[" FLOAT_TENSOR "]", NULL);
    check_tensors(&made, "");
    CU_ASSERT_PTR_NOT_NULL(strstr(last_of_two_notices(made.file), "the module is frozen: its weights are 1"));
    close_file(&made);
    made = make_script(NET_WITH("'w':" FLOAT_TENSOR), NET_CODE, "{'not':'a list'}", NULL);
    check_tensors(&made, "w dense float32[4]@0+0;");
    close_file(&made);
}

/* ------------------------------------------------------ torch 1.0 to 1.3 */

#define TENSOR_JSON(more)                                                                                    \
    "{\"dims\":[\"4\"],\"strides\":[\"1\"],\"offset\":\"0\",\"dataType\":\"FLOAT\","                         \
    "\"data\":{\"key\":\"tensors/0\"}" more "}"
#define PARAMETER_JSON(name, id) "{\"name\":\"" name "\",\"tensorId\":" id ",\"isBuffer\":false}"
#define MODEL_JSON(modules, tensors)                                                                         \
    "{\"protoVersion\":\"2\",\"mainModule\":" modules ",\"tensors\":[" tensors "]}"

static struct test_file make_model_json(const char *json, const ckpt_limits *limits)
{
    const struct record r[] = {
        {"model.json", json, strlen(json)}, {"tensors/0", data, 16}, {"code/model.py", "", 0}};
    return make_archive(r, 3, limits);
}

static void check_model(const char *json, const char *want)
{
    struct test_file made = make_model_json(json, NULL);
    check_tensors(&made, want);
    close_file(&made);
}

static void check_model_refused(const char *json, ckpt_status want, const char *words)
{
    struct test_file made = make_model_json(json, NULL);
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.where, "archive/model.json"));
    CU_ASSERT(made.err.offset < made.size);
    if (made.status != want || !strstr(made.err.what, words) || !strstr(made.err.where, "archive/model.json"))
        printf("  of %s\n  found: %s: %s: %s\n", json, ckpt_status_name(made.status), made.err.where,
               made.err.what);
    close_file(&made);
}

static void model_json_is_read(void)
{
    check_model(MODEL_JSON("{\"name\":\"main\",\"parameters\":[" PARAMETER_JSON(
                               "w", "\"0\"") ","
                                             "" PARAMETER_JSON("v", "0") "]}",
                           TENSOR_JSON("")),
                "w dense float32[4]@0+0;v dense float32[4]@0+0;");
    check_model(MODEL_JSON("{\"submodules\":[{\"parameters\":[" PARAMETER_JSON(
                               "w", "\"0\"") "],\"submodules\":[],\"name\":\"fc\",\"x\":[1]}]}",
                           TENSOR_JSON(",\"device\":\"cpu\",\"more\":{}")),
                "fc.w dense float32[4]@0+0;");
    check_model(
        MODEL_JSON("{\"parameters\":[" PARAMETER_JSON("w", "\"1\"") "]}",
                   TENSOR_JSON("") ",{\"dataType\":\"BFLOAT16\",\"device\":7,\"data\":{\"size\":\"2\","
                                   "\"key\":\"tensors/0\"}}"),
        "w dense bfloat16[]@0+0;");
    check_model(MODEL_JSON("{\"parameters\":[{\"name\":7,\"tensorId\":0}]}", TENSOR_JSON("")),
                " dense float32[4]@0+0;");
    check_model("{\"tensors\":[],\"mainModule\":{}}", "");
    check_model("{\"mainModule\":{},\"mainModule\":{\"parameters\":7}}", "");
}

static void malformed_model_json_is_refused(void)
{
    check_model_refused("[]", CKPT_EFORMAT, "the text must be an object");
    check_model_refused(MODEL_JSON("[]", ""), CKPT_EFORMAT, "mainModule must be an object");
    check_model_refused(MODEL_JSON("{\"parameters\":{}}", ""), CKPT_EFORMAT, "parameters must be an array");
    check_model_refused(MODEL_JSON("{\"parameters\":[7]}", ""), CKPT_EFORMAT,
                        "a parameter must be an object");
    check_model_refused(MODEL_JSON("{\"parameters\":[{\"tensorId\":-1}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL_JSON("{\"parameters\":[{\"tensorId\":\"x\"}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL_JSON("{\"parameters\":[{\"tensorId\":null}]}", ""), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL_JSON("{\"parameters\":[" PARAMETER_JSON("w", "1") "]}", TENSOR_JSON("")),
                        CKPT_EFORMAT, "\"w\" has tensorId 1, it must be below 1");
    check_model_refused(MODEL_JSON("{\"submodules\":{}}", ""), CKPT_EFORMAT, "submodules must be an array");
    check_model_refused(MODEL_JSON("{\"submodules\":[7]}", ""), CKPT_EFORMAT,
                        "a submodule must be an object");
    check_model_refused(MODEL_JSON("{\"name\":7}", ""), CKPT_EFORMAT, "the name of a module must be a text");
    check_model_refused(MODEL_JSON("{}", "7"), CKPT_EFORMAT, "a tensor must be an object");
    check_model_refused("{\"tensors\":{}}", CKPT_EFORMAT, "tensors must be an array");
    check_model_refused(MODEL_JSON("{}", "{\"dims\":7}"), CKPT_EFORMAT, "dims and strides must be arrays");
    check_model_refused(MODEL_JSON("{}", "{\"dims\":[null]}"), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL_JSON("{}", "{\"offset\":-1}"), CKPT_EFORMAT,
                        "a tensorId, size, stride or offset must be a number >= 0");
    check_model_refused(MODEL_JSON("{}", "{\"data\":7}"), CKPT_EFORMAT, "data must be an object");
    check_model_refused(MODEL_JSON("{}", "{}"), CKPT_EFORMAT,
                        "tensor 0 lacks its data, its type or some of its strides");
    check_model_refused(MODEL_JSON("{}", "{\"data\":{\"key\":7},\"dataType\":\"FLOAT\"}"), CKPT_EFORMAT,
                        "tensor 0 lacks");
    check_model_refused(MODEL_JSON("{}", "{\"data\":{\"key\":\"tensors/0\"},"
                                         "\"dataType\":7}"),
                        CKPT_EFORMAT, "tensor 0 lacks");
    check_model_refused(
        MODEL_JSON("{}", "{\"data\":{\"key\":\"tensors/0\"},\"dataType\":\"FLOAT\",\"strides\":[1]}"),
        CKPT_EFORMAT, "tensor 0 lacks");
    check_model_refused(MODEL_JSON("{\"parameters\":[" PARAMETER_JSON("w", "0") "]}",
                                   "{\"data\":{\"key\":\"tensors/1\"},\"dataType\":\"FLOAT\"}"),
                        CKPT_ETRUNCATED, "the record \"tensors/1\" is missing");
}

static void truncated_model_json_is_refused(void)
{
    static const char complete[] = MODEL_JSON(
        "{\"x\":[0],\"parameters\":[" PARAMETER_JSON("w", "\"0\"") "],\"submodules\":[{\"name\":\"a\"}]}",
        TENSOR_JSON(",\"device\":\"cpu\",\"more\":[1]") ",{\"dataType\":\"BOOL\",\"data\":{\"size\":[1],"
                                                        "\"key\":\"tensors/0\"}}");
    check_damaged_json(complete, sizeof complete, make_model_json);
    check_model_refused(MODEL_JSON("{}", "") "x", CKPT_EFORMAT, "");
}

static void model_json_without_tensors_is_not_recognized(void)
{
    const struct record r[] = {{"model.json", "{}", 2}, {"code/model.py", "", 0}};
    struct test_file made = make_archive(r, 2, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EUNKNOWN);
    close_file(&made);
}

void suite_torch_script(void)
{
    UNIT(the_code_lists_parameters_and_buffers);
    UNIT(all_kinds_of_tensors_are_read);
    UNIT(tensors_of_submodules_are_found);
    UNIT(a_root_that_is_not_a_module_is_refused);
    UNIT(limits_are_enforced);
    UNIT(constants_are_noticed);
    UNIT(model_json_is_read);
    UNIT(malformed_model_json_is_refused);
    UNIT(truncated_model_json_is_refused);
    UNIT(model_json_without_tensors_is_not_recognized);
}
