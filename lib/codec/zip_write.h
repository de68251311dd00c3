/* zip_write.h - writes a stored zip64 archive with the layout of torch.save: 64-byte aligned payloads,
 * sizes and CRC in the local header, one top folder. */
#ifndef CODEC_ZIP_WRITE_H
#define CODEC_ZIP_WRITE_H

#include "base/buf.h"
#include "io/sink.h"

typedef struct zip_writer zip_writer;

#define ZIP_NAME 64u /* longest name, and longest TOP, with the NUL */

/* zip_writer_new - begins an archive with the folder TOP, a text that must live as long as *W. */
ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **w, ckpt_error *err);
/* A reserved member: the writer leaves room for it, and the caller writes its header and payload. */
struct zip_reserved {
    char name[ZIP_NAME]; /* without TOP */
    uint64_t size;
    uint64_t source_offset; /* offset of its payload in the input file; CKPT_NO_OFFSET: none */
    uint64_t header, data;  /* offsets in the sink; set by zip_writer_reserve */
    uint32_t crc;           /* for the central directory */
};

/* Called to set MEMBER to reserved member I. */
typedef void zip_get_reserved(const void *user, size_t i, struct zip_reserved *member);

/* zip_writer_reserve - leaves room for MEMBER. A payload of at least SINK_CLONE_LEAST bytes gets the same
 * offset within a page as source_offset, so that it can be cloned, whether it then is or not. Reserved
 * members must follow each other; the writer keeps only their number. */
ckpt_status zip_writer_reserve(zip_writer *w, struct zip_reserved *member, ckpt_error *err);
/* zip_reserved_put_header - appends the local header of a reserved member to OUT, up to the payload, with CRC
 * 0. Several threads may call it. */
ckpt_status zip_reserved_put_header(const zip_writer *w, const struct zip_reserved *member, buf *out,
                                    ckpt_error *err);
/* zip_writer_member - writes member TOP/NAME. */
ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err);
/* zip_writer_finish - writes directory, zip64 end record, locator and end record. Calls GET_RESERVED for each
 * reserved member; it may be NULL if there are none. The caller frees W. */
ckpt_status zip_writer_finish(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                              ckpt_error *err);
void zip_writer_free(zip_writer *w);
/* The layout of an archive, computed before it is written. All 0 at first, then members are added. */
struct zip_layout {
    uint64_t at, directory; /* bytes of the members and of the central directory so far */
};

/* zip_layout_member - adds a member whose name without TOP has NAME bytes. False: beyond 2^64. */
bool zip_layout_member(struct zip_layout *l, const char *top, size_t name, uint64_t size,
                       uint64_t source_offset);
/* zip_layout_size - sets *TOTAL to the size of the archive. False: beyond 2^64. */
bool zip_layout_size(const struct zip_layout *l, uint64_t *total);

#endif
