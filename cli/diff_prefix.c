/* diff_prefix.c - finds the prefix by which the names of two checkpoints differ, and prints what ignores
 * it. */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

/* extra_prefix - returns what the longer of A and B has before the text of the shorter, or "" if they differ
 * in another way. The prefix ends with a dot. *IN_B: B is the longer. */
static ckpt_str extra_prefix(ckpt_str a, ckpt_str b, bool *in_b)
{
    *in_b = b.len > a.len;
    ckpt_str longer = *in_b ? b : a, shorter = *in_b ? a : b;
    size_t n = longer.len - shorter.len;
    bool extends = n && longer.ptr[n - 1] == '.' &&
                   str_is_equal((ckpt_str){longer.ptr + n, shorter.len}, shorter);
    return extends ? (ckpt_str){longer.ptr, n} : (ckpt_str){"", 0};
}

/* find_renamed_prefix - returns the prefix that all renamed tensors have on one side only (in r->b if *IN_B);
 * "" if there is none, or fewer than two were renamed. */
static ckpt_str find_renamed_prefix(const struct report *r, bool *in_b)
{
    ckpt_str prefix = {"", 0};
    const ckpt_diff_event *e;
    bool longer_in_b;
    if (r->totals.renamed < 2)
        return prefix;
    for (size_t i = 0; (e = report_next_event(r, CKPT_DIFF_RENAMED, &i));) {
        ckpt_str extra = extra_prefix(e->name, e->other, &longer_in_b);
        bool same = longer_in_b == *in_b && str_is_equal(extra, prefix);
        if (!extra.len || (prefix.len && !same))
            return (ckpt_str){"", 0};
        prefix = extra;
        *in_b = longer_in_b;
    }
    return memchr(prefix.ptr, '\0', prefix.len) ? (ckpt_str){"", 0} : prefix;
}

/* ------------------------------------------------------------------- by names */

static int compare_bytes(const void *x, const void *y)
{
    const ckpt_str *a = x, *b = y;
    int c = memcmp(a->ptr, b->ptr, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* list_unmatched - returns the *N names of the events of kind WHAT, sorted by their bytes. */
static ckpt_str *list_unmatched(const struct report *r, ckpt_diff_what what, size_t *n)
{
    size_t max = (size_t)(what == CKPT_DIFF_ONLY_A ? r->totals.only_a : r->totals.only_b);
    ckpt_str *names = mem_new(max, sizeof *names);
    const ckpt_diff_event *e;
    *n = 0;
    for (size_t i = 0; (e = report_next_event(r, what, &i));)
        names[(*n)++] = e->name;
    qsort(names, *n, sizeof *names, compare_bytes);
    return names;
}

enum { MAX_PREFIXES = 32, MAX_COMPONENTS = 8 };

struct prefixes {
    struct prefix list[MAX_PREFIXES];
    size_t n;
};

static void count_prefix(struct prefixes *found, ckpt_str text, bool in_b)
{
    for (size_t i = 0; i < found->n; i++) {
        if (found->list[i].in_b == in_b && str_is_equal(found->list[i].text, text)) {
            found->list[i].pairs++;
            return;
        }
    }
    if (found->n < MAX_PREFIXES && !memchr(text.ptr, '\0', text.len))
        found->list[found->n++] = (struct prefix){text, in_b, 1};
}

/* count_prefixes - counts each prefix after which one of the NLONGER names LONGER is one of SHORTER. */
static void count_prefixes(struct prefixes *found, const ckpt_str *longer, size_t nlonger,
                           const ckpt_str *shorter, size_t nshorter, bool in_b)
{
    for (size_t i = 0; i < nlonger; i++) {
        size_t end = 0;
        for (unsigned k = 0; k < MAX_COMPONENTS; k++) {
            const char *dot = memchr(longer[i].ptr + end, '.', longer[i].len - end);
            if (!dot)
                break;
            end = (size_t)(dot - longer[i].ptr) + 1;
            ckpt_str rest = {longer[i].ptr + end, longer[i].len - end};
            if (bsearch(&rest, shorter, nshorter, sizeof rest, compare_bytes))
                count_prefix(found, (ckpt_str){longer[i].ptr, end}, in_b);
        }
    }
}

struct prefix report_find_prefix(const struct report *r)
{
    struct prefixes found = {.n = 0};
    struct prefix best = {.pairs = 1};
    size_t na, nb;
    ckpt_str *a = list_unmatched(r, CKPT_DIFF_ONLY_A, &na), *b = list_unmatched(r, CKPT_DIFF_ONLY_B, &nb);
    count_prefixes(&found, a, na, b, nb, false);
    count_prefixes(&found, b, nb, a, na, true);
    for (size_t i = 0; i < found.n; i++)
        if (found.list[i].pairs > best.pairs)
            best = found.list[i];
    free(a);
    free(b);
    return best.pairs > (na < nb ? na : nb) / 2 ? best : (struct prefix){.pairs = 0};
}

/* ----------------------------------------------------------------------- hint */

/* is_in_container - returns true if the first tensor of F whose name begins with PREFIX is in a container.
 * *HAS_PREFIX: there is such a name. */
static bool is_in_container(const ckpt_file *f, ckpt_str prefix, bool *has_prefix)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    *has_prefix = false;
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++) {
        if (!str_begins(t.name, prefix))
            continue;
        *has_prefix = true;
        const ckpt_path_elem *last = t.npath ? &t.path[t.npath - 1] : NULL;
        return last && last->str.ptr && last->str.len < t.name.len;
    }
    return false;
}

/* is_weights_root - returns true if PREFIX is the name of the mapping that holds the weights of F, and a
 * dot. */
static bool is_weights_root(ckpt_file *f, ckpt_str prefix)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_error ignored;
    return ckpt_inspect(f, &info, &ignored) == CKPT_OK && info.weights_root.len + 1 == prefix.len &&
           str_begins(prefix, info.weights_root);
}

/* add_option - adds the option of diff that makes the names equal. The path of --root has no dot at the
 * end. */
static void add_option(struct text *hint, ckpt_file *side, ckpt_str prefix, bool is_root)
{
    struct text word = {0};
    text_bytes(&word, prefix.ptr, prefix.len - is_root);
    text_add(hint, is_root ? "--root=" : "--ignore-prefix=");
    if (is_root && is_weights_root(side, prefix))
        text_add(hint, "auto");
    else
        text_shell(hint, word.ptr);
    text_free(&word);
}

static bool is_list_of_names(const ckpt_file *f) { return strcmp(ckpt_file_format(f), "names") == 0; }

/* add_rename - adds the command that writes the checkpoint with the names of the other side: it takes what is
 * in the container, or strips the prefix, from the file that has it; or, if that is a list of names, adds the
 * prefix in the other. */
static void add_rename(struct text *hint, const struct report *r, const struct prefix *p, bool is_root)
{
    struct text word = {0}, output = {0};
    bool strips = !is_list_of_names(p->in_b ? r->b : r->a);
    const char *path = strips == p->in_b ? r->name_b : r->name_a;
    text_bytes(&word, p->text.ptr, p->text.len - is_root);
    text_new_name(&output, "renamed", path, NULL);
    text_add(hint, is_root  ? "\n      to extract them: ckpt convert --root="
                   : strips ? "\n      to remove it: ckpt strip "
                            : "\n      to add it: ckpt add ");
    text_shell(hint, word.ptr);
    text_add(hint, " ");
    text_operand(hint, path);
    text_add(hint, " -o ");
    text_operand(hint, output.ptr);
    text_free(&word);
    text_free(&output);
}

/* add_count - adds how many of the names P explains, if it was found by comparing names. */
static void add_count(struct text *hint, const struct report *r, const struct prefix *p)
{
    uint64_t with = p->in_b ? r->totals.only_b : r->totals.only_a;
    uint64_t without = p->in_b ? r->totals.only_a : r->totals.only_b;
    if (!p->pairs || (p->pairs == with && p->pairs == without)) {
        text_add(hint, "hint: the names differ only by a prefix: add ");
        return;
    }
    if (p->pairs == with)
        text_addf(hint, "hint: all %llu", (unsigned long long)with);
    else
        text_addf(hint, "hint: %llu of the %llu", (unsigned long long)p->pairs, (unsigned long long)with);
    text_addf(hint, " names only in %s differ only by the prefix %s: add ",
              escape_name(str_of(p->in_b ? r->name_b : r->name_a)), escape_name(p->text));
}

void report_prefix_hint(const struct report *r)
{
    struct prefix p = {.pairs = 0};
    struct text hint = {0};
    bool has_prefix;
    const char *names[2] = {r->name_a, r->name_b};
    p.text = find_renamed_prefix(r, &p.in_b);
    bool by_bytes = p.text.len > 0;
    if (!by_bytes)
        p = report_find_prefix(r);
    if (!p.text.len)
        return;
    ckpt_file *side = p.in_b ? r->b : r->a;
    bool is_root = is_in_container(side, p.text, &has_prefix);
    bool full = by_bytes && has_prefix; /* else another root or prefix was given, and is to stay */
    if (full)
        text_add(&hint, "hint: the renamed ones differ only by a prefix: ckpt diff ");
    else
        add_count(&hint, r, &p);
    add_option(&hint, side, p.text, is_root);
    for (int i = 0; full && i < 2; i++) {
        text_add(&hint, " ");
        text_operand(&hint, names[i]);
    }
    if (!full && has_prefix && !(is_list_of_names(r->a) && is_list_of_names(r->b)))
        add_rename(&hint, r, &p, is_root);
    print_text(stderr, "%s\n", hint.ptr);
    text_free(&hint);
}
