/*
 * zip.c - scans each member of a zip archive, whatever its name: those that the central directory lists and
 * those that only have a local header.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "codec/inflate.h"
#include "codec/unpack_archive.h"
#include "codec/zip_audit.h"
#include "codec/zip_end.h"
#include "codec/zip_lzma.h"
#include "format/recognize.h"
#include "io/reader.h"
#include "scan/scan.h"

#define STORAGE_PREFIX 65536u /* bytes of a deflated storage that are unpacked, to recognize a file in it */

/* Members may overlap, so the scanned bytes of members are limited: to OVERLAP_MIN, plus OVERLAP_FACTOR times
 * the bytes of the file and of what was unpacked from it. (A member inside 4 archives is read 4 times.) */
#define OVERLAP_FACTOR 16u
#define OVERLAP_MIN    ((uint64_t)64 << 20)

/* The methods of APPNOTE 4.4.5 that libarchive unpacks. */
#define METHOD_BZIP2 12
#define METHOD_ZSTD  93

/* Bytes that belong to no member. */
struct stray_bytes {
    uint64_t from, n;
};

struct zip_scan {
    const struct scanned *in; /* the bytes in which the archive is */
    struct stray_bytes *strays;
    size_t nstrays, cap_strays;
    struct zip_audit audit;
    bool written_by_torch;
    bool has_flaw;                   /* a flaw of the archive was reported */
    bool member_is_known;            /* each byte of the current member has a known purpose */
    uint64_t unpacked, max_unpacked; /* bytes that deflated members unpacked to, and may unpack to */
    uint32_t *first_view; /* [i]: the first view with the bytes of view i, the only one scanned; usually i */
    bool *is_known;       /* [i]: member_is_known of view i */
    bool *is_chunk;       /* [i]: view i is a chunk of a Zarr array; NULL: none is */
    uint8_t *digests;     /* the sha256 of each view, CKPT_DIGEST_MAX bytes each; NULL: not asked for */
};

/* take_folder - cuts the first component off *PATH, as if separators of either kind that follow each other
 * were one, and returns it. */
static ckpt_str take_folder(ckpt_str *path)
{
    while (path->len && strchr("/\\", path->ptr[0]) && path->ptr[0])
        *path = str_skip(*path, 1);
    size_t n = 0;
    while (n < path->len && (!path->ptr[n] || !strchr("/\\", path->ptr[n])))
        n++;
    ckpt_str first = str_of(path->ptr, n);
    *path = str_skip(*path, n);
    return first;
}

/* has_member - returns true if IS_SOUGHT holds for the name of a view of AUDIT. */
static bool has_member(const struct zip_audit *audit, bool (*is_sought)(ckpt_str name))
{
    for (size_t i = 0; i < audit->n; i++)
        if (is_sought(audit->views[i].name))
            return true;
    return false;
}

/* is_from_torch - returns true if NAME is that of a member that each archive of torch has. */
static bool is_from_torch(ckpt_str name)
{
    return str_matches_word(str_after_last(name, '/'), "version data.pkl model.json archive_format", str_eq);
}

/* get_record - returns NAME without the folder of all records, which bears the name of the file. */
static ckpt_str get_record(ckpt_str name)
{
    size_t top = str_find(name, STR_LIT("/"), 0);
    return top == SIZE_MAX ? name : str_skip(name, top + 1);
}

/* get_role - returns SCAN_STORAGE if torch writes only storages under the name of VIEW, SCAN_CHUNK if VIEW is
 * a chunk, else SCAN_MEMBER. */
static enum scan_role get_role(const struct zip_scan *archive, const struct zip_view *view)
{
    ckpt_str name = view->name, record = get_record(name);
    if (archive->is_chunk && archive->is_chunk[view - archive->audit.views])
        return SCAN_CHUNK;
    bool storage = str_starts(record, STR_LIT("data/")) || str_starts(record, STR_LIT("tensors/")) ||
                   str_starts(record, STR_LIT("constants/")) || str_ends(name, STR_LIT(".storage"));
    return storage && archive->written_by_torch ? SCAN_STORAGE : SCAN_MEMBER;
}

/* is_example_inputs - returns true if torch.export reads NAME as the example inputs of a program. */
static bool is_example_inputs(ckpt_str name)
{
    ckpt_str record = get_record(name);
    return str_starts(record, STR_LIT("data/sample_inputs/")) || str_is(name, "serialized_example_inputs.pt");
}

/* check_torch_layout - reports members outside of the first one's folder, and compressed storages. */
static ckpt_status check_torch_layout(struct zip_scan *archive, ckpt_error *err)
{
    const struct zip_view *first = archive->audit.views;
    size_t folder_len = str_find(first->name, STR_LIT("/"), 0);
    for (size_t i = 0; folder_len != SIZE_MAX && i < archive->audit.n; i++) {
        const struct zip_view *v = &archive->audit.views[i];
        struct scanned at = *archive->in;
        if (!v->listed) /* it may have no name, if the central directory is cut off */
            continue;
        CKPT_TRY(scan_join_names(archive->in, v->name, &at.where, err));
        if (str_find(v->name, str_of(first->name.ptr, folder_len + 1), 0) != 0) {
            archive->has_flaw = true;
            CKPT_TRY(SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, v->described_at,
                                "is outside of {=the folder \"%.*s\"}, where torch writes all records",
                                (int)folder_len, first->name.ptr));
        }
        if (v->method && get_role(archive, v) == SCAN_STORAGE)
            CKPT_TRY(SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, v->described_at,
                                "a storage compressed by {method %u}; torch expects {=uncompressed storages}",
                                v->method));
    }
    return CKPT_OK;
}

static void report_zip_flaw(void *user, const struct zip_flaw *flaw)
{
    ckpt_error ignored;
    struct zip_scan *archive = user;
    const struct stray_bytes stray = {flaw->from, flaw->n};
    struct scanned at = *archive->in;
    archive->has_flaw = true;
    if ((flaw->name.len && scan_join_names(archive->in, flaw->name, &at.where, &ignored) != CKPT_OK) ||
        (flaw->n && !ARENA_PUSH(archive->in->x->a, archive, strays, &stray))) {
        (void)scan_note_system_failure(archive->in->x->scan, CKPT_ENOMEM, NULL);
        return;
    }
    if (flaw->message && flaw->value)
        (void)SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, flaw->at, "%s %" PRIu64, flaw->message, flaw->value);
    else if (flaw->message)
        (void)SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, flaw->at, "%s", flaw->message);
    else if (flaw->hexadecimal)
        (void)SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, flaw->at,
                         "%s: {%08" PRIx64 "} here, {=%08" PRIx64 "} in the central directory at 0x%" PRIx64,
                         flaw->what, flaw->value, flaw->other_value, flaw->other_at);
    else
        (void)SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, flaw->at,
                         "%s: {%" PRIu64 "} here, {=%" PRIu64 "} in the central directory at 0x%" PRIx64,
                         flaw->what, flaw->value, flaw->other_value, flaw->other_at);
}

/* ------------------------------------------------------------------ members */

/* inflate_member - sets *OUT to the bytes of the deflated VIEW; of a storage, to the first STORAGE_PREFIX
 * bytes. Reports damage, and a size other than the stated one. */
static ckpt_status inflate_member(struct zip_scan *archive, const struct zip_view *view,
                                  const struct scanned *at, enum scan_role role, source **out,
                                  ckpt_error *err)
{
    struct scanner *x = archive->in->x;
    ckpt_error why;
    uint64_t used, limit = x->scan->opts->max_unpacked, left = limit - x->unpacked;
    if (archive->max_unpacked - archive->unpacked < left) {
        limit = archive->max_unpacked;
        left = limit - archive->unpacked;
    }
    uint64_t wanted = role == SCAN_STORAGE ? STORAGE_PREFIX : view->usize;
    uint64_t max_size = wanted < left ? wanted : left;
    spool *unpacked = spool_new(max_size);
    CKPT_TRY_ALLOC(unpacked, err);
    ckpt_status st = inflate_into(archive->in->src, view->data_offset, view->csize, INFLATE_RAW, unpacked,
                                  &used, &why);
    x->unpacked += spool_size(unpacked);
    archive->unpacked += spool_size(unpacked);
    if (st == CKPT_EIO || st == CKPT_ENOMEM) {
        spool_free(unpacked);
        *err = why;
        return st;
    }
    ckpt_status reported = CKPT_OK;
    if (st == CKPT_ELIMIT && left < wanted)
        reported = SCAN_FOUND(at, SCAN_NOT_OPENED, view->local_header_at,
                              "unpacks to {more} than {=%" PRIu64 " bytes} in all", limit);
    else if (st == CKPT_ELIMIT && role != SCAN_STORAGE)
        reported = SCAN_FOUND(at, SCAN_ZIP_STRUCTURE, view->local_header_at,
                              "unpacks to {more} than the {=%" PRIu64 " bytes} that are stated", view->usize);
    else if (st != CKPT_OK && st != CKPT_ELIMIT)
        reported = SCAN_FOUND(at, SCAN_ZIP_STRUCTURE, view->local_header_at, "%s", why.what);
    else if (st == CKPT_OK && spool_size(unpacked) != view->usize)
        reported = SCAN_FOUND(at, SCAN_ZIP_STRUCTURE, view->local_header_at,
                              "unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} are stated",
                              spool_size(unpacked), view->usize);
    *out = spool_source(unpacked);
    return reported;
}

static ckpt_status check_crc(const struct scanned *at, const struct zip_view *view, source *src,
                             ckpt_error *err)
{
    uint32_t crc = 0;
    ckpt_status st = source_crc(src, 0, src->size, CRC_32, &crc, err);
    if (st != CKPT_OK || crc == view->crc)
        return st;
    return SCAN_FOUND(at, SCAN_ZIP_CHECKSUM, view->described_at,
                      "its CRC-32 is {%08x}, its header has {=%08x}; not every loader checks it", crc,
                      view->crc);
}

/* report_unsupported - reports that VIEW is encrypted, patch data, or compressed by an unsupported method. */
static ckpt_status report_unsupported(const struct scanned *at, const struct zip_view *view)
{
    return view->flags & ZIP_FLAGS_OPAQUE
               ? SCAN_FOUND(at, SCAN_NOT_OPENED, view->local_header_at,
                            "it is encrypted or a patch to another file ({flags 0x%04x})", view->flags)
               : SCAN_FOUND(at, SCAN_NOT_OPENED, view->local_header_at, "it is compressed by {method %u}",
                            view->method);
}

/* get_sha256 - returns the buffer for the sha256 of VIEW; NULL: it is not wanted. */
static uint8_t *get_sha256(const struct zip_scan *archive, const struct zip_view *view)
{
    return archive->digests ? archive->digests + (size_t)(view - archive->audit.views) * CKPT_DIGEST_MAX
                            : NULL;
}

/* get_readers - returns which kinds of readers find VIEW, as CKPT_SCAN_BY_… bits. Of two views of one local
 * header that differ (disputed), readers of local headers find the one that is not listed. */
static unsigned get_readers(const struct zip_view *view)
{
    return (view->listed ? CKPT_SCAN_BY_DIRECTORY : 0u) |
           (!view->listed || !view->disputed ? CKPT_SCAN_BY_LOCAL : 0u);
}

/* scan_member_bytes - scans SRC, the bytes of VIEW, which is at AT. */
static ckpt_status scan_member_bytes(struct zip_scan *archive, const struct zip_view *view, source *src,
                                     const struct scanned *at, ckpt_error *err)
{
    const struct scanned member = {at->x, src, at->where};
    struct scanner *x = at->x;
    enum scan_role role = get_role(archive, view);
    uint64_t known_bytes = 0;
    x->scan->result->members++;
    if (!checked_add(x->member_bytes, src->size, &x->member_bytes))
        x->member_bytes = UINT64_MAX;
    CKPT_TRY(scan_hash_member(&member, get_readers(view), get_sha256(archive, view), err));
    if (role != SCAN_STORAGE && view->crc)
        CKPT_TRY(check_crc(at, view, src, err));
    ckpt_status st = scan_bytes(&member, role, &known_bytes, err);
    archive->member_is_known = known_bytes >= src->size;
    return st == CKPT_OK && is_example_inputs(view->name) ? exported_judge_example_inputs(&member, err) : st;
}

/* A member that libarchive unpacks. */
struct unpacking {
    struct zip_scan *archive;
    const struct zip_view *v;
    const struct scanned *at;
    uint64_t unpacked_size;
};

static ckpt_status scan_unpacked_bytes(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct unpacking *p = user;
    (void)name;
    p->unpacked_size += bytes->size;
    p->archive->in->x->unpacked += bytes->size;
    return scan_member_bytes(p->archive, p->v, bytes, p->at, err);
}

/* scan_with_libarchive - unpacks and scans VIEW, which is compressed by bzip2, LZMA or zstd. */
static ckpt_status scan_with_libarchive(struct zip_scan *archive, const struct zip_view *view,
                                        const struct scanned *at, ckpt_error *err)
{
    struct scanner *x = archive->in->x;
    struct unpacking p = {archive, view, at, 0};
    uint64_t left = x->scan->opts->max_unpacked - x->unpacked;
    struct unpack u = {
        .max_bytes = view->usize < left ? view->usize : left, .member = scan_unpacked_bytes, .user = &p};
    source *src = NULL;
    ckpt_error why;
    const struct zip_lzma lzma = {archive->in->src, view->data_offset, view->csize, view->usize, view->flags};
    ckpt_status st = view->method == ZIP_LZMA
                         ? zip_lzma_open_file(&lzma, &src, &why)
                         : source_slice(archive->in->src, view->data_offset, view->csize, &src, &why);
    CKPT_THEN(st, unpack_archive(src, &u, &why));
    source_unref(src);
    if (st == CKPT_EIO || st == CKPT_ENOMEM || st == CKPT_ECANCELLED) {
        *err = why;
        return st;
    }
    if (st == CKPT_EFORMAT || (st == CKPT_ELIMIT && view->usize <= left))
        return SCAN_FOUND(at, SCAN_ZIP_STRUCTURE, view->local_header_at, "method %u: %s", view->method,
                          why.what);
    if (st != CKPT_OK)
        return SCAN_FOUND(at, SCAN_NOT_OPENED, view->local_header_at, "it is compressed by {method %u}: %s",
                          view->method, why.what);
    if (p.unpacked_size != view->usize)
        return SCAN_FOUND(at, SCAN_ZIP_STRUCTURE, view->local_header_at,
                          "unpacks to {%" PRIu64 " bytes}, {=%" PRIu64 "} are stated", p.unpacked_size,
                          view->usize);
    return CKPT_OK;
}

/* open_member - opens and scans the member VIEW, if its bytes can be read. */
static ckpt_status open_member(struct zip_scan *archive, const struct zip_view *view, ckpt_error *err)
{
    source *src = NULL;
    /* an entry cut off by the end of the central directory has no name */
    ckpt_str name = view->name.ptr ? view->name : str_of("", 0);
    struct scanned at = *archive->in;
    CKPT_TRY(scan_join_names(archive->in, name, &at.where, err));
    if (!view->reachable || view->csize == 0)
        return CKPT_OK;
    if (!(view->flags & ZIP_FLAGS_ENCRYPTED) &&
        (view->method == METHOD_BZIP2 || view->method == ZIP_LZMA || view->method == METHOD_ZSTD))
        return scan_with_libarchive(archive, view, &at, err);
    if (view->method != ZIP_STORED && view->method != ZIP_DEFLATED)
        return report_unsupported(&at, view);
    if (view->method == ZIP_STORED)
        CKPT_TRY(source_slice(archive->in->src, view->data_offset, view->csize, &src, err));
    ckpt_status st = CKPT_OK;
    bool readable = true;
    if (view->flags & ZIP_FLAGS_OPAQUE) {
        archive->has_flaw = true;
        readable = src && scan_is_pickle(archive->in->x, src, 0, src->size, true);
        st = readable ? SCAN_FOUND(&at, SCAN_ZIP_STRUCTURE, view->described_at,
                                   "is flagged as encrypted or a patch ({flags 0x%04x}), but is a pickle",
                                   view->flags)
                      : report_unsupported(&at, view);
    }
    if (st == CKPT_OK && readable && !src)
        st = inflate_member(archive, view, &at, get_role(archive, view), &src, err);
    if (st == CKPT_OK && readable)
        st = scan_member_bytes(archive, view, src, &at, err);
    source_unref(src);
    return st;
}

/* ------------------------------------------------------------------ archive */

/* is_inductor_code - returns true if NAME is a file that AOTInductor's loader compiles, links or loads: in
 * its folder, anything but values; among constants, which it unpacks into the same folder, those with a
 * suffix of code. Source: torch/csrc/inductor/aoti_package/model_package_loader.cpp. */
static bool is_inductor_code(ckpt_str name)
{
    static const char values[] = "_metadata.json weights_config.json _serialized_weights.bin .blob";
    bool is_in_data = false, is_in_package = false, is_in_constants = false;
    ckpt_str rest = name, folder = take_folder(&rest);
    for (; rest.len; folder = take_folder(&rest)) {
        is_in_package = is_in_package || (is_in_data && str_is(folder, "aotinductor"));
        is_in_constants = is_in_constants || (is_in_data && str_starts(folder, STR_LIT("constants")));
        is_in_data = str_is(folder, "data");
    }
    if (!folder.len) /* an entry for a folder */
        return false;
    return is_in_package ? !str_matches_word(name, values, str_ends)
                         : is_in_constants && str_matches_word(name, ".cpp .o .obj .so .pyd", str_ends);
}

static bool is_program_text(ckpt_str name) { return str_ends(name, STR_LIT(".py")); }

static bool is_machine_code(ckpt_str name)
{
    return str_matches_word(name, ".so .dylib .dll .pyd .pyc .cubin .hsaco", str_ends);
}

/* report_code_members - reports how many members of each kind of code there are. */
static ckpt_status report_code_members(struct zip_scan *archive)
{
    static const struct {
        bool (*has)(ckpt_str name);
        const char *what;
    } kinds[] = {
        {is_inductor_code, "AOTInductor, which torch compiles and loads"},
        {is_program_text, "program text"},
        {is_machine_code, "machine or byte code"},
    };
    enum { NKINDS = sizeof kinds / sizeof *kinds };
    size_t n[NKINDS] = {0};
    ckpt_str first[NKINDS];
    for (size_t i = 0; i < archive->audit.n; i++) {
        ckpt_str name = archive->audit.views[i].name;
        size_t k = 0;
        while (k < NKINDS && !kinds[k].has(name))
            k++;
        if (k < NKINDS && n[k]++ == 0)
            first[k] = name;
    }
    for (size_t k = 0; k < NKINDS; k++)
        if (n[k])
            CKPT_TRY(scan_found(archive->in->x->scan, SCAN_CONTAINS_CODE, archive->in->where, NULL,
                                CKPT_NO_OFFSET, "%zu file%s of %s, the first is %.*s", n[k],
                                n[k] == 1 ? "" : "s", kinds[k].what, STR_ARG(first[k])));
    return CKPT_OK;
}

/* find_chunks - fills in archive->is_chunk. */
static ckpt_status find_chunks(struct zip_scan *archive, ckpt_error *err)
{
    struct zip_audit *audit = &archive->audit;
    struct scan_chunks *chunks;
    if (!has_member(audit, scan_is_array_metadata))
        return CKPT_OK;
    archive->is_chunk = arena_array(archive->in->x->a, audit->n, sizeof *archive->is_chunk);
    CKPT_TRY_ALLOC(archive->is_chunk, err);
    ckpt_status st = scan_chunks_open(archive->in->x, archive->in->src, &chunks, err);
    for (size_t i = 0; st == CKPT_OK && chunks && i < audit->n; i++)
        st = scan_is_chunk(chunks, audit->views[i].name, &archive->is_chunk[i], err);
    scan_chunks_close(chunks, archive->in->x);
    return st;
}

/* Where the bytes of a view are, and everything on which their scan depends. */
struct view_bytes {
    /* data, csize, usize, method, flags; role; is its name that of a pickle, text, example inputs? */
    uint64_t facts[9];
    uint32_t index; /* of the view */
};

static int compare_view_bytes(const void *left, const void *right)
{
    const struct view_bytes *x = left, *y = right;
    int c = memcmp(x->facts, y->facts, sizeof x->facts);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* find_shared_bytes - fills in archive->first_view, by which views of the same bytes are scanned once. */
static ckpt_status find_shared_bytes(struct zip_scan *archive, ckpt_error *err)
{
    struct view_bytes *bytes = calloc(archive->audit.n + 1, sizeof *bytes);
    archive->first_view = arena_array(archive->in->x->a, archive->audit.n, sizeof *archive->first_view);
    archive->is_known = arena_array(archive->in->x->a, archive->audit.n, sizeof *archive->is_known);
    if (archive->in->x->scan->opts->sha256)
        archive->digests = arena_array(archive->in->x->a, archive->audit.n, CKPT_DIGEST_MAX);
    if (!bytes || !archive->first_view || !archive->is_known ||
        (archive->in->x->scan->opts->sha256 && !archive->digests)) {
        free(bytes);
        return fail_memory(err);
    }
    for (size_t i = 0; i < archive->audit.n; i++) {
        const struct zip_view *v = &archive->audit.views[i];
        bytes[i] = (struct view_bytes){{v->data_offset, v->csize, v->usize, v->method, v->flags,
                                        get_role(archive, v), scan_is_pickle_name(v->name),
                                        scan_is_text_name(v->name), is_example_inputs(v->name)},
                                       (uint32_t)i};
    }
    qsort(bytes, archive->audit.n, sizeof *bytes, compare_view_bytes);
    for (size_t i = 0; i < archive->audit.n; i++) {
        bool same = i && memcmp(bytes[i - 1].facts, bytes[i].facts, sizeof bytes[i].facts) == 0;
        archive->first_view[bytes[i].index] = same ? archive->first_view[bytes[i - 1].index] : bytes[i].index;
    }
    free(bytes);
    return CKPT_OK;
}

static struct scan_extent get_extent(const struct zip_scan *archive, const struct zip_view *view)
{
    return view->method ? (struct scan_extent){CKPT_NO_OFFSET, view->usize}
                        : (struct scan_extent){source_pos(archive->in->src, view->data_offset), view->csize};
}

static ckpt_status report_shared_member(struct zip_scan *archive, const struct zip_view *view,
                                        const struct zip_view *first, ckpt_error *err)
{
    struct scanned at = *archive->in;
    CKPT_TRY(scan_join_names(archive->in, view->name, &at.where, err));
    at.x->scan->result->members++;
    CKPT_TRY(SCAN_FOUND(&at, SCAN_ZIP_SHARED, view->described_at,
                        "has the same bytes as %.*s (header at 0x%" PRIx64 "), and is scanned as that",
                        first->name.len > 200 ? 200 : (int)first->name.len, first->name.ptr,
                        first->described_at));
    if (view->crc && first->crc && view->crc != first->crc)
        CKPT_TRY(SCAN_FOUND(&at, SCAN_ZIP_CHECKSUM, view->described_at,
                            "two CRC-32 for the same bytes: {%08x} here, {=%08x} for the other", view->crc,
                            first->crc));
    return !archive->digests ? CKPT_OK
                             : scan_report_member(at.x, at.where, get_readers(view),
                                                  get_extent(archive, view), get_sha256(archive, first));
}

/* is_over_budget - returns true if more bytes were scanned than OVERLAP_MIN and OVERLAP_FACTOR allow. */
static bool is_over_budget(const struct scanner *scanner)
{
    uint64_t half_size = scanner->file_size / 2 + scanner->unpacked / 2;
    return scanner->member_bytes > OVERLAP_MIN &&
           (scanner->member_bytes - OVERLAP_MIN) / OVERLAP_FACTOR / 2 > half_size;
}

/* scan_members - scans all members. Sets *KNOWN_BYTES to SIZE less the members of unknown purpose. */
static ckpt_status scan_members(struct zip_scan *archive, uint64_t size, uint64_t *known_bytes,
                                ckpt_error *err)
{
    *known_bytes = size;
    CKPT_TRY(find_chunks(archive, err));
    CKPT_TRY(find_shared_bytes(archive, err));
    for (size_t i = 0; i < archive->audit.n; i++) {
        const struct zip_view *v = &archive->audit.views[i];
        uint32_t first_view = archive->first_view[i];
        archive->member_is_known = false;
        if (is_over_budget(archive->in->x))
            return SCAN_FOUND(archive->in, SCAN_NOT_OPENED, v->local_header_at,
                              "its members overlap; %zu of %zu were scanned", i, archive->audit.n);
        if (first_view == i || !v->reachable || v->csize == 0)
            CKPT_TRY(open_member(archive, v, err));
        else
            CKPT_TRY(report_shared_member(archive, v, &archive->audit.views[first_view], err));
        archive->is_known[i] = first_view == i ? archive->member_is_known : archive->is_known[first_view];
        if (!archive->is_known[i] && v->reachable && v->listed)
            *known_bytes -= v->csize < *known_bytes ? v->csize : *known_bytes;
    }
    return CKPT_OK;
}

/* note_opened_zip - adds SRC, which is about to be scanned as an archive, to scanner->opened_zips, and sets
 * *INDEX to its index there. So a member that extends to the end record of SRC is not taken for a second
 * archive. */
static ckpt_status note_opened_zip(struct scanner *scanner, source *src, size_t *index, ckpt_error *err)
{
    struct zip_directory_candidates c;
    uint64_t off;
    const source *root = source_root(src, &off);
    CKPT_TRY(zip_find_directory_candidates(src, &c, err));
    struct opened_zip opened = {root, c.n ? off + c.record_at : UINT64_MAX, UINT64_MAX,
                                scanner->in_stray_bytes};
    *index = scanner->nopened_zips;
    return ARENA_PUSH(scanner->a, scanner, opened_zips, &opened) ? CKPT_OK : fail_memory(err);
}

/* note_scanned_zip - sets OPENED_ZIP to the archive AUDIT, which was scanned, so that its end record is not
 * taken for that of a second archive when it is found from a source around AUDIT. */
static void note_scanned_zip(struct opened_zip *opened_zip, const struct zip_audit *audit)
{
    uint64_t off;
    (void)source_root(audit->src, &off);
    uint64_t end_record = off + audit->end_record_at;
    opened_zip->end_record = audit->end_record_at ? end_record : UINT64_MAX;
    opened_zip->directory = off + audit->directory_at;
}

/* find_opened_zip - returns the archive of end record CANDIDATES of SRC, if its scan has begun or ended; else
 * NULL. */
static const struct opened_zip *find_opened_zip(const struct scanner *scanner, const source *src,
                                                const struct zip_directory_candidates *candidates)
{
    uint64_t off;
    const source *root = source_root(src, &off);
    for (size_t i = 0; i < scanner->nopened_zips; i++) {
        const struct opened_zip *z = &scanner->opened_zips[i];
        if (z->root == root && z->end_record == off + candidates->record_at &&
            (z->directory == UINT64_MAX ||
             (candidates->n == 1 && z->directory == off + candidates->directories[0].begin)))
            return z;
    }
    return NULL;
}

/* scan_strays - scans bytes that belong to no member: between members and, unless the archive is EMBEDDED
 * in a file of a different format, before and after the archive. */
static ckpt_status scan_strays(struct zip_scan *archive, bool embedded, ckpt_error *err)
{
    source *src = archive->in->src;
    struct probe p = {.size = 0};
    uint64_t before = archive->audit.first_member_at; /* also 0 if the central directory leads to no member */
    CKPT_TRY(recognize_fill(&p, archive->in->x->path, src, err));
    if (before == 0 && !recognize_as(&p, SIGN_ZIP))
        before = src->size;
    ckpt_status st = embedded ? CKPT_OK : scan_stray_bytes(archive->in, 0, before, err);
    if (st == CKPT_OK && archive->audit.archive_end && !embedded)
        st = scan_stray_bytes(archive->in, archive->audit.archive_end, src->size, err);
    for (size_t i = 0; st == CKPT_OK && i < archive->nstrays; i++) {
        const struct stray_bytes *s = &archive->strays[i];
        st = scan_stray_bytes(archive->in, s->from, s->from + s->n, err);
    }
    return st;
}

/* is_torch_script - returns true if NAME is that of code of TorchScript; report_code_members reports it. */
static bool is_torch_script(ckpt_str name)
{
    return str_has(name, STR_LIT("/code/__torch__")) && is_program_text(name);
}

static ckpt_status scan_archive(const struct scanned *in, bool embedded, uint64_t *known_bytes,
                                ckpt_error *err)
{
    struct scanner *x = in->x;
    struct zip_scan *archive = arena_alloc(x->a, sizeof *archive);
    CKPT_TRY_ALLOC(archive, err);
    *archive = (struct zip_scan){
        .in = in, .audit = {.src = in->src, .a = x->a, .flaw = report_zip_flaw, .user = archive}};
    archive->max_unpacked = scan_max_unpacked(x, in->src->size);
    x->format = x->depth || embedded ? x->format : "zip";
    if (x->depth >= x->scan->opts->max_depth)
        return scan_found(x->scan, SCAN_NOT_OPENED, in->where, NULL, CKPT_NO_OFFSET,
                          "an archive nested too deep");
    uint64_t known_here = 0;
    size_t index = 0;
    CKPT_TRY(note_opened_zip(x, in->src, &index, err));
    ckpt_status st = zip_audit(&archive->audit, err);
    archive->written_by_torch = has_member(&archive->audit, is_from_torch);
    bool outer_has_code = x->scan->archive_has_code;
    x->scan->archive_has_code = has_member(&archive->audit, is_torch_script);
    CKPT_THEN(st, scan_members(archive, in->src->size, &known_here, err));
    x->scan->archive_has_code = outer_has_code;
    CKPT_THEN(st, scan_strays(archive, embedded, err));
    if (st == CKPT_OK && archive->written_by_torch)
        st = check_torch_layout(archive, err);
    CKPT_THEN(st, report_code_members(archive));
    if (st == CKPT_OK && has_member(&archive->audit, scan_has_siblings))
        st = scan_dcp_in_archive(in, err);
    *known_bytes += known_here; /* concatenated archives do not overlap */
    note_scanned_zip(&x->opened_zips[index], &archive->audit);
    /* of an archive without members there is nothing to check, and it is no more numpy's than others' */
    return st == CKPT_OK && !archive->has_flaw && !embedded && archive->audit.n
               ? scan_check_format(in, NULL, NULL, err)
               : st;
}

/* The offsets at which concatenated archives begin, without that of the first, in reverse order. The archives
 * fill a source up to its end or to a safetensors file. .n 0: there is a single archive. */
struct concatenated {
    uint64_t *starts;
    size_t n, cap;
};

static ckpt_status find_concatenated(struct scanner *scanner, source *src, uint64_t end,
                                     struct concatenated *archives, ckpt_error *err)
{
    uint64_t start;
    while (zip_find_concatenated(src, end, &start)) {
        if (start == 0)
            return CKPT_OK;
        CKPT_TRY_ALLOC(
            arena_push(scanner->a, &archives->starts, &archives->n, &archives->cap, &start, sizeof start),
            err);
        end = start;
    }
    archives->n = 0;
    return CKPT_OK;
}

/* find_end_record - moves *END to the end of the next end record at or after *END, not counting its comment;
 * to the size of SRC if there is none. */
static ckpt_status find_end_record(source *src, uint64_t *end, ckpt_error *err)
{
    reader r;
    size_t signature_at = SIZE_MAX;
    CKPT_TRY(reader_init(&r, src, *end, src->size, err));
    while (signature_at == SIZE_MAX && reader_left(&r) >= ZIP_END_SIZE) {
        size_t window_size = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *window = reader_peek(&r, window_size);
        signature_at = window ? str_find(str_of((const char *)window, window_size), STR_LIT(ZIP_END_BYTES), 0)
                              : SIZE_MAX;
        /* the last 3 bytes may begin a signature */
        (void)reader_skip(&r, signature_at != SIZE_MAX ? signature_at : window_size - 3);
    }
    bool found = signature_at != SIZE_MAX && reader_left(&r) >= ZIP_END_SIZE;
    *end = found ? r.pos + ZIP_END_SIZE : src->size;
    ckpt_status st = r.status;
    reader_free(&r);
    return st;
}

/* find_safetensors - sets *AT to the offset of a safetensors file that follows archives, which are
 * concatenated from the first byte of SRC on, as in a .distcp file; to the size of SRC if there is none. */
static ckpt_status find_safetensors(source *src, uint64_t *at, ckpt_error *err)
{
    uint64_t end = 0, archives_end = 0, start;
    *at = src->size;
    if (zip_find_concatenated(src, src->size, &start))
        return CKPT_OK;
    while (end < src->size) {
        CKPT_TRY(find_end_record(src, &end, err));
        if (end == src->size || !zip_find_concatenated(src, end, &start) || start != archives_end)
            continue; /* the end record is among the bytes of a member */
        if (recognize_safetensors_at(src, end)) {
            *at = end;
            return CKPT_OK;
        }
        if (!zip_has_signature(src, end, ZIP_LOCAL))
            return CKPT_OK;
        archives_end = end;
    }
    return CKPT_OK;
}

static ckpt_status scan_concatenated(const struct scanned *in, uint64_t from, uint64_t to,
                                     uint64_t *known_bytes, ckpt_error *err)
{
    struct scanned archive = *in;
    CKPT_TRY(scan_join_offset(in, "archive", from, &archive.where, err));
    CKPT_TRY(source_slice(in->src, from, to - from, &archive.src, err));
    ckpt_status st = scan_archive(&archive, false, known_bytes, err);
    source_unref(archive.src);
    return st;
}

ckpt_status scan_zip(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct concatenated archives = {0};
    uint64_t from = 0, end;
    CKPT_TRY(find_safetensors(in->src, &end, err));
    CKPT_TRY(find_concatenated(in->x, in->src, end, &archives, err));
    if (archives.n == 0 && end == in->src->size)
        return scan_archive(in, false, known_bytes, err);
    const char *rest = end < in->src->size ? ", then a safetensors file" : "";
    CKPT_TRY(archives.n ? SCAN_FOUND(in, SCAN_ZIP_CONCATENATED, 0, "%zu archives one after the other%s",
                                     archives.n + 1, rest)
                        : SCAN_FOUND(in, SCAN_ZIP_CONCATENATED, 0, "an archive%s", rest));
    for (size_t i = archives.n; COUNT_DOWN(i); from = archives.starts[i])
        CKPT_TRY(scan_concatenated(in, from, archives.starts[i], known_bytes, err));
    CKPT_TRY(scan_concatenated(in, from, end, known_bytes, err));
    *known_bytes += in->src->size - end; /* END is inside; those bytes are scanned next */
    return scan_stray_bytes(in, end, in->src->size, err);
}

ckpt_status scan_archive_at_end(const struct scanned *in, ckpt_error *err)
{
    struct zip_directory_candidates c;
    uint64_t known_bytes = 0;
    CKPT_TRY(zip_find_directory_candidates(in->src, &c, err));
    if (c.n == 0)
        return CKPT_OK;
    const struct opened_zip *seen = find_opened_zip(in->x, in->src, &c);
    if (seen && seen->directory == UINT64_MAX)
        return CKPT_OK;
    if (seen && !seen->is_stray)
        return SCAN_FOUND(
            in, SCAN_ZIP_AT_END, c.record_at,
            "the archive that ends here is a member, and scanned as that; readers of zip open it "
            "instead of the file");
    CKPT_TRY(SCAN_FOUND(in, SCAN_TWO_FORMATS, c.record_at,
                        "polyglot: also a zip archive, which readers of zip open by this end record"));
    if (seen)
        return CKPT_OK;
    struct scanned archive = *in;
    CKPT_TRY(scan_join_offset(in, "archive", c.record_at, &archive.where, err));
    return scan_archive(&archive, true, &known_bytes, err);
}
