/* trace_node.c - see tracer.h. A node that is not shared has one reference, from the stack or from a node
 * that contains it. When that reference is dropped, the node and its items are released. Globals are never
 * released, because the tables of recently seen globals refer to them. */
#include "codec/tracer.h"

/* as_unshared - returns the node of R if R is the only reference to it, else NULL. */
static struct trace_node *as_unshared(trace_ref r)
{
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(r);
    return v && !v->shared && v->kind != TRACE_GLOBAL ? v : NULL;
}

/* node_from_link - returns the node at ADDRESS. Nodes in a list have the address of the next in nitems. */
static struct trace_node *node_from_link(uint64_t address) { return (struct trace_node *)(uintptr_t)address; }

struct trace_node *node_new(struct tracer *t, enum trace_kind kind)
{
    struct trace_node *n = t->spare_nodes;
    if (n) {
        t->spare_nodes = node_from_link(n->nitems);
        *n = (struct trace_node){.kind = (uint8_t)kind};
        return n;
    }
    n = ARENA_NEW(t->u.a, struct trace_node);
    if (n)
        n->kind = (uint8_t)kind;
    else
        unpickler_fail_memory(&t->u);
    return n;
}

/* get_size_class - returns the least C for which 2^C >= N; N is at most 256. */
static unsigned get_size_class(size_t n)
{
    unsigned c = 0;
    while ((size_t)1 << c < n)
        c++;
    return c;
}

static trace_ref *new_items(struct tracer *t, unsigned c)
{
    trace_ref *items = t->spare_items[c];
    if (items) {
        memcpy(&t->spare_items[c], items, sizeof t->spare_items[c]);
        return items;
    }
    items = arena_array(t->u.a, (uint64_t)1 << c, sizeof *items);
    if (!items)
        unpickler_fail_memory(&t->u);
    return items;
}

/* free_items - keeps the array ITEMS of 2^C items for reuse: its first bytes link it to the next such
 * array. */
static void free_items(struct tracer *t, trace_ref *items, unsigned c)
{
    memcpy(items, &t->spare_items[c], sizeof t->spare_items[c]);
    t->spare_items[c] = items;
}

static bool reserve_items(struct tracer *t, struct trace_node *v, size_t n)
{
    unsigned c = get_size_class(n);
    if (n <= v->cap)
        return true;
    trace_ref *grown = new_items(t, c);
    if (!grown)
        return false;
    if (v->cap) {
        memcpy(grown, v->items, v->nkept * sizeof *grown);
        free_items(t, v->items, get_size_class(v->cap));
    }
    v->items = grown;
    v->cap = (uint16_t)(1u << c);
    return true;
}

bool node_add_items(struct tracer *t, struct trace_node *v, const trace_ref *from, size_t n, uint32_t max)
{
    size_t room = max - v->nkept, kept = n < room ? n : room;
    if (!reserve_items(t, v, v->nkept + kept))
        return false;
    if (kept)
        memcpy(v->items + v->nkept, from, kept * sizeof *from);
    for (size_t i = kept; i < n; i++)
        node_release(t, from[i]);
    v->nkept += (uint32_t)kept;
    v->nitems += n;
    return true;
}

bool node_report_globals(struct tracer *t, const trace_ref *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct trace_step s = {.what = TRACE_STEP_STORED, .subject = from[i]};
        if (trace_global(from[i]) && !tracer_report(t, &s))
            return false;
    }
    return true;
}

/* The nodes that are still to be released are linked by nitems, which is no longer needed. */
void node_release(struct tracer *t, trace_ref r)
{
    struct trace_node *v = as_unshared(r), *item, *next;
    if (v)
        v->nitems = 0;
    for (; v; v = next) {
        next = node_from_link(v->nitems);
        for (uint32_t i = 0; i < v->nkept; i++)
            if ((item = as_unshared(v->items[i])) != NULL) {
                item->nitems = (uintptr_t)next;
                next = item;
            }
        if (v->cap)
            free_items(t, v->items, get_size_class(v->cap));
        v->nitems = (uintptr_t)t->spare_nodes;
        t->spare_nodes = v;
    }
}
