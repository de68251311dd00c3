/* gather.c - see gather.h.
 *
 * A block is a box of the output: fixed indexes of the outer dimensions, a range of one dimension and all
 * of the inner ones. Its elements are read in the order of the storage. The dimensions with the smallest
 * strides form a piece that takes one read, gaps included, as long as it fits the window and no gap costs
 * more than a second read would; its elements are then copied from the window to their places in the
 * output.
 *
 * The view was checked against its storage before: the largest index times the width fits 64 bits, so no
 * sum or product of indexes below overflows. */
#include "core/gather.h"

#include <stdlib.h>

#define WINDOW     ((size_t)256 * 1024)
#define MAX_GAP    1024u /* bytes that take as long to read as a system call */
#define MIN_MEMCPY 32u   /* bytes from which one memcpy is faster than a loop over elements */

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
            if (!checked_mul(last->size, n, &last->size))
                return false;
            continue;
        }
        if (g->ndim == GATHER_MAX_DIMS)
            return false;
        g->dim[g->ndim++] = (struct gather_dim){n, stride, 0};
    }
    for (uint32_t k = g->ndim; COUNT_DOWN(k);) {
        g->dim[k].out_stride = out;
        if (!t->stride)
            g->dim[k].stride = out;
        if (!checked_mul(out, g->dim[k].size, &out))
            return false;
    }
    return true;
}

bool gather_split(struct gather *g, uint64_t n)
{
    bool fits = g->ndim < GATHER_MAX_DIMS;
    for (uint32_t k = 0; fits && k < g->ndim; k++)
        fits = checked_mul(g->dim[k].stride, n, &g->dim[k].stride) &&
               checked_mul(g->dim[k].out_stride, n, &g->dim[k].out_stride);
    if (fits && n != 1)
        g->dim[g->ndim++] = (struct gather_dim){n, 1, 1};
    return fits;
}

void gather_set_contiguous(struct gather *g, uint64_t n)
{
    g->ndim = 1;
    g->dim[0] = (struct gather_dim){n, 1, 1};
}

void gather_free(struct gather *g)
{
    free(g->window);
    g->window = NULL;
}

bool gather_is_contiguous(const struct gather *g)
{
    for (uint32_t k = 0; k < g->ndim; k++)
        if (g->dim[k].stride != g->dim[k].out_stride)
            return false;
    return true;
}

uint64_t gather_period(const struct gather *g)
{
    return g->ndim && g->dim[0].stride == 0 ? g->dim[0].out_stride : 0;
}

size_t gather_block_size(const struct gather *g)
{
    /* For columns of a tall matrix the pieces grow with the rows of a block, so a larger block means fewer
     * reads. */
    bool is_far_apart = g->ndim && g->dim[g->ndim - 1].stride > MAX_GAP / g->width;
    return (size_t)(is_far_apart ? 4 : 1) << 20;
}

/* copy_line - copies N elements of WIDTH bytes that are IN_STEP bytes apart in IN, OUT_STEP bytes in OUT. */
static void copy_line(const unsigned char *in, size_t in_step, unsigned char *out, size_t out_step,
                      uint64_t n, size_t width)
{
#define LINE(w)                                                                                              \
    case w:                                                                                                  \
        for (; n; n--, in += in_step, out += out_step)                                                       \
            memcpy(out, in, w);                                                                              \
        return
    if (in_step == width && out_step == width) {
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
        for (; n; n--, in += in_step, out += out_step)
            memcpy(out, in, width);
    }
#undef LINE
}

/* choose_line - returns the dimension for copy_line: one that is contiguous on both sides and long enough for
 * memcpy; if there is none, the longest. */
static uint32_t choose_line(const struct gather_dim *dim, uint32_t ndim, size_t width)
{
    uint32_t line = 0;
    for (uint32_t k = 0; k < ndim; k++) {
        if (dim[k].stride == 1 && dim[k].out_stride == 1 && dim[k].size * width >= MIN_MEMCPY)
            return k;
        if (dim[k].size > dim[line].size)
            line = k;
    }
    return line;
}

void gather_scatter(const struct gather_dim *dim, uint32_t ndim, const unsigned char *in, unsigned char *out,
                    size_t width)
{
    uint64_t index[GATHER_MAX_DIMS], from = 0, to = 0;
    uint32_t line = choose_line(dim, ndim, width);
    for (uint32_t k = 0; k < ndim; k++)
        index[k] = 0;
    for (;;) {
        copy_line(in + from * width, (size_t)dim[line].stride * width, out + to * width,
                  (size_t)dim[line].out_stride * width, dim[line].size, width);
        uint32_t k = 0;
        for (; k < ndim; k++) {
            if (k == line)
                continue;
            from += dim[k].stride;
            to += dim[k].out_stride;
            if (++index[k] < dim[k].size)
                break;
            from -= dim[k].size * dim[k].stride;
            to -= dim[k].size * dim[k].out_stride;
            index[k] = 0;
        }
        if (k == ndim)
            return;
    }
}

/* A box in storage order: dimensions by rising stride. A piece is the first NINNER of them, which span SPAN
 * elements, and up to STEPS indexes of the next. */
struct gather_box {
    struct gather_dim dim[GATHER_MAX_DIMS];
    uint32_t ndim, ninner;
    uint64_t span, steps;
};

static void add_box_dim(struct gather_box *b, struct gather_dim d)
{
    if (d.size == 1)
        return;
    uint32_t k = b->ndim++;
    for (; k && b->dim[k - 1].stride > d.stride; k--)
        b->dim[k] = b->dim[k - 1];
    b->dim[k] = d;
}

/* choose_piece - sets the piece of B: as many dimensions as a read of WINDOW bytes covers, and as many
 * indexes of the next dimension. */
static void choose_piece(struct gather_box *b, size_t width)
{
    uint64_t max = WINDOW / width;
    b->span = b->steps = 1;
    for (b->ninner = 0; b->ninner < b->ndim; b->ninner++) {
        const struct gather_dim *d = &b->dim[b->ninner];
        if (d->stride > b->span && d->stride - b->span > MAX_GAP / width)
            return;
        uint64_t more_steps = d->stride ? (max - b->span) / d->stride : UINT64_MAX; /* after the first */
        if (more_steps < d->size - 1) {
            b->steps = more_steps + 1;
            return;
        }
        b->span += (d->size - 1) * d->stride;
    }
}

/* read_piece - reads the piece of B whose first element is FROM, with STEPS indexes of its outermost
 * dimension, and copies its elements to OUT. */
static ckpt_status read_piece(struct gather *g, struct gather_box *b, uint64_t from, uint64_t steps,
                              unsigned char *out, ckpt_error *err)
{
    struct gather_dim dim[GATHER_MAX_DIMS];
    uint32_t n = b->ninner;
    uint64_t span = b->span;
    memcpy(dim, b->dim, n * sizeof *dim);
    if (steps > 1) {
        dim[n] = b->dim[n];
        dim[n].size = steps;
        span += (steps - 1) * dim[n].stride;
        n++;
    }
    uint64_t at = g->data_offset + from * g->width;
    if (n == 0 || (n == 1 && dim[0].stride == 1 && dim[0].out_stride == 1))
        return source_read(g->src, at, out, (size_t)span * g->width, err);
    if (!g->window && !(g->window = malloc(WINDOW)))
        return fail_memory(err);
    CKPT_TRY(source_read(g->src, at, g->window, (size_t)span * g->width, err));
    gather_scatter(dim, n, g->window, out, g->width);
    return CKPT_OK;
}

/* copy_box - copies all of B, whose first element is FROM, to OUT. */
static ckpt_status copy_box(struct gather *g, struct gather_box *b, uint64_t from, unsigned char *out,
                            ckpt_error *err)
{
    uint64_t index[GATHER_MAX_DIMS], to = 0;
    uint32_t first = b->ninner;
    for (uint32_t k = first; k < b->ndim; k++)
        index[k] = 0;
    for (;;) {
        uint64_t steps = b->steps;
        if (first < b->ndim && steps > b->dim[first].size - index[first])
            steps = b->dim[first].size - index[first];
        CKPT_TRY(read_piece(g, b, from, steps, out + to * g->width, err));
        uint32_t k = first;
        for (; k < b->ndim; k++, steps = 1) { /* dimensions after FIRST advance by 1 */
            const struct gather_dim *d = &b->dim[k];
            from += steps * d->stride;
            to += steps * d->out_stride;
            if ((index[k] += steps) < d->size)
                break;
            from -= d->size * d->stride;
            to -= d->size * d->out_stride;
            index[k] = 0;
        }
        if (k == b->ndim)
            return CKPT_OK;
    }
}

/* make_block - makes B the largest box that begins at element FIRST of the output and has at most COUNT
 * elements. Returns how many it has; sets *FROM to the position of its first element in the storage. */
static uint64_t make_block(const struct gather *g, uint64_t first, uint64_t count, struct gather_box *b,
                           uint64_t *from)
{
    uint32_t k = 0;
    while (k + 1 < g->ndim && (g->dim[k].out_stride > count || first % g->dim[k].out_stride != 0))
        k++;
    *from = 0;
    for (uint32_t j = 0; j < g->ndim; j++)
        *from += first / g->dim[j].out_stride % g->dim[j].size * g->dim[j].stride;
    b->ndim = 0;
    if (g->ndim == 0)
        return 1;
    struct gather_dim d = g->dim[k];
    uint64_t left = d.size - first / d.out_stride % d.size;
    d.size = count / d.out_stride < left ? count / d.out_stride : left;
    add_box_dim(b, d);
    for (uint32_t j = k + 1; j < g->ndim; j++)
        add_box_dim(b, g->dim[j]);
    return d.size * d.out_stride;
}

ckpt_status gather_copy(struct gather *g, unsigned char *out, ckpt_error *err)
{
    struct gather_box b;
    b.ndim = 0;
    for (uint32_t k = 0; k < g->ndim; k++)
        add_box_dim(&b, g->dim[k]);
    choose_piece(&b, g->width);
    return copy_box(g, &b, 0, out, err);
}

ckpt_status gather_read(struct gather *g, uint64_t first, uint64_t count, unsigned char *out, ckpt_error *err)
{
    while (count) {
        struct gather_box b;
        uint64_t from;
        uint64_t n = make_block(g, first, count, &b, &from);
        choose_piece(&b, g->width);
        CKPT_TRY(copy_box(g, &b, from, out, err));
        first += n;
        count -= n;
        out += n * g->width;
    }
    return CKPT_OK;
}
