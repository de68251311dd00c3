#include "edit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outputs.h"
#include "share.h"
#include "progress.h"
#include "ranks.h"
#include "remote.h"

struct writing writing;

/* The stream for the report, chosen before writing: stdout may be OUT, which is a new file afterwards. */
static FILE *report_out;
static bool several_inputs; /* of edit_run */

/* The inputs of edit_open_merged_plan, for open_merged, which has the parameters of ckpt_open. */
static struct {
    int n;
    char **paths;
    const char *root;
} merged;

static ckpt_status open_merged(const char *path, const ckpt_limits *limits, ckpt_file **file, ckpt_error *err)
{
    const char **typed = mem_new((size_t)merged.n, sizeof *typed);
    (void)path;
    for (int i = 0; i < merged.n; i++)
        typed[i] = remote_typed(merged.paths[i]);
    ckpt_status st = ckpt_open_merged(typed, (size_t)merged.n, merged.root, limits, file, err);
    free(typed);
    return st;
}

bool edit_open_plan(const char *input, const char *root, ckpt_file **file, ckpt_plan **plan)
{
    char *path = (char *)(uintptr_t)input;
    return edit_open_merged_plan(1, &path, root, file, plan);
}

bool edit_open_merged_plan(int count, char **inputs, const char *root, ckpt_file **file, ckpt_plan **plan)
{
    ckpt_error err;
    const char *input = inputs[0];
    if (!writing.in_place)
        mem_return_freed(); /* each step of rewriting needs much memory and frees it */
    *plan = NULL;
    merged.n = count;
    merged.paths = inputs;
    merged.root = root;
    set_merged_inputs(count > 1 ? count : 0, inputs);
    *file = open_input_by(count > 1 ? open_merged : ckpt_open, input, writing.ignore_crc);
    if (!*file)
        return false;
    ckpt_status s = ckpt_plan_new(*file, plan, &err);
    ckpt_plan_allow_none(*plan, ui.allow_none || writing.check); /* what matches nothing changes nothing */
    if (s == CKPT_OK && root && count == 1) /* of several, ckpt_open_merged takes what is below the root */
        s = ckpt_plan_root(*plan, root, &err);
    if (s == CKPT_OK)
        return true;
    report_error(&err, input);
    ckpt_plan_free(*plan);
    close_input(*file);
    return false;
}

ckpt_status edit_select(ckpt_plan *p, ckpt_error *err)
{
    ckpt_status s = CKPT_OK;
    for (size_t i = 0; s == CKPT_OK && i < writing.keep.n; i++)
        s = ckpt_plan_keep(p, writing.keep.items[i], err);
    for (size_t i = 0; s == CKPT_OK && i < writing.drop.n; i++)
        s = ckpt_plan_drop(p, writing.drop.items[i], err);
    return s;
}

bool edit_narrows_if_flat(const ckpt_file *f)
{
    bool flat = writing.max_shard || output_names_index() || ckpt_write_format_is_flat(output_format(f));
    return flat && !writing.root;
}

ckpt_status edit_narrow_if_flat(const ckpt_file *f, ckpt_plan *p, ckpt_error *err)
{
    return edit_narrows_if_flat(f) ? ckpt_plan_root(p, "auto", err) : CKPT_OK;
}

static bool has_same_reason(const ckpt_dropped *left, const ckpt_dropped *right)
{
    return left->why.len == right->why.len && memcmp(left->why.ptr, right->why.ptr, left->why.len) == 0;
}

/* print_dropped_like - prints in one line the values that were left out for the reason of DROPPED, number
 * FIRST of them, unless an earlier one had the same reason. */
static void print_dropped_like(const ckpt_plan *p, const char *input, const ckpt_dropped *dropped,
                               size_t first)
{
    enum { MAX_SHOWN = 3 };
    const char *how = writing.dry_run ? "would be left out" : "left out";
    struct text names = {0};
    size_t n = 0;
    const ckpt_dropped *other;
    for (size_t i = 0; (other = ckpt_plan_dropped_at(p, i)); i++) {
        if (!has_same_reason(dropped, other))
            continue;
        if (i < first)
            return;
        if (n++ < MAX_SHOWN) {
            text_add(&names, n > 1 ? ", " : "");
            text_add(&names, escape_name(other->name));
        }
    }
    if (n == 1)
        print_notice(input, "%s (%s) %s: %s", names.ptr, escape_name(dropped->type), how,
                     escape_name(dropped->why));
    else if (n <= MAX_SHOWN)
        print_notice(input, "%zu values %s: %s (%s)", n, how, escape_name(dropped->why), names.ptr);
    else
        print_notice(input, "%zu values %s: %s (%s and %zu more); --json lists them", n, how,
                     escape_name(dropped->why), names.ptr, n - MAX_SHOWN);
    text_free(&names);
}

static void print_dropped(const ckpt_plan *p, const char *input)
{
    const ckpt_dropped *d, *last = NULL;
    const ckpt_alias *a;
    for (size_t i = 0; (d = ckpt_plan_dropped_at(p, i)); last = d, i++)
        if (!last || !has_same_reason(last, d))
            print_dropped_like(p, input, d, i);
    for (size_t i = 0; (a = ckpt_plan_alias_at(p, i)); i++)
        print_notice(input, "\"%s\" is the same tensor as \"%s\": written once, recorded in the metadata",
                     escape_name(a->name), escape_name(a->of));
}

static int fail_format(const char *name)
{
    struct text formats = {0};
    text_formats(&formats, ", ", " or ");
    int status = opt_bad_value("to", name, formats.ptr);
    text_free(&formats);
    return status;
}

ckpt_write_options edit_write_options(void)
{
    return (ckpt_write_options){
        .struct_size = sizeof(ckpt_write_options),
        .force = writing.force,
        .strict = writing.strict,
        .dry_run = writing.dry_run || writing.check,
        .no_sync = writing.no_sync,
        .follow_links = writing.follow_links,
        .ties = (uint32_t)writing.ties,
        .max_shard = writing.max_shard,
        .keep_shards = writing.keep_shards,
        .shards = writing.shards,
        .architecture = writing.architecture,
        .compress = writing.compress,
        .part = writing.part_number,
        .parts = writing.parts,
        .part_by_file = (uint32_t)writing.part_unit,
    };
}

int edit_write(ckpt_plan *p, const char *input, ckpt_write_result *result)
{
    ckpt_error err;
    const char *path = writing.output;
    report_out = report_stream(path);
    if (!writing.format && compression_suffix_length(path))
        return report_failure(CKPT_EUNSUPPORTED, path,
                              "leave out the suffix, and compress the file afterwards",
                              "compressed files are read, not written");
    if (ui.tty && strcmp(path, "-") == 0 && !writing.force && !writing.dry_run)
        return report_failure(CKPT_EUSAGE, NULL, "redirect the output, or use -f",
                              "the output would go to the terminal; nothing written");
    ckpt_write_options o = edit_write_options();
    o.progress = progress_step;
    o.threads = ui_jobs();
    o.planned = writing.part ? NULL : ranks_agree;
    if (writing.format && !(o.format = ckpt_write_format(writing.format)))
        return fail_format(writing.format);
    mem_keep_freed(); /* the blocks in which numbers are computed are allocated again and again */
    progress_begin("writing");
    ckpt_status s = ckpt_plan_write(p, path, &o, result, &err);
    progress_wipe();
    print_plan_notices(p, input);
    if (s != CKPT_OK)
        return report_error(&err, input);
    if (ranks_complete(p) != EXIT_OK)
        return EXIT_TROUBLE;
    if (!ui.json) /* the JSON report lists them */
        print_dropped(p, input);
    return EXIT_OK;
}

/* print_part - prints "OUT   part 3/16, SIZE of SIZE", and how much of it an earlier run has written. */
static void print_part(const ckpt_write_result *result)
{
    struct text out = {0};
    if (writing.dry_run)
        text_add(&out, "would write ");
    text_name(&out, str_c(writing.output));
    text_addf(&out, "   part %s, %s of %s", writing.part, show_size(result->part_bytes),
              show_size(result->bytes));
    if (result->part_found && result->part_found == result->part_bytes)
        text_add(&out, ", done before");
    else if (result->part_found)
        text_addf(&out, ", %s of it written before", show_size(result->part_found));
    if (!writing.dry_run) {
        text_add(&out, "; when all are done: ckpt merge-parts ");
        text_shell(&out, writing.output);
    }
    print_text(report_out, "%s\n", out.ptr);
    text_free(&out);
}

/* print_written - prints "OUT   [N files, ]N tensors, SIZE[ in T s]", then the names of several files. */
static void print_written(const ckpt_write_result *result)
{
    struct text out = {0};
    if (writing.part) {
        print_part(result);
        return;
    }
    if (writing.dry_run)
        text_add(&out, "would write ");
    if (strcmp(writing.output, "-") == 0)
        text_add(&out, "standard output");
    else
        text_name(&out, str_c(result->noutputs == 1 ? result->outputs[0] : writing.output));
    text_add(&out, "   ");
    if (result->noutputs > 1)
        text_addf(&out, "%zu files, ", result->noutputs);
    text_addf(&out, "%s, %s", show_noun(result->tensors, "tensor", "tensors"), show_size(result->bytes));
    if (ui.tty && !writing.dry_run)
        text_addf(&out, " in %.2f s", progress_seconds());
    print_text(report_out, "%s\n", out.ptr);
    for (size_t i = 0; result->noutputs > 1 && i < result->noutputs; i++)
        print_text(report_out, "  %s\n", escape_name(str_c(result->outputs[i])));
    text_free(&out);
}

/* ------------------------------------------------------------------ report */

/* make_report - makes {"schema": …, "input", "output": [], "dry_run", "format", "total", "bytes"}. If
 * nothing was written (RESULT NULL), the object ends before "format". */
static json *make_report(const char *schema, const char *input, const ckpt_write_result *result)
{
    json *j = json_schema(schema);
    json_text(j, "input", input);
    json *list = json_add_array(j, "output");
    for (size_t i = 0; result && i < result->noutputs; i++)
        json_text(list, NULL, result->outputs[i]);
    if (writing.dry_run)
        json_bool(j, "dry_run", true);
    if (!result)
        return j;
    json_text(j, "format", result->format);
    json_u64(json_add_object(j, "total"), "tensors", result->tensors);
    json_u64(j, "bytes", result->bytes);
    if (!writing.part)
        return j;
    json *part = json_add_object(j, "part");
    json_text(part, "plan_id", result->plan_id);
    json_u64(part, "number", writing.part_number);
    json_u64(part, "parts", writing.parts);
    json_u64(part, "bytes", result->part_bytes);
    json_u64(part, "found", result->part_found);
    return j;
}

void edit_print_result(const char *schema, const char *input, const ckpt_plan *p,
                       const ckpt_write_result *result, void (*add)(const ckpt_plan *p, json *parent))
{
    if (ui.json) {
        json *j = make_report(schema, input, result);
        add(p, j);
        json_line(j, result ? report_out : report_stream(writing.output));
    } else if (!ui.quiet && result) {
        print_written(result);
    }
}

void edit_dropped_json(const ckpt_plan *p, json *list)
{
    const ckpt_dropped *d;
    for (size_t i = 0; (d = ckpt_plan_dropped_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", d->name);
        json_path(item, "path", d->path, d->npath);
        json_str(item, "type", d->type);
        json_str(item, "why", d->why);
    }
}

void edit_losses_json(const ckpt_plan *p, json *parent)
{
    edit_dropped_json(p, json_add_array(parent, "dropped"));
    edit_aliases_json(p, parent);
}

void edit_aliases_json(const ckpt_plan *p, json *parent)
{
    json *list = json_add_array(parent, "aliases");
    const ckpt_alias *a;
    for (size_t i = 0; (a = ckpt_plan_alias_at(p, i)); i++)
        json_alias(list, a->name, a->of);
}

void edit_casts_json(const ckpt_plan *p, json *parent)
{
    json *list = json_add_array(parent, "cast");
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", c->name);
        json_text(item, "from", ckpt_dtype_name((ckpt_dtype)c->from));
        json_text(item, "to", ckpt_dtype_name((ckpt_dtype)c->to));
        json_u64(item, "elements", c->elements);
        json_u64(item, "overflowed", ranks_overflowed(p, i));
    }
}

void edit_print_overflows(const ckpt_plan *p, const char *input)
{
    enum { MAX_SHOWN = 20 };
    size_t n = 0;
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)); i++) {
        uint64_t overflowed = ranks_overflowed(p, i);
        if (!overflowed || (n++ >= MAX_SHOWN && ui.err_tty))
            continue;
        print_notice(input, "%s: %llu of %llu values overflow %s (%s %s)", escape_name(c->name),
                     (unsigned long long)overflowed, (unsigned long long)c->elements,
                     ckpt_dtype_name((ckpt_dtype)c->to), writing.dry_run ? "would become" : "became",
                     c->became);
    }
    if (n > MAX_SHOWN && ui.err_tty)
        print_notice(input, "and %zu more tensors with values that overflow; --json lists all",
                     n - MAX_SHOWN);
}

int edit_write_planned(ckpt_plan *p, const char *input, const char *schema,
                       void (*report)(const ckpt_plan *p), void (*add)(const ckpt_plan *p, json *parent))
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    int status = writing.output ? edit_write(p, input, &r) : EXIT_OK;
    if (status != EXIT_OK)
        return status;
    if (!writing.output)
        print_plan_notices(p, input);
    report(p);
    if (!ui.json) /* the JSON report lists the overflows itself */
        edit_print_overflows(p, input);
    edit_print_result(schema, input, p, writing.output ? &r : NULL, add);
    return EXIT_OK;
}

static void mappings_json(const ckpt_plan *p, json *parent)
{
    json *list = json_add_array(parent, "mappings");
    const ckpt_mapping *m;
    for (size_t i = 0; (m = ckpt_plan_mapping_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", m->name);
        json_bool(item, "averaged", m->averaged);
        json_bool(item, "optimizer", m->optimizer);
        json_u64(json_add_object(item, "total"), "tensors", m->tensors);
        json_u64(item, "renamed", m->renamed);
    }
}

static void print_edit_json(const ckpt_plan *p, const char *input, const ckpt_write_result *result)
{
    size_t n = ckpt_plan_rename_count(p), nrenamed_tensors = 0;
    json *j = make_report("ckpt.edit.v1", input, result);
    if (writing.in_place)
        json_bool(j, "in_place", true);
    json_bool(j, "changed", n != 0);
    json *tensors = json_add_array(j, "renamed");
    json *meta = json_add_array(j, "renamed_metadata"), *values = json_add_array(j, "renamed_values");
    for (size_t i = 0; i < n; i++) {
        const ckpt_rename *rename = ckpt_plan_rename_at(p, i);
        if (!rename)
            mem_fail();
        json_rename(rename->metadata ? meta : rename->value ? values : tensors, rename->from, rename->to);
        nrenamed_tensors += !rename->metadata && !rename->value;
    }
    mappings_json(p, j);
    uint64_t ntensors = ckpt_plan_tensor_count(p);
    json_u64(j, "unchanged", ntensors > nrenamed_tensors ? ntensors - nrenamed_tensors : 0);
    if (result)
        edit_losses_json(p, j);
    json_line(j, report_out);
}

/* print_edit_report - prints the names that P changes; RESULT is NULL if nothing was to be written. */
static void print_edit_report(const ckpt_plan *p, const char *input, const char *prefix,
                              const ckpt_write_result *result)
{
    if (ui.json)
        print_edit_json(p, input, result);
    else if (!ui.quiet)
        renames_print(p, ckpt_plan_prefix(p) ? ckpt_plan_prefix(p) : prefix, report_out);
}

/* check_part_output - refuses an output that cannot be written in parts. WHAT divides it. */
static int check_part_output(const char *cmd, const char *what, bool is_one)
{
    if (!is_one)
        return usage_error(cmd, "%s is for one output, not for several", what);
    if (writing.force)
        return usage_error(cmd, "%s replaces no output: remove it before, and leave out -f", what);
    if (writing.output && strcmp(writing.output, "-") == 0)
        return usage_error(cmd, "%s writes into a folder that all parts share, not to standard output", what);
    return EXIT_OK;
}

int edit_check_part(const char *cmd, bool is_one)
{
    if (ranks_are_several() && writing.part)
        return usage_error(cmd, "ckpt-mpi divides the work itself: leave out --part");
    if (ranks_divide(&writing.part_number, &writing.parts))
        return check_part_output(cmd, "ckpt-mpi", is_one);
    if (!writing.part)
        return writing.part_unit ? usage_error(cmd, "--part-unit goes with --part i/n") : EXIT_OK;
    if (!part_parse(writing.part, &writing.part_number, &writing.parts))
        return opt_bad_value("part", writing.part,
                             "i/n, counted from 0: of four parts 0/4, 1/4, 2/4, 3/4; at most 65536");
    return check_part_output(cmd, "--part", is_one);
}

static int check_in_place(const char *cmd, const char *input)
{
    if (writing.output)
        return usage_error(cmd, "--in-place changes FILE itself, -o writes another; choose one");
    const char *refused = writing.format   ? "--to"
                          : writing.part   ? "--part"
                          : writing.root   ? "--root"
                          : writing.keep.n ? "--keep"
                          : writing.drop.n ? "--drop"
                                           : NULL;
    if (refused)
        return usage_error(cmd, "--in-place changes names and nothing else; %s goes with -o OUT", refused);
    if (strcmp(input, "-") == 0)
        return usage_error(cmd, "standard input cannot be edited in place; give -o OUT");
    if (remote_is_url(input))
        return usage_error(cmd, "a file on a server cannot be edited in place; give -o OUT");
    return EXIT_OK;
}

int edit_check_options(const char *cmd, const char *input)
{
    if (writing.in_place)
        return check_in_place(cmd, input);
    if (writing.follow_links)
        return usage_error(cmd, "--follow-links needs --in-place");
    if (writing.output && !*writing.output)
        return usage_error(cmd, "the name of the output is empty");
    if (!writing.output && !writing.check && !writing.dry_run)
        return usage_error(cmd,
                           "no output given: use -o OUT or --in-place; --check and --dry-run write nothing");
    return EXIT_OK;
}

bool edit_recover(const char *input, ckpt_recovered *what)
{
    ckpt_error err;
    const ckpt_write_options o = edit_write_options();
    *what = CKPT_RECOVERED_NOTHING;
    if (access(input, F_OK) != 0) /* a member of an archive, or missing: opening it tells which */
        return true;
    if (ckpt_recover(input, &o, what, &err) != CKPT_OK) {
        report_error(&err, input);
        return false;
    }
    if (*what == CKPT_RECOVERED_NEW)
        print_notice(input, "an interrupted edit was complete%s",
                     o.dry_run ? "; it would be kept, and its journal removed" : ", and is kept");
    else if (*what == CKPT_RECOVERED_OLD)
        print_notice(input, "an interrupted edit %s",
                     o.dry_run ? "would be undone first" : "was undone; the file is as it was before");
    return true;
}

static int edit_in_place(ckpt_plan *p, const char *input, const char *prefix)
{
    ckpt_error err;
    const ckpt_write_options o = edit_write_options();
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_status s = ckpt_plan_write_in_place(p, &o, &r, &err);
    print_plan_notices(p, input);
    if (s != CKPT_OK)
        return report_error(&err, input);
    print_edit_report(p, input, prefix, &r);
    if (ui.json || ui.quiet || !r.bytes)
        return EXIT_OK;
    print_text(stdout, "%s%s   %s, %s of metadata in place\n", writing.dry_run ? "would change " : "",
               escape_name(str_c(input)), show_noun(r.tensors, "tensor", "tensors"), show_size(r.bytes));
    return EXIT_OK;
}

/* report_check - prints what the edit of INPUT would change. Of several inputs, those that it does not change
 * are not reported, and each line begins with the name. */
static void report_check(ckpt_plan *p, const char *input, const char *prefix)
{
    struct text name = {0};
    if (!several_inputs || ckpt_plan_rename_count(p))
        print_plan_notices(p, input);
    if (several_inputs) {
        text_name(&name, str_c(input));
        text_add(&name, ": ");
        ui.prefix = name.ptr;
    }
    print_edit_report(p, input, prefix, NULL);
    ui.prefix = "";
    text_free(&name);
}

static int write_output(ckpt_file *f, ckpt_plan *p, const char *input, const char *prefix)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    report_out = report_stream(writing.output);
    if (writing.in_place && !writing.check)
        return edit_in_place(p, input, prefix);
    if (!writing.output || writing.check) {
        report_check(p, input, prefix);
        return EXIT_OK;
    }
    int status = edit_write(p, input, &r);
    if (status != EXIT_OK)
        return status;
    if (!writing.format && !writing.keep_shards && !output_path_format(writing.output) &&
        strcmp(r.format, ckpt_file_format(f)) != 0)
        print_notice(input, "a %s cannot be written; the output is %s", ckpt_file_title(f), r.format);
    print_edit_report(p, input, prefix, &r);
    if (!ui.json && !ui.quiet)
        print_written(&r);
    return EXIT_OK;
}

void edit_suggest(struct text *out, const char *word, int count, char *const *files)
{
    opt_command_line(out, word, count, files, NULL);
    if (writing.output || writing.in_place || writing.check || writing.dry_run)
        return;
    text_add(out, " -o ");
    text_new_name(out, "fixed", files[0], NULL);
}

/* fail_swapped - reports that FILE was given before PREFIX. */
static int fail_swapped(const char *prefix, const char *file)
{
    struct text hint = {0};
    edit_suggest(&hint, prefix, 1, (char *[]){(char *)(uintptr_t)file});
    int status = usage_error_suggest(hint.ptr, "PREFIX comes first, then FILE");
    text_free(&hint);
    return status;
}

static int run_one(const char *cmd, const char *input, ckpt_status (*apply)(ckpt_plan *p, ckpt_error *err),
                   const char *prefix)
{
    ckpt_file *f;
    ckpt_plan *p;
    ckpt_error err;
    if (prefix && remote_may_exist(prefix) && !remote_may_exist(input))
        return fail_swapped(input, prefix);
    int status = edit_check_options(cmd, input);
    if (status != EXIT_OK)
        return status;
    ckpt_recovered what = CKPT_RECOVERED_NOTHING;
    if (writing.in_place && !edit_recover(input, &what))
        return EXIT_TROUBLE;
    if (!edit_open_plan(input, writing.root, &f, &p))
        return EXIT_TROUBLE;
    writing.keep_shards = writing.output && output_names_set(f);
    struct text path = {0};
    const char *given_output = writing.output;
    if (writing.output)
        output_place(f, input, ckpt_file_format(f), &path);
    ckpt_status s = writing.output ? edit_narrow_if_flat(f, p, &err) : CKPT_OK;
    if (s == CKPT_OK)
        s = edit_select(p, &err);
    if (s == CKPT_OK)
        s = apply(p, &err);
    size_t changes = s == CKPT_OK ? ckpt_plan_rename_count(p) : 0;
    if (s != CKPT_OK) {
        print_plan_notices(p, input);
        if (s == CKPT_EEXIST && !err.hint[0])
            snprintf(err.hint, sizeof err.hint,
                     "nothing was written; ckpt ls shows both names, --root picks one of several state "
                     "dicts");
        status = report_error(&err, input);
    } else if (!changes && writing.strict) {
        print_plan_notices(p, input);
        status = report_failure(CKPT_ENOTFOUND, input, NULL,
                                "--strict: the edit changes no name; nothing written");
    } else if (what == CKPT_RECOVERED_NEW && changes && !writing.check && !writing.dry_run) {
        /* so that the same edit is not made twice: it could add a prefix once more */
        status = report_failure(CKPT_ECHANGED, input, "if this is another edit, run the command again",
                                "the interrupted edit was complete and is kept; it may have been this one");
    } else {
        /* writes the output even if no name changes, because scripts continue with it */
        status = write_output(f, p, input, prefix);
    }
    if (status == EXIT_OK && writing.check && changes)
        status = EXIT_NO;
    writing.output = given_output;
    text_free(&path);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

int edit_run(const char *cmd, int count, char **inputs, ckpt_status (*apply)(ckpt_plan *p, ckpt_error *err),
             const char *prefix)
{
    int status = EXIT_OK;
    several_inputs = count > 1;
    if (count > 1 && !writing.output && !writing.in_place && !remote_may_exist(inputs[count - 1]))
        return opt_fail_output(prefix, count - 1, inputs, inputs[count - 1]);
    if (count > 1 && writing.output && !output_is_folder_path(writing.output))
        return usage_error(cmd,
                           "%d files cannot become one: -o DIR/ puts an output for each into a folder "
                           "(ckpt convert merges)",
                           count);
    if (edit_check_part(cmd, count == 1) != EXIT_OK)
        return EXIT_TROUBLE;
    if (count > 1 && edit_check_options(cmd, inputs[0]) != EXIT_OK)
        return EXIT_TROUBLE;
    if (count > 1 && writing.output && !output_check_each(count, inputs, true))
        return EXIT_TROUBLE;
    for (int i = 0; i < count; i++) {
        int code = run_one(cmd, inputs[i], apply, prefix);
        status = code > status ? code : status;
    }
    return status;
}
