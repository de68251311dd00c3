/*
 * ocdbt.c - scans files of OCDBT (codec/ocdbt.c) that begin with a record: manifests, and nodes with the
 * values in them. They hold names and numbers, and nothing that runs. Bytes outside of records are reported,
 * such as values that are too large for a node.
 */
#include "codec/ocdbt.h"
#include "core/check.h"
#include "scan/scan.h"

ckpt_status scan_ocdbt(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err)
{
    ckpt_error why = {.offset = 0};
    ckpt_status st = CKPT_OK;
    uint64_t at = 0, n;
    x->format = x->depth ? x->format : "ocdbt";
    while (at < src->size && (st = ocdbt_measure_record(src, at, &n, &why)) == CKPT_OK)
        at += n;      /* bounded: in the source */
    *accounted += at; /* bounded: once */
    if (check_is_fault(st))
        return scan_found_error(x->s, SCAN_FMT002, where, (struct scan_place){src, why.offset}, &why);
    if (st != CKPT_OK)
        *err = why;
    return st;
}
