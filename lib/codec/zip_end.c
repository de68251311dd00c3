/*
 * zip_end.c - where an archive's directory is.
 *
 * End of central directory, zip64 end of central directory and its locator are laid out in
 * zip_header.h; torch writes all three, however small the file.
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
#include "codec/zip_header.h"

#define NEAR  (65535u + ZIP_END_SIZE) /* the longest comment */
#define FAR   (1u << 20)              /* as far as junk after the archive is searched */
#define TRIES 16                      /* of signatures that may be chance */

/* The last bytes of the file. */
struct tail {
    source *src;
    unsigned char *bytes;
    uint64_t at; /* offset of bytes[0] */
    size_t n;
};

static uint64_t here(const struct tail *t, uint64_t off) { return source_pos(t->src, off); }

/* peek - N <= ZIP64_END_SIZE bytes at OFF into OUT; false when they are not there. */
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

/* read_end_record - the end of central directory at OFF. False, as of the next two: there is none. */
static bool read_end_record(const struct tail *t, uint64_t off, struct zip_end_record *r)
{
    unsigned char b[ZIP_END_SIZE];
    bool read = peek(t, off, b, sizeof b);
    *r = read ? zip_parse_end(b) : (struct zip_end_record){0};
    return read;
}

static bool read_zip64_end(const struct tail *t, uint64_t off, struct zip_end_record *r)
{
    unsigned char b[ZIP64_END_SIZE];
    bool read = peek(t, off, b, sizeof b);
    *r = read ? zip64_parse_end(b) : (struct zip_end_record){0};
    return read && r->signature == ZIP64_END;
}

/* read_locator - the zip64 locator that ends where the end record at END begins. */
static bool read_locator(const struct tail *t, uint64_t end, struct zip64_locator *l)
{
    unsigned char b[ZIP64_LOCATOR_SIZE];
    bool read = end >= sizeof b && peek(t, end - sizeof b, b, sizeof b);
    *l = read ? zip64_parse_locator(b) : (struct zip64_locator){0};
    return read && l->signature == ZIP64_LOCATOR;
}

/* is_same_number - NARROW has 16 or 32 bits, of which SATURATED is the last value, and WIDE 64. */
static bool is_same_number(uint64_t narrow, uint64_t saturated, uint64_t wide)
{
    return narrow == saturated || narrow == wide;
}

/* read_zip64 - the zip64 record that the locator before the end record leads to, if there is one. */
static ckpt_status read_zip64(const struct tail *t, struct zip_end *e, ckpt_error *err)
{
    struct zip64_locator l;
    struct zip_end_record r;
    if (!read_locator(t, e->at, &l))
        return CKPT_OK;
    uint64_t locator = e->at - ZIP64_LOCATOR_SIZE, at = l.offset, end = 0; /* bounded: it was read there */
    if (!signed_as(t, at, ZIP64_END) && locator >= ZIP64_END_SIZE)
        at = locator - ZIP64_END_SIZE;
    if (!range_within(at, ZIP64_END_SIZE, locator) || !read_zip64_end(t, at, &r))
        return fail(err, CKPT_EFORMAT, here(t, locator),
                    "the zip64 locator points to {%llu}, where no {=zip64 end record} is",
                    (unsigned long long)l.offset);
    if (!checked_add(at, 12, &end) || !checked_add(end, r.follows, &end) || end != locator) {
        (void)fail(err, CKPT_EFORMAT, here(t, at),
                   "the zip64 end record ends at {%llu}, its locator is at {=%llu}; readers would disagree",
                   (unsigned long long)end, (unsigned long long)locator);
        fail_hint(err, "several archives one after the other? a Distributed Checkpoint has such files");
        return CKPT_EFORMAT;
    }
    if (l.disk || l.disks > 1 || r.disk || r.directory_disk)
        return fail(err, CKPT_EUNSUPPORTED, here(t, at),
                    "disks {%u, %u and %u of %u}; an archive of one file says {=0, 0 and 0 of 1}", l.disk,
                    r.disk, r.directory_disk, l.disks);
    if (!is_same_number(e->n, 0xFFFF, r.entries) || !is_same_number(e->size, 0xFFFFFFFF, r.size) ||
        !is_same_number(e->offset, 0xFFFFFFFF, r.offset))
        return fail(err, CKPT_EFORMAT, here(t, at),
                    "zip64 end record ({%llu entries in %llu bytes at %llu}) and end record "
                    "({=%llu, %llu, %llu}) differ",
                    (unsigned long long)r.entries, (unsigned long long)r.size, (unsigned long long)r.offset,
                    (unsigned long long)e->n, (unsigned long long)e->size, (unsigned long long)e->offset);
    e->n = r.entries;
    e->size = r.size;
    e->offset = r.offset;
    e->stop = at;
    return CKPT_OK;
}

/* place - settles where the directory is, and how many bytes precede the archive. */
static ckpt_status place(const struct tail *t, struct zip_end *e, ckpt_error *err)
{
    uint64_t end;
    bool fits = checked_add(e->offset, e->size, &end) && end <= e->stop;
    if (e->n > e->size / ZIP_CENTRAL_SIZE)
        return fail(err, CKPT_EFORMAT, here(t, e->at),
                    "{%llu entries} cannot be in {=a directory of %llu bytes}", (unsigned long long)e->n,
                    (unsigned long long)e->size);
    if ((fits && end == e->stop) || (fits && e->n == 0))
        return CKPT_OK;
    bool by_offset = fits && signed_as(t, e->offset, ZIP_CENTRAL);
    bool by_size = e->size >= 4 && e->size <= e->stop && e->offset <= e->stop - e->size &&
                   signed_as(t, e->stop - e->size, ZIP_CENTRAL);
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
    if (signed_as(t, 0, ZIP_LOCAL)) {
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
    struct zip_end_record r;
    if (!read_end_record(t, at, &r))
        return fail(err, CKPT_EIO, here(t, at), "the end record cannot be read");
    *e = (struct zip_end){.at = at, .stop = at, .n = r.entries, .size = r.size, .offset = r.offset};
    if (!checked_add(at, ZIP_END_SIZE, &e->end) || !range_within(e->end, r.comment_len, t->src->size))
        /* bounded: the record was just read there */
        return fail(err, CKPT_ETRUNCATED, here(t, at + 20),
                    "the end record's comment has {=%u bytes}, the file {ends before}", r.comment_len);
    /* bounded: by range_within */
    e->end += r.comment_len;
    if (r.disk_entries != r.entries || r.disk || r.directory_disk)
        return fail(
            err, CKPT_EUNSUPPORTED, here(t, at),
            "{disk %u, directory on disk %u, %llu of %llu entries there}; one file is {=disk 0 and has all}",
            r.disk, r.directory_disk, (unsigned long long)r.disk_entries, (unsigned long long)r.entries);
    CKPT_TRY(read_zip64(t, e, err));
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
    for (size_t i = t->n < ZIP_END_SIZE ? 0 : t->n - ZIP_END_SIZE + 1; i-- > 0 && tries < TRIES;) {
        /* bounded: i + 4 <= n */
        if (t->bytes[i] != 'P' || load_u32le(t->bytes + i) != ZIP_END)
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
static bool rfind(const struct tail *t, uint32_t signature, uint64_t *at)
{
    for (size_t i = t->n < 4 ? 0 : t->n - 4 + 1; i-- > 0;)
        /* bounded: i + 4 <= n */
        if (t->bytes[i] == 'P' && load_u32le(t->bytes + i) == signature) {
            /* bounded: i is inside the tail */
            *at = t->at + i;
            return true;
        }
    return false;
}

/* missing - no end record: what the tail shows of how much is gone. */
static ckpt_status missing(const struct tail *t, ckpt_error *err)
{
    uint64_t at, size = t->src->size, want = 0;
    if (rfind(t, ZIP64_END, &at))
        want = at + ZIP_ENDS_SIZE; /* bounded: at is inside the file */
    else if (rfind(t, ZIP_END, &at))
        want = at + ZIP_END_SIZE; /* bounded: at is inside the file */
    if (want > size)
        (void)fail(err, CKPT_ETRUNCATED, here(t, size),
                   "the archive is cut inside {=its end record}: {%llu bytes are missing}",
                   (unsigned long long)(want - size));
    else if (rfind(t, ZIP_CENTRAL, &at))
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
    bool is = signed_as(t, directory, ZIP_CENTRAL);
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

/* claim_zip64 - the same by the zip64 record at AT. */
static void claim_zip64(const struct tail *t, struct zip_claim *c, uint64_t at)
{
    struct zip_end_record r;
    if (read_zip64_end(t, at, &r))
        claim_both(t, c, r.offset, r.size, at);
}

static void claim_all(const struct tail *t, struct zip_claim *c, uint64_t at)
{
    struct zip_end_record r;
    struct zip64_locator l;
    *c = (struct zip_claim){.at = at};
    if (!read_end_record(t, at, &r))
        return;
    claim_both(t, c, r.offset, r.size, at);
    if (!read_locator(t, at, &l))
        return;
    claim_zip64(t, c, l.offset);
    if (at >= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE)
        claim_zip64(t, c, at - ZIP64_LOCATOR_SIZE - ZIP64_END_SIZE);
}

ckpt_status zip_end_claim(source *src, struct zip_claim *out, ckpt_error *err)
{
    struct tail t = {.src = src};
    ckpt_status st = load_tail(&t, NEAR, err);
    *out = (struct zip_claim){.at = 0};
    for (size_t i = t.n < ZIP_END_SIZE ? 0 : t.n - ZIP_END_SIZE + 1; st == CKPT_OK && out->n == 0 && i-- > 0;)
        /* bounded: i + 4 <= n, and inside the source */
        if (t.bytes[i] == 'P' && load_u32le(t.bytes + i) == ZIP_END)
            claim_all(&t, out, t.at + i); /* bounded: inside the tail */
    free(t.bytes);
    return st;
}

/* ------------------------------------------------------- concatenated archives */

bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start)
{
    struct tail t = {.src = src};
    struct zip_end_record r, wide;
    struct zip64_locator l;
    if (end < ZIP_END_SIZE || !read_end_record(&t, end - ZIP_END_SIZE, &r) || r.signature != ZIP_END ||
        r.comment_len)
        return false;
    uint64_t stop = end - ZIP_END_SIZE;
    if (stop >= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE && read_locator(&t, stop, &l) &&
        read_zip64_end(&t, stop - ZIP64_LOCATOR_SIZE - ZIP64_END_SIZE, &wide)) {
        stop -= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE; /* bounded: just compared */
        r = wide;
    }
    if (r.size > stop || r.offset > stop - r.size)
        return false;
    *start = stop - r.size - r.offset; /* bounded: just compared */
    return signed_as(&t, stop - r.size, ZIP_CENTRAL) && signed_as(&t, *start, ZIP_LOCAL);
}
