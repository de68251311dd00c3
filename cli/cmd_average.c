#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"

enum ints { INTS_LAST, INTS_FIRST, INTS_EQUAL };

static struct {
    const char *weights, *base, *density, *lambda, *t;
    bool normalize, no_normalize;
    int ints, method;
} opts;

static const struct opt options[] = {
    {'w', "weights", "W,W,…", OPT_TEXT, &opts.weights, "a weight for each FILE (default: equal)"},
    {'b', "base", "BASE", OPT_TEXT, &opts.base, "add the weighted differences from BASE to BASE"},
    {'m', "method", "linear|ties|slerp", OPT_CHOICE, &opts.method, "how (default: linear)"},
    {0, "normalize", NULL, OPT_FLAG, &opts.normalize, "divide by the sum of the weights; with --base too"},
    {0, "no-normalize", NULL, OPT_FLAG, &opts.no_normalize, "do not divide by the sum of the weights"},
    {0, "lambda", "X", OPT_TEXT, &opts.lambda, "multiply the sum of differences by X (default: 1)"},
    {0, "density", "D[,D…]", OPT_TEXT, &opts.density,
     "ties: keep this share of the differences, of each FILE (default: 1)"},
    {0, "t", "X", OPT_TEXT, &opts.t, "slerp: 0 is the first FILE, 1 the second (default: 0.5)"},
    {0, "ints", "last|first|equal", OPT_CHOICE, &opts.ints,
     "where integers and other values are from; equal: they may not differ"},
    OUTPUT_OPTION,
    TO_OPTION,
    {0, "root", "PATH", OPT_TEXT, &writing.root, "use only what is at PATH in each file; auto: the weights"},
    OUTPUT_FORM_OPTIONS,
    COMPUTE_OPTIONS,
    {0},
};

const struct cmd cmd_average = {
    "average", "FILE FILE… -o OUT", "average the tensors of several files", options, 1,
    NO_LIMIT,  run_average};

/* What the command was given. */
static struct {
    char **paths;
    size_t npaths, own;
    double *weights, *densities; /* NULL: not given */
    double lambda, t;
} given;

/* ------------------------------------------------------------------------------ report */

static const char *mismatch_word(uint32_t what)
{
    static const char *const words[] = {[CKPT_MISMATCH_MISSING] = "missing",
                                        [CKPT_MISMATCH_EXTRA] = "extra",
                                        [CKPT_MISMATCH_FORM] = "form",
                                        [CKPT_MISMATCH_VALUE] = "value"};
    return what < sizeof words / sizeof *words ? words[what] : "other";
}

static void add_mismatches(const ckpt_plan *p, json *parent)
{
    const ckpt_mismatch *mismatch;
    json *list = json_add_array(parent, "mismatches");
    for (size_t i = 0; (mismatch = ckpt_plan_mismatch_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", mismatch->name);
        json_text(item, "what", mismatch_word(mismatch->what));
        json_text(item, "file", mismatch->path);
        json_text(item, "own_file", mismatch->own_path);
        if (mismatch->what != CKPT_MISMATCH_FORM)
            continue;
        json_str(item, "form", mismatch->form);
        json_str(item, "own_form", mismatch->own_form);
    }
}

static void add_average_json(const ckpt_plan *p, json *parent)
{
    static const char *const methods[] = {"linear", "ties", "slerp"};
    const ckpt_averaged *done = ckpt_plan_averaged(p);
    const ckpt_str *overflow;
    json_text(parent, "method", methods[opts.method]);
    json *files = json_add_array(parent, "files");
    for (size_t i = 0; i < given.npaths; i++)
        json_text(files, NULL, given.paths[i]);
    if (opts.base)
        json_text(parent, "base", opts.base);
    json_u64(parent, "averaged", done ? done->averaged : 0);
    json_u64(parent, "taken", done ? done->taken : 0);
    json *overflows = json_add_array(parent, "overflows");
    for (size_t i = 0; (overflow = ckpt_plan_overflow_at(p, i)); i++)
        json_str(overflows, NULL, *overflow);
    add_mismatches(p, parent);
    edit_losses_json(p, parent);
}

static void print_averaged(const ckpt_plan *p)
{
    const ckpt_averaged *done = ckpt_plan_averaged(p);
    struct text line = {0};
    if (ui.quiet || ui.json || !done)
        return;
    text_addf(&line, "averaged   %s of %s", show_noun(done->averaged, "tensor", "tensors"),
              show_noun(given.npaths, "file", "files"));
    if (opts.base)
        text_add(&line, ", as differences from a base");
    if (done->taken) {
        text_addf(&line, "; %s as in ", show_noun(done->taken, "other", "others"));
        text_name(&line, (ckpt_str){given.paths[given.own], strlen(given.paths[given.own])});
    }
    print_text(report_stream(writing.output), "%s\n", line.ptr);
    text_free(&line);
}

/* ------------------------------------------------------------------------------ options */

/* parse_number - parses the number at *TEXT, which ends at a comma or at the end, and moves *TEXT there. */
static bool parse_number(const char **text, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(*text, &end);
    bool is_number = end > *text && (*end == ',' || !*end) && !(errno == ERANGE && (*out > 1 || *out < -1));
    *text = end;
    return is_number;
}

/* parse_list - parses TEXT, the value of option NAME: a number for each file, or one for all if
 * IS_ONE_ENOUGH. NULL: after printing the error. */
static double *parse_list(const char *name, const char *text, bool is_one_enough)
{
    size_t n = 0;
    bool is_list = true, more = true;
    double *numbers = mem_new(given.npaths + 1, sizeof *numbers), number;
    for (const char *at = text; is_list && more; at++) {
        is_list = parse_number(&at, &number);
        if (n < given.npaths)
            numbers[n] = number;
        n++;
        more = *at == ',';
    }
    for (size_t i = 1; n == 1 && is_one_enough && i < given.npaths; i++)
        numbers[i] = numbers[0];
    bool has_all = n == given.npaths || (n == 1 && is_one_enough);
    if (!is_list)
        opt_bad_value(name, text, "numbers with commas between them, like 0.5,0.3,0.2");
    else if (!has_all)
        (void)usage_error("average", "--%s has %s for %s", name, show_noun(n, "number", "numbers"),
                          show_noun(given.npaths, "file", "files"));
    if (is_list && has_all)
        return numbers;
    free(numbers);
    return NULL;
}

/* parse_one - parses TEXT, the value of option NAME, unless it is NULL. */
static bool parse_one(const char *name, const char *text, double *out)
{
    const char *end = text;
    if (!text || (parse_number(&end, out) && !*end))
        return true;
    opt_bad_value(name, text, "a number, like 0.5");
    return false;
}

static bool parse_options(void)
{
    if (opts.normalize && opts.no_normalize)
        return usage_error("average", "--normalize and --no-normalize exclude each other") == EXIT_OK;
    return parse_one("lambda", opts.lambda, &given.lambda) && parse_one("t", opts.t, &given.t) &&
           (!opts.weights || (given.weights = parse_list("weights", opts.weights, false))) &&
           (!opts.density || (given.densities = parse_list("density", opts.density, true)));
}

/* ------------------------------------------------------------------------------- files */

/* average_opened - makes P, a plan of F, the average, and writes it. */
static int average_opened(const ckpt_file *f, ckpt_plan *p)
{
    const char *input = given.paths[given.own];
    ckpt_error err;
    bool is_narrowed = writing.output && edit_narrows_if_flat(f);
    const ckpt_average_options o = {.struct_size = sizeof o,
                                    .method = (uint32_t)opts.method,
                                    .normalize = opts.normalize      ? CKPT_NORMALIZE_YES
                                                 : opts.no_normalize ? CKPT_NORMALIZE_NO
                                                                     : CKPT_NORMALIZE_USUAL,
                                    .others_equal = opts.ints == INTS_EQUAL,
                                    .paths = (const char *const *)given.paths,
                                    .npaths = given.npaths,
                                    .own = given.own,
                                    .base = opts.base,
                                    .root = is_narrowed ? "auto" : writing.root,
                                    .weights = given.weights,
                                    .densities = given.densities,
                                    .lambda = opts.lambda ? &given.lambda : NULL,
                                    .t = opts.t ? &given.t : NULL};
    ckpt_status s = is_narrowed ? ckpt_plan_root(p, "auto", &err) : CKPT_OK;
    if (s == CKPT_OK)
        s = ckpt_plan_average(p, &o, &err);
    if (s != CKPT_OK) {
        print_plan_notices(p, input);
        if (ckpt_plan_mismatch_at(p, 0))
            edit_print_result("ckpt.average.v1", input, p, NULL, add_average_json);
        return report_error(&err, s == CKPT_EUSAGE ? NULL : input); /* options are of no file */
    }
    return edit_write_planned(p, input, "ckpt.average.v1", print_averaged, add_average_json);
}

static int average_files(void)
{
    ckpt_file *f;
    ckpt_plan *p;
    struct text path = {0};
    char *input = given.paths[given.own];
    if (!edit_open_plan(input, writing.root, &f, &p))
        return EXIT_TROUBLE;
    writing.keep_shards = writing.output && output_names_set(f) && !writing.max_shard;
    if (writing.output)
        output_place(f, input, ckpt_file_format(f), &path);
    int status = average_opened(f, p);
    text_free(&path);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

int run_average(int count, char **operand)
{
    if (count < 2 && !opts.base)
        return usage_error("average", "average needs at least two files, or --base");
    if (!writing.dry_run && (!writing.output || !*writing.output))
        return usage_error("average", "no output given: use -o OUT; --dry-run writes nothing");
    if (edit_check_part("average", true) != EXIT_OK)
        return EXIT_TROUBLE;
    given.paths = operand;
    given.npaths = (size_t)count;
    given.own = opts.ints == INTS_LAST ? given.npaths - 1 : 0;
    int status = parse_options() ? average_files() : EXIT_TROUBLE;
    free(given.weights);
    free(given.densities);
    return status;
}
