/* print.h - prints text for people in characters that the locale has: where its charset is not UTF-8, in
 * ASCII. Every text for people is printed by these functions or by those of out.h, which call them. */
#pragma once

#include <stdio.h>

#include "text.h"

struct print {
    bool ascii;        /* the charset of the locale is not UTF-8 */
    bool for_programs; /* stdout is JSON, TSV or the like, which is the same in every locale */
};
extern struct print print;

/* print_init - sets print.ascii by LC_ALL, LC_CTYPE or LANG, the first of them that is set and not empty.
 * Does not call setlocale(), which reads files, and would change how numbers are printed. */
void print_init(void);
/* print_has_ascii_names - returns true if names that are added to a text must be ASCII. */
static inline bool print_has_ascii_names(void) { return print.ascii && !print.for_programs; }

/* Which characters text_make_ascii() replaces by similar ones of ascii.def. It escapes the others as
 * \u{..}, and bytes that are not UTF-8 as \xNN. */
enum glyphs {
    GLYPHS_NONE,    /* of names: no two names look the same */
    GLYPHS_LIBRARY, /* "…" of texts of the library, which contain names */
    GLYPHS_ALL      /* of texts of this program; names in them were escaped before */
};
/* text_make_ascii - replaces what is not ASCII in TEXT, from offset FROM on, if print.ascii is set. */
void text_make_ascii(struct text *text, size_t from, enum glyphs glyphs);

/* put_text, put_bytes, print_text - print a text, NBYTES bytes, or what printf() would, to stdout or
 * stderr. */
void put_text(FILE *stream, const char *text);
void put_bytes(FILE *stream, const char *text, size_t nbytes);
void print_text(FILE *stream, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* put_line - prints TEXT and a newline to stdout. */
void put_line(const char *text);
