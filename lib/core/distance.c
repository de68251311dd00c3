/* distance.c - see distance.h. Eight lanes make the sum the same whatever the width
 * of the CPU's registers. */
#include "core/distance.h"

#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

void distance_more(struct distance *d, const double *a, const double *b, size_t n, const struct tolerance *t)
{
    for (size_t i = 0; i < n; i++) {
        double apart = fabs(a[i] - b[i]), base = fabs(b[i]), rel = apart / base;
        d->sum[i & 7] += apart;
        d->max_abs = apart > d->max_abs ? apart : d->max_abs;
        d->max_rel = rel > d->max_rel ? rel : d->max_rel;
        d->differing += a[i] != b[i] && !(apart <= t->abs + t->rel * base);
    }
}

double distance_sum(const struct distance *d)
{
    const double *l = d->sum;
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

static void plain_doubles(const unsigned char *a, const unsigned char *b, size_t n, const struct tolerance *t,
                          struct distance *out)
{
    double x[64], y[64];
    *out = (struct distance){0};
    for (size_t i = 0; i < n; i += 64, a += sizeof x, b += sizeof y) {
        size_t k = n - i < 64 ? n - i : 64;
        memcpy(x, a, k * sizeof *x);
        memcpy(y, b, k * sizeof *y);
        distance_more(out, x, y, k, t);
    }
}

const struct distance_kernels distance_plain = {.name = "plain", .doubles = plain_doubles};

distance_kernel *distance_direct(const struct distance_kernels *k, ckpt_dtype dt)
{
    switch (dt) {
    case CKPT_DT_F64: return k->f64;
    case CKPT_DT_F32: return k->f32;
    case CKPT_DT_F16: return k->f16;
    case CKPT_DT_BF16: return k->bf16;
    default: return NULL;
    }
}
