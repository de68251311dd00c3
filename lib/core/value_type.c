/* value_type.c - writes the type of a node as Python names it. */
#include "core/dtype.h"
#include "core/numpy.h"
#include "core/value_leaf.h"
#include "core/view.h"

static const char *const builtin_types[] = {
    [CKPT_V_NONE] = "NoneType", [CKPT_V_BOOL] = "bool",           [CKPT_V_INT] = "int",
    [CKPT_V_BIGINT] = "int",    [CKPT_V_FLOAT] = "float",         [CKPT_V_STR] = "str",
    [CKPT_V_STR8] = "str",      [CKPT_V_BYTES] = "bytes",         [CKPT_V_BYTEARRAY] = "bytearray",
    [CKPT_V_LIST] = "list",     [CKPT_V_TUPLE] = "tuple",         [CKPT_V_DICT] = "dict",
    [CKPT_V_SET] = "set",       [CKPT_V_FROZENSET] = "frozenset", [CKPT_V_TENSOR] = "tensor",
};

/* Functions whose objects have a class of a different name. */
static const struct {
    const char *module, *name, *type;
} known_functions[] = {
    {"_codecs", "encode", "bytes"},
    {"numpy.core.multiarray", "_reconstruct", "numpy.ndarray"},
    {"numpy._core.multiarray", "_reconstruct", "numpy.ndarray"},
    {"numpy.core.numeric", "_frombuffer", "numpy.ndarray"},
    {"numpy._core.numeric", "_frombuffer", "numpy.ndarray"},
    {"torch.serialization", "_get_layout", "torch.layout"},
    {"torch.storage", "_load_from_bytes", "torch.storage.UntypedStorage"},
    {"torch._utils", "_rebuild_parameter", "torch.nn.parameter.Parameter"},
    {"torch._utils", "_rebuild_parameter_with_state", "torch.nn.parameter.Parameter"},
};

/* is_dtype - returns true if NAME is a dtype of tensors. int1..int7 and uint1..uint7 are dtypes that no
 * tensor can have. */
static bool is_dtype(ckpt_str name)
{
    ckpt_str rest = str_skip(name, str_starts(name, STR_LIT("u")));
    bool narrow = rest.len == 4 && str_starts(rest, STR_LIT("int")) && rest.ptr[3] >= '1' &&
                  rest.ptr[3] <= '7';
    return narrow || dtype_by_name(name) != CKPT_DT_NONE;
}

/* put_reference - writes the kind of object that Python has under the name of the global G. */
static void put_reference(struct text_sink *out, const ckpt_value *g)
{
    bool torch = str_is(value_module(g), "torch");
    if (torch && is_dtype(value_name(g))) {
        text_put_literal(out, "torch.dtype");
    } else if (torch && str_starts(value_name(g), STR_LIT("per_"))) {
        text_put_literal(out, "torch.qscheme");
    } else if (is_builtin(g, "Ellipsis")) {
        text_put_literal(out, "ellipsis");
    } else {
        text_put_literal(out, "type or function ");
        leaf_global(out, g);
    }
}

/* put_class - writes the class K. getattr(CLASS, 'NAME') is a class nested in CLASS if it is called, else
 * usually an enum member. */
static void put_class(struct text_sink *out, const ckpt_value *k)
{
    ckpt_str inner;
    bool nested = k && k->type == CKPT_V_CALL && is_builtin(k->u.call.callable, "getattr");
    const ckpt_value *outer = nested ? value_arg(k, 0) : k;
    if (!outer || outer->type != CKPT_V_GLOBAL) {
        text_put_literal(out, "object");
        return;
    }
    leaf_global(out, outer);
    if (nested && value_text(value_arg(k, 1), &inner)) {
        text_put_literal(out, ".");
        text_escaped(out, inner, TEXT_NAME);
    }
}

static bool put_result_type(struct text_sink *out, const ckpt_value *v, const ckpt_value *maker)
{
    for (size_t i = 0; i < sizeof known_functions / sizeof *known_functions; i++) {
        if (value_is_global(maker, known_functions[i].module, known_functions[i].name)) {
            text_put_literal(out, known_functions[i].type);
            return true;
        }
    }
    if (str_starts(value_name(maker), STR_LIT("_rebuild_from_type")) && value_nargs(v) > 1) {
        put_class(out, value_arg(v, 1));
        return true;
    }
    if (str_is(value_module(maker), "torch._utils") && str_starts(value_name(maker), STR_LIT("_rebuild_"))) {
        text_put_literal(out, "torch.Tensor");
        return true;
    }
    if (is_builtin(maker, "getattr") && value_nargs(v) == 2) {
        bool torch = value_is_global(value_arg(v, 0), "torch._utils", "torch");
        if (torch)
            text_put_literal(out, "torch.memory_format");
        else
            put_class(out, value_arg(v, 0));
        return true;
    }
    return false;
}

static void put_call(struct text_sink *out, const ckpt_value *v)
{
    struct numpy_dtype d;
    if (numpy_scalar_of(v, &d)) {
        text_put_literal(out, "numpy.");
        text_put_literal(out, numpy_name(&d));
        return;
    }
    if (!put_result_type(out, v, v->u.call.callable))
        put_class(out, view_class(v));
}

const char *ckpt_value_type_name(const ckpt_value *v, char *buf, size_t cap)
{
    struct text_sink out = {buf, buf ? cap : 0, 0, 0};
    ckpt_value_type type = ckpt_value_get_type(v);
    if (type == CKPT_V_GLOBAL) {
        put_reference(&out, v);
    } else if (type == CKPT_V_CALL) {
        put_call(&out, v);
    } else if (type == CKPT_V_PERSID && value_source_class(v->u.pid)) {
        put_reference(&out, value_source_class(v->u.pid));
    } else if (type == CKPT_V_PERSID) {
        const ckpt_value *klass = value_item(v->u.pid, 1);
        if (value_name(klass).len)
            leaf_global(&out, klass);
        else
            text_put_literal(&out, "persistent id");
    } else {
        text_put_literal(&out, builtin_types[type]);
    }
    text_end(&out);
    return out.cap ? buf : "";
}
