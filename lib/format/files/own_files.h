/* own_files.h - the files that a checkpoint consists of, which no output may replace: a set cannot be read
 * after one of its files was replaced. */
#pragma once

#include "core/file.h"

struct stat;

/* own_files_visit - calls VISIT for each file of F and of its parts that exists, until it fails. Returns that
 * failure, or CKPT_EIO if a file cannot be examined. */
ckpt_status own_files_visit(const ckpt_file *f,
                            ckpt_status (*visit)(void *user, const struct stat *st, ckpt_error *err),
                            void *user, ckpt_error *err);
/* own_files_contain - sets *YES if the file with the stat ST is a file of F. */
ckpt_status own_files_contain(const ckpt_file *f, const struct stat *st, bool *yes, ckpt_error *err);
/* own_files_contain_path - returns true if PATH is a file of F, or if that cannot be checked. */
bool own_files_contain_path(const ckpt_file *f, const char *path);
/* own_files_check_output - refuses PATH for an output if it is a file of F, or if it is another file of the
 * set in which F is one, by its name: another shard, or the file of another rank. If ONLY_OUTPUT, no other
 * file is written: PATH may be F if F is a single file. */
ckpt_status own_files_check_output(const ckpt_file *f, const char *path, bool only_output, ckpt_error *err);
/* own_files_check_set - refuses to replace the set of shards STEM-*-of-*EXT in FOLDER (empty, or with its
 * '/') if F is one of them: the others would be removed. */
ckpt_status own_files_check_set(const ckpt_file *f, const char *folder, const char *stem, const char *ext,
                                ckpt_error *err);
