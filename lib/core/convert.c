/*
 * convert.c - converts elements as Tensor.to of torch 2.15 does.
 *
 * Every conversion passes through float32, as in torch (c10/util/Half.h, BFloat16.h, Float8_*.h): a
 * float64 that becomes 16 or 8 bits is rounded twice. Only integer to float64 is direct.
 *
 * With rounds_once, a double becomes the float next to it with an odd mantissa first ("round to odd"; Boldo
 * and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd",
 * 2008). It is on the same side as the double of every number of TO, and of the middle between two, because
 * these have at least two bits less, and so it is rounded to the same number.
 *
 * float8_e4m3fn has no Inf: values above 448 become 448 (older torch made them NaN). The two fnuz types
 * have neither Inf nor a negative zero: Inf and values above the largest become NaN, and -0.0 becomes 0.
 *
 * q8_0 is made as gguf-py and llama.cpp make it (ggml-quants.c, quantize_row_q8_0_ref), to the bit: a block
 * has 32 numbers; its scale is the largest magnitude divided by 127. The numbers are divided by the scale as
 * a float32; the block has it rounded to float16.
 *
 * A NaN stays a quiet NaN, with its sign and the payload bits that fit. torch keeps less of the payload,
 * and not the same on every CPU.
 */
#include "core/convert.h"

#include <math.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/store.h"
#include "core/dequantize.h"
#include "core/elements.h"

#define BLOCK_FLOATS 2048u /* converted at a time: 8 KiB, and whole blocks of ggml */

#define Q8_0_ELEMS 32u
#define Q8_0_BYTES 34u

#define INF32 0x7f800000u
#define NAN32 0x7fc00000u
#define ABS32 0x7fffffffu

static uint32_t as_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* ------------------------------------------------------------ one element */

/* half_from_float - rounds float32 bits to float16. A subnormal result is rounded by adding a number so
 * large that the last bit of the sum is the last bit of the result. */
static uint32_t half_from_float(uint32_t number)
{
    uint32_t sign = number >> 16 & 0x8000u, magnitude = number & ABS32;
    if (magnitude > INF32)
        return sign | 0x7e00u | (magnitude >> 13 & 0x3ffu);
    if (magnitude >= 0x477ff000u) /* 65520, which rounds above the largest float16 */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) /* 2^-14, the smallest normal float16 */
        return sign | (as_bits(float_of_bits(magnitude) + 0.5f) - as_bits(0.5f));
    uint32_t rebiased = magnitude - (112u << 23); /* 112: the difference of the biases, 127 and 15 */
    return sign | ((rebiased + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

static uint32_t bfloat16_from_float(uint32_t number)
{
    if ((number & ABS32) > INF32)
        return number >> 16 | 0x40u;
    /* This cannot wrap: the largest bits are those of -Inf, whose low bits are 0. */
    return (number + 0x7fffu + (number >> 16 & 1u)) >> 16;
}

MODULO static uint32_t f8_from_float(const struct f8_format *to, uint32_t number)
{
    uint32_t sign = number >> 24 & 0x80u, magnitude = number & ABS32, rounded;
    if (magnitude > INF32)
        return (sign & to->sign_mask) | to->nan;
    if (magnitude >= to->overflow_start)
        return (sign & to->sign_mask) | to->overflow_to;
    uint32_t odd = magnitude >> to->shift & 1u, below_half = (1u << (to->shift - 1)) - 1u;
    if (magnitude < to->min_normal)
        rounded = as_bits(float_of_bits(magnitude) + float_of_bits(to->magic)) - to->magic;
    else
        rounded = (magnitude + to->rebias + below_half + odd) >> to->shift;
    return rounded == 0 && to->no_minus_zero ? 0 : sign | rounded;
}

uint32_t f32_bits_of_half(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude > 0x7c00u)
        return sign | 0x7fc00000u | (magnitude & 0x3ffu) << 13;
    if (magnitude == 0x7c00u)
        return sign | INF32;
    if (magnitude >= 0x0400u)
        return sign | ((magnitude << 13) + 0x38000000u);
    return sign | as_bits((float)magnitude * 0x1p-24f);
}

static uint32_t float_from_double(uint64_t number)
{
    double v;
    if ((number & ~(1ull << 63)) > 0x7ff0000000000000ull)
        return (uint32_t)(number >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(number >> 29 & 0x3fffffu);
    memcpy(&v, &number, sizeof v);
    return as_bits((float)v);
}

/* odd_float_from_double - returns the bits of NUMBER as a float or, if it is none, of the neighbour that ends
 * in 1: bits are in the order of magnitudes. */
static uint32_t odd_float_from_double(uint64_t number)
{
    uint32_t nearest = float_from_double(number);
    double exact, rounded = (double)float_of_bits(nearest);
    memcpy(&exact, &number, sizeof exact);
    if (isnan(exact) || rounded == exact)
        return nearest;
    return (fabs(rounded) > fabs(exact) ? nearest - 1 : nearest) | 1;
}

static uint64_t double_from_float(uint32_t number)
{
    double v = (double)float_of_bits(number);
    uint64_t d;
    if ((number & ABS32) > INF32)
        return (uint64_t)(number & 0x80000000u) << 32 | 0x7ff8000000000000ull |
               (uint64_t)(number & 0x3fffffu) << 29;
    memcpy(&d, &v, sizeof d);
    return d;
}

/* ---------------------------------------------------------------- kernels */

static void f32_to_f16(const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        store_u16le(out + 2 * i, (uint16_t)half_from_float(load_u32le(in + 4 * i)));
}

static uint32_t f32_to_bf16(const unsigned char *in, size_t count, unsigned char *out)
{
    uint32_t largest_bits = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t f = load_u32le(in + 4 * i);
        largest_bits = (f & ABS32) > largest_bits ? f & ABS32 : largest_bits;
        store_u16le(out + 2 * i, (uint16_t)bfloat16_from_float(f));
    }
    return largest_bits;
}

static void f32_to_f8(const struct f8_format *to, const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (unsigned char)f8_from_float(to, load_u32le(in + 4 * i));
}

static void f16_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        store_u32le(out + 4 * i, f32_bits_of_half(load_u16le(in + 2 * i)));
}

static void bf16_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        store_u32le(out + 4 * i, (uint32_t)load_u16le(in + 2 * i) << 16);
}

static void f64_to_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        store_u32le(out + 4 * i, float_from_double(load_u64le(in + 8 * i)));
}

static void f64_to_odd_f32(const unsigned char *in, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        store_u32le(out + 4 * i, odd_float_from_double(load_u64le(in + 8 * i)));
}

static void unify_nan(unsigned char *doubles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((load_u64le(doubles + 8 * i) & ~(1ull << 63)) > 0x7ff0000000000000ull)
            store_u64le(doubles + 8 * i, 0x7ff8000000000000ull);
}

static uint64_t count_in_range(const unsigned char *in, size_t count, uint32_t low, uint32_t high)
{
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t a = load_u32le(in + 4 * i) & ABS32;
        found += a >= low && a < high;
    }
    return found;
}

const struct convert_kernels convert_scalar = {f32_to_f16,     f32_to_bf16, f32_to_f8,
                                               f16_to_f32,     bf16_to_f32, f64_to_f32,
                                               f64_to_odd_f32, unify_nan,   count_in_range};

/* f32_to_q8_0 - converts COUNT floats, whole blocks. If a scale is NaN or infinite, or its inverse is, the
 * numbers of the block become 0. Returns how many floats are in finite blocks whose float16 scale is Inf. */
static uint64_t f32_to_q8_0(const unsigned char *in, size_t count, unsigned char *out)
{
    uint64_t overflowed = 0;
    for (; count; count -= Q8_0_ELEMS, in += 4 * Q8_0_ELEMS, out += Q8_0_BYTES) {
        uint32_t largest_bits = 0; /* without sign, bits have the order of floats, NaN the last */
        for (size_t i = 0; i < Q8_0_ELEMS; i++) {
            uint32_t a = load_u32le(in + 4 * i) & ABS32;
            largest_bits = a > largest_bits ? a : largest_bits;
        }
        float d = float_of_bits(largest_bits) / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
        uint32_t half = largest_bits > INF32 ? 0x7e00u : half_from_float(as_bits(d));
        overflowed += largest_bits < INF32 && half == 0x7c00u ? Q8_0_ELEMS : 0;
        store_u16le(out, (uint16_t)half);
        for (size_t i = 0; i < Q8_0_ELEMS; i++) {
            float v = float_of_bits(load_u32le(in + 4 * i)) * inverse;
            out[2 + i] = fabsf(v) < 128.0f ? (unsigned char)(int)roundf(v) : 0;
        }
    }
    return overflowed;
}

/* ------------------------------------------------------------- conversion */

/* shift, min_normal, magic, rebias, overflow_start; overflow_to, nan, sign_mask, no_minus_zero */
static const struct f8_format e4m3fn = {20,   0x3c800000, 0x46800000, 0xc4000000, 0x43e80001,
                                        0x7e, 0x7f,       0x80,       false};
static const struct f8_format e5m2 = {21,   0x38800000, 0x43000000, 0xc8000000, 0x47700000,
                                      0x7c, 0x7f,       0x80,       false};
static const struct f8_format e4m3fnuz = {20,   0x3c000000, 0x46000000, 0xc4800000, 0x43780000,
                                          0x80, 0x80,       0,          true};
static const struct f8_format e5m2fnuz = {21,   0x38000000, 0x42800000, 0xc8800000, 0x47700000,
                                          0x80, 0x80,       0,          true};

static const struct f8_format *f8_format_of(ckpt_dtype dt)
{
    return dt == CKPT_DT_F8_E4M3       ? &e4m3fn
           : dt == CKPT_DT_F8_E5M2     ? &e5m2
           : dt == CKPT_DT_F8_E4M3FNUZ ? &e4m3fnuz
           : dt == CKPT_DT_F8_E5M2FNUZ ? &e5m2fnuz
                                       : NULL;
}

const char *convert_overflow_name(ckpt_dtype to)
{
    const struct f8_format *n = f8_format_of(to);
    return !n || n->overflow_to == 0x7c ? "inf" : n->overflow_to == 0x80 ? "nan" : "448";
}

uint32_t f32_bits_of_byte(ckpt_dtype from, uint32_t bits)
{
    const struct dtype_info *d = dtype_info(from);
    const uint32_t man = d->value_bits, top = 1u << man, max_exponent = (1u << d->exponent_bits) - 1u;
    if (from == CKPT_DT_F8_E5M2)
        return f32_bits_of_half(bits << 8);
    if (from == CKPT_DT_F8_E8M0) /* it has neither a sign nor 0 */
        return bits == 0xffu ? NAN32 : bits ? bits << 23 : 0x00400000u;
    if (d->klass == 'b')
        return bits ? 0x3f800000u : 0;
    if (!d->exponent_bits) { /* an integer; in two's complement, the highest bit is negative */
        uint32_t unused_bits = d->is_small ? 8u - man : 0, value = bits << unused_bits & 0xffu;
        return as_bits((float)((d->klass == 'i' ? (int8_t)value : (int)value) / (1 << unused_bits)));
    }
    uint32_t e = bits >> man & max_exponent, m = bits & (top - 1u);
    uint32_t sign = (bits >> (d->exponent_bits + man) & 1u) << 31;
    if (d->nan == NAN_END && e == max_exponent && m == top - 1u)
        return sign | 0x7ff00000u;
    if (d->nan == NAN_IEEE && e == max_exponent)
        return sign | (m ? NAN32 : INF32);
    if (d->nan == NAN_MINUS_ZERO && bits == 0x80u)
        return NAN32;
    return as_bits(ldexpf((float)(e ? m | top : m), (int)(e ? e : 1u) - d->bias - (int)man)) | sign;
}

/* is_torch_float - returns true if DT is a floating-point dtype to which Tensor.to can convert. */
static bool is_torch_float(ckpt_dtype dt)
{
    return dt == CKPT_DT_F64 || dt == CKPT_DT_F32 || dt == CKPT_DT_F16 || dt == CKPT_DT_BF16 ||
           f8_format_of(dt);
}

bool conversion_init(struct conversion *job, ckpt_dtype from, ckpt_dtype to)
{
    return is_torch_float(to) && conversion_init_float_or_q8_0(job, from, to);
}

bool conversion_init_once(struct conversion *job, ckpt_dtype to)
{
    if (!conversion_init(job, CKPT_DT_F64, to))
        return false;
    job->rounds_once = true;
    return true;
}

bool conversion_init_float_or_q8_0(struct conversion *job, ckpt_dtype from, ckpt_dtype to)
{
    const struct dtype_info *a = dtype_info(from), *b = dtype_info(to);
    const struct f8_format *f8_format = f8_format_of(to);
    bool is_int = a->klass == 'i' || a->klass == 'u' || a->klass == 'b';
    bool is_small_float = a->klass == 'f' && a->block_bytes == 1;
    if (!(is_torch_float(to) || to == CKPT_DT_Q8_0) ||
        !(is_torch_float(from) || is_int || is_small_float || dequantize_supports(from)))
        return false;
    *job = (struct conversion){.from = from,
                               .to = to,
                               .in_elems = a->block_elems,
                               .in_width = a->block_bytes,
                               .out_width = (uint8_t)b->block_bytes};
    /* The larger one is a multiple of the other: blocks have 1 element or, in ggml, multiples of 32. */
    job->unit.elems = a->block_elems > b->block_elems ? a->block_elems : b->block_elems;
    job->unit.in_bytes = (uint16_t)(job->unit.elems / a->block_elems * a->block_bytes);
    job->unit.out_bytes = (uint16_t)(job->unit.elems / b->block_elems * b->block_bytes);
    job->kernels = convert_best_kernels();
    job->overflow_end = INF32;
    if (f8_format) {
        job->f8_format = *f8_format;
        job->overflow_start = f8_format->overflow_start;
        job->overflow_end = f8_format->overflow_to == 0x7cu ? INF32 : INF32 + 1;
    } else {
        job->overflow_start = to == CKPT_DT_F16 ? 0x477ff000u : to == CKPT_DT_BF16 ? 0x7f7f8000u : INF32;
    }
    for (uint32_t i = 0; a->block_bytes == 1 && i < 256; i++)
        job->f32_of_byte[i] = f32_bits_of_byte(from, i);
    return true;
}

/* load_integer - extends the integer at IN, of 2, 4 or 8 bytes, to 64 bits. *IS_SIGNED: it has a sign. */
static uint64_t load_integer(const struct conversion *job, const unsigned char *in, bool *is_signed)
{
    *is_signed = dtype_info(job->from)->klass == 'i';
    switch (job->in_width) {
    case 8: return load_u64le(in);
    case 4: return *is_signed ? (uint64_t)(int64_t)(int32_t)load_u32le(in) : load_u32le(in);
    default: return *is_signed ? (uint64_t)(int64_t)(int16_t)load_u16le(in) : load_u16le(in);
    }
}

static void integers_to_f32(const struct conversion *job, const unsigned char *in, size_t count,
                            unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        bool is_signed;
        uint64_t v = load_integer(job, in + i * job->in_width, &is_signed);
        store_u32le(out + 4 * i, as_bits(is_signed ? (float)(int64_t)v : (float)v));
    }
}

static void integers_to_f64(const struct conversion *job, const unsigned char *in, size_t count,
                            unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        bool is_signed;
        uint64_t v = load_integer(job, in + i * job->in_width, &is_signed), bits;
        double d = is_signed ? (double)(int64_t)v : (double)v;
        memcpy(&bits, &d, sizeof bits);
        store_u64le(out + 8 * i, bits);
    }
}

static void widen_to_f32(const struct conversion *job, const unsigned char *in, size_t count,
                         unsigned char *out)
{
    if (job->from == CKPT_DT_F64 && job->rounds_once && job->to != CKPT_DT_F32)
        job->kernels->f64_to_odd_f32(in, count, out);
    else if (job->from == CKPT_DT_F64)
        job->kernels->f64_to_f32(in, count, out);
    else if (job->from == CKPT_DT_F16)
        job->kernels->f16_to_f32(in, count, out);
    else if (job->from == CKPT_DT_BF16)
        job->kernels->bf16_to_f32(in, count, out);
    else if (job->in_elems > 1)
        dequantize(job->from, in, count / job->in_elems, out);
    else if (job->in_width > 1)
        integers_to_f32(job, in, count, out);
    else
        for (size_t i = 0; i < count; i++)
            store_u32le(out + 4 * i, job->f32_of_byte[in[i]]);
}

/* narrow_from_f32 - converts COUNT floats to conversion->to and counts overflows in TALLY. */
static void narrow_from_f32(const struct conversion *job, const unsigned char *in, size_t count,
                            unsigned char *out, struct convert_tally *tally)
{
    uint32_t largest_bits = UINT32_MAX;
    if (job->to == CKPT_DT_F16)
        job->kernels->f32_to_f16(in, count, out);
    else if (job->to == CKPT_DT_BF16)
        largest_bits = job->kernels->f32_to_bf16(in, count, out);
    else if (job->to == CKPT_DT_Q8_0)
        tally->overflowed += f32_to_q8_0(in, count, out);
    else if (job->to == CKPT_DT_F64)
        for (size_t i = 0; i < count; i++)
            store_u64le(out + 8 * i, double_from_float(load_u32le(in + 4 * i)));
    else
        job->kernels->f32_to_f8(&job->f8_format, in, count, out);
    if (job->to != CKPT_DT_Q8_0 && job->overflow_start < job->overflow_end &&
        job->overflow_start <= largest_bits)
        tally->overflowed += job->kernels->count_in_range(in, count, job->overflow_start, job->overflow_end);
}

/* count_overflowed_doubles - returns the number of finite doubles at IN that became Inf in FLOATS; 0 if
 * every Inf overflows TO, because then narrow_from_f32 counts them. */
static uint64_t count_overflowed_doubles(const struct conversion *job, const unsigned char *in, size_t count,
                                         const unsigned char *floats)
{
    uint64_t overflowed = 0;
    if (job->from != CKPT_DT_F64 || job->overflow_end > INF32 ||
        !job->kernels->count_in_range(floats, count, INF32, INF32 + 1))
        return 0;
    for (size_t i = 0; i < count; i++)
        overflowed += (load_u32le(floats + 4 * i) & ABS32) == INF32 &&
                      (load_u64le(in + 8 * i) & ~(1ull << 63)) != 0x7ff0000000000000ull;
    return overflowed;
}

static void convert_block(const struct conversion *job, const unsigned char *in, size_t count,
                          unsigned char *out, struct convert_tally *tally)
{
    unsigned char buffer[BLOCK_FLOATS * 4];
    const unsigned char *floats = in;
    if (job->from != CKPT_DT_F32) {
        unsigned char *widened = job->to == CKPT_DT_F32 ? out : buffer;
        widen_to_f32(job, in, count, widened);
        floats = widened;
    }
    tally->overflowed += count_overflowed_doubles(job, in, count, floats);
    if (job->to != CKPT_DT_F32) {
        narrow_from_f32(job, floats, count, out, tally);
        return;
    }
    if (job->overflow_start < job->overflow_end)
        tally->overflowed += job->kernels->count_in_range(floats, count, job->overflow_start,
                                                          job->overflow_end);
    if (job->from == CKPT_DT_F32)
        memcpy(out, in, count * 4);
}

void convert_run(const struct conversion *job, const void *in, size_t count, void *out,
                 struct convert_tally *tally)
{
    const unsigned char *src = in;
    unsigned char *dst = out;
    bool is_int = job->in_width > 1 && job->in_elems == 1 && dtype_info(job->from)->klass != 'f';
    bool int_to_f64 = job->to == CKPT_DT_F64 && is_int;
    if (int_to_f64 || job->from == job->to) {
        int_to_f64 ? integers_to_f64(job, src, count, dst) : (void)memcpy(dst, src, count * job->in_width);
        return;
    }
    while (count) {
        size_t chunk = count < BLOCK_FLOATS ? count : BLOCK_FLOATS;
        convert_block(job, src, chunk, dst, tally);
        src += chunk / job->in_elems * job->in_width;
        dst += chunk / job->unit.elems * job->unit.out_bytes;
        count -= chunk;
    }
}

/* ------------------------------------------------------------------ a source */

struct f32_conversion {
    bool big_endian;
    struct conversion conversion;
};

static void convert_f32(const void *user, unsigned char *in, size_t count, unsigned char *out)
{
    const struct f32_conversion *f = user;
    struct convert_tally ignored = {0};
    if (f->big_endian)
        swap_bytes(in, 2 * count, 2);
    convert_run(&f->conversion, in, count, out, &ignored);
}

source *convert_source_f32(source *from, uint64_t offset, ckpt_dtype dtype, bool big_endian, uint64_t size)
{
    static const struct element_converter how = {2, 4, convert_f32};
    struct f32_conversion f = {.big_endian = big_endian};
    bool ok = conversion_init(&f.conversion, dtype, CKPT_DT_F32);
    return ok ? source_elements(from, offset, size, &how, &f, sizeof f) : NULL;
}
