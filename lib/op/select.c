/* select.c - which part of a file a plan writes: a root, and globs over names. */
#include <stdio.h>

#include "base/text.h"
#include "op/root.h"
#include "op/select.h"
#include "op/weights.h"

/* ---- root */

/* set_root - place AT, by the DEPTH elements of PATH. */
static ckpt_status set_root(ckpt_plan *p, const struct walk *w, uint32_t at, const ckpt_path_elem *path,
                            uint32_t depth, ckpt_error *err)
{
    p->root_path = path_copy(p->a, path, depth);
    p->root_name = path_join(p->a, path, depth);
    if (!p->root_path || !p->root_name.ptr)
        return fail_memory(err);
    p->root_depth = depth;
    p->root = w->places[at].node;
    p->rooted = at != 0;
    p->entries_stale = true;
    return CKPT_OK;
}

static ckpt_status set_place(ckpt_plan *p, const struct walk *w, uint32_t at, ckpt_error *err)
{
    uint32_t depth;
    const ckpt_path_elem *path = walk_path(w, at, &depth);
    return path ? set_root(p, w, at, path, depth, err) : fail_memory(err);
}

static ckpt_status auto_root(ckpt_plan *p, const struct walk *w, ckpt_error *err)
{
    struct weights found;
    CKPT_TRY(weights_find(w, &found, err));
    if (found.place == NO_PLACE) {
        plan_notice(p, "%s; everything is taken", found.why);
        return CKPT_OK;
    }
    CKPT_TRY(set_place(p, w, found.place, err));
    if (p->root_name.len)
        plan_notice(p, "weights taken from \"%.*s\": %s", STR_ARG(p->root_name), found.why);
    else if (!w->places[found.place].state_dict)
        plan_notice(p, "everything is taken: %s", found.why);
    return CKPT_OK;
}

/* no_root - PATH is no container: say what there is. */
static ckpt_status no_root(const ckpt_plan *p, const struct walk *w, const char *path, ckpt_error *err)
{
    ckpt_str names = STR_LIT("");
    uint32_t shown = 0;
    if (file_find(p->file, str_c(path)) != CKPT_NO_TENSOR) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%s\" is a tensor, not a mapping", path);
        char word[SHELL_MOST];
        fail_hint(err, "--keep %s writes one tensor", shell_glob(str_c(path), word));
        return CKPT_EUSAGE;
    }
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "nothing is called \"%s\"", path);
    for (uint32_t i = 1; i < w->n && shown < 5; i++) {
        if (!w->places[i].state_dict)
            continue;
        ckpt_str name = walk_name(w, i);
        if (!name.ptr)
            return fail_memory(err);
        names = arena_printf(w->a, "%.*s%s%.*s", STR_ARG(names), shown++ ? ", " : "", STR_ARG(name));
    }
    if (shown)
        fail_hint(err, "state dicts in this file: %.*s", STR_ARG(names));
    else
        fail_hint(err, "`ckpt ls` lists the names");
    return CKPT_ENOTFOUND;
}

static bool ends_at(ckpt_str path, size_t *len, const ckpt_path_elem *e)
{
    char number[24];
    ckpt_str s = e->str;
    if (e->is_int) {
        int n = snprintf(number, sizeof number, "%lld", (long long)e->num);
        s = str_of(number, (size_t)n);
    }
    if (s.len > *len || !str_ends(str_of(path.ptr, *len), s))
        return false;
    *len -= s.len;
    return true;
}

/* named - is PATH the joined name of place AT? Compared from the end, so that
 * no name is built for the many that are not it. */
static bool named(const struct walk *w, uint32_t at, ckpt_str path)
{
    size_t len = path.len;
    while (w->places[at].parent != NO_PLACE) {
        if (!ends_at(path, &len, &w->places[at].elem))
            return false;
        at = w->places[at].parent;
        if (w->places[at].parent != NO_PLACE && (!len || path.ptr[--len] != '.'))
            return false;
    }
    return len == 0;
}

/* cut_keys - the keys of MAPPING lose PREFIX and its dot; those without it are left out. A module path that
 * is PREFIX is the root's. */
static ckpt_status cut_keys(ckpt_plan *p, const ckpt_value *mapping, ckpt_str prefix, bool modules,
                            ckpt_error *err)
{
    struct entry e;
    ckpt_str key;
    for (uint32_t i = 0; i < mapping_count(mapping); i++) {
        if (!mapping_entry(mapping, i, &e))
            continue;
        bool text = value_text(e.key, &key), below = text && root_above(prefix, key);
        bool same = modules && text && str_eq(key, prefix);
        const struct edit_at *at = below || same ? &e.name : &e.whole;
        struct edit *edit = plan_edit(p, at->node, at->of);
        if (!edit)
            return fail_memory(err);
        if (below)
            edit->names[at->index] = str_skip(key, prefix.len + 1); /* bounded: root_above */
        else if (same)
            edit->names[at->index] = STR_LIT("");
        else
            edit->dropped[at->index] = true;
    }
    return CKPT_OK;
}

/* place_of - the last of the containers that R is, or NO_PLACE. */
static uint32_t place_of(const struct walk *w, const struct root *r)
{
    uint32_t at = r->node ? walk_place(w, r->node) : NO_PLACE;
    for (uint32_t i = 0; at == NO_PLACE && i < w->n; i++)
        if (named(w, i, str_of(r->name.ptr, r->len)))
            at = i;
    return at;
}

/* cut_prefix - the names in the root, MAPPING, lose what R is besides containers; _metadata go with them. */
static ckpt_status cut_prefix(ckpt_plan *p, const ckpt_value *mapping, const struct root *r, ckpt_error *err)
{
    const ckpt_value *meta = mapping_metadata(mapping);
    ckpt_str prefix = arena_str(p->a, str_skip(r->name, r->len + (r->len != 0))); /* with the dot */
    if (!prefix.ptr)
        return fail_memory(err);
    p->rooted = true;
    CKPT_TRY(cut_keys(p, mapping, prefix, false, err));
    return meta ? cut_keys(p, meta, prefix, true, err) : CKPT_OK;
}

static ckpt_status named_root(ckpt_plan *p, const struct walk *w, const char *path, ckpt_error *err)
{
    struct root r;
    CKPT_TRY(root_find(p->file, path, &r, err));
    bool filled = r.name.len != 0;
    if (!filled) /* a container with nothing in it, perhaps */
        r = (struct root){.name = str_c(path), .len = strlen(path)};
    uint32_t at = place_of(w, &r);
    bool prefix = r.len < r.name.len;
    if (at == NO_PLACE || (prefix && !w->places[at].mapping))
        return *path ? no_root(p, w, path, err) : CKPT_OK;
    CKPT_TRY(filled ? set_root(p, w, at, r.path, r.depth, err) : set_place(p, w, at, err));
    return prefix ? cut_prefix(p, w->places[at].node, &r, err) : CKPT_OK;
}

ckpt_status ckpt_plan_root(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    struct walk w;
    CKPT_REQUIRE(err, plan && path);
    ckpt_status st = walk_graph(&w, plan->file, plan->file->root, plan->a, err);
    if (st == CKPT_OK)
        st = strcmp(path, "auto") == 0 ? auto_root(plan, &w, err) : named_root(plan, &w, path, err);
    walk_free(&w);
    if (st != CKPT_OK)
        fail_file(err, plan->file->path);
    return st;
}

/* ---- keep, drop */

bool select_takes(const char *glob, ckpt_str name)
{
    bool hit = ckpt_glob_match(str_c(glob), name);
    for (size_t i = 0; !hit && i < name.len; i++)
        hit = name.ptr[i] == '.' && ckpt_glob_match(str_c(glob), str_of(name.ptr, i));
    return hit;
}

/* match_rows - HIT[row] for the entries whose name matches GLOB; the parts of a
 * composite go with it. *ANY: there was one. */
static ckpt_status match_rows(ckpt_plan *p, const char *glob, bool *hit, bool *any, ckpt_error *err)
{
    CKPT_TRY(plan_entries(p, err));
    *any = false;
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        uint32_t of = p->file->table.rows[e->row].t.part_of;
        hit[e->row] = of == CKPT_NO_TENSOR ? select_takes(glob, e->name) : hit[of];
        *any |= hit[e->row];
    }
    return CKPT_OK;
}

static ckpt_status no_match(const ckpt_plan *p, const char *glob, ckpt_error *err)
{
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches \"%s\"", glob);
    if (p->root_name.len)
        fail_hint(err, "names are those below \"%.*s\"", STR_ARG(p->root_name));
    else
        fail_hint(err, "`ckpt ls` lists the names");
    fail_file(err, p->file->path);
    return CKPT_ENOTFOUND;
}

/* match_all - like match_rows, over rows too that an earlier glob left out. */
static ckpt_status match_all(ckpt_plan *p, const char *glob, bool *hit, bool *any, ckpt_error *err)
{
    size_t n = p->file->table.nrows;
    bool *keep = p->keep, *all = arena_array(p->a, n, sizeof *all);
    if (!all)
        return fail_memory(err);
    memset(all, true, n);
    p->keep = all;
    p->entries_stale = true;
    ckpt_status st = match_rows(p, glob, hit, any, err);
    p->keep = keep;
    p->entries_stale = true;
    return st;
}

ckpt_status ckpt_plan_keep(ckpt_plan *plan, const char *glob, ckpt_error *err)
{
    CKPT_REQUIRE(err, plan && glob);
    size_t n = plan->file->table.nrows;
    bool any, *hit = arena_array(plan->a, n, sizeof *hit);
    if (!hit)
        return fail_memory(err);
    CKPT_TRY(plan->any_keep ? match_all(plan, glob, hit, &any, err) : match_rows(plan, glob, hit, &any, err));
    if (!any)
        return no_match(plan, glob, err);
    for (size_t i = 0; i < n; i++)
        plan->keep[i] = hit[i] || (plan->any_keep && plan->keep[i]);
    plan->any_keep = true;
    plan->entries_stale = true;
    return CKPT_OK;
}

/* ---- containers */

struct dropping {
    ckpt_plan *p;
    const char *glob;
    struct walk w;
    bool any;       /* a container or a value was left out */
    bool *gone;     /* by place: left out, or in what is */
    size_t emptied; /* mappings that hold nothing any more … */
    ckpt_str first; /* … and the first of them */
};

static bool is_dropped(const ckpt_plan *p, const struct edit_at *at)
{
    const struct edit *e = plan_edit_find(p, at->node);
    return e && at->index < e->n && e->dropped[at->index];
}

/* drop_entry - leaves out E of place AT if the glob takes its container, or is its very name. */
static ckpt_status drop_entry(struct dropping *d, uint32_t at, const struct entry *e, ckpt_error *err)
{
    uint32_t child = walk_place(&d->w, e->val);
    ckpt_path_elem path[2] = {{.str = walk_name(&d->w, at)}};
    uint32_t skip = path[0].str.len == 0;
    if (is_dropped(d->p, &e->whole) && child != NO_PLACE)
        d->gone[child] = true;
    if (walk_is_tensor(&d->w, e->val) || is_dropped(d->p, &e->whole))
        return CKPT_OK;
    CKPT_TRY(path_elem(d->p->a, e->key, &path[1], err));
    ckpt_str name = path[0].str.ptr ? path_join(d->p->a, path + skip, 2 - skip) : path[0].str;
    if (!name.ptr)
        return fail_memory(err);
    if (child == NO_PLACE ? !str_is(name, d->glob) : !select_takes(d->glob, name))
        return CKPT_OK;
    struct edit *edit = plan_edit(d->p, e->whole.node, e->whole.of);
    if (!edit)
        return fail_memory(err);
    edit->dropped[e->whole.index] = d->any = true;
    if (child != NO_PLACE && d->w.places[child].parent == at)
        d->gone[child] = true;
    return CKPT_OK;
}

/* is_emptied - has place AT entries, and is none of them left? */
static bool is_emptied(const struct dropping *d, uint32_t at)
{
    const struct place *p = &d->w.places[at];
    struct entry e;
    for (uint32_t i = 0; i < p->entries; i++) {
        uint32_t row = CKPT_NO_TENSOR;
        if (mapping_entry(p->node, i, &e))
            row = file_replacement(d->p->file, e.val)->row;
        bool left = row < d->p->file->table.nrows && !d->p->keep[row];
        if (!left && !is_dropped(d->p, &e.whole))
            return false;
    }
    return p->entries != 0;
}

static ckpt_status drop_containers(struct dropping *d, ckpt_error *err)
{
    struct entry e;
    d->gone = arena_array(d->p->a, d->w.n, sizeof *d->gone);
    if (!d->gone)
        return fail_memory(err);
    for (uint32_t i = 0; i < d->w.n; i++) {
        const struct place *p = &d->w.places[i];
        d->gone[i] |= p->parent != NO_PLACE && d->gone[p->parent];
        for (uint32_t k = 0; p->mapping && !d->gone[i] && k < p->entries; k++)
            if (mapping_entry(p->node, k, &e))
                CKPT_TRY(drop_entry(d, i, &e, err));
    }
    for (uint32_t i = 1; i < d->w.n; i++)
        if (d->w.places[i].mapping && !d->gone[i] && is_emptied(d, i) && d->emptied++ == 0)
            d->first = walk_name(&d->w, i);
    return CKPT_OK;
}

static void note_emptied(const struct dropping *d)
{
    char word[SHELL_MOST];
    if (!d->emptied || !d->first.ptr)
        return;
    if (d->emptied == 1)
        plan_notice(d->p, "\"%.*s\" is left empty; --drop %s takes all of it", STR_ARG(d->first),
                    shell_glob(d->first, word));
    else
        plan_notice(d->p, "%zu mappings are left empty, the first is \"%.*s\"; --drop NAME takes all of one",
                    d->emptied, STR_ARG(d->first));
}

/* note_shared - rows that were entries of P, no glob took, and that are gone with a mapping that has several
 * names. BEFORE by row. */
static ckpt_status note_shared(ckpt_plan *p, bool *before, ckpt_error *err)
{
    uint32_t first = CKPT_NO_TENSOR;
    size_t n = 0;
    CKPT_TRY(plan_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++)
        before[p->entries[i].row] = false;
    for (size_t i = p->file->table.nrows; i-- > 0;)
        if (before[i] && p->keep[i]) {
            first = (uint32_t)i;
            n++;
        }
    if (n)
        plan_notice(p,
                    "%zu tensor%s go%s too, such as \"%.*s\": the mapping is in the file under several names",
                    n, n == 1 ? "" : "s", n == 1 ? "es" : "", STR_ARG(p->file->table.rows[first].t.name));
    return CKPT_OK;
}

ckpt_status ckpt_plan_drop(ckpt_plan *plan, const char *glob, ckpt_error *err)
{
    CKPT_REQUIRE(err, plan && glob);
    struct dropping d = {.p = plan, .glob = glob};
    size_t n = plan->file->table.nrows;
    bool any, *hit = arena_array(plan->a, n, sizeof *hit), *before = arena_array(plan->a, n, sizeof *before);
    if (!hit || !before)
        return fail_memory(err);
    CKPT_TRY(match_rows(plan, glob, hit, &any, err));
    for (size_t i = 0; i < plan->nentries; i++)
        before[plan->entries[i].row] = true;
    for (size_t i = 0; i < n; i++)
        plan->keep[i] &= !hit[i];
    plan->entries_stale = true;
    ckpt_status st = walk_graph(&d.w, plan->file, plan->root, plan->a, err);
    if (st == CKPT_OK)
        st = drop_containers(&d, err);
    walk_free(&d.w);
    if (st == CKPT_OK && !any && !d.any)
        return no_match(plan, glob, err);
    note_emptied(&d);
    plan->entries_stale = true;
    return st == CKPT_OK ? note_shared(plan, before, err) : st;
}
