/* opt.h - one table of options per command; parsing, usage, help and shell
 * completion all come from it. GNU order: options may follow operands, "--"
 * ends them, "-" is an operand. */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cmd;
struct text;

enum opt_type {
    OPT_FLAG,   /* bool */
    OPT_TEXT,   /* const char * */
    OPT_LIST,   /* struct list; may be repeated */
    OPT_COUNT,  /* uint64_t, decimal */
    OPT_SIZE,   /* uint64_t, bytes: 5GB, 512MiB */
    OPT_REAL,   /* double, finite and >= 0 */
    OPT_CHOICE, /* int: index into arg, words split by | */
};

struct list {
    const char **at;
    size_t n;
};

struct opt {
    char letter;      /* 0: long only */
    const char *name; /* NULL: letter only */
    const char *arg;  /* what the help calls the argument; NULL: a flag */
    enum opt_type type;
    void *to;
    const char *help; /* in it {formats} is those that can be written */
};

/* opt_parse - sorts ARGV (without the command's name) into options and
 * operands; operands end up at the front of ARGV and *N counts them. Returns
 * -1 to go on, else the exit code: help or an error was printed. */
int opt_parse(const struct cmd *cmd, int argc, char **argv, int *n);
/* opt_usage - "usage: ckpt ls [options] FILE…" and the table. */
void opt_usage(const struct cmd *cmd, FILE *to);
/* opt_help - adds the help of O to TO. */
void opt_help(const struct opt *o, struct text *to);
/* opt_choice - the I-th word of "a|b|c" into OUT; false past the last. */
bool opt_choice(const char *words, size_t i, char *out, size_t cap);
#endif
