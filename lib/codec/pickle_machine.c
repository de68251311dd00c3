/* pickle_machine.c - see pickle_machine.h. */
#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "codec/pickle_ops.h"

#define FIRST_SLAB     1024u
#define LAST_SLAB      16384u
#define BYTES_PER_CALL 64u /* a pickle has about one call in this many bytes */
#define FEW_FACTS      4u  /* fewest elements by which a list of facts grows */

void *machine_alloc_slow(struct machine *m, struct slab *s, size_t n)
{
    if (n <= FIRST_SLAB) {
        s->next = arena_alloc(m->u.a, s->next_size);
        s->bytes_left = s->next ? s->next_size : 0;
        s->next_size *= s->next_size < LAST_SLAB ? 2 : 1;
    }
    void *bytes = n > FIRST_SLAB ? arena_alloc(m->u.a, n) : s->next ? machine_alloc_from(m, s, n) : NULL;
    if (!bytes)
        unpickler_fail_memory(&m->u);
    return bytes;
}

void *machine_reserve(struct machine *m, void *old, uint32_t n, uint32_t *cap, size_t add, size_t size)
{
    size_t needed, grown, room = *cap;
    if (add <= *cap - n)
        return old;
    if (add > UINT32_MAX - n) {
        unpickler_fail(&m->u, CKPT_ELIMIT, "makes a container {of more} than {=%" PRIu32 " items}",
                       UINT32_MAX);
        return NULL;
    }
    needed = n + add;
    grown = *cap > needed / 2 ? 2 * (size_t)*cap : needed;
    if (grown > FIRST_SLAB / size) { /* a large array: grow in place if possible */
        void *at = arena_grow(m->u.a, old, n, &room, needed, size);
        *cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
        if (!at)
            unpickler_fail_memory(&m->u);
        return at;
    }
    void *at = machine_alloc(m, grown * size);
    if (at && n)
        memcpy(at, old, n * size);
    *cap = at ? (uint32_t)grown : *cap;
    return at;
}

MODULO ckpt_value *machine_get_int(struct machine *m, int64_t i)
{
    ckpt_value **slot = i >= 0 && i < (int64_t)MACHINE_INTS
                            ? &m->small_ints[i]
                            : &m->recent_ints[(uint64_t)i * 0x9e3779b97f4a7c15u >> 56]; /* a hash of 8 bits */
    if (*slot && (*slot)->u.i == i)
        return *slot;
    ckpt_value *v = machine_new_node(m, CKPT_V_INT);
    if (v) {
        v->u.i = i;
        *slot = v;
    }
    return v;
}

bool machine_copy_text(struct machine *m, ckpt_str s, ckpt_str *out)
{
    char *copy = machine_alloc_text(m, s.len);
    if (!copy)
        return false;
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    *out = str_of(copy, s.len);
    return true;
}

MODULO ckpt_value *machine_get_global(struct machine *m, ckpt_str module, ckpt_str name)
{
    if (module.len == 0 || name.len == 0) {
        unpickler_fail(&m->u, CKPT_EFORMAT,
                       "empty module or name in GLOBAL: {module '%.*s', name '%.*s'}, expected {=both}",
                       STR_ARG(module), STR_ARG(name));
        return NULL;
    }
    const unsigned char *c = (const unsigned char *)name.ptr;
    size_t hash = module.len * 7 + name.len * 31;
    hash += c[0] * 5u + c[name.len / 2] * 3u + c[name.len - 1];
    uint8_t flags = m->u.protocol >= 4 && memchr(name.ptr, '.', name.len) ? VALUE_DOTTED : 0;
    flags |= m->u.protocol >= 3 ? VALUE_PYTHON3_NAME : 0;
    ckpt_value **slot = &m->recent_globals[hash % MACHINE_GLOBALS], *v = *slot;
    if (v && str_eq(value_module(v), module) && str_eq(value_name(v), name) &&
        (v->flags & (VALUE_DOTTED | VALUE_PYTHON3_NAME)) == flags)
        return v;
    /* Python 2, which accepted any bytes, writes at most protocol 2. */
    if (m->u.protocol > 2 && !(utf8_check(module, false, NULL) && utf8_check(name, false, NULL))) {
        unpickler_fail(&m->u, CKPT_EFORMAT, "has a name that is not {=UTF-8}: {module '%.*s', name '%.*s'}",
                       STR_ARG(module), STR_ARG(name));
        return NULL;
    }
    ckpt_str *both = machine_alloc(m, 2 * sizeof *both);
    if (!both || !machine_copy_text(m, module, &both[0]) || !machine_copy_text(m, name, &both[1]))
        return NULL;
    if (!(v = *slot = machine_new_node(m, CKPT_V_GLOBAL)))
        return NULL;
    v->u.global.module_name = both;
    v->flags = flags;
    struct pickle_facts *f = m->facts;
    return machine_add_fact(m, &f->globals, &f->nglobals, &f->cap_globals, v) ? v : NULL;
}

/* get_tuple_slot - returns the slot of m->recent_tuples for a tuple of these N items. NULL: it is long, or
 * has other items than integers. */
MODULO static ckpt_value **get_tuple_slot(struct machine *m, ckpt_value *const *items, size_t n)
{
    uint64_t hash = n;
    if (n > 4)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->type != CKPT_V_INT)
            return NULL;
        hash = (hash ^ (uint64_t)items[i]->u.i) * 0x9e3779b97f4a7c15u;
    }
    return &m->recent_tuples[hash / (UINT64_MAX / MACHINE_TUPLES + 1)];
}

ckpt_value *machine_make_tuple(struct machine *m, size_t n)
{
    ckpt_value **items = n ? m->stack + (m->u.top - n) : NULL, *v;
    if (n == 0) {
        if (!m->empty_tuple)
            m->empty_tuple = machine_new_node(m, CKPT_V_TUPLE);
        return m->empty_tuple;
    }
    if (n >= UINT32_MAX) {
        unpickler_fail(&m->u, CKPT_ELIMIT, "makes a tuple {of more} than {=%" PRIu32 " items}", UINT32_MAX);
        return NULL;
    }
    ckpt_value **slot = get_tuple_slot(m, items, n);
    if (slot && *slot && (*slot)->u.seq.n == n && memcmp((*slot)->u.seq.items, items, n * sizeof *items) == 0)
        return *slot;
    v = machine_new_node_sized(m, CKPT_V_TUPLE, n * sizeof *items);
    if (!v)
        return NULL;
    if (slot)
        *slot = v;
    v->u.seq.items = (ckpt_value **)(v + 1);
    v->u.seq.n = v->u.seq.cap = (uint32_t)n;
    memcpy(v->u.seq.items, items, n * sizeof *items);
    return v;
}

ckpt_value *machine_new_call(struct machine *m, enum value_call_kind how, ckpt_value *callable,
                             ckpt_value *args)
{
    ckpt_value *v = machine_new_node(m, CKPT_V_CALL);
    if (!v)
        return NULL;
    value_init_call(v, how, callable, args);
    struct pickle_facts *f = m->facts;
    return machine_add_fact(m, &f->calls, &f->ncalls, &f->cap_calls, v) ? v : NULL;
}

bool machine_grow_facts(struct machine *m, ckpt_value ***list, size_t n, size_t *cap)
{
    /* Most pickles have few globals, but many calls and persids: an empty list of these gets room for all. */
    bool expects_many = n == 0 && list != &m->facts->globals;
    size_t wanted = expects_many ? unpickler_estimate_items(&m->u, BYTES_PER_CALL) : n + FEW_FACTS;
    ckpt_value **grown = arena_grow(m->u.a, *list, n, cap, wanted, sizeof *grown);
    if (grown)
        *list = grown;
    else
        unpickler_fail_memory(&m->u);
    return grown != NULL;
}

bool machine_add_mutation(struct machine *m, const ckpt_value *target)
{
    struct pickle_facts *f = m->facts;
    bool is_builtin = target->type == CKPT_V_LIST || target->type == CKPT_V_DICT ||
                      target->type == CKPT_V_SET;
    if (!m->has_facts || (is_builtin && m->u.op != PICKLE_BUILD))
        return true;
    struct pickle_mutation *grown = arena_grow(m->u.a, f->mutations, f->nmutations, &f->cap_mutations,
                                               f->nmutations + FEW_FACTS, sizeof *grown);
    if (!grown)
        return unpickler_fail_memory(&m->u);
    f->mutations = grown;
    f->mutations[f->nmutations++] = (struct pickle_mutation){m->u.at, m->u.op, target};
    return true;
}

ckpt_status machine_init(struct machine *m, arena *a, const struct machine_input *in,
                         struct pickle_facts *facts, ckpt_error *err)
{
    *m = (struct machine){
        .nodes = {.next_size = FIRST_SLAB}, .chars = {.next_size = FIRST_SLAB}, .frame_end = UINT64_MAX};
    m->reads_joblib_arrays = in->has_joblib_arrays;
    m->has_facts = facts != NULL;
    m->facts = facts ? facts : &m->unused_facts;
    ckpt_str record = facts ? facts->record : str_of("", 0);
    *m->facts = (struct pickle_facts){.record = record, .protocol = -1};
    memset(m->facts->first_use, 0xff, sizeof m->facts->first_use);
    return unpickler_init(&m->u, a, in->src, in->pos, in->end, err);
}

void machine_free(struct machine *m)
{
    struct pickle_facts *f = m->facts;
    arena_shrink(m->u.a, f->calls, f->ncalls * sizeof *f->calls);
    arena_shrink(m->u.a, f->persids, f->npersids * sizeof *f->persids);
    unpickler_free(&m->u);
    free(m->stack);
}
