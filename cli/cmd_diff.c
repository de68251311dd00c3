#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "diff.h"
#include "progress.h"
#include "share.h"

static struct {
    struct list globs;
    bool markdown, git, ignore_crc, wide, equal_nan, ignore_dtype, keys_only, tensors_only;
    uint64_t top;
    int order; /* an enum diff_order; -1: --sort was not given */
} opts = {.order = -1};
static ckpt_diff_options diff_options = {.struct_size = sizeof diff_options};

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    {0, "rtol", "R", OPT_REAL, &diff_options.rtol, "same when |a-b| <= A + R*|b|"},
    {0, "atol", "A", OPT_REAL, &diff_options.atol, "see --rtol"},
    {0, "equal-nan", NULL, OPT_FLAG, &opts.equal_nan, "any NaN equals any other"},
    {0, "ignore-dtype", NULL, OPT_FLAG, &opts.ignore_dtype, "compare numbers whatever their dtypes"},
    {0, "keys-only", NULL, OPT_FLAG, &opts.keys_only,
     "names, dtypes and shapes; A or B may be a list of names"},
    {0, "tensors-only", NULL, OPT_FLAG, &opts.tensors_only, "no other values: epochs, options, …"},
    {0, "root", "PATH", OPT_TEXT, &diff_options.root,
     "only what is at PATH, on the side that has it; auto: the weights"},
    {0, "root-a", "PATH", OPT_TEXT, &diff_options.root_a, "the same for A alone"},
    {0, "root-b", "PATH", OPT_TEXT, &diff_options.root_b, "the same for B alone"},
    {0, "ignore-prefix", "P", OPT_TEXT, &diff_options.ignore_prefix,
     "remove P from the names on both sides first"},
    UI_NONE_OPTION,
    {'l', "long", NULL, OPT_FLAG, &opts.wide, "also the relative L2 distance and the cosine"},
    {0, "sort", "name|rel-l2|max-abs", OPT_CHOICE, &opts.order, "what changed most first (default: by name)"},
    {0, "top", "N", OPT_COUNT, &opts.top, "only the N tensors that changed most"},
    RECORDS_OPTIONS("what differs, in both files"),
    {0, "md", NULL, OPT_FLAG, &opts.markdown, "a Markdown table, for a pull request's comment"},
    {0, "git", NULL, OPT_FLAG, &opts.git, "act as git's external diff: seven arguments, always exit 0"},
    {0, "ignore-crc", NULL, OPT_FLAG, &opts.ignore_crc, "go on despite wrong checksums in a file"},
    SHARE_OPTIONS,
    UI_WORK_OPTIONS,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print no text; the exit code is the answer"},
    {0},
};

/* Two operands; git passes 1, 7 or 9. */
const struct cmd cmd_diff = {"diff", "A B",   "compare two checkpoints, of any two formats", options, 1,
                             9,      run_diff};

static int collect_event(void *user, const ckpt_diff_event *event)
{
    struct report *r = user;
    if (event->what == CKPT_DIFF_SAME && !event->within_tolerance)
        return 0;
    r->events = mem_make_room(r->events, r->n, sizeof *r->events);
    r->events[r->n++] = *event;
    return 0;
}

static int collect_value(void *user, const ckpt_diff_value *value)
{
    struct report *r = user;
    r->values = mem_make_room(r->values, r->nvalues, sizeof *r->values);
    r->values[r->nvalues++] = *value;
    return 0;
}

static ckpt_status compare_files(struct report *report, ckpt_error *err)
{
    ckpt_work how = ui_work();
    report->totals = (ckpt_diff_totals)CKPT_INIT(ckpt_diff_totals);
    report->value_totals = (ckpt_diff_value_totals)CKPT_INIT(ckpt_diff_value_totals);
    diff_options.globs = opts.globs.items;
    diff_options.nglobs = opts.globs.n;
    diff_options.how = &how;
    diff_options.equal_nan = opts.equal_nan;
    diff_options.ignore_dtype = opts.ignore_dtype;
    diff_options.keys_only = opts.keys_only;
    diff_options.tensors_only = opts.tensors_only;
    diff_options.allow_none = ui.allow_none;
    opts.order = opts.order >= 0 ? opts.order : opts.top ? BY_REL_L2 : BY_NAME;
    diff_options.norms = opts.wide || ui.json || records_option() || opts.order == BY_REL_L2 ||
                         share_is_on(); /* so that --part all can print the results in any form */
    progress_begin("comparing");
    ckpt_status s = share_begin("diff", &how, err);
    if (s == CKPT_OK)
        s = ckpt_diff(report->a, report->b, &diff_options, collect_event, report, &report->totals, err);
    progress_wipe();
    s = share_end(s, err);
    if (s == CKPT_OK && !opts.tensors_only && !opts.keys_only)
        s = ckpt_diff_values(report->a, report->b, &diff_options, collect_value, report,
                             &report->value_totals, err);
    diff_options.how = NULL;
    report_sort(report, (enum diff_order)opts.order);
    if (opts.top)
        report_limit_changed(report, opts.top);
    return s;
}

/* notice_not_compared - prints a notice if only one side has values other than tensors, because none are
 * compared then and "same" would be wrong. */
static void notice_not_compared(const struct report *report)
{
    const ckpt_diff_value_totals *v = &report->value_totals;
    if (v->compared || v->in_a == v->in_b)
        return;
    print_notice(v->in_a ? report->name_b : report->name_a,
                 "holds no values: those of %s (%llu) are not compared",
                 escape_name(str_c(v->in_a ? report->name_a : report->name_b)),
                 (unsigned long long)(v->in_a + v->in_b));
}

/* is_module - returns true if VALUE has the attributes that every nn.Module has. */
static bool is_module(const ckpt_value *value)
{
    const ckpt_value *key, *val;
    unsigned found = 0;
    for (size_t i = 0; ckpt_value_get_type(value) == CKPT_V_CALL && ckpt_value_item(value, i, &key, &val);
         i++) {
        ckpt_str name = key ? ckpt_value_str(key) : str_c("");
        found += str_is_equal(name, str_c("_parameters")) || str_is_equal(name, str_c("_buffers")) ||
                 str_is_equal(name, str_c("_modules"));
    }
    return found == 3;
}

/* holds_module - returns true if F is a whole module or a mapping with one. */
static bool holds_module(const ckpt_file *f)
{
    const ckpt_value *root = ckpt_file_root(f), *key, *val;
    bool found = root && is_module(root);
    for (size_t i = 0; root && !found && ckpt_value_item(root, i, &key, &val); i++)
        found = is_module(val);
    return found;
}

/* notice_modules - prints a notice if both sides hold whole modules, because only their state dicts are
 * compared, and modules that are "same" may compute something else. */
static void notice_modules(const struct report *report)
{
    if (!opts.tensors_only && !opts.keys_only && holds_module(report->a) && holds_module(report->b))
        print_notice(report->name_a, "of a whole module only the state dict is compared, not its settings, "
                                     "such as stride or training");
}

static int print_report(const struct report *report)
{
    print.for_programs = ui.json || opts.markdown;
    if (ui.json)
        report_json(report);
    else if (records_option())
        report_records(report);
    else if (opts.markdown)
        report_markdown(report);
    else if (!ui.quiet)
        report_text(report);
    if (!ui.json && !ui.quiet)
        report_prefix_hint(report);
    notice_not_compared(report);
    notice_modules(report);
    if (!report_is_complete(report))
        report_incomplete(report);
    return !report_is_complete(report) ? EXIT_TROUBLE : report_is_equal(report) ? EXIT_OK : EXIT_NO;
}

static void close_report(struct report *report, void (*close_side)(ckpt_file *f))
{
    free(report->events);
    free(report->values);
    close_side(report->a);
    close_side(report->b);
}

/* open_side - opens PATH, which may be a list of names only with --keys-only. NULL: an error was printed. */
static ckpt_file *open_side(const char *path)
{
    ckpt_file *f = open_input_by(ckpt_open_names, path, opts.ignore_crc);
    if (!f || opts.keys_only || strcmp(ckpt_file_format(f), "names") != 0)
        return f;
    (void)report_failure(CKPT_EUNKNOWN, path, "--keys-only compares the names",
                         "list of names, not a checkpoint");
    close_input(f);
    return NULL;
}

static int diff_files(const char *left, const char *right)
{
    struct report r = {.name_a = left, .name_b = right};
    ckpt_error err;
    int status = EXIT_TROUBLE;
    r.a = open_side(left);
    r.b = r.a ? open_side(right) : NULL;
    ckpt_status s = r.b ? compare_files(&r, &err) : CKPT_EIO;
    if (r.b)
        status = s == CKPT_OK ? print_report(&r) : share_report(s, &err, NULL);
    close_report(&r, close_input);
    return status;
}

/* git_diff_one - prints a line about PATH, which is on one side only. The line begins with LABEL. */
static void git_diff_one(const char *path, const char *label)
{
    struct totals sum = {0};
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    ckpt_file *f = open_for_git(path, opts.ignore_crc, label);
    if (!f)
        return;
    for (uint32_t i = 0; ckpt_tensor_at(f, i, &t); i++)
        totals_add(&sum, &t);
    print_text(stdout, "%s%s, %s, %s\n", label, ckpt_file_title(f),
               show_noun(sum.tensors, "tensor", "tensors"), show_size(sum.bytes));
    ckpt_close(f);
}

static void git_diff_both(const char *old, const char *new)
{
    struct text reason = {0};
    ckpt_error err;
    struct report r = {.name_a = "old", .name_b = "new"};
    r.a = open_for_git(old, opts.ignore_crc, "old: ");
    r.b = open_for_git(new, opts.ignore_crc, "new: ");
    if (r.a && r.b && compare_files(&r, &err) == CKPT_OK) {
        report_text(&r);
    } else if (r.a && r.b) {
        text_error(&reason, &err);
        print_text(stdout, "ckpt cannot compare these: %s\n", reason.ptr);
        text_free(&reason);
    }
    close_report(&r, ckpt_close);
}

/* What git passes to an external diff; NEW_PATH and NOTE only after a rename. */
enum { PATH, OLD_FILE, OLD_HEX, OLD_MODE, NEW_FILE, NEW_HEX, NEW_MODE, NEW_PATH, NOTE, GIT_OPERANDS };

/* git_diff - runs as git's external diff. If git passes only a path, that path is unmerged. Always returns 0,
 * because git stops at a nonzero exit code. */
static int git_diff(int count, char **operand)
{
    ui.pipe_may_close = true;
    signal(SIGPIPE, SIG_IGN); /* git would fail if SIGPIPE ended its driver when a pager quits */
    if (count != 1 && count <= NEW_MODE)
        return usage_error(
            "diff", "--git takes git's seven arguments, not %d: it goes into diff.NAME.command", count);
    const char *path = escape_name(str_c(operand[count == GIT_OPERANDS ? NEW_PATH : PATH]));
    if (count == 1) {
        print_text(stdout, "* Unmerged path %s\n", path);
        return EXIT_OK;
    }
    print_text(stdout, "ckpt diff %s\n", path);
    if (strcmp(operand[OLD_FILE], "/dev/null") == 0)
        git_diff_one(operand[NEW_FILE], "new file: ");
    else if (strcmp(operand[NEW_FILE], "/dev/null") == 0)
        git_diff_one(operand[OLD_FILE], "deleted file: ");
    else
        git_diff_both(operand[OLD_FILE], operand[NEW_FILE]);
    return EXIT_OK;
}

static int check_diff_output(void)
{
    int status = records_check("diff");
    if (status == EXIT_OK && opts.markdown && (ui.json || records_option()))
        return usage_error("diff", "choose --md or --%s", ui.json ? "json" : records_option());
    if (status == EXIT_OK && records.header && !records_option())
        return usage_error("diff", "--header names the columns of --tsv or --csv: choose one");
    return status;
}

int run_diff(int count, char **operand)
{
    if (opts.git && share_is_on())
        return usage_error("diff", "git runs one process: leave --part out");
    if (opts.git)
        return git_diff(count, operand);
    int status = check_diff_output();
    if (status != EXIT_OK)
        return status;
    if (count != 2)
        return usage_error("diff", "diff needs two files, A and B");
    if (opts.keys_only && (opts.top || opts.order > BY_NAME))
        return usage_error("diff", "--keys-only compares no data: leave --%s out", opts.top ? "top" : "sort");
    if (opts.keys_only && share_is_on())
        return usage_error("diff", "--keys-only reads no data, which --part would divide");
    if (share_check("diff", count, operand, 2) != EXIT_OK)
        return EXIT_TROUBLE;
    return diff_files(operand[0], operand[1]);
}
