/* Scanning compressed files and 7-Zip archives: they are unpacked within limits, and their contents are
 * scanned. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "codec/unpack_archive.h"
#include "scanned.h"
#include "sample_7z.h"
#include "tarball.h"

/* "just text\n", compressed in each format. */
#define GZIP                                                                                                 \
    "\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\x2a\x2d\x2e\x51\x28\x49\xad\x28\xe1\x02\0\x12\x30\xe1\x53\x0a\0\0\0"
#define ZLIB "\x78\x9c\xcb\x2a\x2d\x2e\x51\x28\x49\xad\x28\xe1\x02\0\x16\x01\x03\xb6"
#define BZIP2                                                                                                \
    "BZh91AY&SY\xd3\xc9\x3f\x0e\0\0\x01\xd1\x80\0\x10\x40\0\x02\x10\x0e\x40\x20\0\x22\x06\x9a\x7a\x10\xc0"   \
    "\x87\x79\xe0\xc2\x0b\xb9\x22\x9c\x28\x48\x69\xe4\x9f\x87\0"
#define XZ                                                                                                   \
    "\xfd"                                                                                                   \
    "7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x0c\0\0\0\x8f\x98\x41\x9c\x01\0\x09just text\n\0\0\0"        \
    "\x10\x1a\xa7\xa5\xb7\x58\xba\x11\0\x01\x22\x0a\x15\x1a\xe1\x67\x1f\xb6\xf3\x7d\x01\0\0\0\0\x04YZ"
#define LZMA                                                                                                 \
    "\x5d\0\0\x04\0\xff\xff\xff\xff\xff\xff\xff\xff\0\x35\x1d\x4a\xb1\xf2\x41\x77\xa3\xf3\xd1\x6b\x49\x20"   \
    "\x5d\xff\xff\xaa\xba\0\0"
#define ZSTD "\x28\xb5\x2f\xfd\x04\x58\x51\0\0just text\n\x13\x28\x82\x8f"
#define LZ4  "\x04\x22\x4d\x18\x64\x40\xa7\x0a\0\0\x80just text\n\0\0\0\0\x9b\x64\xca\x05"

static const struct {
    const char *kind;
    ckpt_str bytes;
    bool by_libarchive;
} formats[] = {
    {"gzip", CONSTANT(GZIP), false}, {"zlib", CONSTANT(ZLIB), false}, {"bzip2", CONSTANT(BZIP2), true},
    {"xz", CONSTANT(XZ), true},      {"lzma", CONSTANT(LZMA), true},  {"zstd", CONSTANT(ZSTD), true},
    {"lz4", CONSTANT(LZ4), true},
};

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static bool is_supported(size_t i) { return !formats[i].by_libarchive || unpack_archive_available(); }

static void each_format_is_unpacked(void)
{
    char words[64];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!is_supported(i))
            continue;
        snprintf(words, sizeof words, "%s data, unpacked and scanned", formats[i].kind);
        struct scan_results s = scan(formats[i].bytes);
        CHECK_ONLY_FINDING(s, "archive-opened", 0, words);
        CU_ASSERT_STRING_EQUAL(s.result.format, formats[i].kind);
        CU_ASSERT(s.result.accounted == s.result.bytes && s.result.members == 1);
    }
}

static void bytes_after_the_end_are_reported(void)
{
    char longer[200];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!is_supported(i))
            continue;
        memcpy(longer, formats[i].bytes.ptr, formats[i].bytes.len);
        memcpy(longer + formats[i].bytes.len, "more", 4);
        struct scan_results s = scan_buffer(longer, formats[i].bytes.len + 4, 0);
        CU_ASSERT(s.status == CKPT_OK && s.findings == 1 && s.result.accounted == 0);
        CU_ASSERT(strcmp(s.first_finding.rule, "malformed") == 0 ||
                  strcmp(s.first_finding.rule, "not-opened") == 0);
    }
}

/* Skippable frames of lz4 have data for other programs, and no compressed bytes. */
static void skippable_frames_are_skipped(void)
{
#define SKIPPABLE_FRAME "\x5f\x2a\x4d\x18\x03\0\0\0abc"
    if (!unpack_archive_available())
        return;
    struct scan_results s = scan((ckpt_str)CONSTANT(LZ4 SKIPPABLE_FRAME));
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "lz4 data, unpacked and scanned");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
    s = scan((ckpt_str)CONSTANT(LZ4 SKIPPABLE_FRAME LZ4));
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "lz4 data, unpacked and scanned");
    /* the skippable frame has 11 bytes; its size field is one too large */
    CHECK_ONLY_FINDING(scan((ckpt_str)CONSTANT(LZ4 "\x5f\x2a\x4d\x18\x04\0\0\0abc")), "malformed", 0,
                       "11 bytes follow the compressed ones");
}

static void several_frames_are_unpacked(void)
{
    ckpt_str frame = CONSTANT(LZ4);
    char two_frames[sizeof LZ4 * 2];
    if (!unpack_archive_available())
        return;
    memcpy(two_frames, frame.ptr, frame.len);
    memcpy(two_frames + frame.len, frame.ptr, frame.len);
    struct scan_results s = scan_buffer(two_frames, 2 * frame.len, 0);
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "lz4 data, unpacked and scanned");
    CU_ASSERT_EQUAL(s.result.accounted, 2 * frame.len);
    s = scan_buffer(two_frames, 2 * frame.len - 5, 0); /* the second frame is truncated */
    CU_ASSERT(s.findings && s.result.accounted < 2 * frame.len - 5);
}

static void highly_compressed_data_are_unpacked(void)
{
    /* 300000 blanks. The zeros in the middle are codes, each of which repeats the same match. */
    unsigned char blanks_gz[326] =
        "\x1f\x8b\x08\0\0\0\0\0\x02\x03\xed\xc1\x01\x0d\0\0\0\xc2\xa0\x2a\xef\x9f\xd2\x1e\x0e\x28";
    memcpy(blanks_gz + 316, "\xf8\x31\xdf\x2a\x1f\x54\xe0\x93\x04\0", 10);
    struct scan_results s = scan_buffer(blanks_gz, sizeof blanks_gz, 0);
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "gzip data, unpacked and scanned");
    CU_ASSERT_EQUAL(s.result.accounted, sizeof blanks_gz);
    /* zlib data that need a dictionary */
    CHECK_ONLY_FINDING(scan(TEXT("\x78\xf9\x16\x01\x03\xb6\xcb\x82\xb3\0\x16\x01\x03\xb6")), "unknown-format",
                       0, "");
}

static void truncated_data_are_reported(void)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (size_t n = 14; is_supported(i) && n < formats[i].bytes.len; n++) { /* lzma needs 14 bytes */
            struct scan_results s = scan_buffer(formats[i].bytes.ptr, n, 0);
            CU_ASSERT(s.status == CKPT_OK && s.findings && s.result.accounted < n);
        }
}

/* The size and the depth of unpacking are limited. */
static void unpacking_is_limited(void)
{
    ckpt_scan_options nine_bytes = {.struct_size = sizeof nine_bytes, .max_unpacked = 9};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!is_supported(i))
            continue;
        struct scan_results s = scan_buffer_as(formats[i].bytes, NULL, &nine_bytes, 0);
        CHECK_ONLY_FINDING(s, "not-opened", 0, formats[i].kind);
    }
    ckpt_scan_options one_level = {.struct_size = sizeof one_level, .max_depth = 1};
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "a.gz", '0', TEXT(GZIP));
    CHECK_ONLY_FINDING(scan_buffer_as(str_of((const char *)b.data, b.len), NULL, &one_level, 0), "not-opened",
                       0, "gzip data: it is nested too deep");
    buf_free(&b);
}

/* zlib has a signature of two bytes, here "8O", and lzma has one of three bytes, so other data may
 * begin with these bytes. */
static void data_that_only_begin_like_a_format_are_not_unpacked(void)
{
    struct scan_results s = scan(TEXT("8O as text begins"));
    CU_ASSERT(s.findings == 0 && strcmp(s.result.format, "text") == 0);
    CHECK_ONLY_FINDING(scan(TEXT("8O\x01\x02 and no zlib")), "unknown-format", 0,
                       "not a recognized checkpoint format");
    CHECK_ONLY_FINDING(scan(TEXT("\x5d\0\0\x04\0\xff\xff\xff\xff\xff\xff\xff\xff")), "unknown-format", 0,
                       ""); /* 13 bytes, one too few for lzma */
    CHECK_ONLY_FINDING(scan(TEXT("\x5d\0\0\x04\0\xff\xff\xff\xff\xff\xff\xff\x7f\0")), "unknown-format", 0,
                       ""); /* the unpacked size is 2^63 - 1, too large for lzma */
    CHECK_ONLY_FINDING(scan(TEXT("\x5d\0\0\x04\0\x0a\0\0\0\0\0\0\0\0")), "not-opened", 0, "lzma data: ");
#define NPY "\x93NUMPY\x01\0\x38\0{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n"
    CHECK_ONLY_FINDING(scan(TEXT(NPY "1" LZMA)), "malformed", 67,
                       "34 bytes follow the elements"); /* these may be numbers instead of lzma data */
    CHECK_ONLY_FINDING(scan(TEXT(NPY "1" ZLIB)), "malformed", 67, "18 bytes follow the elements");
    CU_ASSERT_EQUAL(scan(TEXT(NPY "1" GZIP)).findings, 2);
    CU_ASSERT_STRING_EQUAL(scan(TEXT(NPY "1 and text")).result.format, "npy");
}

static void put_u32(unsigned char *at, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(n >> 8 * i);
}

/* Offsets in sample_7z: a signature header of 32 bytes, then the contents of both files, then the header. */
enum {
    S7_CONTENTS = 32,
    S7_HEADER = S7_CONTENTS + sizeof "the first" - 1 + sizeof "the second" - 1,
    S7_HEADER_SIZE = 98,
    S7_FIRST_CRC = S7_HEADER + 26, /* the CRC-32 of "the first" */
    S7_NAMES_TYPE = S7_HEADER + 41 /* the type of the property that has the names: 0x11 */
};

/* update_checksums - sets the CRC-32 of both headers of the 7-Zip file S7. */
static void update_checksums(unsigned char *s7)
{
    put_u32(s7 + 28, crc32_update(0, s7 + S7_HEADER, S7_HEADER_SIZE));
    put_u32(s7 + 8, crc32_update(0, s7 + 12, 20));
}

static void members_of_seven_zip_are_scanned(void)
{
    unsigned char s7[SAMPLE_7Z_SIZE + 4];
    if (!unpack_archive_available())
        return;
    memcpy(s7, sample_7z, SAMPLE_7Z_SIZE);
    memcpy(s7 + SAMPLE_7Z_SIZE, "more", 4);
    struct scan_results s = scan_buffer(s7, SAMPLE_7Z_SIZE, 0);
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "7-Zip data, unpacked and scanned");
    CU_ASSERT(s.result.members == 2 && s.result.accounted == SAMPLE_7Z_SIZE);
    CHECK_ONLY_FINDING(scan_buffer(s7, SAMPLE_7Z_SIZE + 4, 0), "malformed", 0,
                       "7-Zip data: 4 bytes follow the compressed ones");
    CU_ASSERT_EQUAL_FATAL(s7[S7_NAMES_TYPE], 0x11);
    s7[S7_NAMES_TYPE] = 0x19; /* the type of padding, so that the names are not found */
    update_checksums(s7);
    s = scan_buffer(s7, SAMPLE_7Z_SIZE, 0);
    CHECK_ONLY_FINDING(s, "archive-opened", 0, "7-Zip data, unpacked and scanned");
    s7[S7_NAMES_TYPE] = 0x11;
    memcpy(s7 + S7_CONTENTS, "\x01\x02\x03\x04\x05\x06\x07\x08\x09", 9); /* bytes of no known format */
    put_u32(s7 + S7_FIRST_CRC, crc32_update(0, s7 + S7_CONTENTS, 9));
    update_checksums(s7);
    s = scan_buffer(s7, SAMPLE_7Z_SIZE, 0);
    CHECK_FINDING(s, 2, "unknown-format", 0, "");
    CU_ASSERT(strcmp(s.first_finding.where, "folder/a") == 0 && s.result.accounted == 0);
}

/* An archive without files is only a signature header. It states that the other header has 0 bytes and begins
 * 4 bytes after it; these 4 bytes belong to no header. */
static void bytes_after_an_empty_seven_zip_are_reported(void)
{
    unsigned char s7[32 + 4];
    if (!unpack_archive_available())
        return;
    memcpy(s7, sample_7z, 32);
    memset(s7 + 12, 0, 20);
    put_u32(s7 + 12, 4);
    put_u32(s7 + 8, crc32_update(0, s7 + 12, 20));
    memcpy(s7 + 32, "more", 4);
    CU_ASSERT_EQUAL(scan_buffer(s7, 32, 0).result.accounted, 32);
    struct scan_results s = scan_buffer(s7, sizeof s7, 0);
    CHECK_ONLY_FINDING(s, "malformed", 0, "7-Zip data: 4 bytes follow the compressed ones");
    CU_ASSERT_EQUAL(s.result.accounted, 0);
}

static void compressed_members_are_unpacked(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "a.gz", '0', TEXT(GZIP));
    tar_member(&b, "a.xz", '0', TEXT(XZ));
    struct scan_results s = scan(str_of((const char *)b.data, b.len));
    CHECK_FINDING(s, 2, "archive-opened", 0, "gzip data, unpacked and scanned");
    CU_ASSERT(strcmp(s.result.format, "tar") == 0 &&
              s.result.members == (unpack_archive_available() ? 4 : 3));
    buf_free(&b);
}

/* The pickle of inert_mod.C('x') and a text, in zlib and lzma data. */
#define ZLIB_PICKLE                                                                                          \
    "\170\234\113\316\314\113\055\052\211\317\315\117\341\162\346\322\010\126\257\120"                       \
    "\347\052\011\322\003\000"
#define ZLIB_PICKLE_SUM "\127\064\006\273"
#define ZLIB_ZLIB_PICKLE                                                                                     \
    "\170\234\253\230\343\175\356\214\267\256\126\347\371\263\376\017\213\236\135\342"                       \
    "\010\133\037\360\134\213\363\022\063\103\270\011\333\156\000\352\116\015\263"
#define LZMA_PICKLE                                                                                          \
    "\135\000\000\200\000\377\377\377\377\377\377\377\377\000\061\232\112\037\014\231"                       \
    "\136\063\221\260\003\012\034\322\322\222\163\276\215\356\200\014\240\023\267\014"                       \
    "\212\377\377\335\312\000\000"
#define ZLIB_TEXT                                                                                            \
    "\170\234\313\317\313\251\124\050\316\317\115\125\050\111\255\050\321\121\050\317"                       \
    "\310\114\316\120\310\313\127\310\311\117\114\111\055\122\050\315\053\310\114\316"                       \
    "\316\111\055\006\000\077\103\017\135"
#define RANDOM_BYTES                                                                                         \
    "\170\234\315\007\054\330\276\157\237\142\254\114\011\302\202\006\347\343\125\224"                       \
    "\252\153\064\057\135\012\072\136\110\102\050\367"
#define VALUE(size, bytes)                                                                                   \
    CONSTANT("\x80\x03"                                                                                      \
             "C" size bytes ".")

/* Values of a pickle that are zlib or lzma data, which have no magic number, are opened if they unpack to a
 * file. */
static void values_that_unpack_to_a_pickle_are_scanned(void)
{
    static const struct {
        const char *kind;
        ckpt_str bytes;
        size_t findings;
        bool by_libarchive;
    } values[] = {
        {"zlib data", VALUE("\x1e", ZLIB_PICKLE ZLIB_PICKLE_SUM), 2, false},
        {"zlib data", VALUE("\x27", ZLIB_ZLIB_PICKLE), 3, false},
        {"lzma data", VALUE("\x2f", LZMA_PICKLE), 2, true},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct scan_results s = scan(values[i].bytes);
        if (values[i].by_libarchive && !unpack_archive_available())
            continue;
        CHECK_FINDING(s, values[i].findings, "unknown-callable", 20, "");
        CHECK_FINDING(s, values[i].findings, "archive-opened", 0, values[i].kind);
    }
    static const ckpt_str truncated = VALUE("\x1a", ZLIB_PICKLE); /* zlib.decompressobj() unpacks it */
    CHECK_FINDING(scan(truncated), 2, "unknown-callable", 20, "");
}

static void values_that_only_begin_like_compressed_data_are_not_reported(void)
{
    static const ckpt_str values[] = {
        VALUE("\x31", ZLIB_TEXT),
        VALUE("\x20", RANDOM_BYTES), /* after a header of zlib */
        VALUE("\x1e", "x^ is how a text may begin too"),
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        CU_ASSERT_EQUAL(scan(values[i]).findings, 0);
}

void suite_scan_compressed(void)
{
    UNIT(each_format_is_unpacked);
    UNIT(bytes_after_the_end_are_reported);
    UNIT(skippable_frames_are_skipped);
    UNIT(several_frames_are_unpacked);
    UNIT(highly_compressed_data_are_unpacked);
    UNIT(truncated_data_are_reported);
    UNIT(unpacking_is_limited);
    UNIT(data_that_only_begin_like_a_format_are_not_unpacked);
    UNIT(members_of_seven_zip_are_scanned);
    UNIT(bytes_after_an_empty_seven_zip_are_reported);
    UNIT(compressed_members_are_unpacked);
    UNIT(values_that_unpack_to_a_pickle_are_scanned);
    UNIT(values_that_only_begin_like_compressed_data_are_not_reported);
}
