/*
 * compact.c - a record is
 *
 * SIZE  DESCRIPTION
 * 1     dtype; 0x80: bad, 0x40: nothing but the name follows
 * 1-5   length of the name
 *       the name, and behind it a NUL unless it is all there is
 * 1-5   dimensions, then where its sizes are, then where its name was
 * 1-10  where its data begin, then where they end
 *
 * Numbers have seven bits in each byte, the lowest first; 0x80 says that more
 * follow. So no number takes more bytes than it has decimal digits.
 */
#include "core/compact.h"

#include <string.h>

#define BAD       0x80u
#define NAME_ONLY 0x40u

_Static_assert(CKPT_DT_COUNT <= NAME_ONLY, "a dtype is told by six bits");

static unsigned char *put(unsigned char *to, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *to++ = (unsigned char)(n | 0x80);
    *to++ = (unsigned char)n;
    return to;
}

static inline const unsigned char *get(const unsigned char *p, uint64_t *n)
{
    *n = *p;
    if (*p++ < 0x80)
        return p;
    *n &= 0x7f;
    for (unsigned shift = 7;; shift += 7) {
        *n |= (uint64_t)(*p & 0x7f) << shift;
        if (*p++ < 0x80)
            return p;
    }
}

size_t compact_put(unsigned char *bytes, size_t at, const struct compact_row *x)
{
    unsigned char head[16], *end = put(head + 1, x->name.len);
    head[0] = (unsigned char)(x->dtype | (x->bad ? BAD | NAME_ONLY : 0));
    size_t n = (size_t)(end - head);
    unsigned char *to = bytes + at + n;
    if (x->name.len)
        memmove(to, x->name.ptr, x->name.len); /* first: it may lie where the head will */
    memcpy(bytes + at, head, n);
    to += x->name.len;
    if (!x->bad) {
        *to++ = '\0';
        to = put(put(put(to, x->ndim), x->shape), x->at);
        to = put(put(to, x->begin), x->end);
    }
    return (size_t)(to - bytes);
}

static inline const unsigned char *get_name(const struct compact *p, size_t i, ckpt_str *name)
{
    uint64_t len;
    const unsigned char *at = get(p->bytes + p->at[i] + 1, &len);
    *name = (ckpt_str){(const char *)at, (size_t)len};
    return at + len;
}

ckpt_str compact_name(const struct compact *p, size_t i)
{
    ckpt_str name;
    (void)get_name(p, i, &name);
    return name;
}

static inline const unsigned char *get_u32(const unsigned char *p, uint32_t *n)
{
    uint64_t wide;
    p = get(p, &wide);
    *n = (uint32_t)wide;
    return p;
}

void compact_get(const struct compact *p, size_t i, struct compact_row *x)
{
    unsigned flags = p->bytes[p->at[i]];
    *x = (struct compact_row){.dtype = flags & (NAME_ONLY - 1), .bad = flags & BAD};
    const unsigned char *at = get_name(p, i, &x->name);
    if (flags & NAME_ONLY)
        return;
    at = get_u32(get_u32(get_u32(at + 1, &x->ndim), &x->shape), &x->at);
    (void)get(get(at, &x->begin), &x->end);
}

void compact_spoil(struct compact *p, size_t i) { p->bytes[p->at[i]] |= BAD; }

void compact_show(const struct compact *p, uint32_t i, ckpt_tensor *out)
{
    struct compact_row x;
    compact_get(p, i, &x);
    *out = (ckpt_tensor){.name = x.name,
                         .npath = 1,
                         .dtype = x.dtype,
                         .kind = CKPT_DENSE,
                         .ndim = x.ndim,
                         .shape = p->sizes + x.shape,
                         .has_shape = true,
                         .has_data = true,
                         .elements = 1,
                         .nbytes = x.end - x.begin,
                         .storage = i,
                         .file_offset = source_pos(p->src, p->data + x.begin), /* bounded: inside the file */
                         .alias_of = CKPT_NO_TENSOR,
                         .part_of = CKPT_NO_TENSOR};
    for (uint32_t k = 0; k < x.ndim; k++)
        out->elements *= out->shape[k]; /* bounded: whoever made it multiplied them */
}

void compact_show_storage(const struct compact *p, uint32_t i, ckpt_storage *out)
{
    struct compact_row x;
    compact_get(p, i, &x);
    *out = (ckpt_storage){.nbytes = x.end - x.begin,
                          .file_offset = source_pos(p->src, p->data + x.begin), /* bounded: inside the file */
                          .key = x.name};
}
