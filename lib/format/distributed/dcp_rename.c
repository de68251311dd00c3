/* dcp_rename.c - writes a Distributed Checkpoint in which only names changed: copies the .distcp files and
 * writes new metadata. The copies share blocks if the file system supports that. They are never hard links,
 * because torch overwrites the files in place when it saves into the folder again.
 *
 * The pickle in .metadata is read as a graph, names and paths in the graph are replaced, and the graph is
 * written, so that all other values stay. That takes some kilobytes of memory for each chunk, more than
 * dcp_metadata.c needs. */

#include "base/buf.h"
#include "codec/pickle_read.h"
#include "codec/pickle_write.h"
#include "core/copy_pool.h"
#include "format/distributed/dcp_write.h"
#include "format/hub/shards.h"

struct dcp_renamer {
    ckpt_plan *plan;
    struct dcp_folder *folder;
    ckpt_file *meta;         /* .metadata */
    ckpt_value *state;       /* of the object Metadata */
    ckpt_value *planner;     /* planner_data, or NULL if that is not a dict */
    const value_pair *names; /* pairs of state_dict_metadata */
    value_pair *stored;      /* pairs of storage_data */
    uint32_t nnames, nstored;
    map *by_path;      /* path in the input -> index into names */
    map *by_name;      /* fqn -> index into names */
    map *planned;      /* fqn -> pair of planner_data */
    uint32_t *leaf_of; /* by index into names: 1 + index of its leaf; 0: none */
    struct dcp_leaves leaves;
    buf path_key;      /* a path as unambiguous text, "5:model0/" for ("model", 0); a key of by_path */
    map *files;        /* names of the .distcp files */
    ckpt_file **parts; /* the .distcp files */
    size_t nparts;
    ckpt_error *err;
};

/* ------------------------------------------------------------------------- names */

/* put_number, put_text - append an element of a path to B, a path_key. */
static void put_number(buf *b, int64_t number) { buf_printf(b, "%lld/", (long long)number); }

static void put_text(buf *b, ckpt_str text)
{
    buf_printf(b, "%zu:", text.len);
    buf_put_str(b, text);
}

/* make_planned_key - sets B to the key of PATH, a path in planner_data. Returns false if an element is
 * neither text nor an integer. */
static bool make_planned_key(buf *b, const ckpt_value *path)
{
    int64_t number;
    ckpt_str text;
    b->len = 0;
    for (uint32_t k = 0; k < value_count(path); k++) {
        const ckpt_value *v = value_item(path, k);
        if (value_text(v, &text))
            put_text(b, text);
        else if (value_integer(v, &number))
            put_number(b, number);
        else
            return false;
    }
    return value_count(path) && buf_ok(b);
}

static bool make_path_key(buf *b, const ckpt_path_elem *path, uint32_t n)
{
    b->len = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (path[k].is_int)
            put_number(b, path[k].num);
        else
            put_text(b, path[k].str);
    }
    return buf_ok(b);
}

/* is_input_name - returns true if the container at PATH is one value of the input, for
 * dcp_leaves.is_single_value. */
static bool is_input_name(const void *user, const ckpt_path_elem *path, uint32_t n)
{
    struct dcp_renamer *r = (struct dcp_renamer *)(uintptr_t)user; /* path_key changes */
    return make_path_key(&r->path_key, path, n) && map_get(r->by_path, buf_view(&r->path_key)) != MAP_NONE;
}

/* add_name - indexes key I of state_dict_metadata. Sets *KNOWN if the key is text and its path is unique. */
static ckpt_status add_name(struct dcp_renamer *r, uint32_t i, bool *known)
{
    ckpt_str fqn;
    uint32_t same_path = MAP_NONE, same_name = MAP_NONE;
    *known = value_text(r->names[i].key, &fqn);
    if (!*known)
        return CKPT_OK;
    uint32_t at = r->planned ? map_get(r->planned, fqn) : MAP_NONE;
    r->path_key.len = 0;
    if (at != MAP_NONE)
        *known = make_planned_key(&r->path_key, r->planner->u.dict.pairs[at].val);
    else
        put_text(&r->path_key, fqn);
    ckpt_str path = *known ? arena_str(r->meta->a, buf_view(&r->path_key)) : str_of("", 0);
    bool ok = path.ptr && map_put(r->by_path, path, i, &same_path) && map_put(r->by_name, fqn, i, &same_name);
    *known = *known && same_path == MAP_NONE && same_name == MAP_NONE;
    return ok ? CKPT_OK : fail_memory(r->err);
}

static ckpt_status index_planner_data(struct dcp_renamer *r)
{
    ckpt_str fqn;
    uint32_t n = r->planner ? r->planner->u.dict.n : 0;
    r->planned = map_new(n);
    for (uint32_t i = 0; r->planned && i < n; i++)
        if (value_text(r->planner->u.dict.pairs[i].key, &fqn) && !map_put(r->planned, fqn, i, NULL))
            return fail_memory(r->err);
    return r->planned ? CKPT_OK : fail_memory(r->err);
}

/* match_leaves - sets *SAME if each leaf of the plan is one name of the input, and each name one leaf. */
static ckpt_status match_leaves(struct dcp_renamer *r, bool *same)
{
    CKPT_TRY(index_planner_data(r));
    *same = true;
    for (uint32_t i = 0; *same && i < r->nnames; i++)
        CKPT_TRY(add_name(r, i, same));
    if (!*same)
        return CKPT_OK;
    r->leaves = (struct dcp_leaves){.plan = r->plan, .is_single_value = is_input_name, .user = r};
    CKPT_TRY(dcp_flatten(&r->leaves, r->err));
    r->leaf_of = arena_array(r->meta->a, r->nnames, sizeof *r->leaf_of);
    if (!r->leaf_of)
        return fail_memory(r->err);
    *same = r->leaves.nleaves == r->nnames && r->leaves.nedited == r->plan->nedits;
    for (size_t i = 0; *same && i < r->leaves.nleaves; i++) {
        const struct dcp_leaf *l = &r->leaves.leaves[i];
        uint32_t at = make_path_key(&r->path_key, l->input_path, l->ninput_path)
                          ? map_get(r->by_path, buf_view(&r->path_key))
                          : MAP_NONE;
        *same = at != MAP_NONE && !r->leaf_of[at];
        if (*same)
            r->leaf_of[at] = (uint32_t)i + 1; /* bounded: at most nnames */
    }
    return CKPT_OK;
}

/* -------------------------------------------------------------------------- graph */

static const struct dcp_leaf *find_leaf_by_fqn(const struct dcp_renamer *r, const ckpt_value *fqn)
{
    ckpt_str text;
    uint32_t i = value_text(fqn, &text) ? map_get(r->by_name, text) : MAP_NONE;
    return i == MAP_NONE ? NULL : &r->leaves.leaves[r->leaf_of[i] - 1];
}

static bool rename_key(const struct dcp_renamer *r, value_pair *pair)
{
    const struct dcp_leaf *l = find_leaf_by_fqn(r, pair->key);
    ckpt_value *name = l ? value_str(r->meta->a, l->name) : pair->key;
    pair->key = name ? name : pair->key;
    return name != NULL;
}

static ckpt_value *make_path_tuple(const struct dcp_renamer *r, const struct dcp_leaf *l)
{
    ckpt_value **item = arena_array(r->meta->a, l->npath, sizeof(ckpt_value *));
    for (uint32_t k = 0; item && k < l->npath; k++)
        if (!(item[k] = l->path[k].is_int ? value_int(r->meta->a, l->path[k].num)
                                          : value_str(r->meta->a, l->path[k].str)))
            return NULL;
    return item ? value_tuple(r->meta->a, l->npath, item) : NULL;
}

static bool rename_fqn_of_index(const struct dcp_renamer *r, const ckpt_value *index)
{
    uint32_t n;
    value_pair *pairs = (value_pair *)(uintptr_t)value_pairs(value_state(index), &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str field;
        value_pair fqn = {.key = pairs[i].val};
        if (!value_text(pairs[i].key, &field) || !str_is(field, "fqn"))
            continue;
        if (!rename_key(r, &fqn))
            return false;
        pairs[i].val = fqn.key;
    }
    return true;
}

/* rename_all - replaces all names and paths in the graph of .metadata, which nothing else uses. */
static ckpt_status rename_all(struct dcp_renamer *r)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->nstored; i++)
        ok = rename_fqn_of_index(r, r->stored[i].key);
    for (uint32_t i = 0; ok && r->planner && i < r->planner->u.dict.n; i++) {
        value_pair *pair = &r->planner->u.dict.pairs[i];
        const struct dcp_leaf *l = find_leaf_by_fqn(r, pair->key);
        if (!l)
            continue;
        pair->val = make_path_tuple(r, l);
        ok = pair->val && rename_key(r, pair);
    }
    for (uint32_t i = 0; ok && i < r->nnames; i++)
        ok = rename_key(r, (value_pair *)(uintptr_t)&r->names[i]);
    return ok ? CKPT_OK : fail_memory(r->err);
}

/* ------------------------------------------------------------------------- files */

static ckpt_str get_base(const ckpt_file *part) { return str_after_last(str_c(part->path), '/'); }

static ckpt_file *find_part_by_name(const struct dcp_renamer *r, ckpt_str name)
{
    for (size_t i = 0; i < r->plan->file->nparts; i++) {
        ckpt_file *part = r->plan->file->parts[i];
        if (!part->format && str_eq(get_base(part), name))
            return part;
    }
    return NULL;
}

/* is_archive - returns true if the item of PART that INFO describes is a torch.save archive. It may also be a
 * safetensors file, which torch does not read. */
static bool is_archive(const ckpt_file *part, const ckpt_value *info)
{
    int64_t at;
    unsigned char head[9];
    const ckpt_value *state = value_state(info);
    return state && value_integer(value_get(state, "offset"), &at) && at >= 0 &&
           source_read(part->src, (uint64_t)at, head, sizeof head, NULL) == CKPT_OK && head[8] != '{';
}

/* list_files - lists the files that storage_data names. Sets *KNOWN if all of them exist and have archives.
 */
static ckpt_status list_files(struct dcp_renamer *r, bool *known)
{
    r->files = map_new(64);
    r->parts = arena_array(r->meta->a, r->plan->file->nparts, sizeof(ckpt_file *));
    *known = true;
    for (uint32_t i = 0; *known && r->files && r->parts && i < r->nstored; i++) {
        ckpt_str name;
        const ckpt_value *state = value_state(r->stored[i].val);
        *known = state && value_text(value_get(state, "relative_path"), &name);
        if (!*known || map_get(r->files, name) != MAP_NONE)
            continue;
        ckpt_file *part = find_part_by_name(r, name);
        *known = part && is_archive(part, r->stored[i].val) && r->nparts < r->plan->file->nparts;
        if (*known && !map_put(r->files, name, (uint32_t)r->nparts, NULL)) /* bounded: just compared */
            return fail_memory(r->err);
        if (*known)
            r->parts[r->nparts++] = part;
    }
    return r->files && r->parts ? CKPT_OK : fail_memory(r->err);
}

static ckpt_status copy_file(const struct dcp_renamer *r, ckpt_file *part)
{
    sink *out;
    const struct write_job *job = r->folder->job;
    struct sink_options so = plan_sink_options(r->plan, job->opts);
    const char *path = dcp_folder_path(r->folder, get_base(part).ptr);
    CKPT_TRY(path ? sink_file(path, &so, &out, r->err) : fail_memory(r->err));
    return sink_end(out, copy_file_tail(part, 0, out, job->opts, r->err), r->err);
}

static ckpt_status write_metadata(const struct dcp_renamer *r)
{
    const struct pickle_hooks hooks = {.literal = file_needs_protocol_3(r->meta)};
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = pickle_write(r->meta->root, &hooks, &b, r->err);
    if (st == CKPT_OK)
        st = dcp_folder_write_metadata(r->folder, buf_view(&b), r->err);
    r->folder->job->result->bytes += b.len; /* bounded: it is in memory */
    buf_free(&b);
    return st;
}

static ckpt_status write_folder(const struct dcp_renamer *r)
{
    bool dry = r->folder->job->opts->dry_run != 0;
    if (!dry)
        CKPT_TRY(dcp_folder_begin(r->folder, r->err));
    for (size_t i = 0; i < r->nparts; i++) {
        CKPT_TRY(dry ? CKPT_OK : copy_file(r, r->parts[i]));
        r->folder->job->result->bytes += r->parts[i]->src->size; /* bounded: files of one folder */
        CKPT_TRY(dcp_folder_note_output(r->folder, get_base(r->parts[i]).ptr, r->err));
    }
    CKPT_TRY(write_metadata(r));
    r->folder->job->result->tensors += plan_count_entries(r->plan);
    CKPT_TRY(dcp_folder_note_output(r->folder, ".metadata", r->err));
    return file_check_unchanged(r->plan->file, r->err);
}

/* --------------------------------------------------------------------------- all */

/* read_graph - reads the graph of .metadata. Sets *KNOWN if it has the form that torch writes since 2.0. */
static ckpt_status read_graph(struct dcp_renamer *r, bool *known)
{
    const ckpt_file *f = r->plan->file, *part = f->nparts ? f->parts[0] : NULL;
    uint64_t next;
    *known = part && !part->format && part->src && str_is(get_base(part), ".metadata");
    if (!*known)
        return CKPT_OK;
    CKPT_TRY(file_new(part->path, source_ref(part->src), &f->limits, &r->meta, r->err));
    file_raise_budget(r->meta, part->src->size);
    struct pickle_facts *facts = file_add_pickle(r->meta, str_of("", 0));
    CKPT_TRY(facts ? pickle_read(r->meta->a, r->meta->src, 0, r->meta->src->size, facts, &r->meta->root,
                                 &next, r->err)
                   : fail_memory(r->err));
    r->state = value_state(r->meta->root);
    const ckpt_value *names = r->state ? value_get(r->state, "state_dict_metadata") : NULL;
    ckpt_value *stored = r->state ? value_get(r->state, "storage_data") : NULL;
    r->planner = r->state ? value_get(r->state, "planner_data") : NULL;
    r->planner = r->planner && r->planner->type == CKPT_V_DICT ? r->planner : NULL;
    *known = names && stored && names->type == CKPT_V_DICT && stored->type == CKPT_V_DICT;
    if (*known) {
        r->names = value_pairs(names, &r->nnames);
        r->stored = stored->u.dict.pairs;
        r->nstored = stored->u.dict.n;
    }
    return CKPT_OK;
}

/* only_names_changed - returns true if P writes all of a distributed checkpoint without a cast. */
static bool only_names_changed(const ckpt_plan *p)
{
    return p->file->format->write == dcp_write && p->root == p->file->root && !p->root_depth && !p->cast_to &&
           !p->file->nlost && plan_count_entries(p) == p->file->table.nrows;
}

static ckpt_status write_renamed(struct dcp_renamer *r, bool *done)
{
    bool same = true;
    CKPT_TRY(read_graph(r, &same));
    if (same)
        CKPT_TRY(list_files(r, &same));
    if (same)
        CKPT_TRY(match_leaves(r, &same));
    if (!buf_ok(&r->path_key))
        return fail_memory(r->err);
    *done = same;
    if (!same)
        return CKPT_OK;
    CKPT_TRY(rename_all(r));
    return dcp_folder_end(r->folder, write_folder(r), r->err);
}

ckpt_status dcp_write_renamed(ckpt_plan *p, struct dcp_folder *d, bool *done, ckpt_error *err)
{
    struct dcp_renamer r = {
        .plan = p, .folder = d, .err = err, .by_path = map_new(64), .by_name = map_new(64)};
    *done = false;
    buf_init(&r.path_key, SIZE_MAX / 2);
    ckpt_status st = r.by_path && r.by_name ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && only_names_changed(p) && !d->job->opts->shards)
        st = write_renamed(&r, done);
    buf_free(&r.path_key);
    map_free(r.by_path);
    map_free(r.by_name);
    map_free(r.planned);
    map_free(r.files);
    file_free(r.meta);
    return st;
}
