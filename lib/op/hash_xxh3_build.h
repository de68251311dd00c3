/* hash_xxh3_build.h - the only file that includes xxhash.h. The header is compiled at -O3 into each file that
 * includes this one, which is several times as fast as Debian's shared library. The including file selects
 * the instruction set before it includes this one. */
#ifndef OP_HASH_XXH3_BUILD_H
#define OP_HASH_XXH3_BUILD_H

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
