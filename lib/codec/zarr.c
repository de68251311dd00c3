/*
 * zarr.c - reads the metadata of Zarr arrays of version 2 (.zarray) and 3 (zarr.json), as specified
 * (zarr-specs.readthedocs.io) and as zarr-python and TensorStore write them:
 *   2   zarr_format 2, shape, chunks, dtype as numpy's type codes, order C or F, compressor null or {id},
 *       filters null, fill_value, dimension_separator "." or "/"
 *   3   zarr_format 3, node_type array, shape, data_type, chunk_grid regular {chunk_shape},
 *       chunk_key_encoding default or v2 {separator}, fill_value, codecs: transpose {order}, bytes {endian},
 *       compressors; or only sharding_indexed {chunk_shape, codecs, index_codecs, index_location}, whose
 *       codecs are those of the chunks in a shard
 *
 * The key of a chunk is its index in the grid, 0.1 in version 2, c/0/1 in version 3; the chunk of a scalar
 * has the key 0, or c. Chunks at the edges have the same number of elements as all others. The elements of a
 * missing chunk are the fill value.
 *
 * A shard has its chunks in any order, and at its end (or beginning) an index: the offset and length of each
 * chunk, u64, all ones if the chunk is missing, and usually a CRC-32C of these numbers.
 */
#include "codec/zarr.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/store.h"
#include "codec/blosc.h"
#include "codec/inflate.h"
#include "codec/json_scan.h"
#include "codec/pickle_text.h"
#include "codec/unpack_archive.h"
#include "core/convert.h"
#include "core/elements.h"
#include "core/numpy.h"

#define MAX_BYTES   ((uint64_t)1 << 63)
#define CRC_BYTES   4u
#define INDEX_ENTRY 16u /* bytes of an entry in the index of a shard */

/* Metadata that are being read. */
struct zarr_reading {
    struct zarr_array *z;
    arena *a;
    const ckpt_value *root;
    ckpt_error *err;
};

/* fail_at - fails with the status ST because VALUE, called WHAT, is not MUST_BE. */
static ckpt_status fail_at(const struct zarr_reading *reading, ckpt_status st, const ckpt_value *value,
                           const char *what, const char *must_be)
{
    char shown[120];
    value_text_or_type(value, 12, shown, sizeof shown);
    (void)fail(reading->err, st, value ? value_offset(value) : 0, "%s is {%s}; {=%s} is read", what,
               value ? shown : "missing", must_be);
    return st;
}

/* fail_field - fails as fail_at does, because VALUE is not supported, or missing. */
static ckpt_status fail_field(const struct zarr_reading *reading, const ckpt_value *value, const char *what,
                              const char *must_be)
{
    return fail_at(reading, value ? CKPT_EUNSUPPORTED : CKPT_EFORMAT, value, what, must_be);
}

static bool is_null(const ckpt_value *value) { return !value || value->type == CKPT_V_NONE; }

static bool is_text(const ckpt_value *value, const char *text)
{
    ckpt_str s;
    return value_text(value, &s) && str_is(s, text);
}

/* get_field - returns the value of KEY in VALUE; NULL: VALUE is no dict, or lacks the key. */
static const ckpt_value *get_field(const ckpt_value *value, const char *key)
{
    return value && value->type == CKPT_V_DICT ? value_get(value, key) : NULL;
}

/* read_sizes - sets *OUT to VALUE, a list of as many sizes as the array has dimensions, each at least
 * LEAST. */
static ckpt_status read_sizes(const struct zarr_reading *reading, const ckpt_value *value, int64_t least,
                              const char *what, uint64_t **out)
{
    uint32_t n = reading->z->ndim;
    int64_t size;
    *out = arena_array(reading->a, n, sizeof **out);
    CKPT_TRY_ALLOC(*out, reading->err);
    bool ok = value && value->type == CKPT_V_LIST && value_count(value) == n;
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = value_item(value, i)->type == CKPT_V_INT && value_integer(value_item(value, i), &size) &&
             size >= least;
        (*out)[i] = ok ? (uint64_t)size : 0;
    }
    return ok ? CKPT_OK
              : fail_at(reading, CKPT_EFORMAT, value, what, "a list of sizes, one for each dimension");
}

/* multiply_sizes - sets *OUT to the product of NDIM SIZES and ELEMENT_SIZE; false: 2^63 or more. */
static bool multiply_sizes(const uint64_t *sizes, uint32_t ndim, uint64_t element_size, uint64_t *out)
{
    return checked_product(sizes, ndim, out) && checked_mul(*out, element_size, out) && *out < MAX_BYTES;
}

static ckpt_status read_shape(const struct zarr_reading *reading, const ckpt_value *chunks, const char *what)
{
    struct zarr_array *z = reading->z;
    const ckpt_value *shape = get_field(reading->root, "shape");
    z->ndim = shape && shape->type == CKPT_V_LIST ? value_count(shape) : 0;
    if (z->ndim > ZARR_DIMS)
        return fail_field(reading, shape, "the shape", "a list of up to 32 sizes");
    CKPT_TRY(read_sizes(reading, shape, 0, "the shape", &z->shape));
    CKPT_TRY(read_sizes(reading, chunks, 1, what, &z->key_shape));
    z->chunk_shape = z->key_shape;
    return CKPT_OK;
}

/* read_dtype - reads the dtype VALUE: a code of NumPy ("<f4") or a name ("bfloat16"). */
static ckpt_status read_dtype(const struct zarr_reading *reading, const ckpt_value *value)
{
    struct zarr_array *z = reading->z;
    struct numpy_dtype d = {.kind = 0};
    ckpt_str name;
    if (value_text(value, &name))
        z->dtype = dtype_by_name(name);
    if (value_text(value, &name) && z->dtype == CKPT_DT_NONE && numpy_dtype_parse(name, &d))
        z->dtype = numpy_known_dtype(&d);
    const struct dtype_info *info = dtype_info(z->dtype);
    if (!dtype_is_number(z->dtype))
        return fail_field(reading, value, "the dtype", "a number, bool or complex number");
    z->element_size = info->block_bytes;
    z->encoding.big_endian = d.big_endian && info->swap_bytes > 1;
    return multiply_sizes(z->shape, z->ndim, z->element_size, &z->nbytes)
               ? CKPT_OK
               : fail_at(reading, CKPT_EFORMAT, get_field(reading->root, "shape"), "the shape",
                         "fewer than 2^63 bytes");
}

/* put_bits - writes to OUT the element of SIZE bytes whose bits the text TEXT gives, such as "0x7fc00000".
 * False: TEXT is no such text. */
static bool put_bits(ckpt_str text, uint32_t size, unsigned char *out)
{
    int64_t bits;
    unsigned char bytes[8];
    if (!str_starts(text, STR_LIT("0x")) || size > 8 || text.len > 2 + 2 * (size_t)size ||
        !pickle_text_int(text, &bits))
        return false;
    store_u64le(bytes, (uint64_t)bits);
    memcpy(out, bytes, size);
    return true;
}

/* put_float - writes VALUE, a number or the text of one, to OUT as an element of DTYPE; false: VALUE is
 * neither. */
static bool put_float(ckpt_dtype dtype, const ckpt_value *value, unsigned char *out)
{
    struct conversion c;
    struct convert_tally tally = {0};
    unsigned char in[8];
    ckpt_str text;
    double x;
    uint64_t bits;
    bool from_text = value_text(value, &text);
    if (from_text && put_bits(text, dtype_info(dtype)->block_bytes, out))
        return true;
    if (from_text ? !pickle_text_float(text, &x) : value->type != CKPT_V_FLOAT && value->type != CKPT_V_INT)
        return false;
    x = from_text ? x : value->type == CKPT_V_FLOAT ? value->u.f : (double)value->u.i;
    memcpy(&bits, &x, sizeof bits);
    store_u64le(in, bits);
    if (bits == 0 && dtype != CKPT_DT_F8_E8M0)
        return true; /* OUT is zeroed */
    if (dtype != CKPT_DT_F64 && !conversion_init(&c, CKPT_DT_F64, dtype))
        return false;
    if (dtype == CKPT_DT_F64)
        memcpy(out, in, sizeof in);
    else
        convert_run(&c, in, 1, out, &tally);
    return true;
}

static bool put_integer(const struct dtype_info *info, const ckpt_value *value, unsigned char *out)
{
    unsigned char bytes[8];
    int64_t i, end = info->block_bytes < 8 ? INT64_C(1) << (8 * info->block_bytes) : INT64_MAX;
    if (!value_integer(value, &i) || i >= end || i < (info->klass == 'i' ? -(end / 2) : 0))
        return false;
    store_u64le(bytes, (uint64_t)i);
    memcpy(out, bytes, info->block_bytes);
    return true;
}

/* put_element - writes VALUE to OUT, which is zeroed, as a little-endian element of ARRAY; false: VALUE is no
 * such element. */
static bool put_element(const struct zarr_array *array, const ckpt_value *value, unsigned char *out)
{
    const struct dtype_info *d = dtype_info(array->dtype);
    ckpt_dtype part_dtype = (ckpt_dtype)d->number;
    if (d->klass == 'f')
        return put_float(array->dtype, value, out);
    if (d->klass != 'c')
        return put_integer(d, value, out);
    if (value->type != CKPT_V_LIST)
        return put_float(part_dtype, value, out);
    return value_count(value) == 2 && put_float(part_dtype, value_item(value, 0), out) &&
           put_float(part_dtype, value_item(value, 1), out + d->block_bytes / 2);
}

/* read_fill - sets the fill value of the array to VALUE, if VALUE is an element. */
static void read_fill(const struct zarr_reading *reading, const ckpt_value *value)
{
    struct zarr_array *z = reading->z;
    z->has_fill = !is_null(value) && put_element(z, value, z->fill);
    if (z->encoding.big_endian)
        swap_bytes(z->fill, z->element_size, dtype_info(z->dtype)->swap_bytes);
}

/* add_compressor - adds the codec NAME to the encoding ENCODING. VALUE is the node that names it, for
 * errors. */
static ckpt_status add_compressor(const struct zarr_reading *reading, struct zarr_encoding *encoding,
                                  ckpt_str name, const ckpt_value *value)
{
    static const char *const names[] = {[ZARR_ZSTD] = "zstd",
                                        [ZARR_GZIP] = "gzip",
                                        [ZARR_ZLIB] = "zlib",
                                        [ZARR_BLOSC] = "blosc",
                                        [ZARR_CRC32C] = "crc32c"};
    for (unsigned i = 0; i < sizeof names / sizeof *names && encoding->ncodecs < ZARR_CODECS; i++)
        if (str_is(name, names[i])) {
            encoding->codecs[encoding->ncodecs++] = (enum zarr_codec)i;
            return CKPT_OK;
        }
    return fail_field(reading, value, "a codec", "zstd, gzip, zlib, blosc, crc32c");
}

/* get_name - returns the name in VALUE, a codec, grid or key encoding; it is empty if VALUE has none. Sets
 * *CONFIG to the configuration in VALUE or to NULL. */
static ckpt_str get_name(const ckpt_value *value, const ckpt_value **config)
{
    ckpt_str name = {"", 0};
    *config = get_field(value, "configuration");
    (void)value_text(value && value->type == CKPT_V_DICT ? get_field(value, "name") : value, &name);
    return name;
}

/* read_transpose - reorders the dimensions of ENCODING by CONFIG, the configuration of a transpose codec. */
static ckpt_status read_transpose(const struct zarr_reading *reading, struct zarr_encoding *encoding,
                                  const ckpt_value *config)
{
    const ckpt_value *order = get_field(config, "order");
    uint8_t before[ZARR_DIMS];
    uint32_t seen = 0, n = reading->z->ndim;
    memcpy(before, encoding->order, sizeof before);
    for (uint32_t i = 0; i < n; i++) {
        int64_t k;
        bool ok = order && value_count(order) == n && value_integer(value_item(order, i), &k) && k >= 0 &&
                  k < n && !(seen >> k & 1);
        if (!ok)
            return fail_at(reading, CKPT_EFORMAT, order, "the order of a transposition",
                           "each dimension once");
        seen |= UINT32_C(1) << k;
        encoding->order[i] = before[k];
    }
    return CKPT_OK;
}

/* read_endian - sets *BIG to whether the byte order in CONFIG, the configuration of a bytes codec, is
 * big-endian. */
static ckpt_status read_endian(const struct zarr_reading *reading, const ckpt_value *config, bool *big)
{
    const ckpt_value *endian = get_field(config, "endian");
    *big = is_text(endian, "big");
    return !endian || *big || is_text(endian, "little")
               ? CKPT_OK
               : fail_field(reading, endian, "the byte order", "little or big");
}

/* read_codecs - sets ENCODING to the codecs in LIST. If the only one is sharding_indexed, sets *SHARD to its
 * configuration; SHARD is NULL if shards are not allowed. */
static ckpt_status read_codecs(const struct zarr_reading *reading, const ckpt_value *list,
                               struct zarr_encoding *encoding, const ckpt_value **shard)
{
    bool is_bytes = false, is_transposed = false; /* the array after the codecs so far */
    for (uint32_t i = 0; list && i < value_count(list); i++) {
        const ckpt_value *v = value_item(list, i), *config;
        ckpt_str name = get_name(v, &config);
        bool sharding = shard && str_is(name, "sharding_indexed") && !is_transposed && value_count(list) == 1;
        if (!is_bytes && str_is(name, "transpose")) {
            is_transposed = true;
            CKPT_TRY(read_transpose(reading, encoding, config));
        } else if (!is_bytes && str_is(name, "bytes")) {
            is_bytes = true;
            CKPT_TRY(read_endian(reading, config, &encoding->big_endian));
        } else if (sharding && config) {
            is_bytes = true;
            *shard = config;
        } else if (is_bytes) {
            CKPT_TRY(add_compressor(reading, encoding, name, v));
        } else {
            return fail_field(reading, v, "a codec", "transpose, bytes, or sharding_indexed alone");
        }
    }
    return is_bytes ? CKPT_OK : fail_at(reading, CKPT_EFORMAT, list, "the list of codecs", "one with bytes");
}

/* read_shards - reads CONFIG, the configuration of sharding_indexed: shape and codecs of the chunks in a
 * shard, and codecs of the index. */
static ckpt_status read_shards(const struct zarr_reading *reading, const ckpt_value *config)
{
    struct zarr_array *z = reading->z;
    const ckpt_value *at = get_field(config, "index_location"), *list = get_field(config, "index_codecs");
    struct zarr_encoding index = {.ncodecs = 0};
    z->is_sharded = true;
    z->index_is_first = is_text(at, "start");
    if (at && !z->index_is_first && !is_text(at, "end"))
        return fail_field(reading, at, "the location of a shard's index", "start or end");
    CKPT_TRY(read_sizes(reading, get_field(config, "chunk_shape"), 1, "the shape of the chunks in a shard",
                        &z->chunk_shape));
    for (uint32_t i = 0; i < z->ndim; i++)
        if (z->key_shape[i] % z->chunk_shape[i] ||
            !checked_mul(z->chunks_in_shard, z->key_shape[i] / z->chunk_shape[i], &z->chunks_in_shard))
            return fail_at(reading, CKPT_EFORMAT, get_field(config, "chunk_shape"),
                           "the shape of the chunks in a shard", "one that divides that of the shard");
    CKPT_TRY(read_codecs(reading, list, &index, NULL));
    z->index_big_endian = index.big_endian;
    z->index_has_crc = index.ncodecs == 1 && index.codecs[0] == ZARR_CRC32C;
    if (index.ncodecs > z->index_has_crc)
        return fail_field(reading, list, "the codecs of a shard's index", "bytes and crc32c");
    return read_codecs(reading, get_field(config, "codecs"), &z->encoding, NULL);
}

static ckpt_status read_v2(const struct zarr_reading *reading)
{
    struct zarr_array *z = reading->z;
    const ckpt_value *order = get_field(reading->root, "order"),
                     *filters = get_field(reading->root, "filters");
    const ckpt_value *compressor = get_field(reading->root, "compressor"),
                     *separator = get_field(reading->root, "dimension_separator");
    CKPT_TRY(read_shape(reading, get_field(reading->root, "chunks"), "the shape of chunks"));
    CKPT_TRY(read_dtype(reading, get_field(reading->root, "dtype")));
    z->separator = is_text(separator, "/") ? "/" : ".";
    if (!is_null(separator) && !is_text(separator, z->separator))
        return fail_field(reading, separator, "the separator", "\".\" or \"/\"");
    if (!is_text(order, "C") && !is_text(order, "F"))
        return fail_field(reading, order, "the order", "\"C\" or \"F\"");
    for (uint32_t i = 0; is_text(order, "F") && i < z->ndim; i++)
        z->encoding.order[i] = (uint8_t)(z->ndim - 1 - i);
    if (!is_null(filters) && (filters->type != CKPT_V_LIST || value_count(filters)))
        return fail_field(reading, filters, "a filter", "none");
    ckpt_str id = {"", 0};
    (void)value_text(get_field(compressor, "id"), &id);
    if (!is_null(compressor))
        CKPT_TRY(add_compressor(reading, &z->encoding, id, compressor));
    read_fill(reading, get_field(reading->root, "fill_value"));
    return CKPT_OK;
}

/* check_fields - refuses fields that version 3 does not have, unless they may be ignored. */
static ckpt_status check_fields(const struct zarr_reading *reading)
{
    static const char *const known[] = {"zarr_format",        "node_type",      "shape",
                                        "data_type",          "chunk_grid",     "fill_value",
                                        "attributes",         "codecs",         "storage_transformers",
                                        "chunk_key_encoding", "dimension_names"};
    uint32_t n;
    const value_pair *pairs = value_pairs(reading->root, &n);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *flag = get_field(pairs[i].val, "must_understand");
        bool ok = flag && flag->type == CKPT_V_BOOL && !flag->u.b;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            ok = ok || is_text(pairs[i].key, known[k]);
        if (!ok)
            return fail_field(reading, pairs[i].key, "a field of the metadata", "what version 3 has");
    }
    return CKPT_OK;
}

static ckpt_status read_v3(const struct zarr_reading *reading)
{
    struct zarr_array *z = reading->z;
    const ckpt_value *config, *shard = NULL, *grid = get_field(reading->root, "chunk_grid");
    const ckpt_value *keys = get_field(reading->root, "chunk_key_encoding"),
                     *transformers = get_field(reading->root, "storage_transformers");
    CKPT_TRY(check_fields(reading));
    if (!is_text(get_field(reading->root, "node_type"), "array"))
        return fail_field(reading, get_field(reading->root, "node_type"), "the type of the node", "array");
    if (!str_is(get_name(grid, &config), "regular"))
        return fail_field(reading, grid, "the grid of chunks", "a regular one");
    CKPT_TRY(read_shape(reading, get_field(config, "chunk_shape"), "the shape of chunks"));
    CKPT_TRY(read_dtype(reading, get_field(reading->root, "data_type")));
    z->keys_begin_with_c = str_is(get_name(keys, &config), "default");
    const ckpt_value *separator = get_field(config, "separator");
    z->separator = is_text(separator, "/") || (!separator && z->keys_begin_with_c) ? "/" : ".";
    if ((!z->keys_begin_with_c && !str_is(get_name(keys, &config), "v2")) ||
        (separator && !is_text(separator, z->separator)))
        return fail_field(reading, keys, "the encoding of keys", "default or v2");
    if (!is_null(transformers) && value_count(transformers))
        return fail_field(reading, transformers, "a storage transformer", "none");
    CKPT_TRY(read_codecs(reading, get_field(reading->root, "codecs"), &z->encoding, &shard));
    if (shard)
        CKPT_TRY(read_shards(reading, shard));
    z->encoding.big_endian = z->encoding.big_endian && dtype_info(z->dtype)->swap_bytes > 1;
    read_fill(reading, get_field(reading->root, "fill_value"));
    return CKPT_OK;
}

ckpt_status zarr_read(ckpt_str text, bool v3, arena *a, struct zarr_array *out, ckpt_error *err)
{
    ckpt_value *root;
    int64_t version;
    *out = (struct zarr_array){.chunks_in_shard = 1};
    for (uint32_t i = 0; i < ZARR_DIMS; i++)
        out->encoding.order[i] = (uint8_t)i;
    CKPT_TRY(json_read_value(text, 0, a, &root, err));
    struct zarr_reading r = {out, a, root, err};
    const ckpt_value *format = get_field(root, "zarr_format");
    if (!value_integer(format, &version) || version != (v3 ? 3 : 2))
        return fail_field(&r, format, "the version of Zarr", v3 ? "3" : "2");
    CKPT_TRY(v3 ? read_v3(&r) : read_v2(&r));
    return multiply_sizes(out->chunk_shape, out->ndim, out->element_size, &out->encoding.decoded_bytes)
               ? CKPT_OK
               : fail_at(&r, CKPT_EFORMAT, root, "a chunk", "one of fewer than 2^63 bytes");
}

/* take_coordinate - sets *OUT to the decimal number with which *KEY begins, and skips it; false: there is
 * none. */
static bool take_coordinate(ckpt_str *key, uint64_t *out)
{
    size_t n = 0;
    while (n < key->len && key->ptr[n] >= '0' && key->ptr[n] <= '9')
        n++;
    bool ok = str_uint(str_of(key->ptr, n), out) && (n == 1 || key->ptr[0] != '0');
    *key = str_skip(*key, n);
    return ok;
}

bool zarr_is_chunk_key(const struct zarr_array *array, ckpt_str key, uint64_t *first)
{
    uint64_t i;
    if (array->ndim == 0)
        return str_is(key, array->keys_begin_with_c ? "c" : "0");
    if (array->keys_begin_with_c && !str_starts(key, STR_LIT("c")))
        return false;
    key = str_skip(key, array->keys_begin_with_c);
    for (uint32_t k = 0; k < array->ndim; k++) {
        if ((k || array->keys_begin_with_c) && !str_starts(key, str_c(array->separator)))
            return false;
        key = str_skip(key, k || array->keys_begin_with_c);
        if (!take_coordinate(&key, &i) || !checked_mul(i, array->key_shape[k], &first[k]) ||
            first[k] >= array->shape[k])
            return false;
    }
    return !key.len;
}

void zarr_get_strides(const struct zarr_array *array, uint64_t *stride)
{
    uint64_t next_stride = 1;
    for (uint32_t i = array->ndim; COUNT_DOWN(i);) {
        stride[array->encoding.order[i]] = next_stride;
        next_stride *= array->chunk_shape[array->encoding.order[i]];
    }
}

/* strip_crc - appends IN to TO without the CRC-32C at its end, which must be that of the bytes before it. */
static ckpt_status strip_crc(source *in, spool *to, ckpt_error *err)
{
    unsigned char block[4096], stored[CRC_BYTES];
    uint32_t crc = 0;
    if (in->size < CRC_BYTES)
        return fail(err, CKPT_ETRUNCATED, source_pos(in, 0),
                    "{%" PRIu64 " bytes}, of which {=4} are a CRC-32C", in->size);
    uint64_t size = in->size - CRC_BYTES;
    for (uint64_t at = 0, n; at < size; at += n) {
        n = size - at < sizeof block ? size - at : sizeof block;
        CKPT_TRY(source_read(in, at, block, (size_t)n, err));
        CKPT_TRY(spool_write(to, block, (size_t)n, err));
        crc = crc_update(CRC_32C, crc, block, (size_t)n);
    }
    CKPT_TRY(source_read(in, size, stored, sizeof stored, err));
    return crc == load_u32le(stored)
               ? CKPT_OK
               : fail(err, CKPT_ECHECKSUM, source_pos(in, 0),
                      "a chunk has the CRC-32C {%08" PRIx32 "}, it stores {=%08" PRIx32 "}", crc,
                      load_u32le(stored));
}

/* unpack_blosc - decompresses the Blosc buffer IN, which it loads into memory. Fails if it is much
 * larger than the MAX_BYTES that it may decode to. */
static ckpt_status unpack_blosc(source *in, uint64_t max_bytes, spool *to, ckpt_error *err)
{
    if (!in->size || in->size / 2 > max_bytes + 4096 || in->size > UINT32_MAX)
        return fail(err, CKPT_EFORMAT, source_pos(in, 0),
                    "a Blosc buffer of {%" PRIu64 " bytes} for {=%" PRIu64 "}", in->size, max_bytes);
    unsigned char *bytes = malloc((size_t)in->size);
    ckpt_status st = bytes ? source_read(in, 0, bytes, (size_t)in->size, err) : fail_memory(err);
    CKPT_THEN(st, blosc_decode(bytes, (size_t)in->size, max_bytes, to, err));
    free(bytes);
    return st;
}

static ckpt_status inflate_all(source *in, enum inflate_kind kind, spool *to, ckpt_error *err)
{
    uint64_t used;
    CKPT_TRY(inflate_into(in, 0, in->size, kind, to, &used, err));
    return used == in->size
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, source_pos(in, used),
                      "{%" PRIu64 " bytes} after the compressed ones, where {=the end} is expected",
                      in->size - used);
}

/* undo_codec - decodes IN, which CODEC encoded, and appends the result, at most MAX_BYTES, to TO. */
static ckpt_status undo_codec(enum zarr_codec codec, source *in, uint64_t max_bytes, spool *to,
                              ckpt_error *err)
{
    switch (codec) {
    case ZARR_ZSTD: return unpack_zstd(in, to, err);
    case ZARR_GZIP: return inflate_all(in, INFLATE_GZIP, to, err);
    case ZARR_ZLIB: return inflate_all(in, INFLATE_ZLIB, to, err);
    case ZARR_BLOSC: return unpack_blosc(in, max_bytes, to, err);
    default: return strip_crc(in, to, err);
    }
}

ckpt_status zarr_decode(const struct zarr_encoding *encoding, source *stored, spool *to, ckpt_error *err)
{
    /* decoded_bytes is below 2^63; a codec enlarges its input by less than 1/64 and 4 KiB */
    uint64_t max_bytes = encoding->decoded_bytes + encoding->decoded_bytes / 64 + 4096;
    source *in = stored, *decoded = NULL;
    ckpt_status st = CKPT_OK;
    for (unsigned i = encoding->ncodecs; st == CKPT_OK && COUNT_DOWN(i);) {
        spool *out = i ? spool_new(max_bytes) : to;
        st = out ? undo_codec(encoding->codecs[i], in, i ? max_bytes : encoding->decoded_bytes, out, err)
                 : fail_memory(err);
        source_unref(decoded);
        in = decoded = i && out ? spool_source(out) : NULL;
    }
    source_unref(decoded);
    return st;
}

bool zarr_has_checksums(const struct zarr_encoding *encoding)
{
    for (unsigned i = 0; i < encoding->ncodecs; i++)
        if (encoding->codecs[i] == ZARR_CRC32C || encoding->codecs[i] == ZARR_GZIP ||
            encoding->codecs[i] == ZARR_ZLIB)
            return true;
    return false;
}

/* parse_shard_index - sets CHUNKS to the entries of INDEX. The shard is the NBYTES bytes at AT of SRC. */
static ckpt_status parse_shard_index(const struct zarr_array *array, const unsigned char *index, source *src,
                                     uint64_t at, uint64_t nbytes, struct zarr_stored_chunk *chunks,
                                     ckpt_error *err)
{
    for (uint64_t i = 0; i < array->chunks_in_shard; i++, index += INDEX_ENTRY) {
        chunks[i].at = load_number(index, 8, array->index_big_endian);
        chunks[i].nbytes = load_number(index + 8, 8, array->index_big_endian);
        bool missing = chunks[i].at == UINT64_MAX && chunks[i].nbytes == UINT64_MAX;
        if (!missing && !range_within(chunks[i].at, chunks[i].nbytes, nbytes))
            return fail(err, CKPT_ETRUNCATED, source_pos(src, at),
                        "chunk %" PRIu64 " of a shard has {%" PRIu64 " bytes at %" PRIu64
                        "}, the shard has {=%" PRIu64 "}",
                        i, chunks[i].nbytes, chunks[i].at, nbytes);
    }
    return CKPT_OK;
}

ckpt_status zarr_read_index(const struct zarr_array *array, source *src, uint64_t at, uint64_t nbytes,
                            arena *a, struct zarr_stored_chunk **out, ckpt_error *err)
{
    uint64_t size;
    uint32_t crc_size = array->index_has_crc ? CRC_BYTES : 0;
    if (!checked_mul(array->chunks_in_shard, INDEX_ENTRY, &size) || !checked_add(size, crc_size, &size) ||
        size > nbytes)
        return fail(err, CKPT_ETRUNCATED, source_pos(src, at),
                    "a shard of {%" PRIu64 " bytes}, its index alone has {=%" PRIu64 " chunks}", nbytes,
                    array->chunks_in_shard);
    unsigned char *bytes = arena_alloc(a, (size_t)size);
    *out = arena_array(a, array->chunks_in_shard, sizeof **out);
    CKPT_TRY_ALLOC(bytes && *out, err);
    uint64_t from = array->index_is_first ? at : at + (nbytes - size);
    CKPT_TRY(source_read(src, from, bytes, (size_t)size, err));
    size_t crc_at = (size_t)size - crc_size;
    uint32_t computed = crc_update(CRC_32C, 0, bytes, crc_at);
    uint32_t stored = crc_size ? load_u32le(bytes + crc_at) : computed;
    if (computed != stored)
        return fail(err, CKPT_ECHECKSUM, source_pos(src, from),
                    "the index of a shard has the CRC-32C {%08" PRIx32 "}, it stores {=%08" PRIx32 "}",
                    computed, stored);
    return parse_shard_index(array, bytes, src, at, nbytes, *out, err);
}
