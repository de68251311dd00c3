/* files.h - the files that a command reports on, one after the other: folders with -r, headings on
 * a terminal, and the file's name on each line where several files are piped, as grep has it. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cmd.h"

/* What the options below set. */
struct files_options {
    bool recursive, with_filename, no_filename;
};
extern struct files_options files;

/* clang-format off */
#define FILES_RECURSIVE_OPTION \
    {'r', "recursive", NULL, OPT_FLAG, &files.recursive, "every checkpoint below a folder"}
#define FILES_NAME_OPTIONS \
    {'H', "with-filename", NULL, OPT_FLAG, &files.with_filename, "begin each line with the file's name"}, \
    {0, "no-filename", NULL, OPT_FLAG, &files.no_filename, "… never, not even with several files"}
/* clang-format on */

/* How the lines about several files are kept apart on a terminal. */
enum files_layout {
    FILES_HEADING, /* "NAME:" above those of each file */
    FILES_BLOCKS,  /* an empty line between them: the first line about a file names it */
    FILES_LINES,   /* nothing: lines name the file where they have to */
    FILES_COLUMN   /* a first column with the name, a tab after it */
};

/* files_each - passes each of the N operands, or with -r each checkpoint below them, to EACH, which
 * returns an exit status. Returns the highest of them, 2 where -r finds nothing. */
int files_each(int n, char **operand, enum files_layout layout, int (*each)(const char *path));

/* files_name_lines - each line about PATH, which may be one of SEVERAL, begins with its name from now on,
 * where the options and LAYOUT have it so. NAME, empty, holds that until files_unname_lines() ends it. */
void files_name_lines(const char *path, enum files_layout layout, bool several, struct text *name);
void files_unname_lines(struct text *name);

#endif
