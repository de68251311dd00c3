#include <stdlib.h>

#include "files.h"
#include "find.h"
#include "json.h"
#include "tree.h"

static struct {
    struct list globs;
    bool wide, as_tree, as_tsv, values, as_text, ignore_crc;
    uint64_t depth;
    int order; /* an enum row_order */
} opts;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_ROOT_OPTION,
    {'l', "long", NULL, OPT_FLAG, &opts.wide, "also show storage, offset, stride, ties, location"},
    {0, "tree", NULL, OPT_FLAG, &opts.as_tree, "names as a tree"},
    {0, "depth", "N", OPT_COUNT, &opts.depth, "sum up what is deeper than N levels"},
    {0, "values", NULL, OPT_FLAG, &opts.values, "also list what is not a tensor: epochs, options, …"},
    {0, "tsv", NULL, OPT_FLAG, &opts.as_tsv, "tab-separated: name, dtype, bytes, shape"},
    {0, "order", "natural|file|size", OPT_CHOICE, &opts.order,
     "by name (layer.2 before layer.10), as in the file, largest first"},
    {0, "text", NULL, OPT_FLAG, &opts.as_text,
     "names, dtypes, shapes, digests for git's textconv; always exits 0"},
    {0, "ignore-crc", NULL, OPT_FLAG, &opts.ignore_crc, "with --text: go on despite wrong checksums"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_INPUT_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_ls = {"ls", "FILE…", "list the tensors of checkpoints", options, 1, NO_LIMIT, run_ls};

static void add_stride_list(struct text *out, const ckpt_tensor *t, const char *between)
{
    uint64_t *strides = mem_new(t->ndim, sizeof *strides), contiguous = 1;
    for (uint32_t i = t->ndim; i-- > 0;) {
        strides[i] = t->stride ? t->stride[i] : contiguous;
        contiguous *= t->shape[i] ? t->shape[i] : 1;
    }
    text_dims(out, strides, t->ndim, between);
    free(strides);
}

static void add_tie_cell(struct text *out, const ckpt_file *f, const ckpt_tensor *t)
{
    if (t->alias_of == CKPT_NO_TENSOR)
        return;
    text_add(out, "= ");
    text_name(out, ckpt_tensor_name(f, t->alias_of));
}

static void add_remark(struct text *out, const ckpt_tensor *t)
{
    const char *gap = "";
    if (t->kind != CKPT_DENSE) {
        text_add(out, ckpt_kind_name((ckpt_kind)t->kind));
        gap = " ";
    }
    ckpt_str texts[] = {t->klass, t->location, t->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!texts[i].len)
            continue;
        text_add(out, gap);
        text_name(out, texts[i]);
        gap = " ";
    }
    if (t->conj)
        text_addf(out, "%sconj", gap);
    if (t->neg)
        text_addf(out, "%sneg", gap);
}

static void add_long_cells(struct table *table, const ckpt_file *f, const ckpt_tensor *t)
{
    ckpt_storage s = CKPT_INIT(ckpt_storage);
    bool has_storage = ckpt_storage_at(f, t->storage, &s);
    if (has_storage)
        text_name(&table->text, s.key);
    table_cell(table);
    if (has_storage)
        text_uint(&table->text, t->storage_offset);
    table_cell(table);
    if (t->has_shape && has_storage)
        add_stride_list(&table->text, t, ", ");
    table_cell(table);
    add_tie_cell(&table->text, f, t);
    table_cell(table);
    add_remark(&table->text, t);
    table_cell(table);
}

/* What add_tensor_rows() adds to a table. */
struct listing {
    const ckpt_file *f;
    const uint32_t *rows;
    size_t n;
};

static void add_tensor_rows(struct table *table, const void *user)
{
    static const char *const titles[] = {"NAME",   "DTYPE",  "SHAPE",   "SIZE",       "STORAGE",
                                         "OFFSET", "STRIDE", "SAME AS", "KIND, WHERE"};
    const struct listing *listing = user;
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    table_header(table, titles);
    for (size_t i = 0; i < listing->n; i++) {
        (void)ckpt_tensor_at(listing->f, listing->rows[i], &t);
        table_row(table, PLAIN);
        text_name(&table->text, t.name);
        table_cell(table);
        text_dtype(&table->text, &t);
        table_cell(table);
        text_shape(&table->text, &t);
        table_cell(table);
        if (t.has_data)
            text_size(&table->text, t.nbytes);
        else
            text_add(&table->text, "-");
        table_cell(table);
        if (opts.wide)
            add_long_cells(table, listing->f, &t);
    }
}

static void print_ls_table(const ckpt_file *f, const uint32_t *rows, size_t n)
{
    struct table table = {.columns = opts.wide ? 9 : 4, .right = {false, false, false, true, true, true}};
    table_flow(&table, add_tensor_rows, &(struct listing){f, rows, n}, stdout, ui.tty);
    table_free(&table);
}

static void print_ls_tsv(const ckpt_file *f, const uint32_t *rows, size_t n)
{
    struct text out = {0};
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        text_clear(&out);
        text_name(&out, t.name);
        text_add(&out, "\t");
        text_dtype(&out, &t);
        text_byte(&out, '\t');
        text_uint(&out, t.has_data ? t.nbytes : 0);
        text_byte(&out, '\t');
        if (t.has_shape)
            text_dims(&out, t.shape, t.ndim, ",");
        if (opts.wide) {
            ckpt_storage s = CKPT_INIT(ckpt_storage);
            bool has_storage = ckpt_storage_at(f, t.storage, &s);
            text_add(&out, "\t");
            if (has_storage)
                text_name(&out, s.key);
            text_byte(&out, '\t');
            text_uint(&out, t.storage_offset);
            text_byte(&out, '\t');
            if (t.has_shape && has_storage)
                add_stride_list(&out, &t, ",");
            text_add(&out, "\t");
            if (t.alias_of != CKPT_NO_TENSOR)
                text_name(&out, ckpt_tensor_name(f, t.alias_of));
            text_byte(&out, '\t');
            text_add(&out, ckpt_kind_name((ckpt_kind)t.kind));
            text_byte(&out, '\t');
            text_name(&out, t.location);
        }
        line_put(&out);
    }
    text_free(&out);
}

static void notice_no_tensors(const ckpt_file *f, const char *path)
{
    size_t n = ckpt_leaf_count(f);
    if (n)
        print_notice(path, "no tensors; --values lists the %zu other value%s", n, n == 1 ? "" : "s");
    else
        print_notice(path, "no tensors");
}

static bool print_value(const ckpt_leaf *leaf)
{
    struct text out = {0};
    if (!globs_pass(leaf->name, opts.globs.items, opts.globs.n))
        return false;
    text_name(&out, leaf->name);
    text_add(&out, opts.as_tsv ? "\tvalue\t\t" : " = ");
    text_value(&out, leaf->value, 100);
    line_put(&out);
    text_free(&out);
    return true;
}

static size_t print_values(const ckpt_file *f)
{
    size_t n = 0;
    ckpt_leaf value;
    for (size_t i = 0; next_value(f, &i, &value);)
        n += print_value(&value);
    return n;
}

static void print_ls_totals(const ckpt_file *f, const uint32_t *rows, size_t n)
{
    struct text out = {0};
    const struct totals sum = totals_of_rows(f, rows, n);
    text_totals(&out, &sum, " · ");
    printf("%s%s · %s%s\n", style_on(DIM), out.ptr, ckpt_file_title(f), style_off(DIM));
    text_free(&out);
}

static void print_ls_json(const ckpt_file *f, const uint32_t *rows, size_t n)
{
    struct totals sum = {0};
    json *head = json_schema("ckpt.ls.v1"), *tail = json_object();
    json_text(head, "file", ckpt_file_path(f));
    json_text(head, "format", ckpt_file_format(f));
    json_begin_rows(head, "tensors", stdout);
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        totals_add(&sum, &t);
        json_tensor_row(f, rows[i], stdout);
    }
    json_totals(tail, "total", sum.tensors, sum.elements, sum.bytes);
    if (opts.values) {
        json *list = json_add_array(tail, "values");
        ckpt_leaf value;
        for (size_t i = 0; next_value(f, &i, &value);)
            if (globs_pass(value.name, opts.globs.items, opts.globs.n))
                json_leaf(json_add_object(list, NULL), &value);
    }
    json_end_rows(tail, stdout);
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
    printf("%s\n", out.ptr);
    text_free(&out);
}

/* print_textconv - prints the file PATH as text. Errors become part of the text, because git gives up if a
 * textconv fails. */
static void print_textconv(const char *path)
{
    size_t n;
    ckpt_file *f = open_for_git(path, opts.ignore_crc, "");
    if (!f)
        return;
    printf("# %s\n", ckpt_file_title(f));
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
static void notice_same_names(const ckpt_file *f, const char *path, const uint32_t *rows, size_t n)
{
    ckpt_str a, b = {0};
    for (size_t i = 0; opts.order == ORDER_NATURAL && i < n; i++) {
        a = b;
        b = ckpt_tensor_name(f, rows[i]);
        if (!i || !str_is_equal(a, b))
            continue;
        print_notice(path, "two tensors are called \"%s\"; --json lists their paths", escape_name(a));
        return;
    }
}

static int list_file(const char *path)
{
    ckpt_file *f = open_input(path, opts.ignore_crc);
    ckpt_error err;
    size_t n;
    if (!f)
        return EXIT_TROUBLE;
    if (ui.json && ckpt_file_locate(f, &err) != CKPT_OK) { /* only JSON has file offsets */
        close_input(f);
        return report_error(&err, path);
    }
    uint32_t *rows = rows_select(f, opts.globs.items, opts.globs.n, (enum row_order)opts.order, &n);
    if (ui.json)
        print_ls_json(f, rows, n);
    else if (opts.as_tsv)
        print_ls_tsv(f, rows, n);
    else if (opts.as_tree)
        tree_print(f, rows, n, opts.depth, stdout);
    else if (opts.depth)
        tree_groups(f, rows, n, opts.depth, opts.order == ORDER_SIZE, stdout);
    else
        print_ls_table(f, rows, n);
    size_t found = n + (opts.values && !ui.json ? print_values(f) : 0);
    if (ui.tty && !ui.json && !opts.as_tsv)
        print_ls_totals(f, rows, n);
    notice_same_names(f, path, rows, n);
    if (!ckpt_tensor_count(f) && !opts.values)
        notice_no_tensors(f, path);
    if (!found && opts.globs.n)
        notice_no_match(f, opts.globs.items, opts.globs.n);
    free(rows);
    close_input(f);
    return found || !opts.globs.n ? EXIT_OK : EXIT_NO;
}

static int check_ls_options(void)
{
    const char *sum_option = opts.as_tree ? "tree" : opts.depth ? "depth" : NULL;
    const char *list_option = ui.json ? "json" : opts.as_tsv ? "tsv" : opts.as_text ? "text" : NULL;
    if (sum_option && list_option)
        return usage_error("ls", "--%s lists each tensor, so it cannot be combined with --%s", list_option,
                           sum_option);
    if (opts.as_tree && opts.order != ORDER_NATURAL)
        return usage_error("ls",
                           "--tree is in the order of names; --depth N --order=size puts the largest first");
    if (opts.depth && opts.order == ORDER_FILE)
        return usage_error("ls", "--depth lists by name or with --order=size, not in the order of the file");
    return EXIT_OK;
}

int run_ls(int n, char **operand)
{
    int status = check_ls_options();
    if (status != EXIT_OK)
        return status;
    mem_keep_freed();
    for (int i = 0; opts.as_text && i < n; i++)
        print_textconv(operand[i]);
    if (opts.as_text)
        return EXIT_OK;
    return files_each(n, operand, opts.as_tsv ? FILES_COLUMN : FILES_HEADING, list_file);
}
