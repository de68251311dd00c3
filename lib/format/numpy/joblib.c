/*
 * joblib.c - what joblib.dump writes: a pickle with arrays between its opcodes (codec/pickle_joblib.c), as it
 * is or compressed as a whole by zlib, gzip, bzip2, xz, LZMA or LZ4. Compressed files are unpacked at once,
 * into memory or a temporary file.
 *
 * Refused: what unpacks to more than numpy_max_unpacked allows; compressed files that hold anything else.
 */
#include "codec/inflate.h"
#include "codec/pickle_read.h"
#include "codec/unpack_archive.h"
#include "format/numpy/numpy.h"
#include "format/recognize.h"
#include "format/torch/graph.h"

#define ENOUGH 65536u /* bytes in which a dump of arrays has imported joblib's wrapper */

static ckpt_status keep_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    source **kept = user;
    (void)name;
    (void)err;
    if (!*kept)
        *kept = source_ref(bytes);
    return CKPT_OK;
}

/* unpack - SRC, compressed by KIND, as *OUT; CKPT_ELIMIT: there is more than the MOST bytes in *OUT. */
static ckpt_status unpack(source *src, const char *kind, uint64_t most, source **out, ckpt_error *err)
{
    struct unpack u = {.max = most, .member = keep_member, .user = out};
    bool gzip = strcmp(kind, "gzip") == 0;
    uint64_t used;
    *out = NULL;
    if (!gzip && strcmp(kind, "zlib") != 0)
        return unpack_archive(src, &u, err);
    spool *to = spool_new(most);
    if (!to)
        return fail_memory(err);
    ckpt_status st = inflate_into(src, 0, src->size, gzip ? INFLATE_GZIP : INFLATE_ZLIB, to, &used, err);
    *out = spool_source(to);
    return *out ? st : fail_memory(err);
}

/* is_dump - does BYTES, which may be cut, begin as a dump of joblib? */
static bool is_dump(source *bytes)
{
    char head[ENOUGH];
    size_t n = bytes->size < sizeof head ? (size_t)bytes->size : sizeof head;
    return n > 2 && source_read(bytes, 0, head, n, NULL) == CKPT_OK && head[0] == (char)0x80 &&
           str_find(str_of(head, n), STR_LIT("joblib.numpy_pickle"), 0) != SIZE_MAX;
}

/* find_compression - how P is compressed, if that is one that joblib uses; else NULL. */
static const char *find_compression(const struct probe *p)
{
    static const char *const kinds[] = {"zlib", "gzip", "bzip2", "xz", "lzma", "lz4"};
    const struct signature *s = recognize(p);
    for (size_t i = 0; s && (s->kind == SIGN_COMPRESSED || s->kind == SIGN_ZLIB) && i < 6; i++)
        if (strcmp(s->id, kinds[i]) == 0)
            return kinds[i];
    return NULL;
}

static bool probe(const struct probe *p)
{
    source *head = NULL;
    if (p->directory)
        return false;
    const char *kind = find_compression(p);
    if (!kind)
        return recognize_as(p, SIGN_JOBLIB) && !p->z;
    (void)unpack(p->src, kind, ENOUGH, &head, NULL);
    bool is = head && is_dump(head);
    source_unref(head);
    return is;
}

static void free_unpacked(void *unpacked) { source_unref(unpacked); }

/* read_compressed - a dump compressed as KIND. */
static ckpt_status read_compressed(ckpt_file *f, const char *kind, ckpt_error *err)
{
    source *unpacked;
    uint64_t most = numpy_max_unpacked(f, f->src->size);
    ckpt_status st = unpack(f->src, kind, most, &unpacked, err);
    format_set_container(f, unpacked, free_unpacked);
    if (st == CKPT_ELIMIT) {
        (void)fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "it unpacks to {more} than {=%llu bytes}",
                   (unsigned long long)most);
        fail_hint(err, "raise it with --max-expanded (max_expanded in ckpt_limits)");
    }
    CKPT_TRY(st);
    return torch_read_pickle(f, unpacked, err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    const char *kind = find_compression(f->probe);
    if (!kind)
        return torch_read_pickle(f, f->src, err);
    ckpt_status st = read_compressed(f, kind, err);
    if (st != CKPT_OK) /* nothing of what is unpacked has an offset in the file */
        fail_add_place(err, 0, STR_LIT("compressed data"));
    return st;
}

const struct format format_joblib = {.name = "joblib", .title = "joblib dump", .probe = probe, .read = read};
