/*
 * block_codecs.c - decodes blocks of LZ4 (lz4/lz4 doc/lz4_Block_format.md) and BloscLZ (Blosc/c-blosc
 * blosclz.c), and passes others to the decoders of Snappy, zlib and zstd.
 *
 * LZ4: a sequence is a byte of two 4-bit numbers (the number of literals, and the length of the copy minus
 * 4), the literals, and the distance (u16) back to the bytes to copy. To a number that is 15, more bytes are
 * added, up to and including the first below 255: they precede the literals, or follow the distance.
 *
 * BloscLZ: a byte N below 32: N + 1 literals follow. Of any other byte, the upper 3 bits plus 1 are a length;
 * to 8, more bytes are added, up to and including the first below 255. The lower 5 bits and the next byte are
 * a distance minus 1; if all of their bits are 1, the next two bytes (big-endian) plus 8192 are the distance.
 * Of the first byte of a block, only the lower 5 bits count.
 */
#include "codec/block_codecs.h"

#include "base/checked.h"
#include "codec/inflate.h"
#include "codec/snappy.h"
#include "codec/unpack_archive.h"

/* The output: N of SIZE bytes are decoded. */
struct block_output {
    unsigned char *buffer;
    size_t n, size;
};

/* put_literals - appends the next N bytes of C; false: there are not as many, or there is no room, and those
 * that are there and fit were appended. */
static bool put_literals(struct block_output *out, cursor *c, size_t n)
{
    size_t room = out->size - out->n, taken = n < c->left ? n : c->left;
    taken = taken < room ? taken : room;
    const unsigned char *literals = cursor_take(c, taken);
    if (literals)
        memcpy(out->buffer + out->n, literals, taken);
    out->n += literals ? taken : 0;
    return literals && taken == n;
}

/* put_copy - appends N bytes from DISTANCE bytes back; they may overlap what is appended. */
static bool put_copy(struct block_output *out, size_t distance, size_t n)
{
    if (!distance || distance > out->n || n > out->size - out->n)
        return false;
    unsigned char *to = out->buffer + out->n;
    const unsigned char *from = to - distance;
    if (distance >= n)
        memcpy(to, from, n);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    out->n += n;
    return true;
}

/* add_length_bytes - returns N, to which the bytes of C up to the first below 255 are added. C becomes bad if
 * it ends before. */
static size_t add_length_bytes(cursor *c, size_t n)
{
    const unsigned char *more;
    do {
        more = cursor_take(c, 1);
        n += more ? *more : 0; /* at most 255 times the bytes in memory */
    } while (more && *more == 255);
    return n;
}

static bool decode_lz4(cursor c, struct block_output *out)
{
    while (c.left && !c.bad) {
        const unsigned char *token = cursor_take(&c, 1);
        size_t nliterals = *token >> 4, length = *token & 15;
        if (!put_literals(out, &c, nliterals == 15 ? add_length_bytes(&c, 15) : nliterals))
            return false;
        if (!c.left)
            return true; /* the last sequence has no copy */
        size_t distance = cursor_u16(&c);
        length = (length == 15 ? add_length_bytes(&c, 15) : length) + 4;
        if (c.bad || !put_copy(out, distance, length))
            return false;
    }
    return false;
}

bool block_decode_lz4(cursor c, unsigned char *buffer, size_t size, size_t *n)
{
    struct block_output output = {.buffer = buffer, .size = size, .n = *n};
    bool is_valid = decode_lz4(c, &output);
    *n = output.n;
    return is_valid;
}

static bool decode_blosclz(cursor c, struct block_output *out)
{
    unsigned control = cursor_u8(&c) & 31;
    while (!c.bad) {
        if (control < 32) {
            if (!put_literals(out, &c, control + 1))
                return false;
        } else {
            size_t length = control >> 5 == 7 ? add_length_bytes(&c, 8) : (control >> 5) + 1;
            size_t distance = ((control & 31) << 8 | cursor_u8(&c)) + 1u;
            const unsigned char *far = distance == 8192 ? cursor_take(&c, 2) : NULL;
            distance += far ? (size_t)load_number(far, 2, true) : 0;
            if (c.bad || !put_copy(out, distance, length + 1))
                return false;
        }
        if (!c.left)
            return true;
        control = cursor_u8(&c);
    }
    return false;
}

/* fail_size - fails because a block of CODEC is damaged, or does not decode to the size of OUT. */
static ckpt_status fail_size(enum block_codec codec, const struct block_output *out, ckpt_error *err)
{
    static const char *const names[] = {"LZ4", "BloscLZ", "Snappy", "zlib", "zstd"};
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "a block of %s is {damaged, or decodes to another size} than {=%zu bytes}", names[codec],
                out->size);
}

/* decode_stream - decompresses the zlib or zstd stream C to OUT. */
static ckpt_status decode_stream(enum block_codec codec, cursor c, struct block_output *out, ckpt_error *err)
{
    uint64_t used;
    source *in = source_mem(c.p, c.left, CKPT_NO_OFFSET);
    spool *to = in ? spool_new_in_memory(out->size) : NULL;
    ckpt_status st = !to                   ? fail_memory(err)
                     : codec == BLOCK_ZSTD ? unpack_zstd(in, to, err)
                                           : inflate_into(in, 0, c.left, INFLATE_ZLIB, to, &used, err);
    source *result = to ? spool_source(to) : NULL;
    if (st == CKPT_OK) {
        out->n = result->size < out->size ? (size_t)result->size : out->size;
        st = source_read(result, 0, out->buffer, out->n, err);
    }
    source_unref(result);
    source_unref(in);
    return st == CKPT_ELIMIT ? fail_size(codec, out, err) : st;
}

ckpt_status block_decode(enum block_codec codec, cursor c, unsigned char *out, size_t size, ckpt_error *err)
{
    struct block_output output = {.buffer = out, .size = size};
    bool is_valid = true;
    switch (codec) {
    case BLOCK_LZ4: is_valid = decode_lz4(c, &output); break;
    case BLOCK_BLOSCLZ: is_valid = decode_blosclz(c, &output); break;
    case BLOCK_SNAPPY: return snappy_decode(c, out, size, err);
    default: CKPT_TRY(decode_stream(codec, c, &output, err));
    }
    return is_valid && output.n == size ? CKPT_OK : fail_size(codec, &output, err);
}

void block_unshuffle_bytes(const unsigned char *in, size_t n, size_t width, unsigned char *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = in[k * n + i];
}

/* transpose_bits - returns the 8 x 8 bits of X, one row in each byte, with rows and columns exchanged. */
static uint64_t transpose_bits(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aa;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000cccc0000cccc;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0;
    return x ^ t ^ t << 28;
}

void block_unshuffle_bits(const unsigned char *in, size_t n, size_t width, unsigned char *out)
{
    size_t plane = n / 8; /* bytes that have one bit of all elements */
    for (size_t k = 0; k < width; k++, in += 8 * plane)
        for (size_t i = 0; i < plane; i++) {
            uint64_t bits = 0;
            for (size_t bit = 8; COUNT_DOWN(bit);)
                bits = bits << 8 | in[bit * plane + i];
            bits = transpose_bits(bits);
            for (size_t j = 0; j < 8; j++)
                out[(8 * i + j) * width + k] = (unsigned char)(bits >> 8 * j);
        }
}
