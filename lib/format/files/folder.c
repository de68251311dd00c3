/* folder.c - lists the files in a folder, on disk or in an archive, and looks into them. */
#include "format/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/text.h"
#include "format/files/members.h"
#include "format/files/path.h"

#define CONTENT_PART 65536u

/* ------------------------------------------------------------------------- list */

static int compare_names(const void *left, const void *right)
{
    return ckpt_natural_compare(*(const ckpt_str *)left, *(const ckpt_str *)right);
}

static void sort_names(ckpt_str *names, size_t count)
{
    if (count)
        qsort(names, count, sizeof *names, compare_names);
}

static bool is_not_dot_name(ckpt_str name) { return !str_is(name, ".") && !str_is(name, ".."); }

ckpt_status folder_list_on_disk(arena *a, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                                size_t *count, ckpt_error *err)
{
    size_t cap = 0;
    ckpt_status st = CKPT_OK;
    DIR *dir = opendir(path);
    *out = NULL;
    *count = 0;
    if (!dir)
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot open the folder"), path, err);
    errno = 0; /* readdir sets it when it fails */
    for (struct dirent *e; st == CKPT_OK && (e = readdir(dir)); errno = 0) {
        if (!(match ? match : is_not_dot_name)(str_c(e->d_name)))
            continue;
        ckpt_str name = arena_str(a, str_c(e->d_name));
        if (!name.ptr || !arena_push(a, out, count, &cap, &name, sizeof name))
            st = fail_memory(err);
    }
    if (st == CKPT_OK && errno)
        st = name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot list the folder"), path, err);
    (void)closedir(dir);
    sort_names(*out, *count);
    return st;
}

/* list_names - does folder_list for the folder PATH on disk or in ARCHIVE. */
static ckpt_status list_names(arena *a, const source *archive, const char *path, bool (*match)(ckpt_str name),
                              ckpt_str **out, size_t *count, ckpt_error *err)
{
    if (!archive)
        return folder_list_on_disk(a, path, match, out, count, err);
    ckpt_status st = members_list(archive, path, a, match, out, count, err);
    sort_names(*out, *count);
    return name_file_if_failed(st, path, err);
}

ckpt_status folder_list(const ckpt_file *f, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                        size_t *count, ckpt_error *err)
{
    return list_names(f->a, f->archive, path, match, out, count, err);
}

ckpt_status folder_list_all(const ckpt_file *f, const char *path, ckpt_str **out, size_t *count,
                            ckpt_error *err)
{
    return folder_list(f, path, is_not_dot_name, out, count, err);
}

bool probe_has(const struct probe *probe, const char *name)
{
    for (size_t i = 0; i < probe->nnames; i++)
        if (str_is(probe->names[i], name))
            return true;
    return false;
}

bool probe_matches(const struct probe *probe, bool (*match)(ckpt_str name))
{
    for (size_t i = 0; i < probe->nnames; i++)
        if (match(probe->names[i]))
            return true;
    return false;
}

static bool has_match_on_disk(const char *path, const char *glob)
{
    bool found = false;
    DIR *d = opendir(path);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = ckpt_glob_match(str_c(glob), str_c(e->d_name));
    if (d)
        (void)closedir(d);
    return found;
}

bool folder_has(const source *archive, const char *path, const char *name)
{
    char full[4096];
    if (strchr(name, '*'))
        return archive ? members_folder_has(archive, path, name) : has_match_on_disk(path, name);
    int n = snprintf(full, sizeof full, "%s/%s", path, name);
    return (size_t)n < sizeof full && path_exists(archive, full);
}

static bool is_regular_file(const source *archive, const char *path)
{
    struct stat file_stat;
    return archive ? members_find(archive, path) == MEMBER_FILE
                   : stat(path, &file_stat) == 0 && S_ISREG(file_stat.st_mode);
}

/* open_regular_file - opens the file NAME of the folder PATH. *SRC is NULL if it is no regular file or cannot
 * be read. False: no memory. */
static bool open_regular_file(source *archive, const char *path, const char *name, source **src)
{
    ckpt_error ignored;
    char *full = path_make(str_c(path), str_c(name));
    *src = NULL;
    bool no_memory = !full || (is_regular_file(archive, full) &&
                               source_open_in(archive, full, src, &ignored) == CKPT_ENOMEM);
    free(full);
    return !no_memory;
}

/* read_head - reads at most SIZE bytes of SRC, which it releases, into HEAD, and returns them. */
static ckpt_str read_head(source *src, char *head, size_t size)
{
    ckpt_error ignored;
    size_t n = !src ? 0 : src->size < size ? (size_t)src->size : size;
    bool read = src && source_read(src, 0, head, n, &ignored) == CKPT_OK;
    source_unref(src);
    return str_of(head, read ? n : 0);
}

static bool part_has(source *src, uint64_t at, size_t nbytes, const char *text)
{
    char part[CONTENT_PART];
    ckpt_error ignored;
    return source_read(src, at, part, nbytes, &ignored) == CKPT_OK &&
           str_find(str_of(part, nbytes), str_c(text), 0) != SIZE_MAX;
}

bool folder_file_has(source *archive, const char *path, const char *name, const char *text)
{
    source *src;
    (void)open_regular_file(archive, path, name, &src); /* without memory the folder is described less well */
    size_t n = !src ? 0 : src->size < CONTENT_PART ? (size_t)src->size : CONTENT_PART;
    bool has = src && (part_has(src, 0, n, text) || part_has(src, src->size - n, n, text));
    source_unref(src);
    return has;
}

source *probe_open(const struct probe *probe, const char *name)
{
    source *src = NULL;
    if (probe_has(probe, name) && !open_regular_file(probe->archive, probe->path, name, &src))
        *probe->no_memory = true;
    return src;
}

ckpt_str probe_read_head(const struct probe *probe, const char *name, char *head, size_t size)
{
    return read_head(probe_open(probe, name), head, size);
}

/* ------------------------------------------------------------------------- hint */

void folder_hint(const source *archive, const char *path, bool (*match)(ckpt_str name), ckpt_error *err)
{
    ckpt_error ignored;
    ckpt_str *list = NULL;
    char text[sizeof err->hint - 40], word[SHELL_WORD_MAX];
    size_t n = 0, used = 0, shown = 0;
    arena *a = arena_new(UINT64_C(1) << 26);
    if (a) /* without memory the list is shorter */
        (void)list_names(a, archive, path, match, &list, &n, &ignored);
    for (; shown < n; shown++) {
        char *joined = path_make(str_c(path), list[shown]);
        const char *name = joined ? shell_path(joined, word) : "FILE";
        free(joined);
        if (used + strlen(name) + 3 > sizeof text)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown ? ", " : "", name);
    }
    if (!n)
        error_add_hint(err, "name a file in it, or a folder with an *.index.json or one model.safetensors");
    else if (shown < n)
        error_add_hint(err, "name one: %s and %zu more", text, n - shown);
    else
        error_add_hint(err, "name %s%s", n > 1 ? "one: " : "", text);
    arena_free(a);
}

ckpt_status folder_fail_ambiguous(const source *archive, const char *path, unsigned count,
                                  bool (*match)(ckpt_str name), ckpt_error *err)
{
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "folder with %u checkpoint%s: it is not clear %s", count,
               count == 1 ? "" : "s", count == 1 ? "whether it is meant" : "which of them is meant");
    folder_hint(archive, path, match, err);
    return CKPT_EUSAGE;
}
