/* nested.c - see nested.h. */
#include "format/nested.h"

/* add_node - adds V, a container or NULL, to t->nodes, and its index there to t->child_of under the key
 * t->child_key. False: no memory. */
static bool add_node(struct nested *t, ckpt_value *v)
{
    ckpt_str key = arena_str(t->a, buf_view(&t->child_key));
    return buf_ok(&t->child_key) && key.ptr && map_put(t->child_of, key, (uint32_t)t->n, NULL) &&
           arena_push(t->a, &t->nodes, &t->n, &t->cap, &v, sizeof v);
}

bool nested_begin(struct nested *t, arena *a, uint64_t max_items)
{
    *t = (struct nested){.a = a, .max_items = max_items, .child_of = map_new(64)};
    buf_init(&t->child_key, SIZE_MAX / 2);
    ckpt_value *root = value_new(a, CKPT_V_DICT, 0);
    return t->child_of && root && add_node(t, root);
}

void nested_end(struct nested *t)
{
    map_free(t->child_of);
    buf_free(&t->child_key);
}

/* set_child_key - sets t->child_key for element E of a container: the index of the container in t->nodes (32
 * bits), 'i' or 's', and the number or name in E. */
static void set_child_key(struct nested *t, uint32_t container, const ckpt_path_elem *e)
{
    t->child_key.len = 0;
    buf_u32le(&t->child_key, container);
    buf_byte(&t->child_key, e->is_int ? 'i' : 's');
    if (e->is_int)
        buf_printf(&t->child_key, "%lld", (long long)e->num);
    else
        buf_put_str(&t->child_key, e->str);
}

/* put_item - sets item I of LIST to V. Appends None first for each item before I that is missing. */
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

static ckpt_status put_element(struct nested *t, ckpt_value *container, const ckpt_path_elem *e,
                               ckpt_value *v, ckpt_error *err)
{
    bool is_list = container->type == CKPT_V_LIST;
    if (is_list && !e->is_int)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has {a name} where {=the number of a list item} is expected");
    if (is_list && (e->num < 0 || (uint64_t)e->num >= t->max_items))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has item {%lld} of a list; {=numbers below %llu} are possible",
                    (long long)e->num, (unsigned long long)t->max_items);
    if (is_list)
        return put_item(t->a, container, (uint64_t)e->num, v) ? CKPT_OK : fail_memory(err);
    ckpt_value *key = e->is_int ? value_int(t->a, (int64_t)e->num) : value_str(t->a, e->str);
    return key && value_put(t->a, container, key, v) ? CKPT_OK : fail_memory(err);
}

ckpt_status nested_put(struct nested *t, const ckpt_path_elem *path, uint32_t n, ckpt_value *v,
                       ckpt_error *err)
{
    uint32_t container = 0;
    bool is_free = n > 0;
    for (uint32_t k = 0; is_free && k < n; k++) {
        bool last = k + 1 == n;
        set_child_key(t, container, &path[k]);
        CKPT_TRY_ALLOC(buf_ok(&t->child_key), err);
        uint32_t child = map_get(t->child_of, buf_view(&t->child_key));
        if (child == MAP_NONE) {
            ckpt_value *made = last ? v : value_new(t->a, path[k + 1].is_int ? CKPT_V_LIST : CKPT_V_DICT, 0);
            CKPT_TRY_ALLOC(made, err);
            CKPT_TRY(put_element(t, t->nodes[container], &path[k], made, err));
            child = (uint32_t)t->n;
            CKPT_TRY_ALLOC(add_node(t, last ? NULL : made), err);
        } else {
            is_free = !last && t->nodes[child];
        }
        container = child;
    }
    return is_free ? CKPT_OK
                   : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                          "its path leads {to or through a value} of {=another name}");
}
