#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "print.h"

void mem_fail(void)
{
    fputs("ckpt: out of memory\n", stderr);
    ckpt_emergency_cleanup();
    _Exit(2);
}

void *mem_new(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        mem_fail();
    return p;
}

void *mem_grow(void *p, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        mem_fail();
    void *q = realloc(p, n && size ? n * size : 1);
    if (!q)
        mem_fail();
    return q;
}

void *mem_make_room(void *p, size_t n, size_t size)
{
    bool full = (n & (n - 1)) == 0; /* N is 0 or a power of two; P then has room for exactly N items */
    return full ? mem_grow(p, n ? 2 * n : 1, size) : p;
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

void mem_keep_freed(void) { set_malloc_limits(4 << 20, 16 << 20); }

void mem_return_freed(void) { set_malloc_limits(128 << 10, 128 << 10); }

void text_free(struct text *t)
{
    free(t->ptr);
    *t = (struct text){0};
}

void text_cut(struct text *t, size_t len)
{
    t->len = len;
    if (t->ptr)
        t->ptr[len] = '\0';
}

void text_clear(struct text *t) { text_cut(t, 0); }

static void grow_text(struct text *t, size_t more)
{
    if (more >= SIZE_MAX / 4 - t->len)
        mem_fail();
    t->cap = (t->len + more + 64) * 2;
    t->ptr = mem_grow(t->ptr, t->cap, 1);
}

/* reserve - makes room for MORE bytes and a NUL. */
static inline void reserve(struct text *t, size_t more)
{
    if (t->cap - t->len <= more)
        grow_text(t, more);
}

void text_bytes(struct text *t, const char *p, size_t n)
{
    reserve(t, n);
    if (n)
        memcpy(t->ptr + t->len, p, n);
    t->len += n;
    t->ptr[t->len] = '\0';
}

void text_byte(struct text *t, char c)
{
    reserve(t, 1);
    t->ptr[t->len++] = c;
    t->ptr[t->len] = '\0';
}

void text_insert_blanks(struct text *t, size_t at, size_t n)
{
    reserve(t, n);
    if (at < t->len)
        memmove(t->ptr + at + n, t->ptr + at, t->len - at);
    memset(t->ptr + at, ' ', n);
    t->len += n;
    t->ptr[t->len] = '\0';
}

void text_add(struct text *t, const char *s) { text_bytes(t, s, strlen(s)); }

void text_addv(struct text *t, const char *fmt, va_list ap)
{
    va_list ap_copy;
    va_copy(ap_copy, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        reserve(t, (size_t)n);
        vsnprintf(t->ptr + t->len, (size_t)n + 1, fmt, ap_copy);
        t->len += (size_t)n;
    }
    va_end(ap_copy);
}

void text_addf(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_addv(t, fmt, ap);
    va_end(ap);
}

ckpt_str str_of(const char *s) { return (ckpt_str){s, strlen(s)}; }

bool str_begins(ckpt_str s, ckpt_str start)
{
    return s.len >= start.len && (!start.len || memcmp(s.ptr, start.ptr, start.len) == 0);
}

bool str_is_equal(ckpt_str a, ckpt_str b) { return a.len == b.len && str_begins(a, b); }

/* append_written - appends the N bytes that were just written to the free memory of T, and returns true. If
 * not all of them fitted, makes room and returns false; the caller then writes them again. */
static bool append_written(struct text *t, size_t n)
{
    if (n >= t->cap - t->len) {
        reserve(t, n);
        return false;
    }
    t->len += n;
    return true;
}

void text_name(struct text *t, ckpt_str s)
{
    size_t from = t->len;
    reserve(t, s.len);
    while (!append_written(t, ckpt_text_escape(s, t->ptr + t->len, t->cap - t->len)))
        ;
    if (print_has_ascii_names())
        text_make_ascii(t, from, GLYPHS_NONE);
}

void text_readable(struct text *t, ckpt_str s)
{
    while (s.len) {
        const char *backslash = memchr(s.ptr, '\\', s.len);
        size_t n = backslash ? (size_t)(backslash - s.ptr) : s.len;
        text_name(t, (ckpt_str){s.ptr, n});
        if (backslash)
            text_byte(t, '\\');
        n += backslash != NULL;
        s = (ckpt_str){s.ptr + n, s.len - n};
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

const char *escape_name(ckpt_str s)
{
    struct text *t = next_shown();
    text_name(t, s);
    return t->ptr;
}

const char *show_size(uint64_t nbytes)
{
    struct text *t = next_shown();
    text_size(t, nbytes);
    return t->ptr;
}

const char *show_count(uint64_t n)
{
    struct text *t = next_shown();
    text_count(t, n);
    return t->ptr;
}

const char *show_noun(uint64_t n, const char *singular, const char *plural)
{
    struct text *t = next_shown();
    text_noun(t, n, singular, plural);
    return t->ptr;
}

bool text_json_string(struct text *t, ckpt_str s)
{
    bool exact;
    reserve(t, s.len + 2);
    while (!append_written(t, ckpt_text_json(s, t->ptr + t->len, t->cap - t->len, &exact)))
        ;
    return exact;
}

void text_tensor_json(struct text *t, const ckpt_file *f, uint32_t row)
{
    size_t n;
    reserve(t, 256);
    while (!append_written(t, n = ckpt_tensor_json(f, row, t->ptr + t->len, t->cap - t->len)))
        ;
    if (!n)
        mem_fail();
}

void text_value(struct text *t, const ckpt_value *v, size_t nodes)
{
    size_t from = t->len;
    reserve(t, 80);
    while (!append_written(t, ckpt_value_text(v, nodes, t->ptr + t->len, t->cap - t->len)))
        ;
    if (print_has_ascii_names())
        text_make_ascii(t, from, GLYPHS_LIBRARY);
}

void text_error(struct text *t, const ckpt_error *err)
{
    char line[2048];
    size_t from = t->len;
    text_add(t, ckpt_error_text(err, line, sizeof line));
    text_make_ascii(t, from, GLYPHS_LIBRARY);
}

#define UINT_DIGITS 20

/* put_uint - writes the digits of N to OUT, at most UINT_DIGITS; returns where they end. */
static char *put_uint(char *out, uint64_t n)
{
    size_t digits = 1;
    for (uint64_t left = n; left >= 10; left /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; n /= 10)
        out[i] = (char)('0' + n % 10);
    return out + digits;
}

/* set_text_end - makes the text end at END, after bytes that were written past its old end. */
static void set_text_end(struct text *t, const char *end)
{
    t->len = (size_t)(end - t->ptr);
    t->ptr[t->len] = '\0';
}

void text_uint(struct text *t, uint64_t n)
{
    reserve(t, UINT_DIGITS);
    set_text_end(t, put_uint(t->ptr + t->len, n));
}

/* put_tenths - writes V like printf's %.1f: to the nearest tenth, a tie to the even one. V is from 0 to 2^53
 * with at most 60 bits of fraction. printf takes ten times as long, and a listing has very many sizes. */
static char *put_tenths(char *out, double v)
{
    const uint64_t fixed_one = UINT64_C(1) << 60; /* 1.0 in fixed point with 60 bits of fraction */
    uint64_t integer = (uint64_t)v, fraction = (uint64_t)((v - (double)integer) * (double)fixed_one);
    uint64_t tenths = fraction * 10 / fixed_one, remainder = fraction * 10 % fixed_one;
    if (remainder > fixed_one / 2 || (remainder == fixed_one / 2 && tenths % 2))
        tenths++;
    out = put_uint(out, integer + tenths / 10);
    *out++ = '.';
    *out++ = (char)('0' + tenths % 10);
    return out;
}

void text_size(struct text *t, uint64_t nbytes)
{
    static const char prefixes[] = "KMGTPE";
    double v = (double)nbytes / 1024;
    size_t unit = 0;
    if (nbytes < 1024) {
        text_uint(t, nbytes);
        text_add(t, " B");
        return;
    }
    for (; v >= 1024 - 0.05 && prefixes[unit + 1]; unit++) /* such a V would be printed as 1024.0 or more */
        v /= 1024;
    reserve(t, UINT_DIGITS + 8);
    char *end = put_tenths(t->ptr + t->len, v);
    *end++ = ' ';
    *end++ = prefixes[unit];
    *end++ = 'i';
    *end++ = 'B';
    set_text_end(t, end);
}

void text_count(struct text *t, uint64_t n)
{
    static const char prefixes[] = "MGTPE";
    double v = (double)n / 1e6;
    size_t unit = 0;
    if (n < 1000000) {
        text_uint(t, n);
        return;
    }
    for (; v >= 1000 - 0.05 && prefixes[unit + 1]; unit++) /* such a V would be printed as 1000.0 or more */
        v /= 1000;
    text_addf(t, "%.1f %c", v, prefixes[unit]);
}

void text_noun(struct text *t, uint64_t n, const char *singular, const char *plural)
{
    text_count(t, n);
    text_byte(t, ' ');
    text_add(t, n == 1 ? singular : plural);
}

void text_dims(struct text *t, const uint64_t *dims, uint32_t n, const char *between)
{
    size_t gap = strlen(between);
    reserve(t, 2 + n * (gap + UINT_DIGITS));
    char *end = t->ptr + t->len;
    *end++ = '[';
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            end = (char *)memcpy(end, between, gap) + gap;
        end = put_uint(end, dims[i]);
    }
    *end++ = ']';
    set_text_end(t, end);
}

void text_shape(struct text *t, const ckpt_tensor *x)
{
    if (x->has_shape)
        text_dims(t, x->shape, x->ndim, ", ");
    else
        text_add(t, "?");
}

void text_leave_out(struct text *t, ckpt_str name)
{
    struct text glob = {0};
    text_add(&glob, "!");
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] && strchr("*?[\\", name.ptr[i]))
            text_byte(&glob, '\\');
        text_byte(&glob, name.ptr[i]);
    }
    text_add(t, "leave out what cannot be read: -g ");
    text_shell(t, glob.ptr);
    text_free(&glob);
}

void text_unread_reason(struct text *t, const ckpt_tensor *x)
{
    if (x->kind == CKPT_NDARRAY)
        text_add(t, "an array of objects");
    else if (x->kind == CKPT_META || x->kind == CKPT_UNINITIALIZED || !x->note.len)
        text_addf(t, "%s, without data", ckpt_kind_name((ckpt_kind)x->kind));
    else
        text_add(t, escape_name(x->note));
}

void text_unread(struct text *t, const ckpt_file *f, uint64_t n, uint32_t first)
{
    ckpt_tensor x = CKPT_INIT(ckpt_tensor);
    (void)ckpt_tensor_at(f, first, &x);
    text_noun(t, n, "tensor", "tensors");
    text_addf(t, " cannot be read, such as \"%s\": ", escape_name(x.name));
    text_unread_reason(t, &x);
}

void text_dtype(struct text *t, const ckpt_tensor *x)
{
    const char *name = ckpt_tensor_dtype_name(x);
    if (x->dtype == CKPT_DT_NONE || !*name)
        text_add(t, ckpt_kind_name((ckpt_kind)x->kind));
    else
        text_add(t, name);
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
static void shell_bytes(struct text *t, const char *word)
{
    text_add(t, "$'");
    for (const char *p = word; *p; p++) {
        if (*p == '\'' || *p == '\\')
            text_addf(t, "\\%c", *p);
        else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            text_addf(t, "\\%03o", (unsigned)(unsigned char)*p); /* not \x: some shells take more digits */
        else
            text_bytes(t, p, 1);
    }
    text_add(t, "'");
}

void text_shell(struct text *t, const char *word)
{
    static const char unquoted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
    if (*word && word[strspn(word, unquoted)] == '\0') {
        text_add(t, word);
        return;
    }
    if (!text_is_printable(word)) {
        shell_bytes(t, word);
        return;
    }
    text_add(t, "'");
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            text_add(t, "'\\''");
        else
            text_bytes(t, p, 1);
    }
    text_add(t, "'");
}

void text_operand(struct text *t, const char *path)
{
    if (path[0] == '-' && path[1])
        text_add(t, "./");
    text_shell(t, path);
}

void text_formats(struct text *t, const char *between, const char *last)
{
    const char *name, *next = ckpt_write_format_at(0);
    for (size_t i = 0; (name = next); i++) {
        next = ckpt_write_format_at(i + 1);
        text_add(t, !i ? "" : next ? between : last);
        text_add(t, name);
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

void text_hex(struct text *t, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text_addf(t, "%02x", p[i]);
}

/* is_wide - returns true if C takes two columns: East Asian wide characters and emoji. */
static bool is_wide(uint32_t c)
{
    static const uint32_t range[][2] = {
        {0x1100, 0x115f}, {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
        {0xa000, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
        {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
    };
    if (c < 0x1100)
        return false;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i][0] && c <= range[i][1])
            return true;
    return false;
}

/* measure_char - returns the length of the character at P, where N bytes are left, and sets *COLUMNS to its
 * columns. P is UTF-8, because text_name escapes everything else. */
static size_t measure_char(const char *p, size_t n, size_t *columns)
{
    unsigned char c = (unsigned char)*p;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (len > n)
        len = n;
    uint32_t code = len == 1 ? c : c & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)p[i] & 0x3f);
    bool is_combining = code >= 0x300 && code <= 0x36f;
    *columns = is_combining ? 0 : is_wide(code) ? 2 : 1;
    return len;
}

static uint64_t load_8_bytes(const char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

bool text_is_ascii(const char *p, size_t n)
{
    uint64_t seen = 0;
    if (n < 8) {
        while (n)
            seen |= (unsigned char)p[--n];
        return !(seen & 0x80);
    }
    for (size_t i = 0; i < n - 8; i += 8)
        seen |= load_8_bytes(p + i);
    return !((seen | load_8_bytes(p + n - 8)) & UINT64_C(0x8080808080808080));
}

size_t text_columns(const char *p, size_t n)
{
    size_t columns = 0, char_columns;
    if (text_is_ascii(p, n))
        return n;
    for (size_t i = 0; i < n; columns += char_columns)
        i += measure_char(p + i, n - i, &char_columns);
    return columns;
}

size_t text_len_fitting(const char *p, size_t n, size_t width)
{
    size_t i = 0, columns = 0, char_columns;
    while (i < n) {
        size_t len = measure_char(p + i, n - i, &char_columns);
        if (i && columns + char_columns > width)
            break;
        columns += char_columns;
        i += len;
    }
    return i;
}
