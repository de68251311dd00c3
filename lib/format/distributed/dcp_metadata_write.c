/* dcp_metadata_write.c - writes the pickle in .metadata; dcp_metadata.c describes its classes.
 *
 * TensorProperties has the five items that torch reads since 2.0. The fields storage_meta, version and
 * transform_descriptors are not written: the classes have defaults for them. */
#include "format/distributed/dcp_write.h"

#include <inttypes.h>
#include <stdio.h>

#include "codec/pickle_write.h"

#define METADATA   STR_LIT("torch.distributed.checkpoint.metadata")
#define FILESYSTEM STR_LIT("torch.distributed.checkpoint.filesystem")

struct metadata_pickle {
    const struct dcp_leaves *leaves;
    const struct dcp_item_range *ranges;
};

void dcp_file_name(uint32_t file, char name[32]) { (void)snprintf(name, 32, "__0_%" PRIu32 ".distcp", file); }

/* put_new_object - writes a new object of the class MODULE.NAME, without a state. */
static void put_new_object(pickle_writer *w, ckpt_str module, ckpt_str name)
{
    pickle_put_global(w, module, name);
    pickle_put_op(w, PICKLE_EMPTY_TUPLE);
    pickle_put_op(w, PICKLE_NEWOBJ);
}

static void begin_dict(pickle_writer *w)
{
    pickle_put_op(w, PICKLE_EMPTY_DICT);
    pickle_put_op(w, PICKLE_MARK);
}

/* begin_object - writes a new object of the class MODULE.NAME and begins its state, a dict whose pairs the
 * caller writes before end_object. */
static void begin_object(pickle_writer *w, ckpt_str module, ckpt_str name)
{
    put_new_object(w, module, name);
    begin_dict(w);
}

static void end_object(pickle_writer *w)
{
    pickle_put_op(w, PICKLE_SETITEMS);
    pickle_put_op(w, PICKLE_BUILD);
}

/* put_size - writes the torch.Size of the N sizes; SIZES NULL: all are 0. */
static void put_size(pickle_writer *w, const uint64_t *sizes, uint32_t n)
{
    pickle_put_global(w, STR_LIT("torch"), STR_LIT("Size"));
    pickle_put_op(w, PICKLE_MARK);
    pickle_put_op(w, PICKLE_MARK);
    for (uint32_t k = 0; k < n; k++)
        pickle_put_uint(w, sizes ? sizes[k] : 0);
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_REDUCE);
}

static void put_properties(pickle_writer *w, ckpt_dtype dtype, bool requires_grad)
{
    put_new_object(w, METADATA, STR_LIT("TensorProperties"));
    pickle_put_op(w, PICKLE_MARK);
    pickle_put_global(w, STR_LIT("torch"), str_c(dtype_info(dtype)->name));
    pickle_put_global(w, STR_LIT("torch.serialization"), STR_LIT("_get_layout"));
    pickle_put_op(w, PICKLE_MARK);
    pickle_put_text(w, STR_LIT("torch.strided"));
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_REDUCE);
    pickle_put_bool(w, requires_grad);
    pickle_put_global(w, METADATA, STR_LIT("_MEM_FORMAT_ENCODING"));
    pickle_put_op(w, PICKLE_MARK);
    pickle_put_int(w, 0); /* contiguous */
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_REDUCE);
    pickle_put_bool(w, false); /* pinned memory */
    pickle_put_op(w, PICKLE_TUPLE);
    pickle_put_op(w, PICKLE_BUILD);
}

/* put_tensor - writes the TensorStorageMetadata of row ROW, with one chunk that is the complete tensor. */
static void put_tensor(pickle_writer *w, const ckpt_plan *p, uint32_t row)
{
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    begin_object(w, METADATA, STR_LIT("TensorStorageMetadata"));
    pickle_put_text(w, STR_LIT("properties"));
    put_properties(w, plan_dtype(p, row), t.requires_grad);
    pickle_put_text(w, STR_LIT("size"));
    put_size(w, t.shape, t.ndim);
    pickle_put_text(w, STR_LIT("chunks"));
    pickle_put_op(w, PICKLE_EMPTY_LIST);
    begin_object(w, METADATA, STR_LIT("ChunkStorageMetadata"));
    pickle_put_text(w, STR_LIT("offsets"));
    put_size(w, NULL, t.ndim);
    pickle_put_text(w, STR_LIT("sizes"));
    put_size(w, t.shape, t.ndim);
    end_object(w);
    pickle_put_op(w, PICKLE_APPEND);
    end_object(w);
}

static void put_state_dict_metadata(pickle_writer *w, const struct metadata_pickle *x)
{
    begin_dict(w);
    for (size_t i = 0; i < x->leaves->nleaves; i++) {
        const struct dcp_leaf *l = &x->leaves->leaves[i];
        pickle_put_text(w, l->name);
        if (l->row != CKPT_NO_TENSOR)
            put_tensor(w, x->leaves->plan, l->row);
        else
            put_new_object(w, METADATA, STR_LIT("BytesStorageMetadata"));
    }
    pickle_put_op(w, PICKLE_SETITEMS);
}

static void put_planner_data(pickle_writer *w, const struct metadata_pickle *x)
{
    begin_dict(w);
    for (size_t i = 0; i < x->leaves->nleaves; i++) {
        const struct dcp_leaf *l = &x->leaves->leaves[i];
        pickle_put_text(w, l->name);
        pickle_put_op(w, PICKLE_MARK);
        for (uint32_t k = 0; k < l->npath; k++) {
            if (l->path[k].is_int)
                pickle_put_int(w, l->path[k].num);
            else
                pickle_put_text(w, l->path[k].str);
        }
        pickle_put_op(w, PICKLE_TUPLE);
    }
    pickle_put_op(w, PICKLE_SETITEMS);
}

/* put_index - writes the MetadataIndex of L, a key of storage_data. */
static void put_index(pickle_writer *w, const ckpt_plan *p, const struct dcp_leaf *l)
{
    begin_object(w, METADATA, STR_LIT("MetadataIndex"));
    pickle_put_text(w, STR_LIT("fqn"));
    pickle_put_text(w, l->name);
    pickle_put_text(w, STR_LIT("index"));
    if (l->row == CKPT_NO_TENSOR) {
        pickle_put_op(w, PICKLE_NONE);
    } else {
        pickle_put_int(w, 0);
        pickle_put_text(w, STR_LIT("offset"));
        put_size(w, NULL, table_tensor(&p->file->table, l->row).ndim);
    }
    end_object(w);
}

static void put_storage_data(pickle_writer *w, const struct metadata_pickle *x)
{
    char name[32];
    begin_dict(w);
    for (size_t i = 0; i < x->leaves->nleaves; i++) {
        const struct dcp_item_range *at = &x->ranges[i];
        put_index(w, x->leaves->plan, &x->leaves->leaves[i]);
        begin_object(w, FILESYSTEM, STR_LIT("_StorageInfo"));
        dcp_file_name(at->file, name);
        pickle_put_text(w, STR_LIT("relative_path"));
        pickle_put_text(w, str_c(name));
        pickle_put_text(w, STR_LIT("offset"));
        pickle_put_uint(w, at->offset);
        pickle_put_text(w, STR_LIT("length"));
        pickle_put_uint(w, at->length);
        end_object(w);
    }
    pickle_put_op(w, PICKLE_SETITEMS);
}

/* put_metadata - writes the object Metadata; pickle_write calls this hook for the root node. */
static ckpt_status put_metadata(void *user, pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    (void)v;
    (void)err;
    begin_object(w, METADATA, STR_LIT("Metadata"));
    pickle_put_text(w, STR_LIT("state_dict_metadata"));
    put_state_dict_metadata(w, user);
    pickle_put_text(w, STR_LIT("planner_data"));
    put_planner_data(w, user);
    pickle_put_text(w, STR_LIT("storage_data"));
    put_storage_data(w, user);
    end_object(w);
    return CKPT_OK;
}

ckpt_status dcp_metadata_write(const struct dcp_leaves *leaves, const struct dcp_item_range *ranges, buf *out,
                               ckpt_error *err)
{
    struct metadata_pickle x = {leaves, ranges};
    const struct pickle_hooks hooks = {.user = &x, .write_leaf = put_metadata};
    const ckpt_value root = {.type = CKPT_V_TENSOR, .u.listed.row = CKPT_NO_TENSOR};
    return pickle_write(&root, &hooks, out, err);
}
