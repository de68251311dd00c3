/* part_merge.c - completes an output that several processes have written: ckpt_parts_merge.
 *
 * If part_check.c finds nothing wrong:
 *
 *   1. the work folder is renamed to ….closed, so that a part that still runs does not write on
 *   2. each file is synced and moved into place, where nothing may exist; the index of a set last
 *   3. the records and the folder are removed
 *
 * If that is interrupted, merging again continues it: a file that is no longer in the folder is in place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/text.h"
#include "io/renameat2.h"
#include "op/part_check.h"
#include "op/part_remove.h"

static ckpt_status sync_file(int folder, const char *name, ckpt_error *err)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    ckpt_status st = ok ? CKPT_OK : fail_errno(err, CKPT_NO_OFFSET, "cannot flush the output to disk");
    if (fd >= 0)
        close(fd);
    return st;
}

/* is_placed - returns true if NAME is the same file in both folders: merging was interrupted between the
 * two calls by which move_file moves it where renameat2 cannot. */
static bool is_placed(int from, int to, const char *name)
{
    struct stat source, target;
    return fstatat(from, name, &source, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(to, name, &target, AT_SYMLINK_NOFOLLOW) == 0 && source.st_dev == target.st_dev &&
           source.st_ino == target.st_ino;
}

/* move_file - moves NAME from one folder to the other, where it must not exist. False: errno. */
static bool move_file(int from, int to, const char *name)
{
    if (is_placed(from, to, name))
        return unlinkat(from, name, 0) == 0;
    if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS) /* not supported by the file system */
        return false;
    return linkat(from, name, to, name, 0) == 0 && unlinkat(from, name, 0) == 0;
}

/* place_file - moves output file INDEX from the folder FROM to the folder TO, unless an interrupted merge
 * has. */
static ckpt_status place_file(const ckpt_parts *parts, size_t index, int from, int to,
                              const ckpt_merge_options *opts, ckpt_error *err)
{
    struct stat st;
    const struct part_file *file = &parts->work->job.files[index];
    const char *name = file->name.ptr;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_size == file->size
                   ? CKPT_OK /* an interrupted merge has moved it */
                   : fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                          "the file was removed while the parts were merged");
    if (!opts->no_sync)
        CKPT_TRY(sync_file(from, name, err));
    if (!move_file(from, to, name))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot move the output into place");
    bool ok = opts->no_sync || fsync(to) == 0 || errno == EINVAL || errno == EROFS;
    return ok ? CKPT_OK : fail_errno(err, CKPT_NO_OFFSET, "cannot flush the folder to disk");
}

/* check_targets - refuses if a file exists where one of the work folder is to be moved. */
static ckpt_status check_targets(const ckpt_parts *parts, int from, int to, ckpt_error *err)
{
    struct stat st;
    for (size_t k = 0; k < parts->work->job.nfiles; k++) {
        const char *name = parts->work->job.files[k].name.ptr;
        bool in_work = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!in_work || fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || is_placed(from, to, name))
            continue;
        const char *path = part_path(parts->folder, name, parts->a);
        CKPT_TRY_ALLOC(path, err);
        return name_file_if_failed(fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                                        "already exists; nothing was moved\nremove it, or move it away"),
                                   path, err);
    }
    return CKPT_OK;
}

/* close_folder - renames the work folder, so that no part writes on. */
static ckpt_status close_folder(ckpt_parts *parts, ckpt_error *err)
{
    struct part_work *work = parts->work;
    const char *closed = ARENA_CONCAT(parts->a, str_c(work->path), STR_LIT(PART_CLOSED_SUFFIX)).ptr;
    CKPT_TRY_ALLOC(closed, err);
    if (work->is_closed)
        return CKPT_OK;
    if (rename(work->path, closed) != 0)
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot rename the folder"), work->path,
                                   err);
    work->path = closed;
    work->is_closed = true;
    return CKPT_OK;
}

static ckpt_status open_folder(const char *path, int *fd, ckpt_error *err)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0
               ? CKPT_OK
               : name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot open the folder"), path, err);
}

static ckpt_status place_files(ckpt_parts *parts, int from, int to, const ckpt_merge_options *opts,
                               ckpt_error *err)
{
    CKPT_TRY(check_targets(parts, from, to, err));
    CKPT_TRY(close_folder(parts, err));
    for (size_t k = 0; k < parts->work->job.nfiles; k++)
        CKPT_TRY(name_file_if_failed(place_file(parts, k, from, to, opts, err),
                                     parts->work->job.files[k].name.ptr, err));
    return CKPT_OK;
}

/* publish - moves the files from the work folder to that of the output. */
static ckpt_status publish(ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    int from = -1, to = -1;
    ckpt_status st = open_folder(parts->work->path, &from, err);
    CKPT_THEN(st, open_folder(parts->folder, &to, err));
    CKPT_THEN(st, place_files(parts, from, to, opts, err));
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return st;
}

/* fail_results - reports that there is nothing to merge: the parts are results of a command. */
static ckpt_status fail_results(const ckpt_parts *parts, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    const char *command = parts->work->job.command.ptr;
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "has results of ckpt %s, not parts of an output", command);
    error_add_hint(err, "ckpt %s … --part all -o %s prints them", command, shell_path(parts->path, word));
    return CKPT_EUSAGE;
}

static ckpt_status merge(ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    if (parts->work->job.command.len)
        return fail_results(parts, err);
    CKPT_TRY(parts_check(parts, opts, err));
    CKPT_TRY(publish(parts, opts, err));
    return part_work_remove(parts->work->path, err);
}

ckpt_status ckpt_parts_merge(ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_merge_options o;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, parts);
    return name_file_if_failed(merge(parts, &o, err), parts->path, err);
}
