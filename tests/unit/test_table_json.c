/* ckpt_tensor_json writes the JSON of one tensor, truncated to the size of the buffer as by snprintf.
 * ckpt_table_json writes a document with this JSON of each tensor, once. The tests of `ckpt ls --json`, which
 * prints the document, check its values. */
#include <stdlib.h>

#include "base/str.h"
#include "small_files.h"
#include "unit.h"

#define TWO_TENSORS                                                                                          \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"                                     \
    "\"b\\\"\\u202e\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}"

#define FILE_OFFSET "123" /* 8 bytes for the length of the header, 115 for the header */
static const char json_of_a[] =
    "{\"name\":\"a\",\"path\":[\"a\"],\"dtype\":\"float32\",\"shape\":[1,2],\"elements\":2,\"bytes\":8,"
    "\"kind\":\"dense\",\"stride\":[2,1],\"storage\":0,\"storage_offset\":0,"
    "\"file_offset\":" FILE_OFFSET ",\"requires_grad\":false,\"parameter\":false,"
    "\"alias_of\":null,\"part_of\":null}";

static void json_is_truncated_as_by_snprintf(void)
{
    char out[1024];
    ckpt_file *f = open_safetensors(TWO_TENSORS, "123456789", 9);
    size_t n = ckpt_tensor_json(f, 0, out, sizeof out);
    CU_ASSERT_EQUAL(n, strlen(out));
    CU_ASSERT_STRING_EQUAL(out, json_of_a);
    CU_ASSERT_EQUAL(ckpt_tensor_json(f, 0, NULL, 0), n);
    for (size_t cap = 1; cap <= n; cap++) {
        char truncated[1024];
        memset(truncated, 'x', sizeof truncated);
        CU_ASSERT_EQUAL(ckpt_tensor_json(f, 0, truncated, cap), n);
        CU_ASSERT(strlen(truncated) < cap && memcmp(truncated, out, strlen(truncated)) == 0 &&
                  truncated[cap] == 'x');
    }
    CU_ASSERT(ckpt_tensor_json(f, 1, out, sizeof out) && strstr(out, "\"name\":\"b\\\"\\u202e\","));
    CU_ASSERT(strstr(out, "\"shape\":[],") && strstr(out, "\"stride\":[],"));
    CU_ASSERT(ckpt_tensor_json(f, 2, out, sizeof out) == 0 && out[0] == '\0');
    close_open_files();
}

/* check_document - checks the JSON of a corpus file: of all tensors, of the last one, and of one that does
 * not exist. */
static void check_document(const char *corpus_file)
{
    char *text, *json = malloc(1 << 20);
    size_t len, at;
    ckpt_file *f = open_corpus_file(corpus_file);
    CU_ASSERT_EQUAL_FATAL(ckpt_table_json(f, NULL, &text, &len, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(strlen(text), len);
    CU_ASSERT(str_starts(str_c(text), STR_LIT("{\"schema\":\"ckpt.ls.v1\",\"file\":\"")));
    char *list = strstr(text, "\"tensors\":[");
    CU_ASSERT_PTR_NOT_NULL_FATAL(list);
    at = (size_t)(list - text) + strlen("\"tensors\":[");
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        size_t n = ckpt_tensor_json(f, i, json, 1 << 20);
        CU_ASSERT(strncmp(text + at, json, n) == 0 && strchr(",]", text[at + n]));
        at += n + 1;
    }
    if (ckpt_tensor_count(f))
        at--; /* goes back to the "]" after the last tensor */
    CU_ASSERT(str_starts(str_c(text + at), STR_LIT("],\"total\":{\"tensors\":")));
    ckpt_free(text);
    const uint32_t last = ckpt_tensor_count(f) - 1, missing = ckpt_tensor_count(f);
    ckpt_table_json_options o = CKPT_INIT(ckpt_table_json_options);
    o.rows = &last;
    o.nrows = 1;
    CU_ASSERT_EQUAL(ckpt_table_json(f, &o, &text, &len, NULL), CKPT_OK);
    (void)ckpt_tensor_json(f, last, json, 1 << 20);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, json));
    ckpt_free(text);
    o.rows = &missing;
    CU_ASSERT(ckpt_table_json(f, &o, &text, &len, NULL) == CKPT_EUSAGE && !text && !len);
    free(json);
    close_open_files();
}

static void documents_have_all_tensors(void)
{
    check_document("torch/t215/many_tensors.pt");
    check_document("torch/t215/general_checkpoint_215.pt");
    check_document("torch/badexp/01_ok.pt");
    check_document("torch/t215/nested_jagged.pt");
    check_document("torch/t215/eco/hf_gpt2_sharded");
}

static void text_is_escaped_as_json(void)
{
    char out[64];
    bool exact = true;
    CU_ASSERT_EQUAL(ckpt_text_json((ckpt_str){"a\n\xff", 3}, out, sizeof out, &exact), 12);
    CU_ASSERT_STRING_EQUAL(out, "\"a\\u000a\xef\xbf\xbd\"");
    CU_ASSERT_FALSE(exact);
    CU_ASSERT_EQUAL(ckpt_text_json((ckpt_str){"\xf3\xa0\x80\x81\\", 5}, out, sizeof out, &exact), 16);
    CU_ASSERT_STRING_EQUAL(out, "\"\\udb40\\udc01\\\\\"");
    CU_ASSERT_TRUE(exact);
    CU_ASSERT_EQUAL(ckpt_text_json((ckpt_str){NULL, 0}, out, sizeof out, NULL), 2);
    CU_ASSERT_STRING_EQUAL(out, "\"\"");
    CU_ASSERT(ckpt_text_json((ckpt_str){"abc", 3}, out, 3, NULL) == 5 && strlen(out) < 3);
}

void suite_table_json(void)
{
    UNIT(json_is_truncated_as_by_snprintf);
    UNIT(documents_have_all_tensors);
    UNIT(text_is_escaped_as_json);
}
