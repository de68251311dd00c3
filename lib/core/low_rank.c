/* low_rank.c - see low_rank.h. The rows are taken in groups, and the columns in panels: the numbers of a
 * group in a panel are summed in registers. Groups and panels that are not complete are added by way of a
 * copy.
 *
 * The bound of low_rank_add_stored, with u = 2^-24: a sum of `rank` fused multiply-adds of floats differs
 * from the exact one by at most rank u S (1 + rank u), where S, the sum of the magnitudes of its terms, is
 * at most the length of the row of LEFT times that of the column of RIGHT. The scale as a float, and the
 * last multiply-add, add 2 u |scale| S + u |w|, and so do y - e and y + e. The doubles of low_rank_add
 * differ by less than a millionth of that. What vanishes below the smallest float is at most 2^-149 for
 * each operation. */
#include "core/low_rank.h"

#include <math.h>
#include <stdlib.h>

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

void low_rank_scalar(const double *left, size_t rank, const double *panel, double scale, size_t count,
                     double *out, size_t stride)
{
    for (size_t i = 0; i < count; i++) {
        double sum[LOW_RANK_COLS] = {0};
        for (size_t k = 0; k < rank; k++)
            for (size_t j = 0; j < LOW_RANK_COLS; j++)
                sum[j] += left[i * rank + k] * panel[k * LOW_RANK_COLS + j];
        for (size_t j = 0; j < LOW_RANK_COLS; j++)
            out[i * stride + j] += scale * sum[j];
    }
}

/* add_incomplete - adds to PART, whose columns count from the begin of PANEL, at OUT. */
static void add_incomplete(low_rank_kernel *kernel, const struct low_rank *product, const double *left,
                           const double *panel, double scale, const struct part *part, double *out)
{
    double tile[LOW_RANK_ROWS * LOW_RANK_COLS] = {0};
    const size_t stride = (size_t)product->cols;
    for (size_t i = 0; i < part->nrows; i++)
        memcpy(tile + i * LOW_RANK_COLS + part->col, out + i * stride, part->ncols * sizeof *out);
    kernel(left, product->rank, panel, scale, part->nrows, tile, LOW_RANK_COLS);
    for (size_t i = 0; i < part->nrows; i++)
        memcpy(out + i * stride, tile + i * LOW_RANK_COLS + part->col, part->ncols * sizeof *out);
}

/* add_group - adds to the columns of PART that are in panel NUMBER, of at most LOW_RANK_ROWS rows. OUT has
 * the first number of PART. */
static void add_group(low_rank_kernel *kernel, const struct low_rank *product, double scale,
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
        kernel(left, product->rank, panel, scale, part->nrows, out, (size_t)product->cols);
    else
        add_incomplete(kernel, product, left, panel, scale, &inside, out);
}

/* add_part - adds to PART, which is at OUT: panel by panel, because a panel stays in the cache. */
static void add_part(low_rank_kernel *kernel, const struct low_rank *product, double scale,
                     const struct part *part, double *out)
{
    const size_t last = (part->col + part->ncols - 1) / LOW_RANK_COLS;
    for (size_t number = part->col / LOW_RANK_COLS; number <= last; number++) {
        struct part group = *part;
        double *at = out;
        for (size_t left = part->nrows; left; left -= group.nrows, group.row += group.nrows) {
            group.nrows = left < LOW_RANK_ROWS ? left : LOW_RANK_ROWS;
            add_group(kernel, product, scale, &group, number, at);
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
    low_rank_kernel *kernel = low_rank_best_kernel(product->are_floats);
    struct part part;
    for (size_t done; count; first += done, count -= done, out += done) {
        done = take_part(product->cols, first, count, &part);
        add_part(kernel, product, scale, &part, out);
    }
}

void low_rank_free(struct low_rank *product)
{
    free(product->left);
    free(product->right);
    free(product->narrow_left);
    free(product->narrow_right);
    free(product->row_lengths);
    free(product->col_lengths);
    *product = (struct low_rank){.rows = product->rows, .cols = product->cols, .rank = product->rank};
}

/* -------------------------------------------------------------------------- in floats */

/* A call of low_rank_add_stored. */
struct stored_job {
    const struct low_rank *product;
    const struct low_rank_exact *exact;
    struct low_rank_tile tile; /* what all tiles have in common */
    size_t width;              /* bytes of an element */
};

bool low_rank_has_narrow(ckpt_dtype dt)
{
    return (dt == CKPT_DT_BF16 || dt == CKPT_DT_F16) && low_rank_has_tiles();
}

static float *copy_floats(const double *from, size_t count)
{
    float *to = malloc(count * sizeof *to + 1);
    for (size_t i = 0; to && i < count; i++)
        to[i] = (float)from[i];
    return to;
}

/* length_of - returns the square root of SQUARES, rounded up, and not so small that it loses bits. */
static float length_of(double squares) { return (float)(sqrt(squares) * (1 + 0x1p-20)) + 0x1p-126F; }

bool low_rank_make_narrow(struct low_rank *product)
{
    const size_t rows = (size_t)product->rows, cols = (size_t)product->cols, rank = product->rank;
    uint64_t padded = 0;
    (void)low_rank_right_count(cols, 1, &padded); /* it is at most the size of RIGHT */
    product->narrow_left = copy_floats(product->left, rows * rank);
    product->narrow_right = copy_floats(product->right, (size_t)padded * rank);
    product->row_lengths = malloc(rows * sizeof(float) + 1);
    product->col_lengths = calloc((size_t)padded + 1, sizeof(float));
    if (!product->narrow_left || !product->narrow_right || !product->row_lengths || !product->col_lengths)
        return false;
    for (size_t i = 0; i < rows; i++) {
        double squares = 0;
        for (size_t k = 0; k < rank; k++)
            squares += product->left[i * rank + k] * product->left[i * rank + k];
        product->row_lengths[i] = length_of(squares);
    }
    for (size_t j = 0; j < cols; j++) {
        double squares = 0;
        for (size_t k = 0; k < rank; k++) {
            double number = product->right[low_rank_index(rank, k, j)];
            squares += number * number;
        }
        product->col_lengths[j] = length_of(squares);
    }
    return true;
}

/* add_exactly - calls EXACT for the elements of PART's first row from column BEGIN on, before END. STORED
 * has PART. */
static void add_exactly(const struct stored_job *job, const struct part *part, size_t begin, size_t end,
                        unsigned char *stored)
{
    for (size_t col = begin, n; col < end; col += n) {
        n = end - col < LOW_RANK_VECTOR ? end - col : LOW_RANK_VECTOR;
        job->exact->add(job->exact->user, part->row * job->product->cols + col, n,
                        stored + (col - part->col) * job->width);
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
    tile.row_lengths = product->row_lengths + part->row;
    tile.col_lengths = product->col_lengths + begin;
    tile.nrows = part->nrows;
    tile.first_vector = first;
    tile.nvectors = end - first;
    tile.stored = stored + (begin + first * LOW_RANK_VECTOR - part->col) * job->width;
    tile.stride = stride;
    for (uint32_t uncertain = low_rank_add_tile(&tile); uncertain; uncertain &= uncertain - 1) {
        const unsigned bit = (unsigned)__builtin_ctz(uncertain);
        const struct part row = {.row = part->row + bit / 4, .col = part->col};
        const size_t col = begin + bit % 4 * LOW_RANK_VECTOR;
        add_exactly(job, &row, col, col + LOW_RANK_VECTOR, stored + bit / 4 * stride);
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
        add_exactly(job, &row, begin + from, begin + (has_vectors ? first * LOW_RANK_VECTOR : to), stored);
        if (has_vectors)
            add_exactly(job, &row, begin + after * LOW_RANK_VECTOR, begin + to, stored);
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
                         size_t count, unsigned char *stored, const struct low_rank_exact *exact)
{
    const float unit = 0x1p-24F, size = (float)(fabs(scale) * (1 + 0x1p-20));
    struct stored_job job = {.product = product, .exact = exact, .width = dtype_info(dt)->block_bytes};
    struct part part;
    job.tile = (struct low_rank_tile){.dtype = dt,
                                      .rank = product->rank,
                                      .scale = (float)scale,
                                      .per_weight = 3 * unit,
                                      .per_length = (float)(product->rank + 6) * unit * size,
                                      .least = 0x1p-120F * (1 + size)};
    for (size_t done; count; first += done, count -= done, stored += done * job.width) {
        done = take_part(product->cols, first, count, &part);
        add_stored_part(&job, &part, stored);
    }
}
