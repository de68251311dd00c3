/* kit.h - for formats of named tensors: the parser of the format calls kit_add_tensor for each tensor.
 *
 *     static ckpt_status read(ckpt_file *f, ckpt_error *err)
 *     {
 *         struct kit k;
 *         CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
 *         return kit_end(&k, parse(&k));
 *     }
 *
 * where parse calls kit_add_tensor, and kit_add_value for other values. These two make the rows, storages and
 * graph that edits, writers, verify and salvage need. */
#pragma once

#include "base/cursor.h"
#include "base/map.h"
#include "core/file.h"
#include "core/pieces.h"

/* A mapping that is being filled: the root of the file, or a dict below it. The root may also be a LIST,
 * whose items have no names, or a TENSOR, the only one of the file. */
struct kit {
    ckpt_file *f;
    ckpt_error *err; /* for all calls with this kit */
    ckpt_value *mapping;
    ckpt_path_elem *path; /* to the mapping, NPATH elements, and room for that of an entry */
    struct step *steps;   /* one for each element */
    uint32_t npath;
    map *names;        /* keys of the mapping */
    bool only_tensors; /* the caller adds nothing else and checks the names; an empty mapping is no value */
    ckpt_value *nodes; /* zeroed, for all tensors that will be added; NULL: each is allocated alone */
};

#define KIT_AS_NEEDED UINT64_MAX

/* A tensor as the parser found it; fields that do not apply are 0. Its texts must live as long as the file;
 * arrays are copied and sources referenced. */
struct kit_tensor {
    ckpt_str name;
    /* dtype, ndim, shape; dtype_name and nbytes if the dtype is CKPT_DT_NAMED; if known, stride,
     * storage_offset, kind, parameter, note …; name, if the joined name is in the arena with a NUL */
    ckpt_tensor t;
    bool column_major; /* Fortran order; ignored if t has strides */
    bool big_endian;
    uint8_t swap_bytes;                   /* for CKPT_DT_NAMED: bytes of a unit to reverse; 1: none */
    uint64_t described_at;                /* file offset of the tensor's description, for errors */
    source *src;                          /* has the storage; NULL: no storage, as for a meta tensor */
    const struct storage_extra *src_file; /* names the file of SRC; NULL: it is that of f */
    uint64_t src_offset;
    uint64_t nbytes;            /* from src_offset on; KIT_AS_NEEDED: as many bytes as dtype and shape take */
    ckpt_str key;               /* of the storage, which tensors with this key share; empty: not shared */
    const uint32_t *crc;        /* CRC-32 of the complete storage, or NULL */
    bool is_crc32c;             /* CRC is a CRC-32C */
    const struct piece *pieces; /* instead of SRC: the pieces that the tensor is stored in */
    size_t npieces;
    bool may_overlap;       /* as in struct pieces */
    const void *fill;       /* as in struct pieces */
    const ckpt_error *lost; /* instead of SRC, in salvage: why the bytes cannot be read; or NULL */
    uint32_t width;         /* of an element in pieces, in bytes: for CKPT_DT_NAMED, and with CONVERT */
    /* convert - makes of the pieces, which are from OFFSET of FROM on, a source of the NBYTES bytes that the
     * tensor has, or NULL if there is no memory; HOW is HOW_TO_CONVERT. NULL: the pieces have these bytes. */
    source *(*convert)(source *from, uint64_t offset, uint64_t nbytes, const void *how);
    const void *how_to_convert;
    bool checks_itself; /* reading SRC or the pieces compares checksums */
    bool has_no_shape;  /* the tensor has no shape, not even that of a scalar */
};

/* kit_read_metadata - reads the NBYTES bytes at OFF of SRC, such as a header or a JSON file, to *TEXT in the
 * arena of F, with a NUL after them. Raises the memory that F may use accordingly (file_raise_budget). Fails
 * if SRC does not have these bytes or NBYTES exceeds max_header of the limits. */
ckpt_status kit_read_metadata(ckpt_file *f, source *src, uint64_t off, uint64_t nbytes, ckpt_str *text,
                              ckpt_error *err);
/* kit_begin - makes ROOT the root of F and begins to fill it. ROOT NULL: fails for lack of memory. */
ckpt_status kit_begin(struct kit *kit, ckpt_file *f, ckpt_value *root, ckpt_error *err);
/* kit_begin_mapping - adds a new dict to the mapping of PARENT under KEY and begins to fill it. */
ckpt_status kit_begin_mapping(struct kit *kit, struct kit *parent, ckpt_str key);
/* kit_end - ends the mapping of KIT and returns ST, the result of filling it, or its own failure. */
ckpt_status kit_end(struct kit *kit, ckpt_status st);
/* kit_add_tensor - adds TENSOR to the mapping. Fails if SRC does not have the bytes, if dtype and shape take
 * a different number of bytes, if a view exceeds its storage, or if the name exists. `verify` reports a fault
 * of the bytes and adds a row without data instead; salvage adds a lost tensor. */
ckpt_status kit_add_tensor(struct kit *kit, const struct kit_tensor *tensor);
/* kit_add_faulty - handles TENSOR, which could not be parsed because of ST and kit->err; adds the name of
 * TENSOR to the error. If the name could not be read, its ptr is NULL, and TENSOR is named by its
 * described_at. If ST is a fault of the file (CKPT_EFORMAT, CKPT_ETRUNCATED, CKPT_ECHECKSUM), reports it in
 * `verify` and adds TENSOR as lost in salvage; else, and in all other commands, returns ST, and reading
 * ends. */
ckpt_status kit_add_faulty(struct kit *kit, struct kit_tensor *tensor, ckpt_status st);
/* kit_add_value - adds VALUE, which is not a tensor, under KEY. Each item of a list becomes a leaf, as in a
 * pickle. VALUE NULL: fails for lack of memory. */
ckpt_status kit_add_value(struct kit *kit, ckpt_str key, ckpt_value *value);
/* kit_add_other_value - does what kit_add_value does after all tensors were added; but if one of them is
 * called KEY, only adds a notice that VALUE is left out. */
ckpt_status kit_add_other_value(struct kit *kit, ckpt_str key, ckpt_value *value);
/* kit_strides - returns the strides, row-major or COLUMN_MAJOR, of the NDIM sizes SHAPE, allocated in A. The
 * product of the sizes must fit 64 bits. NULL: no memory. */
uint64_t *kit_strides(arena *a, const uint64_t *shape, uint32_t ndim, bool column_major);
