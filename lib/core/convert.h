/* convert.h - converts elements from one dtype to another, rounding to nearest even. */
#pragma once

#include "core/dtype.h"
#include "io/source.h"

/* How to round a float32 to an 8-bit float. */
struct f8_format {
    uint32_t shift;            /* mantissa bits that are dropped */
    uint32_t min_normal;       /* bits of the smallest float that becomes a normal number */
    uint32_t magic;            /* bits of the float whose last bit has the value of the smallest subnormal */
    uint32_t rebias;           /* added to the bits of a normal number, for the exponent's other bias */
    uint32_t overflow_start;   /* bits of the first float that rounds above the largest value */
    uint32_t overflow_to, nan; /* what an overflowing float becomes; what NaN becomes */
    uint32_t sign_mask;        /* sign bit of OVERFLOW_TO and NAN: 0x80, or 0 if they have none */
    bool no_minus_zero;
};

/* Each kernel takes N little-endian elements at any address; IN and OUT do not overlap. */
struct convert_kernels {
    void (*f32_to_f16)(const unsigned char *in, size_t n, unsigned char *out);
    /* returns the bits of the largest magnitude: if that does not overflow, no float does */
    uint32_t (*f32_to_bf16)(const unsigned char *in, size_t n, unsigned char *out);
    void (*f32_to_f8)(const struct f8_format *to, const unsigned char *in, size_t n, unsigned char *out);
    void (*f16_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    void (*bf16_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    void (*f64_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    /* of the two floats around a double that is none, that with an odd mantissa */
    void (*f64_to_odd_f32)(const unsigned char *in, size_t n, unsigned char *out);
    void (*unify_nan)(unsigned char *doubles, size_t n); /* makes each NaN the same, see computed_source.h */
    /* returns the number of floats with LOW <= bits without sign < HIGH */
    uint64_t (*count_in_range)(const unsigned char *in, size_t n, uint32_t low, uint32_t high);
};

struct conversion {
    ckpt_dtype from, to;
    uint16_t in_elems, in_width; /* elements (mostly 1) and bytes of a block of FROM */
    uint8_t out_width;           /* bytes of an element of TO, or of a block if TO is q8_0 */
    struct {
        uint16_t elems, in_bytes, out_bytes; /* elements in a unit; their bytes as FROM and as TO */
    } unit;                                  /* the smallest amount that can be converted */
    uint32_t overflow_start;                 /* a float overflows TO if its bits without sign are in … */
    uint32_t overflow_end;                   /* … [overflow_start, overflow_end) */
    struct f8_format f8_format;              /* used if TO is an 8-bit float */
    uint32_t f32_of_byte[256];               /* used if FROM has 8 bits: the float32 of each value */
    const struct convert_kernels *kernels;
    bool rounds_once; /* a float64 that becomes 16 or 8 bits is not rounded to float32 first */
};

struct convert_tally {
    uint64_t overflowed; /* elements above the largest value of TO; also infinite ones if TO has no Inf */
};

/* conversion_init - prepares the conversion of FROM, a type of floats, ints, bools or ggml's blocks, to TO:
 * float64, float32, float16, bfloat16, or a type that struct f8_format can describe: float8_e4m3fn, _e5m2,
 * _e4m3fnuz or _e5m2fnuz. False: not supported. */
bool conversion_init(struct conversion *job, ckpt_dtype from, ckpt_dtype to);
/* conversion_init_float_or_q8_0 - does what conversion_init does, but TO may also be q8_0. */
bool conversion_init_float_or_q8_0(struct conversion *job, ckpt_dtype from, ckpt_dtype to);
/* conversion_init_once - prepares the conversion of float64 to TO as conversion_init does, but without the
 * rounding to float32 in between that torch's conversions have: the result is the nearest number of TO. */
bool conversion_init_once(struct conversion *job, ckpt_dtype to);
/* convert_run - converts COUNT elements, which are whole units, and counts overflows in TALLY. */
void convert_run(const struct conversion *job, const void *in, size_t count, void *out,
                 struct convert_tally *tally);
/* float_of_bits - returns the float32 with these bits. */
static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
/* f32_bits_of_half, f32_bits_of_byte - convert a float16, or BITS, an element of FROM, to float32 bits. */
uint32_t f32_bits_of_half(uint32_t half);
uint32_t f32_bits_of_byte(ckpt_dtype from, uint32_t bits);
/* convert_overflow_name - returns what a value above TO's largest becomes: "inf", "nan" or "448". */
const char *convert_overflow_name(ckpt_dtype to);

/* convert_source_f32 - returns a source of SIZE bytes of float32. Reading it reads elements of DTYPE, a
 * 16-bit float, from OFFSET of FROM on, and converts them. NULL: no memory. */
source *convert_source_f32(source *from, uint64_t offset, ckpt_dtype dtype, bool big_endian, uint64_t size);

extern const struct convert_kernels convert_scalar;
/* convert_best_kernels - returns the kernels for this CPU; convert_scalar if it has none. */
const struct convert_kernels *convert_best_kernels(void);
