/*
 * trace_dtype.c - see trace_dtype.h.
 *
 * numpy.dtype("f8", False, True) with a BUILD of (version, byte order, subdtype, names, fields, size,
 * alignment, flags[, metadata]), numpy/_core/src/multiarray/descriptor.c, arraydescr_setstate. numpy
 * believes the flags: bit 0 (references are counted), 1 (an array is pickled as a list) and 3 (memory is
 * cleared first) are set of a dtype that holds objects, and of no other; where they are not, the bytes of an
 * array become addresses of objects. States below version 3 have their flags computed anew, and any that are
 * not 0 make objects of everything.
 *
 * A structure is right when each field is, and its flags are those of its fields together: so dtypes are
 * looked at one by one, however deep they lie.
 */
#include "core/trace_dtype.h"

#include "base/checked.h"

#define OBJECT_FLAGS 0x0bu
#define NUMBER_FLAGS 0x07u /* that those of numbers have none of: bit 2 is an older one for objects */
#define MOST         1024u /* dtypes in one */

/* One dtype, without a look at its fields. */
struct shape_of {
    char kind; /* numpy's letter; T: a type of numpy or ml_dtypes; 0: unknown */
    uint64_t size;
    int64_t flags;
    const struct trace_node *fields; /* NULL: none */
    trace_ref sub;                   /* the dtype of a subarray; 0: none */
    const char *odd;
};

struct look {
    const struct trace *t;
    arena *a;
    ckpt_error *err;
    ckpt_status status;
    trace_ref left[MOST]; /* to be looked at */
    size_t nleft, met;
};

const struct trace_node *trace_calls(trace_ref r, const char *module, const char *name)
{
    const struct trace_node *n = trace_node(r);
    const struct trace_global *g = n && n->kind == TRACE_CALL ? trace_global(n->items[0]) : NULL;
    return g && g->literal && str_is(g->module, module) && str_is(g->name, name) ? n : NULL;
}

/* tuple_of - R as a tuple of which every item is kept; NULL. */
static const struct trace_node *tuple_of(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    return n && n->kind == TRACE_TUPLE && n->n == n->kept ? n : NULL;
}

static ckpt_value *constant(struct look *l, trace_ref r)
{
    if (!r || trace_node(r) || l->status != CKPT_OK)
        return NULL;
    ckpt_value *v = l->t->value(l->t, r, l->a, 1, l->err);
    if (!v)
        l->status = l->err->status;
    return v;
}

static bool is_none(struct look *l, trace_ref r)
{
    ckpt_value *v = constant(l, r);
    return v && v->type == CKPT_V_NONE;
}

static bool integer(struct look *l, trace_ref r, int64_t *out)
{
    ckpt_value *v = constant(l, r);
    return v && v->type == CKPT_V_INT && value_integer(v, out);
}

/* spelled - "f8": a letter and a size. */
static bool spelled(ckpt_str s, struct shape_of *out)
{
    if (!s.len || !s.ptr[0] || !strchr("biufcmMSUVO?", s.ptr[0]))
        return false;
    out->size = 0;
    for (size_t i = 1; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9' || !checked_mul(out->size, 10, &out->size) ||
            !checked_add(out->size, (uint64_t)(s.ptr[i] - '0'), &out->size))
            return false;
    out->kind = s.ptr[0];
    out->size = s.len == 1 ? UINT64_MAX : out->size;
    if (s.ptr[0] == 'U' && s.len > 1 && !checked_mul(out->size, 4, &out->size))
        return false;
    out->flags = out->kind == 'O' ? (int64_t)OBJECT_FLAGS : 0;
    return true;
}

/* made - what the arguments of numpy.dtype alone make. */
static void made(struct look *l, trace_ref spelling, struct shape_of *out)
{
    ckpt_value *v = constant(l, spelling);
    const struct trace_global *g = trace_global(spelling);
    ckpt_str text;
    if (v && value_text(v, &text) && spelled(text, out))
        return;
    *out = (struct shape_of){.size = UINT64_MAX};
    if (g && g->literal && (str_is(g->module, "numpy") || str_is(g->module, "ml_dtypes")))
        out->kind = 'T';
}

/* stated - OUT as the BUILD of STATE changes it. */
static void stated(struct look *l, trace_ref state, struct shape_of *out)
{
    const struct trace_node *s = tuple_of(state), *sub;
    int64_t version = 0, size = 0;
    if (!s || s->n < 8 || s->n > 9 || !integer(l, s->items[0], &version) || !integer(l, s->items[5], &size) ||
        !integer(l, s->items[7], &out->flags)) {
        out->odd = "its state is not that of a dtype, all of it numbers and texts of the file";
        return;
    }
    bool named = !is_none(l, s->items[3]), fields = !is_none(l, s->items[4]);
    out->fields = fields ? trace_node(s->items[4]) : NULL;
    out->sub = is_none(l, s->items[2]) ? 0 : s->items[2];
    if (version < 3 || version > 4)
        out->odd = "a state of a version whose flags numpy does not take as they stand";
    else if (out->kind == 0)
        out->odd = "a state for a dtype that is spelled as no pickler does";
    else if (named != fields || (fields && (!out->fields || out->fields->kind != TRACE_DICT ||
                                            out->fields->n != out->fields->kept)))
        out->odd = "its names and fields are not those of one structure";
    else if (out->kind != 'V' && (fields || out->sub))
        out->odd = "a number has fields";
    if (strchr("SUV", out->kind) && out->kind) {
        out->size = (uint64_t)size;
        if (size < 0)
            out->odd = "its items have less than no bytes";
    }
    if (!out->odd && out->sub) {
        sub = tuple_of(out->sub);
        out->sub = sub && sub->n == 2 ? sub->items[0] : 0;
        out->odd = out->sub ? NULL : "its subarray is not a dtype and a shape";
    }
}

/* shallow - the dtype R, without a look at its fields. */
static void shallow(struct look *l, trace_ref r, trace_ref state, struct shape_of *out)
{
    const struct trace_node *d = trace_calls(r, "numpy", "dtype");
    const struct trace_node *args = d ? tuple_of(d->items[1]) : NULL;
    *out = (struct shape_of){.size = UINT64_MAX};
    if (!args || !args->n)
        return;
    made(l, args->items[0], out);
    if (d->n > 4 || (d->n > 3 && state))
        out->odd = "it has two states";
    else if (d->n > 3 || state)
        stated(l, state ? state : d->items[3], out);
}

/* field - one of S, at OFFSET: its flags are added to *FLAGS. */
static const char *field(struct look *l, const struct shape_of *s, trace_ref r, int64_t offset,
                         int64_t *flags)
{
    struct shape_of f;
    uint64_t end;
    shallow(l, r, 0, &f);
    *flags |= f.flags;
    if (f.kind == 0)
        return "a field of it is no plain dtype";
    if (offset < 0 ||
        (f.size != UINT64_MAX && (!checked_add((uint64_t)offset, f.size, &end) || end > s->size)))
        return "a field of it is outside of the item";
    if (l->nleft == MOST || ++l->met > 4 * MOST)
        return "it has more fields than are looked at";
    l->left[l->nleft++] = r;
    return NULL;
}

/* fields_odd - the same of all of S. */
static const char *fields_odd(struct look *l, const struct shape_of *s)
{
    int64_t flags = 0, offset;
    const char *odd = s->sub ? field(l, s, s->sub, 0, &flags) : NULL;
    for (uint32_t i = 0; !odd && s->fields && i + 1 < s->fields->kept; i += 2) {
        const struct trace_node *f = tuple_of(s->fields->items[i + 1]);
        odd = f && f->n >= 2 && integer(l, f->items[1], &offset) ? field(l, s, f->items[0], offset, &flags)
                                                                 : "its fields are not dtypes and offsets";
    }
    bool objects = s->kind == 'O' || flags & 1;
    int64_t want = objects ? OBJECT_FLAGS : 0, mask = objects ? OBJECT_FLAGS : NUMBER_FLAGS;
    if (odd || (s->flags & mask) == want)
        return odd;
    return objects ? "its flags deny the objects that it holds: numpy takes bytes for their addresses"
                   : "its flags have objects, and it holds none";
}

ckpt_status trace_dtype(const struct trace *t, trace_ref r, trace_ref state, arena *a,
                        struct trace_dtype *out, ckpt_error *err)
{
    struct look *l = a ? arena_alloc(a, sizeof *l) : NULL;
    struct shape_of first, s;
    *out = (struct trace_dtype){.size = UINT64_MAX};
    if (!l)
        return fail_memory(err);
    *l = (struct look){.t = t, .a = a, .err = err, .status = CKPT_OK};
    shallow(l, r, state, &first);
    out->odd = first.odd;
    if (!first.odd && first.kind) {
        out->odd = fields_odd(l, &first);
        out->holds = first.flags & 1 ? HOLDS_OBJECTS : HOLDS_NUMBERS;
        out->size = first.size;
        out->subarray = first.sub != 0;
    }
    while (!out->odd && l->status == CKPT_OK && l->nleft) {
        shallow(l, l->left[--l->nleft], 0, &s);
        out->odd = s.odd ? s.odd : fields_odd(l, &s);
    }
    return l->status;
}
