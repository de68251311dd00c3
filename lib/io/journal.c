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
 *   48      ...   pieces: offset (8), length (8), the old bytes, then 2 bytes for
 *                 each started 512: the low half of the CRC-32 of the new ones
 *   -4      4     CRC-32 of all before it
 *
 * The order of things: journal written and synced, folder synced, FILE changed
 * and synced, journal removed, folder synced. So a journal that is not whole
 * means that FILE was not touched.
 *
 * A whole one is applied only to the file it was made for, by inode and size, and
 * only if each 512 bytes of every piece are the old ones or the new ones: a
 * backup copied over the file since then is not touched. The number of the device
 * is not asked for, as it may be another one after the next start of the machine,
 * and the journal stands in the folder of its file anyway.
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
#include "io/fd.h"

#define MAGIC       "CKPTUNDO"
#define HEAD        48u
#define SECTOR      512u
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
    uint64_t at, n;
    const unsigned char *old, *sums;
};

/* A journal in memory. */
struct journal {
    unsigned char *bytes;
    uint64_t inode, old_size, new_size;
    struct piece at[PATCHES_MAX];
    size_t n;
};

bool patches_add(struct patches *p, uint64_t at, ckpt_str bytes)
{
    if (p->n == PATCHES_MAX)
        return false;
    p->at[p->n++] = (struct patch){at, bytes};
    return true;
}

static uint64_t sectors(uint64_t n) { return n / SECTOR + (n % SECTOR != 0); }

/* ------------------------------------------------------------------ the file */

static void close_file(struct editing *e)
{
    if (e->fd >= 0)
        close(e->fd);
    if (e->dir >= 0)
        close(e->dir);
    e->fd = e->dir = -1;
}

/* resolve - the path without links, the folder's and the journal's names. */
static ckpt_status resolve(struct editing *e, const char *path, ckpt_error *err)
{
    e->dir = e->fd = -1;
    if (!realpath(path, e->path))
        return fail_errno(err, CKPT_NO_OFFSET, "cannot find it");
    char *slash = strrchr(e->path, '/');
    e->base = slash + 1;
    int n = snprintf(e->journal, sizeof e->journal, "%s" JOURNAL_SUFFIX, e->base);
    if (n < 0 || (size_t)n >= sizeof e->journal) {
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

/* parse - J from its bytes; false: not a whole journal. */
static bool parse(struct journal *j, size_t size)
{
    if (size < HEAD + 4 || memcmp(j->bytes, MAGIC, 8) != 0 || load_u32le(j->bytes + 8) != 1 ||
        load_u64le(j->bytes + 40) != size ||
        load_u32le(j->bytes + size - 4) != crc32_update(0, j->bytes, size - 4))
        return false;
    j->n = load_u32le(j->bytes + 12);
    j->inode = load_u64le(j->bytes + 16);
    j->old_size = load_u64le(j->bytes + 24);
    j->new_size = load_u64le(j->bytes + 32);
    cursor c = cursor_of(j->bytes + HEAD, size - HEAD - 4, HEAD);
    for (size_t i = 0; i < j->n && i < PATCHES_MAX; i++) {
        struct piece *p = &j->at[i];
        p->at = cursor_u64(&c);
        p->n = cursor_u64(&c);
        if (c.bad || p->n > c.left || !range_within(p->at, p->n, j->old_size))
            return false;
        p->old = cursor_take(&c, (size_t)p->n);
        p->sums = cursor_take(&c, (size_t)(sectors(p->n) * 2)); /* bounded: n is that of bytes in memory */
    }
    return j->n <= PATCHES_MAX && !c.bad && c.left == 0 && j->new_size >= j->old_size;
}

/* load - the journal of E. *THERE: there is one; *WHOLE: and it is whole. */
static ckpt_status load(const struct editing *e, struct journal *j, bool *there, bool *whole, ckpt_error *err)
{
    struct stat st;
    size_t got = 0;
    *j = (struct journal){0};
    *there = *whole = false;
    int fd = openat(e->dir, e->journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return CKPT_OK;
    ckpt_status s = CKPT_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        s = fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    else if (!S_ISREG(st.st_mode) || st.st_size > MAX_JOURNAL)
        s = fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "%s is not an undo journal; it is in the way",
                 e->journal);
    else if (!(j->bytes = malloc((size_t)st.st_size + 1)))
        s = fail_memory(err);
    else if (!fd_pread(fd, j->bytes, (size_t)st.st_size, 0, &got))
        s = fail_errno(err, CKPT_NO_OFFSET, "its undo journal %s cannot be read", e->journal);
    if (fd >= 0)
        close(fd);
    if (s == CKPT_OK) {
        *there = true;
        *whole = parse(j, got);
    }
    return s;
}

/* ----------------------------------------------------------------- undoing */

/* sector_fits - are these bytes of the file the old or the new ones? */
static bool sector_fits(const struct piece *p, uint64_t k, const unsigned char *now)
{
    uint64_t from = k * SECTOR; /* bounded: inside the piece */
    size_t n = p->n - from < SECTOR ? (size_t)(p->n - from) : SECTOR;
    if (memcmp(now + from, p->old + from, n) == 0)
        return true;
    /* bounded: sums has as many as sectors() says */
    return (crc32_update(0, now + from, n) & 0xFFFF) == load_u16le(p->sums + k * 2);
}

static bool piece_fits(const struct editing *e, const struct piece *p)
{
    size_t got = 0;
    unsigned char *now = malloc((size_t)p->n + 1);
    bool fits = now && fd_pread(e->fd, now, (size_t)p->n, p->at, &got) && got == p->n;
    for (uint64_t k = 0; fits && k < sectors(p->n); k++)
        fits = sector_fits(p, k, now);
    free(now);
    return fits;
}

static bool fits(const struct editing *e, const struct journal *j)
{
    uint64_t size = (uint64_t)e->st.st_size;
    bool ok = j->inode == (uint64_t)e->st.st_ino && size >= j->old_size && size <= j->new_size;
    for (size_t i = 0; ok && i < j->n; i++)
        ok = piece_fits(e, &j->at[i]);
    return ok;
}

static ckpt_status foreign(const struct editing *e, ckpt_error *err)
{
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
        ok = fd_pwrite(e->fd, j->at[i].old, (size_t)j->at[i].n, j->at[i].at);
    ok = ok && ftruncate(e->fd, (off_t)j->old_size) == 0 && (no_sync || fsync(e->fd) == 0);
    if (ok && remove_journal(e, no_sync))
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot undo the edit that was cut short");
    fail_hint(err, "keep %.150s: with it the next --in-place undoes it", e->journal);
    return st;
}

/* undo - what journal_recover does, with the file open and locked. */
static ckpt_status undo(struct editing *e, const struct journal_options *o, bool *undone, ckpt_error *err)
{
    struct journal j;
    bool there, whole;
    ckpt_status st = load(e, &j, &there, &whole, err);
    if (st == CKPT_OK && there && !whole) {
        if (!remove_journal(e, o->no_sync))
            st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the unfinished %s", e->journal);
    } else if (st == CKPT_OK && whole) {
        st = fits(e, &j) ? put_back(e, &j, o->no_sync, err) : foreign(e, err);
        *undone = st == CKPT_OK;
    }
    free(j.bytes);
    return st;
}

static bool journal_there(const struct editing *e)
{
    return faccessat(e->dir, e->journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

ckpt_status journal_recover(const char *path, const struct journal_options *o, bool *undone, ckpt_error *err)
{
    struct editing e;
    *undone = false;
    ckpt_status st = resolve(&e, path, err);
    if (st == CKPT_OK && journal_there(&e)) {
        close_file(&e);
        st = open_file(&e, path, o, err);
        if (st == CKPT_OK)
            st = undo(&e, o, undone, err);
    }
    close_file(&e);
    if (st != CKPT_OK)
        fail_file(err, path);
    return st;
}

/* editor_at_work - does somebody hold the lock of the file? */
static bool editor_at_work(const struct editing *e)
{
    int fd = open(e->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool busy = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return busy;
}

static ckpt_status cut_short(const struct editing *e, const char *path, ckpt_error *err)
{
    if (editor_at_work(e)) {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "another program edits it at this moment");
        fail_hint(err, "try again when it is done");
    } else {
        (void)fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "an edit in place was cut short; %s can undo it",
                   e->journal);
        fail_hint(err, "`ckpt strip --in-place --check --auto %.120s` undoes it, no more", path);
    }
    fail_file(err, path);
    return CKPT_ECHANGED;
}

ckpt_status journal_check(const char *path, ckpt_error *err)
{
    struct editing e;
    struct journal j;
    char name[PATH_MAX];
    bool there = false, whole = false;
    struct stat st;
    int n = snprintf(name, sizeof name, "%s" JOURNAL_SUFFIX, path);
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (n < 0 || (size_t)n >= sizeof name || (!link && access(name, F_OK) != 0))
        return CKPT_OK;
    ckpt_status s = resolve(&e, path, NULL);
    if (s == CKPT_OK) {
        s = load(&e, &j, &there, &whole, err);
        free(j.bytes);
    }
    close_file(&e);
    if (s != CKPT_OK)
        return there ? s : CKPT_OK; /* no file, no folder: whoever opens it says so */
    return whole ? cut_short(&e, path, err) : CKPT_OK;
}

/* ------------------------------------------------------------------- editing */

/* put_piece - what is in the file where PATCH goes, and what will be. */
static ckpt_status put_piece(const struct editing *e, const struct patch *p, uint64_t n, buf *b,
                             ckpt_error *err)
{
    size_t got = 0;
    unsigned char *old = malloc((size_t)n + 1);
    if (!old)
        return fail_memory(err);
    ckpt_status st = CKPT_OK;
    if (!fd_pread(e->fd, old, (size_t)n, p->at, &got) || got != n)
        st = fail_errno(err, p->at, "cannot read what is to be changed");
    buf_u64le(b, p->at);
    buf_u64le(b, n);
    buf_put(b, old, (size_t)n);
    for (uint64_t k = 0; k < n; k += SECTOR) { /* bounded: n <= bytes.len */
        size_t part = n - k < SECTOR ? (size_t)(n - k) : SECTOR;
        buf_u16le(b, (uint16_t)crc32_update(0, p->bytes.ptr + k, part));
    }
    free(old);
    return st;
}

/* compose - the journal for P. */
static ckpt_status compose(const struct editing *e, const struct patches *p, buf *b, ckpt_error *err)
{
    buf_text(b, MAGIC);
    buf_u32le(b, 1);
    buf_u32le(b, 0);
    buf_u64le(b, (uint64_t)e->st.st_ino);
    buf_u64le(b, p->old_size);
    buf_u64le(b, p->new_size);
    buf_u64le(b, 0);
    uint32_t pieces = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct patch *x = &p->at[i];
        uint64_t left = x->at < p->old_size ? p->old_size - x->at : 0;
        uint64_t n = x->bytes.len < left ? x->bytes.len : left;
        if (n == 0)
            continue;
        pieces++;
        CKPT_TRY(put_piece(e, x, n, b, err));
    }
    if (!buf_ok(b))
        return fail_memory(err);
    uint64_t total = (uint64_t)b->len + 4; /* bounded: by MAX_JOURNAL */
    for (size_t i = 0; i < 8; i++)
        b->data[40 + i] = (unsigned char)(total >> 8 * i);
    for (size_t i = 0; i < 4; i++)
        b->data[12 + i] = (unsigned char)(pieces >> 8 * i);
    buf_u32le(b, crc32_update(0, b->data, b->len));
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

/* write_journal - on disk before the first byte of the file changes. */
static ckpt_status write_journal(const struct editing *e, const buf *b, bool no_sync, ckpt_error *err)
{
    int fd = openat(e->dir, e->journal, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && fd_write(fd, b->data, b->len) && (no_sync || fsync(fd) == 0);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (ok && !no_sync && fsync(e->dir) != 0) {
        ok = false;
        why = errno;
    }
    if (ok)
        return CKPT_OK;
    if (fd >= 0)
        unlinkat(e->dir, e->journal, 0);
    errno = why;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot write its undo journal %s", e->journal);
    fail_hint(err, "the file is as it was; -o OUT writes a copy elsewhere");
    return st;
}

static ckpt_status change(struct editing *e, const struct patches *p, bool no_sync, ckpt_error *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!fd_pwrite(e->fd, p->at[i].bytes.ptr, p->at[i].bytes.len, p->at[i].at))
            return fail_errno(err, p->at[i].at, "cannot write %zu bytes", p->at[i].bytes.len);
    if (!no_sync && fsync(e->fd) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "the disk did not take the change");
    return CKPT_OK;
}

/* commit - journal, change, and the journal away again; undone when that fails. */
static ckpt_status commit(struct editing *e, const struct patches *p, const struct journal_options *o,
                          const buf *b, ckpt_error *err)
{
    CKPT_TRY(write_journal(e, b, o->no_sync, err));
    ckpt_status st = change(e, p, o->no_sync, err);
    if (st == CKPT_OK) {
        if (remove_journal(e, o->no_sync))
            return CKPT_OK;
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove %s, so the edit is undone", e->journal);
    }
    bool undone = false;
    ckpt_error second;
    if (fstat(e->fd, &e->st) == 0 && undo(e, o, &undone, &second) == CKPT_OK)
        fail_hint(err, "the file is as it was");
    else
        fail_hint(err, "the file is half changed: keep %.150s, the next --in-place undoes it", e->journal);
    return st;
}

static ckpt_status check_state(const struct editing *e, const struct patches *p, ckpt_error *err)
{
    if (journal_there(e)) {
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
    CKPT_TRY(check_state(e, p, err));
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
