#include "edit.h"

static int run(int n, char **operand);

static const struct opt options[] = {
    EDIT_OPTIONS,
    UI_EXPANDED,
    UI_JOBS,
    UI_JSON,
    UI_QUIET,
    {0},
};

const struct cmd cmd_add = {
    "add", "PREFIX FILE -o OUT", "put a prefix in front of the keys", options, 2, 2, run, NULL};

static const char *prefix;

static ckpt_status apply(ckpt_plan *p, ckpt_error *err) { return ckpt_plan_add(p, prefix, err); }

static int run(int n, char **operand)
{
    (void)n;
    prefix = operand[0];
    return edit_run("add", operand[1], apply, prefix);
}
