/* pickle_emit.h - writes the scalars, strings, names and memo opcodes of a pickle. Private to pickle_emit.c
 * and pickle_write.c.
 *
 * A PUT is needed only if a GET follows, which is not known when the value is written. Therefore a value that
 * may be used again is recorded as a "put site". A GET gives the site of its value a memo index. At the end,
 * a PUT is inserted after the value of each site that has an index. */
#pragma once

#include "codec/pickle_write.h"

/* A value in the output after which a PUT may be inserted. Only the low 31 bits of its offset are kept, to
 * save memory: there is a site for each text. The offsets of the sites never decrease. */
struct put_site {
    uint32_t low31 : 31;
    uint32_t is_end : 1; /* the offset is the end of the value; else the opcode of a text or global */
    uint32_t memo;       /* index in the memo, if a GET uses it; else MAP_NONE */
};

/* The put sites of texts or globals, by their content. */
struct put_contents {
    map *sites;
    /* recent - by length modulo 16: a site that was found by its content; MAP_NONE: none. Most tensors repeat
     * a few texts and globals, and comparing with one costs much less than hashing. */
    uint32_t recent[16];
};

struct pickle_writer {
    buf *out;
    const struct pickle_hooks *hooks;
    struct put_site *put_sites;
    size_t nput_sites, cap_put_sites;
    size_t *first_sites; /* [k]: index of the first site at offset (k + 1) * 2^31 or beyond */
    size_t nfirst_sites; /* number of first_sites */
    uint32_t nmemo;
    map *nodes;                       /* node -> put site */
    struct put_contents texts, bytes; /* of STR, of STR8 */
    struct put_contents globals;      /* the content: module, newline, name, newline */
    map *begin_counts; /* node that contains itself -> how often it was begun before it was complete */
    buf name;          /* the global being written, as a key of GLOBALS */
    struct pickle_frame *frames; /* pickle_write.c */
    size_t nframes, cap_frames;
    bool widens_next_int; /* write the next int below 256 as BININT2 */
    uint32_t nsets;       /* number of frames of sets that may contain themselves */
    ckpt_status status;   /* first failure */
    ckpt_error *err;
};

bool pickle_writer_init(pickle_writer *writer);
void pickle_writer_free(pickle_writer *writer);
/* pickle_writer_fail_memory - sets the status to CKPT_ENOMEM, unless it is an error already. */
void pickle_writer_fail_memory(pickle_writer *writer);
void add_put_site_after(pickle_writer *writer, const ckpt_value *value);
/* emit_get_if_known - if VALUE was written before, writes a GET for it and returns true. */
bool emit_get_if_known(pickle_writer *writer, const ckpt_value *value);
/* emit_text - writes TEXT with OP (BINUNICODE or BINSTRING), or a GET if an equal text was written before. */
void emit_text(pickle_writer *writer, enum pickle_opcode op, ckpt_str text);
void emit_float(pickle_writer *writer, double number);
void emit_bigint(pickle_writer *writer, ckpt_str twos_complement);
/* emit_span - writes the text SPAN, which is copied from the input file. */
void emit_span(pickle_writer *writer, enum pickle_opcode op, const struct value_span *span);
/* emit_bytes - writes BYTES or BYTEARRAY VALUE as Python 3 does in protocol 2. */
void emit_bytes(pickle_writer *writer, const ckpt_value *value);
/* pickle_writer_finish - writes STOP, then inserts a PUT at each site that a GET uses. */
void pickle_writer_finish(pickle_writer *writer);
