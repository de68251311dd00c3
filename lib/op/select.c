/* select.c - `--root`, `--keep` and `--drop`: which part of a file a plan writes. */

#include "base/text.h"
#include "op/keys.h"
#include "op/root.h"
#include "op/weights.h"

/* ---- root */

/* set_root - makes container AT, whose path is PATH of DEPTH elements, the root of P. */
static ckpt_status set_root(ckpt_plan *p, const struct containers *tree, uint32_t at,
                            const ckpt_path_elem *path, uint32_t depth, ckpt_error *err)
{
    p->root_path = path_copy(p->a, path, depth);
    p->root_name = path_join(p->a, path, depth);
    CKPT_TRY_ALLOC(p->root_path && p->root_name.ptr, err);
    p->root_depth = depth;
    p->root = tree->list[at].node;
    p->has_root = at != 0;
    p->entries_stale = true;
    return CKPT_OK;
}

static ckpt_status set_root_container(ckpt_plan *p, const struct containers *tree, uint32_t at,
                                      ckpt_error *err)
{
    uint32_t depth;
    const ckpt_path_elem *path = container_path(tree, at, &depth);
    return path ? set_root(p, tree, at, path, depth, err) : fail_memory(err);
}

/* drop_other_entries - leaves out the entries of container AT that are not tensors. AT is a state dict with
 * an optimizer among its entries. */
static ckpt_status drop_other_entries(ckpt_plan *p, const struct containers *tree, uint32_t at,
                                      ckpt_error *err)
{
    struct entry e;
    uint32_t n = 0;
    const ckpt_value *mapping = tree->list[at].node;
    for (uint32_t i = 0; i < mapping_count(mapping); i++) {
        if (!mapping_entry(mapping, i, &e) || is_tensor_node(tree, e.val))
            continue;
        struct edit *edit = plan_find_or_add_edit(p, e.entry_edit.node, e.entry_edit.count);
        CKPT_TRY_ALLOC(edit, err);
        edit->dropped[e.entry_edit.index] = true;
        n++;
    }
    plan_notice(p, "the optimizer%s next to the weights %s left out", n > 1 ? " and other values" : "",
                n > 1 ? "are" : "is");
    p->omits_values = true;
    p->entries_stale = true;
    return CKPT_OK;
}

/* add_state_count - adds "N tensors of WHAT" to *LIST if NUMBER is not 0. list->ptr is NULL if out of
 * memory. */
static void add_state_count(arena *a, size_t number, const char *what, ckpt_str *list)
{
    if (!number || !list->ptr)
        return;
    ckpt_str count = arena_printf(a, "%zu tensor%s of %s", number, number == 1 ? "" : "s", what);
    *list = count.ptr ? ARENA_CONCAT(a, *list, str_c(list->len ? ", " : ""), count) : count;
}

/* notice_states - adds the notice that the tensors counted in COUNT, by state, are left out. */
static ckpt_status notice_states(ckpt_plan *p, const size_t count[], ckpt_error *err)
{
    ckpt_str list = STR_LIT("");
    add_state_count(p->a, count[CKPT_STATE_OPTIMIZER], "optimizer state", &list);
    add_state_count(p->a, count[CKPT_STATE_METRIC], "metrics", &list);
    add_state_count(p->a, count[CKPT_STATE_CHECKPOINT], "the checkpoint itself", &list);
    CKPT_TRY_ALLOC(list.ptr, err);
    size_t all = count[CKPT_STATE_OPTIMIZER] + count[CKPT_STATE_METRIC] + count[CKPT_STATE_CHECKPOINT];
    plan_notice(p, "%.*s %s left out", STR_ARG(list), all == 1 ? "is" : "are");
    return CKPT_OK;
}

/* drop_states - leaves out the tensors below the root that only their names show to be no weights, unless all
 * tensors there are. The description stays: plan_drop_description reports it. */
static ckpt_status drop_states(ckpt_plan *p, ckpt_error *err)
{
    size_t n[] = {[CKPT_STATE_NONE] = 0,
                  [CKPT_STATE_OPTIMIZER] = 0,
                  [CKPT_STATE_METRIC] = 0,
                  [CKPT_STATE_CHECKPOINT] = 0};
    uint32_t graph = p->file->description.row;
    CKPT_TRY(plan_update_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++)
        if (p->entries[i].row != graph)
            n[name_state(table_name(&p->file->table, p->entries[i].row))]++;
    if (!n[CKPT_STATE_NONE] || n[CKPT_STATE_NONE] == p->nentries)
        return CKPT_OK;
    size_t dropped = 0;
    for (size_t i = 0; i < p->nentries; i++) {
        uint32_t row = p->entries[i].row;
        bool drops = row != graph && name_state(table_name(&p->file->table, row)) != CKPT_STATE_NONE;
        p->keep[row] = p->keep[row] && !drops;
        dropped += drops;
    }
    p->entries_stale = true;
    return dropped ? notice_states(p, n, err) : CKPT_OK;
}

static ckpt_status set_auto_root(ckpt_plan *p, const struct containers *tree, ckpt_error *err)
{
    struct weights found;
    CKPT_TRY(weights_find(tree, &found, err));
    if (found.container == NO_CONTAINER) {
        plan_notice(p, "%s; everything is taken", found.why);
        return CKPT_OK;
    }
    CKPT_TRY(set_root_container(p, tree, found.container, err));
    if (found.only_own_tensors)
        CKPT_TRY(drop_other_entries(p, tree, found.container, err));
    if (p->root_name.len)
        plan_notice(p, "using the weights under \"%.*s\"%s%s", STR_ARG(p->root_name),
                    found.has_common_name ? "" : ": ", found.has_common_name ? "" : found.why);
    else if (!tree->list[found.container].is_state_dict && !p->omits_values)
        plan_notice(p, "everything is taken: %s", found.why);
    return drop_states(p, err);
}

/* fail_root_not_found - fails because PATH is not a container; the hint lists some that are. */
static ckpt_status fail_root_not_found(const ckpt_plan *p, const struct containers *tree, const char *path,
                                       ckpt_error *err)
{
    ckpt_str names = STR_LIT("");
    uint32_t shown = 0;
    char word[SHELL_WORD_MAX];
    if (file_find_tensor(p->file, str_c(path)) != CKPT_NO_TENSOR)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "\"%s\" is a tensor, not a mapping\n"
                    "--keep %s writes one tensor",
                    path, shell_glob(str_c(path), word));
    for (uint32_t i = 1; i < tree->n && shown < 5; i++) {
        if (!tree->list[i].is_state_dict)
            continue;
        ckpt_str name = container_name(tree, i);
        CKPT_TRY_ALLOC(name.ptr, err);
        names = ARENA_CONCAT(tree->a, names, str_c(shown++ ? ", " : ""), name);
    }
    return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "nothing is called \"%s\"\n%s%.*s", path,
                shown ? "state dicts in this file: " : "`ckpt ls` lists the names", STR_ARG(names));
}

/* strip_keys - removes PREFIX and its dot from the keys of MAPPING; other entries are left out. If
 * IS_METADATA, the key PREFIX itself becomes "", the path of the root module. */
static ckpt_status strip_keys(ckpt_plan *p, const ckpt_value *mapping, ckpt_str prefix, bool is_metadata,
                              ckpt_error *err)
{
    struct entry e;
    ckpt_str key;
    for (uint32_t i = 0; i < mapping_count(mapping); i++) {
        if (!mapping_entry(mapping, i, &e))
            continue;
        bool text = value_text(e.key, &key), below = text && is_below_root(prefix, key);
        bool same = is_metadata && text && str_eq(key, prefix);
        const struct edit_target *target = below || same ? &e.key_edit : &e.entry_edit;
        struct edit *edit = plan_find_or_add_edit(p, target->node, target->count);
        CKPT_TRY_ALLOC(edit, err);
        if (below)
            edit->names[target->index] = str_skip(key, prefix.len + 1);
        else if (same)
            edit->names[target->index] = STR_LIT("");
        else
            edit->dropped[target->index] = true;
    }
    return CKPT_OK;
}

/* find_root_container - sets *OUT to the last container of ROOT, or NO_CONTAINER. */
static ckpt_status find_root_container(const struct containers *tree, const struct root *root, uint32_t *out,
                                       ckpt_error *err)
{
    *out = root->node ? container_of_node(tree, root->node) : NO_CONTAINER;
    for (uint32_t i = 0; *out == NO_CONTAINER && i < tree->n; i++) {
        ckpt_str name = container_name(tree, i);
        CKPT_TRY_ALLOC(name.ptr, err);
        if (str_eq(name, str_of(root->name.ptr, root->containers_len)))
            *out = i;
    }
    return CKPT_OK;
}

/* strip_root_prefix - removes ROOT's prefix of names from the keys of MAPPING and of its _metadata. */
static ckpt_status strip_root_prefix(ckpt_plan *p, const ckpt_value *mapping, const struct root *root,
                                     ckpt_error *err)
{
    const ckpt_value *meta = mapping_metadata(mapping);
    size_t prefix_start = root->containers_len + (root->containers_len != 0); /* after the dot, if any */
    ckpt_str prefix = arena_str(p->a, str_skip(root->name, prefix_start));
    CKPT_TRY_ALLOC(prefix.ptr, err);
    p->has_root = true;
    CKPT_TRY(strip_keys(p, mapping, prefix, false, err));
    return meta ? strip_keys(p, meta, prefix, true, err) : CKPT_OK;
}

static ckpt_status set_named_root(ckpt_plan *p, const struct containers *tree, const char *path,
                                  ckpt_error *err)
{
    struct root r;
    CKPT_TRY(root_find(p->file, path, &r, err));
    bool found = r.name.len != 0;
    if (!found) /* PATH may be an empty container */
        r = (struct root){.name = str_c(path), .containers_len = strlen(path)};
    uint32_t at;
    CKPT_TRY(find_root_container(tree, &r, &at, err));
    bool has_prefix = r.containers_len < r.name.len;
    if (at == NO_CONTAINER || (has_prefix && !tree->list[at].is_mapping))
        return *path ? fail_root_not_found(p, tree, path, err) : CKPT_OK;
    CKPT_TRY(found ? set_root(p, tree, at, r.path, r.depth, err) : set_root_container(p, tree, at, err));
    return has_prefix ? strip_root_prefix(p, tree->list[at].node, &r, err) : CKPT_OK;
}

ckpt_status ckpt_plan_root(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct containers tree;
    CKPT_REQUIRE(err, plan && path);
    ckpt_status st = containers_find(&tree, plan->file, plan->file->root, plan->a, err);
    CKPT_THEN(st, strcmp(path, "auto") == 0 ? set_auto_root(plan, &tree, err)
                                            : set_named_root(plan, &tree, path, err));
    containers_free(&tree);
    return name_file_if_failed(st, plan->file->path, err);
}

/* ---- keep, drop */

/* match_rows - sets matches[row], for each row that is an entry of P, to whether GLOB selects the row or its
 * composite. Sets *ANY to whether it selects any. */
static ckpt_status match_rows(ckpt_plan *p, const char *glob, bool *matches, bool *any, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(p, err));
    *any = false;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        uint32_t composite = table_part_of(&p->file->table, e->row);
        matches[e->row] = composite == CKPT_NO_TENSOR ? glob_selects(glob, e->name) : matches[composite];
        *any |= matches[e->row];
    }
    return CKPT_OK;
}

/* hint_wider_glob - if GLOB between two '*' selects a tensor of P, makes that the hint. */
static void hint_wider_glob(ckpt_plan *p, const char *glob, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    ckpt_str inner = str_trim_end(str_trim_start(str_c(glob), "*"), "*");
    ckpt_str wide = ARENA_CONCAT(p->a, STR_LIT("*"), inner, STR_LIT("*"));
    bool selects = false;
    for (size_t i = 0; inner.len && wide.ptr && !selects && i < p->nentries; i++)
        selects = glob_selects(wide.ptr, p->entries[i].name);
    if (selects)
        error_add_hint(err, "did you mean %s?", shell_word(wide, "", "*NAME*", word));
}

ckpt_status plan_no_tensor_matches(ckpt_plan *p, const char *glob, ckpt_error *err)
{
    ckpt_status st = plan_no_match(p, err, "no tensor matches \"%s\"", glob);
    if (st == CKPT_OK)
        return st;
    hint_wider_glob(p, glob, err);
    if (p->root_name.len)
        error_add_hint(err, "names are relative to \"%.*s\"", STR_ARG(p->root_name));
    error_add_hint(err, "`ckpt ls` lists the names"); /* no effect if there is a hint */
    return st;
}

/* is_outside_root - returns true if P has a root, and GLOB selects a tensor or value of the file. */
static bool is_outside_root(const ckpt_plan *p, const char *glob)
{
    bool found = false;
    for (size_t i = 0; p->root_name.len && !found && i < p->file->table.nrows; i++)
        found = glob_selects(glob, table_name(&p->file->table, i));
    for (size_t i = 0; p->root_name.len && !found && i < p->file->nleaves; i++)
        found = glob_selects(glob, p->file->leaves[i].name);
    return found;
}

/* nothing_to_drop - fails because GLOB selects nothing of P. */
static ckpt_status nothing_to_drop(ckpt_plan *p, const char *glob, ckpt_error *err)
{
    if (!is_outside_root(p, glob))
        return plan_no_tensor_matches(p, glob, err);
    return plan_no_match(p, err,
                         "only \"%.*s\" is written, and \"%s\" is outside it\n"
                         "leave out --drop: nothing outside \"%.*s\" is written",
                         STR_ARG(p->root_name), glob, STR_ARG(p->root_name));
}

/* match_all_rows - does what match_rows does, also for rows that an earlier glob left out. */
static ckpt_status match_all_rows(ckpt_plan *p, const char *glob, bool *matches, bool *any, ckpt_error *err)
{
    size_t n = p->file->table.nrows;
    bool *keep = p->keep, *all = arena_array(p->a, n, sizeof *all);
    CKPT_TRY_ALLOC(all, err);
    memset(all, true, n);
    p->keep = all;
    p->entries_stale = true;
    ckpt_status st = match_rows(p, glob, matches, any, err);
    p->keep = keep;
    p->entries_stale = true;
    return st;
}

ckpt_status ckpt_plan_keep(ckpt_plan *plan, const char *glob, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && glob);
    size_t n = plan->file->table.nrows;
    bool any, *matches = arena_array(plan->a, n, sizeof *matches);
    CKPT_TRY_ALLOC(matches, err);
    CKPT_TRY(plan->keep_called ? match_all_rows(plan, glob, matches, &any, err)
                               : match_rows(plan, glob, matches, &any, err));
    if (!any)
        CKPT_TRY(plan_no_tensor_matches(plan, glob, err));
    for (size_t i = 0; i < n; i++)
        plan->keep[i] = matches[i] || (plan->keep_called && plan->keep[i]);
    plan->keep_called = true;
    plan->entries_stale = true;
    return CKPT_OK;
}

struct dropping {
    ckpt_plan *p;
    const char *glob;
    struct containers tree;
    bool any_dropped;       /* a container or a value was left out */
    bool *left_out;         /* by container: it is left out, alone or with a container around it */
    size_t nemptied;        /* mappings whose entries are all left out … */
    ckpt_str first_emptied; /* … and the first of them */
};

/* drop_entry - leaves out entry ENTRY of container AT if ENTRY is a container that the glob selects, or if
 * ENTRY is another value, not a tensor, and the glob is its exact name. */
static ckpt_status drop_entry(struct dropping *dropping, uint32_t at, const struct entry *entry,
                              ckpt_error *err)
{
    uint32_t child = container_of_node(&dropping->tree, entry->val);
    ckpt_path_elem path[2] = {{.str = container_name(&dropping->tree, at)}};
    uint32_t skip = path[0].str.len == 0; /* the root has no name */
    if (is_edited_out(dropping->p, &entry->entry_edit) && child != NO_CONTAINER)
        dropping->left_out[child] = true;
    if (is_tensor_node(&dropping->tree, entry->val) || is_edited_out(dropping->p, &entry->entry_edit))
        return CKPT_OK;
    CKPT_TRY(path_elem_from_key(dropping->p->a, entry->key, &path[1], err));
    ckpt_str name = path[0].str.ptr ? path_join(dropping->p->a, path + skip, 2 - skip) : path[0].str;
    CKPT_TRY_ALLOC(name.ptr, err);
    bool is_selected = child == NO_CONTAINER ? str_is(name, dropping->glob)
                                             : glob_selects(dropping->glob, name);
    if (!is_selected)
        return CKPT_OK;
    struct edit *edit = plan_find_or_add_edit(dropping->p, entry->entry_edit.node, entry->entry_edit.count);
    CKPT_TRY_ALLOC(edit, err);
    edit->dropped[entry->entry_edit.index] = dropping->any_dropped = true;
    if (child != NO_CONTAINER && dropping->tree.list[child].parent == at)
        dropping->left_out[child] = true;
    return CKPT_OK;
}

/* is_emptied - returns true if container AT has entries, and all of them are left out. */
static bool is_emptied(const struct dropping *dropping, uint32_t at)
{
    const struct container *p = &dropping->tree.list[at];
    struct entry e;
    for (uint32_t i = 0; i < p->entries; i++) {
        if (!mapping_entry(p->node, i, &e) ||
            (plan_keeps_entry(dropping->p, e.entry_edit.node, e.entry_edit.index) &&
             !is_edited_out(dropping->p, &e.entry_edit)))
            return false;
    }
    return p->entries != 0;
}

static ckpt_status drop_containers(struct dropping *dropping, ckpt_error *err)
{
    struct entry e;
    CKPT_TRY(plan_index_entry_rows(dropping->p, err));
    dropping->left_out = arena_array(dropping->p->a, dropping->tree.n, sizeof *dropping->left_out);
    CKPT_TRY_ALLOC(dropping->left_out, err);
    for (uint32_t i = 0; i < dropping->tree.n; i++) {
        const struct container *p = &dropping->tree.list[i];
        dropping->left_out[i] |= p->parent != NO_CONTAINER && dropping->left_out[p->parent];
        for (uint32_t k = 0; p->is_mapping && !dropping->left_out[i] && k < p->entries; k++)
            if (mapping_entry(p->node, k, &e))
                CKPT_TRY(drop_entry(dropping, i, &e, err));
    }
    for (uint32_t i = 1; i < dropping->tree.n; i++)
        if (dropping->tree.list[i].is_mapping && !dropping->left_out[i] && is_emptied(dropping, i) &&
            dropping->nemptied++ == 0)
            dropping->first_emptied = container_name(&dropping->tree, i);
    return CKPT_OK;
}

static void notice_emptied(const struct dropping *dropping)
{
    char word[SHELL_WORD_MAX];
    if (!dropping->nemptied || !dropping->first_emptied.ptr)
        return;
    if (dropping->nemptied == 1)
        plan_notice(dropping->p, "\"%.*s\" is left empty; --drop %s removes it",
                    STR_ARG(dropping->first_emptied), shell_glob(dropping->first_emptied, word));
    else
        plan_notice(dropping->p,
                    "%zu mappings are left empty, the first is \"%.*s\"; --drop NAME removes one",
                    dropping->nemptied, STR_ARG(dropping->first_emptied));
}

/* notice_shared - adds a notice of rows that no glob selected, but that are left out because their mapping
 * has several names in the file. WAS_ENTRY: by row, whether it was an entry of P; is overwritten. */
static ckpt_status notice_shared(ckpt_plan *p, bool *was_entry, ckpt_error *err)
{
    uint32_t first = CKPT_NO_TENSOR;
    size_t n = 0;
    CKPT_TRY(plan_update_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++)
        was_entry[p->entries[i].row] = false;
    for (size_t i = p->file->table.nrows; COUNT_DOWN(i);)
        if (was_entry[i] && p->keep[i]) {
            first = (uint32_t)i;
            n++;
        }
    if (n)
        plan_notice(p,
                    "%zu tensor%s go%s too, such as \"%.*s\": the mapping is in the file under several names",
                    n, n == 1 ? "" : "s", n == 1 ? "es" : "", STR_ARG(table_name(&p->file->table, first)));
    return CKPT_OK;
}

ckpt_status ckpt_plan_drop(ckpt_plan *plan, const char *glob, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, plan && glob);
    struct dropping d = {.p = plan, .glob = glob};
    size_t n = plan->file->table.nrows;
    bool any, *matches = arena_array(plan->a, n, sizeof *matches),
              *was_entry = arena_array(plan->a, n, sizeof *was_entry);
    CKPT_TRY_ALLOC(matches && was_entry, err);
    CKPT_TRY(match_rows(plan, glob, matches, &any, err));
    for (size_t i = 0; i < plan->nentries; i++)
        was_entry[plan->entries[i].row] = true;
    for (size_t i = 0; i < n; i++)
        plan->keep[i] &= !matches[i];
    plan->entries_stale = true;
    ckpt_status st = containers_find(&d.tree, plan->file, plan->root, plan->a, err);
    CKPT_THEN(st, drop_containers(&d, err));
    containers_free(&d.tree);
    if (st == CKPT_OK && !any && !d.any_dropped)
        return nothing_to_drop(plan, glob, err);
    notice_emptied(&d);
    plan->entries_stale = true;
    return st == CKPT_OK ? notice_shared(plan, was_entry, err) : st;
}
