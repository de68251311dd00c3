/* extract_pairs.h - compares the tensors of two models on several threads, and computes the pairs of matrices
 * for their differences. */
#pragma once

#include "core/plan.h"

/* Two tensors of the same shape, and what becomes of their difference. */
struct extract_pair {
    ckpt_str name;        /* for errors */
    uint32_t base, tuned; /* rows */
    size_t rows, cols;    /* of the difference as a matrix */
    uint32_t rank;        /* wanted, then found; 0: the difference itself is wanted */
    bool is_finite;       /* the difference is; set with `differs` */
    bool is_transposed;   /* the rows of the difference are what goes in */
    uint64_t down, up;    /* where [rank, in], or the difference, and [out, rank] are in the result */
    double norm, kept;    /* as in struct svd */
};

/* The work on many pairs. */
struct extract_job {
    ckpt_file *base, *tuned;
    struct extract_pair **pairs;
    size_t npairs;
    bool *differ;     /* by pair: set by extract_compare */
    ckpt_dtype dtype; /* of the vectors */
    unsigned threads;
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint64_t before, total; /* of the progress: bytes that were done before, and all */
};

/* extract_bytes - returns the bytes that both tensors of PAIR have. */
uint64_t extract_bytes(const struct extract_job *job, const struct extract_pair *pair);
/* extract_compare - finds out which tensors differ: floats by value, others by their bytes. */
ckpt_status extract_compare(const struct extract_job *job, ckpt_error *err);
/* extract_compute - computes the pairs, and sets *OUT to the source of their numbers, which have
 * job->dtype. */
ckpt_status extract_compute(const struct extract_job *job, source **out, ckpt_error *err);
