/* scan.c - fuzz target: scans a file with ckpt_scan(), which reports a record for every call. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* check_record - aborts if a finding has no rule, or if an argument of a call has no value. */
static int check_record(void *user, const ckpt_scan_record *record)
{
    uint64_t *nrecords = user;
    ++*nrecords;
    if (record->what == CKPT_SCAN_FINDING && !record->rule)
        abort();
    for (size_t i = 0, n = record->args ? ckpt_value_count(record->args) : 0; i < n; i++) {
        const ckpt_value *key, *arg;
        if (ckpt_value_item(record->args, i, &key, &arg) && !arg)
            abort();
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    ckpt_scan_options opts = {
        .struct_size = sizeof opts, .all_calls = true, .max_unpacked = (uint64_t)16 << 20};
    ckpt_scan_result result = CKPT_INIT(ckpt_scan_result);
    ckpt_error err;
    uint64_t nrecords = 0;
    char path[64];
    if (fd < 0)
        fd = memfd_create("input", 0);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ckpt_status st = ckpt_scan(path, &opts, check_record, &nrecords, &result, &err);
    if (result.accounted > result.bytes || (st == CKPT_OK && result.bytes != size))
        abort();
    return 0;
}
