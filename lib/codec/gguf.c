/*
 * gguf.c - reads GGUF (ggml docs/gguf.md, src/gguf.cpp), versions 1 to 3, in either byte order:
 * OFFSET SIZE DESCRIPTION
 *   0   4  "GGUF"
 *   4   4  version
 *   8   8  number of tensors
 *   16  8  number of key-value pairs
 *   …      pairs: key (a text), type (4 bytes), value; an array has type (4), count (8), elements
 *   …      tensor infos: name, number of dimensions (4), dimensions (8 each), type (4), offset (8)
 *   …      zeros up to a multiple of the alignment (the pair general.alignment, or 32), then the data, each
 *          tensor padded to the alignment
 * A text is a length (8) and that many bytes. In version 1, each number given here with 8 bytes has 4,
 * except the offset. In a big-endian file all numbers are big-endian, also the elements of tensors, except
 * those in quantized blocks.
 *
 * Every count, length and product must fit the size of the file. The offset of a tensor must be the sum of
 * the padded sizes of the tensors before it (as ggml requires). Keys and names must be unique.
 *
 * A block of q8_1 has 36 bytes (block_q8_1 in ggml-common.h). gguf-py wrote 40 until September 2026
 * (llama.cpp pull request 29036); a file whose offsets or end show that is refused as such.
 */
#include "codec/gguf.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "io/reader.h"

enum { WIDE_Q8_1 = 40 }; /* bytes of a block of q8_1 by an older gguf-py */

struct gguf_walk {
    struct gguf *g;
    reader r;
    map *keys, *names;
    uint64_t data_size; /* bytes of the data of all earlier tensors, each padded to the alignment */
    uint64_t wide_size; /* the same, if a block of q8_1 had WIDE_Q8_1 bytes */
    ckpt_error *err;
};

static uint32_t read_u32(struct gguf_walk *walk)
{
    uint32_t v = reader_u32(&walk->r);
    return walk->g->big_endian ? __builtin_bswap32(v) : v;
}

static uint64_t read_u64(struct gguf_walk *walk)
{
    uint64_t v = reader_u64(&walk->r);
    return walk->g->big_endian ? __builtin_bswap64(v) : v;
}

/* read_size - reads a count, length or dimension. */
static uint64_t read_size(struct gguf_walk *walk)
{
    return walk->g->version == 1 ? read_u32(walk) : read_u64(walk);
}

CKPT_PRINTF(3, 4) static ckpt_status gguf_fail(struct gguf_walk *walk, uint64_t at, const char *fmt, ...)
{
    va_list args;
    walk->g->error_offset = at;
    va_start(args, fmt);
    (void)fail_v(walk->err, CKPT_EFORMAT, source_pos(walk->g->src, at), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

/* set_ggml_error - records a fault that ggml refuses and gguf_read accepts, unless one is recorded. */
CKPT_PRINTF(3, 4) static void set_ggml_error(struct gguf_walk *walk, uint64_t at, const char *fmt, ...)
{
    va_list args;
    if (walk->g->ggml_error.status)
        return;
    walk->g->ggml_error_offset = at;
    va_start(args, fmt);
    (void)fail_v(&walk->g->ggml_error, CKPT_EFORMAT, source_pos(walk->g->src, at), fmt, args);
    va_end(args);
}

/* fail_truncated - fails because the reader failed inside WHAT: the file ends there, or cannot be read. */
static ckpt_status fail_truncated(struct gguf_walk *walk, const char *what)
{
    if (walk->r.status != CKPT_ETRUNCATED)
        return walk->r.status;
    walk->g->error_offset = walk->r.pos;
    return fail(walk->err, CKPT_ETRUNCATED, source_pos(walk->g->src, walk->r.pos),
                "the file {ends} inside {=%s}", what);
}

/* read_text - reads a text of at most MAX bytes, called WHAT in errors, into the arena. */
static ckpt_status read_text(struct gguf_walk *walk, uint64_t max, const char *what, ckpt_str *out)
{
    struct gguf *g = walk->g;
    uint64_t at = walk->r.pos, n = read_size(walk);
    if (walk->r.status)
        return fail_truncated(walk, what);
    if (n > max)
        return gguf_fail(walk, at, "%s of {%" PRIu64 " bytes}; at most {=%" PRIu64 "} are allowed", what, n,
                         max);
    const unsigned char *b = reader_take(&walk->r, (size_t)n);
    if (!b)
        return fail_truncated(walk, what);
    *out = arena_str(g->a, str_of((const char *)b, (size_t)n));
    CKPT_TRY_ALLOC(out->ptr, walk->err);
    return g->on_text ? g->on_text(g->user, *out, at, what, walk->err) : CKPT_OK;
}

static ckpt_status check_unique(struct gguf_walk *walk, map *index, ckpt_str name, uint64_t at,
                                const char *what)
{
    uint32_t old = MAP_NONE;
    CKPT_TRY_ALLOC(map_put(index, name, 1, &old), walk->err);
    return old == MAP_NONE ? CKPT_OK : gguf_fail(walk, at, "{two} %s of {=one} name", what);
}

/* Bytes of a value, by enum gguf_type; 0: strings and arrays, whose size is not fixed. */
static const uint8_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

size_t gguf_get_width(uint32_t type) { return type < sizeof widths ? widths[type] : 0; }

static ckpt_status skip_bytes(struct gguf_walk *walk, uint64_t count)
{
    return reader_skip(&walk->r, count) ? CKPT_OK : fail_truncated(walk, "a value");
}

/* read_array_header - reads type and number of the elements that follow, and sets *BYTES to their
 * minimum total size. Fails if the file has fewer bytes left. */
static ckpt_status read_array_header(struct gguf_walk *walk, uint32_t *element_type, uint64_t *count,
                                     uint64_t *bytes)
{
    uint64_t at = walk->r.pos, length = walk->g->version == 1 ? 4 : 8;
    *element_type = read_u32(walk);
    *count = read_size(walk);
    if (walk->r.status)
        return fail_truncated(walk, "an array");
    if (*element_type >= sizeof widths)
        return gguf_fail(walk, at, "an array of {type %" PRIu32 "}; {=0 to %zu} are known", *element_type,
                         sizeof widths - 1);
    uint64_t header = 4 + length;
    uint64_t min_size = *element_type == GGUF_STRING  ? length
                        : *element_type == GGUF_ARRAY ? header
                                                      : widths[*element_type];
    if (!checked_mul(*count, min_size, bytes) || *bytes > reader_left(&walk->r))
        return gguf_fail(walk, at,
                         "an array of {%" PRIu64 "} elements; the file has {=%" PRIu64 " bytes} left", *count,
                         reader_left(&walk->r));
    return CKPT_OK;
}

/* skip_elements - skips COUNT elements of TYPE, which is no array. BYTES is their size, unless they are
 * texts. */
static ckpt_status skip_elements(struct gguf_walk *walk, uint32_t type, uint64_t count, uint64_t bytes)
{
    for (uint64_t i = 0; type == GGUF_STRING && i < count; i++) {
        uint64_t n = read_size(walk);
        CKPT_TRY(walk->r.status ? fail_truncated(walk, "a text") : skip_bytes(walk, n));
    }
    return type == GGUF_STRING ? CKPT_OK : skip_bytes(walk, bytes);
}

/* skip_arrays - skips COUNT arrays and the arrays in them. left[i] is the number of elements that are still
 * to be skipped on level i. */
static ckpt_status skip_arrays(struct gguf_walk *walk, uint64_t count)
{
    uint64_t left[GGUF_DEPTH] = {count}, n, bytes, at = walk->r.pos;
    set_ggml_error(walk, at, "an array of {arrays}; ggml allows {=none}");
    for (unsigned depth = 0;;) {
        uint32_t element;
        if (left[depth] == 0) {
            if (!COUNT_DOWN(depth))
                return CKPT_OK;
            continue;
        }
        left[depth]--;
        CKPT_TRY(read_array_header(walk, &element, &n, &bytes));
        if (element != GGUF_ARRAY)
            CKPT_TRY(skip_elements(walk, element, n, bytes));
        else if (++depth == GGUF_DEPTH)
            return gguf_fail(walk, at, "arrays are nested {more} than {=%u} deep", GGUF_DEPTH);
        else
            left[depth] = n;
    }
}

static ckpt_status read_array(struct gguf_walk *walk, struct gguf_pair *pair)
{
    uint64_t bytes;
    CKPT_TRY(read_array_header(walk, &pair->element_type, &pair->count, &bytes));
    pair->value_offset = walk->r.pos;
    CKPT_TRY(pair->element_type == GGUF_ARRAY ? skip_arrays(walk, pair->count)
                                              : skip_elements(walk, pair->element_type, pair->count, bytes));
    pair->value_size = walk->r.pos - pair->value_offset;
    return CKPT_OK;
}

static ckpt_status read_value(struct gguf_walk *walk, struct gguf_pair *pair)
{
    if (pair->type == GGUF_ARRAY)
        return read_array(walk, pair);
    pair->value_size = pair->type == GGUF_STRING ? read_size(walk) : widths[pair->type];
    if (walk->r.status)
        return fail_truncated(walk, "a text");
    if (pair->value_size > GGUF_TEXT_MAX)
        return skip_bytes(walk, pair->value_size);
    pair->bytes = reader_take(&walk->r, (size_t)pair->value_size);
    return pair->bytes ? CKPT_OK : fail_truncated(walk, "a value");
}

uint64_t gguf_get_integer(const struct gguf_pair *pair, bool big_endian)
{
    bool is_integer = pair->bytes && widths[pair->type] && pair->type != GGUF_F32 && pair->type != GGUF_F64;
    return is_integer ? load_number(pair->bytes, widths[pair->type], big_endian) : 0;
}

/* take_alignment - sets the alignment to the value of PAIR, the pair general.alignment. */
static ckpt_status take_alignment(struct gguf_walk *walk, const struct gguf_pair *pair)
{
    uint64_t n = gguf_get_integer(pair, walk->g->big_endian);
    if (pair->type != GGUF_U32)
        return gguf_fail(walk, pair->value_offset,
                         "general.alignment has {type %" PRIu32 "}; it must be {=a 32-bit number}",
                         pair->type);
    walk->g->alignment = n;
    bool is_power_of_two = n && (n & (n - 1)) == 0;
    return is_power_of_two ? CKPT_OK
                           : gguf_fail(walk, pair->value_offset,
                                       "an alignment of {%" PRIu64 "} is not {=a power of two}", n);
}

static ckpt_status read_pair(struct gguf_walk *walk)
{
    struct gguf_pair p = {.count = 1, .offset = walk->r.pos};
    CKPT_TRY(read_text(walk, GGUF_KEY_MAX, "a key", &p.key));
    if (p.key.len == 0)
        return gguf_fail(walk, p.offset, "{an empty} key; {=a name} was expected");
    CKPT_TRY(check_unique(walk, walk->keys, p.key, p.offset, "keys"));
    p.type = read_u32(walk);
    p.value_offset = walk->r.pos;
    if (walk->r.status)
        return fail_truncated(walk, "a pair");
    if (p.type >= sizeof widths)
        return gguf_fail(walk, p.offset, "a value of {type %" PRIu32 "}; {=0 to %zu} are known", p.type,
                         sizeof widths - 1);
    CKPT_TRY(read_value(walk, &p));
    if (str_is(p.key, "general.alignment"))
        CKPT_TRY(take_alignment(walk, &p));
    p.end_offset = walk->r.pos;
    return walk->g->on_pair ? walk->g->on_pair(walk->g->user, &p, walk->err) : CKPT_OK;
}

/* Dtypes by the number that ggml gives them. 4, 5, 31 to 33 and 36 to 38 were removed from ggml. */
static const uint8_t dtypes[] = {
    [0] = CKPT_DT_F32,      [1] = CKPT_DT_F16,     [2] = CKPT_DT_Q4_0,     [3] = CKPT_DT_Q4_1,
    [6] = CKPT_DT_Q5_0,     [7] = CKPT_DT_Q5_1,    [8] = CKPT_DT_Q8_0,     [9] = CKPT_DT_Q8_1,
    [10] = CKPT_DT_Q2_K,    [11] = CKPT_DT_Q3_K,   [12] = CKPT_DT_Q4_K,    [13] = CKPT_DT_Q5_K,
    [14] = CKPT_DT_Q6_K,    [15] = CKPT_DT_Q8_K,   [16] = CKPT_DT_IQ2_XXS, [17] = CKPT_DT_IQ2_XS,
    [18] = CKPT_DT_IQ3_XXS, [19] = CKPT_DT_IQ1_S,  [20] = CKPT_DT_IQ4_NL,  [21] = CKPT_DT_IQ3_S,
    [22] = CKPT_DT_IQ2_S,   [23] = CKPT_DT_IQ4_XS, [24] = CKPT_DT_I8,      [25] = CKPT_DT_I16,
    [26] = CKPT_DT_I32,     [27] = CKPT_DT_I64,    [28] = CKPT_DT_F64,     [29] = CKPT_DT_IQ1_M,
    [30] = CKPT_DT_BF16,    [34] = CKPT_DT_TQ1_0,  [35] = CKPT_DT_TQ2_0,   [39] = CKPT_DT_MXFP4,
    [40] = CKPT_DT_NVFP4,   [41] = CKPT_DT_Q1_0,   [42] = CKPT_DT_Q2_0};

bool gguf_find_type(ckpt_dtype dtype, uint32_t *type)
{
    for (*type = 0; *type < sizeof dtypes; ++*type)
        if (dtypes[*type] == dtype && dtype != CKPT_DT_NONE)
            return true;
    return false;
}

static ckpt_status read_shape(struct gguf_walk *walk, struct gguf_tensor *tensor, uint64_t *elements)
{
    uint64_t at = walk->r.pos;
    tensor->ndim = read_u32(walk);
    *elements = 1;
    if (!walk->r.status && tensor->ndim > GGUF_DIMENSIONS)
        return gguf_fail(walk, at, "a tensor of {%" PRIu32 " dimensions}; at most {=%u} are allowed",
                         tensor->ndim, GGUF_DIMENSIONS);
    if (!walk->r.status && tensor->ndim > GGML_DIMENSIONS)
        set_ggml_error(walk, at, "a tensor of {%" PRIu32 " dimensions}; ggml allows {=%u}", tensor->ndim,
                       GGML_DIMENSIONS);
    for (uint32_t i = 0; i < tensor->ndim && !walk->r.status; i++) {
        tensor->dims[i] = read_size(walk);
        if (!checked_mul(*elements, tensor->dims[i], elements) || *elements > INT64_MAX)
            return gguf_fail(walk, at, "a tensor of {more} than {=2^63 elements}");
    }
    return walk->r.status ? fail_truncated(walk, "a tensor's shape") : CKPT_OK;
}

bool gguf_round_up(uint64_t *count, uint64_t alignment)
{
    uint64_t remainder = *count % alignment;
    return !remainder || checked_add(*count, alignment - remainder, count);
}

static ckpt_status fail_wide(struct gguf_walk *walk, uint64_t at)
{
    return gguf_fail(walk, at,
                     "blocks of q8_1 have {%d bytes}, as gguf-py wrote them until 0.19; ggml has {=%u}\n"
                     "ggml cannot read this file, either; convert the model again with a later gguf-py",
                     WIDE_Q8_1, dtype_info(CKPT_DT_Q8_1)->block_bytes);
}

/* add_wide_size - adds TENSOR to walk->wide_size; UINT64_MAX: it is too large. */
static void add_wide_size(struct gguf_walk *walk, const struct gguf_tensor *tensor)
{
    const struct dtype_info *info = dtype_info(CKPT_DT_Q8_1);
    uint64_t n = tensor->nbytes;
    bool ok = tensor->dtype != CKPT_DT_Q8_1 || checked_mul(n / info->block_bytes, WIDE_Q8_1, &n);
    if (!ok || !checked_add(walk->wide_size, n, &walk->wide_size) ||
        !gguf_round_up(&walk->wide_size, walk->g->alignment))
        walk->wide_size = UINT64_MAX;
}

/* check_tensor - sets dtype and size of TENSOR, which has ELEMENTS elements of TYPE. Fails unless ggml has
 * that type, and the data of TENSOR begin where those of the previous tensor end. */
static ckpt_status check_tensor(struct gguf_walk *walk, struct gguf_tensor *tensor, uint32_t type,
                                uint64_t elements)
{
    tensor->dtype = type < sizeof dtypes ? (ckpt_dtype)dtypes[type] : CKPT_DT_NONE;
    const struct dtype_info *info = dtype_info(tensor->dtype);
    uint64_t at = tensor->info_offset, end, row_elements = tensor->ndim ? tensor->dims[0] : 1;
    if (tensor->dtype == CKPT_DT_NONE)
        return gguf_fail(walk, at, "a tensor of {type %" PRIu32 "}; {=a type of ggml} was expected", type);
    if (row_elements % info->block_elems)
        return gguf_fail(walk, at, "rows of {%" PRIu64 "} elements are not made of blocks of {=%u}",
                         row_elements, info->block_elems);
    if (tensor->offset != walk->data_size && tensor->offset == walk->wide_size)
        return fail_wide(walk, at);
    if (tensor->offset != walk->data_size)
        return gguf_fail(walk, at,
                         "a tensor begins at {%" PRIu64 "} of the data; the previous ends at {=%" PRIu64 "}",
                         tensor->offset, walk->data_size);
    if (!dtype_bytes(tensor->dtype, elements, &tensor->nbytes) ||
        !checked_add(walk->data_size, tensor->nbytes, &end) || !gguf_round_up(&end, walk->g->alignment))
        return gguf_fail(walk, at, "a tensor of {%" PRIu64 "} elements has more than {=2^64 bytes}",
                         elements);
    walk->data_size = end;
    add_wide_size(walk, tensor);
    return CKPT_OK;
}

static ckpt_status read_tensor(struct gguf_walk *walk)
{
    struct gguf_tensor t = {.info_offset = walk->r.pos};
    uint64_t elements;
    CKPT_TRY(read_text(walk, GGUF_KEY_MAX, "a tensor's name", &t.name));
    if (t.name.len > GGML_NAME_MAX)
        set_ggml_error(walk, t.info_offset, "a tensor's name of {%zu bytes}; ggml allows {=%u}", t.name.len,
                       GGML_NAME_MAX);
    CKPT_TRY(check_unique(walk, walk->names, t.name, t.info_offset, "tensors"));
    CKPT_TRY(read_shape(walk, &t, &elements));
    uint32_t type = read_u32(walk);
    t.offset = read_u64(walk);
    if (walk->r.status)
        return fail_truncated(walk, "a tensor");
    CKPT_TRY(check_tensor(walk, &t, type, elements));
    return walk->g->on_tensor ? walk->g->on_tensor(walk->g->user, &t, walk->err) : CKPT_OK;
}

/* check_padding - fails unless the bytes between header and data are 0, as every writer leaves them. Other
 * bytes may be a tensor info: if the number of tensors is too small, all data would be read from wrong
 * offsets. Also fails if a file without tensors has bytes after this padding. */
static ckpt_status check_padding(struct gguf_walk *walk)
{
    uint64_t at = walk->r.pos, end = at;
    if (!gguf_round_up(&end, walk->g->alignment) || end > walk->g->src->size)
        end = walk->g->src->size;
    if (walk->g->ntensors == 0 && end < walk->g->src->size)
        return gguf_fail(walk, end,
                         "{%" PRIu64 " bytes} after a header without tensors; {=none} were expected",
                         walk->g->src->size - end);
    for (uint64_t left = end - at; left; left--) {
        const unsigned char *b = reader_take(&walk->r, 1);
        if (!b)
            return fail_truncated(walk, "the padding");
        if (*b)
            return gguf_fail(walk, at, "{other bytes} than {=zeros} between header and data");
    }
    return CKPT_OK;
}

/* find_data - sets where the data begin and end. */
static ckpt_status find_data(struct gguf_walk *walk)
{
    struct gguf *g = walk->g;
    g->data_offset = g->header_end = walk->r.pos;
    CKPT_TRY(check_padding(walk));
    if (g->ntensors)
        (void)gguf_round_up(&g->data_offset, g->alignment);
    if (!checked_add(g->data_offset, walk->wide_size, &g->wide_end))
        g->wide_end = UINT64_MAX;
    return checked_add(g->data_offset, walk->data_size, &g->data_end)
               ? CKPT_OK
               : gguf_fail(walk, walk->r.pos, "the tensors have {more} than {=2^64 bytes}");
}

ckpt_status gguf_check_end(struct gguf *gguf, ckpt_error *err)
{
    struct gguf_walk w = {.g = gguf, .err = err};
    uint64_t data_size = gguf->data_end - gguf->data_offset;
    uint64_t padded_end = gguf->data_end;
    if (gguf->wide_end != gguf->data_end && gguf->wide_end == gguf->src->size)
        return fail_wide(&w, gguf->data_offset);
    if (data_size && gguf->data_end > gguf->src->size)
        return gguf_fail(&w, gguf->data_offset,
                         "the tensors need {=%" PRIu64 " bytes}, but the file {ends} before", data_size);
    if (!gguf_round_up(&padded_end, gguf->alignment) || padded_end >= gguf->src->size)
        return CKPT_OK;
    return gguf_fail(&w, gguf->data_end, "{%" PRIu64 " bytes} follow {=the last tensor}",
                     gguf->src->size - gguf->data_end);
}

/* read_version - reads the version, and finds the byte order in which it is valid. */
static ckpt_status read_version(struct gguf_walk *walk)
{
    struct gguf *g = walk->g;
    g->version = reader_u32(&walk->r);
    g->error_offset = 4;
    if (walk->r.status)
        return fail_truncated(walk, "its header");
    g->big_endian = g->version && (g->version & 0xffff) == 0;
    g->version = g->big_endian ? __builtin_bswap32(g->version) : g->version;
    if (g->version >= 1 && g->version <= 3)
        return CKPT_OK;
    return fail(walk->err, CKPT_EUNSUPPORTED, source_pos(g->src, 4),
                "GGUF of {version %" PRIu32 "}; {=1 to 3} are read", g->version);
}

static ckpt_status check_header_size(struct gguf_walk *walk)
{
    if (!walk->g->max_header || walk->r.pos <= walk->g->max_header)
        return CKPT_OK;
    walk->g->error_offset = walk->r.pos;
    return fail(walk->err, CKPT_ELIMIT, source_pos(walk->g->src, walk->r.pos),
                "a header of {more} than {=%" PRIu64 " bytes}", walk->g->max_header);
}

static ckpt_status read_file(struct gguf_walk *walk)
{
    struct gguf *g = walk->g;
    CKPT_TRY(read_version(walk));
    if (g->version == 1)
        set_ggml_error(walk, 4, "{version 1}; ggml reads {=2 and 3}");
    g->ntensors = read_size(walk);
    g->npairs = read_size(walk);
    if (walk->r.status)
        return fail_truncated(walk, "its header");
    /* A tensor info is a text and at least 16 bytes; a pair is a text and at least 5 bytes. */
    uint64_t length = g->version == 1 ? 4 : 8;
    if (g->ntensors > g->src->size / (length + 16) || g->npairs > g->src->size / (length + 5))
        return gguf_fail(walk, 8,
                         "{%" PRIu64 " tensors and %" PRIu64 " pairs} do not fit in {=%" PRIu64 " bytes}",
                         g->ntensors, g->npairs, g->src->size);
    for (uint64_t i = 0; i < g->npairs; i++) {
        CKPT_TRY(read_pair(walk));
        CKPT_TRY(check_header_size(walk));
    }
    for (uint64_t i = 0; i < g->ntensors; i++) {
        CKPT_TRY(read_tensor(walk));
        CKPT_TRY(check_header_size(walk));
    }
    return find_data(walk);
}

ckpt_status gguf_read(struct gguf *gguf, ckpt_error *err)
{
    struct gguf_walk w = {.g = gguf, .keys = map_new(0), .names = map_new(0), .err = err};
    ckpt_status st = w.keys && w.names ? reader_init(&w.r, gguf->src, 4, gguf->src->size, err)
                                       : fail_memory(err);
    gguf->alignment = 32;
    CKPT_THEN(st, read_file(&w));
    reader_free(&w.r);
    map_free(w.keys);
    map_free(w.names);
    return st;
}
