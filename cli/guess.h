/* guess.h - suggests a command, option, value or file for one that is mistyped or is another tool's. */
#pragma once

#include "cmd.h"

/* guess_distance - returns the edit distance of TYPED and MEANT, or -1 if TYPED is too far to be a typing
 * error. */
int guess_distance(const char *typed, const char *meant);
/* report_unknown_command - reports that ARGV[0] is not a command, with the command line that was probably
 * meant. Returns EXIT_TROUBLE. */
int report_unknown_command(int argc, char **argv);
/* report_unknown_option - reports that CMD does not have the option --WORD. Returns EXIT_TROUBLE. */
int report_unknown_option(const struct cmd *cmd, const char *word);
/* guess_file - finds the file that was probably meant by PATH, which does not exist, and writes a hint that
 * names it; or -g, if PATH is a glob and the command has that option. Returns false if there is none. In a
 * large folder only the first names are compared. */
bool guess_file(const char *path, char *hint, size_t cap);
/* guess_option_value - returns the value of --OPTION that was probably meant by VALUE (VALUE itself if
 * it is one), or NULL. */
const char *guess_option_value(const char *option, const char *value);
