/* reader.h - forward reading of a source through a 256 KiB window: the cursor
 * for bytes that are not in memory. Like the cursor it latches its first
 * failure: every later call fails with the same error. */
#pragma once

#include "io/source.h"

typedef struct {
    source *src;
    uint64_t pos, end;  /* next byte, and the first byte not to be read */
    unsigned char *win; /* window: win_len bytes that begin at win_pos */
    uint64_t win_pos;
    size_t win_len;
    ckpt_status status; /* first failure */
    ckpt_error *err;
} reader;

#define READER_WINDOW 262144u

/* reader_init - prepares IN to read [POS, END) of SRC, which must outlive the reader. */
ckpt_status reader_init(reader *in, source *src, uint64_t pos, uint64_t end, ckpt_error *err);
void reader_free(reader *in);
/* reader_fill - does what reader_peek does if the window lacks the next COUNT bytes. */
const unsigned char *reader_fill(reader *in, size_t count);
/* reader_peek - returns the next COUNT <= READER_WINDOW bytes without advancing, valid until the next call;
 * NULL after a failure (CKPT_ETRUNCATED: "needs COUNT bytes, M are left"). */
static inline const unsigned char *reader_peek(reader *in, size_t count)
{
    bool in_window = in->status == CKPT_OK && in->pos >= in->win_pos &&
                     range_within(in->pos - in->win_pos, count, in->win_len);
    return in_window ? in->win + (in->pos - in->win_pos) : reader_fill(in, count);
}
/* reader_take - returns the same bytes, and advances. */
static inline const unsigned char *reader_take(reader *in, size_t count)
{
    const unsigned char *at = reader_peek(in, count);
    if (at)
        in->pos += count;
    return at;
}
/* reader_u32, reader_u64 - read a little-endian number; 0 after a failure. */
uint32_t reader_u32(reader *in);
uint64_t reader_u64(reader *in);
/* reader_varint - reads a number as cursor_varint does. False: it is cut off, which is latched as by
 * reader_take, or it has more than 64 bits, which is not latched. */
bool reader_varint(reader *in, uint64_t *numbers);
/* reader_skip - skips COUNT bytes, which must exist. */
bool reader_skip(reader *in, uint64_t count);
static inline uint64_t reader_left(const reader *in) { return in->status ? 0 : in->end - in->pos; }
