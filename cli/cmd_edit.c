#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"
#include "recipes.h"

static struct {
    struct list rules, files, parameters;
    char *recipe, *shown;
    bool list, shards;
} opts;

static const struct opt options[] = {
    {'e', "edit", "RULE", OPT_LIST, &opts.rules, "apply RULE; repeatable, in this order"},
    {0, "rules", "FILE", OPT_LIST, &opts.files, "apply the rules in FILE, before those of -e; repeatable"},
    {0, "recipe", "RECIPE", OPT_TEXT, &opts.recipe, "apply the rules of a recipe, before all others"},
    {0, "list-recipes", NULL, OPT_FLAG, &opts.list, "list the recipes, with their parameters"},
    {0, "show-recipe", "RECIPE", OPT_TEXT, &opts.shown, "print the rules of a recipe"},
    {'D', "define", "NAME=N", OPT_LIST, &opts.parameters, "what $NAME stands for in the rules; repeatable"},
    OUTPUT_OPTION,
    {0, "shards", NULL, OPT_FLAG, &opts.shards, "each file has a part of every tensor"},
    TO_OPTION,
    ROOT_OPTION,
    UI_NONE_OPTION,
    OUTPUT_FORM_OPTIONS,
    COMPUTE_OPTIONS,
    {0},
};

const struct cmd cmd_edit = {
    "edit",  "FILE… -o OUT -e RULE", "split, join, transpose or cut tensors by rules", options, 0, NO_LIMIT,
    run_edit};

/* ------------------------------------------------------------------------------ report */

static const char *type_name(const ckpt_value *value, char type[64])
{
    return ckpt_value_type_name(value, type, 64);
}

static void edited_json(json *list, const ckpt_edited *tensor)
{
    char type[64];
    json *item = json_add_object(list, NULL);
    json_str(item, "name", tensor->name);
    if (tensor->value) {
        json_text(item, "type", type_name(tensor->value, type));
        json_value(item, "value", tensor->value);
        return;
    }
    json_text(item, "dtype", ckpt_dtype_name((ckpt_dtype)tensor->dtype));
    json_u64s(item, "shape", tensor->shape, tensor->ndim);
}

/* applications_json - adds the applications of rule STEP to LIST; *NEXT is the first tensor of the plan's
 * list that is not reported yet. */
static void applications_json(const ckpt_plan *p, uint32_t step, json *list, size_t *next)
{
    const ckpt_edited *tensor = ckpt_plan_edited_at(p, *next);
    while (tensor && tensor->step == step) {
        uint32_t application = tensor->application;
        json *item = json_add_object(list, NULL);
        json *from = json_add_array(item, "from"), *to = json_add_array(item, "to");
        for (; tensor && tensor->step == step && tensor->application == application;
             tensor = ckpt_plan_edited_at(p, ++*next))
            edited_json(tensor->is_made ? to : from, tensor);
    }
}

static const char *format_value(int64_t value, char out[24])
{
    snprintf(out, 24, "%lld", (long long)value);
    return out;
}

static void parameters_json(const ckpt_plan *p, json *list)
{
    const ckpt_edit_parameter *parameter;
    char value[24];
    for (size_t i = 0; (parameter = ckpt_plan_edit_parameter_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", parameter->name);
        json_raw(item, "value", format_value(parameter->value, value));
        if (parameter->key.len)
            json_str(item, "key", parameter->key);
        json_bool(item, "given", parameter->is_given);
    }
}

static void add_edit_json(const ckpt_plan *p, json *parent)
{
    const ckpt_edit_step *step;
    if (ckpt_plan_edit_parameter_at(p, 0))
        parameters_json(p, json_add_array(parent, "parameters"));
    json *list = json_add_array(parent, "rules");
    size_t next = 0;
    for (uint32_t i = 0; (step = ckpt_plan_edit_step_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_u64(item, "line", step->line);
        json_u64(item, "column", step->column);
        json_str(item, "text", step->text);
        json_text(item, "verb", step->verb);
        json_u64(item, "tensors", step->tensors);
        json_u64(item, "made", step->made);
        json_u64(item, "values", step->values);
        applications_json(p, i, json_add_array(item, "changes"), &next);
    }
    edit_losses_json(p, parent);
    edit_casts_json(p, parent);
}

static void text_edited(struct text *out, const ckpt_edited *tensor)
{
    if (tensor->value) {
        text_name(out, tensor->name);
        text_add(out, " = ");
        text_value(out, tensor->value, 8);
        return;
    }
    const ckpt_tensor t = {.has_shape = 1, .ndim = tensor->ndim, .shape = tensor->shape};
    text_name(out, tensor->name);
    text_add(out, " ");
    text_shape(out, &t);
}

/* print_applications - prints what became of which tensors, a line for each application of rule STEP. */
static void print_applications(const ckpt_plan *p, uint32_t step, size_t *next)
{
    const ckpt_edited *tensor = ckpt_plan_edited_at(p, *next);
    while (tensor && tensor->step == step) {
        struct text line = {0};
        uint32_t application = tensor->application;
        bool was_made = false;
        text_add(&line, "  ");
        for (bool is_first = true; tensor && tensor->step == step && tensor->application == application;
             tensor = ckpt_plan_edited_at(p, ++*next), is_first = false) {
            text_add(&line, is_first ? "" : tensor->is_made && !was_made ? " → " : ", ");
            text_edited(&line, tensor);
            was_made = tensor->is_made;
        }
        print_text(report_stream(writing.output), "%s\n", line.ptr);
        text_free(&line);
    }
}

/* text_rule - adds RULE as it was typed, but on one line, unless it has characters that must be escaped. */
static void text_rule(struct text *out, ckpt_str rule)
{
    for (size_t i = 0; i < rule.len; i++) {
        const char *at = rule.ptr + i;
        bool is_continued = *at == '\\' && i + 1 < rule.len && (at[1] == '\n' || at[1] == '\r');
        text_bytes(out, is_continued || strchr("\t\r\n", *at) ? " " : at, 1);
    }
    if (text_is_printable(out->ptr))
        return;
    text_clear(out);
    text_name(out, rule);
}

/* print_types - prints that values of rule STEP, from item BEGIN of the plan's list on, are new, or of what
 * other types than before they are. */
static void print_types(const ckpt_plan *p, uint32_t step, size_t begin, FILE *out)
{
    const ckpt_edited *old, *made;
    char from[64], to[64];
    uint64_t nnew = 0, nothers = 0;
    for (size_t i = begin; (made = ckpt_plan_edited_at(p, i)) && made->step == step; i++) {
        if (!made->value || !made->is_made)
            continue;
        old = i > begin ? ckpt_plan_edited_at(p, i - 1) : NULL;
        bool is_new = !old || old->is_made || old->application != made->application;
        nnew += is_new;
        if (is_new || ckpt_value_get_type(old->value) == ckpt_value_get_type(made->value))
            continue;
        if (!nothers++)
            print_text(out, ", %s → %s", type_name(old->value, from), type_name(made->value, to));
    }
    if (nothers > 1)
        print_text(out, " and %llu more of another type", (unsigned long long)nothers - 1);
    if (nnew)
        print_text(out, ", new");
}

/* print_parameters - prints the parameters that the rules define, and where they come from. */
static void print_parameters(const ckpt_plan *p)
{
    const ckpt_edit_parameter *parameter;
    for (size_t i = 0; (parameter = ckpt_plan_edit_parameter_at(p, i)); i++) {
        struct text name = {0}, key = {0};
        char value[24];
        text_name(&name, parameter->name);
        text_name(&key, parameter->key);
        print_text(report_stream(writing.output), "%s = %s   %s\n", name.ptr,
                   format_value(parameter->value, value),
                   parameter->is_given  ? "-D"
                   : parameter->key.len ? key.ptr
                                        : "computed");
        text_free(&name);
        text_free(&key);
    }
}

static void print_rules(const ckpt_plan *p)
{
    const ckpt_edit_step *step;
    FILE *out = report_stream(writing.output);
    size_t next = 0;
    if (!ui.quiet && !ui.json)
        print_parameters(p);
    for (uint32_t i = 0; !ui.quiet && !ui.json && (step = ckpt_plan_edit_step_at(p, i)); i++) {
        struct text rule = {0};
        text_rule(&rule, step->text);
        print_text(out, "%s   ", rule.ptr);
        if (step->tensors || step->made || !step->values)
            print_text(out, "%s", show_noun(step->tensors, "tensor", "tensors"));
        if (step->values) {
            print_text(out, "%s%s", step->tensors ? ", " : "", show_noun(step->values, "value", "values"));
            print_types(p, i, next, out);
        }
        if (step->made != step->tensors && step->made)
            print_text(out, " → %llu", (unsigned long long)step->made);
        print_text(out, "\n");
        text_free(&rule);
        if (writing.dry_run)
            print_applications(p, i, &next);
        for (const ckpt_edited *tensor; (tensor = ckpt_plan_edited_at(p, next)) && tensor->step == i;)
            next++;
    }
}

/* ------------------------------------------------------------------------------- rules */

/* parse_parameter - parses NAME=N. Returns false after printing the error. */
static bool parse_parameter(const char *text, ckpt_parameter *out)
{
    const char *equals = strchr(text, '=');
    char *end = NULL;
    errno = 0;
    long long number = equals ? strtoll(equals + 1, &end, 10) : 0;
    bool is_number = equals && equals > text && end > equals + 1 && !*end && errno == 0;
    if (is_number)
        *out = (ckpt_parameter){.name = {text, (size_t)(equals - text)}, .value = number};
    else
        opt_bad_value("define", text, "NAME=NUMBER, like heads=32");
    return is_number;
}

/* What rules are applied to. */
struct editing {
    const char *input;
    char *const *shards; /* the further files, if each has a part of every tensor */
    size_t nshards;
    const ckpt_parameter *parameters;
};

/* apply_rules - applies the rules of RECIPE, of FILE, or the lines RULES of -e. The first call joins the
 * shards of EDITING. */
static ckpt_status apply_rules(ckpt_plan *p, const char *recipe, const char *file, const char *rules,
                               struct editing *editing, ckpt_error *err)
{
    const ckpt_edit_options o = {.struct_size = sizeof o,
                                 .recipe = recipe,
                                 .file = file,
                                 .parameters = editing->parameters,
                                 .nparameters = opts.parameters.n,
                                 .shards = (const char *const *)editing->shards,
                                 .nshards = editing->nshards};
    editing->nshards = 0;
    return ckpt_plan_edit(p, rules, &o, err);
}

/* apply_all - applies the rules of --recipe, of --rules and of -e, each of which is a line. */
static ckpt_status apply_all(ckpt_plan *p, struct editing *editing, ckpt_error *err)
{
    struct text lines = {0};
    ckpt_status st = opts.recipe ? apply_rules(p, opts.recipe, NULL, NULL, editing, err) : CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < opts.files.n; i++)
        st = apply_rules(p, NULL, opts.files.items[i], NULL, editing, err);
    for (size_t i = 0; i < opts.rules.n; i++) {
        text_add(&lines, opts.rules.items[i]);
        text_add(&lines, "\n");
    }
    if (st == CKPT_OK && lines.ptr)
        st = apply_rules(p, NULL, "-e", lines.ptr, editing, err);
    text_free(&lines);
    return st;
}

/* is_used - returns true if a rule of P has the parameter NAME, which -D gives. */
static bool is_used(const ckpt_plan *p, ckpt_str name)
{
    const ckpt_edit_parameter *used;
    for (size_t i = 0; (used = ckpt_plan_edit_parameter_at(p, i)); i++)
        if (used->is_given && used->name.len == name.len && memcmp(used->name.ptr, name.ptr, name.len) == 0)
            return true;
    return false;
}

/* check_all_used - returns false after printing the error that no rule has a parameter of -D. */
static bool check_all_used(const ckpt_plan *p, const struct editing *editing)
{
    for (size_t i = 0; i < opts.parameters.n; i++)
        if (!is_used(p, editing->parameters[i].name)) {
            usage_error("edit", "no rule has $%.200s, which -D gives",
                        escape_name(editing->parameters[i].name));
            return false;
        }
    return true;
}

static int edit_opened(ckpt_file *f, ckpt_plan *p, struct editing *editing)
{
    const char *input = editing->input;
    ckpt_error err;
    ckpt_status s = writing.output ? edit_narrow_if_flat(f, p, &err) : CKPT_OK;
    if (s == CKPT_OK)
        s = apply_all(p, editing, &err);
    if (s != CKPT_OK) {
        print_plan_notices(p, input);
        return report_error(&err, input);
    }
    if (!check_all_used(p, editing))
        return EXIT_TROUBLE;
    return edit_write_planned(p, input, "ckpt.rules.v1", print_rules, add_edit_json);
}

/* edit_inputs - edits the COUNT files INPUTS: one checkpoint or, if they are SHARDS, parts of each tensor. */
static int edit_inputs(int count, char **inputs, bool shards, const ckpt_parameter *parameters)
{
    ckpt_file *f;
    ckpt_plan *p;
    struct text path = {0};
    struct editing editing = {.input = inputs[0], .shards = inputs + 1, .parameters = parameters};
    if (shards)
        editing.nshards = (size_t)count - 1;
    if (!edit_open_merged_plan(shards ? 1 : count, inputs, writing.root, &f, &p))
        return EXIT_TROUBLE;
    writing.keep_shards = count == 1 && writing.output && output_names_set(f) && !writing.max_shard;
    if (writing.output)
        output_place(f, inputs[0], ckpt_file_format(f), &path);
    int status = edit_opened(f, p, &editing);
    text_free(&path);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

/* reads_input_twice - returns true if standard input would be read more than once. */
static bool reads_input_twice(int count, char **operand)
{
    size_t times = 0;
    for (int i = 0; i < count; i++)
        times += strcmp(operand[i], "-") == 0;
    for (size_t i = 0; i < opts.files.n; i++)
        times += strcmp(opts.files.items[i], "-") == 0;
    return times > 1;
}

/* edit_by_parameters - edits after parsing -D. If there are no rules but those of RECIPE, it must have each
 * of them. */
static int edit_by_parameters(int count, char **inputs, const ckpt_recipe *recipe)
{
    bool is_alone = recipe->name && !opts.rules.n && !opts.files.n;
    ckpt_parameter *parameters = mem_new(opts.parameters.n + 1, sizeof *parameters);
    bool ok = true;
    for (size_t i = 0; ok && i < opts.parameters.n; i++)
        ok = parse_parameter(opts.parameters.items[i], &parameters[i]) &&
             (!is_alone || check_parameter(recipe, parameters[i].name));
    int status = ok ? edit_inputs(count, inputs, opts.shards || recipe->joins, parameters) : EXIT_TROUBLE;
    free(parameters);
    return status;
}

/* check_quotes - returns false after printing the error that a rule is one word, if there are several of the
 * COUNT operands: the shell has cut it. */
static bool check_quotes(int count)
{
    for (size_t i = 0; count > 1 && i < opts.rules.n; i++) {
        const char *rule = opts.rules.items[i], *shown = escape_name(str_c(rule));
        if (*rule && *rule != '#' && !rule[strcspn(rule, " \t\r\n;")]) {
            usage_error_suggest("-e 'drop optimizer.*'", "-e '%.200s' is no complete rule; quote the rule",
                                shown);
            return false;
        }
    }
    return true;
}

int run_edit(int count, char **operand)
{
    ckpt_recipe recipe = CKPT_INIT(ckpt_recipe);
    if (opts.list)
        return list_recipes();
    if (opts.shown)
        return show_recipe(opts.shown);
    if (!count)
        return opt_fail_too_few(&cmd_edit);
    if (!opts.rules.n && !opts.files.n && !opts.recipe)
        return usage_error("edit", "edit needs -e RULE, --rules FILE or --recipe RECIPE");
    if (reads_input_twice(count, operand))
        return usage_error("edit", "standard input (-) can be read only once");
    if (!writing.dry_run && (!writing.output || !*writing.output))
        return usage_error("edit", "no output given: use -o OUT; --dry-run writes nothing");
    if (!check_quotes(count) || (opts.recipe && !find_recipe(opts.recipe, &recipe)))
        return EXIT_TROUBLE;
    if (edit_check_part("edit", true) != EXIT_OK)
        return EXIT_TROUBLE;
    return edit_by_parameters(count, operand, &recipe);
}
