/* server.h - files on a web server, the Hugging Face Hub or an object store, as files in folders: a source
 * that stands for the server, as members.h has one for an archive. A path in it is the URL that was typed,
 * without its query, or the URL of a folder and a name. */
#pragma once

#include "format/files/members.h"

/* server_open - sets *OUT to the file at the URL TYPED or, if that is a folder of the Hub, to the source
 * that stands for the server. The texts of REMOTE must outlive it; NULL: refused with CKPT_EUSAGE, as with
 * its `offline`. */
ckpt_status server_open(const char *typed, const ckpt_remote *remote, source **out, ckpt_error *err);
/* server_lists_folders - returns true unless ARCHIVE is a server that does not list the files of folders:
 * then members_list has only those by which formats recognize a folder, and only of the folder that was
 * typed. */
bool server_lists_folders(const source *archive);
struct stat;
/* server_stat - sets the size and time of *OUT to numbers that differ if any of the files that were opened in
 * ARCHIVE is another one, by its size, ETag or date; all else is 0. False: ARCHIVE is no server. */
bool server_stat(const source *archive, struct stat *out);
/* server_failure - returns why ARCHIVE, if it is a server, could not be asked whether it has a file, or
 * NULL. What was read since may lack that file. */
const ckpt_error *server_failure(const source *archive);
