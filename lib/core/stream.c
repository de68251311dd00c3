/* stream.c - see stream.h. One contiguous run is read straight into the caller's
 * buffer; any other view is gathered into a block of at most 4 MiB. */
#include "core/stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "core/dtype.h"
#include "core/elements.h"
#include "core/gather.h"

/* A row ready to be read. */
struct look {
    const ckpt_tensor *t;
    struct storage *st;
    uint64_t total; /* units of g.width bytes: elements, or bytes of packed types */
    bool run;
    struct gather g;
    struct elements e;
    struct window *window; /* runs are read by it; NULL: by themselves */
};

struct stream {
    struct look l;
    struct stream_options o;
    uint64_t next, end; /* units: to be read next, behind the last */
    bool part, crc_on_the_way, crc_late;
    uint32_t crc;
    unsigned char *block; /* gathered units: block_at of block_len bytes are handed out */
    size_t block_cap, block_at, block_len;
    bool repeats, full; /* what follows a block is the same again; it was read */
    struct window own;  /* over a source with a block size, where the caller has none */
};

static ckpt_status no_bytes(const ckpt_tensor *t, ckpt_error *err)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a tensor of kind %s has no bytes of its own",
                ckpt_kind_name((ckpt_kind)t->kind));
}

static ckpt_status outside(const struct look *l, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, source_pos(l->st->src, l->st->off),
                "{its view} reaches beyond {=the %" PRIu64 " bytes} of storage \"%.*s\"", l->st->s.nbytes,
                STR_ARG(l->st->s.key));
}

/* look_run - elements one behind the other, packed types included. */
static ckpt_status look_run(struct look *l, const struct dtype_info *d, ckpt_error *err)
{
    uint64_t off = 0;
    if (l->t->storage_offset && !dtype_bytes((ckpt_dtype)l->t->dtype, l->t->storage_offset, &off))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "begins inside {=a byte}: {offset %" PRIu64 " of %s}", l->t->storage_offset, d->name);
    l->run = true;
    if (d->block_elems != 1 || d->block_bytes == 0) {
        l->g.width = 1;
        l->total = l->t->nbytes;
    }
    if (!range_within(off, l->t->nbytes, l->st->s.nbytes))
        return outside(l, err);
    return checked_add(l->st->off, off, &l->g.at) ? CKPT_OK : outside(l, err);
}

static ckpt_status look_strided(struct look *l, const struct dtype_info *d, ckpt_error *err)
{
    uint64_t end, bytes, off;
    if (d->block_elems != 1 || d->block_bytes == 0)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s with strides cannot be read", d->name);
    if (!row_end(l->t, &end) || !checked_mul(end, l->g.width, &bytes) || bytes > l->st->s.nbytes ||
        !checked_mul(l->t->storage_offset, l->g.width, &off) || !checked_add(l->st->off, off, &l->g.at))
        return outside(l, err);
    return CKPT_OK;
}

static ckpt_status look_at(struct look *l, struct table *t, uint32_t row, ckpt_error *err)
{
    *l = (struct look){0};
    if (row >= t->nrows)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no tensor %" PRIu32, row);
    l->t = &t->rows[row].t;
    if (!l->t->has_data || l->t->storage >= t->nstorages)
        return no_bytes(l->t, err);
    l->st = &t->storages[l->t->storage];
    const struct dtype_info *d = dtype_info((ckpt_dtype)l->t->dtype);
    if (!gather_init(&l->g, l->t))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^64 elements}");
    l->g.src = l->st->src;
    l->g.width = d->block_bytes ? d->block_bytes : 1;
    l->total = l->t->elements;
    if (l->total == 0) {
        l->run = true;
        return CKPT_OK;
    }
    if (!l->st->src)
        return no_bytes(l->t, err);
    CKPT_TRY(gather_is_run(&l->g) ? look_run(l, d, err) : look_strided(l, d, err));
    return elements_init(&l->e, (ckpt_dtype)l->t->dtype, l->g.width, l->st->swap, l->t->conj, l->t->neg, err);
}

/* look_read - COUNT units from FIRST as they are stored. */
static ckpt_status look_read(struct look *l, uint64_t first, uint64_t count, unsigned char *out,
                             ckpt_error *err)
{
    if (l->run && l->window)
        return window_read(l->window, l->g.src, l->g.at + first * l->g.width, out,
                           (size_t)(count * l->g.width), err);
    if (l->run)
        return source_read(l->g.src, l->g.at + first * l->g.width, out, (size_t)(count * l->g.width), err);
    return gather_read(&l->g, first, count, out, err);
}

ckpt_status storage_crc(struct storage *st, uint32_t crc, const struct stream_options *o, ckpt_error *err)
{
    if (!st->has_crc || crc == st->crc) {
        st->crc_checked = true;
        return CKPT_OK;
    }
    if (!o || !o->ignore_crc) {
        fail(err, CKPT_ECHECKSUM, source_pos(st->src, st->off),
             "storage \"%.*s\": its %" PRIu64 " bytes have the CRC-32 {%08" PRIx32
             "}, the file records {=%08" PRIx32 "}",
             STR_ARG(st->s.key), st->s.nbytes, crc, st->crc);
        fail_hint(err, "the data is damaged; --ignore-crc uses it anyway");
        return CKPT_ECHECKSUM;
    }
    st->crc_checked = true;
    if (o->notice)
        o->notice(o->user, "storage \"%.*s\": CRC-32 %08" PRIx32 ", the file records %08" PRIx32 "; ignored",
                  STR_ARG(st->s.key), crc, st->crc);
    return CKPT_OK;
}

static bool crc_open(const struct storage *st) { return st->has_crc && !st->crc_checked && st->src; }

static ckpt_status read_through(struct storage *st, unsigned char *block, uint32_t *crc, ckpt_error *err)
{
    *crc = 0;
    source_sequential(st->src);
    for (uint64_t at = 0; at < st->s.nbytes;) {
        uint64_t left = st->s.nbytes - at, from;
        size_t n = left < STREAM_CHUNK ? (size_t)left : STREAM_CHUNK;
        if (!checked_add(st->off, at, &from))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a storage reaches {beyond} {=2^64}");
        CKPT_TRY(source_read(st->src, from, block, n, err));
        *crc = crc32_update(*crc, block, n);
        at += n;
    }
    return CKPT_OK;
}

ckpt_status storage_check(struct table *t, uint32_t storage, const struct stream_options *o, ckpt_error *err)
{
    if (storage >= t->nstorages)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no storage %" PRIu32, storage);
    struct storage *st = &t->storages[storage];
    if (!crc_open(st))
        return CKPT_OK;
    unsigned char *block = malloc(STREAM_CHUNK);
    uint32_t crc;
    if (!block)
        return fail_memory(err);
    ckpt_status status = read_through(st, block, &crc, err);
    free(block);
    return status == CKPT_OK ? storage_crc(st, crc, o, err) : status;
}

static bool covers(const struct look *l)
{
    return l->run && l->total && l->g.at == l->st->off && l->t->nbytes == l->st->s.nbytes;
}

ckpt_status stream_allowed(const struct table *t, const ckpt_tensor *v, ckpt_error *err)
{
    if (t->expanded <= t->max_expanded || !row_expands(t, v))
        return CKPT_OK;
    fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
         "its view shows %" PRIu64 " bytes of a storage of %" PRIu64 "; all such views show {%" PRIu64
         "}, the limit is {=%" PRIu64 "}",
         v->nbytes, t->storages[v->storage].s.nbytes, t->expanded, t->max_expanded);
    fail_hint(err, "raise it with --max-expanded (max_expanded in ckpt_limits)");
    return CKPT_ELIMIT;
}

static void set_window(struct stream *s)
{
    bool blocks = s->l.run && s->l.g.src && s->l.g.src->block;
    s->l.window = s->o.window ? s->o.window : blocks ? &s->own : NULL;
}

static ckpt_status begin(struct stream *s, struct table *t, uint32_t row, ckpt_error *err)
{
    CKPT_TRY(look_at(&s->l, t, row, err));
    set_window(s);
    CKPT_TRY(stream_allowed(t, s->l.t, err));
    const struct look *l = &s->l;
    s->end = l->total;
    s->crc_on_the_way = crc_open(l->st) && covers(l);
    if (!s->crc_on_the_way)
        CKPT_TRY(storage_check(t, l->t->storage, &s->o, err));
    if (l->run && l->total * l->g.width > STREAM_CHUNK)
        source_sequential(l->g.src);
    if (l->run)
        return CKPT_OK;
    size_t most = gather_block(&l->g);
    uint64_t period = gather_period(&l->g);
    s->block_cap = l->total < most / l->g.width ? (size_t)l->total * l->g.width : most - most % l->g.width;
    s->repeats = period && period <= s->block_cap / l->g.width;
    if (s->repeats)
        s->block_cap -= s->block_cap % (size_t)(period * l->g.width); /* bounded: it fits the block */
    s->block = malloc(s->block_cap);
    return s->block ? CKPT_OK : fail_memory(err);
}

ckpt_status stream_open(struct table *t, uint32_t row, const struct stream_options *o, stream **out,
                        ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    if (!s)
        return fail_memory(err);
    if (o)
        s->o = *o;
    ckpt_status st = begin(s, t, row, err);
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    *out = s;
    return CKPT_OK;
}

bool stream_is_run(struct table *t, uint32_t row)
{
    struct look l;
    bool run = look_at(&l, t, row, NULL) == CKPT_OK && l.run && l.total == l.t->elements && l.st->src &&
               !l.st->src->serial && (!crc_open(l.st) || covers(&l));
    gather_free(&l.g);
    return run;
}

ckpt_status stream_open_part(struct table *t, uint32_t row, uint64_t first, uint64_t count, stream **out,
                             ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    if (!s)
        return fail_memory(err);
    ckpt_status st = look_at(&s->l, t, row, err);
    if (st == CKPT_OK && !range_within(first, count, s->l.total))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a part beyond the end is asked for");
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    s->part = true;
    set_window(s);
    s->crc_on_the_way = crc_open(s->l.st);
    s->next = first;
    s->end = first + count; /* bounded: range_within */
    source_sequential(s->l.g.src);
    *out = s;
    return CKPT_OK;
}

uint32_t stream_crc(const stream *s) { return s->crc; }

static ckpt_status next_run(stream *s, unsigned char *out, uint64_t units, ckpt_error *err)
{
    struct look *l = &s->l;
    size_t n = (size_t)(units * l->g.width);
    CKPT_TRY(look_read(l, s->next, units, out, err));
    if (!s->crc_on_the_way || s->crc_late)
        return CKPT_OK;
    s->crc = crc32_update(s->crc, out, n);
    return s->part || s->next + units < s->end ? CKPT_OK : storage_crc(l->st, s->crc, &s->o, err);
}

/* refill - the next block of gathered elements. */
static ckpt_status refill(stream *s, ckpt_error *err)
{
    struct look *l = &s->l;
    uint64_t units = s->block_cap / l->g.width;
    if (units > l->total - s->next)
        units = l->total - s->next;
    s->block_at = s->block_len = 0;
    if (!s->repeats || !s->full)
        CKPT_TRY(look_read(l, s->next, units, s->block, err));
    s->full = true;
    s->block_len = (size_t)(units * l->g.width);
    return CKPT_OK;
}

static ckpt_status next_chunk(stream *s, unsigned char *out, size_t cap, size_t *got, ckpt_error *err)
{
    struct look *l = &s->l;
    uint64_t units = cap / l->g.width;
    if (units > s->end - s->next)
        units = s->end - s->next;
    if (l->run) {
        CKPT_TRY(next_run(s, out, units, err));
    } else {
        if (s->block_at == s->block_len)
            CKPT_TRY(refill(s, err));
        uint64_t ready = (s->block_len - s->block_at) / l->g.width;
        units = units < ready ? units : ready;
        memcpy(out, s->block + s->block_at, (size_t)(units * l->g.width));
        s->block_at += (size_t)(units * l->g.width);
    }
    *got = (size_t)(units * l->g.width);
    s->next += units;
    elements_apply(&l->e, out, *got);
    return CKPT_OK;
}

ckpt_status stream_next(stream *s, void *out, size_t cap, size_t *got, ckpt_error *err)
{
    *got = 0;
    if (s->next == s->end)
        return CKPT_OK;
    if (cap < s->l.g.width)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a buffer of %zu bytes holds no element", cap);
    return next_chunk(s, out, cap, got, err);
}

bool stream_sums(const stream *s)
{
    return s->crc_on_the_way && !s->l.e.swap && s->l.e.negation == NEGATE_NOT;
}

void stream_sum_late(stream *s) { s->crc_late = true; }

ckpt_status stream_summed(stream *s, uint32_t crc, ckpt_error *err)
{
    s->crc = crc;
    return s->part ? CKPT_OK : storage_crc(s->l.st, crc, &s->o, err);
}

void stream_close(stream *s)
{
    if (!s)
        return;
    gather_free(&s->l.g);
    window_close(&s->own);
    free(s->block);
    free(s);
}

static ckpt_status read_part(struct look *l, uint64_t first, uint64_t count, void *out, ckpt_error *err)
{
    size_t n;
    uint64_t bytes;
    if (!range_within(first, count, l->total) || !checked_mul(count, l->g.width, &bytes) ||
        !checked_size(bytes, &n))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "elements %" PRIu64 " and %" PRIu64 " more are asked for, it has %" PRIu64, first, count,
                    l->total);
    if (count == 0)
        return CKPT_OK;
    CKPT_TRY(look_read(l, first, count, out, err));
    elements_apply(&l->e, out, n);
    return CKPT_OK;
}

ckpt_status stream_read(struct table *t, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err)
{
    struct look l;
    ckpt_status st = look_at(&l, t, row, err);
    if (st == CKPT_OK)
        st = read_part(&l, first, count, out, err);
    gather_free(&l.g);
    return st;
}
