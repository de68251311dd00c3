/*
 * npy.c - the header of numpy's .npy (numpy/lib/format.py):
 *   0  6  93 "NUMPY"        6  2  version
 *   8  2  length of the header; 4 bytes from version 2 on
 *   …     the header: a Python dict with descr, fortran_order, shape
 *   …     the elements; of arrays of objects, one pickle instead
 *
 * The header is an expression, which numpy evaluates. Only the form that numpy itself writes is read here.
 */
#include "codec/npy.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/cursor.h"

#define LONGEST 65536u

static bool take_number(ckpt_str *t, uint64_t *n)
{
    size_t digits = 0;
    for (*n = 0; t->len && t->ptr[0] >= '0' && t->ptr[0] <= '9'; *t = str_skip(*t, 1), digits++)
        if (!checked_mul(*n, 10, n) || !checked_add(*n, (uint64_t)(t->ptr[0] - '0'), n))
            return false;
    return digits > 0;
}

static bool take(ckpt_str *t, const char *text)
{
    if (!str_starts(*t, str_c(text)))
        return false;
    *t = str_skip(*t, strlen(text));
    return true;
}

/* take_type - the bytes of an element of a type such as '<f4'. */
static bool take_type(ckpt_str *t, uint64_t *size)
{
    if (t->len && strchr("<>|=", t->ptr[0]))
        *t = str_skip(*t, 1);
    if (!t->len || !t->ptr[0] || !strchr("?biufcSUVmM", t->ptr[0]))
        return false;
    bool wide = t->ptr[0] == 'U';
    *t = str_skip(*t, 1);
    if (!take_number(t, size))
        return false;
    if (take(t, "["))
        while (t->len && t->ptr[0] != ']' && t->ptr[0] != '\'')
            *t = str_skip(*t, 1);
    (void)take(t, "]");
    return !wide || checked_mul(*size, 4, size);
}

/* take_shape - up to the bracket; of the bytes of one element in X->nbytes it makes those of all. */
static bool take_shape(ckpt_str *t, struct npy *x)
{
    uint64_t n;
    while (take_number(t, &n)) {
        if (x->ndim == NPY_DIMENSIONS)
            return false;
        x->shape[x->ndim++] = n;
        if (!checked_mul(x->nbytes, n, &x->nbytes))
            x->nbytes = UINT64_MAX;
        (void)(take(t, ", ") || take(t, ","));
    }
    return take(t, "), }") || take(t, ")}");
}

/* is_simple - is T the header of one simple type? Then it is in X. */
static bool is_simple(ckpt_str t, struct npy *x)
{
    if (!take(&t, "{'descr': '"))
        return false;
    x->descr = t;
    if (!take_type(&t, &x->nbytes))
        return false;
    x->descr.len -= t.len; /* bounded: what was taken of it */
    if (!take(&t, "', 'fortran_order': "))
        return false;
    x->fortran_order = take(&t, "True");
    if (!(x->fortran_order || take(&t, "False")) || !take(&t, ", 'shape': (") || !take_shape(&t, x))
        return false;
    while (take(&t, " "))
        ;
    return take(&t, "\n") && t.len == 0;
}

ckpt_status npy_read(source *src, arena *a, struct npy *out, ckpt_error *err)
{
    unsigned char head[12];
    *out = (struct npy){.version = 0};
    CKPT_TRY(source_read(src, 0, head, sizeof head, err));
    out->version = head[6];
    uint64_t before = head[6] < 2 ? 10 : 12, n = head[6] < 2 ? load_u16le(head + 8) : load_u32le(head + 8);
    if (n > LONGEST || n > src->size - before) /* bounded: it has 12 bytes */
        return fail(err, CKPT_EFORMAT, source_pos(src, 8),
                    "a header of {%" PRIu64 " bytes}, the file has {=%" PRIu64 "}; numpy reads 10000", n,
                    src->size - before);
    char *text = arena_alloc(a, (size_t)n + 1); /* bounded: 64 KiB */
    if (!text)
        return fail_memory(err);
    CKPT_TRY(source_read(src, before, text, (size_t)n, err));
    out->data = before + n; /* bounded: inside the source */
    struct npy x = *out;
    if (is_simple(str_of(text, (size_t)n), &x)) {
        *out = x;
        out->simple = true;
    }
    return CKPT_OK;
}
