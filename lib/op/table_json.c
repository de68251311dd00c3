/* table_json.c - writes the rows of a file as JSON, for `ckpt ls --json` and other programs.
 * man/schema/ckpt.ls.v1.json describes the document. Rows are written without a tree of their values, since a
 * set of files may have 100,000. */
#include "op/table_json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"

/* --------------------------------------------------------------------- members */

/* PUT_KEY - writes what stands before the value of KEY, a literal, if it is not the first of an object. */
#define PUT_KEY(out, key) text_put_literal(out, ",\"" key "\":")

/* put_text - writes TEXT, the value of KEY; if it is not UTF-8, also its exact bytes, as a member KEY_hex. */
static void put_text(struct text_sink *out, const char *key, ckpt_str text)
{
    static const char digits[] = "0123456789abcdef";
    if (text_json(out, text))
        return;
    text_put_literal(out, ",\"");
    text_put_literal(out, key);
    text_put_literal(out, "_hex\":\"");
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        text_put(out, (char[]){digits[byte >> 4], digits[byte & 15]}, 2);
    }
    text_put_literal(out, "\"");
}

static void put_bool(struct text_sink *out, bool value) { text_put_literal(out, value ? "true" : "false"); }

static void put_number_or_null(struct text_sink *out, uint64_t number, uint64_t none)
{
    if (number == none)
        text_put_literal(out, "null");
    else
        text_put_uint(out, number);
}

static void put_list(struct text_sink *out, const uint64_t *numbers, uint32_t count)
{
    text_put_literal(out, "[");
    for (uint32_t i = 0; i < count; i++) {
        text_put_literal(out, i ? "," : "");
        text_put_uint(out, numbers[i]);
    }
    text_put_literal(out, "]");
}

static void put_path(struct text_sink *out, const ckpt_path_elem *path, uint32_t count)
{
    text_put_literal(out, "[");
    for (uint32_t i = 0; i < count; i++) {
        text_put_literal(out, i ? "," : "");
        if (path[i].is_int)
            text_put_int(out, path[i].num);
        else
            (void)text_json(out, path[i].str);
    }
    text_put_literal(out, "]");
}

/* ------------------------------------------------------------------------ rows */

/* put_stride - writes the stride of TENSOR. Computes it in STRIDE, which has room for tensor->ndim
 * numbers. */
static void put_stride(struct text_sink *out, const ckpt_tensor *tensor, uint64_t *stride)
{
    uint64_t step = 1; /* may wrap around if a size is 0 */
    for (uint32_t i = tensor->ndim; COUNT_DOWN(i); step *= tensor->shape[i] ? tensor->shape[i] : 1)
        stride[i] = tensor->stride ? tensor->stride[i] : step;
    put_list(out, stride, tensor->ndim);
}

static void put_row_name(struct text_sink *out, const char *key, const ckpt_file *f, uint32_t row)
{
    if (row == CKPT_NO_TENSOR)
        text_put_literal(out, "null");
    else
        put_text(out, key, table_name(&f->table, row));
}

/* put_row - writes TENSOR, a row of F; STRIDE has room for ndim numbers. */
static void put_row(struct text_sink *out, const ckpt_file *f, const ckpt_tensor *tensor, uint64_t *stride)
{
    text_put_literal(out, "{\"name\":");
    put_text(out, "name", tensor->name);
    PUT_KEY(out, "path");
    put_path(out, tensor->path, tensor->npath);
    if (tensor->dtype != CKPT_DT_NONE) {
        PUT_KEY(out, "dtype");
        put_text(out, "dtype", str_c(ckpt_tensor_dtype_name(tensor)));
    }
    if (tensor->has_shape) {
        PUT_KEY(out, "shape");
        put_list(out, tensor->shape, tensor->ndim);
        PUT_KEY(out, "elements");
        text_put_uint(out, tensor->elements);
    }
    PUT_KEY(out, "bytes");
    text_put_uint(out, tensor->has_data ? tensor->nbytes : 0);
    PUT_KEY(out, "kind");
    put_text(out, "kind", str_c(ckpt_kind_name((ckpt_kind)tensor->kind)));
    if (tensor->has_shape) {
        PUT_KEY(out, "stride");
        put_stride(out, tensor, stride);
    }
    PUT_KEY(out, "storage");
    put_number_or_null(out, tensor->storage, CKPT_NO_STORAGE);
    if (tensor->storage != CKPT_NO_STORAGE) {
        PUT_KEY(out, "storage_offset");
        text_put_uint(out, tensor->storage_offset);
    }
    PUT_KEY(out, "file_offset");
    put_number_or_null(out, tensor->file_offset, CKPT_NO_OFFSET);
    PUT_KEY(out, "requires_grad");
    put_bool(out, tensor->requires_grad);
    PUT_KEY(out, "parameter");
    put_bool(out, tensor->parameter);
    PUT_KEY(out, "alias_of");
    put_row_name(out, "alias_of", f, tensor->alias_of);
    PUT_KEY(out, "part_of");
    put_row_name(out, "part_of", f, tensor->part_of);
    text_put_literal(out, tensor->conj ? ",\"conj\":true" : "");
    text_put_literal(out, tensor->neg ? ",\"neg\":true" : "");
    if (tensor->klass.len) {
        PUT_KEY(out, "class");
        put_text(out, "class", tensor->klass);
    }
    if (tensor->location.len) {
        PUT_KEY(out, "location");
        put_text(out, "location", tensor->location);
    }
    if (tensor->note.len) {
        PUT_KEY(out, "note");
        put_text(out, "note", tensor->note);
    }
    text_put_literal(out, "}");
}

/* put_row_number - writes row INDEX of F. False: out of memory. */
static bool put_row_number(struct text_sink *out, const ckpt_file *f, uint32_t index)
{
    const ckpt_tensor t = table_tensor(&f->table, index);
    uint64_t few[16], *stride = few;
    if (t.has_shape && t.ndim > sizeof few / sizeof *few)
        stride = malloc(t.ndim * sizeof *stride);
    if (stride)
        put_row(out, f, &t, stride);
    if (stride != few)
        free(stride);
    return stride != NULL;
}

size_t ckpt_tensor_json(const ckpt_file *file, uint32_t index, char *out, size_t cap)
{
    const ckpt_file *f = file_or_empty(file);
    struct text_sink s = {.out = out, .cap = out ? cap : 0};
    if (index < f->table.nrows)
        (void)put_row_number(&s, f, index);
    return text_end(&s);
}

/* -------------------------------------------------------------------- document */

/* put_document - writes the whole document. False: out of memory. */
static bool put_document(struct text_sink *out, const struct table_json *table)
{
    const ckpt_table_json_options *o = &table->o;
    size_t n = o->rows ? o->nrows : table->f->table.nrows;
    uint64_t tensors = 0, elements = 0, bytes = 0;
    text_put_literal(out, "{\"schema\":\"ckpt.ls.v1\"");
    PUT_KEY(out, "file");
    put_text(out, "file", str_c(table->f->path));
    PUT_KEY(out, "format");
    put_text(out, "format", str_c(table->format));
    PUT_KEY(out, "tensors");
    for (size_t i = 0; i < n; i++) {
        uint32_t row = o->rows ? o->rows[i] : (uint32_t)i;
        const ckpt_tensor t = table_tensor(&table->f->table, row);
        text_put_literal(out, i ? "," : "[");
        if (!put_row_number(out, table->f, row))
            return false;
        tensors += t.part_of == CKPT_NO_TENSOR;
        if (t.has_data && t.alias_of == CKPT_NO_TENSOR) {
            elements = size_add(elements, t.elements);
            bytes = size_add(bytes, t.nbytes);
        }
    }
    text_put_literal(out, n ? "]" : "[]");
    text_put_literal(out, ",\"total\":{\"tensors\":");
    text_put_uint(out, tensors);
    PUT_KEY(out, "elements");
    text_put_uint(out, elements);
    PUT_KEY(out, "bytes");
    text_put_uint(out, bytes);
    text_put_literal(out, "}}");
    return true;
}

ckpt_status table_json(const struct table_json *table, char **text, size_t *len, ckpt_error *err)
{
    struct text_sink out = {0};
    for (size_t i = 0; table->o.rows && i < table->o.nrows; i++)
        if (table->o.rows[i] >= table->f->table.nrows)
            return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "row %" PRIu32 " of %zu", table->o.rows[i],
                        table->f->table.nrows);
    if (put_document(&out, table)) /* measures the text */
        out = (struct text_sink){.out = malloc(out.len + 1), .cap = out.len + 1};
    if (!out.out || !put_document(&out, table)) {
        free(out.out);
        return fail_memory(err);
    }
    *len = text_end(&out);
    *text = out.out;
    return CKPT_OK;
}
