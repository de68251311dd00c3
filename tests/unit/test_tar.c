/* Reading tar archives: names and sizes of ustar, GNU and pax, and malformed headers. */
#include <stdio.h>

#include "base/buf.h"
#include "codec/tar.h"
#include "tarball.h"
#include "unit.h"

/* The members of an archive, or the error. */
struct listing {
    unsigned char *bytes;
    source *src;
    arena *a;
    struct tar_entry *entries;
    size_t n, size;
    ckpt_status st;
    ckpt_error err;
};

static struct listing list_members(const void *bytes, size_t size)
{
    struct listing l = {.bytes = unit_guard(bytes, size), .size = size, .a = arena_new(1 << 24)};
    l.src = source_mem(l.bytes, size, 0);
    l.st = tar_list(l.src, l.a, false, &l.entries, &l.n, &l.err);
    return l;
}

static void free_listing(struct listing *l)
{
    source_unref(l->src);
    arena_free(l->a);
    unit_guard_free(l->bytes, l->size);
}

static void put_archive(buf *b)
{
    buf_init(b, 1 << 20);
    tar_put(b, "storages", "", '0', "00000000005", STR_LIT("12345"));
    tar_put(b, "name", "folder", '0', "00000000001", STR_LIT("x"));
    tar_put(b, "././@LongLink", "", 'L', "00000000007", STR_LIT("longer\0"));
    tar_put(b, "replaced by longer", "", '0', "00000000002", STR_LIT("yy"));
    tar_put(b, "pax", "", 'x', "00000000027", STR_LIT("14 path=renam\n9 size=3\n"));
    tar_put(b, "replaced by renam", "", '0', "00000000000", STR_LIT("zzz"));
    tar_put(b, "link", "", '2', "00000000777", STR_LIT(""));
    tar_put(b, "base256", "", '0', "\x80\0\0\0", STR_LIT(""));
}

static void lists_ustar_gnu_and_pax_members(void)
{
    static const char *const names[] = {"storages", "folder/name", "longer", "renam", "link", "base256"};
    static const uint64_t sizes[] = {5, 1, 2, 3, 0, 0};
    buf b;
    put_archive(&b);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(l.st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(l.n, 6);
    for (size_t i = 0; i < 6; i++) {
        CU_ASSERT(str_is(l.entries[i].name, names[i]));
        CU_ASSERT_EQUAL(l.entries[i].size, sizes[i]);
    }
    CU_ASSERT(memcmp(l.bytes + l.entries[3].data, "zzz", 3) == 0);
    free_listing(&l);
    buf_free(&b);
}

/* A name of 100 bytes or a prefix of 155 bytes has no terminating NUL. */
static void full_name_fields_are_read(void)
{
    unsigned char h[512] = {0};
    buf b;
    memset(h, 'n', 100);
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 124, "00000000000", 12);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 345, 'p', 155);
    memset(h + 500, 'x', 12);
    tar_seal(h);
    buf_init(&b, 1 << 20);
    buf_put(&b, h, sizeof h);
    tar_end(&b);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(l.st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(l.n, 1);
    CU_ASSERT_EQUAL_FATAL(l.entries[0].name.len, 155 + 1 + 100);
    for (size_t i = 0; i < 256; i++)
        CU_ASSERT_EQUAL(l.entries[0].name.ptr[i], i < 155 ? 'p' : i == 155 ? '/' : 'n');
    free_listing(&l);
    buf_free(&b);
}

static void check_size(const char *size, char type, ckpt_str payload, ckpt_status want)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "m", "", type, size, payload);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL(l.st, want);
    free_listing(&l);
    buf_free(&b);
}

static void refuses_wrong_sizes(void)
{
    check_size("77777777777", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    check_size("00000001001", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    check_size("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", '0', STR_LIT("x"), CKPT_EFORMAT);
    check_size("0000000000x", '0', STR_LIT("x"), CKPT_EFORMAT);
    check_size("00000000004", 'x', STR_LIT("9999"), CKPT_EFORMAT);
    check_size("00000000013", 'x', STR_LIT("11 size=99\n"), CKPT_OK);
}

static void refuses_a_wrong_checksum(void)
{
    buf b;
    put_archive(&b);
    b.data[0] ^= 1;
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL(l.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(l.err.what, "checksum"));
    free_listing(&l);
    buf_free(&b);
}

static void every_truncation_is_read_safely(void)
{
    buf b;
    put_archive(&b);
    for (size_t n = 0; n < b.len; n++) {
        struct listing l = list_members(b.data, n);
        CU_ASSERT(l.st == CKPT_ETRUNCATED || (l.st == CKPT_OK && l.n <= 6));
        free_listing(&l);
    }
    buf_free(&b);
}

/* check_refused - checks that the archive B is refused with the status WANT, and WHAT in the message, at
 * offset AT. */
static void check_refused(const buf *b, ckpt_status want, uint64_t at, const char *what)
{
    struct listing l = list_members(b->data, b->len);
    if (l.st != want || !strstr(l.err.what, what))
        printf("\n    %s: %d, %s", what, l.st, l.err.what);
    CU_ASSERT(l.st == want && l.err.offset == at && strstr(l.err.what, what));
    free_listing(&l);
}

static void malformed_headers_are_named(void)
{
    static const struct {
        const char *size, *payload, *what; /* the size in the header; part of the message */
        ckpt_status st;
        char type;
    } cases[] = {
        {"77777777777", "x", "8589934591 bytes, of which the file has 512", CKPT_ETRUNCATED, '0'},
        {"\xc0\0\0\0\0\0\0\0\0\0\0\1", "x", "must be a number", CKPT_EFORMAT, '0'},
        {"\x80\1", "x", "must be a number", CKPT_EFORMAT, '0'}, /* 2^80 */
        {"0000000000x", "x", "must be a number", CKPT_EFORMAT, '0'},
        {"00000000007", "9 a=\n\n\n\n", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000011", "8 a=bcd.\n", "pax record", CKPT_EFORMAT, 'x'}, /* does not end with a line feed */
        {"00000000010", "8 a.bcd\n", "pax record", CKPT_EFORMAT, 'x'},  /* no '=' */
        {"00000000014", "12 size=1x2\n", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000013", "000000011 a", "pax record", CKPT_EFORMAT, 'x'}, /* the length has nine digits */
        {"00000000002", "12", "pax record", CKPT_EFORMAT, 'x'},          /* the record has only a length */
        {"00000000003", "x=1", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000003", "3=1", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000003", "2 =", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000004", "9 a=", "pax record", CKPT_EFORMAT, 'x'},
        {"00000000003", "/ =", "pax record", CKPT_EFORMAT, 'x'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf b;
        buf_init(&b, 1 << 20);
        tar_put(&b, "first", "", '0', "0", STR_LIT(""));
        tar_put(&b, "m", "", cases[i].type, "", str_c(cases[i].payload));
        size_t n = strlen(cases[i].size);
        memcpy(b.data + 512 + 124, cases[i].size, cases[i].size[0] == '\xc0' ? 12 : n);
        tar_seal(b.data + 512);
        check_refused(&b, cases[i].st, 512, cases[i].what);
        buf_free(&b);
    }
}

static void limits_the_length_of_names(void)
{
    buf b;
    buf_init(&b, 4 << 20);
    tar_put(&b, "././@LongLink", "", 'L', "00004000001", STR_LIT(""));
    for (int i = 0; i < (1 << 20) + 512; i++)
        buf_byte(&b, 'n');
    check_refused(&b, CKPT_EFORMAT, 0, "more than 1 MiB");
    buf_free(&b);
}

/* Reads sizes with blanks, without a terminator and of one digit, a checksum of signed chars, and the member
 * types of each dialect. */
static void reads_headers_of_old_writers(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "blanks", "", '0', "   3 ", STR_LIT("abc"));
    tar_put(&b, "full", "", '0', "000000000003", STR_LIT("abc"));
    tar_put(&b, "\xe9t\xe9", "", '\0', "3", STR_LIT("abc"));
    unsigned char *h = b.data + b.len - 1024;
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned)(signed char)h[i];
    snprintf((char *)h + 148, 8, "%06o", sum & 0777777);
    tar_put(&b, "gnu", "no prefix", '0', "3", STR_LIT("abc"));
    memcpy(b.data + b.len - 1024 + 257, "ustar  ", 8);
    tar_seal(b.data + b.len - 1024);
    tar_put(&b, "pax", "", 'x', "00000000030", STR_LIT("8 size=\n16 comment=any.\n"));
    tar_put(&b, "kept", "", '0', "3", STR_LIT("abc"));
    tar_put(&b, "linkname", "", 'K', "5", STR_LIT("long."));
    tar_put(&b, "globals", "", 'g', "5", STR_LIT("any.."));
    tar_put(&b, "last", "", '7', "3", STR_LIT("abc"));
    static const char *const names[] = {"blanks", "full", "\xe9t\xe9", "gnu", "kept", "last"};
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_FATAL(l.st == CKPT_OK && l.n == 6);
    for (size_t i = 0; i < 6; i++)
        CU_ASSERT(str_is(l.entries[i].name, names[i]) && l.entries[i].size == 3 &&
                  memcmp(l.bytes + l.entries[i].data, "abc", 3) == 0);
    CU_ASSERT(l.entries[2].type == '0' && l.entries[5].type == '7');
    free_listing(&l);
    buf_free(&b);
}

/* The map of a GNU sparse member is between its header and its payload. */
static void skips_sparse_maps(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "sparse", "", 'S', "3", STR_LIT(""));
    b.data[482] = 1;
    tar_seal(b.data);
    for (int i = 0; i < 2 * 512; i++)
        buf_byte(&b, i == 504); /* a further map block follows the first */
    check_refused(&b, CKPT_ETRUNCATED, 0, "a member of 3 bytes, of which the file has 0");
    buf_text(&b, "abc");
    while (b.len % 512)
        buf_byte(&b, 0);
    tar_put(&b, "next", "", 'S', "0", STR_LIT(""));
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_FATAL(l.st == CKPT_OK && l.n == 2);
    CU_ASSERT(l.entries[0].data == 3 * 512 && l.entries[0].size == 3 && l.entries[1].data == b.len);
    free_listing(&l);
    b.data[2 * 512 + 504] = 1; /* the map reaches beyond the file */
    b.len = 3 * 512;
    struct listing truncated = list_members(b.data, b.len);
    CU_ASSERT(truncated.st == CKPT_ETRUNCATED && truncated.err.offset == 3 * 512);
    free_listing(&truncated);
    buf_free(&b);
}

void suite_tar(void)
{
    UNIT(lists_ustar_gnu_and_pax_members);
    UNIT(full_name_fields_are_read);
    UNIT(refuses_wrong_sizes);
    UNIT(refuses_a_wrong_checksum);
    UNIT(every_truncation_is_read_safely);
    UNIT(malformed_headers_are_named);
    UNIT(limits_the_length_of_names);
    UNIT(reads_headers_of_old_writers);
    UNIT(skips_sparse_maps);
}
