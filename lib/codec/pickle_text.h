/* pickle_text.h - parses the arguments that protocol 0 writes as lines of text. */
#ifndef CODEC_PICKLE_TEXT_H
#define CODEC_PICKLE_TEXT_H

#include "base/str.h"

#define PICKLE_TEXT_BAD SIZE_MAX

/* pickle_text_int - an integer as Python's int(line, 0) reads it. False: not one, or it does not fit. */
bool pickle_text_int(ckpt_str line, int64_t *out);
/* pickle_text_bigint - an integer of any size, as little-endian two's complement in OUT, which has room
 * for line.len / 2 + 16 bytes. Returns the number of bytes, trimmed, or PICKLE_TEXT_BAD: not an integer,
 * or more digits than Python accepts. */
size_t pickle_text_bigint(ckpt_str line, unsigned char *out);
/* integer_trim - the number of bytes, at least 1, that the little-endian two's complement integer in the
 * N > 0 bytes at AT needs. */
size_t integer_trim(const unsigned char *at, size_t n);
/* integer_small - the value of such an integer of N <= 8 bytes. */
int64_t integer_small(const unsigned char *at, size_t n);
/* pickle_text_float - a number as Python's float(line) reads it, in any locale. */
bool pickle_text_float(ckpt_str line, double *out);
/* pickle_text_string - the bytes that a Python 2 repr ('…' or "…" with escapes) encodes, in OUT (may be
 * NULL). Returns their number or PICKLE_TEXT_BAD. */
size_t pickle_text_string(ckpt_str line, char *out);
/* pickle_text_unicode - the same for the raw-unicode-escape codec, as UTF-8 (each surrogate by itself). */
size_t pickle_text_unicode(ckpt_str line, char *out);

#endif
