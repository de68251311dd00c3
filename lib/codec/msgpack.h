/* msgpack.h - the values of MessagePack, one after the other. */
#ifndef CODEC_MSGPACK_H
#define CODEC_MSGPACK_H

#include "base/buf.h"
#include "io/source.h"

enum msgpack_kind {
    MSGPACK_NONE, /* no value begins so */
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_UINT,
    MSGPACK_INT,
    MSGPACK_FLOAT,
    MSGPACK_TEXT,
    MSGPACK_BYTES,
    MSGPACK_EXT,
    MSGPACK_ARRAY, /* COUNT values follow */
    MSGPACK_MAP    /* COUNT keys follow, each with its value after it */
};

struct msgpack_value {
    enum msgpack_kind kind;
    uint8_t width; /* of a number: its bytes, 0: it is in the first one */
    int8_t type;   /* of EXT; flax: 1 an array, 2 a complex number, 3 a scalar of numpy */
    uint64_t at;   /* its first byte */
    uint64_t bits; /* of a number: INT in two's complement of 64 bits, FLOAT as it is stored */
    uint64_t count;
    uint64_t data, n; /* of TEXT, BYTES and EXT: where their bytes are */
};

typedef ckpt_status msgpack_visit(void *user, const struct msgpack_value *v, ckpt_error *err);
/* msgpack_read - SRC is one value, to its last byte, and what that holds: each is passed to VISIT (may be
 * NULL), a container before what is in it. What VISIT returns other than CKPT_OK ends it. */
ckpt_status msgpack_read(source *src, msgpack_visit *visit, void *user, ckpt_error *err);

/* msgpack_put_map, msgpack_put_array - the beginning of one of N pairs or items, which follow. */
void msgpack_put_map(buf *b, uint32_t n);
void msgpack_put_array(buf *b, uint32_t n);
/* msgpack_put_bytes, msgpack_put_ext - what comes before N bytes. B fails for more than 2^32 - 1. */
void msgpack_put_bytes(buf *b, uint64_t n);
void msgpack_put_ext(buf *b, int type, uint64_t n);
void msgpack_put_text(buf *b, ckpt_str s);
void msgpack_put_uint(buf *b, uint64_t n);
void msgpack_put_int(buf *b, int64_t n);
void msgpack_put_float(buf *b, double d);
void msgpack_put_nil(buf *b);
void msgpack_put_bool(buf *b, bool on);

#endif
