#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cmd.h"
#include "files.h"
#include "json.h"
#include "sandbox.h"
#include "scan.h"
#include "walk.h"

static int run(int n, char **operand);

static bool all, sarif;
static int fail_on = 1; /* of the words below */

enum { SANDBOX_AUTO, SANDBOX_ON, SANDBOX_OFF, SANDBOX_TEST };
static int sandbox; /* one of these */

static const struct opt options[] = {
    {'a', "all", NULL, OPT_FLAG, &all, "also show calls to names on the harmless lists"},
    {0, "fail-on", "error|warning|note", OPT_CHOICE, &fail_on,
     "lowest level that makes the exit code 1 (default: warning)"},
    {0, "sandbox", "auto|on|off|test", OPT_CHOICE, &sandbox,
     "scan each file in a process without rights (default: where that works)"},
    {0, "sha256", NULL, OPT_FLAG, &scan_sums,
     "with --json: SHA-256 of each file and member; reads every byte"},
    {0, "sarif", NULL, OPT_FLAG, &sarif, "print SARIF 2.1.0, one document for all files"},
    FILES_NAMES,
    UI_JSON,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print nothing about files that are fine"},
    {0},
};

const struct cmd cmd_scan = {"scan", "FILE|DIR…", "what loading a file would run", options, 1, ANY_NUMBER,
                             run,    NULL};

/* What a process that scanned one file leaves behind. */
struct left {
    int code;
    int verdict;
    int unwritten;         /* errno: the spool did not take its report */
    unsigned long seconds; /* of processor time that it was given */
    bool rows, done, full; /* full: what it printed could not be written; it has told so */
};

struct job {
    const struct scan_report *report;
    uint64_t files, of[SCAN_VERDICTS];
    bool several; /* may there be more than one file? */
    bool no, unsure;
    struct left *left; /* NULL: no sandbox */
    int spool;         /* reports of JSON wait here until they are whole; -1: none */
};

/* code_of - 1: a finding; 2: none, but not everything was seen; 0: everything is fine. Where memory was
 * lacking what was found may be told wrongly: 2, too. */
static int code_of(const ckpt_scan_result *r, ckpt_status st)
{
    bool finished = st == CKPT_OK;
    uint64_t counts = r->found[CKPT_SCAN_ERROR];
    counts += fail_on > 0 ? r->found[CKPT_SCAN_WARNING] : 0;
    counts += fail_on > 1 ? r->found[CKPT_SCAN_NOTE] : 0;
    if (counts && st != CKPT_ENOMEM)
        return NO;
    return finished && !r->found[CKPT_SCAN_INCOMPLETE] && r->accounted == r->bytes && r->bytes ? YES
                                                                                               : TROUBLE;
}

static int tell(void *user, const ckpt_scan_record *r)
{
    ((const struct scan_report *)user)->record(r);
    return 0;
}

#define SECONDS    600u /* of processor time for a file, and one more for each so many bytes: */
#define PER_SECOND (16u << 20)
#define NO_SANDBOX "this system has no seccomp, which --sandbox needs"

static int lock_in(void *user)
{
    (void)user;
    if (sandbox_enter() || sandbox == SANDBOX_AUTO)
        return 0;
    (void)trouble_text(CKPT_EUNSUPPORTED, NULL, "--sandbox=off scans without", NO_SANDBOX);
    return 1;
}

static int scan_one(const struct scan_report *report, const char *path, bool locked, int *verdict)
{
    ckpt_scan_options opts = {.struct_size = sizeof opts,
                              .all_calls = all || report->calls,
                              .sha256 = scan_sums,
                              .opened = locked ? lock_in : NULL};
    ckpt_scan_result result = CKPT_INIT(ckpt_scan_result);
    ckpt_error err;
    report->begin(path);
    ckpt_status st = ckpt_scan(path, &opts, tell, (void *)(uintptr_t)report, &result, &err);
    int code = code_of(&result, st);
    *verdict = scan_verdict(&result, code);
    report->file(path, &result, st == CKPT_OK ? NULL : &err, code);
    if (st != CKPT_OK)
        (void)trouble(&err, path);
    return code;
}

/* died - the process that scanned PATH was ended: by what it read, or from outside; or its
 * report did not fit. */
static int died(const struct scan_report *report, const char *path, const struct left *left, int status)
{
    ckpt_scan_result nothing = {0};
    ckpt_error err = {.status = CKPT_ECANCELLED, .offset = CKPT_NO_OFFSET};
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGPIPE || sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
        raise(sig);
    if (sig == SIGXCPU)
        snprintf(err.what, sizeof err.what, "its scan took more than %lu s of processor time and was ended",
                 left->seconds);
    else if (sig)
        snprintf(err.what, sizeof err.what, "its scan was ended by signal %d; the file may have done that",
                 sig);
    else if (left->unwritten)
        snprintf(err.what, sizeof err.what, "its report cannot be kept in a temporary file: %s",
                 strerror(left->unwritten));
    else
        snprintf(err.what, sizeof err.what, "its scan ended without a report");
    report->begin(path);
    report->file(path, &nothing, &err, TROUBLE);
    return trouble(&err, path);
}

/* spool_open - a temporary file without a name, for the report of one file. */
static int spool_open(void)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? tmpfile() : NULL;
    return f ? fileno(f) : fd;
}

/* spool_pass - what the child printed, now that it is whole. */
static void spool_pass(int spool)
{
    char block[16384];
    off_t end = lseek(spool, 0, SEEK_END);
    ssize_t n;
    for (off_t at = 0; at < end || end<0; at += n> 0 ? n : 0) {
        n = pread(spool, block, sizeof block, at);
        if (n > 0)
            fwrite(block, 1, (size_t)n, stdout);
        else if (n == 0 || errno != EINTR)
            exit(trouble_text(CKPT_EIO, NULL, NULL, "the temporary file of a report: %s",
                              n ? strerror(errno) : "it ends too early"));
    }
}

/* seconds_for - of processor time, what scanning PATH may take: more than any file needs that is not made for
 * it. */
static unsigned long seconds_for(const char *path)
{
    struct stat st;
    return SECONDS +
           (stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (unsigned long)(st.st_size / PER_SECOND) : 0);
}

static void scan_in_child(const struct job *j, const char *path)
{
    struct left *left = j->left;
    left->seconds = child_limit(seconds_for(path));
    if (j->spool >= 0 && dup2(j->spool, STDOUT_FILENO) < 0)
        _exit(TROUBLE);
    left->code = scan_one(j->report, path, true, &left->verdict);
    left->rows = json_rows(false);
    errno = 0;
    if (j->spool < 0)
        left->full = finish_output(YES) != YES;
    else if (fflush(stdout) || ferror(stdout))
        left->unwritten = errno ? errno : EIO;
    left->done = !left->unwritten;
    _exit(0);
}

/* scan_apart - in a process of its own, which opens the file and then gives up its rights. Half a
 * record makes all of a JSON document unreadable, so such a report is passed on when it is whole. */
static int scan_apart(const struct job *j, const char *path)
{
    struct left *left = j->left;
    int status;
    *left = (struct left){.code = TROUBLE, .verdict = SCAN_INCOMPLETE};
    if (finish_output(YES) != YES) /* what the child would take for a fault of its own */
        exit(TROUBLE);
    if (j->spool >= 0 && (ftruncate(j->spool, 0) || lseek(j->spool, 0, SEEK_SET)))
        return trouble_text(CKPT_EIO, path, "--sandbox=off scans without",
                            "cannot make room for its report: %s", strerror(errno));
    pid_t child = child_start();
    if (child < 0)
        return trouble_text(CKPT_ENOMEM, path, "--sandbox=off scans without",
                            "cannot start a process for it: %s", strerror(errno));
    if (child == 0)
        scan_in_child(j, path);
    status = child_wait(child);
    if (left->full)
        _exit(TROUBLE);
    if (!left->done)
        return died(j->report, path, left, status);
    if (j->spool >= 0)
        spool_pass(j->spool);
    (void)json_rows(left->rows);
    return left->code;
}

static void scan(void *user, const char *path)
{
    struct job *j = user;
    int verdict = SCAN_INCOMPLETE, code;
    struct text name = {0};
    files_name_lines(path, FILES_LINES, j->several, &name);
    if (j->left) {
        code = scan_apart(j, path);
        verdict = j->left->done ? j->left->verdict : verdict;
    } else {
        code = scan_one(j->report, path, false, &verdict);
    }
    files_unname_lines(&name);
    j->files++;
    j->of[verdict >= 0 && verdict < SCAN_VERDICTS ? verdict : SCAN_INCOMPLETE]++;
    j->no = j->no || code == NO;
    j->unsure = j->unsure || code == TROUBLE;
}

/* shared - memory that a child can leave its answer in; NULL: scan here. */
static struct left *shared(void)
{
    void *at = sandbox == SANDBOX_OFF ? MAP_FAILED
                                      : mmap(NULL, sizeof(struct left), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        (void)ckpt_scan_ready();
    return at == MAP_FAILED ? NULL : at;
}

/* apart - gets ready to scan in other processes, where that is wanted and works. False: told. */
static bool apart(struct job *j)
{
    j->left = shared();
    j->spool = j->left && j->report != &scan_text ? spool_open() : -1;
    if (!j->left || j->report == &scan_text || j->spool >= 0)
        return true;
    if (sandbox != SANDBOX_AUTO)
        return trouble_text(CKPT_EIO, NULL, "set TMPDIR to a writable folder",
                            "no temporary file for the reports: %s", strerror(errno)) == YES;
    j->left = NULL;
    return true;
}

static int run(int n, char **operand)
{
    struct job j = {.report = sarif ? &scan_sarif : ui.json ? &scan_json : &scan_text,
                    .several = n > 1 || walk_is_folder(operand[0])};
    uint64_t unread = 0;
    if (sarif && ui.json)
        return usage_error("scan", "--sarif and --json are two reports; choose one");
    if (scan_sums && !ui.json)
        return usage_error("scan", "--sha256 needs --json");
    if (sandbox == SANDBOX_TEST)
        return sandbox_enter() && sandbox_try() ? YES
                                                : trouble_text(CKPT_EUNSUPPORTED, NULL, NULL, NO_SANDBOX);
    if (all)
        scan_every_call();
    if (!apart(&j))
        return TROUBLE;
    if (j.report->start)
        j.report->start();
    for (int i = 0; i < n; i++) {
        struct walk w = {.file = scan, .user = &j};
        walk(&w, operand[i]);
        walk_notices(&w, operand[i]);
        unread += w.unread;
    }
    bool whole = !j.unsure && !unread && j.files;
    int code = j.no ? NO : whole ? YES : TROUBLE;
    if (j.report->finish)
        j.report->finish(code, whole);
    if (j.report == &scan_text && !ui.quiet)
        scan_sum(j.of);
    if (j.files == 0)
        (void)trouble_text(CKPT_ENOTFOUND, operand[0], NULL, "nothing to scan");
    return code;
}
