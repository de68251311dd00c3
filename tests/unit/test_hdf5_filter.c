/* The filters of HDF5 that pack bits, and numbers with padding. The bits are texts here; malformed bits and
 * parameters are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/hdf5_internal.h"
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

/* ------------------------------------------------------------------------------- nbit */

/* BEGIN_NBIT - begins a chunk of nbit of N elements, decoded to NBYTES, with the parameters of a type. */
#define BEGIN_NBIT(n, nbytes, ...)                                                                           \
    begin_nbit(n, nbytes, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void begin_nbit(uint32_t n, uint64_t nbytes, const uint32_t *type, uint32_t ntype)
{
    const uint32_t head[] = {3 + ntype, 0, n};
    begin_chunk(HDF5_NBIT, head, 3, nbytes);
    memcpy(chunk.values + 3, type, ntype * sizeof *type);
    chunk.filter.nvalues = 3 + ntype;
}

static void every_type_of_nbit_is_decoded(void)
{
    BEGIN_NBIT(2, 4, 1, 2, 0, 11, 3); /* numbers */
    store_bits("10000000001 00000000010");
    expect_bytes("\x08\x20\x10\x00", 4);
    BEGIN_NBIT(2, 4, 1, 2, 1, 11, 3); /* … big-endian */
    store_bits("10000000001 00000000010");
    expect_bytes("\x20\x08\x00\x10", 4);
    BEGIN_NBIT(1, 16, 1, 16, 0, 80, 4); /* … of more than 64 bits */
    store_bits("0001 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0011");
    expect_bytes("\x30\0\0\0\0\0\0\0\0\2\1\0\0\0\0", 16);
    BEGIN_NBIT(1, 4, 2, 4, 2, 2, 1, 1, 0, 3, 0); /* an array of two arrays of two numbers of 3 bits */
    store_bits("001 010 011 100");
    expect_bytes("\1\2\3\4", 4);
    /* a record of 6 bytes: a byte at 4, then an array of two records of a number and a byte at 0 */
    BEGIN_NBIT(1, 6, 3, 6, 2, 4, 4, 1, 0, 2, 4, 3, 2, 2, 0, 1, 1, 0, 4, 0, 1, 4, 1);
    store_bits("11111111 0001 00000010 0011 00000100");
    expect_bytes("\1\2\3\4\xff\0", 6);
}

static void chunks_that_nbit_does_not_pack_are_copied(void)
{
    BEGIN_NBIT(2, 4, 1, 2, 0, 16, 0);
    chunk.values[1] = 1;
    store_bits("00000001 00000010 00000011 00000100");
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_OK);
    CU_ASSERT(chunk.ndecoded == 4 && memcmp(chunk.decoded, "\1\2\3\4", 4) == 0);
    chunk.chunk_bytes = 3;
    CU_ASSERT_EQUAL(decode(chunk.nstored), CKPT_EFORMAT);
}

/* expect_wrong - checks that the parameters of the chunk are refused, whatever is stored. */
static void expect_wrong(ckpt_status status, const char *text)
{
    memset(chunk.stored, 0x55, sizeof chunk.stored);
    CU_ASSERT_EQUAL(decode(sizeof chunk.stored), status);
    CU_ASSERT_PTR_NOT_NULL(strstr(chunk.err.what, text));
}
#define EXPECT_WRONG(...) (BEGIN_NBIT(1, 64, __VA_ARGS__), expect_wrong(CKPT_EFORMAT, "parameters"))

static void parameters_of_nbit_are_checked(void)
{
    EXPECT_WRONG(0);
    EXPECT_WRONG(5, 2, 0, 11, 3); /* no type */
    EXPECT_WRONG(1, 0, 0, 11, 3); /* of no bytes */
    EXPECT_WRONG(1, 2, 2, 11, 3); /* no byte order */
    EXPECT_WRONG(1, 2, 0, 0, 3);  /* no bits */
    EXPECT_WRONG(1, 2, 0, 14, 3); /* more than the bytes have */
    EXPECT_WRONG(1, 2, 0, UINT32_MAX, 3);
    EXPECT_WRONG(1, 2, 0, 11, UINT32_MAX);
    EXPECT_WRONG(1, 2, 0, 11);          /* ends early */
    EXPECT_WRONG(1, 2, 0, 11, 3, 1);    /* ends late */
    EXPECT_WRONG(2, 5, 1, 2, 0, 11, 3); /* an array of two and a half */
    EXPECT_WRONG(2, 0, 1, 2, 0, 11, 3); /* … of none */
    EXPECT_WRONG(2, 4, 1, 0, 0, 11, 3);
    EXPECT_WRONG(2, 4, 2, 4, 2, 4, 2, 4, 2, 4, 2, 4, 2, 4);
    EXPECT_WRONG(3, 4, 0); /* a record without members */
    EXPECT_WRONG(3, 4, UINT32_MAX, 0, 4, 1);
    EXPECT_WRONG(3, 4, 1, 3, 4, 2); /* a member outside of the record */
    EXPECT_WRONG(3, 4, 1, UINT32_MAX, 4, 2);
    EXPECT_WRONG(3, 4, 2, 0, 4, 3, 0, 4, 2); /* more bytes of members than the record has */
    EXPECT_WRONG(3, 4, 1, 0, 2, 8, 4, 4);    /* an array that is larger than the record */
    EXPECT_WRONG(3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1, 0, 3, 4, 1,
                 0, 3, 4, 1, 0, 4, 4); /* ten records in each other */
    BEGIN_NBIT(1, 64, 4, 64);
    chunk.values[0]++;
    expect_wrong(CKPT_EFORMAT, "parameters");
    BEGIN_NBIT(1, 64, 4, 65);
    expect_wrong(CKPT_EFORMAT, "more bytes");
    BEGIN_NBIT(UINT32_MAX, 64, 4, UINT32_MAX);
    expect_wrong(CKPT_EFORMAT, "more bytes");
    BEGIN_NBIT(1, 64, 3, 5, 2, 0, 2, 4, 2, 2, 4, 1, 4, 4, 1); /* a member after an array of arrays */
    expect_wrong(CKPT_EUNSUPPORTED, "members after an array");
    BEGIN_NBIT(1, 64, 3, 5, 2, 0, 2, 4, 3, 2, 1, 0, 4, 1, 4, 4, 1); /* … of records */
    expect_wrong(CKPT_EUNSUPPORTED, "members after an array");
}

/* Any parameters and bits are decoded to the size that the parameters have, or refused. */
static void random_parameters_of_nbit_are_decoded_or_refused(void)
{
    unsigned ndecoded = 0;
    for (int i = 0; i < 20000; i++) {
        BEGIN_NBIT(1 + (uint32_t)(next_random() % 5), 200, 3, 16, 3, 0, 1, 4, 0, 17, 3, 4, 2, 8, 1, 2, 1, 9,
                   2, 12, 3, 4, 2, 0, 4, 1, 1, 1, 1, 0, 5, 2);
        for (uint64_t n = next_random() % 4; n--;)
            chunk.values[3 + next_random() % (chunk.filter.nvalues - 3)] = (uint32_t)(next_random() % 20);
        for (size_t n = (size_t)(next_random() % MAX_STORED); chunk.nstored < n; chunk.nstored++)
            chunk.stored[chunk.nstored] = (unsigned char)next_random();
        if (decode(chunk.nstored) == CKPT_OK) {
            CU_ASSERT(chunk.ndecoded && chunk.ndecoded <= 200 && chunk.ndecoded % chunk.values[4] == 0);
            ndecoded++;
        }
    }
    CU_ASSERT(ndecoded > 1000);
}

/* ---------------------------------------------------------------------------- numbers */

/* get_number - returns the number of type T that the text BITS stands for, the highest bit first. */
static uint64_t get_number(struct hdf5_type t, const char *bits)
{
    chunk.nstored = 0;
    memset(chunk.stored, 0, sizeof chunk.stored);
    store_bits(bits);
    CU_ASSERT_EQUAL(chunk.nstored, t.size);
    t.big_endian = true;
    return hdf5_get_number(&t, chunk.stored);
}

static void integers_with_padding_are_extended(void)
{
    struct hdf5_type t = {.kind = HDF5_NUMBER, .dtype = CKPT_DT_U16, .size = 2, .is_converted = true};
    t.bits = (struct hdf5_bits){.offset = 3, .precision = 11};
    CU_ASSERT_EQUAL(get_number(t, "11 10000000001 111"), 1025);
    t.dtype = CKPT_DT_I16;
    t.bits.is_signed = true;
    CU_ASSERT_EQUAL((int64_t)get_number(t, "00 11111111110 000"), -2);
    CU_ASSERT_EQUAL(get_number(t, "11 00000000001 111"), 1);
    t = (struct hdf5_type){.kind = HDF5_NUMBER, .dtype = CKPT_DT_I64, .size = 8, .is_converted = true};
    t.bits = (struct hdf5_bits){.offset = 0, .precision = 63, .is_signed = true};
    CU_ASSERT_EQUAL(
        (int64_t)get_number(t, "0 11111111 11111111 11111111 11111111 11111111 11111111 11111111 1111111"),
        -1);
}

/* The float of the examples of HDF5: 6 bits of exponent, 13 of fraction, between 5 and 7 bits of padding. */
static void floats_with_other_fields_are_converted(void)
{
    struct hdf5_type t = {.size = 4};
    const struct hdf5_bits bits = {.offset = 7,
                                   .precision = 20,
                                   .sign_at = 26,
                                   .exponent_at = 20,
                                   .exponent_bits = 6,
                                   .fraction_at = 7,
                                   .fraction_bits = 13,
                                   .bias = 31};
    CU_ASSERT(hdf5_set_float(&t, &bits));
    CU_ASSERT(t.kind == HDF5_NUMBER && t.dtype == CKPT_DT_F32 && t.is_converted);
    CU_ASSERT_EQUAL(get_number(t, "11111 0 011111 0000000000000 1111111"), 0x3f800000);
    CU_ASSERT_EQUAL(get_number(t, "00000 1 100000 1000000000000 0000000"), 0xc0400000); /* -3 */
    CU_ASSERT_EQUAL(get_number(t, "00000 0 000000 0000000000000 0000000"), 0);
    CU_ASSERT_EQUAL(get_number(t, "00000 1 000000 0000000000000 0000000"), 0x80000000);       /* -0 */
    CU_ASSERT_EQUAL(get_number(t, "00000 0 000000 1000000000000 0000000"), (127 - 31) << 23); /* 2^-31 */
    CU_ASSERT_EQUAL(get_number(t, "00000 0 000000 0000000000001 0000000"), (127 - 43) << 23); /* 2^-43 */
    CU_ASSERT_EQUAL(get_number(t, "00000 0 111110 1111111111111 0000000"), 0x4f7ffc00); /* the greatest */
    CU_ASSERT_EQUAL(get_number(t, "00000 1 111111 0000000000000 0000000"), 0xff800000); /* -inf */
    CU_ASSERT_EQUAL(get_number(t, "00000 0 111111 1000000000000 0000000"), 0x7fc00000); /* NaN */
}

/* HDF5 refuses such a type, too. */
static void floats_whose_fields_overlap_are_refused(void)
{
    const struct hdf5_bits apart = {.precision = 20,
                                    .sign_at = 19,
                                    .exponent_at = 13,
                                    .exponent_bits = 6,
                                    .fraction_bits = 13,
                                    .bias = 31};
    struct hdf5_bits sign_in_exponent = apart, sign_in_fraction = apart, exponent_in_fraction = apart;
    struct hdf5_type t = {.size = 4};
    sign_in_exponent.sign_at = 18;
    sign_in_fraction.sign_at = 0;
    exponent_in_fraction.exponent_at = 12;
    CU_ASSERT(hdf5_set_float(&t, &apart));
    CU_ASSERT_FALSE(hdf5_set_float(&t, &sign_in_exponent));
    CU_ASSERT_FALSE(hdf5_set_float(&t, &sign_in_fraction));
    CU_ASSERT_FALSE(hdf5_set_float(&t, &exponent_in_fraction));
}

static void floats_have_the_smallest_dtype_with_all_values(void)
{
    static const struct {
        uint32_t size, exponent_bits, fraction_bits, bias;
        ckpt_dtype dtype; /* 0: there is none */
        bool is_converted;
    } cases[] = {{2, 5, 10, 15, CKPT_DT_F16, false},
                 {4, 8, 23, 127, CKPT_DT_F32, false},
                 {8, 11, 52, 1023, CKPT_DT_F64, false},
                 {2, 8, 7, 127, CKPT_DT_F32, true},
                 {2, 5, 9, 15, CKPT_DT_F16, true},
                 {2, 5, 10, 14, CKPT_DT_F32, true},
                 {2, 5, 10, 16, CKPT_DT_F32, true},
                 {4, 5, 10, 15, CKPT_DT_F32, true},
                 {4, 9, 22, 255, CKPT_DT_F64, true},
                 {8, 5, 10, 15, CKPT_DT_F64, true},
                 {8, 12, 51, 2047, 0, false},
                 {8, 11, 52, 1022, 0, false},
                 {1, 4, 3, 7, 0, false},
                 {4, 8, 24, 127, 0, false},
                 {4, 0, 23, 127, 0, false},
                 {4, 8, 0, 127, 0, false},
                 {4, 8, 23, UINT32_MAX, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hdf5_type t = {.size = cases[i].size};
        uint32_t e = cases[i].exponent_bits, m = cases[i].fraction_bits;
        const struct hdf5_bits bits = {.precision = 1 + e + m,
                                       .sign_at = e + m,
                                       .exponent_at = m,
                                       .exponent_bits = e,
                                       .fraction_bits = m,
                                       .bias = cases[i].bias};
        CU_ASSERT_EQUAL(hdf5_set_float(&t, &bits), cases[i].dtype != 0);
        CU_ASSERT(t.dtype == cases[i].dtype && t.is_converted == cases[i].is_converted);
    }
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
    UNIT(every_type_of_nbit_is_decoded);
    UNIT(chunks_that_nbit_does_not_pack_are_copied);
    UNIT(parameters_of_nbit_are_checked);
    UNIT(random_parameters_of_nbit_are_decoded_or_refused);
    UNIT(integers_with_padding_are_extended);
    UNIT(floats_with_other_fields_are_converted);
    UNIT(floats_whose_fields_overlap_are_refused);
    UNIT(floats_have_the_smallest_dtype_with_all_values);
}
