/* journal.h - a few places of a file changed where it stands, so that a crash at
 * any moment leaves a file that the next run makes whole again. */
#ifndef IO_JOURNAL_H
#define IO_JOURNAL_H

#include "base/error.h"
#include "base/str.h"
#include "io/source.h"

#define JOURNAL_SUFFIX ".ckpt-undo"
#define PATCHES_MAX    8

struct patch {
    uint64_t at;
    ckpt_str bytes;
};

/* What a file becomes: patches that do not overlap, in ascending order, and its
 * size then, which is never smaller. */
struct patches {
    struct patch at[PATCHES_MAX];
    size_t n;
    uint64_t old_size, new_size;
    bool reread; /* who made them has seen that they leave what was meant */
};

struct journal_options {
    bool follow_links; /* also where PATH is a symbolic link or one of several names */
    bool no_sync;      /* safe against a killed process, not against a power cut */
    bool dry_run;      /* everything that can be refused is, nothing is written */
};

/* patches_add - false: there are PATCHES_MAX already. */
bool patches_add(struct patches *p, uint64_t at, ckpt_str bytes);
/* journal_apply - makes all patches in the file PATH, or none: the old bytes go to a
 * journal beside it first. CKPT_ECHANGED when it is not patches->old_size long. */
ckpt_status journal_apply(const char *path, const struct patches *p, const struct journal_options *o,
                          ckpt_error *err);
/* journal_recover - makes PATH whole if an edit of it was cut short: as it was, or, where
 * all of the edit had been done, as it was to be; *WHAT tells. A journal that is damaged
 * or does not fit the file, and a file that is none, are an error, and all stay as they
 * are. dry_run: *WHAT is what would be done. */
ckpt_status journal_recover(const char *path, const struct journal_options *o, ckpt_recovered *what,
                            ckpt_error *err);
/* journal_check - for readers of PATH ("-" has no journal): CKPT_ECHANGED when an edit of it was cut short
 * half way, or is under way, or when a damaged journal cannot tell. *REPLACED, which may be
 * NULL: there is a journal, of another file that had this name. */
ckpt_status journal_check(const char *path, bool *replaced, ckpt_error *err);
/* journal_open - source_file_open of what journal_check lets pass. */
static inline ckpt_status journal_open(const char *path, bool *replaced, source **out, ckpt_error *err)
{
    CKPT_TRY(journal_check(path, replaced, err));
    return source_file_open(path, out, err);
}
/* journal_forget - the file BASE in the folder DIR was replaced, and that is on the disk: its
 * journal goes. What is none stays. */
void journal_forget(int dir, const char *base);

#endif
