/* buf.h - a byte buffer that grows up to a fixed maximum. The first failure (out of memory, or the maximum)
 * latches: later calls do nothing and buf_ok() is false. */
#pragma once

#include "base/str.h"

typedef struct {
    unsigned char *data; /* NULL while empty */
    size_t len, cap, max;
    bool failed;
    bool no_memory; /* it failed for lack of memory, not because of the maximum */
} buf;

void buf_init(buf *out, size_t max_bytes);
void buf_free(buf *out); /* frees the bytes; the buffer is empty again, with the same maximum */
bool buf_ok(const buf *out);
/* buf_reserve - makes room for COUNT more bytes now; false: failed. */
bool buf_reserve(buf *out, size_t count);
void buf_put(buf *out, const void *bytes, size_t nbytes);
/* buf_extend - appends COUNT uninitialized bytes and returns them; valid until the next call. NULL:
 * failed. */
unsigned char *buf_extend(buf *out, size_t count);
void buf_byte(buf *out, unsigned char character);
void buf_put_str(buf *out, ckpt_str text);
void buf_put_cstr(buf *out, const char *text);
/* buf_put_texts - appends the COUNT texts at TEXTS one after the other. BUF_PUT_TEXTS calls it with those
 * that follow OUT. */
void buf_put_texts(buf *out, const ckpt_str *texts, size_t count);
#define BUF_PUT_TEXTS(b, ...)                                                                                \
    buf_put_texts((b), (const ckpt_str[]){__VA_ARGS__},                                                      \
                  sizeof((const ckpt_str[]){__VA_ARGS__}) / sizeof(ckpt_str))
void buf_printf(buf *out, const char *fmt, ...) CKPT_PRINTF(2, 3);
void buf_u16le(buf *out, uint16_t number);
void buf_u32le(buf *out, uint32_t number);
void buf_u64le(buf *out, uint64_t number);
/* buf_view - returns the content, valid until the next change. */
ckpt_str buf_view(const buf *out);
