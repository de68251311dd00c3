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

static struct hdf5_message *find_message(struct hdf5_object *object, uint32_t type)
{
    switch (type) {
    case MESSAGE_DATASPACE: return &object->dataspace;
    case MESSAGE_LINK_INFO: return &object->link_info;
    case MESSAGE_DATATYPE: return &object->datatype;
    case MESSAGE_OLD_FILL: return &object->old_fill;
    case MESSAGE_FILL: return &object->fill;
    case MESSAGE_LAYOUT: return &object->layout;
    case MESSAGE_FILTERS: return &object->filters;
    case MESSAGE_SYMBOL_TABLE: return &object->symbol_table;
    case MESSAGE_ATTRIBUTE_INFO: return &object->attribute_info;
    default: return NULL;
    }
}

/* append_body - appends IN, the body of a message, to *LIST. */
static ckpt_status append_body(struct hdf5 *hdf5, cursor in, cursor **list, size_t *count, size_t *cap)
{
    return arena_push(hdf5->scratch, list, count, cap, &in, sizeof in) ? CKPT_OK : fail_memory(hdf5->err);
}

/* add_block - adds the block that IN, the body of a continuation message, refers to. */
static ckpt_status add_block(struct header_reader *reader, cursor in)
{
    struct header_blocks *b = reader->list;
    uint64_t addr = cursor_u64(&in), size = cursor_u64(&in);
    if (in.bad)
        return hdf5_fail_short(reader->h, &in, "a continuation");
    if (b->n == MAX_BLOCKS)
        return fail(reader->h->err, CKPT_ELIMIT, in.pos, "an object header of {more} than {=%u blocks}",
                    MAX_BLOCKS);
    b->blocks[b->n].addr = addr;
    b->blocks[b->n++].size = size;
    return CKPT_OK;
}

/* check_flags - refuses a message whose TYPE or FLAGS are not supported. */
static ckpt_status check_flags(struct header_reader *reader, uint32_t type, uint8_t flags, uint64_t pos)
{
    if (flags & FLAG_SHARED && type != MESSAGE_DATATYPE && type <= MESSAGE_LAST)
        return fail(reader->h->err, CKPT_EUNSUPPORTED, pos,
                    "{a shared message} of type %u; shared {=datatypes} are read", type);
    if (type == MESSAGE_SHARED_TABLE || (type > MESSAGE_LAST && flags & FLAGS_MUST_KNOW))
        return fail(reader->h->err, CKPT_EUNSUPPORTED, pos,
                    "{a message of type %u}; only {=other types} are read", type);
    return CKPT_OK;
}

/* take_message - adds the message of TYPE with BODY to the object; for a continuation message, adds the block
 * that it refers to. */
static ckpt_status take_message(struct header_reader *reader, uint32_t type, uint8_t flags, cursor body)
{
    struct hdf5_object *o = reader->o;
    if (++o->nmessages > MAX_MESSAGES)
        return fail(reader->h->err, CKPT_ELIMIT, body.pos, "an object header of {more} than {=%u messages}",
                    MAX_MESSAGES);
    CKPT_TRY(check_flags(reader, type, flags, body.pos));
    if (type == MESSAGE_CONTINUATION)
        return add_block(reader, body);
    if (type == MESSAGE_ATTRIBUTE)
        return append_body(reader->h, body, &o->attributes, &o->nattributes, &o->cap_attributes);
    if (type == MESSAGE_LINK)
        return append_body(reader->h, body, &o->links, &o->nlinks, &o->cap_links);
    o->has_external_data |= type == MESSAGE_EXTERNAL;
    struct hdf5_message *m = find_message(o, type);
    if (m && m->is_there)
        return fail(reader->h->err, CKPT_EFORMAT, body.pos,
                    "{two messages} of type %u, where {=one} is allowed", type);
    if (m)
        *m = (struct hdf5_message){true, flags, body};
    return CKPT_OK;
}

/* read_messages - reads the messages in IN: in version 1 up to the number in the header, in version 2 all. */
static ckpt_status read_messages(struct header_reader *reader, cursor *in)
{
    size_t header_size = reader->is_version1 ? 8 : reader->has_order ? 6 : 4; /* bytes before a body */
    while (in->left >= header_size && (!reader->is_version1 || reader->unread)) {
        uint32_t type = (uint32_t)cursor_number(in, reader->is_version1 ? 2 : 1), size = cursor_u16(in);
        uint8_t flags = cursor_u8(in);
        (void)cursor_take(in, header_size - (reader->is_version1 ? 5 : 4));
        cursor body = cursor_sub(in, size);
        if (body.bad)
            return hdf5_fail_short(reader->h, &body, "a message");
        if (reader->is_version1)
            reader->unread--;
        CKPT_TRY(take_message(reader, type, flags, body));
    }
    return CKPT_OK;
}

static ckpt_status load_block(struct header_reader *reader, uint64_t addr, uint64_t size, cursor *in)
{
    static const char what[] = "a block of an object header";
    CKPT_TRY(hdf5_load(reader->h, addr, size, what, in));
    if (reader->is_version1)
        return CKPT_OK;
    cursor all = *in;
    const unsigned char *magic = cursor_take(in, 4);
    if (!magic || memcmp(magic, "OCHK", 4) != 0)
        return fail(reader->h->err, CKPT_EFORMAT, addr,
                    "a block of an object header begins with {other bytes} than {=OCHK}");
    return hdf5_cut_checksum(reader->h, all, what, in);
}

static ckpt_status read_blocks(struct header_reader *reader)
{
    struct header_blocks *b = reader->list;
    cursor c;
    for (; b->nread < b->n && (!reader->is_version1 || reader->unread); b->nread++) {
        CKPT_TRY(load_block(reader, b->blocks[b->nread].addr, b->blocks[b->nread].size, &c));
        CKPT_TRY(read_messages(reader, &c));
    }
    return !reader->unread ? CKPT_OK
                           : fail(reader->h->err, CKPT_EFORMAT, reader->o->addr,
                                  "an object header lacks {%u} of {=its messages}", reader->unread);
}

static ckpt_status read_version1(struct header_reader *reader)
{
    cursor c;
    CKPT_TRY(hdf5_load(reader->h, reader->o->addr, 16, "an object header", &c));
    (void)cursor_take(&c, 2);
    reader->unread = cursor_u16(&c);
    (void)cursor_take(&c, 4);
    reader->list->blocks[0].size = cursor_u32(&c);
    reader->list->blocks[0].addr = reader->o->addr + 16;
    reader->list->n = 1;
    return read_blocks(reader);
}

static ckpt_status read_version2(struct header_reader *reader)
{
    static const struct hdf5_kind first_block = {"OHDR", 2, "an object header"};
    struct hdf5 *h = reader->h;
    uint64_t addr = reader->o->addr, total;
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
    reader->has_order = flags & ORDER_FLAG;
    CKPT_TRY(read_messages(reader, &c));
    return read_blocks(reader);
}

ckpt_status hdf5_read_object(struct hdf5 *hdf5, uint64_t addr, struct hdf5_object *object)
{
    cursor c;
    *object = (struct hdf5_object){.addr = addr};
    struct header_reader r = {.h = hdf5, .o = object, .list = ARENA_NEW(hdf5->scratch, struct header_blocks)};
    CKPT_TRY_ALLOC(r.list, hdf5->err);
    CKPT_TRY(hdf5_load(hdf5, addr, 4, "an object header", &c));
    r.is_version1 = c.p[0] == 1;
    if (!r.is_version1 && memcmp(c.p, "OHDR", 4) != 0)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "{no object header} of {=version 1 or 2}");
    return r.is_version1 ? read_version1(&r) : read_version2(&r);
}

/* read_sizes - reads the shape of SPACE and, if HAS_MAX, the sizes to which it may grow. */
static ckpt_status read_sizes(struct hdf5 *hdf5, cursor *in, bool has_max, struct hdf5_space *space)
{
    if (space->ndim > HDF5_MAX_RANK)
        return fail(hdf5->err, CKPT_EFORMAT, in->pos, "a rank of {%u}, up to {=%u} are allowed", space->ndim,
                    HDF5_MAX_RANK);
    for (uint32_t i = 0; i < space->ndim; i++)
        space->shape[i] = cursor_u64(in);
    for (uint32_t i = 0; i < space->ndim; i++)
        space->max_shape[i] = has_max ? cursor_u64(in) : space->shape[i];
    if (in->bad)
        return hdf5_fail_short(hdf5, in, "a dataspace");
    for (uint32_t i = 0; i < space->ndim; i++)
        if (space->shape[i] > space->max_shape[i])
            return fail(hdf5->err, CKPT_EFORMAT, in->pos,
                        "dimension %u has the size {%llu}, up to {=%llu} is allowed", i,
                        (unsigned long long)space->shape[i], (unsigned long long)space->max_shape[i]);
    if (checked_product(space->shape, space->ndim, &space->elements))
        return CKPT_OK;
    return fail(hdf5->err, CKPT_EFORMAT, in->pos, "{the product of %u sizes} does not fit {=64 bits}",
                space->ndim);
}

ckpt_status hdf5_read_space(struct hdf5 *hdf5, cursor in, struct hdf5_space *out)
{
    *out = (struct hdf5_space){.elements = 0};
    unsigned version = cursor_u8(&in);
    out->ndim = cursor_u8(&in);
    uint8_t flags = cursor_u8(&in);
    if (version != 1 && version != 2)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, in.pos, "a dataspace of version {%u}; {=1 and 2} are read",
                    version);
    if (version == 1) {
        (void)cursor_take(&in, 5);
    } else {
        unsigned kind = cursor_u8(&in);
        out->is_null = kind == 2;
        if (kind > 2 || (kind != 1 && out->ndim))
            return fail(hdf5->err, CKPT_EFORMAT, in.pos,
                        "a dataspace of kind {%u} and rank %u; {=kinds 0 to 2} exist, only kind 1 has a rank",
                        kind, out->ndim);
    }
    if (out->is_null)
        return CKPT_OK;
    if (version == 1 && flags & 2)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, in.pos,
                    "{permuted dimensions}; only {=dimensions in order} are read");
    return read_sizes(hdf5, &in, flags & 1, out);
}
