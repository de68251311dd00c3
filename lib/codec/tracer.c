/* tracer.c - see tracer.h. */
#include "codec/tracer.h"

#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_show.h"
#include "codec/pickle_text.h"

bool tracer_ensure_buffered(struct tracer *tracer, uint64_t count)
{
    uint64_t pos = unpickler_offset(&tracer->u);
    if (count <= tracer->buffer_end - pos)
        return true;
    if (count > tracer->u.r.end - tracer->buffer_end)
        return unpickler_fail_truncated(&tracer->u, count);
    tracer->argument_after_buffer = tracer->argument_after_buffer || tracer->buffer_end > pos;
    unpickler_seek(&tracer->u, tracer->buffer_end);
    tracer->buffer_end += count; /* compared with the bytes after the buffer */
    return true;
}

bool tracer_skip(struct tracer *tracer, uint64_t count, bool crosses_frames)
{
    if (tracer->options->buffer_frames && !crosses_frames && !tracer_ensure_buffered(tracer, count))
        return false;
    if (!unpickler_skip(&tracer->u, count))
        return false;
    if (tracer->options->buffer_frames && unpickler_offset(&tracer->u) > tracer->buffer_end)
        tracer->buffer_end = unpickler_offset(&tracer->u);
    return true;
}

/* The bytes of a line: those that fit, or all if the buffer can grow. */
struct line_buffer {
    char *bytes;
    size_t n, cap;
    bool can_grow; /* bytes is from malloc */
};

static bool append_to_line(struct tracer *tracer, struct line_buffer *buffer, size_t count)
{
    while (buffer->can_grow && buffer->cap - buffer->n < count)
        if (!unpickler_grow(&tracer->u, &buffer->bytes, &buffer->cap, 1))
            return false;
    size_t fits = buffer->cap - buffer->n < count ? buffer->cap - buffer->n : count;
    if (fits)
        memcpy(buffer->bytes + buffer->n, tracer->u.p, fits);
    buffer->n += fits;
    return true;
}

/* read_to_newline - reads into BUFFER the bytes before the next newline, which is skipped, or before END.
 * Sets *COUNT to their number, even if not all fit in BUFFER, and *FOUND to whether there was a newline. */
static bool read_to_newline(struct tracer *tracer, uint64_t end, struct line_buffer *buffer, uint64_t *count,
                            bool *found)
{
    *count = buffer->n = 0;
    *found = false;
    while (unpickler_offset(&tracer->u) < end && !*found) {
        if (tracer->u.p == tracer->u.lim && !unpickler_fill(&tracer->u, 1))
            return false;
        uint64_t left = end - unpickler_offset(&tracer->u);
        size_t available = (size_t)(tracer->u.lim - tracer->u.p);
        available = available < left ? available : (size_t)left;
        const unsigned char *nl = memchr(tracer->u.p, '\n', available);
        size_t chunk_len = nl ? (size_t)(nl - tracer->u.p) : available;
        if (!append_to_line(tracer, buffer, chunk_len))
            return false;
        tracer->u.p += chunk_len;
        *count += chunk_len;
        *found = nl != NULL;
        tracer->u.p += *found;
    }
    return true;
}

/* read_line - reads the next line into BUFFER. If the source ends before a newline, pickle.py drops the last
 * byte as if it were the newline; C unpicklers refuse the line. */
static bool read_line(struct tracer *tracer, struct line_buffer *buffer)
{
    uint64_t n;
    bool found;
    if (tracer->options->buffer_frames && tracer->buffer_end > unpickler_offset(&tracer->u)) {
        if (!read_to_newline(tracer, tracer->buffer_end, buffer, &n, &found))
            return false;
        if (found)
            return true;
        tracer->argument_after_buffer = true;
    }
    if (!read_to_newline(tracer, tracer->u.r.end, buffer, &n, &found))
        return false;
    if (tracer->options->buffer_frames)
        tracer->buffer_end = unpickler_offset(&tracer->u);
    if (!found && (tracer->options->buffer_frames || n == 0))
        return unpickler_fail(&tracer->u, CKPT_ETRUNCATED, "needs a line; {no newline} follows");
    if (!found && buffer->n == n)
        buffer->n--;
    return true;
}

bool tracer_read_line(struct tracer *tracer, char *copy, size_t *ncopy)
{
    struct line_buffer l = {.bytes = copy, .cap = copy ? LONGEST_NAME : 0};
    bool ok = read_line(tracer, &l);
    if (ncopy)
        *ncopy = l.n < LONGEST_NAME ? l.n : utf8_complete_length(copy, l.n);
    return ok;
}

bool tracer_read_text(struct tracer *tracer, trace_ref ref, char *out, size_t cap, size_t *count)
{
    ckpt_status st = pickle_copy_text(tracer->u.r.src, ref, out, cap, count, tracer->u.err);
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        tracer->u.status = st;
    return st == CKPT_OK;
}

bool tracer_report(struct tracer *tracer, struct trace_step *step)
{
    step->t = &tracer->t;
    step->opname = pickle_op(tracer->u.op)->name; /* unknown opcodes fail before they report */
    step->opcode = tracer->u.op;
    step->protocol = tracer->u.protocol;
    step->offset = tracer->u.at;
    if (tracer->options->step(tracer->options->user, step))
        return true;
    tracer->u.status = CKPT_ECANCELLED;
    return false;
}

bool tracer_report_number(struct tracer *tracer, enum trace_what what, uint64_t number)
{
    struct trace_step s = {.what = what, .number = number};
    return tracer_report(tracer, &s);
}

bool tracer_put_memo(struct tracer *tracer, uint64_t index)
{
    if (!unpickler_need(&tracer->u, 1))
        return false;
    trace_ref r = tracer->stack[tracer->u.top - 1], old = unpickler_find_memo(&tracer->u, index);
    if (old && old != r && !tracer_report_number(tracer, TRACE_STEP_MEMO, index))
        return false;
    tracer_mark_shared(r);
    return unpickler_put_memo(&tracer->u, index, r);
}

bool tracer_get_memo(struct tracer *tracer, uint64_t index)
{
    return tracer_push(tracer, unpickler_get_memo(&tracer->u, index));
}

/* parse_index - sets *OUT to the digits, without leading zeros, of the memo index that Python's int() reads
 * in TEXT. Only the bytes before a NUL count, as in the C unpickler. The digits are moved to LINE, where TEXT
 * begins. False: TEXT is no number, or a negative one. */
static bool parse_index(ckpt_str text, char *line, ckpt_str *out)
{
    size_t n = 0;
    bool ends_with_digit = false, is_negative, is_zero = true;
    const char *nul = memchr(text.ptr, '\0', text.len);
    text.len = nul ? (size_t)(nul - text.ptr) : text.len;
    text = pickle_text_trim(text);
    is_negative = text.len && text.ptr[0] == '-';
    if (is_negative || (text.len && text.ptr[0] == '+'))
        text = str_skip(text, 1);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_separator = c == '_' && ends_with_digit && i + 1 < text.len;
        if (!is_separator && (c < '0' || c > '9'))
            return false;
        ends_with_digit = !is_separator;
        is_zero = is_zero && (is_separator || c == '0');
    }
    bool is_index = ends_with_digit && (!is_negative || is_zero);
    for (size_t i = 0; is_index && i < text.len; i++)
        if (text.ptr[i] != '_' && (n || text.ptr[i] != '0'))
            line[n++] = text.ptr[i];
    *out = str_of(line, n);
    return is_index;
}

/* get_index - sets *OUT to the memo index DIGITS. Indexes >= 2^63, which pickle.py accepts, get the numbers
 * from 2^63 on, in the order of their first PUT; UINT64_MAX: there was no PUT. IS_PUT: the current opcode is
 * one. */
static bool get_index(struct tracer *tracer, ckpt_str digits, bool is_put, uint64_t *out)
{
    const uint64_t first = (uint64_t)1 << 63;
    bool fits = true;
    uint32_t number;
    *out = 0;
    for (size_t i = 0; i < digits.len && fits; i++)
        fits = checked_mul(*out, 10, out) && checked_add(*out, (uint64_t)(digits.ptr[i] - '0'), out);
    if (fits && *out < first)
        return true;
    if (!tracer->huge_indexes && !(tracer->huge_indexes = map_new(16)))
        return unpickler_fail_memory(&tracer->u);
    number = map_get(tracer->huge_indexes, digits);
    if (number == MAP_NONE && is_put) {
        ckpt_str key = arena_str(tracer->u.a, digits);
        number = (uint32_t)map_count(tracer->huge_indexes); /* each takes more than a byte of the arena */
        if (!key.ptr || !map_put(tracer->huge_indexes, key, number, NULL))
            return unpickler_fail_memory(&tracer->u);
    }
    *out = number == MAP_NONE ? UINT64_MAX : first + number;
    return true;
}

bool tracer_run_memo_line(struct tracer *tracer)
{
    struct line_buffer l = {.bytes = tracer->line, .cap = tracer->cap_line, .can_grow = true};
    ckpt_str digits;
    uint64_t index;
    bool ok = read_line(tracer, &l);
    tracer->line = l.bytes;
    tracer->cap_line = l.cap;
    if (!ok)
        return false;
    ckpt_str text = str_of(l.n ? l.bytes : "", l.n);
    if (!parse_index(text, l.bytes, &digits))
        return fail_op(tracer, "has {'%.*s'} where {=the number of a memo entry} belongs",
                       text.len > 64 ? 64 : (int)text.len, text.ptr);
    return get_index(tracer, digits, tracer->u.op == PICKLE_PUT, &index) &&
           (tracer->u.op == PICKLE_GET ? tracer_get_memo(tracer, index) : tracer_put_memo(tracer, index));
}
