/* json_value.c - reads a JSON document as nodes of the value graph. */
#include "codec/json_scan.h"
#include "codec/pickle_text.h"
#include "core/value.h"

struct json_builder {
    json_scan j;
    arena *a;
    ckpt_value *containers[JSON_DEPTH]; /* the containers around the next value, the innermost last */
    ckpt_value *keys[JSON_DEPTH];       /* [i]: if containers[i] is a dict, the last key read in it */
    uint32_t depth;
};

/* make_number - returns a node of the number that was scanned: an integer, or a float if the number has a
 * fraction or an exponent. NULL: out of memory. */
static ckpt_value *make_number(const struct json_builder *builder)
{
    ckpt_str s = builder->j.str;
    int64_t small;
    if (memchr(s.ptr, '.', s.len) || memchr(s.ptr, 'e', s.len) || memchr(s.ptr, 'E', s.len)) {
        ckpt_value *v = value_new(builder->a, CKPT_V_FLOAT, 0);
        return v && pickle_text_float(s, &v->u.f) ? v : NULL;
    }
    if (pickle_text_int(s, &small))
        return value_int(builder->a, small);
    ckpt_value *v = value_new(builder->a, CKPT_V_BIGINT, 0);
    unsigned char *bytes = v ? arena_alloc(builder->a, s.len / 2 + 16) : NULL;
    size_t n = bytes ? pickle_text_bigint(s, bytes) : PICKLE_TEXT_BAD;
    if (n == PICKLE_TEXT_BAD)
        return NULL;
    v->u.str = str_of((const char *)bytes, n);
    return v;
}

/* make_node - returns the node of event EVENT, which begins a container or is a value; NULL: out of
 * memory. */
static ckpt_value *make_node(struct json_builder *builder, enum json_event event)
{
    ckpt_value *v = NULL;
    switch (event) {
    case JSON_OBJECT: v = value_new(builder->a, CKPT_V_DICT, 0); break;
    case JSON_ARRAY: v = value_new(builder->a, CKPT_V_LIST, 0); break;
    case JSON_STRING: v = value_str(builder->a, builder->j.str); break;
    case JSON_NUMBER: v = make_number(builder); break;
    case JSON_NULL: v = value_new(builder->a, CKPT_V_NONE, 0); break;
    default: v = value_bool(builder->a, event == JSON_TRUE); break;
    }
    if (v)
        value_set_offset(v, json_offset(&builder->j, builder->j.event_at));
    return v;
}

/* add_to_container - adds VALUE to the innermost open container, if any. False: out of memory. */
static bool add_to_container(struct json_builder *builder, ckpt_value *value)
{
    ckpt_value *container = builder->depth ? builder->containers[builder->depth - 1] : NULL;
    if (!container)
        return true;
    return container->type == CKPT_V_LIST
               ? value_append(builder->a, container, value)
               : value_put(builder->a, container, builder->keys[builder->depth - 1], value);
}

ckpt_status json_read_value(ckpt_str text, uint64_t text_offset, arena *a, ckpt_value **out, ckpt_error *err)
{
    struct json_builder b = {.a = a};
    enum json_event e;
    *out = NULL;
    json_init(&b.j, text, text_offset, a, err);
    while ((e = json_next(&b.j)) != JSON_END && e != JSON_ERROR) {
        if (e == JSON_OBJECT_END || e == JSON_ARRAY_END) {
            b.depth--;
            continue;
        }
        ckpt_value *v = e == JSON_KEY ? value_str(a, b.j.str) : make_node(&b, e);
        if (!v || (e != JSON_KEY && !add_to_container(&b, v)))
            return fail_memory(err);
        if (e == JSON_KEY) {
            b.keys[b.depth - 1] = v;
            continue;
        }
        *out = *out ? *out : v; /* the first node is the document */
        if (e == JSON_OBJECT || e == JSON_ARRAY)
            b.containers[b.depth++] = v;
    }
    return json_check_end(&b.j, e, JSON_END);
}
