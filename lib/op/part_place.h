/* part_place.h - the work folder (part_record.h) in which one part is recorded. */
#pragma once

#include <time.h>

#include "op/part_folder.h"

struct part_place {
    arena *a; /* holds the texts */
    const struct part_job *job;
    uint32_t part;
    bool no_sync;
    const char *folder; /* in which the work folder is made */
    /* Set by part_place_open: */
    const char *path; /* of the work folder */
    int dir;          /* that folder, open; -1: not yet */
    const char *record_path, *failure_path;
};

/* part_place_open - makes the work folder of PLACE with its plan.json, and removes the failure of an earlier
 * run. CKPT_EEXIST: another plan was begun there, the same one with another number of parts, or it is being
 * merged. The caller calls part_place_close, after an error, too. */
ckpt_status part_place_open(struct part_place *place, ckpt_error *err);
void part_place_close(struct part_place *place);
/* part_place_hint_clean - sets the hint to WHAT and the command that removes all parts. */
void part_place_hint_clean(const struct part_place *place, const char *what, ckpt_error *err);
/* part_place_check - fails with CKPT_ECHANGED if the work folder was renamed or removed. */
ckpt_status part_place_check(const struct part_place *place, ckpt_error *err);
/* part_place_write - writes TEXT to PATH, which another process may read at any time, and frees TEXT. */
ckpt_status part_place_write(const struct part_place *place, const char *path, buf *text, bool replace,
                             ckpt_error *err);
/* part_place_fail - leaves FAILURE, the error of the part, in the folder, for ckpt parts and the other parts.
 * part_place_failure_time - returns when a part failed last, by the clock of the file system; 0: none has. */
void part_place_fail(const struct part_place *place, const ckpt_error *failure);
struct timespec part_place_failure_time(const struct part_place *place);
