/* verify.h - the data of a file, held against its checksums and a manifest. */
#ifndef OP_VERIFY_H
#define OP_VERIFY_H

#include "core/check.h"

/* verify_data - reads what F (NULL: nothing could be opened) and the records of C hold;
 * what is wrong goes to C. */
ckpt_status verify_data(struct check *c, ckpt_file *f, ckpt_error *err);

/* manifest_check - the tensors of F, whose digests are given by row, against the list at
 * c->opts->manifest. */
ckpt_status manifest_check(struct check *c, ckpt_file *f, const uint8_t *digests, ckpt_error *err);
/* manifest_write - such a list at c->opts->write_manifest. */
ckpt_status manifest_write(struct check *c, ckpt_file *f, const uint8_t *digests, ckpt_error *err);
/* manifest_algorithm - what the digests of the list at PATH are. */
ckpt_status manifest_algorithm(const char *path, ckpt_algorithm *out, ckpt_error *err);

#endif
