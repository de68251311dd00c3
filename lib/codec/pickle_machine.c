/* pickle_machine.c - see pickle_machine.h. */
#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/utf8.h"

#define FIRST_SLAB     1024u
#define LAST_SLAB      16384u
#define BYTES_PER_CALL 64u /* a pickle has about one call in this many bytes */
#define FEW_FACTS      4u  /* fewest elements by which a list of facts grows */

void *machine_alloc_slow(struct machine *machine, struct slab *slab, size_t count)
{
    if (count <= FIRST_SLAB) {
        slab->next = arena_alloc(machine->u.a, slab->next_size);
        slab->bytes_left = slab->next ? slab->next_size : 0;
        slab->next_size *= slab->next_size < LAST_SLAB ? 2 : 1;
    }
    void *bytes = count > FIRST_SLAB ? arena_alloc(machine->u.a, count)
                  : slab->next       ? machine_alloc_from(machine, slab, count)
                                     : NULL;
    if (!bytes)
        unpickler_fail_memory(&machine->u);
    return bytes;
}

void *machine_reserve(struct machine *machine, void *old, uint32_t count, uint32_t *cap, size_t add,
                      size_t size)
{
    size_t needed, grown, room = *cap;
    if (add <= *cap - count)
        return old;
    if (add > UINT32_MAX - count) {
        unpickler_fail(&machine->u, CKPT_ELIMIT, "makes a container {of more} than {=%" PRIu32 " items}",
                       UINT32_MAX);
        return NULL;
    }
    needed = count + add;
    grown = *cap > needed / 2 ? 2 * (size_t)*cap : needed;
    if (grown > FIRST_SLAB / size) { /* a large array: grow in place if possible */
        void *at = arena_grow(machine->u.a, old, count, &room, needed, size);
        *cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
        if (!at)
            unpickler_fail_memory(&machine->u);
        return at;
    }
    void *at = machine_alloc(machine, grown * size);
    if (at && count)
        memcpy(at, old, count * size);
    *cap = at ? (uint32_t)grown : *cap;
    return at;
}

MODULO ckpt_value *machine_get_int(struct machine *machine, int64_t index)
{
    ckpt_value **slot =
        index >= 0 && index < (int64_t)MACHINE_INTS
            ? &machine->small_ints[index]
            : &machine->recent_ints[(uint64_t)index * 0x9e3779b97f4a7c15u >> 56]; /* a hash of 8 bits */
    if (*slot && (*slot)->u.i == index)
        return *slot;
    ckpt_value *v = machine_new_node(machine, CKPT_V_INT);
    if (v) {
        v->u.i = index;
        *slot = v;
    }
    return v;
}

bool machine_copy_text(struct machine *machine, ckpt_str text, ckpt_str *out)
{
    char *copy = machine_alloc_text(machine, text.len);
    if (!copy)
        return false;
    if (text.len)
        memcpy(copy, text.ptr, text.len);
    *out = str_of(copy, text.len);
    return true;
}

MODULO ckpt_value *machine_get_global(struct machine *machine, ckpt_str module, ckpt_str name)
{
    if (module.len == 0 || name.len == 0) {
        unpickler_fail(&machine->u, CKPT_EFORMAT,
                       "empty module or name in GLOBAL: {module '%.*s', name '%.*s'}, expected {=both}",
                       STR_ARG(module), STR_ARG(name));
        return NULL;
    }
    const unsigned char *c = (const unsigned char *)name.ptr;
    size_t hash = module.len * 7 + name.len * 31;
    hash += c[0] * 5u + c[name.len / 2] * 3u + c[name.len - 1];
    uint8_t flags = machine->u.protocol >= 4 && memchr(name.ptr, '.', name.len) ? VALUE_DOTTED : 0;
    flags |= machine->u.protocol >= 3 ? VALUE_PYTHON3_NAME : 0;
    ckpt_value **slot = &machine->recent_globals[hash % MACHINE_GLOBALS], *v = *slot;
    if (v && str_eq(value_module(v), module) && str_eq(value_name(v), name) &&
        (v->flags & (VALUE_DOTTED | VALUE_PYTHON3_NAME)) == flags)
        return v;
    /* Python 2, which accepted any bytes, writes at most protocol 2. */
    if (machine->u.protocol > 2 && !(utf8_check(module, false, NULL) && utf8_check(name, false, NULL))) {
        unpickler_fail(&machine->u, CKPT_EFORMAT,
                       "has a name that is not {=UTF-8}: {module '%.*s', name '%.*s'}", STR_ARG(module),
                       STR_ARG(name));
        return NULL;
    }
    ckpt_str *both = machine_alloc(machine, 2 * sizeof *both);
    if (!both || !machine_copy_text(machine, module, &both[0]) || !machine_copy_text(machine, name, &both[1]))
        return NULL;
    if (!(v = *slot = machine_new_node(machine, CKPT_V_GLOBAL)))
        return NULL;
    v->u.global.module_name = both;
    v->flags = flags;
    struct pickle_facts *f = machine->facts;
    return machine_add_fact(machine, &f->globals, &f->nglobals, &f->cap_globals, v) ? v : NULL;
}

MODULO static ckpt_value **get_tuple_slot(struct machine *machine, const int64_t *integers, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)integers[i]) * 0x9e3779b97f4a7c15u;
    return &machine->recent_tuples[hash / (UINT64_MAX / MACHINE_TUPLES + 1)];
}

ckpt_value *machine_find_tuple(struct machine *machine, const int64_t *integers, size_t count)
{
    ckpt_value *tuple = *get_tuple_slot(machine, integers, count);
    if (!tuple || tuple->u.seq.n != count)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (tuple->u.seq.items[i]->u.i != integers[i])
            return NULL;
    return tuple;
}

/* get_integers - sets INTEGERS to those that ITEMS are. False: they are something else, or too many. */
static bool get_integers(ckpt_value *const *items, size_t count, int64_t *integers)
{
    for (size_t i = 0; i < count; i++) {
        if (i == MACHINE_SIZES || items[i]->type != CKPT_V_INT)
            return false;
        integers[i] = items[i]->u.i;
    }
    return true;
}

ckpt_value *machine_make_tuple(struct machine *machine, ckpt_value *const *items, size_t count)
{
    int64_t integers[MACHINE_SIZES];
    if (count == 0) {
        if (!machine->empty_tuple)
            machine->empty_tuple = machine_new_node(machine, CKPT_V_TUPLE);
        return machine->empty_tuple;
    }
    if (count >= UINT32_MAX) {
        unpickler_fail(&machine->u, CKPT_ELIMIT, "makes a tuple {of more} than {=%" PRIu32 " items}",
                       UINT32_MAX);
        return NULL;
    }
    bool has_integers = get_integers(items, count, integers);
    ckpt_value *v = has_integers ? machine_find_tuple(machine, integers, count) : NULL;
    if (v)
        return v;
    v = machine_new_node_sized(machine, CKPT_V_TUPLE, count * sizeof *items);
    if (!v)
        return NULL;
    if (has_integers)
        *get_tuple_slot(machine, integers, count) = v;
    v->u.seq.items = (ckpt_value **)(v + 1);
    v->u.seq.n = v->u.seq.cap = (uint32_t)count;
    memcpy(v->u.seq.items, items, count * sizeof *items);
    return v;
}

ckpt_value *machine_new_call(struct machine *machine, enum value_call_kind how, ckpt_value *callable,
                             ckpt_value *args)
{
    ckpt_value *v = machine_new_node(machine, CKPT_V_CALL);
    if (!v)
        return NULL;
    value_init_call(v, how, callable, args);
    struct pickle_facts *f = machine->facts;
    return machine_add_fact(machine, &f->calls, &f->ncalls, &f->cap_calls, v) ? v : NULL;
}

bool machine_grow_facts(struct machine *machine, ckpt_value ***list, size_t count, size_t *cap)
{
    /* Most pickles have few globals, but many calls and persids: an empty list of these gets room for all. */
    bool expects_many = count == 0 && list != &machine->facts->globals;
    size_t wanted = expects_many ? unpickler_estimate_items(&machine->u, BYTES_PER_CALL) : count + FEW_FACTS;
    ckpt_value **grown = arena_grow(machine->u.a, *list, count, cap, wanted, sizeof *grown);
    if (grown)
        *list = grown;
    else
        unpickler_fail_memory(&machine->u);
    return grown != NULL;
}

bool machine_add_mutation(struct machine *machine, const ckpt_value *target)
{
    struct pickle_facts *f = machine->facts;
    bool is_builtin = target->type == CKPT_V_LIST || target->type == CKPT_V_DICT ||
                      target->type == CKPT_V_SET;
    if (!machine->has_facts || (is_builtin && machine->u.op != PICKLE_BUILD))
        return true;
    struct pickle_mutation *grown = arena_grow(machine->u.a, f->mutations, f->nmutations, &f->cap_mutations,
                                               f->nmutations + FEW_FACTS, sizeof *grown);
    if (!grown)
        return unpickler_fail_memory(&machine->u);
    f->mutations = grown;
    f->mutations[f->nmutations++] = (struct pickle_mutation){machine->u.at, machine->u.op, target};
    return true;
}

ckpt_status machine_init(struct machine *machine, arena *a, const struct machine_input *in,
                         struct pickle_facts *facts, ckpt_error *err)
{
    *machine = (struct machine){
        .nodes = {.next_size = FIRST_SLAB}, .chars = {.next_size = FIRST_SLAB}, .frame_end = UINT64_MAX};
    machine->reads_joblib_arrays = in->has_joblib_arrays;
    machine->has_facts = facts != NULL;
    machine->facts = facts ? facts : &machine->unused_facts;
    ckpt_str record = facts ? facts->record : str_of("", 0);
    *machine->facts = (struct pickle_facts){.record = record, .protocol = -1};
    memset(machine->facts->first_use, 0xff, sizeof machine->facts->first_use);
    return unpickler_init(&machine->u, a, in->src, in->pos, in->end, err);
}

void machine_free(struct machine *machine)
{
    struct pickle_facts *f = machine->facts;
    arena_shrink(machine->u.a, f->calls, f->ncalls * sizeof *f->calls);
    arena_shrink(machine->u.a, f->persids, f->npersids * sizeof *f->persids);
    unpickler_free(&machine->u);
    free(machine->stack);
}
