#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "find.h"
#include "number.h"
#include "preview.h"

static struct {
    bool full, exact;
    struct list globs;
    const char *path; /* the operand PATH|GLOB, or NULL */
} opts;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "show all whose names match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    UI_ROOT_OPTION,
    {0, "full", NULL, OPT_FLAG, &opts.full, "all elements, not only the edges of a large tensor"},
    {0, "exact", NULL, OPT_FLAG, &opts.exact,
     "enough digits to tell any two numbers apart, not four decimals"},
    UI_READER_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_show = {
    "show",  "FILE [PATH|GLOB[slice]]", "show values: numbers of tensors, options, containers", options, 1, 2,
    run_show};

/* ------------------------------------------------------------------ tensors */

static void print_description(const ckpt_tensor *tensor, const struct slice *slice)
{
    struct text out = {0};
    text_dtype(&out, tensor);
    text_add(&out, " ");
    text_shape(&out, tensor);
    if (tensor->kind != CKPT_DENSE && tensor->dtype != CKPT_DT_NONE)
        text_addf(&out, " %s", ckpt_kind_name((ckpt_kind)tensor->kind));
    if (tensor->klass.len)
        text_addf(&out, " %s", escape_name(tensor->klass));
    if (tensor->note.len)
        text_addf(&out, ", %s", escape_name(tensor->note));
    if (slice) {
        text_add(&out, ", here ");
        text_dims(&out, slice->shape, slice->ndim, ", ");
    }
    put_line(out.ptr);
    text_free(&out);
}

/* show_components - lists the components of the composite ROW, which has no numbers of its own. */
static int show_components(const ckpt_file *f, uint32_t row)
{
    const ckpt_tensor whole = tensor_at(f, row);
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    print_description(&whole, NULL);
    struct text out = {0};
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++) {
        if (t.part_of != row)
            continue;
        text_clear(&out);
        text_addf(&out, "  %s  ", escape_name(t.name));
        text_dtype(&out, &t);
        text_add(&out, " ");
        text_shape(&out, &t);
        put_line(out.ptr);
    }
    text_free(&out);
    return EXIT_OK;
}

static void print_tensor_head_json(const ckpt_file *f, const ckpt_tensor *tensor, const struct slice *slice)
{
    json *j = json_schema("ckpt.show.v1");
    json_text(j, "file", ckpt_file_path(f));
    json_tensor(j, tensor);
    json_text(j, "kind", ckpt_kind_name((ckpt_kind)tensor->kind));
    if (!slice) {
        json_line(j, stdout);
        return;
    }
    json_u64s(j, "shown", slice->shape, slice->ndim);
    json_print_head(j, "data", stdout);
}

static int show_tensor(ckpt_file *f, uint32_t row, const char *slice)
{
    const ckpt_tensor t = tensor_at(f, row);
    struct slice s;
    ckpt_error err;
    char why[128];
    uint32_t ndim;
    const char *path = ckpt_file_path(f);
    if (!t.has_data) {
        if (!ui.json)
            return show_components(f, row);
        print_tensor_head_json(f, &t, NULL);
        return EXIT_OK;
    }
    if (!number_bytes((ckpt_dtype)t.dtype)) {
        if (!ui.json)
            print_description(&t, NULL);
        return report_failure(CKPT_EUNSUPPORTED, path, NULL, "elements of this type are not shown");
    }
    const uint64_t *shape = preview_shape(&t, &ndim);
    if (!slice_parse(slice, shape, ndim, &s, why, sizeof why))
        return report_failure(CKPT_EUSAGE, path, NULL, "%s", why);
    struct preview p = {f, row, &s, opts.full, opts.exact};
    if (ui.json)
        print_tensor_head_json(f, &t, &s);
    else
        print_description(&t, slice ? &s : NULL);
    ckpt_status status = ui.json ? preview_json(&p, &err) : preview_text(&p, &err);
    if (ui.json)
        put_line("}");
    slice_free(&s);
    return status == CKPT_OK ? EXIT_OK : report_error(&err, path);
}

/* ------------------------------------------------------------------- values */

static void add_tensor_cells(struct table *table, const ckpt_file *f, uint32_t row)
{
    const ckpt_tensor t = tensor_at(f, row);
    text_dtype(&table->text, &t);
    table_cell(table);
    text_shape(&table->text, &t);
    table_cell(table);
}

static void add_item_cells(struct table *table, const ckpt_file *f, const ckpt_value *value)
{
    char type[256];
    uint32_t row = ckpt_value_tensor(value);
    if (row != CKPT_NO_TENSOR) {
        add_tensor_cells(table, f, row);
        return;
    }
    table_cellf(table, "%s", ckpt_value_type_name(value, type, sizeof type));
    text_value(&table->text, value, 8);
    table_cell(table);
}

static void print_items(const ckpt_file *f, const ckpt_value *value)
{
    struct table table = {.columns = 3};
    const ckpt_value *key, *val;
    table_header(&table, NULL);
    for (size_t i = 0; ckpt_value_item(value, i, &key, &val); i++) {
        table_row(&table, PLAIN);
        if (key)
            text_key(&table.text, key);
        else
            text_addf(&table.text, "%zu", i);
        table_cell(&table);
        add_item_cells(&table, f, val);
    }
    table_print(&table, stdout, false);
    table_free(&table);
}

static void print_value_head(const char *title, const ckpt_value *value, size_t count)
{
    char type[256];
    print_text(stdout, "%s%s%s%s, %s%s\n", style_on(BOLD), title ? escape_name(str_c(title)) : "",
               title ? "   " : "", ckpt_value_type_name(value, type, sizeof type),
               show_noun(count, "item", "items"), style_off(BOLD));
}

static void tensor_json(json *parent, const ckpt_file *f, uint32_t row)
{
    char type[256];
    const ckpt_tensor t = tensor_at(f, row);
    json_text(parent, "type", ckpt_value_type_name(t.value, type, sizeof type));
    json_tensor(json_add_object(parent, "tensor"), &t);
}

static json *item_json(const ckpt_file *f, const ckpt_value *key, const ckpt_value *value, size_t index)
{
    char type[256];
    json *j = json_object();
    uint32_t row = ckpt_value_tensor(value);
    if (key)
        json_value(j, "key", key);
    else
        json_u64(j, "key", index);
    if (row != CKPT_NO_TENSOR) {
        tensor_json(j, f, row);
        return j;
    }
    json_text(j, "type", ckpt_value_type_name(value, type, sizeof type));
    ckpt_value_type kind = ckpt_value_get_type(value);
    if (ckpt_value_count(value))
        json_u64(j, "length", ckpt_value_count(value));
    if (kind == CKPT_V_LIST || kind == CKPT_V_TUPLE)
        json_list(j, "value", value);
    else if (!ckpt_value_count(value))
        json_value(j, "value", value);
    return j;
}

static void value_json(const ckpt_file *f, const char *name, const ckpt_value *value)
{
    char type[256];
    const ckpt_value *key, *val;
    json *j = json_schema("ckpt.show.v1");
    json_text(j, "file", ckpt_file_path(f));
    json_text(j, "name", name ? name : "");
    json_text(j, "type", ckpt_value_type_name(value, type, sizeof type));
    if (!ckpt_value_count(value)) {
        json_value(j, "value", value);
        json_line(j, stdout);
        return;
    }
    json_begin_rows(j, "items", stdout);
    for (size_t i = 0; ckpt_value_item(value, i, &key, &val); i++)
        json_row(item_json(f, key, val, i), stdout);
    json_end_rows(NULL, stdout);
}

static int show_node(const ckpt_file *f, const char *name, const ckpt_value *value)
{
    size_t n = ckpt_value_count(value);
    if (ui.json) {
        value_json(f, name, value);
    } else if (n) {
        print_value_head(name ? NULL : ckpt_file_path(f), value, n);
        print_items(f, value);
    } else {
        struct text out = {0};
        text_value(&out, value, 10000);
        put_line(out.ptr ? out.ptr : "");
        text_free(&out);
    }
    return EXIT_OK;
}

/* show_sliced - shows items of the sequence VALUE for "[3]" or "[1:4]", by Python's rules. */
static int show_sliced(ckpt_file *f, const char *name, const ckpt_value *value, const char *slice)
{
    ckpt_value_type type = ckpt_value_get_type(value);
    uint64_t n = ckpt_value_count(value);
    struct slice s;
    char why[128];
    const ckpt_value *key, *val;
    int status = EXIT_OK;
    if (type != CKPT_V_LIST && type != CKPT_V_TUPLE)
        return report_failure(CKPT_EUSAGE, ckpt_file_path(f), NULL,
                              "only a tensor, a list or a tuple can be sliced");
    if (!slice_parse(slice, &n, 1, &s, why, sizeof why))
        return report_failure(CKPT_EUSAGE, ckpt_file_path(f), NULL, "%s", why);
    for (uint64_t i = 0; i < s.axes[0].count && status == EXIT_OK; i++) {
        uint64_t index = s.axes[0].start + i * (uint64_t)s.axes[0].step;
        if (!ckpt_value_item(value, (size_t)index, &key, &val))
            break;
        uint32_t row = ckpt_value_tensor(val);
        status = row != CKPT_NO_TENSOR ? show_tensor(f, row, NULL) : show_node(f, name, val);
    }
    slice_free(&s);
    return status;
}

/* -------------------------------------------------------------------- names */

/* add_dotted - adds PATH, with ".0" for each "[0]" of Python in it. */
static void add_dotted(struct text *out, const char *path)
{
    for (const char *p = path; *p; p++) {
        size_t ndigits = *p == '[' ? strspn(p + 1, "0123456789") : 0;
        bool is_index = ndigits && p[ndigits + 1] == ']';
        text_add(out, is_index && p > path ? "." : "");
        text_bytes(out, is_index ? p + 1 : p, is_index ? ndigits : 1);
        p += is_index ? ndigits + 1 : 0;
    }
}

static int fail_not_found(const ckpt_file *f, const char *path)
{
    struct text hint = {0}, dotted = {0};
    struct found found;
    ckpt_str similar = find_similar_name(f, path);
    add_dotted(&dotted, path);
    if (strchr(path, '[') && find_path(f, str_c(""), str_c(dotted.ptr), &found)) {
        text_addf(&hint, "did you mean %s?", escape_name(str_c(dotted.ptr)));
    } else if (similar.ptr) {
        text_addf(&hint, "did you mean %s?", escape_name(similar));
    } else {
        text_add(&hint, "ckpt show ");
        text_operand(&hint, ckpt_file_path(f));
        text_add(&hint, " lists what is at the top");
    }
    int status = report_failure(CKPT_ENOTFOUND, ckpt_file_path(f), hint.ptr, "nothing is called \"%.300s\"",
                                escape_name(str_c(path)));
    text_free(&hint);
    text_free(&dotted);
    return status;
}

/* take_slice - cuts "[slice]" off the end of PATH and returns the slice, or NULL. */
static char *take_slice(char *path)
{
    size_t n = strlen(path);
    char *slice = n && path[n - 1] == ']' ? strrchr(path, '[') : NULL;
    if (!slice)
        return NULL;
    path[n - 1] = '\0';
    *slice = '\0';
    return slice + 1;
}

static int show_found(ckpt_file *f, const char *name, const struct found *found, const char *slice)
{
    if (found->row != CKPT_NO_TENSOR)
        return show_tensor(f, found->row, slice);
    return slice ? show_sliced(f, name, found->value, slice) : show_node(f, name, found->value);
}

/* Which names show_matches() shows, with which slice, and what came of it. */
struct matches {
    ckpt_file *f;
    const char *const *globs;
    size_t nglobs;
    const char *slice;
    size_t nshown;
    int status; /* EXIT_OK, or that of the last match that failed */
};

static void show_match(struct matches *matches, ckpt_str name, const struct found *found)
{
    struct text t = {0};
    if (!globs_pass(name, matches->globs, matches->nglobs))
        return;
    if (!ui.json)
        print_text(stdout, "%s%s%s%s\n", matches->nshown ? "\n" : "", style_on(BOLD), escape_name(name),
                   style_off(BOLD));
    matches->nshown++;
    text_bytes(&t, name.ptr, name.len);
    int status = show_found(matches->f, t.ptr, found, matches->slice);
    matches->status = status == EXIT_OK ? matches->status : status;
    text_free(&t);
}

/* show_matches - shows every tensor and value whose name passes MATCHES's globs; false if there is none. */
static bool show_matches(struct matches *matches)
{
    size_t n;
    ckpt_leaf value;
    uint32_t *rows = rows_select(matches->f, matches->globs, matches->nglobs, ORDER_NATURAL, &n);
    for (size_t i = 0; i < n; i++)
        show_match(matches, ckpt_tensor_name(matches->f, rows[i]), &(struct found){rows[i], NULL});
    free(rows);
    for (size_t i = 0; next_value(matches->f, &i, &value);)
        show_match(matches, value.name, &(struct found){CKPT_NO_TENSOR, value.value});
    return matches->nshown != 0;
}

/* show_pattern - shows what matches PATH as a pattern. If nothing does, tries again without its "[slice]". */
static int show_pattern(ckpt_file *f, char *path)
{
    const char *glob = path;
    struct text full_path = {0}; /* PATH with its slice */
    struct matches m = {.f = f, .globs = &glob, .nglobs = 1, .status = EXIT_OK};
    text_add(&full_path, path);
    if (!show_matches(&m) && (!(m.slice = take_slice(path)) || !show_matches(&m))) {
        glob = full_path.ptr;
        m.status = check_globs(f, &glob, 1, true) ? EXIT_OK : EXIT_TROUBLE;
    }
    text_free(&full_path);
    return m.status;
}

static int show_globs(ckpt_file *f)
{
    struct matches m = {.f = f, .globs = opts.globs.items, .nglobs = opts.globs.n, .status = EXIT_OK};
    if (!check_globs(f, opts.globs.items, opts.globs.n, true))
        return EXIT_TROUBLE;
    (void)show_matches(&m);
    return m.status;
}

/* name_after_prefix - returns what follows PREFIX and a dot in the name of ROW; empty if the name begins
 * otherwise, or ROW is a component. */
static ckpt_str name_after_prefix(const ckpt_file *f, uint32_t row, const char *prefix)
{
    const ckpt_tensor t = tensor_at(f, row);
    size_t n = strlen(prefix);
    if (t.part_of == CKPT_NO_TENSOR && t.name.len > n + 1 && str_begins(t.name, str_c(prefix)) &&
        t.name.ptr[n] == '.')
        return (ckpt_str){t.name.ptr + n + 1, t.name.len - n - 1};
    return (ckpt_str){NULL, 0};
}

static void below_json(const ckpt_file *f, const char *prefix, const uint32_t *rows, size_t count)
{
    json *j = json_schema("ckpt.show.v1");
    json_text(j, "file", ckpt_file_path(f));
    json_text(j, "name", prefix);
    json_begin_rows(j, "items", stdout);
    for (size_t i = 0; i < count; i++) {
        json *item = json_object();
        json_str(item, "key", name_after_prefix(f, rows[i], prefix));
        tensor_json(item, f, rows[i]);
        json_row(item, stdout);
    }
    json_end_rows(NULL, stdout);
}

static void print_below(const ckpt_file *f, const char *prefix, const uint32_t *rows, size_t count)
{
    struct table table = {.columns = 3};
    table_header(&table, NULL);
    for (size_t i = 0; i < count; i++) {
        table_row(&table, PLAIN);
        table_cellf(&table, "%s", escape_name(name_after_prefix(f, rows[i], prefix)));
        add_tensor_cells(&table, f, rows[i]);
    }
    table_print(&table, stdout, false);
    table_free(&table);
}

/* show_below - shows the tensors whose names begin with PREFIX and a dot, where PREFIX is not a container;
 * false if there is none. */
static bool show_below(const ckpt_file *f, const char *prefix)
{
    size_t n, nbelow = 0;
    uint32_t *rows = rows_select(f, NULL, 0, ORDER_NATURAL, &n);
    for (size_t i = 0; i < n; i++)
        if (name_after_prefix(f, rows[i], prefix).len)
            rows[nbelow++] = rows[i];
    if (nbelow)
        (ui.json ? below_json : print_below)(f, prefix, rows, nbelow);
    free(rows);
    return nbelow != 0;
}

/* show_names - lists the tensors of a file that has no graph, or whose --root is a common prefix of names. */
static int show_names(const ckpt_file *f)
{
    size_t n;
    uint32_t *rows = rows_select(f, NULL, 0, ORDER_NATURAL, &n);
    for (size_t i = 0; i < n; i++)
        line_printf("%s", escape_name(ckpt_tensor_name(f, rows[i])));
    free(rows);
    return EXIT_OK;
}

static int show_path(ckpt_file *f, ckpt_str root, char *path)
{
    struct found found;
    char *slice = NULL, *end = path + strlen(path);
    bool hit = find_path(f, root, str_c(path), &found);
    if (!hit && show_below(f, path))
        return EXIT_OK;
    if (!hit && (ui.ignore_case || strpbrk(path, "*?")))
        return show_pattern(f, path);
    if (!hit && (slice = take_slice(path))) {
        hit = find_path(f, root, str_c(path), &found);
        if (!hit) { /* undoes take_slice(), because the error shows the complete path */
            path[strlen(path)] = '[';
            end[-1] = ']';
        }
    }
    return hit ? show_found(f, path, &found, slice) : fail_not_found(f, path);
}

static int show_top(ckpt_file *f, ckpt_str root)
{
    const ckpt_value *top = ckpt_file_root(f);
    struct found found = {top ? ckpt_value_tensor(top) : CKPT_NO_TENSOR, top};
    if (root.len && !find_path(f, root, (ckpt_str){NULL, 0}, &found))
        found.value = NULL;
    if (found.row != CKPT_NO_TENSOR)
        return show_tensor(f, found.row, NULL);
    return found.value ? show_node(f, NULL, found.value) : show_names(f);
}

/* open_wanted - does what ckpt_open does, but of a set of shards only that with opts.path has to be read. */
static ckpt_status open_wanted(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    ckpt_open_options o = {.struct_size = sizeof o, .limits = limits, .wanted = &opts.path};
    o.nwanted = opts.path && !ui.ignore_case;
    return ckpt_open_with(path, &o, out, err);
}

/* open_narrowed - opens PATH, narrowed to --root, and sets *ROOT to that root as a path. Returns NULL after
 * printing an error. */
static ckpt_file *open_narrowed(const char *path, ckpt_str *root)
{
    const char *root_option = ui.root; /* hidden from open_input(), which does not return the root */
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_error err;
    ui.root = NULL;
    ckpt_file *f = open_input_by(root_option ? ckpt_open : open_wanted, path, false);
    ui.root = root_option;
    if (!f || !root_option)
        return f;
    ckpt_status st = strcmp(root_option, "auto") == 0 ? ckpt_inspect(f, &info, &err) : CKPT_OK;
    *root = strcmp(root_option, "auto") == 0 ? info.weights_root : str_c(root_option);
    if (st == CKPT_OK)
        st = ckpt_file_narrow(f, root_option, NULL, 0, &err);
    if (st == CKPT_OK)
        return f;
    report_error(&err, path);
    close_input(f);
    return NULL;
}

int run_show(int count, char **operand)
{
    ckpt_str root = {0};
    if (count > 1 && opts.globs.n)
        return usage_error("show", "choose a path or --glob; --root selects where to look");
    if (count > 1 && access(operand[0], F_OK) != 0 && access(operand[1], F_OK) == 0 &&
        !strstr(operand[0], "://"))
        return usage_error_swapped("FILE comes first, then the path in it", operand[1], operand[0]);
    opts.path = count > 1 ? operand[1] : NULL;
    ckpt_file *f = open_narrowed(operand[0], &root);
    if (!f)
        return EXIT_TROUBLE;
    int status = opts.globs.n ? show_globs(f)
                 : count > 1  ? show_path(f, root, operand[1])
                              : show_top(f, root);
    close_input(f);
    return status;
}
