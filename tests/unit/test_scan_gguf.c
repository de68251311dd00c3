/* Scanning GGUF files: every count, length and offset is checked, and wrong ones are reported with their
 * offset. */
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

/* A number below 256 as uint32 and as uint64; N is its lowest byte. */
#define N4(n) n "\0\0\0"
#define N8(n) n "\0\0\0\0\0\0\0"
#define MAX8  "\xff\xff\xff\xff\xff\xff\xff\x7f" /* 2^63 - 1 */

/* HEAD has the numbers of tensors and key-value pairs, in 24 bytes; KEY and NAME have the length N before the
 * text; PAIR is a file with the single pair "k". */
#define HEAD(t, p)          "GGUF" N4("\x03") N8(t) N8(p)
#define KEY(n, name)        N8(n) name
#define NAME(n, name, dims) N8(n) name N4(dims)
#define PAIR(type, value)   HEAD("\0", "\x01") KEY("\x01", "k") N4(type) value

static struct scanned scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

/* check_valid - checks that BYTES, padded with zeros to SIZE, have no findings. */
static void check_valid(ckpt_str bytes, size_t size, int line)
{
    unsigned char *b = calloc(1, size);
    CU_ASSERT_FATAL(b && bytes.len <= size);
    memcpy(b, bytes.ptr, bytes.len);
    struct scanned s = scan_buffer(b, size, 0);
    bool fine = s.status == CKPT_OK && s.findings == 0 && s.result.accounted == size && s.result.format &&
                strcmp(s.result.format, "gguf") == 0;
    if (!fine)
        scan_has_finding(&s, 0, "", 0, "", line);
    CU_ASSERT(fine);
    free(b);
}
#define CHECK_VALID(bytes, size) check_valid(TEXT(bytes), size, __LINE__)

#define F32_2X2 NAME("\x01", "t", "\x02") N8("\x02") N8("\x02") N4("\0")

static void valid_files_are_accounted_for_completely(void)
{
    CHECK_VALID(HEAD("\0", "\0"), 24);
    CHECK_VALID(HEAD("\0", "\0"), 32);
    CHECK_VALID(PAIR("\0", "x"), 38);
    CHECK_VALID(PAIR("\x0c", "12345678"), 45);
    CHECK_VALID(PAIR("\x08", N8("\x03") "abc"), 48);
    CHECK_VALID(PAIR("\x09", N4("\x04") N8("\x02") "12345678"), 57);
    CHECK_VALID(PAIR("\x09", N4("\x08") N8("\x02") N8("\x01") "a" N8("\0")), 66);
    CHECK_VALID(HEAD("\0", "\x01") KEY("\x11", "general.alignment") N4("\x04") N4("\x40"), 64);
    CHECK_VALID(HEAD("\x01", "\0") F32_2X2 N8("\0"), 96 + 32);
    CHECK_VALID(HEAD("\x01", "\0") NAME("\x01", "t", "\0") N4("\0") N8("\0"), 64 + 32);
}

static void malformed_headers_are_reported_with_offsets(void)
{
    FINDING(scan(TEXT("GGUF" N4("\x04"))), 1, "FMT003", 4, "GGUF of version 4; 1 to 3 are read");
    FINDING(scan(TEXT("GGUF\0\0\0\x04")), 1, "FMT003", 4, "GGUF of version 4; 1 to 3 are read");
    FINDING(scan(TEXT("GGUF" N4("\x01") "\0\0\0\0\0\0\0\0")), 1, "FMT002", 4, "version 1; ggml reads");
    FINDING(scan(TEXT("GGUF" N4("\x02") "1234")), 1, "FMT002", 8, "the file ends inside its header");
    FINDING(scan(TEXT(HEAD("\x09", "\0"))), 1, "FMT002", 8, "9 tensors and 0 pairs in 24 bytes");
    FINDING(scan(TEXT(HEAD("\0", "\x09"))), 1, "FMT002", 8, "0 tensors and 9 pairs in 24 bytes");
    FINDING(scan(TEXT(HEAD("\0", "\x01") "1234")), 1, "FMT002", 24, "the file ends inside a key");
    FINDING(scan(TEXT(HEAD("\0", "\x01") N8("\xff") "k")), 1, "FMT002", 32, "the file ends inside a key");
    FINDING(scan(TEXT(HEAD("\0", "\x01") "\0\0\x01\0\0\0\0\0")), 1, "FMT002", 24,
            "a key of 65536 bytes; at most 65535 are allowed");
    FINDING(scan(TEXT(HEAD("\0", "\x01") N8("\0") "12345678")), 1, "FMT002", 24, "an empty key");
    FINDING(scan(TEXT(HEAD("\0", "\x01") KEY("\x01", "k") "12")), 1, "FMT002", 33, "ends inside a pair");
    FINDING(scan(TEXT(PAIR("\x0d", ""))), 1, "FMT002", 24, "a value of type 13");
    FINDING(scan(TEXT(PAIR("\x04", "12"))), 1, "FMT002", 37, "the file ends inside a value");
    FINDING(scan(TEXT(PAIR("\x08", "12"))), 1, "FMT002", 37, "the file ends inside a text");
    FINDING(scan(TEXT(PAIR("\x08", N8("\x09") "12"))), 1, "FMT002", 45, "the file ends inside a value");
    FINDING(scan(TEXT(HEAD("\0", "\x02") KEY("\x01", "k") N4("\0") "1" KEY("\x01", "k") N4("\0") "1")), 1,
            "FMT002", 38, "two keys of one name");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x04")))), 1, "FMT002", 41, "the file ends inside an array");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x0d") N8("\0")))), 1, "FMT002", 37, "an array of type 13");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x09") N8("\0")))), 1, "FMT002", 49, "an array of arrays; ggml");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x04") N8("\x02") "1234567"))), 1, "FMT002", 37,
            "an array of 2 elements; the file has 7 bytes left");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x0a") MAX8))), 1, "FMT002", 37, "an array of 9223372036854775807");
    FINDING(scan(TEXT(PAIR("\x09", N4("\x08") N8("\x01") N8("\x09")))), 1, "FMT002", 57, "inside a value");
    FINDING(scan(TEXT(PAIR("\x08", N8("\x01") "x") "more bytes than are filled up with")), 1, "FMT002", 64,
            "16 bytes after a header without tensors");
}

#define ALIGNED(type, n) HEAD("\0", "\x01") KEY("\x11", "general.alignment") N4(type) n

static void alignments_must_be_powers_of_two(void)
{
    FINDING(scan(TEXT(ALIGNED("\x0a", N8("\x20")))), 1, "FMT002", 53, "general.alignment has type 10");
    FINDING(scan(TEXT(ALIGNED("\x04", "12"))), 1, "FMT002", 53, "the file ends inside a value");
    FINDING(scan(TEXT(ALIGNED("\x04", N4("\0")))), 1, "FMT002", 53,
            "an alignment of 0 is not a power of two");
    FINDING(scan(TEXT(ALIGNED("\x04", N4("\x30")))), 1, "FMT002", 53, "an alignment of 48 is not a power");
}

static void control_characters_and_templates_are_reported(void)
{
    struct scanned s = scan(TEXT(HEAD("\0", "\x01") KEY("\x03", "a\x1b"
                                                                "b") N4("\0") "1"));
    FINDING(s, 1, "TXT001", 24, "a key holds the character 0x1b");
    FINDING(scan(TEXT(HEAD("\0", "\x01") KEY("\x01", "\x7f") N4("\0") "1")), 1, "TXT001", 24, "0x7f");
    s = scan(TEXT(HEAD("\0", "\x01") KEY("\x17", "tokenizer.chat_template") N4("\x08") N8("\x02") "{}"));
    FINDING(s, 1, "TPL001", 59, "a chat template of 2 bytes");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
}

#define TENSORS(n, rest)             HEAD(n, "\0") rest
#define ROW(name, dim, type, offset) NAME("\x01", name, "\x01") dim N4(type) offset

#define NAME_64 "0123456789012345678901234567890123456789012345678901234567890123"

static void malformed_tensors_are_reported(void)
{
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x40", NAME_64, "\x01") N8("\0") N4("\0") N8("\0")))), 1,
            "FMT002", 24, "a tensor's name of 64 bytes; ggml allows 63");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x01", "t", "\x05") N8("\0") N8("\1") N8("\1") N8("\1") N8("\1")
                                          N4("\0") N8("\0")))),
            1, "FMT002", 33, "a tensor of 5 dimensions; ggml allows 4");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x01", "t", "\x09") "12345678901"))), 1, "FMT002", 33,
            "a tensor of 9 dimensions; at most 8 are allowed");
    FINDING(scan(TEXT(TENSORS("\x01", N8("\x0d") "1234567890123"
                                                 "12"))),
            1, "FMT002", 45, "a tensor's shape");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x04", "name", "\x01") "1234567"))), 1, "FMT002", 40,
            "the file ends inside a tensor's shape");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x01", "t", "\x02") MAX8 N8("\x03")))), 1, "FMT002", 33,
            "a tensor of more than 2^63 elements");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x01", "t", "\x02") MAX8 N8("\x02")))), 1, "FMT002", 33,
            "a tensor of more than 2^63 elements");
    FINDING(scan(TEXT(TENSORS("\x01", NAME("\x01", "t", "\x01") N8("\x01") "12"))), 1, "FMT002", 45,
            "a tensor");
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", N8("\x01"), "\x05", N8("\0"))))), 1, "FMT002", 24,
            "a tensor of type 5; a type of ggml was expected");
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", N8("\x01"), "\xff", N8("\0"))))), 1, "FMT002", 24, "type 255");
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", N8("\x21"), "\x02", N8("\0"))))), 1, "FMT002", 24,
            "rows of 33 elements in blocks of 32");
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", N8("\x01"), "\0", N8("\x20"))))), 1, "FMT002", 24,
            "a tensor at 32 of the data; those before it end at 0");
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", N8("\x01"), "\0", N8("\0"))))), 1, "FMT002", 64,
            "the tensors need 32 bytes, the file ends before");
    FINDING(scan(TEXT(TENSORS("\x01",
                              ROW("t", N8("\x01"), "\0", N8("\0"))) "\0\0\0\0\0\0\0"
                                                                    "01234567890123456789012345678901more")),
            1, "FMT002", 96, "4 bytes follow the last tensor");
    FINDING(scan(TEXT(TENSORS("\x02",
                              ROW("t", N8("\x01"), "\0", N8("\0")) ROW("t", N8("\x01"), "\0", N8("\x20"))))),
            1, "FMT002", 57, "two tensors of one name");
}

/* An element of type 24 (I8) has one byte, one of type 27 (I64) has eight. */
static void sizes_beyond_64_bits_are_reported(void)
{
    FINDING(scan(TEXT(TENSORS("\x01", ROW("t", MAX8, "\x1b", N8("\0"))))), 1, "FMT002", 24,
            "elements has more than 2^64 bytes");
#define HALF "\0\0\0\0\0\0\0\x80" /* MAX8, aligned */
    FINDING(scan(TEXT(TENSORS("\x02", ROW("t", MAX8, "\x18", N8("\0")) ROW("u", MAX8, "\x18", HALF)))), 1,
            "FMT002", 57, "elements has more than 2^64 bytes");
    FINDING(scan(TEXT(TENSORS("\x02", ROW("t", MAX8, "\x18", N8("\0")) ROW("u", MAX8, "\x19", HALF)))), 1,
            "FMT002", 57, "elements has more than 2^64 bytes");
    FINDING(scan(TEXT(TENSORS("\x02", ROW("t", MAX8, "\x18", N8("\0"))
                                          ROW("u", "\xe0\xff\xff\xff\xff\xff\xff\x7f", "\x18", HALF)))),
            1, "FMT002", 90, "the tensors have more than 2^64 bytes");
}

static void gguf_members_of_archives_are_scanned(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "a.gguf", "", '0', "00000000030", TEXT(HEAD("\0", "\0")));
    struct scanned s = scan(str_of((const char *)b.data, b.len));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
    CU_ASSERT_STRING_EQUAL(s.result.format, "tar");
    buf_free(&b);
}

void suite_scan_gguf(void)
{
    UNIT(valid_files_are_accounted_for_completely);
    UNIT(malformed_headers_are_reported_with_offsets);
    UNIT(alignments_must_be_powers_of_two);
    UNIT(control_characters_and_templates_are_reported);
    UNIT(malformed_tensors_are_reported);
    UNIT(sizes_beyond_64_bits_are_reported);
    UNIT(gguf_members_of_archives_are_scanned);
}
