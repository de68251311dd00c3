/* renames.c - reports the renames of a plan in a few lines: one for each different change of names. */
#include "edit.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 20 };

/* A change of names, without the components before and after it that stay the same. FROM and TO have no dot
 * at the end: if the tensor "module.x" becomes "x", and the module path "module" in _metadata becomes "",
 * both are the same change, from "module" to "". */
struct change {
    ckpt_str from, to;
    bool had_dot; /* FROM or TO had a dot at the end, which is printed */
    uint32_t mapping;
    uint64_t tensors, metadata, values; /* how many renames of each kind have this change */
    size_t first; /* index in the plan of the first rename with this change; the report is in this order */
};

/* shared_start_length - returns the length of the equal start of LEFT and RIGHT, which ends with a dot, or
 * 0. */
static size_t shared_start_length(ckpt_str left, ckpt_str right)
{
    size_t n = left.len < right.len ? left.len : right.len, keep = 0;
    for (size_t i = 0; i < n && left.ptr[i] == right.ptr[i]; i++)
        if (left.ptr[i] == '.')
            keep = i + 1;
    return keep;
}

/* component_is_number - returns true if the component of NAME at FROM is a number. */
static bool component_is_number(ckpt_str name, size_t from)
{
    size_t i = from;
    while (i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9')
        i++;
    return i > from && (i == name.len || name.ptr[i] == '.');
}

/* drop_last_component - returns HEAD_LEN, the length of the equal start of two names, less the last component
 * of that start unless that is a number: a report of "mlp.0 → mlp.fc1" is clearer than "0 → fc1". */
static size_t drop_last_component(ckpt_str name, size_t head_len)
{
    size_t last = head_len ? head_len - 1 : 0;
    while (last && name.ptr[last - 1] != '.')
        last--;
    return component_is_number(name, last) ? head_len : last;
}

static bool is_boundary(ckpt_str text, size_t at) { return at == 0 || text.ptr[at - 1] == '.'; }

/* shared_end_length - returns how many bytes at the end of LEFT and RIGHT are equal, in complete
 * components. */
static size_t shared_end_length(ckpt_str left, ckpt_str right)
{
    size_t n = left.len < right.len ? left.len : right.len, equal = 0;
    while (n - equal >= 8 &&
           memcmp(left.ptr + left.len - equal - 8, right.ptr + right.len - equal - 8, 8) == 0)
        equal += 8;
    while (equal < n && left.ptr[left.len - equal - 1] == right.ptr[right.len - equal - 1])
        equal++;
    if (is_boundary(left, left.len - equal) && is_boundary(right, right.len - equal))
        return equal;
    const char *dot = memchr(left.ptr + left.len - equal, '.', equal);
    return dot ? (size_t)(left.ptr + left.len - dot) - 1 : 0;
}

static ckpt_str cut_trailing_dot(ckpt_str text, bool *had_dot)
{
    if (!text.len || text.ptr[text.len - 1] != '.')
        return text;
    *had_dot = true;
    return (ckpt_str){text.ptr, text.len - 1};
}

static void make_change(const ckpt_rename *rename, size_t index, struct change *change)
{
    ckpt_str a = rename->from, b = rename->to;
    /* The equal end is cut first, so that "module.module.x" -> "module.x" removes "module." at the front. */
    size_t tail_len = shared_end_length(a, b);
    a.len -= tail_len;
    b.len -= tail_len;
    size_t head_len = shared_start_length(a, b);
    if (a.len > head_len && b.len > head_len &&
        (component_is_number(a, head_len) || component_is_number(b, head_len)))
        head_len = drop_last_component(a, head_len);
    *change = (struct change){.tensors = !rename->metadata && !rename->value && !rename->component,
                              .metadata = rename->metadata,
                              .values = rename->value,
                              .mapping = rename->mapping,
                              .first = index};
    change->from = cut_trailing_dot((ckpt_str){a.ptr + head_len, a.len - head_len}, &change->had_dot);
    change->to = cut_trailing_dot((ckpt_str){b.ptr + head_len, b.len - head_len}, &change->had_dot);
}

static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    int c = a->mapping != b->mapping ? (a->mapping < b->mapping ? -1 : 1) : 0;
    c = c ? c : ckpt_natural_compare(a->from, b->from);
    c = c ? c : ckpt_natural_compare(a->to, b->to);
    return c ? c : a->first < b->first ? -1 : 1;
}

/* merge_if_same - if CHANGE and INTO are the same change in the same mapping, adds CHANGE to INTO and returns
 * true. */
static bool merge_if_same(struct change *into, const struct change *change)
{
    if (into->mapping != change->mapping || !str_is_equal(into->from, change->from) ||
        !str_is_equal(into->to, change->to))
        return false;
    into->tensors += change->tensors;
    into->metadata += change->metadata;
    into->values += change->values;
    into->had_dot = into->had_dot || change->had_dot;
    return true;
}

static int compare_first_renames(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* merge_changes - merges equal ones of COUNT changes, and returns how many different ones there are. */
static size_t merge_changes(struct change *change, size_t count)
{
    size_t nkept = 0;
    qsort(change, count, sizeof *change, compare_changes);
    for (size_t i = 0; i < count; i++)
        if (!nkept || !merge_if_same(&change[nkept - 1], &change[i]))
            change[nkept++] = change[i];
    qsort(change, nkept, sizeof *change, compare_first_renames);
    return nkept;
}

static void add_count(struct text *out, const char **separator, uint64_t count, const char *singular,
                      const char *plural)
{
    if (!count)
        return;
    text_addf(out, "%s%s", *separator, show_noun(count, singular, plural));
    *separator = ", ";
}

/* add_counts - adds "14 of 14 tensors in state_dict, 6 _metadata entries". MAPPING is the mapping, or
 * NULL. */
static void add_counts(struct text *out, const struct change *change, const ckpt_mapping *mapping)
{
    const char *separator = "";
    if (change->tensors && mapping) {
        text_addf(out, "%s of %s", show_count(change->tensors),
                  show_noun(mapping->tensors, "tensor", "tensors"));
        separator = ", ";
    } else {
        add_count(out, &separator, change->tensors, "tensor", "tensors");
    }
    if (!change->tensors)
        add_count(out, &separator, change->values, "other key", "other keys");
    if (mapping && mapping->name.len) {
        text_addf(out, "%s%s", *separator ? " in " : "in ", escape_name(mapping->name));
        separator = ", ";
    }
    add_count(out, &separator, change->metadata, "_metadata entry", "_metadata entries");
    if (change->tensors)
        add_count(out, &separator, change->values, "other key", "other keys");
}

static void print_rename(const struct change *change, const char *prefix, const ckpt_mapping *mapping,
                         FILE *stream)
{
    struct text out = {0};
    const char *dot = change->had_dot ? "." : "";
    if (prefix)
        text_name(&out, str_c(prefix));
    else
        text_addf(&out, "%s%s", escape_name(change->from.len ? change->from : change->to), dot);
    if (!prefix && change->to.len && change->from.len)
        text_addf(&out, " → %s%s", escape_name(change->to), dot);
    text_add(&out, "   ");
    add_counts(&out, change, mapping);
    print_text(stream, "%s%s\n", ui.prefix, out.ptr);
    text_free(&out);
}

/* gather_changes - returns the *COUNT changes of P. Consecutive equal changes are frequent, and become
 * one. */
static struct change *gather_changes(const ckpt_plan *p, size_t *count)
{
    struct change *c = NULL;
    *count = 0;
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i);
        if (!r)
            mem_fail();
        struct change change, *last = *count ? &c[*count - 1] : NULL;
        make_change(r, i, &change);
        if (last && merge_if_same(last, &change))
            continue;
        c = mem_make_room(c, *count, sizeof *c);
        c[(*count)++] = change;
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
    size_t ndifferent = n ? merge_changes(c, n) : 0;
    for (size_t i = 0; i < ndifferent && i < MAX_LINES; i++)
        print_rename(&c[i], NULL, ckpt_plan_mapping_at(p, c[i].mapping), stream);
    if (ndifferent > MAX_LINES)
        print_text(stream, "and %zu more kinds of change; --json lists every name\n", ndifferent - MAX_LINES);
    free(c);
}
