/* dcp.h - declarations for the files that read a Distributed Checkpoint of torch. A .distcp file has items,
 * one after the other. Each is a complete torch.save archive of a value or of one chunk of a tensor, such
 * as rows 0 to 511 of an embedding whose other rows rank 1 has saved. */
#pragma once

#include <stdatomic.h>

#include "format/parts/sharded_tensors.h"

/* ---- the tensor items (dcp_items.c)
 *
 * All of them together are one source: the row-major bytes of the chunks, one after the other. An archive is
 * opened when bytes of its chunk are read. */

/* The item of one chunk. */
struct dcp_item {
    uint64_t file_offset, length; /* of the archive in its file */
    uint64_t source_offset;       /* of the bytes of the chunk in the source */
    const uint64_t *size;         /* of the chunk, by dimension */
    uint32_t file;                /* index into dcp_items.files */
    uint32_t tensor : 31;         /* index into dcp_items.tensors */
    uint32_t is_zstd : 1;         /* the archive is one zstd frame */
    uint32_t crc;                 /* of the chunk, if HAS_CRC; valid once DATA_POSITION is set */
    bool has_crc;
    atomic_bool crc_checked;        /* all bytes of the chunk were read and match crc */
    _Atomic uint64_t data_position; /* 1 + offset of the chunk's bytes in the file; 0: not known yet */
};

struct dcp_items {
    struct dcp_item *items;
    size_t nitems;
    const struct joined_tensor *tensors;
    ckpt_file *const *files;     /* only src and path are used; NULL: a missing file, without items */
    uint64_t nbytes;             /* bytes of the source */
    const ckpt_file *checkpoint; /* whose limits and ignore_crc apply */
};

/* dcp_items_source - returns a source of ITEMS, whose arrays must outlive the source. NULL: no memory.
 * Errors of reading the source do not name the tensor, because its reader does. */
source *dcp_items_source(const struct dcp_items *items);
/* dcp_unpack_zstd - replaces *SRC, a zstd frame, by a source of its content. Refuses content of more than
 * MAX_BYTES bytes. Releases the frame in any case, and sets *SRC to NULL on failure. */
ckpt_status dcp_unpack_zstd(source **src, uint64_t max_bytes, ckpt_error *err);
/* dcp_items_check - opens the archive of item INDEX of ITEMS_SOURCE and refuses it if its tensor is not the
 * chunk that the metadata describe. Compares the tensor with its checksum if COMPARE or if it is compressed,
 * and sets record->src to NULL; otherwise *RECORD is what to compare. No checksum: record->path is NULL. */
struct check_record;
ckpt_status dcp_items_check(source *items_source, size_t index, bool compare, struct check_record *record,
                            ckpt_error *err);
