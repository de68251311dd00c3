/* hash_xxh3.c - the only file that includes xxhash.h. Built into it, because the
 * header compiled at -O3 is several times faster than Debian's shared library. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "op/hash_xxh3.h"

void *xxh3_new(void)
{
    XXH3_state_t *x = XXH3_createState();
    if (x)
        (void)XXH3_128bits_reset(x);
    return x;
}

void xxh3_update(void *x, const void *bytes, size_t n) { (void)XXH3_128bits_update(x, bytes, n); }

void xxh3_final(const void *x, uint8_t out[XXH3_BYTES])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(x));
    for (size_t i = 0; i < XXH3_BYTES; i++)
        out[i] = c.digest[i];
}

void xxh3_free(void *x) { (void)XXH3_freeState(x); }
