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
    source *src; /* the array and all that follows it */
    ckpt_str where;
    uint64_t known_bytes; /* how many bytes of SRC have a known purpose */
    uint64_t end;         /* of the elements, after which the next array may begin */
};

/* scan_elements - accounts for NBYTES of elements at DATA_OFFSET. */
static ckpt_status scan_elements(struct scanner *x, struct array_scan *as, uint64_t data_offset,
                                 uint64_t nbytes)
{
    uint64_t left = as->src->size - data_offset; /* bounded: the header is inside the source */
    uint64_t size = nbytes < left ? nbytes : left;
    scan_count_bytes(as->src, &x->scan->result->in_tensors, size);
    as->known_bytes = as->end = data_offset + size; /* bounded: size is at most what is left */
    return nbytes <= left ? CKPT_OK
                          : scan_found(x->scan, SCAN_MALFORMED, as->where, as->src, data_offset,
                                       "the elements need {=%" PRIu64 " bytes}, the file has {%" PRIu64 "}",
                                       nbytes, left);
}

/* scan_objects - scans the pickle at DATA_OFFSET and all that follows it. */
static ckpt_status scan_objects(struct scanner *x, struct array_scan *as, uint64_t data_offset,
                                ckpt_error *err)
{
    source *data;
    CKPT_TRY(
        source_slice(as->src, data_offset, as->src->size - data_offset, &data, err)); /* bounded: inside */
    ckpt_status st = scan_pickles(x, data, as->where, &as->known_bytes, err);
    source_unref(data);
    as->known_bytes += data_offset; /* bounded: inside the source */
    return st;
}

static ckpt_status scan_array(struct scanner *x, struct array_scan *as, ckpt_error *err)
{
    struct npy simple;
    struct npy_array array;
    ckpt_error why;
    as->known_bytes = 0;
    as->end = as->src->size;
    ckpt_status st = npy_read(as->src, x->a, &simple, &why);
    if (st != CKPT_OK)
        return scan_report_read_error(x, (struct scan_place){as->src, 8}, as->where, &why, err);
    if (simple.is_simple)
        return scan_elements(x, as, simple.data_offset, simple.nbytes);
    if (scan_is_pickle(x, as->src, simple.data_offset, as->src->size, true))
        return scan_objects(x, as, simple.data_offset, err);
    st = npy_read_array(as->src, 0, x->a, &array, &why);
    (void)scan_note_system_failure(x->scan, st, &why);
    if (st == CKPT_OK && !array.holds_objects)
        return scan_elements(x, as, array.data_offset, array.nbytes);
    as->known_bytes = as->src->size;
    return CKPT_OK;
}

static bool has_array_at(struct scanner *x, source *src, uint64_t at)
{
    unsigned char head[12]; /* magic, version, length of the header */
    return src->size - at >= sizeof head &&
           scan_read(x->scan, src, at, head, sizeof head) && /* bounded: inside */
           memcmp(head, NPY_MAGIC, NPY_MAGIC_SIZE) == 0;
}

/* scan_after_arrays - scans the bytes from AT on, which are no array. */
static ckpt_status scan_after_arrays(struct scanner *x, source *src, ckpt_str where, uint64_t at,
                                     ckpt_error *err)
{
    CKPT_TRY(scan_found(x->scan, SCAN_MALFORMED, where, src, at, "{%" PRIu64 " bytes} follow {=the elements}",
                        src->size - at)); /* bounded: inside the source */
    return x->depth < x->scan->opts->max_depth ? scan_stray_bytes(x, src, where, at, src->size, err)
                                               : CKPT_OK;
}

/* scan_arrays_from - scans the arrays of SRC, the first of which begins at AT. */
static ckpt_status scan_arrays_from(struct scanner *x, source *src, ckpt_str where, uint64_t at,
                                    uint64_t *known_bytes, ckpt_error *err)
{
    do {
        struct array_scan as = {.where = where};
        if (at)
            CKPT_TRY(scan_join_names(x, where, arena_printf(x->a, "array@0x%" PRIx64, at), &as.where, err));
        CKPT_TRY(source_slice(src, at, src->size - at, &as.src, err)); /* bounded: inside the source */
        ckpt_status st = scan_array(x, &as, err);
        source_unref(as.src);
        if (st != CKPT_OK)
            return st;
        *known_bytes += as.known_bytes; /* bounded: the sum is at most the size of the file */
        at += as.end;                   /* bounded: inside the source */
    } while (at < src->size && has_array_at(x, src, at));
    return at < src->size ? scan_after_arrays(x, src, where, at, err) : CKPT_OK;
}

ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *known_bytes, ckpt_error *err)
{
    x->format = x->depth ? x->format : "npy";
    return scan_arrays_from(x, src, where, 0, known_bytes, err);
}

ckpt_status scan_arrays_after_line(struct scanner *x, source *src, ckpt_str where, bool *found,
                                   uint64_t *known_bytes, ckpt_error *err)
{
    reader r;
    *found = false;
    CKPT_TRY(reader_init(&r, src, 0, src->size, err));
    size_t window_size = src->size < READER_WINDOW ? (size_t)src->size : READER_WINDOW;
    const unsigned char *window = reader_peek(&r, window_size);
    const unsigned char *newline = window && window[0] == '{' ? memchr(window, '\n', window_size) : NULL;
    uint64_t length = newline ? (uint64_t)(newline - window) + 1 : 0;
    ckpt_status st = r.status;
    reader_free(&r);
    if (st != CKPT_OK || !length || !has_array_at(x, src, length))
        return st;
    source *line;
    CKPT_TRY(source_slice(src, 0, length, &line, err));
    *found = true;
    x->format = x->depth ? x->format : "npy";
    st = scan_text(x, line, where, known_bytes, err);
    source_unref(line);
    return st == CKPT_OK ? scan_arrays_from(x, src, where, length, known_bytes, err) : st;
}
