/* Scanning zip archives: each member is unpacked and scanned, and headers that readers interpret differently
 * are reported. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/unpack_archive.h"
#include "scanned.h"
#include "zipped.h"

#define UNCOMPRESSED "just text\n"
#define CRC          0x53e13012 /* the CRC-32 of UNCOMPRESSED */

/* UNCOMPRESSED, compressed by each method. */
#define DEFLATED "\xcb\x2a\x2d\x2e\x51\x28\x49\xad\x28\xe1\x02\0"
#define BZIP2                                                                                                \
    "BZh91AY&SY\xd3\xc9\x3f\x0e\0\0\x01\xd1\x80\0\x10\x40\0\x02\x10\x0e\x40\x20\0\x22\x06\x9a\x7a\x10\xc0"   \
    "\x87\x79\xe0\xc2\x0b\xb9\x22\x9c\x28\x48\x69\xe4\x9f\x87\0"
#define LZMA                                                                                                 \
    "\x09\x14\x05\0\x5d\0\0\x04\0\0\x35\x1d\x4a\xb1\xf2\x41\x77\xa3\xf3\xd1\x6b\x49\x20\x5d\xff\xff\xaa"     \
    "\xba\0\0"
#define ZSTD "\x28\xb5\x2f\xfd\x04\x58\x51\0\0just text\n\x13\x28\x82\x8f"

static struct scanned scan(const struct member *m, size_t n, const ckpt_scan_options *opts)
{
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, n, 0);
    struct scanned s = scan_buffer_as(str_of((const char *)b.data, b.len), NULL, opts, 0);
    buf_free(&b);
    return s;
}

/* scan_member - scans an archive of one member, whose payload is BYTES, compressed by METHOD. */
static struct scanned scan_member(ckpt_str bytes, unsigned method, unsigned flags, uint32_t usize,
                                  uint32_t crc)
{
    struct member m = {"a", bytes, method, flags, usize, crc, false};
    return scan(&m, 1, NULL);
}

static void check_clean(struct scanned s, int line)
{
    bool fine = s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes &&
                s.result.members == 1;
    if (!fine)
        scan_has_finding(&s, 0, "", 0, "", line);
    CU_ASSERT(fine);
}
#define CHECK_CLEAN(s) check_clean(s, __LINE__)

static void members_are_unpacked(void)
{
    CHECK_CLEAN(scan_member(TEXT(UNCOMPRESSED), 0, 0, 0, 0));
    CHECK_CLEAN(scan_member(TEXT(DEFLATED), 8, 0, 10, CRC));
    if (!unpack_archive_ready())
        return;
    CHECK_CLEAN(scan_member(TEXT(BZIP2), 12, 0, 10, CRC));
    CHECK_CLEAN(scan_member(TEXT(LZMA), 14, 2, 10, CRC));
    CHECK_CLEAN(scan_member(TEXT(LZMA), 14, 0, 10, CRC));
    CHECK_CLEAN(scan_member(TEXT(ZSTD), 93, 0, 10, CRC));
}

static void wrong_sizes_are_reported(void)
{
    FINDING(scan_member(TEXT(DEFLATED), 8, 0, 5, CRC), 2, "ZIP001", 0,
            "unpacks to more than the 5 bytes that are stated");
    FINDING(scan_member(TEXT(DEFLATED), 8, 0, 20, CRC), 1, "ZIP001", 0, "unpacks to 10 bytes, 20 are stated");
    FINDING(scan_member(TEXT("\xff\xff\xff"), 8, 0, 10, 0), 1, "ZIP001", 0, "broken deflated bytes");
    FINDING(scan_member(TEXT(DEFLATED), 8, 0, 10, 1), 1, "ZIP002", 43,
            "its CRC-32 is 53e13012, its header has 00000001");
    if (!unpack_archive_ready())
        return;
    FINDING(scan_member(TEXT(BZIP2), 12, 0, 5, CRC), 2, "ZIP001", 0, "method 12: ");
    FINDING(scan_member(TEXT(BZIP2), 12, 0, 20, CRC), 1, "ZIP001", 0, "unpacks to 10 bytes, 20 are stated");
    FINDING(scan_member(TEXT("BZh9 broken"), 12, 0, 20, CRC), 1, "ZIP001", 0,
            "method 12: it only begins like packed data");
    FINDING(scan_member(TEXT("12345678"), 14, 0, 20, CRC), 1, "ZIP001", 0,
            "method 14: 8 bytes of LZMA; its header alone has 9");
}

static void unpacking_is_limited(void)
{
    ckpt_scan_options little = {.struct_size = sizeof little, .max_unpacked = 9};
    struct member m[] = {{"a", CONSTANT(DEFLATED), 8, 0, 10, CRC, false},
                         {"a", CONSTANT(BZIP2), 12, 0, 10, CRC, false}};
    FINDING(scan(m, 1, &little), 2, "ARC002", 0, "unpacks to more than 9 bytes in all");
    if (unpack_archive_ready())
        FINDING(scan(m + 1, 1, &little), 2, "ARC002", 0, "it is compressed by method 12: ");
}

static void members_that_cannot_be_unpacked_are_reported(void)
{
    struct scanned s = scan_member(TEXT("12345678"), 97, 0, 10, 0);
    FINDING(s, 1, "ARC002", 0, "it is compressed by method 97");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes - 8);
    FINDING(scan_member(TEXT("12345678"), 97, 1, 10, 0), 1, "ARC002", 0,
            "it is encrypted or a patch to another file");
    FINDING(scan_member(TEXT("12345678"), 8, 1, 10, 0), 1, "ARC002", 0, "(flags 0x0001)");
    FINDING(scan_member(TEXT(BZIP2), 12, 0x40, 10, 0), 1, "ARC002", 0, "(flags 0x0040)");
    FINDING(scan_member(TEXT("12345678"), 0, 1, 0, 0), 1, "ARC002", 0, "it is encrypted");
    FINDING(scan_member(TEXT("12345678"), 0, 0x20, 0, 0), 1, "ARC002", 0, "(flags 0x0020)");
    s = scan_member(TEXT(CALL), 0, 1, 0, 0); /* torch ignores the flag */
    FINDING(s, 2, "ZIP001", 51, "is flagged as encrypted or a patch (flags 0x0001), but is a pickle");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* If two members of unknown format overlap, the number of accounted bytes must not become negative. */
static void bytes_of_overlapping_members_are_counted_once(void)
{
    struct member m[] = {{"a", CONSTANT("\x01\x02\x03 of no format"), 0, 0, 0, 0, false},
                         {"b", CONSTANT("\x01\x02\x03 of no format"), 0, 0, 0, 0, false}};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, 2, 0);
    struct scanned s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes - 32);
    for (int i = 0; i < 4; i++) /* lets the first member reach over the second */
        b.data[18 + i] = b.data[22 + i] = i ? 0 : 150;
    b.data[(31 + 16) * 2 + 20] = b.data[(31 + 16) * 2 + 24] = 150;
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.status == CKPT_OK && s.result.accounted < s.result.bytes - 150);
    buf_free(&b);
}

#define PICKLE "\x80\x02}."

static void members_that_torch_never_writes_are_reported(void)
{
    struct member m[] = {{"t/data.pkl", CONSTANT(PICKLE), 0, 0, 0, 0, false},
                         {"u/version", CONSTANT("3\n"), 0, 0, 0, 0, false},
                         {"t/data/0", CONSTANT(DEFLATED), 8, 0, 10, CRC, false}};
    struct scanned s = scan(m, 3, NULL);
    FINDING(s, 2, "ZIP001", 191, "is outside of the folder \"t\", where torch writes all records");
    FINDING(s, 2, "ZIP001", 246, "a storage compressed by method 8; torch expects uncompressed storages");
    m[1].name = "t/x/data/0"; /* a storage in a subfolder, and a member that is no storage */
    m[2].name = "t/xdata/0";
    CU_ASSERT_EQUAL(scan(m, 3, NULL).findings, 0);
    m[0].name = "data.pkl"; /* without a folder */
    m[1].name = "x.storage";
    CU_ASSERT_EQUAL(scan(m, 2, NULL).status, CKPT_OK);
}

/* A storage is decompressed and scanned if it is compressed data up to its last byte. */
static void compressed_data_in_storages_are_scanned(void)
{
    static const ckpt_str packed[] = {
        CONSTANT(
            "\x1f\x8b\x08\0\0\0\0\0\x02\x03\x6b\x60\x4a\xce\x2f\xe6\x2a\xae\x2c\x2e\x49\xcd\xe5\x0a\x65\xca"
            "\x4c\x69\x0d\xd2\x03\0\xcd\x08\x9f\x2b\x14\0\0\0"),
        CONSTANT(
            "\x78\x9c\x6b\x60\x4a\xce\x2f\xe6\x2a\xae\x2c\x2e\x49\xcd\xe5\x0a\x65\xca\x4c\x69\x0d\xd2\x03\0"
            "\x47\x98\x06\xaa")};
    struct member m[] = {{"t/data.pkl", CONSTANT(PICKLE), 0, 0, 0, 0, false},
                         {"t/data/0", {0}, 0, 0, 0, 0, false}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        m[1].bytes = packed[i];
        struct scanned s = scan(m, 2, NULL);
        FINDING(s, 2, "ARC001", 0, i ? "zlib data, unpacked and scanned" : "gzip data, unpacked and scanned");
        CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.result.pickles == 2);
        m[1].bytes.len--;
        CU_ASSERT_EQUAL(scan(m, 2, NULL).findings, 0);
    }
}

static void large_compressed_storages_are_not_unpacked_completely(void)
{
    buf packed;
    buf_init(&packed, 1 << 20);
    for (int i = 0; i < 3; i++) { /* deflate's stored blocks of 60000 zeros */
        buf_put(&packed, i == 2 ? "\x01\x60\xea\x9f\x15" : "\0\x60\xea\x9f\x15", 5);
        for (int k = 0; k < 60000; k++)
            buf_byte(&packed, 0);
    }
    struct member m[] = {{"t/data.pkl", CONSTANT(PICKLE), 0, 0, 0, 0, false},
                         {"t/data/0", {(const char *)packed.data, packed.len}, 8, 0, 180000, 0, false}};
    struct scanned s = scan(m, 2, NULL);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 1 && strstr(s.first.text, "compressed by method 8"));
    buf_free(&packed);
}

static void source_code_is_reported(void)
{
    struct member m[] = {{"a.py", CONSTANT("x = 1\n"), 0, 0, 0, 0, false},
                         {"b.py", CONSTANT("x = 1\n"), 0, 0, 0, 0, false}};
    FINDING(scan(m, 1, NULL), 1, "SRC001", CKPT_NO_OFFSET, "1 file of program text, the first is a.py");
    FINDING(scan(m, 2, NULL), 1, "SRC001", CKPT_NO_OFFSET, "2 files of program text, the first is a.py");
}

static void libraries_are_reported(void)
{
    struct member m[] = {{"t/version", CONSTANT("3\n"), 0, 0, 0, 0, false},
                         {"t/data/aotinductor/m/a.so",
                          CONSTANT("\x7f"
                                   "ELF"),
                          0, 0, 0, 0, false},
                         {"t/data/0",
                          CONSTANT("\x7f"
                                   "ELF"),
                          0, 0, 0, 0, false}};
    FINDING(scan(m, 3, NULL), 1, "SRC001", CKPT_NO_OFFSET,
            "1 file of machine or byte code, the first is t/data/aotinductor/m/a.so");
}

static void bytes_between_members_are_scanned(void)
{
    struct member m = {"a", CONSTANT(UNCOMPRESSED), 0, 0, 0, 0, false};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    size_t dir = 30 + 1 + sizeof(UNCOMPRESSED) - 1, rest = b.len - dir;
    buf_put(&b, CALL, sizeof(CALL) - 1); /* makes room for CALL */
    memmove(b.data + dir + sizeof(CALL) - 1, b.data + dir, rest);
    memcpy(b.data + dir, CALL, sizeof(CALL) - 1);
    b.data[b.len - 6] = (unsigned char)(dir + sizeof(CALL) - 1);
    struct scanned s = scan_buffer(b.data, b.len, 0);
    FINDING(s, 2, "ZIP001", dir, "bytes between members that belong to none");
    FINDING(s, 2, "PKL002", sizeof(CALL) - 3, "");
    CU_ASSERT_STRING_EQUAL(s.all[1].where, "bytes@0x29");
    CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
}

static void bytes_around_the_archive_are_scanned(void)
{
    struct member m = {"a", CONSTANT(UNCOMPRESSED), 0, 0, 0, 0, false};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    buf_put(&b, CALL, sizeof(CALL) - 1);
    struct scanned s = scan_buffer(b.data, b.len, 0);
    FINDING(s, 2, "PKL002", 18, "");
    CU_ASSERT_STRING_EQUAL(s.all[1].where, "bytes@0x6e");
    b.len = 0;
    buf_put(&b, CALL, sizeof(CALL) - 1);
    zip_put(&b, &m, 1, b.len); /* can be found only by its end record */
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && strcmp(s.result.format, "zip") == 0);
    b.len = 0;
    buf_text(&b, "PK00"); /* the signature of a split archive on one disk */
    zip_put(&b, &m, 1, 0);
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.status == CKPT_OK && strcmp(s.result.format, "zip") == 0);
    buf_free(&b);
}

static void nested_and_concatenated_archives_are_scanned(void)
{
    struct member m = {"a", CONSTANT(CALL), 0, 0, 0, 0, false},
                  outer = {"in.zip", {NULL, 0}, 0, 0, 0, 0, false};
    ckpt_scan_options flat = {.struct_size = sizeof flat, .max_depth = 1};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    outer.bytes = str_of((const char *)b.data, b.len);
    FINDING(scan(&outer, 1, &flat), 1, "ARC002", CKPT_NO_OFFSET, "an archive nested too deep");
    FINDING(scan(&outer, 1, NULL), 1, "PKL002", 18, "");
    zip_put(&b, &m, 1, b.len);
    struct scanned s = scan_buffer(b.data, b.len, 0);
    FINDING(s, 3, "ZIP003", 0, "2 archives one after the other");
    CU_ASSERT(s.result.accounted == s.result.bytes && s.result.pickles == 2);
    buf_free(&b);
}

/* If several entries have the same local header, each gets a record. */
static void shared_bytes_are_scanned_once(void)
{
    struct member m[50];
    ckpt_scan_options sums = {.struct_size = sizeof sums, .sha256 = true};
    for (size_t i = 0; i < 50; i++)
        m[i] = (struct member){"a", CONSTANT(CALL), 0, 0, 0, 0, i > 0};
    struct scanned s = scan(m, 50, &sums);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT(s.result.pickles == 1 && s.result.calls == 1 && s.result.members == 50 && s.members == 50);
    CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_NOTE], 49);
    m[1].name = "b.pkl"; /* scanned again because of its suffix */
    m[2].crc = 1;
    s = scan(m, 3, NULL);
    CU_ASSERT(s.result.pickles == 2 && s.result.found[CKPT_SCAN_NOTE] == 1);
    CU_ASSERT(strcmp(s.all[s.findings - 1].id, "ZIP002") == 0);
}

/* The members overlap, each a byte shorter than the last, so that scanning all takes quadratic time. */
static void scanning_overlapping_members_is_limited(void)
{
    enum { N = 400, LONG = 300000 };
    struct member *m = calloc(N, sizeof *m);
    char *text = malloc(LONG);
    CU_ASSERT_FATAL(m && text);
    memset(text, 'x', LONG);
    for (size_t i = 0; i < N; i++)
        m[i] = (struct member){"a", {text, LONG - i}, 0, 0, 0, 1, i > 0};
    struct scanned s = scan(m, N, NULL);
    CU_ASSERT(s.status == CKPT_OK && s.result.members < 300);
    CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_INCOMPLETE], 1);
    free(text);
    free(m);
}

/* Scans bytes before an archive whose directory is truncated. */
static void bytes_before_a_malformed_archive_are_scanned(void)
{
    struct scanned s = scan_buffer(
        "cos\nsystem\n(S'id'\ntR.PK\1\2\x14\0\x14\0\0\0PK\5\6\0\0\0\0\1\0\1\0\x08\0\0\0\x15\0\0\0\0\0", 51,
        0);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
}

/* The last byte of the directory is missing, so that its last entry has no name. */
static void archives_of_torch_with_a_cut_directory_are_scanned(void)
{
    struct member m[] = {{"t/data.pkl", CONSTANT(PICKLE), 0, 0, 0, 0, false},
                         {"t/version", CONSTANT("3\n"), 0, 0, 0, 0, false}};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, 2, 0);
    unsigned char *end_record = b.data + b.len - 22;
    end_record[12]--; /* the size of the directory */
    memmove(end_record - 1, end_record, 22);
    struct scanned s = scan_buffer(b.data, b.len - 1, 0);
    CU_ASSERT(s.status == CKPT_OK && strstr(s.first.text, "the central directory ends inside an entry"));
    buf_free(&b);
}

void suite_scan_zip(void)
{
    UNIT(members_are_unpacked);
    UNIT(wrong_sizes_are_reported);
    UNIT(unpacking_is_limited);
    UNIT(members_that_cannot_be_unpacked_are_reported);
    UNIT(bytes_of_overlapping_members_are_counted_once);
    UNIT(members_that_torch_never_writes_are_reported);
    UNIT(compressed_data_in_storages_are_scanned);
    UNIT(large_compressed_storages_are_not_unpacked_completely);
    UNIT(source_code_is_reported);
    UNIT(libraries_are_reported);
    UNIT(bytes_between_members_are_scanned);
    UNIT(bytes_around_the_archive_are_scanned);
    UNIT(nested_and_concatenated_archives_are_scanned);
    UNIT(shared_bytes_are_scanned_once);
    UNIT(scanning_overlapping_members_is_limited);
    UNIT(bytes_before_a_malformed_archive_are_scanned);
    UNIT(archives_of_torch_with_a_cut_directory_are_scanned);
}
