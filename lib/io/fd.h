/* fd.h - reads and writes all bytes asked for, in spite of short counts, EINTR and limits of the kernel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FD_CHUNK - bytes moved at a time; larger blocks were measured slower. */
#define FD_CHUNK ((size_t)256 * 1024)

/* fd_pread - reads NBYTES bytes at OFF. True with *GOT < NBYTES: the file ends there; false: errno is set. */
bool fd_pread(int fd, void *out, size_t nbytes, uint64_t off, size_t *got);
/* fd_read - reads up to NBYTES bytes from a stream. True with *GOT < NBYTES: it ended; false: errno is
 * set. */
bool fd_read(int fd, void *out, size_t nbytes, size_t *got);
/* fd_write - writes NBYTES bytes, and waits if FD is non-blocking and full. */
bool fd_write(int fd, const void *bytes, size_t nbytes);
bool fd_pwrite(int fd, const void *bytes, size_t nbytes, uint64_t off);
/* fd_reserve - makes sure that SIZE bytes from the begin of the file FD can be written, by reserving them
 * if the file system can; the file has then at least SIZE bytes. False: errno, ENOSPC or EDQUOT if they
 * cannot. */
bool fd_reserve(int fd, uint64_t size);
/* fd_temp - opens a temporary file without a name in $TMPDIR or /tmp; sets *DIR, if DIR is not NULL, to that
 * folder. Returns -1 with errno on failure. */
int fd_temp(const char **dir);
