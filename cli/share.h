/* share.h - --part and -o of the commands whose work several processes share: hash, stat, diff, verify. Each
 * part is recorded in the folder of -o; --part all prints the results of all parts, as one process would. */
#pragma once

#include "cmd.h"

/* The values of the options below. */
struct sharing {
    const char *part, *folder;
};
extern struct sharing sharing;

/* clang-format off */
#define SHARE_OPTIONS \
    {0, "part", "i/n|all", OPT_TEXT, &sharing.part, \
     "read part i of n, from 0, recorded in WORK; all: print all results"}, \
    {'o', "work", "WORK", OPT_TEXT, &sharing.folder, "the folder that all parts share"}
/* clang-format on */

/* share_check - checks --part and -o of CMD, and the COUNT OPERANDS, of which MAX can be divided. Returns
 * EXIT_OK, or EXIT_TROUBLE after printing the error. */
int share_check(const char *cmd, int count, char **operands, int max);
/* share_is_on - returns true if --part is given. */
bool share_is_on(void);
/* share_is_one - returns true if --part names one part: its results go to the folder, not to stdout. */
bool share_is_one(void);
/* share_begin - if --part is given, makes HOW that of the part of CMD. */
ckpt_status share_begin(const char *cmd, ckpt_work *how, ckpt_error *err);
/* share_end - ends what share_begin began; ST and *ERR are those of the operation. CKPT_ECANCELLED: the part
 * is recorded, as a line on stderr reports, and nothing is to be printed. */
ckpt_status share_end(ckpt_status st, ckpt_error *err);
/* share_report - returns the exit code for ST, which is not CKPT_OK, of share_end: EXIT_OK if the part is
 * recorded, else EXIT_TROUBLE after printing ERR about PATH. */
int share_report(ckpt_status st, const ckpt_error *err, const char *path);

/* is_read_once - returns true if NAME is standard input or a pipe. */
bool is_read_once(const char *name);
/* part_parse - parses TEXT, "i/n" with 0 <= i < n. False: it is none. */
bool part_parse(const char *text, uint32_t *number, uint32_t *parts);
