/* low_rank.h - adds the product of two thin matrices, times a scale, to a part of a large matrix: what
 * LoRA adds to a weight. The same bits on any CPU, and for any part. */
#pragma once

#include "core/dtype.h"

#define LOW_RANK_COLS   24u /* columns of a panel */
#define LOW_RANK_ROWS   4u  /* rows that a kernel takes at a time */
#define LOW_RANK_VECTOR 8u  /* elements that a kernel of low_rank_add_stored rounds at a time */

/* LEFT [rows, rank] times RIGHT [rank, cols]. */
struct low_rank {
    uint64_t rows, cols;
    size_t rank;
    double *left; /* row-major */
    double
        *right; /* by low_rank_index: panels of columns, each row-major, the last one with zeros at its end */
    /* No product of a number of LEFT and one of RIGHT needs more bits than a double has, because both are
     * floats: a fused multiply-add gives the same as two operations. */
    bool are_floats;
    /* The same matrices as floats, and the factors that the rows of LEFT and the columns of RIGHT have in the
     * bound of the error; NULL: low_rank_make_narrow has not made them. */
    float *narrow_left, *narrow_right, *row_factors, *col_factors;
};

/* low_rank_right_count - sets *OUT to the numbers that the right matrix takes; false: overflow. */
bool low_rank_right_count(uint64_t cols, uint64_t rank, uint64_t *out);
/* low_rank_index - returns where the number in row ROW and column COL of the right matrix is, whose size was
 * checked by low_rank_right_count. */
static inline size_t low_rank_index(size_t rank, size_t row, size_t col)
{
    return (col / LOW_RANK_COLS * rank + row) * LOW_RANK_COLS + col % LOW_RANK_COLS;
}
/* low_rank_free - frees the arrays of PRODUCT. */
void low_rank_free(struct low_rank *product);
/* low_rank_add - adds SCALE times the product to OUT, the COUNT numbers from number FIRST on of a matrix of
 * rows * cols numbers in row-major order. A number of the product is the sum of its terms in the order of the
 * rank, from 0 on, each operation rounded to a double. */
void low_rank_add(const struct low_rank *product, double scale, uint64_t first, size_t count, double *out);

#define LOW_RANK_NARROW_MAX 4096u /* the rank of which the error is bounded */
/* low_rank_has_narrow - returns true if this CPU can run low_rank_add_stored for DT and RANK; are_floats must
 * be true, too. low_rank_make_narrow makes what that needs; false: no memory. */
bool low_rank_has_narrow(ckpt_dtype dt, uint64_t rank);
bool low_rank_make_narrow(struct low_rank *product);
/* What rounds COUNT NUMBERS, which it may overwrite, to the elements OUT; several threads call it. */
struct low_rank_rounding {
    void (*round)(void *user, double *numbers, size_t count, unsigned char *out);
    void *user;
};
/* low_rank_add_stored - adds SCALE times the product to the COUNT elements of DT at STORED, from number FIRST
 * on: the same as low_rank_add on doubles and ROUNDING of these, several times as fast. It computes in
 * floats, and bounds the error. Where the numbers within that bound are not all rounded to the same element,
 * it computes in doubles. */
void low_rank_add_stored(const struct low_rank *product, ckpt_dtype dt, double scale, uint64_t first,
                         size_t count, unsigned char *stored, const struct low_rank_rounding *rounding);

/* low_rank_kernel - adds to COUNT <= LOW_RANK_ROWS rows of one panel: OUT has numbers of each row, STRIDE
 * apart. LEFT is the first of the rows. */
typedef void low_rank_kernel(const double *left, size_t rank, const double *panel, double scale, size_t count,
                             double *out, size_t stride);
struct low_rank_kernels {
    low_rank_kernel *add_panel;  /* to LOW_RANK_COLS columns */
    low_rank_kernel *add_vector; /* to LOW_RANK_VECTOR columns, the first of which is in PANEL */
};
extern const struct low_rank_kernels low_rank_scalar;
/* low_rank_best - returns the fastest kernels that this CPU can run; unless ARE_FLOATS, those that round
 * each product. */
const struct low_rank_kernels *low_rank_best(bool are_floats);

/* A group of at most LOW_RANK_ROWS rows in a panel, of floats. */
struct low_rank_tile {
    ckpt_dtype dtype;
    const float *left, *panel;                  /* the first row; the panel */
    const float *row_factors, *col_factors;     /* of these rows, and of the columns of the panel */
    size_t rank, nrows, first_vector, nvectors; /* the vectors of the panel that are added to */
    float scale;
    float per_weight, per_factors,
        least;             /* bound of the error: per_weight * |w| + per_factors * factors + least */
    unsigned char *stored; /* the first vector of the panel in the first row */
    size_t stride;         /* bytes from row to row */
};
/* low_rank_add_tile - adds to TILE where the result is certain. Returns the vectors where it is not, which
 * stay: bit 4 * row + vector. Only if low_rank_has_narrow. */
uint32_t low_rank_add_tile(const struct low_rank_tile *tile);
bool low_rank_has_tiles(void);
