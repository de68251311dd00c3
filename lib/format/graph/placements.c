/* placements.c - computes which part of a tensor the DTensor or ShardedTensor of one rank holds.
 *
 * A DTensor has the mesh of ranks, the coordinates of its rank in the mesh, and for each dimension of the
 * mesh a placement: Shard(dim), Replicate … A dimension of SIZE that is sharded over N ranks has shards of
 * ceil(SIZE / N), the last ones shorter or empty (torch.chunk). If two dimensions of the mesh shard the same
 * dimension of the tensor, the second divides the shards of the first. _StridedShard, which FSDP2 over tensor
 * parallelism writes, applies after all others. A ShardedTensor lists the offsets of its shards. Sources:
 * torch/distributed/tensor/_utils.py, torch/distributed/_shard/sharded_tensor/metadata.py. */
#include "base/checked.h"
#include "format/graph/placements.h"
#include "format/graph/rebuild.h"

#define MAX_MESH_DIMS 8u

/* The mesh of a DTensor, and the coordinates of the rank that saved it. */
struct mesh {
    uint32_t ndim;
    uint64_t shape[MAX_MESH_DIMS], coordinate[MAX_MESH_DIMS];
};

/* get_state - returns the state of VALUE, a tensor of a subclass or a Parameter that holds one. */
static const ckpt_value *get_state(const ckpt_value *value)
{
    for (int i = 0; i < MAX_WRAPPERS && value; i++) {
        if (str_starts(value_name(value_class(value)), STR_LIT("_rebuild_from_type")))
            break;
        value = value_arg(value, 0);
    }
    return value_arg(value, 3);
}

/* read_axis_size - sets *OUT to the size of a _MeshLayout's AXIS: the product of its shape (int or tuple). */
static bool read_axis_size(const ckpt_value *axis, uint64_t *out)
{
    const ckpt_value *shape = object_attr(axis, "shape");
    uint64_t size;
    *out = 1;
    if (value_size(shape, out))
        return true;
    for (uint32_t i = 0; shape && i < value_count(shape); i++)
        if (!value_size(value_item(shape, i), &size) || !checked_mul(*out, size, out))
            return false;
    return shape != NULL;
}

/* read_mesh - reads the mesh of the DTensorSpec SPEC; false: it has no mesh, or one of an unknown form. */
static bool read_mesh(const ckpt_value *spec, struct mesh *this_mesh)
{
    const ckpt_value *mesh = object_attr(spec, "mesh"),
                     *coordinates = object_attr(mesh, "_coordinate_on_dim"),
                     *axes = object_attr(object_attr(mesh, "_layout"), "axes"),
                     *sizes = value_arg(object_attr(mesh, "mesh"), 2); /* size of the tensor "mesh" */
    uint32_t n = axes ? value_count(axes) : value_count(sizes);
    this_mesh->ndim = n;
    if (!coordinates || !(axes || sizes) || n > MAX_MESH_DIMS || value_count(coordinates) != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        bool has_size = axes ? read_axis_size(value_item(axes, i), &this_mesh->shape[i])
                             : value_size(value_item(sizes, i), &this_mesh->shape[i]);
        if (!has_size || !value_size(value_item(coordinates, i), &this_mesh->coordinate[i]) ||
            this_mesh->coordinate[i] >= this_mesh->shape[i])
            return false;
    }
    return true;
}

/* narrow_to_shard - replaces the range [*OFFSET, +*SIZE) with the shard NUMBER of its NSHARDS shards. */
static void narrow_to_shard(uint64_t nshards, uint64_t number, uint64_t *offset, uint64_t *size)
{
    uint64_t shard_size = *size / nshards + (*size % nshards != 0);
    bool is_past_end = shard_size && number > *size / shard_size;
    uint64_t start = is_past_end ? *size : number * shard_size;
    start = start < *size ? start : *size;
    *offset += start;
    *size = *size - start < shard_size ? *size - start : shard_size;
}

/* apply_placement - narrows OFFSET and SIZE by VALUE, the placement for dimension INDEX of the mesh MESH.
 * Applies only Shards, or in the STRIDED_PASS, which must come last, only _StridedShards. False: VALUE is
 * unknown. */
static bool apply_placement(const ckpt_tensor *tensor, const ckpt_value *value, const struct mesh *mesh,
                            uint32_t index, bool strided_pass, uint64_t *offset, uint64_t *size)
{
    ckpt_str name = value_name(value_class(value));
    bool is_strided = str_is(name, "_StridedShard");
    int64_t dim;
    if (str_is(name, "Replicate"))
        return true;
    if (!(str_is(name, "Shard") || is_strided) || !value_integer(object_attr(value, "dim"), &dim))
        return false;
    dim += dim < 0 ? (int64_t)tensor->ndim : 0;
    if (dim < 0 || dim >= (int64_t)tensor->ndim)
        return false;
    if (is_strided == strided_pass)
        narrow_to_shard(mesh->shape[index], mesh->coordinate[index], &offset[dim], &size[dim]);
    return true;
}

static ckpt_status refuse_placement(const ckpt_value *value, ckpt_error *err)
{
    ckpt_str name = value_name(value_class(value));
    if (str_find(name, STR_LIT("Partial"), 0) != SIZE_MAX)
        return fail(
            err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
            "placement {Partial}: each rank holds an addend of the tensor, no file holds {=their sum}");
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "placement {%.*s} is unknown, {=Shard and Replicate} are known", STR_ARG(name));
}

/* get_dtensor_range - sets OFFSET and SIZE to the range of TENSOR that the rank of SPEC holds. */
static ckpt_status get_dtensor_range(const ckpt_value *spec, const ckpt_tensor *tensor, uint64_t *offset,
                                     uint64_t *size, ckpt_error *err)
{
    struct mesh m;
    const ckpt_value *placements = object_attr(spec, "placements");
    uint32_t n = placements ? value_count(placements) : 0;
    for (uint32_t i = 0; i < tensor->ndim; i++)
        size[i] = tensor->shape[i];
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str name = value_name(value_class(value_item(placements, i)));
        if (str_find(name, STR_LIT("Partial"), 0) != SIZE_MAX)
            return refuse_placement(value_item(placements, i), err);
    }
    if (!read_mesh(spec, &m) || n != m.ndim)
        return fail(
            err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
            "a DTensor has {no mesh} with {=the coordinates of its rank}: its parts cannot be put together");
    for (int strided_pass = 0; strided_pass < 2; strided_pass++)
        for (uint32_t i = 0; i < n; i++)
            if (!apply_placement(tensor, value_item(placements, i), &m, i, strided_pass != 0, offset, size))
                return refuse_placement(value_item(placements, i), err);
    return CKPT_OK;
}

static bool read_sizes(const ckpt_value *value, uint32_t count, uint64_t *out)
{
    bool ok = value && value_count(value) == count;
    for (uint32_t i = 0; ok && i < count; i++)
        ok = value_size(value_item(value, i), &out[i]);
    return ok;
}

ckpt_status torch_get_part_offset(arena *a, const ckpt_file *f, uint32_t row, uint32_t component,
                                  uint32_t component_row, const uint64_t **offset, ckpt_error *err)
{
    const ckpt_tensor t = table_tensor(&f->table, row), part = table_tensor(&f->table, component_row);
    const ckpt_value *state = get_state(t.value);
    uint64_t *begin = arena_array(a, 2 * (uint64_t)t.ndim, sizeof *begin);
    if (!begin)
        return fail_memory(err);
    uint64_t *size = begin + t.ndim;
    *offset = begin;
    if (t.kind == CKPT_DTENSOR)
        CKPT_TRY(get_dtensor_range(object_attr(state, "_spec"), &t, begin, size, err));
    const ckpt_value *meta = object_attr(value_item(value_item(state, 0), component), "metadata");
    bool has_range = t.kind == CKPT_DTENSOR ||
                     (read_sizes(object_attr(meta, "shard_offsets"), t.ndim, begin) &&
                      read_sizes(object_attr(meta, "shard_sizes"), t.ndim, size));
    bool size_matches = has_range && part.ndim == t.ndim;
    for (uint32_t i = 0; size_matches && i < t.ndim; i++)
        size_matches = part.shape[i] == size[i];
    return size_matches ? CKPT_OK
                        : fail(err, CKPT_EFORMAT, part.file_offset,
                               "a part has {a different size} than {=its placement gives it}");
}

static uint64_t count_shards(const ckpt_value *state)
{
    const ckpt_value *list = object_attr(value_item(state, 1), "shards_metadata");
    return list ? value_count(list) : 0;
}

uint64_t torch_count_shard_ranks(const ckpt_file *f, uint32_t row)
{
    struct mesh m;
    uint64_t n = 1;
    const ckpt_tensor t = table_tensor(&f->table, row);
    if (t.kind == CKPT_SHARDED)
        return count_shards(get_state(t.value)); /* supposes that each rank has one shard */
    if (t.kind != CKPT_DTENSOR || !read_mesh(object_attr(get_state(t.value), "_spec"), &m))
        return 0;
    for (uint32_t i = 0; i < m.ndim; i++)
        if (!checked_mul(n, m.shape[i], &n))
            return 0;
    return n;
}

/* count_deepspeed_ranks - returns the number of ranks over which DeepSpeed's ZeRO divided the parameters; 0:
 * F is not named as the file of one rank, or the number is unknown. */
static uint64_t count_deepspeed_ranks(const ckpt_file *f)
{
    if (!f->root || str_find(str_after_last(str_c(f->path), '/'), STR_LIT("zero_pp_rank_"), 0) == SIZE_MAX)
        return 0;
    const ckpt_value *n = value_get(f->root, "dp_world_size"),
                     *state = value_get(f->root, "optimizer_state_dict");
    if (!n && state)
        n = value_get(state, "partition_count");
    if (n && value_is_sequence(n))
        n = value_item(n, 0);
    return n && n->type == CKPT_V_INT && n->u.i > 0 ? (uint64_t)n->u.i : 0;
}

void torch_note_missing_ranks(ckpt_file *f)
{
    uint64_t n = count_deepspeed_ranks(f);
    for (uint32_t i = 0; n < 2 && i < f->table.nrows; i++) {
        ckpt_kind kind = table_kind_of(&f->table, i);
        n = kind == CKPT_SHARDED || kind == CKPT_DTENSOR ? torch_count_shard_ranks(f, i) : 0;
    }
    if (n > 1)
        file_notice(
            f,
            "tensors are divided among %llu ranks, and this file has the parts of one; a folder with the "
            "files of all ranks is read as one checkpoint",
            (unsigned long long)n);
}
