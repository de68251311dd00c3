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
static void find_next_entry(pickle_writer *writer, struct pickle_frame *frame)
{
    for (; frame->next_entry < frame->end; frame->next_entry++) {
        frame->replacement = str_of(NULL, 0);
        if (!frame->calls_hook || writer->hooks->keep_entry(writer->hooks->user, frame->container,
                                                            frame->next_entry, &frame->replacement))
            return;
    }
}

static void begin_run(pickle_writer *writer, struct pickle_frame *frame, enum run_kind kind, uint32_t from,
                      uint32_t end)
{
    bool is_call = frame->container->type == CKPT_V_CALL;
    frame->has_pairs = kind == RUN_PAIRS;
    frame->has_batches = kind != RUN_OPERANDS;
    frame->calls_hook = writer->hooks->keep_entry &&
                        (frame->has_pairs || !is_call || value_extra_of(frame->container)->npairs == 0);
    frame->has_mark = frame->is_single = frame->value_is_next = false;
    frame->next_entry = from;
    frame->end = end;
    frame->count = 0;
    find_next_entry(writer, frame);
}

static value_pair get_pair(const ckpt_value *value, uint32_t index)
{
    return value_pairs(value, &(uint32_t){0})[index];
}

/* put_replacement - writes TEXT instead of VALUE: as a Python 2 str if VALUE is one, else as a text. */
static void put_replacement(pickle_writer *writer, const ckpt_value *value, ckpt_str text)
{
    emit_text(writer, value->type == CKPT_V_STR8 ? PICKLE_BINSTRING : PICKLE_BINUNICODE, text);
}

/* end_batch - writes the opcode of the batch, if all its entries were written. */
static void end_batch(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->is_single)
        pickle_put_op(writer, frame->has_pairs ? PICKLE_SETITEM : PICKLE_APPEND);
    frame->is_single = false;
    if (frame->has_mark && (frame->count == BATCH || frame->next_entry == frame->end)) {
        pickle_put_op(writer, frame->has_pairs ? PICKLE_SETITEMS : PICKLE_APPENDS);
        frame->has_mark = false;
    }
}

/* begin_batch - begins a batch with the current entry, unless one is begun. */
static void begin_batch(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->has_mark)
        return;
    frame->has_mark = frame->next_entry < frame->end;
    frame->is_single = !frame->has_mark;
    frame->count = 0;
    if (frame->has_mark)
        pickle_put_op(writer, PICKLE_MARK);
}

/* get_next_of_run - returns the node to write next; NULL: the run has ended. */
static const ckpt_value *get_next_of_run(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->value_is_next) {
        frame->value_is_next = false;
        return get_pair(frame->container, frame->current).val;
    }
    for (;;) {
        if (frame->has_batches)
            end_batch(writer, frame);
        if (frame->next_entry == frame->end)
            return NULL;
        ckpt_str text = frame->replacement;
        frame->current = frame->next_entry++;
        find_next_entry(writer, frame);
        if (frame->has_batches)
            begin_batch(writer, frame);
        frame->count++;
        const ckpt_value *v = frame->has_pairs ? get_pair(frame->container, frame->current).key
                              : frame->container->type == CKPT_V_CALL
                                  ? value_extra_of(frame->container)->items[frame->current]
                                  : frame->container->u.seq.items[frame->current];
        frame->value_is_next = frame->has_pairs && !text.ptr;
        if (!text.ptr)
            return v;
        put_replacement(writer, v, text);
        if (frame->has_pairs)
            return get_pair(frame->container, frame->current).val;
    }
}

static ckpt_status fail_lossy(const ckpt_value *value, ckpt_error *err, const char *why)
{
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "the value made at byte 0x%llx of its pickle %s",
                (unsigned long long)value_offset(value), why);
}

/* replace_by_memo - if the value of FRAME contains itself and was completed while its operands were written,
 * pops the COUNT operands (HAS_MARK: all above the MARK), writes a GET for the value, and returns true. */
static bool replace_by_memo(pickle_writer *writer, const struct pickle_frame *frame, uint32_t count,
                            bool has_mark)
{
    if (!frame->shared || map_get_num(writer->nodes, ptr_key(frame->v)) == MAP_NONE)
        return false;
    if (has_mark)
        pickle_put_op(writer, PICKLE_POP_MARK);
    for (uint32_t i = 0; !has_mark && i < count; i++)
        pickle_put_op(writer, PICKLE_POP);
    return emit_get_if_known(writer, frame->v);
}

static const ckpt_value *step_list_or_dict(pickle_writer *writer, struct pickle_frame *frame)
{
    bool is_dict = frame->v->type == CKPT_V_DICT;
    if (frame->phase == 0) {
        frame->phase = 1;
        pickle_put_op(writer, is_dict ? PICKLE_EMPTY_DICT : PICKLE_EMPTY_LIST);
        if (frame->shared)
            add_put_site_after(writer, frame->v);
        begin_run(writer, frame, is_dict ? RUN_PAIRS : RUN_ITEMS, 0,
                  is_dict ? frame->v->u.dict.n : frame->v->u.seq.n);
    }
    return get_next_of_run(writer, frame);
}

static const ckpt_value *step_tuple(pickle_writer *writer, struct pickle_frame *frame)
{
    static const enum pickle_opcode short_ops[] = {PICKLE_EMPTY_TUPLE, PICKLE_TUPLE1, PICKLE_TUPLE2,
                                                   PICKLE_TUPLE3};
    bool has_mark = frame->v->u.seq.n > 3;
    if (frame->phase == 0) {
        frame->phase = 1;
        if (has_mark)
            pickle_put_op(writer, PICKLE_MARK);
        begin_run(writer, frame, RUN_OPERANDS, 0, frame->v->u.seq.n);
    }
    const ckpt_value *next = get_next_of_run(writer, frame);
    if (next || replace_by_memo(writer, frame, frame->count, has_mark))
        return next;
    pickle_put_op(writer, has_mark ? PICKLE_TUPLE : short_ops[frame->count]);
    if (frame->shared)
        add_put_site_after(writer, frame->v);
    return NULL;
}

/* step_set - writes a set or frozenset as a call set([…]), because protocol 2 has no opcode for them. */
static const ckpt_value *step_set(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->phase == 0) {
        frame->phase = 1;
        pickle_put_global(writer, STR_LIT("__builtin__"),
                          frame->v->type == CKPT_V_SET ? STR_LIT("set") : STR_LIT("frozenset"));
        pickle_put_op(writer, PICKLE_EMPTY_LIST);
        begin_run(writer, frame, RUN_ITEMS, 0, frame->v->u.seq.n);
    }
    const ckpt_value *next = get_next_of_run(writer, frame);
    if (next || replace_by_memo(writer, frame, 2, false))
        return next;
    pickle_put_op(writer, PICKLE_TUPLE1);
    pickle_put_op(writer, PICKLE_REDUCE);
    if (frame->shared)
        add_put_site_after(writer, frame->v);
    return NULL;
}

static const ckpt_value *step_persid(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->phase++ == 0)
        return frame->v->u.pid;
    pickle_put_op(writer, PICKLE_BINPERSID);
    if (frame->shared)
        add_put_site_after(writer, frame->v);
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

static bool is_old_style(const ckpt_value *value)
{
    return value_call_kind_of(value) == CALL_OBJ || value_call_kind_of(value) == CALL_INST;
}

/* emit_call - writes the opcode of a CALL, whose operands were all written. True: the object was completed
 * while its operands were written, and needs nothing more. */
static bool emit_call(pickle_writer *writer, struct pickle_frame *frame)
{
    bool has_kwargs = value_call_kind_of(frame->v) == CALL_NEWOBJ_EX;
    if (replace_by_memo(writer, frame, has_kwargs ? 4 : 2, is_old_style(frame->v)))
        return true;
    if (has_kwargs)
        pickle_put_op(writer, PICKLE_TUPLE3);
    pickle_put_op(writer, is_old_style(frame->v)                        ? PICKLE_OBJ
                          : value_call_kind_of(frame->v) == CALL_NEWOBJ ? PICKLE_NEWOBJ
                                                                        : PICKLE_REDUCE);
    if (frame->shared)
        add_put_site_after(writer, frame->v);
    return false;
}

/* extra->entries_before_build counts items and pairs together; the items are taken to come first. */
static uint32_t count_items_before_build(const struct value_extra *extra)
{
    return extra->nstates == 0 || extra->entries_before_build > extra->nitems ? extra->nitems
                                                                              : extra->entries_before_build;
}

static uint32_t count_pairs_before_build(const struct value_extra *extra)
{
    uint32_t pairs = extra->nstates == 0 ? extra->npairs
                                         : extra->entries_before_build - count_items_before_build(extra);
    return pairs > extra->npairs ? extra->npairs : pairs;
}

/* get_next_operand - returns the next operand of the call; NULL: all were written. */
static const ckpt_value *get_next_operand(pickle_writer *writer, struct pickle_frame *frame)
{
    const struct value_call *c = &frame->v->u.call;
    switch (frame->phase) {
    case CALL_BEGIN:
        frame->phase = CALL_ARGS;
        if (value_call_kind_of(frame->v) == CALL_NEWOBJ_EX)
            pickle_put_global(writer, STR_LIT("copyreg"), STR_LIT("__newobj_ex__"));
        if (is_old_style(frame->v))
            pickle_put_op(writer, PICKLE_MARK);
        return c->callable;
    case CALL_ARGS:
        frame->phase = value_call_kind_of(frame->v) == CALL_NEWOBJ_EX ? CALL_KWARGS : CALL_MAKE;
        if (!is_old_style(frame->v))
            return c->args;
        frame->phase = CALL_SPREAD;
        frame->container = c->args;
        begin_run(writer, frame, RUN_OPERANDS, 0, c->args->u.seq.n);
        return get_next_of_run(writer, frame);
    case CALL_SPREAD: return get_next_of_run(writer, frame);
    case CALL_KWARGS: frame->phase = CALL_MAKE; return value_extra_of(frame->v)->kwargs;
    default: return NULL;
    }
}

/* begin_call_phase - begins phase NUMBER: CALL_ITEMS or a later one. */
static void begin_call_phase(pickle_writer *writer, struct pickle_frame *frame, uint8_t number)
{
    const struct value_extra *m = value_extra_of(frame->v);
    frame->phase = number;
    frame->current = 0;
    if (number == CALL_ITEMS)
        begin_run(writer, frame, RUN_ITEMS, 0, count_items_before_build(m));
    else if (number == CALL_PAIRS)
        begin_run(writer, frame, RUN_PAIRS, 0, count_pairs_before_build(m));
    else if (number == CALL_ITEMS_AFTER)
        begin_run(writer, frame, RUN_ITEMS, count_items_before_build(m), m->nitems);
    else if (number == CALL_PAIRS_AFTER)
        begin_run(writer, frame, RUN_PAIRS, count_pairs_before_build(m), m->npairs);
}

static const ckpt_value *get_next_state(pickle_writer *writer, struct pickle_frame *frame)
{
    const struct value_extra *m = value_extra_of(frame->v);
    if (frame->current > 0)
        pickle_put_op(writer, PICKLE_BUILD);
    return frame->current < m->nstates ? m->states[frame->current++] : NULL;
}

static const ckpt_value *step_call(pickle_writer *writer, struct pickle_frame *frame)
{
    if (frame->phase <= CALL_MAKE) {
        const ckpt_value *next = get_next_operand(writer, frame);
        if (next || emit_call(writer, frame))
            return next;
        frame->container = frame->v;
        begin_call_phase(writer, frame, CALL_ITEMS);
    }
    while (frame->phase < CALL_END) {
        const ckpt_value *next = frame->phase == CALL_STATES ? get_next_state(writer, frame)
                                                             : get_next_of_run(writer, frame);
        if (next)
            return next;
        begin_call_phase(writer, frame, (uint8_t)(frame->phase + 1));
    }
    return NULL;
}

static const ckpt_value *step_frame(pickle_writer *writer, struct pickle_frame *frame)
{
    switch (frame->v->type) {
    case CKPT_V_LIST:
    case CKPT_V_DICT: return step_list_or_dict(writer, frame);
    case CKPT_V_TUPLE: return step_tuple(writer, frame);
    case CKPT_V_SET:
    case CKPT_V_FROZENSET: return step_set(writer, frame);
    case CKPT_V_PERSID: return step_persid(writer, frame);
    default: return step_call(writer, frame);
    }
}

/* check_call - refuses VALUE if its items, pairs and BUILDs came in an order that the graph does not
 * record. */
static ckpt_status check_call(const ckpt_value *value, ckpt_error *err)
{
    const struct value_extra *m = value_extra_of(value);
    if (is_old_style(value) && value->u.call.args->type != CKPT_V_TUPLE)
        return fail_lossy(value, err, "is an old-style instance without a tuple of arguments");
    bool changed_after_build = m->nstates && (count_items_before_build(m) < m->nitems ||
                                              count_pairs_before_build(m) < m->npairs);
    if (changed_after_build && m->nstates > 1)
        return fail_lossy(value, err, "was changed by BUILD, then by other opcodes, then by BUILD again");
    if (changed_after_build && m->entries_before_build && m->nitems && m->npairs)
        return fail_lossy(value, err, "was given items and pairs both before and after its BUILD");
    return CKPT_OK;
}

/* increment_begin_count - counts how often VALUE was begun; fails after MAX_ENTERED times. A value that
 * contains itself, and is put into the memo after its items, is begun again inside itself until all lists,
 * dicts and objects in the cycle are in the memo. */
static ckpt_status increment_begin_count(pickle_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    uint32_t n = map_get_num(writer->begin_counts, ptr_key(value));
    n = n == MAP_NONE ? 1 : n + 1;
    if (n > MAX_ENTERED)
        return fail_lossy(value, err, "contains itself in a way that protocol 2 cannot hold");
    return map_set_num(writer->begin_counts, ptr_key(value), n) ? CKPT_OK : fail_memory(err);
}

static ckpt_status push_frame(pickle_writer *writer, const ckpt_value *value, bool shared, ckpt_error *err)
{
    if (value->type == CKPT_V_CALL)
        CKPT_TRY(check_call(value, err));
    if (shared && value->type != CKPT_V_LIST && value->type != CKPT_V_DICT)
        CKPT_TRY(increment_begin_count(writer, value, err));
    if (writer->nframes == MAX_NESTING)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "values are nested {deeper} than {=%u}", MAX_NESTING);
    struct pickle_frame f = {.v = value, .container = value, .shared = shared};
    CKPT_TRY_ALLOC(ARENA_PUSH(NULL, writer, frames, &f), err);
    writer->nsets += shared && value->type == CKPT_V_SET;
    return CKPT_OK;
}

static void pop_frame(pickle_writer *writer)
{
    const struct pickle_frame *f = &writer->frames[--writer->nframes];
    writer->nsets -= f->shared && f->v->type == CKPT_V_SET;
}

/* put_scalar - writes VALUE if it has no children and needs no put site; else returns false. */
static bool put_scalar(pickle_writer *writer, const ckpt_value *value)
{
    bool is_span = value->flags & VALUE_SPAN;
    switch (value->type) {
    case CKPT_V_NONE: pickle_put_op(writer, PICKLE_NONE); return true;
    case CKPT_V_BOOL: pickle_put_bool(writer, value->u.b); return true;
    case CKPT_V_INT: pickle_put_int(writer, value->u.i); return true;
    case CKPT_V_BIGINT: emit_bigint(writer, value->u.str); return true;
    case CKPT_V_FLOAT: emit_float(writer, value->u.f); return true;
    case CKPT_V_STR:
    case CKPT_V_STR8:
        if (is_span)
            return false;
        emit_text(writer, value->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, value->u.str);
        return true;
    case CKPT_V_GLOBAL: pickle_put_name(writer, value); return true;
    case CKPT_V_TUPLE:
        if (value->u.seq.n == 0)
            pickle_put_op(writer, PICKLE_EMPTY_TUPLE);
        return value->u.seq.n == 0;
    default: return false;
    }
}

static void put_leaf(pickle_writer *writer, const ckpt_value *value)
{
    ckpt_status st = writer->hooks->write_leaf(writer->hooks->user, writer, value, writer->err);
    if (writer->status == CKPT_OK)
        writer->status = st;
}

/* put_span_or_leaf - writes VALUE if it needs no frame; else returns false. If VALUE is shared, the caller
 * adds a put site. */
static bool put_span_or_leaf(pickle_writer *writer, const ckpt_value *value)
{
    if (value->type == CKPT_V_BYTES || value->type == CKPT_V_BYTEARRAY)
        emit_bytes(writer, value);
    else if (value->type == CKPT_V_STR || value->type == CKPT_V_STR8)
        emit_span(writer, value->type == CKPT_V_STR ? PICKLE_BINUNICODE : PICKLE_BINSTRING, value->u.span);
    else if ((value->type == CKPT_V_PERSID || value->type == CKPT_V_TENSOR) && writer->hooks->write_leaf)
        put_leaf(writer, value);
    else
        return false;
    return true;
}

/* begin_value - writes VALUE, or pushes a frame for it. */
static ckpt_status begin_value(pickle_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    bool shared = value->flags & VALUE_SHARED;
    if (writer->hooks->replace)
        value = writer->hooks->replace(writer->hooks->user, value);
    shared = shared || value->flags & VALUE_SHARED || writer->nsets > 0;
    if (value->flags & VALUE_NOT_REWRITABLE)
        return fail_lossy(value, err, "was changed by BUILD or ADDITEMS in a way that cannot be repeated");
    if (put_scalar(writer, value) || (shared && emit_get_if_known(writer, value)))
        return writer->status;
    if (put_span_or_leaf(writer, value)) {
        if (shared)
            add_put_site_after(writer, value);
        return writer->status;
    }
    if (value->type == CKPT_V_TENSOR)
        return fail_lossy(value, err, "is a tensor that a pickle cannot hold");
    return push_frame(writer, value, shared, err);
}

static ckpt_status write_all(pickle_writer *writer, const ckpt_value *root, ckpt_error *err)
{
    pickle_put_op(writer, PICKLE_PROTO);
    buf_byte(writer->out, writer->hooks->has_literal_names ? 3 : 2);
    CKPT_TRY(begin_value(writer, root, err));
    while (writer->nframes && buf_ok(writer->out)) {
        const ckpt_value *next = step_frame(writer, &writer->frames[writer->nframes - 1]);
        CKPT_TRY(writer->status);
        if (next)
            CKPT_TRY(begin_value(writer, next, err));
        else
            pop_frame(writer);
    }
    pickle_writer_finish(writer);
    if (buf_ok(writer->out))
        return CKPT_OK;
    if (writer->out->len >= writer->out->max / 2)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "the pickle would be larger than the %zu bytes it may have", writer->out->max);
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

/* fill_with_puts - fills the last NBYTES bytes of a pickle, at AT, with PUTs and STOP. Each PUT has an index
 * of its own, as pickletools requires: PUTs of two bytes have indexes below SHORT_PUTS, which the pickle does
 * not use; PUTs of five bytes have indexes from MEMO on. False: no number of PUTs has NBYTES - 1 bytes. */
static bool fill_with_puts(unsigned char *at, size_t nbytes, uint32_t memo)
{
    size_t left = nbytes - 1;
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
    CKPT_TRY_ALLOC(buf_extend(out, size - out->len), err);
    *fits = fill_with_puts(out->data + end, size - end, memo);
    return CKPT_OK;
}
