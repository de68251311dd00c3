/* kit.h - for formats of named tensors: the parser of the format calls kit_add_tensor for each tensor.
 *
 *     static ckpt_status read(ckpt_file *f, ckpt_error *err)
 *     {
 *         struct kit k;
 *         CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
 *         return kit_end(&k, parse(&k));
 *     }
 *
 * where parse calls kit_add_tensor, and kit_add_value for what is no tensor. This makes the rows, storages
 * and graph that edits, writers, verify and salvage need. */
#ifndef FORMAT_KIT_H
#define FORMAT_KIT_H

#include "base/cursor.h"
#include "base/map.h"
#include "core/file.h"
#include "core/pieces.h"

/* A mapping that is being filled: the root of the file, or one below it. A root may also be a LIST, whose
 * items have no names, or a TENSOR, which then is the only one. */
struct kit {
    ckpt_file *f;
    ckpt_error *err; /* for all calls with this kit */
    ckpt_value *mapping;
    const ckpt_path_elem *path; /* of the mapping, with a step each */
    const struct step *steps;
    uint32_t npath;
    map *names;
};

#define KIT_AS_NEEDED UINT64_MAX

/* A tensor as the parser found it; fields that do not apply are 0. The texts must live as long as the file;
 * nothing else is kept, except references to sources. */
struct kit_tensor {
    ckpt_str name;
    /* dtype, ndim, shape; of CKPT_DT_NP dtype_name and nbytes; and stride, storage_offset, kind, parameter,
     * note … where known */
    ckpt_tensor t;
    bool column_major; /* Fortran order, where t has no stride */
    bool big_endian;
    uint8_t swap_bytes; /* of CKPT_DT_NP: the width of the unit that big_endian applies to; 1: it does not */
    uint64_t entry;     /* file offset of its entry in the header */
    source *src;        /* of its storage; NULL: it has none, like a meta tensor */
    const struct storage_more *in; /* the other file that SRC is, or NULL */
    uint64_t at, nbytes;           /* its range in SRC; KIT_AS_NEEDED: the size of dtype and shape */
    ckpt_str key;                  /* of its storage, which all tensors of that key share; empty: its own */
    const uint32_t *crc;           /* CRC-32 of all of its storage, or NULL … */
    bool is_crc32c;                /* … or its CRC-32C */
    const struct piece *pieces;    /* instead of SRC: the pieces it is stored in … */
    size_t npieces;
    const ckpt_error *lost; /* instead of SRC: salvage, why its bytes cannot be read; or NULL */
    bool may_overlap;       /* … and how, as in core/pieces.h */
    const void *fill;
    uint32_t width;     /* bytes of an element, of CKPT_DT_NP in pieces */
    bool checks_itself; /* SRC or the pieces compare checksums when they are read */
    bool has_no_shape;  /* it has no elements, and is no scalar either */
};

/* kit_read_header - reads the N bytes at OFF of F's file, which live as long as F, and sets *C to them;
 * they count towards the memory that F may use. Fails if they are not all there, or exceed the limit of
 * headers. */
ckpt_status kit_read_header(ckpt_file *f, uint64_t off, uint64_t n, cursor *c, ckpt_error *err);
/* kit_begin - K fills ROOT, which becomes the file's root; NULL: out of memory. */
ckpt_status kit_begin(struct kit *k, ckpt_file *f, ckpt_value *root, ckpt_error *err);
/* kit_begin_mapping - K fills a new dict, the value of KEY in the mapping of PARENT. */
ckpt_status kit_begin_mapping(struct kit *k, const struct kit *parent, ckpt_str key);
/* kit_end - ends the mapping of K, with the status ST of filling it, which is returned if it is an error. */
ckpt_status kit_end(struct kit *k, ckpt_status st);
/* kit_add_tensor - fails if SRC does not have the bytes, if their number is not that of dtype and shape, if
 * a view exceeds its storage, or if the name exists. If the file is being checked, that is reported and the
 * row has no data; if it is being salvaged, the tensor is lost. */
ckpt_status kit_add_tensor(struct kit *k, const struct kit_tensor *t);
/* kit_add_faulty - for T, which could not be added because of the fault ST, that of K's error, which gets the
 * name of T: reports it where the file is checked, adds T as lost where it is salvaged, else returns ST. */
ckpt_status kit_add_faulty(struct kit *k, struct kit_tensor *t, ckpt_status st);
/* kit_add_value - adds V, which is no tensor, as the value of KEY; the items of a list are values of their
 * own, as in a pickle. */
ckpt_status kit_add_value(struct kit *k, ckpt_str key, ckpt_value *v);
/* kit_strides - the strides of N sizes whose product fits 64 bits, row-major or COLUMN_MAJOR, in A; NULL:
 * no memory. */
uint64_t *kit_strides(arena *a, const uint64_t *shape, uint32_t n, bool column_major);

#endif
