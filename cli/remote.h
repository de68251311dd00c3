/* remote.h - operands that are URLs: what they may show, and how servers are asked, by options and the
 * environment. */
#pragma once

#include "cmd.h"

/* remote_cut - cuts a query, a user and a password from each of the COUNT WORDS that is a URL, or was meant
 * to be one, so that they are in no output and not in /proc; remote_typed() returns what was typed. */
void remote_cut(int count, char **words);
/* remote_begin - sets ui.limits.remote from the options and the environment for a command with the COUNT
 * operands. The file with the Hub's token is read only if there is a hf:// URL. Returns EXIT_OK, or
 * EXIT_TROUBLE after printing an error. */
int remote_begin(int count, char **operand);
/* remote_typed - returns the URL that was typed for PATH, an operand; PATH itself if nothing was cut or it is
 * no URL that is read. */
const char *remote_typed(const char *path);
/* remote_is_without_query - returns true if PATH is what is left of a URL whose query was cut. */
bool remote_is_without_query(const char *path);
/* remote_find_host - returns what follows the scheme of PATH, which may be misspelled. Sets *MEANT to the
 * scheme that was probably meant, with "://", or NULL if it is one that is not read. NULL: it has none. */
const char *remote_find_host(const char *path, const char **meant);
/* remote_is_url - returns true if PATH begins with https://, http://, hf:// or s3://, in any case. */
bool remote_is_url(const char *path);
/* remote_may_exist - returns true if the file PATH exists or is a URL. */
bool remote_may_exist(const char *path);
/* remote_fail_output - reports that PATH, which is to be written, is a URL. Returns EXIT_TROUBLE. */
int remote_fail_output(const char *path);
/* remote_forget - overwrites the secrets that this process has: those of the options, what was typed, and
 * all of the environment but TMPDIR and TZ. For a child process, which then can read no URL. */
void remote_forget(void);
