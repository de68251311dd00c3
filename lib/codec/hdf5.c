/*
 * hdf5.c - HDF5 (file format specification, versions 1 and 2): the superblock, and the walk over all objects.
 * The superblock, by offset and size; in version 1, four more bytes are at 24 and move what follows:
 *
 *   version 0, 1                                 version 2, 3
 *   0   8  89 "HDF\r\n" 1a "\n"                  0   8  the same
 *   8   1  version                               8   1  version
 *   13  1  size of an address, 8                 9   1  size of an address, 8
 *   14  1  size of a length, 8                   10  1  size of a length, 8
 *   24  8  base address: offset of the signature 11  1  flags (version 3: 1 or 4 is set if not closed)
 *   40  8  end of the file                       12  8  base address
 *   48  8  driver information                    28  8  end of the file
 *   64  8  object header of the root             36  8  object header of the root
 *                                                44  4  checksum
 *
 * An object header (hdf5_object.c) has the links of a group (hdf5_group.c), or the type, shape and location
 * of a data set (hdf5_type.c, hdf5_layout.c, hdf5_chunks.c). Addresses in a hostile file can form loops.
 * Therefore all structures that are read may have at most four times the bytes of the file plus 64 KiB, and
 * each group is visited under one path only. Objects to visit are on a stack, so that no function recurses.
 *
 * Refused: a file that is truncated or was not closed, addresses that do not have 8 bytes, file drivers, more
 * than MAX_DEPTH nested groups, and what the files named above refuse.
 */
#include "codec/hdf5.h"

#include "codec/hdf5_internal.h"

#define MAX_REMOTE_BLOCK                                                                                     \
    (UINT64_C(128) << 10) /* bytes before the signature on a server: they come with one request */
#define SIGNATURE     "\x89HDF\r\n\x1a\n"
#define MAX_STRUCTURE ((uint64_t)64 << 20)
/* A data set may have many more bytes than are stored: those of chunks that were not written have the fill
 * value. All data sets may have as many as are read in the time that a hostile file of the size may take. */
#define UNSTORED_RATIO 8192u /* bytes for each byte of the file */
#define LEAST_UNSTORED ((uint64_t)1 << 30)
#define MAX_DEPTH      512u
#define MAX_PATH       16384u
#define MAX_OBJECTS    2000000u

ckpt_status hdf5_load(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const char *what, cursor *in)
{
    uint64_t size = hdf5->src->size;
    if (!range_within(addr, count, size))
        return fail(hdf5->err, CKPT_ETRUNCATED, addr, "%s of {=%llu bytes}, but the file has {%llu} there",
                    what, (unsigned long long)count, (unsigned long long)(addr < size ? size - addr : 0));
    if (count > MAX_STRUCTURE)
        return fail(hdf5->err, CKPT_ELIMIT, addr, "%s of {%llu bytes}; the limit is {=64 MiB}", what,
                    (unsigned long long)count);
    if (count > hdf5->structure_bytes_left)
        return fail(
            hdf5->err, CKPT_EFORMAT, addr,
            "its structures have {more} bytes than {=four times the file}: they overlap, or form a loop");
    hdf5->structure_bytes_left -= count;
    unsigned char *bytes = arena_alloc(hdf5->scratch, (size_t)count);
    CKPT_TRY_ALLOC(bytes, hdf5->err);
    ckpt_status st = window_read(&hdf5->window, hdf5->src, addr, bytes, (size_t)count, hdf5->err);
    hdf5->read_failed |= st != CKPT_OK;
    *in = cursor_of(bytes, (size_t)count, addr);
    return st;
}

/* skip_signature - fails unless IN begins with the signature and version of KIND, and skips them. */
static ckpt_status skip_signature(struct hdf5 *hdf5, const struct hdf5_kind *kind, cursor *in)
{
    uint64_t addr = in->pos;
    const unsigned char *b = cursor_take(in, 5);
    if (!b || memcmp(b, kind->signature, 4) != 0)
        return fail(hdf5->err, CKPT_EFORMAT, addr, "{other bytes} where {=%s} must be", kind->what);
    return b[4] == kind->version ? CKPT_OK
                                 : fail(hdf5->err, CKPT_EUNSUPPORTED, addr,
                                        "%s of version {%u}; {=%u} is read", kind->what, b[4], kind->version);
}

ckpt_status hdf5_load_block(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const struct hdf5_kind *kind,
                            cursor *in)
{
    CKPT_TRY(hdf5_load(hdf5, addr, count, kind->what, in));
    return skip_signature(hdf5, kind, in);
}

ckpt_status hdf5_load_checked(struct hdf5 *hdf5, uint64_t addr, uint64_t count, const struct hdf5_kind *kind,
                              cursor *in)
{
    CKPT_TRY(hdf5_load(hdf5, addr, count, kind->what, in));
    cursor all = *in;
    CKPT_TRY(skip_signature(hdf5, kind, in));
    return hdf5_cut_checksum(hdf5, all, kind->what, in);
}

ckpt_status hdf5_compare_sums(struct hdf5 *hdf5, uint64_t addr, const char *what, uint32_t computed,
                              uint32_t recorded)
{
    return computed == recorded
               ? CKPT_OK
               : fail(hdf5->err, CKPT_ECHECKSUM, addr, "%s has the checksum {%08x}, the file records {=%08x}",
                      what, computed, recorded);
}

ckpt_status hdf5_cut_checksum(struct hdf5 *hdf5, cursor all, const char *what, cursor *in)
{
    if (in->left < 4)
        return hdf5_fail_short(hdf5, in, what);
    all.left -= 4;
    in->left -= 4;
    return hdf5_compare_sums(hdf5, all.pos, what, hdf5_checksum(all.p, all.left),
                             load_u32le(all.p + all.left));
}

cursor hdf5_take_padded(cursor *in, size_t count, size_t unit)
{
    cursor taken = cursor_sub(in, count);
    size_t padding = (unit - count % unit) % unit;
    (void)cursor_take(in, padding < in->left ? padding : in->left);
    return taken;
}

ckpt_status hdf5_fail_short(struct hdf5 *hdf5, const cursor *in, const char *what)
{
    return fail(hdf5->err, CKPT_EFORMAT, in->pos, "%s {ends early}, where {=all of it} must be", what);
}

static uint32_t rotate(uint32_t count, unsigned bits) { return count << bits | count >> (32 - bits); }

/* mix - the macro mix of lookup3, with NUMBERS as its a, b and c. */
MODULO static void mix(uint32_t numbers[3])
{
    static const unsigned rotations[6] = {4, 6, 8, 16, 19, 4};
    for (unsigned i = 0; i < 6; i++) {
        uint32_t *a = &numbers[i % 3], *b = &numbers[(i + 1) % 3], *c = &numbers[(i + 2) % 3];
        *a -= *c;
        *a ^= rotate(*c, rotations[i]);
        *c += *b;
    }
}

/* finish_mixing - the macro final of lookup3; returns its c. */
MODULO static uint32_t finish_mixing(uint32_t numbers[3])
{
    static const unsigned rotations[7] = {14, 11, 25, 16, 4, 14, 24};
    for (unsigned i = 0; i < 7; i++) {
        uint32_t *c = &numbers[(i + 2) % 3], *b = &numbers[(i + 1) % 3];
        *c ^= *b;
        *c -= rotate(*b, rotations[i]);
    }
    return numbers[2];
}

MODULO uint32_t hdf5_checksum(const unsigned char *bytes, size_t nbytes)
{
    uint32_t start = 0xdeadbeef + (uint32_t)nbytes;
    uint32_t x[3] = {start, start, start};
    unsigned char last[12] = {0};
    size_t done = 0;
    for (; nbytes - done > 12; done += 12) {
        for (unsigned i = 0; i < 3; i++)
            x[i] += load_u32le(&bytes[done + 4 * i]);
        mix(x);
    }
    if (nbytes == 0)
        return x[2];
    memcpy(last, &bytes[done], nbytes - done);
    for (unsigned i = 0; i < 3; i++)
        x[i] += load_u32le(&last[4 * i]);
    return finish_mixing(x);
}

ckpt_status hdf5_find(source *src, uint64_t *base, ckpt_error *err)
{
    char magic[8];
    uint64_t end = src->is_remote && src->size > MAX_REMOTE_BLOCK ? MAX_REMOTE_BLOCK : src->size;
    for (uint64_t at = 0; range_within(at, sizeof magic, end);
         at = at ? at * 2 : 512) { /* AT is in the file, below 2^63 */
        CKPT_TRY(source_read(src, at, magic, sizeof magic, err));
        if (memcmp(magic, SIGNATURE, sizeof magic) == 0) {
            *base = at;
            return CKPT_OK;
        }
    }
    return fail(err, CKPT_EFORMAT, source_pos(src, 0), "{no signature} of {=HDF5}");
}

struct superblock {
    unsigned address_size, length_size;
    uint64_t base, end, driver, root;
    uint64_t sizes_at, base_at; /* offsets of the two sizes and of the base address */
    bool is_open;               /* true if its writer has not closed the file */
};

static ckpt_status read_superblock(struct hdf5 *hdf5, struct superblock *superblock)
{
    static const uint8_t skipped[] = {9, 13, 1, 0}; /* bytes to skip before the base address, by version */
    cursor c;
    uint64_t n = hdf5->src->size < 96 ? hdf5->src->size : 96; /* a superblock has 96 bytes at most */
    CKPT_TRY(hdf5_load(hdf5, 0, n, "a superblock", &c));
    const unsigned char *all = c.p;
    (void)cursor_take(&c, 8);
    unsigned version = cursor_u8(&c);
    *superblock = (struct superblock){.driver = HDF5_NOWHERE};
    if (version > 3)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, 8, "HDF5 of superblock version {%u}; {=0 to 3} are read",
                    version);
    if (version < 2)
        (void)cursor_take(&c, 4);
    superblock->sizes_at = c.pos;
    superblock->address_size = cursor_u8(&c);
    superblock->length_size = cursor_u8(&c);
    superblock->is_open = version == 3 && cursor_u8(&c) & 5;
    (void)cursor_take(&c, skipped[version]);
    superblock->base_at = c.pos;
    superblock->base = cursor_u64(&c);
    (void)cursor_u64(&c);
    superblock->end = cursor_u64(&c);
    if (version < 2) {
        superblock->driver = cursor_u64(&c);
        (void)cursor_u64(&c);
    }
    superblock->root = cursor_u64(&c);
    uint32_t sum = version < 2 ? 0 : cursor_u32(&c);
    if (c.bad)
        return fail(hdf5->err, CKPT_ETRUNCATED, 0, "the superblock {ends early}, where {=all of it} must be");
    return version < 2 ? CKPT_OK : hdf5_compare_sums(hdf5, 0, "a superblock", hdf5_checksum(all, 44), sum);
}

static ckpt_status check_superblock(struct hdf5 *hdf5, const struct superblock *superblock, uint64_t base)
{
    uint64_t end = 0;
    if (superblock->address_size != 8 || superblock->length_size != 8)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, superblock->sizes_at,
                    "addresses and lengths of {%u and %u bytes}; {=8 bytes} are read",
                    superblock->address_size, superblock->length_size);
    if (superblock->is_open)
        return fail(
            hdf5->err, CKPT_EFORMAT, 11,
            "the file was {not closed} by its writer and may be incomplete; only {=closed files} are read");
    if (superblock->base != base)
        return fail(hdf5->err, CKPT_EFORMAT, superblock->base_at,
                    "the base address is {%llu}, but the signature is at {=%llu}",
                    (unsigned long long)superblock->base, (unsigned long long)base);
    if (superblock->driver != HDF5_NOWHERE)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, superblock->base_at + 24,
                    "{driver information}: its data are in several files; only {=single files} are read");
    if (!checked_add(base, hdf5->src->size, &end) || superblock->end > end)
        return fail(hdf5->err, CKPT_ETRUNCATED, superblock->base_at + 16,
                    "the file has {%llu bytes}, {=%llu} were written\n"
                    "the download or the copy stopped early: get the file again",
                    (unsigned long long)end, (unsigned long long)superblock->end);
    return CKPT_OK;
}

struct pending {
    ckpt_str path;
    uint64_t addr;
    uint32_t depth;
};

struct visited {
    ckpt_str path;
    bool is_group;
};

struct hdf5_walk {
    struct hdf5 *h;
    struct pending *pending; /* stack of the objects to visit */
    size_t npending, cap_pending;
    map *visited_index; /* address -> index into visited */
    struct visited *visited;
    size_t nvisited, cap_visited;
};

static ckpt_status report_link(struct hdf5_walk *walk, ckpt_str path, const char *kind, ckpt_str target)
{
    const struct hdf5_visitor *v = walk->h->visitor;
    return v->on_link ? v->on_link(v->user, path, kind, target, walk->h->err) : CKPT_OK;
}

/* make_path - sets *OUT to the path of NAME in the group at PARENT. */
static ckpt_status make_path(struct hdf5_walk *walk, ckpt_str parent, ckpt_str name, ckpt_str *out)
{
    if (parent.len + name.len >= MAX_PATH)
        return fail(walk->h->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{a path} of more than {=%u bytes}", MAX_PATH);
    char *path = arena_alloc(walk->h->a, parent.len + name.len + 2);
    CKPT_TRY_ALLOC(path, walk->h->err);
    size_t n = parent.len;
    memcpy(path, parent.ptr, n);
    if (n)
        path[n++] = '/';
    memcpy(path + n, name.ptr, name.len);
    *out = str_of(path, n + name.len);
    return CKPT_OK;
}

static ckpt_status add_pending(struct hdf5_walk *walk, struct pending this_pending)
{
    if (this_pending.depth > MAX_DEPTH)
        return fail(walk->h->err, CKPT_ELIMIT, this_pending.addr, "{more} than {=%u groups} are nested",
                    MAX_DEPTH);
    if (walk->npending >= MAX_OBJECTS)
        return fail(walk->h->err, CKPT_ELIMIT, this_pending.addr, "the file has {more} than {=%u objects}",
                    MAX_OBJECTS);
    return ARENA_PUSH(walk->h->a, walk, pending, &this_pending) ? CKPT_OK : fail_memory(walk->h->err);
}

/* add_links - adds the hard links of group PENDING to the objects to visit, in order, and reports its other
 * links. */
static ckpt_status add_links(struct hdf5_walk *walk, const struct pending *pending,
                             const struct hdf5_links *links)
{
    static const char *const kinds[] = {
        [HDF5_SOFT] = "soft link", [HDF5_EXTERNAL] = "external link", [HDF5_USER] = "user-defined link"};
    for (size_t i = 0; i < links->n; i++) {
        const struct hdf5_link *l = &links->links[i];
        ckpt_str path;
        if (l->kind == HDF5_HARD)
            continue;
        CKPT_TRY(make_path(walk, pending->path, l->name, &path));
        CKPT_TRY(report_link(walk, path, kinds[l->kind], l->target));
    }
    for (size_t i = links->n; COUNT_DOWN(i);) { /* the last link first, because pending is a stack */
        struct pending next = {.addr = links->links[i].addr, .depth = pending->depth + 1};
        if (links->links[i].kind != HDF5_HARD)
            continue;
        CKPT_TRY(make_path(walk, pending->path, links->links[i].name, &next.path));
        CKPT_TRY(add_pending(walk, next));
    }
    return CKPT_OK;
}

static ckpt_status add_visited(struct hdf5_walk *walk, const struct pending *pending, bool is_group)
{
    const struct visited v = {pending->path, is_group};
    bool ok = map_put_num(walk->visited_index, pending->addr, (uint32_t)walk->nvisited, NULL) &&
              ARENA_PUSH(walk->h->a, walk, visited, &v);
    return ok ? CKPT_OK : fail_memory(walk->h->err);
}

/* The attributes of one object. */
struct attributes {
    ckpt_str path;
    bool should_report; /* false: they were reported before, under another path */
    bool is_bfloat16;   /* true: one of them is dtype = "bfloat16" */
};

/* read_attribute - reads the attribute message IN of the object at attributes->path, and passes it to the
 * visitor. */
static ckpt_status read_attribute(struct hdf5 *hdf5, cursor in, struct attributes *attrs)
{
    struct hdf5_attribute a;
    ckpt_str text;
    ckpt_status st = hdf5_read_attribute(hdf5, in, &a);
    if (st == CKPT_EUNSUPPORTED) {
        a.why_no_value = arena_str(hdf5->a, str_c(hdf5->err->what)).ptr;
        st = a.why_no_value ? CKPT_OK : fail_memory(hdf5->err);
    }
    if (st != CKPT_OK && a.name.len)
        error_add_where(hdf5->err, "attribute %.*s", STR_ARG(a.name));
    CKPT_TRY(st);
    if (str_is(a.name, "dtype") && value_text(a.value, &text))
        attrs->is_bfloat16 = str_is(text, "bfloat16");
    if (!attrs->should_report || !hdf5->visitor->on_attribute)
        return CKPT_OK;
    ckpt_str name = arena_str(hdf5->a, a.name);
    const struct hdf5_visitor *v = hdf5->visitor;
    return name.ptr ? v->on_attribute(v->user, attrs->path, name, a.value, a.why_no_value, hdf5->err)
                    : fail_memory(hdf5->err);
}

static ckpt_status read_dense_attribute(struct hdf5 *hdf5, void *user, cursor record)
{
    cursor c;
    const unsigned char *id = cursor_take(&record, 8);
    unsigned flags = cursor_u8(&record);
    if (!id || flags & 2)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, record.pos,
                    "{a shared attribute}; only attributes of {=one object} are read");
    CKPT_TRY(hdf5_read_heap_object(hdf5, id, &c));
    return read_attribute(hdf5, c, user);
}

static ckpt_status read_dense_attributes(struct hdf5 *hdf5, cursor in, struct attributes *attrs)
{
    static const struct hdf5_dense dense = {"the description of attributes", .index_size = 2, .id_size = 8};
    const struct hdf5_records records = {.type = 8, .size = 17, .visit = read_dense_attribute, .user = attrs};
    return hdf5_visit_dense(hdf5, in, &dense, &records);
}

/* translate_offset - changes the offset of the error from an address to an offset in the file. An address
 * after the end of the file becomes its end. */
static void translate_offset(struct hdf5 *hdf5)
{
    uint64_t size = hdf5->src->size;
    if (!hdf5->read_failed)
        hdf5->err->offset = source_pos(hdf5->src, hdf5->err->offset < size ? hdf5->err->offset : size);
    hdf5->read_failed = false;
}

/* report_fault - passes ST, a fault of the object at PATH or of its attributes, to the visitor, and returns
 * what the visitor returns. Returns ST unchanged if it is no fault of the object. */
static ckpt_status report_fault(struct hdf5 *hdf5, ckpt_str path, ckpt_status st)
{
    if (st == CKPT_OK || st == CKPT_ENOMEM || st == CKPT_ECANCELLED)
        return st;
    translate_offset(hdf5);
    error_add_where(hdf5->err, "/%.*s", STR_ARG(path));
    return hdf5->visitor->on_fault(hdf5->visitor->user, path, st, hdf5->err);
}

static ckpt_status read_attributes(struct hdf5 *hdf5, const struct hdf5_object *object,
                                   struct attributes *attrs)
{
    for (size_t i = 0; i < object->nattributes; i++)
        CKPT_TRY(report_fault(hdf5, attrs->path, read_attribute(hdf5, object->attributes[i], attrs)));
    if (!object->attribute_info.is_there)
        return CKPT_OK;
    return report_fault(hdf5, attrs->path, read_dense_attributes(hdf5, object->attribute_info.body, attrs));
}

/* copy_shape - copies the sizes of SPACE to DATASET, in the arena. */
static ckpt_status copy_shape(struct hdf5 *hdf5, const struct hdf5_space *space, struct hdf5_dataset *dataset)
{
    uint64_t *shape = arena_array(hdf5->a, space->ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, hdf5->err);
    if (space->ndim)
        memcpy(shape, space->shape, space->ndim * sizeof *shape);
    dataset->shape = shape;
    dataset->ndim = space->ndim;
    dataset->is_null = space->is_null;
    return CKPT_OK;
}

static bool is_text(const struct hdf5_type *type)
{
    return type->kind == HDF5_TEXT || type->kind == HDF5_FIXED_TEXT;
}

/* describe_dataset - sets DATASET from the messages of its object OBJECT. */
static ckpt_status describe_dataset(struct hdf5 *hdf5, const struct hdf5_object *object,
                                    struct hdf5_dataset *dataset)
{
    struct hdf5_space space;
    CKPT_TRY(hdf5_read_space(hdf5, object->dataspace.body, &space));
    CKPT_TRY(copy_shape(hdf5, &space, dataset));
    CKPT_TRY(hdf5_read_type(hdf5, object->datatype, &dataset->type));
    if (dataset->type.kind == HDF5_UNREADABLE)
        dataset->why_unreadable = dataset->type.what.ptr;
    if (dataset->is_null)
        return CKPT_OK;
    CKPT_TRY(hdf5_read_layout(hdf5, object, space.max_shape, dataset));
    return is_text(&dataset->type) && !dataset->why_unreadable
               ? hdf5_read_texts(hdf5, dataset, space.elements)
               : CKPT_OK;
}

/* visit_dataset - passes the data set PENDING, with object OBJECT, to the visitor. IS_FIRST_VISIT: see
 * visit_object. */
static ckpt_status visit_dataset(struct hdf5_walk *walk, const struct pending *pending,
                                 const struct hdf5_object *object, bool is_first_visit)
{
    struct hdf5 *h = walk->h;
    struct attributes a = {.path = pending->path, .should_report = is_first_visit};
    struct hdf5_dataset d = {.path = pending->path, .header_addr = pending->addr, .src = h->src};
    uint64_t data_left_before = h->data_left, unstored_left_before = h->unstored_left;
    CKPT_TRY(read_attributes(h, object, &a));
    const char *other_files = is_first_visit && h->visitor->on_other_files ? hdf5_find_other_files(object)
                                                                           : NULL;
    if (other_files)
        CKPT_TRY(h->visitor->on_other_files(h->visitor->user, pending->path, other_files, h->err));
    if (!object->dataspace.is_there || !object->datatype.is_there || !object->layout.is_there)
        return fail(h->err, CKPT_EFORMAT, pending->addr,
                    "a data set {lacks} one of {=type, shape and layout}");
    ckpt_status st = describe_dataset(h, object, &d);
    if (st == CKPT_EUNSUPPORTED && !d.in_other_files) {
        d.why_unreadable = arena_str(h->a, str_c(h->err->what)).ptr;
        st = d.why_unreadable ? CKPT_OK : fail_memory(h->err);
    }
    CKPT_TRY(st);
    if (!is_first_visit) { /* its bytes were counted at the first visit */
        h->data_left = data_left_before;
        h->unstored_left = unstored_left_before;
    }
    if (d.type.kind == HDF5_OPAQUE && d.type.size == 2 && a.is_bfloat16) {
        d.type.kind = HDF5_NUMBER;
        d.type.dtype = CKPT_DT_BF16;
    }
    return h->visitor->on_dataset ? h->visitor->on_dataset(h->visitor->user, &d, h->err) : CKPT_OK;
}

static ckpt_status visit_group(struct hdf5_walk *walk, const struct pending *pending,
                               const struct hdf5_object *object)
{
    struct hdf5_links links;
    struct attributes a = {.path = pending->path, .should_report = true};
    CKPT_TRY(read_attributes(walk->h, object, &a));
    CKPT_TRY(hdf5_read_links(walk->h, object, &links));
    return add_links(walk, pending, &links);
}

/* visit_object - reads the object PENDING. IS_FIRST_VISIT: false for a data set or datatype that was visited
 * under another path. A group is visited only once. */
static ckpt_status visit_object(struct hdf5_walk *walk, const struct pending *pending, bool is_first_visit)
{
    struct hdf5_object o;
    CKPT_TRY(hdf5_read_object(walk->h, pending->addr, &o));
    bool is_group = o.symbol_table.is_there || o.link_info.is_there || o.nlinks;
    if (is_group && (o.layout.is_there || o.dataspace.is_there || o.has_external_data))
        return fail(walk->h->err, CKPT_EFORMAT, pending->addr,
                    "an object is {both} a group and a data set, where only {=one} is allowed");
    if (is_first_visit)
        CKPT_TRY(add_visited(walk, pending, is_group));
    if (is_group)
        return visit_group(walk, pending, &o);
    if (o.datatype.is_there && !o.layout.is_there && !o.dataspace.is_there)
        return report_link(walk, pending->path, "committed datatype", str_of("", 0));
    return visit_dataset(walk, pending, &o, is_first_visit);
}

static ckpt_status visit_next(struct hdf5_walk *walk)
{
    struct hdf5 *h = walk->h;
    struct pending x = walk->pending[--walk->npending];
    uint32_t index = map_get_num(walk->visited_index, x.addr);
    if (index != MAP_NONE && walk->visited[index].is_group) {
        ckpt_str first_path = ARENA_CONCAT(h->a, STR_LIT("/"), walk->visited[index].path);
        return first_path.ptr ? report_link(walk, x.path, "hard link", first_path) : fail_memory(h->err);
    }
    if (walk->nvisited >= MAX_OBJECTS)
        return fail(h->err, CKPT_ELIMIT, x.addr, "the file has {more} than {=%u objects}", MAX_OBJECTS);
    h->scratch = arena_new(UINT64_MAX);
    CKPT_TRY_ALLOC(h->scratch, h->err);
    ckpt_status st = visit_object(walk, &x, index == MAP_NONE);
    arena_free(h->scratch);
    h->scratch = NULL;
    return report_fault(h, x.path, st);
}

static ckpt_status visit_all(struct hdf5 *hdf5, uint64_t root)
{
    struct hdf5_walk w = {.h = hdf5, .visited_index = map_new(64)};
    ckpt_status st = w.visited_index ? add_pending(&w, (struct pending){str_of("", 0), root, 0})
                                     : fail_memory(hdf5->err);
    while (st == CKPT_OK && w.npending)
        st = visit_next(&w);
    map_free(w.visited_index);
    return st;
}

static ckpt_status visit_file(struct hdf5 *hdf5, uint64_t base)
{
    struct superblock s = {.driver = HDF5_NOWHERE};
    hdf5->scratch = arena_new(UINT64_MAX);
    ckpt_status st = hdf5->scratch ? read_superblock(hdf5, &s) : fail_memory(hdf5->err);
    CKPT_THEN(st, check_superblock(hdf5, &s, base));
    arena_free(hdf5->scratch);
    hdf5->scratch = NULL;
    if (st != CKPT_OK) {
        translate_offset(hdf5);
        error_add_position(hdf5->err, 0, STR_LIT("superblock"));
    }
    return st == CKPT_OK ? visit_all(hdf5, s.root) : st;
}

ckpt_status hdf5_visit(source *src, arena *a, const struct hdf5_visitor *visitor, ckpt_error *err)
{
    uint64_t base, budget;
    struct hdf5 h = {.a = a, .visitor = visitor, .err = err};
    CKPT_TRY(hdf5_find(src, &base, err));
    CKPT_TRY(source_slice(src, base, src->size - base, &h.src, err));
    h.data_left = h.src->size;
    if (!checked_mul(h.src->size, UNSTORED_RATIO, &h.unstored_left) || h.unstored_left < LEAST_UNSTORED)
        h.unstored_left = LEAST_UNSTORED;
    if (visitor->max_unstored)
        h.unstored_left = visitor->max_unstored;
    bool fits = checked_mul(h.src->size, 4, &budget) && budget < UINT64_MAX / 2;
    h.structure_bytes_left = fits ? budget + 65536 : UINT64_MAX;
    ckpt_status st = visit_file(&h, base);
    window_close(&h.window);
    map_free(h.heap_block_numbers);
    map_free(h.collection_index);
    arena_free(h.heaps);
    source_unref(h.src);
    return st;
}
