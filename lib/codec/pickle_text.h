/* pickle_text.h - parses the arguments that protocol 0 writes as lines of text. */
#pragma once

#include "base/str.h"

#define PICKLE_TEXT_BAD SIZE_MAX

/* pickle_text_trim - returns TEXT without white space at its ends. */
ckpt_str pickle_text_trim(ckpt_str text);
/* pickle_text_int - parses an integer as Python's int(line, 0) does. False: not an integer, or too large. */
bool pickle_text_int(ckpt_str line, int64_t *out);
/* pickle_text_bigint - parses an integer of any size to little-endian two's complement in OUT, which must
 * have room for line.len / 2 + 16 bytes. Returns the number of bytes, trimmed, or PICKLE_TEXT_BAD: not an
 * integer, or more digits than Python accepts. */
size_t pickle_text_bigint(ckpt_str line, unsigned char *out);
/* integer_trimmed_size - returns how many of the NBYTES bytes at AT, a little-endian two's complement
 * integer, are needed; at least 1, unless NBYTES is 0. */
size_t integer_trimmed_size(const unsigned char *at, size_t nbytes);
/* integer_load - returns the value of the NBYTES <= 8 bytes at AT, a little-endian two's complement
 * integer. */
int64_t integer_load(const unsigned char *at, size_t nbytes);
/* pickle_text_is_float - returns true if Python's float(line) accepts LINE. */
bool pickle_text_is_float(ckpt_str line);
/* pickle_text_float - parses a number as Python's float(line) does, in any locale. False: it is none, or no
 * memory. */
bool pickle_text_float(ckpt_str line, double *out);
/* pickle_text_decode - decodes the line of STRING, a Python 2 repr ('…' or "…" with escapes), to the
 * bytes that it encodes, or if UNICODE, a line of the raw-unicode-escape codec to UTF-8 (each surrogate by
 * itself). Writes the bytes to OUT, unless it is NULL; returns their number, or PICKLE_TEXT_BAD. */
size_t pickle_text_decode(ckpt_str line, bool unicode, char *out);
