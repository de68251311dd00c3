/* tree.c - prints names as a tree without building one. Rows are sorted by the components of their names,
 * which is the order of the tree. One byte is stored for each row: how many nodes of its path are also in the
 * path of the row before it. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* Visits the nodes, parents before children. The fields describe the current node. */
struct tree_walk {
    const struct tree *tree;
    ckpt_str component; /* the last component of the node's name */
    size_t name_len;    /* length of the node's name, with all components */
    unsigned level;     /* depth of the node; children of the root: 1 */
    size_t first, end;  /* the rows of the node and of all nodes below it: from first up to end */
    bool is_tensor;     /* rows[first] has the name of the node; the node may have children, too */
    bool has_sibling_after[TREE_MAX_DEPTH + 1]; /* by level: the node or its ancestor has a later sibling */
    size_t next_component; /* where it begins in the name of rows[first]; SIZE_MAX: there is none */
};

ckpt_str tree_component(ckpt_str name, char separator, size_t at, unsigned level, size_t *next)
{
    const char *found = level < TREE_MAX_DEPTH ? memchr(name.ptr + at, separator, name.len - at) : NULL;
    size_t end = found ? (size_t)(found - name.ptr) : name.len;
    *next = found ? end + 1 : SIZE_MAX;
    return (ckpt_str){name.ptr + at, end - at};
}

ckpt_str tree_name(const struct tree *tree, size_t index)
{
    return ckpt_tensor_name(tree->f, tree->rows[index]);
}

/* Where two names part: the level and the offset of the first component that differs, or of that in which the
 * shorter one ends. */
struct fork {
    unsigned level;
    size_t offset;
};

/* count_equal_bytes - returns how many bytes at the begin of LEFT and RIGHT are the same. */
static size_t count_equal_bytes(ckpt_str left, ckpt_str right)
{
    size_t len = left.len < right.len ? left.len : right.len, i = 0;
    while (len - i >= 8 && memcmp(left.ptr + i, right.ptr + i, 8) == 0)
        i += 8;
    while (i < len && left.ptr[i] == right.ptr[i])
        i++;
    return i;
}

static struct fork find_fork(ckpt_str left, ckpt_str right, char separator)
{
    size_t nequal = count_equal_bytes(left, right);
    struct fork fork = {1, 0};
    for (size_t i = 0; i < nequal && fork.level < TREE_MAX_DEPTH; i++) {
        if (left.ptr[i] != separator)
            continue;
        fork.level++;
        fork.offset = i + 1;
    }
    return fork;
}

/* find_fork_fast - finds what find_fork does, but the level may be too low as long as it is not the last
 * one. */
static struct fork find_fork_fast(ckpt_str left, ckpt_str right, char separator)
{
    struct fork fork = {1, count_equal_bytes(left, right)};
    if (fork.offset >= TREE_MAX_DEPTH - 1) /* there may be as many components */
        return find_fork(left, right, separator);
    while (fork.offset && left.ptr[fork.offset - 1] != separator)
        fork.offset--;
    return fork;
}

static int compare_names(ckpt_str left, ckpt_str right, char separator)
{
    const struct fork fork = find_fork_fast(left, right, separator);
    size_t left_next, right_next;
    ckpt_str a = tree_component(left, separator, fork.offset, fork.level, &left_next),
             b = tree_component(right, separator, fork.offset, fork.level, &right_next);
    int c = ckpt_natural_compare(a, b);
    return c ? c : (left_next != SIZE_MAX) - (right_next != SIZE_MAX);
}

static int compare_at_dots(ckpt_str left, ckpt_str right) { return compare_names(left, right, '.'); }
static int compare_at_slashes(ckpt_str left, ckpt_str right) { return compare_names(left, right, '/'); }

/* count_shared_nodes - returns how many nodes the path of NAME shares with PREVIOUS, the name before it. Two
 * tensors of the same name are two nodes. */
static uint8_t count_shared_nodes(ckpt_str previous, ckpt_str name, char separator)
{
    const struct fork fork = find_fork(previous, name, separator);
    size_t previous_next, next;
    ckpt_str a = tree_component(previous, separator, fork.offset, fork.level, &previous_next),
             b = tree_component(name, separator, fork.offset, fork.level, &next);
    bool is_below_previous = previous_next == SIZE_MAX && next != SIZE_MAX && str_is_equal(a, b);
    return (uint8_t)(is_below_previous ? fork.level : fork.level - 1);
}

void tree_sort(struct tree *tree)
{
    tree->shared_nodes = mem_new(tree->n, sizeof *tree->shared_nodes);
    rows_sort(tree->f, tree->rows, tree->n, tree->separator == '/' ? compare_at_slashes : compare_at_dots);
    for (size_t i = 1; i < tree->n; i++)
        tree->shared_nodes[i] = count_shared_nodes(tree_name(tree, i - 1), tree_name(tree, i),
                                                   tree->separator);
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
        ckpt_str name = tree_name(tree, walk->first);
        walk->component = tree_component(name, tree->separator, walk->next_component, ++walk->level,
                                         &walk->next_component);
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

void tree_add_branches(struct text *text, const bool *has_sibling_after, unsigned level)
{
    for (unsigned i = 1; i < level; i++)
        text_add(text, has_sibling_after[i] ? "│  " : "   ");
    text_add(text, has_sibling_after[level] ? "├─ " : "└─ ");
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

/* What add_branch_rows() adds to a table. */
struct branches {
    const struct tree *tree;
    uint64_t depth; /* the deepest level that is printed; 0: all */
};

static void add_branch_rows(struct table *table, const void *user)
{
    const struct branches *branches = user;
    const struct tree *tree = branches->tree;
    uint64_t depth = branches->depth;
    struct tree_walk walk = {.tree = tree};
    table_header(table, NULL);
    while (next_node(&walk)) {
        bool folded = depth && walk.level == depth && has_child(&walk);
        if (depth && walk.level > depth)
            continue;
        table_row(table, PLAIN);
        tree_add_branches(&table->text, walk.has_sibling_after, walk.level);
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

void tree_print(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth, FILE *stream)
{
    struct table table = {.columns = 4, .right = {false, false, false, true}};
    struct tree tree = {.f = f, .rows = rows, .n = count, .separator = '.'};
    tree_sort(&tree);
    table_flow(&table, add_branch_rows, &(struct branches){&tree, depth}, stream, false);
    table_free(&table);
    free(tree.shared_nodes);
}

struct tree_group *tree_groups(const ckpt_file *f, uint32_t *rows, size_t count, uint64_t depth,
                               size_t *ngroups)
{
    struct tree tree = {.f = f, .rows = rows, .n = count, .separator = '.'};
    struct tree_walk walk = {.tree = &tree};
    struct tree_group *groups = mem_new(count, sizeof *groups);
    tree_sort(&tree);
    *ngroups = 0;
    while (next_node(&walk)) {
        bool at_depth = walk.level == depth; /* a group holds all rows of such a node */
        if (walk.level > depth || (!at_depth && !walk.is_tensor))
            continue;
        groups[(*ngroups)++] = (struct tree_group){
            .name = {tree_name(&tree, walk.first).ptr, walk.name_len},
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
