/* repr.c - see repr.h. Floats are written in the format of Python's float.__repr__, with the fewest digits
 * that read back as the same number; these are found by trying. */
#include "core/repr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"

struct repr_decimal {
    char digits[20];
    int ndigits;
    int point; /* the decimal point is after this many digits */
};

/* rounds_to_half - returns true if NUMBER, rounded to float16, is VALUE: NUMBER is nearer to VALUE than to
 * VALUE's neighbours, or halfway and VALUE is even. */
static bool rounds_to_half(double number, double value)
{
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    double gap_above = ldexp(1.0, exponent < -13 ? -24 : exponent - 11);
    double gap_below = fraction == 0.5 && exponent > -13 ? gap_above / 2 : gap_above;
    double excess = value < 0 ? value - number : number - value; /* |NUMBER| - |VALUE| */
    bool is_even = fmod(value / gap_above, 2) == 0;
    return (excess < gap_above / 2 && -excess < gap_below / 2) ||
           (is_even && (excess == gap_above / 2 || -excess == gap_below / 2));
}

static bool reads_back(const char *text, double number, enum repr_width width)
{
    if (width == REPR_SINGLE)
        return strtof(text, NULL) == (float)number;
    double y = strtod(text, NULL);
    return width == REPR_HALF ? rounds_to_half(y, number) : y == number;
}

/* increment_last_digit - increments the last digit of TEXT. A 9 stays: the sum would end in 0, and the same
 * number with one digit less was tried before. */
static void increment_last_digit(char *text)
{
    char *last = strchr(text, 'e') - 1;
    if (*last >= '0' && *last <= '8')
        ++*last;
}

/* find_shortest - returns the fewest digits that read back as NUMBER, which is finite and not negative. Only
 * digits and the exponent of TEXT are used, because the locale may use any decimal point. */
static struct repr_decimal find_shortest(double number, enum repr_width width)
{
    char text[64];
    struct repr_decimal d = {{0}, 0, 0};
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, number);
        if (reads_back(text, number, width))
            break;
        /* The gap above a power of two is twice the gap below: a decimal that is
         * not the nearest to NUMBER may still read back as NUMBER. */
        increment_last_digit(text);
        if (reads_back(text, number, width))
            break;
    }
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && d.ndigits < (int)sizeof d.digits)
            d.digits[d.ndigits++] = *p;
    d.point = *p ? (int)strtol(p + 1, NULL, 10) + 1 : 1;
    while (d.ndigits > 1 && d.digits[d.ndigits - 1] == '0')
        d.ndigits--;
    return d;
}

static int put_fixed(const struct repr_decimal *decimal, char *out, size_t cap)
{
    static const char zeros[] = "0000000000000000";
    int n = decimal->ndigits, point = decimal->point;
    if (point <= 0)
        return snprintf(out, cap, "0.%.*s%.*s", -point, zeros, n, decimal->digits);
    if (point >= n)
        return snprintf(out, cap, "%.*s%.*s.0", n, decimal->digits, point - n, zeros);
    return snprintf(out, cap, "%.*s.%.*s", point, decimal->digits, n - point, decimal->digits + point);
}

size_t repr_float(double number, enum repr_width width, char out[REPR_FLOAT_ROOM])
{
    int sign = 0;
    if (isnan(number))
        return (size_t)snprintf(out, REPR_FLOAT_ROOM, "nan");
    if (signbit(number))
        out[sign++] = '-';
    size_t cap = REPR_FLOAT_ROOM - (size_t)sign;
    if (isinf(number))
        return (size_t)(sign + snprintf(out + sign, cap, "inf"));
    struct repr_decimal d = find_shortest(fabs(number), width);
    if (d.point > -4 && d.point <= 16)
        return (size_t)(sign + put_fixed(&d, out + sign, cap));
    return (size_t)(sign + snprintf(out + sign, cap, "%c%s%.*se%+03d", d.digits[0], d.ndigits > 1 ? "." : "",
                                    d.ndigits - 1, d.digits + 1, d.point - 1));
}

struct repr_magnitude {
    uint32_t limbs[REPR_BIG_MAX_BYTES / 4]; /* least significant first */
    size_t n;
    bool negative;
};

static struct repr_magnitude load_magnitude(ckpt_str le)
{
    struct repr_magnitude m = {{0}, (le.len + 3) / 4, le.len && (unsigned char)le.ptr[le.len - 1] & 0x80};
    uint64_t carry = m.negative;
    for (size_t i = 0; i < m.n * 4; i++) {
        unsigned fill = m.negative ? 0xff : 0, byte = i < le.len ? (unsigned char)le.ptr[i] : fill;
        m.limbs[i / 4] |= (uint32_t)(byte ^ fill) << (i % 4 * 8);
    }
    for (size_t i = 0; i < m.n; i++, carry >>= 32) {
        carry += m.limbs[i];
        m.limbs[i] = (uint32_t)carry;
    }
    return m; /* even -2^(8n-1), the least number of n bytes, fits: its magnitude has 8n bits */
}

size_t repr_big(ckpt_str le, char out[REPR_BIG_ROOM])
{
    if (le.len > REPR_BIG_MAX_BYTES)
        return 0;
    struct repr_magnitude m = load_magnitude(le);
    char digits[REPR_BIG_ROOM];
    size_t n = 0, len = 0;
    do {
        uint64_t remainder = 0;
        for (size_t i = m.n; COUNT_DOWN(i);) {
            remainder = remainder << 32 | m.limbs[i];
            m.limbs[i] = (uint32_t)(remainder / 1000000000);
            remainder %= 1000000000;
        }
        while (m.n && m.limbs[m.n - 1] == 0)
            m.n--;
        for (int k = 0; k < 9 && (m.n || remainder || n == 0); k++, remainder /= 10)
            digits[n++] = (char)('0' + remainder % 10);
    } while (m.n);
    if (m.negative)
        out[len++] = '-';
    while (n)
        out[len++] = digits[--n];
    out[len] = '\0';
    return len;
}
