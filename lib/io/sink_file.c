/* sink_file.c - output to a path, standard output, a pipe, a device, a given descriptor. A file
 * appears complete or not at all; the other targets get their bytes on commit, from an
 * unlinked temporary file, so that a failure before the commit leaves them untouched. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/text.h"
#include "io/fd.h"
#include "io/journal.h"
#include "io/sink.h"

struct file_sink {
    sink sink;
    struct temp temp; /* the new file of a regular target */
    int fd;           /* temp.fd, or the spool of a stream */
    int stream;       /* descriptor that gets the bytes on commit; -1: regular target */
    bool keep_open;   /* STREAM stays open after the commit or abort */
    char *path;       /* as the caller spells it */
    char *target;     /* PATH with its symlinks resolved */
    struct sink_options opts;
    struct file_sink *next; /* the next file in its batch */
    bool existed;           /* the target existed; OLD describes it */
    atomic_bool broken;     /* a write failed: no commit */
    atomic_bool no_clone;   /* a clone failed once: do not try again */
    struct stat old;
    uint64_t reserved;
    uint64_t flushed; /* bytes in the file; those after it are in BLOCK */
    size_t block_len; /* bytes in BLOCK */
    unsigned char *block;
};

static struct file_sink *file_of(sink *out) { return (struct file_sink *)out; }

/* shown_path - returns PATH as errors name it. */
static const char *shown_path(const char *path) { return strcmp(path, "-") == 0 ? "standard output" : path; }

/* hint_free_space - if errno means a full disk or quota, adds a hint with the NEED and the bytes that are
 * free. In any case, adds the path of FILE to ERR, and returns ST. */
static ckpt_status hint_free_space(const struct file_sink *file, uint64_t need, ckpt_status st,
                                   ckpt_error *err)
{
    struct statvfs v;
    uint64_t free_bytes;
    if ((errno == ENOSPC || errno == EDQUOT) && fstatvfs(file->fd, &v) == 0 &&
        checked_mul(v.f_bavail, v.f_frsize, &free_bytes) && free_bytes < need)
        error_add_hint(err, "%" PRIu64 " bytes are free there, %" PRIu64 " are needed", free_bytes, need);
    return name_file_if_failed(st, shown_path(file->path), err);
}

/* fail_write - reports "cannot DOING" and errno; from now on a commit fails. */
static ckpt_status fail_write(struct file_sink *file, const char *doing, ckpt_error *err)
{
    int saved_errno = errno;
    file->broken = true;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot %s", doing);
    errno = saved_errno;
    return hint_free_space(file, file->reserved > file->sink.len ? file->reserved : file->sink.len, st, err);
}

static ckpt_status file_reserve(sink *out, uint64_t size, ckpt_error *err)
{
    struct file_sink *f = file_of(out);
    f->reserved = size > f->reserved ? size : f->reserved;
    if (fd_reserve(f->fd, size))
        return CKPT_OK;
    int saved_errno = errno;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot reserve %" PRIu64 " bytes for the output", size);
    errno = saved_errno;
    return hint_free_space(f, size, st, err);
}

static ckpt_status write_bytes(struct file_sink *file, const void *bytes, size_t nbytes, ckpt_error *err)
{
    if (!fd_pwrite(file->fd, bytes, nbytes, file->flushed))
        return fail_write(file, "write", err);
    file->flushed += nbytes;
    return CKPT_OK;
}

static ckpt_status flush_block(struct file_sink *file, ckpt_error *err)
{
    size_t n = file->block_len;
    file->block_len = 0;
    return n ? write_bytes(file, file->block, n, err) : CKPT_OK;
}

static ckpt_status file_write(sink *out, const void *bytes, size_t nbytes, ckpt_error *err)
{
    struct file_sink *f = file_of(out);
    const unsigned char *p = bytes;
    while (nbytes) {
        size_t chunk = FD_CHUNK - f->block_len < nbytes ? FD_CHUNK - f->block_len : nbytes;
        if (chunk == FD_CHUNK) {
            CKPT_TRY(write_bytes(f, p, chunk, err));
        } else {
            memcpy(f->block + f->block_len, p, chunk);
            f->block_len += chunk;
            if (f->block_len == FD_CHUNK)
                CKPT_TRY(flush_block(f, err));
        }
        p += chunk;
        nbytes -= chunk;
    }
    return CKPT_OK;
}

/* count_in_file - returns how many of the NBYTES bytes at OFF are in the file already, not in BLOCK. */
static size_t count_in_file(const struct file_sink *file, uint64_t off, size_t nbytes)
{
    uint64_t flushed_bytes = off < file->flushed ? file->flushed - off : 0;
    return flushed_bytes < nbytes ? (size_t)flushed_bytes : nbytes;
}

static ckpt_status file_skip(sink *out, uint64_t count, ckpt_error *err)
{
    struct file_sink *f = file_of(out);
    CKPT_TRY(flush_block(f, err));
    f->flushed += count;
    return CKPT_OK;
}

static ckpt_status file_patch(sink *out, uint64_t off, const void *bytes, size_t nbytes, ckpt_error *err)
{
    struct file_sink *f = file_of(out);
    size_t in_file = count_in_file(f, off, nbytes);
    if (in_file && !fd_pwrite(f->fd, bytes, in_file, off))
        return fail_write(f, "write", err);
    if (nbytes > in_file)
        memcpy(f->block + (off + in_file - f->flushed), (const char *)bytes + in_file, nbytes - in_file);
    return CKPT_OK;
}

/* file_clone - clones a range. After a failure no other clone is tried: it would fail for the same reason. */
static bool file_clone(sink *out, uint64_t off, int fd, uint64_t from, uint64_t nbytes)
{
    struct file_sink *f = file_of(out);
    struct file_clone_range r = {.src_fd = fd, .src_offset = from, .src_length = nbytes, .dest_offset = off};
    if (atomic_load_explicit(&f->no_clone, memory_order_relaxed))
        return false;
    if (ioctl(f->fd, FICLONERANGE, &r) == 0)
        return true;
    atomic_store_explicit(&f->no_clone, true, memory_order_relaxed);
    return false;
}

static ckpt_status file_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct file_sink *f = file_of(output);
    size_t in_file = count_in_file(f, off, nbytes), got = 0;
    if (in_file && !fd_pread(f->fd, out, in_file, off, &got))
        return fail_write(f, "read back what was written", err);
    if (got < in_file)
        return fail(err, CKPT_ECHANGED, off + got, "bytes that were written cannot be read back");
    if (nbytes > in_file)
        memcpy((char *)out + in_file, f->block + (off + in_file - f->flushed), nbytes - in_file);
    return CKPT_OK;
}

static void file_abort(sink *out)
{
    struct file_sink *f = file_of(out);
    if (f->stream >= 0 && !f->keep_open)
        close(f->stream);
    if (f->fd >= 0 && f->fd != f->temp.fd)
        close(f->fd);
    temp_close(&f->temp);
    free(f->block);
    free(f->target);
    free(f->path);
    free(f);
}

/* copy_xattrs - copies the extended attributes that can be read and set, except hashes of the content, which
 * would be wrong for the new file. */
static void copy_xattrs(const char *from, int to, char block[FD_CHUNK])
{
    enum { MAX_XATTR = 65536 }; /* bytes of a list of names or of a value: the kernel's limit */
    char *list = block;
    ssize_t len = listxattr(from, list, MAX_XATTR);
    for (ssize_t i = 0; i < len; i += (ssize_t)strlen(list + i) + 1) {
        const char *name = list + i;
        if (strcmp(name, "security.ima") == 0 || strcmp(name, "security.evm") == 0)
            continue;
        ssize_t n = getxattr(from, name, list + MAX_XATTR, MAX_XATTR);
        if (n >= 0)
            fsetxattr(to, name, list + MAX_XATTR, (size_t)n, 0);
    }
}

/* report_new_owner - reports the owner and group of the new file if they differ from the old ones. */
static void report_new_owner(const struct file_sink *file)
{
    struct stat now;
    if (!file->opts.notice || fstat(file->fd, &now) != 0)
        return;
    if (now.st_uid != file->old.st_uid)
        file->opts.notice(file->opts.user,
                          "%s: its owner, user %u, could not be kept; it belongs to user %u now", file->path,
                          (unsigned)file->old.st_uid, (unsigned)now.st_uid);
    if (now.st_gid != file->old.st_gid)
        file->opts.notice(file->opts.user, "%s: its group %u could not be kept; it has group %u now",
                          file->path, (unsigned)file->old.st_gid, (unsigned)now.st_gid);
}

/* keep_attributes - gives the new file the owner, mode and xattrs of the old one, as far as this user may set
 * them: a failure is no reason to lose the output. If the owner changes, set-user-id must not be kept. */
static void keep_attributes(const struct file_sink *file)
{
    mode_t mode = file->old.st_mode & 07777;
    if (fchown(file->fd, file->old.st_uid, file->old.st_gid) != 0) {
        mode &= 0777;
        if (fchown(file->fd, (uid_t)-1, file->old.st_gid) != 0)
            mode &= (mode_t) ~(mode_t)0070 | (mode & 0007) << 3; /* the group gets the rights of others */
    }
    copy_xattrs(file->target, file->fd, (char *)file->block); /* BLOCK is empty by now */
    (void)!fchmod(file->fd, mode);
    report_new_owner(file);
}

/* finish_file - writes what is left in the buffer, and sets the attributes and the exact size. Closes a
 * duplicate of the descriptor, so that network file systems report errors of a close. */
static ckpt_status finish_file(struct file_sink *file, ckpt_error *err)
{
    if (file->broken)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "an earlier write failed");
    CKPT_TRY(flush_block(file, err));
    if (file->stream < 0 && file->existed)
        keep_attributes(file);
    if (file->reserved > file->sink.len && ftruncate(file->fd, (off_t)file->sink.len) != 0)
        return fail_write(file, "set the size of the output", err);
    if (file->stream < 0 && !file->opts.no_sync && fsync(file->fd) != 0)
        return fail_write(file, "flush the output to disk", err);
    int duplicate = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
    return duplicate >= 0 && close(duplicate) != 0 ? fail_write(file, "finish the output", err) : CKPT_OK;
}

static ckpt_status fail_exists(const struct file_sink *file, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                          "already exists; nothing written\nuse -f to replace it");
    return name_file_if_failed(st, shown_path(file->path), err);
}

static const char *get_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* move_into_place - moves the new file to its target, and sets *PLACED. Later steps may still fail. */
static ckpt_status move_into_place(struct file_sink *file, bool *placed, ckpt_error *err)
{
    if (!temp_place(&file->temp, get_base_name(file->target), file->opts.force))
        return errno == EEXIST ? fail_exists(file, err) : fail_write(file, "move the output into place", err);
    *placed = true;
    /* Some file systems cannot sync a folder, and a folder that may not be listed is open with O_PATH. */
    if (!file->opts.no_sync && fsync(file->temp.dir) != 0 && errno != EINVAL && errno != EBADF &&
        errno != EROFS)
        return fail_write(file, "flush the folder of the finished output to disk", err);
    /* Only now, and not in a batch: an old file that a power cut or an undo brings back needs its journal. */
    if (file->existed && !file->opts.batch)
        journal_remove_stale(file->temp.dir, get_base_name(file->target));
    return CKPT_OK;
}

static ckpt_status copy_to_stream(struct file_sink *file, ckpt_error *err)
{
    CKPT_TRY(finish_file(file, err));
    for (uint64_t at = 0; at < file->sink.len;) {
        size_t n = file->sink.len - at < FD_CHUNK ? (size_t)(file->sink.len - at) : FD_CHUNK;
        CKPT_TRY(file_read(&file->sink, at, file->block, n, err));
        if (!fd_write(file->stream, file->block, n))
            return fail_write(file, "write", err);
        at += n;
    }
    int to = file->stream;
    file->stream = -1;
    return !file->keep_open && close(to) != 0 ? fail_write(file, "finish the output", err) : CKPT_OK;
}

/* add_to_batch - adds FILE, which is finished, to the files that appear together. */
static void add_to_batch(struct sink_batch *batch, struct file_sink *file)
{
    free(file->block);
    file->block = NULL;
    file->next = NULL;
    if (batch->last)
        file_of(batch->last)->next = file;
    else
        batch->first = &file->sink;
    batch->last = &file->sink;
    batch->n++;
}

static ckpt_status file_commit(sink *out, ckpt_error *err)
{
    struct file_sink *f = file_of(out);
    bool placed = false;
    ckpt_status st = f->stream >= 0 ? copy_to_stream(f, err) : finish_file(f, err);
    if (st == CKPT_OK && f->stream < 0 && f->opts.batch) {
        add_to_batch(f->opts.batch, f);
        return CKPT_OK;
    }
    if (st == CKPT_OK && f->target)
        st = move_into_place(f, &placed, err);
    (void)name_file_if_failed(st, shown_path(f->path), err);
    file_abort(out);
    return st;
}

ckpt_status sink_batch_commit(struct sink_batch *batch, size_t *placed, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    *placed = 0;
    while (st == CKPT_OK && batch->first) {
        struct file_sink *f = file_of(batch->first);
        bool is_placed = false;
        st = name_file_if_failed(move_into_place(f, &is_placed, err), f->path, err);
        *placed += is_placed;
        batch->first = f->next ? &f->next->sink : NULL;
        file_abort(&f->sink);
    }
    sink_batch_abort(batch);
    return st;
}

void sink_batch_abort(struct sink_batch *batch)
{
    while (batch->first) {
        struct file_sink *f = file_of(batch->first);
        batch->first = f->next ? &f->next->sink : NULL;
        file_abort(&f->sink);
    }
    batch->first = batch->last = NULL;
    batch->n = 0;
}

static const struct sink_ops file_ops = {file_reserve, file_write,  file_skip,  file_patch,
                                         file_read,    file_commit, file_abort, file_clone};

/* read_link - returns the target of the symbolic link PATH, relative to the same folder as PATH; NULL: PATH
 * is no link, or out of memory (errno ENOMEM). */
static char *read_link(const char *path)
{
    char to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0)
        return NULL;
    to[n] = '\0';
    size_t dir = to[0] == '/' ? 0 : (size_t)(get_base_name(path) - path);
    char *joined = malloc(dir + (size_t)n + 1);
    if (!joined)
        return NULL;
    memcpy(joined, path, dir);
    memcpy(joined + dir, to, (size_t)n + 1);
    return joined;
}

/* resolve_links - returns the path of the file that PATH leads to, whether or not it EXISTS. NULL: errno. */
static char *resolve_links(const char *path, bool exists)
{
    if (exists)
        return realpath(path, NULL);
    char *at = strdup(path);
    for (int links = 0; at && links < 40; links++) {
        char *next = read_link(at);
        if (!next && errno != ENOMEM)
            return at;
        free(at);
        at = next;
    }
    int saved_errno = at ? ELOOP : ENOMEM;
    free(at);
    errno = saved_errno;
    return NULL;
}

static ckpt_status open_stream(struct file_sink *file, ckpt_error *err)
{
    const char *dir;
    if (file->stream < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing");
    file->fd = fd_temp(&dir);
    if (file->fd >= 0)
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot create a temporary file in %s\nset TMPDIR to a writable folder", dir);
}

/* open_special - opens a file that exists and is not a regular file. */
static ckpt_status open_special(struct file_sink *file, ckpt_error *err)
{
    if (S_ISDIR(file->old.st_mode)) {
        errno = EISDIR;
        return fail_errno(err, CKPT_NO_OFFSET, "cannot write");
    }
    if (S_ISBLK(file->old.st_mode) && !file->opts.force)
        return fail_exists(file, err);
    file->stream = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return open_stream(file, err);
}

void sink_hint_folder(ckpt_error *err, const char *dir)
{
    char word[SHELL_WORD_MAX];
    struct stat st;
    if (stat(dir, &st) != 0 && errno == ENOENT)
        error_add_hint(err, "mkdir -p %s", shell_path(dir, word));
}

/* fail_create - reports that no file can be created in the folder DIR; errno is the reason. */
static ckpt_status fail_create(const char *dir, ckpt_error *err)
{
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot create a file in %s", dir);
    sink_hint_folder(err, dir);
    return st;
}

/* find_target - sets file->target, and DIR to its folder, which the caller frees. */
static ckpt_status find_target(struct file_sink *file, char **dir, ckpt_error *err)
{
    file->target = resolve_links(file->path, file->existed);
    if (!file->target)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot resolve the link");
    size_t n = (size_t)(get_base_name(file->target) - file->target);
    *dir = n ? strndup(file->target, n > 1 ? n - 1 : n) : strdup(".");
    CKPT_TRY_ALLOC(*dir, err);
    if (!file->target[n])
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "is a folder, not a file");
    return CKPT_OK;
}

static ckpt_status open_regular(struct file_sink *file, ckpt_error *err)
{
    char *dir = NULL;
    ckpt_status st = find_target(file, &dir, err);
    /* A file that replaces another can be read only by its owner until it is finished. */
    if (st == CKPT_OK &&
        !temp_open(&file->temp, dir, get_base_name(file->target), file->existed ? 0600 : 0666,
                   file->opts.batch ? &file->opts.batch->cleaned_folder : NULL))
        st = fail_create(dir, err);
    file->fd = file->temp.fd;
    free(dir);
    return st;
}

/* find_existing - finds out what exists at the path of FILE. Fails if that is a regular file or a link
 * to nowhere, unless opts.force is set. */
static ckpt_status find_existing(struct file_sink *file, ckpt_error *err)
{
    struct stat link;
    file->existed = stat(file->path, &file->old) == 0;
    if (!file->existed && errno != ENOENT)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if (!file->existed && !file->opts.force && lstat(file->path, &link) == 0)
        return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                    "is a symbolic link to a file that does not exist; nothing written\n"
                    "use -f to make that file, or remove the link");
    return file->existed && S_ISREG(file->old.st_mode) && !file->opts.force ? fail_exists(file, err)
                                                                            : CKPT_OK;
}

static ckpt_status open_target(struct file_sink *file, ckpt_error *err)
{
    if (strcmp(file->path, "-") == 0 || strcmp(file->path, "/dev/stdout") == 0) {
        /* If standard output is closed, FILE->stream stays -1, because the spool could get descriptor
         * 1. */
        if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
            file->stream = STDOUT_FILENO;
        file->keep_open = true;
        return open_stream(file, err);
    }
    CKPT_TRY(find_existing(file, err));
    return file->existed && !S_ISREG(file->old.st_mode) ? open_special(file, err) : open_regular(file, err);
}

/* new_sink - makes a sink called PATH that has no target yet; NULL: no memory. */
static struct file_sink *new_sink(const char *path, const struct sink_options *opts)
{
    struct file_sink *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->sink.ops = &file_ops;
    f->temp = (struct temp){-1, -1, NULL};
    f->fd = f->stream = -1;
    f->opts = opts ? *opts : (struct sink_options){0};
    f->path = strdup(path);
    f->block = aligned_alloc(4096, FD_CHUNK);
    if (f->path && f->block)
        return f;
    file_abort(&f->sink);
    return NULL;
}

/* return_sink - sets *OUT to FILE, or frees FILE if ST, the status of opening NAME, is an error. */
static ckpt_status return_sink(struct file_sink *file, const char *name, ckpt_status st, sink **out,
                               ckpt_error *err)
{
    if (st != CKPT_OK) {
        error_add_file(err, name);
        file_abort(&file->sink);
        return st;
    }
    *out = &file->sink;
    return CKPT_OK;
}

ckpt_status sink_file(const char *path, const struct sink_options *opts, sink **out, ckpt_error *err)
{
    struct file_sink *f = new_sink(path, opts);
    return f ? return_sink(f, shown_path(path), open_target(f, err), out, err)
             : name_file_if_failed(fail_memory(err), shown_path(path), err);
}

/* check_target - fails if open_target would, as far as can be found out without creating a file. */
static ckpt_status check_target(struct file_sink *file, ckpt_error *err)
{
    char *dir = NULL;
    CKPT_TRY(find_existing(file, err));
    if (file->existed && S_ISDIR(file->old.st_mode))
        return open_special(file, err); /* fails, as a folder cannot be opened for writing */
    if (file->existed && !S_ISREG(file->old.st_mode))
        return CKPT_OK;
    ckpt_status st = find_target(file, &dir, err);
    if (st == CKPT_OK && access(dir, W_OK | X_OK) != 0)
        st = fail_create(dir, err);
    free(dir);
    return st;
}

ckpt_status sink_file_check(const char *path, bool force, ckpt_error *err)
{
    struct file_sink f = {.path = (char *)(uintptr_t)path, .opts = {.force = force}};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return CKPT_OK;
    ckpt_status st = check_target(&f, err);
    free(f.target);
    return name_file_if_failed(st, path, err);
}

ckpt_status sink_fd(int fd, const struct sink_options *opts, sink **out, ckpt_error *err)
{
    char name[32];
    int flags = fcntl(fd, F_GETFL);
    (void)snprintf(name, sizeof name, "descriptor %d", fd);
    struct file_sink *f = new_sink(name, opts);
    CKPT_TRY_ALLOC(f, err);
    bool writable = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    f->stream = writable ? fd : -1;
    f->keep_open = true;
    ckpt_status st = writable ? open_stream(f, err)
                              : fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "is not open for writing");
    return return_sink(f, name, st, out, err);
}
