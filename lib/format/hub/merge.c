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

ckpt_status shards_add_metadata(struct index *index, ckpt_value *key, ckpt_value *text)
{
    ckpt_file *f = index->f;
    ckpt_str name;
    uint32_t before = MAP_NONE;
    if (!f->metadata && !(f->metadata = value_new(f->a, CKPT_V_DICT, 0)))
        return fail_memory(index->err);
    if (!value_text(key, &name))
        return CKPT_OK;
    if (!map_put(index->metadata_keys, name, value_count(f->metadata), &before) ||
        (before == MAP_NONE && !value_put(f->a, f->metadata, key, text)))
        return fail_memory(index->err);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ open */

/* hint_other_set - if none of the shards of INDEX is there, but those of one other set are, sets the hint of
 * index->err to the command that reads these without the index. Returns false if not. */
static bool hint_other_set(struct index *index)
{
    for (size_t i = 0; i < index->nshards; i++)
        if (!index->shards[i].is_missing)
            return false;
    return shards_hint_without_index(index->f, folder_of(index->f),
                                     "the index names other files than those there", index->err);
}

static ckpt_status report_missing(struct index *index, const struct shard *shard)
{
    size_t n = 0;
    for (size_t i = 0; i < index->nweights; i++)
        n += &index->shards[index->weights[i].shard] == shard;
    index->is_incomplete = true;
    (void)fail(index->err, CKPT_ETRUNCATED, shard->at,
               "{=the shard} is {missing}, and with it %zu tensor%s\n"
               "put all shards into the folder of the index; `ckpt salvage` writes what the others hold",
               n, n == 1 ? "" : "s");
    if (index->has_no_index)
        (void)fail(index->err, CKPT_ETRUNCATED, shard->at,
                   "{=the shard} is {missing}, and with it an unknown number of tensors\n"
                   "put all shards into the folder; `ckpt salvage` writes what the others hold");
    if (shard == index->shards) /* once is enough */
        (void)hint_other_set(index);
    error_add_where(index->err, "%.*s", STR_ARG(shard->name));
    return file_report_fault_as(index->f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, index->err);
}

/* make_path - returns the path of SHARD, which the caller frees; NULL: no memory. */
static char *make_path(const struct index *index, const struct shard *shard)
{
    return shard->path ? strdup(shard->path) : path_make(folder_of(index->f), shard->name);
}

/* prefetch_shards - lets a server send the first bytes of all wanted shards at once. */
static void prefetch_shards(const struct index *index)
{
    size_t n = 0;
    char **paths = index->f->archive ? calloc(index->nshards, sizeof *paths) : NULL;
    for (size_t i = 0; paths && i < index->nshards; i++)
        if (!index->shards[i].is_unwanted && (paths[n] = make_path(index, &index->shards[i])))
            n++;
    if (paths)
        source_prefetch(index->f->archive, (const char *const *)paths, n);
    while (n)
        free(paths[--n]);
    free(paths);
}

/* check_present - marks the shards that are missing, and fails if a wanted one is. */
static ckpt_status check_present(struct index *index)
{
    bool is_wanted = false;
    size_t missing = 0, first = 0;
    for (size_t i = index->nshards; COUNT_DOWN(i);) {
        char *path = make_path(index, &index->shards[i]);
        if (!path)
            return fail_memory(index->err);
        bool exists = path_exists(index->f->archive, path);
        free(path);
        index->shards[i].is_missing = !exists;
        missing += !exists;
        if (!exists && !index->shards[i].is_unwanted) {
            first = i;
            is_wanted = true;
        }
    }
    for (size_t i = 0; missing && index->f->check && i < index->nshards; i++)
        if (index->shards[i].is_missing)
            CKPT_TRY(report_missing(index, &index->shards[i]));
    if (!is_wanted || index->f->check || (index->f->salvage && missing < index->nshards))
        return CKPT_OK;
    (void)fail(index->err, CKPT_ENOTFOUND, index->shards[first].at,
               "{=shard %.*s} is {missing} (%zu of %zu are)", STR_ARG(index->shards[first].name), missing,
               index->nshards);
    if (!index->has_no_index)
        error_add_where(index->err, "weight_map");
    else if (index->f->archive)
        error_add_where(index->err, "members of the archive");
    if (!index->has_no_index && hint_other_set(index))
        return CKPT_ENOTFOUND;
    error_add_hint(index->err, "put all shards into the folder%s%s",
                   index->has_no_index ? "" : " of the index",
                   missing < index->nshards ? "; `ckpt salvage` writes what the others hold" : "");
    return CKPT_ENOTFOUND;
}

/* give_up_shard - in salvage, if SHARD cannot be read, sets shard->why_unreadable from index->err and returns
 * CKPT_OK. Otherwise returns ST. */
static ckpt_status give_up_shard(struct index *index, struct shard *shard, ckpt_status st)
{
    if (!index->f->salvage || !(check_is_fault(st) || st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED))
        return st;
    shard->why_unreadable = arena_printf(index->f->a, "the shard cannot be read: %s%s%s", index->err->where,
                                         index->err->where[0] ? ": " : "", index->err->what)
                                .ptr;
    shard->file = NULL;
    return shard->why_unreadable ? CKPT_OK : fail_memory(index->err);
}

static ckpt_str find_name(const void *set, ckpt_str name)
{
    const struct index *index = set;
    uint32_t i = map_get(index->keys, name);
    return i == MAP_NONE ? str_of(NULL, 0) : index->weights[i].key;
}

static ckpt_status open_shard(struct index *index, struct shard *shard)
{
    ckpt_file *f = index->f;
    struct journal_note note;
    source *src;
    char *path = make_path(index, shard);
    ckpt_file **grown =
        path ? arena_grow(f->a, f->parts, f->nparts, &f->cap_parts, f->nparts + 1, sizeof *grown) : NULL;
    ckpt_status st = grown ? CKPT_OK : fail_memory(index->err);
    if (st == CKPT_OK && index->merging) {
        const struct opening o = {.path = path, .limits = &f->limits, .watch = f->opening->watch};
        st = format_open_path(&o, false, &shard->file, index->err);
    } else if (st == CKPT_OK && (st = part_file_open(f, path, &note, &src, index->err)) == CKPT_OK) {
        source *kept = source_ref(src); /* because format_open_part takes over SRC */
        f->opening->set = index;
        f->opening->find_name = find_name;
        st = format_open_part(f, path, src, &shard->file, index->err);
        st = give_up_shard(index, shard, format_note_journal(&note, shard->file, st, index->err));
        if ((size_t)(shard - index->shards) >= part_files_max_open())
            source_file_park(kept);
        source_unref(kept);
    }
    if (st == CKPT_OK && !shard->file)
        index->is_incomplete = true; /* the fault of SHARD was reported, or is in shard->why_unreadable */
    if (st == CKPT_OK && shard->file) {
        f->parts = grown;
        grown[f->nparts++] = shard->file;
        bool ok = checked_add(f->nbytes, shard->file->nbytes, &f->nbytes) &&
                  file_add_replacements_of(f, shard->file);
        st = ok ? CKPT_OK : fail_memory(index->err);
    }
    error_add_file(st == CKPT_OK ? NULL : index->err, path ? path : "");
    free(path);
    return st;
}

/* skip_shard - notes SHARD, which is unwanted, as a file of the set without opening it. */
static ckpt_status skip_shard(struct index *index, const struct shard *shard)
{
    char *path = make_path(index, shard);
    bool ok = path && file_note_read(index->f, path);
    free(path);
    return ok ? CKPT_OK : fail_memory(index->err);
}

/* is_in_part - returns true if the tensor at PATH (COUNT elements) is in the part of SHARD that is merged. */
static bool is_in_part(const struct shard *shard, const ckpt_path_elem *path, uint32_t count)
{
    const struct merged_part *part = &shard->part;
    return !(part->only_own_tensors && count > part->depth + 1) &&
           path_begins(path, count, part->path, part->depth);
}

/* find_key - returns the pair of SHARD with KEY, or MAP_NONE. */
static uint32_t find_key(const struct index *index, const struct shard *shard, ckpt_str key)
{
    uint32_t i = map_get(index->keys, key);
    bool is_listed = i != MAP_NONE && &index->shards[index->weights[i].shard] == shard;
    return is_listed && index->weights[i].pair != MAP_NONE ? index->weights[i].pair
                                                           : map_get(shard->pair_of, key);
}

static uint32_t find_pair(const struct index *index, const struct shard *shard, const ckpt_path_elem *path,
                          uint32_t count)
{
    uint32_t depth = shard->part.depth;
    bool has_key = count > depth && !path[depth].is_int && is_in_part(shard, path, count);
    return has_key ? find_key(index, shard, path[depth].str) : MAP_NONE;
}

/* find_pair_of_row - returns the pair of SHARD that row NUMBER is in, or MAP_NONE. Its steps mostly tell. */
static uint32_t find_pair_of_row(const struct index *index, const struct shard *shard, uint32_t number)
{
    const struct table *t = &shard->file->table;
    const ckpt_path_elem *path = table_path_of(t, number);
    const struct step *step = table_steps_of(t, number);
    uint32_t n = table_npath_of(t, number), depth = shard->part.depth;
    bool has_step = n > depth && !path[depth].is_int && step && step[depth].node == shard->mapping;
    if (has_step && step[depth].index < shard->npairs && is_in_part(shard, path, n))
        return step[depth].index;
    return find_pair(index, shard, path, n);
}

/* index_rows - sets row_of and leaf_of of each pair, what SHARD has by row, and how many rows there are. */
static void index_rows(const struct index *index, struct shard *shard)
{
    const struct table *t = &shard->file->table;
    for (uint32_t i = (uint32_t)t->nrows; COUNT_DOWN(i);) {
        const ckpt_value *value = table_value_of(t, i);
        uint32_t k = shard->pair_of_row[i] = find_pair_of_row(index, shard, i);
        shard->own_row[i] = value && value_row(value) == i;
        shard->nrows_of_part += is_in_part(shard, table_path_of(t, i), table_npath_of(t, i));
        if (k != MAP_NONE)
            shard->row_of[k] = i;
    }
    for (uint32_t i = (uint32_t)shard->file->nleaves; COUNT_DOWN(i);) {
        uint32_t k = find_pair(index, shard, shard->file->leaves[i].path, shard->file->leaves[i].npath);
        if (k != MAP_NONE)
            shard->leaf_of[k] = i;
    }
}

/* note_part - adds a notice if only a part of SHARD is merged. */
static ckpt_status note_part(struct index *index, const struct shard *shard)
{
    bool leaves_out = shard->nrows_of_part < shard->file->table.nrows;
    for (size_t i = 0; !leaves_out && i < shard->file->nleaves; i++) {
        const ckpt_leaf *leaf = &shard->file->leaves[i];
        leaves_out = shard->part.only_own_tensors || !is_in_part(shard, leaf->path, leaf->npath);
    }
    const char *rest = leaves_out ? "; what is next to them is left out" : "";
    ckpt_str name = path_join(index->f->a, shard->part.path, shard->part.depth);
    index->f->leaves_out |= leaves_out;
    if (!name.ptr)
        return fail_memory(index->err);
    if (shard->part.depth)
        file_notice(index->f, "%.*s: using the tensors under \"%.*s\"%s", STR_ARG(shard->name), STR_ARG(name),
                    rest);
    else if (leaves_out)
        file_notice(index->f, "%.*s: using the tensors at the top%s", STR_ARG(shard->name), rest);
    return CKPT_OK;
}

/* note_adapter - adds a notice if SHARD, which is merged, has weights of LoRA: whoever merges an adapter may
 * expect that it is added to the weights that it changes. */
static void note_adapter(struct index *index, const struct shard *shard)
{
    for (size_t i = 0; i < shard->file->table.nrows; i++) {
        const ckpt_tensor t = table_tensor(&shard->file->table, i);
        ckpt_str key = t.npath ? t.path[t.npath - 1].str : str_of(NULL, 0);
        if (str_find(key, STR_LIT("lora_"), 0) == SIZE_MAX)
            continue;
        file_notice(index->f,
                    "%.*s: its LoRA weights (%.*s) become tensors next to the others: they are not added to "
                    "the weights that they adapt",
                    STR_ARG(shard->name), STR_ARG(key));
        return;
    }
}

static ckpt_status fail_two_entries(const struct index *index, const struct shard *shard, ckpt_str key)
{
    return fail(index->err, CKPT_EFORMAT, shard->at,
                "shard %.*s has {two entries} \"%.*s\", {=one} is allowed", STR_ARG(shard->name),
                STR_ARG(key));
}

/* get_key - sets *KEY to the key of pair NUMBER of SHARD. False: it is no text. */
static bool get_key(const struct index *index, const struct shard *shard, uint32_t number, ckpt_str *key)
{
    if (!shard->is_table)
        return value_text(shard->pairs[number].key, key);
    *key = table_name(&index->f->table, shard->first_row + number);
    return true;
}

/* get_value - returns the value of pair NUMBER of SHARD. */
static const ckpt_value *get_value(const struct index *index, const struct shard *shard, uint32_t number)
{
    return shard->is_table ? table_value_of(&index->f->table, shard->first_row + number)
                           : file_replacement_of(shard->file, shard->pairs[number].val);
}

/* index_pairs - sets the pair of each weight that the index lists for SHARD, and shard->pair_of for the
 * others. */
static ckpt_status index_pairs(struct index *index, const struct shard *shard)
{
    uint32_t next = 0;
    for (uint32_t k = 0; k < shard->npairs; k++) {
        ckpt_str key;
        uint32_t before;
        if (!get_key(index, shard, k, &key))
            continue;
        bool is_next = next < index->nweights && str_eq(index->weights[next].key, key); /* mostly it is */
        uint32_t i = is_next ? next : map_get(index->keys, key);
        next = i == MAP_NONE ? next : i + 1;
        struct weight *w = i == MAP_NONE ? NULL : &index->weights[i];
        if (w && !w->is_group && &index->shards[w->shard] == shard) {
            before = w->pair;
            w->pair = k;
        } else if (!map_put(shard->pair_of, key, k, &before)) {
            return fail_memory(index->err);
        }
        if (before != MAP_NONE)
            return fail_two_entries(index, shard, key);
    }
    return CKPT_OK;
}

static ckpt_status index_keys(struct index *index, const struct shard *shard, const value_pair *pairs,
                              uint32_t count, map *keys)
{
    for (uint32_t i = 0; i < count; i++) {
        ckpt_str key;
        uint32_t before = MAP_NONE;
        if (value_text(pairs[i].key, &key) && !map_put(keys, key, i, &before))
            return fail_memory(index->err);
        if (before != MAP_NONE)
            return fail_two_entries(index, shard, key);
    }
    return CKPT_OK;
}

/* set_storage_file - sets the name of SHARD as the file of the storage TO, for errors and for lost
 * tensors. */
static ckpt_status set_storage_file(struct index *index, struct shard *shard, struct storage *to)
{
    if (!storage_loss(to) && str_eq(storage_location(to), shard->extra->location)) {
        to->extra = shard->extra;
        return CKPT_OK;
    }
    struct storage_extra *own = ARENA_NEW(index->f->a, struct storage_extra);
    if (!own)
        return fail_memory(index->err);
    *own = to->extra ? *to->extra : (struct storage_extra){0};
    own->file = shard->name;
    to->extra = own;
    index->is_incomplete |= own->lost_why != NULL;
    shard->extra = own->lost_why ? shard->extra : own; /* mostly it is shared by those that follow */
    return CKPT_OK;
}

/* take_rows - moves the rows of SHARD, which has only tensors, to the set: their order is not known yet, but
 * the memory that they take is not needed twice. */
static ckpt_status take_rows(struct index *index, struct shard *shard)
{
    struct table *from = &shard->file->table, *t = &index->f->table;
    size_t first_storage = t->nstorages;
    shard->is_table = true;
    shard->first_row = t->nrows;
    shard->npairs = (uint32_t)(from->nrows - shard->file->nties);
    shard->nrows_of_part = from->nrows;
    CKPT_TRY(table_append(t, from, shard->npairs, index->err));
    for (size_t i = first_storage; i < t->nstorages; i++)
        CKPT_TRY(set_storage_file(index, shard, &t->storages[i]));
    free(shard->file->root_pairs);
    shard->file->root_pairs = NULL;
    shard->file->root = value_new(index->f->a, CKPT_V_DICT, 0);
    if (!shard->file->nties) /* records_tie reads these rows */
        table_close(from);
    return shard->file->root ? CKPT_OK : fail_memory(index->err);
}

/* index_graph - sets the pairs of SHARD, and the rows and leaves of each. */
static ckpt_status index_graph(struct index *index, struct shard *shard)
{
    arena *a = index->temp;
    index->has_graph = true;
    shard->part.node = shard->file->root;
    if (index->merging)
        CKPT_TRY(index->merging->find_part(shard->file, index->merging->root, &shard->part, index->err));
    shard->mapping = shard->part.node ? file_replacement_of(shard->file, shard->part.node) : NULL;
    shard->pairs = shard->mapping ? value_pairs(shard->mapping, &shard->npairs) : NULL;
    shard->npairs -= shard->file->nties; /* ties are the last pairs; the set has its own ties */
    shard->row_of = arena_array(a, shard->npairs, sizeof *shard->row_of);
    shard->leaf_of = arena_array(a, shard->npairs, sizeof *shard->leaf_of);
    shard->own_row = arena_array(a, shard->file->table.nrows, sizeof *shard->own_row);
    shard->pair_of_row = arena_array(a, shard->file->table.nrows, sizeof *shard->pair_of_row);
    shard->storages = arena_array(a, shard->file->table.nstorages, sizeof *shard->storages);
    if (!shard->row_of || !shard->leaf_of || !shard->own_row || !shard->pair_of_row || !shard->storages)
        return fail_memory(index->err);
    memset(shard->storages, 0xff, shard->file->table.nstorages * sizeof *shard->storages); /* all MAP_NONE */
    memset(shard->row_of, 0xff, shard->npairs * sizeof *shard->row_of);
    memset(shard->leaf_of, 0xff, shard->npairs * sizeof *shard->leaf_of);
    return CKPT_OK;
}

static ckpt_status index_shard(struct index *index, struct shard *shard)
{
    uint32_t nmetadata = 0;
    const value_pair *metadata = shard->file->metadata ? value_pairs(shard->file->metadata, &nmetadata)
                                                       : NULL;
    shard->extra = ARENA_NEW(index->f->a, struct storage_extra);
    shard->pair_of = map_new(0);
    shard->metadata_of = map_new(nmetadata);
    if (!shard->extra || !shard->pair_of || !shard->metadata_of)
        return fail_memory(index->err);
    shard->extra->file = shard->name;
    CKPT_TRY(shard->file->root_pairs && !index->merging ? take_rows(index, shard)
                                                        : index_graph(index, shard));
    shard->is_merged = arena_array(index->temp, shard->npairs, sizeof *shard->is_merged);
    if (!shard->is_merged)
        return fail_memory(index->err);
    CKPT_TRY(index_pairs(index, shard));
    CKPT_TRY(index_keys(index, shard, metadata, nmetadata, shard->metadata_of));
    if (!shard->is_table)
        index_rows(index, shard);
    if (index->merging)
        note_adapter(index, shard);
    return index->merging ? note_part(index, shard) : CKPT_OK;
}

/* ------------------------------------------------------------------ merge */

static ckpt_status add_shard_storage(struct index *index, struct shard *shard, uint32_t *storage)
{
    if (*storage == CKPT_NO_STORAGE)
        return CKPT_OK;
    uint32_t *to = &shard->storages[*storage];
    if (*to == MAP_NONE) {
        struct storage copy = shard->file->table.storages[*storage];
        CKPT_TRY(set_storage_file(index, shard, &copy));
        copy.in_key_index = false; /* the key is of another pickle */
        if (copy.src)
            source_ref(copy.src);
        CKPT_TRY(table_add_storage(&index->f->table, &copy, to, index->err));
    }
    *storage = *to;
    return CKPT_OK;
}

/* put_in_order - makes row AT, of SHARD or NULL, the next row of the set. VALUE is the node that it is the
 * row of, or NULL. */
static ckpt_status put_in_order(struct index *index, struct shard *shard, uint32_t at,
                                const ckpt_value *value)
{
    if (value)
        value_set_row((ckpt_value *)(uintptr_t)value, (uint32_t)index->norder);
    shard->nrows++;
    if (index->norder == index->cap_order &&
        !arena_grow_apart(index->temp, &index->order, &index->cap_order, sizeof *index->order))
        return fail_memory(index->err);
    index->order[index->norder++] = at;
    return CKPT_OK;
}

/* add_shard_row - adds row NUMBER of SHARD below pair PAIR of the set. */
static ckpt_status add_shard_row(struct index *index, struct shard *shard, uint32_t number, uint32_t pair)
{
    struct table *t = &index->f->table;
    struct row r = table_row(&shard->file->table, number);
    uint32_t at, depth = shard->part.depth;
    r.t.path += depth;
    r.t.npath -= depth;
    if (depth)
        r.t.name = str_of(NULL, 0); /* it is made anew from the path */
    const struct step first = {.node = index->f->root, .index = pair};
    struct step *steps = r.t.npath == 1 ? NULL : arena_array(index->f->a, r.t.npath, sizeof *steps);
    if (r.t.npath > 1 && !steps)
        return fail_memory(index->err);
    if (steps && r.steps)
        memcpy(steps, r.steps + depth, r.t.npath * sizeof *steps);
    if (steps)
        steps[0] = first;
    r.steps = steps ? steps : &first;
    if (r.t.part_of != CKPT_NO_TENSOR) /* rows of one pair keep their distances */
        r.t.part_of = (uint32_t)(index->norder - (number - r.t.part_of));
    CKPT_TRY(add_shard_storage(index, shard, &r.t.storage));
    CKPT_TRY(table_add_row(t, &r, &at, index->err));
    return put_in_order(index, shard, at, shard->own_row[number] ? r.t.value : NULL);
}

/* add_pair - adds pair NUMBER of SHARD, with its rows and leaves, to the set. */
static ckpt_status add_pair(struct index *index, struct shard *shard, uint32_t number)
{
    ckpt_file *f = index->f;
    const ckpt_value *val = get_value(index, shard, number);
    uint32_t pair = index->has_graph ? value_count(f->root) : 0; /* table_root_pairs sets the others */
    shard->is_merged[number] = true;
    if (index->has_graph) {
        ckpt_value *key = shard->pairs ? shard->pairs[number].key
                                       : value_str(f->a, table_name(&f->table, shard->first_row + number));
        if (!key || !value_put(f->a, f->root, key, (ckpt_value *)(uintptr_t)val))
            return fail_memory(index->err);
    }
    if (shard->is_table) {
        table_set_step(&f->table, shard->first_row + number, f->root, pair);
        return put_in_order(index, shard, (uint32_t)shard->first_row + number, val);
    }
    for (uint32_t i = shard->row_of[number]; i < shard->file->table.nrows && shard->pair_of_row[i] == number;
         i++)
        CKPT_TRY(add_shard_row(index, shard, i, pair));
    for (size_t i = shard->leaf_of[number]; i < shard->file->nleaves; i++) {
        const ckpt_leaf *leaf = &shard->file->leaves[i];
        if (find_pair(index, shard, leaf->path, leaf->npath) != number)
            break;
        uint32_t depth = shard->part.depth;
        CKPT_TRY(file_add_leaf(f, leaf->path + depth, leaf->npath - depth, leaf->value, index->err));
        f->leaves[f->nleaves - 1].containers = leaf->containers ? leaf->containers + depth : NULL;
    }
    return CKPT_OK;
}

/* is_tie_in_metadata - returns true if KEY is a tie in the metadata of SHARD. Converters that drop ties leave
 * such keys in the index. */
static bool is_tie_in_metadata(const struct index *index, const struct shard *shard, ckpt_str key)
{
    uint32_t n, i = map_get(shard->metadata_of, key);
    ckpt_str original;
    return i != MAP_NONE && value_text(value_pairs(shard->file->metadata, &n)[i].val, &original) &&
           find_key(index, shard, original) != MAP_NONE;
}

/* add_lost_row - adds a row without data for a tensor that is in the index, but in no shard. */
static ckpt_status add_lost_row(struct index *index, const struct weight *weight)
{
    ckpt_file *f = index->f;
    struct shard *s = &index->shards[weight->shard];
    index->is_incomplete = true;
    if (!s->lost_storage) {
        struct storage_extra lost = {.file = s->name,
                                     .lost_why = s->why_unreadable ? s->why_unreadable
                                                 : s->file         ? "the shard does not have it"
                                                                   : "the shard is missing",
                                     .lost_at = CKPT_NO_OFFSET};
        CKPT_TRY(table_add_lost(&f->table, lost, &s->lost_storage, index->err));
        s->lost_storage++; /* 0 is none */
    }
    struct row r = {.t.npath = 1, .t.part_of = CKPT_NO_TENSOR, .t.storage = s->lost_storage - 1};
    ckpt_path_elem *path = ARENA_NEW(f->a, ckpt_path_elem);
    if (!path)
        return fail_memory(index->err);
    path->str = weight->key;
    r.t.path = path;
    r.t.kind = CKPT_UNINITIALIZED;
    uint32_t at;
    CKPT_TRY(table_add_row(&f->table, &r, &at, index->err));
    return put_in_order(index, s, at, NULL);
}

static bool is_hdf5(const struct shard *shard) { return strcmp(shard->file->format->name, "hdf5") == 0; }

/* find_weight - returns the pair of SHARD for WEIGHT, or MAP_NONE. For TensorFlow models,
 * transformers writes the name of the model in front of each key of the index, but not in the shards. */
static uint32_t find_weight(const struct shard *shard, const struct weight *weight)
{
    size_t slash = weight->pair == MAP_NONE && is_hdf5(shard) ? str_find(weight->key, STR_LIT("/"), 0)
                                                              : SIZE_MAX;
    return slash == SIZE_MAX ? weight->pair : map_get(shard->pair_of, str_skip(weight->key, slash + 1));
}

static ckpt_status report_missing_tensor(struct index *index, const struct weight *weight)
{
    (void)fail(index->err, CKPT_EFORMAT, weight->at,
               "the weight_map lists {=\"%.*s\"} in %.*s, which {does not have it}\n"
               "index and shards are from different saves, or a shard is in the place of a different one",
               STR_ARG(weight->key), STR_ARG(index->shards[weight->shard].name));
    index->is_incomplete = true;
    return file_report_fault_as(index->f, CHECK_MISSING_TENSOR, CKPT_EFORMAT, index->err);
}

static ckpt_status add_weight(struct index *index, const struct weight *weight)
{
    struct shard *s = &index->shards[weight->shard];
    if (!s->file)
        return index->f->salvage ? add_lost_row(index, weight) : CKPT_OK;
    if (weight->is_group) /* add_unlisted_pairs adds its tensors */
        return CKPT_OK;
    uint32_t k = find_weight(s, weight);
    if (k == MAP_NONE && s->is_damaged)
        return CKPT_OK;
    if (k != MAP_NONE)
        return add_pair(index, s, k);
    if (is_tie_in_metadata(index, s, weight->key))
        return CKPT_OK;
    if (index->f->salvage)
        return add_lost_row(index, weight);
    return report_missing_tensor(index, weight);
}

static ckpt_status report_extra(const struct index *index, const struct shard *shard, ckpt_str key)
{
    if (!index->f->check)
        return CKPT_OK;
    (void)fail(index->err, CKPT_EFORMAT, shard->at,
               "{\"%.*s\"} is in %.*s, but not in {=the index}\nindex and shards are from different saves",
               STR_ARG(key), STR_ARG(shard->name));
    return file_report_fault_as(index->f, CHECK_EXTRA_TENSOR, CKPT_EFORMAT, index->err);
}

/* fail_twice - fails because KEY is in the shard FIRST and in SHARD, which the caller named to be merged. */
static ckpt_status fail_twice(struct index *index, ckpt_str key, uint32_t first, const struct shard *shard,
                              const char *hint)
{
    return fail(index->err, CKPT_EEXIST, CKPT_NO_OFFSET,
                "\"%.*s\" is in {both} %.*s and %.*s; nothing is merged\n%s", STR_ARG(key),
                STR_ARG(index->shards[first].name), STR_ARG(shard->name), hint);
}

/* add_extra - adds pair NUMBER of SHARD to the merged file; the index does not list its key KEY. Adds KEY to
 * index->keys, so that a second shard with KEY is reported. IS_EXPECTED: no finding, because the index may
 * omit KEY. */
static ckpt_status add_extra(struct index *index, struct shard *shard, uint32_t number, ckpt_str key,
                             bool is_expected)
{
    uint32_t before;
    if (!map_put(index->keys, key, (uint32_t)index->nweights, &before))
        return fail_memory(index->err);
    if (before != MAP_NONE) {
        const struct weight *w = &index->weights[before];
        if (index->is_guess)
            return folder_fail_ambiguous(index->f->archive, index->f->path, (unsigned)index->nshards,
                                         folder_is_checkpoint, index->err);
        if (index->has_no_index)
            return fail_twice(index, key, w->shard, shard,
                              value_pairs(get_value(index, shard, number), &(uint32_t){0})
                                  ? "first write each by `ckpt convert FILE -o FLAT.safetensors`: then only "
                                    "names of tensors count"
                                  : "ckpt add PREFIX FILE -o OUT renames the tensors of one of them");
        (void)fail(index->err, CKPT_EFORMAT, w->at == CKPT_NO_OFFSET ? shard->at : w->at,
                   "\"%.*s\" is in {two shards}, %.*s and %.*s, {=one} is allowed", STR_ARG(key),
                   STR_ARG(index->shards[w->shard].name), STR_ARG(shard->name));
        index->is_incomplete = true;
        return file_report_fault_as(index->f, CHECK_DUPLICATE, CKPT_EFORMAT, index->err);
    }
    if (!is_expected)
        CKPT_TRY(report_extra(index, shard, key));
    const struct weight w = {
        .key = key, .at = CKPT_NO_OFFSET, .shard = (uint32_t)(shard - index->shards), .pair = number};
    return shards_add_weight(index, &w) ? add_pair(index, shard, number) : fail_memory(index->err);
}

/* find_group - returns true if the index has a group that KEY ("group/name" or "group@name") is in, and sets
 * is_found of that group. */
static bool find_group(struct index *index, ckpt_str key)
{
    for (size_t n = key.len; COUNT_DOWN(n);) {
        bool ends_group = key.ptr[n] == '/' || key.ptr[n] == '@';
        uint32_t i = ends_group ? map_get(index->keys, str_of(key.ptr, n)) : MAP_NONE;
        if (i != MAP_NONE && index->weights[i].is_group) {
            index->weights[i].is_found = true;
            return true;
        }
    }
    return false;
}

/* check_groups - checks that each group in the index, the first NLISTED weights, is in a shard. */
static ckpt_status check_groups(struct index *index, size_t nlisted)
{
    for (size_t i = 0; i < nlisted; i++) {
        const struct weight *w = &index->weights[i];
        const struct shard *s = &index->shards[w->shard];
        bool is_first = w->is_group && map_get(index->keys, w->key) == i;
        if (is_first && !w->is_found && s->file && !s->is_damaged && !index->f->salvage)
            CKPT_TRY(report_missing_tensor(index, w));
    }
    return CKPT_OK;
}

/* is_left_out - returns true if pair NUMBER of SHARD, with the key KEY, is a value that is not merged: it is
 * next to the weights, or is in an earlier file, too: the attributes of HDF5, or a value of files that are
 * merged. */
static bool is_left_out(struct index *index, const struct shard *shard, uint32_t number, ckpt_str key)
{
    bool has_row = shard->is_table || shard->row_of[number] != MAP_NONE;
    if (has_row || shard->part.only_own_tensors)
        return !has_row;
    if (map_get(index->keys, key) == MAP_NONE || !(is_hdf5(shard) || index->merging))
        return false;
    index->f->leaves_out |= index->merging != NULL;
    if (index->merging)
        file_notice(index->f, "%.*s: the value \"%.*s\" is left out, because an earlier file has it, too",
                    STR_ARG(shard->name), STR_ARG(key));
    return true;
}

static ckpt_status add_unlisted_pairs(struct index *index, struct shard *shard)
{
    size_t extra = 0;
    ckpt_str key, first = STR_LIT("");
    for (uint32_t k = 0; k < shard->npairs; k++)
        if (!shard->is_merged[k] && get_key(index, shard, k, &key) && !is_left_out(index, shard, k, key)) {
            bool is_expected = index->has_no_index || find_group(index, key) ||
                               (is_hdf5(shard) && shard->row_of[k] == MAP_NONE);
            if (!is_expected && extra++ == 0)
                first = key;
            CKPT_TRY(add_extra(index, shard, k, key, is_expected));
        }
    if (shard->nrows != shard->nrows_of_part - shard->file->nties && !index->is_incomplete)
        return fail(index->err, CKPT_EUNSUPPORTED, shard->at,
                    "{shard %.*s} is not {=a mapping of names to tensors}", STR_ARG(shard->name));
    if (extra == 1)
        file_notice(index->f, "%.*s holds \"%.*s\", which the index does not list; it is read all the same",
                    STR_ARG(shard->name), STR_ARG(first));
    if (extra > 1)
        file_notice(
            index->f,
            "%.*s holds \"%.*s\" and %zu more that the index does not list; they are read all the same",
            STR_ARG(shard->name), STR_ARG(first), extra - 1);
    return CKPT_OK;
}

static const ckpt_file *get_first_file(const struct index *index)
{
    for (size_t i = 0; i < index->nshards; i++)
        if (index->shards[i].file)
            return index->shards[i].file;
    return NULL;
}

static bool is_ordered_dict(const ckpt_value *value)
{
    return value && value_calls(value, "collections", "OrderedDict", 0);
}

/* make_root - makes the root of the set, with the type of the root of the first shard. */
static ckpt_status make_root(struct index *index)
{
    ckpt_file *f = index->f;
    const ckpt_file *first = get_first_file(index);
    bool ordered = first && is_ordered_dict(first->root);
    f->root = ordered ? value_ordered_dict(f->a) : value_new(f->a, CKPT_V_DICT, 0);
    return f->root ? CKPT_OK : fail_memory(index->err);
}

/* add_root_state - gives the root of the set the _metadata of the root of the first shard. This comes after
 * the last pair, so that the root is written as torch writes one: a pair after BUILD could call anything. */
static ckpt_status add_root_state(struct index *index)
{
    const ckpt_file *first = get_first_file(index);
    ckpt_value *state = is_ordered_dict(index->f->root) ? value_state(first->root) : NULL;
    return state && !value_add_state(index->f->a, index->f->root, state) ? fail_memory(index->err) : CKPT_OK;
}

/* check_total - adds a notice if total_size is neither the sum of all tensors nor of all storages. */
static ckpt_status check_total(const struct index *index)
{
    const struct table *t = &index->f->table;
    uint64_t tensors = 0, storages = 0;
    for (size_t i = 0; i < t->nrows; i++)
        if (table_part_of(t, i) == CKPT_NO_TENSOR && !checked_add(tensors, table_nbytes_of(t, i), &tensors))
            return CKPT_OK;
    for (size_t i = 0; i < t->nstorages; i++)
        if (!checked_add(storages, t->storages[i].nbytes, &storages))
            return CKPT_OK;
    if (!index->has_total_size || index->total_size == tensors || index->total_size == storages ||
        index->is_incomplete || index->is_partial)
        return CKPT_OK;
    file_notice(index->f, "total_size in the index is %llu, its tensors have %llu bytes",
                (unsigned long long)index->total_size, (unsigned long long)tensors);
    if (!index->f->check)
        return CKPT_OK;
    (void)fail(index->err, CKPT_EFORMAT, index->total_size_at,
               "total_size in the index is {%llu}, its tensors have {=%llu} bytes",
               (unsigned long long)index->total_size, (unsigned long long)tensors);
    return file_report_fault_as(index->f, CHECK_TOTAL_SIZE, CKPT_EFORMAT, index->err);
}

/* add_notices_and_pickles - adds to index->f what SHARD has apart from tensors: notices, pickles, and why
 * torch.load refuses SHARD. */
static ckpt_status add_notices_and_pickles(struct index *index, const struct shard *shard)
{
    ckpt_file *f = index->f, *part = shard->file;
    f->executes_code |= part->executes_code;
    if (!part->loading.by)
        f->loading.by = NULL;
    f->has_typed_keys &= part->has_typed_keys;
    if (!checked_add(f->unaccounted, part->unaccounted, &f->unaccounted))
        f->unaccounted = UINT64_MAX;
    if (!f->loading.refusal.len)
        f->loading.refusal = part->loading.refusal;
    for (size_t i = 0; i < part->notices.n; i++)
        file_notice(f, "%.*s: %s", STR_ARG(shard->name), part->notices.text[i]);
    return file_add_pickles_of(f, part, index->err);
}

static bool records_tie(const ckpt_file *f, const value_pair *pair)
{
    ckpt_str key;
    uint32_t row = f->nties && value_text(pair->key, &key) ? map_get(f->names, key) : MAP_NONE;
    return row != MAP_NONE && file_row_is_tie(f, row);
}

/* note_other_metadata - adds a notice if the set has a different text for the key of PAIR, of SHARD,
 * already. */
static void note_other_metadata(struct index *index, const struct shard *shard, const value_pair *pair)
{
    uint32_t n;
    ckpt_str key, text, other;
    uint32_t i = value_text(pair->key, &key) ? map_get(index->metadata_keys, key) : MAP_NONE;
    if (i != MAP_NONE && value_text(value_pairs(index->f->metadata, &n)[i].val, &text) &&
        value_text(pair->val, &other) && !str_eq(text, other)) {
        index->f->leaves_out = true;
        file_notice(index->f, "%.*s: the metadata \"%.*s\" is left out, because an earlier file has it, too",
                    STR_ARG(shard->name), STR_ARG(key));
    }
}

/* merge_metadata - adds the metadata of the first shard (`format`) and the ties of all shards, except keys
 * that the index has. */
static ckpt_status merge_metadata(struct index *index)
{
    const ckpt_file *first = get_first_file(index);
    for (size_t k = 0; k < index->nshards; k++) {
        const ckpt_file *f = index->shards[k].file;
        uint32_t n = 0;
        const value_pair *pairs = f && f->metadata ? value_pairs(f->metadata, &n) : NULL;
        for (uint32_t i = 0; i < n; i++) {
            if (index->merging)
                note_other_metadata(index, &index->shards[k], &pairs[i]);
            if (f == first || index->merging || records_tie(f, &pairs[i]))
                CKPT_TRY(shards_add_metadata(index, pairs[i].key, pairs[i].val));
        }
    }
    /* in shards of torch, tied names share a storage */
    return index->f->loading.by ? CKPT_OK : ties_add_rows(index->f, index->err);
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

static uint64_t count_findings(const struct index *index)
{
    return index->f->check ? index->f->check->result->findings : 0;
}

ckpt_status shards_merge(struct index *index)
{
    if (!index->merging) { /* of those that are missing, opening says why */
        prefetch_shards(index);
        CKPT_TRY(check_present(index));
    }
    index->f->has_typed_keys = index->nshards > 0;
    index->f->loading.by = index->nshards ? "torch.load" : NULL; /* unless a shard is of another kind */
    for (size_t i = 0; i < index->nshards; i++) {
        struct shard *s = &index->shards[i];
        uint64_t before = count_findings(index);
        if (!s->is_missing)
            CKPT_TRY(s->is_unwanted ? skip_shard(index, s) : open_shard(index, s));
        s->is_damaged = count_findings(index) > before;
        index->is_incomplete |= s->is_damaged;
        if (!s->file)
            continue;
        CKPT_TRY(index_shard(index, s));
        CKPT_TRY(add_notices_and_pickles(index, s));
    }
    if (index->f->salvage && index->nshards && !get_first_file(index))
        return fail(index->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{none} of {=its %zu shards} is recoverable",
                    index->nshards);
    CKPT_TRY(make_root(index));
    size_t listed = index->nweights;
    for (size_t i = 0; i < listed; i++)
        CKPT_TRY(add_weight(index, &index->weights[i]));
    for (size_t i = 0; i < index->nshards; i++)
        if (index->shards[i].file)
            CKPT_TRY(add_unlisted_pairs(index, &index->shards[i]));
    CKPT_TRY(check_groups(index, listed));
    if (!table_reorder(&index->f->table, index->order, index->norder))
        return fail_memory(index->err);
    index->f->root_is_table = !index->has_graph;
    CKPT_TRY(check_total(index));
    if (get_first_file(index))
        index->f->producer = get_first_file(index)->producer;
    CKPT_TRY(merge_metadata(index));
    return add_root_state(index);
}
