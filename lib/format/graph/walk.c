/*
 * walk.c - walks the value graph of a torch pickle in document order and fills the table:
 * containers are entered, tensors become rows, everything else a leaf.
 *
 *   dict, OrderedDict, dict subclass   one step per key, then the attributes
 *   list, tuple, namedtuple, deque     one step per index
 *   nn.Module                          its state_dict(): _parameters, persistent
 *                                      _buffers, those of _modules
 *   another object                     a leaf if it has no items; its attributes are walked,
 *                                      those of torch's and Python's objects only for tensors
 *   restore_type_tag(value, type), TensorDict … (core/view.h: view_content)
 *                                      the value in it
 *   set                                a leaf
 *   tensor                             a row; its Python attributes are walked
 *
 * The walk keeps its own list of pending nodes, so that deep files do not use the C stack. A node has the
 * flag VALUE_ON_PATH while its children are visited, so that cycles end. A container with two paths is listed
 * under both.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "core/check.h"
#include "core/view.h"
#include "format/graph/rebuild.h"
#include "format/graph/walk.h"

/* A node to be visited, or the entries of a container from STEP on. */
struct pending_node {
    const ckpt_value *v;   /* NULL: entries of a container */
    const ckpt_value *key; /* of V, if has_key; set by take_pending */
    const char *name; /* the last element of V's path; NULL: the key or index at STEP is the last element */
    struct step step; /* the position of V in its container */
    uint32_t end;     /* of the entries of a container: the position after the last one */
    uint32_t first_item; /* the position there of the item that has the number 0 */
    uint32_t depth;      /* length of the path of V */
    uint32_t part_of;    /* the row of the composite that V belongs to, or CKPT_NO_TENSOR */
    bool has_key;        /* step.index is that of a pair, not of an item */
    bool is_exit;        /* the walk comes to this entry when it has visited all children of V */
    bool tensors_only; /* V is inside an object of torch's own: its tensors are listed, its leaves are not */
    bool is_component; /* V is a component of a composite: if V is a list of numbers, it is a tensor */
};

struct walker {
    struct graph g;
    struct pending_node *pending;
    size_t npending, cap_pending;
    ckpt_path_elem *path;
    struct step *steps;
    const ckpt_value **ancestors; /* [d]: the node at depth d on the way from the root to the current node */
    uint32_t cap_path;
    size_t first_child; /* index in PENDING of the first child of the current node */
};

/* --------------------------------------------------------------- work list */

static ckpt_status push_pending(struct walker *walker, const struct pending_node *pending)
{
    return arena_push(NULL, &walker->pending, &walker->npending, &walker->cap_pending, pending,
                      sizeof *pending)
               ? CKPT_OK
               : fail_memory(walker->g.err);
}

/* push_children - appends PENDING, which stands for COUNT nodes, to those to visit; refuses more nodes than
 * the limit on tensors. */
static ckpt_status push_children(struct walker *walker, const struct pending_node *pending, uint32_t count)
{
    uint64_t max = walker->g.f->limits.max_tensors;
    if (walker->npending >= max || count > max - walker->npending)
        return fail(walker->g.err, CKPT_ELIMIT, CKPT_NO_OFFSET, "the file has {more} than {=%llu values}",
                    (unsigned long long)max);
    return push_pending(walker, pending);
}

static ckpt_status push_child(struct walker *walker, const struct pending_node *pending)
{
    return push_children(walker, pending, 1);
}

/* take_pending - removes the next node from the list. */
static struct pending_node take_pending(struct walker *walker)
{
    uint32_t n;
    struct pending_node *last = &walker->pending[walker->npending - 1], p = *last;
    if (p.v || ++last->step.index == p.end)
        walker->npending--;
    if (!p.v && p.has_key) {
        value_pair pair = value_pairs(p.step.node, &n)[p.step.index];
        p.v = pair.val;
        p.key = pair.key;
    } else if (!p.v) {
        p.v = value_item(p.step.node, p.step.index);
    }
    return p;
}

static bool has_children(const struct walker *walker) { return walker->npending > walker->first_child; }

/* open_node - sets the flag VALUE_ON_PATH of PENDING, and adds an entry that clears it. Nodes are taken from
 * the end of the list, so this entry goes before the children of PENDING, and the children are reversed. */
static ckpt_status open_node(struct walker *walker, const struct pending_node *pending)
{
    struct pending_node exit_entry = *pending;
    exit_entry.is_exit = true;
    ((ckpt_value *)(uintptr_t)pending->v)->flags |= VALUE_ON_PATH;
    CKPT_TRY(push_pending(walker, &exit_entry));
    for (size_t i = walker->first_child, j = walker->npending - 1; i < j; i++, j--) {
        struct pending_node t = walker->pending[i];
        walker->pending[i] = walker->pending[j];
        walker->pending[j] = t;
    }
    return CKPT_OK;
}

static ckpt_status make_path_element(struct walker *walker, const struct pending_node *pending,
                                     ckpt_path_elem *out)
{
    if (pending->has_key)
        return path_elem_from_key(walker->g.f->a, pending->key, out, walker->g.err);
    *out = pending->name ? (ckpt_path_elem){.str = str_c(pending->name)}
                         : (ckpt_path_elem){.is_int = true, .num = pending->step.index - pending->first_item};
    return CKPT_OK;
}

/* push_entries - pushes the entries of NODE from FIRST up to END: pairs if they have keys, else items. */
static ckpt_status push_entries(struct walker *walker, const struct pending_node *pending, struct step first,
                                uint32_t end, bool has_key, bool tensors_only)
{
    struct pending_node c = {.step = first,
                             .end = end,
                             .first_item = first.index,
                             .has_key = has_key,
                             .depth = pending->depth + 1,
                             .part_of = pending->part_of,
                             .tensors_only = tensors_only};
    return first.index < end ? push_children(walker, &c, end - first.index) : CKPT_OK;
}

static ckpt_status push_mapping_entries(struct walker *walker, const struct pending_node *pending,
                                        const ckpt_value *node, bool tensors_only)
{
    uint32_t n;
    (void)value_pairs(node, &n);
    return push_entries(walker, pending, (struct step){node, 0}, n, true, tensors_only);
}

/* push_items - pushes the items of NODE, a sequence or CALL, from index FIRST on. */
static ckpt_status push_items(struct walker *walker, const struct pending_node *pending,
                              const ckpt_value *node, uint32_t first)
{
    uint32_t n = node->type == CKPT_V_CALL ? value_extra_of(node)->nitems : value_count(node);
    return push_entries(walker, pending, (struct step){node, first}, n, false, pending->tensors_only);
}

/* -------------------------------------------------------------------- rows */

static ckpt_status add_leaf(struct walker *walker, const struct pending_node *pending)
{
    if (pending->tensors_only)
        return CKPT_OK;
    const ckpt_value **containers = arena_array(walker->g.f->a, pending->depth, sizeof *containers);
    ckpt_path_elem *path = arena_array(walker->g.f->a, pending->depth, sizeof *path);
    if (!path || !containers)
        return fail_memory(walker->g.err);
    if (pending->depth) {
        memcpy(path, walker->path, pending->depth * sizeof *path);
        memcpy(containers, walker->ancestors, pending->depth * sizeof *containers);
    }
    CKPT_TRY(file_add_leaf(walker->g.f, path, pending->depth, pending->v, walker->g.err));
    walker->g.f->leaves[walker->g.f->nleaves - 1].containers = containers;
    return CKPT_OK;
}

static ckpt_status add_row(struct walker *walker, const struct pending_node *pending,
                           struct tensor_description *description, uint32_t *index)
{
    struct row *r = &description->row;
    r->t.path = walker->path;
    r->t.npath = pending->depth;
    r->steps = walker->steps;
    if (pending->depth == 1 && !walker->path[0].is_int)
        r->t.name = walker->path[0].str; /* the reader of the pickle put a NUL after it */
    r->t.part_of = pending->part_of;
    CKPT_TRY(file_add_row(walker->g.f, r, index, walker->g.err));
    ckpt_value *v = (ckpt_value *)(uintptr_t)pending->v;
    if (value_row(v) == CKPT_NO_TENSOR)
        value_set_row(v, *index);
    return CKPT_OK;
}

/* push_state - pushes the attributes in the dict STATE. A state of another type is pushed as one child. */
static ckpt_status push_state(struct walker *walker, const struct pending_node *pending,
                              const ckpt_value *state)
{
    struct pending_node c = {.v = state,
                             .name = "__setstate__",
                             .depth = pending->depth + 1,
                             .part_of = pending->part_of,
                             .tensors_only = pending->tensors_only};
    if (!state || state->type == CKPT_V_NONE)
        return CKPT_OK;
    return state->type == CKPT_V_DICT ? push_mapping_entries(walker, pending, state, pending->tensors_only)
                                      : push_child(walker, &c);
}

static bool state_holds_components(uint32_t kind)
{
    return kind == CKPT_WRAPPER || kind == CKPT_DTENSOR || kind == CKPT_SHARDED || kind == CKPT_NESTED_JAGGED;
}

/* push_tensor_attributes - pushes the attributes that Python code set on tensor PENDING and on those it
 * wraps. */
static ckpt_status push_tensor_attributes(struct walker *walker, const struct pending_node *pending)
{
    const ckpt_value *state, *v = pending->v;
    while (v) {
        v = torch_wrapped_tensor(&walker->g, v, &state);
        if (!state)
            continue;
        bool is_pair = state->type == CKPT_V_TUPLE && value_count(state) == 2; /* __dict__, slots */
        CKPT_TRY(push_state(walker, pending, is_pair ? value_item(state, 0) : state));
        CKPT_TRY(push_state(walker, pending, is_pair ? value_item(state, 1) : NULL));
    }
    return CKPT_OK;
}

static ckpt_status visit_tensor(struct walker *walker, const struct pending_node *pending,
                                struct tensor_description *description)
{
    uint32_t index;
    CKPT_TRY(add_row(walker, pending, description, &index));
    for (unsigned i = 0; i < description->ncomponents; i++) {
        const struct pending_node component = {.v = description->components[i].value,
                                               .name = description->components[i].name,
                                               .depth = pending->depth + 1,
                                               .part_of = index,
                                               .tensors_only = true,
                                               .is_component = true};
        if (component.v)
            CKPT_TRY(push_child(walker, &component));
    }
    if (!pending->is_component && !state_holds_components(description->row.t.kind))
        CKPT_TRY(push_tensor_attributes(walker, pending));
    return has_children(walker) ? open_node(walker, pending) : CKPT_OK;
}

/* ---------------------------------------------------------------- nn.Module */

static bool is_mapping(const ckpt_value *value)
{
    uint32_t n;
    return value && (value->type == CKPT_V_DICT || (value_pairs(value, &n) && n) ||
                     value_calls(value, "collections", "OrderedDict", 0));
}

/* is_module - returns true if VALUE has the attributes that every nn.Module has had since torch 0.1. */
static bool is_module(const ckpt_value *value)
{
    return value->type == CKPT_V_CALL && is_mapping(object_attr(value, "_parameters")) &&
           is_mapping(object_attr(value, "_buffers")) && is_mapping(object_attr(value, "_modules"));
}

static bool set_contains(const ckpt_value *set, ckpt_str name)
{
    ckpt_str s;
    /* before protocol 4, a set is the call set([…]) */
    const ckpt_value *items = set && set->type == CKPT_V_CALL ? value_arg(set, 0) : set;
    for (uint32_t i = 0; items && i < value_count(items); i++)
        if (value_text(value_item(items, i), &s) && str_eq(s, name))
            return true;
    return false;
}

static ckpt_status move_pairs_to_call(struct walker *walker, ckpt_value *value);

/* get_module_dict - sets *PAIRS and *COUNT to the entries of the dict that is attribute ATTR of MODULE. */
static ckpt_status get_module_dict(struct walker *walker, const ckpt_value *module, const char *attr,
                                   const value_pair **pairs, uint32_t *count)
{
    ckpt_value *dict = (ckpt_value *)(uintptr_t)object_attr(module, attr);
    if (dict->type == CKPT_V_CALL)
        CKPT_TRY(move_pairs_to_call(walker, dict));
    *pairs = value_pairs(dict, count);
    return CKPT_OK;
}

static ckpt_status add_module_entries(struct walker *walker, const ckpt_value *module, const char *attr,
                                      ckpt_str prefix, ckpt_value *out)
{
    uint32_t n;
    const value_pair *pairs;
    const ckpt_value *non_persistent = strcmp(attr, "_buffers") == 0
                                           ? object_attr(module, "_non_persistent_buffers_set")
                                           : NULL;
    CKPT_TRY(get_module_dict(walker, module, attr, &pairs, &n));
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str name;
        if (!value_text(pairs[i].key, &name) || pairs[i].val->type == CKPT_V_NONE ||
            set_contains(non_persistent, name))
            continue;
        if (!torch_put_entry(walker->g.f->a, out, prefix, name, torch_parameter_data(pairs[i].val)))
            return fail_memory(walker->g.err);
    }
    return CKPT_OK;
}

bool torch_put_entry(arena *a, ckpt_value *dict, ckpt_str prefix, ckpt_str name, ckpt_value *value)
{
    ckpt_str full = ARENA_CONCAT(a, prefix, name);
    ckpt_value *key = full.ptr ? value_str(a, full) : NULL;
    return key && value_put(a, dict, key, value);
}

ckpt_status torch_push_submodule(arena *a, struct torch_modules *list, const struct torch_module *parent,
                                 ckpt_str name, const ckpt_value *object, ckpt_error *err)
{
    ckpt_str prefix = ARENA_CONCAT(a, parent->prefix, name, STR_LIT("."));
    const struct torch_module module = {object, prefix, parent->depth + 1};
    bool ok = prefix.ptr && arena_push(a, &list->modules, &list->n, &list->cap, &module, sizeof module);
    return ok ? CKPT_OK : fail_memory(err);
}

/* push_submodules - appends the submodules of PARENT to LIST, last first. */
static ckpt_status push_submodules(struct walker *walker, const struct torch_module *parent,
                                   struct torch_modules *list)
{
    uint32_t count;
    const value_pair *pairs;
    CKPT_TRY(get_module_dict(walker, parent->object, "_modules", &pairs, &count));
    if (parent->depth >= walker->g.f->limits.max_depth)
        return fail(walker->g.err, CKPT_ELIMIT, graph_offset(&walker->g, parent->object),
                    "modules are nested {deeper} than {=%u}", parent->depth);
    for (uint32_t i = count; COUNT_DOWN(i);) {
        ckpt_str name;
        if (!value_text(pairs[i].key, &name) || !is_module(pairs[i].val))
            continue;
        if (list->n >= walker->g.f->limits.max_tensors)
            return fail(walker->g.err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                        "the model has {more} than {=%zu modules}", list->n);
        CKPT_TRY(torch_push_submodule(walker->g.f->a, list, parent, name, pairs[i].val, walker->g.err));
    }
    return CKPT_OK;
}

/* make_state_dict - sets *OUT to the OrderedDict that MODULE.state_dict() would return. */
static ckpt_status make_state_dict(struct walker *walker, const ckpt_value *module, ckpt_value **out)
{
    struct torch_modules list = {.n = 0};
    struct torch_module m = {.object = module, .prefix = {"", 0}};
    *out = value_ordered_dict(walker->g.f->a);
    if (!*out)
        return fail_memory(walker->g.err);
    for (;; m = list.modules[--list.n]) {
        CKPT_TRY(add_module_entries(walker, m.object, "_parameters", m.prefix, *out));
        CKPT_TRY(add_module_entries(walker, m.object, "_buffers", m.prefix, *out));
        CKPT_TRY(push_submodules(walker, &m, &list));
        if (!list.n)
            break;
    }
    return file_set_replacement(walker->g.f, module, *out) ? CKPT_OK : fail_memory(walker->g.err);
}

static ckpt_status visit_module(struct walker *walker, const struct pending_node *pending)
{
    ckpt_value *dict = (ckpt_value *)(uintptr_t)file_replacement_of(walker->g.f, pending->v);
    if (dict == pending->v)
        CKPT_TRY(make_state_dict(walker, pending->v, &dict));
    CKPT_TRY(push_mapping_entries(walker, pending, dict, pending->tensors_only));
    return open_node(walker, pending);
}

/* ----------------------------------------------------------------- objects */

bool graph_hides_attributes(const ckpt_value *klass)
{
    static const char *const top_modules[] = {"torch", "builtins", "__builtin__", "functools", "pathlib"};
    ckpt_str module = value_module(klass);
    size_t dot = str_find(module, STR_LIT("."), 0);
    ckpt_str top = dot == SIZE_MAX ? module : str_of(module.ptr, dot);
    for (size_t i = 0; i < sizeof top_modules / sizeof *top_modules; i++)
        if (str_is(top, top_modules[i]))
            return true;
    return false;
}

/* push_attribute_dict - pushes the entries of DICT, which are attributes of PENDING. Omits _metadata: it
 * describes the keys of a state dict. */
static ckpt_status push_attribute_dict(struct walker *walker, const struct pending_node *pending,
                                       const ckpt_value *dict, bool tensors_only)
{
    uint32_t n;
    ckpt_str key;
    const value_pair *pairs = value_pairs(dict, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (!value_text(pairs[i].key, &key) || !str_is(key, "_metadata"))
            CKPT_TRY(push_entries(walker, pending, (struct step){dict, i}, i + 1, true, tensors_only));
    }
    return CKPT_OK;
}

/* push_attributes - pushes the attributes that BUILD sets: a dict, or a pair (dict or None, slots). */
static ckpt_status push_attributes(struct walker *walker, const struct pending_node *pending)
{
    const ckpt_value *state = value_state(pending->v);
    bool tensors_only = pending->tensors_only || graph_hides_attributes(view_class(pending->v));
    if (!state)
        return CKPT_OK;
    if (state->type != CKPT_V_TUPLE)
        return push_attribute_dict(walker, pending, state, tensors_only);
    for (uint32_t i = 0; i < value_count(state) && i < 2; i++)
        CKPT_TRY(push_attribute_dict(walker, pending, value_item(state, i), tensors_only));
    return CKPT_OK;
}

/* move_pairs_to_call - if VALUE is a call OrderedDict([(key, value), …]), makes these pairs the first
 * entries of the node VALUE. In all other mappings they are that already. */
static ckpt_status move_pairs_to_call(struct walker *walker, ckpt_value *value)
{
    const ckpt_value *pair_list = view_ordered_dict_argument(value);
    if (!pair_list)
        return CKPT_OK;
    uint32_t n = value_count(pair_list);
    value_pair *pairs = arena_array(walker->g.f->a, n, sizeof *pairs);
    if (!pairs)
        return fail_memory(walker->g.err);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *kv = value_item(pair_list, i);
        pairs[i] = (value_pair){value_item(kv, 0), value_item(kv, 1)};
        if (!pairs[i].key || !pairs[i].val)
            return graph_fail(&walker->g, value, "item {%u} of an OrderedDict's argument must be {=a pair}",
                              i);
    }
    value->u.call.args = value_tuple(walker->g.f->a, 0, NULL);
    bool ok = value->u.call.args && value_put_first(walker->g.f->a, value, pairs, n);
    return ok ? CKPT_OK : fail_memory(walker->g.err);
}

static ckpt_status push_content(struct walker *walker, const struct pending_node *pending,
                                const ckpt_value *content)
{
    if (content->type == CKPT_V_DICT)
        return push_mapping_entries(walker, pending, content, pending->tensors_only);
    return content->type == CKPT_V_LIST ? push_items(walker, pending, content, 0) : CKPT_OK;
}

static ckpt_status visit_object(struct walker *walker, const struct pending_node *pending)
{
    ckpt_value *v = (ckpt_value *)(uintptr_t)pending->v;
    const struct value_call *c = &v->u.call;
    CKPT_TRY(move_pairs_to_call(walker, v));
    const struct value_extra *extra = value_extra_of(v); /* not earlier: move_pairs_to_call may make it */
    struct pending_node inner = *pending;
    inner.v = view_content(v);
    if (inner.v)
        v->flags |= VALUE_WRAPS;
    else if (str_is(value_name(c->callable), "Shard")) /* of a ShardedTensor */
        inner.v = object_attr(v, "tensor");
    if (inner.v)
        return push_pending(walker, &inner);
    const struct creation made = creation_of(v);
    if (extra->npairs)
        CKPT_TRY(push_mapping_entries(walker, pending, v, pending->tensors_only));
    else if (made.content)
        CKPT_TRY(push_content(walker, pending, made.content));
    CKPT_TRY(push_items(walker, pending, v, 0));
    if (made.by_new && !made.kwargs && made.args && made.args->type == CKPT_V_TUPLE)
        CKPT_TRY(push_items(walker, pending, made.args, made.first_arg));
    bool is_container = has_children(walker);
    CKPT_TRY(push_attributes(walker, pending));
    if (!is_container)
        CKPT_TRY(add_leaf(walker, pending));
    return has_children(walker) ? open_node(walker, pending) : CKPT_OK;
}

static ckpt_status visit_container(struct walker *walker, const struct pending_node *pending)
{
    const ckpt_value *v = pending->v;
    if (v->type == CKPT_V_DICT)
        CKPT_TRY(push_mapping_entries(walker, pending, v, pending->tensors_only));
    else
        CKPT_TRY(push_items(walker, pending, v, 0));
    return has_children(walker) ? open_node(walker, pending) : add_leaf(walker, pending);
}

static ckpt_status visit_node(struct walker *walker, const struct pending_node *pending)
{
    struct tensor_description m;
    const ckpt_value *v = pending->v;
    if (v->flags & VALUE_ON_PATH)
        return add_leaf(walker, pending); /* a cycle */
    switch (v->type) {
    case CKPT_V_LIST:
        m.is_tensor = false;
        if (pending->is_component)
            CKPT_TRY(graph_describe_numbers(&walker->g, v, &m));
        return m.is_tensor ? visit_tensor(walker, pending, &m) : visit_container(walker, pending);
    case CKPT_V_DICT:
    case CKPT_V_TUPLE: return visit_container(walker, pending);
    case CKPT_V_CALL:
    case CKPT_V_PERSID:
    case CKPT_V_TENSOR:
        CKPT_TRY(graph_describe(&walker->g, v, &m));
        if (m.is_tensor)
            return visit_tensor(walker, pending, &m);
        if (v->type != CKPT_V_CALL)
            return add_leaf(walker, pending);
        return is_module(v) ? visit_module(walker, pending) : visit_object(walker, pending);
    default: return add_leaf(walker, pending);
    }
}

static ckpt_status reserve_path(struct walker *walker, uint32_t depth)
{
    if (depth > walker->g.f->limits.max_depth)
        return fail(walker->g.err, CKPT_ELIMIT, CKPT_NO_OFFSET, "values are nested {deeper} than {=%u}",
                    walker->g.f->limits.max_depth);
    if (depth < walker->cap_path)
        return CKPT_OK;
    uint32_t cap = depth * 2 + 2;
    ckpt_path_elem *path = realloc(walker->path, cap * sizeof *path);
    if (path)
        walker->path = path;
    struct step *steps = realloc(walker->steps, cap * sizeof *steps);
    if (steps)
        walker->steps = steps;
    const ckpt_value **ancestors = realloc(walker->ancestors, cap * sizeof *ancestors);
    if (ancestors)
        walker->ancestors = ancestors;
    if (!path || !steps || !ancestors)
        return fail_memory(walker->g.err);
    walker->cap_path = cap;
    return CKPT_OK;
}

static void add_path_context(struct walker *walker, const struct pending_node *pending)
{
    ckpt_str name = path_join(walker->g.f->a, walker->path, pending->depth);
    if (name.ptr && name.len)
        error_add_where(walker->g.err, "%.*s", STR_ARG(name));
}

static ckpt_status run_walk(struct walker *walker)
{
    while (walker->npending) {
        struct pending_node p = take_pending(walker);
        if (p.is_exit) {
            ((ckpt_value *)(uintptr_t)p.v)->flags &= (uint8_t)~VALUE_ON_PATH;
            continue;
        }
        CKPT_TRY(reserve_path(walker, p.depth));
        walker->first_child = walker->npending;
        ckpt_status st = CKPT_OK;
        if (p.step.node || p.name) { /* all but the root */
            walker->steps[p.depth - 1] = p.step;
            st = make_path_element(walker, &p, &walker->path[p.depth - 1]);
        }
        walker->ancestors[p.depth] = p.v;
        if (st == CKPT_OK)
            st = visit_node(walker, &p);
        if (st != CKPT_OK) {
            if (!walker->g.err->where[0])
                add_path_context(walker, &p);
            error_add_position(walker->g.err, graph_offset(&walker->g, p.v), walker->g.input->pickle_name);
            CKPT_TRY(file_report_fault(walker->g.f, st, walker->g.err));
            walker->npending = walker->first_child;
        }
    }
    return CKPT_OK;
}

/* end_walk - clears VALUE_ON_PATH, which a walk that stopped early has left set, and frees the lists. */
static void end_walk(struct walker *walker)
{
    for (size_t i = 0; i < walker->npending; i++)
        if (walker->pending[i].is_exit)
            ((ckpt_value *)(uintptr_t)walker->pending[i].v)->flags &= (uint8_t)~VALUE_ON_PATH;
    free(walker->pending);
    free(walker->path);
    free(walker->steps);
    free(walker->ancestors);
}

ckpt_status graph_walk(ckpt_file *f, ckpt_value *root, const struct graph_input *input, ckpt_error *err)
{
    struct walker w = {.g = {.f = f, .input = input, .err = err}};
    struct pending_node top = {.v = root, .part_of = CKPT_NO_TENSOR};
    f->has_typed_keys = !input->has_text_keys;
    ckpt_status st = push_pending(&w, &top);
    if (st == CKPT_OK)
        st = run_walk(&w);
    end_walk(&w);
    return st;
}
