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
#include <stdarg.h>

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

static uint32_t read_u32(struct gguf_walk *w)
{
    uint32_t v = reader_u32(&w->r);
    return w->g->big_endian ? __builtin_bswap32(v) : v;
}

static uint64_t read_u64(struct gguf_walk *w)
{
    uint64_t v = reader_u64(&w->r);
    return w->g->big_endian ? __builtin_bswap64(v) : v;
}

/* read_size - reads a count, length or dimension. */
static uint64_t read_size(struct gguf_walk *w) { return w->g->version == 1 ? read_u32(w) : read_u64(w); }

CKPT_PRINTF(3, 4) static ckpt_status gguf_fail(struct gguf_walk *w, uint64_t at, const char *fmt, ...)
{
    va_list args;
    w->g->error_offset = at;
    va_start(args, fmt);
    (void)fail_v(w->err, CKPT_EFORMAT, source_pos(w->g->src, at), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

/* set_ggml_error - records a fault that ggml refuses and gguf_read accepts, unless one is recorded. */
CKPT_PRINTF(3, 4) static void set_ggml_error(struct gguf_walk *w, uint64_t at, const char *fmt, ...)
{
    va_list args;
    if (w->g->ggml_error.status)
        return;
    w->g->ggml_error_offset = at;
    va_start(args, fmt);
    (void)fail_v(&w->g->ggml_error, CKPT_EFORMAT, source_pos(w->g->src, at), fmt, args);
    va_end(args);
}

/* fail_truncated - fails because the reader failed inside WHAT: the file ends there, or cannot be read. */
static ckpt_status fail_truncated(struct gguf_walk *w, const char *what)
{
    if (w->r.status != CKPT_ETRUNCATED)
        return w->r.status;
    w->g->error_offset = w->r.pos;
    return fail(w->err, CKPT_ETRUNCATED, source_pos(w->g->src, w->r.pos), "the file {ends} inside {=%s}",
                what);
}

/* read_text - reads a text of at most MAX bytes, called WHAT in errors, into the arena. */
static ckpt_status read_text(struct gguf_walk *w, uint64_t max, const char *what, ckpt_str *out)
{
    struct gguf *g = w->g;
    uint64_t at = w->r.pos, n = read_size(w);
    if (w->r.status)
        return fail_truncated(w, what);
    if (n > max)
        return gguf_fail(w, at, "%s of {%" PRIu64 " bytes}; at most {=%" PRIu64 "} are allowed", what, n,
                         max);
    const unsigned char *b = reader_take(&w->r, (size_t)n);
    if (!b)
        return fail_truncated(w, what);
    *out = arena_str(g->a, str_of((const char *)b, (size_t)n));
    CKPT_TRY_ALLOC(out->ptr, w->err);
    return g->on_text ? g->on_text(g->user, *out, at, what, w->err) : CKPT_OK;
}

static ckpt_status check_unique(struct gguf_walk *w, map *m, ckpt_str name, uint64_t at, const char *what)
{
    uint32_t old = MAP_NONE;
    CKPT_TRY_ALLOC(map_put(m, name, 1, &old), w->err);
    return old == MAP_NONE ? CKPT_OK : gguf_fail(w, at, "{two} %s of {=one} name", what);
}

/* Bytes of a value, by enum gguf_type; 0: strings and arrays, whose size is not fixed. */
static const uint8_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

size_t gguf_get_width(uint32_t type) { return type < sizeof widths ? widths[type] : 0; }

static ckpt_status skip_bytes(struct gguf_walk *w, uint64_t n)
{
    return reader_skip(&w->r, n) ? CKPT_OK : fail_truncated(w, "a value");
}

/* read_array_header - reads type and number of the elements that follow, and sets *BYTES to their
 * minimum total size. Fails if the file has fewer bytes left. */
static ckpt_status read_array_header(struct gguf_walk *w, uint32_t *element_type, uint64_t *count,
                                     uint64_t *bytes)
{
    uint64_t at = w->r.pos, length = w->g->version == 1 ? 4 : 8;
    *element_type = read_u32(w);
    *count = read_size(w);
    if (w->r.status)
        return fail_truncated(w, "an array");
    if (*element_type >= sizeof widths)
        return gguf_fail(w, at, "an array of {type %" PRIu32 "}; {=0 to %zu} are known", *element_type,
                         sizeof widths - 1);
    uint64_t header = 4 + length;
    uint64_t min_size = *element_type == GGUF_STRING  ? length
                        : *element_type == GGUF_ARRAY ? header
                                                      : widths[*element_type];
    if (!checked_mul(*count, min_size, bytes) || *bytes > reader_left(&w->r))
        return gguf_fail(w, at, "an array of {%" PRIu64 "} elements; the file has {=%" PRIu64 " bytes} left",
                         *count, reader_left(&w->r));
    return CKPT_OK;
}

/* skip_elements - skips COUNT elements of TYPE, which is no array. BYTES is their size, unless they are
 * texts. */
static ckpt_status skip_elements(struct gguf_walk *w, uint32_t type, uint64_t count, uint64_t bytes)
{
    for (uint64_t i = 0; type == GGUF_STRING && i < count; i++) {
        uint64_t n = read_size(w);
        CKPT_TRY(w->r.status ? fail_truncated(w, "a text") : skip_bytes(w, n));
    }
    return type == GGUF_STRING ? CKPT_OK : skip_bytes(w, bytes);
}

/* skip_arrays - skips COUNT arrays and the arrays in them. left[i] is the number of elements that are still
 * to be skipped on level i. */
static ckpt_status skip_arrays(struct gguf_walk *w, uint64_t count)
{
    uint64_t left[GGUF_DEPTH] = {count}, n, bytes, at = w->r.pos;
    set_ggml_error(w, at, "an array of {arrays}; ggml allows {=none}");
    for (unsigned depth = 0;;) {
        uint32_t element;
        if (left[depth] == 0) {
            if (!COUNT_DOWN(depth))
                return CKPT_OK;
            continue;
        }
        left[depth]--;
        CKPT_TRY(read_array_header(w, &element, &n, &bytes));
        if (element != GGUF_ARRAY)
            CKPT_TRY(skip_elements(w, element, n, bytes));
        else if (++depth == GGUF_DEPTH)
            return gguf_fail(w, at, "arrays are nested {more} than {=%u} deep", GGUF_DEPTH);
        else
            left[depth] = n;
    }
}

static ckpt_status read_array(struct gguf_walk *w, struct gguf_pair *p)
{
    uint64_t bytes;
    CKPT_TRY(read_array_header(w, &p->element_type, &p->count, &bytes));
    p->value_offset = w->r.pos;
    CKPT_TRY(p->element_type == GGUF_ARRAY ? skip_arrays(w, p->count)
                                           : skip_elements(w, p->element_type, p->count, bytes));
    p->value_size = w->r.pos - p->value_offset;
    return CKPT_OK;
}

static ckpt_status read_value(struct gguf_walk *w, struct gguf_pair *p)
{
    if (p->type == GGUF_ARRAY)
        return read_array(w, p);
    p->value_size = p->type == GGUF_STRING ? read_size(w) : widths[p->type];
    if (w->r.status)
        return fail_truncated(w, "a text");
    if (p->value_size > GGUF_TEXT_MAX)
        return skip_bytes(w, p->value_size);
    p->bytes = reader_take(&w->r, (size_t)p->value_size);
    return p->bytes ? CKPT_OK : fail_truncated(w, "a value");
}

uint64_t gguf_get_integer(const struct gguf_pair *p, bool big_endian)
{
    bool is_integer = p->bytes && widths[p->type] && p->type != GGUF_F32 && p->type != GGUF_F64;
    return is_integer ? load_number(p->bytes, widths[p->type], big_endian) : 0;
}

/* take_alignment - sets the alignment to the value of P, the pair general.alignment. */
static ckpt_status take_alignment(struct gguf_walk *w, const struct gguf_pair *p)
{
    uint64_t n = gguf_get_integer(p, w->g->big_endian);
    if (p->type != GGUF_U32)
        return gguf_fail(w, p->value_offset,
                         "general.alignment has {type %" PRIu32 "}; it must be {=a 32-bit number}", p->type);
    w->g->alignment = n;
    bool is_power_of_two = n && (n & (n - 1)) == 0;
    return is_power_of_two
               ? CKPT_OK
               : gguf_fail(w, p->value_offset, "an alignment of {%" PRIu64 "} is not {=a power of two}", n);
}

static ckpt_status read_pair(struct gguf_walk *w)
{
    struct gguf_pair p = {.count = 1, .offset = w->r.pos};
    CKPT_TRY(read_text(w, GGUF_KEY_MAX, "a key", &p.key));
    if (p.key.len == 0)
        return gguf_fail(w, p.offset, "{an empty} key; {=a name} was expected");
    CKPT_TRY(check_unique(w, w->keys, p.key, p.offset, "keys"));
    p.type = read_u32(w);
    p.value_offset = w->r.pos;
    if (w->r.status)
        return fail_truncated(w, "a pair");
    if (p.type >= sizeof widths)
        return gguf_fail(w, p.offset, "a value of {type %" PRIu32 "}; {=0 to %zu} are known", p.type,
                         sizeof widths - 1);
    CKPT_TRY(read_value(w, &p));
    if (str_is(p.key, "general.alignment"))
        CKPT_TRY(take_alignment(w, &p));
    p.end_offset = w->r.pos;
    return w->g->on_pair ? w->g->on_pair(w->g->user, &p, w->err) : CKPT_OK;
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

static ckpt_status read_shape(struct gguf_walk *w, struct gguf_tensor *t, uint64_t *elements)
{
    uint64_t at = w->r.pos;
    t->ndim = read_u32(w);
    *elements = 1;
    if (!w->r.status && t->ndim > GGUF_DIMENSIONS)
        return gguf_fail(w, at, "a tensor of {%" PRIu32 " dimensions}; at most {=%u} are allowed", t->ndim,
                         GGUF_DIMENSIONS);
    if (!w->r.status && t->ndim > GGML_DIMENSIONS)
        set_ggml_error(w, at, "a tensor of {%" PRIu32 " dimensions}; ggml allows {=%u}", t->ndim,
                       GGML_DIMENSIONS);
    for (uint32_t i = 0; i < t->ndim && !w->r.status; i++) {
        t->dims[i] = read_size(w);
        if (!checked_mul(*elements, t->dims[i], elements) || *elements > INT64_MAX)
            return gguf_fail(w, at, "a tensor of {more} than {=2^63 elements}");
    }
    return w->r.status ? fail_truncated(w, "a tensor's shape") : CKPT_OK;
}

bool gguf_round_up(uint64_t *n, uint64_t alignment)
{
    uint64_t remainder = *n % alignment;
    return !remainder || checked_add(*n, alignment - remainder, n);
}

static ckpt_status fail_wide(struct gguf_walk *w, uint64_t at)
{
    return gguf_fail(w, at,
                     "blocks of q8_1 have {%d bytes}, as gguf-py wrote them until 0.19; ggml has {=%u}\n"
                     "ggml cannot read this file, either; convert the model again with a later gguf-py",
                     WIDE_Q8_1, dtype_info(CKPT_DT_Q8_1)->block_bytes);
}

/* add_wide_size - adds T to w->wide_size; UINT64_MAX: it is too large. */
static void add_wide_size(struct gguf_walk *w, const struct gguf_tensor *t)
{
    const struct dtype_info *info = dtype_info(CKPT_DT_Q8_1);
    uint64_t n = t->nbytes;
    bool ok = t->dtype != CKPT_DT_Q8_1 || checked_mul(n / info->block_bytes, WIDE_Q8_1, &n);
    if (!ok || !checked_add(w->wide_size, n, &w->wide_size) || !gguf_round_up(&w->wide_size, w->g->alignment))
        w->wide_size = UINT64_MAX;
}

/* check_tensor - sets dtype and size of T, which has ELEMENTS elements of TYPE. Fails unless ggml has that
 * type, and the data of T begin where those of the previous tensor end. */
static ckpt_status check_tensor(struct gguf_walk *w, struct gguf_tensor *t, uint32_t type, uint64_t elements)
{
    t->dtype = type < sizeof dtypes ? (ckpt_dtype)dtypes[type] : CKPT_DT_NONE;
    const struct dtype_info *info = dtype_info(t->dtype);
    uint64_t at = t->info_offset, end, row_elements = t->ndim ? t->dims[0] : 1;
    if (t->dtype == CKPT_DT_NONE)
        return gguf_fail(w, at, "a tensor of {type %" PRIu32 "}; {=a type of ggml} was expected", type);
    if (row_elements % info->block_elems)
        return gguf_fail(w, at, "rows of {%" PRIu64 "} elements are not made of blocks of {=%u}",
                         row_elements, info->block_elems);
    if (t->offset != w->data_size && t->offset == w->wide_size)
        return fail_wide(w, at);
    if (t->offset != w->data_size)
        return gguf_fail(w, at,
                         "a tensor begins at {%" PRIu64 "} of the data; the previous ends at {=%" PRIu64 "}",
                         t->offset, w->data_size);
    if (!dtype_bytes(t->dtype, elements, &t->nbytes) || !checked_add(w->data_size, t->nbytes, &end) ||
        !gguf_round_up(&end, w->g->alignment))
        return gguf_fail(w, at, "a tensor of {%" PRIu64 "} elements has more than {=2^64 bytes}", elements);
    w->data_size = end;
    add_wide_size(w, t);
    return CKPT_OK;
}

static ckpt_status read_tensor(struct gguf_walk *w)
{
    struct gguf_tensor t = {.info_offset = w->r.pos};
    uint64_t elements;
    CKPT_TRY(read_text(w, GGUF_KEY_MAX, "a tensor's name", &t.name));
    if (t.name.len > GGML_NAME_MAX)
        set_ggml_error(w, t.info_offset, "a tensor's name of {%zu bytes}; ggml allows {=%u}", t.name.len,
                       GGML_NAME_MAX);
    CKPT_TRY(check_unique(w, w->names, t.name, t.info_offset, "tensors"));
    CKPT_TRY(read_shape(w, &t, &elements));
    uint32_t type = read_u32(w);
    t.offset = read_u64(w);
    if (w->r.status)
        return fail_truncated(w, "a tensor");
    CKPT_TRY(check_tensor(w, &t, type, elements));
    return w->g->on_tensor ? w->g->on_tensor(w->g->user, &t, w->err) : CKPT_OK;
}

/* check_padding - fails unless the bytes between header and data are 0, as every writer leaves them. Other
 * bytes may be a tensor info: if the number of tensors is too small, all data would be read from wrong
 * offsets. Also fails if a file without tensors has bytes after this padding. */
static ckpt_status check_padding(struct gguf_walk *w)
{
    uint64_t at = w->r.pos, end = at;
    if (!gguf_round_up(&end, w->g->alignment) || end > w->g->src->size)
        end = w->g->src->size;
    if (w->g->ntensors == 0 && end < w->g->src->size)
        return gguf_fail(w, end, "{%" PRIu64 " bytes} after a header without tensors; {=none} were expected",
                         w->g->src->size - end);
    for (uint64_t left = end - at; left; left--) {
        const unsigned char *b = reader_take(&w->r, 1);
        if (!b)
            return fail_truncated(w, "the padding");
        if (*b)
            return gguf_fail(w, at, "{other bytes} than {=zeros} between header and data");
    }
    return CKPT_OK;
}

/* find_data - sets where the data begin and end. */
static ckpt_status find_data(struct gguf_walk *w)
{
    struct gguf *g = w->g;
    g->data_offset = g->header_end = w->r.pos;
    CKPT_TRY(check_padding(w));
    if (g->ntensors)
        (void)gguf_round_up(&g->data_offset, g->alignment);
    if (!checked_add(g->data_offset, w->wide_size, &g->wide_end))
        g->wide_end = UINT64_MAX;
    return checked_add(g->data_offset, w->data_size, &g->data_end)
               ? CKPT_OK
               : gguf_fail(w, w->r.pos, "the tensors have {more} than {=2^64 bytes}");
}

ckpt_status gguf_check_end(struct gguf *g, ckpt_error *err)
{
    struct gguf_walk w = {.g = g, .err = err};
    uint64_t data_size = g->data_end - g->data_offset;
    uint64_t padded_end = g->data_end;
    if (g->wide_end != g->data_end && g->wide_end == g->src->size)
        return fail_wide(&w, g->data_offset);
    if (data_size && g->data_end > g->src->size)
        return gguf_fail(&w, g->data_offset,
                         "the tensors need {=%" PRIu64 " bytes}, but the file {ends} before", data_size);
    if (!gguf_round_up(&padded_end, g->alignment) || padded_end >= g->src->size)
        return CKPT_OK;
    return gguf_fail(&w, g->data_end, "{%" PRIu64 " bytes} follow {=the last tensor}",
                     g->src->size - g->data_end);
}

/* read_version - reads the version, and finds the byte order in which it is valid. */
static ckpt_status read_version(struct gguf_walk *w)
{
    struct gguf *g = w->g;
    g->version = reader_u32(&w->r);
    g->error_offset = 4;
    if (w->r.status)
        return fail_truncated(w, "its header");
    g->big_endian = g->version && (g->version & 0xffff) == 0;
    g->version = g->big_endian ? __builtin_bswap32(g->version) : g->version;
    if (g->version >= 1 && g->version <= 3)
        return CKPT_OK;
    return fail(w->err, CKPT_EUNSUPPORTED, source_pos(g->src, 4),
                "GGUF of {version %" PRIu32 "}; {=1 to 3} are read", g->version);
}

static ckpt_status check_header_size(struct gguf_walk *w)
{
    if (!w->g->max_header || w->r.pos <= w->g->max_header)
        return CKPT_OK;
    w->g->error_offset = w->r.pos;
    return fail(w->err, CKPT_ELIMIT, source_pos(w->g->src, w->r.pos),
                "a header of {more} than {=%" PRIu64 " bytes}", w->g->max_header);
}

static ckpt_status read_file(struct gguf_walk *w)
{
    struct gguf *g = w->g;
    CKPT_TRY(read_version(w));
    if (g->version == 1)
        set_ggml_error(w, 4, "{version 1}; ggml reads {=2 and 3}");
    g->ntensors = read_size(w);
    g->npairs = read_size(w);
    if (w->r.status)
        return fail_truncated(w, "its header");
    /* A tensor info is a text and at least 16 bytes; a pair is a text and at least 5 bytes. */
    uint64_t length = g->version == 1 ? 4 : 8;
    if (g->ntensors > g->src->size / (length + 16) || g->npairs > g->src->size / (length + 5))
        return gguf_fail(w, 8,
                         "{%" PRIu64 " tensors and %" PRIu64 " pairs} do not fit in {=%" PRIu64 " bytes}",
                         g->ntensors, g->npairs, g->src->size);
    for (uint64_t i = 0; i < g->npairs; i++) {
        CKPT_TRY(read_pair(w));
        CKPT_TRY(check_header_size(w));
    }
    for (uint64_t i = 0; i < g->ntensors; i++) {
        CKPT_TRY(read_tensor(w));
        CKPT_TRY(check_header_size(w));
    }
    return find_data(w);
}

ckpt_status gguf_read(struct gguf *g, ckpt_error *err)
{
    struct gguf_walk w = {.g = g, .keys = map_new(0), .names = map_new(0), .err = err};
    ckpt_status st = w.keys && w.names ? reader_init(&w.r, g->src, 4, g->src->size, err) : fail_memory(err);
    g->alignment = 32;
    if (st == CKPT_OK)
        st = read_file(&w);
    reader_free(&w.r);
    map_free(w.keys);
    map_free(w.names);
    return st;
}
