/* dcp_folder.h - the folder of a distributed checkpoint while it is written: it appears with all its files
 * or not at all. */
#ifndef FORMAT_DISTRIBUTED_DCP_FOLDER_H
#define FORMAT_DISTRIBUTED_DCP_FOLDER_H

#include "core/plan.h"

struct dcp_folder {
    ckpt_plan *p;
    const struct write_job *job;
    arena *a;
    ckpt_str given;        /* the path of JOB, without slashes at its end */
    ckpt_str parent, base; /* where it leads; PARENT ends in a slash, or is empty */
    struct temp_folder temp;
    bool open;
};

/* dcp_folder_prepare - finds out where the folder of JOB, a plan P, goes. Refuses what is no path, a folder
 * with files unless it may be replaced, and then one that has others than those of a distributed
 * checkpoint. */
ckpt_status dcp_folder_prepare(struct dcp_folder *d, ckpt_plan *p, const struct write_job *job,
                               ckpt_error *err);
/* dcp_folder_begin - makes the folder under a temporary name. */
ckpt_status dcp_folder_begin(struct dcp_folder *d, ckpt_error *err);
/* dcp_folder_path - the path of the file NAME, in the temporary folder or, FINAL, where it will be. NULL: no
 * memory. */
const char *dcp_folder_path(const struct dcp_folder *d, const char *name, bool final);
/* dcp_folder_end - gives the folder its name if ST, the result of writing it, is CKPT_OK, else removes it;
 * returns ST then, with the path of the error as it would have been. */
ckpt_status dcp_folder_end(struct dcp_folder *d, ckpt_status st, ckpt_error *err);

#endif
