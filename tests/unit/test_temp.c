/* Temporary files on file systems without O_TMPFILE, renameat2 or hard links. To test them, this file
 * includes io/temp.c with system calls that fail. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/renameat2.h"
#include "unit.h"

static int renameat2_errno, linkat_errno; /* the error with which these calls fail; 0: they succeed */

static int test_openat(int dir, const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return openat(dir, name, flags, mode);
}

static int test_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    errno = renameat2_errno;
    return renameat2_errno ? -1 : renameat2(from_dir, from, to_dir, to, flags);
}

static int test_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    errno = linkat_errno;
    return linkat_errno ? -1 : linkat(from_dir, from, to_dir, to, flags);
}

/* Includes io/temp.c with these calls, and with other names of its functions than the library has. */
#define openat(...)       test_openat(__VA_ARGS__)
#define renameat2(...)    test_renameat2(__VA_ARGS__)
#define linkat(...)       test_linkat(__VA_ARGS__)
#define temp_open         named_open
#define temp_place        named_place
#define temp_close        named_close
#define temp_emergency    named_emergency
#define temp_clean_folder named_clean_folder
#define temp_folder_open  named_folder_open
#define temp_folder_name  named_folder_name
#define temp_folder_place named_folder_place
#define temp_target_make  named_target_make
#include "io/temp.c"
#undef openat
#undef renameat2
#undef linkat

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/unit-temp-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
}

/* count_entries - returns the number of entries in the folder; unless NAME is NULL, copies the last name to
 * it. */
static int count_entries(char name[256])
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        n++;
        if (name)
            snprintf(name, 256, "%s", e->d_name);
    }
    if (d)
        closedir(d);
    return n;
}

static const char *path_of(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    CU_ASSERT_FATAL(f != NULL);
    fputs(text, f);
    fclose(f);
}

static int file_is(const char *name, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path_of(name), "r");
    if (!f)
        return 0;
    size_t n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    got[n] = '\0';
    return strcmp(got, text) == 0;
}

static void remove_dir(void)
{
    char name[256];
    while (count_entries(name))
        unlink(path_of(name));
    CU_ASSERT(rmdir(dir) == 0);
}

static void files_are_placed_without_renameat2_or_linkat(void)
{
    static const struct {
        int renameat2, linkat; /* errno; 0: the call succeeds */
    } errors[] = {{0, 0}, {EINVAL, 0}, {ENOSYS, EPERM}};
    for (size_t i = 0; i < 3; i++) {
        struct temp t;
        renameat2_errno = errors[i].renameat2;
        linkat_errno = errors[i].linkat;
        make_dir();
        CU_ASSERT_FATAL(temp_open(&t, dir, "out", 0666, NULL));
        char name[256] = "";
        CU_ASSERT(count_entries(name) == 1 && strncmp(name, ".out.ckpt-", 10) == 0 && strlen(name) == 16);
        CU_ASSERT(write(t.fd, "new", 3) == 3);
        CU_ASSERT(temp_place(&t, "out", false));
        temp_close(&t);
        CU_ASSERT(count_entries(NULL) == 1 && file_is("out", "new"));
        CU_ASSERT_FATAL(temp_open(&t, dir, "out", 0666, NULL));
        CU_ASSERT(write(t.fd, "more", 4) == 4);
        CU_ASSERT(!temp_place(&t, "out", false) && errno == EEXIST && file_is("out", "new"));
        CU_ASSERT(temp_place(&t, "out", true));
        temp_close(&t);
        CU_ASSERT(count_entries(NULL) == 1 && file_is("out", "more"));
        remove_dir();
    }
    renameat2_errno = linkat_errno = 0;
}

static void closing_and_temp_emergency_remove_temporary_files(void)
{
    struct temp closed, open_until_signal;
    make_dir();
    CU_ASSERT_FATAL(temp_open(&closed, dir, "out", 0666, NULL) &&
                    temp_open(&open_until_signal, dir, "other", 0666, NULL));
    CU_ASSERT(count_entries(NULL) == 2);
    temp_close(&closed);
    CU_ASSERT(count_entries(NULL) == 1);
    temp_emergency();
    CU_ASSERT(count_entries(NULL) == 0);
    temp_close(&open_until_signal);
    put_file("out", "no temporary file");
    temp_emergency();
    CU_ASSERT(file_is("out", "no temporary file"));
    remove_dir();
}

/* A folder that was made for the output is removed if nothing is in it, in the end or by a signal. */
static void a_new_folder_is_removed_while_it_is_empty(void)
{
    char path[PATH_MAX];
    struct temp folder, file;
    make_dir();
    snprintf(path, sizeof path, "%s/new//", dir);
    CU_ASSERT_FATAL(temp_target_make(&folder, path));
    CU_ASSERT(count_entries(NULL) == 1);
    CU_ASSERT_FATAL(temp_open(&file, path, "out", 0666, NULL));
    temp_emergency();
    CU_ASSERT(count_entries(NULL) == 0);
    temp_close(&file);
    temp_close(&folder);
    CU_ASSERT_FATAL(temp_target_make(&folder, path));
    CU_ASSERT(!temp_target_make(&file, path) && errno == EEXIST);
    temp_close(&folder);
    CU_ASSERT(count_entries(NULL) == 0);
    CU_ASSERT_FATAL(temp_target_make(&folder, path));
    put_file("new/out", "placed");
    temp_emergency();
    temp_close(&folder);
    CU_ASSERT(file_is("new/out", "placed"));
    snprintf(path, sizeof path, "%s/no/new", dir);
    CU_ASSERT(!temp_target_make(&folder, path) && errno == ENOENT);
    snprintf(path, sizeof path, "%s/%0300d", dir, 0);
    CU_ASSERT(!temp_target_make(&folder, path) && errno == ENAMETOOLONG);
    snprintf(path, sizeof path, "%s/new/out", dir);
    CU_ASSERT(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/new", dir);
    CU_ASSERT(rmdir(path) == 0);
    remove_dir();
}

/* The next run removes the temporary file of a process that died, but not that of a running process, and not
 * files with similar names. */
static void files_of_dead_processes_are_removed(void)
{
    struct temp running, next;
    char name[256] = "";
    make_dir();
    pid_t child = fork();
    if (child == 0) {
        struct temp t;
        _exit(!temp_open(&t, dir, "out", 0666, NULL));
    }
    int status = 1;
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    CU_ASSERT(count_entries(name) == 1);
    put_file(".out.ckpt-abc", "too short");
    put_file(".out.ckpt-abcdefg", "too long");
    put_file(".other.ckpt-abcdef", "another target");
    put_file(".out.ckpt-ABCDEF", "not our letters");
    CU_ASSERT(mkdir(path_of(".out.ckpt-foldr0"), 0700) == 0); /* a temporary folder is removed, too */
    CU_ASSERT(symlink("/dev/null", path_of(".out.ckpt-linked")) == 0);
    CU_ASSERT_FATAL(temp_open(&running, dir, "out", 0666, NULL));
    CU_ASSERT(access(path_of(name), F_OK) != 0);
    CU_ASSERT(count_entries(NULL) == 6); /* four files, the link, and the new temporary file */
    CU_ASSERT_FATAL(temp_open(&next, dir, "out", 0666, NULL));
    CU_ASSERT(count_entries(NULL) == 7);
    temp_close(&running);
    temp_close(&next);
    CU_ASSERT(count_entries(NULL) == 5);
    remove_dir();
}

/* leave_temporary_file - runs a process that dies while it writes BASE, and so leaves its temporary file. */
static void leave_temporary_file(const char *base)
{
    pid_t child = fork();
    if (child == 0) {
        struct temp t;
        _exit(!temp_open(&t, dir, base, 0666, NULL));
    }
    int status = 1;
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
}

/* temp_clean_folder() reads a folder once for many targets. temp_open() then does not read it again, but
 * cleans other folders for its target. */
static void a_folder_is_cleaned_once_for_many_targets(void)
{
    struct cleaned_folder cleaned = {0};
    struct temp t;
    char paths[4][300], name[256], first_dir[64];
    const char *targets[] = {paths[0], paths[1], paths[2], paths[3]};
    make_dir();
    memset(name, 'n', 250);
    name[250] = '\0';
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "somewhere/%d.out", i);
    snprintf(paths[3], sizeof paths[3], "%s", name);
    leave_temporary_file("0.out");
    leave_temporary_file("2.out");
    leave_temporary_file("3.out");
    leave_temporary_file(name);
    CU_ASSERT_EQUAL(count_entries(NULL), 4);
    CU_ASSERT_FATAL(temp_open(&t, dir, "1.out", 0666, &cleaned));
    temp_close(&t);
    CU_ASSERT_EQUAL(count_entries(NULL), 4);
    temp_clean_folder(&cleaned, dir, targets, 4);
    CU_ASSERT(cleaned.done && count_entries(NULL) == 1); /* 3.out is no target */
    leave_temporary_file("0.out");                       /* a new file, after temp_clean_folder() */
    CU_ASSERT_FATAL(temp_open(&t, dir, "0.out", 0666, &cleaned));
    temp_close(&t);
    CU_ASSERT_EQUAL(count_entries(NULL), 2);
    snprintf(first_dir, sizeof first_dir, "%s", dir);
    make_dir();
    leave_temporary_file("0.out");
    CU_ASSERT_FATAL(temp_open(&t, dir, "0.out", 0666, &cleaned));
    temp_close(&t);
    CU_ASSERT_EQUAL(count_entries(NULL), 0);
    remove_dir();
    temp_clean_folder(&cleaned, dir, targets, 4); /* the folder is missing */
    CU_ASSERT(!cleaned.done);
    snprintf(dir, sizeof dir, "%s", first_dir);
    remove_dir();
}

static void temporary_names_of_long_names_fit(void)
{
    struct temp t;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    make_dir();
    CU_ASSERT_FATAL(temp_open(&t, dir, name, 0666, NULL));
    CU_ASSERT(temp_place(&t, name, true) && count_entries(NULL) == 1);
    temp_close(&t);
    remove_dir();
}

/* open_folder - opens a temporary folder for the target "out", with a file NAME; its content is NAME, too. */
static void open_folder(struct temp *t, const char *name)
{
    char path[400];
    CU_ASSERT_FATAL(temp_folder_open(t, dir, "out"));
    snprintf(path, sizeof path, "%s/%s", temp_folder_name(t), name);
    put_file(path, name);
}

static void folders_appear_with_all_files(void)
{
    struct temp t;
    make_dir();
    open_folder(&t, "first");
    CU_ASSERT(count_entries(NULL) == 1 && access(path_of("out"), F_OK) != 0);
    CU_ASSERT(temp_folder_place(&t, "out", false, true));
    temp_close(&t);
    CU_ASSERT(count_entries(NULL) == 1 && file_is("out/first", "first"));
    open_folder(&t, "second"); /* a folder with files is replaced only if REPLACE */
    CU_ASSERT(!temp_folder_place(&t, "out", false, true) && errno == EEXIST && file_is("out/first", "first"));
    CU_ASSERT(temp_folder_place(&t, "out", true, true));
    temp_close(&t);
    CU_ASSERT(count_entries(NULL) == 1 && file_is("out/second", "second") &&
              access(path_of("out/first"), F_OK) != 0);
    renameat2_errno = EINVAL; /* without RENAME_EXCHANGE, the old folder is kept */
    open_folder(&t, "third");
    CU_ASSERT(!temp_folder_place(&t, "out", true, true) && errno == EINVAL);
    temp_close(&t);
    CU_ASSERT(count_entries(NULL) == 1 && file_is("out/second", "second"));
    unlink(path_of("out/second"));
    open_folder(&t, "fourth"); /* an empty folder is always replaced */
    CU_ASSERT(temp_folder_place(&t, "out", false, true));
    renameat2_errno = 0;
    temp_close(&t);
    CU_ASSERT(count_entries(NULL) == 1 && file_is("out/fourth", "fourth"));
    unlink(path_of("out/fourth"));
    rmdir(path_of("out"));
    CU_ASSERT(!temp_folder_open(&t, path_of("missing"), "out") && errno == ENOENT);
    remove_dir();
}

static void unplaced_folders_are_removed(void)
{
    struct temp t, other;
    make_dir();
    open_folder(&t, "closed");
    temp_close(&t);
    CU_ASSERT_EQUAL(count_entries(NULL), 0);
    open_folder(&t, "signalled");
    temp_emergency();
    CU_ASSERT_EQUAL(count_entries(NULL), 0);
    temp_close(&t);
    CU_ASSERT(mkdir(path_of(".out.ckpt-abc123"), 0777) == 0); /* as a killed process leaves it */
    put_file(".out.ckpt-abc123/left", "left");
    open_folder(&t, "living");
    CU_ASSERT_EQUAL(count_entries(NULL), 1);
    open_folder(&other, "next");
    CU_ASSERT_EQUAL(count_entries(NULL), 2);
    temp_close(&other);
    temp_close(&t);
    remove_dir();
}

void suite_temp(void)
{
    UNIT(folders_appear_with_all_files);
    UNIT(unplaced_folders_are_removed);
    UNIT(files_are_placed_without_renameat2_or_linkat);
    UNIT(closing_and_temp_emergency_remove_temporary_files);
    UNIT(a_new_folder_is_removed_while_it_is_empty);
    UNIT(files_of_dead_processes_are_removed);
    UNIT(a_folder_is_cleaned_once_for_many_targets);
    UNIT(temporary_names_of_long_names_fit);
}
