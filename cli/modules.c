/* modules.c - builds the list of modules from rows in the order of the tree, each module when its last row
 * was read. Identical children are folded before their parent is compared with its siblings, so the list
 * stays short: that of a mixture of 256 experts in 61 layers never has more than one layer in full. */
#include "modules.h"

#include <stdlib.h>
#include <string.h>

/* The digits of a larger number are a part of the name like any other. */
#define MAX_DIGITS 18

struct builder {
    struct modules *modules;
    struct tree tree;
    bool fold;
    size_t capacity;                 /* of modules->items */
    size_t open[TREE_MAX_DEPTH + 1]; /* the modules that the current row is in; the first one is the root */
    size_t next[TREE_MAX_DEPTH + 1]; /* for each of them: where the next component begins in the row's name */
    unsigned level;                  /* of the last of them */
    struct module **siblings;        /* room for the children of one module */
    size_t nsiblings_max;
};

/* ---------------------------------------------------------------- comparing */

static int compare_bytes(const char *left, size_t left_len, const char *right, size_t right_len)
{
    if (left_len != right_len)
        return left_len < right_len ? -1 : 1;
    return left_len ? memcmp(left, right, left_len) : 0;
}

static int compare_uints(uint64_t left, uint64_t right) { return left < right ? -1 : left > right; }

/* compare_forms - compares what is stored under the names of two modules: nothing, or tensors. */
static int compare_forms(const struct module *left, const struct module *right)
{
    int c = compare_uints(left->is_tensor, right->is_tensor);
    c = c ? c : compare_uints(left->dtype, right->dtype);
    c = c ? c : compare_uints(left->kind, right->kind);
    c = c ? c : compare_uints(left->has_shape, right->has_shape);
    if (!c && left->dtype_name != right->dtype_name)
        c = left->dtype_name && right->dtype_name ? strcmp(left->dtype_name, right->dtype_name)
                                                  : compare_uints(!left->dtype_name, !right->dtype_name);
    if (c || left->shape == right->shape)
        return c ? c : compare_uints(left->ndim, right->ndim);
    return compare_bytes((const char *)left->shape, left->ndim * sizeof *left->shape,
                         (const char *)right->shape, right->ndim * sizeof *right->shape);
}

static int compare_ranges(const struct module *left, const struct module *right)
{
    int c = compare_uints(left->nranges, right->nranges);
    for (size_t i = 0; !c && i < left->nranges; i++) {
        c = compare_uints(left->ranges[i].first, right->ranges[i].first);
        c = c ? c : compare_uints(left->ranges[i].last, right->ranges[i].last);
    }
    return c;
}

/* compare_contents - compares two modules without their labels. */
static int compare_contents(const struct module *left, const struct module *right)
{
    int c = compare_uints(left->nitems, right->nitems);
    c = c ? c : compare_forms(left, right);
    for (size_t i = 1; !c && i < left->nitems; i++) {
        const struct module *a = left + i, *b = right + i;
        c = compare_bytes(a->label.ptr, a->label.len, b->label.ptr, b->label.len);
        c = c ? c : compare_uints(a->nitems, b->nitems);
        c = c ? c : compare_ranges(a, b);
        c = c ? c : compare_forms(a, b);
    }
    return c;
}

/* compare_siblings - returns 0 if the two can be folded into one: only the numbers in their labels differ. */
static int compare_siblings(const struct module *left, const struct module *right)
{
    size_t left_end = left->number_at + left->number_len, right_end = right->number_at + right->number_len;
    int c = compare_bytes(left->label.ptr, left->number_at, right->label.ptr, right->number_at);
    c = c ? c
          : compare_bytes(left->label.ptr + left_end, left->label.len - left_end,
                          right->label.ptr + right_end, right->label.len - right_end);
    return c ? c : compare_contents(left, right);
}

static int compare_for_qsort(const void *left, const void *right)
{
    const struct module *a = *(struct module *const *)left, *b = *(struct module *const *)right;
    int c = compare_siblings(a, b);
    return c ? c : compare_uints((uintptr_t)a, (uintptr_t)b);
}

/* ------------------------------------------------------------------ folding */

/* find_number - finds the last number in the first component of the label. */
static void find_number(struct module *module, char separator)
{
    const char *label = module->label.ptr;
    const char *found = memchr(label, separator, module->label.len);
    size_t end = found ? (size_t)(found - label) : module->label.len, begin;
    while (end && !(label[end - 1] >= '0' && label[end - 1] <= '9'))
        end--;
    for (begin = end; begin && label[begin - 1] >= '0' && label[begin - 1] <= '9';)
        begin--;
    bool has_leading_zero = end - begin > 1 && label[begin] == '0';
    module->number_at = begin;
    module->number_len = end - begin > MAX_DIGITS || has_leading_zero ? 0 : end - begin;
}

static uint64_t number_of(const struct module *module)
{
    uint64_t number = 0;
    for (size_t i = 0; i < module->number_len; i++)
        number = number * 10 + (uint64_t)(module->label.ptr[module->number_at + i] - '0');
    return number;
}

static void add_range(struct module *module, struct number_range range)
{
    struct number_range *last = module->nranges ? &module->ranges[module->nranges - 1] : NULL;
    if (last && last->last + 1 == range.first) {
        last->last = range.last;
        return;
    }
    module->ranges = mem_make_room(module->ranges, module->nranges, sizeof *module->ranges);
    module->ranges[module->nranges++] = range;
}

static struct number_range first_range(const struct module *module)
{
    uint64_t number = module->ranges ? 0 : number_of(module);
    return module->ranges ? module->ranges[0] : (struct number_range){number, number};
}

static void add_sums(struct module *module, const struct module *other)
{
    module->sum.tensors += other->sum.tensors;
    add_saturated(&module->sum.elements, other->sum.elements);
    add_saturated(&module->sum.bytes, other->sum.bytes);
    module->ntied += other->ntied;
    module->dtypes |= other->dtypes;
    module->min_row = other->min_row < module->min_row ? other->min_row : module->min_row;
}

/* absorb - folds SIBLING into MODULE, which is the same but for a lower number in its name. The items of
 * SIBLING are removed later: its count becomes 0. */
static void absorb(struct module *module, struct module *sibling)
{
    if (!module->ranges)
        add_range(module, first_range(module));
    add_range(module, first_range(sibling));
    for (size_t i = 1; i < sibling->nranges; i++)
        add_range(module, sibling->ranges[i]);
    for (size_t i = 0; i < module->nitems; i++) {
        add_sums(&module[i], &sibling[i]);
        module[i].count += sibling[i].count;
        free(sibling[i].ranges);
    }
    sibling->count = 0;
}

/* absorb_equal - folds each of the COUNT SIBLINGS into the one before it if they are the same. Two tensors of
 * the same name are not folded. Returns how many siblings there are then. */
static size_t absorb_equal(struct module **siblings, size_t count)
{
    size_t kept = count ? 1 : 0;
    for (size_t i = 1; i < count; i++) {
        struct module *module = siblings[kept - 1];
        uint64_t last = module->ranges ? module->ranges[module->nranges - 1].last : number_of(module);
        if (last < first_range(siblings[i]).first && compare_siblings(module, siblings[i]) == 0)
            absorb(module, siblings[i]);
        else
            siblings[kept++] = siblings[i];
    }
    return kept;
}

/* remove_absorbed - removes the children of PARENT that were folded into others. */
static void remove_absorbed(struct modules *modules, struct module *parent)
{
    struct module *to = parent + 1, *end = modules->items + modules->n;
    for (struct module *child = parent + 1, *next; child < end; child = next) {
        size_t nitems = child->nitems;
        next = child + nitems;
        if (!child->count)
            continue;
        if (to != child)
            memmove(to, child, nitems * sizeof *to);
        to += nitems;
    }
    modules->n = (size_t)(to - modules->items);
}

static size_t collect_siblings(struct builder *builder, struct module *parent)
{
    struct module *end = builder->modules->items + builder->modules->n;
    size_t n = 0;
    for (struct module *child = parent + 1; child < end; child += child->nitems) {
        find_number(child, builder->tree.separator);
        if (!child->number_len)
            continue;
        if (n == builder->nsiblings_max) {
            builder->nsiblings_max = 2 * n + 16;
            builder->siblings = mem_grow(builder->siblings, builder->nsiblings_max,
                                         sizeof *builder->siblings);
        }
        builder->siblings[n++] = child;
    }
    return n;
}

/* fold_children - folds the children of PARENT, the last module whose rows were read. Most can be folded
 * into the one before them, so that few have to be sorted. */
static void fold_children(struct builder *builder, struct module *parent)
{
    size_t n = collect_siblings(builder, parent), kept = absorb_equal(builder->siblings, n);
    if (kept > 1) {
        qsort(builder->siblings, kept, sizeof *builder->siblings, compare_for_qsort);
        kept = absorb_equal(builder->siblings, kept);
    }
    if (kept < n)
        remove_absorbed(builder->modules, parent);
}

/* ----------------------------------------------------------------- building */

static struct module *add_module(struct builder *builder, ckpt_str label, uint32_t row)
{
    struct modules *modules = builder->modules;
    if (modules->n == builder->capacity) {
        builder->capacity = 2 * modules->n + 64;
        modules->items = mem_grow(modules->items, builder->capacity, sizeof *modules->items);
    }
    struct module *module = &modules->items[modules->n++];
    *module = (struct module){.label = label, .row = row, .min_row = row, .count = 1};
    return module;
}

/* join_only_child - makes one item of MODULE and its only child. */
static void join_only_child(struct modules *modules, struct module *module)
{
    struct module *child = module + 1;
    if (module->is_tensor || module->nitems < 2 || child->nitems + 1 < module->nitems || child->ranges)
        return;
    /* both labels are in the name of the first row of both */
    child->label.len += (size_t)(child->label.ptr - module->label.ptr);
    child->label.ptr = module->label.ptr;
    memmove(module, child, child->nitems * sizeof *module);
    modules->n--;
}

/* close_module - completes the module at the current level, whose rows were all read. */
static void close_module(struct builder *builder)
{
    struct modules *modules = builder->modules;
    struct module *module = &modules->items[builder->open[builder->level]];
    if (builder->fold)
        fold_children(builder, module);
    module->nitems = (size_t)(modules->items + modules->n - module);
    if (!builder->level)
        return;
    add_sums(&modules->items[builder->open[--builder->level]], module);
    join_only_child(modules, module);
}

/* dtype_bit - returns the bit for the dtype of TENSOR, after adding its bytes to that dtype. */
static uint64_t dtype_bit(struct modules *modules, const ckpt_tensor *tensor, uint64_t nbytes)
{
    const char *name = ckpt_tensor_dtype_name(tensor);
    size_t i = 0;
    if (!*name)
        return 0;
    while (i < modules->ndtypes && modules->dtypes[i].name != name &&
           strcmp(modules->dtypes[i].name, name) != 0)
        i++;
    if (i == modules->ndtypes && i == MODULES_DTYPES)
        modules->dtypes[--i].name = "…";
    else if (i == modules->ndtypes)
        modules->dtypes[modules->ndtypes++].name = name;
    add_saturated(&modules->dtypes[i].bytes, nbytes);
    return (uint64_t)1 << i;
}

static void set_tensor(struct modules *modules, struct module *module, const ckpt_tensor *tensor)
{
    module->is_tensor = true;
    module->shape = tensor->shape;
    module->ndim = tensor->ndim;
    module->has_shape = tensor->has_shape;
    module->dtype = tensor->dtype;
    module->dtype_name = tensor->dtype_name;
    module->kind = tensor->kind;
    module->ntied = tensor->alias_of != CKPT_NO_TENSOR;
    totals_add(&module->sum, tensor);
    module->dtypes = dtype_bit(modules, tensor, module->sum.bytes);
}

/* add_row - adds the modules of row INDEX that are not open. */
static void add_row(struct builder *builder, size_t index)
{
    const ckpt_tensor tensor = tensor_at(builder->tree.f, builder->tree.rows[index]);
    struct module *module = NULL;
    while (builder->level > builder->tree.shared_nodes[index])
        close_module(builder);
    for (size_t at = builder->next[builder->level]; at != SIZE_MAX;) {
        unsigned level = ++builder->level;
        ckpt_str component = tree_component(tensor.name, builder->tree.separator, at, level, &at);
        builder->next[level] = (size_t)(component.ptr - tensor.name.ptr) + component.len + 1;
        builder->open[level] = builder->modules->n;
        module = add_module(builder, component, builder->tree.rows[index]);
    }
    if (module) /* always: two tensors of one name are two modules */
        set_tensor(builder->modules, module, &tensor);
}

/* choose_separator - returns '/' if most names have one, as those of Keras and TensorFlow. */
static char choose_separator(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    size_t nslashes = 0;
    for (size_t i = 0; i < count; i++) {
        ckpt_str name = ckpt_tensor_name(f, rows[i]);
        nslashes += memchr(name.ptr, '/', name.len) != NULL;
    }
    return nslashes > count / 2 ? '/' : '.';
}

void modules_read(struct modules *modules, const ckpt_file *f, uint32_t *rows, size_t count, bool fold)
{
    *modules = (struct modules){.separator = choose_separator(f, rows, count)};
    struct builder builder = {.modules = modules, .fold = fold};
    builder.tree = (struct tree){.f = f, .rows = rows, .n = count, .separator = modules->separator};
    tree_sort(&builder.tree);
    add_module(&builder, (ckpt_str){"", 0}, CKPT_NO_TENSOR);
    for (size_t i = 0; i < count; i++)
        add_row(&builder, i);
    while (builder.level)
        close_module(&builder);
    close_module(&builder);
    free(builder.siblings);
    free(builder.tree.shared_nodes);
}

/* ------------------------------------------------------------------ sorting */

static int compare_sizes(const void *left, const void *right)
{
    const struct module *a = *(struct module *const *)left, *b = *(struct module *const *)right;
    int c = compare_uints(b->sum.bytes, a->sum.bytes);
    return c ? c : compare_uints((uintptr_t)a, (uintptr_t)b);
}

static int compare_min_rows(const void *left, const void *right)
{
    return compare_uints((*(struct module *const *)left)->min_row, (*(struct module *const *)right)->min_row);
}

/* sort_children - sorts the children of PARENT. SORTED has room for their items, CHILDREN for pointers to
 * them. */
static void sort_children(struct module *parent, enum row_order order, struct module *sorted,
                          struct module **children)
{
    size_t n = 0, nsorted = 0;
    for (struct module *child = parent + 1; child < parent + parent->nitems; child += child->nitems)
        children[n++] = child;
    if (n < 2)
        return;
    qsort(children, n, sizeof *children, order == ORDER_SIZE ? compare_sizes : compare_min_rows);
    for (size_t i = 0; i < n; i++) {
        memcpy(sorted + nsorted, children[i], children[i]->nitems * sizeof *sorted);
        nsorted += children[i]->nitems;
    }
    memcpy(parent + 1, sorted, nsorted * sizeof *sorted);
}

void modules_sort(struct modules *modules, enum row_order order)
{
    if (order == ORDER_NATURAL)
        return;
    struct module *sorted = mem_new(modules->n, sizeof *sorted);
    struct module **children = mem_new(modules->n, sizeof *children);
    for (size_t i = 0; i < modules->n; i++)
        sort_children(&modules->items[i], order, sorted, children);
    free(children);
    free(sorted);
}

/* ------------------------------------------------------------------ reading */

static void add_part(struct text *text, const char *part, size_t nbytes, bool exact)
{
    if (exact)
        text_bytes(text, part, nbytes);
    else
        text_name(text, (ckpt_str){part, nbytes});
}

/* add_ranges - adds the numbers of MODULE; if these are more than MAX ranges, "…" before the last. */
static void add_ranges(struct text *text, const struct module *module, size_t max)
{
    for (size_t i = 0; i < module->nranges; i++) {
        if (i + 1 == max && i + 1 < module->nranges) {
            text_add(text, ",…");
            i = module->nranges - 1;
        }
        text_byte(text, i ? ',' : '{');
        text_uint(text, module->ranges[i].first);
        if (module->ranges[i].last == module->ranges[i].first)
            continue;
        text_byte(text, '-');
        text_uint(text, module->ranges[i].last);
    }
    text_byte(text, '}');
}

void module_add_label(struct text *text, const struct module *module, size_t max_ranges, bool exact)
{
    size_t number_end = module->number_at + module->number_len;
    if (!module->ranges) {
        add_part(text, module->label.ptr, module->label.len, exact);
        return;
    }
    add_part(text, module->label.ptr, module->number_at, exact);
    add_ranges(text, module, max_ranges);
    add_part(text, module->label.ptr + number_end, module->label.len - number_end, exact);
}

void modules_free(struct modules *modules)
{
    for (size_t i = 0; i < modules->n; i++)
        free(modules->items[i].ranges);
    free(modules->items);
    *modules = (struct modules){0};
}
