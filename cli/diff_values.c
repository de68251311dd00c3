/* diff_values.c - prints the compared values that are not tensors: as lines, rows of Markdown or JSON
 * objects. */
#include <string.h>

#include "diff.h"
#include "json.h"

enum {
    MAX_NODES = 100,    /* how many nodes of a value are shown at most */
    MAX_CLASS_NODES = 8 /* at most this many if the two values have different types, which matter more */
};

static const char *value_sign(const ckpt_diff_value *value)
{
    return value->what == CKPT_DIFF_ONLY_A         ? "-"
           : value->what == CKPT_DIFF_ONLY_B       ? "+"
           : value->what == CKPT_DIFF_NOT_COMPARED ? "?"
                                                   : "~";
}

const ckpt_path_elem *find_key_of_other_type(const ckpt_path_elem *left, uint32_t na,
                                             const ckpt_path_elem *right, uint32_t nb,
                                             const ckpt_path_elem **in_b)
{
    for (; na && nb; na--, nb--)
        if (left[na - 1].is_int != right[nb - 1].is_int || left[na - 1].is_other != right[nb - 1].is_other) {
            *in_b = &right[nb - 1];
            return &left[na - 1];
        }
    return NULL;
}

const char *key_type_name(const ckpt_path_elem *key)
{
    return key->is_int ? "an int" : key->is_other ? "no str" : "a str";
}

static const ckpt_path_elem *find_differing_key(const ckpt_diff_value *value, const ckpt_path_elem **in_b)
{
    return find_key_of_other_type(value->a->path, value->a->npath, value->b->path, value->b->npath, in_b);
}

/* add_differing_texts - adds the texts of VALUE's values to LEFT and RIGHT; if the texts are equal, also
 * where the values differ. */
static void add_differing_texts(const ckpt_diff_value *value, struct text *left, struct text *right)
{
    char type_a[256], type_b[256];
    const ckpt_path_elem *in_b, *in_a = find_differing_key(value, &in_b);
    (void)ckpt_value_type_name(value->a->value, type_a, sizeof type_a);
    (void)ckpt_value_type_name(value->b->value, type_b, sizeof type_b);
    bool one_type = strcmp(type_a, type_b) == 0;
    text_value(left, value->a->value, one_type ? MAX_NODES : MAX_CLASS_NODES);
    text_value(right, value->b->value, one_type ? MAX_NODES : MAX_CLASS_NODES);
    if (strcmp(left->ptr, right->ptr) != 0)
        return;
    if (!one_type) {
        text_addf(left, " (%s)", type_a);
        text_addf(right, " (%s)", type_b);
    } else if (in_a) {
        text_addf(left, " (below a key that is %s)", key_type_name(in_a));
        text_addf(right, " (below a key that is %s)", key_type_name(in_b));
    } else {
        text_add(right, " (differs where it is not shown)");
    }
}

static void add_value_texts(const ckpt_diff_value *value, struct text *left, struct text *right)
{
    if (value->what == CKPT_DIFF_CHANGED)
        add_differing_texts(value, left, right);
    else if (value->a)
        text_value(left, value->a->value, MAX_NODES);
    else
        text_value(right, value->b->value, MAX_NODES);
    if (value->what == CKPT_DIFF_NOT_COMPARED)
        text_add(left, " (not compared: it contains tensors that are not listed)");
}

void values_text(const struct report *report)
{
    struct text a = {0}, b = {0};
    for (size_t i = 0; i < report->nvalues; i++) {
        const ckpt_diff_value *e = &report->values[i];
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

void values_markdown(const struct report *report)
{
    struct text out = {0}, a = {0}, b = {0};
    if (report->nvalues) {
        text_add(&out, "| | value | ");
        text_markdown_name(&out, str_c(report->name_a));
        text_add(&out, " | ");
        text_markdown_name(&out, str_c(report->name_b));
        text_add(&out, " |\n|---|---|---|---|\n");
    }
    for (size_t i = 0; i < report->nvalues; i++) {
        const ckpt_diff_value *e = &report->values[i];
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

void value_fields(struct record *line, const ckpt_diff_value *value)
{
    struct text a = {0}, b = {0};
    add_value_texts(value, &a, &b);
    record_field_text(line, value->a ? "value" : "");
    record_field_text(line, value->b ? "value" : "");
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

static json *value_diff_json(const ckpt_diff_value *value)
{
    json *item = json_object();
    const ckpt_leaf *leaf = value->a ? value->a : value->b;
    json_str(item, "name", value->name);
    json_path(item, "path", leaf->path, leaf->npath);
    if (value->what != CKPT_DIFF_CHANGED) {
        add_typed_value(item, leaf);
    } else {
        json *b;
        const ckpt_path_elem *in_b;
        add_typed_value(json_add_object(item, "a"), value->a);
        add_typed_value(b = json_add_object(item, "b"), value->b);
        if (find_differing_key(value, &in_b))
            json_path(b, "path", value->b->path, value->b->npath);
    }
    return item;
}

static void list_json(const struct report *report, ckpt_diff_what what, FILE *stream)
{
    for (size_t i = 0; i < report->nvalues; i++)
        if (report->values[i].what == what)
            json_row(value_diff_json(&report->values[i]), stream);
}

void values_json(const struct report *report, FILE *stream)
{
    static const struct {
        const char *key;
        ckpt_diff_what what;
    } lists[] = {{"only_a", CKPT_DIFF_ONLY_A},
                 {"only_b", CKPT_DIFF_ONLY_B},
                 {"changed", CKPT_DIFF_CHANGED},
                 {"not_compared", CKPT_DIFF_NOT_COMPARED}};
    if (!report->value_totals.compared) {
        put_text(stream, "null");
        return;
    }
    put_text(stream, "{");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_begin_list(lists[i].key, stream);
        list_json(report, lists[i].what, stream);
        put_text(stream, "],");
    }
    print_text(stream, "\"same\":%llu}", (unsigned long long)report->value_totals.same);
}
