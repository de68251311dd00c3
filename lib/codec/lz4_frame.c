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

/* read_up_to - reads the next NBYTES bytes, or those that are left, of FRAME to BUFFER. Sets *GOT to their
 * number. */
static ckpt_status read_up_to(struct lz4_frame *frame, void *buffer, size_t nbytes, size_t *got,
                              ckpt_error *err)
{
    uint64_t left = frame->src->size - frame->pos;
    *got = nbytes < left ? nbytes : (size_t)left;
    CKPT_TRY(source_read(frame->src, frame->pos, buffer, *got, err));
    frame->pos += *got;
    return CKPT_OK;
}

/* read_header - reads the header of a frame. Sets *OK to false if FRAME has none here that can be read. */
static ckpt_status read_header(struct lz4_frame *frame, bool *ok, ckpt_error *err)
{
    unsigned char h[6] = {0};
    size_t got;
    CKPT_TRY(read_up_to(frame, h, sizeof h, &got, err));
    unsigned size_class = h[5] >> 4 & 7;
    frame->flags = h[4];
    frame->max_block = (size_t)1 << (8 + 2 * size_class);
    frame->nhistory = 0;
    frame->pos += frame->flags & SIZE ? 9 : 1;
    *ok = got == sizeof h && load_u32le(h) == 0x184d2204 && frame->flags >> 6 == 1 &&
          !(frame->flags & DICT) && size_class >= 4 && frame->pos <= frame->src->size;
    return CKPT_OK;
}

/* put_block - appends to the output what the COUNT bytes of the stored or compressed block decode to, and
 * keeps the end of it as history. Sets *OK to false if they are damaged or end too early. */
static ckpt_status put_block(struct lz4_frame *frame, size_t count, bool is_stored, bool *ok, ckpt_error *err)
{
    size_t begin = frame->nhistory, end = begin; /* in DECODED, which has room for HISTORY and a block */
    if (is_stored) {
        memcpy(frame->decoded + begin, frame->stored, count);
        end += count;
    } else {
        size_t room = begin + frame->max_block;
        *ok = block_decode_lz4(cursor_of(frame->stored, count, 0), frame->decoded, room, &end);
    }
    CKPT_TRY(spool_write(frame->to, frame->decoded + begin, end - begin, err));
    frame->nhistory = end < HISTORY ? end : HISTORY;
    memmove(frame->decoded, frame->decoded + end - frame->nhistory, frame->nhistory);
    return CKPT_OK;
}

/* unpack_block - unpacks the next block, or what there is of it. Sets *OK to false after the last that can be
 * unpacked, and *ENDS to true at the end of the frame. */
static ckpt_status unpack_block(struct lz4_frame *frame, bool *ok, bool *ends, ckpt_error *err)
{
    unsigned char b[4] = {0};
    size_t got;
    CKPT_TRY(read_up_to(frame, b, sizeof b, &got, err));
    size_t n = load_u32le(b) & ~STORED;
    *ends = got == sizeof b && !n;
    *ok = got == sizeof b && n <= frame->max_block;
    if (*ends || !*ok)
        return CKPT_OK;
    CKPT_TRY(read_up_to(frame, frame->stored, n, &got, err));
    CKPT_TRY(put_block(frame, got, load_u32le(b) & STORED, ok, err));
    *ok = *ok && got == n;
    return *ok && frame->flags & CHECKSUMS ? read_up_to(frame, b, sizeof b, &got, err) : CKPT_OK;
}

static ckpt_status unpack_frames(struct lz4_frame *frame, ckpt_error *err)
{
    unsigned char checksum[4];
    bool ok = true;
    size_t got;
    while (ok && frame->pos < frame->src->size) {
        bool ends = false;
        CKPT_TRY(read_header(frame, &ok, err));
        while (ok && !ends)
            CKPT_TRY(unpack_block(frame, &ok, &ends, err));
        if (ends && frame->flags & CHECKSUM)
            CKPT_TRY(read_up_to(frame, checksum, sizeof checksum, &got, err));
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
