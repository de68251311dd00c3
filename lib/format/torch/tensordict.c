/*
 * tensordict.c - reads what TensorDict.consolidate(filename) writes.
 *
 *   the bytes of all tensors, row-major and little-endian
 *   n  JSON: a node
 *   8  n, little-endian
 *
 *   node     {"cls", "leaves": {NAME: LEAF}, "non_tensors": {NAME: [value, …]}, "cls_metadata": {…},
 *             NAME: node, …}
 *   LEAF     ["torch.float32", shape, begin, end, padding], with begin and end in the file; a sixth item if
 *            it is a component of a jagged tensor
 *
 * Nodes become dicts. The components of a jagged tensor, <NJT_VALUES>NAME …, are called NAME.values,
 * NAME.offsets and NAME.lengths. What is not a tensor is a value; classes and batch sizes are left out.
 *
 * Refused: a node without one of these, a leaf of another form, bytes after the beginning of the JSON, a name
 * that comes twice.
 *
 * Source: tensordict 0.15 (base.py, _reductions.py).
 */
#include <inttypes.h>

#include "codec/json_scan.h"
#include "format/format.h"
#include "format/kit.h"

#define BEGINNING "{\"cls\": \""
#define TAIL_SIZE 8u
#define MAX_DIMS  64u

/* A node that is being read. */
struct node {
    struct kit k;
    const value_pair *children; /* pairs of the node, of which some are nodes */
    uint32_t nchildren, next;
};

struct tensordict {
    ckpt_file *f;
    ckpt_error *err;
    source *data;      /* the bytes before the JSON */
    struct node *open; /* the outermost first; JSON_DEPTH of them */
    size_t depth;
};

/* ----------------------------------------------------------------------------------- leaves */

/* read_sizes - reads VALUE, a list of numbers, to the shape of TENSOR. */
static ckpt_status read_sizes(struct tensordict *tensordict, const ckpt_value *value, ckpt_tensor *tensor)
{
    uint32_t n = value_count(value);
    uint64_t *shape = n <= MAX_DIMS ? arena_array(tensordict->f->a, n, sizeof *shape) : NULL;
    bool ok = value && value->type == CKPT_V_LIST && n <= MAX_DIMS;
    if (ok && !shape)
        return fail_memory(tensordict->err);
    for (uint32_t i = 0; ok && i < n; i++)
        ok = value_size(value_item(value, i), &shape[i]);
    tensor->ndim = ok ? n : 0;
    tensor->shape = shape;
    return ok ? CKPT_OK
              : fail(tensordict->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                     "a shape that is {not} {=a list of up to %u sizes}", MAX_DIMS);
}

/* read_leaf - sets dtype, shape and place of TENSOR to those of LEAF. */
static ckpt_status read_leaf(struct tensordict *tensordict, const ckpt_value *leaf, struct kit_tensor *tensor)
{
    ckpt_str dtype;
    uint64_t end = 0;
    bool is_list = leaf->type == CKPT_V_LIST && (value_count(leaf) == 5 || value_count(leaf) == 6);
    if (!is_list || !value_text(value_item(leaf, 0), &dtype) ||
        !value_size(value_item(leaf, 2), &tensor->src_offset) || !value_size(value_item(leaf, 3), &end) ||
        end < tensor->src_offset || end > tensordict->data->size)
        return fail(tensordict->err, CKPT_EFORMAT, value_offset(leaf),
                    "{not} {=a list of a dtype, a shape, a range of the first %" PRIu64
                    " bytes, and padding}",
                    tensordict->data->size);
    ckpt_dtype found = dtype_by_name(dtype);
    tensor->t.dtype = (uint16_t)found;
    tensor->src = tensordict->data;
    tensor->nbytes = KIT_AS_NEEDED;
    CKPT_TRY(read_sizes(tensordict, value_item(leaf, 1), &tensor->t));
    if (found == CKPT_DT_NONE)
        return fail(tensordict->err, CKPT_EUNSUPPORTED, value_offset(leaf),
                    "the dtype {\"%.*s\"}; {=those of torch} are read", STR_ARG(dtype));
    uint64_t elements, need;
    if (checked_product(tensor->t.shape, tensor->t.ndim, &elements) && dtype_bytes(found, elements, &need) &&
        need <= end - tensor->src_offset)
        return CKPT_OK;
    return fail(tensordict->err, CKPT_EFORMAT, value_offset(leaf),
                "{%" PRIu64 " bytes} are fewer than {=dtype and shape} take", end - tensor->src_offset);
}

/* make_name - returns the name for the leaf KEY. .ptr NULL: no memory. */
static ckpt_str make_name(const struct tensordict *tensordict, ckpt_str key)
{
    static const struct {
        const char *prefix, *suffix;
    } jagged[] = {{"<NJT_VALUES>", ".values"}, {"<NJT_OFFSETS>", ".offsets"}, {"<NJT_LENGTHS>", ".lengths"}};
    for (size_t i = 0; i < sizeof jagged / sizeof *jagged; i++)
        if (str_starts(key, str_c(jagged[i].prefix)))
            return ARENA_CONCAT(tensordict->f->a, str_skip(key, strlen(jagged[i].prefix)),
                                str_c(jagged[i].suffix));
    return arena_str(tensordict->f->a, key);
}

static ckpt_status add_leaves(struct tensordict *tensordict, struct kit *kit, const ckpt_value *leaves)
{
    uint32_t n = 0;
    const value_pair *pairs = value_pairs(leaves, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key;
        struct kit_tensor t = {.described_at = value_offset(pairs[i].val)};
        CKPT_TRY_ALLOC(value_text(pairs[i].key, &key) && (t.name = make_name(tensordict, key)).ptr,
                       tensordict->err);
        ckpt_status st = read_leaf(tensordict, pairs[i].val, &t);
        CKPT_TRY(st == CKPT_OK ? kit_add_tensor(kit, &t) : kit_add_faulty(kit, &t, st));
    }
    return CKPT_OK;
}

/* add_values - adds the values of NON_TENSORS, each the first item of a list. */
static ckpt_status add_values(struct tensordict *tensordict, struct kit *kit, const ckpt_value *non_tensors)
{
    uint32_t n = 0;
    const value_pair *pairs = value_pairs(non_tensors, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key;
        ckpt_value *value = value_item(pairs[i].val, 0);
        if (!value_text(pairs[i].key, &key) || !value)
            return fail(tensordict->err, CKPT_EFORMAT, value_offset(pairs[i].val),
                        "{no} {=list with a value}");
        CKPT_TRY_ALLOC((key = arena_str(tensordict->f->a, key)).ptr, tensordict->err);
        CKPT_TRY(kit_add_value(kit, key, value));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------------ nodes */

/* check_node - refuses VALUE unless it has the three mappings that tensordict needs of each node. */
static ckpt_status check_node(struct tensordict *tensordict, const ckpt_value *value)
{
    static const char *const keys[] = {"leaves", "non_tensors", "cls_metadata"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const ckpt_value *mapping = value_get(value, keys[i]);
        if (!mapping || mapping->type != CKPT_V_DICT)
            return fail(tensordict->err, CKPT_EFORMAT, value_offset(value),
                        "a node {without} {=a mapping \"%s\"}", keys[i]);
    }
    return CKPT_OK;
}

/* open_node - begins to read VALUE, whose entries go to the kit of the innermost node, which was begun. */
static ckpt_status open_node(struct tensordict *tensordict, const ckpt_value *value)
{
    struct node *node = &tensordict->open[tensordict->depth - 1];
    CKPT_TRY(check_node(tensordict, value));
    node->children = value_pairs(value, &node->nchildren);
    CKPT_TRY(add_leaves(tensordict, &node->k, value_get(value, "leaves")));
    return add_values(tensordict, &node->k, value_get(value, "non_tensors"));
}

/* begin_child - begins the node VALUE, the entry KEY of the innermost node. */
static ckpt_status begin_child(struct tensordict *tensordict, ckpt_str key, const ckpt_value *value)
{
    struct node *parent = &tensordict->open[tensordict->depth - 1], *child = parent + 1;
    uint32_t before;
    ckpt_str name = arena_str(tensordict->f->a, key);
    if (tensordict->depth == JSON_DEPTH)
        return fail(tensordict->err, CKPT_ELIMIT, value_offset(value),
                    "{more} than {=%u dicts} within each other", JSON_DEPTH);
    CKPT_TRY_ALLOC(name.ptr && map_put(parent->k.names, name, 0, &before), tensordict->err);
    if (before != MAP_NONE)
        return fail(tensordict->err, CKPT_EFORMAT, value_offset(value),
                    "the name \"%.*s\" comes {twice}, {=once} is allowed", STR_ARG(name));
    *child = (struct node){.next = 0};
    tensordict->depth++; /* read_nodes ends its kit even if it was not begun */
    CKPT_TRY(kit_begin_mapping(&child->k, &parent->k, name));
    return open_node(tensordict, value);
}

/* is_child - returns true if pair PAIR of a node is a node below it. */
static bool is_child(const value_pair *pair)
{
    ckpt_str key;
    return pair->val->type == CKPT_V_DICT && value_text(pair->key, &key) &&
           !str_matches_word(key, "leaves non_tensors cls_metadata", str_eq);
}

static ckpt_status read_nodes(struct tensordict *tensordict, const ckpt_value *root)
{
    ckpt_status st = open_node(tensordict, root);
    while (tensordict->depth > 1 ||
           (st == CKPT_OK && tensordict->open[0].next < tensordict->open[0].nchildren)) {
        struct node *node = &tensordict->open[tensordict->depth - 1];
        if (st != CKPT_OK || node->next == node->nchildren) { /* never the outermost: its caller ends it */
            st = kit_end(&node->k, st);
            tensordict->depth--;
            continue;
        }
        const value_pair *pair = &node->children[node->next++];
        ckpt_str key;
        if (is_child(pair) && value_text(pair->key, &key))
            st = begin_child(tensordict, key, pair->val);
    }
    return st;
}

/* find_metadata - sets *AT and *COUNT to the place of the JSON at the end of SRC. False: there is none. */
static bool find_metadata(source *src, uint64_t *at, uint64_t *count)
{
    unsigned char tail[TAIL_SIZE], head[sizeof BEGINNING - 1];
    ckpt_error ignored;
    if (src->size < TAIL_SIZE + sizeof head ||
        source_read(src, src->size - TAIL_SIZE, tail, sizeof tail, &ignored) != CKPT_OK)
        return false;
    *count = load_u64le(tail);
    if (*count < sizeof head || *count > src->size - TAIL_SIZE)
        return false;
    *at = src->size - TAIL_SIZE - *count;
    return source_read(src, *at, head, sizeof head, &ignored) == CKPT_OK &&
           memcmp(head, BEGINNING, sizeof head) == 0;
}

static ckpt_status read_graph(struct tensordict *tensordict, const ckpt_value *root)
{
    tensordict->depth = 1;
    tensordict->open[0] = (struct node){.next = 0};
    CKPT_TRY(kit_begin(&tensordict->open[0].k, tensordict->f, value_new(tensordict->f->a, CKPT_V_DICT, 0),
                       tensordict->err));
    return kit_end(&tensordict->open[0].k, read_nodes(tensordict, root));
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    struct tensordict r = {.f = f, .err = err};
    uint64_t at, n;
    ckpt_str text;
    ckpt_value *root;
    if (!find_metadata(f->src, &at, &n))
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the file changed while it was read");
    CKPT_TRY(kit_read_metadata(f, f->src, at, n, &text, err));
    CKPT_TRY(json_read_value(text, source_pos(f->src, at), f->a, &root, err));
    CKPT_TRY_ALLOC(r.open = arena_array(f->a, JSON_DEPTH, sizeof *r.open), err);
    f->producer = STR_LIT("tensordict");
    CKPT_TRY(source_slice(f->src, 0, at, &r.data, err));
    ckpt_status st = read_graph(&r, root);
    source_unref(r.data);
    return st;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    return position_if_failed(read_file(f, err), CKPT_NO_OFFSET, STR_LIT("metadata"), err);
}

static bool probe(const struct probe *this_probe)
{
    uint64_t at, n;
    return this_probe->src && !this_probe->is_storage && find_metadata(this_probe->src, &at, &n);
}

const struct format format_tensordict = {
    .name = "tensordict", .title = "consolidated TensorDict", .probe = probe, .read = read};
