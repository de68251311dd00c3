/* pickle_line.h - decodes a line of text in a protocol 0 pickle to bytes, one by one: UNICODE by the
 * raw-unicode-escape codec and latin1, STRING as Python 2's repr() wrote it. pickle_text.h decodes it to
 * text. */
#ifndef CODEC_PICKLE_LINE_H
#define CODEC_PICKLE_LINE_H

#include "core/trace.h"
#include "io/spool.h"

struct pickle_line {
    bool unicode;         /* the line of a UNICODE opcode, else of STRING */
    unsigned char state;  /* position within an escape */
    unsigned char digits; /* digits still missing */
    uint32_t value;       /* of the digits read so far */
};

/* pickle_line_bytes - decodes the next byte C of the line: writes up to two bytes to OUT and returns
 * their number; -1: not latin1, or malformed. */
int pickle_line_bytes(struct pickle_line *l, unsigned char c, unsigned char out[2]);
/* pickle_line_spool - sets *OUT to a source of the bytes that the line V of SRC encodes; NULL: it encodes
 * none. */
ckpt_status pickle_line_spool(const struct trace_payload *v, source *src, source **out, ckpt_error *err);

#endif
