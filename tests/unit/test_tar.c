/* Tar: ustar, GNU and pax names and sizes; damage is refused. */
#include <stdio.h>

#include "base/buf.h"
#include "codec/tar.h"
#include "unit.h"

static void seal(unsigned char *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

static void put(buf *b, const char *name, const char *prefix, char type, const char *size, ckpt_str payload)
{
    unsigned char h[512] = {0};
    snprintf((char *)h, 100, "%s", name);
    snprintf((char *)h + 124, 13, "%s", size);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    snprintf((char *)h + 345, 155, "%s", prefix);
    seal(h);
    buf_put(b, h, sizeof h);
    buf_str(b, payload);
    while (b->len % 512)
        buf_byte(b, 0);
}

struct listed {
    unsigned char *bytes;
    source *src;
    arena *a;
    struct tar_entry *e;
    size_t n, size;
    ckpt_status st;
    ckpt_error err;
};

static struct listed list(const void *bytes, size_t size)
{
    struct listed l = {.bytes = unit_guard(bytes, size), .size = size, .a = arena_new(1 << 24)};
    l.src = source_mem(l.bytes, size, 0);
    l.st = tar_list(l.src, l.a, &l.e, &l.n, &l.err);
    return l;
}

static void drop(struct listed *l)
{
    source_unref(l->src);
    arena_free(l->a);
    unit_guard_free(l->bytes, l->size);
}

static void fill(buf *b)
{
    buf_init(b, 1 << 20);
    put(b, "storages", "", '0', "00000000005", STR_LIT("12345"));
    put(b, "name", "folder", '0', "00000000001", STR_LIT("x"));
    put(b, "././@LongLink", "", 'L', "00000000007", STR_LIT("longer\0"));
    put(b, "cut", "", '0', "00000000002", STR_LIT("yy"));
    put(b, "pax", "", 'x', "00000000027", STR_LIT("14 path=renam\n9 size=3\n"));
    put(b, "cut", "", '0', "00000000000", STR_LIT("zzz"));
    put(b, "link", "", '2', "00000000777", STR_LIT(""));
    put(b, "base256", "", '0', "\x80\0\0\0", STR_LIT(""));
}

static void lists_every_dialect(void)
{
    static const char *const names[] = {"storages", "folder/name", "longer", "renam", "link", "base256"};
    static const uint64_t sizes[] = {5, 1, 2, 3, 0, 0};
    buf b;
    fill(&b);
    struct listed l = list(b.data, b.len);
    CU_ASSERT_EQUAL_FATAL(l.st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(l.n, 6);
    for (size_t i = 0; i < 6; i++) {
        CU_ASSERT(str_is(l.e[i].name, names[i]));
        CU_ASSERT_EQUAL(l.e[i].size, sizes[i]);
    }
    CU_ASSERT(memcmp(l.bytes + l.e[3].data, "zzz", 3) == 0);
    drop(&l);
    buf_free(&b);
}

static void refused(const char *size, char type, ckpt_str payload, ckpt_status want)
{
    buf b;
    buf_init(&b, 1 << 20);
    put(&b, "m", "", type, size, payload);
    struct listed l = list(b.data, b.len);
    CU_ASSERT_EQUAL(l.st, want);
    drop(&l);
    buf_free(&b);
}

static void refuses_sizes_that_lie(void)
{
    refused("77777777777", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    refused("00000001001", '0', STR_LIT("x"), CKPT_ETRUNCATED);
    refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", '0', STR_LIT("x"), CKPT_EFORMAT);
    refused("0000000000x", '0', STR_LIT("x"), CKPT_EFORMAT);
    refused("00000000004", 'x', STR_LIT("9999"), CKPT_EFORMAT);
    refused("00000000013", 'x', STR_LIT("11 size=99\n"), CKPT_OK);
}

static void refuses_a_wrong_checksum(void)
{
    buf b;
    fill(&b);
    b.data[0] ^= 1;
    struct listed l = list(b.data, b.len);
    CU_ASSERT_EQUAL(l.st, CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(l.err.what, "checksum"));
    drop(&l);
    buf_free(&b);
}

static void survives_every_cut(void)
{
    buf b;
    fill(&b);
    for (size_t n = 0; n < b.len; n++) {
        struct listed l = list(b.data, n);
        CU_ASSERT(l.st == CKPT_ETRUNCATED || (l.st == CKPT_OK && l.n <= 6));
        drop(&l);
    }
    buf_free(&b);
}

void suite_tar(void)
{
    UNIT(lists_every_dialect);
    UNIT(refuses_sizes_that_lie);
    UNIT(refuses_a_wrong_checksum);
    UNIT(survives_every_cut);
}
