/* value_text.c - writes a node as one short line that looks like Python, and its type as Python names it.
 *
 * Containers are shown with a stack of limited depth; the number of nodes and the length of each text are
 * limited, too, and a container that is being shown is not entered again. A call that is not fully understood
 * is shown as a call. */
#include <math.h>
#include <stdio.h>

#include "base/cursor.h"
#include "base/text.h"
#include "base/utf8.h"
#include "core/elements.h"
#include "core/number.h"
#include "core/numpy.h"
#include "core/reference.h"
#include "core/repr.h"
#include "core/view.h"

#define ELLIPSIS   "\xe2\x80\xa6"
#define TEXT_MAX   1000 /* bytes of one text that are shown */
#define SCALAR_MAX 256  /* bytes of a numpy scalar that is shown */
#define MAX_DEPTH  48
#define MAX_NODES  100000 /* a graph of shared nodes, shown as a tree, can be exponentially large */

/* ---------------------------------------------------------------- single values */

static void put_float(struct text_sink *out, double number, enum repr_width width)
{
    char text[REPR_FLOAT_ROOM];
    text_put(out, text, repr_float(number, width, text));
}

/* put_complex_part - writes the real or imaginary part of a complex number: as Python, without ".0". */
static void put_complex_part(struct text_sink *out, double number, enum repr_width width, bool with_plus)
{
    char text[REPR_FLOAT_ROOM];
    ckpt_str s = str_of(text, repr_float(number, width, text));
    if (str_ends(s, STR_LIT(".0")))
        s.len -= 2;
    if (with_plus && text[0] != '-')
        text_put_literal(out, "+");
    text_put(out, s.ptr, s.len);
}

static void put_complex(struct text_sink *out, double re, double im, enum repr_width width)
{
    bool has_real = re != 0 || signbit(re);
    if (has_real) {
        text_put_literal(out, "(");
        put_complex_part(out, re, width, false);
    }
    put_complex_part(out, im, width, has_real);
    text_put_literal(out, has_real ? "j)" : "j");
}

static void put_quoted(struct text_sink *out, ckpt_str text, enum text_style style)
{
    bool is_cut = text.len > TEXT_MAX;
    if (is_cut) {
        text.len = TEXT_MAX;
        /* no cut inside of a UTF-8 sequence, which has at most four bytes */
        while (style == TEXT_QUOTED && text.len > TEXT_MAX - 4 &&
               ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
            text.len--;
    }
    text_put_literal(out, style == TEXT_BYTES ? "b'" : "'");
    text_put_escaped(out, text, style);
    text_put_literal(out, is_cut ? "'" ELLIPSIS : "'");
}

static void put_span(struct text_sink *out, ckpt_value_type type, uint64_t count)
{
    bool is_text = type == CKPT_V_STR;
    text_put_literal(out, is_text ? "<str, " : type == CKPT_V_BYTEARRAY ? "<bytearray, " : "<bytes, ");
    text_put_uint(out, count);
    text_put_literal(out, is_text ? " characters>" : " bytes>");
}

static void put_big_integer(struct text_sink *out, ckpt_str little_endian)
{
    char text[REPR_BIG_ROOM];
    size_t n = repr_big(little_endian, text);
    if (n) {
        text_put(out, text, n);
        return;
    }
    text_put_literal(out, "<int, ");
    text_put_uint(out, little_endian.len);
    text_put_literal(out, " bytes>");
}

/* put_reference - writes "module.name.name…", without the module of a builtin name. */
static void put_reference(struct text_sink *out, const struct reference *reference)
{
    if (!str_is(reference->module, "builtins")) {
        text_put_escaped(out, reference->module, TEXT_NAME);
        text_put_literal(out, ".");
    }
    for (unsigned i = 0; i < reference->n; i++) {
        text_put_literal(out, i ? "." : "");
        text_put_escaped(out, reference->parts[i], TEXT_NAME);
    }
}

/* put_short_class - writes the last component of the name of view_class(VALUE). */
static void put_short_class(struct text_sink *out, const ckpt_value *value)
{
    struct reference class;
    const ckpt_value *class_node = view_class(value);
    if (value_is_global(class_node, "torch", "Size"))
        text_put_literal(out, "torch.Size");
    else if (reference_of(class_node, &class))
        text_put_escaped(out, reference_last(&class), TEXT_NAME);
    else
        text_put_literal(out, "object");
}

/* put_numpy_text - writes a scalar of dtype "S" (bytes) or "U" (4-byte characters) without its last NULs. */
static void put_numpy_text(struct text_sink *out, const struct numpy_dtype *dtype, unsigned char *bytes)
{
    char text[SCALAR_MAX];
    size_t len = 0, n = dtype->bytes;
    if (dtype->kind == 'S') {
        while (n && bytes[n - 1] == 0)
            n--;
        put_quoted(out, str_of((const char *)bytes, n), TEXT_BYTES);
        return;
    }
    if (dtype->big_endian)
        swap_bytes(bytes, n, 4);
    for (size_t i = 0; i + 4 <= n; i += 4) {
        uint32_t cp = load_u32le(bytes + i);
        len += utf8_put(cp > 0x10ffff ? 0xfffd : cp, text + len);
    }
    while (len && text[len - 1] == '\0')
        len--;
    put_quoted(out, str_of(text, len), TEXT_QUOTED);
}

static void put_numpy_number(struct text_sink *out, ckpt_dtype dt, const unsigned char *bytes)
{
    double x[2] = {0, 0};
    number_decode(dt, bytes, 1, x);
    switch (dt) {
    case CKPT_DT_F16: put_float(out, x[0], REPR_HALF); break;
    case CKPT_DT_F32: put_float(out, x[0], REPR_SINGLE); break;
    case CKPT_DT_F64: put_float(out, x[0], REPR_DOUBLE); break;
    case CKPT_DT_C64: put_complex(out, x[0], x[1], REPR_SINGLE); break;
    case CKPT_DT_C128: put_complex(out, x[0], x[1], REPR_DOUBLE); break;
    case CKPT_DT_BOOL: text_put_literal(out, bytes[0] ? "True" : "False"); break;
    case CKPT_DT_I64: text_put_int(out, (int64_t)load_u64le(bytes)); break;
    case CKPT_DT_U64: text_put_uint(out, load_u64le(bytes)); break;
    default:
        if (dtype_info(dt)->klass == 'f')
            put_float(out, x[0], REPR_SINGLE); /* types of ml_dtypes: bfloat16, float8_e5m2 … */
        else
            text_put_int(out, (int64_t)x[0]); /* integers of at most 32 bits */
        break;
    }
}

static bool put_numpy(struct text_sink *out, const ckpt_value *value)
{
    unsigned char bytes[SCALAR_MAX];
    struct numpy_dtype d;
    if (numpy_dtype_of(value, &d)) {
        text_put_literal(out, "dtype('");
        text_put_literal(out, numpy_name(&d));
        text_put_literal(out, "')");
        return true;
    }
    if (!numpy_scalar_of(value, &d))
        return false;
    ckpt_dtype dt = numpy_known_dtype(&d);
    bool known = dt != CKPT_DT_NONE || d.kind == 'U' || d.kind == 'S';
    if (!known || d.bytes > SCALAR_MAX ||
        copy_small_bytes(value_arg(value, 1), bytes, SCALAR_MAX) != d.bytes) {
        text_put_literal(out, "<numpy.");
        text_put_literal(out, numpy_name(&d));
        text_put_literal(out, ">");
    } else if (dt == CKPT_DT_NONE) {
        put_numpy_text(out, &d, bytes);
    } else {
        if (d.big_endian)
            swap_bytes(bytes, d.bytes, dtype_info(dt)->swap_bytes);
        put_numpy_number(out, dt, bytes);
    }
    return true;
}

static bool put_latin1(struct text_sink *out, ckpt_str text)
{
    unsigned char bytes[TEXT_MAX + 1];
    size_t n = 0;
    for (size_t pos = 0; pos < text.len && n < sizeof bytes; n++) {
        uint32_t cp = utf8_next(text, &pos, false);
        if (cp > 0xff)
            return false;
        bytes[n] = (unsigned char)cp;
    }
    put_quoted(out, str_of((const char *)bytes, n), TEXT_BYTES);
    return true;
}

/* put_device - writes torch.device(type[, index]). */
static bool put_device(struct text_sink *out, const ckpt_value *value)
{
    ckpt_str type;
    int64_t index;
    if (!value_calls(value, "torch", "device", 1) || !value_text(value_arg(value, 0), &type))
        return false;
    text_put_literal(out, "device('");
    text_put_escaped(out, type, TEXT_QUOTED);
    if (value_integer(value_arg(value, 1), &index)) {
        text_put_literal(out, ":");
        text_put_int(out, index);
    }
    text_put_literal(out, "')");
    return true;
}

static bool put_known_call(struct text_sink *out, const ckpt_value *value)
{
    ckpt_str text;
    const ckpt_value *maker = value->u.call.callable, *re = value_arg(value, 0), *im = value_arg(value, 1);
    if (latin1_of(value, &text))
        return put_latin1(out, text);
    if (latin1_text(value)) {
        put_span(out, CKPT_V_BYTES, latin1_text(value)->u.span->count);
        return true;
    }
    bool is_bytearray = is_builtin(maker, "bytearray");
    bool is_empty = value_nargs(value) == 0 && value_extra_of(value) == &value_no_extra;
    if (is_empty && (is_bytearray || is_builtin(maker, "bytes"))) {
        text_put_literal(out, is_bytearray ? "bytearray(b'')" : "b''");
        return true;
    }
    if (is_builtin(maker, "complex") && im && re->type == CKPT_V_FLOAT && im->type == CKPT_V_FLOAT) {
        put_complex(out, re->u.f, im->u.f, REPR_DOUBLE);
        return true;
    }
    if (value_calls(value, "torch.serialization", "_get_layout", 1) && value_text(re, &text)) {
        text_put_escaped(out, text, TEXT_NAME);
        return true;
    }
    return put_device(out, value);
}

static bool put_text_or_bytes(struct text_sink *out, const ckpt_value *value)
{
    if (value->flags & VALUE_SPAN) {
        put_span(out, (ckpt_value_type)value->type, value->u.span->count);
        return true;
    }
    if (value->type == CKPT_V_BYTEARRAY)
        text_put_literal(out, "bytearray(");
    put_quoted(out, value->u.str,
               value->type == CKPT_V_STR || value->type == CKPT_V_STR8 ? TEXT_QUOTED : TEXT_BYTES);
    if (value->type == CKPT_V_BYTEARRAY)
        text_put_literal(out, ")");
    return true;
}

/* put_single_value - writes VALUE as text. False: VALUE is no single value, and its children have to be
 * shown. */
static bool put_single_value(struct text_sink *out, const ckpt_value *value)
{
    if (value && value->type == CKPT_V_CALL && put_numpy(out, value))
        return true;
    if (value && value_row(value) != CKPT_NO_TENSOR) {
        text_put_literal(out, "<tensor>");
        return true;
    }
    struct reference reference;
    if (reference_of(value, &reference)) {
        put_reference(out, &reference);
        return true;
    }
    switch (ckpt_value_get_type(value)) {
    case CKPT_V_NONE: text_put_literal(out, "None"); return true;
    case CKPT_V_BOOL: text_put_literal(out, value->u.b ? "True" : "False"); return true;
    case CKPT_V_INT: text_put_int(out, value->u.i); return true;
    case CKPT_V_BIGINT: put_big_integer(out, value->u.str); return true;
    case CKPT_V_FLOAT: put_float(out, value->u.f, REPR_DOUBLE); return true;
    case CKPT_V_STR:
    case CKPT_V_STR8:
    case CKPT_V_BYTES:
    case CKPT_V_BYTEARRAY: return put_text_or_bytes(out, value);
    case CKPT_V_PERSID: text_put_literal(out, "<storage>"); return true;
    case CKPT_V_TENSOR: text_put_literal(out, "<tensor>"); return true;
    case CKPT_V_CALL: return put_known_call(out, value);
    default: return false;
    }
}

/* ------------------------------------------------------------------- containers */

struct text_frame {
    const ckpt_value *node;
    struct view view;
    const char *closing; /* what is written after the children */
    size_t next_child;
    bool is_key_written; /* the key of NEXT_CHILD */
};

struct text_writer {
    struct text_sink out;
    size_t nodes_left;  /* nodes that may still be shown */
    size_t total_items; /* items of the outermost container, if some are left out; else 0 */
    size_t depth;
    struct text_frame stack[MAX_DEPTH];
};

static struct view view_to_show(const ckpt_value *value)
{
    struct view view = view_of(value);
    return view.kind == VIEW_LEAF ? view_arguments(value) : view;
}

/* put_builtin_opening - writes what comes before the children; returns what comes after them. */
static const char *put_builtin_opening(struct text_writer *writer, const ckpt_value *value, size_t count)
{
    switch ((ckpt_value_type)value->type) {
    case CKPT_V_LIST: text_put_literal(&writer->out, "["); return "]";
    case CKPT_V_TUPLE: text_put_literal(&writer->out, "("); return count == 1 ? ",)" : ")";
    case CKPT_V_SET: text_put_literal(&writer->out, count ? "{" : "set("); return count ? "}" : ")";
    case CKPT_V_FROZENSET:
        text_put_literal(&writer->out, count ? "frozenset({" : "frozenset(");
        return count ? "})" : ")";
    default: text_put_literal(&writer->out, "{"); return "}";
    }
}

/* put_call_opening - does the same as put_builtin_opening for a CALL. */
static const char *put_call_opening(struct text_writer *writer, const ckpt_value *value,
                                    const struct view *view)
{
    if (is_builtin(view_class(value), "set") && view->n) {
        text_put_literal(&writer->out, "{");
        return "}";
    }
    put_short_class(&writer->out, value);
    if (view->n == 0 || view->kind == VIEW_ATTRS || view->are_arguments) {
        text_put_literal(&writer->out, "(");
        return ")";
    }
    bool has_brackets = view->kind == VIEW_ITEMS && !is_builtin(view_class(value), "frozenset");
    text_put_literal(&writer->out, has_brackets ? "([" : "({");
    return has_brackets ? "])" : "})";
}

static bool is_on_stack(const struct text_writer *writer, const ckpt_value *value)
{
    for (size_t i = 0; i < writer->depth; i++)
        if (writer->stack[i].node == value)
            return true;
    return false;
}

static void show_node(struct text_writer *writer, const ckpt_value *value)
{
    if (writer->nodes_left == 0) {
        text_put_literal(&writer->out, ELLIPSIS);
        return;
    }
    writer->nodes_left--;
    if (put_single_value(&writer->out, value))
        return;
    struct view view = view_to_show(value);
    const char *closing = value->type == CKPT_V_CALL ? put_call_opening(writer, value, &view)
                                                     : put_builtin_opening(writer, value, view.n);
    if (view.n == 0) {
        text_put_literal(&writer->out, closing);
    } else if (writer->depth == MAX_DEPTH || is_on_stack(writer, value)) {
        text_put_literal(&writer->out, ELLIPSIS);
        text_put_literal(&writer->out, closing);
    } else {
        writer->stack[writer->depth++] = (struct text_frame){value, view, closing, 0, false};
    }
}

/* is_identifier - returns true if TEXT can be written before `=`. */
static bool is_identifier(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return text.len > 0 && text.len <= 200;
}

static void show_key(struct text_writer *writer, const struct text_frame *frame, const ckpt_value *key)
{
    ckpt_str name;
    if (frame->view.kind == VIEW_ATTRS && value_text(key, &name) && is_identifier(name))
        text_put(&writer->out, name.ptr, name.len);
    else
        show_node(writer, key);
}

static void show_next(struct text_writer *writer)
{
    struct text_frame *f = &writer->stack[writer->depth - 1];
    const ckpt_value *key = NULL, *val = NULL;
    bool has_item = view_item(&f->view, f->next_child, &key, &val);
    if (f->is_key_written) {
        f->is_key_written = false;
        f->next_child++;
        text_put_literal(&writer->out, f->view.kind == VIEW_ATTRS ? "=" : ": ");
        show_node(writer, val);
        return;
    }
    if (has_item && f->next_child)
        text_put_literal(&writer->out, ", ");
    if (has_item && writer->nodes_left) {
        f->is_key_written = key != NULL;
        f->next_child += key == NULL;
        if (key)
            show_key(writer, f, key);
        else
            show_node(writer, val);
        return;
    }
    if (has_item)
        text_put_literal(&writer->out, ELLIPSIS);
    text_put_literal(&writer->out, f->closing);
    writer->depth--;
    if (has_item && writer->depth == 0)
        writer->total_items = f->view.n;
}

size_t ckpt_value_text(const ckpt_value *value, size_t nodes, char *buf, size_t cap)
{
    struct text_writer w = {.out = {buf, buf ? cap : 0, 0, 0},
                            .nodes_left = nodes < MAX_NODES ? nodes : MAX_NODES};
    w.nodes_left += w.nodes_left == 0;
    show_node(&w, value);
    while (w.depth)
        show_next(&w);
    if (w.total_items) {
        char count[32];
        text_put(&w.out, count, (size_t)snprintf(count, sizeof count, " %zu items", w.total_items));
    }
    return text_end(&w.out);
}

void value_text_or_type(const ckpt_value *value, size_t nodes, char *buf, size_t cap)
{
    if (ckpt_value_text(value, nodes, buf, cap) >= cap && !buf[0])
        (void)ckpt_value_type_name(value, buf, cap);
}

/* ------------------------------------------------------------------------ types */

static const char *const builtin_types[] = {
    [CKPT_V_NONE] = "NoneType", [CKPT_V_BOOL] = "bool",           [CKPT_V_INT] = "int",
    [CKPT_V_BIGINT] = "int",    [CKPT_V_FLOAT] = "float",         [CKPT_V_STR] = "str",
    [CKPT_V_STR8] = "str",      [CKPT_V_BYTES] = "bytes",         [CKPT_V_BYTEARRAY] = "bytearray",
    [CKPT_V_LIST] = "list",     [CKPT_V_TUPLE] = "tuple",         [CKPT_V_DICT] = "dict",
    [CKPT_V_SET] = "set",       [CKPT_V_FROZENSET] = "frozenset", [CKPT_V_TENSOR] = "tensor",
};

/* Functions, and the class of the objects that each returns. */
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

/* is_dtype - returns true if torch.NAME is a dtype. No tensor has the dtypes int1..int7 and uint1..uint7. */
static bool is_dtype(ckpt_str name)
{
    ckpt_str rest = str_skip(name, str_starts(name, STR_LIT("u")));
    bool is_narrow_int = rest.len == 4 && str_starts(rest, STR_LIT("int")) && rest.ptr[3] >= '1' &&
                         rest.ptr[3] <= '7';
    return is_narrow_int || dtype_by_name(name) != CKPT_DT_NONE;
}

/* put_reference_type - writes the type of the Python object that REFERENCE names. A member may be anything: a
 * nested class, a static method, a member of an enum. */
static void put_reference_type(struct text_sink *out, struct reference *reference)
{
    bool is_torch = str_is(reference->module, "torch") && reference->n == 1;
    if (is_torch && is_dtype(reference->parts[0])) {
        text_put_literal(out, "torch.dtype");
    } else if (is_torch && str_starts(reference->parts[0], STR_LIT("per_"))) {
        text_put_literal(out, "torch.qscheme");
    } else if (reference_is_memory_format(reference)) {
        text_put_literal(out, "torch.memory_format");
    } else if (str_is(reference->module, "builtins") && str_is(reference->parts[0], "Ellipsis")) {
        text_put_literal(out, "ellipsis");
    } else {
        text_put_literal(out, reference_is_member(reference) ? "member " : "type or function ");
        put_reference(out, reference);
    }
}

/* put_full_class - writes the module and name of the class that VALUE names. */
static void put_full_class(struct text_sink *out, const ckpt_value *value)
{
    struct reference class;
    if (reference_of(value, &class))
        put_reference(out, &class);
    else
        text_put_literal(out, "object");
}

static bool put_result_type(struct text_sink *out, const ckpt_value *value, const ckpt_value *maker)
{
    for (size_t i = 0; i < sizeof known_functions / sizeof *known_functions; i++) {
        if (value_is_global(maker, known_functions[i].module, known_functions[i].name)) {
            text_put_literal(out, known_functions[i].type);
            return true;
        }
    }
    if (str_starts(value_name(maker), STR_LIT("_rebuild_from_type")) && value_nargs(value) > 1) {
        put_full_class(out, value_arg(value, 1));
        return true;
    }
    if (str_is(value_module(maker), "torch._utils") && str_starts(value_name(maker), STR_LIT("_rebuild_"))) {
        text_put_literal(out, "torch.Tensor");
        return true;
    }
    return false;
}

static void put_call_type(struct text_sink *out, const ckpt_value *value)
{
    struct numpy_dtype d;
    if (numpy_scalar_of(value, &d)) {
        text_put_literal(out, "numpy.");
        text_put_literal(out, numpy_name(&d));
        return;
    }
    if (!put_result_type(out, value, value->u.call.callable))
        put_full_class(out, view_class(value));
}

const char *ckpt_value_type_name(const ckpt_value *value, char *buf, size_t cap)
{
    struct text_sink out = {buf, buf ? cap : 0, 0, 0};
    ckpt_value_type type = ckpt_value_get_type(value);
    struct reference reference;
    if (reference_of(value, &reference)) {
        put_reference_type(&out, &reference);
    } else if (type == CKPT_V_CALL) {
        put_call_type(&out, value);
    } else if (type == CKPT_V_PERSID) {
        if (reference_of(value_item(value->u.pid, 1), &reference))
            put_reference(&out, &reference);
        else
            text_put_literal(&out, "persistent id");
    } else {
        text_put_literal(&out, builtin_types[type]);
    }
    text_end(&out);
    return out.cap ? buf : "";
}
