/*
 * compressed.c - unpacks and scans compressed files and foreign archives: joblib dumps, tar.gz, 7-Zip. Gzip
 * and zlib are unpacked by codec/inflate, the others by libarchive. The bytes they unpack to are limited in
 * proportion to the compressed size, and in total.
 */
#include <inttypes.h>

#include "codec/inflate.h"
#include "codec/unpack_archive.h"
#include "format/recognize.h"
#include "io/reader.h"
#include "scan/scan.h"

#define UNPACKED_MIN ((uint64_t)64 << 20) /* allowed whatever the ratio */
#define RATIO_MAX    1100u                /* deflate gives at most 1032 bytes per byte */

#define SEVENZIP_HEADER 32u /* bytes of the signature header */

#define LZ4_MAGIC            0x184d2204u
#define LZ4_SKIPPABLE        0x184d2a50u /* … to 0x184d2a5f */
#define LZ4_BLOCK_CHECKSUM   0x10u       /* bits of FLG: this and the next three */
#define LZ4_CONTENT_SIZE     0x08u
#define LZ4_CONTENT_CHECKSUM 0x04u
#define LZ4_DICT_ID          0x01u
#define LZ4_UNCOMPRESSED     0x80000000u /* of a block's size */

struct compressed_data {
    const struct scanned *in;
    bool all_bytes_known; /* each byte of each member has a known purpose */
};

static ckpt_status scan_unpacked_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct compressed_data *p = user;
    struct scanner *x = p->in->x;
    struct scanned member = {.x = x};
    uint64_t known_bytes = 0;
    CKPT_TRY(scan_join_names(p->in, name, &member.where, err));
    CKPT_TRY(scan_check_member_name(&member, CKPT_NO_OFFSET, name));
    member.src = bytes;
    x->scan->result->members++;
    x->unpacked += bytes->size;
    CKPT_TRY(scan_hash_member(&member, 0, NULL, err));
    ckpt_status st = scan_bytes(&member, x->in_chunk ? SCAN_CHUNK : SCAN_MEMBER, &known_bytes, err);
    p->all_bytes_known = p->all_bytes_known && known_bytes >= bytes->size;
    return st;
}

uint64_t scan_max_unpacked(const struct scanner *scanner, uint64_t size)
{
    uint64_t left = scanner->scan->opts->max_unpacked - scanner->unpacked;
    if (size > left / RATIO_MAX)
        return left;
    uint64_t by_ratio = size * RATIO_MAX;
    uint64_t max = by_ratio < UNPACKED_MIN ? UNPACKED_MIN : by_ratio;
    return max < left ? max : left;
}

/* inflate - returns what SRC inflates to, at most MAX bytes, and sets *ST to how it ended. NULL: nothing. */
static source *inflate(struct scanner *scanner, source *src, enum inflate_kind kind, uint64_t max,
                       ckpt_status *st)
{
    uint64_t used;
    ckpt_error why;
    spool *unpacked = spool_new(max);
    *st = unpacked ? inflate_into(src, 0, src->size, kind, unpacked, &used, &why) : fail_memory(&why);
    (void)scan_note_system_failure(scanner->scan, *st, &why);
    if (unpacked && spool_size(unpacked))
        return spool_source(unpacked);
    spool_free(unpacked);
    return NULL;
}

bool scan_is_zlib(struct scanner *scanner, source *src, bool text)
{
    ckpt_status ignored;
    uint64_t max = text ? scan_max_unpacked(scanner, src->size) : 64; /* some bytes are enough */
    source *bytes = inflate(scanner, src, INFLATE_ZLIB, max, &ignored);
    bool is_zlib = bytes && (!text || scan_is_pickle(scanner, bytes, 0, bytes->size, true));
    source_unref(bytes);
    return is_zlib;
}

static ckpt_status scan_deflated(struct compressed_data *data, enum inflate_kind kind, ckpt_error *err)
{
    source *src = data->in->src;
    uint64_t used;
    spool *unpacked = spool_new(scan_max_unpacked(data->in->x, src->size));
    CKPT_TRY_ALLOC(unpacked, err);
    ckpt_status st = inflate_into(src, 0, src->size, kind, unpacked, &used, err);
    source *bytes = spool_source(unpacked);
    if (st == CKPT_OK && used < src->size)
        st = fail(err, CKPT_EFORMAT, used, "{%" PRIu64 " bytes} follow {=the compressed ones}",
                  src->size - used);
    ckpt_error inside_err;
    ckpt_status scan_st = st == CKPT_EIO || st == CKPT_ENOMEM
                              ? CKPT_OK
                              : scan_unpacked_member(data, STR_LIT("contents"), bytes, &inside_err);
    source_unref(bytes);
    if (scan_st != CKPT_OK)
        *err = inside_err;
    return scan_st != CKPT_OK ? scan_st : st;
}

/* read_7zip_end - returns the end of a 7-Zip archive, by its signature header (32 bytes; offset and size of
 * the end header at 12 and 20). */
static uint64_t read_7zip_end(struct scan *scan, source *src)
{
    unsigned char head[SEVENZIP_HEADER];
    if (!scan_read(scan, src, 0, head, sizeof head))
        return UINT64_MAX;
    uint64_t end_header_size = load_u64le(head + 20);
    /* libarchive found the end header there; without one, its offset is not used */
    return end_header_size ? sizeof head + load_u64le(head + 12) + end_header_size : sizeof head;
}

/* skip_lz4_frame - skips one frame (LZ4 Frame Format Description, 1.6): magic number (4 bytes), FLG, BD,
 * content size (8, if FLG has it), dictionary ID (4, if FLG has it), header checksum (1); blocks, each its
 * size (the top bit: not compressed), its bytes and a checksum (4, if FLG has it); EndMark (a size of 0);
 * content checksum (4, if FLG has it). */
static bool skip_lz4_frame(reader *in)
{
    const unsigned char *head = reader_take(in, 6);
    if (!head)
        return false;
    unsigned flg = head[4];
    uint64_t block_size, checksum_size = flg & LZ4_BLOCK_CHECKSUM ? 4 : 0;
    (void)reader_skip(in, (flg & LZ4_CONTENT_SIZE ? 8u : 0) + (flg & LZ4_DICT_ID ? 4u : 0) + 1);
    while ((block_size = reader_u32(in) & ~LZ4_UNCOMPRESSED))
        (void)reader_skip(in, block_size + checksum_size);
    return !(flg & LZ4_CONTENT_CHECKSUM) || reader_skip(in, 4);
}

/* skip_lz4_user_frame - skips a skippable frame: magic number, length of the data (4 bytes), data. */
static bool skip_lz4_user_frame(reader *in)
{
    (void)reader_skip(in, 4);
    uint64_t n = reader_u32(in);
    return reader_skip(in, n);
}

/* find_lz4_end - sets *END to the end of the last frame of SRC, which libarchive does not report. */
static ckpt_status find_lz4_end(source *src, uint64_t *end, ckpt_error *err)
{
    reader r;
    bool found_frame = true;
    CKPT_TRY(reader_init(&r, src, 0, src->size, err));
    while (found_frame) {
        *end = r.pos;
        const unsigned char *head = reader_left(&r) >= 4 ? reader_peek(&r, 4) : NULL;
        uint32_t magic = head ? load_u32le(head) : 0;
        found_frame = (magic == LZ4_MAGIC && skip_lz4_frame(&r)) ||
                      ((magic & ~0xfu) == LZ4_SKIPPABLE && skip_lz4_user_frame(&r));
    }
    reader_free(&r);
    return r.status == CKPT_ETRUNCATED ? CKPT_OK : r.status;
}

static ckpt_status unpack_with_libarchive(struct scan *scan, source *src, const char *kind,
                                          struct unpack *unpack, ckpt_error *err)
{
    CKPT_TRY(unpack_archive(src, unpack, err));
    uint64_t end = strcmp(kind, "7-Zip") == 0 ? read_7zip_end(scan, src) : unpack->bytes_read;
    if (strcmp(kind, "lz4") == 0)
        CKPT_TRY(find_lz4_end(src, &end, err));
    return end >= src->size ? CKPT_OK
                            : fail(err, CKPT_EFORMAT, source_pos(src, end),
                                   "{%" PRIu64 " bytes} follow {=the compressed ones}", src->size - end);
}

static ckpt_status count_unpacked(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    (void)name;
    (void)err;
    *(uint64_t *)user += bytes->size;
    return CKPT_OK;
}

bool scan_is_compressed(struct scanner *scanner, source *src, const char *kind)
{
    uint64_t unpacked_size = 0, max = scan_max_unpacked(scanner, src->size);
    struct unpack u = {.max_bytes = max, .member = count_unpacked, .user = &unpacked_size};
    bool zlib = strcmp(kind, "zlib") == 0;
    ckpt_error why;
    ckpt_status st;
    if (zlib || strcmp(kind, "gzip") == 0) {
        source *bytes = inflate(scanner, src, zlib ? INFLATE_ZLIB : INFLATE_GZIP, max, &st);
        unpacked_size = bytes ? bytes->size : 0;
        source_unref(bytes);
    } else {
        st = unpack_archive(src, &u, &why);
        (void)scan_note_system_failure(scanner->scan, st, &why);
    }
    return st == CKPT_OK && unpacked_size > 0;
}

#define CALL_MIN 8u /* bytes of the smallest pickle that calls something */

struct packed_file {
    struct scanner *x;
    uint64_t size;
    bool is_file;
};

/* note_if_file - sets is_file if BYTES are a recognized file. */
static ckpt_status note_if_file(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    struct packed_file *f = user;
    struct probe p = {.size = 0};
    (void)name;
    CKPT_TRY(recognize_fill(&p, f->x->path, bytes, err));
    f->size = bytes->size;
    f->is_file = f->is_file || recognize(&p) || scan_is_pickle(f->x, bytes, 0, bytes->size, true);
    return CKPT_OK;
}

/* inflates_to_file - returns true if SRC is zlib data of a recognized file or of more bytes than may be
 * unpacked, or is broken zlib data whose first bytes call something as a pickle: random bytes inflate to few
 * bytes. */
static bool inflates_to_file(struct scanner *scanner, source *src)
{
    struct packed_file f = {.x = scanner};
    ckpt_status st;
    ckpt_error why;
    source *bytes = inflate(scanner, src, INFLATE_ZLIB, scan_max_unpacked(scanner, src->size), &st);
    if (bytes && st == CKPT_OK)
        (void)scan_note_system_failure(scanner->scan, note_if_file(&f, STR_LIT(""), bytes, &why), &why);
    else if (bytes)
        f.is_file = bytes->size >= CALL_MIN && scan_is_pickle(scanner, bytes, 0, bytes->size, false);
    scanner->unpacked += bytes ? bytes->size : 0;
    source_unref(bytes);
    return f.is_file || st == CKPT_ELIMIT;
}

const char *scan_find_packed_file(struct scanner *scanner, source *src)
{
    struct probe p = {.size = 0};
    ckpt_error why;
    struct packed_file f = {.x = scanner};
    struct unpack u = {
        .max_bytes = scan_max_unpacked(scanner, src->size), .member = note_if_file, .user = &f};
    if (scan_note_system_failure(scanner->scan, recognize_fill(&p, scanner->path, src, &why), &why))
        return NULL;
    if (recognize_zlib(&p))
        return inflates_to_file(scanner, src) ? "zlib" : NULL;
    const struct signature *compression = recognize_kind(&p, SIGN_COMPRESSED);
    if (!compression || strcmp(compression->id, "lzma") != 0)
        return NULL;
    ckpt_status st = unpack_archive(src, &u, &why);
    (void)scan_note_system_failure(scanner->scan, st, &why);
    scanner->unpacked += f.size;
    return f.is_file || st == CKPT_ELIMIT ? "lzma" : NULL;
}

ckpt_status scan_compressed(const struct scanned *in, const char *kind, uint64_t *known_bytes,
                            ckpt_error *err)
{
    struct scanner *x = in->x;
    struct compressed_data p = {in, true};
    struct unpack u = {
        .max_bytes = scan_max_unpacked(x, in->src->size), .member = scan_unpacked_member, .user = &p};
    ckpt_error why;
    x->format = x->depth ? x->format : kind;
    ckpt_status st;
    if (x->depth >= x->scan->opts->max_depth)
        st = fail(&why, CKPT_ELIMIT, CKPT_NO_OFFSET, "it is nested too deep");
    else if (strcmp(kind, "gzip") == 0 || strcmp(kind, "zlib") == 0)
        st = scan_deflated(&p, kind[0] == 'g' ? INFLATE_GZIP : INFLATE_ZLIB, &why);
    else
        st = unpack_with_libarchive(x->scan, in->src, kind, &u, &why);
    if (st == CKPT_EIO || st == CKPT_ENOMEM || st == CKPT_ECANCELLED) {
        *err = why;
        return st;
    }
    if (st == CKPT_OK && p.all_bytes_known)
        *known_bytes += in->src->size; /* the caller's sum is at most the size of its source */
    if (st == CKPT_OK)
        return SCAN_FOUND(in, SCAN_ARCHIVE_OPENED, 0, "%s data, unpacked and scanned", kind);
    return SCAN_FOUND(in, st == CKPT_EFORMAT || st == CKPT_ETRUNCATED ? SCAN_MALFORMED : SCAN_NOT_OPENED, 0,
                      "%s data: %s", kind, why.what);
}
