/* Scanning MessagePack: the file must be one valid map to its last byte, and its values are scanned. */
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

/* Check that a map with VALUE as its only value is valid, or that it is not. */
#define VALID(value)   CU_ASSERT(is_msgpack(TEXT("\x81" KEY value)))
#define INVALID(value) CU_ASSERT(!is_msgpack(TEXT("\x81" KEY value)))

static void every_kind_of_value_is_read(void)
{
    VALID("\xc0");
    VALID("\xc2");
    VALID("\xc3");
    VALID("\x7f");
    VALID("\xff");
    VALID("\xa3"
          "abc");
    VALID("\x92\x01\x02");
    VALID("\x81" KEY "\x01");
    VALID("\xca"
          "1234");
    VALID("\xcb"
          "12345678");
    VALID("\xcc"
          "1");
    VALID("\xcd"
          "12");
    VALID("\xce"
          "1234");
    VALID("\xcf"
          "12345678");
    VALID("\xd0"
          "1");
    VALID("\xd1"
          "12");
    VALID("\xd2"
          "1234");
    VALID("\xd3"
          "12345678");
    VALID("\xd4\x01"
          "1");
    VALID("\xd5\x02"
          "12");
    VALID("\xd6\xff"
          "1234"); /* a timestamp */
    VALID("\xd7\x01"
          "12345678");
    VALID("\xd8\x03"
          "1234567890123456");
    VALID("\xc4\x02"
          "12");
    VALID("\xc5\0\x02"
          "12");
    VALID("\xc6\0\0\0\x02"
          "12");
    VALID("\xd9\x02"
          "12");
    VALID("\xda\0\x02"
          "12");
    VALID("\xdb\0\0\0\x02"
          "12");
    VALID("\xc7\x02\x01"
          "12");
    VALID("\xc8\0\x02\x01"
          "12");
    VALID("\xc9\0\0\0\x02\x01"
          "12");
    VALID("\xdc\0\x02\x01\x02");
    VALID("\xdd\0\0\0\x02\x01\x02");
    VALID("\xde\0\x01" KEY "\x01");
    VALID("\xdf\0\0\0\x01" KEY "\x01");
    CU_ASSERT(is_msgpack(TEXT("\xde\0\x01" KEY "\x01")));
    CU_ASSERT(is_msgpack(TEXT("\xdf\0\0\0\x01\xd9\x01k\x01")));
}

static void malformed_maps_are_refused(void)
{
    INVALID("");
    INVALID("\xc1");
    INVALID("\xca"
            "123");
    INVALID("\xc4");
    INVALID("\xc4\x03"
            "12");
    INVALID("\xc5\0");
    INVALID("\xc6\0\0\0");
    INVALID("\xd9");
    INVALID("\xda\0");
    INVALID("\xdb\0\0\0");
    INVALID("\xc7");
    INVALID("\xc7\x01");
    INVALID("\xc7\x03\x01"
            "12");
    INVALID("\xc8\0");
    INVALID("\xc9\0\0\0");
    INVALID("\xd5\x01"
            "1");
    INVALID("\xdc\0");
    INVALID("\xdc\0\x03\x01\x02");
    INVALID("\xdd\0\0\0");
    INVALID("\xdd\xff\xff\xff\xff");
    INVALID("\xde\0");
    INVALID("\xdf\0\0\0");
    INVALID("\xdf\xff\xff\xff\xff");
    INVALID("\x93\x93\x01\x02\x03\x93"); /* each array fits, but not all of them together */
    INVALID("\x01\x01");
    CU_ASSERT(!is_msgpack(TEXT("\x80\xff\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xc1\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xdc\0\0\xff")));
    CU_ASSERT(!is_msgpack(TEXT("\xdc\0\x01\x01")));
    CU_ASSERT(!is_msgpack(TEXT("\x81\xff")));
}

static void unknown_extensions_are_reported_once(void)
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

static void values_are_scanned(void)
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
    UNIT(every_kind_of_value_is_read);
    UNIT(malformed_maps_are_refused);
    UNIT(unknown_extensions_are_reported_once);
    UNIT(values_are_scanned);
}
