/* verify.h - checks the containers of checkpoints. */
#pragma once

#include "core/check.h"

/* verify_records - if SRC is a zip archive: compares central directory and local headers, checks names and
 * bytes around the archive, and adds its records to CHECK. NAMES_ARE_KEYS: as in struct format.
 * FINDINGS_BEFORE is how many findings CHECK had before SRC was opened. */
ckpt_status verify_records(const char *path, source *src, bool names_are_keys, uint64_t findings_before,
                           struct check *check, ckpt_error *err);
/* format_verify - opens PATH, and adds its records and faults to CHECK. Sets *OUT to NULL if PATH cannot be
 * opened. */
ckpt_status format_verify(const char *path, struct check *check, ckpt_file **out, ckpt_error *err);
