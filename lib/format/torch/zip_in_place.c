/*
 * zip_in_place.c - new names in an archive that stays where it is.
 *
 *   Shorter texts take the place of the old ones, and nothing else in the pickle
 *   changes. Of two entries that become one (DistributedDataParallel's own in the
 *   _metadata and that of its module) the first stays where they equal each other
 *   and the second goes. Where that cannot be (longer names; texts that are somewhere else in
 *   the graph, too), it is written again, with the keys that storages have:
 *
 *   when it is no longer than the old one, it takes its place: PUTs that nothing
 *   reads fill it up, and no size, offset or other record changes;
 *   when it is longer, the old record is renamed to <top>/data.old, in its own
 *   header too, and a new <top>/data.pkl and the directory follow the storages.
 *
 * Refused: what the ordinary writer has to change on the way (whole modules,
 * checkpoints inside others), deflated pickles, archives with unknown bytes in them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "codec/pickle_shorten.h"
#include "codec/pickle_write.h"
#include "codec/zip_patch.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"

static bool entry(void *user, const ckpt_value *v, uint32_t i, ckpt_str *text)
{
    const struct edit *e = plan_edit_find(user, v);
    if (!e || i >= e->n)
        return true;
    *text = e->names[i];
    return !e->dropped[i];
}

static ckpt_status refuse(ckpt_error *err, const char *why)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s; it cannot be edited in place", why);
}

/* check - is writing the graph again all that is to be done? */
static ckpt_status check(const ckpt_file *f, const struct zip_entry *e, ckpt_error *err)
{
    if (f->nreplaced)
        return refuse(err, "a whole module, which is written as its state dict");
    if (f->nparts || f->npickles != 1 || !f->root)
        return refuse(err, "more than one pickle");
    if (e->method != ZIP_STORED || (e->flags & ZIP_FLAGS_OPAQUE))
        return refuse(err, "its pickle is compressed");
    if (e->duplicate)
        return refuse(err, "two records are called data.pkl");
    return CKPT_OK;
}

/* name_aside - for the old pickle: data.old, or what is free and as long. */
static ckpt_status name_aside(const zip *z, ckpt_str name, ckpt_str *out, ckpt_error *err)
{
    for (unsigned k = 0; k < 100; k++) {
        char end[4] = "old";
        if (k)
            (void)snprintf(end, sizeof end, "o%02u", k);
        /* bounded: the name ends in data.pkl */
        ckpt_str made = arena_printf(z->a, "%.*s%s", (int)(name.len - 3), name.ptr, end);
        if (!made.ptr)
            return fail_memory(err);
        if (made.len == name.len && zip_find(z, made) < 0) {
            *out = made;
            return CKPT_OK;
        }
    }
    return refuse(err, "it holds a hundred old pickles of earlier edits");
}

/* ----------------------------------------------------------------- shorter */

/* text_at - entry I of container V, where names are edited; NULL: there is none. */
static const ckpt_value *text_at(const ckpt_value *v, uint32_t i)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    const struct value_more *m = v->type == CKPT_V_CALL ? value_more_of(v) : NULL;
    if (n)
        return i < n ? pairs[i].key : NULL;
    return m ? (i < m->nitems ? m->items[i] : NULL) : value_item(v, i);
}

/* small - is V, which is in one place, a dict of one *NUMBER? */
static bool small(const ckpt_value *v, int64_t *number)
{
    return v->type == CKPT_V_DICT && !(v->flags & (VALUE_SHARED | VALUE_BUILT)) && v->u.dict.n == 1 &&
           v->u.dict.pairs[0].val->type == CKPT_V_INT && value_integer(v->u.dict.pairs[0].val, number);
}

/* same_small - do the small dicts A and B equal each other, with the very same key? */
static bool same_small(const ckpt_value *a, const ckpt_value *b)
{
    int64_t x, y;
    return small(a, &x) && small(b, &y) && x == y && a->u.dict.pairs[0].key == b->u.dict.pairs[0].key;
}

/* may_go - can pickle_shorten leave P out? */
static bool may_go(const value_pair *p)
{
    int64_t number;
    ckpt_str key;
    return value_text(p->key, &key) && !(p->key->flags & VALUE_SHARED) && small(p->val, &number);
}

/* stands_in - pair I of E is dropped, and so are those behind it up to *LAST, which takes its key:
 * may it stay, and may they go? */
static bool stands_in(const struct edit *e, uint32_t i, uint32_t *last)
{
    uint32_t n, k = i;
    ckpt_str key;
    const value_pair *pairs = value_pairs(e->node, &n);
    n = n < e->n ? n : e->n;
    while (k < n && e->dropped[k])
        k++;
    *last = k;
    if (k >= n || !value_text(pairs[i].key, &key) || !e->names[k].ptr || !str_eq(key, e->names[k]) ||
        !same_small(pairs[i].val, pairs[k].val))
        return false;
    while (k > i && may_go(&pairs[k]))
        k--;
    return k == i;
}

/* What pickle_shorten is to do. */
struct texts {
    struct pickle_text *at; /* NULL: they are counted first */
    size_t n;
};

static void add_text(struct texts *t, const ckpt_value *v, ckpt_str text)
{
    if (t->at)
        t->at[t->n] = (struct pickle_text){v, text};
    t->n++;
}

/* list_edit - what E changes; false: not only texts that stand in one place each, and become no
 * longer, and pairs that others stand in for. */
static bool list_edit(const struct edit *e, struct texts *t)
{
    for (uint32_t i = 0, last; i < e->n; i++) {
        const ckpt_value *v = e->names[i].ptr ? text_at(e->node, i) : NULL;
        ckpt_str old;
        if (e->dropped[i]) {
            if (!stands_in(e, i, &last))
                return false;
            while (i < last) /* bounded: stands_in saw all of them */
                add_text(t, text_at(e->node, ++i), str_of(NULL, 0));
        } else if (e->names[i].ptr) {
            if (!v || !value_text(v, &old) || (v->flags & VALUE_SHARED) || e->names[i].len > old.len)
                return false;
            add_text(t, v, e->names[i]);
        }
    }
    return true;
}

static bool list_texts(const ckpt_plan *p, struct texts *t)
{
    t->n = 0;
    for (size_t k = 0; k < p->nedits; k++)
        if (!list_edit(&p->edits[k], t))
            return false;
    return true;
}

/* swap_texts - what P's edits rename and their new names change places. */
static void swap_texts(const ckpt_plan *p)
{
    for (size_t k = 0; k < p->nedits; k++) {
        const struct edit *e = &p->edits[k];
        for (uint32_t i = 0; i < e->n; i++) {
            ckpt_str *text = e->names[i].ptr && !e->dropped[i] ? &e->names[i] : NULL;
            ckpt_value *v = text ? (ckpt_value *)(uintptr_t)text_at(e->node, i) : NULL;
            if (!v)
                continue;
            ckpt_str was = v->u.str;
            v->u.str = *text;
            *text = was;
        }
    }
}

/* same_rows - will there be the same rows, under their new names? */
static bool same_rows(const ckpt_plan *p, struct torch_archive *ta)
{
    swap_texts(p);
    bool same = torch_zip_same_rows(p, ta);
    swap_texts(p);
    return same;
}

/* shorten - the pickle of P's file, entry I, with its new names as patches; *DONE is false
 * where it has to be written again. */
static ckpt_status shorten(const ckpt_plan *p, struct torch_archive *ta, size_t i, struct patches *out,
                           bool *done, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[i];
    size_t size = (size_t)e->usize; /* bounded: its graph is in memory */
    struct texts t = {0};
    *done = false;
    if (!list_texts(p, &t))
        return CKPT_OK;
    t.at = calloc(t.n + 1, sizeof *t.at); /* bounded: the nodes are in memory */
    unsigned char *bytes = arena_alloc(ta->z->a, size);
    ckpt_status st = t.at && bytes ? source_read(ta->kept[0], 0, bytes, size, err) : fail_memory(err);
    *done = st == CKPT_OK && list_texts(p, &t) &&
            pickle_shorten(bytes, size, p->file->pickles[0], t.at, t.n);
    ckpt_str now = str_of((char *)bytes, size);
    if (*done)
        st = zip_patch_replace(ta->z, i, now, out, err);
    bool same = *done && st == CKPT_OK && torch_zip_reread(ta, i, now, t.at, t.n, out);
    free(t.at); /* walking the graph needs as much */
    out->reread = same && same_rows(p, ta);
    return st;
}

/* ------------------------------------------------------------------- again */

static ckpt_status patch(struct torch_archive *ta, size_t i, ckpt_str bytes, bool fits, struct patches *out,
                         ckpt_error *err)
{
    ckpt_str aside;
    if (!bytes.ptr)
        return fail_memory(err);
    if (fits)
        return zip_patch_replace(ta->z, i, bytes, out, err);
    CKPT_TRY(name_aside(ta->z, ta->z->entries[i].name, &aside, err));
    return zip_patch_append(ta->z, i, aside, bytes, out, err);
}

static ckpt_status write_again(ckpt_plan *p, struct torch_archive *ta, size_t i, struct patches *out,
                               ckpt_error *err)
{
    struct pickle_hooks hooks = {.user = p, .entry = entry, .literal = file_names_literal(p->file)};
    size_t size = (size_t)ta->z->entries[i].usize; /* bounded: as in shorten */
    bool fits;
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = pickle_write_filled(p->file->root, &hooks, size, &b, &fits, err);
    if (st == CKPT_OK)
        st = patch(ta, i, arena_str(p->a, buf_view(&b)), fits, out, err);
    buf_free(&b);
    return st;
}

ckpt_status torch_zip_in_place(ckpt_plan *p, struct patches *out, ckpt_error *err)
{
    struct torch_archive *ta = p->file->container;
    size_t i;
    bool done;
    CKPT_TRY(torch_archive_need(ta, "data.pkl", &i, err));
    CKPT_TRY(check(p->file, &ta->z->entries[i], err));
    CKPT_TRY(shorten(p, ta, i, out, &done, err));
    return done ? CKPT_OK : write_again(p, ta, i, out, err);
}
