/*
 * journal_bytes.c - see journal_bytes.h. The journal of FILE:
 *
 *   OFFSET  SIZE  DESCRIPTION, numbers little-endian
 *   0       8     "CKPTUNDO"
 *   8       4     1, the version      12  4  number of pieces
 *   16      8     inode of FILE
 *   24      8     size of FILE before the edit
 *   32      8     size of FILE after the edit
 *   40      8     length of the journal
 *   48      ...   pieces, each: offset in FILE (8), length (8), the bytes that FILE had
 *                 there before the edit, 4 bytes for each segment. A segment ends where
 *                 a sector of 512 bytes ends, and at the old end of FILE. Bits 0-30 are
 *                 bits 0-30 of the CRC-32 of the segment's new bytes. Bit 31 is set if
 *                 these differ from the old bytes or, after the old end, from zeros
 *   -4      4     CRC-32 of all before it
 *
 * Refused, because no edit leaves such a journal: a count of 0 pieces, an empty piece, pieces that overlap or
 * are not in ascending order, a size that grows by more than the pieces cover.
 *
 * The journal is written piece by piece, so that memory does not grow with it.
 */
#include "io/journal_bytes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/store.h"
#include "io/fd.h"

#define SIGNATURE   "CKPTUNDO"
#define HEADER_SIZE 48u
enum { VERSION_AT = 8, COUNT_AT = 12, INODE_AT = 16, OLD_SIZE_AT = 24, NEW_SIZE_AT = 32, LENGTH_AT = 40 };
#define SECTOR  512u
#define DIFFERS 0x80000000u
#define WINDOW  65536u /* bytes read and written at a time; a multiple of SECTOR */

/* get_segment_end - returns where the segment of P that begins at FROM ends. */
static size_t get_segment_end(const struct journal_piece *p, size_t from)
{
    size_t end = from < p->old_size ? p->old_size : p->size;
    size_t left = SECTOR - (size_t)((p->offset + from) % SECTOR);
    return end - from < left ? end : from + left;
}

static uint64_t count_sectors(uint64_t at, uint64_t n)
{
    return n ? (at + n - 1) / SECTOR - at / SECTOR + 1 : 0;
}

static uint64_t count_segments(const struct journal_piece *p)
{
    return count_sectors(p->offset, p->old_size) +
           count_sectors(p->offset + p->old_size, p->size - p->old_size);
}

/* equals_old - returns true if the N bytes NOW equal OLD, or are zeros if OLD is NULL. */
static bool equals_old(const unsigned char *old, const unsigned char *now, size_t n)
{
    if (old)
        return memcmp(now, old, n) == 0;
    while (n && *now == 0) {
        now++;
        n--;
    }
    return n == 0;
}

/* parse_pieces - parses the pieces. LAST_END is the end of the previous piece. COVERED is the old size or, if
 * that is larger, LAST_END: a piece that begins after COVERED would leave a gap. */
static bool parse_pieces(struct journal *j, cursor c)
{
    uint64_t last_end = 0, covered = j->old_size;
    for (size_t i = 0; i < j->n && i < PATCHES_MAX; i++) {
        struct journal_piece *p = &j->pieces[i];
        uint64_t n;
        p->offset = cursor_u64(&c);
        n = cursor_u64(&c);
        if (c.bad || !n || p->offset < last_end || p->offset > covered ||
            !range_within(p->offset, n, j->new_size) || !checked_size(n, &p->size))
            return false;
        last_end = p->offset + n;
        covered = last_end > covered ? last_end : covered;
        uint64_t left = p->offset < j->old_size ? j->old_size - p->offset : 0;
        p->old_size = left < p->size ? (size_t)left : p->size;
        p->old = cursor_take(&c, p->old_size);
        if (count_segments(p) > c.left / 4)
            return false;
        p->checksums = cursor_take(&c, (size_t)count_segments(p) * 4);
    }
    return j->n && j->n <= PATCHES_MAX && !c.bad && c.left == 0 && covered == j->new_size;
}

/* classify_damaged - returns JOURNAL_DAMAGED if the signature or the length in B is right. */
static enum journal_kind classify_damaged(const unsigned char *b, size_t size)
{
    bool is_ours = memcmp(b, SIGNATURE, size < 8 ? size : 8) == 0 ||
                   (size >= HEADER_SIZE && load_u64le(b + LENGTH_AT) == size);
    return is_ours ? JOURNAL_DAMAGED : JOURNAL_UNRELATED;
}

enum journal_kind journal_parse(struct journal *j, size_t size)
{
    const unsigned char *b = j->bytes;
    if (size < HEADER_SIZE + 4 || memcmp(b, SIGNATURE, 8) != 0 || load_u64le(b + LENGTH_AT) != size ||
        load_u32le(b + size - 4) != crc32_update(0, b, size - 4))
        return classify_damaged(b, size);
    j->n = load_u32le(b + COUNT_AT);
    j->inode = load_u64le(b + INODE_AT);
    j->old_size = load_u64le(b + OLD_SIZE_AT);
    j->new_size = load_u64le(b + NEW_SIZE_AT);
    if (load_u32le(b + VERSION_AT) != 1)
        return JOURNAL_OTHER_VERSION;
    return parse_pieces(j, cursor_of(j->bytes + HEADER_SIZE, size - HEADER_SIZE - 4, HEADER_SIZE))
               ? JOURNAL_VALID
               : JOURNAL_INVALID;
}

void journal_compare_piece(const struct journal_piece *p, const unsigned char *now, size_t got, bool *old,
                           bool *new, bool *fits)
{
    const unsigned char *sum = p->checksums;
    for (size_t from = 0, to; from < p->size; from = to, sum += 4) {
        to = get_segment_end(p, from);
        bool present = got >= to;
        bool is_old = present && equals_old(from < p->old_size ? p->old + from : NULL, now + from, to - from);
        bool is_new = present && !(is_old && (load_u32le(sum) & DIFFERS)) &&
                      ((crc32_update(0, now + from, to - from) ^ load_u32le(sum)) & ~DIFFERS) == 0;
        *new = *new && is_new;
        if (from >= p->old_size)
            continue; /* undoing cuts these bytes off */
        *old = *old && is_old;
        *fits = *fits && (is_old || is_new);
    }
}

/* The journal that is being written. */
struct journal_writer {
    int to, from;    /* descriptors of the journal and of the file */
    int write_errno; /* errno of the first failure, or 0 */
    uint32_t crc;
    size_t n;             /* bytes in BYTES that are not written yet */
    unsigned char *bytes; /* WINDOW bytes to write, WINDOW old bytes of the file, checksums of a piece */
};

static void flush_bytes(struct journal_writer *w)
{
    if (!w->write_errno && !fd_write(w->to, w->bytes, w->n))
        w->write_errno = errno;
    w->n = 0;
}

static void add_bytes(struct journal_writer *w, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    w->crc = crc32_update(w->crc, from, n);
    for (size_t chunk; n && !w->write_errno; n -= chunk) {
        chunk = WINDOW - w->n < n ? WINDOW - w->n : n;
        memcpy(w->bytes + w->n, from, chunk);
        from += chunk;
        w->n += chunk;
        if (w->n == WINDOW)
            flush_bytes(w);
    }
}

static void add_number(struct journal_writer *w, uint64_t v, size_t n)
{
    unsigned char b[8];
    store_u64le(b, v);
    add_bytes(w, b, n);
}

/* make_checksums - writes the checksums of the segments of P in [FROM, TO) to SUMS; returns their end. BYTES
 * are the new bytes of all of P. OLD are the old bytes from FROM on; NULL: zeros. */
static unsigned char *make_checksums(const struct journal_piece *p, const unsigned char *bytes,
                                     const unsigned char *old, size_t from, size_t to, unsigned char *sums)
{
    for (size_t end; from < to; old = old ? old + (end - from) : NULL, from = end) {
        end = get_segment_end(p, from);
        uint32_t sum = crc32_update(0, bytes + from, end - from) & ~DIFFERS;
        sum |= equals_old(old, bytes + from, end - from) ? 0 : DIFFERS;
        store_u32le(sums, sum);
        sums += 4;
    }
    return sums;
}

/* add_piece - adds the bytes that the file has at P, and the checksums of the BYTES that replace them. */
static ckpt_status add_piece(struct journal_writer *w, const struct journal_piece *p,
                             const unsigned char *bytes, ckpt_error *err)
{
    unsigned char *old = w->bytes + WINDOW, *sums = old + WINDOW, *end = sums;
    add_number(w, p->offset, 8);
    add_number(w, p->size, 8);
    for (size_t from = 0, to, got; from < p->old_size; from = to) {
        size_t max = WINDOW - (size_t)((p->offset + from) % SECTOR);
        to = p->old_size - from < max ? p->old_size : from + max;
        if (!fd_pread(w->from, old, to - from, p->offset + from, &got) || got != to - from)
            return fail_errno(err, p->offset + from, "cannot read what is to be changed");
        add_bytes(w, old, to - from);
        end = make_checksums(p, bytes, old, from, to, end);
    }
    end = make_checksums(p, bytes, NULL, p->old_size, p->size, end);
    add_bytes(w, sums, (size_t)(end - sums));
    return CKPT_OK;
}

/* plan_pieces - sets OUT to the ranges of the file that the patches P change. Returns the length of the
 * journal; *MAX_SUMS is the largest number of checksums in a piece. */
static uint64_t plan_pieces(const struct patches *p, struct journal_piece *out, uint64_t *max_sums)
{
    /* the patches are in memory, and the checksum of a segment of up to 512 bytes has 4 */
    uint64_t total = HEADER_SIZE + 4;
    *max_sums = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct patch *patch = &p->patch[i];
        uint64_t left = patch->offset < p->old_size ? p->old_size - patch->offset : 0, n;
        out[i] = (struct journal_piece){.offset = patch->offset, .size = patch->bytes.len};
        out[i].old_size = left < patch->bytes.len ? (size_t)left : patch->bytes.len;
        n = count_segments(&out[i]);
        *max_sums = n > *max_sums ? n : *max_sums;
        total += 16 + out[i].old_size + 4 * n;
    }
    return total;
}

static ckpt_status add_journal(struct journal_writer *w, uint64_t inode, const struct patches *p,
                               ckpt_error *err)
{
    struct journal_piece pieces[PATCHES_MAX];
    uint64_t max_sums, total = plan_pieces(p, pieces, &max_sums);
    if (total > JOURNAL_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "its undo journal has {%llu} bytes; {=%u} are allowed",
                    (unsigned long long)total, JOURNAL_MAX);
    w->bytes = malloc(2 * WINDOW + (size_t)max_sums * 4);
    CKPT_TRY_ALLOC(w->bytes, err);
    add_bytes(w, SIGNATURE, 8);
    add_number(w, 1, 4);
    add_number(w, p->n, 4);
    add_number(w, inode, 8);
    add_number(w, p->old_size, 8);
    add_number(w, p->new_size, 8);
    add_number(w, total, 8);
    for (size_t i = 0; i < p->n; i++)
        CKPT_TRY(add_piece(w, &pieces[i], (const unsigned char *)p->patch[i].bytes.ptr, err));
    add_number(w, w->crc, 4);
    flush_bytes(w);
    return CKPT_OK;
}

ckpt_status journal_write(int to, int *why, int fd, uint64_t inode, const struct patches *p, ckpt_error *err)
{
    struct journal_writer w = {.to = to, .from = fd};
    ckpt_status st = add_journal(&w, inode, p, err);
    free(w.bytes);
    *why = w.write_errno;
    return st;
}
