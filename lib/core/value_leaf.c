/* value_leaf.c - shows single values as Python does. A call that is not fully understood is left to
 * value_text.c, which shows it as a call. */
#include "core/value_leaf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "core/elements.h"
#include "core/number.h"
#include "core/numpy.h"
#include "core/repr.h"
#include "core/view.h"

#define TEXT_MAX   1000 /* bytes of one text that are shown */
#define SCALAR_MAX 256

static void put_integer(struct text_sink *out, int64_t i)
{
    char text[24];
    text_put(out, text, (size_t)snprintf(text, sizeof text, "%" PRId64, i));
}

static void put_unsigned(struct text_sink *out, uint64_t u)
{
    char text[24];
    text_put(out, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, u));
}

static void put_float(struct text_sink *out, double x, enum repr_width width)
{
    char text[REPR_FLOAT_ROOM];
    text_put(out, text, repr_float(x, width, text));
}

/* put_complex_part - writes a part of a complex number, without ".0" as in Python. */
static void put_complex_part(struct text_sink *out, double x, enum repr_width width, bool sign)
{
    char text[REPR_FLOAT_ROOM];
    ckpt_str s = str_of(text, repr_float(x, width, text));
    if (str_ends(s, STR_LIT(".0")))
        s.len -= 2;
    if (sign && text[0] != '-')
        text_put_literal(out, "+");
    text_put(out, s.ptr, s.len);
}

static void put_complex(struct text_sink *out, double re, double im, enum repr_width width)
{
    bool both = re != 0 || signbit(re);
    if (both) {
        text_put_literal(out, "(");
        put_complex_part(out, re, width, false);
    }
    put_complex_part(out, im, width, both);
    text_put_literal(out, both ? "j)" : "j");
}

static void put_quoted(struct text_sink *out, ckpt_str s, enum text_style style)
{
    bool cut = s.len > TEXT_MAX;
    if (cut) {
        s.len = TEXT_MAX;
        while (style == TEXT_QUOTED && s.len > TEXT_MAX - 4 && ((unsigned char)s.ptr[s.len] & 0xc0) == 0x80)
            s.len--;
    }
    text_put_literal(out, style == TEXT_BYTES ? "b'" : "'");
    text_escaped(out, s, style);
    text_put_literal(out, cut ? "'" ELLIPSIS : "'");
}

static void put_span(struct text_sink *out, ckpt_value_type type, uint64_t count)
{
    bool text = type == CKPT_V_STR;
    text_put_literal(out, text ? "<str, " : type == CKPT_V_BYTEARRAY ? "<bytearray, " : "<bytes, ");
    put_unsigned(out, count);
    text_put_literal(out, text ? " characters>" : " bytes>");
}

static void put_big(struct text_sink *out, ckpt_str le)
{
    char text[REPR_BIG_ROOM];
    size_t n = repr_big(le, text);
    if (n) {
        text_put(out, text, n);
        return;
    }
    text_put_literal(out, "<int, ");
    put_unsigned(out, le.len);
    text_put_literal(out, " bytes>");
}

/* python3_name - returns the name of GLOBAL; range for xrange of Python 2, as Python 3 maps it
 * (_compat_pickle.py). */
static ckpt_str python3_name(const ckpt_value *global)
{
    return value_is_global(global, "__builtin__", "xrange") ? STR_LIT("range") : value_name(global);
}

void leaf_global(struct text_sink *out, const ckpt_value *global)
{
    ckpt_str module = value_module(global);
    if (!str_is(module, "builtins") && !str_is(module, "__builtin__") && !str_is(module, "exceptions")) {
        text_escaped(out, module, TEXT_NAME);
        text_put_literal(out, ".");
    }
    text_escaped(out, python3_name(global), TEXT_NAME);
}

void leaf_class(struct text_sink *out, const ckpt_value *v)
{
    const ckpt_value *k = view_class(v);
    ckpt_str inner;
    if (k && k->type == CKPT_V_CALL && is_builtin(k->u.call.callable, "getattr") &&
        value_text(value_arg(k, 1), &inner))
        text_escaped(out, str_after_last(inner, '.'), TEXT_NAME);
    else if (value_is_global(k, "torch", "Size"))
        text_put_literal(out, "torch.Size");
    else if (value_name(k).len)
        text_escaped(out, str_after_last(python3_name(k), '.'), TEXT_NAME);
    else
        text_put_literal(out, "object");
}

/* put_numpy_text - writes text of 4-byte characters, or bytes, without the NULs that pad the end. */
static void put_numpy_text(struct text_sink *out, const struct numpy_dtype *d, unsigned char *bytes)
{
    char text[SCALAR_MAX];
    size_t len = 0, n = d->bytes;
    if (d->kind == 'S') {
        while (n && bytes[n - 1] == 0)
            n--;
        put_quoted(out, str_of((const char *)bytes, n), TEXT_BYTES);
        return;
    }
    if (d->big_endian)
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
    case CKPT_DT_I64: put_integer(out, (int64_t)load_u64le(bytes)); break;
    case CKPT_DT_U64: put_unsigned(out, load_u64le(bytes)); break;
    default: put_integer(out, (int64_t)x[0]); break; /* integers of at most 32 bits */
    }
}

static bool put_numpy(struct text_sink *out, const ckpt_value *v)
{
    unsigned char bytes[SCALAR_MAX];
    struct numpy_dtype d;
    if (numpy_dtype_of(v, &d)) {
        text_put_literal(out, "dtype('");
        text_put_literal(out, numpy_name(&d));
        text_put_literal(out, "')");
        return true;
    }
    if (!numpy_scalar_of(v, &d))
        return false;
    ckpt_dtype dt = numpy_torch_dtype(&d);
    bool known = dt != CKPT_DT_NONE || d.kind == 'U' || d.kind == 'S';
    if (!known || d.bytes > SCALAR_MAX || small_bytes(value_arg(v, 1), bytes, SCALAR_MAX) != d.bytes) {
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
static bool put_device(struct text_sink *out, const ckpt_value *v)
{
    ckpt_str type;
    int64_t index;
    if (!value_calls(v, "torch", "device", 1) || !value_text(value_arg(v, 0), &type))
        return false;
    text_put_literal(out, "device('");
    text_escaped(out, type, TEXT_QUOTED);
    if (value_integer(value_arg(v, 1), &index)) {
        text_put_literal(out, ":");
        put_integer(out, index);
    }
    text_put_literal(out, "')");
    return true;
}

/* put_member - writes getattr(CLASS, 'NAME'): a member of an enum, or a memory format if CLASS is the torch
 * module. */
static bool put_member(struct text_sink *out, const ckpt_value *v)
{
    ckpt_str name;
    const ckpt_value *of = value_arg(v, 0);
    if (!is_builtin(v->u.call.callable, "getattr") || value_nargs(v) != 2 || value_name(of).len == 0 ||
        !value_text(value_arg(v, 1), &name))
        return false;
    text_escaped(out, str_after_last(value_name(of), '.'), TEXT_NAME);
    text_put_literal(out, ".");
    text_escaped(out, name, TEXT_NAME);
    return true;
}

static bool put_known_call(struct text_sink *out, const ckpt_value *v)
{
    ckpt_str text;
    const ckpt_value *maker = v->u.call.callable, *re = value_arg(v, 0), *im = value_arg(v, 1);
    if (latin1_of(v, &text))
        return put_latin1(out, text);
    if (latin1_text(v)) {
        put_span(out, CKPT_V_BYTES, latin1_text(v)->u.span->count);
        return true;
    }
    if (is_builtin(maker, "bytes") && value_nargs(v) == 0) {
        text_put_literal(out, "b''");
        return true;
    }
    if (is_builtin(maker, "complex") && im && re->type == CKPT_V_FLOAT && im->type == CKPT_V_FLOAT) {
        put_complex(out, re->u.f, im->u.f, REPR_DOUBLE);
        return true;
    }
    if (value_calls(v, "torch.serialization", "_get_layout", 1) && value_text(re, &text)) {
        text_escaped(out, text, TEXT_NAME);
        return true;
    }
    return put_device(out, v) || put_member(out, v);
}

static bool put_text(struct text_sink *out, const ckpt_value *v)
{
    if (v->flags & VALUE_SPAN) {
        put_span(out, (ckpt_value_type)v->type, v->u.span->count);
        return true;
    }
    if (v->type == CKPT_V_BYTEARRAY)
        text_put_literal(out, "bytearray(");
    put_quoted(out, v->u.str, v->type == CKPT_V_STR || v->type == CKPT_V_STR8 ? TEXT_QUOTED : TEXT_BYTES);
    if (v->type == CKPT_V_BYTEARRAY)
        text_put_literal(out, ")");
    return true;
}

static void put_persistent(struct text_sink *out, const ckpt_value *pid)
{
    const ckpt_value *class = value_source_class(pid);
    if (class)
        leaf_global(out, class);
    else
        text_put_literal(out, "<storage>");
}

bool leaf_text(struct text_sink *out, const ckpt_value *v)
{
    if (v && v->type == CKPT_V_CALL && put_numpy(out, v))
        return true;
    if (v && v->row != CKPT_NO_TENSOR) {
        text_put_literal(out, "<tensor>");
        return true;
    }
    switch (ckpt_value_get_type(v)) {
    case CKPT_V_NONE: text_put_literal(out, "None"); return true;
    case CKPT_V_BOOL: text_put_literal(out, v->u.b ? "True" : "False"); return true;
    case CKPT_V_INT: put_integer(out, v->u.i); return true;
    case CKPT_V_BIGINT: put_big(out, v->u.str); return true;
    case CKPT_V_FLOAT: put_float(out, v->u.f, REPR_DOUBLE); return true;
    case CKPT_V_STR:
    case CKPT_V_STR8:
    case CKPT_V_BYTES:
    case CKPT_V_BYTEARRAY: return put_text(out, v);
    case CKPT_V_GLOBAL: leaf_global(out, v); return true;
    case CKPT_V_PERSID: put_persistent(out, v->u.pid); return true;
    case CKPT_V_TENSOR: text_put_literal(out, "<tensor>"); return true;
    case CKPT_V_CALL: return put_known_call(out, v);
    default: return false;
    }
}
