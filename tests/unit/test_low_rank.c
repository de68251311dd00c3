/* The kernels of low_rank.h give the same bits as the scalar code, for any part of the matrix; the sums
 * are in the order that the header gives. */
#include <math.h>
#include <stdlib.h>

#include "core/computed_source.h"
#include "core/low_rank.h"
#include "core/number.h"
#include "pseudo_random.h"
#include "unit.h"

#define MAX_NUMBERS 8192

static const double scale = 0.37;

static double random_number(void)
{
    return (double)(float)(((double)(next_random() % 20001) - 10000) / 7919);
}

/* make_product - returns a product of random matrices; all their numbers are floats times SIZE. */
static struct low_rank make_product(uint64_t rows, uint64_t cols, size_t rank, double size)
{
    struct low_rank product = {.rows = rows, .cols = cols, .rank = rank, .are_floats = true};
    uint64_t count = 0;
    CU_ASSERT_FATAL(low_rank_right_count(cols, rank, &count));
    product.left = malloc(rows * rank * sizeof(double) + 1);
    product.right = calloc(count + 1, sizeof(double));
    CU_ASSERT_FATAL(product.left && product.right);
    for (size_t i = 0; i < rows * rank; i++)
        product.left[i] = random_number() * size;
    for (size_t j = 0; j < cols; j++)
        for (size_t k = 0; k < rank; k++)
            product.right[low_rank_index(rank, k, j)] = random_number();
    return product;
}

/* add_by_definition - adds as low_rank.h defines it. */
static void add_by_definition(const struct low_rank *product, uint64_t first, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        const size_t row = (size_t)((first + i) / product->cols), col = (size_t)((first + i) % product->cols);
        double sum = 0;
        for (size_t k = 0; k < product->rank; k++)
            sum += product->left[row * product->rank + k] *
                   product->right[low_rank_index(product->rank, k, col)];
        out[i] += scale * sum;
    }
}

static bool sums_agree(uint64_t rows, uint64_t cols, size_t rank, bool are_floats)
{
    static double want[MAX_NUMBERS], got[MAX_NUMBERS];
    struct low_rank product = make_product(rows, cols, rank, 1);
    const size_t all = (size_t)(rows * cols);
    product.are_floats = are_floats;
    for (size_t i = 0; i < all; i++)
        want[i] = got[i] = random_number();
    add_by_definition(&product, 0, all, want);
    for (size_t first = 0, n; first < all; first += n) {
        n = 1 + (size_t)next_random() % (2 * cols + 5);
        n = n < all - first ? n : all - first;
        low_rank_add(&product, scale, first, n, got + first);
    }
    low_rank_free(&product);
    return memcmp(want, got, all * sizeof *want) == 0;
}

static void sums_are_in_order_for_any_part(void)
{
    for (size_t cols = 1; cols < 80; cols += cols < 30 ? 1 : 7)
        for (size_t rank = 0; rank < 9; rank += rank < 3 ? 1 : 5)
            CU_ASSERT(sums_agree(1 + cols % 11, cols, rank, cols % 2 == 0));
}

/* What round_numbers needs. */
struct job {
    struct conversion rounding;
    size_t rounded; /* numbers so far */
};

static void round_numbers(void *user, double *numbers, size_t count, unsigned char *out)
{
    struct job *job = user;
    job->rounded += count;
    (void)computed_round(&job->rounding, numbers, count, out);
}

/* stored_agree - compares low_rank_add_stored with sums in doubles for a random matrix of DT, whose
 * product is about SIZE times as large as the weight. Returns how many of a thousand elements were not
 * certain; SIZE_MAX: they differ. */
static size_t stored_agree(ckpt_dtype dt, uint64_t rows, uint64_t cols, size_t rank, double size)
{
    static unsigned char want[2 * MAX_NUMBERS], got[2 * MAX_NUMBERS];
    struct low_rank product = make_product(rows, cols, rank, size);
    double numbers[MAX_NUMBERS];
    struct job job = {.rounded = 0};
    const struct low_rank_rounding rounding = {round_numbers, &job};
    const size_t all = (size_t)(rows * cols);
    CU_ASSERT_FATAL(conversion_init_once(&job.rounding, dt) && low_rank_make_narrow(&product));
    fill_random_elements(dt, want, all, size < 1e30);
    if (size > 1e30)
        memcpy(want, "\0\0\0\200\1\0\200\177\300\177\377\377\177\177\0\174",
               16); /* 0, -0, infinite, NaN, … */
    memcpy(got, want, 2 * all);
    number_decode(dt, want, all, numbers);
    low_rank_add(&product, scale, 0, all, numbers);
    (void)computed_round(&job.rounding, numbers, all, want);
    for (size_t first = 0, n; first < all; first += n) {
        n = 1 + (size_t)next_random() % (3 * cols + 5);
        n = n < all - first ? n : all - first;
        low_rank_add_stored(&product, dt, scale, first, n, got + 2 * first, &rounding);
    }
    low_rank_free(&product);
    return memcmp(want, got, 2 * all) == 0 ? job.rounded * 1000 / all : SIZE_MAX;
}

static void sums_in_floats_are_rounded_as_those_in_doubles(void)
{
    static const ckpt_dtype dtypes[] = {CKPT_DT_BF16, CKPT_DT_F16};
    static const double sizes[] = {0, 1e-30, 1e-3, 1, 1e3, 1e20, 1e37};
    for (size_t d = 0; d < 2 && low_rank_has_narrow(dtypes[d], 17); d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t cols = 1; cols < 200; cols += 1 + cols / 3)
                CU_ASSERT(stored_agree(dtypes[d], 3 + cols % 7, cols, 1 + cols % 17, sizes[s]) != SIZE_MAX);
}

static void most_sums_in_floats_are_certain(void)
{
    for (int i = 0; i < 3 && low_rank_has_narrow(CKPT_DT_BF16, 16); i++)
        CU_ASSERT(stored_agree(CKPT_DT_BF16, 20, 240, 16, 1e-3) < 300);
}

static void sizes_that_overflow_are_refused(void)
{
    uint64_t count;
    CU_ASSERT(!low_rank_right_count(UINT64_MAX, 1, &count) &&
              !low_rank_right_count(UINT64_MAX / 2, 3, &count));
    CU_ASSERT(low_rank_right_count(25, 2, &count) && count == 96);
}

void suite_low_rank(void)
{
    UNIT(sums_are_in_order_for_any_part);
    UNIT(sums_in_floats_are_rounded_as_those_in_doubles);
    UNIT(most_sums_in_floats_are_certain);
    UNIT(sizes_that_overflow_are_refused);
}
