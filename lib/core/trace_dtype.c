/*
 * trace_dtype.c - see trace_dtype.h.
 *
 * A dtype is pickled as numpy.dtype("f8", False, True) and a BUILD with the state (version, byte order,
 * subdtype, names, fields, size, alignment, flags[, metadata]); see arraydescr_setstate in
 * numpy/_core/src/multiarray/descriptor.c. numpy trusts the flags. Bits 0 (references are counted), 1 (an
 * array is pickled as a list) and 3 (memory is cleared first) are set for a dtype that contains objects, and
 * for no other; if they are missing, the bytes of an array are used as addresses of objects. For a state
 * below version 3 numpy computes the flags: if any is set, every item is an object.
 *
 * A structure is correct if each of its fields is correct, and its flags are the union of the fields' flags.
 * So dtypes are checked one by one, at any depth of nesting, from a list of those not checked yet.
 */
#include "core/trace_dtype.h"

#define OBJECT_FLAGS     0x0bu /* a dtype that contains objects has all of these */
#define NON_NUMBER_FLAGS 0x07u /* a dtype of numbers has none of these; bit 2: an item is a pointer */
#define MAX_WAITING      1024u /* dtypes waiting to be checked */

/* One dtype, whose fields were not read yet. */
struct shallow_dtype {
    char kind; /* numpy's letter; T: a named type of numpy or ml_dtypes; 0: unknown */
    uint64_t size;
    int64_t flags;
    const struct trace_node *fields; /* NULL: none */
    trace_ref subarray_dtype;        /* the dtype of a subarray; 0: none */
    const char *contradiction;       /* the contradiction found; NULL: none */
};

struct dtype_check {
    const struct trace *t;
    arena *a;
    ckpt_error *err;
    ckpt_status status;
    trace_ref waiting[MAX_WAITING]; /* not checked yet */
    size_t nwaiting, nchecked;
};

const struct trace_node *trace_as_call_of(trace_ref ref, const char *module, const char *name)
{
    const struct trace_node *n = trace_node(ref);
    const struct trace_global *g = n && n->kind == TRACE_CALL ? trace_global(n->items[0]) : NULL;
    return g && g->has_constant_name && str_is(g->module, module) && str_is(g->name, name) ? n : NULL;
}

/* as_tuple - returns the node of REF if REF is a tuple all of whose items are kept, or NULL. */
static const struct trace_node *as_tuple(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    return n && n->kind == TRACE_TUPLE && n->nitems == n->nkept ? n : NULL;
}

static ckpt_value *read_constant(struct dtype_check *check, trace_ref ref)
{
    if (!ref || trace_node(ref) || check->status != CKPT_OK)
        return NULL;
    ckpt_value *v = check->t->value(check->t, ref, check->a, 1, check->err);
    if (!v)
        check->status = check->err->status;
    return v;
}

static bool is_none(struct dtype_check *check, trace_ref ref)
{
    ckpt_value *v = read_constant(check, ref);
    return v && v->type == CKPT_V_NONE;
}

static bool read_integer(struct dtype_check *check, trace_ref ref, int64_t *out)
{
    ckpt_value *v = read_constant(check, ref);
    return v && v->type == CKPT_V_INT && value_integer(v, out);
}

/* parse_type_code - parses a type code: a letter and a size, such as "f8". */
static bool parse_type_code(ckpt_str text, struct shallow_dtype *out)
{
    if (!text.len || !text.ptr[0] || !strchr("biufcmMSUVO?", text.ptr[0]))
        return false;
    out->size = UINT64_MAX;
    if (text.len > 1 && !str_uint(str_skip(text, 1), &out->size))
        return false;
    out->kind = text.ptr[0];
    if (text.ptr[0] == 'U' && text.len > 1 && !checked_mul(out->size, 4, &out->size))
        return false;
    out->flags = out->kind == 'O' ? (int64_t)OBJECT_FLAGS : 0;
    return true;
}

bool trace_is_scalar_type(ckpt_str name)
{
    static const char types[] =
        "bool bool_ byte bytes_ cdouble clongdouble complex128 complex256 complex64 csingle datetime64 "
        "double float128 float16 float32 float64 half int16 int32 int64 int8 intc intp long longdouble "
        "longlong record short single str_ timedelta64 ubyte uint uint16 uint32 uint64 uint8 uintc uintp "
        "ulong ulonglong ushort void bfloat16 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
        "float8_e5m2fnuz int4 uint4";
    return str_matches_word(name, types, str_eq);
}

/* get_extended_size - returns the bytes of an item of NAME, a type of ml_dtypes; UINT64_MAX: unknown. */
static uint64_t get_extended_size(ckpt_str name)
{
    if (str_is(name, "bfloat16"))
        return 2;
    bool is_byte = str_starts(name, STR_LIT("float8_")) || str_is(name, "int4") || str_is(name, "uint4");
    return is_byte ? 1 : UINT64_MAX;
}

/* read_spelling - reads the first argument of numpy.dtype. */
static void read_spelling(struct dtype_check *check, trace_ref spelling, struct shallow_dtype *out)
{
    ckpt_value *v = read_constant(check, spelling);
    const struct trace_global *g = trace_global(spelling);
    ckpt_str text;
    if (v && value_text(v, &text) && parse_type_code(text, out))
        return;
    *out = (struct shallow_dtype){.size = UINT64_MAX};
    if (g && g->has_constant_name && trace_is_scalar_type(g->name) &&
        (str_is(g->module, "numpy") || str_is(g->module, "ml_dtypes")))
        out->kind = 'T';
    if (out->kind && (str_is(g->name, "record") || str_is(g->name, "void"))) /* a structure */
        out->kind = 'V';
    if (out->kind && str_is(g->module, "ml_dtypes"))
        out->size = get_extended_size(g->name);
}

/* apply_state - changes OUT as BUILD with STATE does. */
static void apply_state(struct dtype_check *check, trace_ref state, struct shallow_dtype *out)
{
    const struct trace_node *s = as_tuple(state), *sub;
    int64_t version = 0, size = 0;
    if (!s || s->nitems < 8 || s->nitems > 9 || !read_integer(check, s->items[0], &version) ||
        !read_integer(check, s->items[5], &size) || !read_integer(check, s->items[7], &out->flags)) {
        out->contradiction = "its state is not a tuple of constants as numpy writes it";
        return;
    }
    bool has_names = !is_none(check, s->items[3]), has_fields = !is_none(check, s->items[4]);
    out->fields = has_fields ? trace_node(s->items[4]) : NULL;
    out->subarray_dtype = is_none(check, s->items[2]) ? 0 : s->items[2];
    if (version < 3 || version > 4)
        out->contradiction = "its state has a version for which numpy computes the flags";
    else if (out->kind == 0)
        out->contradiction = "it has a state, but no pickler writes a dtype this way";
    else if (has_names != has_fields || (has_fields && (!out->fields || out->fields->kind != TRACE_DICT ||
                                                        out->fields->nitems != out->fields->nkept)))
        out->contradiction = "its names and fields do not match";
    else if (out->kind != 'V' && (has_fields || out->subarray_dtype))
        out->contradiction = "its type is a number, but it has fields";
    if (strchr("SUV", out->kind) && out->kind) {
        out->size = (uint64_t)size;
        if (size < 0)
            out->contradiction = "its items have a negative size";
    }
    if (!out->contradiction && out->subarray_dtype) {
        sub = as_tuple(out->subarray_dtype);
        out->subarray_dtype = sub && sub->nitems == 2 ? sub->items[0] : 0;
        out->contradiction = out->subarray_dtype ? NULL : "its subarray is not a dtype and a shape";
    }
}

/* read_dtype - reads the dtype REF, but not its fields. STATE: as of trace_dtype. */
static void read_dtype(struct dtype_check *check, trace_ref ref, trace_ref state, struct shallow_dtype *out)
{
    const struct trace_node *d = trace_as_call_of(ref, "numpy", "dtype");
    const struct trace_node *args = d ? as_tuple(d->items[1]) : NULL;
    *out = (struct shallow_dtype){.size = UINT64_MAX};
    if (!args || !args->nitems)
        return;
    read_spelling(check, args->items[0], out);
    if (d->nitems > 4 || (d->nitems > 3 && state))
        out->contradiction = "it has two states";
    else if (d->nitems > 3 || state)
        apply_state(check, state ? state : d->items[3], out);
}

/* check_field - checks the field REF of DTYPE at OFFSET, adds its flags to *FLAGS and queues it. Returns the
 * contradiction, or NULL. */
static const char *check_field(struct dtype_check *check, const struct shallow_dtype *dtype, trace_ref ref,
                               int64_t offset, int64_t *flags)
{
    struct shallow_dtype f;
    uint64_t end;
    read_dtype(check, ref, 0, &f);
    *flags |= f.flags;
    if (f.kind == 0)
        return "the type of a field is unknown";
    if (offset < 0 ||
        (f.size != UINT64_MAX && (!checked_add((uint64_t)offset, f.size, &end) || end > dtype->size)))
        return "a field is outside of the item";
    if (check->nwaiting == MAX_WAITING || ++check->nchecked > 4 * MAX_WAITING)
        return "it has too many fields to check";
    check->waiting[check->nwaiting++] = ref;
    return NULL;
}

/* check_fields - checks all fields of DTYPE and its own flags. Returns the contradiction, or NULL. */
static const char *check_fields(struct dtype_check *check, const struct shallow_dtype *dtype)
{
    int64_t flags = 0, offset;
    const char *contradiction = dtype->subarray_dtype
                                    ? check_field(check, dtype, dtype->subarray_dtype, 0, &flags)
                                    : NULL;
    for (uint32_t i = 0; !contradiction && dtype->fields && i + 1 < dtype->fields->nkept; i += 2) {
        const struct trace_node *f = as_tuple(dtype->fields->items[i + 1]);
        contradiction = f && f->nitems >= 2 && read_integer(check, f->items[1], &offset)
                            ? check_field(check, dtype, f->items[0], offset, &flags)
                            : "its fields are not dtypes and offsets";
    }
    bool has_objects = dtype->kind == 'O' || flags & 1;
    int64_t mask = has_objects ? OBJECT_FLAGS : NON_NUMBER_FLAGS, wanted_flags = has_objects ? mask : 0;
    if (contradiction || (dtype->flags & mask) == wanted_flags)
        return contradiction;
    return has_objects ? "its flags deny that it holds objects: numpy would use bytes of the file as pointers"
                       : "its flags claim objects, but it holds none";
}

ckpt_status trace_dtype(const struct trace *trace, trace_ref ref, trace_ref state, arena *a,
                        struct trace_dtype *out, ckpt_error *err)
{
    struct dtype_check *c = a ? arena_alloc(a, sizeof *c) : NULL;
    struct shallow_dtype first, s;
    *out = (struct trace_dtype){.size = UINT64_MAX};
    CKPT_TRY_ALLOC(c, err);
    *c = (struct dtype_check){.t = trace, .a = a, .err = err, .status = CKPT_OK};
    read_dtype(c, ref, state, &first);
    out->contradiction = first.contradiction;
    if (!first.contradiction && first.kind) {
        out->contradiction = check_fields(c, &first);
        out->holds = first.flags & 1 ? HOLDS_OBJECTS : HOLDS_NUMBERS;
        out->size = first.size;
        out->subarray = out->has_subarrays = first.subarray_dtype != 0;
    }
    while (!out->contradiction && c->status == CKPT_OK && c->nwaiting) {
        read_dtype(c, c->waiting[--c->nwaiting], 0, &s);
        out->has_subarrays = out->has_subarrays || s.subarray_dtype;
        out->contradiction = s.contradiction ? s.contradiction : check_fields(c, &s);
    }
    return c->status;
}
