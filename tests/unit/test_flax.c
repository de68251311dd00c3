/* Flax's MessagePack files: arrays and chunked arrays are read, malformed ones are refused, and values are
 * written back. */
#include <stdlib.h>

#include "bytes.h"
#include "core/plan.h"
#include "format/flax/flax.h"
#include "unit.h"

#define CHUNKED_KEY "\xb9__msgpack_chunked_array__"
/* ext 8 of 21 bytes, type 1 (an array): [shape [2], dtype "float32", the bytes of 1.0 and 1.0] */
#define ARRAY                                                                                                \
    "\xc7\x15\x01\x93\x91\x02\xa7"                                                                           \
    "float32\xc4\x08"                                                                                        \
    "\0\0\x80\x3f\0\0\x80\x3f"
/* {"a": {KEY: true, "shape": {"0": 2}, "chunks": {"0": ARRAY}}}. If KEY is CHUNKED_KEY, "a" is a chunked
 * array of one chunk. */
#define CHUNKED(key)                                                                                         \
    "\x81\xa1"                                                                                               \
    "a\x83" key "\xc3\xa5shape\x81\xa1"                                                                      \
    "0\x02\xa6"                                                                                              \
    "chunks\x81\xa1"                                                                                         \
    "0" ARRAY

/* count_tensors - returns the number of tensors in BYTES, or -1 after an error, which is in ERR. */
static int count_tensors(ckpt_str bytes, ckpt_error *err)
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

/* A key that is nearly CHUNKED_KEY is refused, because the chunks would be read as tensors. Other keys are
 * accepted. */
static void a_damaged_chunked_array_key_is_refused(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(count_tensors(TEXT(CHUNKED(CHUNKED_KEY)), &err), 1);
    CU_ASSERT_EQUAL(count_tensors(TEXT(CHUNKED("\xb9^_msgpack_chunked_array__")), &err), -1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "is nearly \"__msgpack_chunked_array__\""));
    CU_ASSERT_EQUAL(count_tensors(TEXT(CHUNKED("\xb9__msgpack_chunked_ARRAYS_")), &err), -1);
    CU_ASSERT_EQUAL(count_tensors(TEXT(CHUNKED("\xb9"
                                               "encoder.layer.0.attention")),
                                  &err),
                    1);
    CU_ASSERT_EQUAL(count_tensors(TEXT(CHUNKED("\xa4"
                                               "mark")),
                                  &err),
                    1);
}

/* An extension of an unknown type is refused if it can be an array whose type byte was damaged. */
static void a_damaged_extension_type_is_refused(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x81\xa1"
                                       "a" ARRAY),
                                  &err),
                    1);
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x81\xa1"
                                       "a\xc7\x15\x07\0\0\0\xa7"
                                       "float32\xc4\x08"
                                       "01234567"),
                                  &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "type 7");
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x81\xa1"
                                       "a\xc7\x15\x07"
                                       "012345678901234567890"),
                                  &err),
                    0);
}

/* A map may have keys of text or of numbers. A mixture is refused, because it appears when a damaged array is
 * read as a map. */
static void maps_with_text_and_number_keys_are_refused(void)
{
    ckpt_error err;
    /* {"a": an array, 7: 8}, then {7: an array, 1.5: 8} */
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x82\xa1"
                                       "a" ARRAY "\x07\x08"),
                                  &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "text and of numbers");
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x82\x07" ARRAY "\xcb\x3f\xf8\0\0\0\0\0\0\x08"), &err), 1);
}

static void negative_sizes_are_refused(void)
{
    ckpt_error err;
    CU_ASSERT_EQUAL(count_tensors(TEXT("\x81\xa1"
                                       "a\x83" CHUNKED_KEY "\xc3\xa5shape\x81\xa1"
                                       "0\xff\xa6"
                                       "chunks\x81\xa1"
                                       "0" ARRAY),
                                  &err),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "negative, not a number or too large");
    CU_ASSERT_STRING_EQUAL(err.allowed, "sizes");
}

/* write_as_flax - opens the file BYTES and writes it to memory. *OUT becomes the N bytes written, which the
 * caller frees. The first key is renamed to NAME, unless that is NULL. Returns false after an error, which is
 * in ERR. */
static bool write_as_flax(ckpt_str bytes, const char *name, void **out, size_t *n, ckpt_error *err)
{
    const ckpt_write_options o = {.struct_size = sizeof o, .format = "flax"};
    ckpt_file *f;
    ckpt_plan *p;
    unsigned char *copy = unit_guard(bytes.ptr, bytes.len);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(copy, bytes.len, "test", NULL, &f, err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, err), CKPT_OK);
    if (name)
        plan_find_or_add_edit(p, f->root, 2)->names[0] = str_c(name);
    bool ok = ckpt_plan_write_memory(p, &o, out, n, NULL, err) == CKPT_OK;
    ckpt_plan_free(p);
    ckpt_close(f);
    unit_guard_free(copy, bytes.len);
    return ok;
}

static bool is_written_unchanged(ckpt_str bytes)
{
    ckpt_error err;
    void *out;
    size_t n;
    if (!write_as_flax(bytes, NULL, &out, &n, &err))
        return false;
    bool same = n == bytes.len && memcmp(out, bytes.ptr, n) == 0;
    ckpt_free(out);
    return same;
}

/* Each MessagePack type with its smallest and largest values. */
static void values_keep_their_bytes(void)
{
    static const ckpt_str values[] = {
        /* integers from 0 on: fixint, uint 8 to uint 64 */
        CONSTANT("\x00"),
        CONSTANT("\x7f"),
        CONSTANT("\xcc\x80"),
        CONSTANT("\xcc\xff"),
        CONSTANT("\xcd\x01\x00"),
        CONSTANT("\xcd\xff\xff"),
        CONSTANT("\xce\0\1\0\0"),
        CONSTANT("\xce\xff\xff\xff\xff"),
        CONSTANT("\xcf\0\0\0\1\0\0\0\0"),
        CONSTANT("\xcf\x80\0\0\0\0\0\0\0"),
        CONSTANT("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
        /* negative integers: fixint, int 8 to int 64 */
        CONSTANT("\xff"),
        CONSTANT("\xe0"),
        CONSTANT("\xd0\xdf"),
        CONSTANT("\xd0\x80"),
        CONSTANT("\xd1\xff\x7f"),
        CONSTANT("\xd1\x80\0"),
        CONSTANT("\xd2\xff\xff\x7f\xff"),
        CONSTANT("\xd2\x80\0\0\0"),
        CONSTANT("\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"),
        CONSTANT("\xd3\x80\0\0\0\0\0\0\0"),
        /* nil, false, true, float 64; fixstr, str 8; bin 8; ext of 1, 3 and 16 bytes; array and map */
        CONSTANT("\xc0"),
        CONSTANT("\xc2"),
        CONSTANT("\xc3"),
        CONSTANT("\xcb\x3f\xf8\0\0\0\0\0\0"),
        CONSTANT("\xa0"),
        CONSTANT("\xbf"
                 "0123456789012345678901234567890"),
        CONSTANT("\xd9\x20"
                 "01234567890123456789012345678901"),
        CONSTANT("\xc4\0"),
        CONSTANT("\xc4\x01x"),
        CONSTANT("\xd4\x05x"),
        CONSTANT("\xc7\x03\x05xyz"),
        CONSTANT("\xd8\x80"
                 "0123456789012345"),
        CONSTANT("\x90"),
        CONSTANT("\x80"),
        CONSTANT("\x9f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        CONSTANT("\xdc\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char bytes[64] = "\x81\xa1v";
        memcpy(bytes + 3, values[i].ptr, values[i].len);
        if (!is_written_unchanged(str_of(bytes, 3 + values[i].len)))
            printf("value %zu has changed ", i);
        CU_ASSERT(is_written_unchanged(str_of(bytes, 3 + values[i].len)));
    }
}

/* Values of the types str, bin, ext and array whose length is stored in two or four bytes. */
static void long_values_keep_their_bytes(void)
{
    static const struct {
        const char *head;
        size_t head_len, n; /* number of bytes in HEAD, and after it */
    } values[] = {{"\xda\1\0", 3, 256},       {"\xdb\0\1\0\0", 5, 65536}, {"\xc5\xff\xff", 3, 65535},
                  {"\xc6\0\1\0\0", 5, 65536}, {"\xc8\1\0\5", 4, 256},     {"\xc9\0\1\0\0\5", 6, 65536},
                  {"\xdd\0\1\0\0", 5, 65536}};
    char *bytes = malloc(65536 + 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    memcpy(bytes, "\x81\xa1v", 3);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        memcpy(bytes + 3, values[i].head, values[i].head_len);
        memset(bytes + 3 + values[i].head_len, 'x', values[i].n);
        CU_ASSERT(is_written_unchanged(str_of(bytes, 3 + values[i].head_len + values[i].n)));
    }
    free(bytes);
}

static void arrays_keep_their_bytes(void)
{
    CU_ASSERT(is_written_unchanged(TEXT(ARRAY)));
    CU_ASSERT(is_written_unchanged(TEXT("\x92" ARRAY "\x07")));
    CU_ASSERT(is_written_unchanged(TEXT("\x82\x07" ARRAY "\xcb\x3f\xf8\0\0\0\0\0\0\x08")));
    CU_ASSERT(
        is_written_unchanged(TEXT("\x81\xa1s\xc7\x0c\x03\x93\x90\xa5int16\xc4\x02\x01\x00"))); /* a scalar */
    /* a complex number, ext type 2 */
    CU_ASSERT(is_written_unchanged(
        TEXT("\x81\xa1z\xc7\x13\x02\x92\xcb\x3f\xf8\0\0\0\0\0\0\xcb\x3f\xf8\0\0\0\0\0\0")));
}

/* jax cannot sort the keys of a map that has both texts and numbers. */
static void writing_keys_of_text_and_numbers_is_refused(void)
{
    ckpt_error err;
    void *out;
    size_t n;
    CU_ASSERT_FALSE(write_as_flax(TEXT("\x82\x07" ARRAY "\x08" ARRAY), "w", &out, &n, &err));
    CU_ASSERT_EQUAL(err.status, CKPT_ELOSSY);
    CU_ASSERT_STRING_EQUAL(err.found, "text and of numbers");
    CU_ASSERT_FATAL(write_as_flax(TEXT("\x81\x07" ARRAY), "w", &out, &n, &err));
    CU_ASSERT(str_eq(str_of(out, n), TEXT("\x81\xa1w" ARRAY)));
    ckpt_free(out);
}

/* Each of the first 99 allocations fails in one round; reading needs fewer. */
static void a_chunked_array_is_not_malformed_without_memory(void)
{
    const ckpt_str bytes = TEXT(CHUNKED(CHUNKED_KEY));
    ckpt_status st = CKPT_ENOMEM;
    for (uint64_t failing = 1; failing < 100; failing++) {
        ckpt_file *f;
        ckpt_error err = {0};
        struct probe probe = {.path = "test"};
        struct opening opening = {.probe = &probe};
        source *src = source_mem(bytes.ptr, bytes.len, 0);
        CU_ASSERT_EQUAL_FATAL(file_new("test", src, NULL, &f, NULL), CKPT_OK);
        f->format = &format_flax;
        f->opening = &opening;
        arena_fail_at(f->a, failing);
        st = format_flax.read(f, &err);
        CU_ASSERT(st == CKPT_ENOMEM || (st == CKPT_OK && f->table.nrows == 1));
        arena_fail_at(f->a, 0);
        ckpt_close(f);
    }
    CU_ASSERT_EQUAL(st, CKPT_OK);
}

void suite_flax(void)
{
    UNIT(values_keep_their_bytes);
    UNIT(long_values_keep_their_bytes);
    UNIT(arrays_keep_their_bytes);
    UNIT(writing_keys_of_text_and_numbers_is_refused);
    UNIT(a_damaged_chunked_array_key_is_refused);
    UNIT(a_damaged_extension_type_is_refused);
    UNIT(maps_with_text_and_number_keys_are_refused);
    UNIT(negative_sizes_are_refused);
    UNIT(a_chunked_array_is_not_malformed_without_memory);
}
