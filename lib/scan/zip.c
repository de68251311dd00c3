/*
 * zip.c - every member of an archive, whatever its name: those that the directory
 * lists and those that only stand in the file.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/store.h"
#include "codec/inflate.h"
#include "codec/unpack_archive.h"
#include "codec/zip_audit.h"
#include "codec/zip_end.h"
#include "codec/zip_header.h"
#include "format/recognize.h"
#include "scan/scan.h"

#define PEEK  65536u /* of a deflated storage, to see that it is none of a file */
#define CHUNK 65536u

/* Bytes of members that are scanned, at most: OVERLAP_FREE and so many times what the file and what is
 * unpacked of it have. Each of the archives around a member, up to 4, reads it once. */
#define PASSES       16u
#define OVERLAP_FREE ((uint64_t)64 << 20)

/* Bytes that belong to no member. */
struct stray {
    uint64_t from, n;
};

struct archive {
    struct scanner *x;
    struct stray *strays;
    size_t nstrays, cap_strays;
    struct zip_audit z;
    ckpt_str where;
    bool torch, told;           /* its archive; a flaw was */
    bool whole;                 /* the member that is scanned is known to its last byte */
    uint64_t unpacked, allowed; /* bytes that its deflated members gave, and may give */
    uint32_t *first;            /* by view: the first one that is scanned for the same bytes, itself mostly */
    bool *known;                /* by view: whole */
    uint8_t *sums;              /* by view, CKPT_DIGEST_MAX bytes each; NULL: no sums are wanted */
};

/* below - is NAME in FOLDER, which ends in '/', or in a folder of that name further down? */
static bool below(ckpt_str name, const char *folder)
{
    ckpt_str f = str_c(folder);
    for (size_t at = 0; (at = str_find(name, f, at)) != SIZE_MAX; at++)
        if (at == 0 || name.ptr[at - 1] == '/')
            return true;
    return false;
}

/* by_torch - is it an archive of torch, as a member tells that all of them have? */
static bool by_torch(const struct zip_audit *z)
{
    static const char *const marks[] = {"version", "data.pkl", "model.json", "archive_format"};
    for (size_t i = 0; i < z->n; i++)
        for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
            if (str_is(str_after_last(z->views[i].name, '/'), marks[m]))
                return true;
    return false;
}

/* role_of - torch keeps storages in folders of their own, and nothing else there. */
static enum scan_role role_of(const struct archive *r, ckpt_str name)
{
    bool storage = below(name, "data/") || below(name, "tensors/") || below(name, "constants/") ||
                   str_ends(name, STR_LIT(".storage"));
    return storage && r->torch ? SCAN_STORAGE : SCAN_MEMBER;
}

/* unlike_torch - what torch's writer never does: folders beside its own, packed storages. */
static bool unlike_torch(struct archive *r)
{
    const struct zip_view *first = r->z.views;
    size_t n = str_find(first->name, STR_LIT("/"), 0);
    for (size_t i = 0; n != SIZE_MAX && i < r->z.n; i++) {
        const struct zip_view *v = &r->z.views[i];
        ckpt_str where = scan_join(r->x, r->where, v->name);
        if (!where.ptr)
            return !scan_failed(r->x->s, CKPT_ENOMEM, NULL);
        if (!v->listed)
            continue;
        if (str_find(v->name, str_of(first->name.ptr, n + 1), 0) != 0) { /* bounded: the slash is there */
            r->told = true;
            if (!scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, v->from,
                            "is outside of {=the folder \"%.*s\"}, where torch has all", (int)n,
                            first->name.ptr))
                return false;
        }
        if (v->method && role_of(r, v->name) == SCAN_STORAGE &&
            !scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, v->from,
                        "a storage compressed by {method %u}; torch reads them {=as they are}", v->method))
            return false;
    }
    return true;
}

static void flaw(void *user, const struct zip_flaw *f)
{
    struct archive *r = user;
    ckpt_str where = f->name.len ? scan_join(r->x, r->where, f->name) : r->where;
    struct stray *grown = f->n ? arena_grow(r->x->a, r->strays, r->nstrays, &r->cap_strays, r->nstrays + 1,
                                            sizeof *grown)
                               : r->strays;
    r->told = true;
    if (!where.ptr || (f->n && !grown)) {
        (void)scan_failed(r->x->s, CKPT_ENOMEM, NULL);
        return;
    }
    r->strays = grown;
    if (f->n)
        grown[r->nstrays++] = (struct stray){f->from, f->n};
    if (f->text && f->value)
        (void)scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, f->at, "%s %" PRIu64, f->text, f->value);
    else if (f->text)
        (void)scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, f->at, "%s", f->text);
    else if (f->bits)
        (void)scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, f->at,
                         "%s: {%08" PRIx64 "} here, {=%08" PRIx64 "} in the directory at 0x%" PRIx64, f->what,
                         f->value, f->other_value, f->other);
    else
        (void)scan_found(r->x->s, SCAN_ZIP001, where, r->z.src, f->at,
                         "%s: {%" PRIu64 "} here, {=%" PRIu64 "} in the directory at 0x%" PRIx64, f->what,
                         f->value, f->other_value, f->other);
}

/* ------------------------------------------------------------------ members */

/* inflated - the deflated member V, which its archive says has usize bytes. */
static ckpt_status inflated(struct archive *r, const struct zip_view *v, ckpt_str where, enum scan_role role,
                            source **out, ckpt_error *err)
{
    struct scanner *x = r->x;
    ckpt_error why;
    uint64_t used, all = x->s->opts->max_unpacked, left = all - x->unpacked;
    if (r->allowed - r->unpacked < left) { /* bounded: never more than is allowed */
        all = r->allowed;
        left = all - r->unpacked;
    }
    uint64_t most = role == SCAN_STORAGE ? PEEK : v->usize < left ? v->usize : left;
    spool *to = spool_new(most);
    if (!to)
        return fail_memory(err);
    ckpt_status st = inflate_into(r->z.src, v->data, v->csize, INFLATE_RAW, to, &used, &why);
    x->unpacked += spool_size(to); /* bounded: by left */
    r->unpacked += spool_size(to); /* bounded: the same */
    if (st == CKPT_EIO || st == CKPT_ENOMEM) {
        spool_free(to);
        *err = why;
        return st;
    }
    bool go = true;
    if (st == CKPT_ELIMIT && role != SCAN_STORAGE && most == left && left < v->usize)
        go = scan_found(x->s, SCAN_ARC002, where, r->z.src, v->at,
                        "unpacks to {more} than {=%" PRIu64 " bytes} in all", all);
    else if (st == CKPT_ELIMIT && role != SCAN_STORAGE)
        go = scan_found(x->s, SCAN_ZIP001, where, r->z.src, v->at,
                        "unpacks to {more} than the {=%" PRIu64 " bytes} that are stated", v->usize);
    else if (st != CKPT_OK && st != CKPT_ELIMIT)
        go = scan_found(x->s, SCAN_ZIP001, where, r->z.src, v->at, "%s", why.what);
    else if (st == CKPT_OK && spool_size(to) != v->usize)
        go = scan_found(x->s, SCAN_ZIP001, where, r->z.src, v->at,
                        "unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} are stated", spool_size(to),
                        v->usize);
    *out = spool_source(to);
    return go ? CKPT_OK : CKPT_ECANCELLED;
}

static ckpt_status check_crc(struct archive *r, const struct zip_view *v, source *src, ckpt_str where,
                             ckpt_error *err)
{
    unsigned char *chunk = malloc(CHUNK);
    uint32_t crc = 0;
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    for (uint64_t at = 0, n; st == CKPT_OK && at < src->size;
         at += n) { /* bounded: n is what is left, at most */
        n = src->size - at < CHUNK ? src->size - at : CHUNK;
        st = source_read(src, at, chunk, (size_t)n, err);
        if (st == CKPT_OK)
            crc = crc32_update(crc, chunk, (size_t)n);
    }
    free(chunk);
    if (st != CKPT_OK || crc == v->crc)
        return st;
    return scan_found(r->x->s, SCAN_ZIP002, where, r->z.src, v->from,
                      "its CRC-32 is {%08x}, the archive says {=%08x}; not every loader looks", crc, v->crc)
               ? CKPT_OK
               : CKPT_ECANCELLED;
}

/* cannot - the member is encrypted or packed in a way that is not known here. */
static bool cannot(struct archive *r, const struct zip_view *v, ckpt_str where)
{
    return v->flags & ZIP_FLAGS_ENCRYPTED
               ? scan_found(r->x->s, SCAN_ARC002, where, r->z.src, v->at,
                            "it is encrypted or a patch to another file ({flags 0x%04x})", v->flags)
               : scan_found(r->x->s, SCAN_ARC002, where, r->z.src, v->at, "it is compressed by {method %u}",
                            v->method);
}

/* sum_of - where the sum of V is kept; NULL: none is wanted. */
static uint8_t *sum_of(const struct archive *r, const struct zip_view *v)
{
    return r->sums ? r->sums + (size_t)(v - r->z.views) * CKPT_DIGEST_MAX : NULL;
}

/* readers_of - who finds V. */
static unsigned readers_of(const struct zip_view *v)
{
    return (v->listed ? CKPT_SCAN_BY_DIRECTORY : 0u) | (!v->listed || !v->disputed ? CKPT_SCAN_BY_LOCAL : 0u);
}

static ckpt_status scan_member(struct archive *r, const struct zip_view *v, source *src, ckpt_str where,
                               ckpt_error *err)
{
    struct scanner *x = r->x;
    enum scan_role role = role_of(r, v->name);
    uint64_t known = 0;
    x->s->result->members++;
    if (!checked_add(x->member_bytes, src->size, &x->member_bytes))
        x->member_bytes = UINT64_MAX;
    CKPT_TRY(scan_sum(x, src, where, readers_of(v), sum_of(r, v), err));
    if (role != SCAN_STORAGE && v->crc)
        CKPT_TRY(check_crc(r, v, src, where, err));
    x->depth++;
    ckpt_status st = scan_bytes(x, src, where, role, &known, err);
    x->depth--;
    r->whole = known >= src->size;
    return st;
}

/* A member that libarchive unpacks. */
struct unpacking {
    struct archive *r;
    const struct zip_view *v;
    ckpt_str where;
    uint64_t got;
};

static ckpt_status unpacked(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct unpacking *p = user;
    (void)name;
    p->got += bytes->size;            /* bounded: by what may be unpacked */
    p->r->x->unpacked += bytes->size; /* bounded: the same */
    return scan_member(p->r, p->v, bytes, p->where, err);
}

/* alone - the LZMA stream of V as files of the name .lzma have it: APPNOTE 5.8 puts a version and the length
 * of the properties (2 bytes each) before those 5; there 8 bytes of the size stand behind them. */
static ckpt_status alone(struct archive *r, const struct zip_view *v, source **out, ckpt_error *err)
{
    unsigned char head[17], chunk[4096];
    if (v->csize < 9)
        return fail(err, CKPT_EFORMAT, source_pos(r->z.src, v->data), "LZMA data of %" PRIu64 " bytes",
                    v->csize);
    CKPT_TRY(source_read(r->z.src, v->data, head, 9, err));
    spool *to = spool_new(v->csize + 4); /* bounded: it lies in the file */
    if (!to)
        return fail_memory(err);
    store_u64le(head + 9, v->flags & 2 ? UINT64_MAX : v->usize); /* 2: an end is marked */
    ckpt_status st = spool_write(to, head + 4, 13, err);
    for (uint64_t at = 9, n; st == CKPT_OK && at < v->csize;
         at += n) { /* bounded: n is what is left, at most */
        n = v->csize - at < sizeof chunk ? v->csize - at : sizeof chunk;
        st = source_read(r->z.src, v->data + at, chunk, (size_t)n, err); /* bounded: inside the member */
        if (st == CKPT_OK)
            st = spool_write(to, chunk, (size_t)n, err);
    }
    if (st == CKPT_OK)
        *out = spool_source(to);
    else
        spool_free(to);
    return st;
}

/* by_libarchive - a member compressed by bzip2 (12), LZMA (14) or zstd (93). */
static ckpt_status by_libarchive(struct archive *r, const struct zip_view *v, ckpt_str where, ckpt_error *err)
{
    struct scanner *x = r->x;
    struct unpacking p = {r, v, where, 0};
    uint64_t left = x->s->opts->max_unpacked - x->unpacked;
    struct unpack u = {.max = v->usize < left ? v->usize : left, .member = unpacked, .user = &p};
    source *src = NULL;
    ckpt_error why;
    ckpt_status st = v->method == 14 ? alone(r, v, &src, &why)
                                     : source_slice(r->z.src, v->data, v->csize, &src, &why);
    if (st == CKPT_OK)
        st = unpack_archive(src, &u, &why);
    source_unref(src);
    if (st == CKPT_EIO || st == CKPT_ENOMEM || st == CKPT_ECANCELLED) {
        *err = why;
        return st;
    }
    bool go = true;
    if (st == CKPT_EFORMAT || (st == CKPT_ELIMIT && v->usize <= left))
        go = scan_found(x->s, SCAN_ZIP001, where, r->z.src, v->at, "method %u: %s", v->method, why.what);
    else if (st != CKPT_OK)
        go = scan_found(x->s, SCAN_ARC002, where, r->z.src, v->at, "it is compressed by {method %u}: %s",
                        v->method, why.what);
    else if (p.got != v->usize)
        go = scan_found(x->s, SCAN_ZIP001, where, r->z.src, v->at,
                        "unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} are stated", p.got, v->usize);
    return go ? CKPT_OK : CKPT_ECANCELLED;
}

static ckpt_status member(struct archive *r, const struct zip_view *v, ckpt_error *err)
{
    source *src = NULL;
    /* an entry that the end of the directory cuts has no name */
    ckpt_str where = scan_join(r->x, r->where, v->name.ptr ? v->name : str_of("", 0));
    if (!where.ptr)
        return fail_memory(err);
    if (!v->reachable || v->csize == 0)
        return CKPT_OK;
    if (!(v->flags & ZIP_FLAGS_ENCRYPTED) && (v->method == 12 || v->method == 14 || v->method == 93))
        return by_libarchive(r, v, where, err);
    if (v->method != ZIP_STORED && v->method != ZIP_DEFLATED)
        return cannot(r, v, where) ? CKPT_OK : CKPT_ECANCELLED;
    ckpt_status st = v->method == ZIP_STORED ? source_slice(r->z.src, v->data, v->csize, &src, err) : CKPT_OK;
    bool plain = st == CKPT_OK && src && v->flags & ZIP_FLAGS_OPAQUE &&
                 scan_is_pickle(r->x, src, 0, src->size, true);
    if (st == CKPT_OK && v->flags & ZIP_FLAGS_OPAQUE) {
        bool go = plain ? scan_found(
                              r->x->s, SCAN_ZIP001, where, r->z.src, v->from,
                              "is said to be encrypted or a patch ({flags 0x%04x}), and is a plain pickle",
                              v->flags)
                        : cannot(r, v, where);
        r->told = true;
        if (!go || !plain) {
            source_unref(src);
            return go ? CKPT_OK : CKPT_ECANCELLED;
        }
    }
    if (st == CKPT_OK && !src)
        st = inflated(r, v, where, role_of(r, v->name), &src, err);
    if (st == CKPT_OK)
        st = scan_member(r, v, src, where, err);
    source_unref(src);
    return st;
}

/* ------------------------------------------------------------------ archive */

/* has_code - members by the names in SUFFIXES (words), which are WHAT and run when they are loaded. */
static bool has_code(struct archive *r, const char *suffixes, const char *what)
{
    size_t n = 0;
    ckpt_str first = str_of("", 0);
    for (size_t i = 0; i < r->z.n; i++) {
        ckpt_str rest = str_c(suffixes);
        bool ends = false;
        for (ckpt_str one = str_take_word(&rest); one.len && !ends; one = str_take_word(&rest))
            ends = str_ends(r->z.views[i].name, one);
        if (ends && n++ == 0)
            first = r->z.views[i].name;
    }
    return n == 0 ||
           scan_found(r->x->s, SCAN_SRC001, r->where, NULL, CKPT_NO_OFFSET,
                      "%zu file%s of %s, the first is %.*s", n, n == 1 ? "" : "s", what, STR_ARG(first));
}

/* Where the bytes of a view lie, and all that decides how they are scanned. */
struct extent {
    uint64_t data, csize, usize;
    uint32_t index; /* of the view */
    uint16_t method, flags;
    uint8_t role, promised;
};

static int by_extent(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    const uint64_t pairs[][2] = {{x->data, y->data},        {x->csize, y->csize}, {x->usize, y->usize},
                                 {x->method, y->method},    {x->flags, y->flags}, {x->role, y->role},
                                 {x->promised, y->promised}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool same_extent(struct extent x, const struct extent *y)
{
    x.index = y->index;
    return by_extent(&x, y) == 0;
}

/* find_shared - the views whose bytes are scanned for others, too. */
static ckpt_status find_shared(struct archive *r, ckpt_error *err)
{
    struct extent *e = calloc(r->z.n + 1, sizeof *e); /* bounded: as many as there are views */
    r->first = arena_array(r->x->a, r->z.n, sizeof *r->first);
    r->known = arena_array(r->x->a, r->z.n, sizeof *r->known);
    if (r->x->s->opts->sha256)
        r->sums = arena_array(r->x->a, r->z.n, CKPT_DIGEST_MAX);
    if (!e || !r->first || !r->known || (r->x->s->opts->sha256 && !r->sums)) {
        free(e);
        return fail_memory(err);
    }
    for (size_t i = 0; i < r->z.n; i++) {
        const struct zip_view *v = &r->z.views[i];
        e[i] = (struct extent){v->data,
                               v->csize,
                               v->usize,
                               (uint32_t)i,
                               v->method,
                               v->flags,
                               (uint8_t)role_of(r, v->name),
                               scan_promised(v->name)};
    }
    qsort(e, r->z.n, sizeof *e, by_extent);
    for (size_t i = 0; i < r->z.n; i++)
        r->first[e[i].index] = i && same_extent(e[i - 1], &e[i]) ? r->first[e[i - 1].index] : e[i].index;
    free(e);
    return CKPT_OK;
}

static struct scan_extent extent_of(const struct archive *r, const struct zip_view *v)
{
    return v->method ? (struct scan_extent){CKPT_NO_OFFSET, v->usize}
                     : (struct scan_extent){source_pos(r->z.src, v->data), v->csize};
}

/* refer - V has the bytes of FIRST, which were scanned. */
static ckpt_status refer(struct archive *r, const struct zip_view *v, const struct zip_view *first,
                         ckpt_error *err)
{
    struct scanner *x = r->x;
    ckpt_str where = scan_join(x, r->where, v->name);
    if (!where.ptr)
        return fail_memory(err);
    x->s->result->members++;
    bool go = scan_found(x->s, SCAN_ZIP005, where, r->z.src, v->from,
                         "has the bytes of %.*s (header at 0x%" PRIx64 "), and is scanned as that",
                         first->name.len > 200 ? 200 : (int)first->name.len, first->name.ptr, first->from);
    if (go && v->crc && first->crc && v->crc != first->crc)
        go = scan_found(x->s, SCAN_ZIP002, where, r->z.src, v->from,
                        "two CRC-32 for the same bytes: {%08x} here, {=%08x} for the other", v->crc,
                        first->crc);
    if (go && r->sums)
        go = scan_sum_tell(x, where, readers_of(v), extent_of(r, v), sum_of(r, first));
    return go ? CKPT_OK : CKPT_ECANCELLED;
}

/* over_budget - members may lie over each other, in archives over each other: what is scanned for them is
 * bounded by what there is. */
static bool over_budget(const struct scanner *x)
{
    uint64_t there = x->file_size / 2 + x->unpacked / 2; /* bounded: halves */
    return x->member_bytes > OVERLAP_FREE && (x->member_bytes - OVERLAP_FREE) / PASSES / 2 > there;
}

/* members - each is scanned; *KNOWN is what is left of SIZE bytes without those that are not known. */
static ckpt_status members(struct archive *r, uint64_t size, uint64_t *known, ckpt_error *err)
{
    *known = size;
    CKPT_TRY(find_shared(r, err));
    for (size_t i = 0; i < r->z.n; i++) {
        const struct zip_view *v = &r->z.views[i];
        uint32_t first = r->first[i];
        r->whole = false;
        if (over_budget(r->x))
            return scan_found(r->x->s, SCAN_ARC002, r->where, r->z.src, v->at,
                              "its members lie over each other; of %zu, %zu were looked into", r->z.n, i)
                       ? CKPT_OK
                       : CKPT_ECANCELLED;
        if (first == i || !v->reachable || v->csize == 0)
            CKPT_TRY(member(r, v, err));
        else
            CKPT_TRY(refer(r, v, &r->z.views[first], err));
        r->known[i] = first == i ? r->whole : r->known[first];
        if (!r->known[i] && v->reachable && v->listed)
            *known -= v->csize < *known ? v->csize : *known; /* bounded: members may lie over each other */
    }
    return CKPT_OK;
}

/* open_zip - SRC is about to be scanned as an archive; *AT is where it is listed. What lies in it up to its
 * end record, such as a member without a size, is no archive of its own. */
static ckpt_status open_zip(struct scanner *x, source *src, size_t *at, ckpt_error *err)
{
    struct zip_claim c;
    uint64_t off;
    const source *root = source_root(src, &off);
    CKPT_TRY(zip_end_claim(src, &c, err));
    struct opened_zip *grown = arena_grow(x->a, x->opened, x->nopened, &x->cap_opened, x->nopened + 1,
                                          sizeof *grown);
    if (!grown)
        return fail_memory(err);
    x->opened = grown;
    *at = x->nopened++;
    /* bounded: the slice lies in its root */
    grown[*at] = (struct opened_zip){root, c.n ? off + c.at : UINT64_MAX, UINT64_MAX, x->stray};
    return CKPT_OK;
}

/* close_zip - Z was scanned: readers who find the same record in a source around it open nothing else. */
static void close_zip(struct opened_zip *o, const struct zip_audit *z)
{
    uint64_t off;
    (void)source_root(z->src, &off);
    o->record = z->record ? off + z->record : UINT64_MAX; /* bounded: both lie in the root */
    o->directory = off + z->directory;
}

/* find_opened - the archive that C claims, if it was scanned already, or is around it; NULL: neither. */
static const struct opened_zip *find_opened(const struct scanner *x, const source *src,
                                            const struct zip_claim *c)
{
    uint64_t off;
    const source *root = source_root(src, &off);
    for (size_t i = 0; i < x->nopened; i++) {
        const struct opened_zip *z = &x->opened[i];
        if (z->root == root && z->record == off + c->at && /* bounded: both lie in the root */
            (z->directory == UINT64_MAX || (c->n == 1 && z->directory == off + c->directories[0])))
            return z;
    }
    return NULL;
}

/* strays - what lies around the members of R and belongs to none; around the archive, too, unless it is a
 * GUEST in a file that is scanned as something else. */
static ckpt_status strays(struct archive *r, bool guest, ckpt_error *err)
{
    source *src = r->z.src;
    struct probe p = {.size = 0};
    uint64_t before = r->z.first; /* 0, too, where the directory leads to no member */
    CKPT_TRY(recognize_fill(&p, r->x->path, src, err));
    if (before == 0 && !recognize_as(&p, SIGN_ZIP))
        before = src->size;
    ckpt_status st = guest ? CKPT_OK : scan_stray(r->x, src, r->where, 0, before, err);
    if (st == CKPT_OK && r->z.end && !guest)
        st = scan_stray(r->x, src, r->where, r->z.end, src->size, err);
    for (size_t i = 0; st == CKPT_OK && i < r->nstrays; i++) {
        const struct stray *s = &r->strays[i];
        st = scan_stray(r->x, src, r->where, s->from, s->from + s->n, err); /* bounded: they are there */
    }
    return st;
}

static ckpt_status scan_archive(struct scanner *x, source *src, ckpt_str where, bool guest, uint64_t *known,
                                ckpt_error *err)
{
    struct archive *r = arena_alloc(x->a, sizeof *r);
    if (!r)
        return fail_memory(err);
    *r = (struct archive){.x = x, .where = where, .z = {.src = src, .a = x->a, .flaw = flaw, .user = r}};
    r->allowed = scan_allowed(x, src->size);
    x->format = x->depth || guest ? x->format : "zip";
    if (x->depth >= x->s->opts->max_depth)
        return scan_found(x->s, SCAN_ARC002, where, NULL, CKPT_NO_OFFSET, "an archive nested too deep")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    uint64_t here = 0;
    size_t at = 0;
    CKPT_TRY(open_zip(x, src, &at, err));
    ckpt_status st = zip_audit(&r->z, err);
    r->torch = by_torch(&r->z);
    if (st == CKPT_OK)
        st = members(r, src->size, &here, err);
    if (st == CKPT_OK)
        st = strays(r, guest, err);
    if (st == CKPT_OK && r->torch && !unlike_torch(r))
        st = CKPT_ECANCELLED;
    /* AOTInductor keeps a library beside the weights of a .pt2, which torch opens to run it */
    if (st == CKPT_OK && !(has_code(r, ".py", "program text") &&
                           has_code(r, ".so .dylib .dll .pyd .pyc .cubin .hsaco", "machine or byte code")))
        st = CKPT_ECANCELLED;
    *known += here; /* bounded: archives of a row lie one behind the other */
    close_zip(&x->opened[at], &r->z);
    return st == CKPT_OK && !r->told && !guest ? scan_strict(x, src, where, NULL, NULL, err) : st;
}

/* A source as archives one after the other, to its first byte: where all but the first
 * begin, last one first; .n 0: it is no such row. */
struct pieces {
    uint64_t *starts;
    size_t n, cap;
};

static ckpt_status row_of(struct scanner *x, source *src, struct pieces *r, ckpt_error *err)
{
    uint64_t end = src->size, start;
    while (zip_find_concatenated(src, end, &start)) {
        if (start == 0)
            return CKPT_OK;
        uint64_t *grown = arena_grow(x->a, r->starts, r->n, &r->cap, r->n + 1, sizeof *grown);
        if (!grown)
            return fail_memory(err);
        r->starts = grown;
        r->starts[r->n++] = end = start;
    }
    r->n = 0;
    return CKPT_OK;
}

static ckpt_status scan_piece(struct scanner *x, source *src, ckpt_str outer, uint64_t from, uint64_t to,
                              uint64_t *known, ckpt_error *err)
{
    source *part;
    ckpt_str where = scan_join(x, outer, arena_printf(x->a, "archive@0x%" PRIx64, from));
    if (!where.ptr)
        return fail_memory(err);
    CKPT_TRY(source_slice(src, from, to - from, &part, err));
    ckpt_status st = scan_archive(x, part, where, false, known, err);
    source_unref(part);
    return st;
}

ckpt_status scan_zip(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    struct pieces r = {0};
    uint64_t from = 0;
    CKPT_TRY(row_of(x, src, &r, err));
    if (r.n == 0)
        return scan_archive(x, src, where, false, known, err);
    if (!scan_found(x->s, SCAN_ZIP003, where, src, 0, "%zu archives one after the other", r.n + 1))
        return CKPT_ECANCELLED;
    for (size_t i = r.n; i-- > 0; from = r.starts[i])
        CKPT_TRY(scan_piece(x, src, where, from, r.starts[i], known, err));
    CKPT_TRY(scan_piece(x, src, where, from, src->size, known, err));
    return CKPT_OK;
}

ckpt_status scan_end_archive(struct scanner *x, source *src, ckpt_str where, ckpt_error *err)
{
    struct zip_claim c;
    uint64_t known = 0;
    CKPT_TRY(zip_end_claim(src, &c, err));
    if (c.n == 0)
        return CKPT_OK;
    const struct opened_zip *before = find_opened(x, src, &c);
    if (before && before->directory == UINT64_MAX)
        return CKPT_OK;
    if (before && !before->stray)
        return scan_found(
                   x->s, SCAN_ZIP004, where, src, c.at,
                   "the archive that ends here is a member, and scanned as that; readers of zip open it "
                   "for the file")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    if (!scan_found(x->s, SCAN_FMT004, where, src, c.at,
                    "polyglot: also a zip archive, which readers of zip open by this end record"))
        return CKPT_ECANCELLED;
    if (before)
        return CKPT_OK;
    ckpt_str inside = scan_join(x, where, arena_printf(x->a, "archive@0x%" PRIx64, c.at));
    const char *format = x->format; /* stays what it was */
    ckpt_status st = inside.ptr ? scan_archive(x, src, inside, true, &known, err) : fail_memory(err);
    x->format = format;
    return st;
}
