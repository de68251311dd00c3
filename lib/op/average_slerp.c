/* average_slerp.c - spherical linear interpolation (Shoemake, "Animating Rotation with Quaternion Curves",
 * 1985) of tensors as vectors, as mergekit 0.1.5 defines it: vectors that are almost parallel are
 * interpolated linearly. The angle is computed by operations that are rounded in the same way everywhere;
 * functions of C libraries are not. */
#include <math.h>

#include "core/distance.h"
#include "op/average.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define HALF_PI      0x1.921fb54442d18p0
#define PARALLEL_MIN 0.9995 /* a larger cosine, or a smaller one than its negative: almost parallel */
#define NORM_MIN     1e-8   /* vectors with a smaller norm are not divided by it */

size_t mean_slerp_scratch(void) { return 2 * MEAN_AT_ONCE * sizeof(double); }

/* ------------------------------------------------------------------------------ angles */

/* sine - returns sin(ANGLE), 0 <= ANGLE <= pi, by its Taylor series. */
static double sine(double angle)
{
    double x = angle > HALF_PI ? 2 * HALF_PI - angle : angle, square = x * x, sum = 1;
    for (int k = 24; k >= 2; k -= 2) /* (pi/2)^27 / 27! < 2^-54 */
        sum = 1 - square / (double)(k * (k + 1)) * sum;
    return x * sum;
}

/* arc_cosine - returns the angle with the cosine COSINE, |COSINE| < 1. */
static double arc_cosine(double cosine)
{
    double tangent = sqrt((1 - cosine) / (1 + cosine)), sum = 0; /* of half of the angle */
    bool is_steep = tangent > 1;
    double x = is_steep ? 1 / tangent : tangent;
    for (int i = 0; i < 3; i++) /* halve the angle: it is below pi/32 then */
        x = x / (1 + sqrt(1 + x * x));
    for (int k = 19; k >= 1; k -= 2) /* 0.1^21 / 21 < 2^-54 * 0.1 */
        sum = 1 / (double)k - x * x * sum;
    double half = 8 * x * sum;
    return 2 * (is_steep ? HALF_PI - half : half);
}

/* ------------------------------------------------------------------------------ factors */

/* find_cosine - returns the cosine of the angle between both vectors. */
static double find_cosine(const struct norms *norms)
{
    double left = scaled_sum_sqrt(&norms->aa, 1), right = scaled_sum_sqrt(&norms->bb, 1);
    if (left > NORM_MIN && right > NORM_MIN)
        return norms_cosine(norms);
    double product = ldexp(norms->ab.value, -SCALE_BITS * norms->ab.scale);
    return product / (left > NORM_MIN ? left : 1) / (right > NORM_MIN ? right : 1);
}

/* set_factors - sets the factors of both vectors for WEIGHT, that of the second. */
static void set_factors(const struct norms *norms, double weight, double *factors)
{
    double cosine = find_cosine(norms);
    if (fabs(cosine) > PARALLEL_MIN) {
        factors[0] = 1 - weight;
        factors[1] = weight;
        return;
    }
    double angle = arc_cosine(cosine), divisor = sine(angle);
    factors[0] = sine((1 - weight) * angle) / divisor;
    factors[1] = sine(weight * angle) / divisor;
}

static ckpt_status find_factors(struct mean_tensor *tensor, const struct computed *how, double *scratch,
                                ckpt_error *err)
{
    struct norms norms = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    double *left = scratch, *right = scratch + MEAN_AT_ONCE;
    for (uint64_t first = 0; first < how->numbers; first += MEAN_AT_ONCE) {
        uint64_t rest = how->numbers - first;
        size_t count = rest < MEAN_AT_ONCE ? (size_t)rest : MEAN_AT_ONCE;
        CKPT_TRY(mean_read(tensor->mean, how, 0, first, count, left, err));
        CKPT_TRY(mean_read(tensor->mean, how, 1, first, count, right, err));
        norms_add(&norms, left, right, NULL, count);
    }
    set_factors(&norms, tensor->mean->t, tensor->known);
    return CKPT_OK;
}

ckpt_status mean_slerp(const struct computed *how, uint64_t first, size_t count, double *out, void *scratch,
                       ckpt_error *err)
{
    struct mean_tensor *tensor = how->user;
    double *right = scratch;
    CKPT_TRY(mean_know(tensor, how, find_factors, scratch, err));
    CKPT_TRY(mean_read(tensor->mean, how, 0, first, count, out, err));
    CKPT_TRY(mean_read(tensor->mean, how, 1, first, count, right, err));
    for (size_t i = 0; i < count; i++)
        out[i] = tensor->known[0] * out[i] + tensor->known[1] * right[i];
    return CKPT_OK;
}
