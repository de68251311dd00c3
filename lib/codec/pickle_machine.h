/* pickle_machine.h - the parts of the pickle machine that know no opcode: the
 * window over the stream, the stack with its marks, the memo, the making of
 * nodes. Private to pickle_machine.c, pickle_atoms.c and pickle_read.c. Every
 * bool is false after a failure, which is in the machine's status and error. */
#ifndef CODEC_PICKLE_MACHINE_H
#define CODEC_PICKLE_MACHINE_H

#include "base/map.h"
#include "core/file.h"
#include "io/reader.h"

#define MACHINE_NAME    4096u         /* longest line that names a class */
#define MACHINE_COPY    65536u        /* longest text that is copied: others stay as spans; longest line */
#define MACHINE_GLOBALS 64u           /* a power of two */
#define MACHINE_WORDS   256u          /* a power of two */
#define MACHINE_INTS    256u
#define MACHINE_SIZES   256u          /* a power of two */

struct machine {
    const unsigned char *p, *lim; /* what is left of the window */
    uint64_t start;
    uint64_t lim_pos; /* offset of lim in the source */
    ckpt_value **stack;
    size_t top, cap;
    size_t fence; /* items below it lie under the last mark */
    size_t *marks, nmarks, cap_marks;
    unsigned char *slab; /* nodes are cut from it: zeroed */
    size_t slab_left, slab_size;
    char *chars; /* text is cut from it */
    size_t chars_left, chars_size;
    uint64_t at; /* offset of the opcode that runs */
    uint8_t op;
    uint8_t protocol;
    uint64_t frame_end; /* UINT64_MAX: in no frame */
    ckpt_value **memo;  /* by index; sparse indexes go to `sparse` */
    size_t memo_len, memo_cap;
    uint64_t memo_count;
    map *sparse; /* index -> position in far */
    ckpt_value **far;
    size_t nfar, cap_far;
    ckpt_value *none, *yes, *no, *unit; /* interned */
    ckpt_value *small[MACHINE_INTS], *ints[MACHINE_INTS];
    ckpt_value *globals[MACHINE_GLOBALS]; /* lately met */
    ckpt_value *words[MACHINE_WORDS];     /* short texts lately met */
    ckpt_value *sizes[MACHINE_SIZES];     /* short tuples of integers lately met: shapes and strides */
    struct pickle_facts *facts;           /* never NULL */
    bool noting;                          /* someone wants them */
    struct pickle_facts unwanted;
    arena *a;
    reader r;
    size_t want; /* size of the next window */
    ckpt_status status;
    ckpt_error *err;
};

bool machine_bad(struct machine *m, ckpt_status status, const char *fmt, ...) CKPT_PRINTF(3, 4);
bool machine_memory(struct machine *m);
bool machine_underflow(struct machine *m, size_t n);
/* machine_more - brings N <= READER_WINDOW bytes into the window. */
bool machine_more(struct machine *m, size_t n);
/* machine_skip - N bytes on, which exist. */
bool machine_skip(struct machine *m, uint64_t n);
void *machine_slab(struct machine *m, size_t n);
char *machine_chars(struct machine *m, size_t n);
/* machine_grow - doubles a malloc'ed array; ARRAY is the address of its pointer. */
bool machine_grow(struct machine *m, void *array, size_t *cap, size_t size);
bool machine_mark(struct machine *m);
/* machine_unmark - takes the last mark away; *FROM: the item behind it. */
bool machine_unmark(struct machine *m, size_t *from);
bool machine_put(struct machine *m, uint64_t index);
bool machine_get(struct machine *m, uint64_t index);
/* machine_room - array OLD of the arena with room for ADD after its N elements, or NULL. */
void *machine_room(struct machine *m, void *old, uint32_t n, uint32_t *cap, size_t add, size_t size);
ckpt_value *machine_int(struct machine *m, int64_t i);
ckpt_value *machine_global(struct machine *m, ckpt_str module, ckpt_str name);
/* machine_tuple - the N topmost items, which stay on the stack. */
ckpt_value *machine_tuple(struct machine *m, size_t n);
ckpt_value *machine_call(struct machine *m, enum value_call_kind how, ckpt_value *callable, ckpt_value *args);
/* machine_line - up to a newline, which is taken too; .ptr NULL after a failure. */
ckpt_str machine_line(struct machine *m, size_t max);

/* pickle_atoms.c: each reads an argument and pushes its node. */
bool push_none(struct machine *m);
bool push_bool(struct machine *m, bool b);
bool push_int_line(struct machine *m); /* INT, LONG */
bool push_float_line(struct machine *m);
bool push_text_line(struct machine *m); /* STRING, UNICODE */
bool push_binfloat(struct machine *m);
bool push_long(struct machine *m, size_t width);          /* LONG1, LONG4 */
bool push_text1(struct machine *m, ckpt_value_type type); /* a length of 1, 4, 8 bytes */
bool push_text4(struct machine *m, ckpt_value_type type);
bool push_text8(struct machine *m, ckpt_value_type type);

/* machine_note_more - room in a list of facts for more than its N. */
bool machine_note_more(struct machine *m, ckpt_value ***list, size_t n, size_t *cap);
bool machine_mutates(struct machine *m, const ckpt_value *target);

ckpt_status machine_init(struct machine *m, arena *a, source *src, uint64_t pos, uint64_t end,
                         struct pickle_facts *facts, ckpt_error *err);
/* machine_free - all but the nodes and the facts, which are in the arena. */
void machine_free(struct machine *m);

static inline uint64_t machine_here(const struct machine *m)
{
    return m->lim_pos - (uint64_t)(m->lim - m->p);
}
static inline uint64_t machine_left(const struct machine *m) { return m->r.end - machine_here(m); }
/* take - the next N <= READER_WINDOW bytes, valid until the next take, or NULL. */
static inline const unsigned char *take(struct machine *m, size_t n)
{
    if ((size_t)(m->lim - m->p) < n && !machine_more(m, n))
        return NULL;
    m->p += n;
    return m->p - n;
}
/* need - are N items there above the last mark? */
static inline bool need(struct machine *m, size_t n)
{
    return m->top - m->fence >= n || machine_underflow(m, n);
}
static inline bool push(struct machine *m, ckpt_value *v)
{
    if (!v || (m->top == m->cap && !machine_grow(m, &m->stack, &m->cap, sizeof *m->stack)))
        return false;
    m->stack[m->top++] = v;
    return true;
}
/* put - machine_put, at once where INDEX is the next one, as writers count. */
static inline bool put(struct machine *m, uint64_t index)
{
    if (index != m->memo_len || index >= m->memo_cap || m->sparse || m->top == m->fence)
        return machine_put(m, index);
    m->memo[m->memo_len++] = m->stack[m->top - 1];
    m->memo_count++;
    return true;
}
/* machine_note - V is one more of a list of facts. */
static inline bool machine_note(struct machine *m, ckpt_value ***list, size_t *n, size_t *cap, ckpt_value *v)
{
    if (m->noting && *n == *cap && !machine_note_more(m, list, *n, cap))
        return false;
    if (m->noting)
        (*list)[(*n)++] = v;
    return true;
}
/* grab - N zeroed bytes of the arena, N a multiple of 8. */
static inline void *grab(struct machine *m, size_t n)
{
    if (m->slab_left < n)
        return machine_slab(m, n);
    m->slab += n;
    m->slab_left -= n;
    return m->slab - n;
}
static inline ckpt_value *node_sized(struct machine *m, ckpt_value_type type, size_t more)
{
    ckpt_value *v = grab(m, sizeof *v + more);
    if (!v)
        return NULL;
    v->type = (uint8_t)type;
    v->row = CKPT_NO_TENSOR;
    v->offset = m->at;
    return v;
}
static inline ckpt_value *node(struct machine *m, ckpt_value_type type) { return node_sized(m, type, 0); }

#endif
