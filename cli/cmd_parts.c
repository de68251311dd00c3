#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "files.h"
#include "json.h"

static struct {
    bool clean;
} opts;

static const struct opt options[] = {
    {0, "clean", NULL, OPT_FLAG, &opts.clean, "remove all parts of OUT instead"},
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_parts = {
    "parts", "[OUT]", "list the parts of an output that several processes write", options, 0, 1, run_parts};

/* By ckpt_part_state. */
static const char *const state_names[] = {"missing", "begun", "failed", "done"};

static ckpt_part part_at(const ckpt_parts *parts, uint32_t number)
{
    ckpt_part part = CKPT_INIT(ckpt_part);
    (void)ckpt_parts_at(parts, number, &part);
    return part;
}

/* is_output - returns true if PARTS are of an output, whose bytes are counted, and not results. */
static bool is_output(const ckpt_parts *parts) { return !*ckpt_parts_command(parts); }

/* count_states - counts the parts of each state. */
static void count_states(const ckpt_parts *parts, uint32_t counts[4])
{
    for (uint32_t i = 0; i < ckpt_parts_count(parts); i++)
        counts[part_at(parts, i).state & 3]++;
}

/* ------------------------------------------------------------------- text */

static void add_age(struct text *text, int64_t updated)
{
    int64_t age = (int64_t)time(NULL) - updated;
    if (updated)
        text_addf(text, "%lld s ago", (long long)(age > 0 ? age : 0));
}

static void add_row(struct table *table, uint32_t number, const ckpt_part *part)
{
    table_row(table, part->state == CKPT_PART_FAILED ? RED : PLAIN);
    table_cellf(table, "%u", (unsigned)number);
    table_cellf(table, "%s", state_names[part->state & 3]);
    if (table->columns == 5) {
        text_size(&table->text, part->done);
        table_cell(table);
        text_size(&table->text, part->bytes);
        table_cell(table);
    }
    if (part->state == CKPT_PART_BEGUN || part->state == CKPT_PART_FAILED)
        add_age(&table->text, part->updated);
    if (part->failure.len) {
        text_add(&table->text, "  ");
        text_readable(&table->text, part->failure);
    }
    table_cell(table);
}

/* print_total - prints how much of all parts is done, after the text BEFORE. */
static void print_total(const ckpt_parts *parts, const char *before)
{
    uint32_t counts[4] = {0};
    uint64_t done = 0, bytes = 0;
    count_states(parts, counts);
    for (uint32_t i = 0; i < ckpt_parts_count(parts); i++) {
        const ckpt_part part = part_at(parts, i);
        add_saturated(&done, part.done);
        add_saturated(&bytes, part.bytes);
    }
    struct text line = {0};
    text_addf(&line, "%s%u of %s done", before, (unsigned)counts[CKPT_PART_DONE],
              show_noun(ckpt_parts_count(parts), "part", "parts"));
    if (is_output(parts))
        text_addf(&line, ", %s of %s", show_size(done), show_size(bytes));
    line_put(&line);
    text_free(&line);
}

static void print_parts(const ckpt_parts *parts)
{
    static const char *const titles[] = {"part", "state", "done", "of", "updated"};
    static const char *const titles_of_results[] = {"part", "state", "updated"};
    struct table table = {.columns = 5, .right = {true, false, true, true, false}};
    if (!is_output(parts))
        table = (struct table){.columns = 3, .right = {true}};
    table_header(&table, is_output(parts) ? titles : titles_of_results);
    for (uint32_t i = 0; i < ckpt_parts_count(parts); i++) {
        const ckpt_part part = part_at(parts, i);
        add_row(&table, i, &part);
    }
    table_print(&table, stdout, ui.tty);
    table_free(&table);
    if (!ui.quiet)
        print_total(parts, "");
}

/* ------------------------------------------------------------------- JSON */

static void part_json(json *list, uint32_t number, const ckpt_part *part)
{
    json *item = json_add_object(list, NULL);
    json_u64(item, "number", number);
    json_text(item, "state", state_names[part->state & 3]);
    json_u64(item, "bytes", part->bytes);
    json_u64(item, "done", part->done);
    json_u64(item, "overflowed", part->overflowed);
    if (part->updated > 0)
        json_u64(item, "updated", (uint64_t)part->updated);
    if (part->failure.len)
        json_str(item, "failure", part->failure);
}

/* missing_json - adds the numbers of the parts that are to be run again. */
static void missing_json(const ckpt_parts *parts, json *parent)
{
    uint32_t count = ckpt_parts_count(parts);
    uint64_t *missing = mem_new(count, sizeof *missing);
    size_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        if (part_at(parts, i).state != CKPT_PART_DONE)
            missing[n++] = i;
    json_u64s(parent, "missing", missing, n);
    free(missing);
}

static void print_json(const ckpt_parts *parts)
{
    json *j = json_schema("ckpt.parts.v1");
    json_text(j, "file", ckpt_parts_path(parts));
    json_text(j, "plan_id", ckpt_parts_plan_id(parts));
    if (!is_output(parts))
        json_text(j, "command", ckpt_parts_command(parts));
    json *outputs = json_add_array(j, "output");
    for (size_t i = 0; i < ckpt_parts_file_count(parts); i++)
        json_text(outputs, NULL, ckpt_parts_file_at(parts, i, NULL));
    json *list = json_add_array(j, "parts");
    for (uint32_t i = 0; i < ckpt_parts_count(parts); i++) {
        const ckpt_part part = part_at(parts, i);
        part_json(list, i, &part);
    }
    missing_json(parts, j);
    json_line(j, stdout);
}

/* ---------------------------------------------------------------- command */

static int clean_parts(const char *output)
{
    ckpt_error err;
    if (ckpt_parts_clean(output, &err) != CKPT_OK)
        return report_error(&err, output);
    if (ui.json) {
        json *j = json_schema("ckpt.parts.v1");
        json_text(j, "file", output);
        json_bool(j, "cleaned", true);
        json_line(j, stdout);
    } else if (!ui.quiet) {
        line_printf("%s   all parts removed", escape_name(str_c(output)));
    }
    return EXIT_OK;
}

/* finish - closes PARTS, and returns the exit code for them. */
static int finish(ckpt_parts *parts)
{
    uint32_t counts[4] = {0};
    count_states(parts, counts);
    bool all_done = counts[CKPT_PART_DONE] == ckpt_parts_count(parts);
    ckpt_parts_close(parts);
    return all_done ? EXIT_OK : EXIT_NO;
}

static int show_one(const char *output)
{
    ckpt_parts *parts;
    ckpt_error err;
    if (ckpt_parts_open(output, &parts, &err) != CKPT_OK)
        return report_error(&err, output);
    if (ui.json)
        print_json(parts);
    else
        print_parts(parts);
    return finish(parts);
}

static void print_line(const ckpt_parts *parts)
{
    struct text name = {0};
    text_name(&name, str_c(ckpt_parts_path(parts)));
    text_add(&name, "   ");
    print_total(parts, name.ptr);
    text_free(&name);
}

/* show_all - prints a line for each output that was begun in FOLDER. */
static int show_all(const char *folder)
{
    ckpt_parts *parts;
    ckpt_error err;
    int status = EXIT_OK, code;
    for (size_t i = 0;; i++) {
        ckpt_status opened = ckpt_parts_open_at(folder, i, &parts, &err);
        if (opened == CKPT_ENOTFOUND && i > 0)
            return status;
        if (opened == CKPT_OK)
            (ui.json ? print_json : print_line)(parts);
        code = opened == CKPT_OK ? finish(parts) : report_error(&err, folder);
        status = code > status ? code : status;
        if (opened == CKPT_ENOTFOUND)
            return status;
    }
}

/* has_several - returns true if several outputs were begun in FOLDER. */
static bool has_several(const char *folder)
{
    ckpt_parts *second;
    ckpt_error ignored;
    ckpt_status status = ckpt_parts_open_at(folder, 1, &second, &ignored);
    ckpt_parts_close(second);
    return status != CKPT_ENOTFOUND;
}

int run_parts(int count, char **operand)
{
    if (opts.clean)
        return count ? clean_parts(operand[0]) : usage_error("parts", "--clean goes with OUT");
    if (!count)
        return show_all(".");
    return is_folder(operand[0]) && has_several(operand[0]) ? show_all(operand[0]) : show_one(operand[0]);
}
