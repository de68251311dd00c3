/* sink_file.c - output to a path, standard output, a pipe or a device. A file
 * appears whole or not at all; the others get their bytes on commit, from an
 * unlinked temporary file, so that a failure before it leaves them untouched. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/checked.h"
#include "io/fd.h"
#include "io/journal.h"
#include "io/sink_ops.h"
#include "io/temp.h"

struct file_sink {
    sink s;
    struct temp temp; /* of a regular target */
    int fd;           /* temp.fd, or the spool of a stream */
    int to;           /* stream: where the bytes go on commit; -1: regular target */
    char *path;       /* as the caller spells it */
    char *target;     /* symlinks followed; its folder and, behind the last '/', its name */
    struct sink_options o;
    struct file_sink *next; /* in its batch */
    bool existed; /* and OLD describes it */
    atomic_bool broken;   /* a write failed: no commit */
    atomic_bool no_clone; /* the file system cannot, or not from where it was asked */
    struct stat old;
    uint64_t reserved;
    uint64_t flushed; /* bytes in the file; those behind are in BLOCK */
    size_t held;      /* bytes in BLOCK */
    unsigned char *block;
};

static struct file_sink *file_of(sink *s) { return (struct file_sink *)s; }

static ckpt_status full_hint(const struct file_sink *f, uint64_t need, ckpt_status st, ckpt_error *err)
{
    struct statvfs v;
    uint64_t left;
    if ((errno == ENOSPC || errno == EDQUOT) && fstatvfs(f->fd, &v) == 0 &&
        checked_mul(v.f_bavail, v.f_frsize, &left) && left < need)
        fail_hint(err, "%" PRIu64 " bytes are free there, %" PRIu64 " are needed", left, need);
    fail_file(err, f->path);
    return st;
}

static ckpt_status broke(struct file_sink *f, const char *doing, ckpt_error *err)
{
    int why = errno;
    f->broken = true;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot %s", doing);
    errno = why;
    return full_hint(f, f->reserved > f->s.len ? f->reserved : f->s.len, st, err);
}

/* free_space - for file systems that cannot reserve: is there room now? */
static bool free_space(int fd, uint64_t size)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0 || v.f_blocks == 0 || v.f_frsize == 0 || size / v.f_frsize < v.f_bavail)
        return true;
    errno = ENOSPC;
    return false;
}

static bool reserve(int fd, uint64_t size)
{
    if (size > INT64_MAX) {
        errno = EFBIG;
        return false;
    }
    /* A file system may hand out all it has before it finds that this is not enough. */
    struct statvfs v;
    struct stat st;
    if (fstatvfs(fd, &v) == 0 && v.f_blocks && v.f_frsize && fstat(fd, &st) == 0 &&
        size / v.f_frsize > v.f_bfree + (uint64_t)st.st_blocks * 512 / v.f_frsize) {
        errno = ENOSPC;
        return false;
    }
    for (;;) {
        if (size == 0 || fallocate(fd, 0, 0, (off_t)size) == 0)
            return true;
        if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO)
            return false;
        if (errno != EINTR)
            return free_space(fd, size);
    }
}

static ckpt_status file_reserve(sink *s, uint64_t size, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    f->reserved = size > f->reserved ? size : f->reserved;
    if (reserve(f->fd, size))
        return CKPT_OK;
    int why = errno;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot reserve %" PRIu64 " bytes for the output", size);
    errno = why;
    return full_hint(f, size, st, err);
}

static ckpt_status put(struct file_sink *f, const void *bytes, size_t n, ckpt_error *err)
{
    if (!fd_pwrite(f->fd, bytes, n, f->flushed))
        return broke(f, "write", err);
    f->flushed += n;
    return CKPT_OK;
}

static ckpt_status flush(struct file_sink *f, ckpt_error *err)
{
    size_t n = f->held;
    f->held = 0;
    return n ? put(f, f->block, n, err) : CKPT_OK;
}

static ckpt_status file_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    const unsigned char *p = bytes;
    while (n) {
        size_t part = FD_CHUNK - f->held < n ? FD_CHUNK - f->held : n;
        if (part == FD_CHUNK) {
            CKPT_TRY(put(f, p, part, err));
        } else {
            memcpy(f->block + f->held, p, part);
            f->held += part;
            if (f->held == FD_CHUNK)
                CKPT_TRY(flush(f, err));
        }
        p += part;
        n -= part;
    }
    return CKPT_OK;
}

/* in_file - how many of N bytes at OFF are in the file already, not in BLOCK. */
static size_t in_file(const struct file_sink *f, uint64_t off, size_t n)
{
    uint64_t there = off < f->flushed ? f->flushed - off : 0;
    return there < n ? (size_t)there : n;
}

static ckpt_status file_skip(sink *s, uint64_t n, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    CKPT_TRY(flush(f, err));
    f->flushed += n; /* bounded: a file's size, by sink_skip */
    return CKPT_OK;
}

static ckpt_status file_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    size_t first = in_file(f, off, n);
    if (first && !fd_pwrite(f->fd, bytes, first, off))
        return broke(f, "write", err);
    if (n > first)
        memcpy(f->block + (off + first - f->flushed), (const char *)bytes + first, n - first);
    return CKPT_OK;
}

/* file_clone - what one answer says of the file systems is not asked twice. */
static bool file_clone(sink *s, uint64_t off, int fd, uint64_t from, uint64_t n)
{
    struct file_sink *f = file_of(s);
    struct file_clone_range r = {.src_fd = fd, .src_offset = from, .src_length = n, .dest_offset = off};
    if (atomic_load_explicit(&f->no_clone, memory_order_relaxed))
        return false;
    if (ioctl(f->fd, FICLONERANGE, &r) == 0)
        return true;
    atomic_store_explicit(&f->no_clone, true, memory_order_relaxed);
    return false;
}

static ckpt_status file_read(sink *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    size_t first = in_file(f, off, n), got = 0;
    if (first && !fd_pread(f->fd, out, first, off, &got))
        return broke(f, "read back what was written", err);
    if (got < first)
        return fail(err, CKPT_ECHANGED, off + got, "bytes that were written cannot be read back");
    if (n > first)
        memcpy((char *)out + first, f->block + (off + first - f->flushed), n - first);
    return CKPT_OK;
}

static void file_abort(sink *s)
{
    struct file_sink *f = file_of(s);
    if (f->to >= 0 && f->to != STDOUT_FILENO)
        close(f->to);
    if (f->fd >= 0 && f->fd != f->temp.fd)
        close(f->fd);
    temp_close(&f->temp);
    free(f->block);
    free(f->target);
    free(f->path);
    free(f);
}

/* copy_xattrs - those that can be had. The ones that hold a hash of the content
 * would be wrong for the new one. */
static void copy_xattrs(const char *from, int to, char block[FD_CHUNK])
{
    enum { MOST = 65536 }; /* of a list and of a value: the kernel's own limit */
    char *list = block;
    ssize_t len = listxattr(from, list, MOST);
    for (ssize_t i = 0; i < len; i += (ssize_t)strlen(list + i) + 1) {
        const char *name = list + i;
        if (strcmp(name, "security.ima") == 0 || strcmp(name, "security.evm") == 0)
            continue;
        ssize_t n = getxattr(from, name, list + MOST, MOST);
        if (n >= 0)
            fsetxattr(to, name, list + MOST, (size_t)n, 0);
    }
}

/* tell_owner - says whose the new file is, where it is not the old one's owner. */
static void tell_owner(const struct file_sink *f)
{
    struct stat now;
    if (!f->o.notice || fstat(f->fd, &now) != 0)
        return;
    if (now.st_uid != f->old.st_uid)
        f->o.notice(f->o.user, "%s: its owner, user %u, could not be kept; it belongs to user %u now",
                    f->path, (unsigned)f->old.st_uid, (unsigned)now.st_uid);
    if (now.st_gid != f->old.st_gid)
        f->o.notice(f->o.user, "%s: its group %u could not be kept; it has group %u now", f->path,
                    (unsigned)f->old.st_gid, (unsigned)now.st_gid);
}

/* keep_attributes - the new file becomes what the old one was to everybody but
 * its readers. What this user may not set stays as it is: never a reason to
 * lose the output. A changed owner must not inherit set-user-id. */
static void keep_attributes(const struct file_sink *f)
{
    mode_t mode = f->old.st_mode & 07777;
    if (fchown(f->fd, f->old.st_uid, f->old.st_gid) != 0) {
        mode &= 0777;
        if (fchown(f->fd, (uid_t)-1, f->old.st_gid) != 0)
            mode &= (mode_t) ~(mode_t)0070 | (mode & 0007) << 3; /* another group: what all others may */
    }
    copy_xattrs(f->target, f->fd, (char *)f->block); /* empty by now */
    (void)!fchmod(f->fd, mode);
    tell_owner(f);
}

/* settle - everything is in the file and the file has its exact size. Closing a
 * duplicate makes network file systems report what a close would. */
static ckpt_status settle(struct file_sink *f, ckpt_error *err)
{
    if (f->broken)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "an earlier write failed");
    CKPT_TRY(flush(f, err));
    if (f->reserved > f->s.len && ftruncate(f->fd, (off_t)f->s.len) != 0)
        return broke(f, "set the size of the output", err);
    if (f->to < 0 && !f->o.no_sync && fsync(f->fd) != 0)
        return broke(f, "flush the output to disk", err);
    int twin = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
    return twin >= 0 && close(twin) != 0 ? broke(f, "finish the output", err) : CKPT_OK;
}

static ckpt_status exists(const struct file_sink *f, ckpt_error *err)
{
    fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "already exists; nothing written");
    fail_hint(err, "use -f to replace it");
    fail_file(err, f->path);
    return CKPT_EEXIST;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static ckpt_status make_whole(struct file_sink *f, ckpt_error *err)
{
    if (f->broken)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "an earlier write failed");
    CKPT_TRY(flush(f, err));
    if (f->existed)
        keep_attributes(f);
    return settle(f, err);
}

/* install - *PLACED: what the caller sees is new, even if it then fails. */
static ckpt_status install(struct file_sink *f, bool *placed, ckpt_error *err)
{
    if (!temp_place(&f->temp, base_name(f->target), f->o.force))
        return errno == EEXIST ? exists(f, err) : broke(f, "move the output into place", err);
    *placed = true;
    /* Some file systems cannot sync a folder; one that may not be listed is open for its path alone. */
    if (!f->o.no_sync && fsync(f->temp.dir) != 0 && errno != EINVAL && errno != EBADF && errno != EROFS)
        return broke(f, "flush the folder of the finished output to disk", err);
    /* Not before: the old file, if it comes back, is whole with its journal only. Of a batch it may. */
    if (f->existed && !f->o.batch)
        journal_forget(f->temp.dir, base_name(f->target));
    return CKPT_OK;
}

/* deliver - copies the spool to where the stream leads. */
static ckpt_status deliver(struct file_sink *f, ckpt_error *err)
{
    CKPT_TRY(settle(f, err));
    for (uint64_t at = 0; at < f->s.len;) {
        size_t n = f->s.len - at < FD_CHUNK ? (size_t)(f->s.len - at) : FD_CHUNK;
        CKPT_TRY(file_read(&f->s, at, f->block, n, err));
        if (!fd_write(f->to, f->block, n))
            return broke(f, "write", err);
        at += n;
    }
    int to = f->to;
    f->to = -1;
    return to != STDOUT_FILENO && close(to) != 0 ? broke(f, "finish the output", err) : CKPT_OK;
}

/* wait_in - F is whole and joins those that are to appear together. */
static void wait_in(struct sink_batch *b, struct file_sink *f)
{
    free(f->block);
    f->block = NULL;
    f->next = NULL;
    if (b->last)
        file_of(b->last)->next = f;
    else
        b->first = &f->s;
    b->last = &f->s;
    b->n++;
}

static ckpt_status file_commit(sink *s, ckpt_error *err)
{
    struct file_sink *f = file_of(s);
    bool placed = false;
    ckpt_status st = f->to >= 0 ? deliver(f, err) : make_whole(f, err);
    if (st == CKPT_OK && f->to < 0 && f->o.batch) {
        wait_in(f->o.batch, f);
        return CKPT_OK;
    }
    if (st == CKPT_OK && f->target)
        st = install(f, &placed, err);
    if (st != CKPT_OK)
        fail_file(err, f->path);
    file_abort(s);
    return st;
}

ckpt_status sink_batch_commit(struct sink_batch *b, size_t *placed, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    *placed = 0;
    while (st == CKPT_OK && b->first) {
        struct file_sink *f = file_of(b->first);
        bool there = false;
        st = install(f, &there, err);
        if (st != CKPT_OK)
            fail_file(err, f->path);
        *placed += there;
        b->first = f->next ? &f->next->s : NULL;
        file_abort(&f->s);
    }
    sink_batch_abort(b);
    return st;
}

void sink_batch_abort(struct sink_batch *b)
{
    while (b->first) {
        struct file_sink *f = file_of(b->first);
        b->first = f->next ? &f->next->s : NULL;
        file_abort(&f->s);
    }
    b->first = b->last = NULL;
    b->n = 0;
}

static const struct sink_ops file_ops = {file_reserve, file_write, file_skip, file_patch,
                                         file_read,    file_commit, file_abort, file_clone};

/* link_target - what the symbolic link PATH says, seen from where PATH is seen;
 * NULL: PATH is no link, or out of memory (errno ENOMEM). */
static char *link_target(const char *path)
{
    char to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0)
        return NULL;
    to[n] = '\0';
    size_t dir = to[0] == '/' ? 0 : (size_t)(base_name(path) - path);
    char *joined = malloc(dir + (size_t)n + 1);
    if (!joined)
        return NULL;
    memcpy(joined, path, dir);
    memcpy(joined + dir, to, (size_t)n + 1);
    return joined;
}

/* follow - the file that PATH leads to, which need not exist. */
static char *follow(const char *path, bool there)
{
    if (there)
        return realpath(path, NULL);
    char *at = strdup(path);
    for (int links = 0; at && links < 40; links++) {
        char *next = link_target(at);
        if (!next && errno != ENOMEM)
            return at;
        free(at);
        at = next;
    }
    int why = at ? ELOOP : ENOMEM;
    free(at);
    errno = why;
    return NULL;
}

static ckpt_status begin_stream(struct file_sink *f, ckpt_error *err)
{
    const char *dir;
    if (f->to < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing");
    f->fd = fd_temp(&dir);
    if (f->fd >= 0)
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot create a temporary file in %s", dir);
    fail_hint(err, "set TMPDIR to a writable folder");
    return st;
}

/* begin_special - something that exists and is no regular file. */
static ckpt_status begin_special(struct file_sink *f, ckpt_error *err)
{
    if (S_ISDIR(f->old.st_mode)) {
        errno = EISDIR;
        return fail_errno(err, CKPT_NO_OFFSET, "cannot write");
    }
    if (S_ISBLK(f->old.st_mode) && !f->o.force)
        return exists(f, err);
    f->to = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return begin_stream(f, err);
}

static ckpt_status begin_file(struct file_sink *f, ckpt_error *err)
{
    f->target = follow(f->path, f->existed);
    if (!f->target)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot resolve the link");
    const char *base = base_name(f->target);
    size_t n = (size_t)(base - f->target);
    char *dir = n ? strndup(f->target, n) : strdup(".");
    if (!dir)
        return fail_memory(err);
    ckpt_status st = CKPT_OK;
    if (!*base)
        st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "is a folder, not a file");
    /* While it is written, what will replace a file is its owner's alone. */
    else if (!temp_open(&f->temp, dir, base, f->existed ? 0600 : 0666,
                        f->o.batch ? &f->o.batch->tidied : NULL))
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot create a file in %s", dir);
    f->fd = f->temp.fd;
    free(dir);
    return st;
}

static ckpt_status begin(struct file_sink *f, ckpt_error *err)
{
    if (strcmp(f->path, "-") == 0 || strcmp(f->path, "/dev/stdout") == 0) {
        /* Closed by whoever started us, its number could become the spool's. */
        if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
            f->to = STDOUT_FILENO;
        return begin_stream(f, err);
    }
    f->existed = stat(f->path, &f->old) == 0;
    if (!f->existed && errno != ENOENT)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if (f->existed && !S_ISREG(f->old.st_mode))
        return begin_special(f, err);
    if (f->existed && !f->o.force)
        return exists(f, err);
    return begin_file(f, err);
}

ckpt_status sink_file(const char *path, const struct sink_options *opts, sink **out, ckpt_error *err)
{
    struct file_sink *f = calloc(1, sizeof *f);
    if (!f)
        return fail_memory(err);
    f->s.ops = &file_ops;
    f->temp = (struct temp){-1, -1, NULL};
    f->fd = f->to = -1;
    f->o = opts ? *opts : (struct sink_options){0};
    f->path = strdup(path);
    f->block = aligned_alloc(4096, FD_CHUNK);
    ckpt_status st = f->path && f->block ? begin(f, err) : fail_memory(err);
    if (st != CKPT_OK) {
        fail_file(err, strcmp(path, "-") == 0 ? "standard output" : path);
        file_abort(&f->s);
        return st;
    }
    *out = &f->s;
    return CKPT_OK;
}

void sink_emergency(void) { temp_emergency(); }
