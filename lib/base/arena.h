/* arena.h - memory for all parsed data of one file: allocated in small amounts, freed all at once, never more
 * than a ceiling. */
#pragma once

#include "base/str.h"

typedef struct arena arena;

/* arena_new - returns an empty arena that allocates at most MAX_BYTES in total. NULL: out of memory. */
arena *arena_new(uint64_t max_bytes);
void arena_free(arena *a);
/* arena_trim - returns to the system the unused memory after the last allocation of each chunk. Later
 * allocations are still possible. */
void arena_trim(arena *a);
/* arena_adopt - moves all allocations of FROM into A and frees FROM; they may exceed A's ceiling. */
void arena_adopt(arena *a, arena *from);
/* arena_raise_max - raises the ceiling to at least MAX_BYTES. */
void arena_raise_max(arena *a, uint64_t max_bytes);
/* arena_expect - announces allocations of about COUNT times SIZE bytes, so that chunks are sized for them. */
void arena_expect(arena *a, uint64_t count, size_t size);
/* arena_alloc - returns COUNT zeroed bytes, aligned for any type (COUNT 0 gives a valid pointer). NULL: out
 * of memory, or above the ceiling. */
void *arena_alloc(arena *a, size_t count);
/* arena_alloc_words - as arena_alloc, but aligned for pointers and 64-bit numbers. */
void *arena_alloc_words(arena *a, size_t count);
/* arena_alloc_text - returns COUNT bytes, not zeroed, for a text or for what is read from a file. */
char *arena_alloc_text(arena *a, size_t count);
/* arena_array - returns COUNT zeroed elements of SIZE bytes; the product is checked for overflow. */
void *arena_array(arena *a, uint64_t count, size_t size);
/* arena_grow - makes room for at least WANT elements of SIZE bytes in the array OLD, which has room for *CAP
 * and holds USED. Returns OLD when it is large enough; otherwise the array moves (pointers into it become
 * invalid, elements after USED are not zeroed) and *CAP is updated. NULL: out of memory. */
void *arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size);
/* arena_append - adds an element of SIZE bytes to an array of *COUNT elements, which grows as by arena_grow;
 * ARRAY is the address of the pointer to it. If A is NULL, the caller frees the array by free(). Returns the
 * element, which *COUNT counts already; NULL: out of memory. */
void *arena_append(arena *a, void *array, size_t *count, size_t *cap, size_t size);
/* arena_push - appends the SIZE bytes at ELEMENT as arena_append does. False: out of memory. */
bool arena_push(arena *a, void *array, size_t *count, size_t *cap, const void *element, size_t size);
/* arena_grow_apart - makes room for more elements in an array that is not in A, but counts towards the
 * ceiling: it leaves no copies when it grows, and arena_free_apart frees it. ARRAY is the address of the
 * pointer to it, *CAP, 0 at first, the number of elements of SIZE bytes that there is room for. The array may
 * move; elements that were not set have any value. False: out of memory. */
bool arena_grow_apart(arena *a, void *array, size_t *cap, size_t size);
void arena_free_apart(arena *a, void *array, size_t cap, size_t size);
/* arena_discard_apart - returns to the system the memory of the first BYTES of such an array, which has
 * CAPACITY bytes; they are not read again. */
void arena_discard_apart(void *array, size_t bytes, size_t capacity);
/* arena_shrink - keeps only the first NBYTES bytes of the allocation AT; if AT is large, the memory after
 * them is returned to the system. */
void arena_shrink(arena *a, void *at, size_t nbytes);
/* arena_str - returns a NUL-terminated copy of TEXT. .ptr is NULL: out of memory. */
ckpt_str arena_str(arena *a, ckpt_str text);
/* arena_printf - returns formatted, NUL-terminated text. .ptr is NULL: out of memory. FMT has no "%.*s",
 * which would end at a NUL: ARENA_CONCAT keeps texts whole. */
ckpt_str arena_printf(arena *a, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* arena_join - returns the COUNT texts at PARTS one after the other, NUL-terminated, with all their bytes,
 * also NUL. A part whose .ptr is NULL is empty. .ptr of the result is NULL: out of memory. */
ckpt_str arena_join(arena *a, const ckpt_str *parts, size_t count);
/* ARENA_CONCAT - calls arena_join with the texts that follow A. */
#define ARENA_CONCAT(a, ...)                                                                                 \
    arena_join((a), (const ckpt_str[]){__VA_ARGS__},                                                         \
               sizeof((const ckpt_str[]){__VA_ARGS__}) / sizeof(ckpt_str))
uint64_t arena_used(const arena *a);
/* arena_full - returns true if an allocation was refused because of the ceiling. */
bool arena_full(const arena *a);
/* arena_fail_at - for tests: the N-th allocation from now (1: the next) fails as if out of memory, those
 * after it succeed. 0: none. */
void arena_fail_at(arena *a, uint64_t count);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
/* ARENA_PUSH - appends *ITEM to OWNER->LIST, an array of OWNER->nLIST elements with room for OWNER->cap_LIST,
 * as arena_push does. */
#define ARENA_PUSH(a, owner, list, item)                                                                     \
    arena_push(a, &(owner)->list, &(owner)->n##list, &(owner)->cap_##list, item, sizeof *(item))
