#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "json.h"
#include "progress.h"

static int run(int n, char **operand);

static bool quick, finite;

static const struct opt options[] = {
    {0, "quick", NULL, OPT_FLAG, &quick, "do not read the data; damage to it goes unseen"},
    {0, "finite", NULL, OPT_FLAG, &finite, "NaN and Inf count as problems"},
    FILES_RECURSIVE,
    FILES_NAMES,
    UI_EXPANDED,
    UI_JOBS,
    UI_JSON,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print nothing about healthy files"},
    {0},
};

const struct cmd cmd_doctor = {"doctor", "FILE…", "why a file does not load, and the command that fixes it",
                               options,  1,       ANY_NUMBER,
                               run,      NULL};

/* The commands that fixes consist of, in the order in which one takes what the one before it wrote.
 * The last takes the place of the one before it, which it does, too. */
enum { SALVAGE, STRIP, SANITIZE, CONVERT, CONVERT_ROOT, NSTEPS };
static const char *const steps[NSTEPS] = {
    [SALVAGE] = "ckpt salvage FILE -o OUT",
    [STRIP] = "ckpt strip --auto FILE -o OUT",
    [SANITIZE] = "ckpt sanitize FILE -o OUT",
    [CONVERT] = "ckpt convert FILE OUT",
    [CONVERT_ROOT] = "ckpt convert --root auto FILE OUT",
};

struct job {
    const char *path;
    bool wanted[NSTEPS]; /* by some diagnosis */
    const char *suffix;  /* of the output of the last of them */
    struct text problems, notes;
    json *list; /* array of the result, or NULL */
    json *head;
};

/* can_run - is the command there? All but those of this program are taken to be. */
static bool can_run(const char *fix)
{
    char word[32] = "";
    if (!fix || strncmp(fix, "ckpt ", 5) != 0)
        return fix != NULL;
    size_t n = strcspn(fix + 5, " ");
    if (n >= sizeof word)
        return false;
    memcpy(word, fix + 5, n);
    return cmd_find(word) != NULL;
}

/* suffix_of_out - that of what FIX writes, SUFFIX if it is not NULL; convert wants one that names a
 * format. */
static const char *suffix_of_out(const struct job *j, const char *fix, const char *suffix)
{
    bool convert = strncmp(fix, "ckpt convert ", 13) == 0;
    return !suffix && convert && !ckpt_write_format(j->path) ? ".pt" : suffix;
}

/* add_input - J's file as an operand. */
static void add_input(struct text *to, const struct job *j)
{
    if (strcmp(j->path, "-") == 0)
        text_add(to, "FILE"); /* what came from a pipe is gone */
    else
        text_operand(to, j->path);
}

/* Which names are in a command: those of a pipe have none. */
struct names {
    bool input, output;
    const char *suffix; /* of the output */
};

/* fix_text - the command FIX with the names in their places. */
static void fix_text(struct text *to, const struct job *j, const char *fix, struct names names)
{
    for (const char *p = fix; *p;) {
        if (strncmp(p, "FILE", 4) == 0) {
            if (names.input)
                add_input(to, j);
            else
                text_add(to, "-");
            p += 4;
        } else if (strncmp(p, "OUT", 3) == 0) {
            if (names.output)
                text_fixed(to, j->path, suffix_of_out(j, fix, names.suffix));
            else
                text_add(to, "-");
            p += 3;
        } else {
            text_bytes(to, p++, 1);
        }
    }
}

/* one_fix - what D's own command is. */
static void one_fix(struct text *to, const struct job *j, const ckpt_diagnosis *d)
{
    fix_text(to, j, d->fix, (struct names){true, true, d->suffix});
}

/* note_step - D's command is one of those that all_fixes joins. */
static void note_step(struct job *j, const ckpt_diagnosis *d)
{
    for (size_t i = 0; d->fix && i < NSTEPS; i++)
        if (strcmp(d->fix, steps[i]) == 0) {
            j->wanted[i] = true;
            j->suffix = d->suffix;
        }
}

/* all_fixes - one command line that does what all of the commands would do; false: there are not several. */
static bool all_fixes(struct text *to, const struct job *j)
{
    size_t n = 0, done = 0;
    bool skip_plain = j->wanted[CONVERT_ROOT];
    for (size_t i = 0; i < NSTEPS; i++)
        n += j->wanted[i] && !(i == CONVERT && skip_plain);
    for (size_t i = 0; n > 1 && i < NSTEPS; i++) {
        if (!j->wanted[i] || (i == CONVERT && skip_plain))
            continue;
        text_add(to, done ? " | " : "");
        fix_text(to, j, steps[i], (struct names){done == 0, done + 1 == n, j->suffix});
        done++;
    }
    return n > 1;
}

static void tell_json(const struct job *j, const ckpt_diagnosis *d)
{
    json *row = json_add_object(j->list, NULL);
    struct text fix = {0};
    json_text(row, "code", d->id);
    json_text(row, "level", d->problem ? "problem" : "note");
    json_text(row, "message", d->text);
    if (can_run(d->fix)) {
        one_fix(&fix, j, d);
        json_text(row, "fix", fix.ptr);
    }
    if (d->hint[0])
        json_text(row, "hint", d->hint);
    text_free(&fix);
}

static int tell(void *user, const ckpt_diagnosis *d)
{
    struct job *j = user;
    struct text *to = d->problem ? &j->problems : &j->notes;
    note_step(j, d);
    if (j->list) {
        tell_json(j, d);
        return 0;
    }
    text_addf(to, "%s  %s%s%s%s  %s\n", ui.prefix, style_on(d->problem ? RED : YELLOW),
              d->problem ? "" : "note: ", d->id, style_off(d->problem ? RED : YELLOW), d->text);
    if (can_run(d->fix)) {
        text_addf(to, "%s    fix: ", ui.prefix);
        one_fix(to, j, d);
        text_add(to, "\n");
    } else if (d->hint[0]) {
        text_addf(to, "%s    %s\n", ui.prefix, d->hint);
    }
    return 0;
}

static void print_text(const struct job *j, const ckpt_doctor_result *r)
{
    struct text t = {0};
    text_name(&t, str_of(j->path));
    text_add(&t, ": ");
    if (r->problems)
        text_noun(&t, r->problems, "problem", "problems");
    else
        text_addf(&t, "healthy, %s, ", r->format ? r->format : "");
    if (!r->problems) {
        text_noun(&t, r->tensors, "tensor", "tensors");
        text_add(&t, ", ");
        text_size(&t, r->bytes);
    }
    printf("%s\n%s%s", t.ptr, j->problems.len ? j->problems.ptr : "", j->notes.len ? j->notes.ptr : "");
    text_clear(&t);
    text_addf(&t, "  all at once: ");
    if (all_fixes(&t, j))
        line_put(&t);
    text_free(&t);
}

static void print_json(const struct job *j, const ckpt_doctor_result *r)
{
    struct text fix = {0};
    json_format(j->head, r->format);
    json_bool(j->head, "healthy", r->problems == 0);
    json_u64(json_add_object(j->head, "total"), "tensors", r->tensors);
    json_u64(j->head, "bytes", r->bytes);
    json_u64(j->head, "read", r->read);
    if (all_fixes(&fix, j))
        json_text(j->head, "fix", fix.ptr);
    json_line(j->head, stdout);
    text_free(&fix);
}

static int doctor(const char *path)
{
    struct job j = {.path = path};
    ckpt_doctor_options o = {
        .quick = quick, .finite = finite, .how = {ui_jobs(), progress_step, NULL}, .limits = ui.limits};
    ckpt_doctor_result r;
    ckpt_error err;
    if (ui.json) {
        j.head = json_schema("ckpt.doctor.v1");
        json_text(j.head, "file", path);
        j.list = json_add_array(j.head, "diagnoses");
    }
    progress_begin("examining");
    ckpt_status st = ckpt_doctor(path, &o, tell, &j, &r, &err);
    progress_end();
    int status = st != CKPT_OK ? trouble(&err, path) : r.problems ? NO : YES;
    if (status == TROUBLE)
        json_free(j.head);
    else if (ui.json)
        print_json(&j, &r);
    else if (r.problems || !ui.quiet)
        print_text(&j, &r);
    text_free(&j.problems);
    text_free(&j.notes);
    return status;
}

static int run(int n, char **operand)
{
    if (quick && finite)
        return usage_error("doctor", "--finite reads the data, --quick does not; choose one");
    return files_each(n, operand, FILES_LINES, doctor);
}
