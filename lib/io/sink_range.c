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
    bool no_sync;
    atomic_bool no_clone; /* a clone failed once: do not try again */
};

static struct range_sink *range_of(sink *out) { return (struct range_sink *)out; }

static ckpt_status range_reserve(sink *out, uint64_t size, ckpt_error *err)
{
    (void)out;
    (void)size;
    (void)err;
    return CKPT_OK; /* sink_range has reserved all of the file */
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
    return fd_pwrite(range_of(out)->fd, bytes, nbytes, off) ? CKPT_OK : fail_errno(err, off, "cannot write");
}

static ckpt_status range_read(sink *output, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    size_t got = 0;
    if (!fd_pread(range_of(output)->fd, out, nbytes, off, &got))
        return fail_errno(err, off, "cannot read back what was written");
    return got == nbytes ? CKPT_OK
                         : fail(err, CKPT_ECHANGED, off + got, "bytes that were written cannot be read back");
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
    free(out);
    if (close(fd) != 0 && st == CKPT_OK) /* network file systems report errors of earlier writes */
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot finish the output");
    return st;
}

static const struct sink_ops range_ops = {range_reserve, range_write,  range_skip,  range_patch,
                                          range_read,    range_commit, range_abort, range_clone};

/* set_size - gives the file FD its full SIZE, unless another process has. */
static ckpt_status set_size(int fd, uint64_t size, ckpt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot stat");
    if ((uint64_t)st.st_size > size)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has {%llu bytes}, not {=%llu}",
                    (unsigned long long)st.st_size, (unsigned long long)size);
    if ((uint64_t)st.st_size == size)
        return CKPT_OK;
    if (!fd_reserve(fd, size) || ftruncate(fd, (off_t)size) != 0)
        return fail_errno(err, CKPT_NO_OFFSET, "cannot reserve %llu bytes for the output",
                          (unsigned long long)size);
    return CKPT_OK;
}

ckpt_status sink_range(int folder, const char *name, uint64_t size, bool no_sync, sink **out, ckpt_error *err)
{
    struct range_sink *r = calloc(1, sizeof *r);
    CKPT_TRY_ALLOC(r, err);
    *r = (struct range_sink){.sink = {.ops = &range_ops, .len = size}, .no_sync = no_sync};
    r->fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (r->fd < 0) {
        free(r);
        return fail_errno(err, CKPT_NO_OFFSET, "cannot open for writing");
    }
    ckpt_status st = set_size(r->fd, size, err);
    if (st != CKPT_OK) {
        range_abort(&r->sink);
        return st;
    }
    *out = &r->sink;
    return CKPT_OK;
}
