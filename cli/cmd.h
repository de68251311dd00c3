/* cmd.h - the description of a subcommand. cmd_<name>.c defines struct cmd cmd_<name>; main, help and
 * completion take it from its line in cmds.def. cmd_hash.c is an example.
 *
 *   files.h    runs a function for each operand, with -r for each checkpoint in a folder
 *   out.h      common options (UI_JSON_OPTION …), open_input, errors, notices, tables, rows in order
 *   text.h     lines of text; names from files are escaped
 *   print.h    prints text for people, in ASCII if the locale has no UTF-8
 *   records.h  lines of fields for --tsv and --csv
 *   json.h     JSON objects, printed as a line or row by row
 *   edit.h     opens a file, plans changes and writes the output */
#pragma once

#include "ckpt.h"
#include "opt.h"
#include "out.h"

/* Exit codes. EXIT_NO: the command worked, and its answer is no (files differ, a finding). */
enum { EXIT_OK = 0, EXIT_NO = 1, EXIT_TROUBLE = 2 };

#define NO_LIMIT INT_MAX

struct cmd {
    const char *name;
    const char *operands; /* "FILE…" as the usage line shows them */
    const char *about;    /* one line, no full stop */
    const struct opt *opts;
    int min_operands, max_operands; /* how many operands; run() may check further */
    int (*run)(int n, char **operand);
};

#define CMD(name)                                                                                            \
    extern const struct cmd cmd_##name;                                                                      \
    int run_##name(int n, char **operand);
#include "cmds.def"
#undef CMD

/* cmd_list - has all commands, in the order of the overview, then NULL. */
extern const struct cmd *const cmd_list[];
/* cmd_find - returns the command called NAME, or NULL. */
const struct cmd *cmd_find(const char *name);
/* cmd_overview - prints the text of `ckpt --help`. */
void cmd_overview(FILE *stream);
