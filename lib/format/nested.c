/* nested.c - see nested.h. */
#include "format/nested.h"

/* add_node - adds VALUE, a container or NULL, to nested->nodes, and its index there to nested->child_of under
 * the key nested->child_key. False: no memory. */
static bool add_node(struct nested *nested, ckpt_value *value)
{
    ckpt_str key = arena_str(nested->a, buf_view(&nested->child_key));
    return buf_ok(&nested->child_key) && key.ptr &&
           map_put(nested->child_of, key, (uint32_t)nested->n, NULL) &&
           arena_push(nested->a, &nested->nodes, &nested->n, &nested->cap, &value, sizeof value);
}

bool nested_begin(struct nested *nested, arena *a, uint64_t max_items)
{
    *nested = (struct nested){.a = a, .max_items = max_items, .child_of = map_new(64)};
    buf_init(&nested->child_key, SIZE_MAX / 2);
    ckpt_value *root = value_new(a, CKPT_V_DICT, 0);
    return nested->child_of && root && add_node(nested, root);
}

void nested_end(struct nested *nested)
{
    map_free(nested->child_of);
    buf_free(&nested->child_key);
}

/* set_child_key - sets nested->child_key for element ELEM of a container: the index of the container in
 * nested->nodes (32 bits), 'i' or 's', and the number or name in ELEM. */
static void set_child_key(struct nested *nested, uint32_t container, const ckpt_path_elem *elem)
{
    nested->child_key.len = 0;
    buf_u32le(&nested->child_key, container);
    buf_byte(&nested->child_key, elem->is_int ? 'i' : 's');
    if (elem->is_int)
        buf_printf(&nested->child_key, "%lld", (long long)elem->num);
    else
        buf_put_str(&nested->child_key, elem->str);
}

/* put_item - sets item INDEX of LIST to VALUE. Appends None first for each item before INDEX that is
 * missing. */
static bool put_item(arena *a, ckpt_value *list, uint64_t index, ckpt_value *value)
{
    if (index < value_count(list)) {
        list->u.seq.items[index] = value;
        return true;
    }
    while (value_count(list) < index) {
        ckpt_value *none = value_new(a, CKPT_V_NONE, 0);
        if (!none || !value_append(a, list, none))
            return false;
    }
    return value_append(a, list, value);
}

static ckpt_status put_element(struct nested *nested, ckpt_value *container, const ckpt_path_elem *elem,
                               ckpt_value *value, ckpt_error *err)
{
    bool is_list = container->type == CKPT_V_LIST;
    if (is_list && !elem->is_int)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has {a name} where {=the number of a list item} is expected");
    if (is_list && (elem->num < 0 || (uint64_t)elem->num >= nested->max_items))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its path has item {%lld} of a list; {=numbers below %llu} are possible",
                    (long long)elem->num, (unsigned long long)nested->max_items);
    if (is_list)
        return put_item(nested->a, container, (uint64_t)elem->num, value) ? CKPT_OK : fail_memory(err);
    ckpt_value *key = elem->is_int ? value_int(nested->a, (int64_t)elem->num)
                                   : value_str(nested->a, elem->str);
    return key && value_put(nested->a, container, key, value) ? CKPT_OK : fail_memory(err);
}

ckpt_status nested_put(struct nested *nested, const ckpt_path_elem *path, uint32_t count, ckpt_value *value,
                       ckpt_error *err)
{
    uint32_t container = 0;
    bool is_free = count > 0;
    for (uint32_t k = 0; is_free && k < count; k++) {
        bool last = k + 1 == count;
        set_child_key(nested, container, &path[k]);
        CKPT_TRY_ALLOC(buf_ok(&nested->child_key), err);
        uint32_t child = map_get(nested->child_of, buf_view(&nested->child_key));
        if (child == MAP_NONE) {
            ckpt_value *made = last ? value
                                    : value_new(nested->a, path[k + 1].is_int ? CKPT_V_LIST : CKPT_V_DICT, 0);
            CKPT_TRY_ALLOC(made, err);
            CKPT_TRY(put_element(nested, nested->nodes[container], &path[k], made, err));
            child = (uint32_t)nested->n;
            CKPT_TRY_ALLOC(add_node(nested, last ? NULL : made), err);
        } else {
            is_free = !last && nested->nodes[child];
        }
        container = child;
    }
    return is_free ? CKPT_OK
                   : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                          "its path leads {to or through a value} of {=another name}");
}
