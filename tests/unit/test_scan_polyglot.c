/* Files that are two formats at once under scan: sound in one of them, and what a loader of the other runs.
 * */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "scanned.h"
#include "tarball.h"
#include "zipped.h"

#define CALL_SIZE (sizeof CALL - 1)
#define TAIL      65557u /* an end record and its longest comment */

static struct scanned scan(const buf *b) { return scan_buffer(b->data, b->len, 0); }

static bool is_format(const struct scanned *s, const char *name)
{
    return s->result.format && strcmp(s->result.format, name) == 0;
}

/* tensors - a safetensors file whose header HEADER is filled up with blanks to N bytes, and its data. */
static void tensors(buf *b, ckpt_str header, size_t n, ckpt_str data)
{
    buf_u64le(b, n);
    buf_str(b, header);
    for (size_t i = header.len; i < n; i++)
        buf_byte(b, ' ');
    buf_str(b, data);
}

static void plain_tensors(buf *b, const char *header, ckpt_str data)
{
    tensors(b, str_c(header), strlen(header), data);
}

#define ONE      "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"
#define FOUR     TEXT("\1\2\3\4")
#define SOUND(s) ((s).status == CKPT_OK && (s).findings == 0 && (s).result.accounted == (s).result.bytes)

/* 58 05 00 00 00 is a text of 5 bytes for a pickle, which ends with the quote of a tensor's name; in that,
 * "C" and a character are bytes of that many, and the last of those end in the data. */
static void a_header_length_begins_a_pickle(void)
{
    enum { N = 0x558, HOP = 127, LAST = N - 60 };
    static const char rest[] = "\":{\"dtype\":\"U8\",\"shape\":[119],\"data_offsets\":[0,119]}}";
    buf header, b;
    buf_init(&header, 1 << 16);
    buf_init(&b, 1 << 16);
    buf_text(&header, "{\"");
    for (size_t left; (left = LAST - 2 - header.len);) {
        size_t hop = (left > 2 * HOP ? HOP + 2 : left > HOP + 2 ? left / 2 : left) - 2;
        buf_byte(&header, 'C');
        buf_byte(&header, (unsigned char)hop);
        for (size_t i = 0; i < hop; i++)
            buf_byte(&header, 'x');
    }
    buf_text(&header, "C\x7f");
    size_t into = header.len + HOP - N; /* the text's bytes that are data */
    buf_text(&header, rest);
    unsigned char data[119] = {0};
    memcpy(data + into, &CALL[2], CALL_SIZE - 2);
    CU_ASSERT_FATAL(into + CALL_SIZE - 2 < sizeof data);
    tensors(&b, buf_view(&header), N, str_of((const char *)data, sizeof data));
    struct scanned s = scan(&b);
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    FINDING(s, 4, "PKL002", 8 + N + into + 16, "");
    FINDING(s, 4, "FMT004", 0, "polyglot: also a valid pickle");
    CU_ASSERT(is_format(&s, "safetensors"));
    b.data[8 + N + into] = 'b'; /* no import: chance */
    s = scan(&b);
    CU_ASSERT(SOUND(s));
    buf_free(&b);
    buf_free(&header);
}

/* Lengths whose low byte is an opcode are no pickle for that; nor is white space before the header a fault.
 * */
static void real_headers_are_no_pickle(void)
{
    for (size_t n = 0; n < 1024; n++) {
        buf b;
        buf_init(&b, 1 << 16);
        tensors(&b, TEXT(ONE), sizeof ONE - 1 + n, FOUR);
        struct scanned s = scan(&b);
        CU_ASSERT(SOUND(s) && s.result.pickles == 0);
        buf_free(&b);
    }
}

static void a_header_may_begin_with_white_space(void)
{
    static const size_t far[] = {1, 100, 511, 600, 4096, 5000};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        buf header, b;
        buf_init(&header, 1 << 16);
        buf_init(&b, 1 << 16);
        for (size_t k = 0; k < far[i]; k++)
            buf_byte(&header, (unsigned char)" \n\t\r"[k % 4]);
        buf_text(&header, ONE);
        tensors(&b, buf_view(&header), header.len, FOUR);
        struct scanned s = scan(&b);
        CU_ASSERT(SOUND(s));
        CU_ASSERT(is_format(&s, "safetensors"));
        buf_free(&b);
        buf_free(&header);
    }
}

/* archive_after - what B holds, an archive of one pickle that calls, and a comment of N bytes. */
static void archive_after(buf *b, size_t before, size_t n)
{
    struct member m = {"evil.pkl", CONSTANT(CALL), 0, 0, 0, 0, false};
    zip_put(b, &m, 1, before);
    b->data[b->len - 2] = (unsigned char)n;
    b->data[b->len - 1] = (unsigned char)(n >> 8);
    for (size_t i = 0; i < n; i++)
        buf_byte(b, 'c');
}

static void found_after(buf *b, const char *format, size_t before, size_t comment, int line)
{
    archive_after(b, before, comment);
    struct scanned s = scan(b);
    bool two = false, runs = false;
    for (size_t i = 0; i < s.findings && i < SCANNED_MAX; i++) {
        two = two || (strcmp(s.all[i].id, "FMT004") == 0 && strstr(s.all[i].text, "also a zip archive"));
        runs = runs || (strcmp(s.all[i].id, "PKL002") == 0 && strstr(s.all[i].where, "evil.pkl"));
    }
    bool right = s.status == CKPT_OK && two && runs && is_format(&s, format);
    if (!right)
        printf("\n    line %d: %s: %zu findings, the first %s %s: %s", line,
               s.result.format ? s.result.format : "?", s.findings, s.first.id, s.first.where, s.first.text);
    CU_ASSERT(right);
    buf_free(b);
}
#define FOUND_AFTER(b, format, before, comment) found_after(b, format, before, comment, __LINE__)

#define NPY "\x93NUMPY\x01\0\x76\0{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }"

/* zipfile, torch.jit and keras go by the end record, wherever the file begins. */
static void an_archive_at_the_end_is_found(void)
{
    static const size_t comments[] = {1, 2, 1000, 65535};
    for (size_t i = 0; i < 2 * sizeof comments / sizeof *comments; i++) {
        size_t n = comments[i / 2], inside = i % 2;
        buf b;
        buf_init(&b, 1 << 18);
        plain_tensors(&b, ONE, FOUR);
        FOUND_AFTER(&b, "safetensors", inside ? 0 : b.len, n);
        buf_put(&b, NPY, sizeof NPY - 1);
        for (size_t k = b.len; k < 127; k++)
            buf_byte(&b, ' ');
        buf_text(&b, "\n\1\2\3\4");
        FOUND_AFTER(&b, "npy", inside ? 0 : b.len, n);
        buf_text(&b, "\x80\x02N.");
        FOUND_AFTER(&b, "pickle", inside ? 0 : b.len, n);
        buf_text(&b, "GGUF\3");
        buf_put(&b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 19);
        FOUND_AFTER(&b, "gguf", inside ? 0 : b.len, n);
        tar_member(&b, "a", '0', TEXT("text\n"));
        tar_end(&b);
        FOUND_AFTER(&b, "tar", inside ? 0 : b.len, n);
    }
}

/* tensor_of - B: safetensors of one tensor, which is DATA. */
static void tensor_of(buf *b, ckpt_str data)
{
    char header[128];
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
             data.len, data.len);
    plain_tensors(b, header, data);
}

/* An archive in the data of a tensor, and one of which the file has a comment with an archive in it. */
static void an_archive_in_a_tensor_is_found(void)
{
    buf b, zip;
    buf_init(&zip, 1 << 16);
    buf_init(&b, 1 << 16);
    archive_after(&zip, 0, 3);
    tensor_of(&b, buf_view(&zip));
    struct scanned s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&zip);
    buf_free(&b);
}

/* What only looks like an end record leads nowhere, and one too far from the end is read by nobody. */
static void chance_is_no_archive(void)
{
    char *data = calloc(1, 2 * TAIL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    memcpy(data + 2 * TAIL - 100, "PK\5\6\0\0\0\0\1\0\1\0\x40\0\0\0\x10\0\0\0\0\0", 22);
    buf b;
    buf_init(&b, 1 << 20);
    tensor_of(&b, str_of(data, 2 * TAIL));
    struct scanned s = scan(&b);
    CU_ASSERT(SOUND(s));
    buf_free(&b);
    struct member m = {"evil.pkl", CONSTANT(CALL), 0, 0, 0, 0, false};
    buf zip;
    buf_init(&zip, 1 << 16);
    zip_put(&zip, &m, 1, 0);
    memcpy(data, zip.data, zip.len);
    memset(data + 2 * TAIL - 100, 0, 100);
    tensor_of(&b, str_of(data, 2 * TAIL));
    s = scan(&b);
    CU_ASSERT(SOUND(s));
    buf_free(&zip);
    buf_free(&b);
    free(data);
}

/* Python searches one byte more than the longest comment, miniz in steps that reach 4 KiB further. */
static void an_archive_is_found_as_far_as_readers_search(void)
{
    static const size_t distances[] = {TAIL - 1, TAIL, TAIL + 1, TAIL + 77, TAIL + 4092};
    struct member m = {"evil.pkl", CONSTANT(CALL), 0, 0, 0, 0, false};
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        buf b, data;
        buf_init(&b, 1 << 20);
        buf_init(&data, 1 << 20);
        zip_put(&data, &m, 1, 0);
        for (size_t n = distances[i] - 22; n; n--)
            buf_byte(&data, 0);
        tensor_of(&b, buf_view(&data));
        struct scanned s = scan(&b);
        CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
        CU_ASSERT(is_format(&s, "safetensors"));
        buf_free(&data);
        buf_free(&b);
    }
}

/* The second of two archives has a comment, and its offsets do not count the first, whose only member has its
 * sizes after its data: a strict reader finds no directory, and that member has no end. Python opens the
 * second one. */
static void an_archive_after_an_endless_member_is_scanned(void)
{
    struct member m = {"a.txt", CONSTANT("just text\n"), 0, 8, 0, 0, false};
    buf b;
    buf_init(&b, 1 << 16);
    zip_put(&b, &m, 1, 0);
    memset(b.data + 18, 0, 8); /* its sizes */
    archive_after(&b, b.len, 3);
    struct scanned s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
}

/* An archive that is the last member of a tar is scanned as that; what zip readers make of the tar is a note.
 * */
static void a_member_at_the_end_is_a_note(void)
{
    struct member m = {"a.txt", CONSTANT("just text\n"), 0, 0, 0, 0, false};
    buf b, zip;
    buf_init(&zip, 1 << 16);
    buf_init(&b, 1 << 16);
    zip_put(&zip, &m, 1, 0);
    tar_member(&b, "m.zip", '0', buf_view(&zip));
    tar_end(&b);
    struct scanned s = scan(&b);
    FINDING(s, 1, "ZIP004", 512 + zip.len - 22, "readers of zip open");
    CU_ASSERT(s.result.found[CKPT_SCAN_NOTE] == 1 && s.result.accounted == s.result.bytes);
    buf_free(&zip);
    buf_free(&b);
}

/* stored_block - zlib's wrapper around PAYLOAD in one stored block, whose length is to be printable. */
static void stored_block(buf *b, const char *payload, size_t n)
{
    uint32_t a = 1, c = 0;
    buf_text(b, "\x78\x5e\x01");
    buf_u16le(b, (uint16_t)n);
    buf_u16le(b, (uint16_t)~n);
    for (size_t i = 0; i < n; i++) {
        unsigned char x = i < strlen(payload) ? (unsigned char)payload[i] : (unsigned char)' ';
        buf_byte(b, x);
        a = (a + x) % 65521;
        c = (c + a) % 65521;
    }
    buf_u32le(b, __builtin_bswap32(c << 16 | a));
}

/* 78 5e are letters, 21 is the last block, stored (bits above that are filling), and its length and the
 * complement of that, 5e c3 a1 3c, are UTF-8. */
static void a_zlib_stream_of_letters_is_unpacked(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    stored_block(&b, "cos\nsystem\n(S'id'\ntR.", 0xc35e);
    b.data[2] = 0x21;
    struct scanned s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT(is_format(&s, "zlib"));
    b.len -= 6; /* without its checksum it is text; a loader that reads on demand has called by now */
    s = scan(&b);
    CU_ASSERT(s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC);
    buf_free(&b);
    s = scan_buffer_as(TEXT("x^2 + y^2 = z^2\n"), NULL, NULL, 0);
    CU_ASSERT(SOUND(s));
    CU_ASSERT(is_format(&s, "text"));
}

void suite_scan_polyglot(void)
{
    UNIT(a_header_length_begins_a_pickle);
    UNIT(real_headers_are_no_pickle);
    UNIT(a_header_may_begin_with_white_space);
    UNIT(an_archive_at_the_end_is_found);
    UNIT(an_archive_in_a_tensor_is_found);
    UNIT(chance_is_no_archive);
    UNIT(an_archive_is_found_as_far_as_readers_search);
    UNIT(an_archive_after_an_endless_member_is_scanned);
    UNIT(a_member_at_the_end_is_a_note);
    UNIT(a_zlib_stream_of_letters_is_unpacked);
}
