/* buf.h - a byte buffer that grows up to a fixed maximum. The first failure (out of memory, or the maximum)
 * latches: later calls do nothing and buf_ok() is false. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/str.h"

typedef struct {
    unsigned char *data; /* NULL while empty */
    size_t len, cap, max;
    bool failed;
    bool no_memory; /* it failed for lack of memory, not because of the maximum */
} buf;

void buf_init(buf *b, size_t max_bytes);
void buf_free(buf *b); /* frees the bytes; the buffer is empty again, with the same maximum */
bool buf_ok(const buf *b);
/* buf_reserve - makes room for N more bytes now; false: failed. */
bool buf_reserve(buf *b, size_t n);
void buf_put(buf *b, const void *bytes, size_t n);
/* buf_extend - appends N uninitialized bytes and returns them; valid until the next call. NULL: failed. */
unsigned char *buf_extend(buf *b, size_t n);
void buf_byte(buf *b, unsigned char c);
void buf_put_str(buf *b, ckpt_str s);
void buf_put_cstr(buf *b, const char *z);
/* buf_put_texts - appends the N texts at TEXTS one after the other. BUF_PUT_TEXTS calls it with those that
 * follow B. */
void buf_put_texts(buf *b, const ckpt_str *texts, size_t n);
#define BUF_PUT_TEXTS(b, ...)                                                                                \
    buf_put_texts((b), (const ckpt_str[]){__VA_ARGS__},                                                      \
                  sizeof((const ckpt_str[]){__VA_ARGS__}) / sizeof(ckpt_str))
void buf_printf(buf *b, const char *fmt, ...) CKPT_PRINTF(2, 3);
void buf_u16le(buf *b, uint16_t v);
void buf_u32le(buf *b, uint32_t v);
void buf_u64le(buf *b, uint64_t v);
/* buf_view - returns the content, valid until the next change. */
ckpt_str buf_view(const buf *b);

#endif
