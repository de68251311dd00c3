/* inflate.c - DEFLATE (RFC 1951) by zlib, bare, in zlib's wrapper (RFC 1950) or gzip's (RFC
 * 1952). The only file that knows zlib's header. Members of torch archives are read by
 * zip_inflate.c; this is for bytes of which no directory vouches. */
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

static ckpt_status run(struct work *w, enum inflate_kind kind, spool *to, ckpt_error *err)
{
    for (;;) {
        if (w->z.avail_in == 0 && w->pos < w->end)
            CKPT_TRY(more_input(w, err));
        w->z.next_out = w->out;
        w->z.avail_out = BLOCK;
        int code = inflate(&w->z, Z_NO_FLUSH);
        CKPT_TRY(spool_write(to, w->out, BLOCK - w->z.avail_out, err));
        if (code == Z_STREAM_END && !again(w, kind))
            return CKPT_OK;
        if (code == Z_STREAM_END)
            (void)inflateReset(&w->z); /* as its state is sound, it cannot fail */
        if (code == Z_BUF_ERROR || (code == Z_OK && w->z.avail_in == 0 && w->pos == w->end && w->z.avail_out))
            return fail(err, CKPT_ETRUNCATED, source_pos(w->src, w->end),
                        "the deflated bytes {end too early}, before {=their last block}");
        if (code != Z_OK && code != Z_STREAM_END)
            return code == Z_MEM_ERROR ? fail_memory(err)
                                       : fail(err, CKPT_EFORMAT, source_pos(w->src, w->pos - w->z.avail_in),
                                              "broken {=deflated bytes}: {%s}",
                                              w->z.msg ? w->z.msg : "a dictionary is needed");
    }
}

ckpt_status inflate_into(source *src, uint64_t off, uint64_t n, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err)
{
    static const int bits[] = {[INFLATE_RAW] = -15, [INFLATE_ZLIB] = 15, [INFLATE_GZIP] = 31};
    struct work *w = calloc(1, sizeof *w);
    *used = 0;
    if (!w || inflateInit2(&w->z, bits[kind]) != Z_OK) {
        free(w);
        return fail_memory(err);
    }
    w->src = src;
    w->pos = off;
    w->end = off + n; /* bounded: the caller's range lies in the source */
    ckpt_status st = run(w, kind, to, err);
    *used = w->pos - off - w->z.avail_in; /* bounded: as much was read */
    inflateEnd(&w->z);
    free(w);
    return st;
}
