#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "find.h"
#include "json.h"
#include "records.h"
#include "tree.h"

static struct {
    struct list globs;
    bool wide, as_tree, values, as_text, ignore_crc;
    uint64_t depth, text_version;
    int order; /* an enum row_order */
} opts;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    UI_ROOT_OPTION,
    {'l', "long", NULL, OPT_FLAG, &opts.wide, "also show storage, offset, stride, ties, location"},
    {0, "tree", NULL, OPT_FLAG, &opts.as_tree, "names as a tree"},
    {0, "depth", "N", OPT_COUNT, &opts.depth, "sum up what is deeper than N levels"},
    {0, "values", NULL, OPT_FLAG, &opts.values, "also list what is not a tensor: epochs, options, …"},
    RECORDS_OPTIONS("name, dtype, bytes, shape"),
    {0, "order", "natural|file|size", OPT_CHOICE, &opts.order,
     "by name (layer.2 before layer.10), as in the file, largest first"},
    {0, "text", NULL, OPT_FLAG, &opts.as_text,
     "names, dtypes, shapes, digests for git's textconv; always exits 0"},
    {0, "text-version", "N", OPT_COUNT, &opts.text_version,
     "with --text: the form that is expected, 1; git keeps texts until this changes"},
    {0, "ignore-crc", NULL, OPT_FLAG, &opts.ignore_crc, "with --text: go on despite wrong checksums"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_INPUT_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_ls = {"ls", "FILE…", "list the tensors of checkpoints", options, 1, NO_LIMIT, run_ls};

static void add_stride_list(struct text *out, const ckpt_tensor *tensor, const char *between)
{
    uint64_t *strides = mem_new(tensor->ndim, sizeof *strides), contiguous = 1;
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        strides[i] = tensor->stride ? tensor->stride[i] : contiguous;
        contiguous *= tensor->shape[i] ? tensor->shape[i] : 1;
    }
    text_dims(out, strides, tensor->ndim, between);
    free(strides);
}

static void add_tie_cell(struct text *out, const ckpt_file *f, const ckpt_tensor *tensor)
{
    if (tensor->alias_of == CKPT_NO_TENSOR)
        return;
    text_add(out, "= ");
    text_name(out, ckpt_tensor_name(f, tensor->alias_of));
}

static void add_remark(struct text *out, const ckpt_tensor *tensor)
{
    const char *gap = "";
    if (tensor->kind != CKPT_DENSE) {
        text_add(out, ckpt_kind_name((ckpt_kind)tensor->kind));
        gap = " ";
    }
    ckpt_str texts[] = {tensor->klass, tensor->location, tensor->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!texts[i].len)
            continue;
        text_add(out, gap);
        text_name(out, texts[i]);
        gap = " ";
    }
    if (tensor->conj)
        text_addf(out, "%sconj", gap);
    if (tensor->neg)
        text_addf(out, "%sneg", gap);
}

/* add_storage - adds the shard that has the storage STORAGE of TENSOR, and the key of STORAGE unless that is
 * TENSOR's name. */
static void add_storage(struct text *out, const ckpt_tensor *tensor, const ckpt_storage *storage)
{
    text_name(out, storage->file);
    if (storage->file.len && str_is_equal(storage->key, tensor->name))
        return;
    text_add(out, storage->file.len ? ":" : "");
    text_name(out, storage->key);
}

static void add_long_cells(struct table *table, const ckpt_file *f, const ckpt_tensor *tensor)
{
    ckpt_storage s = CKPT_INIT(ckpt_storage);
    bool has_storage = ckpt_storage_at(f, tensor->storage, &s);
    if (has_storage)
        add_storage(&table->text, tensor, &s);
    table_cell(table);
    if (has_storage)
        text_uint(&table->text, tensor->storage_offset);
    table_cell(table);
    if (tensor->has_shape && has_storage)
        add_stride_list(&table->text, tensor, ", ");
    table_cell(table);
    add_tie_cell(&table->text, f, tensor);
    table_cell(table);
    add_remark(&table->text, tensor);
    table_cell(table);
}

#define FORMS 256u

/* The cells for dtype, shape and size. Most tensors of a large file have those of an earlier one. */
struct form {
    const uint64_t *shape; /* where the file has it, once for equal shapes; NULL: this is empty */
    const char *dtype_name;
    uint64_t nbytes;
    uint16_t dtype, kind;
    bool has_shape, has_data;
    struct table_cells cells; /* once they were printed */
};

/* What add_tensor_rows() adds to a table. */
struct listing {
    const ckpt_file *f;
    const uint32_t *rows;
    size_t n;
    struct form *forms; /* FORMS of them; the first is always empty */
    uint8_t *form_of; /* by item of ROWS: index in FORMS, set when the table is measured; 0: any other form */
};

static bool has_form(const ckpt_tensor *tensor, const struct form *form)
{
    return form->shape == tensor->shape && form->dtype == tensor->dtype && form->kind == tensor->kind &&
           form->dtype_name == tensor->dtype_name && form->nbytes == tensor->nbytes &&
           form->has_shape == tensor->has_shape && form->has_data == tensor->has_data;
}

static void add_form_cells(struct table *table, const ckpt_tensor *tensor)
{
    text_dtype(&table->text, tensor);
    table_cell(table);
    text_shape(&table->text, tensor);
    table_cell(table);
    if (tensor->has_data)
        text_size(&table->text, tensor->nbytes);
    else
        text_add(&table->text, "-");
    table_cell(table);
}

/* find_form - returns the index of TENSOR's form, or of an empty place for it; 0: there is none nearby. */
static size_t find_form(const struct form *forms, const ckpt_tensor *tensor)
{
    size_t first = 1 + ((uintptr_t)tensor->shape / 16 + tensor->dtype) % (FORMS - 4);
    for (size_t i = first; i < first + 4; i++)
        if (!forms[i].shape || has_form(tensor, &forms[i]))
            return i;
    return 0;
}

/* measure_form - sets *FORM_OF to the index in FORMS of TENSOR's form, and measures its cells unless those of
 * that form were measured. */
static void measure_form(struct table *table, struct form *forms, const ckpt_tensor *tensor, uint8_t *form_of)
{
    size_t i = find_form(forms, tensor);
    *form_of = (uint8_t)i;
    if (forms[i].shape) {
        table->column += 3;
        return;
    }
    if (i)
        forms[i] = (struct form){.shape = tensor->shape,
                                 .dtype_name = tensor->dtype_name,
                                 .nbytes = tensor->nbytes,
                                 .dtype = tensor->dtype,
                                 .kind = tensor->kind,
                                 .has_shape = tensor->has_shape,
                                 .has_data = tensor->has_data};
    add_form_cells(table, tensor);
}

/* print_form - adds the cells of TENSOR, which has FORM; these are kept unless FORM is the first. */
static void print_form(struct table *table, struct form *form, const ckpt_tensor *tensor)
{
    size_t start = table->cell_start;
    if (form->cells.text.len) {
        table_repeat_cells(table, &form->cells, 3);
        return;
    }
    add_form_cells(table, tensor);
    if (form->shape)
        table_keep_cells(table, start, &form->cells);
}

static void add_tensor_rows(struct table *table, const void *user)
{
    static const char *const titles[] = {"NAME",   "DTYPE",  "SHAPE",   "SIZE",       "STORAGE",
                                         "OFFSET", "STRIDE", "SAME AS", "KIND, WHERE"};
    const struct listing *listing = user;
    bool measures = table->pass == TABLE_MEASURES;
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    table_header(table, titles);
    if (measures)
        memset(listing->forms, 0, FORMS * sizeof *listing->forms);
    for (size_t i = 0; i < listing->n; i++) {
        struct form *form = &listing->forms[listing->form_of[i]];
        if (measures || opts.wide || !form->cells.text.len)
            (void)ckpt_tensor_at(listing->f, listing->rows[i], &t);
        table_row(table, PLAIN);
        text_name(&table->text, ckpt_tensor_name(listing->f, listing->rows[i]));
        table_cell(table);
        if (measures)
            measure_form(table, listing->forms, &t, &listing->form_of[i]);
        else
            print_form(table, form, &t);
        if (opts.wide)
            add_long_cells(table, listing->f, &t);
    }
}

static void print_ls_table(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    struct table table = {.columns = opts.wide ? 9 : 4, .right = {false, false, false, true, true, true}};
    struct form forms[FORMS];
    const struct listing listing = {f, rows, count, forms, mem_new(count, 1)};
    table_flow(&table, add_tensor_rows, &listing, stdout, ui.tty || records.header);
    for (size_t i = 0; i < FORMS; i++)
        text_free(&forms[i].cells.text);
    free(listing.form_of);
    table_free(&table);
}

static void add_long_fields(struct record *record, const ckpt_file *f, const ckpt_tensor *tensor)
{
    ckpt_storage s = CKPT_INIT(ckpt_storage);
    bool has_storage = ckpt_storage_at(f, tensor->storage, &s);
    record_field_name(record, has_storage ? s.key : (ckpt_str){0});
    record_field_uint(record, tensor->storage_offset);
    if (tensor->has_shape && has_storage)
        add_stride_list(&record->text, tensor, ",");
    record_field(record);
    record_field_name(record, tensor->alias_of != CKPT_NO_TENSOR ? ckpt_tensor_name(f, tensor->alias_of)
                                                                 : (ckpt_str){0});
    text_add(&record->text, ckpt_kind_name((ckpt_kind)tensor->kind));
    record_field(record);
    record_field_name(record, tensor->location);
}

static void print_ls_records(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    static const char *const titles[] = {"name",   "dtype",  "bytes", "shape", "storage",
                                         "offset", "stride", "alias", "kind",  "location"};
    struct record r = {0};
    records_header(titles, opts.wide ? 10 : 4);
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        record_field_name(&r, t.name);
        text_dtype(&r.text, &t);
        record_field(&r);
        record_field_uint(&r, t.has_data ? t.nbytes : 0);
        if (t.has_shape)
            text_dims(&r.text, t.shape, t.ndim, ",");
        record_field(&r);
        if (opts.wide)
            add_long_fields(&r, f, &t);
        record_put(&r);
    }
    record_free(&r);
}

static void notice_no_tensors(const ckpt_file *f, const char *path)
{
    size_t n = ckpt_leaf_count(f);
    if (n)
        print_notice(path, "no tensors; --values lists the %zu other value%s", n, n == 1 ? "" : "s");
    else
        print_notice(path, "no tensors");
}

/* print_value_record - prints LEAF in the columns of tensors: its dtype is "value", its shape the value. */
static void print_value_record(const ckpt_leaf *leaf)
{
    struct record r = {0};
    record_field_name(&r, leaf->name);
    text_add(&r.text, "value");
    record_field(&r);
    record_field(&r);
    text_value(&r.text, leaf->value, 100);
    record_field(&r);
    record_put(&r);
    record_free(&r);
}

static void print_value_line(const ckpt_leaf *leaf)
{
    struct text out = {0};
    text_name(&out, leaf->name);
    text_add(&out, " = ");
    text_value(&out, leaf->value, 100);
    line_put(&out);
    text_free(&out);
}

static size_t print_values(const ckpt_file *f)
{
    size_t n = 0;
    ckpt_leaf value;
    for (size_t i = 0; next_value(f, &i, &value);) {
        if (!globs_pass(value.name, opts.globs.items, opts.globs.n))
            continue;
        (records_option() ? print_value_record : print_value_line)(&value);
        n++;
    }
    return n;
}

static void print_ls_totals(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    struct text out = {0};
    const struct totals sum = totals_of_rows(f, rows, count);
    text_totals(&out, &sum, " · ");
    print_text(stdout, "%s%s · %s%s\n", style_on(DIM), out.ptr, ckpt_file_title(f), style_off(DIM));
    text_free(&out);
}

static void ls_values_json(json *parent, const ckpt_file *f)
{
    json *list = json_add_array(parent, "values");
    ckpt_leaf value;
    for (size_t i = 0; next_value(f, &i, &value);)
        if (globs_pass(value.name, opts.globs.items, opts.globs.n))
            json_leaf(json_add_object(list, NULL), &value);
}

static json *ls_head_json(const ckpt_file *f)
{
    json *head = json_schema("ckpt.ls.v1");
    json_text(head, "file", ckpt_file_path(f));
    json_text(head, "format", ckpt_file_format(f));
    return head;
}

static void print_ls_json(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    struct totals sum = {0};
    json *tail = json_object();
    json_begin_rows(ls_head_json(f), "tensors", stdout);
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        totals_add(&sum, &t);
        json_tensor_row(f, rows[i], stdout);
    }
    json_totals(tail, "total", sum.tensors, sum.elements, sum.bytes);
    if (opts.values)
        ls_values_json(tail, f);
    json_end_rows(tail, stdout);
}

/* ------------------------------------------------------------------ groups */

static void group_name(struct text *out, const struct tree_group *group)
{
    text_name(out, group->name);
    text_add(out, group->folded ? ".*" : "");
}

static void print_groups_json(const ckpt_file *f, const struct tree_group *groups, size_t count)
{
    struct totals sum = {0};
    json *tail = json_object();
    json_begin_rows(ls_head_json(f), "groups", stdout);
    for (size_t i = 0; i < count; i++) {
        const struct totals *t = &groups[i].sum;
        json *row = json_object();
        json_str(row, "name", groups[i].name);
        json_bool(row, "below", groups[i].folded);
        json_u64(row, "tensors", t->tensors);
        json_u64(row, "elements", t->elements);
        json_u64(row, "bytes", t->bytes);
        json_row(row, stdout);
        sum.tensors += t->tensors;
        add_saturated(&sum.elements, t->elements);
        add_saturated(&sum.bytes, t->bytes);
    }
    json_totals(tail, "total", sum.tensors, sum.elements, sum.bytes);
    if (opts.values)
        ls_values_json(tail, f);
    json_end_rows(tail, stdout);
}

static void print_group_records(const struct tree_group *groups, size_t count)
{
    static const char *const titles[] = {"name", "tensors", "elements", "bytes"};
    struct record r = {0};
    records_header(titles, 4);
    for (size_t i = 0; i < count; i++) {
        group_name(&r.text, &groups[i]);
        record_field(&r);
        record_field_uint(&r, groups[i].sum.tensors);
        record_field_uint(&r, groups[i].sum.elements);
        record_field_uint(&r, groups[i].sum.bytes);
        record_put(&r);
    }
    record_free(&r);
}

/* What add_group_rows() adds to a table. */
struct group_listing {
    const struct tree_group *groups;
    size_t n;
};

static void add_group_rows(struct table *table, const void *user)
{
    static const char *const titles[] = {"NAME", "TENSORS", "ELEMENTS", "SIZE"};
    const struct group_listing *listing = user;
    table_header(table, titles);
    for (size_t i = 0; i < listing->n; i++) {
        table_row(table, PLAIN);
        group_name(&table->text, &listing->groups[i]);
        table_cell(table);
        table_sum_cells(table, &listing->groups[i].sum);
    }
}

static void print_group_table(const struct tree_group *groups, size_t count)
{
    struct table table = {.columns = 4, .right = {false, true, true, true}};
    table_flow(&table, add_group_rows, &(struct group_listing){groups, count}, stdout,
               ui.tty || records.header);
    table_free(&table);
}

static void print_groups(const ckpt_file *f, uint32_t *rows, size_t count)
{
    struct tree_group *groups = tree_groups(f, rows, count, opts.depth, &count);
    if (opts.order == ORDER_SIZE)
        tree_sort_groups(groups, count);
    if (ui.json)
        print_groups_json(f, groups, count);
    else if (records_option())
        print_group_records(groups, count);
    else
        print_group_table(groups, count);
    free(groups);
}

/* --------------------------------------------------------------- textconv */

static void print_textconv_row(ckpt_file *f, uint32_t row)
{
    const ckpt_tensor t = tensor_at(f, row);
    struct text out = {0};
    uint8_t digest[CKPT_DIGEST_MAX];
    ckpt_error err;
    text_name(&out, t.name);
    text_add(&out, "  ");
    text_dtype(&out, &t);
    text_add(&out, "  ");
    text_shape(&out, &t);
    if (t.has_data) {
        text_add(&out, "  ");
        if (ckpt_digest_tensor(f, row, CKPT_SHA256, digest, &err) == CKPT_OK) {
            text_hex(&out, digest, 32);
        } else {
            text_add(&out, "unreadable: ");
            text_add(&out, err.what);
        }
    } else if (ckpt_tensor_is_unread(&t)) {
        text_add(&out, "  unreadable: ");
        text_unread_reason(&out, &t);
    }
    print_text(stdout, "%s\n", out.ptr);
    text_free(&out);
}

#define TEXT_VERSION 1u /* of what print_textconv prints of a file */

/* print_textconv - prints the file PATH as text. Errors become part of the text, because git gives up if a
 * textconv fails. */
static void print_textconv(const char *path)
{
    size_t n;
    if (opts.text_version && opts.text_version != TEXT_VERSION) {
        print_text(stdout, "ckpt prints text of version %u, not %llu: run `ckpt git setup` again\n",
                   TEXT_VERSION, (unsigned long long)opts.text_version);
        return;
    }
    ckpt_file *f = open_for_git(path, opts.ignore_crc, "");
    if (!f)
        return;
    print_text(stdout, "# %s\n", ckpt_file_title(f));
    uint32_t *rows = rows_select(f, opts.globs.items, opts.globs.n, (enum row_order)opts.order, &n);
    for (size_t i = 0; i < n; i++)
        print_textconv_row(f, rows[i]);
    if (opts.values)
        print_values(f);
    free(rows);
    ckpt_close(f);
}

/* notice_same_names - prints a notice if two tensors have the same joined name, as in {"a": {"b": …},
 * "a.b": …}. Checks this only in natural order, in which such tensors are neighbours. */
static void notice_same_names(const ckpt_file *f, const char *path, const uint32_t *rows, size_t count)
{
    ckpt_str a, b = {0};
    for (size_t i = 0; opts.order == ORDER_NATURAL && i < count; i++) {
        a = b;
        b = ckpt_tensor_name(f, rows[i]);
        if (!i || !str_is_equal(a, b))
            continue;
        print_notice(path, "two tensors are called \"%s\"; --json lists their paths", escape_name(a));
        return;
    }
}

static void print_rows(const ckpt_file *f, uint32_t *rows, size_t count)
{
    if (opts.as_tree)
        tree_print(f, rows, count, opts.depth, stdout);
    else if (opts.depth)
        print_groups(f, rows, count);
    else if (ui.json)
        print_ls_json(f, rows, count);
    else if (records_option())
        print_ls_records(f, rows, count);
    else
        print_ls_table(f, rows, count);
}

static int list_file(const char *path)
{
    ckpt_file *f = open_input(path, opts.ignore_crc);
    ckpt_error err;
    size_t n;
    if (!f)
        return EXIT_TROUBLE;
    if (ui.json && !opts.depth && ckpt_file_locate(f, &err) != CKPT_OK) { /* only JSON has file offsets */
        close_input(f);
        return report_error(&err, path);
    }
    if (!check_globs(f, opts.globs.items, opts.globs.n, opts.values)) {
        close_input(f);
        return EXIT_TROUBLE;
    }
    uint32_t *rows = rows_select(f, opts.globs.items, opts.globs.n, (enum row_order)opts.order, &n);
    print_rows(f, rows, n);
    if (opts.values && !ui.json)
        print_values(f);
    if (ui.tty && !ui.quiet && !ui.json && !records_option())
        print_ls_totals(f, rows, n);
    notice_same_names(f, path, rows, n);
    if (!ckpt_tensor_count(f) && !opts.values)
        notice_no_tensors(f, path);
    free(rows);
    close_input(f);
    return EXIT_OK;
}

static int check_ls_options(void)
{
    const char *other = ui.json ? "json" : opts.as_text ? "text" : records_option();
    int status = records_check("ls");
    if (status != EXIT_OK)
        return status;
    if (opts.as_text && (ui.json || records_option()))
        return usage_error("ls", "choose --text or --%s", ui.json ? "json" : records_option());
    if (opts.text_version && !opts.as_text)
        return usage_error("ls", "--text-version goes with --text");
    if (opts.as_tree && other)
        return usage_error("ls", "--tree is for reading; --depth N sums up and can be combined with --%s",
                           other);
    if (opts.depth && opts.as_text)
        return usage_error("ls", "--text lists each tensor, so it cannot be combined with --depth");
    if (opts.as_tree && opts.order != ORDER_NATURAL)
        return usage_error("ls",
                           "--tree is in the order of names; --depth N --order=size puts the largest first");
    if (opts.depth && opts.order == ORDER_FILE)
        return usage_error("ls", "--depth lists by name or with --order=size, not in the order of the file");
    return EXIT_OK;
}

int run_ls(int count, char **operand)
{
    int status = check_ls_options();
    if (status != EXIT_OK)
        return status;
    mem_keep_freed();
    for (int i = 0; opts.as_text && i < count; i++)
        print_textconv(operand[i]);
    if (opts.as_text)
        return EXIT_OK;
    return files_each(count, operand, records_option() ? FILES_COLUMN : FILES_HEADING, list_file);
}
