/*
 * sstable.c - scans tables of TensorFlow, as codec/sstable reads them. They hold names and numbers, and
 * nothing that runs. Bytes outside of blocks are reported.
 */
#include "codec/sstable.h"

#include <inttypes.h>

#include "scan/scan.h"

/* walk_block - reads the entries of block I of T. */
static ckpt_status walk_block(const struct sstable *t, size_t i, ckpt_error *err)
{
    struct sstable_block b;
    ckpt_str key;
    cursor value;
    bool more = true;
    ckpt_status st = sstable_load(t, i, &b, err);
    while (st == CKPT_OK && more)
        st = sstable_next(&b, &key, &value, &more, err);
    sstable_unload(&b);
    return st;
}

ckpt_status scan_sstable(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err)
{
    struct sstable t;
    ckpt_error why = {.offset = 0};
    x->format = x->depth ? x->format : "sstable";
    ckpt_status st = sstable_open(src, x->a, &t, &why);
    for (size_t i = 0; st == CKPT_OK && i < t.nblocks; i++)
        st = walk_block(&t, i, &why);
    if (st == CKPT_OK) {
        *accounted += src->size - t.outside; /* bounded: once */
        return !t.outside ? CKPT_OK
                          : scan_found(x->s, SCAN_FMT002, where, src, 0,
                                       "{%" PRIu64 " bytes} of the table are in {=no block}", t.outside);
    }
    if (st == CKPT_EFORMAT || st == CKPT_ETRUNCATED || st == CKPT_ECHECKSUM || st == CKPT_EUNSUPPORTED)
        return scan_found_error(x->s, SCAN_FMT002, where, (struct scan_place){src, why.offset}, &why);
    *err = why;
    return st;
}
