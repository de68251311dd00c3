/* literal.h - reads Python literals, as they stand in the headers of numpy's files, as values. */
#ifndef CODEC_LITERAL_H
#define CODEC_LITERAL_H

#include "core/value.h"

#define LITERAL_MAX_DEPTH 64u

/* literal_read - TEXT, which is UTF-8 and stands at OFFSET of a file, as nodes of A: dicts, lists, tuples,
 * texts, integers, True, False and None. CKPT_EFORMAT for everything else that Python can evaluate. */
ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err);

#endif
