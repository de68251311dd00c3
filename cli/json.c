/* json.c - JSON output; the only file that uses cJSON. Numbers and text are added as raw JSON, because cJSON
 * stores numbers as double and cuts text at NUL. The library writes texts (ckpt_text_json) and the rows of
 * `ckpt ls` (ckpt_tensor_json), which would take four times as long as objects of cJSON. */
#include "json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "number.h"
#include "text.h"

static cJSON *check_item(cJSON *item)
{
    if (!item)
        mem_fail();
    return item;
}

static void add_item(json *parent, const char *key, cJSON *item)
{
    cJSON *container = (cJSON *)parent;
    check_item(item);
    if (!(key ? cJSON_AddItemToObjectCS(container, key, item) : cJSON_AddItemToArray(container, item)))
        mem_fail();
}

json *json_object(void) { return (json *)check_item(cJSON_CreateObject()); }

json *json_schema(const char *schema)
{
    json *j = json_object();
    json_text(j, "schema", schema);
    return j;
}

void json_free(json *object) { cJSON_Delete((cJSON *)object); }

/* -------------------------------------------------------------------- text */

/* add_hex_twin - adds the exact bytes of TEXT under "KEY_hex", next to its text under KEY. */
static void add_hex_twin(json *parent, const char *key, ckpt_str text)
{
    struct text twin = {0}, hex = {0};
    text_addf(&twin, "%s_hex", key);
    text_hex(&hex, (const uint8_t *)text.ptr, text.len);
    if (!cJSON_AddItemToObject((cJSON *)parent, twin.ptr, check_item(cJSON_CreateString(hex.ptr))))
        mem_fail();
    text_free(&twin);
    text_free(&hex);
}

void json_str(json *parent, const char *key, ckpt_str text)
{
    static struct text t;
    text_clear(&t);
    bool exact = text_json_string(&t, text);
    add_item(parent, key, cJSON_CreateRaw(t.ptr));
    if (!exact && key)
        add_hex_twin(parent, key, text);
}

void json_text(json *parent, const char *key, const char *text) { json_str(parent, key, str_c(text)); }

/* ------------------------------------------------------------------ others */

void json_raw(json *parent, const char *key, const char *raw) { add_item(parent, key, cJSON_CreateRaw(raw)); }

/* add_integer - adds MAGNITUDE, or -MAGNITUDE if IS_NEGATIVE. */
static void add_integer(json *parent, const char *key, uint64_t magnitude, bool is_negative)
{
    static struct text t;
    text_clear(&t);
    text_add(&t, is_negative ? "-" : "");
    text_uint(&t, magnitude);
    json_raw(parent, key, t.ptr);
}

void json_u64(json *parent, const char *key, uint64_t number) { add_integer(parent, key, number, false); }

static void add_i64(json *parent, const char *key, int64_t number)
{
    add_integer(parent, key, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, number < 0);
}

void json_real(json *parent, const char *key, double number)
{
    char text[NUMBER_TEXT_SIZE];
    json_raw(parent, key, real_json(number, false, text));
}

void json_real_or_null(json *parent, const char *key, double number)
{
    if (isnan(number))
        json_null(parent, key);
    else
        json_real(parent, key, number);
}

void json_hex(json *parent, const char *key, const uint8_t *bytes, size_t nbytes)
{
    struct text hex = {0};
    text_hex(&hex, bytes, nbytes);
    json_text(parent, key, hex.ptr ? hex.ptr : "");
    text_free(&hex);
}

void json_bool(json *parent, const char *key, bool flag) { add_item(parent, key, cJSON_CreateBool(flag)); }

void json_null(json *parent, const char *key) { add_item(parent, key, cJSON_CreateNull()); }

json *json_add_object(json *parent, const char *key)
{
    cJSON *item = check_item(cJSON_CreateObject());
    add_item(parent, key, item);
    return (json *)item;
}

json *json_add_array(json *parent, const char *key)
{
    cJSON *item = check_item(cJSON_CreateArray());
    add_item(parent, key, item);
    return (json *)item;
}

void json_u64s(json *parent, const char *key, const uint64_t *number, size_t count)
{
    json *array = json_add_array(parent, key);
    for (size_t i = 0; i < count; i++)
        json_u64(array, NULL, number[i]);
}

void json_path(json *parent, const char *key, const ckpt_path_elem *path, uint32_t count)
{
    json *array = json_add_array(parent, key);
    for (uint32_t i = 0; i < count; i++)
        if (path[i].is_int)
            add_i64(array, NULL, path[i].num);
        else
            json_str(array, NULL, path[i].str);
}

/* add_as_text - adds VALUE as a string, as `ckpt show` prints it, but a large integer as a number. */
static void add_as_text(json *parent, const char *key, const ckpt_value *value)
{
    enum { MAX_NODES = 10000 };
    struct text t = {0};
    text_value(&t, value, MAX_NODES);
    if (ckpt_value_get_type(value) == CKPT_V_BIGINT && t.len && t.ptr[strspn(t.ptr, "-0123456789")] == '\0')
        json_raw(parent, key, t.ptr);
    else
        json_text(parent, key, t.ptr);
    text_free(&t);
}

/* is_unloaded_text - returns true if VALUE is a text that was not loaded because of its length:
 * ckpt_value_str() is empty, but its printed form is not. */
static bool is_unloaded_text(const ckpt_value *value)
{
    char shown[8];
    return ckpt_value_str(value).len == 0 && ckpt_value_text(value, 1, shown, sizeof shown) > 2;
}

void json_value(json *parent, const char *key, const ckpt_value *value)
{
    switch (value ? ckpt_value_get_type(value) : CKPT_V_NONE) {
    case CKPT_V_NONE: json_null(parent, key); break;
    case CKPT_V_BOOL: json_bool(parent, key, ckpt_value_bool(value)); break;
    case CKPT_V_INT: add_i64(parent, key, ckpt_value_int(value)); break;
    case CKPT_V_FLOAT: json_real(parent, key, ckpt_value_float(value)); break;
    case CKPT_V_STR:
    case CKPT_V_STR8:
        if (is_unloaded_text(value))
            add_as_text(parent, key, value);
        else
            json_str(parent, key, ckpt_value_str(value));
        break;
    default: add_as_text(parent, key, value);
    }
}

/* A list whose items are being added to an array. */
struct open_list {
    const ckpt_value *list;
    json *array;
    size_t next; /* the item that is added next */
};

static bool is_list(const ckpt_value *value)
{
    ckpt_value_type type = value ? ckpt_value_get_type(value) : CKPT_V_NONE;
    return type == CKPT_V_LIST || type == CKPT_V_TUPLE;
}

void json_list(json *parent, const char *key, const ckpt_value *list)
{
    /* A list that is shared or contains itself could be written out without end. */
    enum { MAX_DEPTH = 16, MAX_ITEMS = 1000000 };
    struct open_list open[MAX_DEPTH] = {{list, (json *)check_item(cJSON_CreateArray()), 0}};
    size_t depth = 1, nitems = 0;
    const ckpt_value *no_key, *item;
    while (depth && nitems < MAX_ITEMS) {
        struct open_list *top = &open[depth - 1];
        if (!ckpt_value_item(top->list, top->next++, &no_key, &item)) {
            depth--;
            continue;
        }
        nitems++;
        if (is_list(item) && depth < MAX_DEPTH)
            open[depth++] = (struct open_list){item, json_add_array(top->array, NULL), 0};
        else
            json_value(top->array, NULL, item);
    }
    if (depth)
        json_free(open[0].array);
    else
        add_item(parent, key, (cJSON *)open[0].array);
}

void json_tensor(json *parent, const ckpt_tensor *tensor)
{
    json_str(parent, "name", tensor->name);
    json_path(parent, "path", tensor->path, tensor->npath);
    if (tensor->dtype != CKPT_DT_NONE)
        json_text(parent, "dtype", ckpt_tensor_dtype_name(tensor));
    if (tensor->has_shape)
        json_u64s(parent, "shape", tensor->shape, tensor->ndim);
}

void json_alias(json *list, ckpt_str name, ckpt_str of)
{
    json *item = json_add_object(list, NULL);
    json_str(item, "name", name);
    json_str(item, "of", of);
}

void json_rename(json *list, ckpt_str from, ckpt_str to)
{
    json *item = json_add_object(list, NULL);
    json_str(item, "from", from);
    json_str(item, "to", to);
}

void json_leaf(json *parent, const ckpt_leaf *leaf)
{
    char type[256];
    json_path(parent, "path", leaf->path, leaf->npath);
    json_text(parent, "type", ckpt_value_type_name(leaf->value, type, sizeof type));
    json_value(parent, "value", leaf->value);
}

void json_format(json *parent, const char *format)
{
    if (format)
        json_text(parent, "format", format);
    else
        json_null(parent, "format");
}

json *json_totals(json *parent, const char *key, uint64_t tensors, uint64_t elements, uint64_t nbytes)
{
    json *j = json_add_object(parent, key);
    json_u64(j, "tensors", tensors);
    json_u64(j, "elements", elements);
    json_u64(j, "bytes", nbytes);
    return j;
}

/* ---------------------------------------------------------------- printing */

/* print_item - prints OBJECT without its first SKIP_START and its last SKIP_END characters, and frees
 * OBJECT. */
static void print_item(json *object, size_t skip_start, size_t skip_end, FILE *stream)
{
    char *text = cJSON_PrintBuffered((cJSON *)object, 512, 0);
    if (!text)
        mem_fail();
    size_t n = strlen(text);
    fwrite(text + skip_start, 1, n - skip_start - skip_end, stream);
    cJSON_free(text);
    json_free(object);
}

void json_error(json *parent, const ckpt_error *err)
{
    if (err->offset != CKPT_NO_OFFSET)
        json_u64(parent, "offset", err->offset);
    if (err->where[0])
        json_text(parent, "where", err->where);
    json_text(parent, "message", err->what);
    if (err->found[0])
        json_text(parent, "found", err->found);
    if (err->allowed[0])
        json_text(parent, "allowed", err->allowed);
    if (err->hint[0])
        json_text(parent, "hint", err->hint);
}

void json_line(json *object, FILE *stream)
{
    print_item(object, 0, 0, stream);
    fputc('\n', stream);
}

static bool is_list_empty; /* no row was printed since json_begin_list */

void json_print_head(json *head, const char *key, FILE *stream)
{
    print_item(head, 0, 1, stream);
    fprintf(stream, ",\"%s\":", key);
}

void json_begin_list(const char *key, FILE *stream)
{
    fprintf(stream, "\"%s\":[", key);
    is_list_empty = true;
}

void json_begin_rows(json *head, const char *rows_key, FILE *stream)
{
    print_item(head, 0, 1, stream);
    fputc(',', stream);
    json_begin_list(rows_key, stream);
}

static void begin_row(FILE *stream)
{
    if (!is_list_empty)
        fputc(',', stream);
    is_list_empty = false;
}

void json_row(json *row, FILE *stream)
{
    begin_row(stream);
    print_item(row, 0, 0, stream);
}

void json_tensor_row(const ckpt_file *f, uint32_t row, FILE *stream)
{
    static struct text t;
    text_clear(&t);
    text_tensor_json(&t, f, row);
    begin_row(stream);
    fwrite(t.ptr, 1, t.len, stream);
}

bool json_merge_rows(bool child_has_rows)
{
    is_list_empty = is_list_empty && !child_has_rows;
    return !is_list_empty;
}

void json_end_rows(json *tail, FILE *stream)
{
    fputc(']', stream);
    if (tail) {
        fputc(',', stream);
        print_item(tail, 1, 0, stream);
    } else {
        fputc('}', stream);
    }
    fputc('\n', stream);
}
