/* pickle_read.h - the pickle machine: all 68 opcodes of protocols 0-5 as a
 * description of what would happen. Imports nothing, calls nothing. */
#ifndef CODEC_PICKLE_READ_H
#define CODEC_PICKLE_READ_H

#include "core/file.h"

/* pickle_read - runs the pickle that begins at POS of SRC (which must outlive
 * the nodes: large strings stay there as spans) and must end before END. On
 * success *ROOT is what STOP returned and *NEXT the offset behind STOP. FACTS
 * may be NULL; it is filled in as far as the machine came, failure included.
 * Node offsets count from SRC's byte 0; errors tell absolute ones. One node, that
 * of the first, may stand for equal None, bools, ints, short texts, empty tuples
 * and globals. */
ckpt_status pickle_read(arena *a, source *src, uint64_t pos, uint64_t end, struct pickle_facts *facts,
                        ckpt_value **root, uint64_t *next, ckpt_error *err);

#endif
