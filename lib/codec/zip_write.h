/* zip_write.h - writes a stored zip64 archive with the layout of torch.save: 64-byte aligned payloads,
 * sizes and CRC in the local header, one top folder. */
#ifndef CODEC_ZIP_WRITE_H
#define CODEC_ZIP_WRITE_H

#include "base/buf.h"
#include "io/sink.h"

typedef struct zip_writer zip_writer;

#define ZIP_NAME 64u /* the size of a name, and of TOP */

/* zip_writer_new - an archive of the folder TOP, which lives as long as *W. */
ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **w, ckpt_error *err);
/* A reserved member: the caller writes its header and payload. */
struct zip_reserved {
    char name[ZIP_NAME]; /* without TOP */
    uint64_t size;
    uint64_t source_offset; /* offset of its payload in the input file; CKPT_NO_OFFSET: none */
    uint64_t header, data;  /* offsets in the sink; set by zip_writer_reserve */
    uint32_t crc;          /* for the directory */
};

/* Sets MEMBER to reserved member I. */
typedef void zip_get_reserved(const void *user, size_t i, struct zip_reserved *member);

/* zip_writer_reserve - leaves room for member TOP/NAME of SIZE bytes. From SINK_CLONE_LEAST bytes on, the
 * payload has the same offset within a page as source_offset, so that it can be cloned; the layout does not
 * depend on whether it is. Reserved members are consecutive in the archive; the writer only counts them. */
ckpt_status zip_writer_reserve(zip_writer *w, struct zip_reserved *member, ckpt_error *err);
/* zip_reserved_put_header - appends the local header of a reserved member, up to the payload, with CRC 0.
 * Several threads may call it. */
ckpt_status zip_reserved_put_header(const zip_writer *w, const struct zip_reserved *member, buf *out,
                                    ckpt_error *err);
/* zip_writer_member - writes member TOP/NAME. */
ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err);
/* zip_writer_finish - writes directory, zip64 end record, locator and end record. GET_RESERVED returns the
 * reserved members for the directory; NULL if there are none. W must still be freed. */
ckpt_status zip_writer_finish(zip_writer *w, zip_get_reserved *get_reserved, const void *user,
                              ckpt_error *err);
void zip_writer_free(zip_writer *w);
/* For computing the layout of an archive before it is written: starts as all 0, members are added one by
 * one. */
struct zip_layout {
    uint64_t at, directory;
};

/* zip_layout_member - adds a member whose name without TOP has NAME bytes. False: beyond 2^64. */
bool zip_layout_member(struct zip_layout *l, const char *top, size_t name, uint64_t size,
                       uint64_t source_offset);
/* zip_layout_size - the size of the whole archive. */
bool zip_layout_size(const struct zip_layout *l, uint64_t *total);

#endif
