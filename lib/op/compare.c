/* compare.c - compares the values of two rows for `ckpt diff`. Both rows are read at the same time. Batches
 * with equal bytes and dtypes are decoded into numbers only if norms are requested. */
#include "op/compare.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
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
    double numbers[2 * BATCH]; /* the current batch, decoded; complex or float4: pairs */
    double low[2 * BATCH];     /* what must be added to NUMBERS; 0 unless the dtype is wide */
};

/* What the batches of a comparison share. */
struct batch_context {
    const ckpt_diff_options *opts;
    struct tolerance tolerance;
    struct comparison *result;
    struct distance batch; /* of the current batch */
};

bool can_compare_rows(const ckpt_tensor *a, const ckpt_tensor *b)
{
    ckpt_dtype dtype_a = (ckpt_dtype)a->dtype, dtype_b = (ckpt_dtype)b->dtype;
    if (!a->has_data || !b->has_data || a->elements != b->elements || a->ndim != b->ndim)
        return false;
    if (a->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) != 0)
        return false;
    if ((a->kind == CKPT_QUANTIZED) != (b->kind == CKPT_QUANTIZED))
        return false;
    if (dtype_a == CKPT_DT_NAMED || dtype_b == CKPT_DT_NAMED)
        return tensor_same_dtype(a, b) && a->nbytes == b->nbytes;
    if (dtype_a == dtype_b)
        return dtype_info(dtype_a)->block_bytes != 0 || a->nbytes == b->nbytes;
    /* CKPT_DT_F4 packs two numbers in a byte: it can only be compared with itself */
    bool numeric = numbers_per_element(dtype_a) && numbers_per_element(dtype_b);
    return numeric && dtype_a != CKPT_DT_F4 && dtype_b != CKPT_DT_F4;
}

static ckpt_status open_row(struct compared_row *s, ckpt_file *file, uint32_t row,
                            const struct parallel_chunk *chunk, ckpt_error *err)
{
    const struct dtype_info *info = dtype_info(table_dtype_of(&file->table, row));
    struct stream_options o = tensor_stream_options(file);
    s->file = file;
    s->row = row;
    s->dtype = table_dtype_of(&file->table, row);
    s->block_elems = info->block_bytes ? info->block_elems : 1;
    s->block_bytes = info->block_bytes ? info->block_bytes : 1;
    s->buf = malloc(STREAM_CHUNK);
    ckpt_status st = CKPT_OK;
    if (!s->buf)
        st = fail_memory(err);
    else if (chunk)
        st = stream_open_range(&file->table, row, chunk->first, chunk->count, &s->stream, err);
    else
        st = stream_open(&file->table, row, &o, &s->stream, err);
    return name_file_if_failed(st, file->path, err);
}

static void close_row(struct compared_row *s)
{
    stream_close(s->stream);
    free(s->buf);
}

/* fill_row - if all bytes in S's buffer have been compared, reads the next ones and adds their number to
 * *BYTES. Sets *N to the number of elements in the buffer that are still to be compared; 0: the end. */
static ckpt_status fill_row(struct compared_row *s, size_t *n, uint64_t *bytes, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    if (s->pos == s->len) {
        s->pos = s->len = 0;
        st = stream_next(s->stream, s->buf, STREAM_CHUNK, &s->len, err);
        *bytes += s->len;
    }
    CKPT_TRY(name_file_if_failed(st, s->file->path, err));
    *n = (s->len - s->pos) / s->block_bytes * s->block_elems;
    return CKPT_OK;
}

static size_t bytes_of(const struct compared_row *s, size_t elems)
{
    return elems / s->block_elems * s->block_bytes;
}

/* max_or_nan - returns the greater of A and B; NaN if one is NaN, always with the same bits. */
static double max_or_nan(double a, double b) { return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b; }

/* add_difference - adds DELTA, which is |a-b| of the elements I of the batch. BASE is |b|. */
static void add_difference(struct batch_context *t, size_t i, double delta, double base)
{
    struct distance *d = &t->batch;
    double relative = delta / base;
    bool finite = isfinite(delta);
    if (finite)
        d->sum[i & 7] += delta; /* eight sums, as the kernels keep them */
    else
        delta = relative = isnan(delta) ? delta : (double)INFINITY;
    d->max_abs = max_or_nan(d->max_abs, delta);
    if (!finite || !isnan(relative)) /* 0/0 is no maximum */
        d->max_rel = max_or_nan(d->max_rel, relative);
    d->differing += !finite || !(delta <= t->tolerance.abs + t->tolerance.rel * base);
}

static void add_batch(struct batch_context *t)
{
    struct comparison *c = t->result;
    c->sum += distance_sum(&t->batch);
    c->max_abs = max_or_nan(c->max_abs, t->batch.max_abs);
    c->max_rel = max_or_nan(c->max_rel, t->batch.max_rel);
    c->differing += t->batch.differing;
    t->batch = (struct distance){0};
}

/* subtract_numbers - returns the difference of number I of A's and B's batches, which is 0 only if they are
 * equal: if both parts of a wide integer count, no rounding hides a difference. */
static double subtract_numbers(const struct compared_row *a, const struct compared_row *b, size_t i)
{
    double high = a->numbers[i] == b->numbers[i] ? 0 : a->numbers[i] - b->numbers[i];
    return high + (a->low[i] - b->low[i]);
}

/* compare_number - compares number I of A's and B's batches, which are not NaNs with the same bytes. */
static void compare_number(struct batch_context *t, const struct compared_row *a,
                           const struct compared_row *b, size_t i)
{
    double difference = subtract_numbers(a, b, i);
    bool both_nan = isnan(a->numbers[i]) && isnan(b->numbers[i]);
    if (difference != 0 && !(both_nan && t->opts->equal_nan))
        add_difference(t, i, fabs(difference), fabs(b->numbers[i]));
}

/* compare_complex - compares element I of A's and B's batches of complex numbers. */
static void compare_complex(struct batch_context *t, const struct compared_row *a,
                            const struct compared_row *b, size_t i)
{
    const double *pair_a = a->numbers + 2 * i, *pair_b = b->numbers + 2 * i;
    double re = subtract_numbers(a, b, 2 * i), im = subtract_numbers(a, b, 2 * i + 1);
    bool both_nan = (isnan(pair_a[0]) || isnan(pair_a[1])) && (isnan(pair_b[0]) || isnan(pair_b[1]));
    if ((re != 0 || im != 0) && !(both_nan && t->opts->equal_nan))
        add_difference(t, i, hypot(re, im), hypot(pair_b[0], pair_b[1]));
}

/* widen_to_complex - converts N numbers in place to N pairs with imaginary part 0. */
static void widen_to_complex(double *num, size_t n)
{
    for (size_t i = n; COUNT_DOWN(i);) {
        double re = num[i];
        num[2 * i] = re;
        num[2 * i + 1] = 0;
    }
}

/* compare_float4s - compares N elements, each a pair of float4 numbers; counts an element once. */
static void compare_float4s(struct batch_context *t, const struct compared_row *a,
                            const struct compared_row *b, size_t n)
{
    for (size_t i = 0; i < 2 * n; i += 2) {
        uint64_t before = t->batch.differing;
        compare_number(t, a, b, i);
        compare_number(t, a, b, i + 1);
        if (t->batch.differing > before)
            t->batch.differing = before + 1;
    }
}

/* is_same_element - returns true if elements I have the same WIDTH bytes; then even NaNs are equal. WIDTH is
 * 0 if the dtypes differ or have blocks: returns false. */
static bool is_same_element(size_t width, const unsigned char *bytes_a, const unsigned char *bytes_b,
                            size_t i)
{
    return width && memcmp(bytes_a + i * width, bytes_b + i * width, width) == 0;
}

/* try_kernel - compares by KERNEL. Returns false if it cannot: a number or a distance is not finite. */
static bool try_kernel(struct batch_context *t, distance_kernel *kernel, ckpt_dtype dt, const void *bytes_a,
                       const void *bytes_b, size_t n)
{
    kernel(dt, bytes_a, bytes_b, n, &t->tolerance, &t->batch);
    if (isfinite(distance_sum(&t->batch)))
        return true;
    t->batch = (struct distance){0};
    return false;
}

static void compare_decoded(struct batch_context *t, const struct compared_row *a,
                            const struct compared_row *b, const unsigned char *bytes_a,
                            const unsigned char *bytes_b, size_t n)
{
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    size_t width = a->dtype == b->dtype && a->block_elems == 1 ? a->block_bytes : 0;
    for (size_t i = 0; complex && i < n; i++)
        if (!is_same_element(width, bytes_a, bytes_b, i))
            compare_complex(t, a, b, i);
    for (size_t i = 0; !complex && i < n; i++)
        if (!isnan(a->numbers[i]) || !is_same_element(width, bytes_a, bytes_b, i))
            compare_number(t, a, b, i);
}

static void decode_row(struct compared_row *s, const unsigned char *p, size_t n, bool complex)
{
    number_decode(s->dtype, p, n, s->numbers);
    if (number_is_wide(s->dtype))
        number_decode_low(s->dtype, p, n, s->low);
    if (complex && !number_is_complex(s->dtype)) {
        widen_to_complex(s->numbers, n);
        widen_to_complex(s->low, n);
    }
}

/* add_norms - adds N <= BATCH elements to the norms, whether they differ or not. */
static void add_norms(struct batch_context *t, struct compared_row *a, struct compared_row *b,
                      const unsigned char *bytes_a, const unsigned char *bytes_b, size_t n)
{
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    decode_row(a, bytes_a, n, complex);
    decode_row(b, bytes_b, n, complex);
    size_t nnumbers = n * (complex ? 2 : numbers_per_element(a->dtype));
    double difference[2 * BATCH];
    bool wide = number_is_wide(a->dtype) || number_is_wide(b->dtype);
    for (size_t i = 0; wide && i < nnumbers; i++) {
        difference[i] = subtract_numbers(a, b, i);
        if (!isfinite(difference[i])) /* norms_add() leaves out such a pair */
            difference[i] = 0;
    }
    norms_add(&t->result->norms, a->numbers, b->numbers, wide ? difference : NULL, nnumbers);
}

/* compare_batch - compares a batch of N elements. Its bytes differ in A and B, or the dtypes do. */
static void compare_batch(struct batch_context *t, struct compared_row *a, struct compared_row *b,
                          const unsigned char *bytes_a, const unsigned char *bytes_b, size_t n)
{
    distance_kernel *kernel = distance_best_kernel();
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    bool wide = number_is_wide(a->dtype) || number_is_wide(b->dtype);
    bool kernel_fits_dtype = a->dtype == b->dtype && kernel != distance_scalar && dtype_has_kernels(a->dtype);
    if (kernel_fits_dtype && try_kernel(t, kernel, a->dtype, bytes_a, bytes_b, n))
        return;
    decode_row(a, bytes_a, n, complex);
    decode_row(b, bytes_b, n, complex);
    if (numbers_per_element(a->dtype) == 2 && !complex)
        compare_float4s(t, a, b, n);
    else if (complex || wide || kernel_fits_dtype ||
             !try_kernel(t, kernel, CKPT_DT_F64, a->numbers, b->numbers, n))
        compare_decoded(t, a, b, bytes_a, bytes_b, n);
}

/* compare_bytes - compares elements that are not numbers: counts bytes that differ. */
static void compare_bytes(struct batch_context *t, const unsigned char *bytes_a, const unsigned char *bytes_b,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->result->differing += bytes_a[i] != bytes_b[i];
}

/* compare_next - compares the next N elements; returns true if their bytes and dtypes are the same. */
static bool compare_next(struct batch_context *t, struct compared_row *a, struct compared_row *b, size_t n)
{
    const unsigned char *bytes_a = a->buf + a->pos, *bytes_b = b->buf + b->pos;
    size_t nbytes_a = bytes_of(a, n), nbytes_b = bytes_of(b, n);
    bool same_dtype = a->dtype == b->dtype, equal = same_dtype && memcmp(bytes_a, bytes_b, nbytes_a) == 0;
    a->pos += nbytes_a;
    b->pos += nbytes_b;
    for (size_t at = 0; t->opts->norms && numbers_per_element(a->dtype) && at < n; at += BATCH)
        add_norms(t, a, b, bytes_a + bytes_of(a, at), bytes_b + bytes_of(b, at),
                  n - at < BATCH ? n - at : BATCH);
    if (equal)
        return true;
    t->result->identical = false;
    if (!numbers_per_element(a->dtype)) {
        compare_bytes(t, bytes_a, bytes_b, nbytes_a);
        return false;
    }
    for (size_t at = 0; at < n; at += BATCH) {
        size_t nbatch = n - at < BATCH ? n - at : BATCH;
        const unsigned char *batch_a = bytes_a + bytes_of(a, at), *batch_b = bytes_b + bytes_of(b, at);
        if (same_dtype && memcmp(batch_a, batch_b, bytes_of(a, nbatch)) == 0)
            continue;
        compare_batch(t, a, b, batch_a, batch_b, nbatch);
        add_batch(t);
    }
    return false;
}

/* update_crcs - updates the CRC of both rows, computing it once if the bytes are EQUAL. */
static void update_crcs(struct compared_row *a, struct compared_row *b, size_t n, bool equal)
{
    enum crc_kind kind_a = stream_crc_kind(a->stream), kind_b = stream_crc_kind(b->stream);
    bool same_crc = equal && a->crc == b->crc && kind_a == kind_b;
    a->crc = crc_update(kind_a, a->crc, a->buf, n);
    b->crc = same_crc ? a->crc : crc_update(kind_b, b->crc, b->buf, n);
}

static ckpt_status check_row_crc(struct compared_row *s, ckpt_error *err)
{
    return name_file_if_failed(stream_finish_crc(s->stream, s->crc, err), s->file->path, err);
}

static ckpt_status compare_streams(struct batch_context *t, struct compared_row *a, struct compared_row *b,
                                   struct parallel_context *run, ckpt_error *err)
{
    bool with_crc = a->dtype == b->dtype && stream_checks_crc(a->stream) && stream_checks_crc(b->stream);
    if (with_crc) {
        stream_defer_crc(a->stream);
        stream_defer_crc(b->stream);
    }
    for (;;) {
        size_t left_a, left_b;
        uint64_t bytes = 0;
        CKPT_TRY(fill_row(a, &left_a, &bytes, err));
        CKPT_TRY(fill_row(b, &left_b, &bytes, err));
        if (bytes && !parallel_advance(run, bytes))
            return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
        size_t n = left_a < left_b ? left_a : left_b,
               unit = a->block_elems > b->block_elems ? a->block_elems : b->block_elems;
        if (n == 0 && left_a == left_b)
            break;
        n -= n % unit;
        if (n == 0)
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "one tensor ends before the other");
        bool equal = compare_next(t, a, b, n);
        if (with_crc) /* A and B have one dtype, so all bytes of both buffers were compared */
            update_crcs(a, b, a->len, equal);
    }
    if (with_crc) {
        CKPT_TRY(check_row_crc(a, err));
        CKPT_TRY(check_row_crc(b, err));
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
    struct compared_row *a = calloc(2, sizeof *a), *b = a + 1;
    struct batch_context t = {.opts = opts, .tolerance = {opts->atol, opts->rtol}, .result = out};
    CKPT_TRY_ALLOC(a, err);
    ckpt_status st = open_row(a, pair->file, pair->row, chunk, err);
    if (st == CKPT_OK)
        st = open_row(b, pair->other, pair->other_row, chunk, err);
    *out = (struct comparison){.identical = a->dtype == b->dtype};
    if (st == CKPT_OK)
        st = compare_streams(&t, a, b, run, err);
    if (st == CKPT_OK && chunk) {
        chunk->crc[0] = stream_crc(a->stream);
        chunk->crc[1] = stream_crc(b->stream);
    }
    close_row(a);
    close_row(b);
    free(a);
    return st;
}
