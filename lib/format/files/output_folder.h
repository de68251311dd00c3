/* output_folder.h - makes a folder of files, under a temporary name, and renames it at the end, so that it
 * appears with all its files or not at all, and replaces an old one in one step. */
#pragma once

#include "core/plan.h"

/* What a folder is. */
struct output_folder_kind {
    const char *title; /* "a distributed checkpoint" */
    /* is_other_file - returns true unless NAME is "." or "..", or a file that such a folder may have. */
    bool (*is_other_file)(ckpt_str name);
};

struct output_folder {
    const struct output_folder_kind *kind;
    ckpt_plan *plan;
    const struct write_job *job;
    arena *arena;
    ckpt_str output_path;       /* the path of JOB without slashes at its end */
    ckpt_str parent, base_name; /* the same path with links followed; PARENT ends in a slash or is empty */
    struct temp temp;           /* the folder under its temporary name, if TEMP_EXISTS */
    bool temp_exists;
};

/* output_folder_prepare - sets up FOLDER, of KIND, for the output path of JOB, which writes the plan P.
 * Refuses the path "-" and an existing file. Refuses a folder that is not empty, unless the option `force` is
 * set and the folder has only files of KIND. */
ckpt_status output_folder_prepare(struct output_folder *folder, const struct output_folder_kind *kind,
                                  ckpt_plan *p, const struct write_job *job, ckpt_error *err);
/* output_folder_begin - makes the folder under a temporary name. */
ckpt_status output_folder_begin(struct output_folder *folder, ckpt_error *err);
/* output_folder_path - returns the path of the file NAME in the temporary folder. NULL: no memory. */
const char *output_folder_path(const struct output_folder *folder, const char *name);
/* output_folder_write_file - writes the file NAME with CONTENT. Does nothing if dry_run is set. */
ckpt_status output_folder_write_file(const struct output_folder *folder, const char *name, ckpt_str content,
                                     ckpt_error *err);
/* output_folder_note_output - adds the final path of the file NAME to the outputs of the plan. */
ckpt_status output_folder_note_output(const struct output_folder *folder, const char *name, ckpt_error *err);
/* output_folder_end - renames the folder to its final name if ST, the result of writing it, is CKPT_OK.
 * Otherwise removes it, replaces the temporary path in ERR by the final one and returns ST. */
ckpt_status output_folder_end(struct output_folder *folder, ckpt_status st, ckpt_error *err);
