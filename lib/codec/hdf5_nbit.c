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

static uint32_t take_parameter(struct nbit *nbit)
{
    nbit->ends_early |= nbit->at >= nbit->f->nvalues;
    return nbit->ends_early ? 0 : nbit->f->values[nbit->at++];
}

/* read_type - reads the next type up to its first member, and sets *NMEMBERS; false: nbit cannot have it. */
static bool read_type(struct nbit *nbit, struct packed_type *type, uint32_t *nmembers)
{
    type->class = take_parameter(nbit);
    type->size = take_parameter(nbit);
    type->repeats = 1;
    while (type->class == CLASS_ARRAY && !nbit->ends_early) {
        uint64_t whole = type->size;
        type->class = take_parameter(nbit);
        type->size = take_parameter(nbit);
        if (!type->size || whole % type->size)
            return false;
        type->repeats *= whole / type->size; /* below 2^32, by the first size */
        type->is_array_of_types |= type->class == CLASS_ARRAY || type->class == CLASS_RECORD;
    }
    *nmembers = type->class == CLASS_RECORD ? take_parameter(nbit) : 0;
    if (type->class == CLASS_NUMBER) {
        uint32_t order = take_parameter(nbit);
        type->big_endian = order == 1;
        type->precision = take_parameter(nbit);
        type->bit_offset = take_parameter(nbit);
        if (order > 1 || !type->precision || size_add(type->precision, type->bit_offset) > 8 * type->size)
            return false;
    }
    return !nbit->ends_early && type->size && type->repeats &&
           (type->class == CLASS_RECORD) == (*nmembers > 0) &&
           (type->class == CLASS_NUMBER || type->class == CLASS_RECORD || type->class == CLASS_OTHER);
}

/* read_member - reads the next type, which is a member of RECORD unless that is NULL, and appends it to the
 * list. */
static bool read_member(struct nbit *nbit, struct open_record *record, uint32_t *nmembers)
{
    struct packed_type *t = &nbit->types[nbit->ntypes];
    t->offset = record ? take_parameter(nbit) : 0;
    if (nbit->is_lost || !read_type(nbit, t, nmembers))
        return false;
    uint64_t n = t->size * t->repeats;
    if (record && (n > record->room || !range_within(t->offset, n, nbit->types[record->index].size)))
        return false;
    if (record) {
        record->room -= n;
        record->left--;
    }
    t->end = ++nbit->ntypes;
    nbit->is_lost = t->is_array_of_types && !*nmembers;
    return true;
}

/* read_types - makes the list of the types in the parameters; false: nbit cannot have them, or
 * nbit->is_lost. */
static bool read_types(struct nbit *nbit)
{
    struct open_record open[MAX_NESTED];
    uint32_t depth = 0, nmembers;
    do {
        size_t index = nbit->ntypes;
        if (!read_member(nbit, depth ? &open[depth - 1] : NULL, &nmembers) ||
            (nmembers && depth == MAX_NESTED))
            return false;
        if (nmembers)
            open[depth++] = (struct open_record){
                .index = index, .left = nmembers, .room = nbit->types[index].size};
        for (; depth && !open[depth - 1].left; depth--) {
            struct packed_type *record = &nbit->types[open[depth - 1].index];
            record->end = nbit->ntypes;
            nbit->is_lost |= record->is_array_of_types;
        }
    } while (depth);
    return nbit->at == nbit->f->nvalues;
}

/* -------------------------------------------------------------------------- elements */

static void read_number(struct bit_reader *in, const struct packed_type *type, unsigned char *out)
{
    uint64_t begin = type->bit_offset;
    for (uint64_t end = begin + type->precision; end > begin;) {
        uint64_t byte = (end - 1) / 8, from = 8 * byte > begin ? 8 * byte : begin;
        out[type->big_endian ? type->size - 1 - byte : byte] =
            (unsigned char)(bits_take32(in, (unsigned)(end - from)) << from % 8);
        end = from;
    }
}

static void read_simple(struct bit_reader *in, const struct packed_type *type, unsigned char *out)
{
    uint64_t n = type->size * type->repeats;
    if (type->class == CLASS_NUMBER)
        for (uint64_t i = 0; i < n && !in->c.bad; i += type->size)
            read_number(in, type, out + i);
    else
        for (uint64_t i = 0; i < n && !in->c.bad; i++)
            out[i] = (unsigned char)bits_take32(in, 8);
}

/* read_element - reads the next element to OUT, whose bytes are 0. */
static void read_element(struct nbit *nbit, unsigned char *out)
{
    struct open_record open[MAX_NESTED];
    uint32_t depth = 0;
    size_t i = 0;
    do {
        const struct packed_type *t = &nbit->types[i];
        unsigned char *at = (depth ? open[depth - 1].at : out) + t->offset;
        if (t->class != CLASS_RECORD)
            read_simple(&nbit->in, t, at);
        if (depth)
            open[depth - 1].next = t->end;
        if (t->class == CLASS_RECORD)
            open[depth++] = (struct open_record){.index = i, .next = i + 1, .left = t->repeats, .at = at};
        while (depth) {
            struct open_record *record = &open[depth - 1];
            const struct packed_type *of = &nbit->types[record->index];
            i = record->next;
            if (i < of->end)
                break;
            record->next = record->index + 1;
            record->at += of->size;
            depth -= --record->left == 0;
        }
    } while (depth && !nbit->in.c.bad);
}

static ckpt_status write_elements(struct nbit *nbit, const struct hdf5_input *in, uint64_t number,
                                  unsigned char *band, spool *to, ckpt_error *err)
{
    uint64_t size = nbit->types[0].size * nbit->types[0].repeats;
    uint64_t per_band = size < BAND ? BAND / size : 1;
    while (number) {
        uint64_t count = number < per_band ? number : per_band;
        memset(band, 0, (size_t)(count * size));
        for (uint64_t i = 0; i < count && !nbit->in.c.bad; i++)
            read_element(nbit, band + i * size);
        if (nbit->in.c.bad)
            return hdf5_fail_chunk(in, err, "bits of nbit that end early");
        CKPT_TRY(spool_write(to, band, (size_t)(count * size), err));
        number -= count;
    }
    return CKPT_OK;
}

/* decode - reads the types in the parameters to nbit->types, then the elements. */
static ckpt_status decode(struct nbit *nbit, const struct hdf5_input *in, uint64_t count, uint64_t max_bytes,
                          spool *to, ckpt_error *err)
{
    uint64_t size, nbytes;
    bool are_valid = read_types(nbit);
    if (!are_valid && nbit->is_lost)
        return fail(err, CKPT_EUNSUPPORTED, source_pos(in->src, 0),
                    "nbit of {members after an array} of arrays or records, which HDF5 does not write as its "
                    "parameters say; {=such an array as the last member} is read");
    if (!are_valid)
        return hdf5_fail_chunk(in, err, "parameters that nbit cannot have");
    size = nbit->types[0].size * nbit->types[0].repeats;
    if (!checked_mul(count, size, &nbytes) || nbytes > max_bytes)
        return hdf5_fail_chunk(in, err, "more bytes than it can have");
    unsigned char *band = malloc((size_t)(size < BAND ? BAND : size));
    ckpt_status st = band ? write_elements(nbit, in, count, band, to, err) : fail_memory(err);
    free(band);
    return st;
}

ckpt_status hdf5_undo_nbit(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                           uint64_t max_bytes, spool *to, ckpt_error *err)
{
    bool is_packed = filter->values[1] == 0;
    if (filter->values[0] != filter->nvalues || filter->nvalues < 3 || filter->values[1] > 1)
        return hdf5_fail_chunk(in, err, "parameters that nbit cannot have");
    if (!is_packed && input.left > max_bytes)
        return hdf5_fail_chunk(in, err, "more bytes than it can have");
    if (!is_packed)
        return spool_write(to, input.p, input.left, err);
    struct nbit z = {.f = filter, .at = 3, .in = {.c = input}};
    z.types = calloc(filter->nvalues, sizeof *z.types); /* each type has several parameters */
    ckpt_status st = z.types ? decode(&z, in, filter->values[2], max_bytes, to, err) : fail_memory(err);
    free(z.types);
    return st;
}
