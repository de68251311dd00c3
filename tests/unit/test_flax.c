/* Flax's MessagePack: arrays in chunks, and what may be one. */
#include "bytes.h"
#include "unit.h"

#define MARK "\xb9__msgpack_chunked_array__"
#define ARRAY                                                                                                \
    "\xc7\x15\x01\x93\x91\x02\xa7"                                                                           \
    "float32\xc4\x08"                                                                                        \
    "\0\0\x80\x3f\0\0\x80\x3f" /* float32 [2] */
/* an array of [2] in one chunk, whose mark is the key MARK */
#define CHUNKED(mark)                                                                                        \
    "\x81\xa1"                                                                                               \
    "a\x83" mark "\xc3\xa5shape\x81\xa1"                                                                     \
    "0\x02\xa6"                                                                                              \
    "chunks\x81\xa1"                                                                                         \
    "0" ARRAY

/* tensors_of - how many there are in BYTES, or -1: ERR is why. */
static int tensors_of(ckpt_str bytes, ckpt_error *err)
{
    ckpt_file *f;
    unsigned char *copy = unit_guard(bytes.ptr, bytes.len);
    int n = -1;
    if (ckpt_open_memory(copy, bytes.len, "test", NULL, &f, err) == CKPT_OK) {
        n = (int)ckpt_tensor_count(f);
        ckpt_close(f);
    }
    unit_guard_free(copy, bytes.len);
    return n;
}

/* A key that is the mark but for some bytes would make tensors of the chunks. */
static void a_damaged_mark_is_no_name(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(tensors_of(TEXT(CHUNKED(MARK)), &err), 1);
    CU_ASSERT_EQUAL(tensors_of(TEXT(CHUNKED("\xb9^_msgpack_chunked_array__")), &err), -1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "is nearly \"__msgpack_chunked_array__\""));
    CU_ASSERT_EQUAL(tensors_of(TEXT(CHUNKED("\xb9__msgpack_chunked_ARRAYS_")), &err), -1);
    CU_ASSERT_EQUAL(tensors_of(TEXT(CHUNKED("\xb9"
                                            "encoder.layer.0.attention")),
                               &err),
                    1);
    CU_ASSERT_EQUAL(tensors_of(TEXT(CHUNKED("\xa4"
                                            "mark")),
                               &err),
                    1);
}

/* An extension whose type is damaged is an array still, and none of the others that flax hands out. */
static void a_damaged_type_is_no_extension(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x81\xa1"
                                    "a" ARRAY),
                               &err),
                    1);
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x81\xa1"
                                    "a\xc7\x15\x07\0\0\0\xa7"
                                    "float32\xc4\x08"
                                    "01234567"),
                               &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "type 7");
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x81\xa1"
                                    "a\xc7\x15\x07"
                                    "012345678901234567890"),
                               &err),
                    0);
}

/* What was put into an array makes pairs of its elements: their keys are numbers mostly. */
static void keys_are_of_one_kind(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x82\xa1"
                                    "a" ARRAY "\x07\x08"),
                               &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "text and of numbers");
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x82\x07" ARRAY "\xcb\x3f\xf8\0\0\0\0\0\0\x08"), &err), 1);
}

static void a_shape_in_chunks_is_of_sizes(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(tensors_of(TEXT("\x81\xa1"
                                    "a\x83" MARK "\xc3\xa5shape\x81\xa1"
                                    "0\xff\xa6"
                                    "chunks\x81\xa1"
                                    "0" ARRAY),
                               &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "negative, no number or too large");
    CU_ASSERT_STRING_EQUAL(err.allowed, "sizes");
}

void suite_flax(void)
{
    UNIT(a_damaged_mark_is_no_name);
    UNIT(a_damaged_type_is_no_extension);
    UNIT(keys_are_of_one_kind);
    UNIT(a_shape_in_chunks_is_of_sizes);
}
