/* pickle_line.h - the bytes that a line of text in a pickle of protocol 0 stands for, one by one: UNICODE by
 * the raw-unicode-escape codec and latin1, STRING as repr() of Python 2 wrote it. pickle_text.h has the text
 * itself. */
#ifndef CODEC_PICKLE_LINE_H
#define CODEC_PICKLE_LINE_H

#include "core/trace.h"
#include "io/spool.h"

struct pickle_line {
    bool unicode;         /* of UNICODE */
    unsigned char state;  /* where in an escape it is */
    unsigned char digits; /* that are still to come */
    uint32_t value;       /* of those that came */
};

/* pickle_line_bytes - what the byte C of the line adds: up to two bytes into OUT, how many; -1: it stands
 * for no bytes. */
int pickle_line_bytes(struct pickle_line *l, unsigned char c, unsigned char out[2]);
/* pickle_line_spool - all that the line V of SRC stands for; *OUT is NULL where that is no bytes. */
ckpt_status pickle_line_spool(const struct trace_payload *v, source *src, source **out, ckpt_error *err);

#endif
