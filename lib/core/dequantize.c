/*
 * dequantize.c - decodes ggml's blocks (ggml-quants.c, dequantize_row_*; gguf-py quants.py). Numbers are
 * rounded to float32 after each operation, in ggml's order, so that the results equal ggml's to the bit.
 *
 * The comment before each function has the layout of a block: its fields in order, with their bytes in
 * brackets. d (the scale) and m (the minimum) are float16. In the code, b is the block, q its packed numbers
 * and y the output. The K and IQ types except iq4_nl have 256 elements, in sub-blocks of 16 or 32 with a
 * scale each. The entries of IQ1, IQ2 and IQ3 are indices of points of 4 or 8 elements in dequantize_grids.c.
 *
 * All of it is compiled twice, once for AVX2. There is no fused multiplication, so both give the same bits.
 */
#include "core/dequantize.h"

#include "base/cursor.h"
#include "base/store.h"
#include "core/convert.h"
#include "core/simd.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

INLINE float half_at(const unsigned char *bytes)
{
    return float_of_bits(f32_bits_of_half(load_u16le(bytes)));
}
INLINE float signed_byte(unsigned char bits) { return (float)(int8_t)bits; }
INLINE unsigned bits_of(unsigned number, int shift, unsigned mask) { return number >> shift & mask; }

/* ------------------------------------------------------------------- 32 elements */

/* d, (m,) (fifth bits [4],) nibbles [16]: elements 0 to 15 are the low ones. BIAS is 0 if there is m. */
INLINE void q4_or_q5(const unsigned char *bytes, bool has_m, bool has_fifth, int bias, float *out)
{
    float d = half_at(bytes), m = has_m ? half_at(bytes + 2) : 0;
    const unsigned char *q = bytes + (has_m ? 4 : 2);
    uint32_t fifth = has_fifth ? load_u32le(q) : 0;
    q += has_fifth ? 4 : 0;
    for (int j = 0; j < 16; j++) {
        int low = (q[j] & 15) | (int)(fifth >> j & 1) << 4;
        int high = q[j] >> 4 | (int)(fifth >> (j + 16) & 1) << 4;
        float a = d * (float)(low - bias), c = d * (float)(high - bias);
        out[j] = has_m ? a + m : a;
        out[j + 16] = has_m ? c + m : c;
    }
}

INLINE void q8_0(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int j = 0; j < 32; j++)
        out[j] = signed_byte(bytes[2 + j]) * d;
}

/* look_up_nibbles - writes NUMBER * VALUES[nibble] for the low nibbles of NBYTES bytes at NUMBERS, then for
 * the high ones. */
INLINE void look_up_nibbles(float number, const int8_t values[16], const unsigned char *numbers, int nbytes,
                            float *out)
{
    for (int j = 0; j < nbytes; j++) {
        out[j] = number * (float)values[numbers[j] & 15];
        out[j + nbytes] = number * (float)values[numbers[j] >> 4];
    }
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
/* the values of float4_e2m1fn times two, because ggml halves their scales */
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* scale (float8_e8m0fnu), nibbles [16] */
INLINE void mxfp4(const unsigned char *bytes, float *out)
{
    uint32_t e = bytes[0];
    float half_scale = float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    look_up_nibbles(half_scale, fp4_values, bytes + 1, 16, out);
}

/* scales (float8_e4m3fn without a sign) [4], nibbles [8] for each */
INLINE void nvfp4(const unsigned char *bytes, float *out)
{
    for (int k = 0; k < 4; k++) {
        uint32_t exponent = bytes[k] >> 3 & 15u, mantissa = bytes[k] & 7u;
        float scale = exponent ? float_of_bits((exponent + 120) << 23 | mantissa << 20)
                               : (float)mantissa * 0x1p-9f;
        bool zero = bytes[k] == 0 || bytes[k] == 0x7f;
        look_up_nibbles(zero ? 0 : scale * 0.5f, fp4_values, bytes + 4 + 8 * k, 8, out + 16 * k);
    }
}

/* ------------------------------------------------------------------------ K types */

/* scales and minima (4 bits each) [16], pairs of bits [64], d, m */
INLINE void q2_k(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes + 80), m = half_at(bytes + 82);
    for (int i = 0; i < 16; i++) { /* sub-blocks; 2k and 2k + 1 have the same 32 bytes and shift */
        const unsigned char *q = bytes + 16 + i / 8 * 32 + i % 2 * 16;
        float scale = d * (float)(bytes[i] & 15), minimum = m * (float)(bytes[i] >> 4);
        for (int l = 0; l < 16; l++)
            out[16 * i + l] = scale * (float)(q[l] >> (i / 2 % 4 * 2) & 3) - minimum;
    }
}

/* third bits, inverted [32], pairs of bits [64], 6-bit scales [12], d */
INLINE void q3_k(const unsigned char *bytes, float *out)
{
    const unsigned char *s = bytes + 96;
    float d = half_at(bytes + 108);
    for (int i = 0; i < 16; i++) {
        int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + i % 4] >> (i / 4 * 2) & 3;
        const unsigned char *q = bytes + 32 + i / 8 * 32 + i % 2 * 16, *mask = bytes + i % 2 * 16;
        float scale = d * (float)((low | high << 4) - 32);
        for (int l = 0; l < 16; l++)
            out[16 * i + l] = scale *
                              (float)((q[l] >> (i / 2 % 4 * 2) & 3) - (mask[l] >> (i / 2) & 1 ? 0 : 4));
    }
}

/* read_k4_scale - extracts scale and minimum INDEX, 6 bits each, from the twelve bytes at NUMBERS. */
INLINE void read_k4_scale(const unsigned char *numbers, int index, float *scale, float *minimum)
{
    bool first = index < 4;
    *scale = (float)(first ? numbers[index] & 63 : (numbers[index + 4] & 15) | numbers[index - 4] >> 6 << 4);
    *minimum = (float)(first ? numbers[index + 4] & 63 : numbers[index + 4] >> 4 | numbers[index] >> 6 << 4);
}

/* d, m, scales and minima [12], (q5_K: fifth bits [32],) nibbles [128]: 32 low ones, then the high ones of
 * the same bytes */
INLINE void q4_or_q5_k(const unsigned char *bytes, bool has_fifth, float *out)
{
    float d = half_at(bytes), m = half_at(bytes + 2);
    const unsigned char *q = bytes + (has_fifth ? 48 : 16), *fifth = bytes + 16;
    for (int i = 0; i < 4; i++, q += 32, out += 64) {
        float scale[2], minimum[2];
        for (int k = 0; k < 2; k++) {
            read_k4_scale(bytes + 4, 2 * i + k, &scale[k], &minimum[k]);
            scale[k] = d * scale[k];
            minimum[k] = m * minimum[k];
        }
        for (int l = 0; l < 32; l++) {
            int low = q[l] & 15, high = q[l] >> 4;
            if (has_fifth) {
                low |= (fifth[l] >> (2 * i) & 1) << 4;
                high |= (fifth[l] >> (2 * i + 1) & 1) << 4;
            }
            out[l] = scale[0] * (float)low - minimum[0];
            out[l + 32] = scale[1] * (float)high - minimum[1];
        }
    }
}

/* nibbles [128], pairs of higher bits [64], scales (int8) [16], d */
INLINE void q6_k(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes + 208);
    for (int i = 0; i < 16; i++) { /* sub-blocks of 16 */
        int half = i / 8, run = i / 2 % 4, at = i % 2 * 16;
        const unsigned char *low = bytes + half * 64 + run % 2 * 32 + at,
                            *high = bytes + 128 + half * 32 + at;
        float scale = d * signed_byte(bytes[192 + i]);
        for (int l = 0; l < 16; l++) {
            int q = (low[l] >> (run / 2 * 4) & 15) | (high[l] >> (run * 2) & 3) << 4;
            out[16 * i + l] = scale * (float)(q - 32);
        }
    }
}

/* ---------------------------------------------------------------------- IQ4, TQ */

/* d, high two bits of each of the eight scales [2], low four bits of each [4], nibbles [128] */
INLINE void iq4_xs(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    unsigned high = load_u16le(bytes + 2);
    for (int i = 0; i < 8; i++) {
        int scale = (bytes[4 + i / 2] >> (i % 2 * 4) & 15) | (int)(high >> (2 * i) & 3) << 4;
        look_up_nibbles(d * (float)(scale - 32), iq4_values, bytes + 8 + 16 * i, 16, out + 32 * i);
    }
}

/* read_trits - extracts digit INDEX of each of the NBYTES bytes at NUMBERS. Each byte is a fraction in base
 * 3. */
INLINE float *read_trits(float number, const unsigned char *numbers, int nbytes, int index, float *out)
{
    static const unsigned char powers[5] = {1, 3, 9, 27, 81};
    for (int l = 0; l < nbytes; l++) {
        unsigned fraction = (unsigned char)(numbers[l] * powers[index]);
        out[l] = number * (float)((int)(fraction * 3 >> 8) - 1);
    }
    return out + nbytes;
}

/* five elements in a byte [48], four in a byte [4], d */
INLINE void tq1_0(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes + 52);
    for (int k = 0; k < 5; k++)
        out = read_trits(d, bytes, 32, k, out);
    for (int k = 0; k < 5; k++)
        out = read_trits(d, bytes + 32, 16, k, out);
    for (int k = 0; k < 4; k++)
        out = read_trits(d, bytes + 48, 4, k, out);
}

/* pairs of bits [64], d */
INLINE void tq2_0(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes + 64);
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < 32; l++)
            out[32 * i + l] = d * (float)((bytes[i / 4 * 32 + l] >> (i % 4 * 2) & 3) - 1);
}

/* ------------------------------------------------------------------------- grids */

/* put_signed_numbers - writes NUMBER times the COUNT numbers of VALUES that ENTRY selects by digits of BITS
 * bits: number I is negative if bit I of SIGNS is set. */
INLINE void put_signed_numbers(float number, unsigned entry, unsigned bits, const unsigned char *values,
                               int count, unsigned signs, float *out)
{
    for (int i = 0; i < count; i++) {
        unsigned digit = entry >> (bits * (unsigned)i) & ((1u << bits) - 1);
        out[i] = number * (float)values[digit] * (signs >> i & 1 ? -1.0f : 1.0f);
    }
}

/* complete_signs - returns the seven bits of signs and an eighth that makes the number of set bits even. */
INLINE unsigned complete_signs(unsigned seven)
{
    unsigned parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

static const unsigned char grid2_values[4] = {8, 25, 43, 0};
static const unsigned char grid3_xxs_values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const unsigned char grid3_s_values[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* d, then for each 32 elements: entries [4], signs and scale (4 * 7 + 4 bits) [4] */
INLINE void iq2_xxs(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 8; i++) {
        const unsigned char *q = bytes + 2 + 8 * i;
        uint32_t signs_scale = load_u32le(q + 4);
        float scale = d * (0.5f + (float)(signs_scale >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++, out += 8)
            put_signed_numbers(scale, grid_iq2_xxs[q[k]], 2, grid2_values, 8,
                               complete_signs(signs_scale >> (7 * k) & 127), out);
    }
}

/* d, entries (9 bits) with their signs (7 bits) [64], scales (4 bits for 16 elements) [8] */
INLINE void iq2_xs(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 32; i++, out += 8) {
        unsigned q = load_u16le(bytes + 2 + 2 * i),
                 scale_bits = bits_of(bytes[66 + i / 4], i / 2 % 2 * 4, 15);
        float scale = d * (0.5f + (float)scale_bits) * 0.25f;
        put_signed_numbers(scale, grid_iq2_xs[q & 511], 2, grid2_values, 8, complete_signs(q >> 9), out);
    }
}

/* d, entries: low 8 bits [32], signs [32], entries: high 2 bits [8], scales (4 bits for 16 elements) [8] */
INLINE void iq2_s(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 32; i++, out += 8) {
        unsigned q = bytes[2 + i] | bits_of(bytes[66 + i / 4], i % 4 * 2, 3) << 8;
        unsigned scale_bits = bits_of(bytes[74 + i / 4], i / 2 % 2 * 4, 15);
        put_signed_numbers(d * (0.5f + (float)scale_bits) * 0.25f, grid_iq2_s[q], 2, grid2_values, 8,
                           bytes[34 + i], out);
    }
}

/* d, entries [64], signs and scale (4 * 7 + 4 bits for each 32 elements) [32] */
INLINE void iq3_xxs(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 64; i++, out += 4) {
        uint32_t signs_scale = load_u32le(bytes + 66 + i / 8 * 4);
        unsigned signs = complete_signs(signs_scale >> (i / 2 % 4 * 7) & 127) >> (i % 2 * 4);
        float scale = d * (0.5f + (float)(signs_scale >> 28)) * 0.5f;
        put_signed_numbers(scale, grid_iq3_xxs[bytes[2 + i]], 3, grid3_xxs_values, 4, signs, out);
    }
}

/* d, entries: low 8 bits [64], entries: ninth bits [8], signs [32], scales (4 bits for 32 elements) [4] */
INLINE void iq3_s(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 64; i++, out += 4) {
        unsigned q = bytes[2 + i] | bits_of(bytes[66 + i / 8], i % 8, 1) << 8;
        unsigned scale_bits = bits_of(bytes[106 + i / 16], i / 8 % 2 * 4, 15),
                 signs = bits_of(bytes[74 + i / 2], i % 2 * 4, 15);
        put_signed_numbers(d * (float)(1 + 2 * scale_bits), grid_iq3_s[q], 3, grid3_s_values, 4, signs, out);
    }
}

/* put_ternary - writes NUMBER * (digit - 1 + delta) for the eight digits of ENTRY; delta is 1/8, or -1/8 if
 * MINUS. */
INLINE void put_ternary(float number, unsigned entry, bool minus, float *out)
{
    for (unsigned i = 0; i < 8; i++)
        out[i] = number * ((float)((int)(entry >> (2 * i) & 3) - 1) + (minus ? -0.125f : 0.125f));
}

/* d, low 8 bits of the entries [32], then 16 bits for each 32 elements [16]: the high 3 bits of their four
 * entries, scale (3 bits), sign of delta */
INLINE void iq1_s(const unsigned char *bytes, float *out)
{
    float d = half_at(bytes);
    for (int i = 0; i < 32; i++, out += 8) {
        unsigned high = load_u16le(bytes + 34 + i / 4 * 2), q = bytes[2 + i] | (high >> (i % 4 * 3) & 7) << 8;
        put_ternary(d * (float)(2 * (high >> 12 & 7) + 1), grid_iq1[q], high >> 15, out);
    }
}

/* low 8 bits of the entries [32], high 3 bits of each with the sign of its delta [16], four times 16 bits
 * [8]: four scales (3 bits for each 16 elements) and 4 bits of d */
INLINE void iq1_m(const unsigned char *bytes, float *out)
{
    unsigned bits = 0;
    for (int k = 0; k < 4; k++)
        bits |= bits_of(load_u16le(bytes + 48 + 2 * k), 12, 15) << (4 * k);
    float d = float_of_bits(f32_bits_of_half(bits));
    for (int i = 0; i < 32; i++, out += 8) {
        unsigned high = bits_of(bytes[32 + i / 2], i % 2 * 4, 15), q = bytes[i] | (high & 7) << 8;
        unsigned scale = bits_of(load_u16le(bytes + 48 + i / 8 * 2), i / 2 % 4 * 3, 7);
        put_ternary(d * (float)(2 * scale + 1), grid_iq1[q], high >> 3, out);
    }
}

/* ------------------------------------------------------------------------ blocks */

INLINE bool dequantize_block(ckpt_dtype dt, const unsigned char *bytes, float *out)
{
    switch (dt) {
    case CKPT_DT_Q4_0: q4_or_q5(bytes, false, false, 8, out); return true;
    case CKPT_DT_Q4_1: q4_or_q5(bytes, true, false, 0, out); return true;
    case CKPT_DT_Q5_0: q4_or_q5(bytes, false, true, 16, out); return true;
    case CKPT_DT_Q5_1: q4_or_q5(bytes, true, true, 0, out); return true;
    case CKPT_DT_Q8_0: q8_0(bytes, out); return true;
    case CKPT_DT_Q2_K: q2_k(bytes, out); return true;
    case CKPT_DT_Q3_K: q3_k(bytes, out); return true;
    case CKPT_DT_Q4_K: q4_or_q5_k(bytes, false, out); return true;
    case CKPT_DT_Q5_K: q4_or_q5_k(bytes, true, out); return true;
    case CKPT_DT_Q6_K: q6_k(bytes, out); return true;
    case CKPT_DT_IQ2_XXS: iq2_xxs(bytes, out); return true;
    case CKPT_DT_IQ2_XS: iq2_xs(bytes, out); return true;
    case CKPT_DT_IQ2_S: iq2_s(bytes, out); return true;
    case CKPT_DT_IQ3_XXS: iq3_xxs(bytes, out); return true;
    case CKPT_DT_IQ3_S: iq3_s(bytes, out); return true;
    case CKPT_DT_IQ1_S: iq1_s(bytes, out); return true;
    case CKPT_DT_IQ1_M: iq1_m(bytes, out); return true;
    case CKPT_DT_IQ4_NL: look_up_nibbles(half_at(bytes), iq4_values, bytes + 2, 16, out); return true;
    case CKPT_DT_IQ4_XS: iq4_xs(bytes, out); return true;
    case CKPT_DT_TQ1_0: tq1_0(bytes, out); return true;
    case CKPT_DT_TQ2_0: tq2_0(bytes, out); return true;
    case CKPT_DT_MXFP4: mxfp4(bytes, out); return true;
    case CKPT_DT_NVFP4: nvfp4(bytes, out); return true;
    default: return false;
    }
}

INLINE void dequantize_blocks(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out)
{
    const struct dtype_info *d = dtype_info(dt);
    float y[DEQUANTIZE_BLOCK];
    for (; count; count--, in += d->block_bytes) {
        if (!dequantize_block(dt, in, y))
            return;
        for (size_t i = 0; i < d->block_elems; i++, out += 4) {
            uint32_t bits;
            memcpy(&bits, &y[i], sizeof bits);
            store_u32le(out, bits);
        }
    }
}

void dequantize_scalar(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out)
{
    dequantize_blocks(dt, in, count, out);
}

#if defined(__x86_64__)
AVX static void dequantize_avx(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out)
{
    dequantize_blocks(dt, in, count, out);
}

void dequantize(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out)
{
    (simd_has_avx() ? dequantize_avx : dequantize_scalar)(dt, in, count, out);
}
#else
void dequantize(ckpt_dtype dt, const unsigned char *in, size_t count, unsigned char *out)
{
    dequantize_scalar(dt, in, count, out);
}
#endif

bool dequantize_supports(ckpt_dtype dt)
{
    static const unsigned char zeros[210]; /* the largest block that is supported has 210 bytes */
    float y[DEQUANTIZE_BLOCK];
    return dtype_info(dt)->klass == 'k' && dequantize_block(dt, zeros, y);
}
