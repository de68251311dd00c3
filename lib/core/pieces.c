/* pieces.c - see pieces.h.
 *
 * Boxes are kept in bytes and in as few dimensions as they need: a dimension that every piece spans
 * completely is joined with the one before it. So a tensor that is cut along its first dimension becomes a
 * list of runs of bytes. A tensor that is cut along another dimension becomes a matrix, and its pieces are
 * columns of this matrix.
 *
 * A read is split into boxes that are as large as possible. For each box, core/gather reads the bytes that
 * each piece has of it, in few and large reads. Columns are read fast only if many rows are read at a time,
 * so block_size is large. Narrow columns are not copied one after the other, because each cache line would
 * be written once for each column in it. They are read into a buffer, and then copied a few rows at a time.
 *
 * No sum or product of positions can overflow, because these checks come first: the tensor's size in bytes
 * fits 64 bits, each box is inside the tensor, and its bytes are inside its source. */
#include "core/pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/box_index.h"
#include "core/gather.h"

#define BLOCK   ((uint64_t)2 << 20) /* for 64 columns, 32 KiB of each; larger blocks are no faster */
#define MIN_RUN 1024u               /* bytes from which a longer run is not read much faster */
#define NO_DIM  UINT32_MAX

#define BAND_COLUMNS   128u
#define BAND_BYTES     65536u /* malloc could map and unmap a larger buffer for each read */
#define NARROW_ROW_MAX 256u   /* bytes of a row in a narrow column, at most */
#define TILE_BYTES     32768u /* as many bytes of the output stay in the L1 cache */

/* Dimensions FIRST_DIM to LAST_DIM of the tensor. They are one dimension of the boxes, because every piece
 * spans all of them, except perhaps FIRST_DIM. Boxes are measured in steps of the group: a step is one index
 * of LAST_DIM, or one byte if the group includes the bytes of an element. */
struct group {
    uint32_t first_dim, last_dim; /* NO_DIM: the bytes of an element */
    uint64_t first_steps;         /* steps from one index of FIRST_DIM to the next */
    uint64_t steps;               /* steps of the group */
};

/* Where the bytes of a box are. */
struct location {
    source *src;
    uint64_t at;
};

/* The source of a tensor in pieces. */
struct assembled {
    source as_source;
    uint32_t ndim;
    bool overlap;
    struct box_index index;
    struct location *location;    /* by box: where its bytes are */
    const uint32_t *piece_number; /* by box: the number of its piece */
    const uint64_t *box_strides;  /* NDIM of each box, in bytes; NULL: each is row-major, without gaps */
    uint64_t dim_steps[BOX_DIMS], step_bytes[BOX_DIMS]; /* by dimension: its steps, bytes of a step */
    const unsigned char *fill;                          /* WIDTH bytes, or NULL */
    uint32_t width;
};

/* ------------------------------------------------------------------------ reading */

/* next_box - sets BOX to the largest box of the tensor that begins at byte FIRST and has at most COUNT
 * contiguous bytes; returns how many. */
static uint64_t next_box(const struct assembled *assembled, uint64_t first, uint64_t count, uint64_t *box)
{
    uint32_t n = assembled->ndim, k = 0;
    while (k + 1 < n && (assembled->step_bytes[k] > count || first % assembled->step_bytes[k] != 0))
        k++;
    for (uint32_t j = 0; j < n; j++) {
        box[j] = first / assembled->step_bytes[j] % assembled->dim_steps[j];
        box[n + j] = j < k ? box[j] + 1 : assembled->dim_steps[j];
    }
    if (assembled->dim_steps[k] - box[k] > count / assembled->step_bytes[k])
        box[n + k] = box[k] + count / assembled->step_bytes[k];
    return (box[n + k] - box[k]) * assembled->step_bytes[k];
}

/* add_dim - adds a dimension of COUNT indexes outside of those of GATHER, or joins the two outermost if
 * possible. */
static void add_dim(struct gather *gather, uint64_t count, uint64_t stride, uint64_t out_stride)
{
    struct gather_dim *last = gather->ndim ? &gather->dim[gather->ndim - 1] : NULL;
    if (count == 1)
        return;
    if (last && stride == last->size * last->stride && out_stride == last->size * last->out_stride)
        last->size *= count;
    else
        gather->dim[gather->ndim++] = (struct gather_dim){count, stride, out_stride};
}

/* widen_elements - makes one element of the bytes that are contiguous on both sides. */
static void widen_elements(struct gather *gather)
{
    uint64_t n = gather->ndim > 1 && gather->dim[0].stride == 1 && gather->dim[0].out_stride == 1
                     ? gather->dim[0].size
                     : 0;
    if (n < 2 || n > 64 || (n & (n - 1)) != 0)
        return;
    for (uint32_t k = 1; k < gather->ndim; k++)
        if (gather->dim[k].stride % n != 0 || gather->dim[k].out_stride % n != 0)
            return;
    gather->width = (uint32_t)n;
    gather->ndim--;
    for (uint32_t k = 0; k < gather->ndim; k++)
        gather->dim[k] = (struct gather_dim){gather->dim[k + 1].size, gather->dim[k + 1].stride / n,
                                             gather->dim[k + 1].out_stride / n};
}

/* get_intersection - sets GATHER to the intersection of box INDEX and BOX; returns where that begins in
 * BOX. */
static uint64_t get_intersection(const struct assembled *assembled, size_t index, const uint64_t *box,
                                 struct gather *gather)
{
    const uint64_t *piece_box = box_at(&assembled->index, index),
                   *stride = assembled->box_strides ? assembled->box_strides + index * assembled->ndim : NULL;
    uint64_t at = assembled->location[index].at, to = 0, run = 1;
    gather->src = assembled->location[index].src;
    gather->width = 1;
    gather->ndim = 0;
    for (uint32_t n = assembled->ndim, k = n; COUNT_DOWN(k);) {
        uint64_t from = piece_box[k] > box[k] ? piece_box[k] : box[k];
        uint64_t end = piece_box[n + k] < box[n + k] ? piece_box[n + k] : box[n + k];
        uint64_t step = stride ? stride[k] : run;
        add_dim(gather, end - from, step, assembled->step_bytes[k]);
        at += (from - piece_box[k]) * step;
        to += (from - box[k]) * assembled->step_bytes[k];
        run *= piece_box[n + k] - piece_box[k];
    }
    gather->data_offset = at;
    widen_elements(gather);
    return to;
}

/* ------------------------------------------------------------------------- narrow columns */

/* A column that was read: its rows, one after the other. */
struct column {
    const unsigned char *in;
    uint32_t row_elements, width; /* width: bytes of an element */
    uint64_t pitch;               /* bytes from one row to the next in the output */
    uint64_t out_offset;          /* byte of the output at which the next row begins */
    uint64_t rows_left;
};

/* Columns of a box that are read before they are copied together. */
struct band {
    unsigned char *bytes; /* BAND_BYTES of them, allocated on first use */
    size_t used, n;
    struct column column[BAND_COLUMNS];
};

/* is_narrow - returns true if GATHER is a column whose rows have a few bytes each and are contiguous in the
 * source. */
static bool is_narrow(const struct gather *gather)
{
    if (gather->ndim == 0 || gather->ndim > 2)
        return false;
    const struct gather_dim *rows = &gather->dim[gather->ndim - 1];
    bool contiguous = gather->ndim == 1 || (gather->dim[0].stride == 1 && gather->dim[0].out_stride == 1);
    uint64_t row = gather->ndim == 2 ? gather->dim[0].size : 1;
    return contiguous && rows->stride == row && rows->out_stride > row &&
           row * gather->width <= NARROW_ROW_MAX && rows->size <= BAND_BYTES / (row * gather->width);
}

/* count_rows_before - returns how many rows of COLUMN begin before END of the output. */
static uint64_t count_rows_before(const struct column *column, uint64_t end)
{
    uint64_t n = column->out_offset < end ? (end - column->out_offset - 1) / column->pitch + 1 : 0;
    return n < column->rows_left ? n : column->rows_left;
}

static void skip_rows(struct column *column, uint64_t count)
{
    column->in += count * column->row_elements * column->width;
    column->out_offset += count * column->pitch;
    column->rows_left -= count;
}

static void copy_rows(struct column *column, uint64_t count, unsigned char *out)
{
    const struct gather_dim dim[2] = {{column->row_elements, 1, 1},
                                      {count, column->row_elements, column->pitch / column->width}};
    uint32_t first = column->row_elements == 1; /* without dim[0] if a row is one element */
    if (count)
        gather_scatter(dim + first, 2 - first, column->in, out + column->out_offset, column->width);
    skip_rows(column, count);
}

/* are_neighbours - returns true if the eight columns from COLUMN on have one element in each row, are next to
 * each other in the output, and are equally far apart in the band. */
static bool are_neighbours(const struct column *column)
{
    bool yes = column->row_elements == 1 && column->width <= 4;
    for (size_t k = 1; k < 8 && yes; k++)
        yes = column[k].row_elements == 1 && column[k].width == column->width &&
              column[k].pitch == column->pitch &&
              column[k].out_offset == column->out_offset + k * column->width &&
              column[k].rows_left == column->rows_left &&
              column[k].in - column[k - 1].in == column[1].in - column->in;
    return yes;
}

/* copy_eight - copies COUNT rows of eight neighbouring columns from COLUMN on. */
static void copy_eight(struct column *column, uint64_t count, unsigned char *out)
{
    const unsigned char *in = column->in;
    size_t apart = (size_t)(column[1].in - in), pitch = (size_t)column->pitch, w = column->width;
    out += column->out_offset;
#define EIGHT(w)                                                                                             \
    for (uint64_t i = 0; i < count; i++, in += (w), out += pitch) {                                          \
        memcpy(out, in, w);                                                                                  \
        memcpy(out + (w), in + apart, w);                                                                    \
        memcpy(out + 2 * (w), in + 2 * apart, w);                                                            \
        memcpy(out + 3 * (w), in + 3 * apart, w);                                                            \
        memcpy(out + 4 * (w), in + 4 * apart, w);                                                            \
        memcpy(out + 5 * (w), in + 5 * apart, w);                                                            \
        memcpy(out + 6 * (w), in + 6 * apart, w);                                                            \
        memcpy(out + 7 * (w), in + 7 * apart, w);                                                            \
    }
    if (w == 1)
        EIGHT(1)
    else if (w == 2)
        EIGHT(2)
    else
        EIGHT(4)
#undef EIGHT
    for (size_t k = 0; k < 8; k++)
        skip_rows(&column[k], count);
}

/* flush_band - writes all columns of BAND to OUT, which has NBYTES bytes. */
static void flush_band(struct band *band, unsigned char *out, uint64_t nbytes)
{
    for (uint64_t end = TILE_BYTES; band->n && end < nbytes + TILE_BYTES; end += TILE_BYTES) {
        for (size_t i = 0; i < band->n;) {
            struct column *c = &band->column[i];
            bool has_eight = band->n - i >= 8 && are_neighbours(c);
            if (has_eight)
                copy_eight(c, count_rows_before(c, end), out);
            else
                copy_rows(c, count_rows_before(c, end), out);
            i += has_eight ? 8 : 1;
        }
    }
    band->n = band->used = 0;
}

/* add_column - reads GATHER, which is narrow, into BAND. flush_band copies it to byte TO of the NBYTES bytes
 * at OUT. */
static ckpt_status add_column(struct band *band, const struct gather *gather, uint64_t to, unsigned char *out,
                              uint64_t nbytes, ckpt_error *err)
{
    const struct gather_dim *rows = &gather->dim[gather->ndim - 1];
    size_t size = (size_t)(rows->size * rows->stride * gather->width);
    CKPT_TRY_ALLOC(band->bytes || (band->bytes = malloc(BAND_BYTES)), err);
    if (band->n == BAND_COLUMNS || size > BAND_BYTES - band->used)
        flush_band(band, out, nbytes);
    band->column[band->n++] = (struct column){.in = band->bytes + band->used,
                                              .row_elements = (uint32_t)rows->stride,
                                              .width = gather->width,
                                              .pitch = rows->out_stride * gather->width,
                                              .out_offset = to,
                                              .rows_left = rows->size};
    band->used += size;
    return source_read(gather->src, gather->data_offset, band->bytes + band->used - size, size, err);
}

/* ----------------------------------------------------------------------------- boxes */

/* The buffers of one read of boxes. */
struct reading {
    struct gather gather;
    struct band band;
};

static int compare_descending(const void *left, const void *right)
{
    uint32_t x = *(const uint32_t *)left, y = *(const uint32_t *)right;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* copy_overlapping - copies pieces that may overlap, the one of lowest number last: its bytes remain. */
static ckpt_status copy_overlapping(const struct assembled *assembled, const uint64_t *box,
                                    struct gather *gather, unsigned char *out, ckpt_error *err)
{
    struct box_search search;
    uint32_t (*boxes)[2] = NULL; /* number of the piece; number of its box in the index */
    size_t i, n = 0, cap = 0;
    bool ok = true;
    box_search_begin(&search, &assembled->index, box);
    while (ok && box_search_next(&search, &i)) {
        const uint32_t box_of_piece[2] = {assembled->piece_number[i], (uint32_t)i};
        ok = arena_push(NULL, &boxes, &n, &cap, box_of_piece, sizeof box_of_piece);
    }
    if (ok && n)
        qsort(boxes, n, sizeof *boxes, compare_descending);
    ckpt_status st = ok ? CKPT_OK : fail_memory(err);
    for (size_t k = 0; st == CKPT_OK && k < n; k++) {
        uint64_t to = get_intersection(assembled, boxes[k][1], box, gather);
        st = gather_copy(gather, out + to, err);
    }
    free(boxes);
    return st;
}

/* copy_box - copies BOX, which has NBYTES bytes, to OUT. */
static ckpt_status copy_box(const struct assembled *assembled, const uint64_t *box, struct reading *reading,
                            unsigned char *out, uint64_t nbytes, ckpt_error *err)
{
    struct box_search search;
    size_t i;
    if (assembled->overlap)
        return copy_overlapping(assembled, box, &reading->gather, out, err);
    box_search_begin(&search, &assembled->index, box);
    while (box_search_next(&search, &i)) {
        uint64_t to = get_intersection(assembled, i, box, &reading->gather);
        CKPT_TRY(is_narrow(&reading->gather)
                     ? add_column(&reading->band, &reading->gather, to, out, nbytes, err)
                     : gather_copy(&reading->gather, out + to, err));
    }
    flush_band(&reading->band, out, nbytes);
    return CKPT_OK;
}

/* fill_output - fills OUT with the fill element; the pieces are then copied over it. */
static void fill_output(const struct assembled *assembled, uint64_t off, unsigned char *out, size_t nbytes)
{
    size_t filled = nbytes < assembled->width ? nbytes : assembled->width;
    for (size_t i = 0; i < filled; i++)
        out[i] = assembled->fill[(off + i) % assembled->width];
    for (; filled < nbytes; filled += nbytes - filled < filled ? nbytes - filled : filled)
        memcpy(out + filled, out, nbytes - filled < filled ? nbytes - filled : filled);
}

static ckpt_status assembled_read(source *src, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct assembled *s = (const struct assembled *)src;
    unsigned char *out = to;
    struct reading r;
    ckpt_status st = CKPT_OK;
    r.gather.window = r.band.bytes = NULL;
    r.band.n = r.band.used = 0;
    if (s->fill)
        fill_output(s, off, out, nbytes);
    while (nbytes && st == CKPT_OK) {
        uint64_t box[2 * BOX_DIMS];
        bool is_limited = s->ndim > 1 && !s->as_source.larger_is_better && nbytes > BLOCK;
        size_t max_bytes = is_limited ? (size_t)BLOCK : nbytes;
        size_t done = (size_t)next_box(s, off, max_bytes, box);
        st = copy_box(s, box, &r, out, done, err);
        off += done;
        out += done;
        nbytes -= done;
    }
    gather_free(&r.gather);
    free(r.band.bytes);
    return st;
}

static void assembled_advise(source *src)
{
    const struct assembled *s = (const struct assembled *)src;
    for (size_t i = 0; i < s->index.count[0]; i++)
        source_advise_sequential(s->location[i].src);
}

static void assembled_close(source *src)
{
    struct assembled *s = (struct assembled *)src;
    for (size_t i = 0; i < s->index.count[0]; i++)
        source_unref(s->location[i].src);
    free(s);
}

static const struct source_ops assembled_ops = {
    .read_at = assembled_read, .close = assembled_close, .advise_sequential = assembled_advise};

/* ------------------------------------------------------------------------ input */

/* The pieces while they are checked and the index is built. */
struct pieces_builder {
    const struct pieces *pieces;
    arena *a;
    ckpt_error *err;
    uint64_t nbytes;
    uint32_t *order; /* numbers of the pieces that are not empty, sorted by the offsets of their boxes */
    size_t nboxes;   /* length of ORDER */
    bool row_major;  /* each piece is stored row-major, without gaps */
    struct group group[BOX_DIMS]; /* the innermost first */
    uint32_t ngroups;
};

/* name_box - writes "[2:4, :]" to TEXT for the box at OFFSET with SIZE; "[4, 8]" if OFFSET is NULL. */
static const char *name_box(const struct pieces *pieces, const uint64_t *offset, const uint64_t *size,
                            char text[256])
{
    buf b;
    buf_init(&b, 1u << 16);
    for (uint32_t k = 0; k < pieces->ndim; k++) {
        buf_put_cstr(&b, k ? ", " : "");
        if (!offset)
            buf_printf(&b, "%" PRIu64, size[k]);
        else if (offset[k] == 0 && size[k] == pieces->shape[k])
            buf_put_cstr(&b, ":");
        else
            buf_printf(&b, "%" PRIu64 ":%" PRIu64, offset[k], size_add(offset[k], size[k]));
    }
    buf_byte(&b, 0);
    (void)snprintf(text, 256, "[%.200s]", buf_ok(&b) ? (const char *)b.data : "");
    buf_free(&b);
    return text;
}

/* name_piece - writes "piece 3 [2:4, :]". */
static const char *name_piece(const struct pieces_builder *builder, size_t index, char text[300])
{
    char box[256];
    const struct piece *c = &builder->pieces->piece[index];
    (void)snprintf(text, 300, "piece %zu %s", index, name_box(builder->pieces, c->offset, c->size, box));
    return text;
}

static ckpt_status measure_tensor(struct pieces_builder *builder)
{
    const struct pieces *p = builder->pieces;
    if (p->ndim > BOX_DIMS - 1 || p->n >= UINT32_MAX)
        return fail(builder->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "it has {%u dimensions, %zu pieces}; {=%u and %u} can be read", p->ndim, p->n,
                    BOX_DIMS - 1, UINT32_MAX - 1);
    if (p->width == 0 || (checked_product(p->shape, p->ndim, &builder->nbytes) &&
                          checked_mul(builder->nbytes, p->width, &builder->nbytes)))
        return CKPT_OK;
    return fail(builder->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{the product of its %u sizes} does not fit {=64 bits}", p->ndim);
}

/* compute_byte_strides - computes the strides in bytes of PIECE, which is not empty. Sets *SPAN to the bytes
 * from the start of its first element to the end of its last. False: more than 64 bits. */
static bool compute_byte_strides(const struct pieces *pieces, const struct piece *piece, uint64_t *stride,
                                 uint64_t *span)
{
    uint64_t run = pieces->width, reach, last = 0;
    for (uint32_t k = pieces->ndim; COUNT_DOWN(k); run *= piece->size[k]) {
        stride[k] = run;
        if (!piece->stride || piece->size[k] == 1)
            reach = (piece->size[k] - 1) * run;
        else if (!checked_mul(piece->stride[k], pieces->width, &stride[k]) ||
                 !checked_mul(stride[k], piece->size[k] - 1, &reach))
            return false;
        if (!checked_add(last, reach, &last))
            return false;
    }
    return checked_add(last, pieces->width, span);
}

static bool is_row_major(const struct pieces *pieces, const struct piece *piece, const uint64_t *stride)
{
    uint64_t run = pieces->width;
    for (uint32_t k = pieces->ndim; COUNT_DOWN(k); run *= piece->size[k])
        if (stride[k] != run)
            return false;
    return true;
}

static ckpt_status check_bytes(struct pieces_builder *builder, size_t index)
{
    uint64_t stride[BOX_DIMS], span = 0;
    const struct piece *c = &builder->pieces->piece[index];
    char text[300];
    if (!compute_byte_strides(builder->pieces, c, stride, &span))
        return fail(builder->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "the strides of %s reach {beyond} {=2^64 bytes}", name_piece(builder, index, text));
    builder->row_major = builder->row_major && is_row_major(builder->pieces, c, stride);
    return range_within(c->at, span, c->src->size)
               ? CKPT_OK
               : fail(builder->err, CKPT_ETRUNCATED, source_pos(c->src, c->at),
                      "%s needs {=%" PRIu64 " bytes}, {%" PRIu64 "} are left",
                      name_piece(builder, index, text), span,
                      c->at < c->src->size ? c->src->size - c->at : 0);
}

/* check_piece - fails unless piece INDEX is in the tensor and its bytes are in its source. Adds it to
 * builder->order, unless it is empty. */
static ckpt_status check_piece(struct pieces_builder *builder, size_t index)
{
    const struct pieces *p = builder->pieces;
    const struct piece *c = &p->piece[index];
    bool is_empty = p->width == 0;
    char text[300], all[256];
    for (uint32_t k = 0; k < p->ndim; k++) {
        if (!range_within(c->offset[k], c->size[k], p->shape[k]))
            return fail(builder->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%s} is not inside of the tensor {=%s}",
                        name_piece(builder, index, text), name_box(p, NULL, p->shape, all));
        is_empty = is_empty || c->size[k] == 0;
    }
    if (is_empty)
        return CKPT_OK;
    builder->order[builder->nboxes++] = (uint32_t)index;
    return check_bytes(builder, index);
}

/* --------------------------------------------------- sorting boxes in row-major order */

static int compare_numbers(const uint64_t *left, const uint64_t *right, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (left[k] != right[k])
            return left[k] < right[k] ? -1 : 1;
    return 0;
}

static int compare_boxes(const struct pieces *pieces, uint32_t left, uint32_t right)
{
    int by_offset = compare_numbers(pieces->piece[left].offset, pieces->piece[right].offset, pieces->ndim);
    return by_offset ? by_offset
                     : compare_numbers(pieces->piece[left].size, pieces->piece[right].size, pieces->ndim);
}

/* merge_runs - merges the sorted runs [FROM, MID) and [MID, END) of ORDER into OUT, stably. */
static void merge_runs(const struct pieces *pieces, const uint32_t *order, size_t from, size_t mid,
                       size_t end, uint32_t *out)
{
    size_t i = from, j = mid;
    for (size_t k = from; k < end; k++)
        out[k] = j == end || (i < mid && compare_boxes(pieces, order[i], order[j]) <= 0) ? order[i++]
                                                                                         : order[j++];
}

/* sort_boxes - sorts the boxes by merging, in n log n steps for any order. Usually they are sorted
 * already. False: no memory. */
static bool sort_boxes(struct pieces_builder *builder)
{
    bool sorted = true;
    for (size_t i = 1; i < builder->nboxes && sorted; i++)
        sorted = compare_boxes(builder->pieces, builder->order[i - 1], builder->order[i]) <= 0;
    uint32_t *from = builder->order, *to = sorted ? NULL : malloc(builder->nboxes * sizeof *to), *buffer = to;
    if (sorted || !buffer)
        return sorted;
    for (size_t run = 1; run < builder->nboxes; run *= 2) {
        for (size_t at = 0; at < builder->nboxes; at += 2 * run) {
            size_t mid = builder->nboxes - at < run ? builder->nboxes : at + run,
                   end = builder->nboxes - mid < run ? builder->nboxes : mid + run;
            merge_runs(builder->pieces, from, at, mid, end, to);
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != builder->order)
        memcpy(builder->order, from, builder->nboxes * sizeof *from);
    free(buffer);
    return true;
}

/* drop_replicas - keeps the first of the pieces with the same box. */
static void drop_replicas(struct pieces_builder *builder)
{
    size_t n = 0;
    for (size_t i = 0; i < builder->nboxes; i++)
        if (n == 0 || compare_boxes(builder->pieces, builder->order[n - 1], builder->order[i]) != 0)
            builder->order[n++] = builder->order[i];
    builder->nboxes = n;
}

/* ----------------------------------------------------------- groups of dimensions */

static bool all_pieces_span_dim(const struct pieces_builder *builder, uint32_t index)
{
    for (size_t i = 0; i < builder->nboxes; i++)
        if (builder->pieces->piece[builder->order[i]].size[index] != builder->pieces->shape[index])
            return false;
    return true;
}

/* continues_group - returns true if dimension INDEX can join group GROUP: in each piece as it is stored, the
 * bytes from one index of INDEX to the next are those of all of GROUP. */
static bool continues_group(const struct pieces_builder *builder, uint32_t index, const struct group *group)
{
    bool continues = true;
    for (size_t i = 0; !builder->row_major && continues && i < builder->nboxes; i++) {
        uint64_t stride[BOX_DIMS], span;
        const struct piece *c = &builder->pieces->piece[builder->order[i]];
        (void)compute_byte_strides(builder->pieces, c, stride, &span);
        uint64_t step = group->last_dim == NO_DIM ? 1 : stride[group->last_dim];
        continues = c->size[index] == 1 || stride[index] == step * group->steps;
    }
    return continues;
}

/* group_dims - puts the dimensions, except those of size 1, into as few groups as possible. */
static void group_dims(struct pieces_builder *builder)
{
    const struct pieces *p = builder->pieces;
    struct group g = {NO_DIM, NO_DIM, 1, p->width};
    bool joinable = true; /* each piece spans all of g.first_dim */
    for (uint32_t k = p->ndim; COUNT_DOWN(k);) {
        uint64_t size = p->shape[k];
        if (size == 1)
            continue;
        if (joinable && continues_group(builder, k, &g)) {
            g = (struct group){k, g.last_dim, g.steps, g.steps * size};
        } else {
            builder->group[builder->ngroups++] = g; /* BOX_DIMS - 1 dimensions and the bytes */
            g = (struct group){k, k, 1, size};
        }
        joinable = all_pieces_span_dim(builder, k);
    }
    builder->group[builder->ngroups++] = g;
}

/* convert_box - sets BOX to the bounds of PIECE in steps of the groups. */
static void convert_box(const struct pieces_builder *builder, const struct piece *piece, uint64_t *box)
{
    for (uint32_t j = 0, n = builder->ngroups; j < n; j++) {
        const struct group *g = &builder->group[n - 1 - j];
        box[j] = g->first_dim == NO_DIM ? 0 : piece->offset[g->first_dim] * g->first_steps;
        box[n + j] = g->first_dim == NO_DIM ? g->steps : box[j] + piece->size[g->first_dim] * g->first_steps;
    }
}

/* convert_strides - sets TO, by group, to the bytes from one step to the next where PIECE is stored. */
static void convert_strides(const struct pieces_builder *builder, const struct piece *piece, uint64_t *to)
{
    uint64_t stride[BOX_DIMS], span;
    (void)compute_byte_strides(builder->pieces, piece, stride, &span);
    for (uint32_t j = 0, n = builder->ngroups; j < n; j++) {
        uint32_t last = builder->group[n - 1 - j].last_dim;
        to[j] = last == NO_DIM ? 1 : stride[last];
    }
}

/* fill_index - fills the index with the boxes in their order, and where the bytes of each are. */
static ckpt_status fill_index(struct pieces_builder *builder, struct assembled *assembled)
{
    size_t n = builder->nboxes, dims = builder->ngroups;
    uint64_t *box = arena_array(builder->a, n, 2 * dims * sizeof *box);
    uint64_t *stride = builder->row_major ? NULL : arena_array(builder->a, n, dims * sizeof *stride);
    assembled->location = arena_array(builder->a, n, sizeof *assembled->location);
    assembled->piece_number = builder->order;
    assembled->box_strides = stride;
    if (!box || (!builder->row_major && !stride) || !assembled->location)
        return fail_memory(builder->err);
    for (size_t i = 0; i < n; i++) {
        const struct piece *c = &builder->pieces->piece[builder->order[i]];
        convert_box(builder, c, box + i * 2 * dims);
        if (stride)
            convert_strides(builder, c, stride + i * dims);
        assembled->location[i] = (struct location){c->src, c->at};
        assembled->as_source.serializes_reads = assembled->as_source.serializes_reads ||
                                                c->src->serializes_reads;
    }
    assembled->ndim = builder->ngroups;
    for (uint32_t k = assembled->ndim, j = 0; COUNT_DOWN(k); j++)
        assembled->dim_steps[k] = builder->group[j].steps;
    assembled->step_bytes[assembled->ndim - 1] = 1;
    for (uint32_t k = assembled->ndim - 1; COUNT_DOWN(k);)
        assembled->step_bytes[k] = assembled->step_bytes[k + 1] * assembled->dim_steps[k + 1];
    return box_index_init(&assembled->index, builder->a, assembled->ndim, box, n) ? CKPT_OK
                                                                                  : fail_memory(builder->err);
}

/* -------------------------------------------------------------------------- checks */

static ckpt_status fail_too_irregular(const struct pieces_builder *builder)
{
    return fail(builder->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "its {%zu pieces} are cut {=too irregularly} to see whether they cover it", builder->nboxes);
}

static ckpt_status check_overlap(struct pieces_builder *builder, struct assembled *assembled)
{
    size_t a, b;
    char name_a[300], name_b[300];
    enum box_finding found = box_find_overlap(&assembled->index, &a, &b);
    if (found == BOX_TOO_IRREGULAR)
        return fail_too_irregular(builder);
    assembled->overlap = found == BOX_FOUND;
    if (assembled->overlap && builder->pieces->must_agree)
        return CKPT_OK; /* see check_agreement */
    return !assembled->overlap || builder->pieces->may_overlap
               ? CKPT_OK
               : fail(builder->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                      "%s {overlaps} %s, but {=each element} must be in one piece",
                      name_piece(builder, builder->order[b], name_b),
                      name_piece(builder, builder->order[a], name_a));
}

/* ----------------------------------------------------------------------- agreement */

#define COMPARED_BYTES ((size_t)64 << 10) /* of the tensor at a time */
#define MAX_COVERS     16u /* times that the pieces may cover the tensor on average, where they must agree */

/* The buffers of a comparison: bytes of the tensor, of one piece, and which of the tensor's are known. */
struct agreement {
    unsigned char tensor[COMPARED_BYTES], piece[COMPARED_BYTES];
    bool known[COMPARED_BYTES];
    struct gather gather;
};

/* take_bytes - takes over the elements of all->gather, which were copied to all->piece from byte AT on.
 * False: the tensor has other bytes there. */
static bool take_bytes(struct agreement *all, uint64_t at)
{
    uint64_t index[BOX_DIMS] = {0};
    const struct gather *g = &all->gather;
    for (;;) {
        for (uint64_t i = at; i < at + g->width; i++) {
            if (all->known[i] && all->tensor[i] != all->piece[i])
                return false;
            all->tensor[i] = all->piece[i];
            all->known[i] = true;
        }
        uint32_t k = 0;
        for (; k < g->ndim; k++) {
            at += g->dim[k].out_stride * g->width;
            if (++index[k] < g->dim[k].size)
                break;
            at -= g->dim[k].size * g->dim[k].out_stride * g->width;
            index[k] = 0;
        }
        if (k == g->ndim)
            return true;
    }
}

/* compare_box - reads all pieces in BOX, of COUNT bytes, if there are several; fails if two of them
 * differ. */
static ckpt_status compare_box(struct pieces_builder *builder, const struct assembled *assembled,
                               const uint64_t *box, size_t count, struct agreement *all)
{
    struct box_search search;
    size_t i;
    char name[300];
    box_search_begin(&search, &assembled->index, box);
    if (!box_search_next(&search, &i) || !box_search_next(&search, &i))
        return CKPT_OK;
    memset(all->known, 0, count);
    box_search_begin(&search, &assembled->index, box);
    while (box_search_next(&search, &i)) {
        uint64_t to = get_intersection(assembled, i, box, &all->gather);
        CKPT_TRY(gather_copy(&all->gather, all->piece + to, builder->err));
        if (!take_bytes(all, to))
            return fail(builder->err, CKPT_EFORMAT, source_pos(all->gather.src, all->gather.data_offset),
                        "%s overlaps another with {different bytes}; where pieces overlap, they must have "
                        "{=equal bytes}",
                        name_piece(builder, assembled->piece_number[i], name));
    }
    return CKPT_OK;
}

/* check_agreement - fails unless pieces that overlap have equal bytes there. */
static ckpt_status check_agreement(struct pieces_builder *builder, const struct assembled *assembled)
{
    uint64_t sum = 0, box[2 * BOX_DIMS], max = size_mul(builder->nbytes, MAX_COVERS);
    for (size_t i = 0; i < builder->nboxes; i++)
        sum = size_add(sum, box_volume(box_at(&assembled->index, i), assembled->ndim));
    if (sum > max)
        return fail(builder->err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "its pieces have {%" PRIu64 " bytes} together; {=%u times} its size can be compared", sum,
                    MAX_COVERS);
    struct agreement *all = calloc(1, sizeof *all);
    CKPT_TRY_ALLOC(all, builder->err);
    ckpt_status st = CKPT_OK;
    for (uint64_t at = 0; st == CKPT_OK && at < builder->nbytes;) {
        uint64_t left = builder->nbytes - at,
                 n = next_box(assembled, at, left < COMPARED_BYTES ? left : COMPARED_BYTES, box);
        st = compare_box(builder, assembled, box, (size_t)n, all);
        at += n;
    }
    gather_free(&all->gather);
    free(all);
    return st;
}

/* covers_all - returns true if the boxes, which do not overlap, cover the whole tensor. */
static bool covers_all(const struct pieces_builder *builder, const struct assembled *assembled)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < builder->nboxes; i++)
        sum += box_volume(box_at(&assembled->index, i), assembled->ndim);
    return sum == builder->nbytes;
}

/* fail_hole - reports that no piece covers HOLE, whose bounds are in steps of the groups. */
static ckpt_status fail_hole(const struct pieces_builder *builder, const uint64_t *hole)
{
    const struct pieces *p = builder->pieces;
    uint64_t offset[BOX_DIMS] = {0}, size[BOX_DIMS];
    char text[256], all[256];
    memcpy(size, p->shape, p->ndim * sizeof *size);
    for (uint32_t j = 0, n = builder->ngroups; hole && j < n; j++) {
        const struct group *g = &builder->group[n - 1 - j];
        if (g->first_dim == NO_DIM)
            continue;
        offset[g->first_dim] = hole[j] / g->first_steps;
        size[g->first_dim] = (hole[n + j] - hole[j]) / g->first_steps;
    }
    return fail(builder->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no piece} has {=%s} of %s",
                name_box(p, offset, size, text), name_box(p, NULL, p->shape, all));
}

static ckpt_status check_holes(struct pieces_builder *builder, const struct assembled *assembled)
{
    uint64_t whole[2 * BOX_DIMS] = {0}, hole[2 * BOX_DIMS];
    if (builder->pieces->fill || (!assembled->overlap && covers_all(builder, assembled)))
        return CKPT_OK;
    memcpy(whole + assembled->ndim, assembled->dim_steps, assembled->ndim * sizeof *whole);
    switch (box_find_hole(&assembled->index, whole, hole)) {
    case BOX_NONE: return CKPT_OK;
    case BOX_FOUND: return fail_hole(builder, hole);
    case BOX_NO_MEMORY: return fail_memory(builder->err);
    default: return fail_too_irregular(builder);
    }
}

/* join_runs - joins neighbouring runs whose bytes also follow each other in their source. Box I, of one
 * dimension, is [box[2 * I], box[2 * I + 1]). */
static void join_runs(struct assembled *assembled)
{
    uint64_t *box = assembled->index.box[0];
    size_t n = 0;
    if (assembled->ndim != 1 || assembled->overlap || assembled->box_strides)
        return;
    for (size_t i = 0; i < assembled->index.count[0]; i++) {
        struct location *last = &assembled->location[n - (n > 0)];
        if (n && box[2 * n - 1] == box[2 * i] && assembled->location[i].src == last->src &&
            last->at + (box[2 * n - 1] - box[2 * n - 2]) == assembled->location[i].at) {
            box[2 * n - 1] = box[2 * i + 1];
            continue;
        }
        assembled->location[n] = assembled->location[i];
        memmove(box + 2 * n++, box + 2 * i, 2 * sizeof *box);
    }
    assembled->index.count[0] = n;
}

/* compute_read_block - returns the block_size of the source: complete rows of the cut dimensions. */
static uint32_t compute_read_block(const struct assembled *assembled)
{
    uint32_t k = 0;
    if (assembled->ndim == 1)
        return 0;
    while (assembled->step_bytes[k] > BLOCK)
        k++;
    uint64_t rows = BLOCK - BLOCK % assembled->step_bytes[k];
    return (uint32_t)(rows < assembled->as_source.size ? rows : assembled->as_source.size);
}

/* take_sources - sets *OUT to ASSEMBLED, which is complete, with a reference to each of its sources; or frees
 * ASSEMBLED and sets *OUT to the only source, if that has the same bytes. */
static void take_sources(struct assembled *assembled, source **out, uint64_t *at)
{
    bool same_bytes = assembled->index.count[0] == 1 && assembled->ndim == 1 && !assembled->box_strides &&
                      !assembled->fill;
    *at = same_bytes ? assembled->location[0].at : 0;
    *out = same_bytes ? source_ref(assembled->location[0].src) : &assembled->as_source;
    for (size_t i = 0; !same_bytes && i < assembled->index.count[0]; i++)
        (void)source_ref(assembled->location[i].src);
    if (same_bytes)
        free(assembled);
}

static ckpt_status assemble_pieces(struct pieces_builder *builder, struct assembled *assembled)
{
    group_dims(builder);
    CKPT_TRY(fill_index(builder, assembled));
    CKPT_TRY(check_overlap(builder, assembled));
    CKPT_TRY(check_holes(builder, assembled));
    if (assembled->overlap && builder->pieces->must_agree)
        CKPT_TRY(check_agreement(builder, assembled));
    join_runs(assembled);
    if (assembled->index.count[0] < builder->nboxes &&
        !box_index_init(&assembled->index, builder->a, assembled->ndim, assembled->index.box[0],
                        assembled->index.count[0]))
        return fail_memory(builder->err);
    assembled->as_source.larger_is_better = assembled->box_strides &&
                                            assembled->dim_steps[assembled->ndim - 1] < MIN_RUN;
    assembled->as_source.block_size = compute_read_block(assembled) & SOURCE_BLOCK_MAX;
    return CKPT_OK;
}

static ckpt_status check_pieces(struct pieces_builder *builder)
{
    CKPT_TRY(measure_tensor(builder));
    builder->order = arena_array(builder->a, builder->pieces->n, sizeof *builder->order);
    CKPT_TRY_ALLOC(builder->order, builder->err);
    for (size_t i = 0; i < builder->pieces->n; i++)
        CKPT_TRY(check_piece(builder, i));
    CKPT_TRY_ALLOC(sort_boxes(builder), builder->err);
    if (builder->pieces->may_overlap)
        drop_replicas(builder);
    return CKPT_OK;
}

static ckpt_status make_source(struct pieces_builder *builder, struct assembled *assembled)
{
    const struct pieces *p = builder->pieces;
    unsigned char *element = p->fill ? arena_alloc(builder->a, p->width) : NULL;
    assembled->as_source = (source){
        .ops = &assembled_ops, .size = builder->nbytes, .position = CKPT_NO_OFFSET, .refs = 1};
    assembled->width = p->width;
    assembled->fill = element;
    if (p->fill && !element)
        return fail_memory(builder->err);
    if (element)
        memcpy(element, p->fill, p->width);
    return assemble_pieces(builder, assembled);
}

ckpt_status pieces_source(arena *a, const struct pieces *pieces, source **out, uint64_t *at, ckpt_error *err)
{
    struct pieces_builder x = {.pieces = pieces, .a = a, .err = err, .row_major = true};
    CKPT_TRY(check_pieces(&x));
    *at = 0;
    if (x.nbytes == 0) {
        *out = source_mem("", 0, CKPT_NO_OFFSET);
        return *out ? CKPT_OK : fail_memory(err);
    }
    struct assembled *s = calloc(1, sizeof *s);
    ckpt_status st = s ? make_source(&x, s) : fail_memory(err);
    if (st == CKPT_OK)
        take_sources(s, out, at);
    else
        free(s);
    return st;
}
