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
 * Nothing in it runs, but its readers are C: every count, length and product is held against
 * what the file has, offsets against the sum of what stands before (what ggml demands), names against
 * each other. A chat template is a Jinja program; whoever renders it runs it (CVE-2024-34359).
 */
#include <inttypes.h>

#include "base/checked.h"
#include "base/map.h"
#include "io/reader.h"
#include "scan/scan.h"

#define KEY_MAX    65535u
#define NAME_MOST  63u /* of ggml; longer names are cut or refused */
#define DIMENSIONS 4u

enum { T_BOOL = 7, T_STRING = 8, T_ARRAY = 9 };

struct gguf {
    struct scanner *x;
    source *src;
    ckpt_str where;
    reader r;
    map *keys, *names;
    uint64_t alignment, sum; /* of the data before the tensor at hand, each filled up */
    ckpt_status status;      /* of scanning itself */
};

/* bad - the file breaks the rules at AT: told, and nothing more is read. */
#define bad(g, at, ...) told(g, scan_found((g)->x->s, SCAN_FMT002, (g)->where, (g)->src, at, __VA_ARGS__))

static bool told(struct gguf *g, bool go)
{
    g->status = go ? g->status : CKPT_ECANCELLED;
    return false;
}

/* ended - the reader failed: that is the file's end, or a trouble of reading. */
static bool ended(struct gguf *g, const char *what)
{
    if (g->r.status == CKPT_ETRUNCATED)
        return bad(g, g->r.pos, "the file ends inside %s", what);
    g->status = g->r.status;
    return false;
}

/* text - of at most MOST bytes, into the arena. */
static bool text(struct gguf *g, uint64_t most, const char *what, ckpt_str *out)
{
    uint64_t at = g->r.pos, n = reader_u64(&g->r);
    if (g->r.status)
        return ended(g, what);
    if (n > most)
        return bad(g, at, "%s of %" PRIu64 " bytes; at most %" PRIu64 " are allowed", what, n, most);
    const unsigned char *b = reader_take(&g->r, (size_t)n);
    if (!b)
        return ended(g, what);
    *out = arena_str(g->x->a, str_of((const char *)b, (size_t)n));
    if (!out->ptr)
        g->status = CKPT_ENOMEM;
    for (size_t i = 0; out->ptr && i < out->len; i++)
        if ((unsigned char)out->ptr[i] < 32 || out->ptr[i] == 127) {
            if (!scan_found(g->x->s, SCAN_TXT001, g->where, g->src, at, "%s holds the character 0x%02x", what,
                            (unsigned char)out->ptr[i]))
                g->status = CKPT_ECANCELLED;
            break;
        }
    return g->status == CKPT_OK;
}

static bool only_one(struct gguf *g, map *m, ckpt_str name, uint64_t at, const char *what)
{
    uint32_t old = MAP_NONE;
    if (!map_put(m, name, 1, &old)) {
        g->status = CKPT_ENOMEM;
        return false;
    }
    return old == MAP_NONE || bad(g, at, "two %s of one name", what);
}

/* ------------------------------------------------------------------- pairs */

static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static bool skip(struct gguf *g, uint64_t n) { return reader_skip(&g->r, n) || ended(g, "a value"); }

static bool skip_text(struct gguf *g, uint64_t *n)
{
    *n = reader_u64(&g->r);
    return g->r.status ? ended(g, "a text") : skip(g, *n);
}

static bool array(struct gguf *g)
{
    uint64_t at = g->r.pos, bytes, n;
    uint32_t type = reader_u32(&g->r);
    uint64_t count = reader_u64(&g->r);
    if (g->r.status)
        return ended(g, "an array");
    if (type >= sizeof width || type == T_ARRAY)
        return bad(g, at, "an array of type %" PRIu32, type);
    if (!checked_mul(count, type == T_STRING ? 8 : width[type], &bytes) || bytes > reader_left(&g->r))
        return bad(g, at, "an array of %" PRIu64 " elements; the file has %" PRIu64 " bytes left", count,
                   reader_left(&g->r));
    if (type != T_STRING)
        return skip(g, bytes);
    for (uint64_t i = 0; i < count; i++)
        if (!skip_text(g, &n))
            return false;
    return true;
}

static bool alignment(struct gguf *g, uint32_t type)
{
    uint64_t at = g->r.pos;
    if (type != 4)
        return bad(g, at, "general.alignment has type %" PRIu32 "; it is a 32-bit number", type);
    g->alignment = reader_u32(&g->r);
    if (g->r.status)
        return ended(g, "general.alignment");
    bool power = g->alignment && (g->alignment & (g->alignment - 1)) == 0; /* bounded: not 0 */
    return power || bad(g, at, "an alignment of %" PRIu64 " is no power of two", g->alignment);
}

static bool pair(struct gguf *g)
{
    ckpt_str key;
    uint64_t at = g->r.pos, n;
    if (!text(g, KEY_MAX, "a key", &key))
        return false;
    if (key.len == 0)
        return bad(g, at, "an empty key");
    if (!only_one(g, g->keys, key, at, "keys"))
        return false;
    uint32_t type = reader_u32(&g->r);
    if (g->r.status)
        return ended(g, "a pair");
    if (type >= sizeof width)
        return bad(g, at, "a value of type %" PRIu32, type);
    if (str_is(key, "general.alignment"))
        return alignment(g, type);
    if (type == T_ARRAY)
        return array(g);
    if (type != T_STRING)
        return skip(g, width[type]);
    at = g->r.pos;
    if (!skip_text(g, &n))
        return false;
    if (str_find(key, STR_LIT("chat_template"), 0) == SIZE_MAX)
        return true;
    g->status = scan_found(g->x->s, SCAN_TPL001, g->where, g->src, at, "a chat template of %" PRIu64 " bytes",
                           n)
                    ? CKPT_OK
                    : CKPT_ECANCELLED;
    return g->status == CKPT_OK;
}

/* ----------------------------------------------------------------- tensors */

/* block_of - elements and bytes of a block of type TYPE; false: there is no such type. */
static bool block_of(uint32_t type, uint64_t *elements, uint64_t *bytes)
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

static bool shape(struct gguf *g, uint64_t *first, uint64_t *product)
{
    uint64_t at = g->r.pos;
    uint32_t n = reader_u32(&g->r);
    *first = *product = 1;
    if (!g->r.status && n > DIMENSIONS)
        return bad(g, at, "a tensor of %" PRIu32 " dimensions; at most %u are allowed", n, DIMENSIONS);
    for (uint32_t i = 0; i < n && !g->r.status; i++) {
        uint64_t d = reader_u64(&g->r);
        *first = i ? *first : d;
        if (!checked_mul(*product, d, product) || *product > INT64_MAX)
            return bad(g, at, "a tensor of more than 2^63 elements");
    }
    return g->r.status ? ended(g, "a tensor's shape") : true;
}

/* filled_up - *N to the next multiple of the alignment. */
static bool filled_up(const struct gguf *g, uint64_t *n)
{
    if (!checked_add(*n, g->alignment - 1, n)) /* bounded: at least 1 */
        return false;
    *n -= *n % g->alignment;
    return true;
}

static bool tensor(struct gguf *g)
{
    ckpt_str name;
    uint64_t at = g->r.pos, first, elements, per_block, block, bytes, next;
    if (!text(g, NAME_MOST, "a tensor's name", &name) || !only_one(g, g->names, name, at, "tensors") ||
        !shape(g, &first, &elements))
        return false;
    uint32_t type = reader_u32(&g->r);
    uint64_t offset = reader_u64(&g->r);
    if (g->r.status)
        return ended(g, "a tensor");
    if (!block_of(type, &per_block, &block))
        return bad(g, at, "a tensor of type %" PRIu32 ", which there is not", type);
    if (first % per_block)
        return bad(g, at, "rows of %" PRIu64 " elements in blocks of %" PRIu64, first, per_block);
    if (offset != g->sum)
        return bad(g, at, "a tensor at %" PRIu64 " of the data; those before it end at %" PRIu64, offset,
                   g->sum);
    if (!checked_mul(elements / per_block, block, &bytes) || !checked_add(g->sum, bytes, &next) ||
        !filled_up(g, &next))
        return bad(g, at, "a tensor of %" PRIu64 " elements has more bytes than can be counted", elements);
    g->sum = next;
    return true;
}

/* -------------------------------------------------------------------- file */

/* data - of all tensors, up to the end of the file. */
static bool data(struct gguf *g)
{
    uint64_t start = g->r.pos, end = start;
    if (g->sum) {
        (void)filled_up(g, &start); /* bounded: that lies in the file */
        if (!checked_add(start, g->sum, &end) || end > g->src->size)
            return bad(g, g->r.pos, "the tensors need %" PRIu64 " bytes, the file ends before", g->sum);
    }
    uint64_t filled = end;
    (void)filled_up(g, &filled); /* bounded: as above */
    if (filled < g->src->size)
        return bad(g, end, "%" PRIu64 " bytes follow the last tensor", g->src->size - end);
    scan_known(g->src, &g->x->s->result->in_tensors, g->src->size - start); /* bounded: just read */
    return true;
}

static bool whole(struct gguf *g)
{
    uint64_t tensors = reader_u64(&g->r), pairs = reader_u64(&g->r);
    if (g->r.status)
        return ended(g, "its header");
    if (tensors > g->src->size / 24 || pairs > g->src->size / 13) /* the least that each takes */
        return bad(g, 8, "%" PRIu64 " tensors and %" PRIu64 " pairs in %" PRIu64 " bytes", tensors, pairs,
                   g->src->size);
    for (uint64_t i = 0; i < pairs; i++)
        if (!pair(g))
            return false;
    for (uint64_t i = 0; i < tensors; i++)
        if (!tensor(g))
            return false;
    return data(g);
}

ckpt_status scan_gguf(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    struct gguf g = {
        .x = x, .src = src, .where = where, .alignment = 32, .keys = map_new(0), .names = map_new(0)};
    ckpt_error why;
    bool fine = false;
    x->format = x->depth ? x->format : "gguf";
    if (!g.keys || !g.names)
        g.status = CKPT_ENOMEM;
    else
        g.status = reader_init(&g.r, src, 4, src->size, &why);
    uint32_t version = g.status == CKPT_OK ? reader_u32(&g.r) : 0;
    if (g.status == CKPT_OK && version != 2 && version != 3)
        (void)told(&g, scan_found(x->s, SCAN_FMT003, where, src, 4,
                                  "GGUF of version %" PRIu32 " or of another byte order; 2 and 3 are read",
                                  version));
    else if (g.status == CKPT_OK)
        fine = whole(&g);
    if (fine)
        *known += src->size; /* bounded: once */
    reader_free(&g.r);
    map_free(g.keys);
    map_free(g.names);
    if (g.status == CKPT_ENOMEM)
        return fail_memory(err);
    return g.status == CKPT_OK ? CKPT_OK : fail(err, g.status, CKPT_NO_OFFSET, "the file cannot be read");
}
