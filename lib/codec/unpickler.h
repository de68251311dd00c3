/* unpickler.h - the window over the stream, the MARKs on the stack and the memo, for the readers of pickles:
 * pickle_machine.h, which builds a value graph, tracer.h, which follows what loaders do, and
 * format/distributed/dcp_metadata, which keeps a word for each value. Functions that return false, NULL or 0
 * have set status and error. */
#pragma once

#include "base/map.h"
#include "io/reader.h"

struct unpickler {
    const unsigned char *p, *lim; /* first unread byte of the window, and its end */
    uint64_t lim_pos;             /* offset of lim in the source */
    uint64_t start;               /* offset of the pickle */
    uint64_t at;                  /* offset of the current opcode */
    uint8_t op, protocol;
    size_t top;   /* number of items on the stack, which is an array of the reader */
    size_t fence; /* number of items below the last mark, which opcodes must not use */
    size_t *marks, nmarks, cap_marks;
    uint64_t *memo; /* entries by index; 0: no entry */
    size_t memo_len, memo_cap;
    uint64_t memo_count; /* number of entries in memo and sparse_memo */
    map *sparse_index;   /* an index much larger than memo_count -> its place in sparse_memo */
    uint64_t *sparse_memo;
    size_t nsparse, cap_sparse;
    size_t window_size;   /* bytes of the next window */
    uint64_t memory_left; /* bytes that unpickler_grow may still allocate */
    reader r;
    arena *a;
    ckpt_status status;
    ckpt_error *err;
};

ckpt_status unpickler_init(struct unpickler *unpickler, arena *a, source *src, uint64_t pos, uint64_t end,
                           ckpt_error *err);
/* unpickler_free - frees what UNPICKLER allocated, but not its arena. */
void unpickler_free(struct unpickler *unpickler);

/* unpickler_fail - fails with a message that begins with the name of the current opcode. */
bool unpickler_fail(struct unpickler *unpickler, ckpt_status status, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* fail_op - fails because the pickle is malformed; READER has the struct unpickler `u`. */
#define fail_op(reader, ...) unpickler_fail(&(reader)->u, CKPT_EFORMAT, __VA_ARGS__)
bool unpickler_fail_memory(struct unpickler *unpickler);
/* unpickler_fail_underflow - fails because the opcode needs COUNT items above the last mark. */
bool unpickler_fail_underflow(struct unpickler *unpickler, size_t count);
/* unpickler_fail_truncated - fails because the opcode needs COUNT more bytes. */
bool unpickler_fail_truncated(struct unpickler *unpickler, uint64_t count);
/* unpickler_fail_pairs - fails because COUNT items, an odd number, are above the last mark. */
bool unpickler_fail_pairs(struct unpickler *unpickler, size_t count);
/* unpickler_fail_length - fails because the opcode's length COUNT is negative. */
bool unpickler_fail_length(struct unpickler *unpickler, int32_t count);
/* unpickler_fail_opcode - fails because the current byte is not an opcode. */
bool unpickler_fail_opcode(struct unpickler *unpickler);

/* unpickler_grow - doubles *CAP, the capacity of an array from malloc with elements of SIZE bytes. ARRAY is
 * the address of the pointer to it. */
bool unpickler_grow(struct unpickler *unpickler, void *array, size_t *cap, size_t size);
/* unpickler_estimate_items - returns how many items of EACH bytes could still follow in the pickle. Lists are
 * allocated for so many items at once: a list that grows is copied, while memory that is not used costs
 * nothing. */
size_t unpickler_estimate_items(const struct unpickler *unpickler, unsigned each);
/* unpickler_fill - reads on until the window has at least COUNT <= READER_WINDOW bytes. */
bool unpickler_fill(struct unpickler *unpickler, size_t count);
void unpickler_seek(struct unpickler *unpickler, uint64_t pos);
bool unpickler_skip(struct unpickler *unpickler, uint64_t count);
bool unpickler_push_mark(struct unpickler *unpickler);
/* unpickler_pop_mark - removes the last mark, and sets *FROM to the stack index of the first item above. */
bool unpickler_pop_mark(struct unpickler *unpickler, size_t *from);
/* unpickler_set_protocol - checks the argument of PROTO. */
bool unpickler_set_protocol(struct unpickler *unpickler, uint8_t protocol);

/* unpickler_find_memo - returns the memo entry INDEX; 0: there is none, which is not a failure. */
uint64_t unpickler_find_memo(const struct unpickler *unpickler, uint64_t index);
/* unpickler_get_memo - returns the memo entry INDEX; fails if there is none. */
uint64_t unpickler_get_memo(struct unpickler *unpickler, uint64_t index);
bool unpickler_put_memo_slow(struct unpickler *unpickler, uint64_t index, uint64_t entry);

static inline uint64_t unpickler_offset(const struct unpickler *unpickler)
{
    return unpickler->lim_pos - (uint64_t)(unpickler->lim - unpickler->p);
}
static inline uint64_t unpickler_bytes_left(const struct unpickler *unpickler)
{
    return unpickler->r.end - unpickler_offset(unpickler);
}
/* unpickler_take - returns the next COUNT <= READER_WINDOW bytes, valid until the next call, or NULL. */
static inline const unsigned char *unpickler_take(struct unpickler *unpickler, size_t count)
{
    if ((size_t)(unpickler->lim - unpickler->p) < count && !unpickler_fill(unpickler, count))
        return NULL;
    unpickler->p += count;
    return unpickler->p - count;
}
/* unpickler_need - fails unless there are at least COUNT items above the last mark. */
static inline bool unpickler_need(struct unpickler *unpickler, size_t count)
{
    return unpickler->top - unpickler->fence >= count || unpickler_fail_underflow(unpickler, count);
}
/* unpickler_put_memo - sets the memo entry INDEX; the common case, that INDEX is the next, is inline. */
static inline bool unpickler_put_memo(struct unpickler *unpickler, uint64_t index, uint64_t entry)
{
    if (index != unpickler->memo_len || index >= unpickler->memo_cap || unpickler->sparse_index)
        return unpickler_put_memo_slow(unpickler, index, entry);
    unpickler->memo[unpickler->memo_len++] = entry;
    unpickler->memo_count++;
    return true;
}
