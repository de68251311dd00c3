/* While a program edits a file in place, other programs that read or edit it report the edit, not damage.
 * They never read a mixture of both versions. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "core/check.h"
#include "edited.h"
#include "format/registry.h"

static void (*before_lock)(void); /* called once by the next flock() */

/* flock - replaces the function of the C library, and calls before_lock first. */
int flock(int fd, int operation)
{
    void (*callback)(void) = before_lock;
    before_lock = NULL;
    if (callback)
        callback();
    return (int)syscall(SYS_flock, fd, operation);
}

static ckpt_status report_changed(void *user, ckpt_error *err)
{
    int fd = open(path, O_RDONLY);
    (void)user;
    CU_ASSERT(flock(fd, LOCK_SH | LOCK_NB) != 0); /* journal_apply() holds the lock */
    close(fd);
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "changed");
}

static void changes_before_the_lock_are_noticed(void)
{
    begin_edit();
    struct patches p = make_patches();
    struct journal_options o = {.no_sync = true, .judge = {.check_unchanged = report_changed}};
    CU_ASSERT_EQUAL(journal_apply(path, &p, &o, NULL), CKPT_ECHANGED);
    CU_ASSERT(file_is(path, before, SIZE));
    CU_ASSERT(!file_exists(journal_path));
    end_edit();
}

static void replace_file(void)
{
    char other[120];
    snprintf(other, sizeof other, "%s/other", dir);
    put_file(other, changed, GROWN_SIZE);
    CU_ASSERT_EQUAL(rename(other, path), 0);
}

static ckpt_status replace_before_write(void *user, ckpt_error *err)
{
    (void)user;
    (void)err;
    replace_file();
    return CKPT_OK;
}

/* A program that renames a new file to the path ignores locks, so the edit of the old file is lost. That must
 * be an error, whether the file is replaced before the lock or after it. */
static void files_replaced_during_an_edit_are_noticed(void)
{
    struct journal_options replace_under_lock = {.no_sync = true,
                                                 .judge = {.check_unchanged = replace_before_write}};
    for (int under_lock = 0; under_lock < 2; under_lock++) {
        ckpt_error err;
        begin_edit();
        struct patches p = make_patches();
        before_lock = under_lock ? NULL : replace_file;
        CU_ASSERT_EQUAL(journal_apply(path, &p, under_lock ? &replace_under_lock : &no_sync_options, &err),
                        CKPT_ECHANGED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "another program replaced the file"));
        CU_ASSERT(file_is(path, changed, GROWN_SIZE));
        CU_ASSERT(!file_exists(journal_path));
        end_edit();
    }
}

/* Each edit changes the modification time, however fast edits follow each other. */
static void every_edit_is_noticed(void)
{
    source *s;
    begin_edit();
    struct patches p = make_patches();
    for (int i = 0; i < 20; i++) {
        CU_ASSERT_EQUAL_FATAL(journal_open(path, NULL, &s, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(journal_check_after_read(path, s, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(journal_apply(path, &p, &no_sync_options, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(journal_check_after_read(path, s, NULL), CKPT_ECHANGED);
        source_unref(s);
    }
    end_edit();
}

#define ENTRY(name, from, to)                                                                                \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" from "," to "]}"

/* read_during_edit - reads a safetensors file while another program edits its header. So far, that program
 * has written only NEW_BYTES, at offset 10 of the file. If LOCKED, it has also locked the file and written a
 * journal. */
static void read_during_edit(const char *new_bytes, bool locked)
{
    static const char unedited[] = "\x6a\0\0\0\0\0\0\0" /* the length of the header */
                                   "{" ENTRY("a", "0", "4") "," ENTRY("b", "4", "8") "} AAAABBBB";
    char half_edited[sizeof unedited];
    ckpt_file *f;
    ckpt_error err;
    source *s;
    put_file(path, unedited, sizeof unedited - 1);
    CU_ASSERT_EQUAL_FATAL(journal_open(path, NULL, &s, &err), CKPT_OK);
    const struct opening o = {.path = path, .src = s};
    (void)source_ref(s);
    CU_ASSERT_EQUAL_FATAL(format_open(&o, &f, &err), CKPT_OK);
    file_free(f);
    usleep(20000);
    memcpy(half_edited, unedited, sizeof unedited);
    memcpy(half_edited + 10, new_bytes, strlen(new_bytes));
    int fd = open(path, O_RDWR);
    CU_ASSERT_EQUAL(pwrite(fd, half_edited, sizeof half_edited - 1, 0), (ssize_t)sizeof half_edited - 1);
    if (locked) {
        CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
        put_file(journal_path, "CKPTUNDO", 8);
    }
    CU_ASSERT_EQUAL(format_open(&o, &f, &err), CKPT_ECHANGED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "another program is editing it"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "try again"));
    unlink(journal_path);
    close(fd);
}

/* A reader reports the edit, not damage, and shows no mixture of both versions. */
static void readers_notice_edits(void)
{
    begin_edit();
    read_during_edit("c", false);
    read_during_edit("c\":", false);
    read_during_edit("c", true);
    read_during_edit("c\":", true);
    end_edit();
}

#define META(key, name) "{\"__metadata__\":{\"" key "\":\"1\"}," ENTRY(name, "0", "4") "}"

static const char original_header[] = "\x4e\0\0\0\0\0\0\0" META("k", "a") "AAAA",
                  renamed_header[] = "\x4e\0\0\0\0\0\0\0" META("k", "b") "AAAA";

static void make_another_edit(void)
{
    usleep(20000);
    put_file(path, renamed_header, sizeof renamed_header - 1);
}

/* Another program may edit the file after it was read and before it is locked. Writing metadata must not undo
 * that edit. */
static void metadata_do_not_overwrite_another_edit(void)
{
    const ckpt_pair pair = {str_of("k", 1), str_of("2", 1)};
    const ckpt_write_options o = {.struct_size = sizeof o, .no_sync = true};
    ckpt_file *f;
    begin_edit();
    for (int raced = 0; raced < 2; raced++) {
        put_file(path, original_header, sizeof original_header - 1);
        CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, NULL), CKPT_OK);
        before_lock = raced ? make_another_edit : NULL;
        CU_ASSERT_EQUAL(ckpt_metadata_write(f, &pair, 1, NULL, &o, NULL, NULL),
                        raced ? CKPT_ECHANGED : CKPT_OK);
        ckpt_close(f);
    }
    CU_ASSERT(file_is(path, renamed_header, sizeof renamed_header - 1));
    end_edit();
}

static int fail_on_finding(void *user, const ckpt_finding *f)
{
    (void)user;
    CU_FAIL("verify reports a finding in a file that is being edited");
    CU_ASSERT_PTR_NOT_NULL(f);
    return 0;
}

/* Verifying reports the edit, not damage. */
static void verify_notices_edits(void)
{
    ckpt_verify_options o = CKPT_INIT(ckpt_verify_options);
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    struct check c;
    ckpt_error fault, err;
    source *s;
    begin_edit();
    (void)fail(&fault, CKPT_ECHECKSUM, 0, "wrong CRC-32");
    CU_ASSERT_EQUAL_FATAL(check_init(&c, &o, &r, NULL), CKPT_OK);
    c.report = fail_on_finding;
    CU_ASSERT_EQUAL_FATAL(journal_open(path, NULL, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(check_watch_source(&c, s, NULL), CKPT_OK);
    usleep(20000);
    put_file(path, changed, SIZE);
    CU_ASSERT_EQUAL(check_report(&c, CHECK_CHECKSUM, path, &fault, &err), CKPT_ECHANGED);
    CU_ASSERT_EQUAL(r.findings, 0);
    check_free(&c);
    end_edit();
}

void suite_concurrent(void)
{
    UNIT(changes_before_the_lock_are_noticed);
    UNIT(files_replaced_during_an_edit_are_noticed);
    UNIT(every_edit_is_noticed);
    UNIT(readers_notice_edits);
    UNIT(metadata_do_not_overwrite_another_edit);
    UNIT(verify_notices_edits);
}
