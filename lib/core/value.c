/* value.c - creates and reads nodes of the value graph. Every reading function accepts every node, because
 * a hostile file can put any node anywhere. */
#include "core/value.h"

#include <pthread.h>

#include "base/store.h"
#include "base/utf8.h"
#include "core/number.h"

ckpt_value *value_new(arena *a, ckpt_value_type type, uint64_t offset)
{
    ckpt_value *v = arena_alloc_words(a, value_size_of(type));
    if (v)
        value_init(v, type, offset);
    return v;
}

/* copy_scalar - returns a node with the type and value of SCALAR. */
static ckpt_value *copy_scalar(arena *a, ckpt_value scalar)
{
    ckpt_value *v = value_new(a, (ckpt_value_type)scalar.type, 0);
    if (v)
        v->u = scalar.u;
    return v;
}

void value_init_str(ckpt_value *value, ckpt_str text)
{
    uint8_t type = utf8_check(text, true, NULL) ? CKPT_V_STR : CKPT_V_STR8;
    *value = (ckpt_value){.type = type, .u.str = text};
}

ckpt_value *value_str(arena *a, ckpt_str text)
{
    ckpt_value *v = ARENA_NEW(a, ckpt_value);
    if (v)
        value_init_str(v, text);
    return v;
}

ckpt_value *value_int(arena *a, int64_t index)
{
    return copy_scalar(a, (ckpt_value){.type = CKPT_V_INT, .u.i = index});
}

ckpt_value *value_uint(arena *a, uint64_t number)
{
    if (number <= INT64_MAX)
        return value_int(a, (int64_t)number);
    unsigned char *le = arena_alloc(a, 9); /* the last byte is the sign */
    if (!le)
        return NULL;
    store_u64le(le, number);
    return copy_scalar(a, (ckpt_value){.type = CKPT_V_BIGINT, .u.str = str_of((const char *)le, 9)});
}

ckpt_value *value_float(arena *a, double number)
{
    return copy_scalar(a, (ckpt_value){.type = CKPT_V_FLOAT, .u.f = number});
}

ckpt_value *value_bool(arena *a, bool flag)
{
    return copy_scalar(a, (ckpt_value){.type = CKPT_V_BOOL, .u.b = flag});
}

ckpt_value *value_number(arena *a, ckpt_dtype dt, uint64_t bits)
{
    unsigned char element[8];
    double number; /* holds the value exactly: int64 and uint64, which may not fit, do not use it */
    if (dt == CKPT_DT_I64 || dt == CKPT_DT_U64)
        return dt == CKPT_DT_I64 ? value_int(a, (int64_t)bits) : value_uint(a, bits);
    if (dt == CKPT_DT_BOOL)
        return value_bool(a, bits != 0);
    store_u64le(element, bits);
    number_decode(dt, element, 1, &number);
    return dtype_info(dt)->klass == 'f' ? value_float(a, number) : value_int(a, (int64_t)number);
}

ckpt_value *value_global(arena *a, ckpt_str module, ckpt_str name, uint64_t offset)
{
    ckpt_value *v = value_new(a, CKPT_V_GLOBAL, offset);
    ckpt_str *module_name = v ? arena_array(a, 2, sizeof *module_name) : NULL;
    if (!module_name)
        return NULL;
    module_name[0] = module;
    module_name[1] = name;
    v->u.global.module_name = module_name;
    return v;
}

ckpt_value *value_tuple(arena *a, uint32_t count, ckpt_value *const *items)
{
    ckpt_value *v = value_new(a, CKPT_V_TUPLE, 0);
    if (!v || count == 0)
        return v;
    v->u.seq.items = arena_array(a, count, sizeof *v->u.seq.items);
    if (!v->u.seq.items)
        return NULL;
    memcpy(v->u.seq.items, items, count * sizeof *items);
    v->u.seq.n = v->u.seq.cap = count;
    return v;
}

ckpt_value *value_call(arena *a, enum value_call_kind kind, ckpt_value *callable, ckpt_value *args,
                       uint64_t offset)
{
    ckpt_value *v = value_new(a, CKPT_V_CALL, offset);
    if (v)
        value_init_call(v, kind, callable, args);
    return v;
}

const struct value_extra value_no_extra;

struct value_extra *value_make_extra(arena *a, ckpt_value *call)
{
    struct value_object *o = (struct value_object *)(void *)call;
    if (o->extra != &value_no_extra)
        return (struct value_extra *)(uintptr_t)o->extra;
    struct value_extra *extra = ARENA_NEW(a, struct value_extra);
    if (extra)
        o->extra = extra;
    return extra;
}

ckpt_value *value_ordered_dict(arena *a)
{
    ckpt_value *klass = value_global(a, STR_LIT("collections"), STR_LIT("OrderedDict"), 0);
    ckpt_value *args = value_tuple(a, 0, NULL);
    return klass && args ? value_call(a, CALL_REDUCE, klass, args, 0) : NULL;
}

/* append - appends ELEMENT, of SIZE bytes, to an array of *COUNT elements. ARRAY is the address of the
 * pointer to it. False: out of memory. */
static bool append(arena *a, void *array, uint32_t *count, uint32_t *cap, const void *element, size_t size)
{
    size_t n64 = *count, cap64 = *cap;
    if (*count == UINT32_MAX || !arena_push(a, array, &n64, &cap64, element, size))
        return false;
    *count = (uint32_t)n64;
    *cap = cap64 < UINT32_MAX ? (uint32_t)cap64 : UINT32_MAX;
    return true;
}

static const struct value_call *as_call(const ckpt_value *value)
{
    return value && value->type == CKPT_V_CALL ? &value->u.call : NULL;
}

/* make_pairs - makes the pairs of DICT, which has VALUE_LAZY_PAIRS, unless that was done. */
static void make_pairs(const ckpt_value *dict)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    char *pairs = (char *)dict->u.dict.pairs;
    struct lazy_pairs *lazy = (struct lazy_pairs *)(void *)(pairs - offsetof(struct lazy_pairs, pairs));
    if (atomic_load_explicit(&lazy->is_made, memory_order_acquire))
        return;
    pthread_mutex_lock(&making);
    if (!lazy->is_made)
        lazy->make(lazy);
    atomic_store_explicit(&lazy->is_made, true, memory_order_release);
    pthread_mutex_unlock(&making);
}

bool value_append(arena *a, ckpt_value *seq_or_call, ckpt_value *item)
{
    if (value_is_sequence(seq_or_call))
        return append(a, &seq_or_call->u.seq.items, &seq_or_call->u.seq.n, &seq_or_call->u.seq.cap, &item,
                      sizeof item);
    struct value_extra *extra = as_call(seq_or_call) ? value_make_extra(a, seq_or_call) : NULL;
    return extra && append(a, &extra->items, &extra->nitems, &extra->cap_items, &item, sizeof item);
}

bool value_put(arena *a, ckpt_value *dict_or_call, ckpt_value *key, ckpt_value *val)
{
    value_pair pair = {key, val};
    if (dict_or_call->flags & VALUE_LAZY_PAIRS) { /* the larger array will be in the arena */
        make_pairs(dict_or_call);
        dict_or_call->flags &= (uint8_t)~VALUE_LAZY_PAIRS;
    }
    if (dict_or_call->type == CKPT_V_DICT)
        return append(a, &dict_or_call->u.dict.pairs, &dict_or_call->u.dict.n, &dict_or_call->u.dict.cap,
                      &pair, sizeof pair);
    struct value_extra *extra = as_call(dict_or_call) ? value_make_extra(a, dict_or_call) : NULL;
    return extra && append(a, &extra->pairs, &extra->npairs, &extra->cap_pairs, &pair, sizeof pair);
}

bool value_put_first(arena *a, ckpt_value *call, const value_pair *pairs, uint32_t count)
{
    struct value_extra *extra = as_call(call) ? value_make_extra(a, call) : NULL;
    value_pair *all = extra ? arena_array(a, (size_t)count + extra->npairs, sizeof *all) : NULL;
    if (!all || count > UINT32_MAX - extra->npairs)
        return false;
    if (count)
        memcpy(all, pairs, count * sizeof *pairs);
    if (extra->npairs)
        memcpy(all + count, extra->pairs, extra->npairs * sizeof *all);
    extra->pairs = all;
    extra->npairs += count;
    extra->cap_pairs = extra->npairs;
    if (extra->nstates)
        extra->entries_before_build = extra->entries_before_build > UINT32_MAX - count
                                          ? UINT32_MAX
                                          : extra->entries_before_build + count;
    return true;
}

bool value_add_state(arena *a, ckpt_value *call, ckpt_value *state)
{
    struct value_extra *extra = as_call(call) ? value_make_extra(a, call) : NULL;
    if (!extra)
        return false;
    if (extra->nstates == 0)
        extra->entries_before_build = extra->nitems > UINT32_MAX - extra->npairs
                                          ? UINT32_MAX
                                          : extra->nitems + extra->npairs;
    return append(a, &extra->states, &extra->nstates, &extra->cap_states, &state, sizeof state);
}

ckpt_str value_module(const ckpt_value *value)
{
    return value && value->type == CKPT_V_GLOBAL ? value->u.global.module_name[0] : str_of("", 0);
}

ckpt_str value_name(const ckpt_value *value)
{
    return value && value->type == CKPT_V_GLOBAL ? value->u.global.module_name[1] : str_of("", 0);
}

bool value_is_global(const ckpt_value *value, const char *module, const char *name)
{
    return value && value->type == CKPT_V_GLOBAL && str_is(value_name(value), name) &&
           str_is(value_module(value), module);
}

bool value_calls(const ckpt_value *value, const char *module, const char *name, uint32_t nargs)
{
    const struct value_call *c = as_call(value);
    return c && value_nargs(value) >= nargs && value_is_global(c->callable, module, name);
}

uint32_t value_count(const ckpt_value *value)
{
    uint32_t n;
    if (value_is_sequence(value))
        return value->u.seq.n;
    if (value && value->type == CKPT_V_DICT)
        return value->u.dict.n;
    value_pairs(value, &n);
    const struct value_call *c = as_call(value);
    return n == 0 && c ? value_extra_of(value)->nitems : n;
}

const value_pair *value_pairs(const ckpt_value *value, uint32_t *count)
{
    const struct value_call *c = as_call(value);
    if (value && value->type == CKPT_V_DICT) {
        if (value->flags & VALUE_LAZY_PAIRS)
            make_pairs(value);
        *count = value->u.dict.n;
        return value->u.dict.pairs;
    }
    *count = c ? value_extra_of(value)->npairs : 0;
    return *count ? value_extra_of(value)->pairs : NULL;
}

ckpt_value *value_get(const ckpt_value *mapping, const char *name)
{
    uint32_t n;
    ckpt_str key, wanted = str_c(name);
    const value_pair *pairs = value_pairs(mapping, &n);
    while (COUNT_DOWN(n))
        if (value_text(pairs[n].key, &key) && str_eq(key, wanted))
            return pairs[n].val;
    return NULL;
}

const ckpt_value *value_source_class(const ckpt_value *pid)
{
    ckpt_str tag;
    const ckpt_value *first = value_item(pid, 0), *class = first;
    if (value_text(first, &tag))
        class = str_is(tag, "module") ? value_item(pid, 1) : NULL;
    return class && class->type == CKPT_V_GLOBAL ? class : NULL;
}

ckpt_value *value_state(const ckpt_value *value)
{
    const struct value_call *c = as_call(value);
    const struct value_extra *extra = c ? value_extra_of(value) : &value_no_extra;
    return extra->nstates ? extra->states[extra->nstates - 1] : NULL;
}

map *value_index_keys(const ckpt_value *dict)
{
    uint32_t n;
    ckpt_str key;
    const value_pair *pairs = value_pairs(dict, &n);
    map *m = map_new(n);
    for (uint32_t i = 0; m && i < n; i++)
        if (value_text(pairs[i].key, &key) && !map_put(m, key, i, NULL)) {
            map_free(m);
            m = NULL;
        }
    return m;
}
