/* The filters of HDF5 that pack bits. The bits are texts here; malformed bits and parameters are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/hdf5.h"
#include "io/spool.h"
#include "pseudo_random.h"
#include "unit.h"

#define MAX_STORED  256u
#define MAX_DECODED 4096u

/* A chunk with one filter, and what it was decoded to. */
static struct chunk {
    uint32_t values[64];
    struct hdf5_filter filter;
    unsigned char stored[MAX_STORED], decoded[MAX_DECODED];
    size_t nstored, ndecoded;
    uint64_t chunk_bytes;
    ckpt_error err;
} chunk;

/* begin_chunk - sets the filter ID with the first N of the parameters VALUES, for a chunk of CHUNK_BYTES. */
static void begin_chunk(uint16_t id, const uint32_t *values, uint32_t n, uint64_t chunk_bytes)
{
    chunk = (struct chunk){.filter = {.id = id, .nvalues = n, .values = chunk.values},
                           .chunk_bytes = chunk_bytes};
    memcpy(chunk.values, values, n * sizeof *values);
}

/* store_bits - appends BITS, a text of 0, 1 and spaces, and zeros up to a whole byte. */
static void store_bits(const char *bits)
{
    size_t n = 0;
    for (; *bits; bits++)
        if (*bits != ' ') {
            chunk.stored[chunk.nstored + n / 8] |= (unsigned char)((*bits == '1') << (7 - n % 8));
            n++;
        }
    chunk.nstored += (n + 7) / 8;
}

/* decode - decodes the chunk, of whose stored bytes there are only the first N. */
static ckpt_status decode(size_t n)
{
    const struct hdf5_decoding how = {
        .filters = &chunk.filter, .nfilters = 1, .chunk_bytes = chunk.chunk_bytes};
    unsigned char *copy = unit_guard(chunk.stored, n);
    source *src = source_mem(copy, n, 0);
    spool *to = spool_new_in_memory(chunk.chunk_bytes);
    ckpt_status st = hdf5_decode(&how, src, to, &chunk.err);
    source *result = spool_source(to);
    chunk.ndecoded = (size_t)result->size;
    CU_ASSERT_EQUAL(source_read(result, 0, chunk.decoded, chunk.ndecoded, NULL), CKPT_OK);
    CU_ASSERT(st == CKPT_OK || (chunk.err.status == st && chunk.err.what[0]));
    source_unref(result);
    source_unref(src);
    unit_guard_free(copy, n);
    return st;
}

/* expect_bytes - checks that the chunk is decoded to the N bytes of BYTES, and refused if it is cut. */
static void expect_bytes(const void *bytes, size_t n)
{
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_OK);
    CU_ASSERT(chunk.ndecoded == n && memcmp(chunk.decoded, bytes, n) == 0);
    for (size_t i = 0; i < chunk.nstored; i++)
        CU_ASSERT_EQUAL(decode(i), CKPT_EFORMAT);
}

/* ------------------------------------------------------------------------------- szip */

enum { EC = 128 + 8 + 4 + 1, NN = 128 + 32 + 8 + 1, NN_BIG_ENDIAN = 128 + 32 + 16 + 1 };

/* begin_szip - begins a chunk of szip that is decoded to NBYTES bytes. */
static void begin_szip(uint32_t options, uint32_t block, uint32_t bits, uint32_t line, uint32_t nbytes)
{
    const uint32_t values[] = {options, block, bits, line};
    begin_chunk(HDF5_SZIP, values, 4, nbytes);
    for (int i = 0; i < 4; i++)
        chunk.stored[i] = (unsigned char)(nbytes >> 8 * i);
    chunk.nstored = 4;
}

static void every_block_of_szip_is_decoded(void)
{
    begin_szip(EC, 2, 8, 4, 4);
    store_bits("111 00000001 00000010   010 01 01 1 0"); /* as they are; by 1 lowest bit: 1 1, then 1 0 */
    expect_bytes("\1\2\3\2", 4);
    begin_szip(NN, 2, 8, 4, 4);
    store_bits("001 00000101 01   000 1 00000001"); /* 5, -1; a pair of +1 and -1: 3 * 4 / 2 + 1 */
    expect_bytes("\5\4\5\4", 4);
    begin_szip(NN, 2, 8, 4, 4);
    store_bits("000 0 00000111 01"); /* 7, then zeros in 2 blocks */
    expect_bytes("\7\7\7\7", 4);
    begin_szip(NN, 2, 8, 4, 4);
    store_bits(
        "000 1 00000111 001   000 0 1"); /* 7, then a pair of 0 and 1, of which the first is not there */
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_OK);
    CU_ASSERT(memcmp(chunk.decoded, "\7\6\6\6", 4) == 0);
}

static void differences_of_szip_end_at_the_range(void)
{
    begin_szip(NN, 4, 8, 4, 4);
    store_bits("001 00000001 0001 00001 1"); /* 1; -2 is impossible, so 3 is +2; 4 is +2, too */
    expect_bytes("\1\3\5\5", 4);
    begin_szip(NN, 4, 8, 4, 4);
    store_bits("001 11111110 0001 1 1"); /* 254; +2 is impossible, so 3 is -2 */
    expect_bytes("\376\374\374\374", 4);
}

static void zeros_of_szip_end_at_a_segment_or_the_scanline(void)
{
    unsigned char zeros[260] = {0};
    begin_szip(EC, 2, 16, 130, 260); /* 65 blocks: a segment of 64, and one more */
    store_bits("0000 0 00001   0000 0 00001");
    expect_bytes(zeros, 260);
    begin_szip(EC, 2, 16, 14, 28);
    store_bits("0000 0 000001   0000 0 01"); /* 5 blocks, then 2 */
    expect_bytes(zeros, 28);
    begin_szip(EC, 2, 16, 12, 24);
    store_bits("0000 0 000000001"); /* 8 blocks of 6 */
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
}

static void pixels_of_szip_have_their_width_and_order(void)
{
    begin_szip(NN_BIG_ENDIAN, 2, 12, 2, 4);
    store_bits("1111 000100100011 000000000001"); /* 0x123, and 1 for -1 */
    expect_bytes("\1\x23\1\x22", 4);
    begin_szip(NN, 2, 20, 2, 8);
    store_bits("11111 00010010001101000101 00000000000000000010");
    expect_bytes("\x45\x23\1\0\x46\x23\1\0", 8);
    begin_szip(EC, 2, 32, 8, 8); /* two elements: their bytes 0, bytes 1 … */
    store_bits("111 00000001 00000101 111 00000010 00000110 111 00000011 00000111 111 00000100 00001000");
    expect_bytes("\1\2\3\4\5\6\7\10", 8);
}

static void scanlines_of_szip_are_padded(void)
{
    begin_szip(NN, 2, 8, 3, 6);
    store_bits("001 00000001 1   001 001 1   111 00001000 00000000   001 01 1"); /* 1 1 2 (2), 8 8 7 (7) */
    expect_bytes("\1\1\2\10\10\7", 6);
}

static void parameters_of_szip_are_checked(void)
{
    static const uint32_t wrong[][4] = {
        {EC, 0, 8, 4},      {EC, 3, 8, 4},    {EC, 34, 8, 4},         {EC, UINT32_MAX - 1, 8, 4},
        {EC, 2, 0, 4},      {EC, 2, 25, 4},   {EC, 2, 65, 4},         {EC, 2, UINT32_MAX, 4},
        {EC, 2, 8, 0},      {EC, 2, 8, 4097}, {EC, 2, 8, UINT32_MAX}, {EC | 16, 2, 8, 4},
        {EC & ~8u, 2, 8, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin_szip(wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], 4);
        store_bits("111 00000001 00000010 111 00000001 00000010");
        CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
        CU_ASSERT_PTR_NOT_NULL(strstr(chunk.err.what, "parameters"));
    }
    begin_szip(EC | 2, 2, 8, 4, 4);
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EUNSUPPORTED);
    begin_szip(EC & ~128u, 2, 8, 4, 4);
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EUNSUPPORTED);
}

static void malformed_szip_is_refused(void)
{
    begin_szip(EC, 2, 8, 4, 4);
    chunk.chunk_bytes = 3;
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(chunk.err.what, "more bytes"));
    begin_szip(EC, 2, 32, 4, 6); /* not a multiple of an element */
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
    begin_szip(EC, 2, 4, 4, 4);
    store_bits("001 1 00000000 00000000 1"); /* 16 in 4 bits */
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
    begin_szip(NN, 2, 3, 2, 2);
    store_bits(
        "000 1 000 00000000 00000000 00000000 00000000 00000000 00000000 000000 1"); /* a pair of 0 and 9 */
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
    begin_szip(EC, 2, 8, 2, 2);
    for (int i = 0; i < 12; i++)
        store_bits("00000000");
    store_bits("00010000"); /* a pair beyond the greatest */
    chunk.stored[4] = 0x10;
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
}

/* Any bits are decoded to the declared size, or refused. */
static void random_bits_of_szip_are_decoded_or_refused(void)
{
    static const uint32_t bits[] = {1, 2, 3, 8, 9, 12, 16, 17, 20, 24, 32, 64};
    unsigned ndecoded = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t block = 2 + 2 * (uint32_t)(next_random() % 16),
                 nbytes = 8 * (1 + (uint32_t)(next_random() % 64));
        begin_szip(next_random() % 2 ? EC : NN, block, bits[next_random() % 12],
                   1 + (uint32_t)(next_random() % 300), nbytes);
        for (size_t n = 4 + (size_t)(next_random() % (MAX_STORED - 4)); chunk.nstored < n; chunk.nstored++)
            chunk.stored[chunk.nstored] = (unsigned char)(next_random() % 3 ? next_random() : 0);
        if (decode(chunk.nstored) == CKPT_OK) {
            CU_ASSERT_EQUAL(chunk.ndecoded, nbytes);
            ndecoded++;
        }
    }
    CU_ASSERT(ndecoded > 1000);
}

void suite_hdf5_filter(void)
{
    UNIT(every_block_of_szip_is_decoded);
    UNIT(differences_of_szip_end_at_the_range);
    UNIT(zeros_of_szip_end_at_a_segment_or_the_scanline);
    UNIT(pixels_of_szip_have_their_width_and_order);
    UNIT(scanlines_of_szip_are_padded);
    UNIT(parameters_of_szip_are_checked);
    UNIT(malformed_szip_is_refused);
    UNIT(random_bits_of_szip_are_decoded_or_refused);
}
