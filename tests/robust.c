/*
 * robust.c - damaged files must be refused or read as they were, but for what the damage says (outcome.h);
 * never crash, hang, leak or read too far.
 *
 *   robust [-j N] [-f FLIPS] DIR…    every file of at most 4 KiB (-m BYTES): cut at every length, and every
 *                                    byte changed (x^01, x^80, 00, ff in turn; FLIPS of them for each
 *                                    byte); where only a CRC stopped the damage, again with it put right
 *   robust [-j N] -x DIR…            instead of that, at every offset a number extreme in 2, 4 and 8
 *                                    bytes, and in the place of every number that is written in digits
 *   robust [-j N] --replay DIR…      every file and folder once, as it is
 * -e EACH: of the files, each EACH-th.
 * -l: in 64 MiB of addresses (not under ASan), 256 KiB of stack, with 8 descriptors.
 *
 * Build it with ASan and UBSan. Each worker is a child process: one that dies names its case, and another
 * goes on with the next file.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exercise.h"
#include "outcome.h"
#include "zipcrc.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif

#ifdef ASAN
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t heap_in_use(void) { return __sanitizer_get_current_allocated_bytes(); }
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "hard_rss_limit_mb=1024:max_allocation_size_mb=512:allocator_may_return_null=1:detect_leaks=0:"
           "quarantine_size_mb=4:max_malloc_fill_size=0";
}
#else
/* What glibc counts as in use includes what it keeps for later, so only ASan's count is used. */
static size_t heap_in_use(void) { return 0; }
#endif

#define CASE_SECONDS 20
#define WORKERS_MAX  64

struct current {
    _Atomic long file; /* index, or -1 */
    const char *what;
    size_t pos;
    unsigned byte;
    bool cut;
    size_t width; /* of what was changed */
};

struct shared {
    _Atomic long next;
    _Atomic long cases, opened, files;
    _Atomic long valued;      /* refusals that name the value found and what is allowed there */
    _Atomic long outcomes[3]; /* of those opened, how the file compares with itself before */
    struct current worker[WORKERS_MAX];
};

/* The file that is damaged, as it was; NULL: it is refused as it is, or not damaged at all. */
static struct {
    ckpt_file *file, *located; /* without and with the places of what lies in members of an archive */
    unsigned char *data;
    bool *senses;
} whole;

static struct shared *shared;
static char **paths;
static size_t npaths, cap_paths;
static bool replay;
static int flips = 1;
static off_t small = 4096;
static long each = 1; /* file is taken */
static bool extremes, little;

static void die(const char *what)
{
    fprintf(stderr, "robust: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void add_path(const char *path)
{
    if (npaths == cap_paths) {
        cap_paths = cap_paths ? cap_paths * 2 : 1024;
        paths = realloc(paths, cap_paths * sizeof *paths);
        if (!paths)
            die("paths");
    }
    paths[npaths++] = strdup(path);
}

static void collect(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        die(path);
    if (!S_ISDIR(st.st_mode)) {
        if (S_ISREG(st.st_mode) && (replay || st.st_size <= small))
            add_path(path);
        return;
    }
    if (replay)
        add_path(path);
    DIR *dir = opendir(path);
    if (!dir)
        die(path);
    for (struct dirent *e; (e = readdir(dir));) {
        char below[2048];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        collect(below);
    }
    closedir(dir);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static unsigned char *load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0)
        die(path);
    *size = (size_t)st.st_size;
    unsigned char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, f) != *size)
        die(path);
    fclose(f);
    return data;
}

static void alarm_in(int seconds)
{
    struct itimerval t = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_REAL, &t, NULL);
}

/* says_much - may what was changed make more than one fact another? */
static bool says_much(const struct current *cur)
{
    for (size_t i = 0; i < cur->width; i++)
        if (whole.senses[cur->pos + i])
            return true;
    return false;
}

/* is_said - does a notice of FILE that WAS does not have say that bytes of it are ignored? */
static bool is_said(const ckpt_file *was, const ckpt_file *file)
{
    const char *last = NULL;
    size_t n = 0;
    for (const char *notice; (notice = ckpt_notice_at(file, n)); n++)
        last = notice;
    return last && !ckpt_notice_at(was, n - 1) && strstr(last, "ignored");
}

/* is_message - is the file one message of protobuf, which may end after any of its fields? */
static bool is_message(void) { return strcmp(ckpt_file_format(whole.file), "onnx") == 0; }

/* compare - a damaged file that was opened: in what may it differ from the file that it was? */
static enum outcome compare(const ckpt_file *was, const ckpt_file *file, const struct current *cur)
{
    char how[600], line[700];
    enum outcome is = outcome_of(was, file);
    if (is == OUTCOME_SAME || (cur->cut && is_message()) ||
        (!cur->cut && (is == OUTCOME_FACT || says_much(cur) || is_said(was, file))))
        return is;
    outcome_explain(was, file, how, sizeof how);
    snprintf(line, sizeof line, "%s: %s", cur->cut ? "cut, but another table" : "too much is changed", how);
    exercise_abort(line);
    return is;
}

static void opened(ckpt_file *file, const struct current *cur)
{
    ckpt_error err = {0};
    enum outcome is = whole.file ? compare(whole.file, file, cur) : OUTCOME_SAME;
    exercise_file(file);
    ckpt_status status = ckpt_file_locate(file, &err);
    if (status != CKPT_OK)
        exercise_check_error(status, &err);
    else if (whole.located && is == OUTCOME_SAME)
        is = compare(whole.located, file, cur);
    if (whole.file)
        atomic_fetch_add(&shared->outcomes[is], 1);
}

static ckpt_status open_bytes(const unsigned char *data, size_t size, const struct current *cur)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    ckpt_status status = ckpt_open_memory(data, size, "case", NULL, &file, &err);
    if (status != CKPT_OK) {
        exercise_check_error(status, &err);
        exercise_check_refusal(&err, "case", size);
        atomic_fetch_add(&shared->valued, err.found[0] && err.allowed[0]);
    } else {
        opened(file, cur);
    }
    ckpt_close(file);
    return status;
}

/* The bytes lie in a block of their own size, so that one read too far is seen. */
static ckpt_status run_bytes(const unsigned char *data, size_t size, bool fix_crc, const struct current *cur)
{
    unsigned char *copy = malloc(size ? size : 1);
    if (!copy)
        die("copy");
    memcpy(copy, data, size);
    if (fix_crc && !zipcrc_fix(copy, size)) {
        free(copy);
        return CKPT_ECHECKSUM;
    }
    alarm_in(CASE_SECONDS);
    size_t before = heap_in_use();
    ckpt_status status = open_bytes(copy, size, cur);
    if (heap_in_use() > before)
        exercise_abort("memory is still held after ckpt_close");
    atomic_fetch_add(&shared->cases, 1);
    atomic_fetch_add(&shared->opened, status == CKPT_OK);
    free(copy);
    return status;
}

static void run_case(struct current *cur, const unsigned char *data, size_t size, const char *what,
                     size_t pos, unsigned byte)
{
    cur->what = what;
    cur->pos = pos;
    cur->byte = byte;
    if (run_bytes(data, size, false, cur) == CKPT_ECHECKSUM) {
        cur->what = "CRCs put right, changed byte at";
        run_bytes(data, size, true, cur);
    }
}

static unsigned flipped(unsigned char byte, size_t turn)
{
    switch (turn % 4) {
    case 0: return byte ^ 0x01u;
    case 1: return byte ^ 0x80u;
    case 2: return byte ? 0x00u : 0x7fu;
    default: return byte != 0xff ? 0xffu : 0x20u;
    }
}

static void put_le(unsigned char *at, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

/* binary_extremes - the bytes at AT may be a count, a length, an offset or a dimension. */
static void binary_extremes(struct current *cur, unsigned char *data, size_t size, size_t at)
{
    const uint64_t values[] = {0,
                               1,
                               0x7f,
                               0x80,
                               0x7fff,
                               0x8000,
                               0x7ffffffe,
                               0x7fffffff,
                               0x80000000,
                               0xfffffffe,
                               UINT32_MAX,
                               (uint64_t)1 << 32,
                               INT64_MAX,
                               (uint64_t)1 << 63,
                               UINT64_MAX - 1,
                               UINT64_MAX,
                               size + 1};
    unsigned char was[8];
    for (size_t width = 2; width <= 8 && width <= size - at; width *= 2) {
        memcpy(was, data + at, width);
        cur->width = width;
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            put_le(data + at, values[v], width);
            if (memcmp(was, data + at, width) != 0)
                run_case(cur, data, size, "an extreme number at", at, (unsigned)width);
        }
        memcpy(data + at, was, width);
    }
}

/* text_extremes - the digits from AT to END as other numbers; a safetensors header says its new length. */
static void text_extremes(struct current *cur, const unsigned char *data, size_t size, size_t at, size_t end)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "255",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "99999999999999999999999999",
                                          "1e3",
                                          "0.5",
                                          "01"};
    unsigned char *copy = malloc(size + 32);
    uint64_t header = 0;
    if (!copy)
        die("copy");
    cur->width = end - at;
    for (size_t i = 0; i < 8 && size >= 8; i++)
        header |= (uint64_t)data[i] << 8 * i;
    for (size_t v = 0; v < sizeof numbers / sizeof *numbers; v++) {
        size_t n = strlen(numbers[v]);
        memcpy(copy, data, at);
        memcpy(copy + at, numbers[v], n);
        memcpy(copy + at + n, data + end, size - end);
        if (header && header <= size - 8 && end <= header + 8)
            put_le(copy, header + n - (end - at), 8);
        run_case(cur, copy, size - (end - at) + n, "an extreme number written at", at, (unsigned)v);
    }
    free(copy);
}

static void damage_numbers(struct current *cur, unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        size_t end = i;
        while (end < size && data[end] >= '0' && data[end] <= '9')
            end++;
        if (end > i && (i == 0 || data[i - 1] < '0' || data[i - 1] > '9'))
            text_extremes(cur, data, size, i, end);
        binary_extremes(cur, data, size, i);
    }
}

static void damage_bytes(struct current *cur, unsigned char *data, size_t size)
{
    cur->cut = true;
    for (size_t n = 0; n < size; n++)
        run_case(cur, data, n, "cut to", n, 0);
    cur->cut = false;
    cur->width = 1;
    for (size_t i = 0; i < size; i++) {
        unsigned char was = data[i];
        for (int f = 0; f < flips; f++) {
            data[i] = (unsigned char)flipped(was, i + (size_t)f);
            run_case(cur, data, size, "changed byte at", i, data[i]);
        }
        data[i] = was;
    }
}

static void keep_whole(const unsigned char *data, size_t size)
{
    ckpt_error err;
    whole.data = malloc(size + 1);
    if (!whole.data)
        die("copy");
    memcpy(whole.data, data, size);
    if (ckpt_open_memory(whole.data, size, "whole", NULL, &whole.file, &err) != CKPT_OK)
        return; /* damaged as it is */
    whole.senses = outcome_senses(data, size);
    if (!whole.senses || ckpt_open_memory(whole.data, size, "whole", NULL, &whole.located, &err) != CKPT_OK)
        die("whole file");
    /* A pickle of joblib goes on after each array; tables of a FlatBuffer refer to each other by numbers; a
     * field of protobuf with another number is one that is skipped. */
    const char *format = ckpt_file_format(whole.file);
    if (strcmp(format, "joblib") == 0 || strcmp(format, "torchscript-flatbuffer") == 0 || is_message())
        memset(whole.senses, 1, size);
    if (ckpt_file_locate(whole.located, &err) != CKPT_OK) { /* it is damaged where a header is */
        ckpt_close(whole.located);
        whole.located = NULL;
    }
}

static void forget_whole(void)
{
    ckpt_close(whole.file);
    ckpt_close(whole.located);
    free(whole.senses);
    free(whole.data);
    memset(&whole, 0, sizeof whole);
}

static void damage(struct current *cur, const char *path)
{
    size_t size;
    unsigned char *data = load(path, &size);
    exercise_memory(data, size, "warm-up"); /* what libraries allocate once is no leak */
    run_case(cur, data, size, "as it is", 0, 0);
    keep_whole(data, size);
    if (extremes)
        damage_numbers(cur, data, size);
    else
        damage_bytes(cur, data, size);
    forget_whole();
    free(data);
}

static void open_path(struct current *cur, const char *path)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    struct stat st;
    cur->what = "opened";
    alarm_in(CASE_SECONDS * 3);
    ckpt_status status = ckpt_open(path, NULL, &file, &err);
    if (status == CKPT_OK) {
        exercise_file(file);
        atomic_fetch_add(&shared->opened, 1);
    } else {
        exercise_check_error(status, &err);
    }
    ckpt_close(file);
    atomic_fetch_add(&shared->cases, 1);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        size_t size;
        unsigned char *data = load(path, &size);
        run_case(cur, data, size, "in memory", 0, 0);
        free(data);
    }
}

/* must(setrlimit(…)): the type of its first argument differs between C libraries. */
static void must(int status)
{
    if (status != 0)
        die("limit");
}

static struct rlimit at_most(rlim_t n) { return (struct rlimit){n, n}; }

static void work(struct current *cur)
{
    if (little) {
        struct rlimit memory = at_most((rlim_t)64 << 20), stack = at_most((rlim_t)256 << 10);
        struct rlimit files = at_most(8);
        must(setrlimit(RLIMIT_AS, &memory));
        must(setrlimit(RLIMIT_STACK, &stack));
        must(setrlimit(RLIMIT_NOFILE, &files));
    }
    for (long i; (i = atomic_fetch_add(&shared->next, 1)) < (long)npaths;) {
        atomic_store(&cur->file, i);
        if (replay)
            open_path(cur, paths[i]);
        else
            damage(cur, paths[i]);
        atomic_fetch_add(&shared->files, 1);
    }
    alarm_in(0);
    exit(0);
}

static pid_t start(struct current *cur)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        work(cur);
    return pid;
}

static void report(const struct current *cur, int status)
{
    printf("FAIL %s: %s", atomic_load(&cur->file) < 0 ? "?" : paths[cur->file], cur->what ? cur->what : "");
    if (cur->pos || cur->byte)
        printf(" %zu", cur->pos);
    if (cur->byte)
        printf(" to %02x", cur->byte);
    if (WIFSIGNALED(status))
        printf(": %s\n", WTERMSIG(status) == SIGALRM ? "does not end" : strsignal(WTERMSIG(status)));
    else
        printf(": exit %d\n", WEXITSTATUS(status));
}

static long supervise(int workers)
{
    pid_t pids[WORKERS_MAX];
    long failed = 0;
    int alive = workers, status;
    for (int w = 0; w < workers; w++)
        pids[w] = start(&shared->worker[w]);
    while (alive) {
        pid_t pid = wait(&status);
        int w = 0;
        while (w < workers && pids[w] != pid)
            w++;
        if (w == workers)
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            alive--;
            continue;
        }
        failed++;
        report(&shared->worker[w], status);
        if (failed >= 50) { /* enough to read */
            atomic_store(&shared->next, (long)npaths);
        }
        pids[w] = start(&shared->worker[w]);
    }
    return failed;
}

/* keep_each - of the sorted files each EACH-th. */
static void keep_each(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < npaths; i += (size_t)each)
        paths[kept++] = paths[i];
    npaths = kept;
}

static void report_outcomes(long refused, long opened)
{
    long same = atomic_load(&shared->outcomes[OUTCOME_SAME]);
    long fact = atomic_load(&shared->outcomes[OUTCOME_FACT]);
    long sense = atomic_load(&shared->outcomes[OUTCOME_SENSE]);
    printf(" (%zu files; %ld refused, %ld of them naming the value found and what is allowed; %ld same, "
           "%ld with one fact changed, %ld more, %ld not comparable)",
           npaths, refused, atomic_load(&shared->valued), same, fact, sense, opened - same - fact - sense);
}

int main(int argc, char **argv)
{
    int workers = (int)sysconf(_SC_NPROCESSORS_ONLN), arg = 1;
    for (; arg < argc && argv[arg][0] == '-'; arg++) {
        if (strcmp(argv[arg], "--replay") == 0)
            replay = true;
        else if (strcmp(argv[arg], "-l") == 0)
            little = true;
        else if (strcmp(argv[arg], "-x") == 0)
            extremes = true;
        else if (strcmp(argv[arg], "-m") == 0 && arg + 1 < argc)
            small = (off_t)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-j") == 0 && arg + 1 < argc)
            workers = (int)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-f") == 0 && arg + 1 < argc)
            flips = (int)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-e") == 0 && arg + 1 < argc)
            each = strtol(argv[++arg], NULL, 10);
    }
    if (arg == argc || workers < 1 || each < 1) {
        fprintf(stderr, "usage: robust [-j N] [-f FLIPS] [-e EACH] [--replay] DIR...\n");
        return 2;
    }
    for (int i = arg; i < argc; i++)
        collect(argv[i]);
    qsort(paths, npaths, sizeof *paths, by_name);
    keep_each();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    for (int w = 0; w < WORKERS_MAX; w++)
        atomic_store(&shared->worker[w].file, -1);
    long failed = supervise(workers > WORKERS_MAX ? WORKERS_MAX : workers);
    long cases = atomic_load(&shared->cases);
    printf("%s: %ld passed, %ld failed", replay ? "replay" : "robust", cases, failed);
    if (!replay)
        report_outcomes(cases - atomic_load(&shared->opened), atomic_load(&shared->opened));
    putchar('\n');
    return failed != 0 || npaths == 0;
}
