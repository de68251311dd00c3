/* hash_xxh3.h - XXH3-128 of a stream of bytes. */
#ifndef OP_HASH_XXH3_H
#define OP_HASH_XXH3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XXH3_BYTES 16

void *xxh3_new(void); /* NULL: no memory */
void xxh3_update(void *x, const void *bytes, size_t n);
void xxh3_final(const void *x, uint8_t out[XXH3_BYTES]); /* canonical: big-endian */
void xxh3_free(void *x);

/* What it may be computed by: the best that this CPU has (AVX-512 was no faster than
 * AVX2 when measured). */
enum xxh3_kernel { XXH3_PLAIN, XXH3_AVX2 };

/* xxh3_update_with - xxh3_update by kernel K; false where this CPU lacks it. */
bool xxh3_update_with(enum xxh3_kernel k, void *x, const void *bytes, size_t n);
/* xxh3_update_avx2 - only where the CPU has it: xxh3_update asks. */
void xxh3_update_avx2(void *x, const void *bytes, size_t n);

#endif
