/* reader.c - see reader.h. The window starts small and grows while reads
 * are consecutive, so that skipping over data costs little. */
#include "io/reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"

#define FIRST_READ 4096u

ckpt_status reader_init(reader *in, source *src, uint64_t pos, uint64_t end, ckpt_error *err)
{
    *in = (reader){.src = src, .pos = pos, .end = end, .err = err};
    if (pos > end || end > src->size) {
        in->status = src->size ? fail(err, CKPT_ETRUNCATED, source_pos(src, pos),
                                      "needs {=bytes %" PRIu64 " to %" PRIu64 "}, has {%" PRIu64 " bytes}",
                                      pos, end, src->size)
                               : fail(err, CKPT_ETRUNCATED, source_pos(src, 0), "the file is {empty}");
        return in->status;
    }
    uint64_t all = end - pos;
    in->win = malloc(all < READER_WINDOW ? (size_t)all + 1 : READER_WINDOW);
    if (!in->win)
        in->status = fail_memory(err);
    return in->status;
}

void reader_free(reader *in)
{
    free(in->win);
    in->win = NULL;
    in->win_len = 0;
}

/* require_bytes - latches a failure unless COUNT bytes are left. */
static bool require_bytes(reader *in, uint64_t count)
{
    if (in->status != CKPT_OK)
        return false;
    if (count <= in->end - in->pos)
        return true;
    in->status = fail(in->err, CKPT_ETRUNCATED, source_pos(in->src, in->pos),
                      "needs {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", count, in->end - in->pos);
    return false;
}

static size_t choose_fill_size(const reader *in, size_t count)
{
    bool is_consecutive = in->win_len && in->pos >= in->win_pos && in->pos - in->win_pos <= in->win_len;
    size_t size = is_consecutive ? 4 * in->win_len : FIRST_READ;
    if (size < count)
        size = count;
    if (size > READER_WINDOW)
        size = READER_WINDOW;
    return size < in->end - in->pos ? size : (size_t)(in->end - in->pos);
}

const unsigned char *reader_fill(reader *in, size_t count)
{
    if (!require_bytes(in, count))
        return NULL;
    if (count > READER_WINDOW) {
        in->status = fail(in->err, CKPT_EUSAGE, source_pos(in->src, in->pos),
                          "%zu bytes are more than a window", count);
        return NULL;
    }
    if (count == 0)
        return in->win;
    size_t size = choose_fill_size(in, count);
    in->status = source_read(in->src, in->pos, in->win, size, in->err);
    in->win_pos = in->pos;
    in->win_len = in->status == CKPT_OK ? size : 0;
    return in->status == CKPT_OK ? in->win : NULL;
}

uint32_t reader_u32(reader *in)
{
    const unsigned char *b = reader_take(in, 4);
    return b ? load_u32le(b) : 0;
}

uint64_t reader_u64(reader *in)
{
    const unsigned char *b = reader_take(in, 8);
    return b ? load_u64le(b) : 0;
}

#define VARINT_MAX 10u /* bytes */

bool reader_varint(reader *in, uint64_t *numbers)
{
    size_t n = reader_left(in) < VARINT_MAX ? (size_t)reader_left(in) : VARINT_MAX;
    const unsigned char *p = reader_peek(in, n);
    cursor c = cursor_of(p, p ? n : 0, 0);
    *numbers = cursor_varint(&c);
    if (c.bad && n < VARINT_MAX)
        (void)reader_take(in, n + 1); /* N < VARINT_MAX; latches that a byte is missing */
    return !c.bad && reader_skip(in, n - c.left);
}

bool reader_skip(reader *in, uint64_t count)
{
    if (!require_bytes(in, count))
        return false;
    in->pos += count;
    return true;
}
