/* Decoding Snappy: every kind of element, and every kind of wrong size. */
#include <stdlib.h>

#include "codec/snappy.h"
#include "unit.h"

/* check_decode - checks that PACKED decodes to WANT or, if WANT is NULL, is refused. */
static void check_decode(ckpt_str packed, const char *want)
{
    ckpt_error err;
    size_t size = 0;
    unsigned char *at = unit_guard(packed.ptr, packed.len), *out = NULL;
    cursor c = cursor_of(at, packed.len, 0);
    ckpt_status st = snappy_read_size(c, &size, &err);
    if (st == CKPT_OK) {
        out = malloc(size + 1);
        st = snappy_decode(c, out, size, &err);
    }
    CU_ASSERT_EQUAL(st, want ? CKPT_OK : CKPT_EFORMAT);
    CU_ASSERT(!want || (st == CKPT_OK && size == strlen(want) && memcmp(out, want, size) == 0));
    free(out);
    unit_guard_free(at, packed.len);
}

/* Each input is the size of the output, then elements, each of which begins with a tag. */
static void each_kind_of_element_is_decoded(void)
{
    check_decode(STR_LIT("\0"), "");
    check_decode(STR_LIT("\3\10abc"), "abc");
    check_decode(STR_LIT("\3\360\2abc"), "abc");            /* a literal with one byte of length */
    check_decode(STR_LIT("\3\374\2\0\0\0abc"), "abc");      /* a literal with four bytes of length */
    check_decode(STR_LIT("\7\10abc\1\3"), "abcabca");       /* a copy of 4 bytes with offset 3 */
    check_decode(STR_LIT("\6\10abc\12\3\0"), "abcabc");     /* a copy with two bytes of offset */
    check_decode(STR_LIT("\6\10abc\13\3\0\0\0"), "abcabc"); /* a copy with four bytes of offset */
    check_decode(STR_LIT("\14\0a\52\1\0"), "aaaaaaaaaaaa"); /* a copy of 11 bytes with offset 1 */
}

static void malformed_input_is_refused(void)
{
    check_decode(STR_LIT(""), NULL);
    check_decode(STR_LIT("\3\10ab"), NULL);                   /* a truncated literal */
    check_decode(STR_LIT("\2\10abc"), NULL);                  /* more than the declared 2 bytes */
    check_decode(STR_LIT("\4\10abc"), NULL);                  /* less than the declared 4 bytes */
    check_decode(STR_LIT("\7\10abc\1\4"), NULL);              /* a copy from before the output */
    check_decode(STR_LIT("\7\10abc\1\0"), NULL);              /* a copy with offset 0 */
    check_decode(STR_LIT("\7\10abc\1"), NULL);                /* a truncated copy */
    check_decode(STR_LIT("\3\374\377\377\377\377abc"), NULL); /* a literal of 4 GiB */
    check_decode(STR_LIT("\377\377\377\377\17\10abc"), NULL); /* declares 4 GiB */
    check_decode(STR_LIT("\200\200\200\200\200\200\200\200\200\2"),
                 NULL); /* a declared size beyond 64 bits */
}

void suite_snappy(void)
{
    UNIT(each_kind_of_element_is_decoded);
    UNIT(malformed_input_is_refused);
}
