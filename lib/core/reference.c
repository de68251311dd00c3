/* reference.c - see reference.h. */
#include "core/reference.h"

#include "core/python2.h"
#include "core/view.h"

/* get_attribute - sets *NAME if V calls getattr(object, NAME), and nothing else was done to the result. A
 * dot in NAME would be a part of the name: it is not looked up at the dot. */
static bool get_attribute(const ckpt_value *v, ckpt_str *name)
{
    return v && v->type == CKPT_V_CALL && value_nargs(v) == 2 && is_builtin(v->u.call.callable, "getattr") &&
           value_extra_of(v) == &value_no_extra && value_text(value_arg(v, 1), name) && name->len &&
           str_find(*name, STR_LIT("."), 0) == SIZE_MAX;
}

static bool is_memory_format(ckpt_str name)
{
    return str_is(name, "contiguous_format") || str_is(name, "channels_last") ||
           str_is(name, "channels_last_3d") || str_is(name, "preserve_format");
}

/* move_to_torch - changes the name of a memory format that begins in a module that imported torch. */
static void move_to_torch(struct reference *r)
{
    ckpt_str name = r->parts[r->n - 1];
    bool follows_torch = r->n == 2 && str_is(r->parts[0], "torch");
    if (r->n == 1 && str_starts(name, STR_LIT("torch."))) {
        name = str_skip(name, 6);
        follows_torch = true;
    }
    if (!follows_torch || !is_memory_format(name))
        return;
    r->module = STR_LIT("torch");
    r->parts[0] = name;
    r->n = 1;
}

bool reference_of(const ckpt_value *v, struct reference *out)
{
    unsigned n = 0;
    ckpt_str attributes[REFERENCE_PARTS];
    for (; get_attribute(v, &attributes[n]); v = value_arg(v, 0))
        if (++n == REFERENCE_PARTS)
            return false;
    if (v && v->type == CKPT_V_PERSID)
        v = value_source_class(v->u.pid);
    if (!v || v->type != CKPT_V_GLOBAL)
        return false;
    out->module = value_module(v);
    out->parts[0] = value_name(v);
    if (!(v->flags & VALUE_PYTHON3_NAME))
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

bool reference_equal(const struct reference *a, const struct reference *b)
{
    struct name_reader in_a = {.r = a}, in_b = {.r = b};
    int c;
    if (!str_eq(a->module, b->module))
        return false;
    do
        c = next_char(&in_a);
    while (c == next_char(&in_b) && c != -1);
    return c == -1 && in_b.part == b->n;
}

bool reference_is_member(const struct reference *r)
{
    return r->n > 1 || str_find(r->parts[0], STR_LIT("."), 0) != SIZE_MAX;
}

bool reference_is_memory_format(const struct reference *r)
{
    return str_is(r->module, "torch") && r->n == 1 && is_memory_format(r->parts[0]);
}

ckpt_str reference_last(const struct reference *r) { return str_after_last(r->parts[r->n - 1], '.'); }
