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
};

/* What only those can judge who know what the file holds; each may be NULL, and ERR never is. */
struct journal_judge {
    void *user;
    /* unchanged - is the file, which is locked now, the one that the patches were made for? */
    ckpt_status (*unchanged)(void *user, ckpt_error *err);
    /* holds - UNDO, the old bytes that a journal holds, would make AFTER of NOW, a file that is half changed:
     * *HELD, can an edit have replaced exactly those? */
    ckpt_status (*holds)(void *user, source *now, source *after, const struct patches *undo, bool *held,
                         ckpt_error *err);
};

struct journal_options {
    bool follow_links; /* also where PATH is a symbolic link or one of several names */
    bool no_sync;      /* safe against a killed process, not against a power cut */
    bool dry_run;      /* everything that can be refused is, nothing is written */
    struct journal_judge judge;
};

struct journal_note {
    struct journal_judge judge; /* asked before readers are told how to undo an edit */
    char text[512];
};

/* patches_add - false: there are PATCHES_MAX already. */
bool patches_add(struct patches *p, uint64_t at, ckpt_str bytes);
/* journal_apply - makes all patches in the file PATH, or none: the old bytes go to a
 * journal beside it first. CKPT_ECHANGED when it is not patches->old_size long. */
ckpt_status journal_apply(const char *path, const struct patches *p, const struct journal_options *o,
                          ckpt_error *err);
/* journal_recover - makes PATH whole if an edit of it was cut short: as it was, or, where
 * all of the edit had been done, as it was to be; *WHAT is which. A journal that is damaged,
 * that anybody may have written or that does not fit the file, and a file that is none, are an
 * error, and all stay as they are. dry_run: *WHAT is what would be done. */
ckpt_status journal_recover(const char *path, const struct journal_options *o, ckpt_recovered *what,
                            ckpt_error *err);
/* journal_check - for readers of PATH ("-" has no journal): CKPT_ECHANGED when an edit of it was cut short
 * half way, or is under way, or when a damaged journal cannot show which. NOTE, which may be NULL: its text
 * is what to say of a journal that does not count (it is of another file that had this name, or anybody may
 * have written it), or empty. */
ckpt_status journal_check(const char *path, struct journal_note *note, ckpt_error *err);
/* journal_open - opens PATH if journal_check passes. */
ckpt_status journal_open(const char *path, struct journal_note *note, source **out, ckpt_error *err);
/* journal_settled - after S, a file opened by journal_open, was read: CKPT_ECHANGED when it was edited
 * meanwhile or is now. Other sources: CKPT_OK. */
ckpt_status journal_settled(const char *path, source *s, ckpt_error *err);
/* journal_forget - the file BASE in the folder DIR was replaced, and that is on the disk: its
 * journal goes. What is none, or somebody else's, stays. */
void journal_forget(int dir, const char *base);

#endif
