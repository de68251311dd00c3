/* table_json.c - writes the rows of a file as JSON, for `ckpt ls --json` and other programs.
 * man/schema/ckpt.ls.v1.json describes the document. */
#include "op/table_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/text.h"

/* --------------------------------------------------------------------- members */

/* put_key - writes `,"KEY":`, for any member but the first of an object. KEY needs no escapes. */
static void put_key(struct text_sink *s, const char *key)
{
    text_put_literal(s, ",\"");
    text_put_literal(s, key);
    text_put_literal(s, "\":");
}

static void put_u64(struct text_sink *s, uint64_t n)
{
    char text[24];
    text_put(s, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, n));
}

static void put_bool(struct text_sink *s, const char *key, bool value)
{
    put_key(s, key);
    text_put_literal(s, value ? "true" : "false");
}

static void put_number(struct text_sink *s, const char *key, uint64_t n)
{
    put_key(s, key);
    put_u64(s, n);
}

static void put_null(struct text_sink *s, const char *key)
{
    put_key(s, key);
    text_put_literal(s, "null");
}

static void put_hex(struct text_sink *s, const char *key, ckpt_str bytes)
{
    char digits[3];
    text_put_literal(s, ",\"");
    text_put_literal(s, key);
    text_put_literal(s, "_hex\":\"");
    for (size_t i = 0; i < bytes.len; i++) {
        snprintf(digits, sizeof digits, "%02x", (unsigned)(unsigned char)bytes.ptr[i]);
        text_put(s, digits, 2);
    }
    text_put_literal(s, "\"");
}

/* put_json_text - writes TEXT; if it is not UTF-8, also its exact bytes, as a member KEY_hex. */
static void put_json_text(struct text_sink *s, const char *key, ckpt_str text)
{
    if (!text_json(s, text))
        put_hex(s, key, text);
}

static void put_text(struct text_sink *s, const char *key, ckpt_str text)
{
    put_key(s, key);
    put_json_text(s, key, text);
}

static void put_list(struct text_sink *s, const char *key, const uint64_t *n, uint32_t count)
{
    put_key(s, key);
    text_put_literal(s, "[");
    for (uint32_t i = 0; i < count; i++) {
        text_put_literal(s, i ? "," : "");
        put_u64(s, n[i]);
    }
    text_put_literal(s, "]");
}

static void put_path(struct text_sink *s, const ckpt_path_elem *path, uint32_t n)
{
    char number[24];
    put_key(s, "path");
    text_put_literal(s, "[");
    for (uint32_t i = 0; i < n; i++) {
        text_put_literal(s, i ? "," : "");
        if (path[i].is_int)
            text_put(s, number, (size_t)snprintf(number, sizeof number, "%" PRId64, path[i].num));
        else
            (void)text_json(s, path[i].str);
    }
    text_put_literal(s, "]");
}

/* ------------------------------------------------------------------------ rows */

/* put_stride - writes the stride of T. Computes it in STRIDE, which has room for t->ndim numbers. */
static void put_stride(struct text_sink *s, const ckpt_tensor *t, uint64_t *stride)
{
    uint64_t step = 1; /* may wrap around if a size is 0 */
    for (uint32_t i = t->ndim; i-- > 0; step *= t->shape[i] ? t->shape[i] : 1)
        stride[i] = t->stride ? t->stride[i] : step;
    put_list(s, "stride", stride, t->ndim);
}

static void put_offsets(struct text_sink *s, const ckpt_tensor *t)
{
    if (t->storage == CKPT_NO_STORAGE) {
        put_null(s, "storage");
    } else {
        put_number(s, "storage", t->storage);
        put_number(s, "storage_offset", t->storage_offset);
    }
    if (t->file_offset == CKPT_NO_OFFSET)
        put_null(s, "file_offset");
    else
        put_number(s, "file_offset", t->file_offset);
}

static void put_row_name(struct text_sink *s, const char *key, const ckpt_file *f, uint32_t row)
{
    if (row == CKPT_NO_TENSOR)
        put_null(s, key);
    else
        put_text(s, key, table_name(&f->table, row));
}

static void put_text_if_any(struct text_sink *s, const char *key, ckpt_str text)
{
    if (text.len)
        put_text(s, key, text);
}

/* put_row - writes T, a row of F; STRIDE has room for ndim numbers. */
static void put_row(struct text_sink *s, const ckpt_file *f, const ckpt_tensor *t, uint64_t *stride)
{
    text_put_literal(s, "{\"name\":");
    put_json_text(s, "name", t->name);
    put_path(s, t->path, t->npath);
    if (t->dtype != CKPT_DT_NONE)
        put_text(s, "dtype", str_c(ckpt_tensor_dtype_name(t)));
    if (t->has_shape) {
        put_list(s, "shape", t->shape, t->ndim);
        put_number(s, "elements", t->elements);
    }
    put_number(s, "bytes", t->has_data ? t->nbytes : 0);
    put_text(s, "kind", str_c(ckpt_kind_name((ckpt_kind)t->kind)));
    if (t->has_shape)
        put_stride(s, t, stride);
    put_offsets(s, t);
    put_bool(s, "requires_grad", t->requires_grad);
    put_bool(s, "parameter", t->parameter);
    put_row_name(s, "alias_of", f, t->alias_of);
    put_row_name(s, "part_of", f, t->part_of);
    if (t->conj)
        put_bool(s, "conj", true);
    if (t->neg)
        put_bool(s, "neg", true);
    put_text_if_any(s, "class", t->klass);
    put_text_if_any(s, "location", t->location);
    put_text_if_any(s, "note", t->note);
    text_put_literal(s, "}");
}

size_t ckpt_tensor_json(const ckpt_file *file, uint32_t i, char *out, size_t cap)
{
    const ckpt_file *f = file_or_empty(file);
    struct text_sink s = {.out = out, .cap = out ? cap : 0};
    uint64_t few[16], *stride = few;
    if (i < f->table.nrows) {
        const ckpt_tensor *t = &f->table.rows[i].t;
        if (t->has_shape && t->ndim > sizeof few / sizeof *few)
            stride = malloc(t->ndim * sizeof *stride); /* bounded: as many are in memory */
        if (stride)
            put_row(&s, f, t, stride);
        if (stride != few)
            free(stride);
    }
    return text_end(&s);
}

/* -------------------------------------------------------------------- document */

/* The document so far, and the sums of its rows. */
struct document {
    const struct table_json *table;
    char *text; /* of len bytes, and a NUL */
    size_t len, cap;
    uint64_t tensors, elements, bytes;
};

/* make_room - makes room for N more bytes and a NUL. False: out of memory. */
static bool make_room(struct document *d, size_t n)
{
    if (n < d->cap - d->len)
        return true;
    size_t more = d->cap / 2 > n ? d->cap / 2 : n + 4096, cap = d->cap + more; /* bounded: by memory */
    char *grown = realloc(d->text, cap);
    if (!grown)
        return false;
    d->text = grown;
    d->cap = cap;
    return true;
}

static bool add_row(struct document *d, uint32_t row)
{
    size_t n = ckpt_tensor_json(d->table->f, row, d->text + d->len, d->cap - d->len);
    if (n >= d->cap - d->len && make_room(d, n))
        n = ckpt_tensor_json(d->table->f, row, d->text + d->len, d->cap - d->len);
    if (!n || n >= d->cap - d->len)
        return false;
    d->len += n;
    const ckpt_tensor *t = &d->table->f->table.rows[row].t;
    d->tensors += t->part_of == CKPT_NO_TENSOR;
    if (t->has_data && t->alias_of == CKPT_NO_TENSOR) {
        d->elements = size_add(d->elements, t->elements);
        d->bytes = size_add(d->bytes, t->nbytes);
    }
    return true;
}

static void put_head(struct text_sink *s, const struct table_json *table)
{
    text_put_literal(s, "{\"schema\":\"ckpt.ls.v1\"");
    put_text(s, "file", str_c(table->f->path));
    put_text(s, "format", str_c(table->format));
    put_key(s, "tensors");
    text_put_literal(s, "[");
}

static void put_tail(struct text_sink *s, const struct document *d)
{
    text_put_literal(s, "],\"total\":{\"tensors\":");
    put_u64(s, d->tensors);
    put_number(s, "elements", d->elements);
    put_number(s, "bytes", d->bytes);
    text_put_literal(s, "}}");
}

/* add_head_or_tail - adds the part of the document before the rows or after them. False: out of memory. */
static bool add_head_or_tail(struct document *d, bool tail)
{
    struct text_sink s = {0};
    for (int writing = 0; writing < 2; writing++) { /* first measures the text */
        s = (struct text_sink){.out = writing ? d->text + d->len : NULL,
                               .cap = writing ? d->cap - d->len : 0};
        if (tail)
            put_tail(&s, d);
        else
            put_head(&s, d->table);
        if (!make_room(d, s.len))
            return false;
    }
    d->len += text_end(&s);
    return true;
}

static bool make_document(struct document *d)
{
    const ckpt_table_json_options *o = &d->table->o;
    size_t n = o->rows ? o->nrows : d->table->f->table.nrows;
    bool ok = add_head_or_tail(d, false);
    for (size_t i = 0; ok && i < n; i++) {
        ok = make_room(d, 1);
        if (ok && i)
            d->text[d->len++] = ',';
        ok = ok && add_row(d, o->rows ? o->rows[i] : (uint32_t)i);
    }
    return ok && add_head_or_tail(d, true);
}

ckpt_status table_json(const struct table_json *table, char **text, size_t *len, ckpt_error *err)
{
    struct document d = {.table = table};
    for (size_t i = 0; table->o.rows && i < table->o.nrows; i++)
        if (table->o.rows[i] >= table->f->table.nrows)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "row %" PRIu32 " of %zu", table->o.rows[i],
                        table->f->table.nrows);
    if (!make_document(&d)) {
        free(d.text);
        return fail_memory(err);
    }
    *text = d.text;
    *len = d.len;
    return CKPT_OK;
}
