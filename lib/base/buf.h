/* buf.h - bytes that grow, up to a maximum given at birth. The first failure
 * (memory or maximum) latches: later calls do nothing and buf_ok() is false. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/str.h"

typedef struct {
    unsigned char *data; /* NULL while empty */
    size_t len, cap, max;
    bool failed;
    bool no_memory; /* that is why */
} buf;

void buf_init(buf *b, size_t max_bytes);
void buf_free(buf *b); /* also resets to empty with the same maximum */
bool buf_ok(const buf *b);
void buf_put(buf *b, const void *bytes, size_t n);
/* buf_room - N more bytes, to be filled before the next change; NULL: failed. */
unsigned char *buf_room(buf *b, size_t n);
void buf_byte(buf *b, unsigned char c);
void buf_str(buf *b, ckpt_str s);
void buf_text(buf *b, const char *z);
void buf_printf(buf *b, const char *fmt, ...) CKPT_PRINTF(2, 3);
void buf_u16le(buf *b, uint16_t v);
void buf_u32le(buf *b, uint32_t v);
void buf_u64le(buf *b, uint64_t v);
/* buf_view - what is in it, valid until the next change. */
ckpt_str buf_view(const buf *b);

#endif
