/* svd.c - see svd.h.
 *
 * With D of l rows and k columns, or transposed, k <= l:
 *   G = D^T D                    dsyrk
 *   G Z = Z diag(s^2)            dsyevr, the largest eigenvalues
 *   Y = D Z, s = lengths of Y    dgemm
 * The pairs of Z and Y, scaled to equal lengths, are the result. LAPACK stores matrices by columns, so D in
 * row-major order is the transposed D there.
 *
 * G has the squares of the singular values, and so rounding errors of 2^-53 of the largest square. Only those
 * values are accepted that are not much smaller than the largest one; then what they make is subtracted from
 * D, and the others are computed of the rest. Mostly, one stage is enough.
 *
 * Some builds of OpenBLAS compute wrong numbers on processors that are newer than they are. So the results
 * are checked by plain C, in a few passes over D, which take little time compared with G: that Z is
 * orthonormal, that a random combination of Y is D times that of Z, that D^T Y is Z diag(s^2), and that D
 * times vectors orthogonal to Z is not longer than s. */
#include "core/svd.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/library.h"

/* Functions of Fortran: all arguments are pointers, and after them come the lengths of the texts. */
void dsyrk_(const char *uplo, const char *trans, const int32_t *rows, const int32_t *inner,
            const double *alpha, const double *factor, const int32_t *factor_stride, const double *beta,
            double *out, const int32_t *out_stride, size_t uplo_length, size_t trans_length);
void dgemm_(const char *left_trans, const char *right_trans, const int32_t *rows, const int32_t *cols,
            const int32_t *inner, const double *alpha, const double *left, const int32_t *left_stride,
            const double *right, const int32_t *right_stride, const double *beta, double *out,
            const int32_t *out_stride, size_t left_trans_length, size_t right_trans_length);
void dsyevr_(const char *jobz, const char *range, const char *uplo, const int32_t *rows, double *matrix,
             const int32_t *stride, const double *low, const double *high, const int32_t *first,
             const int32_t *last, const double *tolerance, int32_t *found, double *values, double *vectors,
             const int32_t *vector_stride, int32_t *support, double *space, const int32_t *space_size,
             int32_t *integers, const int32_t *integers_size, int32_t *info, size_t jobz_length,
             size_t range_length, size_t uplo_length);
void ilaver_(int64_t *major, int64_t *minor, int64_t *patch);
void openblas_set_num_threads(int threads);

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define FUNCTIONS(X) X(dgemm_) X(dsyevr_) X(dsyrk_) X(ilaver_)
#define SONAMES      "liblapack.so.3", "libopenblas.so.0", "libflexiblas.so.3"

struct lapack {
    FUNCTIONS(LIBRARY_POINTER)
};

LIBRARY_NOTE(lapack, "liblapack.so.3", "suggested")
LIBRARY_LOADED(lapack, FUNCTIONS, "computes singular values", SONAMES)

/* What only OpenBLAS has. */
#define OPENBLAS_FUNCTIONS(X) X(openblas_set_num_threads)

struct openblas {
    OPENBLAS_FUNCTIONS(LIBRARY_POINTER)
};

LIBRARY_LOADED(openblas, OPENBLAS_FUNCTIONS, "computes singular values", SONAMES)

#define ERROR_MAX  0x1p-30 /* of what is checked, relative to the largest value */
#define ACCEPTED   0x1p-12 /* the share of the largest value, in a stage, of the smallest that is accepted */
#define SEED       UINT64_C(0x9e3779b97f4a7c15)
#define ITERATIONS 2 /* of the search for a larger value */

/* The shorter and longer side of the matrix, and what a stage computes. */
struct work {
    const struct lapack *lib;
    const struct svd *svd;
    size_t k, l;
    size_t rank;                                 /* of this stage */
    bool is_tall;                                /* the columns are the shorter side */
    double *gram;                                /* k * k */
    double *z;                                   /* rank vectors of k numbers */
    double *y;                                   /* rank vectors of l numbers */
    double *squares;                             /* their lengths, squared */
    double *combination, *in_k, *in_l, *other_k; /* for the checks */
};

/* ------------------------------------------------------------------------------ library */

/* has_narrow_integers - returns true if the integers of LIB have 32 bits: those of 64 bits would set the
 * upper halves. */
static bool has_narrow_integers(const struct lapack *lib)
{
    int64_t version[3] = {-1, -1, -1};
    int32_t halves[2];
    lib->ilaver_(&version[0], &version[1], &version[2]);
    memcpy(halves, &version[0], sizeof halves);
    return (halves[0] == -1) != (halves[1] == -1);
}

static ckpt_status load(const struct lapack **lib, ckpt_error *err)
{
    const struct openblas *openblas;
    ckpt_error ignored;
    if (load_lapack(lib, err) != CKPT_OK) {
        error_add_hint(err, "install it: apt install libopenblas0, or liblapack3, which takes longer");
        return CKPT_EUNSUPPORTED;
    }
    if (!has_narrow_integers(*lib))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "LAPACK has integers of {64 bits}, not of {=32 bits}\n"
                    "install another: apt install libopenblas0, or liblapack3");
    if (load_openblas(&openblas, &ignored) == CKPT_OK)
        openblas->openblas_set_num_threads(1); /* else sums would depend on the number of processors */
    return CKPT_OK;
}

ckpt_status svd_load(ckpt_error *err)
{
    const struct lapack *lib;
    return load(&lib, err);
}

/* ------------------------------------------------------------------------------ vectors */

static double dot(const double *left, const double *right, size_t count)
{
    double sums[8] = {0};
    size_t i = 0;
    for (; count - i >= 8; i += 8)
        for (size_t lane = 0; lane < 8; lane++)
            sums[lane] += left[i + lane] * right[i + lane];
    for (; i < count; i++)
        sums[i % 8] += left[i] * right[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* add_scaled - adds FACTOR times IN to OUT. */
static void add_scaled(double factor, const double *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] += factor * in[i];
}

/* combine - sets OUT to the sum of FACTORS times the rank vectors of COUNT numbers at VECTORS. */
static void combine(const struct work *work, const double *vectors, const double *factors, size_t count,
                    double *out)
{
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < work->rank; i++)
        add_scaled(factors[i], vectors + i * count, count, out);
}

/* multiply_rows, multiply_cols - set OUT to the matrix, or the transposed one, times IN. */
static void multiply_rows(const struct svd *svd, const double *in, double *out)
{
    for (size_t i = 0; i < svd->rows; i++)
        out[i] = dot(svd->matrix + i * svd->cols, in, svd->cols);
}

static void multiply_cols(const struct svd *svd, const double *in, double *out)
{
    memset(out, 0, svd->cols * sizeof *out);
    for (size_t i = 0; i < svd->rows; i++)
        add_scaled(in[i], svd->matrix + i * svd->cols, svd->cols, out);
}

/* to_long, to_short - multiply a vector of the shorter side by the matrix, and one of the longer side by the
 * transposed matrix. */
static void to_long(const struct work *work, const double *in, double *out)
{
    (work->is_tall ? multiply_rows : multiply_cols)(work->svd, in, out);
}

static void to_short(const struct work *work, const double *in, double *out)
{
    (work->is_tall ? multiply_cols : multiply_rows)(work->svd, in, out);
}

/* ------------------------------------------------------------------------------- checks */

static bool is_orthonormal(const struct work *work)
{
    for (size_t i = 0; i < work->rank; i++)
        for (size_t j = 0; j <= i; j++) {
            double product = dot(work->z + i * work->k, work->z + j * work->k, work->k);
            if (!(fabs(product - (i == j)) <= ERROR_MAX))
                return false;
        }
    return true;
}

static bool decreases(const struct work *work)
{
    for (size_t i = 1; i < work->rank; i++)
        if (!(work->squares[i] <= work->squares[i - 1] + ERROR_MAX * work->squares[0]))
            return false;
    return true;
}

/* distance - returns the length of LEFT - RIGHT; overwrites LEFT. */
static double distance(double *left, const double *right, size_t count)
{
    add_scaled(-1, right, count, left);
    return sqrt(dot(left, left, count));
}

MODULO static double next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(int64_t)*state * 0x1p-63;
}

/* are_pairs - returns true if, for a random combination of the vectors, the matrix times z is y, and the
 * transposed matrix times y is z diag(s^2). */
static bool are_pairs(const struct work *work)
{
    uint64_t state = SEED;
    const double largest = sqrt(work->squares[0]), size = sqrt((double)work->rank);
    double *factors = work->combination;
    for (size_t i = 0; i < work->rank; i++)
        factors[i] = next_random(&state);
    combine(work, work->z, factors, work->k, work->other_k);
    to_long(work, work->other_k, work->in_l);
    double *in_y = work->in_l + work->l;
    combine(work, work->y, factors, work->l, in_y);
    if (!(distance(work->in_l, in_y, work->l) <= ERROR_MAX * largest * size))
        return false;
    to_short(work, in_y, work->in_k);
    for (size_t i = 0; i < work->rank; i++)
        factors[i] *= work->squares[i];
    combine(work, work->z, factors, work->k, work->other_k);
    return distance(work->in_k, work->other_k, work->k) <= ERROR_MAX * work->squares[0] * size;
}

/* make_orthogonal - removes from the vector IN_K what the vectors z have of it, and makes its length 1.
 * False: nothing is left. */
static bool make_orthogonal(const struct work *work, double *in_k)
{
    for (int pass = 0; pass < 2; pass++) /* the second removes the rounding errors of the first */
        for (size_t i = 0; i < work->rank; i++) {
            const double *vector = work->z + i * work->k;
            add_scaled(-dot(vector, in_k, work->k), vector, work->k, in_k);
        }
    const double length = sqrt(dot(in_k, in_k, work->k));
    for (size_t i = 0; i < work->k; i++)
        in_k[i] /= length;
    return length > 0;
}

/* are_largest - returns false if a larger value is found by a few power iterations, which begin with a random
 * vector that is orthogonal to all z. */
static bool are_largest(const struct work *work)
{
    uint64_t state = SEED;
    const double least = work->squares[work->rank - 1], tolerance = ERROR_MAX * work->squares[0];
    for (size_t i = 0; i < work->k; i++)
        work->in_k[i] = next_random(&state);
    for (int i = 0; i <= ITERATIONS; i++) {
        if (work->rank == work->k || !make_orthogonal(work, work->in_k))
            return true;
        to_long(work, work->in_k, work->in_l);
        if (!(dot(work->in_l, work->in_l, work->l) <= least + tolerance))
            return false;
        to_short(work, work->in_l, work->in_k);
        if (!(dot(work->in_k, work->in_k, work->k) > tolerance * tolerance))
            return true; /* only rounding errors are left */
    }
    return true;
}

static ckpt_status check(const struct work *work, ckpt_error *err)
{
    const char *what = !is_orthonormal(work) ? "vectors that are not orthonormal"
                       : !decreases(work)    ? "values that do not decrease"
                       : !are_pairs(work)    ? "vectors that are not those of the matrix"
                       : !are_largest(work)  ? "values that are not the largest"
                                             : NULL;
    if (!what)
        return CKPT_OK;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "LAPACK has computed {%s}: the library is wrong, or wrong on this processor\n"
                "use another, such as liblapack3 and libblas3 of Debian, or a newer libopenblas0",
                what);
}

/* ------------------------------------------------------------------------------ compute */

/* fail_eigenvectors - fails because dsyevr found COUNT of the vectors that were wanted. */
static ckpt_status fail_eigenvectors(const struct work *work, int32_t info, int32_t count, ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "dsyevr of LAPACK found {%d} of {=%zu} eigenvectors, with status %d", (int)count, work->rank,
                (int)info);
}

/* make_eigenvectors - sets work->z to the eigenvectors of work->gram, which it overwrites, by decreasing
 * eigenvalues. */
static ckpt_status make_eigenvectors(struct work *work, ckpt_error *err)
{
    const int32_t n = (int32_t)work->k, first = (int32_t)(work->k - work->rank + 1), all = -1;
    const double zero = 0;
    int32_t found = 0, info = 0, isize = 0;
    double size = 0;
    work->lib->dsyevr_("V", "I", "U", &n, work->gram, &n, &zero, &zero, &first, &n, &zero, &found, NULL, NULL,
                       &n, NULL, &size, &all, &isize, &all, &info, 1, 1, 1);
    if (info || !(size >= 1 && size <= INT32_MAX) || isize < 1)
        return fail_eigenvectors(work, info, 0, err);
    const int32_t lwork = (int32_t)size;
    double *values = calloc(work->k, sizeof *values), *space = malloc((size_t)lwork * sizeof *space);
    double *vectors = calloc(work->rank * work->k, sizeof *vectors);
    int32_t *support = calloc(2 * work->k, sizeof *support), *ispace = malloc((size_t)isize * sizeof *ispace);
    ckpt_status st = values && space && vectors && support && ispace ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK) {
        work->lib->dsyevr_("V", "I", "U", &n, work->gram, &n, &zero, &zero, &first, &n, &zero, &found, values,
                           vectors, &n, support, space, &lwork, ispace, &isize, &info, 1, 1, 1);
        if (info || found < 0 || (size_t)found != work->rank)
            st = fail_eigenvectors(work, info, found, err);
    }
    for (size_t i = 0; st == CKPT_OK && i < work->rank; i++) /* they increase */
        memcpy(work->z + i * work->k, vectors + (work->rank - 1 - i) * work->k, work->k * sizeof *vectors);
    free(values);
    free(space);
    free(vectors);
    free(support);
    free(ispace);
    return st;
}

/* make_pairs - sets work->z, work->y and work->squares. */
static ckpt_status make_pairs(struct work *work, ckpt_error *err)
{
    const int32_t k = (int32_t)work->k, l = (int32_t)work->l, rank = (int32_t)work->rank;
    const int32_t cols = (int32_t)work->svd->cols;
    const double zero = 0, one = 1;
    work->lib->dsyrk_("U", work->is_tall ? "N" : "T", &k, &l, &one, work->svd->matrix, &cols, &zero,
                      work->gram, &k, 1, 1);
    CKPT_TRY(make_eigenvectors(work, err));
    work->lib->dgemm_(work->is_tall ? "T" : "N", "N", &l, &rank, &k, &one, work->svd->matrix, &cols, work->z,
                      &k, &zero, work->y, &l, 1, 1);
    for (size_t i = 0; i < work->rank; i++)
        work->squares[i] = dot(work->y + i * work->l, work->y + i * work->l, work->l);
    return check(work, err);
}

/* set_sign - turns pair INDEX so that the first number of the largest magnitude in its z is positive. */
static void set_sign(struct work *work, size_t index)
{
    double *z = work->z + index * work->k, *y = work->y + index * work->l;
    size_t at = 0;
    for (size_t i = 1; i < work->k; i++)
        if (fabs(z[i]) > fabs(z[at]))
            at = i;
    if (z[at] > 0)
        return;
    for (size_t i = 0; i < work->k; i++)
        z[i] = -z[i];
    for (size_t i = 0; i < work->l; i++)
        y[i] = -y[i];
}

/* scale_pair - gives the vectors of pair INDEX the length of the root of its value. The matrix was divided by
 * 2^EXPONENT. */
static void scale_pair(struct work *work, size_t index, int exponent)
{
    double *z = work->z + index * work->k, *y = work->y + index * work->l;
    const double value = sqrt(work->squares[index]), root = sqrt(ldexp(value, exponent & 1));
    const int half = (exponent - (exponent & 1)) / 2;
    for (size_t i = 0; i < work->k; i++)
        z[i] = ldexp(z[i] * root, half);
    for (size_t i = 0; i < work->l; i++)
        y[i] = ldexp(y[i] / value * root, half);
}

/* scale_matrix - divides the matrix by a power of two, so that its largest magnitude is between 0.5 and 1.
 * Returns the exponent. */
static int scale_matrix(struct svd *svd)
{
    const size_t count = svd->rows * svd->cols;
    double largest = 0;
    int exponent;
    for (size_t i = 0; i < count; i++)
        largest = fabs(svd->matrix[i]) > largest ? fabs(svd->matrix[i]) : largest;
    (void)frexp(largest, &exponent);
    for (size_t i = 0; i < count; i++)
        svd->matrix[i] = ldexp(svd->matrix[i], -exponent);
    return exponent;
}

/* accept - returns how many of the values of a stage are accepted. LARGEST: the square of the largest value
 * of all. */
static size_t accept(const struct work *work, double largest)
{
    const double least = work->svd->least * work->svd->least * largest;
    size_t count = 0;
    while (count < work->rank && work->squares[count] > least &&
           work->squares[count] >= ACCEPTED * ACCEPTED * work->squares[0])
        count++;
    return count;
}

/* subtract - subtracts from the matrix what the first COUNT pairs make. */
static void subtract(const struct work *work, size_t count, double *matrix)
{
    const struct svd *svd = work->svd;
    const double *left = work->is_tall ? work->y : work->z, *right = work->is_tall ? work->z : work->y;
    for (size_t i = 0; i < svd->rows; i++)
        for (size_t n = 0; n < count; n++)
            add_scaled(-left[n * svd->rows + i], right + n * svd->cols, svd->cols, matrix + i * svd->cols);
}

/* make_stages - computes up to svd->rank pairs at work->z and work->y, and their values at work->squares, and
 * sets *RANK to how many there are. */
static ckpt_status make_stages(struct svd *svd, struct work *work, size_t *rank, ckpt_error *err)
{
    struct work stage = *work;
    double largest = 0;
    *rank = 0;
    for (size_t wanted = work->rank; wanted; wanted = work->rank - *rank) {
        stage.rank = wanted;
        stage.z = work->z + *rank * work->k;
        stage.y = work->y + *rank * work->l;
        stage.squares = work->squares + *rank;
        CKPT_TRY(make_pairs(&stage, err));
        largest = *rank ? largest : stage.squares[0];
        const size_t accepted = accept(&stage, largest);
        *rank += accepted;
        if (!accepted || *rank == work->rank)
            return CKPT_OK;
        subtract(&stage, accepted, svd->matrix);
        const double all = dot(svd->matrix, svd->matrix, svd->rows * svd->cols);
        if (all <= svd->least * svd->least * largest)
            return CKPT_OK; /* so is the largest of the values that are left */
    }
    return CKPT_OK;
}

/* finish - sets the results of SVD: RANK pairs. ALL: the sum of the squares of the matrix, which was
 * divided by 2^EXPONENT. */
static void finish(struct svd *svd, struct work *work, size_t rank, double all, int exponent)
{
    double kept = 0;
    for (size_t i = 0; i < rank; i++) {
        kept += work->squares[i];
        set_sign(work, i);
        scale_pair(work, i, exponent);
    }
    svd->rank = rank;
    svd->norm = ldexp(sqrt(all), exponent);
    svd->kept = kept < all ? kept / all : 1;
    svd->left = work->is_tall ? work->y : work->z;
    svd->right = work->is_tall ? work->z : work->y;
    work->z = work->y = NULL;
}

static double *new_numbers(size_t count, size_t times)
{
    uint64_t all = size_mul(count, times);
    return all < SIZE_MAX ? calloc((size_t)all, sizeof(double)) : NULL;
}

ckpt_status svd_compute(struct svd *svd, ckpt_error *err)
{
    struct work work = {.svd = svd, .is_tall = svd->cols <= svd->rows};
    work.k = work.is_tall ? svd->cols : svd->rows;
    work.l = work.is_tall ? svd->rows : svd->cols;
    work.rank = svd->rank < work.k ? svd->rank : work.k;
    svd->left = svd->right = NULL;
    CKPT_TRY(load(&work.lib, err));
    if (work.l > INT32_MAX / 2)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a matrix of {%zu} rows or columns; LAPACK takes {=%d}",
                    work.l, INT32_MAX / 2);
    work.gram = new_numbers(work.k, work.k);
    work.z = new_numbers(work.k, work.rank);
    work.y = new_numbers(work.l, work.rank);
    work.squares = new_numbers(work.rank, 1);
    work.combination = new_numbers(work.rank, 1);
    work.in_k = new_numbers(work.k, 1);
    work.other_k = new_numbers(work.k, 1);
    work.in_l = new_numbers(work.l, 2);
    bool ok = work.gram && work.z && work.y && work.squares && work.combination && work.in_k &&
              work.other_k && work.in_l;
    ckpt_status st = ok ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK) {
        size_t rank;
        const int exponent = scale_matrix(svd);
        const double all = dot(svd->matrix, svd->matrix, svd->rows * svd->cols);
        st = make_stages(svd, &work, &rank, err);
        if (st == CKPT_OK)
            finish(svd, &work, rank, all, exponent);
    }
    free(work.gram);
    free(work.z);
    free(work.y);
    free(work.squares);
    free(work.combination);
    free(work.in_k);
    free(work.other_k);
    free(work.in_l);
    return st;
}

void svd_free(struct svd *svd)
{
    free(svd->left);
    free(svd->right);
    svd->left = svd->right = NULL;
}
