/* Archives of torch.export: the JSON configs that describe their weights, and malformed configs. In them, the
 * dtype is a number of torch.export's ScalarType: 1 is uint8, 7 float32, 13 bfloat16. */
#include <stdio.h>

#include "pickled.h"

#define CONFIG_NAME "data/weights/model_weights_config.json"
#define AS_INT(n)   "{\"as_int\":" #n "}"
#define TENSOR_META                                                                                          \
    "{\"dtype\":7,\"sizes\":[" AS_INT(4) "],\"strides\":[" AS_INT(                                           \
        1) "],"                                                                                              \
           "\"storage_offset\":" AS_INT(                                                                     \
               0) ",\"requires_grad\":true,\"device\":{\"type\":\"cpu\",\"index\":null},\"layout\":7}"
#define WEIGHT(name, meta)                                                                                   \
    "\"" name "\":{\"path_name\":\"weight_0\",\"is_param\":true,\"use_pickle\":false,"                       \
    "\"tensor_meta\":" meta "}"
#define CONFIG_OF(weights) "{\"config\":{" weights "}}"

static const char data[16];

static struct test_file make_export(const char *config, const ckpt_limits *limits)
{
    const struct record r[] = {{"archive_format", "pt2", 3},
                               {"byteorder", "little", 6},
                               {"models/model.json", "{}", 2},
                               {"data/weights/weight_0", data, 16},
                               {CONFIG_NAME, config, strlen(config)}};
    return make_archive(r, 5, limits);
}

static void check_weights(const char *config, const char *want)
{
    struct test_file made = make_export(config, NULL);
    check_tensors(&made, want);
    if (made.file)
        CU_ASSERT_STRING_EQUAL(ckpt_file_format(made.file), "torch-export");
    close_file(&made);
}

static void check_fails(const char *config, ckpt_status want, const char *words)
{
    struct test_file made = make_export(config, NULL);
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.where, CONFIG_NAME));
    CU_ASSERT(made.err.offset < made.size);
    if (made.status != want || !strstr(made.err.what, words) || !strstr(made.err.where, CONFIG_NAME))
        printf("  of %s\n  found: %s: %s: %s\n", config, ckpt_status_name(made.status), made.err.where,
               made.err.what);
    close_file(&made);
}

static void configs_describe_weights(void)
{
    check_weights(CONFIG_OF(WEIGHT("w", TENSOR_META)), "state_dict.w dense float32[4]@0+0 parameter grad;");
    check_weights(
        CONFIG_OF(WEIGHT("w", TENSOR_META) "," WEIGHT(
            "v", "{\"dtype\":13,\"sizes\":[],\"strides\":[],\"storage_offset\":3}")),
        "state_dict.w dense float32[4]@0+0 parameter grad;state_dict.v dense bfloat16[]@0+3 parameter;");
    check_weights(
        CONFIG_OF(WEIGHT(
            "w", "{\"dtype\":1,\"sizes\":[4,2],\"strides\":[2,{\"other\":{\"x\":[1]},\"as_int\":1}]}")),
        "state_dict.w dense uint8[4,2]@0+0 parameter;");
    check_weights("{\"more\":[1,{}],\"config\":{}}", "");
    check_weights("{}", "");
}

static void malformed_configs_are_refused(void)
{
    check_fails("[]", CKPT_EFORMAT, "the text must be an object");
    check_fails("{\"config\":[]}", CKPT_EFORMAT, "config must be an object");
    check_fails(CONFIG_OF("\"w\":7"), CKPT_EFORMAT, "a weight must be an object");
    check_fails(CONFIG_OF("\"w\":{}"), CKPT_EFORMAT, "\"w\" lacks path_name or tensor_meta");
    check_fails(CONFIG_OF("\"w\":{\"path_name\":\"weight_0\"}"), CKPT_EFORMAT,
                "\"w\" lacks path_name or tensor_meta");
    check_fails(CONFIG_OF("\"w\":{\"path_name\":7,\"tensor_meta\":" TENSOR_META "}"), CKPT_EFORMAT,
                "\"w\" lacks path_name");
    check_fails(CONFIG_OF(WEIGHT("w", "null")), CKPT_EFORMAT, "\"w\" lacks path_name or tensor_meta");
    check_fails(CONFIG_OF(WEIGHT("w", "[]")), CKPT_EFORMAT, "tensor_meta must be an object");
    check_fails(CONFIG_OF(WEIGHT("w", "{}")), CKPT_EFORMAT,
                "tensor_meta has 0 sizes, 0 strides; it needs a dtype, as many strides as sizes");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":7,\"sizes\":[1]}")), CKPT_EFORMAT, "1 sizes, 0 strides");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":7,\"sizes\":[1],\"strides\":[]}")), CKPT_EFORMAT,
                "1 sizes, 0 strides");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"sizes\":[1],\"strides\":[1]}")), CKPT_EFORMAT,
                "1 sizes, 1 strides");
    check_fails(CONFIG_OF("\"w\":{\"path_name\":\"weight_1\",\"tensor_meta\":" TENSOR_META "}"),
                CKPT_ETRUNCATED, "the record \"data/weights/weight_1\" is missing");
    check_fails(CONFIG_OF("\"w\":{\"path_name\":\"weight_1\",\"use_pickle\":true}"), CKPT_ETRUNCATED,
                "the record \"data/weights/weight_1\" is missing");
    /* use_pickle: the record must be an archive of torch.save */
    check_fails(CONFIG_OF("\"w\":{\"path_name\":\"weight_0\",\"use_pickle\":true}"), CKPT_EUNKNOWN, "");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":7,\"sizes\":[5],\"strides\":[1]}")), CKPT_EFORMAT,
                "the view reaches byte 20 of storage \"archive/data/weights/weight_0\", which has 16");
}

static void malformed_tensor_meta_is_refused(void)
{
    static const char dtype_error[] = "dtype must be the number of a known torch.ScalarType";
    static const char number_error[] = "a size, stride or offset must be a number >= 0";
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":\"float\"}")), CKPT_EFORMAT, dtype_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":-7}")), CKPT_EFORMAT, dtype_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":14}")), CKPT_EFORMAT, dtype_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"dtype\":99}")), CKPT_EFORMAT, dtype_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"device\":\"cpu\"}")), CKPT_EFORMAT, "device must be an object");
    /* a device type that is no text is skipped; the sizes are missing */
    check_fails(CONFIG_OF(WEIGHT("w", "{\"device\":{\"type\":5}}")), CKPT_EFORMAT, "0 sizes, 0 strides");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"sizes\":4}")), CKPT_EFORMAT, "sizes and strides must be arrays");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"sizes\":[\"4\"]}")), CKPT_EFORMAT, "must be {\"as_int\": n}");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"sizes\":[-4]}")), CKPT_EFORMAT, "must be {\"as_int\": n}");
    check_fails(CONFIG_OF(WEIGHT("w", "{\"sizes\":[{\"as_int\":-4}]}")), CKPT_EFORMAT, number_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"strides\":[{\"as_int\":\"4\"}]}")), CKPT_EFORMAT, number_error);
    check_fails(CONFIG_OF(WEIGHT("w", "{\"storage_offset\":{\"as_expr\":\"s0\"}}")), CKPT_EFORMAT,
                "a size, stride or offset must have \"as_int\"");
}

static void truncated_configs_are_refused(void)
{
    static const char complete[] = "{\"a\":[1],\"config\":{" WEIGHT(
        "w", "{\"dtype\":7,\"sizes\":[{\"as_int\":4,\"x\":{}}],\"strides\":[1],\"device\":{\"type\":\"cpu\","
             "\"y\":[]},\"z\":[0]}") "}}";
    check_damaged_json(complete, sizeof complete, make_export);
    check_fails(CONFIG_OF(WEIGHT("w", TENSOR_META)) "x", CKPT_EFORMAT, "");
}

/* ----------------------------------------------------- embedded archives */

static void embedded_archives_are_read(void)
{
    struct test_file in = make_torch_zip(
        "{'w':#1=" FLOAT_TENSOR ",'t':#1,'s':@('storage',torch.FloatStorage,'9','meta',4),"
        "'m':torch._utils._rebuild_meta_tensor_no_storage(torch.float16,(2,),(1,),True),"
        "'n':torch._utils._rebuild_nested_tensor(" FLOAT_TENSOR "," FLOAT_TENSOR "," FLOAT_TENSOR
        "," FLOAT_TENSOR "),'v':5}");
    static const char config[] = CONFIG_OF("\"a\":{\"path_name\":\"weight_0\",\"use_pickle\":true}");
    struct record r[] = {{"archive_format", "pt2", 3},
                         {"models/model.json", "{}", 2},
                         {"data/weights/weight_0", in.bytes, in.size},
                         {CONFIG_NAME, config, sizeof config - 1},
                         {"data/constants/model.pt", in.bytes, in.size}};
    struct test_file made = make_archive(r, 5, NULL);
    check_tensors(
        &made,
        "state_dict.a.w dense float32[4]@0+0;state_dict.a.t dense float32[4]@0+0;"
        "state_dict.a.s storage float32[4]@1+0;state_dict.a.m meta float16[2] grad;"
        "state_dict.a.n nested float32;"
        "state_dict.a.n.buffer dense float32[4]@0+0;state_dict.a.n.sizes dense float32[4]@0+0;"
        "state_dict.a.n.strides dense float32[4]@0+0;state_dict.a.n.offsets dense float32[4]@0+0;"
        "constants.w dense float32[4]@2+0;constants.t dense float32[4]@2+0;"
        "constants.s storage float32[4]@3+0;constants.m meta float16[2] grad;constants.n nested float32;"
        "constants.n.buffer dense float32[4]@2+0;constants.n.sizes dense float32[4]@2+0;"
        "constants.n.strides dense float32[4]@2+0;constants.n.offsets dense float32[4]@2+0;");
    CU_ASSERT_EQUAL(made.file ? ckpt_leaf_count(made.file) : 0, 2);
    close_file(&made);
    in.bytes[80] ^= 1; /* in the data.pkl of the embedded archive */
    made = make_archive(r, 5, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_ECHECKSUM);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.where, "archive/data/weights/weight_0"));
    close_file(&made);
    close_file(&in);
}

static void members_outside_of_the_folder_are_ignored(void)
{
    static const char config[] = CONFIG_OF(WEIGHT("w", TENSOR_META));
    const struct record r[] = {{"archive_format", "pt2", 3},
                               {"models/model.json", "{}", 2},
                               {"besides/" CONFIG_NAME, "[]", 2},
                               {"data/weights/weight_0", data, 16},
                               {CONFIG_NAME, config, sizeof config - 1}};
    struct test_file made = make_archive(r, 5, NULL);
    replace_in_file(&made, "archive/besides", "besides/archive");
    check_tensors(&made, "state_dict.w dense float32[4]@0+0 parameter grad;");
    close_file(&made);
}

static void archives_without_weights_are_refused(void)
{
    const struct record r[] = {
        {"archive_format", "pt2", 3}, {"models/model.json", "{}", 2}, {"code.py", "", 0}};
    struct test_file made = make_archive(r, 3, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EUNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(made.err.what, "this torch.export archive holds no weights");
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.hint, "read the checkpoint that the program gets them from"));
    close_file(&made);
    made = make_archive(r, 1, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EUNKNOWN);
    close_file(&made);
    const struct record old = {"0123456789abcdef", "", 0};
    made = make_archive(&old, 1, NULL);
    /* an archive written before torch 2.8 would also have serialized_exported_program.json */
    replace_in_file(&made, "archive/0123456789abcdef", "serialized_state_dict.pt");
    CU_ASSERT_EQUAL(made.status, CKPT_EUNKNOWN);
    close_file(&made);
}

/* What aoti_compile_and_package writes is no archive that torch.save began and did not end. */
static void packages_of_inductor_are_refused(void)
{
    const struct record r[] = {{"data/aotinductor/model/a.wrapper.so",
                                "\x7f"
                                "ELF",
                                4},
                               {"archive_format", "pt2", 3},
                               {"archive_version", "0", 1},
                               {".data/version", "6\n", 2},
                               {".data/serialization_id", "1", 1}};
    struct test_file made = make_archive(r, 5, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EUNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(made.err.what,
                           "an AOTInductor package: compiled code, and weights that only it reads");
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.hint, "read the checkpoint that the model was made from"));
    close_file(&made);
}

/* The test raises the limit on memory until the file can be read. */
static void too_little_memory_is_an_error(void)
{
    ckpt_status st = CKPT_ENOMEM;
    for (ckpt_limits l = {.struct_size = sizeof l, .max_metadata = 64};
         st != CKPT_OK && l.max_metadata < 100000; l.max_metadata += 16) {
        struct test_file made = make_export(CONFIG_OF(WEIGHT("w", TENSOR_META)), &l);
        st = made.status;
        CU_ASSERT(st == CKPT_OK || st == CKPT_ENOMEM || st == CKPT_ELIMIT);
        close_file(&made);
    }
    CU_ASSERT_EQUAL(st, CKPT_OK);
}

void suite_torch_export(void)
{
    UNIT(configs_describe_weights);
    UNIT(malformed_configs_are_refused);
    UNIT(malformed_tensor_meta_is_refused);
    UNIT(truncated_configs_are_refused);
    UNIT(embedded_archives_are_read);
    UNIT(members_outside_of_the_folder_are_ignored);
    UNIT(archives_without_weights_are_refused);
    UNIT(packages_of_inductor_are_refused);
    UNIT(too_little_memory_is_an_error);
}
