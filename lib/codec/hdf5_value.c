/*
 * hdf5_value.c - reads the values of HDF5 attributes, and the texts of data sets. An attribute:
 *   0  1  version: 1, 2 or 3
 *   1  1  flags from version 2 on: bit 0: the datatype is shared; bit 1: the dataspace is shared
 *   2  6  three sizes of 2 bytes: of the name, of the datatype, of the dataspace
 *   8  1  character set; only in version 3
 *   …     name, datatype, dataspace, each padded to 8 bytes in version 1; then the elements
 * A text of variable length: u32 length, u64 address of a global heap collection, u32 index of its object.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "codec/hdf5_internal.h"

#define MAX_ELEMENTS 65536u               /* most elements of an attribute that becomes a list */
#define MAX_TEXTS    ((uint64_t)64 << 20) /* most bytes of the texts of a data set */

/* trim_text - returns the text of type TYPE at BYTES without its padding of NULs or spaces. */
static ckpt_str trim_text(const struct hdf5_type *type, const unsigned char *bytes)
{
    size_t n = type->size;
    const unsigned char *nul = memchr(bytes, 0, n);
    if (nul && !type->space_padded)
        n = (size_t)(nul - bytes);
    while (type->space_padded && n && bytes[n - 1] == ' ')
        n--;
    return str_of((const char *)bytes, n);
}

/* read_text - sets *OUT to the next text of IN, which has the type TYPE. */
static ckpt_status read_text(struct hdf5 *hdf5, const struct hdf5_type *type, cursor *in, ckpt_str *out)
{
    if (type->kind == HDF5_FIXED_TEXT) {
        const unsigned char *b = cursor_take(in, type->size);
        *out = b ? trim_text(type, b) : str_of("", 0);
        return b ? CKPT_OK : hdf5_fail_short(hdf5, in, "a text");
    }
    uint32_t n = cursor_u32(in);
    uint64_t addr = cursor_u64(in);
    uint32_t index = cursor_u32(in);
    if (in->bad)
        return hdf5_fail_short(hdf5, in, "a text");
    *out = str_of("", 0);
    if (!n || !addr)
        return CKPT_OK;
    CKPT_TRY(hdf5_read_heap_text(hdf5, addr, index, out));
    if (n > out->len)
        return fail(hdf5->err, CKPT_EFORMAT, in->pos,
                    "a text of {%u bytes} does not fit in its object of {=%zu}", n, out->len);
    out->len = n;
    return CKPT_OK;
}

/* collect_texts - appends to OUT the texts of the ELEMENTS elements that IN reads, each after its length. */
static ckpt_status collect_texts(struct hdf5 *hdf5, const struct hdf5_type *type, cursor in,
                                 uint64_t elements, buf *out)
{
    for (uint64_t i = 0; i < elements && buf_ok(out); i++) {
        ckpt_str text;
        CKPT_TRY(read_text(hdf5, type, &in, &text));
        buf_u64le(out, text.len);
        buf_put_str(out, text);
    }
    return CKPT_OK;
}

/* The elements of a data set in chunks, loaded into memory. */
struct loaded_chunks {
    const struct hdf5_dataset *d;
    unsigned char *memory;          /* d->nbytes of them, in row-major order */
    uint64_t stride[HDF5_MAX_RANK]; /* bytes from one index of a dimension to the next */
};

/* copy_chunk - copies those elements of CHUNK, which begins at OFFSET, that are in the data set. */
static void copy_chunk(const struct loaded_chunks *chunks, const unsigned char *chunk, const uint64_t *offset)
{
    const struct hdf5_dataset *d = chunks->d;
    uint32_t last = d->ndim - 1;
    uint64_t size[HDF5_MAX_RANK], index[HDF5_MAX_RANK] = {0};
    for (uint32_t k = 0; k < d->ndim; k++) {
        uint64_t left = d->shape[k] - offset[k];
        size[k] = left < d->chunk_shape[k] ? left : d->chunk_shape[k];
    }
    for (uint32_t k = 0; k <= last;) {
        uint64_t to = offset[last] * d->type.size, from = 0;
        for (uint32_t i = 0; i < d->ndim; i++)
            from = from * d->chunk_shape[i] + index[i];
        for (uint32_t i = 0; i < last; i++)
            to += (offset[i] + index[i]) * chunks->stride[i];
        uint64_t row = size[last] * d->type.size;
        memcpy(chunks->memory + to, chunk + from * d->type.size, (size_t)row);
        for (k = 1; k <= last && ++index[last - k] == size[last - k]; k++)
            index[last - k] = 0;
    }
}

/* load_chunk - decodes chunk INDEX of the data set of CHUNKS, and copies its elements. */
static ckpt_status load_chunk(struct hdf5 *hdf5, const struct loaded_chunks *chunks, size_t index)
{
    const struct hdf5_dataset *d = chunks->d;
    const struct hdf5_chunk *chunk = &d->chunks[index];
    const struct hdf5_decoding decoding = {d->filters, d->nfilters, chunk->skipped_filters, d->chunk_bytes};
    source *stored, *decoded;
    CKPT_TRY(source_slice(d->src, chunk->offset, chunk->stored_size, &stored, hdf5->err));
    spool *to = spool_new(d->chunk_bytes);
    unsigned char *bytes = malloc((size_t)d->chunk_bytes);
    ckpt_status st = to && bytes ? hdf5_decode(&decoding, stored, to, hdf5->err) : fail_memory(hdf5->err);
    decoded = to ? spool_source(to) : NULL;
    if (st == CKPT_OK && decoded->size != d->chunk_bytes)
        st = fail(hdf5->err, CKPT_EFORMAT, chunk->offset, "a chunk decodes to {%llu bytes}, not to {=%llu}",
                  (unsigned long long)decoded->size, (unsigned long long)d->chunk_bytes);
    CKPT_THEN(st, source_read(decoded, 0, bytes, (size_t)d->chunk_bytes, hdf5->err));
    if (st == CKPT_OK)
        copy_chunk(chunks, bytes, d->chunk_offsets + index * d->ndim);
    source_unref(decoded);
    source_unref(stored);
    free(bytes);
    return st != CKPT_ELIMIT
               ? st
               : fail(hdf5->err, CKPT_EFORMAT, chunk->offset, "a chunk decodes to {more} than {=%llu bytes}",
                      (unsigned long long)d->chunk_bytes);
}

/* load_chunks - sets *IN to read the elements of DATASET, which are in chunks or were never written. */
static ckpt_status load_chunks(struct hdf5 *hdf5, const struct hdf5_dataset *dataset, cursor *in)
{
    struct loaded_chunks e = {.d = dataset, .memory = arena_alloc(hdf5->scratch, (size_t)dataset->nbytes)};
    uint64_t bytes = dataset->type.size;
    CKPT_TRY_ALLOC(e.memory, hdf5->err);
    for (uint32_t k = dataset->ndim; COUNT_DOWN(k); bytes *= dataset->shape[k])
        e.stride[k] = bytes;
    for (uint64_t at = 0; at < dataset->nbytes; at += dataset->type.size)
        memcpy(e.memory + at, dataset->fill, dataset->type.size);
    for (size_t i = 0; i < dataset->nchunks; i++)
        CKPT_TRY(load_chunk(hdf5, &e, i));
    *in = cursor_of(e.memory, (size_t)dataset->nbytes, dataset->header_addr);
    return CKPT_OK;
}

ckpt_status hdf5_read_texts(struct hdf5 *hdf5, struct hdf5_dataset *dataset, uint64_t elements)
{
    cursor c;
    buf b;
    if (dataset->nbytes > MAX_TEXTS || (dataset->is_chunked && dataset->chunk_bytes > MAX_TEXTS)) {
        dataset->why_unreadable = "more than 64 MiB of texts";
        return CKPT_OK;
    }
    if (!dataset->nbytes)
        c = cursor_of(NULL, 0, dataset->header_addr);
    else
        CKPT_TRY(dataset->is_chunked || dataset->is_unwritten
                     ? load_chunks(hdf5, dataset, &c)
                     : hdf5_load(hdf5, dataset->data_offset, dataset->nbytes, "texts", &c));
    buf_init(&b, MAX_TEXTS);
    ckpt_status st = collect_texts(hdf5, &dataset->type, c, elements, &b);
    if (st == CKPT_OK && !buf_ok(&b) && !b.no_memory)
        dataset->why_unreadable = "more than 64 MiB of texts";
    else if (st == CKPT_OK) {
        dataset->texts = buf_ok(&b) ? arena_str(hdf5->a, buf_view(&b)) : str_of(NULL, 0);
        st = dataset->texts.ptr ? CKPT_OK : fail_memory(hdf5->err);
    }
    buf_free(&b);
    return st;
}

static ckpt_value *make_bytes(struct hdf5 *hdf5, const unsigned char *bytes, size_t nbytes)
{
    ckpt_value *v = value_new(hdf5->a, CKPT_V_BYTES, 0);
    ckpt_str copy = arena_str(hdf5->a, str_of((const char *)bytes, nbytes));
    if (v)
        v->u.str = copy;
    return copy.ptr ? v : NULL;
}

/* read_element - sets *OUT to the next element of IN as a node. */
static ckpt_status read_element(struct hdf5 *hdf5, const struct hdf5_type *type, cursor *in, ckpt_value **out)
{
    ckpt_str text;
    *out = NULL;
    if (type->kind == HDF5_TEXT || type->kind == HDF5_FIXED_TEXT) {
        CKPT_TRY(read_text(hdf5, type, in, &text));
        text = arena_str(hdf5->a, text);
        *out = text.ptr ? value_str(hdf5->a, text) : NULL;
    } else {
        const unsigned char *b = cursor_take(in, type->size);
        if (!b)
            return hdf5_fail_short(hdf5, in, "an attribute");
        *out = type->kind == HDF5_NUMBER ? value_number(hdf5->a, type->dtype, hdf5_get_number(type, b))
                                         : make_bytes(hdf5, b, type->size);
    }
    return *out ? CKPT_OK : fail_memory(hdf5->err);
}

/* nest_items - returns the items of LIST as nested lists with the shape of SPACE; NULL: out of memory. */
static ckpt_value *nest_items(struct hdf5 *hdf5, ckpt_value *list, const struct hdf5_space *space)
{
    for (uint32_t k = space->ndim; COUNT_DOWN(k) && k && list;) {
        ckpt_value *outer = value_new(hdf5->a, CKPT_V_LIST, 0), *inner = NULL;
        for (uint32_t i = 0; outer && i < list->u.seq.n; i++) {
            if (i % space->shape[k] == 0 && ((inner = value_new(hdf5->a, CKPT_V_LIST, 0)) == NULL ||
                                             !value_append(hdf5->a, outer, inner)))
                return NULL;
            if (!value_append(hdf5->a, inner, list->u.seq.items[i]))
                return NULL;
        }
        list = outer;
    }
    return list;
}

/* find_why_no_value - returns why a ckpt_value cannot hold elements of type TYPE and shape SPACE, or NULL. */
static const char *find_why_no_value(const struct hdf5_type *type, const struct hdf5_space *space)
{
    if (type->kind == HDF5_UNREADABLE)
        return type->what.ptr;
    if (type->kind == HDF5_LONGDOUBLE || (type->kind == HDF5_NUMBER && dtype_info(type->dtype)->klass == 'c'))
        return "complex number or long double";
    return space->elements > MAX_ELEMENTS ? "more than 65,536 elements" : NULL;
}

/* read_value - sets ATTRIBUTE->value to the elements in IN, of TYPE and shape SPACE, or else sets
 * ATTRIBUTE->why_no_value. */
static ckpt_status read_value(struct hdf5 *hdf5, const struct hdf5_type *type, const struct hdf5_space *space,
                              cursor in, struct hdf5_attribute *attribute)
{
    ckpt_value **out = &attribute->value;
    uint64_t nbytes;
    if ((attribute->why_no_value = find_why_no_value(type, space)) != NULL)
        return CKPT_OK;
    if (!checked_mul(space->elements, type->size, &nbytes) || nbytes > in.left)
        return hdf5_fail_short(hdf5, &in, "an attribute");
    if (space->is_null)
        *out = value_new(hdf5->a, CKPT_V_NONE, 0);
    else if (space->ndim == 0)
        return read_element(hdf5, type, &in, out);
    else
        *out = value_new(hdf5->a, CKPT_V_LIST, 0);
    for (uint64_t i = 0; *out && !space->is_null && i < space->elements; i++) {
        ckpt_value *item;
        CKPT_TRY(read_element(hdf5, type, &in, &item));
        CKPT_TRY_ALLOC(value_append(hdf5->a, *out, item), hdf5->err);
    }
    if (*out && space->elements && space->ndim > 1)
        *out = nest_items(hdf5, *out, space);
    return *out ? CKPT_OK : fail_memory(hdf5->err);
}

ckpt_status hdf5_read_attribute(struct hdf5 *hdf5, cursor in, struct hdf5_attribute *out)
{
    struct hdf5_message type = {.is_there = true};
    struct hdf5_space space;
    struct hdf5_type t;
    unsigned version = cursor_u8(&in), flags = cursor_u8(&in);
    size_t name_size = cursor_u16(&in), type_size = cursor_u16(&in), space_size = cursor_u16(&in);
    size_t unit = version == 1 ? 8 : 1;
    *out = (struct hdf5_attribute){.value = NULL};
    (void)cursor_take(&in, version == 3 ? 1 : 0);
    cursor name = hdf5_take_padded(&in, name_size, unit);
    type.body = hdf5_take_padded(&in, type_size, unit);
    cursor dataspace = hdf5_take_padded(&in, space_size, unit);
    if (in.bad)
        return hdf5_fail_short(hdf5, &in, "an attribute");
    if (version < 1 || version > 3)
        return fail(hdf5->err, CKPT_EFORMAT, in.pos, "an attribute of version {%u}; {=1 to 3} are read",
                    version);
    const unsigned char *nul = memchr(name.p, 0, name.left);
    out->name = str_of((const char *)name.p, nul ? (size_t)(nul - name.p) : name.left);
    if (version > 1 && flags & 3) {
        out->why_no_value = "shared datatype";
        return CKPT_OK;
    }
    CKPT_TRY(hdf5_read_space(hdf5, dataspace, &space));
    CKPT_TRY(hdf5_read_type(hdf5, type, &t));
    return read_value(hdf5, &t, &space, in, out);
}
