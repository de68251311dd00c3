/* Snappy: every kind of element, and every way to lie about sizes. */
#include <stdlib.h>

#include "codec/snappy.h"
#include "unit.h"

/* decodes - PACKED decodes to WANT; NULL: it is refused. */
static void decodes(ckpt_str packed, const char *want)
{
    ckpt_error err;
    size_t size = 0;
    unsigned char *at = unit_guard(packed.ptr, packed.len), *out = NULL;
    cursor c = cursor_of(at, packed.len, 0);
    ckpt_status st = snappy_size(c, &size, &err);
    if (st == CKPT_OK) {
        out = malloc(size + 1);
        st = snappy_decode(c, out, size, &err);
    }
    CU_ASSERT_EQUAL(st, want ? CKPT_OK : CKPT_EFORMAT);
    CU_ASSERT(!want || (st == CKPT_OK && size == strlen(want) && memcmp(out, want, size) == 0));
    free(out);
    unit_guard_free(at, packed.len);
}

static void elements(void)
{
    decodes(STR_LIT("\0"), "");
    decodes(STR_LIT("\3\10abc"), "abc");
    decodes(STR_LIT("\3\360\2abc"), "abc");            /* the length in one byte */
    decodes(STR_LIT("\3\374\2\0\0\0abc"), "abc");      /* in four */
    decodes(STR_LIT("\7\10abc\1\3"), "abcabca");       /* a copy that repeats itself */
    decodes(STR_LIT("\6\10abc\12\3\0"), "abcabc");     /* with two bytes of offset */
    decodes(STR_LIT("\6\10abc\13\3\0\0\0"), "abcabc"); /* with four */
    decodes(STR_LIT("\14\0a\52\1\0"), "aaaaaaaaaaaa");
}

static void refused(void)
{
    decodes(STR_LIT(""), NULL);
    decodes(STR_LIT("\3\10ab"), NULL);      /* a literal that is cut off */
    decodes(STR_LIT("\2\10abc"), NULL);     /* more than announced */
    decodes(STR_LIT("\4\10abc"), NULL);     /* fewer */
    decodes(STR_LIT("\7\10abc\1\4"), NULL); /* from before the beginning */
    decodes(STR_LIT("\7\10abc\1\0"), NULL); /* from nowhere */
    decodes(STR_LIT("\7\10abc\1"), NULL);   /* a copy that is cut off */
    decodes(STR_LIT("\3\374\377\377\377\377abc"), NULL);
    decodes(STR_LIT("\377\377\377\377\17\10abc"), NULL);              /* 4 GiB from five bytes */
    decodes(STR_LIT("\200\200\200\200\200\200\200\200\200\2"), NULL); /* a size beyond 64 bits */
}

void suite_snappy(void)
{
    UNIT(elements);
    UNIT(refused);
}
