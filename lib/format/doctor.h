/* doctor.h - for `ckpt doctor`: what stands in the way of reading a file at all. */
#ifndef FORMAT_DOCTOR_H
#define FORMAT_DOCTOR_H

#include "core/doctor.h"

/* doctor_foreign - SRC (NULL: it cannot be opened) is no checkpoint, as E says. */
ckpt_status doctor_foreign(struct doctor *d, source *src, const ckpt_error *e, ckpt_error *err);
/* doctor_truncated - SRC was cut off; F: what can still be opened of it, or NULL. */
ckpt_status doctor_truncated(struct doctor *d, source *src, const ckpt_file *f, ckpt_error *err);
/* doctor_big_header - is SRC safetensors with a longer header than the format allows? */
bool doctor_big_header(source *src, uint64_t *length);
/* doctor_name - PATH is called like another format than that of F. */
ckpt_status doctor_name(struct doctor *d, const char *path, const ckpt_file *f, ckpt_error *err);

#endif
