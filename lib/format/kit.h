/* kit.h - what a format of named tensors is read with: its parser, and one call for each tensor.
 *
 *     static ckpt_status read(ckpt_file *f, ckpt_error *err)
 *     {
 *         struct kit k;
 *         CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
 *         return kit_end(&k, parse(&k));
 *     }
 *
 * where parse calls kit_add_tensor, and kit_add_value for what is no tensor. That makes rows, storages and
 * the graph that edits, writers, verify and salvage need. */
#ifndef FORMAT_KIT_H
#define FORMAT_KIT_H

#include "base/cursor.h"
#include "base/map.h"
#include "core/file.h"
#include "core/pieces.h"

/* A mapping that is being filled; the file's root, or one in it. */
struct kit {
    ckpt_file *f;
    ckpt_error *err; /* of everything that is done with it */
    ckpt_value *mapping;
    const ckpt_path_elem *path; /* of the mapping, with a step each */
    const struct step *steps;
    uint32_t npath;
    map *names;
};

#define KIT_AS_NEEDED UINT64_MAX

/* A tensor as a parser has it; what is 0 is not known or not so. Nothing of it is kept but the texts, which
 * live as long as the file, and references to sources. */
struct kit_tensor {
    ckpt_str name;
    ckpt_tensor t; /* dtype, ndim, shape; and stride, storage_offset, kind, parameter, note … where known */
    bool column_major; /* Fortran order, where t has no stride */
    bool big_endian;
    uint64_t entry;             /* absolute offset of its entry in the header */
    source *src;                /* of its storage; NULL: it has none, like a meta tensor */
    uint64_t at, nbytes;        /* where that is in SRC; KIT_AS_NEEDED: as many as dtype and shape take */
    ckpt_str key;               /* of its storage, which all tensors of that key share; empty: its own */
    const uint32_t *crc;        /* CRC-32 of all of its storage, or NULL */
    const struct piece *pieces; /* instead of SRC: where it lies in pieces … */
    size_t npieces;
    bool may_overlap; /* … and how, as in core/pieces.h */
    const void *fill;
};

/* kit_read_header - *C is over the N bytes at OFF of F's file, which are read and stay as long as F does;
 * they count for how much memory F may take. Refuses those that are not there, and more than the limit of
 * headers. */
ckpt_status kit_read_header(ckpt_file *f, uint64_t off, uint64_t n, cursor *c, ckpt_error *err);
/* kit_begin - K fills ROOT, which becomes the file's root; NULL: there was no memory for it. */
ckpt_status kit_begin(struct kit *k, ckpt_file *f, ckpt_value *root, ckpt_error *err);
/* kit_begin_mapping - K fills a new dict, which is the value of KEY in that of PARENT. */
ckpt_status kit_begin_mapping(struct kit *k, const struct kit *parent, ckpt_str key);
/* kit_end - what K filled is complete, or, with an ST other than CKPT_OK, never will be. Returns ST
 * where that is an error. */
ckpt_status kit_end(struct kit *k, ckpt_status st);
/* kit_add_tensor - refuses bytes that SRC does not have, a size in bytes that is not that of dtype and shape,
 * a view that leaves its storage, a name that was there already. Where the file is checked, that is reported
 * and the row has no data; where it is salvaged, the tensor is lost. */
ckpt_status kit_add_tensor(struct kit *k, const struct kit_tensor *t);
/* kit_add_value - V, which is no tensor, as the value of KEY. */
ckpt_status kit_add_value(struct kit *k, ckpt_str key, ckpt_value *v);
/* kit_strides - of N sizes whose product fits 64 bits, row-major or COLUMN_MAJOR, in A; NULL: no memory. */
uint64_t *kit_strides(arena *a, const uint64_t *shape, uint32_t n, bool column_major);

#endif
