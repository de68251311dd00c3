#include "out.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd.h"
#include "json.h"
#include "progress.h"

struct ui ui;

static unsigned terminal_width(void)
{
    struct winsize w;
    const char *set = getenv("COLUMNS");
    unsigned long n = set ? strtoul(set, NULL, 10) : 0;
    if (n >= 20 && n < 10000)
        return (unsigned)n;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        return w.ws_col;
    return 80;
}

void ui_init(void)
{
    static char block[65536]; /* of its own accord stdout writes 4 KiB at a time */
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool colors = !(no && *no) && term && strcmp(term, "dumb") != 0;
    ui.tty = isatty(STDOUT_FILENO);
    ui.err_tty = isatty(STDERR_FILENO);
    if (!ui.tty)
        setvbuf(stdout, block, _IOFBF, sizeof block);
    ui.color = ui.tty && colors;
    ui.err_color = ui.err_tty && colors;
    ui.width = ui.tty ? terminal_width() : UINT_MAX;
}

static const char *const style_code[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};

const char *style_on(enum style s) { return ui.color ? style_code[s] : ""; }

const char *style_off(enum style s) { return ui.color && s != PLAIN ? "\033[0m" : ""; }

/* A line of words before its newline: "ckpt: " stands out where colours are. */
static void tell(const char *words)
{
    progress_wipe();
    fflush(stdout);
    fprintf(stderr, "%sckpt:%s %s\n", ui.err_color ? "\033[1m" : "", ui.err_color ? "\033[0m" : "", words);
}

static void tell_json(const char *code, const char *file, const ckpt_error *err, const char *message,
                      const char *hint)
{
    json *j = json_schema("ckpt.error.v1");
    json_text(j, "code", code);
    if (file && *file)
        json_text(j, "file", file);
    if (err && err->offset != CKPT_NO_OFFSET)
        json_u64(j, "offset", err->offset);
    if (err && *err->where)
        json_text(j, "where", err->where);
    json_text(j, "message", message);
    if (hint && *hint)
        json_text(j, "hint", hint);
    fflush(stdout);
    json_line(j, stderr);
}

int usage_error(const char *cmd, const char *fmt, ...)
{
    char words[1024], hint[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    snprintf(hint, sizeof hint, "ckpt %s%s--help", cmd ? cmd : "", cmd ? " " : "");
    if (ui.json) {
        tell_json("usage", NULL, NULL, words, hint);
        return TROUBLE;
    }
    tell(words);
    fprintf(stderr, "hint: %s\n", hint);
    return TROUBLE;
}

int trouble(const ckpt_error *err, const char *path)
{
    char line[1400];
    ckpt_error shown = *err;
    if (!shown.file[0] && path)
        ckpt_text_escape(str_of(path), shown.file, sizeof shown.file);
    if (ui.json) {
        tell_json(ckpt_status_name(err->status), shown.file, err, err->what, err->hint);
        return TROUBLE;
    }
    tell(ckpt_error_text(&shown, line, sizeof line));
    if (shown.hint[0])
        fprintf(stderr, "hint: %s\n", shown.hint);
    return TROUBLE;
}

int trouble_text(ckpt_status status, const char *path, const char *hint, const char *fmt, ...)
{
    ckpt_error err = {.status = status, .offset = CKPT_NO_OFFSET};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.what, sizeof err.what, fmt, ap);
    va_end(ap);
    if (hint)
        snprintf(err.hint, sizeof err.hint, "%s", hint);
    return trouble(&err, path);
}

void notice(const char *path, const char *fmt, ...)
{
    if (ui.quiet)
        return;
    struct text t = {0};
    char words[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    if (ui.json) {
        json *j = json_schema("ckpt.notice.v1");
        if (path)
            json_text(j, "file", path);
        json_text(j, "message", words);
        json_line(j, stderr);
        return;
    }
    if (path) {
        text_name(&t, str_of(path));
        text_add(&t, ": ");
    }
    text_add(&t, words);
    tell(t.ptr);
    text_free(&t);
}

/* Reading adds notices, so those told at the opening are counted. */
static struct {
    const ckpt_file *file;
    size_t told;
} opened[2];

static void notices_of_file(const ckpt_file *f, size_t *told)
{
    const char *s;
    for (; (s = ckpt_notice_at(f, *told)); (*told)++)
        notice(ckpt_file_path(f), "%s", s);
}

void notices_of_plan(const ckpt_plan *p, const char *path)
{
    const char *s;
    for (size_t i = 0; (s = ckpt_plan_notice_at(p, i)); i++)
        notice(path, "%s", s);
}

ckpt_file *open_input(const char *path, bool ignore_crc)
{
    ckpt_error err;
    ckpt_file *f;
    if (ckpt_open(path, NULL, &f, &err) != CKPT_OK) {
        trouble(&err, path);
        return NULL;
    }
    size_t i = opened[0].file ? 1 : 0;
    opened[i].file = f;
    opened[i].told = 0;
    ckpt_file_ignore_crc(f, ignore_crc);
    notices_of_file(f, &opened[i].told);
    return f;
}

void close_input(ckpt_file *f)
{
    for (size_t i = 0; f && i < sizeof opened / sizeof *opened; i++) {
        if (opened[i].file != f)
            continue;
        notices_of_file(f, &opened[i].told);
        opened[i].file = NULL;
    }
    ckpt_close(f);
}

int finish_output(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return TROUBLE; /* whoever read us has enough; nothing to complain about */
    return trouble_text(CKPT_EIO, NULL, NULL, "standard output: %s", strerror(errno ? errno : EIO));
}

/* ------------------------------------------------------------------ tables */

void table_row(struct table *t, enum style mark)
{
    if ((t->nrows & (t->nrows - 1)) == 0)
        t->mark = mem_grow(t->mark, t->nrows ? t->nrows * 2 : 1, sizeof *t->mark);
    t->mark[t->nrows++] = mark;
}

void table_cell(struct table *t)
{
    if (t->ncells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->end = mem_grow(t->end, t->cap, sizeof *t->end);
    }
    t->end[t->ncells++] = t->text.len;
}

static const char *cell(const struct table *t, size_t row, unsigned col, size_t *n)
{
    size_t i = row * t->columns + col, from = i ? t->end[i - 1] : 0;
    *n = t->end[i] - from;
    return t->text.ptr + from;
}

static void measure(const struct table *t, size_t width[TABLE_COLUMNS])
{
    for (unsigned c = 0; c < t->columns; c++)
        width[c] = 0;
    for (size_t r = 0; r < t->nrows; r++) {
        for (unsigned c = 0; c < t->columns; c++) {
            size_t n;
            const char *p = cell(t, r, c, &n);
            size_t w = text_columns(p, n);
            if (w > width[c])
                width[c] = w;
        }
    }
}

static void pad(FILE *to, size_t n)
{
    static const char blanks[] = "                                                                ";
    for (; n > sizeof blanks - 1; n -= sizeof blanks - 1)
        fwrite(blanks, 1, sizeof blanks - 1, to);
    fwrite(blanks, 1, n, to);
}

/* The first cell, broken into lines of WIDTH columns; returns what the last takes. */
static size_t print_first(const char *p, size_t n, size_t width, FILE *to)
{
    while (text_columns(p, n) > width) {
        size_t k = text_fit(p, n, width);
        fwrite(p, 1, k, to);
        p += k;
        n -= k;
        if (n)
            fputc('\n', to);
    }
    fwrite(p, 1, n, to);
    return text_columns(p, n);
}

static void print_row(const struct table *t, size_t row, const size_t *width, FILE *to)
{
    size_t n, owed = 0;
    fputs(style_on(t->mark[row]), to);
    for (unsigned c = 0; c < t->columns; c++) {
        const char *p = cell(t, row, c, &n);
        if (c == 0) {
            owed = width[0] - print_first(p, n, width[0], to);
            continue;
        }
        if (!width[c])
            continue;
        size_t blank = width[c] - text_columns(p, n);
        if (n)
            pad(to, owed + 2 + (t->right[c] ? blank : 0));
        owed = n ? (t->right[c] ? 0 : blank) : owed + 2 + blank;
        fwrite(p, 1, n, to);
    }
    fputs(style_off(t->mark[row]), to);
    fputc('\n', to);
}

void table_print(const struct table *t, FILE *to, bool header)
{
    size_t width[TABLE_COLUMNS], rest = 0;
    if (!t->nrows)
        return;
    measure(t, width);
    for (unsigned c = 1; c < t->columns; c++)
        rest += width[c] + 2;
    if (ui.width != UINT_MAX && width[0] + rest > ui.width) {
        size_t least = ui.width > 60 ? 24 : 12;
        size_t left = ui.width > rest + least ? ui.width - rest : least;
        width[0] = left < width[0] ? left : width[0];
    }
    for (size_t r = header ? 0 : 1; r < t->nrows; r++)
        print_row(t, r, width, to);
}

void table_free(struct table *t)
{
    text_free(&t->text);
    free(t->end);
    free(t->mark);
    *t = (struct table){0};
}

/* -------------------------------------------------------------------- rows */

bool globs_pass(ckpt_str name, const char *const *globs, size_t nglobs)
{
    bool any = false, hit = false;
    for (size_t i = 0; i < nglobs; i++) {
        if (globs[i][0] == '!') {
            if (ckpt_glob_match(str_of(globs[i] + 1), name))
                return false;
            continue;
        }
        any = true;
        hit = hit || ckpt_glob_match(str_of(globs[i]), name);
    }
    return hit || !any;
}

static int by_name(const void *x, const void *y, void *file)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    int c = ckpt_natural_compare(ckpt_tensor_at(file, a)->name, ckpt_tensor_at(file, b)->name);
    return c ? c : a < b ? -1 : 1;
}

uint32_t *rows_sorted(const ckpt_file *f, const char *const *globs, size_t nglobs, bool file_order, size_t *n)
{
    uint32_t count = ckpt_tensor_count(f);
    uint32_t *rows = mem_new(count, sizeof *rows);
    void *file = (ckpt_file *)(uintptr_t)f;
    bool sorted = true;
    *n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!globs_pass(ckpt_tensor_at(f, i)->name, globs, nglobs))
            continue;
        rows[*n] = i;
        sorted = sorted && (!*n || by_name(&rows[*n - 1], &rows[*n], file) < 0);
        (*n)++;
    }
    if (!sorted && !file_order)
        qsort_r(rows, *n, sizeof *rows, by_name, file);
    return rows;
}

void totals_add(struct totals *sum, const ckpt_tensor *t)
{
    if (t->part_of == CKPT_NO_TENSOR)
        sum->tensors++;
    if (t->has_data && t->alias_of == CKPT_NO_TENSOR) {
        sum->elements += t->elements;
        sum->bytes += t->nbytes;
    }
}
