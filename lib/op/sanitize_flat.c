/* sanitize_flat.c - `ckpt sanitize` for formats of dense tensors by name: other tensors are left out and
 * reported; the writer reports the values that are not tensors. */
#include "core/dtype.h"
#include "op/sanitize.h"

static bool is_flat_tensor(const ckpt_tensor *t, has_dtype *holds)
{
    return (t->kind == CKPT_DENSE || t->kind == CKPT_NDARRAY) && t->has_data && t->has_shape &&
           (dtype_info((ckpt_dtype)t->dtype)->safetensors || (holds && holds(t)));
}

static ckpt_status leave_out(ckpt_plan *p, const struct plan_entry *e, const ckpt_tensor *t, ckpt_error *err)
{
    ckpt_str type = arena_printf(p->a, "%s tensor", ckpt_kind_name((ckpt_kind)t->kind));
    const ckpt_path_elem flat = {.str = e->name};
    ckpt_sanitized one = {.name = e->name,
                          .path = path_copy(p->a, &flat, 1),
                          .npath = 1,
                          .type = type,
                          .callable = STR_LIT(""),
                          .lost = true};
    if (!one.path)
        return fail_memory(err);
    p->keep[e->row] = false;
    return plan_note_sanitized(p, one, err);
}

ckpt_status sanitize_flat(ckpt_plan *p, has_dtype *holds, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor *t = &p->file->table.rows[e->row].t;
        if (t->part_of != CKPT_NO_TENSOR)
            p->keep[e->row] = p->keep[t->part_of];
        else if (!is_flat_tensor(t, holds))
            CKPT_TRY(leave_out(p, e, t, err));
    }
    p->entries_stale = true;
    return CKPT_OK;
}
