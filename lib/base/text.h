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
/* text_fit - S as TEXT_MESSAGE into OUT; what does not fit is cut between
 * characters and the cut shown as "…". Terminated when CAP > 0. */
void text_fit(ckpt_str s, char *out, size_t cap);

#endif
