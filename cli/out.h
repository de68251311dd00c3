/* out.h - output: results go to stdout; errors, notices and progress to stderr. */
#pragma once

#include <stdio.h>

#include "opt.h"
#include "print.h"

struct ui {
    bool json, quiet;
    ckpt_status last_error;  /* status of the last error that was printed */
    const char *prefix;      /* what each line about a file begins with: its escaped name, or "" */
    bool ignore_case;        /* globs match ASCII letters of either case */
    bool allow_none;         /* a glob, prefix or rule may match nothing */
    uint64_t jobs;           /* threads; 0: the library decides */
    const struct cmd *cmd;   /* the command that runs; NULL: none was recognized */
    const char *root;        /* --root of the inputs, or NULL */
    ckpt_limits limits;      /* for opening the inputs; a field of 0 has the library's default */
    bool tty, color;         /* of stdout */
    bool err_tty, err_color; /* of stderr */
    bool pipe_may_close;     /* a closed pipe on stdout is not an error */
    unsigned width;          /* columns of the terminal; UINT_MAX: lines are never wrapped */
};
extern struct ui ui;

/* The values of UI_REMOTE_OPTIONS. */
struct remote_options {
    const char *ca_file;
    bool netrc, offline;
};
extern struct remote_options remote_options;

/* Options of many commands. One table for all makes the program start faster than a copy for each. */
extern const struct opt ui_remote_options[], ui_reader_options[], ui_input_options[], ui_work_options[];

/* clang-format off */
#define UI_OPTIONS(table) {0, NULL, NULL, OPT_GROUP, (void *)(table), ""}
/* For commands that open files, which may be on a server. */
#define UI_REMOTE_OPTIONS UI_OPTIONS(ui_remote_options)
/* For commands that open checkpoints of tensor-parallel ranks or of tf.train.Checkpoint. */
#define UI_READER_OPTIONS UI_OPTIONS(ui_reader_options)
#define UI_INPUT_OPTIONS  UI_OPTIONS(ui_input_options)
/* For commands that read the data of all tensors. */
#define UI_WORK_OPTIONS   UI_OPTIONS(ui_work_options)
#define UI_JSON_OPTION {0, "json", NULL, OPT_FLAG, &ui.json, "print JSON, one object per line"}
#define UI_ROOT_OPTION \
    {0, "root", "PATH", OPT_TEXT, &ui.root, "only what is below PATH, named from there; auto: the weights"}
#define UI_CASE_OPTION \
    {'i', "ignore-case", NULL, OPT_FLAG, &ui.ignore_case, "let globs match upper and lower case alike"}
/* For commands with globs, prefixes or rules: one that matches nothing is an error. */
#define UI_NONE_OPTION \
    {0, "allow-none", NULL, OPT_FLAG, &ui.allow_none, "go on if a glob, prefix or rule matches nothing"}
#define UI_QUIET_OPTION {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "only what was asked for and what is wrong"}
/* clang-format on */

void ui_init(void);
unsigned ui_jobs(void);  /* ui.jobs, at most UINT_MAX */
ckpt_work ui_work(void); /* for functions of the library: ui.jobs, and progress on the terminal */

/* Styles of text on a terminal with colours. */
enum style { PLAIN, BOLD, DIM, RED, GREEN, YELLOW };
const char *style_on(enum style style); /* "" without colours */
const char *style_off(enum style style);

/* report_stream - returns the stream for the report of a command that writes OUTPUT (NULL: nothing). It is
 * stderr if OUTPUT is "-" or a path of the pipe or file (no device) that is standard output; else stdout. */
FILE *report_stream(const char *output);
/* line_put - prints ui.prefix and LINE to stdout. line_printf - does so for what printf() would print. */
void line_put(const struct text *line);
void line_printf(const char *fmt, ...) CKPT_PRINTF(1, 2);
/* usage_error - prints "ckpt: …" and the hint "ckpt CMD --help". Returns EXIT_TROUBLE. */
int usage_error(const char *cmd, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* usage_error_suggest - prints "ckpt: …" and HINT, the command line that was probably meant. */
int usage_error_suggest(const char *hint, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* usage_error_swapped - does so for two operands; FIRST and SECOND are in the right order. */
int usage_error_swapped(const char *words, char *first, char *second);
/* report_error - prints ERR, with PATH if no file is named in ERR. Returns EXIT_TROUBLE. */
int report_error(const ckpt_error *err, const char *path);
/* report_failure - prints an error that the command itself found. Returns EXIT_TROUBLE. */
int report_failure(ckpt_status status, const char *path, const char *hint, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
/* print_second_hint - prints HINT after the error about PATH and its hint; with --json, as a notice, because
 * the object of the error is printed. */
void print_second_hint(const char *path, const char *hint);
/* set_merged_inputs - has notices about the COUNT files PATHS, which are read as one, printed with the file
 * that each is about. PATHS must stay valid. */
void set_merged_inputs(int count, char *const *paths);
/* print_notice - prints "ckpt: PATH: …" to stderr, unless --quiet is given; with --json, as JSON. Callers
 * escape text that comes from files. */
void print_notice(const char *path, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* print_reason - prints, in the same way but also with --quiet, why the command's answer is no. */
void print_reason(const char *path, const char *fmt, ...) CKPT_PRINTF(2, 3);
void print_plan_notices(const ckpt_plan *p, const char *path);

/* open_input - opens PATH as ckpt_open does, applies --root, and prints errors and notices. Returns NULL
 * after an error. At most two files may be open at a time. */
ckpt_file *open_input(const char *path, bool ignore_crc);
typedef ckpt_status opener(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err);
/* open_input_by - opens PATH in the same way by OPEN_PATH instead of ckpt_open. */
ckpt_file *open_input_by(opener *open_path, const char *path, bool ignore_crc);
/* open_for_git - opens PATH as open_input does, but prints no notices. It prints an error to stdout: LABEL, a
 * sentence and the reason, but not PATH, because git makes a new temporary name each time. */
ckpt_file *open_for_git(const char *path, bool ignore_crc, const char *label);
/* close_input - prints the notices that reading F added, and closes F (may be NULL). */
void close_input(ckpt_file *f);
/* finish_output - flushes stdout; returns STATUS, or EXIT_TROUBLE after printing the error. */
int finish_output(int status);

/* A table with aligned columns. Cells are added row by row; the last column is not padded, and the first is
 * wrapped on a terminal if it is too wide. */
#define TABLE_COLUMNS 12
struct table {
    struct text text;  /* all cells, one after the other; in the pass TABLE_PRINTS, the lines */
    size_t cell_start; /* where the text of the next cell begins */
    enum { TABLE_COLLECTS, TABLE_MEASURES, TABLE_PRINTS } pass;
    unsigned columns, column; /* number of columns; column of the next cell */
    size_t nrows;
    bool right[TABLE_COLUMNS];   /* right-aligned, for numbers */
    size_t width[TABLE_COLUMNS]; /* of the widest cell so far, in columns of the terminal */
    bool multibyte;              /* some row takes fewer columns of the terminal than it has bytes */
    /* set in the pass TABLE_COLLECTS: */
    uint32_t *bytes;    /* size of each cell */
    enum style *styles; /* of each row */
    size_t ncells;
    /* used in the pass TABLE_PRINTS: */
    FILE *stream;
    bool header;           /* the first row is printed */
    enum style line_style; /* of the current line */
    size_t line_end;       /* where the last nonempty cell of the current line ends */
};
/* table_header - adds the first row, TITLES, which is printed if table_print or table_flow is called with
 * HEADER. Without HEADER, TITLES may be NULL. */
void table_header(struct table *table, const char *const *titles);
void table_row(struct table *table, enum style style);
void table_cell(struct table *table); /* ends the cell whose text was added to table->text */
void table_cellf(struct table *table, const char *fmt, ...)
    CKPT_PRINTF(2, 3); /* adds a cell with that text */

/* Cells of a row, which rows after it have, too. */
struct table_cells {
    struct text text;    /* as it is printed */
    size_t blanks_after; /* at the end of TEXT */
};
/* table_keep_cells - sets CELLS to the cells that were added since table->cell_start was START; the last is
 * not empty. table_repeat_cells adds these COUNT cells to another row, in the same pass of table_flow. */
void table_keep_cells(const struct table *table, size_t start, struct table_cells *cells);
void table_repeat_cells(struct table *table, const struct table_cells *cells, unsigned count);
void table_print(struct table *table, FILE *stream, bool header);
/* table_flow - prints a table of very many rows without keeping them. It calls ROWS twice, to measure the
 * columns and to print; in each call, ROWS adds all rows. */
void table_flow(struct table *table, void (*rows)(struct table *t, const void *user), const void *user,
                FILE *stream, bool header);
void table_free(struct table *table);

/* rows_sort - sorts COUNT ROWS of F by name with COMPARE; equal names stay in the order of the file. */
void rows_sort(const ckpt_file *f, uint32_t *rows, size_t count, int (*compare)(ckpt_str a, ckpt_str b));
enum row_order { ORDER_NATURAL, ORDER_FILE, ORDER_SIZE }; /* ORDER_SIZE: the largest first */
/* rows_select - returns the *NUMBER rows of F whose names pass the globs ('!GLOB' excludes), sorted by ORDER.
 * The caller frees them. */
uint32_t *rows_select(const ckpt_file *f, const char *const *globs, size_t nglobs, enum row_order order,
                      size_t *number);
bool globs_pass(ckpt_str name, const char *const *globs, size_t nglobs);

struct totals {
    uint64_t tensors, elements, bytes;
};
/* add_saturated - adds COUNT to *SUM; if the sum is above 2^64 - 1, sets it to that. */
void add_saturated(uint64_t *sum, uint64_t count);
void totals_add(struct totals *sum, const ckpt_tensor *tensor);
/* totals_of_rows - returns the sums of the COUNT ROWS of F. */
struct totals totals_of_rows(const ckpt_file *f, const uint32_t *rows, size_t count);
/* text_totals - adds "14 tensors, 5564 elements, 21.7 KiB", with BETWEEN in place of ", ". */
void text_totals(struct text *text, const struct totals *sum, const char *between);
/* table_sum_cells - adds cells for SUM: tensors, elements, bytes. */
void table_sum_cells(struct table *table, const struct totals *sum);
/* tensor_at - returns the tensor of ROW, which exists. */
ckpt_tensor tensor_at(const ckpt_file *f, uint32_t row);
