/*
 * zip_audit.c - see zip_audit.h. The layout of an archive is in zip_layout.c and
 * zip_end.c. What is held against each other, and why it matters:
 *   name, method, flags, CRC, sizes of directory and local header: readers that go by one
 *     or the other read other bytes (CVE-2025-1944, -1945)
 *   entries in the directory and members in the file: a member that no directory lists is
 *     read by whoever streams; one end record too many is another archive
 *   extents: two members that share bytes, bytes that belong to none
 *   names: twice the same, or the same but for case or slashes; absolute, "..", drives; a
 *     second one in an extra field (0x7075), which some readers prefer; no UTF-8 under its flag
 *   extra fields: cut ones, zip64 values for sizes that are not saturated
 *   the descriptor behind the data (flag 8), the times, comments, where bytes can hide
 * Local headers of torch say 0 for CRC and sizes and set flag 8 or not; a 0 is no value.
 */
#include "codec/zip_audit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/utf8.h"
#include "codec/zip_end.h"
#include "io/reader.h"

#define CENTRAL      46u
#define LOCAL        30u
#define DESCRIPTOR   8u          /* flag: sizes follow the data */
#define UTF8_NAME    0x0800u     /* flag */
#define SEARCH       (64u << 20) /* bytes between members that are searched for hidden ones */
#define TAIL         (65535u + 22u)
#define MOST_ENTRIES 10000000u

/* ------------------------------------------------------------------ telling */

static void differs(struct zip_audit *z, const struct zip_view *v, const char *what, uint64_t local,
                    uint64_t central)
{
    struct zip_flaw f = {v->name, what, v->at, v->from, local, central, NULL, 0, 0};
    z->flaw(z->user, &f);
}

static void says(struct zip_audit *z, ckpt_str name, uint64_t at, const char *text, uint64_t value)
{
    struct zip_flaw f = {name, NULL, at, CKPT_NO_OFFSET, value, 0, text, 0, 0};
    z->flaw(z->user, &f);
}

/* hides - N bytes at FROM, told at AT, may be anything. */
static void hides(struct zip_audit *z, ckpt_str name, uint64_t at, const char *text, uint64_t from,
                  uint64_t n)
{
    struct zip_flaw f = {
        .name = name, .at = at, .other = CKPT_NO_OFFSET, .value = n, .text = text, .from = from, .n = n};
    z->flaw(z->user, &f);
}

static struct zip_view *add(struct zip_audit *z)
{
    struct zip_view *grown = arena_grow(z->a, z->views, z->n, &z->cap, z->n + 1, sizeof *grown);
    if (!grown)
        return NULL;
    z->views = grown;
    grown[z->n] = (struct zip_view){0};
    return &grown[z->n++];
}

/* wide - the 64-bit values of those fields that are saturated, in order; how many bytes of the
 * field nothing asks for. */
static size_t wide(cursor extra, uint64_t *usize, uint64_t *csize, uint64_t *at)
{
    while (extra.left >= 4) {
        uint16_t id = cursor_u16(&extra), n = cursor_u16(&extra);
        cursor field = cursor_sub(&extra, n);
        if (id != 1 || extra.bad)
            continue;
        if (usize && *usize == UINT32_MAX)
            *usize = cursor_u64(&field);
        if (csize && *csize == UINT32_MAX)
            *csize = cursor_u64(&field);
        if (at && *at == UINT32_MAX)
            *at = cursor_u64(&field);
        return field.left;
    }
    return 0;
}

/* check_extra - fields one behind the other to the last byte, and none that is another name. */
static void check_extra(struct zip_audit *z, ckpt_str name, uint64_t at, cursor extra)
{
    while (extra.left >= 4) {
        uint16_t id = cursor_u16(&extra), n = cursor_u16(&extra);
        if (n > extra.left) {
            says(z, name, at, "an extra field reaches beyond its header, by bytes:", n - extra.left);
            return;
        }
        (void)cursor_sub(&extra, n);
        if (id == 0x7075)
            says(z, name, at, "has another name in an extra field, which some readers prefer", 0);
    }
    if (extra.left)
        says(z, name, at, "bytes after the last extra field:", extra.left);
}

static bool ascii(ckpt_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] >= 0x80)
            return false;
    return true;
}

/* -------------------------------------------------------------------- names */

static const char *odd_name(ckpt_str name)
{
    const unsigned char *c = (const unsigned char *)name.ptr;
    if (name.len == 0)
        return "has no name";
    if (c[0] == '/' || c[0] == '\\' || (name.len > 1 && c[1] == ':'))
        return "is an absolute path";
    for (size_t i = 0; i < name.len; i++) {
        bool begins = i == 0 || c[i - 1] == '/' || c[i - 1] == '\\';
        if (c[i] < 32 || c[i] == 127)
            return "has a control character in its name";
        if (begins && i + 1 < name.len && c[i] == '.' && c[i + 1] == '.' &&
            (i + 2 == name.len || c[i + 2] == '/' || c[i + 2] == '\\'))
            return "leads out of its folder by \"..\"";
    }
    return NULL;
}

/* plain_name - lower case, slashes one way: what a careless file system takes for the same. */
static ckpt_str plain_name(arena *a, ckpt_str name)
{
    ckpt_str copy = arena_str(a, name);
    char *c = (char *)(uintptr_t)copy.ptr; /* ours, just made */
    for (size_t i = 0; c && i < copy.len; i++)
        c[i] = c[i] == '\\' ? '/' : c[i] >= 'A' && c[i] <= 'Z' ? (char)(c[i] - 'A' + 'a') : c[i];
    return copy;
}

static bool check_names(struct zip_audit *z)
{
    map *seen = map_new(z->n);
    bool ok = seen != NULL;
    for (size_t i = 0; ok && i < z->n && z->views[i].listed; i++) {
        const struct zip_view *v = &z->views[i];
        uint32_t old = MAP_NONE;
        const char *odd = odd_name(v->name);
        ckpt_str plain = plain_name(z->a, v->name);
        ok = plain.ptr && map_put(seen, plain, (uint32_t)i, &old);
        if (odd)
            says(z, v->name, v->from, odd, 0);
        if (ok && old != MAP_NONE)
            says(z, v->name, v->from,
                 str_eq(z->views[old].name, v->name) ? "has the name of another member, that of the entry at"
                                                     : "has the name of another but for case or slashes, at",
                 z->views[old].from);
    }
    map_free(seen);
    return ok;
}

/* ---------------------------------------------------------------- directory */

static ckpt_status read_entry(struct zip_audit *z, reader *r, uint64_t shift)
{
    uint64_t from = r->pos;
    const unsigned char *h = reader_take(r, CENTRAL);
    if (!h)
        return r->status;
    unsigned char head[CENTRAL];
    memcpy(head, h, CENTRAL);
    uint16_t nname = load_u16le(head + 28), nextra = load_u16le(head + 30), ncomment = load_u16le(head + 32);
    struct zip_view *v = add(z);
    h = reader_take(r, nname);
    if (!v || !h)
        return v ? r->status : CKPT_ENOMEM;
    v->name = arena_str(z->a, str_of((const char *)h, nname));
    if (!v->name.ptr)
        return CKPT_ENOMEM;
    v->listed = true;
    v->from = from;
    v->flags = load_u16le(head + 8);
    v->method = load_u16le(head + 10);
    v->crc = load_u32le(head + 16);
    v->csize = load_u32le(head + 20);
    v->usize = load_u32le(head + 24);
    v->at = load_u32le(head + 42);
    v->time = load_u32le(head + 12);
    h = reader_take(r, nextra);
    if (!h)
        return r->status;
    size_t more = wide(cursor_of(h, nextra, 0), &v->usize, &v->csize, &v->at);
    if (more && more != 4) /* 4: the number of a disk */
        says(z, v->name, from, "a zip64 field for numbers that fit without it, bytes:", more);
    check_extra(z, v->name, from, cursor_of(h, nextra, 0));
    if (v->flags & UTF8_NAME && !utf8_check(v->name, false, NULL))
        says(z, v->name, from, "its name is said to be UTF-8 and is not", 0);
    if (load_u16le(head + 34))
        says(z, v->name, from, "is on another disk, number", load_u16le(head + 34));
    if (!checked_add(v->at, shift, &v->at))
        v->at = UINT64_MAX;
    if (load_u32le(head + 38) >> 28 == 0xA)
        says(z, v->name, from, "is a symbolic link", 0);
    if (ncomment)
        hides(z, v->name, from, "has a comment, in which bytes can hide:", r->pos, ncomment);
    return reader_skip(r, ncomment) ? CKPT_OK : r->status;
}

static ckpt_status read_directory(struct zip_audit *z, const struct zip_end *end, ckpt_error *err)
{
    reader r;
    ckpt_error why;
    uint64_t last;
    z->directory = end->offset;
    z->end = end->end;
    z->record = end->at;
    if (!checked_add(end->offset, end->size, &last))
        return CKPT_OK;
    ckpt_status st = reader_init(&r, z->src, end->offset, last, &why);
    while (st == CKPT_OK && reader_left(&r) && z->n < MOST_ENTRIES) {
        const unsigned char *h = reader_peek(&r, reader_left(&r) < 4 ? (size_t)reader_left(&r) : 4);
        if (!h || reader_left(&r) < 4 || load_u32le(h) != 0x02014B50) {
            says(z, str_of("", 0), r.pos, "bytes of the directory that are no entries:", reader_left(&r));
            break;
        }
        st = read_entry(z, &r, end->shift);
    }
    reader_free(&r);
    if (st == CKPT_ENOMEM || st == CKPT_EIO)
        return st == CKPT_ENOMEM ? fail_memory(err)
                                 : fail(err, st, CKPT_NO_OFFSET, "the directory cannot be read");
    if (st != CKPT_OK)
        says(z, str_of("", 0), end->offset, "the directory ends inside an entry", 0);
    if (z->n != end->n) {
        struct zip_flaw f = {.name = str_of("", 0),
                             .what = "the number of entries",
                             .at = end->at,
                             .other = end->offset,
                             .value = end->n,
                             .other_value = z->n};
        z->flaw(z->user, &f);
    }
    return CKPT_OK;
}

/* more_ends - other end records in the tail that lead to a directory. */
static ckpt_status more_ends(struct zip_audit *z, const struct zip_end *end, ckpt_error *err)
{
    size_t n = z->src->size < TAIL ? (size_t)z->src->size : TAIL;
    uint64_t start = z->src->size - n;
    unsigned char *tail = malloc(n ? n : 1), sig[4];
    ckpt_status st = tail ? source_read(z->src, start, tail, n, err) : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && n >= 22 && i <= n - 22; i++) {
        if (tail[i] != 'P' || load_u32le(tail + i) != 0x06054B50 ||
            start + i == end->at) /* bounded: in the tail */
            continue;
        uint64_t dir = load_u32le(tail + i + 16);
        bool leads = load_u16le(tail + i + 10) == 0 ||
                     (range_within(dir, 4, z->src->size) &&
                      source_read(z->src, dir, sig, 4, NULL) == CKPT_OK && load_u32le(sig) == 0x02014B50);
        if (leads) /* bounded: in the tail */
            says(z, str_of("", 0), start + i, "is a second end record; the archive's is at byte", end->at);
    }
    free(tail);
    return st;
}

/* check_locator - the zip64 locator before the end record leads to the record that was found. */
static void check_locator(struct zip_audit *z, const struct zip_end *end)
{
    unsigned char b[20];
    uint64_t at;
    if (end->stop == end->at || source_read(z->src, end->at - 20, b, sizeof b, NULL) != CKPT_OK)
        return; /* bounded: there is a zip64 record, so a locator behind it */
    if (!checked_add(load_u64le(b + 8), end->shift, &at) || at != end->stop) {
        struct zip_flaw f = {.name = str_of("", 0),
                             .what = "the place of the zip64 end record",
                             .at = end->at - 20,
                             .other = end->stop,
                             .value = load_u64le(b + 8),
                             .other_value = end->stop};
        z->flaw(z->user, &f);
    }
}

/* ------------------------------------------------------------ local headers */

/* local - the header at V->at, its name in NAME (65535 bytes); false: there is none. */
static bool local(struct zip_audit *z, uint64_t at, unsigned char head[LOCAL], char *name,
                  unsigned char *extra)
{
    if (!range_within(at, LOCAL, z->src->size) || source_read(z->src, at, head, LOCAL, NULL) != CKPT_OK ||
        load_u32le(head) != 0x04034B50)
        return false;
    uint16_t nname = load_u16le(head + 26), nextra = load_u16le(head + 28);
    uint64_t from = at + LOCAL; /* bounded: by range_within */
    return range_within(from, (uint64_t)nname + nextra, z->src->size) &&
           source_read(z->src, from, name, nname, NULL) == CKPT_OK &&
           source_read(z->src, from + nname, extra, nextra, NULL) == CKPT_OK; /* bounded: by range_within */
}

/* compare - false: no memory. */
static bool compare(struct zip_audit *z, struct zip_view *v, const unsigned char *head, const char *name,
                    const unsigned char *extra)
{
    uint16_t nname = load_u16le(head + 26), nextra = load_u16le(head + 28), flags = load_u16le(head + 6);
    uint64_t usize = load_u32le(head + 22), csize = load_u32le(head + 18);
    uint32_t crc = load_u32le(head + 14);
    (void)wide(cursor_of(extra, nextra, 0), &usize, &csize, NULL);
    check_extra(z, v->name, v->at, cursor_of(extra, nextra, 0));
    if (!str_eq(str_of(name, nname), v->name)) {
        ckpt_str other = arena_printf(z->a, "is called \"%.*s\" by its local header",
                                      nname > 200 ? 200 : (int)nname, name);
        if (!other.ptr)
            return false;
        says(z, v->name, v->at, other.ptr, 0);
    }
    if (load_u16le(head + 8) != v->method)
        differs(z, v, "the method", load_u16le(head + 8), v->method);
    if ((flags ^ v->flags) & ~(DESCRIPTOR | (ascii(v->name) ? UTF8_NAME : 0)))
        differs(z, v, "the flags", flags, v->flags);
    if (load_u32le(head + 10) != v->time)
        differs(z, v, "the time", load_u32le(head + 10), v->time);
    if (flags & DESCRIPTOR || (!usize && !csize && !crc))
        return true;
    if (crc != v->crc)
        differs(z, v, "the CRC-32", crc, v->crc);
    if (csize != v->csize)
        differs(z, v, "the stored size", csize, v->csize);
    if (usize != v->usize)
        differs(z, v, "the size", usize, v->usize);
    return true;
}

/* second - the member as its local header has it, for those who go by that. */
static bool second(struct zip_audit *z, struct zip_view *v, const unsigned char *head, cursor extra)
{
    struct zip_view other = *v;
    uint64_t csize = load_u32le(head + 18), usize = load_u32le(head + 22);
    (void)wide(extra, &usize, &csize, NULL);
    bool sized = csize && csize != UINT32_MAX && !(load_u16le(head + 6) & DESCRIPTOR);
    other.method = load_u16le(head + 8);
    other.csize = sized ? csize : v->csize;
    other.usize = sized ? usize : other.method ? v->usize : v->csize;
    other.crc = 0;
    other.listed = false;
    other.reachable = range_within(other.data, other.csize, z->src->size);
    if (other.method == v->method && other.csize == v->csize)
        return true;
    v->disputed = other.disputed = true;
    struct zip_view *at = add(z); /* V may have moved */
    if (at)
        *at = other;
    return at != NULL;
}

struct headers {
    char name[65536];
    unsigned char extra[65536];
};

/* locate - where V's bytes are, by the lengths in its local header, as every reader has it. */
static bool locate(struct zip_audit *z, struct zip_view *v, struct headers *b)
{
    unsigned char head[LOCAL];
    if (!local(z, v->at, head, b->name, b->extra)) {
        says(z, v->name, v->from, "has no local header where the directory says", v->at);
        return true;
    }
    v->data = v->at + LOCAL + load_u16le(head + 26) + load_u16le(head + 28); /* bounded: read just now */
    v->reachable = range_within(v->data, v->csize, z->src->size);
    if (!compare(z, v, head, b->name, b->extra))
        return false;
    if (!v->reachable)
        says(z, v->name, v->from, "reaches beyond the end of the file", v->csize);
    if (v->method == 0 && v->csize != v->usize && !(v->flags & 1))
        differs(z, v, "stored, yet its two sizes are", v->csize, v->usize);
    return second(z, v, head, cursor_of(b->extra, load_u16le(head + 28), 0));
}

/* ------------------------------------------------------------------ extents */

static int by_place(const void *a, const void *b)
{
    const struct zip_view *x = *(const struct zip_view *const *)a, *y = *(const struct zip_view *const *)b;
    return x->at < y->at ? -1 : x->at > y->at ? 1 : x->from < y->from ? -1 : x->from > y->from;
}

/* hidden - local headers in [FROM, END) that no directory lists. */
static ckpt_status hidden(struct zip_audit *z, uint64_t from, uint64_t end, struct headers *b, bool *found,
                          ckpt_error *err)
{
    reader r;
    unsigned char head[LOCAL];
    if (end - from > SEARCH)
        end = from + SEARCH; /* bounded: END is further on */
    CKPT_TRY(reader_init(&r, z->src, from, end, err));
    while (reader_left(&r) >= LOCAL) {
        size_t n = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *w = reader_peek(&r, n), *p = w ? memmem(w, n, "PK\3\4", 4) : NULL;
        if (!w || !p) {
            if (!w || !reader_skip(&r, n > 3 ? n - 3 : n))
                break;
            if (n <= LOCAL)
                break;
            continue;
        }
        uint64_t at = r.pos + (uint64_t)(p - w); /* bounded: inside the window */
        (void)reader_skip(&r, (uint64_t)(p - w) + 4);
        if (!local(z, at, head, b->name, b->extra))
            continue;
        uint16_t nname = load_u16le(head + 26), nextra = load_u16le(head + 28);
        struct zip_view *v = add(z);
        ckpt_str name = arena_str(z->a, str_of(b->name, nname));
        if (!v || !name.ptr) {
            reader_free(&r);
            return fail_memory(err);
        }
        z->first = at < z->first ? at : z->first;
        *v = (struct zip_view){.at = at,
                               .from = at,
                               .name = name,
                               .flags = load_u16le(head + 6),
                               .method = load_u16le(head + 8),
                               .crc = load_u32le(head + 14),
                               .csize = load_u32le(head + 18),
                               .usize = load_u32le(head + 22)};
        (void)wide(cursor_of(b->extra, nextra, 0), &v->usize, &v->csize, NULL);
        v->data = at + LOCAL + nname + nextra; /* bounded: read just now */
        if (v->csize == 0 && v->data < end)
            v->csize = end - v->data; /* sizes behind the data: all that is there */
        v->reachable = range_within(v->data, v->csize, z->src->size);
        *found = true;
        says(z, v->name, at, "is in the file, not in the directory; stored bytes:", v->csize);
        uint64_t next = v->reachable ? v->data + v->csize : v->data; /* bounded: reachable, or just read */
        if (next > r.pos)
            (void)reader_skip(&r, next < end ? next - r.pos : end - r.pos);
    }
    ckpt_status st = r.status == CKPT_ETRUNCATED ? CKPT_OK : r.status;
    reader_free(&r);
    return st;
}

/* descriptor - the sizes behind the data of V, with or without "PK\7\8", in 32 or 64 bits: how
 * long it is; 0: none that says what the directory says. */
static uint64_t descriptor(struct zip_audit *z, const struct zip_view *v)
{
    uint64_t at = v->data + v->csize, left = z->src->size - at; /* bounded: reachable */
    unsigned char b[24] = {0};
    if (!(v->flags & DESCRIPTOR) ||
        source_read(z->src, at, b, left < 24 ? (size_t)left : 24, NULL) != CKPT_OK)
        return 0;
    for (size_t from = 0; from <= 4; from += 4)
        for (size_t width = 8; width >= 4; width -= 4) {
            size_t n = from + 4 + 2 * width; /* bounded: 24 at most */
            uint64_t csize = width == 8 ? load_u64le(b + from + 4) : load_u32le(b + from + 4);
            uint64_t usize = width == 8 ? load_u64le(b + from + 12) : load_u32le(b + from + 8);
            if (n <= left && (from == 0 || load_u32le(b) == 0x08074B50) && load_u32le(b + from) == v->crc &&
                csize == v->csize && usize == v->usize)
                return n;
        }
    struct zip_flaw f = {v->name,
                         "the CRC-32 in the data descriptor",
                         at,
                         v->from,
                         load_u32le(b) == 0x08074B50 ? load_u32le(b + 4) : load_u32le(b),
                         v->crc,
                         load_u32le(b) == 0x08074B50 && load_u32le(b + 4) == v->crc
                             ? "the data descriptor states other sizes"
                         : load_u32le(b) == 0x08074B50 ? NULL
                                                       : "no data descriptor follows, as flag 8 says",
                         0,
                         0};
    f.value = f.text ? 0 : f.value;
    z->flaw(z->user, &f);
    return 0;
}

static ckpt_status gap(struct zip_audit *z, const struct zip_view *before, uint64_t from, uint64_t to,
                       struct headers *b, ckpt_error *err)
{
    bool found = false;
    if (from >= to)
        return CKPT_OK;
    ckpt_str name = before ? before->name : str_of("", 0);
    CKPT_TRY(hidden(z, from, to, b, &found, err));
    if (!found && name.len)
        hides(z, str_of("", 0), from, "bytes between members that belong to none:", from, to - from);
    else if (!found)
        says(z, str_of("", 0), from, "bytes before the first member:", to - from);
    return CKPT_OK;
}

static ckpt_status check_extents(struct zip_audit *z, struct headers *b, ckpt_error *err)
{
    size_t n = 0;
    while (n < z->n && z->views[n].listed)
        n++;
    struct zip_view **order = n ? calloc(n, sizeof(struct zip_view *)) : NULL;
    struct zip_view *copy = arena_array(z->a, n, sizeof *copy); /* hidden() may move the list */
    ckpt_status st = (n && !order) || !copy ? fail_memory(err) : CKPT_OK;
    uint64_t last = 0;
    z->first = z->directory;
    const struct zip_view *before = NULL;
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        copy[i] = z->views[i];
        order[i] = &copy[i];
    }
    if (st == CKPT_OK && n)
        qsort(order, n, sizeof *order, by_place);
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        const struct zip_view *v = order[i];
        if (!v->reachable)
            continue;
        z->first = before ? z->first : v->at;
        if (v->at < last)
            says(z, v->name, v->at, "overlaps the previous member, which ends at", last);
        else
            st = gap(z, before, last, v->at, b, err);
        uint64_t end = v->data + v->csize; /* bounded: reachable */
        end += descriptor(z, v);           /* bounded: it was read there */
        last = end > last ? end : last;
        before = v;
    }
    if (st == CKPT_OK && z->directory >= last)
        st = gap(z, before, last, z->directory, b, err);
    free(order);
    return st;
}

/* without - no end record: the members that local headers tell of. */
static ckpt_status without(struct zip_audit *z, const ckpt_error *why, ckpt_error *err)
{
    bool found;
    struct headers *b = malloc(sizeof *b);
    says(z, str_of("", 0), why->offset == CKPT_NO_OFFSET ? 0 : why->offset, why->what, 0);
    ckpt_status st = b ? hidden(z, 0, z->src->size, b, &found, err) : fail_memory(err);
    free(b);
    return st;
}

ckpt_status zip_audit(struct zip_audit *z, ckpt_error *err)
{
    struct zip_end end;
    ckpt_error why;
    ckpt_status st = zip_end_find(z->src, &end, &why);
    if (st == CKPT_ENOMEM || st == CKPT_EIO) {
        *err = why;
        return st;
    }
    if (st != CKPT_OK)
        return without(z, &why, err);
    struct headers *b = malloc(sizeof *b);
    if (!b)
        return fail_memory(err);
    st = read_directory(z, &end, err);
    if (st == CKPT_OK)
        st = more_ends(z, &end, err);
    if (st == CKPT_OK)
        check_locator(z, &end);
    for (size_t i = 0, n = z->n; st == CKPT_OK && i < n; i++)
        st = locate(z, &z->views[i], b) ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && !check_names(z))
        st = fail_memory(err);
    if (st == CKPT_OK)
        st = check_extents(z, b, err);
    uint64_t comment = end.end - end.at - 22; /* bounded: the record was read there */
    if (st == CKPT_OK && comment)
        hides(z, str_of("", 0), end.at, "the archive has a comment, in which bytes can hide:",
              end.at + 22, comment); /* bounded: as above */
    if (st == CKPT_OK && end.end < z->src->size)
        says(z, str_of("", 0), end.end, "bytes after the archive:", z->src->size - end.end);
    free(b);
    return st;
}
