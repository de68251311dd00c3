/* verify.h - `ckpt verify`: checks the data of a file against its checksums and a manifest. */
#pragma once

#include "core/check.h"

/* verify_data - checks the data of F (NULL: it was not opened) and the records that CHECK lists. */
ckpt_status verify_data(struct check *check, ckpt_file *f, ckpt_error *err);

/* The text of a manifest. */
struct manifest_text {
    char *ptr; /* freed by the caller */
    size_t len;
    ckpt_algorithm algorithm; /* of its digests */
};

/* manifest_check - compares the tensors of F with the manifest TEXT. DIGESTS: CKPT_DIGEST_MAX bytes a row. */
ckpt_status manifest_check(struct check *check, ckpt_file *f, const uint8_t *digests,
                           const struct manifest_text *text, ckpt_error *err);
/* manifest_write - writes a manifest of F to check->opts->write_manifest. */
ckpt_status manifest_write(struct check *check, ckpt_file *f, const uint8_t *digests, ckpt_error *err);
/* manifest_load - reads the manifest at PATH, once: it may be a pipe. */
ckpt_status manifest_load(const char *path, struct manifest_text *out, ckpt_error *err);
