/* walk.c - see walk.h. Breadth first, in place of recursion. */
#include "op/walk.h"

#include <stdlib.h>

#include "core/view.h"

static bool ordered_dict(const ckpt_value *v) { return value_calls(v, "collections", "OrderedDict", 0); }

uint32_t mapping_count(const ckpt_value *v)
{
    uint32_t n;
    value_pairs(v, &n);
    const ckpt_value *list = n ? NULL : view_pairs_given(v);
    return list ? list->u.seq.n : n;
}

bool mapping_entry(const ckpt_value *v, uint32_t i, struct entry *e)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    if (n) {
        if (i >= n)
            return false;
        *e = (struct entry){pairs[i].key, pairs[i].val, {v, i, n}, {v, i, n}};
        return true;
    }
    const ckpt_value *list = view_pairs_given(v), *pair = list ? value_item(list, i) : NULL;
    if (!pair)
        return false;
    *e = (struct entry){
        value_item(pair, 0), value_item(pair, 1), {pair, 0, value_count(pair)}, {list, i, value_count(list)}};
    return e->key && e->val;
}

const ckpt_value *mapping_get(const ckpt_value *v, const char *name)
{
    struct entry e;
    ckpt_str key, want = str_c(name);
    for (uint32_t i = mapping_count(v); i-- > 0;)
        if (mapping_entry(v, i, &e) && value_text(e.key, &key) && str_eq(key, want))
            return e.val;
    return NULL;
}

const ckpt_value *mapping_metadata(const ckpt_value *v)
{
    if (!v || v->type != CKPT_V_CALL)
        return NULL;
    const struct value_more *more = value_more_of(v);
    for (uint32_t i = more->nstates; i-- > 0;) {
        const ckpt_value *m = value_get(more->states[i], "_metadata");
        if (m)
            return m;
    }
    return NULL;
}

static bool is_tensor(const ckpt_value *v) { return v->row != CKPT_NO_TENSOR || v->type == CKPT_V_TENSOR; }

bool walk_is_tensor(const struct walk *w, const ckpt_value *v)
{
    return is_tensor(file_replacement(w->file, v));
}

uint32_t walk_place(const struct walk *w, const ckpt_value *v)
{
    uint32_t i = map_get_num(w->seen, map_ptr(file_replacement(w->file, v)));
    return i == MAP_NONE ? NO_PLACE : i;
}

static bool container(const ckpt_value *v)
{
    return v->type == CKPT_V_LIST || v->type == CKPT_V_TUPLE || v->type == CKPT_V_DICT ||
           v->type == CKPT_V_CALL;
}

static bool optimizer_word(const ckpt_path_elem *e)
{
    return !e->is_int && (str_starts(e->str, STR_LIT("optim")) || str_is(e->str, "opt"));
}

static ckpt_status add(struct walk *w, const ckpt_value *v, uint32_t parent, const ckpt_path_elem *elem,
                       ckpt_error *err)
{
    uint32_t old;
    if (!map_put_num(w->seen, map_ptr(v), (uint32_t)w->n, &old))
        return fail_memory(err);
    if (old != MAP_NONE)
        return CKPT_OK;
    if (w->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 64;
        struct place *grown = cap < NO_PLACE ? realloc(w->places, cap * sizeof *grown) : NULL;
        if (!grown)
            return fail_memory(err);
        w->places = grown;
        w->cap = cap;
    }
    struct place *p = &w->places[w->n++];
    *p = (struct place){.node = v, .parent = parent, .elem = *elem};
    if (parent != NO_PLACE) {
        const struct place *up = &w->places[parent];
        p->in_optimizer = up->in_optimizer || up->optimizer || optimizer_word(elem);
        p->extra_state = up->extra_state || (!elem->is_int && str_ends(elem->str, STR_LIT("_extra_state")));
    }
    return CKPT_OK;
}

static ckpt_status child(struct walk *w, uint32_t at, const ckpt_value *v, const ckpt_path_elem *elem,
                         ckpt_error *err)
{
    v = v ? file_replacement(w->file, v) : NULL;
    if (!v || !container(v) || is_tensor(v))
        return CKPT_OK;
    return add(w, v, at, elem, err);
}

static ckpt_status entries(struct walk *w, uint32_t at, const ckpt_value *mapping, ckpt_error *err)
{
    uint32_t n = mapping_count(mapping);
    struct entry e;
    ckpt_path_elem elem;
    for (uint32_t i = 0; i < n; i++) {
        if (!mapping_entry(mapping, i, &e) || !container(e.val) || walk_is_tensor(w, e.val))
            continue;
        CKPT_TRY(path_elem(w->a, e.key, &elem, err));
        CKPT_TRY(child(w, at, e.val, &elem, err));
    }
    return CKPT_OK;
}

static ckpt_status items(struct walk *w, uint32_t at, ckpt_value *const *list, uint32_t n, ckpt_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        CKPT_TRY(child(w, at, list[i], &(ckpt_path_elem){.is_int = true, .num = i}, err));
    return CKPT_OK;
}

/* Attributes of an object: of the dict BUILD gave it, or of both halves of a
 * (dict, slots) pair. */
static ckpt_status attributes(struct walk *w, uint32_t at, const ckpt_value *v, ckpt_error *err)
{
    const ckpt_value *state = value_state(v);
    if (!state || ordered_dict(v))
        return CKPT_OK;
    if (state->type == CKPT_V_TUPLE && state->u.seq.n == 2) {
        CKPT_TRY(entries(w, at, state->u.seq.items[0], err));
        return entries(w, at, state->u.seq.items[1], err);
    }
    return state->type == CKPT_V_DICT ? entries(w, at, state, err) : CKPT_OK;
}

static ckpt_status expand(struct walk *w, uint32_t at, ckpt_error *err)
{
    const ckpt_value *v = w->places[at].node;
    size_t before = w->n;
    if (v->type == CKPT_V_LIST || v->type == CKPT_V_TUPLE)
        CKPT_TRY(items(w, at, v->u.seq.items, v->u.seq.n, err));
    else
        CKPT_TRY(entries(w, at, v, err));
    if (v->type == CKPT_V_CALL) {
        const ckpt_value *args = v->call == CALL_REDUCE ? NULL : v->u.call.args;
        if (args && args->type == CKPT_V_TUPLE) /* namedtuple */
            CKPT_TRY(items(w, at, args->u.seq.items, args->u.seq.n, err));
        CKPT_TRY(items(w, at, value_more_of(v)->items, value_more_of(v)->nitems, err));
        CKPT_TRY(attributes(w, at, v, err));
    }
    w->places[at].first = (uint32_t)before;
    w->places[at].nchildren = (uint32_t)(w->n - before);
    return CKPT_OK;
}

/* count_entry - E, an entry of P that is a tensor. */
static void count_entry(const struct walk *w, struct place *p, const struct entry *e)
{
    ckpt_str key;
    uint32_t row = file_replacement(w->file, e->val)->row;
    p->direct++;
    if (!value_text(e->key, &key))
        return;
    p->tensors++;
    p->dotted += str_find(key, STR_LIT("."), 0) != SIZE_MAX;
    p->arrays += row < w->file->table.nrows && w->file->table.rows[row].t.ndim > 0;
}

/* What kind of container is it? Asked before its children are added, because
 * they inherit from it. */
static void look(struct walk *w, struct place *p)
{
    struct entry e;
    p->mapping = p->node->type == CKPT_V_DICT || mapping_count(p->node) > 0 || ordered_dict(p->node);
    if (!p->mapping) {
        for (uint32_t i = 0; i < value_count(p->node); i++) {
            const ckpt_value *v = value_item(p->node, i);
            p->direct += v && walk_is_tensor(w, v);
        }
        p->below = p->direct;
        return;
    }
    p->entries = mapping_count(p->node);
    p->metadata = mapping_metadata(p->node) != NULL;
    for (uint32_t i = 0; i < p->entries; i++)
        if (mapping_entry(p->node, i, &e) && walk_is_tensor(w, e.val))
            count_entry(w, p, &e);
    p->below = p->direct;
    const ckpt_value *state = mapping_get(p->node, "state"), *groups = mapping_get(p->node, "param_groups");
    p->optimizer = state && groups && (state->type == CKPT_V_DICT || state->type == CKPT_V_CALL) &&
                   (groups->type == CKPT_V_LIST || groups->type == CKPT_V_DICT);
    p->state_dict = !p->in_optimizer && !p->optimizer &&
                    ((p->tensors && p->tensors >= p->entries - p->tensors) || p->metadata);
}

ckpt_status walk_graph(struct walk *w, const ckpt_file *file, const ckpt_value *root, arena *a,
                       ckpt_error *err)
{
    *w = (struct walk){.file = file, .a = a, .seen = map_new(0)};
    if (!w->seen)
        return fail_memory(err);
    CKPT_TRY(child(w, NO_PLACE, root, &(ckpt_path_elem){0}, err));
    for (uint32_t i = 0; i < w->n; i++) {
        look(w, &w->places[i]);
        CKPT_TRY(expand(w, i, err));
    }
    for (size_t i = w->n; i-- > 1;) {
        const struct place *p = &w->places[i];
        if (!p->in_optimizer && !p->optimizer && !p->extra_state)
            w->places[p->parent].below += p->below;
    }
    return CKPT_OK;
}

void walk_free(struct walk *w)
{
    free(w->places);
    map_free(w->seen);
    *w = (struct walk){0};
}

ckpt_path_elem *walk_path(const struct walk *w, uint32_t i, uint32_t *n)
{
    uint32_t depth = 0;
    for (uint32_t k = i; w->places[k].parent != NO_PLACE; k = w->places[k].parent)
        depth++;
    ckpt_path_elem *path = arena_array(w->a, depth, sizeof *path);
    *n = depth;
    for (uint32_t k = i; path && depth; k = w->places[k].parent)
        path[--depth] = w->places[k].elem;
    return path;
}

ckpt_str walk_name(const struct walk *w, uint32_t i)
{
    uint32_t n;
    ckpt_path_elem *path = walk_path(w, i, &n);
    return path ? path_join(w->a, path, n) : str_of(NULL, 0);
}
