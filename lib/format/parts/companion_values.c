/* companion_values.c - reads values that a trainer keeps in a file of its own, next to the checkpoint:
 *
 *   meta.pt      Lightning: everything except `model` and `optimizer_N`, which are distributed
 *   common.pt    Megatron-LM's torch_dist: args, iteration, param_groups; newer releases have this dict in
 *                the checkpoint itself, under the name COMMON, instead
 *
 * Both are dicts saved by torch.save. Lightning (fabric/utilities/load.py) and Megatron-LM
 * (core/dist_checkpointing/serialization.py) merge them with the distributed state dict in the same way. */
#include "format/parts/companion_values.h"

#include "core/check.h"
#include "format/files/folder.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"

#define COMMON "common_state/shard_0_1" /* a list whose only item is the dict */

/* put_values - adds each pair of VALUES, the dict in the file NAME, to f->root, unless KEYS has its key. */
static ckpt_status put_values(ckpt_file *f, const char *name, const ckpt_value *values, map *keys,
                              ckpt_error *err)
{
    uint32_t n, before;
    ckpt_str key;
    const value_pair *pairs = value_pairs(values, &n);
    for (uint32_t i = 0; i < n; i++) {
        before = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, 0, &before))
            return fail_memory(err);
        if (before != MAP_NONE)
            file_notice(f, "the value \"%.*s\" of %s is left out: the checkpoint itself has that key",
                        STR_ARG(key), name);
        else if (!value_put(f->a, f->root, pairs[i].key, pairs[i].val))
            return fail_memory(err);
    }
    return CKPT_OK;
}

static ckpt_status set_step_and_producer(ckpt_file *f, const ckpt_value *values, ckpt_error *err)
{
    ckpt_str version;
    int64_t step;
    if ((value_integer(value_get(values, "global_step"), &step) ||
         value_integer(value_get(values, "iteration"), &step)) &&
        step >= 0) {
        f->ranks.has_step = true;
        f->ranks.step = (uint64_t)step;
    }
    if (!value_text(value_get(values, "pytorch-lightning_version"), &version))
        return CKPT_OK;
    f->producer = ARENA_CONCAT(f->a, STR_LIT("Lightning "), version);
    return f->producer.ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status read_file(ckpt_file *f, const char *trusted, const char *name, ckpt_error *err)
{
    ckpt_file *part;
    ckpt_value *values;
    CKPT_TRY(part_file_read_pickle(f, trusted, str_c(name), &part, err));
    if (!part) /* its faults were reported */
        return CKPT_OK;
    CKPT_TRY(part_graph_take(f, part, &values, err));
    map *keys = value_index_keys(f->root);
    ckpt_status st = keys ? put_values(f, name, values, keys, err) : fail_memory(err);
    map_free(keys);
    return st == CKPT_OK ? set_step_and_producer(f, values, err) : st;
}

ckpt_status companion_values_read(ckpt_file *f, const char *trusted, ckpt_error *err)
{
    static const char *const names[] = {"meta.pt", "common.pt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool exists = folder_has(f->archive, f->folder, names[i]);
        ckpt_status st = exists ? read_file(f, trusted, names[i], err) : CKPT_OK;
        if (st != CKPT_OK && !(f->salvage && check_is_fault(st)))
            return st;
        if (st != CKPT_OK)
            file_note_loss(f, "%s is lost: %s", names[i], err->what);
    }
    return set_step_and_producer(f, value_item(value_get(f->root, COMMON), 0), err);
}
