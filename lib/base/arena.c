/* arena.c - chunks that only grow. Small things share a chunk, larger ones get
 * one of their own so that no chunk is left half empty for them. A file with
 * more than a thousand tensors gets chunks of 2 MiB, each one huge page, where
 * all but what is larger still goes: faulting 4 KiB pages in was two fifths of
 * the time that listing 20,000 tensors took. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"

#define FIRST_CHUNK ((size_t)8 << 10)
#define PAGE        ((size_t)64 << 10) /* a multiple of any that is in use */
#define LAST_SMALL  ((size_t)128 << 10)
#define LAST_CHUNK  ((size_t)512 << 10)
#define HUGE        ((size_t)2 << 20)  /* page, and size of the chunk after LAST_CHUNK */
#define LAST_HUGE   ((size_t)16 << 20) /* chunks double up to it: only what is used is memory */

struct chunk {
    struct chunk *next;
    size_t size, used;
    size_t mapped; /* bytes; 0: calloc'ed */
    alignas(max_align_t) unsigned char data[];
};

struct arena {
    struct chunk *head; /* the one that is being filled, then full ones */
    struct chunk *own;  /* chunks that hold one large thing each */
    uint64_t used, max;
    size_t next_size;
    bool full;        /* the ceiling refused something */
    uint64_t fail_in; /* allocations until the injected failure; 0: none */
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

static void chunks_free(struct chunk *c)
{
    for (struct chunk *next; c; c = next) {
        next = c->next;
        if (c->mapped)
            munmap(c, c->mapped);
        else
            free(c);
    }
}

void arena_free(arena *a)
{
    if (!a)
        return;
    chunks_free(a->head);
    chunks_free(a->own);
    free(a);
}

static void chunks_trim(struct chunk *c)
{
    for (; c; c = c->next) {
        size_t kept = (sizeof *c + c->used + PAGE - 1) & ~(PAGE - 1); /* bounded: below SIZE + PAGE */
        if (kept >= c->mapped)
            continue;
        (void)madvise(c, c->mapped, MADV_NOHUGEPAGE); /* or the kernel fills it again */
        (void)madvise((unsigned char *)c + kept, c->mapped - kept, MADV_DONTNEED); /* then it is 0 */
    }
}

void arena_trim(arena *a)
{
    chunks_trim(a->head);
    chunks_trim(a->own);
}

void arena_raise(arena *a, uint64_t max_bytes)
{
    if (a->max < max_bytes)
        a->max = max_bytes;
}

void arena_expect(arena *a, uint64_t count, size_t size)
{
    const size_t huge = HUGE - sizeof(struct chunk);
    uint64_t total;
    if (a->next_size < huge && (!checked_mul(count, size, &total) || total > huge / 4 * 3))
        a->next_size = huge;
}

void arena_fail_at(arena *a, uint64_t n) { a->fail_in = n; }

/* chunk_map - BYTES from a multiple of HUGE on. */
static struct chunk *chunk_map(size_t bytes)
{
    uint64_t more;
    if (!checked_add(bytes, HUGE + HUGE, &more) || more > SIZE_MAX)
        return NULL;
    size_t part = bytes % HUGE > HUGE / 2 ? HUGE : PAGE; /* most of a huge page is taken whole */
    size_t kept = (bytes + part - 1) & ~(part - 1), all = kept + HUGE; /* bounded: at most MORE */
    unsigned char *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t before = (size_t) - (uintptr_t)at & (HUGE - 1);
    if (before)
        munmap(at, before);
    munmap(at + before + kept, all - before - kept); /* before < HUGE: never empty */
    (void)madvise(at + before, kept, MADV_HUGEPAGE); /* a wish */
    struct chunk *c = (struct chunk *)(void *)(at + before);
    c->mapped = kept;
    return c;
}

static struct chunk *chunk_new(size_t size)
{
    uint64_t total;
    size_t bytes;
    if (!checked_add(size, sizeof(struct chunk), &total) || !checked_size(total, &bytes))
        return NULL;
    struct chunk *c = bytes <= HUGE / 2 ? calloc(1, bytes) : chunk_map(bytes);
    if (c)
        c->size = size;
    return c;
}

/* chunk_resize - C with BYTES in all, header included: smaller where it is, larger mostly where it
 * is or with its pages moved; NULL: C is as it was. An emulator's mremap moves whatever it may. */
static struct chunk *chunk_resize(struct chunk *c, size_t bytes)
{
    if (!c->mapped)
        return realloc(c, bytes);
    struct chunk *moved = mremap(c, c->mapped, bytes, bytes < c->mapped ? 0 : MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        return NULL;
    moved->mapped = bytes;
    return moved;
}

/* A chunk with room for N bytes: their own, or shared and then in front of the
 * others if it has more left than they. Many bytes that may GROW are alone, so
 * that they can be moved whole. */
static struct chunk *chunk_for(arena *a, size_t n, bool grow)
{
    const size_t header = sizeof(struct chunk), huge = HUGE - header;
    bool many = n > LAST_SMALL;
    bool own = many ? grow || n > huge || a->next_size < huge : n > a->next_size / 4;
    struct chunk *c = chunk_new(own ? n : a->next_size);
    if (!c)
        return NULL;
    struct chunk **list = own ? &a->own : &a->head;
    if (*list && (*list)->size - (*list)->used > c->size - n)
        list = &(*list)->next;
    c->next = *list;
    *list = c;
    if (!own && a->next_size < huge)
        a->next_size = a->next_size >= LAST_CHUNK ? huge : 2 * a->next_size;
    else if (!own && a->next_size + header < LAST_HUGE)
        a->next_size = 2 * (a->next_size + header) - header; /* bounded: below LAST_HUGE */
    return c;
}

static void *refuse(arena *a)
{
    a->full = true;
    return NULL;
}

/* cut - the next N bytes of C behind PAD, which it has. */
static void *cut(arena *a, struct chunk *c, size_t pad, size_t n)
{
    uint64_t left = a->max - a->used;
    if (n > left || pad > left - n)
        return refuse(a);
    unsigned char *at = c->data + c->used + pad;
    c->used += pad + n;
    a->used += pad + n;
    return at;
}

static void *take_new(arena *a, size_t n, bool grow)
{
    if (n > a->max - a->used)
        return refuse(a);
    struct chunk *c = chunk_for(a, n, grow);
    return c ? cut(a, c, 0, n) : NULL;
}

/* N bytes, which may GROW, at a multiple of ALIGN, a power of two. */
static void *take(arena *a, size_t n, size_t align, bool grow)
{
    struct chunk *c = a->head;
    n = n ? n : 1;
    if (a->fail_in && --a->fail_in == 0)
        return NULL;
    if (!c || (grow && n > LAST_SMALL))
        return take_new(a, n, grow);
    size_t pad = (size_t)-c->used & (align - 1), left = c->size - c->used;
    if (pad > left || n > left - pad)
        return take_new(a, n, grow);
    return cut(a, c, pad, n);
}

void *arena_alloc(arena *a, size_t n) { return take(a, n, alignof(max_align_t), false); }

static void *array(arena *a, uint64_t count, size_t size, bool grow)
{
    uint64_t total;
    size_t bytes;
    if (!checked_mul(count, size, &total) || !checked_size(total, &bytes))
        return NULL;
    /* What an element must be aligned to divides its size. */
    size_t align = size & (size_t)-size;
    return take(a, bytes, align && align < alignof(max_align_t) ? align : alignof(max_align_t), grow);
}

void *arena_array(arena *a, uint64_t count, size_t size) { return array(a, count, size, false); }

/* regrow - AT, if it has a chunk of its own, with room for BYTES where it stands
 * or elsewhere, so that a large array leaves no copies behind. NULL: it has
 * none, or out of memory; AT is as it was then. */
static void *regrow(arena *a, const void *at, size_t bytes)
{
    uint64_t total;
    struct chunk **link = &a->own;
    while (*link && (*link)->data != at)
        link = &(*link)->next;
    size_t had = *link ? (*link)->size : 0;
    if (!*link || a->fail_in || bytes < had || bytes - had > a->max - a->used ||
        !checked_add(bytes, sizeof(struct chunk), &total))
        return NULL;
    struct chunk *c = chunk_resize(*link, (size_t)total);
    if (!c)
        return NULL;
    *link = c;
    a->used += bytes - had;
    c->size = c->used = bytes;
    return c->data;
}

void *arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size)
{
    if (old && want <= *cap)
        return old;
    size_t more = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;
    more = more < want ? want : more;
    more = more < 4 ? 4 : more;
    uint64_t bytes;
    void *at = old && checked_mul(more, size, &bytes) && bytes <= SIZE_MAX ? regrow(a, old, (size_t)bytes)
                                                                           : NULL;
    if (at) {
        *cap = more;
        return at;
    }
    at = array(a, more, size, true);
    if (!at && more > want) /* doubling may pass the ceiling where the need does not */
        at = array(a, more = want, size, true);
    if (!at)
        return NULL;
    if (old && used)
        memcpy(at, old, used * size);
    *cap = more;
    return at;
}

void arena_shrink(arena *a, void *at, size_t n)
{
    struct chunk **link = &a->own;
    while (*link && (*link)->data != at)
        link = &(*link)->next;
    struct chunk *c = *link && (*link)->mapped && n < (*link)->size ? *link : NULL;
    size_t had = c ? c->size : 0;
    if (!c || !(c = chunk_resize(c, sizeof *c + n))) /* bounded: less than it had. It stays where it is */
        return;
    *link = c;
    c->size = c->used = n;
    a->used -= had - n;
}

ckpt_str arena_str(arena *a, ckpt_str s)
{
    char *at = s.len < SIZE_MAX ? take(a, s.len + 1, 1, false) : NULL;
    if (at && s.len)
        memcpy(at, s.ptr, s.len);
    return at ? str_of(at, s.len) : str_of(NULL, 0);
}

ckpt_str arena_printf(arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *at = n < 0 ? NULL : take(a, (size_t)n + 1, 1, false);
    if (at)
        vsnprintf(at, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return at ? str_of(at, (size_t)n) : str_of(NULL, 0);
}

uint64_t arena_used(const arena *a) { return a->used; }

bool arena_full(const arena *a) { return a->full; }
