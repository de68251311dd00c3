/* walk.h - every container that a file's graph reaches, each once, and which
 * of them are state dicts. Prefix work, roots and `info` stand on it. */
#ifndef OP_WALK_H
#define OP_WALK_H

#include "core/file.h"

#define NO_PLACE UINT32_MAX

/* One container. Parents come before their children, and the children of one
 * container stand together. */
struct place {
    const ckpt_value *node; /* replacement applied */
    uint32_t parent;
    ckpt_path_elem elem; /* the step from the parent to here */
    uint32_t first, nchildren;
    uint32_t entries; /* of a mapping */
    uint32_t tensors; /* entries that are tensors under a text key */
    uint32_t dotted;  /* of those, under a key with a dot, as parameters of modules have */
    uint32_t arrays;  /* of those, with at least one dimension */
    uint32_t direct;  /* entries or items that are tensors, under whatever key */
    uint64_t below;   /* tensors here and below, but for those inside optimizers and extra states */
    bool mapping;
    bool metadata;   /* carries _metadata, as torch.nn.Module.state_dict makes it */
    bool state_dict; /* text keys, at least half of them tensors; or carries _metadata */
    bool optimizer;  /* {state: …, param_groups: […]} */
    bool in_optimizer;
    bool extra_state; /* what a module keeps under `_extra_state`, or below that */
};

struct walk {
    const ckpt_file *file;
    arena *a;
    struct place *places;
    size_t n, cap;
    map *seen;
};

/* Pair or item INDEX of NODE, which has OF. */
struct edit_at {
    const ckpt_value *node;
    uint32_t index, of;
};

/* One entry of a mapping. */
struct entry {
    const ckpt_value *key, *val;
    struct edit_at name;  /* where an edit of the key belongs */
    struct edit_at whole; /* where one that leaves the entry out does */
};

/* walk_graph - walks what ROOT reaches. Key texts that are not in the graph
 * are made in A. Call walk_free() whatever it returns. */
ckpt_status walk_graph(struct walk *w, const ckpt_file *file, const ckpt_value *root, arena *a,
                       ckpt_error *err);
void walk_free(struct walk *w);
/* walk_path - the *N path elements from the root to place I, in the arena; NULL: no memory. */
ckpt_path_elem *walk_path(const struct walk *w, uint32_t i, uint32_t *n);
ckpt_str walk_name(const struct walk *w, uint32_t i); /* joined; .ptr NULL: no memory */

/* walk_place - the place of V, or of what replaces it; NO_PLACE: it is no container. */
uint32_t walk_place(const struct walk *w, const ckpt_value *v);
/* walk_is_tensor - is V, or what replaces it, a tensor? */
bool walk_is_tensor(const struct walk *w, const ckpt_value *v);

/* mapping_count, mapping_entry - entries of a dict or of what behaves like
 * one, an OrderedDict as Python 2 pickles it (a list of pairs) included. */
uint32_t mapping_count(const ckpt_value *v);
bool mapping_entry(const ckpt_value *v, uint32_t i, struct entry *e);
const ckpt_value *mapping_get(const ckpt_value *v, const char *name); /* last of that text key, or NULL */
/* mapping_metadata - the _metadata of a state dict, or NULL. */
const ckpt_value *mapping_metadata(const ckpt_value *v);

#endif
