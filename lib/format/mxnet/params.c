/*
 * params.c - reads the .params files of MXNet (apache/mxnet src/ndarray/ndarray.cc, NDArray::Save).
 *
 *   OFFSET SIZE DESCRIPTION
 *   0      8    0x112
 *   8      8    reserved, ignored
 *   16     8    number of arrays, which follow
 *   …      8    number of names, which follow: 0, or as many as there are arrays
 *
 * An array begins with its version (SIZE DESCRIPTION):
 *   4   0xF993FAC9, or 0xF993FACA with numpy's shapes (a rank of 0 is a scalar, -1 no array)
 *       4  storage: 0 dense, 1 row-sparse, 2 CSR
 *       …  sparse: the shape of its values
 *       …  shape: rank (4), sizes (8 each); a rank of 0 in 0xF993FAC9: no array
 *   4   0xF993FAC8: only the shape follows, as above; no storage
 *   4   any other value: a file without versions; these 4 bytes are the rank, and sizes take 4 bytes
 * then
 *   8   device: kind (4) and number (4)
 *   4   dtype
 *   …   sparse: dtype (4) and shape of each index array: indptr and indices of CSR, indices of row-sparse
 *   …   the values, then the index arrays
 * A name is its length (8) and its bytes. Numbers are little-endian. "arg:" and "aux:" are part of the names.
 *
 * A sparse array is listed as its components, w.data, w.indices and w.indptr. Refused: arrays without a
 * shape, unknown dtypes, more or fewer names than arrays, names that are empty or have a NUL, bytes after
 * arrays without names. Bytes after the last name are reported.
 */
#include <inttypes.h>

#include "format/format.h"
#include "format/kit.h"
#include "io/reader.h"

#define MAGIC          UINT64_C(0x112)
#define VERSION_1      0xF993FAC8u
#define VERSION_2      0xF993FAC9u
#define VERSION_3      0xF993FACAu
#define MAX_RANK       32u
#define MIN_ARRAY_SIZE 8u /* bytes that every array takes at least */
#define MAX_COMPONENTS 3u

struct component {
    const char *suffix; /* of the name of the component's row; "" for a dense array */
    struct kit_tensor tensor;
};

struct array {
    struct component components[MAX_COMPONENTS];
    uint32_t ncomponents;
};

struct params {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    reader reader;
    struct array *arrays;
    uint64_t narrays, nnames;
};

static ckpt_dtype find_dtype(uint32_t number)
{
    static const uint16_t types[] = {CKPT_DT_F32, CKPT_DT_F64, CKPT_DT_F16, CKPT_DT_U8,
                                     CKPT_DT_I32, CKPT_DT_I8,  CKPT_DT_I64, CKPT_DT_BOOL};
    return number < sizeof types / sizeof *types ? (ckpt_dtype)types[number]
           : number == 12                        ? CKPT_DT_BF16
                                                 : CKPT_DT_NONE;
}

/* ------------------------------------------------------------------------- an array */

static ckpt_status read_sizes(struct params *params, uint32_t rank, unsigned width, struct kit_tensor *tensor)
{
    uint64_t at = params->reader.pos,
             *shape = rank <= MAX_RANK ? arena_array(params->f->a, rank, sizeof *shape) : NULL;
    if (rank > MAX_RANK)
        return fail(params->err, CKPT_EFORMAT, at, "an array of {%" PRId32 " dimensions}; {=%u} are allowed",
                    (int32_t)rank, MAX_RANK);
    CKPT_TRY_ALLOC(shape, params->err);
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = width == 8 ? reader_u64(&params->reader) : reader_u32(&params->reader);
        if (shape[i] > INT64_MAX)
            return fail(params->err, CKPT_EFORMAT, at,
                        "dimension %" PRIu32 " is {%" PRId64 "}; {=0} is the least", i, (int64_t)shape[i]);
    }
    tensor->t.ndim = rank;
    tensor->t.shape = shape;
    return params->reader.status;
}

static ckpt_status read_rank_and_sizes(struct params *params, struct kit_tensor *tensor)
{
    uint32_t rank = reader_u32(&params->reader);
    CKPT_TRY(params->reader.status);
    return read_sizes(params, rank, 8, tensor);
}

static ckpt_status read_dtype(struct params *params, struct kit_tensor *tensor)
{
    uint64_t at = params->reader.pos;
    uint32_t number = reader_u32(&params->reader);
    CKPT_TRY(params->reader.status);
    tensor->t.dtype = (uint16_t)find_dtype(number);
    return tensor->t.dtype != CKPT_DT_NONE
               ? CKPT_OK
               : fail(params->err, CKPT_EUNSUPPORTED, at,
                      "the dtype {%" PRIu32 "}; {=0 to 7 and 12} are known", number);
}

/* locate_values - sets src, src_offset and nbytes of TENSOR to its values, which begin at the position of
 * params->reader, and skips them. */
static ckpt_status locate_values(struct params *params, struct kit_tensor *tensor)
{
    uint64_t elements, bytes;
    if (!checked_product(tensor->t.shape, tensor->t.ndim, &elements) ||
        !dtype_bytes((ckpt_dtype)tensor->t.dtype, elements, &bytes))
        return fail(params->err, CKPT_EFORMAT, params->reader.pos, "an array of {more} than {=2^64 bytes}");
    tensor->src = params->f->src;
    tensor->src_offset = params->reader.pos;
    tensor->nbytes = bytes;
    return reader_skip(&params->reader, bytes) ? CKPT_OK : params->reader.status;
}

/* read_body - reads what follows the shape of ARRAY: the device, the dtype, the indices and the values. */
static ckpt_status read_body(struct params *params, struct array *array)
{
    (void)reader_skip(&params->reader, 8); /* device */
    CKPT_TRY(params->reader.status);
    CKPT_TRY(read_dtype(params, &array->components[0].tensor));
    for (uint32_t i = 1; i < array->ncomponents; i++) {
        CKPT_TRY(read_dtype(params, &array->components[i].tensor));
        CKPT_TRY(read_rank_and_sizes(params, &array->components[i].tensor));
    }
    for (uint32_t i = 0; i < array->ncomponents; i++)
        CKPT_TRY(locate_values(params, &array->components[i].tensor));
    return CKPT_OK;
}

/* read_storage - reads the kind of storage of ARRAY and, if it is sparse, the shape of its values. */
static ckpt_status read_storage(struct params *params, struct array *array)
{
    uint64_t at = params->reader.pos;
    uint32_t kind = reader_u32(&params->reader);
    CKPT_TRY(params->reader.status);
    if (kind > 2)
        return fail(params->err, CKPT_EUNSUPPORTED, at,
                    "storage of the kind {%" PRId32 "}; {=0 to 2} are known", (int32_t)kind);
    array->ncomponents = kind + 1;
    array->components[0].suffix = kind ? ".data" : "";
    array->components[1].suffix = kind == 2 ? ".indptr" : ".indices";
    array->components[2].suffix = ".indices";
    return kind ? read_rank_and_sizes(params, &array->components[0].tensor) : CKPT_OK;
}

static ckpt_status read_array(struct params *params, struct array *array)
{
    struct kit_tensor complete = {.name = {"", 0}}; /* has the shape of a sparse array */
    struct kit_tensor *values = &array->components[0].tensor;
    uint64_t at = params->reader.pos;
    uint32_t version = reader_u32(&params->reader);
    CKPT_TRY(params->reader.status);
    *array = (struct array){.ncomponents = 1, .components = {{.suffix = ""}}};
    if (version == VERSION_2 || version == VERSION_3) {
        CKPT_TRY(read_storage(params, array));
        CKPT_TRY(read_rank_and_sizes(params, array->ncomponents > 1 ? &complete : values));
    } else if (version == VERSION_1) {
        CKPT_TRY(read_rank_and_sizes(params, values));
    } else {
        CKPT_TRY(read_sizes(params, version, 4, values));
    }
    for (uint32_t i = 0; i < array->ncomponents; i++)
        array->components[i].tensor.described_at = at;
    if (version != VERSION_3 && (array->ncomponents > 1 ? complete.t.ndim : values->t.ndim) == 0)
        return fail(params->err, CKPT_EFORMAT, at, "{an array without a shape}; {=values} were expected");
    return read_body(params, array);
}

/* ------------------------------------------------------------------------------ all */

static ckpt_status read_arrays(struct params *params)
{
    (void)reader_skip(&params->reader, 16);
    params->narrays = reader_u64(&params->reader);
    CKPT_TRY(params->reader.status);
    if (params->narrays > reader_left(&params->reader) / MIN_ARRAY_SIZE)
        return fail(params->err, CKPT_EFORMAT, 16, "{%" PRIu64 " arrays} in {=%" PRIu64 " bytes}",
                    params->narrays, reader_left(&params->reader));
    file_raise_budget(params->f, params->f->src->size);
    size_t cap = 0, nread = 0;
    for (uint64_t i = 0; i < params->narrays; i++) {
        struct array *added = arena_append(params->f->a, &params->arrays, &nread, &cap, sizeof *added);
        ckpt_status st = added ? read_array(params, added) : fail_memory(params->err);
        if (st != CKPT_OK)
            error_add_where(params->err, "array %" PRIu64, i);
        CKPT_TRY(st);
    }
    uint64_t at = params->reader.pos;
    params->nnames = reader_u64(&params->reader);
    CKPT_TRY(params->reader.status);
    return params->nnames == 0 || params->nnames == params->narrays
               ? CKPT_OK
               : fail(params->err, CKPT_EFORMAT, at, "{%" PRIu64 " names} for {=%" PRIu64 " arrays}",
                      params->nnames, params->narrays);
}

static ckpt_status read_name(struct params *params, ckpt_str *name)
{
    uint64_t at = params->reader.pos, n = reader_u64(&params->reader);
    CKPT_TRY(params->reader.status);
    const unsigned char *bytes = reader_take(&params->reader, n <= READER_WINDOW ? (size_t)n : READER_WINDOW);
    CKPT_TRY(params->reader.status);
    if (n > READER_WINDOW)
        return fail(params->err, CKPT_ELIMIT, params->reader.pos,
                    "a name of {%" PRIu64 " bytes}; {=%u} are allowed", n, READER_WINDOW);
    if (n == 0 || memchr(bytes, 0, (size_t)n))
        return fail(params->err, CKPT_EFORMAT, at, "a name that {%s}; {=text} was expected",
                    n ? "has a NUL" : "is empty");
    *name = arena_str(params->f->a, str_of((const char *)bytes, (size_t)n));
    return name->ptr ? CKPT_OK : fail_memory(params->err);
}

static ckpt_status add_array(struct params *params, struct array *array, ckpt_str name)
{
    for (uint32_t i = 0; i < array->ncomponents; i++) {
        struct kit_tensor *t = &array->components[i].tensor;
        t->name = array->components[i].suffix[0]
                      ? ARENA_CONCAT(params->f->a, name, str_c(array->components[i].suffix))
                      : name;
        CKPT_TRY_ALLOC(t->name.ptr, params->err);
        CKPT_TRY(kit_add_tensor(&params->k, t));
    }
    return CKPT_OK;
}

static ckpt_status add_arrays(struct params *params)
{
    for (uint64_t i = 0; i < params->narrays; i++) {
        ckpt_str name;
        if (params->nnames)
            CKPT_TRY(read_name(params, &name));
        else if (!(name = arena_printf(params->f->a, "%" PRIu64, i)).ptr)
            return fail_memory(params->err);
        CKPT_TRY(add_array(params, &params->arrays[i], name));
    }
    if (reader_left(&params->reader) && params->narrays && !params->nnames)
        return fail(params->err, CKPT_EFORMAT, params->reader.pos,
                    "{%" PRIu64 " bytes} after arrays without names; {=none} are allowed",
                    reader_left(&params->reader));
    if (reader_left(&params->reader))
        file_notice(params->f, "%" PRIu64 " bytes after the last name are ignored",
                    reader_left(&params->reader));
    return CKPT_OK;
}

static bool probe(const struct probe *this_probe)
{
    return !this_probe->is_folder && this_probe->nhead >= 24 && load_u64le(this_probe->head) == MAGIC;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct params p = {.f = f, .err = err};
    CKPT_TRY(reader_init(&p.reader, f->src, 0, f->src->size, err));
    ckpt_status st = read_arrays(&p);
    CKPT_THEN(st, kit_begin(&p.k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    CKPT_THEN(st, kit_end(&p.k, add_arrays(&p)));
    reader_free(&p.reader);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("arrays"));
    return st;
}

const struct format format_mxnet = {
    .name = "mxnet", .title = "MXNet params", .flat = true, .probe = probe, .read = read};
