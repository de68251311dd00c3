/* table.h - tables of TensorFlow, made in memory. */
#ifndef UNIT_TABLE_H
#define UNIT_TABLE_H

#include "base/buf.h"

/* A table of uncompressed blocks that is being made; keys are not sorted here. */
struct table_maker {
    buf file, block, index;
};

void table_begin(struct table_maker *t);
/* table_add - an entry, whose key shares no bytes with the one before. */
void table_add(struct table_maker *t, ckpt_str key, ckpt_str value);
/* table_end_block - ends a block; the separator after it is LAST. */
void table_end_block(struct table_maker *t, ckpt_str last);
/* table_end_packed - the same, with the bytes PACKED in place of the entries, of compression TYPE. */
void table_end_packed(struct table_maker *t, ckpt_str last, ckpt_str packed, unsigned char type);
/* table_end - the whole file, valid until table_free. */
ckpt_str table_end(struct table_maker *t);
void table_free(struct table_maker *t);

#endif
