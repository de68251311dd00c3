#include <inttypes.h>
#include <string.h>

#include "edit.h"

static int run_salvage(int n, char **operand);

static const struct opt options[] = {
    OUTPUT_OPTION,    TO_OPTION,      ROOT_OPTION,     OVERWRITE_OPTIONS,
    UI_INPUT_OPTIONS, UI_JSON_OPTION, UI_QUIET_OPTION, {0},
};

const struct cmd cmd_salvage = {
    "salvage",   "FILE -o OUT", "keep what is still intact in a truncated or damaged file", options, 1, 1,
    run_salvage, NULL};

static void print_lost(const ckpt_file *f, const char *input)
{
    struct text t = {0};
    for (size_t i = 0; i < ckpt_lost_count(f); i++) {
        const ckpt_lost *l = ckpt_lost_at(f, i);
        text_clear(&t);
        text_name(&t, ckpt_tensor_name(f, l->row));
        text_add(&t, " is lost: ");
        if (l->shard.len) {
            text_name(&t, l->shard);
            text_add(&t, ": ");
        }
        if (l->offset != CKPT_NO_OFFSET)
            text_addf(&t, "byte 0x%" PRIx64 ": ", l->offset);
        text_name(&t, l->why);
        print_notice(input, "%s", t.ptr);
    }
    if (ckpt_lost_count(f)) {
        text_clear(&t);
        text_noun(&t, ckpt_tensor_count(f), "tensor", "tensors");
        print_notice(input, "%zu of %s lost", ckpt_lost_count(f), t.ptr);
    }
    text_free(&t);
}

static void print_salvage_json(const ckpt_file *f, const ckpt_plan *p, const ckpt_write_result *r,
                               const char *input, FILE *to)
{
    json *j = edit_report("ckpt.salvage.v1", input, r), *list, *one;
    list = json_add_array(j, "lost");
    for (size_t i = 0; i < ckpt_lost_count(f); i++) {
        const ckpt_lost *l = ckpt_lost_at(f, i);
        const ckpt_tensor it = tensor_at(f, l->row);
        one = json_add_object(list, NULL);
        json_tensor(one, &it);
        json_str(one, "why", l->why);
        if (l->shard.len)
            json_str(one, "shard", l->shard);
        if (l->offset != CKPT_NO_OFFSET)
            json_u64(one, "offset", l->offset);
    }
    edit_losses_json(p, j);
    json_line(j, to);
}

static int write_intact(ckpt_file *f, ckpt_plan *p, const char *input)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    FILE *to = report_stream(writing.output);
    int status = edit_write(p, input, writing.output, &r);
    if (status != EXIT_OK)
        return status;
    if (ui.json)
        print_salvage_json(f, p, &r, input, to);
    else if (!ui.quiet)
        edit_print_written(&r, writing.output, to);
    return ckpt_lost_count(f) ? EXIT_NO : EXIT_OK;
}

static int salvage_file(ckpt_file *f, const char *input)
{
    ckpt_plan *p = NULL;
    ckpt_error err;
    const char *format = edit_output_format(f, writing.output), *root = writing.root;
    if (!root && ckpt_write_format_is_flat(format))
        root = "auto";
    ckpt_status s = ckpt_plan_new(f, &p, &err);
    if (s == CKPT_OK && root)
        s = ckpt_plan_root(p, root, &err);
    if (!ui.json)
        print_lost(f, input);
    int status = s == CKPT_OK ? write_intact(f, p, input) : report_error(&err, input);
    ckpt_plan_free(p);
    return status;
}

static int run_salvage(int n, char **operand)
{
    ckpt_file *f;
    ckpt_error err;
    (void)n;
    if (!writing.output || !*writing.output)
        return usage_error("salvage", "no output given: use -o OUT");
    if (ckpt_salvage(operand[0], &ui.limits, &f, &err) != CKPT_OK)
        return report_error(&err, operand[0]);
    for (size_t i = 0; ckpt_notice_at(f, i); i++)
        print_notice(operand[0], "%s", ckpt_notice_at(f, i));
    int status = salvage_file(f, operand[0]);
    ckpt_close(f);
    return status;
}
