/* buffered_writer.c - see buffered_writer.h. The first block ends at a page boundary of the file, so that
 * all later ones are aligned. */
#include "io/buffered_writer.h"

#include <stdlib.h>

#include "io/fd.h"

#define PAGE      4096u
#define MIN_SPACE 1024u /* bytes; more than a quantization block of any dtype has, converted or not */

ckpt_status buffered_open(struct buffered_writer *writer, sink *to, ckpt_error *err)
{
    *writer = (struct buffered_writer){
        .to = to, .block = aligned_alloc(PAGE, FD_CHUNK), .capacity = FD_CHUNK};
    return writer->block ? CKPT_OK : fail_memory(err);
}

void buffered_close(struct buffered_writer *writer)
{
    free(writer->block);
    writer->block = NULL;
}

static void start_block_at(struct buffered_writer *writer, uint64_t pos)
{
    writer->pos = pos;
    writer->len = 0;
    writer->capacity = FD_CHUNK - (size_t)(pos % PAGE);
}

ckpt_status buffered_flush(struct buffered_writer *writer, ckpt_error *err)
{
    if (writer->len && writer->to)
        CKPT_TRY(sink_patch(writer->to, writer->pos, writer->block, writer->len, err));
    start_block_at(writer, writer->pos + writer->len);
    return CKPT_OK;
}

ckpt_status buffered_seek(struct buffered_writer *writer, uint64_t pos, ckpt_error *err)
{
    if (pos == writer->pos + writer->len)
        return CKPT_OK;
    CKPT_TRY(buffered_flush(writer, err));
    start_block_at(writer, pos);
    return CKPT_OK;
}

ckpt_status buffered_get_space(struct buffered_writer *writer, unsigned char **space, size_t *room,
                               ckpt_error *err)
{
    if (writer->capacity - writer->len < MIN_SPACE)
        CKPT_TRY(buffered_flush(writer, err));
    *room = writer->capacity - writer->len;
    *space = writer->block + writer->len;
    return CKPT_OK;
}

void buffered_add(struct buffered_writer *writer, size_t count) { writer->len += count; }

ckpt_status buffered_put(struct buffered_writer *writer, const void *bytes, size_t nbytes, ckpt_error *err)
{
    const unsigned char *p = bytes;
    while (nbytes) {
        size_t room;
        unsigned char *to;
        CKPT_TRY(buffered_get_space(writer, &to, &room, err));
        room = room < nbytes ? room : nbytes;
        memcpy(to, p, room);
        buffered_add(writer, room);
        p += room;
        nbytes -= room;
    }
    return CKPT_OK;
}

ckpt_status buffered_patch(struct buffered_writer *writer, uint64_t off, const void *bytes, size_t nbytes,
                           ckpt_error *err)
{
    uint64_t before = off < writer->pos ? writer->pos - off : 0;
    size_t written = before < nbytes ? (size_t)before : nbytes;
    if (off >= writer->pos + writer->len)
        written = nbytes;
    if (written && writer->to)
        CKPT_TRY(sink_patch(writer->to, off, bytes, written, err));
    if (nbytes > written)
        memcpy(writer->block + (off + written - writer->pos), (const char *)bytes + written,
               nbytes - written);
    return CKPT_OK;
}
