/* module_paths.c - renames the module paths in _metadata as the keys of the state dict were renamed: if
 * a.b.w became x.b.w, the module a.b became x.b, and a became x. */
#include <stdlib.h>

#include "op/keys.h"

#define MAX_LEVELS 100 /* real modules nest less; hostile names may have more */

struct move {
    ckpt_str from, to;
    bool ambiguous; /* keys below FROM were renamed in different ways */
};

struct moves {
    map *index; /* from -> moves */
    struct move *list;
    size_t n, cap;
};

static ckpt_str last_component(ckpt_str text) { return str_after_last(text, '.'); }

static ckpt_str parent_path(ckpt_str text)
{
    size_t n = text.len - last_component(text).len;
    return str_of(text.ptr, n ? n - 1 : 0);
}

/* add_move - adds the move of module FROM to TO. Sets *WAS_KNOWN to true if the same move was added before:
 * then the moves of its parent modules were added, too. */
static ckpt_status add_move(struct moves *moves, ckpt_str from, ckpt_str to, bool *was_known, ckpt_error *err)
{
    uint32_t old;
    *was_known = false;
    CKPT_TRY_ALLOC(map_put(moves->index, from, (uint32_t)moves->n, &old), err);
    if (old != MAP_NONE) {
        *was_known = str_eq(moves->list[old].to, to);
        moves->list[old].ambiguous |= !*was_known;
        return CKPT_OK;
    }
    const struct move added = {.from = from, .to = to};
    bool pushed = moves->n < MAP_NONE &&
                  arena_push(NULL, &moves->list, &moves->n, &moves->cap, &added, sizeof added);
    return pushed ? CKPT_OK : fail_memory(err);
}

/* add_moves_of_key - adds the moves that follow from renaming key FROM to TO: as long as both paths end in
 * the same component, that component is removed from both, and the remaining paths are a move. */
static ckpt_status add_moves_of_key(struct moves *moves, ckpt_str from, ckpt_str to, ckpt_error *err)
{
    bool was_known = false;
    for (int i = 0; i < MAX_LEVELS && !was_known && from.len && to.len; i++) {
        if (!str_eq(last_component(from), last_component(to)))
            break;
        from = parent_path(from);
        to = parent_path(to);
        CKPT_TRY(add_move(moves, from, to, &was_known, err));
    }
    return CKPT_OK;
}

/* find_new_path - sets *OUT to the new path of module PATH, by its own move or its nearest moved parent's. */
static ckpt_status find_new_path(const struct moves *moves, arena *a, ckpt_str path, ckpt_str *out,
                                 ckpt_error *err)
{
    ckpt_str module = path;
    *out = path;
    for (int level = 0; level < MAX_LEVELS; level++) {
        uint32_t i = map_get(moves->index, module);
        if (i != MAP_NONE) {
            const struct move *move = &moves->list[i];
            if (move->ambiguous || str_eq(move->from, move->to))
                return CKPT_OK;
            ckpt_str rest = str_skip(path, move->from.len);
            if (!move->to.len && rest.len && rest.ptr[0] == '.')
                rest = str_skip(rest, 1);
            else if (!move->from.len && rest.len)
                rest = ARENA_CONCAT(a, STR_LIT("."), rest);
            *out = rest.ptr ? ARENA_CONCAT(a, move->to, rest) : str_of(NULL, 0);
            return out->ptr ? CKPT_OK : fail_memory(err);
        }
        if (!module.len)
            break;
        module = parent_path(module);
    }
    return CKPT_OK;
}

ckpt_status rename_module_paths(arena *a, struct group *group, ckpt_error *err)
{
    if (group->modules.n == 0)
        return CKPT_OK;
    struct moves m = {.index = map_new(0)};
    ckpt_status st = m.index ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < group->keys.n; i++)
        st = add_moves_of_key(&m, group->keys.list[i].old_name, group->keys.list[i].new_name, err);
    for (size_t i = 0; st == CKPT_OK && i < group->modules.n; i++)
        st = find_new_path(&m, a, group->modules.list[i].old_name, &group->modules.list[i].new_name, err);
    free(m.list);
    map_free(m.index);
    return st;
}
