/* json.h - JSON output. A value is built in memory and then printed; long arrays are printed row by row. If
 * memory runs out, the program ends.
 *
 * Text is printed as UTF-8. Each byte that is not UTF-8 (the three of a lone surrogate included) becomes
 * U+FFFD, and a second key KEY_hex holds the exact bytes. Control characters are written \uXXXX. Integers
 * are exact whatever their size. Floats are the shortest text that reads back equal; NaN and the infinities
 * are the strings "NaN", "Infinity", "-Infinity". */
#pragma once

#include <stdio.h>

#include "ckpt.h"

typedef struct json json;

json *json_object(void);
json *json_schema(const char *schema); /* makes an object whose first key is "schema" */
void json_free(json *object);
/* These add a value to PARENT. If PARENT is an object, KEY must outlive it, and json_str may add KEY_hex. If
 * PARENT is an array, KEY is NULL. */
void json_str(json *parent, const char *key, ckpt_str text);
void json_text(json *parent, const char *key, const char *text);
void json_u64(json *parent, const char *key, uint64_t number);
void json_real(json *parent, const char *key, double number);
void json_real_or_null(json *parent, const char *key, double number); /* null for NaN */
void json_hex(json *parent, const char *key, const uint8_t *bytes, size_t nbytes);
void json_bool(json *parent, const char *key, bool flag);
void json_null(json *parent, const char *key);
void json_raw(json *parent, const char *key, const char *raw); /* RAW: any JSON */
json *json_add_object(json *parent, const char *key);
json *json_add_array(json *parent, const char *key);
void json_u64s(json *parent, const char *key, const uint64_t *number, size_t count);
void json_path(json *parent, const char *key, const ckpt_path_elem *path, uint32_t count);
/* json_tensor - adds name, path, dtype and shape of TENSOR. */
void json_tensor(json *parent, const ckpt_tensor *tensor);
/* json_alias - adds {"name", "of"} to LIST: NAME shows the same bytes as OF. */
void json_alias(json *list, ckpt_str name, ckpt_str of);
/* json_rename - adds {"from", "to"} to LIST. */
void json_rename(json *list, ckpt_str from, ckpt_str to);
/* json_leaf - adds path, type and value of LEAF, which is not a tensor. */
void json_leaf(json *parent, const ckpt_leaf *leaf);
/* json_value - adds VALUE: numbers, text, true and null as themselves, other values as the text that `ckpt
 * show` prints. */
void json_value(json *parent, const char *key, const ckpt_value *value);
/* json_list - adds LIST, a list or tuple, as an array; lists in it are arrays, too, down to a depth of 16.
 * Adds nothing if that would be a million items or more. */
void json_list(json *parent, const char *key, const ckpt_value *list);

/* json_format - adds "format"; null if the format is not known (FORMAT NULL). */
void json_format(json *parent, const char *format);
/* json_totals - adds an object of three sums, and returns it. */
json *json_totals(json *parent, const char *key, uint64_t tensors, uint64_t elements, uint64_t nbytes);

/* json_error - adds the fields of ERR that are set: offset, place, message, found, allowed and hint. */
void json_error(json *parent, const ckpt_error *err);

/* json_line - prints OBJECT and a newline, frees OBJECT. */
void json_line(json *object, FILE *stream);
/* These print one object in pieces: the members of HEAD, the rows of an array, the members of TAIL. */
void json_begin_rows(json *head, const char *rows_key, FILE *stream);
void json_row(json *row, FILE *stream);
void json_tensor_row(const ckpt_file *f, uint32_t row, FILE *stream); /* as ckpt_tensor_json makes it */
/* json_begin_list - prints `"KEY":[`; after the last json_row, the caller prints "]". */
void json_begin_list(const char *key, FILE *stream);
/* json_merge_rows - returns true if a row was printed since json_begin_rows, by this process or by a child
 * that returned CHILD_HAS_ROWS. The next row then begins with a comma. */
bool json_merge_rows(bool child_has_rows);
void json_end_rows(json *tail, FILE *stream); /* TAIL may be NULL */
/* json_print_head - prints the members of HEAD and `"KEY":`; the caller prints the value and "}". */
void json_print_head(json *head, const char *key, FILE *stream);
