/*
 * journal.c - see journal.h. The journal of FILE is FILE.ckpt-undo; journal_bytes.c has its layout.
 *
 * The order of things, each on disk before the next begins:
 *
 *   1  the journal          without a name: FILE was not touched
 *   2  its name             so one that has it is whole, or was damaged later
 *   3  FILE, changed        from here on the edit is done, and said to be
 *   4  no journal           is not waited for
 *
 * So a journal may be there again after a power cut though the edit was done. The
 * next run sees what there is, sector by sector, and a disk writes a sector as a
 * whole or not at all:
 *
 *   all are the new ones    it writes FILE out and removes the journal
 *   each is old or new      it puts the old ones back, if the journal is of this inode
 *   anything else           a backup copied over FILE, another file of that name:
 *                           both stay as they are
 *
 * Nothing else is ever removed: a damaged journal may be all that is left of the old
 * bytes, and a file that is none belongs to somebody.
 *
 * A folder may be open to others, so a file of that name proves nothing. It counts only if it
 * is a regular file with one name, belongs to the owner of FILE or to us, and nobody else may
 * write to it; and where it would change FILE, if journal_judge finds that an edit can have
 * left it. What does not count is reported, and stays.
 *
 * Readers hold no lock. They open FILE, look for the journal, read, look for an editor at work
 * and for the time of the last change: an edit has its journal from before its first change to
 * after its last, and leaves another time (stamp), so it is never missed.
 *
 * A sector that differs and holds the old bytes is never taken for a new one,
 * whatever its CRC-32. Readers pass when all are old or all are new, and where another
 * inode holds something else: that file was put in the place of the edited one. A
 * damaged journal stops them, as it cannot tell. The number of
 * the device is not asked for, as it may be another one after the next start of the
 * machine, and the journal stands in the folder of its file anyway.
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
struct editing {
    const char *asked;
    char path[PATH_MAX]; /* without links */
    const char *base;    /* its last part */
    char journal[NAME_MAX + 1];
    int dir, fd;
    struct stat st;
};

/* What there is of the sectors that a journal speaks of. FOREIGN: neither. OTHER: and in another file. */
enum state { OLD, NEW, MIXED, FOREIGN, OTHER };

/* ------------------------------------------------------------------ the file */

static void close_file(struct editing *e)
{
    if (e->fd >= 0)
        close(e->fd);
    if (e->dir >= 0)
        close(e->dir);
    e->fd = e->dir = -1;
}

static bool name_journal(struct editing *e)
{
    int n = snprintf(e->journal, sizeof e->journal, "%s" JOURNAL_SUFFIX, e->base);
    return n > 0 && (size_t)n < sizeof e->journal;
}

/* resolve - the path without links, the folder's and the journal's names. */
static ckpt_status resolve(struct editing *e, const char *path, ckpt_error *err)
{
    e->dir = e->fd = -1;
    e->asked = path;
    if (!realpath(path, e->path))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open");
    char *slash = strrchr(e->path, '/');
    e->base = slash + 1;
    if (!name_journal(e)) {
        errno = ENAMETOOLONG;
        return fail_errno(err, CKPT_NO_OFFSET, "no room for \"" JOURNAL_SUFFIX "\" after its name");
    }
    *slash = '\0';
    e->dir = open(slash == e->path ? "/" : e->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    return e->dir < 0 ? fail_errno(err, CKPT_NO_OFFSET, "cannot open its folder") : CKPT_OK;
}

static ckpt_status check_links(const struct editing *e, const char *path, ckpt_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a symbolic link to %s; others may use that file",
                   e->path);
        fail_hint(err, "-o OUT writes a copy; --follow-links edits the file it leads to");
        return CKPT_EUSAGE;
    }
    if (e->st.st_nlink > 1) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                   "a file with %llu names (hard links); an edit would show under all of them",
                   (unsigned long long)e->st.st_nlink);
        fail_hint(err, "-o OUT writes a copy; --follow-links edits it under all its names");
        return CKPT_EUSAGE;
    }
    return CKPT_OK;
}

/* being_edited - somebody holds the lock of the file. */
static ckpt_status being_edited(ckpt_error *err)
{
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another program is editing it");
    fail_hint(err, "try again when it is done");
    return CKPT_ECHANGED;
}

/* is_replaced - does the name of the file lead to another one now, or to none? Programs that save a file as a
 * whole rename a new one to its name, and no lock holds them off. */
static bool is_replaced(const struct editing *e)
{
    struct stat now;
    if (fstatat(e->dir, e->base, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    return now.st_dev != e->st.st_dev || now.st_ino != e->st.st_ino;
}

/* refuse_replaced - WHAT became of the edit. */
static ckpt_status refuse_replaced(const char *what, ckpt_error *err)
{
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another program replaced the file meanwhile; %s", what);
    fail_hint(err, "run the command again when it is done");
    return CKPT_ECHANGED;
}

/* open_file - PATH for reading and writing, locked. */
static ckpt_status open_file(struct editing *e, const char *path, const struct journal_options *o,
                             ckpt_error *err)
{
    CKPT_TRY(resolve(e, path, err));
    e->fd = open(e->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (e->fd < 0) {
        ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing");
        fail_hint(err, "-o OUT writes a copy");
        return st;
    }
    if (fstat(e->fd, &e->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if (!S_ISREG(e->st.st_mode)) {
        (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                   "not a regular file; only regular files are edited in place");
        fail_hint(err, "-o OUT writes a copy");
        return CKPT_EUNSUPPORTED;
    }
    if (!o->follow_links)
        CKPT_TRY(check_links(e, path, err));
    if (flock(e->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return being_edited(err);
    if (fstat(e->fd, &e->st) != 0) /* again: an edit may have ended in between */
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    return is_replaced(e) ? refuse_replaced("nothing was changed", err) : CKPT_OK;
}

/* --------------------------------------------------------------- reading one */

/* refuse_false - the journal of E holds what no edit of the file can have replaced. */
static ckpt_status refuse_false(const struct editing *e, ckpt_error *err)
{
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
               "%s does not hold what an edit of this file replaces; nothing is undone", e->journal);
    fail_hint(err, "if the file is intact, remove %.150s; else get the file again", e->journal);
    return CKPT_ECHANGED;
}

/* refuse - the journal J of the kind K, from which nothing can be undone. */
static ckpt_status refuse(const struct editing *e, const struct journal *j, enum journal_kind k,
                          ckpt_error *err)
{
    if (k == JOURNAL_FALSE)
        return refuse_false(e, err);
    if (k == JOURNAL_UNTRUSTED) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s is not trusted: %s; nothing is undone", e->journal,
                   j->distrust);
        fail_hint(err, "find out who wrote it, then give it another name");
    } else if (k == JOURNAL_STRANGE) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another version of ckpt wrote %s", e->journal);
        fail_hint(err, "the version that edited the file undoes it");
    } else if (k == JOURNAL_DAMAGED) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                   "an edit in place may have been cut short; its undo journal %s is damaged", e->journal);
        fail_hint(err,
                  "keep the journal under another name; then `ckpt verify` checks if the file is intact");
    } else {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s is not an undo journal; it is in the way",
                   e->journal);
        fail_hint(err, "give it another name");
    }
    return CKPT_ECHANGED;
}

/* distrust - why a journal that is ST does not count for E; NULL: it does. */
static const char *distrust(const struct editing *e, const struct stat *st)
{
    if (st->st_uid != e->st.st_uid && st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    return st->st_nlink > 1 ? "it has other names (hard links)" : NULL;
}

/* load_open - the journal that is open as FD. */
static ckpt_status load_open(const struct editing *e, int fd, struct journal *j, enum journal_kind *kind,
                             ckpt_error *err)
{
    size_t got = 0;
    if (fstat(fd, &j->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    if (!S_ISREG(j->st.st_mode) || j->st.st_size > JOURNAL_MAX) {
        *kind = JOURNAL_ALIEN;
    } else if ((j->distrust = distrust(e, &j->st)) != NULL) {
        *kind = JOURNAL_UNTRUSTED;
    } else {
        if (!(j->bytes = malloc((size_t)j->st.st_size + 1)))
            return fail_memory(err);
        if (!fd_pread(fd, j->bytes, (size_t)j->st.st_size, 0, &got))
            return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
        *kind = journal_parse(j, got);
    }
    return CKPT_OK;
}

/* load - the journal of E, whose st is known; it is J if *KIND is JOURNAL_WHOLE. */
static ckpt_status load(const struct editing *e, struct journal *j, enum journal_kind *kind, ckpt_error *err)
{
    *j = (struct journal){0};
    *kind = JOURNAL_NONE;
    int fd = openat(e->dir, e->journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return CKPT_OK;
    j->secret = fd < 0 && (errno == EACCES || errno == EPERM);
    if (j->secret || (fd < 0 && errno == ELOOP)) {
        j->distrust = j->secret ? "it may not be read" : "it is a symbolic link";
        *kind = JOURNAL_UNTRUSTED;
        return CKPT_OK;
    }
    if (fd < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    ckpt_status s = load_open(e, fd, j, kind, err);
    close(fd);
    return s;
}

/* -------------------------------------------------------------- what there is */

/* look_at - journal_piece of P in FILE. AGAIN: what is there is written once more, so that
 * it goes to the disk. */
static ckpt_status look_at(const struct editing *e, const struct piece *p, bool again, bool *old, bool *new,
                           bool *fits, ckpt_error *err)
{
    size_t got = 0;
    ckpt_status st = CKPT_OK;
    unsigned char *now = malloc(p->n + 1);
    if (!now)
        return fail_memory(err);
    if (!fd_pread(e->fd, now, p->n, p->at, &got))
        st = fail_errno(err, p->at, "cannot read what an edit was to change");
    else
        journal_piece(p, now, got, old, new, fits);
    if (st == CKPT_OK && again && !fd_pwrite(e->fd, now, got, p->at))
        st = fail_errno(err, p->at, "cannot write %zu bytes", got);
    free(now);
    return st;
}

/* state_of - FILE, as J knows it. */
static ckpt_status state_of(const struct editing *e, const struct journal *j, enum state *out,
                            ckpt_error *err)
{
    uint64_t size = (uint64_t)e->st.st_size;
    bool old = size == j->old_size, new = size == j->new_size;
    bool fits = size >= j->old_size && size <= j->new_size, same = j->inode == (uint64_t)e->st.st_ino;
    for (size_t i = 0; i < j->n && (old || new || fits); i++)
        CKPT_TRY(look_at(e, &j->at[i], false, &old, &new, &fits, err));
    *out = new ? NEW : old ? OLD : fits == same ? (same ? MIXED : OTHER) : FOREIGN;
    return CKPT_OK;
}

/* ------------------------------------------------------------------- undoing */

static ckpt_status foreign(const struct editing *e, enum state state, ckpt_error *err)
{
    if (state == OTHER) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s is of another file that had this name before",
                   e->journal);
        fail_hint(err, "the file was replaced since: remove %.150s", e->journal);
        return CKPT_ECHANGED;
    }
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
               "an edit in place was cut short, and the file changed since; %s does not fit it",
               e->journal);
    fail_hint(err, "if the file is intact, remove %.150s; else get the file again", e->journal);
    return CKPT_ECHANGED;
}

/* remove_journal - the edit is done, or undone. */
static bool remove_journal(const struct editing *e, bool no_sync)
{
    return unlinkat(e->dir, e->journal, 0) == 0 && (no_sync || fsync(e->dir) == 0);
}

/* put_back - the old bytes and the old size; the journal goes when they are there. */
static ckpt_status put_back(const struct editing *e, const struct journal *j, bool no_sync, ckpt_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < j->n; i++)
        ok = fd_pwrite(e->fd, j->at[i].old, j->at[i].nold, j->at[i].at);
    ok = ok && ftruncate(e->fd, (off_t)j->old_size) == 0 && (no_sync || fsync(e->fd) == 0);
    if (ok && remove_journal(e, no_sync))
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot undo the edit that was cut short");
    fail_hint(err, "keep %.150s: with it the next --in-place undoes that", e->journal);
    return st;
}

/* keep - the edit was done: onto the disk with what may be in memory only, and the journal goes. */
static ckpt_status keep(const struct editing *e, const struct journal *j, bool no_sync, ckpt_error *err)
{
    bool seen = true;
    for (size_t i = 0; i < j->n; i++)
        CKPT_TRY(look_at(e, &j->at[i], true, &seen, &seen, &seen, err));
    if ((no_sync || fsync(e->fd) == 0) && remove_journal(e, no_sync))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET, "cannot finish the edit that was cut short");
}

/* old_bytes - what J would put back. */
static struct patches old_bytes(const struct journal *j)
{
    struct patches p = {.old_size = j->new_size, .new_size = j->old_size};
    for (size_t i = 0; i < j->n; i++)
        if (j->at[i].nold) /* bounded: as many as there are patches */
            (void)patches_add(&p, j->at[i].at, str_of((const char *)j->at[i].old, j->at[i].nold));
    return p;
}

/* judge - is J of an edit of the file, which is half way? */
static ckpt_status judge(const struct editing *e, const struct journal *j, const struct journal_judge *how,
                         ckpt_error *err)
{
    source *file;
    struct patches undo = old_bytes(j), none = {.new_size = (uint64_t)e->st.st_size};
    bool held = false;
    if (!how->holds)
        return CKPT_OK;
    CKPT_TRY(source_file_open(e->path, &file, err));
    source *now = source_patched(file, &none), *after = source_patched(file, &undo);
    /* NOW is not the file itself: its lock and its journal, which are ours, stop nobody */
    ckpt_status st = now && after ? how->holds(how->user, now, after, &undo, &held, err) : fail_memory(err);
    source_unref(after);
    source_unref(now);
    source_unref(file);
    return st == CKPT_OK && !held ? refuse_false(e, err) : st;
}

/* make_whole - FILE, of which there is the journal J. */
static ckpt_status make_whole(const struct editing *e, const struct journal *j,
                              const struct journal_options *o, ckpt_recovered *what, ckpt_error *err)
{
    enum state state;
    CKPT_TRY(state_of(e, j, &state, err));
    if (state == FOREIGN || state == OTHER)
        return foreign(e, state, err);
    if (state == MIXED) /* only then a byte of it changes */
        CKPT_TRY(judge(e, j, &o->judge, err));
    if (!o->dry_run)
        CKPT_TRY(state == NEW ? keep(e, j, o->no_sync, err) : put_back(e, j, o->no_sync, err));
    *what = state == NEW ? CKPT_RECOVERED_NEW : CKPT_RECOVERED_OLD;
    return CKPT_OK;
}

/* recover - what journal_recover does, with the file open and locked. */
static ckpt_status recover(const struct editing *e, const struct journal_options *o, ckpt_recovered *what,
                           ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_status st = load(e, &j, &kind, err);
    if (st == CKPT_OK && kind != JOURNAL_NONE)
        st = kind == JOURNAL_WHOLE ? make_whole(e, &j, o, what, err) : refuse(e, &j, kind, err);
    free(j.bytes);
    return st;
}

static bool journal_there(const struct editing *e)
{
    return faccessat(e->dir, e->journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

ckpt_status journal_recover(const char *path, const struct journal_options *o, ckpt_recovered *what,
                            ckpt_error *err)
{
    struct editing e;
    *what = CKPT_RECOVERED_NOTHING;
    ckpt_status st = resolve(&e, path, err);
    if (st == CKPT_OK && journal_there(&e)) {
        close_file(&e);
        st = open_file(&e, path, o, err);
        if (st == CKPT_OK)
            st = recover(&e, o, what, err);
    }
    close_file(&e);
    if (st != CKPT_OK)
        fail_file(err, path);
    return st;
}

/* editor_at_work - does somebody hold the lock of the file? */
static bool editor_at_work(const struct editing *e)
{
    return e->fd >= 0 && flock(e->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static ckpt_status cut_short(const struct editing *e, ckpt_error *err)
{
    char word[SHELL_MOST];
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "an edit in place was cut short; %s can undo it",
               e->journal);
    fail_hint(err, "`ckpt strip --in-place no.such.prefix. %s` undoes it, no more",
              shell_path(e->asked, word));
    return CKPT_ECHANGED;
}

/* check_whole - for readers: is FILE, of which there is the journal J, as it was or as it was to be? */
static ckpt_status check_whole(const struct editing *e, const struct journal *j, struct journal_note *note,
                               enum state *state, ckpt_error *err)
{
    CKPT_TRY(state_of(e, j, state, err));
    if (*state == MIXED && note)
        CKPT_TRY(judge(e, j, &note->judge, err));
    return *state == MIXED     ? cut_short(e, err)
           : *state == FOREIGN ? foreign(e, *state, err)
                               : CKPT_OK;
}

/* note_journal - what readers are to know of a journal that does not count. */
static void note_journal(struct journal_note *note, const struct journal *j, enum state state,
                         const char *path)
{
    if (!note)
        return;
    if (j->distrust)
        (void)snprintf(note->text, sizeof note->text,
                       "%.300s" JOURNAL_SUFFIX " is not trusted as its undo journal: %s", path, j->distrust);
    else if (state == OTHER)
        (void)snprintf(note->text, sizeof note->text,
                       "its undo journal is of another file that had this name: remove %.300s" JOURNAL_SUFFIX,
                       path);
}

/* still_there - is J the journal of E now? */
static bool still_there(const struct editing *e, const struct journal *j)
{
    struct stat st;
    return fstatat(e->dir, e->journal, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == j->st.st_ino &&
           st.st_mtim.tv_sec == j->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == j->st.st_mtim.tv_nsec;
}

/* check_open - journal_check for E, which is open. */
static ckpt_status check_open(const struct editing *e, struct journal_note *note, ckpt_error *err)
{
    struct journal j;
    enum journal_kind kind;
    enum state state = OLD;
    ckpt_status s = load(e, &j, &kind, err);
    bool counts = kind != JOURNAL_NONE && kind != JOURNAL_ALIEN && (kind != JOURNAL_UNTRUSTED || j.secret);
    if (s == CKPT_OK && counts && editor_at_work(e))
        s = being_edited(err);
    else if (s == CKPT_OK && kind == JOURNAL_WHOLE)
        s = check_whole(e, &j, note, &state, err);
    else if (s == CKPT_OK && counts && !j.secret)
        s = refuse(e, &j, kind, err);
    if (s != CKPT_OK && counts && (editor_at_work(e) || !still_there(e, &j)))
        s = being_edited(err); /* one edit ended meanwhile, and another began */
    note_journal(note, &j, state, e->asked);
    free(j.bytes);
    return s;
}

/* look - opens E, PATH, for reading. False: there is no journal, or no file, and others report that. */
static bool look(struct editing *e, const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s" JOURNAL_SUFFIX, path);
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    e->dir = e->fd = -1;
    if (strcmp(path, "-") == 0 || n < 0 || (size_t)n >= sizeof name || (!link && access(name, F_OK) != 0) ||
        resolve(e, path, NULL) != CKPT_OK)
        return false;
    e->fd = open(e->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return e->fd >= 0 && fstat(e->fd, &e->st) == 0 && S_ISREG(e->st.st_mode);
}

ckpt_status journal_check(const char *path, struct journal_note *note, ckpt_error *err)
{
    struct editing e;
    if (note)
        note->text[0] = '\0';
    ckpt_status s = look(&e, path) ? check_open(&e, note, err) : CKPT_OK;
    if (s != CKPT_OK)
        fail_file(err, path);
    close_file(&e);
    return s;
}

ckpt_status journal_open(const char *path, struct journal_note *note, source **out, ckpt_error *err)
{
    CKPT_TRY(source_file_open(path, out, err));
    ckpt_status st = journal_check(path, note, err);
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

ckpt_status journal_settled(const char *path, source *s, ckpt_error *err)
{
    if (!source_file_named(s))
        return CKPT_OK;
    struct editing e;
    bool now = look(&e, path) && journal_there(&e) && editor_at_work(&e);
    close_file(&e);
    if (!now)
        return source_file_written(s, err);
    (void)being_edited(err);
    fail_file(err, path);
    return CKPT_ECHANGED;
}

void journal_forget(int dir, const char *base)
{
    struct editing e = {.dir = dir, .base = base, .fd = -1};
    struct journal j;
    enum journal_kind kind;
    if (!name_journal(&e) || fstatat(dir, base, &e.st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (load(&e, &j, &kind, NULL) == CKPT_OK && kind >= JOURNAL_DAMAGED)
        unlinkat(dir, e.journal, 0);
    free(j.bytes);
}

/* ------------------------------------------------------------------- editing */

/* will_count - of the journal that is open as FD: after a crash nothing else helps. It goes to the owner of
 * the file, who may be another one, if we may give it away. */
static bool will_count(const struct editing *e, int fd)
{
    struct stat st;
    if (e->st.st_uid != geteuid() && fchown(fd, e->st.st_uid, (gid_t)-1) != 0)
        errno = 0; /* it is ours, which counts for us */
    return fstat(fd, &st) != 0 || !distrust(e, &st); /* unknown: as if it did */
}

static ckpt_status no_journal_here(ckpt_error *err)
{
    (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               "others could write to its undo journal; it cannot be edited in place");
    fail_hint(err, "-o OUT writes a copy");
    return CKPT_EUNSUPPORTED;
}

/* write_journal - on disk before the first byte of the file changes; its name when it is whole. */
static ckpt_status write_journal(struct editing *e, const struct patches *p, bool no_sync, ckpt_error *err)
{
    struct temp t;
    char *end = e->path + (e->base - e->path), first = *end;
    int why = 0;
    *end = '\0';
    bool ok = temp_open(&t, e->path, e->journal, 0600, NULL), placed = false;
    *end = first;
    if (ok && !will_count(e, t.fd)) {
        temp_close(&t);
        return no_journal_here(err);
    }
    ckpt_status st = ok ? journal_put(t.fd, &why, e->fd, (uint64_t)e->st.st_ino, p, err) : CKPT_OK;
    if (st == CKPT_OK && ok && !why) {
        placed = (no_sync || fsync(t.fd) == 0) && temp_place(&t, e->journal, false);
        ok = placed && (no_sync || fsync(e->dir) == 0);
    }
    why = why ? why : errno;
    temp_close(&t);
    if (st != CKPT_OK || (ok && placed))
        return st;
    if (placed)
        unlinkat(e->dir, e->journal, 0);
    errno = why;
    st = fail_errno(err, CKPT_NO_OFFSET, "cannot write its undo journal %s", e->journal);
    fail_hint(err, "the file is as it was; -o OUT writes a copy elsewhere");
    return st;
}

/* stamp - the time of its last change becomes another where the clock of the file system stood still since
 * the change before this one; some count in seconds, and are not waited for. */
static void stamp(const struct editing *e)
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

static ckpt_status change(const struct editing *e, const struct patches *p, bool no_sync, ckpt_error *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!fd_pwrite(e->fd, p->at[i].bytes.ptr, p->at[i].bytes.len, p->at[i].at))
            return fail_errno(err, p->at[i].at, "cannot write %zu bytes", p->at[i].bytes.len);
    stamp(e);
    if (!no_sync && fsync(e->fd) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "the disk did not take the change");
    return CKPT_OK;
}

/* take_back - the edit did not go well: FILE as it was, by its journal. */
static ckpt_status take_back(const struct editing *e, const struct journal_options *o)
{
    struct journal j;
    enum journal_kind kind;
    ckpt_error err;
    ckpt_status st = load(e, &j, &kind, &err);
    if (st == CKPT_OK)
        st = kind == JOURNAL_WHOLE ? put_back(e, &j, o->no_sync, &err) : CKPT_ECHANGED;
    free(j.bytes);
    return st;
}

/* commit - journal, change, and the journal away again; undone when that fails. */
static ckpt_status commit(struct editing *e, const struct patches *p, const struct journal_options *o,
                          ckpt_error *err)
{
    CKPT_TRY(write_journal(e, p, o->no_sync, err));
    ckpt_status st = change(e, p, o->no_sync, err);
    if (st == CKPT_OK) {
        if (remove_journal(e, true)) /* if a power cut brings it back, the next run sees that all is done */
            return CKPT_OK;
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove %s, so the edit is undone", e->journal);
    }
    if (take_back(e, o) == CKPT_OK)
        fail_hint(err, "the file is as it was");
    else
        fail_hint(err, "the file is half changed: keep %.150s, the next --in-place undoes that",
                  e->journal);
    return st;
}

static ckpt_status check_state(const struct editing *e, const struct patches *p,
                               const struct journal_options *o, ckpt_error *err)
{
    if (o->judge.unchanged)
        CKPT_TRY(o->judge.unchanged(o->judge.user, err));
    if (!o->dry_run && journal_there(e)) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s appeared since the file was opened", e->journal);
        fail_hint(err, "run the command again");
        return CKPT_ECHANGED;
    }
    if ((uint64_t)e->st.st_size == p->old_size)
        return CKPT_OK;
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the file has %llu bytes; it had %llu when it was read",
               (unsigned long long)e->st.st_size, (unsigned long long)p->old_size);
    fail_hint(err, "try again when nothing is writing to it");
    return CKPT_ECHANGED;
}

static ckpt_status apply_open(struct editing *e, const struct patches *p, const struct journal_options *o,
                              ckpt_error *err)
{
    sigset_t all, old;
    CKPT_TRY(check_state(e, p, o, err));
    if (o->dry_run || p->n == 0)
        return CKPT_OK;
    /* A few milliseconds; a program that ends in between would leave the undoing to the next. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    ckpt_status st = commit(e, p, o, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st == CKPT_OK && is_replaced(e) ? refuse_replaced("the new one does not have the edit", err) : st;
}

ckpt_status journal_apply(const char *path, const struct patches *p, const struct journal_options *o,
                          ckpt_error *err)
{
    struct editing e;
    ckpt_status st = open_file(&e, path, o, err);
    if (st == CKPT_OK)
        st = apply_open(&e, p, o, err);
    close_file(&e);
    if (st != CKPT_OK)
        fail_file(err, path);
    return st;
}
