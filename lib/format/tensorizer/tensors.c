/*
 * tensors.c - reads files of CoreWeave's tensorizer (.tensors).
 *
 *   OFFSET SIZE DESCRIPTION
 *   0      5    "|TZR|"
 *   5      4    version, 1 to 5
 *   9      32   flags, a number: 1 encrypted (also all of version 3), 2 an entry begins with its version
 *   41     16   not used
 *   57     8    number of tensors
 *   65     8    length of the metadata, which follow: an entry for each tensor, then zeros
 *
 *   of an entry: [4 version] 2+n name, 1 kind (0 parameter, 1 buffer, 2 neither), 1+n dtype, 1+4n shape (8n
 *   in entries of version 5), 8 offset of the header, 8 offset of the values, 8 length of the values
 *   of a header: 8 its length, 2 module, 1 kind, 2+n name, 1+n dtype, 1+4n or 1+8n shape, 2+n checksums, …
 *   of checksums: 1 how many; of each 1 type (0 CRC-32, 1 SHA-256), 1+n value
 *
 * Numbers are little-endian; "2+n" is a length in 2 bytes and what it counts. A dtype is numpy's, "<f4", or
 * numpy's, a NUL and torch's, "<V2\0torch.bfloat16". A name that begins with byte 1E is a path as JSON,
 * ["a", 0]. The checksums are of the header, in which they are zero, and the values after it. A tensor of the
 * meta device has no values, and is listed without data; tensorizer makes zeros of it. SHA-256 is not
 * compared.
 *
 * Refused: encrypted files, other versions and flags, values outside of the file, metadata that end early or
 * have more entries, a header that is not that of its entry.
 *
 * Source: tensorizer 2.12 (serialization.py, _tensor_path.py).
 */
#include <inttypes.h>

#include "codec/json_scan.h"
#include "core/check.h"
#include "core/numpy.h"
#include "format/kit.h"
#include "format/recognize.h"

#define HEAD_SIZE     73u
#define FLAGS_SIZE    32u
#define VERSIONS      5u /* the last one */
#define LONG_VERSION  5u /* shapes have 8 bytes for each size */
#define CRYPT_VERSION 3u
#define FLAG_CRYPT    1u
#define FLAG_VERSIONS 2u
#define PATH_MARK     '\x1e'
#define MAX_HEADER    1048576u /* bytes: more than names of 64 KiB, and 255 sizes and checksums take */
#define NAME_MAX_SIZE 1048576u

struct entry {
    ckpt_str name, dtype; /* as stored */
    uint8_t kind;
    uint32_t ndim;
    bool is_long;
    uint64_t *shape;
    uint64_t header, values, nbytes;
    uint64_t at;
};

struct tensorizer {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    uint64_t count;
    bool has_versions; /* before each entry */
};

/* ------------------------------------------------------------------------------------ head */

static ckpt_status read_head(struct tensorizer *tensorizer, uint64_t *metadata)
{
    unsigned char head[HEAD_SIZE];
    CKPT_TRY(source_read(tensorizer->f->src, 0, head, sizeof head, tensorizer->err));
    cursor c = cursor_of(head, sizeof head, source_pos(tensorizer->f->src, 0));
    (void)cursor_take(&c, 5);
    uint32_t version = cursor_u32(&c);
    uint64_t flags = cursor_u64(&c), more_flags = 0;
    for (size_t i = 8; i < FLAGS_SIZE; i++)
        more_flags |= cursor_u8(&c);
    (void)cursor_take(&c, 16);
    tensorizer->count = cursor_u64(&c);
    *metadata = cursor_u64(&c);
    flags = more_flags ? UINT64_MAX : flags;
    if (version < 1 || version > VERSIONS || flags > (FLAG_CRYPT | FLAG_VERSIONS))
        return fail(tensorizer->err, CKPT_EUNSUPPORTED, source_pos(tensorizer->f->src, 5),
                    "a file of version {%" PRIu32 " with flags %" PRIu64 "}; {=1 to %u, 0 to 3} are read",
                    version, flags, VERSIONS);
    if (version == CRYPT_VERSION || (flags & FLAG_CRYPT))
        return fail(
            tensorizer->err, CKPT_EUNSUPPORTED, source_pos(tensorizer->f->src, 5),
            "the tensors are {encrypted}\n"
            "read them with tensorizer.TensorDeserializer and DecryptionParams, and give the mapping to "
            "torch.save");
    tensorizer->has_versions = flags & FLAG_VERSIONS;
    return CKPT_OK;
}

/* --------------------------------------------------------------------------------- entries */

static ckpt_str take_text(cursor *in, size_t length_size)
{
    size_t n = (size_t)cursor_number(in, length_size);
    const unsigned char *text = cursor_take(in, n);
    return str_of((const char *)text, text ? n : 0);
}

/* take_shape - reads a number of sizes and, to SHAPE unless that is NULL, as many sizes. */
static void take_shape(cursor *in, uint32_t ndim, bool is_long, uint64_t *shape)
{
    for (uint32_t i = 0; i < ndim; i++) {
        uint64_t size = is_long ? cursor_u64(in) : cursor_u32(in);
        if (shape)
            shape[i] = size;
    }
}

static ckpt_status read_entry(struct tensorizer *tensorizer, cursor *in, struct entry *entry)
{
    *entry = (struct entry){.at = in->pos};
    entry->is_long = tensorizer->has_versions && cursor_u32(in) >= LONG_VERSION;
    entry->name = take_text(in, 2);
    entry->kind = cursor_u8(in);
    entry->dtype = take_text(in, 1);
    entry->ndim = cursor_u8(in);
    CKPT_TRY_ALLOC(entry->shape = arena_array(tensorizer->f->a, entry->ndim, sizeof *entry->shape),
                   tensorizer->err);
    take_shape(in, entry->ndim, entry->is_long, entry->shape);
    entry->header = cursor_u64(in);
    entry->values = cursor_u64(in);
    entry->nbytes = cursor_u64(in);
    if (!in->bad)
        return CKPT_OK;
    return fail(tensorizer->err, CKPT_ETRUNCATED, entry->at,
                "the metadata {end} in an entry; {=%" PRIu64 " tensors} have one", tensorizer->count);
}

/* join_path - sets *OUT to the elements of PATH, a JSON array, with dots between them. */
static ckpt_status join_path(struct tensorizer *tensorizer, ckpt_str path, uint64_t at, ckpt_str *out)
{
    json_scan j;
    buf b;
    enum json_event e;
    buf_init(&b, NAME_MAX_SIZE);
    json_init(&j, path, at, tensorizer->f->a, tensorizer->err);
    ckpt_status st = json_expect(&j, JSON_ARRAY, "a path", "an array");
    while (st == CKPT_OK && (e = json_next(&j)) != JSON_ARRAY_END) {
        if (e != JSON_STRING && e != JSON_NUMBER)
            st = json_unexpected(&j, e, "an element of a path", "a text or number");
        else if (b.len)
            buf_put_cstr(&b, ".");
        if (st == CKPT_OK)
            buf_put_str(&b, j.str);
    }
    CKPT_THEN(st, json_expect(&j, JSON_END, "a path", "one array"));
    *out = arena_str(tensorizer->f->a, buf_view(&b));
    bool ok = buf_ok(&b) && out->ptr;
    buf_free(&b);
    return st != CKPT_OK || ok ? st : fail_memory(tensorizer->err);
}

static ckpt_status read_name(struct tensorizer *tensorizer, const struct entry *entry, ckpt_str *out)
{
    if (entry->name.len && entry->name.ptr[0] == PATH_MARK)
        return join_path(tensorizer, str_skip(entry->name, 1), entry->at, out);
    *out = arena_str(tensorizer->f->a, entry->name);
    return out->ptr ? CKPT_OK : fail_memory(tensorizer->err);
}

/* find_dtype - sets the dtype of TENSOR to that of ENTRY. */
static ckpt_status find_dtype(struct tensorizer *tensorizer, const struct entry *entry,
                              struct kit_tensor *tensor)
{
    struct numpy_dtype numpy = {.kind = 0};
    size_t nul = str_find(entry->dtype, STR_LIT("\0"), 0);
    ckpt_str name = nul == SIZE_MAX ? STR_LIT("") : str_skip(entry->dtype, nul + 1);
    ckpt_dtype found = CKPT_DT_NONE;
    if (name.len)
        found = dtype_by_name(name);
    else if (nul == SIZE_MAX && numpy_dtype_parse(entry->dtype, &numpy))
        found = numpy_known_dtype(&numpy);
    tensor->t.dtype = (uint16_t)found;
    tensor->big_endian = numpy.big_endian;
    if (found != CKPT_DT_NONE && dtype_info(found)->block_elems == 1)
        return CKPT_OK;
    return fail(tensorizer->err, CKPT_EUNSUPPORTED, entry->at,
                "the dtype {\"%.*s\"}; {=those of torch} are read", STR_ARG(entry->dtype));
}

/* --------------------------------------------------------------------------------- headers */

/* take_crc - reads checksums from IN. Returns true if there is a CRC-32, and sets *CRC to it. The bytes of
 * all checksums become zeros in SUMS, the SIZE bytes that IN reads. */
static bool take_crc(cursor *in, unsigned char *sums, size_t size, uint32_t *crc)
{
    bool found = false;
    for (size_t n = cursor_u8(in); n && !in->bad; n--) {
        uint8_t type = cursor_u8(in), length = cursor_u8(in);
        size_t at = size - in->left;
        const unsigned char *value = cursor_take(in, length);
        if (!value)
            break;
        if (type == 0 && length == 4) {
            *crc = load_u32le(value);
            found = true;
        }
        memset(sums + at, 0, length);
    }
    return found && !in->bad;
}

/* read_header - reads the header of ENTRY, which ends where its values begin. Sets *FOUND if it has a CRC-32,
 * and *CRC to that of the values alone. */
static ckpt_status read_header(struct tensorizer *tensorizer, const struct entry *entry, bool *found,
                               uint32_t *crc)
{
    source *src = tensorizer->f->src;
    uint64_t size = entry->values < entry->header ? 0 : entry->values - entry->header;
    if (size < 8 || size > MAX_HEADER)
        return fail(tensorizer->err, CKPT_EFORMAT, entry->at,
                    "{a header at 0x%" PRIx64 ", values at 0x%" PRIx64
                    "}; {=8 to %u bytes} apart are allowed",
                    entry->header, entry->values, MAX_HEADER);
    if (entry->values > src->size)
        return fail(tensorizer->err, CKPT_ETRUNCATED, source_pos(src, src->size),
                    "needs {=%" PRIu64 " bytes} before its values, the file has {%" PRIu64 "}", entry->values,
                    src->size);
    unsigned char *header = arena_alloc(tensorizer->f->a, (size_t)size);
    CKPT_TRY_ALLOC(header, tensorizer->err);
    CKPT_TRY(source_read(src, entry->header, header, (size_t)size, tensorizer->err));
    cursor c = cursor_of(header, (size_t)size, source_pos(src, entry->header));
    uint64_t stored_size = cursor_u64(&c);
    (void)cursor_take(&c, 3);
    ckpt_str name = take_text(&c, 2), dtype = take_text(&c, 1);
    take_shape(&c, cursor_u8(&c), entry->is_long, NULL);
    cursor sums = cursor_sub(&c, cursor_u16(&c));
    if (c.bad || stored_size != size || !str_eq(name, entry->name) || !str_eq(dtype, entry->dtype))
        return fail(tensorizer->err, CKPT_EFORMAT, source_pos(src, entry->header),
                    "a header that is {not that} of {=its entry}");
    size_t sums_size = sums.left, at = (size_t)size - c.left - sums_size;
    *found = take_crc(&sums, header + at, sums_size, crc);
    if (*found)
        *crc ^= crc_combine(CRC_32, crc32_update(0, header, (size_t)size), 0, entry->nbytes);
    arena_shrink(tensorizer->f->a, header, 0);
    return CKPT_OK;
}

/* check_values - lets `verify` compare the values of ENTRY, the tensor NAME, with CRC. */
static ckpt_status check_values(struct tensorizer *tensorizer, const struct entry *entry, ckpt_str name,
                                uint32_t crc)
{
    const struct check_record record = {
        .name = name, .path = tensorizer->f->path, .crc = crc, .recorded_in = "header"};
    return check_add_slice(tensorizer->f->check, record, tensorizer->f->src, entry->values, entry->nbytes,
                           tensorizer->err);
}

static ckpt_status add_tensor(struct tensorizer *tensorizer, const struct entry *entry)
{
    struct kit_tensor t = {.described_at = entry->at, .src_offset = entry->values, .nbytes = entry->nbytes};
    uint64_t elements = 0;
    uint32_t crc = 0;
    bool has_crc = false;
    CKPT_TRY(read_name(tensorizer, entry, &t.name));
    t.t.shape = entry->shape;
    t.t.ndim = entry->ndim;
    t.t.parameter = entry->kind == 0;
    ckpt_status st = find_dtype(tensorizer, entry, &t);
    bool is_meta = entry->nbytes == 0 && checked_product(entry->shape, entry->ndim, &elements) && elements;
    if (st == CKPT_OK && !is_meta) {
        t.src = tensorizer->f->src;
        st = read_header(tensorizer, entry, &has_crc, &crc);
    }
    if (st != CKPT_OK)
        return kit_add_faulty(&tensorizer->k, &t, st);
    t.crc = has_crc ? &crc : NULL;
    if (has_crc)
        CKPT_TRY(check_values(tensorizer, entry, t.name, crc));
    return kit_add_tensor(&tensorizer->k, &t);
}

/* check_padding - refuses anything but zeros after the last entry, at IN: the number of tensors is wrong. */
static ckpt_status check_padding(const struct tensorizer *tensorizer, cursor *in)
{
    while (in->left) {
        uint64_t at = in->pos;
        uint8_t byte = cursor_u8(in);
        if (byte)
            return fail(tensorizer->err, CKPT_EFORMAT, at,
                        "{the byte 0x%02x} after the entries of %" PRIu64 " tensors; {=zeros} may follow",
                        byte, tensorizer->count);
    }
    return CKPT_OK;
}

static ckpt_status read_entries(struct tensorizer *tensorizer, cursor *in)
{
    for (uint64_t i = 0; i < tensorizer->count; i++) {
        struct entry e;
        CKPT_TRY(read_entry(tensorizer, in, &e));
        CKPT_TRY(add_tensor(tensorizer, &e));
    }
    return check_padding(tensorizer, in);
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    struct tensorizer r = {.f = f, .err = err};
    ckpt_str text;
    uint64_t size;
    f->producer = STR_LIT("tensorizer");
    CKPT_TRY(read_head(&r, &size));
    CKPT_TRY(kit_read_metadata(f, f->src, HEAD_SIZE, size, &text, err));
    cursor c = cursor_of(text.ptr, text.len, source_pos(f->src, HEAD_SIZE));
    CKPT_TRY(kit_begin(&r.k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    return kit_end(&r.k, read_entries(&r, &c));
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    return position_if_failed(read_file(f, err), CKPT_NO_OFFSET, STR_LIT("metadata"), err);
}

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_TENSORIZER); }

const struct format format_tensorizer = {
    .name = "tensorizer", .title = "tensorizer file", .flat = true, .probe = probe, .read = read};
