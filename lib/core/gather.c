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

bool gather_init(struct gather *gather, const ckpt_tensor *tensor)
{
    *gather = (struct gather){0};
    uint64_t out = 1;
    for (uint32_t k = 0; k < tensor->ndim && tensor->elements; k++) {
        uint64_t n = tensor->shape[k], span;
        if (n == 1)
            continue;
        struct gather_dim *last = gather->ndim ? &gather->dim[gather->ndim - 1] : NULL;
        uint64_t stride = tensor->stride ? tensor->stride[k] : 0;
        if (last && tensor->stride && checked_mul(n, stride, &span) && last->stride == span) {
            last->stride = stride;
            if (!checked_mul(last->size, n, &last->size))
                return false;
            continue;
        }
        if (gather->ndim == GATHER_MAX_DIMS)
            return false;
        gather->dim[gather->ndim++] = (struct gather_dim){n, stride, 0};
    }
    for (uint32_t k = gather->ndim; COUNT_DOWN(k);) {
        gather->dim[k].out_stride = out;
        if (!tensor->stride)
            gather->dim[k].stride = out;
        if (!checked_mul(out, gather->dim[k].size, &out))
            return false;
    }
    return true;
}

bool gather_split(struct gather *gather, uint64_t count)
{
    bool fits = gather->ndim < GATHER_MAX_DIMS;
    for (uint32_t k = 0; fits && k < gather->ndim; k++)
        fits = checked_mul(gather->dim[k].stride, count, &gather->dim[k].stride) &&
               checked_mul(gather->dim[k].out_stride, count, &gather->dim[k].out_stride);
    if (fits && count != 1)
        gather->dim[gather->ndim++] = (struct gather_dim){count, 1, 1};
    return fits;
}

void gather_set_contiguous(struct gather *gather, uint64_t count)
{
    gather->ndim = 1;
    gather->dim[0] = (struct gather_dim){count, 1, 1};
}

void gather_free(struct gather *gather)
{
    free(gather->window);
    gather->window = NULL;
}

bool gather_is_contiguous(const struct gather *gather)
{
    for (uint32_t k = 0; k < gather->ndim; k++)
        if (gather->dim[k].stride != gather->dim[k].out_stride)
            return false;
    return true;
}

uint64_t gather_period(const struct gather *gather)
{
    return gather->ndim && gather->dim[0].stride == 0 ? gather->dim[0].out_stride : 0;
}

size_t gather_block_size(const struct gather *gather)
{
    /* For columns of a tall matrix the pieces grow with the rows of a block, so a larger block means fewer
     * reads. */
    bool is_far_apart = gather->ndim && gather->dim[gather->ndim - 1].stride > MAX_GAP / gather->width;
    return (size_t)(is_far_apart ? 4 : 1) << 20;
}

/* copy_line - copies COUNT elements of WIDTH bytes that are IN_STEP bytes apart in IN, OUT_STEP bytes in
 * OUT. */
static void copy_line(const unsigned char *in, size_t in_step, unsigned char *out, size_t out_step,
                      uint64_t count, size_t width)
{
#define LINE(w)                                                                                              \
    case w:                                                                                                  \
        for (; count; count--, in += in_step, out += out_step)                                               \
            memcpy(out, in, w);                                                                              \
        return
    if (in_step == width && out_step == width) {
        memcpy(out, in, (size_t)count * width);
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
        for (; count; count--, in += in_step, out += out_step)
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

static void add_box_dim(struct gather_box *box, struct gather_dim dim)
{
    if (dim.size == 1)
        return;
    uint32_t k = box->ndim++;
    for (; k && box->dim[k - 1].stride > dim.stride; k--)
        box->dim[k] = box->dim[k - 1];
    box->dim[k] = dim;
}

/* choose_piece - sets the piece of BOX: as many dimensions as a read of WINDOW bytes covers, and as many
 * indexes of the next dimension. */
static void choose_piece(struct gather_box *box, size_t width)
{
    uint64_t max = WINDOW / width;
    box->span = box->steps = 1;
    for (box->ninner = 0; box->ninner < box->ndim; box->ninner++) {
        const struct gather_dim *d = &box->dim[box->ninner];
        if (d->stride > box->span && d->stride - box->span > MAX_GAP / width)
            return;
        uint64_t more_steps = d->stride ? (max - box->span) / d->stride : UINT64_MAX; /* after the first */
        if (more_steps < d->size - 1) {
            box->steps = more_steps + 1;
            return;
        }
        box->span += (d->size - 1) * d->stride;
    }
}

/* read_piece - reads the piece of BOX whose first element is FROM, with STEPS indexes of its outermost
 * dimension, and copies its elements to OUT. */
static ckpt_status read_piece(struct gather *gather, struct gather_box *box, uint64_t from, uint64_t steps,
                              unsigned char *out, ckpt_error *err)
{
    struct gather_dim dim[GATHER_MAX_DIMS];
    uint32_t n = box->ninner;
    uint64_t span = box->span;
    memcpy(dim, box->dim, n * sizeof *dim);
    if (steps > 1) {
        dim[n] = box->dim[n];
        dim[n].size = steps;
        span += (steps - 1) * dim[n].stride;
        n++;
    }
    uint64_t at = gather->data_offset + from * gather->width;
    if (n == 0 || (n == 1 && dim[0].stride == 1 && dim[0].out_stride == 1))
        return source_read(gather->src, at, out, (size_t)span * gather->width, err);
    CKPT_TRY_ALLOC(gather->window || (gather->window = malloc(WINDOW)), err);
    CKPT_TRY(source_read(gather->src, at, gather->window, (size_t)span * gather->width, err));
    gather_scatter(dim, n, gather->window, out, gather->width);
    return CKPT_OK;
}

/* copy_box - copies all of BOX, whose first element is FROM, to OUT. */
static ckpt_status copy_box(struct gather *gather, struct gather_box *box, uint64_t from, unsigned char *out,
                            ckpt_error *err)
{
    uint64_t index[GATHER_MAX_DIMS], to = 0;
    uint32_t first = box->ninner;
    for (uint32_t k = first; k < box->ndim; k++)
        index[k] = 0;
    for (;;) {
        uint64_t steps = box->steps;
        if (first < box->ndim && steps > box->dim[first].size - index[first])
            steps = box->dim[first].size - index[first];
        CKPT_TRY(read_piece(gather, box, from, steps, out + to * gather->width, err));
        uint32_t k = first;
        for (; k < box->ndim; k++, steps = 1) { /* dimensions after FIRST advance by 1 */
            const struct gather_dim *d = &box->dim[k];
            from += steps * d->stride;
            to += steps * d->out_stride;
            if ((index[k] += steps) < d->size)
                break;
            from -= d->size * d->stride;
            to -= d->size * d->out_stride;
            index[k] = 0;
        }
        if (k == box->ndim)
            return CKPT_OK;
    }
}

/* make_block - makes BOX the largest box that begins at element FIRST of the output and has at most COUNT
 * elements. Returns how many it has; sets *FROM to the position of its first element in the storage. */
static uint64_t make_block(const struct gather *gather, uint64_t first, uint64_t count,
                           struct gather_box *box, uint64_t *from)
{
    uint32_t k = 0;
    while (k + 1 < gather->ndim &&
           (gather->dim[k].out_stride > count || first % gather->dim[k].out_stride != 0))
        k++;
    *from = 0;
    for (uint32_t j = 0; j < gather->ndim; j++)
        *from += first / gather->dim[j].out_stride % gather->dim[j].size * gather->dim[j].stride;
    box->ndim = 0;
    if (gather->ndim == 0)
        return 1;
    struct gather_dim d = gather->dim[k];
    uint64_t left = d.size - first / d.out_stride % d.size;
    d.size = count / d.out_stride < left ? count / d.out_stride : left;
    add_box_dim(box, d);
    for (uint32_t j = k + 1; j < gather->ndim; j++)
        add_box_dim(box, gather->dim[j]);
    return d.size * d.out_stride;
}

ckpt_status gather_copy(struct gather *gather, unsigned char *out, ckpt_error *err)
{
    struct gather_box b;
    b.ndim = 0;
    for (uint32_t k = 0; k < gather->ndim; k++)
        add_box_dim(&b, gather->dim[k]);
    choose_piece(&b, gather->width);
    return copy_box(gather, &b, 0, out, err);
}

ckpt_status gather_read(struct gather *gather, uint64_t first, uint64_t count, unsigned char *out,
                        ckpt_error *err)
{
    while (count) {
        struct gather_box b;
        uint64_t from;
        uint64_t n = make_block(gather, first, count, &b, &from);
        choose_piece(&b, gather->width);
        CKPT_TRY(copy_box(gather, &b, from, out, err));
        first += n;
        count -= n;
        out += n * gather->width;
    }
    return CKPT_OK;
}
