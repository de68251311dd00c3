/* stream.h - reads the elements of a tensor of any strides in chunks: in row-major order, without gaps,
 * little-endian, with conj and neg applied. Errors do not name the tensor: the caller adds the name
 * that it uses (error_add_where). */
#pragma once

#include "core/table.h"
#include "io/window.h"

#define STREAM_CHUNK     (256u * 1024u) /* bytes that callers read at a time */
#define STREAM_BLOCK_MAX 512u           /* maximum bytes of an element or block (dtype.def) */

typedef struct stream stream;

struct stream_options {
    bool ignore_crc;
    void (*notice)(void *user, const char *fmt, ...); /* for each wrong CRC that is ignored; may be NULL */
    void *user;
    struct window *window; /* the caller's window for the file; may be NULL */
};

/* stream_open - opens tensor ROW of TABLE. If the CRC of its storage is not checked yet, it is checked: while
 * the tensor is read, if that covers the storage; else by this function, which reads all of the storage. */
ckpt_status stream_open(struct table *table, uint32_t row, const struct stream_options *options, stream **out,
                        ckpt_error *err);
/* stream_open_range - opens elements [FIRST, FIRST + COUNT) of a tensor for which stream_can_split is true;
 * WINDOW as in stream_options.
 * The CRC of the storage is left to the caller: stream_crc returns the CRC of the range. */
ckpt_status stream_open_range(struct table *table, uint32_t row, uint64_t first, uint64_t count,
                              struct window *window, stream **out, ckpt_error *err);
/* stream_can_split - returns true if several threads can read ranges of tensor ROW: its elements are one
 * contiguous run and, if the CRC of the storage is not checked yet, cover the storage. */
bool stream_can_split(struct table *table, uint32_t row);
/* stream_crc - returns the CRC of the stored bytes read so far, if the storage has a CRC to check. */
uint32_t stream_crc(const stream *in);
/* stream_next - reads at most CAP bytes to OUT: whole elements or blocks, of at most STREAM_BLOCK_MAX bytes
 * each; of CKPT_DT_NAMED also a part of an element. *GOT is 0 at the end. */
ckpt_status stream_next(stream *in, void *out, size_t cap, size_t *got, ckpt_error *err);
void stream_close(stream *in);
/* stream_checks_crc - returns true if IN computes the CRC of its storage while reading, from bytes that it
 * returns unchanged. A caller that computes this CRC itself calls stream_defer_crc before reading, so that IN
 * does not compute it, and stream_finish_crc after the last byte. */
bool stream_checks_crc(const stream *in);
void stream_defer_crc(stream *in);
enum crc_kind stream_crc_kind(const stream *in); /* the kind of its storage's CRC */
/* stream_finish_crc - compares CRC with the recorded one; for a range, keeps it for stream_crc instead. */
ckpt_status stream_finish_crc(stream *in, uint32_t crc, ckpt_error *err);
/* stream_read - reads COUNT elements, or bytes of packed types, from FIRST; checks no CRC. */
ckpt_status stream_read(struct table *table, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err);
/* stream_read_tensor - does so for TENSOR, which TABLE need not have any more, but its storage. */
ckpt_status stream_read_tensor(struct table *table, const ckpt_tensor *tensor, uint64_t first, uint64_t count,
                               void *out, ckpt_error *err);
/* stream_borrow - sets *OUT to the *NBYTES bytes of tensor ROW where they are stored; CKPT_EUNSUPPORTED if
 * they must be copied. Computes no CRC. */
ckpt_status stream_borrow(struct table *table, uint32_t row, const void **out, size_t *nbytes,
                          ckpt_error *err);
/* storage_compare_crc - compares CRC, computed over all of STORAGE, with the recorded one, if any. */
ckpt_status storage_compare_crc(struct storage *storage, uint32_t crc, const struct stream_options *options,
                                ckpt_error *err);
/* stream_check_limit - returns CKPT_ELIMIT if TENSOR has more bytes than its storage, and all such tensors
 * together exceed max_expanded. This limits the work that a few bytes of a file can cause. Only reading all
 * of TENSOR is limited; a range of TENSOR can be read. */
ckpt_status stream_check_limit(const struct table *table, const ckpt_tensor *tensor, ckpt_error *err);
/* storage_check_crc - checks the CRC of storage NUMBER, if that is not done yet, by reading all of it. */
ckpt_status storage_check_crc(struct table *table, uint32_t number, const struct stream_options *options,
                              ckpt_error *err);
