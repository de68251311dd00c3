/* hash_xxh3_build.h - compiles xxhash.h, which no other file includes, at -O3: several times as fast as
 * Debian's shared library. The including file selects the instruction set first. */
#ifndef OP_HASH_XXH3_BUILD_H
#define OP_HASH_XXH3_BUILD_H

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
