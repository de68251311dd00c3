/* trainer.c - finds the model in a folder that a trainer has written, which also has optimizer states:
 *
 *   pytorch_model_fsdp_0/ optimizer_0/ …      Accelerate's save_state with FSDP
 *   latest_checkpointed_iteration.txt         verl: the number N of the last step
 *   global_step_N/actor/, …/critic/           the models of step N; Megatron-LM's in …/dist_ckpt
 *   global_step_N/data.pt                     state of the data loader, not read
 *
 * Opening such a folder opens the model in it. Refused: several models, because any could be meant.
 *
 * Sources: accelerate/utils/fsdp_utils.py, verl/trainer/ppo/ray_trainer.py, verl/utils/megatron_utils.py. */
#include <stdlib.h>

#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/foreign.h"
#include "format/parts/part_files.h"
#include "format/registry.h"

#define TRACKER   "latest_checkpointed_iteration.txt"
#define STEP      "global_step_"
#define MAX_DEPTH 4 /* of folders: a step, a model and the folder of its files are three */

/* Folders that have a model: globs of the folder and of a file that must be in it. */
static const struct model_folder {
    const char *folder_glob, *file_glob, *trainer;
} model_folders[] = {
    {"pytorch_model_fsdp_*", ".metadata", "Accelerate"},
    {"actor", "model_world_size_*", "verl"},
    {"actor", "dist_ckpt", "verl"},
    {"critic", "model_world_size_*", "verl"},
    {"critic", "dist_ckpt", "verl"},
    {"dist_ckpt", ".metadata", "verl"},
};

/* find_model_folder - returns the entry of model_folders that the folder NAME in PATH matches, or NULL. Sets
 * *NO_MEMORY if memory ran out. ARCHIVE is as in struct probe. */
static const struct model_folder *find_model_folder(const source *archive, const char *path, ckpt_str name,
                                                    bool *no_memory)
{
    for (size_t i = 0; i < sizeof model_folders / sizeof *model_folders; i++) {
        if (!ckpt_glob_match(str_c(model_folders[i].folder_glob), name))
            continue;
        char *inner = path_make(str_c(path), name);
        bool found = inner && folder_has(archive, inner, model_folders[i].file_glob);
        *no_memory = *no_memory || !inner;
        free(inner);
        if (found)
            return &model_folders[i];
    }
    return NULL;
}

static bool is_step(ckpt_str name) { return str_starts(name, STR_LIT(STEP)); }

static bool is_model_folder(ckpt_str name)
{
    for (size_t i = 0; i < sizeof model_folders / sizeof *model_folders; i++)
        if (ckpt_glob_match(str_c(model_folders[i].folder_glob), name))
            return true;
    return false;
}

static bool tracks_steps(const struct probe *probe)
{
    return probe_has(probe, TRACKER) && probe_matches(probe, is_step);
}

static bool probe(const struct probe *this_probe)
{
    bool found = this_probe->is_folder && tracks_steps(this_probe);
    for (size_t i = 0; this_probe->is_folder && !found && i < this_probe->nnames; i++)
        found = find_model_folder(this_probe->archive, this_probe->path, this_probe->names[i],
                                  this_probe->no_memory) != NULL;
    return found;
}

static bool is_number(ckpt_str word)
{
    uint64_t n;
    return str_uint(word, &n);
}

static ckpt_status enter_tracked_step(ckpt_file *f, ckpt_error *err)
{
    ckpt_str number;
    const struct tracker_file tracker = {TRACKER, "number of a step", is_number, is_step};
    CKPT_TRY(tracker_file_read(f, &tracker, &number, err));
    ckpt_str name = ARENA_CONCAT(f->a, STR_LIT(STEP), number);
    return name.ptr ? tracker_file_enter(f, &tracker, name, err) : fail_memory(err);
}

/* enter_model - changes f->folder to the folder of the model in it, and sets *FOUND_AS to the entry that it
 * matches; to NULL if there is no such folder. */
static ckpt_status enter_model(ckpt_file *f, const struct model_folder **found_as, ckpt_error *err)
{
    ckpt_str *list, found = {"", 0};
    size_t n;
    unsigned count = 0;
    bool no_memory = false;
    CKPT_TRY(folder_list(f, f->folder, is_model_folder, &list, &n, err));
    *found_as = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct model_folder *entry = find_model_folder(f->archive, f->folder, list[i], &no_memory);
        count += entry != NULL;
        found = entry ? list[i] : found;
        *found_as = entry ? entry : *found_as;
    }
    if (no_memory)
        return fail_memory(err);
    if (count < 2)
        return count ? part_file_enter(f, found, err) : CKPT_OK;
    return folder_fail_ambiguous(f->archive, f->folder, count, is_model_folder, err);
}

/* read_model - makes f->folder the path of F and reads it, in the format that is recognized there. */
static ckpt_status read_model(ckpt_file *f, ckpt_error *err)
{
    struct probe *p = f->opening->probe;
    ckpt_str *names;
    CKPT_TRY(folder_list_all(f, f->folder, &names, &p->nnames, err));
    p->names = names;
    char *path = strdup(f->folder);
    CKPT_TRY_ALLOC(path, err);
    free(f->path);
    f->folder = f->path = path;
    p->path = path;
    const struct format *format = format_recognize(p);
    if (*p->no_memory)
        return fail_memory(err);
    if (!format || format == f->format) /* a trainer folder again: no trainer nests folders so deep */
        return format_fail_unrecognized(p, err);
    f->format = format;
    return format->read(f, err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    const char *trainer = "verl"; /* verl writes the tracker file */
    const struct model_folder *found_as;
    ckpt_status st = tracks_steps(f->opening->probe) ? enter_tracked_step(f, err) : CKPT_OK;
    for (unsigned depth = 0; st == CKPT_OK && depth < MAX_DEPTH; depth++) {
        st = enter_model(f, &found_as, err);
        if (st != CKPT_OK || !found_as)
            break;
        trainer = found_as->trainer;
    }
    CKPT_THEN(st, read_model(f, err));
    CKPT_TRY(name_file_if_failed(st, f->folder, err));
    part_file_set_step(f, STEP);
    f->producer = str_c(trainer);
    return CKPT_OK;
}

const struct format format_trainer = {
    .name = "trainer", .title = "folder of a trainer", .probe = probe, .read = read};
