/*
 * sets.c - see sets.h. System calls fail here, too, where in_turn lets them. Afterwards the folder holds
 * what it held before or all that is new, byte for byte; where no name could be removed, or the files have
 * no second names, at least no index whose shards are another's.
 */
#include "sets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../exercise.h"
#include "folder.h"
#include "oom.h"

enum before { NOTHING, ABSENT, SAME, OTHER, ONE, BETWEEN, LOST, BEHIND, BROKEN, LINKED, ITSELF,
              /* From here on the set is read. */ READ, LACKING, RENAMED, FEW };
enum how {
    FORCE = 1,
    NO_LINKS = 2,
    STRICT = 4,
    REFUSE_TIES = 8,
    COPY_TIES = 16,
    SYNC = 32,
    TO_FILE = 64,
    ODD = 128,
    ODDITIES = 3 * ODD,
    NO_FOLDER_SYNC = 512,
    UNLISTED = 1024
};

static const struct scene {
    enum before before;
    unsigned how, shards; /* 1: all fits into one; 0: no set is asked for */
} scenes[] = {
    {NOTHING, SYNC, 3},
    {ABSENT, 0, 3},
    {ABSENT, 0, 1},
    {NOTHING, STRICT, 3},
    {NOTHING, REFUSE_TIES | TO_FILE, 3},
    {NOTHING, COPY_TIES | TO_FILE, 3},
    {SAME, 0, 3},
    {SAME, FORCE | SYNC, 3},
    {SAME, FORCE | NO_LINKS, 3},
    {SAME, FORCE | TO_FILE, 1},
    {SAME, FORCE | NO_LINKS, 1},
    {SAME, FORCE | TO_FILE, 0},
    {OTHER, FORCE, 3},
    {ONE, 0, 3},
    {ONE, FORCE | SYNC, 3},
    {ONE, FORCE | SYNC | NO_FOLDER_SYNC, 3},
    {ONE, FORCE | SYNC | UNLISTED, 3},
    {SAME, FORCE | SYNC | UNLISTED, 1},
    {BETWEEN, FORCE, 3},
    {BETWEEN, FORCE | NO_LINKS, 3},
    {BETWEEN, FORCE, 1},
    {LOST, FORCE, 3},
    {BEHIND, FORCE, 3},
    {BROKEN, FORCE, 3},
    {BROKEN, FORCE | 1 * ODD, 3},
    {BROKEN, FORCE | 2 * ODD, 3},
    {BROKEN, FORCE | 3 * ODD, 3},
    {LINKED, FORCE, 3},
    {LINKED, FORCE | NO_LINKS, 1},
    {ITSELF, FORCE, 3},
    {ITSELF, 0, 3},
    {READ, 0, 3},
    {LACKING, 0, 3},
    {RENAMED, 0, 3},
    {FEW, 0, 7},
};
#define FEW_FILES 20 /* five of seven shards stay open */
#define NSCENES (sizeof scenes / sizeof *scenes)

static struct {
    char root[64], folder[80], in[PATH_MAX], out[160], index[160];
    const char *format, *stem, *ext;
    struct scene scene;
    size_t number;
    uint64_t max;
    bool armed, kept; /* calls may fail; one that removes a name did */
    pid_t maker;
    struct folder was, new, now;
    ckpt_file *file;
    ckpt_status status;
    uint64_t findings; /* of what is read, when nothing fails */
    bool known;        /* and they were counted */
} here;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* ------------------------------------------------------------- calls that fail */

bool __real_fd_pread(int fd, void *out, size_t n, uint64_t off, size_t *got);
bool __wrap_fd_pread(int fd, void *out, size_t n, uint64_t off, size_t *got);
int __real_fsync(int fd);
int __real_link(const char *from, const char *to);
int __real_linkat(int a, const char *from, int b, const char *to, int flags);
int __real_lstat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
int __real_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __real_renameat(int a, const char *from, int b, const char *to);
int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
char *__real_realpath(const char *path, char *out);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_fsync(int fd);
int __wrap_link(const char *from, const char *to);
int __wrap_linkat(int a, const char *from, int b, const char *to, int flags);
int __wrap_lstat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat(int a, const char *from, int b, const char *to);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int dir, const char *path, int flags);
char *__wrap_realpath(const char *path, char *out);

static bool fails(void)
{
    bool yes = here.armed && oom_should_fail();
    if (yes)
        errno = EIO;
    return yes;
}

static bool stays(void)
{
    bool yes = fails();
    here.kept |= yes;
    return yes;
}

bool __wrap_fd_pread(int fd, void *out, size_t n, uint64_t off, size_t *got)
{
    return !fails() && __real_fd_pread(fd, out, n, off, got);
}

/* Nothing here outlives the machine: where calls fail, no disk is waited for. */
int __wrap_fsync(int fd)
{
    struct stat st;
    if (!here.armed)
        return __real_fsync(fd);
    if (!(here.scene.how & NO_FOLDER_SYNC) || fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))
        return -fails();
    errno = here.number % 2 ? EROFS : EINVAL;
    return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (here.armed && here.scene.how & UNLISTED && flags & O_DIRECTORY && !(flags & O_PATH)) {
        errno = EACCES;
        return -1;
    }
    return fails() ? -1 : __real_open(path, flags, mode);
}

int __wrap_link(const char *from, const char *to) { return fails() ? -1 : __real_link(from, to); }

int __wrap_linkat(int a, const char *from, int b, const char *to, int flags)
{
    if (here.armed && here.scene.how & NO_LINKS && a == AT_FDCWD && b == AT_FDCWD) {
        static const int why[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EXDEV, ENAMETOOLONG, EINVAL};
        errno = why[here.number % (sizeof why / sizeof *why)];
        return -1;
    }
    return fails() ? -1 : __real_linkat(a, from, b, to, flags);
}

int __wrap_lstat(const char *path, struct stat *st) { return fails() ? -1 : __real_lstat(path, st); }

int __wrap_stat(const char *path, struct stat *st) { return fails() ? -1 : __real_stat(path, st); }

int __wrap_mkdir(const char *path, mode_t mode) { return fails() ? -1 : __real_mkdir(path, mode); }

int __wrap_rename(const char *from, const char *to) { return stays() ? -1 : __real_rename(from, to); }

int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    return fails() ? -1 : __real_renameat(a, from, b, to);
}

int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return fails() ? -1 : __real_renameat2(a, from, b, to, flags);
}

int __wrap_unlink(const char *path) { return stays() ? -1 : __real_unlink(path); }

int __wrap_unlinkat(int dir, const char *path, int flags)
{
    return stays() ? -1 : __real_unlinkat(dir, path, flags);
}

char *__wrap_realpath(const char *path, char *out) { return fails() ? NULL : __real_realpath(path, out); }

/* ---------------------------------------------------------------- what was there */

static void name_in(char out[160], const char *name)
{
    if (snprintf(out, 160, "%s/%s", here.folder, name) >= 160)
        die(name);
}

static int stops(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return oom_should_fail();
}

static ckpt_status write_as(ckpt_file *file, const char *to, uint64_t max, unsigned how, size_t *files)
{
    ckpt_plan *plan = NULL;
    ckpt_error err = {0};
    ckpt_write_result res = CKPT_INIT(ckpt_write_result);
    ckpt_write_options opts = {.struct_size = sizeof opts,
                               .format = here.format,
                               .force = how & FORCE,
                               .strict = how & STRICT,
                               .dry_run = files != NULL,
                               .no_sync = !(how & SYNC),
                               .ties = how & COPY_TIES     ? CKPT_TIES_COPY
                                       : how & REFUSE_TIES ? CKPT_TIES_ERROR
                                                           : CKPT_TIES_DROP,
                               .max_shard = max,
                               .progress = stops,
                               .threads = 1};
    ckpt_status st = ckpt_plan_new(file, &plan, &err);
    if (st == CKPT_OK)
        st = ckpt_plan_write(plan, to, &opts, &res, &err);
    if (st != CKPT_OK)
        exercise_error(st, &err);
    if (files)
        *files = res.noutputs;
    ckpt_plan_free(plan);
    return st;
}

/* put_old - three tensors as a set of so many files, or as one. */
static void put_old(uint64_t max)
{
    static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
                                 "\"z\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}";
    char all[8 + sizeof header - 1 + 24] = {0};
    ckpt_file *old = NULL;
    all[0] = (char)(sizeof header - 1);
    memcpy(all + 8, header, sizeof header - 1);
    if (ckpt_open_memory(all, sizeof all, "old", NULL, &old, NULL) != CKPT_OK ||
        write_as(old, here.folder, max, FORCE, NULL) != CKPT_OK)
        die("an older set");
    ckpt_close(old);
}

/* shard_name - of the older set's K-th, and its second name. */
static void shard_name(unsigned k, char name[160], char second[160])
{
    char base[64];
    snprintf(base, sizeof base, "%s-0000%u-of-00003%s", here.stem, k, here.ext);
    name_in(name, base);
    snprintf(second, 160, "%s/.%s.ckpt-old", here.folder, base);
}

/* put_index - of the older set at PATH; SECOND: by second names. */
static void put_index(const char *path, bool second, size_t cut)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {");
    for (unsigned k = 1; k <= 3; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%c\": \"%s%s-0000%u-of-00003%s%s\"",
                      k > 1 ? ", " : "", "xyz"[k - 1], second ? "." : "", here.stem, k, here.ext,
                      second ? ".ckpt-old" : "");
    n += snprintf(text + n, sizeof text - (size_t)n, "}}");
    folder_write(path, text, (size_t)n - cut);
}

/* put_killed - what a run leaves that was killed while it replaced the set, before or BEHIND the new index;
 * LOST: without the second name of the old one. */
static void put_killed(enum before what)
{
    bool behind = what == BEHIND;
    char name[160], second[160];
    for (unsigned k = 1; k <= 3; k++) {
        shard_name(k, name, second);
        if (!behind && (rename(name, second) != 0 || (k == 2 && symlink("nowhere", name) != 0)))
            die(name);
    }
    snprintf(second, sizeof second, "%s/.%s%s.index.json.ckpt-old", here.folder, here.stem, here.ext);
    if (what != LOST)
        put_index(second, false, 0);
    if (!behind)
        put_index(here.index, true, 0);
}

static void put_before(void)
{
    static const char *const odd[] = {
        "{\"metadata\": [1, 2}", "{\"weight_map\": 3}",
        "{\"weight_map\": {\"a\": \"model-0000x-of-00003.safetensors\", \"b\": \".ckpt-old\","
        " \"c\": \".a.ckpt-old\","
        " \"d\": \"model-00001+of-00003.safetensors\", \"e\": \"model-00001-of-00003.bin\","
        " \"f\": \".hidden\","
        " \"g\": \"pytorch_model-000:1-of-00003.bin\", \"h\": \"model-1.safetensors\","
        " \"i\": \"model-00001-of-00003.safetensors\"}}"};
    enum before what = here.scene.before;
    char name[160];
    folder_empty(here.folder);
    if (what == SAME || what == BETWEEN || what == LOST || what == BEHIND || what == BROKEN || what == LINKED)
        put_old(8);
    else if (what == OTHER)
        put_old(16);
    else if (what == ONE)
        put_old(1000);
    if (what == BETWEEN || what == LOST || what == BEHIND)
        put_killed(what);
    else if (what == BROKEN && !(here.scene.how & ODDITIES))
        put_index(here.index, false, 20);
    else if (what == BROKEN)
        folder_write(here.index, odd[here.scene.how / ODD - 1], strlen(odd[here.scene.how / ODD - 1]));
    else if (what == LINKED) {
        name_in(name, "elsewhere.json");
        if (rename(here.index, name) != 0 || symlink("elsewhere.json", here.index) != 0)
            die(name);
    }
}

/* ---------------------------------------------------------------------- scenes */

static void clean_up(void)
{
    if (getpid() != here.maker)
        return;
    if (access(here.folder, F_OK) == 0)
        folder_empty(here.folder);
    rmdir(here.folder);
    rmdir(here.root);
}

void sets_begin(void)
{
    snprintf(here.root, sizeof here.root, "%s/ckpt-sets-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(here.root))
        die(here.root);
    snprintf(here.folder, sizeof here.folder, "%s/set", here.root);
    here.maker = getpid();
    atexit(clean_up);
}

static void open_input(const char *path)
{
    ckpt_close(here.file);
    here.file = NULL;
    if (ckpt_open(path, NULL, &here.file, NULL) != CKPT_OK)
        die(path);
}

/* choose - the least limit with which there are at most so many shards. */
static void choose(void)
{
    size_t files = 0;
    here.max = here.scene.shards > 1 ? 4 : here.scene.shards ? UINT64_C(1) << 40 : 0;
    if (here.scene.shards > 1)
        while (here.max < 1u << 20 && write_as(here.file, here.out, here.max, FORCE, &files) == CKPT_OK &&
               files > here.scene.shards + 1)
            here.max += here.max / 2;
}

static void take(struct folder *f)
{
    folder_free(f);
    if (access(here.folder, F_OK) == 0)
        folder_read(f, here.folder);
}

/* ends - is END that of NAME? */
static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* spoil - the set that is to be read lacks a shard, or its index calls a tensor by another name, or it stays
 * as it is; false: it is one file. */
static bool spoil(struct folder *f)
{
    size_t json = 0, other = 0;
    while (json < f->n && !ends(f->file[json].name, ".json"))
        json++;
    while (other < f->n && ends(f->file[other].name, ".json"))
        other++;
    if (json == f->n || other == f->n)
        return false;
    if (here.scene.before == LACKING) {
        free(f->file[other].bytes);
        memmove(&f->file[other], &f->file[other + 1], (--f->n - other) * sizeof *f->file);
        return true;
    }
    if (here.scene.before != RENAMED)
        return true;
    char *text = f->file[json].bytes, *end = text + f->file[json].size;
    char *map = memmem(text, (size_t)(end - text), "\"weight_map\"", 12);
    char *name = map ? memchr(map + 12, '"', (size_t)(end - map) - 12) : NULL;
    if (!name || end - name < 3)
        die("no name in the index");
    name[1] = '~';
    return true;
}

size_t sets_scenes(void) { return 2 * NSCENES; }

bool sets_scene(const char *path, size_t k)
{
    struct stat st;
    bool set = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (set && scenes[k / 2].before < READ)
        return false;
    here.scene = scenes[k / 2];
    here.number = k;
    here.format = k % 2 ? "torch-zip" : "safetensors";
    here.stem = k % 2 ? "pytorch_model" : "model";
    here.ext = k % 2 ? ".bin" : ".safetensors";
    snprintf(here.in, sizeof here.in, "%s", path);
    if (mkdir(here.folder, 0700) != 0 && errno != EEXIST)
        die(here.folder);
    char base[64];
    snprintf(base, sizeof base, "%s%s", here.stem, here.ext);
    name_in(here.out, here.scene.how & TO_FILE ? base : "");
    snprintf(base, sizeof base, "%s%s.index.json", here.stem, here.ext);
    name_in(here.index, base);
    put_before();
    open_input(path);
    if (here.scene.before == ITSELF) {
        snprintf(here.in, sizeof here.in, "%s/%s%s", here.folder, here.stem, here.ext);
        if (write_as(here.file, here.in, 0, 0, NULL) != CKPT_OK)
            return false;
    }
    choose();
    if (set) {
        take(&here.was);
        folder_free(&here.was);
        folder_read(&here.was, path);
        snprintf(here.in, sizeof here.in, "%s", here.folder);
    } else if (here.scene.before >= READ) {
        if (write_as(here.file, here.out, here.max, 0, NULL) != CKPT_OK)
            return false;
        snprintf(here.in, sizeof here.in, "%s", here.folder);
        take(&here.was);
    } else {
        take(&here.was);
    }
    if (here.scene.before > READ && !spoil(&here.was))
        return false;
    here.known = false;
    sets_ready();
    sets_run();
    if (here.status == CKPT_EIO && (here.scene.how & (NO_FOLDER_SYNC | UNLISTED) || here.scene.before == FEW))
        die("nothing failed, but the scene did");
    take(&here.new);
    return true;
}

void sets_ready(void)
{
    if (mkdir(here.folder, 0700) != 0 && errno != EEXIST)
        die(here.folder);
    folder_restore(&here.was, here.folder);
    if (here.scene.before == ABSENT && rmdir(here.folder) != 0)
        die(here.folder);
    if (here.scene.before < READ)
        open_input(here.in);
}

static int hears(void *user, const ckpt_finding *f)
{
    (void)user;
    exercise_error(f->error->status, f->error);
    return oom_should_fail();
}

/* verify_set - whatever fails, what is said of a set that could be gone over is the same. */
static void verify_set(void)
{
    ckpt_error err = {0};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    ckpt_status st = ckpt_verify(here.in, NULL, hears, NULL, &r, &err);
    if (st != CKPT_OK)
        exercise_error(st, &err);
    else if (here.known && r.findings != here.findings)
        exercise_broken("another number of findings");
    else if (!r.findings && (here.scene.before == LACKING || here.scene.before == RENAMED))
        exercise_broken("nothing is wrong with what was spoilt");
    here.known |= st == CKPT_OK;
    here.findings = st == CKPT_OK ? r.findings : here.findings;
}

static void read_set(void)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    char one[160];
    verify_set();
    here.status = ckpt_open(here.in, NULL, &file, &err);
    if (here.status != CKPT_OK) {
        exercise_error(here.status, &err);
        return;
    }
    exercise(file);
    name_in(one, "again.pt");
    here.format = NULL;
    here.status = write_as(file, one, here.max, 0, NULL);
    if (here.status == CKPT_OK)
        here.status = write_as(file, here.folder, 0, FORCE, NULL);
    ckpt_close(file);
}

/* limit_files - so many descriptors there may be; 0: as many as before. */
static void limit_files(rlim_t n)
{
    static struct rlimit was;
    if (n && getrlimit(RLIMIT_NOFILE, &was) != 0)
        die("getrlimit");
    struct rlimit now = {n ? n : was.rlim_cur, was.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &now) != 0)
        die("setrlimit");
}

void sets_run(void)
{
    bool few = here.scene.before == FEW;
    here.kept = false;
    if (few)
        limit_files(FEW_FILES);
    here.armed = true;
    if (here.scene.before >= READ)
        read_set();
    else
        here.status = write_as(here.file, here.out, here.max, here.scene.how, NULL);
    here.armed = false;
    if (few)
        limit_files(0);
}

/* print_state - prints what is in the folder, for whoever debugs a failure. */
static void print_state(const struct folder *f, const char *what)
{
    fprintf(stderr, "%s:", what);
    for (size_t i = 0; i < f->n; i++)
        fprintf(stderr, " %s (%zu)", f->file[i].name, f->file[i].size);
    fputc('\n', stderr);
}

static void broken(const char *what)
{
    print_state(&here.was, "before");
    print_state(&here.new, "new");
    print_state(&here.now, "now");
    exercise_broken(what);
}

/* holds - all that F has is there. */
static bool holds(const struct folder *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct folder_file *there = folder_find(&here.now, f->file[i].name);
        if (!there || !folder_same_file(there, &f->file[i], false))
            return false;
    }
    return true;
}

/* has_index - is the index there that F has? */
static bool has_index(const struct folder *f)
{
    const char *name = here.scene.before == LINKED ? "elsewhere.json" : strrchr(here.index, '/') + 1;
    const struct folder_file *index = folder_find(f, name), *now = folder_find(&here.now, name);
    return index && now && folder_same_file(index, now, false);
}

/* whole - the set there can be read: names of tensors tell the shards of one from those of the other. */
static bool whole(void)
{
    ckpt_file *file = NULL;
    bool yes = ckpt_open(here.folder, NULL, &file, NULL) == CKPT_OK;
    ckpt_close(file);
    return yes;
}

/* torn - an index is there, of the old or of the new set, but not what belongs to it. What a run left that
 * was killed belongs to none, and may go. */
static bool torn(void)
{
    bool old = has_index(&here.was), new = has_index(&here.new);
    return (old || new) && !(old && holds(&here.was)) && !(new && holds(&here.new)) && !whole();
}

void sets_check(void)
{
    bool old, done;
    take(&here.now);
    old = here.scene.before >= READ ? holds(&here.was) : folder_same(&here.now, &here.was, false);
    done = folder_same(&here.now, &here.new, false);
    if (here.kept || here.scene.how & NO_LINKS || here.scene.before == LINKED) {
        if (torn())
            broken("an index whose shards are another's");
    } else if (here.scene.before >= READ) {
        if (!old)
            broken("reading changed what is there");
    } else if (here.status == CKPT_OK) {
        if (!done)
            broken("said to be done, but the folder is another");
    } else if (here.scene.before >= BETWEEN && here.scene.before <= BEHIND) {
        if (!whole())
            broken("neither set can be read");
    } else if (!old && !done && here.scene.before != BROKEN) { /* what that does not name belongs to no set */
        broken("the folder is neither as before nor as afterwards");
    }
}
