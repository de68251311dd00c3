/*
 * msgpack.c - MessagePack, as flax.serialization writes it: one map of texts, its arrays extensions of
 * type 1 (array), 2 (complex number) and 3 (scalar of numpy). Nothing in it runs: flax makes arrays of
 * numbers alone.
 *
 * It has no magic number. What is taken for it begins with a map whose first key is a text, and ends with
 * the last value of that map, to the byte.
 */
#include "codec/msgpack.h"

#include <inttypes.h>

#include "scan/scan.h"

#define SNIFF 16u /* bytes values from here on are looked into */

struct visit {
    struct scanner *x;
    source *src;
    ckpt_str where;
    uint64_t tensors; /* bytes of arrays */
    bool foreign;     /* an extension that nobody here knows */
};

/* look_into - the value of a key may be a file of its own. */
static ckpt_status look_into(struct visit *m, const struct msgpack_value *v, ckpt_error *err)
{
    struct scanner *x = m->x;
    uint64_t known = 0;
    source *part;
    if (v->n < SNIFF || x->depth >= x->s->opts->max_depth)
        return CKPT_OK;
    ckpt_str where = scan_join(x, m->where, arena_printf(x->a, "value@0x%" PRIx64, v->data));
    if (!where.ptr)
        return fail_memory(err);
    CKPT_TRY(source_slice(m->src, v->data, v->n, &part, err));
    x->depth++;
    ckpt_status st = scan_bytes(x, part, where, SCAN_VALUE, &known, err);
    x->depth--;
    source_unref(part);
    return st;
}

static ckpt_status visit_value(void *user, const struct msgpack_value *v, ckpt_error *err)
{
    struct visit *m = user;
    if (v->kind == MSGPACK_EXT && v->type >= 1 && v->type <= 3) {
        m->tensors += v->n; /* bounded: they lie in the source */
        return CKPT_OK;
    }
    if (v->kind == MSGPACK_EXT && v->type != -1 && !m->foreign) {
        m->foreign = true;
        if (!scan_found(m->x->s, SCAN_FMT003, m->where, m->src, v->data - 1, /* bounded: its type is there */
                        "an extension of {type %" PRId8 "}, which only its program can read", v->type))
            return CKPT_ECANCELLED;
    }
    bool bytes = v->kind == MSGPACK_EXT || v->kind == MSGPACK_TEXT || v->kind == MSGPACK_BYTES;
    return bytes ? look_into(m, v, err) : CKPT_OK;
}

static bool begins(struct scanner *x, source *src)
{
    unsigned char b[6] = {0};
    size_t n = src->size < sizeof b ? (size_t)src->size : sizeof b;
    if (n < 3 || !scan_read(x->s, src, 0, b, n))
        return false;
    size_t key = b[0] == 0xde ? 3 : b[0] == 0xdf ? 5 : 1;
    bool maps = (b[0] > 0x80 && b[0] <= 0x8f) || b[0] == 0xde || b[0] == 0xdf;
    return maps && ((b[key] & 0xe0) == 0xa0 || (b[key] >= 0xd9 && b[key] <= 0xdb));
}

ckpt_status scan_msgpack(struct scanner *x, source *src, ckpt_str where, bool *is, uint64_t *known,
                         ckpt_error *err)
{
    struct visit m = {.x = x, .src = src, .where = where};
    ckpt_error why;
    *is = false;
    if (!begins(x, src))
        return CKPT_OK;
    ckpt_status st = msgpack_read(src, NULL, NULL, &why);
    *is = st == CKPT_OK;
    if (st != CKPT_OK) {
        if (st != CKPT_EFORMAT)
            *err = why;
        return st == CKPT_EFORMAT ? CKPT_OK : st;
    }
    x->format = x->depth ? x->format : "msgpack";
    st = msgpack_read(src, visit_value, &m, err);
    if (st != CKPT_OK &&
        st != CKPT_EFORMAT) /* it is sound, unless it changes meanwhile, which ckpt_scan sees */
        return st;
    scan_known(src, &x->s->result->in_tensors, m.tensors);
    if (!m.foreign)
        *known += src->size; /* bounded: once */
    return CKPT_OK;
}
