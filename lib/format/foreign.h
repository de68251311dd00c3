/* foreign.h - errors about files that are not checkpoints, or are not there. */
#pragma once

#include "format/format.h"

/* format_hint_missing - completes ERR, that PATH does not exist: what a broken link points to, or how to
 * fetch a file for which DVC or iCloud left a small one next to PATH. */
void format_hint_missing(const char *path, ckpt_error *err);
/* format_fail_unrecognized - fails with an error that names what PROBE is instead of a checkpoint, such as a
 * Git LFS pointer (foreign.c). */
ckpt_status format_fail_unrecognized(const struct probe *probe, ckpt_error *err);
/* format_refuse_data_file - fails because PATH is a data file of a Distributed Checkpoint, and names its
 * folder: the offset of each item is in .metadata there. */
ckpt_status format_refuse_data_file(const char *path, ckpt_error *err);
