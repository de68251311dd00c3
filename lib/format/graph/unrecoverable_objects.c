/*
 * unrecoverable_objects.c - finds objects that are no tensors and hold a lost storage: a generator, a device
 * mesh, an object of an unknown class. They cannot be written without the bytes of that storage. So the
 * smallest entry that contains such an object is dropped (a pair of a mapping, an item, an attribute) and
 * becomes a lost row.
 *
 * First the edges of the graph are followed backward from the lost storages, to find all nodes that lead to
 * one of them. Then the graph is walked from the root as in walk.c, through these nodes only.
 */
#include "base/checked.h"
#include "core/graph_visit.h"
#include "format/graph/persistent_id.h"
#include "format/graph/unrecoverable_objects.h"
#include "format/graph/walk.h"

/* has_argument_items - returns true if the arguments of CALL VALUE are its items, as in a namedtuple. */
static bool has_argument_items(const ckpt_value *value)
{
    enum value_call_kind kind = value_call_kind_of(value);
    return value->u.call.args->type == CKPT_V_TUPLE &&
           (kind == CALL_NEWOBJ || kind == CALL_OBJ || kind == CALL_INST);
}

/* An edge from node PARENT to a child. The edges to one child form a list. */
struct edge {
    uint32_t parent, next_edge; /* indexes; NEXT_EDGE: MAP_NONE in the last edge */
};

struct node {
    const ckpt_value *v;
    uint32_t first_edge;   /* index of the first edge that leads to it, or MAP_NONE */
    uint32_t lost_storage; /* a lost storage that can be reached from it, or MAP_NONE */
    bool is_entered;       /* it is in containers */
};

/* A container that the walk enters. Its path is the path of the container PARENT, then STEP. */
struct container {
    uint32_t node, parent, depth;
    struct step step;
};

struct lost_search {
    ckpt_file *f;
    arena *a;       /* for the search only */
    map *number_of; /* node -> its index */
    struct node *nodes;
    struct edge *edges;
    struct container *containers;
    size_t nnodes, cap_nodes, nedges, cap_edges, ncontainers, cap_containers;
    uint32_t parent; /* the node from which add_node adds an edge, or MAP_NONE */
    ckpt_error *err;
};

/* add_node - if VALUE can hold or name a storage, adds it as a node, and the edge from x->parent to it; the
 * callback of graph_visit_children. False: out of memory. */
static bool add_node(void *user, const ckpt_value *value)
{
    struct lost_search *x = user;
    uint32_t i;
    if (!value || (!value_is_sequence(value) && value->type != CKPT_V_DICT && value->type != CKPT_V_CALL &&
                   value->type != CKPT_V_PERSID))
        return true;
    value = file_replacement_of(x->f, value);
    if (x->nnodes >= MAP_NONE || x->nedges >= MAP_NONE ||
        !map_put_num(x->number_of, ptr_key(value), (uint32_t)x->nnodes, &i))
        return false;
    const struct node node = {.v = value, .first_edge = MAP_NONE, .lost_storage = MAP_NONE};
    if (i == MAP_NONE && !arena_push(x->a, &x->nodes, &x->nnodes, &x->cap_nodes, &node, sizeof node))
        return false;
    if (x->parent == MAP_NONE)
        return true;
    struct node *child = &x->nodes[i == MAP_NONE ? x->nnodes - 1 : i];
    const struct edge edge = {x->parent, child->first_edge};
    child->first_edge = (uint32_t)x->nedges;
    return arena_push(x->a, &x->edges, &x->nedges, &x->cap_edges, &edge, sizeof edge);
}

/* find_lost_storage - returns the index of the lost storage that VALUE names. MAP_NONE: VALUE is no
 * persistent id, or its storage is not lost. */
static uint32_t find_lost_storage(const ckpt_file *f, const ckpt_value *value)
{
    struct torch_pid pid;
    const map *keys = f->storages.by_key;
    uint32_t i = keys && torch_pid_parse(value, &pid) ? map_get(keys, pid.key) : MAP_NONE;
    return i != MAP_NONE && storage_loss(&f->table.storages[i]) ? i : MAP_NONE;
}

/* find_lost_nodes - makes the nodes and edges of the graph, and sets lost_storage of each node. */
static ckpt_status find_lost_nodes(struct lost_search *search)
{
    uint32_t *waiting, n = 0;
    search->parent = MAP_NONE;
    bool ok = add_node(search, search->f->root);
    for (size_t i = 0; ok && i < search->nnodes; i++) {
        search->parent = (uint32_t)i;
        ok = graph_visit_children(search->nodes[i].v, add_node, search);
    }
    waiting = ok ? arena_array(search->a, search->nnodes, sizeof *waiting) : NULL;
    if (!waiting)
        return fail_memory(search->err);
    for (uint32_t i = 0; i < search->nnodes; i++)
        if ((search->nodes[i].lost_storage = find_lost_storage(search->f, search->nodes[i].v)) != MAP_NONE)
            waiting[n++] = i;
    while (n) {
        const struct node *from = &search->nodes[waiting[--n]];
        for (uint32_t e = from->first_edge; e != MAP_NONE; e = search->edges[e].next_edge) {
            struct node *parent = &search->nodes[search->edges[e].parent];
            if (parent->lost_storage != MAP_NONE)
                continue;
            parent->lost_storage = from->lost_storage;
            waiting[n++] = search->edges[e].parent;
        }
    }
    return CKPT_OK;
}

static uint32_t get_node_number(const struct lost_search *search, const ckpt_value *value)
{
    return value ? map_get_num(search->number_of, ptr_key(file_replacement_of(search->f, value))) : MAP_NONE;
}

static bool reaches_lost_storage(const struct lost_search *search, const ckpt_value *value)
{
    uint32_t i = get_node_number(search, value);
    return i != MAP_NONE && search->nodes[i].lost_storage != MAP_NONE;
}

static bool is_row(const ckpt_file *f, const ckpt_value *value)
{
    return value_row(value) < f->table.nrows && table_value_of(&f->table, value_row(value)) == value;
}

static ckpt_status make_path_element(struct lost_search *search, struct step step, ckpt_path_elem *out)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(step.node, &n);
    if (n)
        return path_elem_from_key(search->f->a, pairs[step.index].key, out, search->err);
    *out = (ckpt_path_elem){.is_int = true, .num = step.index};
    return CKPT_OK;
}

/* add_lost_row - adds a lost row for VALUE, the entry STEP of container PARENT, because storage LOST is
 * lost. */
static ckpt_status add_lost_row(struct lost_search *search, uint32_t parent, struct step step,
                                const ckpt_value *value, uint32_t lost)
{
    arena *a = search->f->a;
    uint32_t depth = search->containers[parent].depth + 1;
    ckpt_path_elem *path = arena_array(a, depth, sizeof *path);
    struct step *steps = arena_array(a, depth, sizeof *steps);
    if (!path || !steps)
        return fail_memory(search->err);
    for (uint32_t k = depth; COUNT_DOWN(k);) {
        CKPT_TRY(make_path_element(search, step, &path[k]));
        steps[k] = step;
        step = search->containers[parent].step;
        parent = search->containers[parent].parent;
    }
    struct row r = {.steps = steps};
    r.t.path = path;
    r.t.npath = depth;
    r.t.value = value;
    r.t.kind = CKPT_OPAQUE;
    r.t.dtype = CKPT_DT_NONE;
    r.t.part_of = CKPT_NO_TENSOR;
    r.t.storage = lost;
    return table_add_row(&search->f->table, &r, NULL, search->err);
}

/* can_drop_entries - returns true if VALUE is a container in which lost storages can be reached through
 * entries only, and not from the class of a call, say. Then VALUE can be written without these entries. */
static bool can_drop_entries(const struct lost_search *search, const ckpt_value *value)
{
    if (value->type == CKPT_V_DICT || value->type == CKPT_V_LIST || value->type == CKPT_V_TUPLE)
        return true;
    if (value->type != CKPT_V_CALL || reaches_lost_storage(search, value->u.call.callable) ||
        (reaches_lost_storage(search, value->u.call.args) && !has_argument_items(value)))
        return false;
    const struct value_extra *m = value_extra_of(value);
    if (reaches_lost_storage(search, m->kwargs) || (m->npairs && m->nitems)) /* no class of Python has both */
        return false;
    for (uint32_t i = 0; i < m->nstates; i++)
        if (reaches_lost_storage(search, m->states[i]) &&
            (m->states[i]->type != CKPT_V_DICT || graph_hides_attributes(value->u.call.callable)))
            return false;
    return true;
}

static ckpt_status add_container(struct lost_search *search, uint32_t node, uint32_t parent, uint32_t depth,
                                 struct step step)
{
    const struct container c = {node, parent, depth, step};
    search->nodes[node].is_entered = true;
    return arena_push(search->a, &search->containers, &search->ncontainers, &search->cap_containers, &c,
                      sizeof c)
               ? CKPT_OK
               : fail_memory(search->err);
}

static ckpt_status visit_entry(struct lost_search *search, uint32_t parent, struct step step,
                               const ckpt_value *value)
{
    uint32_t i = get_node_number(search, value), depth = search->containers[parent].depth + 1;
    if (i == MAP_NONE || search->nodes[i].lost_storage == MAP_NONE)
        return CKPT_OK;
    const struct node *node = &search->nodes[i];
    if (is_row(search->f, value) || is_row(search->f, node->v)) {
        search->f->losses.of_row[is_row(search->f, value) ? value_row(value) : value_row(node->v)] = true;
        return CKPT_OK;
    }
    if (depth >= search->f->limits.max_depth || !can_drop_entries(search, node->v))
        return add_lost_row(search, parent, step, value, node->lost_storage);
    return node->is_entered ? CKPT_OK : add_container(search, i, parent, depth, step);
}

static ckpt_status visit_entries(struct lost_search *search, uint32_t parent, const ckpt_value *value)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(value, &n);
    bool is_call = value->type == CKPT_V_CALL;
    ckpt_value *const *items = is_call                    ? value_extra_of(value)->items
                               : value_is_sequence(value) ? value->u.seq.items
                                                          : NULL;
    uint32_t count = is_call ? value_extra_of(value)->nitems : value_is_sequence(value) ? value->u.seq.n : 0;
    for (uint32_t i = 0; i < n; i++)
        CKPT_TRY(visit_entry(search, parent, (struct step){value, i}, pairs[i].val));
    for (uint32_t i = 0; i < count && !n; i++)
        CKPT_TRY(visit_entry(search, parent, (struct step){value, i}, items[i]));
    return CKPT_OK;
}

/* visit_container - visits the entries of container NUMBER, and those of its arguments and attributes. */
static ckpt_status visit_container(struct lost_search *search, uint32_t number)
{
    const ckpt_value *v = search->nodes[search->containers[number].node].v;
    CKPT_TRY(visit_entries(search, number, v));
    if (v->type != CKPT_V_CALL)
        return CKPT_OK;
    const struct value_extra *m = value_extra_of(v);
    if (has_argument_items(v))
        CKPT_TRY(visit_entries(search, number, v->u.call.args));
    for (uint32_t i = 0; i < m->nstates; i++)
        if (reaches_lost_storage(search, m->states[i]))
            CKPT_TRY(visit_entries(search, number, m->states[i]));
    return CKPT_OK;
}

static ckpt_status find_objects(struct lost_search *search)
{
    CKPT_TRY(find_lost_nodes(search));
    uint32_t root = get_node_number(search, search->f->root);
    if (root == MAP_NONE || search->nodes[root].lost_storage == MAP_NONE ||
        !can_drop_entries(search, search->nodes[root].v))
        return CKPT_OK; /* nothing is lost, or the writer will report that the root cannot be written */
    CKPT_TRY(add_container(search, root, MAP_NONE, 0, (struct step){NULL, 0}));
    for (uint32_t p = 0; p < search->ncontainers; p++)
        CKPT_TRY(visit_container(search, p));
    return CKPT_OK;
}

ckpt_status graph_find_unrecoverable_objects(ckpt_file *f, ckpt_error *err)
{
    struct lost_search x = {.f = f, .err = err, .a = arena_new(UINT64_MAX), .number_of = map_new(0)};
    bool any_lost = false;
    for (size_t i = 0; i < f->table.nstorages; i++)
        any_lost = any_lost || storage_loss(&f->table.storages[i]);
    ckpt_status st = x.a && x.number_of && file_index_storage_keys(f) ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && any_lost && f->root)
        st = find_objects(&x);
    map_free(x.number_of);
    arena_free(x.a);
    return st;
}
