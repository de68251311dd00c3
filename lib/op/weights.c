/*
 * weights.c - where trainers keep the weights.
 *
 * The root that `--root auto` takes: a known name first (the table below), else the
 * only mapping that holds tensors, else everything. Averaged copies are taken only
 * when there is nothing else, optimizer state never.
 *
 * The mappings that count as weights: the state dicts at or below that root, those
 * of other networks next to it (a GAN has several), and averaged copies wherever
 * they are. A mapping next to the weights counts when it carries _metadata, has a
 * usual name, or names parameters ("fc.weight"): {loss, acc} or {scale, growth} do
 * not. What is inside a value of a state dict (_extra_state) never counts.
 */
#include "op/weights.h"

/* Best first. From the checkpoints of PyTorch's tutorials and examples,
 * Lightning, timm, torchvision, mmengine, fairseq, DeepSpeed, Megatron-LM,
 * Opacus, BasicSR, DINO. */
static const char *const names[] = {
    "state_dict", "model_state_dict",  "model_state",   "model_states", "model",
    "module",     "module_state_dict", "net",           "network",      "net_state_dict",
    "params",     "weights",           "model_weights", "model0",       "teacher",
    "student",
};

#define NNAMES (sizeof names / sizeof *names)

/* What trainers keep next to the weights under keys that may look like theirs. */
static const char *const other_names[] = {
    "optim", "optimizer", "scheduler", "sched", "lr", "scaler", "metric", "metrics", "loss", "losses", "rng",
    "random", "hparams", "hyper_parameters", "hyperparameters", "config", "cfg", "args", "callback",
    "callbacks", "loops", "history", "stats", "sampler", "grad", "grads", "gradients", "dataset",
    "dataloader",
};

/* Words of names that networks have. */
static const char *const network_words[] = {
    "net",     "nets",   "network",  "networks", "model",  "models",   "module", "generator", "discriminator",
    "encoder", "decoder", "backbone", "actor",    "critic", "policy",   "teacher", "student",  "weights",
    "params",  "state_dict",
};

static unsigned rank(const ckpt_path_elem *e)
{
    for (unsigned i = 0; !e->is_int && i < NNAMES; i++)
        if (str_is(e->str, names[i]))
            return i;
    return NNAMES;
}

static bool word_end(ckpt_str s, size_t i)
{
    return i >= s.len || s.ptr[i] == '_' || s.ptr[i] == '.' || s.ptr[i] == '-';
}

static bool has_word(ckpt_str s, ckpt_str word)
{
    for (size_t at = str_find(s, word, 0); at != SIZE_MAX; at = str_find(s, word, at + 1))
        if ((at == 0 || word_end(s, at - 1)) && word_end(s, at + word.len))
            return true;
    return false;
}

static bool has_any_word(const ckpt_path_elem *e, const char *const *words, size_t n)
{
    for (size_t i = 0; !e->is_int && i < n; i++)
        if (has_word(e->str, str_c(words[i])))
            return true;
    return false;
}

bool weights_averaged(const ckpt_path_elem *e)
{
    static const char *const words[] = {"ema", "swa", "averaging", "averaged", "shadow"};
    return has_any_word(e, words, sizeof words / sizeof *words);
}

static bool no_network(const ckpt_path_elem *e)
{
    return has_any_word(e, other_names, sizeof other_names / sizeof *other_names);
}

/* named_network - is E what a trainer calls a network: "model", "netG", "disc_state_dict"? */
static bool named_network(const ckpt_path_elem *e)
{
    return !e->is_int && (rank(e) < NNAMES || str_starts(e->str, STR_LIT("net")) ||
                          has_any_word(e, network_words, sizeof network_words / sizeof *network_words));
}

static bool candidate(const struct place *p)
{
    return p->below && !p->in_optimizer && !p->optimizer && !p->extra_state;
}

/* The child with the best known name, or NO_PLACE. */
static uint32_t known_child(const struct walk *w, uint32_t at)
{
    const struct place *up = &w->places[at];
    uint32_t best = NO_PLACE;
    unsigned best_rank = NNAMES;
    for (uint32_t i = up->first; i < up->first + up->nchildren; i++) {
        const struct place *p = &w->places[i];
        unsigned r = candidate(p) && p->mapping ? rank(&p->elem) : NNAMES;
        if (r < best_rank) {
            best = i;
            best_rank = r;
        }
    }
    return best;
}

/* The only child with tensors; an averaged one only where there is no other, metrics and the like last. */
static uint32_t only_child(const struct walk *w, uint32_t at)
{
    const struct place *up = &w->places[at];
    uint32_t last[3], n[3] = {0}; /* by kind: any, averaged, none that holds weights */
    for (uint32_t i = up->first; i < up->first + up->nchildren; i++) {
        const struct place *p = &w->places[i];
        if (!candidate(p))
            continue;
        unsigned kind = weights_averaged(&p->elem) ? 1 : no_network(&p->elem) ? 2 : 0;
        last[kind] = i;
        n[kind]++;
    }
    for (unsigned kind = 0; kind < 3; kind++)
        if (n[kind])
            return n[kind] == 1 ? last[kind] : NO_PLACE;
    return NO_PLACE;
}

/* names_parameters - do the keys of P look like those of a module? */
static bool names_parameters(const struct place *p)
{
    return p->metadata || (p->arrays && p->dotted >= p->tensors - p->dotted);
}

/* settled - does place AT hold the weights itself, under its own keys? */
static bool settled(const struct walk *w, uint32_t at)
{
    const struct place *p = &w->places[at];
    if (p->tensors < p->below - p->tensors)
        return false;
    if (names_parameters(p))
        return true;
    /* A few arrays without names of parameters, next to a mapping that is called weights, are no weights. */
    return (p->state_dict || p->arrays) && known_child(w, at) == NO_PLACE;
}

/* explain - why place AT: HOW is what led there, NULL at the top level. */
static ckpt_status explain(const struct walk *w, uint32_t at, const char *how, struct weights *out,
                           ckpt_error *err)
{
    const struct place *p = &w->places[at];
    if (!how)
        how = p->state_dict || settled(w, at) ? "the top level is a state dict"
                                              : "tensors in several places, none under a usual name";
    ckpt_str why = arena_printf(w->a, "%s; %llu tensor%s", how, (unsigned long long)p->below,
                                p->below == 1 ? "" : "s");
    out->place = at;
    out->why = why.ptr;
    return why.ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status find_root(const struct walk *w, struct weights *out, ckpt_error *err)
{
    *out = (struct weights){.place = NO_PLACE, .why = "no mapping of tensors"};
    if (!w->n || !candidate(&w->places[0])) {
        for (size_t i = 0; i < w->n; i++)
            if (w->places[i].optimizer)
                out->why = "no tensors besides optimizer state";
        return CKPT_OK;
    }
    const char *how = NULL;
    bool known = false;
    uint32_t at = 0, next;
    while (!settled(w, at)) {
        if ((next = known_child(w, at)) != NO_PLACE) {
            how = "a common name for weights";
            known = true;
        } else if (!known && (next = only_child(w, at)) != NO_PLACE &&
                   (w->places[next].state_dict || known_child(w, next) != NO_PLACE)) {
            how = weights_averaged(&w->places[next].elem)
                      ? "averaged weights, the only tensors besides optimizer state"
                      : "the only mapping with tensors besides optimizer state";
        } else {
            break;
        }
        at = next;
    }
    return explain(w, at, how, out, err);
}

/* ---- roles */

/* Where a place is, as far as roles go. */
enum region {
    OUTSIDE,  /* nothing above it is the weights: it has to look like a network */
    WITHIN,   /* below the root of the weights: every state dict is one */
    AVERAGING, /* below a name of averaged copies */
    ENTRIES,  /* a value of a mapping that has a role */
    CLOSED    /* never weights */
};

struct roles {
    const struct walk *w;
    uint32_t main; /* the root of the weights */
    bool chosen;   /* … which is more than "everything" */
    bool lenient;  /* any state dict outside will do */
    uint8_t *region, *role; /* by place */
};

static enum region region_of(const struct roles *r, uint32_t i)
{
    const struct place *p = &r->w->places[i];
    enum region up = p->parent == NO_PLACE ? OUTSIDE : (enum region)r->region[p->parent];
    if (up == CLOSED || !candidate(p))
        return CLOSED;
    if (i == r->main && r->chosen)
        return WITHIN;
    if (up == ENTRIES)
        return weights_averaged(&p->elem) ? AVERAGING : CLOSED;
    if (p->parent != NO_PLACE && weights_averaged(&p->elem))
        return AVERAGING;
    return up == OUTSIDE && no_network(&p->elem) ? CLOSED : up;
}

/* is_network - does place I, which is in REGION, hold one's parameters under its own keys? */
static bool is_network(const struct roles *r, uint32_t i, enum region region)
{
    const struct place *p = &r->w->places[i];
    bool list = !p->mapping && p->direct;
    switch (region) {
    case WITHIN: return p->state_dict || (i == r->main && settled(r->w, i));
    case AVERAGING: return list || (p->state_dict && (p->arrays || p->metadata));
    case OUTSIDE:
        if (r->lenient)
            return p->state_dict || list;
        return p->state_dict && (names_parameters(p) || (p->arrays && named_network(&p->elem)));
    default: return false;
    }
}

/* is_flat - is what lies inside the values of P no weights? In a tree of dicts that holds most of its tensors
 * further down they are. */
static bool is_flat(const struct place *p)
{
    return p->mapping && (names_parameters(p) || p->tensors >= p->below - p->tensors);
}

/* give_roles - false: no place is a network. Parents come before their children. */
static bool give_roles(struct roles *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->w->n; i++) {
        enum region region = region_of(r, i);
        bool network = is_network(r, i, region);
        r->role[i] = !network ? WEIGHTS_NOT : region == AVERAGING ? WEIGHTS_AVERAGED : WEIGHTS_MODEL;
        r->region[i] = (uint8_t)(network && is_flat(&r->w->places[i]) ? ENTRIES : region);
        any |= r->role[i] == WEIGHTS_MODEL;
    }
    return any;
}

/* roles_for - with MAIN as the root of the weights, CHOSEN: more than "everything is taken". */
static ckpt_status roles_for(const struct walk *w, uint32_t main, bool chosen, struct weights *out,
                             ckpt_error *err)
{
    struct roles r = {.w = w, .main = main, .chosen = chosen};
    r.role = out->role = arena_array(w->a, w->n, 1);
    r.region = arena_array(w->a, w->n, 1);
    if (!r.role || !r.region)
        return fail_memory(err);
    if (main == NO_PLACE || give_roles(&r))
        return CKPT_OK;
    r.lenient = true;
    if (!give_roles(&r))
        r.role[main] = WEIGHTS_MODEL;
    return CKPT_OK;
}

ckpt_status weights_find(const struct walk *w, struct weights *out, ckpt_error *err)
{
    CKPT_TRY(find_root(w, out, err));
    return roles_for(w, out->place, out->place != NO_PLACE && (out->place || settled(w, 0)), out, err);
}

ckpt_status weights_below(const struct walk *w, struct weights *out, ckpt_error *err)
{
    *out = (struct weights){.place = w->n && w->places[0].below ? 0 : NO_PLACE, .why = "named by --root"};
    return roles_for(w, out->place, true, out, err);
}

/* ---- rows */

/* index_entries - for place I: what a row's last step has for a node, to I. */
static bool index_entries(const struct walk *w, uint32_t i, map *places)
{
    const struct place *p = &w->places[i];
    struct entry e;
    bool ok = map_set_num(places, map_ptr(p->node), i);
    for (uint32_t k = 0; ok && p->mapping && k < p->entries; k++)
        if (mapping_entry(p->node, k, &e) && e.name.node != p->node)
            ok = map_set_num(places, map_ptr(e.name.node), i);
    return ok;
}

static uint32_t place_by_step(const map *places, const struct row *row)
{
    const ckpt_value *node = row->steps && row->t.npath ? row->steps[row->t.npath - 1].node : NULL;
    uint32_t at = node ? map_get_num(places, map_ptr(node)) : MAP_NONE;
    return at == MAP_NONE ? NO_PLACE : at;
}

/* place_by_name - for rows of archives inside archives, and of graphs that were made anew: BY_NAME has the
 * places by their names. ROOT is what the walk began at. */
static uint32_t place_by_name(const map *by_name, const struct row *row, ckpt_str root)
{
    ckpt_str name = row->t.name;
    const ckpt_path_elem *e = row->t.npath ? &row->t.path[row->t.npath - 1] : NULL;
    size_t last = e ? e->str.len : name.len;
    if (!row->t.npath || (e && e->is_int))
        return NO_PLACE;
    if (root.len && (!str_starts(name, root) || name.len <= root.len + 1))
        return NO_PLACE;
    name = root.len ? str_skip(name, root.len + 1) : name; /* bounded: it is longer */
    if (last > name.len)
        return NO_PLACE;
    size_t above = name.len - last; /* bounded: just compared */
    uint32_t at = map_get(by_name, str_of(name.ptr, above ? above - 1 : 0));
    return at == MAP_NONE ? NO_PLACE : at;
}

ckpt_status weights_rows(const struct walk *w, const struct weights *weights, ckpt_str root, uint32_t **out,
                         ckpt_error *err)
{
    const struct table *t = &w->file->table;
    map *places = map_new(0), *by_name = map_new(0);
    bool ok = places && by_name && (*out = arena_array(w->a, t->nrows, sizeof **out));
    for (uint32_t i = 0; ok && i < w->n; i++) {
        ckpt_str name = weights->role[i] ? walk_name(w, i) : str_of("", 0);
        ok = !weights->role[i] ||
             (name.ptr && index_entries(w, i, places) && map_put(by_name, name, i, NULL));
    }
    for (size_t i = 0; ok && i < t->nrows; i++) {
        uint32_t whole = t->rows[i].t.part_of;
        if (whole == CKPT_NO_TENSOR && ((*out)[i] = place_by_step(places, &t->rows[i])) == NO_PLACE)
            (*out)[i] = place_by_name(by_name, &t->rows[i], root);
        else if (whole != CKPT_NO_TENSOR)
            (*out)[i] = (*out)[whole];
    }
    map_free(places);
    map_free(by_name);
    return ok ? CKPT_OK : fail_memory(err);
}
