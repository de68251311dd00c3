/* graph_visit.c - see graph_visit.h. */
#include "core/graph_visit.h"

#include <stdlib.h>

typedef bool visitor(void *user, const ckpt_value *child);

static bool visit_all(ckpt_value *const *items, uint32_t count, visitor *visit, void *user)
{
    for (uint32_t i = 0; i < count; i++)
        if (!visit(user, items[i]))
            return false;
    return true;
}

static bool visit_pairs(const ckpt_value *value, visitor *visit, void *user)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(value, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!visit(user, pairs[i].key) || !visit(user, pairs[i].val))
            return false;
    return true;
}

static bool visit_call(const ckpt_value *value, visitor *visit, void *user)
{
    const struct value_call *c = &value->u.call;
    const struct value_extra *extra = value_extra_of(value);
    return visit(user, c->callable) && visit(user, c->args) &&
           (!extra->kwargs || visit(user, extra->kwargs)) && visit_pairs(value, visit, user) &&
           visit_all(extra->items, extra->nitems, visit, user) &&
           visit_all(extra->states, extra->nstates, visit, user);
}

bool graph_visit_children(const ckpt_value *value, visitor *visit, void *user)
{
    switch (value->type) {
    case CKPT_V_DICT: return visit_pairs(value, visit, user);
    case CKPT_V_PERSID: return visit(user, value->u.pid);
    case CKPT_V_CALL: return visit_call(value, visit, user);
    case CKPT_V_LIST:
    case CKPT_V_TUPLE:
    case CKPT_V_SET:
    case CKPT_V_FROZENSET: return visit_all(value->u.seq.items, value->u.seq.n, visit, user);
    default: return true;
    }
}

static bool add_unseen(void *user, const ckpt_value *value)
{
    struct graph_visit *visit = user;
    uint32_t old;
    /* types below STR8 have no children */
    if (!value || value->type < CKPT_V_STR8 || value->type == CKPT_V_BYTES ||
        value->type == CKPT_V_BYTEARRAY || value->type == CKPT_V_GLOBAL || value->type == CKPT_V_TENSOR)
        return true;
    if (!map_put_num(visit->seen, ptr_key(value), 0, &old))
        return false;
    return old != MAP_NONE || arena_push(NULL, &visit->waiting, &visit->n, &visit->cap, &value, sizeof value);
}

bool graph_visit_add(struct graph_visit *visit, const ckpt_value *value) { return add_unseen(visit, value); }

const ckpt_value *graph_visit_next(struct graph_visit *visit, bool *ok)
{
    const ckpt_value *v = visit->n ? visit->waiting[--visit->n] : NULL;
    *ok = !v || graph_visit_children(v, add_unseen, visit);
    return *ok ? v : NULL;
}

void graph_visit_free(struct graph_visit *visit)
{
    free(visit->waiting);
    map_free(visit->seen);
}
