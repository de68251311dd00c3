/* hash_xxh3.h - XXH3-128 of a stream of bytes. */
#ifndef OP_HASH_XXH3_H
#define OP_HASH_XXH3_H

#include <stddef.h>
#include <stdint.h>

#define XXH3_BYTES 16

void *xxh3_new(void); /* NULL: no memory */
void xxh3_update(void *x, const void *bytes, size_t n);
void xxh3_final(const void *x, uint8_t out[XXH3_BYTES]); /* canonical: big-endian */
void xxh3_free(void *x);

#endif
