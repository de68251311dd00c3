/* stream.h - a tensor's elements in row-major order, in chunks, whatever its
 * strides: contiguous, little-endian, conj and neg applied. Errors do not name
 * the row: whoever asked knows by which name (fail_where). */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

#include "core/table.h"
#include "io/window.h"

#define STREAM_CHUNK (256u * 1024u)

typedef struct stream stream;

struct stream_options {
    bool ignore_crc;
    void (*notice)(void *user, const char *fmt, ...); /* of a CRC ignored; may be NULL */
    void *user;
    struct window *window; /* the caller's own over the file; may be NULL */
};

/* stream_open - reads row ROW of T. Where the storage has a CRC-32 that is not
 * checked yet, a row that covers its storage checks it on the way and any
 * other row has the storage read through once before. */
ckpt_status stream_open(struct table *t, uint32_t row, const struct stream_options *o, stream **out,
                        ckpt_error *err);
/* stream_open_part - elements [FIRST, FIRST + COUNT) of a row that is one run and
 * covers its storage if that has an unchecked CRC, which is left to the caller:
 * stream_crc has that of this part. */
ckpt_status stream_open_part(struct table *t, uint32_t row, uint64_t first, uint64_t count, stream **out,
                             ckpt_error *err);
/* stream_is_run - can row ROW be read in parts by several threads? */
bool stream_is_run(struct table *t, uint32_t row);
/* stream_crc - of what stream_next read, as it is stored, if the storage has one
 * to check. */
uint32_t stream_crc(const stream *s);
/* stream_next - up to CAP >= 16 bytes into OUT, whole elements; *GOT 0 at the end. */
ckpt_status stream_next(stream *s, void *out, size_t cap, size_t *got, ckpt_error *err);
void stream_close(stream *s);
/* stream_sums - does S check its storage's CRC-32 on the way, by bytes that it hands
 * out as they are stored? Then the caller, who may see the same bytes elsewhere, can
 * take that over before he reads: by stream_sum_late, and stream_summed at the end. */
bool stream_sums(const stream *s);
void stream_sum_late(stream *s);
ckpt_status stream_summed(stream *s, uint32_t crc, ckpt_error *err); /* of a part: kept for stream_crc */
/* stream_read - COUNT elements from FIRST; no CRC. */
ckpt_status stream_read(struct table *t, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err);
/* storage_crc - holds the CRC computed over all of ST against the one recorded, if
 * there is one. */
ckpt_status storage_crc(struct storage *st, uint32_t crc, const struct stream_options *o, ckpt_error *err);
/* stream_allowed - a few bytes of a file must not become work without end: CKPT_ELIMIT where V
 * shows more than its storage holds and all such rows together go beyond max_expanded. Said of
 * whole tensors only; a part of one can be read. */
ckpt_status stream_allowed(const struct table *t, const ckpt_tensor *v, ckpt_error *err);
/* storage_check - reads STORAGE through once if it has an unchecked CRC. */
ckpt_status storage_check(struct table *t, uint32_t storage, const struct stream_options *o, ckpt_error *err);

#endif
