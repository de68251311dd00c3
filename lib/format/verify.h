/* verify.h - the checks of `ckpt verify` beyond reading a checkpoint. */
#ifndef FORMAT_VERIFY_H
#define FORMAT_VERIFY_H

#include "core/check.h"

/* verify_records - if SRC is a zip archive: compares central directory and local headers, checks names and
 * bytes around the archive, and adds its records to C. BEFORE: findings of C when SRC was opened. */
ckpt_status verify_records(const char *path, source *src, uint64_t before, struct check *c, ckpt_error *err);
/* format_verify - opens PATH, adds its records to C and reports faults there. Sets *OUT to NULL if PATH
 * cannot be opened. */
ckpt_status format_verify(const char *path, struct check *c, ckpt_file **out, ckpt_error *err);

#endif
