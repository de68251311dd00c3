/*
 * zip_write.c - writes a plan as a torch.save archive that torch.load of torch >= 1.6 reads in every mode
 * (weights_only, mmap).
 *
 *   archive/data.pkl     protocol 2, only what the restricted unpickler accepts
 *                        unless the input holds more
 *   archive/byteorder    "little"
 *   archive/data/<n>     storages 0, 1, 2 … in the order in which the pickle
 *                        first names them, all bytes of each
 *   archive/version      "3\n"
 *
 * There is no .format_version and no .storage_alignment, because with them torch >= 2.7 computes the offsets
 * of storages for a layout with data descriptors, and this archive has none.
 */
#include <stdio.h>
#include <stdlib.h>

#include "codec/pickle_read.h"
#include "codec/zip_write.h"
#include "format/metadata.h"
#include "format/salvage.h"
#include "format/torch/zip.h"

#define TOP        "archive"
#define PICKLE     "data.pkl"
#define DATA       "data/"
#define BYTEORDER  "byteorder"
#define ENDIANNESS "little"
#define VERSION    "version"
#define VERSION_3  "3\n"
#define MAX_PICKLE (SIZE_MAX / 2)

struct archive_copy {
    struct torch_writer *w;
    zip_writer *zw;                /* NULL: nothing is written */
    uint64_t *header_offsets;      /* [k]: offset of the local header of storage k … */
    uint32_t *header_sizes;        /* … and its size, up to the payload */
    uint32_t *crcs;                /* [k]: CRC-32 of the written payload of storage k */
    struct convert_tally *tallies; /* [k]: of the cast of storage k; NULL: nothing is cast */
};

/* get_source_offset - returns the file offset of STORAGE in the input; CKPT_NO_OFFSET if its bytes are not
 * cloned, because they are few or other bytes are written. */
static uint64_t get_source_offset(const struct torch_writer *writer, const struct storage *storage)
{
    ckpt_error ignored;
    bool can_clone = storage->src && !storage->swap_width && storage->nbytes >= SINK_CLONE_LEAST &&
                     !torch_find_cast(writer, storage);
    if (!can_clone || source_locate(storage->src, &ignored) != CKPT_OK)
        return CKPT_NO_OFFSET;
    return source_pos(storage->src, storage->off);
}

/* name_storage - writes "data/NUMBER" to NAME. Returns its length. */
static size_t name_storage(size_t number, char name[ZIP_NAME])
{
    char digits[STR_NUMBER_MAX];
    const ckpt_str text = format_number(number, digits);
    memcpy(name, DATA, strlen(DATA));
    memcpy(name + strlen(DATA), text.ptr, text.len);
    name[strlen(DATA) + text.len] = '\0';
    return strlen(DATA) + text.len;
}

static void describe_member(const void *user, size_t number, struct zip_output_member *member)
{
    const struct archive_copy *copy = user;
    const struct storage *s = copy->w->storages[number];
    *member = (struct zip_output_member){.size = torch_zip_storage_size(copy->w, s),
                                         .source_offset = get_source_offset(copy->w, s),
                                         .header_offset = copy->header_offsets[number],
                                         .crc = copy->crcs[number]};
    name_storage(number, member->name);
}

static struct copy_item get_copy_item(const void *user, size_t index)
{
    const struct archive_copy *copy = user;
    const struct torch_cast *cast = torch_find_cast(copy->w, copy->w->storages[index]);
    uint64_t header = copy->header_offsets[index];
    return (struct copy_item){.storage = copy->w->storages[index],
                              .from = cast ? cast->from : CKPT_DT_NONE,
                              .to = cast ? cast->to : CKPT_DT_NONE,
                              .offset = header + copy->header_sizes[index],
                              .crc_offset = header + ZIP_LOCAL_CRC};
}

static ckpt_status put_member_header(const void *user, size_t index, buf *out, ckpt_error *err)
{
    const struct archive_copy *copy = user;
    struct zip_output_member member;
    describe_member(copy, index, &member);
    return zip_put_output_header(copy->zw, &member, out, err);
}

static ckpt_status reserve_items(struct archive_copy *copy, ckpt_error *err)
{
    size_t n = copy->w->nstorages + 1;
    copy->header_offsets = calloc(n, sizeof *copy->header_offsets);
    copy->header_sizes = calloc(n, sizeof *copy->header_sizes);
    copy->crcs = calloc(n, sizeof *copy->crcs);
    copy->tallies = copy->w->casts ? calloc(n, sizeof *copy->tallies) : NULL;
    if (!copy->header_offsets || !copy->header_sizes || !copy->crcs || (copy->w->casts && !copy->tallies))
        return fail_memory(err);
    for (size_t i = 0; copy->zw && i < copy->w->nstorages; i++) {
        struct zip_output_member member;
        describe_member(copy, i, &member);
        CKPT_TRY(zip_writer_reserve_member(copy->zw, &member, err));
        copy->header_offsets[i] = member.header_offset;
        /* a local header has a name and an extra field of at most 64 KiB */
        copy->header_sizes[i] = (uint32_t)(member.data_offset - member.header_offset);
    }
    return CKPT_OK;
}

/* copy_storages - copies all storages to OUT. If OUT is NULL, only reads them. */
static ckpt_status copy_storages(struct archive_copy *copy, sink *out, ckpt_error *err)
{
    const struct torch_writer *w = copy->w;
    CKPT_TRY(reserve_items(copy, err));
    const struct copy_job job = {.file = w->p->file,
                                 .read_options = plan_stream_options(w->p),
                                 .out = out,
                                 .n = w->nstorages,
                                 .get_item = get_copy_item,
                                 .put_header = put_member_header,
                                 .user = copy,
                                 .crcs = out ? copy->crcs : NULL,
                                 .tallies = copy->tallies,
                                 .nbytes = w->storage_bytes,
                                 .options = w->opts};
    CKPT_TRY(copy_items(&job, err));
    return torch_zip_report_casts(copy->w, copy->tallies, err);
}

static ckpt_status compute_archive_size(const struct torch_writer *writer, uint64_t *total, ckpt_error *err)
{
    struct zip_layout l = {0};
    bool ok = zip_layout_add_member(&l, TOP, strlen(PICKLE), writer->pickle.len, CKPT_NO_OFFSET) &&
              zip_layout_add_member(&l, TOP, strlen(BYTEORDER), strlen(ENDIANNESS), CKPT_NO_OFFSET);
    for (size_t i = 0; ok && i < writer->nstorages; i++) {
        char name[ZIP_NAME];
        const struct storage *s = writer->storages[i];
        ok = zip_layout_add_member(&l, TOP, name_storage(i, name), torch_zip_storage_size(writer, s),
                                   get_source_offset(writer, s));
    }
    ok = ok && zip_layout_add_member(&l, TOP, strlen(VERSION), strlen(VERSION_3), CKPT_NO_OFFSET) &&
         zip_layout_get_size(&l, total);
    return ok ? CKPT_OK : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "an archive of more than 2^64 bytes");
}

static ckpt_status write_members(struct archive_copy *copy, sink *out, ckpt_error *err)
{
    struct torch_writer *w = copy->w;
    zip_writer *zw = copy->zw;
    CKPT_TRY(zip_writer_write_member(zw, PICKLE, buf_view(&w->pickle), err));
    buf_free(&w->pickle);
    CKPT_TRY(zip_writer_write_member(zw, BYTEORDER, STR_LIT(ENDIANNESS), err));
    CKPT_TRY(copy_storages(copy, out, err));
    CKPT_TRY(zip_writer_write_member(zw, VERSION, STR_LIT(VERSION_3), err));
    return zip_writer_finish(zw, describe_member, copy, err);
}

/* The output, read back from the sink. */
struct written_source {
    source s;
    sink *out;
};

static ckpt_status written_source_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    return sink_read(((struct written_source *)src)->out, off, out, nbytes, err);
}

static void written_source_close(source *src) { (void)src; }

static const struct source_ops written_source_ops = {.read_at = written_source_read,
                                                     .close = written_source_close};

/* check_member - fails unless ENTRY is the member that was written as entry INDEX. */
static ckpt_status check_member(void *user, size_t index, const struct zip_entry *entry, ckpt_error *err)
{
    static const char *const fixed_names[] = {PICKLE, BYTEORDER, VERSION};
    const struct archive_copy *copy = user;
    size_t n = copy->w->nstorages;
    struct zip_output_member member = {.size = strlen(index == 1 ? ENDIANNESS : VERSION_3),
                                       .crc = entry->crc,
                                       .header_offset = entry->header_offset};
    if (index >= 2 && index < n + 2)
        describe_member(copy, index - 2, &member);
    else
        (void)snprintf(member.name, sizeof member.name, "%s", fixed_names[index < 2 ? index : 2]);
    ckpt_str name = entry->name;
    bool same = str_starts(name, STR_LIT(TOP "/")) && str_is(str_skip(name, sizeof TOP), member.name) &&
                entry->method == ZIP_STORED && entry->header_offset == member.header_offset &&
                entry->crc == member.crc &&
                (index == 0 || entry->csize == member.size); /* the pickle, entry 0, was freed */
    return same ? CKPT_OK
                : fail(err, CKPT_EIO, entry->header_offset,
                       "what was written reads back as another member than \"%s\"", member.name);
}

static ckpt_status verify_archive(struct archive_copy *copy, sink *out, uint64_t size, ckpt_error *err)
{
    struct written_source readback = {
        .s = {.ops = &written_source_ops, .size = size, .position = 0, .refs = 1}, .out = out};
    size_t n, expected = copy->w->nstorages + 3; /* 3: data.pkl, byteorder and version */
    CKPT_TRY(zip_visit_entries(&readback.s, check_member, copy, &n, err));
    if (n == expected)
        return CKPT_OK;
    return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "what was written reads back as %zu members instead of %zu", n,
                expected);
}

static ckpt_status write_archive(struct archive_copy *copy, sink *out, uint64_t size, ckpt_error *err)
{
    CKPT_TRY(sink_reserve(out, size, err));
    CKPT_TRY(zip_writer_new(out, TOP, &copy->zw, err));
    ckpt_status st = write_members(copy, out, err);
    zip_writer_free(copy->zw);
    CKPT_TRY(st);
    if (sink_tell(out) != size)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "the archive has %llu bytes instead of %llu",
                    (unsigned long long)sink_tell(out), (unsigned long long)size);
    CKPT_TRY(verify_archive(copy, out, size, err));
    /* for a set of shards, the caller checks the input once, at the end */
    return copy->w->job->has_index ? CKPT_OK : file_check_unchanged(copy->w->p->file, err);
}

static ckpt_status write_file(struct archive_copy *copy, uint64_t size, ckpt_error *err)
{
    sink *out;
    CKPT_TRY(plan_open_sink(copy->w->p, copy->w->job, &out, err));
    return sink_end(out, write_archive(copy, out, size, err), err);
}

static ckpt_status write_output(struct torch_writer *writer, uint64_t size, ckpt_error *err)
{
    struct archive_copy copy = {.w = writer};
    ckpt_status st = writer->opts->dry_run ? copy_storages(&copy, NULL, err) : write_file(&copy, size, err);
    free(copy.header_offsets);
    free(copy.header_sizes);
    free(copy.crcs);
    free(copy.tallies);
    return st;
}

static ckpt_status check_not_empty(const ckpt_plan *p, size_t tensors, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    if (tensors || (f->table.nrows == 0 && !plan_root_is_module(p) && !salvage_left_nothing(f)))
        return CKPT_OK;
    return plan_fail_no_tensors(p, err);
}

static ckpt_status approve_pickle(const struct torch_writer *writer, ckpt_error *err)
{
    ckpt_file *f = NULL;
    uint64_t next;
    if (!writer->p->approve)
        return CKPT_OK;
    source *src = source_mem(writer->pickle.data, writer->pickle.len, CKPT_NO_OFFSET);
    CKPT_TRY(src ? file_new(writer->p->file->path, src, &writer->p->file->limits, &f, err)
                 : fail_memory(err));
    struct pickle_facts *facts = file_add_pickle(f, str_of("", 0));
    ckpt_status st = facts ? pickle_read(f->a, src, 0, src->size, facts, &f->root, &next, err)
                           : fail_memory(err);
    f->loading.by = "torch.load";
    if (st == CKPT_OK)
        st = writer->p->approve(f, err);
    file_free(f);
    return st;
}

/* free_node_maps - frees the maps that only torch_zip_pickle uses, before the storages are copied. */
static void free_node_maps(struct torch_writer *writer)
{
    map_free(writer->storage_of);
    map_free(writer->replacement_of);
    map_free(writer->mask_of);
    writer->storage_of = writer->replacement_of = writer->mask_of = NULL;
}

ckpt_status torch_zip_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    size_t n = p->file->table.nstorages, tensors = plan_count_entries(p);
    struct torch_writer w = {.p = p, .job = job, .opts = job->opts};
    uint64_t size = 0;
    w.storage_of = map_new(0);
    w.storages = arena_grow(p->a, NULL, 0, &w.cap_storages, n, sizeof *w.storages);
    w.cast_of = map_new(0);
    w.replacement_of = map_new(0);
    w.mask_of = map_new(0);
    buf_init(&w.pickle, MAX_PICKLE);
    bool ok = w.storage_of && w.storages && w.cast_of && w.replacement_of && w.mask_of;
    ckpt_status st = ok ? check_not_empty(p, tensors, err) : fail_memory(err);
    if (st == CKPT_OK && p->file->metadata && !job->has_index)
        st = metadata_drop(p, job->opts->strict, err);
    arena_trim(p->a);
    if (st == CKPT_OK)
        st = torch_zip_pickle(&w, err);
    free_node_maps(&w);
    if (st == CKPT_OK)
        st = approve_pickle(&w, err);
    if (st == CKPT_OK)
        st = compute_archive_size(&w, &size, err);
    if (st == CKPT_OK && !job->layout_only)
        st = write_output(&w, size, err);
    if (st == CKPT_OK && job->path)
        st = plan_note_output(p, job->path, err);
    if (st == CKPT_OK) {
        job->result->tensors += tensors;
        if (!checked_add(job->result->bytes, size, &job->result->bytes))
            job->result->bytes = UINT64_MAX;
    }
    buf_free(&w.pickle);
    map_free(w.cast_of);
    return st;
}
