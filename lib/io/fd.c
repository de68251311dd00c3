/* fd.c - see fd.h. */
#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A transfer above SSIZE_MAX is undefined; 1 GiB is far from any limit. */
#define MAX_TRANSFER ((size_t)1 << 30)

static size_t cap_transfer(size_t left) { return left < MAX_TRANSFER ? left : MAX_TRANSFER; }

/* read_fully - reads NBYTES bytes of FD: those at *OFF or, if OFF is NULL, those at its position. */
static bool read_fully(int fd, void *out, size_t nbytes, const uint64_t *off, size_t *got)
{
    *got = 0;
    while (*got < nbytes) {
        char *to = (char *)out + *got;
        size_t chunk_size = cap_transfer(nbytes - *got);
        ssize_t r = off ? pread(fd, to, chunk_size, (off_t)(*off + *got)) : read(fd, to, chunk_size);
        if (r < 0 && errno != EINTR)
            return false;
        if (r == 0)
            return true;
        if (r > 0)
            *got += (size_t)r;
    }
    return true;
}

bool fd_pread(int fd, void *out, size_t nbytes, uint64_t off, size_t *got)
{
    return read_fully(fd, out, nbytes, &off, got);
}

bool fd_read(int fd, void *out, size_t nbytes, size_t *got) { return read_fully(fd, out, nbytes, NULL, got); }

/* wait_for_room - waits until FD can take more bytes; false: poll() failed. */
static bool wait_for_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

bool fd_write(int fd, const void *bytes, size_t nbytes)
{
    for (size_t done = 0; done < nbytes;) {
        ssize_t r = write(fd, (const char *)bytes + done, cap_transfer(nbytes - done));
        if (r < 0 && errno != EINTR && !(errno == EAGAIN && wait_for_room(fd)))
            return false;
        if (r > 0)
            done += (size_t)r;
    }
    return true;
}

bool fd_pwrite(int fd, const void *bytes, size_t nbytes, uint64_t off)
{
    for (size_t done = 0; done < nbytes;) {
        ssize_t r = pwrite(fd, (const char *)bytes + done, cap_transfer(nbytes - done), (off_t)(off + done));
        if (r < 0 && errno != EINTR)
            return false;
        if (r > 0)
            done += (size_t)r;
    }
    return true;
}

/* open_named_temp - opens a temporary file without O_TMPFILE; its name exists for two system calls only. */
static int open_named_temp(const char *dir)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/ckpt-XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int fd_temp(const char **dir)
{
    const char *env = getenv("TMPDIR");
    const char *at = env && *env ? env : "/tmp";
    if (dir)
        *dir = at;
    int fd = open(at, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : open_named_temp(at);
}

/* has_free_space - checks for room without reserving it; true if it is enough now, or is not known. */
static bool has_free_space(int fd, uint64_t size)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0 || v.f_blocks == 0 || v.f_frsize == 0 || size / v.f_frsize < v.f_bavail)
        return true;
    errno = ENOSPC;
    return false;
}

bool fd_reserve(int fd, uint64_t size)
{
    if (size > INT64_MAX) {
        errno = EFBIG;
        return false;
    }
    /* Some file systems allocate all they have before they notice that it is not enough. */
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
            return has_free_space(fd, size);
    }
}
