/* fsdp.c - reads a folder in which each rank has saved its state dict by torch.save. The tensors are DTensors
 * (FSDP2, tensor parallelism) or ShardedTensors (SHARDED_STATE_DICT of FSDP).
 *
 *   NAME0.pt, NAME1.pt, …   of rank 0, 1 …, with the same keys; other values are read from rank 0
 *   model_world_size_W_rank_R.pt, pytorch_model_fsdp_0_rankR.bin       the file names of verl and Accelerate
 *   optim_world_size_W_rank_R.pt, optimizer_0_rankR.bin, …             not read: folder_is_companion
 *
 * A folder of such files is one checkpoint. Its graph is the graph of rank 0, with complete tensors in place
 * of DTensors and ShardedTensors. Refused: a missing rank, Partial placements, LOCAL_STATE_DICT, because only
 * the model has the shapes in its flat parameters. */
#include "format/distributed/part_files.h"
#include "format/distributed/sharded_tensors.h"
#include "format/folder.h"
#include "format/torch/graph.h"

struct fsdp {
    ckpt_file *f;
    ckpt_error *err;
    struct sharded_tensors sharded;
    ckpt_file *first; /* of rank 0 */
};

/* get_stem - returns NAME without its rank and suffix, "model" for "model0.pt"; of a name that is a number,
 * the first digit. Empty: NAME has no rank, or is not the name of a model. */
static ckpt_str get_stem(ckpt_str name)
{
    static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!str_ends(name, str_c(suffixes[i])) || folder_is_companion(name))
            continue;
        size_t n = name.len - strlen(suffixes[i]), end = n;
        while (n && name.ptr[n - 1] >= '0' && name.ptr[n - 1] <= '9')
            n--;
        return n < end ? str_of(name.ptr, n + (n == 0)) : str_of("", 0);
    }
    return str_of("", 0);
}

static bool has_stem(ckpt_str name) { return get_stem(name).len != 0; }

/* find_trainer - returns the trainer that gives a file the name NAME, or NULL. */
static const char *find_trainer(ckpt_str name)
{
    return str_starts(name, STR_LIT("model_world_size_"))     ? "verl"
           : str_starts(name, STR_LIT("pytorch_model_fsdp_")) ? "Accelerate"
                                                              : NULL;
}

static bool probe(const struct probe *p)
{
    ckpt_str stem = {"", 0};
    size_t n = 0;
    struct folder d;
    for (size_t i = 0; i < p->nnames; i++) {
        if (!has_stem(p->names[i]))
            continue;
        if (n++ == 0)
            stem = get_stem(p->names[i]);
        else if (!str_eq(stem, get_stem(p->names[i])))
            return false;
    }
    folder_scan(p->names, p->nnames, &d);
    return (n > 1 || find_trainer(stem)) && !d.nindex && !d.nsingle && d.nothers == n;
}

static bool is_sharded(const ckpt_tensor *t) { return t->kind == CKPT_DTENSOR || t->kind == CKPT_SHARDED; }

static bool has_sharded(const ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (is_sharded(&f->table.rows[i].t))
            return true;
    return false;
}

/* refuse_flat - fails because T is a flat parameter of FSDP. */
static ckpt_status refuse_flat(struct fsdp *x, const ckpt_tensor *t)
{
    (void)fail(x->err, CKPT_EUNSUPPORTED, t->file_offset,
               "{LOCAL_STATE_DICT}: the parameters are one flat tensor, and {=their shapes} are in no file\n"
               "load it into the model that saved it, and save a FULL_STATE_DICT or SHARDED_STATE_DICT");
    return prefix_where_if_failed(CKPT_EUNSUPPORTED, t->name, x->err);
}

/* check_ranks - checks that there is a file for each rank in the mesh of row ROW of PART. */
static ckpt_status check_ranks(struct fsdp *x, const ckpt_file *part, uint32_t row, size_t nfiles)
{
    uint64_t n = torch_count_part_ranks(part, row);
    const ckpt_tensor *t = &part->table.rows[row].t;
    if (n == 0 || n <= nfiles || x->f->salvage)
        return CKPT_OK;
    (void)fail(x->err, CKPT_ENOTFOUND, t->file_offset,
               "cut over {=%llu ranks}, the folder has files of {%zu}\n"
               "put the files of all ranks into the folder",
               (unsigned long long)n, nfiles);
    return prefix_where_if_failed(CKPT_ENOTFOUND, t->name, x->err);
}

/* add_row - adds the local tensors of row ROW of PART, a DTensor or ShardedTensor, as shards. */
static ckpt_status add_row(struct fsdp *x, const ckpt_file *part, uint32_t row)
{
    const ckpt_tensor *t = &part->table.rows[row].t;
    uint32_t component = 0;
    if (str_find(t->name, STR_LIT("flat_param"), 0) != SIZE_MAX)
        return refuse_flat(x, t);
    for (uint32_t i = row + 1; i < part->table.nrows; i++) {
        const uint64_t *offset;
        if (part->table.rows[i].t.part_of != row)
            continue;
        ckpt_status st = torch_get_part_offset(x->f->a, part, row, component++, i, &offset, x->err);
        CKPT_TRY(prefix_where_if_failed(st, t->name, x->err));
        const struct tensor_shard shard = {.part = part, .row = i, .offset = offset};
        CKPT_TRY(sharded_tensors_add(&x->sharded, t->name, t->shape, &shard));
        if (t->kind == CKPT_DTENSOR)
            break; /* the next components belong to its mesh */
    }
    return CKPT_OK;
}

/* add_rank - adds the shards in PART, the file of one of NFILES ranks. */
static ckpt_status add_rank(struct fsdp *x, const ckpt_file *part, size_t nfiles)
{
    for (uint32_t i = 0; i < part->table.nrows; i++) {
        const ckpt_tensor *t = &part->table.rows[i].t;
        if (t->part_of != CKPT_NO_TENSOR)
            continue;
        if (is_sharded(t)) {
            CKPT_TRY(check_ranks(x, part, i, nfiles));
            CKPT_TRY(add_row(x, part, i));
        } else if (file_find(x->first, t->name) == CKPT_NO_TENSOR) {
            file_notice(x->f, "\"%.*s\" of %s is not in the first file, and left out", STR_ARG(t->name),
                        part->path);
        }
    }
    return CKPT_OK;
}

/* replace_nodes - makes each DTensor or ShardedTensor node of rank 0 the node of the complete tensor. */
static void replace_nodes(struct fsdp *x)
{
    struct table *t = &x->first->table;
    for (size_t i = 0; i < t->nrows; i++) {
        ckpt_value *v = (ckpt_value *)(uintptr_t)t->rows[i].t.value;
        uint32_t at = is_sharded(&t->rows[i].t) ? map_get(x->sharded.names, t->rows[i].t.name) : MAP_NONE;
        if (at == MAP_NONE || !v || v->type == CKPT_V_TENSOR)
            continue;
        v->type = CKPT_V_TENSOR; /* the fields of a call are no longer used */
        v->offset = at;
    }
}

static ckpt_status open_ranks(struct fsdp *x, const ckpt_str *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ckpt_file *part;
        CKPT_TRY(part_file_read_pickle(x->f, list[0].ptr, list[i], &part, x->err));
        if (!part)
            continue;
        if (!x->first && n > 1 && !has_sharded(part)) { /* each file is a checkpoint of its own */
            struct folder d;
            folder_scan(x->f->probe->names, x->f->probe->nnames, &d);
            return folder_fail_ambiguous(x->f->folder, folder_count(&d), folder_is_checkpoint, x->err);
        }
        x->first = x->first ? x->first : part;
        ckpt_status st = add_rank(x, part, n);
        CKPT_TRY(name_file_if_failed(st, part->path, x->err));
    }
    return x->first ? CKPT_OK
                    : fail(x->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} file of {=a rank} can be read");
}

static ckpt_status read_all(struct fsdp *x)
{
    ckpt_file *f = x->f;
    ckpt_str *list;
    size_t n;
    struct torch_storages st = {
        .user = &x->sharded, .find = part_graph_find_storage, .object = sharded_tensors_describe};
    CKPT_TRY(folder_list(f->a, f->folder, has_stem, &list, &n, x->err));
    CKPT_TRY(open_ranks(x, list, n));
    CKPT_TRY(sharded_tensors_store(&x->sharded));
    replace_nodes(x);
    CKPT_TRY(part_graph_take(f, x->first, &f->root, x->err));
    f->resolve = part_graph_add_unreferenced;
    part_file_set_step(f, "global_step_");
    f->producer = find_trainer(list[0]) ? str_c(find_trainer(list[0])) : x->first->producer;
    f->ranks.ranks = f->nparts;
    return torch_walk_graph(f, f->root, &st, x->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct fsdp x = {.f = f, .err = err};
    ckpt_status st = sharded_tensors_begin(&x.sharded, f, err);
    if (st == CKPT_OK)
        st = read_all(&x);
    sharded_tensors_end(&x.sharded);
    return st;
}

const struct format format_fsdp = {
    .name = "torch-ranks",
    .title = "torch files of all ranks",
    .probe = probe,
    .read = read,
};
