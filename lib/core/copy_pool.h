/* copy_pool.h - copies tensors into a sink on several threads, for the writer of any format, which chooses
 * the items and their offsets in the sink, and calls copy_items. */
#pragma once

#include "base/buf.h"
#include "core/convert.h"
#include "core/file.h"
#include "core/stream.h"
#include "io/sink.h"

/* What is copied: the elements of a tensor in row-major order, or all bytes of a storage. Both are written
 * little-endian. The items of a job are all tensors, or all storages. */
struct copy_item {
    struct storage *storage; /* the storage to copy, which no other item has; NULL: ROW is copied */
    uint32_t row;
    uint64_t first,
        count; /* if COUNT is not 0: only these elements (of a storage: bytes), as in parallel_item */
    ckpt_dtype from, to; /* differ if elements are converted, by conversion_init_float_or_q8_0 */
    uint64_t offset;     /* in the sink, of element 0 as written; sink_skip has skipped the range */
    uint64_t crc_offset; /* sink offset of the CRC-32 of the written bytes; 0: none; needs .crcs of the job */
    ckpt_str name;       /* named in errors of reading the item; .len 0: none */
};

struct copy_job {
    ckpt_file *file; /* the file of all items; NULL: the storages are of no file */
    struct stream_options read_options;
    sink *out; /* NULL: a dry run; of the items, it reads those that are converted or have a checksum */
    size_t n;
    struct copy_item (*get_item)(const void *user, size_t i); /* called often, on any thread */
    /* put_header - appends to HEADER the bytes that end in the sink where item I begins; called once, before
     * the item is copied. NULL: no headers. */
    ckpt_status (*put_header)(const void *user, size_t i, buf *header, ckpt_error *err);
    const void *user;
    uint32_t *crcs;                    /* by item: CRC-32 of the written bytes; NULL: not needed */
    uint32_t *stored_crcs;             /* by item with a COUNT: CRC of its stored bytes, of the kind of its
                                        * storage, if that has one to check; NULL: not needed */
    struct convert_tally *tallies;     /* by item: results of its conversion; NULL: not needed */
    uint64_t nbytes;                   /* bytes of all items as written, for progress */
    const ckpt_write_options *options; /* threads, progress and its user */
};

/* copy_items - copies all items; their order does not affect the output. The caller calls
 * file_check_unchanged after it, once for all outputs. Fails on a wrong checksum, on a
 * tensor of the wrong size and on errors of the sink. */
ckpt_status copy_items(const struct copy_job *job, ckpt_error *err);
/* copy_file_tail - appends the bytes of F from FROM on to OUT; CKPT_ECHANGED if F changed meanwhile. */
ckpt_status copy_file_tail(ckpt_file *f, uint64_t from, sink *out, const ckpt_write_options *opts,
                           ckpt_error *err);
