/*
 * compressed.c - a checkpoint in a file that is compressed as a whole (.pt.gz, .safetensors.zst): unpacked at
 * once, into memory or a temporary file, and read as if that were the file. Nothing in it has an offset.
 *
 * Refused: what unpacks to more than file_max_unpacked allows; compressed files in compressed files.
 */
#include <inttypes.h>

#include "format/unpack.h"

static bool probe(const struct probe *p)
{
    const struct signature *s = p->directory || p->z ? NULL : unpack_kind(p);
    return s && s->kind != SIGN_ZLIB; /* two bytes, which a text may have, too */
}

/* check_once - UNPACKED is not compressed itself. */
static ckpt_status check_once(const ckpt_file *f, source *unpacked, ckpt_error *err)
{
    struct probe p = {.path = f->path, .src = unpacked};
    CKPT_TRY(recognize_fill(&p, f->path, unpacked, err));
    return !probe(&p) ? CKPT_OK
                      : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                             "{a compressed file} in a compressed file; {=a checkpoint} was expected");
}

static ckpt_status read_unpacked(ckpt_file *f, source *unpacked, ckpt_error *err)
{
    ckpt_file *one = NULL;
    ckpt_status st = check_once(f, unpacked, err);
    if (st != CKPT_OK) {
        source_unref(unpacked);
        return st;
    }
    CKPT_TRY(format_open_part(f, f->path, unpacked, &one, err));
    if (!one) /* reported */
        return err->status;
    file_replace_by(f, one);
    f->torch_load_why = STR_LIT("it is compressed");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    const struct signature *s = unpack_kind(f->probe);
    source *unpacked = NULL;
    ckpt_status st = unpack_whole(f, s, &unpacked, err);
    if (st == CKPT_EUNSUPPORTED)
        fail_replace_hint(err, s->hint);
    ckpt_error why = *err;
    bool cut = st != CKPT_OK && st != CKPT_ELIMIT && f->salvage && unpacked && unpacked->size;
    uint64_t n = unpacked ? unpacked->size : 0;
    if (st == CKPT_OK && !n)
        st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{nothing} in {=a compressed file}");
    if (st == CKPT_OK || cut)
        st = read_unpacked(f, unpacked, err);
    else
        source_unref(unpacked);
    if (st == CKPT_OK && cut)
        file_notice(f, "only %" PRIu64 " bytes can be unpacked: %s", n, why.what);
    if (st != CKPT_OK)
        fail_add_place(err, 0, STR_LIT("compressed data"));
    return st;
}

const struct format format_compressed = {
    .name = "compressed", .title = "compressed file", .probe = probe, .read = read};
