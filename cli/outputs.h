/* outputs.h - where the outputs of a command that writes go, by --output and --to: the format that they
 * select, and the names of outputs in a folder. */
#pragma once

#include "edit.h"

/* output_path_format - returns the format that the suffix of PATH selects, or NULL. A PATH that is called
 * like a format, such as "dcp", has no suffix. */
const char *output_path_format(const char *path);
/* output_is_folder_path - returns true if PATH is a folder, or ends in '/'. */
bool output_is_folder_path(const char *path);
/* output_given_format - returns the name of the format by --to, or by the suffix of OUT; NULL: neither. */
const char *output_given_format(void);
/* output_format - returns that, or else the format of F. */
const char *output_format(const ckpt_file *f);
/* output_names_set - returns true if OUT names a folder or an index, in which F, a set of shards, keeps its
 * shards. */
bool output_names_set(const ckpt_file *f);
/* output_names_index - returns true if OUT is the name of the index of a set. */
bool output_names_index(void);
/* output_is_folder - returns true if OUT is a folder in which the output gets the name of its input, and not
 * one that becomes the output. OWN_FORMAT: what the output's format is without --to and suffix; NULL: not a
 * folder. */
bool output_is_folder(const char *own_format);
/* output_place - if OUT is such a folder, sets writing.output to the path in it of the output of F, which was
 * opened as INPUT. PATH holds the text. */
void output_place(const ckpt_file *f, const char *input, const char *own_format, struct text *path);
/* output_check_each - checks that the outputs of the COUNT INPUTS in the folder OUT have different paths, and
 * that none replaces a file of another input; prints what is wrong and returns false if not. KEEPS_FOLDERS:
 * the output of an input that is a folder is one without --to. */
bool output_check_each(int count, char **inputs, bool keeps_folders);
