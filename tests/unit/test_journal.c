/* Edits in place: a journal is applied to the file it was made for and to no other,
 * and what is damaged is neither applied nor removed. Journals are laid out here by hand. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32.h"
#include "io/journal.h"
#include "io/sink.h"
#include "edited.h"

#define SECTORS 5u

/* block - the sum of the new bytes FROM to TO, in one sector of the file. */
static void block(buf *b, size_t from, size_t to)
{
    uint32_t sum = crc32_update(0, changed + from, to - from) & 0x7FFFFFFF;
    buf_u32le(b, sum | (memcmp(changed + from, before + from, to - from) ? 0x80000000u : 0));
}

/* journal - as the comment of io/journal.c has it: bytes 100 to 1400, the last ten, and 500 more. */
static void journal(buf *b)
{
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    buf_init(b, 1 << 16);
    buf_text(b, "CKPTUNDO");
    buf_u32le(b, 1);
    buf_u32le(b, 2);
    buf_u64le(b, (uint64_t)st.st_ino);
    buf_u64le(b, SIZE);
    buf_u64le(b, GROWN);
    buf_u64le(b, 48 + 16 + 1300 + 3 * 4 + 16 + 10 + 3 * 4 + 4);
    buf_u64le(b, 100);
    buf_u64le(b, 1300);
    buf_put(b, before + 100, 1300);
    block(b, 100, 512);
    block(b, 512, 1024);
    block(b, 1024, 1400);
    buf_u64le(b, SIZE - 10);
    buf_u64le(b, GROWN - SIZE + 10);
    buf_put(b, before + SIZE - 10, 10);
    block(b, SIZE - 10, SIZE);
    block(b, SIZE, 2048);
    block(b, 2048, GROWN);
    buf_u32le(b, crc32_update(0, b->data, b->len));
}

/* seal - B with a checksum that holds. */
static void seal(buf *b)
{
    b->len -= 4;
    buf_u32le(b, crc32_update(0, b->data, b->len));
}

static void changes_all(void)
{
    begin_edit();
    struct patches p = edit_patches();
    p.new_size = SIZE + 3;
    CU_ASSERT(patches_add(&p, SIZE, str_of("end", 3)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){.dry_run = true}, NULL), CKPT_OK);
    CU_ASSERT(file_is(path, before, SIZE));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){0}, NULL), CKPT_OK);
    char want[SIZE + 3];
    memcpy(want, changed, SIZE);
    memcpy(want + SIZE, "end", 3);
    CU_ASSERT(file_is(path, want, sizeof want));
    CU_ASSERT(!file_exists(undo));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &unsynced, NULL), CKPT_ECHANGED); /* not that size any more */
    end_edit();
}

/* put_torn - the file with those sectors new that WHICH has a bit for, and N bytes long. */
static void put_torn(unsigned which, size_t n)
{
    char now[GROWN];
    for (size_t i = 0; i < GROWN; i++)
        now[i] = which & 1u << i / 512 ? changed[i] : before[i];
    put_file(path, now, n);
}

static ckpt_recovered recovered(const buf *b)
{
    ckpt_recovered what;
    put_file(undo, b->data, b->len);
    CU_ASSERT_EQUAL(journal_recover(path, &unsynced, &what, NULL), CKPT_OK);
    CU_ASSERT(!file_exists(undo));
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    return what;
}

/* Any of the sectors may be on the disk after a power cut, and the size before, after or in between. */
static void any_sectors(void)
{
    static const size_t sizes[] = {SIZE, 2047, 2048, 2049, GROWN - 1, GROWN};
    buf b;
    begin_edit();
    journal(&b);
    for (unsigned which = 0; which < 1u << SECTORS; which++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            bool all = which == 0x1F && n == GROWN, none = (which & 0xF) == 0 && n == SIZE;
            put_torn(which, n);
            put_file(undo, b.data, b.len);
            CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), all || none ? CKPT_OK : CKPT_ECHANGED);
            CU_ASSERT_EQUAL(recovered(&b), all ? CKPT_RECOVERED_NEW : CKPT_RECOVERED_OLD);
            CU_ASSERT(all ? file_is(path, changed, GROWN) : file_is(path, before, SIZE));
        }
    }
    buf_free(&b);
    end_edit();
}

/* The journal of an edit that was done is there again: nothing is undone. */
static void comes_back(void)
{
    buf b;
    begin_edit();
    journal(&b);
    struct patches p = edit_patches();
    p.new_size = GROWN;
    p.at[1].bytes.len = GROWN - SIZE + 10;
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){0}, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_NEW);
    CU_ASSERT(file_is(path, changed, GROWN));
    put_file(undo, b.data, b.len);
    p = (struct patches){.old_size = GROWN, .new_size = GROWN};
    CU_ASSERT(patches_add(&p, 0, str_of("x", 1)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &unsynced, NULL), CKPT_ECHANGED); /* first, it is looked at */
    CU_ASSERT(file_is(path, changed, GROWN));
    buf_free(&b);
    end_edit();
}

/* A sector whose old and new bytes have one CRC-32, and that never got to the disk. */
static void same_sums(void)
{
    static const unsigned char generator[] = {0x41, 0x06, 0x71, 0xDB, 0x01};
    buf b;
    begin_edit();
    memcpy(changed + 512, before + 512, 512);
    for (size_t i = 0; i < sizeof generator; i++)
        changed[600 + i] = (char)(before[600 + i] ^ generator[i]);
    CU_ASSERT_EQUAL(crc32_update(0, before + 512, 512), crc32_update(0, changed + 512, 512));
    journal(&b);
    put_torn(0x1D, GROWN);
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_OLD);
    CU_ASSERT(file_is(path, before, SIZE));
    put_torn(0x1F, GROWN);
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_NEW);
    CU_ASSERT(file_is(path, changed, GROWN));
    buf_free(&b);
    end_edit();
}

/* refused_to - a journal that is not applied: both files stay as they are, and READERS do not read. */
static void refused_to(const void *bytes, size_t size, const char *now, size_t n, ckpt_status readers)
{
    ckpt_recovered what = CKPT_RECOVERED_OLD;
    ckpt_error err;
    put_file(undo, bytes, size);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), readers);
    for (int dry = 0; dry < 2; dry++) {
        struct journal_options o = {.no_sync = true, .dry_run = dry};
        CU_ASSERT_EQUAL(journal_recover(path, &o, &what, &err), CKPT_ECHANGED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "f" JOURNAL_SUFFIX));
        CU_ASSERT_NOT_EQUAL(err.hint[0], '\0');
        CU_ASSERT_EQUAL(what, CKPT_RECOVERED_NOTHING);
    }
    CU_ASSERT(file_is(path, now, n));
    CU_ASSERT(file_is(undo, bytes, size));
}

static void refused(const buf *b, const char *now, size_t n)
{
    refused_to(b->data, b->len, now, n, CKPT_ECHANGED);
}

/* A journal that lost its end, or has a wrong byte, may belong to a half changed file. */
static void keeps_damaged_ones(void)
{
    char now[SIZE];
    buf b;
    begin_edit();
    journal(&b);
    memcpy(now, before, SIZE);
    memcpy(now, changed, 512);
    put_file(path, now, SIZE);
    for (size_t n = 0; n < b.len; n += n < 64 || n + 20 > b.len ? 1 : 37)
        refused_to(b.data, n, now, SIZE, CKPT_ECHANGED);
    for (size_t i = 0; i < b.len; i += i < 64 || i + 20 > b.len ? 1 : 41) {
        b.data[i] ^= 0x10;
        refused(&b, now, SIZE);
        b.data[i] ^= 0x10;
    }
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_OLD);
    CU_ASSERT(file_is(path, before, SIZE));
    buf_free(&b);
    end_edit();
}

/* What has a journal's name and is none belongs to somebody: readers read, nobody removes it. */
static void keeps_what_is_none(void)
{
    static char notes[] = "my notes, which are as long as the head of a journal is, or longer";
    begin_edit();
    struct patches p = edit_patches();
    for (size_t n = 1; n < sizeof notes; n += 9) {
        refused_to(notes, n, before, SIZE, CKPT_OK);
        CU_ASSERT_EQUAL(journal_apply(path, &p, &unsynced, NULL), CKPT_ECHANGED);
        CU_ASSERT(file_is(path, before, SIZE));
        CU_ASSERT(file_is(undo, notes, n));
    }
    end_edit();
}

/* dry - only says what would be done. */
static void dry(const buf *b, ckpt_recovered want)
{
    ckpt_recovered what;
    char was[GROWN];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(was, 1, sizeof was, f) : 0;
    if (f)
        fclose(f);
    put_file(undo, b->data, b->len);
    struct journal_options o = {.no_sync = true, .dry_run = true};
    CU_ASSERT_EQUAL(journal_recover(path, &o, &what, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(what, want);
    CU_ASSERT(file_is(path, was, n));
    CU_ASSERT(file_is(undo, b->data, b->len));
}

static void dry_run_writes_nothing(void)
{
    buf b;
    begin_edit();
    journal(&b);
    dry(&b, CKPT_RECOVERED_OLD);
    put_torn(0x5, 2047);
    dry(&b, CKPT_RECOVERED_OLD);
    put_torn(0x1F, GROWN);
    dry(&b, CKPT_RECOVERED_NEW);
    struct patches p = {.old_size = GROWN, .new_size = GROWN};
    CU_ASSERT(patches_add(&p, 0, str_of("x", 1)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){.dry_run = true}, NULL), CKPT_OK);
    CU_ASSERT(file_is(undo, b.data, b.len));
    buf_free(&b);
    end_edit();
}

static void leaves_others_files(void)
{
    char now[SIZE];
    buf b;
    begin_edit();
    journal(&b);
    memcpy(now, changed, SIZE);
    now[700] ^= 1; /* neither old nor new */
    put_file(path, now, SIZE);
    refused(&b, now, SIZE);
    put_file(path, before, SIZE - 1);
    refused(&b, before, SIZE - 1);
    put_file(path, before, GROWN + 1);
    refused(&b, before, GROWN + 1);
    put_file(path, before, SIZE);
    b.data[8] = 2; /* another version */
    seal(&b);
    refused(&b, before, SIZE);
    b.data[8] = 1;
    b.data[12] = 3; /* fewer pieces than it says */
    seal(&b);
    refused(&b, before, SIZE);
    buf_free(&b);
    end_edit();
}

/* A file of that name with another inode: whole or not ours. One that was copied half way stops readers,
 * one that was put in the place of the edited one does not. */
static void another_inode(void)
{
    char now[SIZE];
    buf b;
    begin_edit();
    journal(&b);
    b.data[16] ^= 1;
    seal(&b);
    memcpy(now, before, SIZE);
    memcpy(now, changed, 512);
    put_file(path, now, SIZE);
    refused(&b, now, SIZE);
    now[700] ^= 1;
    put_file(path, now, SIZE);
    struct journal_note note;
    CU_ASSERT_EQUAL(journal_check(path, &note, NULL), CKPT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(note.text, "another file"));
    refused_to(b.data, b.len, now, SIZE, CKPT_OK);
    put_file(path, before, SIZE - 1);
    refused_to(b.data, b.len, before, SIZE - 1, CKPT_OK);
    put_torn(0, SIZE);
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_OLD);
    CU_ASSERT(file_is(path, before, SIZE));
    put_torn(0x1F, GROWN);
    CU_ASSERT_EQUAL(recovered(&b), CKPT_RECOVERED_NEW);
    CU_ASSERT(file_is(path, changed, GROWN));
    buf_free(&b);
    end_edit();
}

/* replace - PATH, which has the journal N bytes long at BYTES, by a whole-file write. */
static void replace(const void *bytes, size_t n, bool goes)
{
    struct sink_options o = {.force = true};
    sink *s;
    put_torn(0x5, SIZE);
    put_file(undo, bytes, n);
    CU_ASSERT_EQUAL_FATAL(sink_file(path, &o, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_write(s, "new", 3, NULL), CKPT_OK);
    CU_ASSERT(file_is(undo, bytes, n)); /* not before the new file is there */
    CU_ASSERT_EQUAL(sink_commit(s, NULL), CKPT_OK);
    CU_ASSERT(file_is(path, "new", 3));
    CU_ASSERT_EQUAL(file_exists(undo), !goes);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    /* A crash in between left it: readers read. */
    put_file(undo, bytes, n);
    CU_ASSERT(journal_check(path, NULL, NULL) == CKPT_OK || n < 60);
    unlink(undo);
}

/* A journal goes with the file it is of, whole or damaged; what is none stays. */
static void goes_with_its_file(void)
{
    buf b;
    begin_edit();
    journal(&b);
    CU_ASSERT(b.len > 60);
    replace(b.data, b.len, true);
    replace(b.data, 59, true);
    replace("notes", 5, false);
    buf_free(&b);
    end_edit();
}

/* Nobody reads what an editor has in its hands, old as it may look. */
static void readers_wait(void)
{
    buf b;
    begin_edit();
    journal(&b);
    put_file(undo, b.data, b.len);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    int fd = open(path, O_RDONLY);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_ECHANGED);
    close(fd);
    buf_free(&b);
    end_edit();
}

static void failure_undoes(void)
{
    struct rlimit was, small;
    ckpt_error err;
    begin_edit();
    struct patches p = edit_patches();
    p.new_size = SIZE + 4000;
    static char more[4000];
    CU_ASSERT(patches_add(&p, SIZE, str_of(more, sizeof more)));
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = SIZE + 1000;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small), 0);
    ckpt_status st = journal_apply(path, &p, &unsynced, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, old);
    CU_ASSERT_EQUAL(st, CKPT_EIO);
    CU_ASSERT_STRING_EQUAL(err.hint, "the file is as it was");
    CU_ASSERT(file_is(path, before, SIZE));
    CU_ASSERT(!file_exists(undo));
    end_edit();
}

static void links_and_locks(void)
{
    char other[128];
    struct patches p;
    struct journal_options follow = {.no_sync = true, .follow_links = true};
    begin_edit();
    p = edit_patches();
    snprintf(other, sizeof other, "%s/other", dir);
    for (int hard = 0; hard < 2; hard++) {
        put_file(path, before, SIZE);
        CU_ASSERT_EQUAL_FATAL(hard ? link(path, other) : symlink(path, other), 0);
        CU_ASSERT_EQUAL(journal_apply(other, &p, &unsynced, NULL), CKPT_EUSAGE);
        CU_ASSERT(file_is(path, before, SIZE));
        CU_ASSERT_EQUAL(journal_apply(other, &p, &follow, NULL), CKPT_OK);
        CU_ASSERT(file_is(path, changed, SIZE));
        unlink(other);
    }
    put_file(path, before, SIZE);
    int fd = open(path, O_RDONLY);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
    CU_ASSERT_EQUAL(journal_apply(path, &p, &unsynced, NULL), CKPT_ECHANGED);
    close(fd);
    CU_ASSERT(file_is(path, before, SIZE));
    end_edit();
}

/* ----------------------------------------------------------------- trust */

/* distrusted - the journal that is there is reported, and nothing is done with it. */
static void distrusted(const char *why)
{
    struct journal_note note;
    ckpt_recovered what;
    ckpt_error err;
    CU_ASSERT_EQUAL(journal_check(path, &note, NULL), CKPT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(note.text, why));
    CU_ASSERT_EQUAL(journal_recover(path, &unsynced, &what, &err), CKPT_ECHANGED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, why));
    CU_ASSERT_PTR_NULL(strstr(err.hint, "ckpt "));
    struct sink_options o = {.force = true};
    sink *s;
    CU_ASSERT_EQUAL_FATAL(sink_file(path, &o, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_commit(s, NULL), CKPT_OK);
    CU_ASSERT(access(undo, F_OK) == 0); /* somebody else's: it does not go with the file either */
    put_torn(0x5, SIZE);
}

/* A journal that anybody may have written: the file is half changed, and stays so. */
static void trusts_only_our_own(void)
{
    char other[128];
    buf b;
    begin_edit();
    journal(&b);
    put_torn(0x5, SIZE);
    put_file(undo, b.data, b.len);
    snprintf(other, sizeof other, "%s/other", dir);
    chmod(undo, 0620);
    distrusted("others may write");
    chmod(undo, 0602);
    distrusted("others may write");
    chmod(undo, 0600);
    CU_ASSERT_EQUAL(link(undo, other), 0);
    distrusted("hard links");
    unlink(undo);
    CU_ASSERT_EQUAL(symlink(other, undo), 0);
    distrusted("symbolic link");
    unlink(undo);
    unlink(other);
    if (geteuid() == 0) {
        put_file(undo, b.data, b.len);
        CU_ASSERT_EQUAL(chown(undo, 12345, (gid_t)-1), 0);
        distrusted("another user");
        CU_ASSERT_EQUAL(chown(path, 12345, (gid_t)-1), 0); /* its owner may write to it anyway */
        CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_ECHANGED);
        unlink(undo);
    }
    CU_ASSERT_EQUAL(mkfifo(undo, 0600), 0); /* and nobody waits for it */
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    unlink(undo);
    buf_free(&b);
    end_edit();
}

/* pieces - a journal of N pieces, of which AT and LENGTH are those; nothing differs. */
static void pieces(buf *b, uint64_t old_size, uint64_t new_size, size_t n, const uint64_t (*at)[2])
{
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    buf_init(b, 1 << 16);
    buf_text(b, "CKPTUNDO");
    buf_u32le(b, 1);
    buf_u32le(b, (uint32_t)n);
    buf_u64le(b, (uint64_t)st.st_ino);
    buf_u64le(b, old_size);
    buf_u64le(b, new_size);
    buf_u64le(b, 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t left = at[i][0] < old_size ? old_size - at[i][0] : 0;
        buf_u64le(b, at[i][0]);
        buf_u64le(b, at[i][1]);
        buf_put(b, before, (size_t)(left < at[i][1] ? left : at[i][1]));
        for (size_t k = 0; k < (left && left < at[i][1] ? 2 : 1); k++)
            buf_u32le(b, 0);
    }
    for (size_t i = 0; i < 8; i++)
        b->data[40 + i] = (unsigned char)((uint64_t)(b->len + 4) >> 8 * i);
    buf_u32le(b, 0);
    seal(b);
}

/* What no edit leaves: the pieces do not account for the change of size, or for nothing. */
static void refuses_false_pieces(void)
{
    static const struct {
        uint64_t old_size, new_size;
        size_t n;
        uint64_t at[2][2];
    } cases[] = {
        {0, SIZE + 1, 0, {{0, 0}}},
        {SIZE, SIZE, 0, {{0, 0}}},
        {SIZE, SIZE, 1, {{10, 0}}},
        {10, SIZE, 1, {{0, 10}}},
        {10, SIZE, 1, {{0, 20}}},
        {10, SIZE, 2, {{0, 20}, {SIZE - 20, 20}}},
        {SIZE, SIZE, 2, {{10, 20}, {29, 2}}},
        {SIZE, SIZE, 2, {{100, 2}, {10, 2}}},
        {SIZE, SIZE - 1, 1, {{0, 10}}},
        {SIZE, SIZE, 1, {{SIZE - 1, 2}}},
    };
    ckpt_error err;
    ckpt_recovered what;
    buf b;
    begin_edit();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pieces(&b, cases[i].old_size, cases[i].new_size, cases[i].n, cases[i].at);
        refused(&b, before, SIZE);
        CU_ASSERT_EQUAL(journal_recover(path, &unsynced, &what, &err), CKPT_ECHANGED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "does not hold"));
        buf_free(&b);
    }
    end_edit();
}

/* What a judge was asked. */
struct asked {
    bool answer;
    unsigned n;
    char restored[GROWN];
};

static ckpt_status holds_it(void *user, source *now, source *after, const struct patches *p, bool *held,
                            ckpt_error *err)
{
    struct asked *a = user;
    a->n++;
    *held = a->answer;
    CU_ASSERT_EQUAL(p->n, 2);
    CU_ASSERT_EQUAL(p->new_size, SIZE);
    CU_ASSERT_EQUAL(now->size, 2048);
    CU_ASSERT_EQUAL_FATAL(after->size, SIZE);
    return source_read(after, 0, a->restored, SIZE, err);
}

/* Nothing is put back that could not have been there. */
static void asks_before_it_undoes(void)
{
    struct asked a = {.answer = false};
    struct journal_options o = {.no_sync = true, .judge = {.user = &a, .holds = holds_it}};
    struct journal_note note = {.judge = o.judge};
    ckpt_recovered what;
    ckpt_error err;
    char now[GROWN];
    buf b;
    begin_edit();
    journal(&b);
    put_torn(0x5, 2048);
    put_file(undo, b.data, b.len);
    for (size_t i = 0; i < 2048; i++)
        now[i] = 0x5u & 1u << i / 512 ? changed[i] : before[i];
    CU_ASSERT_EQUAL(journal_recover(path, &o, &what, &err), CKPT_ECHANGED);
    CU_ASSERT_EQUAL(journal_check(path, &note, &err), CKPT_ECHANGED);
    CU_ASSERT_PTR_NULL(strstr(err.hint, "ckpt ")); /* no command is named */
    CU_ASSERT_EQUAL(a.n, 2);
    CU_ASSERT(file_is(path, now, 2048));
    CU_ASSERT_EQUAL(memcmp(a.restored, before, SIZE), 0);
    a.answer = true;
    CU_ASSERT_EQUAL(journal_recover(path, &o, &what, &err), CKPT_OK);
    CU_ASSERT(file_is(path, before, SIZE));
    a.n = 0; /* where no byte changes, nothing is asked */
    put_file(undo, b.data, b.len);
    CU_ASSERT_EQUAL(journal_recover(path, &o, &what, &err), CKPT_OK);
    put_torn(0x1F, GROWN);
    put_file(undo, b.data, b.len);
    CU_ASSERT_EQUAL(journal_recover(path, &o, &what, &err), CKPT_OK);
    CU_ASSERT_EQUAL(a.n, 0);
    buf_free(&b);
    end_edit();
}

void suite_journal(void)
{
    UNIT(trusts_only_our_own);
    UNIT(refuses_false_pieces);
    UNIT(asks_before_it_undoes);
    UNIT(changes_all);
    UNIT(any_sectors);
    UNIT(comes_back);
    UNIT(same_sums);
    UNIT(keeps_damaged_ones);
    UNIT(keeps_what_is_none);
    UNIT(dry_run_writes_nothing);
    UNIT(leaves_others_files);
    UNIT(another_inode);
    UNIT(goes_with_its_file);
    UNIT(readers_wait);
    UNIT(failure_undoes);
    UNIT(links_and_locks);
}
