#include <stdlib.h>
#include <string.h>

#include "outputs.h"
#include "files.h"
#include "installed.h"
#include "progress.h"
#include "remote.h"

static struct {
    bool quick, finite, install;
} opts;

static const struct opt options[] = {
    {0, "quick", NULL, OPT_FLAG, &opts.quick, "do not read the data; damage to it goes unseen"},
    {0, "finite", NULL, OPT_FLAG, &opts.finite, "NaN and Inf count as problems"},
    {0, "install", NULL, OPT_FLAG, &opts.install, "examine which program `ckpt` is in PATH, not a file"},
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_WORK_OPTIONS,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print nothing about healthy files"},
    {0},
};

const struct cmd cmd_doctor = {
    "doctor", "FILE…",    "print why a file does not load, and the command that fixes it", options, 0,
    NO_LIMIT, run_doctor,
};

/* Commands of ckpt, in the order in which they can be joined by pipes. */
enum step { SALVAGE, STRIP, SANITIZE, CONVERT, NSTEPS };

/* Command lines with placeholders (FILE, OUT, ROOT, …). find_advice() takes the first row that fits. */
static const struct command {
    uint32_t action;
    const char *packing;       /* NULL: any */
    bool has_root, has_format; /* whether the fix must have a root, a format */
    enum step step;            /* NSTEPS: cannot be part of a pipe */
    const char *line;
} commands[] = {
    /* action, packing, has_root, has_format, step, line */
    {CKPT_FIX_SALVAGE, NULL, false, false, SALVAGE, "ckpt salvage FILE -o OUT"},
    {CKPT_FIX_STRIP, NULL, false, false, STRIP, "ckpt strip --auto FILE -o OUT"},
    {CKPT_FIX_SANITIZE, NULL, false, false, SANITIZE, "ckpt sanitize FILE -o OUT"},
    {CKPT_FIX_CONVERT, NULL, false, false, CONVERT, "ckpt convert FILE OUT"},
    {CKPT_FIX_CONVERT, NULL, true, false, CONVERT, "ckpt convert --root ROOT FILE OUT"},
    {CKPT_FIX_CONVERT, NULL, false, true, NSTEPS, "ckpt convert --to FORMAT FILE OUT"},
    /* -f: curl does not save an error page of the server as the file */
    {CKPT_FIX_DOWNLOAD, NULL, false, false, NSTEPS, "curl -fL -o FILE URL"},
    {CKPT_FIX_LFS_PULL, NULL, false, false, NSTEPS, "git lfs pull --include FILE"},
    {CKPT_FIX_UNPACK, "7-Zip", false, false, NSTEPS, "7z x FILE"},
    {CKPT_FIX_UNPACK, "RAR", false, false, NSTEPS, "unrar x FILE"},
    {CKPT_FIX_UNPACK, "lzma", false, false, NSTEPS, "xz -dc --format=lzma FILE >OUT"},
    {CKPT_FIX_UNPACK, NULL, false, false, NSTEPS, "PACKING -dc FILE >OUT"},
};

/* A fix and its command line. */
struct advice {
    const struct command *command; /* NULL: no fix, or one that this version does not know */
    ckpt_fix fix;                  /* its texts are static */
};

struct job {
    const char *path;
    struct advice steps[NSTEPS]; /* the fix of each step; .command NULL: that step has none */
    struct text problems, notes; /* the lines to print */
    json *diagnoses;             /* array in `document`; NULL without --json */
    json *document;
};

static struct advice find_advice(const ckpt_fix *fix)
{
    for (size_t i = 0; fix && i < sizeof commands / sizeof *commands; i++) {
        const struct command *c = &commands[i];
        if (c->action == fix->action && c->has_root == (fix->root != NULL) &&
            c->has_format == (fix->format != NULL) &&
            (!c->packing || (fix->packing && strcmp(c->packing, fix->packing) == 0)))
            return (struct advice){c, *fix};
    }
    return (struct advice){NULL, {0}};
}

static void add_input(struct text *out, const struct job *job)
{
    if (strcmp(job->path, "-") == 0)
        text_add(out, "FILE"); /* standard input has no name */
    else
        text_operand(out, job->path);
}

/* add_output - adds a file name that does not exist; for convert, with a suffix that selects a format. */
static void add_output(struct text *out, const struct job *job, const struct advice *advice,
                       const char *suffix)
{
    bool convert = advice->fix.action == CKPT_FIX_CONVERT;
    if (!suffix && convert && !output_path_format(job->path))
        suffix = ".pt";
    text_new_name(out, "fixed", job->path, suffix);
}

/* Which names a command line has. In a pipe, only the first has an input, and only the last has an output. */
struct names {
    bool input, output;
    const char *suffix; /* of the output */
};

/* add_command - adds the command line of ADVICE, with the names that NAMES selects and the texts of A's
 * fix. */
static void add_command(struct text *out, const struct job *job, const struct advice *advice,
                        struct names names)
{
    enum { INPUT, OUTPUT, ROOT, FORMAT, PACKING, PLACEHOLDERS };
    static const char *const placeholders[] = {"FILE", "OUT", "ROOT", "FORMAT", "PACKING"};
    const char *const texts[] = {NULL, NULL, advice->fix.root, advice->fix.format, advice->fix.packing};
    for (const char *p = advice->command->line; *p;) {
        size_t i = INPUT;
        while (i < PLACEHOLDERS && strncmp(p, placeholders[i], strlen(placeholders[i])) != 0)
            i++;
        if (i == PLACEHOLDERS)
            text_byte(out, *p);
        else if (i == INPUT && names.input)
            add_input(out, job);
        else if (i == OUTPUT && names.output)
            add_output(out, job, advice, names.suffix);
        else
            text_add(out, texts[i] ? texts[i] : "-"); /* "-": the pipe */
        p += i < PLACEHOLDERS ? strlen(placeholders[i]) : 1;
    }
}

/* add_fix_command - adds the command line for the fix of DIAGNOSIS, and no other fix. */
static void add_fix_command(struct text *out, const struct job *job, const ckpt_diagnosis *diagnosis)
{
    struct advice a = find_advice(diagnosis->fix);
    add_command(out, job, &a, (struct names){true, true, diagnosis->fix->suffix});
}

/* record_step - records the fix of DIAGNOSIS for add_all_fixes(). */
static void record_step(struct job *job, const ckpt_diagnosis *diagnosis)
{
    struct advice a = find_advice(diagnosis->fix);
    if (!a.command || a.command->step == NSTEPS)
        return;
    if (!job->steps[a.command->step].fix.root) /* a convert with --root also does what one without does */
        job->steps[a.command->step] = a;
}

/* add_all_fixes - adds one pipe with the fixes of all steps, for a file of FORMAT (NULL: unknown). Returns
 * false if fewer than two have a fix. A folder does not fit into a pipe: a torch file passes through it. */
static bool add_all_fixes(struct text *out, const struct job *job, const char *format)
{
    bool is_folder = ckpt_write_format_is_folder(ckpt_write_format(format ? format : ""));
    size_t nsteps = 0, nadded = 0;
    const char *suffix = NULL;
    for (size_t i = 0; i < NSTEPS; i++) {
        nsteps += job->steps[i].command != NULL;
        suffix = job->steps[i].fix.suffix ? job->steps[i].fix.suffix : suffix;
    }
    for (size_t i = 0; nsteps > 1 && i < NSTEPS; i++) {
        if (!job->steps[i].command)
            continue;
        text_add(out, nadded ? " | " : "");
        add_command(out, job, &job->steps[i], (struct names){nadded == 0, nadded + 1 == nsteps, suffix});
        text_add(out, is_folder && nadded == 0 ? " --to torch-zip" : "");
        nadded++;
    }
    return nsteps > 1;
}

static void diagnosis_json(const struct job *job, const ckpt_diagnosis *diagnosis)
{
    json *row = json_add_object(job->diagnoses, NULL);
    struct text fix = {0};
    json_text(row, "code", diagnosis->id);
    json_text(row, "level", diagnosis->problem ? "problem" : "note");
    json_text(row, "message", diagnosis->text);
    if (diagnosis->first[0])
        json_text(row, "first", diagnosis->first);
    if (find_advice(diagnosis->fix).command) {
        add_fix_command(&fix, job, diagnosis);
        json_text(row, "fix", fix.ptr);
    }
    if (diagnosis->hint[0])
        json_text(row, "hint", diagnosis->hint);
    text_free(&fix);
}

static int collect_diagnosis(void *user, const ckpt_diagnosis *diagnosis)
{
    struct job *job = user;
    struct text *out = diagnosis->problem ? &job->problems : &job->notes;
    record_step(job, diagnosis);
    if (job->diagnoses) {
        diagnosis_json(job, diagnosis);
        return 0;
    }
    text_addf(out, "%s  %s%s%s%s  %s\n", ui.prefix, style_on(diagnosis->problem ? RED : YELLOW),
              diagnosis->problem ? "" : "note: ", diagnosis->id, style_off(diagnosis->problem ? RED : YELLOW),
              diagnosis->text);
    if (diagnosis->first[0])
        text_addf(out, "%s    first: %s\n", ui.prefix, diagnosis->first);
    if (find_advice(diagnosis->fix).command) {
        text_addf(out, "%s    fix: ", ui.prefix);
        add_fix_command(out, job, diagnosis);
        text_add(out, "\n");
    } else if (diagnosis->hint[0]) {
        text_addf(out, "%s    %s\n", ui.prefix, diagnosis->hint);
    }
    return 0;
}

static void print_doctor_text(const struct job *job, const ckpt_doctor_result *result)
{
    struct text t = {0};
    text_addf(&t, "%s: ", escape_name(str_c(job->path)));
    if (result->problems) {
        text_noun(&t, result->problems, "problem", "problems");
    } else {
        text_addf(&t, "healthy, %s, %s", result->format ? result->format : "",
                  show_noun(result->tensors, "tensor", "tensors"));
        if (result->unread)
            text_addf(&t, " (%llu not read)", (unsigned long long)result->unread);
        text_addf(&t, ", %s", show_size(result->bytes));
    }
    print_text(stdout, "%s\n%s%s", t.ptr, job->problems.len ? job->problems.ptr : "",
               job->notes.len ? job->notes.ptr : "");
    text_clear(&t);
    text_addf(&t, "  all at once: ");
    if (add_all_fixes(&t, job, result->format))
        line_put(&t);
    text_free(&t);
}

static void print_doctor_json(const struct job *job, const ckpt_doctor_result *result)
{
    struct text fix = {0};
    json_format(job->document, result->format);
    json_bool(job->document, "healthy", result->problems == 0);
    json *total = json_add_object(job->document, "total");
    json_u64(total, "tensors", result->tensors);
    json_u64(total, "unread", result->unread);
    json_u64(job->document, "bytes", result->bytes);
    json_u64(job->document, "read", result->read);
    if (add_all_fixes(&fix, job, result->format))
        json_text(job->document, "fix", fix.ptr);
    json_line(job->document, stdout);
    text_free(&fix);
}

static int diagnose_file(const char *path)
{
    struct job job = {.path = path};
    const ckpt_work how = ui_work();
    ckpt_doctor_options o = {.struct_size = sizeof o,
                             .quick = opts.quick,
                             .finite = opts.finite,
                             .how = &how,
                             .limits = &ui.limits};
    ckpt_doctor_result r = CKPT_INIT(ckpt_doctor_result);
    ckpt_error err;
    if (ui.json) {
        job.document = json_schema("ckpt.doctor.v1");
        json_text(job.document, "file", path);
        job.diagnoses = json_add_array(job.document, "diagnoses");
    }
    progress_begin("examining");
    ckpt_status st = ckpt_doctor(remote_typed(path), &o, collect_diagnosis, &job, &r, &err);
    progress_wipe();
    int status = st != CKPT_OK ? report_error(&err, path) : r.problems ? EXIT_NO : EXIT_OK;
    if (status == EXIT_TROUBLE)
        json_free(job.document);
    else if (ui.json)
        print_doctor_json(&job, &r);
    else if (r.problems || !ui.quiet)
        print_doctor_text(&job, &r);
    text_free(&job.problems);
    text_free(&job.notes);
    return status;
}

int run_doctor(int count, char **operand)
{
    if (opts.quick && opts.finite)
        return usage_error("doctor", "--finite reads the data, --quick does not; choose one");
    if (opts.install && count)
        return usage_error("doctor", "--install examines no file");
    if (opts.install)
        return installed_examine();
    if (!count)
        return opt_fail_too_few(&cmd_doctor);
    return files_each(count, operand, FILES_LINES, diagnose_file);
}
