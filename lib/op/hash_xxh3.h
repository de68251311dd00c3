/* hash_xxh3.h - XXH3-128 of a stream of bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XXH3_BYTES 16

void *xxh3_new(void); /* NULL: out of memory */
void xxh3_update(void *state, const void *bytes, size_t nbytes);
void xxh3_final(const void *state, uint8_t out[XXH3_BYTES]); /* canonical: big-endian */
void xxh3_free(void *state);

/* The builds of xxhash.h; xxh3_update uses the fastest for the CPU. AVX-512 was not faster than AVX2. */
enum xxh3_kernel { XXH3_BASELINE, XXH3_AVX2 };

/* xxh3_update_with - updates by KERNEL as xxh3_update does; false: the CPU does not support KERNEL. */
bool xxh3_update_with(enum xxh3_kernel kernel, void *state, const void *bytes, size_t nbytes);
/* xxh3_update_avx2 - updates by AVX2. The caller checks that the CPU has it. */
void xxh3_update_avx2(void *state, const void *bytes, size_t nbytes);
