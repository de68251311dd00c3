/* utf8.h - decodes UTF-8 strictly, or with the surrogates that Python's pickle allows. */
#pragma once

#include "base/str.h"

#define UTF8_BAD UINT32_MAX

/* utf8_next - returns the code point at TEXT[*POS]; moves *POS after it. Malformed, overlong or > U+10FFFF:
 * UTF8_BAD, and *POS moves by one byte. Surrogates (U+D800..DFFF) are UTF8_BAD unless SURROGATES. */
uint32_t utf8_next(ckpt_str text, size_t *pos, bool surrogates);
/* utf8_check - returns true if all of TEXT is UTF-8; *COUNT (may be NULL) gets the number of code points. */
bool utf8_check(ckpt_str text, bool surrogates, uint64_t *count);
/* utf8_complete_length - returns the length of TEXT, NBYTES bytes of a longer text, without a last character
 * that may be incomplete: NBYTES, or at most four less. */
size_t utf8_complete_length(const char *text, size_t nbytes);
/* utf8_put - writes CP as UTF-8 (surrogates too) to OUT; returns 1..4. */
size_t utf8_put(uint32_t cp, char out[4]);
/* utf8_latin1 - decodes TEXT, all of whose code points must be <= U+00FF, to bytes in OUT (TEXT.len bytes are
 * enough). Returns the number of bytes, or SIZE_MAX. */
size_t utf8_latin1(ckpt_str text, unsigned char *out);
/* utf8_unsafe - returns true if showing CP could affect a terminal or hide text (C0, C1, DEL, bidi,
 * zero-width, line and paragraph separators). */
bool utf8_unsafe(uint32_t cp);
/* utf8_find_control - returns true if TEXT has a control character (C0, C1, DEL) or one that changes the
 * direction or lines of text, and sets *CP to the first. Bytes that are not UTF-8 are none. */
bool utf8_find_control(ckpt_str text, uint32_t *cp);
