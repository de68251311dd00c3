/* results.c - the results of an operation that several processes share (share.h), as records in a folder
 * (part_record.h): ckpt_results_….
 *
 * The first call of `exchange` comes before tensors are read. Of a part, it makes the work folder, or refuses
 * if that is of another plan, and stops the operation if the part is already recorded. Of all parts, it
 * passes their records on. The second call replaces the record of the part at once, and stops. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/source.h"
#include "op/part_place.h"
#include "op/share.h"

struct ckpt_results {
    arena *a;
    struct part_job job;
    struct part_place place;
    bool takes_all;
    buf all; /* the records of all parts */
    bool found, recorded;
    ckpt_status status; /* of `exchange` */
    ckpt_error error;
};

/* read_results - reads what part PART has recorded, and checks whose it is. */
static ckpt_status read_results(const struct ckpt_results *results, const char *folder, uint32_t part,
                                ckpt_str *out, ckpt_error *err)
{
    char name[PART_RECORD_NAME];
    const struct part_job *job = &results->job;
    part_job_record_name(job, part, name);
    const char *path = part_path(folder, name, results->a);
    CKPT_TRY_ALLOC(path, err);
    CKPT_TRY(source_read_whole_file(path, PART_RESULTS_MAX, results->a, out, err));
    return name_file_if_failed(share_check_record(*out, job->id, part, job->parts, err), path, err);
}

/* ------------------------------------------------------------------- all parts */

/* put_missing - adds the number of a part that is not done to LIST, as --array of Slurm takes them. */
static void put_missing(buf *list, uint32_t count, uint32_t part)
{
    enum { MAX_SHOWN = 30 };
    if (count < MAX_SHOWN)
        buf_printf(list, "%s%u", count ? "," : "", part);
    else if (count == MAX_SHOWN)
        buf_put_cstr(list, ",…");
}

static ckpt_status fail_missing(const struct ckpt_results *results, uint32_t count, buf *list,
                                ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    buf_byte(list, 0);
    CKPT_TRY_ALLOC(buf_ok(list), err);
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{%u of %u parts} not done: %s", count,
               results->job.parts, (const char *)list->data);
    error_add_hint(err, "run them with --part i/%u; ckpt parts %s --json lists them all", results->job.parts,
                   shell_path(results->place.folder, word));
    return name_file_if_failed(CKPT_ENOTFOUND, results->place.folder, err);
}

/* join_results - joins what all parts have recorded. */
static ckpt_status join_results(struct ckpt_results *results, buf *missing, ckpt_error *err)
{
    uint32_t nmissing = 0;
    ckpt_str bytes;
    for (uint32_t i = 0; i < results->job.parts; i++) {
        ckpt_status st = read_results(results, results->place.path, i, &bytes, err);
        if (st == CKPT_ENOTFOUND)
            put_missing(missing, nmissing++, i);
        else if (st != CKPT_OK)
            return st;
        else
            buf_put_str(&results->all, bytes);
    }
    if (nmissing)
        return fail_missing(results, nmissing, missing, err);
    return buf_ok(&results->all) ? CKPT_OK : fail_memory(err);
}

/* take_all - joins the records of all parts, which must be of plan ID. */
static ckpt_status take_all(struct ckpt_results *results, const char *id, ckpt_error *err)
{
    buf missing;
    if (strcmp(id, results->job.id) != 0) {
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                   "the parts are of plan {%s}, this is {=%s}; the input, the options or the version of ckpt "
                   "differ\ngive the same input and options as to the parts",
                   results->job.id, id);
        return name_file_if_failed(CKPT_EEXIST, results->place.path, err);
    }
    buf_init(&missing, SIZE_MAX / 2);
    ckpt_status st = join_results(results, &missing, err);
    buf_free(&missing);
    return st;
}

/* find_job - finds the parts of COMMAND in the folder. */
static ckpt_status find_job(struct ckpt_results *results, const char *command, ckpt_error *err)
{
    struct part_works found;
    CKPT_TRY(part_works_find(results->place.folder, str_of(NULL, 0), results->a, &found, err));
    if (!found.nworks)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "no parts of it were recorded there\n"
                    "--part 0/16 in place of --part all records the first");
    for (size_t i = 0; i < found.nworks; i++)
        if (str_is(found.works[i].job.command, command)) {
            results->job = found.works[i].job;
            results->place.path = found.works[i].path;
            return CKPT_OK;
        }
    return fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "has parts of {%s%.*s}, not of {=ckpt %s}",
                found.works->job.command.len ? "ckpt " : "the output ", STR_ARG(found.works->job.target),
                command);
}

/* -------------------------------------------------------------------- one part */

/* begin_part - makes the work folder of plan ID, and looks for the record of an earlier run. */
static ckpt_status begin_part(struct ckpt_results *results, const char *id, ckpt_error *err)
{
    ckpt_str bytes;
    ckpt_error ignored;
    memcpy(results->job.id, id, PART_ID_TEXT);
    CKPT_TRY(part_place_open(&results->place, err));
    results->found = read_results(results, results->place.path, results->place.part, &bytes, &ignored) ==
                     CKPT_OK;
    return CKPT_OK;
}

static ckpt_status record_part(struct ckpt_results *results, const void *own, size_t own_bytes,
                               ckpt_error *err)
{
    buf text;
    buf_init(&text, SIZE_MAX / 2);
    buf_put(&text, own, own_bytes);
    ckpt_status st = part_place_check(&results->place, err);
    if (st != CKPT_OK)
        buf_free(&text);
    CKPT_THEN(st, part_place_write(&results->place, results->place.record_path, &text, true, err));
    results->recorded = st == CKPT_OK;
    return st;
}

/* exchange - is the callback of ckpt_work. */
static int exchange(void *user, const char *id, const void *own, size_t own_bytes, const void **all,
                    size_t *all_bytes)
{
    struct ckpt_results *results = user;
    ckpt_error *err = &results->error;
    if (results->takes_all) {
        results->status = take_all(results, id, err);
        *all = results->all.data;
        *all_bytes = results->all.len;
        return results->status != CKPT_OK;
    }
    results->status = own ? record_part(results, own, own_bytes, err) : begin_part(results, id, err);
    return own || results->found || results->status != CKPT_OK;
}

/* ---------------------------------------------------------------- open and close */

static void free_results(struct ckpt_results *results)
{
    part_place_close(&results->place);
    buf_free(&results->all);
    arena_free(results->a);
    free(results);
}

static ckpt_status open_results(struct ckpt_results *results, const char *folder, const char *command,
                                ckpt_error *err)
{
    results->a = arena_new(PART_ARENA_MAX);
    CKPT_TRY_ALLOC(results->a, err);
    results->job.command = results->job.target = arena_str(results->a, str_c(command));
    results->place.a = results->a;
    results->place.job = &results->job;
    results->place.folder = arena_str(results->a, str_c(folder)).ptr;
    CKPT_TRY_ALLOC(results->job.command.ptr && results->place.folder, err);
    return results->takes_all ? find_job(results, command, err) : CKPT_OK;
}

ckpt_status ckpt_results_open(const char *folder, const char *command, uint32_t part, uint32_t parts,
                              ckpt_results **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, folder && *folder && command && part_is_command(str_c(command)) && parts <= PART_MAX &&
                          (part < parts || !parts));
    struct ckpt_results *results = calloc(1, sizeof *results);
    CKPT_TRY_ALLOC(results, err);
    results->place.dir = -1;
    results->place.part = part;
    results->job.parts = parts;
    results->takes_all = !parts;
    buf_init(&results->all, SIZE_MAX / 2);
    ckpt_status st = open_results(results, folder, command, err);
    if (st == CKPT_OK)
        *out = results;
    else
        free_results(results);
    return name_file_if_failed(st, folder, err);
}

void ckpt_results_share(ckpt_results *results, ckpt_work *work)
{
    if (!results || !work)
        return;
    work->part = results->place.part;
    work->parts = results->job.parts;
    work->exchange = exchange;
    work->exchange_user = results;
}

/* end_operation - returns how the operation, whose status is ST, ended. */
static ckpt_status end_operation(struct ckpt_results *results, ckpt_status st, uint32_t *outcome,
                                 ckpt_error *err)
{
    if (results->status != CKPT_OK) {
        *err = results->error;
        st = results->status;
    }
    if (st == CKPT_ECANCELLED && (results->found || results->recorded)) {
        *outcome = results->found ? CKPT_RESULTS_FOUND : CKPT_RESULTS_RECORDED;
        return CKPT_OK;
    }
    if (st != CKPT_OK && results->place.dir >= 0)
        part_place_fail(&results->place, err);
    return st;
}

ckpt_status ckpt_results_close(ckpt_results *results, ckpt_status st, uint32_t *outcome, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, outcome);
    *outcome = CKPT_RESULTS_TAKEN;
    if (!results)
        return st;
    st = end_operation(results, st, outcome, err);
    free_results(results);
    return st;
}
