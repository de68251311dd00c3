/* joblib.c - reads files of joblib.dump: a pickle with arrays between its opcodes (codec/pickle_joblib.c), or
 * that pickle compressed by zlib, gzip, bzip2, xz, LZMA or LZ4. Compressed files are unpacked when they are
 * opened, into memory or a temporary file.
 *
 * Refused: files that unpack to more than file_max_unpacked allows, or to anything but such a pickle. */
#include "format/pickle/pickle.h"
#include "format/registry.h"
#include "format/unpack.h"

static bool probe(const struct probe *this_probe)
{
    ckpt_error ignored;
    source *head = NULL;
    uint64_t used;
    if (this_probe->is_folder)
        return false;
    const struct signature *s = recognize_compression(this_probe);
    if (!s)
        return recognize_as(this_probe, SIGN_JOBLIB) && !this_probe->zip;
    (void)unpack_head(this_probe->src, s, JOBLIB_HEAD, &head, &used, &ignored);
    bool found = head && recognize_joblib(head);
    source_unref(head);
    return found;
}

static void free_unpacked(void *unpacked) { source_unref(unpacked); }

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    source *unpacked;
    uint64_t stray;
    const struct signature *s = recognize_compression(f->opening->probe);
    if (!s)
        return pickle_read_bare(f, f->src, err);
    ckpt_status st = unpack_all(f, s, &unpacked, &stray, err);
    format_set_container(f, unpacked, free_unpacked);
    CKPT_THEN(st, pickle_read_bare(f, unpacked, err));
    CKPT_THEN(st, unpack_report_stray(f, f->check, f->src, stray, err));
    if (st != CKPT_OK) /* the offset in the unpacked bytes means nothing in the file */
        error_add_position(err, 0, STR_LIT("compressed data"));
    return st;
}

const struct format format_joblib = {.name = "joblib", .title = "joblib dump", .probe = probe, .read = read};
