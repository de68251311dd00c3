/* pickle_read.c - a pickle is a program for a machine with a stack, marks on it
 * and a memo; this runs it and makes a node where CPython would make an object.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       2     PROTO and its number, from protocol 2 on
 *   …       1+    opcodes with their arguments (pickle_ops.def)
 *   …       1     STOP: the topmost item is the result; what lies below is dropped
 *
 * Follows CPython's Modules/_pickle.c (a mark is a fence that nothing reaches
 * below, POP takes a mark, MEMOIZE counts entries, PUT may replace one), and
 * Lib/pickle.py where that one looks closer: an argument that crosses the end of
 * its FRAME is refused, and so is a FRAME inside another.
 * Lies refused: lengths beyond the end, negative lengths, text that is no UTF-8,
 * names that are none from protocol 3 on, operands of a type the opcode cannot
 * have, memo entries that were never put.
 * Refused by name: EXT1/2/4 (numbers of a registry that is not in the file) and
 * the out-of-band buffers of protocol 5. */
#include "codec/pickle_read.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/pickle_machine.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_text.h"

#define bad(m, ...) machine_bad(m, CKPT_EFORMAT, __VA_ARGS__)

static const char *kind(const ckpt_value *v)
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
    return v->type < sizeof names / sizeof *names ? names[v->type] : "a tensor";
}

/* ---------------------------------------------------------------- objects */

/* two_lines - module and name of GLOBAL and INST, as a node. */
static ckpt_value *two_lines(struct machine *m)
{
    char copy[MACHINE_NAME];
    ckpt_str module = machine_line(m, MACHINE_NAME);
    if (!module.ptr)
        return NULL;
    if (module.len)
        memcpy(copy, module.ptr, module.len); /* the next line may move the window */
    ckpt_str name = machine_line(m, MACHINE_NAME);
    return name.ptr ? machine_global(m, str_of(copy, module.len), name) : NULL;
}

static bool stack_global(struct machine *m)
{
    if (!need(m, 2))
        return false;
    ckpt_value *module = m->stack[m->top - 2], *name = m->stack[m->top - 1];
    ckpt_str both[2];
    if (!value_text(module, &both[0]) || !value_text(name, &both[1]))
        return bad(m, "must have {=the texts of a module and a name}, found {%s and %s}", kind(module),
                   kind(name));
    if (both[0].len > MACHINE_NAME || both[1].len > MACHINE_NAME)
        return bad(m, "has a name of {more} than {=%u bytes}", MACHINE_NAME);
    m->top -= 2;
    return push(m, machine_global(m, both[0], both[1]));
}

static bool may_be_called(struct machine *m, const ckpt_value *v)
{
    if (v->type == CKPT_V_GLOBAL || v->type == CKPT_V_CALL || v->type == CKPT_V_PERSID)
        return true;
    return bad(m, "calls {%s} made at byte 0x%" PRIx64 "; {=a class, function or object} belongs there",
               kind(v), v->offset);
}

static bool may_be_arguments(struct machine *m, const ckpt_value *v)
{
    if (v->type == CKPT_V_TUPLE || v->type == CKPT_V_CALL || v->type == CKPT_V_PERSID)
        return true;
    return bad(m, "has {%s} for arguments, made at byte 0x%" PRIx64 "; {=a tuple} belongs there", kind(v),
               v->offset);
}

static bool op_call(struct machine *m, enum value_call_kind how)
{
    if (!need(m, 2))
        return false;
    ckpt_value *callable = m->stack[m->top - 2], *args = m->stack[m->top - 1];
    if (!may_be_called(m, callable) || !may_be_arguments(m, args))
        return false;
    m->top -= 2;
    return push(m, machine_call(m, how, callable, args));
}

/* more_of - CALL's, to be added to. */
static struct value_more *more_of(struct machine *m, ckpt_value *call)
{
    struct value_more *more = value_more(m->a, call);
    if (!more)
        machine_memory(m);
    return more;
}

static bool newobj_ex(struct machine *m)
{
    if (!need(m, 3))
        return false;
    ckpt_value *klass = m->stack[m->top - 3], *args = m->stack[m->top - 2], *kwargs = m->stack[m->top - 1];
    if (!may_be_called(m, klass) || !may_be_arguments(m, args))
        return false;
    if (kwargs->type != CKPT_V_DICT && kwargs->type != CKPT_V_CALL && kwargs->type != CKPT_V_PERSID)
        return bad(m, "has {%s} for keyword arguments, made at byte 0x%" PRIx64 "; {=a dict} belongs there",
                   kind(kwargs), kwargs->offset);
    m->top -= 3;
    ckpt_value *v = machine_call(m, CALL_NEWOBJ_EX, klass, args);
    struct value_more *more = v ? more_of(m, v) : NULL;
    if (!more)
        return false;
    more->kwargs = kwargs;
    return push(m, v);
}

static bool op_obj(struct machine *m)
{
    size_t from;
    if (!machine_unmark(m, &from))
        return false;
    if (m->top == from)
        return bad(m, "finds {0 values} above the MARK; {=a class} belongs there");
    ckpt_value *klass = m->stack[from];
    if (!may_be_called(m, klass))
        return false;
    ckpt_value *args = machine_tuple(m, m->top - from - 1);
    m->top = from;
    return args && push(m, machine_call(m, CALL_OBJ, klass, args));
}

static bool op_inst(struct machine *m)
{
    size_t from;
    ckpt_value *klass = two_lines(m);
    if (!klass || !machine_unmark(m, &from))
        return false;
    ckpt_value *args = machine_tuple(m, m->top - from);
    m->top = from;
    return args && push(m, machine_call(m, CALL_INST, klass, args));
}

static bool persid(struct machine *m)
{
    ckpt_value *pid;
    struct pickle_facts *f = m->facts;
    if (m->op == PICKLE_PERSID) {
        ckpt_str s = machine_line(m, MACHINE_COPY - 1);
        if (!s.ptr)
            return false;
        pid = node(m, utf8_check(s, true, NULL) ? CKPT_V_STR : CKPT_V_STR8);
        char *copy = pid ? machine_chars(m, s.len) : NULL;
        if (!copy)
            return false;
        if (s.len)
            memcpy(copy, s.ptr, s.len);
        pid->u.str = str_of(copy, s.len);
    } else {
        if (!need(m, 1))
            return false;
        pid = m->stack[--m->top];
    }
    ckpt_value *v = node(m, CKPT_V_PERSID);
    if (!v)
        return false;
    v->u.pid = pid;
    return machine_note(m, &f->persids, &f->npersids, &f->cap_persids, v) && push(m, v);
}

/* ------------------------------------------------------------- containers */

static bool op_tuple(struct machine *m, size_t n)
{
    if (!need(m, n))
        return false;
    ckpt_value *v = machine_tuple(m, n);
    m->top -= n;
    return push(m, v);
}

/* LIST, TUPLE, FROZENSET: all above the mark. */
static bool gather(struct machine *m, ckpt_value_type type)
{
    size_t from;
    if (!machine_unmark(m, &from))
        return false;
    size_t n = m->top - from;
    ckpt_value *v;
    if (type == CKPT_V_TUPLE) {
        v = machine_tuple(m, n);
    } else if ((v = node(m, type)) && n) {
        v->u.seq.items = machine_room(m, NULL, 0, &v->u.seq.cap, n, sizeof(ckpt_value *));
        if (!v->u.seq.items)
            return false;
        memcpy(v->u.seq.items, m->stack + from, n * sizeof(ckpt_value *));
        v->u.seq.n = (uint32_t)n;
    }
    m->top = from;
    return push(m, v);
}

static bool add_pairs(struct machine *m, ckpt_value *v, ckpt_value *const *from, size_t n)
{
    bool call = v->type == CKPT_V_CALL;
    struct value_more *c = call ? more_of(m, v) : NULL;
    if (call && !c)
        return false;
    value_pair **pairs = c ? &c->pairs : &v->u.dict.pairs;
    uint32_t *have = c ? &c->npairs : &v->u.dict.n, *cap = c ? &c->cap_pairs : &v->u.dict.cap;
    value_pair *at = machine_room(m, *pairs, *have, cap, n, sizeof *at);
    if (!at)
        return false;
    *pairs = at;
    at += *have; /* bounded: machine_room made room for have + n */
    for (size_t i = 0; i < n; i++)
        at[i] = (value_pair){from[2 * i], from[2 * i + 1]};
    *have += (uint32_t)n;
    return true;
}

/* set_items - N operands from FROM on the stack go into the mapping below them. */
static bool set_items(struct machine *m, size_t from)
{
    size_t n = m->top - from;
    if (from == m->fence)
        return machine_underflow(m, n + 1);
    ckpt_value *v = m->stack[from - 1];
    if (n % 2)
        return bad(m, "finds {%zu items} above the MARK; keys and values come {=in pairs}", n);
    m->top = from;
    if (n == 0)
        return true;
    if (v->type != CKPT_V_DICT && v->type != CKPT_V_CALL)
        return bad(m, "sets items of {%s} made at byte 0x%" PRIx64 "; {=a dict or object} belongs there",
                   kind(v), v->offset);
    return add_pairs(m, v, m->stack + from, n / 2) && machine_mutates(m, v);
}

static bool add_items(struct machine *m, size_t from)
{
    size_t n = m->top - from;
    if (from == m->fence)
        return machine_underflow(m, n + 1);
    ckpt_value *v = m->stack[from - 1];
    bool set = m->op == PICKLE_ADDITEMS, call = v->type == CKPT_V_CALL;
    m->top = from;
    if (n == 0)
        return true;
    if (!call && v->type != (set ? CKPT_V_SET : CKPT_V_LIST))
        return bad(m, "adds to {%s} made at byte 0x%" PRIx64 "; {=a %s or an object} belongs there", kind(v),
                   v->offset, set ? "set" : "list");
    struct value_more *c = call ? more_of(m, v) : NULL;
    if (call && !c)
        return false;
    ckpt_value ***items = call ? &c->items : &v->u.seq.items;
    uint32_t *have = call ? &c->nitems : &v->u.seq.n, *cap = call ? &c->cap_items : &v->u.seq.cap;
    ckpt_value **at = machine_room(m, *items, *have, cap, n, sizeof *at);
    if (!at)
        return false;
    *items = at;
    memcpy(at + *have, m->stack + from, n * sizeof *at); /* bounded: machine_room */
    *have += (uint32_t)n;
    if (call && set)
        v->flags |= VALUE_BUILT;
    return machine_mutates(m, v);
}

static bool above_mark(struct machine *m, bool (*add)(struct machine *, size_t))
{
    size_t from;
    return machine_unmark(m, &from) && add(m, from);
}

static bool op_dict(struct machine *m)
{
    size_t from;
    if (!machine_unmark(m, &from))
        return false;
    size_t n = m->top - from;
    if (n % 2)
        return bad(m, "finds {%zu items} above the MARK; keys and values come {=in pairs}", n);
    ckpt_value *v = node(m, CKPT_V_DICT);
    if (!v || (n && !add_pairs(m, v, m->stack + from, n / 2)))
        return false;
    m->top = from;
    return push(m, v);
}

static bool build(struct machine *m)
{
    if (!need(m, 2))
        return false;
    ckpt_value *state = m->stack[--m->top], *v = m->stack[m->top - 1];
    if (!machine_mutates(m, v))
        return false;
    if (v->type != CKPT_V_CALL) {
        v->flags |= VALUE_BUILT;
        return true;
    }
    struct value_more *c = more_of(m, v);
    if (!c)
        return false;
    ckpt_value **at = machine_room(m, c->states, c->nstates, &c->cap_states, 1, sizeof *at);
    if (!at)
        return false;
    if (c->nstates == 0)
        c->build_items = c->nitems > UINT32_MAX - c->npairs ? UINT32_MAX : c->nitems + c->npairs;
    c->states = at;
    at[c->nstates++] = state;
    return true;
}

/* ---------------------------------------------------- stack, memo, framing */

static bool memo_line(struct machine *m)
{
    ckpt_str s = machine_line(m, 64);
    uint64_t index;
    if (!s.ptr)
        return false;
    if (!str_uint(s, &index))
        return bad(m, "has {'%.*s'} where {=the number of a memo entry} belongs", STR_ARG(s));
    return m->op == PICKLE_GET ? machine_get(m, index) : machine_put(m, index);
}

static bool pop(struct machine *m)
{
    size_t from;
    if (m->nmarks && m->fence == m->top)
        return machine_unmark(m, &from);
    if (!need(m, 1))
        return false;
    m->top--;
    return true;
}

static bool pop_mark(struct machine *m)
{
    size_t from;
    if (!machine_unmark(m, &from))
        return false;
    m->top = from;
    return true;
}

static bool dup(struct machine *m)
{
    if (!need(m, 1))
        return false;
    m->stack[m->top - 1]->flags |= VALUE_SHARED;
    return push(m, m->stack[m->top - 1]);
}

static bool op_proto(struct machine *m)
{
    const unsigned char *b = take(m, 1);
    if (!b)
        return false;
    if (*b > 5)
        return machine_bad(m, CKPT_EUNSUPPORTED, "says pickle protocol {%u}; {=0 to 5} are known", *b);
    m->protocol = *b;
    m->facts->protocol = *b;
    return true;
}

static bool op_frame(struct machine *m)
{
    const unsigned char *b = take(m, 8);
    if (!b)
        return false;
    uint64_t n = load_u64le(b), left = machine_left(m);
    if (m->frame_end != UINT64_MAX)
        return bad(m, "begins {inside the one before}, which ends {=at byte 0x%" PRIx64 "}", m->frame_end);
    if (n > left)
        return machine_bad(m, CKPT_ETRUNCATED, "of {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", n, left);
    m->frame_end = machine_here(m) + n;
    return true;
}

static bool refused(struct machine *m)
{
    if (m->op == PICKLE_NEXT_BUFFER || m->op == PICKLE_READONLY_BUFFER)
        return machine_bad(m, CKPT_EUNSUPPORTED,
                           "uses {out-of-band buffers (protocol 5)}, which are not {=in the file}");
    if (m->op == PICKLE_EXT1 || m->op == PICKLE_EXT2 || m->op == PICKLE_EXT4)
        return machine_bad(
            m, CKPT_EUNSUPPORTED,
            "names a class by {its number} in a registry of the program that wrote it, not by {=its name}");
    char found[BYTES_SHOWN];
    unsigned char op = (unsigned char)m->op;
    return bad(m, "{%s} is not {=a pickle opcode}", text_bytes_found(&op, 1, found));
}

/* step - one opcode, STOP excepted. */
static bool step(struct machine *m)
{
    const unsigned char *b;
    switch (m->op) {
    case PICKLE_MARK: return machine_mark(m);
    case PICKLE_POP: return pop(m);
    case PICKLE_POP_MARK: return pop_mark(m);
    case PICKLE_DUP: return dup(m);
    case PICKLE_FLOAT: return push_float_line(m);
    case PICKLE_INT:
    case PICKLE_LONG: return push_int_line(m);
    case PICKLE_BININT: return (b = take(m, 4)) && push(m, machine_int(m, (int32_t)load_u32le(b)));
    case PICKLE_BININT1: return (b = take(m, 1)) && push(m, machine_int(m, b[0]));
    case PICKLE_BININT2: return (b = take(m, 2)) && push(m, machine_int(m, load_u16le(b)));
    case PICKLE_NONE: return push_none(m);
    case PICKLE_PERSID:
    case PICKLE_BINPERSID: return persid(m);
    case PICKLE_REDUCE: return op_call(m, CALL_REDUCE);
    case PICKLE_STRING:
    case PICKLE_UNICODE: return push_text_line(m);
    case PICKLE_BINSTRING: return push_text4(m, CKPT_V_STR8);
    case PICKLE_SHORT_BINSTRING: return push_text1(m, CKPT_V_STR8);
    case PICKLE_BINUNICODE: return push_text4(m, CKPT_V_STR);
    case PICKLE_APPEND: return need(m, 1) && add_items(m, m->top - 1);
    case PICKLE_BUILD: return build(m);
    case PICKLE_GLOBAL: return push(m, two_lines(m));
    case PICKLE_DICT: return op_dict(m);
    case PICKLE_EMPTY_DICT: return push(m, node(m, CKPT_V_DICT));
    case PICKLE_APPENDS:
    case PICKLE_ADDITEMS: return above_mark(m, add_items);
    case PICKLE_GET:
    case PICKLE_PUT: return memo_line(m);
    case PICKLE_BINGET: return (b = take(m, 1)) && machine_get(m, b[0]);
    case PICKLE_INST: return op_inst(m);
    case PICKLE_LONG_BINGET: return (b = take(m, 4)) && machine_get(m, load_u32le(b));
    case PICKLE_LIST: return gather(m, CKPT_V_LIST);
    case PICKLE_EMPTY_LIST: return push(m, node(m, CKPT_V_LIST));
    case PICKLE_OBJ: return op_obj(m);
    case PICKLE_BINPUT: return (b = take(m, 1)) && put(m, b[0]);
    case PICKLE_LONG_BINPUT: return (b = take(m, 4)) && put(m, load_u32le(b));
    case PICKLE_SETITEM: return need(m, 2) && set_items(m, m->top - 2);
    case PICKLE_TUPLE: return gather(m, CKPT_V_TUPLE);
    case PICKLE_EMPTY_TUPLE: return push(m, machine_tuple(m, 0));
    case PICKLE_SETITEMS: return above_mark(m, set_items);
    case PICKLE_BINFLOAT: return push_binfloat(m);
    case PICKLE_PROTO: return op_proto(m);
    case PICKLE_NEWOBJ: return op_call(m, CALL_NEWOBJ);
    case PICKLE_TUPLE1: return op_tuple(m, 1);
    case PICKLE_TUPLE2: return op_tuple(m, 2);
    case PICKLE_TUPLE3: return op_tuple(m, 3);
    case PICKLE_NEWTRUE: return push_bool(m, true);
    case PICKLE_NEWFALSE: return push_bool(m, false);
    case PICKLE_LONG1: return push_long(m, 1);
    case PICKLE_LONG4: return push_long(m, 4);
    case PICKLE_BINBYTES: return push_text4(m, CKPT_V_BYTES);
    case PICKLE_SHORT_BINBYTES: return push_text1(m, CKPT_V_BYTES);
    case PICKLE_SHORT_BINUNICODE: return push_text1(m, CKPT_V_STR);
    case PICKLE_BINUNICODE8: return push_text8(m, CKPT_V_STR);
    case PICKLE_BINBYTES8: return push_text8(m, CKPT_V_BYTES);
    case PICKLE_BYTEARRAY8: return push_text8(m, CKPT_V_BYTEARRAY);
    case PICKLE_EMPTY_SET: return push(m, node(m, CKPT_V_SET));
    case PICKLE_FROZENSET: return gather(m, CKPT_V_FROZENSET);
    case PICKLE_NEWOBJ_EX: return newobj_ex(m);
    case PICKLE_STACK_GLOBAL: return stack_global(m);
    case PICKLE_MEMOIZE: return put(m, m->memo_count);
    case PICKLE_FRAME: return op_frame(m);
    default: return refused(m);
    }
}

/* refill - more bytes, where those in the window are used up. */
static bool refill(struct machine *m)
{
    if (m->at < m->r.end)
        return machine_more(m, 1);
    m->op = 0;
    return machine_bad(m, CKPT_ETRUNCATED, "the pickle ends {after %" PRIu64 " bytes} without {=STOP}",
                       m->at);
}

/* run - up to and with STOP; the result is the topmost item. */
static bool run(struct machine *m)
{
    uint64_t *first = m->facts->first_use;
    for (;;) {
        uint64_t here = machine_here(m);
        if (here >= m->frame_end) {
            if (here > m->frame_end)
                return bad(m, "{crosses} the end of its frame {=at byte 0x%" PRIx64 "}", m->frame_end);
            m->frame_end = UINT64_MAX;
        }
        m->at = here;
        if (m->p == m->lim && !refill(m))
            return false;
        m->op = *m->p++;
        if (here < first[m->op])
            first[m->op] = here;
        if (m->op == PICKLE_STOP)
            return need(m, 1);
        if (!step(m))
            return false;
    }
}

ckpt_status pickle_read(arena *a, source *src, uint64_t pos, uint64_t end, struct pickle_facts *facts,
                        ckpt_value **root, uint64_t *next, ckpt_error *err)
{
    struct machine m;
    if (machine_init(&m, a, src, pos, end, facts, err) == CKPT_OK && run(&m)) {
        *root = m.stack[m.top - 1];
        *next = machine_here(&m);
    }
    machine_free(&m);
    return m.status;
}
