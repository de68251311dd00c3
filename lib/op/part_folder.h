/* part_folder.h - finds the work folders of outputs that several processes write, see part_record.h. */
#pragma once

#include "op/part_record.h"

#define PART_FOLDER_PREFIX ".ckpt-"
#define PART_CLOSED_SUFFIX ".closed"
#define PART_ARENA_MAX     (UINT64_C(1) << 34) /* bytes: of the texts of all records */

/* A work folder. */
struct part_work {
    const char *name, *path; /* in the folder of the output; with that folder */
    bool is_closed;          /* its files are being moved into place */
    struct part_job job;
    const ckpt_error *failure; /* NULL: plan.json was read, and JOB is its content */
};

struct part_works {
    struct part_work *works; /* sorted by output, then by name */
    size_t nworks, cap_works;
};

/* part_works_list - lists the work folders in FOLDER whose output is called TARGET; TARGET.ptr NULL: all.
 * Left out are a folder without plan.json, which a process may be about to write, and one whose plan.json
 * cannot be read and that has no file of TARGET. Texts are in A. */
ckpt_status part_works_list(const char *folder, ckpt_str target, arena *a, struct part_works *out,
                            ckpt_error *err);
/* part_works_find - lists them, and fails if the plan.json of one cannot be read. */
ckpt_status part_works_find(const char *folder, ckpt_str target, arena *a, struct part_works *out,
                            ckpt_error *err);
/* part_path - returns FOLDER/NAME, or NAME in the current folder ".", in A; NULL: out of memory. */
const char *part_path(const char *folder, const char *name, arena *a);
/* part_target_find - sets *FOLDER and *TARGET to what part_works_find takes for the output PATH: a file,
 * an index, or a folder. */
ckpt_status part_target_find(const char *path, arena *a, const char **folder, ckpt_str *target,
                             ckpt_error *err);
