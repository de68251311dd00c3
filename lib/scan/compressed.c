/*
 * compressed.c - what lies in compressed files and foreign archives: joblib dumps, tar.gz,
 * 7-Zip. Gzip and zlib are unpacked by inflate.c, the others by libarchive. How much they
 * may give is bounded by the size of what is packed, and in all.
 */
#include <inttypes.h>

#include "base/cursor.h"
#include "codec/inflate.h"
#include "codec/unpack_archive.h"
#include "io/reader.h"
#include "scan/scan.h"

#define FREE_BYTES ((uint64_t)64 << 20) /* whatever the ratio */
#define RATIO      1100u                /* no deflated byte gives more than 1032 */

struct packed {
    struct scanner *x;
    ckpt_str where;
    bool whole; /* every member is known to its last byte */
};

static ckpt_status inner(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct packed *p = user;
    struct scanner *x = p->x;
    uint64_t known = 0;
    ckpt_str where = scan_join(x, p->where, name);
    if (!where.ptr)
        return fail_memory(err);
    x->s->result->members++;
    x->unpacked += bytes->size; /* bounded: by max_unpacked */
    CKPT_TRY(scan_sum(x, bytes, where, 0, NULL, err));
    x->depth++;
    ckpt_status st = scan_bytes(x, bytes, where, SCAN_MEMBER, &known, err);
    x->depth--;
    p->whole = p->whole && known >= bytes->size;
    return st;
}

uint64_t scan_allowed(const struct scanner *x, uint64_t size)
{
    uint64_t left = x->s->opts->max_unpacked - x->unpacked;
    if (size > left / RATIO)
        return left;
    uint64_t most = size * RATIO < FREE_BYTES ? FREE_BYTES : size * RATIO; /* bounded: no more than is left */
    return most < left ? most : left;
}

bool scan_is_zlib(struct scanner *x, source *src, bool text)
{
    uint64_t used;
    ckpt_error why;
    spool *some = spool_new(text ? scan_allowed(x, src->size) : 64);
    ckpt_status st = some ? inflate_into(src, 0, src->size, INFLATE_ZLIB, some, &used, &why)
                          : fail_memory(&why);
    (void)scan_failed(x->s, st, &why);
    if (!some || spool_size(some) == 0) {
        spool_free(some);
        return false;
    }
    source *bytes = spool_source(some);
    bool is = !text || scan_is_pickle(x, bytes, 0, bytes->size, true);
    source_unref(bytes);
    return is;
}

static ckpt_status deflated(struct packed *p, source *src, enum inflate_kind kind, ckpt_error *err)
{
    uint64_t used;
    spool *to = spool_new(scan_allowed(p->x, src->size));
    if (!to)
        return fail_memory(err);
    ckpt_status st = inflate_into(src, 0, src->size, kind, to, &used, err);
    source *bytes = spool_source(to);
    if (st == CKPT_OK && used < src->size)
        st = fail(err, CKPT_EFORMAT, used, "{%" PRIu64 " bytes} follow {=the compressed ones}",
                  src->size - used);
    ckpt_error inside;
    ckpt_status scanned = st == CKPT_EIO || st == CKPT_ENOMEM ? CKPT_OK
                                                              : inner(p, STR_LIT("contents"), bytes, &inside);
    source_unref(bytes);
    if (scanned != CKPT_OK)
        *err = inside;
    return scanned != CKPT_OK ? scanned : st;
}

/* seven_end - behind the last byte that a 7-Zip archive's first header (32 bytes: place and size
 * of the last one at 12 and 20) leads to. */
static uint64_t seven_end(struct scan *s, source *src)
{
    unsigned char head[32];
    if (!scan_read(s, src, 0, head, sizeof head))
        return UINT64_MAX;
    uint64_t n = load_u64le(head + 20);
    /* bounded: libarchive found the last header there; without one, it did not look where that is */
    return n ? sizeof head + load_u64le(head + 12) + n : sizeof head;
}

/* lz4_frame - over one frame: the number it begins with, flags, its block size, and by those flags
 * its size (8 bytes) and dictionary (4), a checksum of that (1); blocks, each behind its size, of
 * which the top bit says that it is not compressed, and by flag with a checksum; a size of 0; by flag
 * a checksum of all. (LZ4 Frame Format Description, 1.6.) */
static bool lz4_frame(reader *r)
{
    const unsigned char *flags = reader_take(r, 6);
    if (!flags)
        return false;
    unsigned f = flags[4];
    uint64_t n, check = f & 0x10 ? 4 : 0;
    (void)reader_skip(r, (f & 8 ? 8u : 0) + (f & 1 ? 4u : 0) + 1);
    while ((n = reader_u32(r) & 0x7fffffff))
        (void)reader_skip(r, n + check); /* bounded: 31 bits, and 4 */
    return !(f & 4) || reader_skip(r, 4);
}

/* lz4_skippable - over a frame of bytes of the user's: its number, their length (4 bytes), and they. */
static bool lz4_skippable(reader *r)
{
    (void)reader_skip(r, 4);
    uint64_t n = reader_u32(r);
    return reader_skip(r, n);
}

/* lz4_end - after the last frame from the beginning of SRC on, which libarchive does not report. */
static ckpt_status lz4_end(source *src, uint64_t *end, ckpt_error *err)
{
    reader r;
    const unsigned char *number;
    bool more = true;
    CKPT_TRY(reader_init(&r, src, 0, src->size, err));
    while (more) {
        *end = r.pos;
        number = reader_left(&r) >= 4 ? reader_peek(&r, 4) : NULL;
        uint32_t n = number ? load_u32le(number) : 0;
        more = (n == 0x184d2204 && lz4_frame(&r)) || (n >> 4 == 0x184d2a5 && lz4_skippable(&r));
    }
    reader_free(&r);
    return r.status == CKPT_ETRUNCATED ? CKPT_OK : r.status;
}

static ckpt_status foreign(struct scan *s, source *src, const char *kind, struct unpack *u, ckpt_error *err)
{
    CKPT_TRY(unpack_archive(src, u, err));
    uint64_t end = strcmp(kind, "7-Zip") == 0 ? seven_end(s, src) : u->used;
    if (strcmp(kind, "lz4") == 0)
        CKPT_TRY(lz4_end(src, &end, err));
    return end >= src->size ? CKPT_OK
                            : fail(err, CKPT_EFORMAT, source_pos(src, end),
                                   "{%" PRIu64 " bytes} follow {=the compressed ones}", src->size - end);
}

static ckpt_status count(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    (void)name;
    (void)err;
    *(uint64_t *)user += bytes->size; /* bounded: by what may be unpacked */
    return CKPT_OK;
}

bool scan_unpacks(struct scanner *x, source *src, const char *kind)
{
    uint64_t got = 0, used = 0, most = scan_allowed(x, src->size);
    struct unpack u = {.max = most, .member = count, .user = &got};
    bool zlib = strcmp(kind, "zlib") == 0;
    ckpt_error why;
    ckpt_status st;
    if (!zlib && strcmp(kind, "gzip") != 0) {
        st = foreign(x->s, src, kind, &u, &why);
    } else {
        spool *to = spool_new(most);
        st = to ? inflate_into(src, 0, src->size, zlib ? INFLATE_ZLIB : INFLATE_GZIP, to, &used, &why)
                : fail_memory(&why);
        got = to && used == src->size ? spool_size(to) : 0;
        spool_free(to);
    }
    (void)scan_failed(x->s, st, &why);
    return st == CKPT_OK && got > 0;
}

ckpt_status scan_packed(struct scanner *x, source *src, ckpt_str where, const char *kind, uint64_t *known,
                        ckpt_error *err)
{
    struct packed p = {x, where, true};
    struct unpack u = {.max = scan_allowed(x, src->size), .member = inner, .user = &p};
    ckpt_error why;
    x->format = x->depth ? x->format : kind;
    ckpt_status st;
    if (x->depth >= x->s->opts->max_depth)
        st = fail(&why, CKPT_ELIMIT, CKPT_NO_OFFSET, "it is nested too deep");
    else if (strcmp(kind, "gzip") == 0 || strcmp(kind, "zlib") == 0)
        st = deflated(&p, src, kind[0] == 'g' ? INFLATE_GZIP : INFLATE_ZLIB, &why);
    else
        st = foreign(x->s, src, kind, &u, &why);
    if (st == CKPT_EIO || st == CKPT_ENOMEM || st == CKPT_ECANCELLED) {
        *err = why;
        return st;
    }
    if (st == CKPT_OK && p.whole)
        *known += src->size; /* bounded: once */
    bool go = st != CKPT_OK
                  ? scan_found(x->s, st == CKPT_EFORMAT || st == CKPT_ETRUNCATED ? SCAN_FMT002 : SCAN_ARC002,
                               where, src, 0, "%s data: %s", kind, why.what)
                  : scan_found(x->s, SCAN_ARC001, where, src, 0, "%s data, unpacked and scanned", kind);
    return go ? CKPT_OK : CKPT_ECANCELLED;
}
