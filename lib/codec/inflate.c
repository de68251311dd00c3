/* inflate.c - see inflate.h. Only this file includes zlib.h. Formats: DEFLATE (RFC 1951), zlib (RFC 1950),
 * gzip (RFC 1952). */
#include "codec/inflate.h"

#include <stdlib.h>
#include <zlib.h>

#define BLOCK 65536u

struct inflate_stream {
    z_stream z;
    source *src;
    uint64_t pos, end; /* range of SRC that zlib has yet to get */
    unsigned char in[BLOCK];
};

/* read_input - passes the next block of the source to zlib. */
static ckpt_status read_input(struct inflate_stream *stream, ckpt_error *err)
{
    size_t n = stream->end - stream->pos < BLOCK ? (size_t)(stream->end - stream->pos) : BLOCK;
    CKPT_TRY(source_read(stream->src, stream->pos, stream->in, n, err));
    stream->pos += n;
    stream->z.next_in = stream->in;
    stream->z.avail_in = (uInt)n;
    return CKPT_OK;
}

/* skip_padding - skips zero bytes. */
static ckpt_status skip_padding(struct inflate_stream *stream, ckpt_error *err)
{
    for (;;) {
        for (; stream->z.avail_in && *stream->z.next_in == 0; stream->z.avail_in--)
            stream->z.next_in++;
        if (stream->z.avail_in || stream->pos == stream->end)
            return CKPT_OK;
        CKPT_TRY(read_input(stream, err));
    }
}

/* has_next_member - returns true if a gzip member, which has 18 bytes or more, follows. */
static bool has_next_member(struct inflate_stream *stream)
{
    ckpt_error ignored;
    unsigned char magic[2];
    uint64_t at = stream->pos - stream->z.avail_in;
    return stream->end - at >= 18 && source_read(stream->src, at, magic, 2, &ignored) == CKPT_OK &&
           magic[0] == 0x1f && magic[1] == 0x8b;
}

ckpt_status inflate_next(struct inflate_stream *stream, unsigned char *out, size_t nbytes, size_t *got,
                         enum inflate_end *end, ckpt_error *err)
{
    *got = 0;
    if (stream->z.avail_in == 0 && stream->pos < stream->end)
        CKPT_TRY(read_input(stream, err));
    stream->z.next_out = out;
    stream->z.avail_out = (uInt)(nbytes < BLOCK ? nbytes : BLOCK);
    uInt out_size = stream->z.avail_out;
    int code = inflate(&stream->z, Z_NO_FLUSH);
    *got = out_size - stream->z.avail_out;
    bool needs_input = code == Z_OK && stream->z.avail_in == 0 && stream->z.avail_out;
    *end = code == Z_STREAM_END                                                 ? INFLATE_LAST
           : code == Z_BUF_ERROR || (needs_input && stream->pos == stream->end) ? INFLATE_TRUNCATED
           : code == Z_OK                                                       ? INFLATE_FULL
                                                                                : INFLATE_BROKEN;
    return code == Z_MEM_ERROR ? fail_memory(err) : CKPT_OK;
}

/* check_end - fails if the stream is truncated or malformed. */
static ckpt_status check_end(const struct inflate_stream *stream, enum inflate_end end, ckpt_error *err)
{
    if (end == INFLATE_TRUNCATED)
        return fail(err, CKPT_ETRUNCATED, source_pos(stream->src, stream->end),
                    "the deflated bytes {end too early}: they have no {=last block}");
    if (end == INFLATE_BROKEN)
        return fail(err, CKPT_EFORMAT, source_pos(stream->src, stream->pos - stream->z.avail_in),
                    "broken {=deflated bytes}: {%s}",
                    stream->z.msg ? stream->z.msg : "a dictionary is needed");
    return CKPT_OK;
}

/* find_next_member - begins the next gzip member after the one that just ended, perhaps after zero bytes,
 * which Python's gzip skips, too, and sets *END to INFLATE_FULL. If none follows, leaves the other bytes. */
static ckpt_status find_next_member(struct inflate_stream *stream, enum inflate_end *end, ckpt_error *err)
{
    uint64_t member_end = stream->pos - stream->z.avail_in;
    CKPT_TRY(skip_padding(stream, err));
    if (has_next_member(stream)) {
        (void)inflateReset(&stream->z); /* cannot fail: the state is valid */
        *end = INFLATE_FULL;
    } else {
        stream->pos = member_end;
        stream->z.avail_in = 0;
    }
    return CKPT_OK;
}

struct inflate_stream *inflate_begin(source *src, uint64_t off, uint64_t nbytes, enum inflate_kind kind)
{
    static const int window_bits[] = {[INFLATE_RAW] = -15, [INFLATE_ZLIB] = 15, [INFLATE_GZIP] = 15 + 16};
    struct inflate_stream *w = malloc(sizeof *w);
    if (!w)
        return NULL;
    w->z = (z_stream){0};
    w->src = src;
    w->pos = off;
    w->end = off + nbytes; /* the caller's range is inside the source */
    if (inflateInit2(&w->z, window_bits[kind]) == Z_OK)
        return w;
    free(w);
    return NULL;
}

void inflate_free(struct inflate_stream *stream)
{
    if (stream)
        (void)inflateEnd(&stream->z);
    free(stream);
}

/* A whole stream, the N bytes at OFF of SRC. */
struct whole_stream {
    source *src;
    uint64_t off, n;
    enum inflate_kind kind;
    spool *to;           /* NULL: only size and crc are computed */
    uint64_t used, size; /* how many of N were needed, and how many bytes they gave */
    uint32_t crc;
};

/* inflate_all - inflates all of STREAM by way of BUFFER, which has BLOCK bytes. */
static ckpt_status inflate_all(struct whole_stream *whole, struct inflate_stream *stream,
                               unsigned char *buffer, ckpt_error *err)
{
    for (enum inflate_end end = INFLATE_FULL; end == INFLATE_FULL;) {
        size_t n;
        CKPT_TRY(inflate_next(stream, buffer, BLOCK, &n, &end, err));
        whole->size += n;
        if (whole->to)
            CKPT_TRY(spool_write(whole->to, buffer, n, err));
        else
            whole->crc = (uint32_t)crc32(whole->crc, buffer, (uInt)n);
        CKPT_TRY(check_end(stream, end, err));
        if (end == INFLATE_LAST && whole->kind == INFLATE_GZIP)
            CKPT_TRY(find_next_member(stream, &end, err));
    }
    return CKPT_OK;
}

static ckpt_status inflate_whole(struct whole_stream *whole, ckpt_error *err)
{
    struct inflate_stream *stream = inflate_begin(whole->src, whole->off, whole->n, whole->kind);
    unsigned char *buffer = malloc(BLOCK);
    ckpt_status st = stream && buffer ? inflate_all(whole, stream, buffer, err) : fail_memory(err);
    if (stream)
        whole->used = stream->pos - whole->off - stream->z.avail_in;
    inflate_free(stream);
    free(buffer);
    return st;
}

ckpt_status inflate_into(source *src, uint64_t off, uint64_t nbytes, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err)
{
    struct whole_stream whole = {src, off, nbytes, kind, .to = to};
    ckpt_status st = inflate_whole(&whole, err);
    *used = whole.used;
    return st;
}

ckpt_status inflate_measure(source *src, uint64_t off, uint64_t nbytes, uint64_t *used, uint64_t *size,
                            uint32_t *crc, ckpt_error *err)
{
    struct whole_stream whole = {src, off, nbytes, INFLATE_RAW, .to = NULL};
    ckpt_status st = inflate_whole(&whole, err);
    *used = whole.used;
    *size = whole.size;
    *crc = whole.crc;
    return st;
}

struct deflate_state {
    z_stream z;
    sink *out;
    unsigned char in[BLOCK], deflated[BLOCK];
};

static ckpt_status deflate_input(struct deflate_state *state, size_t count, bool is_last, ckpt_error *err)
{
    state->z.next_in = state->in;
    state->z.avail_in = (uInt)count;
    do {
        state->z.next_out = state->deflated;
        state->z.avail_out = BLOCK;
        (void)deflate(&state->z, is_last ? Z_FINISH : Z_NO_FLUSH); /* cannot fail: the state is valid */
        size_t size = BLOCK - state->z.avail_out;
        CKPT_TRY(sink_write(state->out, state->deflated, size, err));
    } while (state->z.avail_out == 0);
    return CKPT_OK;
}

ckpt_status deflate_written(sink *from, uint64_t at, uint64_t nbytes, sink *out, ckpt_error *err)
{
    struct deflate_state *w = calloc(1, sizeof *w);
    if (!w || deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(w);
        return fail_memory(err);
    }
    w->out = out;
    ckpt_status st = CKPT_OK;
    for (bool is_last = false; st == CKPT_OK && !is_last;) {
        size_t chunk = nbytes < BLOCK ? (size_t)nbytes : BLOCK;
        st = sink_read(from, at, w->in, chunk, err);
        at += chunk;
        nbytes -= chunk;
        is_last = nbytes == 0;
        CKPT_THEN(st, deflate_input(w, chunk, is_last, err));
    }
    (void)deflateEnd(&w->z);
    free(w);
    return st;
}
