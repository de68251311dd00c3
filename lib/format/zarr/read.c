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
    size_t nattributes, cap;
};

static bool probe_zarr(const struct probe *p)
{
    return probe_has(p, ZARR_V2) || probe_has(p, ZARR_V3) || probe_has(p, ZARR_GROUP_V2);
}
static bool probe_ocdbt(const struct probe *p) { return probe_has(p, OCDBT_MANIFEST); }

static ckpt_status put_node(struct zarr_folder *z, ckpt_str name, ckpt_value *node)
{
    ckpt_value *key = value_str(z->arrays.f->a, name);
    bool done = key && value_put(z->arrays.f->a, z->root, key, node) && map_put(z->names, name, 0, NULL);
    return done ? CKPT_OK : fail_memory(z->arrays.err);
}

static ckpt_status add_keys(struct zarr_folder *z)
{
    for (size_t i = 0; i < z->store.db.n; i++) {
        ckpt_value *node;
        CKPT_TRY(zarr_add_bytes(&z->arrays, &z->store, i, &node));
        CKPT_TRY(put_node(z, z->store.db.entries[i].key, node));
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

static bool has_entry(const struct zarr_folder *z, ckpt_str key)
{
    size_t i = store_find(&z->store, key);
    return i < z->store.db.n && str_eq(z->store.db.entries[i].key, key);
}

static ckpt_status add_array(struct zarr_folder *z, ckpt_str prefix)
{
    ckpt_value *node;
    ckpt_str name = arena_str(z->arrays.f->a, str_of(prefix.ptr, prefix.len - (prefix.len > 0)));
    const struct zarr_source from = {&z->store, prefix, name, MISSING_FILL};
    CKPT_TRY(name.ptr ? CKPT_OK : fail_memory(z->arrays.err));
    CKPT_TRY(zarr_add_array(&z->arrays, &from, &node));
    return put_node(z, from.name, node);
}

/* keep_attributes - keeps the attributes V of the group or array at PREFIX, if V is a dict. */
static ckpt_status keep_attributes(struct zarr_folder *z, ckpt_str prefix, const ckpt_value *v)
{
    arena *a = z->arrays.f->a;
    uint32_t n = 0;
    const value_pair *pairs = v && v->type == CKPT_V_DICT ? value_pairs(v, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key = str_of("", 0);
        (void)value_text(pairs[i].key, &key);
        ckpt_str path = str_of(prefix.ptr, prefix.len - (prefix.len > 0));
        ckpt_str name = ARENA_CONCAT(a, path, STR_LIT("@"), key);
        value_pair kept = {.key = name.ptr ? value_str(a, name) : NULL, .val = pairs[i].val};
        if (!kept.key || !arena_push(a, &z->attributes, &z->nattributes, &z->cap, &kept, sizeof kept))
            return fail_memory(z->arrays.err);
    }
    return CKPT_OK;
}

/* read_object - sets *OUT to the JSON object that is entry I, the file NAME of a node. */
static ckpt_status read_object(struct zarr_folder *z, size_t i, const char *name, ckpt_value **out)
{
    ckpt_str text;
    CKPT_TRY(store_read_text(&z->store, i, &text));
    ckpt_status st = json_read_value(text, 0, z->arrays.f->a, out, z->arrays.err);
    if (st == CKPT_OK && (*out)->type != CKPT_V_DICT)
        st = fail(z->arrays.err, CKPT_EFORMAT, 0, "the JSON is {not an object}; {=an object} was expected");
    return prefix_where_if_failed(st, str_c(name), z->arrays.err);
}

/* read_v3_node - reads entry I, the zarr.json of the group or array at PREFIX. */
static ckpt_status read_v3_node(struct zarr_folder *z, size_t i, ckpt_str prefix)
{
    ckpt_value *json;
    ckpt_str type, both = ARENA_CONCAT(z->arrays.f->a, prefix, STR_LIT(ZARR_V2));
    CKPT_TRY_ALLOC(both.ptr, z->arrays.err);
    if (has_entry(z, both))
        return CKPT_OK;
    CKPT_TRY(read_object(z, i, ZARR_V3, &json));
    if (!value_text(value_get(json, "node_type"), &type) ||
        (!str_is(type, "group") && !str_is(type, "array")))
        return prefix_where_if_failed(
            fail(z->arrays.err, CKPT_EFORMAT, 0, "{no type} of the node; {=group or array} was expected"),
            STR_LIT(ZARR_V3), z->arrays.err);
    CKPT_TRY(keep_attributes(z, prefix, value_get(json, "attributes")));
    return str_is(type, "array") ? add_array(z, prefix) : CKPT_OK;
}

/* read_entry - reads entry I of the store, if it has the metadata of a group or array. */
static ckpt_status read_entry(struct zarr_folder *z, size_t i)
{
    ckpt_str prefix, key = z->store.db.entries[i].key;
    ckpt_value *json;
    if (is_file_of_node(key, ZARR_V2, &prefix))
        return add_array(z, prefix);
    if (is_file_of_node(key, ZARR_V3, &prefix))
        return read_v3_node(z, i, prefix);
    if (!is_file_of_node(key, ZARR_ATTRIBUTES, &prefix))
        return CKPT_OK;
    CKPT_TRY(read_object(z, i, ZARR_ATTRIBUTES, &json));
    return keep_attributes(z, prefix, json);
}

static ckpt_status add_attributes(struct zarr_folder *z)
{
    ckpt_str name;
    for (size_t i = 0; i < z->nattributes; i++) {
        bool is_tensor = value_text(z->attributes[i].key, &name) && map_get(z->names, name) != MAP_NONE;
        if (is_tensor)
            file_notice(z->arrays.f, "\"%.*s\" is a tensor and an attribute: the attribute is left out",
                        STR_ARG(name));
        else if (!value_put(z->arrays.f->a, z->root, z->attributes[i].key, z->attributes[i].val))
            return fail_memory(z->arrays.err);
    }
    return CKPT_OK;
}

static ckpt_status read_group(struct zarr_folder *z)
{
    ckpt_file *f = z->arrays.f;
    z->arrays.lists_unsupported = true;
    for (size_t i = 0; i < z->store.db.n; i++) {
        ckpt_status st = read_entry(z, i);
        if (st != CKPT_OK && store_file_path(&z->store, i))
            error_add_file(z->arrays.err, store_file_path(&z->store, i));
        CKPT_TRY(file_report_lost(f, st, z->store.db.entries[i].key, z->arrays.err));
    }
    if (z->arrays.nunsupported)
        file_notice(f, "%zu array%s cannot be read, such as \"%.*s\": `ckpt ls -l` has the reasons",
                    z->arrays.nunsupported, z->arrays.nunsupported == 1 ? "" : "s",
                    STR_ARG(z->arrays.first_unsupported));
    return add_attributes(z);
}

/* ------------------------------------------------------------------------------- all */

/* is_group - returns true if the folder is a group: by its .zgroup, or its zarr.json. */
static bool is_group(struct zarr_folder *z)
{
    ckpt_error ignored; /* an array's reader reports it */
    ckpt_value *json;
    ckpt_str type, text;
    size_t i = store_find(&z->store, STR_LIT(ZARR_V3));
    if (has_entry(z, STR_LIT(ZARR_V2)))
        return false;
    if (!has_entry(z, STR_LIT(ZARR_V3)))
        return true;
    ckpt_error *err = z->store.err;
    z->store.err = &ignored;
    bool read = store_read_text(&z->store, i, &text) == CKPT_OK &&
                json_read_value(text, 0, z->arrays.f->a, &json, &ignored) == CKPT_OK;
    z->store.err = err;
    return read && json->type == CKPT_V_DICT && value_text(value_get(json, "node_type"), &type) &&
           str_is(type, "group");
}

static ckpt_status read_nodes(struct zarr_folder *z, bool is_ocdbt)
{
    const struct zarr_source all = {&z->store, {"", 0}, {"", 0}, MISSING_FILL};
    CKPT_TRY_ALLOC(z->root && z->names, z->arrays.err);
    CKPT_TRY(store_open(&z->store, is_ocdbt));
    if (is_ocdbt)
        return add_keys(z);
    return is_group(z) ? read_group(z) : zarr_add_array(&z->arrays, &all, &z->root);
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
    if (st == CKPT_OK)
        st = read_nodes(&z, is_ocdbt);
    if (st == CKPT_OK)
        st = zarr_arrays_make_graph(&z.arrays, z.root);
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
