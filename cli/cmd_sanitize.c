#include "outputs.h"

static const struct opt options[] = {
    OUTPUT_OPTION,
    TO_OPTION,
    ROOT_OPTION,
    {0, "strict", NULL, OPT_FLAG, &writing.strict, "fail if anything would be left out"},
    WRITE_OPTIONS,
    UI_INPUT_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_sanitize = {
    "sanitize", "FILE -o OUT", "keep only tensors and builtin types, for weights_only=True", options, 1,
    1,          run_sanitize};

static const char *loss_reason(const ckpt_sanitized *sanitized)
{
    return !sanitized->path          ? "a call that nothing uses"
           : sanitized->callable.len ? "not plain data"
                                     : "no plain tensor";
}

static void print_sanitized(const char *input, const ckpt_sanitized *sanitized, bool would)
{
    const char *name = sanitized->name.len ? escape_name(sanitized->name)
                       : sanitized->lost   ? "a call that nothing uses"
                                           : "the file";
    const char *type = escape_name(sanitized->type);
    if (!sanitized->lost) {
        print_notice(input, "%s (%s) %s %s", name, type, would ? "would become" : "became",
                     escape_name(sanitized->instead));
        return;
    }
    bool show_callable = sanitized->callable.len && !str_is_equal(sanitized->callable, sanitized->type);
    print_notice(input, "%s (%s) %s%s%s%s", name, type, would ? "would be left out" : "left out",
                 sanitized->instead.len ? ", with None in its place" : "",
                 show_callable ? ": loading it needs " : "",
                 show_callable ? escape_name(sanitized->callable) : "");
}

static void print_changes(const ckpt_plan *p, const char *input, bool would)
{
    enum { MAX_SHOWN = 20 };
    size_t n = ckpt_plan_sanitized_count(p);
    for (size_t i = 0; i < n && (i < MAX_SHOWN || !ui.err_tty); i++)
        print_sanitized(input, ckpt_plan_sanitized_at(p, i), would);
    if (n > MAX_SHOWN && ui.err_tty)
        print_notice(input, "and %zu more; --json lists all", n - MAX_SHOWN);
}

static json *change_json(json *list, const ckpt_sanitized *sanitized)
{
    json *item = json_add_object(list, NULL);
    json_str(item, "name", sanitized->name);
    if (sanitized->path)
        json_path(item, "path", sanitized->path, sanitized->npath);
    else
        json_null(item, "path");
    json_str(item, "type", sanitized->type);
    return item;
}

static void add_sanitize_json(const ckpt_plan *p, json *parent)
{
    json *item, *list = json_add_array(parent, "dropped");
    for (size_t i = 0; i < ckpt_plan_sanitized_count(p); i++) {
        const ckpt_sanitized *s = ckpt_plan_sanitized_at(p, i);
        if (!s->lost)
            continue;
        item = change_json(list, s);
        json_text(item, "why", loss_reason(s));
        json_str(item, "callable", s->callable);
    }
    edit_dropped_json(p, list);
    list = json_add_array(parent, "converted");
    for (size_t i = 0; i < ckpt_plan_sanitized_count(p); i++) {
        const ckpt_sanitized *s = ckpt_plan_sanitized_at(p, i);
        if (!s->lost)
            json_str(change_json(list, s), "to", s->instead);
    }
    edit_aliases_json(p, parent);
}

static int sanitize_file(ckpt_file *f, ckpt_plan *p, const char *input)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    ckpt_status s = edit_narrow_if_flat(f, p, &err);
    if (s == CKPT_OK)
        s = ckpt_plan_sanitize(p, output_format(f), &err);
    if (s != CKPT_OK) {
        print_plan_notices(p, input);
        return report_error(&err, input);
    }
    int status = edit_write(p, input, &r);
    bool written = status == EXIT_OK;
    if (!ui.json && (written || writing.strict || !ckpt_plan_tensor_count(p)))
        print_changes(p, input, writing.dry_run || !written);
    if (written)
        edit_print_result("ckpt.sanitize.v1", input, p, &r, add_sanitize_json);
    return status;
}

int run_sanitize(int count, char **operand)
{
    ckpt_file *f;
    ckpt_plan *p;
    (void)count;
    if (!writing.output || !*writing.output)
        return usage_error("sanitize", "no output given: use -o OUT");
    if (!edit_open_plan(operand[0], writing.root, &f, &p))
        return EXIT_TROUBLE;
    int status = sanitize_file(f, p, operand[0]);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}
