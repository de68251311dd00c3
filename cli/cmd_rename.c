#include "edit.h"

static struct {
    struct list rules;
    const char *map;
} opts;

static const struct opt options[] = {
    {'s', "sub", "REGEX=>REPL", OPT_LIST, &opts.rules, "replace every match; \\1 to \\9 in REPL; repeatable"},
    {'m', "map", "JSON", OPT_TEXT, &opts.map, "file with an object {\"old\": \"new\", …}"},
    EDIT_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_rename = {
    "rename", "FILE… -o OUT", "rename keys by regular expressions or a map", options, 1,
    NO_LIMIT, run_rename};

static ckpt_status rename_keys(ckpt_plan *p, ckpt_error *err)
{
    ckpt_status s = opts.map ? ckpt_plan_rename_map(p, opts.map, err) : CKPT_OK;
    for (size_t i = 0; s == CKPT_OK && i < opts.rules.n; i++)
        s = ckpt_plan_rename_regex(p, opts.rules.items[i], err);
    return s;
}

int run_rename(int count, char **operand)
{
    if (!opts.rules.n && !opts.map)
        return usage_error("rename", "rename needs -s 'REGEX=>REPL' or --map JSON");
    return edit_run("rename", count, operand, rename_keys, NULL);
}
