/*
 * lz4_frame.c - unpacks the frames of a truncated .lz4 file (lz4/lz4 doc/lz4_Frame_format.md).
 *
 *   0            magic 0x184d2204
 *   4            flags: version (01) << 6, checksums of blocks 0x10, size of the content 0x08, checksum of
 *                the content 0x04, dictionary 0x01
 *   5            greatest size of a block << 4: 4 (64 KiB) to 7 (4 MiB)
 *   6            size of the content 8 and id of the dictionary 4, if there are any; a checksum 1
 *   …            blocks: size 4, of which the highest bit means stored, the bytes, and a checksum 4, if any
 *   …            a size of 0, and the checksum of the content, if there is one
 *
 * A block may copy from the 64 KiB before it. Checksums are not compared: that of a block cut off is missing.
 */
#include "codec/lz4_frame.h"

#include <stdlib.h>

#include "codec/block_codecs.h"

#define HISTORY   65536u
#define STORED    0x80000000u
#define CHECKSUMS 0x10u /* of blocks */
#define SIZE      0x08u
#define CHECKSUM  0x04u
#define DICT      0x01u

struct lz4_frame {
    source *src;
    uint64_t pos;
    spool *to;
    unsigned flags;
    size_t max_block;
    unsigned char *stored, *decoded; /* a block; HISTORY bytes at most, and a block */
    size_t nhistory;
};

/* read_up_to - reads the next N bytes, or those that are left, of F to BUFFER. Sets *GOT to their number. */
static ckpt_status read_up_to(struct lz4_frame *f, void *buffer, size_t n, size_t *got, ckpt_error *err)
{
    uint64_t left = f->src->size - f->pos;
    *got = n < left ? n : (size_t)left;
    CKPT_TRY(source_read(f->src, f->pos, buffer, *got, err));
    f->pos += *got;
    return CKPT_OK;
}

/* read_header - reads the header of a frame. Sets *OK to false if F has none here that can be read. */
static ckpt_status read_header(struct lz4_frame *f, bool *ok, ckpt_error *err)
{
    unsigned char h[6] = {0};
    size_t got;
    CKPT_TRY(read_up_to(f, h, sizeof h, &got, err));
    unsigned size_class = h[5] >> 4 & 7;
    f->flags = h[4];
    f->max_block = (size_t)1 << (8 + 2 * size_class);
    f->nhistory = 0;
    f->pos += f->flags & SIZE ? 9 : 1;
    *ok = got == sizeof h && load_u32le(h) == 0x184d2204 && f->flags >> 6 == 1 && !(f->flags & DICT) &&
          size_class >= 4 && f->pos <= f->src->size;
    return CKPT_OK;
}

/* put_block - appends to the output what the N bytes of the stored or compressed block decode to, and keeps
 * the end of it as history. Sets *OK to false if they are damaged or end too early. */
static ckpt_status put_block(struct lz4_frame *f, size_t n, bool is_stored, bool *ok, ckpt_error *err)
{
    size_t begin = f->nhistory, end = begin; /* in DECODED, which has room for HISTORY and a block */
    if (is_stored) {
        memcpy(f->decoded + begin, f->stored, n);
        end += n;
    } else {
        size_t room = begin + f->max_block;
        *ok = block_decode_lz4(cursor_of(f->stored, n, 0), f->decoded, room, &end);
    }
    CKPT_TRY(spool_write(f->to, f->decoded + begin, end - begin, err));
    f->nhistory = end < HISTORY ? end : HISTORY;
    memmove(f->decoded, f->decoded + end - f->nhistory, f->nhistory);
    return CKPT_OK;
}

/* unpack_block - unpacks the next block, or what there is of it. Sets *OK to false after the last that can be
 * unpacked, and *ENDS to true at the end of the frame. */
static ckpt_status unpack_block(struct lz4_frame *f, bool *ok, bool *ends, ckpt_error *err)
{
    unsigned char b[4] = {0};
    size_t got;
    CKPT_TRY(read_up_to(f, b, sizeof b, &got, err));
    size_t n = load_u32le(b) & ~STORED;
    *ends = got == sizeof b && !n;
    *ok = got == sizeof b && n <= f->max_block;
    if (*ends || !*ok)
        return CKPT_OK;
    CKPT_TRY(read_up_to(f, f->stored, n, &got, err));
    CKPT_TRY(put_block(f, got, load_u32le(b) & STORED, ok, err));
    *ok = *ok && got == n;
    return *ok && f->flags & CHECKSUMS ? read_up_to(f, b, sizeof b, &got, err) : CKPT_OK;
}

static ckpt_status unpack_frames(struct lz4_frame *f, ckpt_error *err)
{
    unsigned char checksum[4];
    bool ok = true;
    size_t got;
    while (ok && f->pos < f->src->size) {
        bool ends = false;
        CKPT_TRY(read_header(f, &ok, err));
        while (ok && !ends)
            CKPT_TRY(unpack_block(f, &ok, &ends, err));
        if (ends && f->flags & CHECKSUM)
            CKPT_TRY(read_up_to(f, checksum, sizeof checksum, &got, err));
    }
    return CKPT_OK;
}

ckpt_status lz4_unpack_truncated(source *src, spool *to, ckpt_error *err)
{
    const size_t max_block = (size_t)4 << 20;
    struct lz4_frame f = {.src = src, .to = to};
    f.stored = malloc(max_block);
    f.decoded = malloc(HISTORY + max_block);
    ckpt_status st = f.stored && f.decoded ? unpack_frames(&f, err) : fail_memory(err);
    free(f.stored);
    free(f.decoded);
    return st;
}
