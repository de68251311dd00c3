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
#include "core/census.h"
#include "core/number.h"
#include "core/sweep.h"

#define SAMPLE 4096u

struct tally {
    ckpt_dtype dtype;
    bool small;         /* counted by value */
    size_t width, unit; /* bytes of an element; of what is dealt with at once */
    uint64_t at;        /* elements dealt with */
    uint64_t stretch;   /* elements that one of the sample stands for */
    struct moments m;
    struct census c;
    uint64_t low, high; /* of 64-bit integers; of signed ones the top bit is turned */
    double *sample;
    size_t nsample;
    unsigned char *rest; /* bytes that do not make a unit yet */
    size_t held;
    struct sweep_run *run;
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

/* take_whole - N bytes of whole units, or the last ones. */
static void take_whole(struct tally *t, const unsigned char *p, size_t n)
{
    const struct dtype_info *d = dtype_info(t->dtype);
    size_t elements = n / d->block_bytes * d->block_elems;
    if (t->small) {
        census_add(&t->c, t->dtype, p, elements);
        return;
    }
    moments_add(&t->m, t->dtype, p, elements);
    if (number_is_wide(t->dtype))
        take_wide(t, p, elements);
    take_sample(t, p, elements);
    t->at += elements;
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
        census_bins(&t->c, t->dtype, s->histogram, bin_of, s);
    for (size_t i = 0; i < t->nsample; i++)
        if (isfinite(t->sample[i]))
            s->histogram[bin_of(s, t->sample[i])]++;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        s->sampled += s->histogram[i];
}

static void sum_up(const struct tally *t, ckpt_stats *s)
{
    struct moments m = t->small ? census_moments(&t->c, t->dtype) : t->m;
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

static ckpt_status begin(struct tally *t, const ckpt_tensor *x, struct sweep_run *run, ckpt_error *err)
{
    *t = (struct tally){.dtype = (ckpt_dtype)x->dtype, .run = run, .low = UINT64_MAX};
    const struct dtype_info *d = dtype_info(t->dtype);
    t->small = census_takes(t->dtype);
    t->width = d->block_bytes;
    t->unit = t->small ? d->block_bytes : (size_t)d->block_bytes * MOMENTS_BLOCK;
    t->stretch = x->elements / SAMPLE + (x->elements % SAMPLE != 0);
    t->stretch = t->stretch ? t->stretch : 1;
    t->rest = malloc(x->nbytes < t->unit ? (size_t)x->nbytes + 1 : t->unit);
    if (!t->small)
        t->sample = malloc((x->elements < SAMPLE ? (size_t)x->elements + 1 : SAMPLE) * sizeof *t->sample);
    return t->rest && (t->small || t->sample) ? CKPT_OK : fail_memory(err);
}

static ckpt_status stat_item(void *user, size_t i, struct sweep_run *run, ckpt_error *err)
{
    const struct job *j = user;
    const struct sweep_item *x = &j->items[i];
    struct tally *t = malloc(sizeof *t);
    if (!t)
        return fail_memory(err);
    ckpt_status st = begin(t, &x->file->table.rows[x->row].t, run, err);
    if (st == CKPT_OK)
        st = ckpt_tensor_stream(x->file, x->row, take, t, err);
    if (st == CKPT_OK) {
        if (t->held)
            take_whole(t, t->rest, t->held);
        sum_up(t, &j->out[x->tag]);
    }
    free(t->sample);
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
        const ckpt_tensor *t = ckpt_tensor_at(f, rows[i]);
        if (!t)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "row %u of %zu", rows[i], f->table.nrows);
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
    struct sweep s = {.items = items, .work = stat_item, .user = &j};
    CKPT_TRY(list_items(f, rows, n, items, first, &s.n, err));
    if (how) {
        s.threads = how->threads;
        s.progress = how->progress;
        s.progress_user = how->user;
    }
    CKPT_TRY(sweep_run(&s, err));
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor *t = &f->table.rows[rows[i]].t;
        uint32_t same = t->alias_of == CKPT_NO_TENSOR ? rows[i] : t->alias_of;
        if (has_numbers(t) && first[same] != i)
            out[i] = out[first[same]];
    }
    return CKPT_OK;
}

ckpt_status ckpt_stat(ckpt_file *file, const uint32_t *rows, size_t nrows, const ckpt_work *how,
                      ckpt_stats *out, ckpt_error *err)
{
    if (nrows >= UINT32_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%zu rows are asked for", nrows);
    struct sweep_item *items = calloc(nrows + 1, sizeof *items);
    uint32_t *first = malloc((file->table.nrows + 1) * sizeof *first);
    for (size_t i = 0; first && i < file->table.nrows; i++)
        first[i] = UINT32_MAX;
    for (size_t i = 0; i < nrows; i++)
        out[i] = (ckpt_stats){0};
    bool room = items && first;
    ckpt_status st = room ? stat_rows(file, rows, nrows, how, items, first, out, err) : fail_memory(err);
    free(first);
    free(items);
    return st;
}
