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

/* get_segment_end - returns where the segment of PIECE that begins at FROM ends. */
static size_t get_segment_end(const struct journal_piece *piece, size_t from)
{
    size_t end = from < piece->old_size ? piece->old_size : piece->size;
    size_t left = SECTOR - (size_t)((piece->offset + from) % SECTOR);
    return end - from < left ? end : from + left;
}

static uint64_t count_sectors(uint64_t at, uint64_t nbytes)
{
    return nbytes ? (at + nbytes - 1) / SECTOR - at / SECTOR + 1 : 0;
}

static uint64_t count_segments(const struct journal_piece *piece)
{
    return count_sectors(piece->offset, piece->old_size) +
           count_sectors(piece->offset + piece->old_size, piece->size - piece->old_size);
}

/* equals_old - returns true if the NBYTES bytes NOW equal OLD, or are zeros if OLD is NULL. */
static bool equals_old(const unsigned char *old, const unsigned char *now, size_t nbytes)
{
    if (old)
        return memcmp(now, old, nbytes) == 0;
    while (nbytes && *now == 0) {
        now++;
        nbytes--;
    }
    return nbytes == 0;
}

/* parse_pieces - parses the pieces. LAST_END is the end of the previous piece. COVERED is the old size or, if
 * that is larger, LAST_END: a piece that begins after COVERED would leave a gap. */
static bool parse_pieces(struct journal *journal, cursor in)
{
    uint64_t last_end = 0, covered = journal->old_size;
    for (size_t i = 0; i < journal->n && i < PATCHES_MAX; i++) {
        struct journal_piece *p = &journal->pieces[i];
        uint64_t n;
        p->offset = cursor_u64(&in);
        n = cursor_u64(&in);
        if (in.bad || !n || p->offset < last_end || p->offset > covered ||
            !range_within(p->offset, n, journal->new_size) || !checked_size(n, &p->size))
            return false;
        last_end = p->offset + n;
        covered = last_end > covered ? last_end : covered;
        uint64_t left = p->offset < journal->old_size ? journal->old_size - p->offset : 0;
        p->old_size = left < p->size ? (size_t)left : p->size;
        p->old = cursor_take(&in, p->old_size);
        if (count_segments(p) > in.left / 4)
            return false;
        p->checksums = cursor_take(&in, (size_t)count_segments(p) * 4);
    }
    return journal->n && journal->n <= PATCHES_MAX && !in.bad && in.left == 0 && covered == journal->new_size;
}

/* classify_damaged - returns JOURNAL_DAMAGED if the signature or the length in BYTES is right. */
static enum journal_kind classify_damaged(const unsigned char *bytes, size_t size)
{
    bool is_ours = memcmp(bytes, SIGNATURE, size < 8 ? size : 8) == 0 ||
                   (size >= HEADER_SIZE && load_u64le(bytes + LENGTH_AT) == size);
    return is_ours ? JOURNAL_DAMAGED : JOURNAL_UNRELATED;
}

enum journal_kind journal_parse(struct journal *journal, size_t size)
{
    const unsigned char *b = journal->bytes;
    if (size < HEADER_SIZE + 4 || memcmp(b, SIGNATURE, 8) != 0 || load_u64le(b + LENGTH_AT) != size ||
        load_u32le(b + size - 4) != crc32_update(0, b, size - 4))
        return classify_damaged(b, size);
    journal->n = load_u32le(b + COUNT_AT);
    journal->inode = load_u64le(b + INODE_AT);
    journal->old_size = load_u64le(b + OLD_SIZE_AT);
    journal->new_size = load_u64le(b + NEW_SIZE_AT);
    if (load_u32le(b + VERSION_AT) != 1)
        return JOURNAL_OTHER_VERSION;
    return parse_pieces(journal, cursor_of(journal->bytes + HEADER_SIZE, size - HEADER_SIZE - 4, HEADER_SIZE))
               ? JOURNAL_VALID
               : JOURNAL_INVALID;
}

void journal_compare_piece(const struct journal_piece *piece, const unsigned char *now, size_t got, bool *old,
                           bool *new, bool *fits)
{
    const unsigned char *sum = piece->checksums;
    for (size_t from = 0, to; from < piece->size; from = to, sum += 4) {
        to = get_segment_end(piece, from);
        bool present = got >= to;
        bool is_old = present &&
                      equals_old(from < piece->old_size ? piece->old + from : NULL, now + from, to - from);
        bool is_new = present && !(is_old && (load_u32le(sum) & DIFFERS)) &&
                      ((crc32_update(0, now + from, to - from) ^ load_u32le(sum)) & ~DIFFERS) == 0;
        *new = *new && is_new;
        if (from >= piece->old_size)
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

static void flush_bytes(struct journal_writer *writer)
{
    if (!writer->write_errno && !fd_write(writer->to, writer->bytes, writer->n))
        writer->write_errno = errno;
    writer->n = 0;
}

static void add_bytes(struct journal_writer *writer, const void *bytes, size_t nbytes)
{
    const unsigned char *from = bytes;
    writer->crc = crc32_update(writer->crc, from, nbytes);
    for (size_t chunk; nbytes && !writer->write_errno; nbytes -= chunk) {
        chunk = WINDOW - writer->n < nbytes ? WINDOW - writer->n : nbytes;
        memcpy(writer->bytes + writer->n, from, chunk);
        from += chunk;
        writer->n += chunk;
        if (writer->n == WINDOW)
            flush_bytes(writer);
    }
}

static void add_number(struct journal_writer *writer, uint64_t number, size_t count)
{
    unsigned char b[8];
    store_u64le(b, number);
    add_bytes(writer, b, count);
}

/* make_checksums - writes the checksums of the segments of PIECE in [FROM, TO) to SUMS; returns their end.
 * BYTES are the new bytes of all of PIECE. OLD are the old bytes from FROM on; NULL: zeros. */
static unsigned char *make_checksums(const struct journal_piece *piece, const unsigned char *bytes,
                                     const unsigned char *old, size_t from, size_t to, unsigned char *sums)
{
    for (size_t end; from < to; old = old ? old + (end - from) : NULL, from = end) {
        end = get_segment_end(piece, from);
        uint32_t sum = crc32_update(0, bytes + from, end - from) & ~DIFFERS;
        sum |= equals_old(old, bytes + from, end - from) ? 0 : DIFFERS;
        store_u32le(sums, sum);
        sums += 4;
    }
    return sums;
}

/* add_piece - adds the bytes that the file has at PIECE, and the checksums of the BYTES that replace them. */
static ckpt_status add_piece(struct journal_writer *writer, const struct journal_piece *piece,
                             const unsigned char *bytes, ckpt_error *err)
{
    unsigned char *old = writer->bytes + WINDOW, *sums = old + WINDOW, *end = sums;
    add_number(writer, piece->offset, 8);
    add_number(writer, piece->size, 8);
    for (size_t from = 0, to, got; from < piece->old_size; from = to) {
        size_t max = WINDOW - (size_t)((piece->offset + from) % SECTOR);
        to = piece->old_size - from < max ? piece->old_size : from + max;
        if (!fd_pread(writer->from, old, to - from, piece->offset + from, &got) || got != to - from)
            return fail_errno(err, piece->offset + from, "cannot read what is to be changed");
        add_bytes(writer, old, to - from);
        end = make_checksums(piece, bytes, old, from, to, end);
    }
    end = make_checksums(piece, bytes, NULL, piece->old_size, piece->size, end);
    add_bytes(writer, sums, (size_t)(end - sums));
    return CKPT_OK;
}

/* plan_pieces - sets OUT to the ranges of the file that the patches PATCHES change. Returns the length of the
 * journal; *MAX_SUMS is the largest number of checksums in a piece. */
static uint64_t plan_pieces(const struct patches *patches, struct journal_piece *out, uint64_t *max_sums)
{
    /* the patches are in memory, and the checksum of a segment of up to 512 bytes has 4 */
    uint64_t total = HEADER_SIZE + 4;
    *max_sums = 0;
    for (size_t i = 0; i < patches->n; i++) {
        const struct patch *patch = &patches->patch[i];
        uint64_t left = patch->offset < patches->old_size ? patches->old_size - patch->offset : 0, n;
        out[i] = (struct journal_piece){.offset = patch->offset, .size = patch->bytes.len};
        out[i].old_size = left < patch->bytes.len ? (size_t)left : patch->bytes.len;
        n = count_segments(&out[i]);
        *max_sums = n > *max_sums ? n : *max_sums;
        total += 16 + out[i].old_size + 4 * n;
    }
    return total;
}

static ckpt_status add_journal(struct journal_writer *writer, uint64_t inode, const struct patches *patches,
                               ckpt_error *err)
{
    struct journal_piece pieces[PATCHES_MAX];
    uint64_t max_sums, total = plan_pieces(patches, pieces, &max_sums);
    if (total > JOURNAL_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "its undo journal has {%llu} bytes; {=%u} are allowed",
                    (unsigned long long)total, JOURNAL_MAX);
    writer->bytes = malloc(2 * WINDOW + (size_t)max_sums * 4);
    CKPT_TRY_ALLOC(writer->bytes, err);
    add_bytes(writer, SIGNATURE, 8);
    add_number(writer, 1, 4);
    add_number(writer, patches->n, 4);
    add_number(writer, inode, 8);
    add_number(writer, patches->old_size, 8);
    add_number(writer, patches->new_size, 8);
    add_number(writer, total, 8);
    for (size_t i = 0; i < patches->n; i++)
        CKPT_TRY(add_piece(writer, &pieces[i], (const unsigned char *)patches->patch[i].bytes.ptr, err));
    add_number(writer, writer->crc, 4);
    flush_bytes(writer);
    return CKPT_OK;
}

ckpt_status journal_write(int to, int *why, int fd, uint64_t inode, const struct patches *patches,
                          ckpt_error *err)
{
    struct journal_writer w = {.to = to, .from = fd};
    ckpt_status st = add_journal(&w, inode, patches, err);
    free(w.bytes);
    *why = w.write_errno;
    return st;
}
