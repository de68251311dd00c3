/* map.h - hash index from text, or from a 64-bit number or pointer, to a
 * 32-bit number. Seeded per process; it has no iteration order on purpose. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/str.h"

#define MAP_NONE UINT32_MAX

typedef struct map map;

/* map_new - an empty map with room for about EXPECTED keys; NULL: no memory. */
map *map_new(size_t expected);
/* map_index - the same for texts that can be had by their numbers: it keeps none
 * of them itself, and so takes a third of the memory. TEXT_OF answers for every
 * number that was put. */
map *map_index(size_t expected, ckpt_str (*text_of)(const void *user, uint32_t value), const void *user);
/* map_index_of - from now on USER is asked; M may be NULL. */
void map_index_of(map *m, const void *user);
void map_free(map *m);
/* map_get - the number stored under KEY, or MAP_NONE. */
uint32_t map_get(const map *m, ckpt_str key);
/* map_put - stores VALUE under KEY unless KEY is there already. KEY's bytes
 * must outlive the map. Returns false when out of memory; *OLD (may be NULL)
 * is the value that was there, or MAP_NONE when the key is new. */
bool map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old);
/* map_get_num, map_put_num - the same for numbers; do not mix with text keys
 * in one map. map_set_num replaces. */
uint32_t map_get_num(const map *m, uint64_t key);
bool map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old);
bool map_set_num(map *m, uint64_t key, uint32_t value);
size_t map_count(const map *m);

static inline uint64_t map_ptr(const void *p) { return (uint64_t)(uintptr_t)p; }

#endif
