/* number.c - see number.h. A double holds every dtype exactly, except 64-bit integers. */
#include "core/number.h"

#include "base/cursor.h"
#include "core/convert.h"
#include "core/dequantize.h"

unsigned numbers_per_element(ckpt_dtype dt)
{
    switch (dt) {
    case CKPT_DT_NONE:
    case CKPT_DT_NAMED: return 0;
    case CKPT_DT_C32:
    case CKPT_DT_C64:
    case CKPT_DT_C128:
    case CKPT_DT_BC32:
    case CKPT_DT_F4: return 2;
    default: return dtype_info(dt)->klass != 'k' || dequantize_supports(dt);
    }
}

bool number_is_complex(ckpt_dtype dt)
{
    return dt == CKPT_DT_C32 || dt == CKPT_DT_C64 || dt == CKPT_DT_C128 || dt == CKPT_DT_BC32;
}

bool number_is_wide(ckpt_dtype dt) { return dt == CKPT_DT_I64 || dt == CKPT_DT_U64; }

static double load_f64(const unsigned char *p)
{
    uint64_t u = load_u64le(p);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static double double_of(uint32_t float_bits) { return (double)float_of_bits(float_bits); }
static double load_f32(const unsigned char *p) { return double_of(load_u32le(p)); }
static double load_bf16(const unsigned char *p) { return double_of((uint32_t)load_u16le(p) << 16); }
static double load_f16(const unsigned char *p) { return double_of(f32_bits_of_half(load_u16le(p))); }
static double decode_byte(ckpt_dtype dt, unsigned b) { return double_of(f32_bits_of_byte(dt, b)); }

static void decode_bytes(ckpt_dtype dt, const unsigned char *in, size_t n, double *out)
{
    double table[256];
    if (n < 256) {
        for (size_t i = 0; i < n; i++)
            out[i] = decode_byte(dt, in[i]);
        return;
    }
    for (unsigned b = 0; b < 256; b++)
        table[b] = decode_byte(dt, b);
    for (size_t i = 0; i < n; i++)
        out[i] = table[in[i]];
}

/* decode_f6 - decodes N values of six bits, four in each three bytes, low bits first. DT is the dtype of such
 * a value in a byte of its own. */
static void decode_f6(ckpt_dtype dt, const unsigned char *in, size_t n, double *out)
{
    for (size_t i = 0; i + 4 <= n; i += 4, in += 3) {
        uint32_t block = (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16;
        for (unsigned k = 0; k < 4; k++)
            out[i + k] = decode_byte(dt, block >> (6 * k) & 63u);
    }
}

/* decode_packed - decodes unsigned values, PER_BYTE in each byte, low bits first. */
static void decode_packed(unsigned per_byte, const unsigned char *in, size_t n, double *out)
{
    unsigned bits = 8 / per_byte, mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)((unsigned)in[i / per_byte] >> (bits * (unsigned)(i % per_byte)) & mask);
}

static void decode_f4(const unsigned char *in, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = decode_byte(CKPT_DT_F4_E2M1, in[i] & 15u);
        out[2 * i + 1] = decode_byte(CKPT_DT_F4_E2M1, in[i] >> 4u);
    }
}

/* decode_blocks - decodes N elements in blocks of ggml, one block at a time. */
static void decode_blocks(ckpt_dtype dt, const unsigned char *in, size_t n, double *out)
{
    const struct dtype_info *d = dtype_info(dt);
    unsigned char floats[4 * DEQUANTIZE_BLOCK];
    for (size_t k = 0; dequantize_supports(dt) && k < n / d->block_elems; k++, out += d->block_elems) {
        dequantize(dt, in + k * d->block_bytes, 1, floats);
        for (size_t i = 0; i < d->block_elems; i++)
            out[i] = load_f32(floats + 4 * i);
    }
}

#define DECODE_EACH(width, expr)                                                                             \
    for (size_t i = 0; i < n; i++) {                                                                         \
        const unsigned char *p = in + i * (width);                                                           \
        out[i] = (expr);                                                                                     \
    }

void number_decode(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out)
{
    size_t n = elems;
    switch (dt) {
    case CKPT_DT_C128: n = elems * 2; DECODE_EACH(8, load_f64(p)) break;
    case CKPT_DT_F64: DECODE_EACH(8, load_f64(p)) break;
    case CKPT_DT_C64: n = elems * 2; DECODE_EACH(4, load_f32(p)) break;
    case CKPT_DT_F32: DECODE_EACH(4, load_f32(p)) break;
    case CKPT_DT_C32: n = elems * 2; DECODE_EACH(2, load_f16(p)) break;
    case CKPT_DT_F16: DECODE_EACH(2, load_f16(p)) break;
    case CKPT_DT_BC32: n = elems * 2; DECODE_EACH(2, load_bf16(p)) break;
    case CKPT_DT_BF16: DECODE_EACH(2, load_bf16(p)) break;
    case CKPT_DT_F4: decode_f4(in, n, out); break;
    case CKPT_DT_F6_E2M3: decode_f6(CKPT_DT_F6_E2M3_BYTE, in, n, out); break;
    case CKPT_DT_F6_E3M2: decode_f6(CKPT_DT_F6_E3M2_BYTE, in, n, out); break;
    case CKPT_DT_I64: DECODE_EACH(8, (double)(int64_t)load_u64le(p)) break;
    case CKPT_DT_U64: DECODE_EACH(8, (double)load_u64le(p)) break;
    case CKPT_DT_I32:
    case CKPT_DT_QI32: DECODE_EACH(4, (double)(int32_t)load_u32le(p)) break;
    case CKPT_DT_U32: DECODE_EACH(4, (double)load_u32le(p)) break;
    case CKPT_DT_I16: DECODE_EACH(2, (double)(int16_t)load_u16le(p)) break;
    case CKPT_DT_U16:
    case CKPT_DT_BITS16: DECODE_EACH(2, (double)load_u16le(p)) break;
    case CKPT_DT_I8:
    case CKPT_DT_QI8: DECODE_EACH(1, (double)(int8_t)*p) break;
    case CKPT_DT_U8:
    case CKPT_DT_QU8:
    case CKPT_DT_BITS8:
    case CKPT_DT_BITS1X8:
    case CKPT_DT_BITS2X4:
    case CKPT_DT_BITS4X2: DECODE_EACH(1, (double)*p) break;
    case CKPT_DT_BOOL: DECODE_EACH(1, *p ? 1.0 : 0.0) break;
    case CKPT_DT_QU4X2: decode_packed(2, in, n, out); break;
    case CKPT_DT_QU2X4: decode_packed(4, in, n, out); break;
    case CKPT_DT_NONE:
    case CKPT_DT_NAMED: break;
    default: /* ggml's blocks; or floats and integers of at most eight bits, a byte for each */
        (dtype_info(dt)->klass == 'k' ? decode_blocks : decode_bytes)(dt, in, n, out);
    }
}

void number_decode_low(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out)
{
    bool is_signed = dt == CKPT_DT_I64;
    for (size_t i = 0; i < elems; i++) {
        uint64_t u = load_u64le(in + 8 * i), decoded;
        double high = is_signed ? (double)(int64_t)u : (double)u;
        if (is_signed) /* the largest integers are rounded to 2^63 or 2^64, beyond their type */
            decoded = high < 0x1p63 ? (uint64_t)(int64_t)high : UINT64_C(1) << 63;
        else
            decoded = high < 0x1p64 ? (uint64_t)high : 0;
        out[i] = (double)(int64_t)(u - decoded); /* bounded: at most 1024, modulo 2^64 */
    }
}
