#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "files.h"
#include "json.h"
#include "relay.h"
#include "remote.h"
#include "sandbox.h"
#include "scan.h"

enum { FAIL_ON_ERROR, FAIL_ON_WARNING, FAIL_ON_NOTE };
enum { SANDBOX_AUTO, SANDBOX_ON, SANDBOX_OFF, SANDBOX_TEST };
static struct {
    bool sarif;
    int fail_on, sandbox;
} opts = {.fail_on = FAIL_ON_WARNING, .sandbox = SANDBOX_AUTO};

static const struct opt options[] = {
    {'a', "all", NULL, OPT_FLAG, &scan_all_calls, "also show calls to names on the harmless lists"},
    {0, "fail-on", "error|warning|note", OPT_CHOICE, &opts.fail_on,
     "lowest level that makes the exit code 1 (default: warning)"},
    {0, "sandbox", "auto|on|off|test", OPT_CHOICE, &opts.sandbox,
     "scan each file in a process without rights (default: where that works)"},
    {0, "sha256", NULL, OPT_FLAG, &scan_sha256,
     "with --json: SHA-256 of each file and member; reads every byte"},
    {0, "sarif", NULL, OPT_FLAG, &opts.sarif, "print SARIF 2.1.0, one document for all files"},
    UI_REMOTE_OPTIONS,
    FILES_NAME_OPTIONS,
    UI_JSON_OPTION,
    {'q', "quiet", NULL, OPT_FLAG, &ui.quiet, "print nothing about files that are fine"},
    {0},
};

const struct cmd cmd_scan = {"scan",   "FILE|DIR…", "report what loading a file would run", options, 1,
                             NO_LIMIT, run_scan};

/* The result of a child process that scanned one file, in memory that it shares with its parent. */
struct child_result {
    int code, verdict;
    int write_errno;           /* of writing the report to the spool; 0: written */
    unsigned long cpu_seconds; /* limit of its processor time */
    bool has_rows;             /* it printed records */
    bool done;                 /* its report is complete */
    bool output_failed;        /* its output cannot be written; it has reported that */
};

struct job {
    const struct scan_report *report;
    uint64_t files, by_verdict[SCAN_VERDICTS]; /* numbers of all files and of those with each verdict */
    uint64_t nmissing;                         /* files that do not exist */
    bool several;                              /* there may be more than one file */
    bool has_findings;                         /* of the level of --fail-on, or above it */
    bool has_unscanned;                        /* a file could not be scanned to its end */
    struct child_result *child;                /* NULL: no sandbox */
    int spool;                                 /* keeps a JSON report until it is complete; -1: no spool */
};

/* exit_code_of - returns EXIT_TROUBLE if memory ran out, because findings may then be wrong; else EXIT_NO if
 * a finding reaches the level of --fail-on; else EXIT_TROUBLE if not everything was scanned; else EXIT_OK. */
static int exit_code_of(const ckpt_scan_result *result, ckpt_status st)
{
    uint64_t failing = result->found[CKPT_SCAN_ERROR];
    failing += opts.fail_on >= FAIL_ON_WARNING ? result->found[CKPT_SCAN_WARNING] : 0;
    failing += opts.fail_on >= FAIL_ON_NOTE ? result->found[CKPT_SCAN_NOTE] : 0;
    if (failing && st != CKPT_ENOMEM)
        return EXIT_NO;
    bool all_bytes = result->bytes && result->accounted == result->bytes;
    return st == CKPT_OK && !result->found[CKPT_SCAN_INCOMPLETE] && all_bytes ? EXIT_OK : EXIT_TROUBLE;
}

static int report_record(void *user, const ckpt_scan_record *record)
{
    ((const struct scan_report *)user)->record(record);
    return 0;
}

#define BASE_SECONDS     600u /* of processor time for any file; large files get more */
#define BYTES_PER_SECOND (16u << 20)
#define NO_SANDBOX       "this system has no seccomp, which --sandbox needs"

static int enter_sandbox(void *user)
{
    (void)user;
    if (sandbox_enter() || opts.sandbox == SANDBOX_AUTO)
        return 0;
    (void)report_failure(CKPT_EUNSUPPORTED, NULL, "--sandbox=off scans without a sandbox", NO_SANDBOX);
    return 1;
}

/* The scan of one file. */
struct scan_run {
    ckpt_scan_options how;
    ckpt_scan_result result;
    ckpt_error err;
};

/* scan_url - scans the bytes of PATH, a URL, as ckpt_scan does. PARENT reads them; NULL: this process. */
static ckpt_status scan_url(struct scan_run *run, const char *path, struct relay *parent,
                            const struct scan_report *report)
{
    ckpt_error why;
    ckpt_callbacks bytes = CKPT_INIT(ckpt_callbacks);
    ckpt_status st = parent ? relay_open(parent, &bytes, &run->err)
                            : ckpt_remote_open(remote_typed(path), ui.limits.remote, &bytes, &run->err);
    if (st != CKPT_OK)
        return st;
    run->how.callbacks = &bytes;
    st = ckpt_scan(path, &run->how, report_record, (void *)(uintptr_t)report, &run->result, &run->err);
    ckpt_status failed = parent ? relay_open(parent, &bytes, &why) : ckpt_remote_failure(&bytes, &why);
    if (bytes.close)
        bytes.close(bytes.user);
    if (failed == CKPT_OK || st == CKPT_ENOMEM)
        return st;
    run->err = why; /* the other error is only that a callback failed */
    return failed;
}

/* scan_one - scans PATH and reports on it. PARENT: the process that reads it, if it is a URL that this
 * process does not read; else NULL. Returns the exit code for it. */
static int scan_one(const struct scan_report *report, const char *path, bool sandboxed, struct relay *parent,
                    int *verdict)
{
    struct scan_run run = {.how = {.struct_size = sizeof run.how,
                                   .all_calls = scan_all_calls || report->calls,
                                   .sha256 = scan_sha256,
                                   .opened = sandboxed ? enter_sandbox : NULL},
                           .result = CKPT_INIT(ckpt_scan_result)};
    report->begin_file(path);
    ckpt_status st = remote_is_url(path) ? scan_url(&run, path, parent, report)
                                         : ckpt_scan(path, &run.how, report_record, (void *)(uintptr_t)report,
                                                     &run.result, &run.err);
    int code = exit_code_of(&run.result, st);
    *verdict = scan_verdict(&run.result, code);
    report->end_file(path, &run.result, st == CKPT_OK ? NULL : &run.err, code);
    if (st != CKPT_OK)
        (void)report_error(&run.err, path);
    return code;
}

/* report_dead_child - reports why the process that scanned PATH left no complete report. STATUS is that of
 * waitpid(). If SIGINT or a similar signal ended that process, raises the signal again. */
static int report_dead_child(const struct scan_report *report, const char *path,
                             const struct child_result *result, int status)
{
    ckpt_scan_result nothing = {0};
    ckpt_error err = {.status = CKPT_ECANCELLED, .offset = CKPT_NO_OFFSET};
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGPIPE || sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
        raise(sig);
    if (sig == SIGXCPU)
        snprintf(err.what, sizeof err.what, "its scan took more than %lu s of processor time and was ended",
                 result->cpu_seconds);
    else if (sig)
        snprintf(err.what, sizeof err.what, "its scan was ended by signal %d; the file may have done that",
                 sig);
    else if (result->write_errno)
        snprintf(err.what, sizeof err.what, "its report cannot be kept in a temporary file: %s",
                 strerror(result->write_errno));
    else
        snprintf(err.what, sizeof err.what, "its scan ended without a report");
    report->begin_file(path);
    report->end_file(path, &nothing, &err, EXIT_TROUBLE);
    return report_error(&err, path);
}

/* open_spool - opens a temporary file without a name, for a report. Returns its descriptor, or -1. */
static int open_spool(void)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? tmpfile() : NULL;
    return f ? fileno(f) : fd;
}

static void print_spool(int spool)
{
    char block[16384];
    off_t end = lseek(spool, 0, SEEK_END);
    ssize_t n;
    off_t offset = 0;
    while (offset < end || end < 0) { /* end < 0: lseek() failed, so pread() fails, too */
        n = pread(spool, block, sizeof block, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            exit(report_failure(CKPT_EIO, NULL, NULL, "the temporary file of a report: %s",
                                n ? strerror(errno) : "it ends too early"));
        put_bytes(stdout, block, (size_t)n);
        offset += n;
    }
}

/* size_of - returns the size of the file PATH; 0: it is not known. */
static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* cpu_seconds_for - returns the limit of processor time for a file of SIZE bytes. Only a file that was
 * made to exceed it needs more. */
static unsigned long cpu_seconds_for(uint64_t size)
{
    return BASE_SECONDS + (unsigned long)(size / BYTES_PER_SECOND);
}

/* scan_in_child - scans PATH; if that is a URL, the parent serves it at SOCKET. */
static void scan_in_child(const struct job *job, const char *path, int socket)
{
    struct child_result *result = job->child;
    struct relay parent;
    bool is_url = remote_is_url(path);
    if (is_url) {
        remote_forget();
        relay_begin(&parent, socket);
    }
    result->cpu_seconds = child_limit_cpu(cpu_seconds_for(is_url ? parent.size : size_of(path)));
    if (job->spool >= 0 && dup2(job->spool, STDOUT_FILENO) < 0)
        _exit(EXIT_TROUBLE);
    result->code = scan_one(job->report, path, true, is_url ? &parent : NULL, &result->verdict);
    result->has_rows = json_merge_rows(false);
    errno = 0;
    if (job->spool < 0)
        result->output_failed = finish_output(EXIT_OK) != EXIT_OK;
    else if (fflush(stdout) || ferror(stdout))
        result->write_errno = errno ? errno : EIO;
    result->done = !result->write_errno;
    _exit(0);
}

/* serve_url - opens PATH, a URL, and passes the bytes that CHILD asks for to the SOCKET of that process,
 * until it ends. Returns false if not all that it asked for was read. Ends a process that asks for other
 * bytes. */
static bool serve_url(const char *path, int socket, pid_t child)
{
    ckpt_error err;
    ckpt_callbacks bytes = CKPT_INIT(ckpt_callbacks);
    if (ckpt_remote_open(remote_typed(path), ui.limits.remote, &bytes, &err) != CKPT_OK) {
        ui.last_error = (ckpt_status)err.status; /* the child reports it */
        relay_fail(socket, &err);
        return false;
    }
    bool served = relay_serve(socket, &bytes);
    if (!served)
        (void)kill(child, SIGKILL);
    served = served && ckpt_remote_failure(&bytes, &err) == CKPT_OK;
    bytes.close(bytes.user);
    return served;
}

/* run_child - scans PATH in a child process, and sets *STATUS to its status as that of waitpid(). It is
 * started before a server is asked, so that it has neither a connection nor what was sent. Returns false
 * if it could not be started; errno is set. */
static bool run_child(const struct job *job, const char *path, int *status)
{
    int ends[2] = {-1, -1};
    bool is_url = remote_is_url(path);
    if (is_url && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    pid_t child = child_start(is_url);
    if (child == 0) {
        if (is_url)
            (void)close(ends[0]);
        scan_in_child(job, path, ends[1]);
    }
    int saved_errno = errno;
    if (is_url)
        (void)close(ends[1]);
    bool served = child > 0 && is_url && serve_url(path, ends[0], child);
    if (is_url)
        (void)close(ends[0]);
    if (child > 0)
        *status = child_wait(child);
    if (is_url && !served && job->child->code == EXIT_OK) /* whatever the child made of that */
        job->child->code = EXIT_TROUBLE;
    errno = saved_errno;
    return child > 0;
}

/* scan_in_sandbox - scans PATH in a child process, which opens the file and then gives up its rights. A JSON
 * report is printed when it is complete, because half a record would make the document invalid. */
static int scan_in_sandbox(const struct job *job, const char *path)
{
    struct child_result *result = job->child;
    int status = 0;
    *result = (struct child_result){.code = EXIT_TROUBLE, .verdict = SCAN_INCOMPLETE};
    if (finish_output(EXIT_OK) != EXIT_OK) /* so that the child does not print the same error */
        exit(EXIT_TROUBLE);
    if (job->spool >= 0 && (ftruncate(job->spool, 0) || lseek(job->spool, 0, SEEK_SET)))
        return report_failure(CKPT_EIO, path, "--sandbox=off scans without a sandbox",
                              "cannot empty the temporary file for its report: %s", strerror(errno));
    if (!run_child(job, path, &status))
        return report_failure(CKPT_ENOMEM, path, "--sandbox=off scans without a sandbox",
                              "cannot start a process for it: %s", strerror(errno));
    if (result->output_failed)
        _exit(EXIT_TROUBLE);
    if (!result->done)
        return report_dead_child(job->report, path, result, status);
    if (job->spool >= 0)
        print_spool(job->spool);
    (void)json_merge_rows(result->has_rows);
    return result->code;
}

/* is_missing - returns true if there is no file PATH, whose scan has ended with EXIT_TROUBLE. */
static bool is_missing(const char *path)
{
    if (remote_is_url(path))
        return ui.last_error == CKPT_ENOTFOUND;
    bool is_file_name = strcmp(path, "-") != 0 && !strchr(path, '!'); /* and not a member of an archive */
    return is_file_name && access(path, F_OK) != 0;
}

static void scan_path(void *user, const char *path)
{
    struct job *job = user;
    int verdict = SCAN_INCOMPLETE, code;
    struct text name = {0};
    ui.last_error = CKPT_OK;
    files_prefix_lines(path, FILES_LINES, job->several, &name);
    if (job->child) {
        code = scan_in_sandbox(job, path);
        verdict = job->child->done ? job->child->verdict : verdict;
    } else {
        code = scan_one(job->report, path, false, NULL, &verdict);
    }
    files_unprefix_lines(&name);
    job->files++;
    job->by_verdict[verdict >= 0 && verdict < SCAN_VERDICTS ? verdict : SCAN_INCOMPLETE]++;
    job->nmissing += code == EXIT_TROUBLE && is_missing(path);
    job->has_findings = job->has_findings || code == EXIT_NO;
    job->has_unscanned = job->has_unscanned || code == EXIT_TROUBLE;
}

/* map_shared_result - maps memory for results that is shared with the children. NULL: mmap() failed. */
static struct child_result *map_shared_result(void)
{
    void *shared = mmap(NULL, sizeof(struct child_result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

/* prepare_sandbox - prepares to scan in child processes, unless --sandbox is off, or is auto and they do not
 * work here. Returns false after printing an error. */
static bool prepare_sandbox(struct job *job)
{
    bool prints_json = job->report != &scan_text;
    job->spool = -1;
    if (opts.sandbox == SANDBOX_OFF)
        return true;
    job->child = map_shared_result();
    if (!job->child && opts.sandbox != SANDBOX_AUTO)
        return report_failure(CKPT_ENOMEM, NULL, "--sandbox=off scans without a sandbox",
                              "no memory shared with the sandbox: %s", strerror(errno)) == EXIT_OK;
    if (job->child && prints_json && (job->spool = open_spool()) < 0) {
        if (opts.sandbox != SANDBOX_AUTO)
            return report_failure(CKPT_EIO, NULL, "set TMPDIR to a writable folder",
                                  "no temporary file for the reports: %s", strerror(errno)) == EXIT_OK;
        job->child = NULL;
    }
    if (job->child)
        (void)ckpt_scan_preload();
    return true;
}

int run_scan(int count, char **operand)
{
    struct job job = {.report = opts.sarif ? &scan_sarif
                                : ui.json  ? &scan_json
                                           : &scan_text,
                      .several = count > 1 || is_folder(operand[0])};
    uint64_t nunread = 0;
    if (opts.sarif && ui.json)
        return usage_error("scan", "--sarif and --json are two reports; choose one");
    if (scan_sha256 && !ui.json)
        return usage_error("scan", "--sha256 needs --json");
    if (opts.sandbox == SANDBOX_TEST)
        return sandbox_enter() && sandbox_self_test()
                   ? EXIT_OK
                   : report_failure(CKPT_EUNSUPPORTED, NULL, NULL, NO_SANDBOX);
    print.for_programs = ui.json || opts.sarif;
    if (!prepare_sandbox(&job))
        return EXIT_TROUBLE;
    if (job.report->begin_report)
        job.report->begin_report();
    for (int i = 0; i < count; i++) {
        struct folder_walk walk = {.visit_file = scan_path, .user = &job};
        walk_folder(&walk, operand[i]);
        print_skipped(&walk, operand[i]);
        if (job.report->end_folder)
            job.report->end_folder(operand[i], &walk);
        nunread += walk.nunread + walk.nlinks_outside;
    }
    bool complete = !job.has_unscanned && !nunread && job.files;
    int code = job.has_findings ? EXIT_NO : complete ? EXIT_OK : EXIT_TROUBLE;
    if (job.report->end_report)
        job.report->end_report(code, complete);
    if (job.report == &scan_text && !ui.quiet)
        scan_print_summary(job.by_verdict, job.nmissing);
    if (job.files == 0)
        (void)report_failure(CKPT_ENOTFOUND, operand[0], NULL, "nothing to scan");
    return code;
}
