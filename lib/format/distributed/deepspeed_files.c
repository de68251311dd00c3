/* deepspeed_files.c - the files of a save of DeepSpeed: which one is meant, and what each of them is by its
 * name (deepspeed/runtime/engine.py, runtime/pipe/module.py, checkpoint/ds_to_universal.py).
 *
 *   latest              text: the name of the folder of the last save; latest_universal: of a universal one
 *   TAG/…_states.pt     enum ds_kind, in deepspeed.h
 *   TAG/zero/           universal checkpoints: a folder for each parameter
 *
 * Refused: a tag that leads out of the folder or to nothing. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "format/distributed/deepspeed.h"
#include "format/distributed/rank_files.h"
#include "format/folder.h"
#include "format/hub/shards.h"

static const char *const pointers[] = {"latest", "latest_universal"};

/* ------------------------------------------------------------------------ names */

/* take_text - removes TEXT from the start of S, if it is there. */
static bool take_text(ckpt_str *s, const char *text)
{
    bool is = str_starts(*s, str_c(text));
    *s = is ? str_skip(*s, strlen(text)) : *s;
    return is;
}

static bool take_number(ckpt_str *s, uint64_t *out)
{
    size_t n = 0;
    while (n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9')
        n++;
    bool is = n && str_uint(str_of(s->ptr, n), out);
    *s = is ? str_skip(*s, n) : *s;
    return is;
}

/* take_rank - TEXT and a number. */
static bool take_rank(ckpt_str *s, const char *text, uint64_t *out)
{
    return take_text(s, text) && take_number(s, out);
}

static enum ds_kind kind_of_layer(ckpt_str s, struct ds_file *f)
{
    if (!take_rank(&s, "layer_", &f->layer))
        return DS_OTHER;
    if (take_rank(&s, "_expert_", &f->expert))
        return take_rank(&s, "_mp_rank_", &f->mp) && str_is(s, "_model_states.pt") ? DS_EXPERT : DS_OTHER;
    (void)take_rank(&s, "-model_", &f->mp);
    return str_is(s, "-model_states.pt") ? DS_LAYER : DS_OTHER;
}

/* kind_of - what the file F is by its name, S, which has no folder. */
static enum ds_kind kind_of(ckpt_str s, struct ds_file *f)
{
    if (str_starts(s, STR_LIT("layer_")))
        return kind_of_layer(s, f);
    if (take_rank(&s, "expert_", &f->expert))
        return take_rank(&s, "_mp_rank_", &f->mp) && str_is(s, "_model_states.pt") ? DS_EXPERT : DS_OTHER;
    if (take_rank(&s, "expp_rank_", &f->expert))
        return take_rank(&s, "_mp_rank_", &f->mp) && str_is(s, "_optim_states.pt") ? DS_EXPERT_OPTIM
                                                                                   : DS_OTHER;
    bool prefixed = take_text(&s, "bf16_") || take_text(&s, "fp16_");
    f->ranked = take_rank(&s, "zero_pp_rank_", &f->dp);
    if (!take_rank(&s, f->ranked ? "_mp_rank_" : "mp_rank_", &f->mp))
        return DS_OTHER;
    if (f->ranked && str_is(s, "_optim_states.pt"))
        return DS_OPTIM;
    return !prefixed && str_is(s, "_model_states.pt") ? DS_MODEL : DS_OTHER;
}

static bool is_of_save(ckpt_str name)
{
    struct ds_file f = {.layer = 0};
    return kind_of(name, &f) != DS_OTHER;
}

static bool is_of_rank(ckpt_str name)
{
    struct ds_file f = {.layer = 0};
    enum ds_kind kind = kind_of(name, &f);
    return kind == DS_MODEL || kind == DS_OPTIM;
}

/* ---------------------------------------------------------------------- folders */

/* pointer_of - the name of the file in the folder P that names the last save, or NULL. */
static const char *pointer_of(const struct probe *p)
{
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        source *src = probe_open(p, pointers[i]);
        source_unref(src);
        if (src)
            return pointers[i];
    }
    return NULL;
}

bool ds_is_folder(const struct probe *p) { return pointer_of(p) || probe_matches(p, is_of_rank); }

/* check_tag - TAG, which the file POINTER has, must be a folder here. */
static ckpt_status check_tag(const ckpt_file *f, const char *pointer, ckpt_str tag, ckpt_error *err)
{
    char *path = shards_join_path(str_c(f->path), tag);
    struct stat is;
    bool leaves = rank_file_leaves(tag),
         there = path && !leaves && stat(path, &is) == 0 && S_ISDIR(is.st_mode);
    free(path);
    if (there)
        return CKPT_OK;
    if (!path)
        return fail_memory(err);
    (void)fail(err, leaves ? CKPT_EFORMAT : CKPT_ENOTFOUND, CKPT_NO_OFFSET,
               leaves ? "%s names {a place outside of} {=the folder}: \"%.*s\""
                      : "%s names the folder \"%.*s\", which is {not} {=here}",
               pointer, STR_ARG(tag));
    if (!leaves)
        fail_hint(err, "that save was deleted, or not copied; name the folder of another one");
    fail_file(err, f->path);
    return err->status;
}

/* ------------------------------------------------------------------------- list */

/* add_names - what LIST has, N names in the folder of the save. */
static ckpt_status add_names(ckpt_file *f, struct ds_save *s, const ckpt_str *list, size_t n)
{
    s->file = arena_array(f->a, n, sizeof *s->file);
    for (size_t i = 0; s->file && i < n; i++) {
        struct ds_file *one = &s->file[s->n++];
        one->kind = kind_of(list[i], one);
        one->name = s->tag.len ? arena_printf(f->a, "%.*s/%.*s", (int)s->tag.len, s->tag.ptr,
                                              (int)list[i].len, list[i].ptr)
                               : list[i]; /* bounded: a tag has at most RANK_WORD_MAX bytes, a name 255 */
        if (!one->name.ptr)
            return CKPT_ENOMEM;
    }
    return s->file ? CKPT_OK : CKPT_ENOMEM;
}

static ckpt_status list_save(ckpt_file *f, struct ds_save *s, ckpt_error *err)
{
    ckpt_str *list;
    size_t n;
    char *path = shards_join_path(str_c(f->path), s->tag);
    ckpt_status st = path ? folder_list(f->a, path, is_of_save, &list, &n, err) : fail_memory(err);
    char *zero = path ? shards_join_path(str_c(path), STR_LIT("zero")) : NULL;
    s->universal = zero && source_is_folder(zero);
    if (st == CKPT_OK && !zero)
        st = fail_memory(err);
    free(zero);
    if (st == CKPT_OK && add_names(f, s, list, n) != CKPT_OK)
        st = fail_memory(err);
    if (st == CKPT_OK && !n && !s->universal) {
        st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{no} {=*_model_states.pt} is in the folder");
        fail_hint(err, "the save did not finish, or was not copied whole");
        fail_file(err, path);
    }
    free(path);
    return st;
}

ckpt_status ds_find_save(ckpt_file *f, struct ds_save *out, ckpt_error *err)
{
    const char *pointer = pointer_of(f->probe);
    *out = (struct ds_save){.tag = str_of("", 0), .like = pointer};
    if (pointer) {
        const struct rank_word word = {.file = pointer, .what = "name of a folder of up to 4096 bytes"};
        CKPT_TRY(rank_file_word(f, &word, &out->tag, err));
        CKPT_TRY(check_tag(f, pointer, out->tag, err));
    }
    CKPT_TRY(list_save(f, out, err));
    if (!pointer)
        out->like = out->n ? out->file[0].name.ptr : NULL;
    return CKPT_OK;
}
