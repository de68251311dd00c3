/* msgpack_put.c - writes values of MessagePack in their shortest form, as Python's msgpack does. msgpack.c
 * lists the forms. */
#include <string.h>

#include "base/checked.h"
#include "codec/msgpack.h"

/* put_number - appends N in WIDTH bytes, big-endian. */
static void put_number(buf *b, uint64_t n, unsigned width)
{
    while (COUNT_DOWN(width))
        buf_byte(b, (unsigned char)(n >> 8 * width));
}

/* put_form - appends N in its shortest form: the byte FIRST, then N in 1 byte; or the byte FIRST + 1, then N
 * in 2 bytes; or the byte FIRST + 2, then N in 4 bytes. */
static void put_form(buf *b, unsigned first, uint64_t n)
{
    unsigned form = n <= UINT8_MAX ? 0 : n <= UINT16_MAX ? 1 : 2;
    if (n > UINT32_MAX)
        b->failed = true;
    buf_byte(b, (unsigned char)(first + form));
    put_number(b, n, 1u << form);
}

/* put_count - appends the head of a container of N items: the byte FIX | N if N is at most 15; else the byte
 * WIDE, then N in 2 bytes; or the byte WIDE + 1, then N in 4 bytes. */
static void put_count(buf *b, unsigned fix, unsigned wide, uint32_t n)
{
    bool is_large = n > UINT16_MAX;
    if (n <= 15)
        buf_byte(b, (unsigned char)(fix | n));
    else
        buf_byte(b, (unsigned char)(wide + is_large));
    if (n > 15)
        put_number(b, n, is_large ? 4 : 2);
}

void msgpack_put_map(buf *b, uint32_t n) { put_count(b, 0x80, 0xde, n); }
void msgpack_put_array(buf *b, uint32_t n) { put_count(b, 0x90, 0xdc, n); }

void msgpack_put_text(buf *b, ckpt_str s)
{
    if (s.len <= 31)
        buf_byte(b, (unsigned char)(0xa0 | s.len));
    else
        put_form(b, 0xd9, s.len);
    buf_put_str(b, s);
}

void msgpack_put_bytes(buf *b, uint64_t n) { put_form(b, 0xc4, n); }

void msgpack_put_ext(buf *b, int type, uint64_t n)
{
    static const uint8_t fixed[] = {1, 2, 4, 8, 16};
    const uint8_t *fix = n <= 16 ? memchr(fixed, (int)n, sizeof fixed) : NULL;
    if (fix)
        buf_byte(b, (unsigned char)(0xd4 + (fix - fixed)));
    else
        put_form(b, 0xc7, n);
    buf_byte(b, (unsigned char)type);
}

void msgpack_put_uint(buf *b, uint64_t n)
{
    if (n <= 0x7f) {
        buf_byte(b, (unsigned char)n);
    } else if (n <= UINT32_MAX) {
        put_form(b, 0xcc, n);
    } else {
        buf_byte(b, 0xcf);
        put_number(b, n, 8);
    }
}

void msgpack_put_int(buf *b, int64_t n)
{
    unsigned form = n >= INT8_MIN ? 0 : n >= INT16_MIN ? 1 : n >= INT32_MIN ? 2 : 3;
    if (n >= 0) {
        msgpack_put_uint(b, (uint64_t)n);
        return;
    }
    if (n < -32)
        buf_byte(b, (unsigned char)(0xd0 + form));
    put_number(b, (uint64_t)n, 1u << form);
}

void msgpack_put_float(buf *b, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    buf_byte(b, 0xcb);
    put_number(b, bits, 8);
}

void msgpack_put_nil(buf *b) { buf_byte(b, 0xc0); }
void msgpack_put_bool(buf *b, bool on) { buf_byte(b, on ? 0xc3 : 0xc2); }
