/* folder.h - lists the files in a folder, and looks into them: on disk or, if ARCHIVE is not NULL, in that
 * archive (members.h). */
#pragma once

#include "format/format.h"

/* folder_list - lists the names in the folder PATH of F, in the same archive or on disk as F, that MATCH
 * accepts, in natural order. Allocates from F's arena. */
ckpt_status folder_list(const ckpt_file *f, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                        size_t *count, ckpt_error *err);
/* folder_list_all - lists all names except "." and "..". */
ckpt_status folder_list_all(const ckpt_file *f, const char *path, ckpt_str **out, size_t *count,
                            ckpt_error *err);
/* folder_list_on_disk - does folder_list for a folder on disk; NULL for MATCH: folder_list_all. Allocates
 * from A. */
ckpt_status folder_list_on_disk(arena *a, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                                size_t *count, ckpt_error *err);
/* folder_has - returns true if the folder PATH has a file that matches NAME, which may have a `*`. */
bool folder_has(const source *archive, const char *path, const char *name);
/* folder_file_has - returns true if TEXT is in the first or last 64 KiB of the file NAME of the folder
 * PATH. */
bool folder_file_has(source *archive, const char *path, const char *name, const char *text);
/* probe_has - returns true if NAME is in the folder PROBE. */
bool probe_has(const struct probe *probe, const char *name);
/* probe_matches - returns true if MATCH is true for a name in the folder PROBE. */
bool probe_matches(const struct probe *probe, bool (*match)(ckpt_str name));
/* probe_open - opens the file NAME of the folder PROBE. NULL: there is no such file, or it cannot be read. */
source *probe_open(const struct probe *probe, const char *name);
/* probe_read_head - reads at most SIZE bytes from the beginning of the file NAME of the folder PROBE into
 * HEAD, and returns them. Empty: there is no such file, or it cannot be read. */
ckpt_str probe_read_head(const struct probe *probe, const char *name, char *head, size_t size);
/* folder_fail_ambiguous - fails with CKPT_EUSAGE because the folder PATH has COUNT checkpoints and any could
 * be meant. The hint is that of folder_hint. */
ckpt_status folder_fail_ambiguous(const source *archive, const char *path, unsigned count,
                                  bool (*match)(ckpt_str name), ckpt_error *err);
/* folder_hint - sets the hint of ERR to the names in PATH that MATCH accepts, as many as fit. */
void folder_hint(const source *archive, const char *path, bool (*match)(ckpt_str name), ckpt_error *err);
