/* pickle_trace.c - see pickle_trace.h. pickle_read.c builds a value graph and is as strict as the strictest
 * loader; this file builds none and is as lenient as the most lenient loader, so that no loader gets further:
 * text is not decoded, numbers are not parsed, names are not translated. Of a constant only its offset in the
 * file is kept, so millions of them take no memory.
 *
 * Loaders disagree about arguments that cross the end of a FRAME (CPython issues 128853, 154848):
 *   flat      pickletools and loads() ignore frames
 *   buffered  the C unpickler before 3.13.15 and 3.14.7, reading from an object without peek(), has
 *             the frame in its buffer. A number, text or line that exceeds the buffer is read after the
 *             frame, and the remaining bytes of the buffer are skipped. Bytes with a length are joined
 *             from both places.
 *   strict    pickle.py, and the C unpickler since, fail
 * This file reads either flat or buffered (options->buffer_frames), and reports if the two would differ.
 *
 * Otherwise it follows Modules/_pickle.c: no opcode reaches below the last mark, POP removes a mark, MEMOIZE
 * counts entries, STOP drops the items below its result. An operand whose type is not known from the file
 * (the result of a call, an extension code) is accepted by every opcode. */
#include "codec/pickle_trace.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "codec/tracer.h"

#define MIN_MEMORY_LIMIT ((uint64_t)64 << 20)
#define KEEP_ITEMS       256u /* items of a container that are kept: more than any report shows */

static bool move_to_node(struct tracer *tracer, struct trace_node *node, size_t bottom)
{
    const trace_ref *items = tracer->u.top > bottom ? tracer->stack + bottom : NULL;
    return node && node_report_globals(tracer, items, tracer->u.top - bottom) &&
           node_add_items(tracer, node, items, tracer->u.top - bottom, KEEP_ITEMS);
}

/* collect_items - replaces the stack items from BOTTOM on by a node that contains them. */
static bool collect_items(struct tracer *tracer, enum trace_kind kind, size_t bottom)
{
    struct trace_node *v = node_new(tracer, kind);
    if (!move_to_node(tracer, v, bottom))
        return false;
    tracer->u.top = bottom;
    return tracer_push(tracer, node_ref(v));
}

/* collect_above_mark - replaces the items above the last mark by one node that contains them. */
static bool collect_above_mark(struct tracer *tracer, enum trace_kind kind)
{
    size_t bottom;
    if (!unpickler_pop_mark(&tracer->u, &bottom))
        return false;
    if (kind == TRACE_DICT && (tracer->u.top - bottom) % 2)
        return unpickler_fail_pairs(&tracer->u, tracer->u.top - bottom);
    return collect_items(tracer, kind, bottom);
}

static bool op_tuple(struct tracer *tracer, size_t count)
{
    return unpickler_need(&tracer->u, count) && collect_items(tracer, TRACE_TUPLE, tracer->u.top - count);
}

/* push_opaque - pushes a value that is not known from the file. */
static bool push_opaque(struct tracer *tracer)
{
    struct trace_node *v = node_new(tracer, TRACE_OPAQUE);
    return v && tracer_push(tracer, node_ref(v));
}

static trace_ref report_import(struct tracer *tracer, struct trace_global *global)
{
    struct trace_step s = {.what = TRACE_STEP_IMPORT, .subject = node_ref(global)};
    return tracer_report(tracer, &s) ? node_ref(global) : 0;
}

static struct trace_global *new_global(struct tracer *tracer, ckpt_str module, ckpt_str name,
                                       bool is_constant)
{
    struct trace_global *g = ARENA_NEW(tracer->u.a, struct trace_global);
    if (!g) {
        unpickler_fail_memory(&tracer->u);
        return NULL;
    }
    g->node.kind = TRACE_GLOBAL;
    g->module = arena_str(tracer->u.a, module);
    g->name = arena_str(tracer->u.a, name);
    g->protocol = tracer->u.protocol;
    g->has_constant_name = is_constant;
    g->verdict = -1;
    if (g->module.ptr && g->name.ptr)
        return g;
    unpickler_fail_memory(&tracer->u);
    return NULL;
}

/* import_global - reports the import of a class or function, and returns a reference to it; 0: failed. */
MODULO static trace_ref import_global(struct tracer *tracer, ckpt_str module, ckpt_str name)
{
    size_t hash = module.len * 7 + name.len * 31;
    for (size_t i = 0; i < name.len; i++)
        hash = hash * 33 + (unsigned char)name.ptr[i];
    struct trace_global **slot = &tracer->seen_by_name[hash % SEEN_NAMES], *g = *slot;
    if (!g || g->protocol != tracer->u.protocol || !str_eq(g->module, module) || !str_eq(g->name, name))
        g = *slot = new_global(tracer, module, name, true);
    return g ? report_import(tracer, g) : 0;
}

/* read_global - returns the class or function whose module and name follow GLOBAL or INST; 0: failed. */
static trace_ref read_global(struct tracer *tracer)
{
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t module_len, name_len = 0;
    if (!tracer_read_line(tracer, module, &module_len))
        return 0;
    /* if the file ends after the module, pickle.py imports the module and reads an empty name */
    bool has_no_name = unpickler_bytes_left(&tracer->u) == 0 && !tracer->options->buffer_frames;
    if (has_no_name && module_len == 0)
        return unpickler_fail(&tracer->u, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    if (!has_no_name && !tracer_read_line(tracer, name, &name_len))
        return 0;
    return import_global(tracer, str_of(module, module_len), str_of(name, name_len));
}

/* may_be_any_object - returns true if REF may be an object of any type when the pickle is loaded. */
static bool may_be_any_object(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    return n && (n->kind == TRACE_GLOBAL || n->kind == TRACE_CALL || n->kind == TRACE_PERSID ||
                 n->kind == TRACE_OPAQUE);
}

/* is_never_text - returns true if REF is a class that is not str, or an instance of it. In a dump of joblib,
 * the pickle of an array of objects refers to its own memo; pickle.load, which goes on with the memo of the
 * dump, finds there what is no text. */
static bool is_never_text(trace_ref ref)
{
    static const char *const classes[][2] = {
        {"joblib.numpy_pickle", "NumpyArrayWrapper"}, {"numpy", "ndarray"}, {"numpy", "dtype"}};
    const struct trace_node *n = trace_node(ref);
    const struct trace_global *g = trace_global(n && n->kind == TRACE_CALL ? n->items[0] : ref);
    for (size_t i = 0; g && g->has_constant_name && i < sizeof classes / sizeof *classes; i++)
        if (str_is(g->module, classes[i][0]) && str_is(g->name, classes[i][1]))
            return true;
    return false;
}

static const char *get_kind_name(trace_ref ref)
{
    static const char *const names[] = {
        "a class or function", "an object", "a persistent object", "a tuple", "a list", "a dict", "a set",
        "a frozenset",         "an object"};
    const struct trace_node *n = trace_node(ref);
    const struct pickle_op *op = n ? NULL : pickle_op(trace_opcode(ref));
    return n ? names[n->kind] : op ? op->name : "a constant";
}

static bool op_stack_global(struct tracer *tracer)
{
    if (!unpickler_need(&tracer->u, 2))
        return false;
    trace_ref module_ref = tracer->stack[tracer->u.top - 2], name_ref = tracer->stack[tracer->u.top - 1];
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t module_len = 0, name_len = 0,
           slot = (size_t)((trace_offset(module_ref) * 31 + trace_offset(name_ref)) % SEEN_NAMES);
    tracer->u.top -= 2;
    bool has_texts = !is_never_text(module_ref) && !is_never_text(name_ref);
    if (has_texts && (may_be_any_object(module_ref) || may_be_any_object(name_ref))) {
        if (!may_be_any_object(module_ref))
            (void)tracer_read_text(tracer, module_ref, module, sizeof module, &module_len);
        if (!may_be_any_object(name_ref))
            (void)tracer_read_text(tracer, name_ref, name, sizeof name, &name_len);
        if (tracer->u.status != CKPT_OK)
            return false;
        struct trace_global *g = new_global(tracer, str_of(module, module_len), str_of(name, name_len),
                                            false);
        return g && tracer_push(tracer, report_import(tracer, g));
    }
    struct trace_global *seen = tracer->seen_by_refs[slot];
    if (seen && tracer->seen_refs[slot][0] == module_ref && tracer->seen_refs[slot][1] == name_ref &&
        seen->protocol == tracer->u.protocol)
        return tracer_push(tracer, report_import(tracer, seen));
    if (!has_texts || !tracer_read_text(tracer, module_ref, module, sizeof module, &module_len) ||
        !tracer_read_text(tracer, name_ref, name, sizeof name, &name_len))
        return tracer->u.status == CKPT_OK &&
               fail_op(tracer, "takes {=two texts, a module and a name}, found {%s and %s}",
                       get_kind_name(module_ref), get_kind_name(name_ref));
    trace_ref r = import_global(tracer, str_of(module, module_len), str_of(name, name_len));
    tracer->seen_by_refs[slot] = (struct trace_global *)(uintptr_t)trace_global(r);
    tracer->seen_refs[slot][0] = module_ref;
    tracer->seen_refs[slot][1] = name_ref;
    return tracer_push(tracer, r);
}

static bool push_call(struct tracer *tracer, trace_ref callable, trace_ref args, trace_ref kwargs)
{
    struct trace_node *v = node_new(tracer, TRACE_CALL);
    const trace_ref operands[3] = {callable, args, kwargs};
    if (!v || !node_report_globals(tracer, operands + 1, 2) ||
        !node_add_items(tracer, v, operands, kwargs ? 3 : 2, 3))
        return false;
    struct trace_step s = {
        .what = TRACE_STEP_CALL, .subject = node_ref(v), .number = ++tracer->result->calls};
    return tracer_report(tracer, &s) && tracer_push(tracer, node_ref(v));
}

/* can_be_arguments - returns true if a loader accepts REF as the arguments of a call. C unpicklers need a
 * tuple; pickle.py, which joblib uses, unpacks any iterable. */
static bool can_be_arguments(trace_ref ref)
{
    const struct trace_node *n = trace_node(ref);
    if (n)
        return true;
    return pickle_pushes(trace_opcode(ref), CKPT_V_STR, CKPT_V_BYTEARRAY);
}

static bool op_reduce(struct tracer *tracer)
{
    if (!unpickler_need(&tracer->u, 2))
        return false;
    trace_ref callable = tracer->stack[tracer->u.top - 2], args = tracer->stack[tracer->u.top - 1];
    if (!may_be_any_object(callable))
        return fail_op(tracer, "calls {%s}; {=a class, function or object} belongs there",
                       get_kind_name(callable));
    if (!can_be_arguments(args))
        return fail_op(tracer, "has {%s} for arguments; {=a tuple} belongs there", get_kind_name(args));
    tracer->u.top -= 2;
    return push_call(tracer, callable, args, 0);
}

static bool op_newobj_ex(struct tracer *tracer)
{
    if (!unpickler_need(&tracer->u, 3))
        return false;
    trace_ref callable = tracer->stack[tracer->u.top - 3], args = tracer->stack[tracer->u.top - 2],
              kwargs = tracer->stack[tracer->u.top - 1];
    const struct trace_node *k = trace_node(kwargs);
    if (!may_be_any_object(callable))
        return fail_op(tracer, "calls {%s}; {=a class} belongs there", get_kind_name(callable));
    if (!can_be_arguments(args) || !(may_be_any_object(kwargs) || (k && k->kind == TRACE_DICT)))
        return fail_op(tracer, "has {%s and %s} for arguments; {=a tuple and a dict} belong there",
                       get_kind_name(args), get_kind_name(kwargs));
    tracer->u.top -= 3;
    return push_call(tracer, callable, args, kwargs);
}

/* op_obj - runs OBJ and INST. Above the mark are the arguments; in OBJ, the class comes before them. */
static bool op_obj(struct tracer *tracer, trace_ref klass)
{
    size_t bottom;
    if (!unpickler_pop_mark(&tracer->u, &bottom))
        return false;
    if (tracer->u.op == PICKLE_OBJ && tracer->u.top == bottom)
        return fail_op(tracer, "finds {0 values} above the MARK; {=a class} belongs there");
    if (tracer->u.op == PICKLE_OBJ) {
        klass = tracer->stack[bottom];
        if (!may_be_any_object(klass))
            return fail_op(tracer, "calls {%s}; {=a class} belongs there", get_kind_name(klass));
        bottom++;
    }
    struct trace_node *args = node_new(tracer, TRACE_TUPLE);
    if (!move_to_node(tracer, args, bottom))
        return false;
    tracer->u.top = tracer->u.op == PICKLE_OBJ ? bottom - 1 : bottom;
    return push_call(tracer, klass, node_ref(args), 0);
}

static bool op_inst(struct tracer *tracer)
{
    trace_ref klass = read_global(tracer);
    return klass && op_obj(tracer, klass);
}

static bool op_persid(struct tracer *tracer)
{
    trace_ref id = tracer_constant_ref(tracer);
    if (tracer->u.op == PICKLE_PERSID ? !tracer_read_line(tracer, NULL, NULL)
                                      : !unpickler_need(&tracer->u, 1))
        return false;
    if (tracer->u.op == PICKLE_BINPERSID)
        id = tracer->stack[--tracer->u.top];
    struct trace_node *v = node_new(tracer, TRACE_PERSID);
    if (!v || !node_report_globals(tracer, &id, 1) || !node_add_items(tracer, v, &id, 1, 1))
        return false;
    struct trace_step s = {.what = TRACE_STEP_PERSID, .subject = id, .number = tracer->result->opcodes};
    return tracer_report(tracer, &s) && tracer_push(tracer, node_ref(v));
}

static bool report_change(struct tracer *tracer, trace_ref target, trace_ref operand)
{
    struct trace_step s = {.what = TRACE_STEP_CHANGE, .subject = target, .operand = operand};
    return tracer_report(tracer, &s);
}

/* add_state - adds STATE, with which BUILD changes TARGET, to TARGET if that is a call. Only the first state
 * is kept. */
static bool add_state(struct tracer *tracer, trace_ref target, trace_ref state)
{
    const trace_ref none = 0;
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    if (!v || v->kind != TRACE_CALL) {
        node_release(tracer, state);
        return true;
    }
    return (v->nitems > 2 || node_add_items(tracer, v, &none, 1, 4)) &&
           node_add_items(tracer, v, &state, 1, 4);
}

static bool op_build(struct tracer *tracer)
{
    if (!unpickler_need(&tracer->u, 2))
        return false;
    trace_ref state = tracer->stack[--tracer->u.top], target = tracer->stack[tracer->u.top - 1];
    return node_report_globals(tracer, &state, 1) && report_change(tracer, target, state) &&
           add_state(tracer, target, state) && joblib_skip_array(tracer, target, state);
}

/* is_bytearray - returns true if REF is a bytearray. APPEND and SETITEM accept it, because loaders call
 * append(), extend() and item assignment, which a bytearray has. */
static bool is_bytearray(trace_ref ref) { return !trace_node(ref) && trace_opcode(ref) == PICKLE_BYTEARRAY8; }

/* add_to_container - adds the stack items from BOTTOM on to the object below them. APPEND and APPENDS need a
 * list or bytearray, SETITEM and SETITEMS also accept a dict, ADDITEMS needs a set. */
static bool add_to_container(struct tracer *tracer, size_t bottom)
{
    if (bottom == tracer->u.fence)
        return unpickler_fail_underflow(&tracer->u, tracer->u.top - bottom + 1);
    trace_ref target = tracer->stack[bottom - 1];
    size_t n = tracer->u.top - bottom;
    bool has_pairs = tracer->u.op == PICKLE_SETITEM || tracer->u.op == PICKLE_SETITEMS;
    if (has_pairs && n % 2)
        return unpickler_fail_pairs(&tracer->u, n);
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    bool has_right_kind = v && (has_pairs ? v->kind == TRACE_DICT || v->kind == TRACE_LIST
                                : tracer->u.op == PICKLE_ADDITEMS ? v->kind == TRACE_SET
                                                                  : v->kind == TRACE_LIST);
    tracer->u.top = bottom;
    if (n == 0) /* pickle.py calls extend() even for no items */
        return tracer->u.op != PICKLE_APPENDS || !may_be_any_object(target) ||
               report_change(tracer, target, 0);
    bool is_for_bytearray = tracer->u.op != PICKLE_ADDITEMS && is_bytearray(target);
    if (!is_for_bytearray && !may_be_any_object(target) && !has_right_kind)
        return fail_op(tracer, "adds to {%s}; {=a %s} belongs there", get_kind_name(target),
                       has_pairs                         ? "dict"
                       : tracer->u.op == PICKLE_ADDITEMS ? "set"
                                                         : "list");
    if (!node_report_globals(tracer, tracer->stack + bottom, n) ||
        (may_be_any_object(target) && !report_change(tracer, target, tracer->stack[bottom])))
        return false;
    bool keeps_items = has_right_kind &&
                       !(has_pairs && v->kind == TRACE_LIST); /* replaced items of a list are not tracked */
    struct trace_node none = {.nkept = 0};
    return node_add_items(tracer, keeps_items ? v : &none, tracer->stack + bottom, n,
                          keeps_items ? KEEP_ITEMS : 0);
}

static bool add_above_mark(struct tracer *tracer)
{
    size_t bottom;
    return unpickler_pop_mark(&tracer->u, &bottom) && add_to_container(tracer, bottom);
}

/* push_constant - pushes the constant of the current opcode. If the argument was read after the loader's
 * buffer, a report could not find it again after the opcode, so an opaque value is pushed. */
static bool push_constant(struct tracer *tracer)
{
    return tracer->argument_after_buffer ? push_opaque(tracer)
                                         : tracer_push(tracer, tracer_constant_ref(tracer));
}

/* op_counted - pushes a text, bytes or integer; before its bytes is their number. */
static bool op_counted(struct tracer *tracer, const struct pickle_op *op)
{
    const unsigned char *b = tracer_take(tracer, op->width);
    if (!b)
        return false;
    uint64_t n = load_number(b, op->width, false);
    if (op->argument == PICKLE_ARG_BI4 && n > INT32_MAX)
        return unpickler_fail_length(&tracer->u, (int32_t)(uint32_t)n);
    bool is_bytes = pickle_pushes(tracer->u.op, CKPT_V_BYTES, CKPT_V_BYTEARRAY);
    if (tracer->options->reports_payloads && !payload_report_bytes(tracer, n))
        return false;
    return tracer_skip(tracer, n, is_bytes) && push_constant(tracer);
}

/* op_constant - runs an opcode that pushes a constant, by skipping its argument. */
static bool op_constant(struct tracer *tracer)
{
    const struct pickle_op *op = &pickle_ops[tracer->u.op];
    if (op->argument >= PICKLE_ARG_B1)
        return op_counted(tracer, op);
    if (op->argument != PICKLE_ARG_LINE)
        return (!op->width || tracer_take(tracer, op->width)) && push_constant(tracer);
    bool is_text = pickle_pushes(tracer->u.op, CKPT_V_STR, CKPT_V_STR8);
    return (tracer->options->reports_payloads && is_text ? payload_report_line(tracer)
                                                         : tracer_read_line(tracer, NULL, NULL)) &&
           push_constant(tracer);
}

static bool op_frame(struct tracer *tracer)
{
    const unsigned char *b = tracer_take(tracer, 8);
    if (!b)
        return false;
    uint64_t n = load_u64le(b), end = UINT64_MAX;
    if (tracer->options->buffer_frames)
        return tracer_ensure_buffered(tracer, n);
    bool in_frame = tracer->buffer_end != UINT64_MAX && unpickler_offset(&tracer->u) < tracer->buffer_end;
    if (!checked_add(unpickler_offset(&tracer->u), n, &end) || end > tracer->u.r.end || in_frame) {
        tracer->result->by_frame_differs = tracer->result->by_frame_differs || in_frame;
        if (!tracer_report_number(tracer, TRACE_STEP_FRAME, n))
            return false;
    }
    if (!in_frame)
        tracer->buffer_end = end;
    return true;
}

static bool drop_items(struct tracer *tracer, size_t bottom)
{
    for (size_t i = tracer->u.top; i > bottom && COUNT_DOWN(i);) {
        const struct trace_node *n = trace_node(tracer->stack[i]);
        struct trace_step s = {.what = TRACE_STEP_DROP, .subject = tracer->stack[i]};
        if (n && n->kind == TRACE_CALL && !n->shared && !tracer_report(tracer, &s))
            return false;
        node_release(tracer, tracer->stack[i]);
    }
    tracer->u.top = bottom;
    return true;
}

static bool op_pop(struct tracer *tracer)
{
    size_t bottom;
    if (tracer->u.nmarks && tracer->u.fence == tracer->u.top)
        return unpickler_pop_mark(&tracer->u, &bottom);
    return unpickler_need(&tracer->u, 1) && drop_items(tracer, tracer->u.top - 1);
}

/* op_memo - calls RUN (tracer_get_memo, tracer_put_memo) with the memo index in the next WIDTH bytes. */
static bool op_memo(struct tracer *tracer, size_t width, bool (*run)(struct tracer *, uint64_t))
{
    const unsigned char *b = tracer_take(tracer, width);
    return b && run(tracer, width == 1 ? b[0] : load_u32le(b));
}

static bool op_extension(struct tracer *tracer)
{
    const unsigned char *b = tracer_take(tracer, tracer->u.op == PICKLE_EXT1   ? 1
                                                 : tracer->u.op == PICKLE_EXT2 ? 2
                                                                               : 4);
    if (!b)
        return false;
    uint32_t code = tracer->u.op == PICKLE_EXT1   ? b[0]
                    : tracer->u.op == PICKLE_EXT2 ? load_u16le(b)
                                                  : load_u32le(b);
    return tracer_report_number(tracer, TRACE_STEP_EXTENSION, code) && push_opaque(tracer);
}

static bool op_proto(struct tracer *tracer)
{
    const unsigned char *b = tracer_take(tracer, 1);
    return b && unpickler_set_protocol(&tracer->u, *b);
}

static bool op_pop_mark(struct tracer *tracer)
{
    size_t bottom;
    return unpickler_pop_mark(&tracer->u, &bottom) && drop_items(tracer, bottom);
}

static bool op_dup(struct tracer *tracer)
{
    if (!unpickler_need(&tracer->u, 1))
        return false;
    tracer_mark_shared(tracer->stack[tracer->u.top - 1]);
    return tracer_push(tracer, tracer->stack[tracer->u.top - 1]);
}

/* run_op - runs an opcode other than STOP. */
static bool run_op(struct tracer *tracer)
{
    switch (tracer->u.op) {
    case PICKLE_MARK: return unpickler_push_mark(&tracer->u);
    case PICKLE_POP: return op_pop(tracer);
    case PICKLE_POP_MARK: return op_pop_mark(tracer);
    case PICKLE_DUP: return op_dup(tracer);
    case PICKLE_PERSID:
    case PICKLE_BINPERSID: return op_persid(tracer);
    case PICKLE_REDUCE:
    case PICKLE_NEWOBJ: return op_reduce(tracer);
    case PICKLE_NEWOBJ_EX: return op_newobj_ex(tracer);
    case PICKLE_OBJ: return op_obj(tracer, 0);
    case PICKLE_INST: return op_inst(tracer);
    case PICKLE_BUILD: return op_build(tracer);
    case PICKLE_GLOBAL: return tracer_push(tracer, read_global(tracer));
    case PICKLE_STACK_GLOBAL: return op_stack_global(tracer);
    case PICKLE_EXT1:
    case PICKLE_EXT2:
    case PICKLE_EXT4: return op_extension(tracer);
    case PICKLE_APPEND: return unpickler_need(&tracer->u, 1) && add_to_container(tracer, tracer->u.top - 1);
    case PICKLE_SETITEM: return unpickler_need(&tracer->u, 2) && add_to_container(tracer, tracer->u.top - 2);
    case PICKLE_APPENDS:
    case PICKLE_SETITEMS:
    case PICKLE_ADDITEMS: return add_above_mark(tracer);
    case PICKLE_DICT: return collect_above_mark(tracer, TRACE_DICT);
    case PICKLE_LIST: return collect_above_mark(tracer, TRACE_LIST);
    case PICKLE_TUPLE: return collect_above_mark(tracer, TRACE_TUPLE);
    case PICKLE_FROZENSET: return collect_above_mark(tracer, TRACE_FROZENSET);
    case PICKLE_EMPTY_DICT: return collect_items(tracer, TRACE_DICT, tracer->u.top);
    case PICKLE_EMPTY_LIST: return collect_items(tracer, TRACE_LIST, tracer->u.top);
    case PICKLE_EMPTY_SET: return collect_items(tracer, TRACE_SET, tracer->u.top);
    case PICKLE_EMPTY_TUPLE: return collect_items(tracer, TRACE_TUPLE, tracer->u.top);
    case PICKLE_TUPLE1: return op_tuple(tracer, 1);
    case PICKLE_TUPLE2: return op_tuple(tracer, 2);
    case PICKLE_TUPLE3: return op_tuple(tracer, 3);
    case PICKLE_GET:
    case PICKLE_PUT: return tracer_run_memo_line(tracer);
    case PICKLE_BINGET: return op_memo(tracer, 1, tracer_get_memo);
    case PICKLE_LONG_BINGET: return op_memo(tracer, 4, tracer_get_memo);
    case PICKLE_BINPUT: return op_memo(tracer, 1, tracer_put_memo);
    case PICKLE_LONG_BINPUT: return op_memo(tracer, 4, tracer_put_memo);
    case PICKLE_MEMOIZE: return tracer_put_memo(tracer, tracer->u.memo_count);
    case PICKLE_PROTO: return op_proto(tracer);
    case PICKLE_FRAME: return op_frame(tracer);
    case PICKLE_NEXT_BUFFER: return tracer_report_number(tracer, TRACE_STEP_BUFFER, 0) && push_opaque(tracer);
    case PICKLE_READONLY_BUFFER: return unpickler_need(&tracer->u, 1);
    default:
        return pickle_ops[tracer->u.op].is_constant ? op_constant(tracer) : unpickler_fail_opcode(&tracer->u);
    }
}

/* end_exceeded_frame - ends the frame. If the opcode that just ran began in the frame, reports that its
 * argument crosses the end. */
static bool end_exceeded_frame(struct tracer *tracer)
{
    bool began_inside = tracer->u.at < tracer->buffer_end;
    tracer->buffer_end = UINT64_MAX;
    if (!began_inside)
        return true;
    tracer->result->by_frame_differs = true;
    return tracer_report_number(tracer, TRACE_STEP_FRAME, 0);
}

static bool run_pickle(struct tracer *tracer)
{
    for (;;) {
        tracer->u.at = unpickler_offset(&tracer->u);
        if (tracer->u.at == tracer->u.r.end) {
            tracer->u.op = 0;
            return unpickler_fail(&tracer->u, CKPT_ETRUNCATED, "the pickle {ends} without {=STOP}");
        }
        const unsigned char *b = tracer_take(tracer, 1);
        if (!b)
            return false;
        if (tracer->options->buffer_frames)
            tracer->u.at = unpickler_offset(&tracer->u) - 1;
        tracer->u.op = *b;
        tracer->argument_after_buffer = false;
        tracer->result->opcodes++;
        if (tracer->options->opcodes_left && !COUNT_DOWN(*tracer->options->opcodes_left)) {
            return unpickler_fail(&tracer->u, CKPT_ELIMIT,
                                  "is one opcode more than are followed in a file of this size");
        }
        if (tracer->u.at < tracer->result->first_use[tracer->u.op])
            tracer->result->first_use[tracer->u.op] = tracer->u.at;
        if (tracer->u.op == PICKLE_STOP)
            break;
        if (!run_op(tracer))
            return false;
        bool exceeds = !tracer->options->buffer_frames && unpickler_offset(&tracer->u) > tracer->buffer_end;
        if (exceeds && tracer->u.op != PICKLE_FRAME && !end_exceeded_frame(tracer))
            return false;
    }
    size_t nbelow = tracer->u.top ? tracer->u.top - 1 : 0;
    if (!unpickler_need(&tracer->u, 1) || !node_report_globals(tracer, tracer->stack + tracer->u.top - 1, 1))
        return false;
    tracer->result->reached_stop = true;
    return nbelow + tracer->u.nmarks == 0 ||
           tracer_report_number(tracer, TRACE_STEP_LEFTOVER, nbelow + tracer->u.nmarks);
}

static ckpt_value *read_value(const struct trace *trace, trace_ref ref, arena *a, size_t nodes,
                              ckpt_error *err)
{
    return pickle_build_value(((const struct tracer *)trace)->u.r.src, ref, a, nodes, err);
}

/* choose_memory_limit - returns the maximum size of the arena for a pickle of LENGTH bytes. */
static uint64_t choose_memory_limit(uint64_t length, const struct trace_options *opts)
{
    uint64_t limit;
    if (opts->max_memory)
        return opts->max_memory;
    return checked_mul(length, 16, &limit) && limit > MIN_MEMORY_LIMIT ? limit : MIN_MEMORY_LIMIT;
}

ckpt_status pickle_trace(source *src, uint64_t pos, uint64_t end, const struct trace_options *opts,
                         struct trace_end *out, ckpt_error *err)
{
    struct tracer *t = calloc(1, sizeof *t);
    arena *a = arena_new(choose_memory_limit(end > pos ? end - pos : 0, opts));
    ckpt_status st = t && a ? CKPT_OK : fail_memory(err);
    *out = (struct trace_end){.next_offset = pos, .calls = opts->calls_before};
    memset(out->first_use, 0xff, sizeof out->first_use);
    if (st != CKPT_OK)
        goto done;
    t->t.value = read_value;
    t->options = opts;
    t->result = out;
    t->buffer_end = opts->buffer_frames ? pos : UINT64_MAX;
    if (unpickler_init(&t->u, a, src, pos, end, err) == CKPT_OK) {
        (void)run_pickle(t);
        out->next_offset = out->reached_stop ? unpickler_offset(&t->u) : t->u.at;
    }
    st = t->u.status;
    unpickler_free(&t->u);
    map_free(t->huge_indexes);
    free(t->line);
    free(t->stack);
done:
    arena_free(a);
    free(t);
    return st;
}
