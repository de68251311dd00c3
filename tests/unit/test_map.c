/* Maps find the keys that were put, and no others, and large maps are fast. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/map.h"
#include "unit.h"

static void the_first_value_is_kept(void)
{
    map *m = map_new(0);
    uint32_t previous = 5;
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("a")), MAP_NONE);
    CU_ASSERT(map_put(m, STR_LIT("a"), 1, &previous));
    CU_ASSERT_EQUAL(previous, MAP_NONE);
    CU_ASSERT(map_put(m, STR_LIT("a"), 2, &previous));
    CU_ASSERT_EQUAL(previous, 1);
    CU_ASSERT(map_put(m, STR_LIT("a"), 3, NULL));
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("a")), 1);
    CU_ASSERT_EQUAL(map_count(m), 1);
    map_free(m);
    map_free(NULL);
}

static void keys_of_any_bytes_are_distinct(void)
{
    static const char text[] = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    map *m = map_new(4);
    for (uint32_t n = 0; n <= 18; n++) /* the keys differ only in length */
        CU_ASSERT(map_put(m, str_of(n ? text : NULL, n), n, NULL));
    CU_ASSERT(map_put(m, STR_LIT("weight"), 100, NULL));
    CU_ASSERT(map_put(m, STR_LIT("weight\0"), 101, NULL));
    CU_ASSERT_EQUAL(map_count(m), 19 + 2);
    for (uint32_t n = 0; n <= 18; n++)
        CU_ASSERT_EQUAL(map_get(m, str_of(text, n)), n);
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("weight\0")), 101);
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("weigh")), MAP_NONE);
    map_free(m);
}

static void keys_are_not_read_beyond_their_end(void)
{
    map *m = map_new(0);
    for (size_t n = 0; n < 40; n++) {
        char text[40];
        memset(text, 'k', sizeof text);
        unsigned char *key = unit_guard(text, n);
        CU_ASSERT_EQUAL(map_get(m, str_of((char *)key, n)), MAP_NONE);
        unit_guard_free(key, n);
    }
    map_free(m);
}

static ckpt_str word_of(const void *user, uint32_t i)
{
    const char *word = (const char *)user + 8 * (size_t)i;
    return str_of(word, strlen(word));
}

/* An index stores only the values. A callback returns the key of a value, also while the index grows. */
static void an_index_gets_its_keys_by_a_callback(void)
{
    static char words[5000][8];
    uint32_t previous;
    map *m = map_new_index(10, word_of, words);
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("0")), MAP_NONE);
    for (uint32_t i = 0; i < 5000; i++) {
        (void)snprintf(words[i], sizeof words[i], "%u", i);
        CU_ASSERT_FATAL(map_put(m, word_of(words, i), i, &previous));
        CU_ASSERT_EQUAL_FATAL(previous, MAP_NONE);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        char word[8];
        (void)snprintf(word, sizeof word, "%u", i);
        CU_ASSERT_EQUAL_FATAL(map_get(m, str_of(word, strlen(word))), i);
        CU_ASSERT(map_put(m, str_of(word, strlen(word)), 9999, &previous) && previous == i);
    }
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("5000")), MAP_NONE);
    CU_ASSERT_EQUAL(map_get(m, str_of(NULL, 0)), MAP_NONE);
    words[7][0] = '\0';
    CU_ASSERT_EQUAL(map_get(m, STR_LIT("7")), MAP_NONE); /* entry 7 now has an empty key */
    CU_ASSERT_EQUAL(map_count(m), 5000);
    map_free(m);
}

static void values_of_number_keys_can_be_replaced(void)
{
    map *m = map_new(0);
    uint32_t previous;
    for (uint64_t i = 0; i < 5000; i++)
        CU_ASSERT_FATAL(map_put_num(m, i << 32, (uint32_t)i, NULL));
    CU_ASSERT(map_put_num(m, 0, 7, &previous)); /* keeps the value that the key has */
    CU_ASSERT_EQUAL(previous, 0);
    CU_ASSERT(map_set_num(m, 0, 7)); /* replaces it */
    CU_ASSERT(map_set_num(m, UINT64_MAX, 8));
    CU_ASSERT_EQUAL(map_get_num(m, 0), 7);
    CU_ASSERT_EQUAL(map_get_num(m, UINT64_MAX), 8);
    CU_ASSERT_EQUAL(map_get_num(m, 1), MAP_NONE);
    for (uint64_t i = 1; i < 5000; i++)
        if (map_get_num(m, i << 32) != i)
            CU_FAIL("a key is not found");
    CU_ASSERT_EQUAL(map_count(m), 5001);
    map_free(m);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A quadratic map would need hours; 20 seconds are enough on slow machines. */
static void a_million_names_are_fast(void)
{
    enum { N = 1000000, WIDTH = 48 };
    char (*names)[WIDTH] = malloc((size_t)N * WIDTH);
    map *m = map_new(0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(names);
    for (uint32_t i = 0; i < N; i++)
        snprintf(names[i], WIDTH, "model.layers.%u.self_attn.q_proj.weight", i);
    double start = cpu_seconds();
    for (uint32_t i = 0; i < N; i++)
        if (!map_put(m, str_c(names[i]), i, NULL))
            CU_FAIL("a key cannot be put");
    for (uint32_t i = 0; i < N; i++)
        if (map_get(m, str_c(names[i])) != i)
            CU_FAIL("a key is not found");
    CU_ASSERT(cpu_seconds() - start < 20);
    CU_ASSERT_EQUAL(map_count(m), N);
    map_free(m);
    free(names);
}

void suite_map(void)
{
    UNIT(the_first_value_is_kept);
    UNIT(keys_of_any_bytes_are_distinct);
    UNIT(keys_are_not_read_beyond_their_end);
    UNIT(an_index_gets_its_keys_by_a_callback);
    UNIT(values_of_number_keys_can_be_replaced);
    UNIT(a_million_names_are_fast);
}
