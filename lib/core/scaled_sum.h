/* scaled_sum.h - sums of squares that neither overflow nor vanish, whatever doubles are squared. A sum is
 * VALUE * 2^(-SCALE_BITS * SCALE). Numbers of the usual sizes have the scale 0 and are summed as they are. */
#pragma once

#include <math.h>

#define SCALE_BITS 600

struct scaled_sum {
    double value;
    int scale;
};

/* scale_for - returns the scale for numbers of which the largest has the magnitude LARGEST: -1 if 2^60 of
 * their squares could overflow, 1 if their squares could vanish, else 0. */
static inline int scale_for(double largest)
{
    return largest > 0x1p+480 ? -1 : largest < 0x1p-400 && largest > 0 ? 1 : 0;
}

/* scale_factor - returns 2^(SCALE_BITS * SCALE), by which numbers are multiplied before they are squared. */
static inline double scale_factor(int scale) { return scale < 0 ? 0x1p-600 : scale > 0 ? 0x1p+600 : 1; }

/* scaled_sum_add - adds ADDED, which may be negative, to *SUM. */
static inline void scaled_sum_add(struct scaled_sum *sum, struct scaled_sum added)
{
    if (added.value == 0)
        return;
    if (sum->value == 0)
        *sum = (struct scaled_sum){0, added.scale};
    if (added.scale > sum->scale) /* ADDED is of a smaller size */
        added.value = ldexp(added.value, SCALE_BITS * (sum->scale - added.scale));
    if (added.scale < sum->scale) {
        sum->value = ldexp(sum->value, SCALE_BITS * (added.scale - sum->scale));
        sum->scale = added.scale;
    }
    sum->value += added.value;
}

/* scaled_sum_sqrt - returns the square root of SUM / DIVISOR. */
static inline double scaled_sum_sqrt(const struct scaled_sum *sum, double divisor)
{
    return ldexp(sqrt(sum->value / divisor), -SCALE_BITS / 2 * sum->scale);
}
