/* dcp_metadata.c - interprets the pickle of a .metadata and keeps its sizes, names and offsets.
 *
 *   Metadata{state_dict_metadata: {fqn: TensorStorageMetadata | BytesStorageMetadata},
 *            planner_data: {fqn: path}, storage_data: {MetadataIndex: _StorageInfo}, …}
 *   TensorStorageMetadata{properties, size, chunks: [ChunkStorageMetadata{offsets, sizes}]}
 *   TensorProperties      BUILD with a tuple, whose first item is the dtype
 *   MetadataIndex{fqn, offset: None or torch.Size, …}
 *   _StorageInfo{relative_path, offset, length, transform_descriptors}
 *
 * Source: torch/distributed/checkpoint/metadata.py and filesystem.py; before torch 2.0 the same classes are
 * in torch.distributed._shard. They are recognized by name; an object of any other class is DCP_OTHER.
 *
 * A chunk takes about 300 bytes while the pickle is read. BUILD moves the state of an object to its fields
 * and frees the dict. Texts are kept once, as are sizes that were seen recently, and the arguments of
 * torch.Size take no memory. A memo entry is one word. The opcodes are those that pickle.dump writes from
 * protocol 2 on; no opcode reaches below the last MARK. */
#include "format/distributed/dcp_metadata.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/unpickler.h"
#include "core/dtype.h"

#define CACHE_SLOTS  65536u /* a power of two: entries of the cache of recently seen sizes */
#define SMALL_DICT   8u     /* words of a new dict, enough for the state of most objects */
#define MAX_TEXT     65536u /* longer text is DCP_OTHER */
#define MAX_INT      ((int64_t)1 << 58)
#define MAX_COUNT    ((uint64_t)1 << 31) /* of words, of memo entries … */
#define CONSUMED_CAP UINT32_MAX          /* cap_words of a dict that BUILD moved to an object */
#define FIRST_DTYPE  64u                 /* the value of a DCP_CLASS word is a dcp_class, or this + a dtype */

static const struct {
    const char *name;
    unsigned fields;
    const char *field[4];
} classes[DCP_CLASSES] = {
    [DCP_METADATA] = {"Metadata", METADATA_FIELDS, {"state_dict_metadata", "planner_data", "storage_data"}},
    [DCP_TENSOR] = {"TensorStorageMetadata", TENSOR_FIELDS, {"properties", "size", "chunks"}},
    [DCP_BYTES] = {"BytesStorageMetadata", 0, {NULL}},
    [DCP_PROPERTIES] = {"TensorProperties", PROPERTIES_FIELDS, {"dtype"}},
    [DCP_CHUNK] = {"ChunkStorageMetadata", CHUNK_FIELDS, {"offsets", "sizes"}},
    [DCP_INDEX] = {"MetadataIndex", INDEX_FIELDS, {"fqn", "offset"}},
    [DCP_STORAGE_INFO] = {"_StorageInfo",
                          INFO_FIELDS,
                          {"relative_path", "offset", "length", "transform_descriptors"}},
    [DCP_SHARDED_TENSOR] = {"ShardedTensorStorageMetadata", 0, {NULL}},
};

/* The machine, whose values are words. The arrays of OUT count as its memory, too. */
struct dcp_machine {
    struct unpickler u;
    struct dcp_metadata *out;
    dcp_word *stack; /* u.top words */
    size_t cap_stack;
    size_t first_free; /* index of a free block of SMALL_DICT words, whose first is the next; 0: none */
    map *text_indexes;
    dcp_word *sizes_cache; /* CACHE_SLOTS entries: a DCP_SIZES word; 0: empty */
};

/* ------------------------------------------------------------------------- memory */

/* grow - makes room for MORE elements of SIZE bytes after the COUNT of the array whose pointer is at
 * ARRAY. */
static bool grow(struct dcp_machine *machine, void *array, size_t count, size_t *cap, size_t more,
                 size_t size)
{
    if (more > MAX_COUNT - count)
        return unpickler_fail(&machine->u, CKPT_ELIMIT, "makes {more} than {=2^31 values}");
    while (*cap - count < more)
        if (!unpickler_grow(&machine->u, array, cap, size))
            return false;
    return true;
}

/* add_words - adds COUNT words of DCP_NOTHING and sets *AT to the index of the first. */
static bool add_words(struct dcp_machine *machine, size_t count, size_t *at)
{
    struct dcp_metadata *out = machine->out;
    if (!grow(machine, &out->words, out->nwords, &out->cap_words, count, sizeof *out->words))
        return false;
    *at = out->nwords;
    memset(out->words + out->nwords, 0, count * sizeof *out->words);
    out->nwords += count;
    return true;
}

/* add_tuple - adds a tuple of COUNT elements, which are not set, and sets *AT to its index. */
static bool add_tuple(struct dcp_machine *machine, size_t count, size_t *at)
{
    struct dcp_metadata *out = machine->out;
    if (!grow(machine, &out->tuples, out->ntuples, &out->cap_tuples, count + 1, sizeof *out->tuples))
        return false;
    *at = out->ntuples;
    out->tuples[*at] = count;
    out->ntuples += count + 1;
    return true;
}

static dcp_word make_word(enum dcp_type type, uint64_t value) { return value << 4 | type; }

static bool push(struct dcp_machine *machine, dcp_word word)
{
    if (machine->u.top == machine->cap_stack &&
        !unpickler_grow(&machine->u, &machine->stack, &machine->cap_stack, sizeof *machine->stack))
        return false;
    machine->stack[machine->u.top++] = word;
    return true;
}

static bool put_memo(struct dcp_machine *machine, uint64_t index)
{
    return unpickler_need(&machine->u, 1) &&
           unpickler_put_memo(&machine->u, index, machine->stack[machine->u.top - 1]);
}

static bool get_memo(struct dcp_machine *machine, uint64_t index)
{
    dcp_word word = unpickler_get_memo(&machine->u, index);
    return word != DCP_NOTHING && push(machine, word);
}

/* ------------------------------------------------------------------------- values */

static bool push_int(struct dcp_machine *machine, int64_t index)
{
    bool fits = index >= -MAX_INT && index <= MAX_INT;
    return push(machine, fits ? (dcp_word)((uint64_t)index << 4 | DCP_INT) : DCP_OTHER);
}

/* push_long - executes LONG1 and LONG4 for COUNT bytes, a little-endian number in two's complement. */
static bool push_long(struct dcp_machine *machine, uint64_t count)
{
    uint64_t v = 0;
    if (count > READER_WINDOW)
        return unpickler_skip(&machine->u, count) && push(machine, DCP_OTHER);
    const unsigned char *b = unpickler_take(&machine->u, (size_t)count);
    if (!b)
        return false;
    for (size_t i = 0; i < count && i < 8; i++)
        v |= (uint64_t)b[i] << 8 * i;
    if (count && count < 8 && b[count - 1] & 0x80)
        v |= UINT64_MAX << 8 * count;
    bool too_wide = count > 9 || (count == 9 && (b[8] || v >> 63)) || (count == 8 && v >> 63);
    return too_wide ? push(machine, DCP_OTHER) : push_int(machine, (int64_t)v);
}

static bool read_line(struct dcp_machine *machine, char copy[256], ckpt_str *out)
{
    size_t n = 0;
    const unsigned char *b;
    while ((b = unpickler_take(&machine->u, 1)) && *b != '\n') {
        if (n == 255)
            return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED, "has a name of more than 255 bytes");
        copy[n++] = (char)*b;
    }
    *out = str_of(copy, n);
    return b != NULL;
}

/* push_int_line - executes INT and LONG of protocol 0, whose number is a line of text. */
static bool push_int_line(struct dcp_machine *machine)
{
    char line[256];
    ckpt_str s;
    uint64_t n;
    if (!read_line(machine, line, &s))
        return false;
    s.len -= s.len && s.ptr[s.len - 1] == 'L';
    bool negative = s.len && s.ptr[0] == '-', is_bool = s.len > 1 && s.ptr[0] == '0'; /* 00, 01 */
    if (is_bool || !str_uint(str_skip(s, negative), &n) || n > INT64_MAX)
        return push(machine, DCP_OTHER);
    return push_int(machine, negative ? -(int64_t)n : (int64_t)n);
}

static ckpt_str get_text(const void *user, uint32_t index)
{
    const struct dcp_metadata *out = user;
    return out->texts[index];
}

/* keep_text - sets *INDEX to the index of the text TEXT, which is added unless it is there. */
static bool keep_text(struct dcp_machine *machine, ckpt_str text, uint32_t *index)
{
    struct dcp_metadata *out = machine->out;
    *index = map_get(machine->text_indexes, text);
    if (*index != MAP_NONE)
        return true;
    if (!grow(machine, &out->texts, out->ntexts, &out->cap_texts, 1, sizeof *out->texts))
        return false;
    ckpt_str *kept = &out->texts[out->ntexts];
    *kept = arena_str(machine->u.a, text);
    *index = (uint32_t)out->ntexts++;
    return kept->ptr && map_put(machine->text_indexes, *kept, *index, NULL)
               ? true
               : unpickler_fail_memory(&machine->u);
}

static bool push_text(struct dcp_machine *machine, uint64_t count)
{
    uint32_t index = 0;
    if (count > MAX_TEXT)
        return unpickler_skip(&machine->u, count) && push(machine, DCP_OTHER);
    const unsigned char *b = unpickler_take(&machine->u, (size_t)count);
    if (!b)
        return false;
    ckpt_str s = str_of((const char *)b, (size_t)count);
    if (!utf8_check(s, true, NULL))
        return fail_op(machine, "has text that is {not} {=UTF-8}");
    return keep_text(machine, s, &index) && push(machine, make_word(DCP_TEXT, index));
}

static bool push_skipped(struct dcp_machine *machine, uint64_t count)
{
    return unpickler_skip(&machine->u, count) && push(machine, DCP_OTHER);
}

/* find_cached_sizes - returns the cache entry for the tuple of the COUNT integers from stack index FIRST on.
 * Sets *KNOWN if the entry is that tuple. */
MODULO static dcp_word *find_cached_sizes(struct dcp_machine *machine, size_t first, size_t count,
                                          bool *known)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ machine->stack[first + i]) * 0x9e3779b97f4a7c15u;
    dcp_word *slot = &machine->sizes_cache[hash >> 48 & (CACHE_SLOTS - 1)];
    const dcp_word *have = *slot ? machine->out->tuples + dcp_value(*slot) : NULL;
    *known = have && have[0] == count;
    for (size_t i = 0; *known && i < count; i++)
        *known = have[1 + i] == dcp_value(machine->stack[first + i]);
    return slot;
}

/* make_tuple - sets *OUT to a tuple of the COUNT topmost values, and leaves these on the stack. */
static bool make_tuple(struct dcp_machine *machine, size_t count, dcp_word *out)
{
    size_t at, first = machine->u.top - count;
    bool sizes = true, known = false;
    uint64_t i;
    for (size_t k = 0; k < count; k++)
        sizes = sizes && dcp_int(machine->stack[first + k], &i);
    dcp_word *slot = sizes ? find_cached_sizes(machine, first, count, &known) : NULL;
    if (known) {
        *out = *slot;
        return true;
    }
    if (!add_tuple(machine, count, &at))
        return false;
    for (size_t k = 0; k < count; k++) {
        dcp_word word = machine->stack[first + k];
        machine->out->tuples[at + 1 + k] = sizes ? dcp_value(word) : word;
    }
    *out = make_word(sizes ? DCP_SIZES : DCP_TUPLE, at);
    if (slot)
        *slot = *out;
    return true;
}

static bool push_tuple(struct dcp_machine *machine, size_t count)
{
    dcp_word tuple;
    if (!unpickler_need(&machine->u, count))
        return false;
    dcp_word first = count ? machine->stack[machine->u.top - count] : DCP_NOTHING;
    if (count == 1 && dcp_type(first) == DCP_SIZES)
        tuple = make_word(DCP_SIZES_ARGS, dcp_value(first));
    else if (!make_tuple(machine, count, &tuple))
        return false;
    machine->u.top -= count;
    return push(machine, tuple);
}

static bool push_tuple_above_mark(struct dcp_machine *machine)
{
    size_t from = 0;
    return unpickler_pop_mark(&machine->u, &from) && push_tuple(machine, machine->u.top - from);
}

static bool push_container(struct dcp_machine *machine, enum dcp_type type)
{
    struct dcp_metadata *out = machine->out;
    if (!grow(machine, &out->containers, out->ncontainers, &out->cap_containers, 1, sizeof *out->containers))
        return false;
    out->containers[out->ncontainers] = (struct dcp_container){0, 0, 0};
    return push(machine, make_word(type, out->ncontainers++));
}

static bool reserve_words(struct dcp_machine *machine, struct dcp_container *container, size_t more)
{
    size_t want = (size_t)container->nwords + more, at = machine->first_free,
           cap = container->cap_words < 32 ? SMALL_DICT : (size_t)container->cap_words * 2;
    if (want <= container->cap_words)
        return true;
    cap = cap > want ? cap : want;
    if (cap > MAX_COUNT)
        return unpickler_fail(&machine->u, CKPT_ELIMIT, "makes a container of {more} than {=2^31 items}");
    if (cap == SMALL_DICT && at)
        machine->first_free = (size_t)machine->out->words[at];
    else if (!add_words(machine, cap, &at))
        return false;
    dcp_word *words = machine->out->words;
    if (container->nwords)
        memcpy(&words[at], &words[container->first_word], container->nwords * sizeof *words);
    container->first_word = at;
    container->cap_words = (uint32_t)cap;
    return true;
}

/* append_to_container - moves the values at stack index FROM and above to the list or dict below them. */
static bool append_to_container(struct dcp_machine *machine, size_t from, enum dcp_type type)
{
    size_t n = machine->u.top - from;
    if (from == machine->u.fence)
        return fail_op(machine, "adds to {nothing}: there is no {=value on the stack} below");
    dcp_word to = machine->stack[from - 1];
    machine->u.top = from;
    if (dcp_type(to) == DCP_OTHER || n == 0)
        return true;
    if (dcp_type(to) != type || (type == DCP_DICT && n % 2))
        return fail_op(machine, "{cannot add} %zu item%s to the value on the stack, which is no {=%s}", n,
                       n == 1 ? "" : "s", type == DCP_DICT ? "dict for pairs" : "list");
    struct dcp_container *container = &machine->out->containers[dcp_value(to)];
    if (container->cap_words == CONSUMED_CAP)
        return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED,
                              "changes the dict that was the state of an object");
    if (!reserve_words(machine, container, n))
        return false;
    memcpy(machine->out->words + container->first_word + container->nwords, machine->stack + from,
           n * sizeof(dcp_word));
    container->nwords += (uint32_t)n;
    return true;
}

static bool append_values_above_mark(struct dcp_machine *machine, enum dcp_type type)
{
    size_t from = 0;
    return unpickler_pop_mark(&machine->u, &from) && append_to_container(machine, from, type);
}

static bool run_list_or_dict(struct dcp_machine *machine, enum dcp_type type)
{
    size_t from = 0;
    if (!unpickler_pop_mark(&machine->u, &from) || !push_container(machine, type))
        return false;
    size_t n = machine->u.top - 1 - from;
    dcp_word container = machine->stack[machine->u.top - 1];
    memmove(machine->stack + from + 1, machine->stack + from, n * sizeof *machine->stack);
    machine->stack[from] = container;
    return append_to_container(machine, from + 1, type);
}

/* drop_above_mark - replaces the values above the last MARK by nothing or, if PUSH_OTHER, DCP_OTHER. */
static bool drop_above_mark(struct dcp_machine *machine, bool push_other)
{
    size_t from = 0;
    if (!unpickler_pop_mark(&machine->u, &from))
        return false;
    machine->u.top = from;
    return !push_other || push(machine, DCP_OTHER);
}

/* ------------------------------------------------------------------------ objects */

/* find_class - returns the DCP_CLASS word of MODULE.NAME, or DCP_OTHER. */
static dcp_word find_class(ckpt_str module, ckpt_str name)
{
    if (str_is(module, "torch")) {
        ckpt_dtype dt = dtype_by_name(name);
        return str_is(name, "Size") ? make_word(DCP_CLASS, DCP_SIZE)
               : dt                 ? make_word(DCP_CLASS, FIRST_DTYPE + dt)
                                    : DCP_OTHER;
    }
    for (unsigned i = 0; i < DCP_CLASSES; i++)
        if (classes[i].name && str_starts(module, STR_LIT("torch.distributed.")) &&
            str_is(name, classes[i].name))
            return make_word(DCP_CLASS, i);
    return DCP_OTHER;
}

static bool push_global(struct dcp_machine *machine)
{
    char module[256], name[256];
    ckpt_str a, b;
    return read_line(machine, module, &a) && read_line(machine, name, &b) && push(machine, find_class(a, b));
}

static bool push_stack_global(struct dcp_machine *machine)
{
    ckpt_str module, name;
    if (!unpickler_need(&machine->u, 2))
        return false;
    if (!dcp_text(machine->out, machine->stack[machine->u.top - 2], &module) ||
        !dcp_text(machine->out, machine->stack[machine->u.top - 1], &name))
        return fail_op(machine, "has {another value} in place of {=two texts, a module and a name}");
    machine->u.top -= 2;
    return push(machine, find_class(module, name));
}

static enum dcp_class get_class(dcp_word word)
{
    return dcp_type(word) == DCP_CLASS && dcp_value(word) < DCP_CLASSES ? (enum dcp_class)dcp_value(word)
                                                                        : DCP_CLASS_OTHER;
}

static bool make_object(struct dcp_machine *machine, enum dcp_class class)
{
    size_t at = 0;
    if (!classes[class].name)
        return push(machine, DCP_OTHER);
    if (classes[class].fields && !add_words(machine, classes[class].fields, &at))
        return false;
    return push(machine, make_word(DCP_OBJECT, (uint64_t)at << 4 | class));
}

static dcp_word first_item(const struct dcp_metadata *meta, dcp_word word)
{
    size_t n;
    const dcp_word *item = dcp_elements(meta, word, &n);
    return item && n ? item[0] : DCP_NOTHING;
}

/* run_call - executes NEWOBJ, NEWOBJ_EX and REDUCE: pushes the sizes of a torch.Size, or an object. */
static bool run_call(struct dcp_machine *machine, size_t nargs)
{
    if (!unpickler_need(&machine->u, nargs + 1))
        return false;
    dcp_word callable = machine->stack[machine->u.top - nargs - 1],
             args = machine->stack[machine->u.top - nargs];
    enum dcp_class class = get_class(callable);
    machine->u.top -= nargs + 1;
    if (class != DCP_SIZE)
        return make_object(machine, class);
    if (dcp_type(args) == DCP_SIZES_ARGS)
        return push(machine, make_word(DCP_SIZES, dcp_value(args)));
    dcp_word sizes = first_item(machine->out, args);
    size_t n;
    const dcp_word *item = dcp_elements(machine->out, sizes, &n);
    if (dcp_type(sizes) != DCP_LIST)
        return push(machine, dcp_type(sizes) == DCP_SIZES ? sizes : DCP_OTHER);
    for (size_t i = 0; i < n; i++) /* torch.Size([2, 3]) */
        if (!push(machine, item[i]))
            return false;
    return push_tuple(machine, n);
}

/* free_state - frees the words of STATE, a dict whose values BUILD has moved to the fields of an object. */
static void free_state(struct dcp_machine *machine, struct dcp_container *state)
{
    if (state->cap_words == SMALL_DICT) {
        machine->out->words[state->first_word] = machine->first_free;
        machine->first_free = state->first_word;
    }
    *state = (struct dcp_container){0, 0, CONSUMED_CAP};
}

static bool set_fields(struct dcp_machine *machine, enum dcp_class class, size_t to,
                       struct dcp_container *state)
{
    ckpt_str key;
    if (state->cap_words == CONSUMED_CAP)
        return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED,
                              "uses a dict that was the state of another object");
    for (size_t i = 0; i + 1 < state->nwords; i += 2) {
        const dcp_word *pair = machine->out->words + state->first_word + i;
        bool named = dcp_text(machine->out, pair[0], &key);
        for (unsigned k = 0; named && k < classes[class].fields; k++)
            if (str_is(key, classes[class].field[k]))
                machine->out->words[to + k] = pair[1];
    }
    free_state(machine, state);
    return true;
}

/* run_build - executes BUILD: moves a state to the fields of an object. */
static bool run_build(struct dcp_machine *machine)
{
    size_t n;
    if (!unpickler_need(&machine->u, 2))
        return false;
    dcp_word state = machine->stack[--machine->u.top], to = machine->stack[machine->u.top - 1];
    if (dcp_type(to) != DCP_OBJECT)
        return true;
    enum dcp_class class = (enum dcp_class)(dcp_value(to) & 15);
    size_t at = (size_t)(dcp_value(to) >> 4);
    if (dcp_type(state) == DCP_DICT)
        return set_fields(machine, class, at, &machine->out->containers[dcp_value(state)]);
    const dcp_word *item = dcp_elements(machine->out, state, &n);
    if (class == DCP_PROPERTIES && item && n)
        machine->out->words[at + PROPERTIES_DTYPE] = item[0];
    return true;
}

/* ------------------------------------------------------------------------ opcodes */

static uint64_t take_number(struct dcp_machine *machine, size_t width)
{
    uint64_t n = 0;
    const unsigned char *b = unpickler_take(&machine->u, width);
    for (size_t i = 0; b && i < width; i++)
        n |= (uint64_t)b[i] << 8 * i;
    return n;
}

static bool pop(struct dcp_machine *machine)
{
    size_t from = 0;
    if (machine->u.nmarks && machine->u.fence == machine->u.top)
        return unpickler_pop_mark(&machine->u, &from);
    if (!unpickler_need(&machine->u, 1))
        return false;
    machine->u.top--;
    return true;
}

/* run_constant - executes the opcodes that push a constant. */
static bool run_constant(struct dcp_machine *machine)
{
    const struct pickle_op *op = &pickle_ops[machine->u.op];
    if (op->argument == PICKLE_ARG_LINE && pickle_pushes(machine->u.op, CKPT_V_INT, CKPT_V_BIGINT))
        return push_int_line(machine);
    if (!op->is_constant || op->argument == PICKLE_ARG_LINE)
        return unpickler_fail(&machine->u, CKPT_EUNSUPPORTED,
                              "is not an opcode of the .metadata of a distributed checkpoint");
    if (op->type == CKPT_V_FLOAT)
        return push_skipped(machine, op->width);
    uint64_t n = take_number(machine, op->width);
    if (machine->u.status != CKPT_OK)
        return false;
    switch (op->type) {
    case CKPT_V_INT:
        return push_int(machine, op->argument == PICKLE_ARG_I4 ? (int32_t)(uint32_t)n : (int64_t)n);
    case CKPT_V_BIGINT: return push_long(machine, n);
    case CKPT_V_STR: return push_text(machine, n);
    default: return push_skipped(machine, n);
    }
}

static bool run_op(struct dcp_machine *machine)
{
    const unsigned char *b;
    uint64_t n;
    switch (machine->u.op) {
    case PICKLE_PROTO:
        b = unpickler_take(&machine->u, 1);
        return b && unpickler_set_protocol(&machine->u, *b);
    case PICKLE_FRAME: return unpickler_skip(&machine->u, 8);
    case PICKLE_MARK: return unpickler_push_mark(&machine->u);
    case PICKLE_POP: return pop(machine);
    case PICKLE_POP_MARK: return drop_above_mark(machine, false);
    case PICKLE_DUP:
        return unpickler_need(&machine->u, 1) && push(machine, machine->stack[machine->u.top - 1]);
    case PICKLE_MEMOIZE: return put_memo(machine, machine->u.memo_count);
    case PICKLE_BINPUT:
    case PICKLE_LONG_BINPUT:
        n = take_number(machine, pickle_ops[machine->u.op].width);
        return machine->u.status == CKPT_OK && put_memo(machine, n);
    case PICKLE_BINGET:
    case PICKLE_LONG_BINGET:
        n = take_number(machine, pickle_ops[machine->u.op].width);
        return machine->u.status == CKPT_OK && get_memo(machine, n);
    case PICKLE_EMPTY_TUPLE: return push_tuple(machine, 0);
    case PICKLE_TUPLE1: return push_tuple(machine, 1);
    case PICKLE_TUPLE2: return push_tuple(machine, 2);
    case PICKLE_TUPLE3: return push_tuple(machine, 3);
    case PICKLE_TUPLE: return push_tuple_above_mark(machine);
    case PICKLE_EMPTY_LIST: return push_container(machine, DCP_LIST);
    case PICKLE_EMPTY_DICT: return push_container(machine, DCP_DICT);
    case PICKLE_LIST: return run_list_or_dict(machine, DCP_LIST);
    case PICKLE_DICT: return run_list_or_dict(machine, DCP_DICT);
    case PICKLE_EMPTY_SET: return push(machine, DCP_OTHER);
    case PICKLE_FROZENSET: return drop_above_mark(machine, true);
    case PICKLE_ADDITEMS: return drop_above_mark(machine, false);
    case PICKLE_APPEND:
        return unpickler_need(&machine->u, 1) && append_to_container(machine, machine->u.top - 1, DCP_LIST);
    case PICKLE_APPENDS: return append_values_above_mark(machine, DCP_LIST);
    case PICKLE_SETITEM:
        return unpickler_need(&machine->u, 2) && append_to_container(machine, machine->u.top - 2, DCP_DICT);
    case PICKLE_SETITEMS: return append_values_above_mark(machine, DCP_DICT);
    case PICKLE_GLOBAL: return push_global(machine);
    case PICKLE_STACK_GLOBAL: return push_stack_global(machine);
    case PICKLE_REDUCE:
    case PICKLE_NEWOBJ: return run_call(machine, 1);
    case PICKLE_NEWOBJ_EX: return run_call(machine, 2);
    case PICKLE_BUILD: return run_build(machine);
    default: return run_constant(machine);
    }
}

/* run_pickle - runs opcodes up to and including STOP; the root is the topmost word. */
static bool run_pickle(struct dcp_machine *machine)
{
    for (;;) {
        machine->u.at = unpickler_offset(&machine->u);
        machine->u.op = 0;
        if (machine->u.at == machine->u.r.end)
            return unpickler_fail(&machine->u, CKPT_ETRUNCATED, "the pickle ends {without} {=STOP}");
        const unsigned char *op = unpickler_take(&machine->u, 1);
        if (!op)
            return false;
        machine->u.op = *op;
        if (machine->u.op == PICKLE_STOP)
            break;
        if (!run_op(machine))
            return false;
    }
    if (!unpickler_need(&machine->u, 1))
        return false;
    machine->out->root = machine->stack[machine->u.top - 1];
    return true;
}

ckpt_status dcp_metadata_read(arena *a, source *src, uint64_t max, struct dcp_metadata *out, ckpt_error *err)
{
    struct dcp_machine m = {.out = out};
    size_t first; /* word 0, because index 0 means none */
    *out = (struct dcp_metadata){0};
    m.text_indexes = map_new_index(1024, get_text, out);
    m.sizes_cache = calloc(CACHE_SLOTS, sizeof *m.sizes_cache);
    if (unpickler_init(&m.u, a, src, 0, src->size, err) == CKPT_OK) {
        m.u.memory_left = max;
        if (!m.text_indexes || !m.sizes_cache)
            (void)unpickler_fail_memory(&m.u);
        else
            (void)(add_words(&m, 1, &first) && run_pickle(&m));
    }
    unpickler_free(&m.u);
    map_free(m.text_indexes);
    free(m.sizes_cache);
    free(m.stack);
    if (m.u.status != CKPT_OK)
        dcp_metadata_free(out);
    return m.u.status;
}

void dcp_metadata_keep_tuples(struct dcp_metadata *meta)
{
    free(meta->words);
    free(meta->containers);
    meta->words = NULL;
    meta->containers = NULL;
}

void dcp_metadata_free(struct dcp_metadata *meta)
{
    dcp_metadata_keep_tuples(meta);
    free(meta->tuples);
    free(meta->texts);
    *meta = (struct dcp_metadata){0};
}

/* ------------------------------------------------------------------------ reading */

bool dcp_text(const struct dcp_metadata *meta, dcp_word word, ckpt_str *out)
{
    if (dcp_type(word) != DCP_TEXT)
        return false;
    *out = meta->texts[dcp_value(word)];
    return true;
}

const uint64_t *dcp_sizes(const struct dcp_metadata *meta, dcp_word word, uint32_t *count)
{
    if (dcp_type(word) != DCP_SIZES || meta->tuples[dcp_value(word)] > UINT32_MAX)
        return NULL;
    *count = (uint32_t)meta->tuples[dcp_value(word)];
    return meta->tuples + dcp_value(word) + 1;
}

const dcp_word *dcp_elements(const struct dcp_metadata *meta, dcp_word word, size_t *count)
{
    *count = 0;
    if (dcp_type(word) == DCP_TUPLE) {
        *count = (size_t)meta->tuples[dcp_value(word)];
        return meta->tuples + dcp_value(word) + 1;
    }
    if (dcp_type(word) != DCP_LIST && dcp_type(word) != DCP_DICT)
        return NULL;
    *count = meta->containers[dcp_value(word)].nwords;
    return meta->words + meta->containers[dcp_value(word)].first_word;
}

dcp_word dcp_field(const struct dcp_metadata *meta, dcp_word word, enum dcp_class class, unsigned field)
{
    return dcp_is_instance(word, class) ? meta->words[(dcp_value(word) >> 4) + field] : DCP_NOTHING;
}

ckpt_dtype dcp_dtype(dcp_word word)
{
    return dcp_type(word) == DCP_CLASS && dcp_value(word) > FIRST_DTYPE
               ? (ckpt_dtype)(dcp_value(word) - FIRST_DTYPE)
               : CKPT_DT_NONE;
}
