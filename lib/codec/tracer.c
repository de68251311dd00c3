/* tracer.c - see tracer.h. */
#include "codec/tracer.h"

#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "codec/pickle_text.h"

bool tracer_ensure_buffered(struct tracer *t, uint64_t n)
{
    uint64_t pos = unpickler_offset(&t->u);
    if (n <= t->buffer_end - pos)
        return true;
    if (n > t->u.r.end - t->buffer_end)
        return unpickler_fail_truncated(&t->u, n);
    t->argument_after_buffer = t->argument_after_buffer || t->buffer_end > pos;
    unpickler_seek(&t->u, t->buffer_end);
    t->buffer_end += n; /* compared with the bytes after the buffer */
    return true;
}

bool tracer_skip(struct tracer *t, uint64_t n, bool crosses_frames)
{
    if (t->options->buffer_frames && !crosses_frames && !tracer_ensure_buffered(t, n))
        return false;
    if (!unpickler_skip(&t->u, n))
        return false;
    if (t->options->buffer_frames && unpickler_offset(&t->u) > t->buffer_end)
        t->buffer_end = unpickler_offset(&t->u);
    return true;
}

/* The bytes of a line: those that fit, or all if the buffer can grow. */
struct line_buffer {
    char *bytes;
    size_t n, cap;
    bool can_grow; /* bytes is from malloc */
};

static bool append_to_line(struct tracer *t, struct line_buffer *l, size_t n)
{
    while (l->can_grow && l->cap - l->n < n)
        if (!unpickler_grow(&t->u, &l->bytes, &l->cap, 1))
            return false;
    size_t fits = l->cap - l->n < n ? l->cap - l->n : n;
    if (fits)
        memcpy(l->bytes + l->n, t->u.p, fits);
    l->n += fits;
    return true;
}

/* read_to_newline - reads into L the bytes before the next newline, which is skipped, or before END. Sets *N
 * to their number, even if not all fit in L, and *FOUND to whether there was a newline. */
static bool read_to_newline(struct tracer *t, uint64_t end, struct line_buffer *l, uint64_t *n, bool *found)
{
    *n = l->n = 0;
    *found = false;
    while (unpickler_offset(&t->u) < end && !*found) {
        if (t->u.p == t->u.lim && !unpickler_fill(&t->u, 1))
            return false;
        uint64_t left = end - unpickler_offset(&t->u);
        size_t available = (size_t)(t->u.lim - t->u.p);
        available = available < left ? available : (size_t)left;
        const unsigned char *nl = memchr(t->u.p, '\n', available);
        size_t chunk_len = nl ? (size_t)(nl - t->u.p) : available;
        if (!append_to_line(t, l, chunk_len))
            return false;
        t->u.p += chunk_len;
        *n += chunk_len;
        *found = nl != NULL;
        t->u.p += *found;
    }
    return true;
}

/* read_line - reads the next line into L. If the source ends before a newline, pickle.py drops the last byte
 * as if it were the newline; C unpicklers refuse the line. */
static bool read_line(struct tracer *t, struct line_buffer *l)
{
    uint64_t n;
    bool found;
    if (t->options->buffer_frames && t->buffer_end > unpickler_offset(&t->u)) {
        if (!read_to_newline(t, t->buffer_end, l, &n, &found))
            return false;
        if (found)
            return true;
        t->argument_after_buffer = true;
    }
    if (!read_to_newline(t, t->u.r.end, l, &n, &found))
        return false;
    if (t->options->buffer_frames)
        t->buffer_end = unpickler_offset(&t->u);
    if (!found && (t->options->buffer_frames || n == 0))
        return unpickler_fail(&t->u, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    if (!found && l->n == n)
        l->n--;
    return true;
}

bool tracer_read_line(struct tracer *t, char *copy, size_t *ncopy)
{
    struct line_buffer l = {.bytes = copy, .cap = copy ? LONGEST_NAME : 0};
    bool ok = read_line(t, &l);
    if (ncopy)
        *ncopy = l.n < LONGEST_NAME ? l.n : utf8_complete_length(copy, l.n);
    return ok;
}

bool tracer_read_text(struct tracer *t, trace_ref r, char *out, size_t cap, size_t *n)
{
    ckpt_status st = pickle_copy_text(t->u.r.src, r, out, cap, n, t->u.err);
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        t->u.status = st;
    return st == CKPT_OK;
}

bool tracer_report(struct tracer *t, struct trace_step *s)
{
    s->t = &t->t;
    s->opname = pickle_op(t->u.op)->name; /* unknown opcodes fail before they report */
    s->opcode = t->u.op;
    s->protocol = t->u.protocol;
    s->offset = t->u.at;
    if (t->options->step(t->options->user, s))
        return true;
    t->u.status = CKPT_ECANCELLED;
    return false;
}

bool tracer_report_number(struct tracer *t, enum trace_what what, uint64_t number)
{
    struct trace_step s = {.what = what, .number = number};
    return tracer_report(t, &s);
}

bool tracer_put_memo(struct tracer *t, uint64_t index)
{
    if (!unpickler_need(&t->u, 1))
        return false;
    trace_ref r = t->stack[t->u.top - 1], old = unpickler_find_memo(&t->u, index);
    if (old && old != r && !tracer_report_number(t, TRACE_STEP_MEMO, index))
        return false;
    tracer_mark_shared(r);
    return unpickler_put_memo(&t->u, index, r);
}

bool tracer_get_memo(struct tracer *t, uint64_t index)
{
    return tracer_push(t, unpickler_get_memo(&t->u, index));
}

/* parse_index - sets *OUT to the digits, without leading zeros, of the memo index that Python's int() reads
 * in S. Only the bytes before a NUL count, as in the C unpickler. The digits are moved to LINE, where S
 * begins. False: S is no number, or a negative one. */
static bool parse_index(ckpt_str s, char *line, ckpt_str *out)
{
    size_t n = 0;
    bool ends_with_digit = false, is_negative, is_zero = true;
    const char *nul = memchr(s.ptr, '\0', s.len);
    s.len = nul ? (size_t)(nul - s.ptr) : s.len;
    s = pickle_text_trim(s);
    is_negative = s.len && s.ptr[0] == '-';
    if (is_negative || (s.len && s.ptr[0] == '+'))
        s = str_skip(s, 1);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_separator = c == '_' && ends_with_digit && i + 1 < s.len;
        if (!is_separator && (c < '0' || c > '9'))
            return false;
        ends_with_digit = !is_separator;
        is_zero = is_zero && (is_separator || c == '0');
    }
    bool is_index = ends_with_digit && (!is_negative || is_zero);
    for (size_t i = 0; is_index && i < s.len; i++)
        if (s.ptr[i] != '_' && (n || s.ptr[i] != '0'))
            line[n++] = s.ptr[i];
    *out = str_of(line, n);
    return is_index;
}

/* get_index - sets *OUT to the memo index DIGITS. Indexes >= 2^63, which pickle.py accepts, get the numbers
 * from 2^63 on, in the order of their first PUT; UINT64_MAX: there was no PUT. IS_PUT: the current opcode is
 * one. */
static bool get_index(struct tracer *t, ckpt_str digits, bool is_put, uint64_t *out)
{
    const uint64_t first = (uint64_t)1 << 63;
    bool fits = true;
    uint32_t number;
    *out = 0;
    for (size_t i = 0; i < digits.len && fits; i++)
        fits = checked_mul(*out, 10, out) && checked_add(*out, (uint64_t)(digits.ptr[i] - '0'), out);
    if (fits && *out < first)
        return true;
    if (!t->huge_indexes && !(t->huge_indexes = map_new(16)))
        return unpickler_fail_memory(&t->u);
    number = map_get(t->huge_indexes, digits);
    if (number == MAP_NONE && is_put) {
        ckpt_str key = arena_str(t->u.a, digits);
        number = (uint32_t)map_count(t->huge_indexes); /* each takes more than a byte of the arena */
        if (!key.ptr || !map_put(t->huge_indexes, key, number, NULL))
            return unpickler_fail_memory(&t->u);
    }
    *out = number == MAP_NONE ? UINT64_MAX : first + number;
    return true;
}

bool tracer_run_memo_line(struct tracer *t)
{
    struct line_buffer l = {.bytes = t->line, .cap = t->cap_line, .can_grow = true};
    ckpt_str digits;
    uint64_t index;
    bool ok = read_line(t, &l);
    t->line = l.bytes;
    t->cap_line = l.cap;
    if (!ok)
        return false;
    ckpt_str text = str_of(l.n ? l.bytes : "", l.n);
    if (!parse_index(text, l.bytes, &digits))
        return fail_op(t, "has {'%.*s'} where {=the number of a memo entry} belongs",
                       text.len > 64 ? 64 : (int)text.len, text.ptr);
    return get_index(t, digits, t->u.op == PICKLE_PUT, &index) &&
           (t->u.op == PICKLE_GET ? tracer_get_memo(t, index) : tracer_put_memo(t, index));
}
