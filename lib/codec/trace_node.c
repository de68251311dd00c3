/* trace_node.c - see tracer.h. A node that is not shared has one reference, from the stack or from a node
 * that contains it. When that reference is dropped, the node and its items are released. Globals are never
 * released, because the tables of recently seen globals refer to them. */
#include "codec/tracer.h"

/* as_unshared - returns the node of REF if REF is the only reference to it, else NULL. */
static struct trace_node *as_unshared(trace_ref ref)
{
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(ref);
    return v && !v->shared && v->kind != TRACE_GLOBAL ? v : NULL;
}

/* node_from_link - returns the node at ADDRESS. Nodes in a list have the address of the next in nitems. */
static struct trace_node *node_from_link(uint64_t address) { return (struct trace_node *)(uintptr_t)address; }

struct trace_node *node_new(struct tracer *tracer, enum trace_kind kind)
{
    struct trace_node *n = tracer->spare_nodes;
    if (n) {
        tracer->spare_nodes = node_from_link(n->nitems);
        *n = (struct trace_node){.kind = (uint8_t)kind};
        return n;
    }
    n = ARENA_NEW(tracer->u.a, struct trace_node);
    if (n)
        n->kind = (uint8_t)kind;
    else
        unpickler_fail_memory(&tracer->u);
    return n;
}

/* get_size_class - returns the least C for which 2^C >= COUNT; COUNT is at most 256. */
static unsigned get_size_class(size_t count)
{
    unsigned c = 0;
    while ((size_t)1 << c < count)
        c++;
    return c;
}

static trace_ref *new_items(struct tracer *tracer, unsigned character)
{
    trace_ref *items = tracer->spare_items[character];
    if (items) {
        memcpy(&tracer->spare_items[character], items, sizeof tracer->spare_items[character]);
        return items;
    }
    items = arena_array(tracer->u.a, (uint64_t)1 << character, sizeof *items);
    if (!items)
        unpickler_fail_memory(&tracer->u);
    return items;
}

/* free_items - keeps the array ITEMS of 2^C items for reuse: its first bytes link it to the next such
 * array. */
static void free_items(struct tracer *tracer, trace_ref *items, unsigned character)
{
    memcpy(items, &tracer->spare_items[character], sizeof tracer->spare_items[character]);
    tracer->spare_items[character] = items;
}

static bool reserve_items(struct tracer *tracer, struct trace_node *node, size_t count)
{
    unsigned c = get_size_class(count);
    if (count <= node->cap)
        return true;
    trace_ref *grown = new_items(tracer, c);
    if (!grown)
        return false;
    if (node->cap) {
        memcpy(grown, node->items, node->nkept * sizeof *grown);
        free_items(tracer, node->items, get_size_class(node->cap));
    }
    node->items = grown;
    node->cap = (uint16_t)(1u << c);
    return true;
}

bool node_add_items(struct tracer *tracer, struct trace_node *node, const trace_ref *from, size_t count,
                    uint32_t max)
{
    size_t room = max - node->nkept, kept = count < room ? count : room;
    if (!reserve_items(tracer, node, node->nkept + kept))
        return false;
    if (kept)
        memcpy(node->items + node->nkept, from, kept * sizeof *from);
    for (size_t i = kept; i < count; i++)
        node_release(tracer, from[i]);
    node->nkept += (uint32_t)kept;
    node->nitems += count;
    return true;
}

bool node_report_globals(struct tracer *tracer, const trace_ref *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct trace_step s = {.what = TRACE_STEP_STORED, .subject = from[i]};
        if (trace_global(from[i]) && !tracer_report(tracer, &s))
            return false;
    }
    return true;
}

/* The nodes that are still to be released are linked by nitems, which is no longer needed. */
void node_release(struct tracer *tracer, trace_ref ref)
{
    struct trace_node *v = as_unshared(ref), *item, *next;
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
            free_items(tracer, v->items, get_size_class(v->cap));
        v->nitems = (uintptr_t)tracer->spare_nodes;
        tracer->spare_nodes = v;
    }
}
