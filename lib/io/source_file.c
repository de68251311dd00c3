/* source_file.c - a file on disk, read by position and never written to. A pipe
 * has no positions, so it goes to a temporary file first. A parked file is
 * opened for each read, and must still be the same file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/source.h"

struct file_source {
    source source;
    int fd;                         /* -1: parked */
    bool is_named;                  /* it has a path, by which changes can be seen */
    atomic_bool advised_sequential; /* source_advise_sequential was called */
    atomic_int read_errno; /* of a failed read: source_check_unchanged reports it to callers that went on */
    const char *_Atomic change; /* how the file changed, such as "removed"; NULL: not that we know */
    struct stat opened_stat;
    char *path;
    struct source_watch *watch;
    void *_Atomic mapped; /* the mapping of the whole file; NULL: not yet */
};

#define WRITTEN        "written to"
#define WRITER_WAIT_MS 3000 /* a shell that starts the writer in the background is faster */

/* open_for_reading - opens PATH without waiting: a named pipe would wait for a writer. */
static int open_for_reading(const char *path)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static bool same_time(const struct timespec *left, const struct timespec *right)
{
    return left->tv_sec == right->tv_sec && left->tv_nsec == right->tv_nsec;
}

static bool same_size_and_mtime(const struct stat *left, const struct stat *right)
{
    return left->st_size == right->st_size && same_time(&left->st_mtim, &right->st_mtim);
}

static bool same_file(const struct stat *left, const struct stat *right)
{
    return left->st_ino == right->st_ino && left->st_dev == right->st_dev;
}

/* compare_parked - returns how NOW differs from the file that was parked; NULL: it does not. A new file may
 * get the inode number of a removed one, the same size and, by utimensat, the same mtime, but not the same
 * ctime. */
static const char *compare_parked(const struct file_source *file, const struct stat *now)
{
    bool same = same_size_and_mtime(now, &file->opened_stat) &&
                same_time(&now->st_ctim, &file->opened_stat.st_ctim);
    return !same_file(now, &file->opened_stat) ? "replaced" : same ? NULL : "changed";
}

static ckpt_status fail_changed(const struct file_source *file, const char *how, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                          "%sthe file was %s while it was read\ntry again when nothing is writing to it",
                          strcmp(how, WRITTEN) == 0 ? "another program is editing it: " : "", how);
    return name_file_if_failed(st, file->path, err);
}

/* borrow_fd - sets *FD to file->fd or, if FILE is parked, opens the file until return_fd. */
static ckpt_status borrow_fd(struct file_source *file, int *fd, ckpt_error *err)
{
    struct stat now;
    const char *how = NULL;
    ckpt_status st = CKPT_OK;
    if ((*fd = file->fd) >= 0)
        return CKPT_OK;
    *fd = open_for_reading(file->path);
    if (*fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        how = "removed";
    } else if (*fd < 0 || fstat(*fd, &now) != 0) {
        atomic_store(&file->read_errno, errno);
        st = name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot open again"), file->path, err);
    } else {
        how = compare_parked(file, &now);
    }
    if (how) {
        atomic_store(&file->change, how);
        st = fail_changed(file, how, err);
    }
    if (st == CKPT_OK && atomic_load(&file->advised_sequential))
        posix_fadvise(*fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (st != CKPT_OK && *fd >= 0)
        close(*fd);
    return st;
}

static void return_fd(const struct file_source *file, int fd)
{
    if (fd != file->fd)
        close(fd);
}

static ckpt_status fail_shrank(const struct file_source *file, int fd, uint64_t off, ckpt_error *err)
{
    struct stat now;
    uint64_t size = fstat(fd, &now) == 0 ? (uint64_t)now.st_size : 0;
    return fail(err, CKPT_ECHANGED, off,
                "the file shrank from %" PRIu64 " to %" PRIu64 " bytes while it was read\n"
                "try again when nothing is writing to it",
                file->source.size, size);
}

static ckpt_status file_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct file_source *f = (struct file_source *)src;
    size_t got;
    int fd;
    CKPT_TRY(borrow_fd(f, &fd, err));
    bool ok = fd_pread(fd, out, nbytes, off, &got);
    ckpt_status st = CKPT_OK;
    if (!ok) {
        atomic_store(&f->read_errno, errno);
        st = fail_errno(err, off, "cannot read %zu bytes", nbytes);
    } else if (got < nbytes) {
        atomic_store(&f->read_errno, EIO); /* reported even if stat shows no change */
        st = fail_shrank(f, fd, off + got, err);
    }
    return_fd(f, fd);
    return st == CKPT_OK && f->watch ? source_watch_read(f->watch, nbytes, err)
                                     : name_file_if_failed(st, f->path, err);
}

static void file_close(source *src)
{
    struct file_source *f = (struct file_source *)src;
    void *mapped = atomic_load(&f->mapped);
    if (mapped)
        munmap(mapped, (size_t)src->size);
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f);
}

static void file_advise(source *src)
{
    struct file_source *f = (struct file_source *)src;
    if (!atomic_exchange(&f->advised_sequential, true) && f->fd >= 0)
        posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

static bool file_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    *fd = ((struct file_source *)src)->fd;
    *at = off;
    return *fd >= 0;
}

/* map_file - maps all of FILE, which is not empty, and sets *OUT to the mapping. If two threads do so at
 * once, one of them unmaps its own again, and both use the other. */
static ckpt_status map_file(struct file_source *file, void **out, ckpt_error *err)
{
    size_t size;
    int fd;
    if (!checked_size(file->source.size, &size))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "a file of %" PRIu64 " bytes cannot be mapped here", file->source.size);
    CKPT_TRY(borrow_fd(file, &fd, err));
    void *made = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0), *other = NULL;
    ckpt_status st = made == MAP_FAILED ? fail_errno(err, CKPT_NO_OFFSET, "cannot map it") : CKPT_OK;
    return_fd(file, fd);
    if (st == CKPT_OK && !atomic_compare_exchange_strong(&file->mapped, &other, made)) {
        munmap(made, size);
        made = other;
    }
    *out = made;
    return st;
}

static ckpt_status file_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    struct file_source *f = (struct file_source *)src;
    void *mapped = atomic_load(&f->mapped);
    ckpt_status st = mapped ? CKPT_OK : map_file(f, &mapped, err);
    if (st == CKPT_OK)
        *out = (const unsigned char *)mapped + off;
    return name_file_if_failed(st, f->path, err);
}

static void file_watch(source *src, struct source_watch *watch)
{
    ((struct file_source *)src)->watch = watch;
}

static const struct source_ops file_ops = {.read_at = file_read,
                                           .close = file_close,
                                           .advise_sequential = file_advise,
                                           .extent = file_extent,
                                           .map = file_map,
                                           .watch = file_watch};

/* await_writer - waits until a program has opened the named pipe IN, which is non-blocking, for writing, but
 * not for ever. Reads of IN block from then on. Sets *GOT to how many bytes were read to BLOCK (FD_CHUNK). */
static ckpt_status await_writer(int in, char *block, size_t *got, ckpt_error *err)
{
    bool has_writer = false;
    for (int waited_ms = 0; !has_writer; waited_ms += 20) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        int ready = poll(&p, 1, 20);
        ssize_t n = read(in, block, FD_CHUNK);
        *got = n > 0 ? (size_t)n : 0;
        has_writer = n > 0 || (n < 0 && errno == EAGAIN) || (n == 0 && ready > 0 && (p.revents & POLLHUP));
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail_errno(err, CKPT_NO_OFFSET, "cannot read");
        if (!has_writer && waited_ms >= WRITER_WAIT_MS)
            return fail(err, CKPT_EIO, CKPT_NO_OFFSET,
                        "a named pipe to which {no program} writes\n"
                        "start the program that writes to it first");
    }
    int flags = fcntl(in, F_GETFL);
    return flags >= 0 && fcntl(in, F_SETFL, flags & ~O_NONBLOCK) == 0
               ? CKPT_OK
               : fail_errno(err, CKPT_NO_OFFSET, "cannot read");
}

static ckpt_status fail_spool(const char *dir, ckpt_error *err)
{
    return fail_errno(err, CKPT_NO_OFFSET,
                      "cannot spool the pipe to %s\nset TMPDIR to a folder with room for all of it", dir);
}

/* copy_stream - copies everything from IN to the file TO in DIR. IS_NAMED_PIPE: as for await_writer. */
static ckpt_status copy_stream(int in, bool is_named_pipe, int to, const char *dir, ckpt_error *err)
{
    char *block = malloc(FD_CHUNK);
    CKPT_TRY_ALLOC(block, err);
    size_t got = 0;
    ckpt_status st = is_named_pipe ? await_writer(in, block, &got, err) : CKPT_OK;
    if (st == CKPT_OK && !fd_write(to, block, got))
        st = fail_spool(dir, err);
    for (got = FD_CHUNK; st == CKPT_OK && got == FD_CHUNK;) {
        if (!fd_read(in, block, FD_CHUNK, &got))
            st = fail_errno(err, CKPT_NO_OFFSET, "cannot read");
        else if (!fd_write(to, block, got))
            st = fail_spool(dir, err);
    }
    free(block);
    return st;
}

/* spool_stream - replaces *FD, a stream, by an unlinked file with all its content. */
static ckpt_status spool_stream(int *fd, bool is_named_pipe, ckpt_error *err)
{
    const char *dir;
    int to = fd_temp(&dir);
    if (to < 0)
        return fail_errno(err, CKPT_NO_OFFSET,
                          "cannot create a temporary file in %s\nset TMPDIR to a writable folder", dir);
    ckpt_status st = copy_stream(*fd, is_named_pipe, to, dir, err);
    if (st != CKPT_OK) {
        close(to);
        return st;
    }
    close(*fd);
    *fd = to;
    return CKPT_OK;
}

/* is_seekable - returns true if FD can be read by position from its first byte. Standard input that was
 * partly read before is not: it continues at its position. */
static bool is_seekable(int fd, mode_t mode)
{
    return (S_ISREG(mode) || S_ISBLK(mode)) && lseek(fd, 0, SEEK_CUR) == 0;
}

/* prepare_file - makes file->fd readable by position and finds its size. */
static ckpt_status prepare_file(struct file_source *file, bool is_stdin, ckpt_error *err)
{
    if (fstat(file->fd, &file->opened_stat) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    mode_t mode = file->opened_stat.st_mode;
    if (S_ISDIR(mode)) {
        errno = EISDIR;
        return fail_errno(err, CKPT_NO_OFFSET, "cannot read as a file");
    }
    if (S_ISCHR(mode) && !is_stdin)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "is a device, not a file or pipe");
    file->is_named = !is_stdin && S_ISREG(mode);
    if (!is_seekable(file->fd, mode)) {
        file->is_named = false;
        CKPT_TRY(spool_stream(&file->fd, !is_stdin && S_ISFIFO(mode), err));
    }
    off_t end = lseek(file->fd, 0, SEEK_END);
    if (end < 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot determine its size");
    file->source.size = (uint64_t)end;
    return CKPT_OK;
}

bool source_is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

ckpt_status source_file_open(const char *path, source **out, ckpt_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    struct file_source *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return fail_memory(err);
    }
    f->source = (source){.ops = &file_ops, .refs = 1};
    atomic_init(&f->advised_sequential, false);
    atomic_init(&f->read_errno, 0);
    atomic_init(&f->change, NULL);
    atomic_init(&f->mapped, NULL);
    f->fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_for_reading(path);
    ckpt_status st = f->fd < 0 ? fail_errno(err, CKPT_NO_OFFSET, "cannot open")
                               : prepare_file(f, is_stdin, err);
    if (st != CKPT_OK) {
        error_add_file(err, is_stdin ? "standard input" : path);
        if (f->fd >= 0)
            close(f->fd);
        free(f->path);
        free(f);
        return st;
    }
    *out = &f->source;
    return CKPT_OK;
}

void source_file_park(source *src)
{
    struct file_source *f = (struct file_source *)src;
    if (src->ops != &file_ops || !f->is_named || f->fd < 0)
        return;
    close(f->fd);
    f->fd = -1;
}

static ckpt_status fail_stat(const struct file_source *file, ckpt_error *err)
{
    return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "cannot stat"), file->path, err);
}

bool source_is_named_file(const source *src)
{
    return src->ops == &file_ops && ((const struct file_source *)src)->is_named;
}

ckpt_status source_check_not_written(source *src, ckpt_error *err)
{
    struct file_source *f = (struct file_source *)src;
    struct stat now;
    if (f->fd < 0)
        return CKPT_OK;
    if (fstat(f->fd, &now) != 0)
        return fail_stat(f, err);
    return same_size_and_mtime(&now, &f->opened_stat) ? CKPT_OK : fail_changed(f, WRITTEN, err);
}

/* find_change - sets *HOW to what happened to the file, or to NULL. Fails if stat does. */
static ckpt_status find_change(const struct file_source *file, const char **how, ckpt_error *err)
{
    struct stat now, there;
    bool parked = file->fd < 0;
    if (!parked && fstat(file->fd, &now) != 0)
        return fail_stat(file, err);
    if (!parked && !same_size_and_mtime(&now, &file->opened_stat))
        *how = WRITTEN;
    else if (stat(file->path, &there) != 0 && errno != ENOENT && errno != ENOTDIR)
        return fail_stat(file, err);
    else if (stat(file->path, &there) != 0)
        *how = "removed";
    else
        *how = parked ? compare_parked(file, &there) : same_file(&there, &now) ? NULL : "replaced";
    return CKPT_OK;
}

static const source *get_origin(const source *src)
{
    while (src->ops->origin)
        src = src->ops->origin(src);
    return src;
}

const struct stat *source_opened_stat(const source *src)
{
    uint64_t offset;
    const struct file_source *f = (const struct file_source *)get_origin(source_root(src, &offset));
    return f->source.ops == &file_ops ? &f->opened_stat : NULL;
}

ckpt_status source_check_unchanged(source *src, ckpt_error *err)
{
    struct file_source *f = (struct file_source *)(uintptr_t)get_origin(src);
    if (f->source.ops != &file_ops)
        return CKPT_OK;
    const char *how = atomic_load(&f->change);
    if (!how && f->is_named)
        CKPT_TRY(find_change(f, &how, err));
    if (how)
        atomic_store(&f->change, how);
    if (!how && atomic_load(&f->read_errno)) {
        errno = atomic_load(&f->read_errno);
        return name_file_if_failed(fail_errno(err, CKPT_NO_OFFSET, "a part of it could not be read"), f->path,
                                   err);
    }
    return how ? fail_changed(f, how, err) : CKPT_OK;
}

ckpt_status source_open_in(source *archive, const char *path, source **out, ckpt_error *err)
{
    return archive ? archive->ops->open_file(archive, path, out, err) : source_file_open(path, out, err);
}

ckpt_status source_read_whole(source *src, uint64_t max, arena *a, ckpt_str *out, ckpt_error *err)
{
    size_t n = src->size <= max ? (size_t)src->size : 0;
    char *text = arena_alloc(a, n);
    ckpt_status st;
    if (src->size > max)
        st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                  "has {%" PRIu64 "} bytes; at most {=%" PRIu64 "} are allowed", src->size, max);
    else
        st = text ? source_read(src, 0, text, n, err) : fail_memory(err);
    source_unref(src);
    *out = str_of(text, n);
    return st;
}

ckpt_status source_read_whole_file(const char *path, uint64_t max, arena *a, ckpt_str *out, ckpt_error *err)
{
    source *src;
    ckpt_status st = source_file_open(path, &src, err);
    return name_file_if_failed(st == CKPT_OK ? source_read_whole(src, max, a, out, err) : st, path, err);
}
