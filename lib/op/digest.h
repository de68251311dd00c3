/* digest.h - a digest of bytes on their way. */
#ifndef OP_DIGEST_H
#define OP_DIGEST_H

#include "base/error.h"
#include "core/table.h"
#include "io/source.h"

struct hash {
    struct evp_md_ctx_st *sha;
    void *xxh;
    bool bad;
};

ckpt_status hash_begin(struct hash *h, ckpt_algorithm alg, ckpt_error *err);
void hash_put(struct hash *h, const void *bytes, size_t n);
/* hash_end - the digest into OUT if ST is good; frees H either way. */
ckpt_status hash_end(struct hash *h, ckpt_status st, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* digest_source - the SHA-256 of all bytes of SRC. */
ckpt_status digest_source(source *src, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* digest_aliases - gives rows of T that show what an earlier one shows the digest of that, in DIGESTS of
 * CKPT_DIGEST_MAX bytes each. */
void digest_aliases(const struct table *t, uint8_t *digests);

#endif
