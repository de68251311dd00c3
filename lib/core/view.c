/* view.c - objects as containers. The forms are those of object.__reduce_ex__ and the __reduce__ methods of
 * collections and torch:
 *
 *   OrderedDict   REDUCE(OrderedDict, ()) SETITEMS; Python 2: one argument, a list of [key, value] lists
 *   Counter       REDUCE(Counter, (dict,)); so FrozenDict of Flax, FlatMapping of Haiku
 *   defaultdict   REDUCE(defaultdict, (factory,)) SETITEMS
 *   set, deque    REDUCE(set, (list,))
 *   torch.Size    REDUCE(Size, (tuple,))
 *   subclass      of dict or list: NEWOBJ(cls, …) SETITEMS or APPENDS
 *   instance      NEWOBJ(cls, ()) BUILD(dict) or BUILD((dict or None, slots dict))
 *
 * What replaces NEWOBJ(cls, args) and NEWOBJ_EX(cls, args, kwargs) (CPython, Lib/copyreg.py and pickle.py):
 *
 *   protocol 0, 1   REDUCE(copy_reg._reconstructor, (cls, base, base(object))), without args
 *   by a function   REDUCE(copyreg.__newobj__, (cls, *args))
 *                   REDUCE(copyreg.__newobj_ex__, (cls, args, kwargs))
 *   protocol 2, 3   REDUCE(functools.partial(cls.__new__, cls, *args, **kwargs), ()); a partial is
 *                   REDUCE(functools.partial, (function,)) BUILD((function, args, kwargs, attributes)) */
#include "core/view.h"

#include "core/reference.h"

static bool is_call(const ckpt_value *value) { return value && value->type == CKPT_V_CALL; }

bool is_builtin(const ckpt_value *value, const char *name)
{
    return value_is_global(value, "builtins", name) || value_is_global(value, "__builtin__", name);
}

static bool calls_copyreg(const ckpt_value *value, const char *name, uint32_t nargs)
{
    return value_calls(value, "copyreg", name, nargs) || value_calls(value, "copy_reg", name, nargs);
}

static const ckpt_value *none_if_empty(const ckpt_value *kwargs)
{
    bool is_empty = kwargs && kwargs->type == CKPT_V_DICT && kwargs->u.dict.n == 0;
    return is_empty ? NULL : kwargs;
}

/* read_partial_new - sets *OUT if VALUE calls functools.partial(cls.__new__, cls, …) with no arguments. */
static bool read_partial_new(const ckpt_value *value, struct creation *out)
{
    struct reference function;
    const ckpt_value *maker = value->u.call.callable, *state = value_state(maker),
                     *args = value_item(state, 1);
    if (!value_calls(maker, "functools", "partial", 1) || value_nargs(value) || value_count(args) == 0 ||
        args->type != CKPT_V_TUPLE || !reference_of(value_item(state, 0), &function) ||
        !str_is(reference_last(&function), "__new__"))
        return false;
    *out = (struct creation){.class_node = value_item(args, 0),
                             .args = args,
                             .first_arg = 1,
                             .kwargs = none_if_empty(value_item(state, 2)),
                             .by_new = true};
    return true;
}

/* read_reconstructor - returns what VALUE, copyreg._reconstructor(class, base, base(object)), creates.
 * Classes with the base tuple, str, int, float or bytes have base(object) as arguments in later protocols. */
static struct creation read_reconstructor(const ckpt_value *value)
{
    const ckpt_value *base = value_arg(value, 1), *content = value_arg(value, 2);
    struct creation made = {.class_node = value_arg(value, 0), .base = base, .by_new = true};
    bool is_value = is_builtin(base, "str") || is_builtin(base, "int") || is_builtin(base, "float") ||
                    is_builtin(base, "bytes") || is_builtin(base, "unicode") || is_builtin(base, "long");
    if (is_builtin(base, "tuple") && content->type == CKPT_V_TUPLE) {
        made.args = content;
    } else if (is_builtin(base, "complex") && is_call(content) &&
               is_builtin(content->u.call.callable, "complex")) {
        made.args = content->u.call.args;
    } else if (is_value) {
        made.args = value->u.call.args;
        made.first_arg = 2;
    } else if (content->type != CKPT_V_NONE) {
        made.content = content;
    }
    return made;
}

/* copies_dict - returns true if VALUE calls a mapping class, which keeps a copy of its argument, with a
 * dict. */
static bool copies_dict(const ckpt_value *value)
{
    bool is_mapping = value_calls(value, "collections", "Counter", 1) ||
                      value_calls(value, "flax.core.frozen_dict", "FrozenDict", 1) ||
                      value_calls(value, "haiku._src.data_structures", "FlatMapping", 1);
    return is_mapping && value_arg(value, 0)->type == CKPT_V_DICT;
}

struct creation creation_of(const ckpt_value *value)
{
    struct creation made = {.class_node = value->u.call.callable, .args = value->u.call.args};
    if (value_call_kind_of(value) != CALL_REDUCE) {
        made.by_new = true;
        made.kwargs = none_if_empty(value_extra_of(value)->kwargs);
    } else if (calls_copyreg(value, "_reconstructor", 3)) {
        return read_reconstructor(value);
    } else if (calls_copyreg(value, "__newobj__", 1)) {
        made = (struct creation){
            .class_node = value_arg(value, 0), .args = value->u.call.args, .first_arg = 1, .by_new = true};
    } else if (calls_copyreg(value, "__newobj_ex__", 3)) {
        made = (struct creation){.class_node = value_arg(value, 0),
                                 .args = value_arg(value, 1),
                                 .kwargs = none_if_empty(value_arg(value, 2)),
                                 .by_new = true};
    } else if (!read_partial_new(value, &made) && copies_dict(value)) {
        made.content = value_arg(value, 0);
    }
    return made;
}

const ckpt_value *view_class(const ckpt_value *value)
{
    return is_call(value) ? creation_of(value).class_node : NULL;
}

const ckpt_value *view_ordered_dict_argument(const ckpt_value *value)
{
    const ckpt_value *arg = value_calls(value, "collections", "OrderedDict", 1) ? value_arg(value, 0) : NULL;
    return arg && (arg->type == CKPT_V_LIST || arg->type == CKPT_V_TUPLE) ? arg : NULL;
}

/* add_array - adds COUNT children to VIEW: PAIRS, or ITEMS, which are [key, value] sequences if OF_PAIRS. */
static void add_array(struct view *view, const value_pair *pairs, ckpt_value *const *items, bool of_pairs,
                      uint32_t count)
{
    if (count == 0)
        return;
    view->arrays[view->arrays[0].n ? 1 : 0] = (struct view_array){pairs, items, of_pairs, count};
    view->n += count;
}

static struct view view_sequence(const ckpt_value *value, bool of_pairs)
{
    struct view view = {of_pairs ? VIEW_PAIRS : VIEW_ITEMS, false, {{0}}, 0};
    if (value_is_sequence(value))
        add_array(&view, NULL, value->u.seq.items, of_pairs, value->u.seq.n);
    return view;
}

static struct view view_mapping(const ckpt_value *value, enum view_kind kind)
{
    struct view view = {kind, false, {{0}}, 0};
    uint32_t n;
    if (value && value->type == CKPT_V_DICT)
        add_array(&view, value_pairs(value, &n), NULL, false, value->u.dict.n);
    return view;
}

/* view_constructor_argument - returns the children in the argument of a constructor that copies them, such
 * as set(); else VIEW_LEAF. */
static struct view view_constructor_argument(const struct creation *made)
{
    const ckpt_value *class_node = made->class_node,
                     *arg = made->content ? made->content : value_item(made->args, made->first_arg);
    bool takes_pairs = value_is_global(class_node, "collections", "OrderedDict") ||
                       value_is_global(class_node, "collections", "Counter") ||
                       value_is_global(class_node, "collections", "defaultdict") ||
                       is_builtin(class_node, "dict");
    bool takes_items = is_builtin(class_node, "set") || is_builtin(class_node, "frozenset") ||
                       is_builtin(class_node, "list") || is_builtin(class_node, "tuple") ||
                       value_is_global(class_node, "collections", "deque") ||
                       value_is_global(class_node, "torch", "Size");
    if (made->content) {
        takes_pairs = arg->type == CKPT_V_DICT;
        takes_items = value_is_sequence(arg);
    }
    if (takes_pairs)
        return value_is_sequence(arg) ? view_sequence(arg, true) : view_mapping(arg, VIEW_PAIRS);
    if (takes_items)
        return view_sequence(arg, false);
    return (struct view){VIEW_LEAF, false, {{0}}, 0};
}

/* view_attributes - returns the attributes in STATE, the operand of the last BUILD. */
static struct view view_attributes(const ckpt_value *state)
{
    if (!state || state->type != CKPT_V_TUPLE || state->u.seq.n != 2)
        return view_mapping(state, state && state->type == CKPT_V_DICT ? VIEW_ATTRS : VIEW_LEAF);
    const ckpt_value *dict = state->u.seq.items[0], *slots = state->u.seq.items[1];
    if ((dict->type != CKPT_V_DICT && dict->type != CKPT_V_NONE) ||
        (slots->type != CKPT_V_DICT && slots->type != CKPT_V_NONE))
        return (struct view){VIEW_LEAF, false, {{0}}, 0};
    struct view view = view_mapping(dict, VIEW_ATTRS);
    if (slots->type == CKPT_V_DICT)
        add_array(&view, slots->u.dict.pairs, NULL, false, slots->u.dict.n);
    return view;
}

static struct view view_creation_arguments(const struct creation *made)
{
    struct view view = {VIEW_ITEMS, true, {{0}}, 0};
    uint32_t n = value_is_sequence(made->args) ? made->args->u.seq.n : 0;
    if (n > made->first_arg)
        add_array(&view, NULL, made->args->u.seq.items + made->first_arg, false, n - made->first_arg);
    return view;
}

struct view view_arguments(const ckpt_value *value)
{
    const struct creation made = creation_of(value);
    return view_creation_arguments(&made);
}

/* The calls that view_content looks through. */
static const struct {
    const char *module, *name;
    uint32_t content; /* the argument that is the value, or whose entry KEY or OTHER_KEY is it */
    const char *key, *other_key;
} wrapper_calls[] = {
    {"torch.jit._pickle", "restore_type_tag", 0, NULL, NULL},
    {"torch.jit._pickle", "build_tensorlist", 0, NULL, NULL},
    {"torch.jit._pickle", "build_intlist", 0, NULL, NULL},
    {"torch.jit._pickle", "build_doublelist", 0, NULL, NULL},
    {"torch.jit._pickle", "build_boollist", 0, NULL, NULL},
    {"tensordict._reductions", "_make_td", 1, "_tensordict", "tensordicts"},
};

#define MAX_WRAPPER_CALLS 16u /* around each other; real files have one or two */
#define MAX_ATTRIBUTES    32u /* of a TensorDict; real ones have 10, and each is compared */

static const ckpt_value *get_tensordict_entries(const ckpt_value *attrs, const char *key, const char *other)
{
    if (!attrs || attrs->type != CKPT_V_DICT || attrs->u.dict.n > MAX_ATTRIBUTES)
        return NULL;
    const ckpt_value *entries = value_get(attrs, key);
    return entries ? entries : value_get(attrs, other);
}

/* unwrap - returns the value directly in the call VALUE, or NULL. */
static const ckpt_value *unwrap(const ckpt_value *value)
{
    if (!is_call(value))
        return NULL;
    const ckpt_value *name = view_class(value);
    ckpt_str module = value_module(name);
    if (!str_starts(module, STR_LIT("torch.jit._pickle")) && !str_starts(module, STR_LIT("tensordict.")))
        return NULL;
    for (size_t i = 0; i < sizeof wrapper_calls / sizeof *wrapper_calls; i++) {
        if (!value_calls(value, wrapper_calls[i].module, wrapper_calls[i].name, wrapper_calls[i].content + 1))
            continue;
        const ckpt_value *arg = value_arg(value, wrapper_calls[i].content);
        return wrapper_calls[i].key
                   ? get_tensordict_entries(arg, wrapper_calls[i].key, wrapper_calls[i].other_key)
                   : arg;
    }
    bool was_built = str_is(value_name(name), "TensorDict"); /* by NEWOBJ and BUILD, before _make_td */
    return was_built ? get_tensordict_entries(value_state(value), "_tensordict", "tensordicts") : NULL;
}

const ckpt_value *view_content(const ckpt_value *value)
{
    const ckpt_value *content = NULL, *inner = value;
    for (unsigned i = 0; i < MAX_WRAPPER_CALLS && (inner = unwrap(inner)); i++)
        content = inner;
    return inner ? NULL : content;
}

static struct view view_call(const ckpt_value *value)
{
    const struct value_extra *extra = value_extra_of(value);
    const struct creation made = creation_of(value);
    struct view view = view_constructor_argument(&made);
    if (extra->npairs) {
        if (view.kind != VIEW_PAIRS)
            view = (struct view){VIEW_PAIRS, false, {{0}}, 0};
        add_array(&view, extra->pairs, NULL, false, extra->npairs);
    } else if (extra->nitems && view.kind != VIEW_PAIRS) {
        view.kind = VIEW_ITEMS;
        add_array(&view, NULL, extra->items, false, extra->nitems);
    }
    if (view.kind == VIEW_LEAF)
        view = view_attributes(value_state(value));
    if (view.kind == VIEW_LEAF && made.by_new) {
        struct view args = view_creation_arguments(&made);
        if (args.n)
            return args;
    }
    return view;
}

static struct view view_of_itself(const ckpt_value *value)
{
    static const struct view leaf = {VIEW_LEAF, false, {{0}}, 0};
    if (!value || value_row(value) != CKPT_NO_TENSOR)
        return leaf;
    switch ((ckpt_value_type)value->type) {
    case CKPT_V_LIST:
    case CKPT_V_TUPLE:
    case CKPT_V_SET:
    case CKPT_V_FROZENSET: return view_sequence(value, false);
    case CKPT_V_DICT: return view_mapping(value, VIEW_PAIRS);
    case CKPT_V_CALL: return view_call(value);
    default: return leaf;
    }
}

struct view view_of(const ckpt_value *value)
{
    const ckpt_value *content = view_content(value);
    return view_of_itself(content ? content : value);
}

bool view_is_empty_mapping(const ckpt_value *value)
{
    return value && (value->type == CKPT_V_DICT || value_calls(value, "collections", "OrderedDict", 0)) &&
           view_of(value).n == 0;
}

bool view_item(const struct view *view, size_t index, const ckpt_value **key, const ckpt_value **val)
{
    const struct view_array *array = view->arrays;
    if (index >= array->n) {
        index -= array->n;
        array++;
    }
    if (index >= array->n)
        return false;
    const ckpt_value *item = array->pairs ? array->pairs[index].val : array->items[index];
    *key = array->pairs ? array->pairs[index].key : NULL;
    *val = item;
    if (array->of_pairs && value_is_sequence(item) && item->u.seq.n == 2) {
        *key = item->u.seq.items[0];
        *val = item->u.seq.items[1];
    }
    return true;
}

size_t ckpt_value_count(const ckpt_value *value) { return view_of(value).n; }

bool ckpt_value_item(const ckpt_value *value, size_t index, const ckpt_value **key, const ckpt_value **val)
{
    if (!key || !val)
        return false;
    *key = *val = NULL;
    struct view view = view_of(value);
    return view_item(&view, index, key, val);
}

ckpt_value_type ckpt_value_get_type(const ckpt_value *value)
{
    return value ? (ckpt_value_type)value->type : CKPT_V_NONE;
}

bool ckpt_value_bool(const ckpt_value *value) { return value && value->type == CKPT_V_BOOL && value->u.b; }

int64_t ckpt_value_int(const ckpt_value *value)
{
    int64_t i;
    return value_integer(value, &i) ? i : 0;
}

double ckpt_value_float(const ckpt_value *value)
{
    int64_t i;
    if (value && value->type == CKPT_V_FLOAT)
        return value->u.f;
    return value_integer(value, &i) ? (double)i : 0.0;
}

ckpt_str ckpt_value_str(const ckpt_value *value)
{
    bool is_text = value && (value->type == CKPT_V_STR || value->type == CKPT_V_STR8 ||
                             value->type == CKPT_V_BYTES || value->type == CKPT_V_BYTEARRAY);
    return is_text && !(value->flags & VALUE_SPAN) ? value->u.str : str_of("", 0);
}

uint32_t ckpt_value_tensor(const ckpt_value *value) { return value ? value_row(value) : CKPT_NO_TENSOR; }

uint64_t ckpt_value_offset(const ckpt_value *value) { return value ? value_offset(value) : 0; }
