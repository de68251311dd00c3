/*
 * hdf5_type.c - reads datatypes of HDF5: numbers, texts, opaque bytes, records.
 *
 * OFFSET SIZE DESCRIPTION (a number after a field is its size in bytes)
 *   0   1  class, and 16 times the version (1 to 5; 4 differs from 3 in references, 5 has complex numbers)
 *   1   3  flags of the class
 *   4   4  size of an element
 *   8      properties of the class:
 *          integer    bit offset 2, precision 2
 *          float      the same; exponent: lowest bit 1, number of bits 1; mantissa: likewise; bias 4
 *          opaque     a text, whose length is in the flags
 *          record     for each member its name, offset and datatype
 *          enum       datatype of the numbers, names, numbers
 *          vlen       datatype of the elements
 *          array      dimensions, datatype of the elements
 *          complex    datatype of the two parts
 *
 * Nested datatypes are read with a stack, not by recursion.
 *
 * An integer may have less bits than its bytes (padding): hdf5r makes R's factors of such integers. The
 * fields of a float may be anywhere. hdf5_number.c converts both to a dtype.
 *
 * Not supported, and named in errors: floats that have more bits than a dtype, or of one byte, whose greatest
 * exponent has different meanings (float8_e4m3fn), times, bit fields, references, arrays, sequences that are
 * no texts, records with members that are texts of variable length, sequences or references.
 */
#include <stdio.h>

#include "base/buf.h"
#include "codec/hdf5_internal.h"

#define MAX_NESTED 8u
#define MAX_TEXT   4096u /* most bytes of the description of a record */
#define TYPE_TEXT  40u   /* room for the description of a member */

enum class {
    CLASS_INTEGER,
    CLASS_FLOAT,
    CLASS_TIME,
    CLASS_STRING,
    CLASS_BITS,
    CLASS_OPAQUE,
    CLASS_RECORD,
    CLASS_REFERENCE,
    CLASS_ENUM,
    CLASS_VLEN,
    CLASS_ARRAY,
    CLASS_COMPLEX
};

/* The first eight bytes of a datatype. */
struct type_header {
    uint8_t class, version;
    uint8_t flags[3];
    uint32_t size;
};

/* A datatype that has others in it, some of which are still to be read. */
struct enclosing_type {
    struct type_header header;
    uint32_t unread, nmembers; /* datatypes in it: those that are still to be read, and all */
};

/* A member of a record, which may be the real or imaginary part of a complex number. */
struct member {
    char name; /* name of one character; 0: the name is longer */
    uint32_t offset;
    struct hdf5_type type;
};

struct type_reader {
    struct hdf5 *h;
    cursor *c;
    struct enclosing_type enclosing[MAX_NESTED]; /* the outermost first */
    uint32_t depth;
    struct hdf5_type last_read;
    struct member first_members[2]; /* first two members of the outermost record */
    bool has_pointers;              /* true: a member is a text of variable length, sequence or reference */
    buf members_text;               /* describes the members of the outermost record */
};

static ckpt_status read_header(struct type_reader *reader, struct type_header *out)
{
    const unsigned char *b = cursor_take(reader->c, 8);
    if (!b)
        return hdf5_fail_short(reader->h, reader->c, "a datatype");
    *out = (struct type_header){b[0] & 15, b[0] >> 4, {b[1], b[2], b[3]}, load_u32le(b + 4)};
    if (out->version < 1 || out->version > 5 || out->class > CLASS_COMPLEX)
        return fail(reader->h->err, CKPT_EUNSUPPORTED, reader->c->pos,
                    "a datatype of {class %u, version %u}; {=classes 0 to 11, versions 1 to 5} are read",
                    out->class, out->version);
    return CKPT_OK;
}

/* set_unreadable - makes the datatype one whose elements cannot be read, called WHAT in errors. */
static void set_unreadable(struct type_reader *reader, const char *what)
{
    reader->last_read.kind = HDF5_UNREADABLE;
    reader->last_read.what = str_c(what);
}

static void set_number(struct type_reader *reader, ckpt_dtype dtype)
{
    reader->last_read.kind = HDF5_NUMBER;
    reader->last_read.dtype = dtype;
}

static void read_integer(struct type_reader *reader, const struct type_header *header)
{
    static const ckpt_dtype signed_dtypes[] = {CKPT_DT_I8, CKPT_DT_I16, CKPT_DT_I32, CKPT_DT_I64};
    static const ckpt_dtype unsigned_dtypes[] = {CKPT_DT_U8, CKPT_DT_U16, CKPT_DT_U32, CKPT_DT_U64};
    struct hdf5_bits bits = {.is_signed = header->flags[0] & 8};
    uint32_t i = 0;
    bits.offset = cursor_u16(reader->c);
    bits.precision = cursor_u16(reader->c);
    while (i < 4 && header->size != 1u << i)
        i++;
    reader->last_read.big_endian = header->flags[0] & 1;
    if (i == 4)
        set_unreadable(reader, "integer of a size that no dtype has");
    else if (!bits.precision || bits.offset + bits.precision > 8u << i)
        set_unreadable(reader, "integer with bits outside of it");
    else {
        set_number(reader, bits.is_signed ? signed_dtypes[i] : unsigned_dtypes[i]);
        reader->last_read.bits = bits;
        reader->last_read.is_converted = bits.precision < 8u << i;
    }
}

/* is_long_double - returns true if a float with BITS is a long double of x86-64. NORM: see
 * read_float. */
static bool is_long_double(const struct type_header *header, const struct hdf5_bits *bits, unsigned norm)
{
    return header->size == 16 && !(header->flags[0] & 1) && norm == 0 && !bits->offset &&
           bits->precision == 80 && bits->sign_at == 79 && bits->exponent_at == 64 &&
           bits->exponent_bits == 15 && !bits->fraction_at && bits->fraction_bits == 64 &&
           bits->bias == 16383;
}

static void read_float(struct type_reader *reader, const struct type_header *header)
{
    cursor *c = reader->c;
    struct hdf5_bits bits = {.sign_at = header->flags[1]};
    bits.offset = cursor_u16(c);
    bits.precision = cursor_u16(c);
    bits.exponent_at = cursor_u8(c);
    bits.exponent_bits = cursor_u8(c);
    bits.fraction_at = cursor_u8(c);
    bits.fraction_bits = cursor_u8(c);
    bits.bias = cursor_u32(c);
    bool is_vax = header->flags[0] & 0x40;     /* bytes in the order of VAX */
    unsigned norm = header->flags[0] >> 4 & 3; /* of the bit before the fraction: 2 implied, 0 stored */
    reader->last_read.big_endian = header->flags[0] & 1;
    set_unreadable(reader, "float of another layout");
    if (is_long_double(header, &bits, norm) && !is_vax)
        reader->last_read.kind = HDF5_LONGDOUBLE;
    else if (norm == 2 && !is_vax)
        (void)hdf5_set_float(&reader->last_read, &bits);
}

/* read_simple - reads a datatype that has no other datatypes in it. */
static void read_simple(struct type_reader *reader, const struct type_header *header)
{
    switch (header->class) {
    case CLASS_INTEGER: read_integer(reader, header); break;
    case CLASS_FLOAT: read_float(reader, header); break;
    case CLASS_STRING:
        reader->last_read.kind = HDF5_FIXED_TEXT;
        reader->last_read.space_padded = (header->flags[0] & 15) == 2;
        break;
    case CLASS_OPAQUE:
        (void)cursor_take(reader->c, header->flags[0]);
        reader->last_read.kind = HDF5_OPAQUE;
        break;
    case CLASS_TIME:
        (void)cursor_take(reader->c, 2);
        set_unreadable(reader, "time");
        break;
    case CLASS_BITS:
        (void)cursor_take(reader->c, 4);
        set_unreadable(reader, "bit field");
        break;
    default: set_unreadable(reader, "reference"); break;
    }
    reader->has_pointers |= header->class == CLASS_REFERENCE;
}

/* get_type_text - returns what the description of a record calls a member of TYPE. ROOM may hold the text. */
static const char *get_type_text(const struct hdf5_type *type, char room[TYPE_TEXT])
{
    switch (type->kind) {
    case HDF5_NUMBER:
        if (!type->is_converted)
            return ckpt_dtype_name(type->dtype);
        (void)snprintf(room, TYPE_TEXT, "%s of %u bits from bit %u on", ckpt_dtype_name(type->dtype),
                       type->bits.precision, type->bits.offset);
        return room;
    case HDF5_LONGDOUBLE: return "float128";
    case HDF5_FIXED_TEXT: (void)snprintf(room, TYPE_TEXT, "S%u", type->size); return room;
    case HDF5_OPAQUE: (void)snprintf(room, TYPE_TEXT, "V%u", type->size); return room;
    default: return type->kind == HDF5_TEXT ? "string" : "other";
    }
}

/* read_name - returns the next name, which ends in NUL. Before version 3, skips the padding to 8 bytes. */
static ckpt_str read_name(struct type_reader *reader, uint8_t version)
{
    const unsigned char *start = reader->c->p, *end = memchr(start, 0, reader->c->left);
    size_t n = end ? (size_t)(end - start) : reader->c->left;
    (void)cursor_take(reader->c, version < 3 ? (n | 7) + 1 : n + 1);
    return str_of((const char *)start, n);
}

/* begin_member - reads name and offset of the next member of RECORD. The offset has 4 bytes before version
 * 3, and from version 3 on as many as the size of the record needs. */
static void begin_member(struct type_reader *reader, const struct enclosing_type *record)
{
    ckpt_str name = read_name(reader, record->header.version);
    uint32_t width = 1, i = record->nmembers - 1 - record->unread;
    for (uint32_t high = record->header.size >> 8; high && width < 4; high >>= 8)
        width++;
    uint32_t offset = (uint32_t)cursor_number(reader->c, record->header.version < 3 ? 4 : width);
    if (record->header.version == 1) { /* rank, dimensions and permutation, which nothing writes any more */
        reader->has_pointers |= cursor_u8(reader->c) != 0;
        (void)cursor_take(reader->c, 27);
    }
    if (reader->depth == 1 && i < 2) {
        reader->first_members[i].name = name.len == 1 ? name.ptr[0] : 0;
        reader->first_members[i].offset = offset;
    }
    if (reader->members_text.len < MAX_TEXT) {
        buf_put_cstr(&reader->members_text, reader->members_text.len ? ", " : "");
        buf_put_str(&reader->members_text, str_first(name, 200));
        buf_byte(&reader->members_text, ' ');
    }
}

/* begin_nested - begins the datatype of HEADER, in which others are nested: reads all before the first of
 * them. */
static ckpt_status begin_nested(struct type_reader *reader, const struct type_header *header)
{
    uint32_t nmembers = 1, rank;
    if (header->class == CLASS_RECORD)
        nmembers = header->flags[0] | (uint32_t)header->flags[1] << 8;
    if (header->class == CLASS_ARRAY) {
        rank = cursor_u8(reader->c);
        (void)cursor_take(reader->c,
                          (header->version < 3 ? 3 : 0) + (size_t)rank * (header->version < 3 ? 8 : 4));
    }
    reader->has_pointers |= header->class == CLASS_VLEN && reader->depth;
    if (!nmembers || (size_t)nmembers > reader->c->left)
        return fail(reader->h->err, CKPT_EFORMAT, reader->c->pos,
                    "a record of {%u} members does not fit in {=%zu bytes}", nmembers, reader->c->left);
    if (reader->depth == MAX_NESTED)
        return fail(reader->h->err, CKPT_ELIMIT, reader->c->pos, "{more} than {=%u} datatypes are nested",
                    MAX_NESTED);
    reader->enclosing[reader->depth++] = (struct enclosing_type){*header, .unread = nmembers,
                                                                 .nmembers = nmembers};
    return CKPT_OK;
}

/* end_enum - reads the names and numbers of the enum of HEADER. The enum FALSE = 0, TRUE = 1 is a bool. */
static void end_enum(struct type_reader *reader, const struct type_header *header)
{
    uint32_t n = header->flags[0] | (uint32_t)header->flags[1] << 8;
    bool named_false_true[2] = {false, false};
    for (uint32_t i = 0; i < n && !reader->c->bad; i++) {
        ckpt_str name = read_name(reader, header->version);
        if (i < 2)
            named_false_true[i] = str_is(name, i ? "TRUE" : "FALSE");
    }
    uint64_t values_size = (uint64_t)n * header->size;
    const unsigned char *values = values_size <= reader->c->left ? cursor_take(reader->c, (size_t)values_size)
                                                                 : NULL;
    reader->c->bad |= !values;
    if (reader->last_read.size != header->size)
        set_unreadable(reader, "enum of another size than its numbers");
    bool is_0_1 = values && n == 2 && header->size == 1 && values[0] == 0 && values[1] == 1;
    bool is_number = reader->last_read.kind == HDF5_NUMBER && !reader->last_read.is_converted;
    if (is_0_1 && named_false_true[0] && named_false_true[1] && is_number)
        reader->last_read.dtype = CKPT_DT_BOOL;
}

/* get_complex_dtype - returns the dtype of a complex number whose parts are of type PART; NONE: there is
 * none. */
static ckpt_dtype get_complex_dtype(const struct hdf5_type *part)
{
    if (part->kind != HDF5_NUMBER || part->is_converted)
        return CKPT_DT_NONE;
    switch (part->dtype) {
    case CKPT_DT_F16: return CKPT_DT_C32;
    case CKPT_DT_F32: return CKPT_DT_C64;
    case CKPT_DT_F64: return CKPT_DT_C128;
    default: return CKPT_DT_NONE;
    }
}

/* end_record - sets the datatype of the record of HEADER: a complex number if its members are two floats r
 * and i. */
static void end_record(struct type_reader *reader, const struct type_header *header)
{
    const struct member *real = &reader->first_members[0], *imaginary = &reader->first_members[1];
    const struct hdf5_type *component = &real->type;
    uint32_t n = header->flags[0] | (uint32_t)header->flags[1] << 8;
    ckpt_dtype dtype = get_complex_dtype(component);
    bool same_types = imaginary->type.kind == HDF5_NUMBER && imaginary->type.dtype == component->dtype &&
                      !imaginary->type.is_converted && imaginary->type.big_endian == component->big_endian;
    bool fill_record = !real->offset && imaginary->offset == header->size / 2 &&
                       header->size / 2 == component->size;
    bool big_endian = component->big_endian;
    reader->last_read = (struct hdf5_type){.kind = reader->has_pointers ? HDF5_UNREADABLE : HDF5_RECORD};
    reader->last_read.what = STR_LIT("record of texts, sequences or references");
    bool are_named = n == 2 && real->name == 'r' && imaginary->name == 'i';
    if (reader->depth || !are_named || dtype == CKPT_DT_NONE || !same_types || !fill_record)
        return;
    set_number(reader, dtype);
    reader->last_read.big_endian = big_endian;
}

/* end_complex - sets the datatype of the complex number of HEADER, whose parts are of the type that was read
 * last. */
static void end_complex(struct type_reader *reader, const struct type_header *header)
{
    ckpt_dtype dtype = get_complex_dtype(&reader->last_read);
    bool is_rectangular = !(header->flags[0] & 6);
    if (is_rectangular && dtype != CKPT_DT_NONE && header->size / 2 == reader->last_read.size)
        set_number(reader, dtype);
    else
        set_unreadable(reader, "complex number of another layout");
}

/* end_nested - sets the datatype of HEADER, after the datatypes nested in it were read. */
static void end_nested(struct type_reader *reader, const struct type_header *header)
{
    if (header->class == CLASS_ENUM)
        end_enum(reader, header);
    else if (header->class == CLASS_RECORD)
        end_record(reader, header);
    else if (header->class == CLASS_COMPLEX)
        end_complex(reader, header);
    else if (header->class == CLASS_VLEN && (header->flags[0] & 15) == 1)
        reader->last_read = (struct hdf5_type){.kind = HDF5_TEXT};
    else
        set_unreadable(reader, header->class == CLASS_VLEN ? "sequence of any length" : "array");
    reader->last_read.size = header->size;
}

/* read_next - reads the next datatype, or the beginning of one that has others in it. */
static ckpt_status read_next(struct type_reader *reader)
{
    struct type_header header;
    struct enclosing_type *enclosing = reader->depth ? &reader->enclosing[reader->depth - 1] : NULL;
    bool is_member = enclosing && enclosing->header.class == CLASS_RECORD;
    if (enclosing)
        enclosing->unread--;
    if (is_member)
        begin_member(reader, enclosing);
    CKPT_TRY(read_header(reader, &header));
    reader->last_read = (struct hdf5_type){.size = header.size};
    if (!header.size || (header.size > 1u << 30))
        return fail(reader->h->err, CKPT_EFORMAT, reader->c->pos,
                    "a datatype of {%u bytes}; {=1 to 2^30} are allowed", header.size);
    if (header.class == CLASS_RECORD || (header.class >= CLASS_ENUM && header.class <= CLASS_COMPLEX))
        return begin_nested(reader, &header);
    read_simple(reader, &header);
    return CKPT_OK;
}

/* end_member - adds the datatype that was read last to the record around it, if it is in one. */
static void end_member(struct type_reader *reader)
{
    char room[TYPE_TEXT];
    const struct enclosing_type *record = reader->depth ? &reader->enclosing[reader->depth - 1] : NULL;
    if (!record || record->header.class != CLASS_RECORD)
        return;
    uint32_t i = record->nmembers - 1 - record->unread;
    if (reader->depth == 1 && i < 2)
        reader->first_members[i].type = reader->last_read;
    if (reader->members_text.len < MAX_TEXT)
        buf_put_cstr(&reader->members_text, get_type_text(&reader->last_read, room));
}

static ckpt_status read_all(struct type_reader *reader)
{
    do {
        uint32_t depth = reader->depth;
        CKPT_TRY(read_next(reader));
        if (reader->depth > depth)
            continue;
        end_member(reader);
        while (reader->depth && !reader->enclosing[reader->depth - 1].unread) {
            struct type_header ended = reader->enclosing[--reader->depth].header;
            end_nested(reader, &ended);
            end_member(reader);
        }
    } while (reader->depth);
    return reader->c->bad ? hdf5_fail_short(reader->h, reader->c, "a datatype") : CKPT_OK;
}

static ckpt_status read_type(struct hdf5 *hdf5, cursor in, struct hdf5_type *out)
{
    struct type_reader *t = ARENA_NEW(hdf5->scratch, struct type_reader);
    CKPT_TRY_ALLOC(t, hdf5->err);
    t->h = hdf5;
    t->c = &in;
    buf_init(&t->members_text, 2 * MAX_TEXT);
    ckpt_status st = read_all(t);
    *out = t->last_read;
    if (st == CKPT_OK && out->kind == HDF5_RECORD) {
        out->what = arena_str(hdf5->a, buf_view(&t->members_text));
        st = out->what.ptr ? CKPT_OK : fail_memory(hdf5->err);
    }
    buf_free(&t->members_text);
    return st;
}

/* find_shared - replaces *MESSAGE, which refers to the datatype message of another object, by that
 * message. */
static ckpt_status find_shared(struct hdf5 *hdf5, struct hdf5_message *message)
{
    struct hdf5_object other;
    cursor c = message->body;
    unsigned version = cursor_u8(&c), kind = cursor_u8(&c);
    (void)cursor_take(&c, version == 1 ? 6 : 0);
    uint64_t addr = cursor_u64(&c);
    if (c.bad || version < 1 || version > 3 || (version == 1 && kind) || (version == 3 && kind != 2))
        return fail(hdf5->err, CKPT_EUNSUPPORTED, message->body.pos,
                    "{a shared datatype} of kind %u, version %u; {=committed datatypes} are read", kind,
                    version);
    CKPT_TRY(hdf5_read_object(hdf5, addr, &other));
    if (!other.datatype.is_there || other.datatype.flags & 2)
        return fail(hdf5->err, CKPT_EFORMAT, addr,
                    "the object whose datatype is shared has {no datatype}, where {=one} must be");
    *message = other.datatype;
    return CKPT_OK;
}

ckpt_status hdf5_read_type(struct hdf5 *hdf5, struct hdf5_message message, struct hdf5_type *out)
{
    if (message.flags & 2)
        CKPT_TRY(find_shared(hdf5, &message));
    return read_type(hdf5, message.body, out);
}
