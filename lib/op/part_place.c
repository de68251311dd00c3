/* part_place.c - see part_place.h. */
#include "op/part_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "io/sink.h"

static ckpt_status make_folder(const char *path, ckpt_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return CKPT_OK;
    return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder"), path, err);
}

void part_place_hint_clean(const struct part_place *place, const char *what, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    const char *target = place->job->command.len ? place->folder
                                                 : part_path(place->folder, place->job->target.ptr, place->a);
    error_add_hint(err, "%s: ckpt parts %s --clean", what, target ? shell_path(target, word) : "OUT");
}

static ckpt_status fail_other_plan(const struct part_place *place, const struct part_work *other,
                                   ckpt_error *err)
{
    bool is_output = !place->job->command.len && !other->job.command.len;
    bool same_inputs = strcmp(other->job.inputs, place->job->inputs) == 0;
    ckpt_status st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                          "parts of another plan were written there: {%s}, this is {=%s}; %s differ",
                          other->job.id, place->job->id,
                          !is_output    ? "the input, the options or the version of ckpt"
                          : same_inputs ? "the options or the version of ckpt"
                                        : "the input files, or their sizes or times,");
    part_place_hint_clean(place, "give each part the same input and options; or remove what was written",
                          err);
    return name_file_if_failed(st, other->path, err);
}

static ckpt_status fail_merging(const struct part_work *work, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                          "the parts are being merged\nckpt merge-parts completes that");
    return name_file_if_failed(st, work->path, err);
}

/* check_works - refuses if another plan for the same output was begun, or this one is being merged. Results
 * have a folder of their own. */
static ckpt_status check_works(const struct part_place *place, ckpt_error *err)
{
    struct part_works found;
    ckpt_str target = place->job->command.len ? str_of(NULL, 0) : place->job->target;
    CKPT_TRY(part_works_find(place->folder, target, place->a, &found, err));
    for (size_t i = 0; i < found.nworks; i++) {
        const struct part_work *work = &found.works[i];
        if (strcmp(work->job.id, place->job->id) != 0)
            return fail_other_plan(place, work, err);
        if (work->is_closed)
            return fail_merging(work, err);
    }
    return CKPT_OK;
}

static ckpt_status compare_job(const struct part_place *place, const struct part_job *found, ckpt_error *err)
{
    const struct part_job *own = place->job;
    if (found->parts == own->parts && found->by_file == own->by_file)
        return CKPT_OK;
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "this %s was begun with {=--part i/%u%s}, not {i/%u%s}",
               own->command.len ? "work" : "output", found->parts, found->by_file ? " --part-unit=file" : "",
               own->parts, own->by_file ? " --part-unit=file" : "");
    part_place_hint_clean(place, "use the same for all parts, or remove them", err);
    return name_file_if_failed(CKPT_EEXIST, place->path, err);
}

ckpt_status part_place_write(const struct part_place *place, const char *path, buf *text, bool replace,
                             ckpt_error *err)
{
    const struct sink_options o = {.force = replace, .no_sync = place->no_sync};
    ckpt_status st = buf_ok(text) ? sink_write_whole_file(path, &o, buf_view(text), err) : fail_memory(err);
    buf_free(text);
    return st;
}

/* publish_job - writes plan.json, or compares the one that another part has written. */
static ckpt_status publish_job(const struct part_place *place, ckpt_error *err)
{
    struct part_job found;
    buf text;
    const char *path = part_path(place->path, PART_PLAN_NAME, place->a);
    CKPT_TRY_ALLOC(path, err);
    ckpt_status st = part_job_read(path, place->a, &found, err);
    if (st == CKPT_OK)
        return compare_job(place, &found, err);
    if (st != CKPT_ENOTFOUND)
        return st;
    buf_init(&text, SIZE_MAX / 2);
    part_job_put(&text, place->job);
    st = part_place_write(place, path, &text, false, err);
    if (st != CKPT_EEXIST)
        return st;
    CKPT_TRY(part_job_read(path, place->a, &found, err)); /* another part was faster */
    return compare_job(place, &found, err);
}

/* name_files - sets the paths in PLACE. */
static ckpt_status name_files(struct part_place *place, ckpt_error *err)
{
    char name[PART_RECORD_NAME], folder[sizeof PART_FOLDER_PREFIX + PART_ID_TEXT];
    (void)snprintf(folder, sizeof folder, PART_FOLDER_PREFIX "%s", place->job->id);
    place->path = part_path(place->folder, folder, place->a);
    CKPT_TRY_ALLOC(place->path, err);
    part_job_record_name(place->job, place->part, name);
    place->record_path = part_path(place->path, name, place->a);
    part_failure_name(place->part, name);
    place->failure_path = part_path(place->path, name, place->a);
    return place->record_path && place->failure_path ? CKPT_OK : fail_memory(err);
}

ckpt_status part_place_open(struct part_place *place, ckpt_error *err)
{
    place->dir = -1;
    CKPT_TRY(name_files(place, err));
    CKPT_TRY(make_folder(place->folder, err));
    CKPT_TRY(check_works(place, err));
    CKPT_TRY(make_folder(place->path, err));
    CKPT_TRY(publish_job(place, err));
    place->dir = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->dir < 0)
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot open the folder"), place->path,
                                   err);
    (void)unlink(place->failure_path);
    return CKPT_OK;
}

void part_place_close(struct part_place *place)
{
    if (place->dir >= 0)
        close(place->dir);
    place->dir = -1;
}

ckpt_status part_place_check(const struct part_place *place, ckpt_error *err)
{
    struct stat opened, now;
    if (fstat(place->dir, &opened) == 0 && stat(place->path, &now) == 0 && opened.st_dev == now.st_dev &&
        opened.st_ino == now.st_ino)
        return CKPT_OK;
    return name_file_if_failed(
        fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the parts were merged or removed meanwhile"), place->path,
        err);
}

struct timespec part_place_failure_time(const struct part_place *place)
{
    struct stat st;
    return fstatat(place->dir, PART_FAILED_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mtim
                                                                                : (struct timespec){0};
}

/* note_failure_time - makes the file whose time the other parts compare. */
static void note_failure_time(const struct part_place *place)
{
    int fd = openat(place->dir, PART_FAILED_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    (void)futimens(fd, NULL);
    close(fd);
}

void part_place_fail(const struct part_place *place, const ckpt_error *failure)
{
    ckpt_error ignored;
    buf text;
    if (failure->status == CKPT_ECANCELLED)
        return;
    note_failure_time(place);
    buf_init(&text, SIZE_MAX / 2);
    part_failure_put(&text, place->job->id, place->part, failure);
    (void)part_place_write(place, place->failure_path, &text, true, &ignored);
}
