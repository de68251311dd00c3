#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "json.h"
#include "modules.h"

static struct {
    bool rules_only, all;
    const char *wanted_root, *root;
} opts;

static const struct opt options[] = {
    {0, "rules", NULL, OPT_FLAG, &opts.rules_only,
     "print only the rules, for ckpt edit --rules; the report goes to stderr"},
    {'a', "all", NULL, OPT_FLAG, &opts.all, "list all names that differ, not only the first"},
    {0, "root", "PATH", OPT_TEXT, &opts.root,
     "compare only what is below PATH in FILE (default: the weights)"},
    {0, "wanted-root", "PATH", OPT_TEXT, &opts.wanted_root, "the same for WANTED"},
    UI_INPUT_OPTIONS,
    UI_JSON_OPTION,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print no report; the exit code is the answer"},
    {0},
};

const struct cmd cmd_match = {
    "match", "WANTED FILE", "which names a model would miss, and rules that mend it", options, 2,
    2,       run_match};

/* Without --all, so many lines of each list are printed. */
#define MAX_LINES 12

/* A comparison, and what is printed about it. */
struct matching {
    const char *wanted_path, *path;
    ckpt_file *wanted, *f;
    ckpt_match *match;
    ckpt_match_counts before, after;
    size_t ncertain;     /* rules that are applied */
    struct text refusal; /* why they cannot be; empty: they can */
};

/* -------------------------------------------------------------------------------- lists */

/* list_rows - returns the *NUMBER tensors of the differences of kind WHAT, of WANTED or of FILE. The caller
 * frees them. */
static uint32_t *list_rows(const ckpt_match *match, uint32_t what, size_t *number)
{
    const ckpt_match_item *item;
    uint32_t *rows = NULL;
    *number = 0;
    for (size_t i = 0; (item = ckpt_match_item_at(match, i)); i++) {
        if (item->what != what)
            continue;
        rows = mem_make_room(rows, *number, sizeof *rows);
        rows[(*number)++] = what == CKPT_MATCH_UNEXPECTED ? item->row : item->wanted;
    }
    return rows;
}

/* add_folded - adds a row to TABLE with NAME, that of the tensor MODULE, and what it stands for. */
static void add_folded(struct table *table, const struct module *module, const struct text *name, size_t cut)
{
    const ckpt_tensor t = {.has_shape = module->has_shape, .ndim = module->ndim, .shape = module->shape};
    table_row(table, PLAIN);
    text_add(&table->text, "  ");
    text_add(&table->text, name->ptr + cut);
    table_cell(table);
    if (module->has_shape)
        text_shape(&table->text, &t);
    table_cell(table);
    if (module->count > 1) {
        text_add(&table->text, "×");
        text_count(&table->text, module->count);
    }
    table_cell(table);
}

/* fold_rows - adds the COUNT ROWS of F, folded, to TABLE, at most MAX. ROOT is removed from names. Returns
 * how many lines there are in all. */
static size_t fold_rows(struct table *table, const ckpt_file *f, uint32_t *rows, size_t count,
                        const char *root, size_t max)
{
    struct modules modules;
    struct text name = {0};
    size_t lens[TREE_MAX_DEPTH + 1] = {0}, ends[TREE_MAX_DEPTH + 1] = {0}, level = 0, nlines = 0;
    size_t root_len = *root ? strlen(root) + 1 : 0;
    modules_read(&modules, f, rows, count, true);
    table_header(table, NULL);
    ends[0] = modules.n;
    for (size_t i = 1; i < modules.n; i++) {
        const struct module *module = &modules.items[i];
        while (i >= ends[level])
            level--;
        text_cut(&name, lens[level]);
        if (level)
            text_byte(&name, modules.separator);
        module_add_label(&name, module, SIZE_MAX, false);
        if (module->is_tensor && nlines++ < max)
            add_folded(table, module, &name, name.len > root_len ? root_len : 0);
        ends[++level] = i + module->nitems;
        lens[level] = name.len;
    }
    text_free(&name);
    modules_free(&modules);
    return nlines;
}

/* print_list - prints the differences of kind WHAT below TITLE. */
static void print_list(const struct matching *matching, uint32_t what, const char *title, FILE *stream)
{
    size_t count;
    bool in_file = what == CKPT_MATCH_UNEXPECTED;
    uint32_t *rows = list_rows(matching->match, what, &count);
    struct table table = {.columns = 3};
    if (count) {
        size_t max = opts.all ? SIZE_MAX : MAX_LINES;
        size_t nlines = fold_rows(&table, in_file ? matching->f : matching->wanted, rows, count,
                                  in_file ? ckpt_match_root(matching->match) : "", max);
        print_text(stream, "%s %zu\n", title, count);
        table_print(&table, stream, false);
        if (nlines > max)
            print_text(stream, "  … %zu more lines: --all shows them\n", nlines - max);
    }
    table_free(&table);
    free(rows);
}

/* text_reshaped - adds both shapes of ITEM. */
static void text_reshaped(struct text *out, const struct matching *matching, const ckpt_match_item *item)
{
    const ckpt_tensor wanted = tensor_at(matching->wanted, item->wanted),
                      t = tensor_at(matching->f, item->row);
    text_name(out, item->name);
    text_add(out, "   ");
    text_shape(out, &t);
    text_add(out, ", wanted ");
    text_shape(out, &wanted);
}

static void print_reshaped(const struct matching *matching, FILE *stream)
{
    const ckpt_match_item *item;
    size_t nlines = 0;
    if (matching->before.reshaped)
        print_text(stream, "of another shape %llu\n", (unsigned long long)matching->before.reshaped);
    for (size_t i = 0; (item = ckpt_match_item_at(matching->match, i)); i++) {
        struct text line = {0};
        if (item->what != CKPT_MATCH_RESHAPED || (nlines++ >= MAX_LINES && !opts.all))
            continue;
        text_reshaped(&line, matching, item);
        print_text(stream, "  %s\n", line.ptr);
        text_free(&line);
    }
    if (nlines > MAX_LINES && !opts.all)
        print_text(stream, "  … %zu more lines: --all shows them\n", nlines - MAX_LINES);
}

/* text_counts - adds "196 missing, 3 unexpected, 1 of another shape", or that nothing differs. */
static void text_counts(struct text *out, const ckpt_match_counts *counts)
{
    const struct {
        uint64_t count;
        const char *words;
    } parts[] = {{counts->missing, "missing"},
                 {counts->unexpected, "unexpected"},
                 {counts->reshaped, "of another shape"}};
    bool found = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].count)
            continue;
        text_addf(out, "%s%llu %s", found ? ", " : "", (unsigned long long)parts[i].count, parts[i].words);
        found = true;
    }
    text_add(out, found ? "" : "nothing is missing");
}

static bool is_equal(const ckpt_match_counts *counts)
{
    return !counts->missing && !counts->unexpected && !counts->reshaped;
}

static void print_differences(const struct matching *matching, FILE *stream)
{
    struct text line = {0};
    uint64_t nwanted = matching->before.same + matching->before.missing + matching->before.reshaped;
    text_addf(&line, "%llu of %s match: ", (unsigned long long)matching->before.same,
              show_noun(nwanted, "name", "names"));
    text_counts(&line, &matching->before);
    print_text(stream, "%s\n", line.ptr);
    if (matching->before.no_shape)
        print_text(stream, "the shapes of %llu of them are not known\n",
                   (unsigned long long)matching->before.no_shape);
    text_free(&line);
    print_list(matching, CKPT_MATCH_MISSING, "missing", stream);
    print_list(matching, CKPT_MATCH_UNEXPECTED, "unexpected", stream);
    print_reshaped(matching, stream);
}

/* -------------------------------------------------------------------------------- rules */

/* print_lines - prints each line of TEXT after PREFIX. */
static void print_lines(FILE *stream, const char *prefix, ckpt_str text)
{
    while (text.len) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end ? (size_t)(end - text.ptr) : text.len;
        print_text(stream, "%s%.*s\n", prefix, (int)n, text.ptr);
        n += end != NULL;
        text = (ckpt_str){text.ptr + n, text.len - n};
    }
}

static void print_rules(const struct matching *matching, FILE *stream)
{
    const ckpt_match_rule *rule;
    const char *root = ckpt_match_root(matching->match);
    struct text line = {0};
    if (ckpt_match_is_cut(matching->match))
        print_text(stream, "# the names differ in too many forms: not all possible rules were tried\n");
    if (!ckpt_match_rule_at(matching->match, 0)) {
        print_text(stream, "# no rule is known that mends this\n");
        return;
    }
    text_add(&line, "# ckpt edit ");
    text_operand(&line, matching->path);
    text_add(&line, *root ? " --root " : "");
    if (*root)
        text_shell(&line, root);
    print_text(stream, "%s --rules RULES -o OUT\n", line.ptr);
    text_free(&line);
    if (matching->refusal.len)
        print_text(stream, "# it refuses these rules: %s\n", matching->refusal.ptr);
    if (matching->refusal.len && !ckpt_write_format_is_flat(ckpt_file_format(matching->f)))
        print_text(stream, "# rules do not reach names across mappings: convert it to safetensors first\n");
    for (size_t i = 0; (rule = ckpt_match_rule_at(matching->match, i)); i++) {
        print_lines(stream, rule->certain ? "# " : "# perhaps: ", rule->evidence);
        print_lines(stream, rule->certain && !matching->refusal.len ? "" : "#   ", rule->text);
    }
}

/* print_outcome - prints what the rules leave. */
static void print_outcome(const struct matching *matching, FILE *stream)
{
    struct text line = {0};
    const ckpt_match_item *item;
    uint64_t nwanted = matching->after.same + matching->after.missing + matching->after.reshaped;
    if (matching->refusal.len || !matching->ncertain)
        return;
    text_addf(&line, "with %s %llu of %s match: ", matching->ncertain == 1 ? "this rule" : "these rules",
              (unsigned long long)matching->after.same, show_noun(nwanted, "name", "names"));
    text_counts(&line, &matching->after);
    print_text(stream, "%s\n", line.ptr);
    text_free(&line);
    static const char *const words[] = {"missing", "unexpected", "of another shape"};
    for (size_t i = 0; (item = ckpt_match_item_at(matching->match, i)) && (opts.all || i < MAX_LINES); i++)
        print_text(stream, "  %s   %s\n", escape_name(item->name), words[item->what]);
    if (item)
        print_text(stream, "  … --all shows all\n");
}

/* is_refusal - returns true if STATUS is about the rules, and not about this run. */
static bool is_refusal(ckpt_status status)
{
    return status != CKPT_OK && status != CKPT_ENOMEM && status != CKPT_EIO && status != CKPT_ECHANGED;
}

/* apply - applies the rules, so that the outcome is known. Returns EXIT_TROUBLE after an error that is not
 * about the rules. */
static int apply(struct matching *matching)
{
    const ckpt_match_rule *rule;
    ckpt_error err;
    for (size_t i = 0; (rule = ckpt_match_rule_at(matching->match, i)); i++)
        matching->ncertain += rule->certain;
    ckpt_status status = ckpt_match_apply(matching->match, &err);
    if (status != CKPT_OK && !is_refusal(status))
        return report_error(&err, matching->path);
    if (status != CKPT_OK) {
        err.file[0] = err.where[0] = '\0'; /* its line is not that of the output */
        text_error(&matching->refusal, &err);
    }
    matching->after = *ckpt_match_count(matching->match);
    return EXIT_OK;
}

/* --------------------------------------------------------------------------------- JSON */

static void counts_json(json *parent, const char *key, const ckpt_match_counts *counts)
{
    json *object = json_add_object(parent, key);
    json_u64(object, "same", counts->same);
    json_u64(object, "no_shape", counts->no_shape);
    json_u64(object, "missing", counts->missing);
    json_u64(object, "unexpected", counts->unexpected);
    json_u64(object, "reshaped", counts->reshaped);
}

/* shape_json - adds the shape of tensor ROW of F as KEY, if it has one. */
static void shape_json(json *parent, const char *key, const ckpt_file *f, uint32_t row)
{
    if (row == CKPT_NO_TENSOR)
        return;
    const ckpt_tensor t = tensor_at(f, row);
    if (t.has_shape)
        json_u64s(parent, key, t.shape, t.ndim);
}

static void items_json(json *parent, const char *key, const struct matching *matching)
{
    static const char *const words[] = {"missing", "unexpected", "reshaped"};
    const ckpt_match_item *item;
    json *list = json_add_array(parent, key);
    for (size_t i = 0; (item = ckpt_match_item_at(matching->match, i)); i++) {
        json *object = json_add_object(list, NULL);
        json_text(object, "what", words[item->what]);
        json_str(object, "name", item->name);
        shape_json(object, "wanted", matching->wanted, item->wanted);
        shape_json(object, "shape", matching->f, item->row);
    }
}

static void rules_json(json *parent, const struct matching *matching)
{
    const ckpt_match_rule *rule;
    json *list = json_add_array(parent, "rules");
    for (size_t i = 0; (rule = ckpt_match_rule_at(matching->match, i)); i++) {
        json *object = json_add_object(list, NULL);
        json_str(object, "text", rule->text);
        json_str(object, "evidence", rule->evidence);
        json_bool(object, "certain", rule->certain && !matching->refusal.len);
        json_u64(object, "names", rule->names);
        json_u64(object, "equal_shapes", rule->equal_shapes);
    }
}

static int print_json(struct matching *matching)
{
    json *document = json_schema("ckpt.match.v1");
    json_text(document, "wanted", matching->wanted_path);
    json_text(document, "file", matching->path);
    json_text(document, "root", ckpt_match_root(matching->match));
    counts_json(document, "before", &matching->before);
    items_json(document, "differences", matching);
    if (apply(matching) != EXIT_OK) {
        json_free(document);
        return EXIT_TROUBLE;
    }
    json_bool(document, "cut", ckpt_match_is_cut(matching->match));
    rules_json(document, matching);
    if (matching->refusal.len)
        json_text(document, "refusal", matching->refusal.ptr);
    counts_json(document, "after", &matching->after);
    items_json(document, "left", matching);
    json_line(document, stdout);
    return EXIT_OK;
}

/* ---------------------------------------------------------------------------------- run */

static int print_report(struct matching *matching)
{
    FILE *report = opts.rules_only ? stderr : stdout;
    bool is_shown = !ui.quiet;
    if (is_shown)
        print_differences(matching, report);
    if (apply(matching) != EXIT_OK)
        return EXIT_TROUBLE;
    bool differs = !is_equal(&matching->before);
    if (differs && is_shown && !opts.rules_only)
        print_text(stdout, "\n");
    if (differs && (is_shown || opts.rules_only))
        print_rules(matching, stdout);
    if (differs && is_shown && !opts.rules_only)
        print_text(stdout, "\n");
    if (differs && is_shown)
        print_outcome(matching, report);
    return EXIT_OK;
}

static int match_opened(struct matching *matching)
{
    const ckpt_match_options o = {
        .struct_size = sizeof o, .root = opts.root, .wanted_root = opts.wanted_root};
    ckpt_error err;
    if (ckpt_match_new(matching->wanted, matching->f, &o, &matching->match, &err) != CKPT_OK)
        return report_error(&err, matching->path);
    matching->before = *ckpt_match_count(matching->match);
    int status = ui.json ? print_json(matching) : print_report(matching);
    text_free(&matching->refusal);
    ckpt_match_free(matching->match);
    return status != EXIT_OK ? status : is_equal(&matching->before) ? EXIT_OK : EXIT_NO;
}

int run_match(int count, char **operand)
{
    struct matching matching = {.wanted_path = operand[0], .path = operand[1]};
    (void)count;
    if (opts.rules_only && ui.json)
        return usage_error("match", "choose --rules or --json");
    if (strcmp(operand[0], "-") == 0 && strcmp(operand[1], "-") == 0)
        return usage_error("match", "only one of WANTED and FILE can be standard input");
    matching.wanted = open_input_by(ckpt_open_names, operand[0], false);
    matching.f = matching.wanted ? open_input_by(ckpt_open_names, operand[1], false)
                                 : NULL; /* refused later */
    int status = matching.f ? match_opened(&matching) : EXIT_TROUBLE;
    close_input(matching.f);
    close_input(matching.wanted);
    return status;
}
