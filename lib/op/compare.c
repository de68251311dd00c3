/* compare.c - compares the values of two rows for `ckpt diff`. Both rows are read at the same time, and only
 * batches whose bytes or dtypes differ are decoded into numbers. */
#include "op/compare.h"

#include <math.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "base/cursor.h"
#include "core/number.h"
#include "core/tensor.h"

#define BATCH 1024u /* elements decoded at a time */

/* One of the two rows: a stream, and the bytes read from it that are still to be compared. */
struct side {
    ckpt_file *file;
    uint32_t row;
    stream *s;
    unsigned char *buf;
    size_t pos, len; /* buf[pos..len) is still to be compared */
    uint32_t crc;
    ckpt_dtype dtype;
    size_t block_elems, block_bytes;
    double num[2 * BATCH];
};

/* The comparison so far. */
struct totals {
    const ckpt_diff_options *o;
    struct tolerance tolerance;
    struct comparison *c;
    struct distance d; /* of the current batch */
};

bool compare_possible(const ckpt_tensor *a, const ckpt_tensor *b)
{
    ckpt_dtype da = (ckpt_dtype)a->dtype, db = (ckpt_dtype)b->dtype;
    if (!a->has_data || !b->has_data || a->elements != b->elements || a->ndim != b->ndim)
        return false;
    if (a->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) != 0)
        return false;
    if ((a->kind == CKPT_QUANTIZED) != (b->kind == CKPT_QUANTIZED))
        return false;
    if (da == CKPT_DT_NP || db == CKPT_DT_NP)
        return tensor_same_dtype(a, b) && a->nbytes == b->nbytes;
    if (da == db)
        return dtype_info(da)->block_bytes != 0 || a->nbytes == b->nbytes;
    /* CKPT_DT_F4 packs two numbers in a byte: it can only be compared with itself */
    return number_lanes(da) && number_lanes(db) && da != CKPT_DT_F4 && db != CKPT_DT_F4;
}

/* ---- reading */

static ckpt_status side_open(struct side *s, ckpt_file *file, uint32_t row,
                             const struct parallel_chunk *chunk, ckpt_error *err)
{
    const struct dtype_info *info = dtype_info((ckpt_dtype)file->table.rows[row].t.dtype);
    struct stream_options o = tensor_stream_options(file);
    s->file = file;
    s->row = row;
    s->dtype = (ckpt_dtype)file->table.rows[row].t.dtype;
    s->block_elems = info->block_bytes ? info->block_elems : 1;
    s->block_bytes = info->block_bytes ? info->block_bytes : 1;
    s->buf = malloc(STREAM_CHUNK);
    ckpt_status st = CKPT_OK;
    if (!s->buf)
        st = fail_memory(err);
    else if (chunk)
        st = stream_open_range(&file->table, row, chunk->first, chunk->count, &s->s, err);
    else
        st = stream_open(&file->table, row, &o, &s->s, err);
    return fail_name_file(st, file->path, err);
}

static void side_close(struct side *s)
{
    stream_close(s->s);
    free(s->buf);
}

/* side_fill - reads the next bytes of S if all that were read have been compared, and adds their number to
 * *BYTES. Sets *N to the number of elements to compare, 0 at the end. */
static ckpt_status side_fill(struct side *s, size_t *n, uint64_t *bytes, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    if (s->pos == s->len) {
        s->pos = s->len = 0;
        st = stream_next(s->s, s->buf, STREAM_CHUNK, &s->len, err);
        *bytes += s->len;
    }
    CKPT_TRY(fail_name_file(st, s->file->path, err));
    *n = (s->len - s->pos) / s->block_bytes * s->block_elems;
    return CKPT_OK;
}

static size_t side_bytes(const struct side *s, size_t elems)
{
    return elems / s->block_elems * s->block_bytes;
}

/* ---- numbers */

/* add_difference - adds DELTA, how far the elements I of the batch are apart. BASE is the magnitude to which
 * DELTA is relative. */
static void add_difference(struct totals *t, size_t i, double delta, double base)
{
    struct distance *d = &t->d;
    double rel = delta / base;
    bool finite = isfinite(delta);
    if (finite)
        d->sum[i & 7] += delta;
    else
        delta = rel = (double)INFINITY;
    if (delta > d->max_abs)
        d->max_abs = delta;
    if (rel > d->max_rel) /* 0/0 is NaN and no maximum */
        d->max_rel = rel;
    d->differing += !finite || !(delta <= t->tolerance.abs + t->tolerance.rel * base);
}

static void add_batch(struct totals *t)
{
    struct comparison *c = t->c;
    c->sum += distance_sum(&t->d);
    c->max_abs = t->d.max_abs > c->max_abs ? t->d.max_abs : c->max_abs;
    c->max_rel = t->d.max_rel > c->max_rel ? t->d.max_rel : c->max_rel;
    c->differing += t->d.differing;
    t->d = (struct distance){0};
}

/* compare_number - compares two elements whose bytes or dtypes differ. */
static void compare_number(struct totals *t, size_t i, double a, double b)
{
    if (a == b)
        return;
    if (isnan(a) && isnan(b)) {
        t->d.differing += !t->o->equal_nan;
        return;
    }
    add_difference(t, i, fabs(a - b), fabs(b));
}

static void compare_complex(struct totals *t, size_t i, const double a[2], const double b[2])
{
    if (a[0] == b[0] && a[1] == b[1])
        return;
    if ((isnan(a[0]) || isnan(a[1])) && (isnan(b[0]) || isnan(b[1]))) {
        t->d.differing += !t->o->equal_nan;
        return;
    }
    double re = a[0] == b[0] ? 0 : a[0] - b[0], im = a[1] == b[1] ? 0 : a[1] - b[1];
    add_difference(t, i, hypot(re, im), hypot(b[0], b[1]));
}

/* compare_int64s - compares N 64-bit integers, which a double cannot hold; their differences are exact. */
static void compare_int64s(struct totals *t, ckpt_dtype dt, const unsigned char *pa, const unsigned char *pb,
                           size_t n)
{
    bool is_signed = dt == CKPT_DT_I64;
    for (size_t i = 0; i < n; i++) {
        uint64_t a = load_u64le(pa + 8 * i), b = load_u64le(pb + 8 * i);
        bool a_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
        if (a != b)
            add_difference(t, i, (double)(a_less ? b - a : a - b),
                           is_signed ? fabs((double)(int64_t)b) : (double)b);
    }
}

/* to_complex - converts N numbers in place to N pairs with imaginary part 0. */
static void to_complex(double *num, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        double re = num[i];
        num[2 * i] = re;
        num[2 * i + 1] = 0;
    }
}

/* compare_float4s - compares N elements, which are pairs of float4 numbers. An element counts once, even if
 * both of its numbers differ. */
static void compare_float4s(struct totals *t, const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < 2 * n; i += 2) {
        uint64_t before = t->d.differing;
        compare_number(t, i, a[i], b[i]);
        compare_number(t, i + 1, a[i + 1], b[i + 1]);
        if (t->d.differing > before)
            t->d.differing = before + 1;
    }
}

/* is_same_element - returns true if elements I have the same bytes and dtype. They are equal then, even if
 * they are NaN. */
static bool is_same_element(size_t width, const unsigned char *pa, const unsigned char *pb, size_t i)
{
    return width && memcmp(pa + i * width, pb + i * width, width) == 0;
}

/* try_kernel - compares by KERNEL. Returns false if it cannot: a number or a distance is not finite. */
static bool try_kernel(struct totals *t, distance_kernel *kernel, ckpt_dtype dt, const void *pa,
                       const void *pb, size_t n)
{
    kernel(dt, pa, pb, n, &t->tolerance, &t->d);
    if (isfinite(distance_sum(&t->d)))
        return true;
    t->d = (struct distance){0};
    return false;
}

static void compare_decoded(struct totals *t, const struct side *a, const struct side *b,
                            const unsigned char *pa, const unsigned char *pb, size_t n)
{
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    size_t width = a->dtype == b->dtype && a->block_elems == 1 ? a->block_bytes : 0;
    for (size_t i = 0; complex && i < n; i++)
        if (!is_same_element(width, pa, pb, i))
            compare_complex(t, i, a->num + 2 * i, b->num + 2 * i);
    for (size_t i = 0; !complex && i < n; i++)
        if (!isnan(a->num[i]) || !is_same_element(width, pa, pb, i))
            compare_number(t, i, a->num[i], b->num[i]);
}

static void decode_side(struct side *s, const unsigned char *p, size_t n, bool complex)
{
    number_decode(s->dtype, p, n, s->num);
    if (complex && !number_is_complex(s->dtype))
        to_complex(s->num, n);
}

/* add_norms - adds N <= BATCH elements to the norms, whether they differ or not. */
static void add_norms(struct totals *t, struct side *a, struct side *b, const unsigned char *pa,
                      const unsigned char *pb, size_t n)
{
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    decode_side(a, pa, n, complex);
    decode_side(b, pb, n, complex);
    norms_add(&t->c->norms, a->num, b->num, n * (complex ? 2 : number_lanes(a->dtype)));
}

/* compare_batch - compares N <= BATCH elements whose bytes or dtypes differ. */
static void compare_batch(struct totals *t, struct side *a, struct side *b, const unsigned char *pa,
                          const unsigned char *pb, size_t n)
{
    distance_kernel *k = distance_best();
    bool complex = number_is_complex(a->dtype) || number_is_complex(b->dtype);
    bool direct = a->dtype == b->dtype && k != distance_scalar && dtype_has_kernels(a->dtype);
    if (direct && try_kernel(t, k, a->dtype, pa, pb, n))
        return;
    if (a->dtype == b->dtype && number_is_wide(a->dtype)) {
        compare_int64s(t, a->dtype, pa, pb, n);
        return;
    }
    decode_side(a, pa, n, complex);
    decode_side(b, pb, n, complex);
    if (number_lanes(a->dtype) == 2 && !complex)
        compare_float4s(t, a->num, b->num, n);
    else if (complex || direct || !try_kernel(t, k, CKPT_DT_F64, a->num, b->num, n))
        compare_decoded(t, a, b, pa, pb, n);
}

/* compare_bytes - compares elements that are not numbers: counts bytes that differ. */
static void compare_bytes(struct totals *t, const unsigned char *pa, const unsigned char *pb, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->c->differing += pa[i] != pb[i];
}

/* compare_next - compares the next N elements; returns true if both sides have the same bytes and dtype. */
static bool compare_next(struct totals *t, struct side *a, struct side *b, size_t n)
{
    const unsigned char *pa = a->buf + a->pos, *pb = b->buf + b->pos;
    size_t na = side_bytes(a, n), nb = side_bytes(b, n);
    bool same = a->dtype == b->dtype, equal = same && memcmp(pa, pb, na) == 0;
    a->pos += na;
    b->pos += nb;
    for (size_t at = 0; t->o->norms && number_lanes(a->dtype) && at < n; at += BATCH)
        add_norms(t, a, b, pa + side_bytes(a, at), pb + side_bytes(b, at), n - at < BATCH ? n - at : BATCH);
    if (equal)
        return true;
    t->c->identical = false;
    if (!number_lanes(a->dtype)) {
        compare_bytes(t, pa, pb, na);
        return false;
    }
    for (size_t at = 0; at < n; at += BATCH) {
        size_t k = n - at < BATCH ? n - at : BATCH;
        const unsigned char *qa = pa + side_bytes(a, at), *qb = pb + side_bytes(b, at);
        if (same && memcmp(qa, qb, side_bytes(a, k)) == 0)
            continue;
        compare_batch(t, a, b, qa, qb, k);
        add_batch(t);
    }
    return false;
}

/* update_crcs - updates the CRC of both sides, computing it once if the bytes are EQUAL. */
static void update_crcs(struct side *a, struct side *b, size_t n, bool equal)
{
    enum crc_kind ka = stream_crc_kind(a->s), kb = stream_crc_kind(b->s);
    bool same_crc = equal && a->crc == b->crc && ka == kb;
    a->crc = crc_update(ka, a->crc, a->buf, n);
    b->crc = same_crc ? a->crc : crc_update(kb, b->crc, b->buf, n);
}

static ckpt_status side_check_crc(struct side *s, ckpt_error *err)
{
    return fail_name_file(stream_set_crc(s->s, s->crc, err), s->file->path, err);
}

static ckpt_status compare_streams(struct totals *t, struct side *a, struct side *b,
                                   struct parallel_context *run, ckpt_error *err)
{
    bool with_crc = a->dtype == b->dtype && stream_checks_crc(a->s) && stream_checks_crc(b->s);
    if (with_crc) {
        stream_defer_crc(a->s);
        stream_defer_crc(b->s);
    }
    for (;;) {
        size_t na, nb;
        uint64_t bytes = 0;
        CKPT_TRY(side_fill(a, &na, &bytes, err));
        CKPT_TRY(side_fill(b, &nb, &bytes, err));
        if (bytes && !parallel_advance(run, bytes))
            return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
        size_t n = na < nb ? na : nb,
               unit = a->block_elems > b->block_elems ? a->block_elems : b->block_elems;
        if (n == 0 && na == nb)
            break;
        n -= n % unit;
        if (n == 0)
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "one side ends before the other");
        bool equal = compare_next(t, a, b, n);
        if (with_crc) /* of one dtype, so that all bytes of both buffers have been compared */
            update_crcs(a, b, a->len, equal);
    }
    if (with_crc) {
        CKPT_TRY(side_check_crc(a, err));
        CKPT_TRY(side_check_crc(b, err));
    }
    return CKPT_OK;
}

void comparison_merge(struct comparison *to, const struct comparison *next)
{
    to->differing += next->differing;
    to->identical &= next->identical;
    to->max_abs = next->max_abs > to->max_abs ? next->max_abs : to->max_abs;
    to->max_rel = next->max_rel > to->max_rel ? next->max_rel : to->max_rel;
    to->sum += next->sum;
    to->norms.aa += next->norms.aa;
    to->norms.bb += next->norms.bb;
    to->norms.ab += next->norms.ab;
    to->norms.dd += next->norms.dd;
}

ckpt_status compare_rows(const struct parallel_item *x, struct parallel_chunk *chunk,
                         const ckpt_diff_options *opts, struct parallel_context *run, struct comparison *out,
                         ckpt_error *err)
{
    struct side *a = calloc(2, sizeof *a), *b = a + 1;
    struct totals t = {.o = opts, .tolerance = {opts->atol, opts->rtol}, .c = out};
    if (!a)
        return fail_memory(err);
    ckpt_status st = side_open(a, x->file, x->row, chunk, err);
    if (st == CKPT_OK)
        st = side_open(b, x->other, x->other_row, chunk, err);
    *out = (struct comparison){.identical = a->dtype == b->dtype};
    if (st == CKPT_OK)
        st = compare_streams(&t, a, b, run, err);
    if (st == CKPT_OK && chunk) {
        chunk->crc[0] = stream_crc(a->s);
        chunk->crc[1] = stream_crc(b->s);
    }
    side_close(a);
    side_close(b);
    free(a);
    return st;
}
