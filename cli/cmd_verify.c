#include <string.h>

#include "files.h"
#include "find.h"
#include "progress.h"
#include "ranks.h"
#include "remote.h"
#include "share.h"

static struct {
    bool finite, force, xxh3;
    const char *manifest, *write_manifest, *root;
    struct list globs;
} opts;

static const struct opt options[] = {
    {0, "finite", NULL, OPT_FLAG, &opts.finite, "NaN and Inf count as findings"},
    {0, "manifest", "FILE", OPT_TEXT, &opts.manifest, "compare the tensors with the list in FILE"},
    {0, "write-manifest", "FILE", OPT_TEXT, &opts.write_manifest, "write such a list if nothing is wrong"},
    {'f', "force", NULL, OPT_FLAG, &opts.force, "… over an existing file"},
    {0, "xxh3", NULL, OPT_FLAG, &opts.xxh3, "… with XXH3-128 instead of SHA-256"},
    {'g', "glob", "GLOB", OPT_LIST, &opts.globs,
     "check only the data of tensors that match; '!GLOB' excludes"},
    UI_CASE_OPTION,
    UI_NONE_OPTION,
    {0, "root", "PATH", OPT_TEXT, &opts.root, "only what is below PATH, named from there; auto: the weights"},
    FILES_RECURSIVE_OPTION,
    SHARE_OPTIONS,
    UI_WORK_OPTIONS,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print nothing about intact files"},
    {0},
};

const struct cmd cmd_verify = {
    "verify", "FILE…",   "check the data and checksums of a file, and list all that is wrong", options, 1,
    NO_LIMIT, run_verify};

struct job {
    const char *path;
    json *findings; /* array in `document`; NULL without --json */
    json *document;
    struct text hint; /* hint of the first finding that has one */
};

static void finding_json(const struct job *job, const ckpt_finding *finding)
{
    json *row = json_add_object(job->findings, NULL);
    json_text(row, "code", finding->id);
    json_text(row, "file", finding->error->file);
    json_error(row, finding->error);
    if (finding->nan || finding->inf) {
        json_u64(row, "nan", finding->nan);
        json_u64(row, "inf", finding->inf);
        json_u64(row, "elements", finding->elements);
    }
}

static int print_finding(void *user, const ckpt_finding *finding)
{
    struct job *job = user;
    struct text line = {0};
    if (job->findings) {
        finding_json(job, finding);
        return 0;
    }
    progress_wipe();
    text_error(&line, finding->error);
    print_text(stdout, "%s%s%s\n", style_on(RED), line.ptr, style_off(RED));
    text_free(&line);
    if (!job->hint.len)
        text_add(&job->hint, finding->error->hint);
    return 0;
}

/* ignore_finding - is called in place of print_finding for a part, which finds faults of the structure that
 * --part all finds, too. */
static int ignore_finding(void *user, const ckpt_finding *finding)
{
    (void)user;
    (void)finding;
    return 0;
}

static void summary_json(const struct job *job, const ckpt_verify_result *result)
{
    json *document = job->document;
    json_format(document, result->format);
    json_bool(document, "intact", result->findings == 0);
    json *total = json_add_object(document, "total");
    json_u64(total, "tensors", result->tensors);
    json_u64(total, "records", result->records);
    json_u64(total, "unread", result->unread);
    json_u64(document, "bytes", result->bytes);
    json_u64(document, "read", result->read);
    json_bool(document, "checksums", result->checksums);
    json_line(document, report_stream(opts.write_manifest));
}

static void print_summary(const struct job *job, const ckpt_verify_result *result)
{
    struct text t = {0};
    bool has_read = result->records || result->read || !result->tensors;
    text_addf(&t, "%s: %s, %s", escape_name(str_c(job->path)),
              result->findings ? show_noun(result->findings, "finding", "findings")
              : has_read       ? "intact"
                               : "structure intact",
              show_noun(result->tensors, "tensor", "tensors"));
    if (result->records)
        text_addf(&t, ", %s", show_noun(result->records, "checksum", "checksums"));
    text_addf(&t, ", %s%s", has_read ? show_size(result->read) : "data not", " read");
    if (result->unread)
        text_addf(&t, ", %s %s", show_noun(result->unread, "tensor", "tensors"),
                  has_read ? "not read" : "cannot be read");
    print_text(report_stream(opts.write_manifest), "%s\n", t.ptr);
    text_free(&t);
}

/* check_names - returns false, after printing the error, if a glob matches nothing in PATH. Of a pipe, which
 * can be read only once, and a file that cannot be read, ckpt_verify() reports it. */
static bool check_names(const char *path)
{
    ckpt_file *f = NULL;
    ckpt_error err;
    if (!opts.globs.n || strcmp(path, "-") == 0 ||
        ckpt_open(remote_typed(path), &ui.limits, &f, &err) != CKPT_OK)
        return true;
    bool is_narrowed = !opts.root || ckpt_file_narrow(f, opts.root, NULL, 0, &err) == CKPT_OK;
    bool ok = !is_narrowed || check_globs(f, opts.globs.items, opts.globs.n, false);
    ckpt_close(f);
    return ok;
}

static int verify_file(const char *path)
{
    struct job job = {.path = path};
    ckpt_work how = ui_work();
    ckpt_verify_options o = {.struct_size = sizeof o,
                             .finite = opts.finite,
                             .manifest = opts.manifest,
                             .write_manifest = opts.write_manifest,
                             .force = opts.force,
                             .root = opts.root,
                             .globs = opts.globs.items,
                             .nglobs = opts.globs.n,
                             .allow_none = ui.allow_none,
                             .ignore_case = ui.ignore_case,
                             .algorithm = opts.xxh3 ? CKPT_XXH3 : CKPT_SHA256,
                             .how = &how,
                             .limits = &ui.limits};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    ckpt_error err;
    if (!check_names(path))
        return EXIT_TROUBLE;
    if (ui.json) {
        job.document = json_schema("ckpt.verify.v1");
        json_text(job.document, "file", path);
        job.findings = json_add_array(job.document, "findings");
    }
    progress_begin("verifying");
    ckpt_status st = share_begin("verify", &how, &err);
    if (st == CKPT_OK)
        st = ckpt_verify(remote_typed(path), &o, share_is_one() ? ignore_finding : print_finding, &job, &r,
                         &err);
    progress_wipe();
    st = share_end(st, &err);
    if (st != CKPT_OK) {
        json_free(job.document);
        text_free(&job.hint);
        return share_report(st, &err, path);
    }
    if (!r.findings && !r.checksums && r.tensors && !opts.manifest && !opts.write_manifest)
        print_notice(path,
                     "%s have no checksums, so damage to them cannot be seen; record some with "
                     "`verify --write-manifest=FILE`",
                     r.records || (r.read && !opts.finite) ? "some of its tensors" : "its tensors");
    if (r.findings && opts.write_manifest)
        print_notice(path, "not intact, so no manifest was written");
    if (ui.json)
        summary_json(&job, &r);
    else if (r.findings || !ui.quiet)
        print_summary(&job, &r);
    if (job.hint.len && !ui.quiet) {
        (void)fflush(stdout);
        print_text(stderr, "hint: %s\n", job.hint.ptr);
    }
    text_free(&job.hint);
    return r.findings ? EXIT_NO : EXIT_OK;
}

int run_verify(int count, char **operand)
{
    if (opts.manifest && opts.write_manifest)
        return usage_error("verify",
                           "--manifest checks against a list, --write-manifest makes one; choose one");
    if (opts.write_manifest && count > 1)
        return usage_error("verify", "--write-manifest takes one file");
    if ((opts.force || opts.xxh3) && !opts.write_manifest)
        return usage_error("verify", "--force and --xxh3 need --write-manifest");
    if (opts.manifest && count > 1 && is_read_once(opts.manifest))
        return usage_error("verify", "a manifest from a pipe is read once, for one file; save it first");
    if (opts.manifest && strcmp(opts.manifest, "-") == 0 && strcmp(operand[0], "-") == 0)
        return usage_error("verify", "standard input is either the manifest or the file");
    if (opts.write_manifest && ranks_leave_to_first())
        return EXIT_OK;
    if (share_check("verify", count, operand, 1) != EXIT_OK)
        return EXIT_TROUBLE;
    return files_each(count, operand, FILES_LINES, verify_file);
}
