/*
 * npy.c - numpy's .npy (numpy/lib/format.py):
 *   0  6  93 "NUMPY"        6  2  version
 *   8  2  length of the header; 4 bytes from version 2 on
 *   …     the header: a Python dict with descr, fortran_order, shape
 *   …     the elements; of arrays of objects, one pickle instead
 *
 * The header is an expression, in which 'O' can be spelled in many ways ("object", '\x4f',
 * a second 'descr'). So only the plainest header, one simple type and a shape, is taken
 * at its word, and its elements must fill the file; behind any other, what runs as a
 * pickle is followed as one.
 */
#include <inttypes.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "scan/scan.h"

#define LONGEST 65536u

static bool number(ckpt_str *t, uint64_t *n)
{
    size_t digits = 0;
    for (*n = 0; t->len && t->ptr[0] >= '0' && t->ptr[0] <= '9'; *t = str_skip(*t, 1), digits++)
        if (!checked_mul(*n, 10, n) || !checked_add(*n, (uint64_t)(t->ptr[0] - '0'), n))
            return false;
    return digits > 0;
}

static bool past(ckpt_str *t, const char *text)
{
    size_t n = strlen(text);
    if (t->len < n || memcmp(t->ptr, text, n) != 0)
        return false;
    *t = str_skip(*t, n);
    return true;
}

/* item_size - of a type as '<f4' has it. */
static bool item_size(ckpt_str *t, uint64_t *size)
{
    if (t->len && strchr("<>|=", t->ptr[0]))
        *t = str_skip(*t, 1);
    if (!t->len || !t->ptr[0] || !strchr("?biufcSUVmM", t->ptr[0]))
        return false;
    bool wide = t->ptr[0] == 'U';
    *t = str_skip(*t, 1);
    if (!number(t, size))
        return false;
    if (past(t, "["))
        while (t->len && t->ptr[0] != ']' && t->ptr[0] != '\'')
            *t = str_skip(*t, 1);
    (void)past(t, "]");
    return !wide || checked_mul(*size, 4, size);
}

/* plain - the header as numpy writes it for one simple type: the bytes of its elements in *SIZE. */
static bool plain(ckpt_str t, uint64_t *size)
{
    uint64_t n;
    if (!past(&t, "{'descr': '") || !item_size(&t, size) || !past(&t, "', 'fortran_order': ") ||
        !(past(&t, "False") || past(&t, "True")) || !past(&t, ", 'shape': ("))
        return false;
    while (number(&t, &n)) {
        if (!checked_mul(*size, n, size))
            *size = UINT64_MAX;
        (void)(past(&t, ", ") || past(&t, ","));
    }
    if (!past(&t, "), }") && !past(&t, ")}"))
        return false;
    while (past(&t, " "))
        ;
    return past(&t, "\n") && t.len == 0;
}

static ckpt_status told(bool go) { return go ? CKPT_OK : CKPT_ECANCELLED; }

/* numbers - SIZE bytes of elements from BEFORE on, and nothing else. */
static ckpt_status numbers(struct scanner *x, source *src, ckpt_str where, uint64_t before, uint64_t size,
                           uint64_t *known, ckpt_error *err)
{
    uint64_t left = src->size - before; /* bounded: the header lies in the source */
    scan_known(src, &x->s->result->in_tensors, size < left ? size : left);
    if (size >= left) {
        *known += src->size; /* bounded: once */
        return size == left ? CKPT_OK
                            : told(scan_found(x->s, SCAN_FMT002, where, src, before,
                                              "the elements need %" PRIu64 " bytes, the file has %" PRIu64,
                                              size, left));
    }
    before += size;   /* bounded: less than left */
    *known += before; /* bounded: once */
    if (!scan_found(x->s, SCAN_FMT002, where, src, before, "%" PRIu64 " bytes follow the elements",
                    src->size - before))
        return CKPT_ECANCELLED;
    return x->depth < x->s->opts->max_depth ? scan_stray(x, src, where, before, src->size, err) : CKPT_OK;
}

ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    unsigned char head[12];
    char text[LONGEST];
    source *rest;
    x->format = x->depth ? x->format : "npy";
    CKPT_TRY(source_read(src, 0, head, sizeof head, err));
    uint64_t before = head[6] < 2 ? 10 : 12, n = head[6] < 2 ? load_u16le(head + 8) : load_u32le(head + 8);
    uint64_t size = 0;
    if (n > LONGEST || n > src->size - before)
        return told(scan_found(x->s, SCAN_FMT002, where, src, 8,
                               "a header of %" PRIu64 " bytes, the file has %" PRIu64 "; numpy reads 10000",
                               n, src->size - before));
    CKPT_TRY(source_read(src, before, text, (size_t)n, err));
    before += n; /* bounded: inside the source */
    if (plain(str_of(text, (size_t)n), &size))
        return numbers(x, src, where, before, size, known, err);
    if (!scan_is_pickle(x, src, before, src->size, true)) {
        *known += src->size; /* bounded: once */
        return CKPT_OK;
    }
    CKPT_TRY(source_slice(src, before, src->size - before, &rest, err));
    ckpt_status st = scan_pickles(x, rest, where, known, err);
    *known += before; /* bounded: inside the source */
    source_unref(rest);
    return st;
}
