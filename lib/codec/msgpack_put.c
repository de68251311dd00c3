/* msgpack_put.c - writes values of MessagePack in their shortest form, as Python's msgpack does. msgpack.c
 * lists the forms. */

#include "codec/msgpack.h"

/* put_number - appends COUNT in WIDTH bytes, big-endian. */
static void put_number(buf *out, uint64_t count, unsigned width)
{
    while (COUNT_DOWN(width))
        buf_byte(out, (unsigned char)(count >> 8 * width));
}

/* put_form - appends COUNT in its shortest form: the byte FIRST, then COUNT in 1 byte; or the byte FIRST + 1,
 * then COUNT in 2 bytes; or the byte FIRST + 2, then COUNT in 4 bytes. */
static void put_form(buf *out, unsigned first, uint64_t count)
{
    unsigned form = count <= UINT8_MAX ? 0 : count <= UINT16_MAX ? 1 : 2;
    if (count > UINT32_MAX)
        out->failed = true;
    buf_byte(out, (unsigned char)(first + form));
    put_number(out, count, 1u << form);
}

/* put_count - appends the head of a container of COUNT items: the byte FIX | COUNT if COUNT is at most 15;
 * else the byte WIDE, then COUNT in 2 bytes; or the byte WIDE + 1, then COUNT in 4 bytes. */
static void put_count(buf *out, unsigned fix, unsigned wide, uint32_t count)
{
    bool is_large = count > UINT16_MAX;
    if (count <= 15)
        buf_byte(out, (unsigned char)(fix | count));
    else
        buf_byte(out, (unsigned char)(wide + is_large));
    if (count > 15)
        put_number(out, count, is_large ? 4 : 2);
}

void msgpack_put_map(buf *out, uint32_t count) { put_count(out, 0x80, 0xde, count); }
void msgpack_put_array(buf *out, uint32_t count) { put_count(out, 0x90, 0xdc, count); }

void msgpack_put_text(buf *out, ckpt_str text)
{
    if (text.len <= 31)
        buf_byte(out, (unsigned char)(0xa0 | text.len));
    else
        put_form(out, 0xd9, text.len);
    buf_put_str(out, text);
}

void msgpack_put_bytes(buf *out, uint64_t count) { put_form(out, 0xc4, count); }

void msgpack_put_ext(buf *out, int type, uint64_t count)
{
    static const uint8_t fixed[] = {1, 2, 4, 8, 16};
    const uint8_t *fix = count <= 16 ? memchr(fixed, (int)count, sizeof fixed) : NULL;
    if (fix)
        buf_byte(out, (unsigned char)(0xd4 + (fix - fixed)));
    else
        put_form(out, 0xc7, count);
    buf_byte(out, (unsigned char)type);
}

void msgpack_put_uint(buf *out, uint64_t count)
{
    if (count <= 0x7f) {
        buf_byte(out, (unsigned char)count);
    } else if (count <= UINT32_MAX) {
        put_form(out, 0xcc, count);
    } else {
        buf_byte(out, 0xcf);
        put_number(out, count, 8);
    }
}

void msgpack_put_int(buf *out, int64_t count)
{
    unsigned form = count >= INT8_MIN ? 0 : count >= INT16_MIN ? 1 : count >= INT32_MIN ? 2 : 3;
    if (count >= 0) {
        msgpack_put_uint(out, (uint64_t)count);
        return;
    }
    if (count < -32)
        buf_byte(out, (unsigned char)(0xd0 + form));
    put_number(out, (uint64_t)count, 1u << form);
}

void msgpack_put_float(buf *out, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    buf_byte(out, 0xcb);
    put_number(out, bits, 8);
}

void msgpack_put_nil(buf *out) { buf_byte(out, 0xc0); }
void msgpack_put_bool(buf *out, bool on) { buf_byte(out, on ? 0xc3 : 0xc2); }
