/* flatbuffer.h - tables of a FlatBuffer (flatbuffers.dev, internals), read by position: nothing of the file
 * is kept in memory but what is asked for. Each read is inside of the file, and each vector is as long as the
 * bytes after it allow. */
#ifndef CODEC_FLATBUFFER_H
#define CODEC_FLATBUFFER_H

#include "base/arena.h"
#include "io/window.h"

/* A file; all but SRC, which is not owned, ERR and A begin as 0. */
struct flatbuffer {
    source *src;
    ckpt_error *err;
    arena *a; /* of texts */
    struct window window;
};

/* A table: its fields by number, of which any may be absent. */
struct flatbuffer_table {
    uint64_t at;    /* of the table */
    uint64_t names; /* of its vtable, which has the offset of each field */
    uint32_t fields, size;
};

/* A vector of COUNT elements, the first of them at AT; absent: 0. */
struct flatbuffer_vector {
    uint64_t at;
    uint32_t count;
};

/* flatbuffer_root - the table that the file begins with. */
ckpt_status flatbuffer_root(struct flatbuffer *b, struct flatbuffer_table *out);
/* flatbuffer_number - the field FIELD of T, WIDTH bytes (1, 2, 4, 8) without a sign; 0 where it is absent. */
ckpt_status flatbuffer_number(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                              uint32_t width, uint64_t *out);
/* flatbuffer_child - what the field FIELD refers to; *AT is 0 where it is absent. */
ckpt_status flatbuffer_child(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                             uint64_t *at);
/* flatbuffer_open - the table at AT. */
ckpt_status flatbuffer_open(struct flatbuffer *b, uint64_t at, struct flatbuffer_table *out);
/* flatbuffer_get_vector - the vector of elements of WIDTH bytes in the field FIELD. */
ckpt_status flatbuffer_get_vector(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                                  uint32_t width, struct flatbuffer_vector *out);
/* flatbuffer_item - element I of V, 4 bytes without a sign; it must be one of V. */
ckpt_status flatbuffer_item(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                            uint32_t *out);
/* flatbuffer_item_table - the table that element I of V refers to. */
ckpt_status flatbuffer_item_table(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                                  struct flatbuffer_table *out);
/* flatbuffer_item_text - the text that element I of V refers to. */
ckpt_status flatbuffer_item_text(struct flatbuffer *b, const struct flatbuffer_vector *v, uint64_t i,
                                 ckpt_str *out);
/* flatbuffer_text - the text in the field FIELD; empty where it is absent. */
ckpt_status flatbuffer_text(struct flatbuffer *b, const struct flatbuffer_table *t, uint32_t field,
                            ckpt_str *out);
void flatbuffer_close(struct flatbuffer *b);

#endif
