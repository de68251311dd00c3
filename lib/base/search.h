/* search.h - finds the item that has a position, in an array sorted by where the items begin. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* find_begin - returns the index of the last of COUNT items, of ITEM_BYTES bytes each, that begins at or
 * before AT; 0 if none does. Where an item begins is a uint64_t at FIELD_OFFSET in it. */
static inline size_t find_begin(const void *items, size_t count, size_t item_bytes, size_t field_offset,
                                uint64_t at)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        uint64_t begin;
        memcpy(&begin, (const unsigned char *)items + middle * item_bytes + field_offset, sizeof begin);
        if (begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}
