/* deepspeed_files.c - finds the last save in a folder of DeepSpeed, and the kind of each file by its name
 * (deepspeed/runtime/engine.py, runtime/pipe/module.py, checkpoint/ds_to_universal.py).
 *
 *   latest              text: the name of the folder of the last save; latest_universal: of a universal save
 *   TAG/…_states.pt     files whose names give their enum ds_kind (deepspeed.h)
 *   TAG/zero/           universal checkpoints: a folder for each parameter
 *
 * Refused: a tag that leads out of the folder or to nothing. */
#include <stdlib.h>
#include <sys/stat.h>

#include "format/distributed/deepspeed.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/parts/part_files.h"

static const char *const trackers[] = {"latest", "latest_universal"};

static enum ds_kind parse_layer_name(ckpt_str text, struct ds_file *file)
{
    if (!part_name_skip(&text, "layer_", &file->layer))
        return DS_OTHER;
    if (part_name_skip(&text, "_expert_", &file->expert))
        return part_name_skip(&text, "_mp_rank_", &file->mp_rank) && str_is(text, "_model_states.pt")
                   ? DS_EXPERT
                   : DS_OTHER;
    (void)part_name_skip(&text, "-model_", &file->mp_rank);
    return str_is(text, "-model_states.pt") ? DS_LAYER : DS_OTHER;
}

/* parse_name - returns the kind of the file named TEXT and sets the numbers of FILE. */
static enum ds_kind parse_name(ckpt_str text, struct ds_file *file)
{
    if (str_starts(text, STR_LIT("layer_")))
        return parse_layer_name(text, file);
    if (part_name_skip(&text, "expert_", &file->expert))
        return part_name_skip(&text, "_mp_rank_", &file->mp_rank) && str_is(text, "_model_states.pt")
                   ? DS_EXPERT
                   : DS_OTHER;
    if (part_name_skip(&text, "expp_rank_", &file->expert))
        return part_name_skip(&text, "_mp_rank_", &file->mp_rank) && str_is(text, "_optim_states.pt")
                   ? DS_EXPERT_OPTIM
                   : DS_OTHER;
    bool prefixed = str_starts(text, STR_LIT("bf16_")) || str_starts(text, STR_LIT("fp16_"));
    text = str_skip(text, prefixed ? strlen("bf16_") : 0);
    file->has_dp_rank = part_name_skip(&text, "zero_pp_rank_", &file->dp_rank);
    if (!part_name_skip(&text, file->has_dp_rank ? "_mp_rank_" : "mp_rank_", &file->mp_rank))
        return DS_OTHER;
    if (file->has_dp_rank && str_is(text, "_optim_states.pt"))
        return DS_OPTIM;
    return !prefixed && str_is(text, "_model_states.pt") ? DS_MODEL : DS_OTHER;
}

static bool is_file_of_save(ckpt_str name)
{
    struct ds_file f = {.layer = 0};
    return parse_name(name, &f) != DS_OTHER;
}

static bool is_file_of_rank(ckpt_str name)
{
    struct ds_file f = {.layer = 0};
    enum ds_kind kind = parse_name(name, &f);
    return kind == DS_MODEL || kind == DS_OPTIM;
}

/* find_tracker - returns the name of the file in PROBE that names the last save, or NULL. */
static const char *find_tracker(const struct probe *probe)
{
    for (size_t i = 0; i < sizeof trackers / sizeof *trackers; i++) {
        source *src = probe_open(probe, trackers[i]);
        source_unref(src);
        if (src)
            return trackers[i];
    }
    return NULL;
}

bool ds_is_folder(const struct probe *probe)
{
    return find_tracker(probe) || probe_matches(probe, is_file_of_rank);
}

/* check_tag - checks that TAG, which the file TRACKER names, is a folder in the folder of F. */
static ckpt_status check_tag(const ckpt_file *f, const char *tracker, ckpt_str tag, ckpt_error *err)
{
    char *path = path_make(str_c(f->path), tag);
    bool outside = path_is_unsafe(tag), exists = path && !outside && path_is_folder(f->archive, path);
    free(path);
    if (exists)
        return CKPT_OK;
    CKPT_TRY_ALLOC(path, err);
    (void)fail(err, outside ? CKPT_EFORMAT : CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               outside ? "%s names {a folder outside of} {=this one}: \"%.*s\""
                       : "%s names the folder \"%.*s\", which is {not} {=here}\n"
                         "that save was deleted, or not copied; name the folder of a different save",
               tracker, STR_ARG(tag));
    return name_file_if_failed(err->status, f->path, err);
}

/* add_names - adds the COUNT files in LIST, which are in the folder of the save, to SAVE. */
static ckpt_status add_names(ckpt_file *f, struct ds_save *save, const ckpt_str *list, size_t count)
{
    save->files = arena_array(f->a, count, sizeof *save->files);
    for (size_t i = 0; save->files && i < count; i++) {
        struct ds_file *file = &save->files[save->nfiles++];
        file->kind = parse_name(list[i], file);
        file->name = save->tag.len ? ARENA_CONCAT(f->a, save->tag, STR_LIT("/"), list[i])
                                   : list[i]; /* a tag has at most TRACKER_FILE_MAX bytes, a name 255 */
        if (!file->name.ptr)
            return CKPT_ENOMEM;
    }
    return save->files ? CKPT_OK : CKPT_ENOMEM;
}

static ckpt_status list_save(ckpt_file *f, struct ds_save *save, ckpt_error *err)
{
    ckpt_str *list;
    size_t n;
    char *path = path_make(str_c(f->path), save->tag);
    ckpt_status st = path ? folder_list(f, path, is_file_of_save, &list, &n, err) : fail_memory(err);
    char *zero = path ? path_make(str_c(path), STR_LIT("zero")) : NULL;
    save->universal = zero && path_is_folder(f->archive, zero);
    if (st == CKPT_OK && !zero)
        st = fail_memory(err);
    free(zero);
    if (st == CKPT_OK && add_names(f, save, list, n) != CKPT_OK)
        st = fail_memory(err);
    if (st == CKPT_OK && !n && !save->universal) {
        st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                  "{no} {=*_model_states.pt} is in the folder\n"
                  "the save did not finish, or was not copied completely");
        error_add_file(err, path);
    }
    free(path);
    return st;
}

const struct ds_file *ds_next_file(const struct ds_save *save, enum ds_kind kind, uint64_t mp,
                                   const struct ds_file *after)
{
    for (size_t i = after ? (size_t)(after - save->files) + 1 : 0; i < save->nfiles; i++)
        if (save->files[i].kind == kind && (mp == DS_ANY_RANK || save->files[i].mp_rank == mp))
            return &save->files[i];
    return NULL;
}

ckpt_status ds_find_save(ckpt_file *f, struct ds_save *out, ckpt_error *err)
{
    const char *tracker = find_tracker(f->opening->probe);
    *out = (struct ds_save){.tag = str_of("", 0), .trusted = tracker};
    if (tracker) {
        const struct tracker_file file = {.name = tracker,
                                          .expected = "name of a folder in at most 4096 bytes"};
        CKPT_TRY(tracker_file_read(f, &file, &out->tag, err));
        CKPT_TRY(check_tag(f, tracker, out->tag, err));
    }
    CKPT_TRY(list_save(f, out, err));
    if (!tracker)
        out->trusted = out->nfiles ? out->files[0].name.ptr : NULL;
    return CKPT_OK;
}
