/* part_files.h - the files of a folder that many ranks wrote, as parts of one checkpoint: found by name,
 * kept inside of the folder, read however few files may be open. */
#ifndef FORMAT_DISTRIBUTED_PART_FILES_H
#define FORMAT_DISTRIBUTED_PART_FILES_H

#include "format/format.h"

/* part_file_set_folder - other files of F, a file itself, are in its folder. False: no memory. */
bool part_file_set_folder(ckpt_file *f);
/* path_leaves_folder - is NAME absolute, or has it ".." among its components? */
bool path_leaves_folder(ckpt_str name);
/* part_file_path - *PATH, to be freed, becomes the file NAME of the folder IN, which need not be there;
 * refuses what part_file_open does. */
ckpt_status part_file_path(const char *in, const char *trusted, ckpt_str name, char **path, ckpt_error *err);
/* part_file_open - the file NAME of the folder IN; *PATH is to be freed, also where it is an error. Refuses
 * names that lead out of the folder, and links that do, unless LIKE, a file of the folder that is read in
 * any case, is a link to where NAME leads: content-addressed caches keep all files of a folder in another
 * one. */
ckpt_status part_file_open(const char *in, const char *trusted, ckpt_str name, source **out, char **path,
                           ckpt_error *err);
/* A small file of one word, which names a folder: the last save of a trainer. */
struct tracker_file {
    const char *name, *expected;    /* WHAT it must hold, for the error */
    bool (*accept)(ckpt_str found); /* NULL: any word */
};
#define TRACKER_FILE_MAX 4096u
/* tracker_file_read - *OUT, in F's arena, is what the file WORD of f->folder holds, without spaces around it. */
ckpt_status tracker_file_read(ckpt_file *f, const struct tracker_file *tracker, ckpt_str *out,
                              ckpt_error *err);
/* part_file_set_step - the step of F is the number after PREFIX in the last name in f->folder that has one. */
void part_file_set_step(ckpt_file *f, const char *prefix);
/* part_file_keep - PART, opened from one of the files of F, is closed with F; parks its source beyond those
 * that can stay open, and makes the index that file_find uses. Without memory PART is freed. */
ckpt_status part_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err);
/* part_file_read - the file NAME of f->folder as a checkpoint, opened as F is; *OUT is NULL where its faults
 * were reported. */
ckpt_status part_file_read(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                           ckpt_error *err);
/* part_file_check_pickle - refuses PART if its tensors are no values of a pickle: part_graph_take takes no others. */
ckpt_status part_file_check_pickle(const ckpt_file *part, ckpt_error *err);
/* part_file_read_pickle - part_file_read of a file that part_file_check_pickle accepts. */
ckpt_status part_file_read_pickle(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                                  ckpt_error *err);
/* part_file_add - the bytes of that file, as a part that has no format of its own. */
ckpt_status part_file_add(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out, ckpt_error *err);

#endif
