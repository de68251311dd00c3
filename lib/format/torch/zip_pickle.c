/*
 * zip_pickle.c - writes the data.pkl of an archive.
 *
 * The graph is written unchanged, except for the edits of the plan and for:
 *   modules               are replaced by their state dicts
 *   storages              get new numbers and little-endian bytes. If torch has no storage class for their
 *                         dtype, they become UntypedStorage, and their tensors calls of _rebuild_tensor_v3
 *   legacy storage views  become storage offsets
 *   _load_from_bytes      storages inside bytes objects become records
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "codec/pickle_write.h"
#include "core/dequantize.h"
#include "core/view.h"
#include "format/registry.h"
#include "format/torch/zip.h"

/* -------------------------------------------------- from nodes to storages */

static ckpt_status map_node_storage(struct torch_writer *writer, const ckpt_value *node,
                                    struct storage *storage, bool in_cast_call, ckpt_error *err)
{
    const struct torch_node_storage of = {storage, in_cast_call};
    bool ok = map_set_num(writer->storage_of, ptr_key(node), (uint32_t)writer->nnode_storages) &&
              ARENA_PUSH(writer->p->a, writer, node_storages, &of);
    return ok ? CKPT_OK : fail_memory(err);
}

/* is_found_by_key - returns true if the key in node VALUE alone identifies its storage in F. If F has shards,
 * it does not, because the same key names a different storage in each shard. */
static bool is_found_by_key(const ckpt_file *f, const ckpt_value *value)
{
    ckpt_str key;
    const ckpt_value *pid = value->type == CKPT_V_PERSID ? value->u.pid : NULL;
    return !f->nparts && pid && pid->type == CKPT_V_TUPLE && value_text(value_item(pid, 2), &key);
}

/* parse_pid - parses VALUE, a persistent id, to writer->pid. Each one is needed several times in
 * succession. */
static bool parse_pid(struct torch_writer *writer, const ckpt_value *value)
{
    if (writer->pid_node != value)
        writer->pid_is_valid = torch_pid_parse(value, &writer->pid);
    writer->pid_node = value;
    return writer->pid_is_valid;
}

static struct storage *find_storage_by_key(struct torch_writer *writer, ckpt_file *f, const ckpt_value *value)
{
    ckpt_error ignored;
    uint32_t at = CKPT_NO_STORAGE;
    if (parse_pid(writer, value) && file_storage_find(f, writer->pid.key, &at, &ignored) != CKPT_OK)
        writer->out_of_memory = true;
    return at == CKPT_NO_STORAGE ? NULL : &f->table.storages[at];
}

static struct storage *find_node_storage(struct torch_writer *writer, const ckpt_value *node)
{
    uint32_t i = map_get_num(writer->storage_of, ptr_key(node));
    if (i != MAP_NONE)
        return writer->node_storages[i].storage;
    return is_found_by_key(writer->p->file, node) ? find_storage_by_key(writer, writer->p->file, node) : NULL;
}

/* make_cast_storage_id - returns a persistent id of STORAGE for a call that make_cast_call makes, at
 * PICKLE_OFFSET; NULL: no memory. */
static ckpt_value *make_cast_storage_id(struct torch_writer *writer, struct storage *storage,
                                        uint64_t pickle_offset)
{
    ckpt_error ignored;
    ckpt_value *v = value_new(writer->p->a, CKPT_V_PERSID, pickle_offset);
    return v && map_node_storage(writer, v, storage, true, &ignored) == CKPT_OK ? v : NULL;
}

static bool is_in_cast_call(const struct torch_writer *writer, const ckpt_value *node)
{
    uint32_t i = map_get_num(writer->storage_of, ptr_key(node));
    return i != MAP_NONE && writer->node_storages[i].in_cast_call;
}

/* map_pickle_storages - maps the nodes of one pickle of F, which may be a part of the plan's file, to their
 * storages, except those whose storage find_node_storage finds by its key in the plan's file. */
static ckpt_status map_pickle_storages(struct torch_writer *writer, ckpt_file *f,
                                       const struct pickle_facts *facts, ckpt_error *err)
{
    for (size_t i = 0; i < facts->npersids; i++) {
        const ckpt_value *v = facts->persids[i];
        struct storage *s = is_found_by_key(writer->p->file, v) ? NULL : find_storage_by_key(writer, f, v);
        if (s)
            CKPT_TRY(map_node_storage(writer, v, s, false, err));
    }
    for (size_t i = 0; i < facts->ncalls; i++) {
        uint32_t s = file_storage_held_by(f, facts->calls[i]);
        if (s != CKPT_NO_STORAGE && graph_is_storage(facts->calls[i]))
            CKPT_TRY(map_node_storage(writer, facts->calls[i], &f->table.storages[s], false, err));
    }
    return CKPT_OK;
}

/* add_opaque_storages - calls F's function of that name, once even if F is written to many files. */
static ckpt_status add_opaque_storages(ckpt_file *f, ckpt_error *err)
{
    ckpt_status st = f->add_opaque_storages ? f->add_opaque_storages(f, err) : CKPT_OK;
    if (st == CKPT_OK)
        f->add_opaque_storages = NULL;
    return st;
}

static ckpt_status map_all_storages(struct torch_writer *writer, ckpt_file *f, ckpt_error *err)
{
    CKPT_TRY(add_opaque_storages(f, err));
    for (size_t k = 0; k < f->nparts; k++)
        CKPT_TRY(add_opaque_storages(f->parts[k], err));
    for (size_t i = 0; i < f->npickles; i++)
        CKPT_TRY(map_pickle_storages(writer, f, f->pickles[i], err));
    for (size_t k = 0; k < f->nparts; k++)
        for (size_t i = 0; i < f->parts[k]->npickles; i++)
            CKPT_TRY(map_pickle_storages(writer, f->parts[k], f->parts[k]->pickles[i], err));
    return CKPT_OK;
}

/* assign_storage_number - sets *OUT to the number of STORAGE in the archive. STORAGE gets one when it is
 * first used. */
static ckpt_status assign_storage_number(struct torch_writer *writer, struct storage *storage, uint32_t *out,
                                         ckpt_error *err)
{
    *out = storage->output_number ? storage->output_number - 1
                                  : (uint32_t)writer->nstorages; /* output_number 0: none yet */
    if (storage->output_number)
        return CKPT_OK;
    CKPT_TRY_ALLOC(ARENA_PUSH(writer->p->a, writer, storages, &storage), err);
    storage->output_number = (uint32_t)writer->nstorages;
    return checked_add(writer->storage_bytes, storage->nbytes, &writer->storage_bytes)
               ? CKPT_OK
               : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "all storages together have more than 2^64 bytes");
}

/* ------------------------------------------------------------ what is left out */

static uint32_t count_entries(const ckpt_value *value)
{
    if (value->type != CKPT_V_CALL)
        return value_count(value);
    const struct value_extra *m = value_extra_of(value);
    return m->npairs > m->nitems ? m->npairs : m->nitems;
}

static struct torch_mask *get_mask(struct torch_writer *writer, const ckpt_value *node)
{
    uint32_t i = map_get_num(writer->mask_of, ptr_key(node));
    if (i != MAP_NONE)
        return &writer->masks[i];
    uint32_t n = count_entries(node);
    const struct torch_mask mask = {arena_array(writer->p->a, n, sizeof *mask.left_out), n};
    bool ok = mask.left_out && map_set_num(writer->mask_of, ptr_key(node), (uint32_t)writer->nmasks) &&
              ARENA_PUSH(writer->p->a, writer, masks, &mask);
    return ok ? &writer->masks[writer->nmasks - 1] : NULL;
}

/* get_last_step - returns the step that leads to ROW; NULL: ROW is the root or a component. */
static const struct step *get_last_step(const struct row *row)
{
    const struct step *s = row->steps && row->t.npath ? &row->steps[row->t.npath - 1] : NULL;
    return s && s->node && row->t.part_of == CKPT_NO_TENSOR ? s : NULL;
}

/* is_replaced_by_none - returns true if ROW is lost and None is written in its place, because it is an item,
 * not the value of a key. */
static bool is_replaced_by_none(const ckpt_file *f, const struct row *row)
{
    uint32_t pairs = 0;
    const struct step *s = get_last_step(row);
    if (s)
        (void)value_pairs(s->node, &pairs);
    return f->losses.of_row && !pairs && row->t.value &&
           file_replacement_of(f, row->t.value)->type == CKPT_V_NONE;
}

/* mask_dropped_entries - masks the entries that lead to rows that are not kept. A second pass unmasks those
 * that also lead to a row that is kept, and counts them. */
static ckpt_status mask_dropped_entries(struct torch_writer *writer, ckpt_error *err)
{
    ckpt_plan *p = writer->p;
    size_t nshared = 0;
    CKPT_TRY(plan_update_entries(p, err));
    for (int second_pass = 0; second_pass < 2; second_pass++)
        for (size_t i = 0; i < (second_pass ? p->nentries : p->file->table.nrows); i++) {
            const struct row row = table_row(&p->file->table, second_pass ? p->entries[i].row : i);
            const struct step *s = get_last_step(&row);
            if (!s || (!second_pass && p->keep[i]) || is_replaced_by_none(p->file, &row) ||
                (second_pass && map_get_num(writer->mask_of, ptr_key(s->node)) == MAP_NONE))
                continue;
            struct torch_mask *mask = get_mask(writer, s->node);
            CKPT_TRY_ALLOC(mask, err);
            nshared += second_pass && s->index < mask->nentries && mask->left_out[s->index];
            if (s->index < mask->nentries)
                mask->left_out[s->index] = !second_pass;
        }
    plan_note_shared(p, nshared);
    return CKPT_OK;
}

/* keep_entry - returns false if entry INDEX of VALUE is masked or the plan drops it. Else applies the
 * edits of the plan to its key *TEXT. The hook `keep_entry`. */
static bool keep_entry(void *user, const ckpt_value *value, uint32_t index, ckpt_str *text)
{
    const struct torch_writer *w = user;
    uint32_t mask = w->nmasks ? map_get_num(w->mask_of, ptr_key(value)) : MAP_NONE;
    bool left_out = mask != MAP_NONE && index < w->masks[mask].nentries && w->masks[mask].left_out[index];
    return !left_out && plan_edit_entry(w->p, value, index, text);
}

/* ---------------------------------------------------------- storages written */

/* put_storage - writes the persistent id of STORAGE with elements of DTYPE. MODULE and KLASS name its class;
 * empty: the class of DTYPE. */
static ckpt_status put_storage(struct torch_writer *writer, pickle_writer *pw, struct storage *storage,
                               ckpt_dtype dtype, ckpt_str module, ckpt_str klass, ckpt_error *err)
{
    char key[STR_NUMBER_MAX];
    uint32_t n;
    const struct dtype_info *d = dtype_info(dtype);
    /* for packed quantized elements, numel is a number of bytes */
    uint64_t item_size = d->block_elems == 1 && d->block_bytes ? d->block_bytes : 1;
    CKPT_TRY(assign_storage_number(writer, storage, &n, err));
    uint64_t nbytes = torch_zip_storage_size(writer, storage);
    bool untyped = str_is(klass, "UntypedStorage") || str_is(klass, "_UntypedStorage") ||
                   !d->python_has_storage || nbytes % item_size != 0;
    pickle_put_op(pw, PICKLE_MARK);
    pickle_put_text(pw, STR_LIT("storage"));
    if (untyped)
        pickle_put_global(pw, STR_LIT("torch.storage"), STR_LIT("UntypedStorage"));
    else
        pickle_put_global(pw, module.len ? module : STR_LIT("torch"), klass.len ? klass : str_c(d->storage));
    pickle_put_text(pw, format_number(n, key));
    pickle_put_text(pw, storage_location(storage).len ? storage_location(storage) : STR_LIT("cpu"));
    pickle_put_uint(pw, untyped ? nbytes : nbytes / item_size);
    pickle_put_op(pw, PICKLE_TUPLE);
    pickle_put_op(pw, PICKLE_BINPERSID);
    return CKPT_OK;
}

static void put_ordered_dict(pickle_writer *pw)
{
    pickle_put_global(pw, STR_LIT("collections"), STR_LIT("OrderedDict"));
    pickle_put_op(pw, PICKLE_EMPTY_TUPLE);
    pickle_put_op(pw, PICKLE_REDUCE);
}

static ckpt_status put_shape(pickle_writer *pw, const ckpt_tensor *tensor, ckpt_error *err)
{
    uint64_t *stride = calloc((size_t)tensor->ndim + 1, sizeof *stride), product = 1;
    CKPT_TRY_ALLOC(stride, err);
    for (uint32_t k = tensor->ndim; COUNT_DOWN(k);) {
        stride[k] = tensor->stride ? tensor->stride[k] : product;
        if (tensor->shape[k] && !checked_mul(product, tensor->shape[k], &product))
            product = 0; /* then a size is 0, and no stride matters */
    }
    pickle_put_op(pw, PICKLE_MARK);
    for (uint32_t k = 0; k < tensor->ndim; k++)
        pickle_put_uint(pw, tensor->shape[k]);
    pickle_put_op(pw, PICKLE_TUPLE);
    pickle_put_op(pw, PICKLE_MARK);
    for (uint32_t k = 0; k < tensor->ndim; k++)
        pickle_put_uint(pw, stride[k]);
    pickle_put_op(pw, PICKLE_TUPLE);
    free(stride);
    return CKPT_OK;
}

/* put_view_bits - writes the metadata argument {'conj': True, 'neg': True} if TENSOR has one of these
 * bits. */
static void put_view_bits(pickle_writer *pw, const ckpt_tensor *tensor)
{
    if (!tensor->conj && !tensor->neg)
        return;
    pickle_put_op(pw, PICKLE_EMPTY_DICT);
    pickle_put_op(pw, PICKLE_MARK);
    if (tensor->conj) {
        pickle_put_text(pw, STR_LIT("conj"));
        pickle_put_bool(pw, true);
    }
    if (tensor->neg) {
        pickle_put_text(pw, STR_LIT("neg"));
        pickle_put_bool(pw, true);
    }
    pickle_put_op(pw, PICKLE_SETITEMS);
}

static ckpt_status refuse_cast_storage_use(const struct torch_writer *writer, const struct storage *storage,
                                           ckpt_error *err)
{
    const struct torch_cast *c = torch_find_cast(writer, storage);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" cannot become %s: something else than a dense tensor of %s uses its bytes, too",
               STR_ARG(c->first_entry->name), ckpt_dtype_name(c->to), ckpt_dtype_name(c->from));
    char word[SHELL_WORD_MAX];
    error_add_hint(err, "--cast %s=%s leaves it as it is; a .safetensors output can hold the cast tensor",
                   shell_glob(c->first_entry->name, word), ckpt_dtype_name(c->from));
    return CKPT_ELOSSY;
}

/* put_tensor - writes TENSOR as a call of _rebuild_tensor_v2, or of _v3 if its dtype has no storage class. */
static ckpt_status put_tensor(struct torch_writer *writer, pickle_writer *pw, const ckpt_tensor *tensor,
                              ckpt_error *err)
{
    struct storage *s = &writer->p->file->table.storages[tensor->storage];
    const struct torch_cast *cast = torch_find_cast(writer, s);
    ckpt_dtype dtype = cast ? cast->to : (ckpt_dtype)tensor->dtype;
    const struct dtype_info *d = dtype_info(dtype);
    if (cast && cast->from != tensor->dtype)
        return refuse_cast_storage_use(writer, s, err);
    bool has_partial_element = !cast && s->nbytes % d->block_bytes != 0;
    bool v3 = !dtype_info(dtype)->python_has_storage || has_partial_element;
    if (tensor->parameter) {
        pickle_put_global(pw, STR_LIT("torch._utils"), STR_LIT("_rebuild_parameter"));
        pickle_put_op(pw, PICKLE_MARK);
    }
    pickle_put_global(pw, STR_LIT("torch._utils"),
                      v3 ? STR_LIT("_rebuild_tensor_v3") : STR_LIT("_rebuild_tensor_v2"));
    pickle_put_op(pw, PICKLE_MARK);
    CKPT_TRY(put_storage(writer, pw, s, dtype, str_of("", 0), v3 ? STR_LIT("UntypedStorage") : str_of("", 0),
                         err));
    pickle_put_uint(pw, tensor->storage_offset);
    CKPT_TRY(put_shape(pw, tensor, err));
    pickle_put_bool(pw,
                    tensor->requires_grad && !tensor->parameter && !(cast && v3)); /* see make_cast_call */
    put_ordered_dict(pw);
    if (v3)
        pickle_put_global(pw, STR_LIT("torch"), str_c(d->name));
    put_view_bits(pw, tensor);
    pickle_put_op(pw, PICKLE_TUPLE);
    pickle_put_op(pw, PICKLE_REDUCE);
    if (tensor->parameter) {
        pickle_put_bool(pw, tensor->requires_grad);
        put_ordered_dict(pw);
        pickle_put_op(pw, PICKLE_TUPLE);
        pickle_put_op(pw, PICKLE_REDUCE);
    }
    return CKPT_OK;
}

/* sizes_fit_int64 - returns true if sizes and strides of TENSOR fit torch's int64_t. In a safetensors header,
 * a size may be larger if another size is 0. */
static bool sizes_fit_int64(const ckpt_tensor *tensor)
{
    for (uint32_t k = 0; k < tensor->ndim; k++)
        if (tensor->shape[k] > INT64_MAX || (tensor->stride && tensor->stride[k] > INT64_MAX))
            return false;
    return true;
}

static ckpt_dtype get_written_dtype(const struct torch_writer *writer, const ckpt_tensor *tensor)
{
    const struct torch_cast *c = torch_find_cast(writer, &writer->p->file->table.storages[tensor->storage]);
    return c ? c->to : (ckpt_dtype)tensor->dtype;
}

static ckpt_status put_row(struct torch_writer *writer, pickle_writer *pw, uint32_t row, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&writer->p->file->table, row);
    const char *unfit_reason = NULL;
    if (t.kind != CKPT_DENSE && t.kind != CKPT_STORAGE && t.kind != CKPT_NDARRAY)
        unfit_reason = "is not a dense tensor";
    else if (!t.has_data || !t.has_shape)
        unfit_reason = "has no bytes";
    else if (t.dtype != CKPT_DT_NONE && !dtype_info(get_written_dtype(writer, &t))->torch_has)
        unfit_reason = "has a type that torch lacks";
    else if (!sizes_fit_int64(&t))
        unfit_reason = "has a size or stride beyond 2^63";
    if (!unfit_reason && t.kind == CKPT_STORAGE) {
        struct storage *s = &writer->p->file->table.storages[t.storage];
        if (torch_find_cast(writer, s))
            return refuse_cast_storage_use(writer, s, err);
        return put_storage(writer, pw, s, (ckpt_dtype)t.dtype, str_of("", 0), str_of("", 0), err);
    }
    if (!unfit_reason)
        return put_tensor(writer, pw, &t, err);
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "tensor \"%.*s\" (%s, %s) %s; a torch file cannot hold it",
               STR_ARG(t.name), ckpt_kind_name((ckpt_kind)t.kind), ckpt_tensor_dtype_name(&t), unfit_reason);
    if (dequantize_supports((ckpt_dtype)t.dtype))
        error_add_hint(err, "--cast '*=bfloat16' makes it a type that torch has");
    else
        format_hint_leave_out(writer->p->file, &t, t.name, "", err);
    return CKPT_ELOSSY;
}

/* put_class_of_legacy_id - if PID is a legacy id ('module', class, file, source), writes the class, the only
 * item that torch uses. */
static bool put_class_of_legacy_id(pickle_writer *pw, const ckpt_value *pid)
{
    const ckpt_value *class = value_source_class(pid);
    if (class)
        pickle_put_name(pw, class);
    return class != NULL;
}

static ckpt_status put_persistent_id(struct torch_writer *writer, pickle_writer *pw, const ckpt_value *value,
                                     struct storage *storage, ckpt_error *err)
{
    struct torch_pid pid = {.dtype = (ckpt_dtype)storage->dtype};
    if (storage_loss(storage))
        return fail(err, CKPT_ELOSSY, storage->extra->lost_at,
                    "storage \"%.*s\" is lost, and an object that is not a tensor needs it\n"
                    "--root PATH writes a part of the file without that object",
                    STR_ARG(storage->key));
    if (!storage->src)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "an object that is not a tensor needs storage \"%.*s\", which is on the meta device",
                    STR_ARG(storage->key));
    if (is_in_cast_call(writer, value))
        return put_storage(writer, pw, storage, torch_find_cast(writer, storage)->to, str_of("", 0),
                           str_of("", 0), err);
    if (torch_find_cast(writer, storage))
        return refuse_cast_storage_use(writer, storage, err);
    if (value->u.pid) {
        (void)parse_pid(writer, value);
        pid = writer->pid;
    }
    return put_storage(writer, pw, storage, pid.dtype, value_module(value_item(value->u.pid, 1)), pid.klass,
                       err);
}

/* write_leaf - writes VALUE: a storage, a tensor that no call makes, or a class with its source. A hook. */
static ckpt_status write_leaf(void *user, pickle_writer *pw, const ckpt_value *value, ckpt_error *err)
{
    struct torch_writer *w = user;
    struct storage *s = value->type == CKPT_V_PERSID ? find_node_storage(w, value) : NULL;
    if (s)
        return put_persistent_id(w, pw, value, s, err);
    const struct table *table = &w->p->file->table;
    if (value_row(value) < table->nrows &&
        (value->flags & VALUE_ROW || table_value_of(table, value_row(value)) == value))
        return put_row(w, pw, value_row(value), err);
    if (value->type == CKPT_V_PERSID && put_class_of_legacy_id(pw, value->u.pid))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, value_offset(value),
                "a persistent id that names no storage of the file cannot be written");
}

/* ------------------------------------------------------------ rewriting calls */

/* A call of a function such as _rebuild_tensor_v2, the first argument of which is a storage. See rebuild.c.
 *   v2: storage, offset, size, stride, requires_grad, hooks[, metadata]
 *   v3: storage, offset, size, stride, requires_grad, hooks, dtype[, metadata] */
struct rebuild_call {
    const char *new_name; /* of the function; NULL: it keeps its name */
    ckpt_value *args[9];
    uint32_t nargs;
};

static ckpt_value *make_dtype_name(struct torch_writer *writer, ckpt_dtype dt)
{
    return value_global(writer->p->a, STR_LIT("torch"), str_c(dtype_info(dt)->name), 0);
}

/* make_meta_call - turns CALL, whose storage has no bytes, into a call that makes a meta tensor. */
static void make_meta_call(struct torch_writer *writer, struct rebuild_call *call, ckpt_dtype dtype)
{
    ckpt_value *grad = call->nargs > 4 ? call->args[4] : value_bool(writer->p->a, false);
    *call = (struct rebuild_call){"_rebuild_meta_tensor_no_storage",
                                  {make_dtype_name(writer, dtype), call->args[2], call->args[3], grad},
                                  4};
}

static void make_v3_call(struct torch_writer *writer, struct rebuild_call *call, ckpt_dtype dtype)
{
    ckpt_value *metadata = call->nargs > 6 ? call->args[6] : NULL;
    call->args[4] = call->nargs > 4 ? call->args[4] : value_bool(writer->p->a, false);
    call->args[5] = call->nargs > 5 ? call->args[5] : value_ordered_dict(writer->p->a);
    call->args[6] = make_dtype_name(writer, dtype);
    call->args[7] = metadata;
    call->nargs = metadata ? 8 : 7;
    call->new_name = "_rebuild_tensor_v3";
}

/* add_view_offset - adds OFFSET, of a legacy view, to the storage offset in CALL; false: CALL stays
 * unchanged. */
static bool add_view_offset(struct torch_writer *writer, struct rebuild_call *call, uint64_t offset)
{
    int64_t off;
    if (!value_integer(call->args[1], &off) || off < 0)
        return false;
    uint64_t sum = (uint64_t)off + offset;
    if (sum > INT64_MAX)
        return false;
    call->args[1] = value_int(writer->p->a, (int64_t)sum); /* NULL: rewrite_args fails */
    return true;
}

/* make_cast_call - turns CALL, a call of _rebuild_tensor_v2 or (if V3) _v3 for the storage of NODE, into a
 * call for the cast of this storage. If the new call is one of _v3, clears requires_grad, with which _v3
 * fails (torch 2.15). A parameter keeps it, because it is in the call of _rebuild_parameter. */
static void make_cast_call(struct torch_writer *writer, struct rebuild_call *call, const ckpt_value *node,
                           bool v3)
{
    struct storage *s = find_node_storage(writer, node);
    ckpt_dtype to = torch_find_cast(writer, s)->to;
    call->args[0] = make_cast_storage_id(writer, s, value_offset(node));
    if (!dtype_info(to)->python_has_storage && call->nargs > 4)
        call->args[4] = value_bool(writer->p->a, false);
    if (v3 && dtype_info(to)->python_has_storage) {
        call->args[6] = call->args[7];
        call->nargs = call->nargs > 7 ? 7 : 6;
        call->new_name = "_rebuild_tensor_v2";
    } else if (v3) {
        call->args[6] = make_dtype_name(writer, to);
    } else if (!dtype_info(to)->python_has_storage) {
        make_v3_call(writer, call, to);
    }
}

/* rewrite_rebuild - rewrites CALL, a call of NAME for the storage NODE; false: CALL stays unchanged. */
static bool rewrite_rebuild(struct torch_writer *writer, ckpt_str name, const ckpt_value *node,
                            struct rebuild_call *call)
{
    struct storage *s = find_node_storage(writer, node);
    if (!s || call->nargs < 4)
        return false;
    struct torch_pid pid = {.dtype = (ckpt_dtype)s->dtype};
    const struct torch_cast *cast = torch_find_cast(writer, s);
    bool v3 = str_is(name, "_rebuild_tensor_v3");
    bool v2 = str_is(name, "_rebuild_tensor_v2") || str_is(name, "_rebuild_tensor");
    if (node->type == CKPT_V_PERSID) {
        (void)parse_pid(writer, node);
        pid = writer->pid;
    } else if (!cast) { /* NODE is a call of _load_from_bytes */
        return false;
    }
    bool changed = pid.has_view && pid.view_offset && add_view_offset(writer, call, pid.view_offset);
    ckpt_dtype dtype = v3 && call->nargs > 6 ? dtype_by_name(value_name(call->args[6])) : pid.dtype;
    if (cast && (v2 || v3) && dtype == cast->from)
        make_cast_call(writer, call, node, v3);
    else if (!s->src && (v2 || v3))
        make_meta_call(writer, call, dtype);
    else if (v2 && !dtype_info(pid.dtype)->python_has_storage)
        make_v3_call(writer, call, dtype);
    else
        return changed;
    return true;
}

static bool takes_storage(const ckpt_value *callable)
{
    ckpt_str name = value_name(callable);
    return str_is(value_module(callable), "torch._utils") &&
           (str_is(name, "_rebuild_tensor_v2") || str_is(name, "_rebuild_tensor_v3") ||
            str_is(name, "_rebuild_tensor") || str_is(name, "_rebuild_qtensor"));
}

/* rewrite_args - replaces *FUNC and *ARGS if the call FUNC(*ARGS) has to change. */
static ckpt_status rewrite_args(struct torch_writer *writer, ckpt_value **func, ckpt_value **args,
                                ckpt_error *err)
{
    struct rebuild_call r = {NULL, {NULL}, 0};
    uint32_t n = (*args)->type == CKPT_V_TUPLE ? value_count(*args) : 0;
    if (n == 0 || n > 8 || !takes_storage(*func))
        return CKPT_OK;
    for (r.nargs = 0; r.nargs < n; r.nargs++)
        r.args[r.nargs] = value_item(*args, r.nargs);
    if (!rewrite_rebuild(writer, value_name(*func), r.args[0], &r))
        return CKPT_OK;
    for (uint32_t i = 0; i < r.nargs; i++)
        CKPT_TRY_ALLOC(r.args[i], err);
    if (r.new_name)
        *func = value_global(writer->p->a, STR_LIT("torch._utils"), str_c(r.new_name), 0);
    *args = value_tuple(writer->p->a, r.nargs, r.args);
    return *func && *args ? CKPT_OK : fail_memory(err);
}

/* is_rebuild_from_type - returns true if VALUE is _rebuild_from_type_v2(func, class, args, state), or an
 * older form of it. */
static bool is_rebuild_from_type(const ckpt_value *value)
{
    return value_calls(value, "torch._tensor", "_rebuild_from_type_v2", 4) ||
           value_calls(value, "torch._tensor", "_rebuild_from_type", 4) ||
           value_calls(value, "torch.tensor", "_rebuild_from_type", 4);
}

/* rewrite_inner_call - VALUE is a call of _rebuild_from_type_v2, which calls func(*args). If that inner call
 * has to change, sets *V_ARGS to the new arguments of VALUE. */
static ckpt_status rewrite_inner_call(struct torch_writer *writer, const ckpt_value *value,
                                      ckpt_value **v_args, ckpt_error *err)
{
    ckpt_value *func = value_arg(value, 0), *inner_args = value_arg(value, 2);
    CKPT_TRY(rewrite_args(writer, &func, &inner_args, err));
    if (inner_args == value_arg(value, 2))
        return CKPT_OK;
    ckpt_value *items[4] = {func, value_arg(value, 1), inner_args, value_arg(value, 3)};
    *v_args = value_tuple(writer->p->a, 4, items);
    return *v_args ? CKPT_OK : fail_memory(err);
}

/* rewrite_call - sets *OUT to the node to write instead of the CALL VALUE, usually VALUE itself. */
static ckpt_status rewrite_call(struct torch_writer *writer, const ckpt_value *value, const ckpt_value **out,
                                ckpt_error *err)
{
    const struct value_call *c = &value->u.call;
    const struct value_extra *extra = value_extra_of(value);
    ckpt_value *func = c->callable, *args = c->args, *made = NULL;
    *out = value;
    if (find_node_storage(writer, value)) {
        made = value_new(writer->p->a, CKPT_V_PERSID, value_offset(value));
        *out = made;
        return made ? map_node_storage(writer, made, find_node_storage(writer, value), false, err)
                    : fail_memory(err);
    }
    if (is_rebuild_from_type(value))
        CKPT_TRY(rewrite_inner_call(writer, value, &args, err));
    else
        CKPT_TRY(rewrite_args(writer, &func, &args, err));
    if (args == c->args)
        return CKPT_OK;
    made = value_call(writer->p->a, value_call_kind_of(value), func, args, value_offset(value));
    for (uint32_t i = 0; made && i < extra->nstates; i++)
        if (!value_add_state(writer->p->a, made, extra->states[i]))
            made = NULL;
    CKPT_TRY_ALLOC(made, err);
    made->flags = value->flags;
    *out = made;
    return CKPT_OK;
}

static ckpt_status remember_rewritten(struct torch_writer *writer, const ckpt_value *value,
                                      const ckpt_value *replacement, ckpt_error *err)
{
    bool ok = map_set_num(writer->replacement_of, ptr_key(value), (uint32_t)writer->nreplacements) &&
              ARENA_PUSH(writer->p->a, writer, replacements, &replacement);
    return ok ? CKPT_OK : fail_memory(err);
}

/* check_argument_lists - sets writer->bad_arguments if the arguments of CALL are a persistent id that names
 * no storage: put_class_of_legacy_id would write a class in their place. */
static void check_argument_lists(struct torch_writer *writer, const ckpt_value *call)
{
    const ckpt_value *arg_lists[2] = {call->u.call.args, value_extra_of(call)->kwargs};
    for (int i = 0; i < 2; i++)
        if (arg_lists[i] && arg_lists[i]->type == CKPT_V_PERSID && !find_node_storage(writer, arg_lists[i]))
            writer->bad_arguments = arg_lists[i];
}

/* replace_node - returns the node that is written instead of VALUE; the hook `replace`. Remembers it, because
 * a shared node must be replaced by the same node each time. */
static const ckpt_value *replace_node(void *user, const ckpt_value *value)
{
    ckpt_error ignored;
    struct torch_writer *w = user;
    const ckpt_value *rewritten, *replacement = value;
    if (!(value->flags & VALUE_WRAPS))
        replacement = file_replacement_of(w->p->file, value);
    if (replacement != value && replacement->type != CKPT_V_NONE && replacement->type != CKPT_V_TENSOR)
        plan_note_module(w->p);
    uint32_t i = w->nreplacements ? map_get_num(w->replacement_of, ptr_key(replacement)) : MAP_NONE;
    if (i != MAP_NONE)
        return w->replacements[i];
    if (replacement->type != CKPT_V_CALL || w->out_of_memory)
        return replacement;
    check_argument_lists(w, replacement);
    if (rewrite_call(w, replacement, &rewritten, &ignored) != CKPT_OK ||
        (rewritten != replacement && remember_rewritten(w, replacement, rewritten, &ignored) != CKPT_OK)) {
        w->out_of_memory = true;
        return replacement;
    }
    return rewritten;
}

/* get_root - returns the node to write as the root: that of the file, if P's root is the value in it. */
static const ckpt_value *get_root(const ckpt_plan *p)
{
    const ckpt_value *root = p->file->root;
    bool wraps = root && root->flags & VALUE_WRAPS && !p->root_depth && view_content(root) == p->root;
    return wraps ? root : p->root;
}

ckpt_status torch_zip_pickle(struct torch_writer *writer, ckpt_error *err)
{
    struct pickle_hooks hooks = {
        .user = writer, .replace = replace_node, .keep_entry = keep_entry, .write_leaf = write_leaf};
    ckpt_file *f = writer->p->file;
    hooks.has_literal_names = file_needs_protocol_3(f);
    CKPT_TRY(map_all_storages(writer, f, err));
    CKPT_TRY(torch_zip_plan_casts(writer, err));
    CKPT_TRY(mask_dropped_entries(writer, err));
    ckpt_status st = pickle_write(get_root(writer->p), &hooks, &writer->pickle, err);
    for (size_t i = 0; i < writer->nstorages; i++)
        writer->storages[i]->output_number = 0;
    if (writer->out_of_memory)
        return fail_memory(err);
    if (st == CKPT_OK && writer->bad_arguments)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, /* the id may be in any pickle, so no offset */
                    "a persistent id in the place of the arguments of a call cannot be written");
    return st;
}
