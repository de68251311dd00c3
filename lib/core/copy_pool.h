/* copy_pool.h - tensors on their way into a sink, by several threads, for the writer of any format: it
 * lists what goes where, and calls copy_items. */
#ifndef CORE_COPY_POOL_H
#define CORE_COPY_POOL_H

#include "base/buf.h"
#include "core/convert.h"
#include "core/file.h"
#include "core/stream.h"
#include "io/sink.h"

/* What is copied: the elements of a row in row-major order, or all bytes of a storage. Either becomes
 * little-endian. The items of a job are all rows, or all storages. */
struct copy_item {
    struct storage *storage; /* no other item's; NULL: it is a row */
    uint32_t row;
    ckpt_dtype from, to; /* differ where elements are converted, by a way that conversion_init has */
    uint64_t offset;     /* in the sink, of room that was skipped */
    uint64_t crc_offset; /* where the sink gets the CRC-32 of what was written; 0: nowhere */
    ckpt_str name;       /* where errors of reading it are; .len 0: nothing is named */
};

struct copy_job {
    ckpt_file *file; /* of all items; NULL: storages of none */
    struct stream_options reading;
    sink *out; /* NULL: a rehearsal, which only reads what is converted or has a checksum to check */
    size_t n;
    struct copy_item (*item)(const void *user, size_t i); /* on any thread, often */
    /* put_header - bytes that end where item I begins; once, before it. NULL: there are none. */
    ckpt_status (*put_header)(const void *user, size_t i, buf *out, ckpt_error *err);
    const void *user;
    uint32_t *crcs;                    /* by item: CRC-32 of what was written; NULL: nothing is summed */
    struct convert_tally *tallies;     /* by item: what its conversion found; NULL: nothing is converted */
    uint64_t nbytes;                   /* of all items as written, for the progress */
    const ckpt_write_options *options; /* threads, progress and its user */
};

/* copy_items - all of them, whose order does not matter for what is written. A wrong checksum of what is
 * read, a row with other bytes than it should have and whatever the sink refuses are errors. */
ckpt_status copy_items(const struct copy_job *job, ckpt_error *err);
/* copy_rest - appends the bytes of F from FROM on to OUT; CKPT_ECHANGED where F is another by now. */
ckpt_status copy_rest(ckpt_file *f, uint64_t from, sink *out, const ckpt_write_options *o, ckpt_error *err);

#endif
