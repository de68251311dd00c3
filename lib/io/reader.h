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
/* reader_take - returns the next COUNT <= READER_WINDOW bytes, valid until the next call; NULL after a
 * failure (CKPT_ETRUNCATED: "needs COUNT bytes, M are left"). */
const unsigned char *reader_take(reader *in, size_t count);
/* reader_peek - returns the next COUNT bytes without advancing. */
const unsigned char *reader_peek(reader *in, size_t count);
/* reader_u32, reader_u64 - read a little-endian number; 0 after a failure. */
uint32_t reader_u32(reader *in);
uint64_t reader_u64(reader *in);
/* reader_varint - reads a number as cursor_varint does. False: it is cut off, which is latched as by
 * reader_take, or it has more than 64 bits, which is not latched. */
bool reader_varint(reader *in, uint64_t *numbers);
/* reader_skip - skips COUNT bytes, which must exist. */
bool reader_skip(reader *in, uint64_t count);
static inline uint64_t reader_left(const reader *in) { return in->status ? 0 : in->end - in->pos; }
