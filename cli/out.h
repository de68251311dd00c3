/* out.h - where words go: answers to stdout, everything else to stderr. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdio.h>

#include "text.h"

struct ui {
    bool json, quiet;
    ckpt_status trouble;     /* the last that was reported */
    const char *prefix;      /* of each line about a file: its name, escaped, or "" */
    bool ignore_case;        /* of ASCII letters, where names are matched with globs */
    uint64_t jobs;           /* threads; 0: the library decides */
    const char *root;        /* that open_input narrows its file to, or NULL */
    ckpt_limits limits;      /* of the inputs; 0: the library's */
    bool tty, color;         /* stdout */
    bool err_tty, err_color; /* stderr */
    bool pipe_may_close;     /* whoever reads stdout may stop: no trouble */
    unsigned width;          /* of the terminal; UINT_MAX where lines are never wrapped */
};
extern struct ui ui;

#define UI_JOBS                                                                                              \
    {                                                                                                        \
        'j', "jobs", "N", OPT_COUNT, &ui.jobs, "use N threads; the result is the same for any N"             \
    }
#define UI_EXPANDED                                                                                          \
    {                                                                                                        \
        0, "max-expanded", "SIZE", OPT_SIZE, &ui.limits.max_expanded,                                        \
            "let expanded views show SIZE bytes at most (64MiB or 8 x file)"                                 \
    }
#define UI_ROOT                                                                                              \
    {                                                                                                        \
        0, "root", "PATH", OPT_TEXT, &ui.root, "only what is below PATH, without it; auto: the weights"      \
    }
#define UI_JSON                                                                                              \
    {                                                                                                        \
        0, "json", NULL, OPT_FLAG, &ui.json, "print JSON, one object per line"                               \
    }
#define UI_IGNORE_CASE                                                                                       \
    {                                                                                                        \
        'i', "ignore-case", NULL, OPT_FLAG, &ui.ignore_case, "let globs match upper and lower case alike"    \
    }
#define UI_QUIET                                                                                             \
    {                                                                                                        \
        'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "no notices; errors are still shown"                        \
    }

void ui_init(void);
unsigned ui_jobs(void); /* ui.jobs as the library takes it */
ckpt_work ui_work(void); /* … with the progress on the terminal */

/* How a stretch of text is meant; a terminal with colours shows it. */
enum style { PLAIN, BOLD, DIM, RED, GREEN, YELLOW };
const char *style_on(enum style s); /* "" without colours */
const char *style_off(enum style s);

/* line_put - the text of LINE as a line of the answer. */
void line_put(const struct text *line);
/* usage_error - "ckpt: …" and where to find help. Returns 2. */
int usage_error(const char *cmd, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* usage_answer - the same, where ANSWER is the command line that was probably meant. */
int usage_answer(const char *answer, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* trouble - tells ERR, with PATH when it names no file. Returns 2. */
int trouble(const ckpt_error *err, const char *path);
/* trouble_text - like trouble, for what the program itself found. */
int trouble_text(ckpt_status status, const char *path, const char *hint, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
/* notice - "ckpt: PATH: …" on stderr unless quiet; as JSON under --json. The
 * text is trusted: callers escape what comes from files. */
void notice(const char *path, const char *fmt, ...) CKPT_PRINTF(2, 3);
void notices_of_plan(const ckpt_plan *p, const char *path);

/* open_input - ckpt_open, with its error told and its notices shown. NULL: told.
 * At most two are open at a time. */
ckpt_file *open_input(const char *path, bool ignore_crc);
/* open_input_by - the same by another function than ckpt_open. */
typedef ckpt_status opener(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err);
ckpt_file *open_input_by(opener *open_path, const char *path, bool ignore_crc);
/* close_input - shows the notices that reading brought, and closes. NULL allowed. */
void close_input(ckpt_file *f);
/* finish_output - flushes stdout; STATUS, or 2 when that failed (told). */
int finish_output(int status);

/* A table whose columns line up. Cells are added row by row; the last column is
 * never padded, and the first is wrapped on a terminal when it is too wide. */
#define TABLE_COLUMNS 12
struct table {
    struct text text; /* of all cells, one behind the other; of lines, where they are printed */
    size_t begun;     /* where the text of the next cell begins */
    enum { TABLE_COLLECTS, TABLE_MEASURES, TABLE_PRINTS } pass;
    unsigned columns, column; /* the second: of the next cell */
    size_t nrows;
    bool right[TABLE_COLUMNS];   /* numbers stand right */
    size_t width[TABLE_COLUMNS]; /* of the widest cell so far */
    bool fancy;                  /* some row takes fewer columns than bytes */
    /* what is collected: */
    uint32_t *bytes;  /* of each cell */
    enum style *mark; /* of each row */
    size_t ncells, cap;
    /* while it is printed: */
    FILE *to;
    bool header;
    enum style marked; /* the line at hand */
    size_t end;        /* … behind its last cell that has text */
};
void table_row(struct table *t, enum style mark);
void table_cell(struct table *t); /* ends the cell whose text was added to t->text */
void table_print(struct table *t, FILE *to, bool header);
/* table_flow - a table of very many rows: ROWS adds them twice, once for the widths and
 * once to print them, and nothing is collected. */
void table_flow(struct table *t, void (*rows)(struct table *t, const void *user), const void *user, FILE *to,
                bool header);
void table_free(struct table *t);

/* rows_sort - N ROWS of FILE by their names as COMPARE has them, equal ones as in the file. */
void rows_sort(const ckpt_file *f, uint32_t *rows, size_t n, int (*compare)(ckpt_str a, ckpt_str b));
enum row_order { ORDER_NATURAL, ORDER_FILE, ORDER_SIZE }; /* the last: largest first */
/* rows_sorted - row numbers of FILE that pass the globs ('!' in front: not these) in that ORDER;
 * *N of them. */
uint32_t *rows_sorted(const ckpt_file *f, const char *const *globs, size_t nglobs, enum row_order order,
                      size_t *n);
bool globs_pass(ckpt_str name, const char *const *globs, size_t nglobs);

struct totals {
    uint64_t tensors, elements, bytes;
};
void totals_add(struct totals *sum, const ckpt_tensor *t);
/* tensor_at - ckpt_tensor_at of a row that is there. */
ckpt_tensor tensor_at(const ckpt_file *f, uint32_t row);

#endif
