/* part_check.h - whether the parts of an output may be merged. */
#pragma once

#include "op/part_state.h"

/* parts_check - checks that all parts are done, that their records agree and that the files have their
 * sizes; with `verify` also that their bytes have the recorded digests. A merge that was interrupted has
 * checked the records. */
ckpt_status parts_check(const struct ckpt_parts *parts, const ckpt_merge_options *opts, ckpt_error *err);
