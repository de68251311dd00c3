/* compact.h - the tensors of a file that holds nothing but plain ones, in as few bytes as they can be told
 * in: some twenty and the name, where a row with its storage and its nodes takes five hundred. */
#ifndef CORE_COMPACT_H
#define CORE_COMPACT_H

#include "base/arena.h"
#include "ckpt.h"
#include "io/source.h"

/* One tensor. */
struct compact_row {
    ckpt_str name;       /* NUL-terminated once it is put */
    uint64_t begin, end; /* in the data */
    uint32_t at;         /* of its name in the header */
    uint32_t shape;      /* its sizes are sizes[shape] and those behind */
    uint32_t ndim;
    uint16_t dtype;
    bool bad; /* told to be, and nothing to read; put so, the name is all there is */
};

struct compact {
    unsigned char *bytes; /* the records */
    uint32_t *at;         /* where each begins */
    size_t n, cap;
    uint64_t *sizes; /* of all shapes; not NULL, also where all are scalars */
    size_t nsizes, cap_sizes;
    source *src; /* the file's; its bytes from DATA on are the data */
    uint64_t data;
};

/* compact_put - X as a record at BYTES + AT; the name may lie behind that and under the record. Returns where
 * it ends. */
size_t compact_put(unsigned char *bytes, size_t at, const struct compact_row *x);
void compact_get(const struct compact *p, size_t i, struct compact_row *x);
ckpt_str compact_name(const struct compact *p, size_t i);
void compact_spoil(struct compact *p, size_t i); /* record I is bad from now on; it keeps what it has */
/* compact_show, compact_show_storage - row I and its storage, of the same number, as ckpt.h has them. */
void compact_show(const struct compact *p, uint32_t i, ckpt_tensor *out);
void compact_show_storage(const struct compact *p, uint32_t i, ckpt_storage *out);

#endif
