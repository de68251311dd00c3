/*
 * hdf5_nbit.c - undoes the filter nbit of HDF5 (HDFGroup/hdf5 H5Znbit.c), which stores numbers without their
 * padding, the highest bit first, and all other bytes as they are. The bits of all elements follow each other
 * without gaps. The padding becomes zeros.
 *
 * Parameters: their number, 1 if nothing is packed, elements in a chunk, then the type of an element:
 *   1 (number)  bytes, byte order (0 little-endian, 1 big-endian), precision, offset
 *   2 (array)   bytes, the type of its elements
 *   3 (record)  bytes, number of members, then for each: offset, type
 *   4 (other)   bytes
 *
 * After an array of arrays or records, HDF5 goes on with the parameters of its elements instead of those of
 * the next member, when it packs and when it unpacks. Such members are lost, and the data set is refused.
 *
 * The types are first made a list, in which each record is followed by its members. An array is a type that
 * is repeated. Records are nested in each other by at most MAX_NESTED; neither lists nor elements are read by
 * recursion. Faults: parameters that end too early or are no type, a type of no bytes or with more than its
 * bytes, more elements than fit the chunk, bits that end too early.
 */
#include <stdlib.h>

#include "codec/bit_reader.h"
#include "codec/hdf5_filter.h"

#define MAX_NESTED 8u     /* as datatypes are nested */
#define BAND       65536u /* bytes of elements that are written at a time, if an element is not larger */

enum { CLASS_NUMBER = 1, CLASS_ARRAY, CLASS_RECORD, CLASS_OTHER };

/* A type in an element. */
struct packed_type {
    uint32_t class;
    uint64_t offset, size,
        repeats; /* its place in the record around it, bytes of one, how many follow each other */
    uint32_t precision, bit_offset; /* of a number */
    bool big_endian;
    bool is_array_of_types; /* an array of arrays or records */
    size_t end;             /* index in the list after the type and its members */
};

/* A record whose members are being read. */
struct open_record {
    size_t index, next; /* in the list: its type, the next member */
    uint64_t left;      /* in parameters: members that are still to be read; in an element: repeats */
    uint64_t room;      /* in parameters: bytes that the next members may have */
    unsigned char *at;  /* in an element: its first byte */
};

struct nbit {
    const struct hdf5_filter *f;
    uint32_t at;     /* the next parameter */
    bool ends_early; /* more parameters were read than there are */
    bool is_lost;    /* an array of arrays or records has ended: HDF5 misread the next types */
    struct packed_type *types;
    size_t ntypes;
    struct bit_reader in;
};

/* ------------------------------------------------------------------------ parameters */

static uint32_t take_parameter(struct nbit *z)
{
    z->ends_early |= z->at >= z->f->nvalues;
    return z->ends_early ? 0 : z->f->values[z->at++];
}

/* read_type - reads the next type up to its first member, and sets *NMEMBERS; false: nbit cannot have it. */
static bool read_type(struct nbit *z, struct packed_type *t, uint32_t *nmembers)
{
    t->class = take_parameter(z);
    t->size = take_parameter(z);
    t->repeats = 1;
    while (t->class == CLASS_ARRAY && !z->ends_early) {
        uint64_t whole = t->size;
        t->class = take_parameter(z);
        t->size = take_parameter(z);
        if (!t->size || whole % t->size)
            return false;
        t->repeats *= whole / t->size; /* below 2^32, by the first size */
        t->is_array_of_types |= t->class == CLASS_ARRAY || t->class == CLASS_RECORD;
    }
    *nmembers = t->class == CLASS_RECORD ? take_parameter(z) : 0;
    if (t->class == CLASS_NUMBER) {
        uint32_t order = take_parameter(z);
        t->big_endian = order == 1;
        t->precision = take_parameter(z);
        t->bit_offset = take_parameter(z);
        if (order > 1 || !t->precision || size_add(t->precision, t->bit_offset) > 8 * t->size)
            return false;
    }
    return !z->ends_early && t->size && t->repeats && (t->class == CLASS_RECORD) == (*nmembers > 0) &&
           (t->class == CLASS_NUMBER || t->class == CLASS_RECORD || t->class == CLASS_OTHER);
}

/* read_member - reads the next type, which is a member of RECORD unless that is NULL, and appends it to the
 * list. */
static bool read_member(struct nbit *z, struct open_record *record, uint32_t *nmembers)
{
    struct packed_type *t = &z->types[z->ntypes];
    t->offset = record ? take_parameter(z) : 0;
    if (z->is_lost || !read_type(z, t, nmembers))
        return false;
    uint64_t n = t->size * t->repeats;
    if (record && (n > record->room || !range_within(t->offset, n, z->types[record->index].size)))
        return false;
    if (record) {
        record->room -= n;
        record->left--;
    }
    t->end = ++z->ntypes;
    z->is_lost = t->is_array_of_types && !*nmembers;
    return true;
}

/* read_types - makes the list of the types in the parameters; false: nbit cannot have them, or z->is_lost. */
static bool read_types(struct nbit *z)
{
    struct open_record open[MAX_NESTED];
    uint32_t depth = 0, nmembers;
    do {
        size_t index = z->ntypes;
        if (!read_member(z, depth ? &open[depth - 1] : NULL, &nmembers) || (nmembers && depth == MAX_NESTED))
            return false;
        if (nmembers)
            open[depth++] = (struct open_record){
                .index = index, .left = nmembers, .room = z->types[index].size};
        for (; depth && !open[depth - 1].left; depth--) {
            struct packed_type *record = &z->types[open[depth - 1].index];
            record->end = z->ntypes;
            z->is_lost |= record->is_array_of_types;
        }
    } while (depth);
    return z->at == z->f->nvalues;
}

/* -------------------------------------------------------------------------- elements */

static void read_number(struct bit_reader *in, const struct packed_type *t, unsigned char *out)
{
    uint64_t begin = t->bit_offset;
    for (uint64_t end = begin + t->precision; end > begin;) {
        uint64_t byte = (end - 1) / 8, from = 8 * byte > begin ? 8 * byte : begin;
        out[t->big_endian ? t->size - 1 - byte : byte] =
            (unsigned char)(bits_take32(in, (unsigned)(end - from)) << from % 8);
        end = from;
    }
}

static void read_simple(struct bit_reader *in, const struct packed_type *t, unsigned char *out)
{
    uint64_t n = t->size * t->repeats;
    if (t->class == CLASS_NUMBER)
        for (uint64_t i = 0; i < n && !in->c.bad; i += t->size)
            read_number(in, t, out + i);
    else
        for (uint64_t i = 0; i < n && !in->c.bad; i++)
            out[i] = (unsigned char)bits_take32(in, 8);
}

/* read_element - reads the next element to OUT, whose bytes are 0. */
static void read_element(struct nbit *z, unsigned char *out)
{
    struct open_record open[MAX_NESTED];
    uint32_t depth = 0;
    size_t i = 0;
    do {
        const struct packed_type *t = &z->types[i];
        unsigned char *at = (depth ? open[depth - 1].at : out) + t->offset;
        if (t->class != CLASS_RECORD)
            read_simple(&z->in, t, at);
        if (depth)
            open[depth - 1].next = t->end;
        if (t->class == CLASS_RECORD)
            open[depth++] = (struct open_record){.index = i, .next = i + 1, .left = t->repeats, .at = at};
        while (depth) {
            struct open_record *record = &open[depth - 1];
            const struct packed_type *of = &z->types[record->index];
            i = record->next;
            if (i < of->end)
                break;
            record->next = record->index + 1;
            record->at += of->size;
            depth -= --record->left == 0;
        }
    } while (depth && !z->in.c.bad);
}

static ckpt_status write_elements(struct nbit *z, const struct hdf5_input *in, uint64_t n,
                                  unsigned char *band, spool *to, ckpt_error *err)
{
    uint64_t size = z->types[0].size * z->types[0].repeats;
    uint64_t per_band = size < BAND ? BAND / size : 1;
    while (n) {
        uint64_t count = n < per_band ? n : per_band;
        memset(band, 0, (size_t)(count * size));
        for (uint64_t i = 0; i < count && !z->in.c.bad; i++)
            read_element(z, band + i * size);
        if (z->in.c.bad)
            return hdf5_fail_chunk(in, err, "bits of nbit that end early");
        CKPT_TRY(spool_write(to, band, (size_t)(count * size), err));
        n -= count;
    }
    return CKPT_OK;
}

/* decode - reads the types in the parameters to z->types, then the elements. */
static ckpt_status decode(struct nbit *z, const struct hdf5_input *in, uint64_t n, uint64_t max_bytes,
                          spool *to, ckpt_error *err)
{
    uint64_t size, nbytes;
    bool are_valid = read_types(z);
    if (!are_valid && z->is_lost)
        return fail(err, CKPT_EUNSUPPORTED, source_pos(in->src, 0),
                    "nbit of {members after an array} of arrays or records, which HDF5 does not write as its "
                    "parameters say; {=such an array as the last member} is read");
    if (!are_valid)
        return hdf5_fail_chunk(in, err, "parameters that nbit cannot have");
    size = z->types[0].size * z->types[0].repeats;
    if (!checked_mul(n, size, &nbytes) || nbytes > max_bytes)
        return hdf5_fail_chunk(in, err, "more bytes than it can have");
    unsigned char *band = malloc((size_t)(size < BAND ? BAND : size));
    ckpt_status st = band ? write_elements(z, in, n, band, to, err) : fail_memory(err);
    free(band);
    return st;
}

ckpt_status hdf5_undo_nbit(const struct hdf5_filter *f, const struct hdf5_input *in, cursor c,
                           uint64_t max_bytes, spool *to, ckpt_error *err)
{
    bool is_packed = f->values[1] == 0;
    if (f->values[0] != f->nvalues || f->nvalues < 3 || f->values[1] > 1)
        return hdf5_fail_chunk(in, err, "parameters that nbit cannot have");
    if (!is_packed && c.left > max_bytes)
        return hdf5_fail_chunk(in, err, "more bytes than it can have");
    if (!is_packed)
        return spool_write(to, c.p, c.left, err);
    struct nbit z = {.f = f, .at = 3, .in = {.c = c}};
    z.types = calloc(f->nvalues, sizeof *z.types); /* each type has several parameters */
    ckpt_status st = z.types ? decode(&z, in, f->values[2], max_bytes, to, err) : fail_memory(err);
    free(z.types);
    return st;
}
