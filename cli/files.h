/* files.h - runs a command on each of its files: -r for folders, headings on a terminal, and the file's name
 * on each line of a pipe with several files, as in grep. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cmd.h"

/* The values of the options below. */
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

/* How the output about several files is separated on a terminal. */
enum files_layout {
    FILES_HEADING, /* by a line "NAME:" above each file */
    FILES_BLOCKS,  /* by an empty line: the first line about a file names it */
    FILES_LINES,   /* not at all: lines name the file if necessary */
    FILES_COLUMN   /* by a first column with the name, then a tab */
};

/* files_each - calls EACH with each of the N operands, or with -r with each checkpoint below them. Returns
 * the highest exit code that EACH returned; EXIT_TROUBLE if -r finds nothing. */
int files_each(int n, char **operand, enum files_layout layout, int (*each)(const char *path));

/* files_name_lines - makes each line that line_put prints begin with PATH, if the options and LAYOUT require
 * it. SEVERAL: there may be other files. NAME is empty, and holds the text until files_unname_lines(). */
void files_name_lines(const char *path, enum files_layout layout, bool several, struct text *name);
void files_unname_lines(struct text *name);

#endif
