/* utf8.h - reading UTF-8 strictly, and as Python's pickle writes it. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/str.h"

#define UTF8_BAD UINT32_MAX

/* utf8_next - the code point at S[*POS], *POS moved behind it. Malformed,
 * overlong, > U+10FFFF: UTF8_BAD and *POS moves by one byte. Surrogates
 * (U+D800..DFFF) are UTF8_BAD unless SURROGATES. */
uint32_t utf8_next(ckpt_str s, size_t *pos, bool surrogates);
/* utf8_check - is all of S UTF-8? *COUNT (may be NULL) gets the code points. */
bool utf8_check(ckpt_str s, bool surrogates, uint64_t *count);
/* utf8_whole - how many of the N bytes of text at S, which goes on after them, come before a last
 * character that may be cut: at most three less. */
size_t utf8_whole(const char *s, size_t n);
/* utf8_put - CP as UTF-8 (surrogates as they are) into OUT; returns 1..4. */
size_t utf8_put(uint32_t cp, char out[4]);
/* utf8_latin1 - decodes S, all of whose code points must be <= U+00FF, into
 * bytes at OUT (S.len bytes suffice). Returns the count or SIZE_MAX. */
size_t utf8_latin1(ckpt_str s, unsigned char *out);
/* utf8_unsafe - may showing CP act on a terminal (C0, C1, DEL, bidi,
 * zero-width, line and paragraph separators)? */
bool utf8_unsafe(uint32_t cp);

#endif
