/* MessagePack under scan: a map to its last byte, or none; what lies in its values is looked into. */
#include "scanned.h"
#include "tarball.h"

#define KEY "\xa1k"

static struct scanned scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static bool is_msgpack(ckpt_str bytes)
{
    struct scanned s = scan(bytes);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    bool yes = s.result.format && strcmp(s.result.format, "msgpack") == 0;
    CU_ASSERT(yes ? s.findings == 0 && s.result.accounted == s.result.bytes
                  : s.findings == 1 && strncmp(s.first.id, "FMT00", 5) == 0 && s.result.accounted == 0);
    return yes;
}

/* A map of one value. */
#define IS(value)  CU_ASSERT(is_msgpack(TEXT("\x81" KEY value)))
#define NOT(value) CU_ASSERT(!is_msgpack(TEXT("\x81" KEY value)))

static void every_kind_of_value_is_passed_over(void)
{
    IS("\xc0");
    IS("\xc2");
    IS("\xc3");
    IS("\x7f");
    IS("\xff");
    IS("\xa3"
       "abc");
    IS("\x92\x01\x02");
    IS("\x81" KEY "\x01");
    IS("\xca"
       "1234");
    IS("\xcb"
       "12345678");
    IS("\xcc"
       "1");
    IS("\xcd"
       "12");
    IS("\xce"
       "1234");
    IS("\xcf"
       "12345678");
    IS("\xd0"
       "1");
    IS("\xd1"
       "12");
    IS("\xd2"
       "1234");
    IS("\xd3"
       "12345678");
    IS("\xd4\x01"
       "1");
    IS("\xd5\x02"
       "12");
    IS("\xd6\xff"
       "1234"); /* a time */
    IS("\xd7\x01"
       "12345678");
    IS("\xd8\x03"
       "1234567890123456");
    IS("\xc4\x02"
       "12");
    IS("\xc5\0\x02"
       "12");
    IS("\xc6\0\0\0\x02"
       "12");
    IS("\xd9\x02"
       "12");
    IS("\xda\0\x02"
       "12");
    IS("\xdb\0\0\0\x02"
       "12");
    IS("\xc7\x02\x01"
       "12");
    IS("\xc8\0\x02\x01"
       "12");
    IS("\xc9\0\0\0\x02\x01"
       "12");
    IS("\xdc\0\x02\x01\x02");
    IS("\xdd\0\0\0\x02\x01\x02");
    IS("\xde\0\x01" KEY "\x01");
    IS("\xdf\0\0\0\x01" KEY "\x01");
    CU_ASSERT(is_msgpack(TEXT("\xde\0\x01" KEY "\x01")));
    CU_ASSERT(is_msgpack(TEXT("\xdf\0\0\0\x01\xd9\x01k\x01")));
}

static void what_is_cut_or_goes_on_is_none(void)
{
    NOT("");
    NOT("\xc1");
    NOT("\xca"
        "123");
    NOT("\xc4");
    NOT("\xc4\x03"
        "12");
    NOT("\xc5\0");
    NOT("\xc6\0\0\0");
    NOT("\xd9");
    NOT("\xda\0");
    NOT("\xdb\0\0\0");
    NOT("\xc7");
    NOT("\xc7\x01");
    NOT("\xc7\x03\x01"
        "12");
    NOT("\xc8\0");
    NOT("\xc9\0\0\0");
    NOT("\xd5\x01"
        "1");
    NOT("\xdc\0");
    NOT("\xdc\0\x03\x01\x02");
    NOT("\xdd\0\0\0");
    NOT("\xdd\xff\xff\xff\xff");
    NOT("\xde\0");
    NOT("\xdf\0\0\0");
    NOT("\xdf\xff\xff\xff\xff");
    NOT("\x93\x93\x01\x02\x03\x93"); /* fewer bytes than values are to come, in sum alone */
    NOT("\x01\x01");
    CU_ASSERT(!is_msgpack(TEXT("\x80\xff\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xc1\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xdc\0\0\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\xdc\0\x01\x01")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xff")));
}

static void extensions_of_others_are_told_once(void)
{
    struct scanned s = scan(TEXT("\x82" KEY "\xd4\x05"
                                 "x" KEY "\xd4\0"
                                 "x"));
    FINDING(s, 1, "FMT003", 4, "an extension of type 5, which only its program can read");
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    FINDING(scan(TEXT("\x81" KEY "\xd4\x80"
                      "x")),
            1, "FMT003", 4, "an extension of type -128");
}

static void values_are_looked_into(void)
{
    struct scanned s = scan(TEXT("\x81" KEY "\xc4\x14" CALL));
    FINDING(s, 1, "PKL002", 18, "");
    CU_ASSERT_STRING_EQUAL(s.first.where, "value@0x5");
    CU_ASSERT_STRING_EQUAL(s.result.format, "msgpack");
    s = scan(TEXT("\x81" KEY "\xc7\x14\x09" CALL));
    CU_ASSERT(s.findings == 2 && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(scan(TEXT("\x81" KEY "\xc7\x14\x01" CALL)).findings, 0); /* numbers */
    buf b;
    ckpt_scan_options flat = {.struct_size = sizeof flat, .max_depth = 1};
    buf_init(&b, 1 << 20);
    tar_put(&b, "a", "", '0', "00000000031", TEXT("\x81" KEY "\xc4\x14" CALL));
    s = scan_buffer_as(str_of((const char *)b.data, b.len), NULL, &flat, 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
    s = scan(str_of((const char *)b.data, b.len));
    FINDING(s, 1, "PKL002", 18, "");
    CU_ASSERT_STRING_EQUAL(s.first.where, "a!value@0x5");
    buf_free(&b);
}

void suite_scan_msgpack(void)
{
    UNIT(every_kind_of_value_is_passed_over);
    UNIT(what_is_cut_or_goes_on_is_none);
    UNIT(extensions_of_others_are_told_once);
    UNIT(values_are_looked_into);
}
