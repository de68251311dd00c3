/* tree.c - prints names as a tree without building one. Rows are sorted by the components of their names,
 * which is the order of the tree. One byte is stored for each row: how many nodes of its path are also in the
 * path of the row before it. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* Deeper components of a name are not split: a name may have a million dots. */
#define MAX_TREE_DEPTH 64

struct tree {
    const ckpt_file *f;
    uint32_t *rows;
    size_t n;
    uint64_t depth;        /* the deepest level that is printed; 0: all */
    uint8_t *shared_nodes; /* for each row: how many nodes of its path are in the path of the row before it */
};

/* Visits the nodes, parents before children. The fields describe the current node. */
struct tree_walk {
    const struct tree *tree;
    ckpt_str component; /* the last component of the node's name */
    size_t name_len;    /* length of the node's name, with all components */
    unsigned level;     /* depth of the node; children of the root: 1 */
    size_t first, end;  /* the rows of the node and of all nodes below it: from first up to end */
    bool is_tensor;     /* rows[first] has the name of the node; the node may have children, too */
    bool has_sibling_after[MAX_TREE_DEPTH + 1]; /* by level: the node or its ancestor has a later sibling */
    size_t next_component; /* where it begins in the name of rows[first]; SIZE_MAX: there is none */
};

/* split_component - returns the component of NAME at AT, and sets *NEXT to where the next one begins, or to
 * SIZE_MAX. At the last level, what follows AT is one component, with all its dots. */
static ckpt_str split_component(ckpt_str name, size_t at, unsigned level, size_t *next)
{
    const char *dot = level < MAX_TREE_DEPTH ? memchr(name.ptr + at, '.', name.len - at) : NULL;
    size_t end = dot ? (size_t)(dot - name.ptr) : name.len;
    *next = dot ? end + 1 : SIZE_MAX;
    return (ckpt_str){name.ptr + at, end - at};
}

/* compare_components - compares TEXT and NAME in natural order component by component, so that the rows below
 * a node are consecutive. */
static int compare_components(ckpt_str text, ckpt_str name)
{
    size_t i = 0, j = 0;
    for (unsigned level = 1;; level++) {
        size_t i_next, j_next;
        ckpt_str a = split_component(text, i, level, &i_next), b = split_component(name, j, level, &j_next);
        int c = ckpt_natural_compare(a, b);
        if (c || (i_next == SIZE_MAX && j_next == SIZE_MAX))
            return c;
        if (i_next == SIZE_MAX || j_next == SIZE_MAX)
            return i_next == SIZE_MAX ? -1 : 1;
        i = i_next;
        j = j_next;
    }
}

/* count_shared_nodes - returns how many nodes the path of NAME shares with PREVIOUS, the name before it. Two
 * tensors of the same name are two nodes. */
static uint8_t count_shared_nodes(ckpt_str previous, ckpt_str name)
{
    size_t at = 0;
    for (unsigned level = 1;; level++) {
        size_t next, previous_next;
        ckpt_str a = split_component(previous, at, level, &previous_next),
                 b = split_component(name, at, level, &next);
        if (next == SIZE_MAX || !str_is_equal(a, b))
            return (uint8_t)(level - 1);
        if (previous_next == SIZE_MAX)
            return (uint8_t)level;
        at = next;
    }
}

static ckpt_str name_of(const struct tree *tree, size_t index)
{
    return ckpt_tensor_name(tree->f, tree->rows[index]);
}

static bool next_node(struct tree_walk *walk)
{
    const struct tree *tree = walk->tree;
    do {
        if (walk->next_component == SIZE_MAX) {
            walk->first++;
            walk->next_component = 0;
            walk->level = 0;
        }
        if (walk->first == tree->n)
            return false;
        ckpt_str name = name_of(tree, walk->first);
        walk->component = split_component(name, walk->next_component, ++walk->level, &walk->next_component);
        walk->name_len = (size_t)(walk->component.ptr - name.ptr) + walk->component.len;
    } while (walk->level <= tree->shared_nodes[walk->first]);
    walk->is_tensor = walk->next_component == SIZE_MAX;
    size_t end = walk->first + 1;
    while (end < tree->n && tree->shared_nodes[end] >= walk->level)
        end++;
    walk->end = end;
    walk->has_sibling_after[walk->level] = end < tree->n && tree->shared_nodes[end] == walk->level - 1;
    return true;
}

static bool has_child(const struct tree_walk *walk)
{
    return !walk->is_tensor || walk->end > walk->first + 1;
}

/* add_branches - adds the lines before a name, "│ └─ ". */
static void add_branches(const struct tree_walk *walk, struct text *out)
{
    for (unsigned level = 1; level < walk->level; level++)
        text_add(out, walk->has_sibling_after[level] ? "│  " : "   ");
    text_add(out, walk->has_sibling_after[walk->level] ? "├─ " : "└─ ");
}

static struct totals sum_rows(const struct tree *tree, size_t first, size_t end)
{
    return totals_of_rows(tree->f, tree->rows + first, end - first);
}

static void add_tensor_cells(struct table *table, const ckpt_tensor *tensor)
{
    text_dtype(&table->text, tensor);
    table_cell(table);
    text_shape(&table->text, tensor);
    table_cell(table);
    if (tensor->has_data)
        text_size(&table->text, tensor->nbytes);
    table_cell(table);
}

static void add_branch_rows(struct table *table, const void *user)
{
    const struct tree *tree = user;
    struct tree_walk walk = {.tree = tree};
    table_header(table, NULL);
    while (next_node(&walk)) {
        bool folded = tree->depth && walk.level == tree->depth && has_child(&walk);
        if (tree->depth && walk.level > tree->depth)
            continue;
        table_row(table, PLAIN);
        add_branches(&walk, &table->text);
        text_name(&table->text, walk.component);
        table_cell(table);
        if (walk.is_tensor && !folded) {
            const ckpt_tensor x = tensor_at(tree->f, tree->rows[walk.first]);
            add_tensor_cells(table, &x);
        } else if (folded || walk.level == 1) {
            const struct totals sum = sum_rows(tree, walk.first, walk.end);
            table_sum_cells(table, &sum);
        } else {
            for (int i = 0; i < 3; i++)
                table_cell(table);
        }
    }
}

/* sort_tree - sorts the rows of TREE into its order, and computes tree->shared_nodes. */
static void sort_tree(struct tree *tree)
{
    tree->shared_nodes = mem_new(tree->n, sizeof *tree->shared_nodes);
    rows_sort(tree->f, tree->rows, tree->n, compare_components);
    for (size_t i = 1; i < tree->n; i++)
        tree->shared_nodes[i] = count_shared_nodes(name_of(tree, i - 1), name_of(tree, i));
}

void tree_print(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth, FILE *stream)
{
    struct table table = {.columns = 4, .right = {false, false, false, true}};
    struct tree tree = {.f = f, .rows = rows, .n = count, .depth = depth};
    sort_tree(&tree);
    table_flow(&table, add_branch_rows, &tree, stream, false);
    table_free(&table);
    free(tree.shared_nodes);
}

struct tree_group *tree_groups(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth,
                               size_t *ngroups)
{
    struct tree tree = {.f = f, .rows = rows, .n = count, .depth = depth};
    struct tree_walk walk = {.tree = &tree};
    struct tree_group *groups = mem_new(count, sizeof *groups);
    sort_tree(&tree);
    *ngroups = 0;
    while (next_node(&walk)) {
        bool at_depth = walk.level == depth; /* a group holds all rows of such a node */
        if (walk.level > depth || (!at_depth && !walk.is_tensor))
            continue;
        groups[(*ngroups)++] = (struct tree_group){
            .name = {name_of(&tree, walk.first).ptr, walk.name_len},
            .sum = sum_rows(&tree, walk.first, at_depth ? walk.end : walk.first + 1),
            .folded = at_depth && has_child(&walk),
            .first = walk.first};
    }
    free(tree.shared_nodes);
    return groups;
}

/* compare_sizes - orders the larger group first; equal groups as in the tree. */
static int compare_sizes(const void *left, const void *right)
{
    const struct tree_group *p = left, *q = right;
    if (p->sum.bytes != q->sum.bytes)
        return p->sum.bytes < q->sum.bytes ? 1 : -1;
    return p->first < q->first ? -1 : p->first > q->first;
}

void tree_sort_groups(struct tree_group *groups, size_t count)
{
    if (count)
        qsort(groups, count, sizeof *groups, compare_sizes);
}
