/*
 * snappy.c - decodes raw Snappy (google/snappy format_description.txt), as in the tables of LevelDB.
 *
 *   varint   decoded size
 *   …        elements; the two low bits of the first byte are the kind, its six other bits N:
 *            0   literal of N + 1 bytes; if N is 60 to 63, the next 1 to 4 bytes are its length - 1
 *            1   copy of (N & 7) + 4 bytes; distance: (N >> 3) << 8 | the next byte
 *            2   copy of N + 1 bytes; distance: the next 2 bytes
 *            3   copy of N + 1 bytes; distance: the next 4 bytes
 *
 * A copy reads the output from DISTANCE bytes before its end on, and may read what it has just written.
 * Refused: a copy from before the beginning, elements that are cut off, more or fewer bytes than announced.
 */
#include "codec/snappy.h"

#define MAX_RATIO 22u /* decoded bytes for a byte of input: a copy of 64 bytes takes 3 */

ckpt_status snappy_read_size(cursor in, size_t *size, ckpt_error *err)
{
    uint64_t pos = in.pos, n = cursor_varint(&in), max_size = (uint64_t)in.left * MAX_RATIO;
    if (in.bad || n > max_size)
        return fail(err, CKPT_EFORMAT, pos,
                    "Snappy data that declares {%llu bytes}, and decodes to at most {=%llu}",
                    (unsigned long long)n, (unsigned long long)max_size);
    *size = (size_t)n;
    return CKPT_OK;
}

/* The output: N of SIZE bytes are decoded. */
struct decoded {
    unsigned char *out;
    size_t n, size;
};

static bool add_literal(struct decoded *decoded, cursor *in, uint32_t count)
{
    uint64_t len = (count < 60 ? count : cursor_number(in, count - 59)) + UINT64_C(1);
    if (in->bad || len > decoded->size - decoded->n)
        return false;
    const unsigned char *b = cursor_take(in, (size_t)len);
    if (!b)
        return false;
    memcpy(decoded->out + decoded->n, b, (size_t)len);
    decoded->n += (size_t)len;
    return true;
}

static bool add_copy(struct decoded *decoded, size_t len, size_t back)
{
    if (back == 0 || back > decoded->n || len > decoded->size - decoded->n)
        return false;
    unsigned char *to = decoded->out + decoded->n;
    const unsigned char *from = to - back;
    if (back >= len)
        memcpy(to, from, len);
    else /* the bytes repeat */
        for (size_t i = 0; i < len; i++)
            to[i] = from[i];
    decoded->n += len;
    return true;
}

static bool add_element(struct decoded *decoded, cursor *in)
{
    uint32_t first = (uint32_t)cursor_number(in, 1), n = first >> 2;
    switch (first & 3) {
    case 0: return add_literal(decoded, in, n);
    case 1: return add_copy(decoded, 4 + (n & 7), (n >> 3) << 8 | (size_t)cursor_number(in, 1));
    case 2: return add_copy(decoded, n + UINT64_C(1), (size_t)cursor_number(in, 2));
    default: return add_copy(decoded, n + UINT64_C(1), (size_t)cursor_number(in, 4));
    }
}

ckpt_status snappy_decode(cursor in, unsigned char *out, size_t size, ckpt_error *err)
{
    struct decoded d = {out, 0, size};
    (void)cursor_varint(&in);
    uint64_t at = in.pos;
    while (!in.bad && in.left) {
        at = in.pos;
        if (!add_element(&d, &in))
            return fail(err, CKPT_EFORMAT, at, "{damaged} {=Snappy} data");
    }
    return d.n == size && !in.bad ? CKPT_OK
                                  : fail(err, CKPT_EFORMAT, at,
                                         "Snappy data decodes to {%zu bytes}, it must be {=%zu}", d.n, size);
}
