/* unpickler.c - see unpickler.h. Stack, marks and memo are allocated with malloc, because they are not needed
 * once the pickle was read; above 64 MiB they grow only in proportion to the bytes read so far. */
#include "codec/unpickler.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "codec/pickle_ops.h"

#define FIRST_WINDOW   4096u
#define ALWAYS_ALLOWED ((uint64_t)64 << 20) /* bytes of stack, marks or memo in even the smallest pickle */
#define BYTES_A_PUT    16u                  /* a pickle has about one PUT for so many bytes */
#define MAX_ESTIMATE   ((size_t)1 << 19)
#define DENSE_MEMO     1024u /* indexes below this, or below twice memo_count, are in the array memo */

ckpt_status unpickler_init(struct unpickler *unpickler, arena *a, source *src, uint64_t pos, uint64_t end,
                           ckpt_error *err)
{
    *unpickler = (struct unpickler){
        .start = pos, .at = pos, .op = PICKLE_STOP, .lim_pos = pos, .a = a, .err = err};
    unpickler->memory_left = UINT64_MAX;
    unpickler->window_size = FIRST_WINDOW;
    unpickler->status = reader_init(&unpickler->r, src, pos, end, err);
    unpickler->p = unpickler->lim = unpickler->r.win;
    return unpickler->status;
}

void unpickler_free(struct unpickler *unpickler)
{
    reader_free(&unpickler->r);
    map_free(unpickler->sparse_index);
    free(unpickler->sparse_memo);
    free(unpickler->memo);
    free(unpickler->marks);
}

bool unpickler_fail(struct unpickler *unpickler, ckpt_status status, const char *fmt, ...)
{
    const struct pickle_op *op = pickle_op(unpickler->op);
    va_list args;
    va_start(args, fmt);
    unpickler->status = fail_v(unpickler->err, status, source_pos(unpickler->r.src, unpickler->at), fmt,
                               args);
    va_end(args);
    if (op)
        error_add_prefix(unpickler->err, op->name);
    return false;
}

bool unpickler_fail_memory(struct unpickler *unpickler)
{
    if (arena_full(unpickler->a))
        return unpickler_fail(unpickler, CKPT_ELIMIT,
                              "needs {more memory} than is allowed ({=%" PRIu64 " bytes} are taken)",
                              arena_used(unpickler->a));
    unpickler->status = fail_memory(unpickler->err);
    return false;
}

bool unpickler_fail_underflow(struct unpickler *unpickler, size_t count)
{
    size_t available = unpickler->top - unpickler->fence;
    return unpickler_fail(unpickler, CKPT_EFORMAT, "takes {=%zu value%s} from the stack, where {%zu %s}%s",
                          count, count == 1 ? "" : "s", available, available == 1 ? "is" : "are",
                          unpickler->nmarks ? " above the last MARK" : "");
}

bool unpickler_fail_pairs(struct unpickler *unpickler, size_t count)
{
    return unpickler_fail(unpickler, CKPT_EFORMAT,
                          "finds {%zu item%s} above the MARK; keys and values come {=in pairs}", count,
                          count == 1 ? "" : "s");
}

bool unpickler_fail_length(struct unpickler *unpickler, int32_t count)
{
    return unpickler_fail(unpickler, CKPT_EFORMAT, "has a length of {%" PRId32 "}; it must be {=0 or more}",
                          count);
}

bool unpickler_fail_opcode(struct unpickler *unpickler)
{
    char found[TEXT_BYTES_SIZE];
    return unpickler_fail(unpickler, CKPT_EFORMAT, "{%s} is not {=a pickle opcode}",
                          text_describe_bytes(&unpickler->op, 1, found));
}

bool unpickler_fail_truncated(struct unpickler *unpickler, uint64_t count)
{
    return unpickler_fail(unpickler, CKPT_ETRUNCATED,
                          "needs {=%" PRIu64 " more bytes}, {%" PRIu64 "} are left", count,
                          unpickler_bytes_left(unpickler));
}

size_t unpickler_estimate_items(const struct unpickler *unpickler, unsigned each)
{
    uint64_t n = unpickler_bytes_left(unpickler) / each +
                 4; /* 4: room for some even at the end of the pickle */
    return n < MAX_ESTIMATE ? (size_t)n : MAX_ESTIMATE;
}

bool unpickler_grow(struct unpickler *unpickler, void *array, size_t *cap, size_t size)
{
    void *old;
    uint64_t new_cap = *cap ? 2 * (uint64_t)*cap : 64, bytes;
    uint64_t before = (uint64_t)*cap * size;
    size_t n;
    memcpy(&old, array, sizeof old);
    bool fits = checked_mul(new_cap, size, &bytes) && checked_size(bytes, &n);
    if (fits && bytes - before > unpickler->memory_left)
        return unpickler_fail(unpickler, CKPT_ELIMIT,
                              "goes {beyond the memory} that metadata may take, of which {=%" PRIu64
                              " bytes} are left\n"
                              "a program that trusts this file can raise max_metadata, see libckpt(3)",
                              unpickler->memory_left);
    if (fits && bytes > ALWAYS_ALLOWED && bytes / 16 > unpickler_offset(unpickler) - unpickler->start)
        return unpickler_fail(unpickler, CKPT_ELIMIT,
                              "needs {more} than {=16 bytes of memory for each one} that was read");
    void *grown = fits ? realloc(old, n) : NULL;
    if (!grown)
        return unpickler_fail_memory(unpickler);
    memcpy(array, &grown, sizeof grown);
    unpickler->memory_left -= bytes - before;
    *cap = (size_t)new_cap;
    return true;
}

bool unpickler_fill(struct unpickler *unpickler, size_t count)
{
    uint64_t pos = unpickler_offset(unpickler), left = unpickler->r.end - pos;
    if (count > left)
        return unpickler_fail_truncated(unpickler, count);
    size_t size = unpickler->window_size > count ? unpickler->window_size : count;
    if (size > left)
        size = (size_t)left;
    unpickler->r.pos = pos;
    const unsigned char *at = reader_peek(&unpickler->r, size);
    if (!at) {
        unpickler->status = unpickler->r.status;
        return false;
    }
    unpickler->window_size = unpickler->window_size < READER_WINDOW / 2 ? unpickler->window_size * 2
                                                                        : READER_WINDOW;
    unpickler->p = at;
    unpickler->lim = at + size;
    unpickler->lim_pos = pos + size;
    return true;
}

void unpickler_seek(struct unpickler *unpickler, uint64_t pos)
{
    uint64_t now = unpickler_offset(unpickler);
    if (pos - now <= (uint64_t)(unpickler->lim - unpickler->p)) {
        unpickler->p += pos - now;
        return;
    }
    unpickler->p = unpickler->lim;
    unpickler->lim_pos = pos;
}

bool unpickler_skip(struct unpickler *unpickler, uint64_t count)
{
    if (count > unpickler_bytes_left(unpickler))
        return unpickler_fail_truncated(unpickler, count);
    unpickler_seek(unpickler, unpickler_offset(unpickler) + count);
    return true;
}

bool unpickler_set_protocol(struct unpickler *unpickler, uint8_t protocol)
{
    if (protocol > 5)
        return unpickler_fail(unpickler, CKPT_EUNSUPPORTED, "has pickle protocol {%u}; {=0 to 5} are known",
                              protocol);
    unpickler->protocol = protocol;
    return true;
}

bool unpickler_push_mark(struct unpickler *unpickler)
{
    if (unpickler->nmarks == unpickler->cap_marks &&
        !unpickler_grow(unpickler, &unpickler->marks, &unpickler->cap_marks, sizeof *unpickler->marks))
        return false;
    unpickler->marks[unpickler->nmarks++] = unpickler->fence = unpickler->top;
    return true;
}

bool unpickler_pop_mark(struct unpickler *unpickler, size_t *from)
{
    if (unpickler->nmarks == 0)
        return unpickler_fail(unpickler, CKPT_EFORMAT, "goes back to {=a MARK}, and {none} is on the stack");
    *from = unpickler->marks[--unpickler->nmarks];
    unpickler->fence = unpickler->nmarks ? unpickler->marks[unpickler->nmarks - 1] : 0;
    return true;
}

uint64_t unpickler_find_memo(const struct unpickler *unpickler, uint64_t index)
{
    if (index < unpickler->memo_len && unpickler->memo[index])
        return unpickler->memo[index];
    uint32_t i = unpickler->sparse_index ? map_get_num(unpickler->sparse_index, index) : MAP_NONE;
    return i == MAP_NONE ? 0 : unpickler->sparse_memo[i];
}

uint64_t unpickler_get_memo(struct unpickler *unpickler, uint64_t index)
{
    uint64_t entry = unpickler_find_memo(unpickler, index);
    if (!entry)
        unpickler_fail(unpickler, CKPT_EFORMAT,
                       "reads {memo entry %" PRIu64 "}, which is not among {=those put before}", index);
    return entry;
}

/* extend_memo - extends the array up to INDEX, unless most of it would be empty. */
static bool extend_memo(struct unpickler *unpickler, uint64_t index)
{
    uint64_t max_len = unpickler->memo_count < DENSE_MEMO / 2 ? DENSE_MEMO : 2 * unpickler->memo_count;
    if (index >= max_len)
        return true;
    if (!unpickler->memo) {
        size_t n = unpickler_estimate_items(unpickler, BYTES_A_PUT);
        bool is_allowed = n * sizeof *unpickler->memo <= unpickler->memory_left;
        unpickler->memo = is_allowed ? malloc(n * sizeof *unpickler->memo) : NULL;
        unpickler->memo_cap = unpickler->memo ? n : 0;
        unpickler->memory_left -= unpickler->memo_cap * sizeof *unpickler->memo;
    }
    while (index >= unpickler->memo_cap)
        if (!unpickler_grow(unpickler, &unpickler->memo, &unpickler->memo_cap, sizeof *unpickler->memo))
            return false;
    while (unpickler->memo_len <= index)
        unpickler->memo[unpickler->memo_len++] = 0;
    return true;
}

static bool put_sparse(struct unpickler *unpickler, uint64_t index, uint64_t entry)
{
    if (!unpickler->sparse_index && !(unpickler->sparse_index = map_new(64)))
        return unpickler_fail_memory(unpickler);
    if (unpickler->nsparse >= MAP_NONE)
        return unpickler_fail(unpickler, CKPT_ELIMIT, "puts {more} than {=%" PRIu32 " memo entries}",
                              MAP_NONE);
    if (unpickler->nsparse == unpickler->cap_sparse &&
        !unpickler_grow(unpickler, &unpickler->sparse_memo, &unpickler->cap_sparse,
                        sizeof *unpickler->sparse_memo))
        return false;
    unpickler->sparse_memo[unpickler->nsparse] = entry;
    return map_set_num(unpickler->sparse_index, index, (uint32_t)unpickler->nsparse++) ||
           unpickler_fail_memory(unpickler);
}

bool unpickler_put_memo_slow(struct unpickler *unpickler, uint64_t index, uint64_t entry)
{
    bool is_replaced = unpickler_find_memo(unpickler, index) != 0;
    if (index >= unpickler->memo_len && !extend_memo(unpickler, index))
        return false;
    if (index < unpickler->memo_len)
        unpickler->memo[index] = entry;
    else if (!put_sparse(unpickler, index, entry))
        return false;
    unpickler->memo_count += !is_replaced;
    return true;
}
