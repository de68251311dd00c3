/* pickle_show.h - reads values of a trace from the pickle again, to show them in a report. Limited in
 * number, depth and length. */
#pragma once

#include "core/trace.h"

/* pickle_copy_text - copies the text of the constant REF of SRC to OUT, at most CAP bytes, and sets *COUNT to
 * their number. CKPT_EFORMAT: REF is not a text; then ERR is not set. */
ckpt_status pickle_copy_text(source *src, trace_ref ref, char *out, size_t cap, size_t *count,
                             ckpt_error *err);
/* pickle_build_value - returns REF as about NODES nodes in A. Containers may be shortened or empty; a long
 * text is cut after 1005 bytes. NULL: out of memory, or SRC cannot be read; ERR is set. */
ckpt_value *pickle_build_value(source *src, trace_ref ref, arena *a, size_t nodes, ckpt_error *err);
