/* average.h - `ckpt average`: makes each tensor of floats of a plan a mean of the tensors of this name in
 * several files. The numbers are computed when they are written (core/computed_source.h). */
#pragma once

#include <pthread.h>

#include "core/computed_source.h"
#include "op/row_change.h"

/* One of the files. */
struct average_file {
    const char *path;
    ckpt_file *f;
    const char *root; /* the part of it that is used, as root_find takes it; NULL: all */
    uint32_t *rows;   /* by entry of the plan: the tensor of that name */
};

struct average {
    ckpt_plan *p;
    const ckpt_average_options *options;
    struct average_file *files; /* those of options->paths, then the base, if there is one */
    size_t nfiles;
    /* open - opens the file PATH as *OUT, which the file of the plan then owns. */
    ckpt_status (*open)(ckpt_plan *p, const char *path, ckpt_file **out, ckpt_error *err);
};

/* plan_average - makes the tensors of P what OPTIONS, which mean_check_options has accepted, describe. */
ckpt_status plan_average(ckpt_plan *p, const ckpt_average_options *options,
                         ckpt_status (*open)(ckpt_plan *p, const char *path, ckpt_file **out,
                                             ckpt_error *err),
                         ckpt_error *err);

/* average_open_files - opens the files, and finds in each the tensors of the plan. Differences of names,
 * dtypes and shapes become mismatches of the plan. */
ckpt_status average_open_files(struct average *average, ckpt_error *err);
/* average_compare_others - adds a mismatch for each tensor for which IS_AVERAGED, an array by entry, is
 * false, and for each value that is no tensor, that differs between the plan's file and another. */
ckpt_status average_compare_others(const struct average *average, const bool *is_averaged, ckpt_error *err);
/* average_fail_if_mismatched - returns CKPT_ELOSSY if there are mismatches, the error lists the first of
 * them. */
ckpt_status average_fail_if_mismatched(const struct average *average, ckpt_error *err);

/* What all tensors of an average have in common. It is in the arena of the file of the plan, whose rows use
 * it. */
struct mean {
    ckpt_average_method method;
    size_t n;                /* inputs, without the base */
    bool has_base;           /* the last input, after these, is the base */
    bool normalizes;         /* ties: the sum of what is kept of an element is divided by its weights */
    const double *weights;   /* N of them */
    double divisor;          /* linear: the weighted sum is divided by it */
    const double *densities; /* ties: N of them */
    double lambda, t;
    const char **paths; /* by input, for errors */
};

/* mean_check_options - fails unless OPTIONS describe a mean. */
ckpt_status mean_check_options(const ckpt_average_options *options, ckpt_error *err);
/* mean_new - returns the mean that the options of AVERAGE describe, in A; NULL: no memory. */
struct mean *mean_new(const struct average *average, arena *a);
/* mean_has_dtype - returns true if METHOD computes tensors of dtype DT. */
bool mean_has_dtype(uint32_t method, ckpt_dtype dt);
/* mean_describe - sets *HOW to how MEAN computes a tensor of ELEMENTS elements of DT, whose inputs the caller
 * adds. CKPT_ELIMIT: too many elements. */
ckpt_status mean_describe(const struct mean *mean, ckpt_dtype dt, uint64_t elements, struct computed *how,
                          ckpt_error *err);

/* ------------------------------------------------------- for the methods */

enum { MEAN_AT_ONCE = 8192 }; /* numbers */

/* A tensor of which something is known only after all of it was read: by the first thread that needs it. */
struct mean_tensor {
    const struct mean *mean;
    pthread_mutex_t lock;
    bool is_known;
    /* ties, by input: of which magnitude on its differences are kept; slerp, by input: its factor */
    double known[];
};

/* mean_read - reads COUNT numbers of input INDEX from number FIRST on. */
ckpt_status mean_read(const struct mean *mean, const struct computed *how, size_t index, uint64_t first,
                      size_t count, double *out, ckpt_error *err);
/* mean_know - calls FIND, which sets TENSOR->known, unless it was called before; SCRATCH is for FIND. */
ckpt_status mean_know(struct mean_tensor *tensor, const struct computed *how,
                      ckpt_status (*find)(struct mean_tensor *tensor, const struct computed *how,
                                          double *scratch, ckpt_error *err),
                      double *scratch, ckpt_error *err);
/* mean_ties_scratch - returns the bytes of scratch that mean_ties needs. */
size_t mean_ties_scratch(const struct mean *mean);
size_t mean_slerp_scratch(void);
/* mean_ties, mean_slerp - compute numbers, as struct computed has it; USER is a struct mean_tensor. */
ckpt_status mean_ties(const struct computed *how, uint64_t first, size_t count, double *out, void *scratch,
                      ckpt_error *err);
ckpt_status mean_slerp(const struct computed *how, uint64_t first, size_t count, double *out, void *scratch,
                       ckpt_error *err);
