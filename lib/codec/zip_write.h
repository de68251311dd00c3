/* zip_write.h - a stored zip64 archive, laid out as torch.save lays it out:
 * 64-byte aligned payloads, sizes and CRC in the local header, one top folder. */
#ifndef CODEC_ZIP_WRITE_H
#define CODEC_ZIP_WRITE_H

#include "base/buf.h"
#include "io/sink.h"

typedef struct zip_writer zip_writer;

ckpt_status zip_writer_new(sink *out, const char *top, uint32_t align, zip_writer **w, ckpt_error *err);
/* zip_writer_begin - starts member TOP/NAME of exactly SIZE bytes. */
ckpt_status zip_writer_begin(zip_writer *w, const char *name, uint64_t size, ckpt_error *err);
/* A member whose header and payload somebody else writes. */
struct zip_spot {
    uint64_t header, data, size;
    uint64_t like; /* see zip_writer_skip */
    size_t central; /* its record in the directory */
};

#define ZIP_CRC_AT 14u /* of the CRC-32, from the header on */

/* From so many bytes on a payload lies, in its page, where it lay in the file it comes
 * from: there it may be cloned. The layout does not depend on whether it is. */
#define ZIP_CLONE_LEAST (1u << 20)

/* zip_writer_skip - leaves room for member TOP/NAME of SIZE bytes, which come from LIKE
 * of a file; CKPT_NO_OFFSET: from none. */
ckpt_status zip_writer_skip(zip_writer *w, const char *name, uint64_t size, uint64_t like,
                            struct zip_spot *spot, ckpt_error *err);
/* zip_spot_header - the bytes from its header to its payload; the CRC as yet 0. May be
 * called by several threads. */
ckpt_status zip_spot_header(const zip_writer *w, const struct zip_spot *spot, const char *name, buf *out,
                            ckpt_error *err);
/* zip_spot_crc - its CRC, for the directory; before zip_writer_finish. */
void zip_spot_crc(zip_writer *w, const struct zip_spot *spot, uint32_t crc);
/* zip_writer_put - payload bytes; the CRC is computed on them. */
ckpt_status zip_writer_put(zip_writer *w, const void *bytes, size_t n, ckpt_error *err);
/* zip_writer_member - begin, put, all at once. */
ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err);
/* zip_writer_crc - CRC-32 of the last member that is complete. */
uint32_t zip_writer_crc(const zip_writer *w);
/* zip_writer_finish - directory, zip64 end record, locator, end record. W stays to be freed. */
ckpt_status zip_writer_finish(zip_writer *w, ckpt_error *err);
void zip_writer_free(zip_writer *w);
/* zip_put_ends - zip64 end record, which stands at END, its locator, end record of a
 * directory of SIZE bytes at AT. */
void zip_put_ends(buf *b, uint64_t members, uint64_t at, uint64_t size, uint64_t end);
/* zip_writer_size - size of a whole archive of N members with these name
 * lengths (without top), sizes and places to be like (NULL: like none): the layout
 * before the first byte. */
bool zip_writer_size(const char *top, uint32_t align, size_t n, const size_t *name_lens,
                     const uint64_t *sizes, const uint64_t *likes, uint64_t *total);

#endif
