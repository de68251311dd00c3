/* guess.h - what was probably meant: slips of the finger and words of other tools, each with what
 * to type instead. */
#ifndef CLI_GUESS_H
#define CLI_GUESS_H

#include "cmd.h"

/* guess_distance - is TYPED a slip of the finger away from MEANT? Smaller is nearer; -1: no. */
int guess_distance(const char *typed, const char *meant);
/* guess_command - complains about ARGV[0], which is no command, with the command line that was
 * probably meant. Returns TROUBLE. */
int guess_command(int argc, char **argv);
/* guess_option - complains about --WORD, which CMD does not have. Returns TROUBLE. */
int guess_option(const struct cmd *cmd, const char *word);
/* guess_file - HINT names the file next to PATH, which is not there, that was probably meant; false: none is
 * near. Of a large folder no more than the first names are looked at. */
bool guess_file(const char *path, char *hint, size_t cap);
/* guess_value - what --OPTION=VALUE was probably meant to say, or NULL. */
const char *guess_value(const char *option, const char *value);

#endif
