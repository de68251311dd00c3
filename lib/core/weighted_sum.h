/* weighted_sum.h - weighted sums of tensors, for averages; the same bits on any CPU. */
#pragma once

#include "core/dtype.h"

/* What is summed up. */
struct weighted_sum {
    const unsigned char *const *in; /* N arrays: of stored elements of DT, or of native doubles */
    size_t n;                       /* at least one */
    const double *weights;
    const double *base; /* is subtracted from each array; NULL: nothing */
    double divisor;
    ckpt_dtype dt; /* F64: native doubles; else dtype_has_kernels is true */
};

/* weighted_sum_kernel - sets the COUNT numbers OUT to the sums of w (x - base), added up in the order of the
 * arrays, divided by the divisor. Each product, sum and quotient is rounded. */
typedef void weighted_sum_kernel(const struct weighted_sum *sum, size_t count, double *out);

/* weighted_sum_scalar - computes the sums of native doubles, whatever sum->dt is. */
weighted_sum_kernel weighted_sum_scalar;
/* weighted_sum_best_kernel - returns the fastest kernel that this CPU can run. */
weighted_sum_kernel *weighted_sum_best_kernel(void);
