/* Sinks: a file appears, or replaces an older one, only when it is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "io/sink.h"
#include "unit.h"

static char dir[64];
static const struct sink_options force_options = {.force = true, .no_sync = true};

static const char *path_of(const char *name)
{
    static char paths[4][400];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int count_files(void)
{
    int n = -2; /* without "." and ".." */
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    CU_ASSERT_FATAL(f != NULL);
    fputs(text, f);
    fclose(f);
}

static bool file_is(const char *name, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path_of(name), "r");
    size_t n = f ? fread(got, 1, sizeof got - 1, f) : 0;
    if (f)
        fclose(f);
    got[n] = '\0';
    return f && n == strlen(text) && memcmp(got, text, n) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return stat(path_of(name), &st) == 0 ? st.st_mode & 07777 : 0;
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/unit-sink-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
}

/* remove_dir - removes the files A and B (NULL: none) and the folder, which must have no others. */
static void remove_dir(const char *a, const char *b)
{
    if (a)
        CU_ASSERT(unlink(path_of(a)) == 0);
    if (b)
        CU_ASSERT(unlink(path_of(b)) == 0);
    CU_ASSERT(rmdir(dir) == 0);
}

static ckpt_status write_file(const char *path, const struct sink_options *o, const char *text,
                              ckpt_error *err)
{
    sink *s;
    ckpt_status st = sink_file(path, o, &s, err);
    if (st != CKPT_OK)
        return st;
    st = sink_write(s, text, strlen(text), err);
    if (st == CKPT_OK)
        return sink_commit(s, err);
    sink_abort(s);
    return st;
}

static void a_new_file_appears_on_commit(void)
{
    sink *s;
    ckpt_error err;
    make_dir();
    mode_t old_umask = umask(027);
    CU_ASSERT_FATAL(sink_file(path_of("out"), NULL, &s, &err) == CKPT_OK);
    CU_ASSERT(sink_reserve(s, 100000, &err) == CKPT_OK);
    CU_ASSERT(sink_write(s, "hello", 5, &err) == CKPT_OK && sink_tell(s) == 5);
    CU_ASSERT(access(path_of("out"), F_OK) != 0);
    CU_ASSERT(sink_commit(s, &err) == CKPT_OK);
    umask(old_umask);
    CU_ASSERT(file_is("out", "hello") && mode_of("out") == 0640 && count_files() == 1);
    remove_dir("out", NULL);
}

static void aborting_keeps_the_old_file(void)
{
    sink *s;
    make_dir();
    put_file("out", "old");
    CU_ASSERT_FATAL(sink_file(path_of("out"), &force_options, &s, NULL) == CKPT_OK);
    CU_ASSERT(sink_write(s, "new", 3, NULL) == CKPT_OK);
    sink_abort(s);
    sink_abort(NULL);
    CU_ASSERT(file_is("out", "old") && count_files() == 1);
    remove_dir("out", NULL);
}

static void existing_files_are_refused_without_force(void)
{
    sink *s;
    ckpt_error err;
    make_dir();
    put_file("out", "old");
    CU_ASSERT(sink_file(path_of("out"), NULL, &s, &err) == CKPT_EEXIST);
    CU_ASSERT(strcmp(err.file, path_of("out")) == 0 && strstr(err.what, "exists") && strstr(err.hint, "-f"));
    unlink(path_of("out"));
    /* a file that appears during the write is not replaced either */
    CU_ASSERT_FATAL(sink_file(path_of("out"), NULL, &s, &err) == CKPT_OK);
    put_file("out", "theirs");
    CU_ASSERT(sink_commit(s, &err) == CKPT_EEXIST && strcmp(err.file, path_of("out")) == 0);
    CU_ASSERT(file_is("out", "theirs") && count_files() == 1);
    remove_dir("out", NULL);
}

static void a_replaced_file_keeps_its_attributes(void)
{
    ckpt_error err;
    make_dir();
    put_file("out", "old");
    CU_ASSERT(chmod(path_of("out"), 0604) == 0);
    bool can_xattr = setxattr(path_of("out"), "user.note", "kept", 4, 0) == 0;
    bool can_chown = chown(path_of("out"), 12, 34) == 0;
    CU_ASSERT(write_file(path_of("out"), &force_options, "new", &err) == CKPT_OK);
    CU_ASSERT(file_is("out", "new") && mode_of("out") == 0604 && count_files() == 1);
    char note[8] = "";
    CU_ASSERT(!can_xattr ||
              (getxattr(path_of("out"), "user.note", note, 8) == 4 && memcmp(note, "kept", 4) == 0));
    struct stat st;
    CU_ASSERT(stat(path_of("out"), &st) == 0 && (!can_chown || (st.st_uid == 12 && st.st_gid == 34)));
    remove_dir("out", NULL);
}

/* record_notice - sets a bit of *USER: bit 0 for the notice of a lost owner, bit 1 for that of a lost group,
 * bit 2 for any other. */
static void record_notice(void *user, const char *fmt, ...)
{
    va_list ap;
    char text[512];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *(int *)user |= strstr(text, "owner, user 12,") ? 1 : strstr(text, "group 34 could") ? 2 : 4;
}

/* Only root can test the loss of an owner, by switching to a user who cannot change owners. */
static void a_lost_owner_is_noticed(void)
{
    ckpt_error err;
    make_dir();
    put_file("out", "old");
    if (geteuid() == 0 && chown(path_of("out"), 12, 34) == 0 && chmod(dir, 0777) == 0) {
        pid_t child = fork();
        if (child == 0) {
            int notices = 0;
            struct sink_options o = {
                .force = true, .no_sync = true, .notice = record_notice, .user = &notices};
            bool is_other_user = setegid(4321) == 0 && seteuid(4321) == 0;
            _exit(!is_other_user || write_file(path_of("out"), &o, "new", &err) != CKPT_OK ? 100 : notices);
        }
        int status = 0;
        CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 3); /* the notices of the owner and of the group */
        CU_ASSERT(file_is("out", "new"));
    }
    /* this process can keep the owner: no notice */
    int notices = 0;
    struct sink_options o = {.force = true, .no_sync = true, .notice = record_notice, .user = &notices};
    CU_ASSERT(write_file(path_of("out"), &o, "newer", &err) == CKPT_OK && notices == 0);
    remove_dir("out", NULL);
}

static void symbolic_links_are_followed(void)
{
    struct stat st;
    ckpt_error err;
    make_dir();
    put_file("real", "old");
    CU_ASSERT(symlink("real", path_of("link")) == 0);
    CU_ASSERT(write_file(path_of("link"), NULL, "new", &err) == CKPT_EEXIST);
    CU_ASSERT(write_file(path_of("link"), &force_options, "new", &err) == CKPT_OK);
    CU_ASSERT(file_is("real", "new") && lstat(path_of("link"), &st) == 0 && S_ISLNK(st.st_mode));
    unlink(path_of("real"));
    CU_ASSERT(write_file(path_of("link"), NULL, "made", &err) == CKPT_EEXIST);
    CU_ASSERT(access(path_of("real"), F_OK) != 0);
    CU_ASSERT(write_file(path_of("link"), &force_options, "made", &err) == CKPT_OK);
    CU_ASSERT(file_is("real", "made"));
    unlink(path_of("real"));
    unlink(path_of("link"));
    CU_ASSERT(symlink("link", path_of("link")) == 0);
    CU_ASSERT(write_file(path_of("link"), NULL, "x", &err) == CKPT_EIO && err.sys_errno == ELOOP);
    remove_dir("link", NULL);
}

/* A sink and an array get the same writes and patches, of random sizes and offsets, and must stay equal. */
static void random_writes_and_patches_are_read_back(void)
{
    enum { MAX_SIZE = 3000000 };
    unsigned char *want = calloc(1, MAX_SIZE), *got = malloc(MAX_SIZE), *bytes = malloc(600000);
    uint32_t seed = 3;
    sink *s;
    make_dir();
    CU_ASSERT_FATAL(sink_file(path_of("out"), &force_options, &s, NULL) == CKPT_OK);
    for (size_t len = 0; len < MAX_SIZE - 700000;) {
        seed = seed * 1664525 + 1013904223;
        size_t n = (seed >> 8) % (seed & 0x80 ? 600000u : 900u);
        memset(bytes, (int)(seed >> 24), n);
        CU_ASSERT(sink_write(s, bytes, n, NULL) == CKPT_OK);
        memcpy(want + len, bytes, n);
        len += n;
        CU_ASSERT(sink_tell(s) == len);
        size_t off = len > n ? (seed >> 4) % (len - n + 1) : 0;
        memset(bytes, 0x5A, n);
        CU_ASSERT(sink_patch(s, off, bytes, n, NULL) == CKPT_OK);
        memcpy(want + off, bytes, n);
        CU_ASSERT(sink_read(s, 0, got, len, NULL) == CKPT_OK && memcmp(got, want, len) == 0);
        CU_ASSERT(sink_patch(s, len, bytes, 1, NULL) == CKPT_EUSAGE);
        CU_ASSERT(sink_read(s, UINT64_MAX, got, 1, NULL) == CKPT_EUSAGE);
    }
    size_t len = (size_t)sink_tell(s);
    CU_ASSERT(sink_commit(s, NULL) == CKPT_OK);
    FILE *f = fopen(path_of("out"), "rb");
    CU_ASSERT(f && fread(got, 1, MAX_SIZE, f) == len && memcmp(got, want, len) == 0);
    if (f)
        fclose(f);
    free(want);
    free(got);
    free(bytes);
    remove_dir("out", NULL);
}

/* run_child - runs TEST in a child process whose standard output is the file OUT; returns the exit code. */
static int run_child(const char *out, int (*test)(void))
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        _exit(fd < 0 || dup2(fd, STDOUT_FILENO) < 0 ? 99 : test());
    }
    CU_ASSERT(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int write_stdout(void) { return (int)write_file("-", NULL, "to stdout", NULL); }

static int write_dev_stdout(void) { return (int)write_file("/dev/stdout", NULL, "by name", NULL); }

static int abort_stdout(void)
{
    sink *s;
    int st = (int)sink_file("-", NULL, &s, NULL);
    st |= (int)sink_write(s, "never", 5, NULL);
    sink_abort(s);
    return st;
}

static void standard_output_is_written_completely_or_not_at_all(void)
{
    make_dir();
    CU_ASSERT(run_child(path_of("out"), write_stdout) == CKPT_OK && file_is("out", "to stdout"));
    CU_ASSERT(run_child(path_of("out"), write_dev_stdout) == CKPT_OK && file_is("out", "by name"));
    CU_ASSERT(run_child(path_of("out"), abort_stdout) == CKPT_OK && file_is("out", ""));
    CU_ASSERT(run_child("/dev/full", write_stdout) == CKPT_EIO);
    remove_dir("out", NULL);
}

static void devices_and_pipes_are_written_to(void)
{
    struct stat st;
    ckpt_error err;
    CU_ASSERT(write_file("/dev/null", NULL, "x", &err) == CKPT_OK);
    CU_ASSERT(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    CU_ASSERT(write_file("/dev/full", NULL, "x", &err) == CKPT_EIO && err.sys_errno == ENOSPC);
    make_dir();
    CU_ASSERT(mkfifo(path_of("fifo"), 0600) == 0);
    int fd = open(path_of("fifo"), O_RDONLY | O_NONBLOCK);
    char got[8] = "";
    CU_ASSERT(write_file(path_of("fifo"), NULL, "piped", &err) == CKPT_OK);
    CU_ASSERT(read(fd, got, 8) == 5 && strcmp(got, "piped") == 0);
    close(fd);
    remove_dir("fifo", NULL);
}

static void impossible_outputs_are_refused(void)
{
    ckpt_error err;
    make_dir();
    CU_ASSERT(write_file(dir, &force_options, "x", &err) == CKPT_EIO && err.sys_errno == EISDIR);
    CU_ASSERT(write_file(path_of("none/out"), NULL, "x", &err) == CKPT_ENOTFOUND && strstr(err.what, "none"));
    CU_ASSERT(write_file(path_of("none/"), NULL, "x", &err) == CKPT_EUSAGE);
    sink *s;
    CU_ASSERT_FATAL(sink_file(path_of("out"), NULL, &s, &err) == CKPT_OK);
    CU_ASSERT(sink_reserve(s, UINT64_MAX, &err) == CKPT_EIO);
    /* 8 TiB are more than a test disk has, but a size that most file systems allow */
    CU_ASSERT(sink_reserve(s, (uint64_t)1 << 43, &err) == CKPT_EIO);
    CU_ASSERT(err.sys_errno != ENOSPC || strstr(err.hint, "are needed"));
    sink_abort(s);
    CU_ASSERT(count_files() == 0);
    remove_dir(NULL, NULL);
}

/* write_limited - writes 300000 bytes although files are limited to 4096 bytes, and then commits. Returns the
 * status of the commit. */
static int write_limited(void)
{
    sink *s;
    ckpt_error err;
    static char bytes[300000];
    struct rlimit size_limit = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &size_limit) != 0 ||
        sink_file(path_of("out"), &force_options, &s, &err) != CKPT_OK)
        return 98;
    if (sink_write(s, bytes, sizeof bytes, &err) != CKPT_EIO || err.sys_errno != EFBIG)
        return 97;
    return (int)sink_commit(s, &err);
}

static void a_failed_write_cannot_be_committed(void)
{
    make_dir();
    put_file("out", "old");
    CU_ASSERT(run_child("/dev/null", write_limited) == CKPT_EIO);
    CU_ASSERT(file_is("out", "old") && count_files() == 1);
    remove_dir("out", NULL);
}

static void memory_sinks_have_a_maximum(void)
{
    sink *s;
    ckpt_error err;
    CU_ASSERT_FATAL(sink_mem(10, NULL, &s, &err) == CKPT_OK);
    CU_ASSERT(sink_reserve(s, 11, &err) == CKPT_ELIMIT && sink_reserve(s, 10, &err) == CKPT_OK);
    CU_ASSERT(sink_write(s, "12345678", 8, &err) == CKPT_OK && sink_write(s, "abc", 3, &err) == CKPT_ELIMIT);
    CU_ASSERT(sink_tell(s) == 8 && sink_write(s, "\0", 2, &err) == CKPT_OK);
    CU_ASSERT(sink_patch(s, 1, "XY", 2, &err) == CKPT_OK && sink_patch(s, 9, "XY", 2, &err) == CKPT_EUSAGE);
    char got[10];
    CU_ASSERT(sink_read(s, 0, got, 10, &err) == CKPT_OK && memcmp(got, "1XY45678\0\0", 10) == 0);
    CU_ASSERT(sink_mem_view(s).len == 10);
    CU_ASSERT(sink_commit(s, &err) == CKPT_OK);
}

void suite_sink(void)
{
    UNIT(a_new_file_appears_on_commit);
    UNIT(aborting_keeps_the_old_file);
    UNIT(existing_files_are_refused_without_force);
    UNIT(a_replaced_file_keeps_its_attributes);
    UNIT(a_lost_owner_is_noticed);
    UNIT(symbolic_links_are_followed);
    UNIT(random_writes_and_patches_are_read_back);
    UNIT(standard_output_is_written_completely_or_not_at_all);
    UNIT(devices_and_pipes_are_written_to);
    UNIT(impossible_outputs_are_refused);
    UNIT(a_failed_write_cannot_be_committed);
    UNIT(memory_sinks_have_a_maximum);
}
