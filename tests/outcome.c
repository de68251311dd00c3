/* outcome.c - see outcome.h: compares two tables, and finds the structure in the bytes of pickles and
 * archives. */
#include "outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* How a row of the damaged file differs from that of the original. */
struct row_difference {
    uint64_t shift;  /* by how much the file has grown: later offsets may differ by this */
    uint64_t hash;   /* of all fields that differ, with both values */
    bool differs;    /* some field does */
    char first[256]; /* describes the first field that differs */
};

static ckpt_str str_of(const char *s) { return (ckpt_str){s, strlen(s)}; }

/* add_to_hash - adds S and its length to the hash (FNV-1a). */
static void add_to_hash(struct row_difference *d, ckpt_str s)
{
    for (size_t i = 0; i < s.len; i++)
        d->hash = (d->hash ^ (unsigned char)s.ptr[i]) * 0x100000001b3u;
    d->hash = (d->hash ^ s.len) * 0x100000001b3u;
}

/* compare_text - adds FIELD to the difference D if its values BEFORE and AFTER differ. */
static void compare_text(struct row_difference *d, const char *field, ckpt_str before, ckpt_str after)
{
    char shown_before[80], shown_after[80];
    if (before.len == after.len && (before.len == 0 || memcmp(before.ptr, after.ptr, before.len) == 0))
        return;
    add_to_hash(d, str_of(field));
    add_to_hash(d, before);
    add_to_hash(d, after);
    if (!d->differs) {
        ckpt_text_escape(before, shown_before, sizeof shown_before);
        ckpt_text_escape(after, shown_after, sizeof shown_after);
        snprintf(d->first, sizeof d->first, "%s \"%s\" instead of \"%s\"", field, shown_after, shown_before);
    }
    d->differs = true;
}

static void compare_number(struct row_difference *d, const char *field, uint64_t before, uint64_t after)
{
    char text_before[24], text_after[24];
    if (before == after)
        return;
    snprintf(text_before, sizeof text_before, "%" PRIu64, before);
    snprintf(text_after, sizeof text_after, "%" PRIu64, after);
    compare_text(d, field, str_of(text_before), str_of(text_after));
}

/* compare_offset - compares offsets in the file, which may differ by d->shift. */
static void compare_offset(struct row_difference *d, const char *field, uint64_t before, uint64_t after)
{
    if (after - before != d->shift || before == CKPT_NO_OFFSET)
        compare_number(d, field, before, after);
}

/* key_text - returns the text of KEY. The text of a number is its digits, which are written to BUFFER. */
static ckpt_str key_text(ckpt_path_elem key, char buffer[24])
{
    if (!key.is_int)
        return key.str;
    snprintf(buffer, 24, "%" PRId64, key.num);
    return str_of(buffer);
}

static void compare_paths(struct row_difference *d, const ckpt_tensor *before, const ckpt_tensor *after)
{
    char a[24], b[24];
    if (before->npath != after->npath)
        compare_text(d, "path", before->name, after->name);
    for (uint32_t i = 0; before->npath == after->npath && i < before->npath; i++)
        compare_text(d, "key", key_text(before->path[i], a), key_text(after->path[i], b));
}

static void compare_shapes(struct row_difference *d, const ckpt_tensor *before, const ckpt_tensor *after)
{
    compare_number(d, "dimensions", before->ndim, after->ndim);
    compare_number(d, "has a shape", before->has_shape, after->has_shape);
    if (before->ndim != after->ndim || before->has_shape != after->has_shape || !before->has_shape)
        return;
    for (uint32_t i = 0; i < before->ndim; i++) {
        compare_number(d, "size", before->shape[i], after->shape[i]);
        if (before->stride && after->stride)
            compare_number(d, "stride", before->stride[i], after->stride[i]);
    }
}

static void compare_storages(struct row_difference *d, const ckpt_storage *before, const ckpt_storage *after)
{
    compare_number(d, "has a storage", before != NULL, after != NULL);
    if (!before || !after)
        return;
    compare_text(d, "storage", before->key, after->key);
    compare_text(d, "storage's location", before->location, after->location);
    compare_text(d, "storage's file", before->file, after->file);
    compare_number(d, "storage's bytes", before->nbytes, after->nbytes);
    compare_offset(d, "storage's file offset", before->file_offset, after->file_offset);
    /* CRCs that only the damaged file has are no difference: if all CRCs of a file are 0, they count as
     * absent, and one changed CRC makes all of them present. */
    if (before->has_crc)
        compare_number(d, "storage's checksum", before->has_crc, after->has_crc);
}

/* compare_row - compares row I of both files. Fields that follow from others (bytes from dtype
 * and shape, offset from the storage) are compared only if the others are equal. */
static struct row_difference compare_row(const ckpt_file *original, const ckpt_file *damaged, uint32_t i)
{
    uint64_t shift = ckpt_file_bytes(damaged) - ckpt_file_bytes(original);
    const ckpt_tensor row_before = tensor_at(original, i), row_after = tensor_at(damaged, i);
    const ckpt_tensor *before = &row_before, *after = &row_after;
    ckpt_storage old = CKPT_INIT(ckpt_storage), new = CKPT_INIT(ckpt_storage);
    bool has_before = ckpt_storage_at(original, before->storage, &old),
         has_after = ckpt_storage_at(damaged, after->storage, &new);
    struct row_difference d = {.shift = shift, .hash = 0xcbf29ce484222325u};
    compare_paths(&d, before, after);
    compare_text(&d, "dtype", str_of(ckpt_dtype_name((ckpt_dtype)before->dtype)),
                 str_of(ckpt_dtype_name((ckpt_dtype)after->dtype)));
    compare_text(&d, "kind", str_of(ckpt_kind_name((ckpt_kind)before->kind)),
                 str_of(ckpt_kind_name((ckpt_kind)after->kind)));
    compare_shapes(&d, before, after);
    compare_number(&d, "storage offset", before->storage_offset, after->storage_offset);
    compare_number(&d, "conj", before->conj, after->conj);
    compare_number(&d, "neg", before->neg, after->neg);
    compare_number(&d, "requires_grad", before->requires_grad, after->requires_grad);
    compare_number(&d, "parameter", before->parameter, after->parameter);
    compare_text(&d, "class", before->klass, after->klass);
    compare_text(&d, "location", before->location, after->location);
    compare_text(&d, "note", before->note, after->note);
    compare_storages(&d, has_before ? &old : NULL, has_after ? &new : NULL);
    if (d.differs)
        return d;
    compare_number(&d, "has data", before->has_data, after->has_data);
    compare_number(&d, "bytes", before->nbytes, after->nbytes);
    compare_offset(&d, "file offset", before->file_offset, after->file_offset);
    return d;
}

/* outermost_row - returns the composite that row I is a component of, at any depth, or I itself. */
static uint32_t outermost_row(const ckpt_file *f, uint32_t i)
{
    while (tensor_at(f, i).part_of != CKPT_NO_TENSOR)
        i = tensor_at(f, i).part_of;
    return i;
}

/* array_name_length - returns the length of NAME if the name of row I is NAME.data, NAME.indices or
 * NAME.indptr, as MXNet calls the components of a sparse array. Returns 0 for other rows. */
static size_t array_name_length(const ckpt_file *f, uint32_t i)
{
    ckpt_str name = tensor_at(f, i).name;
    static const char *const parts[] = {".data", ".indices", ".indptr"};
    for (size_t k = 0; strcmp(ckpt_file_format(f), "mxnet") == 0 && k < sizeof parts / sizeof *parts; k++) {
        size_t n = strlen(parts[k]);
        if (name.len > n && memcmp(name.ptr + name.len - n, parts[k], n) == 0)
            return name.len - n;
    }
    return 0;
}

/* is_same_array - returns whether rows I and K are components of the same tensor. */
static bool is_same_array(const ckpt_file *f, uint32_t i, uint32_t k)
{
    if (outermost_row(f, i) == outermost_row(f, k))
        return true;
    size_t length = array_name_length(f, i);
    return length > 0 && length == array_name_length(f, k) &&
           memcmp(tensor_at(f, i).name.ptr, tensor_at(f, k).name.ptr, length) == 0;
}

enum outcome outcome_compare(const ckpt_file *original, const ckpt_file *damaged)
{
    uint32_t n = ckpt_tensor_count(original), first = CKPT_NO_TENSOR;
    uint64_t hash = 0;
    bool one_array = true, one_change = true, one_storage = true;
    if (n != ckpt_tensor_count(damaged))
        return OUTCOME_SEVERAL;
    for (uint32_t i = 0; i < n; i++) {
        struct row_difference d = compare_row(original, damaged, i);
        if (!d.differs)
            continue;
        if (first == CKPT_NO_TENSOR) {
            first = i;
            hash = d.hash;
        }
        one_change = one_change && d.hash == hash;
        one_array = one_array && is_same_array(original, i, first);
        one_storage = one_storage && tensor_at(original, i).storage == tensor_at(original, first).storage;
    }
    if (first == CKPT_NO_TENSOR)
        return OUTCOME_SAME;
    return one_array || one_change || one_storage ? OUTCOME_ONE_CHANGE : OUTCOME_SEVERAL;
}

void outcome_describe(const ckpt_file *original, const ckpt_file *damaged, char *out, size_t cap)
{
    uint32_t count_before = ckpt_tensor_count(original), count = ckpt_tensor_count(damaged), nshown = 0;
    size_t length = 0;
    out[0] = '\0';
    if (count != count_before) {
        snprintf(out, cap, "%u tensors, %u before", count, count_before);
        return;
    }
    for (uint32_t i = 0; i < count && nshown < 3 && length < cap; i++) {
        struct row_difference d = compare_row(original, damaged, i);
        if (!d.differs)
            continue;
        length += (size_t)snprintf(out + length, cap - length, "%stensor %u: %s", nshown ? "; " : "", i,
                                   d.first);
        nshown++;
    }
}

/* ------------------------------------------------------------ bytes of pickles */

/* argument_of - returns which argument opcode OP has, as in Python's pickletools; NULL if OP is no opcode:
 *   "0"   none
 *   "4"   a number of 4 bytes, "1", "2" and "8" likewise
 *   "m4"  a memo index of 4 bytes, "m1" likewise
 *   "c4"  a length of 4 bytes, and then that many bytes; "c1" and "c8" likewise
 *   "l"   one line
 *   "L"   two lines */
static const char *argument_of(unsigned char op)
{
    static const struct {
        const char *opcodes, *argument;
    } groups[] = {
        {"(.012NRQ]})ablstdeou\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98", "0"},
        {"K\x80\x82", "1"},
        {"M\x83", "2"},
        {"J\x84", "4"},
        {"G\x95", "8"},
        {"hq", "m1"},
        {"jr", "m4"},
        {"CU\x8a\x8c", "c1"},
        {"BTX\x8b", "c4"},
        {"\x8d\x8e\x96", "c8"},
        {"FILSVPgp", "l"},
        {"ci", "L"},
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strchr(groups[i].opcodes, op))
            return groups[i].argument;
    return NULL;
}

/* skip_lines - returns the offset after the N lines at offset AT, or 0 if the data end before that. */
static size_t skip_lines(const unsigned char *data, size_t size, size_t at, int n)
{
    for (; n; n--) {
        const unsigned char *end = memchr(data + at, '\n', size - at);
        if (!end)
            return 0;
        at = (size_t)(end - data) + 1;
    }
    return at;
}

/* skip_argument - AT is the offset after an opcode. Returns the offset after its argument, or 0 if the byte
 * before AT is no opcode or the data end in the argument. Sets *IS_NUMBER to whether the argument is a number
 * (not text, a length or a memo index). */
static size_t skip_argument(const unsigned char *data, size_t size, size_t at, bool *is_number)
{
    const char *kind = data[at - 1] ? argument_of(data[at - 1]) : NULL;
    *is_number = false;
    if (!kind)
        return 0;
    if (kind[0] == 'l' || kind[0] == 'L')
        return skip_lines(data, size, at, kind[0] == 'l' ? 1 : 2);
    size_t width = (size_t)(kind[kind[0] >= 'c'] - '0'), count = 0;
    if (width > size - at)
        return 0;
    for (size_t i = width; kind[0] == 'c' && i; i--)
        count = count << 8 | data[at + i - 1];
    *is_number = kind[0] < 'c' || data[at - 1] == 0x8a || data[at - 1] == 0x8b;
    return count <= size - at - width ? at + width + count : 0;
}

/* mark_pickle - sets the element of STRUCTURE for each byte of the pickle at AT, except for arguments that
 * are numbers. Returns the offset after its STOP, or AT if there is no complete pickle. */
static size_t mark_pickle(const unsigned char *data, size_t size, size_t at, bool *structure)
{
    size_t end = at;
    bool is_number;
    while (end < size && (end = skip_argument(data, size, end + 1, &is_number)) && end < size &&
           data[end] != '.')
        ;
    if (end == 0 || end >= size)
        return at;
    for (size_t next; at < end; at = next) {
        next = skip_argument(data, size, at + 1, &is_number);
        structure[at] = true;
        memset(structure + at + 1, !is_number, next - at - 1);
    }
    structure[end] = true;
    return end + 1;
}

static size_t read_u16(const unsigned char *at) { return at[0] | (size_t)at[1] << 8; }

/* mark_names_of_skops - sets the elements of STRUCTURE for the SIZE bytes at AT, if they are the member in
 * which skops keeps the names of all arrays. */
static void mark_names_of_skops(const unsigned char *name, size_t name_length, size_t at, size_t size,
                                bool *structure)
{
    static const char schema[] = "schema.json";
    if (name_length == sizeof schema - 1 && memcmp(name, schema, name_length) == 0)
        memset(structure + at, 1, size);
}

/* mark_zip_header - sets the element of STRUCTURE for each byte of the name in the local or central header at
 * AT. Returns the offset after the extra field, or AT if there is no header. */
static size_t mark_zip_header(const unsigned char *data, size_t size, size_t at, bool *structure)
{
    bool local = size - at >= 30 && memcmp(data + at, "PK\3\4", 4) == 0;
    if (!local && (size - at < 46 || memcmp(data + at, "PK\1\2", 4) != 0))
        return at;
    size_t head = local ? 30 : 46, name_length = read_u16(data + at + head - (local ? 4 : 18));
    size_t extra_length = read_u16(data + at + head - (local ? 2 : 16));
    if (name_length + extra_length > size - at - head)
        return at;
    memset(structure + at + head, 1, name_length);
    size_t end = at + head + name_length + extra_length, packed_size = read_u16(data + at + 18);
    if (local && packed_size <= size - end)
        mark_names_of_skops(data + at + head, name_length, end, packed_size, structure);
    return end;
}

bool *outcome_structure(const unsigned char *data, size_t size)
{
    bool *structure = calloc(size + 4, sizeof *structure);
    size_t at = 0;
    /* A pickle without PROTO may begin only here: at 0, or at the end of a zip header or another pickle. */
    size_t previous_end = 0;
    while (structure && at < size) {
        bool has_proto = data[at] == 0x80 && at + 1 < size && data[at + 1] <= 5;
        size_t end = mark_zip_header(data, size, at, structure);
        if (end == at && (has_proto || at == previous_end))
            end = mark_pickle(data, size, at, structure);
        if (end > at)
            previous_end = end;
        at = end > at ? end : at + 1;
    }
    if (structure)
        memset(structure, 1, 4); /* the signature of the file */
    return structure;
}
