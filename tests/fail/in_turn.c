/*
 * in_turn.c - linked with the fuzz targets of parts.c: for every input, each call that can fail fails in turn
 * while a reader works on it in memory: allocations of all libraries, what arenas, buffers and maps take,
 * reads of sources, writes to sinks; and a scan is stopped at each record that it reports.
 * Whatever failed, there is a refusal with a reason or an answer: no crash, no hang, and under ASan no leak.
 *
 *   FUZZ_TARGET=NAME in_turn [-m BYTES] FILE|PACK…      inputs of at most BYTES (20000)
 *   in_turn -e [-m BYTES] FILE|PACK…              by ckpt.h: opened, asked everything, planned anew
 *   in_turn -s FILE|FOLDER…                       written as sets of shards, and read: the scenes of sets.c
 * -w: a call fails only where none failed that was reached in the same way, by the same callers.
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

static struct oom *turn; /* shared with the parent, which reports what died */
static size_t most = 20000;
static bool everything, sets;

#define WAYS (1u << 21) /* more than there are: at most a quarter is taken */
static _Atomic uint64_t *ways; /* that failed, hashed; NULL: without -w */
static _Thread_local bool asking;
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

/* Files that fail to be read remember it: of sets, their reads fail and not what is above them. */
ckpt_status __wrap_source_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    return !sets && oom_should_fail() ? fail(err, CKPT_EIO, source_pos(s, off), "a read that fails on request")
                                : __real_source_read(s, off, out, n, err);
}

static ckpt_status refuse(ckpt_error *err)
{
    return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "a write that fails on request");
}

ckpt_status __wrap_sink_write(sink *s, const void *bytes, size_t n, ckpt_error *err)
{
    return oom_should_fail() ? refuse(err) : __real_sink_write(s, bytes, n, err);
}

ckpt_status __wrap_sink_skip(sink *s, uint64_t n, ckpt_error *err)
{
    return oom_should_fail() ? refuse(err) : __real_sink_skip(s, n, err);
}

ckpt_status __wrap_sink_patch(sink *s, uint64_t off, const void *bytes, size_t n, ckpt_error *err)
{
    return oom_should_fail() ? refuse(err) : __real_sink_patch(s, off, bytes, n, err);
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

/* What failed stays so. */
bool __wrap_buf_ok(const buf *b)
{
    if (oom_should_fail())
        ((buf *)(uintptr_t)b)->failed = ((buf *)(uintptr_t)b)->no_memory = true;
    return __real_buf_ok(b);
}

static int count_record(void *user, const ckpt_scan_record *r)
{
    (void)user;
    (void)r;
    return oom_should_fail();
}

/* Who asked has heard enough: that ends a scan as a failure does. */
ckpt_status __wrap_scan_source(const char *path, source *src, struct scan *s, ckpt_error *err)
{
    s->report = count_record;
    return __real_scan_source(path, src, s, err);
}

/* way - a hash of all callers of this call. */
static uint64_t way(void)
{
    void *at[64];
    uint64_t h = 1469598103934665603u;
    int n = backtrace(at, (int)(sizeof at / sizeof *at));
    for (int i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)at[i]) * 1099511628211u, h ^= h >> 29;
    return h | 1;
}

/* new_way - is this call reached in a way in which none failed? From now on, one has. */
static bool new_way(void)
{
    if (asking || atomic_load(&failed))
        return false;
    asking = true;
    uint64_t h = way();
    asking = false;
    for (size_t i = h % WAYS, tries = 0; tries < WAYS / 4; i = (i + 1) % WAYS, tries++) {
        uint64_t was = 0;
        if (atomic_compare_exchange_strong(&ways[i], &was, h))
            return !atomic_exchange(&failed, true);
        if (was == h)
            return false;
    }
    return false;
}

static void once(const uint8_t *data, size_t size, long at)
{
    alarm(CASE_SECONDS);
    if (sets) {
        oom_set(NULL, NULL);
        sets_ready();
        oom_set(turn, ways ? new_way : NULL);
    }
    atomic_store(&turn->count, 0);
    atomic_store(&failed, false);
    atomic_fetch_add(&turn[1].count, 1);
    turn->at = at;
    if (sets)
        sets_run();
    else if (everything)
        (void)exercise_memory(data, size, "in turn");
    else
        (void)LLVMFuzzerTestOneInput(data, size);
    if (ways)
        turn[1].at = atomic_load(&failed) ? turn->at : LONG_MAX;
    if (sets) {
        oom_set(NULL, NULL);
        sets_check();
    }
    turn->at = 0;
}

/* input - goes on where the process before ended: turn[1] outlives it. */
static void input(const uint8_t *data, size_t size)
{
    long *next = &turn[1].at;
    uint8_t *copy = malloc(size ? size : 1); /* one byte too far is seen */
    if (!copy)
        exit(2);
    if (size)
        memcpy(copy, data, size);
    do {
        once(copy, size, ++*next);
    } while (atomic_load(&turn->count) >= *next);
    free(copy);
    exit(0);
}

/* input_apart - in processes of its own: where one dies, another goes on. Number of deaths. */
static long input_apart(const uint8_t *data, size_t size, const char *pack, size_t at)
{
    long deaths = 0, *next = &turn[1].at;
    for (*next = 0;;) {
        int status = 0;
        const long before = *next;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0 && sets && !sets_scene(pack, at))
            exit(0);
        if (pid == 0)
            input(data, size);
        if (pid < 0 || waitpid(pid, &status, 0) != pid ||
            (sets && WIFEXITED(status) && WEXITSTATUS(status) == 2)) /* no scene could be set up */
            exit(2);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return deaths;
        if (turn->at > *next)
            *next = turn->at;
        turn->at = 0;
        if (deaths++ < 3)
            printf("%s, %s %zu: call %ld failed: %s %d\n", pack, sets ? "scene" : "input at", at, *next,
                   WIFSIGNALED(status) ? "signal" : "exit",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (*next == before || *next == LONG_MAX) /* it died before the first call, or after the last one */
            return deaths;
    }
}

static void file(const char *path, long *deaths)
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
        if (n > most || n > size - at)
            continue;
        *deaths += input_apart(data + at, n, path, at);
    }
}

static void *share(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        exit(2);
    return p;
}

int main(int argc, char **argv)
{
    long deaths = 0, cases;
    bool by_way = false;
    int opt;
    while ((opt = getopt(argc, argv, "em:sw")) != -1) {
        if (opt == 'e')
            everything = true;
        else if (opt == 'm')
            most = strtoul(optarg, NULL, 10);
        else if (opt == 's')
            sets = true;
        else if (opt == 'w')
            by_way = true;
        else
            return 2;
    }
    turn = share(2 * sizeof *turn);
    if (by_way) {
        ways = share(WAYS * sizeof *ways);
        (void)way(); /* which loads a library, once */
    }
    if (sets)
        sets_begin();
    else
        oom_set(turn, by_way ? new_way : NULL);
    if (!everything && !sets)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = optind; i < argc; i++)
        for (size_t k = 0; sets && k < sets_scenes(); k++)
            deaths += input_apart(NULL, 0, argv[i], k);
    for (int i = optind; !sets && i < argc; i++)
        file(argv[i], &deaths);
    cases = atomic_load(&turn[1].count);
    printf("in turn: %ld passed, %ld failed\n", cases - deaths, deaths);
    return deaths != 0;
}
