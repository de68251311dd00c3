/* verify.h - what `ckpt verify` looks at beside what a checkpoint means. */
#ifndef FORMAT_VERIFY_H
#define FORMAT_VERIFY_H

#include "core/check.h"

/* verify_records - if SRC is an archive: directory against local headers, names, bytes
 * around it; its records go to C, which had BEFORE findings when SRC came up. */
ckpt_status verify_records(const char *path, source *src, uint64_t before, struct check *c, ckpt_error *err);
/* format_verify - opens PATH and lists its records, faults told to C; *OUT is NULL where
 * nothing can be opened. */
ckpt_status format_verify(const char *path, struct check *c, ckpt_file **out, ckpt_error *err);

#endif
