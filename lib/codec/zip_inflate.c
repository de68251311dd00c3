/*
 * zip_inflate.c - inflates deflated members of an archive by libzip, whose header no other file includes
 * and which is loaded when it is needed.
 *
 * libzip reads our source by callbacks and only inflates: the name and size that it finds for an entry must
 * be those that zip_layout.c found. No byte beyond that size is returned, and a stream that is shorter or
 * longer is refused. libzip's check of the CRC is ignored, because torch may record none; the caller checks
 * it.
 */
#include "codec/zip_inflate.h"

#include <pthread.h>
#include <stdlib.h>
#include <zip.h>

#include "base/library.h"

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
    const struct libzip *lib;
    pthread_mutex_t lock; /* protects all fields below, and those of each inflated_member */
    zip_t *archive;
    source *src;
    uint64_t libzip_pos;   /* where libzip reads next */
    zip_error_t error;     /* of the callback */
    ckpt_error read_error; /* of the source, if a read of it failed */
    unsigned char *cached_bytes;
    size_t cached_index; /* of the member in CACHED_BYTES; SIZE_MAX: none */
};

struct inflated_member {
    source s;
    inflater *f;
    size_t index;
    uint64_t data_pos; /* file offset of the deflated bytes, for errors */
    zip_file_t *stream; /* NULL: not open */
    uint64_t inflated; /* bytes inflated so far */
};

static zip_int64_t read_for_libzip(inflater *f, void *data, zip_uint64_t len)
{
    uint64_t left = f->src->size - f->libzip_pos;
    size_t n = len < left ? (size_t)len : (size_t)left;
    if (source_read(f->src, f->libzip_pos, data, n, &f->read_error) != CKPT_OK) {
        f->lib->zip_error_set(&f->error, ZIP_ER_READ, 0);
        return -1;
    }
    /* bounded: N is at most what is left */
    f->libzip_pos += n;
    return (zip_int64_t)n;
}

static zip_int64_t seek_for_libzip(inflater *f, void *data, zip_uint64_t len)
{
    zip_int64_t to =
        f->lib->zip_source_seek_compute_offset(f->libzip_pos, f->src->size, data, len, &f->error);
    if (to < 0)
        return -1;
    f->libzip_pos = (uint64_t)to;
    return 0;
}

static zip_int64_t stat_for_libzip(inflater *f, void *data)
{
    zip_stat_t *st = data;
    f->lib->zip_stat_init(st);
    st->size = f->src->size;
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
static ckpt_status get_cause(inflater *f, int code, ckpt_error *err)
{
    ckpt_status st = f->read_error.status;
    if (st == CKPT_OK)
        return code == ZIP_ER_MEMORY ? fail_memory(err) : CKPT_OK;
    if (err)
        *err = f->read_error;
    f->read_error.status = CKPT_OK;
    return st;
}

static ckpt_status open_archive(inflater *f, ckpt_error *err)
{
    zip_error_t e;
    f->lib->zip_error_init(&e);
    zip_source_t *src = f->lib->zip_source_function_create(handle_libzip_command, f, &e);
    if (src) {
        f->archive = f->lib->zip_open_from_source(src, ZIP_RDONLY, &e);
        if (!f->archive)
            f->lib->zip_source_free(src);
    }
    ckpt_status st = f->archive ? CKPT_OK : get_cause(f, f->lib->zip_error_code_zip(&e), err);
    if (!f->archive && st == CKPT_OK)
        st = fail(err, CKPT_EFORMAT, source_pos(f->src, 0), "libzip finds no {=sound archive}, {'%s'}",
                  f->lib->zip_error_strerror(&e));
    if (st == CKPT_EFORMAT)
        error_add_position(err, 0, STR_LIT("zip archive"));
    f->lib->zip_error_fini(&e);
    return st;
}

ckpt_status inflater_open(source *archive, inflater **out, ckpt_error *err)
{
    inflater *f = calloc(1, sizeof *f);
    if (!f) {
        source_unref(archive);
        return fail_memory(err);
    }
    ckpt_status st = load_libzip(&f->lib, err);
    if (st != CKPT_OK) {
        source_unref(archive);
        free(f);
        return st;
    }
    pthread_mutex_init(&f->lock, NULL);
    f->src = archive;
    f->cached_index = SIZE_MAX;
    f->lib->zip_error_init(&f->error);
    st = open_archive(f, err);
    if (st != CKPT_OK) {
        inflater_close(f);
        return st;
    }
    *out = f;
    return CKPT_OK;
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

void inflater_close(inflater *f)
{
    if (!f)
        return;
    if (f->archive)
        f->lib->zip_discard(f->archive);
    f->lib->zip_error_fini(&f->error);
    source_unref(f->src);
    pthread_mutex_destroy(&f->lock);
    free(f->cached_bytes);
    free(f);
}

static void stop_inflating(struct inflated_member *m)
{
    if (m->stream)
        (void)m->f->lib->zip_fclose(m->stream);
    m->stream = NULL;
    m->inflated = 0;
}

/* get_stream_error - returns libzip's code for why the last read of M failed. */
static int get_stream_error(const struct inflated_member *m)
{
    return m->f->lib->zip_error_code_zip(m->f->lib->zip_file_get_error(m->stream));
}

static ckpt_status fail_deflated(struct inflated_member *m, const char *what, ckpt_error *err)
{
    ckpt_status st = get_cause(m->f, get_stream_error(m), err);
    if (st == CKPT_OK)
        st = fail(err, CKPT_EFORMAT, m->data_pos, "its deflated bytes {%s} (after %llu of {=%llu bytes})",
                  what, (unsigned long long)m->inflated, (unsigned long long)m->s.size);
    stop_inflating(m);
    return st;
}

/* check_stream_end - fails unless the stream ends after the bytes that were inflated. */
static ckpt_status check_stream_end(struct inflated_member *m, ckpt_error *err)
{
    unsigned char byte;
    zip_int64_t got = m->f->lib->zip_fread(m->stream, &byte, 1);
    if (got > 0)
        return fail_deflated(m, "give more than the central directory records", err);
    if (got < 0 && get_stream_error(m) != ZIP_ER_CRC)
        return fail_deflated(m, m->f->lib->zip_file_strerror(m->stream), err);
    stop_inflating(m);
    return CKPT_OK;
}

static ckpt_status inflate_next(struct inflated_member *m, unsigned char *out, size_t n, ckpt_error *err)
{
    while (n > 0) {
        zip_int64_t got = m->f->lib->zip_fread(m->stream, out, n);
        if (got < 0 && get_stream_error(m) != ZIP_ER_CRC)
            return fail_deflated(m, m->f->lib->zip_file_strerror(m->stream), err);
        if (got <= 0)
            return fail_deflated(m, "end too early", err);
        out += got;
        n -= (size_t)got;
        /* bounded: GOT is at most N */
        m->inflated += (uint64_t)got;
    }
    return m->inflated == m->s.size ? check_stream_end(m, err) : CKPT_OK;
}

static ckpt_status start_inflating(struct inflated_member *m, ckpt_error *err)
{
    stop_inflating(m);
    m->stream = m->f->lib->zip_fopen_index(m->f->archive, m->index, 0);
    if (m->stream)
        return CKPT_OK;
    CKPT_TRY(get_cause(m->f, m->f->lib->zip_error_code_zip(m->f->lib->zip_get_error(m->f->archive)), err));
    return fail(err, CKPT_EFORMAT, m->data_pos, "libzip finds no {=sound member}, {'%s'}",
                m->f->lib->zip_strerror(m->f->archive));
}

/* inflate_up_to - continues or restarts the stream, so that the byte at OFF is inflated next. */
static ckpt_status inflate_up_to(struct inflated_member *m, uint64_t off, ckpt_error *err)
{
    if (!m->stream || off < m->inflated)
        CKPT_TRY(start_inflating(m, err));
    unsigned char *skipped = m->inflated < off ? malloc(SKIP_CHUNK) : NULL;
    ckpt_status st = m->inflated < off && !skipped ? fail_memory(err) : CKPT_OK;
    while (st == CKPT_OK && m->inflated < off)
        st = inflate_next(m, skipped,
                          off - m->inflated < SKIP_CHUNK ? (size_t)(off - m->inflated) : SKIP_CHUNK, err);
    free(skipped);
    return st;
}

/* cache_member - inflates all of a small member into the cache of the inflater, which holds one member. */
static ckpt_status cache_member(struct inflated_member *m, ckpt_error *err)
{
    inflater *f = m->f;
    if (f->cached_index == m->index)
        return CKPT_OK;
    f->cached_index = SIZE_MAX;
    if (!f->cached_bytes && !(f->cached_bytes = malloc(MAX_CACHED)))
        return fail_memory(err);
    CKPT_TRY(start_inflating(m, err));
    CKPT_TRY(inflate_next(m, f->cached_bytes, (size_t)m->s.size, err));
    f->cached_index = m->index;
    return CKPT_OK;
}

/* read_member - reads N bytes at OFF; the caller has locked the inflater. */
static ckpt_status read_member(struct inflated_member *m, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    if (m->s.size <= MAX_CACHED) {
        CKPT_TRY(cache_member(m, err));
        /* bounded: source_read checked [off, off + n) */
        memcpy(out, m->f->cached_bytes + off, n);
        return CKPT_OK;
    }
    CKPT_TRY(inflate_up_to(m, off, err));
    return inflate_next(m, out, n, err);
}

static ckpt_status inflated_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    struct inflated_member *m = (struct inflated_member *)s;
    pthread_mutex_lock(&m->f->lock);
    ckpt_status st = read_member(m, off, out, n, err);
    pthread_mutex_unlock(&m->f->lock);
    return st;
}

static void inflated_close(source *s)
{
    stop_inflating((struct inflated_member *)s);
    free(s);
}

static const struct source_ops inflated_ops = {.read_at = inflated_read, .close = inflated_close};

ckpt_status inflater_open_member(inflater *f, size_t index, ckpt_str name, uint64_t size, uint64_t pos,
                                 source **out, ckpt_error *err)
{
    zip_stat_t st = {.size = 0};
    const char *found = f->lib->zip_get_name(f->archive, index, ZIP_FL_ENC_RAW);
    if (!found || f->lib->zip_stat_index(f->archive, index, 0, &st) != 0 || !str_eq(str_c(found), name) ||
        !(st.valid & ZIP_STAT_SIZE) || st.size != size) {
        (void)fail(
            err, CKPT_EFORMAT, pos,
            "libzip finds {\"%s\" of %llu bytes} there, the central directory records {=%llu}; readers would "
            "disagree",
            found ? found : "", (unsigned long long)st.size, (unsigned long long)size);
        error_add_where(err, "%.*s", STR_ARG(name));
        return CKPT_EFORMAT;
    }
    struct inflated_member *m = calloc(1, sizeof *m);
    if (!m)
        return fail_memory(err);
    m->s = (source){
        .ops = &inflated_ops, .size = size, .position = CKPT_NO_OFFSET, .refs = 1, .serializes_reads = true};
    m->f = f;
    m->index = index;
    m->data_pos = pos;
    *out = &m->s;
    return CKPT_OK;
}
