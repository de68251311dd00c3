/* containers.c - lists the containers in a file's graph, breadth first and without recursion. */
#include "op/containers.h"

#include <stdlib.h>

#include "core/view.h"

static bool is_ordered_dict(const ckpt_value *value)
{
    return value_calls(value, "collections", "OrderedDict", 0);
}

/* pairs_node - returns the node whose pairs are the entries of the mapping VALUE: VALUE itself, or the dict
 * that is copied into VALUE. */
static const ckpt_value *pairs_node(const ckpt_value *value)
{
    bool may_copy = value && value->type == CKPT_V_CALL && !value_extra_of(value)->npairs;
    const ckpt_value *content = may_copy ? creation_of(value).content : NULL;
    return content && content->type == CKPT_V_DICT ? content : value;
}

struct entries mapping_entries(const ckpt_value *value)
{
    struct entries all = {.node = pairs_node(value)};
    all.pairs = value_pairs(all.node, &all.n);
    if (!all.n && (all.list = view_ordered_dict_argument(value)))
        all.n = all.list->u.seq.n;
    return all;
}

uint32_t mapping_count(const ckpt_value *value) { return mapping_entries(value).n; }

bool list_entry(const ckpt_value *list, uint32_t index, struct entry *entry)
{
    const ckpt_value *pair = value_item(list, index);
    if (!pair)
        return false;
    *entry = (struct entry){.key = value_item(pair, 0),
                            .val = value_item(pair, 1),
                            .key_edit = {pair, 0, value_count(pair)},
                            .entry_edit = {list, index, value_count(list)}};
    return entry->key && entry->val;
}

bool mapping_entry(const ckpt_value *value, uint32_t index, struct entry *entry)
{
    const struct entries all = mapping_entries(value);
    return entries_get(&all, index, entry);
}

const ckpt_value *mapping_get(const ckpt_value *value, const char *name)
{
    struct entry e;
    ckpt_str key, wanted = str_c(name);
    if (value && value->type == CKPT_V_DICT)
        return value_get(value, name);
    const struct entries all = mapping_entries(value);
    for (uint32_t i = all.n; COUNT_DOWN(i);)
        if (entries_get(&all, i, &e) && value_text(e.key, &key) && str_eq(key, wanted))
            return e.val;
    return NULL;
}

const ckpt_value *mapping_metadata(const ckpt_value *value)
{
    if (!value || value->type != CKPT_V_CALL)
        return NULL;
    const struct value_extra *more = value_extra_of(value);
    for (uint32_t i = more->nstates; COUNT_DOWN(i);) {
        const ckpt_value *m = value_get(more->states[i], "_metadata");
        if (m)
            return m;
    }
    return NULL;
}

static bool is_tensor_value(const ckpt_value *value)
{
    return value_row(value) != CKPT_NO_TENSOR || value->type == CKPT_V_TENSOR;
}

bool is_tensor_node(const struct containers *tree, const ckpt_value *value)
{
    return is_tensor_value(file_replacement_of(tree->file, value));
}

uint32_t container_of_node(const struct containers *tree, const ckpt_value *value)
{
    uint32_t i = map_get_num(tree->seen, ptr_key(file_replacement_of(tree->file, value)));
    return i == MAP_NONE ? NO_CONTAINER : i;
}

static bool is_container(const ckpt_value *value)
{
    return value->type == CKPT_V_LIST || value->type == CKPT_V_TUPLE || value->type == CKPT_V_DICT ||
           value->type == CKPT_V_CALL;
}

static bool is_optimizer_name(const ckpt_path_elem *elem)
{
    return !elem->is_int && (str_starts(elem->str, STR_LIT("optim")) || str_is(elem->str, "opt"));
}

static ckpt_status add_container(struct containers *tree, const ckpt_value *value, uint32_t parent,
                                 const ckpt_path_elem *elem, ckpt_error *err)
{
    uint32_t earlier;
    CKPT_TRY_ALLOC(map_put_num(tree->seen, ptr_key(value), (uint32_t)tree->n, &earlier), err);
    if (earlier != MAP_NONE)
        return CKPT_OK;
    struct container added = {.node = value, .parent = parent, .elem = *elem};
    if (parent != NO_CONTAINER) {
        const struct container *outer = &tree->list[parent];
        added.in_optimizer = outer->in_optimizer || outer->is_optimizer || is_optimizer_name(elem);
        added.extra_state = outer->extra_state ||
                            (!elem->is_int && str_ends(elem->str, STR_LIT("_extra_state")));
    }
    bool pushed = tree->n < NO_CONTAINER &&
                  arena_push(NULL, &tree->list, &tree->n, &tree->cap, &added, sizeof added);
    return pushed ? CKPT_OK : fail_memory(err);
}

static ckpt_status add_child(struct containers *tree, uint32_t at, const ckpt_value *value,
                             const ckpt_path_elem *elem, ckpt_error *err)
{
    value = value ? file_replacement_of(tree->file, value) : NULL;
    if (!value || !is_container(value) || is_tensor_value(value))
        return CKPT_OK;
    return add_container(tree, value, at, elem, err);
}

static ckpt_status add_entries(struct containers *tree, uint32_t at, const ckpt_value *mapping,
                               ckpt_error *err)
{
    const struct entries all = mapping_entries(mapping);
    struct entry e;
    ckpt_path_elem elem;
    for (uint32_t i = 0; i < all.n; i++) {
        if (!entries_get(&all, i, &e) || !is_container(e.val) || is_tensor_node(tree, e.val))
            continue;
        CKPT_TRY(path_elem_from_key(tree->a, e.key, &elem, err));
        CKPT_TRY(add_child(tree, at, e.val, &elem, err));
    }
    return CKPT_OK;
}

static ckpt_status add_items_of(struct containers *tree, uint32_t at, ckpt_value *const *list, uint32_t count,
                                ckpt_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        CKPT_TRY(add_child(tree, at, list[i], &(ckpt_path_elem){.is_int = true, .num = i}, err));
    return CKPT_OK;
}

/* add_attributes - adds the attributes of an object: its BUILD has a dict or a pair (dict, slots). */
static ckpt_status add_attributes(struct containers *tree, uint32_t at, const ckpt_value *value,
                                  ckpt_error *err)
{
    const ckpt_value *state = value_state(value);
    if (!state || is_ordered_dict(value))
        return CKPT_OK;
    if (state->type == CKPT_V_TUPLE && state->u.seq.n == 2) {
        CKPT_TRY(add_entries(tree, at, state->u.seq.items[0], err));
        return add_entries(tree, at, state->u.seq.items[1], err);
    }
    return state->type == CKPT_V_DICT ? add_entries(tree, at, state, err) : CKPT_OK;
}

static ckpt_status add_children(struct containers *tree, uint32_t at, ckpt_error *err)
{
    const ckpt_value *v = tree->list[at].node;
    size_t first_child = tree->n;
    if (v->type == CKPT_V_LIST || v->type == CKPT_V_TUPLE)
        CKPT_TRY(add_items_of(tree, at, v->u.seq.items, v->u.seq.n, err));
    else if (tree->list[at].tensor_entries < tree->list[at].entries)
        CKPT_TRY(add_entries(tree, at, v, err));
    if (v->type == CKPT_V_CALL) {
        const struct creation made = creation_of(v);
        const struct view args = view_arguments(v);
        if (made.content && made.content->type == CKPT_V_LIST)
            CKPT_TRY(add_items_of(tree, at, made.content->u.seq.items, made.content->u.seq.n, err));
        if (made.by_new && !made.kwargs) /* namedtuple */
            CKPT_TRY(add_items_of(tree, at, args.arrays[0].items, args.arrays[0].n, err));
        CKPT_TRY(add_items_of(tree, at, value_extra_of(v)->items, value_extra_of(v)->nitems, err));
        CKPT_TRY(add_attributes(tree, at, v, err));
    }
    tree->list[at].first = (uint32_t)first_child;
    tree->list[at].nchildren = (uint32_t)(tree->n - first_child);
    return CKPT_OK;
}

static void count_entry(const struct containers *tree, struct container *container, const struct entry *entry)
{
    ckpt_str key;
    uint32_t row = value_row(file_replacement_of(tree->file, entry->val));
    container->tensor_entries++;
    if (!value_text(entry->key, &key))
        return;
    container->text_key_tensors++;
    container->dotted_tensors += key.len && memchr(key.ptr, '.', key.len);
    container->tensors_with_dims += row < tree->file->table.nrows &&
                                    table_ndim_of(&tree->file->table, row) > 0;
}

/* classify - sets the fields of CONTAINER that depend on its entries. add_children() needs is_optimizer. */
static void classify(struct containers *tree, struct container *container)
{
    const struct entries all = mapping_entries(container->node);
    struct entry e;
    container->is_mapping = container->node->type == CKPT_V_DICT || all.n > 0 ||
                            is_ordered_dict(container->node);
    if (!container->is_mapping) {
        for (uint32_t i = 0; i < value_count(container->node); i++) {
            const ckpt_value *v = value_item(container->node, i);
            container->tensor_entries += v && is_tensor_node(tree, v);
        }
        container->tensors_below = container->tensor_entries;
        return;
    }
    container->entries = all.n;
    container->has_metadata = mapping_metadata(container->node) != NULL;
    for (uint32_t i = 0; i < container->entries; i++)
        if (entries_get(&all, i, &e) && is_tensor_node(tree, e.val))
            count_entry(tree, container, &e);
    container->tensors_below = container->tensor_entries;
    const ckpt_value *state = mapping_get(container->node, "state"),
                     *groups = mapping_get(container->node, "param_groups");
    container->is_optimizer = state && groups && (state->type == CKPT_V_DICT || state->type == CKPT_V_CALL) &&
                              (groups->type == CKPT_V_LIST || groups->type == CKPT_V_DICT);
    container->is_state_dict = !container->in_optimizer && !container->is_optimizer &&
                               ((container->text_key_tensors &&
                                 container->text_key_tensors >=
                                     container->entries - container->text_key_tensors) ||
                                container->has_metadata);
}

ckpt_status containers_find(struct containers *tree, const ckpt_file *file, const ckpt_value *root, arena *a,
                            ckpt_error *err)
{
    *tree = (struct containers){.file = file, .a = a, .seen = map_new(0)};
    CKPT_TRY_ALLOC(tree->seen, err);
    CKPT_TRY(add_child(tree, NO_CONTAINER, root, &(ckpt_path_elem){0}, err));
    for (uint32_t i = 0; i < tree->n; i++) {
        classify(tree, &tree->list[i]);
        CKPT_TRY(add_children(tree, i, err));
    }
    for (size_t i = tree->n; COUNT_DOWN(i) && i;) {
        const struct container *p = &tree->list[i];
        if (!p->in_optimizer && !p->is_optimizer && !p->extra_state)
            tree->list[p->parent].tensors_below += p->tensors_below;
    }
    return CKPT_OK;
}

void containers_free(struct containers *tree)
{
    free(tree->list);
    map_free(tree->seen);
    *tree = (struct containers){0};
}

ckpt_path_elem *container_path(const struct containers *tree, uint32_t index, uint32_t *count)
{
    uint32_t depth = 0;
    for (uint32_t k = index; tree->list[k].parent != NO_CONTAINER; k = tree->list[k].parent)
        depth++;
    ckpt_path_elem *path = arena_array(tree->a, depth, sizeof *path);
    *count = depth;
    for (uint32_t k = index; path && depth; k = tree->list[k].parent)
        path[--depth] = tree->list[k].elem;
    return path;
}

ckpt_str container_name(const struct containers *tree, uint32_t index)
{
    uint32_t n;
    ckpt_path_elem *path = container_path(tree, index, &n);
    return path ? path_join(tree->a, path, n) : str_of(NULL, 0);
}
