/* kit.c - see kit.h. */
#include "format/kit.h"

#include <inttypes.h>

#include "base/checked.h"
#include "core/check.h"
#include "core/dtype.h"

ckpt_status kit_read_metadata(ckpt_file *f, source *src, uint64_t off, uint64_t nbytes, ckpt_str *text,
                              ckpt_error *err)
{
    uint64_t pos = source_pos(src, off), max = f->limits.max_header;
    if (nbytes > max)
        return fail(err, CKPT_ELIMIT, pos, "metadata of {%" PRIu64 " bytes}; the limit is {=%" PRIu64 "}",
                    nbytes, max);
    if (!range_within(off, nbytes, src->size))
        return fail(err, CKPT_ETRUNCATED, pos,
                    "metadata of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", nbytes,
                    off < src->size ? src->size - off : 0);
    file_raise_budget(f, nbytes);
    char *bytes = arena_alloc_text(f->a, (size_t)nbytes + 1);
    CKPT_TRY_ALLOC(bytes, err);
    bytes[nbytes] = '\0';
    *text = str_of(bytes, (size_t)nbytes);
    return source_read(src, off, bytes, (size_t)nbytes, err);
}

/* make_room_for_entry - allocates kit->path and kit->steps. False: no memory. */
static bool make_room_for_entry(struct kit *kit)
{
    kit->path = arena_array(kit->f->a, (uint64_t)kit->npath + 1, sizeof *kit->path);
    kit->steps = arena_array(kit->f->a, (uint64_t)kit->npath + 1, sizeof *kit->steps);
    return kit->path && kit->steps;
}

/* set_entry - makes the last element of kit->path and kit->steps those of the next entry of the mapping,
 * NAME. */
static void set_entry(struct kit *kit, ckpt_str name)
{
    uint32_t n = kit->only_tensors ? 0 : value_count(kit->mapping); /* then rows have no steps */
    bool is_item = kit->mapping->type == CKPT_V_LIST;
    kit->path[kit->npath] = is_item ? (ckpt_path_elem){.is_int = 1, .num = n} : (ckpt_path_elem){.str = name};
    kit->steps[kit->npath] = (struct step){kit->mapping, n};
}

ckpt_status kit_begin(struct kit *kit, ckpt_file *f, ckpt_value *root, ckpt_error *err)
{
    *kit = (struct kit){.f = f, .err = err, .mapping = root};
    f->root = root;
    return root && make_room_for_entry(kit) && (kit->names = map_new(64)) ? CKPT_OK : fail_memory(err);
}

ckpt_status kit_begin_mapping(struct kit *kit, struct kit *parent, ckpt_str key)
{
    arena *a = parent->f->a;
    ckpt_value *name = value_str(a, key), *dict = value_new(a, CKPT_V_DICT, 0);
    *kit = (struct kit){.f = parent->f, .err = parent->err, .mapping = dict, .npath = parent->npath + 1};
    if (!name || !dict || !make_room_for_entry(kit))
        return fail_memory(kit->err);
    set_entry(parent, key);
    memcpy(kit->path, parent->path, kit->npath * sizeof *kit->path);
    memcpy(kit->steps, parent->steps, kit->npath * sizeof *kit->steps);
    return value_put(a, parent->mapping, name, dict) && (kit->names = map_new(64)) ? CKPT_OK
                                                                                   : fail_memory(kit->err);
}

ckpt_status kit_end(struct kit *kit, ckpt_status st)
{
    const ckpt_path_elem *path = kit->npath ? kit->path : arena_array(kit->f->a, 1, sizeof *path);
    map_free(kit->names);
    kit->names = NULL;
    kit->f->root_is_table = kit->only_tensors;
    if (st != CKPT_OK || kit->only_tensors || kit->mapping->type == CKPT_V_TENSOR ||
        value_count(kit->mapping))
        return st;
    return path ? file_add_leaf(kit->f, path, kit->npath, kit->mapping, kit->err) : fail_memory(kit->err);
}

uint64_t *kit_strides(arena *a, const uint64_t *shape, uint32_t ndim, bool column_major)
{
    uint64_t *stride = arena_array(a, ndim, sizeof *stride), run = 1;
    for (uint32_t i = 0; stride && i < ndim; i++) {
        uint32_t k = column_major ? i : ndim - 1 - i;
        stride[k] = run;
        run *= shape[k];
    }
    return stride;
}

/* ------------------------------------------------------------------------- storages */

/* count_bytes - sets *OUT to the bytes that dtype and shape take. False: not whole bytes, or 2^64 or more;
 * table_add_row refuses both. */
static bool count_bytes(const ckpt_tensor *tensor, uint64_t *out)
{
    uint64_t elements;
    *out = tensor->nbytes;
    return tensor->dtype == CKPT_DT_NAMED || (checked_product(tensor->shape, tensor->ndim, &elements) &&
                                              dtype_bytes((ckpt_dtype)tensor->dtype, elements, out));
}

static ckpt_status set_storage_bytes(const struct kit *kit, const struct kit_tensor *tensor,
                                     struct storage *storage)
{
    uint64_t need = 0;
    bool view = tensor->t.stride || tensor->t.storage_offset || tensor->key.len,
         fits = count_bytes(&tensor->t, &need);
    uint64_t n = tensor->nbytes == KIT_AS_NEEDED ? need : tensor->nbytes;
    if (fits && !view && n != need)
        return fail(kit->err, CKPT_EFORMAT, source_pos(tensor->src, tensor->src_offset),
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", n, need);
    if (!range_within(tensor->src_offset, n, tensor->src->size))
        return fail(kit->err, CKPT_ETRUNCATED,
                    source_pos(tensor->src, tensor->src_offset < tensor->src->size ? tensor->src_offset
                                                                                   : tensor->src->size),
                    "needs {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", n,
                    tensor->src_offset < tensor->src->size ? tensor->src->size - tensor->src_offset : 0);
    storage->src = source_ref(tensor->src);
    storage->off = tensor->src_offset;
    storage->nbytes = n;
    return CKPT_OK;
}

static ckpt_status set_storage_pieces(const struct kit *kit, const struct kit_tensor *tensor,
                                      struct storage *storage)
{
    const struct dtype_info *d = dtype_info((ckpt_dtype)tensor->t.dtype);
    struct pieces p = {.shape = tensor->t.shape,
                       .ndim = tensor->t.ndim,
                       .width = tensor->t.dtype == CKPT_DT_NAMED || tensor->convert ? tensor->width
                                                                                    : d->block_bytes,
                       .piece = tensor->pieces,
                       .n = tensor->npieces,
                       .may_overlap = tensor->may_overlap,
                       .fill = tensor->fill};
    if (d->block_elems != 1)
        return fail(kit->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s in pieces cannot be read", d->name);
    if (!count_bytes(&tensor->t, &storage->nbytes))
        return fail(kit->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its dtype and shape take {2^64 bytes or more}; {=fewer} are allowed");
    CKPT_TRY(pieces_source(kit->f->a, &p, &storage->src, &storage->off, kit->err));
    if (tensor->convert) {
        source *stored = storage->src;
        storage->src = tensor->convert(stored, storage->off, storage->nbytes, tensor->how_to_convert);
        storage->off = 0;
        source_unref(stored);
    }
    return storage->src ? CKPT_OK : fail_memory(kit->err);
}

/* add_storage - adds the storage of TENSOR; in salvage, a faulty one is added as lost. */
static ckpt_status add_storage(const struct kit *kit, const struct kit_tensor *tensor, uint32_t *index)
{
    ckpt_file *f = kit->f;
    const struct dtype_info *d = dtype_info((ckpt_dtype)tensor->t.dtype);
    struct storage s = {.dtype = (uint8_t)tensor->t.dtype,
                        .has_crc = tensor->crc != NULL,
                        .crc = tensor->crc ? *tensor->crc : 0,
                        .is_crc32c = tensor->is_crc32c,
                        .extra = tensor->src_file,
                        .pieces_have_crcs = tensor->checks_itself,
                        .checks_itself = tensor->checks_itself};
    s.key = tensor->key.len ? tensor->key
                            : tensor->name; /* for messages: without a key of its own, no key finds it */
    uint8_t unit = tensor->t.dtype == CKPT_DT_NAMED ? tensor->swap_bytes : d->swap_bytes;
    s.swap_width = tensor->big_endian && unit > 1 ? unit : 0;
    ckpt_error why;
    if (!table_set_location(&f->table, &s, tensor->t.location))
        return fail_memory(kit->err);
    ckpt_status st = tensor->lost     ? table_set_lost(&f->table, &s, tensor->lost, kit->err)
                     : tensor->pieces ? set_storage_pieces(kit, tensor, &s)
                                      : set_storage_bytes(kit, tensor, &s);
    if (!tensor->lost && st != CKPT_OK && f->salvage && check_is_fault(st)) {
        why = *kit->err;
        st = table_set_lost(&f->table, &s, &why, kit->err);
    }
    CKPT_TRY(st);
    return tensor->key.len ? file_storage_add(f, &s, index, kit->err)
                           : table_add_storage(&f->table, &s, index, kit->err);
}

/* find_storage - sets *INDEX to the storage of TENSOR: the one with its key, or a new one. CKPT_NO_STORAGE:
 * TENSOR has no storage, or its fault was reported. */
static ckpt_status find_storage(const struct kit *kit, const struct kit_tensor *tensor, uint32_t *index)
{
    *index = CKPT_NO_STORAGE;
    if (!tensor->src && !tensor->pieces && !tensor->lost)
        return CKPT_OK;
    if (tensor->key.len)
        CKPT_TRY(file_storage_find(kit->f, tensor->key, index, kit->err));
    if (*index != CKPT_NO_STORAGE)
        return CKPT_OK;
    ckpt_status st = add_storage(kit, tensor, index);
    if (st == CKPT_OK)
        return CKPT_OK;
    error_add_where(kit->err, "%.*s", STR_ARG(tensor->name.len ? tensor->name : STR_LIT("tensor")));
    if (tensor->src_file)
        error_add_file(kit->err, tensor->src_file->file.ptr);
    return file_report_fault(kit->f, st, kit->err);
}

/* ----------------------------------------------------------------------------- rows */

/* register_name - adds NAME to the keys of KIT. If KIT has it already, sets *NEW to false and reports the
 * duplicate. */
static ckpt_status register_name(struct kit *kit, ckpt_str name, uint64_t entry, bool *new)
{
    uint32_t before;
    *new = true;
    if (kit->mapping->type != CKPT_V_DICT)
        return CKPT_OK;
    if (!map_put(kit->names, name, 0, &before))
        return fail_memory(kit->err);
    *new = before == MAP_NONE;
    if (*new)
        return CKPT_OK;
    (void)fail(kit->err, CKPT_EFORMAT, entry, "the name \"%.*s\" comes {twice}, {=once} is allowed",
               STR_ARG(name));
    return file_report_fault_as(kit->f, CHECK_DUPLICATE, CKPT_EFORMAT, kit->err);
}

static ckpt_status add_to_mapping(struct kit *kit, ckpt_str name, ckpt_value *value)
{
    if (kit->mapping->type == CKPT_V_TENSOR)
        return CKPT_OK;
    if (kit->mapping->type == CKPT_V_LIST)
        return value_append(kit->f->a, kit->mapping, value) ? CKPT_OK : fail_memory(kit->err);
    ckpt_value *key = value_str(kit->f->a, name);
    return key && value_put(kit->f->a, kit->mapping, key, value) ? CKPT_OK : fail_memory(kit->err);
}

#define LIST_DEPTH 32u /* a list nested deeper is one leaf; HDF5 has no more dimensions */

/* A walk over nested lists: the lists from the outermost on, and the current item of each. */
struct list_walk {
    const ckpt_value *list[LIST_DEPTH];
    uint32_t item[LIST_DEPTH];
    uint32_t depth;
};

/* add_leaf - adds the leaf VALUE; its path is the COUNT elements of PATH, then the current items of WALK. */
static ckpt_status add_leaf(struct kit *kit, const ckpt_path_elem *path, uint32_t count,
                            const struct list_walk *walk, const ckpt_value *value)
{
    ckpt_path_elem *own = arena_array(kit->f->a, (uint64_t)count + walk->depth, sizeof *own);
    if (!own)
        return fail_memory(kit->err);
    memcpy(own, path, count * sizeof *own);
    for (uint32_t i = 0; i < walk->depth; i++)
        own[count + i] = (ckpt_path_elem){.is_int = true, .num = walk->item[i]};
    return file_add_leaf(kit->f, own, count + walk->depth, value, kit->err);
}

/* add_leaves - adds VALUE at PATH as one leaf, or if VALUE is a list with items, each item as one, as in a
 * pickle. */
static ckpt_status add_leaves(struct kit *kit, const ckpt_path_elem *path, uint32_t count,
                              const ckpt_value *value)
{
    struct list_walk w = {.depth = 0};
    for (;;) {
        for (; w.depth < LIST_DEPTH && value->type == CKPT_V_LIST && value_count(value);
             value = value_item(value, 0)) {
            w.list[w.depth] = value;
            w.item[w.depth++] = 0;
        }
        CKPT_TRY(add_leaf(kit, path, count, &w, value));
        while (w.depth && ++w.item[w.depth - 1] == value_count(w.list[w.depth - 1]))
            w.depth--;
        if (!w.depth)
            return CKPT_OK;
        value = value_item(w.list[w.depth - 1], w.item[w.depth - 1]);
    }
}

ckpt_status kit_add_value(struct kit *kit, ckpt_str key, ckpt_value *value)
{
    bool new;
    CKPT_TRY(value ? register_name(kit, key, value_offset(value), &new) : fail_memory(kit->err));
    if (!new)
        return CKPT_OK;
    kit->path[kit->npath] = (ckpt_path_elem){.str = key};
    CKPT_TRY(add_to_mapping(kit, key, value));
    return add_leaves(kit, kit->path, kit->npath + 1, value);
}

ckpt_status kit_add_other_value(struct kit *kit, ckpt_str key, ckpt_value *value)
{
    if (map_get(kit->names, key) == MAP_NONE)
        return kit_add_value(kit, key, value);
    file_notice(kit->f, "\"%.*s\" is a tensor, too: the model's %.*s is left out", STR_ARG(key),
                STR_ARG(key));
    return CKPT_OK;
}

/* make_row - sets *ROW, except for its storage, to the row of TENSOR, whose node is VALUE. */
static ckpt_status make_row(struct kit *kit, const struct kit_tensor *tensor, ckpt_value *value,
                            struct row *row)
{
    uint64_t n;
    set_entry(kit, tensor->name);
    *row = (struct row){.t = tensor->t, .steps = kit->only_tensors ? NULL : kit->steps};
    row->t.path = kit->path;
    row->t.npath = kit->mapping->type == CKPT_V_TENSOR ? 0 : kit->npath + 1;
    row->t.value = value;
    row->t.part_of = CKPT_NO_TENSOR;
    row->t.has_shape = !tensor->has_no_shape;
    if (!tensor->t.stride && tensor->column_major && tensor->t.ndim > 1 && count_bytes(&tensor->t, &n) && n &&
        !(row->t.stride = kit_strides(kit->f->a, tensor->t.shape, tensor->t.ndim, true)))
        return fail_memory(kit->err);
    return CKPT_OK;
}

/* new_node - returns a node for the tensor described at OFFSET. NULL: no memory. */
static ckpt_value *new_node(struct kit *kit, uint64_t offset)
{
    if (kit->mapping->type == CKPT_V_TENSOR)
        return kit->mapping;
    if (!kit->nodes)
        return value_new(kit->f->a, CKPT_V_TENSOR, offset);
    value_init(kit->nodes, CKPT_V_TENSOR, offset);
    return kit->nodes++;
}

ckpt_status kit_add_tensor(struct kit *kit, const struct kit_tensor *tensor)
{
    struct row row;
    bool new = true;
    if (!kit->only_tensors)
        CKPT_TRY(register_name(kit, tensor->name, tensor->described_at, &new));
    if (!new)
        return CKPT_OK;
    ckpt_value *v = new_node(kit, tensor->described_at);
    CKPT_TRY(v ? make_row(kit, tensor, v, &row) : fail_memory(kit->err));
    CKPT_TRY(find_storage(kit, tensor, &row.t.storage));
    row.t.has_data = row.t.storage != CKPT_NO_STORAGE && kit->f->table.storages[row.t.storage].src;
    CKPT_TRY(file_add_row(kit->f, &row, &v->u.listed.row, kit->err));
    return kit->only_tensors ? CKPT_OK : add_to_mapping(kit, tensor->name, v);
}

ckpt_status kit_add_faulty(struct kit *kit, struct kit_tensor *tensor, ckpt_status st)
{
    ckpt_error why;
    if (!tensor->name.ptr)
        tensor->name = arena_printf(kit->f->a, "tensor at byte 0x%" PRIx64, tensor->described_at);
    if (!tensor->name.ptr)
        return fail_memory(kit->err);
    bool is_of_other_file = kit->err && kit->err->file[0]; /* DESCRIBED_AT is no offset in it */
    error_add_position(kit->err, is_of_other_file ? CKPT_NO_OFFSET : tensor->described_at, tensor->name);
    if (kit->f->salvage && check_is_fault(st)) {
        why = *kit->err;
        why.where[0] = 0; /* the row has that name already */
        tensor->lost = &why;
        st = kit_add_tensor(kit, tensor);
    }
    return file_report_fault(kit->f, st, kit->err);
}
