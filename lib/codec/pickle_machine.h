/* pickle_machine.h - the state of the machine that builds a value graph from a pickle: the stack, recently
 * seen nodes, the memory for new ones. Private to pickle_machine.c, pickle_scalars.c, pickle_read.c and
 * pickle_joblib.c. Functions that return false or NULL have set status and error. */
#pragma once

#include "base/cursor.h"
#include "codec/pickle_ops.h"
#include "codec/unpickler.h"
#include "core/file.h"

#define MACHINE_LONGEST_NAME 4096u  /* most bytes of a module or name */
#define MACHINE_LONGEST_COPY 65536u /* most bytes of a line, or of a text that is no span */
/* How many recently seen nodes of each kind are kept. */
#define MACHINE_GLOBALS 64u
#define MACHINE_WORDS   256u
#define MACHINE_INTS    256u
#define MACHINE_TUPLES  256u
#define MACHINE_SIZES   4u /* most integers of the tuples that are kept */

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

/* machine_alloc_slow - allocates COUNT bytes when the slab SLAB has too few: from a new slab, or directly
 * from the arena if COUNT is large. */
void *machine_alloc_slow(struct machine *machine, struct slab *slab, size_t count);
bool machine_copy_text(struct machine *machine, ckpt_str text, ckpt_str *out);
/* machine_reserve - makes room for ADD elements after the COUNT that the array OLD has. Returns OLD or a
 * larger copy of it, in the arena; NULL: failed. */
void *machine_reserve(struct machine *machine, void *old, uint32_t count, uint32_t *cap, size_t add,
                      size_t size);
ckpt_value *machine_get_int(struct machine *machine, int64_t index);
ckpt_value *machine_get_global(struct machine *machine, ckpt_str module, ckpt_str name);
/* machine_find_tuple - returns the tuple of COUNT <= MACHINE_SIZES INTEGERS, if one was made recently, or
 * NULL. */
ckpt_value *machine_find_tuple(struct machine *machine, const int64_t *integers, size_t count);
/* machine_make_tuple - returns a tuple of the COUNT items at ITEMS. */
ckpt_value *machine_make_tuple(struct machine *machine, ckpt_value *const *items, size_t count);
ckpt_value *machine_new_call(struct machine *machine, enum value_call_kind how, ckpt_value *callable,
                             ckpt_value *args);
/* machine_read_line - reads a line of at most MAX bytes, and returns it without its newline; .ptr NULL:
 * failed. */
ckpt_str machine_read_line(struct machine *machine, size_t max);

/* pickle_load_int - returns the number in ARGUMENT of the opcode OP: BININT, BININT1 or BININT2. */
static inline int64_t pickle_load_int(uint8_t op, const unsigned char *argument)
{
    return op == PICKLE_BININT1   ? argument[0]
           : op == PICKLE_BININT2 ? load_u16le(argument)
                                  : (int32_t)load_u32le(argument);
}

/* pickle_scalars.c: each function reads the argument of an opcode and pushes its node. */
bool push_none(struct machine *machine);
bool push_bool(struct machine *machine, bool flag);
bool push_int_line(struct machine *machine); /* INT, LONG */
bool push_float_line(struct machine *machine);
bool push_text_line(struct machine *machine); /* STRING, UNICODE */
bool push_binfloat(struct machine *machine);
bool push_long(struct machine *machine, size_t width); /* LONG1, LONG4 */
/* push_text - pushes a text or bytes, whose length comes first. */
bool push_text(struct machine *machine);

/* pickle_tensor.c */
/* machine_take_tensor - after a MARK, reads the opcodes of a tensor, if they are the usual ones: replaces the
 * function on the stack by its call, and sets *TAKEN. */
bool machine_take_tensor(struct machine *machine, bool *taken);

/* pickle_joblib.c */
/* joblib_take_array - if VALUE, to which BUILD was just applied, is a NumpyArrayWrapper of joblib, reads the
 * bytes of the array that follow and turns VALUE into the numpy array that joblib.load would return. */
bool joblib_take_array(struct machine *machine, ckpt_value *value);

/* machine_grow_facts - makes room in *LIST, a list of COUNT nodes in the facts, for more. */
bool machine_grow_facts(struct machine *machine, ckpt_value ***list, size_t count, size_t *cap);
/* machine_add_mutation - records in the facts a change of TARGET by the current opcode. */
bool machine_add_mutation(struct machine *machine, const ckpt_value *target);

ckpt_status machine_init(struct machine *machine, arena *a, const struct machine_input *in,
                         struct pickle_facts *facts, ckpt_error *err);
/* machine_free - frees MACHINE, but not the nodes and facts, which are in the arena. */
void machine_free(struct machine *machine);

static inline bool machine_push(struct machine *machine, ckpt_value *value)
{
    if (!value ||
        (machine->u.top == machine->cap_stack &&
         !unpickler_grow(&machine->u, &machine->stack, &machine->cap_stack, sizeof *machine->stack)))
        return false;
    machine->stack[machine->u.top++] = value;
    return true;
}
static inline bool machine_put_memo(struct machine *machine, uint64_t index)
{
    if (machine->u.top == machine->u.fence)
        return unpickler_fail_underflow(&machine->u, 1);
    return unpickler_put_memo(&machine->u, index, (uintptr_t)machine->stack[machine->u.top - 1]);
}
static inline bool machine_get_memo(struct machine *machine, uint64_t index)
{
    ckpt_value *v = (ckpt_value *)(uintptr_t)unpickler_get_memo(&machine->u, index);
    if (!v)
        return false;
    if (v == machine->empty_hooks) { /* it must be distinguished from the others: the pickle is read again */
        machine->makes_all_hooks = true;
        return false;
    }
    v->flags |= VALUE_SHARED;
    return machine_push(machine, v);
}
/* machine_add_fact - appends VALUE to *LIST, a list of the facts, if the caller has passed facts. */
static inline bool machine_add_fact(struct machine *machine, ckpt_value ***list, size_t *count, size_t *cap,
                                    ckpt_value *value)
{
    if (machine->has_facts && *count == *cap && !machine_grow_facts(machine, list, *count, cap))
        return false;
    if (machine->has_facts)
        (*list)[(*count)++] = value;
    return true;
}
static inline void *machine_alloc_from(struct machine *machine, struct slab *slab, size_t count)
{
    if (slab->bytes_left < count)
        return machine_alloc_slow(machine, slab, count);
    slab->next += count;
    slab->bytes_left -= count;
    return slab->next - count;
}
/* machine_alloc - returns COUNT zeroed bytes of the arena; COUNT is a multiple of 8. */
static inline void *machine_alloc(struct machine *machine, size_t count)
{
    return machine_alloc_from(machine, &machine->nodes, count);
}
/* machine_alloc_text - returns room for COUNT < SIZE_MAX characters and a NUL. */
static inline char *machine_alloc_text(struct machine *machine, size_t count)
{
    return machine_alloc_from(machine, &machine->chars, count + 1);
}
static inline ckpt_value *machine_new_node_sized(struct machine *machine, ckpt_value_type type, size_t more)
{
    ckpt_value *v = machine_alloc(machine, value_size_of(type) + more);
    if (v)
        value_init(v, type, machine->u.at);
    return v;
}
static inline ckpt_value *machine_new_node(struct machine *machine, ckpt_value_type type)
{
    return machine_new_node_sized(machine, type, 0);
}
