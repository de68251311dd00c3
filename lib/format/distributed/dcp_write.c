/* dcp_write.c - writes a plan as a distributed checkpoint that torch.distributed.checkpoint loads:
 *
 *    __0_0.distcp     torch.save archives, one after the other: values that are not tensors, then tensors
 *    __0_1.distcp …   more tensors, if several files are wanted, with about as many bytes in each
 *    __0_N.distcp …   a file for each value that has tensors in it, such as a tuple or a quantized tensor
 *    .metadata        the ranges of the archives in these files
 *
 * Each tensor is one chunk with its elements in row-major order; tensors that share a storage are written one
 * by one. If only names change, dcp_rename.c copies the files instead. */
#include "format/distributed/dcp_write.h"

#include <stdlib.h>

#include "base/store.h"
#include "core/copy_pool.h"
#include "format/files/checkpoint_names.h"
#include "format/metadata.h"
#include "format/registry.h"
#include "format/salvage.h"

#define MAX_FILES 100000u

struct dcp_writer {
    ckpt_plan *plan;
    const struct write_job *job;
    struct output_folder folder;
    struct dcp_leaves leaves;
    struct dcp_item_range *ranges; /* by leaf */
    uint64_t *tensor_starts;       /* by leaf: where its tensor begins in the archive */
    size_t *tensors;               /* indices of the leaves that are tensors */
    size_t ntensors;
    uint32_t nfiles;                       /* without the files of write_value_with_tensors */
    uint32_t *crcs;                        /* by tensor: CRC-32 of its elements */
    struct convert_tally *tallies;         /* by tensor; NULL: no tensor is cast */
    uint64_t tensor_bytes, finished_bytes; /* bytes of all tensors; of those in finished files */
    uint64_t file_bytes;                   /* of all files */
};

/* ------------------------------------------------------------------------ layout */

static bool is_tensorless(const struct dcp_leaf *leaf)
{
    return leaf->row == CKPT_NO_TENSOR && !leaf->holds_tensors;
}

/* assign_range - sets *AT to the next LENGTH bytes of FILE, from *END on, and moves *END after them. False:
 * the file would exceed 2^63 bytes. */
static bool assign_range(struct dcp_item_range *at, uint32_t file, uint64_t length, uint64_t *end)
{
    *at = (struct dcp_item_range){.file = file, .offset = *end, .length = length};
    return checked_add(*end, length, end) && *end <= INT64_MAX;
}

static ckpt_status fail_too_large(ckpt_error *err)
{
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a file of {more} than {=2^63 bytes}");
}

static ckpt_status lay_out_values(struct dcp_writer *writer, uint64_t *end, ckpt_error *err)
{
    struct dcp_archive archive;
    for (size_t i = 0; i < writer->leaves.nleaves; i++) {
        if (!is_tensorless(&writer->leaves.leaves[i]))
            continue;
        CKPT_TRY(dcp_archive_value(&archive, writer->plan, writer->leaves.leaves[i].node, err));
        bool ok = assign_range(&writer->ranges[i], 0, archive.prefix.len, end);
        dcp_archive_free(&archive);
        if (!ok)
            return fail_too_large(err);
    }
    return CKPT_OK;
}

/* lay_out_tensors - distributes the tensors over up to writer->nfiles files of about the same size. END is
 * the number of bytes that the values take in the first file. */
static ckpt_status lay_out_tensors(struct dcp_writer *writer, uint64_t end, ckpt_error *err)
{
    struct dcp_archive archive;
    uint64_t before = 0, nbytes, share = writer->tensor_bytes / writer->nfiles;
    uint32_t file = 0;
    share += share < UINT64_MAX;
    for (size_t t = 0; t < writer->ntensors; t++) {
        size_t i = writer->tensors[t];
        uint32_t row = writer->leaves.leaves[i].row;
        if (before / share > file && file + 1 < writer->nfiles) {
            file++;
            end = 0;
        }
        CKPT_TRY(dcp_archive_tensor(&archive, writer->plan, row, 0, err));
        writer->tensor_starts[i] = archive.prefix.len;
        (void)plan_nbytes(writer->plan, row, &nbytes);
        uint64_t overhead = archive.prefix.len + archive.suffix.len;
        bool ok = assign_range(&writer->ranges[i], file, overhead + nbytes, &end);
        dcp_archive_free(&archive);
        if (!ok)
            return fail_too_large(err);
        before += nbytes;
    }
    writer->nfiles = file + 1;
    return CKPT_OK;
}

static ckpt_status list_tensors(struct dcp_writer *writer, ckpt_error *err)
{
    writer->ranges = calloc(writer->leaves.nleaves + 1, sizeof *writer->ranges);
    writer->tensor_starts = calloc(writer->leaves.nleaves + 1, sizeof *writer->tensor_starts);
    writer->tensors = calloc(writer->leaves.nleaves + 1, sizeof *writer->tensors);
    writer->crcs = calloc(writer->leaves.nleaves + 1, sizeof *writer->crcs);
    writer->tallies = writer->plan->casts.to ? calloc(writer->leaves.nleaves + 1, sizeof *writer->tallies)
                                             : NULL;
    if (!writer->ranges || !writer->tensor_starts || !writer->tensors || !writer->crcs ||
        (writer->plan->casts.to && !writer->tallies))
        return fail_memory(err);
    for (size_t i = 0; i < writer->leaves.nleaves; i++) {
        uint64_t nbytes;
        if (writer->leaves.leaves[i].row == CKPT_NO_TENSOR)
            continue;
        writer->tensors[writer->ntensors++] = i;
        if (!plan_nbytes(writer->plan, writer->leaves.leaves[i].row, &nbytes) ||
            !checked_add(writer->tensor_bytes, nbytes, &writer->tensor_bytes))
            return fail_too_large(err);
    }
    return CKPT_OK;
}

static ckpt_status lay_out(struct dcp_writer *writer, ckpt_error *err)
{
    uint64_t end = 0;
    uint64_t files = writer->job->opts->shards ? writer->job->opts->shards : 1;
    CKPT_TRY(list_tensors(writer, err));
    bool had_tensors = writer->plan->file->table.nrows || salvage_left_nothing(writer->plan->file);
    if (!writer->leaves.nleaves || (!writer->ntensors && had_tensors && !plan_count_entries(writer->plan)))
        return plan_fail_no_tensors(writer->plan, err);
    files = files < writer->ntensors ? files : writer->ntensors; /* no file is empty */
    writer->nfiles = files < 1 ? 1 : files < MAX_FILES ? (uint32_t)files : MAX_FILES;
    CKPT_TRY(lay_out_values(writer, &end, err));
    return lay_out_tensors(writer, end, err);
}

/* ------------------------------------------------------------------------- files */

/* The tensors of one file. */
struct dcp_file_copy {
    struct dcp_writer *writer;
    size_t first_tensor; /* in writer->tensors */
};

static int report_progress(void *user, uint64_t done, uint64_t total)
{
    const struct dcp_writer *w = user;
    (void)total;
    return w->job->opts->progress(w->job->opts->user, w->finished_bytes + done, w->tensor_bytes);
}

static struct copy_item get_copy_item(const void *user, size_t number)
{
    const struct dcp_file_copy *copy = user;
    const struct dcp_writer *w = copy->writer;
    size_t i = w->tensors[copy->first_tensor + number];
    const struct dcp_leaf *l = &w->leaves.leaves[i];
    return (struct copy_item){.row = l->row,
                              .from = table_dtype_of(&w->plan->file->table, l->row),
                              .to = plan_dtype(w->plan, l->row),
                              .offset = w->ranges[i].offset + w->tensor_starts[i],
                              .name = l->name};
}

/* copy_tensors - copies the COUNT tensors of COPY to OUT; if OUT is NULL, only reads them. */
static ckpt_status copy_tensors(struct dcp_file_copy *copy, size_t count, sink *out, ckpt_error *err)
{
    struct dcp_writer *w = copy->writer;
    ckpt_write_options opts = *w->job->opts;
    struct copy_job job = {.file = w->plan->file,
                           .read_options = plan_stream_options(w->plan),
                           .out = out,
                           .n = count,
                           .get_item = get_copy_item,
                           .user = copy,
                           .crcs = out ? w->crcs + copy->first_tensor : NULL,
                           .tallies = w->tallies ? w->tallies + copy->first_tensor : NULL,
                           .options = &opts};
    opts.user = opts.progress ? w : NULL;
    opts.progress = opts.progress ? report_progress : NULL;
    for (size_t t = 0; t < count; t++) {
        uint64_t nbytes = 0;
        (void)plan_nbytes(w->plan, w->leaves.leaves[w->tensors[copy->first_tensor + t]].row, &nbytes);
        job.nbytes += nbytes;
    }
    CKPT_TRY(copy_items(&job, err));
    w->finished_bytes += job.nbytes;
    return CKPT_OK;
}

/* put_archives - writes the zip headers and pickles around the COUNT tensors of COPY. They are written last,
 * because they contain CRCs, which are known only when the elements have been copied. */
static ckpt_status put_archives(const struct dcp_file_copy *copy, size_t count, sink *out, ckpt_error *err)
{
    const struct dcp_writer *w = copy->writer;
    struct dcp_archive archive;
    for (size_t t = copy->first_tensor; t < copy->first_tensor + count; t++) {
        size_t i = w->tensors[t];
        const struct dcp_item_range *at = &w->ranges[i];
        unsigned char crc[4];
        CKPT_TRY(dcp_archive_tensor(&archive, w->plan, w->leaves.leaves[i].row, w->crcs[t], err));
        store_u32le(crc, w->crcs[t]);
        memcpy(archive.prefix.data + archive.crc_offset, crc, sizeof crc);
        ckpt_status st = sink_patch(out, at->offset, archive.prefix.data, archive.prefix.len, err);
        CKPT_THEN(st, sink_patch(out, at->offset + at->length - archive.suffix.len, archive.suffix.data,
                                 archive.suffix.len, err));
        dcp_archive_free(&archive);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

static ckpt_status put_values(const struct dcp_writer *writer, sink *out, ckpt_error *err)
{
    struct dcp_archive archive;
    for (size_t i = 0; i < writer->leaves.nleaves; i++) {
        if (!is_tensorless(&writer->leaves.leaves[i]))
            continue;
        CKPT_TRY(dcp_archive_value(&archive, writer->plan, writer->leaves.leaves[i].node, err));
        ckpt_status st = sink_write(out, archive.prefix.data, archive.prefix.len, err);
        dcp_archive_free(&archive);
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* get_file_size - returns the size of FILE, whose tensors are the COUNT of COPY; file 0 also has the
 * values. */
static uint64_t get_file_size(const struct dcp_file_copy *copy, size_t count, uint32_t file)
{
    const struct dcp_writer *w = copy->writer;
    uint64_t end = 0;
    for (size_t i = 0; !file && !count && i < w->leaves.nleaves; i++)
        if (is_tensorless(&w->leaves.leaves[i]))
            end = w->ranges[i].offset + w->ranges[i].length;
    if (!count)
        return end;
    const struct dcp_item_range *last = &w->ranges[w->tensors[copy->first_tensor + count - 1]];
    return last->offset + last->length;
}

static ckpt_status write_contents(struct dcp_file_copy *copy, size_t count, uint32_t file, sink *out,
                                  ckpt_error *err)
{
    uint64_t size = get_file_size(copy, count, file);
    CKPT_TRY(sink_reserve(out, size, err));
    if (!file)
        CKPT_TRY(put_values(copy->writer, out, err));
    CKPT_TRY(sink_skip(out, size - sink_tell(out), err));
    CKPT_TRY(copy_tensors(copy, count, out, err));
    return put_archives(copy, count, out, err);
}

static ckpt_status write_file(struct dcp_writer *writer, uint32_t file, size_t *first, ckpt_error *err)
{
    struct dcp_file_copy copy = {writer, *first};
    struct sink_options sink_opts = plan_sink_options(writer->plan, writer->job->opts);
    char name[32];
    sink *out;
    size_t n = 0;
    while (*first + n < writer->ntensors && writer->ranges[writer->tensors[*first + n]].file == file)
        n++;
    *first += n;
    writer->file_bytes += get_file_size(&copy, n, file);
    if (writer->job->opts->dry_run)
        return copy_tensors(&copy, n, NULL, err);
    dcp_file_name(file, name);
    const char *path = output_folder_path(&writer->folder, name);
    CKPT_TRY(path ? sink_file(path, &sink_opts, &out, err) : fail_memory(err));
    return sink_end(out, write_contents(&copy, n, file, out, err), err);
}

/* write_value_with_tensors - writes leaf INDEX as a file of its own, as torch.save does. */
static ckpt_status write_value_with_tensors(struct dcp_writer *writer, size_t index, uint32_t file,
                                            ckpt_error *err)
{
    ckpt_plan *p = writer->plan;
    const struct dcp_leaf *l = &writer->leaves.leaves[index];
    const ckpt_value *root = p->root;
    const ckpt_path_elem *path = p->root_path;
    uint32_t depth = p->root_depth;
    ckpt_write_options opts = *writer->job->opts;
    ckpt_write_result result = {0};
    char name[32];
    size_t outputs = p->report.noutputs;
    dcp_file_name(file, name);
    struct write_job job = {.path = opts.dry_run ? writer->job->path
                                                 : output_folder_path(&writer->folder, name),
                            .opts = &opts,
                            .result = &result,
                            .has_index = true};
    opts.progress = NULL;
    p->root = l->node;
    p->root_path = l->input_path;
    p->root_depth = l->ninput_path;
    p->entries_stale = true;
    ckpt_status st = job.path ? format_torch_zip.write(p, &job, err) : fail_memory(err);
    p->root = root;
    p->root_path = path;
    p->root_depth = depth;
    p->entries_stale = true;
    p->report.noutputs = outputs;
    writer->ranges[index] = (struct dcp_item_range){.file = file, .length = result.bytes};
    writer->file_bytes += result.bytes;
    return st;
}

static ckpt_status record_casts(const struct dcp_writer *writer, ckpt_error *err)
{
    size_t before = writer->plan->report.ncasts;
    for (size_t t = 0; writer->tallies && t < writer->ntensors; t++) {
        const struct dcp_leaf *l = &writer->leaves.leaves[writer->tensors[t]];
        const ckpt_tensor input = table_tensor(&writer->plan->file->table, l->row);
        if (input.dtype != plan_dtype(writer->plan, l->row))
            CKPT_TRY(plan_note_cast(writer->plan, l->name, l->row, input.elements,
                                    writer->tallies[t].overflowed, err));
    }
    return writer->job->opts->strict ? plan_check_lossless(writer->plan, before, err) : CKPT_OK;
}

/* ---------------------------------------------------------------------- metadata */

static ckpt_status write_metadata(struct dcp_writer *writer, ckpt_error *err)
{
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = dcp_metadata_write(&writer->leaves, writer->ranges, &b, err);
    CKPT_THEN(st, output_folder_write_file(&writer->folder, ".metadata", buf_view(&b), err));
    writer->file_bytes += b.len;
    buf_free(&b);
    return st;
}

/* verify_folder - opens the folder that was written and checks that every tensor is found in it. */
static ckpt_status verify_folder(const struct dcp_writer *writer, ckpt_error *err)
{
    ckpt_file *f;
    const struct opening o = {.path = output_folder_path(&writer->folder, ""),
                              .limits = &writer->plan->file->limits};
    CKPT_TRY(o.path ? format_open(&o, &f, err) : fail_memory(err));
    bool indexed = file_index_names(f), complete = f->table.nrows >= writer->ntensors;
    for (size_t t = 0; indexed && complete && t < writer->ntensors; t++)
        complete = file_find_tensor(f, writer->leaves.leaves[writer->tensors[t]].name) != CKPT_NO_TENSOR;
    file_free(f);
    return !indexed   ? fail_memory(err)
           : complete ? CKPT_OK
                      : fail(err, CKPT_EIO, CKPT_NO_OFFSET,
                             "the folder that was written does not contain all tensors");
}

static ckpt_status note_outputs(struct dcp_writer *writer, uint32_t nfiles, ckpt_error *err)
{
    char name[32];
    for (uint32_t k = 0; k < nfiles; k++) {
        dcp_file_name(k, name);
        CKPT_TRY(output_folder_note_output(&writer->folder, name, err));
    }
    return output_folder_note_output(&writer->folder, ".metadata", err);
}

/* --------------------------------------------------------------------------- all */

static ckpt_status write_all(struct dcp_writer *writer, ckpt_error *err)
{
    size_t first = 0;
    uint32_t file = 0;
    if (!writer->job->opts->dry_run)
        CKPT_TRY(output_folder_begin(&writer->folder, err));
    for (; file < writer->nfiles; file++)
        CKPT_TRY(write_file(writer, file, &first, err));
    for (size_t i = 0; i < writer->leaves.nleaves; i++)
        if (writer->leaves.leaves[i].row == CKPT_NO_TENSOR && writer->leaves.leaves[i].holds_tensors)
            CKPT_TRY(write_value_with_tensors(writer, i, file++, err));
    CKPT_TRY(write_metadata(writer, err));
    CKPT_TRY(record_casts(writer, err));
    CKPT_TRY(note_outputs(writer, file, err));
    if (writer->job->opts->dry_run)
        return CKPT_OK;
    CKPT_TRY(file_check_unchanged(writer->plan->file, err));
    return verify_folder(writer, err);
}

static void note_changes(struct dcp_writer *writer)
{
    size_t ntied = 0;
    for (size_t t = 0; t < writer->ntensors; t++)
        ntied += table_alias_of(&writer->plan->file->table, writer->leaves.leaves[writer->tensors[t]].row) !=
                 CKPT_NO_TENSOR;
    if (ntied)
        plan_notice(writer->plan,
                    "%zu name%s of shared tensors written again: a distributed checkpoint has no ties", ntied,
                    ntied == 1 ? "" : "s");
    if (writer->leaves.has_int_keys)
        plan_notice(writer->plan,
                    "keys that are numbers become texts in a distributed checkpoint, as torch writes them");
}

static ckpt_status write_anew(struct dcp_writer *writer, ckpt_error *err)
{
    ckpt_plan *p = writer->plan;
    CKPT_TRY(plan_update_entries(p, err));
    CKPT_TRY(dcp_flatten(&writer->leaves, err));
    if (p->file->metadata)
        CKPT_TRY(metadata_drop(p, writer->job->opts->strict, err));
    CKPT_TRY(lay_out(writer, err));
    note_changes(writer);
    if (writer->job->layout_only)
        return CKPT_OK;
    ckpt_status st = output_folder_end(&writer->folder, write_all(writer, err), err);
    if (st == CKPT_OK) {
        writer->job->result->tensors += plan_count_entries(p);
        writer->job->result->bytes += writer->file_bytes;
    }
    return st;
}

static bool is_not_dcp_file(ckpt_str name)
{
    return !str_is(name, ".") && !str_is(name, "..") && !folder_is_data_file(name) &&
           !str_ends(name, STR_LIT(".metadata")) && !str_ends(name, STR_LIT(".metadata.tmp"));
}

static const struct output_folder_kind dcp_folder = {"a distributed checkpoint", is_not_dcp_file};

ckpt_status dcp_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    struct dcp_writer w = {.plan = p, .job = job, .leaves = {.plan = p}};
    bool done = false;
    CKPT_TRY(job->layout_only ? CKPT_OK : output_folder_prepare(&w.folder, &dcp_folder, p, job, err));
    ckpt_status st = job->layout_only ? CKPT_OK : dcp_write_renamed(p, &w.folder, &done, err);
    if (st == CKPT_OK && !done)
        st = write_anew(&w, err);
    free(w.ranges);
    free(w.tensor_starts);
    free(w.tensors);
    free(w.crcs);
    free(w.tallies);
    return st;
}
