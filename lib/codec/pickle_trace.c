/* pickle_trace.c - what a pickle would do. pickle_read.c builds what a pickle
 * means and is as strict as the strictest loader; this builds nothing and is as
 * lenient as the most lenient one, so that no loader gets further than it does:
 * text is not decoded, numbers are not parsed, names are taken as they stand.
 * A constant is its place in the file, so three million of them cost nothing.
 *
 * Loaders differ in what a FRAME means (CPython issues 128853, 154848):
 *   flat     pickletools and loads() read on as if there were none
 *   framed   the C unpickler before 3.13.15 and 3.14.7, reading from an object without
 *            peek(), has the frame in its buffer: a number, text or line that
 *            goes beyond it is read from behind the frame, and what was left
 *            of the buffer is gone. Counted bytes are put together of both.
 *   strict   pickle.py, and the C unpickler since: an error
 * Both of the first two can be followed here; where they part is told.
 *
 * Follows Modules/_pickle.c in everything else: marks are fences, POP takes a
 * mark, MEMOIZE counts entries, STOP drops what lies below its result. An
 * operand of which the file does not tell what it is (the result of a call, an
 * extension code) may be anything, and is let through. */
#include "codec/pickle_trace.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/text.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "codec/trace_joblib.h"
#include "codec/trace_node.h"
#include "codec/trace_payload.h"
#include "codec/tracer.h"

#define KEEP_ITEMS 256u /* of a container: more than any report shows */

#define bad(t, ...) tracer_stop(t, CKPT_EFORMAT, __VA_ARGS__)

static const uint8_t argument_of[256] = {
#define OP(name, code, protocol, argument) [code] = PICKLE_ARG_##argument,
#include "codec/pickle_ops.def"
#undef OP
};

static const bool known[256] = {
#define OP(name, code, protocol, argument) [code] = true,
#include "codec/pickle_ops.def"
#undef OP
};

/* ------------------------------------------------------------------ values */

static const trace_ref *items_from(const struct tracer *t, size_t from)
{
    return t->top > from ? t->stack + from : NULL; /* bounded: inside the stack */
}

/* taken - the items from FROM on the stack up are those of V now. */
static bool taken(struct tracer *t, struct trace_node *v, size_t from)
{
    const trace_ref *items = items_from(t, from);
    return v && node_held(t, items, t->top - from) && node_add(t, v, items, t->top - from, KEEP_ITEMS);
}

/* gathered - the items from FROM on the stack up, as one node in their place. */
static bool gathered(struct tracer *t, enum trace_kind kind, size_t from)
{
    struct trace_node *v = node_new(t, kind);
    if (!taken(t, v, from))
        return false;
    t->top = from;
    return push(t, node_ref(v));
}

static bool above_mark(struct tracer *t, enum trace_kind kind)
{
    size_t from;
    if (!tracer_unmark(t, &from))
        return false;
    if (kind == TRACE_DICT && (t->top - from) % 2)
        return bad(t, "finds {%zu items} above the MARK; keys and values come {=in pairs}", t->top - from);
    return gathered(t, kind, from);
}

static bool tuple(struct tracer *t, size_t n) { return need(t, n) && gathered(t, TRACE_TUPLE, t->top - n); }

static bool opaque(struct tracer *t)
{
    struct trace_node *v = node_new(t, TRACE_OPAQUE);
    return v && push(t, node_ref(v));
}

/* ------------------------------------------------------------------ imports */

static trace_ref import(struct tracer *t, struct trace_global *g)
{
    struct trace_step s = {.what = TRACE_STEP_IMPORT, .subject = node_ref(g)};
    return tracer_tell(t, &s) ? node_ref(g) : 0;
}

static struct trace_global *global_new(struct tracer *t, ckpt_str module, ckpt_str name, bool literal)
{
    struct trace_global *g = ARENA_NEW(t->a, struct trace_global);
    if (!g) {
        tracer_memory(t);
        return NULL;
    }
    g->node.kind = TRACE_GLOBAL;
    g->module = arena_str(t->a, module);
    g->name = arena_str(t->a, name);
    g->protocol = t->protocol;
    g->literal = literal;
    g->verdict = -1;
    if (g->module.ptr && g->name.ptr)
        return g;
    tracer_memory(t);
    return NULL;
}

static trace_ref global(struct tracer *t, ckpt_str module, ckpt_str name)
{
    size_t hash = module.len * 7 + name.len * 31; /* bounded: a hash may wrap */
    for (size_t i = 0; i < name.len; i++)
        hash = hash * 33 + (unsigned char)name.ptr[i]; /* bounded: a hash may wrap */
    struct trace_global **slot = &t->names[hash % SEEN_NAMES], *g = *slot;
    if (!g || g->protocol != t->protocol || !str_eq(g->module, module) || !str_eq(g->name, name))
        g = *slot = global_new(t, module, name, true);
    return g ? import(t, g) : 0;
}

/* two_lines - module and name of GLOBAL and INST. */
static trace_ref two_lines(struct tracer *t)
{
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t m, n;
    if (!tracer_line(t, module, &m))
        return 0;
    /* where the file ends after the module, pickle.py reads an empty name, having imported the module */
    bool ends = left(t) == 0 && !t->o->framed;
    if (ends && m == 0)
        return tracer_stop(t, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    n = 0;
    if (!ends && !tracer_line(t, name, &n))
        return 0;
    return global(t, str_of(module, m), str_of(name, n));
}

/* maybe_any - can a value of this kind be whatever it likes once it is run? */
static bool maybe_any(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    return n && (n->kind == TRACE_GLOBAL || n->kind == TRACE_CALL || n->kind == TRACE_PERSID ||
                 n->kind == TRACE_OPAQUE);
}

static const char *kind_of(trace_ref r)
{
    static const char *const names[] = {
        "a class or function", "an object", "a persistent object", "a tuple", "a list", "a dict", "a set",
        "a frozenset",         "an object"};
    const struct trace_node *n = trace_node(r);
    const struct pickle_op *op = n ? NULL : pickle_op(trace_opcode(r));
    return n ? names[n->kind] : op ? op->name : "a constant";
}

/* text_of - the text that R is; false: it is none, or it cannot be read, which is in the tracer then. */
static bool text_of(struct tracer *t, trace_ref r, char out[LONGEST_NAME], size_t *n)
{
    ckpt_status st = show_text(t->r.src, r, out, LONGEST_NAME, n, t->err);
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        t->status = st;
    return st == CKPT_OK;
}

static bool stack_global(struct tracer *t)
{
    if (!need(t, 2))
        return false;
    trace_ref m = t->stack[t->top - 2], n = t->stack[t->top - 1];
    char module[LONGEST_NAME], name[LONGEST_NAME];
    size_t nm = 0, nn = 0, slot = (size_t)((trace_offset(m) * 31 + trace_offset(n)) % SEEN_NAMES);
    t->top -= 2;
    if (maybe_any(m) || maybe_any(n)) {
        if (!maybe_any(m))
            (void)text_of(t, m, module, &nm);
        if (!maybe_any(n))
            (void)text_of(t, n, name, &nn);
        if (t->status != CKPT_OK)
            return false;
        struct trace_global *g = global_new(t, str_of(module, nm), str_of(name, nn), false);
        return g && push(t, import(t, g));
    }
    struct trace_global *met = t->by_refs[slot];
    if (met && t->name_refs[slot][0] == m && t->name_refs[slot][1] == n && met->protocol == t->protocol)
        return push(t, import(t, met));
    if (!text_of(t, m, module, &nm) || !text_of(t, n, name, &nn))
        return t->status == CKPT_OK &&
               bad(t, "takes {=the texts of a module and a name}, found {%s and %s}", kind_of(m), kind_of(n));
    trace_ref r = global(t, str_of(module, nm), str_of(name, nn));
    t->by_refs[slot] = (struct trace_global *)(uintptr_t)trace_global(r);
    t->name_refs[slot][0] = m;
    t->name_refs[slot][1] = n;
    return push(t, r);
}

/* -------------------------------------------------------------------- calls */

static bool call(struct tracer *t, trace_ref callable, trace_ref args, trace_ref kwargs)
{
    struct trace_node *v = node_new(t, TRACE_CALL);
    const trace_ref parts[3] = {callable, args, kwargs};
    if (!v || !node_held(t, parts + 1, 2) || !node_add(t, v, parts, kwargs ? 3 : 2, 3))
        return false;
    struct trace_step s = {.what = TRACE_STEP_CALL, .subject = node_ref(v), .number = ++t->out->calls};
    return tracer_tell(t, &s) && push(t, node_ref(v));
}

/* arguments - is R what a loader calls with? A tuple; pickle.py, by which joblib loads, spreads out
 * whatever it can go through. */
static bool arguments(trace_ref r)
{
    const struct trace_node *n = trace_node(r);
    uint8_t of = n ? PICKLE_ARG_NONE : argument_of[trace_opcode(r)], op = trace_opcode(r);
    bool counted = of == PICKLE_ARG_B1 || of == PICKLE_ARG_B4 || of == PICKLE_ARG_BI4 || of == PICKLE_ARG_B8;
    return n || op == PICKLE_STRING || op == PICKLE_UNICODE ||
           (counted && op != PICKLE_LONG1 && op != PICKLE_LONG4);
}

static bool reduce(struct tracer *t)
{
    if (!need(t, 2))
        return false;
    trace_ref callable = t->stack[t->top - 2], args = t->stack[t->top - 1];
    if (!maybe_any(callable))
        return bad(t, "calls {%s}; {=a class, function or object} belongs there", kind_of(callable));
    if (!arguments(args))
        return bad(t, "has {%s} for arguments; {=a tuple} belongs there", kind_of(args));
    t->top -= 2;
    return call(t, callable, args, 0);
}

static bool newobj_ex(struct tracer *t)
{
    if (!need(t, 3))
        return false;
    trace_ref callable = t->stack[t->top - 3], args = t->stack[t->top - 2], kwargs = t->stack[t->top - 1];
    const struct trace_node *k = trace_node(kwargs);
    if (!maybe_any(callable))
        return bad(t, "calls {%s}; {=a class} belongs there", kind_of(callable));
    if (!arguments(args) || !(maybe_any(kwargs) || (k && k->kind == TRACE_DICT)))
        return bad(t, "has {%s and %s} for arguments; {=a tuple and a dict} belong there", kind_of(args),
                   kind_of(kwargs));
    t->top -= 3;
    return call(t, callable, args, kwargs);
}

/* instance - OBJ and INST: what lies above the mark are the arguments. */
static bool instance(struct tracer *t, trace_ref klass)
{
    size_t from;
    if (!tracer_unmark(t, &from))
        return false;
    if (t->op == PICKLE_OBJ && t->top == from)
        return bad(t, "finds {0 values} above the MARK; {=a class} belongs there");
    if (t->op == PICKLE_OBJ) {
        klass = t->stack[from];
        if (!maybe_any(klass))
            return bad(t, "calls {%s}; {=a class} belongs there", kind_of(klass));
        from++;
    }
    struct trace_node *args = node_new(t, TRACE_TUPLE);
    if (!taken(t, args, from))
        return false;
    t->top = t->op == PICKLE_OBJ ? from - 1 : from;
    return call(t, klass, node_ref(args), 0);
}

static bool inst(struct tracer *t)
{
    trace_ref klass = two_lines(t);
    return klass && instance(t, klass);
}

static bool persid(struct tracer *t)
{
    trace_ref id = constant(t);
    if (t->op == PICKLE_PERSID ? !tracer_line(t, NULL, NULL) : !need(t, 1))
        return false;
    if (t->op == PICKLE_BINPERSID)
        id = t->stack[--t->top];
    struct trace_node *v = node_new(t, TRACE_PERSID);
    if (!v || !node_held(t, &id, 1) || !node_add(t, v, &id, 1, 1))
        return false;
    struct trace_step s = {.what = TRACE_STEP_PERSID, .subject = id, .number = t->out->opcodes};
    return tracer_tell(t, &s) && push(t, node_ref(v));
}

/* ------------------------------------------------------------------ changes */

static bool changes(struct tracer *t, trace_ref target, trace_ref with)
{
    struct trace_step s = {.what = TRACE_STEP_CHANGE, .subject = target, .with = with};
    return tracer_tell(t, &s);
}

/* built - what a call made keeps the first states it was given. */
static bool built(struct tracer *t, trace_ref target, trace_ref state)
{
    const trace_ref none = 0;
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    if (!v || v->kind != TRACE_CALL) {
        node_release(t, state);
        return true;
    }
    return (v->n > 2 || node_add(t, v, &none, 1, 4)) && node_add(t, v, &state, 1, 4);
}

static bool build(struct tracer *t)
{
    if (!need(t, 2))
        return false;
    trace_ref state = t->stack[--t->top], target = t->stack[t->top - 1];
    return node_held(t, &state, 1) && changes(t, target, state) && built(t, target, state) &&
           joblib_pass(t, target, state);
}

/* is_bytearray - it has append(), extend() and item assignment, which is all that loaders ask for. */
static bool is_bytearray(trace_ref r) { return !trace_node(r) && trace_opcode(r) == PICKLE_BYTEARRAY8; }

/* put_in - the items from FROM up go into what lies below them: a list or bytearray (APPEND,
 * APPENDS), a dict or one of those (SETITEM, SETITEMS) or a set (ADDITEMS). */
static bool put_in(struct tracer *t, size_t from)
{
    if (from == t->fence)
        return tracer_underflow(t, t->top - from + 1);
    trace_ref target = t->stack[from - 1];
    size_t n = t->top - from;
    bool pairs = t->op == PICKLE_SETITEM || t->op == PICKLE_SETITEMS;
    if (pairs && n % 2)
        return bad(t, "finds {%zu items} above the MARK; keys and values come {=in pairs}", n);
    struct trace_node *v = (struct trace_node *)(uintptr_t)trace_node(target);
    bool fits = v && (pairs                      ? v->kind == TRACE_DICT || v->kind == TRACE_LIST
                      : t->op == PICKLE_ADDITEMS ? v->kind == TRACE_SET
                                                 : v->kind == TRACE_LIST);
    t->top = from;
    if (n == 0) /* pickle.py calls extend() all the same */
        return t->op != PICKLE_APPENDS || !maybe_any(target) || changes(t, target, 0);
    bool array = t->op != PICKLE_ADDITEMS && is_bytearray(target);
    if (!array && !maybe_any(target) && !fits)
        return bad(t, "adds to {%s}; {=a %s} belongs there", kind_of(target),
                   pairs                      ? "dict"
                   : t->op == PICKLE_ADDITEMS ? "set"
                                              : "list");
    if (!node_held(t, t->stack + from, n) || (maybe_any(target) && !changes(t, target, t->stack[from])))
        return false;
    bool kept = fits && !(pairs && v->kind == TRACE_LIST); /* of items that replace some, nothing is kept */
    struct trace_node none = {.kept = 0};
    return node_add(t, kept ? v : &none, t->stack + from, n, kept ? KEEP_ITEMS : 0);
}

static bool put_above_mark(struct tracer *t)
{
    size_t from;
    return tracer_unmark(t, &from) && put_in(t, from);
}

/* ---------------------------------------------------------------- constants */

/* push_constant - the place of the opcode tells its argument, unless that was read elsewhere. */
static bool push_constant(struct tracer *t) { return t->jumped ? opaque(t) : push(t, constant(t)); }

/* counted - text or bytes behind a length of WIDTH bytes. */
static bool counted(struct tracer *t, size_t width, bool is_signed)
{
    const unsigned char *b = take(t, width);
    if (!b)
        return false;
    uint64_t n = width == 1 ? b[0] : width == 4 ? load_u32le(b) : load_u64le(b);
    if (is_signed && n > INT32_MAX)
        return bad(t, "has a length of {%" PRId32 "}; it must be {=0 or more}", (int32_t)(uint32_t)n);
    bool bytes = t->op == PICKLE_BINBYTES || t->op == PICKLE_SHORT_BINBYTES || t->op == PICKLE_BINBYTES8 ||
                 t->op == PICKLE_BYTEARRAY8;
    if (t->o->payloads && !payload_counted(t, n))
        return false;
    return tracer_skip(t, n, bytes) && push_constant(t);
}

/* plain - an opcode that pushes a constant: its argument is passed over. */
static bool plain(struct tracer *t)
{
    switch (argument_of[t->op]) {
    case PICKLE_ARG_NONE: return push(t, constant(t));
    case PICKLE_ARG_U1: return take(t, 1) && push_constant(t);
    case PICKLE_ARG_U2: return take(t, 2) && push_constant(t);
    case PICKLE_ARG_U4:
    case PICKLE_ARG_I4: return take(t, 4) && push_constant(t);
    case PICKLE_ARG_F8: return take(t, 8) && push_constant(t);
    case PICKLE_ARG_LINE:
        return (t->o->payloads && (t->op == PICKLE_UNICODE || t->op == PICKLE_STRING)
                    ? payload_line(t)
                    : tracer_line(t, NULL, NULL)) &&
               push_constant(t);
    case PICKLE_ARG_B1: return counted(t, 1, false);
    case PICKLE_ARG_B4: return counted(t, 4, false);
    case PICKLE_ARG_BI4: return counted(t, 4, true);
    default: return counted(t, 8, false);
    }
}

/* ------------------------------------------------------------------ running */

static bool frame(struct tracer *t)
{
    const unsigned char *b = take(t, 8);
    if (!b)
        return false;
    uint64_t n = load_u64le(b), end = UINT64_MAX;
    if (t->o->framed)
        return tracer_cross(t, n);
    bool inside = t->buffer != UINT64_MAX && here(t) < t->buffer;
    if (!checked_add(here(t), n, &end) || end > t->r.end || inside) {
        t->out->framed_differs = t->out->framed_differs || inside;
        if (!tracer_note(t, TRACE_STEP_FRAME, n))
            return false;
    }
    if (!inside)
        t->buffer = end;
    return true;
}

/* dropped - the values from FROM up leave the stack. */
static bool dropped(struct tracer *t, size_t from)
{
    for (size_t i = t->top; i-- > from;) {
        const struct trace_node *n = trace_node(t->stack[i]);
        struct trace_step s = {.what = TRACE_STEP_DROP, .subject = t->stack[i]};
        if (n && n->kind == TRACE_CALL && !n->shared && !tracer_tell(t, &s))
            return false;
        node_release(t, t->stack[i]);
    }
    t->top = from;
    return true;
}

static bool pop(struct tracer *t)
{
    size_t from;
    if (t->nmarks && t->fence == t->top)
        return tracer_unmark(t, &from);
    return need(t, 1) && dropped(t, t->top - 1);
}

static bool memo_op(struct tracer *t, size_t width, bool (*what)(struct tracer *, uint64_t))
{
    const unsigned char *b = take(t, width);
    return b && what(t, width == 1 ? b[0] : load_u32le(b));
}

static bool extension(struct tracer *t)
{
    const unsigned char *b = take(t, t->op == PICKLE_EXT1 ? 1 : t->op == PICKLE_EXT2 ? 2 : 4);
    if (!b)
        return false;
    uint32_t code = t->op == PICKLE_EXT1 ? b[0] : t->op == PICKLE_EXT2 ? load_u16le(b) : load_u32le(b);
    return tracer_note(t, TRACE_STEP_EXTENSION, code) && opaque(t);
}

static bool proto(struct tracer *t)
{
    const unsigned char *b = take(t, 1);
    if (!b)
        return false;
    if (*b > 5)
        return tracer_stop(t, CKPT_EUNSUPPORTED, "says pickle protocol {%u}; {=0 to 5} are known", *b);
    t->protocol = *b;
    return true;
}

static bool pop_mark(struct tracer *t)
{
    size_t from;
    return tracer_unmark(t, &from) && dropped(t, from);
}

static bool dup(struct tracer *t)
{
    if (!need(t, 1))
        return false;
    tracer_share(t->stack[t->top - 1]);
    return push(t, t->stack[t->top - 1]);
}

static bool unknown_opcode(struct tracer *t)
{
    char found[BYTES_SHOWN];
    unsigned char op = (unsigned char)t->op;
    return bad(t, "{%s} is not {=a pickle opcode}", text_bytes_found(&op, 1, found));
}

/* step - one opcode, STOP excepted. */
static bool step(struct tracer *t)
{
    switch (t->op) {
    case PICKLE_MARK: return tracer_mark(t);
    case PICKLE_POP: return pop(t);
    case PICKLE_POP_MARK: return pop_mark(t);
    case PICKLE_DUP: return dup(t);
    case PICKLE_PERSID:
    case PICKLE_BINPERSID: return persid(t);
    case PICKLE_REDUCE:
    case PICKLE_NEWOBJ: return reduce(t);
    case PICKLE_NEWOBJ_EX: return newobj_ex(t);
    case PICKLE_OBJ: return instance(t, 0);
    case PICKLE_INST: return inst(t);
    case PICKLE_BUILD: return build(t);
    case PICKLE_GLOBAL: return push(t, two_lines(t));
    case PICKLE_STACK_GLOBAL: return stack_global(t);
    case PICKLE_EXT1:
    case PICKLE_EXT2:
    case PICKLE_EXT4: return extension(t);
    case PICKLE_APPEND: return need(t, 1) && put_in(t, t->top - 1);
    case PICKLE_SETITEM: return need(t, 2) && put_in(t, t->top - 2);
    case PICKLE_APPENDS:
    case PICKLE_SETITEMS:
    case PICKLE_ADDITEMS: return put_above_mark(t);
    case PICKLE_DICT: return above_mark(t, TRACE_DICT);
    case PICKLE_LIST: return above_mark(t, TRACE_LIST);
    case PICKLE_TUPLE: return above_mark(t, TRACE_TUPLE);
    case PICKLE_FROZENSET: return above_mark(t, TRACE_FROZENSET);
    case PICKLE_EMPTY_DICT: return gathered(t, TRACE_DICT, t->top);
    case PICKLE_EMPTY_LIST: return gathered(t, TRACE_LIST, t->top);
    case PICKLE_EMPTY_SET: return gathered(t, TRACE_SET, t->top);
    case PICKLE_EMPTY_TUPLE: return gathered(t, TRACE_TUPLE, t->top);
    case PICKLE_TUPLE1: return tuple(t, 1);
    case PICKLE_TUPLE2: return tuple(t, 2);
    case PICKLE_TUPLE3: return tuple(t, 3);
    case PICKLE_GET:
    case PICKLE_PUT: return tracer_memo_line(t);
    case PICKLE_BINGET: return memo_op(t, 1, tracer_get);
    case PICKLE_LONG_BINGET: return memo_op(t, 4, tracer_get);
    case PICKLE_BINPUT: return memo_op(t, 1, tracer_put);
    case PICKLE_LONG_BINPUT: return memo_op(t, 4, tracer_put);
    case PICKLE_MEMOIZE: return tracer_put(t, t->memo_count);
    case PICKLE_PROTO: return proto(t);
    case PICKLE_FRAME: return frame(t);
    case PICKLE_NEXT_BUFFER: return tracer_note(t, TRACE_STEP_BUFFER, 0) && opaque(t);
    case PICKLE_READONLY_BUFFER: return need(t, 1);
    default: return known[t->op] ? plain(t) : unknown_opcode(t);
    }
}

/* crossed - flat: the opcode that just ran goes beyond the end of its frame. */
static bool crossed(struct tracer *t)
{
    bool inside = t->at < t->buffer;
    t->buffer = UINT64_MAX;
    if (!inside)
        return true;
    t->out->framed_differs = true;
    return tracer_note(t, TRACE_STEP_FRAME, 0);
}

static bool run(struct tracer *t)
{
    for (;;) {
        t->at = here(t);
        if (t->at == t->r.end) {
            t->op = 0;
            return tracer_stop(t, CKPT_ETRUNCATED, "the pickle {ends} without {=STOP}");
        }
        const unsigned char *b = take(t, 1);
        if (!b)
            return false;
        if (t->o->framed)
            t->at = here(t) - 1;
        t->op = *b;
        t->jumped = false;
        t->out->opcodes++;
        if (t->o->left && (*t->o->left)-- == 0) {
            *t->o->left = 0;
            return tracer_stop(t, CKPT_ELIMIT, "is one opcode more than are followed in a file of this size");
        }
        if (t->at < t->out->first_use[t->op])
            t->out->first_use[t->op] = t->at;
        if (t->op == PICKLE_STOP)
            break;
        if (!step(t) || (!t->o->framed && here(t) > t->buffer && t->op != PICKLE_FRAME && !crossed(t)))
            return false;
    }
    size_t below = t->top ? t->top - 1 : 0;
    if (!need(t, 1) || !node_held(t, t->stack + t->top - 1, 1))
        return false;
    t->out->stopped = true;
    return below + t->nmarks == 0 || tracer_note(t, TRACE_STEP_LEFT, below + t->nmarks);
}

static ckpt_value *value(const struct trace *of, trace_ref r, arena *a, size_t nodes, ckpt_error *err)
{
    return show_value(((const struct tracer *)of)->r.src, r, a, nodes, err);
}

static bool begin(struct tracer *t, source *src, uint64_t pos, uint64_t end)
{
    uint64_t length = end > pos ? end - pos : 0, budget;
    if (!checked_mul(length, 16, &budget) || budget < (uint64_t)64 << 20)
        budget = (uint64_t)64 << 20;
    t->max_memory = t->o->max_memory ? t->o->max_memory : budget;
    t->out->calls = t->o->calls;
    memset(t->out->first_use, 0xff, sizeof t->out->first_use);
    t->buffer = t->o->framed ? pos : UINT64_MAX;
    t->a = arena_new(t->max_memory);
    if (!t->a) {
        t->status = fail_memory(t->err);
        return false;
    }
    t->status = reader_init(&t->r, src, pos, end, t->err);
    t->p = t->lim = t->r.win;
    t->lim_pos = t->start = t->at = pos;
    t->want = 4096;
    return t->status == CKPT_OK;
}

ckpt_status pickle_trace(source *src, uint64_t pos, uint64_t end, const struct trace_options *opts,
                         struct trace_end *out, ckpt_error *err)
{
    struct tracer *t = calloc(1, sizeof *t);
    *out = (struct trace_end){.next = pos};
    if (!t)
        return fail_memory(err);
    t->t.value = value;
    t->o = opts;
    t->out = out;
    t->err = err;
    if (begin(t, src, pos, end)) {
        (void)run(t);
        out->next = out->stopped ? here(t) : t->at;
    }
    ckpt_status st = t->status;
    reader_free(&t->r);
    map_free(t->sparse);
    arena_free(t->a);
    map_free(t->huge);
    free(t->line);
    free(t->far);
    free(t->memo);
    free(t->marks);
    free(t->stack);
    free(t);
    return st;
}
