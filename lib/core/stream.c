/* stream.c - see stream.h. A contiguous view is read straight into the caller's buffer; any other view is
 * gathered into a buffer of the stream, of at most 4 MiB. */
#include "core/stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/elements.h"
#include "core/gather.h"

/* An open tensor, in units: elements, bytes of packed types, or for CKPT_DT_NAMED see split_elements. */
struct row_reader {
    ckpt_tensor tensor;
    struct storage *storage;
    struct gather gather; /* where the units are */
    uint64_t total_units; /* of gather.width bytes each */
    uint32_t block_units; /* units in a block (dtype.def): stream_next returns whole blocks */
    bool is_contiguous;
    struct element_transform transform; /* from stored elements: byte order and sign */
    struct window *window;              /* contiguous tensors are read through it; NULL: directly */
};

struct stream {
    struct row_reader row;
    struct stream_options opts;
    uint64_t next_unit, end_unit;
    bool is_range;     /* stream_open_range: the caller compares the CRC */
    bool computes_crc; /* the CRC of the stored bytes is computed while they are read */
    bool crc_deferred; /* the caller computes that CRC, see stream_defer_crc */
    uint32_t crc;
    unsigned char *buffer; /* gathered units: buffer_returned of its buffer_len bytes have been returned */
    size_t buffer_cap, buffer_returned, buffer_len;
    bool repeats;             /* the buffer gets the same bytes each time, because the view is expanded */
    bool buffer_filled;       /* the buffer was filled at least once */
    struct window own_window; /* used for a source with a block size, if the caller has no window */
};

static ckpt_status fail_no_bytes(const ckpt_tensor *t, ckpt_error *err)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a tensor of kind %s has no bytes of its own",
                ckpt_kind_name((ckpt_kind)t->kind));
}

static ckpt_status fail_outside_storage(const struct row_reader *r, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, source_pos(r->storage->src, r->storage->off),
                "{its view} reaches beyond {=the %" PRIu64 " bytes} of storage \"%.*s\"", r->storage->nbytes,
                STR_ARG(r->storage->key));
}

/* open_contiguous - opens a tensor whose elements are contiguous, packed types included. */
static ckpt_status open_contiguous(struct row_reader *r, const struct dtype_info *d, ckpt_error *err)
{
    uint64_t off = 0;
    if (r->tensor.storage_offset && !tensor_bytes(&r->tensor, r->tensor.storage_offset, &off))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its view begins inside {=a byte}: {offset %" PRIu64 " of %s}", r->tensor.storage_offset,
                    d->name);
    r->is_contiguous = true;
    if (d->block_elems != 1) {
        r->gather.width = 1;
        r->total_units = r->tensor.nbytes;
        r->block_units = d->block_bytes;
    }
    if (!range_within(off, r->tensor.nbytes, r->storage->nbytes))
        return fail_outside_storage(r, err);
    return checked_add(r->storage->off, off, &r->gather.data_offset) ? CKPT_OK : fail_outside_storage(r, err);
}

static ckpt_status open_strided(struct row_reader *r, const struct dtype_info *d, ckpt_error *err)
{
    uint64_t end, bytes, off;
    if (d->block_elems != 1)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s with strides cannot be read", d->name);
    bool fits = tensor_view_end(&r->tensor, &end) && tensor_bytes(&r->tensor, end, &bytes) &&
                bytes <= r->storage->nbytes;
    if (!fits || !tensor_bytes(&r->tensor, r->tensor.storage_offset, &off) ||
        !checked_add(r->storage->off, off, &r->gather.data_offset))
        return fail_outside_storage(r, err);
    return CKPT_OK;
}

/* split_elements - sets the units of a tensor of CKPT_DT_NAMED, whose elements have no fixed size: a unit is
 * as many bytes as a change of byte order reverses, or one byte. */
static ckpt_status split_elements(struct row_reader *r, ckpt_error *err)
{
    uint32_t unit = r->storage->swap_width > 1 ? r->storage->swap_width : 1;
    uint64_t size = r->tensor.elements ? r->tensor.nbytes / r->tensor.elements : 0;
    if (size % unit != 0)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its storage is big-endian in units of {=%u bytes}, its elements have {%" PRIu64 "}",
                    unit, size);
    if (tensor_is_string(&r->tensor))
        gather_set_contiguous(&r->gather, r->tensor.nbytes);
    else if (!gather_split(&r->gather, size / unit))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^64 bytes}");
    r->gather.width = unit;
    r->total_units = r->tensor.nbytes / unit;
    return CKPT_OK;
}

static ckpt_status open_row_reader(struct row_reader *r, struct table *t, uint32_t row, ckpt_error *err)
{
    *r = (struct row_reader){0};
    if (row >= t->nrows)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no tensor %" PRIu32, row);
    r->tensor = table_tensor(t, row);
    if (!r->tensor.has_data || r->tensor.storage >= t->nstorages)
        return fail_no_bytes(&r->tensor, err);
    r->storage = &t->storages[r->tensor.storage];
    const struct dtype_info *d = dtype_info((ckpt_dtype)r->tensor.dtype);
    if (!gather_init(&r->gather, &r->tensor))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^64 elements}");
    r->gather.src = r->storage->src;
    r->gather.width = d->block_bytes ? d->block_bytes : 1;
    r->total_units = r->tensor.elements;
    r->block_units = 1;
    if (r->tensor.dtype == CKPT_DT_NAMED)
        CKPT_TRY(split_elements(r, err));
    if (r->total_units == 0) {
        r->is_contiguous = true;
        return CKPT_OK;
    }
    if (!r->storage->src)
        return fail_no_bytes(&r->tensor, err);
    CKPT_TRY(gather_is_contiguous(&r->gather) ? open_contiguous(r, d, err) : open_strided(r, d, err));
    return element_transform_init(&r->transform, (ckpt_dtype)r->tensor.dtype, r->gather.width,
                                  r->storage->swap_width, r->tensor.conj, r->tensor.neg, err);
}

/* read_units - reads COUNT units from FIRST, as they are stored. */
static ckpt_status read_units(struct row_reader *r, uint64_t first, uint64_t count, unsigned char *out,
                              ckpt_error *err)
{
    uint64_t at = r->gather.data_offset + first * r->gather.width;
    size_t n = (size_t)(count * r->gather.width);
    if (!r->is_contiguous)
        return gather_read(&r->gather, first, count, out, err);
    return r->window ? window_read(r->window, r->gather.src, at, out, n, err)
                     : source_read(r->gather.src, at, out, n, err);
}

ckpt_status storage_compare_crc(struct storage *st, uint32_t crc, const struct stream_options *o,
                                ckpt_error *err)
{
    if (!st->has_crc || crc == st->crc) {
        st->crc_checked = true;
        return CKPT_OK;
    }
    if (!o || !o->ignore_crc)
        return fail(err, CKPT_ECHECKSUM, source_pos(st->src, st->off),
                    "storage \"%.*s\": its %" PRIu64 " bytes have the %s {%08" PRIx32
                    "}, the file records {=%08" PRIx32 "}\n"
                    "the data is damaged; --ignore-crc uses it anyway",
                    STR_ARG(st->key), st->nbytes, crc_name(storage_crc_kind(st)), crc, st->crc);
    st->crc_checked = true;
    if (o->notice)
        o->notice(o->user, "storage \"%.*s\": %s %08" PRIx32 ", the file records %08" PRIx32 "; ignored",
                  STR_ARG(st->key), crc_name(storage_crc_kind(st)), crc, st->crc);
    return CKPT_OK;
}

static bool has_unchecked_crc(const struct storage *st) { return st->has_crc && !st->crc_checked && st->src; }

ckpt_status storage_check_crc(struct table *t, uint32_t storage, const struct stream_options *o,
                              ckpt_error *err)
{
    if (storage >= t->nstorages)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no storage %" PRIu32, storage);
    struct storage *st = &t->storages[storage];
    CKPT_TRY(table_check_source(t, err));
    if (!has_unchecked_crc(st))
        return CKPT_OK;
    uint32_t crc = 0;
    source_advise_sequential(st->src);
    CKPT_TRY(source_crc(st->src, st->off, st->nbytes, storage_crc_kind(st), &crc, err));
    return storage_compare_crc(st, crc, o, err);
}

static bool covers_storage(const struct row_reader *r)
{
    return r->is_contiguous && r->total_units && r->gather.data_offset == r->storage->off &&
           r->tensor.nbytes == r->storage->nbytes;
}

ckpt_status stream_check_limit(const struct table *t, const ckpt_tensor *v, ckpt_error *err)
{
    if (t->expanded_bytes <= t->max_expanded || !tensor_is_expanded(t, v))
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "its view shows %" PRIu64 " bytes of a storage of %" PRIu64
                "; all such views together show {%" PRIu64 "}, the limit is {=%" PRIu64 "}\n"
                "raise it with --max-expanded (max_expanded in ckpt_limits)",
                v->nbytes, t->storages[v->storage].nbytes, t->expanded_bytes, t->max_expanded);
}

static void choose_window(struct stream *s)
{
    bool has_blocks = s->row.is_contiguous && s->row.gather.src && s->row.gather.src->block_size;
    s->row.window = s->opts.window ? s->opts.window : has_blocks ? &s->own_window : NULL;
}

static ckpt_status begin_stream(struct stream *s, struct table *t, uint32_t row, ckpt_error *err)
{
    CKPT_TRY(open_row_reader(&s->row, t, row, err));
    choose_window(s);
    CKPT_TRY(stream_check_limit(t, &s->row.tensor, err));
    const struct row_reader *r = &s->row;
    s->end_unit = r->total_units;
    s->computes_crc = has_unchecked_crc(r->storage) && covers_storage(r);
    CKPT_TRY(table_check_source(t, err));
    if (!s->computes_crc)
        CKPT_TRY(storage_check_crc(t, r->tensor.storage, &s->opts, err));
    if (r->is_contiguous && r->total_units * r->gather.width > STREAM_CHUNK)
        source_advise_sequential(r->gather.src);
    if (r->is_contiguous)
        return CKPT_OK;
    size_t max = gather_block_size(&r->gather);
    uint64_t period = gather_period(&r->gather);
    s->buffer_cap = r->total_units < max / r->gather.width ? (size_t)r->total_units * r->gather.width
                                                           : max - max % r->gather.width;
    s->repeats = period && period <= s->buffer_cap / r->gather.width;
    if (s->repeats)
        s->buffer_cap -= s->buffer_cap % (size_t)(period * r->gather.width);
    s->buffer = malloc(s->buffer_cap);
    return s->buffer ? CKPT_OK : fail_memory(err);
}

ckpt_status stream_open(struct table *t, uint32_t row, const struct stream_options *o, stream **out,
                        ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    CKPT_TRY_ALLOC(s, err);
    if (o)
        s->opts = *o;
    ckpt_status st = begin_stream(s, t, row, err);
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    *out = s;
    return CKPT_OK;
}

bool stream_can_split(struct table *t, uint32_t row)
{
    ckpt_error ignored;
    struct row_reader r;
    bool can_split = open_row_reader(&r, t, row, &ignored) == CKPT_OK && r.is_contiguous &&
                     r.total_units == r.tensor.elements && r.storage->src &&
                     !r.storage->src->serializes_reads;
    can_split = can_split && (!has_unchecked_crc(r.storage) || covers_storage(&r));
    gather_free(&r.gather);
    return can_split;
}

ckpt_status stream_open_range(struct table *t, uint32_t row, uint64_t first, uint64_t count, stream **out,
                              ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    CKPT_TRY_ALLOC(s, err);
    ckpt_status st = open_row_reader(&s->row, t, row, err);
    if (st == CKPT_OK && !range_within(first, count, s->row.total_units))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the range ends after the last element");
    if (st == CKPT_OK)
        st = table_check_source(t, err);
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    s->is_range = true;
    choose_window(s);
    s->computes_crc = has_unchecked_crc(s->row.storage);
    s->next_unit = first;
    s->end_unit = first + count;
    source_advise_sequential(s->row.gather.src);
    *out = s;
    return CKPT_OK;
}

uint32_t stream_crc(const stream *s) { return s->crc; }

static ckpt_status next_run(stream *s, unsigned char *out, uint64_t units, ckpt_error *err)
{
    struct row_reader *r = &s->row;
    size_t n = (size_t)(units * r->gather.width);
    CKPT_TRY(read_units(r, s->next_unit, units, out, err));
    if (!s->computes_crc || s->crc_deferred)
        return CKPT_OK;
    s->crc = crc_update(storage_crc_kind(r->storage), s->crc, out, n);
    return s->is_range || s->next_unit + units < s->end_unit
               ? CKPT_OK
               : storage_compare_crc(r->storage, s->crc, &s->opts, err);
}

static ckpt_status refill_buffer(stream *s, ckpt_error *err)
{
    struct row_reader *r = &s->row;
    uint64_t units = s->buffer_cap / r->gather.width;
    if (units > r->total_units - s->next_unit)
        units = r->total_units - s->next_unit;
    s->buffer_returned = s->buffer_len = 0;
    if (!s->repeats || !s->buffer_filled)
        CKPT_TRY(read_units(r, s->next_unit, units, s->buffer, err));
    s->buffer_filled = true;
    s->buffer_len = (size_t)(units * r->gather.width);
    return CKPT_OK;
}

static ckpt_status next_chunk(stream *s, unsigned char *out, size_t cap, size_t *got, ckpt_error *err)
{
    struct row_reader *r = &s->row;
    uint64_t units = cap / r->gather.width;
    units -= units % r->block_units;
    if (units > s->end_unit - s->next_unit)
        units = s->end_unit - s->next_unit;
    if (r->is_contiguous) {
        CKPT_TRY(next_run(s, out, units, err));
    } else {
        if (s->buffer_returned == s->buffer_len)
            CKPT_TRY(refill_buffer(s, err));
        uint64_t ready = (s->buffer_len - s->buffer_returned) / r->gather.width;
        units = units < ready ? units : ready;
        memcpy(out, s->buffer + s->buffer_returned, (size_t)(units * r->gather.width));
        s->buffer_returned += (size_t)(units * r->gather.width);
    }
    *got = (size_t)(units * r->gather.width);
    s->next_unit += units;
    element_transform_apply(&r->transform, out, *got);
    return CKPT_OK;
}

ckpt_status stream_next(stream *s, void *out, size_t cap, size_t *got, ckpt_error *err)
{
    *got = 0;
    if (s->next_unit == s->end_unit)
        return CKPT_OK;
    if (cap / s->row.gather.width < s->row.block_units)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a buffer of %zu bytes holds no whole element", cap);
    return next_chunk(s, out, cap, got, err);
}

bool stream_checks_crc(const stream *s)
{
    return s->computes_crc && !s->row.transform.swap_width && s->row.transform.negation == NEGATE_NONE;
}

void stream_defer_crc(stream *s) { s->crc_deferred = true; }

enum crc_kind stream_crc_kind(const stream *s) { return storage_crc_kind(s->row.storage); }

ckpt_status stream_finish_crc(stream *s, uint32_t crc, ckpt_error *err)
{
    s->crc = crc;
    return s->is_range ? CKPT_OK : storage_compare_crc(s->row.storage, crc, &s->opts, err);
}

void stream_close(stream *s)
{
    if (!s)
        return;
    gather_free(&s->row.gather);
    window_close(&s->own_window);
    free(s->buffer);
    free(s);
}

static ckpt_status read_elements(struct row_reader *r, uint64_t first, uint64_t count, void *out,
                                 ckpt_error *err)
{
    size_t n;
    uint64_t bytes;
    if (!range_within(first, count, r->total_units) || !checked_mul(count, r->gather.width, &bytes) ||
        !checked_size(bytes, &n))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "%" PRIu64 " elements from element %" PRIu64 " on are requested; the tensor has %" PRIu64,
                    count, first, r->total_units);
    if (count == 0)
        return CKPT_OK;
    CKPT_TRY(read_units(r, first, count, out, err));
    element_transform_apply(&r->transform, out, n);
    return CKPT_OK;
}

ckpt_status stream_read(struct table *t, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err)
{
    struct row_reader r;
    ckpt_status st = open_row_reader(&r, t, row, err);
    if (st == CKPT_OK)
        st = read_elements(&r, first, count, out, err);
    gather_free(&r.gather);
    return st;
}

/* check_as_stored - fails unless the stored bytes of R are those that stream_read returns. */
static ckpt_status check_as_stored(const struct row_reader *r, ckpt_error *err)
{
    const char *why = !r->is_contiguous             ? "its elements are not contiguous"
                      : r->transform.swap_width > 1 ? "its bytes are stored in big-endian order"
                      : r->transform.negation ? "the tensor is a conjugate or negative view of what is stored"
                                              : NULL;
    return why ? fail(err, CKPT_EUNSUPPORTED, source_pos(r->storage->src, r->storage->off), "%s", why)
               : CKPT_OK;
}

static ckpt_status borrow_contiguous(const struct row_reader *r, const void **out, size_t *n, ckpt_error *err)
{
    const unsigned char *bytes = (const unsigned char *)"";
    CKPT_TRY(check_as_stored(r, err));
    if (!checked_size(r->tensor.nbytes, n))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "%" PRIu64 " bytes do not fit into the address space of this machine", r->tensor.nbytes);
    if (*n)
        CKPT_TRY(source_map(r->gather.src, r->gather.data_offset, *n, &bytes, err));
    *out = bytes;
    return CKPT_OK;
}

ckpt_status stream_borrow(struct table *t, uint32_t row, const void **out, size_t *n, ckpt_error *err)
{
    struct row_reader r;
    ckpt_status st = open_row_reader(&r, t, row, err);
    if (st == CKPT_OK)
        st = borrow_contiguous(&r, out, n, err);
    gather_free(&r.gather);
    return st;
}
