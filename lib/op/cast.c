/*
 * cast.c - which tensors of a plan become another dtype.
 *
 * A cast without a glob is for the weights and averaged copies of them: what an
 * optimizer keeps is not what its user wants rounded, and a counter of steps in
 * bfloat16 stops at 256. Counters are cast by their whole name alone.
 */
#include <stdio.h>

#include "base/text.h"
#include "core/convert.h"
#include "op/select.h"
#include "op/weights.h"

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

/* is_counter - the number of an optimizer's steps, which some keep as a float. */
static bool is_counter(const struct plan_entry *e, const ckpt_tensor *t)
{
    return t->has_shape && t->ndim == 0 && str_is(str_after_last(e->name, '.'), "step");
}

/* What a cast of many passes over. */
struct left {
    const struct plan_entry *first; /* of those that cannot become another dtype */
    const char *why;
    size_t n, counters, scales;
};

static void note_left(ckpt_plan *p, const struct left *l)
{
    char more[48] = "";
    if (l->counters)
        plan_notice(p, "%zu counter%s of steps stay%s: --cast takes one by its whole name", l->counters,
                    l->counters == 1 ? "" : "s", l->counters == 1 ? "s" : "");
    if (l->scales)
        plan_notice(p, "%zu tensor%s of scales (float8_e8m0fnu) stay%s", l->scales,
                    l->scales == 1 ? "" : "s", l->scales == 1 ? "s" : "");
    if (!l->n)
        return;
    const ckpt_tensor *t = &p->file->table.rows[l->first->row].t;
    if (l->n > 1)
        (void)snprintf(more, sizeof more, ", and so do %zu others", l->n - 1);
    plan_notice(p, "\"%.*s\" (%s) stays %s: it %s%s", STR_ARG(l->first->name),
                ckpt_kind_name((ckpt_kind)t->kind), ckpt_dtype_name((ckpt_dtype)t->dtype), l->why, more);
}

/* cast_one - entry E of many, unless it is passed over. */
static void cast_one(ckpt_plan *p, const struct plan_entry *e, ckpt_dtype dtype, struct left *left)
{
    const ckpt_tensor *t = &p->file->table.rows[e->row].t;
    const char *why = lacks(t, dtype);
    left->scales += t->dtype == CKPT_DT_F8_E8M0;
    if (!is_float((ckpt_dtype)t->dtype))
        return;
    if (is_counter(e, t))
        left->counters++;
    else if (!why)
        p->cast[e->row] = dtype == t->dtype ? 0 : (uint16_t)dtype;
    else if (t->part_of == CKPT_NO_TENSOR && left->n++ == 0)
        left->first = e, left->why = why;
}

static ckpt_status cast_named(ckpt_plan *p, const struct plan_entry *e, ckpt_dtype dtype, ckpt_error *err)
{
    const ckpt_tensor *t = &p->file->table.rows[e->row].t;
    const char *why = lacks(t, dtype);
    if (why)
        return cannot(e, t, dtype, why, err);
    p->cast[e->row] = dtype == t->dtype ? 0 : (uint16_t)dtype;
    return CKPT_OK;
}

/* cast_matching - *ANY: a tensor matched. */
static ckpt_status cast_matching(ckpt_plan *p, const char *glob, ckpt_dtype dtype, bool *any, ckpt_error *err)
{
    struct left left = {0};
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        if (!select_takes(glob, e->name))
            continue;
        *any = true;
        if (plain(glob) && str_is(e->name, glob))
            CKPT_TRY(cast_named(p, e, dtype, err));
        else
            cast_one(p, e, dtype, &left);
    }
    note_left(p, &left);
    return CKPT_OK;
}

/* ---- without a glob */

/* weights_of - *ROWS by row: is it of the weights, or does it share bytes with one that is? */
static ckpt_status weights_of(ckpt_plan *p, bool **rows, ckpt_error *err)
{
    const struct table *t = &p->file->table;
    struct walk w;
    struct weights weights;
    uint32_t *place = NULL;
    bool *stored = arena_array(p->a, t->nstorages, sizeof *stored);
    *rows = arena_array(p->a, t->nrows, sizeof **rows);
    ckpt_status st = stored && *rows ? CKPT_OK : fail_memory(err);
    if (st != CKPT_OK)
        return st;
    st = walk_graph(&w, p->file, p->root, p->a, err);
    bool all = st == CKPT_OK && w.n == 0; /* the root is a tensor */
    if (st == CKPT_OK)
        st = (p->rooted ? weights_below : weights_find)(&w, &weights, err);
    if (st == CKPT_OK)
        st = weights_rows(&w, &weights, p->root_name, &place, err);
    walk_free(&w);
    for (size_t i = 0; st == CKPT_OK && i < t->nrows; i++)
        if (((*rows)[i] = all || place[i] != NO_PLACE) && t->rows[i].t.storage < t->nstorages)
            stored[t->rows[i].t.storage] = true;
    for (size_t i = 0; st == CKPT_OK && i < t->nrows; i++)
        (*rows)[i] |= t->rows[i].t.storage < t->nstorages && stored[t->rows[i].t.storage];
    return st;
}

static ckpt_status cast_weights(ckpt_plan *p, ckpt_dtype dtype, ckpt_error *err)
{
    struct left left = {0};
    bool *rows;
    CKPT_TRY(weights_of(p, &rows, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (rows[p->entries[i].row])
            cast_one(p, &p->entries[i], dtype, &left);
    p->cast_weights = dtype;
    p->is_weights = rows;
    note_left(p, &left);
    return CKPT_OK;
}

/* The first components of names, those of containers with ".*". */
struct tops {
    ckpt_str name[3];
    size_t n, more;
};

static void add_top(struct tops *x, ckpt_str name)
{
    size_t dot = str_find(name, STR_LIT("."), 0);
    ckpt_str top = dot == SIZE_MAX ? name : str_of(name.ptr, dot);
    for (size_t i = 0; i < x->n; i++)
        if (str_eq(x->name[i], top))
            return;
    if (x->n < sizeof x->name / sizeof *x->name)
        x->name[x->n++] = top;
    else
        x->more = 1;
}

void cast_note_rest(ckpt_plan *p)
{
    struct tops tops = {0};
    size_t n = 0;
    if (!p->cast_weights || plan_entries(p, NULL) != CKPT_OK) /* writing needs them too, and reports it */
        return;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor *t = &p->file->table.rows[e->row].t;
        if (p->is_weights[e->row] || p->cast[e->row] || !is_float((ckpt_dtype)t->dtype) ||
            t->part_of != CKPT_NO_TENSOR || is_counter(e, t) || t->dtype == p->cast_weights)
            continue;
        add_top(&tops, e->name);
        n++;
    }
    if (!n)
        return;
    ckpt_str how = STR_LIT("");
    for (size_t i = 0; how.ptr && i < tops.n; i++) {
        char word[SHELL_MOST];
        ckpt_str glob = arena_printf(p->a, "%.*s", STR_ARG(tops.name[i]));
        how = glob.ptr ? arena_printf(p->a, "%.*s%s--cast %s=%s", STR_ARG(how), i ? " " : "",
                                      shell_glob(glob, word), ckpt_dtype_name((ckpt_dtype)p->cast_weights))
                       : glob;
    }
    const char *as = n == 1 ? "it is" : "they are", *them = n == 1 ? "it" : "those";
    plan_notice(p, "left %zu tensor%s outside the weights as %s: %.*s%s casts %s", n, n == 1 ? "" : "s", as,
                STR_ARG(how), tops.more ? " ..." : "", them);
}

ckpt_status ckpt_plan_cast(ckpt_plan *p, const char *glob, ckpt_dtype dtype, ckpt_error *err)
{
    bool any = !glob;
    CKPT_REQUIRE(err, p);
    CKPT_TRY(check_target(dtype, err));
    CKPT_TRY(plan_entries(p, err));
    if (!p->cast && !(p->cast = arena_array(p->a, p->file->table.nrows, sizeof *p->cast)))
        return fail_memory(err);
    CKPT_TRY(glob ? cast_matching(p, glob, dtype, &any, err) : cast_weights(p, dtype, err));
    if (any)
        return CKPT_OK;
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches \"%s\"", glob);
    fail_file(err, p->file->path);
    return CKPT_ENOTFOUND;
}
