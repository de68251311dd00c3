/*
 * sets.c - see sets.h. System calls fail when call_should_fail() returns true. After that, the folder must
 * contain the old files or the new files, byte for byte. If a file could not be removed, or hard links are
 * refused, it may also contain other files, but never the index of one set with shards of the other.
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

/* What the folder contains before the run. */
enum content {
    EMPTY,  /* nothing */
    ABSENT, /* the folder does not exist */
    THREE_SHARDS,
    TWO_SHARDS,
    ONE_FILE, /* an old file with all tensors */
    /* THREE_SHARDS after a run that was killed while it replaced them: */
    KILLED_EARLY,        /* before it wrote the new index */
    KILLED_NO_OLD_INDEX, /* as KILLED_EARLY, and the backup of the old index is missing */
    KILLED_LATE,         /* after it wrote the new index */
    BAD_INDEX,           /* THREE_SHARDS with a malformed index */
    LINKED_INDEX,        /* THREE_SHARDS, the index is a symbolic link */
    INPUT_ITSELF,        /* the input is the file that is replaced */
    /* A set that the run reads. The run adds files to the folder, but must not change those of the set. */
    READ_SET,
    READ_SHARD_MISSING,   /* a shard is missing */
    READ_TENSOR_RENAMED,  /* the index has a tensor under a wrong name */
    READ_FEW_DESCRIPTORS, /* the reader may have only FEW_DESCRIPTORS files open */
};
static bool reads_set(enum content before) { return before >= READ_SET; }

enum options {
    FORCE = 1,    /* existing files may be replaced */
    NO_LINKS = 2, /* link() is refused */
    /* These four set fields of ckpt_write_options; see write_set(). */
    STRICT = 4,
    REFUSE_TIES = 8,
    COPY_TIES = 16,
    SYNC = 32,
    TO_FILE = 64, /* the output is named as a file, not as a folder */
    /* With BAD_INDEX: K * BAD_INDEX_1 chooses the K-th text of bad_indices, K = 0 a truncated index. */
    BAD_INDEX_1 = 128,
    BAD_INDEX_MASK = 3 * BAD_INDEX_1,
    NO_FOLDER_SYNC = 512, /* folders refuse fsync() */
    NO_FOLDER_OPEN = 1024 /* folders refuse open() */
};

static const struct scenario {
    enum content before;
    unsigned options;
    unsigned shards; /* how many are written. 1: all tensors fit into one; 0: max_shard is 0, no maximum */
} scenarios[] = {
    /* before, options, shards */
    {EMPTY, SYNC, 3},
    {ABSENT, 0, 3},
    {ABSENT, 0, 1},
    {EMPTY, STRICT, 3},
    {EMPTY, REFUSE_TIES | TO_FILE, 3},
    {EMPTY, COPY_TIES | TO_FILE, 3},
    {THREE_SHARDS, 0, 3},
    {THREE_SHARDS, FORCE | SYNC, 3},
    {THREE_SHARDS, FORCE | NO_LINKS, 3},
    {THREE_SHARDS, FORCE | TO_FILE, 1},
    {THREE_SHARDS, FORCE | NO_LINKS, 1},
    {THREE_SHARDS, FORCE | TO_FILE, 0},
    {TWO_SHARDS, FORCE, 3},
    {ONE_FILE, 0, 3},
    {ONE_FILE, FORCE | SYNC, 3},
    {ONE_FILE, FORCE | SYNC | NO_FOLDER_SYNC, 3},
    {ONE_FILE, FORCE | SYNC | NO_FOLDER_OPEN, 3},
    {THREE_SHARDS, FORCE | SYNC | NO_FOLDER_OPEN, 1},
    {KILLED_EARLY, FORCE, 3},
    {KILLED_EARLY, FORCE | NO_LINKS, 3},
    {KILLED_EARLY, FORCE, 1},
    {KILLED_NO_OLD_INDEX, FORCE, 3},
    {KILLED_LATE, FORCE, 3},
    {BAD_INDEX, FORCE, 3},
    {BAD_INDEX, FORCE | 1 * BAD_INDEX_1, 3},
    {BAD_INDEX, FORCE | 2 * BAD_INDEX_1, 3},
    {BAD_INDEX, FORCE | 3 * BAD_INDEX_1, 3},
    {LINKED_INDEX, FORCE, 3},
    {LINKED_INDEX, FORCE | NO_LINKS, 1},
    {INPUT_ITSELF, FORCE, 3},
    {INPUT_ITSELF, 0, 3},
    {READ_SET, 0, 3},
    {READ_SHARD_MISSING, 0, 3},
    {READ_TENSOR_RENAMED, 0, 3},
    {READ_FEW_DESCRIPTORS, 0, 7},
};
#define FEW_DESCRIPTORS 20 /* enough to open five of seven shards at a time */
#define NSCENARIOS      (sizeof scenarios / sizeof *scenarios)

static struct {
    char root[64], folder[80], in[PATH_MAX], out[160], index[160];
    const char *format, *stem, *ext; /* files are named STEM-00001-of-00003EXT */
    struct scenario scenario;
    size_t scenario_number;
    uint64_t max_shard;
    bool running;                /* sets_run() runs: calls may fail */
    bool removal_failed;         /* the call that failed was to remove or rename a file */
    pid_t owner;                 /* the process that removes the folder when it ends; its children do not */
    struct folder before, after; /* before the run, and after a run without failing calls */
    struct folder now;           /* after the last run */
    ckpt_file *file;
    ckpt_status status;
    bool findings_known;        /* expected_findings is set */
    uint64_t expected_findings; /* how many findings each run of ckpt_verify() must report */
} test;

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
int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __real_lstat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
int __real_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
char *__real_realpath(const char *path, char *out);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_fsync(int fd);
int __wrap_link(const char *from, const char *to);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_lstat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int dir, const char *path, int flags);
char *__wrap_realpath(const char *path, char *out);

/* should_fail_now - returns whether the current call must fail; outside of sets_run(), none fails. */
static bool should_fail_now(void)
{
    bool fails = test.running && call_should_fail();
    if (fails)
        errno = EIO;
    return fails;
}

static bool removal_should_fail(void)
{
    bool fails = should_fail_now();
    test.removal_failed |= fails;
    return fails;
}

bool __wrap_fd_pread(int fd, void *out, size_t n, uint64_t off, size_t *got)
{
    return !should_fail_now() && __real_fd_pread(fd, out, n, off, got);
}

/* In a run, does not sync: no file of this test has to survive a crash of the machine. */
int __wrap_fsync(int fd)
{
    struct stat st;
    if (!test.running)
        return __real_fsync(fd);
    if (!(test.scenario.options & NO_FOLDER_SYNC) || fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))
        return should_fail_now() ? -1 : 0;
    errno = test.scenario_number % 2 ? EROFS : EINVAL;
    return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (test.running && test.scenario.options & NO_FOLDER_OPEN && flags & O_DIRECTORY && !(flags & O_PATH)) {
        errno = EACCES;
        return -1;
    }
    return should_fail_now() ? -1 : __real_open(path, flags, mode);
}

int __wrap_link(const char *from, const char *to) { return should_fail_now() ? -1 : __real_link(from, to); }

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (test.running && test.scenario.options & NO_LINKS && from_dir == AT_FDCWD && to_dir == AT_FDCWD) {
        static const int errors[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EXDEV, ENAMETOOLONG, EINVAL};
        errno = errors[test.scenario_number % (sizeof errors / sizeof *errors)];
        return -1;
    }
    return should_fail_now() ? -1 : __real_linkat(from_dir, from, to_dir, to, flags);
}

int __wrap_lstat(const char *path, struct stat *st)
{
    return should_fail_now() ? -1 : __real_lstat(path, st);
}

int __wrap_stat(const char *path, struct stat *st) { return should_fail_now() ? -1 : __real_stat(path, st); }

int __wrap_mkdir(const char *path, mode_t mode) { return should_fail_now() ? -1 : __real_mkdir(path, mode); }

int __wrap_rename(const char *from, const char *to)
{
    return removal_should_fail() ? -1 : __real_rename(from, to);
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return should_fail_now() ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return should_fail_now() ? -1 : __real_renameat2(from_dir, from, to_dir, to, flags);
}

int __wrap_unlink(const char *path) { return removal_should_fail() ? -1 : __real_unlink(path); }

int __wrap_unlinkat(int dir, const char *path, int flags)
{
    return removal_should_fail() ? -1 : __real_unlinkat(dir, path, flags);
}

char *__wrap_realpath(const char *path, char *out)
{
    return should_fail_now() ? NULL : __real_realpath(path, out);
}

/* ---------------------------------------------------- the folder before the run */

/* format_path - writes the path of the file NAME in test.folder to OUT. */
static void format_path(char out[160], const char *name)
{
    if (snprintf(out, 160, "%s/%s", test.folder, name) >= 160)
        die(name);
}

static int progress_should_stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return call_should_fail();
}

/* write_set - writes FILE to OUTPUT in shards of at most MAX bytes (0: one file), with OPTIONS of enum
 * options. If NFILES is not NULL, writes nothing, but sets *NFILES to the number of files that it would
 * write. */
static ckpt_status write_set(ckpt_file *file, const char *output, uint64_t max, unsigned options,
                             size_t *nfiles)
{
    ckpt_plan *plan = NULL;
    ckpt_error err = {0};
    ckpt_write_result res = CKPT_INIT(ckpt_write_result);
    ckpt_write_options opts = {.struct_size = sizeof opts,
                               .format = test.format,
                               .force = options & FORCE,
                               .strict = options & STRICT,
                               .dry_run = nfiles != NULL,
                               .no_sync = !(options & SYNC),
                               .ties = options & COPY_TIES     ? CKPT_TIES_COPY
                                       : options & REFUSE_TIES ? CKPT_TIES_ERROR
                                                               : CKPT_TIES_DROP,
                               .max_shard = max,
                               .progress = progress_should_stop,
                               .threads = 1};
    ckpt_status st = ckpt_plan_new(file, &plan, &err);
    if (st == CKPT_OK)
        st = ckpt_plan_write(plan, output, &opts, &res, &err);
    if (st != CKPT_OK)
        exercise_check_error(st, &err);
    if (nfiles)
        *nfiles = res.noutputs;
    ckpt_plan_free(plan);
    return st;
}

/* write_old_set - writes three tensors of 8 bytes as a set of shards of at most MAX bytes. */
static void write_old_set(uint64_t max)
{
    static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
                                 "\"z\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}";
    char all[8 + sizeof header - 1 + 24] = {0};
    ckpt_file *old = NULL;
    all[0] = (char)(sizeof header - 1);
    memcpy(all + 8, header, sizeof header - 1);
    if (ckpt_open_memory(all, sizeof all, "old", NULL, &old, NULL) != CKPT_OK ||
        write_set(old, test.folder, max, FORCE, NULL) != CKPT_OK)
        die("an older set");
    ckpt_close(old);
}

/* format_shard_paths - writes the path of the K-th shard of the old set to PATH, and that of its backup link
 * to BACKUP. */
static void format_shard_paths(unsigned k, char path[160], char backup[160])
{
    char base[64];
    snprintf(base, sizeof base, "%s-0000%u-of-00003%s", test.stem, k, test.ext);
    format_path(path, base);
    snprintf(backup, 160, "%s/.%s.ckpt-old", test.folder, base);
}

/* write_old_index - writes the index of the old set to PATH, without its last CUT bytes. The index names the
 * shards, or with NAME_BACKUPS their backup links. */
static void write_old_index(const char *path, bool name_backups, size_t cut)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {");
    for (unsigned k = 1; k <= 3; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%c\": \"%s%s-0000%u-of-00003%s%s\"",
                      k > 1 ? ", " : "", "xyz"[k - 1], name_backups ? "." : "", test.stem, k, test.ext,
                      name_backups ? ".ckpt-old" : "");
    n += snprintf(text + n, sizeof text - (size_t)n, "}}");
    folder_write(path, text, (size_t)n - cut);
}

/* leave_killed_run - changes the folder to what a run leaves if it is killed while it replaces the set:
 * CONTENT is KILLED_EARLY, KILLED_NO_OLD_INDEX or KILLED_LATE. */
static void leave_killed_run(enum content content)
{
    bool late = content == KILLED_LATE;
    char path[160], backup[160];
    for (unsigned k = 1; k <= 3; k++) {
        format_shard_paths(k, path, backup);
        if (!late && (rename(path, backup) != 0 || (k == 2 && symlink("nowhere", path) != 0)))
            die(path);
    }
    snprintf(backup, sizeof backup, "%s/.%s%s.index.json.ckpt-old", test.folder, test.stem, test.ext);
    if (content != KILLED_NO_OLD_INDEX)
        write_old_index(backup, false, 0);
    if (!late)
        write_old_index(test.index, true, 0);
}

static void write_text(const char *path, const char *text) { folder_write(path, text, strlen(text)); }

/* prepare_folder - fills the folder as the scenario requires. */
static void prepare_folder(void)
{
    static const char *const bad_indices[] = {
        "{\"metadata\": [1, 2}", "{\"weight_map\": 3}",
        "{\"weight_map\": {\"a\": \"model-0000x-of-00003.safetensors\", \"b\": \".ckpt-old\","
        " \"c\": \".a.ckpt-old\","
        " \"d\": \"model-00001+of-00003.safetensors\", \"e\": \"model-00001-of-00003.bin\","
        " \"f\": \".hidden\","
        " \"g\": \"pytorch_model-000:1-of-00003.bin\", \"h\": \"model-1.safetensors\","
        " \"i\": \"model-00001-of-00003.safetensors\"}}"};
    enum content content = test.scenario.before;
    char path[160];
    folder_empty(test.folder);
    if (content == THREE_SHARDS || content == KILLED_EARLY || content == KILLED_NO_OLD_INDEX ||
        content == KILLED_LATE || content == BAD_INDEX || content == LINKED_INDEX)
        write_old_set(8);
    else if (content == TWO_SHARDS)
        write_old_set(16);
    else if (content == ONE_FILE)
        write_old_set(1000);
    if (content == KILLED_EARLY || content == KILLED_NO_OLD_INDEX || content == KILLED_LATE)
        leave_killed_run(content);
    else if (content == BAD_INDEX && !(test.scenario.options & BAD_INDEX_MASK))
        write_old_index(test.index, false, 20);
    else if (content == BAD_INDEX)
        write_text(test.index, bad_indices[(test.scenario.options & BAD_INDEX_MASK) / BAD_INDEX_1 - 1]);
    else if (content == LINKED_INDEX) {
        format_path(path, "elsewhere.json"); /* what the symbolic link points to */
        if (rename(test.index, path) != 0 || symlink("elsewhere.json", test.index) != 0)
            die(path);
    }
}

/* ------------------------------------------------------------------- scenarios */

static void clean_up(void)
{
    if (getpid() != test.owner)
        return;
    if (access(test.folder, F_OK) == 0)
        folder_empty(test.folder);
    rmdir(test.folder);
    rmdir(test.root);
}

void sets_begin(void)
{
    snprintf(test.root, sizeof test.root, "%s/ckpt-sets-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(test.root))
        die(test.root);
    snprintf(test.folder, sizeof test.folder, "%s/set", test.root);
    test.owner = getpid();
    atexit(clean_up);
}

static void open_input(const char *path)
{
    ckpt_close(test.file);
    test.file = NULL;
    if (ckpt_open(path, NULL, &test.file, NULL) != CKPT_OK)
        die(path);
}

/* choose_max_shard - sets test.max_shard to a size with which no more shards are written than the scenario
 * requires. */
static void choose_max_shard(void)
{
    size_t nfiles = 0;
    if (test.scenario.shards <= 1) {
        test.max_shard = test.scenario.shards ? UINT64_C(1) << 40 : 0;
        return;
    }
    test.max_shard = 4;
    while (test.max_shard < 1u << 20 &&
           write_set(test.file, test.out, test.max_shard, FORCE, &nfiles) == CKPT_OK &&
           nfiles > test.scenario.shards + 1) /* 1: the index */
        test.max_shard += test.max_shard / 2;
}

static void read_test_folder(struct folder *f)
{
    folder_free(f);
    if (access(test.folder, F_OK) == 0)
        folder_read(f, test.folder);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), nend = strlen(end);
    return n >= nend && strcmp(name + n - nend, end) == 0;
}

/* damage_set - removes a shard of the set in F, or renames a tensor in the index, as the scenario requires.
 * Returns false if F holds no set. */
static bool damage_set(struct folder *f)
{
    size_t json = 0, shard = 0; /* where in f->file the index file of the set and a shard are */
    while (json < f->n && !ends_with(f->file[json].name, ".json"))
        json++;
    while (shard < f->n && ends_with(f->file[shard].name, ".json"))
        shard++;
    if (json == f->n || shard == f->n)
        return false;
    if (test.scenario.before == READ_SHARD_MISSING) {
        free(f->file[shard].bytes);
        memmove(&f->file[shard], &f->file[shard + 1], (--f->n - shard) * sizeof *f->file);
        return true;
    }
    if (test.scenario.before != READ_TENSOR_RENAMED)
        return true;
    char *text = f->file[json].bytes, *end = text + f->file[json].size;
    static const char key[] = "\"weight_map\"";
    char *map = memmem(text, (size_t)(end - text), key, strlen(key));
    char *after_key = map ? map + strlen(key) : end,
         *name = memchr(after_key, '"', (size_t)(end - after_key));
    if (!name || end - name < 3)
        die("the index has no name");
    name[1] = '~';
    return true;
}

/* Number K is scenario K / 2 of the table: with safetensors if K is even, with torch.save archives if odd. */
size_t sets_count(void) { return 2 * NSCENARIOS; }

bool sets_set_up(const char *path, size_t k)
{
    struct stat st;
    bool is_set = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_set && !reads_set(scenarios[k / 2].before))
        return false;
    test.scenario = scenarios[k / 2];
    test.scenario_number = k;
    test.format = k % 2 ? "torch-zip" : "safetensors";
    test.stem = k % 2 ? "pytorch_model" : "model";
    test.ext = k % 2 ? ".bin" : ".safetensors";
    snprintf(test.in, sizeof test.in, "%s", path);
    if (mkdir(test.folder, 0700) != 0 && errno != EEXIST)
        die(test.folder);
    char base[64];
    snprintf(base, sizeof base, "%s%s", test.stem, test.ext);
    format_path(test.out, test.scenario.options & TO_FILE ? base : "");
    snprintf(base, sizeof base, "%s%s.index.json", test.stem, test.ext);
    format_path(test.index, base);
    prepare_folder();
    open_input(path);
    if (test.scenario.before == INPUT_ITSELF) {
        snprintf(test.in, sizeof test.in, "%s/%s%s", test.folder, test.stem, test.ext);
        if (write_set(test.file, test.in, 0, 0, NULL) != CKPT_OK)
            return false;
    }
    choose_max_shard();
    if (is_set) {
        folder_read(&test.before, path);
        snprintf(test.in, sizeof test.in, "%s", test.folder);
    } else if (reads_set(test.scenario.before)) {
        if (write_set(test.file, test.out, test.max_shard, 0, NULL) != CKPT_OK)
            return false;
        snprintf(test.in, sizeof test.in, "%s", test.folder);
        read_test_folder(&test.before);
    } else {
        read_test_folder(&test.before);
    }
    if (reads_set(test.scenario.before) && test.scenario.before != READ_SET && !damage_set(&test.before))
        return false;
    test.findings_known = false;
    sets_restore();
    sets_run();
    if (test.status == CKPT_EIO && (test.scenario.options & (NO_FOLDER_SYNC | NO_FOLDER_OPEN) ||
                                    test.scenario.before == READ_FEW_DESCRIPTORS))
        die("the scenario fails without a failing call");
    read_test_folder(&test.after);
    return true;
}

void sets_restore(void)
{
    if (mkdir(test.folder, 0700) != 0 && errno != EEXIST)
        die(test.folder);
    folder_restore(&test.before, test.folder);
    if (test.scenario.before == ABSENT && rmdir(test.folder) != 0)
        die(test.folder);
    if (!reads_set(test.scenario.before))
        open_input(test.in);
}

static int on_finding(void *user, const ckpt_finding *f)
{
    (void)user;
    exercise_check_error(f->error->status, f->error);
    return call_should_fail();
}

/* verify_set - runs ckpt_verify() and checks that it reports the same number of findings each time that it
 * succeeds. */
static void verify_set(void)
{
    ckpt_error err = {0};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    ckpt_status st = ckpt_verify(test.in, NULL, on_finding, NULL, &r, &err);
    if (st != CKPT_OK)
        exercise_check_error(st, &err);
    else if (test.findings_known && r.findings != test.expected_findings)
        exercise_abort("the number of findings has changed");
    else if (!r.findings &&
             (test.scenario.before == READ_SHARD_MISSING || test.scenario.before == READ_TENSOR_RENAMED))
        exercise_abort("a damaged set has no finding");
    test.findings_known |= st == CKPT_OK;
    test.expected_findings = st == CKPT_OK ? r.findings : test.expected_findings;
}

/* read_set - verifies and reads the set, and writes its tensors to two other files in the folder. */
static void read_set(void)
{
    ckpt_file *file = NULL;
    ckpt_error err = {0};
    char one_file[160];
    verify_set();
    test.status = ckpt_open(test.in, NULL, &file, &err);
    if (test.status != CKPT_OK) {
        exercise_check_error(test.status, &err);
        return;
    }
    exercise_file(file);
    format_path(one_file, "again.pt");
    test.format = NULL;
    test.status = write_set(file, one_file, test.max_shard, 0, NULL);
    if (test.status == CKPT_OK)
        test.status = write_set(file, test.folder, 0, FORCE, NULL);
    ckpt_close(file);
}

/* limit_open_files - limits the number of open files to N; 0 restores the original limit. */
static void limit_open_files(rlim_t n)
{
    static struct rlimit original;
    if (n && getrlimit(RLIMIT_NOFILE, &original) != 0)
        die("getrlimit");
    struct rlimit now = {n ? n : original.rlim_cur, original.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &now) != 0)
        die("setrlimit");
}

void sets_run(void)
{
    bool few_descriptors = test.scenario.before == READ_FEW_DESCRIPTORS;
    test.removal_failed = false;
    if (few_descriptors)
        limit_open_files(FEW_DESCRIPTORS);
    test.running = true;
    if (reads_set(test.scenario.before))
        read_set();
    else
        test.status = write_set(test.file, test.out, test.max_shard, test.scenario.options, NULL);
    test.running = false;
    if (few_descriptors)
        limit_open_files(0);
}

static void print_folder(const struct folder *f, const char *title)
{
    fprintf(stderr, "%s:", title);
    for (size_t i = 0; i < f->n; i++)
        fprintf(stderr, " %s (%zu)", f->file[i].name, f->file[i].size);
    fputc('\n', stderr);
}

static void report_and_abort(const char *what)
{
    print_folder(&test.before, "before the run");
    print_folder(&test.after, "after a complete run");
    print_folder(&test.now, "now");
    exercise_abort(what);
}

/* has_all_files_of - returns whether test.now contains each file of F. */
static bool has_all_files_of(const struct folder *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct folder_file *now = folder_find(&test.now, f->file[i].name);
        if (!now || !folder_file_equals(now, &f->file[i], FOLDER_CONTENT))
            return false;
    }
    return true;
}

/* has_index_of - returns whether test.now contains the index that F contains. */
static bool has_index_of(const struct folder *f)
{
    const char *name = test.scenario.before == LINKED_INDEX ? "elsewhere.json" : strrchr(test.index, '/') + 1;
    const struct folder_file *index = folder_find(f, name), *now = folder_find(&test.now, name);
    return index && now && folder_file_equals(index, now, FOLDER_CONTENT);
}

/* is_readable - returns whether the set can be opened. Shards of the old and the new set do not open
 * together, because their tensors have different names. */
static bool is_readable(void)
{
    ckpt_file *file = NULL;
    bool yes = ckpt_open(test.folder, NULL, &file, NULL) == CKPT_OK;
    ckpt_close(file);
    return yes;
}

/* is_mixed_set - returns whether test.now contains the old or the new index without the shards of that set.
 * Files that a killed run left belong to neither set and may be missing. */
static bool is_mixed_set(void)
{
    bool old_index = has_index_of(&test.before), new_index = has_index_of(&test.after);
    bool complete = (old_index && has_all_files_of(&test.before)) ||
                    (new_index && has_all_files_of(&test.after));
    return (old_index || new_index) && !complete && !is_readable();
}

void sets_check(void)
{
    read_test_folder(&test.now);
    bool as_before = reads_set(test.scenario.before) ? has_all_files_of(&test.before)
                                                     : folder_equals(&test.now, &test.before, FOLDER_CONTENT);
    bool as_after = folder_equals(&test.now, &test.after, FOLDER_CONTENT);
    if (test.removal_failed || test.scenario.options & NO_LINKS || test.scenario.before == LINKED_INDEX) {
        if (is_mixed_set())
            report_and_abort("the index is of one set, and the shards are of the other");
    } else if (reads_set(test.scenario.before)) {
        if (!as_before)
            report_and_abort("reading changed a file of the set");
    } else if (test.status == CKPT_OK) {
        if (!as_after)
            report_and_abort("writing succeeded, but the folder is not as after a complete run");
    } else if (test.scenario.before >= KILLED_EARLY && test.scenario.before <= KILLED_LATE) {
        if (!is_readable())
            report_and_abort("neither set can be read");
    } else if (!as_before && !as_after && test.scenario.before != BAD_INDEX) {
        /* with BAD_INDEX, shards that no index names may be replaced */
        report_and_abort("the folder is neither as before the run nor as after a complete run");
    }
}
