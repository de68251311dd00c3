/*
 * zip_salvage.c - an archive whose directory is gone or wrong, by its local headers.
 *
 *   local header   PK 3 4, then 26 bytes, name, extra, payload
 *   descriptor     PK 7 8, CRC-32, stored size, size: 4 bytes each, or 8 in archives
 *                  with zip64 fields; behind the payload when flag bit 3 is set, as
 *                  torch sets it, and the header says 0 for all three
 *
 * The file is searched once for both marks. A record ends where a descriptor states
 * the very distance from its payload; a payload may hold such marks itself, so that
 * alone counts. The last record of a file that was cut has no descriptor: it goes as
 * far as the file does, and whoever knows how many bytes it must have sees whether
 * they are there. Source: caffe2/serialize/inline_container.cc, miniz, APPNOTE.TXT.
 *
 * A record whose local header is damaged, but listed in a sound directory, ends where the next
 * one begins, with or without a descriptor between them: its checksum tells which.
 *
 * Lies refused: a checksum that does not hold, a size that leaves the file. Of two
 * records of one name the first that is whole counts.
 */
#include "codec/zip_salvage.h"

#include <stdlib.h>

#include "base/crc32.h"
#include "base/cursor.h"

#define LOCAL     30u
#define CHUNK     (256u * 1024u)
#define MAX_MARKS (1u << 24)
#define AHEAD     4096u /* marks inside one payload that are looked at */

enum mark_kind { HEADER, DESCRIPTOR };

struct mark {
    uint64_t at;
    uint8_t kind;
};

struct walk {
    source *src;
    arena *a;
    struct mark *marks;
    size_t nmarks, cap_marks;
    struct zip_entry *found;
    size_t n, cap;
    unsigned char *chunk;
    uint64_t *places; /* of a sound directory: its local headers in order, itself last */
    ckpt_error *err;
};

/* -------------------------------------------------------------------- marks */

static ckpt_status add_mark(struct walk *w, uint64_t at, enum mark_kind kind)
{
    if (w->nmarks >= MAX_MARKS)
        return fail(w->err, CKPT_ELIMIT, at, "more than %u records", MAX_MARKS);
    struct mark *grown = arena_grow(w->a, w->marks, w->nmarks, &w->cap_marks, w->nmarks + 1, sizeof *grown);
    if (!grown)
        return fail_memory(w->err);
    w->marks = grown;
    grown[w->nmarks++] = (struct mark){at, (uint8_t)kind};
    return CKPT_OK;
}

/* marks_in - those that begin in the first N - 3 bytes of the chunk, which is at POS. */
static ckpt_status marks_in(struct walk *w, uint64_t pos, size_t n)
{
    const unsigned char *p = w->chunk, *end = p + n;
    while ((p = memchr(p, 'P', (size_t)(end - p))) && end - p >= 4) {
        uint32_t sign = load_u32le(p);
        uint64_t at = pos + (uint64_t)(p - w->chunk); /* bounded: inside the file */
        if (sign == 0x04034B50)
            CKPT_TRY(add_mark(w, at, HEADER));
        else if (sign == 0x08074B50)
            CKPT_TRY(add_mark(w, at, DESCRIPTOR));
        p++;
    }
    return CKPT_OK;
}

static ckpt_status find_marks(struct walk *w)
{
    uint64_t size = w->src->size;
    /* bounded: n is what is left, at most; three bytes are read twice */
    for (uint64_t at = 0, n; at + 4 <= size; at += n - 3) {
        n = size - at < CHUNK ? size - at : CHUNK;
        CKPT_TRY(source_read(w->src, at, w->chunk, (size_t)n, w->err));
        CKPT_TRY(marks_in(w, at, (size_t)n));
        if (at + n == size) /* bounded: n is at most what is left */
            break;
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ records */

/* crc_of - of N bytes at AT, which are in the file. */
static ckpt_status crc_of(struct walk *w, uint64_t at, uint64_t n, uint32_t *crc)
{
    *crc = 0;
    while (n) {
        size_t part = n < CHUNK ? (size_t)n : CHUNK;
        CKPT_TRY(source_read(w->src, at, w->chunk, part, w->err));
        *crc = crc32_update(*crc, w->chunk, part);
        at += part; /* bounded: part is at most n */
        n -= part;
    }
    return CKPT_OK;
}

/* descriptor_at - does one at AT state SIZE bytes? Fills E. */
static bool descriptor_at(struct walk *w, uint64_t at, uint64_t size, struct zip_entry *e)
{
    unsigned char d[24];
    uint64_t left = w->src->size - at;
    size_t n = left < sizeof d ? (size_t)left : sizeof d;
    if (n < 16 || source_read(w->src, at, d, n, NULL) != CKPT_OK)
        return false;
    bool narrow = size <= UINT32_MAX && load_u32le(d + 8) == size;
    bool wide = n == 24 && load_u64le(d + 8) == size;
    if (!narrow && !wide)
        return false;
    e->crc = load_u32le(d + 4);
    e->csize = size;
    e->usize = wide ? load_u64le(d + 16) : load_u32le(d + 12);
    return true;
}

/* end_by_descriptor - of the record whose header is mark I. */
static void end_by_descriptor(struct walk *w, size_t i, struct zip_entry *e)
{
    bool headers = false;
    for (size_t k = i + 1; k < w->nmarks && k - i <= AHEAD; k++) {
        const struct mark *m = &w->marks[k];
        if (m->at < e->data)
            continue;
        headers = headers || m->kind == HEADER;
        if (m->kind == DESCRIPTOR && descriptor_at(w, m->at, m->at - e->data, e)) {
            e->limit = m->at;
            return;
        }
    }
    e->crc_unknown = true;
    e->csize = e->usize = w->src->size - e->data;
    e->limit = w->src->size;
    if (headers) {
        e->fault = "where it ends cannot be told: its size was behind it, and is damaged";
        e->limit = e->data;
    }
}

/* read_header - the record at mark I into E; *IS false: it is none. */
static ckpt_status read_header(struct walk *w, size_t i, struct zip_entry *e, bool *is)
{
    unsigned char h[LOCAL];
    uint64_t at = w->marks[i].at, left = w->src->size - at;
    *is = false;
    if (left < LOCAL)
        return CKPT_OK;
    CKPT_TRY(source_read(w->src, at, h, LOCAL, w->err));
    uint32_t name = load_u16le(h + 26), extra = load_u16le(h + 28);
    if (left - LOCAL < (uint64_t)name + extra || !name)
        return CKPT_OK;
    char *text = arena_alloc(w->a, name);
    if (!text)
        return fail_memory(w->err);
    CKPT_TRY(source_read(w->src, at + LOCAL, text, name, w->err)); /* bounded: inside left */
    /* bounded: inside the file, as left said */
    *e = (struct zip_entry){.name = str_of(text, name), .header = at, .data = at + LOCAL + name + extra};
    e->flags = load_u16le(h + 6) & (uint16_t)~8u;
    e->method = load_u16le(h + 8);
    e->data_known = true;
    *is = true;
    if (load_u16le(h + 6) & 8) {
        end_by_descriptor(w, i, e);
        return CKPT_OK;
    }
    e->crc = load_u32le(h + 14);
    e->csize = load_u32le(h + 18);
    e->usize = load_u32le(h + 22);
    e->limit = e->data + e->csize; /* bounded: a place in the file, and 32 bits */
    if (e->csize == UINT32_MAX || e->limit > w->src->size) {
        e->limit = e->data;
        e->fault = "it is cut off, or its size is damaged";
    }
    return CKPT_OK;
}

static ckpt_status check_record(struct walk *w, struct zip_entry *e)
{
    uint32_t crc;
    if (e->fault || e->crc_unknown)
        return CKPT_OK;
    if (e->method != 0) {
        e->fault = "it is compressed, and the directory of the archive, which unpacking needs, is damaged";
        return CKPT_OK;
    }
    if (e->csize != e->usize)
        e->fault = "it is stored, yet its two sizes differ";
    CKPT_TRY(crc_of(w, e->data, e->csize, &crc));
    if (crc != e->crc && !e->fault && e->crc)
        e->fault = "its bytes do not have the checksum that is recorded";
    e->crc_unknown = crc != e->crc;
    return CKPT_OK;
}

static ckpt_status walk_records(struct walk *w)
{
    uint64_t next = 0;
    CKPT_TRY(find_marks(w));
    for (size_t i = 0; i < w->nmarks; i++) {
        struct zip_entry e;
        bool is;
        if (w->marks[i].kind != HEADER || w->marks[i].at < next)
            continue;
        CKPT_TRY(read_header(w, i, &e, &is));
        if (!is)
            continue;
        CKPT_TRY(check_record(w, &e));
        struct zip_entry *grown = arena_grow(w->a, w->found, w->n, &w->cap, w->n + 1, sizeof *grown);
        if (!grown)
            return fail_memory(w->err);
        w->found = grown;
        grown[w->n++] = e;
        next = e.fault ? e.data : e.limit;
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ archive */

/* by_walk - an archive of what was found: of each name the first that is whole. */
static ckpt_status by_walk(struct walk *w, zip **out)
{
    zip *z = calloc(1, sizeof *z);
    if (!z)
        return fail_memory(w->err);
    z->src = source_ref(w->src);
    z->a = w->a;
    z->directory = z->end = w->src->size;
    z->located = true;
    z->entries = arena_array(w->a, w->n, sizeof *z->entries);
    z->names = map_new(w->n);
    bool ok = z->entries && z->names;
    for (size_t i = 0; ok && i < w->n; i++) {
        uint32_t old = map_get(z->names, w->found[i].name);
        if (old == MAP_NONE) {
            ok = map_put(z->names, w->found[i].name, (uint32_t)z->n, NULL);
            z->entries[z->n++] = w->found[i];
        } else if (z->entries[old].fault && !w->found[i].fault) {
            z->entries[old] = w->found[i];
        }
    }
    if (!ok) {
        zip_close(z);
        return fail_memory(w->err);
    }
    *out = z;
    return CKPT_OK;
}

/* check_member - reads entry I of a sound directory; *WHOLE: all of it is there. */
static ckpt_status check_member(struct walk *w, zip *z, size_t i, bool *whole)
{
    source *s = NULL;
    uint32_t crc = 0;
    *whole = false;
    if (zip_data(z, i, NULL) != CKPT_OK || zip_member(z, i, &s, NULL) != CKPT_OK)
        return CKPT_OK;
    ckpt_status st = CKPT_OK;
    /* bounded: n is what is left, at most */
    for (uint64_t at = 0, n; st == CKPT_OK && at < s->size; at += n) {
        n = s->size - at < CHUNK ? s->size - at : CHUNK;
        st = source_read(s, at, w->chunk, (size_t)n, NULL);
        if (st == CKPT_OK)
            crc = crc32_update(crc, w->chunk, (size_t)n);
    }
    source_unref(s);
    *whole = st == CKPT_OK && (crc == z->entries[i].crc || z->crc_none);
    return CKPT_OK;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static ckpt_status list_places(struct walk *w, const zip *z)
{
    w->places = arena_array(w->a, z->n + 1, sizeof *w->places); /* bounded: they are in memory */
    if (!w->places)
        return fail_memory(w->err);
    for (size_t i = 0; i < z->n; i++)
        w->places[i] = z->entries[i].header;
    w->places[z->n] = z->directory;
    qsort(w->places, z->n + 1, sizeof *w->places, by_number); /* bounded: as above */
    return CKPT_OK;
}

/* by_neighbours - E, whose own header is damaged, by where the next record begins. */
static ckpt_status by_neighbours(struct walk *w, const zip *z, struct zip_entry *e)
{
    static const unsigned tails[] = {16, 24, 0};
    size_t lo = 0, hi = z->n;
    uint32_t crc;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (w->places[mid] <= e->header)
            lo = mid + 1;
        else
            hi = mid;
    }
    uint64_t next = w->places[lo], room = next > e->header ? next - e->header : 0;
    if (e->method != 0 || e->csize != e->usize || !e->crc || z->crc_none || next > w->src->size)
        return CKPT_OK;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        uint64_t least = LOCAL + e->name.len + tails[i]; /* bounded: a name has 16 bits */
        if (room < least || room - least < e->csize)
            continue;
        uint64_t data = next - tails[i] - e->csize; /* bounded: by the line above */
        CKPT_TRY(crc_of(w, data, e->csize, &crc));
        if (crc != e->crc)
            continue;
        e->data = data;
        e->limit = data + e->csize; /* bounded: as above */
        e->data_known = true;
        e->fault = NULL;
        break;
    }
    return CKPT_OK;
}

static ckpt_str folder(ckpt_str name)
{
    size_t slash = str_find(name, STR_LIT("/"), 0);
    return str_of(name.ptr, slash == SIZE_MAX ? 0 : slash);
}

/* mend - entry I of the directory by the record found whole in its place, or else under
 * its name. Of two names the one in the folder of its neighbour counts. */
static ckpt_status mend(struct walk *w, zip *z, size_t i)
{
    struct zip_entry *e = &z->entries[i];
    const struct zip_entry *by = NULL;
    e->fault = "its bytes do not have the checksum that is recorded, or its header is damaged";
    for (size_t k = 0; k < w->n && !(by && by->header == e->header); k++)
        if (!w->found[k].fault && !w->found[k].crc_unknown &&
            (w->found[k].header == e->header || str_eq(w->found[k].name, e->name)))
            by = &w->found[k];
    if (!by)
        return by_neighbours(w, z, e);
    ckpt_str name = e->name, top = z->n > 1 ? folder(z->entries[i ? 0 : 1].name) : str_of("", 0);
    *e = *by;
    if (!str_eq(folder(name), top))
        (void)map_put(z->names, e->name, (uint32_t)i, NULL);
    else
        e->name = name;
    return CKPT_OK;
}

/* add_unlisted - whole records whose names the directory does not have: damage to it. */
static ckpt_status add_unlisted(struct walk *w, zip *z)
{
    struct zip_entry *all = arena_array(w->a, z->n + w->n, sizeof *all); /* bounded: both are in memory */
    if (!all)
        return fail_memory(w->err);
    memcpy(all, z->entries, z->n * sizeof *all);
    z->entries = all;
    z->located = true;
    for (size_t i = 0; i < w->n; i++) {
        const struct zip_entry *e = &w->found[i];
        if (e->fault || e->crc_unknown || map_get(z->names, e->name) != MAP_NONE)
            continue;
        if (!map_put(z->names, e->name, (uint32_t)z->n, NULL))
            return fail_memory(w->err);
        all[z->n++] = *e;
    }
    return CKPT_OK;
}

static ckpt_status check_directory(struct walk *w, zip *z)
{
    bool walked = false;
    for (size_t i = 0; i < z->n; i++) {
        bool whole;
        CKPT_TRY(check_member(w, z, i, &whole));
        if (whole)
            continue;
        if (!walked) {
            CKPT_TRY(list_places(w, z));
            CKPT_TRY(walk_records(w));
        }
        walked = true;
        CKPT_TRY(mend(w, z, i));
    }
    return walked ? add_unlisted(w, z) : CKPT_OK;
}

ckpt_status zip_salvage(source *src, arena *a, zip **out, ckpt_error *err)
{
    struct walk w = {.src = src, .a = a, .err = err, .chunk = malloc(CHUNK)};
    zip *z = NULL;
    ckpt_status st = w.chunk ? source_locate(src, err) : fail_memory(err);
    if (st == CKPT_OK && zip_open(src, a, &z, NULL) == CKPT_OK) {
        st = check_directory(&w, z);
    } else if (st == CKPT_OK) {
        st = walk_records(&w);
        if (st == CKPT_OK)
            st = by_walk(&w, &z);
    }
    free(w.chunk);
    if (st == CKPT_OK)
        *out = z;
    else
        zip_close(z);
    return st;
}
