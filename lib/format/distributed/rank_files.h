/* rank_files.h - the files of a folder that many ranks wrote, as parts of one checkpoint: found by name,
 * kept inside of the folder, read however few files may be open. */
#ifndef FORMAT_DISTRIBUTED_RANK_FILES_H
#define FORMAT_DISTRIBUTED_RANK_FILES_H

#include "format/format.h"

/* rank_file_set_folder - other files of F, a file itself, are in its folder. False: no memory. */
bool rank_file_set_folder(ckpt_file *f);
/* rank_file_leaves - is NAME absolute, or has it ".." among its components? */
bool rank_file_leaves(ckpt_str name);
/* rank_file_find - *PATH, to be freed, becomes the file NAME of the folder IN, which need not be there;
 * refuses what rank_file_open does. */
ckpt_status rank_file_find(const char *in, const char *like, ckpt_str name, char **path, ckpt_error *err);
/* rank_file_open - the file NAME of the folder IN; *PATH is to be freed, also where it is an error. Refuses
 * names that lead out of the folder, and links that do, unless LIKE, a file of the folder that is read in
 * any case, is a link to where NAME leads: content-addressed caches keep all files of a folder in another
 * one. */
ckpt_status rank_file_open(const char *in, const char *like, ckpt_str name, source **out, char **path,
                           ckpt_error *err);
/* A small file of one word, which names a folder: the last save of a trainer. */
struct rank_word {
    const char *file, *what;        /* WHAT it must hold, for the error */
    bool (*accept)(ckpt_str found); /* NULL: any word */
};
#define RANK_WORD_MAX 4096u
/* rank_file_word - *OUT, in F's arena, is what the file WORD of f->folder holds, without spaces around it. */
ckpt_status rank_file_word(ckpt_file *f, const struct rank_word *word, ckpt_str *out, ckpt_error *err);
/* rank_file_step - the step of F is the number after PREFIX in the last name in f->folder that has one. */
void rank_file_step(ckpt_file *f, const char *prefix);
/* rank_file_keep - PART, opened from one of the files of F, is closed with F; parks its source beyond those
 * that can stay open, and makes the index that file_find uses. Without memory PART is freed. */
ckpt_status rank_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err);
/* rank_file_part - the file NAME of f->folder as a checkpoint, opened as F is; *OUT is NULL where its faults
 * were reported. */
ckpt_status rank_file_part(ckpt_file *f, const char *like, ckpt_str name, ckpt_file **out, ckpt_error *err);
/* rank_file_check - refuses PART if its tensors are no values of a pickle: graft_adopt takes no others. */
ckpt_status rank_file_check(const ckpt_file *part, ckpt_error *err);
/* rank_file_pickle - rank_file_part of a file that rank_file_check accepts. */
ckpt_status rank_file_pickle(ckpt_file *f, const char *like, ckpt_str name, ckpt_file **out, ckpt_error *err);
/* rank_file_add - the bytes of that file, as a part that has no format of its own. */
ckpt_status rank_file_add(ckpt_file *f, const char *like, ckpt_str name, ckpt_file **out, ckpt_error *err);

#endif
