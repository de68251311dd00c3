/* part_files.h - opens the other files of a checkpoint F that has several, such as the file of each rank or
 * the data files of an ONNX model. Each becomes a part of F: an entry of f->parts, which is closed with F.
 * Names of parts come from the checkpoint, so no name and no symbolic link may lead out of its folder. */
#pragma once

#include "core/file.h"
#include "io/journal.h"

/* Functions that open a file NAME of the folder of F refuse a NAME that leaves the folder, and a link that
 * leaves it, unless TRUSTED is a link to the same other folder. TRUSTED (NULL: none) is the name of a file in
 * the folder that is read anyway. In caches such as that of the Hugging Face Hub, the folder has only links,
 * and one other folder has all files. Of a folder in an archive, no link is followed. */

/* part_file_set_folder - sets f->folder to the folder that has the file F. False: no memory. */
bool part_file_set_folder(ckpt_file *f);
/* part_name_skip - removes TEXT and the decimal number after it from the start of *NAME, such as "mp_rank_"
 * and 3 from "mp_rank_03_001", and sets *NUMBER. False: *NAME does not begin so, and is unchanged. */
bool part_name_skip(ckpt_str *name, const char *text, uint64_t *number);

/* A small text file that names the last save: DeepSpeed's `latest`, Megatron's
 * latest_checkpointed_iteration.txt. */
struct tracker_file {
    const char *name;
    const char *expected;             /* what the file must hold, for the error */
    bool (*accept)(ckpt_str content); /* NULL: any text that is not empty */
    bool (*is_save)(ckpt_str name);   /* true for the folders that tracker_file_enter suggests */
};
#define TRACKER_FILE_MAX 4096u
/* tracker_file_read - sets *OUT to the content of the file TRACKER in f->folder, without white space around
 * it. Allocates from F's arena. */
ckpt_status tracker_file_read(ckpt_file *f, const struct tracker_file *tracker, ckpt_str *out,
                              ckpt_error *err);
/* part_file_enter - changes f->folder to its folder NAME. Refuses a NAME or a link that leaves f->folder.
 * CKPT_ENOTFOUND: f->folder has no folder NAME. */
ckpt_status part_file_enter(ckpt_file *f, ckpt_str name, ckpt_error *err);
/* tracker_file_enter - enters the folder NAME, which the file TRACKER names, as part_file_enter does. */
ckpt_status tracker_file_enter(ckpt_file *f, const struct tracker_file *tracker, ckpt_str name,
                               ckpt_error *err);
/* part_file_set_step - sets the training step of F to the number after PREFIX in the path f->folder, such
 * as 100 for "iter_" in "out/iter_0000100". If several folders of the path have such a name, the last one
 * counts. */
void part_file_set_step(ckpt_file *f, const char *prefix);

/* part_file_open - opens the regular file PATH of the set F; "-" is a file name, too. NOTE is as for
 * format_open_source. */
ckpt_status part_file_open(const ckpt_file *f, const char *path, struct journal_note *note, source **out,
                           ckpt_error *err);
/* part_files_max_open - returns how many files of a set may stay open, so that descriptors are left for a
 * second set and for outputs. */
size_t part_files_max_open(void);
/* part_file_keep - appends PART to f->parts and prepares it for file_find_tensor. Frees PART on failure. */
ckpt_status part_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err);
/* part_file_read - reads the file NAME of f->folder as a checkpoint and makes it a part. Sets *OUT to NULL if
 * the file is damaged and `verify` has reported that. */
ckpt_status part_file_read(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                           ckpt_error *err);
/* part_file_replace_folder - opens the file NAME in FOLDER in place of F, which was opened as a folder. */
ckpt_status part_file_replace_folder(ckpt_file *f, ckpt_str folder, ckpt_str name, ckpt_error *err);
/* part_file_accept_missing - handles ERR, which reports a missing file of F: returns CKPT_OK if `verify` has
 * reported it, or if salvage goes on with the other files; otherwise CKPT_ENOTFOUND. */
ckpt_status part_file_accept_missing(ckpt_file *f, ckpt_error *err);
/* part_file_explain_missing - returns ST. If it is CKPT_ENOTFOUND, the error becomes that NAME, a file that
 * another one names, is missing; HINT is what to do. */
ckpt_status part_file_explain_missing(ckpt_status st, ckpt_str name, const char *hint, ckpt_error *err);
/* part_file_check_pickle - refuses PART if its tensors are not in a pickle, which part_graph_take needs. */
ckpt_status part_file_check_pickle(const ckpt_file *part, ckpt_error *err);
/* part_file_read_pickle - reads NAME as part_file_read does, then calls part_file_check_pickle. */
ckpt_status part_file_read_pickle(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                                  ckpt_error *err);
/* part_file_add - makes the file NAME of f->folder a part without reading it as a checkpoint: the caller uses
 * its bytes. */
ckpt_status part_file_add(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out, ckpt_error *err);
