/* pickle_read.h - reads a pickle, with all 68 opcodes of protocols 0 to 5, as a graph of nodes that describe
 * what loading it would create. Imports and calls nothing. */
#pragma once

#include "core/file.h"

/* pickle_read - reads the pickle that begins at POS of SRC and must end before END. SRC must outlive the
 * nodes, as large strings are spans of it. On success *ROOT is the result of STOP and *NEXT the offset
 * after STOP. FACTS may be NULL; it is filled in as far as the pickle was read, even on failure. Offsets of
 * nodes are relative to SRC, those of errors to the file that SRC is in. Equal constants (None, bools, ints,
 * short texts, empty tuples) and globals may share one node, with the offset of the first. */
ckpt_status pickle_read(arena *a, source *src, uint64_t pos, uint64_t end, struct pickle_facts *facts,
                        ckpt_value **root, uint64_t *next, ckpt_error *err);
/* pickle_read_joblib - reads all of SRC as joblib.load does: the arrays that joblib.dump puts between the
 * opcodes become numpy arrays in the graph. *NEXT is as for pickle_read. */
ckpt_status pickle_read_joblib(arena *a, source *src, struct pickle_facts *facts, ckpt_value **root,
                               uint64_t *next, ckpt_error *err);
