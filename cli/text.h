/* text.h - text that grows, and functions that add numbers and names to it. If memory runs out, the program
 * ends with exit code 2. */
#pragma once

#include <stdarg.h>

#include "ckpt.h"

struct text {
    char *ptr; /* NULL until something is added, then NUL-terminated */
    size_t len, cap;
};

_Noreturn void mem_fail(void);                         /* prints "out of memory" and exits with 2 */
void *mem_new(size_t count, size_t size);              /* zeroed */
void *mem_grow(void *data, size_t count, size_t size); /* realloc to COUNT * SIZE bytes */
/* mem_make_room - returns the array DATA of COUNT items with room for one more. Must be called before each
 * item. */
void *mem_make_room(void *data, size_t count, size_t size);
/* mem_keep_freed - makes malloc keep freed memory, because a page from the kernel costs as much as a row of a
 * listing. mem_return_freed makes it return freed memory to the kernel as soon as possible. */
void mem_keep_freed(void);
void mem_return_freed(void);
void text_free(struct text *text);
void text_clear(struct text *text);
void text_cut(struct text *text, size_t len); /* keeps the first LEN bytes */
/* The functions below add to TEXT. */
void text_bytes(struct text *text, const char *string, size_t nbytes);
void text_byte(struct text *text, char character);
void text_insert_blanks(struct text *text, size_t at, size_t count); /* inserts COUNT blanks at offset AT */
void text_add(struct text *text, const char *string);
void text_addf(struct text *text, const char *fmt, ...) CKPT_PRINTF(2, 3);
void text_addv(struct text *text, const char *fmt, va_list ap) CKPT_PRINTF(2, 0);
/* text_name - adds NAME, bytes of a file or of the command line, escaped; in ASCII if the locale requires
 * it. */
void text_name(struct text *text, ckpt_str name);
/* text_readable - adds NAME as text_name does, but a backslash is not doubled: for texts that nobody pastes
 * as a name, such as values of metadata. */
void text_readable(struct text *text, ckpt_str name);
/* escape_name - returns TEXT, escaped as by text_name; show_size, show_count and show_noun - what text_size,
 * text_count and text_noun add. All of these are valid during the next eight calls of these functions. */
const char *escape_name(ckpt_str text);
const char *show_size(uint64_t nbytes);
const char *show_count(uint64_t count);
const char *show_noun(uint64_t count, const char *singular, const char *plural);
/* text_json_string - adds NAME as a JSON string. Returns false if bytes that are not UTF-8 were replaced. */
bool text_json_string(struct text *text, ckpt_str name);
void text_tensor_json(struct text *text, const ckpt_file *f, uint32_t row); /* as ckpt_tensor_json does */
void text_uint(struct text *text, uint64_t count);                          /* 1234 */
void text_size(struct text *text, uint64_t nbytes);                         /* 97.7 MiB */
void text_count(struct text *text, uint64_t count);                         /* 25.6 M */
void text_noun(struct text *text, uint64_t count, const char *singular,
               const char *plural); /* 1 tensor, 25.6 M tensors */
void text_dims(struct text *text, const uint64_t *dims, uint32_t ndim, const char *between); /* [64, 3] */
void text_shape(struct text *text, const ckpt_tensor *tensor); /* "?" where there is none */
void text_dtype(struct text *text, const ckpt_tensor *tensor);
/* text_leave_out - adds "leave out what cannot be read: -g '!NAME'", a hint to paste. */
void text_leave_out(struct text *text, ckpt_str name);
/* text_unread_reason - adds why TENSOR, for which ckpt_tensor_is_unread is true, cannot be read. */
void text_unread_reason(struct text *text, const ckpt_tensor *tensor);
/* text_unread - adds "2 tensors cannot be read, such as "m": meta, without data", of the COUNT unread tensors
 * of F, of which FIRST is the first. */
void text_unread(struct text *text, const ckpt_file *f, uint64_t count, uint32_t first);
void text_value(struct text *text, const ckpt_value *value, size_t nodes);
void text_error(struct text *text, const ckpt_error *err); /* as ckpt_error_text does */
void text_shell(struct text *text, const char *word);      /* quoted if a shell needs it */
/* text_operand - adds a file name as text_shell does, after "./" if it begins with "-" but is not "-", and
 * with "?QUERY" at the end if it is a URL whose query was cut. */
void text_operand(struct text *text, const char *path);
/* text_formats - adds the names of the formats that can be written, separated by BETWEEN, the last two by
 * LAST. */
void text_formats(struct text *text, const char *between, const char *last);
/* text_new_name - adds STEM with the suffix of PATH ("fixed.pth" for "dir/model.pth"), or the first of
 * "fixed-2.pth", … that does not exist and was not added for the PATH before. SUFFIX, if not NULL, replaces
 * that of PATH. */
void text_new_name(struct text *out, const char *stem, const char *path, const char *suffix);
/* compression_suffix_length - returns the length of the suffix of PATH if it is one of a compressed file or
 * archive (".gz", ".7z" …), else 0. */
size_t compression_suffix_length(const char *path);
bool text_is_printable(const char *word); /* true if WORD needs no escapes */
bool text_is_ascii(const char *text, size_t nbytes);
void text_hex(struct text *text, const uint8_t *bytes, size_t nbytes);
/* text_columns - returns how many columns of a terminal NBYTES bytes of UTF-8 take. */
size_t text_columns(const char *text, size_t nbytes);
/* text_len_fitting - returns how many bytes of TEXT fit into WIDTH columns; at least one character. */
size_t text_len_fitting(const char *text, size_t nbytes, size_t width);
ckpt_str str_c(const char *text);
bool str_is_equal(ckpt_str left, ckpt_str right);
bool str_begins(ckpt_str text, ckpt_str start);
