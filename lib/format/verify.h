/* verify.h - the checks of `ckpt verify` beyond reading a checkpoint. */
#ifndef FORMAT_VERIFY_H
#define FORMAT_VERIFY_H

#include "core/check.h"

/* verify_records - if SRC is an archive: compares directory and local headers, checks names and bytes
 * around it, and adds its records to C, which had BEFORE findings when SRC was opened. */
ckpt_status verify_records(const char *path, source *src, uint64_t before, struct check *c, ckpt_error *err);
/* format_verify - opens PATH and lists its records, and reports faults to C; *OUT is NULL if it cannot be
 * opened. */
ckpt_status format_verify(const char *path, struct check *c, ckpt_file **out, ckpt_error *err);

#endif
