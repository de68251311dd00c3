/* gather.c - see gather.h.
 *
 * A block is a box of the output: fixed indexes of the outer dimensions, a range of one dimension and all
 * of the inner ones. Its elements are read in the order of the storage. The dimensions with the smallest
 * strides form a piece that takes one read, gaps included, as long as it fits the window and no gap costs
 * more than a second read would. If the neighbours of the output are not in it, as in a transposed matrix,
 * the window takes the pieces of many of them. The elements are then copied from the window to their places
 * in the output.
 *
 * The view was checked against its storage before: the largest index times the width fits 64 bits, so no
 * sum or product of indexes below overflows. */
#include "core/gather.h"

#include <stdlib.h>

#define WINDOW     ((size_t)256 * 1024)
#define MAX_GAP    1024u /* bytes that take as long to read as a system call */
#define MIN_MEMCPY 32u   /* bytes from which one memcpy is faster than a loop over elements */
#define MIN_LINE   8u    /* elements from which a line of the output is worth its begin */
#define LINE_MAX   64u   /* elements of a line for which smaller reads are worth it */
/* Pieces of PADDED bytes are PAD bytes apart in the window: at distances of a power of 2, few of them would
 * fit the L1 cache at a time. */
#define PADDED 1024u
#define PAD    64u

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

/* copy_four - copies four lines of COUNT elements, which begin IN_BESIDE bytes apart in IN, OUT_BESIDE bytes
 * in OUT. For lines across the rows of a matrix, each cache line is then read for four of them. */
static void copy_four(const unsigned char *in, size_t in_step, size_t in_beside, unsigned char *out,
                      size_t out_step, size_t out_beside, uint64_t count, size_t width)
{
#define FOUR(w)                                                                                              \
    case w:                                                                                                  \
        for (; count; count--, in += in_step, out += out_step) {                                             \
            memcpy(out, in, w);                                                                              \
            memcpy(out + out_beside, in + in_beside, w);                                                     \
            memcpy(out + 2 * out_beside, in + 2 * in_beside, w);                                             \
            memcpy(out + 3 * out_beside, in + 3 * in_beside, w);                                             \
        }                                                                                                    \
        return
    switch (width) {
        FOUR(1);
        FOUR(2);
        FOUR(4);
        FOUR(8);
    default:
        for (unsigned k = 0; k < 4; k++)
            copy_line(in + k * in_beside, in_step, out + k * out_beside, out_step, count, width);
    }
#undef FOUR
}

/* copy_plane - copies all indexes of the dimensions LINE and BESIDE. */
static void copy_plane(const struct gather_dim *line, const struct gather_dim *beside,
                       const unsigned char *in, unsigned char *out, size_t width)
{
    size_t in_step = (size_t)line->stride * width, out_step = (size_t)line->out_stride * width;
    size_t in_beside = (size_t)beside->stride * width, out_beside = (size_t)beside->out_stride * width;
    uint64_t left = beside->size;
    bool is_run = in_step == width && out_step == width;
    for (; !is_run && left >= 4; left -= 4, in += 4 * in_beside, out += 4 * out_beside)
        copy_four(in, in_step, in_beside, out, out_step, out_beside, line->size, width);
    for (; left; left--, in += in_beside, out += out_beside)
        copy_line(in, in_step, out, out_step, line->size, width);
}

/* find_innermost - returns the dimension of the output's neighbours. */
static uint32_t find_innermost(const struct gather_dim *dim, uint32_t ndim)
{
    uint32_t found = 0;
    for (uint32_t k = 1; k < ndim; k++)
        if (dim[k].out_stride < dim[found].out_stride)
            found = k;
    return found;
}

/* choose_line - returns the dimension for copy_line: one that is contiguous on both sides and long enough for
 * memcpy; else that of the output's neighbours or, if it is short, the longest. */
static uint32_t choose_line(const struct gather_dim *dim, uint32_t ndim, size_t width)
{
    uint32_t longest = 0, innermost = find_innermost(dim, ndim);
    for (uint32_t k = 0; k < ndim; k++) {
        if (dim[k].stride == 1 && dim[k].out_stride == 1 && dim[k].size * width >= MIN_MEMCPY)
            return k;
        if (dim[k].size > dim[longest].size)
            longest = k;
    }
    return dim[innermost].size >= MIN_LINE ? innermost : longest;
}

void gather_scatter(const struct gather_dim *dim, uint32_t ndim, const unsigned char *in, unsigned char *out,
                    size_t width)
{
    static const struct gather_dim none = {1, 0, 0};
    uint64_t index[GATHER_MAX_DIMS], from = 0, to = 0;
    uint32_t line = choose_line(dim, ndim, width), beside = line == 0; /* DIM may be in any order */
    for (uint32_t k = 0; k < ndim; k++) {
        index[k] = 0;
        if (k != line && dim[k].stride < dim[beside].stride)
            beside = k;
    }
    for (;;) {
        copy_plane(&dim[line], beside < ndim ? &dim[beside] : &none, in + from * width, out + to * width,
                   width);
        uint32_t k = 0;
        for (; k < ndim; k++) {
            if (k == line || k == beside)
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

/* A box in storage order: dimensions by rising stride. It is copied in tiles of STEP indexes of each. Of a
 * tile, the first NPIECE dimensions are a piece, which one read takes, and the window has a piece for each
 * index of dimension ROWS; if that is one of the piece, it has one piece. */
struct gather_box {
    struct gather_dim dim[GATHER_MAX_DIMS];
    uint64_t step[GATHER_MAX_DIMS];
    uint32_t ndim, npiece, rows;
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

/* choose_tile - sets the tiles of BOX: as many dimensions as a read of WINDOW bytes covers, and as many
 * indexes of the next one. A piece that lacks the output's neighbours is smaller, so that the window has
 * LINE_MAX of them. */
static void choose_tile(struct gather_box *box, size_t width)
{
    uint64_t max = WINDOW / width, span = 1;
    bool is_complete = false;
    box->rows = box->ndim ? find_innermost(box->dim, box->ndim) : 0;
    box->npiece = 0;
    for (uint32_t k = 0; k < box->ndim; k++) {
        const struct gather_dim *d = &box->dim[k];
        uint64_t lines = box->dim[box->rows].size < LINE_MAX ? box->dim[box->rows].size : LINE_MAX;
        uint64_t most = k < box->rows ? max / lines : max;
        is_complete = is_complete || (d->stride > span && d->stride - span > MAX_GAP / width);
        box->step[k] = 1;
        if (is_complete)
            continue;
        uint64_t more = d->stride ? (most - span) / d->stride : UINT64_MAX; /* after the first */
        is_complete = more < d->size - 1;
        box->step[k] = is_complete ? more + 1 : d->size;
        span += (box->step[k] - 1) * d->stride;
        box->npiece = k + 1;
    }
    if (box->rows >= box->npiece && box->ndim)
        box->step[box->rows] = max / span < box->dim[box->rows].size ? max / span : box->dim[box->rows].size;
}

/* read_tile - reads the tile of BOX whose first element is FROM, with COUNT indexes of each dimension, and
 * copies its elements to OUT. */
static ckpt_status read_tile(struct gather *gather, const struct gather_box *box, const uint64_t *count,
                             uint64_t from, unsigned char *out, ckpt_error *err)
{
    struct gather_dim dim[GATHER_MAX_DIMS];
    uint32_t n = 0;
    uint64_t span = 1, rows = box->rows < box->npiece || !box->ndim ? 1 : count[box->rows];
    for (uint32_t k = 0; k < box->npiece; k++) {
        span += (count[k] - 1) * box->dim[k].stride;
        if (count[k] > 1)
            dim[n++] = (struct gather_dim){count[k], box->dim[k].stride, box->dim[k].out_stride};
    }
    uint64_t at = gather->data_offset + from * gather->width;
    size_t nbytes = (size_t)span * gather->width;
    if (rows == 1 && (n == 0 || (n == 1 && dim[0].stride == 1 && dim[0].out_stride == 1)))
        return source_read(gather->src, at, out, nbytes, err);
    CKPT_TRY_ALLOC(gather->window || (gather->window = malloc(WINDOW + WINDOW / PADDED * PAD)), err);
    uint64_t pitch = span + (nbytes >= PADDED ? PAD / gather->width : 0);
    for (uint64_t i = 0; i < rows; i++)
        CKPT_TRY(source_read(gather->src, at + i * box->dim[box->rows].stride * gather->width,
                             gather->window + i * pitch * gather->width, nbytes, err));
    if (rows > 1)
        dim[n++] = (struct gather_dim){rows, pitch, box->dim[box->rows].out_stride};
    gather_scatter(dim, n, gather->window, out, gather->width);
    return CKPT_OK;
}

/* copy_box - copies all of BOX, whose first element is FROM, to OUT. */
static ckpt_status copy_box(struct gather *gather, const struct gather_box *box, uint64_t from,
                            unsigned char *out, ckpt_error *err)
{
    uint64_t index[GATHER_MAX_DIMS], count[GATHER_MAX_DIMS], to = 0;
    for (uint32_t k = 0; k < box->ndim; k++) {
        index[k] = 0;
        count[k] = box->step[k];
    }
    for (;;) {
        CKPT_TRY(read_tile(gather, box, count, from, out + to * gather->width, err));
        uint32_t k = 0;
        for (; k < box->ndim; k++) {
            const struct gather_dim *d = &box->dim[k];
            from += count[k] * d->stride;
            to += count[k] * d->out_stride;
            index[k] += count[k];
            uint64_t left = d->size - index[k];
            count[k] = left && left < box->step[k] ? left : box->step[k];
            if (left)
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
    choose_tile(&b, gather->width);
    return copy_box(gather, &b, 0, out, err);
}

ckpt_status gather_read(struct gather *gather, uint64_t first, uint64_t count, unsigned char *out,
                        ckpt_error *err)
{
    while (count) {
        struct gather_box b;
        uint64_t from;
        uint64_t n = make_block(gather, first, count, &b, &from);
        choose_tile(&b, gather->width);
        CKPT_TRY(copy_box(gather, &b, from, out, err));
        first += n;
        count -= n;
        out += n * gather->width;
    }
    return CKPT_OK;
}
