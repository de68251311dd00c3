/* string_table.h - writes sorted string tables, as in the .index of a TensorFlow checkpoint. */
#ifndef UNIT_STRING_TABLE_H
#define UNIT_STRING_TABLE_H

#include "base/buf.h"

/* A table that is being written. The caller adds the keys in order. */
struct string_table {
    buf file;  /* the blocks that are complete */
    buf block; /* the entries of the current block */
    buf index; /* the entries of the index block */
};

void string_table_begin(struct string_table *t);
/* string_table_add - adds an entry to the current block. KEY is stored in full, without a shared prefix. */
void string_table_add(struct string_table *t, ckpt_str key, ckpt_str value);
/* string_table_end_block - ends the current block, which has the key LAST in the index block. */
void string_table_end_block(struct string_table *t, ckpt_str last);
/* string_table_add_block - adds another block, with the compressed bytes PACKED, the byte TYPE of its
 * compression, and the key LAST in the index block. */
void string_table_add_block(struct string_table *t, ckpt_str last, ckpt_str packed, unsigned char type);
/* string_table_end - returns the complete file, valid until string_table_free. */
ckpt_str string_table_end(struct string_table *t);
void string_table_free(struct string_table *t);

#endif
