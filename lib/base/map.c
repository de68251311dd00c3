/* map.c - open addressing, linear probing, at most 3/4 full. Keys come from
 * files, so the hash is SipHash-1-3 (Aumasson and Bernstein) under a key that
 * a file cannot know: nobody can prepare names that all collide. */
#include "base/map.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "base/cursor.h"

#define MAX_SLOTS ((size_t)1 << 31) /* the stored part of a hash tells no more apart */

struct slot {
    const char *ptr; /* text keys */
    uint64_t key;    /* length of the text, or the number */
    uint32_t hash;   /* 0: free */
    uint32_t value;
};

struct map {
    struct slot *slots;
    size_t nslots; /* a power of two */
    size_t count;
    uint64_t seed[2];
};

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

#if defined(__GNUC__)
#define INLINE __attribute__((always_inline)) static inline /* calls would double the cost of a look-up */
#else
#define INLINE static inline
#endif

INLINE void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

INLINE void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* Never 0, which marks a free slot. */
INLINE uint32_t sip_finish(uint64_t v[4], uint64_t last)
{
    sip_word(v, last);
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    uint64_t h = v[0] ^ v[1] ^ v[2] ^ v[3];
    uint32_t folded = (uint32_t)(h ^ h >> 32);
    return folded ? folded : 1;
}

INLINE void sip_start(const map *m, uint64_t v[4])
{
    v[0] = m->seed[0] ^ 0x736f6d6570736575u;
    v[1] = m->seed[1] ^ 0x646f72616e646f6du;
    v[2] = m->seed[0] ^ 0x6c7967656e657261u;
    v[3] = m->seed[1] ^ 0x7465646279746573u;
}

static uint32_t hash_text(const map *m, ckpt_str s)
{
    uint64_t v[4], last = (uint64_t)s.len << 56;
    size_t i = 0;
    sip_start(m, v);
    for (; s.len - i >= 8; i += 8)
        sip_word(v, load_u64le((const unsigned char *)s.ptr + i));
    for (int shift = 0; i < s.len; i++, shift += 8)
        last |= (uint64_t)(unsigned char)s.ptr[i] << shift;
    return sip_finish(v, last);
}

static uint32_t hash_num(const map *m, uint64_t key)
{
    uint64_t v[4];
    sip_start(m, v);
    return sip_finish(v, key);
}

/* slots_new - N free ones. Looking at a fresh page maps the page of zeros, and
 * writing to it later another one: written to at once, it costs one fault. */
static struct slot *slots_new(size_t n)
{
    struct slot *slots = calloc(n, sizeof *slots);
    for (size_t i = 0; slots && i < n; i += 4096 / sizeof *slots)
        *(volatile uint32_t *)&slots[i].hash = 0;
    return slots;
}

map *map_new(size_t expected)
{
    map *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    /* The kernel gives every process 16 random bytes; the address tells maps apart. */
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(m->seed, random, sizeof m->seed);
    m->seed[0] ^= map_ptr(m);
    m->nslots = 16;
    while (m->nslots < MAX_SLOTS && m->nslots / 4 * 3 < expected)
        m->nslots *= 2;
    m->slots = slots_new(m->nslots);
    if (!m->slots) {
        free(m);
        return NULL;
    }
    return m;
}

void map_free(map *m)
{
    if (!m)
        return;
    free(m->slots);
    free(m);
}

size_t map_count(const map *m) { return m->count; }

static struct slot *find(const map *m, const char *ptr, uint64_t key, uint32_t hash)
{
    for (size_t i = hash & (m->nslots - 1);; i = (i + 1) & (m->nslots - 1)) {
        struct slot *s = &m->slots[i];
        if (s->hash == 0)
            return s;
        if (s->hash == hash && s->key == key && (!ptr || memcmp(s->ptr, ptr, (size_t)key) == 0))
            return s;
    }
}

static bool grow(map *m)
{
    map larger = *m;
    if (m->nslots >= MAX_SLOTS)
        return false;
    larger.nslots *= 2;
    larger.slots = slots_new(larger.nslots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < m->nslots; i++) {
        if (m->slots[i].hash == 0)
            continue;
        size_t at = m->slots[i].hash & (larger.nslots - 1);
        while (larger.slots[at].hash)
            at = (at + 1) & (larger.nslots - 1);
        larger.slots[at] = m->slots[i];
    }
    free(m->slots);
    *m = larger;
    return true;
}

static bool put(map *m, const char *ptr, uint64_t key, uint32_t hash, uint32_t value, uint32_t *old)
{
    struct slot *s = find(m, ptr, key, hash);
    if (old)
        *old = s->hash ? s->value : MAP_NONE;
    if (s->hash)
        return true;
    if (m->count >= m->nslots / 4 * 3) {
        if (!grow(m))
            return false;
        s = find(m, ptr, key, hash);
    }
    *s = (struct slot){ptr, key, hash, value};
    m->count++;
    return true;
}

/* Text without bytes may have no address, but numbers are known by having none. */
static const char *address(ckpt_str key) { return key.len ? key.ptr : ""; }

uint32_t map_get(const map *m, ckpt_str key)
{
    const struct slot *s = find(m, address(key), key.len, hash_text(m, key));
    return s->hash ? s->value : MAP_NONE;
}

bool map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old)
{
    return put(m, address(key), key.len, hash_text(m, key), value, old);
}

uint32_t map_get_num(const map *m, uint64_t key)
{
    const struct slot *s = find(m, NULL, key, hash_num(m, key));
    return s->hash ? s->value : MAP_NONE;
}

bool map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old)
{
    return put(m, NULL, key, hash_num(m, key), value, old);
}

bool map_set_num(map *m, uint64_t key, uint32_t value)
{
    struct slot *s = find(m, NULL, key, hash_num(m, key));
    if (!s->hash)
        return map_put_num(m, key, value, NULL);
    s->value = value;
    return true;
}
