/*
 * zip_lzma.c - LZMA in a zip archive (APPNOTE.TXT, 5.8.8):
 *   0  2  version of the SDK      2  2  size of the properties: 5
 *   4  5  properties: one byte, and the size of the dictionary
 *   9  …  the stream; bit 1 of the flags: an end marker is in it
 *
 * libarchive reads the .lzma of the SDK: the same properties, 8 bytes for the unpacked size (all ones: there
 * is an end marker), the same stream. So a member is given to it in that form.
 */
#include "codec/zip_lzma.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/store.h"
#include "codec/unpack_archive.h"

#define BEFORE     9u
#define END_MARKER 2u
#define BLOCK      65536u

static ckpt_status keep_member(void *user, ckpt_str name, source *bytes, ckpt_error *err)
{
    (void)name;
    (void)err;
    *(source **)user = source_ref(bytes);
    return CKPT_OK;
}

/* copy_stream - the N bytes at OFFSET of SRC to TO. */
static ckpt_status copy_stream(source *src, uint64_t offset, uint64_t n, spool *to, ckpt_error *err)
{
    unsigned char *block = malloc(BLOCK);
    ckpt_status st = block ? CKPT_OK : fail_memory(err);
    for (uint64_t at = 0; st == CKPT_OK && at < n;) {
        size_t some = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        st = source_read(src, offset + at, block, some, err); /* bounded: inside the member */
        if (st == CKPT_OK)
            st = spool_write(to, block, some, err);
        at += some; /* bounded: n, at most */
    }
    free(block);
    return st;
}

/* rewrap - the member E of Z as a .lzma, in TO. */
static ckpt_status rewrap(const zip *z, const struct zip_entry *e, spool *to, ckpt_error *err)
{
    unsigned char head[BEFORE], alone[13];
    if (e->csize < BEFORE)
        return fail(err, CKPT_EFORMAT, source_pos(z->src, e->data),
                    "{%" PRIu64 " bytes} of LZMA; {=%u} come first", e->csize, BEFORE);
    CKPT_TRY(source_read(z->src, e->data, head, sizeof head, err));
    if (load_u16le(head + 2) != 5)
        return fail(err, CKPT_EFORMAT, source_pos(z->src, e->data), "LZMA properties of {%u} bytes, not {=5}",
                    load_u16le(head + 2));
    memcpy(alone, head + 4, 5);
    store_u64le(alone + 5, e->flags & END_MARKER ? UINT64_MAX : e->usize);
    CKPT_TRY(spool_write(to, alone, sizeof alone, err));
    return copy_stream(z->src, e->data + BEFORE, e->csize - BEFORE, to, err); /* bounded: checked above */
}

ckpt_status zip_lzma_member(zip *z, size_t i, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &z->entries[i];
    struct unpack u = {.max = e->usize, .member = keep_member, .user = out};
    *out = NULL;
    CKPT_TRY(zip_locate_payload(z, i, err));
    spool *to = spool_new(UINT64_MAX);
    if (!to)
        return fail_memory(err);
    ckpt_status st = rewrap(z, e, to, err);
    source *packed = spool_source(to);
    if (!packed)
        return fail_memory(err);
    if (st == CKPT_OK)
        st = unpack_archive(packed, &u, err);
    source_unref(packed);
    if (st == CKPT_OK && (!*out || (*out)->size != e->usize))
        st = fail(err, CKPT_EFORMAT, source_pos(z->src, e->data),
                  "its LZMA stream unpacks to {%" PRIu64 " bytes}, the directory has {=%" PRIu64 "}",
                  *out ? (*out)->size : 0, e->usize);
    if (st == CKPT_OK)
        return CKPT_OK;
    source_unref(*out);
    *out = NULL;
    return st;
}
