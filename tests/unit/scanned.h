/* scanned.h - bytes gone over by ckpt_scan, and what it told of them. */
#ifndef SCANNED_H
#define SCANNED_H

#include "unit.h"

struct scanned {
    ckpt_status status;
    ckpt_error err;
    ckpt_scan_result result;
    size_t findings;
    struct {
        char id[8], where[64], text[256];
        uint64_t offset;
    } first; /* finding */
    size_t stop_at; /* tell stops at the finding of this number; 0: never */
};

/* scan_these - SIZE bytes at DATA as a file; STOP_AT as in the struct. */
struct scanned scan_these(const void *data, size_t size, size_t stop_at);

#endif
