/*
 * read.c - reads folders of Zarr (codec/zarr.c), as zarr-python and TensorStore write them: one array, or a
 * group of arrays and groups; and any OCDBT database (codec/ocdbt.c), of which each value becomes a tensor of
 * bytes.
 *
 *   .zgroup, .zarray   version 2: the folder is a group, an array
 *   .zattrs            its attributes, a JSON object
 *   zarr.json          version 3: node_type group or array, attributes
 *   NAME/…             a member of the group
 *
 * A tensor of a group is called by its path, "a/w"; an attribute is the value "PATH@NAME", as in HDF5. A
 * folder with the metadata of both versions is read as version 2. An array whose dtype or codec is not read
 * is listed without data. Refused: metadata that are not JSON, files outside of the folder.
 */
#include "codec/json_scan.h"
#include "codec/zarr.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/zarr/arrays.h"

#define ZARR_GROUP_V2   ".zgroup"
#define ZARR_ATTRIBUTES ".zattrs"

struct zarr_folder {
    struct zarr_arrays arrays;
    struct store store;
    ckpt_value *root;
    map *names;             /* of the tensors */
    value_pair *attributes; /* added after all tensors */
    size_t nattributes, cap_attributes;
};

static bool probe_zarr(const struct probe *probe)
{
    return probe_has(probe, ZARR_V2) || probe_has(probe, ZARR_V3) || probe_has(probe, ZARR_GROUP_V2);
}
static bool probe_ocdbt(const struct probe *probe) { return probe_has(probe, OCDBT_MANIFEST); }

static ckpt_status put_node(struct zarr_folder *folder, ckpt_str name, ckpt_value *node)
{
    ckpt_value *key = value_str(folder->arrays.f->a, name);
    bool done = key && value_put(folder->arrays.f->a, folder->root, key, node) &&
                map_put(folder->names, name, 0, NULL);
    return done ? CKPT_OK : fail_memory(folder->arrays.err);
}

static ckpt_status add_keys(struct zarr_folder *folder)
{
    for (size_t i = 0; i < folder->store.db.n; i++) {
        ckpt_value *node;
        CKPT_TRY(zarr_add_bytes(&folder->arrays, &folder->store, i, &node));
        CKPT_TRY(put_node(folder, folder->store.db.entries[i].key, node));
    }
    return CKPT_OK;
}

/* ---------------------------------------------------------------------------- groups */

/* is_file_of_node - returns true if KEY is the file NAME of a group or array, and sets *PREFIX to the path of
 * that: empty, or with '/' at its end. */
static bool is_file_of_node(ckpt_str key, const char *name, ckpt_str *prefix)
{
    if (!str_ends(key, str_c(name)))
        return false;
    *prefix = str_of(key.ptr, key.len - strlen(name));
    return !prefix->len || str_ends(*prefix, STR_LIT("/"));
}

static bool has_entry(const struct zarr_folder *folder, ckpt_str key)
{
    size_t i = store_find(&folder->store, key);
    return i < folder->store.db.n && str_eq(folder->store.db.entries[i].key, key);
}

static ckpt_status add_array(struct zarr_folder *folder, ckpt_str prefix)
{
    ckpt_value *node;
    ckpt_str name = arena_str(folder->arrays.f->a, str_of(prefix.ptr, prefix.len - (prefix.len > 0)));
    const struct zarr_source from = {&folder->store, prefix, name, MISSING_FILL};
    CKPT_TRY(name.ptr ? CKPT_OK : fail_memory(folder->arrays.err));
    CKPT_TRY(zarr_add_array(&folder->arrays, &from, &node));
    return put_node(folder, from.name, node);
}

/* keep_attributes - keeps the attributes VALUE of the group or array at PREFIX, if VALUE is a dict. */
static ckpt_status keep_attributes(struct zarr_folder *folder, ckpt_str prefix, const ckpt_value *value)
{
    arena *a = folder->arrays.f->a;
    uint32_t n = 0;
    const value_pair *pairs = value && value->type == CKPT_V_DICT ? value_pairs(value, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key = str_of("", 0);
        (void)value_text(pairs[i].key, &key);
        ckpt_str path = str_of(prefix.ptr, prefix.len - (prefix.len > 0));
        ckpt_str name = ARENA_CONCAT(a, path, STR_LIT("@"), key);
        value_pair kept = {.key = name.ptr ? value_str(a, name) : NULL, .val = pairs[i].val};
        if (!kept.key || !ARENA_PUSH(a, folder, attributes, &kept))
            return fail_memory(folder->arrays.err);
    }
    return CKPT_OK;
}

/* read_object - sets *OUT to the JSON object that is entry INDEX, the file NAME of a node. */
static ckpt_status read_object(struct zarr_folder *folder, size_t index, const char *name, ckpt_value **out)
{
    ckpt_str text;
    CKPT_TRY(store_read_text(&folder->store, index, &text));
    ckpt_status st = json_read_value(text, 0, folder->arrays.f->a, out, folder->arrays.err);
    if (st == CKPT_OK && (*out)->type != CKPT_V_DICT)
        st = fail(folder->arrays.err, CKPT_EFORMAT, 0,
                  "the JSON is {not an object}; {=an object} was expected");
    return prefix_where_if_failed(st, str_c(name), folder->arrays.err);
}

/* read_v3_node - reads entry INDEX, the zarr.json of the group or array at PREFIX. */
static ckpt_status read_v3_node(struct zarr_folder *folder, size_t index, ckpt_str prefix)
{
    ckpt_value *json;
    ckpt_str type, both = ARENA_CONCAT(folder->arrays.f->a, prefix, STR_LIT(ZARR_V2));
    CKPT_TRY_ALLOC(both.ptr, folder->arrays.err);
    if (has_entry(folder, both))
        return CKPT_OK;
    CKPT_TRY(read_object(folder, index, ZARR_V3, &json));
    if (!value_text(value_get(json, "node_type"), &type) ||
        (!str_is(type, "group") && !str_is(type, "array")))
        return prefix_where_if_failed(fail(folder->arrays.err, CKPT_EFORMAT, 0,
                                           "{no type} of the node; {=group or array} was expected"),
                                      STR_LIT(ZARR_V3), folder->arrays.err);
    CKPT_TRY(keep_attributes(folder, prefix, value_get(json, "attributes")));
    return str_is(type, "array") ? add_array(folder, prefix) : CKPT_OK;
}

/* read_entry - reads entry INDEX of the store, if it has the metadata of a group or array. */
static ckpt_status read_entry(struct zarr_folder *folder, size_t index)
{
    ckpt_str prefix, key = folder->store.db.entries[index].key;
    ckpt_value *json;
    if (is_file_of_node(key, ZARR_V2, &prefix))
        return add_array(folder, prefix);
    if (is_file_of_node(key, ZARR_V3, &prefix))
        return read_v3_node(folder, index, prefix);
    if (!is_file_of_node(key, ZARR_ATTRIBUTES, &prefix))
        return CKPT_OK;
    CKPT_TRY(read_object(folder, index, ZARR_ATTRIBUTES, &json));
    return keep_attributes(folder, prefix, json);
}

static ckpt_status add_attributes(struct zarr_folder *folder)
{
    ckpt_str name;
    for (size_t i = 0; i < folder->nattributes; i++) {
        bool is_tensor = value_text(folder->attributes[i].key, &name) &&
                         map_get(folder->names, name) != MAP_NONE;
        if (is_tensor)
            file_notice(folder->arrays.f, "\"%.*s\" is a tensor and an attribute: the attribute is left out",
                        STR_ARG(name));
        else if (!value_put(folder->arrays.f->a, folder->root, folder->attributes[i].key,
                            folder->attributes[i].val))
            return fail_memory(folder->arrays.err);
    }
    return CKPT_OK;
}

static ckpt_status read_group(struct zarr_folder *folder)
{
    ckpt_file *f = folder->arrays.f;
    folder->arrays.lists_unsupported = true;
    for (size_t i = 0; i < folder->store.db.n; i++) {
        ckpt_status st = read_entry(folder, i);
        if (st != CKPT_OK && store_file_path(&folder->store, i))
            error_add_file(folder->arrays.err, store_file_path(&folder->store, i));
        CKPT_TRY(file_report_lost(f, st, folder->store.db.entries[i].key, folder->arrays.err));
    }
    if (folder->arrays.nunsupported)
        file_notice(f, "%zu array%s cannot be read, such as \"%.*s\": `ckpt ls -l` has the reasons",
                    folder->arrays.nunsupported, folder->arrays.nunsupported == 1 ? "" : "s",
                    STR_ARG(folder->arrays.first_unsupported));
    return add_attributes(folder);
}

/* ------------------------------------------------------------------------------- all */

/* is_group - returns true if the folder is a group: by its .zgroup, or its zarr.json. */
static bool is_group(struct zarr_folder *folder)
{
    ckpt_error ignored; /* an array's reader reports it */
    ckpt_value *json;
    ckpt_str type, text;
    size_t i = store_find(&folder->store, STR_LIT(ZARR_V3));
    if (has_entry(folder, STR_LIT(ZARR_V2)))
        return false;
    if (!has_entry(folder, STR_LIT(ZARR_V3)))
        return true;
    ckpt_error *err = folder->store.err;
    folder->store.err = &ignored;
    bool read = store_read_text(&folder->store, i, &text) == CKPT_OK &&
                json_read_value(text, 0, folder->arrays.f->a, &json, &ignored) == CKPT_OK;
    folder->store.err = err;
    return read && json->type == CKPT_V_DICT && value_text(value_get(json, "node_type"), &type) &&
           str_is(type, "group");
}

static ckpt_status read_nodes(struct zarr_folder *folder, bool is_ocdbt)
{
    const struct zarr_source all = {&folder->store, {"", 0}, {"", 0}, MISSING_FILL};
    CKPT_TRY_ALLOC(folder->root && folder->names, folder->arrays.err);
    CKPT_TRY(store_open(&folder->store, is_ocdbt));
    if (is_ocdbt)
        return add_keys(folder);
    return is_group(folder) ? read_group(folder) : zarr_add_array(&folder->arrays, &all, &folder->root);
}

static ckpt_status read_folder(ckpt_file *f, bool is_ocdbt, ckpt_error *err)
{
    struct zarr_folder z = {.store = {.f = f, .err = err, .folder = {"", 0}}};
    f->folder = f->path;
    z.store.trusted = is_ocdbt                                ? OCDBT_MANIFEST
                      : probe_has(f->opening->probe, ZARR_V2) ? ZARR_V2
                      : probe_has(f->opening->probe, ZARR_V3) ? ZARR_V3
                                                              : ZARR_GROUP_V2;
    z.root = value_new(f->a, CKPT_V_DICT, 0);
    z.names = map_new(64);
    ckpt_status st = zarr_arrays_begin(&z.arrays, f, err);
    CKPT_THEN(st, read_nodes(&z, is_ocdbt));
    CKPT_THEN(st, zarr_arrays_make_graph(&z.arrays, z.root));
    store_close(&z.store);
    zarr_arrays_end(&z.arrays);
    map_free(z.names);
    return st;
}

static ckpt_status read_zarr(ckpt_file *f, ckpt_error *err) { return read_folder(f, false, err); }
static ckpt_status read_ocdbt(ckpt_file *f, ckpt_error *err) { return read_folder(f, true, err); }

const struct format format_zarr = {
    .name = "zarr", .title = "Zarr", .flat = true, .probe = probe_zarr, .read = read_zarr};
const struct format format_ocdbt = {
    .name = "ocdbt", .title = "OCDBT database", .probe = probe_ocdbt, .read = read_ocdbt};
