/*
 * zip_salvage.c - an archive whose directory is gone or wrong, by its local headers.
 *
 * The layout of local headers and data descriptors is in zip_header.h; torch sets bit 3 of the flags, and the
 * header has 0 for CRC-32 and both sizes.
 *
 * The file is searched once for both marks. A record ends where a descriptor states
 * the very distance from its payload; a payload may hold such marks itself, so that
 * alone counts. The last record of a file that was cut has no descriptor: it goes as
 * far as the file does, and whoever knows how many bytes it must have sees whether
 * they are there. Source: caffe2/serialize/inline_container.cc, miniz, APPNOTE.TXT.
 *
 * A record whose local header is damaged, but listed in a sound directory, ends where the next
 * one begins, with or without a descriptor between them: its checksum tells which, and where
 * there is none, a descriptor that states its size. What no sound directory lists was deleted,
 * or lies inside a payload: it does not count, unless the directory lists what stands at its
 * place under another name, of which one is damaged.
 *
 * Lies refused: a checksum that does not hold, a size that leaves the file, an archive in a
 * payload whose end cannot be told, two whole records of one name that are not the same.
 */
#include "codec/zip_salvage.h"

#include <stdlib.h>

#include "base/crc32.h"
#include "codec/inflate.h"

#define CHUNK     (256u * 1024u)
#define MAX_MARKS (1u << 24)
#define AHEAD     4096u /* marks inside one payload that are looked at */

/* Where a local header or a data descriptor may be. */
struct mark {
    uint64_t at;
    bool is_header;
};

struct walk {
    source *src;
    arena *a;
    struct mark *marks;
    size_t nmarks, cap_marks;
    struct zip_entry *found;
    size_t n, cap;
    unsigned char *chunk;
    map *names;  /* of those found, each with the first of it */
    uint64_t in_vain; /* bytes of records that are not whole, looked at so far */
    bool unended; /* the end of the last one cannot be told: what follows may be inside of it … */
    bool nested;  /* … and is, as a name comes again */
    ckpt_error *err;
};

/* -------------------------------------------------------------------- marks */

static ckpt_status add_mark(struct walk *w, uint64_t at, bool is_header)
{
    if (w->nmarks >= MAX_MARKS)
        return fail(w->err, CKPT_ELIMIT, at, "more than %u records", MAX_MARKS);
    struct mark *grown = arena_grow(w->a, w->marks, w->nmarks, &w->cap_marks, w->nmarks + 1, sizeof *grown);
    if (!grown)
        return fail_memory(w->err);
    w->marks = grown;
    grown[w->nmarks++] = (struct mark){at, is_header};
    return CKPT_OK;
}

/* marks_in - those that begin in the first N - 3 bytes of the chunk, which is at POS. */
static ckpt_status marks_in(struct walk *w, uint64_t pos, size_t n)
{
    const unsigned char *p = w->chunk, *end = p + n;
    while ((p = memchr(p, 'P', (size_t)(end - p))) && end - p >= 4) {
        uint32_t sign = load_u32le(p);
        uint64_t at = pos + (uint64_t)(p - w->chunk); /* bounded: inside the file */
        if (sign == ZIP_LOCAL || sign == ZIP_DESCRIPTOR)
            CKPT_TRY(add_mark(w, at, sign == ZIP_LOCAL));
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

/* sum_of - the CRC-32 of what the bytes at AT are, unpacked where E is deflated. *FITS: they are as many as
 * E says, unless its own end is not known: then it is where they end. */
static ckpt_status sum_of(struct walk *w, struct zip_entry *e, uint64_t at, uint32_t *crc, bool *fits)
{
    uint64_t used, size;
    *fits = e->csize == e->usize;
    if (e->method == ZIP_STORED)
        return crc_of(w, at, e->csize, crc);
    ckpt_status st = inflate_measure(w->src, at, e->csize, &used, &size, crc, w->err);
    w->in_vain += size / 16; /* bounded: by the size of the file; unpacking is as quick */
    *fits = st == CKPT_OK && (e->crc_unknown || (used == e->csize && size == e->usize));
    if (*fits) {
        e->csize = used;
        e->usize = size;
    }
    return st == CKPT_EFORMAT || st == CKPT_ETRUNCATED ? CKPT_OK : st;
}

/* descriptor_at - has the one at AT, inside the file, SIZE compressed bytes? Fills E. */
static bool descriptor_at(struct walk *w, uint64_t at, uint64_t size, struct zip_entry *e)
{
    unsigned char b[ZIP_DESCRIPTOR_MAX];
    uint64_t left = w->src->size - at;
    size_t n = left < sizeof b ? (size_t)left : sizeof b;
    struct zip_descriptor d;
    if (source_read(w->src, at, b, n, NULL) != CKPT_OK ||
        !((zip_parse_descriptor(b, n, ZIP_SIGNED | ZIP_WIDE, &d) && d.csize == size) ||
          (zip_parse_descriptor(b, n, ZIP_SIGNED, &d) && d.csize == size)))
        return false;
    e->crc = d.crc;
    e->csize = d.csize;
    e->usize = d.usize;
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
        headers = headers || m->is_header;
        if (!m->is_header && descriptor_at(w, m->at, m->at - e->data, e)) {
            e->limit = m->at;
            return;
        }
    }
    e->crc_unknown = true;
    e->csize = e->usize = w->src->size - e->data;
    e->limit = w->src->size;
    if (headers) {
        e->fault = "its end is unknown: the size recorded after it is damaged";
        e->limit = e->data;
    }
}

/* reaches_next - does the header at mark I take the next one for its own, up to AT? It is damaged. */
static bool reaches_next(const struct walk *w, size_t i, uint64_t at)
{
    while (++i < w->nmarks && w->marks[i].at < at)
        if (w->marks[i].is_header)
            return true;
    return false;
}

/* read_header - the record at mark I into E; *IS false: it is none. *LATER: a descriptor has its sizes. */
static ckpt_status read_header(struct walk *w, size_t i, struct zip_entry *e, bool *is, bool *later)
{
    struct zip_header h;
    uint64_t at = w->marks[i].at, left = w->src->size - at;
    *is = false;
    if (left < ZIP_LOCAL_SIZE)
        return CKPT_OK;
    CKPT_TRY(zip_read_local(w->src, at, &h, w->err));
    uint64_t data = at + zip_local_length(&h); /* bounded: inside the file, as LEFT shows first */
    if (left < zip_local_length(&h) || !h.name_len || reaches_next(w, i, data))
        return CKPT_OK;
    char *text = arena_alloc(w->a, h.name_len);
    if (!text)
        return fail_memory(w->err);
    CKPT_TRY(source_read(w->src, at + ZIP_LOCAL_SIZE, text, h.name_len, w->err)); /* bounded: inside LEFT */
    *e = (struct zip_entry){.name = str_of(text, h.name_len),
                            .header = at,
                            .data = data,
                            .flags = h.flags & (uint16_t)~ZIP_FLAG_DESCRIPTOR,
                            .method = h.method,
                            .data_known = true};
    *is = true;
    *later = h.flags & ZIP_FLAG_DESCRIPTOR;
    if (*later) {
        end_by_descriptor(w, i, e);
        return CKPT_OK;
    }
    e->crc = h.crc;
    e->csize = h.csize;
    e->usize = h.usize;
    e->limit = e->data + e->csize; /* bounded: a place in the file, and 32 bits */
    if (e->csize == UINT32_MAX || e->limit > w->src->size) {
        e->limit = e->data;
        e->fault = "it is cut off, or its size is damaged";
    }
    return CKPT_OK;
}

/* borne_out - does a record, or the directory, begin where E is said to end? */
static bool borne_out(const struct walk *w, const struct zip_entry *e)
{
    return zip_has_signature(w->src, e->limit, ZIP_LOCAL) || zip_has_signature(w->src, e->limit, ZIP_CENTRAL);
}

/* check_record - LATER: a descriptor has the size of E. */
static ckpt_status check_record(struct walk *w, struct zip_entry *e, bool later)
{
    uint32_t crc;
    bool fits, open = e->crc_unknown;
    if (e->fault || (open && e->method == ZIP_STORED))
        return CKPT_OK;
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        e->fault = "it is compressed by a method that is not known here";
    else if (w->in_vain / 64 > w->src->size)
        e->fault = "so much of the archive is damaged that it was not looked at";
    if (e->fault)
        return CKPT_OK;
    e->alone = e->method == ZIP_DEFLATED;
    CKPT_TRY(sum_of(w, e, e->data, &crc, &fits));
    if (!fits)
        e->fault = e->method == ZIP_DEFLATED ? "its deflated bytes are broken, or not as many as is recorded"
                                             : "it is stored, yet its two sizes differ";
    else if (crc != e->crc && e->crc)
        e->fault = "its bytes do not have the checksum that is recorded";
    e->crc_unknown = open || crc != e->crc;
    if (!e->fault && !e->crc_unknown && crc)
        e->flags = 0; /* it is not encrypted, whatever they say */
    if (e->fault) {
        w->in_vain += e->csize; /* bounded: records that are not whole end there, or make more than enough */
        if (!later && !borne_out(w, e))
            e->limit = e->data;
    }
    return CKPT_OK;
}

/* add_found - E, unless it lies inside of a record before it. */
static ckpt_status add_found(struct walk *w, const struct zip_entry *e)
{
    uint32_t before = map_get(w->names, e->name);
    w->nested = w->nested || (w->unended && before != MAP_NONE);
    if (w->nested)
        return CKPT_OK;
    w->unended = w->unended || (e->fault && e->limit == e->data);
    struct zip_entry *grown = arena_grow(w->a, w->found, w->n, &w->cap, w->n + 1, sizeof *grown);
    if (!grown || !map_put(w->names, e->name, (uint32_t)w->n, NULL))
        return fail_memory(w->err);
    w->found = grown;
    grown[w->n++] = *e;
    return CKPT_OK;
}

static ckpt_status walk_records(struct walk *w)
{
    uint64_t next = 0;
    w->names = map_new(0);
    CKPT_TRY(w->names ? find_marks(w) : fail_memory(w->err));
    for (size_t i = 0; i < w->nmarks; i++) {
        struct zip_entry e;
        bool is, later;
        if (!w->marks[i].is_header || w->marks[i].at < next)
            continue;
        CKPT_TRY(read_header(w, i, &e, &is, &later));
        if (!is)
            continue;
        CKPT_TRY(check_record(w, &e, later));
        CKPT_TRY(add_found(w, &e));
        next = e.limit;
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ archive */

/* same - are two records of one name whole, and have the same bytes? */
static bool same(const struct zip_entry *a, const struct zip_entry *b)
{
    return !a->fault && !b->fault && !a->crc_unknown && !b->crc_unknown && a->crc == b->crc &&
           a->csize == b->csize;
}

/* by_walk - an archive of what was found. */
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
        } else if (!same(&z->entries[old], &w->found[i])) {
            z->entries[old].fault = "two records have its name, and the directory, which would show the one "
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

/* described - *DATA is where the payload of E begins, if a descriptor of its size stands right
 * before the next record. */
static bool described(struct walk *w, const struct zip_entry *e, uint64_t *data)
{
    static const unsigned lengths[] = {16, 24};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct zip_entry stated;
        uint64_t least = ZIP_LOCAL_SIZE + e->name.len + lengths[i]; /* bounded: a name has 16 bits */
        uint64_t room = e->limit - e->header;              /* bounded: zip_open saw room for it */
        if (room < least || room - least < e->csize)
            continue;
        uint64_t at = e->limit - lengths[i]; /* bounded: by the line above, as is the next */
        *data = at - e->csize;
        if (descriptor_at(w, at, e->csize, &stated))
            return true;
    }
    return false;
}

/* check_member - reads entry I of a sound directory; *WHOLE: all of it is there. Where no checksum
 * can tell, its descriptor must not stand elsewhere than behind it. */
static ckpt_status check_member(struct walk *w, zip *z, size_t i, bool *whole)
{
    const struct zip_entry *e = &z->entries[i];
    source *s = NULL;
    uint32_t crc = 0;
    uint64_t data;
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
    *whole = st == CKPT_OK &&
             (z->crc_none ? !described(w, e, &data) || data == e->data : crc == e->crc);
    return CKPT_OK;
}

/* by_neighbours - E, whose header is damaged here or there, by where the next record begins. HERE (or NULL)
 * is what its local header says. */
static ckpt_status by_neighbours(struct walk *w, const zip *z, struct zip_entry *e,
                                 const struct zip_entry *here)
{
    static const unsigned tails[] = {16, 24, 0};
    uint64_t room = e->limit - e->header; /* bounded: zip_open saw room for it */
    bool found = false, fits = true;
    uint32_t crc;
    if (here && e->method != ZIP_STORED &&
        (e->method != ZIP_DEFLATED || here->method == ZIP_STORED)) /* of two methods one is damaged */
        e->method = here->method;
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return CKPT_OK;
    if (z->crc_none && described(w, e, &e->data))
        CKPT_TRY(sum_of(w, e, e->data, &crc, &found));
    for (size_t i = 0; i < sizeof tails / sizeof *tails && !found && e->crc; i++) {
        uint64_t least = ZIP_LOCAL_SIZE + e->name.len + tails[i]; /* bounded: a name has 16 bits */
        if (room < least || room - least < e->csize)
            continue;
        e->data = e->limit - tails[i] - e->csize; /* bounded: by the line above */
        CKPT_TRY(sum_of(w, e, e->data, &crc, &fits));
        found = fits && crc == e->crc;
    }
    if (found) {
        e->data_known = true;
        e->alone = e->method == ZIP_DEFLATED;
        e->flags = here ? e->flags & here->flags : e->flags; /* encryption is told of twice */
        e->fault = NULL;
    }
    return CKPT_OK;
}

static ckpt_str folder(ckpt_str name)
{
    size_t slash = str_find(name, STR_LIT("/"), 0);
    return str_of(name.ptr, slash == SIZE_MAX ? 0 : slash);
}

/* found_at - the record whose header was found at AT, or NULL. */
static const struct zip_entry *found_at(const struct walk *w, uint64_t at)
{
    size_t lo = 0, hi = w->n; /* they are in the order of the file */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (w->found[mid].header < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->n && w->found[lo].header == at ? &w->found[lo] : NULL;
}

/* mending - the record that was found for E of the directory: HERE in its place (or NULL), or else, with
 * the same checksum, under its name. NULL: none that is whole. */
static const struct zip_entry *mending(const struct walk *w, const struct zip_entry *e,
                                       const struct zip_entry *here)
{
    uint32_t named = map_get(w->names, e->name);
    const struct zip_entry *there = named == MAP_NONE ? NULL : &w->found[named];
    if (here && !here->fault && !here->crc_unknown && (here->usize == e->usize || here->csize == e->csize))
        return here;
    return there && !there->fault && !there->crc_unknown && e->crc && there->crc == e->crc &&
                   there->usize == e->usize
               ? there
               : NULL;
}

/* mend - entry I of the directory by what was found for it. Of two names the one in the folder of
 * its neighbour counts, if no other entry has it; the other one is *ALIAS. */
static ckpt_status mend(struct walk *w, zip *z, size_t i, struct zip_entry *alias)
{
    struct zip_entry *e = &z->entries[i];
    const struct zip_entry *here = found_at(w, e->header), *by = mending(w, e, here);
    ckpt_str name = e->name, top = z->n > 1 ? folder(z->entries[i ? 0 : 1].name) : str_of("", 0);
    bool keeps = str_eq(folder(name), top) && !e->duplicate;
    alias->name = str_of(NULL, 0);
    e->fault = "its bytes do not have the checksum that is recorded, or its header is damaged";
    if (by)
        *e = *by;
    else
        CKPT_TRY(by_neighbours(w, z, e, here));
    e->name = name;
    if (e->fault || !here || str_eq(here->name, name))
        return CKPT_OK;
    *alias = *e;
    e->name = keeps ? name : here->name;
    alias->name = keeps ? here->name : name;
    return CKPT_OK;
}

/* index_names - those that entries have now. */
static ckpt_status index_names(struct walk *w, zip *z)
{
    map_free(z->names);
    z->names = map_new(z->n);
    for (size_t i = 0; z->names && i < z->n; i++) {
        uint32_t old;
        if (!map_put(z->names, z->entries[i].name, (uint32_t)i, &old))
            return fail_memory(w->err);
        z->entries[i].duplicate = old != MAP_NONE;
        if (old != MAP_NONE)
            z->entries[old].duplicate = true;
    }
    return z->names ? CKPT_OK : fail_memory(w->err);
}

/* add_aliases - the other names of what was mended, of which one is damaged, where nothing else has them. */
static ckpt_status add_aliases(struct walk *w, zip *z, const struct zip_entry *aliases, size_t n)
{
    CKPT_TRY(index_names(w, z));
    struct zip_entry *all = arena_array(w->a, z->n + n, sizeof *all); /* bounded: both are in memory */
    if (!all)
        return fail_memory(w->err);
    memcpy(all, z->entries, z->n * sizeof *all);
    z->entries = all;
    z->located = true;
    for (size_t i = 0; i < n; i++) {
        uint32_t old;
        if (!map_put(z->names, aliases[i].name, (uint32_t)z->n, &old))
            return fail_memory(w->err);
        if (old == MAP_NONE)
            all[z->n++] = aliases[i];
    }
    return CKPT_OK;
}

/* sums_of_none - where all entries but one have no checksum, that one is damage. */
static void sums_of_none(zip *z)
{
    size_t with = 0, without = 0, at = 0;
    for (size_t i = 0; i < z->n; i++)
        if (z->entries[i].crc) {
            at = i;
            with++;
        } else {
            without += z->entries[i].usize > 0; /* bounded: by n */
        }
    if (with == 1 && without > 1) {
        z->entries[at].crc = 0;
        z->crc_none = true;
    }
}

static ckpt_status check_directory(struct walk *w, zip *z)
{
    struct zip_entry alias, *aliases = NULL;
    size_t n = 0, cap = 0;
    sums_of_none(z);
    for (size_t i = 0; i < z->n; i++) {
        bool whole;
        CKPT_TRY(check_member(w, z, i, &whole));
        if (whole)
            continue;
        if (!w->names)
            CKPT_TRY(walk_records(w));
        CKPT_TRY(mend(w, z, i, &alias));
        if (!alias.name.ptr)
            continue;
        aliases = arena_grow(w->a, aliases, n, &cap, n + 1, sizeof *aliases);
        if (!aliases)
            return fail_memory(w->err);
        aliases[n++] = alias;
    }
    return w->names ? add_aliases(w, z, aliases, n) : CKPT_OK;
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
    map_free(w.names);
    if (st == CKPT_OK)
        *out = z;
    else
        zip_close(z);
    return st;
}
