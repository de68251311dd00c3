/* arena.c - allocates from chunks, whose size doubles from 8 to 512 KiB, then from 2 to 16 MiB. Small
 * allocations share a chunk; a larger one gets one of its own, so that no chunk is left half empty for it.
 * For a file with more than a thousand tensors the first chunk is a huge page, and only allocations larger
 * than that page get a chunk of their own. Without huge pages, page faults took two fifths of the time of
 * listing 20,000 tensors. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"

#define FIRST_CHUNK     ((size_t)8 << 10)
#define PAGE            ((size_t)64 << 10)  /* a multiple of every page size in use */
#define MAX_SMALL       ((size_t)128 << 10) /* an allocation above this is large: see add_chunk_for() */
#define MAX_SMALL_CHUNK ((size_t)512 << 10)
#define HUGE            ((size_t)2 << 20)  /* a huge page; the next size of chunks above MAX_SMALL_CHUNK */
#define MAX_CHUNK       ((size_t)16 << 20) /* chunks double up to this; untouched pages cost no memory */

/* What an allocation is for. */
enum use {
    TEXT,  /* all its bytes are written next */
    VALUE, /* zeroed */
    ARRAY  /* zeroed, and may grow: if large, it gets a chunk of its own, whose pages can be moved */
};

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used;
    size_t mapped; /* size of the mapping, whose pages the kernel zeroes; 0: the chunk is from malloc */
    alignas(max_align_t) unsigned char data[];
};

struct arena {
    struct arena_chunk *shared;    /* the chunk being filled, then full ones */
    struct arena_chunk *dedicated; /* chunks with one large allocation each */
    uint64_t used, max;
    size_t next_size;
    bool full;               /* an allocation was refused because of the ceiling */
    uint64_t fail_countdown; /* allocations until the injected failure; 0: none */
};

arena *arena_new(uint64_t max_bytes)
{
    arena *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->max = max_bytes;
    a->next_size = FIRST_CHUNK;
    return a;
}

static void free_chunks(struct arena_chunk *chunk)
{
    for (struct arena_chunk *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk->mapped)
            munmap(chunk, chunk->mapped);
        else
            free(chunk);
    }
}

void arena_free(arena *a)
{
    if (!a)
        return;
    free_chunks(a->shared);
    free_chunks(a->dedicated);
    free(a);
}

static void trim_chunks(struct arena_chunk *chunk)
{
    for (; chunk; chunk = chunk->next) {
        size_t in_use = (sizeof *chunk + chunk->used + PAGE - 1) & ~(PAGE - 1);
        if (in_use >= chunk->mapped)
            continue;
        (void)madvise(chunk, chunk->mapped,
                      MADV_NOHUGEPAGE); /* or the kernel would make a huge page of it again */
        (void)madvise((unsigned char *)chunk + in_use, chunk->mapped - in_use,
                      MADV_DONTNEED); /* reads as 0 then */
    }
}

void arena_trim(arena *a)
{
    trim_chunks(a->shared);
    trim_chunks(a->dedicated);
}

static void append_chunks(struct arena_chunk **list, struct arena_chunk *more)
{
    while (*list)
        list = &(*list)->next;
    *list = more;
}

void arena_adopt(arena *a, arena *from)
{
    append_chunks(&a->dedicated, from->shared); /* not filled further */
    append_chunks(&a->dedicated, from->dedicated);
    a->used += from->used;
    a->max = a->max > a->used ? a->max : a->used;
    free(from);
}

void arena_raise_max(arena *a, uint64_t max_bytes)
{
    if (a->max < max_bytes)
        a->max = max_bytes;
}

void arena_expect(arena *a, uint64_t count, size_t size)
{
    const size_t huge = HUGE - sizeof(struct arena_chunk);
    uint64_t total;
    if (a->next_size < huge && (!checked_mul(count, size, &total) || total > huge / 4 * 3))
        a->next_size = huge;
}

/* get_gap - returns the number of bytes from AT to the next multiple of UNIT, a power of two. */
static size_t get_gap(size_t at, size_t unit) { return (unit - (at & (unit - 1))) & (unit - 1); }

void arena_fail_at(arena *a, uint64_t count) { a->fail_countdown = count; }

/* map_chunk - maps at least BYTES, starting at a multiple of HUGE. */
static struct arena_chunk *map_chunk(size_t bytes)
{
    uint64_t longest;
    if (!checked_add(bytes, HUGE + HUGE, &longest) || longest > SIZE_MAX)
        return NULL;
    /* the last page is huge only if most of it is used */
    size_t unit = bytes % HUGE > HUGE / 2 ? HUGE : PAGE;
    size_t size = (bytes + unit - 1) & ~(unit - 1), map_size = size + HUGE;
    unsigned char *at = mmap(NULL, map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t before = get_gap((uintptr_t)at, HUGE);
    if (before)
        munmap(at, before);
    munmap(at + before + size, map_size - before - size); /* never empty: BEFORE is less than HUGE */
    (void)madvise(at + before, size, MADV_HUGEPAGE);      /* a hint: failure is harmless */
    struct arena_chunk *c = (struct arena_chunk *)(void *)(at + before);
    c->mapped = size;
    return c;
}

static struct arena_chunk *new_chunk(size_t size)
{
    uint64_t total;
    size_t bytes;
    if (!checked_add(size, sizeof(struct arena_chunk), &total) || !checked_size(total, &bytes))
        return NULL;
    bool is_mapped = bytes > HUGE / 2;
    struct arena_chunk *c = is_mapped ? map_chunk(bytes) : malloc(bytes);
    if (c)
        *c = (struct arena_chunk){.size = size, .mapped = is_mapped ? c->mapped : 0};
    return c;
}

/* resize_chunk - returns CHUNK with BYTES in total, its header included; NULL: CHUNK is unchanged. A mapped
 * chunk shrinks in place; to grow, it may move. (Shrinking does not pass MREMAP_MAYMOVE, because some
 * emulators would then move the pages.) */
static struct arena_chunk *resize_chunk(struct arena_chunk *chunk, size_t bytes)
{
    if (!chunk->mapped)
        return realloc(chunk, bytes);
    struct arena_chunk *moved = mremap(chunk, chunk->mapped, bytes,
                                       bytes < chunk->mapped ? 0 : MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        return NULL;
    moved->mapped = bytes;
    return moved;
}

/* add_chunk_for - returns a new chunk with room for COUNT bytes, dedicated or shared. It becomes the first of
 * its list; or the second, if the present first one has more room than COUNT bytes leave in the new one. */
static struct arena_chunk *add_chunk_for(arena *a, size_t count, enum use use)
{
    const size_t header = sizeof(struct arena_chunk), huge = HUGE - header;
    bool fits_huge_page = count <= huge && a->next_size >= huge;
    bool dedicated = count > MAX_SMALL ? use == ARRAY || !fits_huge_page : count > a->next_size / 4;
    struct arena_chunk *c = new_chunk(dedicated ? count : a->next_size);
    if (!c)
        return NULL;
    struct arena_chunk **link = dedicated ? &a->dedicated : &a->shared;
    if (*link && (*link)->size - (*link)->used > c->size - count)
        link = &(*link)->next;
    c->next = *link;
    *link = c;
    if (!dedicated && a->next_size < huge)
        a->next_size = a->next_size >= MAX_SMALL_CHUNK ? huge : 2 * a->next_size;
    else if (!dedicated && a->next_size + header < MAX_CHUNK)
        a->next_size = 2 * (a->next_size + header) - header;
    return c;
}

static void *refuse_allocation(arena *a)
{
    a->full = true;
    return NULL;
}

/* take_bytes - returns the next COUNT bytes of CHUNK after PAD bytes of padding; CHUNK has room for both. */
static inline void *take_bytes(arena *a, struct arena_chunk *chunk, size_t pad, size_t count, enum use use)
{
    if (pad + count > a->max - a->used) /* both are in CHUNK: the sum does not wrap */
        return refuse_allocation(a);
    unsigned char *at = chunk->data + chunk->used + pad;
    chunk->used += pad + count;
    a->used += pad + count;
    return use == TEXT || chunk->mapped ? at : memset(at, 0, count);
}

static void *alloc_in_new_chunk(arena *a, size_t count, enum use use)
{
    if (count > a->max - a->used)
        return refuse_allocation(a);
    struct arena_chunk *c = add_chunk_for(a, count, use);
    return c ? take_bytes(a, c, 0, count, use) : NULL;
}

/* alloc_aligned - returns COUNT bytes at a multiple of ALIGN, a power of two. */
static void *alloc_aligned(arena *a, size_t count, size_t align, enum use use)
{
    struct arena_chunk *c = a->shared;
    count = count ? count : 1;
    if (a->fail_countdown && --a->fail_countdown == 0)
        return NULL;
    if (!c || (use == ARRAY && count > MAX_SMALL))
        return alloc_in_new_chunk(a, count, use);
    size_t pad = get_gap(c->used, align), left = c->size - c->used;
    if (pad > left || count > left - pad)
        return alloc_in_new_chunk(a, count, use);
    return take_bytes(a, c, pad, count, use);
}

void *arena_alloc(arena *a, size_t count) { return alloc_aligned(a, count, alignof(max_align_t), VALUE); }

void *arena_alloc_words(arena *a, size_t count) { return alloc_aligned(a, count, 8, VALUE); }

char *arena_alloc_text(arena *a, size_t count) { return alloc_aligned(a, count, 1, TEXT); }

static void *alloc_array(arena *a, uint64_t count, size_t size, enum use use)
{
    uint64_t total;
    size_t bytes;
    if (!checked_mul(count, size, &total) || !checked_size(total, &bytes))
        return NULL;
    /* The alignment of an element divides its size. */
    size_t align = size ? size & ~(size - 1) : alignof(max_align_t);
    return alloc_aligned(a, bytes, align < alignof(max_align_t) ? align : alignof(max_align_t), use);
}

void *arena_array(arena *a, uint64_t count, size_t size) { return alloc_array(a, count, size, VALUE); }

/* grow_dedicated - enlarges the allocation AT to BYTES if it has a dedicated chunk. Its pages may move, but
 * no copy is left in the arena. NULL: AT is in a shared chunk, memory is short, or BYTES would exceed the
 * ceiling; AT is unchanged. */
static void *grow_dedicated(arena *a, const void *at, size_t bytes)
{
    uint64_t total;
    struct arena_chunk **link = &a->dedicated;
    while (*link && (*link)->data != at)
        link = &(*link)->next;
    size_t old_size = *link ? (*link)->size : 0;
    bool allowed = bytes >= old_size && bytes - old_size <= a->max - a->used;
    if (!*link || a->fail_countdown || !allowed || !checked_add(bytes, sizeof(struct arena_chunk), &total))
        return NULL;
    struct arena_chunk *c = resize_chunk(*link, (size_t)total);
    if (!c)
        return NULL;
    *link = c;
    a->used += bytes - old_size;
    c->size = c->used = bytes;
    return c->data;
}

void *arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size)
{
    if (old && want <= *cap)
        return old;
    size_t new_cap = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;
    new_cap = new_cap < want ? want : new_cap;
    new_cap = new_cap < 4 ? 4 : new_cap;
    uint64_t bytes;
    void *at = old && checked_mul(new_cap, size, &bytes) && bytes <= SIZE_MAX
                   ? grow_dedicated(a, old, (size_t)bytes)
                   : NULL;
    if (at) {
        *cap = new_cap;
        return at;
    }
    at = alloc_array(a, new_cap, size, ARRAY);
    if (!at && new_cap > want) /* doubling may exceed the ceiling although WANT does not */
        at = alloc_array(a, new_cap = want, size, ARRAY);
    if (!at)
        return NULL;
    if (old && used)
        memcpy(at, old, used * size);
    *cap = new_cap;
    return at;
}

/* grow_heap - grows a full array from malloc as arena_grow does. */
static void *grow_heap(void *old, size_t *cap, size_t size)
{
    size_t new_cap = *cap ? *cap * 2 : 64;
    void *at = new_cap <= SIZE_MAX / size ? realloc(old, new_cap * size) : NULL;
    *cap = at ? new_cap : *cap;
    return at;
}

void *arena_append(arena *a, void *array, size_t *count, size_t *cap, size_t size)
{
    char *at;
    memcpy(&at, array, sizeof at);
    if (!at || *count == *cap) {
        at = a ? arena_grow(a, at, *count, cap, *count + 1, size) : grow_heap(at, cap, size);
        if (!at)
            return NULL;
        memcpy(array, &at, sizeof at);
    }
    return at + (*count)++ * size;
}

/* resize_apart - returns an array of OLD bytes with NEW instead. One of PAGE or more is a mapping, which may
 * move without being copied; untouched pages cost no memory. NULL: out of memory. */
static void *resize_apart(void *array, size_t old, size_t new)
{
    if (new < PAGE)
        return realloc(array, new);
    void *at = old < PAGE ? mmap(NULL, new, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                          : mremap(array, old, new, MREMAP_MAYMOVE);
    if (at == MAP_FAILED)
        return NULL;
    if (old && old < PAGE) {
        memcpy(at, array, old);
        free(array);
    }
    return at;
}

bool arena_grow_apart(arena *a, void *array, size_t *cap, size_t size)
{
    void *at;
    size_t more = !*cap ? 64 : *cap * size < PAGE ? 3 * *cap : *cap;
    memcpy(&at, array, sizeof at);
    if (a->fail_countdown && --a->fail_countdown == 0)
        return false;
    if (more > (a->max - a->used) / size) /* no less, or a higher ceiling could leave less for others */
        return refuse_allocation(a) != NULL;
    if (more > SIZE_MAX / size - *cap || !(at = resize_apart(at, *cap * size, (*cap + more) * size)))
        return false;
    memcpy(array, &at, sizeof at);
    *cap += more;
    a->used += more * size;
    return true;
}

void arena_free_apart(arena *a, void *array, size_t cap, size_t size)
{
    if (cap * size < PAGE)
        free(array);
    else
        munmap(array, cap * size);
    a->used -= cap * size;
}

void arena_discard_apart(void *array, size_t bytes, size_t capacity)
{
    if (capacity >= PAGE && bytes >= PAGE)
        (void)madvise(array, bytes & ~(PAGE - 1), MADV_DONTNEED);
}

bool arena_push(arena *a, void *array, size_t *count, size_t *cap, const void *element, size_t size)
{
    void *at = arena_append(a, array, count, cap, size);
    if (at)
        memcpy(at, element, size);
    return at != NULL;
}

void arena_shrink(arena *a, void *at, size_t nbytes)
{
    struct arena_chunk **link = &a->dedicated;
    while (*link && (*link)->data != at)
        link = &(*link)->next;
    struct arena_chunk *c = *link && (*link)->mapped && nbytes < (*link)->size ? *link : NULL;
    size_t old_size = c ? c->size : 0;
    if (!c || !(c = resize_chunk(c, sizeof *c + nbytes))) /* less than before. The chunk stays in place */
        return;
    *link = c;
    c->size = c->used = nbytes;
    a->used -= old_size - nbytes;
}

ckpt_str arena_str(arena *a, ckpt_str text)
{
    char *at = text.len < SIZE_MAX ? arena_alloc_text(a, text.len + 1) : NULL;
    if (!at)
        return str_of(NULL, 0);
    if (text.len)
        memcpy(at, text.ptr, text.len);
    at[text.len] = '\0';
    return str_of(at, text.len);
}

ckpt_str arena_join(arena *a, const ckpt_str *parts, size_t count)
{
    uint64_t total = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        total = size_add(total, parts[i].len);
    char *at = total < SIZE_MAX ? arena_alloc_text(a, (size_t)total + 1) : NULL;
    for (size_t i = 0; at && i < count; i++) {
        if (parts[i].len)
            memcpy(at + used, parts[i].ptr, parts[i].len);
        used += parts[i].len;
    }
    if (!at)
        return str_of(NULL, 0);
    at[used] = '\0';
    return str_of(at, used);
}

ckpt_str arena_printf(arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *at = n < 0 ? NULL : arena_alloc_text(a, (size_t)n + 1);
    if (at)
        vsnprintf(at, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return at ? str_of(at, (size_t)n) : str_of(NULL, 0);
}

uint64_t arena_used(const arena *a) { return a->used; }

bool arena_full(const arena *a) { return a->full; }
