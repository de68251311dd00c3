/* hash_xxh3_avx2.c - XXH3 for CPUs with AVX2, twice as fast; hash_xxh3.c checks the CPU. */
#include "op/hash_xxh3.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_VECTOR XXH_AVX2
#include "op/hash_xxh3_build.h"

void xxh3_update_avx2(void *state, const void *bytes, size_t nbytes)
{
    (void)XXH3_128bits_update(state, bytes, nbytes);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
