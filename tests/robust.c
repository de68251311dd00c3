/*
 * robust.c - opens damaged files. Each must be refused, or read with no more differences from the original
 * than outcome.h permits. No run may crash, hang, leak memory or read out of bounds.
 *
 *   robust [-j N] [-f FLIPS] DIR…    opens each file of at most 4 KiB (-m BYTES: another limit) truncated
 *                                    to every length, and with every byte changed in FLIPS (default: 1) of
 *                                    four ways: ^01, ^80, 00, ff. A file refused for a CRC is opened again
 *                                    with its CRCs corrected
 *   robust [-j N] -x DIR…            opens each of these files with extreme numbers: binary ones of 2, 4
 *                                    and 8 bytes at every offset, decimal ones in place of every decimal
 *                                    number
 *   robust [-j N] --replay DIR…      opens each file and folder undamaged
 * -j N: runs N workers at a time (default: one for each processor).
 * -e N: tests only every N-th file; -e -N: only the others.
 * -l: limits the address space to 64 MiB (not under ASan), the stack to 256 KiB, the descriptors to 8.
 *
 * Build it with ASan and UBSan. Each worker is a child process; if it dies, its case is reported and a new
 * worker continues with the next file.
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
#include <time.h>
#include <unistd.h>

#include "exercise.h"
#include "outcome.h"
#include "sanitized.h"
#include "zipcrc.h"

#ifdef SANITIZED
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t heap_in_use(void) { return __sanitizer_get_current_allocated_bytes(); }
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "hard_rss_limit_mb=1024:max_allocation_size_mb=512:allocator_may_return_null=1:detect_leaks=0:"
           "quarantine_size_mb=4:max_malloc_fill_size=0";
}
#else
/* Only ASan's count is used, because what glibc counts as in use includes its caches. */
static size_t heap_in_use(void) { return 0; }
#endif

#define CASE_SECONDS 20
#define WORKERS_MAX  64

struct test_case {
    _Atomic long file; /* index in `paths`, or -1 */
    const char *what;
    size_t offset;  /* of the damage */
    unsigned value; /* of a changed byte; for an extreme number its width or its index */
    bool truncated; /* the file ends at `offset`; else bytes are changed there */
    size_t width;   /* how many bytes are changed */
};

struct shared {
    _Atomic long next_path; /* index in `paths` */
    _Atomic long cases, opened, files;
    _Atomic long with_values; /* refusals that give the value found and the values allowed */
    _Atomic long outcomes[3]; /* how many damaged files could be opened, by enum outcome */
    struct test_case worker[WORKERS_MAX];
};

/* The undamaged file. `file` is NULL if even this is refused, or with --replay. */
static struct {
    ckpt_file *file;
    ckpt_file *located; /* opened again, for ckpt_file_locate(), which adds the offsets of zip members */
    unsigned char *data;
    bool *structure; /* for each byte, see outcome_structure() */
} original;

static struct shared *shared;
static char **paths;
static size_t npaths, cap_paths;
static bool replay;
static int changes_per_byte = 1; /* -f */
static off_t file_size_max = 4096;
static long file_step = 1;                /* -e */
static bool use_extremes, use_low_limits; /* -x, -l */

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

static void collect_files(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        die(path);
    if (!S_ISDIR(st.st_mode)) {
        if (S_ISREG(st.st_mode) && (replay || st.st_size <= file_size_max))
            add_path(path);
        return;
    }
    if (replay)
        add_path(path);
    DIR *dir = opendir(path);
    if (!dir)
        die(path);
    for (struct dirent *e; (e = readdir(dir));) {
        char entry_path[2048];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(entry_path, sizeof entry_path, "%s/%s", path, e->d_name);
        collect_files(entry_path);
    }
    closedir(dir);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static unsigned char *read_file(const char *path, size_t *size)
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

static void set_alarm(int seconds)
{
    struct itimerval t = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_REAL, &t, NULL);
}

/* is_in_structure - returns whether a byte that TEST changed belongs to the structure of the file
 * (outcome.h). */
static bool is_in_structure(const struct test_case *test)
{
    for (size_t i = 0; i < test->width; i++)
        if (original.structure[test->offset + i])
            return true;
    return false;
}

/* has_ignored_notice - returns whether FILE has more notices than UNDAMAGED, and the last one is that bytes
 * are ignored. */
static bool has_ignored_notice(const ckpt_file *undamaged, const ckpt_file *file)
{
    const char *last = NULL;
    size_t n = 0;
    for (const char *notice; (notice = ckpt_notice_at(file, n)); n++)
        last = notice;
    return last && !ckpt_notice_at(undamaged, n - 1) && strstr(last, "ignored");
}

/* is_protobuf - returns whether the file is one protobuf message, which may end after any of its fields. */
static bool is_protobuf(void)
{
    const char *format = ckpt_file_format(original.file);
    return strcmp(format, "onnx") == 0 || strcmp(format, "mindspore") == 0;
}

/* check_outcome - aborts if FILE, which is damaged but could be opened, differs from UNDAMAGED by more than
 * outcome.h permits. */
static enum outcome check_outcome(const ckpt_file *undamaged, const ckpt_file *file,
                                  const struct test_case *test)
{
    char differences[600], line[700];
    enum outcome outcome = outcome_compare(undamaged, file);
    bool permitted = outcome == OUTCOME_SAME;
    if (!permitted && test->truncated)
        permitted = is_protobuf();
    else if (!permitted)
        permitted = outcome == OUTCOME_ONE_CHANGE || is_in_structure(test) ||
                    has_ignored_notice(undamaged, file);
    if (permitted)
        return outcome;
    outcome_describe(undamaged, file, differences, sizeof differences);
    snprintf(line, sizeof line, "%s: %s",
             test->truncated ? "a truncated file was read, with differences"
                             : "more differences than permitted",
             differences);
    exercise_abort(line);
    return outcome;
}

static void check_opened(ckpt_file *file, const struct test_case *test)
{
    ckpt_error err = {0};
    enum outcome outcome = original.file ? check_outcome(original.file, file, test) : OUTCOME_SAME;
    exercise_file(file);
    ckpt_status status = ckpt_file_locate(file, &err);
    if (status != CKPT_OK)
        exercise_check_error(status, &err);
    else if (original.located && outcome == OUTCOME_SAME)
        outcome = check_outcome(original.located, file, test);
    if (original.file)
        atomic_fetch_add(&shared->outcomes[outcome], 1);
}

static ckpt_status open_bytes(const unsigned char *data, size_t size, const struct test_case *test)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    ckpt_status status = ckpt_open_memory(data, size, "case", NULL, &file, &err);
    if (status != CKPT_OK) {
        exercise_check_error(status, &err);
        exercise_check_refusal(&err, "case", size);
        atomic_fetch_add(&shared->with_values, err.found[0] && err.allowed[0]);
    } else {
        check_opened(file, test);
    }
    ckpt_close(file);
    return status;
}

/* run_bytes - opens a copy of the bytes in a block of exactly their size, so that ASan reports a read beyond
 * its end. If FIX_CRC, the CRCs of zip members in the copy are corrected; if none was wrong, the copy is not
 * opened. */
static ckpt_status run_bytes(const unsigned char *data, size_t size, bool fix_crc,
                             const struct test_case *test)
{
    unsigned char *copy = malloc(size ? size : 1);
    if (!copy)
        die("copy");
    memcpy(copy, data, size);
    if (fix_crc && !zipcrc_fix(copy, size)) {
        free(copy);
        return CKPT_ECHECKSUM;
    }
    set_alarm(CASE_SECONDS);
    size_t heap_before = heap_in_use();
    ckpt_status status = open_bytes(copy, size, test);
    if (heap_in_use() > heap_before)
        exercise_abort("memory is still held after ckpt_close");
    atomic_fetch_add(&shared->cases, 1);
    atomic_fetch_add(&shared->opened, status == CKPT_OK);
    free(copy);
    return status;
}

/* run_case - opens damaged bytes; if they are refused for a wrong CRC, again with corrected CRCs. WHAT,
 * OFFSET and VALUE describe the damage. */
static void run_case(struct test_case *test, const unsigned char *data, size_t size, const char *what,
                     size_t offset, unsigned value)
{
    test->what = what;
    test->offset = offset;
    test->value = value;
    if (run_bytes(data, size, false, test) == CKPT_ECHECKSUM) {
        test->what = "CRCs corrected, changed byte at";
        run_bytes(data, size, true, test);
    }
}

/* change_byte - returns BYTE changed in one of four ways. */
static unsigned change_byte(unsigned char byte, size_t way)
{
    switch (way % 4) {
    case 0: return byte ^ 0x01u;
    case 1: return byte ^ 0x80u;
    case 2: return byte ? 0x00u : 0x7fu;
    default: return byte != 0xff ? 0xffu : 0x20u;
    }
}

/* write_le - writes NUMBER as WIDTH bytes, little-endian. */
static void write_le(unsigned char *out, uint64_t number, size_t width)
{
    for (size_t i = 0; i < width; i++)
        out[i] = (unsigned char)(number >> 8 * i);
}

/* try_binary_numbers - replaces the 2, 4 and 8 bytes at OFFSET, which may be a count, length, offset or
 * dimension, by extreme numbers. */
static void try_binary_numbers(struct test_case *test, unsigned char *data, size_t size, size_t offset)
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
    unsigned char saved[8];
    for (size_t width = 2; width <= 8 && width <= size - offset; width *= 2) {
        memcpy(saved, data + offset, width);
        test->width = width;
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            write_le(data + offset, values[i], width);
            if (memcmp(saved, data + offset, width) != 0)
                run_case(test, data, size, "an extreme number at", offset, (unsigned)width);
        }
        memcpy(data + offset, saved, width);
    }
}

/* try_decimal_numbers - replaces the digits from BEGIN to END by extreme numbers. If they are in the header
 * of a safetensors file, corrects the length of the header. */
static void try_decimal_numbers(struct test_case *test, const unsigned char *data, size_t size, size_t begin,
                                size_t end)
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
    uint64_t header_length = 0; /* the first 8 bytes, as in a safetensors file */
    if (!copy)
        die("copy");
    test->width = end - begin;
    for (size_t i = 0; i < 8 && size >= 8; i++)
        header_length |= (uint64_t)data[i] << 8 * i;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t length = strlen(numbers[i]);
        memcpy(copy, data, begin);
        memcpy(copy + begin, numbers[i], length);
        memcpy(copy + begin + length, data + end, size - end);
        if (header_length && header_length <= size - 8 && end <= header_length + 8)
            write_le(copy, header_length + length - (end - begin), 8);
        run_case(test, copy, size - (end - begin) + length, "an extreme number written at", begin,
                 (unsigned)i);
    }
    free(copy);
}

/* try_numbers - tries extreme numbers at every offset, and instead of every sequence of digits. */
static void try_numbers(struct test_case *test, unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        size_t end = i;
        while (end < size && data[end] >= '0' && data[end] <= '9')
            end++;
        if (end > i && (i == 0 || data[i - 1] < '0' || data[i - 1] > '9'))
            try_decimal_numbers(test, data, size, i, end);
        try_binary_numbers(test, data, size, i);
    }
}

/* try_bytes - tries every truncation, and changes of every byte. */
static void try_bytes(struct test_case *test, unsigned char *data, size_t size)
{
    test->truncated = true;
    for (size_t length = 0; length < size; length++)
        run_case(test, data, length, "cut to", length, 0);
    test->truncated = false;
    test->width = 1;
    for (size_t i = 0; i < size; i++) {
        unsigned char original_byte = data[i];
        for (int way = 0; way < changes_per_byte; way++) {
            data[i] = (unsigned char)change_byte(original_byte, i + (size_t)way);
            run_case(test, data, size, "changed byte at", i, data[i]);
        }
        data[i] = original_byte;
    }
}

/* open_original - fills in `original` from the undamaged bytes. */
static void open_original(const unsigned char *data, size_t size)
{
    ckpt_error err;
    original.data = malloc(size + 1);
    if (!original.data)
        die("copy");
    memcpy(original.data, data, size);
    if (ckpt_open_memory(original.data, size, "original", NULL, &original.file, &err) != CKPT_OK)
        return; /* refused even undamaged */
    original.structure = outcome_structure(data, size);
    if (!original.structure ||
        ckpt_open_memory(original.data, size, "original", NULL, &original.located, &err) != CKPT_OK)
        die("original");
    /* In four formats, all bytes count as structure: joblib's pickle continues after each array; tables of a
     * FlatBuffer refer to each other by numbers; a protobuf field with an unknown number is skipped; the name
     * of a node of thinc is in the names of all its parameters. */
    const char *format = ckpt_file_format(original.file);
    if (strcmp(format, "joblib") == 0 || strcmp(format, "torchscript-flatbuffer") == 0 ||
        strcmp(format, "thinc") == 0 || is_protobuf())
        memset(original.structure, 1, size);
    if (ckpt_file_locate(original.located, &err) != CKPT_OK) { /* a local header is malformed */
        ckpt_close(original.located);
        original.located = NULL;
    }
}

static void close_original(void)
{
    ckpt_close(original.file);
    ckpt_close(original.located);
    free(original.structure);
    free(original.data);
    memset(&original, 0, sizeof original);
}

/* damage_file - opens the file, and then all damaged copies of it. */
static void damage_file(struct test_case *test, const char *path)
{
    size_t size;
    unsigned char *data = read_file(path, &size);
    exercise_memory(data, size, "warm-up"); /* what libraries allocate only once does not count as a leak */
    run_case(test, data, size, "as it is", 0, 0);
    open_original(data, size);
    if (use_extremes)
        try_numbers(test, data, size);
    else
        try_bytes(test, data, size);
    close_original();
    free(data);
}

/* open_path - opens PATH; if it is a file, also its bytes in memory. */
static void open_path(struct test_case *test, const char *path)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    struct stat st;
    test->what = "opened";
    set_alarm(CASE_SECONDS * 3);
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
        unsigned char *data = read_file(path, &size);
        run_case(test, data, size, "in memory", 0, 0);
        free(data);
    }
}

/* check_setrlimit - ends the program if STATUS, the result of setrlimit(), is an error. Its callers call
 * setrlimit(), because the type of the first argument differs between C libraries. */
static void check_setrlimit(int status)
{
    if (status != 0)
        die("limit");
}

static struct rlimit make_limit(rlim_t n) { return (struct rlimit){n, n}; }

static void run_worker(struct test_case *test)
{
    if (use_low_limits) {
        struct rlimit memory = make_limit((rlim_t)64 << 20), stack = make_limit((rlim_t)256 << 10);
        struct rlimit files = make_limit(8);
        check_setrlimit(setrlimit(RLIMIT_AS, &memory));
        check_setrlimit(setrlimit(RLIMIT_STACK, &stack));
        check_setrlimit(setrlimit(RLIMIT_NOFILE, &files));
    }
    tzset(); /* libarchive has it called: the time zone stays in memory */
    for (long i; (i = atomic_fetch_add(&shared->next_path, 1)) < (long)npaths;) {
        atomic_store(&test->file, i);
        if (replay)
            open_path(test, paths[i]);
        else
            damage_file(test, paths[i]);
        atomic_fetch_add(&shared->files, 1);
    }
    set_alarm(0);
    exit(0);
}

static pid_t start_worker(struct test_case *test)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        run_worker(test);
    return pid;
}

/* report_failure - prints the case TEST, in which a worker ended with the wait status STATUS. */
static void report_failure(const struct test_case *test, int status)
{
    printf("FAIL %s: %s", atomic_load(&test->file) < 0 ? "?" : paths[test->file],
           test->what ? test->what : "");
    if (test->offset || test->value)
        printf(" %zu", test->offset);
    if (test->value)
        printf(" to %02x", test->value);
    if (WIFSIGNALED(status))
        printf(": %s\n", WTERMSIG(status) == SIGALRM ? "does not end" : strsignal(WTERMSIG(status)));
    else
        printf(": exit %d\n", WEXITSTATUS(status));
}

/* run_workers - runs all cases in WORKERS processes, and returns how many failed. */
static long run_workers(int workers)
{
    pid_t pids[WORKERS_MAX];
    long failed = 0;
    int alive = workers, status;
    for (int w = 0; w < workers; w++)
        pids[w] = start_worker(&shared->worker[w]);
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
        report_failure(&shared->worker[w], status);
        if (failed >= 50) /* enough to report */
            atomic_store(&shared->next_path, (long)npaths);
        pids[w] = start_worker(&shared->worker[w]);
    }
    return failed;
}

/* keep_files - keeps every file_step-th of the sorted files; if file_step is negative, the others. */
static void keep_files(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < npaths; i++)
        if (((long)i % file_step == 0) == (file_step > 0))
            paths[kept++] = paths[i];
    npaths = kept;
}

static void report_outcomes(long refused, long opened)
{
    long same = atomic_load(&shared->outcomes[OUTCOME_SAME]);
    long one_change = atomic_load(&shared->outcomes[OUTCOME_ONE_CHANGE]);
    long several = atomic_load(&shared->outcomes[OUTCOME_SEVERAL]);
    printf(" (%zu files; %ld refused, %ld of them with the value found and those allowed; %ld equal, "
           "%ld with one change, %ld with several, %ld not comparable)",
           npaths, refused, atomic_load(&shared->with_values), same, one_change, several,
           opened - same - one_change - several);
}

int main(int argc, char **argv)
{
    int workers = (int)sysconf(_SC_NPROCESSORS_ONLN), arg = 1;
    for (; arg < argc && argv[arg][0] == '-'; arg++) {
        if (strcmp(argv[arg], "--replay") == 0)
            replay = true;
        else if (strcmp(argv[arg], "-l") == 0)
            use_low_limits = true;
        else if (strcmp(argv[arg], "-x") == 0)
            use_extremes = true;
        else if (strcmp(argv[arg], "-m") == 0 && arg + 1 < argc)
            file_size_max = (off_t)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-j") == 0 && arg + 1 < argc)
            workers = (int)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-f") == 0 && arg + 1 < argc)
            changes_per_byte = (int)strtol(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "-e") == 0 && arg + 1 < argc)
            file_step = strtol(argv[++arg], NULL, 10);
    }
    if (arg == argc || workers < 1 || !file_step) {
        fprintf(stderr, "usage: robust [-j N] [-e N] [-f FLIPS] [-l] [-m BYTES] [-x] [--replay] DIR...\n");
        return 2;
    }
    for (int i = arg; i < argc; i++)
        collect_files(argv[i]);
    qsort(paths, npaths, sizeof *paths, compare_paths);
    keep_files();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    for (int w = 0; w < WORKERS_MAX; w++)
        atomic_store(&shared->worker[w].file, -1);
    long failed = run_workers(workers > WORKERS_MAX ? WORKERS_MAX : workers);
    long cases = atomic_load(&shared->cases);
    printf("%s: %ld passed, %ld failed", replay ? "replay" : "robust", cases, failed);
    if (!replay)
        report_outcomes(cases - atomic_load(&shared->opened), atomic_load(&shared->opened));
    putchar('\n');
    return failed != 0 || npaths == 0;
}
