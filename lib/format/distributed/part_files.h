/* part_files.h - opens the other files of a checkpoint that has several, such as one file for each rank or
 * the data files of an ONNX model. They are named in the checkpoint, so no name and no link may lead out of
 * its folder. Each becomes a part: an entry of f->parts, closed with the checkpoint F. */
#ifndef FORMAT_DISTRIBUTED_PART_FILES_H
#define FORMAT_DISTRIBUTED_PART_FILES_H

#include "format/format.h"

/* part_file_set_folder - sets f->folder to the folder of F, which is a file itself. False: no memory. */
bool part_file_set_folder(ckpt_file *f);
/* path_leaves_folder - returns true if NAME is empty, absolute or has ".." or a zero byte in it. */
bool path_leaves_folder(ckpt_str name);
/* part_name_skip - removes TEXT and the decimal number after it from the start of *NAME, such as "mp_rank_"
 * and 3 from "mp_rank_03_001", and sets *NUMBER. False: *NAME does not begin so, and is unchanged. */
bool part_name_skip(ckpt_str *name, const char *text, uint64_t *number);
/* part_file_path - sets *PATH, which the caller frees, to the path of NAME in the folder IN; the file need
 * not exist. Refuses a NAME that leaves the folder, and a link that does, unless it leads to the folder that
 * TRUSTED leads to. TRUSTED is a file of IN that is read in any case, or NULL: caches that are addressed by
 * content keep links in IN and all files in a different folder. */
ckpt_status part_file_path(const char *in, const char *trusted, ckpt_str name, char **path, ckpt_error *err);
/* part_file_open - opens that file as *OUT. The caller frees *PATH even on failure. */
ckpt_status part_file_open(const char *in, const char *trusted, ckpt_str name, source **out, char **path,
                           ckpt_error *err);

/* A small text file that names the last save: DeepSpeed's `latest`, Megatron's
 * latest_checkpointed_iteration.txt. */
struct tracker_file {
    const char *name;
    const char *expected;             /* what the file must hold, for the error */
    bool (*accept)(ckpt_str content); /* NULL: any text that is not empty */
    bool (*is_save)(ckpt_str name);   /* the folders next to it that tracker_file_enter suggests */
};
#define TRACKER_FILE_MAX 4096u
/* tracker_file_read - sets *OUT to the content of the file in f->folder, without white space around it. The
 * text is in F's arena. */
ckpt_status tracker_file_read(ckpt_file *f, const struct tracker_file *tracker, ckpt_str *out,
                              ckpt_error *err);
/* part_file_enter - changes f->folder to the folder NAME in it. Refuses what part_file_path refuses.
 * CKPT_ENOTFOUND: there is no such folder. */
ckpt_status part_file_enter(ckpt_file *f, ckpt_str name, ckpt_error *err);
/* tracker_file_enter - does part_file_enter for NAME, the folder that the file TRACKER of f->folder names. */
ckpt_status tracker_file_enter(ckpt_file *f, const struct tracker_file *tracker, ckpt_str name,
                               ckpt_error *err);
/* part_file_set_step - sets the training step of F to the number after PREFIX in the path f->folder, such as
 * 100 for "iter_" in "out/iter_0000100". The last such component counts. */
void part_file_set_step(ckpt_file *f, const char *prefix);

/* part_file_keep - appends PART to f->parts and indexes its names for file_find. Frees PART if there is no
 * memory. */
ckpt_status part_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err);
/* part_file_read - reads the file NAME of f->folder as a checkpoint and makes it a part. Sets *OUT to NULL if
 * its faults were reported instead. */
ckpt_status part_file_read(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                           ckpt_error *err);
/* part_file_accept_missing - handles ERR, that a file of F is missing: returns CKPT_OK if `verify` has
 * reported it, or if salvage goes on with the other files; otherwise CKPT_ENOTFOUND. */
ckpt_status part_file_accept_missing(ckpt_file *f, ckpt_error *err);
/* part_file_check_pickle - refuses PART if its tensors are not in a pickle, because part_graph_take needs
 * one. */
ckpt_status part_file_check_pickle(const ckpt_file *part, ckpt_error *err);
/* part_file_read_pickle - does part_file_read and then part_file_check_pickle. */
ckpt_status part_file_read_pickle(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                                  ckpt_error *err);
/* part_file_add - makes the file NAME of f->folder a part without reading it as a checkpoint: the caller uses
 * its bytes. */
ckpt_status part_file_add(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out, ckpt_error *err);

#endif
