/* The journal of edits in place: it restores the file that it was written for and no other, and a damaged
 * journal is neither applied nor removed. The tests write their own journals. */
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

#define ALL_SECTORS 0x1Fu /* a bit for each of the five sectors of 512 bytes of the file after the edit */

/* put_checksum - appends the checksum that a journal has for the new bytes from offset FROM up to TO, which
 * are in one sector. Its highest bit is set if the new bytes differ from the old bytes. */
static void put_checksum(buf *b, size_t from, size_t to)
{
    uint32_t sum = crc32_update(0, changed + from, to - from) & 0x7FFFFFFF;
    buf_u32le(b, sum | (memcmp(changed + from, before + from, to - from) ? 0x80000000u : 0));
}

/* put_journal - writes to B a journal as io/journal_bytes.c describes it, of an edit that changes bytes 100
 * to 1399 and the last ten, and appends 500 bytes. */
static void put_journal(buf *b)
{
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    buf_init(b, 1 << 16);
    buf_put_cstr(b, "CKPTUNDO");
    buf_u32le(b, 1); /* version */
    buf_u32le(b, 2); /* number of pieces */
    buf_u64le(b, (uint64_t)st.st_ino);
    buf_u64le(b, SIZE);
    buf_u64le(b, GROWN_SIZE);
    /* size of the journal: this header, two pieces (offset and length, old bytes, checksums), a checksum */
    buf_u64le(b, 48 + (16 + 1300 + 3 * 4) + (16 + 10 + 3 * 4) + 4);
    buf_u64le(b, 100); /* the first piece: its offset and length */
    buf_u64le(b, 1300);
    buf_put(b, before + 100, 1300);
    put_checksum(b, 100, 512);
    put_checksum(b, 512, 1024);
    put_checksum(b, 1024, 1400);
    buf_u64le(b, SIZE - 10); /* the second piece */
    buf_u64le(b, GROWN_SIZE - SIZE + 10);
    buf_put(b, before + SIZE - 10, 10);
    put_checksum(b, SIZE - 10, SIZE);
    put_checksum(b, SIZE, 2048);
    put_checksum(b, 2048, GROWN_SIZE);
    buf_u32le(b, crc32_update(0, b->data, b->len));
}

/* fix_checksum - makes the last checksum of the journal B, which is that of all bytes before it, correct. */
static void fix_checksum(buf *b)
{
    b->len -= 4;
    buf_u32le(b, crc32_update(0, b->data, b->len));
}

static void an_edit_is_applied(void)
{
    begin_edit();
    struct patches p = make_patches();
    p.new_size = SIZE + 3;
    CU_ASSERT(patches_add(&p, SIZE, str_of("end", 3)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){.dry_run = true}, NULL), CKPT_OK);
    CU_ASSERT(file_is(path, before, SIZE));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){0}, NULL), CKPT_OK);
    char want[SIZE + 3];
    memcpy(want, changed, SIZE);
    memcpy(want + SIZE, "end", 3);
    CU_ASSERT(file_is(path, want, sizeof want));
    CU_ASSERT(!file_exists(journal_path));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &no_sync_options, NULL),
                    CKPT_ECHANGED); /* the size is no longer old_size */
    end_edit();
}

/* put_half_written - writes a file of N bytes, as a power cut could leave it. Sector I has its new bytes if
 * bit I of NEW_SECTORS is set, and otherwise its old bytes. */
static void put_half_written(unsigned new_sectors, size_t n)
{
    char current[GROWN_SIZE];
    for (size_t i = 0; i < GROWN_SIZE; i++)
        current[i] = new_sectors & 1u << i / 512 ? changed[i] : before[i];
    put_file(path, current, n);
}

/* recover - recovers the file with the journal B, and returns the result. Recovery must remove the
 * journal. */
static ckpt_recovered recover(const buf *b)
{
    ckpt_recovered recovered;
    put_file(journal_path, b->data, b->len);
    CU_ASSERT_EQUAL(journal_recover(path, &no_sync_options, &recovered, NULL), CKPT_OK);
    CU_ASSERT(!file_exists(journal_path));
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    return recovered;
}

/* check_recovers_old_and_new - checks that recovery with the journal B restores the old bytes of the file,
 * and that it keeps the new bytes after a complete edit. */
static void check_recovers_old_and_new(const buf *b)
{
    CU_ASSERT_EQUAL(recover(b), CKPT_RECOVERED_OLD);
    CU_ASSERT(file_is(path, before, SIZE));
    put_half_written(ALL_SECTORS, GROWN_SIZE);
    CU_ASSERT_EQUAL(recover(b), CKPT_RECOVERED_NEW);
    CU_ASSERT(file_is(path, changed, GROWN_SIZE));
}

/* After a power cut, each sector may be old or new, and the size of the file may be the old size, the new
 * size or any size between them. */
static void any_torn_write_is_recovered(void)
{
    static const size_t sizes[] = {SIZE, 2047, 2048, 2049, GROWN_SIZE - 1, GROWN_SIZE};
    buf b;
    begin_edit();
    put_journal(&b);
    for (unsigned new_sectors = 0; new_sectors <= ALL_SECTORS; new_sectors++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            bool all_new = new_sectors == ALL_SECTORS && n == GROWN_SIZE;
            bool none_new = (new_sectors & 0xF) == 0 && n == SIZE; /* the fifth sector is beyond SIZE */
            put_half_written(new_sectors, n);
            put_file(journal_path, b.data, b.len);
            CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), all_new || none_new ? CKPT_OK : CKPT_ECHANGED);
            CU_ASSERT_EQUAL(recover(&b), all_new ? CKPT_RECOVERED_NEW : CKPT_RECOVERED_OLD);
            CU_ASSERT(all_new ? file_is(path, changed, GROWN_SIZE) : file_is(path, before, SIZE));
        }
    }
    buf_free(&b);
    end_edit();
}

static void the_journal_of_a_complete_edit_undoes_nothing(void)
{
    buf b;
    begin_edit();
    put_journal(&b);
    struct patches p = make_patches();
    p.new_size = GROWN_SIZE;
    p.patch[1].bytes.len = GROWN_SIZE - SIZE + 10;
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){0}, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(recover(&b), CKPT_RECOVERED_NEW);
    CU_ASSERT(file_is(path, changed, GROWN_SIZE));
    put_file(journal_path, b.data, b.len);
    p = (struct patches){.old_size = GROWN_SIZE, .new_size = GROWN_SIZE};
    CU_ASSERT(patches_add(&p, 0, str_of("x", 1)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &no_sync_options, NULL),
                    CKPT_ECHANGED); /* the file has a journal */
    CU_ASSERT(file_is(path, changed, GROWN_SIZE));
    buf_free(&b);
    end_edit();
}

/* If the old and new bytes of a sector have the same CRC-32, its checksum does not show whether the new bytes
 * were written. */
static void sectors_of_equal_checksums_are_recovered(void)
{
    /* the generator polynomial: changing these bits keeps the CRC-32 */
    static const unsigned char generator[] = {0x41, 0x06, 0x71, 0xDB, 0x01};
    buf b;
    begin_edit();
    memcpy(changed + 512, before + 512, 512);
    for (size_t i = 0; i < sizeof generator; i++)
        changed[600 + i] = (char)(before[600 + i] ^ generator[i]);
    CU_ASSERT_EQUAL(crc32_update(0, before + 512, 512), crc32_update(0, changed + 512, 512));
    put_journal(&b);
    put_half_written(ALL_SECTORS & ~(1u << 1), GROWN_SIZE); /* all but the sector at 512 */
    check_recovers_old_and_new(&b);
    buf_free(&b);
    end_edit();
}

/* check_not_applied - checks that a journal of JOURNAL_SIZE bytes at JOURNAL is not applied, that the file
 * keeps its N bytes CURRENT, and that journal_check() returns READER_STATUS to readers of the file. */
static void check_not_applied(const void *journal, size_t journal_size, const char *current, size_t n,
                              ckpt_status reader_status)
{
    ckpt_recovered recovered = CKPT_RECOVERED_OLD;
    ckpt_error err;
    put_file(journal_path, journal, journal_size);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), reader_status);
    for (int dry_run = 0; dry_run < 2; dry_run++) {
        struct journal_options o = {.no_sync = true, .dry_run = dry_run};
        CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, &err), CKPT_ECHANGED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "f" JOURNAL_SUFFIX));
        CU_ASSERT_NOT_EQUAL(err.hint[0], '\0');
        CU_ASSERT_EQUAL(recovered, CKPT_RECOVERED_NOTHING);
    }
    CU_ASSERT(file_is(path, current, n));
    CU_ASSERT(file_is(journal_path, journal, journal_size));
}

/* check_blocks_readers - checks that the journal B is not applied, that the file keeps its N bytes CURRENT,
 * and that its readers get an error. */
static void check_blocks_readers(const buf *b, const char *current, size_t n)
{
    check_not_applied(b->data, b->len, current, n, CKPT_ECHANGED);
}

/* A damaged journal is kept, because the file may be half changed. */
static void damaged_journals_are_kept(void)
{
    char current[SIZE];
    buf b;
    begin_edit();
    put_journal(&b);
    memcpy(current, before, SIZE);
    memcpy(current, changed, 512);
    put_file(path, current, SIZE);
    for (size_t n = 0; n < b.len; n += n < 64 || n + 20 > b.len ? 1 : 37)
        check_not_applied(b.data, n, current, SIZE, CKPT_ECHANGED);
    for (size_t i = 0; i < b.len; i += i < 64 || i + 20 > b.len ? 1 : 41) {
        b.data[i] ^= 0x10;
        check_blocks_readers(&b, current, SIZE);
        b.data[i] ^= 0x10;
    }
    CU_ASSERT_EQUAL(recover(&b), CKPT_RECOVERED_OLD);
    CU_ASSERT(file_is(path, before, SIZE));
    buf_free(&b);
    end_edit();
}

/* A file that has the name of a journal, but is not a journal, is ignored by readers and never removed. */
static void other_files_with_the_name_of_a_journal_are_kept(void)
{
    static char notes[] = "my notes, which are longer than the header of a journal";
    begin_edit();
    struct patches p = make_patches();
    for (size_t n = 1; n < sizeof notes; n += 9) {
        check_not_applied(notes, n, before, SIZE, CKPT_OK);
        CU_ASSERT_EQUAL(journal_apply(path, &p, &no_sync_options, NULL), CKPT_ECHANGED);
        CU_ASSERT(file_is(path, before, SIZE));
        CU_ASSERT(file_is(journal_path, notes, n));
    }
    end_edit();
}

/* check_dry_run - checks that recovery with dry_run reports WANT and changes no file. */
static void check_dry_run(const buf *b, ckpt_recovered want)
{
    ckpt_recovered recovered;
    char old_bytes[GROWN_SIZE];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(old_bytes, 1, sizeof old_bytes, f) : 0;
    if (f)
        fclose(f);
    put_file(journal_path, b->data, b->len);
    struct journal_options o = {.no_sync = true, .dry_run = true};
    CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(recovered, want);
    CU_ASSERT(file_is(path, old_bytes, n));
    CU_ASSERT(file_is(journal_path, b->data, b->len));
}

static void dry_run_writes_nothing(void)
{
    buf b;
    begin_edit();
    put_journal(&b);
    check_dry_run(&b, CKPT_RECOVERED_OLD);
    put_half_written(0x5, 2047);
    check_dry_run(&b, CKPT_RECOVERED_OLD);
    put_half_written(ALL_SECTORS, GROWN_SIZE);
    check_dry_run(&b, CKPT_RECOVERED_NEW);
    struct patches p = {.old_size = GROWN_SIZE, .new_size = GROWN_SIZE};
    CU_ASSERT(patches_add(&p, 0, str_of("x", 1)));
    CU_ASSERT_EQUAL(journal_apply(path, &p, &(struct journal_options){.dry_run = true}, NULL), CKPT_OK);
    CU_ASSERT(file_is(journal_path, b.data, b.len));
    buf_free(&b);
    end_edit();
}

static void journals_that_do_not_match_are_kept(void)
{
    char current[SIZE];
    buf b;
    begin_edit();
    put_journal(&b);
    memcpy(current, changed, SIZE);
    current[700] ^= 1; /* neither old nor new */
    put_file(path, current, SIZE);
    check_blocks_readers(&b, current, SIZE);
    put_file(path, before, SIZE - 1);
    check_blocks_readers(&b, before, SIZE - 1);
    put_file(path, before, GROWN_SIZE + 1);
    check_blocks_readers(&b, before, GROWN_SIZE + 1);
    put_file(path, before, SIZE);
    b.data[8] = 2; /* the version */
    fix_checksum(&b);
    check_blocks_readers(&b, before, SIZE);
    b.data[8] = 1;
    b.data[12] = 3; /* the number of pieces */
    fix_checksum(&b);
    check_blocks_readers(&b, before, SIZE);
    buf_free(&b);
    end_edit();
}

/* A copy of the file has another inode than the journal names. Readers of a half changed copy are refused; an
 * unrelated file can be read. */
static void only_half_changed_copies_block_readers(void)
{
    char current[SIZE];
    buf b;
    begin_edit();
    put_journal(&b);
    b.data[16] ^= 1; /* the number of the inode */
    fix_checksum(&b);
    memcpy(current, before, SIZE);
    memcpy(current, changed, 512);
    put_file(path, current, SIZE);
    check_blocks_readers(&b, current, SIZE);
    current[700] ^= 1; /* neither old nor new */
    put_file(path, current, SIZE);
    struct journal_note note;
    CU_ASSERT_EQUAL(journal_check(path, &note, NULL), CKPT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(note.text, "another file"));
    check_not_applied(b.data, b.len, current, SIZE, CKPT_OK);
    put_file(path, before, SIZE - 1);
    check_not_applied(b.data, b.len, before, SIZE - 1, CKPT_OK);
    put_half_written(0, SIZE);
    check_recovers_old_and_new(&b);
    buf_free(&b);
    end_edit();
}

/* replace_file - makes the file half changed, writes the N BYTES to the path of its journal, and replaces the
 * file by a new one. MUST_REMOVE: what is at the path of the journal must then be removed. */
static void replace_file(const void *bytes, size_t n, bool must_remove)
{
    struct sink_options o = {.force = true};
    sink *s;
    put_half_written(0x5, SIZE);
    put_file(journal_path, bytes, n);
    CU_ASSERT_EQUAL_FATAL(sink_file(path, &o, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_write(s, "new", 3, NULL), CKPT_OK);
    CU_ASSERT(file_is(journal_path, bytes, n)); /* the journal stays until the new file is in place */
    CU_ASSERT_EQUAL(sink_commit(s, NULL), CKPT_OK);
    CU_ASSERT(file_is(path, "new", 3));
    CU_ASSERT_EQUAL(file_exists(journal_path), !must_remove);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    unlink(journal_path);
}

static void a_journal_is_removed_with_its_file(void)
{
    buf b;
    begin_edit();
    put_journal(&b);
    replace_file(b.data, b.len, true);
    /* A journal that a crash has left does not block readers of the new file, which has another inode. */
    put_file(journal_path, b.data, b.len);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    unlink(journal_path);
    replace_file(b.data, b.len - 1, true);
    replace_file("notes", 5, false);
    buf_free(&b);
    end_edit();
}

static void readers_refuse_a_file_that_is_being_edited(void)
{
    buf b;
    begin_edit();
    put_journal(&b);
    put_file(journal_path, b.data, b.len);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    int fd = open(path, O_RDONLY);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_ECHANGED);
    close(fd);
    buf_free(&b);
    end_edit();
}

static void a_failed_edit_is_undone(void)
{
    struct rlimit old_limit, small_limit;
    ckpt_error err;
    begin_edit();
    struct patches p = make_patches();
    p.new_size = SIZE + 4000;
    static char appended[4000]; /* more than the limit on the size of files allows */
    CU_ASSERT(patches_add(&p, SIZE, str_of(appended, sizeof appended)));
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    small_limit = old_limit;
    small_limit.rlim_cur = SIZE + 1000;
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small_limit), 0);
    ckpt_status st = journal_apply(path, &p, &no_sync_options, &err);
    setrlimit(RLIMIT_FSIZE, &old_limit);
    signal(SIGXFSZ, old_handler);
    CU_ASSERT_EQUAL(st, CKPT_EIO);
    CU_ASSERT_STRING_EQUAL(err.hint, "the file is as it was");
    CU_ASSERT(file_is(path, before, SIZE));
    CU_ASSERT(!file_exists(journal_path));
    end_edit();
}

static void linked_and_locked_files_are_not_edited(void)
{
    char link_path[128];
    struct patches p;
    struct journal_options follow_options = {.no_sync = true, .follow_links = true};
    begin_edit();
    p = make_patches();
    snprintf(link_path, sizeof link_path, "%s/other", dir);
    for (int is_hard_link = 0; is_hard_link < 2; is_hard_link++) {
        put_file(path, before, SIZE);
        CU_ASSERT_EQUAL_FATAL(is_hard_link ? link(path, link_path) : symlink(path, link_path), 0);
        CU_ASSERT_EQUAL(journal_apply(link_path, &p, &no_sync_options, NULL), CKPT_EUSAGE);
        CU_ASSERT(file_is(path, before, SIZE));
        CU_ASSERT_EQUAL(journal_apply(link_path, &p, &follow_options, NULL), CKPT_OK);
        CU_ASSERT(file_is(path, changed, SIZE));
        unlink(link_path);
    }
    put_file(path, before, SIZE);
    int fd = open(path, O_RDONLY);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX | LOCK_NB), 0);
    CU_ASSERT_EQUAL(journal_apply(path, &p, &no_sync_options, NULL), CKPT_ECHANGED);
    close(fd);
    CU_ASSERT(file_is(path, before, SIZE));
    end_edit();
}

/* ----------------------------------------------------------------- journals that others may have written */

/* check_not_trusted - checks that the journal is neither applied nor removed, and that REASON is given. */
static void check_not_trusted(const char *reason)
{
    struct journal_note note;
    ckpt_recovered recovered;
    ckpt_error err;
    CU_ASSERT_EQUAL(journal_check(path, &note, NULL), CKPT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(note.text, reason));
    CU_ASSERT_EQUAL(journal_recover(path, &no_sync_options, &recovered, &err), CKPT_ECHANGED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, reason));
    CU_ASSERT_PTR_NULL(strstr(err.hint, "ckpt "));
    struct sink_options o = {.force = true};
    sink *s;
    CU_ASSERT_EQUAL_FATAL(sink_file(path, &o, &s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(sink_commit(s, NULL), CKPT_OK);
    CU_ASSERT(access(journal_path, F_OK) == 0); /* the journal was not removed with the file */
    put_half_written(0x5, SIZE);
}

/* A journal that a different user could have written is not applied, even to a half changed file. */
static void journals_of_other_users_are_not_applied(void)
{
    char link_path[128];
    buf b;
    begin_edit();
    put_journal(&b);
    put_half_written(0x5, SIZE);
    put_file(journal_path, b.data, b.len);
    snprintf(link_path, sizeof link_path, "%s/other", dir);
    chmod(journal_path, 0620);
    check_not_trusted("others may write");
    chmod(journal_path, 0602);
    check_not_trusted("others may write");
    chmod(journal_path, 0600);
    CU_ASSERT_EQUAL(link(journal_path, link_path), 0);
    check_not_trusted("hard links");
    unlink(journal_path);
    CU_ASSERT_EQUAL(symlink(link_path, journal_path), 0);
    check_not_trusted("symbolic link");
    unlink(journal_path);
    unlink(link_path);
    if (geteuid() == 0) {
        put_file(journal_path, b.data, b.len);
        CU_ASSERT_EQUAL(chown(journal_path, 12345, (gid_t)-1), 0);
        check_not_trusted("another user");
        CU_ASSERT_EQUAL(chown(path, 12345, (gid_t)-1),
                        0); /* the journal now belongs to the owner of the file */
        CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_ECHANGED);
        unlink(journal_path);
    }
    CU_ASSERT_EQUAL(mkfifo(journal_path, 0600), 0); /* a reader must not wait for a writer of this FIFO */
    CU_ASSERT_EQUAL(journal_check(path, NULL, NULL), CKPT_OK);
    unlink(journal_path);
    buf_free(&b);
    end_edit();
}

/* put_pieces - writes to B a journal of an edit that changes the size of the file from OLD_SIZE to NEW_SIZE
 * and no bytes. The journal has N pieces, whose offsets and lengths are in PIECES. */
static void put_pieces(buf *b, uint64_t old_size, uint64_t new_size, size_t n, const uint64_t (*pieces)[2])
{
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    buf_init(b, 1 << 16);
    buf_put_cstr(b, "CKPTUNDO");
    buf_u32le(b, 1); /* version */
    buf_u32le(b, (uint32_t)n);
    buf_u64le(b, (uint64_t)st.st_ino);
    buf_u64le(b, old_size);
    buf_u64le(b, new_size);
    buf_u64le(b, 0); /* size of the journal, which is set below */
    for (size_t i = 0; i < n; i++) {
        uint64_t offset = pieces[i][0], length = pieces[i][1];
        uint64_t up_to_old_end = offset < old_size ? old_size - offset : 0;
        bool crosses_old_end = up_to_old_end && up_to_old_end < length;
        buf_u64le(b, offset);
        buf_u64le(b, length);
        buf_put(b, before, (size_t)(up_to_old_end < length ? up_to_old_end : length));
        for (size_t k = 0; k < (crosses_old_end ? 2 : 1); k++)
            buf_u32le(b, 0); /* the checksum of a segment */
    }
    for (size_t i = 0; i < 8; i++)
        b->data[40 + i] = (unsigned char)((uint64_t)(b->len + 4) >> 8 * i);
    buf_u32le(b, 0);
    fix_checksum(b);
}

/* No edit writes such journals: pieces overlap, are empty, or do not match the change of size. */
static void inconsistent_pieces_are_refused(void)
{
    static const struct {
        uint64_t old_size, new_size;
        size_t npieces;
        uint64_t pieces[2][2]; /* the offset and length of each */
    } cases[] = {
        {0, SIZE + 1, 0, {{0, 0}}},                /* no piece has the appended bytes */
        {SIZE, SIZE, 0, {{0, 0}}},                 /* no pieces */
        {SIZE, SIZE, 1, {{10, 0}}},                /* an empty piece */
        {10, SIZE, 1, {{0, 10}}},                  /* no piece has the appended bytes */
        {10, SIZE, 1, {{0, 20}}},                  /* the piece has too few of the appended bytes */
        {10, SIZE, 2, {{0, 20}, {SIZE - 20, 20}}}, /* the pieces have too few of the appended bytes */
        {SIZE, SIZE, 2, {{10, 20}, {29, 2}}},      /* the pieces overlap */
        {SIZE, SIZE, 2, {{100, 2}, {10, 2}}},      /* the offsets descend */
        {SIZE, SIZE - 1, 1, {{0, 10}}},            /* the file becomes smaller */
        {SIZE, SIZE, 1, {{SIZE - 1, 2}}},          /* a piece beyond the end of the file */
    };
    ckpt_error err;
    ckpt_recovered recovered;
    buf b;
    begin_edit();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_pieces(&b, cases[i].old_size, cases[i].new_size, cases[i].npieces, cases[i].pieces);
        check_blocks_readers(&b, before, SIZE);
        CU_ASSERT_EQUAL(journal_recover(path, &no_sync_options, &recovered, &err), CKPT_ECHANGED);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "does not hold"));
        buf_free(&b);
    }
    end_edit();
}

struct judgement {
    bool accept;                    /* judge_undo() accepts the bytes */
    unsigned ncalls;                /* number of calls of judge_undo() */
    char offered_bytes[GROWN_SIZE]; /* the restored bytes that judge_undo() may accept */
};

static ckpt_status judge_undo(void *user, source *current, source *restored, const struct patches *p,
                              bool *accepted, ckpt_error *err)
{
    struct judgement *judgement = user;
    judgement->ncalls++;
    *accepted = judgement->accept;
    CU_ASSERT_EQUAL(p->n, 2);
    CU_ASSERT_EQUAL(p->new_size, SIZE);
    CU_ASSERT_EQUAL(current->size, 2048);
    CU_ASSERT_EQUAL_FATAL(restored->size, SIZE);
    return source_read(restored, 0, judgement->offered_bytes, SIZE, err);
}

/* The judge decides whether the bytes that an undo would restore can be those that the edit replaced. */
static void the_judge_is_called_before_an_edit_is_undone(void)
{
    struct judgement judgement = {.accept = false};
    struct journal_options o = {.no_sync = true, .judge = {.user = &judgement, .accepts_undo = judge_undo}};
    struct journal_note note = {.judge = o.judge};
    ckpt_recovered recovered;
    ckpt_error err;
    char current[GROWN_SIZE];
    buf b;
    begin_edit();
    put_journal(&b);
    put_half_written(0x5, 2048);
    put_file(journal_path, b.data, b.len);
    for (size_t i = 0; i < 2048; i++)
        current[i] = 0x5u & 1u << i / 512 ? changed[i] : before[i];
    CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, &err), CKPT_ECHANGED);
    CU_ASSERT_EQUAL(journal_check(path, &note, &err), CKPT_ECHANGED);
    CU_ASSERT_PTR_NULL(strstr(err.hint, "ckpt ")); /* the hint names no command */
    CU_ASSERT_EQUAL(judgement.ncalls, 2);
    CU_ASSERT(file_is(path, current, 2048));
    CU_ASSERT_EQUAL(memcmp(judgement.offered_bytes, before, SIZE), 0);
    judgement.accept = true;
    CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, &err), CKPT_OK);
    CU_ASSERT(file_is(path, before, SIZE));
    judgement.ncalls = 0; /* the judge is not called if recovery changes no byte */
    put_file(journal_path, b.data, b.len);
    CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, &err), CKPT_OK);
    put_half_written(ALL_SECTORS, GROWN_SIZE);
    put_file(journal_path, b.data, b.len);
    CU_ASSERT_EQUAL(journal_recover(path, &o, &recovered, &err), CKPT_OK);
    CU_ASSERT_EQUAL(judgement.ncalls, 0);
    buf_free(&b);
    end_edit();
}

void suite_journal(void)
{
    UNIT(journals_of_other_users_are_not_applied);
    UNIT(inconsistent_pieces_are_refused);
    UNIT(the_judge_is_called_before_an_edit_is_undone);
    UNIT(an_edit_is_applied);
    UNIT(any_torn_write_is_recovered);
    UNIT(the_journal_of_a_complete_edit_undoes_nothing);
    UNIT(sectors_of_equal_checksums_are_recovered);
    UNIT(damaged_journals_are_kept);
    UNIT(other_files_with_the_name_of_a_journal_are_kept);
    UNIT(dry_run_writes_nothing);
    UNIT(journals_that_do_not_match_are_kept);
    UNIT(only_half_changed_copies_block_readers);
    UNIT(a_journal_is_removed_with_its_file);
    UNIT(readers_refuse_a_file_that_is_being_edited);
    UNIT(a_failed_edit_is_undone);
    UNIT(linked_and_locked_files_are_not_edited);
}
