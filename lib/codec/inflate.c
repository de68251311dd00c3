/* inflate.c - see inflate.h. Only this file includes zlib.h. Formats: DEFLATE (RFC 1951), zlib (RFC 1950),
 * gzip (RFC 1952). Members of zip archives are inflated by zip_inflate.c; this file is for all other deflated
 * data, and for those members of damaged archives that are not listed in the central directory. */
#include "codec/inflate.h"

#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

#define BLOCK 65536u

struct inflate_state {
    z_stream z;
    source *src;
    uint64_t pos, end; /* range of SRC that zlib has yet to get */
    unsigned char in[BLOCK], out[BLOCK];
};

/* read_input - passes the next block of the source to zlib. */
static ckpt_status read_input(struct inflate_state *w, ckpt_error *err)
{
    size_t n = w->end - w->pos < BLOCK ? (size_t)(w->end - w->pos) : BLOCK;
    CKPT_TRY(source_read(w->src, w->pos, w->in, n, err));
    w->pos += n; /* bounded: at most END */
    w->z.next_in = w->in;
    w->z.avail_in = (uInt)n;
    return CKPT_OK;
}

/* skip_padding - skips zero bytes. */
static ckpt_status skip_padding(struct inflate_state *w, ckpt_error *err)
{
    for (;;) {
        for (; w->z.avail_in && *w->z.next_in == 0; w->z.avail_in--)
            w->z.next_in++;
        if (w->z.avail_in || w->pos == w->end)
            return CKPT_OK;
        CKPT_TRY(read_input(w, err));
    }
}

/* has_next_member - returns true if a gzip member, which has 18 bytes or more, follows. */
static bool has_next_member(struct inflate_state *w)
{
    ckpt_error ignored;
    unsigned char magic[2];
    uint64_t at = w->pos - w->z.avail_in; /* bounded: avail_in bytes before POS were read */
    return w->end - at >= 18 &&
           source_read(w->src, at, magic, 2, &ignored) == CKPT_OK && magic[0] == 0x1f && magic[1] == 0x8b;
}

/* inflate_step - writes at most N inflated bytes to OUT, and sets *GOT to their number. Sets *IS_LAST to
 * whether the stream ends after them. */
static ckpt_status inflate_step(struct inflate_state *w, unsigned char *out, size_t n, size_t *got,
                                bool *is_last, ckpt_error *err)
{
    *got = 0;
    if (w->z.avail_in == 0 && w->pos < w->end)
        CKPT_TRY(read_input(w, err));
    w->z.next_out = out;
    w->z.avail_out = (uInt)(n < BLOCK ? n : BLOCK);
    uInt out_size = w->z.avail_out;
    int code = inflate(&w->z, Z_NO_FLUSH);
    *got = out_size - w->z.avail_out;
    *is_last = code == Z_STREAM_END;
    bool needs_input = code == Z_OK && w->z.avail_in == 0 && w->z.avail_out;
    if (code == Z_BUF_ERROR || (needs_input && w->pos == w->end))
        return fail(err, CKPT_ETRUNCATED, source_pos(w->src, w->end),
                    "the deflated bytes {end too early}: they have no {=last block}");
    if (code != Z_OK && code != Z_STREAM_END)
        return code == Z_MEM_ERROR
                   ? fail_memory(err)
                   : fail(err, CKPT_EFORMAT, source_pos(w->src, w->pos - w->z.avail_in),
                          "broken {=deflated bytes}: {%s}", w->z.msg ? w->z.msg : "a dictionary is needed");
    return CKPT_OK;
}

/* find_next_member - sets *FOUND to whether another gzip member follows the one that just ended, perhaps
 * after zero bytes, which Python's gzip skips, too; then begins it. Other bytes that follow are left. */
static ckpt_status find_next_member(struct inflate_state *w, bool *found, ckpt_error *err)
{
    uint64_t member_end = w->pos - w->z.avail_in; /* bounded: avail_in bytes before POS were read */
    CKPT_TRY(skip_padding(w, err));
    *found = has_next_member(w);
    if (*found) {
        (void)inflateReset(&w->z); /* cannot fail: the state is valid */
    } else {
        w->pos = member_end;
        w->z.avail_in = 0;
    }
    return CKPT_OK;
}

static ckpt_status inflate_all(struct inflate_state *w, enum inflate_kind kind, spool *to, ckpt_error *err)
{
    for (bool is_last = false; !is_last;) {
        size_t n;
        ckpt_status st = inflate_step(w, w->out, BLOCK, &n, &is_last, err);
        CKPT_TRY(spool_write(to, w->out, n, err));
        CKPT_TRY(st);
        bool has_next = false;
        if (is_last && kind == INFLATE_GZIP)
            CKPT_TRY(find_next_member(w, &has_next, err));
        is_last = is_last && !has_next;
    }
    return CKPT_OK;
}

static struct inflate_state *new_state(source *src, uint64_t off, uint64_t n, enum inflate_kind kind)
{
    static const int window_bits[] = {[INFLATE_RAW] = -15, [INFLATE_ZLIB] = 15, [INFLATE_GZIP] = 15 + 16};
    struct inflate_state *w = calloc(1, sizeof *w);
    if (!w || inflateInit2(&w->z, window_bits[kind]) != Z_OK) {
        free(w);
        return NULL;
    }
    w->src = src;
    w->pos = off;
    w->end = off + n; /* bounded: the caller's range is inside the source */
    return w;
}

static void free_state(struct inflate_state *w)
{
    if (w)
        inflateEnd(&w->z);
    free(w);
}

ckpt_status inflate_into(source *src, uint64_t off, uint64_t n, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err)
{
    struct inflate_state *w = new_state(src, off, n, kind);
    *used = 0;
    if (!w)
        return fail_memory(err);
    ckpt_status st = inflate_all(w, kind, to, err);
    *used = w->pos - off - w->z.avail_in; /* bounded: AVAIL_IN bytes after OFF were read */
    free_state(w);
    return st;
}

ckpt_status inflate_measure(source *src, uint64_t off, uint64_t n, uint64_t *used, uint64_t *size,
                            uint32_t *crc, ckpt_error *err)
{
    struct inflate_state *w = new_state(src, off, n, INFLATE_RAW);
    ckpt_status st = w ? CKPT_OK : fail_memory(err);
    bool is_last = false;
    size_t got;
    *size = *used = *crc = 0;
    while (st == CKPT_OK && !is_last) {
        st = inflate_step(w, w->out, BLOCK, &got, &is_last, err);
        *crc = (uint32_t)crc32(*crc, w->out, (uInt)got);
        *size += got; /* bounded: at most 1,032 times N */
    }
    if (w)
        *used = w->pos - off - w->z.avail_in; /* bounded: AVAIL_IN bytes after OFF were read */
    free_state(w);
    return st;
}

typedef struct {
    source s;
    source *src;
    uint64_t off, n;             /* range of the deflated bytes in src */
    pthread_mutex_t lock;        /* protects state and inflated */
    struct inflate_state *state; /* NULL: not begun, or ended */
    uint64_t inflated;           /* number of bytes inflated by state */
} inflate_reader;

static ckpt_status inflate_exactly(inflate_reader *u, unsigned char *out, size_t n, ckpt_error *err)
{
    while (n) {
        size_t got;
        bool is_last;
        CKPT_TRY(inflate_step(u->state, out, n, &got, &is_last, err));
        out += got;
        n -= got;
        u->inflated += got; /* bounded: at most s.size */
        if (is_last && n)
            return fail(err, CKPT_ETRUNCATED, source_pos(u->src, u->off),
                        "its deflated bytes give {%llu} bytes, they must give {=%llu}",
                        (unsigned long long)u->inflated, (unsigned long long)u->s.size);
    }
    return CKPT_OK;
}

/* inflate_range - reads N bytes at OFF of the inflated data; the caller has locked U. */
static ckpt_status inflate_range(inflate_reader *u, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    if (!u->state || off < u->inflated) {
        free_state(u->state);
        u->inflated = 0;
        u->state = new_state(u->src, u->off, u->n, INFLATE_RAW);
        if (!u->state)
            return fail_memory(err);
    }
    while (st == CKPT_OK && u->inflated < off)
        st = inflate_exactly(u, u->state->out,
                             off - u->inflated < BLOCK ? (size_t)(off - u->inflated) : BLOCK, err);
    if (st == CKPT_OK)
        st = inflate_exactly(u, out, n, err);
    if (st != CKPT_OK || u->inflated == u->s.size) {
        free_state(u->state);
        u->state = NULL;
    }
    return st;
}

static ckpt_status inflated_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    inflate_reader *u = (inflate_reader *)s;
    pthread_mutex_lock(&u->lock);
    ckpt_status st = inflate_range(u, off, out, n, err);
    pthread_mutex_unlock(&u->lock);
    return st;
}

static void inflated_close(source *s)
{
    inflate_reader *u = (inflate_reader *)s;
    free_state(u->state);
    pthread_mutex_destroy(&u->lock);
    source_unref(u->src);
    free(u);
}

static const struct source_ops inflated_ops = {.read_at = inflated_read, .close = inflated_close};

ckpt_status inflate_source(source *src, uint64_t off, uint64_t n, uint64_t size, source **out,
                           ckpt_error *err)
{
    inflate_reader *u = calloc(1, sizeof *u);
    if (!u)
        return fail_memory(err);
    u->s = (source){
        .ops = &inflated_ops, .size = size, .position = CKPT_NO_OFFSET, .refs = 1, .serializes_reads = true};
    pthread_mutex_init(&u->lock, NULL);
    u->src = source_ref(src);
    u->off = off;
    u->n = n;
    *out = &u->s;
    return CKPT_OK;
}

struct deflate_state {
    z_stream z;
    sink *out;
    unsigned char in[BLOCK], deflated[BLOCK];
};

static ckpt_status deflate_input(struct deflate_state *w, size_t n, bool is_last, ckpt_error *err)
{
    w->z.next_in = w->in;
    w->z.avail_in = (uInt)n;
    do {
        w->z.next_out = w->deflated;
        w->z.avail_out = BLOCK;
        (void)deflate(&w->z, is_last ? Z_FINISH : Z_NO_FLUSH); /* cannot fail: the state is valid */
        size_t size = BLOCK - w->z.avail_out; /* bounded: avail_out is at most BLOCK */
        CKPT_TRY(sink_write(w->out, w->deflated, size, err));
    } while (w->z.avail_out == 0);
    return CKPT_OK;
}

ckpt_status deflate_written(sink *from, uint64_t at, uint64_t n, sink *out, ckpt_error *err)
{
    struct deflate_state *w = calloc(1, sizeof *w);
    if (!w || deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(w);
        return fail_memory(err);
    }
    w->out = out;
    ckpt_status st = CKPT_OK;
    for (bool is_last = false; st == CKPT_OK && !is_last;) {
        size_t chunk = n < BLOCK ? (size_t)n : BLOCK;
        st = sink_read(from, at, w->in, chunk, err);
        at += chunk; /* bounded: FROM has these bytes */
        n -= chunk;
        is_last = n == 0;
        if (st == CKPT_OK)
            st = deflate_input(w, chunk, is_last, err);
    }
    (void)deflateEnd(&w->z);
    free(w);
    return st;
}
