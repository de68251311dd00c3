/* map.c - open addressing, linear probing, at most 3/4 full. Keys come from files, so the hash is
 * SipHash-1-3 (Aumasson and Bernstein) with a random seed: nobody can prepare names that all collide. */
#include "base/map.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/checked.h"
#include "base/cursor.h"

#define MAX_SLOTS ((size_t)1 << 31) /* a power of two that the 32 bits of a stored hash can number */

/* A key is a number, or a text with its length. A slot is only as large as its kind of key needs: in a map
 * of map_new_index it ends before KEY, in a map of numbers before TEXT. */
struct map_slot {
    uint32_t hash; /* 0: free */
    uint32_t value;
    uint64_t key;     /* the number, or the length of TEXT */
    const char *text; /* NULL: the key is a number */
};

enum {
    INDEX_SLOT = offsetof(struct map_slot, key),
    NUMBER_SLOT = offsetof(struct map_slot, text),
    TEXT_SLOT = sizeof(struct map_slot)
};

struct map {
    unsigned char *slots; /* allocated for the first key, whose kind decides slot_size */
    size_t slot_size;
    size_t nslots; /* a power of two */
    size_t count;
    ckpt_str (*text_of)(const void *user, uint32_t value); /* set by map_new_index, else NULL */
    const void *user;
    uint64_t seed[2];
};

static uint64_t rotate_left(uint64_t number, int bits) { return number << bits | number >> (64 - bits); }

/* calls would double the cost of a look-up */
#define INLINE __attribute__((always_inline)) static inline

MODULO INLINE void sip_round(uint64_t numbers[4])
{
    numbers[0] += numbers[1];
    numbers[2] += numbers[3];
    numbers[1] = rotate_left(numbers[1], 13) ^ numbers[0];
    numbers[3] = rotate_left(numbers[3], 16) ^ numbers[2];
    numbers[0] = rotate_left(numbers[0], 32);
    numbers[2] += numbers[1];
    numbers[0] += numbers[3];
    numbers[1] = rotate_left(numbers[1], 17) ^ numbers[2];
    numbers[3] = rotate_left(numbers[3], 21) ^ numbers[0];
    numbers[2] = rotate_left(numbers[2], 32);
}

MODULO INLINE void sip_word(uint64_t numbers[4], uint64_t word)
{
    numbers[3] ^= word;
    sip_round(numbers);
    numbers[0] ^= word;
}

/* sip_finish - adds LAST_WORD and returns the hash; never 0, which means a free slot. */
MODULO INLINE uint32_t sip_finish(uint64_t numbers[4], uint64_t last_word)
{
    sip_word(numbers, last_word);
    numbers[2] ^= 0xff;
    sip_round(numbers);
    sip_round(numbers);
    sip_round(numbers);
    uint64_t h = numbers[0] ^ numbers[1] ^ numbers[2] ^ numbers[3];
    uint32_t folded = (uint32_t)(h ^ h >> 32);
    return folded ? folded : 1;
}

MODULO INLINE void sip_start(const map *index, uint64_t numbers[4])
{
    numbers[0] = index->seed[0] ^ 0x736f6d6570736575u;
    numbers[1] = index->seed[1] ^ 0x646f72616e646f6du;
    numbers[2] = index->seed[0] ^ 0x6c7967656e657261u;
    numbers[3] = index->seed[1] ^ 0x7465646279746573u;
}

static uint32_t hash_text(const map *index, ckpt_str text)
{
    uint64_t v[4], last = (uint64_t)text.len << 56;
    size_t i = 0;
    sip_start(index, v);
    for (; text.len - i >= 8; i += 8)
        sip_word(v, load_u64le((const unsigned char *)text.ptr + i));
    if (i && i < text.len) /* the bytes left are the last of eight that can be loaded at once */
        last |= load_u64le((const unsigned char *)text.ptr + text.len - 8) >> (64 - 8 * (text.len - i));
    for (int shift = 0; !i && (size_t)shift / 8 < text.len; shift += 8)
        last |= (uint64_t)(unsigned char)text.ptr[shift / 8] << shift;
    return sip_finish(v, last);
}

static uint32_t hash_num(const map *index, uint64_t key)
{
    uint64_t v[4];
    sip_start(index, v);
    return sip_finish(v, key);
}

static struct map_slot *slot_at(const map *index, size_t number)
{
    return (struct map_slot *)(void *)(index->slots + number * index->slot_size);
}

/* new_slots - returns COUNT free slots. The first read of a new page maps the shared page of zeros, and a
 * later write maps a page of its own. Writing to each page here saves one of the two page faults. */
static unsigned char *new_slots(size_t count, size_t size)
{
    unsigned char *slots = calloc(count, size);
    for (size_t i = 0; slots && i < count * size; i += 4096)
        *(volatile unsigned char *)&slots[i] = 0;
    return slots;
}

map *map_new(size_t expected)
{
    map *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    /* The kernel gives every process 16 random bytes; the address makes each map differ. */
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(m->seed, random, sizeof m->seed);
    m->seed[0] ^= ptr_key(m);
    m->nslots = 16;
    while (m->nslots < MAX_SLOTS && m->nslots / 4 * 3 < expected)
        m->nslots *= 2;
    return m;
}

map *map_new_index(size_t expected, ckpt_str (*text_of)(const void *user, uint32_t value), const void *user)
{
    map *m = map_new(expected);
    if (m) {
        m->text_of = text_of;
        m->user = user;
    }
    return m;
}

void map_set_user(map *index, const void *user)
{
    if (index)
        index->user = user;
}

void map_free(map *index)
{
    if (!index)
        return;
    free(index->slots);
    free(index);
}

size_t map_count(const map *index) { return index->count; }

static bool slot_has_key(const map *index, const struct map_slot *slot, const char *text, uint64_t key)
{
    if (index->text_of) {
        ckpt_str indexed = index->text_of(index->user, slot->value);
        return indexed.len == key && (!key || memcmp(indexed.ptr, text, (size_t)key) == 0);
    }
    return slot->key == key && (!text || memcmp(slot->text, text, (size_t)key) == 0);
}

/* find_slot - returns the slot of a key, or the free slot where it belongs. */
INLINE struct map_slot *find_slot(const map *index, const char *text, uint64_t key, uint32_t hash)
{
    for (size_t i = hash & (index->nslots - 1);; i = (i + 1) & (index->nslots - 1)) {
        struct map_slot *s = slot_at(index, i);
        if (s->hash == 0 || (s->hash == hash && slot_has_key(index, s, text, key)))
            return s;
    }
}

static uint32_t get_value(const map *index, const char *text, uint64_t key, uint32_t hash)
{
    const struct map_slot *s = find_slot(index, text, key, hash);
    return s->hash ? s->value : MAP_NONE;
}

static bool grow_slots(map *index)
{
    map larger = *index;
    if (index->nslots >= MAX_SLOTS)
        return false;
    larger.nslots *= 2;
    larger.slots = new_slots(larger.nslots, index->slot_size);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < index->nslots; i++) {
        const struct map_slot *s = slot_at(index, i);
        if (s->hash == 0)
            continue;
        size_t at = s->hash & (larger.nslots - 1);
        while (slot_at(&larger, at)->hash)
            at = (at + 1) & (larger.nslots - 1);
        memcpy(slot_at(&larger, at), s, index->slot_size);
    }
    free(index->slots);
    *index = larger;
    return true;
}

/* make_room - prepares INDEX for one more key, a TEXT or a number. */
__attribute__((noinline)) static bool make_room(map *index, bool text)
{
    if (index->slots)
        return grow_slots(index);
    index->slot_size = index->text_of ? INDEX_SLOT : text ? TEXT_SLOT : NUMBER_SLOT;
    index->slots = new_slots(index->nslots, index->slot_size);
    return index->slots != NULL;
}

INLINE bool put_key(map *index, const char *text, uint64_t key, uint32_t hash, uint32_t value, uint32_t *old)
{
    if ((!index->slots || index->count >= index->nslots / 4 * 3) && !make_room(index, text != NULL))
        return false;
    struct map_slot *s = find_slot(index, text, key, hash);
    if (old)
        *old = s->hash ? s->value : MAP_NONE;
    if (s->hash)
        return true;
    s->hash = hash;
    s->value = value;
    if (index->slot_size > INDEX_SLOT)
        s->key = key;
    if (index->slot_size > NUMBER_SLOT)
        s->text = text;
    index->count++;
    return true;
}

/* key_address - returns the bytes of KEY; never NULL, which would mean that the key is a number. */
static const char *key_address(ckpt_str key) { return key.len ? key.ptr : ""; }

uint32_t map_get(const map *index, ckpt_str key)
{
    return index->count ? get_value(index, key_address(key), key.len, hash_text(index, key)) : MAP_NONE;
}

bool map_put(map *index, ckpt_str key, uint32_t value, uint32_t *old)
{
    return put_key(index, key_address(key), key.len, hash_text(index, key), value, old);
}

uint32_t map_get_num(const map *index, uint64_t key)
{
    return index->count ? get_value(index, NULL, key, hash_num(index, key)) : MAP_NONE;
}

bool map_put_num(map *index, uint64_t key, uint32_t value, uint32_t *old)
{
    return put_key(index, NULL, key, hash_num(index, key), value, old);
}

bool map_set_num(map *index, uint64_t key, uint32_t value)
{
    struct map_slot *s = index->count ? find_slot(index, NULL, key, hash_num(index, key)) : NULL;
    if (!s || !s->hash)
        return map_put_num(index, key, value, NULL);
    s->value = value;
    return true;
}
