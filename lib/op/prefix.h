/* prefix.h - the names that wrappers put in front of parameters. */
#ifndef OP_PREFIX_H
#define OP_PREFIX_H

#include "base/arena.h"

/* A name that a wrapper gives to the module inside it, with its dot. */
struct wrapper_name {
    const char *prefix;
    bool certain; /* no model calls a submodule so: removed wherever it stands */
};

extern const struct wrapper_name wrapper_names[];
extern const size_t nwrapper_names;

/* prefix_strip - S without PREFIX at its start, or (ANYWHERE) at every
 * component boundary until none is left; S itself when there is none. .ptr
 * NULL: no memory. */
ckpt_str prefix_strip(arena *a, ckpt_str s, ckpt_str prefix, bool anywhere);
/* prefix_strip_certain - S without the certain wrapper names. */
ckpt_str prefix_strip_certain(arena *a, ckpt_str s);
/* prefix_inside - does PREFIX stand at a component boundary of S? */
bool prefix_inside(ckpt_str s, ckpt_str prefix);

#define PREFIXES_SEEN 8

/* The first components of names, those seen first. */
struct prefixes {
    ckpt_str at[PREFIXES_SEEN]; /* with the dot */
    uint64_t count[PREFIXES_SEEN];
    size_t n;
};

/* prefixes_add - NAME, which outlives SEEN; one without a dot has no prefix. */
void prefixes_add(struct prefixes *seen, ckpt_str name);
/* prefixes_text - `"module.", "ema."`, the most frequent first, into OUT of CAP bytes; empty: none. */
const char *prefixes_text(const struct prefixes *seen, char *out, size_t cap);

#endif
