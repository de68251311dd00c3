/* string_table.c - see string_table.h. */
#include "string_table.h"

#include "../tablecrc.h"

static void put_varint(buf *b, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        buf_byte(b, (unsigned char)(v | 0x80));
    buf_byte(b, (unsigned char)v);
}

static void put_entry(buf *b, ckpt_str key, ckpt_str value)
{
    put_varint(b, 0); /* number of bytes that the key shares with the previous key */
    put_varint(b, key.len);
    put_varint(b, value.len);
    buf_put_str(b, key);
    buf_put_str(b, value);
}

void string_table_begin(struct string_table *t)
{
    buf_init(&t->file, 1 << 20);
    buf_init(&t->block, 1 << 20);
    buf_init(&t->index, 1 << 20);
}

void string_table_add(struct string_table *t, ckpt_str key, ckpt_str value)
{
    put_entry(&t->block, key, value);
}

/* put_block - appends to FILE the block BYTES, the byte TYPE of its compression, and a CRC. Appends to HANDLE
 * the offset and the size of the block. */
static void put_block(buf *file, ckpt_str bytes, unsigned char type, buf *handle)
{
    size_t at = file->len;
    put_varint(handle, at);
    put_varint(handle, bytes.len);
    buf_put_str(file, bytes);
    buf_byte(file, type);
    buf_u32le(file, 0); /* the CRC, which tablecrc_set() sets */
    tablecrc_set(file->data + at, bytes.len + 1);
}

static void end_entries(buf *b)
{
    buf_u32le(b, 0); /* the only restart point: the offset of the first entry */
    buf_u32le(b, 1); /* the number of restart points */
}

void string_table_add_block(struct string_table *t, ckpt_str last, ckpt_str packed, unsigned char type)
{
    buf handle;
    buf_init(&handle, 64);
    put_block(&t->file, packed, type, &handle);
    put_entry(&t->index, last, buf_view(&handle));
    buf_free(&handle);
}

void string_table_end_block(struct string_table *t, ckpt_str last)
{
    end_entries(&t->block);
    string_table_add_block(t, last, buf_view(&t->block), 0);
    buf_free(&t->block);
}

ckpt_str string_table_end(struct string_table *t)
{
    buf footer;
    buf_init(&footer, 64);
    put_varint(&footer, 0); /* offset and size of the metaindex: there is none */
    put_varint(&footer, 0);
    end_entries(&t->index);
    put_block(&t->file, buf_view(&t->index), 0, &footer);
    while (footer.len < 40) /* bytes of the footer before the magic number of LevelDB */
        buf_byte(&footer, 0);
    buf_u64le(&footer, UINT64_C(0xdb4775248b80fb57));
    buf_put_str(&t->file, buf_view(&footer));
    buf_free(&footer);
    return buf_view(&t->file);
}

void string_table_free(struct string_table *t)
{
    buf_free(&t->file);
    buf_free(&t->block);
    buf_free(&t->index);
}
