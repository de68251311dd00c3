/* Protobuf: fields of every wire type, and messages that are none. */
#include "codec/protobuf.h"
#include "unit.h"

static cursor message(ckpt_str bytes) { return cursor_of(bytes.ptr, bytes.len, 100); }

static void fields(void)
{
    struct proto_field f;
    cursor c = message(STR_LIT("\10\226\1\22\3abc\31\1\0\0\0\0\0\0\200"
                               "\45\4\3\2\1\200\1\0"));
    CU_ASSERT(proto_next(&c, &f) && proto_is(&f, 1, PROTO_VARINT) && f.value == 150);
    CU_ASSERT(proto_next(&c, &f) && proto_is(&f, 2, PROTO_BYTES) && str_is(proto_text(&f), "abc"));
    CU_ASSERT_EQUAL(f.bytes.pos, 105);
    CU_ASSERT(proto_next(&c, &f) && proto_is(&f, 3, PROTO_FIXED64) &&
              f.value == UINT64_C(0x8000000000000001));
    CU_ASSERT(proto_next(&c, &f) && proto_is(&f, 4, PROTO_FIXED32) && f.value == 0x01020304);
    CU_ASSERT(proto_next(&c, &f) && proto_is(&f, 16, PROTO_VARINT) && !proto_is(&f, 16, PROTO_BYTES));
    CU_ASSERT(!proto_next(&c, &f) && !c.bad);
}

static void largest_number(void)
{
    struct proto_field f;
    cursor c = message(STR_LIT("\10\377\377\377\377\377\377\377\377\377\1"));
    CU_ASSERT(proto_next(&c, &f) && f.value == UINT64_MAX);
}

static void malformed(void)
{
    static const ckpt_str bad[] = {
        {"\10", 1},                                            /* no value */
        {"\10\200", 2},                                        /* half a value */
        {"\10\377\377\377\377\377\377\377\377\377\2", 11},     /* 65 bits */
        {"\10\200\200\200\200\200\200\200\200\200\200\1", 12}, /* 11 bytes */
        {"\22\4abc", 5},                                       /* more bytes than there are */
        {"\22\377\377\377\377\377\377\377\377\377\1", 11},     /* 2^64 - 1 of them */
        {"\31\1\2\3", 4},                                      /* half a number */
        {"\45\1\2", 3},
        {"\13\14", 2}, /* a group */
        {"\17\0", 2},  /* no wire type */
        {"\0\0", 2},   /* field 0 */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct proto_field f;
        unsigned char *at = unit_guard(bad[i].ptr, bad[i].len);
        cursor c = cursor_of(at, bad[i].len, 0);
        CU_ASSERT(!proto_next(&c, &f) && c.bad);
        CU_ASSERT(!proto_next(&c, &f)); /* and stays so */
        unit_guard_free(at, bad[i].len);
    }
}

void suite_protobuf(void)
{
    UNIT(fields);
    UNIT(largest_number);
    UNIT(malformed);
}
