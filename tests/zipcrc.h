/* zipcrc.h - puts the CRCs of a damaged archive right again, so that the damage reaches what lies behind. */
#ifndef ZIPCRC_H
#define ZIPCRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t zipcrc_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (; n; p++, n--) {
        crc ^= *p;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
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

/* zipcrc_fix - every stored member of the directory in DATA; returns how many CRCs changed */
static inline int zipcrc_fix(unsigned char *data, size_t size)
{
    int changed = 0;
    for (size_t at = 0; at + 46 <= size; at++) {
        unsigned char *c = data + at;
        if (memcmp(c, "PK\1\2", 4) != 0 || zipcrc_get(c + 10, 2) != 0)
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
