/* inflate.c - DEFLATE (RFC 1951) by zlib, bare, in zlib's wrapper (RFC 1950) or gzip's (RFC
 * 1952). The only file that knows zlib's header. Members of torch archives are read by
 * zip_inflate.c; this is for bytes of which no directory vouches, those of damaged archives
 * among them. */
#include "codec/inflate.h"

#include <stdlib.h>
#include <zlib.h>

#define BLOCK 65536u

struct work {
    z_stream z;
    source *src;
    uint64_t pos, end;
    unsigned char in[BLOCK], out[BLOCK];
};

static ckpt_status more_input(struct work *w, ckpt_error *err)
{
    size_t n = w->end - w->pos < BLOCK ? (size_t)(w->end - w->pos) : BLOCK;
    CKPT_TRY(source_read(w->src, w->pos, w->in, n, err));
    w->pos += n; /* bounded: no further than the end */
    w->z.next_in = w->in;
    w->z.avail_in = (uInt)n;
    return CKPT_OK;
}

/* again - does another gzip member follow the one that just ended? */
static bool again(struct work *w, enum inflate_kind kind)
{
    unsigned char magic[2];
    uint64_t at = w->pos - w->z.avail_in; /* bounded: as much was read before */
    return kind == INFLATE_GZIP && w->end - at >= 18 && source_read(w->src, at, magic, 2, NULL) == CKPT_OK &&
           magic[0] == 0x1f && magic[1] == 0x8b;
}

/* step - inflates up to N bytes to OUT, *GOT of them; *END: the stream ends there. */
static ckpt_status step(struct work *w, unsigned char *out, size_t n, size_t *got, bool *end, ckpt_error *err)
{
    *got = 0;
    if (w->z.avail_in == 0 && w->pos < w->end)
        CKPT_TRY(more_input(w, err));
    w->z.next_out = out;
    w->z.avail_out = (uInt)(n < BLOCK ? n : BLOCK);
    uInt room = w->z.avail_out;
    int code = inflate(&w->z, Z_NO_FLUSH);
    *got = room - w->z.avail_out;
    *end = code == Z_STREAM_END;
    if (code == Z_BUF_ERROR || (code == Z_OK && w->z.avail_in == 0 && w->pos == w->end && w->z.avail_out))
        return fail(err, CKPT_ETRUNCATED, source_pos(w->src, w->end),
                    "the deflated bytes {end too early}, before {=their last block}");
    if (code != Z_OK && code != Z_STREAM_END)
        return code == Z_MEM_ERROR ? fail_memory(err)
                                   : fail(err, CKPT_EFORMAT, source_pos(w->src, w->pos - w->z.avail_in),
                                          "broken {=deflated bytes}: {%s}",
                                          w->z.msg ? w->z.msg : "a dictionary is needed");
    return CKPT_OK;
}

static ckpt_status run(struct work *w, enum inflate_kind kind, spool *to, ckpt_error *err)
{
    for (bool end = false; !end;) {
        size_t n;
        ckpt_status st = step(w, w->out, BLOCK, &n, &end, err);
        CKPT_TRY(spool_write(to, w->out, n, err));
        CKPT_TRY(st);
        if (end && again(w, kind)) {
            (void)inflateReset(&w->z); /* as its state is sound, it cannot fail */
            end = false;
        }
    }
    return CKPT_OK;
}

static struct work *begin(source *src, uint64_t off, uint64_t n, enum inflate_kind kind)
{
    static const int bits[] = {[INFLATE_RAW] = -15, [INFLATE_ZLIB] = 15, [INFLATE_GZIP] = 31};
    struct work *w = calloc(1, sizeof *w);
    if (!w || inflateInit2(&w->z, bits[kind]) != Z_OK) {
        free(w);
        return NULL;
    }
    w->src = src;
    w->pos = off;
    w->end = off + n; /* bounded: the caller's range lies in the source */
    return w;
}

static void finish(struct work *w)
{
    if (w)
        inflateEnd(&w->z);
    free(w);
}

ckpt_status inflate_into(source *src, uint64_t off, uint64_t n, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err)
{
    struct work *w = begin(src, off, n, kind);
    *used = 0;
    if (!w)
        return fail_memory(err);
    ckpt_status st = run(w, kind, to, err);
    *used = w->pos - off - w->z.avail_in; /* bounded: as much was read */
    finish(w);
    return st;
}

ckpt_status inflate_measure(source *src, uint64_t off, uint64_t n, uint64_t *used, uint64_t *size,
                            uint32_t *crc, ckpt_error *err)
{
    struct work *w = begin(src, off, n, INFLATE_RAW);
    ckpt_status st = w ? CKPT_OK : fail_memory(err);
    bool end = false;
    size_t got;
    *size = *used = *crc = 0;
    while (st == CKPT_OK && !end) {
        st = step(w, w->out, BLOCK, &got, &end, err);
        *crc = (uint32_t)crc32(*crc, w->out, (uInt)got);
        *size += got; /* bounded: a thousand times N */
    }
    if (w)
        *used = w->pos - off - w->z.avail_in; /* bounded: as much was read */
    finish(w);
    return st;
}

/* ------------------------------------------------------------------- source */

typedef struct {
    source s;
    source *src;
    uint64_t off, n;
    struct work *w; /* NULL: nothing of it was read, or all */
    uint64_t at;    /* bytes that W gave */
} unpacked;

static ckpt_status pull(unpacked *u, unsigned char *out, size_t n, ckpt_error *err)
{
    while (n) {
        size_t got;
        bool end;
        CKPT_TRY(step(u->w, out, n, &got, &end, err));
        out += got;
        n -= got;
        u->at += got; /* bounded: by the size */
        if (end && n)
            return fail(err, CKPT_ETRUNCATED, source_pos(u->src, u->off),
                        "its deflated bytes give {%llu}, they must give {=%llu}", (unsigned long long)u->at,
                        (unsigned long long)u->s.size);
    }
    return CKPT_OK;
}

static ckpt_status unpacked_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    unpacked *u = (unpacked *)s;
    ckpt_status st = CKPT_OK;
    if (!u->w || off < u->at) {
        finish(u->w);
        u->at = 0;
        u->w = begin(u->src, u->off, u->n, INFLATE_RAW);
        if (!u->w)
            return fail_memory(err);
    }
    while (st == CKPT_OK && u->at < off)
        st = pull(u, u->w->out, off - u->at < BLOCK ? (size_t)(off - u->at) : BLOCK, err);
    if (st == CKPT_OK)
        st = pull(u, out, n, err);
    if (st != CKPT_OK || u->at == s->size) {
        finish(u->w);
        u->w = NULL;
    }
    return st;
}

static void unpacked_close(source *s)
{
    unpacked *u = (unpacked *)s;
    finish(u->w);
    source_unref(u->src);
    free(u);
}

static const struct source_ops unpacked_ops = {.read_at = unpacked_read, .close = unpacked_close};

ckpt_status inflate_source(source *src, uint64_t off, uint64_t n, uint64_t size, source **out,
                           ckpt_error *err)
{
    unpacked *u = calloc(1, sizeof *u);
    if (!u)
        return fail_memory(err);
    u->s = (source){.ops = &unpacked_ops, .size = size, .base = CKPT_NO_OFFSET, .refs = 1, .serial = true};
    u->src = source_ref(src);
    u->off = off;
    u->n = n;
    *out = &u->s;
    return CKPT_OK;
}
