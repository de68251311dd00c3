/*
 * pickle_joblib.c - reads an array in a pickle of joblib.dump (joblib/numpy_pickle.py). The array follows the
 * BUILD of a NumpyArrayWrapper, whose state has subclass, shape, order, dtype, allow_mmap and, since joblib
 * 1.2, numpy_array_alignment_bytes:
 *
 *   1     since 1.2: number of bytes of padding, then the padding
 *   …     the elements, in the order of `order`
 *   …     the outer pickle continues
 *
 * An array of objects has neither padding nor elements, but a pickle of the array in their place. The node of
 * the wrapper becomes the array in the form in which numpy pickles it, so that other code reads one form.
 *
 * Refused: other subclasses than ndarray, memmap and matrix, a frame that does not end before the array,
 * missing elements, a pickle of objects that makes no array.
 */
#include "codec/pickle_machine.h"

#include "codec/pickle_read.h"
#include "core/numpy.h"
#include "core/view.h"

static bool is_array_class(const ckpt_value *value)
{
    return value_is_global(value, "numpy", "ndarray") || value_is_global(value, "numpy", "memmap") ||
           value_is_global(value, "numpy", "matrix") ||
           value_is_global(value, "numpy.matrixlib.defmatrix", "matrix");
}

/* count_bytes - sets *OUT to the bytes of an array of SHAPE and dtype DTYPE. False: SHAPE is no shape, or the
 * array has 2^64 bytes or more. */
static bool count_bytes(const ckpt_value *shape, const struct numpy_dtype *dtype, uint64_t *out)
{
    uint64_t n;
    *out = dtype->bytes;
    if (!shape || shape->type != CKPT_V_TUPLE)
        return false;
    for (uint32_t i = 0; i < value_count(shape); i++)
        if (!value_size(value_item(shape, i), &n) || !checked_mul(*out, n, out))
            return false;
    return true;
}

/* take_elements - skips the next COUNT bytes, and returns a BYTES node that is a span of them, or NULL. */
static ckpt_value *take_elements(struct machine *machine, uint64_t count)
{
    ckpt_value *v = value_new(machine->u.a, CKPT_V_BYTES, unpickler_offset(&machine->u));
    struct value_span *s = ARENA_NEW(machine->u.a, struct value_span);
    if (!v || !s) {
        unpickler_fail_memory(&machine->u);
        return NULL;
    }
    *s = (struct value_span){machine->u.r.src, unpickler_offset(&machine->u), count, count};
    v->flags |= VALUE_SPAN;
    v->u.span = s;
    return unpickler_skip(&machine->u, count) ? v : NULL;
}

/* make_array - turns VALUE into an array of the shape, dtype and order in WRAPPER_STATE, as numpy pickles it:
 * _reconstruct(ndarray, (0,), b'b') with BUILD (1, shape, dtype, fortran_order, DATA). */
static bool make_array(struct machine *machine, ckpt_value *value, const ckpt_value *wrapper_state,
                       ckpt_value *data)
{
    arena *a = machine->u.a;
    ckpt_str order;
    ckpt_value *zero = value_int(a, 0), *b = value_new(a, CKPT_V_BYTES, value_offset(value));
    ckpt_value *zero_tuple = zero ? value_tuple(a, 1, &zero) : NULL;
    ckpt_value *fortran = value_new(a, CKPT_V_BOOL, value_offset(value));
    ckpt_value *args[] = {value_get(wrapper_state, "subclass"), zero_tuple, b};
    ckpt_value *state[] = {value_int(a, 1), value_get(wrapper_state, "shape"),
                           value_get(wrapper_state, "dtype"), fortran, data};
    struct value_extra *extra = value_make_extra(a, value);
    ckpt_value *reconstruct = value_global(a, STR_LIT("numpy.core.multiarray"), STR_LIT("_reconstruct"),
                                           value_offset(value));
    if (!zero_tuple || !b || !fortran || !state[0] || !extra || !reconstruct)
        return unpickler_fail_memory(&machine->u);
    b->u.str = STR_LIT("b");
    fortran->u.b = value_text(value_get(wrapper_state, "order"), &order) && str_is(order, "F");
    ((struct value_object *)(void *)value)->kind = CALL_REDUCE;
    value->u.call.callable = reconstruct;
    value->u.call.args = value_tuple(a, 3, args);
    extra->states[0] = value_tuple(a, 5, state);
    extra->nstates = 1;
    return (value->u.call.args && extra->states[0]) || unpickler_fail_memory(&machine->u);
}

/* take_objects - reads the next bytes as a pickle, as joblib does by pickle.load, and turns VALUE into its
 * array. */
static bool take_objects(struct machine *machine, ckpt_value *value)
{
    ckpt_value *root;
    uint64_t next, begin = unpickler_offset(&machine->u);
    machine->u.status = pickle_read(machine->u.a, machine->u.r.src, begin, machine->u.r.end, NULL, &root,
                                    &next, machine->u.err);
    if (machine->u.status != CKPT_OK)
        return false;
    if (root->type != CKPT_V_CALL)
        return unpickler_fail(
            &machine->u, CKPT_EFORMAT,
            "is followed by a pickle that makes {no array}; it must make {=an array of objects}");
    *(struct value_object *)(void *)value = *(const struct value_object *)(const void *)root;
    return unpickler_skip(&machine->u, next - begin);
}

/* skip_padding - skips a byte, and as many bytes after it as its value. */
static bool skip_padding(struct machine *machine)
{
    const unsigned char *n = unpickler_take(&machine->u, 1);
    return n && unpickler_skip(&machine->u, *n);
}

bool joblib_take_array(struct machine *machine, ckpt_value *value)
{
    struct numpy_dtype d;
    uint64_t bytes;
    bool is_wrapper = value_is_global(view_class(value), "joblib.numpy_pickle", "NumpyArrayWrapper");
    const ckpt_value *state = is_wrapper ? value_state(value) : NULL;
    if (!state || state->type != CKPT_V_DICT)
        return true;
    const ckpt_value *padding = value_get(state, "numpy_array_alignment_bytes");
    if (!is_array_class(value_get(state, "subclass")))
        return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED,
                              "makes a joblib array of {another class} than {=ndarray}");
    const ckpt_value *dtype = value_get(state, "dtype");
    if (!dtype || !numpy_dtype_of(dtype, &d) || !count_bytes(value_get(state, "shape"), &d, &bytes))
        return unpickler_fail(&machine->u, CKPT_EFORMAT,
                              "makes a joblib array {of unknown size}: its state must have {=a shape and "
                              "a dtype of fixed size}");
    if (machine->frame_end != UINT64_MAX && unpickler_offset(&machine->u) < machine->frame_end)
        return unpickler_fail(&machine->u, CKPT_EFORMAT,
                              "makes a joblib array {inside a frame}, which must {=end before the array}");
    machine->frame_end = UINT64_MAX;
    if (d.kind == 'O')
        return take_objects(machine, value);
    if (padding && padding->type != CKPT_V_NONE && !skip_padding(machine))
        return false;
    ckpt_value *data = take_elements(machine, bytes);
    return data && make_array(machine, value, state, data);
}
