/* cmd.h - what a subcommand is. cmd_<name>.c opens with its struct cmd; a line in cmds.def makes it known to
 * main, help and completion. cmd_hash.c is one that reports on files.
 *
 *   files.h  runs a function for each operand, with -r for each checkpoint in a folder
 *   out.h    common options (UI_JSON_OPTION …), open_input, errors, notices, tables, rows in order
 *   text.h   lines of text; names from files are escaped
 *   json.h   JSON objects, printed as a line or row by row
 *   edit.h   writes what a plan changes, for commands with an output */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "ckpt.h"
#include "opt.h"
#include "out.h"

/* Exit codes. EXIT_NO: the command worked, and its answer is no (files differ, a finding). */
enum { EXIT_OK = 0, EXIT_NO = 1, EXIT_TROUBLE = 2 };

#define ANY_NUMBER INT_MAX

struct cmd {
    const char *name;
    const char *operands; /* "FILE…" as the usage line shows them */
    const char *about;    /* one line, no full stop */
    const struct opt *opts;
    int min, max; /* operands; may be checked further by run */
    int (*run)(int n, char **operand);
    const char *words; /* operands that are words, not files: "bash|zsh|fish", or NULL */
};

#define CMD(name) extern const struct cmd cmd_##name;
#include "cmds.def"
#undef CMD

/* cmd_list - all commands; ends with NULL. */
extern const struct cmd *const cmd_list[];
/* cmd_find - by exact name, or NULL. */
const struct cmd *cmd_find(const char *name);
/* cmd_overview - what `ckpt --help` prints. */
void cmd_overview(FILE *to);

#endif
