#include "renames.h"

#include <stdlib.h>
#include <string.h>

#include "out.h"

enum { SHOWN = 20 };

/* A change without what stays the same around it, cut at dots. _metadata names
 * modules: "module" becomes "" where a tensor's "module." does, so the last dot
 * is kept apart. */
struct change {
    ckpt_str from, to;
    bool dot;
    uint64_t tensors, metadata;
    size_t first; /* index of its first rename: order of the report */
};

/* How much of A and B is equal at the start, ending after a dot. */
static size_t same_head(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len, keep = 0;
    for (size_t i = 0; i < n && a.ptr[i] == b.ptr[i]; i++)
        if (a.ptr[i] == '.')
            keep = i + 1;
    return keep;
}

static bool boundary(ckpt_str s, size_t at) { return at == 0 || s.ptr[at - 1] == '.'; }

/* How much is equal at the end, starting after a dot (or at the start) of both. */
static size_t same_tail(ckpt_str a, ckpt_str b)
{
    size_t n = a.len < b.len ? a.len : b.len, keep = 0;
    for (size_t i = 1; i <= n && a.ptr[a.len - i] == b.ptr[b.len - i]; i++)
        if (boundary(a, a.len - i) && boundary(b, b.len - i))
            keep = i;
    return keep;
}

static ckpt_str undotted(ckpt_str s, bool *dot)
{
    if (!s.len || s.ptr[s.len - 1] != '.')
        return s;
    *dot = true;
    return (ckpt_str){s.ptr, s.len - 1};
}

static struct change change_of(const ckpt_rename *r, size_t index)
{
    ckpt_str a = r->from, b = r->to;
    /* Tail first: "module.module.x" -> "module.x" takes a module. away at the front. */
    size_t tail = same_tail(a, b);
    a.len -= tail;
    b.len -= tail;
    size_t head = same_head(a, b);
    struct change c = {.tensors = !r->metadata, .metadata = r->metadata, .first = index};
    c.from = undotted((ckpt_str){a.ptr + head, a.len - head}, &c.dot);
    c.to = undotted((ckpt_str){b.ptr + head, b.len - head}, &c.dot);
    return c;
}

static int by_change(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    int c = ckpt_natural_compare(a->from, b->from);
    c = c ? c : ckpt_natural_compare(a->to, b->to);
    return c ? c : a->first < b->first ? -1 : 1;
}

static int by_first(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Sorts and merges equal changes; returns how many are left. */
static size_t merge(struct change *c, size_t n)
{
    size_t kept = 0;
    qsort(c, n, sizeof *c, by_change);
    for (size_t i = 0; i < n; i++) {
        struct change *last = kept ? &c[kept - 1] : NULL;
        if (last && !ckpt_natural_compare(last->from, c[i].from) &&
            !ckpt_natural_compare(last->to, c[i].to)) {
            last->tensors += c[i].tensors;
            last->metadata += c[i].metadata;
            last->dot = last->dot || c[i].dot;
        } else {
            c[kept++] = c[i];
        }
    }
    qsort(c, kept, sizeof *c, by_first);
    return kept;
}

static void counts(struct text *out, const struct change *c, uint64_t all)
{
    if (c->tensors) {
        text_count(out, c->tensors);
        text_add(out, " of ");
        text_noun(out, all, "tensor", "tensors");
    }
    if (c->metadata) {
        text_add(out, c->tensors ? ", " : "");
        text_noun(out, c->metadata, "_metadata entry", "_metadata entries");
    }
}

static void print_change(const struct change *c, const char *prefix, uint64_t all, FILE *to)
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
    counts(&out, c, all);
    fprintf(to, "%s\n", out.ptr);
    text_free(&out);
}

static bool same_text(ckpt_str a, ckpt_str b)
{
    return a.len == b.len && (!a.len || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* gather - all changes; a run of the same, as most are, is one. *N: how many. */
static struct change *gather(const ckpt_plan *p, size_t *n)
{
    struct change *c = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++) {
        struct change one = change_of(ckpt_plan_rename_at(p, i), i), *last = *n ? &c[*n - 1] : NULL;
        if (last && same_text(last->from, one.from) && same_text(last->to, one.to)) {
            last->tensors += one.tensors;
            last->metadata += one.metadata;
            last->dot = last->dot || one.dot;
            continue;
        }
        if (*n == cap) {
            cap = cap ? 2 * cap : 16;
            c = mem_grow(c, cap, sizeof *c);
        }
        c[(*n)++] = one;
    }
    return c;
}

void renames_print(const ckpt_plan *p, const char *prefix, FILE *to)
{
    size_t n;
    struct change *c = gather(p, &n), sum = {0};
    uint64_t all = ckpt_plan_tensor_count(p);
    for (size_t i = 0; i < n; i++) {
        sum.tensors += c[i].tensors;
        sum.metadata += c[i].metadata;
    }
    if (prefix && n) {
        print_change(&sum, prefix, all, to);
    } else if (n) {
        size_t kinds = merge(c, n);
        for (size_t i = 0; i < kinds && i < SHOWN; i++)
            print_change(&c[i], NULL, all, to);
        if (kinds > SHOWN)
            fprintf(to, "and %zu more kinds of change; --json lists every name\n", kinds - SHOWN);
    }
    free(c);
}
