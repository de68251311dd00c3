/* flatbuffer.h - reads tables of a FlatBuffer (flatbuffers.dev, internals) at their offsets, without loading
 * the file. Every read and every vector is checked against the size of the file. */
#pragma once

#include "io/window.h"

/* A file. The caller sets SRC, ERR and A, keeps its reference to SRC, and closes the window. */
struct flatbuffer {
    source *src;
    ckpt_error *err;
    arena *a;             /* arena of the texts that are read */
    struct window window; /* window of SRC, initially all zeros */
};

/* A table. Its fields have numbers, and any of them may be absent. */
struct flatbuffer_table {
    uint64_t at;      /* offset of the table */
    uint64_t vtable;  /* offset of its vtable, which has the offset of each field in the table */
    uint32_t nfields; /* number of fields in the vtable */
    uint32_t size;    /* bytes of the table, inside of which are its fields */
};

/* A vector of COUNT elements, the first of which is at AT; both are 0 if it is absent. */
struct flatbuffer_vector {
    uint64_t at;
    uint32_t count;
};

ckpt_status flatbuffer_open_root(struct flatbuffer *flatbuffer, struct flatbuffer_table *out);
/* flatbuffer_read_number - reads field FIELD of TABLE, an unsigned number of WIDTH bytes (1, 2, 4, 8); 0 if
 * it is absent. */
ckpt_status flatbuffer_read_number(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                   uint32_t field, uint32_t width, uint64_t *out);
/* flatbuffer_find_child - sets *AT to the offset that field FIELD of TABLE refers to; 0 if it is absent. */
ckpt_status flatbuffer_find_child(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                  uint32_t field, uint64_t *at);
ckpt_status flatbuffer_open_table(struct flatbuffer *flatbuffer, uint64_t at, struct flatbuffer_table *out);
/* flatbuffer_get_vector - sets *OUT to the vector in field FIELD of TABLE, whose elements have WIDTH
 * bytes. */
ckpt_status flatbuffer_get_vector(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                  uint32_t field, uint32_t width, struct flatbuffer_vector *out);
/* flatbuffer_read_item - sets *OUT to element INDEX of VECTOR, an unsigned number of 4 bytes. Refuses an
 * INDEX that is not below VECTOR->count. */
ckpt_status flatbuffer_read_item(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                 uint64_t index, uint32_t *out);
/* flatbuffer_open_item - opens the table that element INDEX of VECTOR refers to. */
ckpt_status flatbuffer_open_item(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                 uint64_t index, struct flatbuffer_table *out);
/* flatbuffer_read_item_text - sets *OUT to the text that element INDEX of VECTOR refers to. */
ckpt_status flatbuffer_read_item_text(struct flatbuffer *flatbuffer, const struct flatbuffer_vector *vector,
                                      uint64_t index, ckpt_str *out);
/* flatbuffer_read_text - sets *OUT to the text in field FIELD of TABLE; empty if it is absent. */
ckpt_status flatbuffer_read_text(struct flatbuffer *flatbuffer, const struct flatbuffer_table *table,
                                 uint32_t field, ckpt_str *out);
