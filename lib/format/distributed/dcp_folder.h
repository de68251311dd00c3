/* dcp_folder.h - writes the folder of a distributed checkpoint: it appears with all its files or not at
 * all. */
#ifndef FORMAT_DISTRIBUTED_DCP_FOLDER_H
#define FORMAT_DISTRIBUTED_DCP_FOLDER_H

#include "core/plan.h"

struct dcp_folder {
    ckpt_plan *p;
    const struct write_job *job;
    arena *a;
    ckpt_str given;        /* the path of JOB without slashes at its end */
    ckpt_str parent, base; /* the same path with links followed; PARENT ends in a slash or is empty */
    struct temp_folder temp;
    bool open; /* TEMP exists */
};

/* dcp_folder_prepare - sets up D for the output path of JOB, which writes the plan P. Refuses a path that is
 * "-" or a file; a folder that is not empty, unless JOB may replace it; and in any case a folder with files
 * that no distributed checkpoint has. */
ckpt_status dcp_folder_prepare(struct dcp_folder *d, ckpt_plan *p, const struct write_job *job,
                               ckpt_error *err);
/* dcp_folder_begin - makes the folder under a temporary name. */
ckpt_status dcp_folder_begin(struct dcp_folder *d, ckpt_error *err);
/* dcp_folder_path - returns the path of the file NAME in the temporary folder, or if FINAL the path that it
 * will have in the end. NULL: no memory. */
const char *dcp_folder_path(const struct dcp_folder *d, const char *name, bool final);
/* dcp_folder_end - gives the folder its name if ST, the result of writing it, is CKPT_OK; otherwise removes
 * it, returns ST and replaces the temporary path in ERR by the final one. */
ckpt_status dcp_folder_end(struct dcp_folder *d, ckpt_status st, ckpt_error *err);

#endif
