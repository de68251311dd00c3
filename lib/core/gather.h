/* gather.h - elements of a strided view in row-major order, read from a source
 * in few and large pieces whatever the strides are. */
#ifndef CORE_GATHER_H
#define CORE_GATHER_H

#include "core/table.h"

#define GATHER_DIMS 64 /* sizes above 1 whose product fits 64 bits */

struct gather_dim {
    uint64_t n;
    uint64_t stride; /* elements of the storage */
    uint64_t out;    /* elements of the output */
};

struct gather {
    source *src;
    uint64_t at;    /* byte of src where the view's first element lies */
    uint32_t width; /* bytes of an element, at most 64 */
    uint32_t ndim;  /* sizes of 1 left out, neighbours joined where they can be; outermost first */
    struct gather_dim dim[GATHER_DIMS];
    unsigned char *window; /* made on first use */
};

/* gather_init - the shape and strides of T; false: more than 2^64 elements. The
 * caller sets src, at and width and has checked the view against its storage. */
bool gather_init(struct gather *g, const ckpt_tensor *t);
void gather_free(struct gather *g);
/* gather_is_run - do the elements lie one behind the other? */
bool gather_is_run(const struct gather *g);
/* gather_period - after how many elements of the output they are the same again, to its end: a view that is
 * expanded in its outermost dimension; 0: never. */
uint64_t gather_period(const struct gather *g);
/* gather_block - how many bytes are best asked for at once, at most. */
size_t gather_block(const struct gather *g);
/* gather_read - COUNT elements from FIRST, which exist, into OUT. */
ckpt_status gather_read(struct gather *g, uint64_t first, uint64_t count, unsigned char *out,
                        ckpt_error *err);
/* gather_copy - all elements of G, whose dimensions may be in any order: each to its place in OUT, which DIM
 * states and between which there may be gaps. */
ckpt_status gather_copy(struct gather *g, unsigned char *out, ckpt_error *err);

#endif
