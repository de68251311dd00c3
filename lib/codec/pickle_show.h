/* pickle_show.h - values of a trace as nodes, read from the pickle again when a
 * report wants them: bounded in number, depth and length. */
#ifndef CODEC_PICKLE_SHOW_H
#define CODEC_PICKLE_SHOW_H

#include "core/trace.h"

/* show_text - the text that the constant REF of SRC is, as far as CAP goes; CKPT_EFORMAT: it is no
 * text. ERR is set where it cannot be read. */
ckpt_status show_text(source *src, trace_ref ref, char *out, size_t cap, size_t *n, ckpt_error *err);
/* show_value - REF as at most NODES nodes of A; what is left out is an empty or
 * shortened container, a long text is cut behind 1000 bytes. NULL: no memory, or SRC cannot be
 * read; ERR is set. */
ckpt_value *show_value(source *src, trace_ref ref, arena *a, size_t nodes, ckpt_error *err);

#endif
