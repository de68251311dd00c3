/* zipcrc.h - corrects the CRCs of a damaged zip archive: with a wrong CRC, a reader would not parse the
 * damaged bytes. */
#ifndef ZIPCRC_H
#define ZIPCRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t zipcrc_of(const unsigned char *p, size_t n)
{
    static const uint32_t of_nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = 0xffffffffu;
    for (; n; p++, n--) {
        crc ^= *p;
        crc = of_nibble[crc & 15] ^ crc >> 4;
        crc = of_nibble[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

/* zipcrc_get - reads a number of NBYTES bytes, little-endian. */
static inline uint32_t zipcrc_get(const unsigned char *p, int nbytes)
{
    uint32_t number = 0;
    while (nbytes--)
        number = number << 8 | p[nbytes];
    return number;
}

static inline void zipcrc_put(unsigned char *p, uint32_t crc)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(crc >> (8 * i) & 0xff);
}

/* Offsets of fields in the headers of a member, from zip's APPNOTE, and the sizes of these headers. */
enum zipcrc_local {
    LOCAL_FLAGS = 6,
    LOCAL_CRC = 14,
    LOCAL_NAME_LENGTH = 26,
    LOCAL_EXTRA_LENGTH = 28,
    LOCAL_HEADER_SIZE = 30
};
enum zipcrc_central {
    CENTRAL_METHOD = 10,
    CENTRAL_CRC = 16,
    CENTRAL_COMPRESSED_SIZE = 20,
    CENTRAL_LOCAL_OFFSET = 42,
    CENTRAL_HEADER_SIZE = 46
};

/* zipcrc_fix - corrects the CRC of every stored member that a central header in DATA lists: in that header,
 * and in the local header or the data descriptor. Returns how many central headers had a wrong CRC. */
static inline int zipcrc_fix(unsigned char *data, size_t size)
{
    int changed = 0;
    for (size_t i = 0; i + CENTRAL_HEADER_SIZE <= size; i++) {
        unsigned char *central = data + i;
        if (*central != 'P' || memcmp(central, "PK\1\2", 4) != 0)
            continue;
        if (zipcrc_get(central + CENTRAL_METHOD, 2) != 0)
            continue;
        uint64_t offset = zipcrc_get(central + CENTRAL_LOCAL_OFFSET, 4);
        uint64_t length = zipcrc_get(central + CENTRAL_COMPRESSED_SIZE, 4);
        if (offset + LOCAL_HEADER_SIZE > size || memcmp(data + offset, "PK\3\4", 4) != 0)
            continue;
        unsigned char *local = data + offset;
        uint64_t begin = offset + LOCAL_HEADER_SIZE + zipcrc_get(local + LOCAL_NAME_LENGTH, 2) +
                         zipcrc_get(local + LOCAL_EXTRA_LENGTH, 2);
        if (begin > size || length > size - begin)
            continue;
        uint32_t crc = zipcrc_of(data + begin, length);
        changed += crc != zipcrc_get(central + CENTRAL_CRC, 4);
        zipcrc_put(central + CENTRAL_CRC, crc);
        bool has_descriptor = zipcrc_get(local + LOCAL_FLAGS, 2) & 8;
        unsigned char *descriptor = data + begin + length;
        if (!has_descriptor)
            zipcrc_put(local + LOCAL_CRC, crc);
        else if (begin + length + 8 <= size && memcmp(descriptor, "PK\7\x08", 4) == 0)
            zipcrc_put(descriptor + 4, crc);
    }
    return changed;
}

#endif
