/* pickle_write.c - a value graph as a pickle of protocol 2, or of protocol 3 with the opcodes of protocol 2.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       2     PROTO 2, or 3
 *   2       1+    opcodes that torch/_weights_only_unpickler.py knows; others only
 *                 for what has no such form (old-style instances, ints of more than
 *                 255 bytes, long Python 2 strings, tuples that contain themselves)
 *   …       1     STOP
 *
 * The walk keeps its own stack, since a graph may be as deep as a file likes. A
 * list, dict or object is in the memo before its first item goes out, so that it
 * may contain itself. A tuple cannot be: when it turns out, behind its last item,
 * that it was completed inside itself, that copy is taken and this one dropped,
 * as CPython's pickler does (Lib/pickle.py, save_tuple and save_reduce). The same
 * goes for sets, which later protocols do put into the memo first: inside one,
 * everything is remembered. */
#include "codec/pickle_write.h"

#include <stdlib.h>
#include <string.h>

#include "codec/pickle_emit.h"

#define BATCH       1000u /* items between a MARK and its APPENDS or SETITEMS, as CPython has it */
#define MAX_NESTING (1u << 20)
#define MAX_ENTERED 64u /* a tuple inside itself inside itself … */

struct frame {
    const ckpt_value *v;
    const ckpt_value *container; /* whose entries are asked for; V but for the arguments of OBJ */
    uint8_t phase;
    bool shared;
    bool pairs, batched;      /* the run of entries: of pairs; with APPEND(S), SETITEM(S) */
    bool asked;               /* the entry hook decides */
    bool open, single, value; /* MARK is out; one item without it; the value of cur is due */
    uint32_t at, end, cur, count;
    ckpt_str text; /* in place of entry `at`, or .ptr NULL */
};

/* ------------------------------------------------------------------- runs */

/* find - the next entry that is kept, from `at` on. */
static void find(pickle_writer *w, struct frame *f)
{
    for (; f->at < f->end; f->at++) {
        f->text = str_of(NULL, 0);
        if (!f->asked || w->hooks->entry(w->hooks->user, f->container, f->at, &f->text))
            return;
    }
}

static void run_begin(pickle_writer *w, struct frame *f, bool pairs, bool batched, uint32_t from,
                      uint32_t end)
{
    bool call = f->container->type == CKPT_V_CALL;
    f->pairs = pairs;
    f->batched = batched;
    f->asked = w->hooks->entry && (pairs || !call || value_more_of(f->container)->npairs == 0);
    f->open = f->single = f->value = false;
    f->at = from;
    f->end = end;
    f->count = 0;
    find(w, f);
}

static const ckpt_value *item_at(const ckpt_value *v, uint32_t i)
{
    return v->type == CKPT_V_CALL ? value_more_of(v)->items[i] : v->u.seq.items[i];
}

static value_pair pair_at(const ckpt_value *v, uint32_t i)
{
    return v->type == CKPT_V_CALL ? value_more_of(v)->pairs[i] : v->u.dict.pairs[i];
}

/* put_instead - TEXT in the place of V, and of V's type where that is text too. */
static void put_instead(pickle_writer *w, const ckpt_value *v, ckpt_str text)
{
    emit_text(w, v->type == CKPT_V_STR8 ? PICKLE_BINSTRING : PICKLE_BINUNICODE, text);
}

static void batch_end(pickle_writer *w, struct frame *f)
{
    if (f->single)
        emit_op(w, f->pairs ? PICKLE_SETITEM : PICKLE_APPEND);
    f->single = false;
    if (f->open && (f->count == BATCH || f->at == f->end)) {
        emit_op(w, f->pairs ? PICKLE_SETITEMS : PICKLE_APPENDS);
        f->open = false;
    }
}

static void batch_begin(pickle_writer *w, struct frame *f)
{
    if (f->open)
        return;
    f->open = f->at < f->end;
    f->single = !f->open;
    f->count = 0;
    if (f->open)
        emit_op(w, PICKLE_MARK);
}

/* run_next - the node to write next; NULL: the run is over. */
static const ckpt_value *run_next(pickle_writer *w, struct frame *f)
{
    if (f->value) {
        f->value = false;
        return pair_at(f->container, f->cur).val;
    }
    for (;;) {
        if (f->batched)
            batch_end(w, f);
        if (f->at == f->end)
            return NULL;
        ckpt_str text = f->text;
        f->cur = f->at++;
        find(w, f);
        if (f->batched)
            batch_begin(w, f);
        f->count++;
        const ckpt_value *v = f->pairs ? pair_at(f->container, f->cur).key : item_at(f->container, f->cur);
        f->value = f->pairs && !text.ptr;
        if (!text.ptr)
            return v;
        put_instead(w, v, text);
        if (f->pairs)
            return pair_at(f->container, f->cur).val;
    }
}

/* ----------------------------------------------------------------- frames */

static ckpt_status lossy(const ckpt_value *v, ckpt_error *err, const char *why)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "the value made at byte 0x%llx of its pickle %s",
                (unsigned long long)v->offset, why);
}

/* taken_from_memo - a value that contains itself may have been completed while
 * its parts were written: then the N parts on the stack, or all above the MARK,
 * are dropped for it. */
static bool taken_from_memo(pickle_writer *w, const struct frame *f, uint32_t n, bool mark)
{
    if (!f->shared || map_get_num(w->nodes, map_ptr(f->v)) == MAP_NONE)
        return false;
    if (mark)
        emit_op(w, PICKLE_POP_MARK);
    for (uint32_t i = 0; !mark && i < n; i++)
        emit_op(w, PICKLE_POP);
    return emit_known(w, f->v);
}

static const ckpt_value *step_list(pickle_writer *w, struct frame *f)
{
    bool dict = f->v->type == CKPT_V_DICT;
    if (f->phase == 0) {
        f->phase = 1;
        emit_op(w, dict ? PICKLE_EMPTY_DICT : PICKLE_EMPTY_LIST);
        if (f->shared)
            emit_node_place(w, f->v);
        run_begin(w, f, dict, true, 0, dict ? f->v->u.dict.n : f->v->u.seq.n);
    }
    return run_next(w, f);
}

static const ckpt_value *step_tuple(pickle_writer *w, struct frame *f)
{
    static const enum pickle_opcode brief[] = {PICKLE_EMPTY_TUPLE, PICKLE_TUPLE1, PICKLE_TUPLE2,
                                               PICKLE_TUPLE3};
    bool mark = f->v->u.seq.n > 3;
    if (f->phase == 0) {
        f->phase = 1;
        if (mark)
            emit_op(w, PICKLE_MARK);
        run_begin(w, f, false, false, 0, f->v->u.seq.n);
    }
    const ckpt_value *next = run_next(w, f);
    if (next || taken_from_memo(w, f, f->count, mark))
        return next;
    emit_op(w, mark ? PICKLE_TUPLE : brief[f->count]);
    if (f->shared)
        emit_node_place(w, f->v);
    return NULL;
}

/* SET, FROZENSET: a call over a list, as protocol 2 has no opcode for them. */
static const ckpt_value *step_set(pickle_writer *w, struct frame *f)
{
    if (f->phase == 0) {
        f->phase = 1;
        pickle_put_global(w, STR_LIT("__builtin__"),
                          f->v->type == CKPT_V_SET ? STR_LIT("set") : STR_LIT("frozenset"));
        emit_op(w, PICKLE_EMPTY_LIST);
        run_begin(w, f, false, true, 0, f->v->u.seq.n);
    }
    const ckpt_value *next = run_next(w, f);
    if (next || taken_from_memo(w, f, 2, false))
        return next;
    emit_op(w, PICKLE_TUPLE1);
    emit_op(w, PICKLE_REDUCE);
    if (f->shared)
        emit_node_place(w, f->v);
    return NULL;
}

static const ckpt_value *step_persid(pickle_writer *w, struct frame *f)
{
    if (f->phase++ == 0)
        return f->v->u.pid;
    emit_op(w, PICKLE_BINPERSID);
    if (f->shared)
        emit_node_place(w, f->v);
    return NULL;
}

/* The steps of a CALL. */
enum {
    CALL_BEGIN,
    CALL_ARGS,
    CALL_SPREAD,
    CALL_KWARGS,
    CALL_MAKE,
    CALL_ITEMS,
    CALL_PAIRS,
    CALL_STATES,
    CALL_ITEMS_AFTER,
    CALL_PAIRS_AFTER,
    CALL_END
};

static bool old_style(const ckpt_value *v) { return v->call == CALL_OBJ || v->call == CALL_INST; }

/* call_make - everything a CALL is made of is on the stack. True: this one was
 * made while its arguments were, and needs no more. */
static bool call_make(pickle_writer *w, struct frame *f)
{
    bool ex = f->v->call == CALL_NEWOBJ_EX;
    if (taken_from_memo(w, f, ex ? 4 : 2, old_style(f->v)))
        return true;
    if (ex)
        emit_op(w, PICKLE_TUPLE3);
    emit_op(w, old_style(f->v) ? PICKLE_OBJ : f->v->call == CALL_NEWOBJ ? PICKLE_NEWOBJ : PICKLE_REDUCE);
    if (f->shared)
        emit_node_place(w, f->v);
    return false;
}

/* first_items, first_pairs - how many came before the first BUILD. */
static uint32_t first_items(const struct value_more *m)
{
    return m->nstates == 0 || m->build_items > m->nitems ? m->nitems : m->build_items;
}

static uint32_t first_pairs(const struct value_more *m)
{
    uint32_t pairs = m->nstates == 0 ? m->npairs : m->build_items - first_items(m);
    return pairs > m->npairs ? m->npairs : pairs;
}

/* call_first - what goes on the stack before the object exists; NULL: all did. */
static const ckpt_value *call_first(pickle_writer *w, struct frame *f)
{
    const struct value_call *c = &f->v->u.call;
    switch (f->phase) {
    case CALL_BEGIN:
        f->phase = CALL_ARGS;
        if (f->v->call == CALL_NEWOBJ_EX)
            pickle_put_global(w, STR_LIT("copyreg"), STR_LIT("__newobj_ex__"));
        if (old_style(f->v))
            emit_op(w, PICKLE_MARK);
        return c->callable;
    case CALL_ARGS:
        f->phase = f->v->call == CALL_NEWOBJ_EX ? CALL_KWARGS : CALL_MAKE;
        if (!old_style(f->v))
            return c->args;
        f->phase = CALL_SPREAD;
        f->container = c->args;
        run_begin(w, f, false, false, 0, c->args->u.seq.n);
        return run_next(w, f);
    case CALL_SPREAD: return run_next(w, f);
    case CALL_KWARGS: f->phase = CALL_MAKE; return value_more_of(f->v)->kwargs;
    default: return NULL;
    }
}

/* call_phase - begins phase P, one of those after CALL_MAKE. */
static void call_phase(pickle_writer *w, struct frame *f, uint8_t p)
{
    const struct value_more *m = value_more_of(f->v);
    f->phase = p;
    f->cur = 0;
    if (p == CALL_ITEMS)
        run_begin(w, f, false, true, 0, first_items(m));
    else if (p == CALL_PAIRS)
        run_begin(w, f, true, true, 0, first_pairs(m));
    else if (p == CALL_ITEMS_AFTER)
        run_begin(w, f, false, true, first_items(m), m->nitems);
    else if (p == CALL_PAIRS_AFTER)
        run_begin(w, f, true, true, first_pairs(m), m->npairs);
}

static const ckpt_value *next_state(pickle_writer *w, struct frame *f)
{
    const struct value_more *m = value_more_of(f->v);
    if (f->cur > 0)
        emit_op(w, PICKLE_BUILD);
    return f->cur < m->nstates ? m->states[f->cur++] : NULL;
}

static const ckpt_value *step_call(pickle_writer *w, struct frame *f)
{
    if (f->phase <= CALL_MAKE) {
        const ckpt_value *next = call_first(w, f);
        if (next || call_make(w, f))
            return next;
        f->container = f->v;
        call_phase(w, f, CALL_ITEMS);
    }
    while (f->phase < CALL_END) {
        const ckpt_value *next = f->phase == CALL_STATES ? next_state(w, f) : run_next(w, f);
        if (next)
            return next;
        call_phase(w, f, (uint8_t)(f->phase + 1));
    }
    return NULL;
}

static const ckpt_value *step(pickle_writer *w, struct frame *f)
{
    switch (f->v->type) {
    case CKPT_V_LIST:
    case CKPT_V_DICT: return step_list(w, f);
    case CKPT_V_TUPLE: return step_tuple(w, f);
    case CKPT_V_SET:
    case CKPT_V_FROZENSET: return step_set(w, f);
    case CKPT_V_PERSID: return step_persid(w, f);
    default: return step_call(w, f);
    }
}

/* ------------------------------------------------------------------- walk */

/* call_check - refuses orders of changes that the graph does not tell. */
static ckpt_status call_check(const ckpt_value *v, ckpt_error *err)
{
    const struct value_more *m = value_more_of(v);
    if (old_style(v) && v->u.call.args->type != CKPT_V_TUPLE)
        return lossy(v, err, "is an old-style instance without a tuple of arguments");
    bool after = m->nstates && (first_items(m) < m->nitems || first_pairs(m) < m->npairs);
    if (after && m->nstates > 1)
        return lossy(v, err, "was changed by BUILD, then by other opcodes, then by BUILD again");
    if (after && m->build_items && m->nitems && m->npairs)
        return lossy(v, err, "was given items and pairs both before and after its BUILD");
    return CKPT_OK;
}

/* Only what is reached more than once can contain itself; what is not in the
 * memo before its items are is begun again inside itself, until all lists, dicts
 * and objects on the way are in the memo. */
static ckpt_status count_entry(pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    uint32_t n = map_get_num(w->entered, map_ptr(v));
    n = n == MAP_NONE ? 1 : n + 1;
    if (n > MAX_ENTERED)
        return lossy(v, err, "contains itself in a way that protocol 2 cannot hold");
    if (!map_set_num(w->entered, map_ptr(v), n))
        return fail_memory(err);
    return CKPT_OK;
}

static ckpt_status frame_push(pickle_writer *w, const ckpt_value *v, bool shared, ckpt_error *err)
{
    if (v->type == CKPT_V_CALL)
        CKPT_TRY(call_check(v, err));
    if (shared && v->type != CKPT_V_LIST && v->type != CKPT_V_DICT)
        CKPT_TRY(count_entry(w, v, err));
    if (w->nframes == w->cap_frames) {
        size_t cap = w->cap_frames ? w->cap_frames * 2 : 64;
        if (cap > MAX_NESTING)
            return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "values nested {deeper} than {=%u}", MAX_NESTING);
        struct frame *grown = realloc(w->frames, cap * sizeof *grown);
        if (!grown)
            return fail_memory(err);
        w->frames = grown;
        w->cap_frames = cap;
    }
    w->frames[w->nframes++] = (struct frame){.v = v, .container = v, .shared = shared};
    w->nsets += shared && v->type == CKPT_V_SET;
    return CKPT_OK;
}

static void frame_pop(pickle_writer *w)
{
    const struct frame *f = &w->frames[--w->nframes];
    w->nsets -= f->shared && f->v->type == CKPT_V_SET;
}

/* put_atom - a value without children; false: V is none. */
static bool put_atom(pickle_writer *w, const ckpt_value *v)
{
    bool span = v->flags & VALUE_SPAN;
    switch (v->type) {
    case CKPT_V_NONE: emit_op(w, PICKLE_NONE); return true;
    case CKPT_V_BOOL: pickle_put_bool(w, v->u.b); return true;
    case CKPT_V_INT: pickle_put_int(w, v->u.i); return true;
    case CKPT_V_BIGINT: emit_bigint(w, v->u.str); return true;
    case CKPT_V_FLOAT: emit_float(w, v->u.f); return true;
    case CKPT_V_STR:
    case CKPT_V_STR8:
        if (span)
            return false;
        emit_text(w, v->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, v->u.str);
        return true;
    case CKPT_V_GLOBAL: emit_global(w, v); return true;
    case CKPT_V_TUPLE:
        if (v->u.seq.n == 0)
            emit_op(w, PICKLE_EMPTY_TUPLE);
        return v->u.seq.n == 0;
    default: return false;
    }
}

static void put_leaf(pickle_writer *w, const ckpt_value *v)
{
    ckpt_status st = w->hooks->leaf(w->hooks->user, w, v, w->err);
    if (w->status == CKPT_OK)
        w->status = st;
}

/* put_block - a value that is written at once, but whose identity may matter. */
static bool put_block(pickle_writer *w, const ckpt_value *v)
{
    if (v->type == CKPT_V_BYTES || v->type == CKPT_V_BYTEARRAY)
        emit_bytes(w, v);
    else if (v->type == CKPT_V_STR || v->type == CKPT_V_STR8)
        emit_span(w, v->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, v->u.span);
    else if ((v->type == CKPT_V_PERSID || v->type == CKPT_V_TENSOR) && w->hooks->leaf)
        put_leaf(w, v);
    else
        return false;
    return true;
}

/* begin - writes V, or the frame that will. */
static ckpt_status begin(pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    bool shared = v->flags & VALUE_SHARED;
    if (w->hooks->replace)
        v = w->hooks->replace(w->hooks->user, v);
    shared = shared || v->flags & VALUE_SHARED || w->nsets > 0;
    if (v->flags & VALUE_BUILT)
        return lossy(v, err, "was changed by BUILD or ADDITEMS in a way that cannot be repeated");
    if (put_atom(w, v) || (shared && emit_known(w, v)))
        return w->status;
    if (put_block(w, v)) {
        if (shared)
            emit_node_place(w, v);
        return w->status;
    }
    if (v->type == CKPT_V_TENSOR)
        return lossy(v, err, "is a tensor that a pickle cannot hold");
    return frame_push(w, v, shared, err);
}

static ckpt_status write_all(pickle_writer *w, const ckpt_value *root, ckpt_error *err)
{
    emit_op(w, PICKLE_PROTO);
    buf_byte(w->out, w->hooks->literal ? 3 : 2);
    CKPT_TRY(begin(w, root, err));
    while (w->nframes && buf_ok(w->out)) {
        const ckpt_value *next = step(w, &w->frames[w->nframes - 1]);
        CKPT_TRY(w->status);
        if (next)
            CKPT_TRY(begin(w, next, err));
        else
            frame_pop(w);
    }
    emit_finish(w);
    if (buf_ok(w->out))
        return CKPT_OK;
    if (w->out->len >= w->out->max / 2)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "the pickle would be larger than the %zu bytes it may have", w->out->max);
    return fail_memory(err);
}

/* write_as - MEMO indices are left free at the low end. */
static ckpt_status write_as(const ckpt_value *root, const struct pickle_hooks *hooks, uint32_t memo,
                            bool widen, buf *out, ckpt_error *err)
{
    static const struct pickle_hooks none;
    pickle_writer w = {.out = out, .hooks = hooks ? hooks : &none, .nmemo = memo, .widen = widen, .err = err};
    ckpt_status st = emit_init(&w) ? write_all(&w, root, err) : w.status;
    emit_free(&w);
    return st;
}

ckpt_status pickle_write(const ckpt_value *root, const struct pickle_hooks *hooks, buf *out, ckpt_error *err)
{
    return write_as(root, hooks, 0, false, out, err);
}

/* fill - the last N bytes of a pickle, at AT: PUTs to memo index 0 and STOP. False: no PUTs are as long. */
static bool fill(unsigned char *at, size_t n)
{
    size_t left = n - 1; /* bounded: N holds STOP */
    if (left == 1 || left == 3)
        return false;
    while (left) {
        bool wide = left >= 10 || left % 2;
        size_t put = wide ? 5 : 2;
        memset(at, 0, put);
        *at = wide ? PICKLE_LONG_BINPUT : PICKLE_BINPUT;
        at += put; /* bounded: an odd rest is 5 or more */
        left -= put;
    }
    *at = PICKLE_STOP;
    return true;
}

ckpt_status pickle_write_filled(const ckpt_value *root, const struct pickle_hooks *hooks, size_t size,
                                buf *out, bool *fits, ckpt_error *err)
{
    *fits = false;
    CKPT_TRY(write_as(root, hooks, 1, false, out, err));
    if (out->len <= size && (size - out->len == 1 || size - out->len == 3)) {
        buf_free(out); /* an odd rest: one int takes a byte more, if there is one */
        CKPT_TRY(write_as(root, hooks, 1, true, out, err));
    }
    size_t end = out->len - 1; /* bounded: where STOP is */
    if (out->len > size || size - out->len == 1 || size - out->len == 3)
        return CKPT_OK;
    if (!buf_extend(out, size - out->len)) /* bounded: looked at just now */
        return fail_memory(err);
    *fits = fill(out->data + end, size - end); /* bounded: end < size */
    return CKPT_OK;
}
