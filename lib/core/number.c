/* number.c - see number.h. A double holds every dtype exactly, except 64-bit integers. */
#include "core/number.h"

#include "base/cursor.h"
#include "core/convert.h"
#include "core/dequantize.h"

/* count_numbers - returns how many numbers an element of INFO has, which is no block of ggml. */
static unsigned count_numbers(const struct dtype_info *info)
{
    return info->number == CKPT_DT_NONE ? 0 : info->klass == 'c' ? 2 : info->safetensors_dim_factor;
}

unsigned numbers_per_element(ckpt_dtype dt)
{
    const struct dtype_info *d = dtype_info(dt);
    return d->klass == 'k' ? dequantize_supports(dt) : count_numbers(d);
}

bool number_is_complex(ckpt_dtype dt) { return dtype_info(dt)->klass == 'c'; }

bool number_is_wide(ckpt_dtype dt) { return dt == CKPT_DT_I64 || dt == CKPT_DT_U64; }

static double load_f64(const unsigned char *bytes)
{
    uint64_t u = load_u64le(bytes);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static double double_of(uint32_t float_bits) { return (double)float_of_bits(float_bits); }
static double load_f32(const unsigned char *bytes) { return double_of(load_u32le(bytes)); }
static double load_bf16(const unsigned char *bytes) { return double_of((uint32_t)load_u16le(bytes) << 16); }
static double load_f16(const unsigned char *bytes) { return double_of(f32_bits_of_half(load_u16le(bytes))); }
static double decode_byte(ckpt_dtype dt, unsigned bits) { return double_of(f32_bits_of_byte(dt, bits)); }

/* decode_small - decodes COUNT numbers of at most eight bits of DT, packed without gaps, low bits first. */
static void decode_small(ckpt_dtype dt, unsigned bits, const unsigned char *in, size_t count, double *out)
{
    double table[256];
    const bool use_table = count >= 256;
    for (unsigned b = 0; use_table && b < 1u << bits; b++)
        table[b] = decode_byte(dt, b);
    for (size_t i = 0; i < count; i++) {
        size_t at = i * bits;
        unsigned b = in[at / 8] >> at % 8;
        if (at % 8 + bits > 8)
            b |= (unsigned)in[at / 8 + 1] << (8 - at % 8);
        b &= (1u << bits) - 1;
        out[i] = use_table ? table[b] : decode_byte(dt, b);
    }
}

/* decode_blocks - decodes COUNT elements in blocks of ggml, one block at a time. */
static void decode_blocks(ckpt_dtype dt, const unsigned char *in, size_t count, double *out)
{
    const struct dtype_info *d = dtype_info(dt);
    unsigned char floats[4 * DEQUANTIZE_BLOCK];
    for (size_t k = 0; dequantize_supports(dt) && k < count / d->block_elems; k++, out += d->block_elems) {
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
    const struct dtype_info *d = dtype_info(dt);
    unsigned each = count_numbers(d);
    size_t n = elems * each;
    if (d->klass == 'k') {
        decode_blocks(dt, in, elems, out);
        return;
    }
    size_t done = number_decode_fast((ckpt_dtype)d->number, in, n, out);
    in += done * dtype_info((ckpt_dtype)d->number)->block_bytes;
    out += done;
    n -= done;
    switch ((ckpt_dtype)d->number) {
    case CKPT_DT_F64: DECODE_EACH(8, load_f64(p)) break;
    case CKPT_DT_F32: DECODE_EACH(4, load_f32(p)) break;
    case CKPT_DT_F16: DECODE_EACH(2, load_f16(p)) break;
    case CKPT_DT_BF16: DECODE_EACH(2, load_bf16(p)) break;
    case CKPT_DT_I64: DECODE_EACH(8, (double)(int64_t)load_u64le(p)) break;
    case CKPT_DT_U64: DECODE_EACH(8, (double)load_u64le(p)) break;
    case CKPT_DT_I32: DECODE_EACH(4, (double)(int32_t)load_u32le(p)) break;
    case CKPT_DT_U32: DECODE_EACH(4, (double)load_u32le(p)) break;
    case CKPT_DT_I16: DECODE_EACH(2, (double)(int16_t)load_u16le(p)) break;
    case CKPT_DT_U16: DECODE_EACH(2, (double)load_u16le(p)) break;
    case CKPT_DT_I8: DECODE_EACH(1, (double)(int8_t)*p) break;
    case CKPT_DT_U8: DECODE_EACH(1, (double)*p) break;
    case CKPT_DT_BOOL: DECODE_EACH(1, *p ? 1.0 : 0.0) break;
    case CKPT_DT_NONE: break;
    default: decode_small((ckpt_dtype)d->number, 8u * d->block_bytes / (d->block_elems * each), in, n, out);
    }
}

MODULO void number_decode_low(ckpt_dtype dt, const unsigned char *in, size_t elems, double *out)
{
    bool is_signed = dt == CKPT_DT_I64;
    for (size_t i = 0; i < elems; i++) {
        uint64_t u = load_u64le(in + 8 * i), decoded;
        double high = is_signed ? (double)(int64_t)u : (double)u;
        if (is_signed) /* the largest integers are rounded to 2^63 or 2^64, beyond their type */
            decoded = high < 0x1p63 ? (uint64_t)(int64_t)high : UINT64_C(1) << 63;
        else
            decoded = high < 0x1p64 ? (uint64_t)high : 0;
        out[i] = (double)(int64_t)(u - decoded);
    }
}
