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

/* has_argument_items - returns true if the arguments of CALL V are its items, as in a namedtuple. */
static bool has_argument_items(const ckpt_value *v)
{
    enum value_call_kind kind = value_call_kind_of(v);
    return v->u.call.args->type == CKPT_V_TUPLE &&
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

/* add_node - if V can hold or name a storage, adds it as a node, and the edge from x->parent to it; the
 * callback of graph_visit_children. False: out of memory. */
static bool add_node(void *user, const ckpt_value *v)
{
    struct lost_search *x = user;
    uint32_t i;
    if (!v || (!value_is_sequence(v) && v->type != CKPT_V_DICT && v->type != CKPT_V_CALL &&
               v->type != CKPT_V_PERSID))
        return true;
    v = file_replacement_of(x->f, v);
    if (x->nnodes >= MAP_NONE || x->nedges >= MAP_NONE ||
        !map_put_num(x->number_of, ptr_key(v), (uint32_t)x->nnodes, &i))
        return false;
    const struct node node = {.v = v, .first_edge = MAP_NONE, .lost_storage = MAP_NONE};
    if (i == MAP_NONE && !arena_push(x->a, &x->nodes, &x->nnodes, &x->cap_nodes, &node, sizeof node))
        return false;
    if (x->parent == MAP_NONE)
        return true;
    struct node *child = &x->nodes[i == MAP_NONE ? x->nnodes - 1 : i];
    const struct edge edge = {x->parent, child->first_edge};
    child->first_edge = (uint32_t)x->nedges;
    return arena_push(x->a, &x->edges, &x->nedges, &x->cap_edges, &edge, sizeof edge);
}

/* find_lost_storage - returns the index of the lost storage that V names. MAP_NONE: V is no persistent id, or
 * its storage is not lost. */
static uint32_t find_lost_storage(const ckpt_file *f, const ckpt_value *v)
{
    struct torch_pid pid;
    const map *keys = f->storages.by_key;
    uint32_t i = keys && torch_pid_parse(v, &pid) ? map_get(keys, pid.key) : MAP_NONE;
    return i != MAP_NONE && storage_loss(&f->table.storages[i]) ? i : MAP_NONE;
}

/* find_lost_nodes - makes the nodes and edges of the graph, and sets lost_storage of each node. */
static ckpt_status find_lost_nodes(struct lost_search *x)
{
    uint32_t *waiting, n = 0;
    x->parent = MAP_NONE;
    bool ok = add_node(x, x->f->root);
    for (size_t i = 0; ok && i < x->nnodes; i++) {
        x->parent = (uint32_t)i;
        ok = graph_visit_children(x->nodes[i].v, add_node, x);
    }
    waiting = ok ? arena_array(x->a, x->nnodes, sizeof *waiting) : NULL;
    if (!waiting)
        return fail_memory(x->err);
    for (uint32_t i = 0; i < x->nnodes; i++)
        if ((x->nodes[i].lost_storage = find_lost_storage(x->f, x->nodes[i].v)) != MAP_NONE)
            waiting[n++] = i;
    while (n) {
        const struct node *from = &x->nodes[waiting[--n]];
        for (uint32_t e = from->first_edge; e != MAP_NONE; e = x->edges[e].next_edge) {
            struct node *parent = &x->nodes[x->edges[e].parent];
            if (parent->lost_storage != MAP_NONE)
                continue;
            parent->lost_storage = from->lost_storage;
            waiting[n++] = x->edges[e].parent;
        }
    }
    return CKPT_OK;
}

static uint32_t get_node_number(const struct lost_search *x, const ckpt_value *v)
{
    return v ? map_get_num(x->number_of, ptr_key(file_replacement_of(x->f, v))) : MAP_NONE;
}

static bool reaches_lost_storage(const struct lost_search *x, const ckpt_value *v)
{
    uint32_t i = get_node_number(x, v);
    return i != MAP_NONE && x->nodes[i].lost_storage != MAP_NONE;
}

static bool is_row(const ckpt_file *f, const ckpt_value *v)
{
    return value_row(v) < f->table.nrows && table_value_of(&f->table, value_row(v)) == v;
}

static ckpt_status make_path_element(struct lost_search *x, struct step s, ckpt_path_elem *out)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(s.node, &n);
    if (n)
        return path_elem_from_key(x->f->a, pairs[s.index].key, out, x->err);
    *out = (ckpt_path_elem){.is_int = true, .num = s.index};
    return CKPT_OK;
}

/* add_lost_row - adds a lost row for V, the entry S of container PARENT, because storage LOST is lost. */
static ckpt_status add_lost_row(struct lost_search *x, uint32_t parent, struct step s, const ckpt_value *v,
                                uint32_t lost)
{
    arena *a = x->f->a;
    uint32_t depth = x->containers[parent].depth + 1;
    ckpt_path_elem *path = arena_array(a, depth, sizeof *path);
    struct step *steps = arena_array(a, depth, sizeof *steps);
    if (!path || !steps)
        return fail_memory(x->err);
    for (uint32_t k = depth; COUNT_DOWN(k);) {
        CKPT_TRY(make_path_element(x, s, &path[k]));
        steps[k] = s;
        s = x->containers[parent].step;
        parent = x->containers[parent].parent;
    }
    struct row r = {.steps = steps};
    r.t.path = path;
    r.t.npath = depth;
    r.t.value = v;
    r.t.kind = CKPT_OPAQUE;
    r.t.dtype = CKPT_DT_NONE;
    r.t.part_of = CKPT_NO_TENSOR;
    r.t.storage = lost;
    return table_add_row(&x->f->table, &r, NULL, x->err);
}

/* can_drop_entries - returns true if V is a container in which lost storages can be reached through entries
 * only, and not from the class of a call, say. Then V can be written without these entries. */
static bool can_drop_entries(const struct lost_search *x, const ckpt_value *v)
{
    if (v->type == CKPT_V_DICT || v->type == CKPT_V_LIST || v->type == CKPT_V_TUPLE)
        return true;
    if (v->type != CKPT_V_CALL || reaches_lost_storage(x, v->u.call.callable) ||
        (reaches_lost_storage(x, v->u.call.args) && !has_argument_items(v)))
        return false;
    const struct value_extra *m = value_extra_of(v);
    if (reaches_lost_storage(x, m->kwargs) || (m->npairs && m->nitems)) /* no class of Python has both */
        return false;
    for (uint32_t i = 0; i < m->nstates; i++)
        if (reaches_lost_storage(x, m->states[i]) &&
            (m->states[i]->type != CKPT_V_DICT || graph_hides_attributes(v->u.call.callable)))
            return false;
    return true;
}

static ckpt_status add_container(struct lost_search *x, uint32_t node, uint32_t parent, uint32_t depth,
                                 struct step s)
{
    const struct container c = {node, parent, depth, s};
    x->nodes[node].is_entered = true;
    return arena_push(x->a, &x->containers, &x->ncontainers, &x->cap_containers, &c, sizeof c)
               ? CKPT_OK
               : fail_memory(x->err);
}

static ckpt_status visit_entry(struct lost_search *x, uint32_t parent, struct step s, const ckpt_value *v)
{
    uint32_t i = get_node_number(x, v), depth = x->containers[parent].depth + 1;
    if (i == MAP_NONE || x->nodes[i].lost_storage == MAP_NONE)
        return CKPT_OK;
    const struct node *node = &x->nodes[i];
    if (is_row(x->f, v) || is_row(x->f, node->v)) {
        x->f->losses.of_row[is_row(x->f, v) ? value_row(v) : value_row(node->v)] = true;
        return CKPT_OK;
    }
    if (depth >= x->f->limits.max_depth || !can_drop_entries(x, node->v))
        return add_lost_row(x, parent, s, v, node->lost_storage);
    return node->is_entered ? CKPT_OK : add_container(x, i, parent, depth, s);
}

static ckpt_status visit_entries(struct lost_search *x, uint32_t parent, const ckpt_value *v)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    bool is_call = v->type == CKPT_V_CALL;
    ckpt_value *const *items = is_call                ? value_extra_of(v)->items
                               : value_is_sequence(v) ? v->u.seq.items
                                                      : NULL;
    uint32_t count = is_call ? value_extra_of(v)->nitems : value_is_sequence(v) ? v->u.seq.n : 0;
    for (uint32_t i = 0; i < n; i++)
        CKPT_TRY(visit_entry(x, parent, (struct step){v, i}, pairs[i].val));
    for (uint32_t i = 0; i < count && !n; i++)
        CKPT_TRY(visit_entry(x, parent, (struct step){v, i}, items[i]));
    return CKPT_OK;
}

/* visit_container - visits the entries of container NUMBER, and those of its arguments and attributes. */
static ckpt_status visit_container(struct lost_search *x, uint32_t number)
{
    const ckpt_value *v = x->nodes[x->containers[number].node].v;
    CKPT_TRY(visit_entries(x, number, v));
    if (v->type != CKPT_V_CALL)
        return CKPT_OK;
    const struct value_extra *m = value_extra_of(v);
    if (has_argument_items(v))
        CKPT_TRY(visit_entries(x, number, v->u.call.args));
    for (uint32_t i = 0; i < m->nstates; i++)
        if (reaches_lost_storage(x, m->states[i]))
            CKPT_TRY(visit_entries(x, number, m->states[i]));
    return CKPT_OK;
}

static ckpt_status find_objects(struct lost_search *x)
{
    CKPT_TRY(find_lost_nodes(x));
    uint32_t root = get_node_number(x, x->f->root);
    if (root == MAP_NONE || x->nodes[root].lost_storage == MAP_NONE || !can_drop_entries(x, x->nodes[root].v))
        return CKPT_OK; /* nothing is lost, or the writer will report that the root cannot be written */
    CKPT_TRY(add_container(x, root, MAP_NONE, 0, (struct step){NULL, 0}));
    for (uint32_t p = 0; p < x->ncontainers; p++)
        CKPT_TRY(visit_container(x, p));
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
