/*
 * sentencepiece.c - scans the models of sentencepiece, the tokenizer.model next to many weights. They are
 * protobuf (sentencepiece_model.proto, ModelProto), of which a reader makes tables, and hold nothing that
 * runs:
 *   1  a piece: 1 text, 2 score (fixed32), 3 type (a varint of 1 to 6)
 *   2 to 5  trainer, normalizer, self test and denormalizer, each a message
 * Protobuf has no magic number, so all fields are read: pieces first, as sentencepiece writes them.
 */
#include "base/utf8.h"
#include "codec/protobuf.h"
#include "scan/scan.h"

enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3, PIECE_TYPES = 6 };

/* is_piece - returns true if the NBYTES bytes at BYTES are a piece. */
static bool is_piece(const unsigned char *bytes, size_t nbytes)
{
    cursor c = cursor_of(bytes, nbytes, 0);
    struct proto_field f;
    bool has_text = false, ok = true;
    while (ok && proto_next(&c, &f)) {
        bool is_text = proto_is(&f, PIECE_TEXT, PROTO_BYTES);
        ok = (is_text && utf8_check(proto_text(&f), false, NULL)) ||
             proto_is(&f, PIECE_SCORE, PROTO_FIXED32) ||
             (proto_is(&f, PIECE_TYPE, PROTO_VARINT) && f.value >= 1 && f.value <= PIECE_TYPES);
        has_text |= is_text;
    }
    return ok && !c.bad && has_text;
}

/* read_fields - returns true if IN reads a model to its end. */
static bool read_fields(reader *in)
{
    struct proto_field f;
    uint64_t last = MODEL_PIECES, npieces = 0;
    while (reader_left(in)) {
        if (proto_read(in, &f) != CKPT_OK || f.wire != PROTO_BYTES || f.number < last ||
            f.number > MODEL_DENORMALIZER || f.value > reader_left(in))
            return false;
        last = f.number;
        const unsigned char *b = NULL;
        if (f.number == MODEL_PIECES && (f.value > READER_WINDOW || !(b = reader_take(in, (size_t)f.value)) ||
                                         !is_piece(b, (size_t)f.value)))
            return false;
        npieces += b != NULL;
        if (!b && !reader_skip(in, f.value))
            return false;
    }
    return !in->status && npieces && last >= MODEL_TRAINER;
}

ckpt_status scan_sentencepiece(struct scanner *scanner, source *src, bool *found, uint64_t *known_bytes,
                               ckpt_error *err)
{
    reader r;
    ckpt_error why = {.status = CKPT_OK};
    CKPT_TRY(reader_init(&r, src, 0, src->size, err));
    r.err = &why;
    *found = read_fields(&r);
    ckpt_status st = r.status;
    reader_free(&r);
    if (scan_note_system_failure(scanner->scan, st, &why))
        return fail(err, st, why.offset, "%s", why.what);
    if (!*found)
        return CKPT_OK;
    scanner->format = scanner->depth || scanner->format ? scanner->format : "sentencepiece";
    *known_bytes += src->size; /* the caller's sum is at most the size of its source */
    return CKPT_OK;
}
