#include "edit.h"

static const struct opt options[] = {
    EDIT_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_add = {
    "add", "PREFIX FILE… -o OUT", "put a prefix in front of the keys", options, 2, NO_LIMIT, run_add};

static const char *prefix;

static ckpt_status add_prefix(ckpt_plan *p, ckpt_error *err) { return ckpt_plan_add(p, prefix, err); }

int run_add(int count, char **operand)
{
    prefix = operand[0];
    return edit_run("add", count - 1, operand + 1, add_prefix, prefix);
}
