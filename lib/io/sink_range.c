/* sink_range.c - output into ranges of a file that has its full size from the start and whose other ranges
 * other processes write. Neither appends nor removes the file; sink_commit syncs what was written. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/sink.h"

struct range_sink {
    sink sink;
    int fd;
    const char *path; /* for errors */
    bool no_sync;
    atomic_bool no_clone; /* a clone failed once: do not try again */
};

static struct range_sink *range_of(sink *out) { return (struct range_sink *)out; }

static ckpt_status range_reserve(sink *out, uint64_t size, ckpt_error *err)
{
    (void)out;
    (void)size;
    (void)err;
    return CKPT_OK; /* sink_range_make has reserved all of the file */
}

static ckpt_status fail_append(ckpt_error *err)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a range of a file cannot become longer");
}

static ckpt_status range_write(sink *out, const void *bytes, size_t nbytes, ckpt_error *err)
{
    (void)out;
    (void)bytes;
    (void)nbytes;
    return fail_append(err);
}

static ckpt_status range_skip(sink *out, uint64_t count, ckpt_error *err)
{
    (void)out;
    (void)count;
    return fail_append(err);
}

static ckpt_status range_patch(sink *out, uint64_t off, const void *bytes, size_t nbytes, ckpt_error *err)
{
    bool ok = fd_pwrite(range_of(out)->fd, bytes, nbytes, off);
    ckpt_status st = ok ? CKPT_OK : fail_errno(err, off, "cannot write");
    return name_file_if_failed(st, range_of(out)->path, err);
}

static ckpt_status range_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    size_t got = 0;
    ckpt_status st = CKPT_OK;
    if (!fd_pread(range_of(output)->fd, out, nbytes, off, &got))
        st = fail_errno(err, off, "cannot read back what was written");
    else if (got < nbytes)
        st = fail(err, CKPT_ECHANGED, off + got, "bytes that were written cannot be read back");
    return name_file_if_failed(st, range_of(output)->path, err);
}

static bool range_clone(sink *out, uint64_t off, int fd, uint64_t from, uint64_t nbytes)
{
    struct range_sink *r = range_of(out);
    struct file_clone_range range = {
        .src_fd = fd, .src_offset = from, .src_length = nbytes, .dest_offset = off};
    if (atomic_load_explicit(&r->no_clone, memory_order_relaxed))
        return false;
    if (ioctl(r->fd, FICLONERANGE, &range) == 0)
        return true;
    atomic_store_explicit(&r->no_clone, true, memory_order_relaxed);
    return false;
}

static void range_abort(sink *out)
{
    close(range_of(out)->fd);
    free(out);
}

static ckpt_status range_commit(sink *out, ckpt_error *err)
{
    struct range_sink *r = range_of(out);
    int fd = r->fd;
    bool synced = r->no_sync || fdatasync(fd) == 0;
    ckpt_status st = synced ? CKPT_OK : fail_errno(err, CKPT_NO_OFFSET, "cannot flush the output to disk");
    const char *path = r->path;
    free(out);
    if (close(fd) != 0 && st == CKPT_OK) /* network file systems report errors of earlier writes */
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot finish the output");
    return name_file_if_failed(st, path, err);
}

static const struct sink_ops range_ops = {range_reserve, range_write,  range_skip,  range_patch,
                                          range_read,    range_commit, range_abort, range_clone};

/* open_file - opens the file PATH of the open folder FOLDER, with FLAGS. */
static ckpt_status open_file(int folder, const char *path, int flags, int *fd, ckpt_error *err)
{
    *fd = openat(folder, str_after_last(str_c(path), '/').ptr, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
    return *fd < 0 ? fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing") : CKPT_OK;
}

/* compare_size - compares the size of the file FD with SIZE, which it must have or, if MAY_BE_LESS, not
 * exceed. Sets *IS_LESS. */
static ckpt_status compare_size(int fd, uint64_t size, bool may_be_less, bool *is_less, ckpt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    *is_less = (uint64_t)st.st_size < size;
    if ((uint64_t)st.st_size == size || (*is_less && may_be_less))
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has {%llu bytes}, not {=%llu}",
                (unsigned long long)st.st_size, (unsigned long long)size);
}

/* extend - gives the file FD its full SIZE, unless another process has. */
static ckpt_status extend(int fd, uint64_t size, ckpt_error *err)
{
    bool is_less = false;
    CKPT_TRY(compare_size(fd, size, true, &is_less, err));
    if (!is_less || (fd_reserve(fd, size) && ftruncate(fd, (off_t)size) == 0))
        return CKPT_OK;
    return fail_errno(err, CKPT_NO_OFFSET, "cannot reserve %llu bytes for the output",
                      (unsigned long long)size);
}

ckpt_status sink_range_make(int folder, const char *path, uint64_t size, ckpt_error *err)
{
    int fd;
    ckpt_status st = open_file(folder, path, O_CREAT, &fd, err);
    if (st == CKPT_OK) {
        st = extend(fd, size, err);
        close(fd);
    }
    return name_file_if_failed(st, path, err);
}

ckpt_status sink_range(int folder, const char *path, uint64_t size, bool no_sync, sink **out, ckpt_error *err)
{
    bool is_less;
    struct range_sink *r = calloc(1, sizeof *r);
    CKPT_TRY_ALLOC(r, err);
    *r = (struct range_sink){.sink = {.ops = &range_ops, .len = size}, .path = path, .no_sync = no_sync};
    ckpt_status st = open_file(folder, path, 0, &r->fd, err);
    CKPT_THEN(st, compare_size(r->fd, size, false, &is_less, err));
    if (st == CKPT_OK) {
        *out = &r->sink;
        return CKPT_OK;
    }
    if (r->fd >= 0)
        close(r->fd);
    free(r);
    return name_file_if_failed(st, path, err);
}
