/* part_state.h - an output that several processes write, and the state of its parts, see part_record.h. */
#pragma once

#include "op/part_folder.h"

struct ckpt_parts {
    arena *a;
    const char *path;   /* of the output, as the caller spells it */
    const char *folder; /* of the output */
    struct part_works found;
    struct part_work *work;      /* the first of FOUND */
    struct part_record *records; /* by part; empty id: none */
    ckpt_part *parts;            /* by part */
};

/* parts_find - makes *OUT, which has the work folders of the output PATH, but not their records. The caller
 * closes it, after an error, too. */
ckpt_status parts_find(const char *path, struct ckpt_parts **out, ckpt_error *err);
/* parts_fail_none - reports that no part was begun; parts_fail_several - that there are parts of two
 * outputs: the first and number INDEX of those found. */
ckpt_status parts_fail_none(const struct ckpt_parts *parts, ckpt_error *err);
ckpt_status parts_fail_several(const struct ckpt_parts *parts, size_t index, ckpt_error *err);
