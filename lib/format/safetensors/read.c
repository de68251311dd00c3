/*
 * read.c - reads safetensors, the format of Hugging Face models.
 *
 * OFFSET  SIZE  DESCRIPTION
 * 0       8     N, little-endian: length of the header
 * 8       N     header: one JSON object in UTF-8, white space allowed around it
 * 8+N     …     the data, to the end of the file: tensors back to back, row-major, little-endian
 *
 * Header: "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} for
 * every tensor, with offsets from 8+N on. "__metadata__": {"key": "text"} is optional, and
 * may be null. An entry may also be the array [dtype, shape, data_offsets]. Sources: the README
 * of safetensors, and what its Rust reader accepts (Metadata::validate in tensor.rs).
 *
 * Refused: bytes of the data that belong to no tensor or to two, sizes that do not fit dtype and
 * shape, a header or data that are cut off, unknown dtypes, a field given twice, and __metadata__
 * given twice or with values that are not text. A tensor given twice is legal for the Rust
 * reader, which takes the last one. It is read, with a notice.
 *
 * Salvage reads two kinds of files that break these rules and whose tensors are all there: values of
 * __metadata__ that are not text, as R's torch writes them, become their JSON text; and bytes between tensors
 * may belong to none if they are all zero, as a writer leaves them that aligns tensors.
 *
 * A pair of the metadata records a tie if its value is the name of a tensor and its key is not:
 * save_model of the official library writes such pairs. The key becomes the name of one more row,
 * listed after the tensors of the header (ties.c).
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/text.h"
#include "codec/json_scan.h"
#include "core/check.h"
#include "core/dtype.h"
#include "format/files/checkpoint_names.h"
#include "format/kit.h"
#include "format/recognize.h"
#include "format/registry.h"
#include "format/safetensors/safetensors.h"
#include "format/salvage.h"
#include "format/ties.h"

#define USUAL_DIMS    8u
#define LONGEST_DTYPE 16u   /* with its quote */
#define MAX_COPIED    4096u /* bytes of a text that is copied from the header */
#define DISCARD       4096u /* entries that are discarded at once */
#define R_KEY         "..r" /* of the metadata that R's torch writes */
#define DTYPES        "F64, F32, F16, BF16, F8_*, F6_*, F4, C64, I64 to I8, U64 to U8, BOOL"

/* The entry of one tensor in a header. */
struct header_entry {
    ckpt_str name;       /* NUL-terminated */
    uint64_t pos;        /* file offset of the entry */
    uint64_t begin, end; /* data_offsets: where its bytes begin and end in the data */
    uint64_t *shape;
    uint32_t ndim;
    uint16_t dtype;
    bool is_faulty; /* its fault was reported, and it gets no row */
};

struct header {
    ckpt_file *f;
    json_scan j;
    arena *text;                  /* holds the header until it was parsed, or as long as the file lives */
    arena *temp;                  /* holds entries and shapes until the rows are made */
    struct header_entry *entries; /* in the order of the header, then sorted by `begin` */
    size_t nentries, cap_entries;
    uint64_t *shape; /* of the entry that is being read */
    size_t cap_shape;
    uint64_t data_size;
    uint64_t described_size; /* size of the data according to the entries */
    map *names;              /* name -> entry */
    bool has_metadata;
    bool keeps_text;       /* the header is kept, for long texts in it */
    bool has_ties;         /* the metadata records tied names */
    bool has_faulty_entry; /* an entry could not be parsed: its data offsets are not known */
    bool has_padding;      /* salvage: zeros between two tensors, of which a notice was added */
    bool tried_salvage;    /* SALVAGED is what salvage would write of the file; NULL: nothing */
    const char *salvaged;
    ckpt_error *err;
};

/* ------------------------------------------------------------- the header */

static ckpt_status read_dtype(struct header *h, struct header_entry *x)
{
    CKPT_TRY(json_expect(&h->j, JSON_STRING, "dtype", "a text"));
    x->dtype = (uint16_t)dtype_by_safetensors(h->j.str);
    if (x->dtype == CKPT_DT_NONE)
        return json_fail(&h->j, "tensor \"%.*s\" has dtype {\"%.*s\"}; safetensors has {=" DTYPES "}",
                         STR_ARG(x->name), STR_ARG(h->j.str));
    return CKPT_OK;
}

static ckpt_status read_dimension(struct header *h, struct header_entry *x)
{
    size_t want = (size_t)x->ndim + 1;
    uint64_t *grown = arena_grow(h->temp, h->shape, x->ndim, &h->cap_shape, want, sizeof *grown);
    if (!grown)
        return fail_memory(h->err);
    h->shape = grown;
    if (!json_get_uint(&h->j, &grown[x->ndim]))
        return json_fail(&h->j, "tensor \"%.*s\" has a size of {%.*s}; sizes are {=whole numbers below 2^64}",
                         STR_ARG(x->name), STR_ARG(h->j.str));
    x->ndim++;
    return CKPT_OK;
}

static ckpt_status read_shape(struct header *h, struct header_entry *x)
{
    enum json_event e;
    CKPT_TRY(json_expect(&h->j, JSON_ARRAY, "shape", "an array"));
    while ((e = json_next(&h->j)) == JSON_NUMBER)
        CKPT_TRY(read_dimension(h, x));
    if (e != JSON_ARRAY_END)
        return json_unexpected(&h->j, e, "shape", "an array of numbers");
    x->shape = arena_array(h->temp, x->ndim, sizeof *x->shape);
    if (!x->shape)
        return fail_memory(h->err);
    if (x->ndim)
        memcpy(x->shape, h->shape, x->ndim * sizeof *x->shape);
    return CKPT_OK;
}

static ckpt_status read_offsets(struct header *h, struct header_entry *x)
{
    enum json_event e;
    uint64_t *to[2] = {&x->begin, &x->end};
    size_t n = 0;
    CKPT_TRY(json_expect(&h->j, JSON_ARRAY, "data_offsets", "an array"));
    while ((e = json_next(&h->j)) == JSON_NUMBER && n < 2)
        if (!json_get_uint(&h->j, to[n++]))
            return json_fail(
                &h->j, "tensor \"%.*s\" has data offset {%.*s}; offsets are {=whole numbers below 2^64}",
                STR_ARG(x->name), STR_ARG(h->j.str));
    return e == JSON_ARRAY_END && n == 2 ? CKPT_OK : json_unexpected(&h->j, e, "data_offsets", "two numbers");
}

#define NFIELDS 3u
static ckpt_status (*const read_field[NFIELDS])(struct header *, struct header_entry *) = {
    read_dtype, read_shape, read_offsets};
static const char *const field_name[NFIELDS] = {"dtype", "shape", "data_offsets"};

/* find_field - returns the index of KEY in field_name, or NFIELDS. */
static size_t find_field(ckpt_str key)
{
    if (key.len == 5 && memcmp(key.ptr, "dtype", 5) == 0)
        return 0;
    if (key.len == 5 && memcmp(key.ptr, "shape", 5) == 0)
        return 1;
    return key.len == 12 && memcmp(key.ptr, "data_offsets", 12) == 0 ? 2 : NFIELDS;
}

static ckpt_status read_object(struct header *h, struct header_entry *x)
{
    bool have[NFIELDS] = {false};
    enum json_event e;
    while ((e = json_next(&h->j)) == JSON_KEY) {
        size_t k = find_field(h->j.str);
        if (k == NFIELDS) { /* unknown fields are ignored */
            CKPT_TRY(json_skip(&h->j, json_next(&h->j)));
            continue;
        }
        if (have[k])
            return json_fail(&h->j, "tensor \"%.*s\" has {two} fields \"%s\", {=one} is allowed",
                             STR_ARG(x->name), field_name[k]);
        have[k] = true;
        CKPT_TRY(read_field[k](h, x));
    }
    CKPT_TRY(json_check_end(&h->j, e, JSON_OBJECT_END));
    for (size_t k = 0; k < NFIELDS; k++)
        if (!have[k])
            return json_fail(&h->j, "tensor \"%.*s\" has {no} field {=\"%s\"}", STR_ARG(x->name),
                             field_name[k]);
    return CKPT_OK;
}

static ckpt_status read_array(struct header *h, struct header_entry *x)
{
    for (size_t k = 0; k < NFIELDS; k++)
        CKPT_TRY(read_field[k](h, x));
    return json_expect(&h->j, JSON_ARRAY_END, "a tensor's array", "[dtype, shape, data_offsets]");
}

static uint64_t get_event_pos(const struct header *h) { return source_pos(h->f->src, 8 + h->j.event_at); }

/* keep_text - returns the current text, terminated by a NUL, for as long as the file lives. A long text is
 * not copied: then the header is kept. .ptr is NULL: no memory. */
static ckpt_str keep_text(struct header *h)
{
    char *end = (char *)(uintptr_t)h->j.str.ptr + h->j.str.len;
    if (h->j.str.len <= MAX_COPIED)
        return arena_str(h->f->a, h->j.str);
    h->keeps_text = true;
    *end = '\0'; /* in place of the closing quote, or in the arena after a text that had escapes */
    return h->j.str;
}

static ckpt_str get_entry_name(const void *user, uint32_t i)
{
    const struct header *h = user;
    return h->entries[i].name;
}

/* resume_after_fault - if the file is being checked, reports the fault ST and skips the rest of the entry,
 * which began at DEPTH. */
static ckpt_status resume_after_fault(struct header *h, struct header_entry *x, unsigned depth,
                                      ckpt_status st)
{
    if (st == CKPT_OK || !h->f->check || !json_resync(&h->j))
        return st;
    CKPT_TRY(file_report_fault(h->f, st, h->err));
    x->is_faulty = h->has_faulty_entry = true;
    while (h->j.depth > depth)
        if (json_next(&h->j) == JSON_ERROR)
            return h->err->status;
    return CKPT_OK;
}

/* read_usual_numbers - reads numbers below 10^18, separated by commas, and the bracket after them from TEXT.
 * Adds each to OUT, which has room for MAX; false: the text has another form. */
static bool read_usual_numbers(ckpt_str *text, uint64_t *out, uint32_t max, uint32_t *n)
{
    const char *at = text->ptr, *end = at + text->len;
    *n = 0;
    if (str_take(text, STR_LIT("]")))
        return true;
    while (*n < max) {
        const char *first = at, *last = end - at < 18 ? end : at + 18;
        uint64_t number = 0;
        for (unsigned digit; at < last && (digit = (unsigned char)*at - '0') < 10; at++)
            number = number * 10 + digit;
        if (at == first || at == end || (at - first > 1 && *first == '0'))
            return false;
        out[(*n)++] = number;
        if (*at == ']') {
            *text = str_skip(*text, (size_t)(at + 1 - text->ptr));
            return true;
        }
        if (*at++ != ',')
            return false;
    }
    return false;
}

/* read_usual_dtype - reads a dtype and the quote after it from TEXT; CKPT_DT_NONE: TEXT has another form. */
static ckpt_dtype read_usual_dtype(ckpt_str *text)
{
    const char *quote = memchr(text->ptr, '"', text->len < LONGEST_DTYPE ? text->len : LONGEST_DTYPE);
    ckpt_str name = str_of(text->ptr, quote ? (size_t)(quote - text->ptr) : 0);
    *text = str_skip(*text, name.len);
    return str_take(text, STR_LIT("\"")) ? dtype_by_safetensors(name) : CKPT_DT_NONE;
}

/* read_usual_entry - reads X if it is written as the official library writes it: nearly all are, and it takes
 * a third of the time. Returns false, with nothing read, if not. */
static bool read_usual_entry(struct header *h, struct header_entry *x)
{
    ckpt_str rest = json_value_text(&h->j), text = rest;
    uint64_t shape[USUAL_DIMS], offsets[2];
    uint32_t ndim, noffsets;
    ckpt_dtype dtype = str_take(&text, STR_LIT("{\"dtype\":\"")) ? read_usual_dtype(&text) : CKPT_DT_NONE;
    if (dtype == CKPT_DT_NONE || !str_take(&text, STR_LIT(",\"shape\":[")) ||
        !read_usual_numbers(&text, shape, USUAL_DIMS, &ndim) ||
        !str_take(&text, STR_LIT(",\"data_offsets\":[")) ||
        !read_usual_numbers(&text, offsets, 2, &noffsets) || noffsets != 2 || !str_take(&text, STR_LIT("}")))
        return false;
    x->shape = arena_array(h->temp, ndim, sizeof *x->shape);
    if (!x->shape)
        return false;
    memcpy(x->shape, shape, ndim * sizeof *shape);
    x->ndim = ndim;
    x->dtype = (uint16_t)dtype;
    x->begin = offsets[0];
    x->end = offsets[1];
    json_pass_value(&h->j, rest.len - text.len);
    return true;
}

static ckpt_status read_entry(struct header *h, struct header_entry *x)
{
    if (read_usual_entry(h, x))
        return CKPT_OK;
    unsigned depth = h->j.depth;
    enum json_event e = json_next(&h->j);
    if (e == JSON_ERROR)
        return h->err->status;
    if (e == JSON_OBJECT)
        return resume_after_fault(h, x, depth, read_object(h, x));
    if (e == JSON_ARRAY)
        return resume_after_fault(h, x, depth, read_array(h, x));
    return resume_after_fault(
        h, x, depth,
        json_unexpected(&h->j, e, "a tensor's entry", "an object with dtype, shape and data_offsets"));
}

static ckpt_status report_duplicate(struct header *h, const struct header_entry *x)
{
    file_notice(h->f, "the header lists \"%.*s\" more than once; the last entry counts", STR_ARG(x->name));
    if (!h->f->check)
        return CKPT_OK;
    (void)fail(h->err, CKPT_EFORMAT, x->pos,
               "the header lists \"%.*s\" {again}, {=once} is allowed; readers disagree on which counts",
               STR_ARG(x->name));
    return file_report_fault_as(h->f, CHECK_DUPLICATE, CKPT_EFORMAT, h->err);
}

static ckpt_status read_tensor(struct header *h)
{
    size_t n = h->nentries;
    if (n >= h->f->limits.max_tensors)
        return fail(h->err, CKPT_ELIMIT, get_event_pos(h), "{more} than {=%llu tensors}",
                    (unsigned long long)h->f->limits.max_tensors);
    uint32_t before;
    if (n == h->cap_entries && !arena_grow_apart(h->temp, &h->entries, &h->cap_entries, sizeof *h->entries))
        return fail_memory(h->err);
    struct header_entry *x = &h->entries[n];
    *x = (struct header_entry){.name = keep_text(h), .pos = get_event_pos(h)};
    if (!x->name.ptr || !map_put(h->names, x->name, (uint32_t)n, &before))
        return fail_memory(h->err);
    if (before != MAP_NONE)
        CKPT_TRY(report_duplicate(h, x));
    CKPT_TRY(read_entry(h, x));
    if (before != MAP_NONE) /* the last one counts */
        h->entries[before] = *x;
    else
        h->nentries++;
    return CKPT_OK;
}

static ckpt_status add_metadata_pair(struct header *h, map *seen, ckpt_str key, ckpt_str text)
{
    ckpt_value *meta = h->f->metadata, *k = value_str(h->f->a, key), *v = value_str(h->f->a, text);
    uint32_t before;
    if (!k || !v || !map_put(seen, key, value_count(meta), &before))
        return fail_memory(h->err);
    if (before != MAP_NONE) {
        meta->u.dict.pairs[before].val = v;
        return CKPT_OK;
    }
    return value_put(h->f->a, meta, k, v) ? CKPT_OK : fail_memory(h->err);
}

/* find_salvaged - returns what salvage would write of the file, or NULL if it would fail: the file may have
 * other faults. */
static const char *find_salvaged(const struct header *h)
{
    ckpt_error ignored;
    ckpt_file *f;
    const struct opening o = {
        .path = h->f->path, .src = source_ref(h->f->src), .limits = &h->f->limits, .how = OPEN_SALVAGE_PART};
    if (format_open(&o, &f, &ignored) != CKPT_OK)
        return NULL;
    const char *what = !f->losses.n ? "its tensors" : f->losses.n < f->table.nrows ? "what is intact" : NULL;
    file_free(f);
    return what;
}

/* add_salvage_hint - adds to the error the hint that salvage writes the tensors, if it does; WHY comes before
 * it. */
static void add_salvage_hint(struct header *h, const char *why)
{
    char word[SHELL_WORD_MAX];
    if (!h->tried_salvage)
        h->salvaged = find_salvaged(h);
    h->tried_salvage = true;
    if (h->salvaged)
        error_add_hint(h->err, "%s`ckpt salvage %s -o OUT.safetensors` writes %s", why,
                       shell_path(h->f->path, word), h->salvaged);
}

/* read_other_value - sets *TEXT to the JSON text of the value of KEY that begins with E and is not a text;
 * refuses it unless the file is salvaged. */
static ckpt_status read_other_value(struct header *h, ckpt_str key, enum json_event e, ckpt_str *text)
{
    size_t begin = h->j.event_at;
    if (e == JSON_ERROR || !h->f->salvage) {
        bool is_of_r = str_is(key, R_KEY);
        ckpt_status st = json_unexpected(
            &h->j, e, is_of_r ? "what R's torch adds to __metadata__" : "a value of __metadata__", "a text");
        if (e != JSON_ERROR)
            add_salvage_hint(h, is_of_r ? "torch_load of R reads it; " : "");
        return st;
    }
    CKPT_TRY(json_skip(&h->j, e));
    *text = arena_str(h->f->a, str_of((const char *)h->j.text + begin, h->j.pos - begin));
    if (!text->ptr)
        return fail_memory(h->err);
    file_notice(h->f, "the value of \"%.*s\" in the metadata is no text: its JSON text is kept",
                STR_ARG(key));
    return CKPT_OK;
}

static ckpt_status read_pairs(struct header *h, map *seen)
{
    enum json_event e;
    while ((e = json_next(&h->j)) == JSON_KEY) {
        ckpt_str key = keep_text(h), text;
        e = json_next(&h->j);
        if (e != JSON_STRING)
            CKPT_TRY(read_other_value(h, key, e, &text));
        else
            text = keep_text(h);
        if (!key.ptr || !text.ptr)
            return fail_memory(h->err);
        CKPT_TRY(add_metadata_pair(h, seen, key, text));
    }
    return json_check_end(&h->j, e, JSON_OBJECT_END);
}

static ckpt_status read_metadata(struct header *h)
{
    if (h->has_metadata)
        return json_fail(&h->j, "the header has {two} \"__metadata__\", {=one} is allowed");
    h->has_metadata = true;
    enum json_event e = json_next(&h->j);
    if (e == JSON_NULL)
        return CKPT_OK;
    if (e != JSON_OBJECT)
        return json_unexpected(&h->j, e, "__metadata__", "an object of texts");
    map *seen = map_new(16);
    h->f->metadata = value_new(h->f->a, CKPT_V_DICT, 0);
    ckpt_status st = seen && h->f->metadata ? read_pairs(h, seen) : fail_memory(h->err);
    map_free(seen);
    return st;
}

static bool records_ties(const struct header *h)
{
    uint32_t n = 0;
    ckpt_str key, original;
    const value_pair *pairs = h->f->metadata ? value_pairs(h->f->metadata, &n) : NULL;
    for (uint32_t i = 0; i < n; i++)
        if (value_text(pairs[i].key, &key) && value_text(pairs[i].val, &original) &&
            ties_can_record_name(key) && map_get(h->names, original) != MAP_NONE &&
            map_get(h->names, key) == MAP_NONE)
            return true;
    return false;
}

static ckpt_status read_header(struct header *h)
{
    enum json_event e;
    CKPT_TRY(json_expect(&h->j, JSON_OBJECT, "the header", "a JSON object"));
    while ((e = json_next(&h->j)) == JSON_KEY)
        CKPT_TRY(str_is(h->j.str, "__metadata__") ? read_metadata(h) : read_tensor(h));
    if (e == JSON_OBJECT_END)
        e = json_next(&h->j);
    h->has_ties = records_ties(h);
    return json_check_end(&h->j, e, JSON_END);
}

/* --------------------------------------------------------------- the data */

static int compare_offsets(const void *pa, const void *pb)
{
    const struct header_entry *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a->pos > b->pos) - (a->pos < b->pos);
}

/* sort_entries - sorts the entries by data_offsets, and sets described_size. */
static void sort_entries(struct header *h)
{
    bool sorted = true;
    for (size_t i = 0; i < h->nentries; i++) {
        const struct header_entry *x = &h->entries[i];
        sorted = sorted && (i == 0 || compare_offsets(x - 1, x) < 0);
        h->described_size = x->end > h->described_size && !x->is_faulty ? x->end : h->described_size;
    }
    if (!sorted)
        qsort(h->entries, h->nentries, sizeof *h->entries, compare_offsets);
}

#define LL(n)       ((unsigned long long)(n))
#define PADDING_MAX 65536u /* bytes between two tensors that are read to see whether they are zeros */

static ckpt_status fail_cut_off(const struct header *h, const struct header_entry *x)
{
    uint64_t want = h->described_size;
    (void)fail(h->err, CKPT_ETRUNCATED, x->pos,
               "tensor \"%.*s\" needs {=bytes %llu..%llu} of the data, the file has {%llu}", STR_ARG(x->name),
               LL(x->begin), LL(x->end), LL(h->data_size));
    if (checked_add(want, h->f->data_offset, &want))
        error_add_hint(
            h->err,
            "the download stopped early: the header describes %llu bytes, this file has %llu; get it again, "
            "or `ckpt salvage` what is intact",
            LL(want), LL(h->f->nbytes));
    return CKPT_ETRUNCATED;
}

/* check_size - fails unless X has as many bytes as its shape and dtype need. The sizes are multiplied from
 * left to right, as in the reference implementation, so that the same shapes overflow. */
static ckpt_status check_size(const struct header *h, const struct header_entry *x)
{
    uint64_t bits = 1;
    bool ok = true;
    for (uint32_t k = 0; ok && k < x->ndim; k++)
        ok = checked_mul(bits, x->shape[k], &bits);
    unsigned width = ckpt_dtype_bits((ckpt_dtype)x->dtype) /
                     dtype_info((ckpt_dtype)x->dtype)->safetensors_dim_factor;
    if (!ok || !checked_mul(bits, width, &bits))
        return fail(h->err, CKPT_EFORMAT, x->pos,
                    "{the sizes} of tensor \"%.*s\" multiply to more than {=2^64 bits}", STR_ARG(x->name));
    if (bits % 8)
        return fail(h->err, CKPT_EFORMAT, x->pos,
                    "tensor \"%.*s\" has {%llu bits}, which is not {=a whole number of bytes}",
                    STR_ARG(x->name), LL(bits));
    if (bits / 8 != x->end - x->begin)
        return fail(
            h->err, CKPT_EFORMAT, x->pos,
            "tensor \"%.*s\" needs {=%llu bytes} for its shape, its data_offsets %llu..%llu hold {%llu}",
            STR_ARG(x->name), LL(bits / 8), LL(x->begin), LL(x->end), LL(x->end - x->begin));
    return CKPT_OK;
}

/* is_zero - sets *ZERO to whether the bytes [BEGIN, END) of the data are in the file and all zero. */
static ckpt_status is_zero(const struct header *h, uint64_t begin, uint64_t end, bool *zero)
{
    *zero = false;
    if (end > h->data_size || end - begin > PADDING_MAX)
        return CKPT_OK;
    uint64_t at = h->f->data_offset + begin;
    return source_is_zero(h->f->src, at, end - begin, zero, h->err);
}

/* check_padding - handles the failure that bytes from START to the beginning of X belong to no tensor:
 * accepts it in salvage if they are zeros; otherwise adds a hint to it. */
static ckpt_status check_padding(struct header *h, const struct header_entry *x, uint64_t start)
{
    ckpt_error why = *h->err;
    bool zero;
    CKPT_TRY(is_zero(h, start, x->begin, &zero));
    if (zero && h->f->salvage) {
        if (!h->has_padding)
            file_notice(h->f, "the zeros between tensors, with which a writer aligned them, are left out");
        h->has_padding = true;
        return CKPT_OK;
    }
    *h->err = why;
    if (zero)
        add_salvage_hint(h, "they are zeros: ");
    return CKPT_EFORMAT;
}

/* check_data_begin - fails unless X begins at START, where PREV ends, the tensor before X. */
static ckpt_status check_data_begin(struct header *h, const struct header_entry *x, ckpt_str prev,
                                    uint64_t start)
{
    if (x->begin < start)
        return fail(h->err, CKPT_EFORMAT, x->pos,
                    "tensor \"%.*s\" begins at {byte %llu} of the data, but \"%.*s\" ends at {=byte %llu}",
                    STR_ARG(x->name), LL(x->begin), STR_ARG(prev), LL(start));
    if (x->begin == start || h->has_faulty_entry)
        return CKPT_OK;
    (void)fail(
        h->err, CKPT_EFORMAT, x->pos,
        "tensor \"%.*s\" begins at {byte %llu} of the data, but {=bytes %llu}..%llu belong to no tensor",
        STR_ARG(x->name), LL(x->begin), LL(start), LL(x->begin));
    return check_padding(h, x, start);
}

static ckpt_status check_data_end(const struct header *h, const struct header_entry *x)
{
    if (x->end < x->begin)
        return fail(h->err, CKPT_EFORMAT, x->pos,
                    "the data of tensor \"%.*s\" end ({%llu}) before they begin ({=%llu})", STR_ARG(x->name),
                    LL(x->end), LL(x->begin));
    return x->end > h->data_size && !h->f->salvage ? fail_cut_off(h, x) : CKPT_OK;
}

/* check_entry - checks offsets and size of X. Before and after: *PREV is the tensor that ends at *START. */
static ckpt_status check_entry(struct header *h, struct header_entry *x, ckpt_str *prev, uint64_t *start)
{
    ckpt_file *f = h->f;
    ckpt_status st = x->end < x->begin ? CKPT_OK : check_data_begin(h, x, *prev, *start);
    CKPT_TRY(file_report_fault_as(f, x->begin > *start ? CHECK_STRAY : CHECK_MALFORMED, st, h->err));
    st = check_data_end(h, x);
    x->is_faulty = st != CKPT_OK;
    CKPT_TRY(file_report_fault(f, st, h->err));
    if (x->end >= x->begin) {
        st = check_size(h, x);
        x->is_faulty |= st != CKPT_OK;
        CKPT_TRY(file_report_fault(f, st, h->err));
    }
    if (x->end >= *start) {
        *prev = x->name;
        *start = x->end;
    }
    return CKPT_OK;
}

static ckpt_status check_entries(struct header *h)
{
    ckpt_str prev = {0};
    uint64_t end = 0;
    for (size_t i = 0; i < h->nentries; i++)
        if (!h->entries[i].is_faulty)
            CKPT_TRY(check_entry(h, &h->entries[i], &prev, &end));
    if (end >= h->data_size || h->has_faulty_entry)
        return CKPT_OK;
    if (h->f->salvage) {
        bool is_of_r = h->f->metadata && value_get(h->f->metadata, R_KEY); /* then an R object follows */
        if (!is_of_r)
            salvage_note_stray(h->f, h->data_size - end, "tensor");
        return CKPT_OK;
    }
    uint64_t at = h->f->check ? source_pos(h->f->src, h->f->data_offset + end) : CKPT_NO_OFFSET;
    (void)fail(h->err, CKPT_EFORMAT, at, "{%llu unreferenced bytes} after {=the last tensor}",
               LL(h->data_size - end));
    return file_report_fault_as(h->f, CHECK_STRAY, CKPT_EFORMAT, h->err);
}

/* ------------------------------------------------------------------- rows */

/* halve_last_size - halves the last size of X. The header counts float4 values, torch counts elements of one
 * byte with two values each. */
static ckpt_status halve_last_size(const struct header_entry *x, ckpt_error *err)
{
    if (x->ndim == 0 || x->shape[x->ndim - 1] % 2)
        return fail(err, CKPT_EUNSUPPORTED, x->pos,
                    "tensor \"%.*s\" has a last dimension that splits a byte of two F4 values",
                    STR_ARG(x->name));
    x->shape[x->ndim - 1] /= 2;
    return CKPT_OK;
}

static ckpt_status add_tensor(struct kit *k, struct header *h, const struct header_entry *x)
{
    ckpt_error why;
    struct kit_tensor t = {.name = x->name,
                           .t = {.name = x->name, .dtype = x->dtype, .ndim = x->ndim, .shape = x->shape},
                           .described_at = x->pos,
                           .src = h->f->src,
                           .src_offset = h->f->data_offset + x->begin,
                           .nbytes = x->end - x->begin};
    if (dtype_info((ckpt_dtype)x->dtype)->safetensors_dim_factor == 2)
        CKPT_TRY(halve_last_size(x, h->err));
    if (x->end > h->data_size) { /* salvage: the end of the tensor is missing */
        (void)fail(&why, CKPT_ETRUNCATED, h->f->src->size,
                   "it needs {=bytes %llu..%llu} of the data, the file has {%llu}", LL(x->begin), LL(x->end),
                   LL(h->data_size));
        t.lost = &why;
    }
    return kit_add_tensor(k, &t);
}

static ckpt_status add_tensors(struct kit *k, struct header *h)
{
    for (size_t i = 0; i < h->nentries; i++) {
        if (i % DISCARD == 0) /* rows take the place of entries */
            arena_discard_apart(h->entries, i * sizeof *h->entries, h->cap_entries * sizeof *h->entries);
        if (!h->entries[i].is_faulty)
            CKPT_TRY(add_tensor(k, h, &h->entries[i]));
    }
    return CKPT_OK;
}

/* add_rows - adds a row for each of the entries, which are sorted and checked. */
static ckpt_status add_rows(struct header *h)
{
    struct kit k;
    CKPT_TRY(kit_begin(&k, h->f, value_new(h->f->a, CKPT_V_DICT, 0), h->err));
    k.only_tensors = true;
    return kit_end(&k, add_tensors(&k, h));
}

/* has_offsets_of_zero - returns true if INFO, the text DCP_SHARDING_INFO of F, is well-formed and has no
 * saved offset other than 0. */
static bool has_offsets_of_zero(ckpt_file *f, ckpt_str info)
{
    ckpt_error ignored;
    ckpt_value *tensors;
    uint32_t n = 0;
    if (json_read_value(info, CKPT_NO_OFFSET, f->a, &tensors, &ignored) != CKPT_OK)
        return false;
    const value_pair *pairs = value_pairs(tensors, &n);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *offsets = value_get(pairs[i].val, "saved_offsets");
        int64_t offset;
        if (!offsets || offsets->type != CKPT_V_LIST)
            return false;
        for (uint32_t k = 0; k < value_count(offsets); k++)
            if (!value_integer(value_item(offsets, k), &offset) || offset)
                return false;
    }
    return n > 0;
}

/* may_be_part - returns true if the tensors of F, whose DCP_SHARDING_INFO is INFO, may be parts. The offsets
 * of the first rank are 0, too; but torch calls files of complete tensors model-00001-of-00001.safetensors,
 * and those of a rank shard-00001-model-00001-of-00001.safetensors. */
static bool may_be_part(ckpt_file *f, const ckpt_value *info)
{
    struct shard_name name;
    ckpt_str text;
    bool is_named_complete = shard_name_parse(str_after_last(str_c(f->path), '/'), &name) &&
                             str_is(name.stem, "model");
    return !is_named_complete || !value_text(info, &text) || !has_offsets_of_zero(f, text);
}

/* set_producer - sets the producer from the metadata, and adds a notice if F is a part of a distributed
 * checkpoint. */
static ckpt_status set_producer(ckpt_file *f, ckpt_error *err)
{
    ckpt_str framework;
    f->producer = STR_LIT("safetensors");
    if (!f->metadata)
        return CKPT_OK;
    if (value_text(value_get(f->metadata, "format"), &framework))
        f->producer = ARENA_CONCAT(f->a, STR_LIT("safetensors, format="), framework);
    const ckpt_value *sharding = value_get(f->metadata, "DCP_SHARDING_INFO");
    if (sharding && may_be_part(f, sharding))
        file_notice(f, "one rank's part of a distributed checkpoint: shapes are those of the parts");
    return f->producer.ptr ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------- read */

static ckpt_status read_length(const ckpt_file *f, uint64_t *n, ckpt_error *err)
{
    unsigned char bytes[8];
    CKPT_TRY(source_read(f->src, 0, bytes, sizeof bytes, err));
    *n = load_u64le(bytes);
    if (*n > SAFETENSORS_MAX_HEADER)
        return fail(err, CKPT_EFORMAT, 0, "a header of {%llu bytes}; the format allows {=%u}", LL(*n),
                    SAFETENSORS_MAX_HEADER);
    if (*n > f->limits.max_header)
        return fail(err, CKPT_ELIMIT, 0, "a header of {%llu bytes}; the limit is {=%llu}", LL(*n),
                    LL(f->limits.max_header));
    if (!range_within(8, *n, f->src->size))
        return fail(err, CKPT_ETRUNCATED, 8,
                    "it needs {=%llu bytes}, the file has {%llu} after its length\n"
                    "the download or copy stopped early: get the file again",
                    LL(*n), LL(f->src->size - 8));
    return CKPT_OK;
}

static ckpt_status read_entries(struct header *h, const char *text, size_t n)
{
    size_t likely = n / 144 + 1; /* entries: 144 bytes are usual for one */
    json_init(&h->j, str_of(text, n), source_pos(h->f->src, 8), h->text, h->err);
    h->names = map_new_index(likely, get_entry_name, h);
    ckpt_status st = h->names ? read_header(h) : fail_memory(h->err);
    map_free(h->names);
    CKPT_TRY(st);
    sort_entries(h);
    return check_entries(h);
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    uint64_t n;
    ckpt_status st = read_length(f, &n, err);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("header"));
    CKPT_TRY(st);
    file_raise_budget(f, n);
    f->dots_are_literal = true;
    f->data_offset = 8 + n;
    struct header h = {.f = f, .data_size = f->src->size - f->data_offset, .err = err};
    h.text = arena_new(UINT64_MAX); /* by the header's length, as is the next */
    h.temp = arena_new(UINT64_MAX);
    char *text = h.text && h.temp ? arena_alloc(h.text, (size_t)n) : NULL;
    st = text ? source_read(f->src, 8, text, (size_t)n, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = read_entries(&h, text, (size_t)n);
    if (h.keeps_text)
        arena_adopt(f->a, h.text);
    else
        arena_free(h.text);
    if (st == CKPT_OK)
        st = add_rows(&h);
    if (st == CKPT_OK && h.has_ties)
        st = ties_add_rows(f, err);
    if (h.entries)
        arena_free_apart(h.temp, h.entries, h.cap_entries, sizeof *h.entries);
    arena_free(h.temp);
    if (st != CKPT_OK)
        error_add_position(err, source_pos(f->src, 8), STR_LIT("header"));
    return st == CKPT_OK ? set_producer(f, err) : st;
}

const struct format format_safetensors = {
    .name = "safetensors",
    .title = "safetensors",
    .suffixes = ".safetensors",
    .flat = true,
    .probe = recognize_safetensors,
    .read = read_file,
    .write = safetensors_write,
    .in_place = safetensors_in_place,
    .undoes = safetensors_undoes,
    .write_metadata = safetensors_write_metadata,
};
