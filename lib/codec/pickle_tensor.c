/* pickle_tensor.c - reads at once the opcodes that torch.save writes for each tensor of a state dict. Run one
 * by one, they took a third of the instructions of opening a file with 20,000 tensors. After the function and
 * a MARK:
 *
 *   MARK, GET 'storage', GET class, BINUNICODE key, PUT, GET location, numel, TUPLE, PUT, BINPERSID
 *   offset, size, stride, NEWTRUE or NEWFALSE, GET OrderedDict, EMPTY_TUPLE, REDUCE, PUT
 *   TUPLE, PUT, REDUCE, PUT
 *
 * Size and stride are integers, TUPLE1 to TUPLE3, PUT. Each PUT takes the next memo entry, and each opcode
 * was used before. Whatever differs is left to pickle_read.c, which would make the same nodes. */
#include "codec/pickle_machine.h"

#define MAX_BYTES 160u /* of the opcodes and their arguments, and more than is read where they differ */
#define MAX_KEY   16u
#define MAX_SIZES 3u
#define PUTS      7u

struct integer {
    const unsigned char *at, *end; /* of its opcode and argument */
    int64_t number;
};

/* A size or stride. */
struct sizes {
    struct integer integers[MAX_SIZES];
    const unsigned char *tuple; /* the opcode after them */
    size_t count;
};

/* Opcodes that were compared: the nodes that the GETs push, and where the others are. */
struct tensor_opcodes {
    ckpt_value *tag, *klass, *location, *dict;
    const unsigned char *key, *requires_grad, *args, *call, *end;
    struct integer numel, offset;
    struct sizes size, stride;
};

/* The nodes that a tensor does not share with others. */
struct tensor_nodes {
    struct value_object call;
    ckpt_value args, *arg_items[6], persid, id, *id_items[5], key;
};

static bool was_used(const struct machine *machine, uint8_t op)
{
    return machine->facts->first_use[op] != UINT64_MAX;
}

/* The functions match_… compare the opcodes at *AT, and move *AT to those after them. */

static inline bool match_op(const unsigned char **at, uint8_t op) { return *(*at)++ == op; }

/* match_index - compares an opcode with BYTE_OP and LONG_OP, and sets *INDEX to its argument. */
static inline bool match_index(const struct machine *machine, const unsigned char **at, uint8_t byte_op,
                               uint8_t long_op, uint64_t *index)
{
    uint8_t op = *(*at)++;
    *index = op == byte_op ? **at : load_u32le(*at);
    *at += op == byte_op ? 1 : 4;
    return (op == byte_op || op == long_op) && was_used(machine, op);
}

static inline bool match_get(const struct machine *machine, const unsigned char **at, ckpt_value **node)
{
    uint64_t index;
    if (!match_index(machine, at, PICKLE_BINGET, PICKLE_LONG_BINGET, &index) || index >= machine->u.memo_len)
        return false;
    *node = (ckpt_value *)(uintptr_t)machine->u.memo[index];
    return *node && *node != machine->empty_hooks;
}

/* match_put - compares PUT number COUNT of the tensor. */
static inline bool match_put(const struct machine *machine, const unsigned char **at, unsigned count)
{
    uint64_t index;
    return match_index(machine, at, PICKLE_BINPUT, PICKLE_LONG_BINPUT, &index) &&
           index == machine->u.memo_len + count;
}

/* match_key - compares the key of a storage, which is a number. */
static inline bool match_key(const unsigned char **at, const unsigned char **key)
{
    *key = *at;
    uint32_t length = load_u32le(*at + 1);
    if (!match_op(at, PICKLE_BINUNICODE) || length > MAX_KEY)
        return false;
    *at += 4;
    for (uint32_t i = 0; i < length; i++, ++*at)
        if (**at < '0' || **at > '9')
            return false;
    return true;
}

static inline bool match_int(const struct machine *machine, const unsigned char **at, struct integer *integer)
{
    uint8_t op = **at;
    integer->at = *at;
    integer->number = pickle_load_int(op, *at + 1);
    integer->end = *at += 1 + pickle_ops[op].width;
    return (op == PICKLE_BININT || op == PICKLE_BININT1 || op == PICKLE_BININT2) && was_used(machine, op);
}

/* match_sizes - compares integers and their tuple. */
static inline bool match_sizes(const struct machine *machine, const unsigned char **at, struct sizes *sizes)
{
    for (sizes->count = 0; **at < PICKLE_TUPLE1; sizes->count++)
        if (sizes->count == MAX_SIZES || !match_int(machine, at, &sizes->integers[sizes->count]))
            return false;
    sizes->tuple = *at;
    uint8_t op = *(*at)++;
    return sizes->count && op == PICKLE_TUPLE1 + sizes->count - 1 && was_used(machine, op);
}

static inline bool match_bool(const struct machine *machine, const unsigned char **at,
                              const unsigned char **constant)
{
    *constant = *at;
    uint8_t op = *(*at)++;
    return (op == PICKLE_NEWTRUE || op == PICKLE_NEWFALSE) && was_used(machine, op);
}

static bool match_tensor(const struct machine *machine, const unsigned char *at, struct tensor_opcodes *ops)
{
    bool begins = match_op(&at, PICKLE_MARK) && match_get(machine, &at, &ops->tag) &&
                  match_get(machine, &at, &ops->klass) && match_key(&at, &ops->key) &&
                  match_put(machine, &at, 0) && match_get(machine, &at, &ops->location) &&
                  match_int(machine, &at, &ops->numel) && match_op(&at, PICKLE_TUPLE) &&
                  match_put(machine, &at, 1) && match_op(&at, PICKLE_BINPERSID) &&
                  match_int(machine, &at, &ops->offset) && match_sizes(machine, &at, &ops->size) &&
                  match_put(machine, &at, 2) && match_sizes(machine, &at, &ops->stride) &&
                  match_put(machine, &at, 3) && match_bool(machine, &at, &ops->requires_grad) &&
                  match_get(machine, &at, &ops->dict) && match_op(&at, PICKLE_EMPTY_TUPLE) &&
                  match_op(&at, PICKLE_REDUCE) && match_put(machine, &at, 4);
    ops->args = at;
    bool has_args = begins && match_op(&at, PICKLE_TUPLE) && match_put(machine, &at, 5);
    ops->call = at;
    bool ends = has_args && match_op(&at, PICKLE_REDUCE) && match_put(machine, &at, 6);
    ops->end = at;
    return ends && ops->dict == machine->empty_hooks->u.call.callable;
}

/* set_op - makes the opcode at AT the current one. Returns its offset, which its node gets. */
static uint64_t set_op(struct machine *machine, const unsigned char *at)
{
    machine->u.op = *at;
    return machine->u.at = machine->u.lim_pos - (uint64_t)(machine->u.lim - at);
}

static ckpt_value *make_int(struct machine *machine, const struct integer *integer)
{
    (void)set_op(machine, integer->at);
    return machine_get_int(machine, integer->number);
}

static ckpt_value *make_sizes(struct machine *machine, const struct sizes *sizes)
{
    int64_t numbers[MAX_SIZES];
    ckpt_value *items[MAX_SIZES];
    for (size_t i = 0; i < sizes->count; i++)
        numbers[i] = sizes->integers[i].number;
    ckpt_value *seen = machine_find_tuple(machine, numbers, sizes->count);
    if (seen)
        return seen;
    for (size_t i = 0; i < sizes->count; i++)
        if (!(items[i] = make_int(machine, &sizes->integers[i])))
            return NULL;
    (void)set_op(machine, sizes->tuple);
    return machine_make_tuple(machine, items, sizes->count);
}

static bool make_key(struct machine *machine, const unsigned char *at, ckpt_value *key)
{
    value_init(key, CKPT_V_STR, set_op(machine, at));
    return machine_copy_text(machine, str_of((const char *)at + 5, load_u32le(at + 1)), &key->u.str);
}

static void make_tuple(struct machine *machine, const unsigned char *at, ckpt_value *tuple, uint32_t count)
{
    value_init(tuple, CKPT_V_TUPLE, set_op(machine, at));
    tuple->u.seq.items = (ckpt_value **)(tuple + 1);
    tuple->u.seq.n = tuple->u.seq.cap = count;
}

/* make_storage - makes the persistent id of the storage: nodes->persid and what it consists of. */
static bool make_storage(struct machine *machine, const struct tensor_opcodes *ops,
                         struct tensor_nodes *nodes)
{
    ckpt_value **items = nodes->id_items;
    items[0] = ops->tag;
    items[1] = ops->klass;
    items[2] = &nodes->key;
    items[3] = ops->location;
    if (!make_key(machine, ops->key, &nodes->key) || !(items[4] = make_int(machine, &ops->numel)))
        return false;
    make_tuple(machine, ops->numel.end, &nodes->id, 5);
    value_init(&nodes->persid, CKPT_V_PERSID, set_op(machine, ops->offset.at - 1));
    nodes->persid.u.pid = &nodes->id;
    return true;
}

static bool make_arguments(struct machine *machine, const struct tensor_opcodes *ops,
                           struct tensor_nodes *nodes)
{
    ckpt_value **items = nodes->arg_items;
    items[0] = &nodes->persid;
    items[4] = *ops->requires_grad == PICKLE_NEWTRUE ? machine->true_node : machine->false_node;
    items[5] = machine->empty_hooks;
    if (!(items[1] = make_int(machine, &ops->offset)) || !(items[2] = make_sizes(machine, &ops->size)) ||
        !(items[3] = make_sizes(machine, &ops->stride)))
        return false;
    make_tuple(machine, ops->args, &nodes->args, 6);
    return true;
}

static void put_nodes(struct machine *machine, const struct tensor_nodes *nodes)
{
    const ckpt_value *const memoized[PUTS] = {&nodes->key,         &nodes->id,          nodes->arg_items[2],
                                              nodes->arg_items[3], nodes->arg_items[5], &nodes->args,
                                              &nodes->call.head};
    struct unpickler *u = &machine->u;
    for (size_t i = 0; i < PUTS; i++)
        u->memo[u->memo_len + i] = (uintptr_t)memoized[i];
    u->memo_len += PUTS;
    u->memo_count += PUTS;
}

/* make_tensor - replaces the function on the stack by its call. */
static bool make_tensor(struct machine *machine, const struct tensor_opcodes *ops)
{
    struct pickle_facts *f = machine->facts;
    ckpt_value **top = &machine->stack[machine->u.top - 1];
    struct tensor_nodes *nodes = machine_alloc(machine, sizeof *nodes);
    if (!nodes || !make_storage(machine, ops, nodes) || !make_arguments(machine, ops, nodes))
        return false;
    ckpt_value *call = &nodes->call.head;
    value_init(call, CKPT_V_CALL, set_op(machine, ops->call));
    value_init_call(call, CALL_REDUCE, *top, &nodes->args);
    *top = call;
    ops->tag->flags |= VALUE_SHARED;
    ops->klass->flags |= VALUE_SHARED;
    ops->location->flags |= VALUE_SHARED;
    ops->dict->flags |= VALUE_SHARED;
    put_nodes(machine, nodes);
    machine->u.p = ops->end;
    return machine_add_fact(machine, &f->persids, &f->npersids, &f->cap_persids, &nodes->persid) &&
           machine_add_fact(machine, &f->calls, &f->ncalls, &f->cap_calls, call);
}

/* may_take_tensor - returns true if the opcodes of a tensor may follow, and there is room for them. That
 * empty_hooks is set implies that EMPTY_TUPLE and REDUCE were used. */
static bool may_take_tensor(const struct machine *machine)
{
    const struct unpickler *u = &machine->u;
    return (size_t)(u->lim - u->p) >= MAX_BYTES && *u->p == PICKLE_MARK && machine->empty_hooks &&
           was_used(machine, PICKLE_TUPLE) && was_used(machine, PICKLE_BINPERSID) &&
           was_used(machine, PICKLE_BINUNICODE) && !u->sparse_index && u->memo_cap - u->memo_len >= PUTS &&
           machine->frame_end == UINT64_MAX && u->top > u->fence &&
           machine->stack[u->top - 1]->type == CKPT_V_GLOBAL;
}

bool machine_take_tensor(struct machine *machine, bool *taken)
{
    struct tensor_opcodes ops;
    *taken = may_take_tensor(machine) && match_tensor(machine, machine->u.p, &ops);
    return !*taken || make_tensor(machine, &ops);
}
