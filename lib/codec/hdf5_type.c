/*
 * hdf5_type.c - reads datatypes of HDF5: numbers, texts, opaque bytes, records. By offset and size:
 *
 *   0   1  class, and 16 times the version (1 to 3)
 *   1   3  flags of the class
 *   4   4  bytes of an element
 *   8      properties of the class:
 *          integer    bit offset 2, precision 2
 *          float      the same, then exponent and mantissa, each: its lowest bit 1, how many bits 1; bias 4
 *          opaque     a text of as many bytes as the flags have
 *          record     for each member its name, offset and datatype
 *          enum       datatype of the numbers, names, numbers
 *          vlen       datatype of the elements
 *          array      dimensions, datatype of the elements
 *
 * Nested datatypes are read with a stack, not by recursion.
 *
 * Refused by name: integers with padding, floats other than those of dtype.def and the long double of x86-64,
 * times, bit fields, references, complex numbers of HDF5 2; sequences that are no texts.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/checked.h"
#include "codec/hdf5_internal.h"
#include "core/dtype.h"

#define MAX_NESTED 8u
#define MAX_TEXT   4096u /* bytes of the description of a record */

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
    CLASS_ARRAY
};

/* The first eight bytes of a datatype. */
struct head {
    uint8_t class, version;
    uint8_t flags[3];
    uint32_t size;
};

/* A datatype with datatypes in it. */
struct nest {
    struct head head;
    uint32_t left, members; /* datatypes in it that are still to be read; all of them */
};

/* A member of a record, which may be one half of a complex number. */
struct member {
    char name;
    uint32_t offset;
    struct hdf5_type type;
};

struct type_reader {
    struct hdf5 *h;
    cursor *c;
    struct nest nest[MAX_NESTED];
    uint32_t depth;
    struct hdf5_type last;   /* the datatype that was read last */
    struct member halves[2]; /* the first two members of the outermost record */
    bool has_pointers;       /* a record has texts, sequences or references in it */
    buf text;                /* describes the members of that record */
};

static ckpt_status read_head(struct type_reader *t, struct head *out)
{
    const unsigned char *b = cursor_take(t->c, 8);
    if (!b)
        return hdf5_fail_short(t->h, t->c, "a datatype");
    *out = (struct head){b[0] & 15, b[0] >> 4, {b[1], b[2], b[3]}, load_u32le(b + 4)};
    if (out->version < 1 || out->version > 3 || out->class > CLASS_ARRAY)
        return fail(t->h->err, CKPT_EUNSUPPORTED, t->c->pos,
                    "a datatype of {class %u, version %u}; {=classes 0 to 10, versions 1 to 3} are read",
                    out->class, out->version);
    return CKPT_OK;
}

/* set_other - makes the datatype one whose elements are not read, called WHAT in errors. */
static void set_other(struct type_reader *t, const char *what)
{
    t->last.kind = HDF5_OTHER;
    t->last.what = str_c(what);
}

/* --------------------------------------------------------------------------- numbers */

static void set_number(struct type_reader *t, ckpt_dtype dtype)
{
    t->last.kind = HDF5_NUMBER;
    t->last.dtype = dtype;
}

static void read_integer(struct type_reader *t, const struct head *x)
{
    static const ckpt_dtype signed_dtypes[] = {CKPT_DT_I8, CKPT_DT_I16, CKPT_DT_I32, CKPT_DT_I64};
    static const ckpt_dtype unsigned_dtypes[] = {CKPT_DT_U8, CKPT_DT_U16, CKPT_DT_U32, CKPT_DT_U64};
    uint32_t offset = cursor_u16(t->c), precision = cursor_u16(t->c), i = 0;
    while (i < 4 && x->size != 1u << i)
        i++;
    t->last.big_endian = x->flags[0] & 1;
    if (i == 4 || offset || precision != 8 * x->size) /* bounded: 8 bytes at most */
        set_other(t, "integer with padding");
    else
        set_number(t, x->flags[0] & 8 ? signed_dtypes[i] : unsigned_dtypes[i]);
}

/* The layouts of floats. */
static const struct float_layout {
    uint32_t size, precision, exponent_at, exponent, mantissa, bias; /* in bits, SIZE in bytes */
    uint8_t norm; /* 2: the first bit of the mantissa is implied; 0: it is stored */
    ckpt_dtype dtype;
} layouts[] = {
    {2, 16, 10, 5, 10, 15, 2, CKPT_DT_F16},     {2, 16, 7, 8, 7, 127, 2, CKPT_DT_BF16},
    {4, 32, 23, 8, 23, 127, 2, CKPT_DT_F32},    {8, 64, 52, 11, 52, 1023, 2, CKPT_DT_F64},
    {16, 80, 64, 15, 64, 16383, 0, CKPT_DT_NP},
};

static void read_float(struct type_reader *t, const struct head *x)
{
    cursor *c = t->c;
    uint32_t offset = cursor_u16(c), precision = cursor_u16(c);
    uint32_t exponent_at = cursor_u8(c), exponent = cursor_u8(c);
    uint32_t mantissa_at = cursor_u8(c), mantissa = cursor_u8(c);
    uint32_t bias = cursor_u32(c);
    bool is_vax = x->flags[0] & 0x40; /* another byte order */
    t->last.big_endian = x->flags[0] & 1;
    set_other(t, "float of another layout");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct float_layout *l = &layouts[i];
        if (x->size != l->size || precision != l->precision || exponent_at != l->exponent_at ||
            exponent != l->exponent || mantissa != l->mantissa || bias != l->bias || offset || mantissa_at ||
            is_vax || (x->flags[0] >> 4 & 3) != l->norm || x->flags[1] != l->precision - 1)
            continue;
        set_number(t, l->dtype);
        if (l->dtype == CKPT_DT_NP)
            t->last.kind = t->last.big_endian ? HDF5_OTHER : HDF5_LONGDOUBLE;
    }
    /* h5py has no bfloat16, and reads one as float32 */
    t->last.is_short_float = t->last.kind == HDF5_NUMBER && t->last.dtype == CKPT_DT_BF16;
    if (t->last.is_short_float)
        t->last.dtype = CKPT_DT_F32;
}

/* ---------------------------------------------------------------------- other classes */

/* read_simple - reads a datatype that has no others in it. */
static void read_simple(struct type_reader *t, const struct head *x)
{
    switch (x->class) {
    case CLASS_INTEGER: read_integer(t, x); break;
    case CLASS_FLOAT: read_float(t, x); break;
    case CLASS_STRING:
        t->last.kind = HDF5_FIXED_TEXT;
        t->last.space_padded = (x->flags[0] & 15) == 2;
        break;
    case CLASS_OPAQUE:
        (void)cursor_take(t->c, x->flags[0]);
        t->last.kind = HDF5_OPAQUE;
        break;
    case CLASS_TIME:
        (void)cursor_take(t->c, 2);
        set_other(t, "time");
        break;
    case CLASS_BITS:
        (void)cursor_take(t->c, 4);
        set_other(t, "bit field");
        break;
    default: set_other(t, "reference"); break;
    }
    t->has_pointers |= x->class == CLASS_REFERENCE;
}

static const char *get_type_text(const struct hdf5_type *x, char room[24])
{
    switch (x->kind) {
    case HDF5_NUMBER: return ckpt_dtype_name(x->dtype);
    case HDF5_LONGDOUBLE: return "float128";
    case HDF5_FIXED_TEXT: (void)snprintf(room, 24, "S%u", x->size); return room;
    case HDF5_OPAQUE: (void)snprintf(room, 24, "V%u", x->size); return room;
    default: return x->kind == HDF5_TEXT ? "string" : "other";
    }
}

/* read_name - returns a name that ends in NUL, and skips its padding to eight bytes, which versions before 3
 * have. */
static ckpt_str read_name(struct type_reader *t, uint8_t version)
{
    const unsigned char *start = t->c->p, *end = memchr(start, 0, t->c->left);
    size_t n = end ? (size_t)(end - start) : t->c->left;
    (void)cursor_take(t->c, version < 3 ? (n | 7) + 1 : n + 1); /* bounded: it is in memory */
    return str_of((const char *)start, n);
}

/* begin_member - reads name and offset of the next member of the record X. The offset has 4 bytes, from
 * version 3 on as many as the size of the record takes. */
static void begin_member(struct type_reader *t, const struct nest *x)
{
    ckpt_str name = read_name(t, x->head.version);
    uint32_t width = 1, i = x->members - 1 - x->left;
    for (uint32_t top = x->head.size >> 8; top && width < 4; top >>= 8)
        width++;
    uint32_t offset = (uint32_t)cursor_number(t->c, x->head.version < 3 ? 4 : width);
    if (x->head.version == 1) { /* a rank, its dimensions and a permutation, which nothing writes any more */
        t->has_pointers |= cursor_u8(t->c) != 0;
        (void)cursor_take(t->c, 27);
    }
    if (t->depth == 1 && i < 2) {
        t->halves[i].name = name.len == 1 ? name.ptr[0] : 0;
        t->halves[i].offset = offset;
    }
    if (t->text.len < MAX_TEXT)
        buf_printf(&t->text, "%s%.*s ", t->text.len ? ", " : "", STR_ARG(name));
}

/* begin_nested - begins X, whose nested datatypes come next. */
static ckpt_status begin_nested(struct type_reader *t, const struct head *x)
{
    uint32_t members = 1, rank;
    if (x->class == CLASS_RECORD)
        members = x->flags[0] | (uint32_t)x->flags[1] << 8;
    if (x->class == CLASS_ARRAY) {
        rank = cursor_u8(t->c);
        (void)cursor_take(t->c, (x->version < 3 ? 3 : 0) + (size_t)rank * (x->version < 3 ? 8 : 4));
    }
    t->has_pointers |= x->class == CLASS_VLEN && t->depth;
    if (!members || (size_t)members > t->c->left)
        return fail(t->h->err, CKPT_EFORMAT, t->c->pos, "a record of {%u} members in {=%zu bytes}", members,
                    t->c->left);
    if (t->depth == MAX_NESTED)
        return fail(t->h->err, CKPT_ELIMIT, t->c->pos, "{more} than {=%u} datatypes inside of each other",
                    MAX_NESTED);
    t->nest[t->depth++] = (struct nest){*x, members, members};
    return CKPT_OK;
}

/* end_enum - reads the names and numbers of the enum X, which is a bool if they are FALSE = 0 and TRUE =
 * 1. */
static void end_enum(struct type_reader *t, const struct head *x)
{
    uint32_t n = x->flags[0] | (uint32_t)x->flags[1] << 8;
    bool names[2] = {false, false};
    for (uint32_t i = 0; i < n && !t->c->bad; i++) {
        ckpt_str name = read_name(t, x->version);
        if (i < 2)
            names[i] = str_is(name, i ? "TRUE" : "FALSE");
    }
    uint64_t all = (uint64_t)n * x->size; /* bounded: 16 and 30 bits */
    const unsigned char *values = all <= t->c->left ? cursor_take(t->c, (size_t)all) : NULL;
    t->c->bad |= !values;
    bool as_written = values && n == 2 && x->size == 1 && values[0] == 0 && values[1] == 1;
    if (as_written && names[0] && names[1] && t->last.kind == HDF5_NUMBER)
        t->last.dtype = CKPT_DT_BOOL;
}

static void end_record(struct type_reader *t, const struct head *x)
{
    const struct member *re = &t->halves[0], *im = &t->halves[1];
    const struct hdf5_type *half = &re->type;
    uint32_t n = x->flags[0] | (uint32_t)x->flags[1] << 8;
    ckpt_dtype dtype = half->dtype == CKPT_DT_F16   ? CKPT_DT_C32
                       : half->dtype == CKPT_DT_F32 ? CKPT_DT_C64
                                                    : CKPT_DT_C128;
    bool floats = half->kind == HDF5_NUMBER && dtype_info(half->dtype)->klass == 'f' && !half->is_short_float;
    bool same = im->type.kind == HDF5_NUMBER && im->type.dtype == half->dtype &&
                im->type.big_endian == half->big_endian;
    bool big_endian = half->big_endian;
    t->last = (struct hdf5_type){.kind = t->has_pointers ? HDF5_OTHER : HDF5_RECORD};
    t->last.what = STR_LIT("record of texts, sequences or references");
    if (t->depth || n != 2 || re->name != 'r' || im->name != 'i' || !floats || !same || re->offset ||
        im->offset != x->size / 2 || x->size / 2 != half->size)
        return;
    set_number(t, dtype);
    t->last.big_endian = big_endian;
}

static void end_nested(struct type_reader *t, const struct head *x)
{
    if (x->class == CLASS_ENUM)
        end_enum(t, x);
    else if (x->class == CLASS_RECORD)
        end_record(t, x);
    else if (x->class == CLASS_VLEN && (x->flags[0] & 15) == 1)
        t->last.kind = HDF5_TEXT;
    else
        set_other(t, x->class == CLASS_VLEN ? "sequence of any length" : "array");
    t->last.size = x->size;
}

/* read_next - reads the next datatype, or the beginning of one that has others in it. */
static ckpt_status read_next(struct type_reader *t)
{
    struct head x;
    struct nest *in = t->depth ? &t->nest[t->depth - 1] : NULL;
    bool is_member = in && in->head.class == CLASS_RECORD;
    if (in)
        in->left--;
    if (is_member)
        begin_member(t, in);
    CKPT_TRY(read_head(t, &x));
    t->last = (struct hdf5_type){.size = x.size};
    if (!x.size || (x.size > 1u << 30))
        return fail(t->h->err, CKPT_EFORMAT, t->c->pos, "a datatype of {%u bytes}; {=1 to 2^30} are allowed",
                    x.size);
    if (x.class == CLASS_RECORD || x.class == CLASS_ENUM || x.class == CLASS_VLEN || x.class == CLASS_ARRAY)
        return begin_nested(t, &x);
    read_simple(t, &x);
    return CKPT_OK;
}

/* end_member - if the datatype that was read last is that of a member of a record, adds it to the record. */
static void end_member(struct type_reader *t)
{
    char room[24];
    const struct nest *in = t->depth ? &t->nest[t->depth - 1] : NULL;
    if (!in || in->head.class != CLASS_RECORD)
        return;
    uint32_t i = in->members - 1 - in->left;
    if (t->depth == 1 && i < 2)
        t->halves[i].type = t->last;
    if (t->text.len < MAX_TEXT)
        buf_text(&t->text, get_type_text(&t->last, room));
}

static ckpt_status read_all(struct type_reader *t)
{
    do {
        uint32_t depth = t->depth;
        CKPT_TRY(read_next(t));
        if (t->depth > depth)
            continue;
        end_member(t);
        while (t->depth && !t->nest[t->depth - 1].left) {
            struct head done = t->nest[--t->depth].head;
            end_nested(t, &done);
            end_member(t);
        }
    } while (t->depth);
    return t->c->bad ? hdf5_fail_short(t->h, t->c, "a datatype") : CKPT_OK;
}

static ckpt_status read_type(struct hdf5 *h, cursor c, struct hdf5_type *out)
{
    struct type_reader *t = ARENA_NEW(h->scratch, struct type_reader);
    if (!t)
        return fail_memory(h->err);
    t->h = h;
    t->c = &c;
    buf_init(&t->text, 2 * MAX_TEXT);
    ckpt_status st = read_all(t);
    *out = t->last;
    if (st == CKPT_OK && out->kind == HDF5_RECORD) {
        out->what = arena_str(h->a, buf_view(&t->text));
        st = out->what.ptr ? CKPT_OK : fail_memory(h->err);
    }
    buf_free(&t->text);
    return st;
}

/* find_shared - replaces *M, a reference to the datatype of another object, by that datatype. */
static ckpt_status find_shared(struct hdf5 *h, struct hdf5_message *m)
{
    struct hdf5_object other;
    cursor c = m->body;
    unsigned version = cursor_u8(&c), kind = cursor_u8(&c);
    (void)cursor_take(&c, version == 1 ? 6 : 0);
    uint64_t addr = cursor_u64(&c);
    if (c.bad || version < 1 || version > 3 || (version == 1 && kind) || (version == 3 && kind != 2))
        return fail(h->err, CKPT_EUNSUPPORTED, m->body.pos,
                    "{a shared datatype} of kind %u, version %u; {=committed datatypes} are read", kind,
                    version);
    CKPT_TRY(hdf5_read_object(h, addr, &other));
    if (!other.datatype.is_there || other.datatype.flags & 2)
        return fail(h->err, CKPT_EFORMAT, addr, "{no datatype} where {=one} is shared from");
    *m = other.datatype;
    return CKPT_OK;
}

ckpt_status hdf5_read_type(struct hdf5 *h, struct hdf5_message m, struct hdf5_type *out)
{
    if (m.flags & 2)
        CKPT_TRY(find_shared(h, &m));
    return read_type(h, m.body, out);
}
