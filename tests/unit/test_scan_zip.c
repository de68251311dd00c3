/* Scanning zip archives: each member is unpacked and scanned, and headers that readers interpret differently
 * are reported. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/unpack_archive.h"
#include "codec/zip_header.h"
#include "scanned.h"
#include "zipped.h"

#define UNCOMPRESSED      "just text\n"
#define UNCOMPRESSED_SIZE 10
#define UNCOMPRESSED_CRC  0x53e13012

/* compression methods, and flags */
enum {
    STORED = 0,
    DEFLATE = 8,
    BZIP2 = 12,
    LZMA = 14,
    ZSTD = 93,
    UNKNOWN_METHOD = 97,
    ENCRYPTED = 1,
    LZMA_END_MARKER = 2,
    PATCHED_DATA = 0x20,
    STRONG_ENCRYPTION = 0x40
};

/* The text UNCOMPRESSED, compressed by each method. */
#define AS_DEFLATED "\xcb\x2a\x2d\x2e\x51\x28\x49\xad\x28\xe1\x02\0"
#define AS_BZIP2                                                                                             \
    "BZh91AY&SY\xd3\xc9\x3f\x0e\0\0\x01\xd1\x80\0\x10\x40\0\x02\x10\x0e\x40\x20\0\x22\x06\x9a\x7a\x10\xc0"   \
    "\x87\x79\xe0\xc2\x0b\xb9\x22\x9c\x28\x48\x69\xe4\x9f\x87\0"
#define AS_LZMA                                                                                              \
    "\x09\x14\x05\0\x5d\0\0\x04\0\0\x35\x1d\x4a\xb1\xf2\x41\x77\xa3\xf3\xd1\x6b\x49\x20\x5d\xff\xff\xaa"     \
    "\xba\0\0"
#define AS_ZSTD "\x28\xb5\x2f\xfd\x04\x58\x51\0\0just text\n\x13\x28\x82\x8f"

static struct scan_results scan(const struct member *m, size_t n, const ckpt_scan_options *opts)
{
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, n, 0);
    struct scan_results s = scan_buffer_as(str_of((const char *)b.data, b.len), NULL, opts, 0);
    buf_free(&b);
    return s;
}

/* scan_member - scans an archive of one member with the payload BYTES, whose headers have METHOD, FLAGS, the
 * uncompressed size USIZE and CRC. */
static struct scan_results scan_member(ckpt_str bytes, unsigned method, unsigned flags, uint32_t usize,
                                       uint32_t crc)
{
    struct member m = {
        .name = "a", .bytes = bytes, .method = method, .flags = flags, .usize = usize, .crc = crc};
    return scan(&m, 1, NULL);
}

static void check_clean(struct scan_results s, int line)
{
    bool is_clean = s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes &&
                    s.result.members == 1;
    if (!is_clean)
        scan_has_finding(&s, 0, "", 0, "", line);
    CU_ASSERT(is_clean);
}
#define CHECK_CLEAN(s) check_clean(s, __LINE__)

static void members_are_unpacked(void)
{
    CHECK_CLEAN(scan_member(TEXT(UNCOMPRESSED), STORED, 0, 0, 0));
    CHECK_CLEAN(scan_member(TEXT(AS_DEFLATED), DEFLATE, 0, UNCOMPRESSED_SIZE, UNCOMPRESSED_CRC));
    if (!unpack_archive_available())
        return;
    CHECK_CLEAN(scan_member(TEXT(AS_BZIP2), BZIP2, 0, UNCOMPRESSED_SIZE, UNCOMPRESSED_CRC));
    CHECK_CLEAN(scan_member(TEXT(AS_LZMA), LZMA, LZMA_END_MARKER, UNCOMPRESSED_SIZE, UNCOMPRESSED_CRC));
    CHECK_CLEAN(scan_member(TEXT(AS_LZMA), LZMA, 0, UNCOMPRESSED_SIZE, UNCOMPRESSED_CRC));
    CHECK_CLEAN(scan_member(TEXT(AS_ZSTD), ZSTD, 0, UNCOMPRESSED_SIZE, UNCOMPRESSED_CRC));
}

static void wrong_sizes_are_reported(void)
{
    CHECK_FINDING(scan_member(TEXT(AS_DEFLATED), DEFLATE, 0, 5, UNCOMPRESSED_CRC), 2, "zip-structure", 0,
                  "unpacks to more than the 5 bytes that are stated");
    CHECK_ONLY_FINDING(scan_member(TEXT(AS_DEFLATED), DEFLATE, 0, 20, UNCOMPRESSED_CRC), "zip-structure", 0,
                       "unpacks to 10 bytes, 20 are stated");
    CHECK_ONLY_FINDING(scan_member(TEXT("\xff\xff\xff"), DEFLATE, 0, UNCOMPRESSED_SIZE, 0), "zip-structure",
                       0, "broken deflated bytes");
    CHECK_ONLY_FINDING(scan_member(TEXT(AS_DEFLATED), DEFLATE, 0, UNCOMPRESSED_SIZE, 1), "zip-checksum", 43,
                       "its CRC-32 is 53e13012, its header has 00000001");
    if (!unpack_archive_available())
        return;
    CHECK_FINDING(scan_member(TEXT(AS_BZIP2), BZIP2, 0, 5, UNCOMPRESSED_CRC), 2, "zip-structure", 0,
                  "method 12: ");
    CHECK_ONLY_FINDING(scan_member(TEXT(AS_BZIP2), BZIP2, 0, 20, UNCOMPRESSED_CRC), "zip-structure", 0,
                       "unpacks to 10 bytes, 20 are stated");
    CHECK_ONLY_FINDING(scan_member(TEXT("BZh9 broken"), BZIP2, 0, 20, UNCOMPRESSED_CRC), "zip-structure", 0,
                       "method 12: it only begins like packed data");
    CHECK_ONLY_FINDING(scan_member(TEXT("12345678"), LZMA, 0, 20, UNCOMPRESSED_CRC), "zip-structure", 0,
                       "method 14: 8 bytes of LZMA; its header alone has 9");
}

static void unpacking_is_limited(void)
{
    ckpt_scan_options nine_bytes = {.struct_size = sizeof nine_bytes, .max_unpacked = 9};
    struct member m[] = {{.name = "a",
                          .bytes = CONSTANT(AS_DEFLATED),
                          .method = DEFLATE,
                          .usize = UNCOMPRESSED_SIZE,
                          .crc = UNCOMPRESSED_CRC},
                         {.name = "a",
                          .bytes = CONSTANT(AS_BZIP2),
                          .method = BZIP2,
                          .usize = UNCOMPRESSED_SIZE,
                          .crc = UNCOMPRESSED_CRC}};
    CHECK_FINDING(scan(m, 1, &nine_bytes), 2, "not-opened", 0, "unpacks to more than 9 bytes in all");
    if (unpack_archive_available())
        CHECK_FINDING(scan(m + 1, 1, &nine_bytes), 2, "not-opened", 0, "it is compressed by method 12: ");
    struct member torch[] = {{.name = "a/data.pkl", .bytes = CONSTANT("\x80\x02N.")}, m[0]};
    torch[1].name = "a/data/0"; /* a storage */
    CHECK_FINDING(scan(torch, 2, &nine_bytes), 2, "not-opened", 44, "unpacks to more than 9 bytes in all");
}

static void members_that_cannot_be_unpacked_are_reported(void)
{
    struct scan_results s = scan_member(TEXT("12345678"), UNKNOWN_METHOD, 0, UNCOMPRESSED_SIZE, 0);
    CHECK_ONLY_FINDING(s, "not-opened", 0, "it is compressed by method 97");
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes - 8);
    CHECK_ONLY_FINDING(scan_member(TEXT("12345678"), UNKNOWN_METHOD, ENCRYPTED, UNCOMPRESSED_SIZE, 0),
                       "not-opened", 0, "it is encrypted or a patch to another file");
    CHECK_ONLY_FINDING(scan_member(TEXT("12345678"), DEFLATE, ENCRYPTED, UNCOMPRESSED_SIZE, 0), "not-opened",
                       0, "(flags 0x0001)");
    CHECK_ONLY_FINDING(scan_member(TEXT(AS_BZIP2), BZIP2, STRONG_ENCRYPTION, UNCOMPRESSED_SIZE, 0),
                       "not-opened", 0, "(flags 0x0040)");
    CHECK_ONLY_FINDING(scan_member(TEXT("12345678"), STORED, ENCRYPTED, 0, 0), "not-opened", 0,
                       "it is encrypted");
    CHECK_ONLY_FINDING(scan_member(TEXT("12345678"), STORED, PATCHED_DATA, 0, 0), "not-opened", 0,
                       "(flags 0x0020)");
    s = scan_member(TEXT(CALL_OS_SYSTEM), STORED, ENCRYPTED, 0, 0); /* torch ignores the flag */
    CHECK_FINDING(s, 2, "zip-structure", 51,
                  "is flagged as encrypted or a patch (flags 0x0001), but is a pickle");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

/* If two members of unknown format overlap, the number of accounted bytes must not become negative. */
static void bytes_of_overlapping_members_are_counted_once(void)
{
    struct member m[] = {{.name = "a", .bytes = CONSTANT("\x01\x02\x03 of no format")},
                         {.name = "b", .bytes = CONSTANT("\x01\x02\x03 of no format")}};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, 2, 0);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes - 2 * 16);
    /* Both sizes of the first member, compressed and uncompressed, become 150 bytes, so that it reaches over
     * the second. The central directory follows two members of 31 + 16 bytes. */
    unsigned char *local = b.data, *central = b.data + 2 * (31 + 16);
    for (int i = 0; i < 4; i++)
        local[18 + i] = local[22 + i] = i ? 0 : 150;
    central[20] = central[24] = 150;
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.status == CKPT_OK && s.result.accounted < s.result.bytes - 150);
    buf_free(&b);
}

#define PICKLE "\x80\x02}."

static void members_that_torch_never_writes_are_reported(void)
{
    struct member m[] = {{.name = "t/data.pkl", .bytes = CONSTANT(PICKLE)},
                         {.name = "u/version", .bytes = CONSTANT("3\n")},
                         {.name = "t/data/0",
                          .bytes = CONSTANT(AS_DEFLATED),
                          .method = DEFLATE,
                          .usize = UNCOMPRESSED_SIZE,
                          .crc = UNCOMPRESSED_CRC}};
    struct scan_results s = scan(m, 3, NULL);
    /* the offsets are those of the central headers */
    CHECK_FINDING(s, 2, "zip-structure", 191,
                  "is outside of the folder \"t\", where torch writes all records");
    CHECK_FINDING(s, 2, "zip-structure", 246,
                  "a storage compressed by method 8; torch expects uncompressed storages");
    m[1].name = "t/x/data/0"; /* a storage in a subfolder, and a member that is no storage */
    m[2].name = "t/xdata/0";
    CU_ASSERT_EQUAL(scan(m, 3, NULL).findings, 0);
    m[0].name = "data.pkl"; /* without a folder */
    m[1].name = "x.storage";
    CU_ASSERT_EQUAL(scan(m, 2, NULL).status, CKPT_OK);
}

/* A storage is decompressed and scanned if it begins with compressed data that are complete. */
static void compressed_data_in_storages_are_scanned(void)
{
    static const ckpt_str packed[] = {
        /* a pickle that calls os.system, in gzip and in zlib format */
        CONSTANT(
            "\x1f\x8b\x08\0\0\0\0\0\x02\x03\x6b\x60\x4a\xce\x2f\xe6\x2a\xae\x2c\x2e\x49\xcd\xe5\x0a\x65\xca"
            "\x4c\x69\x0d\xd2\x03\0\xcd\x08\x9f\x2b\x14\0\0\0"),
        CONSTANT(
            "\x78\x9c\x6b\x60\x4a\xce\x2f\xe6\x2a\xae\x2c\x2e\x49\xcd\xe5\x0a\x65\xca\x4c\x69\x0d\xd2\x03\0"
            "\x47\x98\x06\xaa")};
    struct member m[] = {{.name = "t/data.pkl", .bytes = CONSTANT(PICKLE)},
                         {.name = "t/data/0", .bytes = {0}}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        m[1].bytes = packed[i];
        struct scan_results s = scan(m, 2, NULL);
        CHECK_FINDING(s, 2, "archive-opened", 0,
                      i ? "zlib data, unpacked and scanned" : "gzip data, unpacked and scanned");
        CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.result.pickles == 2);
        m[1].bytes.len--;
        CU_ASSERT_EQUAL(scan(m, 2, NULL).findings, 0);
        char padded[64] = {0};
        memcpy(padded, packed[i].ptr, packed[i].len);
        m[1].bytes = (ckpt_str){padded, sizeof padded};
        s = scan(m, 2, NULL);
        CHECK_FINDING(s, 2, "malformed", 0, i ? "zlib data: 36 bytes follow" : "gzip data: 24 bytes follow");
        CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && s.result.pickles == 2);
    }
}

static void large_compressed_storages_are_not_unpacked_completely(void)
{
    buf packed;
    buf_init(&packed, 1 << 20);
    for (int i = 0; i < 3; i++) { /* deflate blocks of type "stored", each of 60000 zeros */
        buf_put(&packed, i == 2 ? "\x01\x60\xea\x9f\x15" : "\0\x60\xea\x9f\x15", 5);
        for (int k = 0; k < 60000; k++)
            buf_byte(&packed, 0);
    }
    struct member m[] = {{.name = "t/data.pkl", .bytes = CONSTANT(PICKLE)},
                         {.name = "t/data/0",
                          .bytes = {(const char *)packed.data, packed.len},
                          .method = DEFLATE,
                          .usize = 180000}};
    struct scan_results s = scan(m, 2, NULL);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 1 &&
              strstr(s.first_finding.text, "compressed by method 8"));
    buf_free(&packed);
}

static void source_code_is_reported(void)
{
    struct member m[] = {{.name = "a.py", .bytes = CONSTANT("x = 1\n")},
                         {.name = "b.py", .bytes = CONSTANT("x = 1\n")}};
    CHECK_ONLY_FINDING(scan(m, 1, NULL), "contains-code", CKPT_NO_OFFSET,
                       "1 file of program text, the first is a.py");
    CHECK_ONLY_FINDING(scan(m, 2, NULL), "contains-code", CKPT_NO_OFFSET,
                       "2 files of program text, the first is a.py");
}

static void libraries_are_reported(void)
{
    struct member m[] = {{.name = "t/version", .bytes = CONSTANT("3\n")},
                         {.name = "t/data/lib/a.so",
                          .bytes = CONSTANT("\x7f"
                                            "ELF")},
                         {.name = "t/data/0",
                          .bytes = CONSTANT("\x7f"
                                            "ELF")},
                         {.name = "t/data.pkl", .bytes = CONSTANT("\x80\x02}.")}};
    CHECK_ONLY_FINDING(scan(m, 4, NULL), "contains-code", CKPT_NO_OFFSET,
                       "1 file of machine or byte code, the first is t/data/lib/a.so");
}

/* Of an AOTInductor package, torch compiles sources by the flags in the package, links and loads the result,
 * and loads kernels. It also unpacks what is in a folder whose name begins with data/constants. */
static void code_of_inductor_is_reported(void)
{
    static const char *const code[] = {
        "t/data/aotinductor/m/a.wrapper.cpp",
        "t/data/aotinductor/m/a.wrapper_compile_flags.json",
        "t/data/aotinductor/m/a.wrapper.so",
        "t/data/aotinductor/m/script.ld",
        "t/data/aotinductor/m/a.cubin",
        "t/data/aotinductor/m/sub/a.weights.o",
        "data/aotinductor/m/a",
        "t//data/\\aotinductor\\m/a.cpp",
        "data/data/aotinductor/m/CMakeLists.txt",
        "t/data/constants/a.cpp",
        "t/data/constants_2/a.so",
        "data/data/constants/a.o",
    };
    static const char *const values[] = {
        "t/data/aotinductor/m/a.wrapper_metadata.json",
        "t/data/aotinductor/m/weights_config.json",
        "t/data/aotinductor/m/a.wrapper.blob",
        "t/data/aotinductor/m/a_serialized_weights.bin",
        "t/data/constants/custom_obj_0",
        "t/data/constants/m_constants_config.json",
        "t/aotinductor/m/a.cpp",
        "t/data/x/aotinductor/a.cpp",
        "t/data/aotinductor/",
        "t/constants/a.cpp",
        "t/mydata/aotinductor/a.cpp",
    };
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) {
        struct member m = {.name = code[i], .bytes = CONSTANT(UNCOMPRESSED)};
        CHECK_ONLY_FINDING(scan(&m, 1, NULL), "contains-code", CKPT_NO_OFFSET,
                           "1 file of AOTInductor, which torch compiles and loads, the first is ");
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct member m = {.name = values[i], .bytes = CONSTANT(UNCOMPRESSED)};
        CHECK_CLEAN(scan(&m, 1, NULL));
    }
}

static void packages_of_inductor_are_recognized(void)
{
    struct member m[] = {{.name = "t/data/aotinductor/m/a.cpp", .bytes = CONSTANT(UNCOMPRESSED)},
                         {.name = "t/archive_format", .bytes = CONSTANT("pt2")},
                         {.name = "t/.data/serialization_id", .bytes = CONSTANT("1")}};
    struct scan_results s = scan(m, 3, NULL);
    CHECK_ONLY_FINDING(s, "contains-code", CKPT_NO_OFFSET, "1 file of AOTInductor");
    CU_ASSERT_STRING_EQUAL(s.result.format, "torch-export");
}

/* scan_example_inputs - scans an exported program whose example inputs are the PICKLE, under NAME. */
static struct scan_results scan_example_inputs(ckpt_str pickle, const char *name)
{
    struct member inner[] = {{.name = "a/data.pkl", .bytes = pickle},
                             {.name = "a/version", .bytes = CONSTANT("3")}};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, inner, 2, 0);
    struct member m[] = {{.name = "t/archive_format", .bytes = CONSTANT("pt2")},
                         {.name = "t/models/m.json", .bytes = CONSTANT("{}")},
                         {.name = "t/extra/x", .bytes = {(const char *)b.data, b.len}},
                         {.name = name, .bytes = {(const char *)b.data, b.len}}};
    struct scan_results s = scan(m, 4, NULL);
    buf_free(&b);
    return s;
}

/* torch writes the keys of mappings in the example inputs into the message of a guard, in double quotes. */
static void keys_of_example_inputs_are_reported(void)
{
#define KEY(length, text) TEXT("\x80\x02}X" length "\0\0\0" text "K\x01s.")
    static const char name[] = "t/data/sample_inputs/m.pt";
    CU_ASSERT_EQUAL(scan_example_inputs(KEY("\x05", "a.b c"), name).findings, 0);
    CHECK_ONLY_FINDING(scan_example_inputs(KEY("\x03", "a\"b"), name), "evaluated-text", CKPT_NO_OFFSET,
                       "a\"b in the example inputs is not a text without quotes");
    CU_ASSERT_EQUAL(scan_example_inputs(KEY("\x03", "a'b"), name).findings, 1);
    CU_ASSERT_EQUAL(scan_example_inputs(KEY("\x03", "a\\b"), name).findings, 1);
    CU_ASSERT_EQUAL(scan_example_inputs(KEY("\x03", "a\"b"), "t/data/other/m.pt").findings, 0);
    CHECK_ONLY_FINDING(scan_example_inputs(TEXT("\x80\x02}U\x03"
                                                "a\"bK\x01s."),
                                           name),
                       "evaluated-text", CKPT_NO_OFFSET, "");
    CHECK_FINDING(scan_example_inputs(TEXT("\x80\x02}X"), name), 5, "not-opened", CKPT_NO_OFFSET,
                  "keys in the example inputs, which torch writes into Python code, were not read");
}

/* The folder of all records bears the name of the file. If that is data, it is not the folder of storages. */
static void members_of_any_top_folder_are_scanned(void)
{
    static const char *const names[] = {"t/models/m.json",       "data/models/m.json",
                                        "tensors/models/m.json", "constants/models/m.json",
                                        "t/models/data/m.json",  "t/models/constants/m.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct member m[] = {{.bytes = CONSTANT("3\n")},
                             {.name = names[i], .bytes = CONSTANT("{\"expr_str\": \"f()\"}")}};
        char version[32];
        (void)snprintf(version, sizeof version, "%.*s/version", (int)strcspn(names[i], "/"), names[i]);
        m[0].name = version;
        struct scan_results s = scan(m, 2, NULL);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "evaluated-text") == 0);
    }
}

static void bytes_between_members_are_scanned(void)
{
    struct member m = {.name = "a", .bytes = CONSTANT(UNCOMPRESSED)};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    /* inserts a pickle before the central directory, after the only member */
    size_t dir = ZIP_LOCAL_SIZE + strlen("a") + UNCOMPRESSED_SIZE, dir_and_end = b.len - dir;
    size_t inserted = sizeof(CALL_OS_SYSTEM) - 1;
    buf_put(&b, CALL_OS_SYSTEM, inserted); /* makes room */
    memmove(b.data + dir + inserted, b.data + dir, dir_and_end);
    memcpy(b.data + dir, CALL_OS_SYSTEM, inserted);
    unsigned char *directory_offset = b.data + b.len - 6; /* a field of the end record */
    *directory_offset = (unsigned char)(dir + inserted);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CHECK_FINDING(s, 2, "zip-structure", dir, "bytes that belong to no member");
    CHECK_FINDING(s, 2, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.all[1].where, "bytes@0x29"); /* 0x29 is DIR */
    CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
}

static void bytes_around_the_archive_are_scanned(void)
{
    struct member m = {.name = "a", .bytes = CONSTANT(UNCOMPRESSED)};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    buf_put(&b, CALL_OS_SYSTEM, sizeof(CALL_OS_SYSTEM) - 1);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CHECK_FINDING(s, 2, "known-exec", REDUCE_OFFSET, "");
    CU_ASSERT_STRING_EQUAL(s.all[1].where, "bytes@0x6e"); /* 0x6e is the end of the archive */
    b.len = 0;
    buf_put(&b, CALL_OS_SYSTEM, sizeof(CALL_OS_SYSTEM) - 1);
    zip_put(&b, &m, 1, b.len); /* only its end record leads to this archive, which is not at offset 0 */
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.result.verdict == CKPT_SCAN_KNOWN_EXEC && strcmp(s.result.format, "zip") == 0);
    b.len = 0;
    buf_put_cstr(&b, "PK00"); /* the signature of a split archive on one disk */
    zip_put(&b, &m, 1, 0);
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.status == CKPT_OK && strcmp(s.result.format, "zip") == 0);
    buf_free(&b);
}

static void nested_and_concatenated_archives_are_scanned(void)
{
    struct member m = {.name = "a", .bytes = CONSTANT(CALL_OS_SYSTEM)},
                  outer = {.name = "in.zip", .bytes = {NULL, 0}};
    ckpt_scan_options one_level = {.struct_size = sizeof one_level, .max_depth = 1};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, &m, 1, 0);
    outer.bytes = str_of((const char *)b.data, b.len);
    CHECK_ONLY_FINDING(scan(&outer, 1, &one_level), "not-opened", CKPT_NO_OFFSET,
                       "an archive nested too deep");
    CHECK_ONLY_FINDING(scan(&outer, 1, NULL), "known-exec", REDUCE_OFFSET, "");
    zip_put(&b, &m, 1, b.len);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CHECK_FINDING(s, 3, "zip-row", 0, "2 archives one after the other");
    CU_ASSERT(s.result.accounted == s.result.bytes && s.result.pickles == 2);
    buf_free(&b);
}

/* If several entries have the same local header, the callback is called for each of them. */
static void shared_bytes_are_scanned_once(void)
{
    struct member m[50];
    ckpt_scan_options with_sha256 = {.struct_size = sizeof with_sha256, .sha256 = true};
    for (size_t i = 0; i < 50; i++)
        m[i] = (struct member){.name = "a", .bytes = CONSTANT(CALL_OS_SYSTEM), .reuses_previous = i > 0};
    struct scan_results s = scan(m, 50, &with_sha256);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT(s.result.pickles == 1 && s.result.calls == 1 && s.result.members == 50 && s.members == 50);
    CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_NOTE], 49);
    m[1].name = "b.pkl"; /* scanned again because of its suffix */
    m[2].crc = 1;
    s = scan(m, 3, NULL);
    CU_ASSERT(s.result.pickles == 2 && s.result.found[CKPT_SCAN_NOTE] == 1);
    CU_ASSERT(strcmp(s.all[s.findings - 1].rule, "zip-checksum") == 0);
}

/* The members overlap. Each is a byte shorter than the previous one, so that scanning all takes quadratic
 * time. */
static void scanning_overlapping_members_is_limited(void)
{
    enum { MEMBERS = 400, LONGEST_MEMBER = 300000 };
    struct member *m = calloc(MEMBERS, sizeof *m);
    char *text = malloc(LONGEST_MEMBER);
    CU_ASSERT_FATAL(m && text);
    memset(text, 'x', LONGEST_MEMBER);
    for (size_t i = 0; i < MEMBERS; i++)
        m[i] = (struct member){
            .name = "a", .bytes = {text, LONGEST_MEMBER - i}, .crc = 1, .reuses_previous = i > 0};
    struct scan_results s = scan(m, MEMBERS, NULL);
    CU_ASSERT(s.status == CKPT_OK && s.result.members < 300);
    CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_INCOMPLETE], 1);
    free(text);
    free(m);
}

/* The file is a pickle, then an archive whose central directory is truncated. */
static void bytes_before_a_malformed_archive_are_scanned(void)
{
    struct scan_results s = scan_buffer(
        "cos\nsystem\n(S'id'\ntR.PK\1\2\x14\0\x14\0\0\0PK\5\6\0\0\0\0\1\0\1\0\x08\0\0\0\x15\0\0\0\0\0", 51,
        0);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
}

/* The central directory lacks its last byte, so that the scanner cannot read the name of the last entry. */
static void archives_of_torch_with_a_truncated_directory_are_scanned(void)
{
    struct member m[] = {{.name = "t/data.pkl", .bytes = CONSTANT(PICKLE)},
                         {.name = "t/version", .bytes = CONSTANT("3\n")}};
    buf b;
    buf_init(&b, 1 << 20);
    zip_put(&b, m, 2, 0);
    unsigned char *end_record = b.data + b.len - 22;
    end_record[12]--; /* the size of the central directory */
    memmove(end_record - 1, end_record, 22);
    struct scan_results s = scan_buffer(b.data, b.len - 1, 0);
    CU_ASSERT(s.status == CKPT_OK &&
              strstr(s.first_finding.text, "the central directory ends inside an entry"));
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
    UNIT(code_of_inductor_is_reported);
    UNIT(packages_of_inductor_are_recognized);
    UNIT(keys_of_example_inputs_are_reported);
    UNIT(members_of_any_top_folder_are_scanned);
    UNIT(bytes_between_members_are_scanned);
    UNIT(bytes_around_the_archive_are_scanned);
    UNIT(nested_and_concatenated_archives_are_scanned);
    UNIT(shared_bytes_are_scanned_once);
    UNIT(scanning_overlapping_members_is_limited);
    UNIT(bytes_before_a_malformed_archive_are_scanned);
    UNIT(archives_of_torch_with_a_truncated_directory_are_scanned);
}
