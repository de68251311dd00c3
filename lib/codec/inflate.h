/* inflate.h - inflates DEFLATE data, raw or wrapped as zlib or gzip, and writes raw DEFLATE. */
#pragma once

#include "io/sink.h"
#include "io/spool.h"

enum inflate_kind { INFLATE_RAW, INFLATE_ZLIB, INFLATE_GZIP };

/* A stream that is inflated part by part, and why a part of it ended. */
struct inflate_stream;
enum inflate_end { INFLATE_FULL, INFLATE_LAST, INFLATE_TRUNCATED, INFLATE_BROKEN };

/* inflate_begin - begins to inflate the NBYTES bytes at OFF of SRC; NULL: out of memory. SRC must outlive the
 * stream. */
struct inflate_stream *inflate_begin(source *src, uint64_t off, uint64_t nbytes, enum inflate_kind kind);
/* inflate_next - inflates at most NBYTES bytes to OUT, and sets *GOT to their number. INFLATE_LAST: the
 * stream ends after them; INFLATE_TRUNCATED: it should not end there; INFLATE_BROKEN: the next bytes are
 * malformed. Fails only if SRC cannot be read or memory runs out. */
ckpt_status inflate_next(struct inflate_stream *stream, unsigned char *out, size_t nbytes, size_t *got,
                         enum inflate_end *end, ckpt_error *err);
void inflate_free(struct inflate_stream *stream); /* NULL is allowed */

/* inflate_into - inflates the NBYTES bytes at OFF of SRC to the spool TO, and sets *USED to how many of them
 * were needed. Consecutive gzip members, also with zero bytes between them, are one stream. CKPT_EFORMAT:
 * damaged; CKPT_ETRUNCATED: the stream does not end; CKPT_ELIMIT: TO is full. TO keeps the bytes before a
 * failure. */
ckpt_status inflate_into(source *src, uint64_t off, uint64_t nbytes, enum inflate_kind kind, spool *to,
                         uint64_t *used, ckpt_error *err);

/* inflate_measure - inflates the NBYTES bytes of raw DEFLATE at OFF of SRC without keeping the result. Sets
 * *USED to how many of them were needed, *SIZE and *CRC to size and CRC-32 of the result. Fails like
 * inflate_into. */
ckpt_status inflate_measure(source *src, uint64_t off, uint64_t nbytes, uint64_t *used, uint64_t *size,
                            uint32_t *crc, ckpt_error *err);
/* deflate_written - reads back the NBYTES bytes that were written to FROM at AT, and appends them to OUT as
 * raw DEFLATE. */
ckpt_status deflate_written(sink *from, uint64_t at, uint64_t nbytes, sink *out, ckpt_error *err);
