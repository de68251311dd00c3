/* literal.h - reads Python literals, such as the headers of .npy files, as nodes of the value graph. */
#ifndef CODEC_LITERAL_H
#define CODEC_LITERAL_H

#include "core/value.h"

#define LITERAL_MAX_DEPTH 64u

/* literal_read - sets *OUT to TEXT, which is UTF-8 and comes from OFFSET of a file, as nodes of A: dicts,
 * lists, tuples, texts, integers, True, False and None. CKPT_EFORMAT: TEXT is anything else, even if Python
 * could evaluate it. */
ckpt_status literal_read(arena *a, ckpt_str text, uint64_t offset, ckpt_value **out, ckpt_error *err);

#endif
