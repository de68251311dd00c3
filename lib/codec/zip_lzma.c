/*
 * zip_lzma.c - see zip_lzma.h. The data of a member in LZMA (APPNOTE.TXT, 5.8.8):
 *   0  2  version of the SDK      2  2  size of the properties: 5
 *   4  5  properties: lc, lp and pb in one byte, the size of the dictionary in four
 *   9  …  the stream, with an end marker if bit 1 of the flags is set
 *
 * libarchive reads the .lzma files of the SDK, so the data are converted to such a file: the properties, 8
 * bytes for the unpacked size (all ones if there is an end marker), the stream.
 */
#include "codec/zip_lzma.h"

#include <inttypes.h>

#include "base/store.h"
#include "codec/unpack_archive.h"

#define HEADER     9u
#define END_MARKER 2u

static ckpt_status keep_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    (void)name;
    (void)err;
    *(source **)user = source_ref(bytes);
    return CKPT_OK;
}

ckpt_status zip_lzma_open_file(const struct zip_lzma *lzma, source **out, ckpt_error *err)
{
    unsigned char head[HEADER], lzma_header[13];
    if (lzma->csize < HEADER)
        return fail(err, CKPT_EFORMAT, source_pos(lzma->src, lzma->data),
                    "{%" PRIu64 " bytes} of LZMA; its header alone has {=%u}", lzma->csize, HEADER);
    CKPT_TRY(source_read(lzma->src, lzma->data, head, sizeof head, err));
    spool *to = spool_new(UINT64_MAX);
    CKPT_TRY_ALLOC(to, err);
    memcpy(lzma_header, head + 4, 5);
    store_u64le(lzma_header + 5, lzma->flags & END_MARKER ? UINT64_MAX : lzma->usize);
    ckpt_status st = spool_write(to, lzma_header, sizeof lzma_header, err);
    CKPT_THEN(st, spool_copy(to, lzma->src, lzma->data + HEADER, lzma->csize - HEADER, err));
    if (st == CKPT_OK)
        return (*out = spool_source(to)) ? CKPT_OK : fail_memory(err);
    spool_free(to);
    return st;
}

/* check_properties - fails unless the properties of LZMA have 5 bytes. */
static ckpt_status check_properties(const struct zip_lzma *lzma, ckpt_error *err)
{
    unsigned char size[2];
    CKPT_TRY(source_read(lzma->src, lzma->data + 2, size, sizeof size, err));
    return load_u16le(size) == 5 ? CKPT_OK
                                 : fail(err, CKPT_EFORMAT, source_pos(lzma->src, lzma->data),
                                        "LZMA properties of {%u} bytes, not {=5}", load_u16le(size));
}

ckpt_status zip_lzma_open_member(zip *archive, size_t index, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &archive->entries[index];
    struct unpack u = {.max_bytes = e->usize, .member = keep_member, .user = out};
    *out = NULL;
    CKPT_TRY(zip_locate_payload(archive, index, err));
    const struct zip_lzma m = {archive->src, e->data_offset, e->csize, e->usize, e->flags};
    source *packed;
    CKPT_TRY(zip_lzma_open_file(&m, &packed, err));
    ckpt_status st = check_properties(&m, err);
    CKPT_THEN(st, unpack_archive(packed, &u, err));
    source_unref(packed);
    if (st == CKPT_OK && (!*out || (*out)->size != e->usize))
        st = fail(err, CKPT_EFORMAT, source_pos(archive->src, e->data_offset),
                  "its LZMA stream unpacks to {%" PRIu64 " bytes}, the central directory has {=%" PRIu64 "}",
                  *out ? (*out)->size : 0, e->usize);
    if (st == CKPT_OK)
        return CKPT_OK;
    source_unref(*out);
    *out = NULL;
    return st;
}
