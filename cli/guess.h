/* guess.h - guesses what was meant by a mistyped command, option or file name, or by a word of another
 * tool. */
#ifndef CLI_GUESS_H
#define CLI_GUESS_H

#include "cmd.h"

/* guess_distance - how far TYPED is from MEANT, if it may be a typing error for it; -1: it is not. */
int guess_distance(const char *typed, const char *meant);
/* report_unknown_command - reports that ARGV[0] is not a command, with the command line that was probably
 * meant. Returns EXIT_TROUBLE. */
int report_unknown_command(int argc, char **argv);
/* report_unknown_option - reports that CMD does not have the option --WORD. Returns EXIT_TROUBLE. */
int report_unknown_option(const struct cmd *cmd, const char *word);
/* guess_file - HINT: the file in the folder of PATH, which does not exist, that was probably meant; false:
 * there is none. In a large folder only the first names are examined. */
bool guess_file(const char *path, char *hint, size_t cap);
/* guess_option_value - what --OPTION=VALUE was probably meant to say, or NULL. */
const char *guess_option_value(const char *option, const char *value);

#endif
