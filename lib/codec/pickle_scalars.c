/* pickle_scalars.c - runs the opcodes that push a constant: they read their argument and pop nothing. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_machine.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_text.h"

#define MAX_WORD_LEN 16u
#define MAX_LINE_LEN ((size_t)256 << 20) /* protocol 0 writes a numpy array as one line */

/* get_shared_constant - returns *SLOT, the node that all equal constants share. If it is NULL, makes one. */
static ckpt_value *get_shared_constant(struct machine *machine, ckpt_value **slot, ckpt_value_type type,
                                       bool flag)
{
    if (!*slot && (*slot = machine_new_node(machine, type)) && type == CKPT_V_BOOL)
        (*slot)->u.b = flag;
    return *slot;
}

bool push_none(struct machine *machine)
{
    return machine_push(machine, get_shared_constant(machine, &machine->none_node, CKPT_V_NONE, false));
}

bool push_bool(struct machine *machine, bool flag)
{
    return machine_push(
        machine,
        get_shared_constant(machine, flag ? &machine->true_node : &machine->false_node, CKPT_V_BOOL, flag));
}

static bool push_float(struct machine *machine, double number)
{
    ckpt_value *v = machine_new_node(machine, CKPT_V_FLOAT);
    if (v)
        v->u.f = number;
    return machine_push(machine, v);
}

bool push_binfloat(struct machine *machine)
{
    const unsigned char *b = unpickler_take(&machine->u, 8);
    if (!b)
        return false;
    uint64_t bits = load_number(b, 8, true);
    double f;
    memcpy(&f, &bits, sizeof f);
    return push_float(machine, f);
}

/* push_integer - pushes the integer in NBYTES BYTES, which are little-endian two's complement. */
static bool push_integer(struct machine *machine, const unsigned char *bytes, size_t nbytes)
{
    nbytes = integer_trimmed_size(bytes, nbytes);
    if (nbytes <= 8)
        return machine_push(machine, machine_get_int(machine, integer_load(bytes, nbytes)));
    ckpt_value *v = machine_new_node(machine, CKPT_V_BIGINT);
    return v && machine_copy_text(machine, str_of((const char *)bytes, nbytes), &v->u.str) &&
           machine_push(machine, v);
}

/* push_huge_integer - pushes an integer whose COUNT bytes do not fit the window. The bytes are copied, then
 * trimmed. */
static bool push_huge_integer(struct machine *machine, uint32_t count)
{
    if (count > unpickler_bytes_left(&machine->u))
        return unpickler_fail_truncated(&machine->u, count);
    char *copy = machine_alloc_text(machine, count);
    for (uint32_t done = 0; copy && done < count;) {
        uint32_t chunk = count - done < READER_WINDOW ? count - done : READER_WINDOW;
        const unsigned char *b = unpickler_take(&machine->u, chunk);
        if (!b)
            return false;
        memcpy(copy + done, b, chunk);
        done += chunk;
    }
    if (!copy)
        return false;
    size_t trimmed_len = integer_trimmed_size((const unsigned char *)copy, count);
    if (trimmed_len <= 8)
        return machine_push(machine,
                            machine_get_int(machine, integer_load((const unsigned char *)copy, trimmed_len)));
    ckpt_value *v = machine_new_node(machine, CKPT_V_BIGINT);
    if (v)
        v->u.str = str_of(copy, trimmed_len);
    return machine_push(machine, v);
}

bool push_long(struct machine *machine, size_t width)
{
    const unsigned char *b = unpickler_take(&machine->u, width);
    if (!b)
        return false;
    uint32_t n = width == 1 ? b[0] : load_u32le(b);
    if (width == 4 && n > INT32_MAX)
        return unpickler_fail_length(&machine->u, (int32_t)n);
    if (n > READER_WINDOW)
        return push_huge_integer(machine, n);
    b = unpickler_take(&machine->u, n);
    return b && push_integer(machine, b, n);
}

ckpt_str machine_read_line(struct machine *machine, size_t max)
{
    for (;;) {
        size_t available = (size_t)(machine->u.lim - machine->u.p);
        const char *line = (const char *)machine->u.p, *nl = available ? memchr(line, '\n', available) : NULL;
        size_t n = nl ? (size_t)(nl - line) : available;
        if (n > max) {
            fail_op(machine, "has a line {of more} than {=%zu bytes}", max);
            return str_of(NULL, 0);
        }
        if (nl) {
            machine->u.p += n + 1;
            return str_of(line, n);
        }
        if (unpickler_bytes_left(&machine->u) == available) {
            unpickler_fail(&machine->u, CKPT_ETRUNCATED,
                           "needs a line; {the %zu bytes left} hold no {=newline}", available);
            return str_of(NULL, 0);
        }
        if (!unpickler_fill(&machine->u, available + 1))
            return str_of(NULL, 0);
    }
}

bool push_int_line(struct machine *machine)
{
    ckpt_str s = machine_read_line(machine, MACHINE_LONGEST_COPY - 1);
    int64_t i;
    if (!s.ptr)
        return false;
    if (machine->u.op == PICKLE_INT &&
        (str_is(s, "00") || str_is(s, "01"))) /* False and True in protocol 0 */
        return push_bool(machine, str_is(s, "01"));
    if (machine->u.op == PICKLE_LONG && s.len && s.ptr[s.len - 1] == 'L')
        s.len--;
    if (pickle_text_int(s, &i))
        return machine_push(machine, machine_get_int(machine, i));
    unsigned char *bytes = malloc(s.len / 2 + 16); /* a digit has at most four bits */
    if (!bytes)
        return unpickler_fail_memory(&machine->u);
    size_t n = pickle_text_bigint(s, bytes);
    bool ok = n == PICKLE_TEXT_BAD ? fail_op(machine, "has {'%.*s'} where {=an integer} belongs", STR_ARG(s))
                                   : push_integer(machine, bytes, n);
    free(bytes);
    return ok;
}

bool push_float_line(struct machine *machine)
{
    ckpt_str s = machine_read_line(machine, MACHINE_LONGEST_COPY - 1);
    double f;
    if (!s.ptr)
        return false;
    if (!pickle_text_float(s, &f))
        return fail_op(machine, "has {'%.*s'} where {=a number} belongs", STR_ARG(s));
    return push_float(machine, f);
}

/* push_decoded - pushes the text that the argument TEXT of STRING or UNICODE stands for. */
static bool push_decoded(struct machine *machine, ckpt_str text)
{
    bool is_str8 = machine->u.op == PICKLE_STRING;
    size_t n = pickle_text_decode(text, !is_str8, NULL);
    if (n == PICKLE_TEXT_BAD)
        return fail_op(machine, "has {'%.*s'}, where {=%s} belongs", STR_ARG(text),
                       is_str8 ? "quoted text" : "text with complete escapes");
    char *decoded = machine_alloc_text(machine, n);
    ckpt_value *v = decoded ? machine_new_node(machine, is_str8 ? CKPT_V_STR8 : CKPT_V_STR) : NULL;
    if (!v)
        return false;
    v->u.str = str_of(decoded, pickle_text_decode(text, !is_str8, decoded));
    return machine_push(machine, v);
}

/* push_long_line - pushes the text of a line that is not completely in the window. The line is copied
 * first. */
static bool push_long_line(struct machine *machine)
{
    buf b;
    bool ok = true, has_newline = false;
    buf_init(&b, MAX_LINE_LEN);
    while (ok && !has_newline) {
        if (machine->u.p == machine->u.lim && !unpickler_fill(&machine->u, 1))
            break;
        size_t available = (size_t)(machine->u.lim - machine->u.p);
        const unsigned char *nl = memchr(machine->u.p, '\n', available);
        size_t n = nl ? (size_t)(nl - machine->u.p) : available;
        buf_put(&b, machine->u.p, n);
        machine->u.p += nl ? n + 1 : n;
        has_newline = nl != NULL;
        if (!buf_ok(&b))
            ok = n > MAX_LINE_LEN - b.len
                     ? unpickler_fail(&machine->u, CKPT_ELIMIT, "has a line {of more} than {=%zu bytes}",
                                      MAX_LINE_LEN)
                     : unpickler_fail_memory(&machine->u);
    }
    ok = ok && has_newline && push_decoded(machine, buf_view(&b));
    buf_free(&b);
    return ok;
}

bool push_text_line(struct machine *machine)
{
    const unsigned char *nl = machine->u.p == machine->u.lim
                                  ? NULL
                                  : memchr(machine->u.p, '\n', (size_t)(machine->u.lim - machine->u.p));
    if (!nl)
        return push_long_line(machine);
    ckpt_str s = str_of((const char *)machine->u.p, (size_t)(nl - machine->u.p));
    machine->u.p = nl + 1;
    return push_decoded(machine, s);
}

/* count_incomplete_bytes - returns how many bytes at the end of the NBYTES BYTES are the beginning of a UTF-8
 * character that continues after them. */
static size_t count_incomplete_bytes(const unsigned char *bytes, size_t nbytes)
{
    for (size_t k = 1; k <= 3 && k <= nbytes; k++) {
        unsigned char c = bytes[nbytes - k];
        size_t character_size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        if (c >= 0xc0)
            return k < character_size ? k : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* fail_utf8 - fails because of the first byte of TEXT that is not UTF-8. */
static bool fail_utf8(struct machine *machine, ckpt_str text)
{
    size_t at = 0, next = 0;
    while (next < text.len && utf8_next(text, &next, true) != UTF8_BAD)
        at = next;
    return fail_op(machine, "has text that is not {=UTF-8}: {byte 0x%02x}",
                   at < text.len ? (unsigned char)text.ptr[at] : 0u);
}

/* count_characters - reads NUMBER bytes of text, and adds the number of its characters to *COUNT. */
static bool count_characters(struct machine *machine, uint64_t number, uint64_t *count)
{
    while (number) {
        size_t chunk = number < READER_WINDOW ? (size_t)number : READER_WINDOW;
        uint64_t characters;
        const unsigned char *b = unpickler_take(&machine->u, chunk);
        if (!b)
            return false;
        size_t incomplete = chunk < number ? count_incomplete_bytes(b, chunk) : 0;
        ckpt_str text = str_of((const char *)b, chunk - incomplete);
        if (!utf8_check(text, true, &characters))
            return fail_utf8(machine, text);
        machine->u.p -= incomplete;
        number -= chunk - incomplete;
        *count += characters;
    }
    return true;
}

/* push_span - pushes a text or bytes of COUNT bytes, which are left in the file. */
static bool push_span(struct machine *machine, ckpt_value_type type, uint64_t count)
{
    ckpt_value *v = machine_new_node_sized(machine, type, sizeof(struct value_span));
    if (!v)
        return false;
    struct value_span *s = (struct value_span *)(v + 1);
    *s = (struct value_span){machine->u.r.src, unpickler_offset(&machine->u), count, 0};
    v->flags |= VALUE_SPAN;
    v->u.span = s;
    if (count > unpickler_bytes_left(&machine->u) || type != CKPT_V_STR) {
        s->count = count;
        return unpickler_skip(&machine->u, count) && machine_push(machine, v);
    }
    return count_characters(machine, count, &s->count) && machine_push(machine, v);
}

/* get_word_slot - returns the slot of machine->recent_words for the text TEXT; NULL: TEXT is empty or too
 * long. Recent short texts share nodes, because every tensor has the texts "storage" and "cpu", which not all
 * writers memoize. */
MODULO static ckpt_value **get_word_slot(struct machine *machine, ckpt_str text)
{
    if (text.len == 0 || text.len > MAX_WORD_LEN)
        return NULL;
    const unsigned char *c = (const unsigned char *)text.ptr;
    size_t hash = text.len * 37 + c[0] * 5u + c[text.len / 2] * 11u + c[text.len - 1];
    return &machine->recent_words[hash % MACHINE_WORDS];
}

/* is_memoized - returns true if a PUT or MEMOIZE follows: this writer memoizes texts, and would have used GET
 * for an object that it wrote before. So even a text seen before is a new object and needs its own node. */
static bool is_memoized(const struct machine *machine)
{
    return machine->u.p < machine->u.lim &&
           (*machine->u.p == PICKLE_BINPUT || *machine->u.p == PICKLE_LONG_BINPUT ||
            *machine->u.p == PICKLE_MEMOIZE);
}

static bool push_content(struct machine *machine, ckpt_value_type type, uint64_t count)
{
    if (count > MACHINE_LONGEST_COPY)
        return push_span(machine, type, count);
    const unsigned char *b = unpickler_take(&machine->u, (size_t)count);
    if (!b)
        return false;
    ckpt_str s = str_of((const char *)b, (size_t)count);
    ckpt_value *v, **slot = is_memoized(machine) ? NULL : get_word_slot(machine, s),
                   *seen = slot ? *slot : NULL;
    if (seen && seen->type == type && str_eq(seen->u.str, s)) {
        seen->flags |= VALUE_SHARED;
        return machine_push(machine, seen);
    }
    if (type == CKPT_V_STR && !utf8_check(s, true, NULL))
        return fail_utf8(machine, s);
    v = machine_new_node(machine, type);
    if (!v || !machine_copy_text(machine, s, &v->u.str))
        return false;
    if (slot && (type == CKPT_V_STR || type == CKPT_V_STR8))
        *slot = v;
    return machine_push(machine, v);
}

bool push_text(struct machine *machine)
{
    const struct pickle_op *op = &pickle_ops[machine->u.op];
    const unsigned char *b = unpickler_take(&machine->u, op->width);
    if (!b)
        return false;
    uint64_t n = op->width == 1 ? b[0] : op->width == 4 ? load_u32le(b) : load_u64le(b);
    if (op->argument == PICKLE_ARG_BI4 && n > INT32_MAX)
        return unpickler_fail_length(&machine->u, (int32_t)(uint32_t)n);
    return push_content(machine, (ckpt_value_type)op->type, n);
}
