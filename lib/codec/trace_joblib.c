/*
 * trace_joblib.c - an array in a pickle of joblib.dump (joblib/numpy_pickle.py):
 * joblib.numpy_pickle.NumpyArrayWrapper NEWOBJ, then BUILD of a dict with subclass, shape, order, dtype,
 * allow_mmap, numpy_array_alignment_bytes (since 1.2) 1 since 1.2: how many bytes of padding follow, and
 * those … the elements; where the dtype holds objects, instead of both a pickle of the whole array … the
 * pickle goes on pickle.load knows nothing of that and takes the same bytes for opcodes: readers choose.
 *
 * What the dtype is (core/trace_dtype.c) gives the bytes of an element, and whether there are objects.
 * What is spelled in any other way than joblib does might be read in any other way, and is not passed over.
 */
#include "codec/trace_joblib.h"

#include "base/checked.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "core/trace_dtype.h"

enum joblib {
    JOBLIB_NONE,    /* no wrapper of joblib's, or the tracer failed, which is in it */
    JOBLIB_NUMBERS, /* bytes of them follow */
    JOBLIB_OBJECTS, /* a pickle of its own follows */
    JOBLIB_UNCLEAR  /* how many bytes follow is not stated plainly */
};

static bool named(trace_ref r, const char *module, const char *name)
{
    const struct trace_global *g = trace_global(r);
    return g && g->literal && str_is(g->module, module) && str_is(g->name, name);
}

static const struct trace_node *tuple_of(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    return n && n->kind == TRACE_TUPLE && n->n == n->kept ? n : NULL;
}

/* integer - the constant R; false: it is none, or cannot be read, which is in the tracer. */
static bool integer(struct tracer *t, trace_ref r, int64_t *out)
{
    if (trace_node(r))
        return false;
    ckpt_value *v = show_value(t->r.src, r, t->a, 1, t->err);
    if (!v)
        t->status = arena_full(t->a) ? CKPT_ELIMIT : t->err->status;
    return v && value_integer(v, out);
}

static bool is_none(trace_ref r) { return !trace_node(r) && trace_opcode(r) == PICKLE_NONE; }

static ckpt_str text(struct tracer *t, trace_ref r, char *out, size_t cap)
{
    size_t n = 0;
    ckpt_status st = show_text(t->r.src, r, out, cap, &n, t->err);
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        t->status = st;
    return str_of(out, st == CKPT_OK ? n : 0);
}

static enum joblib dtype(struct tracer *t, trace_ref r, uint64_t *size)
{
    struct trace_dtype d;
    const struct trace_node *n = trace_calls(r, "numpy", "dtype");
    ckpt_status st = trace_dtype(&t->t, r, 0, t->a, &d, t->err);
    *size = d.size;
    if (st != CKPT_OK) {
        t->status = arena_full(t->a) ? CKPT_ELIMIT : st;
        return JOBLIB_UNCLEAR;
    }
    bool plain = n && n->n == 4 && !d.odd && !d.subarray; /* callable, arguments, no keywords, one state */
    if (!plain || d.holds == HOLDS_UNKNOWN || (d.holds == HOLDS_NUMBERS && d.size == UINT64_MAX))
        return JOBLIB_UNCLEAR;
    return d.holds == HOLDS_OBJECTS ? JOBLIB_OBJECTS : JOBLIB_NUMBERS;
}

static bool shape(struct tracer *t, trace_ref r, uint64_t *count)
{
    const struct trace_node *n = tuple_of(r);
    int64_t d;
    *count = 1;
    for (uint32_t i = 0; n && i < n->kept; i++)
        if (!integer(t, n->items[i], &d) || d < 0 || !checked_mul(*count, (uint64_t)d, count))
            return false;
    return n != NULL;
}

/* wrapped - what follows the BUILD that gives TARGET its STATE. */
static enum joblib wrapped(struct tracer *t, trace_ref target, trace_ref state, uint64_t *bytes, bool *padded)
{
    const struct trace_node *w = trace_calls(target, "joblib.numpy_pickle", "NumpyArrayWrapper");
    const struct trace_node *s = trace_node(state);
    uint64_t size = 0, count = 0;
    enum joblib kind = JOBLIB_UNCLEAR;
    bool shaped = false, subclass = false;
    *padded = false;
    if (!w)
        return JOBLIB_NONE;
    if (!s || s->kind != TRACE_DICT || s->n != s->kept || w->n != 4)
        return JOBLIB_UNCLEAR;
    for (uint32_t i = 0; i + 1 < s->kept && t->status == CKPT_OK; i += 2) {
        char name[40];
        ckpt_str key = text(t, s->items[i], name, sizeof name);
        trace_ref v = s->items[i + 1];
        if (str_is(key, "dtype"))
            kind = dtype(t, v, &size);
        else if (str_is(key, "shape"))
            shaped = shape(t, v, &count);
        else if (str_is(key, "subclass"))
            subclass = named(v, "numpy", "ndarray") || named(v, "numpy", "memmap") ||
                       named(v, "numpy", "matrix") || named(v, "numpy.matrixlib.defmatrix", "matrix");
        else if (str_is(key, "numpy_array_alignment_bytes"))
            *padded = !is_none(v);
        else if (!str_is(key, "order") && !str_is(key, "allow_mmap"))
            return JOBLIB_UNCLEAR;
    }
    if (t->status != CKPT_OK)
        return JOBLIB_NONE;
    return shaped && subclass && checked_mul(count, size, bytes) ? kind : JOBLIB_UNCLEAR;
}

/* objects - the pickle that stands here for an array of objects, read by pickle.load. */
static bool objects(struct tracer *t)
{
    struct trace_options o = *t->o;
    struct trace_end inner;
    o.plain = true;
    o.calls = t->out->calls;
    t->status = pickle_trace(t->r.src, here(t), t->r.end, &o, &inner, t->err);
    t->out->calls = inner.calls;
    t->out->opcodes += inner.opcodes; /* bounded: no more than bytes */
    t->out->framed_differs |= inner.framed_differs;
    if (t->status != CKPT_OK)
        t->at = inner.next;
    else
        tracer_seek(t, inner.next);
    return t->status == CKPT_OK;
}

/* alone - reports the bytes from here on, which whoever takes the array for one of objects reads as a
 * pickle. */
static bool alone(struct tracer *t)
{
    struct trace_payload v = {.start = here(t), .size = left(t), .as = TRACE_AS_BYTES, .pickle = true};
    struct trace_step s = {.what = TRACE_STEP_PAYLOAD, .payload = &v};
    return !t->o->payloads || tracer_tell(t, &s);
}

bool joblib_pass(struct tracer *t, trace_ref target, trace_ref state)
{
    uint64_t bytes = 0;
    bool padded = false;
    if (t->o->framed || t->o->plain)
        return true;
    enum joblib kind = wrapped(t, target, state, &bytes, &padded);
    if (kind == JOBLIB_NONE)
        return t->status == CKPT_OK;
    if (t->buffer != UINT64_MAX && here(t) < t->buffer && !tracer_note(t, TRACE_STEP_FRAME, 0))
        return false;
    t->buffer = UINT64_MAX; /* joblib ends the frame before the array */
    if (t->out->arrays++ == 0)
        t->out->array = UINT64_MAX;
    if (kind == JOBLIB_UNCLEAR)
        return tracer_stop(t, CKPT_ELIMIT,
                           "makes an array of joblib whose size in the file is not stated plainly");
    if (kind == JOBLIB_OBJECTS)
        return objects(t);
    if (bytes && t->out->array == UINT64_MAX)
        t->out->array = here(t);
    uint64_t from = here(t);
    const unsigned char *pad = padded ? take(t, 1) : NULL;
    bool there = (!padded || (pad && tracer_skip(t, *pad, true))) && alone(t) && tracer_skip(t, bytes, true);
    t->out->array_bytes += here(t) - from; /* bounded: it only moves on */
    return there;
}
