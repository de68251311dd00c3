/* part_write.c - writes one part of an output, see part_plan.h.
 *
 * 1. Refuses if the output exists, if another plan for it was begun, or the same one with another number
 * of parts. These are what plan.json of a work folder names; the first part to begin makes it, and only
 * one can.
 * 2. Makes all files of the output with their full size, unless a part has a record: after that, nothing
 * makes a file again that was removed, because it would have zeros where other parts have written.
 * 3. Writes its ranges into these files. After each step: fdatasync, XXH3-128 of what the file then holds,
 * and a new record. The input must not have changed since it was opened, and the folder must still be there:
 * merging renames it first.
 * 4. The last record has "done".
 *
 * A part that fails makes the file `failed`, or renews its time. The others compare that time after each
 * 64 MiB, and stop. The file is empty, so that a full disk has room for it.
 *
 * A part that is run again finds its record and leaves out the ranges in it. If one part is run twice at
 * the same time, both write the same bytes to the same places, and both records are true. SIGKILL leaves
 * the folder. An error leaves failed-….json too, which the next run of the part removes. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "core/copy_pool.h"
#include "io/fd.h"
#include "op/hash_xxh3.h"
#include "op/part_place.h"
#include "op/part_plan.h"

#define LOOK_AFTER (UINT64_C(64) << 20) /* bytes */

/* A part while it is written. */
struct part_writer {
    struct part_plan *plan;
    struct part_place place;
    struct part_record wanted, old, now;
    uint64_t total, done;      /* bytes */
    uint64_t found;            /* bytes of ranges that an earlier run has written */
    uint64_t recorded;         /* DONE at the last record */
    uint64_t range_begin;      /* DONE when the current range began */
    struct timespec failed_at; /* the time of the last failure of any part when this one began */
    uint64_t looked;           /* bytes written when another failure was last looked for */
    bool other_failed;
    size_t next_cast; /* in the report: where to look for the next tensor that is cast */
};

/* --------------------------------------------------------------- work folder */

/* has_records - returns true if any part has a record. */
static bool has_records(const struct part_writer *writer)
{
    struct dirent *entry;
    bool found = false;
    DIR *dir = opendir(writer->place.path);
    while (dir && !found && (entry = readdir(dir)))
        found = part_record_is_name(str_c(entry->d_name));
    if (dir)
        closedir(dir);
    return found;
}

/* make_files - makes the files of the output, with their full size, unless a part has recorded that they were
 * there. */
static ckpt_status make_files(const struct part_writer *writer, ckpt_error *err)
{
    const struct part_job *job = &writer->plan->job;
    if (has_records(writer))
        return CKPT_OK;
    for (size_t k = 0; k < job->nfiles; k++) {
        const char *path = part_path(writer->place.path, job->files[k].name.ptr, writer->plan->a);
        CKPT_TRY_ALLOC(path, err);
        CKPT_TRY(sink_range_make(writer->place.dir, path, job->files[k].size, err));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ failures */

/* look_for_failure - sets writer->other_failed if a part has failed since this one began. WRITTEN: its bytes
 * so far. */
static void look_for_failure(struct part_writer *writer, uint64_t written)
{
    if (written < writer->looked + LOOK_AFTER) /* of bytes of a file */
        return;
    writer->looked = written;
    struct timespec now = part_place_failure_time(&writer->place);
    writer->other_failed = now.tv_sec != writer->failed_at.tv_sec || now.tv_nsec != writer->failed_at.tv_nsec;
}

static ckpt_status fail_other_failed(const struct part_writer *writer, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    (void)fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET,
               "another part failed, so part %u of %u stopped; what it has written is kept",
               writer->plan->opts.part, writer->plan->job.parts);
    error_add_hint(err, "run both again; ckpt parts %s shows the failure",
                   shell_path(writer->plan->files[0].path, word));
    return CKPT_ECANCELLED;
}

/* ------------------------------------------------------------------- record */

/* read_old_record - reads the record of an earlier run. One that cannot be read is replaced: the part
 * writes all of its ranges again. */
static void read_old_record(struct part_writer *writer)
{
    ckpt_error ignored;
    const struct part_job *job = &writer->plan->job;
    ckpt_status st = part_record_read(writer->place.record_path, job, writer->plan->a, &writer->old,
                                      &ignored);
    if (st != CKPT_OK || strcmp(writer->old.id, job->id) != 0 ||
        writer->old.part != writer->plan->opts.part || writer->old.parts != job->parts)
        writer->old = (struct part_record){0};
}

/* drop_record_if_changed - removes the record if the input has changed. It may be of another content then:
 * whoever changed the input may have set its time back, or do so later. */
static void drop_record_if_changed(const struct part_writer *writer)
{
    ckpt_error ignored;
    char name[PART_RECORD_NAME];
    part_record_name(writer->plan->opts.part, writer->plan->job.parts, name);
    if (file_check_unchanged(writer->plan->p->file, &ignored) == CKPT_ECHANGED)
        (void)unlinkat(writer->place.dir, name, 0);
}

/* write_record - records what was written. What was read from an input that has changed is never recorded. */
static ckpt_status write_record(struct part_writer *writer, ckpt_error *err)
{
    buf text;
    CKPT_TRY(part_place_check(&writer->place, err));
    CKPT_TRY(file_check_unchanged(writer->plan->p->file, err));
    buf_init(&text, SIZE_MAX / 2);
    part_record_put(&text, &writer->now);
    return part_place_write(&writer->place, writer->place.record_path, &text, true, err);
}

/* has_old_range - returns true if the earlier run has written range INDEX of those wanted. Both lists have
 * the same order. */
static bool has_old_range(const struct part_writer *writer, size_t index)
{
    if (index >= writer->wanted.nranges)
        return false;
    const struct part_range *wanted = &writer->wanted.ranges[index], *old = &writer->old.ranges[index];
    return old->file == wanted->file && old->from == wanted->from && old->to == wanted->to;
}

/* --------------------------------------------------------------------- copy */

/* The bytes of one range while they are copied. */
struct range_copy {
    const struct part_plan *plan;
    const struct layout_file *file;
    uint64_t from, to;     /* offsets from the end of the header */
    size_t first_item, n;  /* the tensors that have bytes in it */
    uint32_t *stored_crcs; /* as in struct copy_job */
    struct convert_tally *tallies;
};

/* get_whole_input - returns the item for a file that is a copy of the input. */
static struct copy_item get_whole_input(const struct range_copy *copy)
{
    return (struct copy_item){.storage = (struct storage *)(uintptr_t)&copy->plan->input,
                              .first = copy->from,
                              .count = copy->to - copy->from};
}

static struct copy_item get_copy_item(const void *user, size_t index)
{
    const struct range_copy *copy = user;
    if (copy->file->is_copy)
        return get_whole_input(copy);
    const struct layout_item *x = &copy->file->items[copy->first_item + index];
    const struct table *t = &copy->plan->p->file->table;
    struct copy_item item = {.row = x->row,
                             .from = table_dtype_of(t, x->row),
                             .to = plan_dtype(copy->plan->p, x->row),
                             .offset = copy->file->header_size + x->begin,
                             .name = x->name};
    uint64_t nbytes = 0, width = dtype_info(item.to)->block_bytes;
    (void)plan_nbytes(copy->plan->p, x->row, &nbytes); /* the writer has added them up */
    uint64_t end = x->begin + nbytes;
    if (copy->from <= x->begin && end <= copy->to)
        return item;
    uint64_t from = copy->from > x->begin ? copy->from : x->begin, to = copy->to < end ? copy->to : end;
    item.first = (from - x->begin) / width;
    item.count = (to - from) / width;
    return item;
}

/* find_items - sets the tensors of COPY that have bytes in its range. */
static void find_items(struct range_copy *copy)
{
    const struct layout_file *file = copy->file;
    copy->first_item = part_plan_find_item(file, copy->from);
    size_t end = copy->first_item;
    while (end < file->n && file->items[end].begin < copy->to)
        end++;
    copy->n = end - copy->first_item;
}

/* note_checksum - records the checksum of tensor INDEX of COPY if only some of its bytes were read. */
static ckpt_status note_checksum(struct part_writer *writer, const struct range_copy *copy, size_t index,
                                 ckpt_error *err)
{
    const struct copy_item item = get_copy_item(copy, index);
    const struct table *t = &writer->plan->p->file->table;
    if (!item.count || item.storage || table_storage_of(t, item.row) == CKPT_NO_STORAGE)
        return CKPT_OK;
    const struct storage *s = &t->storages[table_storage_of(t, item.row)];
    uint64_t width = dtype_info(item.from)->block_bytes;
    if (!s->has_crc || s->crc_checked || writer->plan->p->file->ignore_crc)
        return CKPT_OK;
    const struct part_checksum c = {.row = item.row,
                                    .name = item.name,
                                    .from = item.first * width,
                                    .nbytes = item.count * width,
                                    .total = s->nbytes,
                                    .crc = copy->stored_crcs[index],
                                    .recorded = s->crc,
                                    .is_crc32c = s->is_crc32c};
    return ARENA_PUSH(writer->plan->a, &writer->now, checksums, &c) ? CKPT_OK : fail_memory(err);
}

/* find_cast - returns the entry of the tensor NAME in the report, which list_casts has added. Tensors come
 * nearly always in the order of the report. */
static ckpt_cast *find_cast(struct part_writer *writer, ckpt_str name)
{
    const struct plan_report *report = &writer->plan->p->report;
    for (size_t n = 0; n < report->ncasts; n++) {
        ckpt_cast *cast = &report->casts[(writer->next_cast + n) % report->ncasts];
        if (cast->name.ptr != name.ptr)
            continue;
        writer->next_cast = (writer->next_cast + n) % report->ncasts;
        return cast;
    }
    return NULL;
}

/* note_overflows - adds the values of tensor INDEX of COPY that overflowed to the report and the record. */
static void note_overflows(struct part_writer *writer, const struct range_copy *copy, size_t index)
{
    uint64_t overflowed = copy->tallies[index].overflowed;
    ckpt_cast *cast = overflowed ? find_cast(writer, get_copy_item(copy, index).name) : NULL;
    if (!cast)
        return;
    cast->overflowed += overflowed; /* at most its elements */
    writer->now.overflowed = size_add(writer->now.overflowed, overflowed);
}

static ckpt_status note_results(struct part_writer *writer, const struct range_copy *copy, ckpt_error *err)
{
    for (size_t i = 0; i < copy->n; i++) {
        CKPT_TRY(note_checksum(writer, copy, i, err));
        note_overflows(writer, copy, i);
    }
    return writer->plan->opts.strict ? plan_check_lossless(writer->plan->p, 0, err) : CKPT_OK;
}

static int report_progress(void *user, uint64_t done, uint64_t total)
{
    struct part_writer *writer = user;
    const ckpt_write_options *opts = &writer->plan->opts;
    uint64_t written = writer->range_begin + done;
    (void)total;
    look_for_failure(writer, written);
    return writer->other_failed || (opts->progress && opts->progress(opts->user, written, writer->total));
}

static ckpt_status run_copy(struct part_writer *writer, struct range_copy *copy, sink *out, ckpt_error *err)
{
    ckpt_write_options o = writer->plan->opts;
    o.user = writer;
    o.progress = report_progress;
    const struct copy_job job = {.file = copy->file->is_copy ? NULL : writer->plan->p->file,
                                 .read_options = plan_stream_options(writer->plan->p),
                                 .out = out,
                                 .n = copy->n,
                                 .get_item = get_copy_item,
                                 .user = copy,
                                 .stored_crcs = copy->stored_crcs,
                                 .tallies = copy->tallies,
                                 .nbytes = copy->to - copy->from,
                                 .options = &o};
    ckpt_status st = copy_items(&job, err);
    if (st == CKPT_ECANCELLED && writer->other_failed)
        return fail_other_failed(writer, err);
    CKPT_THEN(st, note_results(writer, copy, err));
    return st;
}

/* copy_tensors - copies the bytes [FROM, TO) of FILE, which are of its tensors. */
static ckpt_status copy_tensors(struct part_writer *writer, const struct layout_file *file, uint64_t from,
                                uint64_t to, sink *out, ckpt_error *err)
{
    struct range_copy copy = {.plan = writer->plan,
                              .file = file,
                              .from = from - file->header_size,
                              .to = to - file->header_size,
                              .n = 1};
    if (!file->is_copy)
        find_items(&copy);
    copy.stored_crcs = calloc(copy.n, sizeof *copy.stored_crcs);
    copy.tallies = calloc(copy.n, sizeof *copy.tallies);
    ckpt_status st = copy.stored_crcs && copy.tallies ? run_copy(writer, &copy, out, err) : fail_memory(err);
    free(copy.stored_crcs);
    free(copy.tallies);
    return st;
}

/* open_file - opens output file INDEX, which must exist. */
static ckpt_status open_file(const struct part_writer *writer, size_t index, sink **out, ckpt_error *err)
{
    const char *path = part_path(writer->place.path, writer->plan->job.files[index].name.ptr,
                                 writer->plan->a);
    CKPT_TRY_ALLOC(path, err);
    ckpt_status st = sink_range(writer->place.dir, path, writer->plan->files[index].size,
                                writer->plan->opts.no_sync != 0, out, err);
    if (st == CKPT_ENOTFOUND)
        part_place_hint_clean(&writer->place,
                              "it was removed, with what parts have written: remove all, and run them again",
                              err);
    return st;
}

/* digest_range - sets the digest of RANGE to that of the bytes in OUT. */
static ckpt_status digest_range(struct part_range *range, sink *out, ckpt_error *err)
{
    void *state = xxh3_new();
    unsigned char *block = malloc(FD_CHUNK);
    ckpt_status st = state && block ? CKPT_OK : fail_memory(err);
    for (uint64_t at = range->from; st == CKPT_OK && at < range->to;) {
        size_t n = range->to - at < FD_CHUNK ? (size_t)(range->to - at) : FD_CHUNK;
        st = sink_read(out, at, block, n, err);
        if (st == CKPT_OK)
            xxh3_update(state, block, n);
        at += n;
    }
    if (st == CKPT_OK)
        xxh3_final(state, range->digest);
    xxh3_free(state);
    free(block);
    return st;
}

/* copy_header - copies the header of output file INDEX, which the plan keeps. */
static ckpt_status copy_header(const struct part_writer *writer, size_t index, sink *out, ckpt_error *err)
{
    uint64_t begin = 0, size = writer->plan->files[index].header_size;
    unsigned char *block = malloc(FD_CHUNK);
    ckpt_status st = block ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; i < index; i++)
        begin += writer->plan->files[i].header_size; /* they are in a source: the sum does not wrap */
    for (uint64_t at = 0; st == CKPT_OK && at < size;) {
        size_t n = size - at < FD_CHUNK ? (size_t)(size - at) : FD_CHUNK;
        st = source_read(writer->plan->headers, begin + at, block, n, err);
        CKPT_THEN(st, sink_patch(out, at, block, n, err));
        at += n;
    }
    free(block);
    return st;
}

static ckpt_status write_range(struct part_writer *writer, struct part_range *range, ckpt_error *err)
{
    const struct layout_file *file = &writer->plan->files[range->file];
    sink *out;
    CKPT_TRY(open_file(writer, range->file, &out, err));
    ckpt_status st = range->from < file->header_size
                         ? copy_header(writer, range->file, out, err)
                         : copy_tensors(writer, file, range->from, range->to, out, err);
    CKPT_THEN(st, digest_range(range, out, err));
    return sink_end(out, st, err);
}

/* -------------------------------------------------------------------- ranges */

static ckpt_status add_done_range(struct part_writer *writer, const struct part_range *range, ckpt_error *err)
{
    writer->done += range->to - range->from;
    return ARENA_PUSH(writer->plan->a, &writer->now, ranges, range) ? CKPT_OK : fail_memory(err);
}

/* keep_old_ranges - takes over what an earlier run has recorded; nothing if any of it is not as it should
 * be. */
static void keep_old_ranges(struct part_writer *writer)
{
    for (size_t i = 0; i < writer->old.nranges; i++)
        if (!has_old_range(writer, i)) {
            writer->old = (struct part_record){0};
            return;
        }
    writer->now.overflowed = writer->old.overflowed;
    writer->now.ranges = writer->old.ranges;
    writer->now.nranges = writer->now.cap_ranges = writer->old.nranges;
    writer->now.checksums = writer->old.checksums;
    writer->now.nchecksums = writer->now.cap_checksums = writer->old.nchecksums;
    for (size_t i = 0; i < writer->now.nranges; i++)
        writer->found += writer->now.ranges[i].to - writer->now.ranges[i].from; /* they are those of a part */
    writer->done = writer->found;
}

/* record_step - records what was written since the last record, if that is a STEP. */
static ckpt_status record_step(struct part_writer *writer, uint64_t step, ckpt_error *err)
{
    if (writer->done - writer->recorded < step)
        return CKPT_OK;
    CKPT_TRY(write_record(writer, err));
    writer->recorded = writer->done;
    return CKPT_OK;
}

/* write_ranges - writes the ranges that are missing, and a record after each step. */
static ckpt_status write_ranges(struct part_writer *writer, ckpt_error *err)
{
    uint64_t step = part_plan_step(writer->plan, writer->plan->opts.part);
    writer->recorded = writer->looked = writer->done;
    for (size_t i = writer->now.nranges; i < writer->wanted.nranges; i++) {
        writer->range_begin = writer->done;
        CKPT_TRY(part_place_check(&writer->place, err));
        CKPT_TRY(write_range(writer, &writer->wanted.ranges[i], err));
        CKPT_TRY(add_done_range(writer, &writer->wanted.ranges[i], err));
        CKPT_TRY(record_step(writer, step, err));
    }
    writer->now.done = true;
    return write_record(writer, err);
}

static ckpt_status write_part(struct part_writer *writer, ckpt_error *err)
{
    CKPT_TRY(make_files(writer, err));
    read_old_record(writer);
    keep_old_ranges(writer);
    if (writer->old.done && writer->now.nranges == writer->wanted.nranges)
        return CKPT_OK;
    ckpt_status st = write_ranges(writer, err);
    if (st != CKPT_OK)
        drop_record_if_changed(writer);
    return st;
}

static ckpt_status run_part(struct part_writer *writer, ckpt_error *err)
{
    CKPT_TRY(part_place_open(&writer->place, err));
    writer->failed_at = part_place_failure_time(&writer->place);
    ckpt_status st = write_part(writer, err);
    if (st != CKPT_OK)
        part_place_fail(&writer->place, err);
    return st;
}

/* list_casts - lists the casts of all parts in the report; those of this part add their overflows. */
static ckpt_status list_casts(const struct part_plan *plan, ckpt_error *err)
{
    const struct table *t = &plan->p->file->table;
    for (size_t k = 0; k < plan->nfiles; k++)
        for (size_t i = 0; i < plan->files[k].n; i++) {
            const struct layout_item *x = &plan->files[k].items[i];
            if (table_dtype_of(t, x->row) != plan_dtype(plan->p, x->row))
                CKPT_TRY(plan_note_cast(plan->p, x->name, x->row, table_elements_of(t, x->row), 0, err));
        }
    return CKPT_OK;
}

/* announce_plan - passes the plan id to the caller, which may stop. */
static ckpt_status announce_plan(const struct part_plan *plan, ckpt_error *err)
{
    const ckpt_write_options *opts = &plan->opts;
    return opts->planned && opts->planned(opts->user, plan->job.id)
               ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request")
               : CKPT_OK;
}

ckpt_status part_plan_write(struct part_plan *plan, ckpt_write_result *result, ckpt_error *err)
{
    ckpt_str target;
    struct part_writer writer = {.plan = plan,
                                 .place = {.a = plan->a,
                                           .job = &plan->job,
                                           .part = plan->opts.part,
                                           .no_sync = plan->opts.no_sync != 0,
                                           .dir = -1}};
    CKPT_TRY(part_plan_finish(plan, err));
    CKPT_TRY(part_target_find(plan->files[0].path, plan->a, &writer.place.folder, &target, err));
    CKPT_TRY(part_plan_list(plan, plan->opts.part, &writer.wanted, err));
    writer.total = plan->job.part_bytes[plan->opts.part];
    memcpy(writer.now.id, plan->job.id, sizeof writer.now.id);
    writer.now.part = plan->opts.part;
    writer.now.parts = plan->job.parts;
    CKPT_TRY(list_casts(plan, err));
    CKPT_TRY(announce_plan(plan, err));
    ckpt_status st = plan->opts.dry_run ? CKPT_OK : run_part(&writer, err);
    part_place_close(&writer.place);
    result->plan_id = arena_str(plan->p->a, str_c(plan->job.id)).ptr;
    result->part_bytes = writer.total;
    result->part_found = writer.found;
    return st;
}
