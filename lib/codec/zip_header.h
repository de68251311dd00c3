/*
 * zip_header.h - the headers of a zip archive as named fields, for every reader and writer of one.
 * Source: PKWARE APPNOTE.TXT, sections in parentheses. Numbers are little-endian. A field without a
 * description is described to its left.
 *
 *   local header (4.3.7)               central header (4.3.12), one for each entry of the central directory
 *    0  4  50 4B 03 04                  0  4  50 4B 01 02
 *                                       4  2  version made by
 *    4  2  version needed               6  2
 *    6  2  flags                        8  2
 *    8  2  method                      10  2
 *   10  4  MS-DOS time and date        12  4
 *   14  4  CRC-32                      16  4
 *   18  4  compressed size             20  4
 *   22  4  uncompressed size           24  4
 *   26  2  length of name              28  2
 *   28  2  length of extra fields      30  2
 *                                      32  2  length of comment
 *                                      34  2  disk             36  2  internal attributes
 *                                      38  4  external attributes
 *                                      42  4  offset of the local header
 *   30     name, extra, payload        46     name, extra, comment
 *
 *   extra field (4.5): 2 bytes of id, 2 of length, data. Id 0001 is zip64 (4.5.3): uncompressed size,
 *     compressed size and offset in 64 bits, in this order, each only if the header has FFFFFFFF for it.
 *   data descriptor (4.3.9), after the payload if bit 3 of the flags is set: 50 4B 07 08 (optional),
 *     CRC-32, compressed and uncompressed size; the sizes have 4 bytes each, or 8
 *
 *   end of central directory (4.3.16)  zip64 end of central directory (4.3.14)
 *    0  4  50 4B 05 06                  0  4  50 4B 06 06
 *                                       4  8  size of this record after these 12 bytes
 *                                      12  2  version made by  14  2  version needed
 *    4  2  number of this disk         16  4
 *    6  2  central directory: disk     20  4
 *    8  2  entries on this disk        24  8
 *   10  2  entries                     32  8
 *   12  4  central directory: size     40  8
 *   16  4  central directory: offset   48  8
 *   20  2  length of comment           56     extensible data
 *   22     comment
 *   zip64 locator (4.3.15), before the end of central directory:
 *    0  4  50 4B 06 07    4  4  disk of the zip64 end    8  8  its offset   16  4  number of disks
 */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "io/source.h"

#define ZIP_LOCAL          0x04034B50u
#define ZIP_CENTRAL        0x02014B50u
#define ZIP_DESCRIPTOR     0x08074B50u
#define ZIP_END            0x06054B50u
#define ZIP64_END          0x06064B50u
#define ZIP64_LOCATOR      0x07064B50u
#define ZIP_LOCAL_BYTES    "PK\3\4" /* ZIP_LOCAL and ZIP_END as they are in a file */
#define ZIP_END_BYTES      "PK\5\6"
#define ZIP_LOCAL_SIZE     30u
#define ZIP_CENTRAL_SIZE   46u
#define ZIP_END_SIZE       22u
#define ZIP64_END_SIZE     56u
#define ZIP64_LOCATOR_SIZE 20u
#define ZIP_LOCAL_CRC      14u /* offset of the CRC-32 in a local header, for patches */
#define ZIP_CENTRAL_CRC    16u /* offset of the CRC-32 in a central header */
#define ZIP_DESCRIPTOR_CRC 4u  /* offset of the CRC-32 in a data descriptor with a signature */
#define ZIP_STORED         0u
#define ZIP_DEFLATED       8u
#define ZIP_MAX_NAME       65535u  /* longest name, extra fields or comment: a length has 16 bits */
#define ZIP_VERSION        10u     /* versions needed and made by, without zip64 fields */
#define ZIP_VERSION_ZIP64  45u     /* versions needed and made by, with zip64 fields */
#define ZIP64_END_LEAD     12u     /* bytes of the zip64 end record that its size field does not count */
#define ZIP_DISK_IN_ZIP64  0xFFFFu /* the number of the disk is in the zip64 field */
#define ZIP_FIELD_ZIP64    0x0001u
#define ZIP_FIELD_UNICODE  0x7075u     /* Info-ZIP Unicode Path (4.6.9): a name that some readers prefer */
#define ZIP_1980           0x00210000u /* 1980-01-01 00:00, the first MS-DOS date */
#define ZIP_UNIX_VERSION   0x0314u     /* version made by: Unix, version 2.0 */
#define ZIP_UNIX_FILE      0x01800000u /* external attributes: a file that its owner reads and writes */

/* Bits of the flags (4.4.4). */
#define ZIP_FLAG_ENCRYPTED  0x0001u
#define ZIP_FLAG_DESCRIPTOR 0x0008u /* CRC-32 and sizes follow the payload */
#define ZIP_FLAG_PATCH      0x0020u
#define ZIP_FLAG_UTF8       0x0800u
#define ZIP_FLAGS_ENCRYPTED 0x2041u /* encrypted, strongly encrypted, central directory encrypted */
#define ZIP_FLAGS_OPAQUE    (ZIP_FLAGS_ENCRYPTED | ZIP_FLAG_PATCH)

/* A local or a central header; made_by, comment_len, disk, attributes and offset are 0 in a local one. */
struct zip_header {
    uint32_t signature;
    uint16_t made_by, needed, flags, method;
    uint32_t time, crc;
    uint64_t csize, usize, offset;
    uint16_t name_len, extra_len, comment_len, disk;
    uint32_t attributes; /* the external ones */
};

/* zip_new_header - returns the header of a stored member of SIZE bytes, whose local header is at OFFSET. */
static inline struct zip_header zip_new_header(uint64_t size, uint32_t crc, uint64_t offset)
{
    return (struct zip_header){
        .method = ZIP_STORED, .time = ZIP_1980, .crc = crc, .csize = size, .usize = size, .offset = offset};
}
/* zip_parse_local, zip_parse_central - parse the fixed fields; the caller checks the signature. */
struct zip_header zip_parse_local(const unsigned char bytes[ZIP_LOCAL_SIZE]);
struct zip_header zip_parse_central(const unsigned char bytes[ZIP_CENTRAL_SIZE]);
/* zip_local_length, zip_central_length - return the size of HEADER with its variable fields, below 2^18. */
static inline uint32_t zip_local_length(const struct zip_header *header)
{
    return ZIP_LOCAL_SIZE + header->name_len + header->extra_len;
}
static inline uint32_t zip_central_length(const struct zip_header *header)
{
    return ZIP_CENTRAL_SIZE + header->name_len + header->extra_len + header->comment_len;
}
/* zip_read_local - reads the bytes of SRC at AT as a local header; the caller checks its signature. */
ckpt_status zip_read_local(source *src, uint64_t at, struct zip_header *header, ckpt_error *err);
/* zip_has_signature - returns true if the bytes at AT of SRC are SIGNATURE. */
bool zip_has_signature(source *src, uint64_t at, uint32_t signature);

/* zip64_resolve - if EXTRA has a zip64 field, replaces the sizes and offset of HEADER that are FFFFFFFF by
 * the numbers in the first such field, and sets *UNUSED, unless it is NULL, to the number of bytes left in
 * it. False: the field has too few numbers (the missing ones become 0), or EXTRA is truncated before it. */
bool zip64_resolve(struct zip_header *header, cursor extra, size_t *unused);
/* zip64_length - returns the size of the zip64 field that HEADER needs; 0: none. */
uint16_t zip64_length(const struct zip_header *header);

/* zip_put_local - writes HEADER as the local header of a member called NAME. Its extra fields are a zip64
 * field, if a size needs one, and a field with PAD bytes of padding. Computes lengths and version needed. */
#define ZIP_PAD_FIELD 4u /* size of the padding field without the padding: id and length */
void zip_put_local(buf *out, const struct zip_header *header, ckpt_str name, uint16_t pad);
/* zip_output_local_size - returns how many bytes zip_put_local writes for a name of NAME_LEN bytes, without
 * the padding. */
size_t zip_output_local_size(const struct zip_header *header, size_t name_len);
/* zip_put_central - writes HEADER as a central header, without padding or comment. */
void zip_put_central(buf *out, const struct zip_header *header, ckpt_str name);

/* Bits of the form of a data descriptor. SIGNED: it begins with a signature. WIDE: its sizes have 64 bits. */
enum { ZIP_SIGNED = 1, ZIP_WIDE = 2 };

struct zip_descriptor {
    uint32_t crc;
    uint64_t csize, usize;
    uint32_t length; /* of the descriptor */
};

#define ZIP_DESCRIPTOR_SIZE 16u /* with a signature and 32-bit sizes */
#define ZIP_DESCRIPTOR_MAX  24u

/* zip_parse_descriptor - parses the NBYTES bytes as a descriptor of this FORM. False: too few bytes, or they
 * lack the signature. */
bool zip_parse_descriptor(const unsigned char *bytes, size_t nbytes, unsigned form,
                          struct zip_descriptor *descriptor);
/* zip_put_descriptor - writes a descriptor with a signature and 32-bit sizes. */
void zip_put_descriptor(buf *out, uint32_t crc, uint32_t csize, uint32_t usize);

/* An "end of central directory" record or a "zip64 end of central directory" record. */
struct zip_end_record {
    uint32_t signature, disk, directory_disk;
    uint64_t disk_entries, entries, size, offset; /* of the central directory */
    uint64_t follows;                             /* zip64 only: bytes that follow this field */
    uint16_t comment_len;                         /* not in zip64 */
};

struct zip64_locator {
    uint32_t signature, disk, disks;
    uint64_t offset;
};

struct zip_end_record zip_parse_end(const unsigned char bytes[ZIP_END_SIZE]);
struct zip_end_record zip64_parse_end(const unsigned char bytes[ZIP64_END_SIZE]);
struct zip64_locator zip64_parse_locator(const unsigned char bytes[ZIP64_LOCATOR_SIZE]);
/* zip_put_ends - writes the zip64 end record, its locator and the end record, with entries, size and offset
 * of RECORD. AT is the offset that the zip64 end record has in the archive. */
#define ZIP_ENDS_SIZE (ZIP64_END_SIZE + ZIP64_LOCATOR_SIZE + ZIP_END_SIZE)
void zip_put_ends(buf *out, const struct zip_end_record *record, uint64_t at);
/* zip_put_end - writes only the end record. */
void zip_put_end(buf *out, const struct zip_end_record *record);
