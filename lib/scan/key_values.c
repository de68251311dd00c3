/*
 * key_values.c - scans files of keys and values: tables of TensorFlow (codec/sstable.c), and files of OCDBT
 * (codec/ocdbt.c) that begin with a record. They hold names and numbers, and nothing that runs. Reports bytes
 * outside of blocks and records, such as values that are too large for a node of OCDBT.
 */
#include <inttypes.h>

#include "codec/ocdbt.h"
#include "codec/sstable.h"
#include "scan/scan.h"

static ckpt_status read_block(const struct sstable *sstable, size_t index, ckpt_error *err)
{
    struct sstable_block b;
    ckpt_str key;
    cursor value;
    bool more = true;
    ckpt_status st = sstable_load(sstable, index, &b, err);
    while (st == CKPT_OK && more)
        st = sstable_next(&b, &key, &value, &more, err);
    sstable_unload(&b);
    return st;
}

ckpt_status scan_sstable(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct sstable t;
    ckpt_error why = {.offset = 0};
    x->format = x->depth ? x->format : "sstable";
    ckpt_status st = sstable_open(in->src, x->a, &t, &why);
    for (size_t i = 0; st == CKPT_OK && i < t.nblocks; i++)
        st = read_block(&t, i, &why);
    if (st == CKPT_OK) {
        /* the sum is at most the size of the file */
        *known_bytes += in->src->size - t.bytes_outside;
        return !t.bytes_outside
                   ? CKPT_OK
                   : SCAN_FOUND(in, SCAN_MALFORMED, 0, "{%" PRIu64 " bytes} of the table are in {=no block}",
                                t.bytes_outside);
    }
    return scan_report_read_error(in, why.offset, &why, err);
}

ckpt_status scan_ocdbt(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    ckpt_error why = {.offset = 0};
    ckpt_status st = CKPT_OK;
    uint64_t at = 0, n;
    in->x->format = in->x->depth ? in->x->format : "ocdbt";
    while (at < in->src->size && (st = ocdbt_measure_record(in->src, at, &n, &why)) == CKPT_OK)
        at += n;
    *known_bytes += at; /* the sum is at most the size of the file */
    return st == CKPT_OK ? CKPT_OK : scan_report_read_error(in, why.offset, &why, err);
}
