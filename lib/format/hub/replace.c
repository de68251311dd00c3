/* replace.c - replaces a set of shards. Only the rename of one file is atomic, so this takes five steps:
 *
 *   1. each old file whose name the new set needs gets a second name, .NAME.ckpt-old (a hard link);
 *   2. the old index is replaced by an index with the second names;
 *   3. the new shards are moved into place; no index refers to these names now;
 *   4. the new index is moved into place;
 *   5. shards only in the old index are removed, and all second names, that of the index last.
 *
 * Until 4 the index is that of the old set, then that of the new set. Files that a killed run leaves are
 * removed in 5 of the next run, because until then the old index may need them.
 *
 * Without hard links, or if the files are symbolic links, the old index is removed before 3, so that shards
 * of both sets are never read together. It is also removed after a single file has replaced the set.
 *
 * The files to remove in 5 are listed before 1. From 3 on nothing here allocates memory, so that neither
 * finishing nor undoing can fail for lack of it. */
#include "format/hub/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/files/checkpoint_names.h"
#include "format/hub/shards.h"

#define OLD_SUFFIX      ".ckpt-old"
#define MAX_INDEX_BYTES (UINT64_C(1) << 30) /* of an index and its parsed form */

/* A file of the new set, and the old file of the same name. */
struct replaced_file {
    const char *path;        /* of the new file */
    const char *base_name;   /* the end of PATH: its name without the folder */
    const char *second_path; /* of the second name of the old file */
    bool existed;            /* there was an old file */
    bool has_second_name;    /* the old file has its second name */
};

struct replaced {
    arena *a;
    struct replaced_file *files; /* the index is the last */
    size_t n;
    ckpt_str folder, stem, ext;
    ckpt_str index_text; /* of the old index; empty: there is none */
    map *listed_names;   /* the names of the shards in the old index */
    /* Until list_old_shards: the shards in the old index, and those in an index that a run killed in step 5
     * left. After list_old_shards: the first names of the files to remove. */
    ckpt_str *names;
    size_t nnames, cap_names;
    char *path_buf; /* FOLDER, and space after it for one of NAMES or its second name */
    bool sync;
    bool was_rewritten;     /* a killed run rewrote the old index: it lists second names */
    bool made_second_names; /* new second names were made */
    char *moved_index_path; /* from where the old index was moved to its second name; NULL: was not moved */
};

static ckpt_str get_base(const char *path) { return str_after_last(str_c(path), '/'); }

/* check_exists - sets *EXISTS, and *ST if PATH exists. */
static ckpt_status check_exists(const char *path, struct stat *st, bool *exists, ckpt_error *err)
{
    *exists = lstat(path, st) == 0;
    if (*exists || errno == ENOENT)
        return CKPT_OK;
    return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot examine what is to be replaced"), path,
                               err);
}

/* ------------------------------------------------------------------ the index */

static ckpt_status add_shard_name(struct replaced *replaced, map *named, ckpt_str name, ckpt_error *err)
{
    uint32_t before;
    CKPT_TRY_ALLOC(map_put(named, name, 0, &before), err);
    bool ok = before != MAP_NONE || ARENA_PUSH(replaced->a, replaced, names, &name);
    return ok ? CKPT_OK : fail_memory(err);
}

/* read_old_index - sets *OUT to the text of PATH, empty if that is no index; adds its shards to
 * replaced->names. */
static ckpt_status read_old_index(struct replaced *replaced, const char *path, map *named, ckpt_str *out,
                                  ckpt_error *err)
{
    source *src = NULL;
    ckpt_error why = {0};
    json_scan j;
    ckpt_str key;
    bool found_map = false;
    CKPT_TRY(source_file_open(path, &src, err));
    size_t n = src->size < MAX_INDEX_BYTES / 4 ? (size_t)src->size : 0;
    char *text = arena_alloc(replaced->a, n);
    ckpt_status st = text ? source_read(src, 0, text, n, err) : fail_memory(err);
    source_unref(src);
    CKPT_TRY(st);
    json_init(&j, str_of(text, n), 0, replaced->a, &why);
    while (shards_find_next_file(&j, &found_map, &key))
        CKPT_TRY(add_shard_name(replaced, named, j.str, err));
    if (why.status == CKPT_ENOMEM) /* any other fault: the index is used up to there */
        return fail_memory(err);
    *out = str_of(text, found_map ? n : 0);
    return CKPT_OK;
}

/* read_leftover_index - adds the names in the index of a set that was replaced, but not completely
 * removed. */
static ckpt_status read_leftover_index(struct replaced *replaced, ckpt_error *err)
{
    struct stat file_stat;
    ckpt_str text;
    bool exists;
    const char *path = replaced->files[replaced->n - 1].second_path;
    CKPT_TRY(check_exists(path, &file_stat, &exists, err));
    if (!exists || !S_ISREG(file_stat.st_mode))
        return CKPT_OK;
    map *named = map_new(replaced->n);
    ckpt_status st = named ? read_old_index(replaced, path, named, &text, err) : fail_memory(err);
    map_free(named);
    return st;
}

/* make_rewritten_index - appends the text of the old index to OUT, with second names in place of first
 * ones. */
static ckpt_status make_rewritten_index(struct replaced *replaced, buf *out, ckpt_error *err)
{
    ckpt_error why = {0};
    json_scan j;
    ckpt_str key;
    bool found_map = false;
    size_t copied = 0;                   /* bytes of replaced->index_text that are in OUT */
    map *file_of = map_new(replaced->n); /* first name -> position in replaced->files */
    bool ok = file_of != NULL;
    for (size_t i = 0; ok && i + 1 < replaced->n; i++)
        if (replaced->files[i].has_second_name)
            ok = map_put(file_of, str_c(replaced->files[i].base_name), (uint32_t)i, NULL);
    json_init(&j, replaced->index_text, 0, replaced->a, &why);
    while (ok && shards_find_next_file(&j, &found_map, &key)) {
        uint32_t i = map_get(file_of, j.str);
        if (i == MAP_NONE)
            continue;
        buf_put(out, replaced->index_text.ptr + copied, j.event_at - copied);
        json_quote_ascii(out, get_base(replaced->files[i].second_path));
        copied = j.pos;
    }
    map_free(file_of);
    buf_put(out, replaced->index_text.ptr + copied, replaced->index_text.len - copied);
    return ok && why.status != CKPT_ENOMEM && buf_ok(out) ? CKPT_OK : fail_memory(err);
}

static ckpt_status rewrite_index(struct replaced *replaced, ckpt_error *err)
{
    struct sink_options sink_opts = {.force = true, .no_sync = !replaced->sync};
    buf b;
    buf_init(&b, (size_t)MAX_INDEX_BYTES);
    ckpt_status st = make_rewritten_index(replaced, &b, err);
    if (st == CKPT_OK)
        st = sink_write_whole_file(replaced->files[replaced->n - 1].path, &sink_opts, buf_view(&b), err);
    buf_free(&b);
    return st;
}

/* ------------------------------------------------------- what only the old set had */

/* get_first_name - returns the first name of a file with the second name NAME; other names unchanged. */
static ckpt_str get_first_name(ckpt_str name)
{
    if (name.len > sizeof OLD_SUFFIX && name.ptr[0] == '.' && str_ends(name, STR_LIT(OLD_SUFFIX)))
        name = str_of(name.ptr + 1, name.len - sizeof OLD_SUFFIX);
    return name;
}

/* is_shard_name - returns true if NAME is that of a shard in a set with this stem. */
static bool is_shard_name(const struct replaced *replaced, ckpt_str name)
{
    struct shard_name s;
    return shard_name_parse(name, &s) && str_eq(s.stem, replaced->stem) && str_eq(s.ext, replaced->ext);
}

/* list_old_shards - keeps in replaced->names only files to remove in step 5, and allocates
 * replaced->path_buf. */
static ckpt_status list_old_shards(struct replaced *replaced, ckpt_error *err)
{
    size_t nkept = 0;
    size_t longest = replaced->stem.len + sizeof "-00000-of-00000" + replaced->ext.len;
    map *new_names = map_new(replaced->n);
    bool ok = new_names != NULL;
    for (size_t i = 0; ok && i < replaced->n; i++)
        ok = map_put(new_names, str_c(replaced->files[i].base_name), 0, NULL);
    for (size_t i = 0; ok && i < replaced->nnames; i++) {
        ckpt_str name = get_first_name(replaced->names[i]);
        if (is_shard_name(replaced, name) && map_get(new_names, name) == MAP_NONE)
            replaced->names[nkept++] = name;
    }
    map_free(new_names);
    replaced->nnames = nkept;
    replaced->path_buf = arena_alloc(replaced->a, replaced->folder.len + longest + sizeof "." OLD_SUFFIX);
    CKPT_TRY_ALLOC(ok && replaced->path_buf, err);
    memcpy(replaced->path_buf, replaced->folder.ptr, replaced->folder.len);
    return CKPT_OK;
}

/* --------------------------------------------------------------- second names */

static void remove_second_names(struct replaced *replaced)
{
    for (size_t i = 0; i < replaced->n; i++) {
        if (replaced->files[i].has_second_name)
            (void)unlink(replaced->files[i].second_path);
        replaced->files[i].has_second_name = false;
    }
}

/* keep_old_file - gives the old file of FILE its second name. */
static bool keep_old_file(struct replaced_file *file)
{
    struct stat st;
    (void)unlink(file->second_path);
    if (lstat(file->path, &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = EXDEV;
        return false;
    }
    file->has_second_name = linkat(AT_FDCWD, file->path, AT_FDCWD, file->second_path, 0) == 0;
    return file->has_second_name;
}

/* keep_old_files - gives second names to the old files that the new set replaces. False: errno is why. */
static bool keep_old_files(struct replaced *replaced)
{
    struct stat st;
    struct replaced_file *index = &replaced->files[replaced->n - 1];
    for (size_t i = 0; i + 1 < replaced->n; i++) {
        struct replaced_file *p = &replaced->files[i];
        bool was_kept = map_get(replaced->listed_names, get_base(p->second_path)) !=
                        MAP_NONE; /* by a killed run */
        replaced->was_rewritten |= was_kept;
        if (was_kept) {
            p->has_second_name = lstat(p->second_path, &st) == 0;
        } else if (p->existed && map_get(replaced->listed_names, str_c(p->base_name)) != MAP_NONE) {
            replaced->made_second_names = keep_old_file(p);
            if (!replaced->made_second_names)
                return false;
        }
    }
    /* An index that lists second names gets none: replaced_undo would restore it, then remove those names. */
    if (!replaced->was_rewritten)
        return keep_old_file(index) || !replaced->made_second_names;
    index->has_second_name = lstat(index->second_path, &st) == 0;
    return true;
}

/* means_no_hard_links - returns true if WHY, an errno of link(2), means that no hard link is possible. */
static bool means_no_hard_links(int why)
{
    return why == EPERM || why == EOPNOTSUPP || why == ENOSYS || why == EMLINK || why == EXDEV ||
           why == ENAMETOOLONG || why == EINVAL;
}

/* remove_old_index - removes the old index or, if that is a symbolic link, its target. If possible it is
 * moved to its second name instead, so that a later run finds the files to remove. The second names of shards
 * are removed after the index, because it may list them. */
static ckpt_status remove_old_index(struct replaced *replaced, ckpt_error *err)
{
    const struct replaced_file *index = &replaced->files[replaced->n - 1];
    char *path = realpath(index->path, NULL);
    bool moved = path && replaced->index_text.len && rename(path, index->second_path) == 0;
    bool removed = moved || (path ? unlink(path) == 0 || errno == ENOENT : errno == ENOENT);
    ckpt_status st = removed
                         ? CKPT_OK
                         : fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index that is to be replaced");
    if (moved)
        replaced->moved_index_path = path;
    else
        free(path);
    CKPT_TRY(st);
    replaced->files[replaced->n - 1].has_second_name &= !moved;
    remove_second_names(replaced);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------ all */

static void replaced_free(struct replaced *replaced)
{
    map_free(replaced->listed_names);
    arena_free(replaced->a);
    free(replaced->moved_index_path);
    free(replaced);
}

static ckpt_status list_files(struct replaced *replaced, const char *const *paths, ckpt_error *err)
{
    struct stat st;
    replaced->files = arena_array(replaced->a, replaced->n, sizeof *replaced->files);
    replaced->listed_names = map_new(replaced->n);
    CKPT_TRY_ALLOC(replaced->files && replaced->listed_names, err);
    for (size_t i = 0; i < replaced->n; i++) {
        struct replaced_file *p = &replaced->files[i];
        ckpt_str base = get_base(paths[i]);
        replaced->folder = str_of(paths[i], strlen(paths[i]) - base.len);
        ckpt_str second = ARENA_CONCAT(replaced->a, replaced->folder, STR_LIT("."), base,
                                       STR_LIT(OLD_SUFFIX));
        *p = (struct replaced_file){.path = arena_str(replaced->a, str_c(paths[i])).ptr,
                                    .second_path = second.ptr};
        CKPT_TRY_ALLOC(p->path && p->second_path, err);
        replaced->folder.ptr = p->path;
        p->base_name = get_base(p->path).ptr;
        CKPT_TRY(check_exists(p->path, &st, &p->existed, err));
    }
    return CKPT_OK;
}

static ckpt_status begin_replacing(struct replaced *replaced, ckpt_error *err)
{
    bool existed = replaced->files[replaced->n - 1].existed;
    ckpt_status st = read_leftover_index(replaced, err);
    if (st == CKPT_OK && existed)
        st = read_old_index(replaced, replaced->files[replaced->n - 1].path, replaced->listed_names,
                            &replaced->index_text, err);
    if (st == CKPT_OK)
        st = list_old_shards(replaced, err);
    if (st == CKPT_OK && replaced->index_text.len) {
        if (keep_old_files(replaced))
            st = replaced->made_second_names ? rewrite_index(replaced, err) : CKPT_OK;
        else if (means_no_hard_links(errno))
            st = remove_old_index(replaced, err);
        else
            st = fail_errno(err, CKPT_NO_OFFSET, "cannot keep the set that is to be replaced");
    } else if (st == CKPT_OK && existed) {
        st = remove_old_index(replaced, err);
    }
    return name_file_if_failed(st, replaced->files[replaced->n - 1].path, err);
}

ckpt_status replaced_begin(const char *const *paths, size_t count, const char *stem, const char *ext,
                           bool sync, struct replaced **out, ckpt_error *err)
{
    struct replaced *r = calloc(1, sizeof *r);
    if (!r || !(r->a = arena_new(MAX_INDEX_BYTES))) {
        free(r);
        return fail_memory(err);
    }
    r->n = count;
    r->sync = sync;
    r->stem = arena_str(r->a, str_c(stem));
    r->ext = arena_str(r->a, str_c(ext));
    ckpt_status st = r->stem.ptr && r->ext.ptr ? list_files(r, paths, err) : fail_memory(err);
    if (st != CKPT_OK) {
        replaced_free(r);
        return st;
    }
    if ((st = begin_replacing(r, err)) == CKPT_OK)
        *out = r;
    else
        replaced_undo(r, 0);
    return st;
}

/* restore_file - gives the old file of FILE its first name again. False: that failed. */
static bool restore_file(const struct replaced_file *file)
{
    struct stat a, b;
    if (lstat(file->path, &a) == 0 && lstat(file->second_path, &b) == 0 && a.st_ino == b.st_ino &&
        a.st_dev == b.st_dev)
        return true;
    return (unlink(file->path) == 0 || errno == ENOENT) && link(file->second_path, file->path) == 0;
}

void replaced_undo(struct replaced *replaced, size_t placed)
{
    const struct replaced_file *index = &replaced->files[replaced->n - 1];
    bool intact = true;
    if (placed == replaced->n)
        (void)unlink(index->path);
    for (size_t i = 0; i + 1 < replaced->n; i++) {
        const struct replaced_file *p = &replaced->files[i];
        if (p->has_second_name)
            intact = intact && restore_file(p);
        else if (!p->existed && i < placed)
            (void)unlink(p->path);
    }
    /* If nothing was moved into place and no second name is used, only the index has to be restored. */
    bool can_move_back = !placed && !replaced->was_rewritten;
    if (replaced->moved_index_path &&
        !(can_move_back && rename(index->second_path, replaced->moved_index_path) == 0))
        (void)unlink(index->second_path);
    /* Second names stay if a file was not restored, or if the index still lists them. */
    if (intact &&
        (index->has_second_name ? rename(index->second_path, index->path) == 0 : !replaced->was_rewritten))
        remove_second_names(replaced);
    replaced_free(replaced);
}

static void remove_both_names(struct replaced *replaced, ckpt_str name)
{
    char *at = replaced->path_buf + replaced->folder.len;
    memcpy(at, name.ptr, name.len);
    at[name.len] = '\0';
    (void)unlink(replaced->path_buf);
    *at++ = '.';
    memcpy(at, name.ptr, name.len);
    memcpy(at + name.len, OLD_SUFFIX, sizeof OLD_SUFFIX);
    (void)unlink(replaced->path_buf);
}

bool replaced_remove_index(const struct replaced *replaced)
{
    const struct replaced_file *index = &replaced->files[replaced->n - 1];
    return (!index->has_second_name && rename(index->path, index->second_path) == 0) ||
           unlink(index->path) == 0 || errno == ENOENT;
}

void replaced_done(struct replaced *replaced)
{
    if (!replaced)
        return;
    for (size_t i = 0; i + 1 < replaced->n; i++)
        (void)unlink(replaced->files[i].second_path);
    for (size_t i = 0; i < replaced->nnames; i++)
        remove_both_names(replaced, replaced->names[i]);
    (void)unlink(replaced->files[replaced->n - 1].second_path);
    replaced_free(replaced);
}
