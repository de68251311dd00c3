/* value.h - the value graph: a description of the objects that a pickle would create, without creating
 * them. Nodes have an identity: a node may be reachable by several paths, and from itself. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "core/dtype.h"
#include "io/source.h"

enum value_call_kind { CALL_REDUCE, CALL_NEWOBJ, CALL_NEWOBJ_EX, CALL_OBJ, CALL_INST };

enum value_flag {
    VALUE_SPAN = 1,           /* STR, STR8, BYTES or BYTEARRAY too large to copy: u.span */
    VALUE_SHARED = 2,         /* reached more than once: a rewrite must memoize it */
    VALUE_NOT_REWRITABLE = 4, /* because of BUILD on an object that is no CALL, or ADDITEMS on a CALL */
    VALUE_DOTTED = 8,         /* GLOBAL of protocol >= 4: its name is looked up at each dot */
    VALUE_PYTHON3_NAME = 16,  /* GLOBAL of protocol >= 3: its name is not one of Python 2 (core/python2.h) */
    VALUE_ON_PATH = 16,    /* other nodes: on the path from the root to the node that graph/walk.c visits */
    VALUE_ROW = 32,        /* TENSOR created for a plan: ROW is in the table of the plan's own file */
    VALUE_BY_RULE = 32,    /* other nodes: a rule of `ckpt edit` has set it, so that it cannot be left out */
    VALUE_WRAPS = 128,     /* CALL that is read as the value in it, view_content() */
    VALUE_LAZY_PAIRS = 8,  /* DICT whose pairs value_pairs makes: they are in a struct lazy_pairs */
    VALUE_ABBREVIATED = 64 /* STR in place of a value of the metadata that is too long to be shown */
};

typedef struct {
    ckpt_value *key, *val;
} value_pair;

/* The pairs of a DICT that are made when they are first needed, by any thread: most commands that list
 * tensors need none. MAKE cannot fail, as all memory is allocated. */
struct lazy_pairs {
    void (*make)(struct lazy_pairs *);
    const void *from;
    atomic_bool is_made;
    uint32_t n;
    value_pair pairs[];
};

/* Text or bytes that were left in the file. */
struct value_span {
    source *src; /* not owned: lives as long as the file */
    uint64_t off;
    uint64_t nbytes;
    uint64_t count; /* code points of STR, else nbytes */
};

/* What few calls have: most create a tensor or an empty dict, which is not changed afterwards. */
struct value_extra {
    ckpt_value *kwargs;  /* NEWOBJ_EX, else NULL */
    ckpt_value **states; /* BUILD operands in order */
    value_pair *pairs;   /* SETITEM(S) */
    ckpt_value **items;  /* APPEND(S), ADDITEMS */
    uint32_t nstates, npairs, nitems;
    uint32_t cap_states, cap_pairs, cap_items;
    uint32_t entries_before_build; /* number of items and pairs added before the first BUILD */
};

struct value_call {
    ckpt_value *callable; /* usually a GLOBAL; any node in a hostile file */
    ckpt_value *args;     /* usually a TUPLE */
};

struct ckpt_value {
    uint8_t type; /* ckpt_value_type */
    uint8_t flags;
    uint16_t offset_high; /* of 48 bits, see value_offset */
    uint32_t offset_low;
    union {
        bool b;
        int64_t i;
        double f;
        /* clang-format off */
        ckpt_str str; /* STR, STR8, BYTES, BYTEARRAY; BIGINT: little-endian two's complement */
        struct value_span *span;
        struct { ckpt_value **items; uint32_t n, cap; } seq;  /* LIST TUPLE SET FROZENSET */
        struct { value_pair *pairs; uint32_t n, cap; } dict;  /* DICT */
        struct {
            ckpt_str *module_name;
        } global;                                             /* [0]: module, [1]: name */
        struct value_call call;                               /* CALL: the head of a value_object */
        ckpt_value *pid;                                      /* PERSID */
        struct { uint64_t other; uint32_t row; } listed;      /* TENSOR, PERSID: after i or pid, value_row */
        /* clang-format on */
    } u;
};

/* The memory of a LIST. */
struct value_list {
    ckpt_value head;
    uint32_t row;
};

/* The memory of a CALL. */
struct value_object {
    ckpt_value head;
    const struct value_extra *extra; /* never NULL; value_make_extra() returns a writable one */
    uint32_t row;
    uint8_t kind; /* enum value_call_kind */
};

/* value_size_of - returns the size of a node of TYPE in memory. */
static inline size_t value_size_of(ckpt_value_type type)
{
    return type == CKPT_V_CALL   ? sizeof(struct value_object)
           : type == CKPT_V_LIST ? sizeof(struct value_list)
                                 : sizeof(ckpt_value);
}

/* value_offset - returns the offset of the opcode that created VALUE in its pickle; CKPT_NO_OFFSET: it is not
 * known, or has more than 48 bits. */
static inline uint64_t value_offset(const ckpt_value *value)
{
    uint64_t offset = (uint64_t)value->offset_high << 32 | value->offset_low;
    return offset == UINT64_MAX >> 16 ? CKPT_NO_OFFSET : offset;
}
static inline void value_set_offset(ckpt_value *value, uint64_t offset)
{
    offset = offset >> 48 ? UINT64_MAX : offset;
    value->offset_high = (uint16_t)(offset >> 32);
    value->offset_low = (uint32_t)offset;
}

/* value_row - returns the number of VALUE's tensor, or CKPT_NO_TENSOR. Only nodes of these types have one. */
static inline uint32_t value_row(const ckpt_value *value)
{
    switch (value->type) {
    case CKPT_V_CALL: return ((const struct value_object *)(const void *)value)->row;
    case CKPT_V_LIST: return ((const struct value_list *)(const void *)value)->row;
    case CKPT_V_TENSOR:
    case CKPT_V_PERSID: return value->u.listed.row;
    default: return CKPT_NO_TENSOR;
    }
}
/* value_set_row - sets the number of VALUE's tensor, if it is of a type that has one. */
static inline void value_set_row(ckpt_value *value, uint32_t row)
{
    if (value->type == CKPT_V_CALL)
        ((struct value_object *)(void *)value)->row = row;
    else if (value->type == CKPT_V_LIST)
        ((struct value_list *)(void *)value)->row = row;
    else if (value->type == CKPT_V_TENSOR || value->type == CKPT_V_PERSID)
        value->u.listed.row = row;
}

static inline const struct value_extra *value_extra_of(const ckpt_value *call)
{
    return ((const struct value_object *)(const void *)call)->extra;
}

/* value_init - makes VALUE, which is zeroed and has the size of TYPE, a node without a tensor. */
static inline void value_init(ckpt_value *value, ckpt_value_type type, uint64_t offset)
{
    value->type = (uint8_t)type;
    value_set_offset(value, offset);
    value_set_row(value, CKPT_NO_TENSOR);
}
/* value_become_tensor - makes VALUE a TENSOR, which keeps its row; its other fields are no longer used. */
static inline void value_become_tensor(ckpt_value *value)
{
    uint32_t row = value_row(value);
    value->type = CKPT_V_TENSOR;
    value_set_row(value, row);
}
static inline enum value_call_kind value_call_kind_of(const ckpt_value *call)
{
    return (enum value_call_kind)((const struct value_object *)(const void *)call)->kind;
}
/* value_new - returns a zeroed node of TYPE, which is not CALL, without a tensor. NULL: out of memory. */
ckpt_value *value_new(arena *a, ckpt_value_type type, uint64_t offset);
/* value_str - returns a STR that refers to the bytes of TEXT; a STR8, as of Python 2, if TEXT is not
 * UTF-8. */
ckpt_value *value_str(arena *a, ckpt_str text);
void value_init_str(ckpt_value *value, ckpt_str text); /* makes V such a node */
ckpt_value *value_int(arena *a, int64_t index);
ckpt_value *value_uint(arena *a, uint64_t number); /* a BIGINT above INT64_MAX */
ckpt_value *value_float(arena *a, double number);
ckpt_value *value_bool(arena *a, bool flag);
/* value_number - returns the element of DT with the bits BITS as INT, BIGINT, FLOAT or BOOL. An element of DT
 * is one number of at most 64 bits. */
ckpt_value *value_number(arena *a, ckpt_dtype dt, uint64_t bits);
ckpt_value *value_global(arena *a, ckpt_str module, ckpt_str name, uint64_t offset);
ckpt_value *value_tuple(arena *a, uint32_t count, ckpt_value *const *items);
ckpt_value *value_call(arena *a, enum value_call_kind kind, ckpt_value *callable, ckpt_value *args,
                       uint64_t offset);
/* value_no_extra - the value_extra, all empty, of the calls that have none of their own. */
extern const struct value_extra value_no_extra;
static inline void value_init_call(ckpt_value *value, enum value_call_kind kind, ckpt_value *callable,
                                   ckpt_value *args)
{
    struct value_object *o = (struct value_object *)(void *)value;
    value->u.call = (struct value_call){callable, args};
    o->extra = &value_no_extra;
    o->kind = (uint8_t)kind;
}
/* value_make_extra - returns the value_extra of CALL, allocated on first use. NULL: out of memory. */
struct value_extra *value_make_extra(arena *a, ckpt_value *call);
ckpt_value *value_ordered_dict(arena *a);
bool value_append(arena *a, ckpt_value *seq_or_call, ckpt_value *item);
bool value_put(arena *a, ckpt_value *dict_or_call, ckpt_value *key, ckpt_value *val);
/* value_put_first - puts COUNT PAIRS before all other entries of CALL, and before its BUILD. False: no
 * memory. */
bool value_put_first(arena *a, ckpt_value *call, const value_pair *pairs, uint32_t count);
bool value_add_state(arena *a, ckpt_value *call, ckpt_value *state);

/* Reading: each of the functions below accepts any node. */
/* value_is_sequence - returns true if VALUE is a LIST, TUPLE, SET or FROZENSET. */
static inline bool value_is_sequence(const ckpt_value *value)
{
    return value && (value->type == CKPT_V_LIST || value->type == CKPT_V_TUPLE || value->type == CKPT_V_SET ||
                     value->type == CKPT_V_FROZENSET);
}
ckpt_str value_module(const ckpt_value *value); /* of a GLOBAL, else empty */
ckpt_str value_name(const ckpt_value *value);
/* value_text_or_type - writes VALUE to BUF for a message, as ckpt_value_text does. If nothing fits, because
 * a number is never cut off, writes VALUE's type. */
void value_text_or_type(const ckpt_value *value, size_t nodes, char *buf, size_t cap);
bool value_is_global(const ckpt_value *value, const char *module, const char *name);
/* value_calls - returns true if VALUE is a CALL of GLOBAL MODULE NAME with at least NARGS arguments. */
bool value_calls(const ckpt_value *value, const char *module, const char *name, uint32_t nargs);
/* value_item - returns item INDEX of a sequence or CALL; NULL past the end. */
static inline ckpt_value *value_item(const ckpt_value *value, uint32_t index)
{
    if (value_is_sequence(value))
        return index < value->u.seq.n ? value->u.seq.items[index] : NULL;
    return value && value->type == CKPT_V_CALL && index < value_extra_of(value)->nitems
               ? value_extra_of(value)->items[index]
               : NULL;
}
/* value_arg - returns argument INDEX of a CALL; NULL past the end. */
static inline ckpt_value *value_arg(const ckpt_value *value, uint32_t index)
{
    return value && value->type == CKPT_V_CALL ? value_item(value->u.call.args, index) : NULL;
}
static inline uint32_t value_nargs(const ckpt_value *value)
{
    return value && value->type == CKPT_V_CALL && value_is_sequence(value->u.call.args)
               ? value->u.call.args->u.seq.n
               : 0;
}
uint32_t value_count(const ckpt_value *value); /* items of a sequence, pairs of a mapping */
/* value_pairs - returns the *COUNT pairs of a DICT or, from SETITEM and SETITEMS, of a CALL; else NULL. */
const value_pair *value_pairs(const ckpt_value *value, uint32_t *count);
/* value_get - returns the last value under the text key NAME (STR or STR8), or NULL. */
ckpt_value *value_get(const ckpt_value *mapping, const char *name);
/* value_text - sets *OUT to the text of a STR or STR8 in memory; false for other nodes. */
static inline bool value_text(const ckpt_value *value, ckpt_str *out)
{
    if (!value || (value->type != CKPT_V_STR && value->type != CKPT_V_STR8) || value->flags & VALUE_SPAN)
        return false;
    *out = value->u.str;
    return true;
}
/* value_integer - sets *OUT to the value of an INT or BOOL; false for other nodes. */
static inline bool value_integer(const ckpt_value *value, int64_t *out)
{
    if (!value || (value->type != CKPT_V_INT && value->type != CKPT_V_BOOL))
        return false;
    *out = value->type == CKPT_V_INT ? value->u.i : value->u.b;
    return true;
}
/* value_size - sets *OUT to the value of an INT or BOOL that is not negative; false for other nodes. */
static inline bool value_size(const ckpt_value *value, uint64_t *out)
{
    int64_t i;
    if (!value_integer(value, &i) || i < 0)
        return false;
    *out = (uint64_t)i;
    return true;
}
/* value_source_class - returns the class in PID, the persistent id by which torch's legacy and tar formats
 * save a class with its source: ('module', class, file, source) or (class, file, source). NULL: a different
 * id. */
const ckpt_value *value_source_class(const ckpt_value *pid);
/* value_state - returns the last BUILD operand of a CALL, or NULL. */
ckpt_value *value_state(const ckpt_value *value);
/* value_index_keys - returns a map from each text key of DICT to the number of its pair; NULL: no memory. */
map *value_index_keys(const ckpt_value *dict);
