/* pieces.h - makes a source of the row-major bytes of a tensor that many ranks, or a chunked format, wrote in
 * pieces: boxes that are stored apart. Several threads can read it at any position. Whatever the tensor's
 * size, a read allocates at most 320 KiB, and a list of the pieces to read if pieces overlap. */
#pragma once

#include "io/source.h"

struct piece {
    const uint64_t *offset, *size; /* by dimension: where its box begins in the tensor, and how large it is */
    const uint64_t *stride; /* in elements of SRC, where the box is stored; NULL: row-major, without gaps */
    source *src;
    uint64_t at; /* byte of SRC where the first element of the box is */
};

struct pieces {
    const uint64_t *shape;
    uint32_t ndim;
    uint32_t width; /* bytes of an element; for packed types, of a block: the last size counts blocks */
    const struct piece *piece;
    size_t n;
    bool may_overlap; /* where pieces overlap, the first one counts; false: an overlap is an error */
    bool must_agree;  /* pieces may overlap if they have the same bytes there, which pieces_source compares */
    const void *fill; /* the element that fills what no piece covers; NULL: a gap is an error */
};

/* pieces_source - sets *OUT to a source that has the tensor from byte *AT on: a new one, whose index is
 * allocated in A, or the source of the only piece. Refuses a piece that is not inside of the tensor, or
 * whose bytes are not inside of its source (CKPT_ETRUNCATED); and, unless PIECES allows them, overlaps and
 * gaps. Errors name pieces by number and boxes as Python slices. *OUT keeps nothing of PIECES but
 * references to the sources. */
ckpt_status pieces_source(arena *a, const struct pieces *pieces, source **out, uint64_t *at, ckpt_error *err);
