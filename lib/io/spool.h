/* spool.h - bytes that come one after the other and are wanted by position later: kept in
 * memory while they are few, in an unlinked temporary file else. */
#ifndef IO_SPOOL_H
#define IO_SPOOL_H

#include "io/source.h"

typedef struct spool spool;

/* spool_new - room for at most MAX bytes. NULL: no memory. */
spool *spool_new(uint64_t max);
/* spool_write - CKPT_ELIMIT when that would be more than the maximum; what fits is kept. */
ckpt_status spool_write(spool *s, const void *bytes, size_t n, ckpt_error *err);
uint64_t spool_size(const spool *s);
/* spool_source - everything written, as a source, which takes the spool over. */
source *spool_source(spool *s);
void spool_free(spool *s); /* NULL is allowed */

#endif
