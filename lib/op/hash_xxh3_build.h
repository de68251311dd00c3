/* hash_xxh3_build.h - the only file that includes xxhash.h. Compiled into those that
 * include this, because the header at -O3 is several times as fast as Debian's shared
 * library; each has told the compiler before for which instructions. */
#ifndef OP_HASH_XXH3_BUILD_H
#define OP_HASH_XXH3_BUILD_H

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
