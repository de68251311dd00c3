/* renames.c - reports a thousand renames in a few lines, by the part of the names that changes. */
#include "edit.h"

#include <stdlib.h>

enum { SHOWN = 20 };

/* A change of names, without the components before and after it that stay the same. If "module.x" becomes "x"
 * in tensors, the module path "module" becomes "" in _metadata. FROM and TO have no dot at the end, so that
 * both are one change, from "module" to "". */
struct change {
    ckpt_str from, to;
    bool dot; /* FROM or TO had a dot at the end, which is printed */
    uint32_t mapping;
    uint64_t tensors, metadata, values;
    size_t first; /* index of its first rename, which gives the order of the report */
};

/* shared_start_length - returns how many bytes at the start of A and B are equal, up to a dot. */
static size_t shared_start_length(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len, keep = 0;
    for (size_t i = 0; i < n && a.ptr[i] == b.ptr[i]; i++)
        if (a.ptr[i] == '.')
            keep = i + 1;
    return keep;
}

/* is_number - returns true if the component of NAME at FROM is a number. */
static bool is_number(ckpt_str name, size_t from)
{
    size_t i = from;
    while (i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9')
        i++;
    return i > from && (i == name.len || name.ptr[i] == '.');
}

/* head_before_number - returns HEAD, the length of what both names begin with, without the last component
 * before a number, because a number means nothing alone (mlp.0 → mlp.fc1). */
static size_t head_before_number(ckpt_str name, size_t head)
{
    size_t from = head ? head - 1 : 0;
    while (from && name.ptr[from - 1] != '.')
        from--;
    return is_number(name, from) ? head : from;
}

static bool is_boundary(ckpt_str s, size_t at) { return at == 0 || s.ptr[at - 1] == '.'; }

/* shared_end_length - returns how many bytes at the end of A and B are equal, in complete components. */
static size_t shared_end_length(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len, keep = 0;
    for (size_t i = 1; i <= n && a.ptr[a.len - i] == b.ptr[b.len - i]; i++)
        if (is_boundary(a, a.len - i) && is_boundary(b, b.len - i))
            keep = i;
    return keep;
}

static ckpt_str cut_trailing_dot(ckpt_str s, bool *dot)
{
    if (!s.len || s.ptr[s.len - 1] != '.')
        return s;
    *dot = true;
    return (ckpt_str){s.ptr, s.len - 1};
}

static struct change make_change(const ckpt_rename *r, size_t index)
{
    ckpt_str a = r->from, b = r->to;
    /* Cuts the end first, so that "module.module.x" -> "module.x" removes "module." at the front. */
    size_t tail = shared_end_length(a, b);
    a.len -= tail;
    b.len -= tail;
    size_t head = shared_start_length(a, b);
    if (a.len > head && b.len > head && (is_number(a, head) || is_number(b, head)))
        head = head_before_number(a, head);
    struct change c = {.tensors = !r->metadata && !r->value && !r->component,
                       .metadata = r->metadata,
                       .values = r->value,
                       .mapping = r->mapping,
                       .first = index};
    c.from = cut_trailing_dot((ckpt_str){a.ptr + head, a.len - head}, &c.dot);
    c.to = cut_trailing_dot((ckpt_str){b.ptr + head, b.len - head}, &c.dot);
    return c;
}

static int compare_changes(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    int c = a->mapping != b->mapping ? (a->mapping < b->mapping ? -1 : 1) : 0;
    c = c ? c : ckpt_natural_compare(a->from, b->from);
    c = c ? c : ckpt_natural_compare(a->to, b->to);
    return c ? c : a->first < b->first ? -1 : 1;
}

/* add_if_same - adds the counts of C to INTO and returns true if both are one change in one mapping. */
static bool add_if_same(struct change *into, const struct change *c)
{
    if (into->mapping != c->mapping || !str_is_equal(into->from, c->from) || !str_is_equal(into->to, c->to))
        return false;
    into->tensors += c->tensors;
    into->metadata += c->metadata;
    into->values += c->values;
    into->dot = into->dot || c->dot;
    return true;
}

static int compare_first_renames(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* merge_changes - sorts N changes and merges equal ones; returns how many are left. */
static size_t merge_changes(struct change *c, size_t n)
{
    size_t kept = 0;
    qsort(c, n, sizeof *c, compare_changes);
    for (size_t i = 0; i < n; i++)
        if (!kept || !add_if_same(&c[kept - 1], &c[i]))
            c[kept++] = c[i];
    qsort(c, kept, sizeof *c, compare_first_renames);
    return kept;
}

static void add_count(struct text *out, const char **gap, uint64_t n, const char *singular,
                      const char *plural)
{
    if (!n)
        return;
    text_add(out, *gap);
    text_noun(out, n, singular, plural);
    *gap = ", ";
}

/* add_counts - adds "14 of 14 tensors in state_dict, 6 _metadata entries"; M may be NULL. */
static void add_counts(struct text *out, const struct change *c, const ckpt_mapping *m)
{
    const char *gap = "";
    if (c->tensors && m) {
        text_count(out, c->tensors);
        text_add(out, " of ");
        text_noun(out, m->tensors, "tensor", "tensors");
        gap = ", ";
    } else {
        add_count(out, &gap, c->tensors, "tensor", "tensors");
    }
    if (!c->tensors)
        add_count(out, &gap, c->values, "other key", "other keys");
    if (m && m->name.len) {
        text_add(out, *gap ? " in " : "in ");
        text_name(out, m->name);
        gap = ", ";
    }
    add_count(out, &gap, c->metadata, "_metadata entry", "_metadata entries");
    if (c->tensors)
        add_count(out, &gap, c->values, "other key", "other keys");
}

static void print_rename(const struct change *c, const char *prefix, const ckpt_mapping *m, FILE *stream)
{
    struct text out = {0};
    const char *dot = c->dot ? "." : "";
    if (prefix) {
        text_name(&out, str_of(prefix));
    } else {
        text_name(&out, c->from.len ? c->from : c->to);
        text_add(&out, dot);
    }
    if (!prefix && c->to.len && c->from.len) {
        text_add(&out, " → ");
        text_name(&out, c->to);
        text_add(&out, dot);
    }
    text_add(&out, "   ");
    add_counts(&out, c, m);
    fprintf(stream, "%s\n", out.ptr);
    text_free(&out);
}

/* gather_changes - returns the *N changes of P. Consecutive equal changes, which most are, become one. */
static struct change *gather_changes(const ckpt_plan *p, size_t *n)
{
    struct change *c = NULL;
    *n = 0;
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i);
        if (!r)
            mem_fail();
        struct change change = make_change(r, i), *last = *n ? &c[*n - 1] : NULL;
        if (last && add_if_same(last, &change))
            continue;
        c = mem_make_room(c, *n, sizeof *c);
        c[(*n)++] = change;
    }
    return c;
}

/* print_mappings - prints a line for each mapping in which PREFIX, the only change, was removed or added. */
static void print_mappings(const ckpt_plan *p, const char *prefix, FILE *stream)
{
    const ckpt_mapping *m;
    for (size_t i = 0; (m = ckpt_plan_mapping_at(p, i)); i++) {
        struct change c = {.tensors = m->renamed, .metadata = m->metadata, .values = m->values};
        if (c.tensors || c.metadata || c.values)
            print_rename(&c, prefix, m, stream);
    }
}

void renames_print(const ckpt_plan *p, const char *prefix, FILE *stream)
{
    size_t n;
    if (prefix) {
        print_mappings(p, prefix, stream);
        return;
    }
    struct change *c = gather_changes(p, &n);
    size_t kinds = n ? merge_changes(c, n) : 0;
    for (size_t i = 0; i < kinds && i < SHOWN; i++)
        print_rename(&c[i], NULL, ckpt_plan_mapping_at(p, c[i].mapping), stream);
    if (kinds > SHOWN)
        fprintf(stream, "and %zu more kinds of change; --json lists every name\n", kinds - SHOWN);
    free(c);
}
