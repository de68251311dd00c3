/* flatbuffer.c - see flatbuffer.h. A file begins with the offset of the root table (u32) and four bytes that
 * identify its schema.
 *
 *   table   i32 its own offset minus that of its vtable; the fields
 *   vtable  u16 its size, u16 the size of the table; for each field u16 its offset in the table; 0: absent
 *   field   a number; or u32, the distance from the field to the table, vector or text that it refers to
 *   vector  u32 count; the elements
 *   text    a vector of bytes
 *
 * Refused: offsets outside of the file, fields outside of their table. Alignment is not checked. */
#include "codec/flatbuffer.h"

#include <inttypes.h>

#include "base/cursor.h"

#define TEXT_MAX (1u << 20)

static ckpt_status read_bytes(struct flatbuffer *b, uint64_t at, void *out, size_t n)
{
    if (!range_within(at, n, b->src->size))
        return fail(b->err, CKPT_ETRUNCATED, at <= b->src->size ? at : b->src->size,
                    "{%zu bytes} at %" PRIu64 " are missing; {=the file ends at %" PRIu64 "}", n, at,
                    b->src->size);
    return window_read(&b->window, b->src, at, out, n, b->err);
}

static ckpt_status read_u32(struct flatbuffer *b, uint64_t at, uint32_t *out)
{
    unsigned char bytes[4] = {0};
    ckpt_status st = read_bytes(b, at, bytes, sizeof bytes);
    *out = load_u32le(bytes);
    return st;
}

/* follow_offset - sets *OUT to AT plus the distance that is stored at AT. */
static ckpt_status follow_offset(struct flatbuffer *b, uint64_t at, uint64_t *out)
{
    uint32_t distance = 0;
    CKPT_TRY(read_u32(b, at, &distance));
    *out = at + distance; /* AT is in the file, which has less than 2^63 bytes */
    return *out < b->src->size ? CKPT_OK
                               : fail(b->err, CKPT_EFORMAT, at,
                                      "an offset of {%u} to a place outside of {=the file}", distance);
}

ckpt_status flatbuffer_open_table(struct flatbuffer *b, uint64_t at, struct flatbuffer_table *out)
{
    uint32_t distance = 0;
    unsigned char sizes[4] = {0};
    CKPT_TRY(read_u32(b, at, &distance));
    int64_t vtable = (int64_t)at - (int32_t)distance;
    if (vtable < 0 || !range_within((uint64_t)vtable, sizeof sizes, b->src->size))
        return fail(b->err, CKPT_EFORMAT, at, "a table whose vtable is {outside} of {=the file}");
    CKPT_TRY(read_bytes(b, (uint64_t)vtable, sizes, sizeof sizes));
    uint32_t vtable_size = load_u16le(sizes);
    *out = (struct flatbuffer_table){.at = at, .vtable = (uint64_t)vtable, .size = load_u16le(sizes + 2)};
    if (vtable_size < 4 || vtable_size % 2 || out->size < 4)
        return fail(b->err, CKPT_EFORMAT, out->vtable,
                    "{a table of %u bytes, a vtable of %u}; {=each has at least 4, a vtable an even number}",
                    out->size, vtable_size);
    out->nfields = (vtable_size - 4) / 2;
    return CKPT_OK;
}

ckpt_status flatbuffer_open_root(struct flatbuffer *b, struct flatbuffer_table *out)
{
    uint64_t at = 0;
    CKPT_TRY(follow_offset(b, 0, &at));
    return flatbuffer_open_table(b, at, out);
}

/* find_field - sets *AT to the offset of FIELD, which has WIDTH bytes; to 0 if it is absent. */
static ckpt_status find_field(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                              uint32_t width, uint64_t *at)
{
    unsigned char bytes[2];
    *at = 0;
    if (field >= t->nfields)
        return CKPT_OK;
    CKPT_TRY(read_bytes(b, t->vtable + 4 + 2 * (uint64_t)field, bytes, sizeof bytes));
    uint32_t offset = load_u16le(bytes);
    if (offset && (offset < 4 || !range_within(offset, width, t->size)))
        return fail(b->err, CKPT_EFORMAT, t->vtable,
                    "field %u at {%u} is not inside its table of {=%u bytes}", field, offset, t->size);
    *at = offset ? t->at + offset : 0;
    return CKPT_OK;
}

ckpt_status flatbuffer_read_number(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                                   uint32_t width, uint64_t *out)
{
    uint64_t at = 0;
    unsigned char bytes[8] = {0};
    *out = 0;
    CKPT_TRY(find_field(b, t, field, width, &at));
    if (at)
        CKPT_TRY(read_bytes(b, at, bytes, width));
    *out = load_u64le(bytes);
    return CKPT_OK;
}

ckpt_status flatbuffer_find_child(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                                  uint64_t *at)
{
    uint64_t field_at = 0;
    *at = 0;
    CKPT_TRY(find_field(b, t, field, 4, &field_at));
    return field_at ? follow_offset(b, field_at, at) : CKPT_OK;
}

/* read_vector - sets *OUT to the vector at AT, whose elements have WIDTH bytes. */
static ckpt_status read_vector(struct flatbuffer *b, uint64_t at, uint32_t width,
                               struct flatbuffer_vector *out)
{
    uint64_t bytes;
    *out = (struct flatbuffer_vector){.at = at + 4};
    CKPT_TRY(read_u32(b, at, &out->count));
    if (checked_mul(out->count, width, &bytes) && range_within(out->at, bytes, b->src->size))
        return CKPT_OK;
    return fail(b->err, CKPT_ETRUNCATED, at,
                "a vector of {%u elements} of %u bytes; {=the file ends at %llu}", out->count, width,
                (unsigned long long)b->src->size);
}

ckpt_status flatbuffer_get_vector(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                                  uint32_t width, struct flatbuffer_vector *out)
{
    uint64_t at = 0;
    *out = (struct flatbuffer_vector){0, 0};
    CKPT_TRY(flatbuffer_find_child(b, t, field, &at));
    return at ? read_vector(b, at, width, out) : CKPT_OK;
}

/* find_item - sets *AT to the offset of element I of V, whose elements have 4 bytes. */
static ckpt_status find_item(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                             uint64_t *at)
{
    if (i >= v->count)
        return fail(b->err, CKPT_EFORMAT, v->at, "element {%llu} of a vector that has {=%u}",
                    (unsigned long long)i, v->count);
    *at = v->at + 4 * i;
    return CKPT_OK;
}

ckpt_status flatbuffer_read_item(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                                 uint32_t *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(b, v, i, &at));
    return read_u32(b, at, out);
}

ckpt_status flatbuffer_open_item(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                                 struct flatbuffer_table *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(b, v, i, &at));
    CKPT_TRY(follow_offset(b, at, &at));
    return flatbuffer_open_table(b, at, out);
}

static ckpt_status read_text(struct flatbuffer *b, uint64_t at, ckpt_str *out)
{
    struct flatbuffer_vector v;
    CKPT_TRY(read_vector(b, at, 1, &v));
    if (v.count > TEXT_MAX)
        return fail(b->err, CKPT_ELIMIT, at, "a name of {%u bytes}; {=%u} are allowed", v.count, TEXT_MAX);
    char *text = arena_array(b->a, (uint64_t)v.count + 1, 1);
    CKPT_TRY_ALLOC(text, b->err);
    *out = str_of(text, v.count);
    return v.count ? read_bytes(b, v.at, text, v.count) : CKPT_OK;
}

ckpt_status flatbuffer_read_item_text(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                                      ckpt_str *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(b, v, i, &at));
    CKPT_TRY(follow_offset(b, at, &at));
    return read_text(b, at, out);
}

ckpt_status flatbuffer_read_text(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                                 ckpt_str *out)
{
    uint64_t at = 0;
    *out = str_of("", 0);
    CKPT_TRY(flatbuffer_find_child(b, t, field, &at));
    return at ? read_text(b, at, out) : CKPT_OK;
}
