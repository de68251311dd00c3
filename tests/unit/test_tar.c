/* Reading tar archives: names and sizes of ustar, GNU and pax, and malformed headers. */
#include <stdio.h>

#include "base/buf.h"
#include "codec/tar.h"
#include "tarball.h"
#include "unit.h"

/* The members of an archive of SIZE bytes, or the error. */
struct listing {
    unsigned char *bytes;
    source *src;
    arena *arena;
    struct tar_entry *entries;
    size_t count, size;
    ckpt_status status;
    ckpt_error err;
};

/* offsets of fields in a header */
enum { SIZE_FIELD = 124, CHECKSUM_FIELD = 148, MAGIC_FIELD = 257, IS_EXTENDED_FIELD = 482 };
/* The last field of a block that continues the map of a GNU sparse member: 1 if another block follows. */
enum { BLOCK_IS_EXTENDED_FIELD = 504 };

static struct listing list_members(const void *bytes, size_t size)
{
    struct listing l = {.bytes = unit_guard(bytes, size), .size = size, .arena = arena_new(1 << 24)};
    l.src = source_mem(l.bytes, size, 0);
    l.status = tar_list(l.src, l.arena, false, &l.entries, &l.count, &l.err);
    return l;
}

static void free_listing(struct listing *l)
{
    source_unref(l->src);
    arena_free(l->arena);
    unit_guard_free(l->bytes, l->size);
}

/* put_archive - writes an archive of six members. A GNU 'L' header replaces the name of the third member; a
 * pax 'x' header replaces the name and size of the fourth. The size of the last is in base 256, the others
 * are octal. */
static void put_archive(buf *b)
{
    buf_init(b, 1 << 20);
    tar_put(b, "storages", "", '0', "00000000005", STR_LIT("12345"));
    tar_put(b, "name", "folder", '0', "00000000001", STR_LIT("x"));
    tar_put(b, "././@LongLink", "", 'L', "00000000007", STR_LIT("longer\0"));
    tar_put(b, "replaced", "", '0', "00000000002", STR_LIT("yy"));
    tar_put(b, "pax", "", 'x', "00000000027", STR_LIT("14 path=renam\n9 size=3\n"));
    tar_put(b, "replaced", "", '0', "00000000000", STR_LIT("zzz"));
    tar_put(b, "link", "", '2', "00000000777", STR_LIT(""));
    tar_put(b, "base256", "", '0', "\x80\0\0\0", STR_LIT(""));
}

static void ustar_gnu_and_pax_members_are_listed(void)
{
    static const char *const names[] = {"storages", "folder/name", "longer", "renam", "link", "base256"};
    static const uint64_t sizes[] = {5, 1, 2, 3, 0, 0}; /* a link has no payload, whatever its size field */
    buf b;
    put_archive(&b);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(l.status, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(l.count, 6);
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
    unsigned char header[512] = {0};
    buf b;
    memset(header, 'n', 100);
    memcpy(header + 100, "0000644", 8); /* mode */
    memcpy(header + SIZE_FIELD, "00000000000", 12);
    header[156] = '0'; /* type: a regular file */
    memcpy(header + MAGIC_FIELD, "ustar\00000", 8);
    memset(header + 345, 'p', 155); /* prefix */
    memset(header + 500, 'x', 12);  /* padding */
    tar_seal(header);
    buf_init(&b, 1 << 20);
    buf_put(&b, header, sizeof header);
    tar_end(&b);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(l.status, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(l.count, 1);
    CU_ASSERT_EQUAL_FATAL(l.entries[0].name.len, 155 + 1 + 100);
    for (size_t i = 0; i < 256; i++)
        CU_ASSERT_EQUAL(l.entries[0].name.ptr[i], i < 155 ? 'p' : i == 155 ? '/' : 'n');
    free_listing(&l);
    buf_free(&b);
}

/* check_size - reads an archive of one member of TYPE, with the size field SIZE and with PAYLOAD, and checks
 * that the status is WANT. */
static void check_size(const char *size, char type, ckpt_str payload, ckpt_status want)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "m", "", type, size, payload);
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL(l.status, want);
    free_listing(&l);
    buf_free(&b);
}

static void members_with_wrong_sizes_are_refused(void)
{
    check_size("77777777777", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    /* the payload is padded to 512 bytes, so octal 1001 is one byte too many */
    check_size("00000001001", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    /* a negative number in base 256 */
    check_size("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", '0', STR_LIT("x"), CKPT_EFORMAT);
    /* a character that is no octal digit */
    check_size("0000000000x", '0', STR_LIT("x"), CKPT_EFORMAT);
    /* a malformed pax record */
    check_size("00000000004", 'x', STR_LIT("9999"), CKPT_EFORMAT);
    /* a pax record with the size of a next member; that this member is missing is no error */
    check_size("00000000013", 'x', STR_LIT("11 size=99\n"), CKPT_OK);
}

static void a_header_with_a_wrong_checksum_is_refused(void)
{
    buf b;
    put_archive(&b);
    b.data[0] ^= 1; /* changes the name of the first member */
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_EQUAL(l.status, CKPT_EFORMAT);
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
        CU_ASSERT(l.status == CKPT_ETRUNCATED || (l.status == CKPT_OK && l.count <= 6));
        free_listing(&l);
    }
    buf_free(&b);
}

/* check_refused - checks that the archive B is refused at offset AT, with the status WANT and a message that
 * contains WHAT. */
static void check_refused(const buf *b, ckpt_status want, uint64_t at, const char *what)
{
    struct listing l = list_members(b->data, b->len);
    if (l.status != want || !strstr(l.err.what, what))
        printf("\n    %s: %d, %s", what, l.status, l.err.what);
    CU_ASSERT(l.status == want && l.err.offset == at && strstr(l.err.what, what));
    free_listing(&l);
}

static void malformed_headers_are_refused_with_their_offset(void)
{
    static const struct {
        const char *size, *payload, *what; /* the size field, the payload, and a part of the message */
        ckpt_status status;
        char type;
    } cases[] = {
        {"77777777777", "x", "8589934591 bytes, of which the file has 512", CKPT_ETRUNCATED, '0'},
        {"\xc0\0\0\0\0\0\0\0\0\0\0\1", "x", "must be a number", CKPT_EFORMAT, '0'}, /* negative */
        {"\x80\1", "x", "must be a number", CKPT_EFORMAT, '0'},                     /* 2^80 */
        {"0000000000x", "x", "must be a number", CKPT_EFORMAT, '0'},
        {"00000000007", "9 a=\n\n\n\n", "pax record", CKPT_EFORMAT, 'x'},  /* the length 9 exceeds the size */
        {"00000000011", "8 a=bcd.\n", "pax record", CKPT_EFORMAT, 'x'},    /* does not end with a line feed */
        {"00000000010", "8 a.bcd\n", "pax record", CKPT_EFORMAT, 'x'},     /* no '=' */
        {"00000000014", "12 size=1x2\n", "pax record", CKPT_EFORMAT, 'x'}, /* the value is no number */
        {"00000000013", "000000011 a", "pax record", CKPT_EFORMAT, 'x'},   /* the length has nine digits */
        {"00000000002", "12", "pax record", CKPT_EFORMAT, 'x'},            /* the record has only a length */
        {"00000000003", "x=1", "pax record", CKPT_EFORMAT, 'x'},           /* no length */
        {"00000000003", "3=1", "pax record", CKPT_EFORMAT, 'x'},           /* no blank after the length */
        {"00000000003", "2 =", "pax record", CKPT_EFORMAT, 'x'},           /* the record ends at the blank */
        {"00000000004", "9 a=", "pax record", CKPT_EFORMAT, 'x'},          /* the length 9 exceeds the size */
        {"00000000003", "/ =", "pax record", CKPT_EFORMAT, 'x'},           /* '/' comes before '0' in ASCII */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf b;
        buf_init(&b, 1 << 20);
        tar_put(&b, "first", "", '0', "0", STR_LIT(""));
        tar_put(&b, "m", "", cases[i].type, "", str_c(cases[i].payload));
        size_t n = strlen(cases[i].size);
        /* the negative size has NUL bytes inside, so strlen() does not give its length */
        memcpy(b.data + 512 + SIZE_FIELD, cases[i].size, cases[i].size[0] == '\xc0' ? 12 : n);
        tar_seal(b.data + 512);
        check_refused(&b, cases[i].status, 512, cases[i].what);
        buf_free(&b);
    }
}

static void names_longer_than_1_mib_are_refused(void)
{
    buf b;
    buf_init(&b, 4 << 20);
    tar_put(&b, "././@LongLink", "", 'L', "00004000001", STR_LIT("")); /* 1 MiB + 1 byte */
    for (int i = 0; i < (1 << 20) + 512; i++)
        buf_byte(&b, 'n');
    check_refused(&b, CKPT_EFORMAT, 0, "more than 1 MiB");
    buf_free(&b);
}

/* The size fields have blanks, no terminator or one digit. One checksum is a sum of signed chars, as some old
 * writers computed it. The member types are those of ustar, GNU and pax. */
static void headers_of_old_writers_are_read(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "blanks", "", '0', "   3 ", STR_LIT("abc"));
    tar_put(&b, "full", "", '0', "000000000003", STR_LIT("abc"));
    tar_put(&b, "\xe9t\xe9", "", '\0', "3", STR_LIT("abc"));
    unsigned char *header = b.data + b.len - 1024; /* before the payload, which has 512 bytes */
    unsigned sum = 0;
    memset(header + CHECKSUM_FIELD, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned)(signed char)header[i];
    snprintf((char *)header + CHECKSUM_FIELD, 8, "%06o", sum & 0777777);
    tar_put(&b, "gnu", "no prefix", '0', "3", STR_LIT("abc"));
    memcpy(b.data + b.len - 1024 + MAGIC_FIELD, "ustar  ", 8); /* in GNU's dialect, there is no prefix */
    tar_seal(b.data + b.len - 1024);
    tar_put(&b, "pax", "", 'x', "00000000030", STR_LIT("8 size=\n16 comment=any.\n"));
    tar_put(&b, "kept", "", '0', "3", STR_LIT("abc"));
    tar_put(&b, "linkname", "", 'K', "5", STR_LIT("long."));
    tar_put(&b, "globals", "", 'g', "5", STR_LIT("any.."));
    tar_put(&b, "last", "", '7', "3", STR_LIT("abc"));
    static const char *const names[] = {"blanks", "full", "\xe9t\xe9", "gnu", "kept", "last"};
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_FATAL(l.status == CKPT_OK && l.count == 6);
    for (size_t i = 0; i < 6; i++)
        CU_ASSERT(str_is(l.entries[i].name, names[i]) && l.entries[i].size == 3 &&
                  memcmp(l.bytes + l.entries[i].data, "abc", 3) == 0);
    CU_ASSERT(l.entries[2].type == '0' && l.entries[5].type == '7');
    free_listing(&l);
    buf_free(&b);
}

/* The map of a GNU sparse member is between its header and its payload. */
static void sparse_maps_are_skipped(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_put(&b, "sparse", "", 'S', "3", STR_LIT(""));
    b.data[IS_EXTENDED_FIELD] = 1; /* blocks with more of the map follow */
    tar_seal(b.data);
    for (int i = 0; i < 2 * 512; i++)
        buf_byte(&b, i == BLOCK_IS_EXTENDED_FIELD); /* set only in the first of the two blocks */
    check_refused(&b, CKPT_ETRUNCATED, 0, "a member of 3 bytes, of which the file has 0");
    buf_put_cstr(&b, "abc");
    while (b.len % 512)
        buf_byte(&b, 0);
    tar_put(&b, "next", "", 'S', "0", STR_LIT(""));
    struct listing l = list_members(b.data, b.len);
    CU_ASSERT_FATAL(l.status == CKPT_OK && l.count == 2);
    CU_ASSERT(l.entries[0].data == 3 * 512 && l.entries[0].size == 3 && l.entries[1].data == b.len);
    free_listing(&l);
    b.data[2 * 512 + BLOCK_IS_EXTENDED_FIELD] = 1; /* a third block follows, beyond the end of the file */
    b.len = 3 * 512;
    struct listing truncated = list_members(b.data, b.len);
    CU_ASSERT(truncated.status == CKPT_ETRUNCATED && truncated.err.offset == 3 * 512);
    free_listing(&truncated);
    buf_free(&b);
}

void suite_tar(void)
{
    UNIT(ustar_gnu_and_pax_members_are_listed);
    UNIT(full_name_fields_are_read);
    UNIT(members_with_wrong_sizes_are_refused);
    UNIT(a_header_with_a_wrong_checksum_is_refused);
    UNIT(every_truncation_is_read_safely);
    UNIT(malformed_headers_are_refused_with_their_offset);
    UNIT(names_longer_than_1_mib_are_refused);
    UNIT(headers_of_old_writers_are_read);
    UNIT(sparse_maps_are_skipped);
}
