/* digest.h - a digest of bytes on their way. */
#ifndef OP_DIGEST_H
#define OP_DIGEST_H

#include "base/error.h"

struct hash {
    struct evp_md_ctx_st *sha;
    void *xxh;
    bool bad;
};

ckpt_status hash_begin(struct hash *h, ckpt_algorithm alg, ckpt_error *err);
void hash_put(struct hash *h, const void *bytes, size_t n);
/* hash_end - the digest into OUT if ST is good; frees H either way. */
ckpt_status hash_end(struct hash *h, ckpt_status st, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);

#endif
