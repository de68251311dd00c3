/* tablecrc.h - corrects the CRCs of a damaged table (SSTable) of TensorFlow: with a wrong CRC, a reader would
 * not parse the damaged bytes. */
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
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* tablecrc_set - writes the CRC of the N bytes at P (a block and the byte with its type) after these bytes.
 * The CRC is masked as in LevelDB: rotated, plus a constant. */
static inline void tablecrc_set(unsigned char *p, size_t n)
{
    uint32_t crc = tablecrc_of(p, n);
    crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (int i = 0; i < 4; i++)
        p[n + (size_t)i] = (unsigned char)(crc >> (8 * i));
}

/* tablecrc_read_varint - returns the varint at *OFFSET of the N bytes P, and moves *OFFSET to its end.
 * Returns 0 if the varint does not end in P. */
static inline uint64_t tablecrc_read_varint(const unsigned char *p, size_t n, size_t *offset)
{
    uint64_t number = 0;
    for (unsigned shift = 0; *offset < n && shift < 63; shift += 7) {
        unsigned char byte = p[(*offset)++];
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return number;
    }
    return 0;
}

/* tablecrc_fix - corrects the CRCs of the index block and of all blocks of the table DATA.
 *
 *   OFFSET  DESCRIPTION (all numbers are varints)
 *   -48     footer: offset and length of the metaindex block, then of the index block
 *
 * After each block follow a byte with its type and 4 bytes of CRC. An entry of the index block has the number
 * of bytes that its key shares with the previous key, the length of the other bytes of the key, the length of
 * the value, these other bytes, and the value: offset and length of a block. */
static inline void tablecrc_fix(unsigned char *data, size_t size)
{
    enum { FOOTER = 48, TYPE = 1, TYPE_AND_CRC = 5 };
    size_t offset = size - FOOTER, end;
    if (size < FOOTER + TYPE_AND_CRC)
        return;
    (void)tablecrc_read_varint(data, size, &offset);
    (void)tablecrc_read_varint(data, size, &offset);
    uint64_t index_offset = tablecrc_read_varint(data, size, &offset);
    uint64_t index_length = tablecrc_read_varint(data, size, &offset);
    if (index_offset > size || index_length > size - index_offset ||
        index_length + TYPE_AND_CRC > size - index_offset || index_length < 4)
        return;
    offset = (size_t)index_offset;
    end = offset + (size_t)index_length;
    tablecrc_set(data + offset, (size_t)index_length + TYPE);
    while (offset + 8 < end) {
        (void)tablecrc_read_varint(data, end, &offset);
        uint64_t key_length = tablecrc_read_varint(data, end, &offset);
        uint64_t value_length = tablecrc_read_varint(data, end, &offset);
        if (key_length > end - offset || value_length > end - offset - key_length)
            return;
        size_t value_offset = offset + (size_t)key_length;
        uint64_t block_offset = tablecrc_read_varint(data, end, &value_offset);
        uint64_t block_length = tablecrc_read_varint(data, end, &value_offset);
        if (block_offset < size && block_length < size - block_offset &&
            block_length + TYPE_AND_CRC <= size - block_offset)
            tablecrc_set(data + block_offset, (size_t)block_length + TYPE);
        offset += (size_t)(key_length + value_length);
    }
}

#endif
