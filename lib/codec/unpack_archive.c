/* unpack_archive.c - unpacks bzip2, xz, lzma, zstd, lz4 and 7-Zip by libarchive, whose headers no other file
 * includes and which a build may lack (make LIBARCHIVE=). The library is loaded when it is needed, because
 * linking it and the dozen libraries that it needs would double the start-up time of every command; a static
 * program has it linked (make LIBARCHIVE=linked). Only decoders inside the library are enabled: for others it
 * would start a program. No name from an archive is ever used as a path. */
#include "codec/unpack_archive.h"

#ifdef HAVE_LIBARCHIVE

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/library.h"
#include "base/store.h"

#define BLOCK          65536u
#define ZIP_HEADER     51u  /* bytes of a local header with a name of one byte and a zip64 field */
#define LZMA_FILE      13u  /* bytes of the header of an .lzma file: 5 of properties, and the size */
#define LZMA_ZIP       9u   /* those before the properties in a zip, and they: APPNOTE 5.8.8 */
#define DECODER_FAILED (-1) /* libarchive's ARCHIVE_ERRNO_MISC, which its public headers lack */

#define FUNCTIONS(X)                                                                                         \
    X(archive_bzlib_version)                                                                                 \
    X(archive_errno)                                                                                         \
    X(archive_entry_filetype)                                                                                \
    X(archive_entry_is_encrypted)                                                                            \
    X(archive_entry_pathname)                                                                                \
    X(archive_error_string)                                                                                  \
    X(archive_filter_bytes)                                                                                  \
    X(archive_filter_code)                                                                                   \
    X(archive_format)                                                                                        \
    X(archive_liblz4_version)                                                                                \
    X(archive_liblzma_version)                                                                               \
    X(archive_libzstd_version)                                                                               \
    X(archive_read_append_filter)                                                                            \
    X(archive_read_data_block)                                                                               \
    X(archive_read_free)                                                                                     \
    X(archive_read_new)                                                                                      \
    X(archive_read_next_header)                                                                              \
    X(archive_read_open1)                                                                                    \
    X(archive_read_set_callback_data)                                                                        \
    X(archive_read_set_read_callback)                                                                        \
    X(archive_read_set_seek_callback)                                                                        \
    X(archive_read_support_filter_bzip2)                                                                     \
    X(archive_read_support_filter_lz4)                                                                       \
    X(archive_read_support_filter_lzma)                                                                      \
    X(archive_read_support_filter_xz)                                                                        \
    X(archive_read_support_filter_zstd)                                                                      \
    X(archive_read_support_format_7zip)                                                                      \
    X(archive_read_support_format_raw)                                                                       \
    X(archive_read_support_format_zip_streamable)                                                            \
    X(archive_set_error)

struct libarchive {
    FUNCTIONS(LIBRARY_POINTER)
};

#ifndef LIBARCHIVE_LINKED
LIBRARY_NOTE(libarchive, "libarchive.so.13", "recommended")
LIBRARY_LOADED(libarchive, FUNCTIONS, "unpacks it", "libarchive.so.13", "libarchive.so",
               "libarchive.13.dylib")
#else
LIBRARY_LINKED(libarchive, FUNCTIONS)
#endif

struct unpack_input {
    const struct libarchive *lib;
    struct archive *a;
    source *src;
    uint64_t pos;
    const unsigned char *prefix; /* NPREFIX bytes, which are read before those of SRC */
    size_t nprefix;
    unsigned char block[BLOCK];
};

static la_ssize_t read_callback(struct archive *archive, void *user, const void **out)
{
    struct unpack_input *in = user;
    ckpt_error err;
    if (in->nprefix) {
        la_ssize_t nprefix = (la_ssize_t)in->nprefix;
        *out = in->prefix;
        in->nprefix = 0;
        return nprefix;
    }
    uint64_t left = in->src->size - in->pos;
    size_t n = left < BLOCK ? (size_t)left : BLOCK;
    if (source_read(in->src, in->pos, in->block, n, &err) != CKPT_OK) {
        in->lib->archive_set_error(archive, EIO, "%s", err.what);
        return ARCHIVE_FATAL;
    }
    in->pos += n;
    *out = in->block;
    return (la_ssize_t)n;
}

static la_int64_t seek_callback(struct archive *archive, void *user, la_int64_t off, int whence)
{
    struct unpack_input *in = user;
    uint64_t base = whence == SEEK_END ? in->src->size : 0; /* libarchive computes SEEK_CUR itself */
    uint64_t to = base + (uint64_t)off; /* a negative OFF wraps to a large number, refused below */
    (void)archive;
    if (to > in->src->size)
        return ARCHIVE_FATAL;
    in->pos = to;
    return (la_int64_t)to;
}

/* support_all - enables every filter and format that unpack_archive unpacks. */
static void support_all(struct unpack_input *in)
{
    struct archive *a = in->a;
    const struct {
        const char *(*version)(void); /* returns NULL if the decoder would be another program */
        int (*support)(struct archive *a);
    } filters[] = {{in->lib->archive_bzlib_version, in->lib->archive_read_support_filter_bzip2},
                   {in->lib->archive_liblzma_version, in->lib->archive_read_support_filter_xz},
                   {in->lib->archive_liblzma_version, in->lib->archive_read_support_filter_lzma},
                   {in->lib->archive_libzstd_version, in->lib->archive_read_support_filter_zstd},
                   {in->lib->archive_liblz4_version, in->lib->archive_read_support_filter_lz4}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (filters[i].version())
            (void)filters[i].support(a);
    (void)in->lib->archive_read_support_format_7zip(a);
    (void)in->lib->archive_read_support_format_raw(a);
}

/* open_input - sets *OUT to an input by which libarchive reads SRC; the caller closes it by close_input. */
static ckpt_status open_input(source *src, struct unpack_input **out, ckpt_error *err)
{
    struct unpack_input *in = calloc(1, sizeof *in);
    CKPT_TRY_ALLOC(in, err);
    ckpt_status st = load_libarchive(&in->lib, err);
    if (st == CKPT_OK && !(in->a = in->lib->archive_read_new()))
        st = fail_memory(err);
    if (st != CKPT_OK) {
        free(in);
        return st;
    }
    in->src = src;
    (void)in->lib->archive_read_set_read_callback(in->a, read_callback);
    (void)in->lib->archive_read_set_seek_callback(in->a, seek_callback);
    (void)in->lib->archive_read_set_callback_data(in->a, in);
    *out = in;
    return CKPT_OK;
}

static void close_input(struct unpack_input *in)
{
    (void)in->lib->archive_read_free(in->a);
    free(in);
}

static ckpt_status fail_libarchive(const struct unpack_input *in, ckpt_error *err)
{
    const char *why = in->lib->archive_error_string(in->a);
    if (in->lib->archive_errno(in->a) == ENOMEM)
        return fail_memory(err);
    if (!why)
        why = "libarchive cannot read it";
    return in->lib->archive_errno(in->a) == EILSEQ
               ? fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "broken {=compressed data}: {%s}", why)
               : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s", why);
}

/* spool_entry - appends the bytes of the current entry to TO; after a failure, those read before it. */
static ckpt_status spool_entry(const struct unpack_input *in, spool *to, ckpt_error *err)
{
    const void *block; /* archive_read_data would drop blocks that do not fill its buffer before a failure */
    size_t n;
    la_int64_t offset; /* is not needed: entries of these formats have no holes */
    int code;
    while ((code = in->lib->archive_read_data_block(in->a, &block, &n, &offset)) == ARCHIVE_OK)
        CKPT_TRY(spool_write(to, block, n, err));
    return code == ARCHIVE_EOF ? CKPT_OK : fail_libarchive(in, err);
}

/* unpack_entry - sets *OUT to the bytes of the current entry; after a failure, to those read before it. */
static ckpt_status unpack_entry(const struct unpack_input *in, struct unpack *unpack, source **out,
                                ckpt_error *err)
{
    spool *to = spool_new(unpack->max_bytes);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = spool_entry(in, to, err);
    unpack->max_bytes -= spool_size(to);
    *out = spool_source(to);
    return st;
}

/* pass_entry - unpacks the entry ENTRY, and passes its bytes to the callback of UNPACK. */
static ckpt_status pass_entry(const struct unpack_input *in, struct archive_entry *entry,
                              struct unpack *unpack, ckpt_error *err)
{
    source *bytes = NULL;
    ckpt_error member_err;
    const char *name = in->lib->archive_entry_pathname(entry);
    /* without a filter, the format "raw" would return the bytes unchanged */
    if (in->lib->archive_format(in->a) == ARCHIVE_FORMAT_RAW &&
        in->lib->archive_filter_code(in->a, 0) == ARCHIVE_FILTER_NONE)
        return fail(err, CKPT_EFORMAT, source_pos(in->src, 0), "it {only begins} like {=packed data}");
    if (in->lib->archive_entry_filetype(entry) == AE_IFDIR)
        return CKPT_OK;
    if (in->lib->archive_entry_is_encrypted(entry))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "a member is encrypted");
    ckpt_status st = unpack_entry(in, unpack, &bytes, err);
    if (!bytes)
        return st;
    ckpt_status member_status = unpack->member(unpack->user, str_c(name ? name : "?"), bytes, &member_err);
    source_unref(bytes);
    if (member_status != CKPT_OK)
        *err = member_err;
    return member_status != CKPT_OK ? member_status : st;
}

ckpt_status unpack_archive(source *src, struct unpack *unpack, ckpt_error *err)
{
    struct unpack_input *in;
    struct archive_entry *e;
    CKPT_TRY(open_input(src, &in, err));
    support_all(in);
    ckpt_status st = in->lib->archive_read_open1(in->a) == ARCHIVE_OK ? CKPT_OK : fail_libarchive(in, err);
    while (st == CKPT_OK) {
        int code = in->lib->archive_read_next_header(in->a, &e);
        if (code == ARCHIVE_EOF)
            break;
        st = code == ARCHIVE_OK || code == ARCHIVE_WARN ? pass_entry(in, e, unpack, err)
                                                        : fail_libarchive(in, err);
    }
    la_int64_t used = in->lib->archive_filter_bytes(in->a, -1);
    unpack->bytes_read = used < 0 ? 0 : (uint64_t)used;
    unpack->is_decoder_failed = st == CKPT_EUNSUPPORTED && in->lib->archive_errno(in->a) == DECODER_FAILED;
    close_input(in);
    return st;
}

/* unpack_frames - decompresses the zstd frames of IN to TO. Sets the filter: if libarchive recognized
 * filters, it would also undo a second compression. */
static ckpt_status unpack_frames(struct unpack_input *in, spool *to, ckpt_error *err)
{
    struct archive_entry *e;
    if (!in->lib->archive_libzstd_version() ||
        in->lib->archive_read_append_filter(in->a, ARCHIVE_FILTER_ZSTD) != ARCHIVE_OK)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "this libarchive does not unpack zstd");
    if (in->lib->archive_read_support_format_raw(in->a) != ARCHIVE_OK ||
        in->lib->archive_read_open1(in->a) != ARCHIVE_OK)
        return fail_libarchive(in, err);
    int code = in->lib->archive_read_next_header(in->a, &e);
    if (code == ARCHIVE_EOF) /* a frame of nothing */
        return CKPT_OK;
    return code == ARCHIVE_OK ? spool_entry(in, to, err) : fail_libarchive(in, err);
}

ckpt_status unpack_zstd(source *src, spool *to, ckpt_error *err)
{
    unsigned char magic[4] = {0};
    struct unpack_input *in;
    CKPT_TRY(source_read(src, 0, magic, src->size < 4 ? (size_t)src->size : 4, err));
    if (load_u32le(magic) != 0xfd2fb528)
        return fail(err, CKPT_EFORMAT, source_pos(src, 0), "{no} {=zstd frame}");
    CKPT_TRY(open_input(src, &in, err));
    ckpt_status st = unpack_frames(in, to, err);
    if (st == CKPT_EUNSUPPORTED && in->lib->archive_errno(in->a) == DECODER_FAILED)
        st = fail(err, CKPT_EFORMAT, source_pos(src, 0), "broken {=zstd data}: {%s}",
                  in->lib->archive_error_string(in->a));
    close_input(in);
    return st;
}

/* put_local_header - writes the local header of a member of a zip, compressed by METHOD, whose sizes are
 * greater than any file: what follows it always ends too early. */
static void put_local_header(unsigned method, unsigned char header[ZIP_HEADER])
{
    memset(header, 0, ZIP_HEADER);
    store_u32le(header, 0x04034b50);
    store_u16le(header + 4, 63); /* the version of APPNOTE that has METHOD */
    store_u16le(header + 8, (uint16_t)method);
    store_u32le(header + 18, UINT32_MAX); /* the sizes are in the zip64 field */
    store_u32le(header + 22, UINT32_MAX);
    store_u16le(header + 26, 1);  /* the length of the name, */
    store_u16le(header + 28, 20); /* and of the extra field */
    header[30] = 'x';
    store_u16le(header + 31, 1);
    store_u16le(header + 33, 16);
    store_u64le(header + 35, UINT64_C(1) << 62);
    store_u64le(header + 43, UINT64_C(1) << 62);
}

ckpt_status unpack_truncated(source *src, enum unpack_method method, spool *to, ckpt_error *err)
{
    unsigned char header[ZIP_HEADER + LZMA_ZIP] = {0};
    struct unpack_input *in;
    struct archive_entry *e;
    bool is_lzma = method == UNPACK_LZMA;
    if (is_lzma && src->size < LZMA_FILE)
        return CKPT_OK;
    if (is_lzma)
        CKPT_TRY(source_read(src, 0, header + ZIP_HEADER + 4, 5, err));
    CKPT_TRY(open_input(src, &in, err));
    put_local_header(method, header);
    header[ZIP_HEADER + 2] = 5; /* the size of the properties */
    in->prefix = header;
    in->nprefix = is_lzma ? ZIP_HEADER + LZMA_ZIP : ZIP_HEADER;
    in->pos = is_lzma ? LZMA_FILE : 0;
    (void)in->lib->archive_read_set_seek_callback(in->a, NULL);
    ckpt_status st = CKPT_OK;
    if (in->lib->archive_read_support_format_zip_streamable(in->a) == ARCHIVE_OK &&
        in->lib->archive_read_open1(in->a) == ARCHIVE_OK &&
        in->lib->archive_read_next_header(in->a, &e) == ARCHIVE_OK)
        st = spool_entry(in, to, err);
    close_input(in);
    return st == CKPT_EFORMAT || st == CKPT_EUNSUPPORTED ? CKPT_OK : st;
}

bool unpack_archive_available(void)
{
    const struct libarchive *lib;
    return load_libarchive(&lib, NULL) == CKPT_OK;
}

#else

ckpt_status unpack_archive(source *src, struct unpack *unpack, ckpt_error *err)
{
    (void)src;
    (void)unpack;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "this ckpt was built without libarchive, which unpacks it");
}

ckpt_status unpack_zstd(source *src, spool *to, ckpt_error *err)
{
    (void)to;
    return unpack_archive(src, NULL, err);
}

ckpt_status unpack_truncated(source *src, enum unpack_method method, spool *to, ckpt_error *err)
{
    (void)method;
    (void)to;
    return unpack_archive(src, NULL, err);
}

bool unpack_archive_available(void) { return false; }

#endif
