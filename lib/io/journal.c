/*
 * journal.c - see journal.h. The journal of FILE is FILE.ckpt-undo; journal_bytes.c has its layout.
 *
 * The order of things, each on disk before the next begins:
 *
 *   1  the journal          without a name; FILE was not touched
 *   2  its name             so a journal that has its name was complete once
 *   3  FILE, changed        from here on the edit is done, and reported as done
 *   4  journal removed      this need not reach the disk now
 *
 * So a journal may be there again after a power cut though the edit was done. The next run compares FILE
 * with it, sector by sector; a disk writes a sector completely or not at all:
 *
 *   all are new             it syncs FILE and removes the journal
 *   all are old             it removes the journal
 *   some old, others new,   it puts the old ones back and removes the journal
 *   inode as in the journal
 *   anything else           FILE and the journal stay as they are: FILE may be a backup that was copied back
 *
 * The next run removes nothing else: a damaged journal may be all that is left of the old
 * bytes, and a file that is not a journal is not ours.
 *
 * A folder may be open to others, so the name of a journal proves nothing. A journal counts only if it
 * is a regular file with one name, belongs to the owner of FILE or to us, and nobody else may
 * write to it; and, if FILE is to be changed, only if journal_judge finds that an edit can have
 * left it. A journal that does not count is reported, and stays.
 *
 * Readers hold no lock. They open FILE, look for the journal, read, then check for an
 * editor's lock and a new mtime. The journal exists from before the first change until
 * after the last, and the edit changes mtime (advance_mtime), so readers miss no edit.
 *
 * A sector that is to change and still has the old bytes never counts as new, whatever its CRC-32. Readers
 * go on when all sectors are old or all are new, and when FILE has something else and a different inode: it
 * replaced the edited file. A damaged journal is an error for them: it cannot show which. The device number
 * is not compared: it may change when the machine starts again, and the journal is in its file's folder.
 */
#include "io/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "io/fd.h"
#include "io/journal_bytes.h"
#include "io/temp.h"

/* A file that is being edited, and its folder. */
struct edited_file {
    const char *asked_path;
    char path[PATH_MAX];        /* ASKED_PATH, its links resolved */
    const char *base_name;      /* the last component of PATH */
    char journal[NAME_MAX + 1]; /* its name in the folder */
    int dir, fd;                /* the folder and the file; -1: closed */
    struct stat st;             /* attributes of the file */
};

/* What the file has in the sectors that a journal lists. Recovery keeps a NEW file, restores the old bytes of
 * an OLD or MIXED one, and refuses the others. */
enum file_state {
    FILE_OLD,     /* the old bytes in all of them; any inode */
    FILE_NEW,     /* the new bytes in all of them; any inode */
    FILE_MIXED,   /* old bytes in some, new bytes in the others, and the inode of the journal */
    FILE_CHANGED, /* as FILE_MIXED, but a different inode; or other bytes, but the inode of the journal */
    FILE_REPLACED /* other bytes and a different inode: a file that replaced the edited one */
};

/* ------------------------------------------------------------------ the file */

static void close_file(struct edited_file *edited)
{
    if (edited->fd >= 0)
        close(edited->fd);
    if (edited->dir >= 0)
        close(edited->dir);
    edited->fd = edited->dir = -1;
}

static bool name_journal(struct edited_file *edited)
{
    int n = snprintf(edited->journal, sizeof edited->journal, "%s" JOURNAL_SUFFIX, edited->base_name);
    return n > 0 && (size_t)n < sizeof edited->journal;
}

/* resolve_path - resolves the symbolic links of PATH, opens its folder and names the journal. */
static ckpt_status resolve_path(struct edited_file *edited, const char *path, ckpt_error *err)
{
    edited->dir = edited->fd = -1;
    edited->asked_path = path;
    if (!realpath(path, edited->path))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open");
    char *slash = strrchr(edited->path, '/');
    edited->base_name = slash + 1;
    if (!name_journal(edited)) {
        errno = ENAMETOOLONG;
        return fail_errno(err, CKPT_NO_OFFSET, "no room for \"" JOURNAL_SUFFIX "\" after its name");
    }
    *slash = '\0';
    edited->dir = open(slash == edited->path ? "/" : edited->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    return edited->dir < 0 ? fail_errno(err, CKPT_NO_OFFSET, "cannot open its folder") : CKPT_OK;
}

static ckpt_status check_links(const struct edited_file *edited, const char *path, ckpt_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "is a symbolic link to %s; others may use that file\n"
                    "-o OUT writes a copy; --follow-links edits the file it leads to",
                    edited->path);
    if (edited->st.st_nlink > 1)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "has %llu names (hard links); an edit would show under all of them\n"
                    "-o OUT writes a copy; --follow-links edits it under all its names",
                    (unsigned long long)edited->st.st_nlink);
    return CKPT_OK;
}

/* fail_being_edited - fails because another process holds the lock of the file. */
static ckpt_status fail_being_edited(ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "another program is editing it\ntry again when it is done");
}

/* is_replaced - returns true if the path leads to a different file now, or to none. Programs that save a file
 * by renaming a new one over it ignore locks. */
static bool is_replaced(const struct edited_file *edited)
{
    struct stat now;
    if (fstatat(edited->dir, edited->base_name, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    return now.st_dev != edited->st.st_dev || now.st_ino != edited->st.st_ino;
}

/* refuse_replaced - fails because another program replaced the file; WHAT: what that means for the edit. */
static ckpt_status refuse_replaced(const char *what, ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "another program replaced the file meanwhile; %s\n"
                "run the command again when it is done",
                what);
}

/* open_file - opens PATH for reading and writing, and locks it. */
static ckpt_status open_file(struct edited_file *edited, const char *path,
                             const struct journal_options *options, ckpt_error *err)
{
    CKPT_TRY(resolve_path(edited, path, err));
    edited->fd = open(edited->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (edited->fd < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing\n-o OUT writes a copy");
    if (fstat(edited->fd, &edited->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if (!S_ISREG(edited->st.st_mode))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "is not a regular file; only regular files are edited in place\n-o OUT writes a copy");
    if (!options->follow_links)
        CKPT_TRY(check_links(edited, path, err));
    if (flock(edited->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail_being_edited(err);
    if (fstat(edited->fd, &edited->st) != 0) /* again: an edit may have ended in between */
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    return is_replaced(edited) ? refuse_replaced("nothing was changed", err) : CKPT_OK;
}

/* --------------------------------------------------------------- the journal */

/* refuse_invalid - fails because no edit of EDITED's file can have replaced the old bytes in its journal. */
static ckpt_status refuse_invalid(const struct edited_file *edited, ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "%s does not hold what an edit of this file replaces; nothing is undone\n"
                "if the file is intact, remove %.150s; else get the file again",
                edited->journal, edited->journal);
}

/* refuse_journal - reports the journal JOURNAL of kind KIND, from which nothing can be undone. */
static ckpt_status refuse_journal(const struct edited_file *edited, const struct journal *journal,
                                  enum journal_kind kind, ckpt_error *err)
{
    switch (kind) {
    case JOURNAL_INVALID: return refuse_invalid(edited, err);
    case JOURNAL_UNTRUSTED:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s is not trusted: %s; nothing is undone\n"
                    "find out who wrote it, then give it another name",
                    edited->journal, journal->distrust);
    case JOURNAL_OTHER_VERSION:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "another version of ckpt wrote %s\nthe version that edited the file undoes it",
                    edited->journal);
    case JOURNAL_DAMAGED:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "an edit in place may have been cut short; its undo journal %s is damaged\n"
                    "keep the journal under another name; then `ckpt verify` checks if the file is intact",
                    edited->journal);
    default:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s is not an undo journal, but has the name of one\ngive it another name",
                    edited->journal);
    }
}

/* find_distrust - returns why a journal with the attributes ST is not trusted for EDITED; NULL: it is. */
static const char *find_distrust(const struct edited_file *edited, const struct stat *st)
{
    if (st->st_uid != edited->st.st_uid && st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    return st->st_nlink > 1 ? "it has other names (hard links)" : NULL;
}

/* parse_open_journal - parses the journal that is open as FD. */
static ckpt_status parse_open_journal(const struct edited_file *edited, int fd, struct journal *journal,
                                      enum journal_kind *kind, ckpt_error *err)
{
    size_t got = 0;
    if (fstat(fd, &journal->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", edited->journal);
    if (!S_ISREG(journal->st.st_mode) || journal->st.st_size > JOURNAL_MAX) {
        *kind = JOURNAL_UNRELATED;
    } else if ((journal->distrust = find_distrust(edited, &journal->st)) != NULL) {
        *kind = JOURNAL_UNTRUSTED;
    } else {
        CKPT_TRY_ALLOC(journal->bytes = malloc((size_t)journal->st.st_size + 1), err);
        if (!fd_pread(fd, journal->bytes, (size_t)journal->st.st_size, 0, &got))
            return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", edited->journal);
        *kind = journal_parse(journal, got);
    }
    return CKPT_OK;
}

/* load_journal - reads the journal of EDITED, EDITED->st being set; JOURNAL is complete only if *KIND is
 * JOURNAL_VALID. */
static ckpt_status load_journal(const struct edited_file *edited, struct journal *journal,
                                enum journal_kind *kind, ckpt_error *err)
{
    *journal = (struct journal){0};
    *kind = JOURNAL_NONE;
    int fd = openat(edited->dir, edited->journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return CKPT_OK;
    journal->unreadable = fd < 0 && (errno == EACCES || errno == EPERM);
    if (journal->unreadable || (fd < 0 && errno == ELOOP)) {
        journal->distrust = journal->unreadable ? "it may not be read" : "it is a symbolic link";
        *kind = JOURNAL_UNTRUSTED;
        return CKPT_OK;
    }
    if (fd < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", edited->journal);
    ckpt_status s = parse_open_journal(edited, fd, journal, kind, err);
    close(fd);
    return s;
}

/* ----------------------------------------------- comparing file and journal */

/* compare_piece - compares PIECE with the file of EDITED by journal_compare_piece. REWRITE: writes the same
 * bytes once more, so that they reach the disk. */
static ckpt_status compare_piece(const struct edited_file *edited, const struct journal_piece *piece,
                                 bool rewrite, bool *old, bool *new, bool *fits, ckpt_error *err)
{
    size_t got = 0;
    ckpt_status st = CKPT_OK;
    unsigned char *now = malloc(piece->size + 1);
    CKPT_TRY_ALLOC(now, err);
    if (!fd_pread(edited->fd, now, piece->size, piece->offset, &got))
        st = fail_errno(err, piece->offset, "cannot read what an edit was to change");
    else
        journal_compare_piece(piece, now, got, old, new, fits);
    if (st == CKPT_OK && rewrite && !fd_pwrite(edited->fd, now, got, piece->offset))
        st = fail_errno(err, piece->offset, "cannot write %zu bytes", got);
    free(now);
    return st;
}

/* find_state - finds out which bytes of JOURNAL the file has. */
static ckpt_status find_state(const struct edited_file *edited, const struct journal *journal,
                              enum file_state *out, ckpt_error *err)
{
    uint64_t size = (uint64_t)edited->st.st_size;
    bool old = size == journal->old_size, new = size == journal->new_size;
    bool fits = size >= journal->old_size && size <= journal->new_size,
         same_inode = journal->inode == (uint64_t)edited->st.st_ino;
    for (size_t i = 0; i < journal->n && (old || new || fits); i++)
        CKPT_TRY(compare_piece(edited, &journal->pieces[i], false, &old, &new, &fits, err));
    *out = new                  ? FILE_NEW
           : old                ? FILE_OLD
           : fits && same_inode ? FILE_MIXED
           : fits || same_inode ? FILE_CHANGED
                                : FILE_REPLACED;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- undoing */

static ckpt_status refuse_recovery(const struct edited_file *edited, enum file_state state, ckpt_error *err)
{
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
               state == FILE_REPLACED
                   ? "%s is the undo journal of another file; nothing is undone"
                   : "an edit in place was cut short, and the file changed since; %s does not fit it",
               edited->journal);
    error_add_hint(err, "if the file is intact, remove %.150s; else get the file again", edited->journal);
    return CKPT_ECHANGED;
}

/* remove_journal - removes the journal once the edit is done or undone. */
static bool remove_journal(const struct edited_file *edited, bool no_sync)
{
    return unlinkat(edited->dir, edited->journal, 0) == 0 && (no_sync || fsync(edited->dir) == 0);
}

/* restore_old_bytes - restores the old bytes and the old size, then removes the journal. */
static ckpt_status restore_old_bytes(const struct edited_file *edited, const struct journal *journal,
                                     bool no_sync, ckpt_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < journal->n; i++)
        ok = fd_pwrite(edited->fd, journal->pieces[i].old, journal->pieces[i].old_size,
                       journal->pieces[i].offset);
    ok = ok && ftruncate(edited->fd, (off_t)journal->old_size) == 0 && (no_sync || fsync(edited->fd) == 0);
    if (ok && remove_journal(edited, no_sync))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot undo the edit that was cut short\n"
                      "keep %.150s: with it the next --in-place undoes that",
                      edited->journal);
}

/* finish_edit - syncs the file of an edit that is complete, then removes the journal. */
static ckpt_status finish_edit(const struct edited_file *edited, const struct journal *journal, bool no_sync,
                               ckpt_error *err)
{
    bool ignored = true;
    for (size_t i = 0; i < journal->n; i++)
        CKPT_TRY(compare_piece(edited, &journal->pieces[i], true, &ignored, &ignored, &ignored, err));
    if ((no_sync || fsync(edited->fd) == 0) && remove_journal(edited, no_sync))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET, "cannot finish the edit that was cut short");
}

/* make_undo_patches - returns the patches that restore the old bytes of JOURNAL. */
static struct patches make_undo_patches(const struct journal *journal)
{
    struct patches p = {.old_size = journal->new_size, .new_size = journal->old_size};
    for (size_t i = 0; i < journal->n; i++)
        if (journal->pieces[i].old_size) /* patches_add cannot fail: JOURNAL has at most PATCHES_MAX pieces */
            (void)patches_add(&p, journal->pieces[i].offset,
                              str_of((const char *)journal->pieces[i].old, journal->pieces[i].old_size));
    return p;
}

/* judge_edit - fails unless JOURNAL can be the journal of a half-done edit of this file. */
static ckpt_status judge_edit(const struct edited_file *edited, const struct journal *journal,
                              const struct journal_judge *how, ckpt_error *err)
{
    source *file;
    struct patches undo = make_undo_patches(journal), none = {.new_size = (uint64_t)edited->st.st_size};
    bool accepted = false;
    if (!how->accepts_undo)
        return CKPT_OK;
    CKPT_TRY(source_file_open(edited->path, &file, err));
    source *now = source_patched(file, &none), *after = source_patched(file, &undo);
    /* NOW has no path: readers of FILE itself would stop at our own lock and the journal */
    ckpt_status st = now && after ? how->accepts_undo(how->user, now, after, &undo, &accepted, err)
                                  : fail_memory(err);
    source_unref(after);
    source_unref(now);
    source_unref(file);
    return st == CKPT_OK && !accepted ? refuse_invalid(edited, err) : st;
}

/* recover_file - finishes or undoes the edit of EDITED's file, whose journal is JOURNAL. */
static ckpt_status recover_file(const struct edited_file *edited, const struct journal *journal,
                                const struct journal_options *options, ckpt_recovered *what, ckpt_error *err)
{
    enum file_state state;
    CKPT_TRY(find_state(edited, journal, &state, err));
    if (state == FILE_CHANGED || state == FILE_REPLACED)
        return refuse_recovery(edited, state, err);
    if (state == FILE_MIXED) /* only then does a byte of the file change */
        CKPT_TRY(judge_edit(edited, journal, &options->judge, err));
    if (!options->dry_run)
        CKPT_TRY(state == FILE_NEW ? finish_edit(edited, journal, options->no_sync, err)
                                   : restore_old_bytes(edited, journal, options->no_sync, err));
    *what = state == FILE_NEW ? CKPT_RECOVERED_NEW : CKPT_RECOVERED_OLD;
    return CKPT_OK;
}

/* recover_locked - does what journal_recover does, for a file that is open and locked. */
static ckpt_status recover_locked(const struct edited_file *edited, const struct journal_options *options,
                                  ckpt_recovered *what, ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_status st = load_journal(edited, &j, &kind, err);
    if (st == CKPT_OK && kind != JOURNAL_NONE)
        st = kind == JOURNAL_VALID ? recover_file(edited, &j, options, what, err)
                                   : refuse_journal(edited, &j, kind, err);
    free(j.bytes);
    return st;
}

static bool journal_exists(const struct edited_file *edited)
{
    return faccessat(edited->dir, edited->journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

ckpt_status journal_recover(const char *path, const struct journal_options *options, ckpt_recovered *what,
                            ckpt_error *err)
{
    struct edited_file e;
    *what = CKPT_RECOVERED_NOTHING;
    ckpt_status st = resolve_path(&e, path, err);
    if (st == CKPT_OK && journal_exists(&e)) {
        close_file(&e);
        st = open_file(&e, path, options, err);
        CKPT_THEN(st, recover_locked(&e, options, what, err));
    }
    close_file(&e);
    return name_file_if_failed(st, path, err);
}

/* is_locked_by_editor - returns true if another process holds the lock of the file. */
static bool is_locked_by_editor(const struct edited_file *edited)
{
    return edited->fd >= 0 && flock(edited->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* fail_cut_short - fails because an edit left EDITED half changed; JUDGED: its journal can undo that. */
static ckpt_status fail_cut_short(const struct edited_file *edited, bool judged, ckpt_error *err)
{
    ckpt_error ignored;
    char word[SHELL_WORD_MAX];
    if (!judged)
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "an edit in place may have been cut short; %s is next to it\n"
                    "`ckpt ls %s` checks if that is its undo journal, and what to do",
                    edited->journal, shell_path(edited->asked_path, word));
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "an edit in place was cut short; %s can undo it\n"
                "`ckpt strip --in-place%s --allow-none no.such.prefix. %s` undoes it and changes nothing "
                "else",
                edited->journal,
                check_links(edited, edited->asked_path, &ignored) == CKPT_OK ? "" : " --follow-links",
                shell_path(edited->asked_path, word));
}

/* check_file_state - fails for readers if the file of EDITED is half changed, or changed again since the edit
 * of JOURNAL. */
static ckpt_status check_file_state(const struct edited_file *edited, const struct journal *journal,
                                    struct journal_note *note, enum file_state *state, ckpt_error *err)
{
    bool judged = note && note->judge.accepts_undo;
    CKPT_TRY(find_state(edited, journal, state, err));
    if (*state == FILE_MIXED && judged)
        CKPT_TRY(judge_edit(edited, journal, &note->judge, err));
    return *state == FILE_MIXED     ? fail_cut_short(edited, judged, err)
           : *state == FILE_CHANGED ? refuse_recovery(edited, *state, err)
                                    : CKPT_OK;
}

/* note_journal - sets the notice if readers ignore the journal JOURNAL because it is not trusted, or is that
 * of a different file. */
static void note_journal(struct journal_note *note, const struct journal *journal, enum file_state state,
                         const char *path)
{
    if (!note)
        return;
    if (journal->distrust)
        (void)snprintf(note->text, sizeof note->text,
                       "%.300s" JOURNAL_SUFFIX " is not trusted as its undo journal: %s", path,
                       journal->distrust);
    else if (state == FILE_REPLACED)
        (void)snprintf(note->text, sizeof note->text,
                       "%.300s" JOURNAL_SUFFIX " is the undo journal of another file; if this one is intact, "
                       "remove the journal",
                       path);
}

/* is_same_journal - returns true if JOURNAL is still the journal of EDITED. */
static bool is_same_journal(const struct edited_file *edited, const struct journal *journal)
{
    struct stat st;
    return fstatat(edited->dir, edited->journal, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_ino == journal->st.st_ino && st.st_mtim.tv_sec == journal->st.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == journal->st.st_mtim.tv_nsec;
}

/* check_open_file - does what journal_check does, for EDITED, which is open. */
static ckpt_status check_open_file(const struct edited_file *edited, struct journal_note *note,
                                   ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    enum file_state state = FILE_OLD;
    ckpt_status s = load_journal(edited, &j, &kind, err);
    bool relevant = kind != JOURNAL_NONE && kind != JOURNAL_UNRELATED &&
                    (kind != JOURNAL_UNTRUSTED || j.unreadable);
    if (s == CKPT_OK && relevant && is_locked_by_editor(edited))
        s = fail_being_edited(err);
    else if (s == CKPT_OK && kind == JOURNAL_VALID)
        s = check_file_state(edited, &j, note, &state, err);
    else if (s == CKPT_OK && relevant && !j.unreadable)
        s = refuse_journal(edited, &j, kind, err);
    if (s != CKPT_OK && relevant && (is_locked_by_editor(edited) || !is_same_journal(edited, &j)))
        s = fail_being_edited(err); /* J's edit was not cut short: it goes on, or has ended */
    note_journal(note, &j, state, edited->asked_path);
    free(j.bytes);
    return s;
}

/* open_for_check - opens PATH as EDITED for reading. False: there is no journal to check; or no file, which
 * the caller reports when opening it. */
static bool open_for_check(struct edited_file *edited, const char *path)
{
    ckpt_error ignored;
    char name[PATH_MAX];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s" JOURNAL_SUFFIX, path);
    bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    edited->dir = edited->fd = -1;
    if (strcmp(path, "-") == 0 || n < 0 || (size_t)n >= sizeof name || (!is_link && access(name, F_OK)) ||
        resolve_path(edited, path, &ignored) != CKPT_OK)
        return false;
    edited->fd = open(edited->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return edited->fd >= 0 && fstat(edited->fd, &edited->st) == 0 && S_ISREG(edited->st.st_mode);
}

ckpt_status journal_check(const char *path, struct journal_note *note, ckpt_error *err)
{
    struct edited_file e;
    if (note)
        note->text[0] = '\0';
    ckpt_status s = open_for_check(&e, path) ? check_open_file(&e, note, err) : CKPT_OK;
    close_file(&e);
    return name_file_if_failed(s, path, err);
}

ckpt_status journal_open(const char *path, struct journal_note *note, source **out, ckpt_error *err)
{
    CKPT_TRY(source_file_open(path, out, err));
    ckpt_status st = journal_check(path, note, err);
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

ckpt_status journal_check_after_read(const char *path, source *src, ckpt_error *err)
{
    if (!source_is_named_file(src))
        return CKPT_OK;
    struct edited_file e;
    bool edited = open_for_check(&e, path) && journal_exists(&e) && is_locked_by_editor(&e);
    close_file(&e);
    return edited ? name_file_if_failed(fail_being_edited(err), path, err)
                  : source_check_not_written(src, err);
}

void journal_remove_stale(int dir, const char *base)
{
    ckpt_error ignored;
    struct edited_file e = {.dir = dir, .base_name = base, .fd = -1};
    struct journal j;
    enum journal_kind kind;
    if (!name_journal(&e) || fstatat(dir, base, &e.st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (load_journal(&e, &j, &kind, &ignored) == CKPT_OK && kind >= JOURNAL_DAMAGED) /* or intact */
        unlinkat(dir, e.journal, 0);
    free(j.bytes);
}

/* ------------------------------------------------------------------- editing */

/* make_trusted - gives the journal, open as FD, to the owner of the file if this process may. Returns true
 * if readers will trust it after a crash. */
static bool make_trusted(const struct edited_file *edited, int fd)
{
    struct stat st;
    if (edited->st.st_uid != geteuid() && fchown(fd, edited->st.st_uid, (gid_t)-1) != 0)
        errno = 0; /* it still belongs to us, so we will trust it */
    return fstat(fd, &st) != 0 || !find_distrust(edited, &st); /* if unknown, assume yes */
}

/* create_journal - puts the journal on disk; it gets its name when it is complete. */
static ckpt_status create_journal(struct edited_file *edited, const struct patches *patches, bool no_sync,
                                  ckpt_error *err)
{
    struct temp t;
    char *base = edited->path + (edited->base_name - edited->path), first_letter = *base;
    int last_errno = 0;
    *base = '\0'; /* temp_open takes the path of the folder */
    bool ok = temp_open(&t, edited->path, edited->journal, 0600, NULL), is_placed = false;
    *base = first_letter;
    if (ok && !make_trusted(edited, t.fd)) {
        temp_close(&t);
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "others could write to its undo journal; it cannot be edited in place\n"
                    "-o OUT writes a copy");
    }
    ckpt_status st = ok ? journal_write(t.fd, &last_errno, edited->fd, (uint64_t)edited->st.st_ino, patches,
                                        err)
                        : CKPT_OK;
    if (st == CKPT_OK && ok && !last_errno) {
        is_placed = (no_sync || fsync(t.fd) == 0) && temp_place(&t, edited->journal, false);
        ok = is_placed && (no_sync || fsync(edited->dir) == 0);
    }
    last_errno = last_errno ? last_errno : errno;
    temp_close(&t);
    if (st != CKPT_OK || (ok && is_placed))
        return st;
    if (is_placed)
        unlinkat(edited->dir, edited->journal, 0);
    errno = last_errno;
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot write its undo journal %s\n"
                      "the file is as it was; -o OUT writes a copy elsewhere",
                      edited->journal);
}

/* advance_mtime - waits until mtime differs from that before the edit, because the clock of a file
 * system may be coarse. Gives up after 20 ms: the clock may count seconds. */
static void advance_mtime(const struct edited_file *edited)
{
    static const struct timespec pause = {0, 1000000};
    struct stat now;
    for (int i = 0; i < 20 && fstat(edited->fd, &now) == 0; i++) {
        if (now.st_mtim.tv_sec != edited->st.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != edited->st.st_mtim.tv_nsec)
            return;
        (void)nanosleep(&pause, NULL);
        (void)futimens(edited->fd, NULL);
    }
}

static ckpt_status write_patches(const struct edited_file *edited, const struct patches *patches,
                                 bool no_sync, ckpt_error *err)
{
    for (size_t i = 0; i < patches->n; i++)
        if (!fd_pwrite(edited->fd, patches->patch[i].bytes.ptr, patches->patch[i].bytes.len,
                       patches->patch[i].offset))
            return fail_errno(err, patches->patch[i].offset, "cannot write %zu bytes",
                              patches->patch[i].bytes.len);
    advance_mtime(edited);
    if (!no_sync && fsync(edited->fd) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot flush the change to disk");
    return CKPT_OK;
}

/* undo_edit - restores the file of EDITED from its journal after a failed edit. */
static ckpt_status undo_edit(const struct edited_file *edited, const struct journal_options *options)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_error err;
    ckpt_status st = load_journal(edited, &j, &kind, &err);
    if (st == CKPT_OK)
        st = kind == JOURNAL_VALID ? restore_old_bytes(edited, &j, options->no_sync, &err) : CKPT_ECHANGED;
    free(j.bytes);
    return st;
}

/* edit_with_journal - writes the journal and the patches, removes the journal; a failure undoes the edit. */
static ckpt_status edit_with_journal(struct edited_file *edited, const struct patches *patches,
                                     const struct journal_options *options, ckpt_error *err)
{
    CKPT_TRY(create_journal(edited, patches, options->no_sync, err));
    ckpt_status st = write_patches(edited, patches, options->no_sync, err);
    if (st == CKPT_OK) {
        if (remove_journal(edited,
                           true)) /* if a power cut brings it back, the next run finds the edit done */
            return CKPT_OK;
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove %s, so the edit is undone", edited->journal);
    }
    if (undo_edit(edited, options) == CKPT_OK)
        error_add_hint(err, "the file is as it was");
    else
        error_add_hint(err, "the file is half changed: keep %.150s, the next --in-place undoes that",
                       edited->journal);
    return st;
}

/* check_before_edit - fails if the file changed since it was read, or has a journal by now. */
static ckpt_status check_before_edit(const struct edited_file *edited, const struct patches *patches,
                                     const struct journal_options *options, ckpt_error *err)
{
    if (options->judge.check_unchanged)
        CKPT_TRY(options->judge.check_unchanged(options->judge.user, err));
    if (!options->dry_run && journal_exists(edited))
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s appeared since the file was opened\nrun the command again", edited->journal);
    if ((uint64_t)edited->st.st_size == patches->old_size)
        return CKPT_OK;
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "the file has %llu bytes; it had %llu when it was read\n"
                "try again when nothing is writing to it",
                (unsigned long long)edited->st.st_size, (unsigned long long)patches->old_size);
}

static ckpt_status edit_open_file(struct edited_file *edited, const struct patches *patches,
                                  const struct journal_options *options, ckpt_error *err)
{
    sigset_t all, old;
    CKPT_TRY(check_before_edit(edited, patches, options, err));
    if (options->dry_run || patches->n == 0)
        return CKPT_OK;
    /* A signal that ends the program in these milliseconds would leave the undoing to the next run. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    ckpt_status st = edit_with_journal(edited, patches, options, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st == CKPT_OK && is_replaced(edited) ? refuse_replaced("the new one does not have the edit", err)
                                                : st;
}

ckpt_status journal_apply(const char *path, const struct patches *patches,
                          const struct journal_options *options, ckpt_error *err)
{
    struct edited_file e;
    ckpt_status st = open_file(&e, path, options, err);
    CKPT_THEN(st, edit_open_file(&e, patches, options, err));
    close_file(&e);
    return name_file_if_failed(st, path, err);
}
