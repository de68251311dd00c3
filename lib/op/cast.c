/* cast.c - which tensors of a plan become another dtype. */
#include <stdio.h>

#include "core/convert.h"
#include "core/plan.h"

static bool is_float(ckpt_dtype dt) { return dtype_info(dt)->klass == 'f' && dt != CKPT_DT_F8_E8M0; }

/* plain - a name without `*`, `?`, `[` and `\`: it can only mean the one tensor. */
static bool plain(const char *glob) { return strpbrk(glob, "*?[\\") == NULL; }

/* lacks - why T cannot become DTYPE; NULL: it can. */
static const char *lacks(const ckpt_tensor *t, ckpt_dtype dtype)
{
    struct conversion c;
    if ((t->kind != CKPT_DENSE && t->kind != CKPT_NDARRAY) || t->part_of != CKPT_NO_TENSOR)
        return "is not a plain tensor";
    if (!t->has_data)
        return "has no bytes";
    return conversion_init(&c, (ckpt_dtype)t->dtype, dtype) ? NULL : "holds no numbers that a float can hold";
}

static ckpt_status cannot(const struct plan_entry *e, const ckpt_tensor *t, ckpt_dtype dtype,
                          const char *why, ckpt_error *err)
{
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "\"%.*s\" (%s, %s) cannot become %s: it %s",
               STR_ARG(e->name), ckpt_kind_name((ckpt_kind)t->kind), ckpt_dtype_name((ckpt_dtype)t->dtype),
               ckpt_dtype_name(dtype), why);
    fail_hint(err, "--cast takes dense tensors of floats, integers and bools");
    return CKPT_ELOSSY;
}

static ckpt_status check_target(ckpt_dtype dtype, ckpt_error *err)
{
    if (is_float(dtype))
        return CKPT_OK;
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s is not a type that tensors are cast to",
               dtype ? ckpt_dtype_name(dtype) : "an unknown type");
    fail_hint(err, "float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz and "
                   "float8_e5m2fnuz are");
    return CKPT_EUSAGE;
}

/* Floats that a GLOB of many meant and that cannot become another dtype. */
struct left {
    const struct plan_entry *first;
    const char *why;
    size_t n;
};

static void tell_left(ckpt_plan *p, const struct left *l)
{
    char more[48] = "";
    if (!l->n)
        return;
    const ckpt_tensor *t = &p->file->table.rows[l->first->row].t;
    if (l->n > 1)
        (void)snprintf(more, sizeof more, ", and so do %zu others", l->n - 1);
    plan_notice(p, "\"%.*s\" (%s) stays %s: it %s%s", STR_ARG(l->first->name),
                ckpt_kind_name((ckpt_kind)t->kind), ckpt_dtype_name((ckpt_dtype)t->dtype), l->why, more);
}

/* cast_matching - ANY tells whether a tensor matched. */
static ckpt_status cast_matching(ckpt_plan *p, const char *glob, ckpt_dtype dtype, bool *any, ckpt_error *err)
{
    struct left left = {0};
    bool named = glob && plain(glob);
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor *t = &p->file->table.rows[e->row].t;
        if (glob && !ckpt_glob_match(str_c(glob), e->name))
            continue;
        *any = true;
        const char *why = lacks(t, dtype);
        if (named && why)
            return cannot(e, t, dtype, why, err);
        if (!named && !is_float((ckpt_dtype)t->dtype))
            continue;
        if (!why)
            p->cast[e->row] = dtype == t->dtype ? 0 : (uint16_t)dtype;
        else if (t->part_of == CKPT_NO_TENSOR && left.n++ == 0)
            left.first = e, left.why = why;
    }
    tell_left(p, &left);
    return CKPT_OK;
}

ckpt_status ckpt_plan_cast(ckpt_plan *p, const char *glob, ckpt_dtype dtype, ckpt_error *err)
{
    bool any = !glob;
    CKPT_TRY(check_target(dtype, err));
    CKPT_TRY(plan_entries(p, err));
    if (!p->cast && !(p->cast = arena_array(p->a, p->file->table.nrows, sizeof *p->cast)))
        return fail_memory(err);
    CKPT_TRY(cast_matching(p, glob, dtype, &any, err));
    if (any)
        return CKPT_OK;
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches \"%s\"", glob);
    fail_file(err, p->file->path);
    return CKPT_ENOTFOUND;
}
