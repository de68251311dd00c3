/*
 * npy.c - numpy's .npy, as codec/npy reads it. Its header is an expression, in which 'O' can be spelled in
 * many ways; so only a simple one is taken at its word, and its elements must fill the file; after any other,
 * what runs as a pickle is followed as one.
 */
#include "codec/npy.h"

#include <inttypes.h>

#include "scan/scan.h"

static ckpt_status told(bool go) { return go ? CKPT_OK : CKPT_ECANCELLED; }

/* scan_elements - those of A, and nothing else. */
static ckpt_status scan_elements(struct scanner *x, source *src, ckpt_str where, const struct npy *a,
                                 uint64_t *known, ckpt_error *err)
{
    uint64_t left = src->size - a->data, size = a->nbytes; /* bounded: the header lies in the source */
    scan_known(src, &x->s->result->in_tensors, size < left ? size : left);
    if (size >= left) {
        *known += src->size; /* bounded: once */
        return size == left
                   ? CKPT_OK
                   : told(scan_found(x->s, SCAN_FMT002, where, src, a->data,
                                     "the elements need {=%" PRIu64 " bytes}, the file has {%" PRIu64 "}",
                                     size, left));
    }
    uint64_t end = a->data + size; /* bounded: less than left */
    *known += end;                 /* bounded: once */
    if (!scan_found(x->s, SCAN_FMT002, where, src, end, "{%" PRIu64 " bytes} follow {=the elements}",
                    src->size - end))
        return CKPT_ECANCELLED;
    return x->depth < x->s->opts->max_depth ? scan_stray(x, src, where, end, src->size, err) : CKPT_OK;
}

ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    struct npy a;
    ckpt_error why;
    source *rest;
    x->format = x->depth ? x->format : "npy";
    ckpt_status st = npy_read(src, x->a, &a, &why);
    if (st == CKPT_EFORMAT)
        return told(scan_found_error(x->s, SCAN_FMT002, where, (struct scan_place){src, 8}, &why));
    if (st != CKPT_OK) {
        *err = why;
        return st;
    }
    if (a.simple)
        return scan_elements(x, src, where, &a, known, err);
    if (!scan_is_pickle(x, src, a.data, src->size, true)) {
        *known += src->size; /* bounded: once */
        return CKPT_OK;
    }
    CKPT_TRY(source_slice(src, a.data, src->size - a.data, &rest, err));
    st = scan_pickles(x, rest, where, known, err);
    *known += a.data; /* bounded: inside the source */
    source_unref(rest);
    return st;
}
