/* doctor.c - `ckpt doctor`: verifies a file, diagnoses what is wrong, and tries a fix before advising it. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/library.h"
#include "base/sized.h"
#include "format/files/checkpoint_names.h"
#include "format/files/path.h"
#include "format/registry.h"
#include "format/verify.h"
#include "op/sanitize.h"
#include "op/verify.h"

/* plan_fix - plans F as FIX would write it to PATH, up to the layout of the output; fails where FIX would. */
static ckpt_status plan_fix(ckpt_file *f, const ckpt_fix *fix, const char *path, ckpt_error *err)
{
    static const ckpt_write_options defaults;
    ckpt_plan *p;
    ckpt_write_result r = {0};
    struct write_job job = {.path = path, .opts = &defaults, .result = &r, .layout_only = true};
    const struct format *to;
    bool strip = fix->action == CKPT_FIX_STRIP;
    CKPT_TRY(ckpt_plan_new(f, &p, err));
    ckpt_status st = format_target(p, path, fix->format, &to, err);
    if (st == CKPT_OK && (fix->root || (to->flat && !strip)))
        st = ckpt_plan_root(p, fix->root ? fix->root : "auto", err);
    if (st == CKPT_OK && strip)
        st = ckpt_plan_strip_auto(p, err);
    if (st == CKPT_OK && fix->action == CKPT_FIX_SANITIZE)
        st = sanitize_plan(p, to->flat, to->holds_dtype, err);
    CKPT_THEN(st, to->write(p, &job, err));
    ckpt_plan_free(p);
    return st;
}

/* get_suffix - returns the suffix for what is written of F, which was opened as PATH, if F was merged from
 * several files, or if it is written in a different format. NULL: that of PATH. */
static const char *get_suffix(const ckpt_file *f, const char *path)
{
    bool is_merged = f->format == format_by_name("hf-shards") || strcmp(f->path, path) != 0;
    if (is_merged)
        return f->loading.by ? ".pt" : ".safetensors";
    return f->format->write || f->loading.by ? NULL : ".pt";
}

static ckpt_status try_salvage(struct doctor *doctor, const ckpt_fix *fix, ckpt_error *err)
{
    ckpt_file *f;
    const struct opening o = {.path = doctor->typed,
                              .src = doctor->src && !doctor->is_folder ? source_ref(doctor->src) : NULL,
                              .limits = doctor->check.opts->limits,
                              .how = OPEN_SALVAGE};
    CKPT_TRY(format_open(&o, &f, err));
    ckpt_status st = plan_fix(f, fix, doctor->path, err);
    doctor->salvage_suffix = get_suffix(f, doctor->path);
    file_free(f);
    return st;
}

/* try_fix - rehearses FIX, and sets *WHY to what stops it. Fails if memory or disk fails or files changed. */
static ckpt_status try_fix(struct doctor *doctor, const ckpt_fix *fix, ckpt_error *why, ckpt_error *err)
{
    if (fix->action == CKPT_FIX_SALVAGE) {
        if (!doctor->salvage_tried)
            doctor->salvage_error.status = try_salvage(doctor, fix, &doctor->salvage_error);
        doctor->salvage_tried = true;
        *why = doctor->salvage_error;
    } else {
        why->status = plan_fix(doctor->f, fix, fix->suffix ? fix->suffix : doctor->path, why);
    }
    if (why->status != CKPT_ENOMEM && why->status != CKPT_EIO && why->status != CKPT_ECHANGED)
        return CKPT_OK;
    if (err)
        *err = *why;
    return why->status;
}

/* drop_salvage_hint - copies to OUT what is left of HINT without the clause that advises to salvage the file,
 * which would fail. */
static void drop_salvage_hint(const char *hint, char *out, size_t size)
{
    const char *word = strstr(hint, "ckpt salvage");
    const char *clause = word ? strstr(hint, "; `ckpt salvage") : NULL;
    size_t n = clause ? (size_t)(clause - hint) : word ? 0 : strlen(hint);
    (void)snprintf(out, size, "%.*s", (int)n, hint);
}

/* drop_useless_fix - removes a fix that would fail from DIAGNOSIS, whose hint becomes that of WHY: what of it
 * is still true, or if nothing is, the reason. */
static ckpt_status drop_useless_fix(struct doctor *doctor, ckpt_diagnosis *diagnosis, ckpt_error *why,
                                    ckpt_error *err)
{
    static const char *const commands[] = {[CKPT_FIX_SALVAGE] = "salvage",
                                           [CKPT_FIX_STRIP] = "strip",
                                           [CKPT_FIX_SANITIZE] = "sanitize",
                                           [CKPT_FIX_CONVERT] = "convert"};
    if (!diagnosis->fix || diagnosis->fix->action > CKPT_FIX_CONVERT)
        return CKPT_OK;
    CKPT_TRY(try_fix(doctor, diagnosis->fix, why, err));
    if (why->status == CKPT_OK)
        return CKPT_OK;
    uint32_t action = diagnosis->fix->action;
    diagnosis->fix = NULL;
    drop_salvage_hint(diagnosis->hint, why->hint, sizeof why->hint);
    diagnosis->hint = why->hint;
    if (action == CKPT_FIX_SALVAGE)
        error_add_hint(why, "ckpt salvage recovers nothing of it: get the file again");
    else
        error_add_hint(why, "ckpt %s does not help: %s", commands[action], why->what);
    return CKPT_OK;
}

const char *doctor_path_word(const struct doctor *doctor, char out[SHELL_WORD_MAX])
{
    char completed[SHELL_WORD_MAX];
    if (strcmp(doctor->path, doctor->typed) == 0 || !strchr(doctor->typed, '?'))
        return shell_path(doctor->path, out);
    int n = snprintf(completed, sizeof completed, "%s?QUERY", doctor->path);
    return n < SHELL_WORD_MAX ? shell_path(completed, out) : "URL";
}

void doctor_drop_file_name(const struct doctor *doctor, ckpt_error *error)
{
    char shown[sizeof error->file];
    text_fit(str_c(doctor->path), shown, sizeof shown);
    if (strcmp(error->file, shown) == 0)
        error->file[0] = 0;
}

static ckpt_status report_diagnosis(struct doctor *doctor, const struct diagnosis *given, const char *text,
                                    const char *hint, ckpt_error *err)
{
    ckpt_error why = {.status = CKPT_OK};
    ckpt_fix fix = given->fix;
    if (!fix.suffix && doctor->f)
        fix.suffix = get_suffix(doctor->f, doctor->path);
    ckpt_diagnosis diagnosis = {.id = given->id,
                                .text = text,
                                .problem = !given->is_note,
                                .fix = fix.action ? &fix : NULL,
                                .hint = hint};
    CKPT_TRY(drop_useless_fix(doctor, &diagnosis, &why, err));
    diagnosis.first = diagnosis.fix && given->first ? given->first : "";
    if (!fix.suffix && fix.action == CKPT_FIX_SALVAGE)
        fix.suffix = doctor->salvage_suffix;
    ++*(diagnosis.problem ? &doctor->result->problems : &doctor->result->notes);
    if (!doctor->cancelled && doctor->report)
        doctor->cancelled = doctor->report(doctor->user, &diagnosis) != 0;
    return doctor->cancelled ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}

ckpt_status doctor_report(struct doctor *doctor, const struct diagnosis *diagnosis, ckpt_error *err,
                          const char *fmt, ...)
{
    char raw[1024], safe[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    text_fit(str_c(raw), safe, sizeof safe);
    return report_diagnosis(doctor, diagnosis, safe, diagnosis->hint ? diagnosis->hint : "", err);
}

ckpt_status doctor_report_error(struct doctor *doctor, const struct diagnosis *diagnosis,
                                const ckpt_error *error, ckpt_error *err)
{
    char text[2048];
    ckpt_error error_copy = *error;
    doctor_drop_file_name(doctor, &error_copy);
    (void)ckpt_error_text(&error_copy, text, sizeof text);
    return report_diagnosis(doctor, diagnosis, text, error_copy.hint, err);
}

/* count_finding - counts findings by rule and keeps the first of each, as the callback of verifying. */
static int count_finding(void *user, const ckpt_finding *finding)
{
    struct doctor *d = user;
    struct symptom *s = &d->symptoms[find_check_rule(finding->id)];
    if (s->n++ == 0)
        s->first = *finding->error;
    return 0;
}

static bool is_no_checkpoint(ckpt_status st)
{
    return st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED || st == CKPT_ELIMIT;
}

/* is_data_file - returns true if the file is a data file of a Distributed Checkpoint, which may be
 * compressed. One with a single item opens as an archive, but its tensor has no name; one with several
 * items does not. */
static bool is_data_file(const struct doctor *doctor)
{
    ckpt_str path = str_c(doctor->path);
    ckpt_str unpacked = str_of(path.ptr, path.len - str_after_last(path, '.').len);
    bool is_packed = str_ends(unpacked, STR_LIT(".distcp."));
    bool is_damaged = false;
    for (size_t i = 0; i < CHECK_RULES && is_packed && !doctor->f; i++)
        is_damaged |= doctor->symptoms[i].n &&
                      str_starts(str_c(doctor->symptoms[i].first.where), STR_LIT("compressed data"));
    bool may_open = doctor->f ? doctor->f->loading.by != NULL : is_packed && doctor->src && !is_damaged;
    return may_open && !doctor->is_folder && (is_packed || (doctor->f && folder_is_data_file(path)));
}

/* report_outcome - reports all diagnoses. ST is the status of verifying, *ERR its error. */
static ckpt_status report_outcome(struct doctor *doctor, ckpt_status st, ckpt_error *err)
{
    ckpt_error e = *err;
    CKPT_TRY(check_unchanged(&doctor->check, err)); /* of a file that changed, the findings mean nothing */
    if (st != CKPT_OK && library_is_missing(&e)) {  /* that is no fault of the file */
        *err = e;
        return st;
    }
    if (is_no_checkpoint(st) &&
        !(doctor->f && st == CKPT_ELIMIT)) /* if the file was opened, the limit is about one of its views */
        return doctor_report_foreign(doctor, &e, err);
    if (st == CKPT_ECHANGED) /* the files are unchanged, so it is an unfinished edit in place */
        return doctor_report_error(doctor, &(struct diagnosis){.id = "interrupted-edit"}, &e, err);
    *err = e;
    CKPT_TRY(st);
    CKPT_TRY(is_data_file(doctor) ? doctor_report_data_file(doctor, err)
                                  : doctor_report_compressed(doctor, err));
    if (doctor->check.hint)
        CKPT_TRY(doctor_report(doctor, &(struct diagnosis){.id = "undo-journal", .is_note = true}, err, "%s",
                               doctor->check.hint));
    CKPT_TRY(doctor_report_damage(doctor, err));
    CKPT_TRY(doctor_report_unread(doctor, err));
    return doctor->result->problems || !doctor->f ? CKPT_OK : doctor_report_refusals(doctor, err);
}

ckpt_status ckpt_doctor(const char *path, const ckpt_doctor_options *opts,
                        int (*report)(void *user, const ckpt_diagnosis *), void *user,
                        ckpt_doctor_result *result, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_doctor_options o;
    ckpt_work how;
    ckpt_doctor_result found = {0};
    ckpt_verify_result verified = {0};
    struct doctor d = {.typed = path, .report = report, .user = user, .result = &found};
    CKPT_TRY(sized_struct_clear(result, err));
    CKPT_REQUIRE(err, path);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_TRY(sized_struct_copy_in(o.how, &how, sizeof how, err));
    ckpt_verify_options verify_opts = {.finite = o.finite, .how = &how, .limits = o.limits};
    ckpt_status st = check_init(&d.check, &verify_opts, &verified, err);
    d.check.report = count_finding;
    d.check.user = &d;
    d.is_folder = source_is_folder(path);
    char *shown = path_to_show(path);
    d.path = shown;
    if (!shown)
        st = fail_memory(err);
    CKPT_THEN(st, format_verify(path, &d.check, &d.f, err));
    if (st == CKPT_OK && !o.quick)
        st = verify_data(&d.check, d.f, err);
    d.src = d.check.nwatched ? d.check.watched[0] : NULL;
    st = report_outcome(&d, st, err);
    CKPT_THEN(st, check_unchanged(&d.check, err));
    found.format = verified.format;
    found.tensors = verified.tensors;
    found.bytes = verified.bytes;
    found.read = verified.read;
    found.unread = ckpt_file_count_unread(d.f, NULL);
    if (st == CKPT_OK)
        sized_struct_copy_out(result, &found, sizeof found);
    file_free(d.f);
    check_free(&d.check);
    st = name_file_if_failed(st, shown ? shown : "", err);
    free(shown);
    return st;
}
