/* joblib.c - reads files of joblib.dump: a pickle with arrays between its opcodes (codec/pickle_joblib.c), or
 * that pickle compressed by zlib, gzip, bzip2, xz, LZMA or LZ4. Compressed files are unpacked when they are
 * opened, into memory or a temporary file.
 *
 * Refused: files that unpack to more than file_max_unpacked allows, or to anything but such a pickle. */
#include "codec/pickle_read.h"
#include "format/numpy/numpy.h"
#include "format/recognize.h"
#include "format/torch/graph.h"

#define HEAD_BYTES 65536u /* the name of joblib's wrapper class is within so many first bytes */

/* is_dump - returns true if BYTES, which may be truncated, begin as a file of joblib.dump. */
static bool is_dump(source *bytes)
{
    char head[HEAD_BYTES];
    size_t n = bytes->size < sizeof head ? (size_t)bytes->size : sizeof head;
    return n > 2 && source_read(bytes, 0, head, n, NULL) == CKPT_OK && head[0] == (char)0x80 &&
           str_find(str_of(head, n), STR_LIT("joblib.numpy_pickle"), 0) != SIZE_MAX;
}

static bool probe(const struct probe *p)
{
    source *head = NULL;
    if (p->is_folder)
        return false;
    const struct signature *s = recognize_compression(p);
    if (!s)
        return recognize_as(p, SIGN_JOBLIB) && !p->zip;
    (void)unpack_head(p->src, s, HEAD_BYTES, &head, NULL);
    bool found = head && is_dump(head);
    source_unref(head);
    return found;
}

static void free_unpacked(void *unpacked) { source_unref(unpacked); }

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    source *unpacked;
    const struct signature *s = recognize_compression(f->probe);
    if (!s)
        return torch_read_pickle(f, f->src, err);
    ckpt_status st = unpack_all(f, s, &unpacked, err);
    format_set_container(f, unpacked, free_unpacked);
    if (st == CKPT_OK)
        st = torch_read_pickle(f, unpacked, err);
    if (st != CKPT_OK) /* the offset in the unpacked bytes means nothing in the file */
        error_add_position(err, 0, STR_LIT("compressed data"));
    return st;
}

const struct format format_joblib = {.name = "joblib", .title = "joblib dump", .probe = probe, .read = read};
