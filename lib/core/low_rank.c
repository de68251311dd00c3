/* low_rank.c - see low_rank.h. The rows are taken in groups, and the columns in panels: the numbers of a
 * group in a panel are summed in registers. Groups and panels that are not complete are added by way of a
 * copy.
 *
 * The bound of low_rank_add_stored, with u = 2^-24: each of the `rank` fused multiply-adds of floats rounds
 * the sum of the first k products, which is at most a_k b_k, the lengths of the first k numbers of the row
 * of LEFT and of the column of RIGHT. So their sum differs from the exact one by at most
 * u (1 + rank u) (a_1 b_1 + … + a_rank b_rank). The scale as a float, and the last multiply-add, add
 * 2 u |scale| a_rank b_rank + u |w|, and so do y - e and y + e. The doubles of low_rank_add differ by less
 * than a millionth of that. What vanishes below the smallest float is at most 2^-149 for each operation.
 * Together, that is at most u |scale| (a_1 b_1 + … + a_rank b_rank + 6 a_rank b_rank), and so, by Cauchy
 * and Schwarz, at most u |scale| times the square root of a_1^2 + … + a_rank^2 + 6 a_rank^2 and that of the
 * same sum of b. */
#include "core/low_rank.h"

#include <math.h>
#include <stdlib.h>

#include "core/number.h"

/* A part of a row, or some complete rows. */
struct part {
    uint64_t row;
    size_t nrows, col, ncols;
};

bool low_rank_right_count(uint64_t cols, uint64_t rank, uint64_t *out)
{
    uint64_t padded;
    return checked_add(cols, LOW_RANK_COLS - 1, &padded) &&
           checked_mul(padded - padded % LOW_RANK_COLS, rank, out);
}

/* add_columns - adds to NCOLS columns, as a low_rank_kernel. */
static inline void add_columns(const double *left, size_t rank, const double *panel, double scale,
                               size_t count, double *out, size_t stride, size_t ncols)
{
    for (size_t i = 0; i < count; i++) {
        double sum[LOW_RANK_COLS] = {0};
        for (size_t k = 0; k < rank; k++)
            for (size_t j = 0; j < ncols; j++)
                sum[j] += left[i * rank + k] * panel[k * LOW_RANK_COLS + j];
        for (size_t j = 0; j < ncols; j++)
            out[i * stride + j] += scale * sum[j];
    }
}

static void add_panel(const double *left, size_t rank, const double *panel, double scale, size_t count,
                      double *out, size_t stride)
{
    add_columns(left, rank, panel, scale, count, out, stride, LOW_RANK_COLS);
}

static void add_vector(const double *left, size_t rank, const double *panel, double scale, size_t count,
                       double *out, size_t stride)
{
    add_columns(left, rank, panel, scale, count, out, stride, LOW_RANK_VECTOR);
}

const struct low_rank_kernels low_rank_scalar = {add_panel, add_vector};

/* add_incomplete - adds to PART, whose columns count from the begin of PANEL, at OUT. */
static void add_incomplete(low_rank_kernel *add, const struct low_rank *product, const double *left,
                           const double *panel, double scale, const struct part *part, double *out)
{
    double tile[LOW_RANK_ROWS * LOW_RANK_COLS] = {0};
    const size_t stride = (size_t)product->cols;
    for (size_t i = 0; i < part->nrows; i++)
        memcpy(tile + i * LOW_RANK_COLS + part->col, out + i * stride, part->ncols * sizeof *out);
    add(left, product->rank, panel, scale, part->nrows, tile, LOW_RANK_COLS);
    for (size_t i = 0; i < part->nrows; i++)
        memcpy(out + i * stride, tile + i * LOW_RANK_COLS + part->col, part->ncols * sizeof *out);
}

/* add_group - adds to the columns of PART that are in panel NUMBER, of at most LOW_RANK_ROWS rows. OUT has
 * the first number of PART. */
static void add_group(const struct low_rank_kernels *kernels, const struct low_rank *product, double scale,
                      const struct part *part, size_t number, double *out)
{
    const size_t begin = number * LOW_RANK_COLS, end = begin + LOW_RANK_COLS;
    const size_t first = part->col > begin ? part->col : begin, last = part->col + part->ncols;
    const struct part inside = {
        .nrows = part->nrows, .col = first - begin, .ncols = (last < end ? last : end) - first};
    const double *left = product->left + (size_t)part->row * product->rank;
    const double *panel = product->right + begin * product->rank;
    out += first - part->col;
    if (inside.ncols == LOW_RANK_COLS)
        kernels->add_panel(left, product->rank, panel, scale, part->nrows, out, (size_t)product->cols);
    else if (inside.ncols == LOW_RANK_VECTOR && inside.col % LOW_RANK_VECTOR == 0)
        kernels->add_vector(left, product->rank, panel + inside.col, scale, part->nrows, out,
                            (size_t)product->cols);
    else
        add_incomplete(kernels->add_panel, product, left, panel, scale, &inside, out);
}

/* add_part - adds to PART, which is at OUT: panel by panel, because a panel stays in the cache. */
static void add_part(const struct low_rank_kernels *kernels, const struct low_rank *product, double scale,
                     const struct part *part, double *out)
{
    const size_t last = (part->col + part->ncols - 1) / LOW_RANK_COLS;
    for (size_t number = part->col / LOW_RANK_COLS; number <= last; number++) {
        struct part group = *part;
        double *at = out;
        for (size_t left = part->nrows; left; left -= group.nrows, group.row += group.nrows) {
            group.nrows = left < LOW_RANK_ROWS ? left : LOW_RANK_ROWS;
            add_group(kernels, product, scale, &group, number, at);
            at += group.nrows * (size_t)product->cols;
        }
    }
}

/* take_part - sets *OUT to what can be added at once of COUNT numbers from FIRST on: complete rows, or a
 * part of one. Returns how many numbers that are. */
static size_t take_part(uint64_t cols, uint64_t first, size_t count, struct part *out)
{
    *out = (struct part){.row = first / cols, .nrows = 1, .col = (size_t)(first % cols)};
    size_t room = (size_t)cols - out->col;
    out->ncols = count < room ? count : room;
    if (out->ncols == cols)
        out->nrows = count / (size_t)cols;
    return out->nrows * out->ncols;
}

void low_rank_add(const struct low_rank *product, double scale, uint64_t first, size_t count, double *out)
{
    const struct low_rank_kernels *kernels = low_rank_best(product->are_floats);
    struct part part;
    for (size_t done; count; first += done, count -= done, out += done) {
        done = take_part(product->cols, first, count, &part);
        add_part(kernels, product, scale, &part, out);
    }
}

void low_rank_free(struct low_rank *product)
{
    free(product->left);
    free(product->right);
    free(product->narrow_left);
    free(product->narrow_right);
    free(product->row_factors);
    free(product->col_factors);
    *product = (struct low_rank){.rows = product->rows, .cols = product->cols, .rank = product->rank};
}

/* -------------------------------------------------------------------------- in floats */

#define DEFERRED_MAX 64u

/* Elements of which the floats are not certain: they are computed in doubles together, because rounding few
 * takes as long as rounding many. */
struct deferred {
    size_t n;
    struct {
        uint64_t first; /* number of the first of them */
        size_t count;   /* at most LOW_RANK_VECTOR */
        unsigned char *stored;
    } list[DEFERRED_MAX];
};

/* A call of low_rank_add_stored. */
struct stored_job {
    const struct low_rank *product;
    const struct low_rank_rounding *rounding;
    struct low_rank_tile tile; /* what all tiles have in common */
    double scale;
    size_t width; /* bytes of an element */
    struct deferred deferred;
};

bool low_rank_has_narrow(ckpt_dtype dt, uint64_t rank)
{
    return (dt == CKPT_DT_BF16 || dt == CKPT_DT_F16) && rank <= LOW_RANK_NARROW_MAX && low_rank_has_tiles();
}

static float *copy_floats(const double *from, size_t count)
{
    float *to = malloc(count * sizeof *to + 1);
    for (size_t i = 0; to && i < count; i++)
        to[i] = (float)from[i];
    return to;
}

/* bound_factor - returns the factor that a row or column has in the bound, whose numbers are the RANK at
 * NUMBERS, STRIDE apart; rounded up, and not so small that it loses bits. */
static float bound_factor(const double *numbers, size_t rank, size_t stride)
{
    double square = 0, sum = 0;
    for (size_t k = 0; k < rank; k++) {
        square += numbers[k * stride] * numbers[k * stride];
        sum += square;
    }
    return (float)(sqrt(sum + 6 * square) * (1 + 0x1p-20)) + 0x1p-126F;
}

bool low_rank_make_narrow(struct low_rank *product)
{
    const size_t rows = (size_t)product->rows, cols = (size_t)product->cols, rank = product->rank;
    uint64_t padded = 0;
    (void)low_rank_right_count(cols, 1, &padded); /* it is at most the size of RIGHT */
    product->narrow_left = copy_floats(product->left, rows * rank);
    product->narrow_right = copy_floats(product->right, (size_t)padded * rank);
    product->row_factors = malloc(rows * sizeof(float) + 1);
    product->col_factors = calloc((size_t)padded + 1, sizeof(float));
    if (!product->narrow_left || !product->narrow_right || !product->row_factors || !product->col_factors)
        return false;
    for (size_t i = 0; i < rows; i++)
        product->row_factors[i] = bound_factor(product->left + i * rank, rank, 1);
    for (size_t j = 0; j < cols; j++)
        product->col_factors[j] = bound_factor(product->right + low_rank_index(rank, 0, j), rank,
                                               LOW_RANK_COLS);
    return true;
}

/* add_deferred - adds to the deferred elements of JOB. */
static void add_deferred(struct stored_job *job)
{
    double numbers[DEFERRED_MAX * LOW_RANK_VECTOR];
    unsigned char elements[DEFERRED_MAX * LOW_RANK_VECTOR * 2] = {0};
    struct deferred *deferred = &job->deferred;
    const size_t count = deferred->n * LOW_RANK_VECTOR, bytes = LOW_RANK_VECTOR * job->width;
    for (size_t i = 0; i < deferred->n; i++)
        memcpy(elements + i * bytes, deferred->list[i].stored, deferred->list[i].count * job->width);
    number_decode(job->tile.dtype, elements, count, numbers);
    for (size_t i = 0; i < deferred->n; i++)
        low_rank_add(job->product, job->scale, deferred->list[i].first, deferred->list[i].count,
                     numbers + i * LOW_RANK_VECTOR);
    if (count)
        job->rounding->round(job->rounding->user, numbers, count, elements);
    for (size_t i = 0; i < deferred->n; i++)
        memcpy(deferred->list[i].stored, elements + i * bytes, deferred->list[i].count * job->width);
    deferred->n = 0;
}

/* defer - defers the elements of PART's first row from column BEGIN on, before END. STORED has PART. */
static void defer(struct stored_job *job, const struct part *part, size_t begin, size_t end,
                  unsigned char *stored)
{
    for (size_t col = begin, n; col < end; col += n) {
        n = end - col < LOW_RANK_VECTOR ? end - col : LOW_RANK_VECTOR;
        if (job->deferred.n == DEFERRED_MAX)
            add_deferred(job);
        const size_t i = job->deferred.n++;
        job->deferred.list[i].first = part->row * job->product->cols + col;
        job->deferred.list[i].count = n;
        job->deferred.list[i].stored = stored + (col - part->col) * job->width;
    }
}

/* add_vectors - adds to the vectors [FIRST, END) of panel NUMBER in PART, at most LOW_RANK_ROWS rows, at
 * STORED. */
static void add_vectors(struct stored_job *job, const struct part *part, size_t number, size_t first,
                        size_t end, unsigned char *stored)
{
    const struct low_rank *product = job->product;
    const size_t begin = number * LOW_RANK_COLS, stride = (size_t)product->cols * job->width;
    struct low_rank_tile tile = job->tile;
    tile.left = product->narrow_left + (size_t)part->row * product->rank;
    tile.panel = product->narrow_right + begin * product->rank;
    tile.row_factors = product->row_factors + part->row;
    tile.col_factors = product->col_factors + begin;
    tile.nrows = part->nrows;
    tile.first_vector = first;
    tile.nvectors = end - first;
    tile.stored = stored + (begin + first * LOW_RANK_VECTOR - part->col) * job->width;
    tile.stride = stride;
    for (uint32_t uncertain = low_rank_add_tile(&tile); uncertain; uncertain &= uncertain - 1) {
        const unsigned bit = (unsigned)__builtin_ctz(uncertain);
        const struct part row = {.row = part->row + bit / 4, .col = part->col};
        const size_t col = begin + bit % 4 * LOW_RANK_VECTOR;
        defer(job, &row, col, col + LOW_RANK_VECTOR, stored + bit / 4 * stride);
    }
}

/* add_stored_group - adds to the columns of PART, at most LOW_RANK_ROWS rows at STORED, that are in panel
 * NUMBER. */
static void add_stored_group(struct stored_job *job, const struct part *part, size_t number,
                             unsigned char *stored)
{
    const size_t begin = number * LOW_RANK_COLS, end = begin + LOW_RANK_COLS, last = part->col + part->ncols;
    const size_t from = (part->col > begin ? part->col : begin) - begin,
                 to = (last < end ? last : end) - begin;
    const size_t first = (from + LOW_RANK_VECTOR - 1) / LOW_RANK_VECTOR, after = to / LOW_RANK_VECTOR;
    const bool has_vectors = first < after;
    struct part row = *part;
    if (has_vectors)
        add_vectors(job, part, number, first, after, stored);
    for (size_t i = 0; i < part->nrows; i++, row.row++, stored += (size_t)job->product->cols * job->width) {
        defer(job, &row, begin + from, begin + (has_vectors ? first * LOW_RANK_VECTOR : to), stored);
        if (has_vectors)
            defer(job, &row, begin + after * LOW_RANK_VECTOR, begin + to, stored);
    }
}

/* add_stored_part - adds to PART, which is at STORED. */
static void add_stored_part(struct stored_job *job, const struct part *part, unsigned char *stored)
{
    const size_t last = (part->col + part->ncols - 1) / LOW_RANK_COLS;
    for (size_t number = part->col / LOW_RANK_COLS; number <= last; number++) {
        struct part group = *part;
        unsigned char *at = stored;
        for (size_t left = part->nrows; left; left -= group.nrows, group.row += group.nrows) {
            group.nrows = left < LOW_RANK_ROWS ? left : LOW_RANK_ROWS;
            add_stored_group(job, &group, number, at);
            at += group.nrows * (size_t)job->product->cols * job->width;
        }
    }
}

void low_rank_add_stored(const struct low_rank *product, ckpt_dtype dt, double scale, uint64_t first,
                         size_t count, unsigned char *stored, const struct low_rank_rounding *rounding)
{
    const float unit = 0x1p-24F, size = (float)(fabs(scale) * (1 + 0x1p-20));
    struct stored_job job;
    struct part part;
    job.product = product;
    job.rounding = rounding;
    job.scale = scale;
    job.width = dtype_info(dt)->block_bytes;
    job.deferred.n = 0;
    job.tile = (struct low_rank_tile){.dtype = dt,
                                      .rank = product->rank,
                                      .scale = (float)scale,
                                      .per_weight = 3 * unit,
                                      .per_factors = unit * size,
                                      .least = 0x1p-120F * (1 + size)};
    for (size_t done; count; first += done, count -= done, stored += done * job.width) {
        done = take_part(product->cols, first, count, &part);
        add_stored_part(&job, &part, stored);
    }
    add_deferred(&job);
}
