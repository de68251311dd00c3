/* reader.c - see reader.h. The window starts small and grows while reads
 * are consecutive, so that skipping over data costs little. */
#include "io/reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"

#define FIRST_READ 4096u

ckpt_status reader_init(reader *r, source *src, uint64_t pos, uint64_t end, ckpt_error *err)
{
    *r = (reader){.src = src, .pos = pos, .end = end, .err = err};
    if (pos > end || end > src->size) {
        r->status = src->size ? fail(err, CKPT_ETRUNCATED, source_pos(src, pos),
                                     "needs {=bytes %" PRIu64 " to %" PRIu64 "}, has {%" PRIu64 " bytes}",
                                     pos, end, src->size)
                              : fail(err, CKPT_ETRUNCATED, source_pos(src, 0), "the file is {empty}");
        return r->status;
    }
    uint64_t all = end - pos;
    r->win = malloc(all < READER_WINDOW ? (size_t)all + 1 : READER_WINDOW);
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

/* count_in_window - returns the number of bytes in the window from r->pos on. */
static size_t count_in_window(const reader *r)
{
    uint64_t win_offset = r->pos - r->win_pos;
    return r->pos >= r->win_pos && win_offset < r->win_len ? r->win_len - (size_t)win_offset : 0;
}

/* require_bytes - latches a failure unless N bytes are left. */
static bool require_bytes(reader *r, uint64_t n)
{
    if (r->status != CKPT_OK)
        return false;
    if (n <= r->end - r->pos)
        return true;
    r->status = fail(r->err, CKPT_ETRUNCATED, source_pos(r->src, r->pos),
                     "needs {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", n, r->end - r->pos);
    return false;
}

static size_t choose_fill_size(const reader *r, size_t n)
{
    bool is_consecutive = r->win_len && r->pos >= r->win_pos && r->pos - r->win_pos <= r->win_len;
    size_t size = is_consecutive ? 4 * r->win_len : FIRST_READ;
    if (size < n)
        size = n;
    if (size > READER_WINDOW)
        size = READER_WINDOW;
    return size < r->end - r->pos ? size : (size_t)(r->end - r->pos);
}

/* fill_window - reads the N bytes at r->pos, which must exist, into the window. */
static bool fill_window(reader *r, size_t n)
{
    if (count_in_window(r) >= n)
        return true;
    size_t size = choose_fill_size(r, n);
    r->status = source_read(r->src, r->pos, r->win, size, r->err);
    r->win_pos = r->pos;
    r->win_len = r->status == CKPT_OK ? size : 0;
    return r->status == CKPT_OK;
}

const unsigned char *reader_peek(reader *r, size_t n)
{
    if (!require_bytes(r, n))
        return NULL;
    if (n > READER_WINDOW) {
        r->status = fail(r->err, CKPT_EUSAGE, source_pos(r->src, r->pos), "%zu bytes are more than a window",
                         n);
        return NULL;
    }
    if (n == 0)
        return r->win;
    return fill_window(r, n) ? r->win + (r->pos - r->win_pos) : NULL;
}

const unsigned char *reader_take(reader *r, size_t n)
{
    const unsigned char *at = reader_peek(r, n);
    if (at)
        r->pos += n;
    return at;
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

#define VARINT_MAX 10u /* bytes */

bool reader_varint(reader *r, uint64_t *v)
{
    size_t n = reader_left(r) < VARINT_MAX ? (size_t)reader_left(r) : VARINT_MAX;
    const unsigned char *p = reader_peek(r, n);
    cursor c = cursor_of(p, p ? n : 0, 0);
    *v = cursor_varint(&c);
    if (c.bad && n < VARINT_MAX)
        (void)reader_take(r, n + 1); /* N < VARINT_MAX; latches that a byte is missing */
    return !c.bad && reader_skip(r, n - c.left);
}

bool reader_skip(reader *r, uint64_t n)
{
    if (!require_bytes(r, n))
        return false;
    r->pos += n;
    return true;
}
