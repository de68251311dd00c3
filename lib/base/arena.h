/* arena.h - all parsed data of one file: allocated one by one, freed at once,
 * never beyond a ceiling. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/str.h"

typedef struct arena arena;

/* arena_new - an empty arena that refuses to hand out more than MAX_BYTES in
 * total. NULL when out of memory. */
arena *arena_new(uint64_t max_bytes);
void arena_free(arena *a);
/* arena_trim - gives back the memory behind what was handed out so far. More may
 * be asked for afterwards. */
void arena_trim(arena *a);
/* arena_raise - lifts the ceiling to at least MAX_BYTES. */
void arena_raise(arena *a, uint64_t max_bytes);
/* arena_expect - about COUNT times SIZE bytes will be handed out. */
void arena_expect(arena *a, uint64_t count, size_t size);
/* arena_alloc - N zeroed bytes aligned for any type (N 0 gives a valid
 * pointer); NULL when out of memory or the ceiling is reached. */
void *arena_alloc(arena *a, size_t n);
/* arena_array - COUNT zeroed elements of SIZE bytes, overflow-checked. */
void *arena_array(arena *a, uint64_t count, size_t size);
/* arena_grow - an array of USED elements of SIZE bytes at OLD with room for
 * *CAP gets room for at least WANT (doubling). It moves, and pointers into it
 * are void; what lies beyond USED is not zeroed. Returns OLD when it is large
 * enough; NULL when out of memory. *CAP is updated. */
void *arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size);
/* arena_shrink - of what is at AT only the first N bytes are wanted any more; the
 * memory of many others is given back. */
void arena_shrink(arena *a, void *at, size_t n);
/* arena_str - a NUL-terminated copy; .ptr is NULL when out of memory. */
ckpt_str arena_str(arena *a, ckpt_str s);
/* arena_printf - formatted, NUL-terminated; .ptr NULL when out of memory. */
ckpt_str arena_printf(arena *a, const char *fmt, ...) CKPT_PRINTF(2, 3);
uint64_t arena_used(const arena *a);
/* arena_full - was something refused because of the ceiling, not for want of memory? */
bool arena_full(const arena *a);
/* arena_fail_at - for tests: the N-th allocation from now (1: the next) fails
 * as if memory had run out, those after it succeed. 0: none. */
void arena_fail_at(arena *a, uint64_t n);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))

#endif
