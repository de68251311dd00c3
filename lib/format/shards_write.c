/*
 * shards_write.c - a plan as many files and an index, named and cut as
 * huggingface_hub does it (serialization/_base.py, _torch.py).
 *
 *   STEM-00001-of-00003.EXT …      each written by its own format
 *   STEM.EXT.index.json            last; JSON as json.dumps(…, indent=2) has it
 *
 * The cut is greedy, in the order of the keys: a tensor larger than the limit
 * gets a shard of its own, before the one still open; one that would tip the
 * open shard over the limit closes it. Tensors that share a storage stay
 * together and count once. One shard needs no number and no index.
 *
 * A format without shared storages has its ties resolved first; what was
 * dropped is noted in the index, and so is metadata that is not `format`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "format/shards.h"
#include "format/shards_replace.h"
#include "format/ties.h"
#include "io/sink.h"

static const struct kind {
    const char *format, *stem, *ext;
    bool shares; /* tensors may share a storage; else only names and tensors are kept */
} kinds[] = {
    {"safetensors", "model", ".safetensors", false},
    {"torch-zip", "pytorch_model", ".bin", true},
};

/* What cannot be split: a tensor, or all that is below one key of the root. */
struct unit {
    ckpt_str name; /* in the weight_map */
    uint32_t up;   /* another unit that shares a storage with it; itself: none */
    uint32_t shard;
    uint64_t size; /* of all units that share with it, kept by the first */
};

struct cut {
    ckpt_plan *p;
    const struct format *format;
    const struct kind *kind;
    const struct write_job *job;
    struct plan_entry *entries; /* a copy: the plan's own follow its mask */
    size_t n;
    uint32_t *unit_of; /* by entry */
    struct unit *units;
    uint32_t nunits, nshards;
    uint64_t total;
    struct plan_pair *notes; /* what the input's metadata leave to be noted */
    size_t nnotes;
    buf folder, stem, ext; /* NUL-terminated; folder with its slash */
    bool made_folder;
    uint64_t done;           /* bytes in the shards that are finished */
    struct sink_batch batch; /* whole, and not yet in their places */
    size_t placed;           /* files of the set that are in their places */
    struct replaced *old;    /* the set that was there before; NULL: none, or it is still as it was */
};

#define WAITING_MOST 400u /* files of a set that wait, two descriptors each; of more, the first do not */

static const ckpt_tensor *tensor_of(const struct cut *c, size_t entry)
{
    return &c->p->file->table.rows[c->entries[entry].row].t;
}

/* ------------------------------------------------------------------ names */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void put_z(buf *b, const char *text, size_t n)
{
    buf_put(b, text, n);
    buf_byte(b, 0);
}

/* PATH is a folder, existing or to be made, or a file whose stem and suffix
 * the shards take over. */
static ckpt_status name_output(struct cut *c, ckpt_error *err)
{
    const char *path = c->job->path, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    bool file = dot && dot > base && (format_by_suffix(path) || strcmp(dot, ".bin") == 0) && !is_folder(path);
    if (strcmp(path, "-") == 0) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "shards are several files, standard output is one");
        fail_hint(err, "name a folder, or the file that the shards are to be named after");
        return CKPT_EUSAGE;
    }
    buf_put(&c->folder, path, file ? (size_t)(base - path) : strlen(path));
    if (!file && *base)
        buf_byte(&c->folder, '/');
    buf_byte(&c->folder, 0);
    put_z(&c->stem, file ? base : c->kind->stem, file ? (size_t)(dot - base) : strlen(c->kind->stem));
    put_z(&c->ext, file ? dot : c->kind->ext, strlen(file ? dot : c->kind->ext));
    return buf_ok(&c->folder) && buf_ok(&c->stem) && buf_ok(&c->ext) ? CKPT_OK : fail_memory(err);
}

/* Shard K, or the index for K = nshards: its name without the folder. */
static ckpt_str base_name(const struct cut *c, uint32_t k)
{
    const char *stem = (const char *)c->stem.data, *ext = (const char *)c->ext.data;
    if (k == c->nshards)
        return arena_printf(c->p->a, "%s%s.index.json", stem, ext);
    if (c->nshards == 1)
        return arena_printf(c->p->a, "%s%s", stem, ext);
    return arena_printf(c->p->a, "%s-%05u-of-%05u%s", stem, k + 1, c->nshards, ext);
}

static const char *full_name(const struct cut *c, uint32_t k)
{
    ckpt_str base = base_name(c, k);
    return base.ptr ? arena_printf(c->p->a, "%s%s", (const char *)c->folder.data, base.ptr).ptr : NULL;
}

/* ------------------------------------------------------------------ units */

static uint32_t head_of(struct cut *c, uint32_t u)
{
    while (c->units[u].up != u)
        u = c->units[u].up = c->units[c->units[u].up].up; /* each walk halves the next */
    return u;
}

/* The smaller number leads, so that a group is met at its first member. */
static void unite(struct cut *c, uint32_t a, uint32_t b)
{
    a = head_of(c, a);
    b = head_of(c, b);
    if (a < b)
        c->units[b].up = a;
    else
        c->units[a].up = b;
}

static ckpt_status grow_unit(struct cut *c, uint32_t u, size_t entry, map *owner, ckpt_error *err)
{
    const ckpt_tensor *t = tensor_of(c, entry);
    uint32_t row = c->entries[entry].row, other = MAP_NONE;
    uint64_t bytes = 0;
    bool fits = !t->has_data || t->part_of != CKPT_NO_TENSOR || plan_nbytes(c->p, row, &bytes);
    c->unit_of[entry] = u;
    if (c->kind->shares && t->storage != CKPT_NO_STORAGE) {
        fits = plan_storage_nbytes(c->p, row, &bytes);
        if (!map_put_num(owner, t->storage, u, &other))
            return fail_memory(err);
    }
    if (other != MAP_NONE)
        return unite(c, u, other), CKPT_OK;
    fits = fits && checked_add(c->units[u].size, bytes, &c->units[u].size);
    return fits && checked_add(c->total, bytes, &c->total)
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the tensors together have more than 2^64 bytes");
}

static uint32_t add_unit(struct cut *c, ckpt_str name)
{
    c->units[c->nunits] = (struct unit){.name = name, .up = c->nunits};
    return c->nunits++;
}

static ckpt_status entries_as_units(struct cut *c, ckpt_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        CKPT_TRY(grow_unit(c, add_unit(c, c->entries[i].name), i, NULL, err));
    return CKPT_OK;
}

/* The pair of the root that an entry lies below, and the key it will have. */
static ckpt_status pair_of(const struct cut *c, const map *keys, size_t entry, uint32_t *pair, ckpt_str *name,
                           ckpt_error *err)
{
    const ckpt_plan *p = c->p;
    const ckpt_tensor *t = tensor_of(c, entry);
    const ckpt_path_elem *e = t->npath > p->root_depth ? &t->path[p->root_depth] : NULL;
    const struct edit *edit = plan_edit_find(p, p->root);
    bool deep = t->npath - p->root_depth > 1 && t->part_of == CKPT_NO_TENSOR;
    *pair = !e || e->is_int || deep ? MAP_NONE : map_get(keys, e->str);
    if (*pair == MAP_NONE) {
        (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                   "\"%.*s\" lies %s; an index names only the tensors of one mapping of texts",
                   STR_ARG(c->entries[entry].name),
                   deep ? "deeper than that" : "below a key that is no text");
        fail_hint(err, "--root picks the mapping of names to tensors");
        return CKPT_ELOSSY;
    }
    *name = edit && *pair < edit->n && edit->names[*pair].ptr ? edit->names[*pair] : e->str;
    if (!utf8_check(*name, true, NULL))
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "the name \"%.*s\" is not UTF-8; an index cannot hold it", STR_ARG(*name));
    return CKPT_OK;
}

/* UNIT_OF: pair -> unit. */
static ckpt_status units_of_pairs(struct cut *c, const map *keys, map *owner, uint32_t *unit_of,
                                  ckpt_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        uint32_t pair;
        ckpt_str name;
        CKPT_TRY(pair_of(c, keys, i, &pair, &name, err));
        if (unit_of[pair] == MAP_NONE)
            unit_of[pair] = add_unit(c, name);
        CKPT_TRY(grow_unit(c, unit_of[pair], i, owner, err));
    }
    return CKPT_OK;
}

/* The pairs of the root without a tensor have no place in an index. */
static ckpt_status drop_pairs(struct cut *c, const value_pair *pairs, uint32_t n, const uint32_t *unit_of,
                              ckpt_error *err)
{
    ckpt_plan *p = c->p;
    struct edit *edit = plan_edit(p, p->root, n);
    size_t before = p->ndropped;
    if (!edit)
        return fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        char type[128];
        ckpt_path_elem key;
        if (unit_of[i] != MAP_NONE || edit->dropped[i])
            continue;
        edit->dropped[i] = true;
        CKPT_TRY(path_elem(p->a, pairs[i].key, &key, err));
        ckpt_str name = path_join(p->a, &key, 1);
        if (!name.ptr)
            return fail_memory(err);
        ckpt_value_type_name(pairs[i].val, type, sizeof type);
        CKPT_TRY(plan_dropped(p, name, str_c(type), "not a tensor", err));
    }
    if (p->ndropped == before || !c->job->opts->strict)
        return CKPT_OK;
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" is not a tensor, nor are %zu others; shards hold named tensors only",
               STR_ARG(p->dropped[before].path), p->ndropped - before - 1);
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

static ckpt_status pairs_as_units(struct cut *c, ckpt_error *err)
{
    uint32_t n = 0;
    const value_pair *pairs = c->p->root ? value_pairs(c->p->root, &n) : NULL;
    map *keys = map_new(n), *owner = map_new(c->n);
    uint32_t *unit_of = arena_array(c->p->a, n, sizeof *unit_of);
    ckpt_status st = keys && owner && unit_of ? CKPT_OK : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < n; i++) {
        ckpt_str key;
        unit_of[i] = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, i, NULL))
            st = fail_memory(err);
    }
    if (st == CKPT_OK)
        st = units_of_pairs(c, keys, owner, unit_of, err);
    if (st == CKPT_OK && n)
        st = drop_pairs(c, pairs, n, unit_of, err);
    map_free(keys);
    map_free(owner);
    return st;
}

/* -------------------------------------------------------------------- cut */

/* Sizes of a group are summed at its first unit; the others follow it. */
static ckpt_status gather_sizes(struct cut *c, ckpt_error *err)
{
    for (uint32_t u = 0; u < c->nunits; u++) {
        uint32_t head = head_of(c, u);
        c->units[u].up = head; /* every later walk is one step */
        if (head != u && !checked_add(c->units[head].size, c->units[u].size, &c->units[head].size))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the tensors together have more than 2^64 bytes");
    }
    return CKPT_OK;
}

/* A shard is numbered when it is closed, so a too large tensor's comes before
 * the one that is still open: first OPEN, then the number. */
static ckpt_status assign(struct cut *c, ckpt_error *err)
{
    uint64_t max = c->job->opts->max_shard, open = 0;
    uint32_t current = UINT32_MAX; /* units of the open shard, renumbered when it closes */
    bool any = false;
    CKPT_TRY(gather_sizes(c, err));
    for (uint32_t u = 0, from = 0; u <= c->nunits; u++) {
        bool end = u == c->nunits, head = !end && c->units[u].up == u;
        uint64_t size = head ? c->units[u].size : 0;
        if (head && size > max) {
            c->units[u].shard = c->nshards++;
            continue;
        }
        if (any && (end || (head && size > max - open))) {
            for (uint32_t k = from; k < u; k++)
                if (c->units[k].up == k && c->units[k].shard == current)
                    c->units[k].shard = c->nshards;
            c->nshards++;
            from = u;
            open = 0;
            any = false;
        }
        if (head) {
            c->units[u].shard = current;
            open += size; /* bounded: by max */
            any = true;
        }
    }
    for (uint32_t u = 0; u < c->nunits; u++)
        c->units[u].shard = c->units[c->units[u].up].shard;
    if (c->nshards <= MAX_SHARDS)
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%u shards of at most %llu bytes; the limit is %u shards",
                c->nshards, (unsigned long long)max, MAX_SHARDS);
}

/* ------------------------------------------------------------------ index */

static void put_note(buf *b, ckpt_str key, ckpt_str text)
{
    buf_text(b, ",\n    ");
    json_quote_ascii(b, key);
    buf_text(b, ": ");
    json_quote_ascii(b, text);
}

/* What the input's metadata and the ties dropped now leave to be noted. */
static ckpt_status put_notes(const struct cut *c, buf *b, size_t aliases, ckpt_error *err)
{
    const ckpt_plan *p = c->p;
    uint32_t before;
    map *seen = map_new(c->nnotes);
    bool ok = seen && map_put(seen, STR_LIT("total_size"), 0, NULL) &&
              map_put(seen, STR_LIT("format"), 0, NULL);
    buf_printf(b, "{\n  \"metadata\": {\n    \"total_size\": %llu", (unsigned long long)c->total);
    for (size_t i = 0; ok && i < c->nnotes; i++)
        if ((ok = map_put(seen, c->notes[i].key, 0, &before)) && before == MAP_NONE)
            put_note(b, c->notes[i].key, c->notes[i].text);
    for (size_t i = aliases; ok && i < p->naliases; i++)
        if ((ok = map_put(seen, p->aliases[i].name, 0, &before)) && before == MAP_NONE)
            put_note(b, p->aliases[i].name, p->aliases[i].of);
    buf_text(b, "\n  },\n");
    map_free(seen);
    return ok ? CKPT_OK : fail_memory(err);
}

struct place {
    uint32_t shard, tied, unit;
};

static int by_place(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->tied != b->tied)
        return a->tied < b->tied ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

/* Within a shard first the units that it was opened for, then those that came
 * along with them. */
static ckpt_status put_map(const struct cut *c, buf *b, ckpt_error *err)
{
    struct place *at = calloc(c->nunits, sizeof *at);
    if (!at)
        return fail_memory(err);
    for (uint32_t u = 0; u < c->nunits; u++)
        at[u] = (struct place){c->units[u].shard, c->units[u].up != u, u};
    qsort(at, c->nunits, sizeof *at, by_place);
    buf_text(b, "  \"weight_map\": {");
    for (uint32_t i = 0; i < c->nunits; i++) {
        buf_text(b, i ? ",\n    " : "\n    ");
        json_quote_ascii(b, c->units[at[i].unit].name);
        buf_text(b, ": ");
        json_quote_ascii(b, base_name(c, at[i].shard));
    }
    buf_text(b, "\n  }\n}");
    free(at);
    return buf_ok(b) ? CKPT_OK : fail_memory(err);
}

static ckpt_status write_index(struct cut *c, size_t aliases, ckpt_error *err)
{
    struct sink_options so = plan_writing(c->p, c->job->opts);
    so.batch = &c->batch;
    const char *path = full_name(c, c->nshards);
    sink *out = NULL;
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = path ? put_notes(c, &b, aliases, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = put_map(c, &b, err);
    if (st == CKPT_OK && !c->job->opts->dry_run) {
        st = sink_file(path, &so, &out, err);
        if (st == CKPT_OK && (st = sink_write(out, b.data, b.len, err)) != CKPT_OK)
            sink_abort(out);
        else if (st == CKPT_OK)
            st = sink_commit(out, err);
    }
    c->job->result->bytes += b.len; /* bounded: it is in memory */
    buf_free(&b);
    return st == CKPT_OK ? plan_output(c->p, path, err) : st;
}

/* ------------------------------------------------------------------ write */

static int progress(void *user, uint64_t done, uint64_t total)
{
    const struct cut *c = user;
    (void)total;
    return c->job->opts->progress(c->job->opts->user, c->done + done, c->total);
}

/* check_places - before a byte is written: what is there stays unless it may be replaced, and
 * what is read always does. */
static ckpt_status check_places(const struct cut *c, ckpt_error *err)
{
    for (uint32_t k = 0; k <= c->nshards; k++) { /* of one, the index is that of an older set */
        const char *path = full_name(c, k);
        if (!path)
            return fail_memory(err);
        CKPT_TRY(shards_guard(c->p->file, path, c->nshards == 1, err));
        if (c->job->opts->force || access(path, F_OK) != 0)
            continue;
        (void)fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "exists already; nothing written");
        fail_hint(err, "-f replaces it");
        fail_file(err, path);
        return err->status;
    }
    return CKPT_OK;
}

/* make_way - what is to be replaced gets out of the way, when all that is new is whole. */
static ckpt_status make_way(struct cut *c, ckpt_error *err)
{
    const ckpt_write_options *o = c->job->opts;
    if (c->old || !o->force)
        return CKPT_OK;
    const char **paths = arena_array(c->p->a, c->nshards + 1, sizeof *paths); /* bounded: MAX_SHARDS */
    for (uint32_t k = 0; paths && k <= c->nshards; k++)
        if (!(paths[k] = full_name(c, k)))
            paths = NULL;
    return paths ? replaced_begin(paths, c->nshards + 1, (const char *)c->stem.data,
                                  (const char *)c->ext.data, !o->no_sync, &c->old, err)
                 : fail_memory(err);
}

static ckpt_status make_folder(struct cut *c, ckpt_error *err)
{
    const char *folder = (const char *)c->folder.data;
    if (c->job->opts->dry_run || !folder[0] || is_folder(folder))
        return CKPT_OK;
    c->made_folder = mkdir(folder, 0777) == 0;
    if (c->made_folder || errno == EEXIST)
        return CKPT_OK;
    ckpt_status st = fail_errno(err, CKPT_NO_OFFSET, "cannot make the folder for the shards");
    fail_file(err, folder);
    return st;
}

/* place - puts in their places what is whole, the index behind the shards. */
static ckpt_status place(struct cut *c, ckpt_error *err)
{
    size_t placed = 0;
    ckpt_status st = make_way(c, err);
    if (st == CKPT_OK)
        st = sink_batch_commit(&c->batch, &placed, err);
    c->placed += placed; /* bounded: the files of this set */
    return st;
}

/* finish - the set is in its place, though the disk may not have been waited for. */
static void finish(struct cut *c)
{
    if (c->old)
        replaced_done(c->old);
    c->old = NULL;
}

/* A set that is not whole is no checkpoint: what was there before comes back. */
static void take_back(struct cut *c, size_t from)
{
    size_t end = from + c->placed; /* bounded: the files of this set */
    end = end < c->p->noutputs ? end : c->p->noutputs;
    sink_batch_abort(&c->batch);
    if (c->nshards > 1 && c->placed > c->nshards) {
        finish(c);
        return;
    }
    for (size_t i = from; i < end; i++)
        if (!c->job->opts->force)
            (void)unlink(c->p->outputs[i]);
    if (c->old)
        replaced_undo(c->old, c->placed);
    c->old = NULL;
    if (c->made_folder)
        (void)rmdir((const char *)c->folder.data);
    c->p->noutputs = from;
}

/* Shard K through the format's own writer: the plan's mask shows it only what
 * is its own, and ties are resolved already. */
static ckpt_status write_shard(struct cut *c, uint32_t k, ckpt_error *err)
{
    ckpt_write_options opts = *c->job->opts;
    ckpt_write_result result = {0};
    struct write_job job = {.path = full_name(c, k), .opts = &opts, .result = &result, .batch = &c->batch};
    size_t dropped = c->p->ndropped;
    opts.max_shard = 0;
    opts.ties = CKPT_TIES_COPY;
    opts.user = opts.progress ? c : NULL;
    opts.progress = opts.progress ? progress : NULL;
    if (!job.path)
        return fail_memory(err);
    for (size_t i = 0; i < c->n; i++)
        c->p->keep[c->entries[i].row] = c->units[c->unit_of[i]].shard == k;
    c->p->entries_stale = true;
    CKPT_TRY(c->format->write(c->p, &job, err));
    if (k) /* the first has listed what no shard holds */
        c->p->ndropped = dropped;
    c->job->result->tensors += result.tensors;
    c->job->result->bytes += result.bytes; /* bounded: they were written */
    for (uint32_t u = 0; u < c->nunits; u++)
        if (c->units[u].shard == k && c->units[u].up == u)
            c->done += c->units[u].size;
    return CKPT_OK;
}

/* Only `format` goes into every shard; the index has the rest. */
static ckpt_status shard_metadata(const struct cut *c, ckpt_value **out, ckpt_error *err)
{
    ckpt_value *format = c->p->file->metadata ? value_get(c->p->file->metadata, "format") : NULL;
    *out = NULL;
    if (!format)
        return CKPT_OK;
    ckpt_value *key = value_str(c->p->a, STR_LIT("format"));
    *out = value_new(c->p->a, CKPT_V_DICT, 0);
    return key && *out && value_put(c->p->a, *out, key, format) ? CKPT_OK : fail_memory(err);
}

static ckpt_status write_set(struct cut *c, size_t aliases, ckpt_error *err)
{
    ckpt_value *all = c->p->file->metadata, *own;
    size_t outputs = c->p->noutputs;
    CKPT_TRY(shard_metadata(c, &own, err));
    ckpt_status st = make_folder(c, err);
    c->p->file->metadata = own;
    for (uint32_t k = 0; st == CKPT_OK && k < c->nshards; k++) {
        if (c->batch.n == WAITING_MOST)
            st = place(c, err);
        if (st == CKPT_OK)
            st = write_shard(c, k, err);
    }
    c->p->file->metadata = all;
    if (st == CKPT_OK)
        st = write_index(c, aliases, err);
    if (st == CKPT_OK && !c->job->opts->dry_run)
        st = place(c, err);
    if (st != CKPT_OK)
        take_back(c, outputs);
    else
        finish(c);
    return st;
}

/* One shard is the whole: written as if nobody had asked for shards, but in the place of a set. */
static ckpt_status write_single(struct cut *c, ckpt_error *err)
{
    ckpt_write_options o = *c->job->opts;
    struct write_job job = {full_name(c, 0), &o, c->job->result, &c->batch};
    size_t outputs = c->p->noutputs;
    o.max_shard = 0;
    if (!job.path)
        return fail_memory(err);
    ckpt_status st = make_folder(c, err);
    st = st == CKPT_OK ? c->format->write(c->p, &job, err) : st;
    if (st == CKPT_OK && !o.dry_run)
        st = place(c, err);
    if (st == CKPT_OK && c->old && !replaced_by_one(c->old))
        st = fail_errno(err, CKPT_NO_OFFSET, "cannot remove the index of the set that is replaced");
    if (st != CKPT_OK)
        take_back(c, outputs);
    else
        finish(c);
    return st;
}

/* ------------------------------------------------------------------- plan */

/* Ties that the format cannot hold leave the plan's mask for the time being. */
static ckpt_status drop_ties(struct cut *c, ckpt_error *err)
{
    ckpt_plan *p = c->p;
    bool *drop = c->kind->shares ? NULL : calloc(p->nentries + 1, sizeof *drop);
    if (c->kind->shares)
        return CKPT_OK;
    ckpt_status st = drop ? ties_resolve(p, c->job->opts->ties, drop, err) : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++)
        if (drop[i])
            p->keep[p->entries[i].row] = false;
    free(drop);
    p->entries_stale = true;
    return st == CKPT_OK ? plan_entries(p, err) : st;
}

static ckpt_status make_units(struct cut *c, ckpt_error *err)
{
    ckpt_plan *p = c->p;
    CKPT_TRY(drop_ties(c, err));
    c->n = p->nentries;
    c->entries = calloc(c->n + 1, sizeof *c->entries);
    c->units = calloc(c->n + 1, sizeof *c->units);
    c->unit_of = calloc(c->n + 1, sizeof *c->unit_of);
    if (!c->entries || !c->units || !c->unit_of)
        return fail_memory(err);
    memcpy(c->entries, p->entries, c->n * sizeof *c->entries);
    CKPT_TRY(c->kind->shares ? pairs_as_units(c, err) : entries_as_units(c, err));
    CKPT_TRY(assign(c, err));
    if (c->nshards)
        return CKPT_OK;
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor is left to write");
    fail_hint(err, "`ckpt ls` lists what the input holds; see --root, --keep and --drop");
    return CKPT_ENOTFOUND;
}

static ckpt_status write_cut(struct cut *c, ckpt_error *err)
{
    ckpt_plan *p = c->p;
    struct plan_saved saved;
    size_t aliases = p->naliases, dropped = p->ndropped;
    CKPT_TRY(plan_entries(p, err));
    CKPT_TRY(plan_metadata(p, &c->notes, &c->nnotes, err));
    CKPT_TRY(plan_save(p, &saved, err));
    ckpt_status st = name_output(c, err);
    if (st == CKPT_OK)
        st = make_units(c, err);
    if (st == CKPT_OK)
        st = check_places(c, err);
    if (st == CKPT_OK && c->nshards > 1)
        st = write_set(c, aliases, err);
    plan_restore(p, &saved);
    if (st != CKPT_OK || c->nshards > 1)
        return st;
    p->naliases = aliases;
    p->ndropped = dropped;
    return write_single(c, err);
}

static const struct kind *kind_of(const ckpt_plan *p, const struct format **format)
{
    const ckpt_file *f = p->file;
    if (*format == f->format && f->nparts) /* shards of what they were */
        *format = f->torch_load ? format_by_name("torch-zip") : f->parts[0]->format;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp((*format)->name, kinds[i].format) == 0)
            return &kinds[i];
    *format = format_by_name(kinds[0].format);
    return &kinds[0];
}

ckpt_status shards_write(ckpt_plan *p, const struct format *format, const struct write_job *job,
                         ckpt_error *err)
{
    struct cut c = {.p = p, .job = job};
    c.kind = kind_of(p, &format);
    c.format = format;
    buf_init(&c.folder, 1u << 16);
    buf_init(&c.stem, 1u << 16);
    buf_init(&c.ext, 1u << 16);
    ckpt_status st = write_cut(&c, err);
    buf_free(&c.folder);
    buf_free(&c.stem);
    buf_free(&c.ext);
    free(c.entries);
    free(c.units);
    free(c.unit_of);
    return st;
}

ckpt_status shards_write_as_read(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    const struct format *format = p->file->format;
    const struct kind *kind = kind_of(p, &format);
    struct write_job one = *job;
    if (is_folder(job->path)) {
        char *path = shards_join(str_c(job->path), arena_printf(p->a, "%s%s", kind->stem, kind->ext));
        one.path = path ? arena_str(p->a, str_c(path)).ptr : NULL;
        free(path);
    }
    ckpt_status st = one.path ? shards_guard(p->file, one.path, true, err) : fail_memory(err);
    return st == CKPT_OK ? format->write(p, &one, err) : st;
}
