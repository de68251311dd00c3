/* path.h - paths of files and folders, on disk or, if ARCHIVE is not NULL, in that archive (members.h). */
#pragma once

#include "core/file.h"

/* path_make - returns FOLDER/NAME, which the caller frees. NULL: no memory. */
char *path_make(ckpt_str folder, ckpt_str name);
/* path_to_show - returns what may be shown of PATH, which the caller frees: of a URL, not its query, nor a
 * '/' at its end. NULL: no memory. */
char *path_to_show(const char *path);
/* path_check_regular - refuses PATH if it exists and is no regular file: opening a pipe could block. */
ckpt_status path_check_regular(const char *path, ckpt_error *err);
/* path_is_unsafe - returns true if NAME is empty, absolute or has ".." or a zero byte in it. */
bool path_is_unsafe(ckpt_str name);
/* path_exists - returns true if there is a file or folder PATH; path_is_folder - if PATH is a folder. */
bool path_exists(const source *archive, const char *path);
bool path_is_folder(const source *archive, const char *path);
/* has_folder - returns true if F is a file of a folder, so that other files may be next to it: on disk or in
 * an archive, but not standard input. */
bool has_folder(const ckpt_file *f);
/* folder_of - returns the start of the path of the file F up to its name: empty, or with '/' at the end, or
 * with '!' if the file is at the top of an archive. */
ckpt_str folder_of(const ckpt_file *f);
/* name_of - returns the rest of that path. */
ckpt_str name_of(const ckpt_file *f);
/* path_find_prefix - returns the file that PATH, which does not exist, stands for: PATH.index if PATH is
 * the prefix of a TensorFlow checkpoint, or the first shard if PATH is a pattern NAME-?????-of-00003. The
 * caller frees it. NULL: there is no such file. */
char *path_find_prefix(const source *archive, const char *path);
