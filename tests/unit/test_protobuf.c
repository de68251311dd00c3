/* Protobuf fields of every wire type are read, and malformed messages are refused. */
#include "codec/protobuf.h"
#include "unit.h"

static cursor open_message(ckpt_str bytes) { return cursor_of(bytes.ptr, bytes.len, 100); }

static void fields_are_read(void)
{
    struct proto_field f;
    cursor c = open_message(STR_LIT("\10\226\1\22\3abc\31\1\0\0\0\0\0\0\200"
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

static void the_largest_number_is_read(void)
{
    struct proto_field f;
    cursor c = open_message(STR_LIT("\10\377\377\377\377\377\377\377\377\377\1"));
    CU_ASSERT(proto_next(&c, &f) && f.value == UINT64_MAX);
}

static void malformed_messages_are_refused(void)
{
    static const ckpt_str messages[] = {
        {"\10", 1},                                            /* no value */
        {"\10\200", 2},                                        /* a truncated value */
        {"\10\377\377\377\377\377\377\377\377\377\2", 11},     /* a value of 65 bits */
        {"\10\200\200\200\200\200\200\200\200\200\200\1", 12}, /* a value of 11 bytes */
        {"\22\4abc", 5},                                       /* a length of 4, and 3 bytes */
        {"\22\377\377\377\377\377\377\377\377\377\1", 11},     /* a length of 2^64 - 1 */
        {"\31\1\2\3", 4},                                      /* a truncated fixed64 */
        {"\45\1\2", 3},                                        /* a truncated fixed32 */
        {"\13\14", 2},                                         /* a group */
        {"\17\0", 2},                                          /* wire type 7, which does not exist */
        {"\0\0", 2},                                           /* field 0 */
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct proto_field f;
        unsigned char *copy = unit_guard(messages[i].ptr, messages[i].len);
        cursor c = cursor_of(copy, messages[i].len, 0);
        CU_ASSERT(!proto_next(&c, &f) && c.bad);
        CU_ASSERT(!proto_next(&c, &f)); /* the next call fails, too */
        unit_guard_free(copy, messages[i].len);
    }
}

/* count_fields - reads BYTES from a source, to the end or to a field that fails. Returns the number of fields
 * that were read, and sets *ST to the last status. */
static unsigned count_fields(ckpt_str bytes, ckpt_status *st)
{
    reader r;
    struct proto_field f;
    unsigned n = 0;
    source *src = source_mem(bytes.ptr, bytes.len, 0);
    *st = reader_init(&r, src, 0, bytes.len, NULL);
    for (; *st == CKPT_OK && reader_left(&r); n += *st == CKPT_OK) {
        *st = proto_read(&r, &f);
        if (*st == CKPT_OK && f.wire == PROTO_BYTES)
            (void)reader_skip(&r, f.value);
    }
    reader_free(&r);
    source_unref(src);
    return n;
}

static void fields_of_a_source_are_read(void)
{
    ckpt_status st;
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\10\226\1\22\3abc\31\1\0\0\0\0\0\0\200"
                                         "\45\4\3\2\1\200\1\0"),
                                 &st),
                    5);
    CU_ASSERT_EQUAL(st, CKPT_OK);
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\10\1\10\200"), &st), 1); /* a truncated value */
    CU_ASSERT_EQUAL(st, CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\10\377\377\377\377\377\377\377\377\377\2"), &st), 0); /* 65 bits */
    CU_ASSERT_EQUAL(st, CKPT_EFORMAT);
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\31\1\2\3"), &st), 0);
    CU_ASSERT_EQUAL(st, CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\13\14"), &st), 0); /* a group */
    CU_ASSERT_EQUAL(st, CKPT_EFORMAT);
    CU_ASSERT_EQUAL(count_fields(STR_LIT("\2\0"), &st), 0); /* field 0 */
    CU_ASSERT_EQUAL(st, CKPT_EFORMAT);
}

void suite_protobuf(void)
{
    UNIT(fields_are_read);
    UNIT(the_largest_number_is_read);
    UNIT(malformed_messages_are_refused);
    UNIT(fields_of_a_source_are_read);
}
