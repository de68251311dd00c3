/* graph.h - reads pickles from memory, and writes value graphs as text. */
#ifndef GRAPH_H
#define GRAPH_H

#include "base/buf.h"
#include "codec/pickle_read.h"

/* A pickle that was read. Its bytes end at an unmapped page, so that reading beyond them crashes. */
struct graph {
    arena *a;
    source *src;
    unsigned char *bytes;
    size_t size;
    ckpt_value *root;
    uint64_t next; /* offset after the STOP of the pickle */
    struct pickle_facts facts;
    ckpt_status status;
    ckpt_error err;
};

/* graph_read, graph_read_limited - read a pickle into G, which the caller frees with graph_free. G.status is
 * the result. The arena holds at most MAX bytes. FAIL_AT is the number of the allocation that fails (0:
 * none). */
void graph_read_limited(struct graph *g, const void *bytes, size_t size, uint64_t max, uint64_t fail_at);
void graph_read(struct graph *g, const void *bytes, size_t size);
void graph_free(struct graph *g);
/* for_each_corpus_pickle - calls ON_PICKLE for each .pkl member of each zip archive in corpus/torch, with the
 * path of the archive and the bytes of the member. */
void for_each_corpus_pickle(void (*on_pickle)(const char *path, ckpt_str bytes));
/* graph_text - returns V as text in a static buffer, without the quotation marks (") that are used here:
 *   "N" (None) "T" (True) "F" (False) 12 1.5 0x.. (an integer of more than 64 bits)
 *   'str' s'a str of Python 2' b'bytes' a'bytearray'
 *   [list] (tuple) {k:v} set(..) frozenset(..) <module name> @pid
 *   a call: "R" (REDUCE), "N" (NEWOBJ), "X" (NEWOBJ_EX), "O" (OBJ) or "I" (INST);
 *     then the callable, the arguments, and what was added: +[items] +{pairs} !state
 *   ~type:bytes:count for text or bytes that were not loaded, ^ for a node inside itself */
const char *graph_text(const ckpt_value *v);

#endif
