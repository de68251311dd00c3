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
#include <stdlib.h>

#include "base/text.h"
#include "codec/zip_end.h"
#include "codec/zip_inflate.h"
#include "io/reader.h"
#include "io/window.h"

#define LAST_MEMBERS      (64u << 10) /* bytes before the directory that are fetched with it: small members */
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

static uint64_t to_file_offset(const zip *archive, uint64_t off) { return source_pos(archive->src, off); }

/* add_entry_name - adds the name of ENTRY to ERR. Returns ST. */
static ckpt_status add_entry_name(const struct zip_entry *entry, ckpt_status st, ckpt_error *err)
{
    error_add_where(err, "%.*s", STR_ARG(entry->name));
    error_add_position(err, CKPT_NO_OFFSET, STR_LIT("an entry without a name"));
    return st;
}

/* zip_fail - fails because of the entry ENTRY, with AT as the offset in the archive. */
CKPT_PRINTF(5, 6)
static ckpt_status zip_fail(const zip *archive, const struct zip_entry *entry, uint64_t at, ckpt_error *err,
                            const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ckpt_status st = fail_v(err, CKPT_EFORMAT, to_file_offset(archive, at), fmt, args);
    va_end(args);
    return add_entry_name(entry, st, err);
}

static ckpt_status fail_short_directory(const zip *archive, uint64_t at, uint64_t need, uint64_t left,
                                        ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, to_file_offset(archive, at),
                "an entry needs {=%llu bytes}, but only {%llu} are left", (unsigned long long)need,
                (unsigned long long)left);
}

/* read_entry - reads the next central header of IN to ENTRY. Makes the checks that need no other headers. */
static ckpt_status read_entry(zip *archive, reader *in, struct zip_entry *entry, ckpt_error *err)
{
    uint64_t at = in->pos, left = reader_left(in);
    const unsigned char *b = reader_peek(in, left < ZIP_CENTRAL_SIZE ? (size_t)left : ZIP_CENTRAL_SIZE);
    if (!b)
        return in->status;
    char found[TEXT_BYTES_SIZE];
    if (left >= 4 && load_u32le(b) != ZIP_CENTRAL)
        return fail(err, CKPT_EFORMAT, to_file_offset(archive, at),
                    "found {%s}, an entry begins with {=50 4b 01 02}", text_describe_bytes(b, 4, found));
    if (left < ZIP_CENTRAL_SIZE)
        return fail_short_directory(archive, at, ZIP_CENTRAL_SIZE, left, err);
    struct zip_header h = zip_parse_central(b);
    if (left < zip_central_length(&h))
        return fail_short_directory(archive, at, zip_central_length(&h), left, err);
    b = reader_take(in, zip_central_length(&h));
    if (!b)
        return in->status;
    entry->name = arena_str(archive->a, str_of((const char *)b + ZIP_CENTRAL_SIZE, h.name_len));
    CKPT_TRY_ALLOC(entry->name.ptr, err);
    if (!zip64_resolve(&h, cursor_of(b + ZIP_CENTRAL_SIZE + h.name_len, h.extra_len, 0), NULL))
        return zip_fail(archive, entry, at, err,
                        "its extra fields, {%u bytes}, lack {=the 64-bit value} of a size or offset that is "
                        "FFFFFFFF",
                        h.extra_len);
    entry->flags = h.flags;
    entry->method = h.method;
    entry->crc = h.crc;
    entry->csize = h.csize;
    entry->usize = h.usize;
    if (h.disk != 0 && h.disk != ZIP_DISK_IN_ZIP64)
        return zip_fail(archive, entry, at, err,
                        "the number of its disk is {%u}, must be {=0, as in an archive of one part}", h.disk);
    if (!checked_add(h.offset, archive->prefix_size, &entry->header_offset))
        return zip_fail(archive, entry, at, err,
                        "its offset is {%llu}, must be {=below 2^64 from the file's beginning}",
                        (unsigned long long)h.offset);
    if (entry->method == ZIP_STORED && entry->csize != entry->usize && !(entry->flags & ZIP_FLAG_ENCRYPTED))
        return zip_fail(archive, entry, at, err, "stored uncompressed, but its sizes are {=%llu} and {%llu}",
                        (unsigned long long)entry->csize, (unsigned long long)entry->usize);
    if (entry->method == ZIP_DEFLATED && entry->usize / DEFLATE_MAX > entry->csize)
        return zip_fail(archive, entry, at, err,
                        "%llu deflated bytes cannot inflate to {%llu bytes}, only to {=%u each}",
                        (unsigned long long)entry->csize, (unsigned long long)entry->usize, DEFLATE_MAX);
    return CKPT_OK;
}

static ckpt_str get_entry_name(const void *user, uint32_t index)
{
    return ((const zip *)user)->entries[index].name;
}

/* fail_uncounted_entries - fails because bytes are left after the entries that the end record counts: readers
 * that go by the size of the central directory see more entries. */
static ckpt_status fail_uncounted_entries(const zip *archive, const reader *in, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, to_file_offset(archive, archive->directory_at),
                "{%llu more bytes} follow the entries that the end record counts, {=%zu}\n"
                "programs would not agree on what this archive holds; do not trust it",
                (unsigned long long)reader_left(in), archive->n);
}

/* compare_names - orders names as numbers: "data/10" after "data/9". */
static int compare_names(ckpt_str left, ckpt_str right)
{
    return left.len != right.len ? (left.len > right.len) - (left.len < right.len) : str_compare(left, right);
}

/* find_in_run - returns the index of the entry called NAME in the run, or MAP_NONE. */
static uint32_t find_in_run(const zip *archive, ckpt_str name)
{
    size_t low = archive->run_begin, high = archive->run_end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = compare_names(archive->entries[middle].name, name);
        if (c == 0)
            return (uint32_t)middle;
        low = c < 0 ? middle + 1 : low;
        high = c < 0 ? high : middle;
    }
    return MAP_NONE;
}

/* find_run - sets the run to the longest one: most archives number their members. */
static void find_run(zip *archive)
{
    size_t begin = 0;
    archive->run_begin = archive->run_end = 0;
    for (size_t i = 1; i <= archive->n; i++) {
        if (i < archive->n && compare_names(archive->entries[i - 1].name, archive->entries[i].name) < 0)
            continue;
        if (i - begin > archive->run_end - archive->run_begin) {
            archive->run_begin = begin;
            archive->run_end = i;
        }
        begin = i;
    }
}

/* set_duplicates - sets `duplicate` of entries INDEX and OTHER, unless OTHER is MAP_NONE. */
static void set_duplicates(zip *archive, uint32_t index, uint32_t other)
{
    if (other != MAP_NONE)
        archive->entries[index].duplicate = archive->entries[other].duplicate = true;
}

ckpt_status zip_index_names(zip *archive, ckpt_error *err)
{
    uint32_t old;
    for (size_t i = 0; i < archive->n; i++)
        archive->entries[i].duplicate = false;
    find_run(archive);
    map_free(archive->names);
    archive->names = map_new_index(archive->n - (archive->run_end - archive->run_begin), get_entry_name,
                                   archive);
    for (size_t i = 0; archive->names && i < archive->n; i++) {
        ckpt_str name = archive->entries[i].name;
        if (i >= archive->run_begin && i < archive->run_end)
            continue;
        CKPT_TRY_ALLOC(map_put(archive->names, name, (uint32_t)i, &old), err);
        set_duplicates(archive, (uint32_t)i, old);
        set_duplicates(archive, (uint32_t)i, find_in_run(archive, name));
    }
    return archive->names ? CKPT_OK : fail_memory(err);
}

static ckpt_status read_entries(zip *archive, reader *in, ckpt_error *err)
{
    archive->entries = arena_array(archive->a, archive->n, sizeof *archive->entries);
    CKPT_TRY_ALLOC(archive->entries, err);
    archive->crc_none = archive->n > 0;
    for (size_t i = 0; i < archive->n; i++) {
        CKPT_TRY(read_entry(archive, in, &archive->entries[i], err));
        if (archive->entries[i].crc)
            archive->crc_none = false;
    }
    return reader_left(in) == 0 ? zip_index_names(archive, err) : fail_uncounted_entries(archive, in, err);
}

/* Where the local header of an entry is. */
struct header_position {
    uint64_t offset;
    uint32_t entry;
};

static int compare_header_positions(const void *left, const void *right)
{
    const struct header_position *x = left, *y = right;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static ckpt_status fill_entries_by_offset(zip *archive, ckpt_error *err)
{
    bool is_sorted = true; /* as in most archives */
    for (size_t i = 1; is_sorted && i < archive->n; i++)
        is_sorted = archive->entries[i - 1].header_offset < archive->entries[i].header_offset;
    if (is_sorted)
        return CKPT_OK;
    struct header_position *headers = calloc(archive->n, sizeof *headers);
    archive->entries_by_offset = arena_array(archive->a, archive->n, sizeof *archive->entries_by_offset);
    if (!headers || !archive->entries_by_offset) {
        free(headers);
        return fail_memory(err);
    }
    for (size_t i = 0; i < archive->n; i++)
        headers[i] = (struct header_position){archive->entries[i].header_offset, (uint32_t)i};
    qsort(headers, archive->n, sizeof *headers, compare_header_positions);
    for (size_t i = 0; i < archive->n; i++)
        archive->entries_by_offset[i] = headers[i].entry;
    free(headers);
    return CKPT_OK;
}

/* get_entry_at - returns the index of the entry whose header is number INDEX in the file. */
static uint32_t get_entry_at(const zip *archive, size_t index)
{
    return archive->entries_by_offset ? archive->entries_by_offset[index] : (uint32_t)index;
}

/* find_central_header - returns the offset of the central header of entry INDEX. */
static uint64_t find_central_header(const zip *archive, size_t index)
{
    uint64_t at = archive->directory_at;
    unsigned char b[ZIP_CENTRAL_SIZE];
    ckpt_error ignored;
    while (COUNT_DOWN(index) && source_read(archive->src, at, b, sizeof b, &ignored) == CKPT_OK) {
        struct zip_header h = zip_parse_central(b);
        at += zip_central_length(&h); /* all central headers were read before */
    }
    return at;
}

/* check_extents - sets next_at of each entry. Fails if an entry overlaps the next one. The extra fields of
 * local headers are not counted, because they are not read yet; zip_locate_payload checks again with them. */
static ckpt_status check_extents(zip *archive, ckpt_error *err)
{
    CKPT_TRY(fill_entries_by_offset(archive, err));
    uint64_t limit = archive->directory_at;
    for (size_t i = archive->n; COUNT_DOWN(i);) {
        struct zip_entry *e = &archive->entries[get_entry_at(archive, i)];
        uint64_t end;
        e->next_at = limit;
        if (checked_add(e->header_offset, ZIP_LOCAL_SIZE, &end) && checked_add(end, e->name.len, &end) &&
            checked_add(end, e->csize, &end) && end <= limit) {
            limit = e->header_offset;
            continue;
        }
        if (limit == archive->directory_at)
            return zip_fail(archive, e, find_central_header(archive, get_entry_at(archive, i)), err,
                            "its {%llu bytes} with their header do not fit {=between %llu and the central "
                            "directory at %llu}",
                            (unsigned long long)e->csize, (unsigned long long)e->header_offset,
                            (unsigned long long)limit);
        return zip_fail(archive, e, e->header_offset, err,
                        "its {%llu bytes at offset %llu} overlap {=the next entry at %llu}",
                        (unsigned long long)e->csize, (unsigned long long)e->header_offset,
                        (unsigned long long)limit);
    }
    return CKPT_OK;
}

static ckpt_status open_directory(zip *archive, ckpt_error *err)
{
    struct zip_end end;
    CKPT_TRY(zip_end_find(archive->src, &end, err));
    if (end.entries >= MAP_NONE)
        return fail(err, CKPT_ELIMIT, to_file_offset(archive, end.record_at),
                    "{%llu entries}; {=at most %u} are read", (unsigned long long)end.entries, MAP_NONE - 1);
    archive->n = (size_t)end.entries;
    archive->directory_at = end.directory_at;
    archive->archive_end = end.archive_end;
    archive->prefix_size = end.prefix_size;
    arena_expect(archive->a, end.entries, 1024); /* names, tensors, storages */
    uint64_t before = end.directory_at < LAST_MEMBERS ? end.directory_at : LAST_MEMBERS;
    source_will_read(archive->src, end.directory_at - before, before + end.directory_size);
    reader r;
    /* zip_end_find found the directory in the file */
    ckpt_status st = reader_init(&r, archive->src, end.directory_at, end.directory_at + end.directory_size,
                                 err);
    CKPT_THEN(st, read_entries(archive, &r, err));
    reader_free(&r);
    return st == CKPT_OK ? check_extents(archive, err) : st;
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
    CKPT_THEN(st, open_directory(z, err));
    if (st != CKPT_OK) {
        error_add_position(err, CKPT_NO_OFFSET, STR_LIT("central directory"));
        zip_close(z);
        return st;
    }
    *out = z;
    return CKPT_OK;
}

void zip_close(zip *archive)
{
    if (!archive)
        return;
    inflater_close(archive->inflater);
    map_free(archive->names);
    map_free(archive->names_by_lower_case);
    free(archive->window);
    source_unref(archive->src);
    pthread_mutex_destroy(&archive->lock);
    pthread_mutex_destroy(&archive->check_lock);
    free(archive);
}

static ckpt_status visit_entries(zip *archive, reader *in, zip_entry_visitor *each, void *user,
                                 ckpt_error *err)
{
    for (size_t i = 0; i < archive->n; i++) {
        struct zip_entry e = {0};
        if (i % ENTRIES_PER_ARENA == 0) { /* earlier names are no longer needed */
            arena_free(archive->a);
            archive->a = arena_new(UINT64_MAX);
        }
        CKPT_TRY(archive->a ? read_entry(archive, in, &e, err) : fail_memory(err));
        CKPT_TRY(each(user, i, &e, err));
    }
    return reader_left(in) == 0 ? CKPT_OK : fail_uncounted_entries(archive, in, err);
}

ckpt_status zip_visit_entries(source *src, zip_entry_visitor *each, void *user, size_t *count,
                              ckpt_error *err)
{
    struct zip_end end;
    zip z = {.src = src};
    reader r;
    CKPT_TRY(zip_end_find(src, &end, err));
    if (end.prefix_size || end.archive_end != src->size || end.entries >= MAP_NONE)
        return fail(err, CKPT_EFORMAT, to_file_offset(&z, end.record_at),
                    "the archive is {only a part} of {=the file}");
    z.n = *count = (size_t)end.entries;
    z.directory_at = end.directory_at;
    /* zip_end_find found the directory in the file */
    ckpt_status st = reader_init(&r, src, end.directory_at, end.directory_at + end.directory_size, err);
    CKPT_THEN(st, visit_entries(&z, &r, each, user, err));
    reader_free(&r);
    arena_free(z.a);
    return st;
}

int64_t zip_find(const zip *archive, ckpt_str name)
{
    if (archive->names) {
        uint32_t i = map_get(archive->names, name), in_run = find_in_run(archive, name);
        i = in_run < i ? in_run : i; /* MAP_NONE is greater than any index */
        return i == MAP_NONE ? -1 : (int64_t)i;
    }
    for (size_t i = 0; i < archive->n; i++)
        if (str_eq(archive->entries[i].name, name))
            return (int64_t)i;
    return -1;
}

void zip_free_names(zip *archive)
{
    map_free(archive->names);
    archive->names = NULL;
}

static void make_lowercase(char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
}

#define EACH(byte) ((uint64_t)(byte) * 0x0101010101010101u)

/* has_capital - returns true if TEXT contains a letter from 'A' to 'Z'. Tests eight bytes at a time. The
 * high bit of each is set in FROM_A if its low 7 bits are at least 'A', in ABOVE_Z if they are above 'Z', and
 * in BYTES if it is not ASCII. */
static bool has_capital(ckpt_str text)
{
    size_t i = 0;
    for (; text.len - i >= 8; i += 8) {
        uint64_t bytes = load_u64le((const unsigned char *)text.ptr + i), low7 = bytes & EACH(0x7f);
        uint64_t from_a = low7 + EACH(0x80 - 'A'), above_z = low7 + EACH(0x7f - 'Z');
        if (from_a & ~above_z & ~bytes & EACH(0x80))
            return true;
    }
    for (; i < text.len; i++)
        if (text.ptr[i] >= 'A' && text.ptr[i] <= 'Z')
            return true;
    return false;
}

ckpt_status zip_index_case_folded(zip *archive, ckpt_error *err)
{
    archive->names_by_lower_case = map_new(0);
    for (size_t i = 0; archive->names_by_lower_case && i < archive->n; i++) {
        ckpt_str name = archive->entries[i].name, folded;
        if (name.len > archive->longest_name)
            archive->longest_name = name.len;
        if (!has_capital(name))
            continue;
        folded = arena_str(archive->a, name);
        CKPT_TRY_ALLOC(folded.ptr, err);
        make_lowercase((char *)(uintptr_t)folded.ptr, folded.len); /* a copy, which may be changed */
        CKPT_TRY_ALLOC(map_put(archive->names_by_lower_case, folded, (uint32_t)i, NULL), err);
    }
    archive->lookup_name = arena_alloc(archive->a, archive->longest_name + 1);
    return archive->names_by_lower_case && archive->lookup_name ? CKPT_OK : fail_memory(err);
}

int64_t zip_find_case_folded(zip *archive, ckpt_str folder, ckpt_str name)
{
    if (folder.len > archive->longest_name || name.len > archive->longest_name - folder.len)
        return -1;
    ckpt_str path = str_of(archive->lookup_name, folder.len + name.len);
    if (folder.len)
        memcpy(archive->lookup_name, folder.ptr, folder.len);
    memcpy(archive->lookup_name + folder.len, name.ptr, name.len);
    int64_t exact = zip_find(archive, path);
    if (exact >= 0)
        return exact;
    make_lowercase(archive->lookup_name, path.len);
    int64_t lower = zip_find(archive, path);
    uint32_t i = map_get(archive->names_by_lower_case, path);
    return lower >= 0 ? lower : i == MAP_NONE ? -1 : (int64_t)i;
}

#define HEADER_ROOM 512u /* torch.save writes local headers of about 100 bytes, padding included */

/* How a local header is read. */
struct header_reading {
    struct window *window; /* of the caller, who will read the payload by it, too; NULL: that of the zip */
    unsigned char *room;   /* with a window: HEADER_ROOM bytes for what is read */
    bool next_is_near;     /* without a window: a full one is read, because the next headers are near */
};

/* fill_window - reads at least NBYTES bytes at AT to archive->window. */
static ckpt_status fill_window(zip *archive, const struct header_reading *how, uint64_t at, size_t nbytes,
                               ckpt_error *err)
{
    struct zip_window *w = archive->window;
    uint64_t left = at < archive->src->size ? archive->src->size - at : 0;
    size_t wanted = how->next_is_near ? WINDOW : nbytes + ALIGNMENT_EXTRA,
           size = left < wanted ? (size_t)left : wanted;
    size = size < nbytes ? nbytes : size < WINDOW ? size : WINDOW;
    w->pos = at;
    w->len = 0;
    CKPT_TRY(source_read(archive->src, at, w->bytes, size, err));
    w->len = size;
    return CKPT_OK;
}

/* read_window - sets *OUT to at least NBYTES <= WINDOW bytes at AT. Fails if the file ends before NBYTES
 * bytes. */
static ckpt_status read_window(zip *archive, const struct header_reading *how, uint64_t at, size_t nbytes,
                               const unsigned char **out, ckpt_error *err)
{
    if (how->window) {
        *out = how->room;
        return window_read(how->window, archive->src, at, how->room, nbytes, err);
    }
    if (!archive->window) {
        archive->window = malloc(sizeof *archive->window +
                                 (archive->src->size < WINDOW ? (size_t)archive->src->size : WINDOW));
        CKPT_TRY_ALLOC(archive->window, err);
        archive->window->pos = archive->window->len = 0;
    }
    struct zip_window *w = archive->window;
    if (at < w->pos || !range_within(at - w->pos, nbytes, w->len) || w->len == 0)
        CKPT_TRY(fill_window(archive, how, at, nbytes, err));
    *out = w->bytes + (at - w->pos);
    return CKPT_OK;
}

static ckpt_status fail_header_differs(const zip *archive, const struct zip_entry *entry, const char *what,
                                       uint64_t local, uint64_t central, ckpt_error *err)
{
    return zip_fail(archive, entry, entry->header_offset, err,
                    "%s is {%llu} in its local header, {=%llu} in the central directory", what,
                    (unsigned long long)local, (unsigned long long)central);
}

/* check_sizes - fails if CRC or sizes in the local header HEADER differ from the central directory, unless
 * all of them are 0 or they follow the payload. EXTRA has the extra fields of HEADER. */
static ckpt_status check_sizes(zip *archive, const struct zip_entry *entry, struct zip_header header,
                               cursor extra, ckpt_error *err)
{
    if ((header.flags & ZIP_FLAG_DESCRIPTOR) || (header.csize == 0 && header.usize == 0 && header.crc == 0))
        return CKPT_OK;
    if (!zip64_resolve(&header, extra, NULL))
        return fail_header_differs(archive, entry, "the length of the zip64 extra field", extra.left, 16,
                                   err);
    if (header.crc != entry->crc)
        return fail_header_differs(archive, entry, "the CRC-32", header.crc, entry->crc, err);
    if (header.csize != entry->csize)
        return fail_header_differs(archive, entry, "the compressed size", header.csize, entry->csize, err);
    return header.usize == entry->usize
               ? CKPT_OK
               : fail_header_differs(archive, entry, "the size", header.usize, entry->usize, err);
}

/* check_local - reads the local header of ENTRY, compares it with the central directory, and sets *DATA to
 * the offset of its payload. */
static ckpt_status check_local(zip *archive, struct zip_entry *entry, const struct header_reading *how,
                               uint64_t *data, ckpt_error *err)
{
    const unsigned char *b;
    size_t fixed = ZIP_LOCAL_SIZE + entry->name.len;
    CKPT_TRY(read_window(archive, how, entry->header_offset, fixed, &b, err));
    struct zip_header h = zip_parse_local(b);
    uint64_t end;
    char found[TEXT_BYTES_SIZE];
    if (h.signature != ZIP_LOCAL)
        return zip_fail(archive, entry, entry->header_offset, err,
                        "found {%s}, a local header begins with {=50 4b 03 04}",
                        text_describe_bytes(b, 4, found));
    if (h.method != entry->method)
        return fail_header_differs(archive, entry, "the method", h.method, entry->method, err);
    if ((h.flags ^ entry->flags) & ZIP_FLAG_ENCRYPTED)
        return zip_fail(archive, entry, entry->header_offset, err,
                        "flags {0x%04x} in its local header, {=0x%04x} in the central directory: is it "
                        "encrypted?",
                        h.flags, entry->flags);
    if (h.name_len != entry->name.len ||
        (h.name_len && memcmp(b + ZIP_LOCAL_SIZE, entry->name.ptr, h.name_len) != 0)) {
        size_t shown = h.name_len < entry->name.len ? h.name_len : entry->name.len;
        return zip_fail(
            archive, entry, entry->header_offset, err,
            "its local header calls it {\"%.*s\"}, the central directory {=\"%.*s\"}; readers would disagree",
            (int)(shown > 200 ? 200 : shown), (const char *)b + ZIP_LOCAL_SIZE, STR_ARG(entry->name));
    }
    *data = entry->header_offset + zip_local_length(&h);
    if (!checked_add(*data, entry->csize, &end) || end > entry->next_at)
        return zip_fail(archive, entry, entry->header_offset, err,
                        "its {%llu bytes from %llu on} overlap {=what begins at %llu}",
                        (unsigned long long)entry->csize, (unsigned long long)*data,
                        (unsigned long long)entry->next_at);
    CKPT_TRY(read_window(archive, how, entry->header_offset + fixed, h.extra_len, &b, err));
    return check_sizes(archive, entry, h, cursor_of(b, h.extra_len, 0), err);
}

static void set_located(struct zip_entry *entry, uint64_t data)
{
    if (!entry->is_located)
        entry->data_offset = data;
    entry->is_located = true;
}

/* locate_by_own_window - locates ENTRY, unless that was done before, by the window of ARCHIVE, which is
 * locked. */
static ckpt_status locate_by_own_window(zip *archive, struct zip_entry *entry, ckpt_error *err)
{
    uint64_t data;
    const struct header_reading how = {
        .next_is_near = archive->all_located && entry->next_at - entry->header_offset <= MAX_HEADER_GAP};
    if (entry->is_located)
        return CKPT_OK;
    CKPT_TRY(check_local(archive, entry, &how, &data, err));
    set_located(entry, data);
    return CKPT_OK;
}

/* has_small_header - returns true if the local header of ENTRY has at most HEADER_ROOM bytes, or overlaps
 * what follows, which check_local finds before it reads more. */
static bool has_small_header(const struct zip_entry *entry)
{
    uint64_t room = entry->next_at - entry->header_offset;
    return entry->name.len <= HEADER_ROOM - ZIP_LOCAL_SIZE &&
           (room < entry->csize || room - entry->csize <= HEADER_ROOM);
}

/* locate_payload - does what zip_locate_payload does; reads a small local header by WINDOW, unless it is
 * NULL. */
static ckpt_status locate_payload(zip *archive, size_t index, struct window *window, ckpt_error *err)
{
    struct zip_entry *e = &archive->entries[index];
    if (e->is_located)
        return CKPT_OK;
    unsigned char room[HEADER_ROOM];
    uint64_t data;
    bool by_window = window && has_small_header(e);
    const struct header_reading how = {.window = window, .room = room};
    if (by_window) /* not under the lock, for which several threads would wait */
        CKPT_TRY(check_local(archive, e, &how, &data, err));
    pthread_mutex_lock(&archive->lock);
    ckpt_status st = CKPT_OK;
    if (by_window)
        set_located(e, data);
    else
        st = locate_by_own_window(archive, e, err);
    pthread_mutex_unlock(&archive->lock);
    return st;
}

ckpt_status zip_locate_payload(zip *archive, size_t index, ckpt_error *err)
{
    return locate_payload(archive, index, NULL, err);
}

void zip_locate_all(zip *archive)
{
    ckpt_error ignored;
    pthread_mutex_lock(&archive->lock);
    bool was_located = archive->all_located;
    archive->all_located = true;
    for (size_t i = 0; !was_located && i < archive->n; i++)
        (void)locate_by_own_window(archive, &archive->entries[get_entry_at(archive, i)], &ignored);
    pthread_mutex_unlock(&archive->lock);
}

typedef struct {
    source s;
    zip *z;
    uint32_t entry;
    uint32_t crc; /* of the bytes; ~ of the recorded one: not known yet. z->check_lock protects it */
} member_source;

static ckpt_status member_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    member_source *m = (member_source *)src;
    CKPT_TRY(zip_locate_payload(m->z, m->entry, err));
    /* the payload ends before next_at, in the file */
    return source_read(m->z->src, m->z->entries[m->entry].data_offset + off, out, nbytes, err);
}

static ckpt_status member_locate(source *src, struct window *window, ckpt_error *err)
{
    member_source *m = (member_source *)src;
    if (src->position != CKPT_NO_OFFSET)
        return CKPT_OK;
    if (!window)
        zip_locate_all(m->z);
    CKPT_TRY(locate_payload(m->z, m->entry, window, err));
    src->position = source_pos(m->z->src, m->z->entries[m->entry].data_offset);
    return CKPT_OK;
}

/* member_close - frees nothing: sources of members are in the arena, because there may be very many. */
static void member_close(source *src) { (void)src; }

static void member_advise(source *src) { source_advise_sequential(((member_source *)src)->z->src); }

void zip_will_read(zip *archive, size_t index)
{
    const struct zip_entry *e = &archive->entries[index];
    uint64_t left = archive->src->size - e->next_at, more = left < ALIGNMENT_EXTRA ? left : ALIGNMENT_EXTRA;
    source_will_read(archive->src, e->header_offset,
                     e->next_at - e->header_offset + more); /* as its window */
}

static void member_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    const member_source *m = (member_source *)src;
    const struct zip_entry *e = &m->z->entries[m->entry];
    if (e->is_located)
        source_will_read(m->z->src, e->data_offset + off, nbytes);
    else
        zip_will_read(m->z, m->entry);
}

static bool member_extent(source *src, uint64_t off, int *fd, uint64_t *at)
{
    ckpt_error ignored;
    member_source *m = (member_source *)src;
    if (zip_locate_payload(m->z, m->entry, &ignored) != CKPT_OK)
        return false;
    uint64_t from = m->z->entries[m->entry].data_offset + off;
    return source_extent(m->z->src, from, fd, at);
}

static ckpt_status member_map(source *src, uint64_t off, const unsigned char **out, ckpt_error *err)
{
    member_source *m = (member_source *)src;
    CKPT_TRY(zip_locate_payload(m->z, m->entry, err));
    uint64_t from = m->z->entries[m->entry].data_offset + off;
    return source_map(m->z->src, from, 1, out, err);
}

static ckpt_status member_check(source *src, ckpt_error *err)
{
    member_source *m = (member_source *)src;
    const struct zip_entry *e = &m->z->entries[m->entry];
    ckpt_status st = CKPT_OK;
    uint32_t crc = 0;
    if (m->z->crc_none || e->crc_unknown)
        return CKPT_OK;
    pthread_mutex_lock(&m->z->check_lock);
    if (m->crc == ~e->crc && (st = source_crc(src, 0, src->size, CRC_32, &crc, err)) == CKPT_OK)
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
                                             .will_read = member_will_read,
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

/* check_readable - fails if ENTRY has a fault, or is encrypted or compressed in a way that is not
 * supported. */
static ckpt_status check_readable(const zip *archive, struct zip_entry *entry, ckpt_error *err)
{
    if (entry->fault) {
        entry->is_reported = true;
        return add_entry_name(
            entry,
            fail(err, CKPT_ECHECKSUM, to_file_offset(archive, entry->header_offset), "%s", entry->fault),
            err);
    }
    if (entry->flags & ZIP_FLAGS_ENCRYPTED)
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(archive, entry->header_offset),
                   "it is {encrypted (flags 0x%04x)}; only {=unencrypted members} are read", entry->flags);
    else if (entry->flags & ZIP_FLAG_PATCH)
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(archive, entry->header_offset),
                   "it is {a patch to another file (flags 0x%04x)}; {=complete files} are read",
                   entry->flags);
    else if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED &&
             !(archive->allows_other_methods && inflater_has_method(entry->method)))
        (void)fail(err, CKPT_EUNSUPPORTED, to_file_offset(archive, entry->header_offset),
                   "it is compressed by {method %u (%s)}; {=stored and deflate} are read", entry->method,
                   get_method_name(entry->method));
    else
        return CKPT_OK;
    error_add_hint(err, "unpack it and pack it again with `zip -0 -r`");
    return add_entry_name(entry, CKPT_EUNSUPPORTED, err);
}

/* open_compressed - opens the compressed entry INDEX as a source. The local header is checked first, because
 * libzip finds the payload by it. */
static ckpt_status open_compressed(zip *numbers, size_t index, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &numbers->entries[index];
    CKPT_TRY(zip_locate_payload(numbers, index, err));
    if (!numbers->inflater) {
        source *archive;
        CKPT_TRY(source_slice(numbers->src, numbers->prefix_size, numbers->archive_end - numbers->prefix_size,
                              &archive, err));
        CKPT_TRY_ALLOC(numbers->inflater = inflater_new(archive), err);
    }
    return inflater_open_member(numbers->inflater,
                                &(struct inflater_member){.name = e->name,
                                                          .size = e->usize,
                                                          .src = numbers->src,
                                                          .data = e->data_offset,
                                                          .csize = e->csize,
                                                          .is_deflated = e->method == ZIP_DEFLATED,
                                                          .is_listed = !e->avoids_libzip,
                                                          .index = index},
                                out, err);
}

ckpt_status zip_open_member(zip *archive, size_t index, source **out, ckpt_error *err)
{
    struct zip_entry *e = &archive->entries[index];
    CKPT_TRY(check_readable(archive, e, err));
    if (e->method != ZIP_STORED)
        return open_compressed(archive, index, out, err);
    member_source *m = ARENA_NEW(archive->a, member_source);
    CKPT_TRY_ALLOC(m, err);
    m->s = (source){.ops = &member_ops, .size = e->usize, .position = CKPT_NO_OFFSET, .refs = 1};
    m->s.serializes_reads = archive->src->serializes_reads;
    m->s.is_remote = archive->src->is_remote;
    if (e->is_located)
        m->s.position = source_pos(archive->src, e->data_offset);
    m->z = archive;
    m->entry = (uint32_t)index;
    m->crc = ~e->crc;
    *out = &m->s;
    return CKPT_OK;
}

static ckpt_status load_member(source *src, const zip *archive, const struct zip_entry *entry, ckpt_str *out,
                               ckpt_error *err)
{
    size_t n = (size_t)entry->usize;
    char *bytes = arena_alloc(archive->a, n + 1);
    CKPT_TRY_ALLOC(bytes, err);
    CKPT_TRY(source_read(src, 0, bytes, n, err));
    uint32_t crc = crc32_update(0, bytes, n);
    if (!archive->crc_none && !entry->crc_unknown && crc != entry->crc)
        return fail(err, CKPT_ECHECKSUM,
                    to_file_offset(archive, entry->is_located ? entry->data_offset : entry->header_offset),
                    "its CRC-32 is {%08x}, the central directory records {=%08x}\n"
                    "the bytes are not those that were saved: get the file again",
                    crc, entry->crc);
    *out = str_of(bytes, n);
    return CKPT_OK;
}

ckpt_status zip_load_member(zip *archive, size_t index, uint64_t max, ckpt_str *out, ckpt_error *err)
{
    const struct zip_entry *e = &archive->entries[index];
    source *s = NULL;
    ckpt_status st;
    if (e->usize > max || e->usize >= SIZE_MAX)
        st = fail(err, CKPT_ELIMIT, to_file_offset(archive, e->header_offset),
                  "it has {%llu bytes}, {=at most %llu} are read", (unsigned long long)e->usize,
                  (unsigned long long)max);
    else if ((st = zip_open_member(archive, index, &s, err)) == CKPT_OK) {
        st = load_member(s, archive, e, out, err);
        source_unref(s);
    } else
        return st;
    if (st != CKPT_OK && !err->where[0]) /* errors about its headers have the name already */
        return add_entry_name(e, st, err);
    return st;
}
