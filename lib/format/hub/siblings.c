/* siblings.c - the tensors in the other shards of the set that a file, which was opened alone, belongs to. */
#include "format/hub/siblings.h"

#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/hub/shards.h"

#define MAX_INDEX (64u << 20) /* a longer index is not searched */

static bool is_index(ckpt_str name) { return str_ends(name, STR_LIT(INDEX_SUFFIX)); }

/* read_index - sets *TEXT to the index PATH, in A; it is empty if that is no regular file or too long. */
static ckpt_status read_index(arena *a, const char *path, ckpt_str *text, ckpt_error *err)
{
    source *src = NULL;
    *text = str_of("", 0);
    CKPT_TRY(path_check_regular(path, err));
    CKPT_TRY(source_file_open(path, &src, err));
    size_t n = src->size <= MAX_INDEX ? (size_t)src->size : 0;
    char *bytes = arena_alloc(a, n);
    ckpt_status st = bytes ? source_read(src, 0, bytes, n, err) : fail_memory(err);
    source_unref(src);
    *text = str_of(bytes, n);
    return st;
}

/* lists_file - returns true if the index TEXT lists a tensor in the file NAME. */
static bool lists_file(arena *a, ckpt_str text, ckpt_str name)
{
    ckpt_error ignored;
    ckpt_str key;
    json_scan j;
    bool found_map = false;
    json_init(&j, text, 0, a, &ignored);
    while (shards_find_next_file(&j, &found_map, &key))
        if (str_eq(j.str, name))
            return true;
    return false;
}

/* add_others - adds to NAMES the tensors that the index TEXT lists in files other than NAME. False: no
 * memory. */
static bool add_others(arena *a, ckpt_str text, ckpt_str name, map *names)
{
    ckpt_error ignored;
    ckpt_str key;
    json_scan j;
    bool found_map = false, ok = true;
    json_init(&j, text, 0, a, &ignored);
    while (ok && shards_find_next_file(&j, &found_map, &key))
        ok = str_eq(j.str, name) || map_put(names, key, 0, NULL);
    return ok;
}

ckpt_status siblings_list(const ckpt_file *f, arena *a, map **names, ckpt_error *err)
{
    ckpt_error unreadable;
    ckpt_str *indexes = NULL, text, folder = str_folder(str_c(f->path));
    ckpt_str name = str_skip(str_c(f->path), folder.len);
    const char *folder_path = folder.len ? arena_str(a, folder).ptr : ".";
    size_t n = 0;
    *names = NULL;
    if (!folder_path)
        return fail_memory(err);
    if (folder_list_on_disk(a, folder_path, is_index, &indexes, &n, &unreadable) != CKPT_OK)
        return CKPT_OK;
    for (size_t i = 0; i < n; i++) {
        const char *path = ARENA_CONCAT(a, folder, indexes[i]).ptr;
        if (!path)
            return fail_memory(err);
        if (read_index(a, path, &text, &unreadable) != CKPT_OK || !lists_file(a, text, name))
            continue;
        if (!*names && !(*names = map_new(0)))
            return fail_memory(err);
        if (!add_others(a, text, name, *names))
            return fail_memory(err);
    }
    return CKPT_OK;
}
