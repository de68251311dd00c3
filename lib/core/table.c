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

ckpt_status table_add_storage(struct table *t, const struct storage *s, uint32_t *index, ckpt_error *err)
{
    if (t->nstorages == t->cap_storages &&
        !arena_grow_apart(t->a, &t->storages, &t->cap_storages, sizeof *t->storages)) {
        source_unref(s->src);
        return fail_memory(err);
    }
    *index = (uint32_t)t->nstorages;
    t->storages[t->nstorages++] = *s;
    return CKPT_OK;
}

bool table_set_location(struct table *t, struct storage *s, ckpt_str location)
{
    const struct storage_extra *last = t->nstorages ? t->storages[t->nstorages - 1].extra : NULL;
    if (!location.len)
        return true;
    if (last && !last->lost_why && str_eq(last->location, location) && str_eq(last->file, storage_file(s))) {
        s->extra = last;
        return true;
    }
    struct storage_extra *extra = ARENA_NEW(t->a, struct storage_extra);
    if (!extra)
        return false;
    extra->file = storage_file(s);
    extra->location = location;
    s->extra = extra;
    return true;
}

bool table_copy_storage(const struct table *t, uint32_t i, ckpt_storage *out)
{
    const struct storage *s = i < t->nstorages ? &t->storages[i] : NULL;
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

ckpt_str table_name(const struct table *t, size_t i)
{
    return i < t->nrows ? t->rows[i].own.str : str_of("", 0);
}

bool table_has_checksums(const struct table *t)
{
    for (size_t i = 0; i < t->nstorages; i++) {
        const struct storage *s = &t->storages[i];
        if (s->nbytes && s->src && !s->has_crc && !s->pieces_have_crcs)
            return false;
    }
    return true;
}

void table_check_first(struct table *t, source *src)
{
    if (!t->unchecked)
        t->unchecked = source_ref(src);
}

void table_check_nothing(struct table *t)
{
    source_unref(t->unchecked);
    t->unchecked = NULL;
}

ckpt_status table_check_source(const struct table *t, ckpt_error *err)
{
    return t->unchecked ? source_check(t->unchecked, err) : CKPT_OK;
}

void table_close(struct table *t)
{
    table_check_nothing(t);
    for (size_t i = 0; i < t->nstorages; i++)
        source_unref(t->storages[i].src);
    if (t->rows)
        arena_free_apart(t->a, t->rows, t->cap_rows, sizeof *t->rows);
    if (t->storages)
        arena_free_apart(t->a, t->storages, t->cap_storages, sizeof *t->storages);
    map_free(t->shape_ids);
    *t = (struct table){.a = t->a};
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

static void put_elem(buf *b, const ckpt_path_elem *e)
{
    if (e->is_int)
        buf_printf(b, "%lld", (long long)e->num);
    else
        buf_put_str(b, e->str);
}

ckpt_path_elem *path_copy(arena *a, const ckpt_path_elem *path, uint32_t n)
{
    ckpt_path_elem *copy = arena_array(a, n ? n : 1, sizeof *copy);
    for (uint32_t i = 0; copy && i < n; i++)
        copy[i] = path[i];
    return copy;
}

static bool same_elem(const ckpt_path_elem *a, const ckpt_path_elem *b)
{
    return a->is_int == b->is_int && (a->is_int ? a->num == b->num : str_eq(a->str, b->str));
}

bool path_begins(const ckpt_path_elem *path, uint32_t n, const ckpt_path_elem *head, uint32_t nhead)
{
    if (n < nhead)
        return false;
    for (uint32_t k = 0; k < nhead; k++)
        if (!same_elem(&path[k], &head[k]))
            return false;
    return true;
}

size_t path_elem_len(const ckpt_path_elem *e)
{
    char number[24];
    return e->is_int ? (size_t)snprintf(number, sizeof number, "%lld", (long long)e->num) : e->str.len;
}

ckpt_str path_join(arena *a, const ckpt_path_elem *path, uint32_t n)
{
    if (n == 1 && !path[0].is_int)
        return arena_str(a, path[0].str);
    buf b;
    buf_init(&b, 1u << 24);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            buf_byte(&b, '.');
        put_elem(&b, &path[i]);
    }
    ckpt_str joined = buf_ok(&b) ? arena_str(a, buf_view(&b)) : str_of(NULL, 0);
    buf_free(&b);
    return joined;
}

bool path_of_entry(arena *a, const ckpt_value *mapping, const ckpt_path_elem *prefix,
                   const struct step *prefix_steps, uint32_t n, ckpt_str key, ckpt_path_elem **path,
                   struct step **steps)
{
    *path = arena_array(a, (uint64_t)n + 1, sizeof **path);
    *steps = arena_array(a, (uint64_t)n + 1, sizeof **steps);
    if (!*path || !*steps)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        (*path)[i] = prefix[i];
        (*steps)[i] = prefix_steps[i];
    }
    (*path)[n].str = key;
    (*steps)[n] = (struct step){mapping, value_count(mapping)};
    return true;
}

bool tensor_bytes(const ckpt_tensor *t, uint64_t elements, uint64_t *out)
{
    if (t->dtype != CKPT_DT_NAMED)
        return dtype_bytes((ckpt_dtype)t->dtype, elements, out);
    return checked_mul(elements, t->elements ? t->nbytes / t->elements : 0, out);
}

const char *ckpt_tensor_dtype_name(const ckpt_tensor *tensor)
{
    if (!tensor)
        return "";
    bool named = tensor->dtype == CKPT_DT_NAMED && tensor->dtype_name;
    return named ? tensor->dtype_name : ckpt_dtype_name((ckpt_dtype)tensor->dtype);
}

bool tensor_is_string(const ckpt_tensor *t)
{
    return t->dtype == CKPT_DT_NAMED && t->dtype_name && strcmp(t->dtype_name, "string") == 0;
}

bool tensor_same_dtype(const ckpt_tensor *a, const ckpt_tensor *b)
{
    return a->dtype == b->dtype &&
           (a->dtype != CKPT_DT_NAMED ||
            (strcmp(ckpt_tensor_dtype_name(a), ckpt_tensor_dtype_name(b)) == 0 && str_eq(a->note, b->note)));
}

bool tensor_view_end(const ckpt_tensor *t, uint64_t *end)
{
    *end = 0;
    if (t->elements == 0)
        return true;
    uint64_t last = t->storage_offset;
    if (!t->stride)
        return checked_add(last, t->elements, end);
    for (uint32_t k = 0; k < t->ndim; k++) {
        uint64_t reach;
        if (!checked_mul(t->shape[k] - 1, t->stride[k], &reach) || !checked_add(last, reach, &last))
            return false;
    }
    return checked_add(last, 1, end);
}

static ckpt_status check_view(struct table *t, ckpt_tensor *v, ckpt_error *err)
{
    uint64_t end, need;
    const struct storage *s = &t->storages[v->storage];
    if (!tensor_view_end(v, &end) || !tensor_bytes(v, end, &need))
        return fail(err, CKPT_EFORMAT, storage_file_offset(s),
                    "{its offset, sizes and strides} reach beyond {=2^64 bytes}");
    if (need > s->nbytes)
        return fail(err, CKPT_EFORMAT, storage_file_offset(s),
                    "the view reaches {byte %llu} of storage \"%.*s\", which has {=%llu}\n"
                    "the file is damaged or made to mislead; nothing can be read from this tensor",
                    (unsigned long long)need, STR_ARG(s->key), (unsigned long long)s->nbytes);
    return CKPT_OK;
}

static void set_file_offset(const struct table *t, ckpt_tensor *v)
{
    uint64_t view_offset = 0;
    const struct storage *s = v->storage == CKPT_NO_STORAGE ? NULL : &t->storages[v->storage];
    uint64_t storage_pos = s ? storage_file_offset(s) : CKPT_NO_OFFSET;
    v->file_offset = CKPT_NO_OFFSET;
    if (storage_pos != CKPT_NO_OFFSET &&
        (!v->storage_offset || tensor_bytes(v, v->storage_offset, &view_offset)) && view_offset <= s->nbytes)
        (void)checked_add(storage_pos, view_offset, &v->file_offset);
}

ckpt_status table_locate(const struct table *t, ckpt_error *err)
{
    for (size_t i = 0; i < t->nstorages; i++)
        if (t->storages[i].src)
            CKPT_TRY(source_locate(t->storages[i].src, err));
    return CKPT_OK;
}

static bool same_numbers(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    return !a == !b && (!a || !n || memcmp(a, b, n * sizeof *a) == 0);
}

bool table_same_place(const ckpt_tensor *a, const ckpt_tensor *b)
{
    return a->ndim == b->ndim && tensor_same_dtype(a, b) && a->kind == b->kind && a->nbytes == b->nbytes &&
           a->conj == b->conj && a->neg == b->neg && a->storage_offset == b->storage_offset &&
           a->storage == b->storage && a->file_offset == b->file_offset &&
           same_numbers(a->shape, b->shape, a->ndim) && same_numbers(a->stride, b->stride, a->ndim);
}

bool table_same_places(const struct table *a, const struct table *b)
{
    bool same = a->nrows == b->nrows && a->nstorages == b->nstorages;
    for (size_t i = 0; same && i < a->nrows; i++) {
        const ckpt_tensor x = table_tensor(a, i), y = table_tensor(b, i);
        same = table_same_place(&x, &y);
    }
    return same;
}

bool tensor_is_expanded(const struct table *t, const ckpt_tensor *v)
{
    return v->has_data && v->storage != CKPT_NO_STORAGE && v->nbytes > t->storages[v->storage].nbytes;
}

ckpt_status table_add_lost(struct table *t, struct storage_extra lost, uint32_t *index, ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(t->a, struct storage_extra);
    struct storage without_bytes = {.extra = extra};
    if (!extra)
        return fail_memory(err);
    *extra = lost;
    return table_add_storage(t, &without_bytes, index, err);
}

ckpt_status table_set_lost(struct table *t, struct storage *s, const ckpt_error *why, ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(t->a, struct storage_extra);
    ckpt_str text = arena_printf(t->a, "%s%s%s", why->where, why->where[0] ? ": " : "", why->what);
    source_unref(s->src);
    s->src = NULL;
    s->nbytes = 0;
    s->has_crc = false;
    if (!extra || !text.ptr)
        return fail_memory(err);
    *extra = (struct storage_extra){.file = storage_file(s),
                                    .location = storage_location(s),
                                    .lost_why = text.ptr,
                                    .lost_at = why->offset};
    s->extra = extra;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- packed rows */

/* get_shape_key - returns the sizes of shape ID of USER, a table, as a text. */
static ckpt_str get_shape_key(const void *user, uint32_t id)
{
    const struct shape *shape = ((const struct table *)user)->shapes[id];
    return str_of((const char *)shape->size, shape->ndim * sizeof *shape->size);
}

static ckpt_status add_shape(struct table *t, const ckpt_tensor *v, ckpt_error *err)
{
    uint64_t elements, bytes;
    size_t size;
    if (!checked_product(v->shape, v->ndim, &elements))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{the product of its %u sizes} does not fit {=64 bits}", v->ndim);
    struct shape *shape = NULL;
    if (checked_mul(v->ndim, sizeof *v->shape, &bytes) && checked_add(bytes, sizeof *shape, &bytes) &&
        checked_size(bytes, &size))
        shape = arena_alloc(t->a, size);
    if (!shape || !arena_push(t->a, &t->shapes, &t->nshapes, &t->cap_shapes, &shape, sizeof shape))
        return fail_memory(err);
    shape->elements = elements;
    shape->ndim = v->ndim;
    if (v->ndim)
        memcpy(shape->size, v->shape, v->ndim * sizeof *v->shape);
    return CKPT_OK;
}

static bool has_shape(const struct table *t, uint32_t id, const ckpt_tensor *v)
{
    const struct shape *shape = t->shapes[id];
    bool same = shape->ndim == v->ndim;
    for (uint32_t k = 0; same && k < v->ndim; k++)
        same = shape->size[k] == v->shape[k];
    return same;
}

MODULO static uint32_t *get_recent_shape(struct table *t, const ckpt_tensor *v)
{
    uint64_t mixed = v->ndim ? v->shape[0] + 31 * v->shape[v->ndim - 1] : 0;
    return &t->recent_shapes[(mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 58];
}

/* find_shape - sets *ID to the shape of V, which is added if it is new. */
static ckpt_status find_shape(struct table *t, const ckpt_tensor *v, uint32_t *id, ckpt_error *err)
{
    uint32_t *recent = get_recent_shape(t, v);
    *id = *recent;
    if (*id < t->nshapes && has_shape(t, *id, v))
        return CKPT_OK;
    if (!t->shape_ids && !(t->shape_ids = map_new_index(0, get_shape_key, t)))
        return fail_memory(err);
    ckpt_str key = str_of((const char *)v->shape, v->ndim * sizeof *v->shape);
    *id = map_get(t->shape_ids, key);
    if (*id == MAP_NONE) {
        *id = (uint32_t)t->nshapes;
        CKPT_TRY(add_shape(t, v, err));
        if (!map_put(t->shape_ids, key, *id, NULL))
            return fail_memory(err);
    }
    *recent = *id;
    return CKPT_OK;
}

/* is_row_major - returns true if the strides of V are those of a tensor without strides. */
MODULO static bool is_row_major(const ckpt_tensor *v)
{
    uint64_t run = 1;
    for (uint32_t k = v->ndim; v->stride && COUNT_DOWN(k); run *= v->shape[k])
        if (v->stride[k] != run)
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

static ckpt_str get_location(const struct table *t, uint32_t storage)
{
    return storage == CKPT_NO_STORAGE ? str_of("", 0) : storage_location(&t->storages[storage]);
}

static bool has_location_of_storage(const struct table *t, const ckpt_tensor *v)
{
    ckpt_str location = get_location(t, v->storage);
    return v->location.len == location.len &&
           (v->location.ptr == location.ptr || str_eq(v->location, location));
}

static const struct row_extra no_extra = {
    .klass = {"", 0}, .location = {"", 0}, .note = {"", 0}, .part_of = CKPT_NO_TENSOR};

/* pack_extra - sets p->extra if V has anything that most rows do not have. False: no memory. */
static bool pack_extra(struct table *t, const ckpt_tensor *v, struct packed_row *p)
{
    bool row_major = is_row_major(v);
    uint64_t elements = t->shapes[p->shape]->elements;
    if (row_major && !v->storage_offset && !v->dtype_name && !v->klass.len && !v->note.len &&
        v->part_of == CKPT_NO_TENSOR && has_location_of_storage(t, v) &&
        v->nbytes == get_derived_nbytes((ckpt_dtype)v->dtype, v->has_shape, elements))
        return true;
    struct row_extra *extra = ARENA_NEW(t->a, struct row_extra);
    uint64_t *stride = row_major ? NULL : arena_array(t->a, v->ndim, sizeof *stride);
    if (!extra || (!row_major && !stride))
        return false;
    if (stride)
        memcpy(stride, v->stride, v->ndim * sizeof *stride);
    *extra = (struct row_extra){.stride = stride,
                                .storage_offset = v->storage_offset,
                                .nbytes = v->nbytes,
                                .dtype_name = v->dtype_name,
                                .klass = v->klass,
                                .location = v->location,
                                .note = v->note,
                                .part_of = v->part_of};
    p->extra = extra;
    return true;
}

/* pack_path - sets the name, the path and the steps of P to those of ROW. False: no memory. */
static bool pack_path(struct table *t, const struct row *row, struct packed_row *p)
{
    uint32_t n = p->npath = row->t.npath;
    size_t path_bytes = n * sizeof *row->t.path, step_bytes = n * sizeof *row->steps;
    p->has_steps = row->steps != NULL;
    if (n == 1) {
        p->own = row->t.path[0];
        p->own_step = row->steps ? row->steps[0] : (struct step){0};
    } else if (n) {
        struct deep_path *deep = arena_alloc(t->a, sizeof *deep + path_bytes);
        struct step *steps = row->steps ? arena_array(t->a, n, sizeof *steps) : NULL;
        if (!deep || (row->steps && !steps))
            return false;
        memcpy(deep->path, row->t.path, path_bytes);
        if (steps)
            memcpy(steps, row->steps, step_bytes);
        deep->steps = steps;
        p->deep = deep;
    }
    p->own.str = row->t.name;
    return true;
}

_Static_assert(DTYPE_COUNT <= UINT8_MAX + 1, "rows and storages store a dtype in 8 bits");

/* pack - sets *P to ROW, whose shape is number SHAPE. False: no memory. */
static bool pack(struct table *t, const struct row *row, uint32_t shape, struct packed_row *p)
{
    const ckpt_tensor *v = &row->t;
    *p = (struct packed_row){.value = v->value,
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
    return pack_path(t, row, p) && pack_extra(t, v, p);
}

static inline uint64_t get_nbytes(const struct packed_row *p, uint64_t elements)
{
    return p->extra ? p->extra->nbytes : get_derived_nbytes(p->dtype, p->has_shape, elements);
}

uint64_t table_nbytes_of(const struct table *t, size_t i)
{
    return get_nbytes(&t->rows[i], table_elements_of(t, i));
}

void table_read_tensor(const struct table *t, size_t i, ckpt_tensor *v)
{
    const struct packed_row *p = &t->rows[i];
    const struct shape *shape = t->shapes[p->shape];
    const struct row_extra *extra = p->extra ? p->extra : &no_extra;
    v->struct_size = 0;
    v->dtype = p->dtype;
    v->kind = p->kind;
    v->name = p->own.str;
    v->path = table_path_of(t, i);
    v->npath = p->npath;
    v->ndim = shape->ndim;
    v->has_shape = p->has_shape;
    v->has_data = p->has_data;
    v->conj = p->conj;
    v->neg = p->neg;
    v->requires_grad = p->requires_grad;
    v->parameter = p->parameter;
    v->reserved[0] = v->reserved[1] = 0;
    v->shape = shape->size;
    v->stride = extra->stride;
    v->elements = p->has_shape ? shape->elements : 0;
    v->nbytes = get_nbytes(p, v->elements);
    v->storage = p->storage;
    v->storage_offset = extra->storage_offset;
    v->alias_of = p->alias_of;
    v->part_of = extra->part_of;
    v->klass = extra->klass;
    v->location = p->extra ? extra->location : get_location(t, p->storage);
    v->note = extra->note;
    v->value = p->value;
    v->dtype_name = extra->dtype_name;
    set_file_offset(t, v);
}

ckpt_tensor table_tensor(const struct table *t, size_t i)
{
    ckpt_tensor v;
    table_read_tensor(t, i, &v);
    return v;
}

struct row table_row(const struct table *t, size_t i)
{
    return (struct row){.t = table_tensor(t, i), .steps = table_steps_of(t, i)};
}

bool table_replace_row(struct table *t, size_t i, const struct row *row)
{
    uint32_t shape;
    struct packed_row packed;
    ckpt_error ignored;
    if (find_shape(t, &row->t, &shape, &ignored) != CKPT_OK || !pack(t, row, shape, &packed))
        return false;
    t->rows[i] = packed;
    return true;
}

/* set_nbytes - sets the bytes of V, unless its dtype has no fixed size. */
static ckpt_status set_nbytes(ckpt_tensor *v, ckpt_error *err)
{
    ckpt_dtype dtype = (ckpt_dtype)v->dtype;
    if (!dtype_info(dtype)->block_bytes || !v->has_shape || dtype_bytes(dtype, v->elements, &v->nbytes))
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{%llu elements of %s} do not take a {=whole number of bytes that fits 64 bits}",
                (unsigned long long)v->elements, ckpt_tensor_dtype_name(v));
}

/* append_row - returns the next row, which is counted already; NULL: no memory. */
static struct packed_row *append_row(struct table *t)
{
    bool ok = t->nrows < t->cap_rows || arena_grow_apart(t->a, &t->rows, &t->cap_rows, sizeof *t->rows);
    return ok ? &t->rows[t->nrows++] : NULL;
}

static ckpt_status fail_max_rows(const struct table *t, ckpt_error *err)
{
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%llu tensors}",
                (unsigned long long)t->max_rows);
}

ckpt_status table_add_row(struct table *t, const struct row *r, uint32_t *index, ckpt_error *err)
{
    uint32_t shape;
    struct packed_row packed;
    struct row row = *r;
    ckpt_tensor *v = &row.t;
    if (t->nrows >= t->max_rows)
        return fail_max_rows(t, err);
    v->alias_of = CKPT_NO_TENSOR;
    v->ndim = v->has_shape ? v->ndim : 0;
    if (!v->name.ptr)
        v->name = path_join(t->a, v->path, v->npath);
    if (!v->name.ptr)
        return fail_memory(err);
    ckpt_status st = find_shape(t, v, &shape, err);
    v->elements = st == CKPT_OK && v->has_shape ? t->shapes[shape]->elements : 0;
    if (st == CKPT_OK && v->has_data)
        st = check_view(t, v, err);
    if (st == CKPT_OK)
        st = set_nbytes(v, err);
    if (st == CKPT_OK && !pack(t, &row, shape, &packed))
        st = fail_memory(err);
    if (st != CKPT_OK) {
        error_add_where(err, "%.*s", STR_ARG(v->name));
        return st;
    }
    struct packed_row *added = append_row(t);
    if (!added)
        return fail_memory(err);
    *added = packed;
    if (tensor_is_expanded(t, v))
        t->expanded_bytes = size_add(t->expanded_bytes, v->nbytes);
    if (index)
        *index = (uint32_t)t->nrows - 1;
    return CKPT_OK;
}

static bool copy_storages(struct table *t, const struct table *from)
{
    uint32_t index;
    ckpt_error ignored;
    for (size_t i = 0; i < from->nstorages; i++) {
        struct storage copy = from->storages[i];
        copy.in_key_index = false;
        if (copy.src)
            source_ref(copy.src);
        if (table_add_storage(t, &copy, &index, &ignored) != CKPT_OK)
            return false;
    }
    return true;
}

/* copy_shape - sets *ID, 0 at first, to 1 + the number in T of the shape of ROW of FROM. */
static ckpt_status copy_shape(struct table *t, const struct table *from, size_t row, uint32_t *id,
                              ckpt_error *err)
{
    const struct shape *shape = from->shapes[from->rows[row].shape];
    if (*id)
        return CKPT_OK;
    CKPT_TRY(find_shape(t, &(ckpt_tensor){.ndim = shape->ndim, .shape = shape->size}, id, err));
    ++*id;
    return CKPT_OK;
}

static ckpt_status copy_rows(struct table *t, const struct table *from, size_t n, uint32_t *shape_ids,
                             ckpt_error *err)
{
    uint32_t first_storage = (uint32_t)(t->nstorages - from->nstorages);
    for (size_t i = 0; i < n; i++) {
        uint32_t *id = &shape_ids[from->rows[i].shape];
        CKPT_TRY(t->nrows < t->max_rows ? copy_shape(t, from, i, id, err) : fail_max_rows(t, err));
        struct packed_row *row = append_row(t);
        if (!row)
            return fail_memory(err);
        *row = from->rows[i];
        row->shape = *id - 1;
        row->storage += row->storage == CKPT_NO_STORAGE ? 0 : first_storage;
        row->alias_of = CKPT_NO_TENSOR;
    }
    return CKPT_OK;
}

ckpt_status table_append(struct table *t, const struct table *from, size_t n, ckpt_error *err)
{
    uint32_t *shape_ids = calloc(from->nshapes + 1, sizeof *shape_ids);
    ckpt_status st = shape_ids && copy_storages(t, from) ? copy_rows(t, from, n, shape_ids, err)
                                                         : fail_memory(err);
    free(shape_ids);
    t->expanded_bytes = size_add(t->expanded_bytes, from->expanded_bytes);
    return st;
}

/* permute - makes element ORDER[I] of ARRAY element I, for all N, one cycle of the permutation after the
 * other. Sets ORDER[I] to I. */
static void permute(void *array, uint32_t *order, size_t n, size_t size)
{
    char *at = array, first[sizeof(struct packed_row) + sizeof(struct storage)];
    for (uint32_t i = 0; i < n; i++) {
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

/* complete_order - adds the numbers below TOTAL that are not among the N of ORDER, which has room for
 * them. PLACE becomes the inverse of ORDER. */
static void complete_order(uint32_t *order, uint32_t *place, size_t n, size_t total)
{
    memset(place, 0xff, total * sizeof *place);
    for (size_t i = 0; i < n; i++)
        place[order[i]] = (uint32_t)i;
    for (size_t i = 0; i < total; i++)
        if (place[i] == UINT32_MAX) {
            place[i] = (uint32_t)n;
            order[n++] = (uint32_t)i;
        }
}

/* order_storages - sets ORDER to the storages of T in the order of the first N rows, and returns how many
 * there are. PLACE, all UINT32_MAX, becomes the inverse of ORDER. */
static size_t order_storages(const struct table *t, uint32_t *order, uint32_t *place, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t s = t->rows[i].storage;
        if (s == CKPT_NO_STORAGE || place[s] != UINT32_MAX)
            continue;
        place[s] = (uint32_t)used;
        order[used++] = s;
    }
    return used;
}

/* reorder - does table_reorder. ORDER and PLACE have room for all rows and storages. */
static void reorder(struct table *t, uint32_t *order, size_t n, uint32_t *place)
{
    complete_order(order, place, n, t->nrows);
    permute(t->rows, order, t->nrows, sizeof *t->rows);
    t->nrows = n;
    memset(place, 0xff, t->nstorages * sizeof *place);
    size_t used = order_storages(t, order, place, n);
    complete_order(order, place, used, t->nstorages);
    permute(t->storages, order, t->nstorages, sizeof *t->storages);
    for (size_t i = 0; i < n; i++)
        if (t->rows[i].storage != CKPT_NO_STORAGE)
            t->rows[i].storage = place[t->rows[i].storage];
    while (t->nstorages > used)
        source_unref(t->storages[--t->nstorages].src);
}

bool table_reorder(struct table *t, const uint32_t *order, size_t n)
{
    size_t most = t->nrows > t->nstorages ? t->nrows : t->nstorages;
    uint32_t *completed = calloc(most + 1, 2 * sizeof *completed);
    if (!completed)
        return false;
    if (n)
        memcpy(completed, order, n * sizeof *order);
    reorder(t, completed, n, completed + most);
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

struct lazy_pairs *table_root_pairs(struct table *t, ckpt_value *root)
{
    uint32_t n = 0;
    for (size_t i = 0; i < t->nrows; i++) {
        if (t->rows[i].value)
            table_set_step(t, i, root, n++);
    }
    struct lazy_pairs *lazy = malloc(sizeof *lazy + n * (sizeof *lazy->pairs + sizeof(ckpt_value)));
    if (!lazy)
        return NULL;
    *lazy = (struct lazy_pairs){.make = make_root_pairs, .from = t->rows, .n = n};
    root->flags |= VALUE_LAZY_PAIRS;
    root->u.dict.pairs = lazy->pairs;
    root->u.dict.n = root->u.dict.cap = n;
    return lazy;
}

static bool is_view_contiguous(const ckpt_tensor *t)
{
    uint64_t run = 1;
    if (!t->stride || t->elements <= 1)
        return true;
    for (uint32_t k = t->ndim; COUNT_DOWN(k);) {
        if (t->shape[k] != 1 && t->stride[k] != run)
            return false;
        if (!checked_mul(run, t->shape[k], &run))
            return false;
    }
    return true;
}

static bool same_view(const ckpt_tensor *a, const ckpt_tensor *b)
{
    if (a->storage_offset != b->storage_offset || !tensor_same_dtype(a, b) || a->ndim != b->ndim ||
        a->conj != b->conj || a->neg != b->neg || a->kind != b->kind)
        return false;
    for (uint32_t k = 0; k < a->ndim; k++)
        if (a->shape[k] != b->shape[k] ||
            (a->shape[k] > 1 && a->stride && b->stride && a->stride[k] != b->stride[k]))
            return false;
    return is_view_contiguous(a) == is_view_contiguous(b);
}

static bool may_alias(const struct table *t, size_t i)
{
    const struct packed_row *p = &t->rows[i];
    return p->storage != CKPT_NO_STORAGE && p->has_data && p->has_shape && t->shapes[p->shape]->elements;
}

/* count_storage_users - sets (*USERS)[I] to the number of tensors that use storage I, counted up to 2. */
static bool count_storage_users(const struct table *t, uint8_t **users, bool *any_shared)
{
    *users = calloc(t->nstorages + 1, 1);
    *any_shared = false;
    for (size_t i = 0; *users && i < t->nrows; i++) {
        uint8_t *count = may_alias(t, i) ? *users + t->rows[i].storage : NULL;
        if (count && *count < 2 && ++*count == 2)
            *any_shared = true;
    }
    return *users != NULL;
}

#define MAX_CHAIN 64 /* comparisons for each tensor, so that ten thousand views of one storage are not slow */

/* find_aliases - sets alias_of. Tensors whose storage, offset and size have the same hash form a chain: its
 * first tensor is in FIRST_OF_HASH, and NEXT[I] is the tensor after I. */
MODULO static bool find_aliases(struct table *t, const uint8_t *users, map *first_of_hash, uint32_t *next)
{
    bool ok = first_of_hash && next;
    for (uint32_t i = 0; ok && i < t->nrows; i++) {
        next[i] = MAP_NONE;
        if (!may_alias(t, i) || users[t->rows[i].storage] < 2)
            continue;
        const ckpt_tensor v = table_tensor(t, i);
        uint64_t hash = v.storage_offset + (v.elements << 20);
        hash = ((uint64_t)v.storage << 32) ^ hash * UINT64_C(0x9E3779B97F4A7C15);
        uint32_t head, compared = 0;
        ok = map_put_num(first_of_hash, hash, i, &head);
        for (uint32_t j = head; ok && j != MAP_NONE && compared < MAX_CHAIN; j = next[j], compared++) {
            const ckpt_tensor earlier = table_tensor(t, j);
            if (earlier.storage == v.storage && same_view(&earlier, &v)) {
                t->rows[i].alias_of = j;
                break;
            }
        }
        if (ok && head != MAP_NONE && t->rows[i].alias_of == CKPT_NO_TENSOR) {
            next[i] = next[head];
            next[head] = i;
        }
    }
    return ok;
}

ckpt_status table_finish(struct table *t, ckpt_error *err)
{
    uint8_t *users;
    bool any_shared, ok = count_storage_users(t, &users, &any_shared);
    if (ok && any_shared) {
        map *first_of_hash = map_new(0);
        uint32_t *next = calloc(t->nrows, sizeof *next);
        ok = find_aliases(t, users, first_of_hash, next);
        map_free(first_of_hash);
        free(next);
    }
    free(users);
    return ok ? CKPT_OK : fail_memory(err);
}
