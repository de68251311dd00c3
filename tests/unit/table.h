/* table.h - writes sorted string tables, as in the .index of a TensorFlow checkpoint. */
#ifndef UNIT_TABLE_H
#define UNIT_TABLE_H

#include "base/buf.h"

/* A table that is being written. The caller adds the keys in order. */
struct table_maker {
    buf file, block, index;
};

void table_begin(struct table_maker *t);
/* table_add - adds an entry to the current block, with its full key. */
void table_add(struct table_maker *t, ckpt_str key, ckpt_str value);
/* table_end_block - ends the block, with the key LAST in the index. */
void table_end_block(struct table_maker *t, ckpt_str last);
/* table_end_packed - adds a block with the compressed bytes PACKED; TYPE is the byte of its compression. */
void table_end_packed(struct table_maker *t, ckpt_str last, ckpt_str packed, unsigned char type);
/* table_end - returns the complete file, valid until table_free. */
ckpt_str table_end(struct table_maker *t);
void table_free(struct table_maker *t);

#endif
