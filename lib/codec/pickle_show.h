/* pickle_show.h - values of a trace as nodes, read from the pickle again for a report; limited in
 * number, depth and length. */
#ifndef CODEC_PICKLE_SHOW_H
#define CODEC_PICKLE_SHOW_H

#include "core/trace.h"

/* show_text - the text of the constant REF of SRC, at most CAP bytes. CKPT_EFORMAT: not a text. ERR is
 * set if it cannot be read. */
ckpt_status show_text(source *src, trace_ref ref, char *out, size_t cap, size_t *n, ckpt_error *err);
/* show_value - REF as at most NODES nodes in A; containers may be shortened or empty, a long text is cut
 * after 1000 bytes. NULL: out of memory, or SRC cannot be read; ERR is set. */
ckpt_value *show_value(source *src, trace_ref ref, arena *a, size_t nodes, ckpt_error *err);

#endif
