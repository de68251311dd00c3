/*
 * each_call.c - processes each input many times. In the first run the first call fails, in the second run the
 * second call and so on. The calls are allocations (also of arenas, buffers and maps), reads of a source,
 * writes to a sink, and calls of the callback for the records of a scan; if one of these fails, the scan
 * stops. Each run must return a result, or an error with a reason: no crash, no hang, and under ASan no leak.
 *
 *   FUZZ_TARGET=NAME each_call [-w] [-m BYTES] FILE|PACK…  runs a fuzz target on inputs up to BYTES (20000)
 *   each_call -e [-w] [-m BYTES] FILE|PACK…                reads inputs by public functions (exercise.h)
 *   each_call -s [-w] FILE|FOLDER…                         writes and reads sets of shards; see sets.c
 * -w: of all calls with the same stack of callers, only the first one fails.
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

/* Shared with the parent process, which reports crashes. */
static struct shared {
    struct oom oom; /* which call of the current run fails */
    _Atomic long nruns;
    long last_failed; /* number of the call that failed in the last run; LONG_MAX: none did */
} *shared;
static size_t input_max = 20000; /* bytes; longer inputs are skipped */
static bool use_api, use_sets;   /* -e, -s */

#define STACKS_MAX (1u << 21)           /* slots of failed_stacks, a hash table */
static _Atomic uint64_t *failed_stacks; /* hashes of the stacks of calls that failed; NULL: without -w */
static _Thread_local bool in_backtrace; /* the current call comes from backtrace(), and must not fail */
static _Atomic bool call_has_failed;    /* with -w: a call of the current run has failed */

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
ckpt_status __real_scan_source(const char *path, source *src, const struct scan_siblings *siblings,
                               struct scan *s, ckpt_error *err);
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
ckpt_status __wrap_scan_source(const char *path, source *src, const struct scan_siblings *siblings,
                               struct scan *s, ckpt_error *err);

void *__wrap_arena_alloc(arena *a, size_t n) { return call_should_fail() ? NULL : __real_arena_alloc(a, n); }

void *__wrap_arena_array(arena *a, uint64_t count, size_t size)
{
    return call_should_fail() ? NULL : __real_arena_array(a, count, size);
}

void *__wrap_arena_grow(arena *a, void *old, size_t used, size_t *cap, size_t want, size_t size)
{
    return call_should_fail() ? NULL : __real_arena_grow(a, old, used, cap, want, size);
}

ckpt_str __wrap_arena_str(arena *a, ckpt_str s)
{
    return call_should_fail() ? (ckpt_str){0} : __real_arena_str(a, s);
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

/* With -s, fd_pread() fails instead of source_read(); see sets.c. Then source_file.c records the failure, as
 * after a fault of the disk. */
ckpt_status __wrap_source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    return !use_sets && call_should_fail()
               ? fail(err, CKPT_EIO, source_pos(s, off), "this read fails on request")
               : __real_source_read(s, off, out, n, err);
}

static ckpt_status fail_write(ckpt_error *err)
{
    return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "this write fails on request");
}

ckpt_status __wrap_sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    return call_should_fail() ? fail_write(err) : __real_sink_write(s, bytes, n, err);
}

ckpt_status __wrap_sink_skip(sink *s, uint64_t n, ckpt_error *err)
{
    return call_should_fail() ? fail_write(err) : __real_sink_skip(s, n, err);
}

ckpt_status __wrap_sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    return call_should_fail() ? fail_write(err) : __real_sink_patch(s, off, bytes, n, err);
}

bool __wrap_map_put(map *m, ckpt_str key, uint32_t value, uint32_t *old)
{
    return !call_should_fail() && __real_map_put(m, key, value, old);
}

bool __wrap_map_put_num(map *m, uint64_t key, uint32_t value, uint32_t *old)
{
    return !call_should_fail() && __real_map_put_num(m, key, value, old);
}

bool __wrap_map_set_num(map *m, uint64_t key, uint32_t value)
{
    return !call_should_fail() && __real_map_set_num(m, key, value);
}

/* A caller notices by buf_ok() that an append to a buffer has failed. This marks the buffer as if one had. */
bool __wrap_buf_ok(const buf *b)
{
    if (call_should_fail())
        ((buf *)(uintptr_t)b)->failed = ((buf *)(uintptr_t)b)->no_memory = true;
    return __real_buf_ok(b);
}

static int stop_at_record(void *user, const ckpt_scan_record *r)
{
    (void)user;
    (void)r;
    return call_should_fail();
}

/* Makes stop_at_record() end the scan at one of its records. */
ckpt_status __wrap_scan_source(const char *path, source *src, const struct scan_siblings *siblings,
                               struct scan *s, ckpt_error *err)
{
    s->report = stop_at_record;
    return __real_scan_source(path, src, siblings, s, err);
}

/* hash_callers - returns a hash of the current stack of callers. */
static uint64_t hash_callers(void)
{
    void *callers[64];
    uint64_t hash = 1469598103934665603u; /* as in FNV-1a */
    int n = backtrace(callers, (int)(sizeof callers / sizeof *callers));
    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)callers[i]) * 1099511628211u, hash ^= hash >> 29;
    return hash | 1; /* not 0, which is an empty slot of failed_stacks */
}

/* record_new_stack - records the current stack of callers in failed_stacks and returns true, so that the call
 * fails. Returns false if that stack was recorded earlier, or if a call of this run has already failed. */
static bool record_new_stack(void)
{
    if (in_backtrace || atomic_load(&call_has_failed))
        return false;
    in_backtrace = true;
    uint64_t hash = hash_callers();
    in_backtrace = false;
    size_t slot = hash % STACKS_MAX;
    for (size_t tries = 0; tries < STACKS_MAX / 4; tries++) {
        uint64_t found = 0; /* an empty slot */
        if (atomic_compare_exchange_strong(&failed_stacks[slot], &found, hash))
            return !atomic_exchange(&call_has_failed, true);
        if (found == hash)
            return false;
        slot = (slot + 1) % STACKS_MAX;
    }
    return false;
}

/* run_once - processes the input once; call number FAILING_CALL fails. With -w, the call that fails is the
 * first one from that number on for which record_new_stack() returns true. */
static void run_once(const uint8_t *data, size_t size, long failing_call)
{
    alarm(CASE_SECONDS);
    if (use_sets) {
        oom_set(NULL, NULL);
        sets_restore();
        oom_set(&shared->oom, failed_stacks ? record_new_stack : NULL);
    }
    atomic_store(&shared->oom.ncalls, 0);
    atomic_store(&call_has_failed, false);
    atomic_fetch_add(&shared->nruns, 1);
    shared->oom.failing_call = failing_call;
    if (use_sets)
        sets_run();
    else if (use_api)
        (void)exercise_memory(data, size, "each_call");
    else
        (void)LLVMFuzzerTestOneInput(data, size);
    if (failed_stacks)
        shared->last_failed = atomic_load(&call_has_failed) ? shared->oom.failing_call : LONG_MAX;
    if (use_sets) {
        oom_set(NULL, NULL);
        sets_check();
    }
    shared->oom.failing_call = 0;
}

/* run_input - runs the input once for each call that can fail, beginning with the call after
 * shared->last_failed, at which a previous process may have crashed. Then ends this process. */
static void run_input(const uint8_t *data, size_t size)
{
    long *last_failed = &shared->last_failed;
    uint8_t *copy = malloc(size ? size : 1); /* so that ASan reports a read beyond the end */
    if (!copy)
        exit(2);
    if (size)
        memcpy(copy, data, size);
    do {
        run_once(copy, size, ++*last_failed);
    } while (atomic_load(&shared->oom.ncalls) >= *last_failed);
    free(copy);
    exit(0);
}

/* run_in_children - runs the input in a child process, and after a crash continues with the next call in
 * another; returns the number of crashes. PATH is the file of the input. INDEX is the input's offset in a
 * pack, or with -s the number of the scenario. */
static long run_in_children(const uint8_t *data, size_t size, const char *path, size_t index)
{
    long crashes = 0, *last_failed = &shared->last_failed;
    for (*last_failed = 0;;) {
        int status = 0;
        const long last_before = *last_failed;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0 && use_sets && !sets_set_up(path, index))
            exit(0);
        if (pid == 0)
            run_input(data, size);
        if (pid < 0 || waitpid(pid, &status, 0) != pid ||
            (use_sets && WIFEXITED(status) && WEXITSTATUS(status) == 2)) /* die() of sets.c */
            exit(2);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return crashes;
        if (shared->oom.failing_call > *last_failed)
            *last_failed = shared->oom.failing_call;
        shared->oom.failing_call = 0;
        if (crashes++ < 3) /* at most three messages for each input */
            printf("%s, %s %zu: call %ld failed: %s %d\n", path, use_sets ? "scenario" : "input at", index,
                   *last_failed, WIFSIGNALED(status) ? "signal" : "exit",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        /* crashed before a call could fail, or with -w in a run in which none failed */
        if (*last_failed == last_before || *last_failed == LONG_MAX)
            return crashes;
    }
}

static void run_file(const char *path, long *crashes)
{
    static uint8_t data[1 << 20];
    const char *dot = strrchr(path, '.');
    bool is_pack = dot && strcmp(dot, ".pack") == 0;
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(data, 1, sizeof data, f) : 0;
    if (!f || (is_pack && size == sizeof data)) {
        fprintf(stderr, "each_call: %s: cannot be read, or is a pack of more than 1 MB\n", path);
        exit(2);
    }
    fclose(f);
    for (size_t offset = 0, n = size; offset < size; offset += n) {
        if (is_pack) { /* each input follows its length: 4 bytes, little-endian, the last of them 0 */
            n = data[offset] | (size_t)data[offset + 1] << 8 | (size_t)data[offset + 2] << 16;
            offset += 4;
        }
        if (n > input_max || n > size - offset)
            continue;
        *crashes += run_in_children(data + offset, n, path, offset);
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
    long crashes = 0, nruns;
    bool once_per_stack = false;
    int opt;
    while ((opt = getopt(argc, argv, "em:sw")) != -1) {
        if (opt == 'e')
            use_api = true;
        else if (opt == 'm')
            input_max = strtoul(optarg, NULL, 10);
        else if (opt == 's')
            use_sets = true;
        else if (opt == 'w')
            once_per_stack = true;
        else
            return 2;
    }
    shared = map_shared(sizeof *shared);
    if (once_per_stack) {
        failed_stacks = map_shared(STACKS_MAX * sizeof *failed_stacks);
        (void)hash_callers(); /* the first call of backtrace() loads a library */
    }
    if (use_sets)
        sets_begin();
    else
        oom_set(&shared->oom, once_per_stack ? record_new_stack : NULL);
    if (!use_api && !use_sets)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = optind; i < argc; i++)
        for (size_t k = 0; use_sets && k < sets_count(); k++)
            crashes += run_in_children(NULL, 0, argv[i], k);
    for (int i = optind; !use_sets && i < argc; i++)
        run_file(argv[i], &crashes);
    nruns = atomic_load(&shared->nruns);
    printf("each call: %ld passed, %ld failed\n", nruns - crashes, crashes);
    return crashes != 0;
}
