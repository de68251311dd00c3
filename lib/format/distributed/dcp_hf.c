/* dcp_hf.c - reads Distributed Checkpoints in the form of Hugging Face: a folder of safetensors files, each
 * with shards of tensors.
 *
 *   shard-RRRRR-model-IIIII-of-NNNNN.safetensors   file I of N of rank R - 1; I and R count from 1
 *   __metadata__: {"DCP_SHARDING_INFO": JSON text {"NAME": {"saved_offsets": [0, 4]}, …}, …}
 *
 * The shape of a complete tensor is in no file: it is taken to be the smallest that contains all shards.
 * Source: torch/distributed/checkpoint/hf_storage.py. Refused: a missing file or rank, shards that overlap
 * or leave a gap in their tensor. */
#include <inttypes.h>

#include "codec/json_scan.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/graph/walk.h"
#include "format/parts/part_files.h"
#include "format/parts/sharded_tensors.h"

/* parse_name - sets NUMBER to the rank, the index and the count in NAME. False: NAME has a different form. */
static bool parse_name(ckpt_str name, uint64_t number[3])
{
    return part_name_skip(&name, "shard-", &number[0]) && part_name_skip(&name, "-model-", &number[1]) &&
           part_name_skip(&name, "-of-", &number[2]) && str_is(name, ".safetensors");
}

static bool is_shard(ckpt_str name)
{
    uint64_t number[3];
    return parse_name(name, number);
}

static bool probe(const struct probe *this_probe)
{
    struct folder d;
    folder_scan(this_probe->names, this_probe->nnames, &d);
    return probe_matches(this_probe, is_shard) && !d.nindexes && !d.nsingle;
}

/* check_complete - refuses the sorted LIST of COUNT files if it has a gap. Salvage reports gaps by tensor. */
static ckpt_status check_complete(const ckpt_file *f, const ckpt_str *list, size_t count, ckpt_error *err)
{
    uint64_t rank = 1, file = 1; /* of the name that comes next if none is missing */
    uint64_t number[3];          /* in the name: rank, file and count of files */
    size_t i = 0;
    for (; i < count && parse_name(list[i], number) && number[0] == rank && number[1] == file; i++) {
        rank += number[1] >= number[2];
        file = number[1] >= number[2] ? 1 : file + 1;
    }
    if (f->salvage || (i == count && file == 1))
        return CKPT_OK;
    ckpt_str next = i < count ? list[i] : str_of("", 0);
    return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                "{=file %" PRIu64 " of rank %" PRIu64 "} is {missing}%s%.*s\n"
                "put all files of the save into the folder",
                file, rank - 1, next.len ? ", which precedes " : "", STR_ARG(next));
}

/* read_saved_offsets - reads the saved_offsets of TENSOR to OFFSET. If TENSOR is NULL, only skips them. */
static ckpt_status read_saved_offsets(json_scan *scan, const ckpt_tensor *tensor, uint64_t *offset)
{
    enum json_event e;
    uint32_t n = 0;
    CKPT_TRY(json_expect(scan, JSON_ARRAY, "\"saved_offsets\"", "an array"));
    while ((e = json_next(scan)) == JSON_NUMBER) {
        uint64_t v;
        if (!json_get_uint(scan, &v) || (tensor && n == tensor->ndim))
            return json_fail(scan,
                             "\"saved_offsets\" with {other or more numbers} than {=one for each dimension}");
        if (tensor)
            offset[n] = v;
        n++;
    }
    if (e != JSON_ARRAY_END)
        return json_unexpected(scan, e, "\"saved_offsets\"", "numbers");
    return !tensor || n == tensor->ndim
               ? CKPT_OK
               : json_fail(scan, "\"saved_offsets\" with {fewer numbers} than {=one for each dimension}");
}

/* read_sharding_info - reads DCP_SHARDING_INFO: sets OFFSET[I] to the saved_offsets of row I of PART. */
static ckpt_status read_sharding_info(ckpt_file *f, ckpt_file *part, json_scan *scan, const uint64_t **offset)
{
    enum json_event e;
    CKPT_TRY(json_expect(scan, JSON_OBJECT, "DCP_SHARDING_INFO", "an object"));
    while ((e = json_next(scan)) == JSON_KEY) {
        uint32_t row = file_find_tensor(part, scan->str);
        const ckpt_tensor found = row == CKPT_NO_TENSOR ? (ckpt_tensor){0} : table_tensor(&part->table, row);
        const ckpt_tensor *t = row == CKPT_NO_TENSOR ? NULL : &found;
        uint64_t *at = t ? arena_array(f->a, t->ndim, sizeof *at) : NULL;
        if (t && !at)
            return CKPT_ENOMEM;
        CKPT_TRY(json_expect(scan, JSON_OBJECT, "an entry of DCP_SHARDING_INFO", "an object"));
        while ((e = json_next(scan)) == JSON_KEY) {
            if (!str_is(scan->str, "saved_offsets")) {
                CKPT_TRY(json_skip(scan, json_next(scan)));
                continue;
            }
            CKPT_TRY(read_saved_offsets(scan, t, at));
            if (t)
                offset[row] = at;
        }
        if (e != JSON_OBJECT_END)
            return json_unexpected(scan, e, "an entry of DCP_SHARDING_INFO", "a key");
    }
    return e == JSON_OBJECT_END ? CKPT_OK : json_unexpected(scan, e, "DCP_SHARDING_INFO", "a key");
}

static ckpt_status add_shards_of_file(struct sharded_tensors *all, ckpt_file *part)
{
    ckpt_file *f = all->f;
    ckpt_str text;
    json_scan j;
    const uint64_t **offset = arena_array(f->a, part->table.nrows, sizeof *offset);
    CKPT_TRY_ALLOC(offset, all->err);
    if (part->metadata && value_text(value_get(part->metadata, "DCP_SHARDING_INFO"), &text)) {
        json_init(&j, text, 0, f->a, all->err);
        ckpt_status st = read_sharding_info(f, part, &j, offset);
        if (st != CKPT_OK) {
            error_add_where(all->err, "DCP_SHARDING_INFO");
            return st == CKPT_ENOMEM ? fail_memory(all->err) : st;
        }
    }
    for (uint32_t i = 0; i < part->table.nrows - part->nties; i++) {
        const ckpt_tensor t = table_tensor(&part->table, i);
        if (!offset[i] && !(offset[i] = arena_array(f->a, t.ndim, sizeof **offset)))
            return fail_memory(all->err);
        const struct tensor_shard shard = {.part = part, .row = i, .offset = offset[i]};
        CKPT_TRY(sharded_tensors_add(all, t.name, NULL, &shard));
    }
    return CKPT_OK;
}

static ckpt_status read_shards(struct sharded_tensors *all)
{
    ckpt_file *f = all->f, *part;
    ckpt_str *list;
    size_t n;
    CKPT_TRY(folder_list(f, f->folder, is_shard, &list, &n, all->err));
    CKPT_TRY(check_complete(f, list, n, all->err));
    for (size_t i = 0; i < n; i++) {
        CKPT_TRY(part_file_read(f, list[0].ptr, list[i], &part, all->err));
        ckpt_status st = part ? add_shards_of_file(all, part) : CKPT_OK;
        CKPT_TRY(name_file_if_failed(st, part ? part->path : "", all->err));
    }
    uint64_t last[3] = {0, 0, 0}; /* in the last name; the first, its rank, is the number of ranks */
    if (n)
        (void)parse_name(list[n - 1], last);
    f->ranks.ranks = last[0];
    return CKPT_OK;
}

static ckpt_status make_flat_root(struct sharded_tensors *all)
{
    ckpt_file *f = all->f;
    f->root = value_new(f->a, CKPT_V_DICT, 0);
    for (size_t i = 0; f->root && i < all->ntensors; i++) {
        ckpt_value *key = value_str(f->a, all->tensors[i].joined.name),
                   *v = value_new(f->a, CKPT_V_TENSOR, i);
        CKPT_TRY_ALLOC(key && v && value_put(f->a, f->root, key, v), all->err);
    }
    return f->root ? CKPT_OK : fail_memory(all->err);
}

static ckpt_status read_all(struct sharded_tensors *all)
{
    struct graph_input input = {
        .user = all, .describe_node = sharded_tensors_describe, .has_text_keys = true};
    CKPT_TRY(read_shards(all));
    CKPT_TRY(sharded_tensors_store(all));
    CKPT_TRY(make_flat_root(all));
    return graph_walk(all->f, all->f->root, &input, all->err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct sharded_tensors all;
    ckpt_status st = sharded_tensors_begin(&all, f, err);
    f->dots_are_literal = true;
    CKPT_THEN(st, read_all(&all));
    f->producer = STR_LIT("torch.distributed.checkpoint");
    sharded_tensors_end(&all);
    return st;
}

const struct format format_dcp_hf = {.name = "torch-dcp-hf",
                                     .title = "PyTorch Distributed Checkpoint in Hugging Face form",
                                     .flat = true,
                                     .probe = probe,
                                     .read = read};
