/* listed_names.c - the names that the indexes of sets list for a file of such a set: refuses to edit it if it
 * would lack one of its names afterwards, because the set could not be read then; finds those in other files.
 *
 * An index is every JSON file with a weight_map in the folder of the file, and every NAME.index.json in the
 * folder above, which lists the file as FOLDER/FILE. For the names in other files, only the indexes in the
 * folder of the file are read, by their names: other JSON files there may be large. */
#include "format/hub/listed_names.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/own_files.h"
#include "format/hub/shards.h"

/* What is done with an index: READ gets its text and the file's name in it. */
struct index_visit {
    ckpt_status (*read)(void *user, arena *a, ckpt_str text, ckpt_str name, ckpt_error *err);
    void *user;
};

static bool is_json_name(ckpt_str name) { return str_ends(name, STR_LIT(".json")); }
static bool is_index_name(ckpt_str name)
{
    return str_ends(name, STR_LIT(INDEX_SUFFIX)) || folder_is_index(name);
}

/* can_be_read - returns true if PATH is a regular file that may be read: nobody reads a set by another. */
static bool can_be_read(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

/* next_part - removes the first name from *PATH and returns it; names that are empty or "." do not count. */
static ckpt_str next_part(ckpt_str *path)
{
    ckpt_str part;
    do {
        size_t n = str_find(*path, STR_LIT("/"), 0);
        part = str_first(*path, n);
        *path = str_skip(*path, n == SIZE_MAX ? path->len : n + 1);
    } while (path->len && (!part.len || str_is(part, ".")));
    return part;
}

static bool is_same_path(ckpt_str left, ckpt_str right)
{
    while (left.len || right.len)
        if (!str_eq(next_part(&left), next_part(&right)))
            return false;
    return true;
}

/* visit_index - does what VISIT is for with INDEX, which may list the file NAME. */
static ckpt_status visit_index(const struct index_visit *visit, const char *index, ckpt_str name,
                               ckpt_error *err)
{
    source *src = NULL;
    CKPT_TRY(source_file_open(index, &src, err));
    size_t n = src->size <= MAX_INDEX_FILE ? (size_t)src->size : 0;
    arena *a = arena_new((uint64_t)4 * MAX_INDEX_FILE);
    char *text = a ? arena_alloc(a, n) : NULL;
    ckpt_status st = text ? source_read(src, 0, text, n, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = visit->read(visit->user, a, str_of(text, n), name, err);
    source_unref(src);
    arena_free(a);
    return st;
}

/* join - returns the path of NAME in FOLDER, which is "./" or as the user spells it. */
static ckpt_str join(arena *a, ckpt_str folder, const char *name)
{
    return ARENA_CONCAT(a, str_is(folder, "./") ? STR_LIT("") : folder, str_c(name));
}

/* visit_folder - does visit_index for all files in FOLDER that MATCH accepts. A folder that is not there, or
 * that may not be listed, has none. */
static ckpt_status visit_folder(arena *a, const struct index_visit *visit, ckpt_str folder,
                                bool (*match)(ckpt_str name), ckpt_str name, ckpt_error *err)
{
    ckpt_str *names = NULL;
    size_t n = 0;
    if (access(folder.ptr, R_OK | X_OK) != 0)
        return CKPT_OK;
    CKPT_TRY(folder_list_on_disk(a, folder.ptr, match, &names, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (str_eq(names[i], name)) /* no index lists itself */
            continue;
        const char *index = join(a, folder, names[i].ptr).ptr;
        CKPT_TRY_ALLOC(index, err);
        if (can_be_read(index))
            CKPT_TRY(name_file_if_failed(visit_index(visit, index, name, err), index, err));
    }
    return CKPT_OK;
}

/* visit_parent - does visit_folder for the folder above FOLDER, which has the file NAME. */
static ckpt_status visit_parent(arena *a, const struct index_visit *visit, ckpt_str folder, ckpt_str name,
                                ckpt_error *err)
{
    char *path = realpath(folder.ptr, NULL);
    if (!path) /* FOLDER does not exist */
        return CKPT_OK;
    ckpt_str parent = join(a, folder, "../");
    ckpt_str in_parent = ARENA_CONCAT(a, str_after_last(str_c(path), '/'), STR_LIT("/"), name);
    free(path);
    return parent.ptr && in_parent.ptr ? visit_folder(a, visit, parent, is_index_name, in_parent, err)
                                       : fail_memory(err);
}

/* ------------------------------------------------------------------------ check an edit */

/* A file that is written, and the names that it gets. */
struct written_file {
    const ckpt_plan *p;
    map *names;
    bool replaces_other; /* a file of unknown names, not the input, is replaced */
};

/* will_lack - returns true if FILE has the tensor KEY now, and will not have it. */
static bool will_lack(const struct written_file *file, ckpt_str key)
{
    return map_get(file->names, key) == MAP_NONE &&
           (file->replaces_other || file_find_tensor(file->p->file, key) != CKPT_NO_TENSOR);
}

/* check_map - fails if the index TEXT lists, in the file NAME, a tensor that the file USER will lack. */
static ckpt_status check_map(void *user, arena *a, ckpt_str text, ckpt_str name, ckpt_error *err)
{
    const struct written_file *f = user;
    ckpt_error fault = {0};
    json_scan j;
    ckpt_str key;
    bool found_map = false;
    json_init(&j, text, 0, a, &fault);
    while (shards_find_next_file(&j, &found_map, &key))
        if (is_same_path(j.str, name) && will_lack(f, key))
            return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                        "{no tensor \"%.*s\"} would be in %.*s, where the weight_map lists {=one}\n"
                        "name the index, with -o OUT/: all shards and the index are written anew",
                        STR_ARG(key), STR_ARG(name));
    return fault.status == CKPT_ENOMEM ? fail_memory(err) : CKPT_OK; /* other faults: it is no index */
}

/* make_names - makes a map of the names that the tensors of P get. NULL: no memory. */
static map *make_names(const ckpt_plan *p)
{
    map *names = map_new(p->nentries);
    bool ok = names != NULL;
    for (size_t i = 0; ok && i < p->nentries; i++)
        ok = map_put(names, p->entries[i].name, (uint32_t)i, NULL);
    if (ok)
        return names;
    map_free(names);
    return NULL;
}

ckpt_status shards_check_index(const ckpt_plan *p, const char *path, ckpt_error *err)
{
    arena *a = arena_new(MAX_INDEX_FILE);
    struct written_file f = {.p = p, .names = make_names(p)};
    const struct index_visit v = {check_map, &f};
    ckpt_str folder = str_folder(str_c(path)), name = str_skip(str_c(path), folder.len);
    f.replaces_other = can_be_read(path) && !own_files_contain_path(p->file, path);
    if (a)
        folder = folder.len ? arena_str(a, folder) : STR_LIT("./");
    ckpt_status st = a && folder.ptr && f.names ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK)
        st = visit_folder(a, &v, folder, is_json_name, name, err);
    if (st == CKPT_OK)
        st = visit_parent(a, &v, folder, name, err);
    map_free(f.names);
    arena_free(a);
    return st;
}

/* ------------------------------------------------------------------- names in other files */

struct siblings {
    arena *a;
    map **names;
};

/* add_others - if the index TEXT lists the file NAME, adds the tensors in other files to USER, siblings. */
static ckpt_status add_others(void *user, arena *a, ckpt_str text, ckpt_str name, ckpt_error *err)
{
    struct siblings *s = user;
    ckpt_error ignored;
    json_scan j;
    ckpt_str key;
    bool found_map = false, lists_file = false, ok = true;
    json_init(&j, text, 0, a, &ignored);
    while (!lists_file && shards_find_next_file(&j, &found_map, &key))
        lists_file = is_same_path(j.str, name);
    if (!lists_file)
        return CKPT_OK;
    if (!*s->names && !(*s->names = map_new(0)))
        return fail_memory(err);
    found_map = false;
    json_init(&j, text, 0, a, &ignored);
    while (ok && shards_find_next_file(&j, &found_map, &key))
        if (!is_same_path(j.str, name))
            ok = (key = arena_str(s->a, key)).ptr && map_put(*s->names, key, 0, NULL);
    return ok ? CKPT_OK : fail_memory(err);
}

ckpt_status shards_list_siblings(const ckpt_file *f, arena *a, map **names, ckpt_error *err)
{
    struct siblings s = {a, names};
    const struct index_visit v = {add_others, &s};
    ckpt_str path = str_c(f->path), folder = str_folder(path), name = str_skip(path, folder.len);
    *names = NULL;
    folder = folder.len ? arena_str(a, folder) : STR_LIT("./");
    ckpt_status st = folder.ptr ? visit_folder(a, &v, folder, is_index_name, name, err) : fail_memory(err);
    return st == CKPT_ENOMEM ? st : CKPT_OK; /* an index that cannot be read lists nothing */
}
