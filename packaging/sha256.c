/* sha256.c - the functions of OpenSSL's libcrypto that lib/op/digest.c calls, on its code for SHA-256 alone. With the
 * whole library, whose tables are relocated at the start, the static program would take twice as long to start. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>

struct evp_md_st {
    char unused;
};
struct evp_md_ctx_st {
    SHA256_CTX state;
};

const EVP_MD *EVP_sha256(void)
{
    static const EVP_MD sha256;
    return &sha256;
}

EVP_MD_CTX *EVP_MD_CTX_new(void) { return calloc(1, sizeof(EVP_MD_CTX)); }
void EVP_MD_CTX_free(EVP_MD_CTX *ctx) { free(ctx); }

int EVP_DigestInit_ex(EVP_MD_CTX *ctx, const EVP_MD *type, ENGINE *engine)
{
    (void)engine;
    return type == EVP_sha256() && SHA256_Init(&ctx->state);
}

int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *bytes, size_t count)
{
    return SHA256_Update(&ctx->state, bytes, count);
}

int EVP_DigestFinal_ex(EVP_MD_CTX *ctx, unsigned char *digest, unsigned int *size)
{
    if (size)
        *size = SHA256_DIGEST_LENGTH;
    return SHA256_Final(digest, &ctx->state);
}
