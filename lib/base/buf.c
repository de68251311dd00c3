/* buf.c - see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"

void buf_init(buf *b, size_t max_bytes) { *b = (buf){.max = max_bytes}; }

void buf_free(buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

bool buf_ok(const buf *b) { return !b->failed; }

bool buf_reserve(buf *b, size_t n)
{
    if (b->failed || n > b->max - b->len) {
        b->failed = true;
        return false;
    }
    if (n <= b->cap - b->len)
        return true;
    size_t want = b->len + n, cap = b->cap < 128 ? 256 : b->cap > b->max / 2 ? b->max : b->cap * 2;
    cap = cap < want ? want : cap > b->max ? b->max : cap;
    unsigned char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = b->no_memory = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void buf_put(buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n) || n == 0)
        return;
    memcpy(b->data + b->len, bytes, n);
    b->len += n;
}

unsigned char *buf_extend(buf *b, size_t n)
{
    if (!buf_reserve(b, n) || !b->data)
        return NULL;
    b->len += n;
    return b->data + (b->len - n);
}

void buf_byte(buf *b, unsigned char c)
{
    if (!b->failed && b->len < b->cap && b->len < b->max)
        b->data[b->len++] = c;
    else
        buf_put(b, &c, 1);
}

void buf_put_str(buf *b, ckpt_str s) { buf_put(b, s.ptr, s.len); }

void buf_put_cstr(buf *b, const char *z) { buf_put(b, z, strlen(z)); }

void buf_put_texts(buf *b, const ckpt_str *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_put_str(b, texts[i]);
}

void buf_printf(buf *b, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < sizeof small) {
        buf_put(b, small, (size_t)n);
    } else if (buf_reserve(b, (size_t)n + 1)) { /* with room for the NUL that vsnprintf writes */
        vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void buf_u16le(buf *b, uint16_t v)
{
    unsigned char *to = buf_extend(b, sizeof v);
    if (to)
        store_u16le(to, v);
}

void buf_u32le(buf *b, uint32_t v)
{
    unsigned char *to = buf_extend(b, sizeof v);
    if (to)
        store_u32le(to, v);
}

void buf_u64le(buf *b, uint64_t v)
{
    unsigned char *to = buf_extend(b, sizeof v);
    if (to)
        store_u64le(to, v);
}

ckpt_str buf_view(const buf *b) { return b->data ? str_of((const char *)b->data, b->len) : str_of("", 0); }
