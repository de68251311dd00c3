/*
 * hdf5_object.c - reads object headers of HDF5: lists of messages, in one block or several.
 *
 *   version 1                                    version 2
 *   0   1  version, 1                            0   4  "OHDR"
 *   2   2  number of messages                    4   1  version, 2
 *   4   4  number of references                  5   1  flags: 4: messages have an order; others: below
 *   8   4  size of the first block               6      if flag 32: times 16; if flag 16: limits 4
 *   16     messages: type 2, size 2, flags 1,    …      size of the first block, 1 << (flags & 3) bytes
 *          3 zeros, body                         …      messages: type 1, size 2, flags 1, (order 2,) body
 *                                                …   4  checksum
 *
 * A message of type 16 is the address and size of another block, which in version 2 begins with "OCHK" and
 * ends with a checksum. A dataspace, each field followed by its size in bytes: version 1 (1 or 2), rank 1,
 * flags 1; in version 1: zeros 5; in version 2: kind 1 (0: one element, 1: elements of a shape, 2: null, no
 * element); the shape, 8 for each dimension; if flag 1 is set, the sizes to which it may grow, likewise.
 *
 * Refused: two messages of one type, shared messages other than datatypes, unknown messages with flags
 * that require a reader to know them, more than MAX_BLOCKS blocks or MAX_MESSAGES messages.
 */
#include "codec/hdf5_internal.h"

#define MAX_MESSAGES 65536u
#define MAX_BLOCKS   1024u

enum message_type {
    MESSAGE_DATASPACE = 1,
    MESSAGE_LINK_INFO = 2,
    MESSAGE_DATATYPE = 3,
    MESSAGE_OLD_FILL = 4,
    MESSAGE_FILL = 5,
    MESSAGE_LINK = 6,
    MESSAGE_EXTERNAL = 7,
    MESSAGE_LAYOUT = 8,
    MESSAGE_FILTERS = 11,
    MESSAGE_ATTRIBUTE = 12,
    MESSAGE_SHARED_TABLE = 15,
    MESSAGE_CONTINUATION = 16,
    MESSAGE_SYMBOL_TABLE = 17,
    MESSAGE_ATTRIBUTE_INFO = 21,
    MESSAGE_LAST = 22
};

#define FLAG_SHARED     0x02u /* flag of a message: it refers to a message of another object */
#define FLAGS_MUST_KNOW 0x88u /* flags of a message: a reader that does not know its type must fail */
#define ORDER_FLAG      0x04u /* flag of a header: its messages have an order */

/* The blocks of a header. */
struct header_blocks {
    struct {
        uint64_t addr, size;
    } blocks[MAX_BLOCKS];
    size_t n, nread; /* number of blocks, and of those that were read */
};

struct header_reader {
    struct hdf5 *h;
    struct hdf5_object *o;
    struct header_blocks *list;
    bool is_version1;
    bool has_order;  /* version 2: messages have the field "order" */
    uint32_t unread; /* version 1: number of messages that are still to be read */
};

static struct hdf5_message *find_message(struct hdf5_object *o, uint32_t type)
{
    switch (type) {
    case MESSAGE_DATASPACE: return &o->dataspace;
    case MESSAGE_LINK_INFO: return &o->link_info;
    case MESSAGE_DATATYPE: return &o->datatype;
    case MESSAGE_OLD_FILL: return &o->old_fill;
    case MESSAGE_FILL: return &o->fill;
    case MESSAGE_LAYOUT: return &o->layout;
    case MESSAGE_FILTERS: return &o->filters;
    case MESSAGE_SYMBOL_TABLE: return &o->symbol_table;
    case MESSAGE_ATTRIBUTE_INFO: return &o->attribute_info;
    default: return NULL;
    }
}

/* append_body - appends C, the body of a message, to *LIST. */
static ckpt_status append_body(struct hdf5 *h, cursor c, cursor **list, size_t *n, size_t *cap)
{
    return arena_push(h->scratch, list, n, cap, &c, sizeof c) ? CKPT_OK : fail_memory(h->err);
}

/* add_block - adds the block that C, the body of a continuation message, refers to. */
static ckpt_status add_block(struct header_reader *r, cursor c)
{
    struct header_blocks *b = r->list;
    uint64_t addr = cursor_u64(&c), size = cursor_u64(&c);
    if (c.bad)
        return hdf5_fail_short(r->h, &c, "a continuation");
    if (b->n == MAX_BLOCKS)
        return fail(r->h->err, CKPT_ELIMIT, c.pos, "an object header of {more} than {=%u blocks}",
                    MAX_BLOCKS);
    b->blocks[b->n].addr = addr;
    b->blocks[b->n++].size = size;
    return CKPT_OK;
}

/* check_flags - refuses a message whose TYPE or FLAGS are not supported. */
static ckpt_status check_flags(struct header_reader *r, uint32_t type, uint8_t flags, uint64_t pos)
{
    if (flags & FLAG_SHARED && type != MESSAGE_DATATYPE && type <= MESSAGE_LAST)
        return fail(r->h->err, CKPT_EUNSUPPORTED, pos,
                    "{a shared message} of type %u; shared {=datatypes} are read", type);
    if (type == MESSAGE_SHARED_TABLE || (type > MESSAGE_LAST && flags & FLAGS_MUST_KNOW))
        return fail(r->h->err, CKPT_EUNSUPPORTED, pos, "{a message of type %u}; only {=other types} are read",
                    type);
    return CKPT_OK;
}

/* take_message - adds the message of TYPE with BODY to the object; for a continuation message, adds the block
 * that it refers to. */
static ckpt_status take_message(struct header_reader *r, uint32_t type, uint8_t flags, cursor body)
{
    struct hdf5_object *o = r->o;
    if (++o->nmessages > MAX_MESSAGES)
        return fail(r->h->err, CKPT_ELIMIT, body.pos, "an object header of {more} than {=%u messages}",
                    MAX_MESSAGES);
    CKPT_TRY(check_flags(r, type, flags, body.pos));
    if (type == MESSAGE_CONTINUATION)
        return add_block(r, body);
    if (type == MESSAGE_ATTRIBUTE)
        return append_body(r->h, body, &o->attributes, &o->nattributes, &o->cap_attributes);
    if (type == MESSAGE_LINK)
        return append_body(r->h, body, &o->links, &o->nlinks, &o->cap_links);
    o->has_external_data |= type == MESSAGE_EXTERNAL;
    struct hdf5_message *m = find_message(o, type);
    if (m && m->is_there)
        return fail(r->h->err, CKPT_EFORMAT, body.pos, "{two messages} of type %u, where {=one} is allowed",
                    type);
    if (m)
        *m = (struct hdf5_message){true, flags, body};
    return CKPT_OK;
}

/* read_messages - reads the messages in C: in version 1 up to the number in the header, in version 2 all. */
static ckpt_status read_messages(struct header_reader *r, cursor *c)
{
    size_t header_size = r->is_version1 ? 8 : r->has_order ? 6 : 4; /* bytes before a body */
    while (c->left >= header_size && (!r->is_version1 || r->unread)) {
        uint32_t type = (uint32_t)cursor_number(c, r->is_version1 ? 2 : 1), size = cursor_u16(c);
        uint8_t flags = cursor_u8(c);
        (void)cursor_take(c, header_size - (r->is_version1 ? 5 : 4));
        cursor body = cursor_sub(c, size);
        if (body.bad)
            return hdf5_fail_short(r->h, &body, "a message");
        if (r->is_version1)
            r->unread--;
        CKPT_TRY(take_message(r, type, flags, body));
    }
    return CKPT_OK;
}

static ckpt_status load_block(struct header_reader *r, uint64_t addr, uint64_t size, cursor *c)
{
    static const char what[] = "a block of an object header";
    CKPT_TRY(hdf5_load(r->h, addr, size, what, c));
    if (r->is_version1)
        return CKPT_OK;
    cursor all = *c;
    const unsigned char *magic = cursor_take(c, 4);
    if (!magic || memcmp(magic, "OCHK", 4) != 0)
        return fail(r->h->err, CKPT_EFORMAT, addr,
                    "a block of an object header begins with {other bytes} than {=OCHK}");
    return hdf5_cut_checksum(r->h, all, what, c);
}

static ckpt_status read_blocks(struct header_reader *r)
{
    struct header_blocks *b = r->list;
    cursor c;
    for (; b->nread < b->n && (!r->is_version1 || r->unread); b->nread++) {
        CKPT_TRY(load_block(r, b->blocks[b->nread].addr, b->blocks[b->nread].size, &c));
        CKPT_TRY(read_messages(r, &c));
    }
    return !r->unread ? CKPT_OK
                      : fail(r->h->err, CKPT_EFORMAT, r->o->addr,
                             "an object header lacks {%u} of {=its messages}", r->unread);
}

static ckpt_status read_version1(struct header_reader *r)
{
    cursor c;
    CKPT_TRY(hdf5_load(r->h, r->o->addr, 16, "an object header", &c));
    (void)cursor_take(&c, 2);
    r->unread = cursor_u16(&c);
    (void)cursor_take(&c, 4);
    r->list->blocks[0].size = cursor_u32(&c);
    r->list->blocks[0].addr = r->o->addr + 16;
    r->list->n = 1;
    return read_blocks(r);
}

static ckpt_status read_version2(struct header_reader *r)
{
    static const struct hdf5_kind first_block = {"OHDR", 2, "an object header"};
    struct hdf5 *h = r->h;
    uint64_t addr = r->o->addr, total;
    cursor c;
    CKPT_TRY(hdf5_load(h, addr, 6, "an object header", &c));
    uint8_t flags = c.p[5];
    uint32_t width = 1u << (flags & 3);
    uint32_t prefix = 6 + width + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
    CKPT_TRY(hdf5_load(h, addr, prefix, "an object header", &c));
    (void)cursor_take(&c, prefix - width);
    uint64_t size = cursor_number(&c, width);
    if (!checked_add(size, (uint64_t)prefix + 4, &total))
        return hdf5_fail_short(h, &c, "an object header");
    CKPT_TRY(hdf5_load_checked(h, addr, total, &first_block, &c));
    (void)cursor_take(&c, prefix - 5);
    r->has_order = flags & ORDER_FLAG;
    CKPT_TRY(read_messages(r, &c));
    return read_blocks(r);
}

ckpt_status hdf5_read_object(struct hdf5 *h, uint64_t addr, struct hdf5_object *o)
{
    cursor c;
    *o = (struct hdf5_object){.addr = addr};
    struct header_reader r = {.h = h, .o = o, .list = ARENA_NEW(h->scratch, struct header_blocks)};
    CKPT_TRY_ALLOC(r.list, h->err);
    CKPT_TRY(hdf5_load(h, addr, 4, "an object header", &c));
    r.is_version1 = c.p[0] == 1;
    if (!r.is_version1 && memcmp(c.p, "OHDR", 4) != 0)
        return fail(h->err, CKPT_EFORMAT, addr, "{no object header} of {=version 1 or 2}");
    return r.is_version1 ? read_version1(&r) : read_version2(&r);
}

/* read_sizes - reads the shape of S and, if HAS_MAX, the sizes to which it may grow. */
static ckpt_status read_sizes(struct hdf5 *h, cursor *c, bool has_max, struct hdf5_space *s)
{
    if (s->ndim > HDF5_MAX_RANK)
        return fail(h->err, CKPT_EFORMAT, c->pos, "a rank of {%u}, up to {=%u} are allowed", s->ndim,
                    HDF5_MAX_RANK);
    for (uint32_t i = 0; i < s->ndim; i++)
        s->shape[i] = cursor_u64(c);
    for (uint32_t i = 0; i < s->ndim; i++)
        s->max_shape[i] = has_max ? cursor_u64(c) : s->shape[i];
    if (c->bad)
        return hdf5_fail_short(h, c, "a dataspace");
    for (uint32_t i = 0; i < s->ndim; i++)
        if (s->shape[i] > s->max_shape[i])
            return fail(h->err, CKPT_EFORMAT, c->pos,
                        "dimension %u has the size {%llu}, up to {=%llu} is allowed", i,
                        (unsigned long long)s->shape[i], (unsigned long long)s->max_shape[i]);
    if (checked_product(s->shape, s->ndim, &s->elements))
        return CKPT_OK;
    return fail(h->err, CKPT_EFORMAT, c->pos, "{the product of %u sizes} does not fit {=64 bits}", s->ndim);
}

ckpt_status hdf5_read_space(struct hdf5 *h, cursor c, struct hdf5_space *out)
{
    *out = (struct hdf5_space){.elements = 0};
    unsigned version = cursor_u8(&c);
    out->ndim = cursor_u8(&c);
    uint8_t flags = cursor_u8(&c);
    if (version != 1 && version != 2)
        return fail(h->err, CKPT_EUNSUPPORTED, c.pos, "a dataspace of version {%u}; {=1 and 2} are read",
                    version);
    if (version == 1) {
        (void)cursor_take(&c, 5);
    } else {
        unsigned kind = cursor_u8(&c);
        out->is_null = kind == 2;
        if (kind > 2 || (kind != 1 && out->ndim))
            return fail(h->err, CKPT_EFORMAT, c.pos,
                        "a dataspace of kind {%u} and rank %u; {=kinds 0 to 2} exist, only kind 1 has a rank",
                        kind, out->ndim);
    }
    if (out->is_null)
        return CKPT_OK;
    if (version == 1 && flags & 2)
        return fail(h->err, CKPT_EUNSUPPORTED, c.pos,
                    "{permuted dimensions}; only {=dimensions in order} are read");
    return read_sizes(h, &c, flags & 1, out);
}
