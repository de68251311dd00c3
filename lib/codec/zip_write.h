/* zip_write.h - writes a stored zip64 archive with the layout of torch.save: 64-byte aligned payloads,
 * sizes and CRC in the local header, one top folder. */
#pragma once

#include "base/buf.h"
#include "io/sink.h"

typedef struct zip_writer zip_writer;

#define ZIP_NAME 64u /* room for the longest name or TOP, with its NUL */

/* zip_writer_new - begins an archive with the folder TOP, a text that must live as long as *WRITER. */
ckpt_status zip_writer_new(sink *out, const char *top, zip_writer **writer, ckpt_error *err);
/* A member of the archive. If it is reserved, the writer leaves room for it, and the caller writes its header
 * and payload. */
struct zip_output_member {
    char name[ZIP_NAME]; /* without TOP */
    uint64_t size;
    uint64_t source_offset; /* offset of its payload in the input file; CKPT_NO_OFFSET: none */
    uint64_t header_offset; /* in the sink; zip_writer_reserve_member sets both offsets */
    uint64_t data_offset;   /* of the payload, in the sink */
    uint32_t crc;           /* for the central directory */
};

/* Called to set MEMBER to reserved member I. */
typedef void zip_get_output_member(const void *user, size_t i, struct zip_output_member *member);

/* zip_writer_reserve_member - leaves room for MEMBER. A payload of at least SINK_CLONE_LEAST bytes gets the
 * same offset within a page as source_offset, so that it can be cloned. No other member may be written
 * between two reserved ones, because the writer keeps only their number. */
ckpt_status zip_writer_reserve_member(zip_writer *writer, struct zip_output_member *member, ckpt_error *err);
/* zip_put_output_header - appends the local header of a reserved member to OUT, padding included, with a
 * CRC of 0. Several threads may call it. */
ckpt_status zip_put_output_header(const zip_writer *writer, const struct zip_output_member *member, buf *out,
                                  ckpt_error *err);
/* zip_writer_write_member - writes member TOP/NAME. */
ckpt_status zip_writer_write_member(zip_writer *writer, const char *name, ckpt_str bytes, ckpt_error *err);
/* zip_writer_finish - writes directory, zip64 end record, locator and end record. Calls GET_RESERVED for each
 * reserved member; it may be NULL if there are none. The caller frees WRITER. */
ckpt_status zip_writer_finish(zip_writer *writer, zip_get_output_member *get_reserved, const void *user,
                              ckpt_error *err);
void zip_writer_free(zip_writer *writer);
/* The layout of an archive, computed before it is written. All 0 at first, then members are added. */
struct zip_layout {
    uint64_t members_size, directory_size; /* bytes so far */
};

/* zip_layout_add_member - adds a member whose name without TOP has NAME_LEN bytes. False: the archive would
 * exceed 2^64 bytes. */
bool zip_layout_add_member(struct zip_layout *layout, const char *top, size_t name_len, uint64_t size,
                           uint64_t source_offset);
/* zip_layout_get_size - sets *TOTAL to the size of the archive. False: it exceeds 2^64. */
bool zip_layout_get_size(const struct zip_layout *layout, uint64_t *total);
