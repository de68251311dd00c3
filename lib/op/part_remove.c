/* part_remove.c - see part_remove.h; ckpt_parts_clean. */
#include "op/part_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* remove_work_files - removes the files in the work folder PATH, its plan.json last: without that, merging
 * again after an interruption would not find the folder. */
static ckpt_status remove_work_files(const char *path, ckpt_error *err)
{
    struct dirent *entry;
    ckpt_status st = CKPT_OK;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); /* no link to another folder */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot list the folder");
        if (fd >= 0)
            close(fd);
        return st;
    }
    while (st == CKPT_OK && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, PART_PLAN_NAME) == 0)
            continue;
        if (unlinkat(dirfd(dir), name, 0) != 0 && errno != ENOENT)
            st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the files in it");
    }
    if (st == CKPT_OK && unlinkat(dirfd(dir), PART_PLAN_NAME, 0) != 0 && errno != ENOENT)
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the plan in it");
    closedir(dir);
    return st;
}

/* A part that still runs may make a file in it meanwhile. */
ckpt_status part_work_remove(const char *path, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    bool again = true;
    for (int tries = 0; st == CKPT_OK && again && tries < 8; tries++) {
        st = remove_work_files(path, err);
        again = st == CKPT_OK && rmdir(path) != 0 && errno != ENOENT;
    }
    if (st == CKPT_OK && again)
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the folder");
    return name_file_if_failed(st, path, err);
}

static ckpt_status clean_works(const ckpt_parts *parts, ckpt_error *err)
{
    if (!parts->found.nworks)
        return parts_fail_none(parts, err);
    for (size_t i = 0; i < parts->found.nworks; i++) {
        const struct part_work *work = &parts->found.works[i];
        if (!str_eq(work->job.target, parts->found.works[0].job.target))
            return parts_fail_several(parts, i, err);
        if (work->is_closed)
            return name_file_if_failed(fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                                            "the parts were being merged, and some files may be in place\n"
                                            "ckpt merge-parts completes that"),
                                       work->path, err);
    }
    for (size_t i = 0; i < parts->found.nworks; i++)
        CKPT_TRY(part_work_remove(parts->found.works[i].path, err));
    return CKPT_OK;
}

ckpt_status ckpt_parts_clean(const char *path, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct ckpt_parts *parts = NULL;
    CKPT_REQUIRE(err, path && *path);
    ckpt_status st = parts_find(path, &parts, err);
    CKPT_THEN(st, clean_works(parts, err));
    ckpt_parts_close(parts);
    return name_file_if_failed(st, path, err);
}
