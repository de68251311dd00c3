/* pickle_read.c - see pickle_read.h. A pickle is a program for a machine with a stack, marks on it and a
 * memo. This file runs it and creates a node where CPython would create an object.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       2     PROTO and its number, from protocol 2 on
 *   …       1+    opcodes with their arguments (pickle_ops.def)
 *   …       1     STOP: the topmost item is the result; items below it are dropped
 *
 * Follows CPython's Modules/_pickle.c (no opcode reaches below the last mark, POP removes a mark, MEMOIZE
 * takes the number of memo entries as its index, PUT may replace an entry), and Lib/pickle.py where that is
 * stricter: an argument that crosses the end of its FRAME is refused, and so is a FRAME inside another.
 * Refused: lengths beyond the end, negative lengths, text that is not UTF-8 (and from protocol 3 on, names
 * that are not), operands of a type that the opcode cannot have, memo entries that were never put.
 * Not supported: EXT1/2/4 (numbers in a registry that is not in the file) and the out-of-band buffers of
 * protocol 5. */
#include "codec/pickle_read.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_machine.h"
#include "codec/pickle_ops.h"

static const char *get_kind_name(const ckpt_value *value)
{
    static const char *const names[] = {
        [CKPT_V_NONE] = "None",
        [CKPT_V_BOOL] = "a bool",
        [CKPT_V_INT] = "an int",
        [CKPT_V_BIGINT] = "an int",
        [CKPT_V_FLOAT] = "a float",
        [CKPT_V_STR] = "a str",
        [CKPT_V_STR8] = "a str",
        [CKPT_V_BYTES] = "bytes",
        [CKPT_V_BYTEARRAY] = "a bytearray",
        [CKPT_V_LIST] = "a list",
        [CKPT_V_TUPLE] = "a tuple",
        [CKPT_V_DICT] = "a dict",
        [CKPT_V_SET] = "a set",
        [CKPT_V_FROZENSET] = "a frozenset",
        [CKPT_V_GLOBAL] = "a class or function",
        [CKPT_V_CALL] = "an object",
        [CKPT_V_PERSID] = "a persistent object",
    };
    return value->type < sizeof names / sizeof *names ? names[value->type] : "a tensor";
}

/* read_global - returns the node of the module and name that follow GLOBAL or INST; NULL: failed. */
static ckpt_value *read_global(struct machine *machine)
{
    char copy[MACHINE_LONGEST_NAME];
    ckpt_str module = machine_read_line(machine, MACHINE_LONGEST_NAME);
    if (!module.ptr)
        return NULL;
    if (module.len)
        memcpy(copy, module.ptr, module.len); /* reading the next line may overwrite the first */
    ckpt_str name = machine_read_line(machine, MACHINE_LONGEST_NAME);
    return name.ptr ? machine_get_global(machine, str_of(copy, module.len), name) : NULL;
}

static bool op_stack_global(struct machine *machine)
{
    if (!unpickler_need(&machine->u, 2))
        return false;
    ckpt_value *module = machine->stack[machine->u.top - 2], *name = machine->stack[machine->u.top - 1];
    ckpt_str module_text, name_text;
    if (!value_text(module, &module_text) || !value_text(name, &name_text))
        return fail_op(machine, "must have {=two texts, a module and a name}, found {%s and %s}",
                       get_kind_name(module), get_kind_name(name));
    if (module_text.len > MACHINE_LONGEST_NAME || name_text.len > MACHINE_LONGEST_NAME)
        return fail_op(machine, "has a name of {more} than {=%u bytes}", MACHINE_LONGEST_NAME);
    machine->u.top -= 2;
    return machine_push(machine, machine_get_global(machine, module_text, name_text));
}

static bool check_callable(struct machine *machine, const ckpt_value *value)
{
    if (value->type == CKPT_V_GLOBAL || value->type == CKPT_V_CALL || value->type == CKPT_V_PERSID)
        return true;
    return fail_op(machine,
                   "calls {%s} made at byte 0x%" PRIx64 "; {=a class, function or object} belongs there",
                   get_kind_name(value), value_offset(value));
}

static bool check_arguments(struct machine *machine, const ckpt_value *value)
{
    if (value->type == CKPT_V_TUPLE || value->type == CKPT_V_CALL || value->type == CKPT_V_PERSID)
        return true;
    return fail_op(machine, "has {%s} for arguments, made at byte 0x%" PRIx64 "; {=a tuple} belongs there",
                   get_kind_name(value), value_offset(value));
}

/* is_argument - returns true if the object that was just made becomes an item of a tuple, perhaps after a
 * PUT: then only the memo leads back to it. */
static bool is_argument(const struct machine *machine)
{
    const unsigned char *p = machine->u.p;
    size_t n = (size_t)(machine->u.lim - p), put = 0;
    if (n)
        put = *p == PICKLE_BINPUT ? 2 : *p == PICKLE_LONG_BINPUT ? 5 : *p == PICKLE_MEMOIZE;
    return n > put && (p[put] == PICKLE_TUPLE || (p[put] >= PICKLE_TUPLE1 && p[put] <= PICKLE_TUPLE3));
}

/* make_call - returns the node of a call. All OrderedDict() that are arguments, as the hooks of each tensor
 * are, share one node, unless the memo leads back to one of them. */
static ckpt_value *make_call(struct machine *machine, enum value_call_kind how, ckpt_value *callable,
                             ckpt_value *args)
{
    ckpt_value *hooks = machine->empty_hooks;
    bool may_share = how == CALL_REDUCE && args == machine->empty_tuple && !machine->makes_all_hooks &&
                     is_argument(machine);
    if (may_share && hooks && hooks->u.call.callable == callable)
        return hooks;
    ckpt_value *v = machine_new_call(machine, how, callable, args);
    if (may_share && !hooks && value_is_global(callable, "collections", "OrderedDict"))
        machine->empty_hooks = v;
    return v;
}

static bool op_call(struct machine *machine, enum value_call_kind how)
{
    if (!unpickler_need(&machine->u, 2))
        return false;
    ckpt_value *callable = machine->stack[machine->u.top - 2], *args = machine->stack[machine->u.top - 1];
    if (!check_callable(machine, callable) || !check_arguments(machine, args))
        return false;
    machine->u.top -= 2;
    return machine_push(machine, make_call(machine, how, callable, args));
}

/* get_extra - returns the value_extra of CALL, to which pairs, items or states are to be added; NULL: out of
 * memory. */
static struct value_extra *get_extra(struct machine *machine, ckpt_value *call)
{
    struct value_extra *extra = value_make_extra(machine->u.a, call);
    if (!extra)
        unpickler_fail_memory(&machine->u);
    return extra;
}

static bool op_newobj_ex(struct machine *machine)
{
    if (!unpickler_need(&machine->u, 3))
        return false;
    ckpt_value *klass = machine->stack[machine->u.top - 3], *args = machine->stack[machine->u.top - 2],
               *kwargs = machine->stack[machine->u.top - 1];
    if (!check_callable(machine, klass) || !check_arguments(machine, args))
        return false;
    if (kwargs->type != CKPT_V_DICT && kwargs->type != CKPT_V_CALL && kwargs->type != CKPT_V_PERSID)
        return fail_op(machine,
                       "has {%s} for keyword arguments, made at byte 0x%" PRIx64 "; {=a dict} belongs there",
                       get_kind_name(kwargs), value_offset(kwargs));
    machine->u.top -= 3;
    ckpt_value *v = machine_new_call(machine, CALL_NEWOBJ_EX, klass, args);
    struct value_extra *extra = v ? get_extra(machine, v) : NULL;
    if (!extra)
        return false;
    extra->kwargs = kwargs;
    return machine_push(machine, v);
}

/* make_tuple_from - returns a tuple of the items from stack index BOTTOM on, which stay on the stack. */
static ckpt_value *make_tuple_from(struct machine *machine, size_t bottom)
{
    size_t count = machine->u.top - bottom;
    return machine_make_tuple(machine, count ? machine->stack + bottom : NULL, count);
}

static bool op_obj(struct machine *machine)
{
    size_t bottom;
    if (!unpickler_pop_mark(&machine->u, &bottom))
        return false;
    if (machine->u.top == bottom)
        return fail_op(machine, "finds {0 values} above the MARK; {=a class} belongs there");
    ckpt_value *klass = machine->stack[bottom];
    if (!check_callable(machine, klass))
        return false;
    ckpt_value *args = make_tuple_from(machine, bottom + 1);
    machine->u.top = bottom;
    return args && machine_push(machine, machine_new_call(machine, CALL_OBJ, klass, args));
}

static bool op_inst(struct machine *machine)
{
    size_t bottom;
    ckpt_value *klass = read_global(machine);
    if (!klass || !unpickler_pop_mark(&machine->u, &bottom))
        return false;
    ckpt_value *args = make_tuple_from(machine, bottom);
    machine->u.top = bottom;
    return args && machine_push(machine, machine_new_call(machine, CALL_INST, klass, args));
}

static bool op_persid(struct machine *machine)
{
    ckpt_value *pid;
    struct pickle_facts *f = machine->facts;
    if (machine->u.op == PICKLE_PERSID) {
        ckpt_str s = machine_read_line(machine, MACHINE_LONGEST_COPY - 1);
        if (!s.ptr)
            return false;
        pid = machine_new_node(machine, utf8_check(s, true, NULL) ? CKPT_V_STR : CKPT_V_STR8);
        if (!pid || !machine_copy_text(machine, s, &pid->u.str))
            return false;
    } else {
        if (!unpickler_need(&machine->u, 1))
            return false;
        pid = machine->stack[--machine->u.top];
    }
    ckpt_value *v = machine_new_node(machine, CKPT_V_PERSID);
    if (!v)
        return false;
    v->u.pid = pid;
    return machine_add_fact(machine, &f->persids, &f->npersids, &f->cap_persids, v) &&
           machine_push(machine, v);
}

static bool op_tuple(struct machine *machine, size_t count)
{
    if (!unpickler_need(&machine->u, count))
        return false;
    ckpt_value *v = make_tuple_from(machine, machine->u.top - count);
    machine->u.top -= count;
    return machine_push(machine, v);
}

/* collect_sequence - runs LIST, TUPLE or FROZENSET: pushes a sequence of all items above the mark. */
static bool collect_sequence(struct machine *machine, ckpt_value_type type)
{
    size_t bottom;
    if (!unpickler_pop_mark(&machine->u, &bottom))
        return false;
    size_t n = machine->u.top - bottom;
    ckpt_value *v;
    if (type == CKPT_V_TUPLE) {
        v = make_tuple_from(machine, bottom);
    } else if ((v = machine_new_node(machine, type)) && n) {
        v->u.seq.items = machine_reserve(machine, NULL, 0, &v->u.seq.cap, n, sizeof(ckpt_value *));
        if (!v->u.seq.items)
            return false;
        memcpy(v->u.seq.items, machine->stack + bottom, n * sizeof(ckpt_value *));
        v->u.seq.n = (uint32_t)n;
    }
    machine->u.top = bottom;
    return machine_push(machine, v);
}

/* add_pairs - adds to VALUE, a dict or call, COUNT pairs: the keys and values in NODES. */
static bool add_pairs(struct machine *machine, ckpt_value *value, ckpt_value *const *nodes, size_t count)
{
    bool is_call = value->type == CKPT_V_CALL;
    struct value_extra *extra = is_call ? get_extra(machine, value) : NULL;
    if (is_call && !extra)
        return false;
    value_pair **pairs = extra ? &extra->pairs : &value->u.dict.pairs;
    uint32_t *npairs = extra ? &extra->npairs : &value->u.dict.n;
    uint32_t *cap = extra ? &extra->cap_pairs : &value->u.dict.cap;
    value_pair *at = machine_reserve(machine, *pairs, *npairs, cap, count, sizeof *at);
    if (!at)
        return false;
    *pairs = at;
    at += *npairs; /* machine_reserve made room for COUNT more */
    for (size_t i = 0; i < count; i++)
        at[i] = (value_pair){nodes[2 * i], nodes[2 * i + 1]};
    *npairs += (uint32_t)count;
    return true;
}

/* set_items - adds the keys and values on the stack from BOTTOM on to the mapping below them. */
static bool set_items(struct machine *machine, size_t bottom)
{
    size_t n = machine->u.top - bottom;
    if (bottom == machine->u.fence)
        return unpickler_fail_underflow(&machine->u, n + 1);
    ckpt_value *v = machine->stack[bottom - 1];
    if (n % 2)
        return unpickler_fail_pairs(&machine->u, n);
    machine->u.top = bottom;
    if (n == 0)
        return true;
    if (v->type != CKPT_V_DICT && v->type != CKPT_V_CALL)
        return fail_op(machine,
                       "sets items of {%s} made at byte 0x%" PRIx64 "; {=a dict or object} belongs there",
                       get_kind_name(v), value_offset(v));
    return add_pairs(machine, v, machine->stack + bottom, n / 2) && machine_add_mutation(machine, v);
}

/* add_items - adds the stack items from BOTTOM on to the list, set or object below them. */
static bool add_items(struct machine *machine, size_t bottom)
{
    size_t n = machine->u.top - bottom;
    if (bottom == machine->u.fence)
        return unpickler_fail_underflow(&machine->u, n + 1);
    ckpt_value *v = machine->stack[bottom - 1];
    bool is_set = machine->u.op == PICKLE_ADDITEMS, is_call = v->type == CKPT_V_CALL;
    machine->u.top = bottom;
    if (n == 0)
        return true;
    if (!is_call && v->type != (is_set ? CKPT_V_SET : CKPT_V_LIST))
        return fail_op(machine, "adds to {%s} made at byte 0x%" PRIx64 "; {=a %s or an object} belongs there",
                       get_kind_name(v), value_offset(v), is_set ? "set" : "list");
    struct value_extra *extra = is_call ? get_extra(machine, v) : NULL;
    if (is_call && !extra)
        return false;
    ckpt_value ***items = is_call ? &extra->items : &v->u.seq.items;
    uint32_t *nitems = is_call ? &extra->nitems : &v->u.seq.n;
    uint32_t *cap = is_call ? &extra->cap_items : &v->u.seq.cap;
    ckpt_value **at = machine_reserve(machine, *items, *nitems, cap, n, sizeof *at);
    if (!at)
        return false;
    *items = at;
    memcpy(at + *nitems, machine->stack + bottom, n * sizeof *at);
    *nitems += (uint32_t)n;
    if (is_call && is_set)
        v->flags |= VALUE_NOT_REWRITABLE;
    return machine_add_mutation(machine, v);
}

/* apply_above_mark - removes the last mark, and calls ADD with the stack index of the first item above it. */
static bool apply_above_mark(struct machine *machine, bool (*add)(struct machine *, size_t))
{
    size_t bottom;
    return unpickler_pop_mark(&machine->u, &bottom) && add(machine, bottom);
}

static bool op_dict(struct machine *machine)
{
    size_t bottom;
    if (!unpickler_pop_mark(&machine->u, &bottom))
        return false;
    size_t n = machine->u.top - bottom;
    if (n % 2)
        return unpickler_fail_pairs(&machine->u, n);
    ckpt_value *v = machine_new_node(machine, CKPT_V_DICT);
    if (!v || (n && !add_pairs(machine, v, machine->stack + bottom, n / 2)))
        return false;
    machine->u.top = bottom;
    return machine_push(machine, v);
}

static bool op_build(struct machine *machine)
{
    if (!unpickler_need(&machine->u, 2))
        return false;
    ckpt_value *state = machine->stack[--machine->u.top], *v = machine->stack[machine->u.top - 1];
    if (!machine_add_mutation(machine, v))
        return false;
    if (v->type != CKPT_V_CALL) {
        v->flags |= VALUE_NOT_REWRITABLE;
        return true;
    }
    struct value_extra *extra = get_extra(machine, v);
    if (!extra)
        return false;
    ckpt_value **states = machine_reserve(machine, extra->states, extra->nstates, &extra->cap_states, 1,
                                          sizeof *states);
    if (!states)
        return false;
    if (extra->nstates == 0)
        extra->entries_before_build = extra->nitems > UINT32_MAX - extra->npairs
                                          ? UINT32_MAX
                                          : extra->nitems + extra->npairs;
    extra->states = states;
    states[extra->nstates++] = state;
    return !machine->reads_joblib_arrays || joblib_take_array(machine, v);
}

static bool op_mark(struct machine *machine)
{
    bool is_tensor;
    return machine_take_tensor(machine, &is_tensor) && (is_tensor || unpickler_push_mark(&machine->u));
}

static bool op_memo_line(struct machine *machine)
{
    ckpt_str s = machine_read_line(machine, 64);
    uint64_t index;
    if (!s.ptr)
        return false;
    if (!str_uint(s, &index))
        return fail_op(machine, "has {'%.*s'} where {=the number of a memo entry} belongs", STR_ARG(s));
    return machine->u.op == PICKLE_GET ? machine_get_memo(machine, index) : machine_put_memo(machine, index);
}

static bool op_pop(struct machine *machine)
{
    size_t bottom;
    if (machine->u.nmarks && machine->u.fence == machine->u.top)
        return unpickler_pop_mark(&machine->u, &bottom);
    if (!unpickler_need(&machine->u, 1))
        return false;
    machine->u.top--;
    return true;
}

static bool op_pop_mark(struct machine *machine)
{
    size_t bottom;
    if (!unpickler_pop_mark(&machine->u, &bottom))
        return false;
    machine->u.top = bottom;
    return true;
}

static bool op_dup(struct machine *machine)
{
    if (!unpickler_need(&machine->u, 1))
        return false;
    machine->stack[machine->u.top - 1]->flags |= VALUE_SHARED;
    return machine_push(machine, machine->stack[machine->u.top - 1]);
}

static bool op_proto(struct machine *machine)
{
    const unsigned char *b = unpickler_take(&machine->u, 1);
    if (!b || !unpickler_set_protocol(&machine->u, *b))
        return false;
    machine->facts->protocol = *b;
    return true;
}

static bool op_frame(struct machine *machine)
{
    const unsigned char *b = unpickler_take(&machine->u, 8);
    if (!b)
        return false;
    uint64_t n = load_u64le(b), left = unpickler_bytes_left(&machine->u);
    if (machine->frame_end != UINT64_MAX)
        return fail_op(machine, "begins {inside the previous frame}, which ends {=at byte 0x%" PRIx64 "}",
                       machine->frame_end);
    if (n > left)
        return unpickler_fail(&machine->u, CKPT_ETRUNCATED, "of {=%" PRIu64 " bytes}, {%" PRIu64 "} are left",
                              n, left);
    machine->frame_end = unpickler_offset(&machine->u) + n;
    return true;
}

/* fail_refused - fails because the current opcode is not supported, or is no opcode. */
static bool fail_refused(struct machine *machine)
{
    if (machine->u.op == PICKLE_NEXT_BUFFER || machine->u.op == PICKLE_READONLY_BUFFER)
        return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED,
                              "uses {out-of-band buffers (protocol 5)}, which are not {=in the file}");
    if (machine->u.op == PICKLE_EXT1 || machine->u.op == PICKLE_EXT2 || machine->u.op == PICKLE_EXT4)
        return unpickler_fail(
            &machine->u, CKPT_EUNSUPPORTED,
            "names a class by {its number} in a registry of the program that wrote it, not by {=its name}");
    return unpickler_fail_opcode(&machine->u);
}

/* run_op - runs an opcode other than STOP. */
static bool run_op(struct machine *machine)
{
    const unsigned char *b;
    switch (machine->u.op) {
    case PICKLE_MARK: return op_mark(machine);
    case PICKLE_POP: return op_pop(machine);
    case PICKLE_POP_MARK: return op_pop_mark(machine);
    case PICKLE_DUP: return op_dup(machine);
    case PICKLE_FLOAT: return push_float_line(machine);
    case PICKLE_INT:
    case PICKLE_LONG: return push_int_line(machine);
    case PICKLE_BININT:
    case PICKLE_BININT1:
    case PICKLE_BININT2:
        return (b = unpickler_take(&machine->u, pickle_ops[machine->u.op].width)) &&
               machine_push(machine, machine_get_int(machine, pickle_load_int(machine->u.op, b)));
    case PICKLE_NONE: return push_none(machine);
    case PICKLE_PERSID:
    case PICKLE_BINPERSID: return op_persid(machine);
    case PICKLE_REDUCE: return op_call(machine, CALL_REDUCE);
    case PICKLE_STRING:
    case PICKLE_UNICODE: return push_text_line(machine);
    case PICKLE_APPEND: return unpickler_need(&machine->u, 1) && add_items(machine, machine->u.top - 1);
    case PICKLE_BUILD: return op_build(machine);
    case PICKLE_GLOBAL: return machine_push(machine, read_global(machine));
    case PICKLE_DICT: return op_dict(machine);
    case PICKLE_EMPTY_DICT: return machine_push(machine, machine_new_node(machine, CKPT_V_DICT));
    case PICKLE_APPENDS:
    case PICKLE_ADDITEMS: return apply_above_mark(machine, add_items);
    case PICKLE_GET:
    case PICKLE_PUT: return op_memo_line(machine);
    case PICKLE_BINGET: return (b = unpickler_take(&machine->u, 1)) && machine_get_memo(machine, b[0]);
    case PICKLE_INST: return op_inst(machine);
    case PICKLE_LONG_BINGET:
        return (b = unpickler_take(&machine->u, 4)) && machine_get_memo(machine, load_u32le(b));
    case PICKLE_LIST: return collect_sequence(machine, CKPT_V_LIST);
    case PICKLE_EMPTY_LIST: return machine_push(machine, machine_new_node(machine, CKPT_V_LIST));
    case PICKLE_OBJ: return op_obj(machine);
    case PICKLE_BINPUT: return (b = unpickler_take(&machine->u, 1)) && machine_put_memo(machine, b[0]);
    case PICKLE_LONG_BINPUT:
        return (b = unpickler_take(&machine->u, 4)) && machine_put_memo(machine, load_u32le(b));
    case PICKLE_SETITEM: return unpickler_need(&machine->u, 2) && set_items(machine, machine->u.top - 2);
    case PICKLE_TUPLE: return collect_sequence(machine, CKPT_V_TUPLE);
    case PICKLE_EMPTY_TUPLE: return machine_push(machine, machine_make_tuple(machine, NULL, 0));
    case PICKLE_SETITEMS: return apply_above_mark(machine, set_items);
    case PICKLE_BINFLOAT: return push_binfloat(machine);
    case PICKLE_PROTO: return op_proto(machine);
    case PICKLE_NEWOBJ: return op_call(machine, CALL_NEWOBJ);
    case PICKLE_TUPLE1: return op_tuple(machine, 1);
    case PICKLE_TUPLE2: return op_tuple(machine, 2);
    case PICKLE_TUPLE3: return op_tuple(machine, 3);
    case PICKLE_NEWTRUE: return push_bool(machine, true);
    case PICKLE_NEWFALSE: return push_bool(machine, false);
    case PICKLE_LONG1: return push_long(machine, 1);
    case PICKLE_LONG4: return push_long(machine, 4);
    case PICKLE_EMPTY_SET: return machine_push(machine, machine_new_node(machine, CKPT_V_SET));
    case PICKLE_FROZENSET: return collect_sequence(machine, CKPT_V_FROZENSET);
    case PICKLE_NEWOBJ_EX: return op_newobj_ex(machine);
    case PICKLE_STACK_GLOBAL: return op_stack_global(machine);
    case PICKLE_MEMOIZE: return machine_put_memo(machine, machine->u.memo_count);
    case PICKLE_FRAME: return op_frame(machine);
    default:
        return pickle_pushes(machine->u.op, CKPT_V_STR, CKPT_V_BYTEARRAY) ? push_text(machine)
                                                                          : fail_refused(machine);
    }
}

/* refill_window - reads more bytes into the empty window; fails at the end of the pickle. */
static bool refill_window(struct machine *machine)
{
    if (machine->u.at < machine->u.r.end)
        return unpickler_fill(&machine->u, 1);
    machine->u.op = 0;
    return unpickler_fail(&machine->u, CKPT_ETRUNCATED,
                          "the pickle ends {after %" PRIu64 " bytes} without {=STOP}", machine->u.at);
}

/* run_pickle - runs opcodes up to and including STOP; the result is the topmost item. */
static bool run_pickle(struct machine *machine)
{
    uint64_t *first_use = machine->facts->first_use;
    for (;;) {
        uint64_t pos = unpickler_offset(&machine->u);
        if (pos >= machine->frame_end) {
            if (pos > machine->frame_end)
                return fail_op(machine, "{crosses} the end of its frame {=at byte 0x%" PRIx64 "}",
                               machine->frame_end);
            machine->frame_end = UINT64_MAX;
        }
        machine->u.at = pos;
        if (machine->u.p == machine->u.lim && !refill_window(machine))
            return false;
        machine->u.op = *machine->u.p++;
        if (pos < first_use[machine->u.op])
            first_use[machine->u.op] = pos;
        if (machine->u.op == PICKLE_STOP)
            return unpickler_need(&machine->u, 1);
        if (!run_op(machine))
            return false;
    }
}

static ckpt_status run_and_free_machine(struct machine *machine, ckpt_value **root, uint64_t *next)
{
    if (machine->u.status == CKPT_OK && run_pickle(machine)) {
        *root = machine->stack[machine->u.top - 1];
        *next = unpickler_offset(&machine->u);
    }
    if (machine->u.status == CKPT_ELIMIT && arena_full(machine->u.a))
        error_add_hint(machine->u.err,
                       "a program that trusts this file can raise max_metadata, see libckpt(3)");
    machine_free(machine);
    return machine->u.status;
}

static ckpt_status read_pickle(const struct machine_input *in, arena *a, struct pickle_facts *facts,
                               ckpt_value **root, uint64_t *next, ckpt_error *err)
{
    for (bool makes_all_hooks = false;; makes_all_hooks = true) {
        struct machine m;
        (void)machine_init(&m, a, in, facts, err);
        m.makes_all_hooks = makes_all_hooks;
        ckpt_status st = run_and_free_machine(&m, root, next);
        if (m.makes_all_hooks == makes_all_hooks) /* else the memo led to hooks that share a node */
            return st;
    }
}

ckpt_status pickle_read(arena *a, source *src, uint64_t pos, uint64_t end, struct pickle_facts *facts,
                        ckpt_value **root, uint64_t *next, ckpt_error *err)
{
    const struct machine_input in = {.src = src, .pos = pos, .end = end};
    return read_pickle(&in, a, facts, root, next, err);
}

ckpt_status pickle_read_joblib(arena *a, source *src, struct pickle_facts *facts, ckpt_value **root,
                               uint64_t *next, ckpt_error *err)
{
    const struct machine_input in = {.src = src, .end = src->size, .has_joblib_arrays = true};
    return read_pickle(&in, a, facts, root, next, err);
}
