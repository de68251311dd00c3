/* Sources: each kind reads the same bytes, and refuses to read beyond the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/source.h"
#include "unit.h"

#define TEXT      "the quick brown fox"
#define TEXT_SIZE 19u

static char path[64];

static void put_file(const void *bytes, size_t n)
{
    snprintf(path, sizeof path, "/tmp/unit-source-XXXXXX");
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

static void a_file_is_read_at_any_offset(void)
{
    source *s = NULL;
    ckpt_error err;
    char out[32] = "";
    put_file(TEXT, TEXT_SIZE);
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
    CU_ASSERT(s->size == TEXT_SIZE && s->position == 0);
    CU_ASSERT(source_read(s, 4, out, 5, &err) == CKPT_OK && strcmp(out, "quick") == 0);
    CU_ASSERT(source_read(s, 16, out, 4, &err) == CKPT_ETRUNCATED && err.offset == 16);
    CU_ASSERT(source_read(s, UINT64_MAX, out, 4, &err) == CKPT_ETRUNCATED);
    CU_ASSERT(source_read(s, 19, out, 0, &err) == CKPT_OK);
    source_advise_sequential(s);
    source_unref(s);
    unlink(path);
}

static void a_changed_file_is_reported(void)
{
    source *s = NULL;
    ckpt_error err;
    char out[32];
    put_file(TEXT, TEXT_SIZE);
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_OK);
    CU_ASSERT(truncate(path, 10) == 0);
    CU_ASSERT(source_read(s, 8, out, 5, &err) == CKPT_ECHANGED && err.offset == 10);
    CU_ASSERT(strcmp(err.file, path) == 0);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_ECHANGED);
    source_unref(s);
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
    unlink(path);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_ECHANGED);
    source_unref(s);
}

/* next_fd - returns the file descriptor that the next open() will return. */
static int next_fd(void)
{
    int fd = dup(STDIN_FILENO);
    CU_ASSERT_FATAL(fd >= 0 && close(fd) == 0);
    return fd;
}

/* A parked file has no descriptor, so that thousands of shards can be used at the same time. */
static void a_parked_file_is_opened_for_each_read(void)
{
    source *s = NULL;
    ckpt_error err;
    uint64_t from;
    char out[32] = "";
    int next_before = next_fd(), fd;
    put_file(TEXT, TEXT_SIZE);
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
    CU_ASSERT(source_extent(s, 4, &fd, &from) && from == 4);
    source_file_park(s);
    source_file_park(s);
    CU_ASSERT_EQUAL(next_fd(), next_before);
    CU_ASSERT(!source_extent(s, 4, &fd, &from));
    CU_ASSERT(source_read(s, 4, out, 5, &err) == CKPT_OK && strcmp(out, "quick") == 0);
    source_advise_sequential(s);
    /* out still ends with the "ck" of "quick" */
    CU_ASSERT(source_read(s, 16, out, 3, &err) == CKPT_OK && memcmp(out, "foxck", 5) == 0);
    CU_ASSERT(source_read(s, 16, out, 4, &err) == CKPT_ETRUNCATED && err.offset == 16);
    CU_ASSERT_EQUAL(next_fd(), next_before);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_OK);
    source_unref(s);
    unlink(path);
}

enum change { TRUNCATED, REMOVED, BECAME_FIFO, BECAME_FOLDER, REPLACED, OVERWRITTEN, CHANGE_COUNT };

/* change_file - changes the file at PATH; REPLACED and OVERWRITTEN keep its size, atime and mtime. Returns
 * the word for the change in the error message. */
static const char *change_file(enum change change)
{
    char new_path[80];
    struct stat before, after;
    snprintf(new_path, sizeof new_path, "%s-new", path);
    CU_ASSERT_FATAL(stat(path, &before) == 0);
    struct timespec times[] = {before.st_atim, before.st_mtim};
    const char *written = change == REPLACED ? new_path : path;
    if (change == TRUNCATED)
        CU_ASSERT(truncate(path, 10) == 0);
    if (change == REMOVED || change == BECAME_FIFO || change == BECAME_FOLDER)
        CU_ASSERT(unlink(path) == 0);
    if (change == BECAME_FIFO)
        CU_ASSERT(mkfifo(path, 0600) == 0);
    if (change == BECAME_FOLDER)
        CU_ASSERT(mkdir(path, 0700) == 0);
    if (change == REPLACED || change == OVERWRITTEN) {
        FILE *f = fopen(written, change == REPLACED ? "wb" : "r+b");
        CU_ASSERT(f && fputs("the quick brown fix", f) >= 0 && fclose(f) == 0);
        CU_ASSERT(utimensat(AT_FDCWD, written, times, 0) == 0);
    }
    if (change == REPLACED)
        CU_ASSERT(rename(new_path, path) == 0);
    return stat(path, &after) != 0 ? "removed" : after.st_ino == before.st_ino ? "changed" : "replaced";
}

static void a_parked_file_that_was_changed_is_not_read(void)
{
    ckpt_error err;
    char out[8] = "", words[64];
    for (int i = 0; i < 2 * CHANGE_COUNT; i++) { /* each change, with and without a read after it */
        source *s = NULL;
        put_file(TEXT, TEXT_SIZE);
        CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
        source_file_park(s);
        usleep(20000); /* so that the change sets a new ctime */
        snprintf(words, sizeof words, "was %s while", change_file((enum change)(i / 2)));
        if (i % 2)
            CU_ASSERT(source_read(s, 0, out, 5, &err) == CKPT_ECHANGED && strstr(err.what, words));
        CU_ASSERT(source_check_unchanged(s, &err) == CKPT_ECHANGED && strstr(err.what, words));
        CU_ASSERT(strcmp(err.file, path) == 0);
        source_unref(s);
        (void)!(unlink(path) == 0 || rmdir(path) == 0);
    }
}

static void a_parked_file_that_cannot_be_opened_is_reported(void)
{
    struct rlimit old_limit, no_files;
    source *s = NULL;
    ckpt_error err;
    char out[8];
    put_file(TEXT, TEXT_SIZE);
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK && getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
    source_file_park(s);
    no_files = (struct rlimit){0, old_limit.rlim_max};
    CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &no_files) == 0);
    ckpt_status st = source_read(s, 0, out, 5, &err);
    CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &old_limit) == 0);
    CU_ASSERT(st == CKPT_EIO && err.sys_errno == EMFILE && strstr(err.hint, "ulimit"));
    CU_ASSERT(source_read(s, 0, out, 5, &err) == CKPT_OK);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_EIO && err.sys_errno == EMFILE);
    source_unref(s);
    unlink(path);
}

static void other_files_are_refused(void)
{
    source *s = NULL;
    ckpt_error err;
    CU_ASSERT(source_file_open("/tmp", &s, &err) == CKPT_EIO && strstr(err.what, "directory"));
    CU_ASSERT(source_file_open("/dev/zero", &s, &err) == CKPT_EUNSUPPORTED);
    CU_ASSERT(source_file_open("/nonexistent/x", &s, &err) == CKPT_ENOTFOUND && s == NULL);
    CU_ASSERT(strcmp(err.file, "/nonexistent/x") == 0);
}

/* A child writes 700000 bytes to a FIFO, and they can be read at any offset. */
static void a_fifo_is_spooled(void)
{
    enum { SIZE = 700000 };
    source *s = NULL;
    ckpt_error err;
    snprintf(path, sizeof path, "/tmp/unit-fifo-%d", (int)getpid());
    unlink(path);
    CU_ASSERT_FATAL(mkfifo(path, 0600) == 0);
    pid_t child = fork();
    if (child == 0) {
        FILE *f = fopen(path, "wb");
        for (int i = 0; f && i < SIZE; i++)
            fputc(i % 251, f);
        _exit(f ? fclose(f) : 1);
    }
    CU_ASSERT_FATAL(source_file_open(path, &s, &err) == CKPT_OK);
    unsigned char b[2];
    CU_ASSERT(s->size == SIZE);
    source_file_park(s); /* ignored: a FIFO cannot be opened again */
    CU_ASSERT(source_read(s, SIZE - 2, b, 2, &err) == CKPT_OK && b[0] == (SIZE - 2) % 251);
    /* one byte on each side of the offset 256 KiB */
    CU_ASSERT(source_read(s, 262143, b, 2, &err) == CKPT_OK && b[1] == 262144 % 251);
    CU_ASSERT(source_check_unchanged(s, &err) == CKPT_OK);
    source_unref(s);
    unlink(path);
}

static void slices_stay_inside_their_source(void)
{
    ckpt_error err;
    char out[8] = "";
    unsigned char *data = unit_guard(TEXT, 19);
    source *m = source_mem(data, 19, 100), *a = NULL, *b = NULL, *c = NULL;
    CU_ASSERT(source_slice(m, 4, 15, &a, &err) == CKPT_OK);
    CU_ASSERT(source_slice(a, 6, 9, &b, &err) == CKPT_OK);
    CU_ASSERT(source_slice(a, 6, 10, &c, &err) == CKPT_ETRUNCATED);
    CU_ASSERT(source_slice(a, UINT64_MAX, 2, &c, &err) == CKPT_ETRUNCATED);
    source_unref(a);
    source_file_park(m);
    source_unref(m);
    CU_ASSERT(b->position == 100 + 4 + 6 && source_pos(b, 2) == 112);
    CU_ASSERT(source_read(b, 0, out, 5, &err) == CKPT_OK && strcmp(out, "brown") == 0);
    CU_ASSERT(source_read(b, 8, out, 2, &err) == CKPT_ETRUNCATED && err.offset == 118);
    source_unref(b);
    unit_guard_free(data, 19);
}

/* The text is the UTF-8 of N characters below U+0100. The test reads the last byte, then all bytes, then
 * ranges. */
static void latin1_text_is_read_as_bytes(void)
{
    enum { N = 300000 };
    unsigned char *want = malloc(N), *got = malloc(N), *text = malloc(2 * N);
    size_t len = 0;
    for (unsigned i = 0; i < N; i++) {
        unsigned char c = want[i] = (unsigned char)(i * 7 + i / 256);
        if (c >= 0x80)
            text[len++] = (unsigned char)(0xC0 | c >> 6);
        text[len++] = c < 0x80 ? c : (unsigned char)(0x80 | (c & 0x3F));
    }
    unsigned char *data = unit_guard(text, len);
    source *utf8 = source_mem(data, len, 0), *latin1 = NULL;
    ckpt_error err;
    CU_ASSERT_FATAL(source_latin1(utf8, 0, len, N, &latin1, &err) == CKPT_OK);
    CU_ASSERT(latin1->size == N && latin1->position == CKPT_NO_OFFSET);
    CU_ASSERT(source_read(latin1, N - 1, got, 1, &err) == CKPT_OK && got[0] == want[N - 1]);
    CU_ASSERT(source_read(latin1, 0, got, N, &err) == CKPT_OK && memcmp(got, want, N) == 0);
    for (unsigned i = 0, at = 17; i < 400; i++, at = (at * 7919 + 13) % (N - 700)) {
        memset(got, 0, 700);
        CU_ASSERT(source_read(latin1, at, got, i + 1, &err) == CKPT_OK && memcmp(got, want + at, i + 1) == 0);
    }
    source_unref(latin1);
    CU_ASSERT(source_latin1(utf8, 0, len, len + 1, &latin1, &err) == CKPT_EFORMAT);
    CU_ASSERT(source_latin1(utf8, 1, len, N, &latin1, &err) == CKPT_ETRUNCATED);
    source_unref(utf8);
    unit_guard_free(data, len);
    free(want);
    free(got);
    free(text);
}

static void text_outside_of_latin1_is_refused(void)
{
    static const char *const bad[] = {"a\xC4\x80", "ab\xC3", "\x80yz", "\xC2\x41z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char *data = unit_guard(bad[i], 3), out[3];
        source *utf8 = source_mem(data, 3, 0), *latin1 = NULL;
        CU_ASSERT(source_latin1(utf8, 0, 3, 3, &latin1, NULL) == CKPT_OK);
        CU_ASSERT(source_read(latin1, 0, out, 3, NULL) != CKPT_OK);
        source_unref(latin1);
        source_unref(utf8);
        unit_guard_free(data, 3);
    }
}

void suite_source(void)
{
    UNIT(a_file_is_read_at_any_offset);
    UNIT(a_changed_file_is_reported);
    UNIT(a_parked_file_is_opened_for_each_read);
    UNIT(a_parked_file_that_was_changed_is_not_read);
    UNIT(a_parked_file_that_cannot_be_opened_is_reported);
    UNIT(other_files_are_refused);
    UNIT(a_fifo_is_spooled);
    UNIT(slices_stay_inside_their_source);
    UNIT(latin1_text_is_read_as_bytes);
    UNIT(text_outside_of_latin1_is_refused);
}
