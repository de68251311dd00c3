/* prefix.h - prefixes that wrappers of modules add to parameter names. */
#pragma once

#include "base/arena.h"

/* The name that a wrapper gives to the module inside it, with its dot. */
struct wrapper_name {
    ckpt_str prefix;
    bool certain; /* no model has a submodule of this name, so it may be removed anywhere in a key */
};

enum { WRAPPER_NAMES = 7 };
extern const struct wrapper_name wrapper_names[WRAPPER_NAMES];
/* find_wrapper - returns the wrapper name that is PREFIX, or NULL. */
const struct wrapper_name *find_wrapper(ckpt_str prefix);
/* contains_wrapper - returns true if a component of TEXT is a wrapper name; CERTAIN: one that is certain. */
bool contains_wrapper(ckpt_str text, bool certain);

/* prefix_strip - returns TEXT without PREFIX at its start or, if ANYWHERE, at the start of each component:
 * once or, if PREFIX ends in a dot, until none is left. Returns TEXT if there is none. .ptr NULL: out of
 * memory. */
ckpt_str prefix_strip(arena *a, ckpt_str text, ckpt_str prefix, bool anywhere);
/* prefix_strip_certain - returns TEXT without the certain wrapper names. */
ckpt_str prefix_strip_certain(arena *a, ckpt_str text);
/* contains_prefix - returns true if PREFIX is in TEXT at the start of a component. */
bool contains_prefix(ckpt_str text, ckpt_str prefix);

#define PREFIXES_MAX 8

/* What names begin with: up to PREFIXES_MAX different components, and how often each of them occurs. */
struct prefixes {
    ckpt_str component[PREFIXES_MAX]; /* with the dot */
    uint64_t count[PREFIXES_MAX];
    size_t n;
};

/* prefixes_add - counts the first component of NAME, if NAME has a dot; NAME must outlive SEEN. */
void prefixes_add(struct prefixes *seen, ckpt_str name);
/* prefixes_text - writes the most frequent components to OUT (CAP bytes) as `"module.", "ema."`, or "". */
const char *prefixes_text(const struct prefixes *seen, char *out, size_t cap);
