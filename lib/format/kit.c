/* kit.c - see kit.h. */
#include "format/kit.h"

#include <inttypes.h>

#include "base/checked.h"
#include "core/check.h"
#include "core/dtype.h"

ckpt_status kit_read_metadata(ckpt_file *f, source *src, uint64_t off, uint64_t n, ckpt_str *text,
                              ckpt_error *err)
{
    uint64_t pos = source_pos(src, off), max = f->limits.max_header;
    if (n > max)
        return fail(err, CKPT_ELIMIT, pos, "metadata of {%" PRIu64 " bytes}; the limit is {=%" PRIu64 "}", n,
                    max);
    if (!range_within(off, n, src->size))
        return fail(err, CKPT_ETRUNCATED, pos,
                    "metadata of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", n,
                    off < src->size ? src->size - off : 0);
    file_raise_budget(f, n);
    char *bytes = arena_alloc(f->a, (size_t)n + 1);
    *text = str_of(bytes, (size_t)n);
    return bytes ? source_read(src, off, bytes, (size_t)n, err) : fail_memory(err);
}

/* make_room_for_entry - allocates k->path and k->steps. False: no memory. */
static bool make_room_for_entry(struct kit *k)
{
    k->path = arena_array(k->f->a, (uint64_t)k->npath + 1, sizeof *k->path);
    k->steps = arena_array(k->f->a, (uint64_t)k->npath + 1, sizeof *k->steps);
    return k->path && k->steps;
}

/* set_entry - makes the last element of k->path and k->steps those of the next entry of the mapping, NAME. */
static void set_entry(struct kit *k, ckpt_str name)
{
    uint32_t n = value_count(k->mapping);
    bool is_item = k->mapping->type == CKPT_V_LIST;
    k->path[k->npath] = is_item ? (ckpt_path_elem){.is_int = 1, .num = n} : (ckpt_path_elem){.str = name};
    k->steps[k->npath] = (struct step){k->mapping, n};
}

ckpt_status kit_begin(struct kit *k, ckpt_file *f, ckpt_value *root, ckpt_error *err)
{
    *k = (struct kit){.f = f, .err = err, .mapping = root};
    f->root = root;
    return root && make_room_for_entry(k) && (k->names = map_new(64)) ? CKPT_OK : fail_memory(err);
}

ckpt_status kit_begin_mapping(struct kit *k, struct kit *parent, ckpt_str key)
{
    arena *a = parent->f->a;
    ckpt_value *name = value_str(a, key), *dict = value_new(a, CKPT_V_DICT, 0);
    *k = (struct kit){.f = parent->f, .err = parent->err, .mapping = dict, .npath = parent->npath + 1};
    if (!name || !dict || !make_room_for_entry(k))
        return fail_memory(k->err);
    set_entry(parent, key);
    memcpy(k->path, parent->path, k->npath * sizeof *k->path);
    memcpy(k->steps, parent->steps, k->npath * sizeof *k->steps);
    return value_put(a, parent->mapping, name, dict) && (k->names = map_new(64)) ? CKPT_OK
                                                                                 : fail_memory(k->err);
}

ckpt_status kit_end(struct kit *k, ckpt_status st)
{
    const ckpt_path_elem *path = k->npath ? k->path : arena_array(k->f->a, 1, sizeof *path);
    map_free(k->names);
    k->names = NULL;
    k->f->root_is_table = k->only_tensors;
    if (st != CKPT_OK || k->only_tensors || k->mapping->type == CKPT_V_TENSOR || value_count(k->mapping))
        return st;
    return path ? file_add_leaf(k->f, path, k->npath, k->mapping, k->err) : fail_memory(k->err);
}

uint64_t *kit_strides(arena *a, const uint64_t *shape, uint32_t n, bool column_major)
{
    uint64_t *stride = arena_array(a, n, sizeof *stride), run = 1;
    for (uint32_t i = 0; stride && i < n; i++) {
        uint32_t k = column_major ? i : n - 1 - i;
        stride[k] = run;
        run *= shape[k];
    }
    return stride;
}

/* ------------------------------------------------------------------------- storages */

/* count_bytes - sets *OUT to the bytes that dtype and shape take. False: not whole bytes, or 2^64 or more;
 * table_add_row refuses both. */
static bool count_bytes(const ckpt_tensor *t, uint64_t *out)
{
    uint64_t elements;
    *out = t->nbytes;
    return t->dtype == CKPT_DT_NAMED || (checked_product(t->shape, t->ndim, &elements) &&
                                         dtype_bytes((ckpt_dtype)t->dtype, elements, out));
}

static ckpt_status set_storage_bytes(const struct kit *k, const struct kit_tensor *x, struct storage *s)
{
    uint64_t need = 0;
    bool view = x->t.stride || x->t.storage_offset || x->key.len, fits = count_bytes(&x->t, &need);
    uint64_t n = x->nbytes == KIT_AS_NEEDED ? need : x->nbytes;
    if (fits && !view && n != need)
        return fail(k->err, CKPT_EFORMAT, source_pos(x->src, x->src_offset),
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", n, need);
    if (!range_within(x->src_offset, n, x->src->size))
        return fail(k->err, CKPT_ETRUNCATED,
                    source_pos(x->src, x->src_offset < x->src->size ? x->src_offset : x->src->size),
                    "needs {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", n,
                    x->src_offset < x->src->size ? x->src->size - x->src_offset : 0);
    s->src = source_ref(x->src);
    s->off = x->src_offset;
    s->nbytes = n;
    return CKPT_OK;
}

static ckpt_status set_storage_pieces(const struct kit *k, const struct kit_tensor *x, struct storage *s)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)x->t.dtype);
    struct pieces p = {.shape = x->t.shape,
                       .ndim = x->t.ndim,
                       .width = x->t.dtype == CKPT_DT_NAMED || x->convert ? x->width : d->block_bytes,
                       .piece = x->pieces,
                       .n = x->npieces,
                       .may_overlap = x->may_overlap,
                       .fill = x->fill};
    if (d->block_elems != 1)
        return fail(k->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s in pieces cannot be read", d->name);
    if (!count_bytes(&x->t, &s->nbytes))
        return fail(k->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its dtype and shape take {2^64 bytes or more}; {=fewer} are allowed");
    CKPT_TRY(pieces_source(k->f->a, &p, &s->src, &s->off, k->err));
    if (x->convert) {
        source *stored = s->src;
        s->src = x->convert(stored, s->off, s->nbytes, x->how_to_convert);
        s->off = 0;
        source_unref(stored);
    }
    return s->src ? CKPT_OK : fail_memory(k->err);
}

/* add_storage - adds the storage of X; in salvage, a faulty one is added as lost. */
static ckpt_status add_storage(const struct kit *k, const struct kit_tensor *x, uint32_t *index)
{
    ckpt_file *f = k->f;
    const struct dtype_info *d = dtype_info((ckpt_dtype)x->t.dtype);
    struct storage s = {.dtype = (uint8_t)x->t.dtype,
                        .has_crc = x->crc != NULL,
                        .crc = x->crc ? *x->crc : 0,
                        .is_crc32c = x->is_crc32c,
                        .extra = x->src_file,
                        .pieces_have_crcs = x->checks_itself,
                        .checks_itself = x->checks_itself};
    s.key = x->key.len ? x->key : x->name; /* for messages: without a key of its own, no key finds it */
    uint8_t unit = x->t.dtype == CKPT_DT_NAMED ? x->swap_bytes : d->swap_bytes;
    s.swap_width = x->big_endian && unit > 1 ? unit : 0;
    ckpt_error why;
    if (!table_set_location(&f->table, &s, x->t.location))
        return fail_memory(k->err);
    ckpt_status st = x->lost     ? table_set_lost(&f->table, &s, x->lost, k->err)
                     : x->pieces ? set_storage_pieces(k, x, &s)
                                 : set_storage_bytes(k, x, &s);
    if (!x->lost && st != CKPT_OK && f->salvage && check_is_fault(st)) {
        why = *k->err;
        st = table_set_lost(&f->table, &s, &why, k->err);
    }
    CKPT_TRY(st);
    return x->key.len ? file_storage_add(f, &s, index, k->err)
                      : table_add_storage(&f->table, &s, index, k->err);
}

/* find_storage - sets *INDEX to the storage of X: the one with its key, or a new one. CKPT_NO_STORAGE: X has
 * no storage, or its fault was reported. */
static ckpt_status find_storage(const struct kit *k, const struct kit_tensor *x, uint32_t *index)
{
    *index = CKPT_NO_STORAGE;
    if (!x->src && !x->pieces && !x->lost)
        return CKPT_OK;
    if (x->key.len)
        CKPT_TRY(file_storage_find(k->f, x->key, index, k->err));
    if (*index != CKPT_NO_STORAGE)
        return CKPT_OK;
    ckpt_status st = add_storage(k, x, index);
    if (st == CKPT_OK)
        return CKPT_OK;
    error_add_where(k->err, "%.*s", STR_ARG(x->name.len ? x->name : STR_LIT("tensor")));
    if (x->src_file)
        error_add_file(k->err, x->src_file->file.ptr);
    return file_report_fault(k->f, st, k->err);
}

/* ----------------------------------------------------------------------------- rows */

/* register_name - adds NAME to the keys of K. If K has it already, sets *NEW to false and reports the
 * duplicate. */
static ckpt_status register_name(struct kit *k, ckpt_str name, uint64_t entry, bool *new)
{
    uint32_t before;
    *new = true;
    if (k->mapping->type != CKPT_V_DICT || k->only_tensors)
        return CKPT_OK;
    if (!map_put(k->names, name, 0, &before))
        return fail_memory(k->err);
    *new = before == MAP_NONE;
    if (*new)
        return CKPT_OK;
    (void)fail(k->err, CKPT_EFORMAT, entry, "the name \"%.*s\" comes {twice}, {=once} is allowed",
               STR_ARG(name));
    return file_report_fault_as(k->f, CHECK_DUPLICATE, CKPT_EFORMAT, k->err);
}

static ckpt_status add_to_mapping(struct kit *k, ckpt_str name, ckpt_value *v)
{
    if (k->mapping->type == CKPT_V_TENSOR || k->only_tensors)
        return CKPT_OK;
    if (k->mapping->type == CKPT_V_LIST)
        return value_append(k->f->a, k->mapping, v) ? CKPT_OK : fail_memory(k->err);
    ckpt_value *key = value_str(k->f->a, name);
    return key && value_put(k->f->a, k->mapping, key, v) ? CKPT_OK : fail_memory(k->err);
}

#define LIST_DEPTH 32u /* a list nested deeper is one leaf; HDF5 has no more dimensions */

/* A walk over nested lists: the lists from the outermost on, and the current item of each. */
struct list_walk {
    const ckpt_value *list[LIST_DEPTH];
    uint32_t item[LIST_DEPTH];
    uint32_t depth;
};

/* add_leaf - adds the leaf V; its path is the N elements of PATH, then the current items of W. */
static ckpt_status add_leaf(struct kit *k, const ckpt_path_elem *path, uint32_t n, const struct list_walk *w,
                            const ckpt_value *v)
{
    ckpt_path_elem *own = arena_array(k->f->a, (uint64_t)n + w->depth, sizeof *own);
    if (!own)
        return fail_memory(k->err);
    memcpy(own, path, n * sizeof *own);
    for (uint32_t i = 0; i < w->depth; i++)
        own[n + i] = (ckpt_path_elem){.is_int = true, .num = w->item[i]};
    return file_add_leaf(k->f, own, n + w->depth, v, k->err);
}

/* add_leaves - adds V at PATH as one leaf, or if V is a list with items, each item as one, as in a pickle. */
static ckpt_status add_leaves(struct kit *k, const ckpt_path_elem *path, uint32_t n, const ckpt_value *v)
{
    struct list_walk w = {.depth = 0};
    for (;;) {
        for (; w.depth < LIST_DEPTH && v->type == CKPT_V_LIST && value_count(v); v = value_item(v, 0)) {
            w.list[w.depth] = v;
            w.item[w.depth++] = 0;
        }
        CKPT_TRY(add_leaf(k, path, n, &w, v));
        while (w.depth && ++w.item[w.depth - 1] == value_count(w.list[w.depth - 1]))
            w.depth--;
        if (!w.depth)
            return CKPT_OK;
        v = value_item(w.list[w.depth - 1], w.item[w.depth - 1]);
    }
}

ckpt_status kit_add_value(struct kit *k, ckpt_str key, ckpt_value *v)
{
    bool new;
    CKPT_TRY(v ? register_name(k, key, value_offset(v), &new) : fail_memory(k->err));
    if (!new)
        return CKPT_OK;
    k->path[k->npath] = (ckpt_path_elem){.str = key};
    CKPT_TRY(add_to_mapping(k, key, v));
    return add_leaves(k, k->path, k->npath + 1, v);
}

ckpt_status kit_add_other_value(struct kit *k, ckpt_str key, ckpt_value *v)
{
    if (map_get(k->names, key) == MAP_NONE)
        return kit_add_value(k, key, v);
    file_notice(k->f, "\"%.*s\" is a tensor, too: the model's %.*s is left out", STR_ARG(key), STR_ARG(key));
    return CKPT_OK;
}

/* make_row - sets *ROW, except for its storage, to the row of X, whose node is V. */
static ckpt_status make_row(struct kit *k, const struct kit_tensor *x, ckpt_value *v, struct row *row)
{
    uint64_t n;
    set_entry(k, x->name);
    *row = (struct row){.t = x->t, .steps = k->only_tensors ? NULL : k->steps};
    row->t.path = k->path;
    row->t.npath = k->mapping->type == CKPT_V_TENSOR ? 0 : k->npath + 1;
    row->t.value = v;
    row->t.part_of = CKPT_NO_TENSOR;
    row->t.has_shape = !x->has_no_shape;
    if (!x->t.stride && x->column_major && x->t.ndim > 1 && count_bytes(&x->t, &n) && n &&
        !(row->t.stride = kit_strides(k->f->a, x->t.shape, x->t.ndim, true)))
        return fail_memory(k->err);
    return CKPT_OK;
}

ckpt_status kit_add_tensor(struct kit *k, const struct kit_tensor *x)
{
    struct row row;
    bool new;
    CKPT_TRY(register_name(k, x->name, x->described_at, &new));
    if (!new)
        return CKPT_OK;
    bool is_root = k->mapping->type == CKPT_V_TENSOR;
    ckpt_value *v = is_root ? k->mapping : value_new(k->f->a, CKPT_V_TENSOR, x->described_at);
    CKPT_TRY(v ? make_row(k, x, v, &row) : fail_memory(k->err));
    CKPT_TRY(find_storage(k, x, &row.t.storage));
    row.t.has_data = row.t.storage != CKPT_NO_STORAGE && k->f->table.storages[row.t.storage].src;
    CKPT_TRY(file_add_row(k->f, &row, &v->u.listed.row, k->err));
    return add_to_mapping(k, x->name, v);
}

ckpt_status kit_add_faulty(struct kit *k, struct kit_tensor *t, ckpt_status st)
{
    ckpt_error why;
    if (!t->name.ptr)
        t->name = arena_printf(k->f->a, "tensor at byte 0x%" PRIx64, t->described_at);
    if (!t->name.ptr)
        return fail_memory(k->err);
    bool is_of_other_file = k->err && k->err->file[0]; /* DESCRIBED_AT is no offset in it */
    error_add_position(k->err, is_of_other_file ? CKPT_NO_OFFSET : t->described_at, t->name);
    if (k->f->salvage && check_is_fault(st)) {
        why = *k->err;
        why.where[0] = 0; /* the row has that name already */
        t->lost = &why;
        st = kit_add_tensor(k, t);
    }
    return file_report_fault(k->f, st, k->err);
}
