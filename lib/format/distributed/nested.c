/* nested.c - see nested.h. */
#include "format/distributed/nested.h"

bool nested_begin(struct nested *t, arena *a, uint64_t most)
{
    *t = (struct nested){.a = a, .most = most, .known = map_new(64)};
    buf_init(&t->spelled, 1u << 20);
    t->node = arena_grow(a, NULL, 0, &t->cap, 64, sizeof *t->node);
    if (!t->known || !t->node || !(t->node[0].v = value_new(a, CKPT_V_DICT, 0)))
        return false;
    t->n = 1;
    return true;
}

void nested_end(struct nested *t)
{
    map_free(t->known);
    buf_free(&t->spelled);
}

/* spell - appends E to t->spelled. */
static void spell(struct nested *t, const ckpt_path_elem *e)
{
    if (e->is_int)
        buf_printf(&t->spelled, "%llu/", (unsigned long long)e->num);
    else
        buf_printf(&t->spelled, "%zu:", e->str.len);
    if (!e->is_int)
        buf_str(&t->spelled, e->str);
}

static ckpt_value *key_of(arena *a, const ckpt_path_elem *e)
{
    return e->is_int ? value_int(a, (int64_t)e->num) : value_str(a, e->str);
}

/* put_item - sets item I of LIST to V; items before it that are still missing become None. */
static bool put_item(arena *a, ckpt_value *list, uint64_t i, ckpt_value *v)
{
    if (i < value_count(list)) {
        list->u.seq.items[i] = v;
        return true;
    }
    while (value_count(list) < i) {
        ckpt_value *none = value_new(a, CKPT_V_NONE, 0);
        if (!none || !value_append(a, list, none))
            return false;
    }
    return value_append(a, list, v);
}

/* put_into - sets entry E of the container at node PARENT to V. */
static ckpt_status put_into(struct nested *t, size_t parent, const ckpt_path_elem *e, ckpt_value *v,
                            ckpt_error *err)
{
    ckpt_value *in = t->node[parent].v;
    if (in->type == CKPT_V_LIST && !e->is_int)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has {a name} where {=the number of an item} was");
    if (in->type == CKPT_V_LIST && (e->num < 0 || (uint64_t)e->num >= t->most))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has item {%lld} of a list; {=fewer than %llu} are there", (long long)e->num,
                    (unsigned long long)t->most);
    bool put = in->type == CKPT_V_LIST ? put_item(t->a, in, (uint64_t)e->num, v)
                                       : value_put(t->a, in, key_of(t->a, e), v);
    return put ? CKPT_OK : fail_memory(err);
}

/* add_node - adds a node for V, a container or NULL for a value, at the path t->spelled. */
static ckpt_status add_node(struct nested *t, ckpt_value *v, size_t *index, ckpt_error *err)
{
    struct nested_node *grown = arena_grow(t->a, t->node, t->n, &t->cap, t->n + 1, sizeof *grown);
    ckpt_str key = arena_str(t->a, buf_view(&t->spelled));
    if (!grown || !buf_ok(&t->spelled) || !key.ptr || !map_put(t->known, key, (uint32_t)t->n, NULL))
        return fail_memory(err);
    t->node = grown;
    t->node[t->n].v = v;
    *index = t->n++;
    return CKPT_OK;
}

static ckpt_status fail_twice(ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "its path leads {to or through a value} of {=another name}");
}

ckpt_status nested_put(struct nested *t, const ckpt_path_elem *path, uint32_t n, ckpt_value *v,
                       ckpt_error *err)
{
    size_t at = 0, child = 0;
    t->spelled.len = 0;
    for (uint32_t k = 0; k < n; k++) {
        bool last = k + 1 == n;
        spell(t, &path[k]);
        uint32_t known = map_get(t->known, buf_view(&t->spelled));
        if (known != MAP_NONE && (last || !t->node[known].v))
            return fail_twice(err);
        if (known != MAP_NONE) {
            at = known;
            continue;
        }
        ckpt_value *made = last ? v : value_new(t->a, path[k + 1].is_int ? CKPT_V_LIST : CKPT_V_DICT, 0);
        if (!made)
            return fail_memory(err);
        CKPT_TRY(put_into(t, at, &path[k], made, err));
        CKPT_TRY(add_node(t, last ? NULL : made, &child, err));
        at = child;
    }
    return n ? CKPT_OK : fail_twice(err);
}
