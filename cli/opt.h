/* opt.h - the table of options of a command, from which parsing, usage, help and shell completion are made.
 * As in GNU's tools, options may follow operands, "--" ends the options, and "-" is an operand. */
#pragma once

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
    OPT_JOINED, /* const char *; may be repeated: the values are joined by commas */
    OPT_COUNT,  /* uint64_t, decimal */
    OPT_SIZE,   /* uint64_t, bytes: 5GB, 512MiB */
    OPT_REAL,   /* double, finite and >= 0 */
    OPT_CHOICE, /* int: the index of the word in arg, whose words are separated by | */
    OPT_GROUP,  /* no option: an array of options, which are none of this type, in its place */
};

struct list {
    const char **items;
    size_t n;
};

struct opt {
    char letter;      /* 0: long only */
    const char *name; /* NULL: letter only */
    const char *arg;  /* what the help calls the argument; NULL: a flag */
    enum opt_type type;
    void *variable;   /* what the option sets; its C type is given in enum opt_type */
    const char *help; /* {formats} stands for the names of the formats that can be written */
};

#define OPT_PARSED (-1) /* differs from all exit codes */
/* opt_parse - parses the options of CMD in ARGV, which begins after the command's name, and moves the
 * operands to the front of ARGV; *COUNT counts them. Returns OPT_PARSED, or an exit code if help or an error
 * was printed. */
int opt_parse(const struct cmd *cmd, int argc, char **argv, int *count);
/* opt_command_line - adds to OUT a command line with the options that opt_parse() has parsed, WORD (an option
 * or prefix; NULL: none), the COUNT operands, and the output: OUTPUT or, if that is NULL, the one that was
 * given.
 */
void opt_command_line(struct text *out, const char *word, int count, char *const *operand,
                      const char *output);
/* opt_fail_too_few - reports that operands of CMD are missing. FILE may be standard input, which has to be
 * named. */
int opt_fail_too_few(const struct cmd *cmd);
/* opt_fail_output - reports that OUTPUT, an operand after the COUNT operands, goes after -o, and suggests
 * that command line. WORD: as for opt_command_line(). Returns EXIT_TROUBLE. */
int opt_fail_output(const char *word, int count, char *const *operand, const char *output);
/* opt_at - returns option INDEX of CMD, with those of groups in their places; NULL: there are fewer. */
const struct opt *opt_at(const struct cmd *cmd, size_t index);
/* opt_find - returns the option of CMD that WORD, "NAME" or "NAME=VALUE", gives; NULL: there is none. */
const struct opt *opt_find(const struct cmd *cmd, const char *word);
/* opt_bad_value - reports that VALUE, "[GLOB=]WORD", is wrong for the option --NAME: what was probably meant,
 * or EXPECTED. Returns EXIT_TROUBLE. */
int opt_bad_value(const char *name, const char *value, const char *expected);
/* opt_usage - prints "usage: ckpt ls [options] FILE…" and the options. */
void opt_usage(const struct cmd *cmd, FILE *stream);
/* opt_help - adds the help of OPTION to OUT, with the formats' names in place of {formats}. */
void opt_help(const struct opt *option, struct text *out);
/* opt_choice - copies word INDEX of WORDS, such as "a|b|c", to OUT; false if there are fewer words. */
bool opt_choice(const char *words, size_t index, char *out, size_t cap);
