/* unpickler.c - see unpickler.h. Stack, marks and memo are allocated with malloc, because they are not needed
 * once the pickle was read; above 64 MiB they grow only in proportion to the bytes read so far. */
#include "codec/unpickler.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/text.h"
#include "codec/pickle_ops.h"

#define FIRST_WINDOW   4096u
#define ALWAYS_ALLOWED ((uint64_t)64 << 20) /* bytes of stack, marks or memo in even the smallest pickle */
#define BYTES_A_PUT    16u                  /* a pickle has about one PUT for so many bytes */
#define MAX_ESTIMATE   ((size_t)1 << 19)
#define DENSE_MEMO     1024u /* indexes below this, or below twice memo_count, are in the array memo */

ckpt_status unpickler_init(struct unpickler *u, arena *a, source *src, uint64_t pos, uint64_t end,
                           ckpt_error *err)
{
    *u = (struct unpickler){.start = pos, .at = pos, .op = PICKLE_STOP, .lim_pos = pos, .a = a, .err = err};
    u->memory_left = UINT64_MAX;
    u->window_size = FIRST_WINDOW;
    u->status = reader_init(&u->r, src, pos, end, err);
    u->p = u->lim = u->r.win;
    return u->status;
}

void unpickler_free(struct unpickler *u)
{
    reader_free(&u->r);
    map_free(u->sparse_index);
    free(u->sparse_memo);
    free(u->memo);
    free(u->marks);
}

bool unpickler_fail(struct unpickler *u, ckpt_status status, const char *fmt, ...)
{
    const struct pickle_op *op = pickle_op(u->op);
    va_list args;
    va_start(args, fmt);
    u->status = fail_v(u->err, status, source_pos(u->r.src, u->at), fmt, args);
    va_end(args);
    if (op)
        error_add_prefix(u->err, op->name);
    return false;
}

bool unpickler_fail_memory(struct unpickler *u)
{
    if (arena_full(u->a))
        return unpickler_fail(u, CKPT_ELIMIT,
                              "needs {more memory} than is allowed ({=%" PRIu64 " bytes} are taken)",
                              arena_used(u->a));
    u->status = fail_memory(u->err);
    return false;
}

bool unpickler_fail_underflow(struct unpickler *u, size_t n)
{
    size_t available = u->top - u->fence;
    return unpickler_fail(u, CKPT_EFORMAT, "takes {=%zu value%s} from the stack, where {%zu %s}%s", n,
                          n == 1 ? "" : "s", available, available == 1 ? "is" : "are",
                          u->nmarks ? " above the last MARK" : "");
}

bool unpickler_fail_pairs(struct unpickler *u, size_t n)
{
    return unpickler_fail(u, CKPT_EFORMAT,
                          "finds {%zu item%s} above the MARK; keys and values come {=in pairs}", n,
                          n == 1 ? "" : "s");
}

bool unpickler_fail_length(struct unpickler *u, int32_t n)
{
    return unpickler_fail(u, CKPT_EFORMAT, "has a length of {%" PRId32 "}; it must be {=0 or more}", n);
}

bool unpickler_fail_opcode(struct unpickler *u)
{
    char found[TEXT_BYTES_SIZE];
    return unpickler_fail(u, CKPT_EFORMAT, "{%s} is not {=a pickle opcode}",
                          text_describe_bytes(&u->op, 1, found));
}

bool unpickler_fail_truncated(struct unpickler *u, uint64_t n)
{
    return unpickler_fail(u, CKPT_ETRUNCATED, "needs {=%" PRIu64 " more bytes}, {%" PRIu64 "} are left", n,
                          unpickler_bytes_left(u));
}

size_t unpickler_estimate_items(const struct unpickler *u, unsigned each)
{
    uint64_t n = unpickler_bytes_left(u) / each + 4; /* 4: room for some even at the end of the pickle */
    return n < MAX_ESTIMATE ? (size_t)n : MAX_ESTIMATE;
}

bool unpickler_grow(struct unpickler *u, void *array, size_t *cap, size_t size)
{
    void *old;
    uint64_t new_cap = *cap ? 2 * (uint64_t)*cap : 64, bytes;
    uint64_t before = (uint64_t)*cap * size;
    size_t n;
    memcpy(&old, array, sizeof old);
    bool fits = checked_mul(new_cap, size, &bytes) && checked_size(bytes, &n);
    if (fits && bytes - before > u->memory_left)
        return unpickler_fail(u, CKPT_ELIMIT,
                              "goes {beyond the memory} that metadata may take, of which {=%" PRIu64
                              " bytes} are left\n"
                              "a program that trusts this file can raise max_metadata, see libckpt(3)",
                              u->memory_left);
    if (fits && bytes > ALWAYS_ALLOWED && bytes / 16 > unpickler_offset(u) - u->start)
        return unpickler_fail(u, CKPT_ELIMIT,
                              "needs {more} than {=16 bytes of memory for each one} that was read");
    void *grown = fits ? realloc(old, n) : NULL;
    if (!grown)
        return unpickler_fail_memory(u);
    memcpy(array, &grown, sizeof grown);
    u->memory_left -= bytes - before;
    *cap = (size_t)new_cap;
    return true;
}

bool unpickler_fill(struct unpickler *u, size_t n)
{
    uint64_t pos = unpickler_offset(u), left = u->r.end - pos;
    if (n > left)
        return unpickler_fail_truncated(u, n);
    size_t size = u->window_size > n ? u->window_size : n;
    if (size > left)
        size = (size_t)left;
    u->r.pos = pos;
    const unsigned char *at = reader_peek(&u->r, size);
    if (!at) {
        u->status = u->r.status;
        return false;
    }
    u->window_size = u->window_size < READER_WINDOW / 2 ? u->window_size * 2 : READER_WINDOW;
    u->p = at;
    u->lim = at + size;
    u->lim_pos = pos + size;
    return true;
}

void unpickler_seek(struct unpickler *u, uint64_t pos)
{
    uint64_t now = unpickler_offset(u);
    if (pos - now <= (uint64_t)(u->lim - u->p)) {
        u->p += pos - now;
        return;
    }
    u->p = u->lim;
    u->lim_pos = pos;
}

bool unpickler_skip(struct unpickler *u, uint64_t n)
{
    if (n > unpickler_bytes_left(u))
        return unpickler_fail_truncated(u, n);
    unpickler_seek(u, unpickler_offset(u) + n);
    return true;
}

bool unpickler_set_protocol(struct unpickler *u, uint8_t protocol)
{
    if (protocol > 5)
        return unpickler_fail(u, CKPT_EUNSUPPORTED, "has pickle protocol {%u}; {=0 to 5} are known",
                              protocol);
    u->protocol = protocol;
    return true;
}

bool unpickler_push_mark(struct unpickler *u)
{
    if (u->nmarks == u->cap_marks && !unpickler_grow(u, &u->marks, &u->cap_marks, sizeof *u->marks))
        return false;
    u->marks[u->nmarks++] = u->fence = u->top;
    return true;
}

bool unpickler_pop_mark(struct unpickler *u, size_t *from)
{
    if (u->nmarks == 0)
        return unpickler_fail(u, CKPT_EFORMAT, "goes back to {=a MARK}, and {none} is on the stack");
    *from = u->marks[--u->nmarks];
    u->fence = u->nmarks ? u->marks[u->nmarks - 1] : 0;
    return true;
}

uint64_t unpickler_find_memo(const struct unpickler *u, uint64_t index)
{
    if (index < u->memo_len && u->memo[index])
        return u->memo[index];
    uint32_t i = u->sparse_index ? map_get_num(u->sparse_index, index) : MAP_NONE;
    return i == MAP_NONE ? 0 : u->sparse_memo[i];
}

uint64_t unpickler_get_memo(struct unpickler *u, uint64_t index)
{
    uint64_t entry = unpickler_find_memo(u, index);
    if (!entry)
        unpickler_fail(u, CKPT_EFORMAT,
                       "reads {memo entry %" PRIu64 "}, which is not among {=those put before}", index);
    return entry;
}

/* extend_memo - extends the array up to INDEX, unless most of it would be empty. */
static bool extend_memo(struct unpickler *u, uint64_t index)
{
    uint64_t max_len = u->memo_count < DENSE_MEMO / 2 ? DENSE_MEMO : 2 * u->memo_count;
    if (index >= max_len)
        return true;
    if (!u->memo) {
        size_t n = unpickler_estimate_items(u, BYTES_A_PUT);
        bool is_allowed = n * sizeof *u->memo <= u->memory_left;
        u->memo = is_allowed ? malloc(n * sizeof *u->memo) : NULL;
        u->memo_cap = u->memo ? n : 0;
        u->memory_left -= u->memo_cap * sizeof *u->memo;
    }
    while (index >= u->memo_cap)
        if (!unpickler_grow(u, &u->memo, &u->memo_cap, sizeof *u->memo))
            return false;
    while (u->memo_len <= index)
        u->memo[u->memo_len++] = 0;
    return true;
}

static bool put_sparse(struct unpickler *u, uint64_t index, uint64_t entry)
{
    if (!u->sparse_index && !(u->sparse_index = map_new(64)))
        return unpickler_fail_memory(u);
    if (u->nsparse >= MAP_NONE)
        return unpickler_fail(u, CKPT_ELIMIT, "puts {more} than {=%" PRIu32 " memo entries}", MAP_NONE);
    if (u->nsparse == u->cap_sparse &&
        !unpickler_grow(u, &u->sparse_memo, &u->cap_sparse, sizeof *u->sparse_memo))
        return false;
    u->sparse_memo[u->nsparse] = entry;
    return map_set_num(u->sparse_index, index, (uint32_t)u->nsparse++) || unpickler_fail_memory(u);
}

bool unpickler_put_memo_slow(struct unpickler *u, uint64_t index, uint64_t entry)
{
    bool is_replaced = unpickler_find_memo(u, index) != 0;
    if (index >= u->memo_len && !extend_memo(u, index))
        return false;
    if (index < u->memo_len)
        u->memo[index] = entry;
    else if (!put_sparse(u, index, entry))
        return false;
    u->memo_count += !is_replaced;
    return true;
}
