/*
 * trace_joblib.c - see tracer.h. The layout of an array in a pickle of joblib.dump is in pickle_joblib.c.
 *
 * joblib.load skips the bytes of an array, pickle.load runs them as opcodes: both must be followed. The dtype
 * (core/trace_dtype.c) determines the bytes of an element and whether it has objects. joblib.load uses any
 * object of the wrapper's class: one that joblib does not write is followed if the bytes of its array are
 * certain, and reported if not.
 */
#include "codec/tracer.h"

#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "core/trace_dtype.h"

enum joblib {
    JOBLIB_NONE,    /* not joblib's wrapper, or the tracer failed and has set its status */
    JOBLIB_NUMBERS, /* the bytes of an array follow */
    JOBLIB_OBJECTS, /* a pickle of the array follows */
    JOBLIB_UNCLEAR  /* the number of bytes that follow is not certain */
};

/* is_global - returns true if REF is MODULE.NAME. */
static bool is_global(trace_ref ref, const char *module, const char *name)
{
    const struct trace_global *g = trace_global(ref);
    return g && g->has_constant_name && str_is(g->module, module) && str_is(g->name, name);
}

/* read_integer - reads the constant REF. False: REF is not an integer; or, if the status of the tracer is
 * set, it cannot be read. */
static bool read_integer(struct tracer *tracer, trace_ref ref, int64_t *out)
{
    if (trace_node(ref))
        return false;
    ckpt_value *v = pickle_build_value(tracer->u.r.src, ref, tracer->u.a, 1, tracer->u.err);
    if (!v)
        tracer->u.status = arena_full(tracer->u.a) ? CKPT_ELIMIT : tracer->u.err->status;
    return v && value_integer(v, out);
}

/* as_wrapper - returns the node of REF if REF is a wrapper: NumpyArrayWrapper(…) or, in protocols 0 and 1,
 * copy_reg._reconstructor(NumpyArrayWrapper, object, None); else NULL. */
static const struct trace_node *as_wrapper(trace_ref ref)
{
    static const char module[] = "joblib.numpy_pickle", name[] = "NumpyArrayWrapper";
    const struct trace_node *w = trace_as_call_of(ref, "copy_reg", "_reconstructor");
    w = w ? w : trace_as_call_of(ref, "copyreg", "_reconstructor");
    const struct trace_node *args = w ? trace_node(w->items[1]) : NULL;
    return args && args->nkept && is_global(args->items[0], module, name)
               ? w
               : trace_as_call_of(ref, module, name);
}

static bool is_none(trace_ref ref) { return !trace_node(ref) && trace_opcode(ref) == PICKLE_NONE; }

static enum joblib classify_dtype(struct tracer *tracer, trace_ref ref, uint64_t *size)
{
    struct trace_dtype d;
    const struct trace_node *n = trace_as_call_of(ref, "numpy", "dtype");
    if (trace_as_call_of(ref, "numpy._core._internal", "_convert_to_stringdtype_kwargs"))
        return JOBLIB_OBJECTS; /* StringDType */
    ckpt_status st = trace_dtype(&tracer->t, ref, 0, tracer->u.a, &d, tracer->u.err);
    *size = d.size;
    if (st != CKPT_OK) {
        tracer->u.status = arena_full(tracer->u.a) ? CKPT_ELIMIT : st;
        return JOBLIB_UNCLEAR;
    }
    bool is_as_written = n && n->nitems == 4 && /* callable, arguments, no keywords, one state */
                         !d.contradiction && !d.subarray;
    if (!is_as_written || d.holds == HOLDS_UNKNOWN || (d.holds == HOLDS_NUMBERS && d.size == UINT64_MAX))
        return JOBLIB_UNCLEAR;
    return d.holds == HOLDS_OBJECTS ? JOBLIB_OBJECTS : JOBLIB_NUMBERS;
}

/* read_shape - sets *COUNT to the number of elements of the shape REF, a tuple or list; false: neither. */
static bool read_shape(struct tracer *tracer, trace_ref ref, uint64_t *count)
{
    const struct trace_node *n = trace_node(ref);
    int64_t d;
    *count = 1;
    if (!n || (n->kind != TRACE_TUPLE && n->kind != TRACE_LIST) || n->nitems != n->nkept)
        return false;
    for (uint32_t i = 0; i < n->nkept; i++)
        if (!read_integer(tracer, n->items[i], &d) || d < 0 || !checked_mul(*count, (uint64_t)d, count))
            return false;
    return true;
}

/* What the attributes of a wrapper determine. */
struct array_layout {
    enum joblib kind;     /* by its dtype */
    uint64_t size, count; /* of an element in bytes; of elements */
    bool has_shape;
    bool padded; /* padding comes before the elements */
};

/* read_attributes - notes in OUT the attributes in the dict REF. False: an attribute is none of joblib's, so
 * that it may replace a method of the wrapper, or REF is no dict. */
static bool read_attributes(struct tracer *tracer, trace_ref ref, struct array_layout *out)
{
    const struct trace_node *s = trace_node(ref);
    bool is_known = s && s->kind == TRACE_DICT && s->nitems == s->nkept;
    for (uint32_t i = 0; is_known && i + 1 < s->nkept && tracer->u.status == CKPT_OK; i += 2) {
        char name[40];
        size_t n = 0;
        ckpt_str key = str_of(name, tracer_read_text(tracer, s->items[i], name, sizeof name, &n) ? n : 0);
        trace_ref v = s->items[i + 1];
        if (str_is(key, "dtype"))
            out->kind = classify_dtype(tracer, v, &out->size);
        else if (str_is(key, "shape"))
            out->has_shape = read_shape(tracer, v, &out->count);
        else if (str_is(key, "numpy_array_alignment_bytes"))
            out->padded = !is_none(v);
        else
            is_known = str_is(key, "subclass") || str_is(key, "order") || str_is(key, "allow_mmap");
    }
    return is_known;
}

/* read_wrapper - returns what follows the BUILD of TARGET with STATE: a dict or (dict, dict), either of which
 * may be None. Sets *BYTES to the size of all elements, and *PADDED to whether padding comes before them. */
static enum joblib read_wrapper(struct tracer *tracer, trace_ref target, trace_ref state, uint64_t *bytes,
                                bool *padded)
{
    const struct trace_node *w = as_wrapper(target), *s = trace_node(state);
    struct array_layout layout = {.kind = JOBLIB_UNCLEAR};
    bool is_pair = s && s->kind == TRACE_TUPLE && s->nkept == 2 && s->nitems == 2;
    if (!w)
        return JOBLIB_NONE;
    trace_ref dicts[2] = {is_pair ? s->items[0] : state, is_pair ? s->items[1] : 0};
    bool is_known = w->nitems == 4;
    for (int i = 0; i < (is_pair ? 2 : 1); i++)
        is_known = is_known && ((is_pair && is_none(dicts[i])) || read_attributes(tracer, dicts[i], &layout));
    *padded = layout.padded;
    if (tracer->u.status != CKPT_OK)
        return JOBLIB_NONE;
    bool is_certain = is_known && layout.has_shape && checked_mul(layout.count, layout.size, bytes);
    return is_certain || (is_known && layout.kind == JOBLIB_OBJECTS) ? layout.kind : JOBLIB_UNCLEAR;
}

/* follow_objects - follows the pickle of an array of objects, which joblib reads by pickle.load. */
static bool follow_objects(struct tracer *tracer)
{
    struct trace_options o = *tracer->options;
    struct trace_end inner;
    o.joblib_arrays_as_opcodes = true;
    o.calls_before = tracer->result->calls;
    tracer->u.status = pickle_trace(tracer->u.r.src, unpickler_offset(&tracer->u), tracer->u.r.end, &o,
                                    &inner, tracer->u.err);
    tracer->result->calls = inner.calls;
    tracer->result->opcodes += inner.opcodes;
    tracer->result->by_frame_differs |= inner.by_frame_differs;
    if (tracer->u.status != CKPT_OK)
        tracer->u.at = inner.next_offset;
    else
        unpickler_seek(&tracer->u, inner.next_offset);
    return tracer->u.status == CKPT_OK;
}

/* report_bytes - reports the bytes from here on as a payload, because a reader that expects objects in the
 * array runs them as a pickle. */
static bool report_bytes(struct tracer *tracer)
{
    struct trace_payload v = {.start = unpickler_offset(&tracer->u),
                              .size = unpickler_bytes_left(&tracer->u),
                              .encoding = TRACE_ENC_BYTES,
                              .may_be_pickle = true};
    struct trace_step s = {.what = TRACE_STEP_PAYLOAD, .payload = &v};
    return !tracer->options->reports_payloads || tracer_report(tracer, &s);
}

bool joblib_skip_array(struct tracer *tracer, trace_ref target, trace_ref state)
{
    uint64_t bytes = 0;
    bool padded = false;
    if (tracer->options->buffer_frames || tracer->options->joblib_arrays_as_opcodes)
        return true;
    enum joblib kind = read_wrapper(tracer, target, state, &bytes, &padded);
    if (kind == JOBLIB_NONE)
        return tracer->u.status == CKPT_OK;
    if (tracer->buffer_end != UINT64_MAX && unpickler_offset(&tracer->u) < tracer->buffer_end &&
        !tracer_report_number(tracer, TRACE_STEP_FRAME, 0))
        return false;
    tracer->buffer_end = UINT64_MAX; /* joblib ends the frame before the array */
    if (tracer->result->narrays++ == 0)
        tracer->result->first_array = UINT64_MAX;
    if (kind == JOBLIB_UNCLEAR)
        return tracer_report(tracer, &(struct trace_step){.what = TRACE_STEP_WRAPPER, .subject = target}) &&
               unpickler_fail(&tracer->u, CKPT_ELIMIT,
                              "makes an array of joblib whose size in the file cannot be determined");
    if (kind == JOBLIB_OBJECTS)
        return follow_objects(tracer);
    if (bytes && tracer->result->first_array == UINT64_MAX)
        tracer->result->first_array = unpickler_offset(&tracer->u);
    uint64_t from = unpickler_offset(&tracer->u);
    const unsigned char *pad = padded ? tracer_take(tracer, 1) : NULL;
    bool skipped = (!padded || (pad && tracer_skip(tracer, *pad, true))) && report_bytes(tracer) &&
                   tracer_skip(tracer, bytes, true);
    tracer->result->array_bytes += unpickler_offset(&tracer->u) - from;
    return skipped;
}
