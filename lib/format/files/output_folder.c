/* output_folder.c - see output_folder.h. */
#include "format/files/output_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "format/files/folder.h"

/* check_replaceable - refuses to replace the folder PATH unless it is empty, or `force` is set and PATH has
 * only files of the kind of FOLDER. */
static ckpt_status check_replaceable(const struct output_folder *folder, const char *path, ckpt_error *err)
{
    ckpt_str *list;
    size_t n, others;
    CKPT_TRY(folder_list_on_disk(folder->arena, path, NULL, &list, &n, err));
    if (!n)
        return CKPT_OK;
    if (!folder->job->opts->force) {
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                   "already exists; nothing written\n"
                   "use -f to replace it");
        return name_file_if_failed(CKPT_EEXIST, folder->job->path, err);
    }
    CKPT_TRY(folder_list_on_disk(folder->arena, path, folder->kind->is_other_file, &list, &others, err));
    if (!others)
        return CKPT_OK;
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
               "the folder to be replaced also contains {%.*s}; "
               "{=only %s} is replaced\n"
               "name another folder, or move that file away",
               STR_ARG(list[0]), folder->kind->title);
    return name_file_if_failed(CKPT_EEXIST, folder->job->path, err);
}

/* check_target - checks that PATH does not exist or is a folder that may be replaced. */
static ckpt_status check_target(const struct output_folder *folder, const char *path, ckpt_error *err)
{
    struct stat file_stat;
    if (lstat(path, &file_stat) != 0)
        return errno == ENOENT
                   ? CKPT_OK
                   : name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot examine the output"),
                                         folder->job->path, err);
    if (S_ISDIR(file_stat.st_mode))
        return check_replaceable(folder, path, err);
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
               "%s is {=a folder}; a {file} of that name exists\n"
               "name another output",
               folder->kind->title);
    return name_file_if_failed(CKPT_EEXIST, folder->job->path, err);
}

static ckpt_str strip_slashes(ckpt_str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

ckpt_status output_folder_prepare(struct output_folder *folder, const struct output_folder_kind *kind,
                                  ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    *folder = (struct output_folder){.kind = kind, .plan = p, .job = job, .arena = p->a};
    if (!job->path || strcmp(job->path, "-") == 0)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "%s is a folder of files\n"
                    "name the folder that is to be written",
                    kind->title);
    char *real = realpath(job->path, NULL); /* so that a link to the old folder leads to the new one */
    ckpt_str path = arena_str(p->a, strip_slashes(str_c(real ? real : job->path)));
    free(real);
    CKPT_TRY_ALLOC(path.ptr, err);
    folder->output_path = strip_slashes(str_c(job->path));
    folder->parent = arena_str(p->a, str_folder(path));
    folder->base_name = arena_str(p->a, str_after_last(path, '/'));
    return folder->parent.ptr && folder->base_name.ptr ? check_target(folder, path.ptr, err)
                                                       : fail_memory(err);
}

const char *output_folder_path(const struct output_folder *folder, const char *name)
{
    return arena_printf(folder->arena, "%s%s/%s", folder->parent.ptr, temp_folder_name(&folder->temp), name)
        .ptr;
}

static const char *make_final_path(const struct output_folder *folder, const char *name)
{
    return ARENA_CONCAT(folder->arena, folder->output_path, STR_LIT("/"), str_c(name)).ptr;
}

ckpt_status output_folder_begin(struct output_folder *folder, ckpt_error *err)
{
    folder->temp_exists = temp_folder_open(&folder->temp, folder->parent.len ? folder->parent.ptr : ".",
                                           folder->base_name.ptr);
    return folder->temp_exists
               ? CKPT_OK
               : name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder"),
                                     folder->job->path, err);
}

ckpt_status output_folder_write_file(const struct output_folder *folder, const char *name, ckpt_str content,
                                     ckpt_error *err)
{
    struct sink_options sink_opts = plan_sink_options(folder->plan, folder->job->opts);
    if (folder->job->opts->dry_run)
        return CKPT_OK;
    const char *path = output_folder_path(folder, name);
    return path ? sink_write_whole_file(path, &sink_opts, content, err) : fail_memory(err);
}

ckpt_status output_folder_note_output(const struct output_folder *folder, const char *name, ckpt_error *err)
{
    const char *path = make_final_path(folder, name);
    return path ? plan_note_output(folder->plan, path, err) : fail_memory(err);
}

/* name_final_file - replaces the path of the temporary folder in ERR by the path of the output. */
static void name_final_file(const struct output_folder *folder, ckpt_error *err)
{
    const char *temp = output_folder_path(folder, ""), *path;
    size_t n = temp ? strlen(temp) : 0;
    if (!n || strncmp(err->file, temp, n) != 0 || !(path = make_final_path(folder, err->file + n)))
        return;
    err->file[0] = '\0';
    error_add_file(err, path);
}

/* rename_to_output - renames the temporary folder to the output; an old output gets the temporary name. */
static ckpt_status rename_to_output(struct output_folder *folder, ckpt_error *err)
{
    const ckpt_write_options *o = folder->job->opts;
    if (temp_folder_place(&folder->temp, folder->base_name.ptr, o->force != 0, !o->no_sync))
        return CKPT_OK;
    if (errno == EEXIST)
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                   "was created by another program meanwhile; nothing replaced");
    else
        (void)fail_errno(err, CKPT_NO_OFFSET, "cannot give the folder its name");
    if (errno == EINVAL || errno == ENOSYS)
        error_add_hint(err, "this file system cannot exchange two folders: remove the old one first");
    return name_file_if_failed(err->status, folder->job->path, err);
}

ckpt_status output_folder_end(struct output_folder *folder, ckpt_status st, ckpt_error *err)
{
    if (!folder->temp_exists)
        return st;
    ckpt_str temp = arena_printf(folder->arena, "%s%s", folder->parent.ptr, temp_folder_name(&folder->temp));
    if (st == CKPT_OK)
        st = rename_to_output(folder, err);
    else
        name_final_file(folder, err);
    if (!temp_close(&folder->temp) && st == CKPT_OK)
        plan_notice(folder->plan, "the folder that was replaced cannot be removed, and stays as %.*s",
                    STR_ARG(temp));
    folder->temp_exists = false;
    return st;
}
