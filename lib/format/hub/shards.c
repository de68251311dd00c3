/* shards.c - reads sharded checkpoints of Hugging Face: an index of tensors and files, or the folder with it.
 *
 * NAME.index.json: {"metadata": {"total_size": bytes}, "weight_map": {"tensor": "file", …}} with files
 * like model-00001-of-00005.safetensors, pytorch_model-00001-of-00005.bin or tf_model-00001-of-00002.h5
 * next to it. Keras' NAME.weights.json is alike, but has groups of tensors, each with a list of files.
 * In a folder with model.safetensors (or pytorch_model.bin) and no index, that file is opened. If there is an
 * index, too, the one of the two that transformers loads is opened. Sources: huggingface_hub
 * serialization/_base.py and _torch.py, transformers modeling_utils.py (_get_resolved_checkpoint_files).
 *
 * The shards are merged into one file (merge.c).
 *
 * Refused: file names that leave the folder, a shard that is missing or is an index itself, a tensor that is
 * not in its shard or in two shards. A tensor that is not in the weight_map is read, with a notice, as in
 * transformers; a wrong total_size is a notice, too. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "core/check.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/members.h"
#include "format/files/own_files.h"
#include "format/files/path.h"
#include "format/hub/merge.h"
#include "format/hub/shards.h"
#include "format/hub/write.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"
#include "format/registry.h"

#define NO_INDEX     "its shards can be read without it"
#define MAX_UNLISTED 64u         /* files next to an index that are searched for tensors of the set */
#define INDEX_HEAD   (64u << 10) /* where the weight_map of most indexes begins */

/* ----------------------------------------------------------------- probe */

/* find_weight_map - moves SCAN from the beginning of an index to the value of the key "weight_map", an
 * object. False: there is none, or SCAN has an error. */
static bool find_weight_map(json_scan *scan)
{
    (void)json_next(scan); /* the root object */
    while (json_next(scan) == JSON_KEY) {
        bool is_map = str_is(scan->str, "weight_map");
        enum json_event e = json_next(scan);
        if (is_map && e == JSON_OBJECT)
            return true;
        if (json_skip(scan, e) != CKPT_OK)
            return false;
    }
    return false;
}

bool shards_find_next_file(json_scan *scan, bool *found_map, ckpt_str *key)
{
    *found_map = *found_map || find_weight_map(scan);
    if (!*found_map || json_next(scan) != JSON_KEY)
        return false;
    *key = scan->str;
    return json_next(scan) == JSON_STRING;
}

/* has_weight_map - returns true if there is a weight_map, or if memory runs out: reading reports that. */
static bool has_weight_map(const char *text, size_t nbytes)
{
    ckpt_error ignored;
    json_scan j;
    arena *a = arena_new(nbytes);
    json_init(&j, str_of(text, nbytes), 0, a, &ignored);
    bool found = !a || find_weight_map(&j);
    arena_free(a);
    return found;
}

bool shards_is_index(const struct probe *probe)
{
    ckpt_error ignored;
    source *src = probe->src;
    if (!recognize_json(probe))
        return false;
    size_t n = src->size < INDEX_HEAD ? (size_t)src->size : INDEX_HEAD;
    for (;; n = (size_t)src->size) {
        char *text = malloc(n);
        bool yes = !text || (source_read(src, 0, text, n, &ignored) == CKPT_OK && has_weight_map(text, n));
        free(text);
        if (yes || n == src->size || src->size > MAX_INDEX_FILE)
            return yes;
    }
}

/* -------------------------------------------------------- without its index */

/* A set of shards, of which none is missing, and the pattern that matches their paths. */
struct whole_set {
    const char **paths;
    size_t n;
    const char *before; /* the stars */
    const char *stars;
    ckpt_str after;
};

/* name_pattern - sets the pattern of SET, a set in FOLDER with a file called FIRST. False: no memory. */
static bool name_pattern(arena *a, ckpt_str folder, ckpt_str first, struct whole_set *set)
{
    struct shard_name name = {.stem = str_of(first.ptr, 0), .ext = STR_LIT(".safetensors")};
    bool is_numbered = shard_name_parse(first, &name);
    while (!is_numbered && name.stem.len < first.len && !strchr("0123456789", first.ptr[name.stem.len]))
        name.stem.len++;
    set->before = ARENA_CONCAT(a, folder, name.stem).ptr;
    set->stars = is_numbered ? "-*-of-*" : "*";
    set->after = name.ext;
    return set->before != NULL;
}

/* find_whole_set - finds in FOLDER the set of shards that are there without an index. Returns false if there
 * is none, or no memory. */
static bool find_whole_set(arena *a, ckpt_str folder, struct whole_set *whole_set)
{
    ckpt_error ignored;
    ckpt_str *names, path = folder.len ? arena_str(a, folder) : STR_LIT(".");
    struct folder_set set;
    struct shard_name first;
    size_t n = 0, nfiles = 0;
    if (!path.ptr || folder_list_on_disk(a, path.ptr, NULL, &names, &n, &ignored) != CKPT_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!str_ends(names[i], STR_LIT(INDEX_SUFFIX)))
            names[nfiles++] = names[i];
    if (!folder_find_set(names, nfiles, &set) ||
        (set.is_numbered && (!shard_name_parse(set.first, &first) || set.n != first.count)))
        return false;
    *whole_set = (struct whole_set){.paths = arena_array(a, set.n, sizeof *whole_set->paths)};
    for (size_t i = 0; whole_set->paths && i < nfiles; i++)
        if (folder_set_has(&set, names[i]) &&
            !(whole_set->paths[whole_set->n++] = ARENA_CONCAT(a, folder, names[i]).ptr))
            return false;
    return whole_set->paths && name_pattern(a, folder, set.first, whole_set);
}

static bool can_open_all(const struct whole_set *set, const ckpt_limits *limits)
{
    ckpt_error ignored;
    for (size_t i = 0; i < set->n; i++) {
        ckpt_file *shard = NULL;
        const struct opening o = {.path = set->paths[i], .limits = limits, .set = set};
        if (path_check_regular(o.path, &ignored) != CKPT_OK ||
            format_open_path(&o, false, &shard, &ignored) != CKPT_OK)
            return false;
        file_free(shard);
    }
    return true;
}

bool shards_hint_without_index(ckpt_file *f, ckpt_str folder, const char *why, ckpt_error *err)
{
    struct whole_set s;
    char before[SHELL_WORD_MAX], after[SHELL_WORD_MAX], hint[sizeof err->hint];
    if (f->archive || !find_whole_set(f->a, folder, &s) || !can_open_all(&s, &f->limits))
        return false;
    (void)snprintf(hint, sizeof hint, "%s: ckpt convert %s%s%s -o fixed.safetensors", why,
                   s.before[0] ? shell_path(s.before, before) : "", s.stars,
                   shell_word(s.after, "", "", after));
    error_replace_hint(err, hint);
    return true;
}

/* ---------------------------------------------------------------- folders */

static bool probe_shards(const struct probe *probe)
{
    if (!probe->is_folder)
        return shards_is_index(probe);
    struct folder d;
    struct folder_set set;
    folder_scan(probe->names, probe->nnames, &d);
    return d.nindexes || d.nsingle || folder_find_set(probe->names, probe->nnames, &set);
}

/* prefers_single_file - returns true if transformers loads the single file although there is a set. */
static bool prefers_single_file(const struct folder *folder)
{
    ckpt_str index = str_c(folder->index_file), single = str_c(folder->single_file);
    bool is_bin = str_is(index, "pytorch_model.bin.index.json"),
         is_h5 = str_ends(index, STR_LIT(".h5.index.json"));
    return (str_is(single, "model.safetensors") &&
            (is_bin || str_is(index, "model.safetensors.index.json"))) ||
           (str_is(single, "pytorch_model.bin") && is_bin) || (single.len && is_h5);
}

static ckpt_str get_weight_key(const void *user, uint32_t index)
{
    const struct index *x = user;
    return index < x->nweights ? x->weights[index].key
                               : str_of("", 0); /* a group without files has no weight */
}

bool shards_add_weight(struct index *index, const struct weight *weight)
{
    if (index->nweights == index->cap_weights &&
        !arena_grow_apart(index->temp, &index->weights, &index->cap_weights, sizeof *index->weights))
        return false;
    index->weights[index->nweights++] = *weight;
    return true;
}

static void free_index(struct index *index)
{
    for (size_t i = 0; i < index->nshards; i++) {
        map_free(index->shards[i].pair_of);
        map_free(index->shards[i].metadata_of);
    }
    map_free(index->keys);
    map_free(index->names);
    map_free(index->metadata_keys);
    if (index->weights)
        arena_free_apart(index->temp, index->weights, index->cap_weights, sizeof *index->weights);
    if (index->order)
        arena_free_apart(index->temp, index->order, index->cap_order, sizeof *index->order);
    arena_free(index->temp);
}

/* merge_files - merges the shards of INDEX, which has no index, and frees what INDEX has. */
static ckpt_status merge_files(struct index *index, ckpt_status st)
{
    index->has_no_index = true;
    index->f->dots_are_literal = true;
    index->keys = map_new_index(1024, get_weight_key, index);
    index->metadata_keys = map_new(16);
    index->temp = arena_new(UINT64_MAX);
    if (st == CKPT_OK)
        st = index->keys && index->metadata_keys && index->temp ? shards_merge(index)
                                                                : fail_memory(index->err);
    free_index(index);
    return st;
}

/* add_file - adds the file PATH, called NAME in messages, as a shard of INDEX. */
static ckpt_status add_file(struct index *index, ckpt_str name, const char *path)
{
    const struct shard s = {.name = name, .path = path, .at = CKPT_NO_OFFSET};
    bool ok = path && name.ptr &&
              arena_push(index->f->a, &index->shards, &index->nshards, &index->cap_shards, &s, sizeof s);
    return ok ? CKPT_OK : fail_memory(index->err);
}

/* add_numbered - adds all shards of the set of FIRST, also those that are missing. FROM is the number of the
 * first: 1, or 0 if there is such a file. */
static ckpt_status add_numbered(struct index *index, const struct shard_name *first, uint64_t from)
{
    ckpt_file *f = index->f;
    if (first->count > MAX_SHARDS)
        return fail(index->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u shards}", MAX_SHARDS);
    for (uint64_t k = 0; k < first->count; k++) {
        ckpt_str name = shard_name_make(f->a, first, from + k);
        char *path = name.ptr ? path_make(str_c(f->path), name) : NULL;
        ckpt_status st = path ? add_file(index, name, arena_str(f->a, str_c(path)).ptr)
                              : fail_memory(index->err);
        free(path);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

static ckpt_status add_unnumbered(struct index *index, const struct folder_set *set)
{
    ckpt_file *f = index->f;
    const struct probe *p = f->opening->probe;
    for (size_t i = 0; i < p->nnames; i++) {
        if (!folder_set_has(set, p->names[i]))
            continue;
        char *path = path_make(str_c(f->path), p->names[i]);
        ckpt_str name = arena_str(f->a, p->names[i]);
        ckpt_status st = path ? add_file(index, name, arena_str(f->a, str_c(path)).ptr)
                              : fail_memory(index->err);
        free(path);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* read_folder_set - reads the files SET of the folder F as one checkpoint. */
static ckpt_status read_folder_set(ckpt_file *f, const struct folder_set *set, ckpt_error *err)
{
    struct index x = {.f = f, .err = err, .is_guess = !set->is_numbered};
    struct shard_name first;
    ckpt_status st;
    if (set->is_numbered && shard_name_parse(set->first, &first)) {
        ckpt_str zeroth = shard_name_make(f->a, &first, 0);
        st = zeroth.ptr ? add_numbered(&x, &first, probe_has(f->opening->probe, zeroth.ptr) ? 0 : 1)
                        : fail_memory(err);
    } else {
        st = add_unnumbered(&x, set);
    }
    return merge_files(&x, st);
}

ckpt_status shards_merge_files(ckpt_file *f, const struct merging *merging, ckpt_error *err)
{
    struct index x = {.f = f, .err = err, .merging = merging};
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < merging->n; i++) {
        ckpt_str path = arena_str(f->a, str_c(merging->paths[i]));
        char *shown = path_to_show(merging->paths[i]);
        ckpt_str name = shown ? arena_str(f->a, str_c(shown)) : str_of(NULL, 0);
        free(shown);
        st = name.ptr ? add_file(&x, name, path.ptr) : fail_memory(err);
    }
    return merge_files(&x, st);
}

bool shards_is_set(const ckpt_file *f) { return f->format == &format_shards && f->nparts; }

/* hint_no_index - hints at the shards in the folder F, whose index is empty or something else. */
static void hint_no_index(ckpt_file *f, ckpt_error *err)
{
    bool has_slash = str_ends(str_c(f->path), STR_LIT("/"));
    ckpt_str folder = has_slash ? str_c(f->path) : ARENA_CONCAT(f->a, str_c(f->path), STR_LIT("/"));
    if (folder.ptr)
        (void)shards_hint_without_index(f, folder, NO_INDEX, err);
}

/* open_folder_file - opens the file NAME in place of the folder F, and notes other checkpoints in F. */
static ckpt_status open_folder_file(ckpt_file *f, const struct folder *folder, const char *name,
                                    ckpt_error *err)
{
    char *other = folder->nothers ? path_make(str_c(f->path), str_c(folder->other)) : NULL;
    ckpt_status st = part_file_replace_folder(f, str_c(f->path), str_c(name), err);
    if (str_ends(str_c(name), STR_LIT(INDEX_SUFFIX)) && (st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED))
        hint_no_index(f, err);
    if (st == CKPT_OK && folder->nindexes + folder->nsingle > 1)
        file_notice(f, "the folder holds more than one copy of the weights; this is %s", name);
    else if (st == CKPT_OK && other && !own_files_contain_path(f, other)) /* it is not a shard of the index */
        file_notice(f, "the folder holds other checkpoints, too; this is %s", name);
    free(other);
    return st;
}

static ckpt_status read_folder(ckpt_file *f, ckpt_error *err)
{
    struct folder d;
    struct folder_set set;
    folder_scan(f->opening->probe->names, f->opening->probe->nnames, &d);
    if (folder_find_set(f->opening->probe->names, f->opening->probe->nnames, &set))
        return read_folder_set(f, &set, err);
    bool is_safetensors = str_find(str_c(d.index_file), STR_LIT(".safetensors."), 0) != SIZE_MAX;
    if (d.safetensors_indexes > 1 || (!is_safetensors && d.nindexes > 1))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "folder with %u indexes of shards, each a checkpoint of its own\n"
                    "name one of them, such as %s",
                    d.nindexes, d.index_file);
    if (d.nothers && !d.nindexes)
        return folder_fail_ambiguous(f->archive, f->path, d.nlisted, folder_is_checkpoint, err);
    const char *name = d.nindexes && !prefers_single_file(&d) ? d.index_file : d.single_file;
    return open_folder_file(f, &d, name, err);
}

/* ------------------------------------------------------------------ index */

/* find_name_fault - returns why NAME cannot be a file in the folder of the index, or NULL. */
static const char *find_name_fault(ckpt_str name)
{
    if (name.len == 0)
        return "is empty";
    if (memchr(name.ptr, 0, name.len))
        return "goes on after a NUL, where a file name ends";
    if (memchr(name.ptr, '\\', name.len))
        return "has a backslash, which separates folders on some systems";
    return path_is_unsafe(name) ? "leaves the folder of the index" : NULL;
}

static ckpt_status find_shard(struct index *index, ckpt_str name, uint32_t *out)
{
    *out = index->nweights ? index->weights[index->nweights - 1].shard
                           : 0; /* neighbours often are in one shard */
    if (*out < index->nshards && str_eq(name, index->shards[*out].name))
        return CKPT_OK;
    const char *fault = find_name_fault(name);
    if (fault)
        return json_fail(&index->j,
                         "shard name {\"%.*s\"} %s; it must be {=a file name without folders}\n"
                         "no library writes such a name: do not trust this index",
                         STR_ARG(name), fault);
    *out = map_get(index->names, name);
    if (*out != MAP_NONE)
        return CKPT_OK;
    if (index->nshards == MAX_SHARDS)
        return fail(index->err, CKPT_ELIMIT, index->j.event_at, "{more} than {=%u shards}", MAX_SHARDS);
    const struct shard s = {.name = arena_str(index->f->a, name), .at = index->j.event_at};
    *out = (uint32_t)index->nshards;
    bool ok = s.name.ptr && map_put(index->names, s.name, *out, NULL) &&
              arena_push(index->temp, &index->shards, &index->nshards, &index->cap_shards, &s, sizeof s);
    return ok ? CKPT_OK : fail_memory(index->err);
}

/* add_listed - adds KEY, whose file is the text of the current event. */
static ckpt_status add_listed(struct index *index, ckpt_str key, uint64_t at, bool is_group)
{
    struct weight w = {.key = key, .at = at, .pair = MAP_NONE, .is_group = is_group};
    CKPT_TRY(find_shard(index, index->j.str, &w.shard));
    return shards_add_weight(index, &w) ? CKPT_OK : fail_memory(index->err);
}

/* read_group - reads the list of files of the group KEY. */
static ckpt_status read_group(struct index *index, ckpt_str key, uint64_t at)
{
    enum json_event e;
    while ((e = json_next(&index->j)) == JSON_STRING)
        CKPT_TRY(add_listed(index, key, at, true));
    return e == JSON_ARRAY_END ? CKPT_OK : json_unexpected(&index->j, e, "a file of a group", "its name");
}

/* next_file - returns the next event. A file that is written as that of the weight before it, as most are, is
 * not scanned again. */
static enum json_event next_file(struct index *index)
{
    ckpt_str text = json_value_text(&index->j);
    if (index->quoted_file.len && str_starts(text, index->quoted_file)) {
        json_pass_value(&index->j, index->quoted_file.len);
        index->j.str = index->file;
        return JSON_STRING;
    }
    enum json_event e = json_next(&index->j);
    if (e == JSON_STRING) {
        index->file = index->j.str;
        index->quoted_file = str_of(text.ptr, index->j.pos - index->j.event_at);
    }
    return e;
}

static ckpt_status read_weight(struct index *index, ckpt_str key)
{
    uint64_t at = index->j.event_at;
    enum json_event e = next_file(index);
    bool is_group = e == JSON_ARRAY;
    if (e != JSON_STRING && !is_group)
        return json_unexpected(&index->j, e, "a value of \"weight_map\"", "the name of a file");
    if (is_group) /* Keras writes "/group" */
        key = str_skip(key, key.len && key.ptr[0] == '/');
    if (map_get(index->keys, key) != MAP_NONE)
        return json_fail(&index->j, "weight_map lists \"%.*s\" {twice}, {=once} is allowed", STR_ARG(key));
    key = arena_str(index->f->a, key); /* the rows of the set use it, too */
    CKPT_TRY_ALLOC(key.ptr && map_put(index->keys, key, (uint32_t)index->nweights, NULL), index->err);
    return is_group ? read_group(index, key, at) : add_listed(index, key, at, false);
}

static ckpt_status read_map(struct index *index)
{
    enum json_event e = json_next(&index->j);
    if (index->has_weight_map && e != JSON_ERROR)
        return json_fail(&index->j, "{a second} \"weight_map\", where {=one} is allowed");
    if (e != JSON_OBJECT)
        return json_unexpected(&index->j, e, "\"weight_map\"", "an object");
    index->has_weight_map = true;
    while ((e = json_next(&index->j)) == JSON_KEY)
        CKPT_TRY(read_weight(index, index->j.str));
    return json_check_end(&index->j, e, JSON_OBJECT_END);
}

/* read_metadata_pair - reads total_size, or adds a text to the metadata, because huggingface_hub records
 * ties as texts. */
static ckpt_status read_metadata_pair(struct index *index, ckpt_str key, enum json_event event)
{
    if (str_is(key, "total_size")) {
        index->total_size_at = index->j.event_at;
        ckpt_str digits = index->j.str;
        if (event == JSON_NUMBER && str_ends(digits, STR_LIT(".0"))) /* Keras writes a float */
            digits.len -= 2;
        index->has_total_size = (event == JSON_NUMBER || event == JSON_STRING) &&
                                str_uint(digits, &index->total_size);
        return json_skip(&index->j, event);
    }
    if (event != JSON_STRING || str_is(key, "total_parameters"))
        return json_skip(&index->j, event);
    ckpt_str name = arena_str(index->f->a, key); /* a row of that name needs its NUL */
    ckpt_str text = arena_str(index->f->a, index->j.str);
    ckpt_value *k = value_str(index->f->a, name), *v = value_str(index->f->a, text);
    return name.ptr && text.ptr && k && v ? shards_add_metadata(index, k, v) : fail_memory(index->err);
}

static ckpt_status read_metadata(struct index *index)
{
    enum json_event e = json_next(&index->j);
    if (e != JSON_OBJECT)
        return json_skip(&index->j, e);
    while ((e = json_next(&index->j)) == JSON_KEY) {
        ckpt_str key = index->j.str;
        CKPT_TRY(read_metadata_pair(index, key, json_next(&index->j)));
    }
    return json_check_end(&index->j, e, JSON_OBJECT_END);
}

static ckpt_status read_index(struct index *index)
{
    enum json_event e = json_next(&index->j);
    if (e != JSON_OBJECT)
        return json_unexpected(&index->j, e, "an index", "a JSON object");
    while ((e = json_next(&index->j)) == JSON_KEY) {
        if (str_is(index->j.str, "weight_map"))
            CKPT_TRY(read_map(index));
        else if (str_is(index->j.str, "metadata"))
            CKPT_TRY(read_metadata(index));
        else
            CKPT_TRY(json_skip(&index->j, json_next(&index->j)));
    }
    if (e == JSON_OBJECT_END)
        e = json_next(&index->j);
    return json_check_end(&index->j, e, JSON_END);
}

/* ------------------------------------------------------------------- read */

/* is_unlisted - returns true if NAME is the name of a shard of the set INDEX that its index does not have. */
static bool is_unlisted(const struct index *index, ckpt_str name)
{
    struct shard_name first;
    if (!index->nshards || !shard_name_parse(index->shards[0].name, &first) ||
        map_get(index->names, name) != MAP_NONE)
        return false;
    ckpt_str after_stem = str_skip(name, first.stem.len);
    return str_starts(name, first.stem) && str_starts(after_stem, STR_LIT("-")) &&
           str_ends(name, first.ext) && str_find(after_stem, STR_LIT("-of-"), 0) != SIZE_MAX;
}

/* hint_all_shards - sets the hint of index->err to the command that reads the shards of INDEX, and those that
 * its index does not have, without the index. */
static void hint_all_shards(const struct index *index)
{
    struct shard_name listed;
    char before[SHELL_WORD_MAX], after[SHELL_WORD_MAX];
    if (index->f->archive || !shard_name_parse(index->shards[0].name, &listed))
        return;
    const char *path = ARENA_CONCAT(index->f->a, folder_of(index->f), listed.stem).ptr;
    if (path)
        error_add_hint(index->err, "if it belongs to the model: ckpt convert %s-*-of-*%s -o fixed%.*s",
                       shell_path(path, before), shell_word(listed.ext, "", "", after),
                       STR_ARG(str_eq(listed.ext, STR_LIT(".bin")) ? STR_LIT(".pt") : listed.ext));
}

/* report_left_out - reports the tensors of OTHER, called NAME, that the index INDEX does not have. Those that
 * it has are in another shard: OTHER is of an older set. */
static ckpt_status report_left_out(struct index *index, ckpt_str name, const ckpt_file *other)
{
    size_t n = 0;
    ckpt_str first = STR_LIT("");
    for (uint32_t i = 0; i < other->table.nrows; i++) {
        ckpt_str key = table_name(&other->table, i);
        if (map_get(index->keys, key) == MAP_NONE && n++ == 0)
            first = key;
    }
    if (!n)
        return CKPT_OK;
    index->f->leaves_out = true;
    file_notice(index->f, "%.*s is not in the index: its %zu tensor%s, such as \"%.*s\", %s left out",
                STR_ARG(name), n, n == 1 ? "" : "s", STR_ARG(first), n == 1 ? "is" : "are");
    if (!index->f->check)
        return CKPT_OK;
    (void)fail(
        index->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
        "{%.*s} is not in {=the index}, and has %zu tensor%s that no other shard has, such as \"%.*s\"",
        STR_ARG(name), n, n == 1 ? "" : "s", STR_ARG(first));
    hint_all_shards(index);
    return file_report_fault_as(index->f, CHECK_EXTRA_TENSOR, CKPT_EFORMAT, index->err);
}

static ckpt_status open_unlisted(const ckpt_file *f, const char *path, ckpt_file **out, ckpt_error *err)
{
    struct opening o = {.path = path, .limits = &f->limits};
    CKPT_TRY(f->archive ? members_open_file(f->archive, path, &o.src, err) : path_check_regular(path, err));
    return f->archive ? format_open(&o, out, err) : format_open_path(&o, false, out, err);
}

/* find_left_out - looks for shards next to the index INDEX that it does not name. One that cannot be read is
 * left to those who name it. */
static ckpt_status find_left_out(struct index *index)
{
    ckpt_error ignored;
    ckpt_str *names, folder = folder_of(index->f);
    size_t n;
    ckpt_str path = folder.len ? arena_str(index->f->a, folder) : STR_LIT(".");
    ckpt_status st = path.ptr ? folder_list_all(index->f, path.ptr, &names, &n, &ignored)
                              : fail_memory(index->err);
    if (st != CKPT_OK) /* a folder may be readable by name only */
        return st == CKPT_ENOMEM ? fail_memory(index->err) : CKPT_OK;
    for (size_t i = 0, looked_at = 0; st == CKPT_OK && i < n && looked_at < MAX_UNLISTED; i++) {
        ckpt_file *other = NULL;
        if (!is_unlisted(index, names[i]))
            continue;
        char *file = path_make(folder, names[i]);
        if (file && open_unlisted(index->f, file, &other, &ignored) == CKPT_OK) {
            st = report_left_out(index, names[i], other);
            file_free(other);
        }
        looked_at++;
        free(file);
    }
    return st;
}

/* find_wanted - returns the weight that NAME, perhaps with "[slice]" after it, is; MAP_NONE: none. */
static uint32_t find_wanted(const struct index *index, const char *name)
{
    const char *slice = strrchr(name, '[');
    uint32_t i = map_get(index->keys, str_c(name));
    return i == MAP_NONE && slice ? map_get(index->keys, str_of(name, (size_t)(slice - name))) : i;
}

/* mark_unwanted - marks the shards that hold nothing that the caller wants. None is, if the index does not
 * list all that is wanted: then it may be in any shard, and errors suggest similar names. */
static void mark_unwanted(struct index *index)
{
    const ckpt_file *f = index->f;
    const struct opening *o = f->opening;
    index->is_partial = o->nwanted && !f->check && !f->salvage;
    for (size_t i = 0; index->is_partial && i < o->nwanted; i++) {
        uint32_t w = find_wanted(index, o->wanted[i]);
        index->is_partial = w != MAP_NONE && !index->weights[w].is_group;
    }
    for (size_t i = 0; index->is_partial && i < index->nshards; i++)
        index->shards[i].is_unwanted = true;
    for (size_t i = 0; index->is_partial && i < o->nwanted; i++)
        index->shards[index->weights[find_wanted(index, o->wanted[i])].shard].is_unwanted = false;
}

/* read_index_text - reads the text of the index in SRC, of which only names are kept. */
static ckpt_status read_index_text(struct index *index, source *src)
{
    size_t n = (size_t)src->size;
    arena *scratch = arena_new(UINT64_MAX); /* by the size of the index */
    char *text = scratch ? arena_alloc(scratch, n) : NULL;
    ckpt_status st = text ? source_read(src, 0, text, n, index->err) : fail_memory(index->err);
    json_init(&index->j, str_of(text, n), 0, scratch, index->err);
    CKPT_THEN(st, read_index(index));
    arena_free(scratch);
    return st;
}

static ckpt_status read_index_file(struct index *index, source *src)
{
    ckpt_file *f = index->f;
    if (src->size > f->limits.max_header) {
        (void)fail(index->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "an index of {%llu bytes}; the limit is {=%llu}",
                   (unsigned long long)src->size, (unsigned long long)f->limits.max_header);
        (void)shards_hint_without_index(f, folder_of(f), NO_INDEX, index->err);
        return CKPT_ELIMIT;
    }
    file_raise_budget(f, src->size);
    index->temp = arena_new(UINT64_MAX); /* by the index and the shards */
    index->keys = map_new_index((size_t)src->size / 128, get_weight_key, index);
    index->names = map_new(16);
    index->metadata_keys = map_new(16);
    CKPT_TRY_ALLOC(index->temp && index->keys && index->names && index->metadata_keys, index->err);
    ckpt_status st = read_index_text(index, src);
    if (st == CKPT_OK) {
        mark_unwanted(index);
        CKPT_TRY(shards_merge(index));
        return index->is_partial ? CKPT_OK : find_left_out(index);
    }
    if (check_is_fault(st))
        (void)shards_hint_without_index(index->f, folder_of(index->f), NO_INDEX, index->err);
    if (index->f->salvage)
        error_add_hint(index->err,
                       "without the index the shards are not known: salvage each shard by itself");
    error_add_position(index->err, 0, STR_LIT("index"));
    return st;
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    struct index x = {.f = f, .err = err};
    if (f->opening->set) /* it could be its own shard */
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{=a shard} that is {an index} itself");
    if (!f->src)
        return read_folder(f, err);
    f->dots_are_literal = true;
    ckpt_status st = read_index_file(&x, f->src), changed = source_check_unchanged(f->src, err);
    if (changed != CKPT_OK) /* the set was replaced while it was read; any other error follows from that */
        st = changed;
    free_index(&x);
    return st;
}

const struct format format_shards = {
    .name = "hf-shards",
    .title = "Hugging Face shards",
    .suffixes = NULL,
    .probe = probe_shards,
    .read = read_file,
    .write = shards_write_as_read,
};
