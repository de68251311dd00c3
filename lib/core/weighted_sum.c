/* weighted_sum.c - see weighted_sum.h. */
#include "core/weighted_sum.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

static double product_at(const struct weighted_sum *sum, size_t array, size_t index)
{
    double number;
    memcpy(&number, sum->in[array] + index * sizeof number, sizeof number);
    return sum->weights[array] * (sum->base ? number - sum->base[index] : number);
}

void weighted_sum_scalar(const struct weighted_sum *sum, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        double total = product_at(sum, 0, i);
        for (size_t k = 1; k < sum->n; k++)
            total += product_at(sum, k, i);
        out[i] = sum->divisor == 1 ? total : total / sum->divisor;
    }
}
