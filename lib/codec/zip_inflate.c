/*
 * zip_inflate.c - deflated members of an archive, inflated by libzip, whose
 * header no other file includes.
 *
 * libzip is given our source by callback, and is believed about nothing but the
 * inflating: name and size of the entry must be what our own reading of the
 * directory found. No byte past that size is ever handed out, and a stream
 * that ends before it or goes on behind it is refused. Its CRC check is left
 * aside: torch may record no CRC at all, so the caller compares.
 */
#include "codec/zip_inflate.h"

#include <stdlib.h>
#include <zip.h>

#define KEEP (256u * 1024u) /* members up to this size are inflated at once */
#define SKIP (64u * 1024u)

struct inflater {
    zip_t *archive;
    source *src;
    uint64_t at;       /* libzip's read position */
    zip_error_t error; /* of the callback */
    ckpt_error why;    /* what the source said, if a read of it failed */
    unsigned char *kept;
    size_t kept_index; /* member in KEPT; SIZE_MAX: none */
};

typedef struct {
    source s;
    inflater *f;
    size_t index;
    uint64_t pos; /* of the deflated bytes, for errors */
    zip_file_t *open;
    uint64_t at; /* bytes inflated so far */
} inflated;

/* ------------------------------------------------- our source, for libzip */

static zip_int64_t give_read(inflater *f, void *data, zip_uint64_t len)
{
    uint64_t left = f->src->size - f->at;
    size_t n = len < left ? (size_t)len : (size_t)left;
    if (source_read(f->src, f->at, data, n, &f->why) != CKPT_OK) {
        zip_error_set(&f->error, ZIP_ER_READ, 0);
        return -1;
    }
    /* bounded: n is what is left, at most */
    f->at += n;
    return (zip_int64_t)n;
}

static zip_int64_t give_seek(inflater *f, void *data, zip_uint64_t len)
{
    zip_int64_t to = zip_source_seek_compute_offset(f->at, f->src->size, data, len, &f->error);
    if (to < 0)
        return -1;
    f->at = (uint64_t)to;
    return 0;
}

static zip_int64_t give_stat(inflater *f, void *data)
{
    zip_stat_t *st = data;
    zip_stat_init(st);
    st->size = f->src->size;
    st->valid |= ZIP_STAT_SIZE;
    return (zip_int64_t)sizeof *st;
}

static zip_int64_t give(void *user, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
    inflater *f = user;
    switch (cmd) {
    case ZIP_SOURCE_OPEN: f->at = 0; return 0;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    case ZIP_SOURCE_READ: return give_read(f, data, len);
    case ZIP_SOURCE_SEEK: return give_seek(f, data, len);
    case ZIP_SOURCE_TELL: return (zip_int64_t)f->at;
    case ZIP_SOURCE_STAT: return give_stat(f, data);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&f->error, data, len);
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    default: zip_error_set(&f->error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* not_the_bytes - what libzip says in CODE may not be theirs to answer for: a read that failed, a want
 * of memory. */
static ckpt_status not_the_bytes(inflater *f, int code, ckpt_error *err)
{
    ckpt_status st = f->why.status;
    if (st == CKPT_OK)
        return code == ZIP_ER_MEMORY ? fail_memory(err) : CKPT_OK;
    if (err)
        *err = f->why;
    f->why.status = CKPT_OK;
    return st;
}

/* ---------------------------------------------------------------- opening */

static ckpt_status start(inflater *f, ckpt_error *err)
{
    zip_error_t e;
    zip_error_init(&e);
    zip_source_t *src = zip_source_function_create(give, f, &e);
    if (src) {
        f->archive = zip_open_from_source(src, ZIP_RDONLY, &e);
        if (!f->archive)
            zip_source_free(src);
    }
    ckpt_status st = f->archive ? CKPT_OK : not_the_bytes(f, zip_error_code_zip(&e), err);
    if (!f->archive && st == CKPT_OK)
        st = fail(err, CKPT_EFORMAT, source_pos(f->src, 0), "libzip finds no {=sound archive}, {'%s'}",
                  zip_error_strerror(&e));
    if (st == CKPT_EFORMAT)
        fail_default_place(err, 0, STR_LIT("zip archive"));
    zip_error_fini(&e);
    return st;
}

ckpt_status inflater_open(source *archive, inflater **out, ckpt_error *err)
{
    inflater *f = calloc(1, sizeof *f);
    if (!f) {
        source_unref(archive);
        return fail_memory(err);
    }
    f->src = archive;
    f->kept_index = SIZE_MAX;
    zip_error_init(&f->error);
    ckpt_status st = start(f, err);
    if (st != CKPT_OK) {
        inflater_close(f);
        return st;
    }
    *out = f;
    return CKPT_OK;
}

void inflater_close(inflater *f)
{
    if (!f)
        return;
    if (f->archive)
        zip_discard(f->archive);
    zip_error_fini(&f->error);
    source_unref(f->src);
    free(f->kept);
    free(f);
}

/* ---------------------------------------------------------------- reading */

static void stop(inflated *m)
{
    if (m->open)
        (void)zip_fclose(m->open);
    m->open = NULL;
    m->at = 0;
}

static ckpt_status broken(inflated *m, const char *what, ckpt_error *err)
{
    ckpt_status st = not_the_bytes(m->f, zip_error_code_zip(zip_file_get_error(m->open)), err);
    if (st == CKPT_OK)
        st = fail(err, CKPT_EFORMAT, m->pos, "its deflated bytes {%s} (after %llu of {=%llu bytes})", what,
                  (unsigned long long)m->at, (unsigned long long)m->s.size);
    stop(m);
    return st;
}

/* at_end - everything is inflated: nothing may follow. */
static ckpt_status at_end(inflated *m, ckpt_error *err)
{
    unsigned char one;
    zip_int64_t more = zip_fread(m->open, &one, 1);
    if (more > 0)
        return broken(m, "give more than the directory says", err);
    if (more < 0 && zip_error_code_zip(zip_file_get_error(m->open)) != ZIP_ER_CRC)
        return broken(m, zip_file_strerror(m->open), err);
    stop(m);
    return CKPT_OK;
}

/* pull - the next N bytes of the stream. */
static ckpt_status pull(inflated *m, unsigned char *out, size_t n, ckpt_error *err)
{
    while (n > 0) {
        zip_int64_t got = zip_fread(m->open, out, n);
        if (got < 0 && zip_error_code_zip(zip_file_get_error(m->open)) != ZIP_ER_CRC)
            return broken(m, zip_file_strerror(m->open), err);
        if (got <= 0)
            return broken(m, "end too early", err);
        out += got;
        n -= (size_t)got;
        /* bounded: got is what was asked for, at most */
        m->at += (uint64_t)got;
    }
    return m->at == m->s.size ? at_end(m, err) : CKPT_OK;
}

static ckpt_status begin(inflated *m, ckpt_error *err)
{
    stop(m);
    m->open = zip_fopen_index(m->f->archive, m->index, 0);
    if (m->open)
        return CKPT_OK;
    CKPT_TRY(not_the_bytes(m->f, zip_error_code_zip(zip_get_error(m->f->archive)), err));
    return fail(err, CKPT_EFORMAT, m->pos, "libzip finds no {=sound member}, {'%s'}",
                zip_strerror(m->f->archive));
}

/* seek - leaves the stream right before byte OFF. */
static ckpt_status seek(inflated *m, uint64_t off, ckpt_error *err)
{
    if (!m->open || off < m->at)
        CKPT_TRY(begin(m, err));
    unsigned char *skipped = m->at < off ? malloc(SKIP) : NULL;
    ckpt_status st = m->at < off && !skipped ? fail_memory(err) : CKPT_OK;
    while (st == CKPT_OK && m->at < off)
        st = pull(m, skipped, off - m->at < SKIP ? (size_t)(off - m->at) : SKIP, err);
    free(skipped);
    return st;
}

/* keep - the whole of a small member, in the one place for that. */
static ckpt_status keep(inflated *m, ckpt_error *err)
{
    inflater *f = m->f;
    if (f->kept_index == m->index)
        return CKPT_OK;
    f->kept_index = SIZE_MAX;
    if (!f->kept && !(f->kept = malloc(KEEP)))
        return fail_memory(err);
    CKPT_TRY(begin(m, err));
    CKPT_TRY(pull(m, f->kept, (size_t)m->s.size, err));
    f->kept_index = m->index;
    return CKPT_OK;
}

static ckpt_status inflated_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    inflated *m = (inflated *)s;
    if (s->size <= KEEP) {
        CKPT_TRY(keep(m, err));
        /* bounded: source_read checked [off, off + n) */
        memcpy(out, m->f->kept + off, n);
        return CKPT_OK;
    }
    CKPT_TRY(seek(m, off, err));
    return pull(m, out, n, err);
}

static void inflated_close(source *s)
{
    stop((inflated *)s);
    free(s);
}

static const struct source_ops inflated_ops = {.read_at = inflated_read, .close = inflated_close};

ckpt_status inflater_member(inflater *f, size_t index, ckpt_str name, uint64_t size, uint64_t pos,
                            source **out, ckpt_error *err)
{
    zip_stat_t st = {.size = 0};
    const char *known = zip_get_name(f->archive, index, ZIP_FL_ENC_RAW);
    if (!known || zip_stat_index(f->archive, index, 0, &st) != 0 || !str_eq(str_c(known), name) ||
        !(st.valid & ZIP_STAT_SIZE) || st.size != size) {
        (void)fail(
            err, CKPT_EFORMAT, pos,
            "libzip finds {\"%s\" of %llu bytes} there, the directory says {=%llu}; readers would disagree",
            known ? known : "", (unsigned long long)st.size, (unsigned long long)size);
        fail_where(err, "%.*s", STR_ARG(name));
        return CKPT_EFORMAT;
    }
    inflated *m = calloc(1, sizeof *m);
    if (!m)
        return fail_memory(err);
    m->s = (source){.ops = &inflated_ops, .size = size, .base = CKPT_NO_OFFSET, .refs = 1, .serial = true};
    m->f = f;
    m->index = index;
    m->pos = pos;
    *out = &m->s;
    return CKPT_OK;
}
