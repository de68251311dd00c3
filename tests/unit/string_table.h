/* string_table.h - writes sorted string tables, as in the .index of a TensorFlow checkpoint. */
#ifndef UNIT_STRING_TABLE_H
#define UNIT_STRING_TABLE_H

#include "base/buf.h"

/* A table that is being written. The caller adds the keys in order. */
struct string_table {
    buf file, block, index;
};

void string_table_begin(struct string_table *t);
/* string_table_add - adds an entry to the current block, with its full key. */
void string_table_add(struct string_table *t, ckpt_str key, ckpt_str value);
/* string_table_end_block - ends the block, with the key LAST in the index. */
void string_table_end_block(struct string_table *t, ckpt_str last);
/* string_table_end_packed - adds a block with the compressed bytes PACKED; TYPE is the byte of its
 * compression. */
void string_table_end_packed(struct string_table *t, ckpt_str last, ckpt_str packed, unsigned char type);
/* string_table_end - returns the complete file, valid until string_table_free. */
ckpt_str string_table_end(struct string_table *t);
void string_table_free(struct string_table *t);

#endif
