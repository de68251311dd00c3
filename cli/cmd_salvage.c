#include <inttypes.h>

#include "edit.h"
#include "remote.h"

static const struct opt options[] = {
    OUTPUT_OPTION,    TO_OPTION,      ROOT_OPTION,     OVERWRITE_OPTIONS,
    UI_INPUT_OPTIONS, UI_JSON_OPTION, UI_QUIET_OPTION, {0},
};

const struct cmd cmd_salvage = {
    "salvage", "FILE -o OUT", "keep what is still intact in a truncated or damaged file", options, 1,
    1,         run_salvage};

static void print_lost(const ckpt_file *f, const char *input)
{
    struct text t = {0};
    for (size_t i = 0; i < ckpt_lost_count(f); i++) {
        const ckpt_lost *lost = ckpt_lost_at(f, i);
        text_clear(&t);
        text_addf(&t, "%s is lost: ", escape_name(ckpt_tensor_name(f, lost->row)));
        if (lost->shard.len)
            text_addf(&t, "%s: ", escape_name(lost->shard));
        if (lost->offset != CKPT_NO_OFFSET)
            text_addf(&t, "byte 0x%" PRIx64 ": ", lost->offset);
        text_name(&t, lost->why);
        print_notice(input, "%s", t.ptr);
    }
    if (ckpt_lost_count(f)) {
        text_clear(&t);
        text_noun(&t, ckpt_tensor_count(f), "tensor", "tensors");
        print_reason(input, "%zu of %s lost", ckpt_lost_count(f), t.ptr);
    }
    if (ui.quiet && ckpt_lost_parts(f)) { /* otherwise a notice names each */
        text_clear(&t);
        text_noun(&t, ckpt_lost_parts(f), "part", "parts");
        print_reason(input, "%s lost; without -q each is named", t.ptr);
    }
    text_free(&t);
}

static ckpt_file *salvaged;

static void add_salvage_json(const ckpt_plan *p, json *parent)
{
    json *list = json_add_array(parent, "lost");
    for (size_t i = 0; i < ckpt_lost_count(salvaged); i++) {
        const ckpt_lost *lost = ckpt_lost_at(salvaged, i);
        const ckpt_tensor t = tensor_at(salvaged, lost->row);
        json *item = json_add_object(list, NULL);
        json_tensor(item, &t);
        json_str(item, "why", lost->why);
        if (lost->shard.len)
            json_str(item, "shard", lost->shard);
        if (lost->offset != CKPT_NO_OFFSET)
            json_u64(item, "offset", lost->offset);
    }
    json_u64(parent, "lost_parts", ckpt_lost_parts(salvaged));
    edit_losses_json(p, parent);
}

/* has_dropped_tensor - returns true if the last write of P left out a tensor that the output cannot hold. */
static bool has_dropped_tensor(const ckpt_plan *p)
{
    const ckpt_dropped *d;
    for (size_t i = 0; (d = ckpt_plan_dropped_at(p, i)); i++)
        if (str_is_equal(d->type, str_c("tensor")))
            return true;
    return false;
}

static int write_intact(ckpt_plan *p, const char *input)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    int status = edit_write(p, input, &r);
    if (status != EXIT_OK)
        return status;
    edit_print_result("ckpt.salvage.v1", input, p, &r, add_salvage_json);
    bool is_complete = !ckpt_lost_count(salvaged) && !ckpt_lost_parts(salvaged) && !has_dropped_tensor(p);
    return is_complete ? EXIT_OK : EXIT_NO;
}

static int salvage_file(const char *input)
{
    ckpt_plan *p = NULL;
    ckpt_error err;
    ckpt_status s = ckpt_plan_new(salvaged, &p, &err);
    if (s == CKPT_OK)
        s = writing.root ? ckpt_plan_root(p, writing.root, &err) : edit_narrow_if_flat(salvaged, p, &err);
    if (!ui.json)
        print_lost(salvaged, input);
    int status = s == CKPT_OK ? write_intact(p, input) : report_error(&err, input);
    ckpt_plan_free(p);
    return status;
}

int run_salvage(int count, char **operand)
{
    ckpt_error err;
    (void)count;
    if (!writing.output || !*writing.output)
        return usage_error("salvage", "no output given: use -o OUT");
    if (ckpt_salvage(remote_typed(operand[0]), &ui.limits, &salvaged, &err) != CKPT_OK)
        return report_error(&err, operand[0]);
    for (size_t i = 0; ckpt_notice_at(salvaged, i); i++)
        print_notice(operand[0], "%s", ckpt_notice_at(salvaged, i));
    int status = salvage_file(operand[0]);
    ckpt_close(salvaged);
    return status;
}
