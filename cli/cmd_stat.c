#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files.h"
#include "find.h"
#include "number.h"
#include "progress.h"
#include "records.h"
#include "share.h"

static struct {
    struct list globs;
    const char *fail_on;
    bool ignore_crc;
} opts;

static const struct opt options[] = {
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs, "only names that match; '!GLOB' excludes; repeatable"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    UI_ROOT_OPTION,
    {0, "fail-on", "nan,inf", OPT_TEXT, &opts.fail_on, "exit with 1 if there are any"},
    RECORDS_OPTIONS("exact numbers"),
    {0, "ignore-crc", NULL, OPT_FLAG, &opts.ignore_crc, "go on despite wrong checksums in the file"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    SHARE_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_stat = {
    "stat",   "FILE…", "print minimum, maximum, mean, spread, NaN and Inf of each tensor", options, 1,
    NO_LIMIT, run_stat};

static bool fail_on_nan, fail_on_inf;

struct job {
    ckpt_file *f;
    uint32_t *rows;
    size_t n;
    ckpt_stats *stats; /* of each row */
};

static uint64_t count_numbers(const ckpt_stats *stats) { return stats->finite + stats->nan + stats->inf; }

/* ----------------------------------------------------------------- histogram */

static void add_histogram(struct text *out, const ckpt_stats *stats, bool blocks)
{
    static const char *const block_bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii_bars[] = {"_", ".", ":", "-", "=", "+", "*", "#", "@"};
    uint64_t max_count = 0;
    size_t last = 0;
    for (size_t i = 0; i < CKPT_STAT_BINS; i++) {
        max_count = stats->histogram[i] > max_count ? stats->histogram[i] : max_count;
        last = stats->histogram[i] ? i : last;
    }
    if (!max_count) {
        text_add(out, "-");
        return;
    }
    for (size_t i = 0; i < CKPT_STAT_BINS && (!blocks || i <= last); i++) {
        double part = (double)stats->histogram[i] / (double)max_count;
        text_add(out, (blocks ? block_bars : ascii_bars)[(size_t)ceil(part * 8)]);
    }
}

/* ---------------------------------------------------------------------- text */

/* add_extreme - adds the minimum or maximum: integers as they are, others in four digits unless EXACT. */
static void add_extreme(struct text *out, const ckpt_tensor *tensor, const ckpt_stats *stats, bool max,
                        bool exact)
{
    double x = max ? stats->max : stats->min;
    uint64_t bits = max ? stats->max_bits : stats->min_bits;
    char number[NUMBER_TEXT_SIZE];
    if (stats->wide && tensor->dtype == CKPT_DT_I64)
        text_addf(out, "%" PRId64, (int64_t)bits);
    else if (stats->wide)
        text_addf(out, "%" PRIu64, bits);
    else if (!number_has_fraction((ckpt_dtype)tensor->dtype))
        text_addf(out, "%.0f", x);
    else if (exact)
        text_add(out, real_text(x, false, number));
    else
        text_addf(out, "%.4g", x);
}

/* add_share - adds PART / ALL as "3.1%"; as "0" only if PART is 0, as "100%" only if PART is ALL. */
static void add_share(struct text *out, uint64_t part, uint64_t all)
{
    double percent = all ? 100 * (double)part / (double)all : 0;
    if (!part)
        text_add(out, "0");
    else if (percent < 0.1)
        text_add(out, "<0.1%");
    else if (part < all && percent > 99.9)
        text_add(out, ">99.9%");
    else
        text_addf(out, part == all ? "%.0f%%" : "%.1f%%", percent);
}

enum { NAME, DTYPE, MIN, MAX, MEAN, STD, NORM, ZEROS, NAN_COUNT, INF_COUNT, HISTOGRAM, COLUMNS };

static const char *const titles[COLUMNS] = {"NAME", "DTYPE", "MIN", "MAX", "MEAN",     "STD",
                                            "NORM", "ZEROS", "NAN", "INF", "HISTOGRAM"};
/* Columns that are left out on a narrow terminal, NORM first. */
static const unsigned dispensable[] = {NORM, HISTOGRAM, ZEROS, DTYPE, MEAN};
static unsigned ncolumns_left_out; /* how many of the dispensable columns are left out */

static bool is_shown(unsigned column)
{
    for (unsigned i = 0; i < ncolumns_left_out; i++)
        if (dispensable[i] == column)
            return false;
    return true;
}

/* end_cell - ends the cell whose text was added, or removes that text if COLUMN is not shown. */
static void end_cell(struct table *table, unsigned column)
{
    if (is_shown(column))
        table_cell(table);
    else
        table->text.len = table->cell_start;
}

static void add_header_row(struct table *table)
{
    table_row(table, BOLD);
    for (unsigned i = 0; i < COLUMNS; i++) {
        text_add(&table->text, titles[i]);
        end_cell(table, i);
    }
}

static void add_dash_cells(struct table *table, unsigned from, unsigned to)
{
    for (; from <= to; from++) {
        text_add(&table->text, "-");
        end_cell(table, from);
    }
}

static void add_real_cell(struct table *table, double number, unsigned column)
{
    if (isnan(number))
        text_add(&table->text, "-");
    else
        text_addf(&table->text, "%.4g", number);
    end_cell(table, column);
}

static void add_row_cells(struct table *table, const ckpt_tensor *tensor, const ckpt_stats *stats,
                          bool blocks)
{
    table_row(table, stats->nan || stats->inf ? RED : PLAIN);
    text_name(&table->text, tensor->name);
    end_cell(table, NAME);
    text_dtype(&table->text, tensor);
    end_cell(table, DTYPE);
    if (!stats->numeric) {
        add_dash_cells(table, MIN, HISTOGRAM);
        return;
    }
    if (stats->finite) {
        add_extreme(&table->text, tensor, stats, false, false);
        end_cell(table, MIN);
        add_extreme(&table->text, tensor, stats, true, false);
        end_cell(table, MAX);
        add_real_cell(table, stats->mean, MEAN);
        add_real_cell(table, stats->std, STD);
        add_real_cell(table, stats->norm, NORM);
    } else {
        add_dash_cells(table, MIN, NORM);
    }
    add_share(&table->text, stats->zeros, count_numbers(stats));
    end_cell(table, ZEROS);
    text_uint(&table->text, stats->nan);
    end_cell(table, NAN_COUNT);
    text_uint(&table->text, stats->inf);
    end_cell(table, INF_COUNT);
    add_histogram(&table->text, stats, blocks);
    end_cell(table, HISTOGRAM);
}

static void fill_table(struct table *table, const struct job *job)
{
    bool blocks = ui.tty && !print.ascii;
    *table = (struct table){.columns = COLUMNS - ncolumns_left_out};
    for (unsigned i = MIN, column = is_shown(DTYPE) ? 2 : 1; i < HISTOGRAM; i++)
        if (is_shown(i))
            table->right[column++] = true;
    add_header_row(table);
    for (size_t i = 0; i < job->n; i++) {
        const ckpt_tensor t = tensor_at(job->f, job->rows[i]);
        add_row_cells(table, &t, &job->stats[i], blocks);
    }
}

/* fits_terminal - returns true if TABLE fits the terminal when names are wrapped to half of the terminal. */
static bool fits_terminal(const struct table *table)
{
    size_t total_width = table->width[0] < ui.width / 2 ? table->width[0] : ui.width / 2;
    for (unsigned i = 1; i < table->columns; i++)
        total_width += 2 + table->width[i];
    return total_width <= ui.width;
}

static void print_stat_table(const struct job *job)
{
    struct table table;
    ncolumns_left_out = 0;
    fill_table(&table, job);
    while (ncolumns_left_out < sizeof dispensable / sizeof *dispensable && !fits_terminal(&table)) {
        table_free(&table);
        ncolumns_left_out++;
        fill_table(&table, job);
    }
    table_print(&table, stdout, ui.tty || records.header);
    table_free(&table);
}

static void add_real_field(struct record *record, double value)
{
    char number[NUMBER_TEXT_SIZE];
    if (!isnan(value))
        text_add(&record->text, real_text(value, false, number));
    record_field(record);
}

static void add_extreme_field(struct record *record, const ckpt_tensor *tensor, const ckpt_stats *stats,
                              bool max)
{
    if (stats->finite)
        add_extreme(&record->text, tensor, stats, max, true);
    record_field(record);
}

static void add_stat_fields(struct record *record, const ckpt_tensor *tensor, const ckpt_stats *stats)
{
    record_field_uint(record, count_numbers(stats));
    add_extreme_field(record, tensor, stats, false);
    add_extreme_field(record, tensor, stats, true);
    add_real_field(record, stats->mean);
    add_real_field(record, stats->std);
    add_real_field(record, stats->norm);
    record_field_uint(record, stats->zeros);
    record_field_uint(record, stats->nan);
    record_field_uint(record, stats->inf);
    for (size_t i = 0; i < CKPT_STAT_BINS; i++)
        text_addf(&record->text, "%s%" PRIu64, i ? "," : "", stats->histogram[i]);
    record_field(record);
}

static void print_stat_records(const struct job *job)
{
    static const char *const names[] = {"name", "dtype", "elements", "min", "max", "mean",
                                        "std",  "norm",  "zeros",    "nan", "inf", "histogram"};
    struct record r = {0};
    records_header(names, 12);
    for (size_t i = 0; i < job->n; i++) {
        const ckpt_tensor t = tensor_at(job->f, job->rows[i]);
        record_field_name(&r, t.name);
        text_dtype(&r.text, &t);
        record_field(&r);
        if (job->stats[i].numeric)
            add_stat_fields(&r, &t, &job->stats[i]);
        for (size_t field = 2; !job->stats[i].numeric && field < 12; field++)
            record_field(&r);
        record_put(&r);
    }
    record_free(&r);
}

struct sums {
    struct totals all;
    uint64_t zeros, nan, inf;
    double min, max;    /* of floating-point tensors */
    double squares;     /* of the norms of floating-point tensors, each times norm_factor */
    double norm_factor; /* a power of two, so that no square overflows or vanishes */
};

static double total_norm(const struct sums *sum) { return sqrt(sum->squares) / sum->norm_factor; }

/* find_norm_factor - returns the power of two that makes the largest norm of all tensors about 1. */
static double find_norm_factor(const struct job *job)
{
    int exponent = 0;
    double largest = 0;
    for (size_t i = 0; i < job->n; i++)
        if (isfinite(job->stats[i].norm) && job->stats[i].norm > largest)
            largest = job->stats[i].norm;
    (void)frexp(largest, &exponent);
    return ldexp(1, exponent < -1000 ? 1000 : -exponent);
}

/* sum_stats - returns the totals of all rows; the elements of a tensor that has aliases count once. */
static struct sums sum_stats(const struct job *job)
{
    struct sums sum = {
        .min = (double)INFINITY, .max = -(double)INFINITY, .norm_factor = find_norm_factor(job)};
    bool *seen = mem_new(ckpt_tensor_count(job->f), sizeof *seen);
    for (size_t i = 0; i < job->n; i++) {
        const ckpt_tensor t = tensor_at(job->f, job->rows[i]);
        const ckpt_stats *s = &job->stats[i];
        bool *is_counted = &seen[t.alias_of == CKPT_NO_TENSOR ? job->rows[i] : t.alias_of];
        sum.all.tensors += t.part_of == CKPT_NO_TENSOR;
        if (*is_counted || !t.has_data)
            continue;
        *is_counted = true;
        add_saturated(&sum.all.elements, t.elements);
        add_saturated(&sum.all.bytes, t.nbytes);
        sum.zeros += s->zeros;
        sum.nan += s->nan;
        sum.inf += s->inf;
        if (!number_has_fraction((ckpt_dtype)t.dtype) || !s->finite)
            continue;
        sum.min = s->min < sum.min ? s->min : sum.min;
        sum.max = s->max > sum.max ? s->max : sum.max;
        sum.squares += (s->norm * sum.norm_factor) * (s->norm * sum.norm_factor);
    }
    free(seen);
    return sum;
}

static void print_stat_totals(const struct job *job)
{
    struct text out = {0}, found = {0};
    struct sums sum = sum_stats(job);
    text_totals(&out, &sum.all, " · ");
    if (sum.min <= sum.max)
        text_addf(&found, "floats %.4g to %.4g, norm %.4g · ", sum.min, sum.max, total_norm(&sum));
    text_addf(&found, "%" PRIu64 " NaN, %" PRIu64 " Inf · %s", sum.nan, sum.inf, ckpt_file_title(job->f));
    bool fits = text_columns(out.ptr, out.len) + text_columns(found.ptr, found.len) + 3 <= ui.width;
    print_text(stdout, "%s%s%s%s%s\n", style_on(DIM), out.ptr, fits ? " · " : "\n", found.ptr,
               style_off(DIM));
    text_free(&found);
    for (unsigned i = 0; i < ncolumns_left_out; i++)
        print_text(stdout, "%s%s%s%s", style_on(DIM),
                   i ? ", " : "hidden (too narrow): ", titles[dispensable[i]], style_off(DIM));
    if (ncolumns_left_out)
        put_line("");
    text_free(&out);
}

static void extreme_json(json *parent, const ckpt_tensor *tensor, const ckpt_stats *stats, bool max)
{
    const char *key = max ? "max" : "min";
    struct text number = {0};
    if (number_has_fraction((ckpt_dtype)tensor->dtype) || !stats->finite) {
        json_real_or_null(parent, key, max ? stats->max : stats->min);
        return;
    }
    add_extreme(&number, tensor, stats, max, true);
    json_raw(parent, key, number.ptr);
    text_free(&number);
}

static json *stat_row_json(const ckpt_tensor *tensor, const ckpt_stats *stats)
{
    json *row = json_object();
    json_tensor(row, tensor);
    if (!stats->numeric) {
        json_null(row, "elements");
        return row;
    }
    json_u64(row, "elements", count_numbers(stats));
    extreme_json(row, tensor, stats, false);
    extreme_json(row, tensor, stats, true);
    json_real_or_null(row, "mean", stats->mean);
    json_real_or_null(row, "std", stats->std);
    json_real(row, "norm", stats->norm);
    json_u64(row, "zeros", stats->zeros);
    json_u64(row, "nan", stats->nan);
    json_u64(row, "inf", stats->inf);
    json_u64s(row, "histogram", stats->histogram, CKPT_STAT_BINS);
    json_u64(row, "sampled", stats->sampled);
    return row;
}

static void print_stat_json(const struct job *job)
{
    json *head = json_schema("ckpt.stat.v1"), *tail = json_object();
    struct sums sum = sum_stats(job);
    json_text(head, "file", ckpt_file_path(job->f));
    json_text(head, "format", ckpt_file_format(job->f));
    json_begin_rows(head, "tensors", stdout);
    for (size_t i = 0; i < job->n; i++) {
        const ckpt_tensor t = tensor_at(job->f, job->rows[i]);
        json_row(stat_row_json(&t, &job->stats[i]), stdout);
    }
    json *total = json_totals(tail, "total", sum.all.tensors, sum.all.elements, sum.all.bytes);
    bool has_numbers = sum.min <= sum.max;
    json_real_or_null(total, "min", has_numbers ? sum.min : (double)NAN);
    json_real_or_null(total, "max", has_numbers ? sum.max : (double)NAN);
    json_real_or_null(total, "norm", has_numbers ? total_norm(&sum) : (double)NAN);
    json_u64(total, "zeros", sum.zeros);
    json_u64(total, "nan", sum.nan);
    json_u64(total, "inf", sum.inf);
    json_end_rows(tail, stdout);
}

static bool is_failed(const ckpt_stats *stats)
{
    return (fail_on_nan && stats->nan) || (fail_on_inf && stats->inf);
}

/* keep_failed - removes the rows from JOB that pass --fail-on. */
static void keep_failed(struct job *job)
{
    size_t nkept = 0;
    for (size_t i = 0; i < job->n; i++) {
        if (!is_failed(&job->stats[i]))
            continue;
        job->rows[nkept] = job->rows[i];
        job->stats[nkept++] = job->stats[i];
    }
    job->n = nkept;
}

/* check_fail_on - checks the rows by --fail-on. Returns EXIT_NO after naming the first tensor that
 * fails, else EXIT_OK. */
static int check_fail_on(const struct job *job, const char *path)
{
    ckpt_str first_failed = {0};
    size_t nfailed = 0;
    for (size_t i = 0; i < job->n; i++)
        if (is_failed(&job->stats[i]) && !nfailed++)
            first_failed = ckpt_tensor_name(job->f, job->rows[i]);
    if (!nfailed)
        return EXIT_OK;
    print_reason(path, "%s %s, the first is %s", show_noun(nfailed, "tensor has", "tensors have"),
                 !fail_on_inf   ? "NaN"
                 : !fail_on_nan ? "Inf"
                                : "NaN or Inf",
                 escape_name(first_failed));
    return EXIT_NO;
}

static void print_stats(const struct job *job)
{
    if (ui.json)
        print_stat_json(job);
    else if (records_option())
        print_stat_records(job);
    else
        print_stat_table(job);
    if (ui.tty && !ui.quiet && !ui.json && !records_option())
        print_stat_totals(job);
}

static int compute_and_print(struct job *job, const char *path)
{
    ckpt_work how = ui_work();
    ckpt_error err;
    if (!check_globs(job->f, opts.globs.items, opts.globs.n, false))
        return EXIT_TROUBLE;
    job->stats = mem_new(job->n + 1, sizeof *job->stats);
    job->stats->struct_size = sizeof *job->stats;
    progress_begin("reading");
    ckpt_status s = share_begin("stat", &how, &err);
    if (s == CKPT_OK)
        s = ckpt_stat(job->f, job->rows, job->n, &how, job->stats, &err);
    progress_wipe();
    s = share_end(s, &err);
    if (s != CKPT_OK)
        return share_report(s, &err, path);
    if (ui.quiet && opts.fail_on && !ui.json)
        keep_failed(job);
    if (job->n || !(ui.quiet && opts.fail_on))
        print_stats(job);
    return check_fail_on(job, path);
}

static int stat_file(const char *path)
{
    struct job job = {.f = open_input(path, opts.ignore_crc)};
    if (!job.f)
        return EXIT_TROUBLE;
    job.rows = rows_select(job.f, opts.globs.items, opts.globs.n, ORDER_NATURAL, &job.n);
    int status = compute_and_print(&job, path);
    free(job.stats);
    free(job.rows);
    close_input(job.f);
    return status;
}

/* parse_fail_on - parses the words of --fail-on. Returns false if one is unknown. */
static bool parse_fail_on(void)
{
    for (const char *word = opts.fail_on; word; word = word[3] ? word + 4 : NULL) {
        bool nan = strncasecmp(word, "nan", 3) == 0, inf = strncasecmp(word, "inf", 3) == 0;
        if ((!nan && !inf) || (word[3] && word[3] != ','))
            return false;
        fail_on_nan = fail_on_nan || nan;
        fail_on_inf = fail_on_inf || inf;
    }
    return true;
}

int run_stat(int count, char **operand)
{
    if (!parse_fail_on())
        return usage_error("stat", "--fail-on takes nan, inf or both, as nan,inf; not '%s'", opts.fail_on);
    int status = records_check("stat");
    if (status == EXIT_OK)
        status = share_check("stat", count, operand, 1);
    if (status != EXIT_OK)
        return status;
    return files_each(count, operand, records_option() ? FILES_COLUMN : FILES_HEADING, stat_file);
}
