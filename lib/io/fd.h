/* fd.h - whole transfers on file descriptors: short counts, EINTR and the
 * kernel's 2 GiB ceiling are handled here, once. */
#ifndef IO_FD_H
#define IO_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FD_CHUNK - bytes moved at a time; larger blocks were measured slower. */
#define FD_CHUNK ((size_t)256 * 1024)

/* fd_pread - reads N bytes at OFF. True with *GOT < N: the file ends there; false: errno is set. */
bool fd_pread(int fd, void *out, size_t n, uint64_t off, size_t *got);
/* fd_read - up to N bytes from the stream; *GOT < N with true: it ended. */
bool fd_read(int fd, void *out, size_t n, size_t *got);
/* fd_write - waits where FD, which does not block, has no room. */
bool fd_write(int fd, const void *bytes, size_t n);
bool fd_pwrite(int fd, const void *bytes, size_t n, uint64_t off);
/* fd_temp - opens a temporary file without a name in $TMPDIR, else /tmp; *DIR, which may
 * be NULL, is set to that folder. -1: errno. */
int fd_temp(const char **dir);

#endif
