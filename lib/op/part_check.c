/* part_check.c - see part_check.h.
 *
 * The records must be of one plan, and their ranges must have each byte of each file once; the files must
 * have their sizes, and joined checksums must be those recorded in the input. `verify` reads the files again
 * and compares the digests of all ranges. */
#include "op/part_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "io/fd.h"
#include "op/hash_xxh3.h"

/* ------------------------------------------------------------------ records */

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

/* -------------------------------------------------------------------- files */

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
    if (*fd < 0) {
        (void)fail_errno(err, CKPT_NO_OFFSET, "cannot open");
        error_add_hint(err, "if it is lost, remove %s and write all parts again", parts->work->path);
        return name_file_if_failed(err->status, *path, err);
    }
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

ckpt_status parts_check(const struct ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err)
{
    struct owned_range *list;
    size_t count;
    CKPT_TRY(list_ranges(parts, &list, &count, err));
    CKPT_TRY(check_records(parts, list, count, err));
    return check_outputs(parts, list, count, opts, err);
}
