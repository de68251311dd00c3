/* Scanning MessagePack: the file must be one valid map to its last byte, and its values are scanned. */
#include "scanned.h"
#include "tarball.h"

#define KEY_K "\xa1k"

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static bool is_msgpack(ckpt_str bytes)
{
    struct scan_results s = scan(bytes);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    bool detected = s.result.format && strcmp(s.result.format, "msgpack") == 0;
    if (detected) {
        CU_ASSERT(s.findings == 0 && s.result.accounted == s.result.bytes);
    } else {
        CU_ASSERT(s.findings == 1 && s.result.accounted == 0);
        CU_ASSERT(strcmp(s.first_finding.rule, "malformed") == 0 ||
                  strcmp(s.first_finding.rule, "unknown-format") == 0 ||
                  strcmp(s.first_finding.rule, "format-not-scanned") == 0);
    }
    return detected;
}

/* Check that a map of one pair, the key "k" and VALUE, is valid, or that it is not. */
#define CHECK_VALID(value)   CU_ASSERT(is_msgpack(TEXT("\x81" KEY_K value)))
#define CHECK_INVALID(value) CU_ASSERT(!is_msgpack(TEXT("\x81" KEY_K value)))

static void every_kind_of_value_is_read(void)
{
    CHECK_VALID("\xc0"); /* nil */
    CHECK_VALID("\xc2"); /* false */
    CHECK_VALID("\xc3"); /* true */
    CHECK_VALID("\x7f"); /* fixint */
    CHECK_VALID("\xff"); /* negative fixint */
    CHECK_VALID("\xa3"
                "abc");               /* fixstr */
    CHECK_VALID("\x92\x01\x02");      /* fixarray */
    CHECK_VALID("\x81" KEY_K "\x01"); /* fixmap */
    CHECK_VALID("\xca"
                "1234"); /* float 32 */
    CHECK_VALID("\xcb"
                "12345678"); /* float 64 */
    CHECK_VALID("\xcc"
                "1"); /* uint 8 */
    CHECK_VALID("\xcd"
                "12"); /* uint 16 */
    CHECK_VALID("\xce"
                "1234"); /* uint 32 */
    CHECK_VALID("\xcf"
                "12345678"); /* uint 64 */
    CHECK_VALID("\xd0"
                "1"); /* int 8 */
    CHECK_VALID("\xd1"
                "12"); /* int 16 */
    CHECK_VALID("\xd2"
                "1234"); /* int 32 */
    CHECK_VALID("\xd3"
                "12345678"); /* int 64 */
    CHECK_VALID("\xd4\x01"
                "1"); /* fixext 1 */
    CHECK_VALID("\xd5\x02"
                "12"); /* fixext 2 */
    CHECK_VALID("\xd6\xff"
                "1234"); /* fixext 4: a timestamp */
    CHECK_VALID("\xd7\x01"
                "12345678"); /* fixext 8 */
    CHECK_VALID("\xd8\x03"
                "1234567890123456"); /* fixext 16 */
    CHECK_VALID("\xc4\x02"
                "12"); /* bin 8 */
    CHECK_VALID("\xc5\0\x02"
                "12"); /* bin 16 */
    CHECK_VALID("\xc6\0\0\0\x02"
                "12"); /* bin 32 */
    CHECK_VALID("\xd9\x02"
                "12"); /* str 8 */
    CHECK_VALID("\xda\0\x02"
                "12"); /* str 16 */
    CHECK_VALID("\xdb\0\0\0\x02"
                "12"); /* str 32 */
    CHECK_VALID("\xc7\x02\x01"
                "12"); /* ext 8 */
    CHECK_VALID("\xc8\0\x02\x01"
                "12"); /* ext 16 */
    CHECK_VALID("\xc9\0\0\0\x02\x01"
                "12");                          /* ext 32 */
    CHECK_VALID("\xdc\0\x02\x01\x02");          /* array 16 */
    CHECK_VALID("\xdd\0\0\0\x02\x01\x02");      /* array 32 */
    CHECK_VALID("\xde\0\x01" KEY_K "\x01");     /* map 16 */
    CHECK_VALID("\xdf\0\0\0\x01" KEY_K "\x01"); /* map 32 */
    CU_ASSERT(is_msgpack(TEXT("\xde\0\x01" KEY_K "\x01")));
    CU_ASSERT(is_msgpack(TEXT("\xdf\0\0\0\x01\xd9\x01k\x01")));
}

static void malformed_maps_are_refused(void)
{
    CHECK_INVALID("");     /* no value */
    CHECK_INVALID("\xc1"); /* a code that is never used */
    /* values that end before their last byte or element */
    CHECK_INVALID("\xca"
                  "123");
    CHECK_INVALID("\xc4");
    CHECK_INVALID("\xc4\x03"
                  "12");
    CHECK_INVALID("\xc5\0");
    CHECK_INVALID("\xc6\0\0\0");
    CHECK_INVALID("\xd9");
    CHECK_INVALID("\xda\0");
    CHECK_INVALID("\xdb\0\0\0");
    CHECK_INVALID("\xc7");
    CHECK_INVALID("\xc7\x01");
    CHECK_INVALID("\xc7\x03\x01"
                  "12");
    CHECK_INVALID("\xc8\0");
    CHECK_INVALID("\xc9\0\0\0");
    CHECK_INVALID("\xd5\x01"
                  "1");
    CHECK_INVALID("\xdc\0");
    CHECK_INVALID("\xdc\0\x03\x01\x02");
    CHECK_INVALID("\xdd\0\0\0");
    CHECK_INVALID("\xdd\xff\xff\xff\xff");
    CHECK_INVALID("\xde\0");
    CHECK_INVALID("\xdf\0\0\0");
    CHECK_INVALID("\xdf\xff\xff\xff\xff");
    CHECK_INVALID("\x93\x93\x01\x02\x03\x93");        /* each array fits, but not all of them together */
    CHECK_INVALID("\x01\x01");                        /* a byte after the map */
    CU_ASSERT(!is_msgpack(TEXT("\x80\xff\xff")));     /* an empty map, then two numbers */
    CU_ASSERT(!is_msgpack(TEXT("\x81\xc1\xff")));     /* a key of the code that is never used */
    CU_ASSERT(!is_msgpack(TEXT("\x81\xdc\0\0\xff"))); /* an array as a key */
    CU_ASSERT(!is_msgpack(TEXT("\xdc\0\x01\x01")));   /* an array instead of a map */
    CU_ASSERT(!is_msgpack(TEXT("\x81\xff")));         /* a key without a value */
}

static void unknown_extensions_are_reported_once(void)
{
    struct scan_results s = scan(TEXT("\x82" KEY_K "\xd4\x05"
                                      "x" KEY_K "\xd4\0"
                                      "x"));
    CHECK_ONLY_FINDING(s, "format-not-scanned", 4, "an extension of type 5, which only its program can read");
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    CHECK_ONLY_FINDING(scan(TEXT("\x81" KEY_K "\xd4\x80"
                                 "x")),
                       "format-not-scanned", 4, "an extension of type -128");
}

static void values_are_scanned(void)
{
    /* bin 8; its 20 bytes are at 5 */
    struct scan_results s = scan(TEXT("\x81" KEY_K "\xc4\x14" CALL_OS_SYSTEM));
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.first_finding.where, "value@0x5");
    CU_ASSERT_STRING_EQUAL(s.result.format, "msgpack");
    s = scan(TEXT("\x81" KEY_K "\xc7\x14\x09" CALL_OS_SYSTEM)); /* an extension of the unknown type 9 */
    CU_ASSERT(s.findings == 2 && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    /* type 1 is an array of flax, whose bytes are not scanned */
    CU_ASSERT_EQUAL(scan(TEXT("\x81" KEY_K "\xc7\x14\x01" CALL_OS_SYSTEM)).findings, 0);
    buf b;
    ckpt_scan_options one_level = {.struct_size = sizeof one_level, .max_depth = 1};
    buf_init(&b, 1 << 20);
    tar_member(&b, "a", '0', TEXT("\x81" KEY_K "\xc4\x14" CALL_OS_SYSTEM));
    s = scan_buffer_as(str_of((const char *)b.data, b.len), NULL, &one_level, 0);
    CHECK_ONLY_FINDING(s, "not-opened", 5, "its values are nested too deep to be opened");
    s = scan(str_of((const char *)b.data, b.len));
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.first_finding.where, "a!value@0x5");
    buf_free(&b);
}

void suite_scan_msgpack(void)
{
    UNIT(every_kind_of_value_is_read);
    UNIT(malformed_maps_are_refused);
    UNIT(unknown_extensions_are_reported_once);
    UNIT(values_are_scanned);
}
