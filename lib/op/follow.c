/* follow.c - where module paths go when their keys are renamed one by one. */
#include <stdlib.h>

#include "op/keys.h"

#define MAX_LEVELS 100 /* modules nest less; names made to cost time may nest more */

struct move {
    ckpt_str from, to;
    bool split; /* keys below FROM went to different places */
};

struct moves {
    map *index; /* from -> moves */
    struct move *list;
    size_t n, cap;
};

static ckpt_str leaf(ckpt_str s) { return str_after_last(s, '.'); }

static ckpt_str parent(ckpt_str s)
{
    size_t n = s.len - leaf(s).len;
    return str_of(s.ptr, n ? n - 1 : 0);
}

/* note - *KNOWN: this very move was there already, and so were those above it. */
static ckpt_status note(struct moves *m, ckpt_str from, ckpt_str to, bool *known, ckpt_error *err)
{
    uint32_t old;
    *known = false;
    if (!map_put(m->index, from, (uint32_t)m->n, &old))
        return fail_memory(err);
    if (old != MAP_NONE) {
        *known = str_eq(m->list[old].to, to);
        m->list[old].split |= !*known;
        return CKPT_OK;
    }
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        struct move *grown = cap < MAP_NONE ? realloc(m->list, cap * sizeof *grown) : NULL;
        if (!grown)
            return fail_memory(err);
        m->list = grown;
        m->cap = cap;
    }
    m->list[m->n++] = (struct move){.from = from, .to = to};
    return CKPT_OK;
}

/* note_key - the moves that FROM -> TO makes plain: as long as both end in the
 * same component, what stands before it moved. */
static ckpt_status note_key(struct moves *m, ckpt_str from, ckpt_str to, ckpt_error *err)
{
    bool known = false;
    for (int i = 0; i < MAX_LEVELS && !known && from.len && to.len && str_eq(leaf(from), leaf(to)); i++) {
        from = parent(from);
        to = parent(to);
        CKPT_TRY(note(m, from, to, &known, err));
    }
    return CKPT_OK;
}

/* moved - where PATH went: its own move, or that of the nearest module above. */
static ckpt_status moved(const struct moves *m, arena *a, ckpt_str path, ckpt_str *out, ckpt_error *err)
{
    ckpt_str up = path;
    *out = path;
    for (int level = 0; level < MAX_LEVELS; level++) {
        uint32_t i = map_get(m->index, up);
        if (i != MAP_NONE) {
            const struct move *v = &m->list[i];
            if (v->split || str_eq(v->from, v->to))
                return CKPT_OK;
            ckpt_str rest = str_skip(path, v->from.len);
            if (!v->to.len && rest.len && rest.ptr[0] == '.')
                rest = str_skip(rest, 1);
            else if (!v->from.len && rest.len)
                rest = keys_join(a, STR_LIT("."), rest);
            *out = rest.ptr ? keys_join(a, v->to, rest) : str_of(NULL, 0);
            return out->ptr ? CKPT_OK : fail_memory(err);
        }
        if (!up.len)
            break;
        up = parent(up);
    }
    return CKPT_OK;
}

ckpt_status follow_modules(arena *a, struct group *g, ckpt_error *err)
{
    struct moves m = {.index = NULL};
    if (g->nmeta == 0) /* nothing would be asked */
        return CKPT_OK;
    m.index = map_new(0);
    ckpt_status st = m.index ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < g->n; i++)
        st = note_key(&m, g->slots[i].now, g->slots[i].then, err);
    for (size_t i = 0; st == CKPT_OK && i < g->nmeta; i++)
        st = moved(&m, a, g->meta[i].now, &g->meta[i].then, err);
    free(m.list);
    map_free(m.index);
    return st;
}
