/*
 * zip_end.c - where an archive's directory is.
 *
 * End record, behind the directory, 22 bytes and a comment (PKWARE APPNOTE 4.3.16):
 *   0   4  50 4B 05 06
 *   4   2  number of this disk        6   2  disk with the directory
 *   8   2  entries on this disk      10   2  entries
 *   12  4  size of the directory     16   4  its offset        20  2  length of the comment
 * Zip64 end record (56 bytes: 50 4B 06 06) and its locator (20 bytes: 50 4B 06
 * 07, offset of the record at 8) stand right before it in every file that torch
 * writes, however small.
 *
 * Readers disagree on what to do when the numbers do not fit the place of the
 * record: miniz believes the offset, Python the size. Here both must lead to
 * the same directory. The archive may have junk before it (all offsets short by
 * the same amount) and behind it, but what stands before it must not itself
 * begin like an archive: then it is the outer one that is cut.
 */
#include "codec/zip_end.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"

#define END_SIZE     22u
#define WIDE_SIZE    56u
#define LOCATOR_SIZE 20u
#define NEAR         (65535u + END_SIZE) /* the longest comment */
#define FAR          (1u << 20)          /* as far as junk behind the archive is searched */
#define TRIES        16                  /* of signatures that may be chance */

/* The last bytes of the file. */
struct tail {
    source *src;
    unsigned char *bytes;
    uint64_t at; /* offset of bytes[0] */
    size_t n;
};

static uint64_t here(const struct tail *t, uint64_t off) { return source_pos(t->src, off); }

/* peek - N <= WIDE_SIZE bytes at OFF into OUT; false when they are not there. */
static bool peek(const struct tail *t, uint64_t off, unsigned char *out, size_t n)
{
    if (!range_within(off, n, t->src->size))
        return false;
    if (off >= t->at && range_within(off - t->at, n, t->n)) {
        /* bounded: inside the tail, by range_within */
        memcpy(out, t->bytes + (off - t->at), n);
        return true;
    }
    return source_read(t->src, off, out, n, NULL) == CKPT_OK;
}

static bool signed_as(const struct tail *t, uint64_t off, uint32_t signature)
{
    unsigned char b[4];
    return peek(t, off, b, 4) && load_u32le(b) == signature;
}

/* One number that is said twice, in 16 or 32 bits and in 64. */
static bool agree(uint64_t narrow, uint64_t saturated, uint64_t wide)
{
    return narrow == saturated || narrow == wide;
}

/* wide_end - the zip64 record that the locator before the end record tells of. */
static ckpt_status wide_end(const struct tail *t, struct zip_end *e, ckpt_error *err)
{
    unsigned char loc[LOCATOR_SIZE], rec[WIDE_SIZE];
    if (e->at < LOCATOR_SIZE || !signed_as(t, e->at - LOCATOR_SIZE, 0x07064B50))
        return CKPT_OK;
    uint64_t locator = e->at - LOCATOR_SIZE;
    if (!peek(t, locator, loc, sizeof loc))
        return fail(err, CKPT_EIO, here(t, locator), "the zip64 locator cannot be read");
    uint64_t at = load_u64le(loc + 8);
    if (!signed_as(t, at, 0x06064B50) && locator >= WIDE_SIZE)
        at = locator - WIDE_SIZE;
    if (!range_within(at, WIDE_SIZE, locator) || !peek(t, at, rec, sizeof rec) ||
        load_u32le(rec) != 0x06064B50)
        return fail(err, CKPT_EFORMAT, here(t, locator),
                    "the zip64 locator points to {%llu}, where no {=zip64 end record} is",
                    (unsigned long long)load_u64le(loc + 8));
    uint64_t end = 0, said = load_u64le(rec + 4); /* behind these 12 bytes of it */
    if (!checked_add(at, 12, &end) || !checked_add(end, said, &end) || end != locator) {
        (void)fail(err, CKPT_EFORMAT, here(t, at),
                   "the zip64 end record ends at {%llu}, its locator is at {=%llu}; readers would disagree",
                   (unsigned long long)end, (unsigned long long)locator);
        fail_hint(err, "several archives one after the other? a Distributed Checkpoint has such files");
        return CKPT_EFORMAT;
    }
    if (load_u32le(loc + 4) || load_u32le(loc + 16) > 1 || load_u32le(rec + 16) || load_u32le(rec + 20))
        return fail(err, CKPT_EUNSUPPORTED, here(t, at),
                    "disks {%u, %u and %u of %u}; an archive of one file says {=0, 0 and 0 of 1}",
                    load_u32le(loc + 4), load_u32le(rec + 16), load_u32le(rec + 20), load_u32le(loc + 16));
    uint64_t n = load_u64le(rec + 32), size = load_u64le(rec + 40), off = load_u64le(rec + 48);
    if (!agree(e->n, 0xFFFF, n) || !agree(e->size, 0xFFFFFFFF, size) || !agree(e->offset, 0xFFFFFFFF, off))
        return fail(err, CKPT_EFORMAT, here(t, at),
                    "zip64 end record ({%llu entries in %llu bytes at %llu}) and end record "
                    "({=%llu, %llu, %llu}) differ",
                    (unsigned long long)n, (unsigned long long)size, (unsigned long long)off,
                    (unsigned long long)e->n, (unsigned long long)e->size, (unsigned long long)e->offset);
    e->n = n;
    e->size = size;
    e->offset = off;
    e->stop = at;
    return CKPT_OK;
}

/* place - settles where the directory is, and how many bytes precede the archive. */
static ckpt_status place(const struct tail *t, struct zip_end *e, ckpt_error *err)
{
    uint64_t end;
    bool fits = checked_add(e->offset, e->size, &end) && end <= e->stop;
    if (e->n > e->size / 46)
        return fail(err, CKPT_EFORMAT, here(t, e->at),
                    "{%llu entries} cannot be in {=a directory of %llu bytes}", (unsigned long long)e->n,
                    (unsigned long long)e->size);
    if ((fits && end == e->stop) || (fits && e->n == 0))
        return CKPT_OK;
    bool by_offset = fits && signed_as(t, e->offset, 0x02014B50);
    bool by_size = e->size >= 4 && e->size <= e->stop && e->offset <= e->stop - e->size &&
                   signed_as(t, e->stop - e->size, 0x02014B50);
    if (by_offset && by_size)
        return fail(err, CKPT_EFORMAT, here(t, e->at),
                    "two directories: one {=at %llu}, one {at %llu}; readers would disagree",
                    (unsigned long long)e->offset, (unsigned long long)(e->stop - e->size));
    if (by_offset)
        return CKPT_OK;
    if (!by_size)
        return fail(err, CKPT_EFORMAT, here(t, e->at),
                    "the directory ({=%llu bytes at %llu}) is {not where} the end record says",
                    (unsigned long long)e->size, (unsigned long long)e->offset);
    e->shift = e->stop - e->size - e->offset;
    e->offset = e->stop - e->size;
    if (signed_as(t, 0, 0x04034B50)) {
        (void)fail(
            err, CKPT_ETRUNCATED, here(t, t->src->size),
            "the archive ends before {=its directory}; the one found is {of an archive inside it, at %llu}",
            (unsigned long long)e->shift);
        fail_hint(err, "the download stopped early; fetch the file again");
        return CKPT_ETRUNCATED;
    }
    return CKPT_OK;
}

static ckpt_status read_end(const struct tail *t, uint64_t at, struct zip_end *e, ckpt_error *err)
{
    unsigned char b[END_SIZE];
    if (!peek(t, at, b, sizeof b))
        return fail(err, CKPT_EIO, here(t, at), "the end record cannot be read");
    *e = (struct zip_end){.at = at, .stop = at};
    uint64_t comment = load_u16le(b + 20);
    if (!checked_add(at, END_SIZE, &e->end) || !range_within(e->end, comment, t->src->size))
        /* bounded: the record was just read there */
        return fail(err, CKPT_ETRUNCATED, here(t, at + 20),
                    "the end record's comment has {=%llu bytes}, the file {ends before}",
                    (unsigned long long)comment);
    /* bounded: by range_within */
    e->end += comment;
    e->n = load_u16le(b + 10);
    e->size = load_u32le(b + 12);
    e->offset = load_u32le(b + 16);
    if (load_u16le(b + 8) != e->n || (load_u16le(b + 4) | load_u16le(b + 6)) != 0)
        return fail(
            err, CKPT_EUNSUPPORTED, here(t, at),
            "{disk %u, directory on disk %u, %u of %llu entries there}; one file is {=disk 0 and has all}",
            load_u16le(b + 4), load_u16le(b + 6), load_u16le(b + 8), (unsigned long long)e->n);
    CKPT_TRY(wide_end(t, e, err));
    return place(t, e, err);
}

/* load_tail - the last REACH bytes of the file. */
static ckpt_status load_tail(struct tail *t, uint64_t reach, ckpt_error *err)
{
    size_t n = t->src->size < reach ? (size_t)t->src->size : (size_t)reach;
    unsigned char *bytes = realloc(t->bytes, n ? n : 1);
    if (!bytes)
        return fail_memory(err);
    t->bytes = bytes;
    t->n = n;
    t->at = t->src->size - n;
    return source_read(t->src, t->at, bytes, n, err);
}

/* search - from the end of the tail back; *SEEN: something looked like an end record. What is wrong
 * with one that ends the file stands, unless it is in the comment of another. */
static ckpt_status search(const struct tail *t, bool *seen, struct zip_end *e, ckpt_error *err)
{
    ckpt_status first = CKPT_EUNKNOWN;
    uint64_t stands = UINT64_MAX;
    int tries = 0;
    for (size_t i = t->n < END_SIZE ? 0 : t->n - END_SIZE + 1; i-- > 0 && tries < TRIES;) {
        /* bounded: i + 4 <= n */
        if (t->bytes[i] != 'P' || load_u32le(t->bytes + i) != 0x06054B50)
            continue;
        /* bounded: i is inside the tail */
        ckpt_status st = read_end(t, t->at + i, e, tries++ ? NULL : err);
        *seen = true;
        if (st == CKPT_OK)
            return stands == UINT64_MAX || e->end > stands ? st : first;
        if (tries == 1) {
            first = st;
            stands = e->end == t->src->size ? e->at : UINT64_MAX;
        }
    }
    return first;
}

/* rfind - the last place in the tail with this signature. */
static bool rfind(const struct tail *t, const char sig[4], uint64_t *at)
{
    for (size_t i = t->n < 4 ? 0 : t->n - 4 + 1; i-- > 0;)
        /* bounded: i + 4 <= n */
        if (memcmp(t->bytes + i, sig, 4) == 0) {
            /* bounded: i is inside the tail */
            *at = t->at + i;
            return true;
        }
    return false;
}

/* missing - no end record: what the tail tells of how much is gone. */
static ckpt_status missing(const struct tail *t, ckpt_error *err)
{
    uint64_t at, size = t->src->size, want = 0;
    if (rfind(t, "PK\6\6", &at))
        /* bounded: at is inside the file */
        want = at + WIDE_SIZE + LOCATOR_SIZE + END_SIZE;
    else if (rfind(t, "PK\5\6", &at))
        /* bounded: at is inside the file */
        want = at + END_SIZE;
    if (want > size)
        (void)fail(err, CKPT_ETRUNCATED, here(t, size),
                   "the archive is cut inside {=its end record}: {%llu bytes are missing}",
                   (unsigned long long)(want - size));
    else if (rfind(t, "PK\1\2", &at))
        (void)fail(err, CKPT_ETRUNCATED, here(t, size),
                   "the archive is cut inside {=its directory}, {after %llu bytes}",
                   (unsigned long long)size);
    else
        (void)fail(err, CKPT_ETRUNCATED, here(t, size),
                   "the archive ends {after %llu bytes} without {=a directory}: it is cut off, and how "
                   "much is missing is unknown",
                   (unsigned long long)size);
    fail_hint(
        err,
        "the download or the save stopped early: fetch the file again, or `ckpt salvage` what is intact");
    return CKPT_ETRUNCATED;
}

ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err)
{
    struct tail t = {.src = src};
    bool seen = false;
    ckpt_status st = load_tail(&t, NEAR, err);
    if (st == CKPT_OK)
        st = search(&t, &seen, out, err);
    if (st == CKPT_EUNKNOWN && t.at > 0) {
        st = load_tail(&t, FAR, err);
        if (st == CKPT_OK)
            st = search(&t, &seen, out, err);
    }
    if (st == CKPT_EUNKNOWN && !seen)
        st = missing(&t, err);
    free(t.bytes);
    return st;
}

/* ------------------------------------------------------------- lenient readers */

static void claim(const struct tail *t, struct zip_claim *c, uint64_t directory)
{
    bool is = signed_as(t, directory, 0x02014B50);
    for (size_t i = 0; is && i < c->n; i++)
        is = c->directories[i] != directory;
    if (is && c->n < ZIP_CLAIMS)
        c->directories[c->n++] = directory;
}

/* claim_both - a directory at OFFSET, and the one of SIZE bytes that ends at STOP. */
static void claim_both(const struct tail *t, struct zip_claim *c, uint64_t offset, uint64_t size,
                       uint64_t stop)
{
    claim(t, c, offset);
    if (size <= stop)
        claim(t, c, stop - size);
}

/* claim_wide - the same by the zip64 record at AT. */
static void claim_wide(const struct tail *t, struct zip_claim *c, uint64_t at)
{
    unsigned char rec[WIDE_SIZE];
    if (signed_as(t, at, 0x06064B50) && peek(t, at, rec, sizeof rec))
        claim_both(t, c, load_u64le(rec + 48), load_u64le(rec + 40), at);
}

static void claim_all(const struct tail *t, struct zip_claim *c, uint64_t at)
{
    unsigned char b[END_SIZE], locator[LOCATOR_SIZE];
    *c = (struct zip_claim){.at = at};
    if (!peek(t, at, b, sizeof b))
        return;
    claim_both(t, c, load_u32le(b + 16), load_u32le(b + 12), at);
    if (at < LOCATOR_SIZE || !signed_as(t, at - LOCATOR_SIZE, 0x07064B50) ||
        !peek(t, at - LOCATOR_SIZE, locator, sizeof locator))
        return;
    claim_wide(t, c, load_u64le(locator + 8));
    if (at >= LOCATOR_SIZE + WIDE_SIZE)
        claim_wide(t, c, at - LOCATOR_SIZE - WIDE_SIZE);
}

ckpt_status zip_end_claim(source *src, struct zip_claim *out, ckpt_error *err)
{
    struct tail t = {.src = src};
    ckpt_status st = load_tail(&t, NEAR, err);
    *out = (struct zip_claim){.at = 0};
    for (size_t i = t.n < END_SIZE ? 0 : t.n - END_SIZE + 1; st == CKPT_OK && out->n == 0 && i-- > 0;)
        /* bounded: i + 4 <= n, and inside the source */
        if (t.bytes[i] == 'P' && load_u32le(t.bytes + i) == 0x06054B50)
            claim_all(&t, out, t.at + i); /* bounded: inside the tail */
    free(t.bytes);
    return st;
}
