/* Sinks: output appears whole or not at all, and what was there before stays
 * until then. */
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
static const struct sink_options force = {.force = true, .no_sync = true};

static const char *at(const char *name)
{
    static char paths[4][400];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int entries(void)
{
    int n = -2;
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "w");
    CU_ASSERT_FATAL(f != NULL);
    fputs(text, f);
    fclose(f);
}

static bool holds(const char *name, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(at(name), "r");
    size_t n = f ? fread(got, 1, sizeof got - 1, f) : 0;
    if (f)
        fclose(f);
    got[n] = '\0';
    return f && n == strlen(text) && memcmp(got, text, n) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    return stat(at(name), &st) == 0 ? st.st_mode & 07777 : 0;
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/unit-sink-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
}

/* remove_dir - with the files named, which must be all there are. */
static void remove_dir(const char *a, const char *b)
{
    if (a)
        CU_ASSERT(unlink(at(a)) == 0);
    if (b)
        CU_ASSERT(unlink(at(b)) == 0);
    CU_ASSERT(rmdir(dir) == 0);
}

static ckpt_status save(const char *path, const struct sink_options *o, const char *text, ckpt_error *err)
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

static void new_file_appears_on_commit(void)
{
    sink *s;
    ckpt_error err;
    make_dir();
    mode_t old = umask(027);
    CU_ASSERT_FATAL(sink_file(at("out"), NULL, &s, &err) == CKPT_OK);
    CU_ASSERT(sink_reserve(s, 100000, &err) == CKPT_OK);
    CU_ASSERT(sink_write(s, "hello", 5, &err) == CKPT_OK && sink_tell(s) == 5);
    CU_ASSERT(access(at("out"), F_OK) != 0);
    CU_ASSERT(sink_commit(s, &err) == CKPT_OK);
    umask(old);
    CU_ASSERT(holds("out", "hello") && mode_of("out") == 0640 && entries() == 1);
    remove_dir("out", NULL);
}

static void abort_leaves_the_old_one(void)
{
    sink *s;
    make_dir();
    put("out", "old");
    CU_ASSERT_FATAL(sink_file(at("out"), &force, &s, NULL) == CKPT_OK);
    CU_ASSERT(sink_write(s, "new", 3, NULL) == CKPT_OK);
    sink_abort(s);
    sink_abort(NULL);
    CU_ASSERT(holds("out", "old") && entries() == 1);
    remove_dir("out", NULL);
}

static void existing_is_refused_without_force(void)
{
    sink *s;
    ckpt_error err;
    make_dir();
    put("out", "old");
    CU_ASSERT(sink_file(at("out"), NULL, &s, &err) == CKPT_EEXIST);
    CU_ASSERT(strcmp(err.file, at("out")) == 0 && strstr(err.what, "exists") && strstr(err.hint, "-f"));
    unlink(at("out"));
    /* also when somebody makes it while we write */
    CU_ASSERT_FATAL(sink_file(at("out"), NULL, &s, &err) == CKPT_OK);
    put("out", "theirs");
    CU_ASSERT(sink_commit(s, &err) == CKPT_EEXIST && strcmp(err.file, at("out")) == 0);
    CU_ASSERT(holds("out", "theirs") && entries() == 1);
    remove_dir("out", NULL);
}

static void replacing_keeps_attributes(void)
{
    ckpt_error err;
    make_dir();
    put("out", "old");
    CU_ASSERT(chmod(at("out"), 0604) == 0);
    bool can_xattr = setxattr(at("out"), "user.note", "kept", 4, 0) == 0;
    bool can_chown = chown(at("out"), 12, 34) == 0;
    CU_ASSERT(save(at("out"), &force, "new", &err) == CKPT_OK);
    CU_ASSERT(holds("out", "new") && mode_of("out") == 0604 && entries() == 1);
    char note[8] = "";
    CU_ASSERT(!can_xattr || (getxattr(at("out"), "user.note", note, 8) == 4 && memcmp(note, "kept", 4) == 0));
    struct stat st;
    CU_ASSERT(stat(at("out"), &st) == 0 && (!can_chown || (st.st_uid == 12 && st.st_gid == 34)));
    remove_dir("out", NULL);
}

static void count_notice(void *user, const char *fmt, ...)
{
    va_list ap;
    char text[512];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    *(int *)user |= strstr(text, "owner, user 12,") ? 1 : strstr(text, "group 34 could") ? 2 : 4;
}

/* As a user who may give nothing away: only root can become one here. */
static void an_owner_that_is_lost_is_told(void)
{
    ckpt_error err;
    make_dir();
    put("out", "old");
    if (geteuid() == 0 && chown(at("out"), 12, 34) == 0 && chmod(dir, 0777) == 0) {
        pid_t child = fork();
        if (child == 0) {
            int heard = 0;
            struct sink_options o = {.force = true, .no_sync = true, .notice = count_notice, .user = &heard};
            bool other = setegid(4321) == 0 && seteuid(4321) == 0;
            _exit(!other || save(at("out"), &o, "new", &err) != CKPT_OK ? 100 : heard);
        }
        int how = 0;
        CU_ASSERT(child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 3);
        CU_ASSERT(holds("out", "new"));
    }
    int heard = 0;
    struct sink_options o = {.force = true, .no_sync = true, .notice = count_notice, .user = &heard};
    CU_ASSERT(save(at("out"), &o, "newer", &err) == CKPT_OK && heard == 0);
    remove_dir("out", NULL);
}

static void links_lead_to_their_file(void)
{
    struct stat st;
    ckpt_error err;
    make_dir();
    put("real", "old");
    CU_ASSERT(symlink("real", at("link")) == 0);
    CU_ASSERT(save(at("link"), NULL, "new", &err) == CKPT_EEXIST);
    CU_ASSERT(save(at("link"), &force, "new", &err) == CKPT_OK);
    CU_ASSERT(holds("real", "new") && lstat(at("link"), &st) == 0 && S_ISLNK(st.st_mode));
    unlink(at("real"));
    CU_ASSERT(save(at("link"), NULL, "made", &err) == CKPT_OK && holds("real", "made"));
    unlink(at("real"));
    unlink(at("link"));
    CU_ASSERT(symlink("link", at("link")) == 0);
    CU_ASSERT(save(at("link"), NULL, "x", &err) == CKPT_EIO && err.sys_errno == ELOOP);
    remove_dir("link", NULL);
}

/* Writes of every size, zeros, patches before and behind the flushed part,
 * and reading back: all against a plain array. */
static void bytes_are_those_written(void)
{
    enum { MOST = 3000000 };
    unsigned char *want = calloc(1, MOST), *got = malloc(MOST), *bytes = malloc(600000);
    uint32_t seed = 3;
    sink *s;
    make_dir();
    CU_ASSERT_FATAL(sink_file(at("out"), &force, &s, NULL) == CKPT_OK);
    for (size_t len = 0; len < MOST - 700000;) {
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
    FILE *f = fopen(at("out"), "rb");
    CU_ASSERT(f && fread(got, 1, MOST, f) == len && memcmp(got, want, len) == 0);
    if (f)
        fclose(f);
    free(want);
    free(got);
    free(bytes);
    remove_dir("out", NULL);
}

/* child - runs TEST in a child with standard output into OUT; its exit code. */
static int child(const char *out, int (*test)(void))
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

static int stdout_whole(void) { return (int)save("-", NULL, "to stdout", NULL); }

static int stdout_named(void) { return (int)save("/dev/stdout", NULL, "by name", NULL); }

static int stdout_aborted(void)
{
    sink *s;
    int st = (int)sink_file("-", NULL, &s, NULL);
    st |= (int)sink_write(s, "never", 5, NULL);
    sink_abort(s);
    return st;
}

static void standard_output_gets_all_or_nothing(void)
{
    make_dir();
    CU_ASSERT(child(at("out"), stdout_whole) == CKPT_OK && holds("out", "to stdout"));
    CU_ASSERT(child(at("out"), stdout_named) == CKPT_OK && holds("out", "by name"));
    CU_ASSERT(child(at("out"), stdout_aborted) == CKPT_OK && holds("out", ""));
    CU_ASSERT(child("/dev/full", stdout_whole) == CKPT_EIO);
    remove_dir("out", NULL);
}

static void devices_and_pipes_are_written_to(void)
{
    struct stat st;
    ckpt_error err;
    CU_ASSERT(save("/dev/null", NULL, "x", &err) == CKPT_OK);
    CU_ASSERT(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    CU_ASSERT(save("/dev/full", NULL, "x", &err) == CKPT_EIO && err.sys_errno == ENOSPC);
    make_dir();
    CU_ASSERT(mkfifo(at("fifo"), 0600) == 0);
    int fd = open(at("fifo"), O_RDONLY | O_NONBLOCK);
    char got[8] = "";
    CU_ASSERT(save(at("fifo"), NULL, "piped", &err) == CKPT_OK);
    CU_ASSERT(read(fd, got, 8) == 5 && strcmp(got, "piped") == 0);
    close(fd);
    remove_dir("fifo", NULL);
}

static void what_cannot_be_is_said(void)
{
    ckpt_error err;
    make_dir();
    CU_ASSERT(save(dir, &force, "x", &err) == CKPT_EIO && err.sys_errno == EISDIR);
    CU_ASSERT(save(at("none/out"), NULL, "x", &err) == CKPT_ENOTFOUND && strstr(err.what, "none"));
    CU_ASSERT(save(at("none/"), NULL, "x", &err) == CKPT_EUSAGE);
    sink *s;
    CU_ASSERT_FATAL(sink_file(at("out"), NULL, &s, &err) == CKPT_OK);
    CU_ASSERT(sink_reserve(s, UINT64_MAX, &err) == CKPT_EIO);
    /* 8 TiB: more than a disk for tests has, less than most file systems refuse as such */
    CU_ASSERT(sink_reserve(s, (uint64_t)1 << 43, &err) == CKPT_EIO);
    CU_ASSERT(err.sys_errno != ENOSPC || strstr(err.hint, "are needed"));
    sink_abort(s);
    CU_ASSERT(entries() == 0);
    remove_dir(NULL, NULL);
}

/* limited - in a child whose files may have 4096 bytes. */
static int limited(void)
{
    sink *s;
    ckpt_error err;
    static char bytes[300000];
    struct rlimit four = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &four) != 0 || sink_file(at("out"), &force, &s, &err) != CKPT_OK)
        return 98;
    if (sink_write(s, bytes, sizeof bytes, &err) != CKPT_EIO || err.sys_errno != EFBIG)
        return 97;
    return (int)sink_commit(s, &err);
}

static void after_a_failed_write_nothing_is_committed(void)
{
    make_dir();
    put("out", "old");
    CU_ASSERT(child("/dev/null", limited) == CKPT_EIO);
    CU_ASSERT(holds("out", "old") && entries() == 1);
    remove_dir("out", NULL);
}

static void memory_has_a_maximum(void)
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
    UNIT(new_file_appears_on_commit);
    UNIT(abort_leaves_the_old_one);
    UNIT(existing_is_refused_without_force);
    UNIT(replacing_keeps_attributes);
    UNIT(an_owner_that_is_lost_is_told);
    UNIT(links_lead_to_their_file);
    UNIT(bytes_are_those_written);
    UNIT(standard_output_gets_all_or_nothing);
    UNIT(devices_and_pipes_are_written_to);
    UNIT(what_cannot_be_is_said);
    UNIT(after_a_failed_write_nothing_is_committed);
    UNIT(memory_has_a_maximum);
}
