/*
 * zip_layout.c - reads the central directory of an archive and checks where its members are. The layout of
 * the headers is in zip_header.h.
 *
 * torch (its copy of miniz) leaves CRC and sizes 0 in local headers, sets bit 3 of the flags and writes dates
 * of 0. Beyond 4 GiB it writes a zip64 field that does not follow the APPNOTE. So sizes are taken from the
 * central header; those in the local header are compared with them, unless all are 0 or bit 3 is set.
 *
 * Refused: entries that reach beyond the file or overlap (also two entries for one payload), local headers
 * whose name or method differs from the central directory (CVE-2025-1944), stored members whose two sizes
 * differ.
 */
#include "codec/zip.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/text.h"
#include "codec/zip_end.h"
#include "codec/zip_inflate.h"
#include "io/reader.h"
#include "io/window.h"

#define WINDOW            (256u * 1024u)
#define MAX_HEADER_GAP    4096u /* if the next header is not farther, a full window is read */
#define ALIGNMENT_EXTRA   128u  /* torch writes at most so many bytes after a name to align the payload */
#define ENTRIES_PER_ARENA 1024u /* zip_visit_entries keeps the names of so many in memory */
#define DEFLATE_MAX       1032u /* one deflated byte inflates to at most so many bytes */

struct zip_window {
    uint64_t pos; /* offset of bytes[0] */
    size_t len;
    unsigned char bytes[]; /* room for WINDOW, or for all of a smaller file */
};

static uint64_t to_file_offset(const zip *z, uint64_t off) { return source_pos(z->src, off); }

/* add_entry_name - adds the name of E to ERR. Returns ST. */
static ckpt_status add_entry_name(const struct zip_entry *e, ckpt_status st, ckpt_error *err)
{
    error_add_where(err, "%.*s", STR_ARG(e->name));
    error_add_position(err, CKPT_NO_OFFSET, STR_LIT("an entry without a name"));
    return st;
}

/* zip_fail - fails because of the entry E, with AT as the offset in the archive. */
CKPT_PRINTF(5, 6)
static ckpt_status zip_fail(const zip *z, const struct zip_entry *e, uint64_t at, ckpt_error *err,
                            const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ckpt_status st = fail_v(err, CKPT_EFORMAT, to_file_offset(z, at), fmt, args);
    va_end(args);
    return add_entry_name(e, st, err);
}

static ckpt_status fail_short_directory(const zip *z, uint64_t at, uint64_t need, uint64_t left,
                                        ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, to_file_offset(z, at),
                "an entry needs {=%llu bytes}, but only {%llu} are left", (unsigned long long)need,
                (unsigned long long)left);
}

/* read_entry - reads the next central header of R to E. Makes the checks that need no other headers. */
static ckpt_status read_entry(zip *z, reader *r, struct zip_entry *e, ckpt_error *err)
{
    uint64_t at = r->pos, left = reader_left(r);
    const unsigned char *b = reader_peek(r, left < ZIP_CENTRAL_SIZE ? (size_t)left : ZIP_CENTRAL_SIZE);
    if (!b)
        return r->status;
    char found[TEXT_BYTES_SIZE];
    if (left >= 4 && load_u32le(b) != ZIP_CENTRAL)
        return fail(err, CKPT_EFORMAT, to_file_offset(z, at),
                    "found {%s}, an entry begins with {=50 4b 01 02}", text_describe_bytes(b, 4, found));
    if (left < ZIP_CENTRAL_SIZE)
        return fail_short_directory(z, at, ZIP_CENTRAL_SIZE, left, err);
    struct zip_header h = zip_parse_central(b);
    if (left < zip_central_length(&h))
        return fail_short_directory(z, at, zip_central_length(&h), left, err);
    b = reader_take(r, zip_central_length(&h));
    if (!b)
        return r->status;
    e->name = arena_str(z->a, str_of((const char *)b + ZIP_CENTRAL_SIZE, h.name_len));
    CKPT_TRY_ALLOC(e->name.ptr, err);
    if (!zip64_resolve(&h, cursor_of(b + ZIP_CENTRAL_SIZE + h.name_len, h.extra_len, 0), NULL))
        return zip_fail(z, e, at, err,
                        "its extra fields, {%u bytes}, lack {=the 64-bit value} of a size or offset that is "
                        "FFFFFFFF",
                        h.extra_len);
    e->flags = h.flags;
    e->method = h.method;
    e->crc = h.crc;
    e->csize = h.csize;
    e->usize = h.usize;
    if (h.disk != 0 && h.disk != ZIP_DISK_IN_ZIP64)
        return zip_fail(z, e, at, err,
                        "the number of its disk is {%u}, must be {=0, as in an archive of one part}", h.disk);
    if (!checked_add(h.offset, z->prefix_size, &e->header_offset))
        return zip_fail(z, e, at, err,
                        "its offset is {%llu}, must be {=below 2^64 from the file's beginning}",
                        (unsigned long long)h.offset);
    if (e->method == ZIP_STORED && e->csize != e->usize && !(e->flags & ZIP_FLAG_ENCRYPTED))
        return zip_fail(z, e, at, err, "stored uncompressed, but its sizes are {=%llu} and {%llu}",
                        (unsigned long long)e->csize, (unsigned long long)e->usize);
    if (e->method == ZIP_DEFLATED && e->usize / DEFLATE_MAX > e->csize)
        return zip_fail(z, e, at, err,
                        "%llu deflated bytes cannot inflate to {%llu bytes}, only to {=%u each}",
                        (unsigned long long)e->csize, (unsigned long long)e->usize, DEFLATE_MAX);
    return CKPT_OK;
}

static ckpt_str get_entry_name(const void *user, uint32_t i) { return ((const zip *)user)->entries[i].name; }

/* fail_uncounted_entries - fails because bytes are left after the entries that the end record counts: readers
 * that go by the size of the central directory see more entries. */
static ckpt_status fail_uncounted_entries(const zip *z, const reader *r, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, to_file_offset(z, z->directory_at),
                "{%llu more bytes} follow the entries that the end record counts, {=%zu}\n"
                "programs would not agree on what this archive holds; do not trust it",
                (unsigned long long)reader_left(r), z->n);
}

/* compare_names - orders names as numbers: "data/10" after "data/9". */
static int compare_names(ckpt_str a, ckpt_str b)
{
    return a.len != b.len ? (a.len > b.len) - (a.len < b.len) : str_compare(a, b);
}

/* find_in_run - returns the index of the entry called NAME in the run, or MAP_NONE. */
static uint32_t find_in_run(const zip *z, ckpt_str name)
{
    size_t low = z->run_begin, high = z->run_end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = compare_names(z->entries[middle].name, name);
        if (c == 0)
            return (uint32_t)middle;
        low = c < 0 ? middle + 1 : low;
        high = c < 0 ? high : middle;
    }
    return MAP_NONE;
}

/* find_run - sets the run to the longest one: most archives number their members. */
static void find_run(zip *z)
{
    size_t begin = 0;
    z->run_begin = z->run_end = 0;
    for (size_t i = 1; i <= z->n; i++) {
        if (i < z->n && compare_names(z->entries[i - 1].name, z->entries[i].name) < 0)
            continue;
        if (i - begin > z->run_end - z->run_begin) {
            z->run_begin = begin;
            z->run_end = i;
        }
        begin = i;
    }
}

/* set_duplicates - sets `duplicate` of entries I and OTHER, unless OTHER is MAP_NONE. */
static void set_duplicates(zip *z, uint32_t i, uint32_t other)
{
    if (other != MAP_NONE)
        z->entries[i].duplicate = z->entries[other].duplicate = true;
}

ckpt_status zip_index_names(zip *z, ckpt_error *err)
{
    uint32_t old;
    for (size_t i = 0; i < z->n; i++)
        z->entries[i].duplicate = false;
    find_run(z);
    map_free(z->names);
    z->names = map_new_index(z->n - (z->run_end - z->run_begin), get_entry_name, z);
    for (size_t i = 0; z->names && i < z->n; i++) {
        ckpt_str name = z->entries[i].name;
        if (i >= z->run_begin && i < z->run_end)
            continue;
        CKPT_TRY_ALLOC(map_put(z->names, name, (uint32_t)i, &old), err);
        set_duplicates(z, (uint32_t)i, old);
        set_duplicates(z, (uint32_t)i, find_in_run(z, name));
    }
    return z->names ? CKPT_OK : fail_memory(err);
}

static ckpt_status read_entries(zip *z, reader *r, ckpt_error *err)
{
    z->entries = arena_array(z->a, z->n, sizeof *z->entries);
    CKPT_TRY_ALLOC(z->entries, err);
    z->crc_none = z->n > 0;
    for (size_t i = 0; i < z->n; i++) {
        CKPT_TRY(read_entry(z, r, &z->entries[i], err));
        if (z->entries[i].crc)
            z->crc_none = false;
    }
    return reader_left(r) == 0 ? zip_index_names(z, err) : fail_uncounted_entries(z, r, err);
}

/* Where the local header of an entry is. */
struct header_position {
    uint64_t offset;
    uint32_t entry;
};

static int compare_header_positions(const void *a, const void *b)
{
    const struct header_position *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static ckpt_status fill_entries_by_offset(zip *z, ckpt_error *err)
{
    bool is_sorted = true; /* as in most archives */
    for (size_t i = 1; is_sorted && i < z->n; i++)
        is_sorted = z->entries[i - 1].header_offset < z->entries[i].header_offset;
    if (is_sorted)
        return CKPT_OK;
    struct header_position *headers = calloc(z->n, sizeof *headers);
    z->entries_by_offset = arena_array(z->a, z->n, sizeof *z->entries_by_offset);
    if (!headers || !z->entries_by_offset) {
        free(headers);
        return fail_memory(err);
    }
    for (size_t i = 0; i < z->n; i++)
        headers[i] = (struct header_position){z->entries[i].header_offset, (uint32_t)i};
    qsort(headers, z->n, sizeof *headers, compare_header_positions);
    for (size_t i = 0; i < z->n; i++)
        z->entries_by_offset[i] = headers[i].entry;
    free(headers);
    return CKPT_OK;
}

/* get_entry_at - returns the index of the entry whose header is number I in the file. */
static uint32_t get_entry_at(const zip *z, size_t i)
{
    return z->entries_by_offset ? z->entries_by_offset[i] : (uint32_t)i;
}

/* find_central_header - returns the offset of the central header of entry I. */
static uint64_t find_central_header(const zip *z, size_t i)
{
    uint64_t at = z->directory_at;
    unsigned char b[ZIP_CENTRAL_SIZE];
    ckpt_error ignored;
    while (COUNT_DOWN(i) && source_read(z->src, at, b, sizeof b, &ignored) == CKPT_OK) {
        struct zip_header h = zip_parse_central(b);
        at += zip_central_length(&h); /* all central headers were read before */
    }
    return at;
}

/* check_extents - sets next_at of each entry. Fails if an entry overlaps the next one. The extra fields of
 * local headers are not counted, because they are not read yet; zip_locate_payload checks again with them. */
static ckpt_status check_extents(zip *z, ckpt_error *err)
{
    CKPT_TRY(fill_entries_by_offset(z, err));
    uint64_t limit = z->directory_at;
    for (size_t i = z->n; COUNT_DOWN(i);) {
        struct zip_entry *e = &z->entries[get_entry_at(z, i)];
        uint64_t end;
        e->next_at = limit;
        if (checked_add(e->header_offset, ZIP_LOCAL_SIZE, &end) && checked_add(end, e->name.len, &end) &&
            checked_add(end, e->csize, &end) && end <= limit) {
            limit = e->header_offset;
            continue;
        }
        if (limit == z->directory_at)
            return zip_fail(z, e, find_central_header(z, get_entry_at(z, i)), err,
                            "its {%llu bytes} with their header do not fit {=between %llu and the central "
                            "directory at %llu}",
                            (unsigned long long)e->csize, (unsigned long long)e->header_offset,
                            (unsigned long long)limit);
        return zip_fail(
            z, e, e->header_offset, err, "its {%llu bytes at offset %llu} overlap {=the next entry at %llu}",
            (unsigned long long)e->csize, (unsigned long long)e->header_offset, (unsigned long long)limit);
    }
    return CKPT_OK;
}

static ckpt_status open_directory(zip *z, ckpt_error *err)
{
    struct zip_end end;
    CKPT_TRY(zip_end_find(z->src, &end, err));
    if (end.entries >= MAP_NONE)
        return fail(err, CKPT_ELIMIT, to_file_offset(z, end.record_at),
                    "{%llu entries}; {=at most %u} are read", (unsigned long long)end.entries, MAP_NONE - 1);
    z->n = (size_t)end.entries;
    z->directory_at = end.directory_at;
    z->archive_end = end.archive_end;
    z->prefix_size = end.prefix_size;
    arena_expect(z->a, end.entries, 1024); /* names, tensors, storages */
    reader r;
    /* zip_end_find found the directory in the file */
    ckpt_status st = reader_init(&r, z->src, end.directory_at, end.directory_at + end.directory_size, err);
    if (st == CKPT_OK)
        st = read_entries(z, &r, err);
    reader_free(&r);
    return st == CKPT_OK ? check_extents(z, err) : st;
}

zip *zip_new(source *src, arena *a)
{
    zip *z = calloc(1, sizeof *z);
    if (z) {
        pthread_mutex_init(&z->lock, NULL);
        pthread_mutex_init(&z->check_lock, NULL);
        z->src = source_ref(src);
        z->a = a;
    }
    return z;
}

ckpt_status zip_open(source *src, arena *a, zip **out, ckpt_error *err)
{
    zip *z = zip_new(src, a);
    CKPT_TRY_ALLOC(z, err);
    ckpt_status st = source_locate(src, err);
    if (st == CKPT_OK)
        st = open_directory(z, err);
    if (st != CKPT_OK) {
        error_add_position(err, CKPT_NO_OFFSET, STR_LIT("central directory"));
        zip_close(z);
        return st;
    }
    *out = z;
    return CKPT_OK;
}

void zip_close(zip *z)
{
    if (!z)
        return;
    inflater_close(z->inflater);
    map_free(z->names);
    map_free(z->names_by_lower_case);
    free(z->window);
    source_unref(z->src);
    pthread_mutex_destroy(&z->lock);
    pthread_mutex_destroy(&z->check_lock);
    free(z);
}

static ckpt_status visit_entries(zip *z, reader *r, zip_entry_visitor *each, void *user, ckpt_error *err)
{
    for (size_t i = 0; i < z->n; i++) {
        struct zip_entry e = {0};
        if (i % ENTRIES_PER_ARENA == 0) { /* earlier names are no longer needed */
            arena_free(z->a);
            z->a = arena_new(UINT64_MAX);
        }
        CKPT_TRY(z->a ? read_entry(z, r, &e, err) : fail_memory(err));
        CKPT_TRY(each(user, i, &e, err));
    }
    return reader_left(r) == 0 ? CKPT_OK : fail_uncounted_entries(z, r, err);
}

ckpt_status zip_visit_entries(source *src, zip_entry_visitor *each, void *user, size_t *n, ckpt_error *err)
{
    struct zip_end end;
    zip z = {.src = src};
    reader r;
    CKPT_TRY(zip_end_find(src, &end, err));
    if (end.prefix_size || end.archive_end != src->size || end.entries >= MAP_NONE)
        return fail(err, CKPT_EFORMAT, to_file_offset(&z, end.record_at),
                    "the archive is {only a part} of {=the file}");
    z.n = *n = (size_t)end.entries;
    z.directory_at = end.directory_at;
    /* zip_end_find found the directory in the file */
    ckpt_status st = reader_init(&r, src, end.directory_at, end.directory_at + end.directory_size, err);
    if (st == CKPT_OK)
        st = visit_entries(&z, &r, each, user, err);
    reader_free(&r);
    arena_free(z.a);
    return st;
}

int64_t zip_find(const zip *z, ckpt_str name)
{
    if (z->names) {
        uint32_t i = map_get(z->names, name), in_run = find_in_run(z, name);
        i = in_run < i ? in_run : i; /* MAP_NONE is greater than any index */
        return i == MAP_NONE ? -1 : (int64_t)i;
    }
    for (size_t i = 0; i < z->n; i++)
        if (str_eq(z->entries[i].name, name))
            return (int64_t)i;
    return -1;
}

void zip_free_names(zip *z)
{
    map_free(z->names);
    z->names = NULL;
}

static void make_lowercase(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] - 'A' + 'a');
}

#define EACH(byte) ((uint64_t)(byte) * 0x0101010101010101u)

/* has_capital - returns true if S contains a letter from 'A' to 'Z'. Tests eight bytes at a time. The
 * high bit of each is set in FROM_A if its low 7 bits are at least 'A', in ABOVE_Z if they are above 'Z', and
 * in BYTES if it is not ASCII. */
static bool has_capital(ckpt_str s)
{
    size_t i = 0;
    for (; s.len - i >= 8; i += 8) {
        uint64_t bytes = load_u64le((const unsigned char *)s.ptr + i), low7 = bytes & EACH(0x7f);
        uint64_t from_a = low7 + EACH(0x80 - 'A'), above_z = low7 + EACH(0x7f - 'Z');
        if (from_a & ~above_z & ~bytes & EACH(0x80))
            return true;
    }
    for (; i < s.len; i++)
        if (s.ptr[i] >= 'A' && s.ptr[i] <= 'Z')
            return true;
    return false;
}

ckpt_status zip_index_case_folded(zip *z, ckpt_error *err)
{
    z->names_by_lower_case = map_new(0);
    for (size_t i = 0; z->names_by_lower_case && i < z->n; i++) {
        ckpt_str name = z->entries[i].name, folded;
        if (name.len > z->longest_name)
            z->longest_name = name.len;
        if (!has_capital(name))
            continue;
        folded = arena_str(z->a, name);
        CKPT_TRY_ALLOC(folded.ptr, err);
        make_lowercase((char *)(uintptr_t)folded.ptr, folded.len); /* a copy, which may be changed */
        CKPT_TRY_ALLOC(map_put(z->names_by_lower_case, folded, (uint32_t)i, NULL), err);
    }
    z->lookup_name = arena_alloc(z->a, z->longest_name + 1);
    return z->names_by_lower_case && z->lookup_name ? CKPT_OK : fail_memory(err);
}

int64_t zip_find_case_folded(zip *z, ckpt_str folder, ckpt_str name)
{
    if (folder.len > z->longest_name || name.len > z->longest_name - folder.len)
        return -1;
    ckpt_str path = str_of(z->lookup_name, folder.len + name.len);
    if (folder.len)
        memcpy(z->lookup_name, folder.ptr, folder.len);
    memcpy(z->lookup_name + folder.len, name.ptr, name.len);
    int64_t exact = zip_find(z, path);
    if (exact >= 0)
        return exact;
    make_lowercase(z->lookup_name, path.len);
    int64_t lower = zip_find(z, path);
    uint32_t i = map_get(z->names_by_lower_case, path);
    return lower >= 0 ? lower : i == MAP_NONE ? -1 : (int64_t)i;
}

#define HEADER_ROOM 512u /* torch.save writes local headers of about 100 bytes, padding included */

/* How a local header is read. */
struct header_reading {
    struct window *window; /* of the caller, who will read the payload by it, too; NULL: that of the zip */
    unsigned char *room;   /* with a window: HEADER_ROOM bytes for what is read */
    bool next_is_near;     /* without a window: a full one is read, because the next headers are near */
};

/* fill_window - reads at least N bytes at AT to z->window. */
static ckpt_status fill_window(zip *z, const struct header_reading *how, uint64_t at, size_t n,
                               ckpt_error *err)
{
    struct zip_window *w = z->window;
    uint64_t left = at < z->src->size ? z->src->size - at : 0;
    size_t wanted = how->next_is_near ? WINDOW : n + ALIGNMENT_EXTRA,
           size = left < wanted ? (size_t)left : wanted;
    size = size < n ? n : size < WINDOW ? size : WINDOW;
    w->pos = at;
    w->len = 0;
    CKPT_TRY(source_read(z->src, at, w->bytes, size, err));
    w->len = size;
    return CKPT_OK;
}

/* read_window - sets *OUT to at least N <= WINDOW bytes at AT. Fails if the file ends before N bytes. */
static ckpt_status read_window(zip *z, const struct header_reading *how, uint64_t at, size_t n,
                               const unsigned char **out, ckpt_error *err)
{
    if (how->window) {
        *out = how->room;
        return window_read(how->window, z->src, at, how->room, n, err);
    }
    if (!z->window) {
        z->window = malloc(sizeof *z->window + (z->src->size < WINDOW ? (size_t)z->src->size : WINDOW));
        CKPT_TRY_ALLOC(z->window, err);
        z->window->pos = z->window->len = 0;
    }
    struct zip_window *w = z->window;
    if (at < w->pos || !range_within(at - w->pos, n, w->len) || w->len == 0)
        CKPT_TRY(fill_window(z, how, at, n, err));
    *out = w->bytes + (at - w->pos);
    return CKPT_OK;
}

static ckpt_status fail_header_differs(const zip *z, const struct zip_entry *e, const char *what,
                                       uint64_t local, uint64_t central, ckpt_error *err)
{
    return zip_fail(z, e, e->header_offset, err,
                    "%s is {%llu} in its local header, {=%llu} in the central directory", what,
                    (unsigned long long)local, (unsigned long long)central);
}

/* check_sizes - fails if CRC or sizes in the local header H differ from the central directory, unless all of
 * them are 0 or they follow the payload. EXTRA has the extra fields of H. */
static ckpt_status check_sizes(zip *z, const struct zip_entry *e, struct zip_header h, cursor extra,
                               ckpt_error *err)
{
    if ((h.flags & ZIP_FLAG_DESCRIPTOR) || (h.csize == 0 && h.usize == 0 && h.crc == 0))
        return CKPT_OK;
    if (!zip64_resolve(&h, extra, NULL))
        return fail_header_differs(z, e, "the length of the zip64 extra field", extra.left, 16, err);
    if (h.crc != e->crc)
        return fail_header_differs(z, e, "the CRC-32", h.crc, e->crc, err);
    if (h.csize != e->csize)
        return fail_header_differs(z, e, "the compressed size", h.csize, e->csize, err);
    return h.usize == e->usize ? CKPT_OK : fail_header_differs(z, e, "the size", h.usize, e->usize, err);
}

/* check_local - reads the local header of E, compares it with the central directory, and sets *DATA to the
 * offset of its payload. */
static ckpt_status check_local(zip *z, struct zip_entry *e, const struct header_reading *how, uint64_t *data,
                               ckpt_error *err)
{
    const unsigned char *b;
    size_t fixed = ZIP_LOCAL_SIZE + e->name.len;
    CKPT_TRY(read_window(z, how, e->header_offset, fixed, &b, err));
    struct zip_header h = zip_parse_local(b);
    uint64_t end;
    char found[TEXT_BYTES_SIZE];
    if (h.signature != ZIP_LOCAL)
        return zip_fail(z, e, e->header_offset, err, "found {%s}, a local header begins with {=50 4b 03 04}",
                        text_describe_bytes(b, 4, found));
    if (h.method != e->method)
        return fail_header_differs(z, e, "the method", h.method, e->method, err);
    if ((h.flags ^ e->flags) & ZIP_FLAG_ENCRYPTED)
        return zip_fail(z, e, e->header_offset, err,
                        "flags {0x%04x} in its local header, {=0x%04x} in the central directory: is it "
                        "encrypted?",
                        h.flags, e->flags);
    if (h.name_len != e->name.len ||
        (h.name_len && memcmp(b + ZIP_LOCAL_SIZE, e->name.ptr, h.name_len) != 0)) {
        size_t shown = h.name_len < e->name.len ? h.name_len : e->name.len;
        return zip_fail(
            z, e, e->header_offset, err,
            "its local header calls it {\"%.*s\"}, the central directory {=\"%.*s\"}; readers would disagree",
            (int)(shown > 200 ? 200 : shown), (const char *)b + ZIP_LOCAL_SIZE, STR_ARG(e->name));
    }
    *data = e->header_offset + zip_local_length(&h);
    if (!checked_add(*data, e->csize, &end) || end > e->next_at)
        return zip_fail(
            z, e, e->header_offset, err, "its {%llu bytes from %llu on} overlap {=what begins at %llu}",
            (unsigned long long)e->csize, (unsigned long long)*data, (unsigned long long)e->next_at);
    CKPT_TRY(read_window(z, how, e->header_offset + fixed, h.extra_len, &b, err));
    return check_sizes(z, e, h, cursor_of(b, h.extra_len, 0), err);
}

static void set_located(struct zip_entry *e, uint64_t data)
{
    if (!e->is_located)
        e->data_offset = data;
    e->is_located = true;
}

/* locate_by_own_window - locates E, unless that was done before, by the window of Z, which is locked. */
static ckpt_status locate_by_own_window(zip *z, struct zip_entry *e, ckpt_error *err)
{
    uint64_t data;
    const struct header_reading how = {.next_is_near = z->all_located &&
                                                       e->next_at - e->header_offset <= MAX_HEADER_GAP};
    if (e->is_located)
        return CKPT_OK;
    CKPT_TRY(check_local(z, e, &how, &data, err));
    set_located(e, data);
    return CKPT_OK;
}

/* has_small_header - returns true if the local header of E has at most HEADER_ROOM bytes, or overlaps what
 * follows, which check_local finds before it reads more. */
static bool has_small_header(const struct zip_entry *e)
{
    uint64_t room = e->next_at - e->header_offset;
    return e->name.len <= HEADER_ROOM - ZIP_LOCAL_SIZE && (room < e->csize || room - e->csize <= HEADER_ROOM);
}

/* locate_payload - does what zip_locate_payload does; reads a small local header by WINDOW, unless it is
 * NULL. */
static ckpt_status locate_payload(zip *z, size_t i, struct window *window, ckpt_error *err)
{
    struct zip_entry *e = &z->entries[i];
    if (e->is_located)
        return CKPT_OK;
    unsigned char room[HEADER_ROOM];
    uint64_t data;
    bool by_window = window && has_small_header(e);
    const struct header_reading how = {.window = window, .room = room};
    if (by_window) /* not under the lock, for which several threads would wait */
        CKPT_TRY(check_local(z, e, &how, &data, err));
    pthread_mutex_lock(&z->lock);
    ckpt_status st = CKPT_OK;
    if (by_window)
        set_located(e, data);
    else
        st = locate_by_own_window(z, e, err);
    pthread_mutex_unlock(&z->lock);
    return st;
}

ckpt_status zip_locate_payload(zip *z, size_t i, ckpt_error *err) { return locate_payload(z, i, NULL, err); }

void zip_locate_all(zip *z)
{
    ckpt_error ignored;
    pthread_mutex_lock(&z->lock);
    bool was_located = z->all_located;
    z->all_located = true;
    for (size_t i = 0; !was_located && i < z->n; i++)
        (void)locate_by_own_window(z, &z->entries[get_entry_at(z, i)], &ignored);
    pthread_mutex_unlock(&z->lock);
}

typedef struct {
    source s;
    zip *z;
    uint32_t entry;
    uint32_t crc; /* of the bytes; ~ of the recorded one: not known yet. z->check_lock protects it */
} member_source;

static ckpt_status member_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    member_source *m = (member_source *)s;
    CKPT_TRY(zip_locate_payload(m->z, m->entry, err));
    /* the payload ends before next_at, in the file */
    return source_read(m->z->src, m->z->entries[m->entry].data_offset + off, out, n, err);
}

static ckpt_status member_locate(source *s, struct window *w, ckpt_error *err)
{
    member_source *m = (member_source *)s;
    if (s->position != CKPT_NO_OFFSET)
        return CKPT_OK;
    if (!w)
        zip_locate_all(m->z);
    CKPT_TRY(locate_payload(m->z, m->entry, w, err));
    s->position = source_pos(m->z->src, m->z->entries[m->entry].data_offset);
    return CKPT_OK;
}

/* member_close - frees nothing: sources of members are in the arena, because there may be very many. */
static void member_close(source *s) { (void)s; }

static void member_advise(source *s) { source_advise_sequential(((member_source *)s)->z->src); }

static bool member_extent(source *s, uint64_t off, int *fd, uint64_t *at)
{
    ckpt_error ignored;
    member_source *m = (member_source *)s;
    if (zip_locate_payload(m->z, m->entry, &ignored) != CKPT_OK)
        return false;
    uint64_t from = m->z->entries[m->entry].data_offset + off;
    return source_extent(m->z->src, from, fd, at);
}

static ckpt_status member_map(source *s, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    member_source *m = (member_source *)s;
    CKPT_TRY(zip_locate_payload(m->z, m->entry, err));
    uint64_t from = m->z->entries[m->entry].data_offset + off;
    return source_map(m->z->src, from, 1, out, err);
}

static ckpt_status member_check(source *s, ckpt_error *err)
{
    member_source *m = (member_source *)s;
    const struct zip_entry *e = &m->z->entries[m->entry];
    ckpt_status st = CKPT_OK;
    uint32_t crc = 0;
    if (m->z->crc_none || e->crc_unknown)
        return CKPT_OK;
    pthread_mutex_lock(&m->z->check_lock);
    if (m->crc == ~e->crc && (st = source_crc(s, 0, s->size, CRC_32, &crc, err)) == CKPT_OK)
        m->crc = crc;
    crc = m->crc;
    pthread_mutex_unlock(&m->z->check_lock);
    if (st != CKPT_OK || crc == e->crc)
        return st;
    (void)fail(err, CKPT_ECHECKSUM, to_file_offset(m->z, e->data_offset),
               "its CRC-32 is {%08" PRIx32 "}, the central directory records {=%08" PRIx32 "}\n"
               "the data is damaged; --ignore-crc uses it anyway",
               crc, e->crc);
    return add_entry_name(e, CKPT_ECHECKSUM, err);
}

static const struct source_ops member_ops = {.read_at = member_read,
                                             .check = member_check,
                                             .close = member_close,
                                             .locate = member_locate,
                                             .advise_sequential = member_advise,
                                             .extent = member_extent,
                                             .map = member_map};

static const char *get_method_name(uint16_t method)
{
    switch (method) {
    case 9: return "deflate64";
    case 12: return "bzip2";
    case 14: return "LZMA";
    case 93: return "Zstandard";
    case 95: return "xz";
    case 99: return "AES encryption";
    default: return "an unknown method";
    }
}

/* check_readable - fails if E has a fault, or is encrypted or compressed in a way that is not supported. */
static ckpt_status check_readable(const zip *z, struct zip_entry *e, ckpt_error *err)
{
    if (e->fault) {
        e->is_reported = true;
        return add_entry_name(
            e, fail(err, CKPT_ECHECKSUM, to_file_offset(z, e->header_offset), "%s", e->fault), err);
    }
    if (e->flags & ZIP_FLAGS_ENCRYPTED)
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(z, e->header_offset),
                   "it is {encrypted (flags 0x%04x)}; only {=unencrypted members} are read", e->flags);
    else if (e->flags & ZIP_FLAG_PATCH)
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(z, e->header_offset),
                   "it is {a patch to another file (flags 0x%04x)}; {=complete files} are read", e->flags);
    else if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED &&
             !(z->allows_other_methods && inflater_has_method(e->method)))
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(z, e->header_offset),
                   "it is compressed by {method %u (%s)}; {=stored and deflate} are read", e->method,
                   get_method_name(e->method));
    else
        return CKPT_OK;
    error_add_hint(err, "unpack it and pack it again with `zip -0 -r`");
    return add_entry_name(e, CKPT_EUNSUPPORTED, err);
}

/* open_compressed - opens the compressed entry I as a source. The local header is checked first, because
 * libzip finds the payload by it. */
static ckpt_status open_compressed(zip *z, size_t i, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &z->entries[i];
    CKPT_TRY(zip_locate_payload(z, i, err));
    if (!z->inflater) {
        source *archive;
        CKPT_TRY(source_slice(z->src, z->prefix_size, z->archive_end - z->prefix_size, &archive, err));
        CKPT_TRY_ALLOC(z->inflater = inflater_new(archive), err);
    }
    return inflater_open_member(z->inflater,
                                &(struct inflater_member){.name = e->name,
                                                          .size = e->usize,
                                                          .src = z->src,
                                                          .data = e->data_offset,
                                                          .csize = e->csize,
                                                          .is_deflated = e->method == ZIP_DEFLATED,
                                                          .is_listed = !e->avoids_libzip,
                                                          .index = i},
                                out, err);
}

ckpt_status zip_open_member(zip *z, size_t i, source **out, ckpt_error *err)
{
    struct zip_entry *e = &z->entries[i];
    CKPT_TRY(check_readable(z, e, err));
    if (e->method != ZIP_STORED)
        return open_compressed(z, i, out, err);
    member_source *m = ARENA_NEW(z->a, member_source);
    CKPT_TRY_ALLOC(m, err);
    m->s = (source){.ops = &member_ops, .size = e->usize, .position = CKPT_NO_OFFSET, .refs = 1};
    m->s.serializes_reads = z->src->serializes_reads;
    if (e->is_located)
        m->s.position = source_pos(z->src, e->data_offset);
    m->z = z;
    m->entry = (uint32_t)i;
    m->crc = ~e->crc;
    *out = &m->s;
    return CKPT_OK;
}

static ckpt_status load_member(source *s, const zip *z, const struct zip_entry *e, ckpt_str *out,
                               ckpt_error *err)
{
    size_t n = (size_t)e->usize;
    char *bytes = arena_alloc(z->a, n + 1);
    CKPT_TRY_ALLOC(bytes, err);
    CKPT_TRY(source_read(s, 0, bytes, n, err));
    uint32_t crc = crc32_update(0, bytes, n);
    if (!z->crc_none && !e->crc_unknown && crc != e->crc)
        return fail(err, CKPT_ECHECKSUM, to_file_offset(z, e->is_located ? e->data_offset : e->header_offset),
                    "its CRC-32 is {%08x}, the central directory records {=%08x}\n"
                    "the bytes are not those that were saved: get the file again",
                    crc, e->crc);
    *out = str_of(bytes, n);
    return CKPT_OK;
}

ckpt_status zip_load_member(zip *z, size_t i, uint64_t max, ckpt_str *out, ckpt_error *err)
{
    const struct zip_entry *e = &z->entries[i];
    source *s = NULL;
    ckpt_status st;
    if (e->usize > max || e->usize >= SIZE_MAX)
        st = fail(err, CKPT_ELIMIT, to_file_offset(z, e->header_offset),
                  "it has {%llu bytes}, {=at most %llu} are read", (unsigned long long)e->usize,
                  (unsigned long long)max);
    else if ((st = zip_open_member(z, i, &s, err)) == CKPT_OK) {
        st = load_member(s, z, e, out, err);
        source_unref(s);
    } else
        return st;
    if (st != CKPT_OK && !err->where[0]) /* errors about its headers have the name already */
        return add_entry_name(e, st, err);
    return st;
}
