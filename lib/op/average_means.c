/* average_means.c - the options of an average, and weighted sums. Sums are in the order of the files, and
 * neither fused nor reordered, so that they have the same bits everywhere. */
#include <math.h>
#include <stdlib.h>

#include "core/weighted_sum.h"
#include "op/average.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define DIVISOR_MIN 1e-8 /* a smaller sum of weights divides no differences, as in mergekit */

/* ----------------------------------------------------------------------------- options */

static ckpt_status fail_option(ckpt_error *err, const char *what)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s", what);
}

static ckpt_status check_files(const ckpt_average_options *options, ckpt_error *err)
{
    bool is_slerp = options->method == CKPT_AVERAGE_SLERP;
    if (options->own >= options->npaths)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no {file %zu}, of {=%zu}", options->own,
                    options->npaths);
    if (is_slerp && options->npaths != 2)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "slerp is of {=two files}, not {%zu}", options->npaths);
    if (options->npaths < 2 && !options->base)
        return fail_option(err, "one file is its own average: name another, or a base");
    if (options->method == CKPT_AVERAGE_TIES && !options->base)
        return fail_option(err, "ties needs a base, from which the files differ");
    return CKPT_OK;
}

/* check_unused - refuses options that the method does not have. */
static ckpt_status check_unused(const ckpt_average_options *options, ckpt_error *err)
{
    bool is_slerp = options->method == CKPT_AVERAGE_SLERP;
    if (is_slerp && (options->weights || options->base || options->normalize))
        return fail_option(err, "slerp has neither weights nor a base; t is where between both files");
    if (options->t && !is_slerp)
        return fail_option(err, "only slerp has a t");
    if (options->densities && options->method != CKPT_AVERAGE_TIES)
        return fail_option(err, "only ties has densities");
    return options->lambda && !options->base
               ? fail_option(err, "lambda needs a base: it multiplies differences")
               : CKPT_OK;
}

static ckpt_status check_range(const char *what, double number, double least, double most, ckpt_error *err)
{
    if (number >= least && number <= most)
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s is {%g}, not {=between %g and %g}", what, number, least,
                most);
}

static ckpt_status check_finite(const char *what, double number, ckpt_error *err)
{
    return isfinite(number)
               ? CKPT_OK
               : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s is {%g}, not {=a finite number}", what, number);
}

/* divides_by_weights - returns true if a sum of weighted inputs is divided by the sum of their weights. */
static bool divides_by_weights(const ckpt_average_options *options)
{
    bool is_usual = options->method == CKPT_AVERAGE_TIES || !options->base;
    return options->normalize == CKPT_NORMALIZE_YES ||
           (options->normalize == CKPT_NORMALIZE_USUAL && is_usual);
}

static ckpt_status check_weights(const ckpt_average_options *options, ckpt_error *err)
{
    double sum = 0;
    for (size_t i = 0; options->weights && i < options->npaths; i++) {
        CKPT_TRY(check_finite("a weight", options->weights[i], err));
        sum += options->weights[i];
    }
    bool is_divisor = options->weights && !options->base && divides_by_weights(options);
    if (!isfinite(sum) || (is_divisor && sum == 0))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "the sum of the weights is {%g}, by which no average can be divided\n"
                    "--no-normalize does not divide; with --base, weights are of differences",
                    sum);
    return CKPT_OK;
}

ckpt_status mean_check_options(const ckpt_average_options *options, ckpt_error *err)
{
    CKPT_TRY(check_files(options, err));
    CKPT_TRY(check_unused(options, err));
    CKPT_TRY(check_weights(options, err));
    for (size_t i = 0; options->densities && i < options->npaths; i++)
        CKPT_TRY(check_range("a density", options->densities[i], 0, 1, err));
    if (options->t)
        CKPT_TRY(check_range("t", *options->t, 0, 1, err));
    return options->lambda ? check_finite("lambda", *options->lambda, err) : CKPT_OK;
}

/* ------------------------------------------------------------------------------- means */

/* copy_numbers - returns a copy in A of the COUNT numbers at FROM; NULL: of as many ones. NULL: no memory. */
static const double *copy_numbers(arena *a, const double *from, size_t count)
{
    double *copy = arena_array(a, count, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = from ? from[i] : 1;
    return copy;
}

/* find_divisor - returns what the weighted sum of linear is divided by. */
static double find_divisor(const struct mean *mean, const ckpt_average_options *options)
{
    double sum = 0;
    for (size_t i = 0; i < mean->n; i++)
        sum += mean->weights[i];
    if (!options->base)
        return divides_by_weights(options) ? sum : 1;
    if (!options->weights) /* they are 1/n */
        return (double)mean->n;
    return divides_by_weights(options) && fabs(sum) >= DIVISOR_MIN ? sum : 1;
}

struct mean *mean_new(const struct average *average, arena *a)
{
    const ckpt_average_options *o = average->options;
    struct mean *mean = ARENA_NEW(a, struct mean);
    if (!mean)
        return NULL;
    *mean = (struct mean){.method = (ckpt_average_method)o->method,
                          .n = o->npaths,
                          .has_base = o->base != NULL,
                          .normalizes = divides_by_weights(o),
                          .weights = copy_numbers(a, o->weights, o->npaths),
                          .densities = copy_numbers(a, o->densities, o->npaths),
                          .lambda = o->lambda ? *o->lambda : 1,
                          .t = o->t ? *o->t : 0.5,
                          .paths = arena_array(a, average->nfiles, sizeof *mean->paths)};
    if (!mean->weights || !mean->densities || !mean->paths)
        return NULL;
    mean->divisor = find_divisor(mean, o);
    for (size_t i = 0; i < average->nfiles; i++)
        mean->paths[i] = average->files[i].f->path;
    return mean;
}

ckpt_status mean_read(const struct mean *mean, const struct computed *how, size_t index, uint64_t first,
                      size_t count, double *out, ckpt_error *err)
{
    ckpt_status st = read_numbers(how->inputs[index], how->dtype, first, count, out, err);
    return name_file_if_failed(st, mean->paths[index], err);
}

/* ------------------------------------------------------------------------------ linear */

/* compute_sum - sets OUT to the weighted sum of the inputs, each less BASE if that is not NULL, divided by
 * the divisor. SPACE has room for MEAN_AT_ONCE numbers of each input. */
static ckpt_status compute_sum(const struct computed *how, uint64_t first, size_t count, const double *base,
                               unsigned char *space, double *out, ckpt_error *err)
{
    const struct mean *mean = how->user;
    weighted_sum_kernel *kernel = weighted_sum_best_kernel();
    const ckpt_dtype number = (ckpt_dtype)dtype_info(how->dtype)->number;
    const bool is_stored = kernel != weighted_sum_scalar && dtype_has_kernels(number);
    const size_t width = dtype_info(number)->block_bytes;
    const unsigned char **in = (const unsigned char **)(void *)space;
    space += mean->n * sizeof(double);
    for (size_t k = 0; k < mean->n; k++, space += MEAN_AT_ONCE * sizeof(double)) {
        in[k] = space;
        ckpt_status st = is_stored ? source_read(how->inputs[k], first * width, space, count * width, err)
                                   : read_numbers(how->inputs[k], number, first, count,
                                                  (double *)(void *)space, err);
        if (st != CKPT_OK)
            return name_file_if_failed(st, mean->paths[k], err);
    }
    const struct weighted_sum sum = {.in = in,
                                     .n = mean->n,
                                     .weights = mean->weights,
                                     .base = base,
                                     .divisor = mean->divisor,
                                     .dt = is_stored ? number : CKPT_DT_F64};
    kernel(&sum, count, out);
    return CKPT_OK;
}

static ckpt_status compute_linear(const struct computed *how, uint64_t first, size_t count, double *out,
                                  void *scratch, ckpt_error *err)
{
    return compute_sum(how, first, count, NULL, scratch, out, err);
}

/* compute_task_arithmetic - computes base + the sum of differences from it. */
static ckpt_status compute_task_arithmetic(const struct computed *how, uint64_t first, size_t count,
                                           double *out, void *scratch, ckpt_error *err)
{
    const struct mean *mean = how->user;
    double *base = scratch;
    CKPT_TRY(mean_read(mean, how, mean->n, first, count, base, err));
    CKPT_TRY(compute_sum(how, first, count, base, (unsigned char *)(base + MEAN_AT_ONCE), out, err));
    for (size_t i = 0; i < count; i++)
        out[i] = base[i] + out[i] * mean->lambda;
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- tensors */

ckpt_status mean_know(struct mean_tensor *tensor, const struct computed *how,
                      ckpt_status (*find)(struct mean_tensor *tensor, const struct computed *how,
                                          double *scratch, ckpt_error *err),
                      double *scratch, ckpt_error *err)
{
    pthread_mutex_lock(&tensor->lock);
    ckpt_status st = tensor->is_known ? CKPT_OK : find(tensor, how, scratch, err);
    tensor->is_known = st == CKPT_OK;
    pthread_mutex_unlock(&tensor->lock);
    return st;
}

static void free_tensor(void *user)
{
    struct mean_tensor *tensor = user;
    pthread_mutex_destroy(&tensor->lock);
    free(tensor);
}

/* set_tensor - makes the user of HOW a new struct mean_tensor. */
static ckpt_status set_tensor(const struct mean *mean, struct computed *how, ckpt_error *err)
{
    struct mean_tensor *tensor = calloc(1, sizeof *tensor + mean->n * sizeof *tensor->known);
    CKPT_TRY_ALLOC(tensor, err);
    tensor->mean = mean;
    pthread_mutex_init(&tensor->lock, NULL);
    how->user = tensor;
    how->close = free_tensor;
    return CKPT_OK;
}

static void set_linear(const struct mean *mean, struct computed *how)
{
    how->compute = mean->has_base ? compute_task_arithmetic : compute_linear;
    /* the base, pointers, and the inputs */
    how->scratch = ((mean->has_base ? MEAN_AT_ONCE : 0) + mean->n + mean->n * MEAN_AT_ONCE) * sizeof(double);
    how->user = (void *)(uintptr_t)mean; /* not changed */
}

bool mean_has_dtype(uint32_t method, ckpt_dtype dt)
{
    bool is_complex = dtype_info(dt)->klass == 'c';
    return computed_has_dtype(dt) && (!is_complex || method == CKPT_AVERAGE_LINEAR);
}

ckpt_status mean_describe(const struct mean *mean, ckpt_dtype dt, uint64_t elements, struct computed *how,
                          ckpt_error *err)
{
    *how = (struct computed){.dtype = dt, .at_once = MEAN_AT_ONCE};
    if (!computed_count(dt, elements, &how->numbers))
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "it has {more than 2^64} numbers");
    if (mean->method == CKPT_AVERAGE_LINEAR) {
        set_linear(mean, how);
        return CKPT_OK;
    }
    bool is_ties = mean->method == CKPT_AVERAGE_TIES;
    how->compute = is_ties ? mean_ties : mean_slerp;
    how->scratch = is_ties ? mean_ties_scratch(mean) : mean_slerp_scratch();
    return set_tensor(mean, how, err);
}
