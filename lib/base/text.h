/* text.h - text made safe to show, in the styles that the library writes. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/str.h"

enum text_style {
    TEXT_NAME,    /* as ckpt_text_escape: backslash doubled, so nothing is ambiguous */
    TEXT_MESSAGE, /* backslash stays: the text may hold parts that are escaped already */
    TEXT_QUOTED,  /* inside '…': backslash and quote escaped, \n \r \t by letter */
    TEXT_BYTES    /* inside b'…': like TEXT_QUOTED, every byte beyond ASCII as \xNN */
};

#define TEXT_UNIT 12 /* no character takes more when it is escaped */

/* text_unit - the character at S[*POS] as it is shown, into OUT; *POS moves
 * behind it. Returns 1..TEXT_UNIT. */
size_t text_unit(ckpt_str s, size_t *pos, enum text_style style, char out[TEXT_UNIT]);
/* A result that counts its whole length and shows as much as fits, cut between
 * pieces. */
struct text_sink {
    char *out;
    size_t cap;
    size_t len;   /* of everything put */
    size_t shown; /* of what is in OUT */
};

/* text_put - N bytes, all of them or none. */
void text_put(struct text_sink *sink, const char *piece, size_t n);
/* text_word - safe text of our own. */
void text_word(struct text_sink *sink, const char *z);
/* text_escaped - S character by character. */
void text_escaped(struct text_sink *sink, ckpt_str s, enum text_style style);
/* text_end - terminates; the length of everything put. */
size_t text_end(struct text_sink *sink);

/* text_fit - S as TEXT_MESSAGE into OUT; what does not fit is cut between
 * characters and the cut shown as "…". Terminated when CAP > 0. */
void text_fit(ckpt_str s, char *out, size_t cap);

#define BYTES_MOST  16
#define BYTES_SHOWN (4 * BYTES_MOST + 3)

/* text_bytes_found - the N bytes at P, of which the first BYTES_MOST count, as people read them: as text in
 * quotes where all of them can be shown, else in hex. Returns OUT. */
const char *text_bytes_found(const void *p, size_t n, char out[BYTES_SHOWN]);

#define SHELL_MOST 160

/* shell_word - S as one word of a command that a hint proposes, quoted where a shell needs it. One
 * that holds a character of UNLESS, that would have to be escaped to be shown, or that is too long
 * must not be copied: then OTHERWISE stands there. */
const char *shell_word(ckpt_str s, const char *unless, const char *otherwise, char out[SHELL_MOST]);
/* shell_path - the same of a file, which is never an option: FILE otherwise. */
const char *shell_path(const char *path, char out[SHELL_MOST]);
/* shell_glob - the same of a tensor where patterns are taken: NAME otherwise. */
const char *shell_glob(ckpt_str name, char out[SHELL_MOST]);

#endif
