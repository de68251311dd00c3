#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "extract.h"
#include "outputs.h"

static struct {
    struct list scales, only;
    bool extract;
} opts;

static const struct opt options[] = {
    {0, "extract", NULL, OPT_FLAG, &opts.extract,
     "write as an adapter what the second model has more than the first"},
    EXTRACT_OPTIONS,
    {'s', "scale", "S", OPT_LIST, &opts.scales,
     "multiply what an adapter adds by S; repeatable, one for each"},
    {0, "only", "GLOB", OPT_LIST, &opts.only,
     "use only tensors of adapters, or with --extract of models, that match; repeatable"},
    OUTPUT_OPTION,
    TO_OPTION,
    ROOT_OPTION,
    OUTPUT_FORM_OPTIONS,
    COMPUTE_OPTIONS,
    {0},
};

const struct cmd cmd_lora = {"lora",
                             "BASE ADAPTER… -o OUT",
                             "merge low-rank adapters (LoRA) into a model, or extract one",
                             options,
                             0, /* run_lora counts them: --extract takes others */
                             NO_LIMIT,
                             run_lora};

/* The adapters, in the order of the command line. */
static ckpt_lora_adapter *adapters;

/* ------------------------------------------------------------------------------ report */

static void add_lora_json(const ckpt_plan *p, json *parent)
{
    const ckpt_lora_match *match;
    json *list = json_add_array(parent, "tensors");
    for (size_t i = 0; (match = ckpt_plan_lora_match_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_text(item, "adapter", adapters[match->adapter].path);
        json_str(item, "name", match->tensor);
        json_text(item, "role", match->role);
        json_str(item, "weight", match->weight);
        json_str(item, "stripped", match->stripped);
        json_str(item, "added", match->added);
        if (!match->rank)
            continue;
        json_u64(item, "rank", match->rank);
        json_real(item, "scale", match->scale);
    }
    edit_losses_json(p, parent);
}

static bool is_same_text(ckpt_str left, ckpt_str right)
{
    return left.len == right.len && (!left.len || memcmp(left.ptr, right.ptr, left.len) == 0);
}

/* is_of_group - returns true if MATCH is of the adapter and weight that FIRST is of. */
static bool is_of_group(const ckpt_lora_match *first, const ckpt_lora_match *match)
{
    return match && match->adapter == first->adapter && is_same_text(match->weight, first->weight);
}

/* print_prefix - prints how the names of MATCH differ, unless those of BEFORE (may be NULL) do so, too. */
static void print_prefix(FILE *out, const ckpt_lora_match *before, const ckpt_lora_match *match)
{
    struct text line = {0};
    bool is_known = before && before->adapter == match->adapter &&
                    is_same_text(before->stripped, match->stripped) &&
                    is_same_text(before->added, match->added);
    if (is_known)
        return;
    text_name(&line, str_c(adapters[match->adapter].path));
    text_add(&line, "   ");
    if (match->stripped.len || match->added.len) {
        text_add(&line, match->stripped.len ? escape_name(match->stripped) : "(nothing)");
        text_add(&line, " → ");
        text_add(&line, match->added.len ? escape_name(match->added) : "(nothing)");
    } else {
        text_add(&line, "the same names");
    }
    print_text(out, "%s\n", line.ptr);
    text_free(&line);
}

/* print_matches - prints a line for each weight: the tensors that met it, and what they add. */
static void print_matches(const ckpt_plan *p)
{
    FILE *out = report_stream(writing.output);
    const ckpt_lora_match *match, *before = NULL;
    for (size_t i = 0; !ui.quiet && !ui.json && (match = ckpt_plan_lora_match_at(p, i));) {
        struct text line = {0};
        const ckpt_lora_match *first = match;
        print_prefix(out, before, first);
        text_add(&line, "  ");
        for (; is_of_group(first, match); match = ckpt_plan_lora_match_at(p, ++i)) {
            text_add(&line, match == first ? "" : ", ");
            text_name(&line, match->tensor);
        }
        text_add(&line, " → ");
        text_name(&line, first->weight);
        if (first->rank)
            text_addf(&line, "   rank %llu, scale %.6g", (unsigned long long)first->rank, first->scale);
        else
            text_add(&line, strcmp(first->role, "addition") == 0 ? "   added" : "   replaced");
        print_text(out, "%s\n", line.ptr);
        text_free(&line);
        before = first;
    }
}

/* report_problems - prints why tensors of adapters are not used: on a terminal, of the first ones. */
static void report_problems(const ckpt_plan *p)
{
    enum { MAX_SHOWN = 20 };
    const ckpt_lora_match *match;
    size_t n = 0;
    for (size_t i = 0; (match = ckpt_plan_lora_match_at(p, i)); i++) {
        struct text hint = {0};
        if (!match->problem.len || (n++ >= MAX_SHOWN && ui.err_tty))
            continue;
        if (match->nearest.len)
            text_addf(&hint, "the nearest name is %s", escape_name(match->nearest));
        report_failure(CKPT_ENOTFOUND, adapters[match->adapter].path, hint.ptr, "%s: %s",
                       escape_name(match->tensor), escape_name(match->problem));
        text_free(&hint);
    }
    if (n > MAX_SHOWN && ui.err_tty)
        report_failure(CKPT_ENOTFOUND, NULL, NULL, "and %zu more tensors; redirect this to see all",
                       n - MAX_SHOWN);
}

/* ------------------------------------------------------------------------------- merge */

static int merge_opened(ckpt_file *f, ckpt_plan *p, const char *input, size_t count)
{
    const ckpt_lora_options o = {.struct_size = sizeof o, .only = opts.only.items, .nonly = opts.only.n};
    ckpt_error err;
    ckpt_status s = writing.output ? edit_narrow_if_flat(f, p, &err) : CKPT_OK;
    if (s == CKPT_OK)
        s = ckpt_plan_lora(p, adapters, count, &o, &err);
    if (s != CKPT_OK) {
        report_problems(p);
        print_plan_notices(p, input);
        return report_error(&err, input);
    }
    return edit_write_planned(p, input, "ckpt.lora.v1", print_matches, add_lora_json);
}

static int merge(const char *input, size_t count)
{
    ckpt_file *f;
    ckpt_plan *p;
    struct text path = {0};
    if (!edit_open_plan(input, writing.root, &f, &p))
        return EXIT_TROUBLE;
    writing.keep_shards = writing.output && output_names_set(f) && !writing.max_shard;
    if (writing.output)
        output_place(f, input, ckpt_file_format(f), &path);
    int status = merge_opened(f, p, input, count);
    text_free(&path);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

/* parse_scale - parses a number, which may be negative: an adapter can be taken away again. */
static bool parse_scale(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    bool ok = end != text && !*end && isfinite(*out);
    if (!ok)
        opt_bad_value("scale", text, "a number, like 0.8");
    return ok;
}

/* parse_scales - sets the scales of the COUNT adapters: one for each, or one for all. */
static bool parse_scales(size_t count)
{
    const size_t n = opts.scales.n;
    if (n > 1 && n != count) {
        usage_error("lora", "--scale is given %zu times for %s: once for all, or once for each", n,
                    show_noun(count, "adapter", "adapters"));
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        adapters[i].scale = 1;
        if (n && !parse_scale(opts.scales.items[n > 1 ? i : 0], &adapters[i].scale))
            return false;
    }
    return true;
}

int run_lora(int count, char **operand)
{
    if (opts.extract && opts.scales.n)
        return usage_error("lora", "--scale is not for --extract");
    if (opts.extract)
        return extract_adapter(count, operand, &opts.only);
    if (extract_option_given())
        return usage_error("lora", "--%s is for --extract", extract_option_given());
    if (count < 2)
        return opt_fail_too_few(&cmd_lora);
    const size_t n = (size_t)count - 1;
    if (!writing.dry_run && (!writing.output || !*writing.output))
        return usage_error("lora", "no output given: use -o OUT; --dry-run writes nothing");
    if (edit_check_part("lora", true) != EXIT_OK)
        return EXIT_TROUBLE;
    adapters = mem_new(n, sizeof *adapters);
    for (size_t i = 0; i < n; i++)
        adapters[i].path = operand[i + 1];
    int status = parse_scales(n) ? merge(operand[0], n) : EXIT_TROUBLE;
    free(adapters);
    return status;
}
