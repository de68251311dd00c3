/* Edits in place: a journal is applied to the file it was made for and to no other,
 * and what is torn is not applied at all. Journals are laid out here by hand. */
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
#include "unit.h"

#define SIZE 2000u

static char dir[64], path[96], undo[128];
static char before[SIZE], changed[SIZE];
static const struct journal_options plain = {.no_sync = true};

static void put_file(const char *at, const void *bytes, size_t n)
{
    FILE *f = fopen(at, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static bool holds(const char *at, const void *bytes, size_t n)
{
    char got[SIZE * 2];
    FILE *f = fopen(at, "rb");
    size_t m = f ? fread(got, 1, sizeof got, f) : 0;
    if (f)
        fclose(f);
    return m == n && memcmp(got, bytes, n) == 0;
}

static bool there(const char *at) { return access(at, F_OK) == 0; }

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-journal-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(undo, sizeof undo, "%s" JOURNAL_SUFFIX, path);
    for (size_t i = 0; i < SIZE; i++) {
        before[i] = (char)(i * 7);
        changed[i] = i >= 100 && i < 1400 ? (char)(i * 11 + 1) : before[i];
    }
    put_file(path, before, SIZE);
}

static void end(void)
{
    unlink(undo);
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing else was left */
}

static struct patches edit(void)
{
    struct patches p = {.old_size = SIZE, .new_size = SIZE};
    CU_ASSERT(patches_add(&p, 100, str_of(changed + 100, 1300)));
    return p;
}

/* journal - as the comment of io/journal.c has it. */
static void journal(buf *b)
{
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    buf_init(b, 1 << 16);
    buf_text(b, "CKPTUNDO");
    buf_u32le(b, 1);
    buf_u32le(b, 1);
    buf_u64le(b, (uint64_t)st.st_ino);
    buf_u64le(b, SIZE);
    buf_u64le(b, SIZE + 500);
    buf_u64le(b, 48 + 16 + 1300 + 6 + 4);
    buf_u64le(b, 100);
    buf_u64le(b, 1300);
    buf_put(b, before + 100, 1300);
    for (size_t at = 0; at < 1300; at += 512)
        buf_u16le(b, (uint16_t)crc32_update(0, changed + 100 + at, 1300 - at < 512 ? 1300 - at : 512));
    buf_u32le(b, crc32_update(0, b->data, b->len));
}

static void changes_all(void)
{
    begin();
    struct patches p = edit();
    p.new_size = SIZE + 3;
    CU_ASSERT(patches_add(&p, SIZE, str_of("end", 3)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){.dry_run = true}, NULL), CKPT_OK);
    CU_ASSERT(holds(path, before, SIZE));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){0}, NULL), CKPT_OK);
    char want[SIZE + 3];
    memcpy(want, changed, SIZE);
    memcpy(want + SIZE, "end", 3);
    CU_ASSERT(holds(path, want, sizeof want));
    CU_ASSERT(!there(undo));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &plain, NULL), CKPT_ECHANGED); /* not that size any more */
    end();
}

static void undoes_by_halves(void)
{
    static const size_t cut[] = {0, 100, 612, 1124, 1400, SIZE};
    begin();
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char now[SIZE + 200] = {0};
        buf b;
        bool undone = false;
        memcpy(now, changed, cut[i]);
        memcpy(now + cut[i], before + cut[i], SIZE - cut[i]);
        put_file(path, now, i % 2 ? sizeof now : SIZE);
        journal(&b);
        put_file(undo, b.data, b.len);
        CU_ASSERT_EQUAL(journal_check(path, NULL), CKPT_ECHANGED);
        CU_ASSERT_EQUAL(journal_recover(path, &plain, &undone, NULL), CKPT_OK);
        CU_ASSERT(undone);
        CU_ASSERT(holds(path, before, SIZE));
        CU_ASSERT(!there(undo));
        CU_ASSERT_EQUAL(journal_check(path, NULL), CKPT_OK);
        buf_free(&b);
    }
    end();
}

/* torn - the journal B, which is not whole, is removed and the file stays. */
static void torn(const void *bytes, size_t n)
{
    bool undone = true;
    put_file(undo, bytes, n);
    CU_ASSERT_EQUAL(journal_check(path, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(journal_recover(path, &plain, &undone, NULL), CKPT_OK);
    CU_ASSERT(!undone);
    CU_ASSERT(!there(undo));
}

static void leaves_torn_ones(void)
{
    buf b;
    begin();
    journal(&b);
    for (size_t n = 0; n < b.len; n += n < 64 || n + 20 > b.len ? 1 : 37)
        torn(b.data, n);
    for (size_t i = 0; i < b.len; i += i < 64 || i + 20 > b.len ? 1 : 41) {
        b.data[i] ^= 0x10;
        torn(b.data, b.len);
        b.data[i] ^= 0x10;
    }
    CU_ASSERT(holds(path, before, SIZE));
    buf_free(&b);
    end();
}

/* refused - a whole journal that does not fit: both files stay as they are. */
static void refused(const buf *b, const char *now, size_t n)
{
    bool undone = true;
    put_file(undo, b->data, b->len);
    CU_ASSERT_EQUAL(journal_recover(path, &plain, &undone, NULL), CKPT_ECHANGED);
    CU_ASSERT(!undone);
    CU_ASSERT(holds(path, now, n));
    CU_ASSERT(holds(undo, b->data, b->len));
}

static void leaves_others_files(void)
{
    char now[SIZE];
    buf b;
    begin();
    journal(&b);
    memcpy(now, changed, SIZE);
    now[700] ^= 1; /* neither old nor new */
    put_file(path, now, SIZE);
    refused(&b, now, SIZE);
    put_file(path, before, SIZE - 1);
    refused(&b, before, SIZE - 1);
    put_file(path, before, SIZE);
    b.data[16] ^= 1; /* another inode, and a checksum that holds */
    b.len -= 4;
    buf_u32le(&b, crc32_update(0, b.data, b.len));
    refused(&b, before, SIZE);
    buf_free(&b);
    end();
}

static void failure_undoes(void)
{
    struct rlimit was, small;
    ckpt_error err;
    begin();
    struct patches p = edit();
    p.new_size = SIZE + 4000;
    static char more[4000];
    CU_ASSERT(patches_add(&p, SIZE, str_of(more, sizeof more)));
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = SIZE + 1000;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small), 0);
    ckpt_status st = journal_apply(path, &p, &plain, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, old);
    CU_ASSERT_EQUAL(st, CKPT_EIO);
    CU_ASSERT_STRING_EQUAL(err.hint, "the file is as it was");
    CU_ASSERT(holds(path, before, SIZE));
    CU_ASSERT(!there(undo));
    end();
}

static void links_and_locks(void)
{
    char other[128];
    struct patches p;
    struct journal_options follow = {.no_sync = true, .follow_links = true};
    begin();
    p = edit();
    snprintf(other, sizeof other, "%s/other", dir);
    for (int hard = 0; hard < 2; hard++) {
        put_file(path, before, SIZE);
        CU_ASSERT_EQUAL_FATAL(hard ? link(path, other) : symlink(path, other), 0);
        CU_ASSERT_EQUAL(journal_apply(other, &p, &plain, NULL), CKPT_EUSAGE);
        CU_ASSERT(holds(path, before, SIZE));
        CU_ASSERT_EQUAL(journal_apply(other, &p, &follow, NULL), CKPT_OK);
        CU_ASSERT(holds(path, changed, SIZE));
        unlink(other);
    }
    put_file(path, before, SIZE);
    int fd = open(path, O_RDONLY);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
    CU_ASSERT_EQUAL(journal_apply(path, &p, &plain, NULL), CKPT_ECHANGED);
    close(fd);
    CU_ASSERT(holds(path, before, SIZE));
    end();
}

void suite_journal(void)
{
    UNIT(changes_all);
    UNIT(undoes_by_halves);
    UNIT(leaves_torn_ones);
    UNIT(leaves_others_files);
    UNIT(failure_undoes);
    UNIT(links_and_locks);
}
