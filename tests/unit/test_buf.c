/* A buffer keeps the bytes that are appended. After a failure, all later appends fail, too. */
#include "base/buf.h"
#include "unit.h"

static void a_buffer_keeps_what_is_appended(void)
{
    buf b;
    buf_init(&b, 1000);
    CU_ASSERT_EQUAL(buf_view(&b).len, 0);
    CU_ASSERT_PTR_NOT_NULL(buf_view(&b).ptr);
    buf_put(&b, NULL, 0);
    buf_put_cstr(&b, "ab");
    buf_put_str(&b, STR_LIT("\0c"));
    buf_byte(&b, 0xff);
    buf_printf(&b, "%d", 42);
    buf_u16le(&b, 0x0102);
    buf_u32le(&b, 0x03040506);
    buf_u64le(&b, 0x0708090a0b0c0d0e);
    CU_ASSERT(buf_ok(&b));
    CU_ASSERT(str_eq(buf_view(&b), STR_LIT("ab\0c\xff"
                                           "42\2\1\6\5\4\3\16\15\14\13\12\11\10\7")));
    buf_free(&b);
    CU_ASSERT_EQUAL(b.max, 1000);
    CU_ASSERT_EQUAL(buf_view(&b).len, 0);
}

static void text_of_any_length_is_formatted(void)
{
    buf b;
    buf_init(&b, 100000);
    buf_printf(&b, "%255d", 1);
    CU_ASSERT_EQUAL(b.len, 255);
    buf_printf(&b, "%256d", 1);
    CU_ASSERT_EQUAL(b.len, 511);
    buf_printf(&b, "%50000d", 1);
    CU_ASSERT_EQUAL(b.len, 50511);
    CU_ASSERT_EQUAL(b.data[50510], '1');
    buf_free(&b);
}

static void a_buffer_fails_for_good_beyond_its_maximum(void)
{
    buf b;
    buf_init(&b, 5);
    buf_put_cstr(&b, "abcd");
    buf_put_cstr(&b, "ef");
    CU_ASSERT(!buf_ok(&b));
    buf_byte(&b, 'g'); /* refused, although one byte would fit */
    CU_ASSERT_EQUAL(b.len, 4);
    buf_free(&b);
    CU_ASSERT(buf_ok(&b));
    buf_put_cstr(&b, "abcde");
    CU_ASSERT(buf_ok(&b));
    buf_put(&b, "x", SIZE_MAX);
    CU_ASSERT(!buf_ok(&b));
    buf_free(&b);
}

static void a_buffer_grows_in_few_steps_to_its_maximum(void)
{
    buf b;
    buf_init(&b, 100003);
    size_t steps = 0, cap = 0;
    for (size_t i = 0; i < 100003; i++) {
        buf_byte(&b, (unsigned char)i);
        steps += b.cap != cap;
        cap = b.cap;
    }
    CU_ASSERT(buf_ok(&b));
    CU_ASSERT(steps < 20);
    CU_ASSERT_EQUAL(b.data[100002], (unsigned char)100002);
    buf_byte(&b, 0);
    CU_ASSERT(!buf_ok(&b));
    buf_free(&b);
}

static void the_caller_fills_the_bytes_of_an_extension(void)
{
    buf b;
    buf_init(&b, 300);
    buf_put_cstr(&b, "ab");
    unsigned char *extension = buf_extend(&b, 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(extension);
    memcpy(extension, "cde", 3);
    buf_byte(&b, 'f');
    CU_ASSERT(str_is(buf_view(&b), "abcdef"));
    CU_ASSERT_PTR_NOT_NULL(buf_extend(&b, 0));
    CU_ASSERT_PTR_NULL(buf_extend(&b, 295));
    CU_ASSERT(!buf_ok(&b) && b.len == 6);
    buf_free(&b);
}

void suite_buf(void)
{
    UNIT(the_caller_fills_the_bytes_of_an_extension);
    UNIT(a_buffer_keeps_what_is_appended);
    UNIT(text_of_any_length_is_formatted);
    UNIT(a_buffer_fails_for_good_beyond_its_maximum);
    UNIT(a_buffer_grows_in_few_steps_to_its_maximum);
}
