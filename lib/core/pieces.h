/* pieces.h - a tensor in pieces, as many ranks or a chunked format write it: a source of its row-major bytes,
 * assembled from boxes that are stored apart. It is read at any position, by several threads at a time, and a
 * read takes 256 KiB of memory, or 1.3 MiB for narrow columns, whatever the tensor's size. */
#ifndef CORE_PIECES_H
#define CORE_PIECES_H

#include "base/arena.h"
#include "io/source.h"

struct piece {
    const uint64_t *offset, *size; /* of its box in the tensor, by dimension */
    const uint64_t *stride; /* in elements of SRC, where the box is stored; NULL: row-major, without gaps */
    source *src;
    uint64_t at; /* byte of SRC where the first element of the box is */
};

struct pieces {
    const uint64_t *shape;
    uint32_t ndim;
    uint32_t width; /* bytes of an element; of packed types the block, which the last size then counts */
    const struct piece *piece;
    size_t n;
    bool may_overlap; /* where pieces overlap, the first of them counts; else that is an error */
    const void *fill; /* an element: what no piece covers; NULL: that is an error */
};

/* pieces_source - *OUT has the tensor from byte *AT on: a source made for it, whose index is in A, or that of
 * the only piece. Refuses a piece that is not inside of the tensor, or whose bytes are not inside of its
 * source (CKPT_ETRUNCATED), pieces that overlap, and a tensor that they do not cover; errors name pieces by
 * number and boxes as Python slices. Of P nothing is kept but the sources, with a reference to each. */
ckpt_status pieces_source(arena *a, const struct pieces *p, source **out, uint64_t *at, ckpt_error *err);

#endif
