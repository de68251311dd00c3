/* Scanning polyglots: files that are valid in one format, and harmful in another. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "scanned.h"
#include "tarball.h"
#include "zipped.h"

#define CALL_SIZE      (sizeof CALL_OS_SYSTEM - 1)
#define END_RECORD_MAX 65557u /* bytes of an end record with the longest comment: 22 + 65535 */

static struct scan_results scan(const buf *b) { return scan_buffer(b->data, b->len, 0); }

static bool is_format(const struct scan_results *s, const char *name)
{
    return s->result.format && strcmp(s->result.format, name) == 0;
}

/* put_padded - appends a safetensors file of HEADER, padded with blanks to N bytes, and the tensors' DATA. */
static void put_padded(buf *b, ckpt_str header, size_t n, ckpt_str data)
{
    buf_u64le(b, n);
    buf_put_str(b, header);
    for (size_t i = header.len; i < n; i++)
        buf_byte(b, ' ');
    buf_put_str(b, data);
}

static void put_safetensors(buf *b, const char *header, ckpt_str data)
{
    put_padded(b, str_c(header), strlen(header), data);
}

#define ONE_TENSOR  "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"
#define FOUR_BYTES  TEXT("\1\2\3\4")
#define IS_CLEAN(s) ((s).status == CKPT_OK && (s).findings == 0 && (s).result.accounted == (s).result.bytes)

/* Read as opcodes, the header length 0x558 is BINUNICODE with a text of 5 bytes, which ends at the quotation
 * mark before a name. In the name, each "C" is SHORT_BINBYTES. The bytes of the last "C" end in the data. */
static void a_pickle_that_begins_with_the_header_length_is_found(void)
{
    /* SKIP_MAX: the most bytes that a "C" skips; the last one skips as many. AFTER_LAST: the offset in the
     * header after the last "C" and its length */
    enum { HEADER_LENGTH = 0x558, SKIP_MAX = 127, AFTER_LAST = HEADER_LENGTH - 60 };
    static const char description[] = "\":{\"dtype\":\"U8\",\"shape\":[119],\"data_offsets\":[0,119]}}";
    buf header, b;
    buf_init(&header, 1 << 16);
    buf_init(&b, 1 << 16);
    buf_put_cstr(&header, "{\"");
    for (size_t left; (left = AFTER_LAST - 2 - header.len);) {
        size_t size = left > 2 * SKIP_MAX ? SKIP_MAX + 2 : left > SKIP_MAX + 2 ? left / 2 : left;
        size_t skip = size - 2; /* without "C" and its length */
        buf_byte(&header, 'C');
        buf_byte(&header, (unsigned char)skip);
        for (size_t i = 0; i < skip; i++)
            buf_byte(&header, 'x');
    }
    buf_put_cstr(&header, "C\x7f");
    size_t skipped_data = header.len + SKIP_MAX -
                          HEADER_LENGTH; /* bytes of the data that the last "C" skips */
    buf_put_cstr(&header, description);
    unsigned char data[119] = {0};
    memcpy(data + skipped_data, &CALL_OS_SYSTEM[2], CALL_SIZE - 2);
    CU_ASSERT_FATAL(skipped_data + CALL_SIZE - 2 < sizeof data);
    put_padded(&b, buf_view(&header), HEADER_LENGTH, str_of((const char *)data, sizeof data));
    struct scan_results s = scan(&b);
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    /* the header is at 8, after its length; REDUCE is 16 bytes after the GLOBAL that imports os.system */
    CHECK_FINDING(s, 5, "known-exec", 8 + HEADER_LENGTH + skipped_data + 16, "");
    CHECK_FINDING(s, 5, "two-formats", 0, "polyglot: also a valid pickle");
    CHECK_FINDING(s, 5, "control-character", 0, "U+007F");
    CU_ASSERT(is_format(&s, "safetensors"));
    b.data[8 + HEADER_LENGTH + skipped_data] = 'b'; /* no longer an import */
    s = scan(&b);
    CHECK_ONLY_FINDING(s, "control-character", 0, "U+007F");
    buf_free(&b);
    buf_free(&header);
}

/* The low byte of the header's length takes every value, also those that are opcodes. */
static void valid_headers_are_no_pickle(void)
{
    for (size_t n = 0; n < 1024; n++) {
        buf b;
        buf_init(&b, 1 << 16);
        put_padded(&b, TEXT(ONE_TENSOR), sizeof ONE_TENSOR - 1 + n, FOUR_BYTES);
        struct scan_results s = scan(&b);
        CU_ASSERT(IS_CLEAN(s) && s.result.pickles == 0);
        buf_free(&b);
    }
}

static void a_header_may_begin_with_white_space(void)
{
    static const size_t blanks[] = {1, 100, 511, 600, 4096, 5000};
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        buf header, b;
        buf_init(&header, 1 << 16);
        buf_init(&b, 1 << 16);
        for (size_t k = 0; k < blanks[i]; k++)
            buf_byte(&header, (unsigned char)" \n\t\r"[k % 4]);
        buf_put_cstr(&header, ONE_TENSOR);
        put_padded(&b, buf_view(&header), header.len, FOUR_BYTES);
        struct scan_results s = scan(&b);
        CU_ASSERT(IS_CLEAN(s));
        CU_ASSERT(is_format(&s, "safetensors"));
        buf_free(&b);
        buf_free(&header);
    }
}

/* put_archive - appends a zip archive of one harmful pickle, with a comment of COMMENT_SIZE bytes. The
 * offsets in the archive count from byte BEFORE of B. */
static void put_archive(buf *b, size_t before, size_t comment_size)
{
    struct member m = {.name = "evil.pkl", .bytes = CONSTANT(CALL_OS_SYSTEM)};
    zip_put(b, &m, 1, before);
    b->data[b->len - 2] = (unsigned char)comment_size;
    b->data[b->len - 1] = (unsigned char)(comment_size >> 8);
    for (size_t i = 0; i < comment_size; i++)
        buf_byte(b, 'c');
}

/* check_appended_archive - appends an archive as put_archive does, scans B, and empties it. Checks
 * that the format is FORMAT, and that the archive and its pickle are reported. */
static void check_appended_archive(buf *b, const char *format, size_t before, size_t comment_size, int line)
{
    put_archive(b, before, comment_size);
    struct scan_results s = scan(b);
    bool archive_found = false, pickle_found = false;
    for (size_t i = 0; i < s.findings && i < MAX_FINDINGS; i++) {
        archive_found = archive_found || (strcmp(s.all[i].rule, "two-formats") == 0 &&
                                          strstr(s.all[i].text, "also a zip archive"));
        pickle_found = pickle_found ||
                       (strcmp(s.all[i].rule, "known-exec") == 0 && strstr(s.all[i].where, "evil.pkl"));
    }
    bool as_expected = s.status == CKPT_OK && archive_found && pickle_found && is_format(&s, format);
    if (!as_expected)
        printf("\n    line %d: %s: %zu findings, the first %s %s: %s", line,
               s.result.format ? s.result.format : "?", s.findings, s.first_finding.rule,
               s.first_finding.where, s.first_finding.text);
    CU_ASSERT(as_expected);
    buf_free(b);
}
#define CHECK_APPENDED_ARCHIVE(b, format, before, comment)                                                   \
    check_appended_archive(b, format, before, comment, __LINE__)

#define NPY "\x93NUMPY\x01\0\x76\0{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }"

/* zipfile, torch.jit and keras search for the end record, whatever the file begins with. */
static void an_archive_at_the_end_of_any_file_is_found(void)
{
    static const size_t comments[] = {1, 2, 1000, 65535};
    for (size_t i = 0; i < 2 * sizeof comments / sizeof *comments; i++) {
        size_t n = comments[i / 2];
        bool from_start = i % 2; /* the archive's offsets count from the first byte of the file */
        buf b;
        buf_init(&b, 1 << 18);
        put_safetensors(&b, ONE_TENSOR, FOUR_BYTES);
        CHECK_APPENDED_ARCHIVE(&b, "safetensors", from_start ? 0 : b.len, n);
        buf_put(&b, NPY, sizeof NPY - 1);
        for (size_t k = b.len; k < 127; k++)
            buf_byte(&b, ' ');
        buf_put_cstr(&b, "\n\1\2\3\4");
        CHECK_APPENDED_ARCHIVE(&b, "npy", from_start ? 0 : b.len, n);
        buf_put_cstr(&b, "\x80\x02N.");
        CHECK_APPENDED_ARCHIVE(&b, "pickle", from_start ? 0 : b.len, n);
        buf_put_cstr(&b, "GGUF\3");
        buf_put(&b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 19);
        CHECK_APPENDED_ARCHIVE(&b, "gguf", from_start ? 0 : b.len, n);
        tar_member(&b, "a", '0', TEXT("text\n"));
        tar_end(&b);
        CHECK_APPENDED_ARCHIVE(&b, "tar", from_start ? 0 : b.len, n);
    }
}

/* put_tensor - appends a safetensors file of one tensor, which holds DATA. */
static void put_tensor(buf *b, ckpt_str data)
{
    char header[128];
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
             data.len, data.len);
    put_safetensors(b, header, data);
}

static void an_archive_in_a_tensor_is_found(void)
{
    buf b, zip;
    buf_init(&zip, 1 << 16);
    buf_init(&b, 1 << 16);
    put_archive(&zip, 0, 3);
    put_tensor(&b, buf_view(&zip));
    struct scan_results s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&zip);
    buf_free(&b);
}

/* The first file has an end record without a central directory. In the second, an archive is so far from the
 * end of the file that no reader finds it. */
static void bytes_that_no_reader_opens_are_no_archive(void)
{
    char *data = calloc(1, 2 * END_RECORD_MAX);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    memcpy(data + 2 * END_RECORD_MAX - 100, "PK\5\6\0\0\0\0\1\0\1\0\x40\0\0\0\x10\0\0\0\0\0", 22);
    buf b;
    buf_init(&b, 1 << 20);
    put_tensor(&b, str_of(data, 2 * END_RECORD_MAX));
    struct scan_results s = scan(&b);
    CU_ASSERT(IS_CLEAN(s));
    buf_free(&b);
    struct member m = {.name = "evil.pkl", .bytes = CONSTANT(CALL_OS_SYSTEM)};
    buf zip;
    buf_init(&zip, 1 << 16);
    zip_put(&zip, &m, 1, 0);
    memcpy(data, zip.data, zip.len);
    memset(data + 2 * END_RECORD_MAX - 100, 0, 100);
    put_tensor(&b, str_of(data, 2 * END_RECORD_MAX));
    s = scan(&b);
    CU_ASSERT(IS_CLEAN(s));
    buf_free(&zip);
    buf_free(&b);
    free(data);
}

/* Python also finds an end record that is one byte farther from the end than the longest comment allows, and
 * miniz one that is up to 4 KiB farther. */
static void an_archive_is_found_as_far_as_readers_search(void)
{
    static const size_t distances[] = {END_RECORD_MAX - 1, END_RECORD_MAX, END_RECORD_MAX + 1,
                                       END_RECORD_MAX + 77, END_RECORD_MAX + 4092};
    struct member m = {.name = "evil.pkl", .bytes = CONSTANT(CALL_OS_SYSTEM)};
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        buf b, data;
        buf_init(&b, 1 << 20);
        buf_init(&data, 1 << 20);
        zip_put(&data, &m, 1, 0);
        for (size_t n = distances[i] - 22; n; n--)
            buf_byte(&data, 0);
        put_tensor(&b, buf_view(&data));
        struct scan_results s = scan(&b);
        CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
        CU_ASSERT(is_format(&s, "safetensors"));
        buf_free(&data);
        buf_free(&b);
    }
}

/* The file is two archives. In the first, the member has no sizes and no descriptor. The second has a
 * comment, and offsets that count from its own first byte. Strict readers find no central directory, but
 * Python opens the second archive. */
static void an_archive_after_a_member_of_unknown_size_is_scanned(void)
{
    struct member m = {.name = "a.txt", .bytes = CONSTANT("just text\n"), .flags = 8};
    buf b;
    buf_init(&b, 1 << 16);
    zip_put(&b, &m, 1, 0);
    memset(b.data + 18, 0, 8); /* clears the sizes of the member */
    put_archive(&b, b.len, 3);
    struct scan_results s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
}

/* The last member of the tar archive is a zip archive, so readers of zip can open the whole file. */
static void a_zip_archive_at_the_end_of_a_tar_is_reported_as_a_note(void)
{
    struct member m = {.name = "a.txt", .bytes = CONSTANT("just text\n")};
    buf b, zip;
    buf_init(&zip, 1 << 16);
    buf_init(&b, 1 << 16);
    zip_put(&zip, &m, 1, 0);
    tar_member(&b, "m.zip", '0', buf_view(&zip));
    tar_end(&b);
    struct scan_results s = scan(&b);
    /* the offset of the end record, the last 22 bytes of the member, whose tar header has 512 bytes */
    CHECK_ONLY_FINDING(s, "zip-at-end", 512 + zip.len - 22, "readers of zip open");
    CU_ASSERT(s.result.found[CKPT_SCAN_NOTE] == 1 && s.result.accounted == s.result.bytes);
    buf_free(&zip);
    buf_free(&b);
}

/* put_zlib - appends a zlib stream of one stored block, which is PAYLOAD, padded with blanks to N bytes. */
static void put_zlib(buf *b, const char *payload, size_t n)
{
    uint32_t adler_low = 1, adler_high = 0; /* the two halves of the Adler-32 */
    buf_put_cstr(b, "\x78\x5e\x01");
    buf_u16le(b, (uint16_t)n);
    buf_u16le(b, (uint16_t)~n);
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = i < strlen(payload) ? (unsigned char)payload[i] : (unsigned char)' ';
        buf_byte(b, byte);
        adler_low = (adler_low + byte) % 65521;
        adler_high = (adler_high + adler_low) % 65521;
    }
    buf_u32le(b, __builtin_bswap32(adler_high << 16 | adler_low));
}

/* The header 78 5e, the block type 21 and the length with its complement, 5e c3 a1 3c, are UTF-8 text. */
static void a_zlib_stream_that_looks_like_text_is_scanned(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    put_zlib(&b, "cos\nsystem\n(S'id'\ntR.", 0xc35e);
    b.data[2] = 0x21;
    struct scan_results s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT(is_format(&s, "zlib"));
    /* without the checksum and two blanks, loaders that decompress on demand still run the pickle */
    b.len -= 6;
    s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
    /* "x^" is 78 5e */
    s = scan_buffer_as(TEXT("x^2 + y^2 = z^2\n"), NULL, NULL, 0);
    CU_ASSERT(IS_CLEAN(s));
    CU_ASSERT(is_format(&s, "text"));
}

/* put_tar_checksum - makes the first 512 bytes of B the header of a member of SIZE bytes in a tar without
 * signature. */
static void put_tar_checksum(buf *b, unsigned size)
{
    char digits[16];
    uint32_t sum = 0;
    memset(b->data + 148, ' ', 8);
    b->data[156] = '0'; /* a regular file */
    snprintf(digits, sizeof digits, "%011o ", size);
    memcpy(b->data + 124, digits, 12);
    for (size_t i = 0; i < 512; i++)
        sum += (unsigned char)b->data[i];
    snprintf(digits, sizeof digits, "%06o  ", (unsigned)sum);
    memcpy(b->data + 148, digits, 8);
}

/* Files of two formats, whose first block is also the header of a tar with a member: the pickle at 512. */
static void files_that_are_tar_too_are_reported(void)
{
    static const struct {
        ckpt_str begin;
        const char *format;
    } files[] = {
        {CONSTANT("\xf8\x03\0\0\0\0\0\0{\"__metadata__\":{\"a\":\""), "safetensors"},
        {CONSTANT("\x93NUMPY\x01\0\xf6\x03{'descr': '|u1', "), "npy"},
        {CONSTANT("GGUF\3\0\0\0"), "gguf"},
        {CONSTANT("\x1f\x8b\x08\0\0\0\0\0\0\3"), "gzip"},
        {CONSTANT("some text\n"), "tar"},
    };
    buf b;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        buf_init(&b, 1 << 20);
        buf_put_str(&b, files[i].begin);
        while (b.len < 512)
            buf_byte(&b, i == 4 ? 0 : 'x');
        buf_put_str(&b, TEXT(CALL_OS_SYSTEM));
        while (b.len < 2048)
            buf_byte(&b, 0);
        put_tar_checksum(&b, sizeof CALL_OS_SYSTEM - 1);
        struct scan_results s = scan_buffer(b.data, b.len, 0);
        CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
        CU_ASSERT_STRING_EQUAL(s.result.format ? s.result.format : "none", files[i].format);
        buf_free(&b);
    }
}

/* The length of a safetensors header, 0x088b1f, begins like gzip. */
static void containers_that_are_compressed_too_are_reported(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_put_str(&b, TEXT("\x1f\x8b\x08\0\0\0\0\0{}"));
    while (b.len < 0x088b1f + 8)
        buf_byte(&b, ' ');
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CHECK_FINDING(s, s.findings, "two-formats", 0,
                  s.result.format && strcmp(s.result.format, "gzip") == 0 ? "" : "polyglot: also gzip data");
    buf_free(&b);
    buf_init(&b, 1 << 20);
    tar_member(&b, "\x1f\x8b\x08name", '0', TEXT("{}"));
    s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.findings > 0);
    buf_free(&b);
}

void suite_scan_polyglot(void)
{
    UNIT(files_that_are_tar_too_are_reported);
    UNIT(containers_that_are_compressed_too_are_reported);
    UNIT(a_pickle_that_begins_with_the_header_length_is_found);
    UNIT(valid_headers_are_no_pickle);
    UNIT(a_header_may_begin_with_white_space);
    UNIT(an_archive_at_the_end_of_any_file_is_found);
    UNIT(an_archive_in_a_tensor_is_found);
    UNIT(bytes_that_no_reader_opens_are_no_archive);
    UNIT(an_archive_is_found_as_far_as_readers_search);
    UNIT(an_archive_after_a_member_of_unknown_size_is_scanned);
    UNIT(a_zip_archive_at_the_end_of_a_tar_is_reported_as_a_note);
    UNIT(a_zlib_stream_that_looks_like_text_is_scanned);
}
