/* pickle_show.c - see pickle_show.h. A trace keeps only the offset and opcode of a constant; this file reads
 * the argument of the opcode (pickle_ops.def has its kind). */
#include "codec/pickle_show.h"

#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_text.h"

#define SHOWN_TEXT   1005u /* bytes: a character more than value_text.c shows, which then adds "…" */
#define SHOWN_DEPTH  6u    /* most levels of nested values */
#define MAX_ARGUMENT 8192u /* most bytes of an argument that are read */

/* The argument of an opcode. */
struct show_argument {
    unsigned char bytes[MAX_ARGUMENT];
    size_t n;       /* number of bytes that were read */
    uint64_t total; /* number of bytes that it has in the file */
    ckpt_status status;
    ckpt_error *err;
};

/* fetch_bytes - reads NBYTES bytes at OFF to OUT; fewer if the file ends before, or if OUT is full. */
static void fetch_bytes(source *src, uint64_t off, uint64_t nbytes, struct show_argument *out)
{
    uint64_t available = off < src->size ? src->size - off : 0;
    out->n = (size_t)(nbytes < available ? nbytes : available);
    if (out->n > MAX_ARGUMENT)
        out->n = MAX_ARGUMENT;
    out->total = nbytes;
    if (out->status == CKPT_OK)
        out->status = source_read(src, off, out->bytes, out->n, out->err);
    if (out->status != CKPT_OK)
        out->n = 0;
}

/* read_argument - reads the argument of the constant REF, without the length before it or the newline after
 * it. */
static void read_argument(source *src, trace_ref ref, struct show_argument *out, ckpt_error *err)
{
    const struct pickle_op *op = pickle_op(trace_opcode(ref));
    uint8_t kind = op ? op->argument : PICKLE_ARG_NONE;
    uint64_t at = trace_offset(ref) + 1;
    out->status = CKPT_OK;
    out->err = err;
    if (kind == PICKLE_ARG_LINE) {
        fetch_bytes(src, at, MAX_ARGUMENT, out);
        const unsigned char *nl = memchr(out->bytes, '\n', out->n);
        out->n = nl ? (size_t)(nl - out->bytes) : out->n;
        out->total = out->n;
        return;
    }
    size_t width = op ? op->width : 0;
    fetch_bytes(src, at, width, out);
    if (out->n < width || kind < PICKLE_ARG_B1)
        return;
    uint64_t n = width == 1 ? out->bytes[0] : width == 4 ? load_u32le(out->bytes) : load_u64le(out->bytes);
    fetch_bytes(src, at + width, n, out);
    if (out->total > out->n && out->n < MAX_ARGUMENT)
        out->total = out->n;
}

static bool is_text(uint8_t op) { return pickle_pushes(op, CKPT_V_STR, CKPT_V_STR8); }

/* decode_line - decodes the line of UNICODE or STRING in place. The result is at most twice as long. */
static void decode_line(uint8_t op, struct show_argument *arg)
{
    unsigned char line[MAX_ARGUMENT / 2];
    if (op != PICKLE_UNICODE && op != PICKLE_STRING)
        return;
    size_t n = arg->n < sizeof line ? arg->n : sizeof line;
    memcpy(line, arg->bytes, n);
    ckpt_str s = str_of((const char *)line, n);
    bool is_unicode = op == PICKLE_UNICODE;
    size_t decoded_len = pickle_text_decode(s, is_unicode, NULL);
    if (decoded_len == PICKLE_TEXT_BAD || decoded_len > MAX_ARGUMENT)
        return;
    arg->total = arg->n = pickle_text_decode(s, is_unicode, (char *)arg->bytes);
}

ckpt_status pickle_copy_text(source *src, trace_ref ref, char *out, size_t cap, size_t *count,
                             ckpt_error *err)
{
    struct show_argument arg;
    if (trace_node(ref) || !is_text(trace_opcode(ref)))
        return CKPT_EFORMAT;
    read_argument(src, ref, &arg, err);
    decode_line(trace_opcode(ref), &arg);
    *count = arg.n < cap ? arg.n : utf8_complete_length((const char *)arg.bytes, cap);
    memcpy(out, arg.bytes, *count);
    return arg.status;
}

/* new_text - returns a node of the first SHOWN_TEXT bytes of the text or bytes in ARG. */
static ckpt_value *new_text(arena *a, uint8_t op, struct show_argument *arg)
{
    decode_line(op, arg);
    size_t n = arg->n < SHOWN_TEXT ? arg->n : SHOWN_TEXT;
    ckpt_value_type type = is_text(op) ? CKPT_V_STR : (ckpt_value_type)pickle_ops[op].type;
    if (arg->total > n && type == CKPT_V_STR)
        n = utf8_complete_length((const char *)arg->bytes, n);
    ckpt_str s = arena_str(a, str_of((const char *)arg->bytes, n));
    if (!s.ptr)
        return NULL;
    if (type == CKPT_V_STR && !utf8_check(s, true, NULL))
        type = CKPT_V_STR8;
    ckpt_value *v = value_new(a, type, 0);
    if (v)
        v->u.str = s;
    return v;
}

static ckpt_value *new_bigint(arena *a, const unsigned char *bytes, size_t nbytes)
{
    nbytes = integer_trimmed_size(bytes, nbytes);
    if (nbytes <= 8)
        return value_int(a, integer_load(bytes, nbytes));
    ckpt_value *v = value_new(a, CKPT_V_BIGINT, 0);
    if (!v)
        return NULL;
    v->u.str = arena_str(a, str_of((const char *)bytes, nbytes));
    return v->u.str.ptr ? v : NULL;
}

static ckpt_value *new_number(arena *a, uint8_t op, const struct show_argument *arg)
{
    ckpt_str s = str_of((const char *)arg->bytes, arg->n);
    int64_t i;
    double f;
    if (op == PICKLE_INT && (str_is(s, "00") || str_is(s, "01")))
        return value_bool(a, s.ptr[1] == '1');
    if (s.len && s.ptr[s.len - 1] == 'L')
        s.len--;
    if (op == PICKLE_FLOAT)
        return value_float(a, pickle_text_float(s, &f) ? f : 0);
    return pickle_text_int(s, &i) ? value_int(a, i) : value_str(a, arena_str(a, s));
}

static ckpt_value *new_constant(arena *a, uint8_t op, struct show_argument *arg)
{
    uint64_t bits;
    double f;
    const struct pickle_op *info = &pickle_ops[op];
    bool is_line = info->argument == PICKLE_ARG_LINE;
    switch ((ckpt_value_type)info->type) {
    case CKPT_V_NONE: return value_new(a, CKPT_V_NONE, 0);
    case CKPT_V_BOOL: return value_bool(a, op == PICKLE_NEWTRUE);
    case CKPT_V_INT:
        if (is_line)
            return new_number(a, op, arg);
        bits = load_number(arg->bytes, info->width, false);
        return value_int(a, info->argument == PICKLE_ARG_I4 ? (int32_t)(uint32_t)bits : (int64_t)bits);
    case CKPT_V_BIGINT: return is_line ? new_number(a, op, arg) : new_bigint(a, arg->bytes, arg->n);
    case CKPT_V_FLOAT:
        if (is_line)
            return new_number(a, op, arg);
        bits = load_number(arg->bytes, 8, true);
        memcpy(&f, &bits, sizeof f);
        return value_float(a, f);
    default: return new_text(a, op, arg);
    }
}

static ckpt_value *build_constant(source *src, trace_ref ref, arena *a, ckpt_error *err)
{
    struct show_argument arg;
    read_argument(src, ref, &arg, err);
    ckpt_value *v = arg.status == CKPT_OK ? new_constant(a, trace_opcode(ref), &arg) : NULL;
    if (v)
        value_set_offset(v, trace_offset(ref));
    return v;
}

struct show_state {
    source *src;
    arena *a;
    size_t nodes_left; /* number of nodes that may still be created */
    ckpt_error *err;
};

static ckpt_value *build_node(struct show_state *state, trace_ref ref, unsigned depth);

static bool put_items(struct show_state *state, ckpt_value *value, const struct trace_node *node,
                      unsigned depth)
{
    for (uint32_t i = 0; depth && i < node->nkept && state->nodes_left; i++) {
        ckpt_value *item = build_node(state, node->items[i], depth - 1);
        if (!item || !value_append(state->a, value, item))
            return false;
    }
    return true;
}

static bool put_pairs(struct show_state *state, ckpt_value *value, const struct trace_node *node,
                      unsigned depth)
{
    for (uint32_t i = 0; depth && i + 1 < node->nkept && state->nodes_left > 1; i += 2) {
        ckpt_value *key = build_node(state, node->items[i], depth - 1),
                   *val = build_node(state, node->items[i + 1], depth - 1);
        if (!key || !val || !value_put(state->a, value, key, val))
            return false;
    }
    return true;
}

static ckpt_value *build_container(struct show_state *state, const struct trace_node *node, unsigned depth)
{
    static const uint8_t types[] = {[TRACE_TUPLE] = CKPT_V_TUPLE,
                                    [TRACE_LIST] = CKPT_V_LIST,
                                    [TRACE_DICT] = CKPT_V_DICT,
                                    [TRACE_SET] = CKPT_V_SET,
                                    [TRACE_FROZENSET] = CKPT_V_FROZENSET};
    ckpt_value *v = value_new(state->a, (ckpt_value_type)types[node->kind], 0);
    bool ok = v && (node->kind == TRACE_DICT ? put_pairs(state, v, node, depth)
                                             : put_items(state, v, node, depth));
    return ok ? v : NULL;
}

/* build_subject - returns REF, the callable of a call or a persistent id, as a node. At depth 0, a call or
 * persistent id in that place is "?", because any number of them may follow each other. */
static ckpt_value *build_subject(struct show_state *state, trace_ref ref, unsigned depth)
{
    const struct trace_node *n = trace_node(ref);
    if (depth == 0 && n && (n->kind == TRACE_CALL || n->kind == TRACE_PERSID))
        return value_global(state->a, STR_LIT("?"), STR_LIT("?"), 0);
    return build_node(state, ref, depth ? depth - 1 : 0);
}

static ckpt_value *build_call(struct show_state *state, const struct trace_node *node, unsigned depth)
{
    ckpt_value *callable = build_subject(state, node->items[0], depth);
    ckpt_value *args = depth ? build_node(state, node->items[1], depth - 1)
                             : value_new(state->a, CKPT_V_TUPLE, 0);
    return callable && args ? value_call(state->a, CALL_REDUCE, callable, args, 0) : NULL;
}

/* build_node - returns REF as a node; containers below DEPTH levels are empty, and calls have no arguments.
 * NULL: out of memory, or state->err is set. */
static ckpt_value *build_node(struct show_state *state, trace_ref ref, unsigned depth)
{
    const struct trace_node *n = trace_node(ref);
    const struct trace_global *g = trace_global(ref);
    state->nodes_left -= state->nodes_left > 0;
    if (!n)
        return build_constant(state->src, ref, state->a, state->err);
    if (g)
        return value_global(state->a, g->module, g->name, 0);
    if (n->kind == TRACE_CALL)
        return build_call(state, n, depth);
    if (n->kind == TRACE_OPAQUE)
        return value_global(state->a, STR_LIT("?"), STR_LIT("?"), 0);
    if (n->kind != TRACE_PERSID)
        return build_container(state, n, depth);
    ckpt_value *v = value_new(state->a, CKPT_V_PERSID, 0);
    if (v)
        v->u.pid = build_subject(state, n->items[0], depth);
    return v && v->u.pid ? v : NULL;
}

ckpt_value *pickle_build_value(source *src, trace_ref ref, arena *a, size_t nodes, ckpt_error *err)
{
    struct show_state s = {src, a, nodes, err};
    err->status = CKPT_OK;
    ckpt_value *v = build_node(&s, ref, SHOWN_DEPTH);
    if (!v && err->status == CKPT_OK)
        (void)fail_memory(err);
    return v;
}
