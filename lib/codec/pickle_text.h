/* pickle_text.h - the arguments that protocol 0 writes as lines of text. */
#ifndef CODEC_PICKLE_TEXT_H
#define CODEC_PICKLE_TEXT_H

#include "base/str.h"

#define TEXT_BAD SIZE_MAX

/* text_int - an integer as int(line, 0) of Python reads it, if it fits. */
bool text_int(ckpt_str line, int64_t *out);
/* text_bigint - the same of any size: little-endian two's complement into OUT,
 * which has room for line.len / 2 + 16 bytes. Returns how many of them count
 * (as integer_trim) or TEXT_BAD: no integer, or no memory. */
size_t text_bigint(ckpt_str line, unsigned char *out);
/* integer_trim - bytes of little-endian two's complement needed for the number
 * that AT holds in N: at least 1 for N > 0. */
size_t integer_trim(const unsigned char *at, size_t n);
/* integer_small - the number in N <= 8 such bytes. */
int64_t integer_small(const unsigned char *at, size_t n);
/* text_float - a number as float(line) of Python reads it, whatever the locale. */
bool text_float(ckpt_str line, double *out);
/* text_string - the bytes that a Python 2 repr ('…' or "…" with escapes) means.
 * OUT may be NULL. Returns how many there are or TEXT_BAD. */
size_t text_string(ckpt_str line, char *out);
/* text_unicode - the same for the raw-unicode-escape codec, as UTF-8 (surrogates
 * each by themselves). */
size_t text_unicode(ckpt_str line, char *out);

#endif
