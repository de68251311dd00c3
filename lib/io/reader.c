/* reader.c - see reader.h. The window begins small and doubles while reading
 * goes on where it stopped, so that hopping over data costs little. */
#include "io/reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"

#define FIRST_FILL 4096u

ckpt_status reader_init(reader *r, source *src, uint64_t pos, uint64_t end, ckpt_error *err)
{
    *r = (reader){.src = src, .pos = pos, .end = end, .err = err};
    if (pos > end || end > src->size) {
        r->status = fail(err, CKPT_ETRUNCATED, source_pos(src, pos),
                         "bytes up to %" PRIu64 " are needed, there are %" PRIu64, end, src->size);
        return r->status;
    }
    r->win = malloc(READER_WINDOW);
    if (!r->win)
        r->status = fail_memory(err);
    return r->status;
}

void reader_free(reader *r)
{
    free(r->win);
    r->win = NULL;
    r->win_len = 0;
}

/* in_window - bytes of the window from r->pos on. */
static size_t in_window(const reader *r)
{
    uint64_t into = r->pos - r->win_pos;
    return r->pos >= r->win_pos && into < r->win_len ? r->win_len - (size_t)into : 0;
}

/* enough - latches a failure unless N bytes are left. */
static bool enough(reader *r, uint64_t n)
{
    if (r->status != CKPT_OK)
        return false;
    if (n <= r->end - r->pos)
        return true;
    r->status = fail(r->err, CKPT_ETRUNCATED, source_pos(r->src, r->pos),
                     "needs %" PRIu64 " bytes, %" PRIu64 " are left", n, r->end - r->pos);
    return false;
}

static size_t fill_size(const reader *r, size_t n)
{
    bool onward = r->win_len && r->pos >= r->win_pos && r->pos - r->win_pos <= r->win_len;
    size_t size = onward ? 2 * r->win_len : FIRST_FILL;
    if (size < n)
        size = n;
    if (size > READER_WINDOW)
        size = READER_WINDOW;
    return size < r->end - r->pos ? size : (size_t)(r->end - r->pos);
}

/* fill - brings N bytes at r->pos, which exist, into the window. */
static bool fill(reader *r, size_t n)
{
    if (in_window(r) >= n)
        return true;
    size_t size = fill_size(r, n);
    r->status = source_read(r->src, r->pos, r->win, size, r->err);
    r->win_pos = r->pos;
    r->win_len = r->status == CKPT_OK ? size : 0;
    return r->status == CKPT_OK;
}

const unsigned char *reader_peek(reader *r, size_t n)
{
    if (!enough(r, n))
        return NULL;
    if (n > READER_WINDOW) {
        r->status = fail(r->err, CKPT_EUSAGE, source_pos(r->src, r->pos), "%zu bytes are more than a window",
                         n);
        return NULL;
    }
    if (n == 0)
        return r->win;
    return fill(r, n) ? r->win + (r->pos - r->win_pos) : NULL;
}

const unsigned char *reader_take(reader *r, size_t n)
{
    const unsigned char *at = reader_peek(r, n);
    if (at)
        r->pos += n;
    return at;
}

uint8_t reader_u8(reader *r)
{
    const unsigned char *b = reader_take(r, 1);
    return b ? b[0] : 0;
}

uint16_t reader_u16(reader *r)
{
    const unsigned char *b = reader_take(r, 2);
    return b ? load_u16le(b) : 0;
}

uint32_t reader_u32(reader *r)
{
    const unsigned char *b = reader_take(r, 4);
    return b ? load_u32le(b) : 0;
}

uint64_t reader_u64(reader *r)
{
    const unsigned char *b = reader_take(r, 8);
    return b ? load_u64le(b) : 0;
}

static ckpt_str no_line(reader *r, size_t looked)
{
    bool ended = looked == r->end - r->pos;
    r->status = fail(r->err, ended ? CKPT_ETRUNCATED : CKPT_EFORMAT, source_pos(r->src, r->pos),
                     ended ? "a line begins here, but no newline follows in the %zu bytes that are left"
                           : "a line begins here, but its first %zu bytes hold no newline",
                     looked);
    return (ckpt_str){NULL, 0};
}

ckpt_str reader_line(reader *r, size_t max)
{
    if (max > READER_WINDOW - 1)
        max = READER_WINDOW - 1;
    if (r->status != CKPT_OK)
        return (ckpt_str){NULL, 0};
    size_t most = max + 1 < r->end - r->pos ? max + 1 : (size_t)(r->end - r->pos);
    /* First what is there already: lines are short. */
    size_t have = in_window(r) < most ? in_window(r) : most;
    for (;;) {
        const unsigned char *at = have ? reader_peek(r, have) : NULL;
        const unsigned char *nl = at ? memchr(at, '\n', have) : NULL;
        if (nl) {
            r->pos += (uint64_t)(nl - at) + 1;
            return str_of((const char *)at, (size_t)(nl - at));
        }
        if (r->status != CKPT_OK)
            return (ckpt_str){NULL, 0};
        if (have == most)
            return no_line(r, most);
        have = most;
    }
}

bool reader_copy(reader *r, void *out, uint64_t n)
{
    size_t size, part;
    if (!enough(r, n))
        return false;
    if (!checked_size(n, &size)) {
        r->status = fail_memory(r->err);
        return false;
    }
    part = in_window(r) < size ? in_window(r) : size;
    if (part)
        memcpy(out, r->win + (r->pos - r->win_pos), part);
    r->pos += part;
    size -= part;
    if (size == 0)
        return true;
    if (size < READER_WINDOW / 4) {
        if (!fill(r, size))
            return false;
        memcpy((char *)out + part, r->win + (r->pos - r->win_pos), size);
    } else {
        r->status = source_read(r->src, r->pos, (char *)out + part, size, r->err);
    }
    if (r->status == CKPT_OK)
        r->pos += size;
    return r->status == CKPT_OK;
}

bool reader_skip(reader *r, uint64_t n)
{
    if (!enough(r, n))
        return false;
    r->pos += n;
    return true;
}
