/* part_merge.c - the state of an output that several processes write, its completion and its removal:
 * ckpt_parts_….
 *
 * Merging reads all records first. They must be of one plan, and their ranges must have each byte of each
 * file once; the files must have their sizes, and joined checksums must be those recorded in the input.
 * `verify` reads the files again and compares the digests of all ranges. Only then:
 *
 *   1. the work folder is renamed to ….closed, so that a part that still runs does not write on
 *   2. each file is synced and moved into place, where nothing may exist; the index of a set last
 *   3. the records and the folder are removed
 *
 * If that is interrupted, merging again continues it: a file that is no longer in the folder is in place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/sized.h"
#include "base/text.h"
#include "io/fd.h"
#include "io/renameat2.h"
#include "op/hash_xxh3.h"
#include "op/part_folder.h"

struct ckpt_parts {
    arena *a;
    char *path;         /* as the caller spells it */
    const char *folder; /* of the output */
    struct part_works found;
    struct part_work *work;      /* the first of FOUND */
    struct part_record *records; /* by part; empty id: none */
    ckpt_part *parts;            /* by part */
};

/* --------------------------------------------------------------------- state */

/* read_failure - sets the error of PART, number INDEX, if it has failed since its last record. */
static ckpt_status read_failure(const struct ckpt_parts *parts, uint32_t index, ckpt_part *part,
                                ckpt_error *err)
{
    char name[PART_RECORD_NAME];
    struct stat st;
    part_failure_name(index, name);
    const char *path = part_path(parts->work->path, name, parts->a);
    CKPT_TRY_ALLOC(path, err);
    if (part->state == CKPT_PART_DONE || stat(path, &st) != 0)
        return CKPT_OK;
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

/* fail_several - reports that there are parts of two outputs: the first and number INDEX of those found. */
static ckpt_status fail_several(const struct ckpt_parts *parts, size_t index, ckpt_error *err)
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

static ckpt_status fail_none(const struct ckpt_parts *parts, ckpt_error *err)
{
    return name_file_if_failed(
        fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
             "no parts of it were written\nckpt convert IN OUT --part 0/16 writes the first"),
        parts->path, err);
}

static ckpt_status read_state(struct ckpt_parts *parts, ckpt_error *err)
{
    if (!parts->found.nworks)
        return fail_none(parts, err);
    if (parts->found.nworks > 1)
        return fail_several(parts, 1, err);
    parts->work = &parts->found.works[0];
    uint32_t count = parts->work->job.parts;
    parts->records = arena_array(parts->a, count, sizeof *parts->records);
    parts->parts = arena_array(parts->a, count, sizeof *parts->parts);
    CKPT_TRY_ALLOC(parts->records && parts->parts, err);
    for (uint32_t i = 0; i < count; i++)
        CKPT_TRY(read_record(parts, i, err));
    return CKPT_OK;
}

/* find_works - makes *OUT, which has the work folders of the output PATH, but not their records. */
static ckpt_status find_works(const char *path, struct ckpt_parts **out, ckpt_error *err)
{
    ckpt_str target;
    struct ckpt_parts *parts = *out = calloc(1, sizeof *parts);
    CKPT_TRY_ALLOC(parts, err);
    parts->path = strdup(path);
    parts->a = arena_new(PART_ARENA_MAX);
    CKPT_TRY_ALLOC(parts->path && parts->a, err);
    CKPT_TRY(part_target_find(path, parts->a, &parts->folder, &target, err));
    return part_works_find(parts->folder, target, parts->a, &parts->found, err);
}

void ckpt_parts_close(ckpt_parts *parts)
{
    if (!parts)
        return;
    arena_free(parts->a);
    free(parts->path);
    free(parts);
}

ckpt_status ckpt_parts_open(const char *path, ckpt_parts **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct ckpt_parts *parts = NULL;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, path && *path);
    ckpt_status st = find_works(path, &parts, err);
    CKPT_THEN(st, read_state(parts, err));
    if (st == CKPT_OK)
        *out = parts;
    else
        ckpt_parts_close(parts);
    return name_file_if_failed(st, path, err);
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

/* --------------------------------------------------------------------- check */

/* A range with the part that has written it. */
struct owned_range {
    const struct part_range *range;
    uint32_t part;
};

static int compare_ranges(const void *left, const void *right)
{
    const struct part_range *a = ((const struct owned_range *)left)->range,
                            *b = ((const struct owned_range *)right)->range;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* list_ranges - sets *OUT to the *COUNT ranges of all parts, sorted by file and offset. */
static ckpt_status list_ranges(const struct ckpt_parts *parts, struct owned_range **out, size_t *count,
                               ckpt_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < parts->work->job.parts; i++)
        n += parts->records[i].nranges;
    *count = n;
    struct owned_range *list = *out = arena_array(parts->a, n, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    for (uint32_t i = 0; i < parts->work->job.parts; i++)
        for (size_t k = 0; k < parts->records[i].nranges; k++)
            *list++ = (struct owned_range){&parts->records[i].ranges[k], i};
    qsort(*out, n, sizeof **out, compare_ranges);
    return CKPT_OK;
}

static ckpt_status fail_coverage(const struct ckpt_parts *parts, size_t file, uint64_t at, const char *what,
                                 ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EFORMAT, at,
                          "the records of the parts do not agree: a byte of %.*s is %s",
                          STR_ARG(parts->work->job.files[file].name), what);
    return name_file_if_failed(st, parts->work->path, err);
}

/* check_coverage - checks that the COUNT ranges at LIST have each byte of each file once. */
static ckpt_status check_coverage(const struct ckpt_parts *parts, const struct owned_range *list,
                                  size_t count, ckpt_error *err)
{
    size_t i = 0;
    for (size_t k = 0; k < parts->work->job.nfiles; k++) {
        uint64_t at = 0;
        for (; i < count && list[i].range->file == k; i++) {
            const struct part_range *r = list[i].range;
            if (r->from != at)
                return fail_coverage(parts, k, r->from < at ? r->from : at,
                                     r->from < at ? "in two of them" : "in none", err);
            at = r->to;
        }
        if (at != parts->work->job.files[k].size)
            return fail_coverage(parts, k, at, "in none", err);
    }
    return CKPT_OK;
}

static int compare_checksums(const void *left, const void *right)
{
    const struct part_checksum *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* check_tensor - joins the COUNT checksums at LIST, which are of one tensor, and compares the result with
 * the one recorded. */
static ckpt_status check_tensor(const struct part_checksum *list, size_t count, ckpt_error *err)
{
    enum crc_kind kind = list->is_crc32c ? CRC_32C : CRC_32;
    uint64_t at = 0;
    uint32_t crc = 0;
    for (size_t i = 0; i < count; at += list[i].nbytes, i++) {
        if (list[i].from != at || list[i].total != list->total || list[i].recorded != list->recorded)
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "the parts do not agree on the checksum of \"%.*s\"", STR_ARG(list->name));
        crc = crc_combine(kind, crc, list[i].crc, list[i].nbytes);
    }
    if (at == list->total && crc == list->recorded)
        return CKPT_OK;
    return fail(err, CKPT_ECHECKSUM, CKPT_NO_OFFSET,
                "\"%.*s\": the bytes that the parts have read have checksum {%08x}, recorded is {=%08x}\n"
                "ckpt verify IN shows what is damaged in the input",
                STR_ARG(list->name), crc, list->recorded);
}

static ckpt_status check_checksums(const struct ckpt_parts *parts, ckpt_error *err)
{
    size_t n = 0, end;
    struct part_checksum *list = NULL;
    for (uint32_t i = 0; i < parts->work->job.parts; i++)
        n += parts->records[i].nchecksums;
    list = arena_array(parts->a, n, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    n = 0;
    for (uint32_t i = 0; i < parts->work->job.parts; i++)
        for (size_t k = 0; k < parts->records[i].nchecksums; k++)
            list[n++] = parts->records[i].checksums[k];
    qsort(list, n, sizeof *list, compare_checksums);
    for (size_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && list[end].row == list[i].row; end++)
            continue;
        CKPT_TRY(check_tensor(list + i, end - i, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------- verify */

/* The state of `verify`. */
struct verifier {
    const ckpt_parts *parts;
    const ckpt_merge_options *opts;
    unsigned char *block;
    void *state;
    uint64_t done, total;
};

static ckpt_status digest_block(struct verifier *verifier, int fd, uint64_t at, size_t nbytes,
                                ckpt_error *err)
{
    size_t got = 0;
    if (!fd_pread(fd, verifier->block, nbytes, at, &got))
        return fail_errno(err, at, "cannot read");
    if (got < nbytes)
        return fail(err, CKPT_ETRUNCATED, at + got, "the file ends too early");
    xxh3_update(verifier->state, verifier->block, nbytes);
    verifier->done += nbytes;
    if (verifier->opts->progress &&
        verifier->opts->progress(verifier->opts->user, verifier->done, verifier->total))
        return fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    return CKPT_OK;
}

static ckpt_status verify_range(struct verifier *verifier, int fd, const struct owned_range *owned,
                                ckpt_error *err)
{
    uint8_t digest[XXH3_BYTES];
    const struct part_range *range = owned->range;
    verifier->state = xxh3_new();
    ckpt_status st = verifier->state ? CKPT_OK : fail_memory(err);
    for (uint64_t at = range->from; st == CKPT_OK && at < range->to;) {
        size_t n = range->to - at < FD_CHUNK ? (size_t)(range->to - at) : FD_CHUNK;
        st = digest_block(verifier, fd, at, n, err);
        at += n;
    }
    if (st == CKPT_OK)
        xxh3_final(verifier->state, digest);
    xxh3_free(verifier->state);
    if (st != CKPT_OK || memcmp(digest, range->digest, sizeof digest) == 0)
        return st;
    return fail(err, CKPT_ECHECKSUM, range->from,
                "%llu bytes are not those that part %u has written\n"
                "remove its record, %s/part-%04u-of-%04u.json, and run the part again",
                (unsigned long long)(range->to - range->from), owned->part, verifier->parts->work->path,
                owned->part, verifier->parts->work->job.parts);
}

/* open_output - opens output file INDEX in the work folder, or where it was moved by an interrupted merge;
 * checks its size. */
static ckpt_status open_output(const ckpt_parts *parts, size_t index, const char **path, int *fd,
                               ckpt_error *err)
{
    struct stat st;
    const struct part_file *file = &parts->work->job.files[index];
    *path = part_path(parts->work->path, file->name.ptr, parts->a);
    CKPT_TRY_ALLOC(*path, err);
    *fd = open(*path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT && parts->work->is_closed) {
        *path = part_path(parts->folder, file->name.ptr, parts->a);
        CKPT_TRY_ALLOC(*path, err);
        *fd = open(*path, O_RDONLY | O_CLOEXEC);
    }
    if (*fd < 0)
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot open"), *path, err);
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == file->size)
        return CKPT_OK;
    close(*fd);
    return name_file_if_failed(fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has {%llu bytes}, not {=%llu}",
                                    (unsigned long long)st.st_size, (unsigned long long)file->size),
                               *path, err);
}

/* check_files - checks the sizes of all files; with `verify` also their bytes, of which LIST has COUNT
 * ranges. */
static ckpt_status check_files(struct verifier *verifier, const struct owned_range *list, size_t count,
                               ckpt_error *err)
{
    size_t i = 0;
    const char *path;
    for (size_t k = 0; k < verifier->parts->work->job.nfiles; k++) {
        int fd = -1;
        CKPT_TRY(open_output(verifier->parts, k, &path, &fd, err));
        ckpt_status st = CKPT_OK;
        for (; st == CKPT_OK && i < count && list[i].range->file == k; i++)
            if (verifier->opts->verify)
                st = verify_range(verifier, fd, &list[i], err);
        close(fd);
        CKPT_TRY(name_file_if_failed(st, path, err));
    }
    return CKPT_OK;
}

static ckpt_status check_outputs(const ckpt_parts *parts, const struct owned_range *list, size_t count,
                                 const ckpt_merge_options *opts, ckpt_error *err)
{
    struct verifier verifier = {.parts = parts, .opts = opts, .block = malloc(FD_CHUNK)};
    for (size_t i = 0; i < count; i++)
        verifier.total += list[i].range->to - list[i].range->from; /* the sizes of the files */
    ckpt_status st = verifier.block ? check_files(&verifier, list, count, err) : fail_memory(err);
    free(verifier.block);
    return st;
}

/* --------------------------------------------------------------------- place */

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

/* -------------------------------------------------------------------- remove */

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

/* remove_work - removes the work folder PATH. A part that still runs may make a file in it meanwhile. */
static ckpt_status remove_work(const char *path, ckpt_error *err)
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
        return fail_none(parts, err);
    for (size_t i = 0; i < parts->found.nworks; i++) {
        const struct part_work *work = &parts->found.works[i];
        if (!str_eq(work->job.target, parts->found.works[0].job.target))
            return fail_several(parts, i, err);
        if (work->is_closed)
            return name_file_if_failed(fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                                            "the parts were being merged, and some files may be in place\n"
                                            "ckpt merge-parts completes that"),
                                       work->path, err);
    }
    for (size_t i = 0; i < parts->found.nworks; i++)
        CKPT_TRY(remove_work(parts->found.works[i].path, err));
    return CKPT_OK;
}

ckpt_status ckpt_parts_clean(const char *path, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct ckpt_parts *parts = NULL;
    CKPT_REQUIRE(err, path && *path);
    ckpt_status st = find_works(path, &parts, err);
    CKPT_THEN(st, clean_works(parts, err));
    ckpt_parts_close(parts);
    return name_file_if_failed(st, path, err);
}

/* --------------------------------------------------------------------- merge */

static ckpt_status check_complete(const ckpt_parts *parts, ckpt_error *err)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = parts->work->job.parts; COUNT_DOWN(i);)
        if (parts->parts[i].state != CKPT_PART_DONE) {
            missing++;
            first = i;
        }
    if (!missing)
        return CKPT_OK;
    return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{%u of %u parts} are not done, such as part %u",
                missing, parts->work->job.parts, first);
}

/* check_records - checks that the parts are done, and their records agree. LIST has the COUNT ranges in
 * them. */
static ckpt_status check_records(const struct ckpt_parts *parts, const struct owned_range *list, size_t count,
                                 ckpt_error *err)
{
    if (parts->work->is_closed) /* they were checked before that; some may have been removed */
        return CKPT_OK;
    CKPT_TRY(check_complete(parts, err));
    CKPT_TRY(check_coverage(parts, list, count, err));
    return check_checksums(parts, err);
}

static ckpt_status merge(ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    struct owned_range *list;
    size_t count;
    CKPT_TRY(list_ranges(parts, &list, &count, err));
    CKPT_TRY(check_records(parts, list, count, err));
    CKPT_TRY(check_outputs(parts, list, count, opts, err));
    CKPT_TRY(publish(parts, opts, err));
    return remove_work(parts->work->path, err);
}

ckpt_status ckpt_parts_merge(ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_merge_options o;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, parts);
    return name_file_if_failed(merge(parts, &o, err), parts->path, err);
}
