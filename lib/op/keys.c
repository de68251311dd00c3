/* keys.c - renames keys for strip, add and rename. A first pass over all keys computes new names and finds
 * collisions; the second pass edits the plan, so that an error leaves the plan unchanged. */
#include "op/keys.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "op/weights.h"

/* The state of one keys_rename. */
struct renaming {
    struct rename_rule *rule;
    struct containers containers;
    struct weights weights;
    struct group *groups;
    size_t ngroups, cap_groups;
    map *metadata_nodes;     /* whose keys were gathered */
    struct entries *domains; /* [slot.domain]: those of the container that has the slot */
    size_t ndomains, cap_domains;
};

/* ---- gathering */

/* domain_entry - sets *ENTRY to entry INDEX of DOMAIN, a mapping or a list of names; false: there is none. */
static bool domain_entry(const struct entries *domain, uint32_t index, struct entry *entry)
{
    const ckpt_value *list = domain->node;
    if (domain->pairs || domain->list)
        return entries_get(domain, index, entry);
    if (index < domain->n)
        *entry = (struct entry){.key = list->u.seq.items[index],
                                .key_edit = {list, index, domain->n},
                                .entry_edit = {list, index, domain->n}};
    return index < domain->n;
}

bool is_edited_out(const ckpt_plan *p, const struct edit_target *at)
{
    const struct edit *e = plan_find_edit(p, at->node);
    return e && at->index < e->n && e->dropped[at->index];
}

/* make_slot - sets *SLOT to the key of ENTRY, as edited so far. False: it is not text, or is left out. */
static bool make_slot(const ckpt_plan *p, const struct entry *entry, struct slot *slot)
{
    const struct edit *e = plan_find_edit(p, entry->key_edit.node);
    *slot = (struct slot){0};
    if (!value_text(entry->key, &slot->old_name) || is_edited_out(p, &entry->key_edit) ||
        is_edited_out(p, &entry->entry_edit))
        return false;
    if (e && entry->key_edit.index < e->n && e->names[entry->key_edit.index].ptr)
        slot->old_name = e->names[entry->key_edit.index];
    slot->new_name = slot->old_name;
    return true;
}

/* holds_tensors - returns true if VALUE is a tensor, or a container with tensors in it. */
static bool holds_tensors(const struct containers *tree, const ckpt_value *value)
{
    if (!value || is_tensor_node(tree, value))
        return value != NULL;
    uint32_t at = container_of_node(tree, value);
    return at != NO_CONTAINER && tree->list[at].tensors_below;
}

/* is_parameter_entry - returns true if the key of ENTRY, an entry of the weights, names a parameter. A dict
 * that a training loop filled by hand may have "epoch" and "optimizer" next to the parameters. */
static bool is_parameter_entry(const struct containers *tree, const struct entry *entry)
{
    ckpt_str key;
    return is_tensor_node(tree, entry->val) || !value_text(entry->key, &key) ||
           str_starts(key, STR_LIT("_")) || str_has(key, STR_LIT("."));
}

/* gather_entries - adds the keys of CONTAINER to SLOTS. ONLY_PARAMETERS: a key that names no parameter keeps
 * its name. */
static ckpt_status gather_entries(struct renaming *job, const ckpt_value *container, bool only_parameters,
                                  struct slots *slots, ckpt_error *err)
{
    uint32_t domain = (uint32_t)job->ndomains; /* at most one for each node of the graph */
    struct entries all = mapping_entries(container);
    all.n = container->type == CKPT_V_LIST ? container->u.seq.n : all.n;
    struct entry e;
    struct slot slot;
    CKPT_TRY_ALLOC(ARENA_PUSH(job->rule->plan->a, job, domains, &all), err);
    for (uint32_t i = 0; i < all.n; i++) {
        if (!domain_entry(&all, i, &e) || !make_slot(job->rule->plan, &e, &slot) ||
            !plan_keeps_entry(job->rule->plan, e.entry_edit.node, e.entry_edit.index))
            continue;
        slot.domain = domain;
        slot.index = i;
        slot.has_tensor = holds_tensors(&job->containers, e.val);
        slot.keeps_name = only_parameters && !is_parameter_entry(&job->containers, &e);
        CKPT_TRY_ALLOC(arena_push(NULL, &slots->list, &slots->n, &slots->cap, &slot, sizeof slot), err);
    }
    return CKPT_OK;
}

/* gather_list - adds the names in LIST to the keys of GROUP. Does nothing if LIST is not a list. */
static ckpt_status gather_list(struct renaming *job, struct group *group, const ckpt_value *list,
                               ckpt_error *err)
{
    bool is_list = list && list->type == CKPT_V_LIST;
    return is_list ? gather_entries(job, list, false, &group->keys, err) : CKPT_OK;
}

static bool holds_text(const ckpt_value *list)
{
    ckpt_str text;
    for (uint32_t i = 0; i < value_count(list); i++)
        if (value_text(value_item(list, i), &text))
            return true;
    return false;
}

/* skip_number_keys - excludes from renaming the keys of `state` that are texts of digits (the numbers of
 * parameters in a distributed checkpoint), unless a parameter group has names in its lists. */
static void skip_number_keys(struct group *group, const ckpt_value *groups)
{
    uint64_t number;
    for (uint32_t i = 0; i < value_count(groups); i++)
        if (holds_text(mapping_get(value_item(groups, i), "params")) ||
            holds_text(mapping_get(value_item(groups, i), "param_names")))
            return;
    for (size_t i = 0; i < group->keys.n; i++)
        group->keys.list[i].keeps_name |= str_uint(group->keys.list[i].old_name, &number);
}

/* gather_optimizer - gathers an optimizer's names: keys of `state`, and lists in its parameter groups. */
static ckpt_status gather_optimizer(struct renaming *job, struct group *group, const ckpt_value *opt,
                                    ckpt_error *err)
{
    const ckpt_value *groups = mapping_get(opt, "param_groups");
    uint32_t n = value_count(groups);
    const ckpt_value *state = mapping_get(opt, "state");
    CKPT_TRY(gather_entries(job, state, false, &group->keys, err));
    skip_number_keys(group, groups);
    for (uint32_t i = 0; groups->type == CKPT_V_LIST && i < n; i++) {
        CKPT_TRY(gather_list(job, group, mapping_get(value_item(groups, i), "params"), err));
        CKPT_TRY(gather_list(job, group, mapping_get(value_item(groups, i), "param_names"), err));
    }
    return CKPT_OK;
}

/* gather_metadata - gathers the module paths in the _metadata of MAPPING, only once if mappings share it. */
static ckpt_status gather_metadata(struct renaming *job, struct group *group, const ckpt_value *mapping,
                                   ckpt_error *err)
{
    const ckpt_value *meta = mapping_metadata(mapping);
    uint32_t earlier;
    if (!meta)
        return CKPT_OK;
    CKPT_TRY_ALLOC(map_put_num(job->metadata_nodes, ptr_key(meta), 0, &earlier), err);
    if (earlier != MAP_NONE)
        return CKPT_OK;
    return gather_entries(job, meta, false, &group->modules, err);
}

static ckpt_status gather_group(struct renaming *job, uint32_t at, ckpt_error *err)
{
    const struct container *p = &job->containers.list[at];
    if (!p->is_optimizer && (!p->is_mapping || !job->weights.role[at]))
        return CKPT_OK;
    struct group *g = arena_append(NULL, &job->groups, &job->ngroups, &job->cap_groups, sizeof *g);
    CKPT_TRY_ALLOC(g, err);
    *g = (struct group){.where = container_name(&job->containers, at),
                        .container = at,
                        .node = p->node,
                        .is_optimizer = p->is_optimizer,
                        .is_averaged = job->weights.role[at] == WEIGHTS_AVERAGED};
    CKPT_TRY_ALLOC(g->where.ptr, err);
    if (p->is_optimizer)
        return gather_optimizer(job, g, p->node, err);
    CKPT_TRY(gather_entries(job, p->node, !p->has_metadata, &g->keys, err));
    return gather_metadata(job, g, p->node, err);
}

/* ---- naming */

/* make_module_name - sets *OUT to the new path of module PATH: rename_key() of "PATH.", without the dot. */
static ckpt_status make_module_name(struct rename_rule *rule, ckpt_str path, ckpt_str *out, ckpt_error *err)
{
    ckpt_str key = path, renamed;
    *out = path;
    if (!path.len && !rule->renames_root_module)
        return CKPT_OK;
    if (path.len)
        key = ARENA_CONCAT(rule->plan->a, path, STR_LIT("."));
    CKPT_TRY_ALLOC(key.ptr, err);
    CKPT_TRY(rule->rename_key(rule, key, &renamed, err));
    if (str_ends(renamed, STR_LIT(".")))
        *out = str_of(renamed.ptr, renamed.len - 1);
    else if (!renamed.len)
        *out = STR_LIT("");
    return CKPT_OK;
}

static ckpt_status check_name(const struct slot *slot, ckpt_error *err)
{
    if (!slot->new_name.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" would have no name left",
                    STR_ARG(slot->old_name));
    if (!utf8_check(slot->new_name, true, NULL) && utf8_check(slot->old_name, true, NULL))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the new name of \"%.*s\" is not UTF-8",
                    STR_ARG(slot->old_name));
    return CKPT_OK;
}

static ckpt_status make_key_names(struct rename_rule *rule, const struct slots *keys, ckpt_error *err)
{
    for (size_t i = 0; i < keys->n; i++) {
        struct slot *slot = &keys->list[i];
        if (slot->keeps_name)
            continue;
        CKPT_TRY(rule->rename_key(rule, slot->old_name, &slot->new_name, err));
        if (str_eq(slot->old_name, slot->new_name))
            slot->new_name = slot->old_name;
        else
            CKPT_TRY(check_name(slot, err));
    }
    return CKPT_OK;
}

static bool is_renamed(const struct slot *slot) { return !str_eq(slot->old_name, slot->new_name); }

/* overlap_length - returns how many bytes at the start of PREFIX, but not all, are also the end of "PATH.":
 * 4 ("b.c.") if PATH is "a.b.c" and PREFIX is "b.c.d."; 0: none. */
static size_t overlap_length(ckpt_str path, ckpt_str prefix)
{
    for (size_t n = prefix.len < path.len + 2 ? prefix.len : path.len + 2; COUNT_DOWN(n) && n;) {
        size_t from = path.len + 1 - n;
        if (prefix.ptr[n - 1] == '.' && memcmp(path.ptr + from, prefix.ptr, n - 1) == 0 &&
            (from == 0 || path.ptr[from - 1] == '.'))
            return n;
    }
    return 0;
}

/* index_modules - adds to MODULES the module paths in the new names of keys: "a" and "a.b" of "a.b.c". */
static ckpt_status index_modules(const struct group *group, map *modules, ckpt_error *err)
{
    for (size_t i = 0; i < group->keys.n; i++) {
        uint32_t known = MAP_NONE;
        ckpt_str name = group->keys.list[i].new_name;
        for (size_t k = name.len; COUNT_DOWN(k) && known == MAP_NONE;) /* parents of a known one are known */
            if (name.ptr[k] == '.' && !map_put(modules, str_of(name.ptr, k), 0, &known))
                return fail_memory(err);
    }
    return CKPT_OK;
}

/* strip_module_paths - renames modules whose paths end in only the first part of the stripped prefix. If
 * "_orig_mod.module." was removed from all keys, no key is below the module "_orig_mod" any more: that module
 * gets the path that the module "_orig_mod.module" gets. */
static ckpt_status strip_module_paths(struct rename_rule *rule, struct group *group, ckpt_error *err)
{
    map *modules = NULL;
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; i < group->modules.n && st == CKPT_OK; i++) {
        struct slot *slot = &group->modules.list[i];
        size_t overlap = is_renamed(slot) ? 0 : overlap_length(slot->old_name, rule->stripped_prefix);
        ckpt_str completed, renamed;
        if (!overlap)
            continue;
        if (!modules)
            st = (modules = map_new(group->keys.n)) ? index_modules(group, modules, err) : fail_memory(err);
        if (st != CKPT_OK || map_get(modules, slot->old_name) != MAP_NONE)
            continue;
        /* appends the dot at the end of the overlap, and what follows it in the prefix */
        completed = ARENA_CONCAT(rule->plan->a, slot->old_name, str_skip(rule->stripped_prefix, overlap - 1));
        st = completed.ptr ? rule->rename_key(rule, completed, &renamed, err) : fail_memory(err);
        if (st == CKPT_OK && !str_eq(completed, renamed))
            slot->new_name = str_of(renamed.ptr, renamed.len ? renamed.len - 1 : 0); /* without the dot */
    }
    map_free(modules);
    return st;
}

static ckpt_status make_group_names(struct rename_rule *rule, struct group *group, ckpt_error *err)
{
    if (rule->begin_group)
        CKPT_TRY(rule->begin_group(rule, group, err));
    CKPT_TRY(make_key_names(rule, &group->keys, err));
    if (rule->end_group)
        rule->end_group(rule, group);
    if (rule->modules_follow_keys)
        return rename_module_paths(rule->plan->a, group, err);
    for (size_t i = 0; i < group->modules.n; i++)
        CKPT_TRY(
            make_module_name(rule, group->modules.list[i].old_name, &group->modules.list[i].new_name, err));
    return str_ends(rule->stripped_prefix, STR_LIT(".")) ? strip_module_paths(rule, group, err) : CKPT_OK;
}

static ckpt_status fail_collision(const struct group *group, const struct slot *left,
                                  const struct slot *right, ckpt_error *err)
{
    const struct slot *renamed = is_renamed(right) ? right : left, *other = renamed == right ? left : right;
    if (is_renamed(other))
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" and \"%.*s\" would both become \"%.*s\"",
                   STR_ARG(other->old_name), STR_ARG(renamed->old_name), STR_ARG(renamed->new_name));
    else
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "\"%.*s\" would become \"%.*s\", which exists already",
                   STR_ARG(renamed->old_name), STR_ARG(renamed->new_name));
    error_add_where(err, "%.*s", STR_ARG(group->where));
    return CKPT_EEXIST;
}

static ckpt_str slot_new_name(const void *slots, uint32_t index)
{
    return ((const struct slot *)slots)[index].new_name;
}

/* is_change_of_start - returns true if all those of COUNT SLOTS that are renamed get one text in place of
 * another at their start, and the others do not begin with it: then names that differed still differ. */
static bool is_change_of_start(const struct slot *slots, size_t count)
{
    size_t i = 0, same = 0;
    while (i < count && !is_renamed(&slots[i]))
        i++;
    if (i == count)
        return true;
    ckpt_str old = slots[i].old_name, new = slots[i].new_name;
    while (same < old.len && same < new.len && old.ptr[old.len - same - 1] == new.ptr[new.len - same - 1])
        same++;
    ckpt_str from = str_first(old, old.len - same), to = str_first(new, new.len - same);
    for (i = 0; i < count; i++) {
        old = slots[i].old_name;
        new = slots[i].new_name;
        if (is_renamed(&slots[i]) ? !str_take(&old, from) || !str_take(&new, to) || !str_eq(old, new)
                                  : str_starts(old, to))
            return false;
    }
    return true;
}

/* check_domain_names - refuses two slots of one domain that get the same name, unless they had the same name
 * before. The slots of the domain begin at *AT, which moves to those of the next domain. */
static ckpt_status check_domain_names(const struct group *group, size_t *at, ckpt_error *err)
{
    const struct slot *slots = group->keys.list;
    size_t end = *at;
    while (end < group->keys.n && slots[end].domain == slots[*at].domain)
        end++;
    if (is_change_of_start(slots + *at, end - *at)) {
        *at = end;
        return CKPT_OK;
    }
    map *names = map_new_index(end - *at, slot_new_name, slots);
    ckpt_status st = CKPT_OK;
    uint32_t earlier;
    for (; st == CKPT_OK && *at < end; ++*at) {
        if (!names || !map_put(names, slots[*at].new_name, (uint32_t)*at, &earlier))
            st = fail_memory(err);
        else if (earlier != MAP_NONE && !str_eq(slots[earlier].old_name, slots[*at].old_name))
            st = fail_collision(group, &slots[earlier], &slots[*at], err);
    }
    map_free(names);
    return st;
}

/* drop_overwritten - drops, of the _metadata entries with the same new path, all but the last renamed one, as
 * torch's consume_prefix_in_state_dict_if_present does. */
static ckpt_status drop_overwritten(struct group *group, ckpt_error *err)
{
    struct slot *slots = group->modules.list;
    map *names = map_new(group->modules.n);
    ckpt_status st = names ? CKPT_OK : fail_memory(err);
    for (int pass = 0; st == CKPT_OK && pass < 2; pass++) { /* renamed entries, then the others */
        for (size_t i = group->modules.n; st == CKPT_OK && COUNT_DOWN(i);) {
            uint32_t earlier;
            if (is_renamed(&slots[i]) != (pass == 0))
                continue;
            if (!map_put(names, slots[i].new_name, (uint32_t)i, &earlier))
                st = fail_memory(err);
            else if (earlier != MAP_NONE && !str_eq(slots[earlier].old_name, slots[i].old_name))
                slots[i].dropped = true;
        }
    }
    map_free(names);
    return st;
}

/* ---- applying */

/* join_name - sets *OUT to the joined name of KEY in GROUP, NUL-terminated. */
static ckpt_status join_name(const struct renaming *job, const struct group *group, ckpt_str key,
                             ckpt_str *out, ckpt_error *err)
{
    ckpt_path_elem path[2] = {{.str = group->where}, {.str = key}};
    uint32_t skip = group->where.len == 0;
    *out = path_join(job->rule->plan->a, path + skip, 2 - skip);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

static ckpt_status apply_rename(struct renaming *job, const struct group *group, const struct slot *slot,
                                bool in_metadata, ckpt_error *err)
{
    ckpt_plan *p = job->rule->plan;
    struct entry entry;
    if ((!is_renamed(slot) && !slot->dropped) ||
        !domain_entry(&job->domains[slot->domain], slot->index, &entry))
        return CKPT_OK;
    const struct edit_target *at = slot->dropped ? &entry.entry_edit : &entry.key_edit;
    struct edit *e = plan_find_or_add_edit(p, at->node, at->count);
    CKPT_TRY_ALLOC(e, err);
    if (slot->dropped) {
        e->dropped[at->index] = true;
        return CKPT_OK;
    }
    e->names[at->index] = slot->new_name;
    job->rule->nchanged++;
    if (!in_metadata && slot->has_tensor) /* plan_count_renames finds the renamed tensors */
        return CKPT_OK;
    ckpt_rename renamed = {
        .metadata = in_metadata, .value = !in_metadata, .mapping = (uint32_t)(group - job->groups)};
    CKPT_TRY(join_name(job, group, slot->old_name, &renamed.from, err));
    CKPT_TRY(join_name(job, group, slot->new_name, &renamed.to, err));
    return plan_note_renamed(p, &renamed, err);
}

static ckpt_status apply_renames(struct renaming *job, ckpt_error *err)
{
    CKPT_TRY(plan_begin_renaming(job->rule->plan, err));
    for (size_t i = 0; i < job->ngroups; i++) {
        const struct group *g = &job->groups[i];
        for (size_t k = 0; k < g->keys.n; k++)
            CKPT_TRY(apply_rename(job, g, &g->keys.list[k], false, err));
        for (size_t k = 0; k < g->modules.n; k++)
            CKPT_TRY(apply_rename(job, g, &g->modules.list[k], true, err));
    }
    return CKPT_OK;
}

/* ---- report */

/* find_optimizer_group - returns the group of row INDEX's optimizer, by GROUPS (node -> group), or
 * UINT32_MAX. */
static uint32_t find_optimizer_group(const map *groups, const struct table *table, size_t index)
{
    const struct step *steps = table_steps_of(table, index);
    for (uint32_t k = 0; steps && k < table_npath_of(table, index); k++) {
        uint32_t g = steps[k].node ? map_get_num(groups, ptr_key(steps[k].node)) : MAP_NONE;
        if (g != MAP_NONE)
            return g;
    }
    return UINT32_MAX;
}

static ckpt_status assign_rows_to_groups(struct renaming *job, ckpt_error *err)
{
    ckpt_plan *p = job->rule->plan;
    const struct table *t = &p->file->table;
    uint32_t *of_row, *group_of = arena_array(p->a, job->containers.n, sizeof *group_of);
    CKPT_TRY(weights_rows(&job->containers, &job->weights, p->root_name, &of_row, err));
    map *optimizers = map_new(0);
    bool ok = group_of && optimizers;
    for (size_t i = 0; ok && i < job->ngroups; i++) {
        uint32_t at = job->groups[i].container;
        group_of[at] = (uint32_t)i;
        ok = !job->groups[i].is_optimizer ||
             map_set_num(optimizers, ptr_key(job->containers.list[at].node), (uint32_t)i);
    }
    for (size_t i = 0; ok && i < t->nrows; i++) { /* OF_ROW[I] is a container, and becomes its group */
        bool is_entry = of_row[i] != NO_CONTAINER && job->containers.list[of_row[i]].is_mapping;
        of_row[i] = is_entry ? group_of[of_row[i]] : find_optimizer_group(optimizers, t, i);
    }
    map_free(optimizers);
    p->renames.mapping_of = ok ? arena_array(p->a, p->cap_rows, sizeof *of_row) : NULL;
    CKPT_TRY_ALLOC(p->renames.mapping_of, err);
    memcpy(p->renames.mapping_of, of_row, t->nrows * sizeof *of_row);
    return CKPT_OK;
}

/* record_old_names - records, at the first renaming of a plan, its mappings and the old names of its rows. */
static ckpt_status record_old_names(struct renaming *job, ckpt_error *err)
{
    ckpt_plan *p = job->rule->plan;
    if (p->renames.mapping_of)
        return CKPT_OK;
    p->renames.mappings = arena_array(p->a, job->ngroups, sizeof *p->renames.mappings);
    CKPT_TRY_ALLOC(p->renames.mappings, err);
    CKPT_TRY(plan_keep_old_names(p, err));
    p->renames.nmappings = job->ngroups;
    for (size_t i = 0; i < job->ngroups; i++)
        p->renames.mappings[i] = (ckpt_mapping){.name = job->groups[i].where,
                                                .averaged = job->groups[i].is_averaged,
                                                .optimizer = job->groups[i].is_optimizer};
    return assign_rows_to_groups(job, err);
}

static ckpt_status gather_all(struct renaming *job, ckpt_error *err)
{
    ckpt_plan *p = job->rule->plan;
    CKPT_TRY_ALLOC(job->metadata_nodes, err);
    if (plan_leaves_rows_out(p))
        CKPT_TRY(plan_index_entry_rows(p, err));
    CKPT_TRY(containers_find(&job->containers, p->file, p->root, p->a, err));
    CKPT_TRY((p->has_root ? weights_below : weights_find)(&job->containers, &job->weights, err));
    for (uint32_t i = 0; i < job->containers.n; i++)
        CKPT_TRY(gather_group(job, i, err));
    return record_old_names(job, err);
}

static ckpt_status rename_all(struct renaming *job, ckpt_error *err)
{
    CKPT_TRY(gather_all(job, err));
    for (size_t i = 0; i < job->ngroups; i++) {
        CKPT_TRY(make_group_names(job->rule, &job->groups[i], err));
        if (job->rule->dry_run)
            continue;
        for (size_t at = 0; at < job->groups[i].keys.n;)
            CKPT_TRY(check_domain_names(&job->groups[i], &at, err));
        CKPT_TRY(drop_overwritten(&job->groups[i], err));
    }
    if (job->rule->dry_run)
        return CKPT_OK;
    CKPT_TRY(apply_renames(job, err));
    return plan_count_renames(job->rule->plan, err);
}

ckpt_status keys_rename(struct rename_rule *rule, ckpt_error *err)
{
    struct renaming job = {.rule = rule, .metadata_nodes = map_new(0)};
    rule->nchanged = 0;
    rule->plan->renaming = true;
    ckpt_status st = rename_all(&job, err);
    for (size_t i = 0; i < job.ngroups; i++) {
        free(job.groups[i].keys.list);
        free(job.groups[i].modules.list);
    }
    free(job.groups);
    map_free(job.metadata_nodes);
    containers_free(&job.containers);
    return name_file_if_failed(st, rule->plan->file->path, err);
}
