/*
 * npy.c - scans numpy's .npy, as codec/npy reads it. The data are a pickle if the dtype is that of objects,
 * 'O', which can be written in many ways in the header, a Python expression. So only a simple header is
 * trusted, and its elements must fill the file; after any other header, the data are scanned as a pickle if
 * they run as one.
 */
#include "codec/npy.h"

#include <inttypes.h>

#include "scan/scan.h"

/* scan_elements - accounts for the elements of A, and scans what follows them. */
static ckpt_status scan_elements(struct scanner *x, source *src, ckpt_str where, const struct npy *a,
                                 uint64_t *known_bytes, ckpt_error *err)
{
    uint64_t left = src->size - a->data_offset; /* bounded: the header is inside the source */
    uint64_t size = a->nbytes;
    scan_count_bytes(src, &x->scan->result->in_tensors, size < left ? size : left);
    if (size >= left) {
        *known_bytes += src->size; /* bounded: the sum is at most the size of the file */
        return size == left ? CKPT_OK
                            : scan_found(x->scan, SCAN_MALFORMED, where, src, a->data_offset,
                                         "the elements need {=%" PRIu64 " bytes}, the file has {%" PRIu64 "}",
                                         size, left);
    }
    uint64_t end = a->data_offset + size; /* bounded: less than left */
    *known_bytes += end;           /* bounded: the sum is at most the size of the file */
    CKPT_TRY(scan_found(x->scan, SCAN_MALFORMED, where, src, end,
                        "{%" PRIu64 " bytes} follow {=the elements}", src->size - end));
    return x->depth < x->scan->opts->max_depth ? scan_stray_bytes(x, src, where, end, src->size, err)
                                               : CKPT_OK;
}

ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *known_bytes, ckpt_error *err)
{
    struct npy a;
    ckpt_error why;
    source *data;
    x->format = x->depth ? x->format : "npy";
    ckpt_status st = npy_read(src, x->a, &a, &why);
    if (st != CKPT_OK)
        return scan_report_read_error(x, (struct scan_place){src, 8}, where, &why, err);
    if (a.is_simple)
        return scan_elements(x, src, where, &a, known_bytes, err);
    if (!scan_is_pickle(x, src, a.data_offset, src->size, true)) {
        *known_bytes += src->size; /* bounded: the sum is at most the size of the file */
        return CKPT_OK;
    }
    CKPT_TRY(source_slice(src, a.data_offset, src->size - a.data_offset, &data, err));
    st = scan_pickles(x, data, where, known_bytes, err);
    *known_bytes += a.data_offset; /* bounded: inside the source */
    source_unref(data);
    return st;
}
