/*
 * stat.c - `ckpt stat`: extremes, mean, spread and counts of tensors, each read once.
 *
 * Sums are taken over blocks that begin at fixed elements, so that the last bit is the same for any strides,
 * format and number of threads. The histogram needs the extremes first, and elements are not read twice. So
 * it is made of a sample: the row is divided into up to SAMPLE_SIZE equal stretches, and one element at a
 * pseudo-random position is taken from each. The positions depend only on the number of elements. They are
 * not all in one column of a matrix, as every n-th element could be. Types of at most eight
 * bits are counted by value and need no sample.
 */
#include <stdlib.h>

#include "base/cursor.h"
#include "base/sized.h"
#include "core/byte_histogram.h"
#include "core/dequantize.h"
#include "core/number.h"
#include "core/parallel_rows.h"
#include "core/tensor.h"
#include "op/share.h"

#define SAMPLE_SIZE 4096u /* elements */

/* The sums over a row, or over a chunk of it. */
struct tally {
    ckpt_dtype dtype;                 /* of the numbers that are added; float32 for ggml's blocks */
    ckpt_dtype block_dtype;           /* of ggml's blocks; NONE: elements are added as they are stored */
    bool one_byte_elements;           /* they are counted by value, in byte_counts */
    size_t element_bytes, unit_bytes; /* of an element; of a unit, which is added at a time */
    uint64_t position;                /* index of the next element */
    uint64_t chunk_elements;          /* of a chunk, also if the row is not read in chunks */
    uint64_t stretch_elements;        /* of a stretch, which has one element in the sample */
    struct moments chunk_moments;     /* of the current chunk */
    struct moments earlier_moments;   /* of the earlier chunks */
    struct byte_histogram byte_counts;
    uint64_t int_min, int_max; /* of 64-bit integers; the sign bit of int64 is inverted */
    unsigned char *pending;    /* allocated after SAMPLE: bytes that do not make a unit yet */
    size_t npending;
    struct parallel_context *run;
    size_t nsample;
    double sample[];
};

/* -------------------------------------------------------------------- adding */

/* sample_index - returns the element of stretch INDEX that is sampled, by splitmix64 (Steele et al. 2014). */
MODULO static uint64_t sample_index(const struct tally *tally, uint64_t index)
{
    uint64_t z = index * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return index * tally->stretch_elements + (z ^ z >> 31) % tally->stretch_elements;
}

static void add_to_sample(struct tally *tally, const unsigned char *bytes, uint64_t count)
{
    if (tally->stretch_elements == 1) {
        tally->nsample += moments_decode(tally->dtype, bytes, (size_t)count, tally->sample + tally->nsample);
        return;
    }
    for (uint64_t j = tally->position / tally->stretch_elements;
         j * tally->stretch_elements < tally->position + count; j++) {
        uint64_t i = sample_index(tally, j);
        if (i >= tally->position && i - tally->position < count)
            tally->nsample += moments_decode(tally->dtype,
                                             bytes + (i - tally->position) * tally->element_bytes, 1,
                                             tally->sample + tally->nsample);
    }
}

static void add_int64_extremes(struct tally *tally, const unsigned char *bytes, size_t count)
{
    uint64_t sign_bit = tally->dtype == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = load_u64le(bytes + 8 * i) ^ sign_bit;
        tally->int_min = x < tally->int_min ? x : tally->int_min;
        tally->int_max = x > tally->int_max ? x : tally->int_max;
    }
}

static void end_chunk(struct tally *tally)
{
    moments_merge(&tally->earlier_moments, &tally->chunk_moments);
    tally->chunk_moments = (struct moments){0};
}

/* add_elements - adds COUNT elements that are in one chunk. */
static void add_elements(struct tally *tally, const unsigned char *bytes, size_t count)
{
    moments_add(&tally->chunk_moments, tally->dtype, bytes, count);
    if (number_is_wide(tally->dtype))
        add_int64_extremes(tally, bytes, count);
    add_to_sample(tally, bytes, count);
    tally->position += count;
    if (tally->position % tally->chunk_elements == 0)
        end_chunk(tally);
}

/* add_units - adds NBYTES bytes, which are whole units or the last bytes of the row. */
static void add_units(struct tally *tally, const unsigned char *bytes, size_t nbytes)
{
    const struct dtype_info *d = dtype_info(tally->dtype);
    size_t elements = nbytes / d->block_bytes * d->block_elems;
    if (tally->one_byte_elements) {
        byte_histogram_add(&tally->byte_counts, tally->dtype, bytes, elements);
        return;
    }
    while (elements) {
        uint64_t left = tally->chunk_elements - tally->position % tally->chunk_elements;
        size_t n_here = elements < left ? elements : (size_t)left;
        add_elements(tally, bytes, n_here);
        bytes += n_here * tally->element_bytes;
        elements -= n_here;
    }
}

static void add_bytes(struct tally *tally, const unsigned char *bytes, size_t nbytes)
{
    size_t left = nbytes;
    if (tally->npending) {
        size_t n_here = tally->unit_bytes - tally->npending < left ? tally->unit_bytes - tally->npending
                                                                   : left;
        memcpy(tally->pending + tally->npending, bytes, n_here);
        tally->npending += n_here;
        bytes += n_here;
        left -= n_here;
        if (tally->npending == tally->unit_bytes) {
            add_units(tally, tally->pending, tally->unit_bytes);
            tally->npending = 0;
        }
    }
    size_t whole = left - left % tally->unit_bytes; /* bytes of whole units */
    if (whole)
        add_units(tally, bytes, whole);
    if (left > whole) {
        memcpy(tally->pending, bytes + whole, left - whole);
        tally->npending = left - whole;
    }
}

/* add_blocks - adds NBYTES bytes of ggml's blocks as the numbers that they encode. */
static void add_blocks(struct tally *tally, const unsigned char *bytes, size_t nbytes)
{
    const struct dtype_info *d = dtype_info(tally->block_dtype);
    unsigned char floats[4 * DEQUANTIZE_BLOCK];
    for (; nbytes >= d->block_bytes; bytes += d->block_bytes, nbytes -= d->block_bytes) {
        dequantize(tally->block_dtype, bytes, 1, floats);
        add_bytes(tally, floats, 4u * d->block_elems);
    }
}

static int add_chunk(void *user, const void *bytes, size_t nbytes)
{
    struct tally *t = user;
    if (t->block_dtype)
        add_blocks(t, bytes, nbytes);
    else
        add_bytes(t, bytes, nbytes);
    return !parallel_advance(t->run, nbytes);
}

/* ------------------------------------------------------------------- results */

/* find_bin - returns the bin of NUMBER in ckpt_stats. Halves all numbers, so that no difference overflows. */
static size_t find_bin(const void *user, double number)
{
    const ckpt_stats *s = user;
    double width = s->max / 2 - s->min / 2, fraction = width > 0 ? (number / 2 - s->min / 2) / width : 0;
    size_t bin = (size_t)(fraction * CKPT_STAT_BINS);
    return bin < CKPT_STAT_BINS ? bin : CKPT_STAT_BINS - 1;
}

static void fill_bins(const struct tally *tally, ckpt_stats *stats)
{
    if (tally->one_byte_elements)
        byte_histogram_fill_bins(&tally->byte_counts, tally->dtype, stats->histogram, find_bin, stats);
    for (size_t i = 0; i < tally->nsample; i++)
        if (isfinite(tally->sample[i]))
            stats->histogram[find_bin(stats, tally->sample[i])]++;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        stats->sampled += stats->histogram[i];
}

static void fill_stats(const struct tally *tally, ckpt_stats *stats)
{
    struct moments m = tally->one_byte_elements ? byte_histogram_moments(&tally->byte_counts, tally->dtype)
                                                : tally->earlier_moments;
    double undefined = (double)NAN;
    *stats = (ckpt_stats){.numeric = true, .nan = m.nan, .inf = m.inf, .zeros = m.zeros, .finite = m.finite};
    stats->min = m.finite ? m.min : undefined;
    stats->max = m.finite ? m.max : undefined;
    stats->mean = m.finite ? m.mean : undefined;
    stats->std = m.finite > 1 ? scaled_sum_sqrt(&m.m2, (double)(m.finite - 1)) : undefined;
    stats->norm = scaled_sum_sqrt(&m.squares, 1);
    stats->wide = number_is_wide(tally->dtype) && m.finite;
    if (stats->wide) {
        /* the extremes of int64 have their sign bit inverted: see add_int64_extremes() */
        uint64_t sign_bit = tally->dtype == CKPT_DT_I64 ? UINT64_C(1) << 63 : 0;
        stats->min_bits = tally->int_min ^ sign_bit;
        stats->max_bits = tally->int_max ^ sign_bit;
    }
    fill_bins(tally, stats);
}

/* ---------------------------------------------------------------------- rows */

struct stat_job {
    const ckpt_file *file;
    const struct parallel_item *items;
    size_t nitems;
    ckpt_stats *out; /* indexed by the tag of an item */
};

/* new_tally - sets *OUT to a new tally for COUNT elements of ROW, the first of which is element FIRST. */
static ckpt_status new_tally(struct tally **out, const ckpt_tensor *row, uint64_t first, uint64_t count,
                             struct parallel_context *run, ckpt_error *err)
{
    bool has_blocks = dtype_info((ckpt_dtype)row->dtype)->klass == 'k';
    ckpt_dtype dtype = has_blocks ? CKPT_DT_F32 : (ckpt_dtype)row->dtype;
    const struct dtype_info *info = dtype_info(dtype);
    bool one_byte = byte_histogram_supports((ckpt_dtype)row->dtype);
    uint64_t stretch = row->elements / SAMPLE_SIZE + (row->elements % SAMPLE_SIZE != 0);
    stretch = stretch ? stretch : 1;
    size_t sample_room = one_byte ? 0 : (size_t)(count / stretch) + 2; /* at most SAMPLE_SIZE + 2 */
    size_t unit_bytes = one_byte ? info->block_bytes : (size_t)info->block_bytes * MOMENTS_BLOCK;
    size_t pending_room = !has_blocks && row->nbytes < unit_bytes ? (size_t)row->nbytes + 1 : unit_bytes;
    struct tally *t = *out = calloc(1, sizeof *t + sample_room * sizeof *t->sample + pending_room);
    CKPT_TRY_ALLOC(t, err);
    t->dtype = dtype;
    t->block_dtype = has_blocks ? (ckpt_dtype)row->dtype : CKPT_DT_NONE;
    t->one_byte_elements = one_byte;
    t->element_bytes = info->block_bytes;
    t->unit_bytes = unit_bytes;
    t->position = first;
    t->chunk_elements = parallel_chunk_elements(info->block_bytes);
    t->stretch_elements = stretch;
    t->int_min = UINT64_MAX;
    t->run = run;
    t->pending = (unsigned char *)(t->sample + sample_room);
    return CKPT_OK;
}

/* finish_tally - adds the pending bytes and ends the last chunk. */
static void finish_tally(struct tally *tally)
{
    if (tally->npending)
        add_units(tally, tally->pending, tally->npending);
    end_chunk(tally);
}

static ckpt_status stat_item(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    const struct stat_job *j = user;
    const struct parallel_item *item = &j->items[index];
    const ckpt_tensor row = table_tensor(&item->file->table, item->row);
    struct tally *t;
    ckpt_status st = new_tally(&t, &row, 0, row.elements, run, err);
    CKPT_THEN(st, ckpt_tensor_stream(item->file, item->row, add_chunk, t, err));
    if (st == CKPT_OK) {
        finish_tally(t);
        fill_stats(t, &j->out[item->tag]);
    }
    free(t);
    return st;
}

static ckpt_status stat_chunk(void *user, size_t index, struct parallel_chunk *chunk,
                              struct parallel_context *run, ckpt_error *err)
{
    const struct stat_job *j = user;
    const struct parallel_item *item = &j->items[index];
    const ckpt_tensor tensor = table_tensor(&item->file->table, item->row);
    struct tally *t;
    ckpt_status st = new_tally(&t, &tensor, chunk->first, chunk->count, run, err);
    chunk->out = t;
    CKPT_THEN(st, tensor_stream_range(item->file, item->row, chunk->first, chunk->count, &chunk->crc[0],
                                      add_chunk, t, err));
    if (st == CKPT_OK)
        finish_tally(t);
    return st;
}

static void merge_tally(struct tally *tally, const struct tally *next)
{
    moments_merge(&tally->earlier_moments, &next->earlier_moments);
    byte_histogram_merge(&tally->byte_counts, &next->byte_counts);
    tally->int_min = next->int_min < tally->int_min ? next->int_min : tally->int_min;
    tally->int_max = next->int_max > tally->int_max ? next->int_max : tally->int_max;
    for (size_t i = 0; i < next->nsample; i++)
        tally->sample[tally->nsample++] = next->sample[i];
}

static ckpt_status merge_chunk_tallies(void *user, size_t index, const struct parallel_chunk *chunks,
                                       size_t count, ckpt_error *err)
{
    const struct stat_job *j = user;
    const struct parallel_item *item = &j->items[index];
    const ckpt_tensor row = table_tensor(&item->file->table, item->row);
    struct tally *t;
    ckpt_status st = parallel_check_crc(item, chunks, count, err);
    if (st != CKPT_OK)
        return name_tensor_if_failed(item->file, item->row, st, err);
    st = new_tally(&t, &row, 0, row.elements, NULL, err);
    for (size_t k = 0; st == CKPT_OK && k < count; k++)
        merge_tally(t, chunks[k].out);
    if (st == CKPT_OK)
        fill_stats(t, &j->out[item->tag]);
    free(t);
    return st;
}

static bool has_numbers(const ckpt_tensor *tensor)
{
    return tensor->has_data && numbers_per_element((ckpt_dtype)tensor->dtype);
}

/* list_rows_to_read - sets ITEMS to the rows to read: of rows that share their bytes, only one. Sets FIRST,
 * by row that is not an alias, to the index in ROWS of the row that is read for it and its aliases. */
static ckpt_status list_rows_to_read(ckpt_file *f, const uint32_t *rows, size_t count,
                                     struct parallel_item *items, uint32_t *first, size_t *nitems,
                                     ckpt_error *err)
{
    *nitems = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i] >= f->table.nrows)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no tensor %u; the file has %zu", rows[i],
                        f->table.nrows);
        const ckpt_tensor t = table_tensor(&f->table, rows[i]);
        uint32_t shared_row = t.alias_of == CKPT_NO_TENSOR ? rows[i] : t.alias_of;
        if (!has_numbers(&t) || first[shared_row] != UINT32_MAX)
            continue;
        first[shared_row] = (uint32_t)i;
        items[(*nitems)++] = (struct parallel_item){.file = f, .row = rows[i], .tag = (uint32_t)i};
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------- sharing */

/* The numbers of ckpt_stats in their order, but for the histogram. */
#define STAT_COUNTS(X) X(finite) X(nan) X(inf) X(zeros) X(min_bits) X(max_bits) X(sampled)
#define STAT_REALS(X)  X(min) X(max) X(mean) X(std) X(norm)

static void put_stats(void *user, size_t index, buf *out)
{
    const struct stat_job *j = user;
    const ckpt_stats *s = &j->out[j->items[index].tag];
#define PUT(field) buf_u64le(out, s->field);
    STAT_COUNTS(PUT)
#undef PUT
#define PUT(field) share_put_real(s->field, out);
    STAT_REALS(PUT)
#undef PUT
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        buf_u64le(out, s->histogram[i]);
}

/* are_possible - returns true if STATS may be those of TENSOR: the counts of numbers and bins add up. */
static bool are_possible(const ckpt_stats *stats, const ckpt_tensor *tensor)
{
    uint64_t numbers = size_mul(tensor->elements, numbers_per_element((ckpt_dtype)tensor->dtype));
    uint64_t sampled = 0;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        sampled = size_add(sampled, stats->histogram[i]);
    uint64_t counted = size_add(stats->finite, size_add(stats->nan, stats->inf));
    return counted <= numbers && numbers < UINT64_MAX && stats->zeros <= stats->finite &&
           stats->sampled <= stats->finite && sampled == stats->sampled;
}

static bool take_stats(void *user, size_t index, cursor *in)
{
    const struct stat_job *j = user;
    const struct parallel_item *item = &j->items[index];
    const ckpt_tensor t = table_tensor(&item->file->table, item->row);
    ckpt_stats *s = &j->out[item->tag];
    *s = (ckpt_stats){.numeric = true};
#define TAKE(field) s->field = cursor_u64(in);
    STAT_COUNTS(TAKE)
#undef TAKE
#define TAKE(field) s->field = share_take_real(in);
    STAT_REALS(TAKE)
#undef TAKE
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        s->histogram[i] = cursor_u64(in);
    s->wide = number_is_wide((ckpt_dtype)t.dtype) && s->finite;
    return are_possible(s, &t);
}

static ckpt_status describe_stats(void *user, struct hash *facts, ckpt_error *err)
{
    const struct stat_job *j = user;
    hash_u64(facts, j->nitems);
    for (size_t i = 0; i < j->nitems; i++)
        hash_u64(facts, j->items[i].row);
    return share_describe_file(j->file, facts, err);
}

/* run_shared - computes the statistics of the items of PARALLEL, or of those of a part. */
static ckpt_status run_shared(struct stat_job *job, const struct parallel_job *parallel,
                              const ckpt_work *work, ckpt_error *err)
{
    struct share share;
    struct share_list list = {.put = put_stats, .take = take_stats, .user = job};
    ckpt_status st = share_start(&share, work, "stat", describe_stats, job, err);
    CKPT_THEN(st, share_deal(&share, parallel->items, parallel->n, &list, err));
    CKPT_THEN(st, share_run(&share, &list, parallel, err));
    CKPT_THEN(st, share_exchange(&share, &list, 1, err));
    free(list.owners);
    return st;
}

static ckpt_status stat_rows(ckpt_file *f, const uint32_t *rows, size_t count, const ckpt_work *how,
                             struct parallel_item *items, uint32_t *first, ckpt_stats *out, ckpt_error *err)
{
    struct stat_job job = {.file = f, .items = items, .out = out};
    struct parallel_job parallel = {.items = items,
                                    .process = stat_item,
                                    .process_chunk = stat_chunk,
                                    .join_chunks = merge_chunk_tallies,
                                    .user = &job};
    CKPT_TRY(list_rows_to_read(f, rows, count, items, first, &job.nitems, err));
    parallel.n = job.nitems;
    parallel.threads = how->threads;
    parallel.progress = how->progress;
    parallel.progress_user = how->user;
    CKPT_TRY(run_shared(&job, &parallel, how, err));
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor t = table_tensor(&f->table, rows[i]);
        uint32_t shared_row = t.alias_of == CKPT_NO_TENSOR ? rows[i] : t.alias_of;
        if (has_numbers(&t) && first[shared_row] != i)
            out[i] = out[first[shared_row]];
    }
    return CKPT_OK;
}

/* copy_stats - copies the COUNT items of LIST to OUT, whose items have the size in the caller's ckpt.h. */
static void copy_stats(const ckpt_stats *list, size_t count, ckpt_stats *out)
{
    uint32_t stride = count ? sized_struct_size(out) : 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = (unsigned char *)out + i * stride;
        memcpy(to, &stride, sizeof stride);
        sized_struct_copy_out(to, &list[i], sizeof *list);
    }
}

ckpt_status ckpt_stat(ckpt_file *file, const uint32_t *rows, size_t nrows, const ckpt_work *how,
                      ckpt_stats *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_work work;
    CKPT_TRY(nrows ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, file && (rows || !nrows));
    CKPT_TRY(sized_struct_copy_in(how, &work, sizeof work, err));
    if (nrows >= UINT32_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%zu rows are asked for", nrows);
    struct parallel_item *items = calloc(nrows + 1, sizeof *items);
    ckpt_stats *own = calloc(nrows + 1, sizeof *own);
    uint32_t *first = malloc((file->table.nrows + 1) * sizeof *first);
    for (size_t i = 0; first && i < file->table.nrows; i++)
        first[i] = UINT32_MAX;
    bool ok = items && first && own;
    if (own) /* so that OUT is all zero after an error */
        copy_stats(own, nrows, out);
    ckpt_status st = ok ? stat_rows(file, rows, nrows, &work, items, first, own, err) : fail_memory(err);
    if (st == CKPT_OK)
        copy_stats(own, nrows, out);
    free(own);
    free(first);
    free(items);
    return st;
}
