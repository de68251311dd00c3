/*
 * megatron.c - reads Megatron-LM's distributed checkpoints of its back end zarr, which NeMo's .nemo may
 * have, too:
 *
 *   metadata.json               {"sharded_backend": "zarr", …}
 *   KEY/.zarray, KEY/0.0 …      a tensor: an array of Zarr, version 2, of which all chunks are written
 *   KEY/shard_OFFSET_SHAPE.pt   a value that is no tensor, of the rank at OFFSET, by torch.save
 *   common.pt                   the other values (parts/companion_values.c)
 *
 * A value is called by its path without the suffix, as in the back end torch_dist. Refused: a missing chunk,
 * and chunks without .zarray. A notice reports that common.pt is missing, which Megatron-LM would refuse.
 * Source: megatron/core/dist_checkpointing/strategies/zarr.py and common.py.
 */
#include "codec/zarr.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/parts/companion_values.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"
#include "format/zarr/arrays.h"

#define METADATA "metadata.json"
#define COMMON   "common.pt"

struct megatron_zarr {
    struct zarr_arrays arrays;
    struct store store;
    ckpt_value *root;
    ckpt_str array_folder; /* of the last array that was read; empty: none */
};

static bool probe(const struct probe *this_probe)
{
    return this_probe->is_folder && probe_has(this_probe, METADATA) &&
           folder_file_has(this_probe->archive, this_probe->path, METADATA, "\"sharded_backend\": \"zarr\"");
}

static ckpt_status put_node(struct megatron_zarr *zarr, ckpt_str name, ckpt_value *node)
{
    arena *a = zarr->arrays.f->a;
    ckpt_value *key = node ? value_str(a, name) : NULL;
    return !node || (key && value_put(a, zarr->root, key, node)) ? CKPT_OK : fail_memory(zarr->arrays.err);
}

/* read_value - reads the file KEY, a value by torch.save. */
static ckpt_status read_value(struct megatron_zarr *zarr, ckpt_str key, ckpt_value **node)
{
    ckpt_file *part, *f = zarr->arrays.f;
    *node = NULL;
    CKPT_TRY(part_file_read_pickle(f, METADATA, key, &part, zarr->arrays.err));
    return part ? part_graph_take(f, part, node, zarr->arrays.err)
                : CKPT_OK; /* NULL: its fault was reported */
}

/* is_chunk - returns true if KEY, in FOLDER, has the name of a chunk: 0, 1.0, … */
static bool is_chunk(ckpt_str key, ckpt_str folder)
{
    bool is_number = folder.len && key.len > folder.len;
    for (size_t i = folder.len; is_number && i < key.len; i++)
        is_number = key.ptr[i] == '.' ? i > folder.len : key.ptr[i] >= '0' && key.ptr[i] <= '9';
    return is_number;
}

/* begins_array - returns true if KEY, in FOLDER, is the first that shows that FOLDER is an array: .zarray, or
 * a chunk where that is missing, because .zarray sorts before all chunks. */
static bool begins_array(const struct megatron_zarr *zarr, ckpt_str key, ckpt_str folder)
{
    if (str_ends(key, STR_LIT("/" ZARR_V2)))
        return true;
    return is_chunk(key, folder) && !(zarr->array_folder.len && str_starts(key, zarr->array_folder));
}

/* read_array - reads the array in FOLDER. */
static ckpt_status read_array(struct megatron_zarr *zarr, ckpt_str folder)
{
    ckpt_value *node = NULL;
    ckpt_str tensor = arena_str(zarr->arrays.f->a, str_of(folder.ptr, folder.len - 1));
    const struct zarr_source from = {&zarr->store, folder, tensor, MISSING_FAULT};
    zarr->array_folder = folder;
    CKPT_TRY(tensor.ptr ? zarr_add_array(&zarr->arrays, &from, &node) : fail_memory(zarr->arrays.err));
    return put_node(zarr, tensor, node);
}

/* read_entry - reads the file KEY, if it shows that there is an array, or is a value. */
static ckpt_status read_entry(struct megatron_zarr *zarr, ckpt_str key)
{
    const ckpt_str suffix = STR_LIT(".pt");
    ckpt_value *node = NULL;
    ckpt_str folder = str_folder(key), name = str_skip(key, folder.len);
    if (begins_array(zarr, key, folder))
        return read_array(zarr, folder);
    if (!folder.len || !str_starts(name, STR_LIT("shard_")) || !str_ends(name, suffix))
        return CKPT_OK;
    CKPT_TRY(read_value(zarr, key, &node));
    return put_node(zarr, str_of(key.ptr, key.len - suffix.len), node);
}

/* report_no_common - reports that common.pt, which Megatron-LM always writes, is missing: the tensors can be
 * read without it. */
static ckpt_status report_no_common(struct megatron_zarr *zarr)
{
    ckpt_file *f = zarr->arrays.f;
    if (!f->check) {
        f->leaves_out = true;
        file_notice(f, COMMON " is missing, and with it the arguments, the iteration and other values");
        return CKPT_OK;
    }
    (void)fail(zarr->arrays.err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               "{no} {=" COMMON "}, and with it no arguments, iteration and other values\n"
               "copy it, too: Megatron-LM does not load the checkpoint without it");
    return part_file_accept_missing(f, zarr->arrays.err);
}

static ckpt_status read_all(struct megatron_zarr *zarr)
{
    ckpt_file *f = zarr->arrays.f;
    f->root = zarr->root = value_new(f->a, CKPT_V_DICT, 0);
    CKPT_TRY_ALLOC(zarr->root, zarr->arrays.err);
    CKPT_TRY(store_open(&zarr->store, false));
    for (size_t i = 0; i < zarr->store.db.n; i++) {
        ckpt_str key = zarr->store.db.entries[i].key;
        CKPT_TRY(file_report_lost(f, read_entry(zarr, key), key, zarr->arrays.err));
    }
    if (!folder_has(f->archive, f->folder, COMMON))
        CKPT_TRY(report_no_common(zarr));
    CKPT_TRY(companion_values_read(f, METADATA, zarr->arrays.err));
    part_file_set_step(f, "iter_");
    f->producer = STR_LIT("Megatron-LM");
    f->add_opaque_storages = part_graph_add_unreferenced;
    return zarr_arrays_make_graph(&zarr->arrays, zarr->root);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct megatron_zarr m = {.store = {.f = f, .err = err, .folder = {"", 0}, .trusted = METADATA}};
    ckpt_status st = zarr_arrays_begin(&m.arrays, f, err);
    CKPT_THEN(st, read_all(&m));
    store_close(&m.store);
    zarr_arrays_end(&m.arrays);
    return st;
}

const struct format format_megatron_zarr = {
    .name = "megatron-zarr", .title = "Megatron-LM checkpoint of Zarr", .probe = probe, .read = read};
