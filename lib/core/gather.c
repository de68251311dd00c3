/* gather.c - see gather.h.
 *
 * A block is a box of the output: fixed indexes of the outer dimensions, some of
 * one dimension and all of those inside it. Its elements are fetched in the
 * order in which the storage has them. The dimensions of the smallest strides
 * form a piece that is read in one go, gaps included, as long as it fits the
 * window and no gap costs more than a second read would; within the window the
 * elements then are put where the output wants them.
 *
 * The view was held against its storage before, so the largest index times the
 * width fits 64 bits, and with it every sum and product of indexes below. */
#include "core/gather.h"

#include <stdlib.h>

#include "base/checked.h"

#define WINDOW  ((size_t)256 * 1024)
#define GAP     1024u /* bytes that are read about as fast as a system call is made */
#define AT_ONCE 32u   /* bytes that one memcpy copies faster than a loop over elements */

bool gather_init(struct gather *g, const ckpt_tensor *t)
{
    *g = (struct gather){0};
    uint64_t out = 1;
    for (uint32_t k = 0; k < t->ndim && t->elements; k++) {
        uint64_t n = t->shape[k], span;
        if (n == 1)
            continue;
        struct gather_dim *last = g->ndim ? &g->dim[g->ndim - 1] : NULL;
        uint64_t stride = t->stride ? t->stride[k] : 0;
        if (last && t->stride && checked_mul(n, stride, &span) && last->stride == span) {
            last->stride = stride;
            if (!checked_mul(last->n, n, &last->n))
                return false;
            continue;
        }
        if (g->ndim == GATHER_DIMS)
            return false;
        g->dim[g->ndim++] = (struct gather_dim){n, stride, 0};
    }
    for (uint32_t k = g->ndim; k-- > 0;) {
        g->dim[k].out = out;
        if (!t->stride)
            g->dim[k].stride = out;
        if (!checked_mul(out, g->dim[k].n, &out))
            return false;
    }
    return true;
}

void gather_free(struct gather *g)
{
    free(g->window);
    g->window = NULL;
}

bool gather_is_run(const struct gather *g)
{
    for (uint32_t k = 0; k < g->ndim; k++)
        if (g->dim[k].stride != g->dim[k].out)
            return false;
    return true;
}

uint64_t gather_period(const struct gather *g)
{
    return g->ndim && g->dim[0].stride == 0 ? g->dim[0].out : 0;
}

size_t gather_block(const struct gather *g)
{
    /* Columns of a tall matrix: each piece that is read is as long as the block
     * has rows, so a larger block means fewer reads. */
    bool far = g->ndim && g->dim[g->ndim - 1].stride > GAP / g->width;
    return (size_t)(far ? 4 : 1) << 20;
}

/* copy_line - N elements of WIDTH bytes, FROM and TO bytes apart. */
static void copy_line(const unsigned char *in, size_t from, unsigned char *out, size_t to, uint64_t n,
                      size_t width)
{
#define LINE(w)                                                                                              \
    case w:                                                                                                  \
        for (; n; n--, in += from, out += to)                                                                \
            memcpy(out, in, w);                                                                              \
        return
    if (from == width && to == width) {
        memcpy(out, in, (size_t)n * width);
        return;
    }
    switch (width) {
        LINE(1);
        LINE(2);
        LINE(4);
        LINE(8);
        LINE(16);
        LINE(32);
        LINE(64);
    default:
        for (; n; n--, in += from, out += to)
            memcpy(out, in, width);
    }
#undef LINE
}

/* best_line - the longest dimension of the box; one whose elements are neighbours on both sides is copied at
 * once, so that it need not be long. */
static uint32_t best_line(const struct gather_dim *dim, uint32_t ndim, size_t width)
{
    uint32_t line = 0;
    for (uint32_t k = 0; k < ndim; k++) {
        if (dim[k].stride == 1 && dim[k].out == 1 && dim[k].n * width >= AT_ONCE)
            return k;
        if (dim[k].n > dim[line].n)
            line = k;
    }
    return line;
}

/* place - all elements of the box of NDIM >= 1 dimensions from IN to OUT. */
static void place(const struct gather_dim *dim, uint32_t ndim, const unsigned char *in, unsigned char *out,
                  size_t width)
{
    uint64_t index[GATHER_DIMS], from = 0, to = 0;
    uint32_t line = best_line(dim, ndim, width);
    for (uint32_t k = 0; k < ndim; k++)
        index[k] = 0;
    for (;;) {
        copy_line(in + from * width, (size_t)dim[line].stride * width, out + to * width,
                  (size_t)dim[line].out * width, dim[line].n, width);
        uint32_t k = 0;
        for (; k < ndim; k++) {
            if (k == line)
                continue;
            from += dim[k].stride;
            to += dim[k].out;
            if (++index[k] < dim[k].n)
                break;
            from -= dim[k].n * dim[k].stride;
            to -= dim[k].n * dim[k].out;
            index[k] = 0;
        }
        if (k == ndim)
            return;
    }
}

/* A box in storage order: dimensions by rising stride, the first `whole` of them
 * and `part` steps of the next are one piece of SPAN elements up to the part. */
struct box {
    struct gather_dim dim[GATHER_DIMS];
    uint32_t ndim, whole;
    uint64_t span, part;
};

static void box_add(struct box *b, struct gather_dim d)
{
    if (d.n == 1)
        return;
    uint32_t k = b->ndim++;
    for (; k && b->dim[k - 1].stride > d.stride; k--)
        b->dim[k] = b->dim[k - 1];
    b->dim[k] = d;
}

static void box_split(struct box *b, size_t width)
{
    uint64_t most = WINDOW / width;
    b->span = b->part = 1;
    for (b->whole = 0; b->whole < b->ndim; b->whole++) {
        const struct gather_dim *d = &b->dim[b->whole];
        if (d->stride > b->span && d->stride - b->span > GAP / width)
            return;
        uint64_t steps = d->stride ? (most - b->span) / d->stride : UINT64_MAX;
        if (steps < d->n - 1) {
            b->part = steps + 1;
            return;
        }
        b->span += (d->n - 1) * d->stride;
    }
}

/* piece - reads the box's piece whose first element is FROM, with STEPS of the
 * part, and puts its elements to OUT. */
static ckpt_status piece(struct gather *g, struct box *b, uint64_t from, uint64_t steps, unsigned char *out,
                         ckpt_error *err)
{
    struct gather_dim dim[GATHER_DIMS];
    uint32_t n = b->whole;
    uint64_t span = b->span;
    memcpy(dim, b->dim, n * sizeof *dim);
    if (steps > 1) {
        dim[n] = b->dim[n];
        dim[n].n = steps;
        span += (steps - 1) * dim[n].stride;
        n++;
    }
    uint64_t at = g->at + from * g->width;
    if (n == 0 || (n == 1 && dim[0].stride == 1 && dim[0].out == 1))
        return source_read(g->src, at, out, (size_t)span * g->width, err);
    if (!g->window && !(g->window = malloc(WINDOW)))
        return fail_memory(err);
    CKPT_TRY(source_read(g->src, at, g->window, (size_t)span * g->width, err));
    place(dim, n, g->window, out, g->width);
    return CKPT_OK;
}

/* fetch - the whole box, whose first element is FROM, into OUT. */
static ckpt_status fetch(struct gather *g, struct box *b, uint64_t from, unsigned char *out, ckpt_error *err)
{
    uint64_t index[GATHER_DIMS], to = 0;
    uint32_t first = b->whole;
    for (uint32_t k = first; k < b->ndim; k++)
        index[k] = 0;
    for (;;) {
        uint64_t steps = b->part;
        if (first < b->ndim && steps > b->dim[first].n - index[first])
            steps = b->dim[first].n - index[first];
        CKPT_TRY(piece(g, b, from, steps, out + to * g->width, err));
        uint32_t k = first;
        for (; k < b->ndim; k++, steps = 1) {
            const struct gather_dim *d = &b->dim[k];
            from += steps * d->stride;
            to += steps * d->out;
            if ((index[k] += steps) < d->n)
                break;
            from -= d->n * d->stride;
            to -= d->n * d->out;
            index[k] = 0;
        }
        if (k == b->ndim)
            return CKPT_OK;
    }
}

/* block - makes B of the largest box that begins at element FIRST of the output
 * and has at most COUNT elements, which are returned; *FROM is its place in the
 * storage. */
static uint64_t block(const struct gather *g, uint64_t first, uint64_t count, struct box *b, uint64_t *from)
{
    uint32_t k = 0;
    while (k + 1 < g->ndim && (g->dim[k].out > count || first % g->dim[k].out != 0))
        k++;
    *from = 0;
    for (uint32_t j = 0; j < g->ndim; j++)
        *from += first / g->dim[j].out % g->dim[j].n * g->dim[j].stride;
    b->ndim = 0;
    if (g->ndim == 0)
        return 1;
    struct gather_dim d = g->dim[k];
    uint64_t left = d.n - first / d.out % d.n;
    d.n = count / d.out < left ? count / d.out : left;
    box_add(b, d);
    for (uint32_t j = k + 1; j < g->ndim; j++)
        box_add(b, g->dim[j]);
    return d.n * d.out;
}

ckpt_status gather_copy(struct gather *g, unsigned char *out, ckpt_error *err)
{
    struct box b;
    b.ndim = 0;
    for (uint32_t k = 0; k < g->ndim; k++)
        box_add(&b, g->dim[k]);
    box_split(&b, g->width);
    return fetch(g, &b, 0, out, err);
}

ckpt_status gather_read(struct gather *g, uint64_t first, uint64_t count, unsigned char *out, ckpt_error *err)
{
    while (count) {
        struct box b;
        uint64_t from;
        uint64_t n = block(g, first, count, &b, &from);
        box_split(&b, g->width);
        CKPT_TRY(fetch(g, &b, from, out, err));
        first += n;
        count -= n;
        out += n * g->width;
    }
    return CKPT_OK;
}
