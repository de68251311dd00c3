/*
 * msgpack.c - scans MessagePack as flax.serialization writes it: one map with text keys, whose arrays are
 * extensions of type 1 (array), 2 (complex number) and 3 (numpy scalar). Nothing in it runs: flax makes only
 * arrays of numbers.
 *
 * MessagePack has no magic number. Bytes are taken for MessagePack if they begin with a map whose first key
 * is a text, and end with the last value of that map.
 */
#include "codec/msgpack.h"

#include <inttypes.h>

#include "scan/scan.h"

#define VALUE_MIN 16u /* bytes; shorter values cannot hold a file worth scanning */

struct msgpack_visit {
    const struct scanned *in;
    uint64_t array_bytes;
    bool has_unknown_extension, is_too_deep;
};

/* scan_msgpack_value - scans the bytes of MSGPACK_VALUE, which may be a file. */
static ckpt_status scan_msgpack_value(struct msgpack_visit *visit, const struct msgpack_value *msgpack_value,
                                      ckpt_error *err)
{
    struct scanner *x = visit->in->x;
    uint64_t known_bytes = 0;
    struct scanned value = {.x = x};
    if (msgpack_value->n < VALUE_MIN || visit->is_too_deep)
        return CKPT_OK;
    visit->is_too_deep = x->depth >= x->scan->opts->max_depth;
    if (visit->is_too_deep)
        return scan_found(x->scan, SCAN_NOT_OPENED, visit->in->where, visit->in->src, msgpack_value->data,
                          "its values are nested too deep to be opened");
    CKPT_TRY(scan_join_offset(visit->in, "value", msgpack_value->data, &value.where, err));
    CKPT_TRY(source_slice(visit->in->src, msgpack_value->data, msgpack_value->n, &value.src, err));
    ckpt_status st = scan_bytes(&value, SCAN_VALUE, &known_bytes, err);
    source_unref(value.src);
    return st;
}

static ckpt_status visit_value(void *user, const struct msgpack_value *value, ckpt_error *err)
{
    struct msgpack_visit *m = user;
    if (value->kind == MSGPACK_EXT && value->type >= 1 && value->type <= 3) {
        m->array_bytes += value->n;
        return CKPT_OK;
    }
    if (value->kind == MSGPACK_EXT && value->type != -1 && !m->has_unknown_extension) {
        m->has_unknown_extension = true;
        CKPT_TRY(SCAN_FOUND(m->in, SCAN_FORMAT_NOT_SCANNED, value->data - 1,
                            "an extension of {type %" PRId8 "}, which only its program can read",
                            value->type));
    }
    bool has_bytes = value->kind == MSGPACK_EXT || value->kind == MSGPACK_TEXT ||
                     value->kind == MSGPACK_BYTES;
    return has_bytes ? scan_msgpack_value(m, value, err) : CKPT_OK;
}

static bool begins_with_map(struct scanner *scanner, source *src)
{
    unsigned char b[6] = {0};
    size_t n = src->size < sizeof b ? (size_t)src->size : sizeof b;
    if (n < 3 || !scan_read(scanner->scan, src, 0, b, n))
        return false;
    /* fixmap, map 16 or map 32; then fixstr, str 8, str 16 or str 32 */
    size_t key_at = b[0] == 0xde ? 3 : b[0] == 0xdf ? 5 : 1;
    bool is_map = (b[0] > 0x80 && b[0] <= 0x8f) || b[0] == 0xde || b[0] == 0xdf;
    return is_map && ((b[key_at] & 0xe0) == 0xa0 || (b[key_at] >= 0xd9 && b[key_at] <= 0xdb));
}

ckpt_status scan_msgpack(const struct scanned *in, bool *is_msgpack, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct msgpack_visit m = {.in = in};
    ckpt_error why;
    *is_msgpack = false;
    if (!begins_with_map(x, in->src))
        return CKPT_OK;
    ckpt_status st = msgpack_read(in->src, NULL, NULL, &why);
    *is_msgpack = st == CKPT_OK;
    if (st != CKPT_OK) {
        if (st != CKPT_EFORMAT)
            *err = why;
        return st == CKPT_EFORMAT ? CKPT_OK : st;
    }
    x->format = x->depth ? x->format : "msgpack";
    st = msgpack_read(in->src, visit_value, &m, err);
    /* EFORMAT: the file changed after the first pass, which had no error. ckpt_scan reports the change. */
    if (st != CKPT_OK && st != CKPT_EFORMAT)
        return st;
    scan_count_bytes(in->src, &x->scan->result->in_tensors, m.array_bytes);
    if (!m.has_unknown_extension)
        *known_bytes += in->src->size; /* the sum is at most the size of the file */
    return CKPT_OK;
}
