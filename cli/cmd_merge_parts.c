#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "json.h"
#include "progress.h"
#include "remote.h"

static struct {
    bool verify, no_sync;
} opts;

static const struct opt options[] = {
    {0, "verify", NULL, OPT_FLAG, &opts.verify, "read all bytes again, and compare them with the records"},
    {0, "no-sync", NULL, OPT_FLAG, &opts.no_sync, "do not wait until the data is on the disk"},
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_merge_parts = {
    "merge-parts",  "OUT", "complete an output that several processes have written", options, 1, 1,
    run_merge_parts};

/* list_missing - returns the numbers of the parts of an output that are not done; sets *COUNT. The caller
 * frees them. */
static uint64_t *list_missing(const ckpt_parts *parts, size_t *count)
{
    uint64_t *missing = mem_new(ckpt_parts_count(parts), sizeof *missing);
    *count = 0;
    for (uint32_t i = 0; !*ckpt_parts_command(parts) && i < ckpt_parts_count(parts); i++) {
        ckpt_part part = CKPT_INIT(ckpt_part);
        if (ckpt_parts_at(parts, i, &part) && part.state != CKPT_PART_DONE)
            missing[(*count)++] = i;
    }
    return missing;
}

/* print_missing - prints "OUT: 2 of 16 parts are not done: 3,7", the numbers as --array of Slurm takes
 * them. */
static void print_missing(const ckpt_parts *parts, const char *output, const uint64_t *missing, size_t count)
{
    struct text list = {0};
    for (size_t i = 0; i < count; i++)
        text_addf(&list, "%s%llu", i ? "," : "", (unsigned long long)missing[i]);
    print_reason(output, "%zu of %s not done: %s", count, show_noun(ckpt_parts_count(parts), "part", "parts"),
                 list.ptr);
    text_free(&list);
}

static void print_json(const ckpt_parts *parts, const char *output, const uint64_t *missing, size_t count)
{
    uint64_t bytes = 0, nbytes;
    json *j = json_schema("ckpt.merge-parts.v1");
    json_text(j, "file", output);
    json_text(j, "plan_id", ckpt_parts_plan_id(parts));
    json_bool(j, "merged", count == 0);
    json *files = json_add_array(j, "output");
    for (size_t i = 0; count == 0 && i < ckpt_parts_file_count(parts); i++) {
        json_text(files, NULL, ckpt_parts_file_at(parts, i, &nbytes));
        add_saturated(&bytes, nbytes);
    }
    json_u64(j, "bytes", bytes);
    json_u64s(j, "missing", missing, count);
    json_line(j, stdout);
}

static void print_merged(const ckpt_parts *parts, const char *output)
{
    uint64_t bytes = 0, overflowed = 0, nbytes;
    for (size_t i = 0; i < ckpt_parts_file_count(parts); i++) {
        (void)ckpt_parts_file_at(parts, i, &nbytes);
        add_saturated(&bytes, nbytes);
    }
    for (uint32_t i = 0; i < ckpt_parts_count(parts); i++) {
        ckpt_part part = CKPT_INIT(ckpt_part);
        (void)ckpt_parts_at(parts, i, &part);
        add_saturated(&overflowed, part.overflowed);
    }
    if (overflowed)
        print_notice(output, "%s overflowed when the parts were cast",
                     show_noun(overflowed, "value", "values"));
    if (!ui.quiet)
        line_printf("%s   %s, %s", escape_name(str_c(output)),
                    show_noun(ckpt_parts_file_count(parts), "file", "files"), show_size(bytes));
}

static int merge(ckpt_parts *parts, const char *output)
{
    ckpt_error err;
    size_t count;
    uint64_t *missing = list_missing(parts, &count);
    ckpt_merge_options o = CKPT_INIT(ckpt_merge_options);
    o.verify = opts.verify;
    o.no_sync = opts.no_sync;
    o.progress = progress_step;
    progress_begin("verifying");
    ckpt_status status = count ? CKPT_OK : ckpt_parts_merge(parts, &o, &err);
    progress_wipe();
    if (status != CKPT_OK) {
        free(missing);
        return report_error(&err, output);
    }
    if (ui.json)
        print_json(parts, output, missing, count);
    else if (count)
        print_missing(parts, output, missing, count);
    else
        print_merged(parts, output);
    free(missing);
    return count ? EXIT_NO : EXIT_OK;
}

static bool can_open(const char *path)
{
    ckpt_file *file = NULL;
    ckpt_error ignored;
    bool ok = ckpt_open(path, &ui.limits, &file, &ignored) == CKPT_OK && ckpt_lost_parts(file) == 0;
    ckpt_close(file);
    return ok;
}

/* exists_complete - returns true if OUTPUT, of which no parts are left, can be read: the file, the folder or
 * the index of a set, or what the files of a set are numbered after. */
static bool exists_complete(const char *output)
{
    struct text index = {0};
    text_addf(&index, "%s.index.json", output);
    bool ok = !remote_is_url(output) && (can_open(output) || can_open(index.ptr));
    text_free(&index);
    return ok;
}

/* report_merged_before - reports that OUTPUT is complete without merging: a script may merge again. */
static int report_merged_before(const char *output)
{
    if (ui.json) {
        json *j = json_schema("ckpt.merge-parts.v1");
        json_text(j, "file", output);
        json_bool(j, "merged", true);
        (void)json_add_array(j, "output");
        json_u64(j, "bytes", 0);
        json_u64s(j, "missing", NULL, 0);
        json_line(j, stdout);
    } else {
        print_notice(output, "already merged: no parts of it are left");
    }
    return EXIT_OK;
}

int run_merge_parts(int count, char **operand)
{
    ckpt_parts *parts;
    ckpt_error err;
    (void)count;
    if (ckpt_parts_open(operand[0], &parts, &err) != CKPT_OK)
        return err.status == CKPT_ENOTFOUND && exists_complete(operand[0]) ? report_merged_before(operand[0])
                                                                           : report_error(&err, operand[0]);
    int status = merge(parts, operand[0]);
    ckpt_parts_close(parts);
    return status;
}
