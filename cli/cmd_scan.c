#include <string.h>

#include "cmd.h"
#include "scan.h"
#include "walk.h"

static int run(int n, char **operand);

static bool all, sarif;
static int fail_on = 1; /* of the words below */

static const struct opt options[] = {
    {'a', "all", NULL, OPT_FLAG, &all, "also calls that are on the lists of harmless names"},
    {0, "fail-on", "error|warning|note", OPT_CHOICE, &fail_on,
     "least level that makes exit code 1 (default: warning)"},
    {0, "sarif", NULL, OPT_FLAG, &sarif, "print SARIF 2.1.0, one document for all files"},
    UI_JSON,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "nothing of files that are fine"},
    {0},
};

const struct cmd cmd_scan = {
    "scan", "FILE|DIR…", "what a file would run when it is loaded", options, 1, ANY_NUMBER, run, NULL};

struct job {
    const struct scan_report *report;
    uint64_t files;
    bool no, unsure;
};

/* code_of - 1: a finding; 2: none, but not everything was seen; 0: everything is fine. */
static int code_of(const ckpt_scan_result *r, bool finished)
{
    uint64_t counts = r->found[CKPT_SCAN_ERROR];
    counts += fail_on > 0 ? r->found[CKPT_SCAN_WARNING] : 0;
    counts += fail_on > 1 ? r->found[CKPT_SCAN_NOTE] : 0;
    if (counts)
        return NO;
    return finished && !r->found[CKPT_SCAN_INCOMPLETE] && r->accounted == r->bytes && r->bytes ? YES
                                                                                               : TROUBLE;
}

static int tell(void *user, const ckpt_scan_record *r)
{
    ((const struct scan_report *)user)->record(r);
    return 0;
}

static void scan(void *user, const char *path)
{
    struct job *j = user;
    ckpt_scan_options opts = {.all_calls = all || j->report->calls};
    ckpt_scan_result result;
    ckpt_error err;
    j->report->begin(path);
    ckpt_status st = ckpt_scan(path, &opts, tell, (void *)(uintptr_t)j->report, &result, &err);
    int code = code_of(&result, st == CKPT_OK);
    j->report->file(path, &result, st == CKPT_OK ? NULL : &err, code);
    if (st != CKPT_OK)
        (void)trouble(&err, path);
    j->files++;
    j->no = j->no || code == NO;
    j->unsure = j->unsure || code == TROUBLE;
}

static void left_aside(const char *path, const struct walk *w)
{
    if (w->links)
        notice(path, "%llu symbolic link%s not followed", (unsigned long long)w->links,
               w->links == 1 ? "" : "s");
    if (w->others)
        notice(path, "%llu that are no files left aside (pipes, sockets, devices)",
               (unsigned long long)w->others);
}

static int run(int n, char **operand)
{
    struct job j = {.report = sarif ? &scan_sarif : ui.json ? &scan_json : &scan_text};
    uint64_t unread = 0;
    if (sarif && ui.json)
        return usage_error("scan", "--sarif and --json are two reports; choose one");
    if (all)
        scan_every_call();
    if (j.report->start)
        j.report->start();
    for (int i = 0; i < n; i++) {
        struct walk w = {.file = scan, .user = &j};
        walk(&w, operand[i]);
        left_aside(operand[i], &w);
        unread += w.unread;
    }
    if (j.report->finish)
        j.report->finish();
    if (j.files == 0)
        (void)trouble_text(CKPT_ENOTFOUND, operand[0], NULL, "nothing to scan");
    if (j.no)
        return NO;
    return j.unsure || unread || j.files == 0 ? TROUBLE : YES;
}
