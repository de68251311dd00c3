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

static ckpt_status fail_no_bytes(const ckpt_tensor *tensor, ckpt_error *err)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a tensor of kind %s has no bytes of its own",
                ckpt_kind_name((ckpt_kind)tensor->kind));
}

static ckpt_status fail_outside_storage(const struct row_reader *reader, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, source_pos(reader->storage->src, reader->storage->off),
                "{its view} reaches beyond {=the %" PRIu64 " bytes} of storage \"%.*s\"",
                reader->storage->nbytes, STR_ARG(reader->storage->key));
}

/* open_contiguous - opens a tensor whose elements are contiguous, packed types included. */
static ckpt_status open_contiguous(struct row_reader *reader, const struct dtype_info *info, ckpt_error *err)
{
    uint64_t off = 0;
    if (reader->tensor.storage_offset && !tensor_bytes(&reader->tensor, reader->tensor.storage_offset, &off))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its view begins inside {=a byte}: {offset %" PRIu64 " of %s}",
                    reader->tensor.storage_offset, info->name);
    reader->is_contiguous = true;
    if (info->block_elems != 1) {
        reader->gather.width = 1;
        reader->total_units = reader->tensor.nbytes;
        reader->block_units = info->block_bytes;
    }
    if (!range_within(off, reader->tensor.nbytes, reader->storage->nbytes))
        return fail_outside_storage(reader, err);
    return checked_add(reader->storage->off, off, &reader->gather.data_offset)
               ? CKPT_OK
               : fail_outside_storage(reader, err);
}

static ckpt_status open_strided(struct row_reader *reader, const struct dtype_info *info, ckpt_error *err)
{
    uint64_t end, bytes, off;
    if (info->block_elems != 1)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s with strides cannot be read", info->name);
    bool fits = tensor_view_end(&reader->tensor, &end) && tensor_bytes(&reader->tensor, end, &bytes) &&
                bytes <= reader->storage->nbytes;
    if (!fits || !tensor_bytes(&reader->tensor, reader->tensor.storage_offset, &off) ||
        !checked_add(reader->storage->off, off, &reader->gather.data_offset))
        return fail_outside_storage(reader, err);
    return CKPT_OK;
}

/* split_elements - sets the units of a tensor of CKPT_DT_NAMED, whose elements have no fixed size: a unit is
 * as many bytes as a change of byte order reverses, or one byte. */
static ckpt_status split_elements(struct row_reader *reader, ckpt_error *err)
{
    uint32_t unit = reader->storage->swap_width > 1 ? reader->storage->swap_width : 1;
    uint64_t size = reader->tensor.elements ? reader->tensor.nbytes / reader->tensor.elements : 0;
    if (size % unit != 0)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its storage is big-endian in units of {=%u bytes}, its elements have {%" PRIu64 "}",
                    unit, size);
    if (tensor_is_string(&reader->tensor))
        gather_set_contiguous(&reader->gather, reader->tensor.nbytes);
    else if (!gather_split(&reader->gather, size / unit))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^64 bytes}");
    reader->gather.width = unit;
    reader->total_units = reader->tensor.nbytes / unit;
    return CKPT_OK;
}

static ckpt_status open_tensor_reader(struct row_reader *reader, struct table *table,
                                      const ckpt_tensor *tensor, ckpt_error *err)
{
    *reader = (struct row_reader){.tensor = *tensor};
    if (!reader->tensor.has_data || reader->tensor.storage >= table->nstorages)
        return fail_no_bytes(&reader->tensor, err);
    reader->storage = &table->storages[reader->tensor.storage];
    const struct dtype_info *d = dtype_info((ckpt_dtype)reader->tensor.dtype);
    if (!gather_init(&reader->gather, &reader->tensor))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{more} than {=2^64 elements}");
    reader->gather.src = reader->storage->src;
    reader->gather.width = d->block_bytes ? d->block_bytes : 1;
    reader->total_units = reader->tensor.elements;
    reader->block_units = 1;
    if (reader->tensor.dtype == CKPT_DT_NAMED)
        CKPT_TRY(split_elements(reader, err));
    if (reader->total_units == 0) {
        reader->is_contiguous = true;
        return CKPT_OK;
    }
    if (!reader->storage->src)
        return fail_no_bytes(&reader->tensor, err);
    CKPT_TRY(gather_is_contiguous(&reader->gather) ? open_contiguous(reader, d, err)
                                                   : open_strided(reader, d, err));
    return element_transform_init(&reader->transform, (ckpt_dtype)reader->tensor.dtype, reader->gather.width,
                                  reader->storage->swap_width, reader->tensor.conj, reader->tensor.neg, err);
}

static ckpt_status fail_no_row(uint32_t row, ckpt_error *err)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no tensor %" PRIu32, row);
}

static ckpt_status open_row_reader(struct row_reader *reader, struct table *table, uint32_t row,
                                   ckpt_error *err)
{
    *reader = (struct row_reader){0};
    if (row >= table->nrows)
        return fail_no_row(row, err);
    const ckpt_tensor tensor = table_tensor(table, row);
    return open_tensor_reader(reader, table, &tensor, err);
}

/* read_units - reads COUNT units from FIRST, as they are stored. */
static ckpt_status read_units(struct row_reader *reader, uint64_t first, uint64_t count, unsigned char *out,
                              ckpt_error *err)
{
    uint64_t at = reader->gather.data_offset + first * reader->gather.width;
    size_t n = (size_t)(count * reader->gather.width);
    if (!reader->is_contiguous)
        return gather_read(&reader->gather, first, count, out, err);
    return reader->window ? window_read(reader->window, reader->gather.src, at, out, n, err)
                          : source_read(reader->gather.src, at, out, n, err);
}

ckpt_status storage_compare_crc(struct storage *storage, uint32_t crc, const struct stream_options *options,
                                ckpt_error *err)
{
    if (!storage->has_crc || crc == storage->crc) {
        storage->crc_checked = true;
        return CKPT_OK;
    }
    if (!options || !options->ignore_crc)
        return fail(err, CKPT_ECHECKSUM, source_pos(storage->src, storage->off),
                    "storage \"%.*s\": its %" PRIu64 " bytes have the %s {%08" PRIx32
                    "}, the file records {=%08" PRIx32 "}\n"
                    "the data is damaged; --ignore-crc uses it anyway",
                    STR_ARG(storage->key), storage->nbytes, crc_name(storage_crc_kind(storage)), crc,
                    storage->crc);
    storage->crc_checked = true;
    if (options->notice)
        options->notice(options->user,
                        "storage \"%.*s\": %s %08" PRIx32 ", the file records %08" PRIx32 "; ignored",
                        STR_ARG(storage->key), crc_name(storage_crc_kind(storage)), crc, storage->crc);
    return CKPT_OK;
}

static bool has_unchecked_crc(const struct storage *storage)
{
    return storage->has_crc && !storage->crc_checked && storage->src;
}

ckpt_status storage_check_crc(struct table *table, uint32_t number, const struct stream_options *options,
                              ckpt_error *err)
{
    if (number >= table->nstorages)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no storage %" PRIu32, number);
    struct storage *storage = &table->storages[number];
    CKPT_TRY(table_check_source(table, err));
    if (!has_unchecked_crc(storage))
        return CKPT_OK;
    uint32_t crc = 0;
    source_advise_sequential(storage->src);
    CKPT_TRY(source_crc(storage->src, storage->off, storage->nbytes, storage_crc_kind(storage), &crc, err));
    return storage_compare_crc(storage, crc, options, err);
}

static bool covers_storage(const struct row_reader *reader)
{
    return reader->is_contiguous && reader->total_units &&
           reader->gather.data_offset == reader->storage->off &&
           reader->tensor.nbytes == reader->storage->nbytes;
}

ckpt_status stream_check_limit(const struct table *table, const ckpt_tensor *tensor, ckpt_error *err)
{
    if (table->expanded_bytes <= table->max_expanded || !tensor_is_expanded(table, tensor))
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "its view shows %" PRIu64 " bytes of a storage of %" PRIu64
                "; all such views together show {%" PRIu64 "}, the limit is {=%" PRIu64 "}\n"
                "raise it with --max-expanded (max_expanded in ckpt_limits)",
                tensor->nbytes, table->storages[tensor->storage].nbytes, table->expanded_bytes,
                table->max_expanded);
}

static void choose_window(struct stream *this_stream)
{
    bool has_blocks = this_stream->row.is_contiguous && this_stream->row.gather.src &&
                      this_stream->row.gather.src->block_size;
    this_stream->row.window = this_stream->opts.window ? this_stream->opts.window
                              : has_blocks             ? &this_stream->own_window
                                                       : NULL;
    const struct gather *gather = &this_stream->row.gather;
    if (this_stream->row.window)
        this_stream->row.window->block_end = gather->data_offset + this_stream->end_unit * gather->width;
}

static ckpt_status begin_stream(struct stream *this_stream, struct table *table, uint32_t row,
                                ckpt_error *err)
{
    CKPT_TRY(open_row_reader(&this_stream->row, table, row, err));
    const struct row_reader *r = &this_stream->row;
    this_stream->end_unit = r->total_units;
    choose_window(this_stream);
    CKPT_TRY(stream_check_limit(table, &r->tensor, err));
    this_stream->computes_crc = has_unchecked_crc(r->storage) && covers_storage(r);
    CKPT_TRY(table_check_source(table, err));
    if (!this_stream->computes_crc)
        CKPT_TRY(storage_check_crc(table, r->tensor.storage, &this_stream->opts, err));
    if (r->is_contiguous && r->total_units * r->gather.width > STREAM_CHUNK)
        source_advise_sequential(r->gather.src);
    if (r->is_contiguous)
        return CKPT_OK;
    size_t max = gather_block_size(&r->gather);
    uint64_t period = gather_period(&r->gather);
    this_stream->buffer_cap = r->total_units < max / r->gather.width
                                  ? (size_t)r->total_units * r->gather.width
                                  : max - max % r->gather.width;
    this_stream->repeats = period && period <= this_stream->buffer_cap / r->gather.width;
    if (this_stream->repeats)
        this_stream->buffer_cap -= this_stream->buffer_cap % (size_t)(period * r->gather.width);
    this_stream->buffer = malloc(this_stream->buffer_cap);
    return this_stream->buffer ? CKPT_OK : fail_memory(err);
}

ckpt_status stream_open(struct table *table, uint32_t row, const struct stream_options *options, stream **out,
                        ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    CKPT_TRY_ALLOC(s, err);
    if (options)
        s->opts = *options;
    ckpt_status st = begin_stream(s, table, row, err);
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    *out = s;
    return CKPT_OK;
}

bool stream_can_split(struct table *table, uint32_t row)
{
    ckpt_error ignored;
    struct row_reader r;
    bool can_split = open_row_reader(&r, table, row, &ignored) == CKPT_OK && r.is_contiguous &&
                     r.total_units == r.tensor.elements && r.storage->src &&
                     !r.storage->src->serializes_reads;
    can_split = can_split && (!has_unchecked_crc(r.storage) || covers_storage(&r));
    gather_free(&r.gather);
    return can_split;
}

ckpt_status stream_open_range(struct table *table, uint32_t row, uint64_t first, uint64_t count,
                              struct window *window, stream **out, ckpt_error *err)
{
    stream *s = calloc(1, sizeof *s);
    CKPT_TRY_ALLOC(s, err);
    ckpt_status st = open_row_reader(&s->row, table, row, err);
    if (st == CKPT_OK && !range_within(first, count, s->row.total_units))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the range ends after the last element");
    CKPT_THEN(st, table_check_source(table, err));
    if (st != CKPT_OK) {
        stream_close(s);
        return st;
    }
    s->is_range = true;
    s->computes_crc = has_unchecked_crc(s->row.storage);
    s->next_unit = first;
    s->end_unit = first + count;
    s->opts.window = window;
    choose_window(s);
    source_advise_sequential(s->row.gather.src);
    *out = s;
    return CKPT_OK;
}

uint32_t stream_crc(const stream *in) { return in->crc; }

static ckpt_status next_run(stream *in, unsigned char *out, uint64_t units, ckpt_error *err)
{
    struct row_reader *r = &in->row;
    size_t n = (size_t)(units * r->gather.width);
    CKPT_TRY(read_units(r, in->next_unit, units, out, err));
    if (!in->computes_crc || in->crc_deferred)
        return CKPT_OK;
    in->crc = crc_update(storage_crc_kind(r->storage), in->crc, out, n);
    return in->is_range || in->next_unit + units < in->end_unit
               ? CKPT_OK
               : storage_compare_crc(r->storage, in->crc, &in->opts, err);
}

static ckpt_status refill_buffer(stream *in, ckpt_error *err)
{
    struct row_reader *r = &in->row;
    uint64_t units = in->buffer_cap / r->gather.width;
    if (units > r->total_units - in->next_unit)
        units = r->total_units - in->next_unit;
    in->buffer_returned = in->buffer_len = 0;
    if (!in->repeats || !in->buffer_filled)
        CKPT_TRY(read_units(r, in->next_unit, units, in->buffer, err));
    in->buffer_filled = true;
    in->buffer_len = (size_t)(units * r->gather.width);
    return CKPT_OK;
}

static ckpt_status next_chunk(stream *in, unsigned char *out, size_t cap, size_t *got, ckpt_error *err)
{
    struct row_reader *r = &in->row;
    uint64_t units = cap / r->gather.width;
    units -= units % r->block_units;
    if (units > in->end_unit - in->next_unit)
        units = in->end_unit - in->next_unit;
    if (r->is_contiguous) {
        CKPT_TRY(next_run(in, out, units, err));
    } else {
        if (in->buffer_returned == in->buffer_len)
            CKPT_TRY(refill_buffer(in, err));
        uint64_t ready = (in->buffer_len - in->buffer_returned) / r->gather.width;
        units = units < ready ? units : ready;
        memcpy(out, in->buffer + in->buffer_returned, (size_t)(units * r->gather.width));
        in->buffer_returned += (size_t)(units * r->gather.width);
    }
    *got = (size_t)(units * r->gather.width);
    in->next_unit += units;
    element_transform_apply(&r->transform, out, *got);
    return CKPT_OK;
}

ckpt_status stream_next(stream *in, void *out, size_t cap, size_t *got, ckpt_error *err)
{
    *got = 0;
    if (in->next_unit == in->end_unit)
        return CKPT_OK;
    if (cap / in->row.gather.width < in->row.block_units)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a buffer of %zu bytes holds no whole element", cap);
    return next_chunk(in, out, cap, got, err);
}

bool stream_checks_crc(const stream *in)
{
    return in->computes_crc && !in->row.transform.swap_width && in->row.transform.negation == NEGATE_NONE;
}

void stream_defer_crc(stream *in) { in->crc_deferred = true; }

enum crc_kind stream_crc_kind(const stream *in) { return storage_crc_kind(in->row.storage); }

ckpt_status stream_finish_crc(stream *in, uint32_t crc, ckpt_error *err)
{
    in->crc = crc;
    return in->is_range ? CKPT_OK : storage_compare_crc(in->row.storage, crc, &in->opts, err);
}

void stream_close(stream *in)
{
    if (!in)
        return;
    gather_free(&in->row.gather);
    window_close(&in->own_window);
    free(in->buffer);
    free(in);
}

static ckpt_status read_elements(struct row_reader *reader, uint64_t first, uint64_t count, void *out,
                                 ckpt_error *err)
{
    size_t n;
    uint64_t bytes;
    if (!range_within(first, count, reader->total_units) ||
        !checked_mul(count, reader->gather.width, &bytes) || !checked_size(bytes, &n))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "%" PRIu64 " elements from element %" PRIu64 " on are requested; the tensor has %" PRIu64,
                    count, first, reader->total_units);
    if (count == 0)
        return CKPT_OK;
    CKPT_TRY(read_units(reader, first, count, out, err));
    element_transform_apply(&reader->transform, out, n);
    return CKPT_OK;
}

ckpt_status stream_read_tensor(struct table *table, const ckpt_tensor *tensor, uint64_t first, uint64_t count,
                               void *out, ckpt_error *err)
{
    struct row_reader r;
    ckpt_status st = open_tensor_reader(&r, table, tensor, err);
    CKPT_THEN(st, read_elements(&r, first, count, out, err));
    gather_free(&r.gather);
    return st;
}

ckpt_status stream_read(struct table *table, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err)
{
    if (row >= table->nrows)
        return fail_no_row(row, err);
    const ckpt_tensor tensor = table_tensor(table, row);
    return stream_read_tensor(table, &tensor, first, count, out, err);
}

/* check_as_stored - fails unless the stored bytes of READER are those that stream_read returns. */
static ckpt_status check_as_stored(const struct row_reader *reader, ckpt_error *err)
{
    const char *why = !reader->is_contiguous             ? "its elements are not contiguous"
                      : reader->transform.swap_width > 1 ? "its bytes are stored in big-endian order"
                      : reader->transform.negation
                          ? "the tensor is a conjugate or negative view of what is stored"
                          : NULL;
    return why ? fail(err, CKPT_EUNSUPPORTED, source_pos(reader->storage->src, reader->storage->off), "%s",
                      why)
               : CKPT_OK;
}

static ckpt_status borrow_contiguous(const struct row_reader *reader, const void **out, size_t *nbytes,
                                     ckpt_error *err)
{
    const unsigned char *bytes = (const unsigned char *)"";
    CKPT_TRY(check_as_stored(reader, err));
    if (!checked_size(reader->tensor.nbytes, nbytes))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "%" PRIu64 " bytes do not fit into the address space of this machine",
                    reader->tensor.nbytes);
    if (*nbytes)
        CKPT_TRY(source_map(reader->gather.src, reader->gather.data_offset, *nbytes, &bytes, err));
    *out = bytes;
    return CKPT_OK;
}

ckpt_status stream_borrow(struct table *table, uint32_t row, const void **out, size_t *nbytes,
                          ckpt_error *err)
{
    struct row_reader r;
    ckpt_status st = open_row_reader(&r, table, row, err);
    CKPT_THEN(st, borrow_contiguous(&r, out, nbytes, err));
    gather_free(&r.gather);
    return st;
}
