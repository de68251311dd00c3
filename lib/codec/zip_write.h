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
    char name[32]; /* without TOP */
    uint64_t size;
    uint64_t like; /* where its payload lies in the file it comes from; CKPT_NO_OFFSET: in none */
    uint64_t header, data; /* where it lies here; by zip_writer_skip */
    uint32_t crc;          /* for the directory */
};

/* Gives skipped member I again. */
typedef void zip_tell(const void *user, size_t i, struct zip_spot *spot);

/* zip_writer_skip - leaves room for member TOP/NAME of SIZE bytes. From SINK_CLONE_LEAST on they lie in their
 * page as at LIKE: so they may be cloned, but the layout does not depend on it. All that are skipped stand
 * together in the archive; nothing is kept of them. */
ckpt_status zip_writer_skip(zip_writer *w, struct zip_spot *spot, ckpt_error *err);
/* zip_spot_place - finds DATA again, of a spot whose HEADER is known. May be called by several
 * threads, like zip_spot_header. */
bool zip_spot_place(const zip_writer *w, struct zip_spot *spot);
/* zip_spot_header - the bytes from its header to its payload; the CRC as yet 0. */
ckpt_status zip_spot_header(const zip_writer *w, const struct zip_spot *spot, buf *out, ckpt_error *err);
/* zip_writer_put - payload bytes; the CRC is computed on them. */
ckpt_status zip_writer_put(zip_writer *w, const void *bytes, size_t n, ckpt_error *err);
/* zip_writer_member - begin, put, all at once. */
ckpt_status zip_writer_member(zip_writer *w, const char *name, ckpt_str bytes, ckpt_error *err);
/* zip_writer_crc - CRC-32 of the last member that is complete. */
uint32_t zip_writer_crc(const zip_writer *w);
/* zip_writer_finish - directory, zip64 end record, locator, end record. TELL is asked for the
 * skipped members, for the directory; NULL where none was. W stays to be freed. */
ckpt_status zip_writer_finish(zip_writer *w, zip_tell *tell, const void *user, ckpt_error *err);
void zip_writer_free(zip_writer *w);
/* The layout of an archive before its first byte: members one by one, from all 0. */
struct zip_layout {
    uint64_t at, directory;
};

/* zip_layout_member - NAME bytes of name, without TOP. False: beyond 2^64. */
bool zip_layout_member(struct zip_layout *l, const char *top, uint32_t align, size_t name, uint64_t size,
                       uint64_t like);
/* zip_layout_size - of the whole archive. */
bool zip_layout_size(const struct zip_layout *l, uint64_t *total);

#endif
