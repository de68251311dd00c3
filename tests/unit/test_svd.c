/* The largest singular values of matrices that are made of known ones, of any size, shape and scale. Without
 * LAPACK, that it is missing is an error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/library.h"
#include "core/svd.h"
#include "unit.h"

static uint64_t state = 1;

static double next_number(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53 - 0.5;
}

/* has_lapack - returns true if LAPACK can be loaded; else prints that the test is skipped. */
static bool has_lapack(void)
{
    ckpt_error err;
    if (svd_load(&err) == CKPT_OK)
        return true;
    CU_ASSERT(library_is_missing(&err) && strstr(err.hint, "liblapack3"));
    printf("svd skipped: %s\n", err.what);
    return false;
}

/* make_matrix - returns a matrix whose singular values are SIZE, SIZE / 2, SIZE / 4 … of COUNT: products of
 * unit vectors that are orthogonal, because each is 1 at its own places only. */
static double *make_matrix(size_t rows, size_t cols, size_t count, double size)
{
    double *matrix = calloc(rows * cols, sizeof *matrix);
    CU_ASSERT_FATAL(matrix != NULL);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t n = i % count, in_rows = (rows - n - 1) / count + 1, in_cols = (cols - n - 1) / count + 1;
            if (j % count == n)
                matrix[i * cols + j] = ldexp(size, -(int)n) / sqrt((double)(in_rows * in_cols)) *
                                       ((i / count + j / count) % 2 ? -1 : 1);
        }
    return matrix;
}

/* worst_error - returns the largest difference of MATRIX and the product of the vectors of SVD. */
static double worst_error(const struct svd *svd, const double *matrix)
{
    double worst = 0;
    for (size_t i = 0; i < svd->rows; i++)
        for (size_t j = 0; j < svd->cols; j++) {
            double sum = 0;
            for (size_t k = 0; k < svd->rank; k++)
                sum += svd->left[k * svd->rows + i] * svd->right[k * svd->cols + j];
            worst = fmax(worst, fabs(sum - matrix[i * svd->cols + j]));
        }
    return worst;
}

static double square(const double *vector, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += vector[i] * vector[i];
    return sum;
}

static void check_known(size_t rows, size_t cols, size_t count, size_t rank, double size)
{
    ckpt_error err;
    double *matrix = make_matrix(rows, cols, count, size), *copy = make_matrix(rows, cols, count, size);
    struct svd svd = {.rows = rows, .cols = cols, .matrix = copy, .rank = rank, .least = SVD_LEAST};
    CU_ASSERT_EQUAL_FATAL(svd_compute(&svd, &err), CKPT_OK);
    size_t expected = count < rank ? count : rank;
    CU_ASSERT_EQUAL(svd.rank, expected);
    double all = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        all += ldexp(1, -2 * (int)i);
        kept += i < rank ? ldexp(1, -2 * (int)i) : 0;
    }
    CU_ASSERT(fabs(svd.kept - kept / all) < 1e-12);
    CU_ASSERT(fabs(svd.norm / size - sqrt(all)) < 1e-12);
    for (size_t i = 0; i < svd.rank; i++) {
        CU_ASSERT(fabs(ldexp(square(svd.left + i * rows, rows) / size, (int)i) - 1) < 1e-12);
        CU_ASSERT(fabs(ldexp(square(svd.right + i * cols, cols) / size, (int)i) - 1) < 1e-12);
    }
    if (rank >= count)
        CU_ASSERT(worst_error(&svd, matrix) < 1e-13 * size);
    svd_free(&svd);
    free(copy);
    free(matrix);
}

static void known_values_are_found(void)
{
    if (!has_lapack())
        return;
    for (size_t count = 1; count < 8; count++)
        for (size_t rank = 1; rank < 9; rank += 2) {
            check_known(40, 9, count, rank, 3);
            check_known(9, 40, count, rank, 3);
            check_known(16, 16, count, rank, 5);
        }
    check_known(1, 1, 1, 4, 0.1);
    check_known(1, 300, 1, 2, 2);
    check_known(300, 1, 1, 2, 2);
    check_known(20, 30, 5, 5, 0x1p-1000);
    check_known(20, 30, 5, 5, 0x1p+1001);
}

/* reflect - multiplies the SIZE * SIZE numbers of MATRIX from both sides by random reflections I - 2 v v^T:
 * the singular values stay, and the vectors are no longer orthogonal by their zeros. */
static void reflect(double *matrix, size_t size)
{
    double left[16], right[16], left_square, right_square;
    for (size_t i = 0; i < size; i++) {
        left[i] = next_number();
        right[i] = next_number();
    }
    left_square = square(left, size);
    right_square = square(right, size);
    for (size_t i = 0; i < size; i++) {
        double in_col = 0;
        for (size_t j = 0; j < size; j++)
            in_col += left[j] * matrix[j * size + i];
        for (size_t j = 0; j < size; j++)
            matrix[j * size + i] -= 2 * in_col / left_square * left[j];
    }
    for (size_t i = 0; i < size; i++) {
        double in_row = 0;
        for (size_t j = 0; j < size; j++)
            in_row += right[j] * matrix[i * size + j];
        for (size_t j = 0; j < size; j++)
            matrix[i * size + j] -= 2 * in_row / right_square * right[j];
    }
}

/* Values that fall by a factor of 4096 from one to the next are computed in stages, and the last ones are
 * rounding errors of the first. */
static void small_values_are_exact(void)
{
    enum { SIZE = 12, COUNT = 6 };
    static double matrix[SIZE * SIZE], copy[SIZE * SIZE];
    ckpt_error err;
    if (!has_lapack())
        return;
    for (int least = 0; least < 2; least++) {
        double *made = make_matrix(SIZE, SIZE, COUNT, 1);
        for (size_t i = 0; i < SIZE * SIZE; i++) /* those of row I were 2^-(I % COUNT) */
            matrix[i] = ldexp(made[i], -11 * (int)(i / SIZE % COUNT));
        free(made);
        reflect(matrix, SIZE);
        memcpy(copy, matrix, sizeof copy);
        struct svd svd = {.rows = SIZE, .cols = SIZE, .matrix = copy, .rank = SIZE};
        svd.least = least ? 0x1p-20 : SVD_LEAST;
        CU_ASSERT_EQUAL_FATAL(svd_compute(&svd, &err), CKPT_OK);
        CU_ASSERT_EQUAL(svd.rank, least ? 2u : 4u);
        for (size_t i = 0; i < svd.rank; i++)
            CU_ASSERT(fabs(ldexp(square(svd.left + i * SIZE, SIZE), 12 * (int)i) - 1) < 1e-4);
        CU_ASSERT(worst_error(&svd, matrix) < ldexp(1, -12 * (int)svd.rank) + 1e-12);
        svd_free(&svd);
    }
}

/* Signs do not depend on those that LAPACK chose: turning the matrix turns only the longer vectors. */
static void signs_are_fixed(void)
{
    enum { ROWS = 30, COLS = 7, RANK = 4 };
    static double one[ROWS * COLS], other[ROWS * COLS];
    ckpt_error err;
    struct svd left = {.rows = ROWS, .cols = COLS, .matrix = one, .rank = RANK, .least = SVD_LEAST},
               right = left;
    right.matrix = other;
    if (!has_lapack())
        return;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        one[i] = next_number();
        other[i] = -one[i];
    }
    CU_ASSERT_EQUAL_FATAL(svd_compute(&left, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(svd_compute(&right, &err), CKPT_OK);
    for (size_t k = 0; k < RANK; k++) {
        double largest = 0;
        for (size_t i = 0; i < COLS; i++) {
            double number = left.right[k * COLS + i];
            CU_ASSERT(fabs(number - right.right[k * COLS + i]) < 1e-12);
            largest = fabs(number) > fabs(largest) ? number : largest;
        }
        CU_ASSERT(largest > 0);
        for (size_t i = 0; i < ROWS; i++)
            CU_ASSERT(fabs(left.left[k * ROWS + i] + right.left[k * ROWS + i]) < 1e-12);
    }
    svd_free(&left);
    svd_free(&right);
}

/* The same numbers give the same bits, and all values reproduce the matrix. */
static void random_matrices_come_back(void)
{
    if (!has_lapack())
        return;
    for (int seed = 0; seed < 30; seed++) {
        ckpt_error err;
        state = (uint64_t)seed + 1;
        size_t rows = 1 + (size_t)seed * 7 % 53, cols = 1 + (size_t)seed * 11 % 47;
        double *matrix = calloc(3 * rows * cols, sizeof *matrix);
        CU_ASSERT_FATAL(matrix != NULL);
        for (size_t i = 0; i < rows * cols; i++)
            matrix[i] = matrix[rows * cols + i] = matrix[2 * rows * cols + i] = next_number();
        struct svd svd = {.rows = rows, .cols = cols, .matrix = matrix, .rank = 64, .least = SVD_LEAST},
                   again = svd;
        again.matrix += rows * cols;
        CU_ASSERT_EQUAL_FATAL(svd_compute(&svd, &err), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(svd_compute(&again, &err), CKPT_OK);
        CU_ASSERT(worst_error(&svd, matrix + 2 * rows * cols) < 1e-12);
        CU_ASSERT(svd.kept > 1 - 1e-12);
        CU_ASSERT(memcmp(svd.left, again.left, svd.rank * rows * sizeof *matrix) == 0 &&
                  memcmp(svd.right, again.right, svd.rank * cols * sizeof *matrix) == 0);
        svd_free(&svd);
        svd_free(&again);
        free(matrix);
    }
}

void suite_svd(void)
{
    UNIT(known_values_are_found);
    UNIT(small_values_are_exact);
    UNIT(signs_are_fixed);
    UNIT(random_matrices_come_back);
}
