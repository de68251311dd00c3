/* hash_xxh3.c - XXH3-128 of a stream. The state is the same for every build of xxhash.h, so only the function
 * that processes the bytes is chosen by CPU. */
#include "op/hash_xxh3.h"

#include "op/hash_xxh3_build.h"

void *xxh3_new(void)
{
    XXH3_state_t *x = XXH3_createState();
    if (x)
        (void)XXH3_128bits_reset(x);
    return x;
}

static void update_baseline(void *x, const void *bytes, size_t n) { (void)XXH3_128bits_update(x, bytes, n); }

#ifdef __x86_64__
static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
static bool has_avx2(void) { return false; }
void xxh3_update_avx2(void *x, const void *bytes, size_t n) { update_baseline(x, bytes, n); }
#endif

bool xxh3_update_with(enum xxh3_kernel k, void *x, const void *bytes, size_t n)
{
    if (k == XXH3_AVX2 && has_avx2())
        xxh3_update_avx2(x, bytes, n);
    else if (k == XXH3_BASELINE)
        update_baseline(x, bytes, n);
    else
        return false;
    return true;
}

void xxh3_update(void *x, const void *bytes, size_t n)
{
    (void)xxh3_update_with(has_avx2() ? XXH3_AVX2 : XXH3_BASELINE, x, bytes, n);
}

void xxh3_final(const void *x, uint8_t out[XXH3_BYTES])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(x));
    for (size_t i = 0; i < XXH3_BYTES; i++)
        out[i] = c.digest[i];
}

void xxh3_free(void *x) { (void)XXH3_freeState(x); }
