#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "find.h"
#include "json.h"
#include "number.h"
#include "preview.h"

static int run(int n, char **operand);

static bool full, exact;

static const struct opt options[] = {
    {0, "full", NULL, OPT_FLAG, &full, "all elements, not only the edges of a large tensor"},
    {0, "exact", NULL, OPT_FLAG, &exact, "enough digits to tell any two numbers apart, not four decimals"},
    UI_JSON,
    UI_QUIET,
    {0},
};

const struct cmd cmd_show = {"show",
                             "FILE [PATH[slice]]",
                             "show one value: numbers of a tensor, an option, a container",
                             options,
                             1,
                             2,
                             run,
                             NULL};

/* ------------------------------------------------------------------ tensors */

static void print_shape(struct text *out, const struct slice *s)
{
    uint32_t n = 0;
    text_add(out, "[");
    for (uint32_t i = 0; i < s->naxes; i++)
        if (!s->axes[i].dropped)
            text_addf(out, "%s%llu", n++ ? ", " : "", (unsigned long long)s->axes[i].count);
    text_add(out, "]");
}

static void describe(const ckpt_tensor *t, const struct slice *s)
{
    struct text out = {0};
    text_dtype(&out, t);
    text_add(&out, " ");
    text_shape(&out, t);
    if (t->kind != CKPT_DENSE && t->dtype != CKPT_DT_NONE)
        text_addf(&out, " %s", ckpt_kind_name((ckpt_kind)t->kind));
    if (t->klass.len) {
        text_add(&out, " ");
        text_name(&out, t->klass);
    }
    if (t->note.len) {
        text_add(&out, ", ");
        text_name(&out, t->note);
    }
    if (s) {
        text_add(&out, ", here ");
        print_shape(&out, s);
    }
    puts(out.ptr);
    text_free(&out);
}

/* Composites have no numbers of their own: their parts are named. */
static int show_parts(const ckpt_file *f, uint32_t row)
{
    const ckpt_tensor whole = tensor_at(f, row);
    ckpt_tensor it, *t = &it;
    describe(&whole, NULL);
    struct text out = {0};
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &it); i++) {
        if (t->part_of != row)
            continue;
        text_clear(&out);
        text_add(&out, "  ");
        text_name(&out, t->name);
        text_add(&out, "  ");
        text_dtype(&out, t);
        text_add(&out, " ");
        text_shape(&out, t);
        puts(out.ptr);
    }
    text_free(&out);
    return YES;
}

static void tensor_head(const ckpt_file *f, const ckpt_tensor *t, const struct slice *s)
{
    json *j = json_schema("ckpt.show.v1"), *here;
    json_text(j, "file", ckpt_file_path(f));
    json_tensor(j, t);
    json_text(j, "kind", ckpt_kind_name((ckpt_kind)t->kind));
    if (!s) {
        json_line(j, stdout);
        return;
    }
    here = json_add_array(j, "shown");
    for (uint32_t i = 0; i < s->naxes; i++)
        if (!s->axes[i].dropped)
            json_u64(here, NULL, s->axes[i].count);
    json_open(j, "data", stdout);
}

static int show_tensor(ckpt_file *f, uint32_t row, const char *slice)
{
    const ckpt_tensor it = tensor_at(f, row), *t = &it;
    struct slice s;
    ckpt_error err;
    char why[128];
    uint32_t ndim;
    const char *path = ckpt_file_path(f);
    if (!t->has_data) {
        if (!ui.json)
            return show_parts(f, row);
        tensor_head(f, t, NULL);
        return YES;
    }
    if (!number_bytes((ckpt_dtype)t->dtype)) {
        describe(t, NULL);
        return trouble_text(CKPT_EUNSUPPORTED, path, NULL, "elements of this type are not shown");
    }
    const uint64_t *shape = preview_shape(t, &ndim);
    if (!slice_parse(slice, shape, ndim, &s, why, sizeof why))
        return trouble_text(CKPT_EUSAGE, path, NULL, "%s", why);
    struct preview p = {f, row, &s, full, exact};
    if (ui.json)
        tensor_head(f, t, &s);
    else
        describe(t, slice ? &s : NULL);
    ckpt_status status = ui.json ? preview_json(&p, &err) : preview_text(&p, &err);
    if (ui.json)
        puts("}");
    slice_free(&s);
    return status == CKPT_OK ? YES : trouble(&err, path);
}

/* ------------------------------------------------------------------- values */

static void item_cells(struct table *w, const ckpt_file *f, const ckpt_value *v)
{
    char type[256];
    uint32_t row = ckpt_value_tensor(v);
    if (row != CKPT_NO_TENSOR) {
        const ckpt_tensor it = tensor_at(f, row), *t = &it;
        text_dtype(&w->text, t);
        table_cell(w);
        text_shape(&w->text, t);
    } else {
        text_add(&w->text, ckpt_value_type_name(v, type, sizeof type));
        table_cell(w);
        text_value(&w->text, v, 8);
    }
    table_cell(w);
}

static void print_items(const ckpt_file *f, const ckpt_value *v)
{
    struct table w = {.columns = 3};
    const ckpt_value *key, *val;
    table_row(&w, PLAIN); /* the header that is not printed */
    for (int i = 0; i < 3; i++)
        table_cell(&w);
    for (size_t i = 0; ckpt_value_item(v, i, &key, &val); i++) {
        table_row(&w, PLAIN);
        if (key)
            key_text(&w.text, key);
        else
            text_addf(&w.text, "%zu", i);
        table_cell(&w);
        item_cells(&w, f, val);
    }
    table_print(&w, stdout, false);
    table_free(&w);
}

static void value_head(const char *title, const ckpt_value *v, size_t n)
{
    char type[256];
    struct text out = {0};
    if (title) {
        text_name(&out, str_of(title));
        text_add(&out, "   ");
    }
    text_add(&out, ckpt_value_type_name(v, type, sizeof type));
    text_add(&out, ", ");
    text_noun(&out, n, "item", "items");
    printf("%s%s%s\n", style_on(BOLD), out.ptr, style_off(BOLD));
    text_free(&out);
}

static json *item_json(const ckpt_file *f, const ckpt_value *key, const ckpt_value *v, size_t i)
{
    char type[256];
    json *j = json_object();
    uint32_t row = ckpt_value_tensor(v);
    if (key)
        json_value(j, "key", key);
    else
        json_u64(j, "key", i);
    json_text(j, "type", ckpt_value_type_name(v, type, sizeof type));
    const ckpt_tensor it = tensor_at(f, row);
    if (row != CKPT_NO_TENSOR)
        json_tensor(json_add_object(j, "tensor"), &it);
    else if (ckpt_value_count(v))
        json_u64(j, "length", ckpt_value_count(v));
    else
        json_value(j, "value", v);
    return j;
}

static void value_json(const ckpt_file *f, const char *name, const ckpt_value *v)
{
    char type[256];
    const ckpt_value *key, *val;
    json *j = json_schema("ckpt.show.v1");
    json_text(j, "file", ckpt_file_path(f));
    json_text(j, "name", name ? name : "");
    json_text(j, "type", ckpt_value_type_name(v, type, sizeof type));
    if (!ckpt_value_count(v)) {
        json_value(j, "value", v);
        json_line(j, stdout);
        return;
    }
    json_begin(j, "items", stdout);
    for (size_t i = 0; ckpt_value_item(v, i, &key, &val); i++)
        json_row(item_json(f, key, val, i), stdout);
    json_end(NULL, stdout);
}

static int show_value(const ckpt_file *f, const char *name, const ckpt_value *v)
{
    size_t n = ckpt_value_count(v);
    if (ui.json) {
        value_json(f, name, v);
    } else if (n) {
        value_head(name ? NULL : ckpt_file_path(f), v, n);
        print_items(f, v);
    } else {
        struct text out = {0};
        text_value(&out, v, 10000);
        puts(out.ptr ? out.ptr : "");
        text_free(&out);
    }
    return YES;
}

/* LIST[3] or LIST[1:4]: items of a sequence by Python's rules. */
static int show_sliced(ckpt_file *f, const char *name, const ckpt_value *v, const char *slice)
{
    ckpt_value_type type = ckpt_value_get_type(v);
    uint64_t n = ckpt_value_count(v);
    struct slice s;
    char why[128];
    const ckpt_value *key, *val;
    int status = YES;
    if (type != CKPT_V_LIST && type != CKPT_V_TUPLE)
        return trouble_text(CKPT_EUSAGE, ckpt_file_path(f), NULL,
                            "only a tensor, a list or a tuple can be sliced");
    if (!slice_parse(slice, &n, 1, &s, why, sizeof why))
        return trouble_text(CKPT_EUSAGE, ckpt_file_path(f), NULL, "%s", why);
    for (uint64_t i = 0; i < s.axes[0].count && status == YES; i++) {
        uint64_t at = s.axes[0].start + i * (uint64_t)s.axes[0].step;
        if (!ckpt_value_item(v, (size_t)at, &key, &val))
            break;
        uint32_t row = ckpt_value_tensor(val);
        status = row != CKPT_NO_TENSOR ? show_tensor(f, row, NULL) : show_value(f, name, val);
    }
    slice_free(&s);
    return status;
}

/* ---------------------------------------------------------------------- run */

static int not_found(const ckpt_file *f, const char *path)
{
    struct text shown = {0}, hint = {0};
    ckpt_str near = find_guess(f, path);
    text_name(&shown, str_of(path));
    if (near.ptr) {
        text_add(&hint, "did you mean ");
        text_name(&hint, near);
        text_add(&hint, "?");
    } else {
        text_add(&hint, "ckpt show ");
        text_operand(&hint, ckpt_file_path(f));
        text_add(&hint, " lists what is at the top");
    }
    int status = trouble_text(CKPT_ENOTFOUND, ckpt_file_path(f), hint.ptr, "nothing is called \"%.300s\"",
                              shown.ptr);
    text_free(&shown);
    text_free(&hint);
    return status;
}

static int show(ckpt_file *f, char *path)
{
    struct found at;
    char *slice = NULL;
    size_t n = strlen(path);
    bool hit = find_path(f, str_of(path), &at);
    if (!hit && n && path[n - 1] == ']' && (slice = strrchr(path, '['))) {
        path[n - 1] = '\0';
        *slice++ = '\0';
        hit = find_path(f, str_of(path), &at);
    }
    if (!hit)
        return not_found(f, path);
    if (at.row != CKPT_NO_TENSOR)
        return show_tensor(f, at.row, slice);
    return slice ? show_sliced(f, path, at.value, slice) : show_value(f, path, at.value);
}

/* A file without a graph: its tensors are what is at the top. */
static int show_names(const ckpt_file *f)
{
    struct text out = {0};
    size_t n;
    uint32_t *rows = rows_sorted(f, NULL, 0, false, &n);
    for (size_t i = 0; i < n; i++) {
        text_clear(&out);
        text_name(&out, ckpt_tensor_name(f, rows[i]));
        puts(out.ptr ? out.ptr : "");
    }
    free(rows);
    text_free(&out);
    return YES;
}

static int run(int n, char **operand)
{
    ckpt_file *f = open_input(operand[0], false);
    if (!f)
        return TROUBLE;
    const ckpt_value *root = ckpt_file_root(f);
    int status;
    if (n > 1)
        status = show(f, operand[1]);
    else if (root && ckpt_value_tensor(root) != CKPT_NO_TENSOR)
        status = show_tensor(f, ckpt_value_tensor(root), NULL);
    else
        status = root ? show_value(f, NULL, root) : show_names(f);
    close_input(f);
    return status;
}
