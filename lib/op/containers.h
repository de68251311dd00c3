/* containers.h - lists the containers in a file's graph, each once, and finds those that are state dicts or
 * optimizers: for `ckpt info`, --root, strip, add and rename. */
#pragma once

#include "core/file.h"

#define NO_CONTAINER UINT32_MAX

/* One container. Parents come before their children, and the children of one container follow each other. */
struct container {
    const ckpt_value *node;     /* after file_replacement_of() */
    uint32_t parent;            /* NO_CONTAINER: it is the root */
    ckpt_path_elem elem;        /* the key or index under which PARENT has it */
    uint32_t first, nchildren;  /* its children are list[first .. first + nchildren) */
    uint32_t entries;           /* number of entries; 0 unless it is a mapping */
    uint32_t text_key_tensors;  /* entries that are tensors under a text key */
    uint32_t dotted_tensors;    /* those of text_key_tensors with a dot in their key: "fc.weight" */
    uint32_t tensors_with_dims; /* those of text_key_tensors with at least one dimension */
    uint32_t tensor_entries;    /* entries or items that are tensors, under any key */
    uint64_t tensors_below;     /* tensors in it and below, except inside optimizers and extra states */
    bool is_mapping;
    bool has_metadata;  /* has _metadata, as torch.nn.Module.state_dict makes it */
    bool is_state_dict; /* at least half of the entries are tensors with text keys; or has _metadata */
    bool is_optimizer;  /* {state: …, param_groups: […]} */
    bool in_optimizer;  /* below an optimizer, or at or below a name such as "optimizer" */
    bool extra_state;   /* is a module's `_extra_state`, or below one */
};

struct containers {
    const ckpt_file *file;
    arena *a;
    struct container *list;
    size_t n, cap;
    map *seen; /* node -> its container */
};

/* What an edit applies to: pair or item INDEX of NODE, which has COUNT of them. */
struct edit_target {
    const ckpt_value *node;
    uint32_t index, count;
};

/* One entry of a mapping. */
struct entry {
    const ckpt_value *key, *val;
    struct edit_target key_edit;   /* to rename the key */
    struct edit_target entry_edit; /* to leave the entry out */
};

/* containers_find - lists the containers at and below ROOT in *TREE. Texts of keys that are neither text nor
 * int are made in A. The caller calls containers_free(), also after an error. */
ckpt_status containers_find(struct containers *tree, const ckpt_file *file, const ckpt_value *root, arena *a,
                            ckpt_error *err);
void containers_free(struct containers *tree);
/* container_path - returns the *COUNT path elements from the root to container INDEX; NULL: out of memory. */
ckpt_path_elem *container_path(const struct containers *tree, uint32_t index, uint32_t *count);
ckpt_str container_name(const struct containers *tree, uint32_t index); /* joined; .ptr NULL: out of memory */

/* container_of_node - returns the index of VALUE, or of its replacement; NO_CONTAINER: VALUE is not a
 * container. */
uint32_t container_of_node(const struct containers *tree, const ckpt_value *value);
/* is_tensor_node - returns true if VALUE, or its replacement, is a tensor. */
bool is_tensor_node(const struct containers *tree, const ckpt_value *value);

/* The entries of a mapping: pairs of NODE or, if there is a LIST, its items. */
struct entries {
    const ckpt_value *node, *list;
    const value_pair *pairs;
    uint32_t n;
};

/* mapping_entries - returns the entries of a dict or of an object that behaves like one, including an
 * OrderedDict as Python 2 pickles it (a list of pairs). */
struct entries mapping_entries(const ckpt_value *value);
/* list_entry - does entries_get for a list. */
bool list_entry(const ckpt_value *list, uint32_t index, struct entry *entry);
/* entries_get - sets *ENTRY to entry INDEX; false: there is none. */
static inline bool entries_get(const struct entries *entries, uint32_t index, struct entry *entry)
{
    const ckpt_value *node = entries->node;
    if (entries->list)
        return list_entry(entries->list, index, entry);
    if (index < entries->n)
        *entry = (struct entry){.key = entries->pairs[index].key,
                                .val = entries->pairs[index].val,
                                .key_edit = {node, index, entries->n},
                                .entry_edit = {node, index, entries->n}};
    return index < entries->n;
}
uint32_t mapping_count(const ckpt_value *value);
bool mapping_entry(const ckpt_value *value, uint32_t index, struct entry *entry);
/* mapping_get - returns the last value with the text key NAME, or NULL. */
const ckpt_value *mapping_get(const ckpt_value *value, const char *name);
/* mapping_metadata - returns the _metadata of a state dict, or NULL. */
const ckpt_value *mapping_metadata(const ckpt_value *value);
