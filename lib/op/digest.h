/* digest.h - computes digests of bytes that are passed piece by piece. */
#pragma once

#include "base/error.h"
#include "core/table.h"
#include "io/source.h"

#define SHA256_BYTES 32

/* The state of one digest. */
struct hash {
    const struct libcrypto *lib; /* for SHA-256, else NULL */
    struct evp_md_ctx_st *sha;   /* likewise */
    void *xxh;                   /* for XXH3-128, else NULL */
    bool failed;                 /* OpenSSL returned an error */
};

/* hash_begin - begins a digest. The caller calls hash_end. */
ckpt_status hash_begin(struct hash *hash, ckpt_algorithm alg, ckpt_error *err);
void hash_put(struct hash *hash, const void *bytes, size_t nbytes);
/* hash_u64, hash_text - put a number as eight bytes, little-endian; a text after its length. */
void hash_u64(struct hash *hash, uint64_t number);
void hash_text(struct hash *hash, ckpt_str text);
/* hash_end - writes the digest to OUT if ST is CKPT_OK; frees HASH in any case. Returns ST or an error. */
ckpt_status hash_end(struct hash *hash, ckpt_status st, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* digest_xxh3 - sets OUT to the XXH3-128 of NBYTES bytes. */
ckpt_status digest_xxh3(const void *bytes, size_t nbytes, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* digest_source - sets OUT to the SHA-256 of all bytes of SRC. */
ckpt_status digest_source(source *src, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err);
/* digest_aliases - copies the digest of a row to all rows of TABLE that are aliases of it. DIGESTS: by row,
 * CKPT_DIGEST_MAX bytes each. */
void digest_aliases(const struct table *table, uint8_t *digests);
