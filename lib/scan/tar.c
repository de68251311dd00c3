/*
 * tar.c - members of a tar; those of torch 0.1 (torch/tar.c has the layout) are pickles
 * with numbers between them, which are passed over by the lengths that the pickles state.
 */
#include "base/checked.h"
#include "base/cursor.h"
#include "codec/pickle_read.h"
#include "codec/tar.h"
#include "core/dtype.h"
#include "scan/scan.h"

struct members {
    struct scanner *x;
    source *src;
    ckpt_str where;
    arena *a; /* values that tell lengths */
    uint64_t pos;
    ckpt_error *err;
};

/* told - a pickle of the member, followed; its value in *V, NULL if it broke off. */
static ckpt_status told(struct members *m, ckpt_value **v)
{
    uint64_t at = m->pos, next;
    bool stopped;
    ckpt_error why;
    *v = NULL;
    CKPT_TRY(scan_one_pickle(m->x, m->src, m->where, &m->pos, &stopped, m->err));
    ckpt_status st = stopped ? pickle_read(m->a, m->src, at, m->src->size, NULL, v, &next, &why) : CKPT_OK;
    *v = st == CKPT_OK ? *v : NULL;
    if (st != CKPT_ENOMEM || !arena_full(m->a))
        (void)scan_failed(m->x->s, st, &why);
    return CKPT_OK;
}

static bool pass(struct members *m, uint64_t n)
{
    return checked_add(m->pos, n, &m->pos) && m->pos <= m->src->size;
}

/* numbers - what follows the pickle V of a storage, or of a tensor: false, they are not there. */
static bool numbers(struct members *m, const ckpt_value *v, bool tensor)
{
    unsigned char head[8];
    uint64_t n, size;
    if (!v || m->src->size - m->pos < sizeof head || /* bounded: pos lies in the source */
        !scan_read(m->x->s, m->src, m->pos, head, sizeof head))
        return false;
    m->pos += sizeof head; /* bounded: read just now */
    if (tensor)
        return pass(m, (uint64_t)load_u32le(head) * 16 + 8); /* bounded: 32 bits */
    const ckpt_value *klass = value_item(v, 2);
    ckpt_dtype dtype = klass ? dtype_by_storage(value_name(klass)) : CKPT_DT_NONE;
    n = load_u64le(head);
    return dtype != CKPT_DT_NONE && dtype_bytes(dtype, n, &size) && pass(m, size);
}

/* numbered - a count, then as many pickles, each with numbers behind it; a pickle more in "storages". */
static ckpt_status numbered(struct members *m, bool tensor, uint64_t *known)
{
    ckpt_value *v;
    int64_t n = 0;
    CKPT_TRY(told(m, &v));
    bool ok = v && value_integer(v, &n) && n >= 0;
    for (int64_t i = 0; ok && i < n; i++) {
        CKPT_TRY(told(m, &v));
        ok = numbers(m, v, tensor);
    }
    if (ok && !tensor)
        CKPT_TRY(told(m, &v));
    if (ok && m->pos == m->src->size) {
        *known += m->src->size; /* bounded: once */
        return CKPT_OK;
    }
    return scan_found(m->x->s, SCAN_FMT002, m->where, m->src, m->pos < m->src->size ? m->pos : m->src->size,
                      "no tensors of torch 0.1 from here on")
               ? CKPT_OK
               : CKPT_ECANCELLED;
}

static ckpt_status scan_numbered(struct scanner *x, source *part, ckpt_str where, bool tensor,
                                 uint64_t *known, ckpt_error *err)
{
    struct members m = {.x = x, .src = part, .where = where, .a = arena_new((uint64_t)64 << 20), .err = err};
    ckpt_status st = m.a ? numbered(&m, tensor, known) : fail_memory(err);
    arena_free(m.a);
    return st;
}

static ckpt_status member(struct scanner *x, source *src, ckpt_str outer, const struct tar_entry *e,
                          bool torch, uint64_t *inside, ckpt_error *err)
{
    source *part = NULL;
    uint64_t known = 0;
    ckpt_status st;
    ckpt_str where = scan_join(x, outer, e->name), name = str_after_last(e->name, '/');
    if (!where.ptr)
        return fail_memory(err);
    if (e->type == '1' || e->type == '2')
        return scan_found(x->s, SCAN_ARC003, where, src, e->data,
                          "a link; whoever unpacks it may write elsewhere")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    if (e->type != '0' && e->type != '7' && e->size)
        return scan_found(x->s, SCAN_ARC002, where, src, e->data, "a member of type '%c'", e->type)
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    if (e->size == 0)
        return CKPT_OK;
    CKPT_TRY(source_slice(src, e->data, e->size, &part, err));
    x->s->result->members++;
    st = scan_sum(x, part, where, 0, NULL, err);
    x->depth++;
    bool storages = str_is(name, "storages"), tensors = str_is(name, "tensors");
    if (st == CKPT_OK)
        st = torch && (storages || tensors) ? scan_numbered(x, part, where, tensors, &known, err)
                                            : scan_bytes(x, part, where, SCAN_MEMBER, &known, err);
    x->depth--;
    if (known >= part->size)
        *inside += e->size; /* bounded: inside the tar */
    source_unref(part);
    return st;
}

/* filled - [FROM, TO), with which nothing but zeros fills up a block, or the end. */
static ckpt_status filled(struct scanner *x, source *src, ckpt_str where, uint64_t from, uint64_t to,
                          ckpt_error *err)
{
    unsigned char chunk[4096];
    size_t n, i = 0;
    to = to < src->size ? to : src->size;
    for (n = 0; from < to; from += n) { /* bounded: n is what is left, at most */
        n = to - from < sizeof chunk ? (size_t)(to - from) : sizeof chunk;
        CKPT_TRY(source_read(src, from, chunk, n, err));
        for (i = 0; i < n && chunk[i] == 0; i++)
            ;
        if (i < n)
            break;
    }
    if (from >= to)
        return CKPT_OK;
    from += i; /* bounded: inside the chunk */
    if (!scan_found(x->s, SCAN_FMT002, where, src, from,
                    "bytes that belong to no member, where a tar has zeros"))
        return CKPT_ECANCELLED;
    return scan_stray(x, src, where, from, to, err);
}

static bool has(const struct tar_entry *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(str_after_last(list[i].name, '/'), name))
            return true;
    return false;
}

ckpt_status scan_tar(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    struct tar_entry *list;
    size_t n = 0;
    uint64_t inside = 0, payload = 0;
    ckpt_error why;
    x->format = x->depth ? x->format : "tar";
    if (x->depth >= x->s->opts->max_depth)
        return scan_found(x->s, SCAN_ARC002, where, NULL, CKPT_NO_OFFSET, "an archive nested too deep")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    ckpt_status st = tar_list(src, x->a, &list, &n, &why);
    if (scan_failed(x->s, st, &why)) {
        *err = why;
        return st;
    }
    if (st != CKPT_OK)
        return scan_found(x->s, SCAN_FMT002, where, NULL, CKPT_NO_OFFSET, "tar: %s", why.what)
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    bool torch = has(list, n, "storages") && has(list, n, "tensors") && has(list, n, "pickle");
    uint64_t end = 0, block;
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        payload += list[i].size; /* bounded: members lie one behind the other in the source */
        st = member(x, src, where, &list[i], torch, &inside, err);
        end = list[i].data + list[i].size;     /* bounded: the same */
        block = end + (512 - end % 512) % 512; /* bounded: a block more than what lies in the source */
        if (st == CKPT_OK)
            st = filled(x, src, where, end, block, err);
        end = block;
    }
    if (st == CKPT_OK)
        st = filled(x, src, where, end, src->size, err);
    *known += src->size - (payload - inside); /* bounded: inside is of the payload, that of the source */
    return st == CKPT_OK && torch ? scan_strict(x, src, where, "torch-tar", NULL, err) : st;
}
