/* reference.c - see reference.h. */
#include "core/reference.h"

#include "core/python2.h"
#include "core/view.h"

/* get_attribute - sets *NAME if VALUE calls getattr(object, NAME), and nothing else was done to the result. A
 * dot in NAME would be a part of the name: it is not looked up at the dot. */
static bool get_attribute(const ckpt_value *value, ckpt_str *name)
{
    return value && value->type == CKPT_V_CALL && value_nargs(value) == 2 &&
           is_builtin(value->u.call.callable, "getattr") && value_extra_of(value) == &value_no_extra &&
           value_text(value_arg(value, 1), name) && name->len && str_find(*name, STR_LIT("."), 0) == SIZE_MAX;
}

static bool is_memory_format(ckpt_str name)
{
    return str_is(name, "contiguous_format") || str_is(name, "channels_last") ||
           str_is(name, "channels_last_3d") || str_is(name, "preserve_format");
}

/* move_to_torch - changes the name of a memory format that begins in a module that imported torch. */
static void move_to_torch(struct reference *ref)
{
    ckpt_str name = ref->parts[ref->n - 1];
    bool follows_torch = ref->n == 2 && str_is(ref->parts[0], "torch");
    if (ref->n == 1 && str_starts(name, STR_LIT("torch."))) {
        name = str_skip(name, 6);
        follows_torch = true;
    }
    if (!follows_torch || !is_memory_format(name))
        return;
    ref->module = STR_LIT("torch");
    ref->parts[0] = name;
    ref->n = 1;
}

bool reference_of(const ckpt_value *value, struct reference *out)
{
    unsigned n = 0;
    ckpt_str attributes[REFERENCE_PARTS];
    for (; get_attribute(value, &attributes[n]); value = value_arg(value, 0))
        if (++n == REFERENCE_PARTS)
            return false;
    if (value && value->type == CKPT_V_PERSID)
        value = value_source_class(value->u.pid);
    if (!value || value->type != CKPT_V_GLOBAL)
        return false;
    out->module = value_module(value);
    out->parts[0] = value_name(value);
    if (!(value->flags & VALUE_PYTHON3_NAME))
        (void)python2_translate(&out->module, &out->parts[0]);
    for (out->n = 1; n > 0; out->n++)
        out->parts[out->n] = attributes[--n];
    move_to_torch(out);
    return true;
}

/* The position in the parts of a reference, read as one text with dots between them. */
struct name_reader {
    const struct reference *r;
    unsigned part;
    size_t pos;
};

/* next_char - returns the next character, or -1 at the end. */
static int next_char(struct name_reader *in)
{
    if (in->part == in->r->n)
        return -1;
    ckpt_str part = in->r->parts[in->part];
    if (in->pos < part.len)
        return (unsigned char)part.ptr[in->pos++];
    in->part++;
    in->pos = 0;
    return in->part == in->r->n ? -1 : '.';
}

bool reference_equal(const struct reference *left, const struct reference *right)
{
    struct name_reader in_a = {.r = left}, in_b = {.r = right};
    int c;
    if (!str_eq(left->module, right->module))
        return false;
    do
        c = next_char(&in_a);
    while (c == next_char(&in_b) && c != -1);
    return c == -1 && in_b.part == right->n;
}

bool reference_is_member(const struct reference *ref)
{
    return ref->n > 1 || str_find(ref->parts[0], STR_LIT("."), 0) != SIZE_MAX;
}

bool reference_is_memory_format(const struct reference *ref)
{
    return str_is(ref->module, "torch") && ref->n == 1 && is_memory_format(ref->parts[0]);
}

ckpt_str reference_last(const struct reference *ref) { return str_after_last(ref->parts[ref->n - 1], '.'); }
