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

#define USUAL_DIMS 8u
#define MAX_COPIED 4096u /* bytes of a text that is copied from the header */
#define DISCARD    4096u /* entries after which the memory of their text is given back */
#define R_KEY      "..r" /* of the metadata that R's torch writes */
#define DTYPES     "F64, F32, F16, BF16, F8_*, F6_*, F4, C64, I64 to I8, U64 to U8, BOOL"

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
    bool tried_salvage;    /* `salvaged` is set */
    const char *salvaged;  /* what salvage would write of the file, in words; NULL: nothing */
    ckpt_error *err;
};

/* ------------------------------------------------------------- the header */

static ckpt_status read_dtype(struct header *header, struct header_entry *entry)
{
    CKPT_TRY(json_expect(&header->j, JSON_STRING, "dtype", "a text"));
    entry->dtype = (uint16_t)dtype_by_safetensors(header->j.str);
    if (entry->dtype == CKPT_DT_NONE)
        return json_fail(&header->j, "tensor \"%.*s\" has dtype {\"%.*s\"}; safetensors has {=" DTYPES "}",
                         STR_ARG(entry->name), STR_ARG(header->j.str));
    return CKPT_OK;
}

static ckpt_status read_dimension(struct header *header, struct header_entry *entry)
{
    size_t want = (size_t)entry->ndim + 1;
    uint64_t *grown = arena_grow(header->temp, header->shape, entry->ndim, &header->cap_shape, want,
                                 sizeof *grown);
    if (!grown)
        return fail_memory(header->err);
    header->shape = grown;
    if (!json_get_uint(&header->j, &grown[entry->ndim]))
        return json_fail(&header->j,
                         "tensor \"%.*s\" has a size of {%.*s}; sizes are {=whole numbers below 2^64}",
                         STR_ARG(entry->name), STR_ARG(header->j.str));
    entry->ndim++;
    return CKPT_OK;
}

static ckpt_status read_shape(struct header *header, struct header_entry *entry)
{
    enum json_event e;
    CKPT_TRY(json_expect(&header->j, JSON_ARRAY, "shape", "an array"));
    while ((e = json_next(&header->j)) == JSON_NUMBER)
        CKPT_TRY(read_dimension(header, entry));
    if (e != JSON_ARRAY_END)
        return json_unexpected(&header->j, e, "shape", "an array of numbers");
    entry->shape = arena_array(header->temp, entry->ndim, sizeof *entry->shape);
    if (!entry->shape)
        return fail_memory(header->err);
    if (entry->ndim)
        memcpy(entry->shape, header->shape, entry->ndim * sizeof *entry->shape);
    return CKPT_OK;
}

static ckpt_status read_offsets(struct header *header, struct header_entry *entry)
{
    enum json_event e;
    uint64_t *to[2] = {&entry->begin, &entry->end};
    size_t n = 0;
    CKPT_TRY(json_expect(&header->j, JSON_ARRAY, "data_offsets", "an array"));
    while ((e = json_next(&header->j)) == JSON_NUMBER && n < 2)
        if (!json_get_uint(&header->j, to[n++]))
            return json_fail(
                &header->j, "tensor \"%.*s\" has data offset {%.*s}; offsets are {=whole numbers below 2^64}",
                STR_ARG(entry->name), STR_ARG(header->j.str));
    return e == JSON_ARRAY_END && n == 2 ? CKPT_OK
                                         : json_unexpected(&header->j, e, "data_offsets", "two numbers");
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

static ckpt_status read_object(struct header *header, struct header_entry *entry)
{
    bool have[NFIELDS] = {false};
    enum json_event e;
    while ((e = json_next(&header->j)) == JSON_KEY) {
        size_t k = find_field(header->j.str);
        if (k == NFIELDS) { /* unknown fields are ignored */
            CKPT_TRY(json_skip(&header->j, json_next(&header->j)));
            continue;
        }
        if (have[k])
            return json_fail(&header->j, "tensor \"%.*s\" has {two} fields \"%s\", {=one} is allowed",
                             STR_ARG(entry->name), field_name[k]);
        have[k] = true;
        CKPT_TRY(read_field[k](header, entry));
    }
    CKPT_TRY(json_check_end(&header->j, e, JSON_OBJECT_END));
    for (size_t k = 0; k < NFIELDS; k++)
        if (!have[k])
            return json_fail(&header->j, "tensor \"%.*s\" has {no} field {=\"%s\"}", STR_ARG(entry->name),
                             field_name[k]);
    return CKPT_OK;
}

static ckpt_status read_array(struct header *header, struct header_entry *entry)
{
    for (size_t k = 0; k < NFIELDS; k++)
        CKPT_TRY(read_field[k](header, entry));
    return json_expect(&header->j, JSON_ARRAY_END, "a tensor's array", "[dtype, shape, data_offsets]");
}

static uint64_t get_event_pos(const struct header *header)
{
    return source_pos(header->f->src, 8 + header->j.event_at);
}

/* keep_text - returns the current text, terminated by a NUL, for as long as the file lives. A long text is
 * not copied: then the header is kept. .ptr is NULL: no memory. */
static ckpt_str keep_text(struct header *header)
{
    char *end = (char *)(uintptr_t)header->j.str.ptr + header->j.str.len;
    if (header->j.str.len <= MAX_COPIED)
        return arena_str(header->f->a, header->j.str);
    header->keeps_text = true;
    *end = '\0'; /* in place of the closing quote, or in the arena after a text that had escapes */
    return header->j.str;
}

/* keep_name - returns the current text, a name, as keep_text does. A set has most names already. */
static ckpt_str keep_name(struct header *header)
{
    const struct opening *o = header->f->opening;
    ckpt_str listed = o->find_name ? o->find_name(o->set, header->j.str) : str_of(NULL, 0);
    return listed.ptr ? listed : keep_text(header);
}

static ckpt_str get_entry_name(const void *user, uint32_t index)
{
    const struct header *h = user;
    return h->entries[index].name;
}

/* resume_after_fault - if the file is being checked, reports the fault ST and skips the rest of the entry,
 * which began at DEPTH. */
static ckpt_status resume_after_fault(struct header *header, struct header_entry *entry, unsigned depth,
                                      ckpt_status st)
{
    if (st == CKPT_OK || !header->f->check || !json_resync(&header->j))
        return st;
    CKPT_TRY(file_report_fault(header->f, st, header->err));
    entry->is_faulty = header->has_faulty_entry = true;
    while (header->j.depth > depth)
        if (json_next(&header->j) == JSON_ERROR)
            return header->err->status;
    return CKPT_OK;
}

/* read_usual_number - sets *OUT to the number below 10^16 at AT, where LEFT bytes are, and returns its
 * length; 0: they have another form. */
static size_t read_usual_number(const char *at, size_t left, uint64_t *out)
{
    unsigned char digit;
    if (left <= 16)
        return 0;
    size_t n = load_digits8((const unsigned char *)at, out);
    for (; n >= 8 && n < 16 && (digit = (unsigned char)(at[n] ^ '0')) < 10; n++)
        *out = *out * 10 + digit;
    return n == 16 || (n > 1 && at[0] == '0') ? 0 : n;
}

/* read_usual_numbers - reads numbers as read_usual_number() does, separated by commas, and the bracket after
 * them from TEXT. Adds each to OUT, which has room for MAX; false: the text has another form. */
static bool read_usual_numbers(ckpt_str *text, uint64_t *out, uint32_t max, uint32_t *count)
{
    const char *at = text->ptr, *end = at + text->len;
    char next = ',';
    *count = 0;
    if (str_take(text, STR_LIT("]")))
        return true;
    while (next == ',' && *count < max) {
        size_t n = read_usual_number(at, (size_t)(end - at), &out[(*count)++]);
        if (n == 0)
            return false;
        next = at[n];
        at += n + 1;
    }
    if (next == ']')
        *text = str_of(at, (size_t)(end - at));
    return next == ']';
}

/* read_usual_dtype - reads a dtype of less than eight bytes and the quote after it from TEXT. CKPT_DT_NONE:
 * TEXT has another form. */
static ckpt_dtype read_usual_dtype(ckpt_str *text)
{
    uint64_t name = text->len < 8 ? 0 : load_u64le((const unsigned char *)text->ptr);
    size_t n = find_byte8(name, '"');
    *text = str_skip(*text, n + 1);
    return n < 8 ? dtype_by_safetensors8(name & ((UINT64_C(1) << 8 * n) - 1)) : CKPT_DT_NONE;
}

/* read_usual_entry - reads ENTRY if it is written as the official library writes it: nearly all are, and it
 * takes a third of the time. Returns false, with nothing read, if not. */
static bool read_usual_entry(struct header *header, struct header_entry *entry)
{
    ckpt_str rest = json_value_text(&header->j), text = rest;
    uint64_t shape[USUAL_DIMS], offsets[2];
    uint32_t ndim, noffsets;
    ckpt_dtype dtype = str_take(&text, STR_LIT("{\"dtype\":\"")) ? read_usual_dtype(&text) : CKPT_DT_NONE;
    if (dtype == CKPT_DT_NONE || !str_take(&text, STR_LIT(",\"shape\":[")) ||
        !read_usual_numbers(&text, shape, USUAL_DIMS, &ndim) ||
        !str_take(&text, STR_LIT(",\"data_offsets\":[")) ||
        !read_usual_numbers(&text, offsets, 2, &noffsets) || noffsets != 2 || !str_take(&text, STR_LIT("}")))
        return false;
    entry->shape = arena_array(header->temp, ndim, sizeof *entry->shape);
    if (!entry->shape)
        return false;
    memcpy(entry->shape, shape, ndim * sizeof *shape);
    entry->ndim = ndim;
    entry->dtype = (uint16_t)dtype;
    entry->begin = offsets[0];
    entry->end = offsets[1];
    json_pass_value(&header->j, rest.len - text.len);
    return true;
}

static ckpt_status read_entry(struct header *header, struct header_entry *entry)
{
    if (read_usual_entry(header, entry))
        return CKPT_OK;
    unsigned depth = header->j.depth;
    enum json_event e = json_next(&header->j);
    if (e == JSON_ERROR)
        return header->err->status;
    if (e == JSON_OBJECT)
        return resume_after_fault(header, entry, depth, read_object(header, entry));
    if (e == JSON_ARRAY)
        return resume_after_fault(header, entry, depth, read_array(header, entry));
    return resume_after_fault(
        header, entry, depth,
        json_unexpected(&header->j, e, "a tensor's entry", "an object with dtype, shape and data_offsets"));
}

static ckpt_status report_duplicate(struct header *header, const struct header_entry *entry)
{
    file_notice(header->f, "the header lists \"%.*s\" more than once; the last entry counts",
                STR_ARG(entry->name));
    if (!header->f->check)
        return CKPT_OK;
    (void)fail(header->err, CKPT_EFORMAT, entry->pos,
               "the header lists \"%.*s\" {again}, {=once} is allowed; readers disagree on which counts",
               STR_ARG(entry->name));
    return file_report_fault_as(header->f, CHECK_DUPLICATE, CKPT_EFORMAT, header->err);
}

static ckpt_status read_tensor(struct header *header)
{
    size_t n = header->nentries;
    if (n >= header->f->limits.max_tensors)
        return fail(header->err, CKPT_ELIMIT, get_event_pos(header), "{more} than {=%llu tensors}",
                    (unsigned long long)header->f->limits.max_tensors);
    uint32_t before;
    if (n == header->cap_entries &&
        !arena_grow_apart(header->temp, &header->entries, &header->cap_entries, sizeof *header->entries))
        return fail_memory(header->err);
    struct header_entry *x = &header->entries[n];
    *x = (struct header_entry){.name = keep_name(header), .pos = get_event_pos(header)};
    if (!x->name.ptr || !map_put(header->names, x->name, (uint32_t)n, &before))
        return fail_memory(header->err);
    if (before != MAP_NONE)
        CKPT_TRY(report_duplicate(header, x));
    CKPT_TRY(read_entry(header, x));
    if (before != MAP_NONE) /* the last one counts */
        header->entries[before] = *x;
    else
        header->nentries++;
    return CKPT_OK;
}

static ckpt_status add_metadata_pair(struct header *header, map *seen, ckpt_str key, ckpt_str text)
{
    ckpt_value *meta = header->f->metadata, *k = value_str(header->f->a, key),
               *v = value_str(header->f->a, text);
    uint32_t before;
    if (!k || !v || !map_put(seen, key, value_count(meta), &before))
        return fail_memory(header->err);
    if (before != MAP_NONE) {
        meta->u.dict.pairs[before].val = v;
        return CKPT_OK;
    }
    return value_put(header->f->a, meta, k, v) ? CKPT_OK : fail_memory(header->err);
}

/* find_salvaged - returns what salvage would write of the file, or NULL if it would fail: the file may have
 * other faults. */
static const char *find_salvaged(const struct header *header)
{
    ckpt_error ignored;
    ckpt_file *f;
    const struct opening o = {.path = header->f->path,
                              .src = source_ref(header->f->src),
                              .limits = &header->f->limits,
                              .how = OPEN_SALVAGE_PART};
    if (format_open(&o, &f, &ignored) != CKPT_OK)
        return NULL;
    const char *what = !f->losses.n ? "its tensors" : f->losses.n < f->table.nrows ? "what is intact" : NULL;
    file_free(f);
    return what;
}

/* add_salvage_hint - adds to the error the hint that salvage writes the tensors, if it does; WHY comes before
 * it. */
static void add_salvage_hint(struct header *header, const char *why)
{
    char word[SHELL_WORD_MAX];
    if (!header->tried_salvage)
        header->salvaged = find_salvaged(header);
    header->tried_salvage = true;
    if (header->salvaged)
        error_add_hint(header->err, "%s`ckpt salvage %s -o OUT.safetensors` writes %s", why,
                       shell_path(header->f->path, word), header->salvaged);
}

/* read_other_value - sets *TEXT to the JSON text of the value of KEY that begins with EVENT and is not a
 * text; refuses it unless the file is salvaged. */
static ckpt_status read_other_value(struct header *header, ckpt_str key, enum json_event event,
                                    ckpt_str *text)
{
    size_t begin = header->j.event_at;
    if (event == JSON_ERROR || !header->f->salvage) {
        bool is_of_r = str_is(key, R_KEY);
        ckpt_status st = json_unexpected(
            &header->j, event, is_of_r ? "what R's torch adds to __metadata__" : "a value of __metadata__",
            "a text");
        if (event != JSON_ERROR)
            add_salvage_hint(header, is_of_r ? "torch_load of R reads it; " : "");
        return st;
    }
    CKPT_TRY(json_skip(&header->j, event));
    *text = arena_str(header->f->a, str_of((const char *)header->j.text + begin, header->j.pos - begin));
    if (!text->ptr)
        return fail_memory(header->err);
    file_notice(header->f, "the value of \"%.*s\" in the metadata is no text: its JSON text is kept",
                STR_ARG(key));
    return CKPT_OK;
}

static ckpt_status read_pairs(struct header *header, map *seen)
{
    enum json_event e;
    while ((e = json_next(&header->j)) == JSON_KEY) {
        ckpt_str key = keep_text(header), text;
        e = json_next(&header->j);
        if (e != JSON_STRING)
            CKPT_TRY(read_other_value(header, key, e, &text));
        else
            text = keep_text(header);
        if (!key.ptr || !text.ptr)
            return fail_memory(header->err);
        CKPT_TRY(add_metadata_pair(header, seen, key, text));
    }
    return json_check_end(&header->j, e, JSON_OBJECT_END);
}

static ckpt_status read_metadata(struct header *header)
{
    if (header->has_metadata)
        return json_fail(&header->j, "the header has {two} \"__metadata__\", {=one} is allowed");
    header->has_metadata = true;
    enum json_event e = json_next(&header->j);
    if (e == JSON_NULL)
        return CKPT_OK;
    if (e != JSON_OBJECT)
        return json_unexpected(&header->j, e, "__metadata__", "an object of texts");
    map *seen = map_new(16);
    header->f->metadata = value_new(header->f->a, CKPT_V_DICT, 0);
    ckpt_status st = seen && header->f->metadata ? read_pairs(header, seen) : fail_memory(header->err);
    map_free(seen);
    return st;
}

static bool records_ties(const struct header *header)
{
    uint32_t n = 0;
    ckpt_str key, original;
    const value_pair *pairs = header->f->metadata ? value_pairs(header->f->metadata, &n) : NULL;
    for (uint32_t i = 0; i < n; i++)
        if (value_text(pairs[i].key, &key) && value_text(pairs[i].val, &original) &&
            ties_can_record_name(key) && map_get(header->names, original) != MAP_NONE &&
            map_get(header->names, key) == MAP_NONE)
            return true;
    return false;
}

static ckpt_status read_header(struct header *header)
{
    enum json_event e;
    CKPT_TRY(json_expect(&header->j, JSON_OBJECT, "the header", "a JSON object"));
    while ((e = json_next(&header->j)) == JSON_KEY)
        CKPT_TRY(str_is(header->j.str, "__metadata__") ? read_metadata(header) : read_tensor(header));
    if (e == JSON_OBJECT_END)
        e = json_next(&header->j);
    header->has_ties = records_ties(header);
    return json_check_end(&header->j, e, JSON_END);
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
static void sort_entries(struct header *header)
{
    bool sorted = true;
    for (size_t i = 0; i < header->nentries; i++) {
        const struct header_entry *x = &header->entries[i];
        sorted = sorted && (i == 0 || compare_offsets(x - 1, x) < 0);
        header->described_size = x->end > header->described_size && !x->is_faulty ? x->end
                                                                                  : header->described_size;
    }
    if (!sorted)
        qsort(header->entries, header->nentries, sizeof *header->entries, compare_offsets);
}

#define LL(n)       ((unsigned long long)(n))
#define PADDING_MAX 65536u /* bytes between two tensors that are read to see whether they are zeros */

static ckpt_status fail_cut_off(const struct header *header, const struct header_entry *entry)
{
    uint64_t want = header->described_size;
    (void)fail(header->err, CKPT_ETRUNCATED, entry->pos,
               "tensor \"%.*s\" needs {=bytes %llu..%llu} of the data, the file has {%llu}",
               STR_ARG(entry->name), LL(entry->begin), LL(entry->end), LL(header->data_size));
    if (checked_add(want, header->f->data_offset, &want))
        error_add_hint(
            header->err,
            "the download stopped early: the header describes %llu bytes, this file has %llu; get it again, "
            "or `ckpt salvage` what is intact",
            LL(want), LL(header->f->nbytes));
    return CKPT_ETRUNCATED;
}

/* check_size - fails unless ENTRY has as many bytes as its shape and dtype need. The sizes are multiplied
 * from left to right, as in the reference implementation, so that the same shapes overflow. */
static ckpt_status check_size(const struct header *header, const struct header_entry *entry)
{
    uint64_t bits = 1;
    bool ok = true;
    for (uint32_t k = 0; ok && k < entry->ndim; k++)
        ok = checked_mul(bits, entry->shape[k], &bits);
    unsigned width = ckpt_dtype_bits((ckpt_dtype)entry->dtype) /
                     dtype_info((ckpt_dtype)entry->dtype)->safetensors_dim_factor;
    if (!ok || !checked_mul(bits, width, &bits))
        return fail(header->err, CKPT_EFORMAT, entry->pos,
                    "{the sizes} of tensor \"%.*s\" multiply to more than {=2^64 bits}",
                    STR_ARG(entry->name));
    if (bits % 8)
        return fail(header->err, CKPT_EFORMAT, entry->pos,
                    "tensor \"%.*s\" has {%llu bits}, which is not {=a whole number of bytes}",
                    STR_ARG(entry->name), LL(bits));
    if (bits / 8 != entry->end - entry->begin)
        return fail(
            header->err, CKPT_EFORMAT, entry->pos,
            "tensor \"%.*s\" needs {=%llu bytes} for its shape, its data_offsets %llu..%llu hold {%llu}",
            STR_ARG(entry->name), LL(bits / 8), LL(entry->begin), LL(entry->end),
            LL(entry->end - entry->begin));
    return CKPT_OK;
}

/* is_zero - sets *ZERO to whether the bytes [BEGIN, END) of the data are in the file and all zero. */
static ckpt_status is_zero(const struct header *header, uint64_t begin, uint64_t end, bool *zero)
{
    *zero = false;
    if (end > header->data_size || end - begin > PADDING_MAX)
        return CKPT_OK;
    uint64_t at = header->f->data_offset + begin;
    return source_is_zero(header->f->src, at, end - begin, zero, header->err);
}

/* check_padding - handles the failure that bytes from START to the beginning of ENTRY belong to no tensor:
 * accepts it in salvage if they are zeros; otherwise adds a hint to it. */
static ckpt_status check_padding(struct header *header, const struct header_entry *entry, uint64_t start)
{
    ckpt_error why = *header->err;
    bool zero;
    CKPT_TRY(is_zero(header, start, entry->begin, &zero));
    if (zero && header->f->salvage) {
        if (!header->has_padding)
            file_notice(header->f,
                        "the zeros between tensors, with which a writer aligned them, are left out");
        header->has_padding = true;
        return CKPT_OK;
    }
    *header->err = why;
    if (zero)
        add_salvage_hint(header, "they are zeros: ");
    return CKPT_EFORMAT;
}

/* check_data_begin - fails unless ENTRY begins at START, where PREV ends, the tensor before ENTRY. */
static ckpt_status check_data_begin(struct header *header, const struct header_entry *entry, ckpt_str prev,
                                    uint64_t start)
{
    if (entry->begin < start)
        return fail(header->err, CKPT_EFORMAT, entry->pos,
                    "tensor \"%.*s\" begins at {byte %llu} of the data, but \"%.*s\" ends at {=byte %llu}",
                    STR_ARG(entry->name), LL(entry->begin), STR_ARG(prev), LL(start));
    if (entry->begin == start || header->has_faulty_entry)
        return CKPT_OK;
    (void)fail(
        header->err, CKPT_EFORMAT, entry->pos,
        "tensor \"%.*s\" begins at {byte %llu} of the data, but {=bytes %llu}..%llu belong to no tensor",
        STR_ARG(entry->name), LL(entry->begin), LL(start), LL(entry->begin));
    return check_padding(header, entry, start);
}

static ckpt_status check_data_end(const struct header *header, const struct header_entry *entry)
{
    if (entry->end < entry->begin)
        return fail(header->err, CKPT_EFORMAT, entry->pos,
                    "the data of tensor \"%.*s\" end ({%llu}) before they begin ({=%llu})",
                    STR_ARG(entry->name), LL(entry->end), LL(entry->begin));
    return entry->end > header->data_size && !header->f->salvage ? fail_cut_off(header, entry) : CKPT_OK;
}

/* check_entry - checks offsets and size of ENTRY. Before and after: *PREV is the tensor that ends at
 * *START. */
static ckpt_status check_entry(struct header *header, struct header_entry *entry, ckpt_str *prev,
                               uint64_t *start)
{
    ckpt_file *f = header->f;
    ckpt_status st = entry->end < entry->begin ? CKPT_OK : check_data_begin(header, entry, *prev, *start);
    if (st != CKPT_OK)
        CKPT_TRY(
            file_report_fault_as(f, entry->begin > *start ? CHECK_STRAY : CHECK_MALFORMED, st, header->err));
    st = check_data_end(header, entry);
    entry->is_faulty = st != CKPT_OK;
    CKPT_TRY(file_report_fault(f, st, header->err));
    if (entry->end >= entry->begin) {
        st = check_size(header, entry);
        entry->is_faulty |= st != CKPT_OK;
        CKPT_TRY(file_report_fault(f, st, header->err));
    }
    if (entry->end >= *start) {
        *prev = entry->name;
        *start = entry->end;
    }
    return CKPT_OK;
}

static ckpt_status check_entries(struct header *header)
{
    ckpt_str prev = {0};
    uint64_t end = 0;
    for (size_t i = 0; i < header->nentries; i++)
        if (!header->entries[i].is_faulty)
            CKPT_TRY(check_entry(header, &header->entries[i], &prev, &end));
    if (end >= header->data_size || header->has_faulty_entry)
        return CKPT_OK;
    if (header->f->salvage) {
        bool is_of_r = header->f->metadata &&
                       value_get(header->f->metadata, R_KEY); /* then an R object follows */
        if (!is_of_r)
            salvage_note_stray(header->f, header->data_size - end, "tensor");
        return CKPT_OK;
    }
    uint64_t at = header->f->check ? source_pos(header->f->src, header->f->data_offset + end)
                                   : CKPT_NO_OFFSET;
    (void)fail(header->err, CKPT_EFORMAT, at, "{%llu unreferenced bytes} after {=the last tensor}",
               LL(header->data_size - end));
    return file_report_fault_as(header->f, CHECK_STRAY, CKPT_EFORMAT, header->err);
}

/* ------------------------------------------------------------------- rows */

/* halve_last_size - halves the last size of ENTRY. The header counts float4 values, torch counts elements of
 * one byte with two values each. */
static ckpt_status halve_last_size(const struct header_entry *entry, ckpt_error *err)
{
    if (entry->ndim == 0 || entry->shape[entry->ndim - 1] % 2)
        return fail(err, CKPT_EUNSUPPORTED, entry->pos,
                    "tensor \"%.*s\" has a last dimension that splits a byte of two F4 values",
                    STR_ARG(entry->name));
    entry->shape[entry->ndim - 1] /= 2;
    return CKPT_OK;
}

/* add_tensor - adds the tensor of ENTRY, which it describes in TENSOR. */
static ckpt_status add_tensor(struct kit *kit, struct header *header, const struct header_entry *entry,
                              struct kit_tensor *tensor)
{
    ckpt_error why;
    tensor->name = tensor->t.name = entry->name;
    tensor->t.dtype = entry->dtype;
    tensor->t.ndim = entry->ndim;
    tensor->t.shape = entry->shape;
    tensor->described_at = entry->pos;
    tensor->src_offset = header->f->data_offset + entry->begin;
    tensor->nbytes = entry->end - entry->begin;
    tensor->lost = NULL;
    if (dtype_info((ckpt_dtype)entry->dtype)->safetensors_dim_factor == 2)
        CKPT_TRY(halve_last_size(entry, header->err));
    if (entry->end > header->data_size) { /* salvage: the end of the tensor is missing */
        (void)fail(&why, CKPT_ETRUNCATED, header->f->src->size,
                   "it needs {=bytes %llu..%llu} of the data, the file has {%llu}", LL(entry->begin),
                   LL(entry->end), LL(header->data_size));
        tensor->lost = &why;
    }
    return kit_add_tensor(kit, tensor);
}

static ckpt_status add_tensors(struct kit *kit, struct header *header)
{
    struct kit_tensor t = {.src = header->f->src};
    for (size_t i = 0; i < header->nentries; i++) {
        if (i % DISCARD == 0) /* rows take the place of entries */
            arena_discard_apart(header->entries, i * sizeof *header->entries,
                                header->cap_entries * sizeof *header->entries);
        if (!header->entries[i].is_faulty)
            CKPT_TRY(add_tensor(kit, header, &header->entries[i], &t));
    }
    return CKPT_OK;
}

/* add_rows - adds a row for each of the entries, which are sorted and checked. */
static ckpt_status add_rows(struct header *header)
{
    struct kit k;
    CKPT_TRY(kit_begin(&k, header->f, value_new(header->f->a, CKPT_V_DICT, 0), header->err));
    k.only_tensors = true;
    k.nodes = arena_array(header->f->a, header->nentries, sizeof *k.nodes);
    return kit_end(&k, k.nodes ? add_tensors(&k, header) : fail_memory(header->err));
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

/* read_length - sets *COUNT to the length of the header, of which the probe has read the first bytes. */
static ckpt_status read_length(const ckpt_file *f, uint64_t *count, ckpt_error *err)
{
    *count = load_u64le(f->opening->probe->head);
    if (*count > SAFETENSORS_MAX_HEADER)
        return fail(err, CKPT_EFORMAT, 0, "a header of {%llu bytes}; the format allows {=%u}", LL(*count),
                    SAFETENSORS_MAX_HEADER);
    if (*count > f->limits.max_header)
        return fail(err, CKPT_ELIMIT, 0, "a header of {%llu bytes}; the limit is {=%llu}", LL(*count),
                    LL(f->limits.max_header));
    if (!range_within(8, *count, f->src->size))
        return fail(err, CKPT_ETRUNCATED, 8,
                    "it needs {=%llu bytes}, the file has {%llu} after its length\n"
                    "the download or copy stopped early: get the file again",
                    LL(*count), LL(f->src->size - 8));
    return CKPT_OK;
}

static ckpt_status read_entries(struct header *header, const char *text, size_t nbytes)
{
    size_t likely = nbytes / 144 + 1; /* entries: 144 bytes are usual for one */
    json_init(&header->j, str_of(text, nbytes), source_pos(header->f->src, 8), header->text, header->err);
    header->names = map_new_index(likely, get_entry_name, header);
    ckpt_status st = header->names ? read_header(header) : fail_memory(header->err);
    map_free(header->names);
    CKPT_TRY(st);
    sort_entries(header);
    return check_entries(header);
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
    char *text = h.text && h.temp ? arena_alloc_text(h.text, (size_t)n) : NULL;
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
    .lays_out = true,
    .in_place = safetensors_in_place,
    .undoes = safetensors_undoes,
    .write_metadata = safetensors_write_metadata,
};
