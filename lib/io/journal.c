/*
 * journal.c - see journal.h. The journal of FILE is FILE.ckpt-undo:
 *
 *   OFFSET  SIZE  DESCRIPTION, numbers little-endian
 *   0       8     "CKPTUNDO"
 *   8       4     1, the version      12  4  number of pieces
 *   16      8     inode of FILE
 *   24      8     size of FILE before the edit
 *   32      8     and after it
 *   40      8     length of the journal
 *   48      ...   pieces: offset (8), length (8), the old bytes as far as FILE had
 *                 any there, then 4 bytes for each part that sectors of 512 and the
 *                 old end of FILE cut it into: bits 0-30: those of the CRC-32 of the
 *                 new bytes; bit 31: they differ from the old ones, or from zeros
 *   -4      4     CRC-32 of all before it
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
#include <unistd.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/crc32.h"
#include "base/cursor.h"
#include "base/text.h"
#include "io/fd.h"
#include "io/temp.h"

#define MAGIC       "CKPTUNDO"
#define HEAD        48u
#define SECTOR      512u
#define DIFFERS     0x80000000u
#define MAX_JOURNAL (1u << 30)

/* A file that is being edited, and its folder. */
struct editing {
    char path[PATH_MAX]; /* without links */
    const char *base;    /* its last part */
    char journal[NAME_MAX + 1];
    int dir, fd;
    struct stat st;
};

struct piece {
    uint64_t at;
    size_t n, nold;
    const unsigned char *old, *sums;
};

enum kind {
    NONE,
    ALIEN,   /* somebody's file that has the name of a journal */
    DAMAGED, /* a journal, and not as it was written */
    STRANGE, /* whole, and not of this version */
    WHOLE,
};

/* What there is of the sectors that a journal speaks of. FOREIGN: neither. OTHER: and in another file. */
enum state { OLD, NEW, MIXED, FOREIGN, OTHER };

/* A journal in memory. */
struct journal {
    unsigned char *bytes;
    uint64_t inode, old_size, new_size;
    struct piece at[PATCHES_MAX];
    size_t n;
};

/* part_end - where the part of P that begins at FROM ends. */
static size_t part_end(const struct piece *p, size_t from)
{
    size_t end = from < p->nold ? p->nold : p->n;
    size_t left = SECTOR - (size_t)((p->at + from) % SECTOR); /* bounded: it is within a file */
    return end - from < left ? end : from + left;
}

static uint64_t sectors(uint64_t at, uint64_t n)
{
    return n ? (at + n - 1) / SECTOR - at / SECTOR + 1 : 0; /* bounded: AT + N is within a file */
}

static uint64_t parts(const struct piece *p)
{
    /* bounded: as above */
    return sectors(p->at, p->nold) + sectors(p->at + p->nold, p->n - p->nold);
}

/* as_before - is the part of P that begins at FROM in BYTES the old one? Zeros where there is none. */
static bool as_before(const struct piece *p, const unsigned char *bytes, size_t from, size_t to)
{
    if (from < p->nold)
        return memcmp(bytes + from, p->old + from, to - from) == 0;
    while (from < to && bytes[from] == 0)
        from++;
    return from == to;
}

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
    if (!realpath(path, e->path))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot find it");
    char *slash = strrchr(e->path, '/');
    e->base = slash + 1;
    if (!name_journal(e)) {
        errno = ENAMETOOLONG;
        return fail_errno(err, CKPT_NO_OFFSET, "no room for \"" JOURNAL_SUFFIX "\" behind its name");
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
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a file with %llu names; an edit would show under all",
                   (unsigned long long)e->st.st_nlink);
        fail_hint(err, "-o OUT writes a copy; --follow-links edits it under all its names");
        return CKPT_EUSAGE;
    }
    return CKPT_OK;
}

/* open_file - PATH for reading and writing, locked. */
static ckpt_status open_file(struct editing *e, const char *path, const struct journal_options *o,
                             ckpt_error *err)
{
    CKPT_TRY(resolve(e, path, err));
    e->fd = open(e->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (e->fd < 0) {
        ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot open it for writing");
        fail_hint(err, "-o OUT writes a copy");
        return st;
    }
    if (fstat(e->fd, &e->st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot examine it");
    if (!S_ISREG(e->st.st_mode)) {
        (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                   "not a regular file; only those are edited in place");
        fail_hint(err, "-o OUT writes a copy");
        return CKPT_EUNSUPPORTED;
    }
    if (!o->follow_links)
        CKPT_TRY(check_links(e, path, err));
    if (flock(e->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another program edits it at this moment");
        fail_hint(err, "try again when it is done");
        return CKPT_ECHANGED;
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------- reading one */

static bool parse_pieces(struct journal *j, cursor c)
{
    for (size_t i = 0; i < j->n && i < PATCHES_MAX; i++) {
        struct piece *p = &j->at[i];
        uint64_t n;
        p->at = cursor_u64(&c);
        n = cursor_u64(&c);
        if (c.bad || !range_within(p->at, n, j->new_size) || !checked_size(n, &p->n))
            return false;
        uint64_t left = p->at < j->old_size ? j->old_size - p->at : 0;
        p->nold = left < p->n ? (size_t)left : p->n;
        p->old = cursor_take(&c, p->nold);
        if (parts(p) > c.left / 4)
            return false;
        p->sums = cursor_take(&c, (size_t)parts(p) * 4); /* bounded: by what is left */
    }
    return j->n <= PATCHES_MAX && !c.bad && c.left == 0 && j->new_size >= j->old_size;
}

/* not_whole - was it a journal? One byte may be wrong, or its end missing. */
static enum kind not_whole(const unsigned char *b, size_t size)
{
    bool ours = memcmp(b, MAGIC, size < 8 ? size : 8) == 0 || (size >= HEAD && load_u64le(b + 40) == size);
    return ours ? DAMAGED : ALIEN;
}

/* parse - J from its SIZE bytes. */
static enum kind parse(struct journal *j, size_t size)
{
    if (size < HEAD + 4 || memcmp(j->bytes, MAGIC, 8) != 0 || load_u64le(j->bytes + 40) != size ||
        load_u32le(j->bytes + size - 4) != crc32_update(0, j->bytes, size - 4))
        return not_whole(j->bytes, size);
    j->n = load_u32le(j->bytes + 12);
    j->inode = load_u64le(j->bytes + 16);
    j->old_size = load_u64le(j->bytes + 24);
    j->new_size = load_u64le(j->bytes + 32);
    bool ours = load_u32le(j->bytes + 8) == 1 &&
                parse_pieces(j, cursor_of(j->bytes + HEAD, size - HEAD - 4, HEAD));
    return ours ? WHOLE : STRANGE;
}

/* refuse - a journal of the kind K, from which nothing can be undone. */
static ckpt_status refuse(const struct editing *e, enum kind k, ckpt_error *err)
{
    if (k == STRANGE) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another version of ckpt wrote %s", e->journal);
        fail_hint(err, "the version that edited the file undoes it");
    } else if (k == DAMAGED) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                   "an edit in place may have been cut short; its undo journal %s is damaged", e->journal);
        fail_hint(err, "keep the journal under another name; then `ckpt verify` tells if the file is whole");
    } else {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s is not an undo journal; it is in the way",
                   e->journal);
        fail_hint(err, "give it another name");
    }
    return CKPT_ECHANGED;
}

/* load - the journal of E, which is J if *KIND is WHOLE. */
static ckpt_status load(const struct editing *e, struct journal *j, enum kind *kind, ckpt_error *err)
{
    struct stat st;
    size_t got = 0;
    *j = (struct journal){0};
    *kind = NONE;
    int fd = openat(e->dir, e->journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return CKPT_OK;
    ckpt_status s = CKPT_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        s = fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    else if (!S_ISREG(st.st_mode) || st.st_size > MAX_JOURNAL)
        *kind = ALIEN;
    else if (!(j->bytes = malloc((size_t)st.st_size + 1)))
        s = fail_memory(err);
    else if (!fd_pread(fd, j->bytes, (size_t)st.st_size, 0, &got))
        s = fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    else
        *kind = parse(j, got);
    if (fd >= 0)
        close(fd);
    return s;
}

/* -------------------------------------------------------------- what there is */

/* piece_state - clears of *OLD, *NEW and *FITS what NOW, all GOT bytes that FILE has of P, is not. */
static void piece_state(const struct piece *p, const unsigned char *now, size_t got, bool *old, bool *new,
                        bool *fits)
{
    const unsigned char *sum = p->sums;
    for (size_t from = 0, to; from < p->n; from = to, sum += 4) {
        to = part_end(p, from);
        bool all = got >= to, was = all && as_before(p, now, from, to);
        bool is = all && !(was && (load_u32le(sum) & DIFFERS)) &&
                  ((crc32_update(0, now + from, to - from) ^ load_u32le(sum)) & ~DIFFERS) == 0;
        *new = *new && is;
        if (from >= p->nold)
            continue; /* cut off when the rest is put back, whatever it is */
        *old = *old && was;
        *fits = *fits && (was || is);
    }
}

/* look_at - piece_state of P in FILE. AGAIN: what is there is written once more, so that
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
        piece_state(p, now, got, old, new, fits);
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
    fail_hint(err, "if the file is whole, remove %.150s; else get the file again", e->journal);
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
    fail_hint(err, "keep %.150s: with it the next --in-place makes the file whole", e->journal);
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

/* make_whole - FILE, of which there is the journal J. */
static ckpt_status make_whole(const struct editing *e, const struct journal *j,
                              const struct journal_options *o, ckpt_recovered *what, ckpt_error *err)
{
    enum state state;
    CKPT_TRY(state_of(e, j, &state, err));
    if (state == FOREIGN || state == OTHER)
        return foreign(e, state, err);
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
    enum kind kind;
    ckpt_status st = load(e, &j, &kind, err);
    if (st == CKPT_OK && kind != NONE)
        st = kind == WHOLE ? make_whole(e, &j, o, what, err) : refuse(e, kind, err);
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

static ckpt_status cut_short(const struct editing *e, const char *path, ckpt_error *err)
{
    char word[SHELL_MOST];
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "an edit in place was cut short; %s can undo it",
               e->journal);
    fail_hint(err, "`ckpt strip --in-place no.such.prefix. %s` undoes it, no more", shell_path(path, word));
    return CKPT_ECHANGED;
}

/* check_whole - for readers: is FILE, of which there is the journal J, as it was or as it was to be? */
static ckpt_status check_whole(struct editing *e, const struct journal *j, const char *path, bool *replaced,
                               ckpt_error *err)
{
    enum state state;
    e->fd = open(e->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (e->fd < 0 || fstat(e->fd, &e->st) != 0 || !S_ISREG(e->st.st_mode))
        return cut_short(e, path, err);
    if (editor_at_work(e)) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another program edits it at this moment");
        fail_hint(err, "try again when it is done");
        return CKPT_ECHANGED;
    }
    CKPT_TRY(state_of(e, j, &state, err));
    *replaced = state == OTHER;
    return state == MIXED ? cut_short(e, path, err) : state == FOREIGN ? foreign(e, state, err) : CKPT_OK;
}

ckpt_status journal_check(const char *path, bool *replaced, ckpt_error *err)
{
    struct editing e;
    bool other = false;
    struct journal j = {0};
    char name[PATH_MAX];
    enum kind kind = NONE;
    struct stat st;
    int n = snprintf(name, sizeof name, "%s" JOURNAL_SUFFIX, path);
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (strcmp(path, "-") == 0 || n < 0 || (size_t)n >= sizeof name || (!link && access(name, F_OK) != 0))
        return CKPT_OK;
    ckpt_status s = resolve(&e, path, NULL);
    if (s == CKPT_OK)
        s = load(&e, &j, &kind, err);
    if (kind == NONE || kind == ALIEN)
        s = CKPT_OK; /* no file, no folder: whoever opens it says so */
    else
        s = kind == WHOLE ? check_whole(&e, &j, path, &other, err) : refuse(&e, kind, err);
    if (replaced)
        *replaced = other;
    if (s != CKPT_OK)
        fail_file(err, path);
    free(j.bytes);
    close_file(&e);
    return s;
}

void journal_forget(int dir, const char *base)
{
    struct editing e = {.dir = dir, .base = base, .fd = -1};
    struct journal j;
    enum kind kind;
    if (!name_journal(&e))
        return;
    if (load(&e, &j, &kind, NULL) == CKPT_OK && kind != NONE && kind != ALIEN)
        unlinkat(dir, e.journal, 0);
    free(j.bytes);
}

/* ------------------------------------------------------------------- editing */

/* put_piece - what is in the file where PATCH goes, NOLD bytes of it, and what will be. */
static ckpt_status put_piece(const struct editing *e, const struct patch *x, size_t nold, buf *b,
                             ckpt_error *err)
{
    const unsigned char *bytes = (const unsigned char *)x->bytes.ptr;
    size_t got = 0;
    struct piece p = {.at = x->at, .n = x->bytes.len, .nold = nold};
    buf_u64le(b, p.at);
    buf_u64le(b, p.n);
    unsigned char *old = buf_room(b, nold);
    if (!old)
        return fail_memory(err);
    size_t begin = b->len - nold; /* bounded: it is in the buffer */
    if (!fd_pread(e->fd, old, nold, x->at, &got) || got != nold)
        return fail_errno(err, x->at, "cannot read what is to be changed");
    for (size_t from = 0, to; from < p.n && buf_ok(b); from = to) {
        to = part_end(&p, from);
        uint32_t sum = crc32_update(0, bytes + from, to - from) & ~DIFFERS;
        p.old = b->data + begin; /* which moves when it grows */
        buf_u32le(b, sum | (as_before(&p, bytes, from, to) ? 0 : DIFFERS));
    }
    return CKPT_OK;
}

/* expect - room for all of the journal at once: a buffer that grows is copied. */
static void expect(const struct patches *p, buf *b)
{
    size_t most = HEAD + 4;
    for (size_t i = 0; i < p->n; i++) /* bounded: by twice what is in memory; a part of 512 has a sum of 4 */
        most += p->at[i].bytes.len + p->at[i].bytes.len / 100 + 64;
    if (most <= b->max && buf_room(b, most))
        b->len = 0;
}

/* compose - the journal for P. */
static ckpt_status compose(const struct editing *e, const struct patches *p, buf *b, ckpt_error *err)
{
    expect(p, b);
    buf_text(b, MAGIC);
    buf_u32le(b, 1);
    buf_u32le(b, (uint32_t)p->n);
    buf_u64le(b, (uint64_t)e->st.st_ino);
    buf_u64le(b, p->old_size);
    buf_u64le(b, p->new_size);
    buf_u64le(b, 0);
    for (size_t i = 0; i < p->n; i++) {
        const struct patch *x = &p->at[i];
        uint64_t left = x->at < p->old_size ? p->old_size - x->at : 0;
        CKPT_TRY(put_piece(e, x, left < x->bytes.len ? (size_t)left : x->bytes.len, b, err));
    }
    if (!buf_ok(b))
        return fail_memory(err);
    uint64_t total = (uint64_t)b->len + 4; /* bounded: by MAX_JOURNAL */
    for (size_t i = 0; i < 8; i++)
        b->data[40 + i] = (unsigned char)(total >> 8 * i);
    buf_u32le(b, crc32_update(0, b->data, b->len));
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

/* write_journal - on disk before the first byte of the file changes; its name when it is whole. */
static ckpt_status write_journal(struct editing *e, const buf *b, bool no_sync, ckpt_error *err)
{
    struct temp t;
    char *end = e->path + (e->base - e->path), first = *end;
    *end = '\0';
    bool ok = temp_open(&t, e->path, e->journal, 0600);
    *end = first;
    ok = ok && fd_write(t.fd, b->data, b->len) && (no_sync || fsync(t.fd) == 0);
    bool placed = ok && temp_place(&t, e->journal, false);
    ok = placed && (no_sync || fsync(e->dir) == 0);
    int why = errno;
    temp_close(&t);
    if (ok)
        return CKPT_OK;
    if (placed)
        unlinkat(e->dir, e->journal, 0);
    errno = why;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot write its undo journal %s", e->journal);
    fail_hint(err, "the file is as it was; -o OUT writes a copy elsewhere");
    return st;
}

static ckpt_status change(const struct editing *e, const struct patches *p, bool no_sync, ckpt_error *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!fd_pwrite(e->fd, p->at[i].bytes.ptr, p->at[i].bytes.len, p->at[i].at))
            return fail_errno(err, p->at[i].at, "cannot write %zu bytes", p->at[i].bytes.len);
    if (!no_sync && fsync(e->fd) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "the disk did not take the change");
    return CKPT_OK;
}

/* take_back - the edit did not go well: FILE as it was, by its journal. */
static ckpt_status take_back(const struct editing *e, const struct journal_options *o)
{
    struct journal j;
    enum kind kind;
    ckpt_error err;
    ckpt_status st = load(e, &j, &kind, &err);
    if (st == CKPT_OK)
        st = kind == WHOLE ? put_back(e, &j, o->no_sync, &err) : CKPT_ECHANGED;
    free(j.bytes);
    return st;
}

/* commit - journal, change, and the journal away again; undone when that fails. */
static ckpt_status commit(struct editing *e, const struct patches *p, const struct journal_options *o,
                          const buf *b, ckpt_error *err)
{
    CKPT_TRY(write_journal(e, b, o->no_sync, err));
    ckpt_status st = change(e, p, o->no_sync, err);
    if (st == CKPT_OK) {
        if (remove_journal(e, true)) /* if a power cut brings it back, the next run sees that all is done */
            return CKPT_OK;
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove %s, so the edit is undone", e->journal);
    }
    if (take_back(e, o) == CKPT_OK)
        fail_hint(err, "the file is as it was");
    else
        fail_hint(err, "the file is half changed: keep %.150s, the next --in-place makes it whole",
                  e->journal);
    return st;
}

static ckpt_status check_state(const struct editing *e, const struct patches *p, bool dry, ckpt_error *err)
{
    if (!dry && journal_there(e)) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s appeared since the file was opened", e->journal);
        fail_hint(err, "run the command again");
        return CKPT_ECHANGED;
    }
    if ((uint64_t)e->st.st_size == p->old_size)
        return CKPT_OK;
    (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the file has %llu bytes; it had %llu when it was read",
               (unsigned long long)e->st.st_size, (unsigned long long)p->old_size);
    fail_hint(err, "try again when nothing writes to it");
    return CKPT_ECHANGED;
}

static ckpt_status apply_open(struct editing *e, const struct patches *p, const struct journal_options *o,
                              ckpt_error *err)
{
    sigset_t all, old;
    buf b;
    CKPT_TRY(check_state(e, p, o->dry_run, err));
    if (o->dry_run || p->n == 0)
        return CKPT_OK;
    buf_init(&b, MAX_JOURNAL);
    ckpt_status st = compose(e, p, &b, err);
    if (st == CKPT_OK) {
        /* A few milliseconds; a program that ends in between would leave the undoing to the next. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        st = commit(e, p, o, &b, err);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    buf_free(&b);
    return st;
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
