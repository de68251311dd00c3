/* tablecrc.h - corrects the CRCs of a damaged table of TensorFlow, so that the damage gets past their
 * check. */
#ifndef TABLECRC_H
#define TABLECRC_H

#include <stddef.h>
#include <stdint.h>

/* tablecrc_of - returns the CRC-32C of the N bytes at P. */
static inline uint32_t tablecrc_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (; n; p++, n--) {
        crc ^= *p;
        for (int b = 0; b < 8; b++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* tablecrc_set - writes the masked CRC of the N bytes at P, a block and its type byte, after them. */
static inline void tablecrc_set(unsigned char *p, size_t n)
{
    uint32_t crc = tablecrc_of(p, n);
    crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (int i = 0; i < 4; i++)
        p[n + (size_t)i] = (unsigned char)(crc >> (8 * i));
}

/* tablecrc_read_varint - reads the varint at *AT of the N bytes P and moves *AT after it; 0 at the end of
 * P. */
static inline uint64_t tablecrc_read_varint(const unsigned char *p, size_t n, size_t *at)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < n && shift < 63; shift += 7) {
        unsigned char c = p[(*at)++];
        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return v;
    }
    return 0;
}

/* tablecrc_fix - corrects the CRC of the index of the table DATA and of every block in it. */
static inline void tablecrc_fix(unsigned char *data, size_t size)
{
    size_t at = size - 48, end;
    if (size < 53)
        return;
    (void)tablecrc_read_varint(data, size, &at);
    (void)tablecrc_read_varint(data, size, &at);
    uint64_t index = tablecrc_read_varint(data, size, &at), n = tablecrc_read_varint(data, size, &at);
    if (index > size || n > size - index || n + 5 > size - index || n < 4)
        return;
    at = (size_t)index;
    end = at + (size_t)n;
    tablecrc_set(data + at, (size_t)n + 1);
    while (at + 8 < end) {
        (void)tablecrc_read_varint(data, end, &at);
        uint64_t others = tablecrc_read_varint(data, end, &at), value = tablecrc_read_varint(data, end, &at);
        if (others > end - at || value > end - at - others)
            return;
        size_t handle = at + (size_t)others;
        uint64_t block = tablecrc_read_varint(data, end, &handle),
                 length = tablecrc_read_varint(data, end, &handle);
        if (block < size && length < size - block && length + 5 <= size - block)
            tablecrc_set(data + block, (size_t)length + 1);
        at += (size_t)(others + value);
    }
}

#endif
