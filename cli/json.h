/* json.h - JSON output. A value is built in memory, one row at a time; long
 * arrays are streamed. Memory that runs out ends the program.
 *
 * Text is printed as UTF-8. Each byte that is not (a lone surrogate's three
 * included) becomes U+FFFD, and a twin key NAME_hex holds the exact bytes.
 * Characters that act on terminals are written \uXXXX. Integers are exact
 * whatever their size. Floats are the shortest text that reads back equal;
 * NaN and the infinities are the strings "NaN", "Infinity", "-Infinity". */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdio.h>

#include "ckpt.h"

typedef struct json json;

json *json_object(void);
json *json_schema(const char *schema); /* an object that opens with its schema */
void json_free(json *j);
/* Adding to an object under KEY (text that outlives it), or to an array (KEY
 * NULL). json_str writes the _hex twin; it needs a key to do so. */
void json_str(json *to, const char *key, ckpt_str s);
void json_text(json *to, const char *key, const char *s);
void json_u64(json *to, const char *key, uint64_t n);
void json_real(json *to, const char *key, double d);
void json_bool(json *to, const char *key, bool b);
void json_null(json *to, const char *key);
void json_raw(json *to, const char *key, const char *json_text);
json *json_add_object(json *to, const char *key);
json *json_add_array(json *to, const char *key);
void json_u64s(json *to, const char *key, const uint64_t *n, size_t count);
void json_path(json *to, const char *key, const ckpt_path_elem *path, uint32_t n);
/* json_tensor - name, path, dtype and shape of a row: how each of them opens. */
void json_tensor(json *to, const ckpt_tensor *t);
/* json_alias - {"name", "of"} at the end of LIST: NAME shows the same bytes as OF. */
void json_alias(json *list, ckpt_str name, ckpt_str of);
/* json_leaf - path, type and value of what is not a tensor. */
void json_leaf(json *to, const ckpt_leaf *leaf);
/* json_value - a value of the file: numbers, text, true, null as themselves,
 * everything else as the text that `ckpt show` prints. */
void json_value(json *to, const char *key, const ckpt_value *v);

/* json_format - "format", null where the file is of none that is known (FORMAT NULL). */
void json_format(json *to, const char *format);
void json_totals(json *to, const char *key, uint64_t tensors, uint64_t elements, uint64_t nbytes);

/* json_values - what was found and what was expected, if ERR has them. */
void json_values(json *to, const ckpt_error *err);

/* json_line - prints J and a newline, frees J. */
void json_line(json *j, FILE *to);
/* One object in pieces: head's members, rows of one array, tail's members. */
void json_begin(json *head, const char *rows_key, FILE *to);
void json_row(json *row, FILE *to);
void json_row_text(const char *row, size_t n, FILE *to); /* one that is text already */
/* json_list - `"KEY":[` anywhere; json_row, and the caller prints "]". */
void json_list(const char *key, FILE *to);
/* json_has_rows - was a row printed since json_begin? SET: another process printed one. */
bool json_has_rows(bool set);
void json_end(json *tail, FILE *to); /* TAIL may be NULL */
/* json_open - head's members and `"KEY":`; the caller prints the value and "}". */
void json_open(json *head, const char *key, FILE *to);

#endif
