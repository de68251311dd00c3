/*
 * npy.c - scans numpy's .npy, as codec/npy reads it. The data are a pickle if the dtype is that of objects,
 * 'O', which can be written in many ways in the header, a Python expression. So only a simple header is
 * trusted, and its elements must fill the file; after any other header, the data are scanned as a pickle if
 * they run as one.
 *
 * A file may hold several arrays, one after the other: each numpy.load of the open file reads the next one.
 * Equinox writes such files, usually with a line of JSON before the first array.
 */
#include "codec/npy.h"

#include <inttypes.h>

#include "io/reader.h"
#include "scan/scan.h"

/* One array of the file. */
struct array_scan {
    struct scanned in;    /* the array and all that follows it */
    uint64_t known_bytes; /* how many of these bytes have a known purpose */
    uint64_t end;         /* of the elements, after which the next array may begin */
};

/* scan_elements - accounts for NBYTES of elements at DATA_OFFSET. */
static ckpt_status scan_elements(struct array_scan *as, uint64_t data_offset, uint64_t nbytes)
{
    uint64_t left = as->in.src->size - data_offset;
    uint64_t size = nbytes < left ? nbytes : left;
    scan_count_bytes(as->in.src, &as->in.x->scan->result->in_tensors, size);
    as->known_bytes = as->end = data_offset + size;
    return nbytes <= left ? CKPT_OK
                          : SCAN_FOUND(&as->in, SCAN_MALFORMED, data_offset,
                                       "the elements need {=%" PRIu64 " bytes}, the file has {%" PRIu64 "}",
                                       nbytes, left);
}

/* scan_objects - scans the pickle at DATA_OFFSET and all that follows it. */
static ckpt_status scan_objects(struct array_scan *as, uint64_t data_offset, ckpt_error *err)
{
    struct scanned data = as->in;
    uint64_t left = as->in.src->size - data_offset;
    CKPT_TRY(source_slice(as->in.src, data_offset, left, &data.src, err));
    ckpt_status st = scan_pickles(&data, &as->known_bytes, err);
    source_unref(data.src);
    as->known_bytes += data_offset;
    return st;
}

static ckpt_status scan_array(struct array_scan *as, ckpt_error *err)
{
    struct scanner *x = as->in.x;
    source *src = as->in.src;
    struct npy simple;
    struct npy_array array;
    ckpt_error why;
    as->known_bytes = 0;
    as->end = src->size;
    ckpt_status st = npy_read(src, x->a, &simple, &why);
    if (st != CKPT_OK)
        return scan_report_read_error(&as->in, 8, &why, err);
    if (simple.is_simple)
        return scan_elements(as, simple.data_offset, simple.nbytes);
    if (scan_is_pickle(x, src, simple.data_offset, src->size, true))
        return scan_objects(as, simple.data_offset, err);
    st = npy_read_array(src, 0, x->a, &array, &why);
    (void)scan_note_system_failure(x->scan, st, &why);
    if (st == CKPT_OK && !array.holds_objects)
        return scan_elements(as, array.data_offset, array.nbytes);
    as->known_bytes = src->size;
    return CKPT_OK;
}

static bool has_array_at(struct scanner *scanner, source *src, uint64_t at)
{
    unsigned char head[12]; /* magic, version, length of the header */
    return src->size - at >= sizeof head && scan_read(scanner->scan, src, at, head, sizeof head) &&
           memcmp(head, NPY_MAGIC, NPY_MAGIC_SIZE) == 0;
}

/* scan_after_arrays - scans the bytes from AT on, which are no array. */
static ckpt_status scan_after_arrays(const struct scanned *in, uint64_t at, ckpt_error *err)
{
    CKPT_TRY(
        SCAN_FOUND(in, SCAN_MALFORMED, at, "{%" PRIu64 " bytes} follow {=the elements}", in->src->size - at));
    return in->x->depth < in->x->scan->opts->max_depth ? scan_stray_bytes(in, at, in->src->size, err)
                                                       : CKPT_OK;
}

/* scan_arrays_from - scans the arrays of IN, the first of which begins at AT. */
static ckpt_status scan_arrays_from(const struct scanned *in, uint64_t at, uint64_t *known_bytes,
                                    ckpt_error *err)
{
    do {
        struct array_scan as = {.in = *in};
        uint64_t left = in->src->size - at;
        if (at)
            CKPT_TRY(scan_join_offset(in, "array", at, &as.in.where, err));
        CKPT_TRY(source_slice(in->src, at, left, &as.in.src, err));
        ckpt_status st = scan_array(&as, err);
        source_unref(as.in.src);
        if (st != CKPT_OK)
            return st;
        *known_bytes += as.known_bytes; /* the sum is at most the size of the file */
        at += as.end;
    } while (at < in->src->size && has_array_at(in->x, in->src, at));
    return at < in->src->size ? scan_after_arrays(in, at, err) : CKPT_OK;
}

ckpt_status scan_npy(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    in->x->format = in->x->depth ? in->x->format : "npy";
    return scan_arrays_from(in, 0, known_bytes, err);
}

ckpt_status scan_arrays_after_line(const struct scanned *in, bool *found, uint64_t *known_bytes,
                                   ckpt_error *err)
{
    struct scanner *x = in->x;
    reader r;
    *found = false;
    CKPT_TRY(reader_init(&r, in->src, 0, in->src->size, err));
    size_t window_size = in->src->size < READER_WINDOW ? (size_t)in->src->size : READER_WINDOW;
    const unsigned char *window = reader_peek(&r, window_size);
    const unsigned char *newline = window && window[0] == '{' ? memchr(window, '\n', window_size) : NULL;
    uint64_t length = newline ? (uint64_t)(newline - window) + 1 : 0;
    ckpt_status st = r.status;
    reader_free(&r);
    if (st != CKPT_OK || !length || !has_array_at(x, in->src, length))
        return st;
    struct scanned line = *in;
    CKPT_TRY(source_slice(in->src, 0, length, &line.src, err));
    *found = true;
    x->format = x->depth ? x->format : "npy";
    st = scan_text(&line, known_bytes, err);
    source_unref(line.src);
    return st == CKPT_OK ? scan_arrays_from(in, length, known_bytes, err) : st;
}
