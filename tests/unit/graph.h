/* graph.h - value graphs as text, and read from bytes in a test. */
#ifndef GRAPH_H
#define GRAPH_H

#include "base/buf.h"
#include "codec/pickle_read.h"

/* One pickle that was read from memory that ends at an unmapped page. */
struct graph {
    arena *a;
    source *src;
    unsigned char *bytes;
    size_t size;
    ckpt_value *root;
    uint64_t next;
    struct pickle_facts facts;
    ckpt_status status;
    ckpt_error err;
};

/* graph_read, graph_read_limited - never fail themselves; see status. MAX bounds the arena, FAIL_AT is
 * the allocation that fails (0: none). Free with graph_free. */
void graph_read_limited(struct graph *g, const void *bytes, size_t size, uint64_t max, uint64_t fail_at);
void graph_read(struct graph *g, const void *bytes, size_t size);
void graph_free(struct graph *g);
/* graph_corpus - EACH gets every pickle in torch's archives of the corpus, by the name of its archive. */
void graph_corpus(void (*each)(const char *name, ckpt_str bytes));
/* graph_text - V as text in a static buffer:
 *   'N' 'T' 'F' 12 1.5 0x.. (big, hexadecimal bytes) 'str' s'py2' b'bytes' a'bytearray'
 *   [list] (tuple) {k:v} set(..) frozenset(..) <module name> @pid
 *   'R' 'N' 'X' 'O' 'I': how a call was made, then callable, arguments, +[items] +{pairs} !state
 *   ~type:bytes:count for what was left in the file, ^ for a node inside itself */
const char *graph_text(const ckpt_value *v);

#endif
