/* diff_values.c - prints the compared values that are not tensors: as lines, rows of Markdown or JSON
 * objects. */
#include <string.h>

#include "diff.h"
#include "json.h"

enum {
    MAX_NODES = 100,    /* how many nodes of a value are shown at most */
    MAX_CLASS_NODES = 8 /* at most this many if the two values have different types, which matter more */
};

static const char *value_sign(const ckpt_diff_value *e)
{
    return e->what == CKPT_DIFF_ONLY_A         ? "-"
           : e->what == CKPT_DIFF_ONLY_B       ? "+"
           : e->what == CKPT_DIFF_NOT_COMPARED ? "?"
                                               : "~";
}

const ckpt_path_elem *find_key_of_other_type(const ckpt_path_elem *a, uint32_t na, const ckpt_path_elem *b,
                                             uint32_t nb, const ckpt_path_elem **in_b)
{
    for (; na && nb; na--, nb--)
        if (a[na - 1].is_int != b[nb - 1].is_int || a[na - 1].is_other != b[nb - 1].is_other) {
            *in_b = &b[nb - 1];
            return &a[na - 1];
        }
    return NULL;
}

const char *key_type_name(const ckpt_path_elem *key)
{
    return key->is_int ? "an int" : key->is_other ? "no str" : "a str";
}

static const ckpt_path_elem *find_differing_key(const ckpt_diff_value *e, const ckpt_path_elem **in_b)
{
    return find_key_of_other_type(e->a->path, e->a->npath, e->b->path, e->b->npath, in_b);
}

/* add_differing_texts - adds the texts of E's values to A and B; if the texts are equal, also where the
 * values differ. */
static void add_differing_texts(const ckpt_diff_value *e, struct text *a, struct text *b)
{
    char type_a[256], type_b[256];
    const ckpt_path_elem *in_b, *in_a = find_differing_key(e, &in_b);
    (void)ckpt_value_type_name(e->a->value, type_a, sizeof type_a);
    (void)ckpt_value_type_name(e->b->value, type_b, sizeof type_b);
    bool one_type = strcmp(type_a, type_b) == 0;
    text_value(a, e->a->value, one_type ? MAX_NODES : MAX_CLASS_NODES);
    text_value(b, e->b->value, one_type ? MAX_NODES : MAX_CLASS_NODES);
    if (strcmp(a->ptr, b->ptr) != 0)
        return;
    if (!one_type) {
        text_addf(a, " (%s)", type_a);
        text_addf(b, " (%s)", type_b);
    } else if (in_a) {
        text_addf(a, " (below a key that is %s)", key_type_name(in_a));
        text_addf(b, " (below a key that is %s)", key_type_name(in_b));
    } else {
        text_add(b, " (differs where it is not shown)");
    }
}

static void add_value_texts(const ckpt_diff_value *e, struct text *a, struct text *b)
{
    if (e->what == CKPT_DIFF_CHANGED)
        add_differing_texts(e, a, b);
    else if (e->a)
        text_value(a, e->a->value, MAX_NODES);
    else
        text_value(b, e->b->value, MAX_NODES);
    if (e->what == CKPT_DIFF_NOT_COMPARED)
        text_add(a, " (not compared: it contains tensors that are not listed)");
}

void values_text(const struct report *r)
{
    struct text a = {0}, b = {0};
    for (size_t i = 0; i < r->nvalues; i++) {
        const ckpt_diff_value *e = &r->values[i];
        text_clear(&a);
        text_clear(&b);
        add_value_texts(e, &a, &b);
        const char *arrow = a.len && b.len ? " → " : "";
        print_text(stdout, "%s%s %s = %s%s%s%s\n", style_on(diff_style(e->what)), value_sign(e),
                   escape_name(e->name), a.len ? a.ptr : "", arrow, b.len ? b.ptr : "",
                   style_off(diff_style(e->what)));
    }
    text_free(&a);
    text_free(&b);
}

static void add_markdown_value(struct text *out, struct text *value)
{
    text_add(out, " | ");
    if (value->len)
        text_markdown_code(out, value);
    text_clear(value);
}

void values_markdown(const struct report *r)
{
    struct text out = {0}, a = {0}, b = {0};
    if (r->nvalues) {
        text_add(&out, "| | value | ");
        text_markdown_name(&out, str_of(r->name_a));
        text_add(&out, " | ");
        text_markdown_name(&out, str_of(r->name_b));
        text_add(&out, " |\n|---|---|---|---|\n");
    }
    for (size_t i = 0; i < r->nvalues; i++) {
        const ckpt_diff_value *e = &r->values[i];
        add_value_texts(e, &a, &b);
        text_addf(&out, "| %s | ", e->what == CKPT_DIFF_ONLY_A ? "−" : value_sign(e));
        text_markdown_name(&out, e->name);
        add_markdown_value(&out, &a);
        add_markdown_value(&out, &b);
        print_text(stdout, "%s |\n", out.ptr);
        text_clear(&out);
    }
    text_free(&out);
    text_free(&a);
    text_free(&b);
}

void value_fields(struct record *line, const ckpt_diff_value *e)
{
    struct text a = {0}, b = {0};
    add_value_texts(e, &a, &b);
    record_field_text(line, e->a ? "value" : "");
    record_field_text(line, e->b ? "value" : "");
    record_field_text(line, a.len ? a.ptr : "");
    record_field_text(line, b.len ? b.ptr : "");
    text_free(&a);
    text_free(&b);
}

static void add_typed_value(json *parent, const ckpt_leaf *leaf)
{
    char type[256];
    json_text(parent, "type", ckpt_value_type_name(leaf->value, type, sizeof type));
    json_value(parent, "value", leaf->value);
}

static json *value_diff_json(const ckpt_diff_value *e)
{
    json *item = json_object();
    const ckpt_leaf *leaf = e->a ? e->a : e->b;
    json_str(item, "name", e->name);
    json_path(item, "path", leaf->path, leaf->npath);
    if (e->what != CKPT_DIFF_CHANGED) {
        add_typed_value(item, leaf);
    } else {
        json *b;
        const ckpt_path_elem *in_b;
        add_typed_value(json_add_object(item, "a"), e->a);
        add_typed_value(b = json_add_object(item, "b"), e->b);
        if (find_differing_key(e, &in_b))
            json_path(b, "path", e->b->path, e->b->npath);
    }
    return item;
}

static void list_json(const struct report *r, ckpt_diff_what what, FILE *stream)
{
    for (size_t i = 0; i < r->nvalues; i++)
        if (r->values[i].what == what)
            json_row(value_diff_json(&r->values[i]), stream);
}

void values_json(const struct report *r, FILE *stream)
{
    static const struct {
        const char *key;
        ckpt_diff_what what;
    } lists[] = {{"only_a", CKPT_DIFF_ONLY_A},
                 {"only_b", CKPT_DIFF_ONLY_B},
                 {"changed", CKPT_DIFF_CHANGED},
                 {"not_compared", CKPT_DIFF_NOT_COMPARED}};
    if (!r->value_totals.compared) {
        put_text(stream, "null");
        return;
    }
    put_text(stream, "{");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_begin_list(lists[i].key, stream);
        list_json(r, lists[i].what, stream);
        put_text(stream, "],");
    }
    print_text(stream, "\"same\":%llu}", (unsigned long long)r->value_totals.same);
}
