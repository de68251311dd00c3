#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "find.h"
#include "json.h"
#include "modules.h"
#include "records.h"

#define DEPTH_UNSET UINT64_MAX
/* Without --depth, a drawn tree has at most so many lines, unless its first level has more. */
#define MAX_LINES 40
/* How many ranges of numbers the name of a folded module has in a drawn tree. */
#define MAX_RANGES 6

static struct {
    struct list globs;
    bool no_fold, draw;
    uint64_t depth;
    int order; /* an enum row_order */
} opts = {.depth = DEPTH_UNSET};

static const struct opt options[] = {
    {0, "depth", "N", OPT_COUNT, &opts.depth,
     "show N levels; 0: all; default: all, or on a terminal 40 lines"},
    {0, "no-fold", NULL, OPT_FLAG, &opts.no_fold, "show each of the modules that are identical"},
    {0, "order", "natural|file|size", OPT_CHOICE, &opts.order,
     "by name (layer.2 before layer.10), as in the file, largest first"},
    {0, "draw", NULL, OPT_FLAG, &opts.draw, "draw the tree, as on a terminal"},
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    UI_ROOT_OPTION,
    RECORDS_OPTIONS("name, depth, count, tensors, elements, bytes, share, dtypes, shape"),
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_INPUT_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_tree = {
    "tree", "FILE…", "show the modules of a model, identical layers once", options, 1, NO_LIMIT, run_tree};

/* What is printed about a file. */
struct listing {
    const ckpt_file *f;
    struct modules modules;
    uint64_t file_bytes; /* of all tensors */
    uint64_t depth;      /* 0: all levels */
    bool drawn;
    bool has_tensors_column, has_dtype_column;
    size_t dtype_order[MODULES_DTYPES]; /* indices in modules.dtypes, the one with the most bytes first */
};

/* -------------------------------------------------------------------- lines */

/* Visits the lines, parents before children. The fields describe the current line. */
struct line_walk {
    const struct listing *listing;
    const struct module
        *first; /* of those that are on the line: each of them is the only one in the one before it */
    const struct module *module;                   /* the last of them */
    unsigned level;                                /* 0: the root */
    bool is_cut;                                   /* there are levels below, but they are not shown */
    const struct module *ends[TREE_MAX_DEPTH + 1]; /* by level: the module after all in that of the line */
    bool has_sibling_after[TREE_MAX_DEPTH + 1];
    struct text name; /* of MODULE, escaped unless with --json; with listing->drawn, the part on the line */
    size_t name_len[TREE_MAX_DEPTH + 1]; /* by level */
};

static struct line_walk walk_lines(const struct listing *listing)
{
    return (struct line_walk){.listing = listing};
}

static bool has_only_child(const struct module *module)
{
    return !module->is_tensor && module->nitems > 1 && module[1].nitems + 1 == module->nitems;
}

/* set_line_name - sets the name of the line to that of its module. */
static void set_line_name(struct line_walk *walk)
{
    size_t parent_len = walk->level > 1 ? walk->name_len[walk->level - 1] : 0;
    text_cut(&walk->name, walk->listing->drawn ? 0 : parent_len);
    for (const struct module *module = walk->first; module <= walk->module; module++) {
        if (module > walk->first || (!walk->listing->drawn && walk->level > 1))
            text_byte(&walk->name, walk->listing->modules.separator);
        module_add_label(&walk->name, module, walk->listing->drawn ? MAX_RANGES : SIZE_MAX, ui.json);
    }
    walk->name_len[walk->level] = walk->name.len;
}

static void set_line(struct line_walk *walk, const struct module *first)
{
    uint64_t depth = walk->listing->depth;
    walk->first = walk->module = first;
    while (walk->level && has_only_child(walk->module))
        walk->module++;
    walk->ends[walk->level] = first + first->nitems;
    walk->has_sibling_after[walk->level] = walk->level &&
                                           walk->ends[walk->level] < walk->ends[walk->level - 1];
    walk->is_cut = depth && walk->level == depth && walk->module->nitems > 1;
}

static bool next_line(struct line_walk *walk)
{
    const struct modules *modules = &walk->listing->modules;
    if (!walk->module) {
        set_line(walk, modules->items);
        text_byte(&walk->name, '.');
        return true;
    }
    const struct module *next = walk->is_cut ? walk->ends[walk->level] : walk->module + 1;
    if (next == modules->items + modules->n)
        return false;
    while (next >= walk->ends[walk->level])
        walk->level--;
    walk->level++;
    set_line(walk, next);
    set_line_name(walk);
    return true;
}

/* choose_depth - returns the most levels that take at most MAX_LINES lines, but at least 1; 0: all. */
static uint64_t choose_depth(const struct listing *listing)
{
    struct line_walk walk = walk_lines(listing);
    size_t nlines[TREE_MAX_DEPTH + 1] = {0}, total = 0;
    uint64_t depth = 0;
    while (next_line(&walk))
        nlines[walk.level]++;
    text_free(&walk.name);
    while (depth < TREE_MAX_DEPTH && total + nlines[depth + 1] <= MAX_LINES)
        total += nlines[++depth];
    return depth == TREE_MAX_DEPTH ? 0 : depth ? depth : 1;
}

/* -------------------------------------------------------------------- cells */

/* add_dtypes - adds at most MAX dtypes of the tensors in MODULE, the one with the most bytes in the file
 * first, and the number of others. */
static void add_dtypes(struct text *text, const struct listing *listing, const struct module *module,
                       const char *between, size_t max)
{
    const struct modules *modules = &listing->modules;
    size_t n = 0;
    for (size_t i = 0; i < modules->ndtypes; i++) {
        size_t dtype = listing->dtype_order[i];
        if (!(module->dtypes >> dtype & 1) || n++ >= max)
            continue;
        text_add(text, n > 1 ? between : "");
        text_readable(text, str_c(modules->dtypes[dtype].name));
    }
    if (n > max)
        text_addf(text, " +%zu", n - max);
}

static void add_share(struct text *text, const struct listing *listing, const struct module *module)
{
    double percent = 100 * (double)module->sum.bytes / (double)listing->file_bytes;
    if (!listing->file_bytes)
        return;
    if (module->sum.bytes && percent < 0.05)
        text_add(text, "<0.1 %");
    else
        text_addf(text, "%.1f %%", percent);
}

/* add_tie - adds of which tensor the one of MODULE has the same bytes, or how many of those that it stands
 * for have such. */
static void add_tie(struct text *text, const struct listing *listing, const struct module *module)
{
    if (!module->is_tensor || !module->ntied)
        return;
    if (module->count > 1) {
        text_add(text, "tied: ");
        text_count(text, module->ntied);
        return;
    }
    text_add(text, "= ");
    text_name(text, ckpt_tensor_name(listing->f, tensor_at(listing->f, module->row).alias_of));
}

/* add_copies - adds how many modules are folded into MODULE. */
static void add_copies(struct text *text, const struct module *module)
{
    uint64_t ncopies = 0;
    for (size_t i = 0; i < module->nranges; i++)
        ncopies += module->ranges[i].last - module->ranges[i].first + 1;
    if (!ncopies)
        return;
    text_add(text, " ×");
    text_uint(text, ncopies);
}

static void add_name(struct text *text, const struct line_walk *walk)
{
    if (walk->listing->drawn && walk->level)
        tree_add_branches(text, walk->has_sibling_after, walk->level);
    text_bytes(text, walk->name.ptr, walk->name.len);
    if (walk->listing->drawn)
        for (const struct module *module = walk->first; module <= walk->module; module++)
            add_copies(text, module);
}

static void add_line_cells(struct table *table, const struct line_walk *walk)
{
    const struct listing *listing = walk->listing;
    const struct module *module = walk->module;
    add_name(&table->text, walk);
    table_cell(table);
    if (listing->has_tensors_column && (module->sum.tensors || !module->is_tensor))
        text_count(&table->text, module->sum.tensors);
    table_cell(table);
    if (module->is_tensor) {
        const ckpt_tensor tensor = tensor_at(listing->f, module->row);
        text_shape(&table->text, &tensor);
    } else {
        text_count(&table->text, module->sum.elements);
    }
    table_cell(table);
    text_size(&table->text, module->sum.bytes);
    table_cell(table);
    add_share(&table->text, listing, module);
    table_cell(table);
    if (listing->has_dtype_column)
        add_dtypes(&table->text, listing, module, ", ", listing->drawn ? 1 : MODULES_DTYPES);
    table_cell(table);
    add_tie(&table->text, listing, module);
    table_cell(table);
}

static void add_lines(struct table *table, const void *user)
{
    const struct listing *listing = user;
    const char *const titles[] = {"NAME",  listing->has_tensors_column ? "TENSORS" : "", "ELEMENTS", "SIZE",
                                  "SHARE", listing->has_dtype_column ? "DTYPE" : "",     ""};
    struct line_walk walk = walk_lines(listing);
    table_header(table, titles);
    while (next_line(&walk)) {
        table_row(table, PLAIN);
        add_line_cells(table, &walk);
    }
    text_free(&walk.name);
}

static size_t larger(size_t left, size_t right) { return left > right ? left : right; }

/* choose_columns - leaves out columns if the terminal is too narrow for them and the names. */
static void choose_columns(struct listing *listing)
{
    const size_t tensors_width = 9, other_columns_width = 36; /* usual ones */
    size_t width = 0, dtype_width = 0;
    struct line_walk walk = walk_lines(listing);
    struct text name = {0};
    while (next_line(&walk)) {
        text_clear(&name);
        add_name(&name, &walk);
        width = larger(width, text_columns(name.ptr, name.len));
    }
    text_free(&name);
    text_free(&walk.name);
    for (size_t i = 0; i < listing->modules.ndtypes; i++)
        dtype_width = larger(dtype_width, 2 + strlen(listing->modules.dtypes[i].name));
    width += other_columns_width + dtype_width + (listing->modules.ndtypes > 1 ? strlen(" +2") : 0);
    listing->has_dtype_column = width <= ui.width;
    listing->has_tensors_column = width + tensors_width <= ui.width;
}

static void print_lines(struct listing *listing)
{
    struct table table = {.columns = 7, .right = {false, true, false, true, true}};
    choose_columns(listing);
    table_flow(&table, add_lines, listing, stdout, ui.tty || records.header);
    table_free(&table);
}

/* ------------------------------------------------------------- for programs */

static void print_record(struct record *record, const struct line_walk *walk)
{
    const struct listing *listing = walk->listing;
    const struct module *module = walk->module;
    text_bytes(&record->text, walk->name.ptr, walk->name.len);
    record_field(record);
    record_field_uint(record, walk->level);
    record_field_uint(record, module->count);
    record_field_uint(record, module->sum.tensors);
    record_field_uint(record, module->sum.elements);
    record_field_uint(record, module->sum.bytes);
    if (listing->file_bytes)
        text_addf(&record->text, "%.6f", (double)module->sum.bytes / (double)listing->file_bytes);
    record_field(record);
    add_dtypes(&record->text, listing, module, ",", MODULES_DTYPES);
    record_field(record);
    if (module->has_shape)
        text_dims(&record->text, module->shape, module->ndim, ",");
    record_field(record);
    record_put(record);
}

static void print_records(const struct listing *listing)
{
    static const char *const titles[] = {"name",  "depth", "count",  "tensors", "elements",
                                         "bytes", "share", "dtypes", "shape"};
    struct record record = {0};
    struct line_walk walk = walk_lines(listing);
    records_header(titles, sizeof titles / sizeof *titles);
    while (next_line(&walk))
        print_record(&record, &walk);
    text_free(&walk.name);
    record_free(&record);
}

static void add_module_json(json *parent, const struct line_walk *walk)
{
    const struct listing *listing = walk->listing;
    const struct module *module = walk->module;
    json_str(parent, "name", (ckpt_str){walk->name.ptr, walk->name.len});
    if (module->count > 1) {
        const char *name = ckpt_tensor_name(listing->f, module->row).ptr;
        json_str(parent, "first_name",
                 (ckpt_str){name, (size_t)(module->label.ptr - name) + module->label.len});
    }
    json_u64(parent, "depth", walk->level);
    json_bool(parent, "is_tensor", module->is_tensor);
    json_bool(parent, "below", module->nitems > 1);
    json_u64(parent, "count", module->count);
    json_u64(parent, "tensors", module->sum.tensors);
    json_u64(parent, "elements", module->sum.elements);
    json_u64(parent, "bytes", module->sum.bytes);
    if (listing->file_bytes)
        json_real(parent, "share", (double)module->sum.bytes / (double)listing->file_bytes);
    json_u64(parent, "tied", module->ntied);
    json *dtypes = json_add_array(parent, "dtypes");
    for (size_t i = 0; i < listing->modules.ndtypes; i++)
        if (module->dtypes >> listing->dtype_order[i] & 1)
            json_text(dtypes, NULL, listing->modules.dtypes[listing->dtype_order[i]].name);
    if (module->has_shape)
        json_u64s(parent, "shape", module->shape, module->ndim);
}

static void print_json(const struct listing *listing)
{
    const struct totals *sum = &listing->modules.items->sum;
    json *head = json_schema("ckpt.tree.v1"), *tail = json_object();
    struct line_walk walk = walk_lines(listing);
    json_text(head, "file", ckpt_file_path(listing->f));
    json_text(head, "format", ckpt_file_format(listing->f));
    json_begin_rows(head, "groups", stdout);
    while (next_line(&walk)) {
        if (!walk.level)
            continue;
        json *row = json_object();
        add_module_json(row, &walk);
        json_row(row, stdout);
    }
    text_free(&walk.name);
    json_totals(tail, "total", sum->tensors, sum->elements, sum->bytes);
    json_end_rows(tail, stdout);
}

/* --------------------------------------------------------------------- files */

/* sort_dtypes - sets listing->dtype_order. */
static void sort_dtypes(struct listing *listing)
{
    size_t *order = listing->dtype_order;
    for (size_t i = 0, j; i < listing->modules.ndtypes; i++) {
        uint64_t bytes = listing->modules.dtypes[i].bytes;
        for (j = i; j && listing->modules.dtypes[order[j - 1]].bytes < bytes; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* sum_file - returns the bytes of all tensors of F. */
static uint64_t sum_file(const ckpt_file *f)
{
    size_t n;
    uint32_t *rows = rows_select(f, NULL, 0, ORDER_FILE, &n);
    uint64_t bytes = totals_of_rows(f, rows, n).bytes;
    free(rows);
    return bytes;
}

/* print_footer - prints the format, and which levels are missing because of their number. */
static void print_footer(const struct listing *listing)
{
    struct text out = {0};
    if (ui.tty)
        text_add(&out, ckpt_file_title(listing->f));
    if (opts.depth == DEPTH_UNSET && listing->depth) {
        text_add(&out, ui.tty ? " · " : "");
        text_addf(&out, "only %u level%s: --depth 0 shows all", (unsigned)listing->depth,
                  listing->depth == 1 ? "" : "s");
    }
    if (out.len)
        print_text(stdout, "%s%s%s\n", style_on(DIM), out.ptr, style_off(DIM));
    text_free(&out);
}

static void print_listing(struct listing *listing)
{
    sort_dtypes(listing);
    modules_sort(&listing->modules, (enum row_order)opts.order);
    if (listing->drawn && opts.depth == DEPTH_UNSET)
        listing->depth = choose_depth(listing);
    if (ui.json)
        print_json(listing);
    else if (records_option())
        print_records(listing);
    else
        print_lines(listing);
    if (listing->drawn && !ui.quiet)
        print_footer(listing);
}

static int show_file(const char *path)
{
    struct listing listing = {.depth = opts.depth == DEPTH_UNSET ? 0 : opts.depth,
                              .drawn = (ui.tty || opts.draw) && !ui.json && !records_option()};
    ckpt_file *f = open_input(path, false);
    size_t n;
    if (!f)
        return EXIT_TROUBLE;
    if (!check_globs(f, opts.globs.items, opts.globs.n, false)) {
        close_input(f);
        return EXIT_TROUBLE;
    }
    uint32_t *rows = rows_select(f, opts.globs.items, opts.globs.n, ORDER_FILE, &n);
    listing.f = f;
    modules_read(&listing.modules, f, rows, n, !opts.no_fold);
    listing.file_bytes = opts.globs.n ? sum_file(f) : listing.modules.items->sum.bytes;
    print_listing(&listing);
    if (!ckpt_tensor_count(f))
        print_notice(path, "no tensors");
    modules_free(&listing.modules);
    free(rows);
    close_input(f);
    return EXIT_OK;
}

int run_tree(int count, char **operand)
{
    int status = records_check("tree");
    if (status != EXIT_OK)
        return status;
    if (opts.draw && (ui.json || records_option()))
        return usage_error("tree", "choose --draw or --%s", ui.json ? "json" : records_option());
    mem_keep_freed();
    return files_each(count, operand, records_option() ? FILES_COLUMN : FILES_HEADING, show_file);
}
