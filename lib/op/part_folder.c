/* part_folder.c - see part_folder.h. */
#include "op/part_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/source.h"
#include "op/parts.h"

#define ID_DIGITS (PART_ID_TEXT - 1)

const char *part_path(const char *folder, const char *name, arena *a)
{
    if (strcmp(folder, ".") == 0)
        return arena_str(a, str_c(name)).ptr;
    return ARENA_CONCAT(a, str_c(folder), STR_LIT("/"), str_c(name)).ptr;
}

ckpt_status part_target_find(const char *path, arena *a, const char **folder, ckpt_str *target,
                             ckpt_error *err)
{
    ckpt_str text = str_c(path), name = str_after_last(text, '/'), dir = str_folder(text);
    *target = str_of(NULL, 0);
    if (source_is_folder(path)) {
        *folder = arena_str(a, str_trim_end(text, "/")).ptr;
        if (*folder && !**folder) /* the root of the file system */
            *folder = "/";
        return *folder ? CKPT_OK : fail_memory(err);
    }
    if (str_ends(name, STR_LIT(PART_INDEX_SUFFIX)))
        name = str_first(name, name.len - strlen(PART_INDEX_SUFFIX));
    *target = arena_str(a, name);
    *folder = dir.len > 1 ? arena_str(a, str_first(dir, dir.len - 1)).ptr : dir.len ? "/" : ".";
    return *folder && target->ptr ? CKPT_OK : fail_memory(err);
}

/* is_work_name - returns true if NAME is that of a work folder, and sets *CLOSED. */
static bool is_work_name(ckpt_str name, bool *closed)
{
    if (!str_take(&name, STR_LIT(PART_FOLDER_PREFIX)) || name.len < ID_DIGITS)
        return false;
    for (size_t i = 0; i < ID_DIGITS; i++)
        if (str_digit(name.ptr[i]) > 15)
            return false;
    *closed = str_is(str_skip(name, ID_DIGITS), PART_CLOSED_SUFFIX);
    return *closed || name.len == ID_DIGITS;
}

bool part_folder_has(const char *path)
{
    bool closed;
    ckpt_str folder = str_folder(str_trim_end(str_c(path), "/"));
    return is_work_name(str_after_last(str_trim_end(folder, "/"), '/'), &closed) ||
           is_work_name(str_after_last(str_trim_end(str_c(path), "/"), '/'), &closed);
}

/* may_be_of - returns true if the work folder PATH, whose plan cannot be read, may be of the output TARGET:
 * it has that file or its index. */
static bool may_be_of(const char *path, ckpt_str target, arena *a)
{
    struct stat st;
    const char *file = target.ptr ? part_path(path, target.ptr, a) : NULL;
    const char *index = file ? ARENA_CONCAT(a, str_c(file), STR_LIT(PART_INDEX_SUFFIX)).ptr : NULL;
    return !index || lstat(file, &st) == 0 || lstat(index, &st) == 0;
}

/* read_job - reads plan.json of WORK, whose id must be that in the folder's name. */
static ckpt_status read_job(struct part_work *work, arena *a, ckpt_error *err)
{
    const char *plan = part_path(work->path, PART_PLAN_NAME, a);
    CKPT_TRY_ALLOC(plan, err);
    CKPT_TRY(part_job_read(plan, a, &work->job, err));
    if (strncmp(work->name + strlen(PART_FOLDER_PREFIX), work->job.id, ID_DIGITS) == 0)
        return CKPT_OK;
    return name_file_if_failed(fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "is of another plan than its folder"),
                               plan, err);
}

static ckpt_status keep_failure(struct part_work *work, arena *a, ckpt_error *err)
{
    ckpt_error *failure = arena_array(a, 1, sizeof *failure);
    CKPT_TRY_ALLOC(failure, err);
    *failure = *err;
    work->failure = failure;
    return CKPT_OK;
}

/* add_work - adds the work folder NAME of FOLDER, unless it is that of an output with another name than
 * TARGET. */
static ckpt_status add_work(const char *folder, const char *name, bool closed, ckpt_str target, arena *a,
                            struct part_works *out, ckpt_error *err)
{
    struct part_work work = {.name = arena_str(a, str_c(name)).ptr, .is_closed = closed};
    work.path = work.name ? part_path(folder, name, a) : NULL;
    CKPT_TRY_ALLOC(work.path, err);
    ckpt_status st = read_job(&work, a, err);
    bool is_other = st == CKPT_OK ? target.ptr && !str_eq(target, work.job.target)
                                  : st == CKPT_ENOTFOUND || !may_be_of(work.path, target, a);
    if (is_other)
        return CKPT_OK;
    if (st != CKPT_OK)
        CKPT_TRY(keep_failure(&work, a, err));
    return ARENA_PUSH(a, out, works, &work) ? CKPT_OK : fail_memory(err);
}

static int compare_works(const void *left, const void *right)
{
    const struct part_work *a = left, *b = right;
    int order = str_compare(a->job.target, b->job.target);
    return order ? order : strcmp(a->name, b->name);
}

ckpt_status part_works_refuse(const char *path, arena *a, ckpt_error *err)
{
    const char *folder;
    ckpt_str target;
    char word[SHELL_WORD_MAX];
    struct part_works found;
    ckpt_error ignored;
    CKPT_TRY(part_target_find(path, a, &folder, &target, err));
    if (part_works_find(folder, target, a, &found, &ignored) != CKPT_OK || !found.nworks)
        return CKPT_OK; /* a folder that cannot be listed may well be one to write to */
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "parts of it were begun, in %s; nothing written",
               found.works->path);
    error_add_hint(err,
                   "add --part i/%u to write one; -f writes all at once; ckpt parts %s --clean removes them",
                   found.works->job.parts, shell_path(path, word));
    return name_file_if_failed(CKPT_EEXIST, path, err);
}

ckpt_status part_works_list(const char *folder, ckpt_str target, arena *a, struct part_works *out,
                            ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    struct dirent *entry;
    bool closed;
    *out = (struct part_works){0};
    DIR *dir = opendir(folder);
    if (!dir && errno == ENOENT)
        return CKPT_OK;
    if (!dir)
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot list the folder"), folder, err);
    while (st == CKPT_OK && (errno = 0, entry = readdir(dir)))
        if (is_work_name(str_c(entry->d_name), &closed))
            st = add_work(folder, entry->d_name, closed, target, a, out, err);
    if (st == CKPT_OK && errno)
        st = name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot list the folder"), folder, err);
    closedir(dir);
    if (out->nworks)
        qsort(out->works, out->nworks, sizeof *out->works, compare_works);
    return st;
}

ckpt_status part_works_find(const char *folder, ckpt_str target, arena *a, struct part_works *out,
                            ckpt_error *err)
{
    CKPT_TRY(part_works_list(folder, target, a, out, err));
    for (size_t i = 0; i < out->nworks; i++)
        if (out->works[i].failure) {
            *err = *out->works[i].failure;
            return err->status;
        }
    return CKPT_OK;
}
