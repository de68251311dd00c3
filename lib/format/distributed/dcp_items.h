/* dcp_items.h - the tensors of a distributed checkpoint as they are stored: complete torch.save archives, one
 * after the other in many files, each with one box of one tensor. All of them are one source: the row-major
 * bytes of each box, one box after the other. An archive is read when its bytes are wanted. */
#ifndef FORMAT_DISTRIBUTED_DCP_ITEMS_H
#define FORMAT_DISTRIBUTED_DCP_ITEMS_H

#include <stdatomic.h>

#include "core/file.h"

/* A tensor of which items have boxes. */
struct dcp_tensor_info {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim, width;
};

struct dcp_item {
    uint64_t file_offset, length; /* of the archive in its file */
    uint64_t source_offset;       /* of its bytes in the source */
    const uint64_t *size;         /* of its box */
    uint32_t file;                /* index of its file */
    uint32_t tensor : 31;
    uint32_t zstd : 1; /* the archive is one zstd frame */
    uint32_t crc;      /* of its bytes, HAS_CRC; known with place */
    bool has_crc;
    atomic_bool crc_checked;        /* all of its bytes were read, and have that CRC */
    _Atomic uint64_t data_position; /* one more than where the bytes are in the file; 0: not known yet */
};

struct dcp_items {
    struct dcp_item *item;
    size_t n;
    const struct dcp_tensor_info *tensor;
    ckpt_file *const *file;     /* by index: its src and path; NULL: missing, and none of ITEM is in it */
    uint64_t total;             /* bytes of the source */
    const ckpt_file *limits_of; /* whose limits count, and whether it ignores checksums */
};

/* dcp_items_source - a source of the items of X, whose arrays must live as long as the source; NULL: no
 * memory. */
source *dcp_items_source(const struct dcp_items *x);
/* dcp_unpack_zstd - what the zstd frame *SRC holds, in its place; refuses more than MOST bytes. Takes over the
 * reference, and leaves NULL where it fails. */
ckpt_status dcp_unpack_zstd(source **src, uint64_t most, ckpt_error *err);
/* dcp_items_check - reads the archive of item I of S: refuses one that does not hold what was promised. With
 * READ the bytes of its tensor are held against their checksum; else RECORD gets them, to be read, where they
 * lie in the file as they are. The path of RECORD is NULL where there is no checksum. */
struct check_record;
ckpt_status dcp_items_check(source *s, size_t i, bool read, struct check_record *record, ckpt_error *err);

#endif
