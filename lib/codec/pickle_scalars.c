/* pickle_scalars.c - runs the opcodes that push a constant: they read their argument and pop nothing. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_machine.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_text.h"

#define MAX_WORD_LEN 16u
#define MAX_LINE_LEN ((size_t)256 << 20) /* protocol 0 writes a numpy array as one line */

/* get_shared_constant - returns *SLOT, the node that all equal constants share. If it is NULL, makes one. */
static ckpt_value *get_shared_constant(struct machine *m, ckpt_value **slot, ckpt_value_type type, bool b)
{
    if (!*slot && (*slot = machine_new_node(m, type)) && type == CKPT_V_BOOL)
        (*slot)->u.b = b;
    return *slot;
}

bool push_none(struct machine *m)
{
    return machine_push(m, get_shared_constant(m, &m->none_node, CKPT_V_NONE, false));
}

bool push_bool(struct machine *m, bool b)
{
    return machine_push(m, get_shared_constant(m, b ? &m->true_node : &m->false_node, CKPT_V_BOOL, b));
}

static bool push_float(struct machine *m, double f)
{
    ckpt_value *v = machine_new_node(m, CKPT_V_FLOAT);
    if (v)
        v->u.f = f;
    return machine_push(m, v);
}

bool push_binfloat(struct machine *m)
{
    const unsigned char *b = unpickler_take(&m->u, 8);
    if (!b)
        return false;
    uint64_t bits = load_number(b, 8, true);
    double f;
    memcpy(&f, &bits, sizeof f);
    return push_float(m, f);
}

/* push_integer - pushes the integer in N BYTES, which are little-endian two's complement. */
static bool push_integer(struct machine *m, const unsigned char *bytes, size_t n)
{
    n = integer_trimmed_size(bytes, n);
    if (n <= 8)
        return machine_push(m, machine_get_int(m, integer_load(bytes, n)));
    ckpt_value *v = machine_new_node(m, CKPT_V_BIGINT);
    return v && machine_copy_text(m, str_of((const char *)bytes, n), &v->u.str) && machine_push(m, v);
}

/* push_huge_integer - pushes an integer whose N bytes do not fit the window. The bytes are copied, then
 * trimmed. */
static bool push_huge_integer(struct machine *m, uint32_t n)
{
    if (n > unpickler_bytes_left(&m->u))
        return unpickler_fail_truncated(&m->u, n);
    char *copy = machine_alloc_text(m, n);
    for (uint32_t done = 0; copy && done < n;) {
        uint32_t chunk = n - done < READER_WINDOW ? n - done : READER_WINDOW;
        const unsigned char *b = unpickler_take(&m->u, chunk);
        if (!b)
            return false;
        memcpy(copy + done, b, chunk);
        done += chunk;
    }
    if (!copy)
        return false;
    size_t trimmed_len = integer_trimmed_size((const unsigned char *)copy, n);
    if (trimmed_len <= 8)
        return machine_push(m, machine_get_int(m, integer_load((const unsigned char *)copy, trimmed_len)));
    ckpt_value *v = machine_new_node(m, CKPT_V_BIGINT);
    if (v)
        v->u.str = str_of(copy, trimmed_len);
    return machine_push(m, v);
}

bool push_long(struct machine *m, size_t width)
{
    const unsigned char *b = unpickler_take(&m->u, width);
    if (!b)
        return false;
    uint32_t n = width == 1 ? b[0] : load_u32le(b);
    if (width == 4 && n > INT32_MAX)
        return unpickler_fail_length(&m->u, (int32_t)n);
    if (n > READER_WINDOW)
        return push_huge_integer(m, n);
    b = unpickler_take(&m->u, n);
    return b && push_integer(m, b, n);
}

ckpt_str machine_read_line(struct machine *m, size_t max)
{
    for (;;) {
        size_t available = (size_t)(m->u.lim - m->u.p);
        const char *line = (const char *)m->u.p, *nl = available ? memchr(line, '\n', available) : NULL;
        size_t n = nl ? (size_t)(nl - line) : available;
        if (n > max) {
            fail_op(m, "has a line {of more} than {=%zu bytes}", max);
            return str_of(NULL, 0);
        }
        if (nl) {
            m->u.p += n + 1;
            return str_of(line, n);
        }
        if (unpickler_bytes_left(&m->u) == available) {
            unpickler_fail(&m->u, CKPT_ETRUNCATED, "needs a line; {the %zu bytes left} hold no {=newline}",
                           available);
            return str_of(NULL, 0);
        }
        if (!unpickler_fill(&m->u, available + 1))
            return str_of(NULL, 0);
    }
}

bool push_int_line(struct machine *m)
{
    ckpt_str s = machine_read_line(m, MACHINE_LONGEST_COPY - 1);
    int64_t i;
    if (!s.ptr)
        return false;
    if (m->u.op == PICKLE_INT && (str_is(s, "00") || str_is(s, "01"))) /* False and True in protocol 0 */
        return push_bool(m, str_is(s, "01"));
    if (m->u.op == PICKLE_LONG && s.len && s.ptr[s.len - 1] == 'L')
        s.len--;
    if (pickle_text_int(s, &i))
        return machine_push(m, machine_get_int(m, i));
    unsigned char *bytes = malloc(s.len / 2 + 16); /* a digit has at most four bits */
    if (!bytes)
        return unpickler_fail_memory(&m->u);
    size_t n = pickle_text_bigint(s, bytes);
    bool ok = n == PICKLE_TEXT_BAD ? fail_op(m, "has {'%.*s'} where {=an integer} belongs", STR_ARG(s))
                                   : push_integer(m, bytes, n);
    free(bytes);
    return ok;
}

bool push_float_line(struct machine *m)
{
    ckpt_str s = machine_read_line(m, MACHINE_LONGEST_COPY - 1);
    double f;
    if (!s.ptr)
        return false;
    if (!pickle_text_float(s, &f))
        return fail_op(m, "has {'%.*s'} where {=a number} belongs", STR_ARG(s));
    return push_float(m, f);
}

/* push_decoded - pushes the text that the argument S of STRING or UNICODE stands for. */
static bool push_decoded(struct machine *m, ckpt_str s)
{
    bool is_str8 = m->u.op == PICKLE_STRING;
    size_t n = pickle_text_decode(s, !is_str8, NULL);
    if (n == PICKLE_TEXT_BAD)
        return fail_op(m, "has {'%.*s'}, where {=%s} belongs", STR_ARG(s),
                       is_str8 ? "quoted text" : "text with complete escapes");
    char *decoded = machine_alloc_text(m, n);
    ckpt_value *v = decoded ? machine_new_node(m, is_str8 ? CKPT_V_STR8 : CKPT_V_STR) : NULL;
    if (!v)
        return false;
    v->u.str = str_of(decoded, pickle_text_decode(s, !is_str8, decoded));
    return machine_push(m, v);
}

/* push_long_line - pushes the text of a line that is not completely in the window. The line is copied
 * first. */
static bool push_long_line(struct machine *m)
{
    buf b;
    bool ok = true, has_newline = false;
    buf_init(&b, MAX_LINE_LEN);
    while (ok && !has_newline) {
        if (m->u.p == m->u.lim && !unpickler_fill(&m->u, 1))
            break;
        size_t available = (size_t)(m->u.lim - m->u.p);
        const unsigned char *nl = memchr(m->u.p, '\n', available);
        size_t n = nl ? (size_t)(nl - m->u.p) : available;
        buf_put(&b, m->u.p, n);
        m->u.p += nl ? n + 1 : n;
        has_newline = nl != NULL;
        if (!buf_ok(&b))
            ok = n > MAX_LINE_LEN - b.len
                     ? unpickler_fail(&m->u, CKPT_ELIMIT, "has a line {of more} than {=%zu bytes}",
                                      MAX_LINE_LEN)
                     : unpickler_fail_memory(&m->u);
    }
    ok = ok && has_newline && push_decoded(m, buf_view(&b));
    buf_free(&b);
    return ok;
}

bool push_text_line(struct machine *m)
{
    const unsigned char *nl = m->u.p == m->u.lim ? NULL : memchr(m->u.p, '\n', (size_t)(m->u.lim - m->u.p));
    if (!nl)
        return push_long_line(m);
    ckpt_str s = str_of((const char *)m->u.p, (size_t)(nl - m->u.p));
    m->u.p = nl + 1;
    return push_decoded(m, s);
}

/* count_incomplete_bytes - returns how many bytes at the end of the N BYTES are the beginning of a UTF-8
 * character that continues after them. */
static size_t count_incomplete_bytes(const unsigned char *bytes, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = bytes[n - k];
        size_t character_size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        if (c >= 0xc0)
            return k < character_size ? k : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* fail_utf8 - fails because of the first byte of S that is not UTF-8. */
static bool fail_utf8(struct machine *m, ckpt_str s)
{
    size_t at = 0, next = 0;
    while (next < s.len && utf8_next(s, &next, true) != UTF8_BAD)
        at = next;
    return fail_op(m, "has text that is not {=UTF-8}: {byte 0x%02x}",
                   at < s.len ? (unsigned char)s.ptr[at] : 0u);
}

/* count_characters - reads N bytes of text, and adds the number of its characters to *COUNT. */
static bool count_characters(struct machine *m, uint64_t n, uint64_t *count)
{
    while (n) {
        size_t chunk = n < READER_WINDOW ? (size_t)n : READER_WINDOW;
        uint64_t characters;
        const unsigned char *b = unpickler_take(&m->u, chunk);
        if (!b)
            return false;
        size_t incomplete = chunk < n ? count_incomplete_bytes(b, chunk) : 0;
        ckpt_str text = str_of((const char *)b, chunk - incomplete);
        if (!utf8_check(text, true, &characters))
            return fail_utf8(m, text);
        m->u.p -= incomplete;
        n -= chunk - incomplete;
        *count += characters;
    }
    return true;
}

/* push_span - pushes a text or bytes of N bytes, which are left in the file. */
static bool push_span(struct machine *m, ckpt_value_type type, uint64_t n)
{
    ckpt_value *v = machine_new_node_sized(m, type, sizeof(struct value_span));
    if (!v)
        return false;
    struct value_span *s = (struct value_span *)(v + 1);
    *s = (struct value_span){m->u.r.src, unpickler_offset(&m->u), n, 0};
    v->flags |= VALUE_SPAN;
    v->u.span = s;
    if (n > unpickler_bytes_left(&m->u) || type != CKPT_V_STR) {
        s->count = n;
        return unpickler_skip(&m->u, n) && machine_push(m, v);
    }
    return count_characters(m, n, &s->count) && machine_push(m, v);
}

/* get_word_slot - returns the slot of m->recent_words for the text S; NULL: S is empty or too long. Recent
 * short texts share nodes, because every tensor has the texts "storage" and "cpu", which not all writers
 * memoize. */
MODULO static ckpt_value **get_word_slot(struct machine *m, ckpt_str s)
{
    if (s.len == 0 || s.len > MAX_WORD_LEN)
        return NULL;
    const unsigned char *c = (const unsigned char *)s.ptr;
    size_t hash = s.len * 37 + c[0] * 5u + c[s.len / 2] * 11u + c[s.len - 1];
    return &m->recent_words[hash % MACHINE_WORDS];
}

/* is_memoized - returns true if a PUT or MEMOIZE follows: this writer memoizes texts, and would have used GET
 * for an object that it wrote before. So even a text seen before is a new object and needs its own node. */
static bool is_memoized(const struct machine *m)
{
    return m->u.p < m->u.lim &&
           (*m->u.p == PICKLE_BINPUT || *m->u.p == PICKLE_LONG_BINPUT || *m->u.p == PICKLE_MEMOIZE);
}

static bool push_content(struct machine *m, ckpt_value_type type, uint64_t n)
{
    if (n > MACHINE_LONGEST_COPY)
        return push_span(m, type, n);
    const unsigned char *b = unpickler_take(&m->u, (size_t)n);
    if (!b)
        return false;
    ckpt_str s = str_of((const char *)b, (size_t)n);
    ckpt_value *v, **slot = is_memoized(m) ? NULL : get_word_slot(m, s), *seen = slot ? *slot : NULL;
    if (seen && seen->type == type && str_eq(seen->u.str, s)) {
        seen->flags |= VALUE_SHARED;
        return machine_push(m, seen);
    }
    if (type == CKPT_V_STR && !utf8_check(s, true, NULL))
        return fail_utf8(m, s);
    v = machine_new_node(m, type);
    if (!v || !machine_copy_text(m, s, &v->u.str))
        return false;
    if (slot && (type == CKPT_V_STR || type == CKPT_V_STR8))
        *slot = v;
    return machine_push(m, v);
}

bool push_text(struct machine *m)
{
    const struct pickle_op *op = &pickle_ops[m->u.op];
    const unsigned char *b = unpickler_take(&m->u, op->width);
    if (!b)
        return false;
    uint64_t n = op->width == 1 ? b[0] : op->width == 4 ? load_u32le(b) : load_u64le(b);
    if (op->argument == PICKLE_ARG_BI4 && n > INT32_MAX)
        return unpickler_fail_length(&m->u, (int32_t)(uint32_t)n);
    return push_content(m, (ckpt_value_type)op->type, n);
}
