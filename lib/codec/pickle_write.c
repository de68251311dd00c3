/* pickle_write.c - see pickle_write.h.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       2     PROTO 2, or 3
 *   2       1+    opcodes of torch/_weights_only_unpickler.py; others only for values that these cannot make
 *                 (old-style instances, ints of more than 255 bytes, long Python 2 strings, tuples that
 *                 contain themselves)
 *   …       1     STOP
 *
 * The nodes that are being written are on a stack of pickle_frames, because a hostile file may nest them
 * deeper than the C stack allows. A list, dict or object is put into the memo before its items are written,
 * so that it may contain itself. A tuple exists only after its items. If it contains itself, it is written a
 * second time among its own items; once the outer one has all its items, these are popped, and a GET of the
 * inner one takes their place, as CPython's pickler does (Lib/pickle.py, save_tuple and save_reduce). A set
 * is written like a tuple; every value inside a shared set gets a put site (pickle_emit.h).
 */
#include "codec/pickle_write.h"

#include "base/store.h"
#include "codec/pickle_emit.h"

#define BATCH       1000u /* items between a MARK and its APPENDS or SETITEMS, as in CPython */
#define MAX_NESTING (1u << 20)
#define MAX_ENTERED 64u /* most times that a tuple is written inside itself */

/* A node that is being written. Its entries are written in runs: of items, or of pairs. A run whose entries
 * are added by opcodes is written in batches, each from a MARK to the opcode. */
struct pickle_frame {
    const ckpt_value *v;
    const ckpt_value *container; /* the node whose entries are written: v, or the arguments of OBJ */
    uint8_t phase;               /* 0 at first; for a CALL, one of the phases below */
    bool shared;                 /* several nodes refer to v, so it needs a put site */
    bool has_pairs, has_batches; /* set from the kind of the run */
    bool calls_hook;             /* the entry hook is called for each entry of the run */
    bool has_mark, is_single;    /* a MARK was written for the batch; or its only entry needs none */
    bool value_is_next;          /* the key of the current pair was written */
    uint32_t next_entry, end;    /* number of the run's next entry, and of its last plus 1 */
    uint32_t current;            /* number of the current entry; in CALL_STATES, of the next state to write */
    uint32_t count;              /* number of entries of the run or batch that were written */
    ckpt_str replacement;        /* text that replaces entry next_entry; .ptr NULL: none */
};

enum run_kind {
    RUN_OPERANDS, /* items that stay on the stack */
    RUN_ITEMS,    /* items that APPEND or APPENDS adds */
    RUN_PAIRS     /* pairs that SETITEM or SETITEMS adds */
};

/* find_next_entry - moves next_entry to an entry that the entry hook does not leave out. */
static void find_next_entry(pickle_writer *w, struct pickle_frame *f)
{
    for (; f->next_entry < f->end; f->next_entry++) {
        f->replacement = str_of(NULL, 0);
        if (!f->calls_hook ||
            w->hooks->keep_entry(w->hooks->user, f->container, f->next_entry, &f->replacement))
            return;
    }
}

static void begin_run(pickle_writer *w, struct pickle_frame *f, enum run_kind kind, uint32_t from,
                      uint32_t end)
{
    bool is_call = f->container->type == CKPT_V_CALL;
    f->has_pairs = kind == RUN_PAIRS;
    f->has_batches = kind != RUN_OPERANDS;
    f->calls_hook = w->hooks->keep_entry &&
                    (f->has_pairs || !is_call || value_extra_of(f->container)->npairs == 0);
    f->has_mark = f->is_single = f->value_is_next = false;
    f->next_entry = from;
    f->end = end;
    f->count = 0;
    find_next_entry(w, f);
}

static value_pair get_pair(const ckpt_value *v, uint32_t i) { return value_pairs(v, &(uint32_t){0})[i]; }

/* put_replacement - writes TEXT instead of V: as a Python 2 str if V is one, else as a text. */
static void put_replacement(pickle_writer *w, const ckpt_value *v, ckpt_str text)
{
    emit_text(w, v->type == CKPT_V_STR8 ? PICKLE_BINSTRING : PICKLE_BINUNICODE, text);
}

/* end_batch - writes the opcode of the batch, if all its entries were written. */
static void end_batch(pickle_writer *w, struct pickle_frame *f)
{
    if (f->is_single)
        pickle_put_op(w, f->has_pairs ? PICKLE_SETITEM : PICKLE_APPEND);
    f->is_single = false;
    if (f->has_mark && (f->count == BATCH || f->next_entry == f->end)) {
        pickle_put_op(w, f->has_pairs ? PICKLE_SETITEMS : PICKLE_APPENDS);
        f->has_mark = false;
    }
}

/* begin_batch - begins a batch with the current entry, unless one is begun. */
static void begin_batch(pickle_writer *w, struct pickle_frame *f)
{
    if (f->has_mark)
        return;
    f->has_mark = f->next_entry < f->end;
    f->is_single = !f->has_mark;
    f->count = 0;
    if (f->has_mark)
        pickle_put_op(w, PICKLE_MARK);
}

/* get_next_of_run - returns the node to write next; NULL: the run has ended. */
static const ckpt_value *get_next_of_run(pickle_writer *w, struct pickle_frame *f)
{
    if (f->value_is_next) {
        f->value_is_next = false;
        return get_pair(f->container, f->current).val;
    }
    for (;;) {
        if (f->has_batches)
            end_batch(w, f);
        if (f->next_entry == f->end)
            return NULL;
        ckpt_str text = f->replacement;
        f->current = f->next_entry++;
        find_next_entry(w, f);
        if (f->has_batches)
            begin_batch(w, f);
        f->count++;
        const ckpt_value *v = f->has_pairs ? get_pair(f->container, f->current).key
                              : f->container->type == CKPT_V_CALL
                                  ? value_extra_of(f->container)->items[f->current]
                                  : f->container->u.seq.items[f->current];
        f->value_is_next = f->has_pairs && !text.ptr;
        if (!text.ptr)
            return v;
        put_replacement(w, v, text);
        if (f->has_pairs)
            return get_pair(f->container, f->current).val;
    }
}

static ckpt_status fail_lossy(const ckpt_value *v, ckpt_error *err, const char *why)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "the value made at byte 0x%llx of its pickle %s",
                (unsigned long long)value_offset(v), why);
}

/* replace_by_memo - if the value of F contains itself and was completed while its operands were written,
 * pops the N operands (HAS_MARK: all above the MARK), writes a GET for the value, and returns true. */
static bool replace_by_memo(pickle_writer *w, const struct pickle_frame *f, uint32_t n, bool has_mark)
{
    if (!f->shared || map_get_num(w->nodes, ptr_key(f->v)) == MAP_NONE)
        return false;
    if (has_mark)
        pickle_put_op(w, PICKLE_POP_MARK);
    for (uint32_t i = 0; !has_mark && i < n; i++)
        pickle_put_op(w, PICKLE_POP);
    return emit_get_if_known(w, f->v);
}

static const ckpt_value *step_list_or_dict(pickle_writer *w, struct pickle_frame *f)
{
    bool is_dict = f->v->type == CKPT_V_DICT;
    if (f->phase == 0) {
        f->phase = 1;
        pickle_put_op(w, is_dict ? PICKLE_EMPTY_DICT : PICKLE_EMPTY_LIST);
        if (f->shared)
            add_put_site_after(w, f->v);
        begin_run(w, f, is_dict ? RUN_PAIRS : RUN_ITEMS, 0, is_dict ? f->v->u.dict.n : f->v->u.seq.n);
    }
    return get_next_of_run(w, f);
}

static const ckpt_value *step_tuple(pickle_writer *w, struct pickle_frame *f)
{
    static const enum pickle_opcode short_ops[] = {PICKLE_EMPTY_TUPLE, PICKLE_TUPLE1, PICKLE_TUPLE2,
                                                   PICKLE_TUPLE3};
    bool has_mark = f->v->u.seq.n > 3;
    if (f->phase == 0) {
        f->phase = 1;
        if (has_mark)
            pickle_put_op(w, PICKLE_MARK);
        begin_run(w, f, RUN_OPERANDS, 0, f->v->u.seq.n);
    }
    const ckpt_value *next = get_next_of_run(w, f);
    if (next || replace_by_memo(w, f, f->count, has_mark))
        return next;
    pickle_put_op(w, has_mark ? PICKLE_TUPLE : short_ops[f->count]);
    if (f->shared)
        add_put_site_after(w, f->v);
    return NULL;
}

/* step_set - writes a set or frozenset as a call set([…]), because protocol 2 has no opcode for them. */
static const ckpt_value *step_set(pickle_writer *w, struct pickle_frame *f)
{
    if (f->phase == 0) {
        f->phase = 1;
        pickle_put_global(w, STR_LIT("__builtin__"),
                          f->v->type == CKPT_V_SET ? STR_LIT("set") : STR_LIT("frozenset"));
        pickle_put_op(w, PICKLE_EMPTY_LIST);
        begin_run(w, f, RUN_ITEMS, 0, f->v->u.seq.n);
    }
    const ckpt_value *next = get_next_of_run(w, f);
    if (next || replace_by_memo(w, f, 2, false))
        return next;
    pickle_put_op(w, PICKLE_TUPLE1);
    pickle_put_op(w, PICKLE_REDUCE);
    if (f->shared)
        add_put_site_after(w, f->v);
    return NULL;
}

static const ckpt_value *step_persid(pickle_writer *w, struct pickle_frame *f)
{
    if (f->phase++ == 0)
        return f->v->u.pid;
    pickle_put_op(w, PICKLE_BINPERSID);
    if (f->shared)
        add_put_site_after(w, f->v);
    return NULL;
}

/* The phases of a CALL: what is written next. */
enum {
    CALL_BEGIN, /* the callable */
    CALL_ARGS,
    CALL_SPREAD, /* each argument without a tuple, for OBJ and INST */
    CALL_KWARGS,
    CALL_MAKE, /* the opcode of the call */
    CALL_ITEMS,
    CALL_PAIRS,
    CALL_STATES,      /* each state with its BUILD */
    CALL_ITEMS_AFTER, /* items that were added after BUILD */
    CALL_PAIRS_AFTER,
    CALL_END
};

static bool is_old_style(const ckpt_value *v)
{
    return value_call_kind_of(v) == CALL_OBJ || value_call_kind_of(v) == CALL_INST;
}

/* emit_call - writes the opcode of a CALL, whose operands were all written. True: the object was completed
 * while its operands were written, and needs nothing more. */
static bool emit_call(pickle_writer *w, struct pickle_frame *f)
{
    bool has_kwargs = value_call_kind_of(f->v) == CALL_NEWOBJ_EX;
    if (replace_by_memo(w, f, has_kwargs ? 4 : 2, is_old_style(f->v)))
        return true;
    if (has_kwargs)
        pickle_put_op(w, PICKLE_TUPLE3);
    pickle_put_op(w, is_old_style(f->v)                        ? PICKLE_OBJ
                     : value_call_kind_of(f->v) == CALL_NEWOBJ ? PICKLE_NEWOBJ
                                                               : PICKLE_REDUCE);
    if (f->shared)
        add_put_site_after(w, f->v);
    return false;
}

/* m->entries_before_build counts items and pairs together; the items are taken to come first. */
static uint32_t count_items_before_build(const struct value_extra *m)
{
    return m->nstates == 0 || m->entries_before_build > m->nitems ? m->nitems : m->entries_before_build;
}

static uint32_t count_pairs_before_build(const struct value_extra *m)
{
    uint32_t pairs = m->nstates == 0 ? m->npairs : m->entries_before_build - count_items_before_build(m);
    return pairs > m->npairs ? m->npairs : pairs;
}

/* get_next_operand - returns the next operand of the call; NULL: all were written. */
static const ckpt_value *get_next_operand(pickle_writer *w, struct pickle_frame *f)
{
    const struct value_call *c = &f->v->u.call;
    switch (f->phase) {
    case CALL_BEGIN:
        f->phase = CALL_ARGS;
        if (value_call_kind_of(f->v) == CALL_NEWOBJ_EX)
            pickle_put_global(w, STR_LIT("copyreg"), STR_LIT("__newobj_ex__"));
        if (is_old_style(f->v))
            pickle_put_op(w, PICKLE_MARK);
        return c->callable;
    case CALL_ARGS:
        f->phase = value_call_kind_of(f->v) == CALL_NEWOBJ_EX ? CALL_KWARGS : CALL_MAKE;
        if (!is_old_style(f->v))
            return c->args;
        f->phase = CALL_SPREAD;
        f->container = c->args;
        begin_run(w, f, RUN_OPERANDS, 0, c->args->u.seq.n);
        return get_next_of_run(w, f);
    case CALL_SPREAD: return get_next_of_run(w, f);
    case CALL_KWARGS: f->phase = CALL_MAKE; return value_extra_of(f->v)->kwargs;
    default: return NULL;
    }
}

/* begin_call_phase - begins phase P: CALL_ITEMS or a later one. */
static void begin_call_phase(pickle_writer *w, struct pickle_frame *f, uint8_t p)
{
    const struct value_extra *m = value_extra_of(f->v);
    f->phase = p;
    f->current = 0;
    if (p == CALL_ITEMS)
        begin_run(w, f, RUN_ITEMS, 0, count_items_before_build(m));
    else if (p == CALL_PAIRS)
        begin_run(w, f, RUN_PAIRS, 0, count_pairs_before_build(m));
    else if (p == CALL_ITEMS_AFTER)
        begin_run(w, f, RUN_ITEMS, count_items_before_build(m), m->nitems);
    else if (p == CALL_PAIRS_AFTER)
        begin_run(w, f, RUN_PAIRS, count_pairs_before_build(m), m->npairs);
}

static const ckpt_value *get_next_state(pickle_writer *w, struct pickle_frame *f)
{
    const struct value_extra *m = value_extra_of(f->v);
    if (f->current > 0)
        pickle_put_op(w, PICKLE_BUILD);
    return f->current < m->nstates ? m->states[f->current++] : NULL;
}

static const ckpt_value *step_call(pickle_writer *w, struct pickle_frame *f)
{
    if (f->phase <= CALL_MAKE) {
        const ckpt_value *next = get_next_operand(w, f);
        if (next || emit_call(w, f))
            return next;
        f->container = f->v;
        begin_call_phase(w, f, CALL_ITEMS);
    }
    while (f->phase < CALL_END) {
        const ckpt_value *next = f->phase == CALL_STATES ? get_next_state(w, f) : get_next_of_run(w, f);
        if (next)
            return next;
        begin_call_phase(w, f, (uint8_t)(f->phase + 1));
    }
    return NULL;
}

static const ckpt_value *step_frame(pickle_writer *w, struct pickle_frame *f)
{
    switch (f->v->type) {
    case CKPT_V_LIST:
    case CKPT_V_DICT: return step_list_or_dict(w, f);
    case CKPT_V_TUPLE: return step_tuple(w, f);
    case CKPT_V_SET:
    case CKPT_V_FROZENSET: return step_set(w, f);
    case CKPT_V_PERSID: return step_persid(w, f);
    default: return step_call(w, f);
    }
}

/* check_call - refuses V if its items, pairs and BUILDs came in an order that the graph does not record. */
static ckpt_status check_call(const ckpt_value *v, ckpt_error *err)
{
    const struct value_extra *m = value_extra_of(v);
    if (is_old_style(v) && v->u.call.args->type != CKPT_V_TUPLE)
        return fail_lossy(v, err, "is an old-style instance without a tuple of arguments");
    bool changed_after_build = m->nstates && (count_items_before_build(m) < m->nitems ||
                                              count_pairs_before_build(m) < m->npairs);
    if (changed_after_build && m->nstates > 1)
        return fail_lossy(v, err, "was changed by BUILD, then by other opcodes, then by BUILD again");
    if (changed_after_build && m->entries_before_build && m->nitems && m->npairs)
        return fail_lossy(v, err, "was given items and pairs both before and after its BUILD");
    return CKPT_OK;
}

/* increment_begin_count - counts how often V was begun; fails after MAX_ENTERED times. A value that contains
 * itself, and is put into the memo after its items, is begun again inside itself until all lists, dicts and
 * objects in the cycle are in the memo. */
static ckpt_status increment_begin_count(pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    uint32_t n = map_get_num(w->begin_counts, ptr_key(v));
    n = n == MAP_NONE ? 1 : n + 1;
    if (n > MAX_ENTERED)
        return fail_lossy(v, err, "contains itself in a way that protocol 2 cannot hold");
    return map_set_num(w->begin_counts, ptr_key(v), n) ? CKPT_OK : fail_memory(err);
}

static ckpt_status push_frame(pickle_writer *w, const ckpt_value *v, bool shared, ckpt_error *err)
{
    if (v->type == CKPT_V_CALL)
        CKPT_TRY(check_call(v, err));
    if (shared && v->type != CKPT_V_LIST && v->type != CKPT_V_DICT)
        CKPT_TRY(increment_begin_count(w, v, err));
    if (w->nframes == MAX_NESTING)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "values are nested {deeper} than {=%u}", MAX_NESTING);
    struct pickle_frame f = {.v = v, .container = v, .shared = shared};
    CKPT_TRY_ALLOC(ARENA_PUSH(NULL, w, frames, &f), err);
    w->nsets += shared && v->type == CKPT_V_SET;
    return CKPT_OK;
}

static void pop_frame(pickle_writer *w)
{
    const struct pickle_frame *f = &w->frames[--w->nframes];
    w->nsets -= f->shared && f->v->type == CKPT_V_SET;
}

/* put_scalar - writes V if it has no children and needs no put site; else returns false. */
static bool put_scalar(pickle_writer *w, const ckpt_value *v)
{
    bool is_span = v->flags & VALUE_SPAN;
    switch (v->type) {
    case CKPT_V_NONE: pickle_put_op(w, PICKLE_NONE); return true;
    case CKPT_V_BOOL: pickle_put_bool(w, v->u.b); return true;
    case CKPT_V_INT: pickle_put_int(w, v->u.i); return true;
    case CKPT_V_BIGINT: emit_bigint(w, v->u.str); return true;
    case CKPT_V_FLOAT: emit_float(w, v->u.f); return true;
    case CKPT_V_STR:
    case CKPT_V_STR8:
        if (is_span)
            return false;
        emit_text(w, v->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, v->u.str);
        return true;
    case CKPT_V_GLOBAL: pickle_put_name(w, v); return true;
    case CKPT_V_TUPLE:
        if (v->u.seq.n == 0)
            pickle_put_op(w, PICKLE_EMPTY_TUPLE);
        return v->u.seq.n == 0;
    default: return false;
    }
}

static void put_leaf(pickle_writer *w, const ckpt_value *v)
{
    ckpt_status st = w->hooks->write_leaf(w->hooks->user, w, v, w->err);
    if (w->status == CKPT_OK)
        w->status = st;
}

/* put_span_or_leaf - writes V if it needs no frame; else returns false. If V is shared, the caller adds a put
 * site. */
static bool put_span_or_leaf(pickle_writer *w, const ckpt_value *v)
{
    if (v->type == CKPT_V_BYTES || v->type == CKPT_V_BYTEARRAY)
        emit_bytes(w, v);
    else if (v->type == CKPT_V_STR || v->type == CKPT_V_STR8)
        emit_span(w, v->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, v->u.span);
    else if ((v->type == CKPT_V_PERSID || v->type == CKPT_V_TENSOR) && w->hooks->write_leaf)
        put_leaf(w, v);
    else
        return false;
    return true;
}

/* begin_value - writes V, or pushes a frame for it. */
static ckpt_status begin_value(pickle_writer *w, const ckpt_value *v, ckpt_error *err)
{
    bool shared = v->flags & VALUE_SHARED;
    if (w->hooks->replace)
        v = w->hooks->replace(w->hooks->user, v);
    shared = shared || v->flags & VALUE_SHARED || w->nsets > 0;
    if (v->flags & VALUE_NOT_REWRITABLE)
        return fail_lossy(v, err, "was changed by BUILD or ADDITEMS in a way that cannot be repeated");
    if (put_scalar(w, v) || (shared && emit_get_if_known(w, v)))
        return w->status;
    if (put_span_or_leaf(w, v)) {
        if (shared)
            add_put_site_after(w, v);
        return w->status;
    }
    if (v->type == CKPT_V_TENSOR)
        return fail_lossy(v, err, "is a tensor that a pickle cannot hold");
    return push_frame(w, v, shared, err);
}

static ckpt_status write_all(pickle_writer *w, const ckpt_value *root, ckpt_error *err)
{
    pickle_put_op(w, PICKLE_PROTO);
    buf_byte(w->out, w->hooks->has_literal_names ? 3 : 2);
    CKPT_TRY(begin_value(w, root, err));
    while (w->nframes && buf_ok(w->out)) {
        const ckpt_value *next = step_frame(w, &w->frames[w->nframes - 1]);
        CKPT_TRY(w->status);
        if (next)
            CKPT_TRY(begin_value(w, next, err));
        else
            pop_frame(w);
    }
    pickle_writer_finish(w);
    if (buf_ok(w->out))
        return CKPT_OK;
    if (w->out->len >= w->out->max / 2)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "the pickle would be larger than the %zu bytes it may have", w->out->max);
    return fail_memory(err);
}

/* fill_with_puts writes at most this many PUTs of two bytes: it fills less than 10 bytes with them. */
#define SHORT_PUTS 4u

/* write_pickle - writes ROOT with memo indexes from *MEMO on, and sets *MEMO to the next unused index.
 * WIDENS_INT: writes the first int below 256 in one byte more. */
static ckpt_status write_pickle(const ckpt_value *root, const struct pickle_hooks *hooks, uint32_t *memo,
                                bool widens_int, buf *out, ckpt_error *err)
{
    static const struct pickle_hooks none;
    pickle_writer w = {.out = out,
                       .hooks = hooks ? hooks : &none,
                       .nmemo = *memo,
                       .widens_next_int = widens_int,
                       .err = err};
    ckpt_status st = pickle_writer_init(&w) ? write_all(&w, root, err) : w.status;
    *memo = w.nmemo;
    pickle_writer_free(&w);
    return st;
}

ckpt_status pickle_write(const ckpt_value *root, const struct pickle_hooks *hooks, buf *out, ckpt_error *err)
{
    uint32_t memo = 0;
    return write_pickle(root, hooks, &memo, false, out, err);
}

/* fill_with_puts - fills the last N bytes of a pickle, at AT, with PUTs and STOP. Each PUT has an index of
 * its own, as pickletools requires: PUTs of two bytes have indexes below SHORT_PUTS, which the pickle does
 * not use; PUTs of five bytes have indexes from MEMO on. False: no number of PUTs has N - 1 bytes. */
static bool fill_with_puts(unsigned char *at, size_t n, uint32_t memo)
{
    size_t left = n - 1;
    if (left == 1 || left == 3)
        return false;
    for (uint32_t short_index = 0; left;) {
        bool is_long = left >= 10 || left % 2;
        size_t put_size = is_long ? 5 : 2;
        *at = is_long ? PICKLE_LONG_BINPUT : PICKLE_BINPUT;
        if (is_long)
            store_u32le(at + 1, memo++);
        else
            at[1] = (unsigned char)short_index++;
        at += put_size; /* an odd number of bytes left is 5 or more */
        left -= put_size;
    }
    *at = PICKLE_STOP;
    return true;
}

ckpt_status pickle_write_filled(const ckpt_value *root, const struct pickle_hooks *hooks, size_t size,
                                buf *out, bool *fits, ckpt_error *err)
{
    uint32_t memo = SHORT_PUTS;
    *fits = false;
    CKPT_TRY(write_pickle(root, hooks, &memo, false, out, err));
    if (out->len <= size && (size - out->len == 1 || size - out->len == 3)) {
        buf_free(out); /* no PUTs have this size: write an int, if there is one, in one byte more */
        memo = SHORT_PUTS;
        CKPT_TRY(write_pickle(root, hooks, &memo, true, out, err));
    }
    size_t end = out->len - 1;
    if (out->len > size || size - out->len == 1 || size - out->len == 3)
        return CKPT_OK;
    if (!buf_extend(out, size - out->len))
        return fail_memory(err);
    *fits = fill_with_puts(out->data + end, size - end, memo);
    return CKPT_OK;
}
