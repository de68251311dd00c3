/* select.c - which part of a file a plan writes: a root, and globs over names. */
#include <stdio.h>

#include "base/text.h"
#include "op/select.h"
#include "op/weights.h"

/* ---- root */

static ckpt_status set_root(ckpt_plan *p, const struct walk *w, uint32_t at, ckpt_error *err)
{
    ckpt_str name = walk_name(w, at);
    ckpt_path_elem *path = walk_path(w, at, &p->root_depth);
    if (!name.ptr || !path)
        return fail_memory(err);
    p->root = w->places[at].node;
    p->root_path = path;
    p->root_name = name;
    p->rooted = at != 0;
    p->entries_stale = true;
    return CKPT_OK;
}

static ckpt_status auto_root(ckpt_plan *p, const struct walk *w, ckpt_error *err)
{
    struct weights found;
    CKPT_TRY(weights_find(w, &found, err));
    if (found.place == NO_PLACE) {
        plan_notice(p, "%s; everything is taken", found.why);
        return CKPT_OK;
    }
    CKPT_TRY(set_root(p, w, found.place, err));
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

static ckpt_status find_root(ckpt_plan *p, const struct walk *w, const char *path, ckpt_error *err)
{
    if (strcmp(path, "auto") == 0)
        return auto_root(p, w, err);
    for (uint32_t i = 0; i < w->n; i++)
        if (named(w, i, str_c(path)))
            return set_root(p, w, i, err);
    return *path ? no_root(p, w, path, err) : CKPT_OK;
}

ckpt_status ckpt_plan_root(ckpt_plan *plan, const char *path, ckpt_error *err)
{
    struct walk w;
    ckpt_status st = walk_graph(&w, plan->file, plan->file->root, plan->a, err);
    if (st == CKPT_OK)
        st = find_root(plan, &w, path, err);
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

ckpt_status ckpt_plan_drop(ckpt_plan *plan, const char *glob, ckpt_error *err)
{
    size_t n = plan->file->table.nrows;
    bool any, *hit = arena_array(plan->a, n, sizeof *hit);
    if (!hit)
        return fail_memory(err);
    CKPT_TRY(match_rows(plan, glob, hit, &any, err));
    if (!any)
        return no_match(plan, glob, err);
    for (size_t i = 0; i < n; i++)
        plan->keep[i] &= !hit[i];
    plan->entries_stale = true;
    return CKPT_OK;
}
