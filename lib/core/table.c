/* table.c - rows and storages. Each view is checked against its storage here, because torch checks a view
 * only when it builds the tensor, and not at all for a mapped file.
 *
 * A view reads the elements storage_offset + sum(index[k] * stride[k]) of its storage. The last of them is
 * storage_offset + sum((shape[k] - 1) * stride[k]), which must be in the storage. */
#include "core/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/map.h"
#include "core/dtype.h"

const char *ckpt_kind_name(ckpt_kind kind)
{
    static const char *const names[] = {
        [CKPT_DENSE] = "dense",
        [CKPT_QUANTIZED] = "quantized",
        [CKPT_SPARSE_COO] = "sparse_coo",
        [CKPT_SPARSE_CSR] = "sparse_csr",
        [CKPT_SPARSE_CSC] = "sparse_csc",
        [CKPT_SPARSE_BSR] = "sparse_bsr",
        [CKPT_SPARSE_BSC] = "sparse_bsc",
        [CKPT_NESTED] = "nested",
        [CKPT_NESTED_JAGGED] = "nested_jagged",
        [CKPT_DTENSOR] = "dtensor",
        [CKPT_SHARDED] = "sharded",
        [CKPT_WRAPPER] = "wrapper",
        [CKPT_META] = "meta",
        [CKPT_UNINITIALIZED] = "uninitialized",
        [CKPT_STORAGE] = "storage",
        [CKPT_NDARRAY] = "ndarray",
        [CKPT_OPAQUE] = "opaque",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "";
}

ckpt_status table_add_storage(struct table *table, const struct storage *storage, uint32_t *index,
                              ckpt_error *err)
{
    if (table->nstorages == table->cap_storages &&
        !arena_grow_apart(table->a, &table->storages, &table->cap_storages, sizeof *table->storages)) {
        source_unref(storage->src);
        return fail_memory(err);
    }
    *index = (uint32_t)table->nstorages;
    table->storages[table->nstorages++] = *storage;
    return CKPT_OK;
}

bool table_set_location(struct table *table, struct storage *storage, ckpt_str location)
{
    const struct storage_extra *last = table->nstorages ? table->storages[table->nstorages - 1].extra : NULL;
    if (!location.len)
        return true;
    if (last && !last->lost_why && str_eq(last->location, location) &&
        str_eq(last->file, storage_file(storage))) {
        storage->extra = last;
        return true;
    }
    struct storage_extra *extra = ARENA_NEW(table->a, struct storage_extra);
    if (!extra)
        return false;
    extra->file = storage_file(storage);
    extra->location = location;
    storage->extra = extra;
    return true;
}

bool table_copy_storage(const struct table *table, uint32_t index, ckpt_storage *out)
{
    const struct storage *s = index < table->nstorages ? &table->storages[index] : NULL;
    *out = (ckpt_storage){0};
    if (s)
        *out = (ckpt_storage){.nbytes = s->nbytes,
                              .file_offset = storage_file_offset(s),
                              .key = s->key,
                              .location = storage_location(s),
                              .file = storage_file(s),
                              .has_crc = s->has_crc};
    return s != NULL;
}

ckpt_str table_name(const struct table *table, size_t index)
{
    return index < table->nrows ? table->rows[index].own.str : str_of("", 0);
}

bool table_has_checksums(const struct table *table)
{
    for (size_t i = 0; i < table->nstorages; i++) {
        const struct storage *s = &table->storages[i];
        if (s->nbytes && s->src && !s->has_crc && !s->pieces_have_crcs)
            return false;
    }
    return true;
}

void table_check_first(struct table *table, source *src)
{
    if (!table->unchecked)
        table->unchecked = source_ref(src);
}

void table_check_nothing(struct table *table)
{
    source_unref(table->unchecked);
    table->unchecked = NULL;
}

ckpt_status table_check_source(const struct table *table, ckpt_error *err)
{
    return table->unchecked ? source_check(table->unchecked, err) : CKPT_OK;
}

void table_close(struct table *table)
{
    table_check_nothing(table);
    for (size_t i = 0; i < table->nstorages; i++)
        source_unref(table->storages[i].src);
    if (table->rows)
        arena_free_apart(table->a, table->rows, table->cap_rows, sizeof *table->rows);
    if (table->storages)
        arena_free_apart(table->a, table->storages, table->cap_storages, sizeof *table->storages);
    map_free(table->shape_ids);
    *table = (struct table){.a = table->a};
}

ckpt_status path_elem_from_key(arena *a, const ckpt_value *key, ckpt_path_elem *out, ckpt_error *err)
{
    char text[256];
    *out = (ckpt_path_elem){0};
    if (key->type == CKPT_V_INT) {
        out->is_int = true;
        out->num = key->u.i;
        return CKPT_OK;
    }
    if (value_text(key, &out->str))
        return CKPT_OK;
    value_text_or_type(key, 32, text, sizeof text);
    out->is_other = true;
    out->str = arena_str(a, str_c(text));
    return out->str.ptr ? CKPT_OK : fail_memory(err);
}

static void put_elem(buf *out, const ckpt_path_elem *elem)
{
    if (elem->is_int)
        buf_printf(out, "%lld", (long long)elem->num);
    else
        buf_put_str(out, elem->str);
}

ckpt_path_elem *path_copy(arena *a, const ckpt_path_elem *path, uint32_t count)
{
    ckpt_path_elem *copy = arena_array(a, count ? count : 1, sizeof *copy);
    for (uint32_t i = 0; copy && i < count; i++)
        copy[i] = path[i];
    return copy;
}

static bool same_elem(const ckpt_path_elem *left, const ckpt_path_elem *right)
{
    return left->is_int == right->is_int &&
           (left->is_int ? left->num == right->num : str_eq(left->str, right->str));
}

bool path_begins(const ckpt_path_elem *path, uint32_t count, const ckpt_path_elem *head, uint32_t nhead)
{
    if (count < nhead)
        return false;
    for (uint32_t k = 0; k < nhead; k++)
        if (!same_elem(&path[k], &head[k]))
            return false;
    return true;
}

size_t path_elem_len(const ckpt_path_elem *elem)
{
    char number[24];
    return elem->is_int ? (size_t)snprintf(number, sizeof number, "%lld", (long long)elem->num)
                        : elem->str.len;
}

ckpt_str path_join(arena *a, const ckpt_path_elem *path, uint32_t count)
{
    if (count == 1 && !path[0].is_int)
        return arena_str(a, path[0].str);
    buf b;
    buf_init(&b, 1u << 24);
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_byte(&b, '.');
        put_elem(&b, &path[i]);
    }
    ckpt_str joined = buf_ok(&b) ? arena_str(a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    return joined;
}

bool path_of_entry(arena *a, const ckpt_value *mapping, const ckpt_path_elem *prefix,
                   const struct step *prefix_steps, uint32_t count, ckpt_str key, ckpt_path_elem **path,
                   struct step **steps)
{
    *path = arena_array(a, (uint64_t)count + 1, sizeof **path);
    *steps = arena_array(a, (uint64_t)count + 1, sizeof **steps);
    if (!*path || !*steps)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        (*path)[i] = prefix[i];
        (*steps)[i] = prefix_steps[i];
    }
    (*path)[count].str = key;
    (*steps)[count] = (struct step){mapping, value_count(mapping)};
    return true;
}

bool tensor_bytes(const ckpt_tensor *tensor, uint64_t elements, uint64_t *out)
{
    if (tensor->dtype != CKPT_DT_NAMED)
        return dtype_bytes((ckpt_dtype)tensor->dtype, elements, out);
    return checked_mul(elements, tensor->elements ? tensor->nbytes / tensor->elements : 0, out);
}

const char *ckpt_tensor_dtype_name(const ckpt_tensor *tensor)
{
    if (!tensor)
        return "";
    bool named = tensor->dtype == CKPT_DT_NAMED && tensor->dtype_name;
    return named ? tensor->dtype_name : ckpt_dtype_name((ckpt_dtype)tensor->dtype);
}

bool tensor_is_string(const ckpt_tensor *tensor)
{
    return tensor->dtype == CKPT_DT_NAMED && tensor->dtype_name && strcmp(tensor->dtype_name, "string") == 0;
}

bool tensor_same_dtype(const ckpt_tensor *left, const ckpt_tensor *right)
{
    return left->dtype == right->dtype &&
           (left->dtype != CKPT_DT_NAMED ||
            (strcmp(ckpt_tensor_dtype_name(left), ckpt_tensor_dtype_name(right)) == 0 &&
             str_eq(left->note, right->note)));
}

bool tensor_view_end(const ckpt_tensor *tensor, uint64_t *end)
{
    *end = 0;
    if (tensor->elements == 0)
        return true;
    uint64_t last = tensor->storage_offset;
    if (!tensor->stride)
        return checked_add(last, tensor->elements, end);
    for (uint32_t k = 0; k < tensor->ndim; k++) {
        uint64_t reach;
        if (!checked_mul(tensor->shape[k] - 1, tensor->stride[k], &reach) || !checked_add(last, reach, &last))
            return false;
    }
    return checked_add(last, 1, end);
}

static ckpt_status check_view(struct table *table, ckpt_tensor *tensor, ckpt_error *err)
{
    uint64_t end, need;
    const struct storage *s = &table->storages[tensor->storage];
    if (!tensor_view_end(tensor, &end) || !tensor_bytes(tensor, end, &need))
        return fail(err, CKPT_EFORMAT, storage_file_offset(s),
                    "{its offset, sizes and strides} reach beyond {=2^64 bytes}");
    if (need > s->nbytes)
        return fail(err, CKPT_EFORMAT, storage_file_offset(s),
                    "the view reaches {byte %llu} of storage \"%.*s\", which has {=%llu}\n"
                    "the file is damaged or made to mislead; nothing can be read from this tensor",
                    (unsigned long long)need, STR_ARG(s->key), (unsigned long long)s->nbytes);
    return CKPT_OK;
}

static void set_file_offset(const struct table *table, ckpt_tensor *tensor)
{
    uint64_t view_offset = 0;
    const struct storage *s = tensor->storage == CKPT_NO_STORAGE ? NULL : &table->storages[tensor->storage];
    uint64_t storage_pos = s ? storage_file_offset(s) : CKPT_NO_OFFSET;
    tensor->file_offset = CKPT_NO_OFFSET;
    if (storage_pos != CKPT_NO_OFFSET &&
        (!tensor->storage_offset || tensor_bytes(tensor, tensor->storage_offset, &view_offset)) &&
        view_offset <= s->nbytes)
        (void)checked_add(storage_pos, view_offset, &tensor->file_offset);
}

ckpt_status table_locate(const struct table *table, ckpt_error *err)
{
    for (size_t i = 0; i < table->nstorages; i++)
        if (table->storages[i].src && !table->storages[i].src->is_remote)
            CKPT_TRY(source_locate(table->storages[i].src, err));
    return CKPT_OK;
}

static bool same_numbers(const uint64_t *left, const uint64_t *right, uint32_t count)
{
    return !left == !right && (!left || !count || memcmp(left, right, count * sizeof *left) == 0);
}

bool table_same_place(const ckpt_tensor *left, const ckpt_tensor *right)
{
    return left->ndim == right->ndim && tensor_same_dtype(left, right) && left->kind == right->kind &&
           left->nbytes == right->nbytes && left->conj == right->conj && left->neg == right->neg &&
           left->storage_offset == right->storage_offset && left->storage == right->storage &&
           left->file_offset == right->file_offset && same_numbers(left->shape, right->shape, left->ndim) &&
           same_numbers(left->stride, right->stride, left->ndim);
}

bool table_same_places(const struct table *left, const struct table *right)
{
    bool same = left->nrows == right->nrows && left->nstorages == right->nstorages;
    for (size_t i = 0; same && i < left->nrows; i++) {
        const ckpt_tensor x = table_tensor(left, i), y = table_tensor(right, i);
        same = table_same_place(&x, &y);
    }
    return same;
}

bool tensor_is_expanded(const struct table *table, const ckpt_tensor *tensor)
{
    return tensor->has_data && tensor->storage != CKPT_NO_STORAGE &&
           tensor->nbytes > table->storages[tensor->storage].nbytes;
}

ckpt_status table_add_lost(struct table *table, struct storage_extra lost, uint32_t *index, ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(table->a, struct storage_extra);
    struct storage without_bytes = {.extra = extra};
    if (!extra)
        return fail_memory(err);
    *extra = lost;
    return table_add_storage(table, &without_bytes, index, err);
}

ckpt_status table_set_lost(struct table *table, struct storage *storage, const ckpt_error *why,
                           ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(table->a, struct storage_extra);
    ckpt_str text = arena_printf(table->a, "%s%s%s", why->where, why->where[0] ? ": " : "", why->what);
    source_unref(storage->src);
    storage->src = NULL;
    storage->nbytes = 0;
    storage->has_crc = false;
    if (!extra || !text.ptr)
        return fail_memory(err);
    *extra = (struct storage_extra){.file = storage_file(storage),
                                    .location = storage_location(storage),
                                    .lost_why = text.ptr,
                                    .lost_at = why->offset};
    storage->extra = extra;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- packed rows */

/* get_shape_key - returns the sizes of shape ID of USER, a table, as a text. */
static ckpt_str get_shape_key(const void *user, uint32_t id)
{
    const struct shape *shape = ((const struct table *)user)->shapes[id];
    return str_of((const char *)shape->size, shape->ndim * sizeof *shape->size);
}

static ckpt_status add_shape(struct table *table, const ckpt_tensor *tensor, ckpt_error *err)
{
    uint64_t elements, bytes;
    size_t size;
    if (!checked_product(tensor->shape, tensor->ndim, &elements))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{the product of its %u sizes} does not fit {=64 bits}", tensor->ndim);
    struct shape *shape = NULL;
    if (checked_mul(tensor->ndim, sizeof *tensor->shape, &bytes) &&
        checked_add(bytes, sizeof *shape, &bytes) && checked_size(bytes, &size))
        shape = arena_alloc(table->a, size);
    if (!shape ||
        !arena_push(table->a, &table->shapes, &table->nshapes, &table->cap_shapes, &shape, sizeof shape))
        return fail_memory(err);
    shape->elements = elements;
    shape->ndim = tensor->ndim;
    if (tensor->ndim)
        memcpy(shape->size, tensor->shape, tensor->ndim * sizeof *tensor->shape);
    return CKPT_OK;
}

static bool has_shape(const struct table *table, uint32_t id, const ckpt_tensor *tensor)
{
    const struct shape *shape = table->shapes[id];
    bool same = shape->ndim == tensor->ndim;
    for (uint32_t k = 0; same && k < tensor->ndim; k++)
        same = shape->size[k] == tensor->shape[k];
    return same;
}

MODULO static uint32_t *get_recent_shape(struct table *table, const ckpt_tensor *tensor)
{
    uint64_t mixed = tensor->ndim ? tensor->shape[0] + 31 * tensor->shape[tensor->ndim - 1] : 0;
    return &table->recent_shapes[(mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 58];
}

/* find_shape - sets *ID to the shape of TENSOR, which is added if it is new. */
static ckpt_status find_shape(struct table *table, const ckpt_tensor *tensor, uint32_t *id, ckpt_error *err)
{
    uint32_t *recent = get_recent_shape(table, tensor);
    *id = *recent;
    if (*id < table->nshapes && has_shape(table, *id, tensor))
        return CKPT_OK;
    if (!table->shape_ids && !(table->shape_ids = map_new_index(0, get_shape_key, table)))
        return fail_memory(err);
    ckpt_str key = str_of((const char *)tensor->shape, tensor->ndim * sizeof *tensor->shape);
    *id = map_get(table->shape_ids, key);
    if (*id == MAP_NONE) {
        *id = (uint32_t)table->nshapes;
        CKPT_TRY(add_shape(table, tensor, err));
        if (!map_put(table->shape_ids, key, *id, NULL))
            return fail_memory(err);
    }
    *recent = *id;
    return CKPT_OK;
}

/* is_row_major - returns true if the strides of TENSOR are those of a tensor without strides. */
MODULO static bool is_row_major(const ckpt_tensor *tensor)
{
    uint64_t run = 1;
    for (uint32_t k = tensor->ndim; tensor->stride && COUNT_DOWN(k); run *= tensor->shape[k])
        if (tensor->stride[k] != run)
            return false;
    return true;
}

/* get_derived_nbytes - returns the bytes of ELEMENTS elements; 0: DTYPE has no fixed size, or the tensor no
 * shape. */
static uint64_t get_derived_nbytes(ckpt_dtype dtype, bool has_shape, uint64_t elements)
{
    const struct dtype_info *d = dtype_info(dtype);
    if (!has_shape || !d->block_bytes)
        return 0;
    return (d->block_elems > 1 ? elements / d->block_elems : elements) * d->block_bytes; /* as set_nbytes */
}

static ckpt_str get_location(const struct table *table, uint32_t storage)
{
    return storage == CKPT_NO_STORAGE ? str_of("", 0) : storage_location(&table->storages[storage]);
}

static bool has_location_of_storage(const struct table *table, const ckpt_tensor *tensor)
{
    ckpt_str location = get_location(table, tensor->storage);
    return tensor->location.len == location.len &&
           (tensor->location.ptr == location.ptr || str_eq(tensor->location, location));
}

static const struct row_extra no_extra = {
    .klass = {"", 0}, .location = {"", 0}, .note = {"", 0}, .part_of = CKPT_NO_TENSOR};

/* pack_extra - sets row->extra if TENSOR has anything that most rows do not have. False: no memory. */
static bool pack_extra(struct table *table, const ckpt_tensor *tensor, struct packed_row *row)
{
    bool row_major = is_row_major(tensor);
    uint64_t elements = table->shapes[row->shape]->elements;
    if (row_major && !tensor->storage_offset && !tensor->dtype_name && !tensor->klass.len &&
        !tensor->note.len && tensor->part_of == CKPT_NO_TENSOR && has_location_of_storage(table, tensor) &&
        tensor->nbytes == get_derived_nbytes((ckpt_dtype)tensor->dtype, tensor->has_shape, elements))
        return true;
    struct row_extra *extra = ARENA_NEW(table->a, struct row_extra);
    uint64_t *stride = row_major ? NULL : arena_array(table->a, tensor->ndim, sizeof *stride);
    if (!extra || (!row_major && !stride))
        return false;
    if (stride)
        memcpy(stride, tensor->stride, tensor->ndim * sizeof *stride);
    *extra = (struct row_extra){.stride = stride,
                                .storage_offset = tensor->storage_offset,
                                .nbytes = tensor->nbytes,
                                .dtype_name = tensor->dtype_name,
                                .klass = tensor->klass,
                                .location = tensor->location,
                                .note = tensor->note,
                                .part_of = tensor->part_of};
    row->extra = extra;
    return true;
}

/* pack_path - sets the name, the path and the steps of PACKED_ROW to those of ROW. False: no memory. */
static bool pack_path(struct table *table, const struct row *row, struct packed_row *packed_row)
{
    uint32_t n = packed_row->npath = row->t.npath;
    size_t path_bytes = n * sizeof *row->t.path, step_bytes = n * sizeof *row->steps;
    packed_row->has_steps = row->steps != NULL;
    if (n == 1) {
        packed_row->own = row->t.path[0];
        packed_row->own_step = row->steps ? row->steps[0] : (struct step){0};
    } else if (n) {
        struct deep_path *deep = arena_alloc(table->a, sizeof *deep + path_bytes);
        struct step *steps = row->steps ? arena_array(table->a, n, sizeof *steps) : NULL;
        if (!deep || (row->steps && !steps))
            return false;
        memcpy(deep->path, row->t.path, path_bytes);
        if (steps)
            memcpy(steps, row->steps, step_bytes);
        deep->steps = steps;
        packed_row->deep = deep;
    }
    packed_row->own.str = row->t.name;
    return true;
}

_Static_assert(DTYPE_COUNT <= UINT8_MAX + 1, "rows and storages store a dtype in 8 bits");

/* pack - sets *PACKED_ROW to ROW, whose shape is number SHAPE. False: no memory. */
static bool pack(struct table *table, const struct row *row, uint32_t shape, struct packed_row *packed_row)
{
    const ckpt_tensor *v = &row->t;
    *packed_row = (struct packed_row){.value = v->value,
                                      .shape = shape,
                                      .storage = v->storage,
                                      .alias_of = v->alias_of,
                                      .dtype = (uint8_t)v->dtype,
                                      .kind = (uint8_t)v->kind,
                                      .has_shape = v->has_shape,
                                      .has_data = v->has_data,
                                      .conj = v->conj,
                                      .neg = v->neg,
                                      .requires_grad = v->requires_grad,
                                      .parameter = v->parameter};
    return pack_path(table, row, packed_row) && pack_extra(table, v, packed_row);
}

static inline uint64_t get_nbytes(const struct packed_row *row, uint64_t elements)
{
    return row->extra ? row->extra->nbytes : get_derived_nbytes(row->dtype, row->has_shape, elements);
}

uint64_t table_nbytes_of(const struct table *table, size_t index)
{
    return get_nbytes(&table->rows[index], table_elements_of(table, index));
}

void table_read_tensor(const struct table *table, size_t index, ckpt_tensor *tensor)
{
    const struct packed_row *p = &table->rows[index];
    const struct shape *shape = table->shapes[p->shape];
    const struct row_extra *extra = p->extra ? p->extra : &no_extra;
    tensor->struct_size = 0;
    tensor->dtype = p->dtype;
    tensor->kind = p->kind;
    tensor->name = p->own.str;
    tensor->path = table_path_of(table, index);
    tensor->npath = p->npath;
    tensor->ndim = shape->ndim;
    tensor->has_shape = p->has_shape;
    tensor->has_data = p->has_data;
    tensor->conj = p->conj;
    tensor->neg = p->neg;
    tensor->requires_grad = p->requires_grad;
    tensor->parameter = p->parameter;
    tensor->reserved[0] = tensor->reserved[1] = 0;
    tensor->shape = shape->size;
    tensor->stride = extra->stride;
    tensor->elements = p->has_shape ? shape->elements : 0;
    tensor->nbytes = get_nbytes(p, tensor->elements);
    tensor->storage = p->storage;
    tensor->storage_offset = extra->storage_offset;
    tensor->alias_of = p->alias_of;
    tensor->part_of = extra->part_of;
    tensor->klass = extra->klass;
    tensor->location = p->extra ? extra->location : get_location(table, p->storage);
    tensor->note = extra->note;
    tensor->value = p->value;
    tensor->dtype_name = extra->dtype_name;
    set_file_offset(table, tensor);
}

ckpt_tensor table_tensor(const struct table *table, size_t index)
{
    ckpt_tensor v;
    table_read_tensor(table, index, &v);
    return v;
}

struct row table_row(const struct table *table, size_t index)
{
    return (struct row){.t = table_tensor(table, index), .steps = table_steps_of(table, index)};
}

bool table_replace_row(struct table *table, size_t index, const struct row *row)
{
    uint32_t shape;
    struct packed_row packed;
    ckpt_error ignored;
    if (find_shape(table, &row->t, &shape, &ignored) != CKPT_OK || !pack(table, row, shape, &packed))
        return false;
    table->rows[index] = packed;
    return true;
}

/* set_nbytes - sets the bytes of TENSOR, unless its dtype has no fixed size. */
static ckpt_status set_nbytes(ckpt_tensor *tensor, ckpt_error *err)
{
    ckpt_dtype dtype = (ckpt_dtype)tensor->dtype;
    if (!dtype_info(dtype)->block_bytes || !tensor->has_shape ||
        dtype_bytes(dtype, tensor->elements, &tensor->nbytes))
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{%llu elements of %s} do not take a {=whole number of bytes that fits 64 bits}",
                (unsigned long long)tensor->elements, ckpt_tensor_dtype_name(tensor));
}

/* append_row - returns the next row, which is counted already; NULL: no memory. */
static struct packed_row *append_row(struct table *table)
{
    bool ok = table->nrows < table->cap_rows ||
              arena_grow_apart(table->a, &table->rows, &table->cap_rows, sizeof *table->rows);
    return ok ? &table->rows[table->nrows++] : NULL;
}

static ckpt_status fail_max_rows(const struct table *table, ckpt_error *err)
{
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%llu tensors}",
                (unsigned long long)table->max_rows);
}

/* check_row - checks the view of TENSOR, which has shape number SHAPE, and sets its elements and bytes. */
static ckpt_status check_row(struct table *table, ckpt_tensor *tensor, uint32_t shape, ckpt_error *err)
{
    tensor->elements = tensor->has_shape ? table->shapes[shape]->elements : 0;
    if (tensor->has_data)
        CKPT_TRY(check_view(table, tensor, err));
    return set_nbytes(tensor, err);
}

ckpt_status table_add_row(struct table *table, struct row *row, uint32_t *index, ckpt_error *err)
{
    uint32_t shape;
    ckpt_tensor *v = &row->t;
    if (table->nrows >= table->max_rows)
        return fail_max_rows(table, err);
    v->alias_of = CKPT_NO_TENSOR;
    v->ndim = v->has_shape ? v->ndim : 0;
    if (!v->name.ptr)
        v->name = path_join(table->a, v->path, v->npath);
    if (!v->name.ptr)
        return fail_memory(err);
    ckpt_status st = find_shape(table, v, &shape, err);
    if (st == CKPT_OK)
        st = check_row(table, v, shape, err);
    if (st == CKPT_OK) {
        struct packed_row *added = append_row(table);
        st = added && pack(table, row, shape, added) ? CKPT_OK : fail_memory(err);
        table->nrows -= added && st != CKPT_OK;
    }
    if (st != CKPT_OK) {
        error_add_where(err, "%.*s", STR_ARG(v->name));
        return st;
    }
    if (tensor_is_expanded(table, v))
        table->expanded_bytes = size_add(table->expanded_bytes, v->nbytes);
    if (index)
        *index = (uint32_t)table->nrows - 1;
    return CKPT_OK;
}

static bool copy_storages(struct table *table, const struct table *from)
{
    uint32_t index;
    ckpt_error ignored;
    for (size_t i = 0; i < from->nstorages; i++) {
        struct storage copy = from->storages[i];
        copy.in_key_index = false;
        if (copy.src)
            source_ref(copy.src);
        if (table_add_storage(table, &copy, &index, &ignored) != CKPT_OK)
            return false;
    }
    return true;
}

/* copy_shape - sets *ID, 0 at first, to 1 + the number in TABLE of the shape of ROW of FROM. */
static ckpt_status copy_shape(struct table *table, const struct table *from, size_t row, uint32_t *id,
                              ckpt_error *err)
{
    const struct shape *shape = from->shapes[from->rows[row].shape];
    if (*id)
        return CKPT_OK;
    CKPT_TRY(find_shape(table, &(ckpt_tensor){.ndim = shape->ndim, .shape = shape->size}, id, err));
    ++*id;
    return CKPT_OK;
}

static ckpt_status copy_rows(struct table *table, const struct table *from, size_t count, uint32_t *shape_ids,
                             ckpt_error *err)
{
    uint32_t first_storage = (uint32_t)(table->nstorages - from->nstorages);
    for (size_t i = 0; i < count; i++) {
        uint32_t *id = &shape_ids[from->rows[i].shape];
        CKPT_TRY(table->nrows < table->max_rows ? copy_shape(table, from, i, id, err)
                                                : fail_max_rows(table, err));
        struct packed_row *row = append_row(table);
        if (!row)
            return fail_memory(err);
        *row = from->rows[i];
        row->shape = *id - 1;
        row->storage += row->storage == CKPT_NO_STORAGE ? 0 : first_storage;
        row->alias_of = CKPT_NO_TENSOR;
    }
    return CKPT_OK;
}

ckpt_status table_append(struct table *table, const struct table *from, size_t count, ckpt_error *err)
{
    uint32_t *shape_ids = calloc(from->nshapes + 1, sizeof *shape_ids);
    ckpt_status st = shape_ids && copy_storages(table, from) ? copy_rows(table, from, count, shape_ids, err)
                                                             : fail_memory(err);
    free(shape_ids);
    table->expanded_bytes = size_add(table->expanded_bytes, from->expanded_bytes);
    return st;
}

/* permute - makes element ORDER[I] of ARRAY element I, for all COUNT, one cycle of the permutation after the
 * other. Sets ORDER[I] to I. */
static void permute(void *array, uint32_t *order, size_t count, size_t size)
{
    char *at = array, first[sizeof(struct packed_row) + sizeof(struct storage)];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = i;
        if (order[i] == i)
            continue;
        memcpy(first, at + i * size, size);
        for (uint32_t from; (from = order[to]) != i; to = from) {
            memcpy(at + to * size, at + from * size, size);
            order[to] = to;
        }
        memcpy(at + to * size, first, size);
        order[to] = to;
    }
}

/* complete_order - adds the numbers below TOTAL that are not among the COUNT of ORDER, which has room for
 * them. PLACE becomes the inverse of ORDER. */
static void complete_order(uint32_t *order, uint32_t *place, size_t count, size_t total)
{
    memset(place, 0xff, total * sizeof *place);
    for (size_t i = 0; i < count; i++)
        place[order[i]] = (uint32_t)i;
    for (size_t i = 0; i < total; i++)
        if (place[i] == UINT32_MAX) {
            place[i] = (uint32_t)count;
            order[count++] = (uint32_t)i;
        }
}

/* order_storages - sets ORDER to the storages of TABLE in the order of the first COUNT rows, and returns how
 * many there are. PLACE, all UINT32_MAX, becomes the inverse of ORDER. */
static size_t order_storages(const struct table *table, uint32_t *order, uint32_t *place, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t s = table->rows[i].storage;
        if (s == CKPT_NO_STORAGE || place[s] != UINT32_MAX)
            continue;
        place[s] = (uint32_t)used;
        order[used++] = s;
    }
    return used;
}

/* reorder - does table_reorder. ORDER and PLACE have room for all rows and storages. */
static void reorder(struct table *table, uint32_t *order, size_t count, uint32_t *place)
{
    complete_order(order, place, count, table->nrows);
    permute(table->rows, order, table->nrows, sizeof *table->rows);
    table->nrows = count;
    memset(place, 0xff, table->nstorages * sizeof *place);
    size_t used = order_storages(table, order, place, count);
    complete_order(order, place, used, table->nstorages);
    permute(table->storages, order, table->nstorages, sizeof *table->storages);
    for (size_t i = 0; i < count; i++)
        if (table->rows[i].storage != CKPT_NO_STORAGE)
            table->rows[i].storage = place[table->rows[i].storage];
    while (table->nstorages > used)
        source_unref(table->storages[--table->nstorages].src);
}

bool table_reorder(struct table *table, const uint32_t *order, size_t count)
{
    size_t most = table->nrows > table->nstorages ? table->nrows : table->nstorages;
    uint32_t *completed = calloc(most + 1, 2 * sizeof *completed);
    if (!completed)
        return false;
    if (count)
        memcpy(completed, order, count * sizeof *order);
    reorder(table, completed, count, completed + most);
    free(completed);
    return true;
}

/* make_root_pairs - makes the pairs of table_root_pairs; the keys are after them. */
static void make_root_pairs(struct lazy_pairs *lazy)
{
    const struct packed_row *row = lazy->from;
    ckpt_value *key = (ckpt_value *)(void *)(lazy->pairs + lazy->n);
    for (uint32_t i = 0; i < lazy->n; row++) {
        if (!row->value)
            continue;
        value_init_str(&key[i], row->own.str);
        lazy->pairs[i] = (value_pair){&key[i], (ckpt_value *)(uintptr_t)row->value};
        i++;
    }
}

struct lazy_pairs *table_root_pairs(struct table *table, ckpt_value *root)
{
    uint32_t n = 0;
    for (size_t i = 0; i < table->nrows; i++) {
        if (table->rows[i].value)
            table_set_step(table, i, root, n++);
    }
    struct lazy_pairs *lazy = malloc(sizeof *lazy + n * (sizeof *lazy->pairs + sizeof(ckpt_value)));
    if (!lazy)
        return NULL;
    *lazy = (struct lazy_pairs){.make = make_root_pairs, .from = table->rows, .n = n};
    root->flags |= VALUE_LAZY_PAIRS;
    root->u.dict.pairs = lazy->pairs;
    root->u.dict.n = root->u.dict.cap = n;
    return lazy;
}

static bool is_view_contiguous(const ckpt_tensor *tensor)
{
    uint64_t run = 1;
    if (!tensor->stride || tensor->elements <= 1)
        return true;
    for (uint32_t k = tensor->ndim; COUNT_DOWN(k);) {
        if (tensor->shape[k] != 1 && tensor->stride[k] != run)
            return false;
        if (!checked_mul(run, tensor->shape[k], &run))
            return false;
    }
    return true;
}

static bool same_view(const ckpt_tensor *left, const ckpt_tensor *right)
{
    if (left->storage_offset != right->storage_offset || !tensor_same_dtype(left, right) ||
        left->ndim != right->ndim || left->conj != right->conj || left->neg != right->neg ||
        left->kind != right->kind)
        return false;
    for (uint32_t k = 0; k < left->ndim; k++)
        if (left->shape[k] != right->shape[k] ||
            (left->shape[k] > 1 && left->stride && right->stride && left->stride[k] != right->stride[k]))
            return false;
    return is_view_contiguous(left) == is_view_contiguous(right);
}

static bool may_alias(const struct table *table, size_t index)
{
    const struct packed_row *p = &table->rows[index];
    return p->storage != CKPT_NO_STORAGE && p->has_data && p->has_shape && table->shapes[p->shape]->elements;
}

/* count_storage_users - sets (*USERS)[I] to the number of tensors that use storage I, counted up to 2. */
static bool count_storage_users(const struct table *table, uint8_t **users, bool *any_shared)
{
    *users = calloc(table->nstorages + 1, 1);
    *any_shared = false;
    for (size_t i = 0; *users && i < table->nrows; i++) {
        uint8_t *count = may_alias(table, i) ? *users + table->rows[i].storage : NULL;
        if (count && *count < 2 && ++*count == 2)
            *any_shared = true;
    }
    return *users != NULL;
}

#define MAX_CHAIN 64 /* comparisons for each tensor, so that ten thousand views of one storage are not slow */

/* find_aliases - sets alias_of. Tensors whose storage, offset and size have the same hash form a chain: its
 * first tensor is in FIRST_OF_HASH, and NEXT[I] is the tensor after I. */
MODULO static bool find_aliases(struct table *table, const uint8_t *users, map *first_of_hash, uint32_t *next)
{
    bool ok = first_of_hash && next;
    for (uint32_t i = 0; ok && i < table->nrows; i++) {
        next[i] = MAP_NONE;
        if (!may_alias(table, i) || users[table->rows[i].storage] < 2)
            continue;
        const ckpt_tensor v = table_tensor(table, i);
        uint64_t hash = v.storage_offset + (v.elements << 20);
        hash = ((uint64_t)v.storage << 32) ^ hash * UINT64_C(0x9E3779B97F4A7C15);
        uint32_t head, compared = 0;
        ok = map_put_num(first_of_hash, hash, i, &head);
        for (uint32_t j = head; ok && j != MAP_NONE && compared < MAX_CHAIN; j = next[j], compared++) {
            const ckpt_tensor earlier = table_tensor(table, j);
            if (earlier.storage == v.storage && same_view(&earlier, &v)) {
                table->rows[i].alias_of = j;
                break;
            }
        }
        if (ok && head != MAP_NONE && table->rows[i].alias_of == CKPT_NO_TENSOR) {
            next[i] = next[head];
            next[head] = i;
        }
    }
    return ok;
}

ckpt_status table_finish(struct table *table, ckpt_error *err)
{
    uint8_t *users;
    bool any_shared, ok = count_storage_users(table, &users, &any_shared);
    if (ok && any_shared) {
        map *first_of_hash = map_new(0);
        uint32_t *next = calloc(table->nrows, sizeof *next);
        ok = find_aliases(table, users, first_of_hash, next);
        map_free(first_of_hash);
        free(next);
    }
    free(users);
    return ok ? CKPT_OK : fail_memory(err);
}
