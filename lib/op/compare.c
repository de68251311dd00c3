/* compare.c - compares the values of two rows for `ckpt diff`. Both rows are read at the same time. Batches
 * with equal bytes and dtypes are decoded into numbers only if norms are requested. */
#include "op/compare.h"

#include <stdlib.h>

#include "core/number.h"
#include "core/tensor.h"

#define BATCH 1024u /* elements decoded at a time */

/* One of the two rows: a stream, and the bytes read from it that are still to be compared. */
struct compared_row {
    ckpt_file *file;
    uint32_t row;
    stream *stream;
    unsigned char *buf;
    size_t pos, len; /* buf[pos..len) is still to be compared */
    uint32_t crc;
    ckpt_dtype dtype;
    size_t block_elems, block_bytes;
    double numbers[2 * BATCH]; /* the current batch, once it is decoded; complex or float4: pairs */
    double low[2 * BATCH];     /* what must be added to NUMBERS; 0 unless the dtype is wide */
};

/* What the batches of a comparison share. */
struct batch_context {
    const ckpt_diff_options *opts;
    struct tolerance tolerance;
    struct comparison *result;
    struct distance batch; /* of the current batch */
};

bool can_compare_rows(const ckpt_tensor *left, const ckpt_tensor *right)
{
    ckpt_dtype dtype_a = (ckpt_dtype)left->dtype, dtype_b = (ckpt_dtype)right->dtype;
    if (!left->has_data || !right->has_data || left->elements != right->elements || left->ndim != right->ndim)
        return false;
    if (left->ndim && memcmp(left->shape, right->shape, left->ndim * sizeof *left->shape) != 0)
        return false;
    if ((left->kind == CKPT_QUANTIZED) != (right->kind == CKPT_QUANTIZED))
        return false;
    if (dtype_a == CKPT_DT_NAMED || dtype_b == CKPT_DT_NAMED)
        return tensor_same_dtype(left, right) && left->nbytes == right->nbytes;
    if (dtype_a == dtype_b)
        return dtype_info(dtype_a)->block_bytes != 0 || left->nbytes == right->nbytes;
    /* CKPT_DT_F4 packs two numbers in a byte: it can only be compared with itself */
    bool numeric = numbers_per_element(dtype_a) && numbers_per_element(dtype_b);
    return numeric && dtype_a != CKPT_DT_F4 && dtype_b != CKPT_DT_F4;
}

static ckpt_status open_row(struct compared_row *compared_row, ckpt_file *file, uint32_t row,
                            const struct parallel_chunk *chunk, ckpt_error *err)
{
    const struct dtype_info *info = dtype_info(table_dtype_of(&file->table, row));
    struct stream_options o = tensor_stream_options(file);
    compared_row->file = file;
    compared_row->row = row;
    compared_row->dtype = table_dtype_of(&file->table, row);
    compared_row->block_elems = info->block_bytes ? info->block_elems : 1;
    compared_row->block_bytes = info->block_bytes ? info->block_bytes : 1;
    compared_row->buf = malloc(STREAM_CHUNK);
    ckpt_status st = CKPT_OK;
    if (!compared_row->buf)
        st = fail_memory(err);
    else if (chunk)
        st = stream_open_range(&file->table, row, chunk->first, chunk->count, NULL, &compared_row->stream,
                               err);
    else
        st = stream_open(&file->table, row, &o, &compared_row->stream, err);
    return name_file_if_failed(st, file->path, err);
}

static void close_row(struct compared_row *row)
{
    stream_close(row->stream);
    free(row->buf);
}

/* fill_row - if all bytes in ROW's buffer have been compared, reads the next ones and adds their number to
 * *BYTES. Sets *COUNT to the number of elements in the buffer that are still to be compared; 0: the end. */
static ckpt_status fill_row(struct compared_row *row, size_t *count, uint64_t *bytes, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    if (row->pos == row->len) {
        row->pos = row->len = 0;
        st = stream_next(row->stream, row->buf, STREAM_CHUNK, &row->len, err);
        *bytes += row->len;
    }
    CKPT_TRY(name_file_if_failed(st, row->file->path, err));
    *count = (row->len - row->pos) / row->block_bytes * row->block_elems;
    return CKPT_OK;
}

static size_t bytes_of(const struct compared_row *row, size_t elems)
{
    return elems / row->block_elems * row->block_bytes;
}

/* max_or_nan - returns the greater of LEFT and RIGHT; NaN if one is NaN, always with the same bits. */
static double max_or_nan(double left, double right)
{
    return isnan(left) || isnan(right) ? (double)NAN : left > right ? left : right;
}

/* add_difference - adds DELTA, which is |a-b| of the elements INDEX of the batch. BASE is |b|. */
static void add_difference(struct batch_context *context, size_t index, double delta, double base)
{
    struct distance *d = &context->batch;
    double relative = delta / base;
    bool finite = isfinite(delta);
    if (finite)
        d->sum[index & 7] += delta; /* eight sums, as the kernels keep them */
    else
        delta = relative = isnan(delta) ? delta : (double)INFINITY;
    d->max_abs = max_or_nan(d->max_abs, delta);
    if (!finite || !isnan(relative)) /* 0/0 is no maximum */
        d->max_rel = max_or_nan(d->max_rel, relative);
    d->differing += !finite || !(delta <= context->tolerance.abs + context->tolerance.rel * base);
}

static void add_batch(struct batch_context *context)
{
    struct comparison *c = context->result;
    c->sum += distance_sum(&context->batch);
    c->max_abs = max_or_nan(c->max_abs, context->batch.max_abs);
    c->max_rel = max_or_nan(c->max_rel, context->batch.max_rel);
    c->differing += context->batch.differing;
    context->batch = (struct distance){0};
}

/* subtract_numbers - returns the difference of number INDEX of A's and RIGHT's batches, which is 0 only if
 * they are equal: if both parts of a wide integer count, no rounding hides a difference. */
static double subtract_numbers(const struct compared_row *left, const struct compared_row *right,
                               size_t index)
{
    double high = left->numbers[index] == right->numbers[index]
                      ? 0
                      : left->numbers[index] - right->numbers[index];
    return high + (left->low[index] - right->low[index]);
}

/* compare_number - compares number INDEX of A's and RIGHT's batches, which are not NaNs with the same
 * bytes. */
static void compare_number(struct batch_context *context, const struct compared_row *left,
                           const struct compared_row *right, size_t index)
{
    double difference = subtract_numbers(left, right, index);
    bool both_nan = isnan(left->numbers[index]) && isnan(right->numbers[index]);
    if (difference != 0 && !(both_nan && context->opts->equal_nan))
        add_difference(context, index, fabs(difference), fabs(right->numbers[index]));
}

/* compare_complex - compares element INDEX of A's and RIGHT's batches of complex numbers. */
static void compare_complex(struct batch_context *context, const struct compared_row *left,
                            const struct compared_row *right, size_t index)
{
    const double *pair_a = left->numbers + 2 * index, *pair_b = right->numbers + 2 * index;
    double re = subtract_numbers(left, right, 2 * index), im = subtract_numbers(left, right, 2 * index + 1);
    bool both_nan = (isnan(pair_a[0]) || isnan(pair_a[1])) && (isnan(pair_b[0]) || isnan(pair_b[1]));
    if ((re != 0 || im != 0) && !(both_nan && context->opts->equal_nan))
        add_difference(context, index, hypot(re, im), hypot(pair_b[0], pair_b[1]));
}

/* widen_to_complex - converts COUNT numbers in place to COUNT pairs with imaginary part 0. */
static void widen_to_complex(double *num, size_t count)
{
    for (size_t i = count; COUNT_DOWN(i);) {
        double re = num[i];
        num[2 * i] = re;
        num[2 * i + 1] = 0;
    }
}

/* compare_float4s - compares COUNT elements, each a pair of float4 numbers; counts an element once. */
static void compare_float4s(struct batch_context *context, const struct compared_row *left,
                            const struct compared_row *right, size_t count)
{
    for (size_t i = 0; i < 2 * count; i += 2) {
        uint64_t before = context->batch.differing;
        compare_number(context, left, right, i);
        compare_number(context, left, right, i + 1);
        if (context->batch.differing > before)
            context->batch.differing = before + 1;
    }
}

/* is_same_element - returns true if elements INDEX have the same WIDTH bytes; then even NaNs are equal. WIDTH
 * is 0 if the dtypes differ or have blocks: returns false. */
static bool is_same_element(size_t width, const unsigned char *bytes_a, const unsigned char *bytes_b,
                            size_t index)
{
    return width && memcmp(bytes_a + index * width, bytes_b + index * width, width) == 0;
}

/* try_kernel - compares by KERNEL. Returns false if it cannot: a number or a distance is not finite. */
static bool try_kernel(struct batch_context *context, distance_kernel *kernel, ckpt_dtype dt,
                       const void *bytes_a, const void *bytes_b, size_t count)
{
    kernel(dt, bytes_a, bytes_b, count, &context->tolerance, &context->batch);
    if (isfinite(distance_sum(&context->batch)))
        return true;
    context->batch = (struct distance){0};
    return false;
}

static void compare_decoded(struct batch_context *context, const struct compared_row *left,
                            const struct compared_row *right, const unsigned char *bytes_a,
                            const unsigned char *bytes_b, size_t count)
{
    bool complex = number_is_complex(left->dtype) || number_is_complex(right->dtype);
    size_t width = left->dtype == right->dtype && left->block_elems == 1 ? left->block_bytes : 0;
    for (size_t i = 0; complex && i < count; i++)
        if (!is_same_element(width, bytes_a, bytes_b, i))
            compare_complex(context, left, right, i);
    for (size_t i = 0; !complex && i < count; i++)
        if (!isnan(left->numbers[i]) || !is_same_element(width, bytes_a, bytes_b, i))
            compare_number(context, left, right, i);
}

static void decode_row(struct compared_row *row, const unsigned char *bytes, size_t count, bool complex)
{
    number_decode(row->dtype, bytes, count, row->numbers);
    if (number_is_wide(row->dtype))
        number_decode_low(row->dtype, bytes, count, row->low);
    else
        memset(row->low, 0, count * numbers_per_element(row->dtype) * sizeof *row->low);
    if (complex && !number_is_complex(row->dtype)) {
        widen_to_complex(row->numbers, count);
        widen_to_complex(row->low, count);
    }
}

/* add_norms - adds COUNT <= BATCH elements to the norms, whether they differ or not. */
static void add_norms(struct batch_context *context, struct compared_row *left, struct compared_row *right,
                      const unsigned char *bytes_a, const unsigned char *bytes_b, size_t count)
{
    bool complex = number_is_complex(left->dtype) || number_is_complex(right->dtype);
    decode_row(left, bytes_a, count, complex); /* the kernel is not for these dtypes or numbers */
    decode_row(right, bytes_b, count, complex);
    size_t nnumbers = count * (complex ? 2 : numbers_per_element(left->dtype));
    double difference[2 * BATCH];
    bool wide = number_is_wide(left->dtype) || number_is_wide(right->dtype);
    for (size_t i = 0; wide && i < nnumbers; i++) {
        difference[i] = subtract_numbers(left, right, i);
        if (!isfinite(difference[i])) /* norms_add() leaves out such a pair */
            difference[i] = 0;
    }
    norms_add(&context->result->norms, left->numbers, right->numbers, wide ? difference : NULL, nnumbers);
}

/* compare_batch - compares a batch of COUNT elements. Its bytes differ in LEFT and RIGHT, or the dtypes
 * do. */
static void compare_batch(struct batch_context *context, struct compared_row *left,
                          struct compared_row *right, const unsigned char *bytes_a,
                          const unsigned char *bytes_b, size_t count)
{
    distance_kernel *kernel = distance_best_kernel();
    bool complex = number_is_complex(left->dtype) || number_is_complex(right->dtype);
    bool wide = number_is_wide(left->dtype) || number_is_wide(right->dtype);
    bool kernel_fits_dtype = left->dtype == right->dtype && kernel != distance_scalar &&
                             dtype_has_kernels(left->dtype);
    if (kernel_fits_dtype && try_kernel(context, kernel, left->dtype, bytes_a, bytes_b, count))
        return;
    decode_row(left, bytes_a, count, complex); /* the kernel is not for these dtypes or numbers */
    decode_row(right, bytes_b, count, complex);
    if (numbers_per_element(left->dtype) == 2 && !complex)
        compare_float4s(context, left, right, count);
    else if (complex || wide || kernel_fits_dtype ||
             !try_kernel(context, kernel, CKPT_DT_F64, left->numbers, right->numbers, count))
        compare_decoded(context, left, right, bytes_a, bytes_b, count);
}

/* compare_bytes - compares elements that are not numbers: counts bytes that differ. */
static void compare_bytes(struct batch_context *context, const unsigned char *bytes_a,
                          const unsigned char *bytes_b, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        context->result->differing += bytes_a[i] != bytes_b[i];
}

/* compare_next - compares the next COUNT elements; returns true if their bytes and dtypes are the same. */
static bool compare_next(struct batch_context *context, struct compared_row *left, struct compared_row *right,
                         size_t count)
{
    const unsigned char *bytes_a = left->buf + left->pos, *bytes_b = right->buf + right->pos;
    size_t nbytes_a = bytes_of(left, count), nbytes_b = bytes_of(right, count);
    bool same_dtype = left->dtype == right->dtype,
         equal = same_dtype && memcmp(bytes_a, bytes_b, nbytes_a) == 0;
    left->pos += nbytes_a;
    right->pos += nbytes_b;
    for (size_t at = 0; context->opts->norms && numbers_per_element(left->dtype) && at < count; at += BATCH)
        add_norms(context, left, right, bytes_a + bytes_of(left, at), bytes_b + bytes_of(right, at),
                  count - at < BATCH ? count - at : BATCH);
    if (equal)
        return true;
    context->result->identical = false;
    if (!numbers_per_element(left->dtype)) {
        compare_bytes(context, bytes_a, bytes_b, nbytes_a);
        return false;
    }
    for (size_t at = 0; at < count; at += BATCH) {
        size_t nbatch = count - at < BATCH ? count - at : BATCH;
        const unsigned char *batch_a = bytes_a + bytes_of(left, at), *batch_b = bytes_b + bytes_of(right, at);
        if (same_dtype && memcmp(batch_a, batch_b, bytes_of(left, nbatch)) == 0)
            continue;
        compare_batch(context, left, right, batch_a, batch_b, nbatch);
        add_batch(context);
    }
    return false;
}

/* update_crcs - updates the CRC of both rows, computing it once if the bytes are EQUAL. */
static void update_crcs(struct compared_row *left, struct compared_row *right, size_t count, bool equal)
{
    enum crc_kind kind_a = stream_crc_kind(left->stream), kind_b = stream_crc_kind(right->stream);
    bool same_crc = equal && left->crc == right->crc && kind_a == kind_b;
    left->crc = crc_update(kind_a, left->crc, left->buf, count);
    right->crc = same_crc ? left->crc : crc_update(kind_b, right->crc, right->buf, count);
}

static ckpt_status check_row_crc(struct compared_row *row, ckpt_error *err)
{
    return name_file_if_failed(stream_finish_crc(row->stream, row->crc, err), row->file->path, err);
}

static ckpt_status compare_streams(struct batch_context *context, struct compared_row *left,
                                   struct compared_row *right, struct parallel_context *run, ckpt_error *err)
{
    bool with_crc = left->dtype == right->dtype && stream_checks_crc(left->stream) &&
                    stream_checks_crc(right->stream);
    if (with_crc) {
        stream_defer_crc(left->stream);
        stream_defer_crc(right->stream);
    }
    for (;;) {
        size_t left_a, left_b;
        uint64_t bytes = 0;
        CKPT_TRY(fill_row(left, &left_a, &bytes, err));
        CKPT_TRY(fill_row(right, &left_b, &bytes, err));
        if (bytes && !parallel_advance(run, bytes))
            return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
        size_t n = left_a < left_b ? left_a : left_b,
               unit = left->block_elems > right->block_elems ? left->block_elems : right->block_elems;
        if (n == 0 && left_a == left_b)
            break;
        n -= n % unit;
        if (n == 0)
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "one tensor ends before the other");
        bool equal = compare_next(context, left, right, n);
        if (with_crc) /* LEFT and RIGHT have one dtype, so all bytes of both buffers were compared */
            update_crcs(left, right, left->len, equal);
    }
    if (with_crc) {
        CKPT_TRY(check_row_crc(left, err));
        CKPT_TRY(check_row_crc(right, err));
    }
    return CKPT_OK;
}

void comparison_merge(struct comparison *to, const struct comparison *next)
{
    to->differing += next->differing;
    to->identical &= next->identical;
    to->max_abs = max_or_nan(to->max_abs, next->max_abs);
    to->max_rel = max_or_nan(to->max_rel, next->max_rel);
    to->sum += next->sum;
    norms_merge(&to->norms, &next->norms);
}

ckpt_status compare_rows(const struct parallel_item *pair, struct parallel_chunk *chunk,
                         const ckpt_diff_options *opts, struct parallel_context *run, struct comparison *out,
                         ckpt_error *err)
{
    struct compared_row *rows = malloc(2 * sizeof *rows);
    struct batch_context t = {.opts = opts, .tolerance = {opts->atol, opts->rtol}, .result = out};
    CKPT_TRY_ALLOC(rows, err);
    struct compared_row *a = rows, *b = rows + 1;
    memset(a, 0, offsetof(struct compared_row, numbers)); /* for a small tensor, more would take longest */
    memset(b, 0, offsetof(struct compared_row, numbers));
    ckpt_status st = open_row(a, pair->file, pair->row, chunk, err);
    CKPT_THEN(st, open_row(b, pair->other, pair->other_row, chunk, err));
    *out = (struct comparison){.identical = a->dtype == b->dtype};
    CKPT_THEN(st, compare_streams(&t, a, b, run, err));
    if (st == CKPT_OK && chunk) {
        chunk->crc[0] = stream_crc(a->stream);
        chunk->crc[1] = stream_crc(b->stream);
    }
    close_row(a);
    close_row(b);
    free(rows);
    return st;
}
