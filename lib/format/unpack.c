/* unpack.c - gzip and zlib by codec/inflate, the others by libarchive; into memory or a temporary file. */
#include "format/unpack.h"

#include <inttypes.h>

#include "codec/inflate.h"
#include "codec/unpack_archive.h"

const struct signature *unpack_kind(const struct probe *p)
{
    static const char *const kinds[] = {"zlib", "gzip", "bzip2", "xz", "lzma", "lz4", "zstd"};
    const struct signature *s = recognize(p);
    if (!s || (s->kind != SIGN_COMPRESSED && s->kind != SIGN_ZLIB))
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(s->id, kinds[i]) == 0)
            return s;
    return NULL;
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

ckpt_status unpack_some(source *src, const struct signature *s, uint64_t most, source **out, ckpt_error *err)
{
    struct unpack u = {.max = most, .member = keep_member, .user = out};
    bool gzip = strcmp(s->id, "gzip") == 0;
    uint64_t used;
    *out = NULL;
    if (!gzip && s->kind != SIGN_ZLIB)
        return unpack_archive(src, &u, err);
    spool *to = spool_new(most);
    if (!to)
        return fail_memory(err);
    ckpt_status st = inflate_into(src, 0, src->size, gzip ? INFLATE_GZIP : INFLATE_ZLIB, to, &used, err);
    *out = spool_source(to);
    return st;
}

ckpt_status unpack_whole(ckpt_file *f, const struct signature *s, source **out, ckpt_error *err)
{
    uint64_t most = file_max_unpacked(f, f->src->size);
    ckpt_status st = unpack_some(f->src, s, most, out, err);
    if (st == CKPT_ELIMIT) {
        (void)fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "it unpacks to {more} than {=%" PRIu64 " bytes}", most);
        fail_hint(err, "raise it with --max-expanded (max_expanded in ckpt_limits)");
    }
    return st;
}
