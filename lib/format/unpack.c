/*
 * unpack.c - reads a checkpoint in a file that is compressed as a whole (.pt.gz, .safetensors.zst). Unpacks
 * it into memory or a temporary file (gzip and zlib by codec/inflate, the others by libarchive), and reads
 * the result as if it were the file. Errors have no offset, because nothing unpacked has one in the file.
 *
 * Refused: a file that unpacks to more than file_max_unpacked allows; a compressed file in a compressed file.
 */
#include <inttypes.h>

#include "codec/inflate.h"
#include "codec/lz4_frame.h"
#include "codec/unpack_archive.h"
#include "core/check.h"
#include "format/registry.h"
#include "format/unpack.h"

static ckpt_status unpack_end_of_bzip2(source *src, spool *to, ckpt_error *err)
{
    return unpack_truncated(src, UNPACK_BZIP2, to, err);
}

static ckpt_status unpack_end_of_lzma(source *src, spool *to, ckpt_error *err)
{
    return unpack_truncated(src, UNPACK_LZMA, to, err);
}

static ckpt_status unpack_end_of_xz(source *src, spool *to, ckpt_error *err)
{
    return unpack_truncated(src, UNPACK_XZ, to, err);
}

static ckpt_status unpack_end_of_zstd(source *src, spool *to, ckpt_error *err)
{
    return unpack_truncated(src, UNPACK_ZSTD, to, err);
}

/* The kinds of compression. If the checksum of what they unpack to is optional, a field of the header has its
 * kind, or whether there is one. Source: xz-file-format 2.1.1.2, RFC 8878 3.1.1.1.1.5, lz4_Frame_format. */
static const struct kind {
    const char *id;
    bool always_checksum;
    unsigned char offset, mask; /* of the field; MASK 0: there is none */
    /* unpack_end - appends to TO what SRC, which ends too early, can be unpacked to; NULL: what unpack_head
     * returns is all. Fails only for want of memory or room. */
    ckpt_status (*unpack_end)(source *src, spool *to, ckpt_error *err);
} kinds[] = {
    {.id = "zlib"},
    {.id = "gzip", .always_checksum = true},
    {.id = "bzip2", .always_checksum = true, .unpack_end = unpack_end_of_bzip2},
    {.id = "xz", .offset = 7, .mask = 0x0f, .unpack_end = unpack_end_of_xz},
    {.id = "lzma", .unpack_end = unpack_end_of_lzma},
    {.id = "lz4", .offset = 4, .mask = 0x04, .unpack_end = lz4_unpack_truncated},
    {.id = "zstd", .offset = 4, .mask = 0x04, .unpack_end = unpack_end_of_zstd},
};

/* find_kind - returns the compression that SIGNATURE describes; NULL: it is an archive. */
static const struct kind *find_kind(const struct signature *signature)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(signature->id, kinds[i].id) == 0)
            return &kinds[i];
    return NULL;
}

const struct signature *recognize_compression(const struct probe *probe)
{
    const struct signature *s = recognize(probe);
    return s && (s->kind == SIGN_COMPRESSED || s->kind == SIGN_ZLIB) && find_kind(s) ? s : NULL;
}

static ckpt_status keep_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    source **kept = user;
    (void)name;
    (void)err;
    if (!*kept)
        *kept = source_ref(bytes);
    return CKPT_OK;
}

/* is_about_end - returns true if WHY, a message of libarchive, is that its input ends too early. For xz it
 * passes on liblzma's, which is that it cannot go on. */
static bool is_about_end(const char *why)
{
    return strstr(why, "runcated") || strstr(why, "No progress is possible");
}

/* unpack_by_libarchive - unpacks the compressed file SRC. Its decoder fails only if the file is damaged. */
static ckpt_status unpack_by_libarchive(source *src, struct unpack *unpack, ckpt_error *err)
{
    ckpt_status st = unpack_archive(src, unpack, err);
    bool is_decoder_failed = st == CKPT_EUNSUPPORTED && unpack->is_decoder_failed;
    if ((st == CKPT_EFORMAT || is_decoder_failed) && is_about_end(err->what))
        return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                    "the {compressed bytes} end too early: they have no {=end mark}");
    if (!is_decoder_failed)
        return st;
    ckpt_error why = *err;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "broken {=compressed data}: {%s}", why.what);
}

ckpt_status unpack_head(source *src, const struct signature *signature, uint64_t max, source **out,
                        uint64_t *used, ckpt_error *err)
{
    struct unpack u = {.max_bytes = max, .member = keep_member, .user = out};
    bool gzip = strcmp(signature->id, "gzip") == 0;
    *out = NULL;
    *used = 0;
    if (!gzip && signature->kind != SIGN_ZLIB) {
        ckpt_status failure = unpack_by_libarchive(src, &u, err);
        *used = u.bytes_read < src->size ? u.bytes_read : src->size;
        return failure;
    }
    spool *to = spool_new(max);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = inflate_into(src, 0, src->size, gzip ? INFLATE_GZIP : INFLATE_ZLIB, to, used, err);
    *out = spool_source(to);
    return st;
}

/* unpack_to_end - replaces *OUT, which the truncated file F, compressed as SIGNATURE describes, was unpacked
 * to, if more of F can be unpacked. ERR is why F is truncated; it remains unless this fails. */
static ckpt_status unpack_to_end(const ckpt_file *f, const struct signature *signature, source **out,
                                 ckpt_error *err)
{
    const struct kind *k = find_kind(signature);
    spool *to = k && k->unpack_end ? spool_new(file_max_unpacked(f, f->src->size)) : NULL;
    ckpt_error failure;
    if (!to)
        return k && k->unpack_end ? fail_memory(err) : CKPT_ETRUNCATED;
    ckpt_status st = k->unpack_end(f->src, to, &failure);
    if (st == CKPT_OK && spool_size(to) > (*out ? (*out)->size : 0)) {
        source_unref(*out);
        *out = spool_source(to);
        return CKPT_ETRUNCATED;
    }
    spool_free(to);
    if (st != CKPT_OK)
        *err = failure;
    return st == CKPT_OK ? CKPT_ETRUNCATED : st;
}

ckpt_status unpack_all(ckpt_file *f, const struct signature *signature, source **out, uint64_t *stray,
                       ckpt_error *err)
{
    uint64_t max = file_max_unpacked(f, f->src->size), used;
    bool zero = true;
    ckpt_status st = unpack_head(f->src, signature, max, out, &used, err);
    if (st == CKPT_ETRUNCATED)
        st = unpack_to_end(f, signature, out, err);
    CKPT_THEN(st, source_is_zero(f->src, used, f->src->size - used, &zero, err));
    *stray = zero ? 0 : f->src->size - used;
    if (st == CKPT_ELIMIT) {
        (void)fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "it unpacks to {more} than {=%" PRIu64 " bytes}", max);
        error_add_hint(err, "raise it with --max-expanded (max_expanded in ckpt_limits)");
    }
    return st;
}

ckpt_status unpack_report_stray(ckpt_file *f, struct check *check, const source *src, uint64_t stray,
                                ckpt_error *err)
{
    ckpt_error e = {0};
    const char *plural = stray == 1 ? "" : "s";
    if (!stray)
        return CKPT_OK;
    if (!check) {
        file_notice(f, "%" PRIu64 " byte%s after the compressed data %s ignored", stray, plural,
                    stray == 1 ? "is" : "are");
        return CKPT_OK;
    }
    (void)fail(&e, CKPT_EFORMAT, source_pos(src, src->size - stray),
               "{%" PRIu64 " unreferenced byte%s} after {=the compressed data}", stray, plural);
    return check_report(check, CHECK_STRAY, f->path, &e, err);
}

static bool probe(const struct probe *this_probe)
{
    const struct signature *s = this_probe->is_folder || this_probe->zip ? NULL
                                                                         : recognize_compression(this_probe);
    return s && s->kind != SIGN_ZLIB; /* because a text may begin with the two bytes of a zlib header, too */
}

/* read_unpacked - makes F the checkpoint in UNPACKED (taken over). Refuses a compressed file. */
static ckpt_status read_unpacked(ckpt_file *f, source *unpacked, ckpt_error *err)
{
    ckpt_file *part = NULL;
    struct probe p = {.path = f->path, .src = unpacked};
    ckpt_status st = recognize_fill(&p, f->path, unpacked, err);
    if (st == CKPT_OK && probe(&p))
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                  "{a compressed file} in a compressed file; {=a checkpoint} was expected");
    if (st != CKPT_OK) {
        source_unref(unpacked);
        return st;
    }
    CKPT_TRY(format_open_part(f, f->path, unpacked, &part, err));
    if (!part) /* its fault was reported */
        return err->status;
    file_take_over(f, part);
    f->loading.refusal = STR_LIT("it is compressed");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct check *check = f->check; /* F is replaced by the file that is unpacked */
    const struct signature *s = recognize_compression(f->opening->probe);
    const struct kind *k = s ? find_kind(s) : NULL;
    const struct probe *p = f->opening->probe;
    bool checked = k && (k->always_checksum || (p->nhead > k->offset && p->head[k->offset] & k->mask));
    source *unpacked = NULL, *packed = source_ref(f->src);
    uint64_t stray;
    ckpt_status st = unpack_all(f, s, &unpacked, &stray, err);
    if (st == CKPT_EUNSUPPORTED) {
        err->hint[0] = '\0';
        recognize_add_hint(s, f->path, err);
    }
    if (st == CKPT_EFORMAT)
        error_add_hint(err, "the file is damaged: get it again");
    ckpt_error why = *err;
    /* what precedes the end of a truncated file can be used; after damage, nothing shows what is right */
    bool is_partial = st == CKPT_ETRUNCATED && f->salvage && unpacked && unpacked->size;
    uint64_t n = unpacked ? unpacked->size : 0;
    if (st == CKPT_OK && !n)
        st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{nothing} in {=a compressed file}\nget the file again");
    if (st == CKPT_OK || is_partial)
        st = read_unpacked(f, unpacked, err);
    else
        source_unref(unpacked);
    if (st == CKPT_OK && !is_partial && checked) {
        f->whole_checksum = true;
        check_count(check, 1, n);
    }
    CKPT_THEN(st, unpack_report_stray(f, check, packed, stray, err));
    source_unref(packed);
    if (st == CKPT_OK && is_partial)
        file_note_loss(f, "only %" PRIu64 " bytes can be unpacked: %s", n, why.what);
    if (st != CKPT_OK)
        error_add_position(err, 0, STR_LIT("compressed data"));
    if (st == CKPT_ETRUNCATED && !err->hint[0])
        error_add_hint(err, n && !f->salvage
                                ? "the download or the save stopped early: fetch the file again, or `ckpt "
                                  "salvage` what is intact"
                                : "the download or the save stopped early: get the file again");
    return st;
}

const struct format format_compressed = {
    .name = "compressed", .title = "compressed file", .probe = probe, .read = read};
