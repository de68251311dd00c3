/*
 * msgpack.c - MessagePack (github.com/msgpack/msgpack, spec.md), as flax.serialization writes it:
 * one map of texts, its arrays extensions of type 1 (array), 2 (complex number) and 3 (scalar of numpy).
 *   00-7f, e0-ff  a small number       80-8f, de, df  a map: as many keys and values follow
 *   90-9f, dc, dd an array             a0-bf, d9-db   a text
 *   c4-c6         bytes                c7-c9, d4-d8   an extension: length, type, bytes
 *   c0, c2, c3    nil, false, true     ca-d3          a number of 4, 8 or 1, 2, 4, 8 bytes
 * Lengths and numbers are big-endian. Nothing in it runs: flax makes arrays of numbers alone.
 *
 * It has no magic number. What is taken for it begins with a map whose first key is a text, and ends with
 * the last value of that map, to the byte; how many values are still to come is one number, however deep
 * they lie.
 */
#include <inttypes.h>

#include "io/reader.h"
#include "scan/scan.h"

#define SNIFF 16u /* bytes values from here on are looked into */

struct msgpack {
    struct scanner *x;
    source *src;
    ckpt_str where;
    reader r;
    uint64_t values;  /* still to come */
    uint64_t tensors; /* bytes of arrays */
    bool telling;     /* the second time: it is one */
    bool foreign;     /* an extension that nobody here knows */
    ckpt_status status;
    ckpt_error *err;
};

static bool number(struct msgpack *m, size_t width, uint64_t *n)
{
    const unsigned char *b = reader_take(&m->r, width);
    *n = 0;
    for (size_t i = 0; b && i < width; i++)
        *n = *n << 8 | b[i];
    return b != NULL;
}

/* more - N values more, each of which takes a byte at least. */
static bool more(struct msgpack *m, uint64_t n)
{
    uint64_t left = reader_left(&m->r);
    if (n > left || m->values > left - n)
        return false;
    m->values += n; /* bounded: no more than bytes are left */
    return true;
}

/* bytes - N of them; the value of a key may be a file of its own. */
static bool bytes(struct msgpack *m, uint64_t n)
{
    uint64_t at = m->r.pos, known = 0;
    source *part;
    if (!reader_skip(&m->r, n))
        return false;
    if (!m->telling || n < SNIFF || m->x->depth >= m->x->s->opts->max_depth)
        return true;
    ckpt_str where = scan_join(m->x, m->where, arena_printf(m->x->a, "value@0x%" PRIx64, at));
    m->status = where.ptr ? source_slice(m->src, at, n, &part, m->err) : fail_memory(m->err);
    if (m->status != CKPT_OK)
        return false;
    m->x->depth++;
    m->status = scan_bytes(m->x, part, where, SCAN_VALUE, &known, m->err);
    m->x->depth--;
    source_unref(part);
    return m->status == CKPT_OK;
}

static bool extension(struct msgpack *m, uint64_t n)
{
    uint64_t at = m->r.pos, type;
    if (!number(m, 1, &type) || n > reader_left(&m->r))
        return false;
    if (type >= 1 && type <= 3)
        m->tensors += n; /* bounded: they lie in the source */
    else if (type != 0xff && m->telling && !m->foreign) {
        m->foreign = true;
        if (!scan_found(m->x->s, SCAN_FMT003, m->where, m->src, at,
                        "an extension of {type %" PRId8 "}, which only its program can read", (int8_t)type)) {
            m->status = CKPT_ECANCELLED;
            return false;
        }
    }
    return type >= 1 && type <= 3 ? reader_skip(&m->r, n) : bytes(m, n);
}

static bool value(struct msgpack *m)
{
    static const uint8_t fixed[] = {[0xca - 0xca] = 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
    uint64_t b, n = 0;
    if (!number(m, 1, &b))
        return false;
    m->values--;
    if (b <= 0x7f || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3)
        return true;
    if (b <= 0x8f)
        return more(m, 2 * (b & 15)); /* bounded: 30 at most */
    if (b <= 0x9f)
        return more(m, b & 15);
    if (b <= 0xbf)
        return bytes(m, b & 31);
    if (b >= 0xca && b <= 0xd3)
        return reader_skip(&m->r, fixed[b - 0xca]);
    if (b >= 0xd4 && b <= 0xd8)
        return extension(m, (uint64_t)1 << (b - 0xd4));
    switch (b) {
    case 0xc4:
    case 0xd9: return number(m, 1, &n) && bytes(m, n);
    case 0xc5:
    case 0xda: return number(m, 2, &n) && bytes(m, n);
    case 0xc6:
    case 0xdb: return number(m, 4, &n) && bytes(m, n);
    case 0xc7: return number(m, 1, &n) && extension(m, n);
    case 0xc8: return number(m, 2, &n) && extension(m, n);
    case 0xc9: return number(m, 4, &n) && extension(m, n);
    case 0xdc: return number(m, 2, &n) && more(m, n);
    case 0xdd: return number(m, 4, &n) && more(m, n);
    case 0xde: return number(m, 2, &n) && more(m, 2 * n); /* bounded: 16 bits */
    case 0xdf: return number(m, 4, &n) && more(m, 2 * n); /* bounded: 32 bits */
    default: return false;
    }
}

/* walk - true: it is one map, to the last byte. */
static bool walk(struct msgpack *m)
{
    m->values = 1;
    m->tensors = 0;
    m->status = reader_init(&m->r, m->src, 0, m->src->size, m->err);
    bool ok = m->status == CKPT_OK;
    while (ok && m->values)
        ok = value(m);
    if (m->status == CKPT_OK && (m->r.status == CKPT_EIO || m->r.status == CKPT_ENOMEM))
        m->status = m->r.status;
    ok = ok && reader_left(&m->r) == 0;
    reader_free(&m->r);
    return ok;
}

static bool begins(struct scanner *x, source *src)
{
    unsigned char b[6] = {0};
    size_t n = src->size < sizeof b ? (size_t)src->size : sizeof b;
    if (n < 3 || !scan_read(x->s, src, 0, b, n))
        return false;
    size_t key = b[0] == 0xde ? 3 : b[0] == 0xdf ? 5 : 1;
    bool maps = (b[0] > 0x80 && b[0] <= 0x8f) || b[0] == 0xde || b[0] == 0xdf;
    return maps && ((b[key] & 0xe0) == 0xa0 || (b[key] >= 0xd9 && b[key] <= 0xdb));
}

ckpt_status scan_msgpack(struct scanner *x, source *src, ckpt_str where, bool *is, uint64_t *known,
                         ckpt_error *err)
{
    struct msgpack m = {.x = x, .src = src, .where = where, .err = err};
    *is = begins(x, src) && walk(&m);
    if (!*is)
        return m.status;
    x->format = x->depth ? x->format : "msgpack";
    m.telling = true;
    (void)walk(&m); /* it is one, unless the file changes meanwhile, which ckpt_scan sees */
    if (m.status != CKPT_OK)
        return m.status;
    scan_known(src, &x->s->result->in_tensors, m.tensors);
    if (!m.foreign)
        *known += src->size; /* bounded: once */
    return CKPT_OK;
}
