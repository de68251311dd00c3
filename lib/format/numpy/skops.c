/* skops.c - names the arrays of a file of skops, a zip archive in which the member of an array is called by a
 * number. The JSON text schema.json describes the object that was saved, in nested nodes:
 *
 *   {"__loader__": "NdArrayNode", "file": "1398.npy", …}     an array, or in other loaders a member
 *   {"__loader__": "DictNode", "content": {KEY: NODE, …}, …}
 *   {"__loader__": "ListNode", "content": [NODE, …], …}      tuples and sets, too
 *   {"__loader__": "ObjectNode", "content": NODE, …}         NODE has the attributes
 *
 * The name of an array is its path of keys, attributes and indexes, such as steps.1.1.coef_. An array in
 * several places has a node with the same "file" and "__id__" in each; of nodes with other ids, with none or
 * with 0, skops makes other objects, whatever their files. The root also has "_skops_version". In salvage of
 * a file whose schema is damaged, the arrays are named for their members.
 * Source: skops/io/_general.py, _numpy.py, _audit.py (get_tree). */
#include "format/numpy/skops.h"

#include <inttypes.h>
#include <stdio.h>

#include "codec/json_scan.h"
#include "core/check.h"

#define VERSION "_skops_version"

/* A node that is still to be visited. */
struct pending {
    const ckpt_value *node;
    ckpt_str path;
    struct pending *next;
};

static ckpt_status push(struct skops *skops, const ckpt_value *node, ckpt_str path, struct pending **stack)
{
    struct pending *p = arena_array(skops->a, 1, sizeof *p);
    if (!p)
        return CKPT_ENOMEM;
    *p = (struct pending){node, path, *stack};
    *stack = p;
    return CKPT_OK;
}

/* push_member - pushes NODE, which is KEY of what has PATH. */
static ckpt_status push_member(struct skops *skops, const ckpt_value *node, ckpt_str path, ckpt_str key,
                               struct pending **stack)
{
    ckpt_str name = path.len ? ARENA_CONCAT(skops->a, path, STR_LIT("."), key) : key;
    return name.ptr ? push(skops, node, name, stack) : CKPT_ENOMEM;
}

/* push_content - pushes the nodes in CONTENT, the content of a node that has PATH, the last one first. */
static ckpt_status push_content(struct skops *skops, const ckpt_value *content, ckpt_str path,
                                struct pending **stack)
{
    ckpt_str key;
    if (value_get(content, "__loader__"))
        return push(skops, content, path, stack);
    for (uint32_t i = content->type == CKPT_V_DICT ? content->u.dict.n : 0; COUNT_DOWN(i);)
        if (value_text(content->u.dict.pairs[i].key, &key))
            CKPT_TRY(push_member(skops, content->u.dict.pairs[i].val, path, key, stack));
    for (uint32_t i = content->type == CKPT_V_LIST ? content->u.seq.n : 0; COUNT_DOWN(i);) {
        char number[16];
        (void)snprintf(number, sizeof number, "%" PRIu32, i);
        key = arena_str(skops->a, str_c(number));
        CKPT_TRY(key.ptr ? push_member(skops, content->u.seq.items[i], path, key, stack) : CKPT_ENOMEM);
    }
    return CKPT_OK;
}

/* get_id - returns the "__id__" of NODE, or 0 if skops does not look for its object by it. */
static int64_t get_id(const ckpt_value *node)
{
    int64_t id;
    return value_integer(value_get(node, "__id__"), &id) ? id : 0;
}

/* add_name - makes NAME, which NODE has, one of the array in FILE, unless another array has it. */
static ckpt_status add_name(struct skops *skops, const ckpt_value *node, ckpt_str file, ckpt_str name)
{
    uint32_t old = MAP_NONE, first = map_get(skops->files, file), index = (uint32_t)skops->nnames;
    int64_t id = get_id(node);
    if (!name.len)
        return CKPT_OK;
    if (!map_put(skops->used, name, 0, &old))
        return CKPT_ENOMEM;
    if (old != MAP_NONE)
        return CKPT_OK;
    bool is_first_object = first == MAP_NONE || (id && id == skops->names[first].id);
    const struct skops_name added = {name, id, is_first_object, MAP_NONE, index};
    if (!arena_push(skops->a, &skops->names, &skops->nnames, &skops->cap, &added, sizeof added))
        return CKPT_ENOMEM;
    if (first == MAP_NONE)
        return map_put(skops->files, file, index, NULL) ? CKPT_OK : CKPT_ENOMEM;
    skops->names[skops->names[first].last].next = index;
    skops->names[first].last = index;
    return CKPT_OK;
}

/* add_names - adds the names of all arrays below ROOT. */
static ckpt_status add_names(struct skops *skops, const ckpt_value *root)
{
    struct pending *stack = NULL;
    ckpt_str file;
    CKPT_TRY(push(skops, root, str_of("", 0), &stack));
    while (stack) {
        struct pending p = *stack;
        const ckpt_value *content = value_get(p.node, "content");
        stack = stack->next;
        if (value_text(value_get(p.node, "file"), &file))
            CKPT_TRY(add_name(skops, p.node, file, p.path));
        if (content)
            CKPT_TRY(push_content(skops, content, p.path, &stack));
    }
    return CKPT_OK;
}

ckpt_status skops_read(struct skops *skops, ckpt_file *f, zip *archive, ckpt_error *err)
{
    ckpt_value *root = NULL;
    ckpt_str text;
    int64_t i = zip_find(archive, STR_LIT(SKOPS_SCHEMA));
    *skops = (struct skops){.a = f->a};
    if (i < 0 || archive->entries[i].usize > f->limits.max_header)
        return CKPT_OK;
    file_raise_budget(f, archive->entries[i].usize);
    ckpt_status st = zip_load_member(archive, (size_t)i, f->limits.max_header, &text, err);
    if (st == CKPT_OK && str_find(text, STR_LIT(VERSION), 0) == SIZE_MAX)
        return CKPT_OK;
    CKPT_THEN(st, json_read_value(text, 0, f->a, &root, err));
    if (st != CKPT_OK) { /* without it, the names would be others than before the damage */
        error_add_position(err, archive->entries[i].header_offset, STR_LIT(SKOPS_SCHEMA));
        return file_report_lost(f, st, STR_LIT(SKOPS_SCHEMA), err);
    }
    if (!value_get(root, VERSION))
        return CKPT_OK;
    skops->files = map_new(archive->n);
    skops->used = map_new(archive->n);
    st = skops->files && skops->used ? add_names(skops, root) : CKPT_ENOMEM;
    skops->is_skops = st == CKPT_OK;
    return st == CKPT_OK ? CKPT_OK : fail_memory(err);
}

uint32_t skops_find_name(const struct skops *skops, ckpt_str file)
{
    return skops->is_skops ? map_get(skops->files, file) : MAP_NONE;
}

void skops_free(struct skops *skops)
{
    map_free(skops->files);
    map_free(skops->used);
}
