/* tensor.c - see tensor.h. Errors name the tensor and its file. */
#include "core/tensor.h"

#include <stdlib.h>

#include "core/convert.h"

struct stream_options tensor_stream_options(ckpt_file *f)
{
    return (struct stream_options){.ignore_crc = f->ignore_crc, .notice = file_notice, .user = f};
}

ckpt_status name_tensor_if_failed(const ckpt_file *f, uint32_t index, ckpt_status st, ckpt_error *err)
{
    error_add_where(st == CKPT_OK ? NULL : err, "%.*s", STR_ARG(table_name(&f->table, index)));
    return name_file_if_failed(st, f->path, err);
}

bool ckpt_tensor_is_unread(const ckpt_tensor *tensor)
{
    /* the contents of a composite are in its components, which are rows of their own */
    bool is_composite = tensor && tensor->kind >= CKPT_SPARSE_COO && tensor->kind <= CKPT_WRAPPER;
    if (!tensor || tensor->has_data || is_composite || (tensor->has_shape && !tensor->elements))
        return false;
    bool is_null_dataspace = tensor->kind == CKPT_DENSE && !tensor->has_shape; /* of HDF5: no elements */
    bool is_array_of_values = tensor->kind == CKPT_NDARRAY && tensor->value;
    return !is_null_dataspace && !is_array_of_values;
}

uint64_t ckpt_file_count_unread(const ckpt_file *file, uint32_t *first)
{
    uint64_t n = 0;
    if (first)
        *first = CKPT_NO_TENSOR;
    for (uint32_t i = 0; file && i < file->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&file->table, i);
        if (ckpt_tensor_is_unread(&t) && n++ == 0 && first)
            *first = i;
    }
    return n;
}

/* check_has_data - fails unless tensor INDEX exists and has bytes of its own. */
static ckpt_status check_has_data(ckpt_file *f, uint32_t index, ckpt_error *err)
{
    if (index >= f->table.nrows)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "there is no tensor %u; the file has %zu", index,
                    f->table.nrows);
    const ckpt_tensor t = table_tensor(&f->table, index);
    if (t.has_data)
        return CKPT_OK;
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a %s tensor has no bytes of its own%s",
               ckpt_kind_name((ckpt_kind)t.kind),
               t.kind == CKPT_META || t.kind == CKPT_UNINITIALIZED ? " in any file"
                                                                   : "; its parts are other tensors");
    return name_tensor_if_failed(f, index, CKPT_ELOSSY, err);
}

ckpt_status ckpt_tensor_read(ckpt_file *file, uint32_t index, uint64_t first, uint64_t count, void *out,
                             ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, file && (out || !count));
    CKPT_TRY(check_has_data(file, index, err));
    ckpt_status st = file_status_after_read(file, stream_read(&file->table, index, first, count, out, err),
                                            err);
    return name_tensor_if_failed(file, index, st, err);
}

#define CONVERTED_AT_ONCE 4096u /* elements; a multiple of block_elems of each dtype */

/* Room for elements before and after conversion. */
struct conversion_buffers {
    unsigned char in[CONVERTED_AT_ONCE * 8], out[CONVERTED_AT_ONCE * 8];
};

/* read_converted - reads COUNT elements of tensor INDEX from FIRST on and converts them by JOB. */
static ckpt_status read_converted(ckpt_file *f, uint32_t index, const struct conversion *job, uint64_t first,
                                  uint64_t count, unsigned char *out, ckpt_error *err)
{
    struct convert_tally ignored = {0};
    struct conversion_buffers *b = count ? malloc(sizeof *b) : NULL;
    ckpt_status st = b || !count ? CKPT_OK : fail_memory(err);
    uint64_t units = job->in_elems > 1 ? job->in_width : 1; /* in a block, as stream_read counts them */
    while (st == CKPT_OK && count) {
        uint64_t block = first / job->in_elems, skip = first % job->in_elems;
        uint64_t n = CONVERTED_AT_ONCE - skip < count ? CONVERTED_AT_ONCE - skip : count;
        uint64_t blocks = (skip + n + job->in_elems - 1) / job->in_elems;
        st = stream_read(&f->table, index, block * units, blocks * units, b->in, err);
        if (st != CKPT_OK)
            break;
        convert_run(job, b->in, (size_t)(blocks * job->in_elems), b->out, &ignored);
        memcpy(out, b->out + skip * job->out_width, (size_t)(n * job->out_width));
        out += n * job->out_width;
        first += n;
        count -= n;
    }
    free(b);
    return st;
}

ckpt_status ckpt_tensor_read_as(ckpt_file *file, uint32_t index, ckpt_dtype dtype, uint64_t first,
                                uint64_t count, void *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct conversion c;
    CKPT_REQUIRE(err, file && (out || !count) && (!dtype || *ckpt_dtype_name(dtype)));
    CKPT_TRY(check_has_data(file, index, err));
    const ckpt_tensor t = table_tensor(&file->table, index);
    ckpt_status st;
    if (!conversion_init(&c, (ckpt_dtype)t.dtype, dtype))
        st = fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "%s cannot become %s", ckpt_tensor_dtype_name(&t),
                  dtype ? ckpt_dtype_name(dtype) : "an unknown type");
    else if (!range_within(first, count, t.elements))
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                  "{%llu elements from element %llu on} are requested; the tensor has {=%llu}",
                  (unsigned long long)count, (unsigned long long)first, (unsigned long long)t.elements);
    else
        st = file_status_after_read(file, read_converted(file, index, &c, first, count, out, err), err);
    return name_tensor_if_failed(file, index, st, err);
}

ckpt_status ckpt_tensor_borrow(ckpt_file *file, uint32_t index, const void **bytes, size_t *nbytes,
                               ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    if (bytes)
        *bytes = NULL;
    if (nbytes)
        *nbytes = 0;
    CKPT_REQUIRE(err, file && bytes && nbytes);
    CKPT_TRY(check_has_data(file, index, err));
    ckpt_status st = file_status_after_read(file, stream_borrow(&file->table, index, bytes, nbytes, err),
                                            err);
    if (st == CKPT_OK)
        return st;
    *bytes = NULL;
    *nbytes = 0;
    if (st == CKPT_EUNSUPPORTED)
        error_add_hint(err, "ckpt_tensor_read copies it");
    return name_tensor_if_failed(file, index, st, err);
}

/* pass_chunks - passes all bytes of IN, of which there are at most NBYTES, to TAKE. */
static ckpt_status pass_chunks(stream *in, uint64_t nbytes,
                               int (*take)(void *user, const void *bytes, size_t n), void *user,
                               ckpt_error *err)
{
    /* below STREAM_CHUNK + STREAM_BLOCK_MAX */
    size_t cap = nbytes < STREAM_CHUNK ? (size_t)nbytes + STREAM_BLOCK_MAX : STREAM_CHUNK, got = 1;
    unsigned char *chunk = malloc(cap);
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    while (st == CKPT_OK && got) {
        st = stream_next(in, chunk, cap, &got, err);
        if (st == CKPT_OK && got && take(user, chunk, got))
            st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
    }
    free(chunk);
    return st;
}

ckpt_status ckpt_tensor_stream(ckpt_file *file, uint32_t index,
                               int (*take)(void *user, const void *bytes, size_t n), void *user,
                               ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    stream *s = NULL;
    CKPT_REQUIRE(err, file && take);
    struct stream_options o = tensor_stream_options(file);
    CKPT_TRY(check_has_data(file, index, err));
    ckpt_status st = stream_open(&file->table, index, &o, &s, err);
    CKPT_THEN(st, pass_chunks(s, table_tensor(&file->table, index).nbytes, take, user, err));
    stream_close(s);
    return name_tensor_if_failed(file, index, st, err);
}

ckpt_status tensor_stream_range(ckpt_file *f, uint32_t index, uint64_t first, uint64_t count, uint32_t *crc,
                                int (*take)(void *user, const void *bytes, size_t n), void *user,
                                ckpt_error *err)
{
    stream *s = NULL;
    ckpt_status st = stream_open_range(&f->table, index, first, count, NULL, &s, err);
    CKPT_THEN(st, pass_chunks(s, table_tensor(&f->table, index).nbytes, take, user, err));
    if (st == CKPT_OK)
        *crc = stream_crc(s);
    stream_close(s);
    return name_tensor_if_failed(f, index, st, err);
}
