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

static ckpt_status add_signature(struct salvage *w, uint64_t at, bool is_header)
{
    if (w->nsignatures >= MAX_SIGNATURES)
        return fail(w->err, CKPT_ELIMIT, at, "{more} than {=%u signatures} of records", MAX_SIGNATURES);
    struct signature s = {at, is_header};
    return ARENA_PUSH(w->a, w, signatures, &s) ? CKPT_OK : fail_memory(w->err);
}

/* find_signatures_in_chunk - adds the signatures in the N bytes of the chunk, which is at POS in the file. */
static ckpt_status find_signatures_in_chunk(struct salvage *w, uint64_t pos, size_t n)
{
    const unsigned char *p = w->chunk, *end = p + n;
    while ((p = memchr(p, 'P', (size_t)(end - p))) && end - p >= 4) {
        uint32_t value = load_u32le(p);
        uint64_t at = pos + (uint64_t)(p - w->chunk);
        if (value == ZIP_LOCAL || value == ZIP_DESCRIPTOR)
            CKPT_TRY(add_signature(w, at, value == ZIP_LOCAL));
        p++;
    }
    return CKPT_OK;
}

static ckpt_status find_signatures(struct salvage *w)
{
    uint64_t size = w->src->size;
    for (uint64_t at = 0, n; at + 4 <= size; at += n - 3) { /* 3: a signature may cross the end of a chunk */
        n = size - at < CHUNK ? size - at : CHUNK;
        CKPT_TRY(source_read(w->src, at, w->chunk, (size_t)n, w->err));
        CKPT_TRY(find_signatures_in_chunk(w, at, (size_t)n));
        if (at + n == size)
            break;
    }
    return CKPT_OK;
}

/* compute_member_crc - sets *CRC to the CRC-32 of the payload of E at AT, inflated if E is deflated. Sets
 * *FITS to whether the payload has the sizes of E. If E is deflated and its end is unknown, sets its sizes to
 * those of the payload. */
static ckpt_status compute_member_crc(struct salvage *w, struct zip_entry *e, uint64_t at, uint32_t *crc,
                                      bool *fits)
{
    uint64_t used, size;
    *crc = 0;
    *fits = e->csize == e->usize;
    if (e->method == ZIP_STORED)
        return source_crc(w->src, at, e->csize, CRC_32, crc, w->err);
    ckpt_status st = inflate_measure(w->src, at, e->csize, &used, &size, crc, w->err);
    w->bytes_wasted += size / 16; /* DEFLATE gives at most 1032 times csize */
    *fits = st == CKPT_OK && (e->crc_unknown || (used == e->csize && size == e->usize));
    if (*fits) {
        e->csize = used;
        e->usize = size;
    }
    return st == CKPT_EFORMAT || st == CKPT_ETRUNCATED ? CKPT_OK : st;
}

/* read_descriptor_of_size - if the descriptor at AT states SIZE compressed bytes, sets CRC and sizes of E and
 * returns true. AT must be in the file. */
static bool read_descriptor_of_size(struct salvage *w, uint64_t at, uint64_t size, struct zip_entry *e)
{
    ckpt_error ignored;
    unsigned char b[ZIP_DESCRIPTOR_MAX];
    uint64_t left = w->src->size - at;
    size_t n = left < sizeof b ? (size_t)left : sizeof b;
    struct zip_descriptor d;
    if (source_read(w->src, at, b, n, &ignored) != CKPT_OK ||
        !((zip_parse_descriptor(b, n, ZIP_SIGNED | ZIP_WIDE, &d) && d.csize == size) ||
          (zip_parse_descriptor(b, n, ZIP_SIGNED, &d) && d.csize == size)))
        return false;
    e->crc = d.crc;
    e->csize = d.csize;
    e->usize = d.usize;
    return true;
}

/* find_end_by_descriptor - sets sizes and next_at of E, whose header is at signature I, by the first
 * descriptor that states the size from the payload up to there. Without one, E has a fault. */
static void find_end_by_descriptor(struct salvage *w, size_t i, struct zip_entry *e)
{
    bool more_headers = false;
    for (size_t k = i + 1; k < w->nsignatures && k - i <= MAX_LOOKAHEAD; k++) {
        const struct signature *found = &w->signatures[k];
        if (found->at < e->data_offset)
            continue;
        more_headers = more_headers || found->is_header;
        if (!found->is_header && read_descriptor_of_size(w, found->at, found->at - e->data_offset, e)) {
            e->next_at = found->at;
            return;
        }
    }
    e->crc_unknown = true;
    e->csize = e->usize = w->src->size - e->data_offset;
    e->next_at = more_headers ? e->data_offset : w->src->size; /* the next record may be anywhere */
    e->fault = more_headers ? "its end is unknown: the size recorded after it is damaged"
                            : "the file ends, or was overwritten, before its size and checksum";
}

/* overlaps_next_header - returns true if a second header begins before END, the end of the header at
 * signature I. Then the header at I is damaged. */
static bool overlaps_next_header(const struct salvage *w, size_t i, uint64_t end)
{
    while (++i < w->nsignatures && w->signatures[i].at < end)
        if (w->signatures[i].is_header)
            return true;
    return false;
}

/* read_wide_sizes - replaces sizes of H, the local header at AT, that are FFFFFFFF by those of its zip64
 * field. Sets *VALID to whether it has one then. */
static ckpt_status read_wide_sizes(struct salvage *w, uint64_t at, struct zip_header *h, bool *valid)
{
    *valid = h->csize != UINT32_MAX && h->usize != UINT32_MAX;
    if (*valid)
        return CKPT_OK;
    /* the caller found the header in the file; its extra fields have 16 bits, and fit the chunk */
    CKPT_TRY(source_read(w->src, at + ZIP_LOCAL_SIZE + h->name_len, w->chunk, h->extra_len, w->err));
    *valid = zip64_resolve(h, cursor_of(w->chunk, h->extra_len, 0), NULL);
    return CKPT_OK;
}

/* holds_archive - returns true if the payload of E is an archive, whose records are not those of this one. */
static bool holds_archive(const struct salvage *w, const struct zip_entry *e)
{
    return e->method == ZIP_STORED && zip_has_signature(w->src, e->data_offset, ZIP_LOCAL);
}

/* read_header - reads the local header at signature I into E. Sets *VALID to whether it is valid, and
 * *HAS_DESCRIPTOR to whether its sizes are in a data descriptor. */
static ckpt_status read_header(struct salvage *w, size_t i, struct zip_entry *e, bool *valid,
                               bool *has_descriptor)
{
    struct zip_header h;
    uint64_t at = w->signatures[i].at, left = w->src->size - at;
    *valid = false;
    if (left < ZIP_LOCAL_SIZE)
        return CKPT_OK;
    CKPT_TRY(zip_read_local(w->src, at, &h, w->err));
    uint64_t data = at + zip_local_length(&h);
    if (left < zip_local_length(&h) || !h.name_len || overlaps_next_header(w, i, data))
        return CKPT_OK;
    char *text = arena_alloc(w->a, h.name_len);
    CKPT_TRY_ALLOC(text, w->err);
    CKPT_TRY(source_read(w->src, at + ZIP_LOCAL_SIZE, text, h.name_len, w->err));
    *e = (struct zip_entry){.name = str_of(text, h.name_len),
                            .header_offset = at,
                            .data_offset = data,
                            .flags = h.flags & (uint16_t)~ZIP_FLAG_DESCRIPTOR,
                            .method = h.method,
                            .is_located = true};
    *valid = true;
    *has_descriptor = h.flags & ZIP_FLAG_DESCRIPTOR;
    if (*has_descriptor) {
        find_end_by_descriptor(w, i, e);
        return CKPT_OK;
    }
    bool has_sizes;
    CKPT_TRY(read_wide_sizes(w, at, &h, &has_sizes));
    e->crc = h.crc;
    e->csize = h.csize;
    e->usize = h.usize;
    if (has_sizes && range_within(e->data_offset, e->csize, w->src->size)) {
        e->next_at = e->data_offset + e->csize;
    } else {
        e->next_at = holds_archive(w, e) ? w->src->size : e->data_offset;
        e->fault = "it is cut off, or its size is damaged";
    }
    return CKPT_OK;
}

/* has_header_after - returns true if a local or a central header begins where E ends by its size. */
static bool has_header_after(const struct salvage *w, const struct zip_entry *e)
{
    return zip_has_signature(w->src, e->next_at, ZIP_LOCAL) ||
           zip_has_signature(w->src, e->next_at, ZIP_CENTRAL);
}

/* check_record - compares the payload of E with its CRC and sizes, and sets the fault of E. HAS_DESCRIPTOR:
 * its sizes are in a data descriptor. */
static ckpt_status check_record(struct salvage *w, struct zip_entry *e, bool has_descriptor)
{
    uint32_t crc;
    bool fits, end_unknown = e->crc_unknown; /* set so far only if no descriptor was found */
    if (e->fault || (end_unknown && e->method == ZIP_STORED))
        return CKPT_OK;
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        e->fault = "it is compressed by a method that ckpt does not unpack";
    else if (w->bytes_wasted / 64 > w->src->size)
        e->fault = "it was not read, because too much of the archive is damaged";
    if (e->fault)
        return CKPT_OK;
    e->avoids_libzip = e->method == ZIP_DEFLATED;
    CKPT_TRY(compute_member_crc(w, e, e->data_offset, &crc, &fits));
    if (!fits)
        e->fault = e->method == ZIP_DEFLATED ? "its deflated bytes are broken, or not as many as is recorded"
                                             : "it is stored, yet its two sizes differ";
    else if (crc != e->crc && e->crc)
        e->fault = "its bytes do not have the checksum that is recorded";
    e->crc_unknown = end_unknown || crc != e->crc;
    if (!e->fault && !e->crc_unknown && crc)
        e->flags = 0; /* the CRC matches, so it is not encrypted, even if a damaged flag indicates that */
    if (e->fault) {
        w->bytes_wasted += e->csize; /* check_record stops adding beyond 64 times the file size */
        if (!has_descriptor && !holds_archive(w, e) && !has_header_after(w, e))
            e->next_at = e->data_offset;
    }
    return CKPT_OK;
}

/* add_found - adds E to the records found, unless it is inside an earlier record. */
static ckpt_status add_found(struct salvage *w, const struct zip_entry *e)
{
    uint32_t before = map_get(w->names, e->name);
    w->inside_other_record = w->inside_other_record || (w->end_unknown && before != MAP_NONE);
    if (w->inside_other_record)
        return CKPT_OK;
    w->end_unknown = w->end_unknown || (e->fault && e->next_at == e->data_offset);
    bool ok = map_put(w->names, e->name, (uint32_t)w->nrecords, NULL) && ARENA_PUSH(w->a, w, records, e);
    return ok ? CKPT_OK : fail_memory(w->err);
}

static ckpt_status find_records(struct salvage *w)
{
    uint64_t next = 0;
    w->names = map_new(0);
    CKPT_TRY(w->names ? find_signatures(w) : fail_memory(w->err));
    for (size_t i = 0; i < w->nsignatures; i++) {
        struct zip_entry e;
        bool valid, has_descriptor;
        if (!w->signatures[i].is_header || w->signatures[i].at < next)
            continue;
        CKPT_TRY(read_header(w, i, &e, &valid, &has_descriptor));
        if (!valid)
            continue;
        CKPT_TRY(check_record(w, &e, has_descriptor));
        CKPT_TRY(add_found(w, &e));
        next = e.next_at;
    }
    return CKPT_OK;
}

/* is_same_record - returns true if the records A and B are intact and have the same bytes. */
static bool is_same_record(const struct zip_entry *a, const struct zip_entry *b)
{
    return !a->fault && !b->fault && !a->crc_unknown && !b->crc_unknown && a->crc == b->crc &&
           a->csize == b->csize;
}

static ckpt_status build_archive(struct salvage *w, zip **out)
{
    zip *z = zip_new(w->src, w->a);
    CKPT_TRY_ALLOC(z, w->err);
    z->directory_at = z->archive_end = w->src->size;
    z->all_located = true;
    z->without_directory = true;
    z->entries = arena_array(w->a, w->nrecords, sizeof *z->entries);
    z->names = map_new(w->nrecords);
    bool ok = z->entries && z->names;
    for (size_t i = 0; ok && i < w->nrecords; i++) {
        uint32_t old = map_get(z->names, w->records[i].name);
        if (old == MAP_NONE) {
            ok = map_put(z->names, w->records[i].name, (uint32_t)z->n, NULL);
            z->entries[z->n++] = w->records[i];
        } else if (!is_same_record(&z->entries[old], &w->records[i])) {
            z->entries[old].fault =
                "two records have its name, and the central directory, which would show the one "
                "that counts, is damaged";
        }
    }
    if (!ok) {
        zip_close(z);
        return fail_memory(w->err);
    }
    *out = z;
    return CKPT_OK;
}

/* find_described_payload - if a descriptor with the size of E is right before the next record, sets *DATA to
 * the offset of the payload before it and returns true. */
static bool find_described_payload(struct salvage *w, const struct zip_entry *e, uint64_t *data)
{
    static const unsigned descriptor_lengths[] = {ZIP_DESCRIPTOR_SIZE, ZIP_DESCRIPTOR_MAX};
    for (size_t i = 0; i < sizeof descriptor_lengths / sizeof *descriptor_lengths; i++) {
        struct zip_entry described;
        uint64_t headers = ZIP_LOCAL_SIZE + e->name.len + descriptor_lengths[i];
        uint64_t room = e->next_at - e->header_offset;
        if (room < headers || room - headers < e->csize)
            continue;
        uint64_t at = e->next_at - descriptor_lengths[i];
        if (read_descriptor_of_size(w, at, e->csize, &described)) {
            *data = at - e->csize;
            return true;
        }
    }
    return false;
}

/* is_member_intact - compares the bytes of entry I of a valid central directory with its checksum. In an
 * archive without checksums, checks that no descriptor before the next record puts the payload elsewhere. */
static bool is_member_intact(struct salvage *w, zip *z, size_t i)
{
    ckpt_error ignored;
    const struct zip_entry *e = &z->entries[i];
    source *s = NULL;
    uint32_t crc = 0;
    uint64_t data;
    if (zip_locate_payload(z, i, &ignored) != CKPT_OK || zip_open_member(z, i, &s, &ignored) != CKPT_OK)
        return false;
    ckpt_status st = source_crc(s, 0, s->size, CRC_32, &crc, &ignored);
    source_unref(s);
    return st == CKPT_OK &&
           (z->crc_none ? !find_described_payload(w, e, &data) || data == e->data_offset : crc == e->crc);
}

/* locate_by_next_record - locates the payload of E backwards from the next record, because a header of E is
 * damaged. AT_OFFSET is the record found at the header offset of E, or NULL. */
static ckpt_status locate_by_next_record(struct salvage *w, const zip *z, struct zip_entry *e,
                                         const struct zip_entry *at_offset)
{
    static const unsigned descriptor_lengths[] = {ZIP_DESCRIPTOR_SIZE, ZIP_DESCRIPTOR_MAX, 0}; /* 0: none */
    uint64_t room = e->next_at - e->header_offset;
    bool found = false, fits = true;
    uint32_t crc;
    if (at_offset && e->method != ZIP_STORED &&
        (e->method != ZIP_DEFLATED ||
         at_offset->method == ZIP_STORED)) /* if the methods differ, one is damaged */
        e->method = at_offset->method;
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return CKPT_OK;
    if (z->crc_none && find_described_payload(w, e, &e->data_offset))
        CKPT_TRY(compute_member_crc(w, e, e->data_offset, &crc, &found));
    for (size_t i = 0; i < sizeof descriptor_lengths / sizeof *descriptor_lengths && !found && e->crc; i++) {
        uint64_t headers = ZIP_LOCAL_SIZE + e->name.len + descriptor_lengths[i];
        if (room < headers || room - headers < e->csize)
            continue;
        e->data_offset = e->next_at - descriptor_lengths[i] - e->csize;
        CKPT_TRY(compute_member_crc(w, e, e->data_offset, &crc, &fits));
        found = fits && crc == e->crc;
    }
    if (found) {
        e->is_located = true;
        e->avoids_libzip = e->method == ZIP_DEFLATED;
        e->flags = at_offset ? e->flags & at_offset->flags : e->flags; /* both headers must have the flag */
        e->fault = NULL;
    }
    return CKPT_OK;
}

static ckpt_str get_folder(ckpt_str name)
{
    size_t slash = str_find(name, STR_LIT("/"), 0);
    return str_of(name.ptr, slash == SIZE_MAX ? 0 : slash);
}

static const struct zip_entry *find_record_at(const struct salvage *w, uint64_t at)
{
    size_t lo = 0, hi = w->nrecords; /* records are in file order */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (w->records[mid].header_offset < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->nrecords && w->records[lo].header_offset == at ? &w->records[lo] : NULL;
}

/* find_replacement - returns an intact record to use for the central directory entry E: AT_OFFSET, the
 * record at its offset, or a record of its name with the same checksum; NULL: there is none. */
static const struct zip_entry *find_replacement(const struct salvage *w, const struct zip_entry *e,
                                                const struct zip_entry *at_offset)
{
    uint32_t named = map_get(w->names, e->name);
    const struct zip_entry *same_name = named == MAP_NONE ? NULL : &w->records[named];
    if (at_offset && !at_offset->fault && !at_offset->crc_unknown &&
        (at_offset->usize == e->usize || at_offset->csize == e->csize))
        return at_offset;
    bool is_intact = same_name && !same_name->fault && !same_name->crc_unknown;
    bool is_same = is_intact && e->crc && same_name->crc == e->crc && same_name->usize == e->usize;
    return is_same ? same_name : NULL;
}

/* repair_entry - repairs entry I of the central directory from the records. If its local header has another
 * name, the entry keeps its own only if that is unique and in the folder of the other entries. *ALIAS becomes
 * a copy of the entry with the name that it does not keep, or has a NULL name. */
static ckpt_status repair_entry(struct salvage *w, zip *z, size_t i, struct zip_entry *alias)
{
    struct zip_entry *e = &z->entries[i];
    const struct zip_entry *at_offset = find_record_at(w, e->header_offset),
                           *replacement = find_replacement(w, e, at_offset);
    ckpt_str name = e->name, folder = z->n > 1 ? get_folder(z->entries[i ? 0 : 1].name) : str_of("", 0);
    bool keeps_name = str_eq(get_folder(name), folder) && !e->duplicate;
    alias->name = str_of(NULL, 0);
    e->fault = "its bytes do not have the checksum that is recorded, or its header is damaged";
    if (replacement)
        *e = *replacement;
    else
        CKPT_TRY(locate_by_next_record(w, z, e, at_offset));
    e->name = name;
    if (e->fault || !at_offset || str_eq(at_offset->name, name))
        return CKPT_OK;
    ckpt_str *names = arena_array(w->a, 2, sizeof *names);
    CKPT_TRY_ALLOC(names, w->err);
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

/* add_aliases - adds the N aliases of repaired entries, except those whose name an entry has already. */
static ckpt_status add_aliases(struct salvage *w, zip *z, const struct zip_entry *aliases, size_t n)
{
    CKPT_TRY(zip_index_names(z, w->err)); /* the names may have changed */
    struct zip_entry *all = arena_array(w->a, z->n + n, sizeof *all);
    CKPT_TRY_ALLOC(all, w->err);
    memcpy(all, z->entries, z->n * sizeof *all);
    z->entries = all;
    z->all_located = true;
    for (size_t i = 0; i < n; i++) {
        if (zip_find(z, aliases[i].name) >= 0)
            continue;
        all[z->n] = aliases[i]; /* the index reads names from there */
        CKPT_TRY_ALLOC(map_put(z->names, aliases[i].name, (uint32_t)z->n++, NULL), w->err);
    }
    return CKPT_OK;
}

/* clear_lone_crc - if only one of many entries has a checksum, clears it: the program that wrote the archive
 * computed none, so that field is damaged. */
static void clear_lone_crc(zip *z)
{
    size_t ncrcs = 0, nmissing = 0, last = 0;
    for (size_t i = 0; i < z->n; i++)
        if (z->entries[i].crc) {
            last = i;
            ncrcs++;
        } else {
            nmissing += z->entries[i].usize > 0;
        }
    if (ncrcs == 1 && nmissing > 1) {
        z->entries[last].crc = 0;
        z->crc_none = true;
    }
}

static ckpt_status check_directory(struct salvage *w, zip *z)
{
    struct zip_entry alias, *aliases = NULL;
    size_t n = 0, cap = 0;
    clear_lone_crc(z);
    for (size_t i = 0; i < z->n; i++) {
        if (is_member_intact(w, z, i))
            continue;
        if (!w->names)
            CKPT_TRY(find_records(w));
        CKPT_TRY(repair_entry(w, z, i, &alias));
        if (alias.name.ptr && !arena_push(w->a, &aliases, &n, &cap, &alias, sizeof alias))
            return fail_memory(w->err);
    }
    return w->names ? add_aliases(w, z, aliases, n) : CKPT_OK;
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
        if (st == CKPT_OK)
            st = build_archive(&w, &z);
    }
    free(w.chunk);
    map_free(w.names);
    if (st == CKPT_OK)
        *out = z;
    else
        zip_close(z);
    return st;
}
