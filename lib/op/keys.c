/* keys.c - renames keys for strip, add and rename. A first pass over all keys computes new names and finds
 * collisions; the second pass edits the plan, so that an error leaves the plan unchanged. */
#include "op/keys.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "op/weights.h"

struct renaming {
    struct naming *n;
    struct containers w;
    struct weights weights;
    struct group *groups;
    size_t ngroups, cap_groups;
    map *metas;                 /* the _metadata nodes whose keys were gathered */
    const ckpt_value **domains; /* by number: the container */
    size_t ndomains, cap_domains;
};

ckpt_str concat_texts(arena *a, ckpt_str x, ckpt_str y)
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

/* container_entry - sets *E to entry I of CONTAINER, a mapping or a list of names; false: there is none. */
static bool container_entry(const ckpt_value *container, uint32_t i, struct entry *e)
{
    uint32_t n = container->type == CKPT_V_LIST ? container->u.seq.n : 0;
    if (container->type != CKPT_V_LIST)
        return mapping_entry(container, i, e);
    if (i < n)
        *e = (struct entry){
            .key = container->u.seq.items[i], .name = {container, i, n}, .whole = {container, i, n}};
    return i < n;
}

bool is_edited_out(const ckpt_plan *p, const struct edit_target *at)
{
    const struct edit *e = plan_find_edit(p, at->node);
    return e && at->index < e->n && e->dropped[at->index];
}

/* make_slot - sets *S to the key of ENTRY with its name after earlier edits. False: the key is not text, or
 * is left out. */
static bool make_slot(const ckpt_plan *p, const struct entry *entry, struct slot *s)
{
    const struct edit *e = plan_find_edit(p, entry->name.node);
    *s = (struct slot){0};
    if (!value_text(entry->key, &s->old_name) || is_edited_out(p, &entry->name) ||
        is_edited_out(p, &entry->whole))
        return false;
    if (e && entry->name.index < e->n && e->names[entry->name.index].ptr)
        s->old_name = e->names[entry->name.index];
    s->new_name = s->old_name;
    return true;
}

/* is_kept - returns true unless V is a tensor that --keep or --drop leave out. */
static bool is_kept(const ckpt_plan *p, const ckpt_value *v)
{
    uint32_t row = v ? file_replacement(p->file, v)->row : CKPT_NO_TENSOR;
    return row >= p->file->table.nrows || p->keep[row];
}

/* holds_tensors - returns true if V is a tensor, or a container with tensors in it. */
static bool holds_tensors(const struct containers *w, const ckpt_value *v)
{
    uint32_t at = v ? container_of_node(w, v) : NO_CONTAINER;
    return v && (is_tensor_node(w, v) || (at != NO_CONTAINER && w->list[at].below));
}

/* names_parameter - returns true if the key of E, an entry of weights, names a parameter. A dict that a
 * training loop filled by hand may have "epoch" and "optimizer" next to the parameters. */
static bool names_parameter(const struct containers *w, const struct entry *e)
{
    ckpt_str key;
    return is_tensor_node(w, e->val) || !value_text(e->key, &key) || str_starts(key, STR_LIT("_")) ||
           str_find(key, STR_LIT("."), 0) != SIZE_MAX;
}

/* gather_entries - adds the keys of CONTAINER, which has N entries, to SLOTS. */
static ckpt_status gather_entries(struct renaming *b, const ckpt_value *container, uint32_t n,
                                  struct slots *slots, ckpt_error *err)
{
    uint32_t domain = (uint32_t)b->ndomains; /* bounded: as many are in the graph */
    struct entry e;
    struct slot s;
    if (!arena_push(b->n->p->a, &b->domains, &b->ndomains, &b->cap_domains, &container, sizeof container))
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        if (!container_entry(container, i, &e) || !make_slot(b->n->p, &e, &s) || !is_kept(b->n->p, e.val))
            continue;
        s.domain = domain;
        s.index = i;
        s.has_no_tensor = !holds_tensors(&b->w, e.val);
        if (!arena_push(NULL, &slots->at, &slots->n, &slots->cap, &s, sizeof s))
            return fail_memory(err);
    }
    return CKPT_OK;
}

/* gather_list - adds the names in LIST to the keys of G. Does nothing if LIST is not a list. */
static ckpt_status gather_list(struct renaming *b, struct group *g, const ckpt_value *list, ckpt_error *err)
{
    bool is_list = list && list->type == CKPT_V_LIST;
    return is_list ? gather_entries(b, list, list->u.seq.n, &g->keys, err) : CKPT_OK;
}

static bool holds_text(const ckpt_value *list)
{
    ckpt_str text;
    for (uint32_t i = 0; i < value_count(list); i++)
        if (value_text(value_item(list, i), &text))
            return true;
    return false;
}

/* keep_numbers - excludes from renaming the keys of `state` that are numbers, unless the parameter groups
 * list names. A distributed checkpoint has the numbers of parameters as texts. */
static void keep_numbers(struct group *g, const ckpt_value *groups)
{
    uint64_t number;
    for (uint32_t i = 0; i < value_count(groups); i++)
        if (holds_text(mapping_get(value_item(groups, i), "params")) ||
            holds_text(mapping_get(value_item(groups, i), "param_names")))
            return;
    for (size_t i = 0; i < g->keys.n; i++)
        g->keys.at[i].keeps_name |= str_uint(g->keys.at[i].old_name, &number);
}

/* gather_optimizer - gathers the names in an optimizer's state: text keys of `state`, and the lists of names
 * in each parameter group. */
static ckpt_status gather_optimizer(struct renaming *b, struct group *g, const ckpt_value *opt,
                                    ckpt_error *err)
{
    const ckpt_value *groups = mapping_get(opt, "param_groups");
    uint32_t n = value_count(groups);
    const ckpt_value *state = mapping_get(opt, "state");
    CKPT_TRY(gather_entries(b, state, mapping_count(state), &g->keys, err));
    keep_numbers(g, groups);
    for (uint32_t i = 0; groups->type == CKPT_V_LIST && i < n; i++) {
        CKPT_TRY(gather_list(b, g, mapping_get(value_item(groups, i), "params"), err));
        CKPT_TRY(gather_list(b, g, mapping_get(value_item(groups, i), "param_names"), err));
    }
    return CKPT_OK;
}

/* gather_weights - gathers the keys of P. If P has no _metadata, some keys may not name parameters. */
static ckpt_status gather_weights(struct renaming *b, struct group *g, const struct container *p,
                                  ckpt_error *err)
{
    struct entry e;
    CKPT_TRY(gather_entries(b, p->node, p->entries, &g->keys, err));
    for (size_t i = 0; !p->metadata && i < g->keys.n; i++)
        g->keys.at[i].keeps_name = mapping_entry(p->node, g->keys.at[i].index, &e) &&
                                   !names_parameter(&b->w, &e);
    return CKPT_OK;
}

static ckpt_status gather_metadata(struct renaming *b, struct group *g, const ckpt_value *mapping,
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
    return gather_entries(b, meta, mapping_count(meta), &g->modules, err);
}

static ckpt_status gather_group(struct renaming *b, uint32_t at, ckpt_error *err)
{
    const struct container *p = &b->w.list[at];
    if (!p->optimizer && (!p->mapping || !b->weights.role[at]))
        return CKPT_OK;
    struct group *g = arena_append(NULL, &b->groups, &b->ngroups, &b->cap_groups, sizeof *g);
    if (!g)
        return fail_memory(err);
    *g = (struct group){.where = container_name(&b->w, at),
                        .container = at,
                        .node = p->node,
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

/* name_module - sets *OUT to the new path of module PATH: what key() returns for PATH and a dot, without the
 * dot. */
static ckpt_status name_module(struct naming *n, ckpt_str path, ckpt_str *out, ckpt_error *err)
{
    ckpt_str key = path, then;
    *out = path;
    if (!path.len && !n->root_module)
        return CKPT_OK;
    if (path.len)
        key = concat_texts(n->p->a, path, STR_LIT("."));
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
    if (!s->new_name.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" would have no name left",
                    STR_ARG(s->old_name));
    if (utf8_check(s->old_name, true, NULL) && !utf8_check(s->new_name, true, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the new name of \"%.*s\" is not UTF-8",
                    STR_ARG(s->old_name));
    return CKPT_OK;
}

static ckpt_status name_keys(struct naming *n, const struct slots *keys, ckpt_error *err)
{
    for (size_t i = 0; i < keys->n; i++) {
        struct slot *s = &keys->at[i];
        if (s->keeps_name)
            continue;
        CKPT_TRY(n->key(n, s->old_name, &s->new_name, err));
        if (str_eq(s->old_name, s->new_name))
            s->new_name = s->old_name;
        else
            CKPT_TRY(check_name(s, err));
    }
    return CKPT_OK;
}

static bool is_renamed(const struct slot *s) { return !str_eq(s->old_name, s->new_name); }

/* prefix_overlap - returns the length of the longest start of PREFIX ("b.c.d.") with which PATH and a dot
 * ("a.b.c.") end, or 0. */
static size_t prefix_overlap(ckpt_str path, ckpt_str prefix)
{
    for (size_t k = prefix.len; k-- > 1;) {
        size_t from = path.len + 1 - k; /* bounded: used only if k - 1 <= path.len */
        if (prefix.ptr[k - 1] == '.' && k - 1 <= path.len &&
            memcmp(path.ptr + from, prefix.ptr, k - 1) == 0 && (from == 0 || path.ptr[from - 1] == '.'))
            return k;
    }
    return 0;
}

/* index_modules - adds to MODULES the paths of all modules that have keys, by the new names of these. */
static ckpt_status index_modules(const struct group *g, map *modules, ckpt_error *err)
{
    for (size_t i = 0; i < g->keys.n; i++) {
        uint32_t old = MAP_NONE;
        ckpt_str name = g->keys.at[i].new_name;
        for (size_t k = name.len; k-- > 0 && old == MAP_NONE;)
            if (name.ptr[k] == '.' && !map_put(modules, str_of(name.ptr, k), 0, &old))
                return fail_memory(err);
    }
    return CKPT_OK;
}

/* strip_module_paths - renames modules whose paths end inside of the stripped prefix. If "_orig_mod.module."
 * was removed from all keys, no key is below the module "_orig_mod" any more, and it gets the path that the
 * module "_orig_mod.module" gets. */
static ckpt_status strip_module_paths(struct naming *n, struct group *g, ckpt_error *err)
{
    map *modules = NULL;
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; i < g->modules.n && st == CKPT_OK; i++) {
        struct slot *s = &g->modules.at[i];
        size_t k = is_renamed(s) ? 0 : prefix_overlap(s->old_name, n->stripped);
        ckpt_str all, then;
        if (!k)
            continue;
        if (!modules)
            st = (modules = map_new(g->keys.n)) ? index_modules(g, modules, err) : fail_memory(err);
        if (st != CKPT_OK || map_get(modules, s->old_name) != MAP_NONE)
            continue;
        /* appends the rest of the prefix, from the dot after the path */
        all = concat_texts(n->p->a, s->old_name, str_skip(n->stripped, k - 1));
        st = all.ptr ? n->key(n, all, &then, err) : fail_memory(err);
        if (st == CKPT_OK && !str_eq(all, then))
            s->new_name = str_of(then.ptr, then.len ? then.len - 1 : 0);
    }
    map_free(modules);
    return st;
}

static ckpt_status name_group(struct naming *n, struct group *g, ckpt_error *err)
{
    if (n->begin)
        CKPT_TRY(n->begin(n, g, err));
    CKPT_TRY(name_keys(n, &g->keys, err));
    if (n->end)
        n->end(n, g);
    if (n->modules_follow)
        return rename_module_paths(n->p->a, g, err);
    for (size_t i = 0; i < g->modules.n; i++)
        CKPT_TRY(name_module(n, g->modules.at[i].old_name, &g->modules.at[i].new_name, err));
    bool ends_with_dot = n->stripped.len && n->stripped.ptr[n->stripped.len - 1] == '.';
    return ends_with_dot ? strip_module_paths(n, g, err) : CKPT_OK;
}

static ckpt_status fail_collision(const struct group *g, const struct slot *a, const struct slot *b,
                                  ckpt_error *err)
{
    const struct slot *renamed = is_renamed(b) ? b : a, *other = renamed == b ? a : b;
    if (is_renamed(other))
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" and \"%.*s\" would both become \"%.*s\"",
                   STR_ARG(other->old_name), STR_ARG(renamed->old_name), STR_ARG(renamed->new_name));
    else
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" would become \"%.*s\", which exists already",
                   STR_ARG(renamed->old_name), STR_ARG(renamed->new_name));
    fail_where(err, "%.*s", STR_ARG(g->where));
    return CKPT_EEXIST;
}

static ckpt_str slot_new_name(const void *slots, uint32_t i)
{
    return ((const struct slot *)slots)[i].new_name;
}

/* check_domain - refuses two slots of one domain that get the same name, unless they had the same name
 * before. The slots of the domain begin at *AT, which moves to those of the next domain. */
static ckpt_status check_domain(const struct group *g, size_t *at, ckpt_error *err)
{
    const struct slot *slots = g->keys.at;
    map *names = map_new_index(0, slot_new_name, slots);
    ckpt_status st = CKPT_OK;
    uint32_t old, domain = slots[*at].domain;
    for (; st == CKPT_OK && *at < g->keys.n && slots[*at].domain == domain; ++*at) {
        if (!names || !map_put(names, slots[*at].new_name, (uint32_t)*at, &old))
            st = fail_memory(err);
        else if (old != MAP_NONE && !str_eq(slots[old].old_name, slots[*at].old_name))
            st = fail_collision(g, &slots[old], &slots[*at], err);
    }
    map_free(names);
    return st;
}

/* drop_overwritten - drops, of the _metadata entries with the same new path, all but the last renamed one.
 * So does torch's consume_prefix_in_state_dict_if_present: the entry of the wrapped module replaces that of
 * the wrapper. */
static ckpt_status drop_overwritten(struct group *g, ckpt_error *err)
{
    struct slot *slots = g->modules.at;
    map *names = map_new(g->modules.n);
    ckpt_status st = names ? CKPT_OK : fail_memory(err);
    for (int pass = 0; st == CKPT_OK && pass < 2; pass++) {
        for (size_t i = g->modules.n; st == CKPT_OK && i-- > 0;) {
            uint32_t old;
            if (is_renamed(&slots[i]) != (pass == 0))
                continue;
            if (!map_put(names, slots[i].new_name, (uint32_t)i, &old))
                st = fail_memory(err);
            else if (old != MAP_NONE && !str_eq(slots[old].old_name, slots[i].old_name))
                slots[i].dropped = true;
        }
    }
    map_free(names);
    return st;
}

/* ---- applying */

/* join_name - sets *OUT to the joined name of KEY in G, NUL-terminated. */
static ckpt_status join_name(const struct renaming *b, const struct group *g, ckpt_str key, ckpt_str *out,
                             ckpt_error *err)
{
    ckpt_path_elem path[2] = {{.str = g->where}, {.str = key}};
    uint32_t skip = g->where.len == 0;
    *out = path_join(b->n->p->a, path + skip, 2 - skip);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status apply_rename(struct renaming *b, const struct group *g, const struct slot *s, bool meta,
                                ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    ckpt_rename one = {.metadata = meta, .value = !meta, .mapping = (uint32_t)(g - b->groups)};
    struct entry entry;
    if ((!is_renamed(s) && !s->dropped) || !container_entry(b->domains[s->domain], s->index, &entry))
        return CKPT_OK;
    const struct edit_target *at = s->dropped ? &entry.whole : &entry.name;
    struct edit *e = plan_get_edit(p, at->node, at->count);
    if (!e)
        return fail_memory(err);
    if (s->dropped) {
        e->dropped[at->index] = true;
        return CKPT_OK;
    }
    e->names[at->index] = s->new_name;
    b->n->changed++;
    if (!meta && !s->has_no_tensor) /* plan_count_renames reports rows */
        return CKPT_OK;
    CKPT_TRY(join_name(b, g, s->old_name, &one.from, err));
    CKPT_TRY(join_name(b, g, s->new_name, &one.to, err));
    return plan_note_renamed(p, &one, err);
}

static ckpt_status apply_renames(struct renaming *b, ckpt_error *err)
{
    CKPT_TRY(plan_begin_renaming(b->n->p, err));
    for (size_t i = 0; i < b->ngroups; i++) {
        const struct group *g = &b->groups[i];
        for (size_t k = 0; k < g->keys.n; k++)
            CKPT_TRY(apply_rename(b, g, &g->keys.at[k], false, err));
        for (size_t k = 0; k < g->modules.n; k++)
            CKPT_TRY(apply_rename(b, g, &g->modules.at[k], true, err));
    }
    return CKPT_OK;
}

/* ---- report */

/* find_optimizer_group - returns the group of the optimizer that contains ROW, or UINT32_MAX. GROUPS: node
 * of an optimizer -> group. */
static uint32_t find_optimizer_group(const map *groups, const struct row *row)
{
    for (uint32_t k = 0; row->steps && k < row->t.npath; k++) {
        uint32_t g = row->steps[k].node ? map_get_num(groups, map_ptr(row->steps[k].node)) : MAP_NONE;
        if (g != MAP_NONE)
            return g;
    }
    return UINT32_MAX;
}

/* assign_rows - fills p->mapping_of: the group of each row. */
static ckpt_status assign_rows(struct renaming *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    const struct table *t = &p->file->table;
    uint32_t *container, *group_of = arena_array(p->a, b->w.n, sizeof *group_of);
    CKPT_TRY(weights_rows(&b->w, &b->weights, p->root_name, &container, err));
    p->mapping_of = arena_array(p->a, t->nrows, sizeof *p->mapping_of);
    map *optimizers = map_new(0);
    bool ok = group_of && p->mapping_of && optimizers;
    for (size_t i = 0; ok && i < b->ngroups; i++) {
        uint32_t at = b->groups[i].container;
        group_of[at] = (uint32_t)i;
        ok = !b->groups[i].optimizer || map_set_num(optimizers, map_ptr(b->w.list[at].node), (uint32_t)i);
    }
    for (size_t i = 0; ok && i < t->nrows; i++) {
        bool own = container[i] != NO_CONTAINER && b->w.list[container[i]].mapping;
        p->mapping_of[i] = own ? group_of[container[i]] : find_optimizer_group(optimizers, &t->rows[i]);
    }
    map_free(optimizers);
    return ok ? CKPT_OK : fail_memory(err);
}

/* begin_report - records, at the first renaming of a plan, its mappings and the old names of its rows. */
static ckpt_status begin_report(struct renaming *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    if (p->mapping_of)
        return CKPT_OK;
    p->mappings = arena_array(p->a, b->ngroups, sizeof *p->mappings);
    if (!p->mappings)
        return fail_memory(err);
    CKPT_TRY(plan_keep_old_names(p, err));
    p->nmappings = b->ngroups;
    for (size_t i = 0; i < b->ngroups; i++)
        p->mappings[i] = (ckpt_mapping){.name = b->groups[i].where,
                                        .averaged = b->groups[i].averaged,
                                        .optimizer = b->groups[i].optimizer};
    return assign_rows(b, err);
}

static ckpt_status gather_all(struct renaming *b, ckpt_error *err)
{
    ckpt_plan *p = b->n->p;
    if (!b->metas)
        return fail_memory(err);
    CKPT_TRY(containers_find(&b->w, p->file, p->root, p->a, err));
    CKPT_TRY((p->rooted ? weights_below : weights_find)(&b->w, &b->weights, err));
    for (uint32_t i = 0; i < b->w.n; i++)
        CKPT_TRY(gather_group(b, i, err));
    return begin_report(b, err);
}

static ckpt_status rename_all(struct renaming *b, ckpt_error *err)
{
    CKPT_TRY(gather_all(b, err));
    for (size_t i = 0; i < b->ngroups; i++) {
        CKPT_TRY(name_group(b->n, &b->groups[i], err));
        if (b->n->dry_run)
            continue;
        for (size_t at = 0; at < b->groups[i].keys.n;)
            CKPT_TRY(check_domain(&b->groups[i], &at, err));
        CKPT_TRY(drop_overwritten(&b->groups[i], err));
    }
    if (b->n->dry_run)
        return CKPT_OK;
    CKPT_TRY(apply_renames(b, err));
    return plan_count_renames(b->n->p, err);
}

ckpt_status keys_rename(struct naming *n, ckpt_error *err)
{
    struct renaming b = {.n = n, .metas = map_new(0)};
    n->changed = 0;
    n->p->renaming = true;
    ckpt_status st = rename_all(&b, err);
    for (size_t i = 0; i < b.ngroups; i++) {
        free(b.groups[i].keys.at);
        free(b.groups[i].modules.at);
    }
    free(b.groups);
    map_free(b.metas);
    containers_free(&b.w);
    return fail_name_file(st, n->p->file->path, err);
}
