/* pickle_write.h - writes a value graph as a pickle of protocol 2 (3 if names need it), with the opcodes that
 * torch's weights_only unpickler accepts. Shared nodes stay shared, by the memo. */
#pragma once

#include "base/buf.h"
#include "codec/pickle_ops.h"
#include "core/value.h"

typedef struct pickle_writer pickle_writer;

/* Callbacks into the owner of the graph while it is written. Any may be NULL. */
struct pickle_hooks {
    void *user;
    /* replace - returns the node to write instead of V (usually V itself). */
    const ckpt_value *(*replace)(void *user, const ckpt_value *v);
    /* keep_entry - returns false to leave out entry I of container V; may set *TEXT, whose .ptr is NULL
     * before, to replace the key of a pair, or the item of a sequence. *TEXT must live until the pickle is
     * written. Entries of a CALL are its pairs, if it has any, else its items. */
    bool (*keep_entry)(void *user, const ckpt_value *v, uint32_t i, ckpt_str *text);
    /* has_literal_names - write protocol 3, in which names are not translated: the graph has a name
     * (VALUE_PYTHON3_NAME) that loaders of protocol 2 would translate. The opcodes are the same. */
    bool has_literal_names;
    /* write_leaf - writes V, a PERSID or TENSOR, by the calls below. */
    ckpt_status (*write_leaf)(void *user, pickle_writer *w, const ckpt_value *v, ckpt_error *err);
};

/* pickle_write - appends PROTO 2 (or 3) .. STOP for ROOT to OUT. CKPT_ELOSSY: the protocol cannot hold a
 * value of the graph. */
ckpt_status pickle_write(const ckpt_value *root, const struct pickle_hooks *hooks, buf *out, ckpt_error *err);

/* pickle_write_filled - writes ROOT to the empty OUT in exactly SIZE bytes: PUTs that no GET uses come before
 * STOP. If that is impossible, sets *FITS to false, and OUT has a different size. */
ckpt_status pickle_write_filled(const ckpt_value *root, const struct pickle_hooks *hooks, size_t size,
                                buf *out, bool *fits, ckpt_error *err);

/* For write_leaf: each appends one complete value, or one opcode. Texts and names are memoized by content. */
void pickle_put_op(pickle_writer *writer, enum pickle_opcode op);
void pickle_put_int(pickle_writer *writer, int64_t index);
void pickle_put_uint(pickle_writer *writer, uint64_t number);
void pickle_put_bool(pickle_writer *writer, bool flag);
void pickle_put_text(pickle_writer *writer, ckpt_str text);
void pickle_put_global(pickle_writer *writer, ckpt_str module, ckpt_str name); /* names of Python 2 */
void pickle_put_name(pickle_writer *writer, const ckpt_value *global);
