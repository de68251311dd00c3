/* pickle_machine.h - the state of the machine that builds a value graph from a pickle: the stack, recently
 * seen nodes, the memory for new ones. Private to pickle_machine.c, pickle_scalars.c, pickle_read.c and
 * pickle_joblib.c. Functions that return false or NULL have set status and error. */
#ifndef CODEC_PICKLE_MACHINE_H
#define CODEC_PICKLE_MACHINE_H

#include "codec/unpickler.h"
#include "core/file.h"

#define MACHINE_LONGEST_NAME 4096u  /* most bytes of a module or name */
#define MACHINE_LONGEST_COPY 65536u /* most bytes of a line, or of a text that is no span */
/* How many recently seen nodes of each kind are kept. */
#define MACHINE_GLOBALS 64u
#define MACHINE_WORDS   256u
#define MACHINE_INTS    256u
#define MACHINE_TUPLES  256u

/* Zeroed memory of the arena, part of which is still unused. */
struct slab {
    unsigned char *next; /* first unused byte */
    size_t bytes_left;   /* number of unused bytes */
    size_t next_size;    /* bytes of the next slab */
};

/* A pickle: the bytes of SRC from POS, up to END at most. */
struct machine_input {
    source *src;
    uint64_t pos, end;
    bool has_joblib_arrays; /* bytes of an array follow each wrapper, as for joblib.load */
};

struct machine {
    struct unpickler u;
    ckpt_value **stack; /* u.top items */
    size_t cap_stack;
    struct slab nodes, chars; /* memory that nodes and text are allocated from */
    uint64_t frame_end;       /* end of the current FRAME; UINT64_MAX: none */
    ckpt_value *none_node, *true_node, *false_node, *empty_tuple; /* the only nodes of these values */
    ckpt_value *empty_hooks; /* the only node of all OrderedDict() that are arguments, see make_call */
    bool makes_all_hooks;    /* each of them has a node of its own */
    ckpt_value *small_ints[MACHINE_INTS];  /* the only nodes of the integers 0, 1, 2 … */
    ckpt_value *recent_ints[MACHINE_INTS]; /* other integers recently seen */
    ckpt_value *recent_globals[MACHINE_GLOBALS];
    ckpt_value *recent_words[MACHINE_WORDS];   /* short texts recently seen */
    ckpt_value *recent_tuples[MACHINE_TUPLES]; /* short tuples of integers: shapes and strides */
    struct pickle_facts *facts;                /* the caller's, or unused_facts */
    bool has_facts;                            /* the caller has passed facts */
    bool reads_joblib_arrays;                  /* see machine_input */
    struct pickle_facts unused_facts;
};

/* machine_alloc_slow - allocates N bytes when the slab S has too few: from a new slab, or directly from the
 * arena if N is large. */
void *machine_alloc_slow(struct machine *m, struct slab *s, size_t n);
bool machine_copy_text(struct machine *m, ckpt_str s, ckpt_str *out);
/* machine_reserve - makes room for ADD elements after the N that the array OLD has. Returns OLD or a larger
 * copy of it, in the arena; NULL: failed. */
void *machine_reserve(struct machine *m, void *old, uint32_t n, uint32_t *cap, size_t add, size_t size);
ckpt_value *machine_get_int(struct machine *m, int64_t i);
ckpt_value *machine_get_global(struct machine *m, ckpt_str module, ckpt_str name);
/* machine_make_tuple - returns a tuple of the N topmost items, which stay on the stack. */
ckpt_value *machine_make_tuple(struct machine *m, size_t n);
ckpt_value *machine_new_call(struct machine *m, enum value_call_kind how, ckpt_value *callable,
                             ckpt_value *args);
/* machine_read_line - reads a line of at most MAX bytes, and returns it without its newline; .ptr NULL:
 * failed. */
ckpt_str machine_read_line(struct machine *m, size_t max);

/* pickle_scalars.c: each function reads the argument of an opcode and pushes its node. */
bool push_none(struct machine *m);
bool push_bool(struct machine *m, bool b);
bool push_int_line(struct machine *m); /* INT, LONG */
bool push_float_line(struct machine *m);
bool push_text_line(struct machine *m); /* STRING, UNICODE */
bool push_binfloat(struct machine *m);
bool push_long(struct machine *m, size_t width); /* LONG1, LONG4 */
/* push_text - pushes a text or bytes, whose length comes first. */
bool push_text(struct machine *m);

/* pickle_joblib.c */
/* joblib_take_array - if V, to which BUILD was just applied, is a NumpyArrayWrapper of joblib, reads the
 * bytes of the array that follow and turns V into the numpy array that joblib.load would return. */
bool joblib_take_array(struct machine *m, ckpt_value *v);

/* machine_grow_facts - makes room in *LIST, a list of N nodes in the facts, for more. */
bool machine_grow_facts(struct machine *m, ckpt_value ***list, size_t n, size_t *cap);
/* machine_add_mutation - records in the facts a change of TARGET by the current opcode. */
bool machine_add_mutation(struct machine *m, const ckpt_value *target);

ckpt_status machine_init(struct machine *m, arena *a, const struct machine_input *in,
                         struct pickle_facts *facts, ckpt_error *err);
/* machine_free - frees M, but not the nodes and facts, which are in the arena. */
void machine_free(struct machine *m);

static inline bool machine_push(struct machine *m, ckpt_value *v)
{
    if (!v ||
        (m->u.top == m->cap_stack && !unpickler_grow(&m->u, &m->stack, &m->cap_stack, sizeof *m->stack)))
        return false;
    m->stack[m->u.top++] = v;
    return true;
}
static inline bool machine_put_memo(struct machine *m, uint64_t index)
{
    if (m->u.top == m->u.fence)
        return unpickler_fail_underflow(&m->u, 1);
    return unpickler_put_memo(&m->u, index, (uintptr_t)m->stack[m->u.top - 1]);
}
static inline bool machine_get_memo(struct machine *m, uint64_t index)
{
    ckpt_value *v = (ckpt_value *)(uintptr_t)unpickler_get_memo(&m->u, index);
    if (!v)
        return false;
    if (v == m->empty_hooks) { /* it must be distinguished from the others: the pickle is read again */
        m->makes_all_hooks = true;
        return false;
    }
    v->flags |= VALUE_SHARED;
    return machine_push(m, v);
}
/* machine_add_fact - appends V to *LIST, a list of the facts, if the caller has passed facts. */
static inline bool machine_add_fact(struct machine *m, ckpt_value ***list, size_t *n, size_t *cap,
                                    ckpt_value *v)
{
    if (m->has_facts && *n == *cap && !machine_grow_facts(m, list, *n, cap))
        return false;
    if (m->has_facts)
        (*list)[(*n)++] = v;
    return true;
}
static inline void *machine_alloc_from(struct machine *m, struct slab *s, size_t n)
{
    if (s->bytes_left < n)
        return machine_alloc_slow(m, s, n);
    s->next += n;
    s->bytes_left -= n;
    return s->next - n;
}
/* machine_alloc - returns N zeroed bytes of the arena; N is a multiple of 8. */
static inline void *machine_alloc(struct machine *m, size_t n) { return machine_alloc_from(m, &m->nodes, n); }
/* machine_alloc_text - returns room for N < SIZE_MAX characters and a NUL. */
static inline char *machine_alloc_text(struct machine *m, size_t n)
{
    return machine_alloc_from(m, &m->chars, n + 1);
}
static inline ckpt_value *machine_new_node_sized(struct machine *m, ckpt_value_type type, size_t more)
{
    ckpt_value *v = machine_alloc(m, value_size_of(type) + more);
    if (v)
        value_init(v, type, m->u.at);
    return v;
}
static inline ckpt_value *machine_new_node(struct machine *m, ckpt_value_type type)
{
    return machine_new_node_sized(m, type, 0);
}

#endif
