/* journal.h - changes a few ranges of a file in place, with an undo journal: after a crash at any moment
 * the next run restores the file. */
#pragma once

#include "io/source.h"

#define JOURNAL_SUFFIX ".ckpt-undo"
#define PATCHES_MAX    8

struct patch {
    uint64_t offset; /* in the file */
    ckpt_str bytes;  /* the new bytes there */
};

/* An edit of a file: patches that do not overlap, in ascending order. Only an undo has a smaller new size. */
struct patches {
    struct patch patch[PATCHES_MAX];
    size_t n;
    uint64_t old_size, new_size;
};

/* Checks that need to know the format of the file; each may be NULL, ERR never is. */
struct journal_judge {
    void *user;
    /* check_unchanged - fails unless the file, locked now, is the one that the patches were made for. */
    ckpt_status (*check_unchanged)(void *user, ckpt_error *err);
    /* accepts_undo - sets *ACCEPTED to true if an edit can have replaced exactly the bytes in UNDO. NOW is
     * the file, half edited; AFTER is the file once these old bytes are restored. */
    ckpt_status (*accepts_undo)(void *user, source *now, source *after, const struct patches *undo,
                                bool *accepted, ckpt_error *err);
};

struct journal_options {
    bool follow_links; /* edit PATH even if it is a symbolic link or has several names */
    bool no_sync;      /* safe against a killed process, not against a power cut */
    bool dry_run;      /* check everything, write nothing */
    struct journal_judge judge;
};

struct journal_note {
    struct journal_judge judge; /* checks a journal before an error names it as a way to undo the edit */
    char text[512];
};

/* patches_add - adds a patch; false: there are PATCHES_MAX already. */
bool patches_add(struct patches *patches, uint64_t offset, ckpt_str bytes);
/* journal_apply - applies all patches to the file PATH, or none. It saves the old bytes in a journal next to
 * the file first. CKPT_ECHANGED: the file is not PATCHES->old_size bytes long. */
ckpt_status journal_apply(const char *path, const struct patches *patches,
                          const struct journal_options *options, ckpt_error *err);
/* journal_recover - undoes an interrupted edit of PATH, or finishes it if all bytes were written; sets
 * *WHAT to which. Fails, and changes nothing, if the journal is damaged, not trusted, does not fit the
 * file, or is no journal. With dry_run, *WHAT is what would be done. */
ckpt_status journal_recover(const char *path, const struct journal_options *options, ckpt_recovered *what,
                            ckpt_error *err);
/* journal_check - checks, before PATH is read, that no edit of it was interrupted or is under way;
 * CKPT_ECHANGED if one was, or if a damaged journal hides whether one was. Sets NOTE, unless it is NULL, to a
 * notice about a journal that is ignored (of an earlier file of this name, or not trusted), or to "". */
ckpt_status journal_check(const char *path, struct journal_note *note, ckpt_error *err);
/* journal_open - opens PATH if journal_check passes. */
ckpt_status journal_open(const char *path, struct journal_note *note, source **out, ckpt_error *err);
/* journal_check_after_read - checks, after SRC (opened by journal_open) was read, that it was not edited
 * meanwhile; CKPT_ECHANGED if it was. For other sources, CKPT_OK. */
ckpt_status journal_check_after_read(const char *path, source *src, ckpt_error *err);
/* journal_remove_stale - removes the journal of the file BASE in the folder DIR, after the file was replaced
 * on disk. It keeps a file that is no journal, or not trusted. */
void journal_remove_stale(int dir, const char *base);
