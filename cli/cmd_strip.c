#include <string.h>

#include "outputs.h"
#include "remote.h"

static struct {
    bool automatic, anywhere;
} opts;

static const struct opt options[] = {
    {'a', "auto", NULL, OPT_FLAG, &opts.automatic,
     "remove what only a wrapper can have added; takes no PREFIX"},
    {0, "anywhere", NULL, OPT_FLAG, &opts.anywhere, "remove PREFIX after any dot, not only at the start"},
    EDIT_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_strip = {"strip",
                              "PREFIX|--auto FILE… -o OUT",
                              "remove a prefix from the keys: module., _orig_mod., …",
                              options,
                              1,
                              NO_LIMIT,
                              run_strip};

static const char *prefix;

static ckpt_status strip_prefix(ckpt_plan *p, ckpt_error *err)
{
    return opts.automatic ? ckpt_plan_strip_auto(p, err) : ckpt_plan_strip(p, prefix, opts.anywhere, err);
}

static bool is_input(const char *operand)
{
    return remote_may_exist(operand) || strchr(operand, '!') || strcmp(operand, "-") == 0;
}

/* fail_stray - reports that one of two OPERANDS of --auto is no input: a PREFIX if it is the FIRST. */
static int fail_stray(char **operand, bool first)
{
    struct text hint = {0};
    if (first || writing.output)
        edit_suggest(&hint, NULL, 1, operand + first);
    else
        opt_command_line(&hint, NULL, 1, operand, operand[1]);
    int status = usage_error_suggest(
        hint.ptr, "unexpected argument '%s': --auto takes no PREFIX, and the output goes after -o",
        escape_name(str_c(operand[!first])));
    text_free(&hint);
    return status;
}

/* fail_alone - reports that PREFIX or FILE is missing; --auto is suggested if the one OPERAND is a file. */
static int fail_alone(char **operand)
{
    struct text hint = {0};
    if (is_input(operand[0]))
        edit_suggest(&hint, "--auto", 1, operand);
    else
        text_add(&hint, "ckpt strip --help");
    int status = usage_error_suggest(hint.ptr, "strip needs PREFIX and FILE, or --auto and FILE");
    text_free(&hint);
    return status;
}

int run_strip(int count, char **operand)
{
    const char *stray = count != 2 || writing.in_place ? NULL
                        : !is_input(operand[0])        ? operand[0]
                        : !is_input(operand[1])        ? operand[1]
                                                       : NULL;
    if (opts.automatic && stray && !(writing.output && output_is_folder_path(writing.output)))
        return fail_stray(operand, stray == operand[0]);
    if (opts.automatic && opts.anywhere)
        return usage_error("strip", "--anywhere goes with a PREFIX, not with --auto");
    if (!opts.automatic && count < 2)
        return fail_alone(operand);
    prefix = opts.automatic ? NULL : operand[0];
    int first = opts.automatic ? 0 : 1;
    return edit_run("strip", count - first, operand + first, strip_prefix, prefix);
}
