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
#include "comm.h"
#include "guess.h"
#include "json.h"
#include "progress.h"
#include "ranks.h"
#include "remote.h"

#define TABLE_BLOCK 4096u /* bytes of a table that are written at once */

struct ui ui = {.prefix = "", .limits = CKPT_INIT(ckpt_limits)};

/* clang-format off */
#define REMOTE_OPTIONS \
    {0, "cacert", "FILE", OPT_TEXT, &remote_options.ca_file, \
     "for URLs: certificate authorities to trust, in PEM"}, \
    {0, "netrc", NULL, OPT_FLAG, &remote_options.netrc, "… names and passwords are those of ~/.netrc"}, \
    {0, "offline", NULL, OPT_FLAG, &remote_options.offline, "… refuse them: nothing is requested"}
#define READER_OPTIONS \
    {0, "parallel", "FILE", OPT_TEXT, &ui.limits.parallel, \
     "rules by which tensor-parallel ranks divide tensors"}, \
    {0, "names", "stored|object|variable", OPT_CHOICE, &ui.limits.names, \
     "how the tensors of a tf.train.Checkpoint are named"}, \
    {0, "as", "Vn=DTYPE", OPT_JOINED, &ui.limits.void_dtypes, \
     "the dtype of n-byte elements in .npy and .npz: V2=bfloat16"}, \
    REMOTE_OPTIONS
#define INPUT_OPTIONS \
    {0, "max-expanded", "SIZE", OPT_SIZE, &ui.limits.max_expanded, \
     "limit for tensors made with expand() (64MiB or 8 x file)"}, \
    READER_OPTIONS

const struct opt ui_remote_options[] = {REMOTE_OPTIONS, {0}};
const struct opt ui_reader_options[] = {READER_OPTIONS, {0}};
const struct opt ui_input_options[] = {INPUT_OPTIONS, {0}};
const struct opt ui_work_options[] = {
    INPUT_OPTIONS,
    {'j', "jobs", "N", OPT_COUNT, &ui.jobs, "use N threads; the result is the same for any N"},
    UI_JSON_OPTION,
    {0},
};
/* clang-format on */

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
    ui.tty = isatty(STDOUT_FILENO) && comm_has_terminal();
    ui.err_tty = isatty(STDERR_FILENO);
    if (!ui.tty)
        setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    ui.color = ui.tty && colors;
    ui.err_color = ui.err_tty && colors;
    ui.width = ui.tty ? terminal_width() : UINT_MAX;
}

static const char *const style_code[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};

const char *style_on(enum style style) { return ui.color ? style_code[style] : ""; }

const char *style_off(enum style style) { return ui.color && style != PLAIN ? "\033[0m" : ""; }

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
        ckpt_text_escape(str_c(*path || ui.json ? path : "''"), shown.file, sizeof shown.file);
    if (!shown.hint[0] && path && err->sys_errno == ENOENT)
        (void)guess_file(path, shown.hint, sizeof shown.hint);
    if (ranks_keep_error(&shown))
        return EXIT_TROUBLE;
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

void set_merged_inputs(int count, char *const *paths)
{
    merged_inputs.n = count;
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
        text_name(&t, str_c(path));
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
    if (open_path(remote_typed(path), &ui.limits, &f, err) != CKPT_OK)
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

static size_t count_columns(const struct table *table, const char *text, size_t nbytes)
{
    return table->multibyte ? text_columns(text, nbytes) : nbytes;
}

/* wrap_text - breaks the text from offset FROM on into lines of WIDTH columns; returns the columns of the
 * last line. */
static size_t wrap_text(struct table *table, size_t from, size_t width)
{
    size_t columns;
    while ((columns = count_columns(table, table->text.ptr + from, table->text.len - from)) > width) {
        from += text_len_fitting(table->text.ptr + from, table->text.len - from, width);
        if (from == table->text.len)
            return 0;
        text_insert_blanks(&table->text, from, 1);
        table->text.ptr[from++] = '\n';
    }
    return columns;
}

/* align_cell - pads the current cell, the text from table->cell_start on, to the width of COLUMN. */
static void align_cell(struct table *table, unsigned column)
{
    size_t from = table->cell_start, width = table->width[column], used;
    bool has_text = table->text.len > from, right = has_text && table->right[column];
    if (column && !width)
        return;
    used = column ? count_columns(table, table->text.ptr + from, table->text.len - from)
                  : wrap_text(table, from, width);
    if (right)
        text_insert_blanks(&table->text, from, width - used);
    if (has_text)
        table->line_end = table->text.len;
    if (column + 1 < table->columns)
        text_insert_blanks(&table->text, table->text.len, right ? 2 : width - used + 2);
}

/* end_line - ends the line after its last cell that is not empty. Writes the lines if they fill a block. */
static void end_line(struct table *table)
{
    table->text.len = table->line_end;
    if (table->line_style != PLAIN)
        text_add(&table->text, style_off(table->line_style));
    text_byte(&table->text, '\n');
    bool is_header = table->nrows == 1;
    if (is_header && !table->header)
        text_clear(&table->text);
    if (table->text.len < TABLE_BLOCK)
        return;
    put_bytes(table->stream, table->text.ptr, table->text.len);
    text_clear(&table->text);
}

static void begin_line(struct table *table, enum style style)
{
    if (table->nrows)
        end_line(table);
    table->line_style = style;
    if (ui.prefix[0])
        text_add(&table->text, ui.prefix);
    if (style != PLAIN)
        text_add(&table->text, style_on(style));
    table->line_end = table->text.len;
}

/* is_multibyte - returns true if TEXT has fewer columns than bytes. */
static bool is_multibyte(const struct text *text)
{
    return text->len && text_columns(text->ptr, text->len) != text->len;
}

static void remove_measured_rows(struct table *table)
{
    table->multibyte = table->multibyte || is_multibyte(&table->text);
    text_clear(&table->text);
}

void table_row(struct table *table, enum style style)
{
    if (table->pass == TABLE_PRINTS) {
        begin_line(table, style);
    } else if (table->pass == TABLE_MEASURES) {
        if (table->text.len >= TABLE_BLOCK)
            remove_measured_rows(table);
    } else {
        table->styles = mem_make_room(table->styles, table->nrows, sizeof *table->styles);
        table->styles[table->nrows] = style;
    }
    table->nrows++;
    table->column = 0;
    table->cell_start = table->text.len;
}

/* widen_column - raises *WIDTH to at least the columns of a cell of NBYTES bytes at TEXT. */
static void widen_column(size_t *width, const char *text, size_t nbytes)
{
    size_t columns = nbytes > *width ? text_columns(text, nbytes) : 0;
    *width = columns > *width ? columns : *width;
}

static void collect_cell(struct table *table)
{
    table->bytes = mem_make_room(table->bytes, table->ncells, sizeof *table->bytes);
    table->bytes[table->ncells++] = (uint32_t)(table->text.len - table->cell_start);
}

void table_cell(struct table *table)
{
    unsigned c = table->column++;
    if (print.ascii)
        text_make_ascii(&table->text, table->cell_start, GLYPHS_ALL);
    if (table->pass == TABLE_PRINTS)
        align_cell(table, c);
    else
        widen_column(&table->width[c], table->text.ptr + table->cell_start,
                     table->text.len - table->cell_start);
    if (table->pass == TABLE_COLLECTS)
        collect_cell(table);
    table->cell_start = table->text.len;
}

void table_cellf(struct table *table, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_addv(&table->text, fmt, ap);
    va_end(ap);
    table_cell(table);
}

void table_keep_cells(const struct table *table, size_t start, struct table_cells *cells)
{
    text_clear(&cells->text);
    text_bytes(&cells->text, table->text.ptr + start, table->text.len - start);
    cells->blanks_after = table->text.len - table->line_end;
}

void table_repeat_cells(struct table *table, const struct table_cells *cells, unsigned count)
{
    table->column += count;
    text_bytes(&table->text, cells->text.ptr, cells->text.len);
    table->line_end = table->text.len - cells->blanks_after;
    table->cell_start = table->text.len;
}

void table_header(struct table *table, const char *const *titles)
{
    table_row(table, BOLD);
    for (unsigned c = 0; c < table->columns; c++) {
        text_add(&table->text, titles ? titles[c] : "");
        table_cell(table);
    }
}

/* begin_printing - prepares TABLE to print its rows, after its columns were measured. Makes the first column
 * narrower if the table is wider than the terminal. */
static void begin_printing(struct table *table, FILE *stream, bool header)
{
    size_t others = text_columns(ui.prefix, strlen(ui.prefix)); /* width of all but the first column */
    for (unsigned c = 1; c < table->columns; c++)
        others += table->width[c] ? table->width[c] + 2 : 0;
    if (ui.width != UINT_MAX && table->width[0] + others > ui.width) {
        size_t min_width = ui.width > 60 ? 24 : 12;
        size_t width_left = ui.width > others + min_width ? ui.width - others : min_width;
        table->width[0] = width_left < table->width[0] ? width_left : table->width[0];
    }
    table->multibyte = table->multibyte || is_multibyte(&table->text);
    table->pass = TABLE_PRINTS;
    table->stream = stream;
    table->header = header;
    table->nrows = 0;
}

static void end_printing(struct table *table)
{
    if (table->nrows)
        end_line(table);
    if (table->text.len)
        put_bytes(table->stream, table->text.ptr, table->text.len);
}

void table_print(struct table *table, FILE *stream, bool header)
{
    struct text cells = table->text;
    const char *p = cells.ptr;
    size_t rows = table->nrows, cell = 0;
    begin_printing(table, stream, header);
    table->text = (struct text){0};
    for (size_t r = 0; r < rows; r++) {
        table_row(table, table->styles[r]);
        for (unsigned c = 0; c < table->columns; c++, p += table->bytes[cell++]) {
            text_bytes(&table->text, p, table->bytes[cell]);
            table_cell(table);
        }
    }
    end_printing(table);
    text_free(&cells);
}

/* measure_rows - calls ROWS to measure the columns of TABLE. */
static void measure_rows(struct table *table, void (*rows)(struct table *table, const void *user),
                         const void *user)
{
    table->pass = TABLE_MEASURES;
    table->nrows = 0;
    table->multibyte = false;
    memset(table->width, 0, sizeof table->width);
    rows(table, user);
    remove_measured_rows(table);
}

void table_flow(struct table *table, void (*rows)(struct table *table, const void *user), const void *user,
                FILE *stream, bool header)
{
    bool ascii = print.ascii;
    print.ascii = false; /* nearly always, all is ASCII already, so that no cell has to be checked */
    measure_rows(table, rows, user);
    if (ascii && table->multibyte) {
        print.ascii = true;
        measure_rows(table, rows, user);
    }
    begin_printing(table, stream, header);
    text_clear(&table->text);
    rows(table, user);
    end_printing(table);
    print.ascii = ascii;
}

void table_free(struct table *table)
{
    text_free(&table->text);
    free(table->bytes);
    free(table->styles);
    *table = (struct table){0};
}

/* -------------------------------------------------------------------- rows */

static bool glob_match(const char *glob, ckpt_str name)
{
    ckpt_str g = str_c(glob);
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

struct sorting {
    int (*compare)(ckpt_str a, ckpt_str b);
    struct named_row *moved; /* room for half of the rows */
};

static bool comes_before(const struct sorting *sorting, const struct named_row *left,
                         const struct named_row *right)
{
    int c = sorting->compare(left->name, right->name);
    return c ? c < 0 : left->row < right->row;
}

/* find_position - returns how many of the COUNT sorted ROWS come before ROW. */
static size_t find_position(const struct sorting *sorting, const struct named_row *rows, size_t count,
                            const struct named_row *row)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (comes_before(sorting, &rows[middle], row))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* count_before - returns what find_position returns, faster if it is small. */
static size_t count_before(const struct sorting *sorting, const struct named_row *rows, size_t count,
                           const struct named_row *row)
{
    size_t known = 0, next = 1;
    for (; next <= count && comes_before(sorting, &rows[next - 1], row); next *= 2)
        known = next;
    return known + find_position(sorting, rows + known, (next <= count ? next - 1 : count) - known, row);
}

static void insertion_sort(const struct sorting *sorting, struct named_row *rows, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct named_row row = rows[i];
        if (comes_before(sorting, &rows[i - 1], &row))
            continue;
        size_t at = find_position(sorting, rows, i - 1, &row);
        memmove(rows + at + 1, rows + at, (i - at) * sizeof *rows);
        rows[at] = row;
    }
}

/* merge_sort - sorts ROWS. Names are usually almost in order: this merge sort skips rows that are in place,
 * and compares a seventh as often as qsort. */
static void merge_sort(const struct sorting *sorting, struct named_row *rows, size_t count)
{
    size_t half = count / 2, left = 0, right = half;
    if (count <= 16) {
        insertion_sort(sorting, rows, count);
        return;
    }
    merge_sort(sorting, rows, half);
    merge_sort(sorting, rows + half, count - half);
    if (comes_before(sorting, &rows[half - 1], &rows[half]))
        return;
    size_t end = find_position(sorting, rows, half, &rows[half]), nmoved = half - end;
    memcpy(sorting->moved, rows + end, nmoved * sizeof *rows);
    for (size_t n; left < nmoved; left += n, end += n) {
        rows[end++] = rows[right++];
        n = nmoved - left;
        if (right < count)
            n = count_before(sorting, sorting->moved + left, n, &rows[right]);
        memcpy(rows + end, sorting->moved + left, n * sizeof *rows);
    }
}

void rows_sort(const ckpt_file *f, uint32_t *rows, size_t count, int (*compare)(ckpt_str a, ckpt_str b))
{
    struct named_row *named = mem_new(count, sizeof *named);
    struct sorting s = {compare, mem_new(count / 2, sizeof *s.moved)};
    for (size_t i = 0; i < count; i++)
        named[i] = (struct named_row){ckpt_tensor_name(f, rows[i]), rows[i]};
    merge_sort(&s, named, count);
    for (size_t i = 0; i < count; i++)
        rows[i] = named[i].row;
    free(s.moved);
    free(named);
}

struct row_size {
    uint64_t bytes;
    size_t rank; /* index in natural order */
    uint32_t row;
};

static int compare_row_sizes(const void *left, const void *right)
{
    const struct row_size *x = left, *y = right;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* sort_by_size - sorts ROWS by size, the largest first. ROWS are in natural order; rows of equal size stay in
 * that order. */
static void sort_by_size(const ckpt_file *f, uint32_t *rows, size_t count)
{
    struct row_size *sized = mem_new(count, sizeof *sized);
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        sized[i] = (struct row_size){t.has_data ? t.nbytes : 0, i, rows[i]};
    }
    if (count)
        qsort(sized, count, sizeof *sized, compare_row_sizes);
    for (size_t i = 0; i < count; i++)
        rows[i] = sized[i].row;
    free(sized);
}

uint32_t *rows_select(const ckpt_file *f, const char *const *globs, size_t nglobs, enum row_order order,
                      size_t *number)
{
    uint32_t count = ckpt_tensor_count(f);
    uint32_t *rows = mem_new(count, sizeof *rows);
    *number = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!nglobs || globs_pass(ckpt_tensor_name(f, i), globs, nglobs))
            rows[(*number)++] = i;
    if (order != ORDER_FILE)
        rows_sort(f, rows, *number, ckpt_natural_compare);
    if (order == ORDER_SIZE)
        sort_by_size(f, rows, *number);
    return rows;
}

void add_saturated(uint64_t *sum, uint64_t count)
{
    *sum = count > UINT64_MAX - *sum ? UINT64_MAX : *sum + count;
}

void totals_add(struct totals *sum, const ckpt_tensor *tensor)
{
    if (tensor->part_of == CKPT_NO_TENSOR)
        sum->tensors++;
    if (tensor->has_data && tensor->alias_of == CKPT_NO_TENSOR) {
        add_saturated(&sum->elements, tensor->elements);
        add_saturated(&sum->bytes, tensor->nbytes);
    }
}

struct totals totals_of_rows(const ckpt_file *f, const uint32_t *rows, size_t count)
{
    struct totals sum = {0};
    for (size_t i = 0; i < count; i++) {
        const ckpt_tensor t = tensor_at(f, rows[i]);
        totals_add(&sum, &t);
    }
    return sum;
}

void table_sum_cells(struct table *table, const struct totals *sum)
{
    text_noun(&table->text, sum->tensors, "tensor", "tensors");
    table_cell(table);
    text_count(&table->text, sum->elements);
    table_cell(table);
    text_size(&table->text, sum->bytes);
    table_cell(table);
}

void text_totals(struct text *text, const struct totals *sum, const char *between)
{
    text_noun(text, sum->tensors, "tensor", "tensors");
    text_add(text, between);
    text_noun(text, sum->elements, "element", "elements");
    text_add(text, between);
    text_size(text, sum->bytes);
}

ckpt_tensor tensor_at(const ckpt_file *f, uint32_t row)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    (void)ckpt_tensor_at(f, row, &t);
    return t;
}
