/*
 * stat.c - ckpt_stat of ckpt.h: extremes, mean, spread and counts of tensors, each
 * read once.
 *
 * Sums are taken over blocks that begin at fixed elements, however the bytes come
 * in, so that the last bit is the same for any strides, format and number of
 * threads. The histogram needs the extremes first and the elements are not read
 * twice: it is made of up to SAMPLE of them, one at a random place of each of that
 * many equal stretches. The places depend on the number of elements alone, and
 * unlike every n-th element they do not all fall into one column of a matrix.
 * Types of at most eight bits are counted by value instead, and need no sample.
 */
#include <math.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/sized.h"
#include "core/byte_histogram.h"
#include "core/number.h"
#include "core/sweep.h"
#include "core/tensor.h"

#define SAMPLE 4096u

struct tally {
    ckpt_dtype dtype;
    bool small;         /* counted by value */
    size_t width, unit; /* bytes of an element; of what is dealt with at once */
    uint64_t at;        /* elements dealt with */
    uint64_t cut;       /* elements of a part of a row, whether it is read in parts or not */
    uint64_t stretch;   /* elements that one of the sample stands for */
    struct moments m, done; /* of this part, of those before */
    struct byte_histogram bytes;
    uint64_t low, high; /* of 64-bit integers; of signed ones the top bit is turned */
    unsigned char *rest; /* bytes that do not make a unit yet */
    size_t held;
    struct sweep_run *run;
    size_t nsample;
    double sample[];
};

/* ------------------------------------------------------------------- reading */

/* place - the element that stands for stretch J of them: splitmix64 (Steele, Lea
 * and Flood 2014) is where in it. */
static uint64_t place(const struct tally *t, uint64_t j)
{
    uint64_t z = j * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return j * t->stretch + (z ^ z >> 31) % t->stretch;
}

static void take_sample(struct tally *t, const unsigned char *p, uint64_t n)
{
    if (t->stretch == 1) {
        t->nsample += moments_decode(t->dtype, p, (size_t)n, t->sample + t->nsample);
        return;
    }
    for (uint64_t j = t->at / t->stretch; j * t->stretch < t->at + n; j++) {
        uint64_t i = place(t, j);
        if (i >= t->at && i - t->at < n)
            t->nsample += moments_decode(t->dtype, p + (i - t->at) * t->width, 1, t->sample + t->nsample);
    }
}

static void take_wide(struct tally *t, const unsigned char *p, size_t n)
{
    uint64_t turn = t->dtype == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = load_u64le(p + 8 * i) ^ turn;
        t->low = x < t->low ? x : t->low;
        t->high = x > t->high ? x : t->high;
    }
}

static void end_part(struct tally *t)
{
    moments_merge(&t->done, &t->m);
    t->m = (struct moments){0};
}

/* take_elements - N of them that do not reach beyond a part. */
static void take_elements(struct tally *t, const unsigned char *p, size_t n)
{
    moments_add(&t->m, t->dtype, p, n);
    if (number_is_wide(t->dtype))
        take_wide(t, p, n);
    take_sample(t, p, n);
    t->at += n;
    if (t->at % t->cut == 0)
        end_part(t);
}

/* take_whole - N bytes of whole units, or the last ones. */
static void take_whole(struct tally *t, const unsigned char *p, size_t n)
{
    const struct dtype_info *d = dtype_info(t->dtype);
    size_t elements = n / d->block_bytes * d->block_elems;
    if (t->small) {
        byte_histogram_add(&t->bytes, t->dtype, p, elements);
        return;
    }
    while (elements) {
        uint64_t left = t->cut - t->at % t->cut;
        size_t some = elements < left ? elements : (size_t)left;
        take_elements(t, p, some);
        p += some * t->width;
        elements -= some;
    }
}

static int take(void *user, const void *bytes, size_t n)
{
    struct tally *t = user;
    const unsigned char *p = bytes;
    size_t left = n, some;
    if (t->held) {
        some = t->unit - t->held < left ? t->unit - t->held : left;
        memcpy(t->rest + t->held, p, some);
        t->held += some;
        p += some;
        left -= some;
        if (t->held == t->unit) {
            take_whole(t, t->rest, t->unit);
            t->held = 0;
        }
    }
    some = left - left % t->unit;
    if (some)
        take_whole(t, p, some);
    if (left > some) {
        memcpy(t->rest, p + some, left - some);
        t->held = left - some;
    }
    return !sweep_moved(t->run, n);
}

/* ------------------------------------------------------------------- summing */

/* The bins of ckpt_stats: halves, so that no difference is beyond a double. */
static size_t bin_of(const void *user, double x)
{
    const ckpt_stats *s = user;
    double width = s->max / 2 - s->min / 2, at = width > 0 ? (x / 2 - s->min / 2) / width : 0;
    size_t bin = (size_t)(at * CKPT_STAT_BINS);
    return bin < CKPT_STAT_BINS ? bin : CKPT_STAT_BINS - 1;
}

static void fill_bins(const struct tally *t, ckpt_stats *s)
{
    if (t->small)
        byte_histogram_fill_bins(&t->bytes, t->dtype, s->histogram, bin_of, s);
    for (size_t i = 0; i < t->nsample; i++)
        if (isfinite(t->sample[i]))
            s->histogram[bin_of(s, t->sample[i])]++;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        s->sampled += s->histogram[i];
}

static void sum_up(const struct tally *t, ckpt_stats *s)
{
    struct moments m = t->small ? byte_histogram_moments(&t->bytes, t->dtype) : t->done;
    double none = (double)NAN;
    *s = (ckpt_stats){.numeric = true, .nan = m.nan, .inf = m.inf, .zeros = m.zeros, .finite = m.finite};
    s->min = m.finite ? m.min : none;
    s->max = m.finite ? m.max : none;
    s->mean = m.finite ? m.mean : none;
    s->std = m.finite > 1 ? sqrt(m.m2 / (double)(m.finite - 1)) : none;
    s->norm = sqrt(m.squares);
    s->wide = number_is_wide(t->dtype) && m.finite;
    if (s->wide) {
        uint64_t turn = t->dtype == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0;
        s->min_bits = t->low ^ turn;
        s->max_bits = t->high ^ turn;
    }
    fill_bins(t, s);
}

/* ---------------------------------------------------------------------- rows */

struct job {
    const struct sweep_item *items;
    ckpt_stats *out; /* that of an item by its tag */
};

/* begin - a tally of COUNT of the elements of X, from FIRST on. */
static ckpt_status begin(struct tally **out, const ckpt_tensor *x, uint64_t first, uint64_t count,
                         struct sweep_run *run, ckpt_error *err)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)x->dtype);
    bool small = byte_histogram_supports((ckpt_dtype)x->dtype);
    uint64_t stretch = x->elements / SAMPLE + (x->elements % SAMPLE != 0);
    stretch = stretch ? stretch : 1;
    size_t most = small ? 0 : (size_t)(count / stretch) + 2; /* at most SAMPLE + 2 */
    struct tally *t = calloc(1, sizeof *t + most * sizeof *t->sample);
    *out = t;
    if (!t)
        return fail_memory(err);
    t->dtype = (ckpt_dtype)x->dtype;
    t->small = small;
    t->width = d->block_bytes;
    t->unit = small ? d->block_bytes : (size_t)d->block_bytes * MOMENTS_BLOCK;
    t->at = first;
    t->cut = sweep_cut(d->block_bytes);
    t->stretch = stretch;
    t->low = UINT64_MAX;
    t->run = run;
    t->rest = malloc(x->nbytes < t->unit ? (size_t)x->nbytes + 1 : t->unit);
    return t->rest ? CKPT_OK : fail_memory(err);
}

/* finish - what is left of the bytes. */
static void finish(struct tally *t)
{
    if (t->held)
        take_whole(t, t->rest, t->held);
    end_part(t);
    free(t->rest);
    t->rest = NULL;
}

static ckpt_status stat_item(void *user, size_t i, struct sweep_run *run, ckpt_error *err)
{
    const struct job *j = user;
    const struct sweep_item *x = &j->items[i];
    const ckpt_tensor *row = &x->file->table.rows[x->row].t;
    struct tally *t;
    ckpt_status st = begin(&t, row, 0, row->elements, run, err);
    if (st == CKPT_OK)
        st = ckpt_tensor_stream(x->file, x->row, take, t, err);
    if (st == CKPT_OK) {
        finish(t);
        sum_up(t, &j->out[x->tag]);
    }
    if (t)
        free(t->rest);
    free(t);
    return st;
}

static ckpt_status stat_part(void *user, size_t i, struct sweep_part *p, struct sweep_run *run,
                             ckpt_error *err)
{
    const struct job *j = user;
    const struct sweep_item *x = &j->items[i];
    struct tally *t;
    ckpt_status st = begin(&t, &x->file->table.rows[x->row].t, p->first, p->count, run, err);
    p->out = t;
    if (st == CKPT_OK)
        st = tensor_read_part(x->file, x->row, p->first, p->count, &p->crc[0], take, t, err);
    if (st == CKPT_OK) {
        finish(t);
    } else if (t) {
        free(t->rest);
        t->rest = NULL;
    }
    return st;
}

/* add - T becomes what it and PART, which is behind it, have together. */
static void add(struct tally *t, const struct tally *part)
{
    moments_merge(&t->done, &part->done);
    byte_histogram_merge(&t->bytes, &part->bytes);
    t->low = part->low < t->low ? part->low : t->low;
    t->high = part->high > t->high ? part->high : t->high;
    for (size_t i = 0; i < part->nsample; i++)
        t->sample[t->nsample++] = part->sample[i];
}

static ckpt_status join_parts(void *user, size_t i, const struct sweep_part *parts, size_t n, ckpt_error *err)
{
    const struct job *j = user;
    const struct sweep_item *x = &j->items[i];
    const ckpt_tensor *row = &x->file->table.rows[x->row].t;
    struct tally *t;
    ckpt_status st = sweep_check(x, parts, n, err);
    if (st != CKPT_OK)
        return tensor_failed(x->file, x->row, st, err);
    st = begin(&t, row, 0, row->elements, NULL, err);
    for (size_t k = 0; st == CKPT_OK && k < n; k++)
        add(t, parts[k].out);
    if (st == CKPT_OK)
        sum_up(t, &j->out[x->tag]);
    if (t)
        free(t->rest);
    free(t);
    return st;
}

static bool has_numbers(const ckpt_tensor *t) { return t->has_data && number_lanes((ckpt_dtype)t->dtype); }

/* list_items - the rows to read: of those that show the very same bytes only the
 * first asked for, whose place FIRST gets, by row. */
static ckpt_status list_items(ckpt_file *f, const uint32_t *rows, size_t n, struct sweep_item *items,
                              uint32_t *first, size_t *nitems, ckpt_error *err)
{
    *nitems = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i] >= f->table.nrows)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "row %u of %zu", rows[i], f->table.nrows);
        const ckpt_tensor *t = &f->table.rows[rows[i]].t;
        uint32_t same = t->alias_of == CKPT_NO_TENSOR ? rows[i] : t->alias_of;
        if (!has_numbers(t) || first[same] != UINT32_MAX)
            continue;
        first[same] = (uint32_t)i;
        items[(*nitems)++] = (struct sweep_item){.file = f, .row = rows[i], .tag = (uint32_t)i};
    }
    return CKPT_OK;
}

static ckpt_status stat_rows(ckpt_file *f, const uint32_t *rows, size_t n, const ckpt_work *how,
                             struct sweep_item *items, uint32_t *first, ckpt_stats *out, ckpt_error *err)
{
    struct job j = {items, out};
    struct sweep s = {.items = items, .work = stat_item, .part = stat_part, .join = join_parts, .user = &j};
    CKPT_TRY(list_items(f, rows, n, items, first, &s.n, err));
    s.threads = how->threads;
    s.progress = how->progress;
    s.progress_user = how->user;
    CKPT_TRY(sweep_run(&s, err));
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor *t = &f->table.rows[rows[i]].t;
        uint32_t same = t->alias_of == CKPT_NO_TENSOR ? rows[i] : t->alias_of;
        if (has_numbers(t) && first[same] != i)
            out[i] = out[first[same]];
    }
    return CKPT_OK;
}

/* give_stats - N of LIST into the caller's OUT, which are as far apart as its program has them. */
static void give_stats(const ckpt_stats *list, size_t n, ckpt_stats *out)
{
    uint32_t stride = n ? sized_of(out) : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char *to = (unsigned char *)out + i * stride; /* bounded: the caller's array */
        memcpy(to, &stride, sizeof stride);
        sized_give(to, &list[i], sizeof *list);
    }
}

ckpt_status ckpt_stat(ckpt_file *file, const uint32_t *rows, size_t nrows, const ckpt_work *how,
                      ckpt_stats *out, ckpt_error *err)
{
    ckpt_work w;
    CKPT_TRY(nrows ? sized_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, file && (rows || !nrows));
    CKPT_TRY(sized_take(how, &w, sizeof w, err));
    if (nrows >= UINT32_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%zu rows are asked for", nrows);
    struct sweep_item *items = calloc(nrows + 1, sizeof *items);
    ckpt_stats *own = calloc(nrows + 1, sizeof *own);
    uint32_t *first = malloc((file->table.nrows + 1) * sizeof *first);
    for (size_t i = 0; first && i < file->table.nrows; i++)
        first[i] = UINT32_MAX;
    bool room = items && first && own;
    if (own)
        give_stats(own, nrows, out);
    ckpt_status st = room ? stat_rows(file, rows, nrows, &w, items, first, own, err) : fail_memory(err);
    if (st == CKPT_OK)
        give_stats(own, nrows, out);
    free(own);
    free(first);
    free(items);
    return st;
}
