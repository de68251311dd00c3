/* scan_digest.c - SHA-256 of what is scanned, and of the lists of names that it was held against: two reports
 * with the same sum of the lists went by the same names. */
#include <stdlib.h>

#include "core/scan.h"
#include "op/digest.h"
#include "op/scan.h"
#include "op/weights_only.h"

#define CHUNK 65536u

ckpt_status scan_sha256(source *src, uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    struct hash h;
    unsigned char *chunk = malloc(CHUNK);
    ckpt_status st = chunk ? hash_begin(&h, CKPT_SHA256, err) : fail_memory(err);
    if (st != CKPT_OK) {
        free(chunk);
        return st;
    }
    for (uint64_t at = 0, n; st == CKPT_OK && at < src->size; at += n) { /* bounded: n is left, at most */
        n = src->size - at < CHUNK ? src->size - at : CHUNK;
        st = source_read(src, at, chunk, (size_t)n, err);
        if (st == CKPT_OK)
            hash_put(&h, chunk, (size_t)n);
    }
    free(chunk);
    return hash_end(&h, st, out, err);
}

/* scan_lists_sha256 - of the harmless names, one a line: torch's, then ours as "MODULE.NAME". */
ckpt_status scan_lists_sha256(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    static const char *const ours[] = {
#define HARMLESS(module, name) module "." name "\n",
#define EXEC(module, name)
#include "op/scan_names.def"
#undef EXEC
#undef HARMLESS
    };
    struct hash h;
    const char *name;
    ckpt_status st = hash_begin(&h, CKPT_SHA256, err);
    for (size_t i = 0; st == CKPT_OK && (name = weights_only_name(i)); i++) {
        hash_put(&h, name, strlen(name));
        hash_put(&h, "\n", 1);
    }
    for (size_t i = 0; st == CKPT_OK && i < sizeof ours / sizeof *ours; i++)
        hash_put(&h, ours[i], strlen(ours[i]));
    return st == CKPT_OK ? hash_end(&h, st, out, err) : st;
}
