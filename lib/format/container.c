/*
 * container.c - reads a checkpoint that is a member, or a folder of members, of a zip or tar archive, which
 * may be compressed:
 *
 *   NeMo's .nemo               tar or tar.gz: model_config.yaml, model_weights.ckpt, tokenizers; or in place
 *                              of model_weights.ckpt a folder model_weights/ with a distributed checkpoint
 *   Stable-Baselines3's .zip   data (JSON), policy.pth, policy.optimizer.pth, pytorch_variables.pth
 *   any other                  a checkpoint with its usual suffix; a folder with a file that shows that its
 *                              files are one checkpoint: an index of shards, a shard, .metadata, .zgroup …
 *
 * FILE!MEMBER names a member or a folder. FILE itself is the weights of NeMo or Stable-Baselines3, else the
 * only such member or folder, apart from the companions of weights, such as optimizer.pt. Which that is
 * depends on the names alone; its content is then recognized like that of a file or folder on disk.
 *
 * Refused: several such members and folders. Sources: nemo/core/connectors/save_restore_connector.py,
 * NLPSaveRestoreConnector in nemo/collections/nlp/parts/nlp_overrides.py,
 * stable_baselines3/common/save_util.py.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "format/container.h"
#include "format/files/checkpoint_names.h"
#include "format/files/members.h"
#include "format/registry.h"
#include "format/unpack.h"

#define SEPARATOR   '!'
#define NEMO_FOLDER "model_weights" /* of a distributed checkpoint */

/* ------------------------------------------------------------------------- choice */

static bool is_checkpoint(ckpt_str name)
{
    static const char suffixes[] = ".pt .pth .bin .ckpt .safetensors .gguf .h5 .keras .msgpack .npz .onnx "
                                   ".params .pdparams .pdiparams .ptl .pkl .joblib .th";
    return str_matches_word(name, suffixes, str_ends);
}

/* is_companion - returns true for files next to the weights; of a split GGUF, for all files but the first. */
static bool is_companion(ckpt_str name)
{
    struct shard_name s;
    bool is_gguf_part = shard_name_parse(name, &s) && str_is(s.ext, ".gguf");
    return is_gguf_part ? folder_is_later_part(name) : folder_is_companion(name);
}

/* is_apple_double - returns true for files that macOS adds for the attributes of others. */
static bool is_apple_double(ckpt_str name)
{
    ckpt_str last = str_skip(name, str_folder(name).len);
    return str_starts(name, STR_LIT("__MACOSX/")) || str_starts(last, STR_LIT("._"));
}

/* is_preferred - returns true for the weights of NeMo and Stable-Baselines3, which have other checkpoints
 * next to them. */
static bool is_preferred(ckpt_str name)
{
    return str_is(name, "model_weights.ckpt") || str_is(name, NEMO_FOLDER) || str_is(name, "policy.pth");
}

/* shows_checkpoint_folder - returns true if the file NAME shows that all files of a folder, *FOLDER, are one
 * checkpoint, as an index or a shard does. *FOLDER is set even if it returns false. */
static bool shows_checkpoint_folder(ckpt_str name, ckpt_str *folder)
{
    static const char names[] = ".metadata .snapshot_metadata .zarray .zgroup zarr.json manifest.ocdbt "
                                "_METADATA _CHECKPOINT_METADATA saved_model.pb";
    ckpt_str last = str_skip(name, str_folder(name).len);
    *folder = str_folder(name);
    folder->len -= folder->len > 0;
    if (str_starts(name, STR_LIT(NEMO_FOLDER "/")))
        folder->len = strlen(NEMO_FOLDER);
    return folder_is_data_file(last) || folder_shows_model(last) || str_matches_word(last, names, str_eq);
}

/* The folders and members of an archive that may be a checkpoint. */
struct candidates {
    const source *archive;
    map *folders;  /* that are one checkpoint each */
    size_t next;   /* the member to look at next */
    ckpt_str last; /* the name that next_candidate returned last */
};

/* find_folder - sets *FOLDER to the outermost folder of CANDIDATES that NAME is in. False: it is in none.
 * Names of members do not begin with a slash. */
static bool find_folder(const struct candidates *candidates, ckpt_str name, ckpt_str *folder)
{
    *folder = str_of(name.ptr, 0);
    while (map_get(candidates->folders, *folder) == MAP_NONE) {
        size_t slash = str_find(name, STR_LIT("/"), folder->len + (folder->len > 0));
        if (slash == SIZE_MAX)
            return false;
        folder->len = slash;
    }
    return true;
}

static ckpt_status begin(struct candidates *candidates, const source *archive, ckpt_error *err)
{
    ckpt_str folder;
    *candidates = (struct candidates){.archive = archive, .folders = map_new(0)};
    bool ok = candidates->folders != NULL;
    for (size_t i = 0; ok && i < members_count(archive); i++)
        if (shows_checkpoint_folder(members_name(archive, i), &folder))
            ok = map_put(candidates->folders, folder, 0, NULL);
    return ok ? CKPT_OK : fail_memory(err);
}

/* next_candidate - sets *NAME to the next folder or member that may be a checkpoint. The files in such a
 * folder are no candidates themselves. False: there are no more. */
static bool next_candidate(struct candidates *candidates, ckpt_str *name)
{
    while (candidates->next < members_count(candidates->archive)) {
        ckpt_str member = members_name(candidates->archive, candidates->next++);
        bool is_folder = find_folder(candidates, member, name);
        if (!is_folder)
            *name = member;
        /* the files in a folder come one after the other */
        bool may_be_one = is_folder || (is_checkpoint(member) && !is_apple_double(member));
        if (may_be_one && !(candidates->last.ptr && str_eq(candidates->last, *name))) {
            candidates->last = *name;
            return true;
        }
    }
    return false;
}

/* The candidates that an archive may stand for: without companions. */
struct choice {
    ckpt_str first; /* the first of them; the preferred one, if there is one */
    size_t n, npreferred;
};

static ckpt_status choose(const source *archive, struct choice *out, ckpt_error *err)
{
    struct candidates c;
    ckpt_str name;
    *out = (struct choice){.n = 0};
    ckpt_status st = begin(&c, archive, err);
    while (st == CKPT_OK && next_candidate(&c, &name)) {
        if (is_companion(str_skip(name, str_folder(name).len)))
            continue;
        bool preferred = is_preferred(name);
        if (out->n++ == 0 || (preferred && !out->npreferred))
            out->first = name;
        out->npreferred += preferred;
    }
    map_free(c.folders);
    return st;
}

/* join_member - returns PATH!NAME; .ptr NULL: out of memory. The folder of all members is PATH!. */
static ckpt_str join_member(arena *a, const char *path, ckpt_str name)
{
    return ARENA_CONCAT(a, str_c(path), STR_LIT("!"), name.len ? name : STR_LIT("."));
}

/* A list of names in a hint. */
struct shown {
    char text[sizeof((ckpt_error *)0)->hint - 40];
    size_t used, shown, n;
};

static void show(struct shown *shown, arena *a, const char *path, ckpt_str name)
{
    char word[SHELL_WORD_MAX];
    ckpt_str full = join_member(a, path, name);
    const char *text = full.ptr ? shell_path(full.ptr, word) : "FILE!MEMBER";
    shown->n++;
    if (shown->shown + 1 != shown->n || strlen(text) + 3 > sizeof shown->text - shown->used)
        return;
    shown->used += (size_t)snprintf(shown->text + shown->used, sizeof shown->text - shown->used, "%s%s",
                                    shown->shown ? ", " : "", text);
    shown->shown++;
}

/* hint_members - sets the hint of ERR to the members of ARCHIVE, of the name PATH: its checkpoints or, if
 * there is none, all. */
static void hint_members(const source *archive, const char *path, ckpt_error *err)
{
    struct candidates c;
    struct shown s = {.n = 0};
    ckpt_error ignored;
    ckpt_str name;
    arena *a = arena_new(UINT64_C(1) << 26);
    ckpt_status st = begin(&c, archive, &ignored);
    while (a && st == CKPT_OK && next_candidate(&c, &name))
        show(&s, a, path, name);
    for (size_t i = 0; a && st == CKPT_OK && !c.last.ptr && i < members_count(archive); i++)
        show(&s, a, path, members_name(archive, i));
    if (s.shown && s.shown < s.n)
        error_add_hint(err, "name one: %s and %zu more", s.text, s.n - s.shown);
    else if (s.shown)
        error_add_hint(err, "name %s%s", s.n > 1 ? "one: " : "", s.text);
    map_free(c.folders);
    arena_free(a);
}

static ckpt_status fail_unclear(const source *archive, const struct choice *choice, const char *path,
                                ckpt_error *err)
{
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
               "archive with %zu checkpoints: it is not clear which of them is meant", choice->n);
    hint_members(archive, path, err);
    return CKPT_EUSAGE;
}

/* -------------------------------------------------------------------- FILE!MEMBER */

/* unpack_outer - sets *OUT to ARCHIVE, unpacked if it is compressed. */
static ckpt_status unpack_outer(source *archive, source **out, ckpt_error *err)
{
    struct probe *p = calloc(1, sizeof *p);
    ckpt_status st = p ? recognize_fill(p, "", archive, err) : fail_memory(err);
    const struct signature *s = st == CKPT_OK ? recognize_compression(p) : NULL;
    free(p);
    if (st != CKPT_OK || !s || s->kind == SIGN_ZLIB) {
        *out = st == CKPT_OK ? source_ref(archive) : NULL;
        return st;
    }
    uint64_t used;
    st = unpack_head(archive, s, file_max_unpacked(file_or_empty(NULL), archive->size), out, &used, err);
    if (st != CKPT_OK) {
        source_unref(*out);
        *out = NULL;
    }
    return st;
}

/* open_named - sets *OUT to PATH in the archive ARCHIVE, a file of the name FILE: to a member, or to the
 * archive itself if PATH is a folder in it. */
static ckpt_status open_named(source *archive, const char *file, const char *path, source **out,
                              ckpt_error *err)
{
    source *unpacked, *members = NULL;
    CKPT_TRY(unpack_outer(archive, &unpacked, err));
    uint64_t max = file_max_unpacked(file_or_empty(NULL), unpacked->size);
    ckpt_status st = members_open(unpacked, file, max, &members, err);
    if (st == CKPT_OK && members_find(members, path) == MEMBER_FOLDER)
        *out = source_ref(members);
    else if (st == CKPT_OK)
        st = members_open_file(members, path, out, err);
    if (st == CKPT_ENOTFOUND)
        hint_members(members, file, err);
    source_unref(members);
    source_unref(unpacked);
    return st;
}

ckpt_status container_open_path(const char *path, source **out, ckpt_error *err)
{
    ckpt_status st = CKPT_ENOTFOUND;
    ckpt_error ignored;
    *out = NULL;
    for (const char *mark = strchr(path, SEPARATOR); mark && !*out && st == CKPT_ENOTFOUND;
         mark = strchr(mark + 1, SEPARATOR)) {
        source *archive;
        size_t n = (size_t)(mark - path);
        char *file = malloc(n + 1);
        CKPT_TRY_ALLOC(file, err);
        memcpy(file, path, n);
        file[n] = '\0';
        if (n && !source_is_folder(file) && source_file_open(file, &archive, &ignored) == CKPT_OK) {
            st = name_file_if_failed(open_named(archive, file, path, out, err), file, err);
            source_unref(archive);
            if (st == CKPT_ENOTFOUND)
                st = CKPT_EUSAGE; /* the archive is there: its error counts */
        }
        free(file);
    }
    return st;
}

/* ------------------------------------------------------------------------- format */

static bool probe(const struct probe *this_probe)
{
    source *archive;
    ckpt_error why;
    struct choice choice = {.n = 0};
    if (this_probe->is_folder || (!this_probe->zip && !recognize_as(this_probe, SIGN_TAR)))
        return false;
    ckpt_status st = members_open(this_probe->src, this_probe->path, 0, &archive, &why);
    if (st == CKPT_OK) {
        st = choose(archive, &choice, &why);
        source_unref(archive);
    }
    if (st == CKPT_ENOMEM)
        *this_probe->no_memory = true;
    return choice.n > 0;
}

/* read_named - makes F the member or folder NAME of ARCHIVE. */
static ckpt_status read_named(ckpt_file *f, source *archive, ckpt_str name, ckpt_error *err)
{
    source *bytes;
    ckpt_file *part = NULL;
    ckpt_str path = join_member(f->a, f->path, name);
    CKPT_TRY_ALLOC(path.ptr, err);
    if (f->check)
        members_skip_check(archive); /* format_verify compares the checksums of all members */
    if (members_find(archive, path.ptr) == MEMBER_FOLDER)
        bytes = source_ref(archive);
    else
        CKPT_TRY(members_open_file(archive, path.ptr, &bytes, err));
    CKPT_TRY(format_open_part(f, path.ptr, bytes, &part, err));
    if (!part) /* its fault was reported */
        return err->status;
    file_take_over(f, part);
    if (is_preferred(name)) /* NeMo or Stable-Baselines3 loads the archive, not torch.load */
        f->loading.by = NULL;
    else
        f->loading.refusal = STR_LIT("it is in an archive");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    source *archive;
    struct choice choice;
    CKPT_TRY(members_open(f->src, f->path, file_max_unpacked(f, f->src->size), &archive, err));
    ckpt_status st = choose(archive, &choice, err);
    CKPT_THEN(st, choice.npreferred == 1 || choice.n == 1 ? read_named(f, archive, choice.first, err)
                                                          : fail_unclear(archive, &choice, f->path, err));
    source_unref(archive);
    return st;
}

const struct format format_container = {
    .name = "container", .title = "archive with a checkpoint", .probe = probe, .read = read};
