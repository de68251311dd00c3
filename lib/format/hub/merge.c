/* merge.c - merges shards into one file. The mapping at the top of its graph has the keys and values of all
 * shards in the order of the weight_map, its table has their rows; each storage has the name of its shard.
 *
 * Refused: a tensor in two shards, and a tensor that is not in its shard, unless the metadata of the shard
 * record it as a tie. A tensor that is not in the index is read, as in transformers. Ties that the index or
 * a shard records are rows after all others (ties.c).
 *
 * In salvage, the tensors that the index lists for missing and unreadable shards are rows marked as lost. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/text.h"
#include "core/check.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/own_files.h"
#include "format/files/path.h"
#include "format/hub/merge.h"
#include "format/hub/shards.h"
#include "format/parts/part_files.h"
#include "format/registry.h"
#include "format/ties.h"

void shards_warn_of_old_index(ckpt_plan *p, const char *path)
{
    const char *index = arena_printf(p->a, "%s.index.json", path).ptr;
    struct stat file_stat;
    if (!index || stat(index, &file_stat) != 0 || own_files_contain_path(p->file, index))
        return;
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    size_t stem_len = dot ? (size_t)(dot - path) : strlen(path);
    const char *stem = arena_str(p->a, str_of(path, stem_len)).ptr;
    char index_word[SHELL_WORD_MAX], stem_word[SHELL_WORD_MAX], suffix_word[SHELL_WORD_MAX];
    if (!stem)
        return;
    plan_notice(p, "%s, of an older set, is still there, and some loaders prefer it: rm %s %s-*-of-*%s",
                index, shell_path(index, index_word), shell_path(stem, stem_word),
                path[stem_len] ? shell_word(str_c(path + stem_len), "", "", suffix_word) : "");
}

/* count_shards - returns the number of shards by the file name in PATH; 0: it is not the name of a shard. */
static uint64_t count_shards(const char *path)
{
    struct shard_name s;
    return shard_name_parse(str_after_last(str_c(path), '/'), &s) ? s.count : 0;
}

void shards_warn_if_incomplete(ckpt_plan *p, const char *output)
{
    uint64_t nshards = p->file->files_in_set;
    bool has_notice = str_ends(str_c(p->file->path), STR_LIT(".gguf")); /* gguf/read.c adds its own */
    if (nshards > 1 && !has_notice && !count_shards(output))
        plan_notice(p, "one of %llu shards, not the whole model; name the folder or its index to read all",
                    (unsigned long long)nshards);
}

ckpt_status shards_add_metadata(struct index *x, ckpt_value *key, ckpt_value *text)
{
    ckpt_file *f = x->f;
    ckpt_str name;
    uint32_t before = MAP_NONE;
    if (!f->metadata && !(f->metadata = value_new(f->a, CKPT_V_DICT, 0)))
        return fail_memory(x->err);
    if (!value_text(key, &name))
        return CKPT_OK;
    if (!map_put(x->metadata_keys, name, value_count(f->metadata), &before) ||
        (before == MAP_NONE && !value_put(f->a, f->metadata, key, text)))
        return fail_memory(x->err);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ open */

/* hint_other_set - if none of the shards of X is there, but those of one other set are, sets the hint of
 * x->err to the command that reads these without the index. Returns false if not. */
static bool hint_other_set(struct index *x)
{
    for (size_t i = 0; i < x->nshards; i++)
        if (!x->shards[i].is_missing)
            return false;
    return shards_hint_without_index(x->f, folder_of(x->f), "the index names other files than those there",
                                     x->err);
}

static ckpt_status report_missing(struct index *x, const struct shard *s)
{
    size_t n = 0;
    for (size_t i = 0; i < x->nweights; i++)
        n += &x->shards[x->weights[i].shard] == s;
    x->is_incomplete = true;
    (void)fail(x->err, CKPT_ETRUNCATED, s->at,
               "{=the shard} is {missing}, and with it %zu tensor%s\n"
               "put all shards into the folder of the index; `ckpt salvage` writes what the others hold",
               n, n == 1 ? "" : "s");
    if (x->has_no_index)
        (void)fail(x->err, CKPT_ETRUNCATED, s->at,
                   "{=the shard} is {missing}, and with it an unknown number of tensors\n"
                   "put all shards into the folder; `ckpt salvage` writes what the others hold");
    if (s == x->shards) /* once is enough */
        (void)hint_other_set(x);
    error_add_where(x->err, "%.*s", STR_ARG(s->name));
    return file_report_fault_as(x->f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, x->err);
}

/* make_path - returns the path of S, which the caller frees; NULL: no memory. */
static char *make_path(const struct index *x, const struct shard *s)
{
    return s->path ? strdup(s->path) : path_make(folder_of(x->f), s->name);
}

/* check_present - marks the shards that are missing, and fails if a wanted one is. */
static ckpt_status check_present(struct index *x)
{
    bool is_wanted = false;
    size_t missing = 0, first = 0;
    for (size_t i = x->nshards; COUNT_DOWN(i);) {
        char *path = make_path(x, &x->shards[i]);
        if (!path)
            return fail_memory(x->err);
        bool exists = path_exists(x->f->archive, path);
        free(path);
        x->shards[i].is_missing = !exists;
        missing += !exists;
        if (!exists && !x->shards[i].is_unwanted) {
            first = i;
            is_wanted = true;
        }
    }
    for (size_t i = 0; missing && x->f->check && i < x->nshards; i++)
        if (x->shards[i].is_missing)
            CKPT_TRY(report_missing(x, &x->shards[i]));
    if (!is_wanted || x->f->check || (x->f->salvage && missing < x->nshards))
        return CKPT_OK;
    (void)fail(x->err, CKPT_ENOTFOUND, x->shards[first].at, "{=shard %.*s} is {missing} (%zu of %zu are)",
               STR_ARG(x->shards[first].name), missing, x->nshards);
    if (!x->has_no_index)
        error_add_where(x->err, "weight_map");
    else if (x->f->archive)
        error_add_where(x->err, "members of the archive");
    if (!x->has_no_index && hint_other_set(x))
        return CKPT_ENOTFOUND;
    error_add_hint(x->err, "put all shards into the folder%s%s", x->has_no_index ? "" : " of the index",
                   missing < x->nshards ? "; `ckpt salvage` writes what the others hold" : "");
    return CKPT_ENOTFOUND;
}

static ckpt_status open_source(const struct index *x, const char *path, struct journal_note *note,
                               source **out)
{
    CKPT_TRY(part_file_open(x->f, path, note, out, x->err));
    struct probe p = {.src = *out, .size = (*out)->size, .nhead = 64};
    p.nhead = p.size < p.nhead ? (size_t)p.size : p.nhead;
    ckpt_status st = source_read(*out, 0, p.head, p.nhead, x->err);
    if (st == CKPT_OK && shards_is_index(&p))
        st = fail(x->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{=a shard} that is {an index} itself");
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

/* give_up_shard - in salvage, if S cannot be read, sets s->why_unreadable from x->err and returns CKPT_OK.
 * Otherwise returns ST. */
static ckpt_status give_up_shard(struct index *x, struct shard *s, ckpt_status st)
{
    if (!x->f->salvage || !(check_is_fault(st) || st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED))
        return st;
    s->why_unreadable = arena_printf(x->f->a, "the shard cannot be read: %s%s%s", x->err->where,
                                     x->err->where[0] ? ": " : "", x->err->what)
                            .ptr;
    s->file = NULL;
    return s->why_unreadable ? CKPT_OK : fail_memory(x->err);
}

static ckpt_status open_shard(struct index *x, struct shard *s)
{
    ckpt_file *f = x->f;
    struct journal_note note;
    source *src;
    char *path = make_path(x, s);
    ckpt_file **grown =
        path ? arena_grow(f->a, f->parts, f->nparts, &f->cap_parts, f->nparts + 1, sizeof *grown) : NULL;
    ckpt_status st = grown ? CKPT_OK : fail_memory(x->err);
    if (st == CKPT_OK && x->merging) {
        const struct opening o = {.path = path, .limits = &f->limits, .watch = f->opening->watch};
        st = format_open_path(&o, false, &s->file, x->err);
    } else if (st == CKPT_OK && (st = open_source(x, path, &note, &src)) == CKPT_OK) {
        source *kept = source_ref(src); /* because format_open_part takes over SRC */
        st = format_open_part(f, path, src, &s->file, x->err);
        st = give_up_shard(x, s, format_note_journal(&note, s->file, st, x->err));
        if ((size_t)(s - x->shards) >= part_files_max_open())
            source_file_park(kept);
        source_unref(kept);
    }
    if (st == CKPT_OK && !s->file)
        x->is_incomplete = true; /* the fault of S was reported, or is in s->why_unreadable */
    if (st == CKPT_OK && s->file) {
        f->parts = grown;
        grown[f->nparts++] = s->file;
        bool ok = checked_add(f->nbytes, s->file->nbytes, &f->nbytes) && file_add_replacements_of(f, s->file);
        st = ok ? CKPT_OK : fail_memory(x->err);
    }
    error_add_file(st == CKPT_OK ? NULL : x->err, path ? path : "");
    free(path);
    return st;
}

/* skip_shard - notes S, which is unwanted, as a file of the set without opening it. */
static ckpt_status skip_shard(struct index *x, const struct shard *s)
{
    char *path = make_path(x, s);
    bool ok = path && file_note_read(x->f, path);
    free(path);
    return ok ? CKPT_OK : fail_memory(x->err);
}

/* is_in_part - returns true if the tensor at PATH (N elements) is in the part of S that is merged. */
static bool is_in_part(const struct shard *s, const ckpt_path_elem *path, uint32_t n)
{
    const struct merged_part *part = &s->part;
    return !(part->only_own_tensors && n > part->depth + 1) && path_begins(path, n, part->path, part->depth);
}

/* find_key - returns the pair of S with KEY, or MAP_NONE. */
static uint32_t find_key(const struct index *x, const struct shard *s, ckpt_str key)
{
    uint32_t i = map_get(x->keys, key);
    bool is_listed = i != MAP_NONE && &x->shards[x->weights[i].shard] == s;
    return is_listed && x->weights[i].pair != MAP_NONE ? x->weights[i].pair : map_get(s->pair_of, key);
}

static uint32_t find_pair(const struct index *x, const struct shard *s, const ckpt_path_elem *path,
                          uint32_t n)
{
    uint32_t depth = s->part.depth;
    bool has_key = n > depth && !path[depth].is_int && is_in_part(s, path, n);
    return has_key ? find_key(x, s, path[depth].str) : MAP_NONE;
}

/* find_pair_of_row - returns the pair of S that row I is in, or MAP_NONE. Its steps mostly tell. */
static uint32_t find_pair_of_row(const struct index *x, const struct shard *s, uint32_t i)
{
    const struct table *t = &s->file->table;
    const ckpt_path_elem *path = table_path_of(t, i);
    const struct step *step = table_steps_of(t, i);
    uint32_t n = table_npath_of(t, i), depth = s->part.depth;
    bool has_step = n > depth && !path[depth].is_int && step && step[depth].node == s->mapping;
    if (has_step && step[depth].index < s->npairs && is_in_part(s, path, n))
        return step[depth].index;
    return find_pair(x, s, path, n);
}

/* index_rows - sets row_of and leaf_of of each pair, what S has by row, and how many rows there are. */
static void index_rows(const struct index *x, struct shard *s)
{
    const struct table *t = &s->file->table;
    for (uint32_t i = (uint32_t)t->nrows; COUNT_DOWN(i);) {
        const ckpt_value *value = table_value_of(t, i);
        uint32_t k = s->pair_of_row[i] = find_pair_of_row(x, s, i);
        s->own_row[i] = value && value_row(value) == i;
        s->nrows_of_part += is_in_part(s, table_path_of(t, i), table_npath_of(t, i));
        if (k != MAP_NONE)
            s->row_of[k] = i;
    }
    for (uint32_t i = (uint32_t)s->file->nleaves; COUNT_DOWN(i);) {
        uint32_t k = find_pair(x, s, s->file->leaves[i].path, s->file->leaves[i].npath);
        if (k != MAP_NONE)
            s->leaf_of[k] = i;
    }
}

/* note_part - adds a notice if only a part of S is merged. */
static ckpt_status note_part(struct index *x, const struct shard *s)
{
    bool leaves_out = s->nrows_of_part < s->file->table.nrows;
    for (size_t i = 0; !leaves_out && i < s->file->nleaves; i++) {
        const ckpt_leaf *leaf = &s->file->leaves[i];
        leaves_out = s->part.only_own_tensors || !is_in_part(s, leaf->path, leaf->npath);
    }
    const char *rest = leaves_out ? "; what is next to them is left out" : "";
    ckpt_str name = path_join(x->f->a, s->part.path, s->part.depth);
    x->f->leaves_out |= leaves_out;
    if (!name.ptr)
        return fail_memory(x->err);
    if (s->part.depth)
        file_notice(x->f, "%.*s: using the tensors under \"%.*s\"%s", STR_ARG(s->name), STR_ARG(name), rest);
    else if (leaves_out)
        file_notice(x->f, "%.*s: using the tensors at the top%s", STR_ARG(s->name), rest);
    return CKPT_OK;
}

/* note_adapter - adds a notice if S, which is merged, has weights of LoRA: whoever merges an adapter may
 * expect that it is added to the weights that it changes. */
static void note_adapter(struct index *x, const struct shard *s)
{
    for (size_t i = 0; i < s->file->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&s->file->table, i);
        ckpt_str key = t.npath ? t.path[t.npath - 1].str : str_of(NULL, 0);
        if (str_find(key, STR_LIT("lora_"), 0) == SIZE_MAX)
            continue;
        file_notice(x->f,
                    "%.*s: its LoRA weights (%.*s) become tensors next to the others: they are not added to "
                    "the weights that they adapt",
                    STR_ARG(s->name), STR_ARG(key));
        return;
    }
}

static ckpt_status fail_two_entries(const struct index *x, const struct shard *s, ckpt_str key)
{
    return fail(x->err, CKPT_EFORMAT, s->at, "shard %.*s has {two entries} \"%.*s\", {=one} is allowed",
                STR_ARG(s->name), STR_ARG(key));
}

/* get_key - sets *KEY to the key of pair K of S. False: it is no text. */
static bool get_key(const struct index *x, const struct shard *s, uint32_t k, ckpt_str *key)
{
    if (!s->is_table)
        return value_text(s->pairs[k].key, key);
    *key = table_name(&x->f->table, s->first_row + k);
    return true;
}

/* get_value - returns the value of pair K of S. */
static const ckpt_value *get_value(const struct index *x, const struct shard *s, uint32_t k)
{
    return s->is_table ? table_value_of(&x->f->table, s->first_row + k)
                       : file_replacement_of(s->file, s->pairs[k].val);
}

/* index_pairs - sets the pair of each weight that the index lists for S, and s->pair_of for the others. */
static ckpt_status index_pairs(struct index *x, const struct shard *s)
{
    uint32_t next = 0;
    for (uint32_t k = 0; k < s->npairs; k++) {
        ckpt_str key;
        uint32_t before;
        if (!get_key(x, s, k, &key))
            continue;
        bool is_next = next < x->nweights && str_eq(x->weights[next].key, key); /* mostly it is */
        uint32_t i = is_next ? next : map_get(x->keys, key);
        next = i == MAP_NONE ? next : i + 1;
        struct weight *w = i == MAP_NONE ? NULL : &x->weights[i];
        if (w && !w->is_group && &x->shards[w->shard] == s) {
            before = w->pair;
            w->pair = k;
        } else if (!map_put(s->pair_of, key, k, &before)) {
            return fail_memory(x->err);
        }
        if (before != MAP_NONE)
            return fail_two_entries(x, s, key);
    }
    return CKPT_OK;
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
            return fail_two_entries(x, s, key);
    }
    return CKPT_OK;
}

/* set_storage_file - sets the name of S as the file of the storage TO, for errors and for lost tensors. */
static ckpt_status set_storage_file(struct index *x, struct shard *s, struct storage *to)
{
    if (!storage_loss(to) && str_eq(storage_location(to), s->extra->location)) {
        to->extra = s->extra;
        return CKPT_OK;
    }
    struct storage_extra *own = ARENA_NEW(x->f->a, struct storage_extra);
    if (!own)
        return fail_memory(x->err);
    *own = to->extra ? *to->extra : (struct storage_extra){0};
    own->file = s->name;
    to->extra = own;
    x->is_incomplete |= own->lost_why != NULL;
    s->extra = own->lost_why ? s->extra : own; /* mostly it is shared by those that follow */
    return CKPT_OK;
}

/* take_rows - moves the rows of S, which has only tensors, to the set: their order is not known yet, but
 * the memory that they take is not needed twice. */
static ckpt_status take_rows(struct index *x, struct shard *s)
{
    struct table *from = &s->file->table, *t = &x->f->table;
    size_t first_storage = t->nstorages;
    s->is_table = true;
    s->first_row = t->nrows;
    s->npairs = (uint32_t)(from->nrows - s->file->nties);
    s->nrows_of_part = from->nrows;
    CKPT_TRY(table_append(t, from, s->npairs, x->err));
    for (size_t i = first_storage; i < t->nstorages; i++)
        CKPT_TRY(set_storage_file(x, s, &t->storages[i]));
    free(s->file->root_pairs);
    s->file->root_pairs = NULL;
    s->file->root = value_new(x->f->a, CKPT_V_DICT, 0);
    if (!s->file->nties) /* records_tie reads these rows */
        table_close(from);
    return s->file->root ? CKPT_OK : fail_memory(x->err);
}

/* index_graph - sets the pairs of S, and the rows and leaves of each. */
static ckpt_status index_graph(struct index *x, struct shard *s)
{
    arena *a = x->temp;
    x->has_graph = true;
    s->part.node = s->file->root;
    if (x->merging)
        CKPT_TRY(x->merging->find_part(s->file, x->merging->root, &s->part, x->err));
    s->mapping = s->part.node ? file_replacement_of(s->file, s->part.node) : NULL;
    s->pairs = s->mapping ? value_pairs(s->mapping, &s->npairs) : NULL;
    s->npairs -= s->file->nties; /* ties are the last pairs; the set has its own ties */
    s->row_of = arena_array(a, s->npairs, sizeof *s->row_of);
    s->leaf_of = arena_array(a, s->npairs, sizeof *s->leaf_of);
    s->own_row = arena_array(a, s->file->table.nrows, sizeof *s->own_row);
    s->pair_of_row = arena_array(a, s->file->table.nrows, sizeof *s->pair_of_row);
    s->storages = arena_array(a, s->file->table.nstorages, sizeof *s->storages);
    if (!s->row_of || !s->leaf_of || !s->own_row || !s->pair_of_row || !s->storages)
        return fail_memory(x->err);
    memset(s->storages, 0xff, s->file->table.nstorages * sizeof *s->storages); /* all MAP_NONE */
    memset(s->row_of, 0xff, s->npairs * sizeof *s->row_of);
    memset(s->leaf_of, 0xff, s->npairs * sizeof *s->leaf_of);
    return CKPT_OK;
}

static ckpt_status index_shard(struct index *x, struct shard *s)
{
    uint32_t nmetadata = 0;
    const value_pair *metadata = s->file->metadata ? value_pairs(s->file->metadata, &nmetadata) : NULL;
    s->extra = ARENA_NEW(x->f->a, struct storage_extra);
    s->pair_of = map_new(0);
    s->metadata_of = map_new(nmetadata);
    if (!s->extra || !s->pair_of || !s->metadata_of)
        return fail_memory(x->err);
    s->extra->file = s->name;
    CKPT_TRY(s->file->root_pairs && !x->merging ? take_rows(x, s) : index_graph(x, s));
    s->is_merged = arena_array(x->temp, s->npairs, sizeof *s->is_merged);
    if (!s->is_merged)
        return fail_memory(x->err);
    CKPT_TRY(index_pairs(x, s));
    CKPT_TRY(index_keys(x, s, metadata, nmetadata, s->metadata_of));
    if (!s->is_table)
        index_rows(x, s);
    if (x->merging)
        note_adapter(x, s);
    return x->merging ? note_part(x, s) : CKPT_OK;
}

/* ------------------------------------------------------------------ merge */

static ckpt_status add_shard_storage(struct index *x, struct shard *s, uint32_t *storage)
{
    if (*storage == CKPT_NO_STORAGE)
        return CKPT_OK;
    uint32_t *to = &s->storages[*storage];
    if (*to == MAP_NONE) {
        struct storage copy = s->file->table.storages[*storage];
        CKPT_TRY(set_storage_file(x, s, &copy));
        copy.in_key_index = false; /* the key is of another pickle */
        if (copy.src)
            source_ref(copy.src);
        CKPT_TRY(table_add_storage(&x->f->table, &copy, to, x->err));
    }
    *storage = *to;
    return CKPT_OK;
}

/* put_in_order - makes row AT, of S or NULL, the next row of the set. VALUE is the node that it is the row
 * of, or NULL. */
static ckpt_status put_in_order(struct index *x, struct shard *s, uint32_t at, const ckpt_value *value)
{
    if (value)
        value_set_row((ckpt_value *)(uintptr_t)value, (uint32_t)x->norder);
    s->nrows++;
    if (x->norder == x->cap_order && !arena_grow_apart(x->temp, &x->order, &x->cap_order, sizeof *x->order))
        return fail_memory(x->err);
    x->order[x->norder++] = at;
    return CKPT_OK;
}

/* add_shard_row - adds row I of S below pair PAIR of the set. */
static ckpt_status add_shard_row(struct index *x, struct shard *s, uint32_t i, uint32_t pair)
{
    struct table *t = &x->f->table;
    struct row r = table_row(&s->file->table, i);
    uint32_t at, depth = s->part.depth;
    r.t.path += depth;
    r.t.npath -= depth;
    if (depth)
        r.t.name = str_of(NULL, 0); /* it is made anew from the path */
    const struct step first = {.node = x->f->root, .index = pair};
    struct step *steps = r.t.npath == 1 ? NULL : arena_array(x->f->a, r.t.npath, sizeof *steps);
    if (r.t.npath > 1 && !steps)
        return fail_memory(x->err);
    if (steps && r.steps)
        memcpy(steps, r.steps + depth, r.t.npath * sizeof *steps);
    if (steps)
        steps[0] = first;
    r.steps = steps ? steps : &first;
    if (r.t.part_of != CKPT_NO_TENSOR) /* rows of one pair keep their distances */
        r.t.part_of = (uint32_t)(x->norder - (i - r.t.part_of));
    CKPT_TRY(add_shard_storage(x, s, &r.t.storage));
    CKPT_TRY(table_add_row(t, &r, &at, x->err));
    return put_in_order(x, s, at, s->own_row[i] ? r.t.value : NULL);
}

/* add_pair - adds pair K of S, with its rows and leaves, to the set. */
static ckpt_status add_pair(struct index *x, struct shard *s, uint32_t k)
{
    ckpt_file *f = x->f;
    const ckpt_value *val = get_value(x, s, k);
    uint32_t pair = value_count(f->root);
    s->is_merged[k] = true;
    if (x->has_graph) {
        ckpt_value *key = s->pairs ? s->pairs[k].key
                                   : value_str(f->a, table_name(&f->table, s->first_row + k));
        if (!key || !value_put(f->a, f->root, key, (ckpt_value *)(uintptr_t)val))
            return fail_memory(x->err);
    }
    if (s->is_table) {
        table_set_step(&f->table, s->first_row + k, f->root, pair);
        return put_in_order(x, s, (uint32_t)s->first_row + k, val);
    }
    for (uint32_t i = s->row_of[k]; i < s->file->table.nrows && s->pair_of_row[i] == k; i++)
        CKPT_TRY(add_shard_row(x, s, i, pair));
    for (size_t i = s->leaf_of[k]; i < s->file->nleaves; i++) {
        const ckpt_leaf *leaf = &s->file->leaves[i];
        if (find_pair(x, s, leaf->path, leaf->npath) != k)
            break;
        uint32_t depth = s->part.depth;
        CKPT_TRY(file_add_leaf(f, leaf->path + depth, leaf->npath - depth, leaf->value, x->err));
        f->leaves[f->nleaves - 1].containers = leaf->containers ? leaf->containers + depth : NULL;
    }
    return CKPT_OK;
}

/* is_tie_in_metadata - returns true if KEY is a tie in the metadata of S. Converters that drop ties leave
 * such keys in the index. */
static bool is_tie_in_metadata(const struct index *x, const struct shard *s, ckpt_str key)
{
    uint32_t n, i = map_get(s->metadata_of, key);
    ckpt_str original;
    return i != MAP_NONE && value_text(value_pairs(s->file->metadata, &n)[i].val, &original) &&
           find_key(x, s, original) != MAP_NONE;
}

/* add_lost_row - adds a row without data for a tensor that is in the index, but in no shard. */
static ckpt_status add_lost_row(struct index *x, const struct weight *w)
{
    ckpt_file *f = x->f;
    struct shard *s = &x->shards[w->shard];
    x->is_incomplete = true;
    if (!s->lost_storage) {
        struct storage_extra lost = {.file = s->name,
                                     .lost_why = s->why_unreadable ? s->why_unreadable
                                                 : s->file         ? "the shard does not have it"
                                                                   : "the shard is missing",
                                     .lost_at = CKPT_NO_OFFSET};
        CKPT_TRY(table_add_lost(&f->table, lost, &s->lost_storage, x->err));
        s->lost_storage++; /* 0 is none */
    }
    struct row r = {.t.npath = 1, .t.part_of = CKPT_NO_TENSOR, .t.storage = s->lost_storage - 1};
    ckpt_path_elem *path = ARENA_NEW(f->a, ckpt_path_elem);
    if (!path)
        return fail_memory(x->err);
    path->str = w->key;
    r.t.path = path;
    r.t.kind = CKPT_UNINITIALIZED;
    uint32_t at;
    CKPT_TRY(table_add_row(&f->table, &r, &at, x->err));
    return put_in_order(x, s, at, NULL);
}

static bool is_hdf5(const struct shard *s) { return strcmp(s->file->format->name, "hdf5") == 0; }

/* find_weight - returns the pair of S for W, or MAP_NONE. For TensorFlow models,
 * transformers writes the name of the model in front of each key of the index, but not in the shards. */
static uint32_t find_weight(const struct shard *s, const struct weight *w)
{
    size_t slash = w->pair == MAP_NONE && is_hdf5(s) ? str_find(w->key, STR_LIT("/"), 0) : SIZE_MAX;
    return slash == SIZE_MAX ? w->pair : map_get(s->pair_of, str_skip(w->key, slash + 1));
}

static ckpt_status report_missing_tensor(struct index *x, const struct weight *w)
{
    (void)fail(x->err, CKPT_EFORMAT, w->at,
               "the weight_map lists {=\"%.*s\"} in %.*s, which {does not have it}\n"
               "index and shards are from different saves, or a shard is in the place of a different one",
               STR_ARG(w->key), STR_ARG(x->shards[w->shard].name));
    x->is_incomplete = true;
    return file_report_fault_as(x->f, CHECK_MISSING_TENSOR, CKPT_EFORMAT, x->err);
}

static ckpt_status add_weight(struct index *x, const struct weight *w)
{
    struct shard *s = &x->shards[w->shard];
    if (!s->file)
        return x->f->salvage ? add_lost_row(x, w) : CKPT_OK;
    if (w->is_group) /* add_unlisted_pairs adds its tensors */
        return CKPT_OK;
    uint32_t k = find_weight(s, w);
    if (k == MAP_NONE && s->is_damaged)
        return CKPT_OK;
    if (k != MAP_NONE)
        return add_pair(x, s, k);
    if (is_tie_in_metadata(x, s, w->key))
        return CKPT_OK;
    if (x->f->salvage)
        return add_lost_row(x, w);
    return report_missing_tensor(x, w);
}

static ckpt_status report_extra(const struct index *x, const struct shard *s, ckpt_str key)
{
    if (!x->f->check)
        return CKPT_OK;
    (void)fail(x->err, CKPT_EFORMAT, s->at,
               "{\"%.*s\"} is in %.*s, but not in {=the index}\nindex and shards are from different saves",
               STR_ARG(key), STR_ARG(s->name));
    return file_report_fault_as(x->f, CHECK_EXTRA_TENSOR, CKPT_EFORMAT, x->err);
}

/* fail_twice - fails because KEY is in the shard FIRST and in S, which the caller named to be merged. */
static ckpt_status fail_twice(struct index *x, ckpt_str key, uint32_t first, const struct shard *s,
                              const char *hint)
{
    return fail(x->err, CKPT_EEXIST, CKPT_NO_OFFSET,
                "\"%.*s\" is in {both} %.*s and %.*s; nothing is merged\n%s", STR_ARG(key),
                STR_ARG(x->shards[first].name), STR_ARG(s->name), hint);
}

/* add_extra - adds pair K of S to the merged file; the index does not list its key KEY. Adds KEY to x->keys,
 * so that a second shard with KEY is reported. IS_EXPECTED: no finding, because the index may omit KEY. */
static ckpt_status add_extra(struct index *x, struct shard *s, uint32_t k, ckpt_str key, bool is_expected)
{
    uint32_t before;
    if (!map_put(x->keys, key, (uint32_t)x->nweights, &before))
        return fail_memory(x->err);
    if (before != MAP_NONE) {
        const struct weight *w = &x->weights[before];
        if (x->is_guess)
            return folder_fail_ambiguous(x->f->archive, x->f->path, (unsigned)x->nshards,
                                         folder_is_checkpoint, x->err);
        if (x->has_no_index)
            return fail_twice(x, key, w->shard, s,
                              value_pairs(get_value(x, s, k), &(uint32_t){0})
                                  ? "first write each by `ckpt convert FILE -o FLAT.safetensors`: then only "
                                    "names of tensors count"
                                  : "ckpt add PREFIX FILE -o OUT renames the tensors of one of them");
        (void)fail(x->err, CKPT_EFORMAT, w->at == CKPT_NO_OFFSET ? s->at : w->at,
                   "\"%.*s\" is in {two shards}, %.*s and %.*s, {=one} is allowed", STR_ARG(key),
                   STR_ARG(x->shards[w->shard].name), STR_ARG(s->name));
        x->is_incomplete = true;
        return file_report_fault_as(x->f, CHECK_DUPLICATE, CKPT_EFORMAT, x->err);
    }
    if (!is_expected)
        CKPT_TRY(report_extra(x, s, key));
    const struct weight w = {.key = key, .at = CKPT_NO_OFFSET, .shard = (uint32_t)(s - x->shards), .pair = k};
    return shards_add_weight(x, &w) ? add_pair(x, s, k) : fail_memory(x->err);
}

/* find_group - returns true if the index has a group that KEY ("group/name" or "group@name") is in, and sets
 * is_found of that group. */
static bool find_group(struct index *x, ckpt_str key)
{
    for (size_t n = key.len; COUNT_DOWN(n);) {
        bool ends_group = key.ptr[n] == '/' || key.ptr[n] == '@';
        uint32_t i = ends_group ? map_get(x->keys, str_of(key.ptr, n)) : MAP_NONE;
        if (i != MAP_NONE && x->weights[i].is_group) {
            x->weights[i].is_found = true;
            return true;
        }
    }
    return false;
}

/* check_groups - checks that each group in the index, the first NLISTED weights, is in a shard. */
static ckpt_status check_groups(struct index *x, size_t nlisted)
{
    for (size_t i = 0; i < nlisted; i++) {
        const struct weight *w = &x->weights[i];
        const struct shard *s = &x->shards[w->shard];
        bool is_first = w->is_group && map_get(x->keys, w->key) == i;
        if (is_first && !w->is_found && s->file && !s->is_damaged && !x->f->salvage)
            CKPT_TRY(report_missing_tensor(x, w));
    }
    return CKPT_OK;
}

/* is_left_out - returns true if pair K of S, with the key KEY, is a value that is not merged: it is next to
 * the weights, or is in an earlier file, too: the attributes of HDF5, or a value of files that are merged. */
static bool is_left_out(struct index *x, const struct shard *s, uint32_t k, ckpt_str key)
{
    bool has_row = s->is_table || s->row_of[k] != MAP_NONE;
    if (has_row || s->part.only_own_tensors)
        return !has_row;
    if (map_get(x->keys, key) == MAP_NONE || !(is_hdf5(s) || x->merging))
        return false;
    x->f->leaves_out |= x->merging != NULL;
    if (x->merging)
        file_notice(x->f, "%.*s: the value \"%.*s\" is left out, because an earlier file has it, too",
                    STR_ARG(s->name), STR_ARG(key));
    return true;
}

static ckpt_status add_unlisted_pairs(struct index *x, struct shard *s)
{
    size_t extra = 0;
    ckpt_str key, first = STR_LIT("");
    for (uint32_t k = 0; k < s->npairs; k++)
        if (!s->is_merged[k] && get_key(x, s, k, &key) && !is_left_out(x, s, k, key)) {
            bool is_expected = x->has_no_index || find_group(x, key) ||
                               (is_hdf5(s) && s->row_of[k] == MAP_NONE);
            if (!is_expected && extra++ == 0)
                first = key;
            CKPT_TRY(add_extra(x, s, k, key, is_expected));
        }
    if (s->nrows != s->nrows_of_part - s->file->nties && !x->is_incomplete)
        return fail(x->err, CKPT_EUNSUPPORTED, s->at, "{shard %.*s} is not {=a mapping of names to tensors}",
                    STR_ARG(s->name));
    if (extra == 1)
        file_notice(x->f, "%.*s holds \"%.*s\", which the index does not list; it is read all the same",
                    STR_ARG(s->name), STR_ARG(first));
    if (extra > 1)
        file_notice(
            x->f, "%.*s holds \"%.*s\" and %zu more that the index does not list; they are read all the same",
            STR_ARG(s->name), STR_ARG(first), extra - 1);
    return CKPT_OK;
}

static const ckpt_file *get_first_file(const struct index *x)
{
    for (size_t i = 0; i < x->nshards; i++)
        if (x->shards[i].file)
            return x->shards[i].file;
    return NULL;
}

static bool is_ordered_dict(const ckpt_value *v)
{
    return v && value_calls(v, "collections", "OrderedDict", 0);
}

/* make_root - makes the root of the set, with the type of the root of the first shard. */
static ckpt_status make_root(struct index *x)
{
    ckpt_file *f = x->f;
    const ckpt_file *first = get_first_file(x);
    bool ordered = first && is_ordered_dict(first->root);
    f->root = ordered ? value_ordered_dict(f->a) : value_new(f->a, CKPT_V_DICT, 0);
    return f->root ? CKPT_OK : fail_memory(x->err);
}

/* add_root_state - gives the root of the set the _metadata of the root of the first shard. This comes after
 * the last pair, so that the root is written as torch writes one: a pair after BUILD could call anything. */
static ckpt_status add_root_state(struct index *x)
{
    const ckpt_file *first = get_first_file(x);
    ckpt_value *state = is_ordered_dict(x->f->root) ? value_state(first->root) : NULL;
    return state && !value_add_state(x->f->a, x->f->root, state) ? fail_memory(x->err) : CKPT_OK;
}

/* check_total - adds a notice if total_size is neither the sum of all tensors nor of all storages. */
static ckpt_status check_total(const struct index *x)
{
    const struct table *t = &x->f->table;
    uint64_t tensors = 0, storages = 0;
    for (size_t i = 0; i < t->nrows; i++)
        if (table_part_of(t, i) == CKPT_NO_TENSOR && !checked_add(tensors, table_nbytes_of(t, i), &tensors))
            return CKPT_OK;
    for (size_t i = 0; i < t->nstorages; i++)
        if (!checked_add(storages, t->storages[i].nbytes, &storages))
            return CKPT_OK;
    if (!x->has_total_size || x->total_size == tensors || x->total_size == storages || x->is_incomplete ||
        x->is_partial)
        return CKPT_OK;
    file_notice(x->f, "total_size in the index is %llu, its tensors have %llu bytes",
                (unsigned long long)x->total_size, (unsigned long long)tensors);
    if (!x->f->check)
        return CKPT_OK;
    (void)fail(x->err, CKPT_EFORMAT, x->total_size_at,
               "total_size in the index is {%llu}, its tensors have {=%llu} bytes",
               (unsigned long long)x->total_size, (unsigned long long)tensors);
    return file_report_fault_as(x->f, CHECK_TOTAL_SIZE, CKPT_EFORMAT, x->err);
}

/* add_notices_and_pickles - adds to x->f what S has apart from tensors: notices, pickles, and why torch.load
 * refuses S. */
static ckpt_status add_notices_and_pickles(struct index *x, const struct shard *s)
{
    ckpt_file *f = x->f, *part = s->file;
    f->executes_code |= part->executes_code;
    if (!part->loading.by)
        f->loading.by = NULL;
    f->has_typed_keys &= part->has_typed_keys;
    if (!checked_add(f->unaccounted, part->unaccounted, &f->unaccounted))
        f->unaccounted = UINT64_MAX;
    if (!f->loading.refusal.len)
        f->loading.refusal = part->loading.refusal;
    for (size_t i = 0; i < part->notices.n; i++)
        file_notice(f, "%.*s: %s", STR_ARG(s->name), part->notices.text[i]);
    return file_add_pickles_of(f, part, x->err);
}

static bool records_tie(const ckpt_file *f, const value_pair *pair)
{
    ckpt_str key;
    uint32_t row = f->nties && value_text(pair->key, &key) ? map_get(f->names, key) : MAP_NONE;
    return row != MAP_NONE && file_row_is_tie(f, row);
}

/* note_other_metadata - adds a notice if the set has a different text for the key of PAIR, of S, already. */
static void note_other_metadata(struct index *x, const struct shard *s, const value_pair *pair)
{
    uint32_t n;
    ckpt_str key, text, other;
    uint32_t i = value_text(pair->key, &key) ? map_get(x->metadata_keys, key) : MAP_NONE;
    if (i != MAP_NONE && value_text(value_pairs(x->f->metadata, &n)[i].val, &text) &&
        value_text(pair->val, &other) && !str_eq(text, other)) {
        x->f->leaves_out = true;
        file_notice(x->f, "%.*s: the metadata \"%.*s\" is left out, because an earlier file has it, too",
                    STR_ARG(s->name), STR_ARG(key));
    }
}

/* merge_metadata - adds the metadata of the first shard (`format`) and the ties of all shards, except keys
 * that the index has. */
static ckpt_status merge_metadata(struct index *x)
{
    const ckpt_file *first = get_first_file(x);
    for (size_t k = 0; k < x->nshards; k++) {
        const ckpt_file *f = x->shards[k].file;
        uint32_t n = 0;
        const value_pair *pairs = f && f->metadata ? value_pairs(f->metadata, &n) : NULL;
        for (uint32_t i = 0; i < n; i++) {
            if (x->merging)
                note_other_metadata(x, &x->shards[k], &pairs[i]);
            if (f == first || x->merging || records_tie(f, &pairs[i]))
                CKPT_TRY(shards_add_metadata(x, pairs[i].key, pairs[i].val));
        }
    }
    /* in shards of torch, tied names share a storage */
    return x->f->loading.by ? CKPT_OK : ties_add_rows(x->f, x->err);
}

ckpt_status shards_check_names(const ckpt_file *f, ckpt_error *err)
{
    map *row_of = map_new(f->table.nrows);
    ckpt_status st = row_of ? CKPT_OK : fail_memory(err);
    for (uint32_t i = 0; st == CKPT_OK && i < f->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&f->table, i);
        uint32_t before = MAP_NONE;
        if (!map_put(row_of, t.name, i, &before))
            st = fail_memory(err);
        else if (before != MAP_NONE && t.npath != table_npath_of(&f->table, before))
            st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                      "{two} tensors would be called \"%.*s\", one in a container, one by its key\n"
                      "first write each by `ckpt convert FILE -o FLAT.safetensors`, and rename one of them",
                      STR_ARG(t.name));
    }
    map_free(row_of);
    return st;
}

static uint64_t count_findings(const struct index *x)
{
    return x->f->check ? x->f->check->result->findings : 0;
}

ckpt_status shards_merge(struct index *x)
{
    if (!x->merging) /* of those that are missing, opening says why */
        CKPT_TRY(check_present(x));
    x->f->has_typed_keys = x->nshards > 0;
    x->f->loading.by = x->nshards ? "torch.load" : NULL; /* unless a shard is of another kind */
    for (size_t i = 0; i < x->nshards; i++) {
        struct shard *s = &x->shards[i];
        uint64_t before = count_findings(x);
        if (!s->is_missing)
            CKPT_TRY(s->is_unwanted ? skip_shard(x, s) : open_shard(x, s));
        s->is_damaged = count_findings(x) > before;
        x->is_incomplete |= s->is_damaged;
        if (!s->file)
            continue;
        CKPT_TRY(index_shard(x, s));
        CKPT_TRY(add_notices_and_pickles(x, s));
    }
    if (x->f->salvage && x->nshards && !get_first_file(x))
        return fail(x->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{none} of {=its %zu shards} is recoverable",
                    x->nshards);
    CKPT_TRY(make_root(x));
    size_t listed = x->nweights;
    for (size_t i = 0; i < listed; i++)
        CKPT_TRY(add_weight(x, &x->weights[i]));
    for (size_t i = 0; i < x->nshards; i++)
        if (x->shards[i].file)
            CKPT_TRY(add_unlisted_pairs(x, &x->shards[i]));
    CKPT_TRY(check_groups(x, listed));
    if (!table_reorder(&x->f->table, x->order, x->norder))
        return fail_memory(x->err);
    x->f->root_is_table = !x->has_graph;
    CKPT_TRY(check_total(x));
    if (get_first_file(x))
        x->f->producer = get_first_file(x)->producer;
    CKPT_TRY(merge_metadata(x));
    return add_root_state(x);
}
