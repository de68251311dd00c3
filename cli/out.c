#include "out.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "guess.h"
#include "json.h"
#include "progress.h"

#define TABLE_BLOCK 4096u /* bytes of a table that are written at once */

struct ui ui = {.prefix = "", .limits = CKPT_INIT(ckpt_limits)};

static unsigned terminal_width(void)
{
    struct winsize w;
    const char *columns = getenv("COLUMNS");
    unsigned long n = columns ? strtoul(columns, NULL, 10) : 0;
    if (n >= 20 && n < 10000)
        return (unsigned)n;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        return w.ws_col;
    return 80;
}

unsigned ui_jobs(void) { return ui.jobs < UINT_MAX ? (unsigned)ui.jobs : UINT_MAX; }

ckpt_work ui_work(void)
{
    return (ckpt_work){.struct_size = sizeof(ckpt_work), .threads = ui_jobs(), .progress = progress_step};
}

void ui_init(void)
{
    static char stdout_buffer[262144]; /* the default buffer of stdout has only 4 KiB */
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool colors = !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    print_init();
    ui.tty = isatty(STDOUT_FILENO);
    ui.err_tty = isatty(STDERR_FILENO);
    if (!ui.tty)
        setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    ui.color = ui.tty && colors;
    ui.err_color = ui.err_tty && colors;
    ui.width = ui.tty ? terminal_width() : UINT_MAX;
}

static const char *const style_code[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};

const char *style_on(enum style s) { return ui.color ? style_code[s] : ""; }

const char *style_off(enum style s) { return ui.color && s != PLAIN ? "\033[0m" : ""; }

FILE *report_stream(const char *output)
{
    struct stat stdout_stat, output_stat;
    if (!output)
        return stdout;
    if (strcmp(output, "-") == 0)
        return stderr;
    bool same = fstat(STDOUT_FILENO, &stdout_stat) == 0 && stat(output, &output_stat) == 0 &&
                stdout_stat.st_dev == output_stat.st_dev && stdout_stat.st_ino == output_stat.st_ino;
    return same && !S_ISCHR(stdout_stat.st_mode) ? stderr
                                                 : stdout; /* a device, such as /dev/null, can hold both */
}

void line_put(const struct text *line)
{
    put_text(stdout, ui.prefix);
    if (line->len)
        put_bytes(stdout, line->ptr, line->len);
    put_text(stdout, "\n");
}

void line_printf(const char *fmt, ...)
{
    struct text line = {0};
    va_list ap;
    va_start(ap, fmt);
    text_addv(&line, fmt, ap);
    va_end(ap);
    line_put(&line);
    text_free(&line);
}

/* print_message - prints "ckpt: WORDS" on standard error, with "ckpt:" in bold on a terminal with colours. */
static void print_message(const char *words)
{
    struct text t = {0};
    progress_wipe();
    fflush(stdout);
    text_add(&t, words);
    text_make_ascii(&t, 0, GLYPHS_LIBRARY);
    print_text(stderr, "%sckpt:%s %s\n", ui.err_color ? "\033[1m" : "", ui.err_color ? "\033[0m" : "", t.ptr);
    text_free(&t);
}

static void print_hint(const char *hint)
{
    struct text t = {0};
    text_add(&t, hint);
    text_make_ascii(&t, 0, GLYPHS_LIBRARY);
    print_text(stderr, "hint: %s\n", t.ptr);
    text_free(&t);
}

void print_second_hint(const char *path, const char *hint)
{
    if (ui.json)
        print_notice(path, "%s", hint);
    else
        print_hint(hint);
}

int usage_error_suggest(const char *hint, const char *fmt, ...)
{
    char words[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    if (ui.json) {
        json *j = json_schema("ckpt.error.v1");
        json_text(j, "code", ckpt_status_name(CKPT_EUSAGE));
        json_text(j, "message", words);
        json_text(j, "hint", hint);
        fflush(stdout);
        json_line(j, stderr);
        return EXIT_TROUBLE;
    }
    print_message(words);
    print_hint(hint);
    return EXIT_TROUBLE;
}

int usage_error(const char *cmd, const char *fmt, ...)
{
    char words[1024], hint[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    snprintf(hint, sizeof hint, "ckpt %s%s--help", cmd ? cmd : "", cmd ? " " : "");
    return usage_error_suggest(hint, "%s", words);
}

int usage_error_swapped(const char *words, char *first, char *second)
{
    struct text hint = {0};
    opt_command_line(&hint, NULL, 2, (char *[]){first, second}, NULL);
    int status = usage_error_suggest(hint.ptr, "%s", words);
    text_free(&hint);
    return status;
}

int report_error(const ckpt_error *err, const char *path)
{
    char line[1400];
    ckpt_error shown = *err;
    ui.last_error = err->status;
    if (!shown.file[0] && path)
        ckpt_text_escape(str_of(*path || ui.json ? path : "''"), shown.file, sizeof shown.file);
    if (!shown.hint[0] && path && err->sys_errno == ENOENT)
        (void)guess_file(path, shown.hint, sizeof shown.hint);
    if (ui.json) {
        json *j = json_schema("ckpt.error.v1");
        json_text(j, "code", ckpt_status_name(err->status));
        if (shown.file[0] || path)
            json_text(j, "file", shown.file);
        json_error(j, &shown);
        fflush(stdout);
        json_line(j, stderr);
        return EXIT_TROUBLE;
    }
    print_message(ckpt_error_text(&shown, line, sizeof line));
    if (shown.hint[0])
        print_hint(shown.hint);
    return EXIT_TROUBLE;
}

int report_failure(ckpt_status status, const char *path, const char *hint, const char *fmt, ...)
{
    ckpt_error err = {.status = status, .offset = CKPT_NO_OFFSET};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.what, sizeof err.what, fmt, ap);
    va_end(ap);
    if (hint)
        snprintf(err.hint, sizeof err.hint, "%s", hint);
    return report_error(&err, path);
}

/* The files that are read as one. */
static struct {
    int n;
    char *const *paths;
} merged_inputs;

void set_merged_inputs(int n, char *const *paths)
{
    merged_inputs.n = n;
    merged_inputs.paths = paths;
}

/* find_subject - sets *PATH to the one of merged_inputs that *WORDS begin with, and drops it from *WORDS. */
static void find_subject(const char **path, const char **words)
{
    for (int i = 0; i < merged_inputs.n; i++) {
        size_t len = strlen(merged_inputs.paths[i]);
        if (strncmp(*words, merged_inputs.paths[i], len) != 0 || strncmp(*words + len, ": ", 2) != 0)
            continue;
        *path = merged_inputs.paths[i];
        *words += len + 2;
        return;
    }
}

static void print_words(const char *path, const char *words)
{
    struct text t = {0};
    find_subject(&path, &words);
    if (ui.json) {
        json *j = json_schema("ckpt.notice.v1");
        if (path)
            json_text(j, "file", path);
        json_text(j, "message", words);
        json_line(j, stderr);
        return;
    }
    bool begins_with_path = path && strncmp(words, path, strlen(path)) == 0 && words[strlen(path)] == ':';
    if (path && !begins_with_path) {
        text_name(&t, str_of(path));
        text_add(&t, ": ");
    }
    text_add(&t, words);
    print_message(t.ptr);
    text_free(&t);
}

void print_notice(const char *path, const char *fmt, ...)
{
    char words[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    if (!ui.quiet)
        print_words(path, words);
}

void print_reason(const char *path, const char *fmt, ...)
{
    char words[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    print_words(path, words);
}

/* The open inputs, and how many of their notices were printed: reading a file adds notices. */
static struct {
    const ckpt_file *file;
    size_t nprinted;
} open_files[2];

static void print_new_notices(const ckpt_file *f, size_t *nprinted)
{
    const char *s;
    for (; (s = ckpt_notice_at(f, *nprinted)); (*nprinted)++)
        print_notice(ckpt_file_path(f), "%s", s);
}

void print_plan_notices(const ckpt_plan *p, const char *path)
{
    const char *s;
    for (size_t i = 0; (s = ckpt_plan_notice_at(p, i)); i++)
        print_notice(path, "%s", s);
}

ckpt_file *open_input(const char *path, bool ignore_crc)
{
    return open_input_by(ckpt_open, path, ignore_crc);
}

/* open_at_root - opens PATH by OPEN_PATH and narrows it to --root. Returns NULL after filling ERR. */
static ckpt_file *open_at_root(opener *open_path, const char *path, bool ignore_crc, ckpt_error *err)
{
    ckpt_file *f;
    if (open_path(path, &ui.limits, &f, err) != CKPT_OK)
        return NULL;
    ckpt_file_ignore_crc(f, ignore_crc);
    if (!ui.root || ckpt_file_narrow(f, ui.root, NULL, 0, err) == CKPT_OK)
        return f;
    ckpt_close(f);
    return NULL;
}

ckpt_file *open_input_by(opener *open_path, const char *path, bool ignore_crc)
{
    ckpt_error err;
    ckpt_file *f = open_at_root(open_path, path, ignore_crc, &err);
    if (!f) {
        report_error(&err, path);
        return NULL;
    }
    size_t i = open_files[0].file ? 1 : 0;
    open_files[i].file = f;
    open_files[i].nprinted = 0;
    print_new_notices(f, &open_files[i].nprinted);
    return f;
}

ckpt_file *open_for_git(const char *path, bool ignore_crc, const char *label)
{
    struct text reason = {0};
    ckpt_error err;
    ckpt_file *f = open_at_root(ckpt_open, path, ignore_crc, &err);
    if (f)
        return f;
    err.file[0] = '\0';
    text_error(&reason, &err);
    print_text(stdout, "%sckpt cannot read this: %s\n", label, reason.ptr);
    text_free(&reason);
    return NULL;
}

void close_input(ckpt_file *f)
{
    for (size_t i = 0; f && i < sizeof open_files / sizeof *open_files; i++) {
        if (open_files[i].file != f)
            continue;
        print_new_notices(f, &open_files[i].nprinted);
        open_files[i].file = NULL;
    }
    ckpt_close(f);
}

int finish_output(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE) /* the reader of the pipe has ended, which is not an error */
        return ui.pipe_may_close ? status : EXIT_TROUBLE;
    return report_failure(CKPT_EIO, NULL, NULL, "standard output: %s", strerror(errno ? errno : EIO));
}

/* ------------------------------------------------------------------ tables */

static size_t count_columns(const struct table *t, const char *p, size_t n)
{
    return t->multibyte ? text_columns(p, n) : n;
}

/* wrap_text - breaks the text from offset FROM on into lines of WIDTH columns; returns the columns of the
 * last line. */
static size_t wrap_text(struct table *t, size_t from, size_t width)
{
    size_t columns;
    while ((columns = count_columns(t, t->text.ptr + from, t->text.len - from)) > width) {
        from += text_len_fitting(t->text.ptr + from, t->text.len - from, width);
        if (from == t->text.len)
            return 0;
        text_insert_blanks(&t->text, from, 1);
        t->text.ptr[from++] = '\n';
    }
    return columns;
}

/* align_cell - pads the current cell, the text from t->cell_start on, to the width of COLUMN. */
static void align_cell(struct table *t, unsigned column)
{
    size_t from = t->cell_start, width = t->width[column], used;
    bool has_text = t->text.len > from, right = has_text && t->right[column];
    if (column && !width)
        return;
    used = column ? count_columns(t, t->text.ptr + from, t->text.len - from) : wrap_text(t, from, width);
    if (right)
        text_insert_blanks(&t->text, from, width - used);
    if (has_text)
        t->line_end = t->text.len;
    if (column + 1 < t->columns)
        text_insert_blanks(&t->text, t->text.len, right ? 2 : width - used + 2);
}

/* end_line - ends the line after its last cell that is not empty. Writes the lines if they fill a block. */
static void end_line(struct table *t)
{
    t->text.len = t->line_end;
    if (t->line_style != PLAIN)
        text_add(&t->text, style_off(t->line_style));
    text_byte(&t->text, '\n');
    bool is_header = t->nrows == 1;
    if (is_header && !t->header)
        text_clear(&t->text);
    if (t->text.len < TABLE_BLOCK)
        return;
    put_bytes(t->stream, t->text.ptr, t->text.len);
    text_clear(&t->text);
}

static void begin_line(struct table *t, enum style style)
{
    if (t->nrows)
        end_line(t);
    t->line_style = style;
    if (ui.prefix[0])
        text_add(&t->text, ui.prefix);
    if (style != PLAIN)
        text_add(&t->text, style_on(style));
    t->line_end = t->text.len;
}

/* is_multibyte - returns true if T has fewer columns than bytes. */
static bool is_multibyte(const struct text *t) { return t->len && text_columns(t->ptr, t->len) != t->len; }

static void remove_measured_row(struct table *t)
{
    t->multibyte = t->multibyte || is_multibyte(&t->text);
    text_clear(&t->text);
}

void table_row(struct table *t, enum style style)
{
    if (t->pass == TABLE_PRINTS) {
        begin_line(t, style);
    } else if (t->pass == TABLE_MEASURES) {
        remove_measured_row(t);
    } else {
        t->styles = mem_make_room(t->styles, t->nrows, sizeof *t->styles);
        t->styles[t->nrows] = style;
    }
    t->nrows++;
    t->column = 0;
    t->cell_start = t->text.len;
}

/* widen_column - raises *WIDTH to at least the columns of a cell of N bytes at P. */
static void widen_column(size_t *width, const char *p, size_t n)
{
    size_t columns = n > *width ? text_columns(p, n) : 0;
    *width = columns > *width ? columns : *width;
}

static void collect_cell(struct table *t)
{
    t->bytes = mem_make_room(t->bytes, t->ncells, sizeof *t->bytes);
    t->bytes[t->ncells++] = (uint32_t)(t->text.len - t->cell_start);
}

void table_cell(struct table *t)
{
    unsigned c = t->column++;
    if (print.ascii)
        text_make_ascii(&t->text, t->cell_start, GLYPHS_ALL);
    if (t->pass == TABLE_PRINTS)
        align_cell(t, c);
    else
        widen_column(&t->width[c], t->text.ptr + t->cell_start, t->text.len - t->cell_start);
    if (t->pass == TABLE_COLLECTS)
        collect_cell(t);
    t->cell_start = t->text.len;
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_addv(&t->text, fmt, ap);
    va_end(ap);
    table_cell(t);
}

void table_keep_cells(const struct table *t, size_t start, struct table_cells *cells)
{
    text_clear(&cells->text);
    text_bytes(&cells->text, t->text.ptr + start, t->text.len - start);
    cells->blanks_after = t->text.len - t->line_end;
}

void table_repeat_cells(struct table *t, const struct table_cells *cells, unsigned n)
{
    t->column += n;
    if (t->pass != TABLE_PRINTS) /* their widths are known */
        return;
    text_bytes(&t->text, cells->text.ptr, cells->text.len);
    t->line_end = t->text.len - cells->blanks_after;
    t->cell_start = t->text.len;
}

void table_header(struct table *t, const char *const *titles)
{
    table_row(t, BOLD);
    for (unsigned c = 0; c < t->columns; c++) {
        text_add(&t->text, titles ? titles[c] : "");
        table_cell(t);
    }
}

/* begin_printing - prepares T to print its rows, after its columns were measured. Makes the first column
 * narrower if the table is wider than the terminal. */
static void begin_printing(struct table *t, FILE *stream, bool header)
{
    size_t others = text_columns(ui.prefix, strlen(ui.prefix)); /* width of all but the first column */
    for (unsigned c = 1; c < t->columns; c++)
        others += t->width[c] + 2;
    if (ui.width != UINT_MAX && t->width[0] + others > ui.width) {
        size_t min_width = ui.width > 60 ? 24 : 12;
        size_t width_left = ui.width > others + min_width ? ui.width - others : min_width;
        t->width[0] = width_left < t->width[0] ? width_left : t->width[0];
    }
    t->multibyte = t->multibyte || is_multibyte(&t->text);
    t->pass = TABLE_PRINTS;
    t->stream = stream;
    t->header = header;
    t->nrows = 0;
}

static void end_printing(struct table *t)
{
    if (t->nrows)
        end_line(t);
    if (t->text.len)
        put_bytes(t->stream, t->text.ptr, t->text.len);
}

void table_print(struct table *t, FILE *stream, bool header)
{
    struct text cells = t->text;
    const char *p = cells.ptr;
    size_t rows = t->nrows, cell = 0;
    begin_printing(t, stream, header);
    t->text = (struct text){0};
    for (size_t r = 0; r < rows; r++) {
        table_row(t, t->styles[r]);
        for (unsigned c = 0; c < t->columns; c++, p += t->bytes[cell++]) {
            text_bytes(&t->text, p, t->bytes[cell]);
            table_cell(t);
        }
    }
    end_printing(t);
    text_free(&cells);
}

/* measure_rows - calls ROWS to measure the columns of T. */
static void measure_rows(struct table *t, void (*rows)(struct table *t, const void *user), const void *user)
{
    t->pass = TABLE_MEASURES;
    t->nrows = 0;
    t->multibyte = false;
    memset(t->width, 0, sizeof t->width);
    rows(t, user);
    remove_measured_row(t);
    t->cell_start = 0;
}

void table_flow(struct table *t, void (*rows)(struct table *t, const void *user), const void *user,
                FILE *stream, bool header)
{
    bool ascii = print.ascii;
    print.ascii = false; /* nearly always, all is ASCII already, so that no cell has to be checked */
    measure_rows(t, rows, user);
    if (ascii && t->multibyte) {
        print.ascii = true;
        measure_rows(t, rows, user);
    }
    begin_printing(t, stream, header);
    text_clear(&t->text);
    rows(t, user);
    end_printing(t);
    print.ascii = ascii;
}

void table_free(struct table *t)
{
    text_free(&t->text);
    free(t->bytes);
    free(t->styles);
    *t = (struct table){0};
}

/* -------------------------------------------------------------------- rows */

static bool glob_match(const char *glob, ckpt_str name)
{
    ckpt_str g = str_of(glob);
    return ui.ignore_case ? ckpt_glob_match_any_case(g, name) : ckpt_glob_match(g, name);
}

bool globs_pass(ckpt_str name, const char *const *globs, size_t nglobs)
{
    bool has_positive = false, matches = false;
    for (size_t i = 0; i < nglobs; i++) {
        if (globs[i][0] == '!') {
            if (glob_match(globs[i] + 1, name))
                return false;
            continue;
        }
        has_positive = true;
        matches = matches || glob_match(globs[i], name);
    }
    return matches || !has_positive;
}

/* A row and its name, because looking the name up again costs as much as comparing. */
struct named_row {
    ckpt_str name;
    uint32_t row;
};

static struct named_row named_row_of(const ckpt_file *f, uint32_t row)
{
    return (struct named_row){ckpt_tensor_name(f, row), row};
}

struct sorting {
    const ckpt_file *f;
    int (*compare)(ckpt_str a, ckpt_str b);
    uint32_t *moved; /* room for half of the rows */
};

static bool comes_before(const struct sorting *s, struct named_row a, struct named_row b)
{
    int c = s->compare(a.name, b.name);
    return c ? c < 0 : a.row < b.row;
}

/* find_position - returns how many of the N sorted ROWS come before the row X. */
static size_t find_position(const struct sorting *s, const uint32_t *rows, size_t n, struct named_row x)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (comes_before(s, named_row_of(s->f, rows[middle]), x))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* merge_sort - sorts ROWS. Names are usually almost in order: this merge sort skips rows that are in place,
 * and compares a fifth as often as qsort. */
static void merge_sort(const struct sorting *s, uint32_t *rows, size_t n)
{
    size_t half = n / 2, left = 0, right = half;
    if (n < 2)
        return;
    merge_sort(s, rows, half);
    merge_sort(s, rows + half, n - half);
    struct named_row right_row = named_row_of(s->f, rows[half]);
    if (comes_before(s, named_row_of(s->f, rows[half - 1]), right_row))
        return;
    size_t end = find_position(s, rows, half, right_row), nmoved = half - end;
    memcpy(s->moved, rows + end, nmoved * sizeof *rows);
    struct named_row left_row = named_row_of(s->f, s->moved[0]); /* nmoved > 0: rows[half - 1] moves */
    while (left < nmoved) {
        if (right == n || comes_before(s, left_row, right_row)) {
            rows[end++] = left_row.row;
            left_row = ++left < nmoved ? named_row_of(s->f, s->moved[left]) : left_row;
        } else {
            rows[end++] = right_row.row;
            right_row = ++right < n ? named_row_of(s->f, rows[right]) : right_row;
        }
    }
}

void rows_sort(const ckpt_file *f, uint32_t *rows, size_t n, int (*compare)(ckpt_str a, ckpt_str b))
{
    struct sorting s = {f, compare, mem_new(n / 2, sizeof *s.moved)};
    merge_sort(&s, rows, n);
    free(s.moved);
}

struct row_size {
    uint64_t bytes;
    size_t rank; /* index in natural order */
    uint32_t row;
};

static int compare_row_sizes(const void *a, const void *b)
{
    const struct row_size *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* sort_by_size - sorts ROWS by size, the largest first. ROWS are in natural order; rows of equal size stay in
 * that order. */
static void sort_by_size(const ckpt_file *f, uint32_t *rows, size_t n)
{
    struct row_size *sized = mem_new(n, sizeof *sized);
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        sized[i] = (struct row_size){t.has_data ? t.nbytes : 0, i, rows[i]};
    }
    if (n)
        qsort(sized, n, sizeof *sized, compare_row_sizes);
    for (size_t i = 0; i < n; i++)
        rows[i] = sized[i].row;
    free(sized);
}

uint32_t *rows_select(const ckpt_file *f, const char *const *globs, size_t nglobs, enum row_order order,
                      size_t *n)
{
    uint32_t count = ckpt_tensor_count(f);
    uint32_t *rows = mem_new(count, sizeof *rows);
    *n = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!nglobs || globs_pass(ckpt_tensor_name(f, i), globs, nglobs))
            rows[(*n)++] = i;
    if (order != ORDER_FILE)
        rows_sort(f, rows, *n, ckpt_natural_compare);
    if (order == ORDER_SIZE)
        sort_by_size(f, rows, *n);
    return rows;
}

void add_saturated(uint64_t *sum, uint64_t n) { *sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n; }

void totals_add(struct totals *sum, const ckpt_tensor *t)
{
    if (t->part_of == CKPT_NO_TENSOR)
        sum->tensors++;
    if (t->has_data && t->alias_of == CKPT_NO_TENSOR) {
        add_saturated(&sum->elements, t->elements);
        add_saturated(&sum->bytes, t->nbytes);
    }
}

struct totals totals_of_rows(const ckpt_file *f, const uint32_t *rows, size_t n)
{
    struct totals sum = {0};
    for (size_t i = 0; i < n; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        totals_add(&sum, &t);
    }
    return sum;
}

void table_sum_cells(struct table *t, const struct totals *sum)
{
    text_noun(&t->text, sum->tensors, "tensor", "tensors");
    table_cell(t);
    text_count(&t->text, sum->elements);
    table_cell(t);
    text_size(&t->text, sum->bytes);
    table_cell(t);
}

void text_totals(struct text *t, const struct totals *sum, const char *between)
{
    text_noun(t, sum->tensors, "tensor", "tensors");
    text_add(t, between);
    text_noun(t, sum->elements, "element", "elements");
    text_add(t, between);
    text_size(t, sum->bytes);
}

ckpt_tensor tensor_at(const ckpt_file *f, uint32_t row)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    (void)ckpt_tensor_at(f, row, &t);
    return t;
}
