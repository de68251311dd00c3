/*
 * zip_end.c - finds the central directory of an archive by its end records.
 *
 * End of central directory, zip64 end of central directory and its locator are laid out in zip_header.h;
 * torch writes all three, however small the file.
 *
 * If the size and offset of the central directory do not fit the position of the record, readers disagree:
 * miniz uses the offset, Python the size. Here only one of the two may lead to a central directory. There may
 * be bytes before the archive (then all offsets are too small by the same amount) and after it. If the bytes
 * before it begin like an archive, the archive found is one inside a truncated archive, and is refused.
 */
#include "codec/zip_end.h"

#include <stdlib.h>

#include "codec/zip_header.h"

#define MAX_COMMENT_REACH (ZIP_MAX_NAME + ZIP_END_SIZE) /* an end record with the longest comment */
#define MAX_JUNK_REACH    (1u << 20)                    /* bytes searched if junk follows the archive */
#define MAX_TRIES         16 /* signatures of end records that are tried: some may be accidental */

/* The last bytes of the file. */
struct tail {
    source *src;
    unsigned char *bytes;
    uint64_t start; /* offset of bytes[0] */
    size_t n;
};

static uint64_t to_file_offset(const struct tail *tail, uint64_t off) { return source_pos(tail->src, off); }

/* read_bytes - copies the NBYTES <= ZIP64_END_SIZE bytes at OFF of the file to OUT, from the tail if it has
 * them. False: the file ends before, or cannot be read. */
static bool read_bytes(const struct tail *tail, uint64_t off, unsigned char *out, size_t nbytes)
{
    ckpt_error ignored;
    if (!range_within(off, nbytes, tail->src->size))
        return false;
    if (off >= tail->start && range_within(off - tail->start, nbytes, tail->n)) {
        memcpy(out, tail->bytes + (off - tail->start), nbytes);
        return true;
    }
    return source_read(tail->src, off, out, nbytes, &ignored) == CKPT_OK;
}

static bool has_signature(const struct tail *tail, uint64_t off, uint32_t signature)
{
    unsigned char b[4];
    return read_bytes(tail, off, b, 4) && load_u32le(b) == signature;
}

/* read_end_record - parses the end of central directory at OFF. Its signature is not checked. False: the
 * file ends before. */
static bool read_end_record(const struct tail *tail, uint64_t off, struct zip_end_record *record)
{
    unsigned char b[ZIP_END_SIZE];
    bool was_read = read_bytes(tail, off, b, sizeof b);
    *record = was_read ? zip_parse_end(b) : (struct zip_end_record){0};
    return was_read;
}

static bool read_zip64_end(const struct tail *tail, uint64_t off, struct zip_end_record *record)
{
    unsigned char b[ZIP64_END_SIZE];
    bool was_read = read_bytes(tail, off, b, sizeof b);
    *record = was_read ? zip64_parse_end(b) : (struct zip_end_record){0};
    return was_read && record->signature == ZIP64_END;
}

/* read_locator - reads the zip64 locator that ends at END, where the end record begins. False: there is
 * none. */
static bool read_locator(const struct tail *tail, uint64_t end, struct zip64_locator *locator)
{
    unsigned char b[ZIP64_LOCATOR_SIZE];
    bool was_read = end >= sizeof b && read_bytes(tail, end - sizeof b, b, sizeof b);
    *locator = was_read ? zip64_parse_locator(b) : (struct zip64_locator){0};
    return was_read && locator->signature == ZIP64_LOCATOR;
}

/* is_same_number - returns true if NARROW, from an end record, equals WIDE, from the zip64 one, or is
 * SATURATED, which refers to the zip64 one. */
static bool is_same_number(uint64_t narrow, uint64_t saturated, uint64_t wide)
{
    return narrow == saturated || narrow == wide;
}

/* read_zip64 - if there is a locator before the end record, reads the zip64 record to which it points. */
static ckpt_status read_zip64(const struct tail *tail, struct zip_end *record, ckpt_error *err)
{
    struct zip64_locator l;
    struct zip_end_record r;
    if (!read_locator(tail, record->record_at, &l))
        return CKPT_OK;
    uint64_t locator = record->record_at - ZIP64_LOCATOR_SIZE;
    uint64_t at = l.offset, end = 0;
    if (!has_signature(tail, at, ZIP64_END) && locator >= ZIP64_END_SIZE)
        at = locator - ZIP64_END_SIZE;
    if (!range_within(at, ZIP64_END_SIZE, locator) || !read_zip64_end(tail, at, &r))
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, locator),
                    "the zip64 locator points to {%llu}, where no {=zip64 end record} is",
                    (unsigned long long)l.offset);
    if (!checked_add(at, ZIP64_END_LEAD, &end) || !checked_add(end, r.follows, &end) || end != locator)
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, at),
                    "the zip64 end record ends at {%llu}, its locator is at {=%llu}; readers would disagree\n"
                    "several archives one after the other? a Distributed Checkpoint has such files",
                    (unsigned long long)end, (unsigned long long)locator);
    if (l.disk || l.disks > 1 || r.disk || r.directory_disk)
        return fail(err, CKPT_EUNSUPPORTED, to_file_offset(tail, at),
                    "disks {%u, %u and %u of %u}; an archive of one file has {=0, 0 and 0 of 1}", l.disk,
                    r.disk, r.directory_disk, l.disks);
    if (!is_same_number(record->entries, 0xFFFF, r.entries) ||
        !is_same_number(record->directory_size, 0xFFFFFFFF, r.size) ||
        !is_same_number(record->directory_at, 0xFFFFFFFF, r.offset))
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, at),
                    "zip64 end record ({%llu entries in %llu bytes at %llu}) and end record "
                    "({=%llu, %llu, %llu}) differ",
                    (unsigned long long)r.entries, (unsigned long long)r.size, (unsigned long long)r.offset,
                    (unsigned long long)record->entries, (unsigned long long)record->directory_size,
                    (unsigned long long)record->directory_at);
    record->entries = r.entries;
    record->directory_size = r.size;
    record->directory_at = r.offset;
    record->first_record_at = at;
    return CKPT_OK;
}

/* resolve_directory - finds the central directory, and how many bytes precede the archive. */
static ckpt_status resolve_directory(const struct tail *tail, struct zip_end *record, ckpt_error *err)
{
    uint64_t end;
    bool fits = checked_add(record->directory_at, record->directory_size, &end) &&
                end <= record->first_record_at;
    if (record->entries > record->directory_size / ZIP_CENTRAL_SIZE)
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, record->record_at),
                    "{%llu entries} cannot be in {=%llu bytes}", (unsigned long long)record->entries,
                    (unsigned long long)record->directory_size);
    if ((fits && end == record->first_record_at) || (fits && record->entries == 0))
        return CKPT_OK;
    bool by_offset = fits && has_signature(tail, record->directory_at, ZIP_CENTRAL);
    bool by_size = record->directory_size >= 4 && record->directory_size <= record->first_record_at &&
                   record->directory_at <= record->first_record_at - record->directory_size &&
                   has_signature(tail, record->first_record_at - record->directory_size, ZIP_CENTRAL);
    if (by_offset && by_size)
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, record->record_at),
                    "two central directories: one {=at %llu}, one {at %llu}; readers would disagree",
                    (unsigned long long)record->directory_at,
                    (unsigned long long)(record->first_record_at - record->directory_size));
    if (by_offset)
        return CKPT_OK;
    if (!by_size)
        return fail(err, CKPT_EFORMAT, to_file_offset(tail, record->record_at),
                    "the entries are {not where} the end record has them ({=%llu bytes at %llu})",
                    (unsigned long long)record->directory_size, (unsigned long long)record->directory_at);
    record->prefix_size = record->first_record_at - record->directory_size - record->directory_at;
    record->directory_at = record->first_record_at - record->directory_size;
    if (has_signature(tail, 0, ZIP_LOCAL))
        return fail(
            err, CKPT_ETRUNCATED, to_file_offset(tail, tail->src->size),
            "the archive ends before {=its end record}; the one found is {of an archive inside it, at %llu}\n"
            "the download stopped early; fetch the file again",
            (unsigned long long)record->prefix_size);
    return CKPT_OK;
}

static ckpt_status read_end(const struct tail *tail, uint64_t at, struct zip_end *record, ckpt_error *err)
{
    struct zip_end_record r;
    if (!read_end_record(tail, at, &r))
        return fail(err, CKPT_EIO, to_file_offset(tail, at), "the end record cannot be read");
    *record = (struct zip_end){.record_at = at,
                               .first_record_at = at,
                               .entries = r.entries,
                               .directory_size = r.size,
                               .directory_at = r.offset};
    if (!checked_add(at, ZIP_END_SIZE, &record->archive_end) ||
        !range_within(record->archive_end, r.comment_len, tail->src->size))
        return fail(err, CKPT_ETRUNCATED, to_file_offset(tail, at + 20),
                    "the end record's comment has {=%u bytes}, the file {ends before}", r.comment_len);
    record->archive_end += r.comment_len; /* range_within found the comment in the file */
    if (r.disk_entries != r.entries || r.disk || r.directory_disk)
        return fail(
            err, CKPT_EUNSUPPORTED, to_file_offset(tail, at),
            "{disk %u, directory on disk %u, %llu of %llu entries there}; one file is {=disk 0 and has all}",
            r.disk, r.directory_disk, (unsigned long long)r.disk_entries, (unsigned long long)r.entries);
    CKPT_TRY(read_zip64(tail, record, err));
    return resolve_directory(tail, record, err);
}

static ckpt_status load_tail(struct tail *tail, uint64_t reach, ckpt_error *err)
{
    size_t n = tail->src->size < reach ? (size_t)tail->src->size : (size_t)reach;
    unsigned char *bytes = realloc(tail->bytes, n ? n : 1);
    CKPT_TRY_ALLOC(bytes, err);
    tail->bytes = bytes;
    tail->n = n;
    tail->start = tail->src->size - n;
    return source_read(tail->src, tail->start, bytes, n, err);
}

/* find_signature_before - moves *AT back to the last SIGNATURE of the tail that begins before it; false:
 * there is none. */
static bool find_signature_before(const struct tail *tail, uint32_t signature, uint64_t *at)
{
    while (*at > tail->start) {
        const unsigned char *p = tail->bytes + (--*at - tail->start);
        if (tail->bytes + tail->n - p >= 4 && p[0] == 'P' && load_u32le(p) == signature)
            return true;
    }
    return false;
}

/* search_end_record - searches the tail backwards for a valid end record; sets *SEEN if there was a
 * signature. If the last record is not valid but ends where the file ends, returns its error, unless that
 * record is in the comment of a valid one. CKPT_EUNKNOWN: there is no end record. */
static ckpt_status search_end_record(const struct tail *tail, bool *seen, struct zip_end *record,
                                     ckpt_error *err)
{
    ckpt_status last_status = CKPT_EUNKNOWN;
    uint64_t broken_record_at = UINT64_MAX;
    int tries = 0;
    uint64_t at = tail->src->size - (tail->n < ZIP_END_SIZE ? tail->n : ZIP_END_SIZE - 1);
    while (tries < MAX_TRIES && find_signature_before(tail, ZIP_END, &at)) {
        ckpt_status st = read_end(tail, at, record, tries++ ? NULL : err);
        *seen = true;
        if (st == CKPT_OK)
            return broken_record_at == UINT64_MAX || record->archive_end > broken_record_at ? st
                                                                                            : last_status;
        if (tries == 1) {
            last_status = st;
            broken_record_at = record->archive_end == tail->src->size ? record->record_at : UINT64_MAX;
        }
    }
    return last_status;
}

/* fail_no_end_record - fails because there is no end record. Adds how many bytes are missing, if the tail
 * has the beginning of an end record. */
static ckpt_status fail_no_end_record(const struct tail *tail, ckpt_error *err)
{
    uint64_t size = tail->src->size, zip64 = size, end = size, central = size, needed = 0;
    if (find_signature_before(tail, ZIP64_END, &zip64))
        needed = zip64 + ZIP_ENDS_SIZE;
    else if (find_signature_before(tail, ZIP_END, &end))
        needed = end + ZIP_END_SIZE;
    if (needed > size)
        (void)fail(err, CKPT_ETRUNCATED, to_file_offset(tail, size),
                   "the archive is cut inside {=its end record}: {%llu bytes are missing}",
                   (unsigned long long)(needed - size));
    else if (find_signature_before(tail, ZIP_CENTRAL, &central))
        (void)fail(err, CKPT_ETRUNCATED, to_file_offset(tail, size),
                   "the archive is cut {after %llu bytes}, before {=its end record}",
                   (unsigned long long)size);
    else
        (void)fail(
            err, CKPT_ETRUNCATED, to_file_offset(tail, size),
            "the archive ends {after %llu bytes} without {=an end record}: it is cut off, and how much is "
            "missing is unknown",
            (unsigned long long)size);
    error_add_hint(
        err,
        "the download or the save stopped early: fetch the file again, or `ckpt salvage` what is intact");
    return CKPT_ETRUNCATED;
}

ckpt_status zip_end_find(source *src, struct zip_end *out, ckpt_error *err)
{
    struct tail t = {.src = src};
    bool seen = false;
    ckpt_status st = load_tail(&t, MAX_COMMENT_REACH, err);
    CKPT_THEN(st, search_end_record(&t, &seen, out, err));
    if (st == CKPT_EUNKNOWN && t.start > 0) {
        st = load_tail(&t, MAX_JUNK_REACH, err);
        CKPT_THEN(st, search_end_record(&t, &seen, out, err));
    }
    if (st == CKPT_EUNKNOWN && !seen)
        st = fail_no_end_record(&t, err);
    free(t.bytes);
    return st;
}

/* ------------------------------------------------------------- lenient readers */

/* add_candidate - adds the central directory of SIZE bytes at AT, if one is there and was not added before.
 * OFFSET is where the end record has it. */
MODULO static void add_candidate(const struct tail *tail, struct zip_directory_candidates *candidates,
                                 uint64_t at, uint64_t size, uint64_t offset)
{
    uint64_t end;
    bool is_new = has_signature(tail, at, ZIP_CENTRAL);
    for (size_t i = 0; is_new && i < candidates->n; i++)
        is_new = candidates->directories[i].begin != at;
    if (!is_new || candidates->n == ZIP_MAX_CANDIDATES)
        return;
    if (!checked_add(at, size, &end) || end > tail->src->size)
        end = tail->src->size;
    candidates->directories[candidates->n].begin = at;
    candidates->directories[candidates->n].end = end;
    candidates->directories[candidates->n++].prefix_size = at - offset;
}

/* add_both_candidates - adds the central directory at OFFSET, and the one of SIZE bytes that ends at
 * RECORD_AT. */
static void add_both_candidates(const struct tail *tail, struct zip_directory_candidates *candidates,
                                uint64_t offset, uint64_t size, uint64_t record_at)
{
    add_candidate(tail, candidates, offset, size, offset);
    if (size <= record_at)
        add_candidate(tail, candidates, record_at - size, size, offset);
}

/* add_zip64_candidates - adds the central directories to which the zip64 record at AT leads, if there is
 * one. */
static void add_zip64_candidates(const struct tail *tail, struct zip_directory_candidates *candidates,
                                 uint64_t at)
{
    struct zip_end_record r;
    if (read_zip64_end(tail, at, &r))
        add_both_candidates(tail, candidates, r.offset, r.size, at);
}

/* add_all_candidates - sets CANDIDATES to the central directories to which the end record at AT may lead. */
static void add_all_candidates(const struct tail *tail, struct zip_directory_candidates *candidates,
                               uint64_t at)
{
    struct zip_end_record r;
    struct zip64_locator l;
    *candidates = (struct zip_directory_candidates){.record_at = at};
    if (!read_end_record(tail, at, &r))
        return;
    add_both_candidates(tail, candidates, r.offset, r.size, at);
    if (!read_locator(tail, at, &l))
        return;
    add_zip64_candidates(tail, candidates, l.offset);
    if (at >= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE)
        add_zip64_candidates(tail, candidates, at - ZIP64_LOCATOR_SIZE - ZIP64_END_SIZE);
}

ckpt_status zip_find_directory_candidates(source *src, struct zip_directory_candidates *out, ckpt_error *err)
{
    struct tail t = {.src = src};
    ckpt_status st = load_tail(&t, ZIP_END_REACH, err);
    *out = (struct zip_directory_candidates){.n = 0};
    uint64_t at = src->size;
    while (st == CKPT_OK && out->n == 0 && find_signature_before(&t, ZIP_END, &at))
        add_all_candidates(&t, out, at);
    free(t.bytes);
    return st;
}

/* ------------------------------------------------------- concatenated archives */

bool zip_find_concatenated(source *src, uint64_t end, uint64_t *start)
{
    struct tail t = {.src = src};
    struct zip_end_record r, zip64;
    struct zip64_locator l;
    if (end < ZIP_END_SIZE || !read_end_record(&t, end - ZIP_END_SIZE, &r) || r.signature != ZIP_END ||
        r.comment_len)
        return false;
    uint64_t record_at = end - ZIP_END_SIZE;
    if (record_at >= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE && read_locator(&t, record_at, &l) &&
        read_zip64_end(&t, record_at - ZIP64_LOCATOR_SIZE - ZIP64_END_SIZE, &zip64)) {
        record_at -= ZIP64_LOCATOR_SIZE + ZIP64_END_SIZE;
        r = zip64;
    }
    if (r.size > record_at || r.offset > record_at - r.size)
        return false;
    *start = record_at - r.size - r.offset;
    return has_signature(&t, record_at - r.size, ZIP_CENTRAL) && has_signature(&t, *start, ZIP_LOCAL);
}
