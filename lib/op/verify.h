/* verify.h - the data of a file, held against its checksums and a manifest. */
#ifndef OP_VERIFY_H
#define OP_VERIFY_H

#include "core/check.h"

/* verify_data - reads what F (NULL: nothing could be opened) and the records of C hold;
 * what is wrong goes to C. */
ckpt_status verify_data(struct check *c, ckpt_file *f, ckpt_error *err);

/* A list as it was read. */
struct manifest_text {
    char *ptr; /* to free */
    size_t len;
    ckpt_algorithm algorithm; /* of its digests */
};

/* manifest_check - the tensors of F, whose digests are given by row, against the list
 * TEXT, which was read from c->opts->manifest. */
ckpt_status manifest_check(struct check *c, ckpt_file *f, const uint8_t *digests,
                           const struct manifest_text *text, ckpt_error *err);
/* manifest_write - such a list at c->opts->write_manifest. */
ckpt_status manifest_write(struct check *c, ckpt_file *f, const uint8_t *digests, ckpt_error *err);
/* manifest_load - reads the list at PATH, once: it may be a pipe. */
ckpt_status manifest_load(const char *path, struct manifest_text *out, ckpt_error *err);

#endif
