/* pickle_emit.c - see pickle_emit.h. */
#include "codec/pickle_emit.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "codec/pickle_text.h"
#include "core/python2.h"

#define CHUNK 8192u

static size_t place_at(const pickle_writer *w, size_t place)
{
    size_t k = 0;
    while (k < w->nwraps && w->wraps[k] <= place) /* mostly there are none */
        k++;
    return k << 31 | w->places[place].low; /* bounded: it was an offset */
}

/* lines - the two lines that S begins with, breaks included. */
static ckpt_str lines(ckpt_str s)
{
    size_t first = str_find(s, STR_LIT("\n"), 0);
    return str_of(s.ptr, str_find(s, STR_LIT("\n"), first + 1) + 1); /* bounded: put_name wrote both */
}

/* content - the text or global at PLACE, as it stands in the output. */
static ckpt_str content(const void *user, uint32_t place)
{
    const pickle_writer *w = user;
    ckpt_str s = str_skip(buf_view(w->out), place_at(w, place));
    const unsigned char *p = (const unsigned char *)s.ptr;
    switch (p[0]) { /* bounded: it is one of ours, and whole */
    case PICKLE_GLOBAL: return lines(str_skip(s, 1));
    case PICKLE_SHORT_BINSTRING: return str_of(s.ptr + 2, p[1]);
    default: return str_of(s.ptr + 5, load_u32le(p + 1)); /* bounded: likewise */
    }
}

/* place_end - where the value at PLACE was complete. */
static size_t place_end(const pickle_writer *w, uint32_t place)
{
    if (w->places[place].end)
        return place_at(w, place);
    ckpt_str text = content(w, place);
    return (size_t)(text.ptr - (const char *)w->out->data) + text.len; /* bounded: in the output */
}

bool emit_init(pickle_writer *w)
{
    w->nodes = map_new(64);
    w->texts = map_new_index(256, content, w);
    w->bytes = map_new_index(16, content, w);
    w->globals = map_new_index(16, content, w);
    w->entered = map_new(16);
    w->memo = map_new(16);
    buf_init(&w->name, SIZE_MAX);
    if (!w->nodes || !w->texts || !w->bytes || !w->globals || !w->entered || !w->memo)
        emit_memory(w);
    return w->status == CKPT_OK;
}

void emit_free(pickle_writer *w)
{
    map_free(w->nodes);
    map_free(w->texts);
    map_free(w->bytes);
    map_free(w->globals);
    map_free(w->entered);
    map_free(w->memo);
    buf_free(&w->name);
    free(w->places);
    free(w->wraps);
    free(w->frames);
}

void emit_memory(pickle_writer *w)
{
    if (w->status == CKPT_OK)
        w->status = fail_memory(w->err);
}

void emit_op(pickle_writer *w, enum pickle_opcode op) { buf_byte(w->out, (unsigned char)op); }

void pickle_put_op(pickle_writer *w, char opcode) { buf_byte(w->out, (unsigned char)opcode); }

/* ------------------------------------------------------------------- memo */

/* note_wraps - that AT, of the next place, is beyond a multiple of 2^31. */
static bool note_wraps(pickle_writer *w, size_t at)
{
    while (w->nwraps < at >> 31) {
        size_t *grown = realloc(w->wraps, (w->nwraps + 1) * sizeof *grown); /* bounded: few */
        if (!grown)
            return false;
        w->wraps = grown;
        grown[w->nwraps++] = w->nplaces;
    }
    return true;
}

uint32_t emit_place(pickle_writer *w, size_t at, bool end)
{
    if (w->nplaces == w->cap_places) {
        size_t cap = w->cap_places ? w->cap_places * 2 : 256;
        struct emit_place *grown = cap < MAP_NONE ? realloc(w->places, cap * sizeof *grown) : NULL;
        if (!grown) {
            emit_memory(w);
            return 0;
        }
        w->places = grown;
        w->cap_places = cap;
    }
    if (!note_wraps(w, at)) {
        emit_memory(w);
        return 0;
    }
    w->places[w->nplaces] = (struct emit_place){.low = at & 0x7FFFFFFF, .end = end};
    return (uint32_t)w->nplaces++;
}

/* fetch - GET for what was written at PLACE. */
static void fetch(pickle_writer *w, uint32_t place)
{
    if (w->status != CKPT_OK)
        return;
    uint32_t index = w->nmemo, old;
    if (!map_put_num(w->memo, place, index, &old)) {
        emit_memory(w);
        return;
    }
    if (old == MAP_NONE)
        w->nmemo++;
    else
        index = old;
    emit_op(w, index < 256 ? PICKLE_BINGET : PICKLE_LONG_BINGET);
    if (index < 256)
        buf_byte(w->out, (unsigned char)index);
    else
        buf_u32le(w->out, index);
}

void emit_node_place(pickle_writer *w, const ckpt_value *v)
{
    if (!map_set_num(w->nodes, map_ptr(v), emit_place(w, w->out->len, true)))
        emit_memory(w);
}

bool emit_known(pickle_writer *w, const ckpt_value *v)
{
    uint32_t place = map_get_num(w->nodes, map_ptr(v));
    if (place != MAP_NONE)
        fetch(w, place);
    return place != MAP_NONE;
}

/* known_content - the same for what equals KEY. If nothing does, what the caller
 * writes next will, and emit_place must be called with its opcode. */
static bool known_content(pickle_writer *w, map *m, ckpt_str key)
{
    uint32_t place = MAP_NONE;
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return true; /* what the places say need not be there */
    if (!map_put(m, key, (uint32_t)w->nplaces, &place))
        emit_memory(w);
    if (place != MAP_NONE)
        fetch(w, place);
    return place != MAP_NONE;
}

static size_t put_size(uint32_t index) { return index == MAP_NONE ? 0 : index < 256 ? 2 : 5; }

static void put_at(unsigned char *at, uint32_t index)
{
    bool small = index < 256;
    at[0] = small ? PICKLE_BINPUT : PICKLE_LONG_BINPUT;
    for (size_t i = 0; i < (small ? 1u : 4u); i++, index >>= 8)
        at[1 + i] = (unsigned char)index;
}

void emit_finish(pickle_writer *w)
{
    static const unsigned char room[CHUNK];
    size_t more = 0, end;
    emit_op(w, PICKLE_STOP);
    end = w->out->len;
    for (size_t i = 0; i < w->nplaces; i++)
        more += put_size(map_get_num(w->memo, i));
    for (size_t left = more; left;) {
        size_t part = left < CHUNK ? left : CHUNK;
        buf_put(w->out, room, part);
        left -= part;
    }
    if (!buf_ok(w->out))
        return;
    /* From the back: what lies behind a place moves once, by all PUTs before it. */
    for (size_t i = w->nplaces; more && i-- > 0;) {
        uint32_t index = map_get_num(w->memo, i);
        size_t n = put_size(index);
        if (n == 0)
            continue;
        size_t pos = place_end(w, (uint32_t)i);
        memmove(w->out->data + pos + more, w->out->data + pos, end - pos);
        more -= n;
        put_at(w->out->data + pos + more, index);
        end = pos;
    }
}

/* ---------------------------------------------------------------- numbers */

void pickle_put_bool(pickle_writer *w, bool b) { emit_op(w, b ? PICKLE_NEWTRUE : PICKLE_NEWFALSE); }

static void put_long(pickle_writer *w, const void *bytes, size_t n)
{
    emit_op(w, n < 256 ? PICKLE_LONG1 : PICKLE_LONG4);
    if (n < 256)
        buf_byte(w->out, (unsigned char)n);
    else
        buf_u32le(w->out, (uint32_t)n);
    buf_put(w->out, bytes, n);
}

static void put_wide(pickle_writer *w, uint64_t u, unsigned char sign)
{
    unsigned char bytes[9];
    for (size_t i = 0; i < 8; i++, u >>= 8)
        bytes[i] = (unsigned char)u;
    bytes[8] = sign;
    put_long(w, bytes, integer_trim(bytes, sizeof bytes));
}

void pickle_put_int(pickle_writer *w, int64_t i)
{
    if (i >= 0 && i < 256 && !w->widen) {
        emit_op(w, PICKLE_BININT1);
        buf_byte(w->out, (unsigned char)i);
    } else if (i >= 0 && i < 65536) {
        emit_op(w, PICKLE_BININT2);
        buf_u16le(w->out, (uint16_t)i);
        w->widen = w->widen && i >= 256;
    } else if (i >= INT32_MIN && i <= INT32_MAX) {
        emit_op(w, PICKLE_BININT);
        buf_u32le(w->out, (uint32_t)(int32_t)i);
    } else {
        put_wide(w, (uint64_t)i, i < 0 ? 0xff : 0);
    }
}

void pickle_put_uint(pickle_writer *w, uint64_t u)
{
    if (u <= INT64_MAX)
        pickle_put_int(w, (int64_t)u);
    else
        put_wide(w, u, 0);
}

void emit_float(pickle_writer *w, double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    emit_op(w, PICKLE_BINFLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_byte(w->out, (unsigned char)(bits >> shift));
}

void emit_bigint(pickle_writer *w, ckpt_str s)
{
    if (s.len > INT32_MAX)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "an int of %zu bytes does not fit a pickle",
                         s.len);
    else
        put_long(w, s.ptr, integer_trim((const unsigned char *)s.ptr, s.len));
}

/* ------------------------------------------------------------------- text */

/* text_head - opcode and length; false: too long for protocol 2. */
static bool text_head(pickle_writer *w, enum pickle_opcode op, uint64_t n)
{
    bool text = op == PICKLE_BINUNICODE;
    if (n > (text ? UINT32_MAX : INT32_MAX)) {
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "text of %llu bytes does not fit a pickle of protocol 2", (unsigned long long)n);
        return false;
    }
    bool brief = !text && n < 256;
    emit_op(w, brief ? PICKLE_SHORT_BINSTRING : op);
    if (brief)
        buf_byte(w->out, (unsigned char)n);
    else
        buf_u32le(w->out, (uint32_t)n);
    return true;
}

void emit_text(pickle_writer *w, enum pickle_opcode op, ckpt_str s)
{
    map *m = op == PICKLE_BINUNICODE ? w->texts : w->bytes;
    size_t at = w->out->len;
    if (known_content(w, m, s) || !text_head(w, op, s.len))
        return;
    buf_str(w->out, s);
    (void)emit_place(w, at, false);
}

void pickle_put_text(pickle_writer *w, ckpt_str s) { emit_text(w, PICKLE_BINUNICODE, s); }

/* translate - the name as the protocol that is written spells it. LITERAL: it is that of a later one. */
static void translate(pickle_writer *w, ckpt_str *module, ckpt_str *name, bool literal)
{
    ckpt_str to_module = *module, to_name = *name;
    if (w->hooks->literal == literal || !python2_translate(&to_module, &to_name))
        return;
    if (literal)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "protocol 2 cannot name '%.*s' of module '%.*s': it would be '%.*s' of '%.*s'",
                         STR_ARG(*name), STR_ARG(*module), STR_ARG(to_name), STR_ARG(to_module));
    *module = to_module;
    *name = to_name;
}

static void put_name(pickle_writer *w, ckpt_str module, ckpt_str name, bool literal)
{
    translate(w, &module, &name, literal);
    bool newline = memchr(module.ptr, '\n', module.len) || memchr(name.ptr, '\n', name.len);
    if (newline || module.len == 0 || name.len == 0) {
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "protocol 2 cannot name '%.*s' of module '%.*s': %s", STR_ARG(name), STR_ARG(module),
                         newline ? "a newline is in it" : "nothing is left of it");
        return;
    }
    w->name.len = 0;
    buf_str(&w->name, module);
    buf_byte(&w->name, '\n');
    buf_str(&w->name, name);
    buf_byte(&w->name, '\n');
    if (!buf_ok(&w->name)) {
        emit_memory(w);
    } else if (!known_content(w, w->globals, buf_view(&w->name))) {
        size_t at = w->out->len;
        emit_op(w, PICKLE_GLOBAL);
        buf_str(w->out, buf_view(&w->name));
        (void)emit_place(w, at, false);
    }
}

void pickle_put_global(pickle_writer *w, ckpt_str module, ckpt_str name)
{
    put_name(w, module, name, false);
}

void pickle_put_name(pickle_writer *w, const ckpt_value *global) { emit_global(w, global); }

/* Protocol 2 looks a name up in one step, so that A.B.C is written as
 * getattr(getattr(A, 'B'), 'C'), as CPython writes it. */
void emit_global(pickle_writer *w, const ckpt_value *v)
{
    ckpt_str module = value_module(v), name = value_name(v);
    bool literal = v->flags & VALUE_LITERAL;
    size_t dot = v->flags & VALUE_DOTTED ? str_find(name, STR_LIT("."), 0) : SIZE_MAX;
    if (dot == SIZE_MAX) {
        put_name(w, module, name, literal);
        return;
    }
    for (size_t at = dot; at != SIZE_MAX;
         at = str_find(name, STR_LIT("."), at + 1)) /* bounded: at < name.len */
        put_name(w, STR_LIT("__builtin__"), STR_LIT("getattr"), false);
    put_name(w, module, str_of(name.ptr, dot), literal);
    while (dot != SIZE_MAX) {
        ckpt_str rest = str_skip(name, dot + 1);
        size_t next = str_find(rest, STR_LIT("."), 0);
        emit_text(w, PICKLE_BINUNICODE, str_of(rest.ptr, next == SIZE_MAX ? rest.len : next));
        emit_op(w, PICKLE_TUPLE2);
        emit_op(w, PICKLE_REDUCE);
        name = rest;
        dot = next;
    }
}

void emit_span(pickle_writer *w, enum pickle_opcode op, const struct value_span *s)
{
    unsigned char chunk[CHUNK];
    if (!text_head(w, op, s->nbytes))
        return;
    for (uint64_t done = 0; done < s->nbytes && w->status == CKPT_OK && buf_ok(w->out);) {
        size_t part = s->nbytes - done < CHUNK ? (size_t)(s->nbytes - done) : CHUNK;
        /* bounded: the span lies in src */
        w->status = source_read(s->src, s->off + done, chunk, part, w->err);
        buf_put(w->out, chunk, part);
        done += part;
    }
}

static void put_latin1(pickle_writer *w, const unsigned char *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t run = i;
        while (run < n && at[run] < 0x80)
            run++;
        buf_put(w->out, at + i, run - i); /* bounded: i <= run <= n */
        i = run;
        if (i < n) {
            buf_byte(w->out, (unsigned char)(0xc0 | at[i] >> 6));
            buf_byte(w->out, (unsigned char)(0x80 | (at[i] & 0x3f)));
        }
    }
}

/* text_met - what was written from HEAD on, its text from BEGIN on, may be text that was met before. */
static void text_met(pickle_writer *w, size_t head, size_t begin)
{
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return;
    /* bounded: BEGIN lies in the output */
    ckpt_str text = str_of((const char *)w->out->data + begin, w->out->len - begin);
    uint32_t place = map_get(w->texts, text);
    if (place != MAP_NONE) {
        w->out->len = head;
        fetch(w, place);
    } else if (!map_put(w->texts, text, emit_place(w, head, false), NULL)) {
        emit_memory(w);
    }
}

/* latin1_text - the bytes of V as the text of the code points U+0000..U+00FF. */
static void latin1_text(pickle_writer *w, const ckpt_value *v)
{
    unsigned char chunk[CHUNK];
    const struct value_span *s = v->flags & VALUE_SPAN ? v->u.span : NULL;
    size_t head = w->out->len;
    (void)text_head(w, PICKLE_BINUNICODE, 0);
    size_t begin = w->out->len;
    if (!s)
        put_latin1(w, (const unsigned char *)v->u.str.ptr, v->u.str.len);
    for (uint64_t done = 0; s && done < s->nbytes && w->status == CKPT_OK && buf_ok(w->out);) {
        size_t part = s->nbytes - done < CHUNK ? (size_t)(s->nbytes - done) : CHUNK;
        /* bounded: the span lies in src */
        w->status = source_read(s->src, s->off + done, chunk, part, w->err);
        if (w->status == CKPT_OK)
            put_latin1(w, chunk, part);
        done += part;
    }
    uint64_t n = w->out->len - begin;
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return;
    if (n > UINT32_MAX)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "%llu bytes do not fit a pickle of protocol 2",
                         (unsigned long long)n);
    else
        for (size_t i = 4; i > 0; i--, n >>= 8)
            w->out->data[begin - i] = (unsigned char)n;
    if (!s)
        text_met(w, head, begin);
}

/* Empty ones too: builtins.bytes, which CPython writes for them, is nothing that
 * torch's weights_only unpickler knows. */
void emit_bytes(pickle_writer *w, const ckpt_value *v)
{
    bool array = v->type == CKPT_V_BYTEARRAY, empty = !(v->flags & VALUE_SPAN) && v->u.str.len == 0;
    if (array)
        put_name(w, STR_LIT("__builtin__"), STR_LIT("bytearray"), false);
    if (array && empty) {
        emit_op(w, PICKLE_EMPTY_TUPLE);
    } else {
        put_name(w, STR_LIT("_codecs"), STR_LIT("encode"), false);
        latin1_text(w, v);
        emit_text(w, PICKLE_BINUNICODE, STR_LIT("latin1"));
        emit_op(w, PICKLE_TUPLE2);
    }
    if (array && !empty) {
        emit_op(w, PICKLE_REDUCE);
        emit_op(w, PICKLE_TUPLE1);
    }
    emit_op(w, PICKLE_REDUCE);
}
