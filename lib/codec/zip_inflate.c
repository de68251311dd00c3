/*
 * zip_inflate.c - the compressed members of an archive as sources. The only file that includes libzip's
 * header; libzip is loaded when it is needed, and reads our source by callbacks.
 *
 * Deflated members are inflated by zlib, as all DEFLATE data: those of an archive whose directory is lost,
 * which libzip cannot find, are read in the same way as others. libzip decompresses the other methods that it
 * was built with. For each member that the central directory lists, libzip must find the name and size that
 * zip_layout.c found. No byte beyond that size is returned, and a stream that is shorter or longer is
 * refused. libzip's check of the CRC is ignored, because torch may record none; the caller checks it.
 */
#include "codec/zip_inflate.h"

#include <pthread.h>
#include <stdlib.h>
#include <zip.h>

#include "base/library.h"
#include "codec/inflate.h"

#define MAX_CACHED (256u * 1024u) /* members up to this size are inflated completely and kept */
#define SKIP_CHUNK (64u * 1024u)

#define FUNCTIONS(X)                                                                                         \
    X(zip_compression_method_supported)                                                                      \
    X(zip_discard)                                                                                           \
    X(zip_error_code_zip)                                                                                    \
    X(zip_error_fini)                                                                                        \
    X(zip_error_init)                                                                                        \
    X(zip_error_set)                                                                                         \
    X(zip_error_strerror)                                                                                    \
    X(zip_error_to_data)                                                                                     \
    X(zip_fclose)                                                                                            \
    X(zip_file_get_error)                                                                                    \
    X(zip_file_strerror)                                                                                     \
    X(zip_fopen_index)                                                                                       \
    X(zip_fread)                                                                                             \
    X(zip_get_error)                                                                                         \
    X(zip_get_name)                                                                                          \
    X(zip_open_from_source)                                                                                  \
    X(zip_source_free)                                                                                       \
    X(zip_source_function_create)                                                                            \
    X(zip_source_seek_compute_offset)                                                                        \
    X(zip_stat_index)                                                                                        \
    X(zip_stat_init)                                                                                         \
    X(zip_strerror)

struct libzip {
    FUNCTIONS(LIBRARY_POINTER)
};

#ifdef LIBZIP_SONAME
LIBRARY_NOTE(libzip, LIBZIP_SONAME, "required")
LIBRARY_LOADED(libzip, FUNCTIONS, "inflates the members of archives", LIBZIP_SONAME)
#else
LIBRARY_LINKED(libzip, FUNCTIONS)
#endif

struct inflater {
    pthread_mutex_t lock;     /* protects all fields below, and those of each packed_member */
    const struct libzip *lib; /* NULL: not loaded */
    zip_t *archive;           /* NULL: not opened by libzip */
    source *src;
    uint64_t libzip_pos;   /* where libzip reads next */
    zip_error_t error;     /* of the callback */
    ckpt_error read_error; /* of the source, if a read of it failed */
    unsigned char *cached_bytes;
    uint64_t cached_data; /* where the member in CACHED_BYTES has its data; UINT64_MAX: none */
};

struct packed_member {
    source s;
    inflater *f;
    struct inflater_member entry;
    /* What decompresses the member, NULL if it is not open: */
    struct inflate_stream *deflated;
    zip_file_t *stream; /* by libzip */
    uint64_t unpacked;  /* bytes decompressed so far */
};

static zip_int64_t read_for_libzip(inflater *inflate, void *data, zip_uint64_t len)
{
    uint64_t left = inflate->src->size - inflate->libzip_pos;
    size_t n = len < left ? (size_t)len : (size_t)left;
    if (source_read(inflate->src, inflate->libzip_pos, data, n, &inflate->read_error) != CKPT_OK) {
        inflate->lib->zip_error_set(&inflate->error, ZIP_ER_READ, 0);
        return -1;
    }
    inflate->libzip_pos += n;
    return (zip_int64_t)n;
}

static zip_int64_t seek_for_libzip(inflater *inflate, void *data, zip_uint64_t len)
{
    zip_int64_t to = inflate->lib->zip_source_seek_compute_offset(inflate->libzip_pos, inflate->src->size,
                                                                  data, len, &inflate->error);
    if (to < 0)
        return -1;
    inflate->libzip_pos = (uint64_t)to;
    return 0;
}

static zip_int64_t stat_for_libzip(inflater *inflate, void *data)
{
    zip_stat_t *st = data;
    inflate->lib->zip_stat_init(st);
    st->size = inflate->src->size;
    st->valid |= ZIP_STAT_SIZE;
    return (zip_int64_t)sizeof *st;
}

static zip_int64_t handle_libzip_command(void *user, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
    inflater *f = user;
    switch (cmd) {
    case ZIP_SOURCE_OPEN: f->libzip_pos = 0; return 0;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_READ: return read_for_libzip(f, data, len);
    case ZIP_SOURCE_SEEK: return seek_for_libzip(f, data, len);
    case ZIP_SOURCE_TELL: return (zip_int64_t)f->libzip_pos;
    case ZIP_SOURCE_STAT: return stat_for_libzip(f, data);
    case ZIP_SOURCE_ERROR: return f->lib->zip_error_to_data(&f->error, data, len);
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    default: f->lib->zip_error_set(&f->error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* get_cause - sets ERR and returns its status if a read of the source failed, or if libzip's error CODE is a
 * lack of memory. Else returns CKPT_OK: the bytes are malformed. */
static ckpt_status get_cause(inflater *inflate, int code, ckpt_error *err)
{
    ckpt_status st = inflate->read_error.status;
    if (st == CKPT_OK)
        return code == ZIP_ER_MEMORY ? fail_memory(err) : CKPT_OK;
    if (err)
        *err = inflate->read_error;
    inflate->read_error.status = CKPT_OK;
    return st;
}

/* open_archive - loads libzip and opens the archive, unless that was done. */
static ckpt_status open_archive(inflater *inflate, ckpt_error *err)
{
    zip_error_t e;
    if (inflate->archive)
        return CKPT_OK;
    CKPT_TRY(load_libzip(&inflate->lib, err));
    inflate->lib->zip_error_init(&inflate->error);
    inflate->lib->zip_error_init(&e);
    zip_source_t *src = inflate->lib->zip_source_function_create(handle_libzip_command, inflate, &e);
    if (src) {
        inflate->archive = inflate->lib->zip_open_from_source(src, ZIP_RDONLY, &e);
        if (!inflate->archive)
            inflate->lib->zip_source_free(src);
    }
    ckpt_status st = inflate->archive ? CKPT_OK
                                      : get_cause(inflate, inflate->lib->zip_error_code_zip(&e), err);
    if (!inflate->archive && st == CKPT_OK)
        st = fail(err, CKPT_EFORMAT, source_pos(inflate->src, 0), "libzip finds no {=sound archive}, {'%s'}",
                  inflate->lib->zip_error_strerror(&e));
    if (st == CKPT_EFORMAT)
        error_add_position(err, 0, STR_LIT("zip archive"));
    inflate->lib->zip_error_fini(&e);
    return st;
}

inflater *inflater_new(source *archive)
{
    inflater *f = calloc(1, sizeof *f);
    if (!f) {
        source_unref(archive);
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    f->src = archive;
    f->cached_data = UINT64_MAX;
    return f;
}

bool inflater_has_method(uint16_t method)
{
    const struct libzip *lib;
    return load_libzip(&lib, NULL) != CKPT_OK || lib->zip_compression_method_supported(method, 0) != 0;
}

bool inflater_available(void)
{
    const struct libzip *lib;
    return load_libzip(&lib, NULL) == CKPT_OK;
}

void inflater_close(inflater *inflate)
{
    if (!inflate)
        return;
    if (inflate->archive)
        inflate->lib->zip_discard(inflate->archive);
    if (inflate->lib)
        inflate->lib->zip_error_fini(&inflate->error);
    source_unref(inflate->src);
    pthread_mutex_destroy(&inflate->lock);
    free(inflate->cached_bytes);
    free(inflate);
}

static void stop_unpacking(struct packed_member *member)
{
    if (member->stream)
        (void)member->f->lib->zip_fclose(member->stream);
    inflate_free(member->deflated);
    member->stream = NULL;
    member->deflated = NULL;
    member->unpacked = 0;
}

static ckpt_status fail_packed(struct packed_member *member, const char *what, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, source_pos(member->entry.src, member->entry.data),
                "its deflated bytes {%s} (after %llu of {=%llu bytes})", what,
                (unsigned long long)member->unpacked, (unsigned long long)member->s.size);
}

/* unpack_by_libzip - as unpack_part, by libzip. */
static ckpt_status unpack_by_libzip(struct packed_member *member, unsigned char *out, size_t nbytes,
                                    size_t *got, ckpt_error *err)
{
    zip_int64_t size = member->f->lib->zip_fread(member->stream, out, nbytes);
    *got = size > 0 ? (size_t)size : 0;
    int code = member->f->lib->zip_error_code_zip(member->f->lib->zip_file_get_error(member->stream));
    if (size >= 0 || code == ZIP_ER_CRC)
        return CKPT_OK;
    CKPT_TRY(get_cause(member->f, code, err));
    return fail_packed(member, member->f->lib->zip_file_strerror(member->stream), err);
}

/* unpack_part - decompresses at most NBYTES of the next bytes to OUT, and sets *GOT to their number; 0: the
 * stream ends. */
static ckpt_status unpack_part(struct packed_member *member, unsigned char *out, size_t nbytes, size_t *got,
                               ckpt_error *err)
{
    enum inflate_end end = INFLATE_FULL;
    if (!member->entry.is_deflated)
        return unpack_by_libzip(member, out, nbytes, got, err);
    for (*got = 0; *got == 0 && end == INFLATE_FULL;)
        CKPT_TRY(inflate_next(member->deflated, out, nbytes, got, &end, err));
    /* What comes before malformed bytes is returned first; the next call then finds them again. */
    return *got == 0 && end == INFLATE_BROKEN ? fail_packed(member, "Zlib error: data error", err) : CKPT_OK;
}

/* check_end - fails unless the stream ends after the bytes that were decompressed. */
static ckpt_status check_end(struct packed_member *member, ckpt_error *err)
{
    unsigned char byte;
    size_t got;
    CKPT_TRY(unpack_part(member, &byte, 1, &got, err));
    if (got)
        return fail_packed(member, "give more than the central directory records", err);
    stop_unpacking(member);
    return CKPT_OK;
}

static ckpt_status unpack_next(struct packed_member *member, unsigned char *out, size_t nbytes,
                               ckpt_error *err)
{
    while (nbytes > 0) {
        size_t got;
        CKPT_TRY(unpack_part(member, out, nbytes, &got, err));
        if (got == 0)
            return fail_packed(member, "end too early", err);
        out += got;
        nbytes -= got;
        member->unpacked += got;
    }
    return member->unpacked == member->s.size ? check_end(member, err) : CKPT_OK;
}

static ckpt_status start_unpacking(struct packed_member *member, ckpt_error *err)
{
    inflater *f = member->f;
    stop_unpacking(member);
    if (member->entry.is_deflated) {
        member->deflated = inflate_begin(member->entry.src, member->entry.data, member->entry.csize,
                                         INFLATE_RAW);
        return member->deflated ? CKPT_OK : fail_memory(err);
    }
    member->stream = f->lib->zip_fopen_index(f->archive, member->entry.index, 0);
    if (member->stream)
        return CKPT_OK;
    CKPT_TRY(get_cause(f, f->lib->zip_error_code_zip(f->lib->zip_get_error(f->archive)), err));
    return fail(err, CKPT_EFORMAT, source_pos(member->entry.src, member->entry.data),
                "libzip finds no {=sound member}, {'%s'}", f->lib->zip_strerror(f->archive));
}

/* unpack_up_to - continues or restarts the stream, so that the byte at OFF is decompressed next. */
static ckpt_status unpack_up_to(struct packed_member *member, uint64_t off, ckpt_error *err)
{
    if ((!member->stream && !member->deflated) || off < member->unpacked)
        CKPT_TRY(start_unpacking(member, err));
    unsigned char *skipped = member->unpacked < off ? malloc(SKIP_CHUNK) : NULL;
    ckpt_status st = member->unpacked < off && !skipped ? fail_memory(err) : CKPT_OK;
    while (st == CKPT_OK && member->unpacked < off)
        st = unpack_next(member, skipped,
                         off - member->unpacked < SKIP_CHUNK ? (size_t)(off - member->unpacked) : SKIP_CHUNK,
                         err);
    free(skipped);
    return st;
}

/* cache_member - decompresses all of a small member into the cache, which has room for one. */
static ckpt_status cache_member(struct packed_member *member, ckpt_error *err)
{
    inflater *f = member->f;
    if (f->cached_data == member->entry.data)
        return CKPT_OK;
    f->cached_data = UINT64_MAX;
    CKPT_TRY_ALLOC(f->cached_bytes || (f->cached_bytes = malloc(MAX_CACHED)), err);
    CKPT_TRY(start_unpacking(member, err));
    CKPT_TRY(unpack_next(member, f->cached_bytes, (size_t)member->s.size, err));
    f->cached_data = member->entry.data;
    return CKPT_OK;
}

/* read_member - reads NBYTES bytes at OFF; the caller has locked the inflater. */
static ckpt_status read_member(struct packed_member *member, uint64_t off, void *out, size_t nbytes,
                               ckpt_error *err)
{
    if (member->s.size <= MAX_CACHED) {
        CKPT_TRY(cache_member(member, err));
        memcpy(out, member->f->cached_bytes + off, nbytes);
        return CKPT_OK;
    }
    CKPT_TRY(unpack_up_to(member, off, err));
    return unpack_next(member, out, nbytes, err);
}

static ckpt_status packed_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct packed_member *m = (struct packed_member *)src;
    pthread_mutex_lock(&m->f->lock);
    ckpt_status st = read_member(m, off, out, nbytes, err);
    if (st != CKPT_OK)
        stop_unpacking(m);
    pthread_mutex_unlock(&m->f->lock);
    return st;
}

static void packed_close(source *src)
{
    stop_unpacking((struct packed_member *)src);
    free(src);
}

static const struct source_ops packed_ops = {.read_at = packed_read, .close = packed_close};

/* find_member - fails unless libzip finds MEMBER in the central directory. */
static ckpt_status find_member(inflater *inflate, const struct inflater_member *member, ckpt_error *err)
{
    zip_stat_t st = {.size = 0};
    CKPT_TRY(open_archive(inflate, err));
    const char *found = inflate->lib->zip_get_name(inflate->archive, member->index, ZIP_FL_ENC_RAW);
    bool has_size = found && inflate->lib->zip_stat_index(inflate->archive, member->index, 0, &st) == 0 &&
                    st.valid & ZIP_STAT_SIZE;
    if (has_size && st.size == member->size && str_eq(str_c(found), member->name))
        return CKPT_OK;
    (void)fail(
        err, CKPT_EFORMAT, source_pos(member->src, member->data),
        "libzip finds {\"%s\" of %llu bytes} there, the central directory records {=%llu}; readers would "
        "disagree",
        found ? found : "", (unsigned long long)st.size, (unsigned long long)member->size);
    error_add_where(err, "%.*s", STR_ARG(member->name));
    return CKPT_EFORMAT;
}

ckpt_status inflater_open_member(inflater *inflate, const struct inflater_member *member, source **out,
                                 ckpt_error *err)
{
    if (member->is_listed)
        CKPT_TRY(find_member(inflate, member, err));
    struct packed_member *packed = calloc(1, sizeof *packed);
    CKPT_TRY_ALLOC(packed, err);
    packed->s = (source){.ops = &packed_ops,
                         .size = member->size,
                         .position = CKPT_NO_OFFSET,
                         .refs = 1,
                         .serializes_reads = true};
    packed->f = inflate;
    packed->entry = *member;
    *out = &packed->s;
    return CKPT_OK;
}
