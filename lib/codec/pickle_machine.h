/* pickle_machine.h - the state of the machine that runs a pickle: the window over the stream, the stack with
 * its marks, the memo, the memory for nodes. Private to pickle_machine.c, pickle_scalars.c, pickle_read.c and
 * pickle_joblib.c. Functions that return false or NULL have set the machine's status and error. */
#ifndef CODEC_PICKLE_MACHINE_H
#define CODEC_PICKLE_MACHINE_H

#include "base/map.h"
#include "core/file.h"
#include "io/reader.h"

#define MACHINE_NAME    4096u  /* longest line with the name of a class */
#define MACHINE_COPY    65536u /* longest line, and longest text that is copied: longer ones become spans */
#define MACHINE_GLOBALS 64u    /* a power of two */
#define MACHINE_WORDS   256u   /* a power of two */
#define MACHINE_INTS    256u
#define MACHINE_SIZES   256u /* a power of two */

struct machine {
    const unsigned char *p, *lim; /* what is left of the window */
    uint64_t start;
    uint64_t lim_pos; /* offset of lim in the source */
    ckpt_value **stack;
    size_t top, cap;
    size_t fence; /* the stack index of the last mark: opcodes must not reach below it */
    size_t *marks, nmarks, cap_marks;
    unsigned char *slab; /* zeroed memory that nodes are allocated from */
    size_t slab_left, slab_size;
    char *chars; /* memory that text is allocated from */
    size_t chars_left, chars_size;
    uint64_t at; /* offset of the current opcode */
    uint8_t op;
    uint8_t protocol;
    uint64_t frame_end; /* UINT64_MAX: not in a frame */
    ckpt_value **memo;  /* by index; indexes far apart go to `sparse` */
    size_t memo_len, memo_cap;
    uint64_t memo_count;
    map *sparse; /* index -> position in far */
    ckpt_value **far;
    size_t nfar, cap_far;
    ckpt_value *none, *yes, *no, *unit; /* the only nodes of None, True, False and () */
    ckpt_value *small[MACHINE_INTS], *ints[MACHINE_INTS];
    ckpt_value *globals[MACHINE_GLOBALS]; /* recently seen */
    ckpt_value *words[MACHINE_WORDS];     /* short texts recently seen */
    ckpt_value *sizes[MACHINE_SIZES];     /* short tuples of integers recently seen: shapes and strides */
    struct pickle_facts *facts;           /* the caller's, or UNWANTED */
    bool wants_facts;                     /* the caller gave room for facts */
    bool by_joblib;                       /* read as joblib.load does: bytes of arrays follow wrappers */
    struct pickle_facts unwanted;
    arena *a;
    reader r;
    size_t want; /* size of the next window */
    ckpt_status status;
    ckpt_error *err;
};

bool machine_fail(struct machine *m, ckpt_status status, const char *fmt, ...) CKPT_PRINTF(3, 4);
bool machine_fail_memory(struct machine *m);
bool machine_fail_underflow(struct machine *m, size_t n);
/* machine_fill - reads on until the window has at least N <= READER_WINDOW bytes. */
bool machine_fill(struct machine *m, size_t n);
/* machine_skip - skips N bytes; fails if there are fewer. */
bool machine_skip(struct machine *m, uint64_t n);
/* machine_alloc_slow - allocates N bytes when the slab has no room left: from a new slab, or, if they are
 * many, from the arena. */
void *machine_alloc_slow(struct machine *m, size_t n);
/* machine_alloc_text - returns room for N characters and a NUL. */
char *machine_alloc_text(struct machine *m, size_t n);
/* machine_grow - doubles an array allocated with malloc; ARRAY is the address of its pointer. */
bool machine_grow(struct machine *m, void *array, size_t *cap, size_t size);
bool machine_push_mark(struct machine *m);
/* machine_pop_mark - removes the last mark, and sets *FROM to the stack index of the first item above it. */
bool machine_pop_mark(struct machine *m, size_t *from);
bool machine_put(struct machine *m, uint64_t index);
bool machine_get(struct machine *m, uint64_t index);
/* machine_reserve - returns the array OLD, which has N elements in the arena, or a larger copy, with room for
 * ADD more elements; or NULL. */
void *machine_reserve(struct machine *m, void *old, uint32_t n, uint32_t *cap, size_t add, size_t size);
ckpt_value *machine_int(struct machine *m, int64_t i);
ckpt_value *machine_global(struct machine *m, ckpt_str module, ckpt_str name);
/* machine_tuple - returns a tuple of the N topmost items, which stay on the stack. */
ckpt_value *machine_tuple(struct machine *m, size_t n);
ckpt_value *machine_call(struct machine *m, enum value_call_kind how, ckpt_value *callable, ckpt_value *args);
/* machine_line - reads up to and including a newline, and returns the bytes before it; .ptr NULL: failed. */
ckpt_str machine_line(struct machine *m, size_t max);

/* pickle_scalars.c: each function reads the argument of an opcode and pushes its node. */
bool push_none(struct machine *m);
bool push_bool(struct machine *m, bool b);
bool push_int_line(struct machine *m); /* INT, LONG */
bool push_float_line(struct machine *m);
bool push_text_line(struct machine *m); /* STRING, UNICODE */
bool push_binfloat(struct machine *m);
bool push_long(struct machine *m, size_t width); /* LONG1, LONG4 */
/* push_text - pushes a text or bytes of TYPE, whose length comes first, in WIDTH bytes: 1, 4 or 8. */
bool push_text(struct machine *m, ckpt_value_type type, size_t width);

/* pickle_joblib.c */
/* joblib_take_array - if V, to which BUILD was just applied, is a NumpyArrayWrapper of joblib, reads the
 * bytes of the array that follow and turns V into the numpy array that joblib.load would return. */
bool joblib_take_array(struct machine *m, ckpt_value *v);

/* machine_grow_facts - makes room in a list of N facts for more. */
bool machine_grow_facts(struct machine *m, ckpt_value ***list, size_t n, size_t *cap);
/* machine_add_mutation - adds to the facts that the current opcode changes TARGET. */
bool machine_add_mutation(struct machine *m, const ckpt_value *target);

ckpt_status machine_init(struct machine *m, arena *a, source *src, uint64_t pos, uint64_t end,
                         struct pickle_facts *facts, ckpt_error *err);
/* machine_free - frees M, but not the nodes and facts, which are in the arena. */
void machine_free(struct machine *m);

static inline uint64_t machine_offset(const struct machine *m)
{
    return m->lim_pos - (uint64_t)(m->lim - m->p);
}
static inline uint64_t machine_bytes_left(const struct machine *m) { return m->r.end - machine_offset(m); }
/* machine_take - returns the next N <= READER_WINDOW bytes, valid until the next call, or NULL. */
static inline const unsigned char *machine_take(struct machine *m, size_t n)
{
    if ((size_t)(m->lim - m->p) < n && !machine_fill(m, n))
        return NULL;
    m->p += n;
    return m->p - n;
}
/* machine_need - fails unless there are at least N items above the last mark. */
static inline bool machine_need(struct machine *m, size_t n)
{
    return m->top - m->fence >= n || machine_fail_underflow(m, n);
}
static inline bool machine_push(struct machine *m, ckpt_value *v)
{
    if (!v || (m->top == m->cap && !machine_grow(m, &m->stack, &m->cap, sizeof *m->stack)))
        return false;
    m->stack[m->top++] = v;
    return true;
}
/* machine_memoize - puts the topmost item into the memo; the common case, that INDEX is the next, is
 * inline. */
static inline bool machine_memoize(struct machine *m, uint64_t index)
{
    if (index != m->memo_len || index >= m->memo_cap || m->sparse || m->top == m->fence)
        return machine_put(m, index);
    m->memo[m->memo_len++] = m->stack[m->top - 1];
    m->memo_count++;
    return true;
}
/* machine_add_fact - appends V to a list of facts. */
static inline bool machine_add_fact(struct machine *m, ckpt_value ***list, size_t *n, size_t *cap,
                                    ckpt_value *v)
{
    if (m->wants_facts && *n == *cap && !machine_grow_facts(m, list, *n, cap))
        return false;
    if (m->wants_facts)
        (*list)[(*n)++] = v;
    return true;
}
/* machine_alloc - returns N zeroed bytes of the arena; N is a multiple of 8. */
static inline void *machine_alloc(struct machine *m, size_t n)
{
    if (m->slab_left < n)
        return machine_alloc_slow(m, n);
    m->slab += n;
    m->slab_left -= n;
    return m->slab - n;
}
static inline ckpt_value *machine_new_node_sized(struct machine *m, ckpt_value_type type, size_t more)
{
    ckpt_value *v = machine_alloc(m, sizeof *v + more);
    if (!v)
        return NULL;
    v->type = (uint8_t)type;
    v->row = CKPT_NO_TENSOR;
    v->offset = m->at;
    return v;
}
static inline ckpt_value *machine_new_node(struct machine *m, ckpt_value_type type)
{
    return machine_new_node_sized(m, type, 0);
}

#endif
