/* dcp_rename.c - writes a Distributed Checkpoint in which only names changed: copies the .distcp files and
 * writes new metadata. The copies share blocks if the file system supports that. They are never hard links,
 * because torch overwrites the files in place when it saves into the folder again.
 *
 * The pickle in .metadata is read as a graph, names and paths in the graph are replaced, and the graph is
 * written, so that all other values stay. That takes some kilobytes of memory for each chunk, more than
 * dcp_metadata.c needs. */

#include "codec/pickle_read.h"
#include "codec/pickle_write.h"
#include "core/copy_pool.h"
#include "format/distributed/dcp_write.h"
#include "format/recognize.h"

struct dcp_renamer {
    ckpt_plan *plan;
    struct output_folder *folder;
    ckpt_file *meta;           /* .metadata */
    ckpt_value *state;         /* of the object Metadata */
    ckpt_value *planner;       /* planner_data, or NULL if that is not a dict */
    const value_pair *entries; /* pairs of state_dict_metadata */
    value_pair *storage_pairs; /* pairs of storage_data */
    uint32_t nentries, nstorage_pairs;
    map *entry_of_path;   /* path in the input -> index into entries */
    map *entry_of_name;   /* fqn -> index into entries */
    map *planner_pair_of; /* fqn -> pair of planner_data */
    uint32_t *leaf_of;    /* by entry: 1 + index of its leaf; 0: none */
    struct dcp_leaves leaves;
    buf path_key;      /* a path as unambiguous text, "5:model0/" for ("model", 0); a key of entry_of_path */
    map *part_of;      /* name of a .distcp file -> index into parts */
    ckpt_file **parts; /* the .distcp files */
    size_t nparts;
    ckpt_error *err;
};

/* ------------------------------------------------------------------------- names */

/* put_number_element, put_text_element - append an element of a path to OUT, a path_key. */
static void put_number_element(buf *out, int64_t number) { buf_printf(out, "%lld/", (long long)number); }

static void put_text_element(buf *out, ckpt_str text)
{
    buf_printf(out, "%zu:", text.len);
    buf_put_str(out, text);
}

/* make_planner_key - sets OUT to the key of PATH, a path in planner_data. Returns false if PATH is empty or
 * an element is neither text nor an integer. */
static bool make_planner_key(buf *out, const ckpt_value *path)
{
    int64_t number;
    ckpt_str text;
    out->len = 0;
    for (uint32_t k = 0; k < value_count(path); k++) {
        const ckpt_value *v = value_item(path, k);
        if (value_text(v, &text))
            put_text_element(out, text);
        else if (value_integer(v, &number))
            put_number_element(out, number);
        else
            return false;
    }
    return value_count(path) && buf_ok(out);
}

static bool make_path_key(buf *out, const ckpt_path_elem *path, uint32_t count)
{
    out->len = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (path[k].is_int)
            put_number_element(out, path[k].num);
        else
            put_text_element(out, path[k].str);
    }
    return buf_ok(out);
}

/* is_input_leaf - returns true if the container at PATH is one entry of the input: is_single_value. */
static bool is_input_leaf(const void *user, const ckpt_path_elem *path, uint32_t count)
{
    struct dcp_renamer *r = (struct dcp_renamer *)(uintptr_t)user; /* path_key changes */
    return make_path_key(&r->path_key, path, count) &&
           map_get(r->entry_of_path, buf_view(&r->path_key)) != MAP_NONE;
}

/* index_entry - adds entry INDEX to the maps. *CAN_RENAME: its name is text, and name and path are unique. */
static ckpt_status index_entry(struct dcp_renamer *renamer, uint32_t index, bool *can_rename)
{
    ckpt_str fqn;
    uint32_t same_path = MAP_NONE, same_name = MAP_NONE;
    *can_rename = value_text(renamer->entries[index].key, &fqn);
    if (!*can_rename)
        return CKPT_OK;
    uint32_t at = renamer->planner_pair_of ? map_get(renamer->planner_pair_of, fqn) : MAP_NONE;
    renamer->path_key.len = 0;
    if (at != MAP_NONE)
        *can_rename = make_planner_key(&renamer->path_key, renamer->planner->u.dict.pairs[at].val);
    else
        put_text_element(&renamer->path_key, fqn);
    ckpt_str path = *can_rename ? arena_str(renamer->meta->a, buf_view(&renamer->path_key)) : str_of("", 0);
    bool ok = path.ptr && map_put(renamer->entry_of_path, path, index, &same_path) &&
              map_put(renamer->entry_of_name, fqn, index, &same_name);
    *can_rename = *can_rename && same_path == MAP_NONE && same_name == MAP_NONE;
    return ok ? CKPT_OK : fail_memory(renamer->err);
}

static ckpt_status index_planner_data(struct dcp_renamer *renamer)
{
    ckpt_str fqn;
    uint32_t n = renamer->planner ? renamer->planner->u.dict.n : 0;
    renamer->planner_pair_of = map_new(n);
    for (uint32_t i = 0; renamer->planner_pair_of && i < n; i++)
        if (value_text(renamer->planner->u.dict.pairs[i].key, &fqn) &&
            !map_put(renamer->planner_pair_of, fqn, i, NULL))
            return fail_memory(renamer->err);
    return renamer->planner_pair_of ? CKPT_OK : fail_memory(renamer->err);
}

/* match_leaves - sets *CAN_RENAME if leaves of the plan and entries of the input correspond one to one. */
static ckpt_status match_leaves(struct dcp_renamer *renamer, bool *can_rename)
{
    CKPT_TRY(index_planner_data(renamer));
    *can_rename = true;
    for (uint32_t i = 0; *can_rename && i < renamer->nentries; i++)
        CKPT_TRY(index_entry(renamer, i, can_rename));
    if (!*can_rename)
        return CKPT_OK;
    renamer->leaves = (struct dcp_leaves){
        .plan = renamer->plan, .is_single_value = is_input_leaf, .user = renamer};
    CKPT_TRY(dcp_flatten(&renamer->leaves, renamer->err));
    renamer->leaf_of = arena_array(renamer->meta->a, renamer->nentries, sizeof *renamer->leaf_of);
    CKPT_TRY_ALLOC(renamer->leaf_of, renamer->err);
    *can_rename = renamer->leaves.nleaves == renamer->nentries &&
                  renamer->leaves.nedited == renamer->plan->edits.n;
    for (size_t i = 0; *can_rename && i < renamer->leaves.nleaves; i++) {
        const struct dcp_leaf *l = &renamer->leaves.leaves[i];
        uint32_t at = make_path_key(&renamer->path_key, l->input_path, l->ninput_path)
                          ? map_get(renamer->entry_of_path, buf_view(&renamer->path_key))
                          : MAP_NONE;
        *can_rename = at != MAP_NONE && !renamer->leaf_of[at];
        if (*can_rename)
            renamer->leaf_of[at] = (uint32_t)i + 1;
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------------- graph */

static const struct dcp_leaf *find_leaf_by_fqn(const struct dcp_renamer *renamer, const ckpt_value *fqn)
{
    ckpt_str text;
    uint32_t i = value_text(fqn, &text) ? map_get(renamer->entry_of_name, text) : MAP_NONE;
    return i == MAP_NONE ? NULL : &renamer->leaves.leaves[renamer->leaf_of[i] - 1];
}

static bool rename_key(const struct dcp_renamer *renamer, value_pair *pair)
{
    const struct dcp_leaf *l = find_leaf_by_fqn(renamer, pair->key);
    ckpt_value *name = l ? value_str(renamer->meta->a, l->name) : pair->key;
    pair->key = name ? name : pair->key;
    return name != NULL;
}

static ckpt_value *make_path_tuple(const struct dcp_renamer *renamer, const struct dcp_leaf *leaf)
{
    ckpt_value **item = arena_array(renamer->meta->a, leaf->npath, sizeof(ckpt_value *));
    for (uint32_t k = 0; item && k < leaf->npath; k++)
        if (!(item[k] = leaf->path[k].is_int ? value_int(renamer->meta->a, leaf->path[k].num)
                                             : value_str(renamer->meta->a, leaf->path[k].str)))
            return NULL;
    return item ? value_tuple(renamer->meta->a, leaf->npath, item) : NULL;
}

static bool rename_fqn_of_index(const struct dcp_renamer *renamer, const ckpt_value *index)
{
    uint32_t n;
    value_pair *pairs = (value_pair *)(uintptr_t)value_pairs(value_state(index), &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str field;
        value_pair fqn = {.key = pairs[i].val};
        if (!value_text(pairs[i].key, &field) || !str_is(field, "fqn"))
            continue;
        if (!rename_key(renamer, &fqn))
            return false;
        pairs[i].val = fqn.key;
    }
    return true;
}

/* rename_names_and_paths - changes the graph of .metadata, which nothing else uses. */
static ckpt_status rename_names_and_paths(struct dcp_renamer *renamer)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < renamer->nstorage_pairs; i++)
        ok = rename_fqn_of_index(renamer, renamer->storage_pairs[i].key);
    for (uint32_t i = 0; ok && renamer->planner && i < renamer->planner->u.dict.n; i++) {
        value_pair *pair = &renamer->planner->u.dict.pairs[i];
        const struct dcp_leaf *l = find_leaf_by_fqn(renamer, pair->key);
        if (!l)
            continue;
        pair->val = make_path_tuple(renamer, l);
        ok = pair->val && rename_key(renamer, pair);
    }
    for (uint32_t i = 0; ok && i < renamer->nentries; i++)
        ok = rename_key(renamer, (value_pair *)(uintptr_t)&renamer->entries[i]);
    return ok ? CKPT_OK : fail_memory(renamer->err);
}

/* ------------------------------------------------------------------------- files */

static ckpt_str get_base(const ckpt_file *part) { return str_after_last(str_c(part->path), '/'); }

static ckpt_file *find_part_by_name(const struct dcp_renamer *renamer, ckpt_str name)
{
    for (size_t i = 0; i < renamer->plan->file->nparts; i++) {
        ckpt_file *part = renamer->plan->file->parts[i];
        if (!part->format && str_eq(get_base(part), name))
            return part;
    }
    return NULL;
}

/* is_archive - returns true if the item of PART that INFO describes is a torch.save archive. It returns false
 * for a safetensors file, which torch does not read. */
static bool is_archive(const ckpt_file *part, const ckpt_value *info)
{
    int64_t at;
    const ckpt_value *state = value_state(info);
    return state && value_integer(value_get(state, "offset"), &at) && at >= 0 &&
           (uint64_t)at < part->src->size && !recognize_safetensors_at(part->src, (uint64_t)at);
}

/* list_files - lists the files in storage_data. Sets *CAN_RENAME if all exist and hold archives. */
static ckpt_status list_files(struct dcp_renamer *renamer, bool *can_rename)
{
    renamer->part_of = map_new(64);
    renamer->parts = arena_array(renamer->meta->a, renamer->plan->file->nparts, sizeof(ckpt_file *));
    *can_rename = true;
    for (uint32_t i = 0; *can_rename && renamer->part_of && renamer->parts && i < renamer->nstorage_pairs;
         i++) {
        ckpt_str name;
        const ckpt_value *state = value_state(renamer->storage_pairs[i].val);
        *can_rename = state && value_text(value_get(state, "relative_path"), &name);
        if (!*can_rename || map_get(renamer->part_of, name) != MAP_NONE)
            continue;
        ckpt_file *part = find_part_by_name(renamer, name);
        *can_rename = part && is_archive(part, renamer->storage_pairs[i].val) &&
                      renamer->nparts < renamer->plan->file->nparts;
        if (*can_rename && !map_put(renamer->part_of, name, (uint32_t)renamer->nparts, NULL))
            return fail_memory(renamer->err);
        if (*can_rename)
            renamer->parts[renamer->nparts++] = part;
    }
    return renamer->part_of && renamer->parts ? CKPT_OK : fail_memory(renamer->err);
}

static ckpt_status copy_file(const struct dcp_renamer *renamer, ckpt_file *part)
{
    sink *out;
    const struct write_job *job = renamer->folder->job;
    struct sink_options sink_opts = plan_sink_options(renamer->plan, job->opts);
    const char *path = output_folder_path(renamer->folder, get_base(part).ptr);
    CKPT_TRY(path ? sink_file(path, &sink_opts, &out, renamer->err) : fail_memory(renamer->err));
    return sink_end(out, copy_file_tail(part, 0, out, job->opts, renamer->err), renamer->err);
}

static ckpt_status write_metadata(const struct dcp_renamer *renamer)
{
    const struct pickle_hooks hooks = {.has_literal_names = file_needs_protocol_3(renamer->meta)};
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = pickle_write(renamer->meta->root, &hooks, &b, renamer->err);
    CKPT_THEN(st, output_folder_write_file(renamer->folder, ".metadata", buf_view(&b), renamer->err));
    renamer->folder->job->result->bytes += b.len;
    buf_free(&b);
    return st;
}

static ckpt_status write_folder(const struct dcp_renamer *renamer)
{
    bool dry = renamer->folder->job->opts->dry_run != 0;
    if (!dry)
        CKPT_TRY(output_folder_begin(renamer->folder, renamer->err));
    for (size_t i = 0; i < renamer->nparts; i++) {
        CKPT_TRY(dry ? CKPT_OK : copy_file(renamer, renamer->parts[i]));
        renamer->folder->job->result->bytes += renamer->parts[i]->src->size;
        CKPT_TRY(output_folder_note_output(renamer->folder, get_base(renamer->parts[i]).ptr, renamer->err));
    }
    CKPT_TRY(write_metadata(renamer));
    renamer->folder->job->result->tensors += plan_count_entries(renamer->plan);
    CKPT_TRY(output_folder_note_output(renamer->folder, ".metadata", renamer->err));
    return file_check_unchanged(renamer->plan->file, renamer->err);
}

/* --------------------------------------------------------------------------- all */

/* read_graph - reads the graph of .metadata. Sets *CAN_RENAME if it has the form that torch writes since
 * 2.0. */
static ckpt_status read_graph(struct dcp_renamer *renamer, bool *can_rename)
{
    const ckpt_file *f = renamer->plan->file, *part = f->nparts ? f->parts[0] : NULL;
    uint64_t next;
    *can_rename = part && !part->format && part->src && str_is(get_base(part), ".metadata");
    if (!*can_rename)
        return CKPT_OK;
    CKPT_TRY(file_new(part->path, source_ref(part->src), &f->limits, &renamer->meta, renamer->err));
    file_raise_budget(renamer->meta, part->src->size);
    struct pickle_facts *facts = file_add_pickle(renamer->meta, str_of("", 0));
    CKPT_TRY(facts ? pickle_read(renamer->meta->a, renamer->meta->src, 0, renamer->meta->src->size, facts,
                                 &renamer->meta->root, &next, renamer->err)
                   : fail_memory(renamer->err));
    renamer->state = value_state(renamer->meta->root);
    const ckpt_value *entries = renamer->state ? value_get(renamer->state, "state_dict_metadata") : NULL;
    ckpt_value *storage_data = renamer->state ? value_get(renamer->state, "storage_data") : NULL;
    renamer->planner = renamer->state ? value_get(renamer->state, "planner_data") : NULL;
    renamer->planner = renamer->planner && renamer->planner->type == CKPT_V_DICT ? renamer->planner : NULL;
    *can_rename = entries && storage_data && entries->type == CKPT_V_DICT &&
                  storage_data->type == CKPT_V_DICT;
    if (*can_rename) {
        renamer->entries = value_pairs(entries, &renamer->nentries);
        renamer->storage_pairs = storage_data->u.dict.pairs;
        renamer->nstorage_pairs = storage_data->u.dict.n;
    }
    return CKPT_OK;
}

/* keeps_all_tensors - returns true if P writes all tensors of a distributed checkpoint as they are. */
static bool keeps_all_tensors(const ckpt_plan *p)
{
    return p->file->format->write == dcp_write && p->root == p->file->root && !p->root_depth &&
           !p->casts.to && !p->file->rows_changed && !p->file->losses.n &&
           plan_count_entries(p) == p->file->table.nrows;
}

static ckpt_status write_renamed(struct dcp_renamer *renamer, bool *done)
{
    bool can_rename = true;
    CKPT_TRY(read_graph(renamer, &can_rename));
    if (can_rename)
        CKPT_TRY(list_files(renamer, &can_rename));
    if (can_rename)
        CKPT_TRY(match_leaves(renamer, &can_rename));
    CKPT_TRY_ALLOC(buf_ok(&renamer->path_key), renamer->err);
    *done = can_rename;
    if (!can_rename)
        return CKPT_OK;
    CKPT_TRY(rename_names_and_paths(renamer));
    return output_folder_end(renamer->folder, write_folder(renamer), renamer->err);
}

ckpt_status dcp_write_renamed(ckpt_plan *p, struct output_folder *folder, bool *done, ckpt_error *err)
{
    struct dcp_renamer r = {
        .plan = p, .folder = folder, .err = err, .entry_of_path = map_new(64), .entry_of_name = map_new(64)};
    *done = false;
    buf_init(&r.path_key, SIZE_MAX / 2);
    ckpt_status st = r.entry_of_path && r.entry_of_name ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && keeps_all_tensors(p) && !plan_sets_values(p) && !folder->job->opts->shards)
        st = write_renamed(&r, done);
    buf_free(&r.path_key);
    map_free(r.entry_of_path);
    map_free(r.entry_of_name);
    map_free(r.planner_pair_of);
    map_free(r.part_of);
    file_free(r.meta);
    return st;
}
