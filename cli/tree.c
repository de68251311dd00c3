/* tree.c - prints names as a tree without building one. Rows are sorted by the components of their names,
 * which is the order of the tree; then one byte a row is enough: how many nodes it shares with the row before
 * it. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* Deeper components of a name are not split: a name may have a million dots. */
#define TREE_DEPTH 64

struct tree {
    const ckpt_file *f;
    uint32_t *rows;
    size_t n;
    uint64_t depth;
    uint8_t *shared;      /* by row: how many nodes of its path the row before it has, too */
    struct group *groups; /* used by tree_groups */
    size_t ngroups;
};

/* Visits the nodes, parents before children. The fields describe the current node. */
struct tree_walk {
    const struct tree *tree;
    ckpt_str word;             /* its component of the name */
    size_t name_len;           /* length of its full name */
    unsigned level;            /* its depth; children of the root: 1 */
    size_t first, end;         /* its rows: itself and all below it */
    bool leaf;                 /* the first of these rows is a tensor of this name */
    bool more[TREE_DEPTH + 1]; /* by level: a sibling follows */
    size_t next;               /* where the next component begins, or SIZE_MAX */
};

/* split_component - returns the component of NAME at AT, and sets *NEXT to where the next one begins, or to
 * SIZE_MAX. At the last level, all that is left is one component. */
static ckpt_str split_component(ckpt_str name, size_t at, unsigned level, size_t *next)
{
    const char *dot = level < TREE_DEPTH ? memchr(name.ptr + at, '.', name.len - at) : NULL;
    size_t end = dot ? (size_t)(dot - name.ptr) : name.len;
    *next = dot ? end + 1 : SIZE_MAX;
    return (ckpt_str){name.ptr + at, end - at};
}

/* compare_components - compares P and Q in natural order component by component, so that the rows below a
 * node are consecutive. */
static int compare_components(ckpt_str p, ckpt_str q)
{
    size_t i = 0, j = 0;
    for (unsigned level = 1;; level++) {
        size_t i_next, j_next;
        ckpt_str a = split_component(p, i, level, &i_next), b = split_component(q, j, level, &j_next);
        int c = ckpt_natural_compare(a, b);
        if (c || (i_next == SIZE_MAX && j_next == SIZE_MAX))
            return c;
        if (i_next == SIZE_MAX || j_next == SIZE_MAX)
            return i_next == SIZE_MAX ? -1 : 1;
        i = i_next;
        j = j_next;
    }
}

/* shared_nodes - returns how many nodes the row NAME shares with the row BEFORE it. Two tensors of the same
 * name are two nodes. */
static uint8_t shared_nodes(ckpt_str before, ckpt_str name)
{
    size_t at = 0;
    for (unsigned level = 1;; level++) {
        size_t next, before_next;
        ckpt_str a = split_component(before, at, level, &before_next),
                 b = split_component(name, at, level, &next);
        if (next == SIZE_MAX || !str_is_equal(a, b))
            return (uint8_t)(level - 1);
        if (before_next == SIZE_MAX)
            return (uint8_t)level;
        at = next;
    }
}

static ckpt_str name_of(const struct tree *t, size_t i) { return ckpt_tensor_name(t->f, t->rows[i]); }

/* next_node - moves to the next node. Returns false if there is none. */
static bool next_node(struct tree_walk *w)
{
    const struct tree *t = w->tree;
    do {
        if (w->next == SIZE_MAX) {
            w->first++;
            w->next = w->level = 0;
        }
        if (w->first == t->n)
            return false;
        ckpt_str name = name_of(t, w->first);
        w->word = split_component(name, w->next, ++w->level, &w->next);
        w->name_len = (size_t)(w->word.ptr - name.ptr) + w->word.len;
    } while (w->level <= t->shared[w->first]);
    w->leaf = w->next == SIZE_MAX;
    for (w->end = w->first + 1; w->end < t->n && t->shared[w->end] >= w->level; w->end++)
        ;
    w->more[w->level] = w->end < t->n && t->shared[w->end] == w->level - 1;
    return true;
}

static bool has_child(const struct tree_walk *w) { return !w->leaf || w->end > w->first + 1; }

/* add_branches - adds the lines before a name, "│ └─ ". */
static void add_branches(const struct tree_walk *w, struct text *out)
{
    for (unsigned level = 1; level < w->level; level++)
        text_add(out, w->more[level] ? "│  " : "   ");
    text_add(out, w->more[w->level] ? "├─ " : "└─ ");
}

static struct totals sum_rows(const struct tree *t, size_t first, size_t end)
{
    return totals_of_rows(t->f, t->rows + first, end - first);
}

/* add_sum_cells - adds the cells for the sums of the rows from FIRST up to END. */
static void add_sum_cells(struct table *w, const struct tree *t, size_t first, size_t end)
{
    const struct totals sum = sum_rows(t, first, end);
    text_noun(&w->text, sum.tensors, "tensor", "tensors");
    table_cell(w);
    text_count(&w->text, sum.elements);
    table_cell(w);
    text_size(&w->text, sum.bytes);
    table_cell(w);
}

static void add_tensor_cells(struct table *w, const ckpt_tensor *x)
{
    text_dtype(&w->text, x);
    table_cell(w);
    text_shape(&w->text, x);
    table_cell(w);
    if (x->has_data)
        text_size(&w->text, x->nbytes);
    table_cell(w);
}

static void branch_rows(struct table *w, const void *user)
{
    const struct tree *t = user;
    struct tree_walk at = {.tree = t};
    table_header(w, NULL);
    while (next_node(&at)) {
        bool cut = t->depth && at.level == t->depth && has_child(&at);
        if (t->depth && at.level > t->depth)
            continue;
        table_row(w, PLAIN);
        add_branches(&at, &w->text);
        text_name(&w->text, at.word);
        table_cell(w);
        if (at.leaf && !cut) {
            const ckpt_tensor x = tensor_at(t->f, t->rows[at.first]);
            add_tensor_cells(w, &x);
        } else if (cut || at.level == 1) {
            add_sum_cells(w, t, at.first, at.end);
        } else {
            for (int i = 0; i < 3; i++)
                table_cell(w);
        }
    }
}

/* A line of tree_groups: the rows from FIRST up to END. */
struct group {
    size_t first, end, name_len;
    uint64_t bytes;
    bool folded; /* it has nodes below it */
};

/* compare_sizes - orders the larger group first; equal groups as in the tree. */
static int compare_sizes(const void *a, const void *b)
{
    const struct group *p = a, *q = b;
    if (p->bytes != q->bytes)
        return p->bytes < q->bytes ? 1 : -1;
    return p->first < q->first ? -1 : p->first > q->first;
}

/* find_groups - finds the groups of T; sorts them by size if LARGEST_FIRST. */
static void find_groups(struct tree *t, bool largest_first)
{
    struct tree_walk at = {.tree = t};
    t->groups = mem_new(t->n, sizeof *t->groups); /* bounded: each group has at least one row */
    while (next_node(&at)) {
        bool whole = at.level == t->depth;
        if (at.level > t->depth || (!whole && !at.leaf))
            continue;
        size_t end = whole ? at.end : at.first + 1;
        t->groups[t->ngroups++] = (struct group){.first = at.first,
                                                 .end = end,
                                                 .name_len = at.name_len,
                                                 .bytes = sum_rows(t, at.first, end).bytes,
                                                 .folded = whole && has_child(&at)};
    }
    if (largest_first && t->ngroups)
        qsort(t->groups, t->ngroups, sizeof *t->groups, compare_sizes);
}

static void group_rows(struct table *w, const void *user)
{
    static const char *const head[] = {"NAME", "TENSORS", "ELEMENTS", "SIZE"};
    const struct tree *t = user;
    table_header(w, head);
    for (size_t i = 0; i < t->ngroups; i++) {
        const struct group *g = &t->groups[i];
        table_row(w, PLAIN);
        text_name(&w->text, (ckpt_str){name_of(t, g->first).ptr, g->name_len});
        text_add(&w->text, g->folded ? ".*" : "");
        table_cell(w);
        add_sum_cells(w, t, g->first, g->end);
    }
}

/* sort_tree - sorts the rows of T into the order of the tree, and computes t->shared. */
static void sort_tree(struct tree *t)
{
    t->shared = mem_new(t->n, sizeof *t->shared);
    rows_sort(t->f, t->rows, t->n, compare_components);
    for (size_t i = 1; i < t->n; i++)
        t->shared[i] = shared_nodes(name_of(t, i - 1), name_of(t, i));
}

void tree_print(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, FILE *to)
{
    struct table w = {.columns = 4, .right = {false, false, false, true}};
    struct tree t = {.f = f, .rows = rows, .n = n, .depth = depth};
    sort_tree(&t);
    table_flow(&w, branch_rows, &t, to, false);
    table_free(&w);
    free(t.shared);
}

void tree_groups(const ckpt_file *f, uint32_t *rows, size_t n, uint64_t depth, bool largest_first, FILE *to)
{
    struct table w = {.columns = 4, .right = {false, true, true, true}};
    struct tree t = {.f = f, .rows = rows, .n = n, .depth = depth};
    sort_tree(&t);
    find_groups(&t, largest_first);
    table_flow(&w, group_rows, &t, to, ui.tty);
    table_free(&w);
    free(t.groups);
    free(t.shared);
}
