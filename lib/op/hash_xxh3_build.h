/* hash_xxh3_build.h - compiles xxhash.h, which no other file includes, at -O3: several times as fast as
 * Debian's shared library. The including file selects the instruction set first. */
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#if defined(__clang__) /* a hash is modulo 2^64 */
#pragma clang attribute push(__attribute__((no_sanitize("unsigned-integer-overflow"))), apply_to = function)
#endif
#include <xxhash.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif
