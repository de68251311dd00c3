/* checked.h - arithmetic on numbers that come from a file. On overflow, a function with OUT returns false
 * and leaves *OUT alone. In the builds with sanitizers, every other sum, difference or product of unsigned
 * numbers in lib that wraps ends the program, except in functions with MODULO. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MODULO - begins a function whose numbers are meant modulo 2^N: a hash, a cipher, bits of several bytes. */
#if defined __clang__
#define MODULO __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define MODULO
#endif

/* COUNT_DOWN - makes I one less, if it is not 0: `i-- > 0`, which wraps when it ends. */
#define COUNT_DOWN(i) ((i) != 0 && ((i)--, true))

static inline bool checked_add(uint64_t left, uint64_t right, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(left, right, &r))
        return false;
    *out = r;
    return true;
}
static inline bool checked_mul(uint64_t left, uint64_t right, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(left, right, &r))
        return false;
    *out = r;
    return true;
}

/* checked_product - multiplies the COUNT numbers FACTORS; 0 if one of them is 0, whatever the others are. */
static inline bool checked_product(const uint64_t *factors, size_t count, uint64_t *out)
{
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++)
        if (factors[i] == 0) {
            *out = 0;
            return true;
        }
    for (size_t i = 0; i < count; i++)
        if (!checked_mul(product, factors[i], &product))
            return false;
    *out = product;
    return true;
}

/* size_add, size_mul - return the sum or the product of two sizes, or UINT64_MAX if it does not fit 64 bits.
 * A sum that was too large once stays UINT64_MAX, whatever is added. */
static inline uint64_t size_add(uint64_t left, uint64_t right)
{
    return checked_add(left, right, &left) ? left : UINT64_MAX;
}
static inline uint64_t size_mul(uint64_t left, uint64_t right)
{
    return checked_mul(left, right, &left) ? left : UINT64_MAX;
}
/* checked_size - sets *OUT to COUNT; false: it does not fit a size_t. */
static inline bool checked_size(uint64_t count, size_t *out)
{
    if (count > SIZE_MAX)
        return false;
    *out = (size_t)count;
    return true;
}
/* range_within - returns true if [OFFSET, OFFSET+LENGTH) is within [0, TOTAL). */
static inline bool range_within(uint64_t offset, uint64_t length, uint64_t total)
{
    return offset <= total && length <= total - offset;
}
