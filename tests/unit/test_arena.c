/* The memory of an arena is aligned, zeroed, and limited. */
#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "unit.h"

static void memory_is_zeroed_and_aligned(void)
{
    arena *a = arena_new(1u << 24);
    unsigned char *previous = NULL;
    for (size_t n = 0; n < 3000; n++) {
        unsigned char *p = arena_alloc(a, n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(p);
        CU_ASSERT_EQUAL((uintptr_t)p % alignof(max_align_t), 0);
        CU_ASSERT_PTR_NOT_EQUAL(p, previous);
        for (size_t i = 0; i < n; i++)
            if (p[i])
                CU_FAIL("the memory is not zeroed");
        memset(p, 0xff, n);
        previous = p;
        CU_ASSERT_PTR_NOT_NULL(arena_str(a, STR_LIT("x")).ptr); /* disturbs the alignment */
    }
    arena_free(a);
    arena_free(NULL);
}

static void memory_is_limited(void)
{
    arena *a = arena_new(1000);
    CU_ASSERT_PTR_NULL(arena_alloc(a, 1001));
    CU_ASSERT_PTR_NULL(arena_alloc(a, SIZE_MAX));
    CU_ASSERT_EQUAL(arena_used(a), 0);
    size_t n = 0;
    while (arena_alloc(a, 10))
        n++;
    CU_ASSERT(n >= 1000 / 16 && n <= 1000 / 10); /* for alignment, 10 bytes take up to 16 */
    CU_ASSERT(arena_used(a) <= 1000);
    arena_raise_max(a, 500); /* a lower limit is ignored */
    CU_ASSERT_PTR_NULL(arena_alloc(a, 100));
    arena_raise_max(a, 2000);
    CU_ASSERT_PTR_NOT_NULL(arena_alloc(a, 900));
    CU_ASSERT(arena_used(a) <= 2000);
    arena_free(a);
}

static void the_limit_is_exact(void)
{
    arena *a = arena_new(100000);
    CU_ASSERT_PTR_NOT_NULL(arena_alloc(a, 100000));
    CU_ASSERT_PTR_NULL(arena_alloc(a, 0));
    arena_free(a);
}

static void products_that_overflow_are_refused(void)
{
    arena *a = arena_new(UINT64_MAX);
    size_t cap = SIZE_MAX / 4;
    CU_ASSERT_PTR_NULL(arena_array(a, UINT64_MAX, 2));
    CU_ASSERT_PTR_NULL(arena_array(a, (uint64_t)1 << 61, 8));
    CU_ASSERT_PTR_NULL(arena_grow(a, NULL, 0, &cap, SIZE_MAX / 2, 16));
    CU_ASSERT_PTR_NOT_NULL(arena_array(a, 0, 8));
    arena_free(a);
}

static void arrays_grow(void)
{
    arena *a = arena_new(1u << 20);
    uint32_t *numbers = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        numbers = arena_grow(a, numbers, i, &cap, i + 1u, sizeof *numbers);
        CU_ASSERT_PTR_NOT_NULL_FATAL(numbers);
        CU_ASSERT_FATAL(cap > i);
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < 10000; i++)
        if (numbers[i] != i)
            CU_FAIL("an element has changed");
    CU_ASSERT(arena_used(a) < 4 * 10000 * sizeof *numbers);
    CU_ASSERT_PTR_EQUAL(arena_grow(a, numbers, 1, &cap, cap, sizeof *numbers), numbers);
    arena_free(a);
}

/* Chunks of more than 1 MiB are mapped, whether for a growing array or for many small allocations. */
static void large_chunks_are_mapped(void)
{
    enum { ELEMENTS = 3u << 20 };
    arena *a = arena_new(64u << 20);
    uint32_t *numbers = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        numbers = i < cap ? numbers : arena_grow(a, numbers, i, &cap, i + 1u, sizeof *numbers);
        CU_ASSERT_PTR_NOT_NULL_FATAL(numbers);
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < ELEMENTS; i++)
        if (numbers[i] != i)
            CU_FAIL("an element has changed");
    for (int i = 0; i < 5000; i++) {
        unsigned char *small = arena_alloc(a, 1000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(small);
        CU_ASSERT(small[0] == 0 && small[999] == 0);
        memset(small, 0xee, 1000);
    }
    CU_ASSERT_EQUAL(numbers[ELEMENTS - 1], ELEMENTS - 1u);
    arena_free(a);
}

/* arena_free() must not unmap pages next to its chunks, whatever their alignment. */
static void only_own_mappings_are_unmapped(void)
{
    enum {
        PAGE = 4096,
        MAPPED_SIZE = 4u << 20,
        ROUNDS = sizeof(void *) < 8 ? 120 : 600 /* fewer where addresses have 32 bits */
    };
    enum { STEP = 600 / ROUNDS * PAGE };
    unsigned char *mapped[ROUNDS]; /* each is STEP longer than the previous, to get every alignment */
    arena *a[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        mapped[i] = mmap(NULL, MAPPED_SIZE + i * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);
        a[i] = arena_new(4u << 20);
        CU_ASSERT_FATAL(mapped[i] != MAP_FAILED && a[i]);
        memset(mapped[i], 0x5a, PAGE);
        CU_ASSERT_PTR_NOT_NULL_FATAL(arena_alloc(a[i], (2u << 20) + 1));
    }
    for (size_t i = 0; i < ROUNDS; i++)
        arena_free(a[i]);
    for (size_t i = 0; i < ROUNDS; i++) {
        CU_ASSERT(mapped[i][0] == 0x5a);
        munmap(mapped[i], MAPPED_SIZE + i * STEP);
    }
}

static void arrays_grow_up_to_the_limit(void)
{
    arena *a = arena_new(3000);
    size_t cap = 0;
    char *at = arena_grow(a, NULL, 0, &cap, 1000, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at = arena_grow(a, at, 1000, &cap, 1100, 1); /* doubling would exceed the limit */
    CU_ASSERT_PTR_NOT_NULL(at);
    CU_ASSERT_PTR_NOT_NULL(arena_grow(a, at, 1100, &cap, cap, 1));
    CU_ASSERT_PTR_NULL(arena_grow(a, at, 1100, &cap, 5000, 1));
    CU_ASSERT(cap < 5000);
    arena_free(a);
}

static void text_is_copied(void)
{
    arena *a = arena_new(1000);
    ckpt_str s = arena_str(a, STR_LIT("a\0b"));
    CU_ASSERT_EQUAL(s.len, 3);
    CU_ASSERT_EQUAL(memcmp(s.ptr, "a\0b", 4), 0);
    s = arena_str(a, str_of(NULL, 0));
    CU_ASSERT_STRING_EQUAL(s.ptr, "");
    s = arena_printf(a, "%s.%d", "layer", 7);
    CU_ASSERT_STRING_EQUAL(s.ptr, "layer.7");
    CU_ASSERT_EQUAL(s.len, 7);
    CU_ASSERT_PTR_NULL(arena_printf(a, "%2000d", 1).ptr);
    CU_ASSERT_PTR_NULL(arena_str(a, str_of("", SIZE_MAX)).ptr);
    arena_free(a);
}

static void unused_memory_is_trimmed(void)
{
    arena *a = arena_new(1u << 30);
    const size_t n = (size_t)3 << 20;
    unsigned char *large = arena_alloc(a, n), *small = arena_alloc(a, 100);
    memset(large, 0xab, n);
    memset(small, 0xcd, 100);
    unsigned char *more = arena_alloc(a, 300000);
    memset(more, 0xef, 300000);
    arena_trim(a);
    CU_ASSERT(large[0] == 0xab && large[n - 1] == 0xab && small[99] == 0xcd && more[299999] == 0xef);
    for (int i = 0; i < 40; i++) {
        unsigned char *after = arena_alloc(a, 100000);
        for (size_t k = 0; k < 100000; k++)
            if (after[k])
                CU_FAIL_FATAL("the memory is not zeroed");
        memset(after, 0xff, 100000);
    }
    CU_ASSERT(large[n - 1] == 0xab && small[99] == 0xcd && more[299999] == 0xef);
    arena_free(a);
}

static void large_allocations_are_shrunk(void)
{
    arena *a = arena_new((uint64_t)16 << 20);
    const size_t n = (size_t)10 << 20;
    unsigned char *small = arena_alloc(a, 100), *large = arena_alloc(a, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, 0xab, n);
    arena_shrink(a, small, 1); /* SMALL shares a chunk, so it is not shrunk */
    CU_ASSERT_EQUAL(arena_used(a), n + 100);
    CU_ASSERT_PTR_NULL(arena_alloc(a, n));
    arena_shrink(a, large, 70000);
    CU_ASSERT_EQUAL(arena_used(a), 70100);
    CU_ASSERT(large[0] == 0xab && large[69999] == 0xab);
    unsigned char *reused = arena_alloc(a, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reused);
    CU_ASSERT(reused[0] == 0 && reused[n - 1] == 0);
    arena_free(a);
}

static void the_given_allocation_fails(void)
{
    arena *a = arena_new(10000);
    arena_fail_at(a, 2);
    CU_ASSERT_PTR_NOT_NULL(arena_alloc(a, 8));
    CU_ASSERT_PTR_NULL(arena_alloc(a, 8));
    CU_ASSERT_PTR_NOT_NULL(arena_alloc(a, 8));
    arena_fail_at(a, 1);
    arena_fail_at(a, 0);
    CU_ASSERT_PTR_NOT_NULL(arena_alloc(a, 8));
    arena_free(a);
}

static void an_array_apart_counts_towards_the_ceiling(void)
{
    arena *a = arena_new(600000);
    uint32_t *list = NULL;
    size_t n = 0, cap = 0;
    for (; n < cap || arena_grow_apart(a, &list, &cap, sizeof *list); n++)
        list[n] = (uint32_t)n;
    CU_ASSERT(n == 131072 && arena_full(a) && arena_used(a) == n * sizeof *list);
    CU_ASSERT(list[63] == 63 && list[64] == 64 && list[n - 1] == n - 1);
    arena_discard_apart(list, 70000 * sizeof *list, cap * sizeof *list);
    CU_ASSERT(list[70000] == 70000);
    arena_free_apart(a, list, cap, sizeof *list);
    CU_ASSERT_EQUAL(arena_used(a), 0);
    cap = 0;
    list = NULL;
    arena_fail_at(a, 1);
    CU_ASSERT(!arena_grow_apart(a, &list, &cap, sizeof *list));
    CU_ASSERT(arena_grow_apart(a, &list, &cap, sizeof *list) && cap == 64);
    arena_free_apart(a, list, cap, sizeof *list);
    arena_free(a);
}

/* Appends to an array in an arena, then to an array from malloc (NULL as arena), then in an arena that is too
 * small. */
static void elements_are_appended_one_by_one(void)
{
    for (int heap = 0; heap < 2; heap++) {
        arena *a = heap ? NULL : arena_new(1u << 20);
        uint32_t *list = NULL, *at, wrong = 0;
        size_t n = 0, cap = 0;
        for (uint32_t i = 0; i < 1000 && (at = arena_append(a, &list, &n, &cap, sizeof *at)); i++)
            *at = i;
        CU_ASSERT_EQUAL_FATAL(n, 1000);
        for (uint32_t i = 0; i < 1000; i++)
            wrong += list[i] != i;
        CU_ASSERT_EQUAL(wrong, 0);
        if (heap)
            free(list);
        arena_free(a);
    }
    arena *small = arena_new(32);
    unsigned char (*list)[40] = NULL;
    size_t n = 0, cap = 0;
    CU_ASSERT_PTR_NULL(arena_append(small, &list, &n, &cap, sizeof *list));
    CU_ASSERT_EQUAL(n, 0);
    arena_free(small);
}

static void texts_are_joined_with_all_bytes(void)
{
    char longer[300];
    memset(longer, 'x', sizeof longer);
    arena *a = arena_new(1000), *small = arena_new(100);
    const ckpt_str text = str_of(longer, sizeof longer), none = {NULL, 0};
    ckpt_str joined = ARENA_CONCAT(a, STR_LIT("a\0b"), none, text, STR_LIT("c"));
    CU_ASSERT_EQUAL(joined.len, 304);
    CU_ASSERT(joined.ptr && memcmp(joined.ptr, "a\0bx", 4) == 0 && memcmp(joined.ptr + 302, "xc", 3) == 0);
    CU_ASSERT_PTR_NULL(ARENA_CONCAT(small, text, text).ptr);
    CU_ASSERT_PTR_NULL(ARENA_CONCAT(a, str_of("", SIZE_MAX - 1), STR_LIT("ab")).ptr);
    arena_free(a);
    arena_free(small);
}

void suite_arena(void)
{
    UNIT(memory_is_zeroed_and_aligned);
    UNIT(memory_is_limited);
    UNIT(the_limit_is_exact);
    UNIT(products_that_overflow_are_refused);
    UNIT(arrays_grow);
    UNIT(elements_are_appended_one_by_one);
    UNIT(large_chunks_are_mapped);
    UNIT(only_own_mappings_are_unmapped);
    UNIT(arrays_grow_up_to_the_limit);
    UNIT(text_is_copied);
    UNIT(texts_are_joined_with_all_bytes);
    UNIT(unused_memory_is_trimmed);
    UNIT(large_allocations_are_shrunk);
    UNIT(the_given_allocation_fails);
    UNIT(an_array_apart_counts_towards_the_ceiling);
}
