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

#include "codec/inflate.h"
#include "codec/snappy.h"
#include "codec/unpack_archive.h"

/* The output: N of SIZE bytes are decoded. */
struct block_output {
    unsigned char *buffer;
    size_t n, size;
};

/* put_literals - appends the next COUNT bytes of IN; false: there are not as many, or there is no room, and
 * those that are there and fit were appended. */
static bool put_literals(struct block_output *out, cursor *in, size_t count)
{
    size_t room = out->size - out->n, taken = count < in->left ? count : in->left;
    taken = taken < room ? taken : room;
    const unsigned char *literals = cursor_take(in, taken);
    if (literals)
        memcpy(out->buffer + out->n, literals, taken);
    out->n += literals ? taken : 0;
    return literals && taken == count;
}

/* put_copy - appends COUNT bytes from DISTANCE bytes back; they may overlap what is appended. */
static bool put_copy(struct block_output *out, size_t distance, size_t count)
{
    if (!distance || distance > out->n || count > out->size - out->n)
        return false;
    unsigned char *to = out->buffer + out->n;
    const unsigned char *from = to - distance;
    if (distance >= count)
        memcpy(to, from, count);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = from[i];
    out->n += count;
    return true;
}

/* add_length_bytes - returns COUNT, to which the bytes of IN up to the first below 255 are added. IN becomes
 * bad if it ends before. */
static size_t add_length_bytes(cursor *in, size_t count)
{
    const unsigned char *more;
    do {
        more = cursor_take(in, 1);
        count += more ? *more : 0; /* at most 255 times the bytes in memory */
    } while (more && *more == 255);
    return count;
}

static bool decode_lz4(cursor in, struct block_output *out)
{
    while (in.left && !in.bad) {
        const unsigned char *token = cursor_take(&in, 1);
        size_t nliterals = *token >> 4, length = *token & 15;
        if (!put_literals(out, &in, nliterals == 15 ? add_length_bytes(&in, 15) : nliterals))
            return false;
        if (!in.left)
            return true; /* the last sequence has no copy */
        size_t distance = cursor_u16(&in);
        length = (length == 15 ? add_length_bytes(&in, 15) : length) + 4;
        if (in.bad || !put_copy(out, distance, length))
            return false;
    }
    return false;
}

bool block_decode_lz4(cursor in, unsigned char *buffer, size_t size, size_t *count)
{
    struct block_output output = {.buffer = buffer, .size = size, .n = *count};
    bool is_valid = decode_lz4(in, &output);
    *count = output.n;
    return is_valid;
}

static bool decode_blosclz(cursor in, struct block_output *out)
{
    unsigned control = cursor_u8(&in) & 31;
    while (!in.bad) {
        if (control < 32) {
            if (!put_literals(out, &in, control + 1))
                return false;
        } else {
            size_t length = control >> 5 == 7 ? add_length_bytes(&in, 8) : (control >> 5) + 1;
            size_t distance = ((control & 31) << 8 | cursor_u8(&in)) + 1u;
            const unsigned char *far = distance == 8192 ? cursor_take(&in, 2) : NULL;
            distance += far ? (size_t)load_number(far, 2, true) : 0;
            if (in.bad || !put_copy(out, distance, length + 1))
                return false;
        }
        if (!in.left)
            return true;
        control = cursor_u8(&in);
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

/* decode_stream - decompresses the zlib or zstd stream INPUT to OUT. */
static ckpt_status decode_stream(enum block_codec codec, cursor input, struct block_output *out,
                                 ckpt_error *err)
{
    uint64_t used;
    source *in = source_mem(input.p, input.left, CKPT_NO_OFFSET);
    spool *to = in ? spool_new_in_memory(out->size) : NULL;
    ckpt_status st = !to                   ? fail_memory(err)
                     : codec == BLOCK_ZSTD ? unpack_zstd(in, to, err)
                                           : inflate_into(in, 0, input.left, INFLATE_ZLIB, to, &used, err);
    source *result = to ? spool_source(to) : NULL;
    if (st == CKPT_OK) {
        out->n = result->size < out->size ? (size_t)result->size : out->size;
        st = source_read(result, 0, out->buffer, out->n, err);
    }
    source_unref(result);
    source_unref(in);
    return st == CKPT_ELIMIT ? fail_size(codec, out, err) : st;
}

ckpt_status block_decode(enum block_codec codec, cursor in, unsigned char *out, size_t size, ckpt_error *err)
{
    struct block_output output = {.buffer = out, .size = size};
    bool is_valid = true;
    switch (codec) {
    case BLOCK_LZ4: is_valid = decode_lz4(in, &output); break;
    case BLOCK_BLOSCLZ: is_valid = decode_blosclz(in, &output); break;
    case BLOCK_SNAPPY: return snappy_decode(in, out, size, err);
    default: CKPT_TRY(decode_stream(codec, in, &output, err));
    }
    return is_valid && output.n == size ? CKPT_OK : fail_size(codec, &output, err);
}

void block_unshuffle_bytes(const unsigned char *in, size_t nbytes, size_t width, unsigned char *out)
{
    for (size_t i = 0; i < nbytes; i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = in[k * nbytes + i];
}

/* transpose_bits - returns the 8 x 8 bits of NUMBER, one row in each byte, with rows and columns
 * exchanged. */
static uint64_t transpose_bits(uint64_t number)
{
    uint64_t t = (number ^ number >> 7) & 0x00aa00aa00aa00aa;
    number ^= t ^ t << 7;
    t = (number ^ number >> 14) & 0x0000cccc0000cccc;
    number ^= t ^ t << 14;
    t = (number ^ number >> 28) & 0x00000000f0f0f0f0;
    return number ^ t ^ t << 28;
}

void block_unshuffle_bits(const unsigned char *in, size_t nbytes, size_t width, unsigned char *out)
{
    size_t plane = nbytes / 8; /* bytes that have one bit of all elements */
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
