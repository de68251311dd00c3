/*
 * zip_salvage.c - reads archives that are truncated or damaged. The layout of local headers and data
 * descriptors is in zip_header.h; torch sets bit 3 of the flags, and its local headers have 0 for CRC-32 and
 * both sizes.
 *
 * Without a valid central directory, the file is searched for the signatures of local headers and
 * descriptors. The payload of a record ends at the first descriptor that states exactly the size up to
 * there; any other signature may be bytes of a payload and is ignored. A record without such a descriptor,
 * such as the last one of a truncated file, is not intact: its end may have been overwritten, and nothing
 * has its checksum. A header without bit 3 has the sizes itself, in a zip64 field if they are 2^32 - 1, as
 * in numpy's archives. Source: caffe2/serialize/inline_container.cc, miniz, APPNOTE.TXT.
 *
 * With a valid central directory, a record whose local header is damaged is located backwards from the next
 * record, with or without a descriptor between them. The position is right if the checksum matches or, if
 * there is no checksum, if a descriptor states the size. A local header that the central directory does not
 * list belongs to a deleted record or is inside a payload, and is ignored. If a local header has a different
 * name than the central directory, one of the two names is damaged.
 *
 * Refused: a checksum that does not match, a size that exceeds the file, an archive inside a payload whose
 * end is unknown, two intact records of one name that differ.
 */
#include "codec/zip.h"

#include <stdlib.h>

#include "codec/inflate.h"

#define CHUNK          (256u * 1024u)
#define MAX_SIGNATURES (1u << 24)
#define MAX_LOOKAHEAD  4096u /* signatures after a header that are examined for its descriptor */

/* A signature, which may begin a local header or a data descriptor. */
struct signature {
    uint64_t at;
    bool is_header;
};

struct salvage {
    source *src;
    arena *a;
    struct signature *signatures; /* in file order */
    size_t nsignatures, cap_signatures;
    struct zip_entry *records; /* those found, in file order */
    size_t nrecords, cap_records;
    unsigned char *chunk;
    map *names;               /* name -> the first record found */
    uint64_t bytes_wasted;    /* bytes read of damaged records, and 1/16 of all inflated bytes */
    bool end_unknown;         /* of a record that was found: the records after it may be inside it */
    bool inside_other_record; /* later records are inside the one without an end: a name was repeated */
    ckpt_error *err;
};

static ckpt_status add_signature(struct salvage *salvage, uint64_t at, bool is_header)
{
    if (salvage->nsignatures >= MAX_SIGNATURES)
        return fail(salvage->err, CKPT_ELIMIT, at, "{more} than {=%u signatures} of records", MAX_SIGNATURES);
    struct signature s = {at, is_header};
    return ARENA_PUSH(salvage->a, salvage, signatures, &s) ? CKPT_OK : fail_memory(salvage->err);
}

/* find_signatures_in_chunk - adds the signatures in the NBYTES bytes of the chunk, which is at POS in the
 * file. */
static ckpt_status find_signatures_in_chunk(struct salvage *salvage, uint64_t pos, size_t nbytes)
{
    const unsigned char *p = salvage->chunk, *end = p + nbytes;
    while ((p = memchr(p, 'P', (size_t)(end - p))) && end - p >= 4) {
        uint32_t value = load_u32le(p);
        uint64_t at = pos + (uint64_t)(p - salvage->chunk);
        if (value == ZIP_LOCAL || value == ZIP_DESCRIPTOR)
            CKPT_TRY(add_signature(salvage, at, value == ZIP_LOCAL));
        p++;
    }
    return CKPT_OK;
}

static ckpt_status find_signatures(struct salvage *salvage)
{
    uint64_t size = salvage->src->size;
    for (uint64_t at = 0, n; at + 4 <= size; at += n - 3) { /* 3: a signature may cross the end of a chunk */
        n = size - at < CHUNK ? size - at : CHUNK;
        CKPT_TRY(source_read(salvage->src, at, salvage->chunk, (size_t)n, salvage->err));
        CKPT_TRY(find_signatures_in_chunk(salvage, at, (size_t)n));
        if (at + n == size)
            break;
    }
    return CKPT_OK;
}

/* compute_member_crc - sets *CRC to the CRC-32 of the payload of ENTRY at AT, inflated if ENTRY is deflated.
 * Sets
 * *FITS to whether the payload has the sizes of ENTRY. If ENTRY is deflated and its end is unknown, sets its
 * sizes to those of the payload. */
static ckpt_status compute_member_crc(struct salvage *salvage, struct zip_entry *entry, uint64_t at,
                                      uint32_t *crc, bool *fits)
{
    uint64_t used, size;
    *crc = 0;
    *fits = entry->csize == entry->usize;
    if (entry->method == ZIP_STORED)
        return source_crc(salvage->src, at, entry->csize, CRC_32, crc, salvage->err);
    ckpt_status st = inflate_measure(salvage->src, at, entry->csize, &used, &size, crc, salvage->err);
    salvage->bytes_wasted += size / 16; /* DEFLATE gives at most 1032 times csize */
    *fits = st == CKPT_OK && (entry->crc_unknown || (used == entry->csize && size == entry->usize));
    if (*fits) {
        entry->csize = used;
        entry->usize = size;
    }
    return st == CKPT_EFORMAT || st == CKPT_ETRUNCATED ? CKPT_OK : st;
}

/* read_descriptor_of_size - if the descriptor at AT states SIZE compressed bytes, sets CRC and sizes of ENTRY
 * and returns true. AT must be in the file. */
static bool read_descriptor_of_size(struct salvage *salvage, uint64_t at, uint64_t size,
                                    struct zip_entry *entry)
{
    ckpt_error ignored;
    unsigned char b[ZIP_DESCRIPTOR_MAX];
    uint64_t left = salvage->src->size - at;
    size_t n = left < sizeof b ? (size_t)left : sizeof b;
    struct zip_descriptor d;
    if (source_read(salvage->src, at, b, n, &ignored) != CKPT_OK ||
        !((zip_parse_descriptor(b, n, ZIP_SIGNED | ZIP_WIDE, &d) && d.csize == size) ||
          (zip_parse_descriptor(b, n, ZIP_SIGNED, &d) && d.csize == size)))
        return false;
    entry->crc = d.crc;
    entry->csize = d.csize;
    entry->usize = d.usize;
    return true;
}

/* find_end_by_descriptor - sets sizes and next_at of ENTRY, whose header is at signature INDEX, by the first
 * descriptor that states the size from the payload up to there. Without one, ENTRY has a fault. */
static void find_end_by_descriptor(struct salvage *salvage, size_t index, struct zip_entry *entry)
{
    bool more_headers = false;
    for (size_t k = index + 1; k < salvage->nsignatures && k - index <= MAX_LOOKAHEAD; k++) {
        const struct signature *found = &salvage->signatures[k];
        if (found->at < entry->data_offset)
            continue;
        more_headers = more_headers || found->is_header;
        if (!found->is_header &&
            read_descriptor_of_size(salvage, found->at, found->at - entry->data_offset, entry)) {
            entry->next_at = found->at;
            return;
        }
    }
    entry->crc_unknown = true;
    entry->csize = entry->usize = salvage->src->size - entry->data_offset;
    entry->next_at = more_headers ? entry->data_offset
                                  : salvage->src->size; /* the next record may be anywhere */
    entry->fault = more_headers ? "its end is unknown: the size recorded after it is damaged"
                                : "the file ends, or was overwritten, before its size and checksum";
}

/* overlaps_next_header - returns true if a second header begins before END, the end of the header at
 * signature INDEX. Then the header at INDEX is damaged. */
static bool overlaps_next_header(const struct salvage *salvage, size_t index, uint64_t end)
{
    while (++index < salvage->nsignatures && salvage->signatures[index].at < end)
        if (salvage->signatures[index].is_header)
            return true;
    return false;
}

/* read_wide_sizes - replaces sizes of HEADER, the local header at AT, that are FFFFFFFF by those of its zip64
 * field. Sets *VALID to whether it has one then. */
static ckpt_status read_wide_sizes(struct salvage *salvage, uint64_t at, struct zip_header *header,
                                   bool *valid)
{
    *valid = header->csize != UINT32_MAX && header->usize != UINT32_MAX;
    if (*valid)
        return CKPT_OK;
    /* the caller found the header in the file; its extra fields have 16 bits, and fit the chunk */
    CKPT_TRY(source_read(salvage->src, at + ZIP_LOCAL_SIZE + header->name_len, salvage->chunk,
                         header->extra_len, salvage->err));
    *valid = zip64_resolve(header, cursor_of(salvage->chunk, header->extra_len, 0), NULL);
    return CKPT_OK;
}

/* holds_archive - returns true if the payload of ENTRY is an archive, whose records are not those of this
 * one. */
static bool holds_archive(const struct salvage *salvage, const struct zip_entry *entry)
{
    return entry->method == ZIP_STORED && zip_has_signature(salvage->src, entry->data_offset, ZIP_LOCAL);
}

/* read_header - reads the local header at signature INDEX into ENTRY. Sets *VALID to whether it is valid, and
 * *HAS_DESCRIPTOR to whether its sizes are in a data descriptor. */
static ckpt_status read_header(struct salvage *salvage, size_t index, struct zip_entry *entry, bool *valid,
                               bool *has_descriptor)
{
    struct zip_header h;
    uint64_t at = salvage->signatures[index].at, left = salvage->src->size - at;
    *valid = false;
    if (left < ZIP_LOCAL_SIZE)
        return CKPT_OK;
    CKPT_TRY(zip_read_local(salvage->src, at, &h, salvage->err));
    uint64_t data = at + zip_local_length(&h);
    if (left < zip_local_length(&h) || !h.name_len || overlaps_next_header(salvage, index, data))
        return CKPT_OK;
    char *text = arena_alloc(salvage->a, h.name_len);
    CKPT_TRY_ALLOC(text, salvage->err);
    CKPT_TRY(source_read(salvage->src, at + ZIP_LOCAL_SIZE, text, h.name_len, salvage->err));
    *entry = (struct zip_entry){.name = str_of(text, h.name_len),
                                .header_offset = at,
                                .data_offset = data,
                                .flags = h.flags & (uint16_t)~ZIP_FLAG_DESCRIPTOR,
                                .method = h.method,
                                .is_located = true};
    *valid = true;
    *has_descriptor = h.flags & ZIP_FLAG_DESCRIPTOR;
    if (*has_descriptor) {
        find_end_by_descriptor(salvage, index, entry);
        return CKPT_OK;
    }
    bool has_sizes;
    CKPT_TRY(read_wide_sizes(salvage, at, &h, &has_sizes));
    entry->crc = h.crc;
    entry->csize = h.csize;
    entry->usize = h.usize;
    if (has_sizes && range_within(entry->data_offset, entry->csize, salvage->src->size)) {
        entry->next_at = entry->data_offset + entry->csize;
    } else {
        entry->next_at = holds_archive(salvage, entry) ? salvage->src->size : entry->data_offset;
        entry->fault = "it is cut off, or its size is damaged";
    }
    return CKPT_OK;
}

/* has_header_after - returns true if a local or a central header begins where ENTRY ends by its size. */
static bool has_header_after(const struct salvage *salvage, const struct zip_entry *entry)
{
    return zip_has_signature(salvage->src, entry->next_at, ZIP_LOCAL) ||
           zip_has_signature(salvage->src, entry->next_at, ZIP_CENTRAL);
}

/* check_record - compares the payload of ENTRY with its CRC and sizes, and sets the fault of ENTRY.
 * HAS_DESCRIPTOR: its sizes are in a data descriptor. */
static ckpt_status check_record(struct salvage *salvage, struct zip_entry *entry, bool has_descriptor)
{
    uint32_t crc;
    bool fits, end_unknown = entry->crc_unknown; /* set so far only if no descriptor was found */
    if (entry->fault || (end_unknown && entry->method == ZIP_STORED))
        return CKPT_OK;
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        entry->fault = "it is compressed by a method that ckpt does not unpack";
    else if (salvage->bytes_wasted / 64 > salvage->src->size)
        entry->fault = "it was not read, because too much of the archive is damaged";
    if (entry->fault)
        return CKPT_OK;
    entry->avoids_libzip = entry->method == ZIP_DEFLATED;
    CKPT_TRY(compute_member_crc(salvage, entry, entry->data_offset, &crc, &fits));
    if (!fits)
        entry->fault = entry->method == ZIP_DEFLATED
                           ? "its deflated bytes are broken, or not as many as is recorded"
                           : "it is stored, yet its two sizes differ";
    else if (crc != entry->crc && entry->crc)
        entry->fault = "its bytes do not have the checksum that is recorded";
    entry->crc_unknown = end_unknown || crc != entry->crc;
    if (!entry->fault && !entry->crc_unknown && crc)
        entry->flags = 0; /* the CRC matches, so it is not encrypted, even if a damaged flag indicates that */
    if (entry->fault) {
        salvage->bytes_wasted += entry->csize; /* check_record stops adding beyond 64 times the file size */
        if (!has_descriptor && !holds_archive(salvage, entry) && !has_header_after(salvage, entry))
            entry->next_at = entry->data_offset;
    }
    return CKPT_OK;
}

/* add_found - adds ENTRY to the records found, unless it is inside an earlier record. */
static ckpt_status add_found(struct salvage *salvage, const struct zip_entry *entry)
{
    uint32_t before = map_get(salvage->names, entry->name);
    salvage->inside_other_record = salvage->inside_other_record ||
                                   (salvage->end_unknown && before != MAP_NONE);
    if (salvage->inside_other_record)
        return CKPT_OK;
    salvage->end_unknown = salvage->end_unknown || (entry->fault && entry->next_at == entry->data_offset);
    bool ok = map_put(salvage->names, entry->name, (uint32_t)salvage->nrecords, NULL) &&
              ARENA_PUSH(salvage->a, salvage, records, entry);
    return ok ? CKPT_OK : fail_memory(salvage->err);
}

static ckpt_status find_records(struct salvage *salvage)
{
    uint64_t next = 0;
    salvage->names = map_new(0);
    CKPT_TRY(salvage->names ? find_signatures(salvage) : fail_memory(salvage->err));
    for (size_t i = 0; i < salvage->nsignatures; i++) {
        struct zip_entry e;
        bool valid, has_descriptor;
        if (!salvage->signatures[i].is_header || salvage->signatures[i].at < next)
            continue;
        CKPT_TRY(read_header(salvage, i, &e, &valid, &has_descriptor));
        if (!valid)
            continue;
        CKPT_TRY(check_record(salvage, &e, has_descriptor));
        CKPT_TRY(add_found(salvage, &e));
        next = e.next_at;
    }
    return CKPT_OK;
}

/* is_same_record - returns true if the records LEFT and RIGHT are intact and have the same bytes. */
static bool is_same_record(const struct zip_entry *left, const struct zip_entry *right)
{
    return !left->fault && !right->fault && !left->crc_unknown && !right->crc_unknown &&
           left->crc == right->crc && left->csize == right->csize;
}

static ckpt_status build_archive(struct salvage *salvage, zip **out)
{
    zip *z = zip_new(salvage->src, salvage->a);
    CKPT_TRY_ALLOC(z, salvage->err);
    z->directory_at = z->archive_end = salvage->src->size;
    z->all_located = true;
    z->without_directory = true;
    z->entries = arena_array(salvage->a, salvage->nrecords, sizeof *z->entries);
    z->names = map_new(salvage->nrecords);
    bool ok = z->entries && z->names;
    for (size_t i = 0; ok && i < salvage->nrecords; i++) {
        uint32_t old = map_get(z->names, salvage->records[i].name);
        if (old == MAP_NONE) {
            ok = map_put(z->names, salvage->records[i].name, (uint32_t)z->n, NULL);
            z->entries[z->n++] = salvage->records[i];
        } else if (!is_same_record(&z->entries[old], &salvage->records[i])) {
            z->entries[old].fault =
                "two records have its name, and the central directory, which would show the one "
                "that counts, is damaged";
        }
    }
    if (!ok) {
        zip_close(z);
        return fail_memory(salvage->err);
    }
    *out = z;
    return CKPT_OK;
}

/* find_described_payload - if a descriptor with the size of ENTRY is right before the next record, sets *DATA
 * to the offset of the payload before it and returns true. */
static bool find_described_payload(struct salvage *salvage, const struct zip_entry *entry, uint64_t *data)
{
    static const unsigned descriptor_lengths[] = {ZIP_DESCRIPTOR_SIZE, ZIP_DESCRIPTOR_MAX};
    for (size_t i = 0; i < sizeof descriptor_lengths / sizeof *descriptor_lengths; i++) {
        struct zip_entry described;
        uint64_t headers = ZIP_LOCAL_SIZE + entry->name.len + descriptor_lengths[i];
        uint64_t room = entry->next_at - entry->header_offset;
        if (room < headers || room - headers < entry->csize)
            continue;
        uint64_t at = entry->next_at - descriptor_lengths[i];
        if (read_descriptor_of_size(salvage, at, entry->csize, &described)) {
            *data = at - entry->csize;
            return true;
        }
    }
    return false;
}

/* is_member_intact - compares the bytes of entry INDEX of a valid central directory with its checksum. In an
 * archive without checksums, checks that no descriptor before the next record puts the payload elsewhere. */
static bool is_member_intact(struct salvage *salvage, zip *archive, size_t index)
{
    ckpt_error ignored;
    const struct zip_entry *e = &archive->entries[index];
    source *s = NULL;
    uint32_t crc = 0;
    uint64_t data;
    if (zip_locate_payload(archive, index, &ignored) != CKPT_OK ||
        zip_open_member(archive, index, &s, &ignored) != CKPT_OK)
        return false;
    ckpt_status st = source_crc(s, 0, s->size, CRC_32, &crc, &ignored);
    source_unref(s);
    return st == CKPT_OK &&
           (archive->crc_none ? !find_described_payload(salvage, e, &data) || data == e->data_offset
                              : crc == e->crc);
}

/* locate_by_next_record - locates the payload of ENTRY backwards from the next record, because a header of
 * ENTRY is damaged. AT_OFFSET is the record found at the header offset of ENTRY, or NULL. */
static ckpt_status locate_by_next_record(struct salvage *salvage, const zip *archive, struct zip_entry *entry,
                                         const struct zip_entry *at_offset)
{
    static const unsigned descriptor_lengths[] = {ZIP_DESCRIPTOR_SIZE, ZIP_DESCRIPTOR_MAX, 0}; /* 0: none */
    uint64_t room = entry->next_at - entry->header_offset;
    bool found = false, fits = true;
    uint32_t crc;
    if (at_offset && entry->method != ZIP_STORED &&
        (entry->method != ZIP_DEFLATED ||
         at_offset->method == ZIP_STORED)) /* if the methods differ, one is damaged */
        entry->method = at_offset->method;
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        return CKPT_OK;
    if (archive->crc_none && find_described_payload(salvage, entry, &entry->data_offset))
        CKPT_TRY(compute_member_crc(salvage, entry, entry->data_offset, &crc, &found));
    for (size_t i = 0; i < sizeof descriptor_lengths / sizeof *descriptor_lengths && !found && entry->crc;
         i++) {
        uint64_t headers = ZIP_LOCAL_SIZE + entry->name.len + descriptor_lengths[i];
        if (room < headers || room - headers < entry->csize)
            continue;
        entry->data_offset = entry->next_at - descriptor_lengths[i] - entry->csize;
        CKPT_TRY(compute_member_crc(salvage, entry, entry->data_offset, &crc, &fits));
        found = fits && crc == entry->crc;
    }
    if (found) {
        entry->is_located = true;
        entry->avoids_libzip = entry->method == ZIP_DEFLATED;
        entry->flags = at_offset ? entry->flags & at_offset->flags
                                 : entry->flags; /* both headers must have the flag */
        entry->fault = NULL;
    }
    return CKPT_OK;
}

static ckpt_str get_folder(ckpt_str name)
{
    size_t slash = str_find(name, STR_LIT("/"), 0);
    return str_of(name.ptr, slash == SIZE_MAX ? 0 : slash);
}

static const struct zip_entry *find_record_at(const struct salvage *salvage, uint64_t at)
{
    size_t lo = 0, hi = salvage->nrecords; /* records are in file order */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (salvage->records[mid].header_offset < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < salvage->nrecords && salvage->records[lo].header_offset == at ? &salvage->records[lo] : NULL;
}

/* find_replacement - returns an intact record to use for the central directory entry ENTRY: AT_OFFSET, the
 * record at its offset, or a record of its name with the same checksum; NULL: there is none. */
static const struct zip_entry *find_replacement(const struct salvage *salvage, const struct zip_entry *entry,
                                                const struct zip_entry *at_offset)
{
    uint32_t named = map_get(salvage->names, entry->name);
    const struct zip_entry *same_name = named == MAP_NONE ? NULL : &salvage->records[named];
    if (at_offset && !at_offset->fault && !at_offset->crc_unknown &&
        (at_offset->usize == entry->usize || at_offset->csize == entry->csize))
        return at_offset;
    bool is_intact = same_name && !same_name->fault && !same_name->crc_unknown;
    bool is_same = is_intact && entry->crc && same_name->crc == entry->crc &&
                   same_name->usize == entry->usize;
    return is_same ? same_name : NULL;
}

/* repair_entry - repairs entry INDEX of the central directory from the records. If its local header has
 * another name, the entry keeps its own only if that is unique and in the folder of the other entries. *ALIAS
 * becomes a copy of the entry with the name that it does not keep, or has a NULL name. */
static ckpt_status repair_entry(struct salvage *salvage, zip *archive, size_t index, struct zip_entry *alias)
{
    struct zip_entry *e = &archive->entries[index];
    const struct zip_entry *at_offset = find_record_at(salvage, e->header_offset),
                           *replacement = find_replacement(salvage, e, at_offset);
    ckpt_str name = e->name,
             folder = archive->n > 1 ? get_folder(archive->entries[index ? 0 : 1].name) : str_of("", 0);
    bool keeps_name = str_eq(get_folder(name), folder) && !e->duplicate;
    alias->name = str_of(NULL, 0);
    e->fault = "its bytes do not have the checksum that is recorded, or its header is damaged";
    if (replacement)
        *e = *replacement;
    else
        CKPT_TRY(locate_by_next_record(salvage, archive, e, at_offset));
    e->name = name;
    if (e->fault || !at_offset || str_eq(at_offset->name, name))
        return CKPT_OK;
    ckpt_str *names = arena_array(salvage->a, 2, sizeof *names);
    CKPT_TRY_ALLOC(names, salvage->err);
    names[0] = keeps_name ? name : at_offset->name;
    names[1] = keeps_name ? at_offset->name : name;
    e->name = names[0];
    e->other_name = &names[1];
    *alias = *e;
    alias->is_alias = true;
    alias->name = names[1];
    alias->other_name = &names[0];
    return CKPT_OK;
}

/* add_aliases - adds the COUNT aliases of repaired entries, except those whose name an entry has already. */
static ckpt_status add_aliases(struct salvage *salvage, zip *archive, const struct zip_entry *aliases,
                               size_t count)
{
    CKPT_TRY(zip_index_names(archive, salvage->err)); /* the names may have changed */
    struct zip_entry *all = arena_array(salvage->a, archive->n + count, sizeof *all);
    CKPT_TRY_ALLOC(all, salvage->err);
    memcpy(all, archive->entries, archive->n * sizeof *all);
    archive->entries = all;
    archive->all_located = true;
    for (size_t i = 0; i < count; i++) {
        if (zip_find(archive, aliases[i].name) >= 0)
            continue;
        all[archive->n] = aliases[i]; /* the index reads names from there */
        CKPT_TRY_ALLOC(map_put(archive->names, aliases[i].name, (uint32_t)archive->n++, NULL), salvage->err);
    }
    return CKPT_OK;
}

/* clear_lone_crc - if only one of many entries has a checksum, clears it: the program that wrote the archive
 * computed none, so that field is damaged. */
static void clear_lone_crc(zip *archive)
{
    size_t ncrcs = 0, nmissing = 0, last = 0;
    for (size_t i = 0; i < archive->n; i++)
        if (archive->entries[i].crc) {
            last = i;
            ncrcs++;
        } else {
            nmissing += archive->entries[i].usize > 0;
        }
    if (ncrcs == 1 && nmissing > 1) {
        archive->entries[last].crc = 0;
        archive->crc_none = true;
    }
}

static ckpt_status check_directory(struct salvage *salvage, zip *archive)
{
    struct zip_entry alias, *aliases = NULL;
    size_t n = 0, cap = 0;
    clear_lone_crc(archive);
    for (size_t i = 0; i < archive->n; i++) {
        if (is_member_intact(salvage, archive, i))
            continue;
        if (!salvage->names)
            CKPT_TRY(find_records(salvage));
        CKPT_TRY(repair_entry(salvage, archive, i, &alias));
        if (alias.name.ptr && !arena_push(salvage->a, &aliases, &n, &cap, &alias, sizeof alias))
            return fail_memory(salvage->err);
    }
    return salvage->names ? add_aliases(salvage, archive, aliases, n) : CKPT_OK;
}

ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err)
{
    ckpt_error ignored;
    struct salvage w = {.src = src, .a = a, .err = err, .chunk = malloc(CHUNK)};
    zip *z = NULL;
    ckpt_status st = w.chunk ? source_locate(src, err) : fail_memory(err);
    if (st == CKPT_OK && zip_open(src, a, &z, &ignored) == CKPT_OK) {
        st = check_directory(&w, z);
    } else if (st == CKPT_OK) {
        st = find_records(&w);
        CKPT_THEN(st, build_archive(&w, &z));
    }
    free(w.chunk);
    map_free(w.names);
    if (st == CKPT_OK)
        *out = z;
    else
        zip_close(z);
    return st;
}
