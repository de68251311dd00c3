/* mean_source.c - see mean_source.h. */
#include "core/mean_source.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define CHUNK   16384u /* numbers that are read at a time */
#define AT_ONCE 4096u

struct kept_mean {
    struct mean what;
    pthread_mutex_t lock;
    bool is_known;
    double *means;
};

/* add_numbers - adds the COUNT NUMBERS from element FIRST on to the sums. Returns true if all are finite. */
static bool add_numbers(const struct mean *what, uint64_t first, const double *numbers, size_t count,
                        double *sums)
{
    bool are_finite = true;
    while (count) {
        uint64_t column = first % what->inner, left = what->inner - column;
        size_t run = left < count ? (size_t)left : count;
        double *sum = sums + first / what->inner / what->size * what->inner + column;
        for (size_t i = 0; i < run; i++) {
            sum[i] += numbers[i];
            are_finite &= isfinite(numbers[i]) != 0;
        }
        numbers += run;
        first += run;
        count -= run;
    }
    return are_finite;
}

/* add_all - adds all elements to the sums, which are 0. NUMBERS has room for CHUNK of them. */
static ckpt_status add_all(const struct mean *what, double *numbers, double *sums, bool *are_finite,
                           ckpt_error *err)
{
    uint64_t count = what->outer * what->size * what->inner; /* elements of a tensor */
    *are_finite = true;
    for (uint64_t at = 0; at < count;) {
        size_t n = count - at < CHUNK ? (size_t)(count - at) : CHUNK;
        CKPT_TRY(read_numbers(what->src, what->dtype, at, n, numbers, err));
        *are_finite &= add_numbers(what, at, numbers, n, sums);
        at += n;
    }
    return CKPT_OK;
}

static ckpt_status compute_means(struct kept_mean *kept, ckpt_error *err)
{
    const struct mean *what = &kept->what;
    size_t count = (size_t)(what->outer * what->inner);
    bool are_finite = true;
    double *numbers = malloc(CHUNK * sizeof *numbers);
    memset(kept->means, 0, count * sizeof *kept->means);
    ckpt_status st = numbers ? add_all(what, numbers, kept->means, &are_finite, err) : fail_memory(err);
    free(numbers);
    for (size_t i = 0; st == CKPT_OK && i < count; i++) {
        if (are_finite && !isfinite(kept->means[i]))
            st = fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a sum is beyond {=the largest float64}");
        kept->means[i] /= (double)what->size;
    }
    kept->is_known = st == CKPT_OK;
    return st;
}

static ckpt_status get_means(const struct computed *how, uint64_t first, size_t count, double *out,
                             void *scratch, ckpt_error *err)
{
    struct kept_mean *kept = (struct kept_mean *)(uintptr_t)how->user; /* const for other users of it */
    (void)scratch;
    pthread_mutex_lock(&kept->lock);
    ckpt_status st = kept->is_known ? CKPT_OK : compute_means(kept, err);
    pthread_mutex_unlock(&kept->lock);
    if (st == CKPT_OK)
        memcpy(out, kept->means + first, count * sizeof *out);
    return st;
}

source *mean_source(arena *a, const struct mean *what)
{
    struct kept_mean *kept = arena_array(a, 1, sizeof *kept);
    source *src = what->src;
    if (!kept || !(kept->means = arena_array(a, what->outer * what->inner, sizeof *kept->means)) ||
        pthread_mutex_init(&kept->lock, NULL) != 0)
        return NULL;
    kept->what = *what;
    const struct computed how = {.dtype = what->dtype,
                                 .numbers = what->outer * what->inner,
                                 .at_once = AT_ONCE,
                                 .compute = get_means,
                                 .user = kept,
                                 .inputs = &src,
                                 .ninputs = 1};
    (void)source_ref(src);
    return computed_source(&how);
}
