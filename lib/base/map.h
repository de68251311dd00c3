/* map.h - a hash table from texts, or from 64-bit numbers or pointers, to 32-bit numbers. Its hash has a
 * random seed, and its keys cannot be listed. */
#pragma once

#include "base/str.h"

#define MAP_NONE UINT32_MAX

typedef struct map map;

/* map_new - returns an empty map with room for about EXPECTED keys. NULL: out of memory. */
map *map_new(size_t expected);
/* map_new_index - returns a map of texts that does not store its keys and so takes a third of the memory:
 * TEXT_OF(USER, value) returns the key of any value that was put. */
map *map_new_index(size_t expected, ckpt_str (*text_of)(const void *user, uint32_t value), const void *user);
/* map_set_user - replaces the USER that is passed to TEXT_OF; INDEX may be NULL. */
void map_set_user(map *index, const void *user);
void map_free(map *index);
/* map_get - returns the number stored under KEY, or MAP_NONE. */
uint32_t map_get(const map *index, ckpt_str key);
/* map_put - stores VALUE under KEY unless the map has KEY; KEY's bytes must outlive the map. Sets *OLD (may
 * be NULL) to the value that KEY had, or to MAP_NONE. False: out of memory. */
bool map_put(map *index, ckpt_str key, uint32_t value, uint32_t *old);
/* map_get_num, map_put_num - do the same for numbers as keys; a map has either text or number keys. */
uint32_t map_get_num(const map *index, uint64_t key);
bool map_put_num(map *index, uint64_t key, uint32_t value, uint32_t *old);
/* map_set_num - stores VALUE under KEY, in place of any other. False: out of memory. */
bool map_set_num(map *index, uint64_t key, uint32_t value);
size_t map_count(const map *index);

static inline uint64_t ptr_key(const void *data) { return (uint64_t)(uintptr_t)data; }
