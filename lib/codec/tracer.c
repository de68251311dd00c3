/* tracer.c - see tracer.h. What grows while a pickle is followed (stack, marks,
 * memo) is malloc'ed and may take as much as the limit of the trace says. */
#include "codec/tracer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "codec/pickle_ops.h"

#define DENSE_MEMO 1024u /* indexes below this, or below twice the puts so far, are an array */

#define bad(t, ...) tracer_stop(t, CKPT_EFORMAT, __VA_ARGS__)

/* ------------------------------------------------------------------ failing */

bool tracer_stop(struct tracer *t, ckpt_status status, const char *fmt, ...)
{
    const struct pickle_op *op = pickle_op(t->op);
    va_list args;
    va_start(args, fmt);
    t->status = fail_v(t->err, status, source_pos(t->r.src, t->at), fmt, args);
    va_end(args);
    if (op)
        fail_begin(t->err, op->name);
    return false;
}

bool tracer_memory(struct tracer *t)
{
    if (arena_full(t->a))
        return tracer_stop(t, CKPT_ELIMIT, "needs more memory than a pickle of its size may take");
    t->status = fail_memory(t->err);
    return false;
}

bool tracer_underflow(struct tracer *t, size_t n)
{
    return bad(t, "takes {=%zu values} from the stack, where {%zu} are", n, t->top - t->fence);
}

bool tracer_grow(struct tracer *t, void *array, size_t *cap, size_t size)
{
    void *old;
    uint64_t more = *cap ? 2 * (uint64_t)*cap : 256, bytes;
    size_t n;
    memcpy(&old, array, sizeof old);
    if (!checked_mul(more, size, &bytes) || !checked_size(bytes, &n) || bytes > t->max_memory)
        return tracer_stop(t, CKPT_ELIMIT, "needs more memory than a pickle of its size may take");
    void *at = realloc(old, n);
    if (!at) {
        t->status = fail_memory(t->err);
        return false;
    }
    memcpy(array, &at, sizeof at);
    *cap = (size_t)more;
    return true;
}

/* ------------------------------------------------------------------ reading */

static bool truncated(struct tracer *t, uint64_t n)
{
    return tracer_stop(t, CKPT_ETRUNCATED, "needs {=%" PRIu64 " more bytes}, {%" PRIu64 "} are left", n,
                       left(t));
}

/* seek - to POS, which is not behind the end. */
void tracer_seek(struct tracer *t, uint64_t pos)
{
    uint64_t now = here(t);
    if (pos - now <= (uint64_t)(t->lim - t->p)) { /* bounded: it goes only forward */
        t->p += pos - now;
        return;
    }
    t->p = t->lim;
    t->lim_pos = pos;
}

/* fill - at least N <= READER_WINDOW bytes into the window. */
bool tracer_fill(struct tracer *t, size_t n)
{
    uint64_t pos = here(t), rest = t->r.end - pos;
    if (n > rest)
        return truncated(t, n);
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

/* cross - framed: N bytes are wanted; what the buffer lacks is read behind it. */
bool tracer_cross(struct tracer *t, uint64_t n)
{
    uint64_t pos = here(t);
    if (n <= t->buffer - pos)
        return true;
    if (n > t->r.end - t->buffer)
        return truncated(t, n);
    t->jumped = t->jumped || t->buffer > pos;
    tracer_seek(t, t->buffer);
    t->buffer += n; /* bounded: inside the source, by the line above */
    return true;
}

/* skip - N bytes of text; BYTES: a loader reads them in one go wherever they lie. */
bool tracer_skip(struct tracer *t, uint64_t n, bool bytes)
{
    if (t->o->framed && !bytes && !tracer_cross(t, n))
        return false;
    if (n > left(t))
        return truncated(t, n);
    if (n <= (size_t)(t->lim - t->p)) {
        t->p += n;
    } else {
        t->lim_pos = here(t) + n; /* bounded: n are left */
        t->p = t->lim;
    }
    if (t->o->framed && here(t) > t->buffer)
        t->buffer = here(t);
    return true;
}

/* newline - how many bytes up to and with the next newline before END; 0: none. Into
 * COPY as many as fit. */
static bool newline(struct tracer *t, uint64_t end, char *copy, size_t *ncopy, uint64_t *n)
{
    *n = 0;
    if (ncopy)
        *ncopy = 0;
    while (here(t) < end) {
        if (t->p == t->lim && !tracer_fill(t, 1))
            return false;
        uint64_t room = end - here(t);
        size_t have = (size_t)(t->lim - t->p);
        have = have < room ? have : (size_t)room;
        const unsigned char *nl = memchr(t->p, '\n', have);
        size_t part = nl ? (size_t)(nl - t->p) : have;
        if (copy) {
            size_t fits = LONGEST_NAME - *ncopy < part ? LONGEST_NAME - *ncopy : part;
            memcpy(copy + *ncopy, t->p, fits);
            *ncopy += fits;
        }
        t->p += part;
        *n += part; /* bounded: no more than the source has */
        if (nl) {
            t->p++;
            ++*n;
            return true;
        }
    }
    *n = 0;
    return true;
}

/* line - one of text, without its newline, into COPY (LONGEST_NAME bytes, may be NULL). */
bool tracer_line(struct tracer *t, char *copy, size_t *ncopy)
{
    uint64_t n;
    if (t->o->framed && t->buffer > here(t)) {
        if (!newline(t, t->buffer, copy, ncopy, &n))
            return false;
        if (n)
            return true;
        t->jumped = true;
        if (ncopy)
            *ncopy = 0;
    }
    if (!newline(t, t->r.end, copy, ncopy, &n))
        return false;
    if (t->o->framed)
        t->buffer = here(t);
    if (n == 0)
        return tracer_stop(t, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    return true;
}

/* ----------------------------------------------------------- stack and memo */

bool tracer_mark(struct tracer *t)
{
    if (t->nmarks == t->cap_marks && !tracer_grow(t, &t->marks, &t->cap_marks, sizeof *t->marks))
        return false;
    t->marks[t->nmarks++] = t->fence = t->top;
    return true;
}

bool tracer_unmark(struct tracer *t, size_t *from)
{
    if (t->nmarks == 0)
        return bad(t, "goes back to {=a MARK}, and {none} is on the stack");
    *from = t->marks[--t->nmarks];
    t->fence = t->nmarks ? t->marks[t->nmarks - 1] : 0;
    return true;
}

static trace_ref memo_at(const struct tracer *t, uint64_t index)
{
    if (index < t->memo_len && t->memo[index])
        return t->memo[index];
    uint32_t i = t->sparse ? map_get_num(t->sparse, index) : MAP_NONE;
    return i == MAP_NONE ? 0 : t->far[i];
}

static bool memo_far(struct tracer *t, uint64_t index, trace_ref r)
{
    if (!t->sparse && !(t->sparse = map_new(64)))
        return tracer_memory(t);
    if (t->nfar >= MAP_NONE)
        return tracer_stop(t, CKPT_ELIMIT, "is one memo entry too many");
    if (t->nfar == t->cap_far && !tracer_grow(t, &t->far, &t->cap_far, sizeof *t->far))
        return false;
    t->far[t->nfar] = r;
    if (!map_set_num(t->sparse, index, (uint32_t)t->nfar++))
        return tracer_memory(t);
    return true;
}

bool tracer_tell(struct tracer *t, struct trace_step *s)
{
    s->t = &t->t;
    s->opname = pickle_op(t->op)->name; /* others are refused before they tell */
    s->opcode = t->op;
    s->protocol = t->protocol;
    s->offset = t->at;
    if (t->o->step(t->o->user, s))
        return true;
    t->status = CKPT_ECANCELLED;
    return false;
}

bool tracer_note(struct tracer *t, enum trace_what what, uint64_t number)
{
    struct trace_step s = {.what = what, .number = number};
    return tracer_tell(t, &s);
}

bool tracer_put(struct tracer *t, uint64_t index)
{
    if (!need(t, 1))
        return false;
    trace_ref r = t->stack[t->top - 1], old = memo_at(t, index);
    if (old && old != r && !tracer_note(t, TRACE_STEP_MEMO, index))
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
        return memo_far(t, index, r);
    t->memo[index] = r;
    return true;
}

bool tracer_get(struct tracer *t, uint64_t index)
{
    trace_ref r = memo_at(t, index);
    return r ? push(t, r) : bad(t, "asks for {memo entry %" PRIu64 "}, not among {=those put before}", index);
}

/* index_of - a memo entry's number as int() of Python reads it, up to a NUL, where the C unpickler
 * takes the line to end. */
static bool index_of(ckpt_str s, uint64_t *out)
{
    static const char blank[] = " \t\n\v\f\r";
    uint64_t v = 0;
    bool digit = false, minus;
    const char *nul = memchr(s.ptr, '\0', s.len);
    s.len = nul ? (size_t)(nul - s.ptr) : s.len;
    while (s.len && strchr(blank, s.ptr[0]) && s.ptr[0])
        s = str_skip(s, 1);
    while (s.len && strchr(blank, s.ptr[s.len - 1]) && s.ptr[s.len - 1])
        s.len--;
    minus = s.len && s.ptr[0] == '-';
    if (minus || (s.len && s.ptr[0] == '+'))
        s = str_skip(s, 1);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '_' && digit && i + 1 < s.len) {
            digit = false;
            continue;
        }
        if (c < '0' || c > '9' || !checked_mul(v, 10, &v) || !checked_add(v, (uint64_t)(c - '0'), &v))
            return false;
        digit = true;
    }
    *out = v;
    return digit && (!minus || v == 0);
}

bool tracer_memo_line(struct tracer *t)
{
    char text[LONGEST_NAME];
    size_t n;
    uint64_t index;
    if (!tracer_line(t, text, &n))
        return false;
    if (!index_of(str_of(text, n), &index))
        return bad(t, "has {'%.*s'} where {=the number of a memo entry} belongs", STR_ARG(str_of(text, n)));
    return t->op == PICKLE_GET ? tracer_get(t, index) : tracer_put(t, index);
}
