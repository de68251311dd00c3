/*
 * orbax.c - reads checkpoints of Orbax, as JAX and Flax save them: a folder for each step, in it a folder for
 * each item; or the folder of one item (orbax/checkpoint/_src/metadata/tree.py, handlers).
 *
 *   STEP/_CHECKPOINT_METADATA     JSON; the save is finished
 *   STEP/ITEM/_METADATA           JSON: tree_metadata {key: {key_metadata [{key, key_type}], value_metadata
 *                                 {value_type}}}, use_ocdbt, store_array_data_equal_to_fill_value
 *   STEP/ITEM/manifest.ocdbt …    a database (codec/ocdbt.c) of Zarr arrays (codec/zarr.c); or a folder for
 *                                 each
 *   STEP/ITEM/_strings.json       texts
 *   STEP/ITEM/metadata            the value of an item that is one JSON file
 *   STEP.orbax-checkpoint-tmp…    a save that did not finish
 *
 * The key of an array is its path in the tree, joined with "."; names are taken from key_metadata alone. A
 * key_type of 1 is an item of a list, 2 a key of a dict. Values of type scalar are numbers of the
 * graph; None and empty containers have no array.
 *
 * From a folder of steps, only the last one is read; a step of several items is a dict of them. Refused: a
 * save that did not finish, an item without its _METADATA, an array that _METADATA names but that does not
 * exist.
 */
#include <stdlib.h>
#include <unistd.h>

#include "codec/json_scan.h"
#include "core/check.h"
#include "format/folder.h"
#include "format/hub/shards.h"
#include "format/nested.h"
#include "format/zarr/arrays.h"

#define STEP_METADATA "_CHECKPOINT_METADATA"
#define ITEM_METADATA "_METADATA"
#define STRINGS       "_strings.json"
#define JSON_ITEM     "metadata"
#define UNFINISHED    ".orbax-checkpoint-tmp"
#define IS_ITEM       1 /* key_type of an item of a list */

struct orbax {
    ckpt_file *f;
    ckpt_error *err;
    struct zarr_arrays arrays;
    struct nested tree;
    ckpt_str item;  /* name of the item that is read; empty: it is the whole checkpoint */
    bool no_memory; /* has_file failed for lack of memory */
    bool is_named;  /* paths begin with the name of the item, because the step may have several */
    struct store store;
    map *texts; /* name of a text -> index into TEXT; NULL: not read yet */
    const value_pair *text;
    enum zarr_missing missing;
};

/* -------------------------------------------------------------------------- folders */

/* has_file - returns true if FOLDER, a folder in PATH, has a file NAME. Sets *NO_MEMORY if there is no memory
 * to check that. */
static bool has_file(const char *path, ckpt_str folder, const char *name, bool *no_memory)
{
    char *in = shards_join_path(str_c(path), folder),
         *file = in ? shards_join_path(str_c(in), str_c(name)) : NULL;
    bool has = file && access(file, F_OK) == 0;
    *no_memory = *no_memory || !file;
    free(file);
    free(in);
    return has;
}

/* read_step_number - sets *OUT to the number that NAME is, or that it has after its last '_'. False: it has
 * none, or the save did not finish. */
static bool read_step_number(ckpt_str name, uint64_t *out)
{
    return str_find(name, STR_LIT(UNFINISHED), 0) == SIZE_MAX && str_uint(str_after_last(name, '_'), out);
}

/* is_step - returns true if the folder NAME of P is a step whose save finished. */
static bool is_step(const struct probe *p, ckpt_str name)
{
    uint64_t n;
    return read_step_number(name, &n) && (has_file(p->path, name, STEP_METADATA, p->no_memory) ||
                                          has_file(p->path, name, ITEM_METADATA, p->no_memory));
}

/* find_last_step - sets *NAME to the step of P with the greatest number, and *N to the number of steps. */
static bool find_last_step(const struct probe *p, ckpt_str *name, size_t *n)
{
    uint64_t best = 0, number;
    *n = 0;
    for (size_t i = 0; i < p->nnames; i++)
        if (is_step(p, p->names[i]) && read_step_number(p->names[i], &number) && (!(*n)++ || number > best)) {
            best = number;
            *name = p->names[i];
        }
    return *n > 0;
}

/* is_unfinished - returns true if PATH is the name of a save that did not finish. */
static bool is_unfinished(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    return str_find(str_after_last(str_of(path, n), '/'), STR_LIT(UNFINISHED), 0) != SIZE_MAX;
}

static bool is_item(const struct probe *p)
{
    return probe_has(p, ITEM_METADATA) ||
           (probe_has(p, OCDBT_MANIFEST) && (probe_has(p, "_sharding") || probe_has(p, "array_metadatas")));
}

static bool probe(const struct probe *p)
{
    ckpt_str name;
    size_t n;
    return p->directory && (is_item(p) || probe_has(p, STEP_METADATA) || is_unfinished(p->path) ||
                            find_last_step(p, &name, &n));
}

/* --------------------------------------------------------------------------- values */

/* get_field - returns the value of KEY in V, or NULL if V is not a dict or lacks the key. */
static const ckpt_value *get_field(const ckpt_value *v, const char *key)
{
    return v && v->type == CKPT_V_DICT ? value_get(v, key) : NULL;
}

/* read_json - sets *OUT to the contents of the file NAME of the item. */
static ckpt_status read_json(struct orbax *o, const char *name, ckpt_value **out)
{
    ckpt_str text;
    CKPT_TRY(store_read_file(&o->store, str_c(name), &text));
    ckpt_status st = json_value(text, 0, o->f->a, out, o->err);
    if (st != CKPT_OK)
        error_add_where(o->err, "%s%s", o->store.folder.ptr, name);
    return st;
}

/* read_texts - reads the texts of the item. */
static ckpt_status read_texts(struct orbax *o)
{
    ckpt_value *all;
    ckpt_str key;
    uint32_t n;
    CKPT_TRY(read_json(o, STRINGS, &all));
    o->text = value_pairs(all, &n);
    o->texts = map_new(64);
    for (uint32_t i = 0; o->texts && i < n; i++)
        if (value_text(o->text[i].key, &key) && !map_put(o->texts, key, i, NULL))
            return fail_memory(o->err);
    return o->texts ? CKPT_OK : fail_memory(o->err);
}

/* read_text - sets *NODE to the text NAME. */
static ckpt_status read_text(struct orbax *o, ckpt_str name, ckpt_value **node)
{
    if (!o->texts)
        CKPT_TRY(read_texts(o));
    uint32_t i = map_get(o->texts, name);
    *node = i == MAP_NONE ? NULL : o->text[i].val;
    return *node ? CKPT_OK
                 : fail(o->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} {=text of that name} in " STRINGS);
}

/* read_value - sets *NODE to the value NAME, of TYPE; NULL: it has a fault, which was reported. */
static ckpt_status read_value(struct orbax *o, ckpt_str name, ckpt_str type, ckpt_value **node)
{
    static const struct {
        const char *name;
        ckpt_value_type type;
    } empty[] = {{"None", CKPT_V_NONE}, {"Dict", CKPT_V_DICT}, {"List", CKPT_V_LIST}, {"Tuple", CKPT_V_LIST}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (str_is(type, empty[i].name)) {
            *node = value_new(o->f->a, empty[i].type, 0);
            return *node ? CKPT_OK : fail_memory(o->err);
        }
    if (str_is(type, "string"))
        return read_text(o, name, node);
    const struct zarr_source from = {&o->store, arena_printf(o->f->a, "%.*s/", (int)name.len, name.ptr), name,
                                     o->missing};
    if (!from.prefix.ptr)
        return fail_memory(o->err);
    return str_is(type, "scalar") ? zarr_read_scalar(&o->arrays, &from, node)
                                  : zarr_add_array(&o->arrays, &from, node);
}

/* ----------------------------------------------------------------------------- tree */

/* read_path - sets *OUT to a path of *N elements: that of the item, then KEYS, a list of keys with their
 * types. */
static ckpt_status read_path(struct orbax *o, const ckpt_value *keys, ckpt_path_elem **out, uint32_t *n)
{
    uint32_t before = 1 + o->is_named, nkeys = keys && keys->type == CKPT_V_LIST ? value_count(keys) : 0;
    if (!keys || keys->type != CKPT_V_LIST || nkeys > o->f->limits.max_depth - 2)
        return fail(o->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%u keys}; {=0 to %u} are read", nkeys,
                    o->f->limits.max_depth - 2);
    ckpt_path_elem *path = *out = arena_array(o->f->a, (uint64_t)nkeys + before,
                                              sizeof *path); /* bounded: in memory */
    if (!path)
        return fail_memory(o->err);
    path[0].str = STR_LIT(""); /* of all paths, because the item itself may be a list or a single value */
    if (o->is_named)
        path[1].str = o->item;
    for (uint32_t i = 0; i < nkeys; i++) {
        const ckpt_value *one = value_item(keys, i);
        ckpt_path_elem *e = &path[before + i];
        int64_t type = 0;
        uint64_t number = 0;
        bool ok = value_text(get_field(one, "key"), &e->str) &&
                  value_integer(get_field(one, "key_type"), &type);
        e->is_int = ok && type == IS_ITEM;
        if (!ok || (e->is_int && (!str_uint(e->str, &number) || number > INT64_MAX)))
            return fail(o->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "key {%u} of a path is not {=a text with a key_type}", i);
        e->num = (int64_t)number;
        if (!(e->str = arena_str(o->f->a, e->str)).ptr) /* with a NUL after it, as names are */
            return fail_memory(o->err);
    }
    *n = before + nkeys;
    return CKPT_OK;
}

/* read_entry - adds the value that V, an entry of the tree, describes. */
static ckpt_status read_entry(struct orbax *o, const ckpt_value *v)
{
    ckpt_path_elem *path = NULL;
    uint32_t n = 0, before = 1 + o->is_named;
    ckpt_value *node = NULL;
    ckpt_str type;
    CKPT_TRY(read_path(o, get_field(v, "key_metadata"), &path, &n));
    if (!value_text(get_field(get_field(v, "value_metadata"), "value_type"), &type))
        return fail(o->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value without {a} {=value_type}");
    ckpt_str name = path_join(o->f->a, path + before, n - before); /* bounded: read_path made them */
    if (!name.ptr)
        return fail_memory(o->err);
    CKPT_TRY(read_value(o, name, type, &node));
    return node ? nested_put(&o->tree, path, n, node, o->err) : CKPT_OK;
}

/* read_tree - adds all values that META, the metadata of the item, describes. */
static ckpt_status read_tree(struct orbax *o, const ckpt_value *meta)
{
    uint32_t n;
    const ckpt_value *tree = get_field(meta, "tree_metadata"),
                     *all = get_field(meta, "store_array_data_equal_to_fill_value");
    const value_pair *pairs = value_pairs(tree, &n);
    if (!tree || tree->type != CKPT_V_DICT)
        return fail(o->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} {=tree_metadata}");
    o->missing = all && all->type == CKPT_V_BOOL && all->u.b ? MISSING_FAULT : MISSING_ZERO;
    o->tree.max_items = n;
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key = {"", 0};
        ckpt_status st = read_entry(o, pairs[i].val);
        (void)value_text(pairs[i].key, &key);
        error_add_position(st == CKPT_OK ? NULL : o->err, CKPT_NO_OFFSET, key);
        CKPT_TRY(file_report_fault(o->f, st, o->err));
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- items */

/* read_arrays - reads an item that has a tree. */
static ckpt_status read_arrays(struct orbax *o)
{
    ckpt_value *meta;
    ckpt_status st = read_json(o, ITEM_METADATA, &meta);
    if (st == CKPT_ENOTFOUND)
        st = fail(o->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                  "{no} {=" ITEM_METADATA "}, which has the names and the tree\n"
                  "the file was not copied, or the save did not finish");
    CKPT_TRY(st);
    const ckpt_value *ocdbt = get_field(meta, "use_ocdbt");
    bool is_ocdbt = ocdbt && ocdbt->type == CKPT_V_BOOL
                        ? ocdbt->u.b
                        : has_file(o->f->folder, o->store.folder, OCDBT_MANIFEST, &o->no_memory);
    CKPT_TRY(store_open(&o->store, is_ocdbt));
    st = read_tree(o, meta);
    if (st != CKPT_OK && !o->err->where[0])
        error_add_where(o->err, "%s" ITEM_METADATA, o->store.folder.ptr);
    return st;
}

/* read_json_item - adds an item that is a JSON file, as one value. */
static ckpt_status read_json_item(struct orbax *o)
{
    ckpt_path_elem path[2] = {{.str = {"", 0}}, {.str = o->item}};
    ckpt_value *node;
    ckpt_status st = read_json(o, JSON_ITEM, &node);
    if (check_is_fault(st)) {
        file_notice(o->f, "item \"%.*s\" is left out: %s", STR_ARG(o->item), o->err->what);
        return CKPT_OK;
    }
    CKPT_TRY(st);
    return nested_put(&o->tree, path, 2, node, o->err);
}

/* read_item - reads the item in FOLDER, relative to that of the file; it is empty or ends in '/'. */
static ckpt_status read_item(struct orbax *o, ckpt_str folder)
{
    bool is_json = o->is_named && !has_file(o->f->folder, folder, ITEM_METADATA, &o->no_memory);
    o->store = (struct store){.f = o->f, .err = o->err, .folder = folder};
    o->store.trusted = arena_printf(o->f->a, "%s%s", folder.ptr, is_json ? JSON_ITEM : ITEM_METADATA).ptr;
    o->texts = NULL;
    if (!o->store.trusted)
        return fail_memory(o->err);
    ckpt_status st = is_json ? read_json_item(o) : read_arrays(o);
    store_close(&o->store);
    map_free(o->texts);
    return st;
}

/* read_items - reads the items of the step in FOLDER. */
static ckpt_status read_items(struct orbax *o, ckpt_str folder)
{
    ckpt_str *name;
    size_t n = 0, items = 0;
    char *path = shards_join_path(str_c(o->f->folder), folder);
    ckpt_status st = path ? folder_list_all(o->f->a, path, &name, &n, o->err) : fail_memory(o->err);
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        if (!has_file(path, name[i], ITEM_METADATA, &o->no_memory) &&
            !has_file(path, name[i], JSON_ITEM, &o->no_memory))
            continue;
        ckpt_str in = arena_printf(o->f->a, "%s%.*s/", folder.ptr, (int)name[i].len, name[i].ptr);
        o->item = name[i];
        o->is_named = true;
        items++;
        st = in.ptr ? read_item(o, in) : fail_memory(o->err);
    }
    free(path);
    if (st == CKPT_OK && !items)
        return fail(o->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                    "a step with {no} {=item that has a " ITEM_METADATA "}");
    return st;
}

/* read_step - reads the step in FOLDER: its items, or an item that stands alone. */
static ckpt_status read_step(struct orbax *o, ckpt_str folder)
{
    bool alone = has_file(o->f->folder, folder, ITEM_METADATA, &o->no_memory) ||
                 !has_file(o->f->folder, folder, STEP_METADATA, &o->no_memory);
    return alone ? read_item(o, folder) : read_items(o, folder);
}

/* read_steps - reads the last step of the folder. */
static ckpt_status read_steps(struct orbax *o)
{
    const struct probe *p = o->f->probe;
    ckpt_str name;
    size_t n, unfinished = 0, first = 0;
    if (!find_last_step(p, &name, &n))
        return fail(o->err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the steps were removed while they were read");
    for (size_t i = p->nnames; i-- > 0;)
        if (str_find(p->names[i], STR_LIT(UNFINISHED), 0) != SIZE_MAX) {
            first = i;
            unfinished++;
        }
    if (n > 1)
        file_notice(o->f, "the last of %zu steps: %.*s", n, STR_ARG(name));
    if (unfinished)
        file_notice(o->f, "%.*s%s: a save that did not finish", STR_ARG(p->names[first]),
                    unfinished > 1 ? " and others" : "");
    ckpt_str folder = arena_printf(o->f->a, "%.*s/", (int)name.len, name.ptr);
    return folder.ptr ? read_step(o, folder) : fail_memory(o->err);
}

/* --------------------------------------------------------------------------- read */

/* check_finished - fails if F, a folder, is a save that did not finish, unless F is salvaged. */
static ckpt_status check_finished(ckpt_file *f, ckpt_error *err)
{
    if (f->salvage || !is_unfinished(f->path))
        return CKPT_OK;
    ckpt_status st = fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                          "{a save that did not finish}, by the name of its {=folder}\n"
                          "take an earlier step; `ckpt salvage` writes what is there");
    return file_report_fault(f, st, err);
}

static ckpt_status read_all(struct orbax *o)
{
    const struct probe *p = o->f->probe;
    bool steps = !is_item(p) && !probe_has(p, STEP_METADATA) && !is_unfinished(p->path);
    ckpt_status st = steps ? read_steps(o) : read_step(o, STR_LIT(""));
    if (o->no_memory || *p->no_memory)
        return fail_memory(o->err);
    CKPT_TRY(st);
    ckpt_value *root = value_get(nested_root(&o->tree), "");
    if (!root && !(root = value_new(o->f->a, CKPT_V_DICT, 0)))
        return fail_memory(o->err);
    o->f->producer = STR_LIT("orbax");
    return zarr_arrays_make_graph(&o->arrays, root);
}

static ckpt_status read_folder(ckpt_file *f, ckpt_error *err)
{
    struct orbax o = {.f = f, .err = err};
    f->folder = f->path;
    CKPT_TRY(check_finished(f, err));
    ckpt_status st = zarr_arrays_begin(&o.arrays, f, err);
    if (st == CKPT_OK)
        st = nested_begin(&o.tree, f->a, 0) ? read_all(&o) : fail_memory(err);
    nested_end(&o.tree);
    zarr_arrays_end(&o.arrays);
    return st;
}

const struct format format_orbax = {.name = "orbax", .title = "Orbax", .probe = probe, .read = read_folder};
