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
static void put_new_object(pickle_writer *writer, ckpt_str module, ckpt_str name)
{
    pickle_put_global(writer, module, name);
    pickle_put_op(writer, PICKLE_EMPTY_TUPLE);
    pickle_put_op(writer, PICKLE_NEWOBJ);
}

static void begin_dict(pickle_writer *writer)
{
    pickle_put_op(writer, PICKLE_EMPTY_DICT);
    pickle_put_op(writer, PICKLE_MARK);
}

/* begin_object - writes a new object of the class MODULE.NAME and begins its state, a dict whose pairs the
 * caller writes before end_object. */
static void begin_object(pickle_writer *writer, ckpt_str module, ckpt_str name)
{
    put_new_object(writer, module, name);
    begin_dict(writer);
}

static void end_object(pickle_writer *writer)
{
    pickle_put_op(writer, PICKLE_SETITEMS);
    pickle_put_op(writer, PICKLE_BUILD);
}

/* put_size - writes the torch.Size of the NDIM sizes; SIZES NULL: all are 0. */
static void put_size(pickle_writer *writer, const uint64_t *sizes, uint32_t ndim)
{
    pickle_put_global(writer, STR_LIT("torch"), STR_LIT("Size"));
    pickle_put_op(writer, PICKLE_MARK);
    pickle_put_op(writer, PICKLE_MARK);
    for (uint32_t k = 0; k < ndim; k++)
        pickle_put_uint(writer, sizes ? sizes[k] : 0);
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_REDUCE);
}

static void put_properties(pickle_writer *writer, ckpt_dtype dtype, bool requires_grad)
{
    put_new_object(writer, METADATA, STR_LIT("TensorProperties"));
    pickle_put_op(writer, PICKLE_MARK);
    pickle_put_global(writer, STR_LIT("torch"), str_c(dtype_info(dtype)->name));
    pickle_put_global(writer, STR_LIT("torch.serialization"), STR_LIT("_get_layout"));
    pickle_put_op(writer, PICKLE_MARK);
    pickle_put_text(writer, STR_LIT("torch.strided"));
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_REDUCE);
    pickle_put_bool(writer, requires_grad);
    pickle_put_global(writer, METADATA, STR_LIT("_MEM_FORMAT_ENCODING"));
    pickle_put_op(writer, PICKLE_MARK);
    pickle_put_int(writer, 0); /* contiguous */
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_REDUCE);
    pickle_put_bool(writer, false); /* pinned memory */
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_BUILD);
}

/* put_tensor - writes the TensorStorageMetadata of row ROW, with one chunk that is the complete tensor. */
static void put_tensor(pickle_writer *writer, const ckpt_plan *p, uint32_t row)
{
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    begin_object(writer, METADATA, STR_LIT("TensorStorageMetadata"));
    pickle_put_text(writer, STR_LIT("properties"));
    put_properties(writer, plan_dtype(p, row), t.requires_grad);
    pickle_put_text(writer, STR_LIT("size"));
    put_size(writer, t.shape, t.ndim);
    pickle_put_text(writer, STR_LIT("chunks"));
    pickle_put_op(writer, PICKLE_EMPTY_LIST);
    begin_object(writer, METADATA, STR_LIT("ChunkStorageMetadata"));
    pickle_put_text(writer, STR_LIT("offsets"));
    put_size(writer, NULL, t.ndim);
    pickle_put_text(writer, STR_LIT("sizes"));
    put_size(writer, t.shape, t.ndim);
    end_object(writer);
    pickle_put_op(writer, PICKLE_APPEND);
    end_object(writer);
}

static void put_state_dict_metadata(pickle_writer *writer, const struct metadata_pickle *pickle)
{
    begin_dict(writer);
    for (size_t i = 0; i < pickle->leaves->nleaves; i++) {
        const struct dcp_leaf *l = &pickle->leaves->leaves[i];
        pickle_put_text(writer, l->name);
        if (l->row != CKPT_NO_TENSOR)
            put_tensor(writer, pickle->leaves->plan, l->row);
        else
            put_new_object(writer, METADATA, STR_LIT("BytesStorageMetadata"));
    }
    pickle_put_op(writer, PICKLE_SETITEMS);
}

static void put_planner_data(pickle_writer *writer, const struct metadata_pickle *pickle)
{
    begin_dict(writer);
    for (size_t i = 0; i < pickle->leaves->nleaves; i++) {
        const struct dcp_leaf *l = &pickle->leaves->leaves[i];
        pickle_put_text(writer, l->name);
        pickle_put_op(writer, PICKLE_MARK);
        for (uint32_t k = 0; k < l->npath; k++) {
            if (l->path[k].is_int)
                pickle_put_int(writer, l->path[k].num);
            else
                pickle_put_text(writer, l->path[k].str);
        }
        pickle_put_op(writer, PICKLE_TUPLE);
    }
    pickle_put_op(writer, PICKLE_SETITEMS);
}

/* put_index - writes the MetadataIndex of LEAF, a key of storage_data. */
static void put_index(pickle_writer *writer, const ckpt_plan *p, const struct dcp_leaf *leaf)
{
    begin_object(writer, METADATA, STR_LIT("MetadataIndex"));
    pickle_put_text(writer, STR_LIT("fqn"));
    pickle_put_text(writer, leaf->name);
    pickle_put_text(writer, STR_LIT("index"));
    if (leaf->row == CKPT_NO_TENSOR) {
        pickle_put_op(writer, PICKLE_NONE);
    } else {
        pickle_put_int(writer, 0);
        pickle_put_text(writer, STR_LIT("offset"));
        put_size(writer, NULL, table_tensor(&p->file->table, leaf->row).ndim);
    }
    end_object(writer);
}

static void put_storage_data(pickle_writer *writer, const struct metadata_pickle *pickle)
{
    char name[32];
    begin_dict(writer);
    for (size_t i = 0; i < pickle->leaves->nleaves; i++) {
        const struct dcp_item_range *at = &pickle->ranges[i];
        put_index(writer, pickle->leaves->plan, &pickle->leaves->leaves[i]);
        begin_object(writer, FILESYSTEM, STR_LIT("_StorageInfo"));
        dcp_file_name(at->file, name);
        pickle_put_text(writer, STR_LIT("relative_path"));
        pickle_put_text(writer, str_c(name));
        pickle_put_text(writer, STR_LIT("offset"));
        pickle_put_uint(writer, at->offset);
        pickle_put_text(writer, STR_LIT("length"));
        pickle_put_uint(writer, at->length);
        end_object(writer);
    }
    pickle_put_op(writer, PICKLE_SETITEMS);
}

/* put_metadata - writes the object Metadata; pickle_write calls this hook for the root node. */
static ckpt_status put_metadata(void *user, pickle_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    (void)value;
    (void)err;
    begin_object(writer, METADATA, STR_LIT("Metadata"));
    pickle_put_text(writer, STR_LIT("state_dict_metadata"));
    put_state_dict_metadata(writer, user);
    pickle_put_text(writer, STR_LIT("planner_data"));
    put_planner_data(writer, user);
    pickle_put_text(writer, STR_LIT("storage_data"));
    put_storage_data(writer, user);
    end_object(writer);
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
