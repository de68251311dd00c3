/* convert.h - elements of one type as another, rounded to nearest even. */
#ifndef CORE_CONVERT_H
#define CORE_CONVERT_H

#include "core/dtype.h"

/* What a float becomes as one byte. */
struct narrow {
    uint32_t shift;      /* mantissa bits that go */
    uint32_t min_normal; /* bits of the smallest float that is normal there */
    uint32_t magic;      /* bits of the float whose last bit is the smallest subnormal */
    uint32_t rebias;     /* added to the bits of a normal one */
    uint32_t beyond;     /* bits of the first float that rounds beyond the largest value */
    uint32_t over, nan;  /* what that becomes, and NaN */
    uint32_t sign_mask;  /* on OVER and NAN: 0x80, or 0 where they have no sign */
    bool no_minus_zero;
};

/* Each takes N elements, little-endian, at any address; IN and OUT do not overlap. */
struct convert_kernels {
    void (*f32_to_f16)(const unsigned char *in, size_t n, unsigned char *out);
    /* returns the largest of the floats' bits without sign, as nearly all are far from overflowing */
    uint32_t (*f32_to_bf16)(const unsigned char *in, size_t n, unsigned char *out);
    void (*f32_to_f8)(const struct narrow *to, const unsigned char *in, size_t n, unsigned char *out);
    void (*f16_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    void (*bf16_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    void (*f64_to_f32)(const unsigned char *in, size_t n, unsigned char *out);
    /* how many floats have LOW <= bits without sign < HIGH */
    uint64_t (*count)(const unsigned char *in, size_t n, uint32_t low, uint32_t high);
};

struct conversion {
    ckpt_dtype from, to;
    uint8_t in_width, out_width;      /* bytes of an element */
    uint32_t beyond, end;             /* floats that overflow TO, by their bits without sign */
    struct narrow narrow;             /* to an 8-bit type */
    uint32_t wide[256];               /* from an 8-bit type */
    const struct convert_kernels *k;
};

struct convert_tally {
    uint64_t overflowed; /* beyond the largest value of the target, Inf too where it has none */
};

/* conversion_init - how to get from FROM to TO; false: nobody should. Floats, ints and
 * bools become floats; float8_e8m0fnu, which has no sign and no zero, only stops being one. */
bool conversion_init(struct conversion *c, ckpt_dtype from, ckpt_dtype to);
/* convert_run - N elements, adding to T. */
void convert_run(const struct conversion *c, const void *in, size_t n, void *out, struct convert_tally *t);
/* convert_overflow_name - what a value beyond TO's largest becomes: "inf", "nan", "448". */
const char *convert_overflow_name(ckpt_dtype to);

extern const struct convert_kernels convert_scalar;
/* convert_simd - kernels for this CPU, or convert_scalar where there are none. */
const struct convert_kernels *convert_simd(void);

#endif
