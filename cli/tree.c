#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* The component of NAME at AT and where the next begins; SIZE_MAX: none. The
 * last level takes the rest, dots and all. */
static ckpt_str component(ckpt_str name, size_t at, unsigned level, size_t *next)
{
    const char *dot = level < TREE_DEPTH ? memchr(name.ptr + at, '.', name.len - at) : NULL;
    size_t end = dot ? (size_t)(dot - name.ptr) : name.len;
    *next = dot ? end + 1 : SIZE_MAX;
    return (ckpt_str){name.ptr + at, end - at};
}

struct named {
    ckpt_str name;
    uint32_t row;
};

/* Natural order component by component, so that what is below one node stands together. */
static int by_component(const void *x, const void *y)
{
    const struct named *p = x, *q = y;
    size_t i = 0, j = 0;
    for (unsigned level = 1;; level++) {
        size_t i_next, j_next;
        ckpt_str a = component(p->name, i, level, &i_next), b = component(q->name, j, level, &j_next);
        int c = ckpt_natural_compare(a, b);
        if (c)
            return c;
        if (i_next == SIZE_MAX || j_next == SIZE_MAX) {
            if (i_next != j_next)
                return i_next == SIZE_MAX ? -1 : 1;
            return p->row < q->row ? -1 : p->row > q->row;
        }
        i = i_next;
        j = j_next;
    }
}

static uint32_t add(struct tree *t, uint32_t parent, uint32_t before, ckpt_str word, size_t nfull)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->nodes = mem_grow(t->nodes, t->cap, sizeof *t->nodes);
    }
    unsigned depth = t->n ? t->nodes[parent].depth + 1 : 0;
    t->nodes[t->n] = (struct tree_node){word.ptr, word.len, nfull, CKPT_NO_TENSOR, parent, depth, false, {0}};
    if (before)
        t->nodes[before].more = true;
    return (uint32_t)t->n++;
}

static void place(struct tree *t, const ckpt_file *f, uint32_t row, uint32_t last[TREE_DEPTH + 1])
{
    const ckpt_tensor it = tensor_at(f, row), *x = &it;
    uint32_t at = 0;
    size_t i = 0;
    totals_add(&t->nodes[0].sum, x);
    for (unsigned level = 1; i != SIZE_MAX; level++) {
        size_t next;
        ckpt_str word = component(x->name, i, level, &next);
        uint32_t here = last[level];
        bool same = here && t->nodes[here].parent == at && t->nodes[here].nword == word.len &&
                    memcmp(t->nodes[here].word, word.ptr, word.len) == 0 &&
                    !(next == SIZE_MAX && t->nodes[here].row != CKPT_NO_TENSOR);
        if (!same) {
            bool sibling = here && t->nodes[here].parent == at;
            here = add(t, at, sibling ? here : 0, word, i + word.len);
            last[level] = here;
        }
        totals_add(&t->nodes[here].sum, x);
        at = here;
        i = next;
    }
    t->nodes[at].row = row;
}

void tree_make(struct tree *t, const ckpt_file *f, uint32_t *rows, size_t n)
{
    struct named *names = mem_new(n, sizeof *names);
    uint32_t last[TREE_DEPTH + 1] = {0};
    for (size_t i = 0; i < n; i++)
        names[i] = (struct named){ckpt_tensor_name(f, rows[i]), rows[i]};
    qsort(names, n, sizeof *names, by_component);
    *t = (struct tree){0};
    add(t, 0, 0, (ckpt_str){"", 0}, 0);
    for (size_t i = 0; i < n; i++) {
        rows[i] = names[i].row;
        place(t, f, rows[i], last);
    }
    free(names);
}

void tree_free(struct tree *t)
{
    free(t->nodes);
    *t = (struct tree){0};
}

static bool has_child(const struct tree *t, size_t i) { return i + 1 < t->n && t->nodes[i + 1].parent == i; }

/* "│  └─ " for node I. */
static void branches(const struct tree *t, size_t i, struct text *out)
{
    uint32_t up[TREE_DEPTH + 1];
    const struct tree_node *n = &t->nodes[i];
    unsigned depth = n->depth;
    for (uint32_t p = n->parent, d = depth - 1; d >= 1; p = t->nodes[p].parent, d--)
        up[d] = p;
    for (unsigned d = 1; d < depth; d++)
        text_add(out, t->nodes[up[d]].more ? "│  " : "   ");
    text_add(out, n->more ? "├─ " : "└─ ");
}

static void sums(struct table *w, const struct totals *sum)
{
    text_noun(&w->text, sum->tensors, "tensor", "tensors");
    table_cell(w);
    text_count(&w->text, sum->elements);
    table_cell(w);
    text_size(&w->text, sum->bytes);
    table_cell(w);
}

static void tensor(struct table *w, const ckpt_tensor *x)
{
    text_dtype(&w->text, x);
    table_cell(w);
    text_shape(&w->text, x);
    table_cell(w);
    if (x->has_data)
        text_size(&w->text, x->nbytes);
    table_cell(w);
}

void tree_print(const struct tree *t, const ckpt_file *f, uint64_t depth, FILE *to)
{
    struct table w = {.columns = 4, .right = {false, false, false, true}};
    table_row(&w, PLAIN); /* no header: table_print leaves the first row out */
    for (int i = 0; i < 4; i++)
        table_cell(&w);
    for (size_t i = 1; i < t->n; i++) {
        const struct tree_node *n = &t->nodes[i];
        bool cut = depth && n->depth == depth && has_child(t, i);
        if (depth && n->depth > depth)
            continue;
        table_row(&w, PLAIN);
        branches(t, i, &w.text);
        text_name(&w.text, (ckpt_str){n->word, n->nword});
        table_cell(&w);
        if (n->row != CKPT_NO_TENSOR && !cut) {
            const ckpt_tensor it = tensor_at(f, n->row);
            tensor(&w, &it);
        } else if (cut || n->depth == 1) {
            sums(&w, &n->sum);
        } else {
            for (int c = 1; c < 4; c++)
                table_cell(&w);
        }
    }
    table_print(&w, to, false);
    table_free(&w);
}

void tree_groups(const struct tree *t, const ckpt_file *f, uint64_t depth, FILE *to)
{
    struct table w = {.columns = 4, .right = {false, true, true, true}};
    static const char *const head[] = {"NAME", "TENSORS", "ELEMENTS", "SIZE"};
    table_row(&w, BOLD);
    for (int i = 0; i < 4; i++) {
        text_add(&w.text, head[i]);
        table_cell(&w);
    }
    for (size_t i = 1; i < t->n; i++) {
        const struct tree_node *n = &t->nodes[i];
        if (n->depth > depth || (n->depth < depth && n->row == CKPT_NO_TENSOR))
            continue;
        /* Any row below tells the full name; the first is this node or comes next. */
        size_t j = i;
        while (t->nodes[j].row == CKPT_NO_TENSOR)
            j++;
        table_row(&w, PLAIN);
        text_name(&w.text, (ckpt_str){ckpt_tensor_name(f, t->nodes[j].row).ptr, n->nfull});
        text_add(&w.text, n->depth == depth && has_child(t, i) ? ".*" : "");
        table_cell(&w);
        if (n->depth < depth) {
            struct totals own = {0};
            const ckpt_tensor it = tensor_at(f, n->row);
            totals_add(&own, &it);
            sums(&w, &own);
        } else {
            sums(&w, &n->sum);
        }
    }
    table_print(&w, to, ui.tty);
    table_free(&w);
}
