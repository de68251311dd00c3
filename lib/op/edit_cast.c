/* edit_cast.c - the verb `cast` of `ckpt edit`. Elements are converted when they are written, so a tensor is
 * cast once. A second cast replaces a first one that changed no value: the result is then the same as if each
 * had been made in a run of its own. */
#include "core/convert.h"
#include "core/number.h"
#include "op/cast.h"
#include "op/edit.h"

/* are_kept - returns true if the 256 elements at CODES, of FROM, have the same values as TO, and as
 * float64. */
static bool are_kept(ckpt_dtype from, ckpt_dtype to, const unsigned char *codes)
{
    struct conversion conversion;
    struct convert_tally tally = {0};
    unsigned char cast[256 * sizeof(double)];
    double before[256], after[256];
    if (!conversion_init(&conversion, from, to))
        return false;
    convert_run(&conversion, codes, 256, cast, &tally);
    number_decode(from, codes, 256, before);
    number_decode(to, cast, 256, after);
    for (size_t i = 0; i < 256; i++)
        if (before[i] != after[i] && (before[i] == before[i] || after[i] == after[i])) /* not both NaN */
            return false;
    return true;
}

/* is_exact - returns true if TO has each value that FROM, a number of WIDTH bytes, has. */
static bool is_exact(ckpt_dtype from, ckpt_dtype to, uint32_t width)
{
    unsigned char codes[512];
    if (dtype_info(from)->klass == 'b' || width > 2) /* TO is a float */
        return width == 1 || (to == CKPT_DT_F64 && width == 4);
    for (uint32_t high = 0; high < (width == 2 ? 256u : 1u); high++) {
        for (uint32_t low = 0; low < 256; low++) {
            codes[low * width] = (unsigned char)low;
            codes[low * width + width - 1] = (unsigned char)(width == 2 ? high : low);
        }
        if (!are_kept(from, to, codes))
            return false;
    }
    return true;
}

/* cast_again - casts ROW, which a rule before has cast, to DTYPE. */
static ckpt_status cast_again(struct editor *editor, uint32_t row, ckpt_dtype dtype, ckpt_error *err)
{
    ckpt_plan *p = editor->p;
    const ckpt_tensor t = table_tensor(&p->file->table, row);
    const struct dtype_info *from = dtype_info((ckpt_dtype)t.dtype);
    ckpt_dtype before = plan_dtype(p, row);
    if (before == dtype)
        return CKPT_OK;
    if (from->block_elems != 1 || dtype_info(before)->block_elems != 1 ||
        dtype_info(dtype)->block_elems != 1 || !is_exact((ckpt_dtype)t.dtype, before, from->block_bytes))
        return edit_fail(
            editor, row, err,
            "was cast to {%s} by a rule before; one cast is made, or a second one after {=an exact "
            "one}\ncast it once; or twice, in two runs, if it is to be rounded twice",
            ckpt_dtype_name(before));
    p->casts.to[row] = dtype == t.dtype ? 0 : (uint16_t)dtype;
    return CKPT_OK;
}

/* leave_out_cast - takes those operands out of SELECTED that rules before have cast. */
static void leave_out_cast(const struct editor *editor, bool *selected)
{
    const uint16_t *to = editor->p->casts.to;
    for (size_t i = 0; to && i < editor->operands.nlist; i++)
        selected[editor->operands.list[i].row] = !to[editor->operands.list[i].row];
}

/* cast_others - casts the operands that are not SELECTED. A pattern leaves step counters as they are. */
static ckpt_status cast_others(struct editor *editor, const bool *selected, ckpt_dtype dtype, bool is_pattern,
                               ckpt_error *err)
{
    for (size_t i = 0; i < editor->operands.nlist; i++) {
        const struct edit_operand *operand = &editor->operands.list[i];
        bool is_left = is_pattern && cast_skips_counter(editor->p, operand->row, operand->name);
        if (!selected[operand->row] && !is_left)
            CKPT_TRY(cast_again(editor, operand->row, dtype, err));
    }
    return CKPT_OK;
}

ckpt_status edit_cast(struct editor *editor, bool *selected, ckpt_error *err)
{
    const struct rule_name *word = &editor->rule->word;
    ckpt_dtype dtype = ckpt_dtype_parse(word->text);
    bool is_pattern = edit_is_pattern(editor->pattern) || editor->rule->continues;
    if (dtype == CKPT_DT_NONE)
        return rule_fail(word->place, err, "{\"%.*s\"} is not {=a dtype}, as bf16 or float32",
                         STR_ARG(word->text));
    editor->made = editor->operands;
    leave_out_cast(editor, selected);
    ckpt_str name = arena_str(editor->scratch, editor->pattern->text);
    CKPT_TRY_ALLOC(name.ptr, err);
    /* a full name is of one tensor, unless the rule matched nothing; both check the dtype */
    bool is_first = !is_pattern && editor->operands.nlist && selected[editor->operands.list[0].row];
    ckpt_status st = is_first ? ckpt_plan_cast(editor->p, name.ptr, dtype, err)
                              : plan_cast_rows(editor->p, selected, dtype, err);
    CKPT_TRY(place_if_failed(st, editor->rule->place, err));
    return cast_others(editor, selected, dtype, is_pattern, err);
}
