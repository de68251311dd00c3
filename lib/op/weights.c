/*
 * weights.c - finds the weights in a file by the names and structures that trainers use.
 *
 * `--root auto` selects the mapping with a known name (weights_names), else the only mapping with tensors,
 * else everything. Averaged copies are taken only if nothing else is there; optimizer state is never taken.
 *
 * These mappings count as weights: the state dicts at or below that root, those of other networks next to it
 * (a GAN has several), and averaged copies wherever they are. A mapping next to the weights counts if it has
 * _metadata, a network's name, or keys that name parameters ("fc.weight"); {loss, acc} does not count. A
 * value of a state dict (_extra_state) never counts, nor does anything in it.
 */
#include "op/weights.h"

/* Names of the weights, best first. From the checkpoints of PyTorch's tutorials and examples, Lightning,
 * timm, torchvision, mmengine, fairseq, DeepSpeed, Megatron-LM, Opacus, BasicSR, DINO. */
static const char *const weights_names[] = {
    "state_dict", "model_state_dict",  "model_state",   "model_states", "model",
    "module",     "module_state_dict", "net",           "network",      "net_state_dict",
    "params",     "weights",           "model_weights", "model0",       "teacher",
    "student",
};

#define NWEIGHTS_NAMES (sizeof weights_names / sizeof *weights_names)

/* Names of other things that trainers save next to the weights. */
static const char *const non_weights_names[] = {
    "optim",           "optimizer", "scheduler", "sched", "lr",       "scaler",    "metric",
    "metrics",         "loss",      "losses",    "rng",   "random",   "hparams",   "hyper_parameters",
    "hyperparameters", "config",    "cfg",       "args",  "callback", "callbacks", "loops",
    "history",         "stats",     "sampler",   "grad",  "grads",    "gradients", "dataset",
    "dataloader",
};

/* Words that occur in the names of networks. */
static const char *const network_words[] = {
    "net",       "nets",          "network", "networks", "model",    "models",     "module",
    "generator", "discriminator", "encoder", "decoder",  "backbone", "actor",      "critic",
    "policy",    "teacher",       "student", "weights",  "params",   "state_dict",
};

/* rank_weights_name - returns the index of ELEM in weights_names, or NWEIGHTS_NAMES. */
static unsigned rank_weights_name(const ckpt_path_elem *elem)
{
    for (unsigned i = 0; !elem->is_int && i < NWEIGHTS_NAMES; i++)
        if (str_is(elem->str, weights_names[i]))
            return i;
    return NWEIGHTS_NAMES;
}

static bool is_word_boundary(ckpt_str text, size_t index)
{
    return index >= text.len || text.ptr[index] == '_' || text.ptr[index] == '.' || text.ptr[index] == '-';
}

static bool has_word(ckpt_str text, ckpt_str word)
{
    for (size_t at = str_find(text, word, 0); at != SIZE_MAX; at = str_find(text, word, at + 1))
        if ((at == 0 || is_word_boundary(text, at - 1)) && is_word_boundary(text, at + word.len))
            return true;
    return false;
}

static bool has_any_word(const ckpt_path_elem *elem, const char *const *words, size_t count)
{
    for (size_t i = 0; !elem->is_int && i < count; i++)
        if (has_word(elem->str, str_c(words[i])))
            return true;
    return false;
}

bool is_averaged_name(const ckpt_path_elem *elem)
{
    static const char *const words[] = {"ema", "swa", "averaging", "averaged", "shadow"};
    return has_any_word(elem, words, sizeof words / sizeof *words);
}

static bool is_non_weights(const ckpt_path_elem *elem)
{
    return has_any_word(elem, non_weights_names, sizeof non_weights_names / sizeof *non_weights_names);
}

/* is_network_name - returns true if trainers name networks so: "model", "netG", "disc_state_dict". */
static bool is_network_name(const ckpt_path_elem *elem)
{
    return !elem->is_int &&
           (rank_weights_name(elem) < NWEIGHTS_NAMES || str_starts(elem->str, STR_LIT("net")) ||
            has_any_word(elem, network_words, sizeof network_words / sizeof *network_words));
}

/* may_be_weights - returns true if CONTAINER has tensors that are not of an optimizer or of an extra
 * state. */
static bool may_be_weights(const struct container *container)
{
    return container->tensors_below && !container->in_optimizer && !container->is_optimizer &&
           !container->extra_state;
}

/* find_known_child - returns the child mapping whose name is first in weights_names, or NO_CONTAINER. */
static uint32_t find_known_child(const struct containers *tree, uint32_t at)
{
    const struct container *parent = &tree->list[at];
    uint32_t best = NO_CONTAINER;
    unsigned best_rank = NWEIGHTS_NAMES;
    for (uint32_t i = parent->first; i < parent->first + parent->nchildren; i++) {
        const struct container *p = &tree->list[i];
        unsigned rank = may_be_weights(p) && p->is_mapping ? rank_weights_name(&p->elem) : NWEIGHTS_NAMES;
        if (rank < best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

/* find_only_child - returns the only child with tensors, or NO_CONTAINER. Averaged copies count only if there
 * is no other child; children with a name of NON_WEIGHTS_NAMES count only if there are no averaged copies. */
static uint32_t find_only_child(const struct containers *tree, uint32_t at)
{
    const struct container *parent = &tree->list[at];
    uint32_t last[3], n[3] = {0}; /* by kind: 1: averaged; 2: a name of NON_WEIGHTS_NAMES; 0: neither */
    for (uint32_t i = parent->first; i < parent->first + parent->nchildren; i++) {
        const struct container *p = &tree->list[i];
        if (!may_be_weights(p))
            continue;
        unsigned kind = is_averaged_name(&p->elem) ? 1 : is_non_weights(&p->elem) ? 2 : 0;
        last[kind] = i;
        n[kind]++;
    }
    for (unsigned kind = 0; kind < 3; kind++)
        if (n[kind])
            return n[kind] == 1 ? last[kind] : NO_CONTAINER;
    return NO_CONTAINER;
}

/* has_parameter_names - returns true if the keys of CONTAINER look like the names of a module's
 * parameters. */
static bool has_parameter_names(const struct container *container)
{
    return container->has_metadata ||
           (container->tensors_with_dims &&
            container->dotted_tensors >= container->text_key_tensors - container->dotted_tensors);
}

/* has_weights_itself - returns true if the weights are entries of container AT, not of a mapping in it. */
static bool has_weights_itself(const struct containers *tree, uint32_t at)
{
    const struct container *p = &tree->list[at];
    if (p->text_key_tensors < p->tensors_below - p->text_key_tensors)
        return false;
    if (has_parameter_names(p))
        return true;
    /* arrays not named like parameters, next to a mapping with a name of weights, are not the weights */
    return (p->is_state_dict || p->tensors_with_dims) && find_known_child(tree, at) == NO_CONTAINER;
}

static bool has_optimizer(const struct containers *tree, uint32_t at)
{
    const struct container *parent = &tree->list[at];
    for (uint32_t i = parent->first; i < parent->first + parent->nchildren; i++)
        if (tree->list[i].is_optimizer)
            return true;
    return false;
}

/* set_found - sets *OUT to container AT. HOW describes how AT was found; NULL: AT is the top level. */
static ckpt_status set_found(const struct containers *tree, uint32_t at, const char *how, struct weights *out,
                             ckpt_error *err)
{
    const struct container *p = &tree->list[at];
    if (!how)
        how = p->is_state_dict || has_weights_itself(tree, at)
                  ? "the top level is a state dict"
                  : "tensors in several places, none under a usual name";
    ckpt_str why = arena_printf(tree->a, "%s; %llu tensor%s", how, (unsigned long long)p->tensors_below,
                                p->tensors_below == 1 ? "" : "s");
    out->container = at;
    out->only_own_tensors = p->text_key_tensors && has_optimizer(tree, at);
    out->why = why.ptr;
    return why.ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status find_root(const struct containers *tree, struct weights *out, ckpt_error *err)
{
    *out = (struct weights){.container = NO_CONTAINER, .why = "no mapping of tensors"};
    if (!tree->n || !may_be_weights(&tree->list[0])) {
        for (size_t i = 0; i < tree->n; i++)
            if (tree->list[i].is_optimizer)
                out->why = "no tensors besides optimizer state";
        return CKPT_OK;
    }
    const char *how = NULL;
    bool known = false;
    uint32_t at = 0, next;
    while (!has_weights_itself(tree, at)) {
        if ((next = find_known_child(tree, at)) != NO_CONTAINER) {
            how = "a common name for weights";
            known = true;
        } else if (!known && (next = find_only_child(tree, at)) != NO_CONTAINER &&
                   (tree->list[next].is_state_dict || find_known_child(tree, next) != NO_CONTAINER)) {
            how = is_averaged_name(&tree->list[next].elem)
                      ? "averaged weights, the only tensors besides optimizer state"
                      : "the only mapping with tensors besides optimizer state";
        } else {
            break;
        }
        at = next;
    }
    out->has_common_name = known;
    return set_found(tree, at, how, out, err);
}

/* ---- roles */

/* Where a container is; its role depends on that. */
enum region {
    REGION_OUTSIDE,   /* not below the root of the weights: it has a role only if it looks like a network */
    REGION_WEIGHTS,   /* at or below the root of the weights: every state dict has a role */
    REGION_AVERAGED,  /* at or below a name of averaged copies */
    REGION_FLAT,      /* a flat mapping that has a role: below it, only averaged copies have one */
    REGION_NO_WEIGHTS /* in an optimizer, an extra state, metrics …: it has no role */
};

struct roles {
    const struct containers *tree;
    uint32_t main;          /* the root of the weights */
    bool main_is_chosen;    /* false: main is the whole file by default */
    bool any_state_dict;    /* in REGION_OUTSIDE, every state dict has a role, whatever its name */
    uint8_t *region, *role; /* by container */
};

static enum region find_region(const struct roles *roles, uint32_t index)
{
    const struct container *p = &roles->tree->list[index];
    enum region parent_region = REGION_OUTSIDE;
    if (p->parent != NO_CONTAINER)
        parent_region = (enum region)roles->region[p->parent];
    if (parent_region == REGION_NO_WEIGHTS || !may_be_weights(p))
        return REGION_NO_WEIGHTS;
    if (index == roles->main && roles->main_is_chosen)
        return REGION_WEIGHTS;
    if (parent_region == REGION_FLAT)
        return is_averaged_name(&p->elem) ? REGION_AVERAGED : REGION_NO_WEIGHTS;
    if (p->parent != NO_CONTAINER && is_averaged_name(&p->elem))
        return REGION_AVERAGED;
    return parent_region == REGION_OUTSIDE && is_non_weights(&p->elem) ? REGION_NO_WEIGHTS : parent_region;
}

/* is_network - returns true if the entries of container INDEX, in REGION, are the parameters of a network. */
static bool is_network(const struct roles *roles, uint32_t index, enum region region)
{
    const struct container *p = &roles->tree->list[index];
    bool is_tensor_list = !p->is_mapping && p->tensor_entries;
    switch (region) {
    case REGION_WEIGHTS:
        return p->is_state_dict || (index == roles->main && has_weights_itself(roles->tree, index));
    case REGION_AVERAGED:
        return is_tensor_list || (p->is_state_dict && (p->tensors_with_dims || p->has_metadata));
    case REGION_OUTSIDE:
        if (roles->any_state_dict)
            return p->is_state_dict || is_tensor_list;
        return p->is_state_dict &&
               (has_parameter_names(p) || (p->tensors_with_dims && is_network_name(&p->elem)));
    default: return false;
    }
}

/* is_flat - returns true if the weights are entries of CONTAINER. In a tree of dicts, most are further
 * down. */
static bool is_flat(const struct container *container)
{
    return container->is_mapping &&
           (has_parameter_names(container) ||
            container->text_key_tensors >= container->tensors_below - container->text_key_tensors);
}

/* set_roles - sets the role of each container, parents first. Returns false if none is WEIGHTS_MODEL. */
static bool set_roles(struct roles *roles)
{
    bool has_model = false;
    for (uint32_t i = 0; i < roles->tree->n; i++) {
        enum region region = find_region(roles, i);
        bool has_role = is_network(roles, i, region);
        enum weights_role role = region == REGION_AVERAGED ? WEIGHTS_AVERAGED : WEIGHTS_MODEL;
        roles->role[i] = (uint8_t)(has_role ? role : WEIGHTS_NO_ROLE);
        roles->region[i] = (uint8_t)(has_role && is_flat(&roles->tree->list[i]) ? REGION_FLAT : region);
        has_model |= roles->role[i] == WEIGHTS_MODEL;
    }
    return has_model;
}

/* find_roles - sets out->role with MAIN as the root of the weights. CHOSEN: see main_is_chosen. */
static ckpt_status find_roles(const struct containers *tree, uint32_t main, bool chosen, struct weights *out,
                              ckpt_error *err)
{
    struct roles roles = {.tree = tree, .main = main, .main_is_chosen = chosen};
    roles.role = out->role = arena_array(tree->a, tree->n, 1);
    roles.region = arena_array(tree->a, tree->n, 1);
    CKPT_TRY_ALLOC(roles.role && roles.region, err);
    if (main == NO_CONTAINER || set_roles(&roles))
        return CKPT_OK;
    roles.any_state_dict = true;
    if (!set_roles(&roles))
        roles.role[main] = WEIGHTS_MODEL;
    return CKPT_OK;
}

ckpt_status weights_find(const struct containers *tree, struct weights *out, ckpt_error *err)
{
    CKPT_TRY(find_root(tree, out, err));
    bool is_below_top = out->container != NO_CONTAINER && out->container != 0;
    bool chosen = is_below_top || (out->container == 0 && has_weights_itself(tree, 0));
    return find_roles(tree, out->container, chosen, out, err);
}

ckpt_status weights_below(const struct containers *tree, struct weights *out, ckpt_error *err)
{
    *out = (struct weights){.container = tree->n && tree->list[0].tensors_below ? 0 : NO_CONTAINER,
                            .why = "named by --root"};
    return find_roles(tree, out->container, true, out, err);
}

/* ---- state without a container */

/* find_component - returns the offset in NAME of COMPONENT, whose ends are '/' or the start of NAME, or
 * SIZE_MAX. Sets *AFTER to the part after the '/' that follows. */
static size_t find_component(ckpt_str name, const char *component, ckpt_str *after)
{
    ckpt_str wanted = str_c(component);
    for (size_t at = str_find(name, wanted, 0); at != SIZE_MAX; at = str_find(name, wanted, at + 1)) {
        *after = str_skip(name, at + wanted.len);
        bool begins = at == 0 || name.ptr[at - 1] == '/';
        if (begins && str_starts(*after, STR_LIT("/"))) {
            *after = str_skip(*after, 1);
            return at;
        }
    }
    return SIZE_MAX;
}

static bool is_in_path(ckpt_str name, const char *component)
{
    ckpt_str after; /* what an optimizer trains is weights, although it is listed below the optimizer */
    return find_component(name, component, &after) != SIZE_MAX &&
           !str_starts(after, STR_LIT("_trainable_variables/"));
}

/* is_owned - returns true if OBJECT/vars/INDEX is in NAME after OWNER, which is not one of the layers. */
static bool is_owned(ckpt_str name, const char *owner)
{
    ckpt_str after;
    size_t at = find_component(name, owner, &after);
    if (at == SIZE_MAX || str_ends(str_of(name.ptr, at), STR_LIT("layers/")))
        return false;
    size_t slash = str_find(after, STR_LIT("/"), 0);
    return slash != SIZE_MAX && str_starts(str_skip(after, slash), STR_LIT("/vars/"));
}

ckpt_state name_state(ckpt_str name)
{
    bool has_slash = name.len && memchr(name.ptr, '/', name.len); /* most names have none: asked once */
    char last = name.len ? name.ptr[name.len - 1] : '\0';
#define RETURN_IF(condition, state)                                                                          \
    if (condition)                                                                                           \
        return CKPT_STATE_##state;
#define PATH(state, text)  RETURN_IF(has_slash &&is_in_path(name, text), state)
#define OWNER(state, text) RETURN_IF(has_slash &&is_owned(name, text), state)
#define START(state, text) RETURN_IF(str_starts(name, STR_LIT(text)), state)
#define END(state, text)   RETURN_IF(last == (text)[sizeof(text) - 2] && str_ends(name, STR_LIT(text)), state)
#define NAME(state, text)  RETURN_IF(str_is(name, text), state)
#include "op/tensor_states.def"
#undef PATH
#undef OWNER
#undef START
#undef END
#undef NAME
#undef RETURN_IF
    return CKPT_STATE_NONE;
}

ckpt_state ckpt_tensor_state(const ckpt_tensor *tensor)
{
    return tensor ? name_state(tensor->name) : CKPT_STATE_NONE;
}

bool ckpt_tensor_is_optimizer_state(const ckpt_tensor *tensor)
{
    return ckpt_tensor_state(tensor) == CKPT_STATE_OPTIMIZER;
}

/* ---- rows */

/* index_entries - maps to INDEX each node that may be in the last step of a row in container INDEX. */
static bool index_entries(const struct containers *tree, uint32_t index, map *by_node)
{
    const struct container *p = &tree->list[index];
    struct entry e;
    bool ok = map_set_num(by_node, ptr_key(p->node), index);
    for (uint32_t k = 0; ok && p->node->type == CKPT_V_CALL && k < p->entries; k++)
        if (mapping_entry(p->node, k, &e) && e.key_edit.node != p->node)
            ok = map_set_num(by_node, ptr_key(e.key_edit.node), index);
    return ok;
}

/* last_node - returns the node of the last step in the path of row INDEX, or NULL. */
static const ckpt_value *last_node(const struct table *table, size_t index)
{
    uint32_t n = table_npath_of(table, index);
    const struct step *steps = n ? table_steps_of(table, index) : NULL;
    return steps ? steps[n - 1].node : NULL;
}

/* find_by_node - returns the container with entries in NODE, or NO_CONTAINER. */
static uint32_t find_by_node(const map *by_node, const ckpt_value *node)
{
    uint32_t at = node ? map_get_num(by_node, ptr_key(node)) : MAP_NONE;
    return at == MAP_NONE ? NO_CONTAINER : at;
}

/* find_by_name - returns the container of row INDEX without steps, as in nested archives and rebuilt graphs,
 * or NO_CONTAINER. BY_NAME has the containers by name; ROOT is the name of the node where they begin. */
static uint32_t find_by_name(const map *by_name, const struct table *table, size_t index, ckpt_str root)
{
    ckpt_str name = table_name(table, index);
    uint32_t n = table_npath_of(table, index);
    const ckpt_path_elem *key = n ? &table_path_of(table, index)[n - 1] : NULL;
    if (!key || key->is_int)
        return NO_CONTAINER;
    if (root.len && (!str_starts(name, root) || name.len <= root.len + 1))
        return NO_CONTAINER;
    name = root.len ? str_skip(name, root.len + 1) : name;
    if (key->str.len > name.len)
        return NO_CONTAINER;
    size_t above = name.len - key->str.len;
    uint32_t at = map_get(by_name, str_of(name.ptr, above ? above - 1 : 0));
    return at == MAP_NONE ? NO_CONTAINER : at;
}

ckpt_status weights_rows(const struct containers *tree, const struct weights *weights, ckpt_str root,
                         uint32_t **out, ckpt_error *err)
{
    const struct table *t = &tree->file->table;
    const ckpt_value *node = NULL;   /* of the previous row, and usually of the next ones … */
    uint32_t of_node = NO_CONTAINER; /* … with its container */
    map *by_node = map_new(0), *by_name = map_new(0);
    bool ok = by_node && by_name && (*out = arena_array(tree->a, t->nrows, sizeof **out));
    for (uint32_t i = 0; ok && i < tree->n; i++) {
        ckpt_str name = weights->role[i] ? container_name(tree, i) : str_of("", 0);
        ok = !weights->role[i] ||
             (name.ptr && index_entries(tree, i, by_node) && map_put(by_name, name, i, NULL));
    }
    for (size_t i = 0; ok && i < t->nrows; i++) {
        uint32_t composite = table_part_of(t, i);
        if (last_node(t, i) != node) {
            node = last_node(t, i);
            of_node = find_by_node(by_node, node);
        }
        (*out)[i] = composite == CKPT_NO_TENSOR ? of_node : (*out)[composite];
        if (composite == CKPT_NO_TENSOR && (*out)[i] == NO_CONTAINER)
            (*out)[i] = find_by_name(by_name, t, i, root);
    }
    map_free(by_node);
    map_free(by_name);
    return ok ? CKPT_OK : fail_memory(err);
}
