/* own_files.c - see own_files.h. Two paths are one file if they have the same device and inode. Of a set
 * whose files are opened one by one (shards, the files of ranks), the names tell which belong together. */
#include "format/files/own_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "format/files/checkpoint_names.h"
#include "format/files/server.h"

#define MAX_PARTS_DEPTH 8u /* parts in parts: a folder, its shards, archives in these */

static bool is_same_file(const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

/* ------------------------------------------------------------------------- visit */

struct visitor {
    ckpt_status (*visit)(void *user, const struct stat *st, ckpt_error *err);
    void *user;
};

static ckpt_status visit_path(const struct visitor *visitor, const char *path, ckpt_error *err)
{
    struct stat st;
    if (path && stat(path, &st) == 0)
        return visitor->visit(visitor->user, &st, err);
    if (!path || errno == ENOENT || errno == ENOTDIR)
        return CKPT_OK;
    return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot examine the input again"), path, err);
}

static ckpt_status visit_files(const struct visitor *visitor, const ckpt_file *f, unsigned depth,
                               ckpt_error *err)
{
    const source *src = f->src ? f->src : f->archive;
    const struct stat *opened = src ? source_opened_stat(src) : NULL;
    struct stat on_server;
    if (opened) /* the path may be a prefix, as of TensorFlow, or name another file by now */
        CKPT_TRY(visitor->visit(visitor->user, opened, err));
    if (f->archive && server_stat(f->archive, &on_server))
        CKPT_TRY(visitor->visit(visitor->user, &on_server, err));
    CKPT_TRY(visit_path(visitor, f->path, err));
    for (size_t i = 0; i < f->nread_paths; i++)
        CKPT_TRY(visit_path(visitor, f->read_paths[i], err));
    for (size_t i = 0; depth < MAX_PARTS_DEPTH && i < f->nparts; i++)
        CKPT_TRY(visit_files(visitor, f->parts[i], depth + 1, err));
    for (size_t i = 0; depth < MAX_PARTS_DEPTH && i < f->nothers; i++)
        CKPT_TRY(visit_files(visitor, f->others[i], depth + 1, err));
    return CKPT_OK;
}

ckpt_status own_files_visit(const ckpt_file *f,
                            ckpt_status (*visit)(void *user, const struct stat *st, ckpt_error *err),
                            void *user, ckpt_error *err)
{
    const struct visitor v = {visit, user};
    return visit_files(&v, f, 0, err);
}

/* ------------------------------------------------------------------------ compare */

struct search {
    const struct stat *sought;
    bool found;
    struct stat first;          /* the first file that was visited */
    bool has_first, has_others; /* others: files that are not the first */
};

static ckpt_status compare_file(void *user, const struct stat *st, ckpt_error *err)
{
    struct search *s = user;
    (void)err;
    if (!s->has_first)
        s->first = *st;
    s->has_first = true;
    s->has_others |= !is_same_file(&s->first, st);
    s->found |= s->sought && is_same_file(s->sought, st);
    return CKPT_OK;
}

ckpt_status own_files_contain(const ckpt_file *f, const struct stat *st, bool *yes, ckpt_error *err)
{
    struct search s = {.sought = st};
    ckpt_status status = own_files_visit(f, compare_file, &s, err);
    *yes = s.found;
    return status;
}

bool own_files_contain_path(const ckpt_file *f, const char *path)
{
    ckpt_error ignored;
    struct stat st;
    bool yes;
    return stat(path, &st) == 0 && (own_files_contain(f, &st, &yes, &ignored) != CKPT_OK || yes);
}

/* -------------------------------------------------------------------------- names */

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

/* has_rank_number - returns true for names that a rank gives to its file, such as mp_rank_00_model_states.pt,
 * zero_pp_rank_0_mp_rank_00_optim_states.pt, model_world_size_2_rank_0.pt and layer_01-model_states.pt. */
static bool has_rank_number(ckpt_str name)
{
    static const char *const before[] = {"rank_", "rank", "layer_"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t n = strlen(before[i]);
        for (size_t at = 0; (at = str_find(name, str_c(before[i]), at)) != SIZE_MAX; at++)
            if (at + n < name.len && is_digit(name.ptr[at + n]))
                return true;
    }
    return false;
}

/* are_of_one_set - returns true if LEFT and RIGHT, names of files of one folder, are those of files of one
 * set. */
static bool are_of_one_set(ckpt_str left, ckpt_str right)
{
    struct shard_name x, y;
    if (shard_name_parse(left, &x) && shard_name_parse(right, &y))
        return x.count == y.count && str_eq(x.stem, y.stem) && str_eq(x.ext, y.ext);
    return has_rank_number(left) && names_differ_in_numbers(left, right);
}

/* are_same_folder - returns true if the files LEFT and RIGHT are in one folder, or if that cannot be
 * checked. */
static bool are_same_folder(ckpt_str left, ckpt_str right)
{
    struct stat sa, sb;
    char *folder_a = left.len ? strndup(left.ptr, left.len) : strdup("."), *folder_b = NULL;
    if (folder_a)
        folder_b = right.len ? strndup(right.ptr, right.len) : strdup(".");
    bool differ = folder_b &&
                  (stat(folder_a, &sa) != 0 || stat(folder_b, &sb) != 0 || !is_same_file(&sa, &sb));
    free(folder_a);
    free(folder_b);
    return !differ;
}

/* ------------------------------------------------------------------------- refuse */

static ckpt_status refuse(const char *path, ckpt_error *err)
{
    return name_file_if_failed(fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                                    "is part of the input; nothing written\n"
                                    "write into another folder, then move it"),
                               path, err);
}

/* is_other_of_set - returns true if PATH, which exists, is a file of the set in which the single file F is
 * one, or the file of a rank in the folder F. */
static bool is_other_of_set(const ckpt_file *f, const struct search *search, const char *path)
{
    ckpt_str a = str_c(f->path), b = str_c(path);
    if (!f->src && f->folder)
        return has_rank_number(str_after_last(b, '/')) && are_same_folder(str_c(f->folder), str_folder(b));
    return f->src && !search->has_others && !search->found &&
           are_of_one_set(str_after_last(a, '/'), str_after_last(b, '/')) &&
           are_same_folder(str_folder(a), str_folder(b));
}

/* is_in_folder - returns true if PATH is in F, a folder all of whose files belong to it. */
static bool is_in_folder(const ckpt_file *f, const char *path)
{
    char *folder = f->owns_folder ? realpath(f->folder, NULL) : NULL,
         *real = folder ? realpath(path, NULL) : NULL;
    size_t n = folder ? strlen(folder) : 0;
    bool inside = real && strncmp(real, folder, n) == 0 && real[n] == '/';
    free(folder);
    free(real);
    return inside;
}

ckpt_status own_files_check_output(const ckpt_file *f, const char *path, bool only_output, ckpt_error *err)
{
    ckpt_error ignored;
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return CKPT_OK;
    struct search s = {.sought = &st};
    if (own_files_visit(f, compare_file, &s, &ignored) != CKPT_OK)
        return refuse(path, err);
    bool may_replace_input = only_output && f->src && !s.has_others;
    bool is_own = s.found && !may_replace_input;
    return is_own || is_other_of_set(f, &s, path) || is_in_folder(f, path) ? refuse(path, err) : CKPT_OK;
}

ckpt_status own_files_check_set(const ckpt_file *f, const char *folder, const char *stem, const char *ext,
                                ckpt_error *err)
{
    struct shard_name name;
    ckpt_str path = str_c(f->path);
    bool is_one = f->src && shard_name_parse(str_after_last(path, '/'), &name) && str_is(name.stem, stem) &&
                  str_is(name.ext, ext) && name.count > 1 && are_same_folder(str_folder(path), str_c(folder));
    return is_one ? refuse(f->path, err) : CKPT_OK;
}
