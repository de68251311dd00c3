/* fsdp.c - reads a folder in which each rank has saved its state dict by torch.save. The tensors are DTensors
 * (FSDP2, tensor parallelism) or ShardedTensors (SHARDED_STATE_DICT of FSDP).
 *
 *   NAME0.pt, NAME1.pt, …   of rank 0, 1 …, with the same keys; what is not sharded is read from rank 0
 *   model_world_size_W_rank_R.pt, pytorch_model_fsdp_0_rankR.bin       the file names of verl and Accelerate
 *   optim_world_size_W_rank_R.pt, optimizer_0_rankR.bin                states of the optimizer: read only if
 *                                                                      the folder has no files of a model
 *
 * A folder of such files is one checkpoint. Its graph is the graph of rank 0, with complete tensors in place
 * of DTensors and ShardedTensors. Refused: a missing rank; Partial placements; LOCAL_STATE_DICT, whose flat
 * parameters contain tensors with shapes that only the model has. */
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/graph/placements.h"
#include "format/graph/walk.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"
#include "format/parts/sharded_tensors.h"

struct fsdp {
    ckpt_file *f;
    ckpt_error *err;
    struct sharded_tensors sharded;
    ckpt_file *first; /* of rank 0 */
};

/* cut_rank - returns NAME without its rank and suffix: "model" for "model0.pt". If the rank is all of NAME,
 * as in "12.pt", returns its first digit. Empty: NAME has no rank. */
static ckpt_str cut_rank(ckpt_str name)
{
    static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!str_ends(name, str_c(suffixes[i])))
            continue;
        size_t n = name.len - strlen(suffixes[i]), end = n;
        while (n && name.ptr[n - 1] >= '0' && name.ptr[n - 1] <= '9')
            n--;
        return n < end ? str_of(name.ptr, n + (n == 0)) : str_of("", 0);
    }
    return str_of("", 0);
}

static bool is_rank_of_model(ckpt_str name) { return !folder_is_companion(name) && cut_rank(name).len != 0; }

static bool is_rank_of_optimizer(ckpt_str name)
{
    return str_matches_word(name, "optim_world_size_ optimizer_", str_starts) && cut_rank(name).len != 0;
}

/* choose_files - returns the function that selects the files to read in the folder of NUMBERS. */
static bool (*choose_files(const struct probe *numbers))(ckpt_str name)
{
    return probe_matches(numbers, is_rank_of_model) ? is_rank_of_model : is_rank_of_optimizer;
}

static const char *find_trainer_by_name(ckpt_str name)
{
    return str_matches_word(name, "model_world_size_ optim_world_size_", str_starts) ? "verl"
           : str_starts(name, STR_LIT("pytorch_model_fsdp_"))                        ? "Accelerate"
                                                                                     : NULL;
}

static bool probe(const struct probe *this_probe)
{
    ckpt_str stem = {"", 0};
    size_t n = 0;
    struct folder d;
    bool (*is_file)(ckpt_str name) = choose_files(this_probe);
    for (size_t i = 0; i < this_probe->nnames; i++) {
        if (!is_file(this_probe->names[i]))
            continue;
        if (n++ == 0)
            stem = cut_rank(this_probe->names[i]);
        else if (!str_eq(stem, cut_rank(this_probe->names[i])))
            return false;
    }
    folder_scan(this_probe->names, this_probe->nnames, &d);
    return (n > 1 || find_trainer_by_name(stem)) && !d.nindexes && !d.nsingle &&
           d.nothers == (is_file == is_rank_of_model ? n : 0);
}

static bool is_sharded(const ckpt_tensor *tensor)
{
    return tensor->kind == CKPT_DTENSOR || tensor->kind == CKPT_SHARDED;
}

static bool has_sharded(const ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&f->table, i);
        if (is_sharded(&t))
            return true;
    }
    return false;
}

static ckpt_status refuse_flat_parameter(struct fsdp *fsdp, const ckpt_tensor *tensor)
{
    (void)fail(fsdp->err, CKPT_EUNSUPPORTED, tensor->file_offset,
               "{LOCAL_STATE_DICT}: the parameters are one flat tensor, and {=their shapes} are in no file\n"
               "load it into the model that saved it, and save a FULL_STATE_DICT or SHARDED_STATE_DICT");
    return prefix_where_if_failed(CKPT_EUNSUPPORTED, tensor->name, fsdp->err);
}

static ckpt_status check_has_all_ranks(struct fsdp *fsdp, const ckpt_file *part, uint32_t row, size_t nfiles)
{
    uint64_t n = torch_count_shard_ranks(part, row);
    const ckpt_tensor t = table_tensor(&part->table, row);
    if (n == 0 || n <= nfiles || fsdp->f->salvage)
        return CKPT_OK;
    (void)fail(fsdp->err, CKPT_ENOTFOUND, t.file_offset,
               "cut over {=%llu ranks}, the folder has files of {%zu}\n"
               "put the files of all ranks into the folder",
               (unsigned long long)n, nfiles);
    return prefix_where_if_failed(CKPT_ENOTFOUND, t.name, fsdp->err);
}

/* add_row - adds as shards the local tensors of the DTensor or ShardedTensor in row ROW of PART. */
static ckpt_status add_row(struct fsdp *fsdp, const ckpt_file *part, uint32_t row)
{
    const ckpt_tensor t = table_tensor(&part->table, row);
    uint32_t component = 0;
    if (str_find(t.name, STR_LIT("flat_param"), 0) != SIZE_MAX)
        return refuse_flat_parameter(fsdp, &t);
    for (uint32_t i = row + 1; i < part->table.nrows; i++) {
        const uint64_t *offset;
        if (table_part_of(&part->table, i) != row)
            continue;
        ckpt_status st = torch_get_part_offset(fsdp->f->a, part, row, component++, i, &offset, fsdp->err);
        CKPT_TRY(prefix_where_if_failed(st, t.name, fsdp->err));
        const struct tensor_shard shard = {.part = part, .row = i, .offset = offset};
        CKPT_TRY(sharded_tensors_add(&fsdp->sharded, t.name, t.shape, &shard));
        if (t.kind == CKPT_DTENSOR)
            break; /* its other components are those of the device mesh */
    }
    return CKPT_OK;
}

/* add_rank - adds the shards in PART, the file of one of NFILES ranks. */
static ckpt_status add_rank(struct fsdp *fsdp, const ckpt_file *part, size_t nfiles)
{
    for (uint32_t i = 0; i < part->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&part->table, i);
        if (t.part_of != CKPT_NO_TENSOR)
            continue;
        if (is_sharded(&t)) {
            CKPT_TRY(check_has_all_ranks(fsdp, part, i, nfiles));
            CKPT_TRY(add_row(fsdp, part, i));
        } else if (file_find_tensor(fsdp->first, t.name) == CKPT_NO_TENSOR) {
            file_notice(fsdp->f, "\"%.*s\" of %s is not in the first file, and left out", STR_ARG(t.name),
                        part->path);
        }
    }
    return CKPT_OK;
}

/* replace_nodes - turns each DTensor or ShardedTensor node of rank 0 into the node of the complete tensor. */
static void replace_nodes(struct fsdp *fsdp)
{
    struct table *t = &fsdp->first->table;
    for (size_t i = 0; i < t->nrows; i++) {
        ckpt_value *v = (ckpt_value *)(uintptr_t)table_value_of(t, i);
        const ckpt_tensor row = table_tensor(t, i);
        uint32_t at = is_sharded(&row) ? map_get(fsdp->sharded.index_of, row.name) : MAP_NONE;
        if (at == MAP_NONE || !v || v->type == CKPT_V_TENSOR)
            continue;
        value_become_tensor(v);  /* the fields of a call are no longer used */
        value_set_offset(v, at); /* for sharded_tensors_describe */
    }
}

static ckpt_status open_ranks(struct fsdp *fsdp, const ckpt_str *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ckpt_file *part;
        CKPT_TRY(part_file_read_pickle(fsdp->f, list[0].ptr, list[i], &part, fsdp->err));
        if (!part)
            continue;
        if (!fsdp->first && count > 1 && !has_sharded(part)) { /* each file is a checkpoint of its own */
            struct folder d;
            folder_scan(fsdp->f->opening->probe->names, fsdp->f->opening->probe->nnames, &d);
            return folder_fail_ambiguous(fsdp->f->archive, fsdp->f->folder, d.nlisted, folder_is_checkpoint,
                                         fsdp->err);
        }
        fsdp->first = fsdp->first ? fsdp->first : part;
        ckpt_status st = add_rank(fsdp, part, count);
        CKPT_TRY(name_file_if_failed(st, part->path, fsdp->err));
    }
    return fsdp->first ? CKPT_OK
                       : fail(fsdp->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} file of {=a rank} can be read");
}

static ckpt_status read_all(struct fsdp *fsdp)
{
    ckpt_file *f = fsdp->f;
    ckpt_str *list;
    size_t n;
    struct graph_input input = {.user = &fsdp->sharded,
                                .find_storage = part_graph_find_storage,
                                .describe_node = sharded_tensors_describe};
    CKPT_TRY(folder_list(f, f->folder, choose_files(f->opening->probe), &list, &n, fsdp->err));
    CKPT_TRY(open_ranks(fsdp, list, n));
    CKPT_TRY(sharded_tensors_store(&fsdp->sharded));
    replace_nodes(fsdp);
    CKPT_TRY(part_graph_take(f, fsdp->first, &f->root, fsdp->err));
    f->add_opaque_storages = part_graph_add_unreferenced;
    part_file_set_step(f, "global_step_");
    f->producer = find_trainer_by_name(list[0]) ? str_c(find_trainer_by_name(list[0]))
                                                : fsdp->first->producer;
    f->ranks.ranks = f->nparts;
    return graph_walk(f, f->root, &input, fsdp->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct fsdp fsdp = {.f = f, .err = err};
    ckpt_status st = sharded_tensors_begin(&fsdp.sharded, f, err);
    CKPT_THEN(st, read_all(&fsdp));
    sharded_tensors_end(&fsdp.sharded);
    return st;
}

const struct format format_fsdp = {
    .name = "torch-ranks", .title = "torch files of all ranks", .probe = probe, .read = read};
