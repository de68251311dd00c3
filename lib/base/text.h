/* text.h - escapes text from files so that it is safe to show, and quotes words for shell commands. */
#pragma once

#include "base/str.h"

enum text_style {
    TEXT_NAME,    /* as ckpt_text_escape: backslashes are doubled, so that no two names look the same */
    TEXT_MESSAGE, /* backslashes stay: some of the text may be escaped already */
    TEXT_QUOTED,  /* inside '…': backslash and quote escaped, \n \r \t by letter */
    TEXT_BYTES    /* inside b'…': like TEXT_QUOTED, but all bytes except printable ASCII as \xNN */
};

#define TEXT_CHAR_MAX 12 /* no character takes more bytes when it is escaped */

/* text_escape_char - writes the character at TEXT[*POS], escaped, to OUT and moves *POS after it. Returns how
 * many bytes were written. */
size_t text_escape_char(ckpt_str text, size_t *pos, enum text_style style, char out[TEXT_CHAR_MAX]);
/* An output buffer that counts all bytes put into it, but keeps only as many pieces as fit. */
struct text_sink {
    char *out;
    size_t cap;
    size_t len;   /* bytes put */
    size_t shown; /* bytes in OUT */
};

/* text_put - appends NBYTES bytes, all of them or none. */
static inline void text_put(struct text_sink *to, const char *piece, size_t nbytes)
{
    /* A piece that does not fit still counts, so no later piece is kept either. */
    if (nbytes < to->cap && to->len < to->cap - nbytes) {
        memcpy(to->out + to->len, piece, nbytes);
        to->shown += nbytes;
    }
    to->len += nbytes;
}

/* text_put_literal - appends TEXT, a text of this program, which needs no escapes. */
static inline void text_put_literal(struct text_sink *to, const char *text)
{
    text_put(to, text, strlen(text));
}
void text_put_uint(struct text_sink *to, uint64_t number);
void text_put_int(struct text_sink *to, int64_t number);
void text_put_escaped(struct text_sink *to, ckpt_str text, enum text_style style);
/* text_json - appends TEXT as a JSON string, see ckpt_text_json. Returns false if bytes of TEXT are not
 * UTF-8. */
bool text_json(struct text_sink *to, ckpt_str text);
/* text_end - terminates the text in SINK; returns the number of bytes put. */
size_t text_end(struct text_sink *to);

/* The name of item INDEX of a list, such as a row of a table. */
struct indexed_name {
    ckpt_str name;
    uint32_t index;
};

/* names_sort - sorts the COUNT names of LIST with COMPARE, equal names by their indices. False: no memory. */
bool names_sort(struct indexed_name *list, size_t count, int (*compare)(ckpt_str a, ckpt_str b));

/* text_fit - writes TEXT as TEXT_MESSAGE to OUT; text that does not fit is cut between characters and ends in
 * "…". Terminated when CAP > 0. */
void text_fit(ckpt_str text, char *out, size_t cap);

#define TEXT_BYTES_MAX  16
#define TEXT_BYTES_SIZE (4 * TEXT_BYTES_MAX + 3)

/* text_describe_bytes - writes the NBYTES bytes at DATA, at most TEXT_BYTES_MAX of them, to OUT: as text in
 * quotes if all of them can be shown, else in hex. Returns OUT. */
const char *text_describe_bytes(const void *data, size_t nbytes, char out[TEXT_BYTES_SIZE]);

/* text_find_path_fault - returns what is wrong with PATH, the name of a member of an archive, that may harm
 * who unpacks it; NULL: nothing. */
const char *text_find_path_fault(ckpt_str path);

#define SHELL_WORD_MAX 160

/* text_decode_base64 - decodes the digits in TEXT to BYTES, which has room for as many bytes as TEXT, and
 * sets *COUNT to their number. URL_SAFE: "-" and "_" are digits, too. Skips other characters, and returns
 * false if any of them is not "=" or the end of a line: TEXT is not base64, though Python's b64decode takes
 * it. */
bool text_decode_base64(ckpt_str text, bool url_safe, unsigned char *bytes, size_t *count);
/* shell_word - returns TEXT as one word of a command in a hint, quoted if a shell needs it. Returns FALLBACK,
 * a word such as "NAME", if TEXT has a character of FORBIDDEN, must be escaped to be shown, or is too
 * long. */
const char *shell_word(ckpt_str text, const char *forbidden, const char *fallback, char out[SHELL_WORD_MAX]);
/* shell_path - returns PATH as shell_word does, or "FILE". Adds "./" if PATH looks like an option. */
const char *shell_path(const char *path, char out[SHELL_WORD_MAX]);
/* shell_glob - returns NAME, the name of a tensor, as shell_word does, for an option that takes globs.
 * Returns "NAME" if the name has wildcards. */
const char *shell_glob(ckpt_str name, char out[SHELL_WORD_MAX]);
