/*
 * in_turn.c - linked with the fuzz targets of parts.c: reads each input in memory again and again, and each
 * time one call fails, the first, the second and so on: an allocation of any library, of an arena, buffer or
 * map, a read of a source, a write to a sink; and a scan is stopped at each record that it reports. The
 * reader must then return an error with a reason or a result: no crash, no hang, and under ASan no leak.
 *
 *   FUZZ_TARGET=NAME in_turn [-m BYTES] FILE|PACK…  inputs of at most BYTES (20000)
 *   in_turn -e [-m BYTES] FILE|PACK…                by ckpt.h: the calls of exercise.h
 *   in_turn -s FILE|FOLDER…                         written and read as sets of shards: see sets.c
 * -w: a call fails only if no call with the same stack of callers has failed before.
 */
#include <execinfo.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../exercise.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "io/sink.h"
#include "io/source.h"
#include "oom.h"
#include "scan/scan.h"
#include "sets.h"

#define CASE_SECONDS 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Shared with the parent, which reports crashes. [0] counts the calls of this run; [1] counts the runs so
 * far, and its `at` is the number of the call that failed last. */
static struct oom *shared;
static size_t input_max = 20000;
static bool by_api, sets;

#define STACKS_MAX (1u << 21)           /* at most a quarter is used */
static _Atomic uint64_t *failed_stacks; /* hashes of the stacks of calls that failed; NULL: without -w */
static _Thread_local bool hashing;
static _Atomic bool failed;

void *__real_arena_alloc(arena *a, size_t n);
void *__real_arena_array(arena *a, uint64_t count, size_t size);
void *__real_arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size);
ckpt_str __real_arena_str(arena *a, ckpt_str s);
ckpt_status __real_source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
ckpt_status __real_sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err);
ckpt_status __real_sink_skip(sink *s, uint64_t n, ckpt_error *err);
ckpt_status __real_sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
bool __real_map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old);
bool __real_map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old);
bool __real_map_set_num(map *m, uint64_t key, uint32_t value);
bool __real_buf_ok(const buf *b);
ckpt_status __real_scan_source(const char *path, source *src, struct scan *s, ckpt_error *err);
void *__wrap_arena_alloc(arena *a, size_t n);
void *__wrap_arena_array(arena *a, uint64_t count, size_t size);
void *__wrap_arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size);
ckpt_str __wrap_arena_str(arena *a, ckpt_str s);
ckpt_str __wrap_arena_printf(arena *a, const char *fmt, ...);
ckpt_status __wrap_source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err);
ckpt_status __wrap_sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err);
ckpt_status __wrap_sink_skip(sink *s, uint64_t n, ckpt_error *err);
ckpt_status __wrap_sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err);
bool __wrap_map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old);
bool __wrap_map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old);
bool __wrap_map_set_num(map *m, uint64_t key, uint32_t value);
bool __wrap_buf_ok(const buf *b);
ckpt_status __wrap_scan_source(const char *path, source *src, struct scan *s, ckpt_error *err);

void *__wrap_arena_alloc(arena *a, size_t n) { return oom_should_fail() ? NULL : __real_arena_alloc(a, n); }

void *__wrap_arena_array(arena *a, uint64_t count, size_t size)
{
    return oom_should_fail() ? NULL : __real_arena_array(a, count, size);
}

void *__wrap_arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size)
{
    return oom_should_fail() ? NULL : __real_arena_grow(a, old, used, cap, want, size);
}

ckpt_str __wrap_arena_str(arena *a, ckpt_str s)
{
    return oom_should_fail() ? (ckpt_str){0} : __real_arena_str(a, s);
}

ckpt_str __wrap_arena_printf(arena *a, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        abort();
    return __wrap_arena_str(a, (ckpt_str){text, (size_t)n});
}

/* With -s this does not fail, because a file remembers that it could not be read; fd_pread() in sets.c fails
 * instead. */
ckpt_status __wrap_source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    return !sets && oom_should_fail()
               ? fail(err, CKPT_EIO, source_pos(s, off), "a read that fails on request")
               : __real_source_read(s, off, out, n, err);
}

static ckpt_status fail_write(ckpt_error *err)
{
    return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "a write that fails on request");
}

ckpt_status __wrap_sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    return oom_should_fail() ? fail_write(err) : __real_sink_write(s, bytes, n, err);
}

ckpt_status __wrap_sink_skip(sink *s, uint64_t n, ckpt_error *err)
{
    return oom_should_fail() ? fail_write(err) : __real_sink_skip(s, n, err);
}

ckpt_status __wrap_sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    return oom_should_fail() ? fail_write(err) : __real_sink_patch(s, off, bytes, n, err);
}

bool __wrap_map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old)
{
    return !oom_should_fail() && __real_map_put(m, key, value, old);
}

bool __wrap_map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old)
{
    return !oom_should_fail() && __real_map_put_num(m, key, value, old);
}

bool __wrap_map_set_num(map *m, uint64_t key, uint32_t value)
{
    return !oom_should_fail() && __real_map_set_num(m, key, value);
}

/* A buffer that failed stays failed. */
bool __wrap_buf_ok(const buf *b)
{
    if (oom_should_fail())
        ((buf *)(uintptr_t)b)->failed = ((buf *)(uintptr_t)b)->no_memory = true;
    return __real_buf_ok(b);
}

static int stop_at_record(void *user, const ckpt_scan_record *r)
{
    (void)user;
    (void)r;
    return oom_should_fail();
}

/* The caller may end a scan at any record, which counts as a failing call here. */
ckpt_status __wrap_scan_source(const char *path, source *src, struct scan *s, ckpt_error *err)
{
    s->report = stop_at_record;
    return __real_scan_source(path, src, s, err);
}

/* hash_callers - returns a hash of the stack of callers. */
static uint64_t hash_callers(void)
{
    void *at[64];
    uint64_t h = 1469598103934665603u;
    int n = backtrace(at, (int)(sizeof at / sizeof *at));
    for (int i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)at[i]) * 1099511628211u, h ^= h >> 29;
    return h | 1;
}

/* is_new_stack - returns whether no call with this stack of callers has failed yet, and records the stack. At
 * most one call of each run gets true. */
static bool is_new_stack(void)
{
    if (hashing || atomic_load(&failed))
        return false;
    hashing = true;
    uint64_t h = hash_callers();
    hashing = false;
    for (size_t i = h % STACKS_MAX, tries = 0; tries < STACKS_MAX / 4; i = (i + 1) % STACKS_MAX, tries++) {
        uint64_t was = 0;
        if (atomic_compare_exchange_strong(&failed_stacks[i], &was, h))
            return !atomic_exchange(&failed, true);
        if (was == h)
            return false;
    }
    return false;
}

static void run_once(const uint8_t *data, size_t size, long at)
{
    alarm(CASE_SECONDS);
    if (sets) {
        oom_set(NULL, NULL);
        sets_restore();
        oom_set(shared, failed_stacks ? is_new_stack : NULL);
    }
    atomic_store(&shared->count, 0);
    atomic_store(&failed, false);
    atomic_fetch_add(&shared[1].count, 1);
    shared->at = at;
    if (sets)
        sets_run();
    else if (by_api)
        (void)exercise_memory(data, size, "in turn");
    else
        (void)LLVMFuzzerTestOneInput(data, size);
    if (failed_stacks)
        shared[1].at = atomic_load(&failed) ? shared->at : LONG_MAX;
    if (sets) {
        oom_set(NULL, NULL);
        sets_check();
    }
    shared->at = 0;
}

/* run_input - runs the input with each call failing, from the one after shared[1].at on, where a previous
 * process may have ended; then ends this process. */
static void run_input(const uint8_t *data, size_t size)
{
    long *next = &shared[1].at;
    uint8_t *copy = malloc(size ? size : 1); /* so that ASan sees a read beyond the end */
    if (!copy)
        exit(2);
    if (size)
        memcpy(copy, data, size);
    do {
        run_once(copy, size, ++*next);
    } while (atomic_load(&shared->count) >= *next);
    free(copy);
    exit(0);
}

/* run_in_children - runs the input in a child process, and after a crash the remaining calls in the next
 * child; returns the number of crashes. */
static long run_in_children(const uint8_t *data, size_t size, const char *pack, size_t at)
{
    long crashes = 0, *next = &shared[1].at;
    for (*next = 0;;) {
        int status = 0;
        const long before = *next;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0 && sets && !sets_set_up(pack, at))
            exit(0);
        if (pid == 0)
            run_input(data, size);
        if (pid < 0 || waitpid(pid, &status, 0) != pid ||
            (sets && WIFEXITED(status) && WEXITSTATUS(status) == 2)) /* no scenario could be set up */
            exit(2);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return crashes;
        if (shared->at > *next)
            *next = shared->at;
        shared->at = 0;
        if (crashes++ < 3)
            printf("%s, %s %zu: call %ld failed: %s %d\n", pack, sets ? "scenario" : "input at", at, *next,
                   WIFSIGNALED(status) ? "signal" : "exit",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (*next == before || *next == LONG_MAX) /* crashed before the first call or after the last one */
            return crashes;
    }
}

static void run_file(const char *path, long *crashes)
{
    static uint8_t data[1 << 20];
    const char *dot = strrchr(path, '.');
    bool pack = dot && strcmp(dot, ".pack") == 0;
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(data, 1, sizeof data, f) : 0;
    if (!f || (pack && size == sizeof data)) {
        fprintf(stderr, "in_turn: %s: no input\n", path);
        exit(2);
    }
    fclose(f);
    for (size_t at = 0, n = size; at < size; at += n) {
        if (pack) {
            n = data[at] | (size_t)data[at + 1] << 8 | (size_t)data[at + 2] << 16;
            at += 4;
        }
        if (n > input_max || n > size - at)
            continue;
        *crashes += run_in_children(data + at, n, path, at);
    }
}

static void *map_shared(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        exit(2);
    return p;
}

int main(int argc, char **argv)
{
    long crashes = 0, cases;
    bool once_per_stack = false;
    int opt;
    while ((opt = getopt(argc, argv, "em:sw")) != -1) {
        if (opt == 'e')
            by_api = true;
        else if (opt == 'm')
            input_max = strtoul(optarg, NULL, 10);
        else if (opt == 's')
            sets = true;
        else if (opt == 'w')
            once_per_stack = true;
        else
            return 2;
    }
    shared = map_shared(2 * sizeof *shared);
    if (once_per_stack) {
        failed_stacks = map_shared(STACKS_MAX * sizeof *failed_stacks);
        (void)hash_callers(); /* the first call loads a library */
    }
    if (sets)
        sets_begin();
    else
        oom_set(shared, once_per_stack ? is_new_stack : NULL);
    if (!by_api && !sets)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = optind; i < argc; i++)
        for (size_t k = 0; sets && k < sets_count(); k++)
            crashes += run_in_children(NULL, 0, argv[i], k);
    for (int i = optind; !sets && i < argc; i++)
        run_file(argv[i], &crashes);
    cases = atomic_load(&shared[1].count);
    printf("in turn: %ld passed, %ld failed\n", cases - crashes, crashes);
    return crashes != 0;
}
