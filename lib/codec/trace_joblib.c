/*
 * trace_joblib.c - see tracer.h. The layout of an array in a pickle of joblib.dump is in pickle_joblib.c.
 *
 * joblib.load skips the bytes of an array, pickle.load runs them as opcodes: both must be followed. The dtype
 * (core/trace_dtype.c) determines the bytes of an element and whether it has objects. A wrapper that is not
 * written exactly as joblib writes it might be read differently, and is not skipped.
 */
#include "codec/tracer.h"

#include "base/checked.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "core/trace_dtype.h"

enum joblib {
    JOBLIB_NONE,    /* not joblib's wrapper, or the tracer failed and has set its status */
    JOBLIB_NUMBERS, /* the bytes of an array follow */
    JOBLIB_OBJECTS, /* a pickle of the array follows */
    JOBLIB_UNCLEAR  /* the number of bytes that follow is not certain */
};

static bool is_global(trace_ref r, const char *module, const char *name)
{
    const struct trace_global *g = trace_global(r);
    return g && g->has_constant_name && str_is(g->module, module) && str_is(g->name, name);
}

/* read_integer - reads the constant R. False: R is not an integer; or, if the status of the tracer is set, it
 * cannot be read. */
static bool read_integer(struct tracer *t, trace_ref r, int64_t *out)
{
    if (trace_node(r))
        return false;
    ckpt_value *v = pickle_build_value(t->u.r.src, r, t->u.a, 1, t->u.err);
    if (!v)
        t->u.status = arena_full(t->u.a) ? CKPT_ELIMIT : t->u.err->status;
    return v && value_integer(v, out);
}

static bool is_none(trace_ref r) { return !trace_node(r) && trace_opcode(r) == PICKLE_NONE; }

static enum joblib classify_dtype(struct tracer *t, trace_ref r, uint64_t *size)
{
    struct trace_dtype d;
    const struct trace_node *n = trace_as_call_of(r, "numpy", "dtype");
    ckpt_status st = trace_dtype(&t->t, r, 0, t->u.a, &d, t->u.err);
    *size = d.size;
    if (st != CKPT_OK) {
        t->u.status = arena_full(t->u.a) ? CKPT_ELIMIT : st;
        return JOBLIB_UNCLEAR;
    }
    bool is_as_written = n && n->nitems == 4 && /* callable, arguments, no keywords, one state */
                         !d.contradiction && !d.subarray;
    if (!is_as_written || d.holds == HOLDS_UNKNOWN || (d.holds == HOLDS_NUMBERS && d.size == UINT64_MAX))
        return JOBLIB_UNCLEAR;
    return d.holds == HOLDS_OBJECTS ? JOBLIB_OBJECTS : JOBLIB_NUMBERS;
}

/* read_shape - sets *COUNT to the number of elements of the shape R; false: R is no shape. */
static bool read_shape(struct tracer *t, trace_ref r, uint64_t *count)
{
    const struct trace_node *n = trace_node(r);
    int64_t d;
    *count = 1;
    if (!n || n->kind != TRACE_TUPLE || n->nitems != n->nkept)
        return false;
    for (uint32_t i = 0; i < n->nkept; i++)
        if (!read_integer(t, n->items[i], &d) || d < 0 || !checked_mul(*count, (uint64_t)d, count))
            return false;
    return true;
}

/* read_wrapper - returns what follows the BUILD of TARGET with STATE. Sets *BYTES to the size of all
 * elements, and *PADDED to whether padding comes before them. */
static enum joblib read_wrapper(struct tracer *t, trace_ref target, trace_ref state, uint64_t *bytes,
                                bool *padded)
{
    const struct trace_node *w = trace_as_call_of(target, "joblib.numpy_pickle", "NumpyArrayWrapper");
    const struct trace_node *s = trace_node(state);
    uint64_t size = 0, count = 0;
    enum joblib kind = JOBLIB_UNCLEAR;
    bool has_shape = false, is_array_class = false;
    *padded = false;
    if (!w)
        return JOBLIB_NONE;
    if (!s || s->kind != TRACE_DICT || s->nitems != s->nkept || w->nitems != 4)
        return JOBLIB_UNCLEAR;
    for (uint32_t i = 0; i + 1 < s->nkept && t->u.status == CKPT_OK; i += 2) {
        char name[40];
        size_t n = 0;
        ckpt_str key = str_of(name, tracer_read_text(t, s->items[i], name, sizeof name, &n) ? n : 0);
        trace_ref v = s->items[i + 1];
        if (str_is(key, "dtype"))
            kind = classify_dtype(t, v, &size);
        else if (str_is(key, "shape"))
            has_shape = read_shape(t, v, &count);
        else if (str_is(key, "subclass"))
            is_array_class = is_global(v, "numpy", "ndarray") || is_global(v, "numpy", "memmap") ||
                             is_global(v, "numpy", "matrix") ||
                             is_global(v, "numpy.matrixlib.defmatrix", "matrix");
        else if (str_is(key, "numpy_array_alignment_bytes"))
            *padded = !is_none(v);
        else if (!str_is(key, "order") && !str_is(key, "allow_mmap"))
            return JOBLIB_UNCLEAR;
    }
    if (t->u.status != CKPT_OK)
        return JOBLIB_NONE;
    return has_shape && is_array_class && checked_mul(count, size, bytes) ? kind : JOBLIB_UNCLEAR;
}

/* follow_objects - follows the pickle of an array of objects, which joblib reads by pickle.load. */
static bool follow_objects(struct tracer *t)
{
    struct trace_options o = *t->options;
    struct trace_end inner;
    o.joblib_arrays_as_opcodes = true;
    o.calls_before = t->result->calls;
    t->u.status = pickle_trace(t->u.r.src, unpickler_offset(&t->u), t->u.r.end, &o, &inner, t->u.err);
    t->result->calls = inner.calls;
    t->result->opcodes += inner.opcodes; /* bounded: at most one a byte */
    t->result->by_frame_differs |= inner.by_frame_differs;
    if (t->u.status != CKPT_OK)
        t->u.at = inner.next_offset;
    else
        unpickler_seek(&t->u, inner.next_offset);
    return t->u.status == CKPT_OK;
}

/* report_bytes - reports the bytes from here on as a payload, because a reader that expects objects in the
 * array runs them as a pickle. */
static bool report_bytes(struct tracer *t)
{
    struct trace_payload v = {.start = unpickler_offset(&t->u),
                              .size = unpickler_bytes_left(&t->u),
                              .encoding = TRACE_ENC_BYTES,
                              .may_be_pickle = true};
    struct trace_step s = {.what = TRACE_STEP_PAYLOAD, .payload = &v};
    return !t->options->reports_payloads || tracer_report(t, &s);
}

bool joblib_skip_array(struct tracer *t, trace_ref target, trace_ref state)
{
    uint64_t bytes = 0;
    bool padded = false;
    if (t->options->buffer_frames || t->options->joblib_arrays_as_opcodes)
        return true;
    enum joblib kind = read_wrapper(t, target, state, &bytes, &padded);
    if (kind == JOBLIB_NONE)
        return t->u.status == CKPT_OK;
    if (t->buffer_end != UINT64_MAX && unpickler_offset(&t->u) < t->buffer_end &&
        !tracer_report_number(t, TRACE_STEP_FRAME, 0))
        return false;
    t->buffer_end = UINT64_MAX; /* joblib ends the frame before the array */
    if (t->result->narrays++ == 0)
        t->result->first_array = UINT64_MAX;
    if (kind == JOBLIB_UNCLEAR)
        return unpickler_fail(&t->u, CKPT_ELIMIT,
                              "makes an array of joblib whose size in the file cannot be determined");
    if (kind == JOBLIB_OBJECTS)
        return follow_objects(t);
    if (bytes && t->result->first_array == UINT64_MAX)
        t->result->first_array = unpickler_offset(&t->u);
    uint64_t from = unpickler_offset(&t->u);
    const unsigned char *pad = padded ? tracer_take(t, 1) : NULL;
    bool skipped = (!padded || (pad && tracer_skip(t, *pad, true))) && report_bytes(t) &&
                   tracer_skip(t, bytes, true);
    t->result->array_bytes += unpickler_offset(&t->u) - from; /* bounded: the offset only grows */
    return skipped;
}
