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
#include <sys/stat.h>
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

static void close_file(struct edited_file *e)
{
    if (e->fd >= 0)
        close(e->fd);
    if (e->dir >= 0)
        close(e->dir);
    e->fd = e->dir = -1;
}

static bool name_journal(struct edited_file *e)
{
    int n = snprintf(e->journal, sizeof e->journal, "%s" JOURNAL_SUFFIX, e->base_name);
    return n > 0 && (size_t)n < sizeof e->journal;
}

/* resolve_path - resolves the symbolic links of PATH, opens its folder and names the journal. */
static ckpt_status resolve_path(struct edited_file *e, const char *path, ckpt_error *err)
{
    e->dir = e->fd = -1;
    e->asked_path = path;
    if (!realpath(path, e->path))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open");
    char *slash = strrchr(e->path, '/');
    e->base_name = slash + 1;
    if (!name_journal(e)) {
        errno = ENAMETOOLONG;
        return fail_errno(err, CKPT_NO_OFFSET, "no room for \"" JOURNAL_SUFFIX "\" after its name");
    }
    *slash = '\0';
    e->dir = open(slash == e->path ? "/" : e->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    return e->dir < 0 ? fail_errno(err, CKPT_NO_OFFSET, "cannot open its folder") : CKPT_OK;
}

static ckpt_status check_links(const struct edited_file *e, const char *path, ckpt_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "is a symbolic link to %s; others may use that file\n"
                    "-o OUT writes a copy; --follow-links edits the file it leads to",
                    e->path);
    if (e->st.st_nlink > 1)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "has %llu names (hard links); an edit would show under all of them\n"
                    "-o OUT writes a copy; --follow-links edits it under all its names",
                    (unsigned long long)e->st.st_nlink);
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
static bool is_replaced(const struct edited_file *e)
{
    struct stat now;
    if (fstatat(e->dir, e->base_name, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    return now.st_dev != e->st.st_dev || now.st_ino != e->st.st_ino;
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
static ckpt_status open_file(struct edited_file *e, const char *path, const struct journal_options *o,
                             ckpt_error *err)
{
    CKPT_TRY(resolve_path(e, path, err));
    e->fd = open(e->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (e->fd < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing\n-o OUT writes a copy");
    if (fstat(e->fd, &e->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if (!S_ISREG(e->st.st_mode))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "is not a regular file; only regular files are edited in place\n-o OUT writes a copy");
    if (!o->follow_links)
        CKPT_TRY(check_links(e, path, err));
    if (flock(e->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail_being_edited(err);
    if (fstat(e->fd, &e->st) != 0) /* again: an edit may have ended in between */
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    return is_replaced(e) ? refuse_replaced("nothing was changed", err) : CKPT_OK;
}

/* --------------------------------------------------------------- the journal */

/* refuse_invalid - fails because no edit of E's file can have replaced the old bytes in its journal. */
static ckpt_status refuse_invalid(const struct edited_file *e, ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "%s does not hold what an edit of this file replaces; nothing is undone\n"
                "if the file is intact, remove %.150s; else get the file again",
                e->journal, e->journal);
}

/* refuse_journal - reports the journal J of kind K, from which nothing can be undone. */
static ckpt_status refuse_journal(const struct edited_file *e, const struct journal *j, enum journal_kind k,
                                  ckpt_error *err)
{
    switch (k) {
    case JOURNAL_INVALID: return refuse_invalid(e, err);
    case JOURNAL_UNTRUSTED:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s is not trusted: %s; nothing is undone\n"
                    "find out who wrote it, then give it another name",
                    e->journal, j->distrust);
    case JOURNAL_OTHER_VERSION:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "another version of ckpt wrote %s\nthe version that edited the file undoes it",
                    e->journal);
    case JOURNAL_DAMAGED:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "an edit in place may have been cut short; its undo journal %s is damaged\n"
                    "keep the journal under another name; then `ckpt verify` checks if the file is intact",
                    e->journal);
    default:
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s is not an undo journal, but has the name of one\ngive it another name", e->journal);
    }
}

/* find_distrust - returns why a journal with the attributes ST is not trusted for E; NULL: it is. */
static const char *find_distrust(const struct edited_file *e, const struct stat *st)
{
    if (st->st_uid != e->st.st_uid && st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    return st->st_nlink > 1 ? "it has other names (hard links)" : NULL;
}

/* parse_open_journal - parses the journal that is open as FD. */
static ckpt_status parse_open_journal(const struct edited_file *e, int fd, struct journal *j,
                                      enum journal_kind *kind, ckpt_error *err)
{
    size_t got = 0;
    if (fstat(fd, &j->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    if (!S_ISREG(j->st.st_mode) || j->st.st_size > JOURNAL_MAX) {
        *kind = JOURNAL_UNRELATED;
    } else if ((j->distrust = find_distrust(e, &j->st)) != NULL) {
        *kind = JOURNAL_UNTRUSTED;
    } else {
        CKPT_TRY_ALLOC(j->bytes = malloc((size_t)j->st.st_size + 1), err);
        if (!fd_pread(fd, j->bytes, (size_t)j->st.st_size, 0, &got))
            return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
        *kind = journal_parse(j, got);
    }
    return CKPT_OK;
}

/* load_journal - reads the journal of E, E->st being set; J is complete only if *KIND is JOURNAL_VALID. */
static ckpt_status load_journal(const struct edited_file *e, struct journal *j, enum journal_kind *kind,
                                ckpt_error *err)
{
    *j = (struct journal){0};
    *kind = JOURNAL_NONE;
    int fd = openat(e->dir, e->journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return CKPT_OK;
    j->unreadable = fd < 0 && (errno == EACCES || errno == EPERM);
    if (j->unreadable || (fd < 0 && errno == ELOOP)) {
        j->distrust = j->unreadable ? "it may not be read" : "it is a symbolic link";
        *kind = JOURNAL_UNTRUSTED;
        return CKPT_OK;
    }
    if (fd < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    ckpt_status s = parse_open_journal(e, fd, j, kind, err);
    close(fd);
    return s;
}

/* ----------------------------------------------- comparing file and journal */

/* compare_piece - compares P with the file of E by journal_compare_piece. REWRITE: writes the same bytes once
 * more, so that they reach the disk. */
static ckpt_status compare_piece(const struct edited_file *e, const struct journal_piece *p, bool rewrite,
                                 bool *old, bool *new, bool *fits, ckpt_error *err)
{
    size_t got = 0;
    ckpt_status st = CKPT_OK;
    unsigned char *now = malloc(p->size + 1);
    CKPT_TRY_ALLOC(now, err);
    if (!fd_pread(e->fd, now, p->size, p->offset, &got))
        st = fail_errno(err, p->offset, "cannot read what an edit was to change");
    else
        journal_compare_piece(p, now, got, old, new, fits);
    if (st == CKPT_OK && rewrite && !fd_pwrite(e->fd, now, got, p->offset))
        st = fail_errno(err, p->offset, "cannot write %zu bytes", got);
    free(now);
    return st;
}

/* find_state - finds out which bytes of J the file has. */
static ckpt_status find_state(const struct edited_file *e, const struct journal *j, enum file_state *out,
                              ckpt_error *err)
{
    uint64_t size = (uint64_t)e->st.st_size;
    bool old = size == j->old_size, new = size == j->new_size;
    bool fits = size >= j->old_size && size <= j->new_size, same_inode = j->inode == (uint64_t)e->st.st_ino;
    for (size_t i = 0; i < j->n && (old || new || fits); i++)
        CKPT_TRY(compare_piece(e, &j->pieces[i], false, &old, &new, &fits, err));
    *out = new                  ? FILE_NEW
           : old                ? FILE_OLD
           : fits && same_inode ? FILE_MIXED
           : fits || same_inode ? FILE_CHANGED
                                : FILE_REPLACED;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- undoing */

static ckpt_status refuse_recovery(const struct edited_file *e, enum file_state state, ckpt_error *err)
{
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
               state == FILE_REPLACED
                   ? "%s is the undo journal of another file; nothing is undone"
                   : "an edit in place was cut short, and the file changed since; %s does not fit it",
               e->journal);
    error_add_hint(err, "if the file is intact, remove %.150s; else get the file again", e->journal);
    return CKPT_ECHANGED;
}

/* remove_journal - removes the journal once the edit is done or undone. */
static bool remove_journal(const struct edited_file *e, bool no_sync)
{
    return unlinkat(e->dir, e->journal, 0) == 0 && (no_sync || fsync(e->dir) == 0);
}

/* restore_old_bytes - restores the old bytes and the old size, then removes the journal. */
static ckpt_status restore_old_bytes(const struct edited_file *e, const struct journal *j, bool no_sync,
                                     ckpt_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < j->n; i++)
        ok = fd_pwrite(e->fd, j->pieces[i].old, j->pieces[i].old_size, j->pieces[i].offset);
    ok = ok && ftruncate(e->fd, (off_t)j->old_size) == 0 && (no_sync || fsync(e->fd) == 0);
    if (ok && remove_journal(e, no_sync))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot undo the edit that was cut short\n"
                      "keep %.150s: with it the next --in-place undoes that",
                      e->journal);
}

/* finish_edit - syncs the file of an edit that is complete, then removes the journal. */
static ckpt_status finish_edit(const struct edited_file *e, const struct journal *j, bool no_sync,
                               ckpt_error *err)
{
    bool ignored = true;
    for (size_t i = 0; i < j->n; i++)
        CKPT_TRY(compare_piece(e, &j->pieces[i], true, &ignored, &ignored, &ignored, err));
    if ((no_sync || fsync(e->fd) == 0) && remove_journal(e, no_sync))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET, "cannot finish the edit that was cut short");
}

/* make_undo_patches - returns the patches that restore the old bytes of J. */
static struct patches make_undo_patches(const struct journal *j)
{
    struct patches p = {.old_size = j->new_size, .new_size = j->old_size};
    for (size_t i = 0; i < j->n; i++)
        if (j->pieces[i].old_size) /* patches_add cannot fail: J has at most PATCHES_MAX pieces */
            (void)patches_add(&p, j->pieces[i].offset,
                              str_of((const char *)j->pieces[i].old, j->pieces[i].old_size));
    return p;
}

/* judge_edit - fails unless J can be the journal of a half-done edit of this file. */
static ckpt_status judge_edit(const struct edited_file *e, const struct journal *j,
                              const struct journal_judge *how, ckpt_error *err)
{
    source *file;
    struct patches undo = make_undo_patches(j), none = {.new_size = (uint64_t)e->st.st_size};
    bool accepted = false;
    if (!how->accepts_undo)
        return CKPT_OK;
    CKPT_TRY(source_file_open(e->path, &file, err));
    source *now = source_patched(file, &none), *after = source_patched(file, &undo);
    /* NOW has no path: readers of FILE itself would stop at our own lock and the journal */
    ckpt_status st = now && after ? how->accepts_undo(how->user, now, after, &undo, &accepted, err)
                                  : fail_memory(err);
    source_unref(after);
    source_unref(now);
    source_unref(file);
    return st == CKPT_OK && !accepted ? refuse_invalid(e, err) : st;
}

/* recover_file - finishes or undoes the edit of E's file, whose journal is J. */
static ckpt_status recover_file(const struct edited_file *e, const struct journal *j,
                                const struct journal_options *o, ckpt_recovered *what, ckpt_error *err)
{
    enum file_state state;
    CKPT_TRY(find_state(e, j, &state, err));
    if (state == FILE_CHANGED || state == FILE_REPLACED)
        return refuse_recovery(e, state, err);
    if (state == FILE_MIXED) /* only then does a byte of the file change */
        CKPT_TRY(judge_edit(e, j, &o->judge, err));
    if (!o->dry_run)
        CKPT_TRY(state == FILE_NEW ? finish_edit(e, j, o->no_sync, err)
                                   : restore_old_bytes(e, j, o->no_sync, err));
    *what = state == FILE_NEW ? CKPT_RECOVERED_NEW : CKPT_RECOVERED_OLD;
    return CKPT_OK;
}

/* recover_locked - does what journal_recover does, for a file that is open and locked. */
static ckpt_status recover_locked(const struct edited_file *e, const struct journal_options *o,
                                  ckpt_recovered *what, ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_status st = load_journal(e, &j, &kind, err);
    if (st == CKPT_OK && kind != JOURNAL_NONE)
        st = kind == JOURNAL_VALID ? recover_file(e, &j, o, what, err) : refuse_journal(e, &j, kind, err);
    free(j.bytes);
    return st;
}

static bool journal_exists(const struct edited_file *e)
{
    return faccessat(e->dir, e->journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

ckpt_status journal_recover(const char *path, const struct journal_options *o, ckpt_recovered *what,
                            ckpt_error *err)
{
    struct edited_file e;
    *what = CKPT_RECOVERED_NOTHING;
    ckpt_status st = resolve_path(&e, path, err);
    if (st == CKPT_OK && journal_exists(&e)) {
        close_file(&e);
        st = open_file(&e, path, o, err);
        if (st == CKPT_OK)
            st = recover_locked(&e, o, what, err);
    }
    close_file(&e);
    return name_file_if_failed(st, path, err);
}

/* is_locked_by_editor - returns true if another process holds the lock of the file. */
static bool is_locked_by_editor(const struct edited_file *e)
{
    return e->fd >= 0 && flock(e->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* fail_cut_short - fails because an edit left E half changed; JUDGED: its journal can undo that. */
static ckpt_status fail_cut_short(const struct edited_file *e, bool judged, ckpt_error *err)
{
    ckpt_error ignored;
    char word[SHELL_WORD_MAX];
    if (!judged)
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "an edit in place may have been cut short; %s is next to it\n"
                    "`ckpt ls %s` checks if that is its undo journal, and what to do",
                    e->journal, shell_path(e->asked_path, word));
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "an edit in place was cut short; %s can undo it\n"
                "`ckpt strip --in-place%s --allow-none no.such.prefix. %s` undoes it and changes nothing "
                "else",
                e->journal, check_links(e, e->asked_path, &ignored) == CKPT_OK ? "" : " --follow-links",
                shell_path(e->asked_path, word));
}

/* check_file_state - fails for readers if the file of E is half changed, or changed again since the edit of
 * J. */
static ckpt_status check_file_state(const struct edited_file *e, const struct journal *j,
                                    struct journal_note *note, enum file_state *state, ckpt_error *err)
{
    bool judged = note && note->judge.accepts_undo;
    CKPT_TRY(find_state(e, j, state, err));
    if (*state == FILE_MIXED && judged)
        CKPT_TRY(judge_edit(e, j, &note->judge, err));
    return *state == FILE_MIXED     ? fail_cut_short(e, judged, err)
           : *state == FILE_CHANGED ? refuse_recovery(e, *state, err)
                                    : CKPT_OK;
}

/* note_journal - sets the notice if readers ignore the journal J because it is not trusted, or is that of a
 * different file. */
static void note_journal(struct journal_note *note, const struct journal *j, enum file_state state,
                         const char *path)
{
    if (!note)
        return;
    if (j->distrust)
        (void)snprintf(note->text, sizeof note->text,
                       "%.300s" JOURNAL_SUFFIX " is not trusted as its undo journal: %s", path, j->distrust);
    else if (state == FILE_REPLACED)
        (void)snprintf(note->text, sizeof note->text,
                       "%.300s" JOURNAL_SUFFIX " is the undo journal of another file; if this one is intact, "
                       "remove the journal",
                       path);
}

/* is_same_journal - returns true if J is still the journal of E. */
static bool is_same_journal(const struct edited_file *e, const struct journal *j)
{
    struct stat st;
    return fstatat(e->dir, e->journal, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == j->st.st_ino &&
           st.st_mtim.tv_sec == j->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == j->st.st_mtim.tv_nsec;
}

/* check_open_file - does what journal_check does, for E, which is open. */
static ckpt_status check_open_file(const struct edited_file *e, struct journal_note *note, ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    enum file_state state = FILE_OLD;
    ckpt_status s = load_journal(e, &j, &kind, err);
    bool relevant = kind != JOURNAL_NONE && kind != JOURNAL_UNRELATED &&
                    (kind != JOURNAL_UNTRUSTED || j.unreadable);
    if (s == CKPT_OK && relevant && is_locked_by_editor(e))
        s = fail_being_edited(err);
    else if (s == CKPT_OK && kind == JOURNAL_VALID)
        s = check_file_state(e, &j, note, &state, err);
    else if (s == CKPT_OK && relevant && !j.unreadable)
        s = refuse_journal(e, &j, kind, err);
    if (s != CKPT_OK && relevant && (is_locked_by_editor(e) || !is_same_journal(e, &j)))
        s = fail_being_edited(err); /* J's edit was not cut short: it goes on, or has ended */
    note_journal(note, &j, state, e->asked_path);
    free(j.bytes);
    return s;
}

/* open_for_check - opens PATH as E for reading. False: there is no journal to check; or no file, which the
 * caller reports when opening it. */
static bool open_for_check(struct edited_file *e, const char *path)
{
    ckpt_error ignored;
    char name[PATH_MAX];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s" JOURNAL_SUFFIX, path);
    bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    e->dir = e->fd = -1;
    if (strcmp(path, "-") == 0 || n < 0 || (size_t)n >= sizeof name || (!is_link && access(name, F_OK)) ||
        resolve_path(e, path, &ignored) != CKPT_OK)
        return false;
    e->fd = open(e->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return e->fd >= 0 && fstat(e->fd, &e->st) == 0 && S_ISREG(e->st.st_mode);
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

ckpt_status journal_check_after_read(const char *path, source *s, ckpt_error *err)
{
    if (!source_is_named_file(s))
        return CKPT_OK;
    struct edited_file e;
    bool edited = open_for_check(&e, path) && journal_exists(&e) && is_locked_by_editor(&e);
    close_file(&e);
    return edited ? name_file_if_failed(fail_being_edited(err), path, err) : source_check_not_written(s, err);
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
static bool make_trusted(const struct edited_file *e, int fd)
{
    struct stat st;
    if (e->st.st_uid != geteuid() && fchown(fd, e->st.st_uid, (gid_t)-1) != 0)
        errno = 0;                                        /* it still belongs to us, so we will trust it */
    return fstat(fd, &st) != 0 || !find_distrust(e, &st); /* if unknown, assume yes */
}

/* create_journal - puts the journal on disk; it gets its name when it is complete. */
static ckpt_status create_journal(struct edited_file *e, const struct patches *p, bool no_sync,
                                  ckpt_error *err)
{
    struct temp t;
    char *base = e->path + (e->base_name - e->path), first_letter = *base;
    int last_errno = 0;
    *base = '\0'; /* temp_open takes the path of the folder */
    bool ok = temp_open(&t, e->path, e->journal, 0600, NULL), is_placed = false;
    *base = first_letter;
    if (ok && !make_trusted(e, t.fd)) {
        temp_close(&t);
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "others could write to its undo journal; it cannot be edited in place\n"
                    "-o OUT writes a copy");
    }
    ckpt_status st = ok ? journal_write(t.fd, &last_errno, e->fd, (uint64_t)e->st.st_ino, p, err) : CKPT_OK;
    if (st == CKPT_OK && ok && !last_errno) {
        is_placed = (no_sync || fsync(t.fd) == 0) && temp_place(&t, e->journal, false);
        ok = is_placed && (no_sync || fsync(e->dir) == 0);
    }
    last_errno = last_errno ? last_errno : errno;
    temp_close(&t);
    if (st != CKPT_OK || (ok && is_placed))
        return st;
    if (is_placed)
        unlinkat(e->dir, e->journal, 0);
    errno = last_errno;
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot write its undo journal %s\n"
                      "the file is as it was; -o OUT writes a copy elsewhere",
                      e->journal);
}

/* advance_mtime - waits until mtime differs from that before the edit, because the clock of a file
 * system may be coarse. Gives up after 20 ms: the clock may count seconds. */
static void advance_mtime(const struct edited_file *e)
{
    static const struct timespec pause = {0, 1000000};
    struct stat now;
    for (int i = 0; i < 20 && fstat(e->fd, &now) == 0; i++) {
        if (now.st_mtim.tv_sec != e->st.st_mtim.tv_sec || now.st_mtim.tv_nsec != e->st.st_mtim.tv_nsec)
            return;
        (void)nanosleep(&pause, NULL);
        (void)futimens(e->fd, NULL);
    }
}

static ckpt_status write_patches(const struct edited_file *e, const struct patches *p, bool no_sync,
                                 ckpt_error *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!fd_pwrite(e->fd, p->patch[i].bytes.ptr, p->patch[i].bytes.len, p->patch[i].offset))
            return fail_errno(err, p->patch[i].offset, "cannot write %zu bytes", p->patch[i].bytes.len);
    advance_mtime(e);
    if (!no_sync && fsync(e->fd) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot flush the change to disk");
    return CKPT_OK;
}

/* undo_edit - restores the file of E from its journal after a failed edit. */
static ckpt_status undo_edit(const struct edited_file *e, const struct journal_options *o)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_error err;
    ckpt_status st = load_journal(e, &j, &kind, &err);
    if (st == CKPT_OK)
        st = kind == JOURNAL_VALID ? restore_old_bytes(e, &j, o->no_sync, &err) : CKPT_ECHANGED;
    free(j.bytes);
    return st;
}

/* edit_with_journal - writes the journal and the patches, removes the journal; a failure undoes the edit. */
static ckpt_status edit_with_journal(struct edited_file *e, const struct patches *p,
                                     const struct journal_options *o, ckpt_error *err)
{
    CKPT_TRY(create_journal(e, p, o->no_sync, err));
    ckpt_status st = write_patches(e, p, o->no_sync, err);
    if (st == CKPT_OK) {
        if (remove_journal(e, true)) /* if a power cut brings it back, the next run finds the edit done */
            return CKPT_OK;
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove %s, so the edit is undone", e->journal);
    }
    if (undo_edit(e, o) == CKPT_OK)
        error_add_hint(err, "the file is as it was");
    else
        error_add_hint(err, "the file is half changed: keep %.150s, the next --in-place undoes that",
                       e->journal);
    return st;
}

/* check_before_edit - fails if the file changed since it was read, or has a journal by now. */
static ckpt_status check_before_edit(const struct edited_file *e, const struct patches *p,
                                     const struct journal_options *o, ckpt_error *err)
{
    if (o->judge.check_unchanged)
        CKPT_TRY(o->judge.check_unchanged(o->judge.user, err));
    if (!o->dry_run && journal_exists(e))
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "%s appeared since the file was opened\nrun the command again", e->journal);
    if ((uint64_t)e->st.st_size == p->old_size)
        return CKPT_OK;
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "the file has %llu bytes; it had %llu when it was read\n"
                "try again when nothing is writing to it",
                (unsigned long long)e->st.st_size, (unsigned long long)p->old_size);
}

static ckpt_status edit_open_file(struct edited_file *e, const struct patches *p,
                                  const struct journal_options *o, ckpt_error *err)
{
    sigset_t all, old;
    CKPT_TRY(check_before_edit(e, p, o, err));
    if (o->dry_run || p->n == 0)
        return CKPT_OK;
    /* A signal that ends the program in these milliseconds would leave the undoing to the next run. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    ckpt_status st = edit_with_journal(e, p, o, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st == CKPT_OK && is_replaced(e) ? refuse_replaced("the new one does not have the edit", err) : st;
}

ckpt_status journal_apply(const char *path, const struct patches *p, const struct journal_options *o,
                          ckpt_error *err)
{
    struct edited_file e;
    ckpt_status st = open_file(&e, path, o, err);
    if (st == CKPT_OK)
        st = edit_open_file(&e, p, o, err);
    close_file(&e);
    return name_file_if_failed(st, path, err);
}
