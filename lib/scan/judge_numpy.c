/*
 * judge_numpy.c - finds numpy arrays whose bytes would be used as addresses of objects. The calls in numpy's
 * pickles:
 *
 *   numpy.dtype(…) BUILD state                 see core/trace_dtype.c
 *   _reconstruct(ndarray, …) BUILD (version, shape, dtype, Fortran order, data)
 *                                              data: a list of objects, or bytes
 *   scalar(dtype, bytes)
 *   _frombuffer(bytes, dtype, shape, order[, axes])
 *   _mareconstruct(MaskedArray, ndarray, …) BUILD (version, shape, dtype, Fortran order, data, mask, fill)
 *
 * mvoid, a masked item of a structure, is pickled like MaskedArray; subclasses of ndarray such as matrix take
 * its place in _reconstruct and _mareconstruct.
 *
 * The last four take bytes for pointers to objects if the dtype has objects but its flags deny it. A file
 * can also call ndarray(shape, dtype, bytes), which does so whatever the flags are, and BUILD a second state
 * for what any of these functions made.
 *
 * An address may also come from the attribute __array_interface__ of any object that numpy converts to an
 * array: the arguments of float64 and other types of scalars, and the items in the list of an array whose
 * dtype has subarrays.
 */
#include "scan/judge.h"

#define DTYPE_MEMORY ((uint64_t)1 << 20)
/* classes whose objects are made without arguments, and then get their attributes by BUILD */
#define POLYNOMIALS "poly1d Polynomial Chebyshev Hermite HermiteE Laguerre Legendre"

/* read_array_dtype - sets *OUT to DTYPE, with the STATE that BUILD is about to give it (0: none). */
static ckpt_status read_array_dtype(struct numpy_judge *judge, const struct trace_step *step, trace_ref dtype,
                                    trace_ref state, struct trace_dtype *out)
{
    const struct trace_node *n = trace_node(dtype);
    if (n && n == judge->cached_node && n->nitems == judge->cached_items && !state) {
        *out = judge->cached_dtype;
        return CKPT_OK;
    }
    arena *a = arena_new(DTYPE_MEMORY);
    ckpt_status st = trace_dtype(step->t, dtype, state, a, out, &judge->err);
    if (st == CKPT_ENOMEM && a && arena_full(a)) {
        *out = (struct trace_dtype){.contradiction = "it is too large to be examined"};
        st = CKPT_OK;
    }
    arena_free(a);
    if (st == CKPT_OK && n && n->shared && !state) {
        judge->cached_node = n;
        judge->cached_items = n->nitems;
        judge->cached_dtype = *out;
    }
    return st;
}

static bool is_multiarray(ckpt_str module)
{
    return str_matches_word(module, "numpy.core.multiarray numpy._core.multiarray numpy.multiarray", str_eq);
}

/* makes_array - returns true if REF is a call that makes an array or scalar of numpy. */
static bool makes_array(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    const struct trace_global *g = n && n->kind == TRACE_CALL ? trace_global(n->items[0]) : NULL;
    return g && g->has_constant_name &&
           ((is_multiarray(g->module) && (str_is(g->name, "_reconstruct") || str_is(g->name, "scalar"))) ||
            (str_starts(g->module, STR_LIT("numpy.")) && str_is(g->name, "_frombuffer")));
}

#define ROWS_DEPTH 8u /* tuples within each other: structures in structures */

/* has_only_arrays - returns true if each item of NODE is a constant, makes an array, or is a tuple of such
 * items, of at most DEPTH tuples within each other. */
static bool has_only_arrays(const struct trace_node *node, unsigned depth)
{
    bool has_only = node->nitems == node->nkept;
    for (uint32_t i = 0; has_only && i < node->nkept; i++) {
        const struct trace_node *item = trace_node(node->items[i]);
        bool is_row = depth && item && item->kind == TRACE_TUPLE;
        has_only = !item || makes_array(node->items[i]) || (is_row && has_only_arrays(item, depth - 1));
    }
    return has_only;
}

/* check_bytes - sets *WHY to what is dangerous about making an array or scalar of DTYPE from DATA, if
 * anything. An inconsistent dtype is not reported again. */
static ckpt_status check_bytes(struct numpy_judge *judge, const struct trace_step *step, trace_ref dtype,
                               trace_ref data, const char **why)
{
    struct trace_dtype d;
    const struct trace_node *n = trace_node(data);
    CKPT_TRY(read_array_dtype(judge, step, dtype, 0, &d));
    if (n && n->kind == TRACE_LIST && d.has_subarrays && !has_only_arrays(n, ROWS_DEPTH))
        *why = "an array has subarrays made from objects of other types, which may give addresses to numpy";
    if (d.contradiction || d.holds == HOLDS_NUMBERS || (n && n->kind == TRACE_LIST))
        return CKPT_OK;
    *why = d.holds == HOLDS_OBJECTS ? "bytes for a dtype of objects: numpy may take them for addresses"
                                    : "bytes for a dtype that is not described as picklers describe it";
    return CKPT_OK;
}

static bool is_generator_module(ckpt_str module) { return str_starts(module, STR_LIT("numpy.random.")); }

/* check_array_state - checks STATE, of an array or, if IS_MASKED, of a masked array. */
static ckpt_status check_array_state(struct numpy_judge *judge, const struct trace_step *step,
                                     const struct trace_node *state, bool is_masked, const char **why)
{
    bool is_intact = state && state->kind == TRACE_TUPLE && state->nitems == state->nkept;
    if (!is_intact || (is_masked ? state->nitems != 7 : state->nitems < 4)) {
        *why = "a part of the state of an array is not in the file";
        return CKPT_OK;
    }
    if (is_masked) /* (version, shape, dtype, is_fortran, data, mask, fill value) */
        return check_bytes(judge, step, state->items[2], state->items[4], why);
    /* (version, shape, dtype, is_fortran, data); old pickles have no version */
    uint32_t last = state->nkept - 1;
    return check_bytes(judge, step, state->items[last - 2], state->items[last], why);
}

ckpt_status numpy_judge_build(struct numpy_judge *judge, const struct trace_step *step, ckpt_str module,
                              ckpt_str name, const char **why)
{
    struct trace_dtype d;
    bool is_masked = str_is(name, "_mareconstruct");
    bool is_array = (str_is(name, "_reconstruct") && is_multiarray(module)) ||
                    (str_is(name, "ndarray") && str_is(module, "numpy"));
    *why = NULL;
    if (step->opcode != 'b' || !(str_is(module, "numpy") || str_starts(module, STR_LIT("numpy."))) ||
        is_generator_module(module) || str_matches_word(name, POLYNOMIALS, str_eq))
        return CKPT_OK;
    if (str_is(name, "dtype")) {
        CKPT_TRY(read_array_dtype(judge, step, step->subject, step->operand, &d));
        *why = d.contradiction;
        return CKPT_OK;
    }
    if (is_array || is_masked)
        return check_array_state(judge, step, trace_node(step->operand), is_masked, why);
    *why = "a state for an array or scalar that is complete: no pickler writes that";
    return CKPT_OK;
}

/* is_global - returns true if REF is the class or function MODULE.NAME, or its namesake in another module
 * whose name begins with MODULE and a dot. */
static bool is_global(trace_ref ref, const char *module, const char *name)
{
    const struct trace_global *g = trace_global(ref);
    return g && g->has_constant_name && str_is(g->name, name) &&
           (str_is(g->module, module) ||
            (str_starts(g->module, str_c(module)) && g->module.ptr[strlen(module)] == '.'));
}

/* is_bit_generator - returns true if REF is a constant, such as the name of a bit generator, or its class. */
static bool is_bit_generator(trace_ref ref)
{
    const struct trace_global *g = trace_global(ref);
    return ref && (!trace_node(ref) || (g && g->has_constant_name && is_generator_module(g->module) &&
                                        !str_starts(g->name, STR_LIT("_"))));
}

/* is_array_class - returns true if REF is ndarray or a subclass of it that is made like it. */
static bool is_array_class(trace_ref ref)
{
    const struct trace_global *g = trace_global(ref);
    return is_global(ref, "numpy", "ndarray") ||
           (g && g->has_constant_name && str_starts(g->module, STR_LIT("numpy")) &&
            str_matches_word(g->name, "chararray matrix memmap recarray", str_eq));
}

/* has_constants - returns true if the items of ARGS are no more than MAX, all of them constants. */
static bool has_constants(const struct trace_node *args, uint64_t max)
{
    for (uint32_t i = 0; i < args->nkept; i++)
        if (trace_node(args->items[i]))
            return false;
    return args->nitems <= max && args->nitems == args->nkept;
}

#define RANDOM_PICKLE "numpy.random._pickle"

/* find_unusual_constructor - returns what is dangerous about the ARGS with which NAME is called, one of
 * numpy's functions that call an argument or a method of it; NULL: nothing. */
static const char *find_unusual_constructor(ckpt_str name, const struct trace_node *args, bool has_keywords)
{
    trace_ref first = args->nkept ? args->items[0] : 0, second = args->nkept > 1 ? args->items[1] : 0;
    bool is_usual = true;
    if (str_is(name, "_mareconstruct"))
        is_usual = (is_global(first, "numpy.ma", "MaskedArray") || is_global(first, "numpy.ma", "mvoid")) &&
                   is_array_class(second);
    else if (str_is(name, "__bit_generator_ctor"))
        is_usual = args->nitems == 0 || (args->nitems == 1 && is_bit_generator(first));
    else if (str_is(name, "__pyx_unpickle_SeedSequence"))
        is_usual = is_global(first, "numpy.random.bit_generator", "SeedSequence");
    else if (str_is(name, "__generator_ctor") || str_is(name, "__randomstate_ctor"))
        is_usual = args->nitems <= 2 &&
                   (!first || !trace_node(first) ||
                    trace_as_call_of(first, RANDOM_PICKLE, "__bit_generator_ctor")) &&
                   (!second || is_global(second, RANDOM_PICKLE, "__bit_generator_ctor"));
    else if (str_is(name, "record") || str_is(name, "recarray") || str_is(name, "MaskedArray"))
        is_usual = false;
    else if (str_is(name, "MaskedConstant") || str_matches_word(name, POLYNOMIALS, str_eq))
        is_usual = args->nitems == 0;
    else if (trace_is_scalar_type(name) || str_is(name, "_convert_to_stringdtype_kwargs"))
        is_usual = has_constants(args, 2);
    else
        return NULL;
    return is_usual && !has_keywords
               ? NULL
               : "an array, number or generator is made with arguments that no pickler writes";
}

/* check_ndarray - checks a call of ndarray with the arguments ARGS: (shape[, dtype[, bytes …]]). */
static ckpt_status check_ndarray(struct numpy_judge *judge, const struct trace_step *step,
                                 const struct trace_node *args, bool has_keywords, const char **why)
{
    if (has_keywords || args->nitems != args->nkept)
        *why = "an array is made with arguments that no pickler writes";
    return *why || args->nitems < 3 ? CKPT_OK : check_bytes(judge, step, args->items[1], args->items[2], why);
}

ckpt_status numpy_judge_call(struct numpy_judge *judge, const struct trace_step *step, ckpt_str module,
                             ckpt_str name, const char **why)
{
    const struct trace_node *c = trace_node(step->subject), *args = trace_node(c->items[1]);
    bool is_scalar = str_is(name, "scalar") && is_multiarray(module), is_buffer = str_is(name, "_frombuffer");
    bool has_keywords = c->nitems > 2 && c->nkept > 2 && c->items[2];
    *why = NULL;
    if (!args || args->kind != TRACE_TUPLE)
        return CKPT_OK;
    if (str_starts(module, STR_LIT("numpy")) || str_is(module, "ml_dtypes"))
        *why = find_unusual_constructor(name, args, has_keywords);
    if (*why)
        return CKPT_OK;
    if (str_is(name, "ndarray") && str_is(module, "numpy"))
        return check_ndarray(judge, step, args, has_keywords, why);
    if ((!is_scalar && !is_buffer) || args->nkept < 2)
        return CKPT_OK;
    trace_ref first = args->items[0], second = args->items[1];
    return is_buffer ? check_bytes(judge, step, second, first, why)  /* _frombuffer(bytes, dtype, …) */
                     : check_bytes(judge, step, first, second, why); /* scalar(dtype, bytes) */
}
