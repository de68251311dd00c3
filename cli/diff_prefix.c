/* diff_prefix.c - finds the prefix by which the names of two checkpoints differ, and prints what ignores
 * it. */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

/* extra_prefix - returns what the longer of LEFT and RIGHT has before the text of the shorter, or "" if they
 * differ in another way. The prefix ends with a dot. *IN_B: RIGHT is the longer. */
static ckpt_str extra_prefix(ckpt_str left, ckpt_str right, bool *in_b)
{
    *in_b = right.len > left.len;
    ckpt_str longer = *in_b ? right : left, shorter = *in_b ? left : right;
    size_t n = longer.len - shorter.len;
    bool extends = n && longer.ptr[n - 1] == '.' &&
                   str_is_equal((ckpt_str){longer.ptr + n, shorter.len}, shorter);
    return extends ? (ckpt_str){longer.ptr, n} : (ckpt_str){"", 0};
}

/* find_renamed_prefix - returns the prefix that all renamed tensors have on one side only (in report->b if
 * *IN_B); "" if there is none, or fewer than two were renamed. */
static ckpt_str find_renamed_prefix(const struct report *report, bool *in_b)
{
    ckpt_str prefix = {"", 0};
    const ckpt_diff_event *e;
    bool longer_in_b;
    if (report->totals.renamed < 2)
        return prefix;
    for (size_t i = 0; (e = report_next_event(report, CKPT_DIFF_RENAMED, &i));) {
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

static int compare_bytes(const void *left, const void *right)
{
    const ckpt_str *a = left, *b = right;
    int c = memcmp(a->ptr, b->ptr, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* list_unmatched - returns the *COUNT names of the events of kind WHAT, sorted by their bytes. */
static ckpt_str *list_unmatched(const struct report *report, ckpt_diff_what what, size_t *count)
{
    size_t max = (size_t)(what == CKPT_DIFF_ONLY_A ? report->totals.only_a : report->totals.only_b);
    ckpt_str *names = mem_new(max, sizeof *names);
    const ckpt_diff_event *e;
    *count = 0;
    for (size_t i = 0; (e = report_next_event(report, what, &i));)
        names[(*count)++] = e->name;
    qsort(names, *count, sizeof *names, compare_bytes);
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

struct prefix report_find_prefix(const struct report *report)
{
    struct prefixes found = {.n = 0};
    struct prefix best = {.pairs = 1};
    size_t na, nb;
    ckpt_str *a = list_unmatched(report, CKPT_DIFF_ONLY_A, &na),
             *b = list_unmatched(report, CKPT_DIFF_ONLY_B, &nb);
    count_prefixes(&found, a, na, b, nb, false);
    count_prefixes(&found, b, nb, a, na, true);
    for (size_t i = 0; i < found.n; i++)
        if (found.list[i].pairs > best.pairs)
            best = found.list[i];
    free(a);
    free(b);
    size_t fewer = na < nb ? na : nb; /* a prefix that gives pairs to at most half of them is chance */
    return best.pairs > fewer / 2 ? best : (struct prefix){.pairs = 0};
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
static void add_rename(struct text *hint, const struct report *report, const struct prefix *prefix,
                       bool is_root)
{
    struct text word = {0}, output = {0};
    bool strips = !is_list_of_names(prefix->in_b ? report->b : report->a);
    const char *path = strips == prefix->in_b ? report->name_b : report->name_a;
    text_bytes(&word, prefix->text.ptr, prefix->text.len - is_root);
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

/* add_count - adds how many of the names PREFIX explains, if it was found by comparing names. */
static void add_count(struct text *hint, const struct report *report, const struct prefix *prefix)
{
    uint64_t with = prefix->in_b ? report->totals.only_b : report->totals.only_a;
    uint64_t without = prefix->in_b ? report->totals.only_a : report->totals.only_b;
    if (!prefix->pairs || (prefix->pairs == with && prefix->pairs == without)) {
        text_add(hint, "hint: the names differ only by a prefix: add ");
        return;
    }
    if (prefix->pairs == with)
        text_addf(hint, "hint: all %llu", (unsigned long long)with);
    else
        text_addf(hint, "hint: %llu of the %llu", (unsigned long long)prefix->pairs,
                  (unsigned long long)with);
    text_addf(hint, " names only in %s differ only by the prefix %s: add ",
              escape_name(str_c(prefix->in_b ? report->name_b : report->name_a)), escape_name(prefix->text));
}

void report_prefix_hint(const struct report *report)
{
    struct prefix p = {.pairs = 0};
    struct text hint = {0};
    bool has_prefix;
    const char *names[2] = {report->name_a, report->name_b};
    p.text = find_renamed_prefix(report, &p.in_b);
    bool by_bytes = p.text.len > 0;
    if (!by_bytes)
        p = report_find_prefix(report);
    if (!p.text.len)
        return;
    ckpt_file *side = p.in_b ? report->b : report->a;
    bool is_root = is_in_container(side, p.text, &has_prefix);
    bool full = by_bytes && has_prefix; /* else another root or prefix was given, and is to stay */
    if (full)
        text_add(&hint, "hint: the renamed ones differ only by a prefix: ckpt diff ");
    else
        add_count(&hint, report, &p);
    add_option(&hint, side, p.text, is_root);
    for (int i = 0; full && i < 2; i++) {
        text_add(&hint, " ");
        text_operand(&hint, names[i]);
    }
    if (!full && has_prefix && !(is_list_of_names(report->a) && is_list_of_names(report->b)))
        add_rename(&hint, report, &p, is_root);
    print_text(stderr, "%s\n", hint.ptr);
    text_free(&hint);
}
