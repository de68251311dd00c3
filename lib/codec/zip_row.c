/* zip_row.c - archives one after the other, as torch's distributed checkpoints (.distcp) have
 * them: one torch.save archive a tensor. Seen from the end: the end record and its zip64
 * companions (zip_end.c has their layout) tell how long the directory is and how far from
 * the beginning of its archive it stands, so where that begins. */
#include "codec/zip_row.h"

#include "base/checked.h"
#include "base/cursor.h"

static bool at(source *src, uint64_t off, unsigned char *out, size_t n, uint32_t signature)
{
    return range_within(off, n, src->size) && source_read(src, off, out, n, NULL) == CKPT_OK &&
           load_u32le(out) == signature;
}

bool zip_row_last(source *src, uint64_t end, uint64_t *start)
{
    unsigned char e[22], locator[20], wide[56], sig[4];
    if (end < sizeof e || end > src->size || !at(src, end - 22, e, sizeof e, 0x06054B50) ||
        load_u16le(e + 20) != 0)
        return false;
    uint64_t stop = end - 22, size = load_u32le(e + 12), off = load_u32le(e + 16);
    if (stop >= 76 && at(src, stop - 20, locator, sizeof locator, 0x07064B50) &&
        at(src, stop - 76, wide, sizeof wide, 0x06064B50)) {
        stop -= 76; /* bounded: just compared */
        size = load_u64le(wide + 40);
        off = load_u64le(wide + 48);
    }
    uint64_t directory;
    if (size > stop || off > stop - size)
        return false;
    directory = stop - size; /* bounded: just compared */
    *start = directory - off;
    return at(src, directory, sig, 4, 0x02014B50) && at(src, *start, sig, 4, 0x04034B50);
}
