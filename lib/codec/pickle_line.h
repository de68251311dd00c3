/* pickle_line.h - decodes a line of text in a protocol 0 pickle, one byte after the other: UNICODE by the
 * raw-unicode-escape codec, STRING as Python 2's repr() wrote it. pickle_text.h decodes a line in memory. */
#pragma once

#include "core/trace.h"
#include "io/spool.h"

struct pickle_line {
    bool unicode;         /* true: the line follows UNICODE; false: STRING */
    unsigned char state;  /* position within an escape; 0: not in an escape */
    unsigned char digits; /* digits not read yet; an octal escape may end before them */
    uint32_t value;       /* value of the digits read so far */
};

/* pickle_line_escape - does what pickle_line_next does, if CHARACTER is a backslash or the line is in an
 * escape. */
int pickle_line_escape(struct pickle_line *line, unsigned char character, uint32_t out[2]);
/* pickle_line_next - decodes the next byte CHARACTER of the line: sets OUT to up to two code points, which
 * are bytes if the line is of STRING, and returns their number; -1: malformed. */
static inline int pickle_line_next(struct pickle_line *line, unsigned char character, uint32_t out[2])
{
    out[0] = character;
    return line->state == 0 && character != '\\' ? 1 : pickle_line_escape(line, character, out);
}
/* pickle_line_end - ends the line: decodes an escape that the line ends in, as pickle_line_next does. */
int pickle_line_end(struct pickle_line *line, uint32_t out[2]);
/* pickle_line_spool - sets *OUT to a source of the bytes that the line PAYLOAD of SRC encodes, those of
 * UNICODE in latin1; to NULL if the line is malformed or has a character above U+00FF. */
ckpt_status pickle_line_spool(const struct trace_payload *payload, source *src, source **out,
                              ckpt_error *err);
