/* edit_scales.c - refuses rules of `ckpt edit` that move the elements of a quantized weight, but not the
 * scales without which its numbers mean nothing. A single scale need not move, but it needs a new name, too.
 * As several calls may apply rules, this is checked before the plan is written. */
#include "op/edit.h"
#include "op/quantized.h"

struct edit_scales {
    struct quantized_weights found; /* in the file before the first rule */
    uint32_t
        *moved_by; /* by row of that file: the last rule that moved its elements, as 1 + its number in the
                         * report; 0: none did */
    size_t nrows;
};

/* moves_elements - returns true if VERB moves elements of tensors within a file. */
static bool moves_elements(enum rule_verb verb)
{
    switch (verb) {
    case RULE_DROP:
    case RULE_KEEP:
    case RULE_CAST:
    case RULE_RENAME:
    case RULE_TIE:
    case RULE_UNTIE:
    case RULE_SET: return false;
    default: return true;
    }
}

ckpt_status edit_find_scales(struct editor *editor, const struct rules *rules, ckpt_error *err)
{
    ckpt_plan *p = editor->p;
    bool has_moving = false;
    for (size_t i = 0; i < rules->nrules; i++)
        has_moving |= moves_elements(rules->rules[i].verb);
    if (p->scales || !has_moving)
        return CKPT_OK;
    struct edit_scales *scales = arena_alloc(p->a, sizeof *scales);
    CKPT_TRY_ALLOC(scales, err);
    *scales = (struct edit_scales){.nrows = p->file->table.nrows};
    CKPT_TRY(quantized_find(p->file, p->a, &scales->found, err));
    if (scales->found.n) {
        scales->moved_by = arena_array(p->a, scales->nrows, sizeof *scales->moved_by);
        CKPT_TRY_ALLOC(scales->moved_by, err);
    }
    p->scales = scales;
    return CKPT_OK;
}

void edit_note_moved(struct editor *editor, const struct edit_step *step)
{
    const struct edit_scales *scales = editor->p->scales;
    if (!scales || !scales->found.n || !moves_elements(editor->rule->verb))
        return;
    for (size_t i = 0; i < step->nrows; i++)
        if (step->rows[i] < scales->nrows)
            scales->moved_by[step->rows[i]] = (uint32_t)editor->p->report.nedit_steps;
}

/* has_new_key - returns true if the last key of ROW's path is not that of the file. */
static bool has_new_key(const ckpt_plan *p, uint32_t row)
{
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    ckpt_str key = row_find_key(p, row);
    return key.ptr && t.npath && !str_eq(key, t.path[t.npath - 1].str);
}

/* stays_behind - returns true if rules have moved the elements of WEIGHT, but not those of PART, which
 * belongs to it. */
static bool stays_behind(const ckpt_plan *p, uint32_t weight, uint32_t part)
{
    if (part == CKPT_NO_TENSOR || !p->keep[part] || p->scales->moved_by[part] || has_new_key(p, part))
        return false;
    return table_elements_of(&p->file->table, part) > 1 || has_new_key(p, weight);
}

/* check_weight - fails if what belongs to the quantized WEIGHT, which a rule has moved, stays. */
static ckpt_status check_weight(const ckpt_plan *p, const struct quantized_weight *weight, ckpt_error *err)
{
    const struct table *table = &p->file->table;
    ckpt_str rule = p->report.edit_steps[p->scales->moved_by[weight->weight] - 1].text;
    for (uint32_t k = 0; k < weight->nparts; k++)
        if (stays_behind(p, weight->weight, weight->part[k]))
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                        "\"%.*s\" is quantized (%s): `%.*s` changes it, and no rule changes \"%.*s\", "
                        "which belongs to it\nchange both alike, or first `ckpt convert --dequantize`",
                        STR_ARG(table_name(table, weight->weight)), quantized_title(weight->scheme),
                        STR_ARG(rule), STR_ARG(table_name(table, weight->part[k])));
    return CKPT_OK;
}

ckpt_status edit_check_scales(const ckpt_plan *p, ckpt_error *err)
{
    const struct edit_scales *scales = p->scales;
    for (size_t i = 0; scales && i < scales->found.n; i++) {
        const struct quantized_weight *weight = &scales->found.list[i];
        if (weight->scheme < QUANTIZED_UNKNOWN && scales->moved_by[weight->weight])
            CKPT_TRY(check_weight(p, weight, err));
    }
    return CKPT_OK;
}
