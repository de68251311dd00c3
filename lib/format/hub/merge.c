/*
 * merge.c - many shards as one file: the pairs of their mappings in the
 * order of weight_map, each row beside its pair, storages under the name of the
 * shard they lie in.
 *
 * A tensor that its shard lacks is refused, unless the shard's own metadata record
 * it as a second name of another; so is a tensor in two shards. One that the
 * index does not list is read all the same, as transformers does. Ties that the
 * index or a shard records are rows after all others (ties.c).
 *
 * When a set is salvaged, shards that are missing, and those of which nothing can be had, take
 * with them what the index says that they hold.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/text.h"
#include "core/check.h"
#include "format/hub/shards.h"
#include "format/ties.h"
#include "io/journal.h"

char *shards_join(ckpt_str folder, ckpt_str name)
{
    buf b;
    buf_init(&b, 1u << 16);
    buf_str(&b, folder);
    if (folder.len && folder.ptr[folder.len - 1] != '/')
        buf_byte(&b, '/');
    buf_str(&b, name);
    buf_byte(&b, 0);
    if (buf_ok(&b))
        return (char *)b.data;
    buf_free(&b);
    return NULL;
}

ckpt_status shards_open(const char *path, source **out, ckpt_error *err)
{
    struct stat is;
    const char *at = strcmp(path, "-") == 0 ? "./-" : path;
    if (stat(at, &is) == 0 && !S_ISREG(is.st_mode))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a shard that is {no} {=regular file}");
    return journal_open(at, NULL, out, err);
}

size_t shards_open_most(void)
{
    struct rlimit most;
    bool known = getrlimit(RLIMIT_NOFILE, &most) == 0;
    return known && most.rlim_cur / 4 < MAX_SHARDS ? (size_t)(most.rlim_cur / 4) : MAX_SHARDS;
}

static ckpt_status same_file(const char *path, const struct stat *what, bool *same, ckpt_error *err)
{
    struct stat is;
    bool there = path && stat(path, &is) == 0;
    *same = there && is.st_dev == what->st_dev && is.st_ino == what->st_ino;
    if (there || !path || errno == ENOENT || errno == ENOTDIR)
        return CKPT_OK;
    (void)fail_errno(err, CKPT_NO_OFFSET, "cannot examine the input again");
    fail_file(err, path);
    return err ? err->status : CKPT_EIO;
}

ckpt_status shards_made_of(const ckpt_file *f, const struct stat *what, bool *yes, ckpt_error *err)
{
    *yes = false;
    for (size_t i = 0; !*yes && i < f->nparts; i++)
        CKPT_TRY(same_file(f->parts[i]->path, what, yes, err));
    return *yes ? CKPT_OK : same_file(f->path, what, yes, err);
}

bool shards_hold(const ckpt_file *f, const char *path)
{
    struct stat there;
    bool yes;
    return stat(path, &there) == 0 && (shards_made_of(f, &there, &yes, NULL) != CKPT_OK || yes);
}

ckpt_status shards_guard(const ckpt_file *f, const char *path, bool alone, ckpt_error *err)
{
    bool set = f->format->write == shards_write_as_read;
    if (strcmp(path, "-") == 0 || (alone && !set) || !shards_hold(f, path))
        return CKPT_OK;
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "is part of the input; nothing written");
    fail_hint(err, "write into another folder, then move it");
    fail_file(err, path);
    return err->status;
}

void shards_beside(ckpt_plan *p, const char *path)
{
    const char *index = arena_printf(p->a, "%s.index.json", path).ptr;
    struct stat is;
    if (!index || stat(index, &is) != 0 || shards_hold(p->file, index))
        return;
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    size_t n = dot ? (size_t)(dot - path) : strlen(path);
    const char *stem = arena_str(p->a, str_of(path, n)).ptr;
    char list[SHELL_MOST], shards[SHELL_MOST], suffix[SHELL_MOST];
    if (!stem)
        return;
    plan_notice(p, "%s, of an older set, is there too, and some loaders take it first: rm %s %s-*-of-*%s",
                index, shell_path(index, list), shell_path(stem, shards),
                path[n] ? shell_word(str_c(path + n), "", "", suffix) : "");
}

ckpt_status shards_note(struct index *x, ckpt_value *key, ckpt_value *text)
{
    ckpt_file *f = x->f;
    ckpt_str name;
    uint32_t before = MAP_NONE;
    if (!f->metadata && !(f->metadata = value_new(f->a, CKPT_V_DICT, 0)))
        return fail_memory(x->err);
    if (!value_text(key, &name))
        return CKPT_OK;
    if (!map_put(x->notes, name, 0, &before) ||
        (before == MAP_NONE && !value_put(f->a, f->metadata, key, text)))
        return fail_memory(x->err);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ open */

static ckpt_str folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? str_of(path, (size_t)(slash - path) + 1) : str_of("", 0);
}

/* told_missing - shard S, when the set is being checked. */
static ckpt_status told_missing(struct index *x, const struct shard *s)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += &x->shards[x->weights[i].shard] == s;
    x->lost = true;
    (void)fail(x->err, CKPT_ETRUNCATED, s->at, "{=the shard} is {missing}, and with it %zu tensor%s", n,
               n == 1 ? "" : "s");
    fail_where(x->err, "%.*s", STR_ARG(s->name));
    fail_hint(x->err,
              "put all shards into the folder of the index; `ckpt salvage` writes what the others hold");
    return file_report_fault_as(x->f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, x->err);
}

static ckpt_status check_present(struct index *x)
{
    size_t missing = 0, first = 0;
    for (size_t i = x->nshards; i-- > 0;) {
        char *path = shards_join(folder_of(x->f->path), x->shards[i].name);
        if (!path)
            return fail_memory(x->err);
        bool there = access(path, F_OK) == 0;
        free(path);
        if (!there) {
            first = i;
            missing++;
            x->shards[i].missing = true;
        }
    }
    for (size_t i = 0; missing && x->f->check && i < x->nshards; i++)
        if (x->shards[i].missing)
            CKPT_TRY(told_missing(x, &x->shards[i]));
    if (!missing || x->f->check || (x->f->salvage && missing < x->nshards))
        return CKPT_OK;
    (void)fail(x->err, CKPT_ENOTFOUND, x->shards[first].at, "{=shard %.*s} is {missing} (%zu of %zu are)",
               STR_ARG(x->shards[first].name), missing, x->nshards);
    fail_where(x->err, "weight_map");
    fail_hint(x->err, "put all shards into the folder of the index%s",
              missing < x->nshards ? "; `ckpt salvage` writes what the others hold" : "");
    return CKPT_ENOTFOUND;
}

static ckpt_status open_source(const struct index *x, const char *path, source **out)
{
    CKPT_TRY(shards_open(path, out, x->err));
    struct probe p = {.src = *out, .size = (*out)->size, .nhead = 64};
    p.nhead = p.size < p.nhead ? (size_t)p.size : p.nhead;
    ckpt_status st = source_read(*out, 0, p.head, p.nhead, x->err);
    if (st == CKPT_OK && shards_is_index(&p))
        st = fail(x->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{=a shard} that is {an index} itself");
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

/* given_up - ST, in the words of x->err, is why nothing of S can be had, if it is that. */
static ckpt_status given_up(struct index *x, struct shard *s, ckpt_status st)
{
    if (!x->f->salvage || !(check_is_fault(st) || st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED))
        return st;
    s->why = arena_printf(x->f->a, "nothing of it can be had: %s%s%s", x->err->where,
                          x->err->where[0] ? ": " : "", x->err->what)
                 .ptr;
    s->file = NULL;
    return s->why ? CKPT_OK : fail_memory(x->err);
}

static ckpt_status open_shard(struct index *x, struct shard *s)
{
    ckpt_file *f = x->f;
    source *src;
    char *path = shards_join(folder_of(f->path), s->name);
    ckpt_file **grown =
        path ? arena_grow(f->a, f->parts, f->nparts, &f->cap_parts, f->nparts + 1, sizeof *grown) : NULL;
    ckpt_status st = grown ? open_source(x, path, &src) : fail_memory(x->err);
    if (st == CKPT_OK) {
        source *kept = source_ref(src); /* by what is being checked, too */
        st = given_up(x, s, format_part(f, path, src, &s->file, x->err));
        if ((size_t)(s - x->shards) >= shards_open_most())
            source_file_park(kept);
        source_unref(kept);
    }
    if (st == CKPT_OK && !s->file)
        x->lost = true; /* what is wrong with it was told */
    if (st == CKPT_OK && s->file) {
        f->parts = grown;
        grown[f->nparts++] = s->file;
        st = checked_add(f->nbytes, s->file->nbytes, &f->nbytes) ? CKPT_OK : fail_memory(x->err);
    }
    fail_file(st == CKPT_OK ? NULL : x->err, path ? path : "");
    free(path);
    return st;
}

/* The pair that a path of the shard begins with. */
static uint32_t pair_of(const struct shard *s, const ckpt_path_elem *path, uint32_t n)
{
    return n && !path[0].is_int ? map_get(s->pair_of, path[0].str) : MAP_NONE;
}

static void index_rows(struct shard *s)
{
    const struct table *t = &s->file->table;
    for (uint32_t i = (uint32_t)t->nrows; i-- > 0;) {
        const ckpt_tensor *r = &t->rows[i].t;
        uint32_t k = pair_of(s, r->path, r->npath);
        s->own_row[i] = r->value && r->value->row == i;
        if (k != MAP_NONE)
            s->row_of[k] = i;
    }
    for (uint32_t i = (uint32_t)s->file->nleaves; i-- > 0;) {
        uint32_t k = pair_of(s, s->file->leaves[i].path, s->file->leaves[i].npath);
        if (k != MAP_NONE)
            s->leaf_of[k] = i;
    }
}

static ckpt_status index_keys(struct index *x, const struct shard *s, const value_pair *pairs, uint32_t n,
                              map *keys)
{
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key;
        uint32_t before = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, i, &before))
            return fail_memory(x->err);
        if (before != MAP_NONE)
            return fail(x->err, CKPT_EFORMAT, s->at,
                        "shard %.*s has {two entries} \"%.*s\", {=one} is allowed", STR_ARG(s->name),
                        STR_ARG(key));
    }
    return CKPT_OK;
}

static ckpt_status index_shard(struct index *x, struct shard *s)
{
    arena *a = x->f->a;
    uint32_t nnotes = 0;
    const value_pair *notes = s->file->metadata ? value_pairs(s->file->metadata, &nnotes) : NULL;
    const ckpt_value *root = s->file->root ? file_replacement(s->file, s->file->root) : NULL;
    s->pairs = root ? value_pairs(root, &s->npairs) : NULL;
    s->npairs -= s->file->nties; /* bounded: they are its last; ties are looked for in the whole */
    s->pair_of = map_new(s->npairs);
    s->note_of = map_new(nnotes);
    s->taken = arena_array(a, s->npairs, sizeof *s->taken);
    s->row_of = arena_array(a, s->npairs, sizeof *s->row_of);
    s->leaf_of = arena_array(a, s->npairs, sizeof *s->leaf_of);
    s->own_row = arena_array(a, s->file->table.nrows, sizeof *s->own_row);
    s->storages = arena_array(a, s->file->table.nstorages, sizeof *s->storages);
    s->beside = ARENA_NEW(a, struct storage_more);
    if (!s->pair_of || !s->note_of || !s->taken || !s->row_of || !s->leaf_of || !s->own_row || !s->storages ||
        !s->beside)
        return fail_memory(x->err);
    s->beside->file = s->name;
    memset(s->storages, 0xff, s->file->table.nstorages * sizeof *s->storages);
    memset(s->row_of, 0xff, s->npairs * sizeof *s->row_of);
    memset(s->leaf_of, 0xff, s->npairs * sizeof *s->leaf_of);
    CKPT_TRY(index_keys(x, s, s->pairs, s->npairs, s->pair_of));
    CKPT_TRY(index_keys(x, s, notes, nnotes, s->note_of));
    index_rows(s);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ merge */

/* take_more - which shard a storage lies in, and what is lost of it. */
static ckpt_status take_more(struct index *x, const struct shard *s, struct storage *to)
{
    if (!storage_lost(to)) {
        to->more = s->beside;
        return CKPT_OK;
    }
    struct storage_more *own = ARENA_NEW(x->f->a, struct storage_more);
    if (!own)
        return fail_memory(x->err);
    *own = *to->more;
    own->file = s->name;
    to->more = own;
    x->lost = true;
    return CKPT_OK;
}

static ckpt_status take_storage(struct index *x, struct shard *s, uint32_t *storage)
{
    if (*storage == CKPT_NO_STORAGE)
        return CKPT_OK;
    uint32_t *to = &s->storages[*storage];
    if (*to == MAP_NONE) {
        struct storage copy = s->file->table.storages[*storage];
        CKPT_TRY(take_more(x, s, &copy));
        copy.keyed = false; /* another pickle's */
        if (copy.src)
            source_ref(copy.src);
        CKPT_TRY(table_storage(&x->f->table, &copy, to, x->err));
    }
    *storage = *to;
    return CKPT_OK;
}

/* Row I of S, which lies below pair PAIR of the whole. */
static ckpt_status take_row(struct index *x, struct shard *s, uint32_t i, uint32_t pair)
{
    struct table *t = &x->f->table;
    struct row r = s->file->table.rows[i];
    struct step *steps = arena_array(x->f->a, r.t.npath, sizeof *steps);
    uint32_t at;
    if (!steps)
        return fail_memory(x->err);
    if (r.steps)
        memcpy(steps, r.steps, r.t.npath * sizeof *steps);
    steps[0] = (struct step){.node = x->f->root, .index = pair};
    r.steps = steps;
    if (r.t.part_of != CKPT_NO_TENSOR) /* rows of one pair keep their distances */
        r.t.part_of = (uint32_t)(t->nrows - (i - r.t.part_of));
    CKPT_TRY(take_storage(x, s, &r.t.storage));
    CKPT_TRY(table_row(t, &r, &at, x->err));
    s->nrows++;
    if (s->own_row[i])
        ((ckpt_value *)(uintptr_t)r.t.value)->row = at;
    return CKPT_OK;
}

static ckpt_status take_pair(struct index *x, struct shard *s, uint32_t k)
{
    ckpt_file *f = x->f;
    const ckpt_value *val = file_replacement(s->file, s->pairs[k].val);
    uint32_t pair = value_count(f->root);
    s->taken[k] = true;
    if (!value_put(f->a, f->root, s->pairs[k].key, (ckpt_value *)(uintptr_t)val))
        return fail_memory(x->err);
    for (uint32_t i = s->row_of[k]; i < s->file->table.nrows; i++) {
        const ckpt_tensor *t = &s->file->table.rows[i].t;
        if (pair_of(s, t->path, t->npath) != k)
            break;
        CKPT_TRY(take_row(x, s, i, pair));
    }
    for (size_t i = s->leaf_of[k]; i < s->file->nleaves; i++) {
        const ckpt_leaf *leaf = &s->file->leaves[i];
        if (pair_of(s, leaf->path, leaf->npath) != k)
            break;
        CKPT_TRY(file_leaf(f, leaf->path, leaf->npath, leaf->value, x->err));
        f->leaves[f->nleaves - 1].containers = leaf->containers;
    }
    return CKPT_OK;
}

/* A converter that drops ties and keeps the old index leaves keys that only the
 * shard's own metadata explain. */
static bool is_noted_alias(const struct shard *s, ckpt_str key)
{
    uint32_t n, i = map_get(s->note_of, key);
    ckpt_str of;
    return i != MAP_NONE && value_text(value_pairs(s->file->metadata, &n)[i].val, &of) &&
           map_get(s->pair_of, of) != MAP_NONE;
}

/* take_lost - a row for what index and nothing else tells of. */
static ckpt_status take_lost(struct index *x, const struct weight *w)
{
    ckpt_file *f = x->f;
    struct shard *s = &x->shards[w->shard];
    x->lost = true;
    if (!s->gone) {
        struct storage_more lost = {
            .file = s->name,
            .lost = s->why ? s->why : s->file ? "the shard does not have it" : "the shard is missing",
            .lost_at = CKPT_NO_OFFSET};
        CKPT_TRY(table_add_lost(&f->table, lost, &s->gone, x->err));
        s->gone++; /* bounded: by the number of storages */
    }
    struct row r = {.t.npath = 1, .t.part_of = CKPT_NO_TENSOR, .t.storage = s->gone - 1};
    ckpt_path_elem *path = ARENA_NEW(f->a, ckpt_path_elem);
    if (!path)
        return fail_memory(x->err);
    path->str = w->key;
    r.t.path = path;
    r.t.kind = CKPT_UNINITIALIZED;
    return table_row(&f->table, &r, NULL, x->err);
}

static ckpt_status take_weight(struct index *x, const struct weight *w)
{
    struct shard *s = &x->shards[w->shard];
    if (!s->file)
        return x->f->salvage ? take_lost(x, w) : CKPT_OK;
    uint32_t k = map_get(s->pair_of, w->key);
    if (k == MAP_NONE && s->damaged)
        return CKPT_OK;
    if (k != MAP_NONE)
        return take_pair(x, s, k);
    if (is_noted_alias(s, w->key))
        return CKPT_OK;
    if (x->f->salvage)
        return take_lost(x, w);
    (void)fail(x->err, CKPT_EFORMAT, w->at,
               "the index says that {=\"%.*s\"} is in %.*s, which {does not have it}", STR_ARG(w->key),
               STR_ARG(s->name));
    fail_hint(x->err, "index and shards are from different saves, or a shard is not the one it is called");
    x->lost = true;
    return file_report_fault_as(x->f, CHECK_MISSING_TENSOR, CKPT_EFORMAT, x->err);
}

/* told_extra - KEY is in S, but not in the index, when the set is being checked. */
static ckpt_status told_extra(const struct index *x, const struct shard *s, ckpt_str key)
{
    if (!x->f->check)
        return CKPT_OK;
    (void)fail(x->err, CKPT_EFORMAT, s->at, "{\"%.*s\"} is in %.*s, but not in {=the index}",
               STR_ARG(key), STR_ARG(s->name));
    fail_hint(x->err, "index and shards are from different saves");
    return file_report_fault_as(x->f, CHECK_EXTRA_TENSOR, CKPT_EFORMAT, x->err);
}

/* One pair that the index does not list: it joins the list, so that a second
 * shard with the same key is found out. */
static ckpt_status take_extra(struct index *x, struct shard *s, uint32_t k, ckpt_str key)
{
    uint32_t before;
    struct weight *grown = arena_grow(x->f->a, x->weights, x->n, &x->cap, x->n + 1, sizeof *grown);
    if (!grown || !map_put(x->keys, key, (uint32_t)x->n, &before))
        return fail_memory(x->err);
    x->weights = grown;
    if (before != MAP_NONE) {
        (void)fail(x->err, CKPT_EFORMAT, grown[before].at == CKPT_NO_OFFSET ? s->at : grown[before].at,
                   "\"%.*s\" is in {two shards}, %.*s and %.*s, {=one} is allowed", STR_ARG(key),
                   STR_ARG(x->shards[grown[before].shard].name), STR_ARG(s->name));
        x->lost = true;
        return file_report_fault_as(x->f, CHECK_DUPLICATE, CKPT_EFORMAT, x->err);
    }
    CKPT_TRY(told_extra(x, s, key));
    grown[x->n++] = (struct weight){key, CKPT_NO_OFFSET, (uint32_t)(s - x->shards)};
    return take_pair(x, s, k);
}

static ckpt_status take_rest(struct index *x, struct shard *s)
{
    size_t extra = 0;
    ckpt_str key, first = STR_LIT("");
    for (uint32_t k = 0; k < s->npairs; k++)
        if (!s->taken[k] && value_text(s->pairs[k].key, &key)) {
            first = extra++ ? first : key;
            CKPT_TRY(take_extra(x, s, k, key));
        }
    if (s->nrows != s->file->table.nrows - s->file->nties && !x->lost)
        return fail(x->err, CKPT_EUNSUPPORTED, s->at,
                    "{shard %.*s} is no {=mapping of names to tensors}", STR_ARG(s->name));
    if (extra)
        file_notice(
            x->f, "%.*s holds \"%.*s\" and %zu more that the index does not list; they are read all the same",
            STR_ARG(s->name), STR_ARG(first), extra - 1);
    return CKPT_OK;
}

/* The first shard; when the set is being checked, the first that can be read. */
static const ckpt_file *first_file(const struct index *x)
{
    for (size_t i = 0; i < x->nshards; i++)
        if (x->shards[i].file)
            return x->shards[i].file;
    return NULL;
}

/* The root of the whole is what the first shard's is, its _metadata included. */
static ckpt_status make_root(struct index *x)
{
    ckpt_file *f = x->f;
    const ckpt_file *first = first_file(x);
    const ckpt_value *root = first ? first->root : NULL;
    bool ordered = root && value_calls(root, "collections", "OrderedDict", 0);
    f->root = ordered ? value_ordered_dict(f->a) : value_new(f->a, CKPT_V_DICT, 0);
    ckpt_value *state = ordered ? value_state(root) : NULL;
    if (!f->root || (state && !value_build(f->a, f->root, state)))
        return fail_memory(x->err);
    return CKPT_OK;
}

/* Sums as the writers of total_size form them: each tensor, or each storage once. */
static ckpt_status check_total(const struct index *x)
{
    const struct table *t = &x->f->table;
    uint64_t tensors = 0, storages = 0;
    for (size_t i = 0; i < t->nrows; i++)
        if (t->rows[i].t.part_of == CKPT_NO_TENSOR && !checked_add(tensors, t->rows[i].t.nbytes, &tensors))
            return CKPT_OK;
    for (size_t i = 0; i < t->nstorages; i++)
        if (!checked_add(storages, t->storages[i].s.nbytes, &storages))
            return CKPT_OK;
    if (!x->has_size || x->total_size == tensors || x->total_size == storages || x->lost)
        return CKPT_OK;
    file_notice(x->f, "the index says total_size %llu, its tensors have %llu bytes",
                (unsigned long long)x->total_size, (unsigned long long)tensors);
    if (!x->f->check)
        return CKPT_OK;
    (void)fail(x->err, CKPT_EFORMAT, x->total_at,
               "the index says total_size {%llu}, its tensors have {=%llu} bytes",
               (unsigned long long)x->total_size, (unsigned long long)tensors);
    return file_report_fault_as(x->f, CHECK_TOTAL_SIZE, CKPT_EFORMAT, x->err);
}

static ckpt_status take_facts(struct index *x, const struct shard *s)
{
    ckpt_file *f = x->f, *part = s->file;
    f->executes_code |= part->executes_code;
    f->torch_load &= part->torch_load;
    if (!checked_add(f->unaccounted, part->unaccounted, &f->unaccounted))
        f->unaccounted = UINT64_MAX;
    if (!f->torch_load_why.len)
        f->torch_load_why = part->torch_load_why;
    for (size_t i = 0; i < part->notices.n; i++)
        file_notice(f, "%.*s: %s", STR_ARG(s->name), part->notices.text[i]);
    for (size_t i = 0; i < part->npickles; i++) {
        struct pickle_facts **grown = arena_grow(f->a, f->pickles, f->npickles, &f->cap_pickles,
                                                 f->npickles + 1, sizeof *grown);
        if (!grown)
            return fail_memory(x->err);
        f->pickles = grown;
        grown[f->npickles++] = part->pickles[i];
    }
    return CKPT_OK;
}

/* records_tie - is PAIR of F's metadata one of its ties? */
static bool records_tie(const ckpt_file *f, const value_pair *pair)
{
    ckpt_str key;
    uint32_t row = f->nties && value_text(pair->key, &key) ? map_get(f->names, key) : MAP_NONE;
    return row != MAP_NONE && file_records_tie(f, row);
}

/* Metadata of the first shard (`format`), and the ties of all, where the index has none of that key. */
static ckpt_status merge_metadata(struct index *x)
{
    const ckpt_file *first = first_file(x);
    for (size_t k = 0; k < x->nshards; k++) {
        const ckpt_file *f = x->shards[k].file;
        uint32_t n = 0;
        const value_pair *pairs = f && f->metadata ? value_pairs(f->metadata, &n) : NULL;
        for (uint32_t i = 0; i < n; i++)
            if (f == first || records_tie(f, &pairs[i]))
                CKPT_TRY(shards_note(x, pairs[i].key, pairs[i].val));
    }
    return x->f->torch_load ? CKPT_OK : ties_read(x->f, x->err);
}

static uint64_t findings(const struct index *x) { return x->f->check ? x->f->check->result->findings : 0; }

ckpt_status shards_merge(struct index *x)
{
    CKPT_TRY(check_present(x));
    x->f->torch_load = x->nshards > 0;
    for (size_t i = 0; i < x->nshards; i++) {
        uint64_t before = findings(x);
        if (!x->shards[i].missing)
            CKPT_TRY(open_shard(x, &x->shards[i]));
        x->shards[i].damaged = findings(x) > before;
        x->lost |= x->shards[i].damaged;
        if (!x->shards[i].file)
            continue;
        CKPT_TRY(index_shard(x, &x->shards[i]));
        CKPT_TRY(take_facts(x, &x->shards[i]));
    }
    if (x->f->salvage && x->nshards && !first_file(x))
        return fail(x->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{none} of {=its %zu shards} is recoverable",
                    x->nshards);
    CKPT_TRY(make_root(x));
    size_t listed = x->n;
    for (size_t i = 0; i < listed; i++)
        CKPT_TRY(take_weight(x, &x->weights[i]));
    for (size_t i = 0; i < x->nshards; i++)
        if (x->shards[i].file)
            CKPT_TRY(take_rest(x, &x->shards[i]));
    CKPT_TRY(check_total(x));
    if (first_file(x))
        x->f->producer = first_file(x)->producer;
    return merge_metadata(x);
}
