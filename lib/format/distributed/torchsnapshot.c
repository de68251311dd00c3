/*
 * torchsnapshot.c - reads folders of torchsnapshot: a manifest, .snapshot_metadata, and the files that it
 * names.
 *
 *   .snapshot_metadata  JSON: {"version", "world_size", "manifest": {PATH: ENTRY, …}}
 *   PATH                RANK/NAME/KEY/…, in which "%" and "/" of a key are %25 and %2F
 *   ENTRY by its "type"
 *     dict, OrderedDict {"keys": [text or number, …]}: the entry of KEY is PATH/KEY
 *     list              its items are PATH/0, PATH/1, …
 *     Tensor            {"location", "serializer", "dtype", "shape", "byte_range": [begin, end] or null}
 *     ChunkedTensor     {"dtype", "shape", "chunks": [{"offsets", "sizes", "tensor": Tensor}, …]}
 *     ShardedTensor     {"shards": as chunks}; each rank lists its own
 *     object            {"location", "serializer": "torch_save"}
 *     int str bool      {"serialized_value": text}
 *     float bytes       {"serialized_value": base64}, of a float its 8 bytes, little-endian
 *
 * The serializer buffer_protocol is the row-major, little-endian bytes, torch_save a file of torch.save. The
 * graph is that of rank 0, with the shards of all ranks; what only other ranks have is left out, and a notice
 * counts it. Nothing is run: a file of torch.save is described as any other.
 *
 * Refused: a manifest in YAML (before version 0.1), files outside of the folder, other types of entries, a
 * file of another size than its tensor takes, a key without an entry. A tensor of another serializer is
 * listed without data.
 *
 * Source: torchsnapshot 0.1 (manifest.py, flatten.py, io_preparers).
 */
#include <inttypes.h>

#include "base/text.h"
#include "codec/json_scan.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/graph/walk.h"
#include "format/kit.h"
#include "format/parts/part_files.h"
#include "format/parts/part_graph.h"
#include "format/parts/sharded_tensors.h"
#include "format/recognize.h"

#define METADATA     ".snapshot_metadata"
#define MISSING_HINT "put all files of the snapshot into its folder"
#define MAX_DIMS     64u
#define MAX_DEPTH    128u /* of containers */

/* An entry of the manifest. */
struct entry {
    ckpt_str path; /* with the rank */
    const ckpt_value *description;
    ckpt_str type;
    ckpt_value *node; /* NULL: it could not be read, which was reported */
    bool is_linked;   /* a container has it */
};

struct snapshot {
    struct sharded_tensors all; /* must be first, for part_graph_find_storage */
    const char *manifest_path;
    arena *temp; /* for paths of items */
    buf lookup;  /* a path that is looked up */
    struct entry *entries;
    size_t nentries;
    uint64_t nranks; /* at most NENTRIES */
    map *entry_of;   /* path -> index into ENTRIES */
    map *part_of;    /* location -> index into PARTS */
    ckpt_file **parts;
    size_t nparts, cap_parts;
};

/* skip_rank - returns PATH without its first component. */
static ckpt_str skip_rank(ckpt_str path)
{
    size_t slash = str_find(path, STR_LIT("/"), 0);
    return slash == SIZE_MAX ? STR_LIT("") : str_skip(path, slash + 1);
}

/* find_entry - returns the entry of PATH, without a rank, of the first of the ranks from *RANK on that has
 * one, and sets *RANK to that. NULL: none has. */
static struct entry *find_entry(struct snapshot *snapshot, ckpt_str path, uint64_t *rank)
{
    for (; *rank < snapshot->nranks; ++*rank) {
        char number[STR_NUMBER_MAX];
        snapshot->lookup.len = 0;
        buf_put_str(&snapshot->lookup, format_number(*rank, number));
        buf_byte(&snapshot->lookup, '/');
        buf_put_str(&snapshot->lookup, path);
        uint32_t i = buf_ok(&snapshot->lookup) ? map_get(snapshot->entry_of, buf_view(&snapshot->lookup))
                                               : MAP_NONE;
        if (i != MAP_NONE)
            return &snapshot->entries[i];
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------- files */

/* open_part - sets *OUT to the file LOCATION. */
static ckpt_status open_part(struct snapshot *snapshot, ckpt_str location, ckpt_file **out)
{
    ckpt_file *f = snapshot->all.f;
    uint32_t i = map_get(snapshot->part_of, location);
    if (i != MAP_NONE) {
        *out = snapshot->parts[i];
        return CKPT_OK;
    }
    ckpt_status st = part_file_add(f, METADATA, location, out, snapshot->all.err);
    CKPT_TRY(part_file_explain_missing(st, location, MISSING_HINT, snapshot->all.err));
    ckpt_str name = arena_str(f->a, location);
    CKPT_TRY_ALLOC(name.ptr && map_put(snapshot->part_of, name, (uint32_t)snapshot->nparts, NULL) &&
                       ARENA_PUSH(f->a, snapshot, parts, out),
                   snapshot->all.err);
    return CKPT_OK;
}

/* read_object - sets *NODE to the root of the file of torch.save that ENTRY describes; NULL if it is damaged,
 * and that was reported. */
static ckpt_status read_object(struct snapshot *snapshot, const struct entry *entry, ckpt_value **node)
{
    ckpt_str location, serializer;
    ckpt_file *part;
    *node = NULL;
    if (!value_text(value_get(entry->description, "location"), &location) ||
        !value_text(value_get(entry->description, "serializer"), &serializer) ||
        !str_is(serializer, "torch_save"))
        return fail(snapshot->all.err, CKPT_EUNSUPPORTED, value_offset(entry->description),
                    "an object with {no} location and {=serializer torch_save}");
    ckpt_status st = part_file_read_pickle(snapshot->all.f, METADATA, location, &part, snapshot->all.err);
    CKPT_TRY(part_file_explain_missing(st, location, MISSING_HINT, snapshot->all.err));
    return part ? part_graph_take(snapshot->all.f, part, node, snapshot->all.err) : CKPT_OK;
}

/* --------------------------------------------------------------------------------- tensors */

/* read_sizes - sets *OUT to the *COUNT numbers of VALUE, at most MAX_DIMS. */
static ckpt_status read_sizes(struct snapshot *snapshot, const ckpt_value *value, uint64_t **out,
                              uint32_t *count)
{
    *count = value_count(value);
    bool ok = value && value->type == CKPT_V_LIST && *count <= MAX_DIMS;
    if (ok && !(*out = arena_array(snapshot->all.f->a, *count, sizeof **out)))
        return fail_memory(snapshot->all.err);
    for (uint32_t i = 0; ok && i < *count; i++)
        ok = value_size(value_item(value, i), &(*out)[i]);
    return ok ? CKPT_OK
              : fail(snapshot->all.err, CKPT_EFORMAT, value ? value_offset(value) : CKPT_NO_OFFSET,
                     "sizes that are {not} {=a list of up to %u numbers}", MAX_DIMS);
}

/* find_bytes - sets PIECE to the bytes of VALUE, the description of a Tensor, which take NEED bytes. */
static ckpt_status find_bytes(struct snapshot *snapshot, const ckpt_value *value, uint64_t need,
                              struct piece *piece)
{
    ckpt_str location;
    ckpt_file *part;
    const ckpt_value *range = value_get(value, "byte_range");
    uint64_t end = 0;
    if (!value_text(value_get(value, "location"), &location))
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(value), "a tensor with {no} {=location}");
    CKPT_TRY(open_part(snapshot, location, &part));
    piece->src = part->src;
    bool is_range = range && range->type == CKPT_V_LIST && value_size(value_item(range, 0), &piece->at) &&
                    value_size(value_item(range, 1), &end) && piece->at <= end;
    if (range && range->type != CKPT_V_NONE && !is_range)
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(range),
                    "a byte_range that is {not} {=two numbers}");
    uint64_t size = is_range ? end - piece->at : part->src->size;
    if (size == need)
        return CKPT_OK;
    (void)fail(snapshot->all.err, size < need ? CKPT_ETRUNCATED : CKPT_EFORMAT, CKPT_NO_OFFSET,
               "{%" PRIu64 " bytes}; the dtype and shape of its tensor take {=%" PRIu64 "}", size, need);
    return name_file_if_failed(size < need ? CKPT_ETRUNCATED : CKPT_EFORMAT, part->path, snapshot->all.err);
}

/* add_piece - adds the piece of TENSOR that VALUE, a Tensor, describes, at OFFSET of the tensor (NULL: at its
 * beginning). The first piece sets the dtype of TENSOR. */
static ckpt_status add_piece(struct snapshot *snapshot, struct sharded_tensor *tensor, uint64_t *offset,
                             const ckpt_value *value)
{
    arena *a = snapshot->all.f->a;
    struct piece p = {.offset = offset};
    uint64_t *size, elements, need = 0;
    uint32_t n;
    ckpt_str dtype, serializer;
    CKPT_TRY(read_sizes(snapshot, value_get(value, "shape"), &size, &n));
    if (!value_text(value_get(value, "dtype"), &dtype) ||
        !value_text(value_get(value, "serializer"), &serializer))
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(value),
                    "a tensor with {no} {=dtype and serializer}");
    ckpt_dtype found = dtype_by_name(dtype);
    if (tensor->npieces && (tensor->joined.dtype != found || tensor->joined.ndim != n))
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(value),
                    "{another} dtype or number of dimensions than {=that of the piece before it}");
    tensor->joined.dtype = found;
    tensor->joined.ndim = n;
    p.size = size;
    if (found == CKPT_DT_NONE || !str_is(serializer, "buffer_protocol"))
        return fail(snapshot->all.err, CKPT_EUNSUPPORTED, value_offset(value),
                    "{%.*s by %.*s}; {=dtypes of torch by buffer_protocol} are read", STR_ARG(dtype),
                    STR_ARG(serializer));
    if (!offset && !(p.offset = arena_array(a, n, sizeof *p.offset)))
        return fail_memory(snapshot->all.err);
    if (!checked_product(size, n, &elements) || !dtype_bytes(found, elements, &need))
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(value),
                    "a shape of {more} bytes than {=2^64}");
    CKPT_TRY(find_bytes(snapshot, value, need, &p));
    return arena_push(a, &tensor->pieces, &tensor->npieces, &tensor->cap, &p, sizeof p)
               ? CKPT_OK
               : fail_memory(snapshot->all.err);
}

/* add_pieces - adds to SHARDED_TENSOR the pieces in LIST, the chunks or shards of a tensor. */
static ckpt_status add_pieces(struct snapshot *snapshot, struct sharded_tensor *sharded_tensor,
                              const ckpt_value *list)
{
    for (uint32_t i = 0; i < value_count(list); i++) {
        const ckpt_value *v = value_item(list, i), *tensor = value_get(v, "tensor");
        uint64_t *offset, *size;
        uint32_t n, nsizes;
        CKPT_TRY(read_sizes(snapshot, value_get(v, "offsets"), &offset, &n));
        CKPT_TRY(read_sizes(snapshot, value_get(tensor, "shape"), &size, &nsizes));
        if (n != nsizes)
            return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(v),
                        "{%" PRIu32 "} offsets of {=%" PRIu32 " dimensions}", n, nsizes);
        CKPT_TRY(add_piece(snapshot, sharded_tensor, offset, tensor));
    }
    return CKPT_OK;
}

/* add_shards - adds to TENSOR the shards that all ranks list for PATH, which has no rank. */
static ckpt_status add_shards(struct snapshot *snapshot, struct sharded_tensor *tensor, ckpt_str path)
{
    const struct entry *e;
    for (uint64_t rank = 0; (e = find_entry(snapshot, path, &rank)); rank++)
        if (str_is(e->type, "ShardedTensor"))
            CKPT_TRY(add_pieces(snapshot, tensor, value_get(e->description, "shards")));
    return CKPT_OK;
}

static ckpt_status describe_tensor(struct snapshot *snapshot, const struct entry *entry,
                                   struct sharded_tensor *tensor)
{
    if (str_is(entry->type, "Tensor")) {
        uint64_t *shape;
        uint32_t n;
        CKPT_TRY(read_sizes(snapshot, value_get(entry->description, "shape"), &shape, &n));
        tensor->joined.shape = shape;
        return add_piece(snapshot, tensor, NULL, entry->description);
    }
    if (str_is(entry->type, "ShardedTensor"))
        return add_shards(snapshot, tensor, skip_rank(entry->path));
    uint64_t *shape;
    uint32_t n;
    CKPT_TRY(read_sizes(snapshot, value_get(entry->description, "shape"), &shape, &n));
    CKPT_TRY(add_pieces(snapshot, tensor, value_get(entry->description, "chunks")));
    if (tensor->npieces && n != tensor->joined.ndim)
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(entry->description),
                    "chunks of {other} dimensions than {=the shape}");
    tensor->joined.shape = shape;
    return CKPT_OK;
}

/* add_tensor - sets *NODE to a node that stands for the tensor of ENTRY. */
static ckpt_status add_tensor(struct snapshot *snapshot, const struct entry *entry, ckpt_value **node)
{
    struct sharded_tensors *all = &snapshot->all;
    struct sharded_tensor *t = arena_append(all->f->a, &all->tensors, &all->ntensors, &all->cap, sizeof *t);
    *node = t ? value_new(all->f->a, CKPT_V_TENSOR, all->ntensors - 1) : NULL;
    ckpt_str name = arena_str(all->f->a, skip_rank(entry->path));
    CKPT_TRY_ALLOC(*node && name.ptr, all->err);
    *t = (struct sharded_tensor){.joined = {.name = name, .storage = CKPT_NO_STORAGE}};
    ckpt_status st = describe_tensor(snapshot, entry, t);
    if (st == CKPT_OK)
        return sharded_tensor_store(all, t);
    if (st == CKPT_EUNSUPPORTED && t->joined.dtype != CKPT_DT_NONE) {
        file_notice(all->f, "\"%.*s\" is listed without data: %s", STR_ARG(name), all->err->what);
        return CKPT_OK;
    }
    if (!all->err->file[0])
        error_add_position(all->err, value_offset(entry->description), name);
    error_add_file(all->err, snapshot->manifest_path);
    return sharded_storage_accept_fault(all->f, name, t->joined.dtype, st, &t->joined.storage, all->err);
}

/* ---------------------------------------------------------------------------------- values */

/* make_bytes - sets *OUT to the bytes of TEXT, base64. */
static ckpt_status make_bytes(struct snapshot *snapshot, ckpt_str text, ckpt_str *out)
{
    size_t n;
    unsigned char *bytes = arena_alloc(snapshot->all.f->a, text.len + 1);
    CKPT_TRY_ALLOC(bytes, snapshot->all.err);
    if (!text_decode_base64(text, true, bytes, &n))
        return fail(snapshot->all.err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value that is {not} {=base64}");
    *out = str_of((const char *)bytes, n);
    return CKPT_OK;
}

/* make_value - sets *NODE to the int, str, bool, float or bytes that ENTRY describes. */
static ckpt_status make_value(struct snapshot *snapshot, const struct entry *entry, ckpt_value **node)
{
    arena *a = snapshot->all.f->a;
    ckpt_str text, bytes;
    uint64_t at = value_offset(entry->description);
    if (!value_text(value_get(entry->description, "serialized_value"), &text))
        return fail(snapshot->all.err, CKPT_EFORMAT, at, "{no} {=serialized_value}");
    if (str_is(entry->type, "int"))
        return json_read_value(text, at, a, node, snapshot->all.err);
    if (str_is(entry->type, "str"))
        *node = value_str(a, text);
    else if (str_is(entry->type, "bool"))
        *node = value_bool(a, str_is(text, "True"));
    if (str_is(entry->type, "str") || str_is(entry->type, "bool"))
        return *node ? CKPT_OK : fail_memory(snapshot->all.err);
    CKPT_TRY(make_bytes(snapshot, text, &bytes));
    if (str_is(entry->type, "float") && bytes.len != 8)
        return fail(snapshot->all.err, CKPT_EFORMAT, at, "a float of {%zu bytes}, {=8} were expected",
                    bytes.len);
    *node = str_is(entry->type, "float")
                ? value_number(a, CKPT_DT_F64, load_u64le((const unsigned char *)bytes.ptr))
                : value_new(a, CKPT_V_BYTES, 0);
    if (*node && str_is(entry->type, "bytes"))
        (*node)->u.str = bytes;
    return *node ? CKPT_OK : fail_memory(snapshot->all.err);
}

/* ----------------------------------------------------------------------------------- graph */

/* make_node - sets entry->node. It is NULL after a fault that was reported. */
static ckpt_status make_node(struct snapshot *snapshot, struct entry *entry)
{
    arena *a = snapshot->all.f->a;
    ckpt_str serializer = str_of("", 0);
    bool is_list = str_is(entry->type, "list"), is_ordered = str_is(entry->type, "OrderedDict");
    if (is_list || is_ordered || str_is(entry->type, "dict")) {
        entry->node = is_ordered ? value_ordered_dict(a)
                                 : value_new(a, is_list ? CKPT_V_LIST : CKPT_V_DICT, 0);
        return entry->node ? CKPT_OK : fail_memory(snapshot->all.err);
    }
    (void)value_text(value_get(entry->description, "serializer"), &serializer);
    if (str_is(entry->type, "object") || str_is(serializer, "torch_save"))
        return read_object(snapshot, entry, &entry->node);
    if (str_matches_word(entry->type, "Tensor ChunkedTensor ShardedTensor", str_eq))
        return add_tensor(snapshot, entry, &entry->node);
    if (str_matches_word(entry->type, "int str bool float bytes", str_eq))
        return make_value(snapshot, entry, &entry->node);
    return fail(snapshot->all.err, CKPT_EUNSUPPORTED, value_offset(entry->description),
                "an entry of type {\"%.*s\"}; {=those of 0.1} are read", STR_ARG(entry->type));
}

/* link_child - adds CHILD to CONTAINER under KEY, a text or number; to a list, at its end. */
static ckpt_status link_child(struct snapshot *snapshot, ckpt_value *container, ckpt_value *key,
                              struct entry *child)
{
    arena *a = snapshot->all.f->a;
    if (child->is_linked)
        return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(child->description),
                    "\"%.*s\" is listed {twice}, {=once} is allowed", STR_ARG(child->path));
    child->is_linked = true;
    if (!child->node)
        return CKPT_OK;
    bool ok = container->type == CKPT_V_LIST ? value_append(a, container, child->node)
                                             : key && value_put(a, container, key, child->node);
    return ok ? CKPT_OK : fail_memory(snapshot->all.err);
}

/* encode_key - returns KEY, a text or number, as a component of a path, in A. .ptr NULL: no memory, or KEY is
 * neither. */
static ckpt_str encode_key(arena *a, const ckpt_value *key)
{
    ckpt_str text, encoded = str_of(NULL, 0);
    int64_t number;
    buf b;
    if (value_integer(key, &number))
        return arena_printf(a, "%" PRId64, number);
    if (!value_text(key, &text))
        return encoded;
    buf_init(&b, SIZE_MAX); /* 3 bytes for each of KEY, which is in memory */
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%' || c == '/')
            buf_put_cstr(&b, c == '%' ? "%25" : "%2F");
        else
            buf_put(&b, &c, 1);
    }
    if (buf_ok(&b))
        encoded = arena_str(a, buf_view(&b));
    buf_free(&b);
    return encoded;
}

/* link_item - links the entry of COMPONENT of the container ENTRY under KEY. *FOUND: there is such an
 * entry. */
static ckpt_status link_item(struct snapshot *snapshot, struct entry *entry, ckpt_str component,
                             ckpt_value *key, bool *found)
{
    uint64_t rank = 0;
    ckpt_str path = ARENA_CONCAT(snapshot->temp, skip_rank(entry->path), STR_LIT("/"), component);
    struct entry *child = path.ptr ? find_entry(snapshot, path, &rank) : NULL;
    *found = child != NULL;
    CKPT_TRY_ALLOC(path.ptr, snapshot->all.err);
    if (!child)
        return CKPT_OK;
    if (rank > 0 && !child->node)
        CKPT_TRY(make_node(snapshot, child));
    return link_child(snapshot, entry->node, key, child);
}

static ckpt_status link_items(struct snapshot *snapshot, struct entry *entry)
{
    const ckpt_value *keys = value_get(entry->description, "keys");
    bool is_list = entry->node->type == CKPT_V_LIST, found = true;
    for (uint32_t i = 0; found && (is_list || i < value_count(keys)); i++) {
        char number[STR_NUMBER_MAX];
        ckpt_value *key = is_list ? NULL : value_item(keys, i);
        ckpt_str component = is_list ? format_number(i, number) : encode_key(snapshot->temp, key);
        CKPT_TRY_ALLOC(component.ptr, snapshot->all.err);
        CKPT_TRY(link_item(snapshot, entry, component, key, &found));
        if (found || is_list)
            continue;
        (void)fail(snapshot->all.err, CKPT_EFORMAT, value_offset(entry->description),
                   "{no entry} of {=the key \"%.*s\"}", STR_ARG(component));
        error_add_file(snapshot->all.err, snapshot->manifest_path);
        CKPT_TRY(file_report_lost(snapshot->all.f, CKPT_EFORMAT, component, snapshot->all.err));
        found = true;
    }
    return CKPT_OK;
}

static bool is_container(const struct entry *entry)
{
    return str_matches_word(entry->type, "list dict OrderedDict", str_eq);
}
static bool is_of_rank_0(const struct entry *entry) { return str_starts(entry->path, STR_LIT("0/")); }

/* decode_name - returns the component NAME as the key that it stands for. .ptr NULL: no memory. */
static ckpt_str decode_name(arena *a, ckpt_str name)
{
    char *out = arena_alloc(a, name.len + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < name.len; n++) {
        bool is_slash = str_starts(str_skip(name, i), STR_LIT("%2F")),
             is_percent = str_starts(str_skip(name, i), STR_LIT("%25"));
        out[n] = is_slash ? '/' : name.ptr[i];
        i += is_slash || is_percent ? 3 : 1;
    }
    return str_of(out, n);
}

/* link_all - adds to ROOT the entries without a container, and then to each container its items. */
static ckpt_status link_all(struct snapshot *snapshot, ckpt_value *root)
{
    for (size_t i = 0; i < snapshot->nentries; i++) {
        struct entry *e = &snapshot->entries[i];
        ckpt_str path = skip_rank(e->path), name;
        if (!is_of_rank_0(e) || str_find(path, STR_LIT("/"), 0) != SIZE_MAX)
            continue;
        CKPT_TRY_ALLOC((name = decode_name(snapshot->all.f->a, path)).ptr, snapshot->all.err);
        CKPT_TRY(link_child(snapshot, root, value_str(snapshot->all.f->a, name), e));
    }
    for (size_t i = 0; i < snapshot->nentries; i++)
        if (is_of_rank_0(&snapshot->entries[i]) && is_container(&snapshot->entries[i]))
            CKPT_TRY(link_items(snapshot, &snapshot->entries[i]));
    return CKPT_OK;
}

/* check_linked - refuses entries of rank 0 that no container lists, and counts what only other ranks have. */
static ckpt_status check_linked(struct snapshot *snapshot)
{
    size_t left_out = 0;
    for (size_t i = 0; i < snapshot->nentries; i++) {
        const struct entry *e = &snapshot->entries[i];
        const ckpt_value *replicated = value_get(e->description, "replicated");
        bool is_replica = replicated && replicated->type == CKPT_V_BOOL && replicated->u.b;
        if (e->is_linked)
            continue;
        if (is_of_rank_0(e))
            return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "\"%.*s\" is in {no} {=container}", STR_ARG(e->path));
        left_out += !is_container(e) && !is_replica && !str_is(e->type, "ShardedTensor");
    }
    if (left_out)
        file_notice(snapshot->all.f, "%zu value%s that only other ranks than 0 have %s left out", left_out,
                    left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
    snapshot->all.f->leaves_out = snapshot->all.f->leaves_out || left_out;
    return CKPT_OK;
}

/* -------------------------------------------------------------------------------- manifest */

/* index_entries - fills snapshot->entries from MANIFEST. */
static ckpt_status index_entries(struct snapshot *snapshot, const ckpt_value *manifest)
{
    uint32_t n = 0, before;
    const value_pair *pairs = value_pairs(manifest, &n);
    CKPT_TRY_ALLOC(snapshot->entries = arena_array(snapshot->all.f->a, n, sizeof *snapshot->entries),
                   snapshot->all.err);
    for (; snapshot->nentries < n; snapshot->nentries++) {
        struct entry *e = &snapshot->entries[snapshot->nentries];
        *e = (struct entry){.description = pairs[snapshot->nentries].val};
        if (!value_text(pairs[snapshot->nentries].key, &e->path) ||
            !value_text(value_get(e->description, "type"), &e->type) ||
            str_find(e->path, STR_LIT("/"), 0) == SIZE_MAX)
            return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "an entry with {no} {=rank and type}");
        CKPT_TRY_ALLOC(map_put(snapshot->entry_of, e->path, (uint32_t)snapshot->nentries, &before),
                       snapshot->all.err);
        if (before != MAP_NONE)
            return fail(snapshot->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "\"%.*s\" comes {twice}, {=once} is allowed", STR_ARG(e->path));
    }
    return CKPT_OK;
}

static ckpt_status read_manifest(struct snapshot *snapshot, ckpt_value **manifest)
{
    ckpt_file *f = snapshot->all.f, *part;
    ckpt_str text;
    ckpt_value *json;
    CKPT_TRY(part_file_add(f, METADATA, STR_LIT(METADATA), &part, snapshot->all.err));
    snapshot->manifest_path = part->path;
    ckpt_status st = kit_read_metadata(f, part->src, 0, part->src->size, &text, snapshot->all.err);
    if (st == CKPT_OK && !str_starts(recognize_skip_space(text), STR_LIT("{")))
        st = fail(snapshot->all.err, CKPT_EUNSUPPORTED, 0,
                  "a manifest that is {no JSON}, as versions before {=0.1} wrote it\n"
                  "restore the snapshot with torchsnapshot and take it again");
    CKPT_THEN(st, json_read_value(text, 0, f->a, &json, snapshot->all.err));
    if (st == CKPT_OK && !((*manifest = value_get(json, "manifest")) && (*manifest)->type == CKPT_V_DICT &&
                           value_size(value_get(json, "world_size"), &snapshot->nranks)))
        st = fail(snapshot->all.err, CKPT_EFORMAT, 0, "{no} {=manifest and world_size}");
    return st;
}

static ckpt_status read_entries(struct snapshot *snapshot)
{
    ckpt_file *f = snapshot->all.f;
    struct graph_input input = {
        .user = snapshot, .describe_node = sharded_tensors_describe, .find_storage = part_graph_find_storage};
    ckpt_value *manifest = NULL, *root = value_new(f->a, CKPT_V_DICT, 0);
    CKPT_TRY(read_manifest(snapshot, &manifest));
    f->ranks.ranks = snapshot->nranks;
    CKPT_TRY(index_entries(snapshot, manifest));
    snapshot->nranks = snapshot->nranks < snapshot->nentries
                           ? snapshot->nranks
                           : snapshot->nentries; /* a rank without an entry changes nothing */
    for (size_t i = 0; i < snapshot->nentries; i++)
        if (is_of_rank_0(&snapshot->entries[i]))
            CKPT_TRY(make_node(snapshot, &snapshot->entries[i]));
    CKPT_TRY_ALLOC(root, snapshot->all.err);
    CKPT_TRY(link_all(snapshot, root));
    CKPT_TRY(check_linked(snapshot));
    f->root = root;
    return graph_walk(f, root, &input, snapshot->all.err);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct snapshot s = {.nentries = 0};
    f->folder = f->path;
    f->producer = STR_LIT("torchsnapshot");
    ckpt_status st = sharded_tensors_begin(&s.all, f, err);
    s.temp = arena_new(UINT64_MAX);
    buf_init(&s.lookup, SIZE_MAX);
    s.entry_of = map_new(64);
    s.part_of = map_new(64);
    CKPT_THEN(st, s.temp && s.entry_of && s.part_of ? read_entries(&s) : fail_memory(err));
    if (s.manifest_path)
        st = name_file_if_failed(st, s.manifest_path, err);
    if (st != CKPT_OK)
        error_add_position(err, CKPT_NO_OFFSET, STR_LIT("manifest"));
    map_free(s.part_of);
    map_free(s.entry_of);
    arena_free(s.temp);
    buf_free(&s.lookup);
    sharded_tensors_end(&s.all);
    return st;
}

static bool probe(const struct probe *this_probe)
{
    return this_probe->is_folder && probe_has(this_probe, METADATA);
}

const struct format format_torchsnapshot = {
    .name = "torchsnapshot", .title = "torchsnapshot snapshot", .probe = probe, .read = read};
