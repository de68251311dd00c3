/*
 * gguf.c - GGUF (ggml docs/gguf.md, src/gguf.cpp), little-endian, versions 2 and 3:
 *   0   4  "GGUF"         4   4  version
 *   8   8  tensors        16  8  key-value pairs
 *   …      pairs: key, type (4 bytes), value; arrays: type (4), count (8), elements
 *   …      tensors: name, dimensions (4), that many (8 each), type (4), offset (8)
 *   …      zeros up to the alignment (general.alignment, 32), then the data, each tensor
 *          filled up to the alignment
 * Text is a length of 8 bytes and as many bytes.
 *
 * Its readers are C: every count, length and product is held against what the file has, offsets against the
 * sum of what stands before (what ggml demands), names against each other.
 */
#include "codec/gguf.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/checked.h"
#include "base/map.h"
#include "io/reader.h"

#define KEY_MAX         65535u
#define NAME_LENGTH_MAX 63u /* of ggml; longer names are cut or refused */

struct walk {
    struct gguf *g;
    reader r;
    map *keys, *names;
    uint64_t sum; /* of the data before the tensor that is read, each filled up */
    ckpt_error *err;
};

CKPT_PRINTF(3, 4) static ckpt_status gguf_fail(struct walk *w, uint64_t at, const char *fmt, ...)
{
    va_list args;
    w->g->at = at;
    va_start(args, fmt);
    (void)fail_v(w->err, CKPT_EFORMAT, source_pos(w->g->src, at), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

/* fail_truncated - the reader failed inside WHAT: that is the file's end, or a trouble of reading. */
static ckpt_status fail_truncated(struct walk *w, const char *what)
{
    if (w->r.status != CKPT_ETRUNCATED)
        return w->r.status;
    w->g->at = w->r.pos;
    return fail(w->err, CKPT_ETRUNCATED, source_pos(w->g->src, w->r.pos), "the file {ends} inside {=%s}",
                what);
}

/* read_text - of at most MOST bytes, into the arena. */
static ckpt_status read_text(struct walk *w, uint64_t most, const char *what, ckpt_str *out)
{
    struct gguf *g = w->g;
    uint64_t at = w->r.pos, n = reader_u64(&w->r);
    if (w->r.status)
        return fail_truncated(w, what);
    if (n > most)
        return gguf_fail(w, at, "%s of {%" PRIu64 " bytes}; at most {=%" PRIu64 "} are allowed", what, n,
                         most);
    const unsigned char *b = reader_take(&w->r, (size_t)n);
    if (!b)
        return fail_truncated(w, what);
    *out = arena_str(g->a, str_of((const char *)b, (size_t)n));
    if (!out->ptr)
        return fail_memory(w->err);
    return g->text ? g->text(g->user, *out, at, what, w->err) : CKPT_OK;
}

static ckpt_status check_unique(struct walk *w, map *m, ckpt_str name, uint64_t at, const char *what)
{
    uint32_t old = MAP_NONE;
    if (!map_put(m, name, 1, &old))
        return fail_memory(w->err);
    return old == MAP_NONE ? CKPT_OK : gguf_fail(w, at, "{two} %s of {=one} name", what);
}

/* ------------------------------------------------------------------- pairs */

static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static ckpt_status skip_bytes(struct walk *w, uint64_t n)
{
    return reader_skip(&w->r, n) ? CKPT_OK : fail_truncated(w, "a value");
}

static ckpt_status skip_text(struct walk *w, uint64_t *n)
{
    *n = reader_u64(&w->r);
    return w->r.status ? fail_truncated(w, "a text") : skip_bytes(w, *n);
}

static ckpt_status read_array(struct walk *w, struct gguf_pair *p)
{
    uint64_t at = w->r.pos, bytes, n;
    p->element = reader_u32(&w->r);
    p->count = reader_u64(&w->r);
    p->value = w->r.pos;
    if (w->r.status)
        return fail_truncated(w, "an array");
    if (p->element >= sizeof width || p->element == GGUF_ARRAY)
        return gguf_fail(w, at, "an array of {type %" PRIu32 "}", p->element);
    if (!checked_mul(p->count, p->element == GGUF_STRING ? 8 : width[p->element], &bytes) ||
        bytes > reader_left(&w->r))
        return gguf_fail(w, at, "an array of {%" PRIu64 "} elements; the file has {=%" PRIu64 " bytes} left",
                         p->count, reader_left(&w->r));
    for (uint64_t i = 0; p->element == GGUF_STRING && i < p->count; i++)
        CKPT_TRY(skip_text(w, &n));
    if (p->element != GGUF_STRING)
        CKPT_TRY(skip_bytes(w, bytes));
    p->nvalue = w->r.pos - p->value; /* bounded: it was passed */
    return CKPT_OK;
}

static ckpt_status read_alignment(struct walk *w, uint32_t type)
{
    uint64_t at = w->r.pos, n;
    if (type != GGUF_U32)
        return gguf_fail(w, at, "general.alignment has {type %" PRIu32 "}; it is {=a 32-bit number}", type);
    w->g->alignment = n = reader_u32(&w->r);
    if (w->r.status)
        return fail_truncated(w, "general.alignment");
    bool power = n && (n & (n - 1)) == 0; /* bounded: not 0 */
    return power ? CKPT_OK : gguf_fail(w, at, "an alignment of {%" PRIu64 "} is no {=power of two}", n);
}

static ckpt_status read_value(struct walk *w, struct gguf_pair *p)
{
    if (str_is(p->key, "general.alignment"))
        return read_alignment(w, p->type);
    if (p->type == GGUF_ARRAY)
        return read_array(w, p);
    if (p->type == GGUF_STRING)
        return skip_text(w, &p->nvalue);
    p->nvalue = width[p->type];
    return skip_bytes(w, p->nvalue);
}

static ckpt_status read_pair(struct walk *w)
{
    struct gguf_pair p = {.count = 1};
    uint64_t at = w->r.pos;
    CKPT_TRY(read_text(w, KEY_MAX, "a key", &p.key));
    if (p.key.len == 0)
        return gguf_fail(w, at, "{an empty} key");
    CKPT_TRY(check_unique(w, w->keys, p.key, at, "keys"));
    p.type = reader_u32(&w->r);
    p.value = w->r.pos;
    if (w->r.status)
        return fail_truncated(w, "a pair");
    if (p.type >= sizeof width)
        return gguf_fail(w, at, "a value of {type %" PRIu32 "}", p.type);
    CKPT_TRY(read_value(w, &p));
    return w->g->pair ? w->g->pair(w->g->user, &p, w->err) : CKPT_OK;
}

/* ----------------------------------------------------------------- tensors */

bool gguf_block(uint32_t type, uint64_t *elements, uint64_t *bytes)
{
    static const struct {
        uint16_t elements, bytes;
    } types[] = {
        [0] = {1, 4},      [1] = {1, 2},      [2] = {32, 18},    [3] = {32, 20},    [6] = {32, 22},
        [7] = {32, 24},    [8] = {32, 34},    [9] = {32, 36},    [10] = {256, 84},  [11] = {256, 110},
        [12] = {256, 144}, [13] = {256, 176}, [14] = {256, 210}, [15] = {256, 292}, [16] = {256, 66},
        [17] = {256, 74},  [18] = {256, 98},  [19] = {256, 50},  [20] = {32, 18},   [21] = {256, 110},
        [22] = {256, 82},  [23] = {256, 136}, [24] = {1, 1},     [25] = {1, 2},     [26] = {1, 4},
        [27] = {1, 8},     [28] = {1, 8},     [29] = {256, 56},  [30] = {1, 2},     [34] = {256, 54},
        [35] = {256, 66},  [39] = {32, 17},   [40] = {64, 36},   [41] = {128, 18},  [42] = {64, 18}};
    if (type >= sizeof types / sizeof *types || !types[type].elements)
        return false;
    *elements = types[type].elements;
    *bytes = types[type].bytes;
    return true;
}

static ckpt_status read_shape(struct walk *w, struct gguf_tensor *t)
{
    uint64_t at = w->r.pos;
    t->ndim = reader_u32(&w->r);
    t->elements = 1;
    if (!w->r.status && t->ndim > GGUF_DIMENSIONS)
        return gguf_fail(w, at, "a tensor of {%" PRIu32 " dimensions}; at most {=%u} are allowed", t->ndim,
                         GGUF_DIMENSIONS);
    for (uint32_t i = 0; i < t->ndim && !w->r.status; i++) {
        t->dims[i] = reader_u64(&w->r);
        if (!checked_mul(t->elements, t->dims[i], &t->elements) || t->elements > INT64_MAX)
            return gguf_fail(w, at, "a tensor of {more} than {=2^63 elements}");
    }
    return w->r.status ? fail_truncated(w, "a tensor's shape") : CKPT_OK;
}

/* fill_up - *N to the next multiple of the alignment. */
static bool fill_up(const struct gguf *g, uint64_t *n)
{
    if (!checked_add(*n, g->alignment - 1, n)) /* bounded: at least 1 */
        return false;
    *n -= *n % g->alignment;
    return true;
}

/* place_tensor - T is of a type that there is, and its data follow those before. */
static ckpt_status place_tensor(struct walk *w, struct gguf_tensor *t, uint64_t at)
{
    uint64_t per_block, block, next, row = t->ndim ? t->dims[0] : 1;
    if (!gguf_block(t->type, &per_block, &block))
        return gguf_fail(w, at, "a tensor of {type %" PRIu32 "}, which there is not", t->type);
    if (row % per_block)
        return gguf_fail(w, at, "rows of {%" PRIu64 "} elements in blocks of {=%" PRIu64 "}", row, per_block);
    if (t->offset != w->sum)
        return gguf_fail(w, at,
                         "a tensor at {%" PRIu64 "} of the data; those before it end at {=%" PRIu64 "}",
                         t->offset, w->sum);
    if (!checked_mul(t->elements / per_block, block, &t->nbytes) || !checked_add(w->sum, t->nbytes, &next) ||
        !fill_up(w->g, &next))
        return gguf_fail(w, at, "a tensor of {%" PRIu64 "} elements has more bytes than can be counted",
                         t->elements);
    w->sum = next;
    return CKPT_OK;
}

static ckpt_status read_tensor(struct walk *w)
{
    struct gguf_tensor t = {.ndim = 0};
    uint64_t at = w->r.pos;
    CKPT_TRY(read_text(w, NAME_LENGTH_MAX, "a tensor's name", &t.name));
    CKPT_TRY(check_unique(w, w->names, t.name, at, "tensors"));
    CKPT_TRY(read_shape(w, &t));
    t.type = reader_u32(&w->r);
    t.offset = reader_u64(&w->r);
    if (w->r.status)
        return fail_truncated(w, "a tensor");
    CKPT_TRY(place_tensor(w, &t, at));
    return w->g->tensor ? w->g->tensor(w->g->user, &t, w->err) : CKPT_OK;
}

/* -------------------------------------------------------------------- file */

/* check_data - the data of all tensors go up to the end of the file. */
static ckpt_status check_data(struct walk *w)
{
    struct gguf *g = w->g;
    uint64_t end = g->data = w->r.pos;
    if (w->sum) {
        (void)fill_up(g, &g->data); /* bounded: it is in the file */
        if (!checked_add(g->data, w->sum, &end) || end > g->src->size)
            return gguf_fail(w, w->r.pos, "the tensors need {=%" PRIu64 " bytes}, the file {ends} before",
                             w->sum);
    }
    uint64_t filled = end;
    (void)fill_up(g, &filled); /* bounded: as above */
    return filled >= g->src->size
               ? CKPT_OK
               : gguf_fail(w, end, "{%" PRIu64 " bytes} follow {=the last tensor}", g->src->size - end);
}

static ckpt_status read_file(struct walk *w)
{
    struct gguf *g = w->g;
    g->version = reader_u32(&w->r);
    g->at = 4;
    if (!w->r.status && g->version != 2 && g->version != 3)
        return fail(w->err, CKPT_EUNSUPPORTED, source_pos(g->src, 4),
                    "GGUF of {version %" PRIu32 "} or of another byte order; {=2 and 3} are read",
                    g->version);
    g->ntensors = reader_u64(&w->r);
    g->npairs = reader_u64(&w->r);
    if (w->r.status)
        return fail_truncated(w, "its header");
    if (g->ntensors > g->src->size / 24 || g->npairs > g->src->size / 13) /* the least that each takes */
        return gguf_fail(w, 8, "{%" PRIu64 " tensors and %" PRIu64 " pairs} in {=%" PRIu64 " bytes}",
                         g->ntensors, g->npairs, g->src->size);
    for (uint64_t i = 0; i < g->npairs; i++)
        CKPT_TRY(read_pair(w));
    for (uint64_t i = 0; i < g->ntensors; i++)
        CKPT_TRY(read_tensor(w));
    return check_data(w);
}

ckpt_status gguf_read(struct gguf *g, ckpt_error *err)
{
    struct walk w = {.g = g, .keys = map_new(0), .names = map_new(0), .err = err};
    ckpt_status st = w.keys && w.names ? reader_init(&w.r, g->src, 4, g->src->size, err) : fail_memory(err);
    g->alignment = 32;
    if (st == CKPT_OK)
        st = read_file(&w);
    reader_free(&w.r);
    map_free(w.keys);
    map_free(w.names);
    return st;
}
