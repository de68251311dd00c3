/* Scanning GGUF files: every count, length and offset is checked, and wrong ones are reported with their
 * offset. */
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

/* A number below 256, given as its lowest byte. */
#define U32(byte)       byte "\0\0\0"
#define U64(byte)       byte "\0\0\0\0\0\0\0"
#define INT64_MAX_BYTES "\xff\xff\xff\xff\xff\xff\xff\x7f"

/* types of values */
#define UINT8   "\0"
#define UINT32  "\x04"
#define STRING  "\x08"
#define ARRAY   "\x09"
#define UINT64  "\x0a"
#define FLOAT64 "\x0c"

/* types of tensors */
#define F32  "\0"
#define Q4_0 "\x02" /* blocks of 32 elements */
#define I8   "\x18"
#define I16  "\x19"
#define I64  "\x1b"

/* HEADER - 24 bytes: the signature, version 3, and the numbers of tensors and of key-value pairs. KEY - a
 * length and a name. TENSOR_NAME - these and the number of dimensions. FILE_OF_PAIR - a file with one pair,
 * whose key is "k": the key is at 24, the type of the value at 33, the value at 37. */
#define HEADER(tensors, pairs)          "GGUF" U32("\x03") U64(tensors) U64(pairs)
#define KEY(length, name)               U64(length) name
#define TENSOR_NAME(length, name, dims) U64(length) name U32(dims)
#define FILE_OF_PAIR(type, value)       HEADER("\0", "\x01") KEY("\x01", "k") U32(type) value

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

/* check_valid - checks that the file BYTES, padded with zeros to SIZE, has no findings. */
static void check_valid(ckpt_str bytes, size_t size, int line)
{
    unsigned char *b = calloc(1, size);
    CU_ASSERT_FATAL(b && bytes.len <= size);
    memcpy(b, bytes.ptr, bytes.len);
    struct scan_results s = scan_buffer(b, size, 0);
    bool is_clean = s.status == CKPT_OK && s.findings == 0 && s.result.accounted == size && s.result.format &&
                    strcmp(s.result.format, "gguf") == 0;
    if (!is_clean)
        scan_has_finding(&s, 0, "", 0, "", line);
    CU_ASSERT(is_clean);
    free(b);
}
#define CHECK_VALID(bytes, size) check_valid(TEXT(bytes), size, __LINE__)

#define MATRIX_2X2 TENSOR_NAME("\x01", "t", "\x02") U64("\x02") U64("\x02") U32(F32)

static void valid_files_are_accounted_for_completely(void)
{
    CHECK_VALID(HEADER("\0", "\0"), 24);
    CHECK_VALID(HEADER("\0", "\0"), 32); /* padded to the default alignment */
    CHECK_VALID(FILE_OF_PAIR(UINT8, "x"), 38);
    CHECK_VALID(FILE_OF_PAIR(FLOAT64, "12345678"), 45);
    CHECK_VALID(FILE_OF_PAIR(STRING, U64("\x03") "abc"), 48);
    CHECK_VALID(FILE_OF_PAIR(ARRAY, U32(UINT32) U64("\x02") "12345678"), 57);
    CHECK_VALID(FILE_OF_PAIR(ARRAY, U32(STRING) U64("\x02") U64("\x01") "a" U64("\0")), 66);
    /* padded to an alignment of 64 */
    CHECK_VALID(HEADER("\0", "\x01") KEY("\x11", "general.alignment") U32(UINT32) U32("\x40"), 64);
    /* a tensor: its description is padded, and 32 bytes of data follow */
    CHECK_VALID(HEADER("\x01", "\0") MATRIX_2X2 U64("\0"), 96 + 32);
    CHECK_VALID(HEADER("\x01", "\0") TENSOR_NAME("\x01", "t", "\0") U32(F32) U64("\0"), 64 + 32);
    /* a tensor without elements, whose data would begin at byte 64 */
    struct scan_results s = scan(
        TEXT(HEADER("\x01", "\0") TENSOR_NAME("\x01", "t", "\x01") U64("\0") U32(F32) U64("\0")));
    CU_ASSERT(s.status == CKPT_OK && s.result.bytes == 57 && s.result.in_tensors == 0);
}

static void malformed_headers_are_reported_with_offsets(void)
{
    CHECK_ONLY_FINDING(scan(TEXT("GGUF" U32("\x04"))), "format-not-scanned", 4,
                       "GGUF of version 4; 1 to 3 are read");
    CHECK_ONLY_FINDING(scan(TEXT("GGUF\0\0\0\x04")), "format-not-scanned", 4,
                       "GGUF of version 4; 1 to 3 are read"); /* the version is big-endian */
    CHECK_ONLY_FINDING(scan(TEXT("GGUF" U32("\x01") "\0\0\0\0\0\0\0\0")), "malformed", 4,
                       "version 1; ggml reads 2 and 3");
    CHECK_ONLY_FINDING(scan(TEXT("GGUF" U32("\x02") "1234")), "malformed", 8,
                       "the file ends inside its header");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\x09", "\0"))), "malformed", 8,
                       "9 tensors and 0 pairs do not fit in 24 bytes");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x09"))), "malformed", 8,
                       "0 tensors and 9 pairs do not fit in 24 bytes");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") "1234")), "malformed", 24,
                       "the file ends inside a key");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") U64("\xff") "k")), "malformed", 32,
                       "the file ends inside a key");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") "\0\0\x01\0\0\0\0\0")), "malformed", 24,
                       "a key of 65536 bytes; at most 65535 are allowed");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") U64("\0") "12345678")), "malformed", 24,
                       "an empty key");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") KEY("\x01", "k") "12")), "malformed", 33,
                       "ends inside a pair");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR("\x0d", ""))), "malformed", 24, "a value of type 13");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(UINT32, "12"))), "malformed", 37,
                       "the file ends inside a value");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(STRING, "12"))), "malformed", 37,
                       "the file ends inside a text");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(STRING, U64("\x09") "12"))), "malformed", 45,
                       "the file ends inside a value");
    CHECK_ONLY_FINDING(
        scan(TEXT(HEADER("\0", "\x02") KEY("\x01", "k") U32(UINT8) "1" KEY("\x01", "k") U32(UINT8) "1")),
        "malformed", 38, "two keys of one name");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32(UINT32)))), "malformed", 41,
                       "the file ends inside an array");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32("\x0d") U64("\0")))), "malformed", 37,
                       "an array of type 13");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32(ARRAY) U64("\0")))), "malformed", 49,
                       "an array of arrays; ggml");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32(UINT32) U64("\x02") "1234567"))), "malformed", 37,
                       "an array of 2 elements; the file has 7 bytes left");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32(UINT64) INT64_MAX_BYTES))), "malformed", 37,
                       "an array of 9223372036854775807");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(ARRAY, U32(STRING) U64("\x01") U64("\x09")))), "malformed", 57,
                       "inside a value");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_PAIR(STRING, U64("\x01") "x") "more bytes than are filled up with")),
                       "malformed", 64, "16 bytes after a header without tensors");
}

/* The value is at 53 = 24 + 8 + 17 + 4, after the header, the key and the type. */
#define FILE_WITH_ALIGNMENT(type, value) HEADER("\0", "\x01") KEY("\x11", "general.alignment") U32(type) value

static void alignments_must_be_powers_of_two(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(FILE_WITH_ALIGNMENT(UINT64, U64("\x20")))), "malformed", 53,
                       "general.alignment has type 10");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_WITH_ALIGNMENT(UINT32, "12"))), "malformed", 53,
                       "the file ends inside a value");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_WITH_ALIGNMENT(UINT32, U32("\0")))), "malformed", 53,
                       "an alignment of 0 is not a power of two");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_WITH_ALIGNMENT(UINT32, U32("\x30")))), "malformed", 53,
                       "an alignment of 48 is not a power");
}

static void control_characters_and_templates_are_reported(void)
{
    struct scan_results s = scan(TEXT(HEADER("\0", "\x01") KEY("\x03", "a\x1b"
                                                                       "b") U32(UINT8) "1"));
    CHECK_ONLY_FINDING(s, "control-character", 24, "a key holds the character 0x1b");
    CHECK_ONLY_FINDING(scan(TEXT(HEADER("\0", "\x01") KEY("\x01", "\x7f") U32(UINT8) "1")),
                       "control-character", 24, "0x7f");
    s = scan(TEXT(HEADER("\0", "\x01") KEY("\x17", "tokenizer.chat_template") U32(STRING) U64("\x02") "{}"));
    CHECK_ONLY_FINDING(s, "chat-template", 59,
                       "a chat template of 2 bytes"); /* 59: the offset of the value */
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
}

/* FILE_OF_TENSORS - a file with the descriptions of N tensors. VECTOR - 33 bytes: the description of a tensor
 * of SIZE elements, whose NAME has one letter, and whose data begin at OFFSET in the data of all tensors. The
 * descriptions are at 24, 57 and so on. In each, the number of dimensions is at 9, the sizes are at 13. */
#define FILE_OF_TENSORS(n, descriptions) HEADER(n, "\0") descriptions
#define VECTOR(name, size, type, offset) TENSOR_NAME("\x01", name, "\x01") size U32(type) offset

#define NAME_64 "0123456789012345678901234567890123456789012345678901234567890123"

static void malformed_tensors_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x40", NAME_64, "\x01") U64("\0")
                                                             U32(F32) U64("\0")))),
                       "malformed", 24, "a tensor's name of 64 bytes; ggml allows 63");
    CHECK_ONLY_FINDING(
        scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x01", "t", "\x05") U64("\0") U64("\1") U64("\1")
                                              U64("\1") U64("\1") U32(F32) U64("\0")))),
        "malformed", 33, "a tensor of 5 dimensions; ggml allows 4");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x01", "t", "\x09") "12345678901"))),
                       "malformed", 33, "a tensor of 9 dimensions; at most 8 are allowed");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", U64("\x0d") "1234567890123"
                                                                     "12"))),
                       "malformed", 45, "a tensor's shape");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x04", "name", "\x01") "1234567"))),
                       "malformed", 40, "the file ends inside a tensor's shape");
    CHECK_ONLY_FINDING(
        scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x01", "t", "\x02") INT64_MAX_BYTES U64("\x03")))),
        "malformed", 33, "a tensor of more than 2^63 elements");
    CHECK_ONLY_FINDING(
        scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x01", "t", "\x02") INT64_MAX_BYTES U64("\x02")))),
        "malformed", 33, "a tensor of more than 2^63 elements");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", TENSOR_NAME("\x01", "t", "\x01") U64("\x01") "12"))),
                       "malformed", 45, "a tensor");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", U64("\x01"), "\x05", U64("\0"))))),
                       "malformed", 24, "a tensor of type 5; a type of ggml was expected");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", U64("\x01"), "\xff", U64("\0"))))),
                       "malformed", 24, "type 255");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", U64("\x21"), Q4_0, U64("\0"))))),
                       "malformed", 24, "rows of 33 elements are not made of blocks of 32");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", U64("\x01"), F32, U64("\x20"))))),
                       "malformed", 24, "a tensor begins at 32 of the data; the previous ends at 0");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", U64("\x01"), F32, U64("\0"))))),
                       "malformed", 64, "the tensors need 32 bytes, but the file ends before");
    CHECK_ONLY_FINDING(
        scan(TEXT(FILE_OF_TENSORS(
            "\x01", VECTOR("t", U64("\x01"), F32, U64("\0"))) "\0\0\0\0\0\0\0"
                                                              "01234567890123456789012345678901more")),
        "malformed", 96, "4 bytes follow the last tensor");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x02", VECTOR("t", U64("\x01"), F32, U64("\0"))
                                                             VECTOR("t", U64("\x01"), F32, U64("\x20"))))),
                       "malformed", 57, "two tensors of one name");
}

static void sizes_beyond_64_bits_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x01", VECTOR("t", INT64_MAX_BYTES, I64, U64("\0"))))),
                       "malformed", 24, "elements has more than 2^64 bytes");
#define OFFSET_2_63 "\0\0\0\0\0\0\0\x80" /* INT64_MAX rounded up to the alignment */
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x02", VECTOR("t", INT64_MAX_BYTES, I8, U64("\0"))
                                                             VECTOR("u", INT64_MAX_BYTES, I8, OFFSET_2_63)))),
                       "malformed", 57, "elements has more than 2^64 bytes");
    CHECK_ONLY_FINDING(scan(TEXT(FILE_OF_TENSORS("\x02", VECTOR("t", INT64_MAX_BYTES, I8, U64("\0")) VECTOR(
                                                             "u", INT64_MAX_BYTES, I16, OFFSET_2_63)))),
                       "malformed", 57, "elements has more than 2^64 bytes");
    CHECK_ONLY_FINDING(
        scan(TEXT(FILE_OF_TENSORS("\x02", VECTOR("t", INT64_MAX_BYTES, I8, U64("\0")) VECTOR(
                                              "u", "\xe0\xff\xff\xff\xff\xff\xff\x7f", I8, OFFSET_2_63)))),
        "malformed", 90, "the tensors have more than 2^64 bytes");
}

static void gguf_members_of_archives_are_scanned(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "a.gguf", '0', TEXT(HEADER("\0", "\0")));
    struct scan_results s = scan(str_of((const char *)b.data, b.len));
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
