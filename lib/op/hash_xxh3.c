/* hash_xxh3.c - XXH3-128 of a stream. The state is the same for every build of xxhash.h, so only the function
 * that processes the bytes is chosen by CPU. */
#include "op/hash_xxh3.h"

#include "op/hash_xxh3_build.h"

void *xxh3_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state)
        (void)XXH3_128bits_reset(state);
    return state;
}

static void update_baseline(void *state, const void *bytes, size_t nbytes)
{
    (void)XXH3_128bits_update(state, bytes, nbytes);
}

#ifdef __x86_64__
static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
static bool has_avx2(void) { return false; }
void xxh3_update_avx2(void *state, const void *bytes, size_t nbytes)
{
    update_baseline(state, bytes, nbytes);
}
#endif

bool xxh3_update_with(enum xxh3_kernel kernel, void *state, const void *bytes, size_t nbytes)
{
    if (kernel == XXH3_AVX2 && has_avx2())
        xxh3_update_avx2(state, bytes, nbytes);
    else if (kernel == XXH3_BASELINE)
        update_baseline(state, bytes, nbytes);
    else
        return false;
    return true;
}

void xxh3_update(void *state, const void *bytes, size_t nbytes)
{
    (void)xxh3_update_with(has_avx2() ? XXH3_AVX2 : XXH3_BASELINE, state, bytes, nbytes);
}

void xxh3_final(const void *state, uint8_t out[XXH3_BYTES])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
    for (size_t i = 0; i < XXH3_BYTES; i++)
        out[i] = c.digest[i];
}

void xxh3_free(void *state) { (void)XXH3_freeState(state); }
