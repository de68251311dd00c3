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

static ckpt_status read_bytes(struct flatbuffer *flatbuffer, uint64_t at, void *out, size_t nbytes)
{
    if (!range_within(at, nbytes, flatbuffer->src->size))
        return fail(flatbuffer->err, CKPT_ETRUNCATED,
                    at <= flatbuffer->src->size ? at : flatbuffer->src->size,
                    "{%zu bytes} at %" PRIu64 " are missing; {=the file ends at %" PRIu64 "}", nbytes, at,
                    flatbuffer->src->size);
    return window_read(&flatbuffer->window, flatbuffer->src, at, out, nbytes, flatbuffer->err);
}

static ckpt_status read_u32(struct flatbuffer *flatbuffer, uint64_t at, uint32_t *out)
{
    unsigned char bytes[4] = {0};
    ckpt_status st = read_bytes(flatbuffer, at, bytes, sizeof bytes);
    *out = load_u32le(bytes);
    return st;
}

/* follow_offset - sets *OUT to AT plus the distance that is stored at AT. */
static ckpt_status follow_offset(struct flatbuffer *flatbuffer, uint64_t at, uint64_t *out)
{
    uint32_t distance = 0;
    CKPT_TRY(read_u32(flatbuffer, at, &distance));
    *out = at + distance; /* AT is in the file, which has less than 2^63 bytes */
    return *out < flatbuffer->src->size
               ? CKPT_OK
               : fail(flatbuffer->err, CKPT_EFORMAT, at,
                      "an offset of {%u} to a place outside of {=the file}", distance);
}

ckpt_status flatbuffer_open_table(struct flatbuffer *flatbuffer, uint64_t at, struct flatbuffer_table *out)
{
    uint32_t distance = 0;
    unsigned char sizes[4] = {0};
    CKPT_TRY(read_u32(flatbuffer, at, &distance));
    int64_t vtable = (int64_t)at - (int32_t)distance;
    if (vtable < 0 || !range_within((uint64_t)vtable, sizeof sizes, flatbuffer->src->size))
        return fail(flatbuffer->err, CKPT_EFORMAT, at, "a table whose vtable is {outside} of {=the file}");
    CKPT_TRY(read_bytes(flatbuffer, (uint64_t)vtable, sizes, sizeof sizes));
    uint32_t vtable_size = load_u16le(sizes);
    *out = (struct flatbuffer_table){.at = at, .vtable = (uint64_t)vtable, .size = load_u16le(sizes + 2)};
    if (vtable_size < 4 || vtable_size % 2 || out->size < 4)
        return fail(flatbuffer->err, CKPT_EFORMAT, out->vtable,
                    "{a table of %u bytes, a vtable of %u}; {=each has at least 4, a vtable an even number}",
                    out->size, vtable_size);
    out->nfields = (vtable_size - 4) / 2;
    return CKPT_OK;
}

ckpt_status flatbuffer_open_root(struct flatbuffer *flatbuffer, struct flatbuffer_table *out)
{
    uint64_t at = 0;
    CKPT_TRY(follow_offset(flatbuffer, 0, &at));
    return flatbuffer_open_table(flatbuffer, at, out);
}

/* find_field - sets *AT to the offset of FIELD, which has WIDTH bytes; to 0 if it is absent. */
static ckpt_status find_field(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                              uint32_t field, uint32_t width, uint64_t *at)
{
    unsigned char bytes[2];
    *at = 0;
    if (field >= table->nfields)
        return CKPT_OK;
    CKPT_TRY(read_bytes(flatbuffer, table->vtable + 4 + 2 * (uint64_t)field, bytes, sizeof bytes));
    uint32_t offset = load_u16le(bytes);
    if (offset && (offset < 4 || !range_within(offset, width, table->size)))
        return fail(flatbuffer->err, CKPT_EFORMAT, table->vtable,
                    "field %u at {%u} is not inside its table of {=%u bytes}", field, offset, table->size);
    *at = offset ? table->at + offset : 0;
    return CKPT_OK;
}

ckpt_status flatbuffer_read_number(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                   uint32_t field, uint32_t width, uint64_t *out)
{
    uint64_t at = 0;
    unsigned char bytes[8] = {0};
    *out = 0;
    CKPT_TRY(find_field(flatbuffer, table, field, width, &at));
    if (at)
        CKPT_TRY(read_bytes(flatbuffer, at, bytes, width));
    *out = load_u64le(bytes);
    return CKPT_OK;
}

ckpt_status flatbuffer_find_child(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                  uint32_t field, uint64_t *at)
{
    uint64_t field_at = 0;
    *at = 0;
    CKPT_TRY(find_field(flatbuffer, table, field, 4, &field_at));
    return field_at ? follow_offset(flatbuffer, field_at, at) : CKPT_OK;
}

/* read_vector - sets *OUT to the vector at AT, whose elements have WIDTH bytes. */
static ckpt_status read_vector(struct flatbuffer *flatbuffer, uint64_t at, uint32_t width,
                               struct flatbuffer_vector *out)
{
    uint64_t bytes;
    *out = (struct flatbuffer_vector){.at = at + 4};
    CKPT_TRY(read_u32(flatbuffer, at, &out->count));
    if (checked_mul(out->count, width, &bytes) && range_within(out->at, bytes, flatbuffer->src->size))
        return CKPT_OK;
    return fail(flatbuffer->err, CKPT_ETRUNCATED, at,
                "a vector of {%u elements} of %u bytes; {=the file ends at %llu}", out->count, width,
                (unsigned long long)flatbuffer->src->size);
}

ckpt_status flatbuffer_get_vector(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                  uint32_t field, uint32_t width, struct flatbuffer_vector *out)
{
    uint64_t at = 0;
    *out = (struct flatbuffer_vector){0, 0};
    CKPT_TRY(flatbuffer_find_child(flatbuffer, table, field, &at));
    return at ? read_vector(flatbuffer, at, width, out) : CKPT_OK;
}

/* find_item - sets *AT to the offset of element INDEX of VECTOR, whose elements have 4 bytes. */
static ckpt_status find_item(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                             uint64_t index, uint64_t *at)
{
    if (index >= vector->count)
        return fail(flatbuffer->err, CKPT_EFORMAT, vector->at, "element {%llu} of a vector that has {=%u}",
                    (unsigned long long)index, vector->count);
    *at = vector->at + 4 * index;
    return CKPT_OK;
}

ckpt_status flatbuffer_read_item(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                 uint64_t index, uint32_t *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(flatbuffer, vector, index, &at));
    return read_u32(flatbuffer, at, out);
}

ckpt_status flatbuffer_open_item(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                 uint64_t index, struct flatbuffer_table *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(flatbuffer, vector, index, &at));
    CKPT_TRY(follow_offset(flatbuffer, at, &at));
    return flatbuffer_open_table(flatbuffer, at, out);
}

static ckpt_status read_text(struct flatbuffer *flatbuffer, uint64_t at, ckpt_str *out)
{
    struct flatbuffer_vector v;
    CKPT_TRY(read_vector(flatbuffer, at, 1, &v));
    if (v.count > TEXT_MAX)
        return fail(flatbuffer->err, CKPT_ELIMIT, at, "a name of {%u bytes}; {=%u} are allowed", v.count,
                    TEXT_MAX);
    char *text = arena_array(flatbuffer->a, (uint64_t)v.count + 1, 1);
    CKPT_TRY_ALLOC(text, flatbuffer->err);
    *out = str_of(text, v.count);
    return v.count ? read_bytes(flatbuffer, v.at, text, v.count) : CKPT_OK;
}

ckpt_status flatbuffer_read_item_text(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                      uint64_t index, ckpt_str *out)
{
    uint64_t at = 0;
    CKPT_TRY(find_item(flatbuffer, vector, index, &at));
    CKPT_TRY(follow_offset(flatbuffer, at, &at));
    return read_text(flatbuffer, at, out);
}

ckpt_status flatbuffer_read_text(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                 uint32_t field, ckpt_str *out)
{
    uint64_t at = 0;
    *out = str_of("", 0);
    CKPT_TRY(flatbuffer_find_child(flatbuffer, table, field, &at));
    return at ? read_text(flatbuffer, at, out) : CKPT_OK;
}
