/*
 * metadata.c - replaces the value of __metadata__ in a header; the rest of the header, and the data, stay the
 * same.
 *
 * In place, the new value must fit into the header, which may have spaces after its JSON. In a copy, the
 * header keeps its length if the value fits; else its length becomes the next multiple of eight.
 */
#include <stdlib.h>

#include "base/store.h"
#include "codec/json_scan.h"
#include "core/copy_pool.h"
#include "format/metadata.h"
#include "format/safetensors/safetensors.h"

#define PARSER_ROOM (256u << 10) /* for parsing a header */

/* The old header, and where __metadata__ is in it. */
struct old_header {
    char *text;
    uint64_t len;                  /* with the spaces after the JSON */
    size_t value_begin, value_end; /* of __metadata__; both 0: there is none */
    size_t pairs_begin;            /* offset after the { of the header */
    size_t object_end;             /* offset after the } of the header */
    bool has_tensors;              /* the header has keys other than __metadata__ */
};

static ckpt_status fail_changed(ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the header changed since it was read");
}

static ckpt_status find_metadata(struct old_header *header, json_scan *scan, ckpt_error *err)
{
    enum json_event e = json_next(scan);
    header->pairs_begin = scan->pos;
    while ((e = json_next(scan)) == JSON_KEY) {
        bool is_metadata = str_is(scan->str, "__metadata__");
        e = json_next(scan);
        header->has_tensors |= !is_metadata;
        if (is_metadata)
            header->value_begin = scan->event_at;
        if (json_skip(scan, e) != CKPT_OK)
            break;
        if (is_metadata)
            header->value_end = scan->pos;
    }
    header->object_end = scan->pos;
    return e == JSON_OBJECT_END ? CKPT_OK : fail_changed(err);
}

static ckpt_status read_header(ckpt_file *f, struct old_header *header, ckpt_error *err)
{
    unsigned char length[8];
    CKPT_TRY(source_read(f->src, 0, length, sizeof length, err));
    header->len = load_u64le(length);
    if (header->len > SAFETENSORS_MAX_HEADER)
        return fail_changed(err);
    header->text = malloc((size_t)header->len + 1);
    arena *a = arena_new(header->len + PARSER_ROOM);
    ckpt_status st = header->text && a ? source_read(f->src, 8, header->text, (size_t)header->len, err)
                                       : fail_memory(err);
    if (st == CKPT_OK) {
        json_scan j;
        json_init(&j, str_of(header->text, (size_t)header->len), 8, a, err);
        st = find_metadata(header, &j, err);
    }
    arena_free(a);
    return st;
}

static void write_header(buf *out, const struct old_header *header, const ckpt_pair *pairs, size_t count)
{
    bool has_metadata = header->value_end != 0;
    size_t unchanged_begin = has_metadata ? header->value_end : header->pairs_begin;
    buf_put(out, header->text, has_metadata ? header->value_begin : header->pairs_begin);
    if (!has_metadata)
        buf_put_cstr(out, "\"__metadata__\":");
    buf_byte(out, '{');
    for (size_t i = 0; i < count; i++)
        safetensors_put_pair(out, pairs[i].key, pairs[i].text, i == 0);
    buf_byte(out, '}');
    if (!has_metadata && header->has_tensors)
        buf_byte(out, ',');
    buf_put(out, header->text + unchanged_begin, header->object_end - unchanged_begin);
}

static ckpt_status make_header(ckpt_file *f, const ckpt_pair *pairs, size_t count, bool may_move, buf *out,
                               ckpt_error *err)
{
    struct old_header h = {0};
    for (size_t i = 0; i < count; i++)
        CKPT_TRY(metadata_check_text(&pairs[i], err));
    ckpt_status st = read_header(f, &h, err);
    if (st == CKPT_OK) {
        write_header(out, &h, pairs, count);
        st = safetensors_pad_header(out, h.len, may_move, err);
    }
    free(h.text);
    return st;
}

static ckpt_status write_all(ckpt_file *f, const buf *header, sink *out, const ckpt_write_options *options,
                             ckpt_error *err)
{
    unsigned char length[8];
    uint64_t data_begin, size;
    CKPT_TRY(source_read(f->src, 0, length, sizeof length, err));
    data_begin = 8 + load_u64le(length); /* make_header read the header from the file */
    store_u64le(length, header->len);
    CKPT_TRY(checked_add(8 + (uint64_t)header->len, f->src->size - data_begin, &size)
                 ? sink_reserve(out, size, err)
                 : fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "more than 2^64 bytes"));
    CKPT_TRY(sink_write(out, length, sizeof length, err));
    CKPT_TRY(sink_write(out, header->data, header->len, err));
    return copy_file_tail(f, data_begin, out, options, err);
}

static ckpt_status write_copy(ckpt_file *f, const buf *header, const char *path,
                              const ckpt_write_options *options, ckpt_error *err)
{
    const struct sink_options sink_opts = {
        .force = options->force, .no_sync = options->no_sync, .notice = notices_add, .user = &f->notices};
    sink *out;
    if (options->dry_run)
        return CKPT_OK;
    CKPT_TRY(sink_file(path, &sink_opts, &out, err));
    return sink_end(out, write_all(f, header, out, options, err), err);
}

ckpt_status safetensors_write_metadata(ckpt_file *f, struct metadata_job *job, ckpt_error *err)
{
    buf_init(&job->header, SAFETENSORS_MAX_HEADER);
    job->at = 8;
    CKPT_TRY(make_header(f, job->pairs, job->n, job->path != NULL, &job->header, err));
    job->length = job->header.len;
    return job->path ? write_copy(f, &job->header, job->path, job->opts, err) : CKPT_OK;
}
