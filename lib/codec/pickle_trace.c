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

static bool move_to_node(struct tracer *t, struct trace_node *v, size_t bottom)
{
    const trace_ref *items = t->u.top > bottom ? t->stack + bottom : NULL;
    return v && node_report_globals(t, items, t->u.top - bottom) &&
           node_add_items(t, v, items, t->u.top - bottom, KEEP_ITEMS);
}

/* collect_items - replaces the stack items from BOTTOM on by a node that contains them. */
static bool collect_items(struct tracer *t, enum trace_kind kind, size_t bottom)
{
    struct trace_node *v = node_new(t, kind);
    if (!move_to_node(t, v, bottom))
        return false;
    t->u.top = bottom;
    return tracer_push(t, node_ref(v));
}

/* collect_above_mark - replaces the items above the last mark by one node that contains them. */
static bool collect_above_mark(struct tracer *t, enum trace_kind kind)
{
    size_t bottom;
    if (!unpickler_pop_mark(&t->u, &bottom))
        return false;
    if (kind == TRACE_DICT && (t->u.top - bottom) % 2)
        return unpickler_fail_pairs(&t->u, t->u.top - bottom);
    return collect_items(t, kind, bottom);
}

static bool op_tuple(struct tracer *t, size_t n)
{
    return unpickler_need(&t->u, n) && collect_items(t, TRACE_TUPLE, t->u.top - n);
}

/* push_opaque - pushes a value that is not known from the file. */
static bool push_opaque(struct tracer *t)
{
    struct trace_node *v = node_new(t, TRACE_OPAQUE);
    return v && tracer_push(t, node_ref(v));
}

static trace_ref report_import(struct tracer *t, struct trace_global *g)
{
    struct trace_step s = {.what = TRACE_STEP_IMPORT, .subject = node_ref(g)};
    return tracer_report(t, &s) ? node_ref(g) : 0;
}

static struct trace_global *new_global(struct tracer *t, ckpt_str module, ckpt_str name, bool is_constant)
{
    struct trace_global *g = ARENA_NEW(t->u.a, struct trace_global);
    if (!g) {
        unpickler_fail_memory(&t->u);
        return NULL;
    }
    g->node.kind = TRACE_GLOBAL;
    g->module = arena_str(t->u.a, module);
    g->name = arena_str(t->u.a, name);
    g->protocol = t->u.protocol;
    g->has_constant_name = is_constant;
    g->verdict = -1;
    if (g->module.ptr && g->name.ptr)
        return g;
    unpickler_fail_memory(&t->u);
    return NULL;
}

/* import_global - reports the import of a class or function, and returns a reference to it; 0: failed. */
MODULO static trace_ref import_global(struct tracer *t, ckpt_str module, ckpt_str name)
{
    size_t hash = module.len * 7 + name.len * 31;
    for (size_t i = 0; i < name.len; i++)
        hash = hash * 33 + (unsigned char)name.ptr[i];
    struct trace_global **slot = &t->seen_by_name[hash % SEEN_NAMES], *g = *slot;
    if (!g || g->protocol != t->u.protocol || !str_eq(g->module, module) || !str_eq(g->name, name))
        g = *slot = new_global(t, module, name, true);
    return g ? report_import(t, g) : 0;
}

/* read_global - returns the class or function whose module and name follow GLOBAL or INST; 0: failed. */
static trace_ref read_global(struct tracer *t)
{
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t module_len, name_len = 0;
    if (!tracer_read_line(t, module, &module_len))
        return 0;
    /* if the file ends after the module, pickle.py imports the module and reads an empty name */
    bool has_no_name = unpickler_bytes_left(&t->u) == 0 && !t->options->buffer_frames;
    if (has_no_name && module_len == 0)
        return unpickler_fail(&t->u, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    if (!has_no_name && !tracer_read_line(t, name, &name_len))
        return 0;
    return import_global(t, str_of(module, module_len), str_of(name, name_len));
}

/* may_be_any_object - returns true if R may be an object of any type when the pickle is loaded. */
static bool may_be_any_object(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    return n && (n->kind == TRACE_GLOBAL || n->kind == TRACE_CALL || n->kind == TRACE_PERSID ||
                 n->kind == TRACE_OPAQUE);
}

/* is_never_text - returns true if R is a class that is not str, or an instance of it. In a dump of joblib,
 * the pickle of an array of objects refers to its own memo; pickle.load, which goes on with the memo of the
 * dump, finds there what is no text. */
static bool is_never_text(trace_ref r)
{
    static const char *const classes[][2] = {
        {"joblib.numpy_pickle", "NumpyArrayWrapper"}, {"numpy", "ndarray"}, {"numpy", "dtype"}};
    const struct trace_node *n = trace_node(r);
    const struct trace_global *g = trace_global(n && n->kind == TRACE_CALL ? n->items[0] : r);
    for (size_t i = 0; g && g->has_constant_name && i < sizeof classes / sizeof *classes; i++)
        if (str_is(g->module, classes[i][0]) && str_is(g->name, classes[i][1]))
            return true;
    return false;
}

static const char *get_kind_name(trace_ref r)
{
    static const char *const names[] = {
        "a class or function", "an object", "a persistent object", "a tuple", "a list", "a dict", "a set",
        "a frozenset",         "an object"};
    const struct trace_node *n = trace_node(r);
    const struct pickle_op *op = n ? NULL : pickle_op(trace_opcode(r));
    return n ? names[n->kind] : op ? op->name : "a constant";
}

static bool op_stack_global(struct tracer *t)
{
    if (!unpickler_need(&t->u, 2))
        return false;
    trace_ref module_ref = t->stack[t->u.top - 2], name_ref = t->stack[t->u.top - 1];
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t module_len = 0, name_len = 0,
           slot = (size_t)((trace_offset(module_ref) * 31 + trace_offset(name_ref)) % SEEN_NAMES);
    t->u.top -= 2;
    bool has_texts = !is_never_text(module_ref) && !is_never_text(name_ref);
    if (has_texts && (may_be_any_object(module_ref) || may_be_any_object(name_ref))) {
        if (!may_be_any_object(module_ref))
            (void)tracer_read_text(t, module_ref, module, sizeof module, &module_len);
        if (!may_be_any_object(name_ref))
            (void)tracer_read_text(t, name_ref, name, sizeof name, &name_len);
        if (t->u.status != CKPT_OK)
            return false;
        struct trace_global *g = new_global(t, str_of(module, module_len), str_of(name, name_len), false);
        return g && tracer_push(t, report_import(t, g));
    }
    struct trace_global *seen = t->seen_by_refs[slot];
    if (seen && t->seen_refs[slot][0] == module_ref && t->seen_refs[slot][1] == name_ref &&
        seen->protocol == t->u.protocol)
        return tracer_push(t, report_import(t, seen));
    if (!has_texts || !tracer_read_text(t, module_ref, module, sizeof module, &module_len) ||
        !tracer_read_text(t, name_ref, name, sizeof name, &name_len))
        return t->u.status == CKPT_OK &&
               fail_op(t, "takes {=two texts, a module and a name}, found {%s and %s}",
                       get_kind_name(module_ref), get_kind_name(name_ref));
    trace_ref r = import_global(t, str_of(module, module_len), str_of(name, name_len));
    t->seen_by_refs[slot] = (struct trace_global *)(uintptr_t)trace_global(r);
    t->seen_refs[slot][0] = module_ref;
    t->seen_refs[slot][1] = name_ref;
    return tracer_push(t, r);
}

static bool push_call(struct tracer *t, trace_ref callable, trace_ref args, trace_ref kwargs)
{
    struct trace_node *v = node_new(t, TRACE_CALL);
    const trace_ref operands[3] = {callable, args, kwargs};
    if (!v || !node_report_globals(t, operands + 1, 2) || !node_add_items(t, v, operands, kwargs ? 3 : 2, 3))
        return false;
    struct trace_step s = {.what = TRACE_STEP_CALL, .subject = node_ref(v), .number = ++t->result->calls};
    return tracer_report(t, &s) && tracer_push(t, node_ref(v));
}

/* can_be_arguments - returns true if a loader accepts R as the arguments of a call. C unpicklers need a
 * tuple; pickle.py, which joblib uses, unpacks any iterable. */
static bool can_be_arguments(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    if (n)
        return true;
    return pickle_pushes(trace_opcode(r), CKPT_V_STR, CKPT_V_BYTEARRAY);
}

static bool op_reduce(struct tracer *t)
{
    if (!unpickler_need(&t->u, 2))
        return false;
    trace_ref callable = t->stack[t->u.top - 2], args = t->stack[t->u.top - 1];
    if (!may_be_any_object(callable))
        return fail_op(t, "calls {%s}; {=a class, function or object} belongs there",
                       get_kind_name(callable));
    if (!can_be_arguments(args))
        return fail_op(t, "has {%s} for arguments; {=a tuple} belongs there", get_kind_name(args));
    t->u.top -= 2;
    return push_call(t, callable, args, 0);
}

static bool op_newobj_ex(struct tracer *t)
{
    if (!unpickler_need(&t->u, 3))
        return false;
    trace_ref callable = t->stack[t->u.top - 3], args = t->stack[t->u.top - 2],
              kwargs = t->stack[t->u.top - 1];
    const struct trace_node *k = trace_node(kwargs);
    if (!may_be_any_object(callable))
        return fail_op(t, "calls {%s}; {=a class} belongs there", get_kind_name(callable));
    if (!can_be_arguments(args) || !(may_be_any_object(kwargs) || (k && k->kind == TRACE_DICT)))
        return fail_op(t, "has {%s and %s} for arguments; {=a tuple and a dict} belong there",
                       get_kind_name(args), get_kind_name(kwargs));
    t->u.top -= 3;
    return push_call(t, callable, args, kwargs);
}

/* op_obj - runs OBJ and INST. Above the mark are the arguments; in OBJ, the class comes before them. */
static bool op_obj(struct tracer *t, trace_ref klass)
{
    size_t bottom;
    if (!unpickler_pop_mark(&t->u, &bottom))
        return false;
    if (t->u.op == PICKLE_OBJ && t->u.top == bottom)
        return fail_op(t, "finds {0 values} above the MARK; {=a class} belongs there");
    if (t->u.op == PICKLE_OBJ) {
        klass = t->stack[bottom];
        if (!may_be_any_object(klass))
            return fail_op(t, "calls {%s}; {=a class} belongs there", get_kind_name(klass));
        bottom++;
    }
    struct trace_node *args = node_new(t, TRACE_TUPLE);
    if (!move_to_node(t, args, bottom))
        return false;
    t->u.top = t->u.op == PICKLE_OBJ ? bottom - 1 : bottom;
    return push_call(t, klass, node_ref(args), 0);
}

static bool op_inst(struct tracer *t)
{
    trace_ref klass = read_global(t);
    return klass && op_obj(t, klass);
}

static bool op_persid(struct tracer *t)
{
    trace_ref id = tracer_constant_ref(t);
    if (t->u.op == PICKLE_PERSID ? !tracer_read_line(t, NULL, NULL) : !unpickler_need(&t->u, 1))
        return false;
    if (t->u.op == PICKLE_BINPERSID)
        id = t->stack[--t->u.top];
    struct trace_node *v = node_new(t, TRACE_PERSID);
    if (!v || !node_report_globals(t, &id, 1) || !node_add_items(t, v, &id, 1, 1))
        return false;
    struct trace_step s = {.what = TRACE_STEP_PERSID, .subject = id, .number = t->result->opcodes};
    return tracer_report(t, &s) && tracer_push(t, node_ref(v));
}

static bool report_change(struct tracer *t, trace_ref target, trace_ref operand)
{
    struct trace_step s = {.what = TRACE_STEP_CHANGE, .subject = target, .operand = operand};
    return tracer_report(t, &s);
}

/* add_state - adds STATE, with which BUILD changes TARGET, to TARGET if that is a call. Only the first state
 * is kept. */
static bool add_state(struct tracer *t, trace_ref target, trace_ref state)
{
    const trace_ref none = 0;
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    if (!v || v->kind != TRACE_CALL) {
        node_release(t, state);
        return true;
    }
    return (v->nitems > 2 || node_add_items(t, v, &none, 1, 4)) && node_add_items(t, v, &state, 1, 4);
}

static bool op_build(struct tracer *t)
{
    if (!unpickler_need(&t->u, 2))
        return false;
    trace_ref state = t->stack[--t->u.top], target = t->stack[t->u.top - 1];
    return node_report_globals(t, &state, 1) && report_change(t, target, state) &&
           add_state(t, target, state) && joblib_skip_array(t, target, state);
}

/* is_bytearray - returns true if R is a bytearray. APPEND and SETITEM accept it, because loaders call
 * append(), extend() and item assignment, which a bytearray has. */
static bool is_bytearray(trace_ref r) { return !trace_node(r) && trace_opcode(r) == PICKLE_BYTEARRAY8; }

/* add_to_container - adds the stack items from BOTTOM on to the object below them. APPEND and APPENDS need a
 * list or bytearray, SETITEM and SETITEMS also accept a dict, ADDITEMS needs a set. */
static bool add_to_container(struct tracer *t, size_t bottom)
{
    if (bottom == t->u.fence)
        return unpickler_fail_underflow(&t->u, t->u.top - bottom + 1);
    trace_ref target = t->stack[bottom - 1];
    size_t n = t->u.top - bottom;
    bool has_pairs = t->u.op == PICKLE_SETITEM || t->u.op == PICKLE_SETITEMS;
    if (has_pairs && n % 2)
        return unpickler_fail_pairs(&t->u, n);
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    bool has_right_kind = v && (has_pairs                    ? v->kind == TRACE_DICT || v->kind == TRACE_LIST
                                : t->u.op == PICKLE_ADDITEMS ? v->kind == TRACE_SET
                                                             : v->kind == TRACE_LIST);
    t->u.top = bottom;
    if (n == 0) /* pickle.py calls extend() even for no items */
        return t->u.op != PICKLE_APPENDS || !may_be_any_object(target) || report_change(t, target, 0);
    bool is_for_bytearray = t->u.op != PICKLE_ADDITEMS && is_bytearray(target);
    if (!is_for_bytearray && !may_be_any_object(target) && !has_right_kind)
        return fail_op(t, "adds to {%s}; {=a %s} belongs there", get_kind_name(target),
                       has_pairs                    ? "dict"
                       : t->u.op == PICKLE_ADDITEMS ? "set"
                                                    : "list");
    if (!node_report_globals(t, t->stack + bottom, n) ||
        (may_be_any_object(target) && !report_change(t, target, t->stack[bottom])))
        return false;
    bool keeps_items = has_right_kind &&
                       !(has_pairs && v->kind == TRACE_LIST); /* replaced items of a list are not tracked */
    struct trace_node none = {.nkept = 0};
    return node_add_items(t, keeps_items ? v : &none, t->stack + bottom, n, keeps_items ? KEEP_ITEMS : 0);
}

static bool add_above_mark(struct tracer *t)
{
    size_t bottom;
    return unpickler_pop_mark(&t->u, &bottom) && add_to_container(t, bottom);
}

/* push_constant - pushes the constant of the current opcode. If the argument was read after the loader's
 * buffer, a report could not find it again after the opcode, so an opaque value is pushed. */
static bool push_constant(struct tracer *t)
{
    return t->argument_after_buffer ? push_opaque(t) : tracer_push(t, tracer_constant_ref(t));
}

/* op_counted - pushes a text, bytes or integer; before its bytes is their number. */
static bool op_counted(struct tracer *t, const struct pickle_op *op)
{
    const unsigned char *b = tracer_take(t, op->width);
    if (!b)
        return false;
    uint64_t n = load_number(b, op->width, false);
    if (op->argument == PICKLE_ARG_BI4 && n > INT32_MAX)
        return unpickler_fail_length(&t->u, (int32_t)(uint32_t)n);
    bool is_bytes = pickle_pushes(t->u.op, CKPT_V_BYTES, CKPT_V_BYTEARRAY);
    if (t->options->reports_payloads && !payload_report_bytes(t, n))
        return false;
    return tracer_skip(t, n, is_bytes) && push_constant(t);
}

/* op_constant - runs an opcode that pushes a constant, by skipping its argument. */
static bool op_constant(struct tracer *t)
{
    const struct pickle_op *op = &pickle_ops[t->u.op];
    if (op->argument >= PICKLE_ARG_B1)
        return op_counted(t, op);
    if (op->argument != PICKLE_ARG_LINE)
        return (!op->width || tracer_take(t, op->width)) && push_constant(t);
    bool is_text = pickle_pushes(t->u.op, CKPT_V_STR, CKPT_V_STR8);
    return (t->options->reports_payloads && is_text ? payload_report_line(t)
                                                    : tracer_read_line(t, NULL, NULL)) &&
           push_constant(t);
}

static bool op_frame(struct tracer *t)
{
    const unsigned char *b = tracer_take(t, 8);
    if (!b)
        return false;
    uint64_t n = load_u64le(b), end = UINT64_MAX;
    if (t->options->buffer_frames)
        return tracer_ensure_buffered(t, n);
    bool in_frame = t->buffer_end != UINT64_MAX && unpickler_offset(&t->u) < t->buffer_end;
    if (!checked_add(unpickler_offset(&t->u), n, &end) || end > t->u.r.end || in_frame) {
        t->result->by_frame_differs = t->result->by_frame_differs || in_frame;
        if (!tracer_report_number(t, TRACE_STEP_FRAME, n))
            return false;
    }
    if (!in_frame)
        t->buffer_end = end;
    return true;
}

static bool drop_items(struct tracer *t, size_t bottom)
{
    for (size_t i = t->u.top; i > bottom && COUNT_DOWN(i);) {
        const struct trace_node *n = trace_node(t->stack[i]);
        struct trace_step s = {.what = TRACE_STEP_DROP, .subject = t->stack[i]};
        if (n && n->kind == TRACE_CALL && !n->shared && !tracer_report(t, &s))
            return false;
        node_release(t, t->stack[i]);
    }
    t->u.top = bottom;
    return true;
}

static bool op_pop(struct tracer *t)
{
    size_t bottom;
    if (t->u.nmarks && t->u.fence == t->u.top)
        return unpickler_pop_mark(&t->u, &bottom);
    return unpickler_need(&t->u, 1) && drop_items(t, t->u.top - 1);
}

/* op_memo - calls RUN (tracer_get_memo, tracer_put_memo) with the memo index in the next WIDTH bytes. */
static bool op_memo(struct tracer *t, size_t width, bool (*run)(struct tracer *, uint64_t))
{
    const unsigned char *b = tracer_take(t, width);
    return b && run(t, width == 1 ? b[0] : load_u32le(b));
}

static bool op_extension(struct tracer *t)
{
    const unsigned char *b = tracer_take(t, t->u.op == PICKLE_EXT1 ? 1 : t->u.op == PICKLE_EXT2 ? 2 : 4);
    if (!b)
        return false;
    uint32_t code = t->u.op == PICKLE_EXT1 ? b[0] : t->u.op == PICKLE_EXT2 ? load_u16le(b) : load_u32le(b);
    return tracer_report_number(t, TRACE_STEP_EXTENSION, code) && push_opaque(t);
}

static bool op_proto(struct tracer *t)
{
    const unsigned char *b = tracer_take(t, 1);
    return b && unpickler_set_protocol(&t->u, *b);
}

static bool op_pop_mark(struct tracer *t)
{
    size_t bottom;
    return unpickler_pop_mark(&t->u, &bottom) && drop_items(t, bottom);
}

static bool op_dup(struct tracer *t)
{
    if (!unpickler_need(&t->u, 1))
        return false;
    tracer_mark_shared(t->stack[t->u.top - 1]);
    return tracer_push(t, t->stack[t->u.top - 1]);
}

/* run_op - runs an opcode other than STOP. */
static bool run_op(struct tracer *t)
{
    switch (t->u.op) {
    case PICKLE_MARK: return unpickler_push_mark(&t->u);
    case PICKLE_POP: return op_pop(t);
    case PICKLE_POP_MARK: return op_pop_mark(t);
    case PICKLE_DUP: return op_dup(t);
    case PICKLE_PERSID:
    case PICKLE_BINPERSID: return op_persid(t);
    case PICKLE_REDUCE:
    case PICKLE_NEWOBJ: return op_reduce(t);
    case PICKLE_NEWOBJ_EX: return op_newobj_ex(t);
    case PICKLE_OBJ: return op_obj(t, 0);
    case PICKLE_INST: return op_inst(t);
    case PICKLE_BUILD: return op_build(t);
    case PICKLE_GLOBAL: return tracer_push(t, read_global(t));
    case PICKLE_STACK_GLOBAL: return op_stack_global(t);
    case PICKLE_EXT1:
    case PICKLE_EXT2:
    case PICKLE_EXT4: return op_extension(t);
    case PICKLE_APPEND: return unpickler_need(&t->u, 1) && add_to_container(t, t->u.top - 1);
    case PICKLE_SETITEM: return unpickler_need(&t->u, 2) && add_to_container(t, t->u.top - 2);
    case PICKLE_APPENDS:
    case PICKLE_SETITEMS:
    case PICKLE_ADDITEMS: return add_above_mark(t);
    case PICKLE_DICT: return collect_above_mark(t, TRACE_DICT);
    case PICKLE_LIST: return collect_above_mark(t, TRACE_LIST);
    case PICKLE_TUPLE: return collect_above_mark(t, TRACE_TUPLE);
    case PICKLE_FROZENSET: return collect_above_mark(t, TRACE_FROZENSET);
    case PICKLE_EMPTY_DICT: return collect_items(t, TRACE_DICT, t->u.top);
    case PICKLE_EMPTY_LIST: return collect_items(t, TRACE_LIST, t->u.top);
    case PICKLE_EMPTY_SET: return collect_items(t, TRACE_SET, t->u.top);
    case PICKLE_EMPTY_TUPLE: return collect_items(t, TRACE_TUPLE, t->u.top);
    case PICKLE_TUPLE1: return op_tuple(t, 1);
    case PICKLE_TUPLE2: return op_tuple(t, 2);
    case PICKLE_TUPLE3: return op_tuple(t, 3);
    case PICKLE_GET:
    case PICKLE_PUT: return tracer_run_memo_line(t);
    case PICKLE_BINGET: return op_memo(t, 1, tracer_get_memo);
    case PICKLE_LONG_BINGET: return op_memo(t, 4, tracer_get_memo);
    case PICKLE_BINPUT: return op_memo(t, 1, tracer_put_memo);
    case PICKLE_LONG_BINPUT: return op_memo(t, 4, tracer_put_memo);
    case PICKLE_MEMOIZE: return tracer_put_memo(t, t->u.memo_count);
    case PICKLE_PROTO: return op_proto(t);
    case PICKLE_FRAME: return op_frame(t);
    case PICKLE_NEXT_BUFFER: return tracer_report_number(t, TRACE_STEP_BUFFER, 0) && push_opaque(t);
    case PICKLE_READONLY_BUFFER: return unpickler_need(&t->u, 1);
    default: return pickle_ops[t->u.op].is_constant ? op_constant(t) : unpickler_fail_opcode(&t->u);
    }
}

/* end_exceeded_frame - ends the frame. If the opcode that just ran began in the frame, reports that its
 * argument crosses the end. */
static bool end_exceeded_frame(struct tracer *t)
{
    bool began_inside = t->u.at < t->buffer_end;
    t->buffer_end = UINT64_MAX;
    if (!began_inside)
        return true;
    t->result->by_frame_differs = true;
    return tracer_report_number(t, TRACE_STEP_FRAME, 0);
}

static bool run_pickle(struct tracer *t)
{
    for (;;) {
        t->u.at = unpickler_offset(&t->u);
        if (t->u.at == t->u.r.end) {
            t->u.op = 0;
            return unpickler_fail(&t->u, CKPT_ETRUNCATED, "the pickle {ends} without {=STOP}");
        }
        const unsigned char *b = tracer_take(t, 1);
        if (!b)
            return false;
        if (t->options->buffer_frames)
            t->u.at = unpickler_offset(&t->u) - 1;
        t->u.op = *b;
        t->argument_after_buffer = false;
        t->result->opcodes++;
        if (t->options->opcodes_left && !COUNT_DOWN(*t->options->opcodes_left)) {
            return unpickler_fail(&t->u, CKPT_ELIMIT,
                                  "is one opcode more than are followed in a file of this size");
        }
        if (t->u.at < t->result->first_use[t->u.op])
            t->result->first_use[t->u.op] = t->u.at;
        if (t->u.op == PICKLE_STOP)
            break;
        if (!run_op(t))
            return false;
        bool exceeds = !t->options->buffer_frames && unpickler_offset(&t->u) > t->buffer_end;
        if (exceeds && t->u.op != PICKLE_FRAME && !end_exceeded_frame(t))
            return false;
    }
    size_t nbelow = t->u.top ? t->u.top - 1 : 0;
    if (!unpickler_need(&t->u, 1) || !node_report_globals(t, t->stack + t->u.top - 1, 1))
        return false;
    t->result->reached_stop = true;
    return nbelow + t->u.nmarks == 0 || tracer_report_number(t, TRACE_STEP_LEFTOVER, nbelow + t->u.nmarks);
}

static ckpt_value *read_value(const struct trace *trace, trace_ref r, arena *a, size_t nodes, ckpt_error *err)
{
    return pickle_build_value(((const struct tracer *)trace)->u.r.src, r, a, nodes, err);
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
