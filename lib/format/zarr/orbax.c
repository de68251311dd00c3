/*
 * orbax.c - reads checkpoints of Orbax, as JAX and Flax save them: a folder for each step, in it a folder for
 * each item; or the folder of one item (orbax/checkpoint/_src/metadata/tree.py, handlers).
 *
 *   STEP/_CHECKPOINT_METADATA     JSON; the save is finished
 *   STEP/ITEM/_METADATA           JSON: tree_metadata {key: {key_metadata [{key, key_type}], value_metadata
 *                                 {value_type}}}, use_ocdbt, store_array_data_equal_to_fill_value
 *   STEP/ITEM/manifest.ocdbt …    a database (codec/ocdbt.c) of Zarr arrays (codec/zarr.c); or a folder for
 *                                 each array
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
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/nested.h"
#include "format/zarr/arrays.h"

#define STEP_METADATA      "_CHECKPOINT_METADATA"
#define ITEM_METADATA      "_METADATA"
#define STRINGS            "_strings.json"
#define JSON_ITEM          "metadata"
#define UNFINISHED         ".orbax-checkpoint-tmp"
#define KEY_TYPE_LIST_ITEM 1

struct orbax {
    ckpt_file *f;
    ckpt_error *err;
    struct zarr_arrays arrays;
    struct nested tree;
    ckpt_str item;  /* name of the item that is read; empty: it is the whole checkpoint */
    bool no_memory; /* has_file ran out of memory */
    bool is_named;  /* paths begin with the name of the item, because the step may have several */
    struct store store;
    map *text_index; /* name of a text -> index into TEXTS; NULL: not read yet */
    const value_pair *texts;
    enum zarr_missing missing;
};

/* -------------------------------------------------------------------------- folders */

/* has_file - returns true if FOLDER, a folder in PATH, has a file NAME. Sets *NO_MEMORY if there is no memory
 * to check that. ARCHIVE is as in struct probe. */
static bool has_file(const source *archive, const char *path, ckpt_str folder, const char *name,
                     bool *no_memory)
{
    char *in = path_make(str_c(path), folder), *file = in ? path_make(str_c(in), str_c(name)) : NULL;
    bool exists = file && path_exists(archive, file);
    *no_memory = *no_memory || !file;
    free(file);
    free(in);
    return exists;
}

/* has - returns true if FOLDER, a folder in that of the checkpoint, has a file NAME. */
static bool has(struct orbax *orbax, ckpt_str folder, const char *name)
{
    return has_file(orbax->f->archive, orbax->f->folder, folder, name, &orbax->no_memory);
}

/* read_step_number - sets *OUT to the number that NAME is, or that it has after its last '_'. False: it has
 * none, or the save did not finish. */
static bool read_step_number(ckpt_str name, uint64_t *out)
{
    return str_find(name, STR_LIT(UNFINISHED), 0) == SIZE_MAX && str_uint(str_after_last(name, '_'), out);
}

static bool is_finished_step(const struct probe *probe, ckpt_str name)
{
    uint64_t n;
    return read_step_number(name, &n) &&
           (has_file(probe->archive, probe->path, name, STEP_METADATA, probe->no_memory) ||
            has_file(probe->archive, probe->path, name, ITEM_METADATA, probe->no_memory));
}

/* find_last_step - sets *NAME to the step of PROBE with the greatest number, and *COUNT to the number of
 * steps. */
static bool find_last_step(const struct probe *probe, ckpt_str *name, size_t *count)
{
    uint64_t best = 0, number;
    *count = 0;
    for (size_t i = 0; i < probe->nnames; i++)
        if (is_finished_step(probe, probe->names[i]) && read_step_number(probe->names[i], &number) &&
            (!(*count)++ || number > best)) {
            best = number;
            *name = probe->names[i];
        }
    return *count > 0;
}

static bool is_unfinished_save(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    return str_find(str_after_last(str_of(path, n), '/'), STR_LIT(UNFINISHED), 0) != SIZE_MAX;
}

static bool is_item(const struct probe *probe)
{
    return probe_has(probe, ITEM_METADATA) ||
           (probe_has(probe, OCDBT_MANIFEST) &&
            (probe_has(probe, "_sharding") || probe_has(probe, "array_metadatas")));
}

static bool probe(const struct probe *this_probe)
{
    ckpt_str name;
    size_t n;
    return this_probe->is_folder &&
           (is_item(this_probe) || probe_has(this_probe, STEP_METADATA) ||
            is_unfinished_save(this_probe->path) || find_last_step(this_probe, &name, &n));
}

/* --------------------------------------------------------------------------- values */

static const ckpt_value *get_field(const ckpt_value *value, const char *key)
{
    return value && value->type == CKPT_V_DICT ? value_get(value, key) : NULL;
}

static ckpt_status read_json(struct orbax *orbax, const char *name, ckpt_value **out)
{
    ckpt_str text;
    CKPT_TRY(store_read_file(&orbax->store, str_c(name), &text));
    ckpt_status st = json_read_value(text, 0, orbax->f->a, out, orbax->err);
    if (st != CKPT_OK)
        error_add_where(orbax->err, "%s%s", orbax->store.folder.ptr, name);
    return st;
}

static ckpt_status read_texts(struct orbax *orbax)
{
    ckpt_value *all;
    ckpt_str key;
    uint32_t n;
    CKPT_TRY(read_json(orbax, STRINGS, &all));
    orbax->texts = value_pairs(all, &n);
    orbax->text_index = map_new(64);
    for (uint32_t i = 0; orbax->text_index && i < n; i++)
        if (value_text(orbax->texts[i].key, &key) && !map_put(orbax->text_index, key, i, NULL))
            return fail_memory(orbax->err);
    return orbax->text_index ? CKPT_OK : fail_memory(orbax->err);
}

static ckpt_status read_text(struct orbax *orbax, ckpt_str name, ckpt_value **node)
{
    if (!orbax->text_index)
        CKPT_TRY(read_texts(orbax));
    uint32_t i = map_get(orbax->text_index, name);
    *node = i == MAP_NONE ? NULL : orbax->texts[i].val;
    return *node ? CKPT_OK
                 : fail(orbax->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} {=text of that name} in " STRINGS);
}

/* read_value - sets *NODE to the value NAME, of TYPE; NULL: it has a fault, which was reported. */
static ckpt_status read_value(struct orbax *orbax, ckpt_str name, ckpt_str type, ckpt_value **node)
{
    static const struct {
        const char *name;
        ckpt_value_type type;
    } empty[] = {{"None", CKPT_V_NONE}, {"Dict", CKPT_V_DICT}, {"List", CKPT_V_LIST}, {"Tuple", CKPT_V_LIST}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (str_is(type, empty[i].name)) {
            *node = value_new(orbax->f->a, empty[i].type, 0);
            return *node ? CKPT_OK : fail_memory(orbax->err);
        }
    if (str_is(type, "string"))
        return read_text(orbax, name, node);
    const struct zarr_source from = {&orbax->store, ARENA_CONCAT(orbax->f->a, name, STR_LIT("/")), name,
                                     orbax->missing};
    CKPT_TRY_ALLOC(from.prefix.ptr, orbax->err);
    return str_is(type, "scalar") ? zarr_read_scalar(&orbax->arrays, &from, node)
                                  : zarr_add_array(&orbax->arrays, &from, node);
}

/* ----------------------------------------------------------------------------- tree */

/* read_path - sets *OUT to a path of *COUNT elements: that of the item, then KEYS, a list of keys with their
 * types. */
static ckpt_status read_path(struct orbax *orbax, const ckpt_value *keys, ckpt_path_elem **out,
                             uint32_t *count)
{
    uint32_t before = 1 + orbax->is_named, nkeys = keys && keys->type == CKPT_V_LIST ? value_count(keys) : 0;
    if (!keys || keys->type != CKPT_V_LIST || nkeys > orbax->f->limits.max_depth - 2)
        return fail(orbax->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%u keys}; {=0 to %u} are read", nkeys,
                    orbax->f->limits.max_depth - 2);
    ckpt_path_elem *path = *out = arena_array(orbax->f->a, (uint64_t)nkeys + before, sizeof *path);
    CKPT_TRY_ALLOC(path, orbax->err);
    path[0].str = STR_LIT(""); /* begins all paths, because the item itself may be a list or a single value */
    if (orbax->is_named)
        path[1].str = orbax->item;
    for (uint32_t i = 0; i < nkeys; i++) {
        const ckpt_value *key = value_item(keys, i);
        ckpt_path_elem *elem = &path[before + i];
        int64_t type = 0;
        uint64_t number = 0;
        bool ok = value_text(get_field(key, "key"), &elem->str) &&
                  value_integer(get_field(key, "key_type"), &type);
        elem->is_int = ok && type == KEY_TYPE_LIST_ITEM;
        if (!ok || (elem->is_int && (!str_uint(elem->str, &number) || number > INT64_MAX)))
            return fail(orbax->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "key {%u} of a path is not {=a text with a key_type}", i);
        elem->num = (int64_t)number;
        if (!(elem->str = arena_str(orbax->f->a, elem->str)).ptr) /* with a NUL after it, as names have */
            return fail_memory(orbax->err);
    }
    *count = before + nkeys;
    return CKPT_OK;
}

/* read_entry - adds the value that ENTRY of the tree describes. */
static ckpt_status read_entry(struct orbax *orbax, const ckpt_value *entry)
{
    ckpt_path_elem *path = NULL;
    uint32_t n = 0, nprefix = 1 + orbax->is_named; /* what paths have and names of arrays have not */
    ckpt_value *node = NULL;
    ckpt_str type;
    CKPT_TRY(read_path(orbax, get_field(entry, "key_metadata"), &path, &n));
    if (!value_text(get_field(get_field(entry, "value_metadata"), "value_type"), &type))
        return fail(orbax->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value without {a} {=value_type}");
    ckpt_str name = path_join(orbax->f->a, path + nprefix, n - nprefix);
    CKPT_TRY_ALLOC(name.ptr, orbax->err);
    CKPT_TRY(read_value(orbax, name, type, &node));
    return node ? nested_put(&orbax->tree, path, n, node, orbax->err) : CKPT_OK;
}

static ckpt_status read_tree(struct orbax *orbax, const ckpt_value *meta)
{
    uint32_t n;
    const ckpt_value *tree = get_field(meta, "tree_metadata"),
                     *stores_fill = get_field(meta, "store_array_data_equal_to_fill_value");
    const value_pair *pairs = value_pairs(tree, &n);
    if (!tree || tree->type != CKPT_V_DICT)
        return fail(orbax->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} {=tree_metadata}");
    bool stores_all = stores_fill && stores_fill->type == CKPT_V_BOOL && stores_fill->u.b;
    orbax->missing = stores_all ? MISSING_FAULT : MISSING_ZERO; /* of a chunk that is not there */
    orbax->tree.max_items = n;
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key = {"", 0};
        ckpt_status st = read_entry(orbax, pairs[i].val);
        (void)value_text(pairs[i].key, &key);
        error_add_position(st == CKPT_OK ? NULL : orbax->err, CKPT_NO_OFFSET, key);
        CKPT_TRY(file_report_fault(orbax->f, st, orbax->err));
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- items */

static ckpt_status read_tree_item(struct orbax *orbax)
{
    ckpt_value *meta;
    ckpt_status st = read_json(orbax, ITEM_METADATA, &meta);
    if (st == CKPT_ENOTFOUND)
        st = fail(orbax->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                  "{no} {=" ITEM_METADATA "}, which has the names and the tree\n"
                  "the file was not copied, or the save did not finish");
    CKPT_TRY(st);
    const ckpt_value *ocdbt = get_field(meta, "use_ocdbt");
    bool is_ocdbt = ocdbt && ocdbt->type == CKPT_V_BOOL ? ocdbt->u.b
                                                        : has(orbax, orbax->store.folder, OCDBT_MANIFEST);
    CKPT_TRY(store_open(&orbax->store, is_ocdbt));
    st = read_tree(orbax, meta);
    if (st != CKPT_OK && !orbax->err->where[0])
        error_add_where(orbax->err, "%s" ITEM_METADATA, orbax->store.folder.ptr);
    return st;
}

static ckpt_status read_json_item(struct orbax *orbax)
{
    ckpt_path_elem path[2] = {{.str = {"", 0}}, {.str = orbax->item}};
    ckpt_value *node;
    ckpt_status st = read_json(orbax, JSON_ITEM, &node);
    if (check_is_fault(st)) {
        file_notice(orbax->f, "item \"%.*s\" is left out: %s", STR_ARG(orbax->item), orbax->err->what);
        return CKPT_OK;
    }
    CKPT_TRY(st);
    return nested_put(&orbax->tree, path, 2, node, orbax->err);
}

/* read_item - reads the item in FOLDER, which is relative to f->folder, and is empty or ends in '/'. */
static ckpt_status read_item(struct orbax *orbax, ckpt_str folder)
{
    bool is_json = orbax->is_named && !has(orbax, folder, ITEM_METADATA);
    orbax->store = (struct store){.f = orbax->f, .err = orbax->err, .folder = folder};
    orbax->store.trusted =
        arena_printf(orbax->f->a, "%s%s", folder.ptr, is_json ? JSON_ITEM : ITEM_METADATA).ptr;
    orbax->text_index = NULL;
    CKPT_TRY_ALLOC(orbax->store.trusted, orbax->err);
    ckpt_status st = is_json ? read_json_item(orbax) : read_tree_item(orbax);
    store_close(&orbax->store);
    map_free(orbax->text_index);
    return st;
}

static ckpt_status read_items(struct orbax *orbax, ckpt_str folder)
{
    ckpt_str *name;
    size_t n = 0, items = 0;
    char *path = path_make(str_c(orbax->f->folder), folder);
    ckpt_status st = path ? folder_list_all(orbax->f, path, &name, &n, orbax->err) : fail_memory(orbax->err);
    for (size_t i = 0; st == CKPT_OK && i < n; i++) {
        ckpt_str in = ARENA_CONCAT(orbax->f->a, folder, name[i], STR_LIT("/"));
        if (in.ptr && !has(orbax, in, ITEM_METADATA) && !has(orbax, in, JSON_ITEM))
            continue;
        orbax->item = name[i];
        orbax->is_named = true;
        items++;
        st = in.ptr ? read_item(orbax, in) : fail_memory(orbax->err);
    }
    free(path);
    if (st == CKPT_OK && !items)
        return fail(orbax->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                    "a step with {no} {=item that has a " ITEM_METADATA "}");
    return st;
}

/* read_step - reads the step in FOLDER: its items, or an item that stands alone. */
static ckpt_status read_step(struct orbax *orbax, ckpt_str folder)
{
    bool alone = has(orbax, folder, ITEM_METADATA) || !has(orbax, folder, STEP_METADATA);
    return alone ? read_item(orbax, folder) : read_items(orbax, folder);
}

static ckpt_status read_last_step(struct orbax *orbax)
{
    const struct probe *p = orbax->f->opening->probe;
    ckpt_str name;
    size_t n, unfinished = 0, first = 0;
    if (!find_last_step(p, &name, &n))
        return fail(orbax->err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the steps were removed while they were read");
    for (size_t i = p->nnames; COUNT_DOWN(i);)
        if (str_find(p->names[i], STR_LIT(UNFINISHED), 0) != SIZE_MAX) {
            first = i;
            unfinished++;
        }
    if (n > 1)
        file_notice(orbax->f, "the last of %zu steps: %.*s", n, STR_ARG(name));
    if (unfinished)
        file_notice(orbax->f, "%.*s%s: a save that did not finish", STR_ARG(p->names[first]),
                    unfinished > 1 ? " and others" : "");
    ckpt_str folder = ARENA_CONCAT(orbax->f->a, name, STR_LIT("/"));
    return folder.ptr ? read_step(orbax, folder) : fail_memory(orbax->err);
}

/* --------------------------------------------------------------------------- read */

/* check_finished - fails if F, a folder, is a save that did not finish, unless F is salvaged. */
static ckpt_status check_finished(ckpt_file *f, ckpt_error *err)
{
    if (f->salvage || !is_unfinished_save(f->path))
        return CKPT_OK;
    ckpt_status st = fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                          "{a save that did not finish}, by the name of its {=folder}\n"
                          "take an earlier step; `ckpt salvage` writes what is there");
    return file_report_fault(f, st, err);
}

static ckpt_status read_all(struct orbax *orbax)
{
    const struct probe *p = orbax->f->opening->probe;
    bool steps = !is_item(p) && !probe_has(p, STEP_METADATA) && !is_unfinished_save(p->path);
    ckpt_status st = steps ? read_last_step(orbax) : read_step(orbax, STR_LIT(""));
    if (orbax->no_memory || *p->no_memory)
        return fail_memory(orbax->err);
    CKPT_TRY(st);
    ckpt_value *root = value_get(nested_root(&orbax->tree), "");
    CKPT_TRY_ALLOC(root || (root = value_new(orbax->f->a, CKPT_V_DICT, 0)), orbax->err);
    orbax->f->producer = STR_LIT("orbax");
    return zarr_arrays_make_graph(&orbax->arrays, root);
}

static ckpt_status read_folder(ckpt_file *f, ckpt_error *err)
{
    struct orbax orbax = {.f = f, .err = err};
    f->folder = f->path;
    CKPT_TRY(check_finished(f, err));
    ckpt_status st = zarr_arrays_begin(&orbax.arrays, f, err);
    CKPT_THEN(st, nested_begin(&orbax.tree, f->a, 0) ? read_all(&orbax) : fail_memory(err));
    nested_end(&orbax.tree);
    zarr_arrays_end(&orbax.arrays);
    return st;
}

const struct format format_orbax = {.name = "orbax", .title = "Orbax", .probe = probe, .read = read_folder};
