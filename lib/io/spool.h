/* spool.h - keeps a stream of bytes for reading by position later: in memory while they are few,
 * else in an unlinked temporary file. */
#pragma once

#include "io/source.h"

typedef struct spool spool;

/* spool_new - makes a spool for at most MAX bytes. NULL: no memory. */
spool *spool_new(uint64_t max);
/* spool_new_in_memory - makes a spool that never uses a file. */
spool *spool_new_in_memory(uint64_t max);
/* spool_new_at - makes a spool that begins at byte OFF of the open file FD, which remains the caller's. */
spool *spool_new_at(int fd, uint64_t off, uint64_t max);
/* spool_write - appends NBYTES bytes. CKPT_ELIMIT: they exceed the maximum; those that fit are kept. */
ckpt_status spool_write(spool *spooled, const void *bytes, size_t nbytes, ckpt_error *err);
/* spool_copy - appends the NBYTES bytes at OFF of SRC. */
ckpt_status spool_copy(spool *spooled, source *src, uint64_t off, uint64_t nbytes, ckpt_error *err);
uint64_t spool_size(const spool *spooled);
/* spool_is_full - returns true if a spool_write failed because of the maximum. */
bool spool_is_full(const spool *spooled);
/* spool_source - returns a source of all bytes written, which takes over the spool. */
source *spool_source(spool *spooled);
/* spool_move - moves the bytes of SRC, the source of a spool in memory, to byte OFF of the open file FD,
 * which remains the caller's. False: they could not be written, and SRC is unchanged. */
bool spool_move(source *src, int fd, uint64_t off);
void spool_free(spool *copy); /* NULL is allowed */
