/* keys.c - see keys.h. Names are asked for and collisions found in a first pass
 * over all keys; edits are made only in a second, so a refusal changes nothing. */
#include "op/keys.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "op/weights.h"

struct batch {
    struct naming *n;
    struct walk w;
    struct weights weights;
    struct group *groups;
    size_t ngroups, cap_groups;
    map *metas; /* _metadata nodes taken already */
    const ckpt_value **domains; /* the container that each is */
    size_t ndomains, cap_domains;
};

ckpt_str keys_join(arena *a, ckpt_str x, ckpt_str y)
{
    char *at = arena_array(a, x.len + y.len + 1, 1);
    if (!at)
        return str_of(NULL, 0);
    if (x.len)
        memcpy(at, x.ptr, x.len);
    if (y.len)
        memcpy(at + x.len, y.ptr, y.len);
    return str_of(at, x.len + y.len);
}

/* ---- gathering */

static ckpt_status add_slot(struct slot **slots, size_t *n, size_t *cap, const struct slot *s,
                            ckpt_error *err)
{
    if (*n == *cap) {
        size_t want = *cap ? *cap * 2 : 64;
        struct slot *grown = want <= SIZE_MAX / sizeof *grown ? realloc(*slots, want * sizeof *grown) : NULL;
        if (!grown)
            return fail_memory(err);
        *slots = grown;
        *cap = want;
    }
    (*slots)[(*n)++] = *s;
    return CKPT_OK;
}

/* add_domain - the next one is CONTAINER. */
static ckpt_status add_domain(struct batch *b, const ckpt_value *container, uint32_t *out, ckpt_error *err)
{
    arena *a = b->n->p->a;
    const ckpt_value **grown = arena_grow(a, b->domains, b->ndomains, &b->cap_domains, b->ndomains + 1,
                                          sizeof *grown);
    if (!grown || b->ndomains >= UINT32_MAX)
        return fail_memory(err);
    *out = (uint32_t)b->ndomains;
    b->domains = grown;
    grown[b->ndomains++] = container;
    return CKPT_OK;
}

/* entry_at - entry I of CONTAINER: a mapping, or a list of names. */
static bool entry_at(const ckpt_value *container, uint32_t i, struct entry *e)
{
    uint32_t n = container->type == CKPT_V_LIST ? container->u.seq.n : 0;
    if (container->type != CKPT_V_LIST)
        return mapping_entry(container, i, e);
    if (i < n)
        *e = (struct entry){
            .key = container->u.seq.items[i], .name = {container, i, n}, .whole = {container, i, n}};
    return i < n;
}

static bool left_out(const ckpt_plan *p, const struct edit_at *at)
{
    const struct edit *e = plan_edit_find(p, at->node);
    return e && at->index < e->n && e->dropped[at->index];
}

/* slot_of - the key of ENTRY as it is called by now; false: no text, or left out. */
static bool slot_of(const ckpt_plan *p, const struct entry *entry, struct slot *s)
{
    const struct edit *e = plan_edit_find(p, entry->name.node);
    *s = (struct slot){0};
    if (!value_text(entry->key, &s->now) || left_out(p, &entry->name) || left_out(p, &entry->whole))
        return false;
    if (e && entry->name.index < e->n && e->names[entry->name.index].ptr)
        s->now = e->names[entry->name.index];
    s->then = s->now;
    return true;
}

/* is_kept - is V written, as far as --keep and --drop go? */
static bool is_kept(const ckpt_plan *p, const ckpt_value *v)
{
    uint32_t row = v ? file_replacement(p->file, v)->row : CKPT_NO_TENSOR;
    return row >= p->file->table.nrows || p->keep[row];
}

/* holds_tensors - is V a tensor, or a container of some? */
static bool holds_tensors(const struct walk *w, const ckpt_value *v)
{
    uint32_t at = v ? walk_place(w, v) : NO_PLACE;
    return v && (walk_is_tensor(w, v) || (at != NO_PLACE && w->places[at].below));
}

/* names_parameter - is E, an entry of weights, one of the module's? In a dict that a training loop filled by
 * hand, "epoch" and "optimizer" are next to the parameters. */
static bool names_parameter(const struct walk *w, const struct entry *e)
{
    ckpt_str key;
    return walk_is_tensor(w, e->val) || !value_text(e->key, &key) || str_starts(key, STR_LIT("_")) ||
           str_find(key, STR_LIT("."), 0) != SIZE_MAX;
}

/* gather_from - the keys of CONTAINER, which has N entries. */
static ckpt_status gather_from(struct batch *b, const ckpt_value *container, uint32_t n, struct slot **slots,
                               size_t *count, size_t *cap, ckpt_error *err)
{
    uint32_t domain = 0;
    struct entry e;
    struct slot s;
    CKPT_TRY(add_domain(b, container, &domain, err));
    for (uint32_t i = 0; i < n; i++) {
        if (!entry_at(container, i, &e) || !slot_of(b->n->p, &e, &s) || !is_kept(b->n->p, e.val))
            continue;
        s.domain = domain;
        s.index = i;
        s.value = !holds_tensors(&b->w, e.val);
        CKPT_TRY(add_slot(slots, count, cap, &s, err));
    }
    return CKPT_OK;
}

static ckpt_status gather_mapping(struct batch *b, struct group *g, const ckpt_value *mapping,
                                  ckpt_error *err)
{
    return gather_from(b, mapping, mapping_count(mapping), &g->slots, &g->n, &g->cap, err);
}

static ckpt_status gather_list(struct batch *b, struct group *g, const ckpt_value *list, ckpt_error *err)
{
    if (!list || list->type != CKPT_V_LIST)
        return CKPT_OK;
    return gather_from(b, list, list->u.seq.n, &g->slots, &g->n, &g->cap, err);
}

/* Optimizer state keyed by name: the keys of `state`, and the names that each
 * parameter group lists. Integer keys name nothing. */
static ckpt_status gather_optimizer(struct batch *b, struct group *g, const ckpt_value *opt, ckpt_error *err)
{
    const ckpt_value *groups = mapping_get(opt, "param_groups");
    uint32_t n = value_count(groups);
    CKPT_TRY(gather_mapping(b, g, mapping_get(opt, "state"), err));
    for (uint32_t i = 0; groups->type == CKPT_V_LIST && i < n; i++) {
        CKPT_TRY(gather_list(b, g, mapping_get(value_item(groups, i), "params"), err));
        CKPT_TRY(gather_list(b, g, mapping_get(value_item(groups, i), "param_names"), err));
    }
    return CKPT_OK;
}

/* gather_weights - the keys of P; those of a dict without _metadata may be other things too. */
static ckpt_status gather_weights(struct batch *b, struct group *g, const struct place *p, ckpt_error *err)
{
    struct entry e;
    CKPT_TRY(gather_mapping(b, g, p->node, err));
    for (size_t i = 0; !p->metadata && i < g->n; i++)
        g->slots[i].fixed = mapping_entry(p->node, g->slots[i].index, &e) && !names_parameter(&b->w, &e);
    return CKPT_OK;
}

static ckpt_status gather_metadata(struct batch *b, struct group *g, const ckpt_value *mapping,
                                   ckpt_error *err)
{
    const ckpt_value *meta = mapping_metadata(mapping);
    uint32_t old;
    if (!meta)
        return CKPT_OK;
    if (!map_put_num(b->metas, map_ptr(meta), 0, &old))
        return fail_memory(err);
    if (old != MAP_NONE)
        return CKPT_OK;
    return gather_from(b, meta, mapping_count(meta), &g->meta, &g->nmeta, &g->cap_meta, err);
}

static ckpt_status gather(struct batch *b, uint32_t at, ckpt_error *err)
{
    const struct place *p = &b->w.places[at];
    if (!p->optimizer && (!p->mapping || !b->weights.role[at]))
        return CKPT_OK;
    if (b->ngroups == b->cap_groups) {
        size_t cap = b->cap_groups ? b->cap_groups * 2 : 8;
        struct group *grown = realloc(b->groups, cap * sizeof *grown);
        if (!grown)
            return fail_memory(err);
        b->groups = grown;
        b->cap_groups = cap;
    }
    struct group *g = &b->groups[b->ngroups++];
    *g = (struct group){.where = walk_name(&b->w, at),
                        .place = at,
                        .optimizer = p->optimizer,
                        .averaged = b->weights.role[at] == WEIGHTS_AVERAGED};
    if (!g->where.ptr)
        return fail_memory(err);
    if (p->optimizer)
        return gather_optimizer(b, g, p->node, err);
    CKPT_TRY(gather_weights(b, g, p, err));
    return gather_metadata(b, g, p->node, err);
}

/* ---- naming */

/* module_name - the new path of module PATH: what key() makes of a key that
 * begins with it. */
static ckpt_status module_name(struct naming *n, ckpt_str path, ckpt_str *out, ckpt_error *err)
{
    ckpt_str key = path, then;
    *out = path;
    if (!path.len && !n->root_module)
        return CKPT_OK;
    if (path.len)
        key = keys_join(n->p->a, path, STR_LIT("."));
    if (!key.ptr)
        return fail_memory(err);
    CKPT_TRY(n->key(n, key, &then, err));
    if (then.len && then.ptr[then.len - 1] == '.')
        *out = str_of(then.ptr, then.len - 1);
    else if (!then.len)
        *out = STR_LIT("");
    return CKPT_OK;
}

static ckpt_status check_name(const struct slot *s, ckpt_error *err)
{
    if (!s->then.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" would have no name left", STR_ARG(s->now));
    if (utf8_check(s->now, true, NULL) && !utf8_check(s->then, true, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the new name of \"%.*s\" is not UTF-8",
                    STR_ARG(s->now));
    return CKPT_OK;
}

static ckpt_status name_slots(struct naming *n, struct slot *slots, size_t count, ckpt_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct slot *s = &slots[i];
        if (s->fixed)
            continue;
        CKPT_TRY(n->key(n, s->now, &s->then, err));
        if (str_eq(s->now, s->then))
            s->then = s->now;
        else
            CKPT_TRY(check_name(s, err));
    }
    return CKPT_OK;
}

static bool changes(const struct slot *s) { return !str_eq(s->now, s->then); }

/* end_of_way - how many bytes of PREFIX, "b.c.d.", end PATH and a dot, "a.b.c."; 0: none. */
static size_t end_of_way(ckpt_str path, ckpt_str prefix)
{
    for (size_t k = prefix.len; k-- > 1;) {
        size_t from = path.len + 1 - k; /* bounded: looked at if there is so much */
        if (prefix.ptr[k - 1] == '.' && k - 1 <= path.len &&
            memcmp(path.ptr + from, prefix.ptr, k - 1) == 0 && (from == 0 || path.ptr[from - 1] == '.'))
            return k;
    }
    return 0;
}

/* note_modules - every module that has a key by its new name. */
static ckpt_status note_modules(const struct group *g, map *modules, ckpt_error *err)
{
    for (size_t i = 0; i < g->n; i++) {
        uint32_t old = MAP_NONE;
        for (size_t k = g->slots[i].then.len; k-- > 0 && old == MAP_NONE;)
            if (g->slots[i].then.ptr[k] == '.' && !map_put(modules, str_of(g->slots[i].then.ptr, k), 0, &old))
                return fail_memory(err);
    }
    return CKPT_OK;
}

/* follow_prefix - where "_orig_mod.module." was taken off all keys below it, nothing is left of "_orig_mod":
 * its module path becomes what that of the prefix became. */
static ckpt_status follow_prefix(struct naming *n, struct group *g, ckpt_error *err)
{
    map *modules = NULL;
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; i < g->nmeta && st == CKPT_OK; i++) {
        struct slot *s = &g->meta[i];
        size_t k = changes(s) ? 0 : end_of_way(s->now, n->stripped);
        ckpt_str all, then;
        if (!k)
            continue;
        if (!modules)
            st = (modules = map_new(g->n)) ? note_modules(g, modules, err) : fail_memory(err);
        if (st != CKPT_OK || map_get(modules, s->now) != MAP_NONE)
            continue;
        /* the dot before what is left of the prefix ends the part that was found */
        all = keys_join(n->p->a, s->now, str_skip(n->stripped, k - 1));
        st = all.ptr ? n->key(n, all, &then, err) : fail_memory(err);
        if (st == CKPT_OK && !str_eq(all, then))
            s->then = str_of(then.ptr, then.len ? then.len - 1 : 0);
    }
    map_free(modules);
    return st;
}

static ckpt_status name_group(struct naming *n, struct group *g, ckpt_error *err)
{
    if (n->begin)
        CKPT_TRY(n->begin(n, g, err));
    CKPT_TRY(name_slots(n, g->slots, g->n, err));
    if (n->end)
        n->end(n, g);
    if (n->modules_follow)
        return follow_modules(n->p->a, g, err);
    for (size_t i = 0; i < g->nmeta; i++)
        CKPT_TRY(module_name(n, g->meta[i].now, &g->meta[i].then, err));
    bool whole = n->stripped.len && n->stripped.ptr[n->stripped.len - 1] == '.';
    return whole ? follow_prefix(n, g, err) : CKPT_OK;
}

static ckpt_status collision(const struct group *g, const struct slot *a, const struct slot *b,
                             ckpt_error *err)
{
    const struct slot *mover = changes(b) ? b : a, *other = mover == b ? a : b;
    if (changes(other))
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" and \"%.*s\" would both become \"%.*s\"",
                   STR_ARG(other->now), STR_ARG(mover->now), STR_ARG(mover->then));
    else
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" would become \"%.*s\", which is there already",
                   STR_ARG(mover->now), STR_ARG(mover->then));
    fail_where(err, "%.*s", STR_ARG(g->where));
    return CKPT_EEXIST;
}

static ckpt_str then_of(const void *slots, uint32_t i) { return ((const struct slot *)slots)[i].then; }

/* check_domain - no two of the slots from *AT on that are of one domain may get the
 * same name. Two that had the same name before are the file's own doing. */
static ckpt_status check_domain(const struct group *g, const struct slot *slots, size_t n, size_t *at,
                                ckpt_error *err)
{
    map *names = map_new_index(0, then_of, slots);
    ckpt_status st = CKPT_OK;
    uint32_t old, domain = slots[*at].domain;
    for (; st == CKPT_OK && *at < n && slots[*at].domain == domain; ++*at) {
        if (!names || !map_put(names, slots[*at].then, (uint32_t)*at, &old))
            st = fail_memory(err);
        else if (old != MAP_NONE && !str_eq(slots[old].now, slots[*at].now))
            st = collision(g, &slots[old], &slots[*at], err);
    }
    map_free(names);
    return st;
}

static ckpt_status check_group(const struct group *g, ckpt_error *err)
{
    for (size_t i = 0; i < g->n;)
        CKPT_TRY(check_domain(g, g->slots, g->n, &i, err));
    return CKPT_OK;
}

/* overwrite - of _metadata entries that now share a path the last one renamed
 * stays, as in torch's consume_prefix_in_state_dict_if_present: the wrapper's
 * own entry gives way to the wrapped module's. */
static ckpt_status overwrite(struct group *g, ckpt_error *err)
{
    map *names = map_new(g->nmeta);
    ckpt_status st = names ? CKPT_OK : fail_memory(err);
    for (int pass = 0; st == CKPT_OK && pass < 2; pass++) {
        for (size_t i = g->nmeta; st == CKPT_OK && i-- > 0;) {
            uint32_t old;
            if (changes(&g->meta[i]) != (pass == 0))
                continue;
            if (!map_put(names, g->meta[i].then, (uint32_t)i, &old))
                st = fail_memory(err);
            else if (old != MAP_NONE && !str_eq(g->meta[old].now, g->meta[i].now))
                g->meta[i].drop = true;
        }
    }
    map_free(names);
    return st;
}

/* ---- applying */

/* full_name - joined and NUL-terminated, as a key of the root is, but not part of one. */
static ckpt_status full_name(const struct batch *b, const struct group *g, ckpt_str key, bool whole,
                             ckpt_str *out, ckpt_error *err)
{
    ckpt_path_elem path[2] = {{.str = g->where}, {.str = key}};
    uint32_t skip = g->where.len == 0;
    *out = skip && whole ? key : path_join(b->n->p->a, path + skip, 2 - skip);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status apply_slot(struct batch *b, const struct group *g, const struct slot *s, bool meta,
                              ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    ckpt_rename one = {.metadata = meta, .value = !meta, .mapping = (uint32_t)(g - b->groups)};
    struct entry entry;
    if ((!changes(s) && !s->drop) || !entry_at(b->domains[s->domain], s->index, &entry))
        return CKPT_OK;
    const struct edit_at *at = s->drop ? &entry.whole : &entry.name;
    struct edit *e = plan_edit(p, at->node, at->of);
    if (!e)
        return fail_memory(err);
    if (s->drop) {
        e->dropped[at->index] = true;
        return CKPT_OK;
    }
    e->names[at->index] = s->then;
    b->n->changed++;
    if (!meta && !s->value) /* the rows say so themselves */
        return CKPT_OK;
    CKPT_TRY(full_name(b, g, s->now, !meta, &one.from, err));
    CKPT_TRY(full_name(b, g, s->then, !meta, &one.to, err));
    return plan_renamed(p, &one, err);
}

static ckpt_status apply(struct batch *b, ckpt_error *err)
{
    CKPT_TRY(plan_begin_renaming(b->n->p, err));
    for (size_t i = 0; i < b->ngroups; i++) {
        const struct group *g = &b->groups[i];
        for (size_t k = 0; k < g->n; k++)
            CKPT_TRY(apply_slot(b, g, &g->slots[k], false, err));
        for (size_t k = 0; k < g->nmeta; k++)
            CKPT_TRY(apply_slot(b, g, &g->meta[k], true, err));
    }
    return CKPT_OK;
}

/* ---- report */

/* group_in_optimizer - the group of the optimizer that ROW is in by GROUPS, node -> group; or UINT32_MAX. */
static uint32_t group_in_optimizer(const map *groups, const struct row *row)
{
    for (uint32_t k = 0; row->steps && k < row->t.npath; k++) {
        uint32_t g = row->steps[k].node ? map_get_num(groups, map_ptr(row->steps[k].node)) : MAP_NONE;
        if (g != MAP_NONE)
            return g;
    }
    return UINT32_MAX;
}

/* assign_rows - p->mapping_of: to which group each row belongs. */
static ckpt_status assign_rows(struct batch *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    const struct table *t = &p->file->table;
    uint32_t *place, *group_of = arena_array(p->a, b->w.n, sizeof *group_of);
    CKPT_TRY(weights_rows(&b->w, &b->weights, p->root_name, &place, err));
    p->mapping_of = arena_array(p->a, t->nrows, sizeof *p->mapping_of);
    map *optimizers = map_new(0);
    bool ok = group_of && p->mapping_of && optimizers;
    for (size_t i = 0; ok && i < b->ngroups; i++) {
        uint32_t at = b->groups[i].place;
        group_of[at] = (uint32_t)i;
        ok = !b->groups[i].optimizer || map_set_num(optimizers, map_ptr(b->w.places[at].node), (uint32_t)i);
    }
    for (size_t i = 0; ok && i < t->nrows; i++) {
        bool own = place[i] != NO_PLACE && b->w.places[place[i]].mapping;
        p->mapping_of[i] = own ? group_of[place[i]] : group_in_optimizer(optimizers, &t->rows[i]);
    }
    map_free(optimizers);
    return ok ? CKPT_OK : fail_memory(err);
}

/* begin_report - on the first renaming of a plan: its mappings, and the names that rows have before it. */
static ckpt_status begin_report(struct batch *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    if (p->mapping_of)
        return CKPT_OK;
    CKPT_TRY(plan_entries(p, err));
    p->old_names = arena_array(p->a, p->file->table.nrows, sizeof *p->old_names);
    p->mappings = arena_array(p->a, b->ngroups, sizeof *p->mappings);
    if (!p->old_names || !p->mappings)
        return fail_memory(err);
    for (size_t i = 0; i < p->nentries; i++)
        p->old_names[p->entries[i].row] = p->entries[i].name;
    p->nmappings = b->ngroups;
    for (size_t i = 0; i < b->ngroups; i++)
        p->mappings[i] = (ckpt_mapping){.name = b->groups[i].where,
                                        .averaged = b->groups[i].averaged,
                                        .optimizer = b->groups[i].optimizer};
    return assign_rows(b, err);
}

static ckpt_status gather_all(struct batch *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    if (!b->metas)
        return fail_memory(err);
    CKPT_TRY(walk_graph(&b->w, p->file, p->root, p->a, err));
    CKPT_TRY((p->rooted ? weights_below : weights_find)(&b->w, &b->weights, err));
    for (uint32_t i = 0; i < b->w.n; i++)
        CKPT_TRY(gather(b, i, err));
    return begin_report(b, err);
}

static ckpt_status rename_all(struct batch *b, ckpt_error *err)
{
    CKPT_TRY(gather_all(b, err));
    for (size_t i = 0; i < b->ngroups; i++) {
        CKPT_TRY(name_group(b->n, &b->groups[i], err));
        if (b->n->dry)
            continue;
        CKPT_TRY(check_group(&b->groups[i], err));
        CKPT_TRY(overwrite(&b->groups[i], err));
    }
    if (b->n->dry)
        return CKPT_OK;
    CKPT_TRY(apply(b, err));
    return plan_list_renames(b->n->p, err);
}

ckpt_status keys_rename(struct naming *n, ckpt_error *err)
{
    struct batch b = {.n = n, .metas = map_new(0)};
    n->changed = 0;
    n->p->renaming = true;
    ckpt_status st = rename_all(&b, err);
    for (size_t i = 0; i < b.ngroups; i++) {
        free(b.groups[i].slots);
        free(b.groups[i].meta);
    }
    free(b.groups);
    map_free(b.metas);
    walk_free(&b.w);
    if (st != CKPT_OK)
        fail_file(err, n->p->file->path);
    return st;
}
