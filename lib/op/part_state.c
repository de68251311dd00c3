/* part_state.c - the state of an output that several processes write: ckpt_parts_open and what it reads. */
#include "op/part_state.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/sized.h"
#include "base/text.h"
#include "io/source.h"
#include "op/share.h"

/* read_failure - sets the error of PART, number INDEX, if it has failed since its last record. */
static ckpt_status read_failure(const struct ckpt_parts *parts, uint32_t index, ckpt_part *part,
                                ckpt_error *err)
{
    char name[PART_RECORD_NAME];
    struct stat st;
    part_failure_name(index, name);
    const char *path = part_path(parts->work->path, name, parts->a);
    CKPT_TRY_ALLOC(path, err);
    if (part->state == CKPT_PART_DONE || stat(path, &st) != 0 || part->updated > (int64_t)st.st_mtim.tv_sec)
        return CKPT_OK; /* a later record: it runs again */
    part->state = CKPT_PART_FAILED;
    part->updated = (int64_t)st.st_mtim.tv_sec;
    ckpt_status status = part_failure_read(path, parts->a, &part->failure, err);
    return status == CKPT_ENOTFOUND ? CKPT_OK : status;
}

/* check_record - refuses a record that is not of part INDEX of this plan. */
static ckpt_status check_record(const struct ckpt_parts *parts, const struct part_record *record,
                                uint32_t index, const char *path, ckpt_error *err)
{
    const struct part_job *job = &parts->work->job;
    if (strcmp(record->id, job->id) == 0 && record->part == index && record->parts == job->parts)
        return CKPT_OK;
    return name_file_if_failed(fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                                    "is of {part %u of %u, plan %s}, not of {=part %u of %u, plan %s}",
                                    record->part, record->parts, record->id, index, job->parts, job->id),
                               path, err);
}

/* read_results - sets the state of part INDEX, whose results may be recorded. */
static ckpt_status read_results(const struct ckpt_parts *parts, uint32_t index, ckpt_error *err)
{
    char name[PART_RECORD_NAME];
    struct stat st;
    const struct part_job *job = &parts->work->job;
    ckpt_part *part = &parts->parts[index];
    ckpt_str bytes;
    part_job_record_name(job, index, name);
    const char *path = part_path(parts->work->path, name, parts->a);
    CKPT_TRY_ALLOC(path, err);
    ckpt_status status = source_read_whole_file(path, PART_RESULTS_MAX, parts->a, &bytes, err);
    if (status == CKPT_OK) {
        CKPT_TRY(name_file_if_failed(share_check_record(bytes, job->id, index, job->parts, err), path, err));
        part->state = CKPT_PART_DONE;
        part->updated = stat(path, &st) == 0 ? (int64_t)st.st_mtim.tv_sec : 0;
    }
    if (status != CKPT_OK && status != CKPT_ENOTFOUND)
        return status;
    return read_failure(parts, index, part, err);
}

static ckpt_status read_record(const struct ckpt_parts *parts, uint32_t index, ckpt_error *err)
{
    char name[PART_RECORD_NAME];
    struct stat st;
    struct part_record *record = &parts->records[index];
    ckpt_part *part = &parts->parts[index];
    const struct part_job *job = &parts->work->job;
    part->bytes = job->part_bytes[index];
    part_record_name(index, job->parts, name);
    const char *path = part_path(parts->work->path, name, parts->a);
    CKPT_TRY_ALLOC(path, err);
    ckpt_status status = part_record_read(path, job, parts->a, record, err);
    if (status == CKPT_OK) {
        CKPT_TRY(check_record(parts, record, index, path, err));
        part->state = record->done ? CKPT_PART_DONE : CKPT_PART_BEGUN;
        part->updated = stat(path, &st) == 0 ? (int64_t)st.st_mtim.tv_sec : 0;
        for (size_t i = 0; i < record->nranges; i++)
            part->done = size_add(part->done, record->ranges[i].to - record->ranges[i].from);
        part->overflowed = record->overflowed;
    }
    if (parts->work->is_closed) { /* all were done, and the records are removed last */
        part->state = CKPT_PART_DONE;
        part->done = part->bytes;
    }
    if (status != CKPT_OK && status != CKPT_ENOTFOUND)
        return status;
    return read_failure(parts, index, part, err);
}

ckpt_status parts_fail_several(const struct ckpt_parts *parts, size_t index, ckpt_error *err)
{
    const struct part_work *first = &parts->found.works[0], *other = &parts->found.works[index];
    char word[SHELL_WORD_MAX];
    (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "parts of two outputs are there: %s of %.*s, and %s of %.*s",
               first->name, STR_ARG(first->job.target), other->name, STR_ARG(other->job.target));
    if (str_eq(first->job.target, other->job.target))
        error_add_hint(err, "ckpt parts %s --clean removes both", shell_path(parts->path, word));
    else
        error_add_hint(err, "name one of the two files, such as %.*s, in place of the folder",
                       STR_ARG(first->job.target));
    return name_file_if_failed(CKPT_EEXIST, parts->path, err);
}

ckpt_status parts_fail_none(const struct ckpt_parts *parts, ckpt_error *err)
{
    return name_file_if_failed(
        fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
             "no parts of it were written\nckpt convert IN OUT --part 0/16 writes the first"),
        parts->path, err);
}

/* read_records - reads the records of all parts of parts->work. */
static ckpt_status read_records(struct ckpt_parts *parts, ckpt_error *err)
{
    uint32_t count = parts->work->job.parts;
    parts->records = arena_array(parts->a, count, sizeof *parts->records);
    parts->parts = arena_array(parts->a, count, sizeof *parts->parts);
    CKPT_TRY_ALLOC(parts->records && parts->parts, err);
    for (uint32_t i = 0; i < count; i++)
        CKPT_TRY(parts->work->job.command.len ? read_results(parts, i, err) : read_record(parts, i, err));
    return CKPT_OK;
}

static ckpt_status read_state(struct ckpt_parts *parts, ckpt_error *err)
{
    if (!parts->found.nworks)
        return parts_fail_none(parts, err);
    if (parts->found.nworks > 1)
        return parts_fail_several(parts, 1, err);
    parts->work = &parts->found.works[0];
    return read_records(parts, err);
}

static ckpt_status parts_new(const char *path, struct ckpt_parts **out, ckpt_error *err)
{
    struct ckpt_parts *parts = *out = calloc(1, sizeof *parts);
    CKPT_TRY_ALLOC(parts, err);
    parts->a = arena_new(PART_ARENA_MAX);
    CKPT_TRY_ALLOC(parts->a, err);
    parts->path = arena_str(parts->a, str_c(path)).ptr;
    CKPT_TRY_ALLOC(parts->path, err);
    return CKPT_OK;
}

ckpt_status parts_find(const char *path, struct ckpt_parts **out, ckpt_error *err)
{
    ckpt_str target;
    CKPT_TRY(parts_new(path, out, err));
    struct ckpt_parts *parts = *out;
    CKPT_TRY(part_target_find(path, parts->a, &parts->folder, &target, err));
    return part_works_find(parts->folder, target, parts->a, &parts->found, err);
}

void ckpt_parts_close(ckpt_parts *parts)
{
    if (!parts)
        return;
    arena_free(parts->a);
    free(parts);
}

ckpt_status ckpt_parts_open(const char *path, ckpt_parts **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct ckpt_parts *parts = NULL;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, path && *path);
    ckpt_status st = parts_find(path, &parts, err);
    CKPT_THEN(st, read_state(parts, err));
    if (st == CKPT_OK)
        *out = parts;
    else
        ckpt_parts_close(parts);
    return name_file_if_failed(st, path, err);
}

/* open_at - reads the records of output INDEX in the folder PATH. */
static ckpt_status open_at(const char *path, size_t index, struct ckpt_parts **out, ckpt_error *err)
{
    ckpt_str target;
    CKPT_TRY(parts_new(path, out, err));
    struct ckpt_parts *parts = *out;
    CKPT_TRY(part_target_find(path, parts->a, &parts->folder, &target, err));
    CKPT_TRY(part_works_list(parts->folder, str_of(NULL, 0), parts->a, &parts->found, err));
    if (target.ptr || index >= parts->found.nworks) /* no folder, or none in it */
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "no output was begun in this folder\nckpt convert IN OUT --part 0/16 begins one");
    parts->work = &parts->found.works[index];
    if (parts->work->failure) {
        *err = *parts->work->failure;
        return err->status;
    }
    parts->path = part_path(parts->folder, parts->work->job.target.ptr, parts->a);
    CKPT_TRY_ALLOC(parts->path, err);
    return read_records(parts, err);
}

ckpt_status ckpt_parts_open_at(const char *folder, size_t index, ckpt_parts **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct ckpt_parts *parts = NULL;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, folder && *folder);
    ckpt_status st = open_at(folder, index, &parts, err);
    if (st == CKPT_OK)
        *out = parts;
    else
        ckpt_parts_close(parts);
    return name_file_if_failed(st, folder, err);
}

const char *ckpt_parts_path(const ckpt_parts *parts) { return parts ? parts->path : ""; }
const char *ckpt_parts_command(const ckpt_parts *parts)
{
    return parts && parts->work->job.command.len ? parts->work->job.command.ptr : "";
}

uint32_t ckpt_parts_count(const ckpt_parts *parts) { return parts ? parts->work->job.parts : 0; }
const char *ckpt_parts_plan_id(const ckpt_parts *parts) { return parts ? parts->work->job.id : ""; }

bool ckpt_parts_at(const ckpt_parts *parts, uint32_t index, ckpt_part *out)
{
    ckpt_error ignored;
    bool exists = index < ckpt_parts_count(parts);
    if (sized_struct_clear(out, &ignored) != CKPT_OK || !exists)
        return false;
    sized_struct_copy_out(out, &parts->parts[index], sizeof *out);
    return true;
}

size_t ckpt_parts_file_count(const ckpt_parts *parts) { return parts ? parts->work->job.nfiles : 0; }

const char *ckpt_parts_file_at(const ckpt_parts *parts, size_t index, uint64_t *nbytes)
{
    bool exists = index < ckpt_parts_file_count(parts);
    if (nbytes)
        *nbytes = exists ? parts->work->job.files[index].size : 0;
    return exists ? part_path(parts->folder, parts->work->job.files[index].name.ptr, parts->a) : NULL;
}
