/* lora_source.h - a source of the weight that LoRA makes of a weight: W + scale * UP DOWN, in doubles and
 * rounded once. Only the matrices of the adapters are kept in memory, while they are needed. */
#pragma once

#include <stdatomic.h>

#include "core/file.h"

/* A tensor of an open file; FILE NULL: there is none. */
struct lora_tensor {
    ckpt_file *file;
    uint32_t row;
};

/* What one adapter adds to a weight. The weight is a matrix, [out, in] with all dimensions but the first
 * as `in`, or TRANSPOSED, [in, out]. */
struct lora_term {
    struct lora_tensor down,
        up; /* [rank, in], [out, rank]; without DOWN, `in` is 1, and UP is added as it is */
    struct lora_tensor magnitude; /* DoRA: `out` numbers, the norms that the sums over `in` get; or absent */
    uint64_t rank;
    double scale;
    bool is_transposed;
};

struct lora_weight {
    struct lora_tensor base;       /* W; its elements are read as the table describes them now */
    ckpt_dtype dtype;              /* of the result */
    uint64_t rows, cols;           /* of the weight as a matrix */
    const struct lora_term *terms; /* added in this order */
    size_t nterms;
};

/* The matrices of all weights that are in memory. */
struct lora_memory;
/* lora_memory_new - returns an empty memory, NULL: out of memory. Each source holds it;
 * lora_memory_release drops the reference of the caller. */
struct lora_memory *lora_memory_new(void);
void lora_memory_release(struct lora_memory *memory);

/* lora_term_bytes - returns the memory that the matrices of TERM, of a weight of ROWS and COLS, take while
 * the weight is read; UINT64_MAX: more than can be counted. */
#define LORA_TERM_MAX (UINT64_C(1) << 30)
uint64_t lora_term_bytes(const struct lora_term *term, uint64_t rows, uint64_t cols);
/* lora_source - returns the source of FROM, whose files outlive it, and whose terms have at most
 * LORA_TERM_MAX bytes. Terms are copied. IS_OVERFLOW: as in struct computed. NULL: no memory. */
source *lora_source(const struct lora_weight *from, struct lora_memory *memory, atomic_bool *is_overflow);
