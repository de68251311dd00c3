/*
 * hdf5_szip.c - undoes the filter szip of HDF5 (HDFGroup/hdf5 H5Zszip.c), which codes the differences between
 * numbers that follow each other by the adaptive Rice code of CCSDS 121.0-B, as SZIP and libaec write it
 * (MathisRosenhauer/libaec sz_compat.c, decode.c). A chunk, by offset and size:
 *
 *   0  4  decoded size, little-endian
 *   4  …  bits, the highest of each byte first: blocks of pixels, without gaps
 *
 * Parameters: options, pixels in a block (even, at most 32), bits of a pixel, pixels in a scanline. Options
 * are 1 and 128 (always set), 4 or 32 (pixels as they are, or predicted), 8 or 16 (little- or big-endian). A
 * pixel has a byte, two bytes, or four if it has more than 8 or 16 bits. Elements of 32 or 64 bits are coded
 * as pixels of 8 bits: byte 0 of all elements, byte 1 of all elements …
 *
 * A scanline is padded to whole blocks. A block begins with a code of 3 bits, of 4 for pixels of more than 8
 * bits, of 5 for more than 16:
 *   0, then a bit 0  zeros in several blocks. A number in unary: below 4 that of blocks, minus 1; 4: up to
 *                    the next multiple of 64 blocks, or to the end of the scanline; above 4 that of blocks
 *   0, then a bit 1  of every two pixels A, B: (A + B) * (A + B + 1) / 2 + B in unary, at most 90
 *   … the others     K is the code minus 1: of all pixels, all but the lowest K bits in unary; then
 *                    the lowest K bits of all pixels
 *   all bits 1       the pixels as they are
 * A number N in unary is N bits 0 and a bit 1. With prediction, the first pixel of a scanline is as it is,
 * before the numbers in its block (of the first pair, only B is a pixel). Each other pixel is a difference
 * from the one before: 0, -1, 1, -2, 2 … up to where only one sign is possible, and then all of it.
 */
#include "codec/bit_reader.h"
#include "codec/hdf5_filter.h"

#define MAX_BLOCK    32u   /* most pixels of a block */
#define MAX_LINE     4096u /* most pixels of a scanline */
#define ZERO_SEGMENT 64u   /* blocks that one code for zeros may have */
#define TO_SEGMENT   4u    /* the number in such a code that means: up to the end of the segment */
#define MAX_PAIR     90u   /* greatest number that stands for two pixels */
#define BAND         4096u /* bytes of pixels that are written at a time */

enum option {
    OPTION_ALLOWS_13 = 1, /* K may be 13, always set */
    OPTION_AS_THEY_ARE = 4,
    OPTION_LITTLE_ENDIAN = 8,
    OPTION_BIG_ENDIAN = 16,
    OPTION_PREDICTS = 32,
    OPTION_NO_HEADER = 128 /* always set */
};

struct szip {
    struct bit_reader in;
    bool big_endian, predicts;
    uint32_t block, line;       /* pixels in a block and in a scanline */
    uint32_t blocks;            /* blocks in a scanline */
    uint32_t nbits, width, max; /* bits and bytes of a pixel, and the greatest one */
    uint32_t code_bits;
    uint32_t at_block;    /* blocks of the scanline that were decoded */
    uint32_t zero_blocks; /* blocks of zeros that are still to come */
    uint32_t last;        /* the pixel before */
    uint32_t pixel[MAX_BLOCK];
    size_t used; /* bytes in OUT */
    unsigned char out[BAND + 4 * MAX_BLOCK];
};

/* read_zeros - reads how many blocks of zeros begin here, and counts those after this one as to come. False:
 * there are more than the scanline has. */
static bool read_zeros(struct szip *szip)
{
    uint64_t n = bits_take_unary(&szip->in), left = szip->blocks - szip->at_block;
    uint64_t in_segment = ZERO_SEGMENT - szip->at_block % ZERO_SEGMENT;
    if (n == TO_SEGMENT)
        n = left < in_segment ? left : in_segment;
    else if (n < TO_SEGMENT)
        n++;
    szip->zero_blocks = n <= left ? (uint32_t)n - 1 : 0;
    return n <= left;
}

/* read_pairs - reads the pixels from FIRST (0 or 1) on, of which every two are one number. */
static bool read_pairs(struct szip *szip, uint32_t first)
{
    for (uint32_t i = 0; i < szip->block; i += 2) {
        uint64_t pair = bits_take_unary(&szip->in);
        uint32_t sum = 0, of_sum = 0; /* the greatest number of its kind up to PAIR is that of (SUM, 0) */
        if (pair > MAX_PAIR)
            return false;
        while (of_sum + sum + 1 <= pair)
            of_sum += ++sum;
        uint32_t b = (uint32_t)pair - of_sum;
        if (i >= first)
            szip->pixel[i] = sum - b;
        szip->pixel[i + 1] = b;
    }
    return true;
}

static bool read_split(struct szip *szip, uint32_t first, uint32_t index)
{
    for (uint32_t i = first; i < szip->block; i++) {
        uint64_t high = bits_take_unary(&szip->in);
        if (high > szip->max >> index)
            return false;
        szip->pixel[i] = (uint32_t)high << index;
    }
    for (uint32_t i = first; i < szip->block && index; i++)
        szip->pixel[i] |= bits_take32(&szip->in, index);
    return true;
}

/* read_block - reads the next block into szip->pixel, without undoing the prediction. */
static bool read_block(struct szip *szip)
{
    uint32_t first = szip->predicts && !szip->at_block; /* 1: the first pixel is not predicted */
    memset(szip->pixel, 0, sizeof szip->pixel);
    if (szip->zero_blocks) {
        szip->zero_blocks--;
        return true;
    }
    uint32_t code = bits_take32(&szip->in, szip->code_bits), largest = (1u << szip->code_bits) - 1;
    bool are_pairs = !code && bits_take32(&szip->in, 1);
    if (first && code < largest)
        szip->pixel[0] = bits_take32(&szip->in, szip->nbits);
    if (!code && !are_pairs)
        return read_zeros(szip);
    if (!code)
        return read_pairs(szip, first);
    if (code < largest)
        return read_split(szip, first, code - 1);
    for (uint32_t i = 0; i < szip->block; i++)
        szip->pixel[i] = bits_take32(&szip->in, szip->nbits);
    return true;
}

/* undo_prediction - returns the pixel that comes after LAST with the difference that NUMBER stands for. */
static uint32_t undo_prediction(uint32_t number, uint32_t last, uint32_t max)
{
    bool is_upper = last > max / 2;
    uint32_t both_signs = is_upper ? max - last : last; /* greatest difference that both signs may have */
    if (number / 2 + number % 2 <= both_signs)
        return number % 2 ? last - number / 2 - 1 : last + number / 2;
    return is_upper ? max - number : number;
}

/* put_pixels - appends the first COUNT pixels of the block to szip->out. */
static void put_pixels(struct szip *szip, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < szip->width; k++)
            szip->out[szip->used++] = (unsigned char)(szip->pixel[i] >>
                                                      8 * (szip->big_endian ? szip->width - 1 - k : k));
}

/* decode_block - appends the next block, but at most MAX pixels, to szip->out, and returns their number; 0:
 * the data are malformed. */
static uint32_t decode_block(struct szip *szip, uint64_t max)
{
    uint32_t n = szip->line - szip->at_block * szip->block;
    if (!read_block(szip) || szip->in.c.bad)
        return 0;
    for (uint32_t i = 0; i < szip->block; i++) {
        if (szip->pixel[i] > szip->max)
            return 0;
        if (szip->predicts && (i || szip->at_block))
            szip->pixel[i] = undo_prediction(szip->pixel[i], szip->last, szip->max);
        szip->last = szip->pixel[i];
    }
    szip->at_block = szip->at_block + 1 < szip->blocks ? szip->at_block + 1 : 0;
    n = n < szip->block ? n : szip->block;
    n = n < max ? n : (uint32_t)max;
    put_pixels(szip, n);
    return n;
}

static ckpt_status decode_pixels(struct szip *szip, const struct hdf5_input *in, uint64_t npixels, spool *to,
                                 ckpt_error *err)
{
    while (npixels) {
        uint32_t n = decode_block(szip, npixels);
        if (!n)
            return hdf5_fail_chunk(in, err, "data of szip that end early or have impossible numbers");
        npixels -= n;
        if (szip->used >= BAND || !npixels) {
            CKPT_TRY(spool_write(to, szip->out, szip->used, err));
            szip->used = 0;
        }
    }
    return CKPT_OK;
}

/* decode_planes - decodes NBYTES bytes: byte 0 of all elements, byte 1 …; appends the elements, of
 * UNIT bytes each, to TO. */
static ckpt_status decode_planes(struct szip *szip, const struct hdf5_input *in, uint64_t nbytes,
                                 uint32_t unit, spool *to, ckpt_error *err)
{
    spool *planes = spool_new(nbytes);
    CKPT_TRY_ALLOC(planes, err);
    ckpt_status st = decode_pixels(szip, in, nbytes, planes, err);
    source *src = spool_source(planes);
    const struct hdf5_input shuffled = {src, nbytes};
    CKPT_THEN(st, hdf5_undo_shuffle(&shuffled, unit, to, err));
    source_unref(src);
    return st;
}

/* set_parameters - sets SZIP from the parameters of FILTER; false: szip cannot have them. */
static bool set_parameters(struct szip *szip, const struct hdf5_filter *filter)
{
    uint32_t options = filter->values[0], bits = filter->values[2];
    szip->block = filter->values[1];
    szip->line = filter->values[3];
    szip->big_endian = options & OPTION_BIG_ENDIAN;
    szip->predicts = options & OPTION_PREDICTS;
    szip->nbits = bits == 32 || bits == 64 ? 8 : bits;
    if (szip->block % 2 || szip->block < 2 || szip->block > MAX_BLOCK || szip->line < 1 ||
        szip->line > MAX_LINE || szip->nbits < 1 || szip->nbits > 24 ||
        !szip->big_endian == !(options & OPTION_LITTLE_ENDIAN))
        return false;
    szip->blocks = (szip->line + szip->block - 1) / szip->block;
    szip->width = szip->nbits > 16 ? 4 : szip->nbits > 8 ? 2 : 1;
    szip->code_bits = szip->nbits > 16 ? 5 : szip->nbits > 8 ? 4 : 3;
    szip->max = (1u << szip->nbits) - 1;
    return true;
}

ckpt_status hdf5_undo_szip(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                           uint64_t max_bytes, spool *to, ckpt_error *err)
{
    const uint32_t known = OPTION_ALLOWS_13 | OPTION_AS_THEY_ARE | OPTION_LITTLE_ENDIAN | OPTION_BIG_ENDIAN |
                           OPTION_PREDICTS | OPTION_NO_HEADER;
    struct szip z = {.used = 0};
    bool in_planes = filter->values[2] == 32 || filter->values[2] == 64;
    uint64_t nbytes = cursor_u32(&input);
    if (filter->values[0] & ~known || !(filter->values[0] & OPTION_NO_HEADER))
        return fail(err, CKPT_EUNSUPPORTED, source_pos(in->src, 0),
                    "szip with the options {%u}; {=those that HDF5 sets} are read", filter->values[0]);
    if (!set_parameters(&z, filter))
        return hdf5_fail_chunk(in, err, "parameters that szip cannot have");
    uint32_t unit = in_planes ? filter->values[2] / 8 : z.width;
    if (input.bad || nbytes % unit)
        return hdf5_fail_chunk(in, err, "a size that szip does not write");
    if (nbytes > max_bytes)
        return hdf5_fail_chunk(in, err, "more bytes than it can have");
    z.in.c = input;
    return in_planes ? decode_planes(&z, in, nbytes, unit, to, err)
                     : decode_pixels(&z, in, nbytes / unit, to, err);
}
