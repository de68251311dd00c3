/*
 * zip_audit.c - see zip_audit.h. The layout of an archive is in zip_header.h. Reported are:
 *   name, method, flags, CRC or sizes that differ between directory and local header: readers that use one
 *     or the other read different bytes (CVE-2025-1944, -1945)
 *   members that are not in the central directory, which streaming readers read; a second end record, by
 *     which some readers find a different archive
 *   members that overlap, bytes that belong to no member
 *   names: duplicates, also if only case or slashes differ; absolute paths, "..", drives; a second name in an
 *     extra field (0x7075), which some readers prefer; invalid UTF-8 despite the flag
 *   extra fields that are truncated, zip64 values for sizes that fit 32 bits
 *   data descriptors and times that differ, comments, in which bytes can hide
 * Local headers of torch have 0 for CRC and sizes, with or without bit 3 of the flags: not reported.
 */
#include "codec/zip_audit.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/zip_end.h"
#include "codec/zip_header.h"
#include "io/reader.h"

#define FIRST_BYTES  4096u       /* of a member: its local header, and what shows what it is */
#define MAX_SEARCH   (64u << 20) /* bytes between members that are searched for unlisted ones */
#define UNIX_SYMLINK 0xAu        /* file type in the high bits of the external attributes */
#define MAX_ENTRIES  10000000u

/* report_difference - reports that WHAT is LOCAL in one header of VIEW and CENTRAL in the other. */
static void report_difference(struct zip_audit *audit, const struct zip_view *view, const char *what,
                              uint64_t local, uint64_t central)
{
    uint64_t at = view->local_header_at;
    struct zip_flaw f = {view->name, what, at, view->described_at, local, central, NULL, 0, 0, false};
    audit->flaw(audit->user, &f);
}

/* report_hexadecimal - reports a difference as report_difference does, with the values in base 16. */
static void report_hexadecimal(struct zip_audit *audit, const struct zip_view *view, const char *what,
                               uint64_t local, uint64_t central)
{
    uint64_t at = view->local_header_at;
    struct zip_flaw f = {view->name, what, at, view->described_at, local, central, NULL, 0, 0, true};
    audit->flaw(audit->user, &f);
}

static void report_flaw(struct zip_audit *audit, ckpt_str name, uint64_t at, const char *text, uint64_t value)
{
    struct zip_flaw f = {name, NULL, at, CKPT_NO_OFFSET, value, 0, text, 0, 0, false};
    audit->flaw(audit->user, &f);
}

/* report_bytes - reports the flaw TEXT at AT, with the NBYTES bytes at FROM, which are to be scanned. */
static void report_bytes(struct zip_audit *audit, ckpt_str name, uint64_t at, const char *text, uint64_t from,
                         uint64_t nbytes)
{
    struct zip_flaw f = {name, NULL, at, CKPT_NO_OFFSET, nbytes, 0, text, from, nbytes, false};
    audit->flaw(audit->user, &f);
}

static struct zip_view *add_view(struct zip_audit *audit)
{
    struct zip_view *added = arena_append(audit->a, &audit->views, &audit->n, &audit->cap, sizeof *added);
    if (added)
        *added = (struct zip_view){0};
    return added;
}

/* fill_view - sets VIEW from the header HEADER, whose extra fields are EXTRA. Returns how many bytes of the
 * first zip64 field were not needed. */
static size_t fill_view(struct zip_view *view, struct zip_header header, cursor extra)
{
    size_t unused = 0;
    (void)zip64_resolve(&header, extra, &unused);
    view->flags = header.flags;
    view->method = header.method;
    view->time = header.time;
    view->crc = header.crc;
    view->csize = header.csize;
    view->usize = header.usize;
    view->local_header_at = header.signature == ZIP_CENTRAL ? header.offset : view->local_header_at;
    return unused;
}

/* check_extra - reports extra fields that do not fill EXTRA exactly, and a field with a second name. */
static void check_extra(struct zip_audit *audit, ckpt_str name, uint64_t at, cursor extra)
{
    while (extra.left >= 4) {
        uint16_t id = cursor_u16(&extra), n = cursor_u16(&extra);
        if (n > extra.left) {
            report_flaw(audit, name, at,
                        "bytes of an extra field beyond the end of its header:", n - extra.left);
            return;
        }
        (void)cursor_sub(&extra, n);
        if (id == ZIP_FIELD_UNICODE)
            report_flaw(audit, name, at, "has another name in an extra field, which some readers prefer", 0);
    }
    if (extra.left)
        report_flaw(audit, name, at, "bytes after the last extra field:", extra.left);
}

/* fold_name - returns NAME in lower case and with forward slashes, because some file systems do not
 * distinguish such names; .ptr NULL: out of memory. */
static ckpt_str fold_name(arena *a, ckpt_str name)
{
    ckpt_str copy = arena_str(a, name);
    char *c = (char *)(uintptr_t)copy.ptr; /* our own copy */
    for (size_t i = 0; c && i < copy.len; i++)
        c[i] = c[i] == '\\' ? '/' : c[i] >= 'A' && c[i] <= 'Z' ? (char)(c[i] - 'A' + 'a') : c[i];
    return copy;
}

static bool check_names(struct zip_audit *audit)
{
    map *seen = map_new(audit->n);
    bool ok = seen != NULL;
    for (size_t i = 0; ok && i < audit->n && audit->views[i].listed; i++) {
        const struct zip_view *v = &audit->views[i];
        uint32_t old = MAP_NONE;
        const char *fault = audit->names_are_keys ? NULL : text_find_path_fault(v->name);
        ckpt_str folded = audit->names_are_keys ? v->name : fold_name(audit->a, v->name);
        ok = folded.ptr && map_put(seen, folded, (uint32_t)i, &old);
        if (fault)
            report_flaw(audit, v->name, v->described_at, fault, 0);
        if (ok && old != MAP_NONE)
            report_flaw(audit, v->name, v->described_at,
                        str_eq(audit->views[old].name, v->name)
                            ? "has the name of another member, whose header is at"
                            : "has the name of another member, but for case or slashes, whose header is at",
                        audit->views[old].described_at);
    }
    map_free(seen);
    return ok;
}

MODULO static ckpt_status read_entry(struct zip_audit *audit, reader *in, uint64_t prefix_size)
{
    uint64_t from = in->pos;
    const unsigned char *b = reader_take(in, ZIP_CENTRAL_SIZE);
    if (!b)
        return in->status;
    struct zip_header h = zip_parse_central(b);
    struct zip_view *v = add_view(audit);
    b = reader_take(in, h.name_len);
    if (!v || !b)
        return v ? in->status : CKPT_ENOMEM;
    v->name = arena_str(audit->a, str_of((const char *)b, h.name_len));
    if (!v->name.ptr)
        return CKPT_ENOMEM;
    v->listed = true;
    v->described_at = from;
    b = reader_take(in, h.extra_len);
    if (!b)
        return in->status;
    size_t unused = fill_view(v, h, cursor_of(b, h.extra_len, 0));
    if (unused && unused != 4) /* 4: a disk number */
        report_flaw(audit, v->name, from, "unused bytes in a zip64 field:", unused);
    check_extra(audit, v->name, from, cursor_of(b, h.extra_len, 0));
    if (v->flags & ZIP_FLAG_UTF8 && !utf8_check(v->name, false, NULL))
        report_flaw(audit, v->name, from, "its name is flagged as UTF-8, but is not valid UTF-8", 0);
    if (h.disk)
        report_flaw(audit, v->name, from, "is on another disk, number", h.disk);
    v->local_header_at += prefix_size; /* an offset after the end is not reachable */
    if (h.attributes >> 28 == UNIX_SYMLINK)
        report_flaw(audit, v->name, from, "is a symbolic link", 0);
    if (h.comment_len)
        report_bytes(audit, v->name, from, "has a comment, which can hide data; its length is", in->pos,
                     h.comment_len);
    return reader_skip(in, h.comment_len) ? CKPT_OK : in->status;
}

/* read_entries - adds the entries of the central directory from FROM to TO. PREFIX_SIZE is added to
 * offsets. */
static ckpt_status read_entries(struct zip_audit *audit, uint64_t from, uint64_t to, uint64_t prefix_size,
                                ckpt_error *err)
{
    reader r;
    ckpt_error why;
    ckpt_status st = reader_init(&r, audit->src, from, to, &why);
    while (st == CKPT_OK && reader_left(&r) && audit->n < MAX_ENTRIES) {
        const unsigned char *h = reader_peek(&r, reader_left(&r) < 4 ? (size_t)reader_left(&r) : 4);
        if (!h || reader_left(&r) < 4 || load_u32le(h) != ZIP_CENTRAL) {
            report_flaw(audit, str_of("", 0), r.pos,
                        "the central directory has bytes that belong to no entry:", reader_left(&r));
            break;
        }
        st = read_entry(audit, &r, prefix_size);
    }
    reader_free(&r);
    if (st == CKPT_ENOMEM || st == CKPT_EIO)
        return st == CKPT_ENOMEM ? fail_memory(err)
                                 : fail(err, st, CKPT_NO_OFFSET, "the central directory cannot be read");
    if (st != CKPT_OK)
        report_flaw(audit, str_of("", 0), from, "the central directory ends inside an entry", 0);
    return CKPT_OK;
}

static ckpt_status read_directory(struct zip_audit *audit, const struct zip_end *end, ckpt_error *err)
{
    uint64_t last;
    audit->directory_at = end->directory_at;
    audit->archive_end = end->archive_end;
    audit->end_record_at = end->record_at;
    if (!checked_add(end->directory_at, end->directory_size, &last))
        return CKPT_OK;
    CKPT_TRY(read_entries(audit, end->directory_at, last, end->prefix_size, err));
    if (audit->n != end->entries) {
        struct zip_view archive = {
            .name = str_of("", 0), .local_header_at = end->record_at, .described_at = end->directory_at};
        report_difference(audit, &archive, "the number of entries", end->entries, audit->n);
    }
    return CKPT_OK;
}

/* find_other_end_records - reports end records other than END, near the end of the file, that lead to a
 * directory. */
static ckpt_status find_other_end_records(struct zip_audit *audit, const struct zip_end *end, ckpt_error *err)
{
    size_t n = audit->src->size < ZIP_END_REACH ? (size_t)audit->src->size : ZIP_END_REACH;
    uint64_t start = audit->src->size - n;
    unsigned char *tail = malloc(n ? n : 1);
    ckpt_status st = tail ? source_read(audit->src, start, tail, n, err) : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && n >= ZIP_END_SIZE && i <= n - ZIP_END_SIZE; i++) {
        if (tail[i] != 'P' || load_u32le(tail + i) != ZIP_END || start + i == end->record_at)
            continue;
        struct zip_end_record r = zip_parse_end(tail + i);
        if (r.entries == 0 || zip_has_signature(audit->src, r.offset, ZIP_CENTRAL))
            report_flaw(audit, str_of("", 0), start + i, "is a second end record; the archive's is at byte",
                        end->record_at);
    }
    free(tail);
    return st;
}

/* check_locator - reports a zip64 locator that does not point to the record that was found. */
static void check_locator(struct zip_audit *audit, const struct zip_end *end)
{
    ckpt_error ignored;
    unsigned char b[ZIP64_LOCATOR_SIZE];
    if (end->first_record_at == end->record_at)
        return;
    uint64_t at, from = end->record_at - sizeof b; /* a locator was read there */
    if (source_read(audit->src, from, b, sizeof b, &ignored) != CKPT_OK)
        return;
    uint64_t offset = zip64_parse_locator(b).offset;
    if (!checked_add(offset, end->prefix_size, &at) || at != end->first_record_at)
        report_flaw(audit, str_of("", 0), from,
                    "the zip64 end record is not at the offset in its locator:", offset);
}

/* A local header with its variable fields. */
struct local_header {
    struct zip_header h;
    unsigned char bytes[2 * ZIP_MAX_NAME]; /* its name, its extra fields */
};

static ckpt_str get_local_name(const struct local_header *header)
{
    return str_of((const char *)header->bytes, header->h.name_len);
}

static cursor get_local_extra(const struct local_header *header)
{
    return cursor_of(header->bytes + header->h.name_len, header->h.extra_len, 0);
}

/* read_local - reads the local header at AT into HEADER; false: there is none. */
static bool read_local(struct zip_audit *audit, uint64_t at, struct local_header *header)
{
    ckpt_error ignored;
    if (zip_read_local(audit->src, at, &header->h, &ignored) != CKPT_OK || header->h.signature != ZIP_LOCAL)
        return false;
    uint32_t more = zip_local_length(&header->h) - ZIP_LOCAL_SIZE;
    return source_read(audit->src, at + ZIP_LOCAL_SIZE, header->bytes, more, &ignored) == CKPT_OK;
}

/* compare_headers - reports where VIEW, from the central header, and LOCAL, from the local header HEADER,
 * differ. False: out of memory. */
static bool compare_headers(struct zip_audit *audit, const struct zip_view *view,
                            const struct local_header *header, const struct zip_view *local)
{
    uint64_t characters;
    check_extra(audit, view->name, view->local_header_at, get_local_extra(header));
    if (!str_eq(get_local_name(header), view->name)) {
        ckpt_str other = ARENA_CONCAT(audit->a, STR_LIT("is called \""),
                                      str_first(get_local_name(header), 200),
                                      STR_LIT("\" by its local header"));
        if (!other.ptr)
            return false;
        report_flaw(audit, view->name, view->local_header_at, other.ptr, 0);
    }
    if (local->method != view->method)
        report_difference(audit, view, "the method", local->method, view->method);
    bool is_ascii = utf8_check(view->name, false, &characters) && characters == view->name.len;
    if ((local->flags ^ view->flags) & ~(ZIP_FLAG_DESCRIPTOR | (is_ascii ? ZIP_FLAG_UTF8 : 0)))
        report_difference(audit, view, "the flags", local->flags, view->flags);
    if (local->time != view->time)
        report_hexadecimal(audit, view, "the time", local->time, view->time);
    if (local->flags & ZIP_FLAG_DESCRIPTOR || (!local->usize && !local->csize && !local->crc))
        return true;
    if (local->crc != view->crc)
        report_hexadecimal(audit, view, "the CRC-32", local->crc, view->crc);
    if (local->csize != view->csize)
        report_difference(audit, view, "the compressed size", local->csize, view->csize);
    if (local->usize != view->usize)
        report_difference(audit, view, "the size", local->usize, view->usize);
    return true;
}

/* add_local_view - adds LOCAL as a view if a reader that uses it instead of VIEW reads other bytes. False:
 * out of memory. */
static bool add_local_view(struct zip_audit *audit, struct zip_view *view, struct zip_view local)
{
    bool has_size = local.csize && local.csize != UINT32_MAX && !(local.flags & ZIP_FLAG_DESCRIPTOR);
    struct zip_view other = *view;
    other.method = local.method;
    other.csize = has_size ? local.csize : view->csize;
    other.usize = has_size ? local.usize : other.method ? view->usize : view->csize;
    other.crc = 0;
    other.listed = false;
    other.reachable = range_within(other.data_offset, other.csize, audit->src->size);
    if (other.method == view->method && other.csize == view->csize)
        return true;
    view->disputed = other.disputed = true;
    struct zip_view *added = add_view(audit); /* VIEW is invalid from here on: the views may have moved */
    if (added)
        *added = other;
    return added != NULL;
}

/* locate_payload - finds the payload of VIEW by the lengths in its local header, as every reader does, and
 * compares the headers. False: out of memory. */
static bool locate_payload(struct zip_audit *audit, struct zip_view *view, struct local_header *header)
{
    struct zip_view local = {0};
    if (!read_local(audit, view->local_header_at, header)) {
        report_flaw(audit, view->name, view->described_at,
                    "has no local header where the central directory records one, at", view->local_header_at);
        return true;
    }
    (void)fill_view(&local, header->h, get_local_extra(header));
    view->data_offset = view->local_header_at + zip_local_length(&header->h);
    view->reachable = range_within(view->data_offset, view->csize, audit->src->size);
    if (!compare_headers(audit, view, header, &local))
        return false;
    if (!view->reachable)
        report_flaw(audit, view->name, view->described_at,
                    "ends after the end of the file; its stored size is", view->csize);
    if (view->method == ZIP_STORED && view->csize != view->usize && !(view->flags & ZIP_FLAG_ENCRYPTED))
        report_flaw(audit, view->name, view->described_at,
                    "is stored uncompressed, but its uncompressed size is not its stored size:", view->usize);
    return add_local_view(audit, view, local);
}

static int compare_offsets(const void *left, const void *right)
{
    const struct zip_view *x = *(const struct zip_view *const *)left,
                          *y = *(const struct zip_view *const *)right;
    return x->local_header_at < y->local_header_at   ? -1
           : x->local_header_at > y->local_header_at ? 1
           : x->described_at < y->described_at       ? -1
                                                     : x->described_at > y->described_at;
}

/* add_unlisted - adds a view of the member whose local header HEADER was read at AT, and sets *NEXT to the
 * end of its payload, which extends to END if the header has no size. False: out of memory. */
static bool add_unlisted(struct zip_audit *audit, uint64_t at, const struct local_header *header,
                         uint64_t end, uint64_t *next)
{
    struct zip_view *v = add_view(audit);
    ckpt_str name = arena_str(audit->a, get_local_name(header));
    if (!v || !name.ptr)
        return false;
    audit->first_member_at = at < audit->first_member_at ? at : audit->first_member_at;
    *v = (struct zip_view){.local_header_at = at, .described_at = at, .name = name};
    (void)fill_view(v, header->h, get_local_extra(header));
    v->data_offset = at + zip_local_length(&header->h);
    if (v->csize == 0 && v->data_offset < end)
        v->csize = end - v->data_offset; /* the sizes are after the payload: take all bytes up to END */
    v->reachable = range_within(v->data_offset, v->csize, audit->src->size);
    report_flaw(audit, v->name, at, "is not listed in the central directory; its stored size is", v->csize);
    *next = v->reachable ? v->data_offset + v->csize : v->data_offset;
    return true;
}

/* find_unlisted_headers - adds the members whose local headers are in [FROM, END), and sets *FOUND if there
 * are any. The central directory lists none of these. */
static ckpt_status find_unlisted_headers(struct zip_audit *audit, uint64_t from, uint64_t end,
                                         struct local_header *header, bool *found, ckpt_error *err)
{
    reader r;
    if (end - from > MAX_SEARCH)
        end = from + MAX_SEARCH;
    CKPT_TRY(reader_init(&r, audit->src, from, end, err));
    while (reader_left(&r) >= ZIP_LOCAL_SIZE) {
        size_t n = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *w = reader_peek(&r, n), *p = w ? memmem(w, n, ZIP_LOCAL_BYTES, 4) : NULL;
        uint64_t next;
        if (!w || !p) {
            if (!w || !reader_skip(&r, n > 3 ? n - 3 : n) || n <= ZIP_LOCAL_SIZE)
                break;
            continue;
        }
        uint64_t at = r.pos + (uint64_t)(p - w);
        (void)reader_skip(&r, (uint64_t)(p - w) + 4);
        if (!read_local(audit, at, header))
            continue;
        if (!add_unlisted(audit, at, header, end, &next)) {
            reader_free(&r);
            return fail_memory(err);
        }
        *found = true;
        if (next > r.pos)
            (void)reader_skip(&r, next < end ? next - r.pos : end - r.pos);
    }
    ckpt_status st = r.status == CKPT_ETRUNCATED ? CKPT_OK : r.status;
    reader_free(&r);
    return st;
}

/* check_descriptor - returns the length of the data descriptor after the payload of VIEW, in any form. If
 * none matches the central directory, reports that and returns 0. */
static uint64_t check_descriptor(struct zip_audit *audit, const struct zip_view *view)
{
    ckpt_error ignored;
    static const unsigned forms[] = {ZIP_WIDE, 0, ZIP_SIGNED | ZIP_WIDE, ZIP_SIGNED};
    uint64_t at = view->data_offset + view->csize, left = audit->src->size - at;
    unsigned char b[ZIP_DESCRIPTOR_MAX] = {0};
    struct zip_descriptor d;
    size_t n = left < sizeof b ? (size_t)left : sizeof b;
    if (!(view->flags & ZIP_FLAG_DESCRIPTOR) || source_read(audit->src, at, b, n, &ignored) != CKPT_OK)
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (zip_parse_descriptor(b, n, forms[i], &d) && d.crc == view->crc && d.csize == view->csize &&
            d.usize == view->usize)
            return d.length;
    struct zip_view descriptor = *view;
    descriptor.local_header_at = at;
    if (!zip_parse_descriptor(b, sizeof b, ZIP_SIGNED, &d))
        report_flaw(audit, view->name, at, "no data descriptor follows, although bit 3 of the flags is set",
                    0);
    else if (d.crc == view->crc)
        report_flaw(audit, view->name, at, "the data descriptor states other sizes", 0);
    else
        report_hexadecimal(audit, &descriptor, "the CRC-32 in the data descriptor", d.crc, view->crc);
    return 0;
}

/* check_gap - reports the bytes [FROM, TO) between the member BEFORE (NULL: none) and the next. */
static ckpt_status check_gap(struct zip_audit *audit, const struct zip_view *before, uint64_t from,
                             uint64_t to, struct local_header *header, ckpt_error *err)
{
    bool found = false;
    if (from >= to)
        return CKPT_OK;
    ckpt_str name = before ? before->name : str_of("", 0);
    CKPT_TRY(find_unlisted_headers(audit, from, to, header, &found, err));
    if (!found && name.len)
        report_bytes(audit, str_of("", 0), from, "bytes that belong to no member:", from, to - from);
    else if (!found)
        report_flaw(audit, str_of("", 0), from, "bytes before the first member:", to - from);
    return CKPT_OK;
}

/* check_extents - reports listed members that overlap, and bytes before DIRECTORY that are in none. */
static ckpt_status check_extents(struct zip_audit *audit, uint64_t directory, struct local_header *header,
                                 ckpt_error *err)
{
    size_t n = 0;
    while (n < audit->n && audit->views[n].listed)
        n++;
    struct zip_view **order = n ? calloc(n, sizeof(struct zip_view *)) : NULL;
    struct zip_view *copy = arena_array(audit->a, n, sizeof *copy); /* check_gap may move the list */
    ckpt_status st = (n && !order) || !copy ? fail_memory(err) : CKPT_OK;
    uint64_t max_end = 0; /* of the members so far */
    audit->first_member_at = directory;
    const struct zip_view *before = NULL;
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        copy[i] = audit->views[i];
        order[i] = &copy[i];
    }
    if (st == CKPT_OK && n)
        qsort(order, n, sizeof *order, compare_offsets);
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        const struct zip_view *v = order[i];
        if (!v->reachable)
            continue;
        audit->first_member_at = before ? audit->first_member_at : v->local_header_at;
        if (v->local_header_at < max_end)
            report_flaw(audit, v->name, v->local_header_at, "overlaps the previous member, which ends at",
                        max_end);
        else
            st = check_gap(audit, before, max_end, v->local_header_at, header, err);
        uint64_t end = v->data_offset + v->csize;
        end += check_descriptor(audit, v);
        max_end = end > max_end ? end : max_end;
        before = v;
    }
    if (st == CKPT_OK && directory >= max_end)
        st = check_gap(audit, before, max_end, directory, header, err);
    free(order);
    return st;
}

/* read_candidate_directories - reads the central directories that lenient readers accept. Sets *LAST to the
 * offset of the last one, and *STOP to the end of all. */
static ckpt_status read_candidate_directories(struct zip_audit *audit, struct local_header *header,
                                              uint64_t *last, uint64_t *stop, ckpt_error *err)
{
    struct zip_directory_candidates c;
    CKPT_TRY(zip_find_directory_candidates(audit->src, &c, err));
    for (size_t i = 0; i < c.n; i++) {
        size_t before = audit->n;
        *last = c.directories[i].begin > *last ? c.directories[i].begin : *last;
        *stop = c.directories[i].end > *stop ? c.directories[i].end : *stop;
        CKPT_TRY(read_entries(audit, c.directories[i].begin, c.directories[i].end,
                              c.directories[i].prefix_size, err));
        for (size_t k = before, n = audit->n; k < n; k++)
            CKPT_TRY_ALLOC(locate_payload(audit, &audit->views[k], header), err);
    }
    return CKPT_OK;
}

/* audit_without_directory - reports WHY there is no valid end record, and adds the members of directories
 * that lenient readers accept, and members that only have local headers. */
static ckpt_status audit_without_directory(struct zip_audit *audit, struct local_header *header,
                                           const ckpt_error *why, ckpt_error *err)
{
    bool found;
    uint64_t last = 0, stop = 0;
    if (!audit->open_reported)
        report_flaw(audit, str_of("", 0), why->offset == CKPT_NO_OFFSET ? 0 : why->offset, why->what, 0);
    CKPT_TRY(read_candidate_directories(audit, header, &last, &stop, err));
    if (audit->n)
        CKPT_TRY(check_extents(audit, last, header, err));
    return find_unlisted_headers(audit, audit->n ? stop : 0, audit->src->size, header, &found, err);
}

/* announce_members - announces that the local headers and first bytes of all members will be read. */
static void announce_members(const struct zip_audit *audit)
{
    for (size_t i = 0; i < audit->n; i++) {
        uint64_t at = audit->views[i].local_header_at, size = audit->src->size,
                 left = at < size ? size - at : 0;
        source_will_read(audit->src, at, left < FIRST_BYTES ? left : FIRST_BYTES);
    }
}

/* audit_directory - adds the members in the central directory to which END leads, and unlisted members
 * between them, and reports their flaws. */
static ckpt_status audit_directory(struct zip_audit *audit, struct local_header *header,
                                   const struct zip_end *end, ckpt_error *err)
{
    CKPT_TRY(read_directory(audit, end, err));
    CKPT_TRY(find_other_end_records(audit, end, err));
    check_locator(audit, end);
    announce_members(audit);
    bool ok = true;
    for (size_t i = 0, n = audit->n; ok && i < n; i++)
        ok = locate_payload(audit, &audit->views[i], header);
    CKPT_TRY_ALLOC(ok && check_names(audit), err);
    CKPT_TRY(check_extents(audit, audit->directory_at, header, err));
    uint64_t comment = end->archive_end - end->record_at - ZIP_END_SIZE;
    if (comment)
        report_bytes(audit, str_of("", 0), end->record_at,
                     "the archive has a comment, which can hide data; its length is",
                     end->archive_end - comment, comment);
    if (end->archive_end < audit->src->size)
        report_flaw(audit, str_of("", 0), end->archive_end,
                    "bytes after the archive:", audit->src->size - end->archive_end);
    return CKPT_OK;
}

ckpt_status zip_audit(struct zip_audit *audit, ckpt_error *err)
{
    struct zip_end end;
    ckpt_error why;
    ckpt_status st = zip_end_find(audit->src, &end, &why);
    if (st == CKPT_ENOMEM || st == CKPT_EIO) {
        *err = why;
        return st;
    }
    struct local_header *l = malloc(sizeof *l);
    CKPT_TRY_ALLOC(l, err);
    st = st == CKPT_OK ? audit_directory(audit, l, &end, err) : audit_without_directory(audit, l, &why, err);
    free(l);
    return st;
}
