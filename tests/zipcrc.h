/* zipcrc.h - corrects the CRCs of a damaged zip archive, so that the damage gets past their check. */
#ifndef ZIPCRC_H
#define ZIPCRC_H

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

static inline uint32_t zipcrc_get(const unsigned char *p, int bytes)
{
    uint32_t v = 0;
    while (bytes--)
        v = v << 8 | p[bytes];
    return v;
}

static inline void zipcrc_put(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i) & 0xff);
}

/* zipcrc_fix - corrects the CRC of every stored member that a central header in DATA lists; returns how many
 * changed. */
static inline int zipcrc_fix(unsigned char *data, size_t size)
{
    int changed = 0;
    for (size_t at = 0; at + 46 <= size; at++) {
        unsigned char *c = data + at;
        if (*c != 'P' || memcmp(c, "PK\1\2", 4) != 0 || zipcrc_get(c + 10, 2) != 0)
            continue;
        uint64_t local = zipcrc_get(c + 42, 4), length = zipcrc_get(c + 20, 4);
        if (local + 30 > size || memcmp(data + local, "PK\3\4", 4) != 0)
            continue;
        uint64_t begin = local + 30 + zipcrc_get(data + local + 26, 2) + zipcrc_get(data + local + 28, 2);
        if (begin > size || length > size - begin)
            continue;
        uint32_t crc = zipcrc_of(data + begin, length);
        changed += crc != zipcrc_get(c + 16, 4);
        zipcrc_put(c + 16, crc);
        if (zipcrc_get(data + local + 6, 2) & 8) {
            if (begin + length + 8 <= size && memcmp(data + begin + length, "PK\7\x08", 4) == 0)
                zipcrc_put(data + begin + length + 4, crc);
        } else {
            zipcrc_put(data + local + 14, crc);
        }
    }
    return changed;
}

#endif
