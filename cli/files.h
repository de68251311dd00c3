/* files.h - runs a command on each of its operands, with -r on the files below folders. With several files, a
 * terminal shows headings; in other output each line begins with the file's name, as grep's lines do. */
#pragma once

#include "cmd.h"

/* The values of the options below. */
struct files_options {
    bool recursive, with_filename, no_filename;
    bool several; /* set by files_each: there may be more than one file */
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
    FILES_LINES,   /* not at all: PROCESS prints the name in its lines if it is needed */
    FILES_COLUMN   /* by a first field with the name in each record */
};

/* files_each - calls PROCESS with each of the COUNT operands, or with -r with each checkpoint below them.
 * Returns the highest exit code that PROCESS returned; EXIT_TROUBLE if -r finds nothing. */
int files_each(int count, char **operand, enum files_layout layout, int (*process)(const char *path));

/* files_prefix_lines - makes each line that line_put prints begin with PATH, if the options and LAYOUT
 * require it. SEVERAL: there may be other files. NAME is empty, and holds the text until
 * files_unprefix_lines(). */
void files_prefix_lines(const char *path, enum files_layout layout, bool several, struct text *name);
void files_unprefix_lines(struct text *name);

/* A walk over the files below a folder, in an order that does not depend on the disk. */
struct folder_walk {
    uint64_t nlinks, nothers; /* skipped symbolic links; skipped sockets, pipes and devices */
    uint64_t nlinks_outside;  /* those of them that lead out of the folder, or nowhere */
    uint64_t nunread;         /* folders that could not be opened; an error was printed for each */
    void (*visit_file)(void *user, const char *path);
    /* visit_folder - returns true if the folder PATH was visited as one, instead of the files below it. NULL:
     * none is. */
    bool (*visit_folder)(void *user, const char *path);
    void *user;
};

/* walk_folder - calls visit_file with PATH itself if it is not a folder, else with each regular file below
 * it: sorted by name in each folder, files before subfolders. */
void walk_folder(struct folder_walk *walk, const char *path);
/* is_folder - returns true if PATH is a folder (and not "-"). */
bool is_folder(const char *path);
/* print_skipped - prints a notice of what WALK skipped below PATH. */
void print_skipped(const struct folder_walk *walk, const char *path);
