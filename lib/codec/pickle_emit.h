/* pickle_emit.h - values that need no others, and the memo, of a pickle that is
 * being written. Private to pickle_emit.c and pickle_write.c.
 *
 * A PUT is worth its bytes only if a GET follows, which nobody knows when the
 * value goes out. So the places where one might stand are written down, a GET
 * asks for the PUT at its place, and all PUTs are inserted at the end. */
#ifndef CODEC_PICKLE_EMIT_H
#define CODEC_PICKLE_EMIT_H

#include "base/map.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_write.h"

/* Where a PUT may go, in few bytes, as there is one for each text: low 31 bits of an
 * offset in the output, and whether that is the end of the value or the opcode of a text
 * or global, which tells its content and its end. Offsets only grow. */
struct emit_place {
    uint32_t low : 31;
    uint32_t end : 1;
};

struct pickle_writer {
    buf *out;
    const struct pickle_hooks *hooks;
    struct emit_place *places;
    size_t nplaces, cap_places;
    size_t *wraps; /* [k]: the first place at k + 1 times 2^31 or beyond */
    size_t nwraps;
    uint32_t nmemo;
    map *memo;            /* place that is wanted -> index */
    map *nodes;           /* node -> place */
    map *texts, *bytes;   /* content of STR, of STR8 -> place */
    map *globals;         /* module, newline, name -> place */
    map *entered;         /* node that was begun and was not complete -> how often */
    buf name;             /* scratch */
    struct frame *frames; /* pickle_write.c */
    size_t nframes, cap_frames;
    bool widen;         /* the next int of one byte goes out in two */
    uint32_t nsets;     /* frames of sets that may contain themselves */
    ckpt_status status; /* first failure */
    ckpt_error *err;
};

bool emit_init(pickle_writer *w);
void emit_free(pickle_writer *w);
/* emit_memory - latches that memory ran out. */
void emit_memory(pickle_writer *w);
void emit_op(pickle_writer *w, enum pickle_opcode op);
/* emit_place - the value that is now on top may be wanted again: a text or global whose
 * opcode is at AT, any other that is complete AT the END. */
uint32_t emit_place(pickle_writer *w, size_t at, bool end);
void emit_node_place(pickle_writer *w, const ckpt_value *v);
/* emit_known - was V written? Then it is fetched from the memo. */
bool emit_known(pickle_writer *w, const ckpt_value *v);
/* emit_text - OP is BINUNICODE or BINSTRING. */
void emit_text(pickle_writer *w, enum pickle_opcode op, ckpt_str s);
/* emit_global - the name V. */
void emit_global(pickle_writer *w, const ckpt_value *v);
void emit_float(pickle_writer *w, double f);
void emit_bigint(pickle_writer *w, ckpt_str twos_complement);
/* emit_span - text that lies in the file. */
void emit_span(pickle_writer *w, enum pickle_opcode op, const struct value_span *s);
/* emit_bytes - the bytes of BYTES or BYTEARRAY V as Python 3 has them in protocol 2. */
void emit_bytes(pickle_writer *w, const ckpt_value *v);
/* emit_finish - STOP, and every PUT that is wanted to its place. */
void emit_finish(pickle_writer *w);

#endif
