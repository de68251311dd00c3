/* msgpack.h - reads and writes the values of MessagePack one after the other. */
#pragma once

#include "base/buf.h"
#include "io/source.h"

enum msgpack_kind {
    MSGPACK_NEVER, /* the byte c1, with which no value begins */
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
    uint8_t width;    /* size in bytes of the number or length after the first byte */
    int8_t type;      /* type of an EXT */
    uint64_t at;      /* offset of the value */
    uint64_t bits;    /* bits of a number: an INT is in two's complement, a FLOAT is as stored */
    uint64_t count;   /* number of the items of an ARRAY, or of the pairs of a MAP */
    uint64_t data, n; /* offset and number of the bytes of a TEXT, BYTES or EXT */
};

typedef ckpt_status msgpack_visit(void *user, const struct msgpack_value *v, ckpt_error *err);
/* msgpack_read - reads SRC, which must be exactly one value, and calls VISIT (may be NULL) for that value
 * and all in it, a container before its contents. Stops if VISIT returns anything but CKPT_OK, and returns
 * that. */
ckpt_status msgpack_read(source *src, msgpack_visit *visit, void *user, ckpt_error *err);

/* msgpack_put_map, msgpack_put_array - append the head of a map of COUNT pairs or an array of COUNT items,
 * which the caller appends after it. */
void msgpack_put_map(buf *out, uint32_t count);
void msgpack_put_array(buf *out, uint32_t count);
/* msgpack_put_bytes, msgpack_put_ext - append the head of COUNT bytes, which the caller appends after it. OUT
 * fails for more than 2^32 - 1. */
void msgpack_put_bytes(buf *out, uint64_t count);
void msgpack_put_ext(buf *out, int type, uint64_t count);
void msgpack_put_text(buf *out, ckpt_str text);
void msgpack_put_uint(buf *out, uint64_t count);
void msgpack_put_int(buf *out, int64_t count);
void msgpack_put_float(buf *out, double number);
void msgpack_put_nil(buf *out);
void msgpack_put_bool(buf *out, bool on);
