/* tracer.c - see tracer.h. Stack, marks and memo are allocated with malloc, up to the memory limit of the
 * trace. */
#include "codec/tracer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"

#define DENSE_MEMO 1024u /* below this, or below twice the number of PUTs so far, indexes are in the array */

#define fail_op(t, ...) tracer_fail(t, CKPT_EFORMAT, __VA_ARGS__)

/* ------------------------------------------------------------------ failing */

bool tracer_fail(struct tracer *t, ckpt_status status, const char *fmt, ...)
{
    const struct pickle_op *op = pickle_op(t->op);
    va_list args;
    va_start(args, fmt);
    t->status = fail_v(t->err, status, source_pos(t->r.src, t->at), fmt, args);
    va_end(args);
    if (op)
        fail_prefix(t->err, op->name);
    return false;
}

bool tracer_fail_memory(struct tracer *t)
{
    if (arena_full(t->a))
        return tracer_fail(t, CKPT_ELIMIT, "needs more memory than a pickle of its size may take");
    t->status = fail_memory(t->err);
    return false;
}

bool tracer_fail_underflow(struct tracer *t, size_t n)
{
    return fail_op(t, "takes {=%zu values} from the stack, where {%zu} are", n, t->top - t->fence);
}

bool tracer_grow(struct tracer *t, void *array, size_t *cap, size_t size)
{
    void *old;
    uint64_t more = *cap ? 2 * (uint64_t)*cap : 256, bytes;
    size_t n;
    memcpy(&old, array, sizeof old);
    if (!checked_mul(more, size, &bytes) || !checked_size(bytes, &n) || bytes > t->max_memory)
        return tracer_fail(t, CKPT_ELIMIT, "needs more memory than a pickle of its size may take");
    void *at = realloc(old, n);
    if (!at)
        return tracer_fail_memory(t);
    memcpy(array, &at, sizeof at);
    *cap = (size_t)more;
    return true;
}

/* ------------------------------------------------------------------ reading */

static bool fail_truncated(struct tracer *t, uint64_t n)
{
    return tracer_fail(t, CKPT_ETRUNCATED, "needs {=%" PRIu64 " more bytes}, {%" PRIu64 "} are left", n,
                       tracer_bytes_left(t));
}

void tracer_seek(struct tracer *t, uint64_t pos)
{
    uint64_t now = tracer_offset(t);
    if (pos - now <= (uint64_t)(t->lim - t->p)) { /* bounded: it goes only forward */
        t->p += pos - now;
        return;
    }
    t->p = t->lim;
    t->lim_pos = pos;
}

bool tracer_fill(struct tracer *t, size_t n)
{
    uint64_t pos = tracer_offset(t), rest = t->r.end - pos;
    if (n > rest)
        return fail_truncated(t, n);
    size_t size = t->want > n ? t->want : n;
    if (size > rest)
        size = (size_t)rest;
    t->r.pos = pos;
    const unsigned char *at = reader_peek(&t->r, size);
    if (!at) {
        t->status = t->r.status;
        return false;
    }
    t->want = t->want < READER_WINDOW / 2 ? t->want * 2 : READER_WINDOW;
    t->p = at;
    t->lim = at + size;      /* bounded: size bytes are in the window … */
    t->lim_pos = pos + size; /* bounded: … and before the reader's end */
    return true;
}

bool tracer_cross(struct tracer *t, uint64_t n)
{
    uint64_t pos = tracer_offset(t);
    if (n <= t->buffer - pos)
        return true;
    if (n > t->r.end - t->buffer)
        return fail_truncated(t, n);
    t->jumped = t->jumped || t->buffer > pos;
    tracer_seek(t, t->buffer);
    t->buffer += n; /* bounded: inside the source, by the line above */
    return true;
}

bool tracer_skip(struct tracer *t, uint64_t n, bool bytes)
{
    if (t->o->framed && !bytes && !tracer_cross(t, n))
        return false;
    if (n > tracer_bytes_left(t))
        return fail_truncated(t, n);
    tracer_seek(t, tracer_offset(t) + n); /* bounded: n are left */
    if (t->o->framed && tracer_offset(t) > t->buffer)
        t->buffer = tracer_offset(t);
    return true;
}

/* The bytes of a line: those that fit, or, if it grows, all. */
struct tracer_text {
    char *at;
    size_t n, cap;
    bool grows; /* at is from malloc */
};

/* append_to_line - appends the next N bytes of the window to L. */
static bool append_to_line(struct tracer *t, struct tracer_text *l, size_t n)
{
    while (l->grows && l->cap - l->n < n)
        if (!tracer_grow(t, &l->at, &l->cap, 1))
            return false;
    size_t fits = l->cap - l->n < n ? l->cap - l->n : n;
    if (fits)
        memcpy(l->at + l->n, t->p, fits); /* bounded: they fit */
    l->n += fits;
    return true;
}

/* read_to_newline - reads to L up to the next newline, which is skipped, or up to END. Sets *N to the number
 * of bytes before, and *FOUND if there was a newline. */
static bool read_to_newline(struct tracer *t, uint64_t end, struct tracer_text *l, uint64_t *n, bool *found)
{
    *n = l->n = 0;
    *found = false;
    while (tracer_offset(t) < end && !*found) {
        if (t->p == t->lim && !tracer_fill(t, 1))
            return false;
        uint64_t room = end - tracer_offset(t);
        size_t have = (size_t)(t->lim - t->p);
        have = have < room ? have : (size_t)room;
        const unsigned char *nl = memchr(t->p, '\n', have);
        size_t part = nl ? (size_t)(nl - t->p) : have;
        if (!append_to_line(t, l, part))
            return false;
        t->p += part;
        *n += part; /* bounded: no more than the source has */
        *found = nl != NULL;
        t->p += *found;
    }
    return true;
}

/* read_line - reads the next line to L. If the source ends before a newline, pickle.py drops the last byte as
 * if it were the newline; C unpicklers refuse the line. */
static bool read_line(struct tracer *t, struct tracer_text *l)
{
    uint64_t n;
    bool found;
    if (t->o->framed && t->buffer > tracer_offset(t)) {
        if (!read_to_newline(t, t->buffer, l, &n, &found))
            return false;
        if (found)
            return true;
        t->jumped = true;
    }
    if (!read_to_newline(t, t->r.end, l, &n, &found))
        return false;
    if (t->o->framed)
        t->buffer = tracer_offset(t);
    if (!found && (t->o->framed || n == 0))
        return tracer_fail(t, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    if (!found && l->n == n)
        l->n--; /* bounded: n > 0 */
    return true;
}

bool tracer_line(struct tracer *t, char *copy, size_t *ncopy)
{
    struct tracer_text l = {.at = copy, .cap = copy ? LONGEST_NAME : 0};
    bool ok = read_line(t, &l);
    if (ncopy)
        *ncopy = l.n < LONGEST_NAME ? l.n : utf8_complete_length(copy, l.n);
    return ok;
}

bool tracer_read_text(struct tracer *t, trace_ref r, char *out, size_t cap, size_t *n)
{
    ckpt_status st = show_text(t->r.src, r, out, cap, n, t->err);
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        t->status = st;
    return st == CKPT_OK;
}

/* ----------------------------------------------------------- stack and memo */

bool tracer_push_mark(struct tracer *t)
{
    if (t->nmarks == t->cap_marks && !tracer_grow(t, &t->marks, &t->cap_marks, sizeof *t->marks))
        return false;
    t->marks[t->nmarks++] = t->fence = t->top;
    return true;
}

bool tracer_pop_mark(struct tracer *t, size_t *from)
{
    if (t->nmarks == 0)
        return fail_op(t, "goes back to {=a MARK}, and {none} is on the stack");
    *from = t->marks[--t->nmarks];
    t->fence = t->nmarks ? t->marks[t->nmarks - 1] : 0;
    return true;
}

static trace_ref memo_find(const struct tracer *t, uint64_t index)
{
    if (index < t->memo_len && t->memo[index])
        return t->memo[index];
    uint32_t i = t->sparse ? map_get_num(t->sparse, index) : MAP_NONE;
    return i == MAP_NONE ? 0 : t->far[i];
}

static bool memo_put_sparse(struct tracer *t, uint64_t index, trace_ref r)
{
    if (!t->sparse && !(t->sparse = map_new(64)))
        return tracer_fail_memory(t);
    if (t->nfar >= MAP_NONE)
        return tracer_fail(t, CKPT_ELIMIT, "is one memo entry too many");
    if (t->nfar == t->cap_far && !tracer_grow(t, &t->far, &t->cap_far, sizeof *t->far))
        return false;
    t->far[t->nfar] = r;
    if (!map_set_num(t->sparse, index, (uint32_t)t->nfar++))
        return tracer_fail_memory(t);
    return true;
}

bool tracer_report(struct tracer *t, struct trace_step *s)
{
    s->t = &t->t;
    s->opname = pickle_op(t->op)->name; /* unknown opcodes fail before they report */
    s->opcode = t->op;
    s->protocol = t->protocol;
    s->offset = t->at;
    if (t->o->step(t->o->user, s))
        return true;
    t->status = CKPT_ECANCELLED;
    return false;
}

bool tracer_report_number(struct tracer *t, enum trace_what what, uint64_t number)
{
    struct trace_step s = {.what = what, .number = number};
    return tracer_report(t, &s);
}

bool tracer_put(struct tracer *t, uint64_t index)
{
    if (!tracer_need(t, 1))
        return false;
    trace_ref r = t->stack[t->top - 1], old = memo_find(t, index);
    if (old && old != r && !tracer_report_number(t, TRACE_STEP_MEMO, index))
        return false;
    tracer_share(r);
    t->memo_count += !old;
    uint64_t dense = t->memo_count < DENSE_MEMO / 2 ? DENSE_MEMO
                                                    : 2 * t->memo_count; /* bounded: a count of puts */
    while (index < dense && index >= t->memo_cap)
        if (!tracer_grow(t, &t->memo, &t->memo_cap, sizeof *t->memo))
            return false;
    while (index < dense && index >= t->memo_len)
        t->memo[t->memo_len++] = 0;
    if (index >= t->memo_len)
        return memo_put_sparse(t, index, r);
    t->memo[index] = r;
    return true;
}

bool tracer_get(struct tracer *t, uint64_t index)
{
    trace_ref r = memo_find(t, index);
    return r ? tracer_push(t, r)
             : fail_op(t, "reads {memo entry %" PRIu64 "}, which is not among {=those put before}", index);
}

/* parse_index - sets *OUT to the digits, without leading zeros, of the memo index that Python's int() reads
 * in S up to a NUL, where the C unpickler ends it. The digits are moved to AT, the start of S. False: not a
 * number. */
static bool parse_index(ckpt_str s, char *at, ckpt_str *out)
{
    static const char blank[] = " \t\n\v\f\r";
    size_t n = 0;
    bool digit = false, minus, zero = true;
    const char *nul = memchr(s.ptr, '\0', s.len);
    s.len = nul ? (size_t)(nul - s.ptr) : s.len;
    while (s.len && strchr(blank, s.ptr[0]))
        s = str_skip(s, 1);
    while (s.len && strchr(blank, s.ptr[s.len - 1]))
        s.len--;
    minus = s.len && s.ptr[0] == '-';
    if (minus || (s.len && s.ptr[0] == '+'))
        s = str_skip(s, 1);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool between = c == '_' && digit && i + 1 < s.len;
        if (!between && (c < '0' || c > '9'))
            return false;
        digit = !between;
        zero = zero && (between || c == '0');
    }
    digit = digit && (!minus || zero);
    for (size_t i = 0; digit && i < s.len; i++)
        if (s.ptr[i] != '_' && (n || s.ptr[i] != '0'))
            at[n++] = s.ptr[i]; /* bounded: no more than were read */
    *out = str_of(at, n);
    return digit;
}

/* get_index - sets *OUT to the memo index DIGITS. Indexes >= 2^63, which pickle.py accepts, get the numbers
 * from 2^63 on in the order of their first PUT. MAY_ADD: this is a PUT. */
static bool get_index(struct tracer *t, ckpt_str digits, bool may_add, uint64_t *out)
{
    const uint64_t first = (uint64_t)1 << 63;
    bool fits = true;
    uint32_t met;
    *out = 0;
    for (size_t i = 0; i < digits.len && fits; i++)
        fits = checked_mul(*out, 10, out) && checked_add(*out, (uint64_t)(digits.ptr[i] - '0'), out);
    if (fits && *out < first)
        return true;
    if (!t->huge && !(t->huge = map_new(16)))
        return tracer_fail_memory(t);
    met = map_get(t->huge, digits);
    if (met == MAP_NONE && may_add) {
        ckpt_str key = arena_str(t->a, digits);
        met = (uint32_t)map_count(t->huge); /* bounded: each takes more than a byte of the arena */
        if (!key.ptr || !map_put(t->huge, key, met, NULL))
            return tracer_fail_memory(t);
    }
    *out = met == MAP_NONE ? UINT64_MAX : first + met;
    return true;
}

bool tracer_memo_line(struct tracer *t)
{
    struct tracer_text l = {.at = t->line, .cap = t->cap_line, .grows = true};
    ckpt_str digits;
    uint64_t index;
    bool ok = read_line(t, &l);
    t->line = l.at;
    t->cap_line = l.cap;
    if (!ok)
        return false;
    ckpt_str text = str_of(l.n ? l.at : "", l.n);
    if (!parse_index(text, l.at, &digits))
        return fail_op(t, "has {'%.*s'} where {=the number of a memo entry} belongs",
                       text.len > 64 ? 64 : (int)text.len, text.ptr);
    return get_index(t, digits, t->op == PICKLE_PUT, &index) &&
           (t->op == PICKLE_GET ? tracer_get(t, index) : tracer_put(t, index));
}
