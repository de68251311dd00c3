/*
 * faults.c - faults [-j N] [-k KIND] [-e EACH] CKPT SEED: every command that writes (and some that only
 * read; -e: each EACH-th), with
 *   kill     SIGKILL before each of its system calls; for edits in place then power cuts: some of the
 *            sectors on the disk, and the journal there again though all was done
 *   error    each call that can fail made to fail in each way that it can, or to transfer half
 *   full     a disk that is full, over quota or broken from one of its writes on
 *   meddle   the input cut, emptied, changed or replaced under its hands before each look at it
 *
 * What must hold: the folder is exactly as it was or exactly as it should become, owner, mode and
 * extended attributes included; exit 0 (1 of a salvage) means the second; exit 2 comes with a line
 * "ckpt: ..."; nothing else lies about; no signal. After a SIGKILL a temporary or a journal may stay,
 * and the next run must make all of it good; of a set of shards, a reader must find the old or the new
 * one whole before that.
 */
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

#define WORDS    24
#define PRINTED  65536
#define COMPLAIN 50 /* lines for each command and kind */

enum { KILL = 1, ERROR = 2, FULL = 4, MEDDLE = 8, ALL = 15, MEMORY = 16 };
enum {
    IN_PLACE = 1,  /* a journal may stay, and a reader must not take what it guards */
    NAMED = 2,     /* no O_TMPFILE */
    MANY = 4,      /* a set of shards: read whole, by its index or as the one file instead, at any time */
    READS = 8,     /* writes nothing */
    TALKS = 16,    /* of interest for its memory only */
    NO_LINKS = 64, /* hard links are refused: of a set, the index goes while it is replaced */
    LOSES = 32,    /* exits 1 when all goes well: its input is damaged */
};

struct job {
    const char *what, *setup, *command, *dest;
    int flags;
};

static const struct job jobs[] = {
#define JOB(what, setup, command, dest, flags) {what, setup, command, dest, flags},
#include "faults.def"
#undef JOB
};
#define NJOBS (sizeof jobs / sizeof *jobs)

static struct shared {
    _Atomic size_t next;
    _Atomic long cases[5], failed;
} * shared;

static const char *ckpt, *seed;
static int kinds = ALL;
static long first_allocation = 1, step = 1;
static size_t each = 1; /* job is tried */

/* One command under test, in one worker. */
struct bench {
    const struct job *job;
    char dir[64];
    char *argv[WORDS], words[512];
    int out, err, done; /* DONE: what it exits with when nothing goes wrong */
    char printed[PRINTED], expect[PRINTED];
    char before[PRINTED], after[PRINTED]; /* what a reader says of a set; empty: there is none */
    struct folder old, new, now;
    struct trace t;
    int complaints;
};

static void die(const char *what)
{
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---------------------------------------------------------------- the bench */

static char *next_word(char **rest)
{
    char *w = *rest + strspn(*rest, " ");
    char *end = w + strcspn(w, " ");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return *w ? w : NULL;
}

static void split(struct bench *b, const char *command)
{
    size_t n = 0;
    snprintf(b->words, sizeof b->words, "%s", command);
    b->argv[n++] = (char *)(size_t)ckpt;
    for (char *rest = b->words, *w; (w = next_word(&rest)) && n + 1 < WORDS;)
        b->argv[n++] = w;
    b->argv[n] = NULL;
}

static void rewind_output(struct bench *b)
{
    if (ftruncate(b->out, 0) != 0 || ftruncate(b->err, 0) != 0 || lseek(b->out, 0, SEEK_SET) != 0 ||
        lseek(b->err, 0, SEEK_SET) != 0)
        die("output");
}

static void read_output(int fd, char text[PRINTED])
{
    ssize_t n = pread(fd, text, PRINTED - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

/* read_set - what a reader says of the set in the folder, or of the one file in its place, to TEXT;
 * its exit status. ONE_FIRST: which of them it looks for first. */
static int read_set(struct bench *b, bool one_first, char text[PRINTED])
{
    static char hash[] = "hash", set[] = "out.safetensors.index.json", one[] = "out.safetensors";
    char *names[] = {one_first ? one : set, one_first ? set : one}, path[512];
    snprintf(path, sizeof path, "%s/%s", b->dir, names[0]);
    char *argv[] = {b->argv[0], hash, names[access(path, F_OK) != 0], NULL};
    rewind_output(b);
    int code = trace_not(b->dir, b->out, b->err, argv);
    read_output(b->out, text);
    char *name = strstr(text, one);
    if (name) /* which of them it was tells nothing */
        *name = '\0';
    return code;
}

/* set_attributes - the outputs get a mode, an owner and an attribute that no new file has. */
static void set_attributes(const struct bench *b)
{
    char names[256], path[512];
    snprintf(names, sizeof names, "%s", b->job->dest);
    for (char *rest = names, *w; (w = next_word(&rest));) {
        snprintf(path, sizeof path, "%s/%s", b->dir, w);
        if (access(path, F_OK) != 0)
            continue;
        if (geteuid() == 0 && chown(path, 1234, 1235) != 0)
            die(path);
        if (chmod(path, 0640) != 0)
            die(path);
        (void)!setxattr(path, "user.ckpt-test", "kept", 4, 0); /* not every file system has them */
    }
}

static void bench_free(struct bench *b)
{
    folder_empty(b->dir);
    rmdir(b->dir);
    folder_free(&b->old);
    folder_free(&b->new);
    folder_free(&b->now);
    free(b->t.calls);
    close(b->out);
    close(b->err);
}

static void complain(struct bench *b, const char *about, ...)
{
    va_list ap;
    atomic_fetch_add(&shared->failed, 1);
    if (b->complaints++ >= COMPLAIN)
        return;
    printf("%s: ", b->job->what);
    va_start(ap, about);
    vprintf(about, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* bench_make - the folder before, and after the command when nothing goes wrong. */
static bool bench_make(struct bench *b, const struct job *job)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    *b = (struct bench){.job = job};
    snprintf(b->dir, sizeof b->dir, "%s/ckpt-faults-XXXXXX", base);
    if (!mkdtemp(b->dir))
        die(b->dir);
    b->out = memfd_create("out", MFD_CLOEXEC);
    b->err = memfd_create("err", MFD_CLOEXEC);
    static char shell[] = "sh", from_string[] = "-ec";
    char *sh[] = {shell, from_string, (char *)(size_t)job->setup, NULL};
    if (trace_not(b->dir, b->out, b->err, sh) != 0) {
        read_output(b->err, b->printed);
        complain(b, "cannot be set up: %s", b->printed);
        return false;
    }
    set_attributes(b);
    split(b, job->command);
    folder_take(&b->old, b->dir);
    (void)read_set(b, true, b->before);
    rewind_output(b);
    b->t = (struct trace){.what = TRACE_ONLY,
                          .no_unnamed = (job->flags & NAMED) != 0,
                          .no_links = (job->flags & NO_LINKS) != 0};
    if (kinds == MEMORY) /* LeakSanitizer cannot be traced */
        b->t.code = trace_not(b->dir, b->out, b->err, b->argv);
    else if (!trace_run(b->argv, b->dir, b->out, b->err, &b->t))
        die("trace");
    read_output(b->out, b->expect);
    read_output(b->err, b->printed);
    folder_take(&b->new, b->dir);
    (void)read_set(b, true, b->after);
    b->done = b->t.code;
    int most = (job->flags & LOSES) || strncmp(job->command, "scan", 4) == 0;
    if (b->done < 0 || b->done > most ||
        ((job->flags & READS) == 0 && folder_same(&b->old, &b->new, false) && !*b->expect)) {
        complain(b, "cannot be done at all (exit %d): %s", b->t.code, b->printed);
        return false;
    }
    for (size_t i = 0; i < b->new.n; i++) {
        const struct folder_file *was = folder_find(&b->old, b->new.file[i].name);
        if (was &&
            (was->st.st_mode != b->new.file[i].st.st_mode || was->st.st_uid != b->new.file[i].st.st_uid ||
             was->st.st_gid != b->new.file[i].st.st_gid || strcmp(was->xattr, b->new.file[i].xattr) != 0))
            complain(b, "%s lost its mode, owner or attribute", was->name);
    }
    return true;
}

/* --------------------------------------------------------------- what must hold */

static bool is_leftover(const struct bench *b, const char *name)
{
    size_t n = strlen(name);
    if ((b->job->flags & IN_PLACE) && n > 10 && strcmp(name + n - 10, ".ckpt-undo") == 0)
        return true;
    return name[0] == '.' && strstr(name, ".ckpt-") != NULL;
}

/* each_whole - every file is an old or a new one, and none of the old is gone. */
static const char *each_whole(struct bench *b, bool leftovers, bool attributes)
{
    for (size_t i = 0; i < b->now.n; i++) {
        const struct folder_file *f = &b->now.file[i], *was = folder_find(&b->old, f->name),
                                 *will = folder_find(&b->new, f->name);
        if (leftovers && is_leftover(b, f->name))
            continue;
        if (!was && !will)
            return "leaves a file";
        if (!(was && folder_same_file(f, was, attributes)) &&
            !(will && folder_same_file(f, will, attributes)))
            return "leaves a file that is neither old nor new";
    }
    for (size_t i = 0; i < b->old.n; i++)
        if (!folder_find(&b->now, b->old.file[i].name) && folder_find(&b->new, b->old.file[i].name) &&
            !((b->job->flags & NO_LINKS) && strstr(b->old.file[i].name, ".index.json")))
            return "removes a file";
    return NULL;
}

static void set_leftovers_aside(struct bench *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->now.n; i++) {
        if (is_leftover(b, b->now.file[i].name))
            free(b->now.file[i].bytes);
        else
            b->now.file[n++] = b->now.file[i];
    }
    b->now.n = n;
}

/* set_readable - a set that was being replaced is the old one or the new one to a reader, and where
 * there was none, or no links, there may be none. */
static const char *set_readable(struct bench *b)
{
    for (int one_first = 0; one_first < 2; one_first++) {
        int code = read_set(b, one_first, b->printed);
        if (code == 2 && (!*b->before || (b->job->flags & NO_LINKS)))
            continue;
        if (code != 0)
            return "leaves no set";
        if (strcmp(b->printed, b->before) != 0 && strcmp(b->printed, b->after) != 0)
            return "leaves a set of old and new shards";
    }
    return NULL;
}

static const char *old_or_new(struct bench *b, bool leftovers, bool attributes)
{
    const char *wrong = each_whole(b, leftovers, attributes);
    if (wrong)
        return wrong;
    if (leftovers)
        set_leftovers_aside(b);
    if (folder_same(&b->now, &b->old, attributes) || folder_same(&b->now, &b->new, attributes))
        return NULL;
    return b->job->flags & NO_LINKS ? set_readable(b) : "leaves something old and something new";
}

static const char *make_good(struct bench *b)
{
    static char look[] = "ls", file[] = "f", quiet[] = "-q", force[] = "-f";
    char *ls[] = {b->argv[0], look, file, quiet, NULL};
    rewind_output(b);
    if (b->job->flags & IN_PLACE) {
        const struct folder_file *f = folder_find(&b->now, "f");
        bool whole = f && (folder_same_file(f, folder_find(&b->old, "f"), false) ||
                           folder_same_file(f, folder_find(&b->new, "f"), false));
        if (!whole && trace_not(b->dir, b->out, b->err, ls) == 0)
            return "a reader took a half changed file";
    }
    size_t files = b->now.n; /* a journal beside it says that there is something to do */
    set_leftovers_aside(b);
    if (b->now.n == files && folder_same(&b->now, &b->new, true))
        return NULL;
    size_t n = 0;
    while (b->argv[n])
        n++;
    b->argv[n] = b->job->flags & MANY ? force : NULL; /* some of a new set may be there */
    int code = trace_not(b->dir, b->out, b->err, b->argv);
    b->argv[n] = NULL;
    folder_take(&b->now, b->dir);
    read_output(b->err, b->printed);
    if (code == 2 && strstr(b->printed, "may have been this one") && folder_same(&b->now, &b->new, true))
        return NULL; /* all was done when it was killed */
    if (code != b->done)
        return "the next run fails";
    /* Without links the index may have gone before: the new one is then as new files are. */
    return folder_same(&b->now, &b->new, (b->job->flags & NO_LINKS) == 0)
               ? NULL
               : "the next run does not make it good";
}

static bool has_message(struct bench *b)
{
    read_output(b->err, b->printed);
    if (*b->job->command == 's' && b->job->command[1] == 'c') {
        read_output(b->out, b->printed);
        if (strstr(b->printed, "INCOMPLETE"))
            return true;
    }
    read_output(b->err, b->printed);
    return strncmp(b->printed, "ckpt: ", 6) == 0 || strstr(b->printed, "\nckpt: ") ||
           strstr(b->printed, "\"ckpt.error.v1\"");
}

/* finds - what a scan found is worth more than that it did not get to its end, which it says, too. Not so
 * where memory is lacking. */
static bool finds(const struct bench *b)
{
    return b->t.code == 1 && kinds != MEMORY && strncmp(b->job->command, "scan", 4) == 0;
}

/* judge - after a run that was not killed. */
static const char *judge(struct bench *b, bool lasting)
{
    bool attributes = !(b->t.at < b->t.n && errors_attributes(&b->t.calls[b->t.at]));
    folder_take(&b->now, b->dir);
    if (b->t.signal)
        return "dies of a signal";
    if (b->t.code == b->done) {
        read_output(b->out, b->printed);
        if (strcmp(b->printed, b->expect) != 0)
            return "prints something else and says that all is done";
        return folder_same(&b->now, &b->new, attributes) ? NULL : "says that all is done, and it is not";
    }
    if (b->t.code != 2 && !finds(b))
        return "exits with another code";
    if (!has_message(b))
        return "says nothing";
    if (lasting && (b->job->flags & IN_PLACE)) {
        const char *wrong = make_good(b);
        return wrong;
    }
    return old_or_new(b, false, attributes);
}

static void run(struct bench *b)
{
    folder_put(&b->old, b->dir);
    rewind_output(b);
    if (!trace_run(b->argv, b->dir, b->out, b->err, &b->t))
        die("trace");
}

static void count(int kind) { atomic_fetch_add(&shared->cases[kind], 1); }

/* -------------------------------------------------------------------- kinds */

/* power_cut - the folder holds f and its journal as of just before the journal went. */
static const char *power_cut(struct bench *b, const struct folder_file *journal, unsigned torn)
{
    static char strip[] = "strip", place[] = "-i", none[] = "no.such.";
    static char file[] = "f";
    char *recover[] = {b->argv[0], strip, place, none, file, NULL}, path[512], undo[512];
    const struct folder_file *old = folder_find(&b->old, "f"), *new = folder_find(&b->new, "f"), *f;
    snprintf(path, sizeof path, "%s/f", b->dir);
    snprintf(undo, sizeof undo, "%s/%s", b->dir, journal->name);
    folder_write(undo, journal->bytes, journal->size);
    folder_tear(path, old, new, torn);
    rewind_output(b);
    int code = trace_not(b->dir, b->out, b->err, recover);
    folder_take(&b->now, b->dir);
    read_output(b->err, b->printed);
    if (code != 0)
        return "the next run fails";
    if (b->now.n != b->old.n || !(f = folder_find(&b->now, "f")))
        return "the journal stays";
    if (folder_same_file(f, new, true))
        return strstr(b->printed, "was complete, and is kept") ? NULL : "says nothing of the edit that stays";
    if (torn == 0)
        return "an edit is undone that had been done";
    if (!folder_same_file(f, old, true))
        return "the next run does not make it good";
    return strstr(b->printed, "edit was undone") ? NULL : "says nothing of what it undid";
}

/* each_power_cut - after a kill before call AT, which is the one that removes the journal. */
static void each_power_cut(struct bench *b, size_t at)
{
    struct folder then = {.n = 0};
    const char *wrong = NULL;
    b->t.at = at;
    run(b);
    folder_take(&then, b->dir);
    const struct folder_file *journal = folder_find(&then, "f.ckpt-undo");
    for (unsigned torn = 0; journal && torn < 300; torn++, count(0))
        if ((wrong = power_cut(b, journal, torn)))
            complain(b, "power cut %u: %s; %.300s", torn, wrong, b->printed);
    if (!journal)
        complain(b, "no journal when it was killed before call %zu", at);
    folder_free(&then);
}

static void each_kill(struct bench *b)
{
    size_t removes = 0;
    b->t.what = TRACE_KILL;
    b->complaints = 0;
    for (b->t.at = 0;; b->t.at++) {
        run(b);
        folder_take(&b->now, b->dir);
        const char *wrong = NULL;
        if (b->t.signal != SIGKILL)
            break;
        if (b->job->flags & MANY)
            wrong = set_readable(b);
        else if (!(b->job->flags & IN_PLACE))
            wrong = old_or_new(b, true, true);
        folder_take(&b->now, b->dir);
        if (!wrong && !(b->job->flags & READS))
            wrong = make_good(b);
        count(0);
        if (wrong)
            complain(b, "killed before call %zu (number %lu): %s", b->t.at, b->t.calls[b->t.at].nr, wrong);
        if (b->t.calls[b->t.at].nr == SYS_unlinkat)
            removes = b->t.at;
    }
    if (b->job->flags & IN_PLACE)
        each_power_cut(b, removes);
}

static void one_error(struct bench *b, size_t at, int error)
{
    b->t.what = error == -2 ? TRACE_SHORT : TRACE_ERROR;
    b->t.at = at;
    b->t.error = error;
    run(b);
    const char *wrong = judge(b, false);
    count(1);
    if (wrong) {
        read_output(b->err, b->printed);
        complain(b, "call %zu (number %lu of %lx) %s: exit %d, %s; %.200s", at,
                 at < b->t.n ? b->t.calls[at].nr : 0, at < b->t.n ? b->t.calls[at].arg[0] : 0,
                 error == -2 ? "does half"
                 : error     ? strerror(error)
                             : "at the end",
                 b->t.code, wrong, b->printed);
    }
}

/* list_calls - what the command does when all is well: a copy, as every run writes its own. */
static struct trace_call *list_calls(struct bench *b, size_t *n)
{
    b->t.what = TRACE_ONLY;
    run(b);
    struct trace_call *calls = malloc((b->t.n + 1) * sizeof *calls);
    if (!calls)
        die("memory");
    memcpy(calls, b->t.calls, b->t.n * sizeof *calls);
    *n = b->t.n;
    return calls;
}

static void each_error(struct bench *b)
{
    size_t n;
    struct trace_call *calls = list_calls(b, &n);
    b->complaints = 0;
    for (size_t i = 0; i < n; i++)
        for (const int *e = errors_of(&calls[i]); *e != -1; e++)
            one_error(b, i, *e);
    free(calls);
}

static void each_full(struct bench *b)
{
    static const int errors[] = {ENOSPC, EDQUOT, EIO};
    size_t n;
    struct trace_call *calls = list_calls(b, &n);
    b->complaints = 0;
    for (size_t i = 0; i < n; i++) {
        const int *e = errors_of(&calls[i]);
        for (size_t k = 0; *e == ENOSPC && k < 3; k++) {
            b->t.what = TRACE_FULL;
            b->t.at = i;
            b->t.error = errors[k];
            run(b);
            const char *wrong = judge(b, true);
            count(2);
            if (wrong)
                complain(b, "from call %zu on %s: %s", i, strerror(errors[k]), wrong);
        }
    }
    free(calls);
}

/* after_meddling - the input is whatever we made it; the rest is old, or new of the input as it was. */
static const char *after_meddling(struct bench *b, const char *input)
{
    folder_take(&b->now, b->dir);
    if (b->t.signal)
        return "dies of a signal";
    if (b->t.code != b->done && b->t.code != 2 && !finds(b))
        return "exits with another code";
    if (b->t.code != b->done && !has_message(b))
        return "says nothing";
    for (size_t i = 0; i < b->now.n; i++) {
        const struct folder_file *f = &b->now.file[i], *will = folder_find(&b->new, f->name),
                                 *was = folder_find(&b->old, f->name);
        if (strcmp(f->name, input) == 0)
            continue;
        if (!was && !will)
            return "leaves a file";
        if (will && folder_same_file(f, will, true))
            continue;
        if (b->t.code == b->done || !was || !folder_same_file(f, was, true))
            return "leaves a file made of what was and what came";
    }
    read_output(b->out, b->printed);
    if (b->t.code == b->done && strcmp(b->printed, b->expect) != 0)
        return "prints something else and says that all is done";
    return NULL;
}

static void each_meddling(struct bench *b)
{
    static const char *const ways[] = {"cut", "emptied", "grown", "changed", "replaced"};
    struct folder_meddling m = {.how = 0};
    size_t n, first = 0;
    m.was = folder_find(&b->old, "in");
    if (!m.was || S_ISDIR(m.was->st.st_mode))
        return;
    struct trace_call *calls = list_calls(b, &n);
    while (first < n && calls[first].nr != SYS_pread64) /* it is open by then */
        first++;
    snprintf(m.path, sizeof m.path, "%s/in", b->dir);
    b->complaints = 0;
    b->t.meddle = folder_meddle;
    b->t.user = &m;
    for (size_t i = first; i < n; i++) {
        if (!errors_looks(&calls[i]))
            continue;
        for (m.how = 0; m.how < MEDDLE_WAYS; m.how++) {
            b->t.what = TRACE_MEDDLE;
            b->t.at = i;
            run(b);
            const char *wrong = after_meddling(b, "in");
            count(3);
            if (wrong)
                complain(b, "input %s before call %zu (number %lu) of %zu: exit %d, %s", ways[m.how], i,
                         calls[i].nr, n, b->t.code, wrong);
        }
    }
    free(calls);
}

/* each_allocation - CKPT is the one of oom.c. Each allocation fails alone, then with all after it. */
static void each_allocation(struct bench *b)
{
    char number[16];
    int fd = memfd_create("oom", 0);
    struct oom *o = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *o) == 0)
        o = mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(number, sizeof number, "%d", fd);
    if (o == MAP_FAILED || setenv(OOM_VARIABLE, number, 1) != 0)
        die("memory");
    b->complaints = 0;
    for (o->lasting = 0; o->lasting < 2; o->lasting++) {
        for (o->at = first_allocation; o->at == first_allocation || atomic_load(&o->count) >= o->at - step;
             o->at += step) {
            atomic_store(&o->count, 0);
            folder_put(&b->old, b->dir);
            rewind_output(b);
            b->t.code = trace_not(b->dir, b->out, b->err, b->argv);
            b->t.signal = b->t.code < 0;
            const char *wrong = judge(b, false);
            count(4);
            read_output(b->err, b->printed);
            if (!wrong && b->t.code == 2 && *b->printed && !strstr(b->printed, "memory") &&
                !strstr(b->printed, "allocate"))
                wrong = "gives another reason";
            if (wrong)
                complain(b, "allocation %ld%s: exit %d, %s; %.600s", o->at,
                         o->lasting ? " and all after it" : "", b->t.code, wrong, b->printed);
        }
    }
    unsetenv(OOM_VARIABLE);
    munmap(o, sizeof *o);
    close(fd);
}

/* --------------------------------------------------------------------- main */

static const struct {
    int bit, skip; /* SKIP: flags of those for which it tells nothing new */
    void (*each)(struct bench *b);
} kind[] = {{KILL, TALKS | READS, each_kill},
            {ERROR, TALKS, each_error},
            {FULL, TALKS, each_full},
            {MEDDLE, TALKS | NAMED | IN_PLACE, each_meddling},
            {MEMORY, NAMED, each_allocation}};
#define NKINDS (sizeof kind / sizeof *kind)

static void work(void)
{
    static struct bench b;
    for (size_t i; (i = atomic_fetch_add(&shared->next, 1)) < NJOBS;) {
        if (i % each != 0)
            continue;
        if (bench_make(&b, &jobs[i]))
            for (size_t k = 0; k < NKINDS; k++)
                if ((kinds & kind[k].bit) && !(jobs[i].flags & kind[k].skip))
                    kind[k].each(&b);
        bench_free(&b);
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
            step = strtol(optarg, NULL, 10);
        else if (opt == 'e' && strtol(optarg, NULL, 10) > 0)
            each = (size_t)strtol(optarg, NULL, 10);
        else
            return 2;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: faults [-j N] [-k KINDS] [-e EACH] CKPT SEED\n");
        return 2;
    }
    if (!trace_can()) {
        puts("faults skipped: this machine lets nobody trace, or is no x86-64");
        puts("faults: 0 passed, 0 failed, 1 skipped");
        return 0;
    }
    ckpt = realpath(argv[optind], NULL);
    seed = realpath(argv[optind + 1], NULL);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!ckpt || !seed || shared == MAP_FAILED || setenv("CKPT", ckpt, 1) != 0 ||
        setenv("SEED", seed, 1) != 0)
        die(argv[optind]);
    umask(022);
    for (int w = 0; w < workers; w++)
        if (fork() == 0)
            work();
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            atomic_fetch_add(&shared->failed, 1);
    size_t njobs = (NJOBS + each - 1) / each;
    long all = 0;
    for (int k = 0; k < 5; k++)
        all += atomic_load(&shared->cases[k]);
    if (kinds & MEMORY)
        printf("%zu commands: %ld allocations failed\n", njobs, atomic_load(&shared->cases[4]));
    else
        printf("%zu commands: %ld killed, %ld calls failed, %ld with a full disk, %ld inputs changed\n",
               njobs, atomic_load(&shared->cases[0]), atomic_load(&shared->cases[1]),
               atomic_load(&shared->cases[2]), atomic_load(&shared->cases[3]));
    printf("faults: %ld passed, %ld failed\n", all - atomic_load(&shared->failed),
           atomic_load(&shared->failed));
    return atomic_load(&shared->failed) != 0;
}
