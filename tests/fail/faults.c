/*
 * faults.c - faults [-j WORKERS] [-e N] [-k KINDS] [-s STEP] CKPT PT: runs each command of faults.def, or
 * every N-th (-N: the others), again and again, each time with one fault. CKPT is the program, PT a small
 * torch.save archive.
 * KINDS is a sum of:
 *    1  kill     SIGKILL before a system call of the command. For edits in place, also a power cut:
 *                some sectors of the edit have reached the disk, and the undo journal has not been removed
 *    2  error    one system call fails with one of its errors, or transfers half of its bytes
 *    4  full     one write and all later ones fail: the disk is full, over quota or broken
 *    8  modify   the input is truncated, emptied, extended, inverted or replaced before one call that uses it
 *   16  memory   one allocation fails, alone or with all after it; every STEP-th is tried. CKPT must be
 *                linked with oom.c
 *
 * Afterwards the folder must be exactly as before the run, or exactly as a run without faults leaves it,
 * including owners, modes and extended attributes. If the command exits as without faults (0; 1 if its input
 * is damaged), the folder must be as a run without faults leaves it. If it exits with 2, it must print a line
 * "ckpt: ...". No other file may be left, and no signal may end the command. After a SIGKILL a temporary file
 * or a journal may stay: the next run must then complete or undo the edit. If the output is a set of shards,
 * a reader must find the complete old or the complete new set even before that run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "errors.h"
#include "folder.h"
#include "oom.h"
#include "trace.h"

#define WORDS_MAX   24    /* words of a command */
#define OUTPUT_MAX  65536 /* bytes kept of the output of a command */
#define REPORTS_MAX 50    /* failures printed for each command and kind of fault */
#define POWER_CUTS  300   /* power cuts tried for each edit in place */

/* Kinds of faults; a set of kinds has the bits 1 << kind. */
enum { KILL, ERROR, DISK_FULL, MODIFY, MEMORY, NKINDS };
#define ALL_BUT_MEMORY ((1 << MEMORY) - 1)

/* Flags of a job. */
enum {
    IN_PLACE = 1,     /* edits the file f; if a journal stays, readers must refuse a partly edited f */
    NO_TMPFILE = 2,   /* O_TMPFILE is refused, so that temporary files have names */
    SHARDS = 4,       /* writes a set of shards; a complete old or new set can be read at any time */
    READ_ONLY = 8,    /* writes nothing */
    MEMORY_ONLY = 16, /* run with failing allocations only */
    EXITS_1 = 32,     /* may exit with 1 in a run without faults, to report what is wrong with its input */
    NO_LINKS = 64,    /* hard links are refused: a set has no index file while it is being replaced */
    LAPACK = 128,     /* needs LAPACK */
};

struct job {
    const char *title, *setup, *command, *outputs;
    int flags;
};

static const struct job jobs[] = {
#define JOB(title, setup, command, outputs, flags) {title, setup, command, outputs, flags},
#include "faults.def"
#undef JOB
};
#define NJOBS (sizeof jobs / sizeof *jobs)

static struct shared {
    _Atomic size_t next_job;
    _Atomic long cases[NKINDS], failed;
} *shared;

static const char *ckpt, *sample;  /* the program; a small torch.save archive */
static int kinds = ALL_BUT_MEMORY; /* the bits of the kinds of faults to test */
static long allocation_step = 1;   /* every allocation_step-th allocation fails */
static long job_step = 1;          /* every job_step-th job runs; if negative, the others */

/* One command under test, in one worker. */
struct fixture {
    const struct job *job;
    char dir[64];
    char *argv[WORDS_MAX], words[512];
    int out, err;                     /* receive its standard output and error */
    char printed[OUTPUT_MAX];         /* the output that was last read from them */
    int expected_exit;                /* exit status of a run without faults */
    char expected_output[OUTPUT_MAX]; /* standard output of that run */
    /* output of `ckpt hash` for the set before the command, and after a run without faults; empty: no set */
    char hashes_before[OUTPUT_MAX], hashes_after[OUTPUT_MAX];
    struct folder old, new, now; /* before the command, after a run without faults, after the last run */
    struct trace trace;
    int nfailures; /* of the current kind of fault */
};

static void die(const char *what)
{
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ------------------------------------------------ setting up and running commands */

/* next_word - ends the first word of *TEXT with NUL, returns it (NULL: there is none), and advances *TEXT. */
static char *next_word(char **text)
{
    char *word = *text + strspn(*text, " ");
    char *end = word + strcspn(word, " ");
    *text = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* split_command - sets fx->argv to ckpt and the words of COMMAND. */
static void split_command(struct fixture *fx, const char *command)
{
    size_t n = 0;
    snprintf(fx->words, sizeof fx->words, "%s", command);
    fx->argv[n++] = (char *)(size_t)ckpt;
    for (char *text = fx->words, *word; (word = next_word(&text)) && n + 1 < WORDS_MAX;)
        fx->argv[n++] = word;
    fx->argv[n] = NULL;
}

static void rewind_output(struct fixture *fx)
{
    if (ftruncate(fx->out, 0) != 0 || ftruncate(fx->err, 0) != 0 || lseek(fx->out, 0, SEEK_SET) != 0 ||
        lseek(fx->err, 0, SEEK_SET) != 0)
        die("output");
}

static void read_output(int fd, char text[OUTPUT_MAX])
{
    ssize_t n = pread(fd, text, OUTPUT_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

/* hash_shards - runs `ckpt hash` for the set of shards in the folder, or for the single file with the same
 * tensors; if both exist, PREFER_FILE chooses the file. Writes the output to TEXT and returns the exit
 * status. */
static int hash_shards(struct fixture *fx, bool prefer_file, char text[OUTPUT_MAX])
{
    static char hash[] = "hash", index_file[] = "out.safetensors.index.json", file[] = "out.safetensors";
    char *names[] = {prefer_file ? file : index_file, prefer_file ? index_file : file}, path[512];
    snprintf(path, sizeof path, "%s/%s", fx->dir, names[0]);
    char *argv[] = {fx->argv[0], hash, names[access(path, F_OK) != 0], NULL};
    rewind_output(fx);
    int code = trace_run_untraced(fx->dir, fx->out, fx->err, argv);
    read_output(fx->out, text);
    char *name = strstr(text, file);
    if (name) /* cut off, so that the outputs for the set and for the file are equal */
        *name = '\0';
    return code;
}

/* set_output_attributes - gives existing outputs a mode, an owner and an attribute that no new file has. */
static void set_output_attributes(const struct fixture *fx)
{
    char names[256], path[512];
    snprintf(names, sizeof names, "%s", fx->job->outputs);
    for (char *text = names, *name; (name = next_word(&text));) {
        snprintf(path, sizeof path, "%s/%s", fx->dir, name);
        if (access(path, F_OK) != 0)
            continue;
        if (geteuid() == 0 && chown(path, 1234, 1235) != 0)
            die(path);
        if (chmod(path, 0640) != 0)
            die(path);
        (void)!setxattr(path, "user.ckpt-test", "kept", 4, 0); /* not every file system has attributes */
    }
}

static void fixture_free(struct fixture *fx)
{
    folder_empty(fx->dir);
    rmdir(fx->dir);
    folder_free(&fx->old);
    folder_free(&fx->new);
    folder_free(&fx->now);
    free(fx->trace.calls);
    close(fx->out);
    close(fx->err);
}

static void report_failure(struct fixture *fx, const char *format, ...)
{
    va_list ap;
    atomic_fetch_add(&shared->failed, 1);
    if (fx->nfailures++ >= REPORTS_MAX)
        return;
    printf("%s: ", fx->job->title);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

static bool is_scan(const struct fixture *fx) { return strncmp(fx->job->command, "scan", 4) == 0; }

/* fixture_make - sets up the folder for JOB, runs its command without faults, and records the folder before
 * and after. If one of these fails, reports that and returns false. */
static bool fixture_make(struct fixture *fx, const struct job *job)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    *fx = (struct fixture){.job = job};
    snprintf(fx->dir, sizeof fx->dir, "%s/ckpt-faults-XXXXXX", base);
    if (!mkdtemp(fx->dir))
        die(fx->dir);
    fx->out = memfd_create("out", MFD_CLOEXEC);
    fx->err = memfd_create("err", MFD_CLOEXEC);
    static char shell[] = "sh", from_string[] = "-ec";
    char *sh[] = {shell, from_string, (char *)(size_t)job->setup, NULL};
    if (trace_run_untraced(fx->dir, fx->out, fx->err, sh) != 0) {
        read_output(fx->err, fx->printed);
        report_failure(fx, "cannot be set up: %s", fx->printed);
        return false;
    }
    set_output_attributes(fx);
    split_command(fx, job->command);
    folder_read(&fx->old, fx->dir);
    (void)hash_shards(fx, true, fx->hashes_before);
    rewind_output(fx);
    fx->trace = (struct trace){.action = TRACE_LIST,
                               .no_tmpfile = (job->flags & NO_TMPFILE) != 0,
                               .no_links = (job->flags & NO_LINKS) != 0};
    if (kinds == 1 << MEMORY) /* LeakSanitizer does not work under ptrace */
        fx->trace.code = trace_run_untraced(fx->dir, fx->out, fx->err, fx->argv);
    else if (!trace_run(fx->dir, fx->out, fx->err, fx->argv, &fx->trace))
        die("trace");
    read_output(fx->out, fx->expected_output);
    read_output(fx->err, fx->printed);
    folder_read(&fx->new, fx->dir);
    (void)hash_shards(fx, true, fx->hashes_after);
    fx->expected_exit = fx->trace.code;
    int highest_exit = (job->flags & EXITS_1) || is_scan(fx); /* a scan exits 1 for findings */
    bool did_nothing = folder_equals(&fx->old, &fx->new, FOLDER_CONTENT) && !*fx->expected_output;
    if (fx->expected_exit < 0 || fx->expected_exit > highest_exit ||
        (did_nothing && !(job->flags & READ_ONLY))) {
        report_failure(fx, "fails without any injected fault (exit %d): %s", fx->trace.code, fx->printed);
        return false;
    }
    for (size_t i = 0; i < fx->new.n; i++) {
        const struct folder_file *new = &fx->new.file[i], *old = folder_find(&fx->old, new->name);
        if (old && (old->st.st_mode != new->st.st_mode || old->st.st_uid != new->st.st_uid ||
                    old->st.st_gid != new->st.st_gid || strcmp(old->xattr, new->xattr) != 0))
            report_failure(fx, "%s lost its mode, owner or attribute", old->name);
    }
    return true;
}

/* ------------------------------------------------------- checks after a run */

/* is_leftover - returns whether NAME is a temporary file, or the journal of an edit in place. */
static bool is_leftover(const struct fixture *fx, const char *name)
{
    if ((fx->job->flags & IN_PLACE) && strcmp(name, "f.ckpt-undo") == 0)
        return true;
    return name[0] == '.' && strstr(name, ".ckpt-") != NULL;
}

/* Whether a run that was killed or failed may leave temporary files or a journal. */
enum leftovers { NO_LEFTOVERS, ALLOW_LEFTOVERS };

/* The functions check_… return NULL if the check passes, else what is wrong. */

/* check_each_file - checks that each file of fx->now equals the file of that name in fx->old or in fx->new,
 * and that no file is missing that exists in both of them. */
static const char *check_each_file(struct fixture *fx, enum leftovers leftovers, enum folder_compare compare)
{
    for (size_t i = 0; i < fx->now.n; i++) {
        const struct folder_file *now = &fx->now.file[i], *old = folder_find(&fx->old, now->name),
                                 *new = folder_find(&fx->new, now->name);
        if (leftovers == ALLOW_LEFTOVERS && is_leftover(fx, now->name))
            continue;
        if (!old && !new)
            return "leaves an additional file";
        bool is_old = old && folder_file_equals(now, old, compare);
        bool is_new = new && folder_file_equals(now, new, compare);
        if (!is_old && !is_new)
            return "leaves a file that is neither old nor new";
    }
    for (size_t i = 0; i < fx->old.n; i++) {
        const char *name = fx->old.file[i].name;
        bool should_stay = folder_find(&fx->new, name) != NULL;
        if ((fx->job->flags & NO_LINKS) && strstr(name, ".index.json"))
            should_stay = false; /* the index file is removed while the set is being replaced */
        if (should_stay && !folder_find(&fx->now, name))
            return "removes a file that should stay";
    }
    return NULL;
}

/* drop_leftovers - removes the leftovers from fx->now. */
static void drop_leftovers(struct fixture *fx)
{
    size_t n = 0;
    for (size_t i = 0; i < fx->now.n; i++) {
        if (is_leftover(fx, fx->now.file[i].name))
            free(fx->now.file[i].bytes);
        else
            fx->now.file[n++] = fx->now.file[i];
    }
    fx->now.n = n;
}

/* check_set_readable - checks that a reader finds the complete old or the complete new set of shards. It may
 * find no set if there was none before the command, or if hard links are refused. */
static const char *check_set_readable(struct fixture *fx)
{
    for (int prefer_file = 0; prefer_file < 2; prefer_file++) {
        int code = hash_shards(fx, prefer_file, fx->printed);
        if (code == 2 && (!*fx->hashes_before || (fx->job->flags & NO_LINKS)))
            continue;
        if (code != 0)
            return "leaves no set";
        if (strcmp(fx->printed, fx->hashes_before) != 0 && strcmp(fx->printed, fx->hashes_after) != 0)
            return "leaves a set of old and new shards";
    }
    return NULL;
}

/* check_old_or_new - checks that the folder is as before the command or as after a run without faults. */
static const char *check_old_or_new(struct fixture *fx, enum leftovers leftovers, enum folder_compare compare)
{
    const char *wrong = check_each_file(fx, leftovers, compare);
    if (wrong)
        return wrong;
    if (leftovers == ALLOW_LEFTOVERS)
        drop_leftovers(fx);
    if (folder_equals(&fx->now, &fx->old, compare) || folder_equals(&fx->now, &fx->new, compare))
        return NULL;
    return fx->job->flags & NO_LINKS ? check_set_readable(fx) : "leaves a mixture of old and new files";
}

/* check_recovery - checks, after a run was killed or failed, that ckpt ls refuses a partly edited file, and
 * then that the next run leaves the folder as a run without faults does. */
static const char *check_recovery(struct fixture *fx)
{
    static char ls[] = "ls", file[] = "f", quiet[] = "-q", force[] = "-f";
    char *ls_argv[] = {fx->argv[0], ls, file, quiet, NULL};
    rewind_output(fx);
    if (fx->job->flags & IN_PLACE) {
        const struct folder_file *f = folder_find(&fx->now, "f");
        bool old_or_new = f && (folder_file_equals(f, folder_find(&fx->old, "f"), FOLDER_CONTENT) ||
                                folder_file_equals(f, folder_find(&fx->new, "f"), FOLDER_CONTENT));
        if (!old_or_new && trace_run_untraced(fx->dir, fx->out, fx->err, ls_argv) == 0)
            return "a reader accepts a partly edited file";
    }
    size_t nfiles = fx->now.n;
    drop_leftovers(fx);
    bool leftovers = fx->now.n != nfiles;
    if (!leftovers && folder_equals(&fx->now, &fx->new, FOLDER_ATTRIBUTES))
        return NULL; /* nothing to recover */
    size_t argc = 0;
    while (fx->argv[argc])
        argc++;
    fx->argv[argc] = fx->job->flags & SHARDS ? force : NULL; /* some new shards may exist */
    int code = trace_run_untraced(fx->dir, fx->out, fx->err, fx->argv);
    fx->argv[argc] = NULL;
    folder_read(&fx->now, fx->dir);
    read_output(fx->err, fx->printed);
    if (code == 2 && strstr(fx->printed, "may have been this one") &&
        folder_equals(&fx->now, &fx->new, FOLDER_ATTRIBUTES))
        return NULL; /* the killed run had completed the edit */
    if (code != fx->expected_exit)
        return "the next run fails";
    /* Without hard links the old index may be gone: the new index then has the attributes of any new file. */
    return folder_equals(&fx->now, &fx->new, fx->job->flags & NO_LINKS ? FOLDER_CONTENT : FOLDER_ATTRIBUTES)
               ? NULL
               : "the next run does not recover the file";
}

/* has_message - returns whether the command printed an error, or a scan printed that it is incomplete. */
static bool has_message(struct fixture *fx)
{
    if (is_scan(fx)) {
        read_output(fx->out, fx->printed);
        if (strstr(fx->printed, "INCOMPLETE"))
            return true;
    }
    read_output(fx->err, fx->printed);
    return strncmp(fx->printed, "ckpt: ", 6) == 0 || strstr(fx->printed, "\nckpt: ") ||
           strstr(fx->printed, "\"ckpt.error.v1\"");
}

/* exit_1_is_allowed - returns whether the command is a scan and exited with 1. It does so if it has findings,
 * even if it then failed to read the file to its end. If memory ran out, it must exit with 2. */
static bool exit_1_is_allowed(const struct fixture *fx)
{
    return fx->trace.code == 1 && kinds != 1 << MEMORY && is_scan(fx);
}

/* Which calls failed in a run: one, or also all calls after it. */
enum failed_calls { ONE_CALL, ALL_LATER_CALLS };

/* check_result - checks the exit status, the messages and the folder after a run that was not killed. After
 * ALL_LATER_CALLS have failed, the next run may have to recover an edit in place. */
static const char *check_result(struct fixture *fx, enum failed_calls failed_calls)
{
    const struct trace *t = &fx->trace;
    enum folder_compare compare = t->call < t->ncalls && errors_loses_attributes(&t->calls[t->call])
                                      ? FOLDER_CONTENT
                                      : FOLDER_ATTRIBUTES;
    folder_read(&fx->now, fx->dir);
    if (fx->trace.signal)
        return "is ended by a signal";
    if (fx->trace.code == fx->expected_exit) {
        read_output(fx->out, fx->printed);
        if (strcmp(fx->printed, fx->expected_output) != 0)
            return "exits as after a complete run, but prints something else";
        return folder_equals(&fx->now, &fx->new, compare)
                   ? NULL
                   : "exits as after a complete run, but the folder is not complete";
    }
    if (fx->trace.code != 2 && !exit_1_is_allowed(fx))
        return "exits with a different code";
    if (!has_message(fx))
        return "prints no message";
    if (failed_calls == ALL_LATER_CALLS && (fx->job->flags & IN_PLACE))
        return check_recovery(fx);
    return check_old_or_new(fx, NO_LEFTOVERS, compare);
}

static void run_traced(struct fixture *fx)
{
    folder_restore(&fx->old, fx->dir);
    rewind_output(fx);
    if (!trace_run(fx->dir, fx->out, fx->err, fx->argv, &fx->trace))
        die("trace");
}

static void count_case(int kind) { atomic_fetch_add(&shared->cases[kind], 1); }

/* ----------------------------------------------------------- kinds of faults */

/* check_power_cut - restores the undo journal JOURNAL, writes f as an interrupted edit may leave it (by
 * folder_write_torn() with the seed CUT) and checks that the next run keeps or undoes the edit and reports
 * which. */
static const char *check_power_cut(struct fixture *fx, const struct folder_file *journal, unsigned cut)
{
    static char strip[] = "strip", in_place[] = "-i", allow_none[] = "--allow-none";
    static char prefix[] = "no.such.", file[] = "f";
    char *argv[] = {fx->argv[0], strip, in_place, allow_none, prefix, file, NULL}, path[512], undo[512];
    const struct folder_file *old = folder_find(&fx->old, "f"), *new = folder_find(&fx->new, "f"), *f;
    snprintf(path, sizeof path, "%s/f", fx->dir);
    snprintf(undo, sizeof undo, "%s/%s", fx->dir, journal->name);
    folder_write(undo, journal->bytes, journal->size);
    folder_write_torn(path, old, new, cut);
    rewind_output(fx);
    int code = trace_run_untraced(fx->dir, fx->out, fx->err, argv);
    folder_read(&fx->now, fx->dir);
    read_output(fx->err, fx->printed);
    if (code != 0)
        return "the next run fails";
    if (fx->now.n != fx->old.n || !(f = folder_find(&fx->now, "f")))
        return "the next run leaves the journal";
    if (folder_file_equals(f, new, FOLDER_ATTRIBUTES))
        return strstr(fx->printed, "was complete, and is kept") ? NULL : "does not report the edit it kept";
    if (cut == 0)
        return "a complete edit is undone";
    if (!folder_file_equals(f, old, FOLDER_ATTRIBUTES))
        return "the next run does not recover the file";
    return strstr(fx->printed, "edit was undone") ? NULL : "does not report the edit it undid";
}

/* check_power_cuts - kills the command before call number REMOVAL, which removes the journal, and checks
 * power cuts at that time. */
static void check_power_cuts(struct fixture *fx, size_t removal)
{
    struct folder killed = {.n = 0};
    fx->trace.call = removal;
    run_traced(fx);
    folder_read(&killed, fx->dir);
    const struct folder_file *journal = folder_find(&killed, "f.ckpt-undo");
    for (unsigned i = 0; journal && i < POWER_CUTS; i++) {
        const char *wrong = check_power_cut(fx, journal, i);
        count_case(KILL);
        if (wrong)
            report_failure(fx, "power cut %u: %s; %.300s", i, wrong, fx->printed);
    }
    if (!journal)
        report_failure(fx, "there is no journal before call %zu", removal);
    folder_free(&killed);
}

static void kill_at_each_call(struct fixture *fx)
{
    size_t removal = 0; /* the call that removes the journal: the last unlinkat() */
    fx->trace.action = TRACE_KILL;
    fx->nfailures = 0;
    for (fx->trace.call = 0;; fx->trace.call++) {
        run_traced(fx);
        folder_read(&fx->now, fx->dir);
        const char *wrong = NULL;
        if (fx->trace.signal != SIGKILL)
            break; /* the command ended before call number trace.call */
        if (fx->job->flags & SHARDS)
            wrong = check_set_readable(fx);
        else if (!(fx->job->flags & IN_PLACE))
            wrong = check_old_or_new(fx, ALLOW_LEFTOVERS, FOLDER_ATTRIBUTES);
        folder_read(&fx->now, fx->dir);
        if (!wrong && !(fx->job->flags & READ_ONLY))
            wrong = check_recovery(fx);
        count_case(KILL);
        if (wrong)
            report_failure(fx, "killed before call %zu (SYS_ number %lu): %s", fx->trace.call,
                           fx->trace.calls[fx->trace.call].number, wrong);
        if (fx->trace.calls[fx->trace.call].number == SYS_unlinkat)
            removal = fx->trace.call;
    }
    if (fx->job->flags & IN_PLACE)
        check_power_cuts(fx, removal);
}

/* fail_call - runs the command and lets system call number CALL fail with ERROR, one of errors_of_call(). */
static void fail_call(struct fixture *fx, size_t call, int error)
{
    fx->trace.action = error == ERRORS_SHORT ? TRACE_SHORT : TRACE_ERROR;
    fx->trace.call = call;
    fx->trace.error = error;
    run_traced(fx);
    const char *wrong = check_result(fx, ONE_CALL);
    count_case(ERROR);
    if (wrong) {
        read_output(fx->err, fx->printed);
        report_failure(fx, "call %zu (SYS_ number %lu, first argument %#lx) %s: exit %d, %s; %.200s", call,
                       call < fx->trace.ncalls ? fx->trace.calls[call].number : 0,
                       call < fx->trace.ncalls ? fx->trace.calls[call].arg[0] : 0,
                       error == ERRORS_SHORT ? "transfers half"
                       : error == ERRORS_EOF ? "returns 0"
                                             : strerror(error),
                       fx->trace.code, wrong, fx->printed);
    }
}

/* list_calls - runs the command without faults and returns a list of its *N calls, which later runs do not
 * overwrite. The caller frees it. */
static struct trace_call *list_calls(struct fixture *fx, size_t *n)
{
    fx->trace.action = TRACE_LIST;
    run_traced(fx);
    struct trace_call *calls = malloc((fx->trace.ncalls + 1) * sizeof *calls);
    if (!calls)
        die("memory");
    memcpy(calls, fx->trace.calls, fx->trace.ncalls * sizeof *calls);
    *n = fx->trace.ncalls;
    return calls;
}

static void fail_each_call(struct fixture *fx)
{
    size_t n;
    struct trace_call *calls = list_calls(fx, &n);
    fx->nfailures = 0;
    for (size_t i = 0; i < n; i++)
        for (const int *error = errors_of_call(&calls[i]); *error != ERRORS_END; error++)
            fail_call(fx, i, *error);
    free(calls);
}

static void fill_disk_at_each_write(struct fixture *fx)
{
    static const int errors[] = {ENOSPC, EDQUOT, EIO};
    size_t n;
    struct trace_call *calls = list_calls(fx, &n);
    fx->nfailures = 0;
    for (size_t i = 0; i < n; i++) {
        bool writes = *errors_of_call(&calls[i]) == ENOSPC; /* the first error of calls that write */
        for (size_t k = 0; writes && k < sizeof errors / sizeof *errors; k++) {
            fx->trace.action = TRACE_FULL;
            fx->trace.call = i;
            fx->trace.error = errors[k];
            run_traced(fx);
            const char *wrong = check_result(fx, ALL_LATER_CALLS);
            count_case(DISK_FULL);
            if (wrong)
                report_failure(fx, "from call %zu on: %s: %s", i, strerror(errors[k]), wrong);
        }
    }
    free(calls);
}

/* check_after_modification - checks that each file except INPUT, which the test itself modified, is the old
 * one or the one written from the unmodified input. */
static const char *check_after_modification(struct fixture *fx, const char *input)
{
    folder_read(&fx->now, fx->dir);
    if (fx->trace.signal)
        return "is ended by a signal";
    if (fx->trace.code != fx->expected_exit && fx->trace.code != 2 && !exit_1_is_allowed(fx))
        return "exits with a different code";
    if (fx->trace.code != fx->expected_exit && !has_message(fx))
        return "prints no message";
    for (size_t i = 0; i < fx->now.n; i++) {
        const struct folder_file *now = &fx->now.file[i], *old = folder_find(&fx->old, now->name),
                                 *new = folder_find(&fx->new, now->name);
        if (strcmp(now->name, input) == 0)
            continue;
        if (!old && !new)
            return "leaves an additional file";
        if (new && folder_file_equals(now, new, FOLDER_ATTRIBUTES))
            continue;
        if (fx->trace.code == fx->expected_exit || !old || !folder_file_equals(now, old, FOLDER_ATTRIBUTES))
            return "leaves a file made from both the old and the modified input";
    }
    read_output(fx->out, fx->printed);
    if (fx->trace.code == fx->expected_exit && strcmp(fx->printed, fx->expected_output) != 0)
        return "exits as after a complete run, but prints something else";
    return NULL;
}

static void modify_before_each_read(struct fixture *fx)
{
    static const char *const ways[] = {"truncated", "emptied", "extended", "inverted", "replaced"};
    struct folder_modification modification = {.way = 0};
    size_t ncalls, first_read = 0;
    modification.old = folder_find(&fx->old, "in");
    if (!modification.old || S_ISDIR(modification.old->st.st_mode))
        return;
    struct trace_call *calls = list_calls(fx, &ncalls);
    /* the input is not open before the first pread() */
    while (first_read < ncalls && calls[first_read].number != SYS_pread64)
        first_read++;
    snprintf(modification.path, sizeof modification.path, "%s/in", fx->dir);
    fx->nfailures = 0;
    fx->trace.callback = folder_modify;
    fx->trace.user = &modification;
    for (size_t i = first_read; i < ncalls; i++) {
        if (!errors_uses_input(&calls[i]))
            continue;
        for (modification.way = 0; modification.way < MODIFY_WAYS; modification.way++) {
            fx->trace.action = TRACE_CALLBACK;
            fx->trace.call = i;
            run_traced(fx);
            const char *wrong = check_after_modification(fx, "in");
            count_case(MODIFY);
            if (wrong)
                report_failure(fx, "input %s before call %zu (SYS_ number %lu) of %zu: exit %d, %s",
                               ways[modification.way], i, calls[i].number, ncalls, fx->trace.code, wrong);
        }
    }
    free(calls);
}

/* fail_each_allocation - runs the command twice for every allocation_step-th allocation: in one run only this
 * allocation fails, in the other also all after it. */
static void fail_each_allocation(struct fixture *fx)
{
    char fd_text[16];
    int fd = memfd_create("oom", 0);
    struct oom *oom = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *oom) == 0)
        oom = mmap(NULL, sizeof *oom, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(fd_text, sizeof fd_text, "%d", fd);
    if (oom == MAP_FAILED || setenv(OOM_VARIABLE, fd_text, 1) != 0)
        die("memory");
    fx->nfailures = 0;
    for (int all_after = 0; all_after < 2; all_after++) {
        long *call = &oom->failing_call;
        oom->fail_all_after = all_after;
        for (*call = 1; *call == 1 || atomic_load(&oom->ncalls) >= *call - allocation_step;
             *call += allocation_step) {
            atomic_store(&oom->ncalls, 0);
            folder_restore(&fx->old, fx->dir);
            rewind_output(fx);
            fx->trace.code = trace_run_untraced(fx->dir, fx->out, fx->err, fx->argv);
            fx->trace.signal = fx->trace.code < 0;
            const char *wrong = check_result(fx, ONE_CALL);
            count_case(MEMORY);
            read_output(fx->err, fx->printed);
            if (!wrong && fx->trace.code == 2 && *fx->printed && !strstr(fx->printed, "memory") &&
                !strstr(fx->printed, "allocate"))
                wrong = "does not give memory as the reason";
            if (wrong)
                report_failure(fx, "allocation %ld%s: exit %d, %s; %.600s", *call,
                               all_after ? " and all after it" : "", fx->trace.code, wrong, fx->printed);
        }
    }
    unsetenv(OOM_VARIABLE);
    munmap(oom, sizeof *oom);
    close(fd);
}

/* --------------------------------------------------------------------- main */

static const struct {
    int skip_flags; /* jobs with one of these flags are not run with this kind of fault */
    void (*run)(struct fixture *fx);
} kind_table[NKINDS] = {
    [KILL] = {MEMORY_ONLY | READ_ONLY, kill_at_each_call},
    [ERROR] = {MEMORY_ONLY, fail_each_call},
    [DISK_FULL] = {MEMORY_ONLY, fill_disk_at_each_write},
    [MODIFY] = {MEMORY_ONLY | NO_TMPFILE | IN_PLACE, modify_before_each_read},
    [MEMORY] = {NO_TMPFILE, fail_each_allocation},
};

static bool job_is_chosen(size_t i) { return ((long)i % job_step == 0) == (job_step > 0); }

/* lacks_lapack - returns true if JOB needs LAPACK, which is not installed; then prints that it is skipped. */
static bool lacks_lapack(const struct job *job)
{
    if (!(job->flags & LAPACK) || dlopen("liblapack.so.3", RTLD_LAZY))
        return false;
    printf("%s skipped: no liblapack.so.3\n", job->title);
    (void)fflush(stdout);
    return true;
}

static void run_jobs(void)
{
    static struct fixture fx;
    for (size_t i; (i = atomic_fetch_add(&shared->next_job, 1)) < NJOBS;) {
        if (!job_is_chosen(i) || lacks_lapack(&jobs[i]))
            continue;
        if (fixture_make(&fx, &jobs[i]))
            for (int k = 0; k < NKINDS; k++)
                if ((kinds & 1 << k) && !(jobs[i].flags & kind_table[k].skip_flags))
                    kind_table[k].run(&fx);
        fixture_free(&fx);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    int opt, status, workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
    while ((opt = getopt(argc, argv, "e:j:k:s:")) != -1) {
        if (opt == 'j')
            workers = (int)strtol(optarg, NULL, 10);
        else if (opt == 'k')
            kinds = (int)strtol(optarg, NULL, 10);
        else if (opt == 's')
            allocation_step = strtol(optarg, NULL, 10);
        else if (opt == 'e' && strtol(optarg, NULL, 10) != 0)
            job_step = strtol(optarg, NULL, 10);
        else
            return 2;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: faults [-j WORKERS] [-e N] [-k KINDS] [-s STEP] CKPT PT\n");
        return 2;
    }
    if (!trace_is_allowed()) {
        puts("faults skipped: ptrace is not permitted here, or this is not x86-64");
        puts("faults: 0 passed, 0 failed, 1 skipped");
        return 0;
    }
    ckpt = realpath(argv[optind], NULL);
    sample = realpath(argv[optind + 1], NULL);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!ckpt || !sample || shared == MAP_FAILED || setenv("CKPT", ckpt, 1) != 0 ||
        setenv("PT", sample, 1) != 0)
        die(argv[optind]);
    umask(022);
    for (int w = 0; w < workers; w++)
        if (fork() == 0)
            run_jobs();
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            atomic_fetch_add(&shared->failed, 1);
    size_t njobs = 0;
    for (size_t i = 0; i < NJOBS; i++)
        njobs += job_is_chosen(i);
    long all = 0;
    for (int k = 0; k < NKINDS; k++)
        all += atomic_load(&shared->cases[k]);
    if (kinds & 1 << MEMORY)
        printf("%zu commands: %ld runs with a failing allocation\n", njobs,
               atomic_load(&shared->cases[MEMORY]));
    else
        printf("%zu commands: %ld runs killed, %ld with a failing call, %ld with a full disk, "
               "%ld with a changed input\n",
               njobs, atomic_load(&shared->cases[KILL]), atomic_load(&shared->cases[ERROR]),
               atomic_load(&shared->cases[DISK_FULL]), atomic_load(&shared->cases[MODIFY]));
    printf("faults: %ld passed, %ld failed\n", all - atomic_load(&shared->failed),
           atomic_load(&shared->failed));
    return atomic_load(&shared->failed) != 0;
}
