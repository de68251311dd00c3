/* buf.c - see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/store.h"

void buf_init(buf *out, size_t max_bytes) { *out = (buf){.max = max_bytes}; }

void buf_free(buf *out)
{
    free(out->data);
    buf_init(out, out->max);
}

bool buf_ok(const buf *out) { return !out->failed; }

bool buf_reserve(buf *out, size_t count)
{
    if (out->failed || count > out->max - out->len) {
        out->failed = true;
        return false;
    }
    if (count <= out->cap - out->len)
        return true;
    size_t want = out->len + count, cap = out->cap < 128            ? 256
                                          : out->cap > out->max / 2 ? out->max
                                                                    : out->cap * 2;
    cap = cap < want ? want : cap > out->max ? out->max : cap;
    unsigned char *data = realloc(out->data, cap);
    if (!data) {
        out->failed = out->no_memory = true;
        return false;
    }
    out->data = data;
    out->cap = cap;
    return true;
}

void buf_put(buf *out, const void *bytes, size_t nbytes)
{
    if (!buf_reserve(out, nbytes) || nbytes == 0)
        return;
    memcpy(out->data + out->len, bytes, nbytes);
    out->len += nbytes;
}

unsigned char *buf_extend(buf *out, size_t count)
{
    if (!buf_reserve(out, count) || !out->data)
        return NULL;
    out->len += count;
    return out->data + (out->len - count);
}

void buf_byte(buf *out, unsigned char character)
{
    if (!out->failed && out->len < out->cap && out->len < out->max)
        out->data[out->len++] = character;
    else
        buf_put(out, &character, 1);
}

void buf_put_str(buf *out, ckpt_str text) { buf_put(out, text.ptr, text.len); }

void buf_put_cstr(buf *out, const char *text) { buf_put(out, text, strlen(text)); }

void buf_put_texts(buf *out, const ckpt_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_put_str(out, texts[i]);
}

void buf_printf(buf *out, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    if (n < 0) {
        out->failed = true;
    } else if ((size_t)n < sizeof small) {
        buf_put(out, small, (size_t)n);
    } else if (buf_reserve(out, (size_t)n + 1)) { /* with room for the NUL that vsnprintf writes */
        vsnprintf((char *)out->data + out->len, (size_t)n + 1, fmt, again);
        out->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void buf_u16le(buf *out, uint16_t number)
{
    unsigned char *to = buf_extend(out, sizeof number);
    if (to)
        store_u16le(to, number);
}

void buf_u32le(buf *out, uint32_t number)
{
    unsigned char *to = buf_extend(out, sizeof number);
    if (to)
        store_u32le(to, number);
}

void buf_u64le(buf *out, uint64_t number)
{
    unsigned char *to = buf_extend(out, sizeof number);
    if (to)
        store_u64le(to, number);
}

ckpt_str buf_view(const buf *out)
{
    return out->data ? str_of((const char *)out->data, out->len) : str_of("", 0);
}
