/* members.h - the members of a zip or tar archive as files in folders; members_find, members_open_file,
 * members_list, members_folder_has and members_folder_of also take a server (server.h). The path of a file
 * or folder in an archive is FILE!NAME; the names of members have no "./" or "//" in it, and ".." is
 * resolved. Of an open ckpt_file, `archive` is the archive that its path is in, and NULL for a path on
 * disk. */
#pragma once

#include "io/source.h"

/* members_open - sets *ARCHIVE to a source that stands for the archive BYTES, of the name PATH. That source
 * has no bytes itself; it is a source so that it can be counted and passed in place of a file. All of its
 * members that are opened may unpack to MAX_UNPACKED bytes. CKPT_EUNKNOWN: BYTES are no archive. */
ckpt_status members_open(source *bytes, const char *path, uint64_t max_unpacked, source **archive,
                         ckpt_error *err);
/* members_unpacked - returns how many bytes the members that were opened have unpacked to. */
uint64_t members_unpacked(const source *archive);
/* members_wrap - sets *OUT to BYTES (taken over) as a file of ARCHIVE, which it refers to. */
ckpt_status members_wrap(source *archive, source *bytes, source **out, ckpt_error *err);
/* members_is_archive - returns true if SRC, which may be NULL, stands for an archive or a server. */
bool members_is_archive(const source *src);
/* members_archive_of - returns the archive that SRC (may be NULL) is a member of, or SRC if it is an archive
 * itself, without a new reference; NULL: neither. */
source *members_archive_of(source *src);
/* members_count, members_name - the regular files among the members, in the order of the bytes of their
 * names. */
size_t members_count(const source *archive);
ckpt_str members_name(const source *archive, size_t index);
/* members_find - returns what PATH is in ARCHIVE. A folder may have no member of its own. */
enum member_kind members_find(const source *archive, const char *path);
/* members_open_file - sets *OUT to the file PATH in ARCHIVE. Offsets of its errors count from its begin.
 * CKPT_ENOTFOUND: there is none. CKPT_ELIMIT: it would exceed MAX_UNPACKED. Refuses MEMBER_OTHER, and a
 * member that is encrypted. */
ckpt_status members_open_file(source *archive, const char *path, source **out, ckpt_error *err);
/* members_skip_check - makes source_check compare no members: the caller compares all members itself. */
void members_skip_check(source *archive);
/* members_have_checksums - returns true if ARCHIVE records a checksum of each member. */
bool members_have_checksums(const source *archive);
/* members_list - lists the names in the folder PATH that MATCH accepts, each once, in the order of their
 * bytes. Allocates from A. CKPT_ENOTFOUND: there is no such folder. */
ckpt_status members_list(const source *archive, const char *path, arena *a, bool (*match)(ckpt_str name),
                         ckpt_str **out, size_t *count, ckpt_error *err);
/* members_folder_has - returns true if the folder PATH has a name that matches GLOB. */
bool members_folder_has(const source *archive, const char *path, const char *glob);
/* members_folder_of - returns the start of PATH, a file in ARCHIVE, up to the last '/' of its name, or up to
 * the '!' if it has none. */
ckpt_str members_folder_of(const source *archive, const char *path);
