#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "print.h"
#include "remote.h"

void mem_fail(void)
{
    fputs("ckpt: out of memory\n", stderr);
    ckpt_emergency_cleanup();
    _Exit(2);
}

void *mem_new(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        mem_fail();
    return p;
}

void *mem_grow(void *data, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        mem_fail();
    void *q = realloc(data, count && size ? count * size : 1);
    if (!q)
        mem_fail();
    return q;
}

void *mem_make_room(void *data, size_t count, size_t size)
{
    bool full = (count & (count - 1)) ==
                0; /* COUNT is 0 or a power of two; DATA then has room for exactly COUNT items */
    return full ? mem_grow(data, count ? 2 * count : 1, size) : data;
}

/* set_malloc_limits - makes glibc return freed memory to the kernel if a block has BLOCK bytes or more, or if
 * HEAP_END bytes are free at the end of the heap. By default, glibc raises these limits and keeps fragmented
 * memory. */
static void set_malloc_limits(int block, int heap_end)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, block);
    (void)mallopt(M_TRIM_THRESHOLD, heap_end);
#else
    (void)block;
    (void)heap_end;
#endif
}

void mem_keep_freed(void) { set_malloc_limits(1 << 20, 16 << 20); }

void mem_return_freed(void) { set_malloc_limits(128 << 10, 128 << 10); }

void text_free(struct text *text)
{
    free(text->ptr);
    *text = (struct text){0};
}

void text_cut(struct text *text, size_t len)
{
    text->len = len;
    if (text->ptr)
        text->ptr[len] = '\0';
}

void text_clear(struct text *text) { text_cut(text, 0); }

static void grow_text(struct text *text, size_t more)
{
    if (more >= SIZE_MAX / 4 - text->len)
        mem_fail();
    text->cap = (text->len + more + 64) * 2;
    text->ptr = mem_grow(text->ptr, text->cap, 1);
}

/* reserve - makes room for MORE bytes and a NUL. */
static inline void reserve(struct text *text, size_t more)
{
    if (text->cap - text->len <= more)
        grow_text(text, more);
}

void text_bytes(struct text *text, const char *string, size_t nbytes)
{
    reserve(text, nbytes);
    if (nbytes)
        memcpy(text->ptr + text->len, string, nbytes);
    text->len += nbytes;
    text->ptr[text->len] = '\0';
}

void text_byte(struct text *text, char character)
{
    reserve(text, 1);
    text->ptr[text->len++] = character;
    text->ptr[text->len] = '\0';
}

void text_insert_blanks(struct text *text, size_t at, size_t count)
{
    reserve(text, count);
    if (at < text->len)
        memmove(text->ptr + at + count, text->ptr + at, text->len - at);
    memset(text->ptr + at, ' ', count);
    text->len += count;
    text->ptr[text->len] = '\0';
}

void text_add(struct text *text, const char *string) { text_bytes(text, string, strlen(string)); }

void text_addv(struct text *text, const char *fmt, va_list ap)
{
    va_list ap_copy;
    va_copy(ap_copy, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        reserve(text, (size_t)n);
        vsnprintf(text->ptr + text->len, (size_t)n + 1, fmt, ap_copy);
        text->len += (size_t)n;
    }
    va_end(ap_copy);
}

void text_addf(struct text *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_addv(text, fmt, ap);
    va_end(ap);
}

ckpt_str str_c(const char *text) { return (ckpt_str){text, strlen(text)}; }

bool str_begins(ckpt_str text, ckpt_str start)
{
    return text.len >= start.len && (!start.len || memcmp(text.ptr, start.ptr, start.len) == 0);
}

bool str_is_equal(ckpt_str left, ckpt_str right) { return left.len == right.len && str_begins(left, right); }

/* append_written - appends the COUNT bytes that were just written to the free memory of TEXT, and returns
 * true. If not all of them fitted, makes room and returns false; the caller then writes them again. */
static bool append_written(struct text *text, size_t count)
{
    if (count >= text->cap - text->len) {
        reserve(text, count);
        return false;
    }
    text->len += count;
    return true;
}

void text_name(struct text *text, ckpt_str name)
{
    size_t from = text->len;
    reserve(text, name.len);
    while (!append_written(text, ckpt_text_escape(name, text->ptr + text->len, text->cap - text->len)))
        ;
    if (print_has_ascii_names())
        text_make_ascii(text, from, GLYPHS_NONE);
}

void text_readable(struct text *text, ckpt_str name)
{
    while (name.len) {
        const char *backslash = memchr(name.ptr, '\\', name.len);
        size_t n = backslash ? (size_t)(backslash - name.ptr) : name.len;
        text_name(text, (ckpt_str){name.ptr, n});
        if (backslash)
            text_byte(text, '\\');
        n += backslash != NULL;
        name = (ckpt_str){name.ptr + n, name.len - n};
    }
}

/* next_shown - returns an empty text that stays as it is during the next eight calls. */
static struct text *next_shown(void)
{
    static struct text texts[9];
    static size_t calls;
    struct text *t = &texts[calls++ % (sizeof texts / sizeof *texts)];
    text_clear(t);
    return t;
}

const char *escape_name(ckpt_str text)
{
    struct text *t = next_shown();
    text_name(t, text);
    return t->ptr;
}

const char *show_size(uint64_t nbytes)
{
    struct text *t = next_shown();
    text_size(t, nbytes);
    return t->ptr;
}

const char *show_count(uint64_t count)
{
    struct text *t = next_shown();
    text_count(t, count);
    return t->ptr;
}

const char *show_noun(uint64_t count, const char *singular, const char *plural)
{
    struct text *t = next_shown();
    text_noun(t, count, singular, plural);
    return t->ptr;
}

bool text_json_string(struct text *text, ckpt_str name)
{
    bool exact;
    reserve(text, name.len + 2);
    while (!append_written(text, ckpt_text_json(name, text->ptr + text->len, text->cap - text->len, &exact)))
        ;
    return exact;
}

void text_tensor_json(struct text *text, const ckpt_file *f, uint32_t row)
{
    size_t n;
    reserve(text, 256);
    while (!append_written(text, n = ckpt_tensor_json(f, row, text->ptr + text->len, text->cap - text->len)))
        ;
    if (!n)
        mem_fail();
}

void text_value(struct text *text, const ckpt_value *value, size_t nodes)
{
    size_t from = text->len;
    reserve(text, 80);
    while (!append_written(text, ckpt_value_text(value, nodes, text->ptr + text->len, text->cap - text->len)))
        ;
    if (print_has_ascii_names())
        text_make_ascii(text, from, GLYPHS_LIBRARY);
}

void text_error(struct text *text, const ckpt_error *err)
{
    char line[2048];
    size_t from = text->len;
    text_add(text, ckpt_error_text(err, line, sizeof line));
    text_make_ascii(text, from, GLYPHS_LIBRARY);
}

#define UINT_DIGITS 20

/* put_uint - writes the digits of NUMBER to OUT, at most UINT_DIGITS; returns where they end. */
static char *put_uint(char *out, uint64_t number)
{
    size_t digits = 1;
    for (uint64_t left = number; left >= 10; left /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; number /= 10)
        out[i] = (char)('0' + number % 10);
    return out + digits;
}

/* set_text_end - makes the text end at END, after bytes that were written past its old end. */
static void set_text_end(struct text *text, const char *end)
{
    text->len = (size_t)(end - text->ptr);
    text->ptr[text->len] = '\0';
}

void text_uint(struct text *text, uint64_t count)
{
    reserve(text, UINT_DIGITS);
    set_text_end(text, put_uint(text->ptr + text->len, count));
}

/* put_tenths - writes NUMBER like printf's %.1f: to the nearest tenth, a tie to the even one. NUMBER is from
 * 0 to 2^53 with at most 60 bits of fraction. printf takes ten times as long, and a listing has very many
 * sizes. */
static char *put_tenths(char *out, double number)
{
    const uint64_t fixed_one = UINT64_C(1) << 60; /* 1.0 in fixed point with 60 bits of fraction */
    uint64_t integer = (uint64_t)number,
             fraction = (uint64_t)((number - (double)integer) * (double)fixed_one);
    uint64_t tenths = fraction * 10 / fixed_one, remainder = fraction * 10 % fixed_one;
    if (remainder > fixed_one / 2 || (remainder == fixed_one / 2 && tenths % 2))
        tenths++;
    out = put_uint(out, integer + tenths / 10);
    *out++ = '.';
    *out++ = (char)('0' + tenths % 10);
    return out;
}

void text_size(struct text *text, uint64_t nbytes)
{
    static const char prefixes[] = "KMGTPE";
    double v = (double)nbytes / 1024;
    size_t unit = 0;
    if (nbytes < 1024) {
        text_uint(text, nbytes);
        text_add(text, " B");
        return;
    }
    for (; v >= 1024 - 0.05 && prefixes[unit + 1]; unit++) /* such a V would be printed as 1024.0 or more */
        v /= 1024;
    reserve(text, UINT_DIGITS + 8);
    char *end = put_tenths(text->ptr + text->len, v);
    *end++ = ' ';
    *end++ = prefixes[unit];
    *end++ = 'i';
    *end++ = 'B';
    set_text_end(text, end);
}

void text_count(struct text *text, uint64_t count)
{
    static const char prefixes[] = "MGTPE";
    double v = (double)count / 1e6;
    size_t unit = 0;
    if (count < 1000000) {
        text_uint(text, count);
        return;
    }
    for (; v >= 1000 - 0.05 && prefixes[unit + 1]; unit++) /* such a V would be printed as 1000.0 or more */
        v /= 1000;
    text_addf(text, "%.1f %c", v, prefixes[unit]);
}

void text_noun(struct text *text, uint64_t count, const char *singular, const char *plural)
{
    text_count(text, count);
    text_byte(text, ' ');
    text_add(text, count == 1 ? singular : plural);
}

void text_dims(struct text *text, const uint64_t *dims, uint32_t ndim, const char *between)
{
    size_t gap = strlen(between);
    reserve(text, 2 + ndim * (gap + UINT_DIGITS));
    char *end = text->ptr + text->len;
    *end++ = '[';
    for (uint32_t i = 0; i < ndim; i++) {
        if (i)
            end = (char *)memcpy(end, between, gap) + gap;
        end = put_uint(end, dims[i]);
    }
    *end++ = ']';
    set_text_end(text, end);
}

void text_shape(struct text *text, const ckpt_tensor *tensor)
{
    if (tensor->has_shape)
        text_dims(text, tensor->shape, tensor->ndim, ", ");
    else
        text_add(text, "?");
}

void text_leave_out(struct text *text, ckpt_str name)
{
    struct text glob = {0};
    text_add(&glob, "!");
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] && strchr("*?[\\", name.ptr[i]))
            text_byte(&glob, '\\');
        text_byte(&glob, name.ptr[i]);
    }
    text_add(text, "leave out what cannot be read: -g ");
    text_shell(text, glob.ptr);
    text_free(&glob);
}

void text_unread_reason(struct text *text, const ckpt_tensor *tensor)
{
    if (tensor->kind == CKPT_NDARRAY)
        text_add(text, "an array of objects");
    else if (tensor->kind == CKPT_META || tensor->kind == CKPT_UNINITIALIZED || !tensor->note.len)
        text_addf(text, "%s, without data", ckpt_kind_name((ckpt_kind)tensor->kind));
    else
        text_add(text, escape_name(tensor->note));
}

void text_unread(struct text *text, const ckpt_file *f, uint64_t count, uint32_t first)
{
    ckpt_tensor x = CKPT_INIT(ckpt_tensor);
    (void)ckpt_tensor_at(f, first, &x);
    text_noun(text, count, "tensor", "tensors");
    text_addf(text, " cannot be read, such as \"%s\": ", escape_name(x.name));
    text_unread_reason(text, &x);
}

void text_dtype(struct text *text, const ckpt_tensor *tensor)
{
    const char *name = ckpt_tensor_dtype_name(tensor);
    if (tensor->dtype == CKPT_DT_NONE || !*name)
        text_add(text, ckpt_kind_name((ckpt_kind)tensor->kind));
    else
        text_add(text, name);
}

bool text_is_printable(const char *word)
{
    char escaped[512];
    if (print_has_ascii_names() && !text_is_ascii(word, strlen(word)))
        return false;
    for (const char *p = word; *p;) {
        size_t n = 0; /* bytes of characters beyond ASCII */
        while ((unsigned char)p[n] >= 0x80 && (n < 64 || ((unsigned char)p[n] & 0xc0) == 0x80) && n < 128)
            n++; /* 64 bytes or a few more, so that no character is cut */
        size_t escaped_len = n ? ckpt_text_escape((ckpt_str){p, n}, escaped, sizeof escaped) : 0;
        if (escaped_len != n || memcmp(escaped, p, n) != 0)
            return false;
        if (!n && ((unsigned char)*p < 0x20 || *p == 0x7f))
            return false;
        p += n ? n : 1;
    }
    return true;
}

/* shell_bytes - adds WORD in the quotes $'…' of bash, zsh and ksh, with bytes that cannot be printed as
 * \NNN. */
static void shell_bytes(struct text *text, const char *word)
{
    text_add(text, "$'");
    for (const char *p = word; *p; p++) {
        if (*p == '\'' || *p == '\\')
            text_addf(text, "\\%c", *p);
        else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            text_addf(text, "\\%03o", (unsigned)(unsigned char)*p); /* not \x: some shells take more digits */
        else
            text_bytes(text, p, 1);
    }
    text_add(text, "'");
}

void text_shell(struct text *text, const char *word)
{
    static const char unquoted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
    if (*word && word[strspn(word, unquoted)] == '\0') {
        text_add(text, word);
        return;
    }
    if (!text_is_printable(word)) {
        shell_bytes(text, word);
        return;
    }
    text_add(text, "'");
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            text_add(text, "'\\''");
        else
            text_bytes(text, p, 1);
    }
    text_add(text, "'");
}

void text_operand(struct text *text, const char *path)
{
    if (path[0] == '-' && path[1])
        text_add(text, "./");
    struct text word = {0};
    text_addf(&word, "%s%s", path, remote_is_without_query(path) ? "?QUERY" : "");
    text_shell(text, word.ptr);
    text_free(&word);
}

void text_formats(struct text *text, const char *between, const char *last)
{
    const char *name, *next = ckpt_write_format_at(0);
    for (size_t i = 0; (name = next); i++) {
        next = ckpt_write_format_at(i + 1);
        text_add(text, !i ? "" : next ? between : last);
        text_add(text, name);
    }
}

size_t compression_suffix_length(const char *path)
{
    static const char *const suffixes[] = {".gz", ".zst", ".xz", ".bz2", ".lz4", ".7z", ".rar"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(dot, suffixes[i]) == 0)
            return strlen(dot);
    return 0;
}

#define MAX_FIXED_NAMES 1000

static bool is_taken(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

/* The last file for which a name was proposed, and the number in that name: the next file gets another. */
static struct {
    struct text path;
    int number;
} proposed;

void text_new_name(struct text *out, const char *stem, const char *path, const char *suffix)
{
    struct text name = {0}, unused = {0};
    text_bytes(&name, path, strlen(path) - compression_suffix_length(path));
    const char *slash = strrchr(name.ptr, '/'), *dot = strrchr(slash ? slash : name.ptr, '.');
    if (!suffix && dot && dot[1] && strlen(dot) <= 12 &&
        dot[1 + strspn(dot + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")] == '\0')
        suffix = dot - name.ptr > 4 && strcmp(dot - 4, ".pth.tar") == 0 ? dot - 4 : dot;
    bool is_same = proposed.path.ptr && strcmp(proposed.path.ptr, path) == 0;
    for (int i = is_same ? proposed.number : proposed.number + 1;; i++) {
        text_clear(&unused);
        text_addf(&unused, "%s", stem);
        if (i > 1)
            text_addf(&unused, "-%d", i);
        text_add(&unused, suffix ? suffix : "");
        proposed.number = i;
        if (i >= MAX_FIXED_NAMES || !is_taken(unused.ptr))
            break;
    }
    text_clear(&proposed.path);
    text_add(&proposed.path, path);
    text_add(out, unused.ptr);
    text_free(&unused);
    text_free(&name);
}

void text_hex(struct text *text, const uint8_t *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        text_addf(text, "%02x", bytes[i]);
}

/* is_wide - returns true if CHARACTER takes two columns: East Asian wide characters and emoji. */
static bool is_wide(uint32_t character)
{
    static const uint32_t range[][2] = {
        {0x1100, 0x115f}, {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
        {0xa000, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
        {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
    };
    if (character < 0x1100)
        return false;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (character >= range[i][0] && character <= range[i][1])
            return true;
    return false;
}

/* measure_char - returns the length of the character at TEXT, where NBYTES bytes are left, and sets *COLUMNS
 * to its columns. TEXT is UTF-8, because text_name escapes everything else. */
static size_t measure_char(const char *text, size_t nbytes, size_t *columns)
{
    unsigned char c = (unsigned char)*text;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (len > nbytes)
        len = nbytes;
    uint32_t code = len == 1 ? c : c & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    bool is_combining = code >= 0x300 && code <= 0x36f;
    *columns = is_combining ? 0 : is_wide(code) ? 2 : 1;
    return len;
}

static uint64_t load_8_bytes(const char *text)
{
    uint64_t x;
    memcpy(&x, text, sizeof x);
    return x;
}

bool text_is_ascii(const char *text, size_t nbytes)
{
    uint64_t seen = 0;
    if (nbytes < 8) {
        while (nbytes)
            seen |= (unsigned char)text[--nbytes];
        return !(seen & 0x80);
    }
    for (size_t i = 0; i < nbytes - 8; i += 8)
        seen |= load_8_bytes(text + i);
    return !((seen | load_8_bytes(text + nbytes - 8)) & UINT64_C(0x8080808080808080));
}

size_t text_columns(const char *text, size_t nbytes)
{
    size_t columns = 0, char_columns;
    if (text_is_ascii(text, nbytes))
        return nbytes;
    for (size_t i = 0; i < nbytes; columns += char_columns)
        i += measure_char(text + i, nbytes - i, &char_columns);
    return columns;
}

size_t text_len_fitting(const char *text, size_t nbytes, size_t width)
{
    size_t i = 0, columns = 0, char_columns;
    while (i < nbytes) {
        size_t len = measure_char(text + i, nbytes - i, &char_columns);
        if (i && columns + char_columns > width)
            break;
        columns += char_columns;
        i += len;
    }
    return i;
}
