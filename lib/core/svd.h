/* svd.h - the largest singular values of a matrix and their vectors, by LAPACK, which is loaded on demand.
 *
 * The vectors of the shorter side are eigenvectors of the matrix times its transpose, those of the longer
 * side are the products of the matrix with them. So the approximation is the projection of the matrix to the
 * vectors. */
#pragma once

#include "base/error.h"

#define SVD_LEAST 0x1p-40 /* smaller values are rounding errors */

struct svd {
    size_t rows, cols;
    double *matrix; /* row-major, at least one number is not 0 and none is infinite or NaN; is scaled */
    size_t rank;    /* how many values are wanted, at least 1; then how many there are */
    double least;   /* values below this share of the largest are taken for 0; at least SVD_LEAST */
    /* RANK vectors of ROWS numbers, and as many of COLS, one after the other: the sum of the products of
     * each pair approximates the matrix. Both vectors of a pair have the same length, the square root of the
     * singular value; of the right one, or of the left one if there are fewer rows than columns, the first
     * number of the largest magnitude is positive. Values decrease. */
    double *left, *right;
    double norm; /* of the matrix: the square root of the sum of the squares */
    double kept; /* the sum of the squares of the RANK values, divided by that of all, at most 1 */
};

/* svd_load - loads LAPACK. CKPT_EUNSUPPORTED: it is missing, or has integers of 64 bits; the hint is a
 * package that has it. */
ckpt_status svd_load(ckpt_error *err);
/* svd_compute - sets the other fields of SVD from ROWS, COLS, MATRIX and RANK; svd_free frees LEFT and RIGHT,
 * also after a failure. Several threads may call it. Besides the matrix it needs memory for the square of the
 * smaller of ROWS and COLS, and for RANK vectors of each side, one of them twice. The same library gives the
 * same bits. CKPT_EUNSUPPORTED: it is missing, or what it has computed is wrong, which is checked. */
ckpt_status svd_compute(struct svd *svd, ckpt_error *err);
void svd_free(struct svd *svd);
