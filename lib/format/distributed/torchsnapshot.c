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
#include <stdio.h>

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
static struct entry *find_entry(struct snapshot *s, ckpt_str path, uint64_t *rank)
{
    for (; *rank < s->nranks; ++*rank) {
        char number[STR_NUMBER_MAX];
        s->lookup.len = 0;
        buf_put_str(&s->lookup, format_number(*rank, number));
        buf_byte(&s->lookup, '/');
        buf_put_str(&s->lookup, path);
        uint32_t i = buf_ok(&s->lookup) ? map_get(s->entry_of, buf_view(&s->lookup)) : MAP_NONE;
        if (i != MAP_NONE)
            return &s->entries[i];
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------- files */

/* open_part - sets *OUT to the file LOCATION. */
static ckpt_status open_part(struct snapshot *s, ckpt_str location, ckpt_file **out)
{
    ckpt_file *f = s->all.f;
    uint32_t i = map_get(s->part_of, location);
    if (i != MAP_NONE) {
        *out = s->parts[i];
        return CKPT_OK;
    }
    ckpt_status st = part_file_add(f, METADATA, location, out, s->all.err);
    CKPT_TRY(part_file_explain_missing(st, location, MISSING_HINT, s->all.err));
    ckpt_str name = arena_str(f->a, location);
    CKPT_TRY_ALLOC(name.ptr && map_put(s->part_of, name, (uint32_t)s->nparts, NULL) &&
                       ARENA_PUSH(f->a, s, parts, out),
                   s->all.err);
    return CKPT_OK;
}

/* read_object - sets *NODE to the root of the file of torch.save that E describes; NULL if it is damaged, and
 * that was reported. */
static ckpt_status read_object(struct snapshot *s, const struct entry *e, ckpt_value **node)
{
    ckpt_str location, serializer;
    ckpt_file *part;
    *node = NULL;
    if (!value_text(value_get(e->description, "location"), &location) ||
        !value_text(value_get(e->description, "serializer"), &serializer) ||
        !str_is(serializer, "torch_save"))
        return fail(s->all.err, CKPT_EUNSUPPORTED, value_offset(e->description),
                    "an object with {no} location and {=serializer torch_save}");
    ckpt_status st = part_file_read_pickle(s->all.f, METADATA, location, &part, s->all.err);
    CKPT_TRY(part_file_explain_missing(st, location, MISSING_HINT, s->all.err));
    return part ? part_graph_take(s->all.f, part, node, s->all.err) : CKPT_OK;
}

/* --------------------------------------------------------------------------------- tensors */

/* read_sizes - sets *OUT to the *N numbers of V, at most MAX_DIMS. */
static ckpt_status read_sizes(struct snapshot *s, const ckpt_value *v, uint64_t **out, uint32_t *n)
{
    *n = value_count(v);
    bool ok = v && v->type == CKPT_V_LIST && *n <= MAX_DIMS;
    if (ok && !(*out = arena_array(s->all.f->a, *n, sizeof **out)))
        return fail_memory(s->all.err);
    for (uint32_t i = 0; ok && i < *n; i++)
        ok = value_size(value_item(v, i), &(*out)[i]);
    return ok ? CKPT_OK
              : fail(s->all.err, CKPT_EFORMAT, v ? value_offset(v) : CKPT_NO_OFFSET,
                     "sizes that are {not} {=a list of up to %u numbers}", MAX_DIMS);
}

/* find_bytes - sets P to the bytes of V, the description of a Tensor, which take NEED bytes. */
static ckpt_status find_bytes(struct snapshot *s, const ckpt_value *v, uint64_t need, struct piece *p)
{
    ckpt_str location;
    ckpt_file *part;
    const ckpt_value *range = value_get(v, "byte_range");
    uint64_t end = 0;
    if (!value_text(value_get(v, "location"), &location))
        return fail(s->all.err, CKPT_EFORMAT, value_offset(v), "a tensor with {no} {=location}");
    CKPT_TRY(open_part(s, location, &part));
    p->src = part->src;
    bool is_range = range && range->type == CKPT_V_LIST && value_size(value_item(range, 0), &p->at) &&
                    value_size(value_item(range, 1), &end) && p->at <= end;
    if (range && range->type != CKPT_V_NONE && !is_range)
        return fail(s->all.err, CKPT_EFORMAT, value_offset(range),
                    "a byte_range that is {not} {=two numbers}");
    uint64_t size = is_range ? end - p->at : part->src->size;
    if (size == need)
        return CKPT_OK;
    (void)fail(s->all.err, size < need ? CKPT_ETRUNCATED : CKPT_EFORMAT, CKPT_NO_OFFSET,
               "{%" PRIu64 " bytes}; the dtype and shape of its tensor take {=%" PRIu64 "}", size, need);
    return name_file_if_failed(size < need ? CKPT_ETRUNCATED : CKPT_EFORMAT, part->path, s->all.err);
}

/* add_piece - adds the piece of T that V, a Tensor, describes, at OFFSET of the tensor (NULL: at its
 * beginning). The first piece sets the dtype of T. */
static ckpt_status add_piece(struct snapshot *s, struct sharded_tensor *t, uint64_t *offset,
                             const ckpt_value *v)
{
    arena *a = s->all.f->a;
    struct piece p = {.offset = offset};
    uint64_t *size, elements, need = 0;
    uint32_t n;
    ckpt_str dtype, serializer;
    CKPT_TRY(read_sizes(s, value_get(v, "shape"), &size, &n));
    if (!value_text(value_get(v, "dtype"), &dtype) || !value_text(value_get(v, "serializer"), &serializer))
        return fail(s->all.err, CKPT_EFORMAT, value_offset(v), "a tensor with {no} {=dtype and serializer}");
    ckpt_dtype found = dtype_by_name(dtype);
    if (t->npieces && (t->joined.dtype != found || t->joined.ndim != n))
        return fail(s->all.err, CKPT_EFORMAT, value_offset(v),
                    "{another} dtype or number of dimensions than {=that of the piece before it}");
    t->joined.dtype = found;
    t->joined.ndim = n;
    p.size = size;
    if (found == CKPT_DT_NONE || !str_is(serializer, "buffer_protocol"))
        return fail(s->all.err, CKPT_EUNSUPPORTED, value_offset(v),
                    "{%.*s by %.*s}; {=dtypes of torch by buffer_protocol} are read", STR_ARG(dtype),
                    STR_ARG(serializer));
    if (!offset && !(p.offset = arena_array(a, n, sizeof *p.offset)))
        return fail_memory(s->all.err);
    if (!checked_product(size, n, &elements) || !dtype_bytes(found, elements, &need))
        return fail(s->all.err, CKPT_EFORMAT, value_offset(v), "a shape of {more} bytes than {=2^64}");
    CKPT_TRY(find_bytes(s, v, need, &p));
    return arena_push(a, &t->pieces, &t->npieces, &t->cap, &p, sizeof p) ? CKPT_OK : fail_memory(s->all.err);
}

/* add_pieces - adds to T the pieces in LIST, the chunks or shards of a tensor. */
static ckpt_status add_pieces(struct snapshot *s, struct sharded_tensor *t, const ckpt_value *list)
{
    for (uint32_t i = 0; i < value_count(list); i++) {
        const ckpt_value *v = value_item(list, i), *tensor = value_get(v, "tensor");
        uint64_t *offset, *size;
        uint32_t n, nsizes;
        CKPT_TRY(read_sizes(s, value_get(v, "offsets"), &offset, &n));
        CKPT_TRY(read_sizes(s, value_get(tensor, "shape"), &size, &nsizes));
        if (n != nsizes)
            return fail(s->all.err, CKPT_EFORMAT, value_offset(v),
                        "{%" PRIu32 "} offsets of {=%" PRIu32 " dimensions}", n, nsizes);
        CKPT_TRY(add_piece(s, t, offset, tensor));
    }
    return CKPT_OK;
}

/* add_shards - adds to T the shards that all ranks list for PATH, which has no rank. */
static ckpt_status add_shards(struct snapshot *s, struct sharded_tensor *t, ckpt_str path)
{
    const struct entry *e;
    for (uint64_t rank = 0; (e = find_entry(s, path, &rank)); rank++)
        if (str_is(e->type, "ShardedTensor"))
            CKPT_TRY(add_pieces(s, t, value_get(e->description, "shards")));
    return CKPT_OK;
}

static ckpt_status describe_tensor(struct snapshot *s, const struct entry *e, struct sharded_tensor *t)
{
    if (str_is(e->type, "Tensor")) {
        uint64_t *shape;
        uint32_t n;
        CKPT_TRY(read_sizes(s, value_get(e->description, "shape"), &shape, &n));
        t->joined.shape = shape;
        return add_piece(s, t, NULL, e->description);
    }
    if (str_is(e->type, "ShardedTensor"))
        return add_shards(s, t, skip_rank(e->path));
    uint64_t *shape;
    uint32_t n;
    CKPT_TRY(read_sizes(s, value_get(e->description, "shape"), &shape, &n));
    CKPT_TRY(add_pieces(s, t, value_get(e->description, "chunks")));
    if (t->npieces && n != t->joined.ndim)
        return fail(s->all.err, CKPT_EFORMAT, value_offset(e->description),
                    "chunks of {other} dimensions than {=the shape}");
    t->joined.shape = shape;
    return CKPT_OK;
}

/* add_tensor - sets *NODE to a node that stands for the tensor of E. */
static ckpt_status add_tensor(struct snapshot *s, const struct entry *e, ckpt_value **node)
{
    struct sharded_tensors *all = &s->all;
    struct sharded_tensor *t = arena_append(all->f->a, &all->tensors, &all->ntensors, &all->cap, sizeof *t);
    *node = t ? value_new(all->f->a, CKPT_V_TENSOR, all->ntensors - 1) : NULL;
    ckpt_str name = arena_str(all->f->a, skip_rank(e->path));
    if (!*node || !name.ptr)
        return fail_memory(all->err);
    *t = (struct sharded_tensor){.joined = {.name = name, .storage = CKPT_NO_STORAGE}};
    ckpt_status st = describe_tensor(s, e, t);
    if (st == CKPT_OK)
        return sharded_tensor_store(all, t);
    if (st == CKPT_EUNSUPPORTED && t->joined.dtype != CKPT_DT_NONE) {
        file_notice(all->f, "\"%.*s\" is listed without data: %s", STR_ARG(name), all->err->what);
        return CKPT_OK;
    }
    if (!all->err->file[0])
        error_add_position(all->err, value_offset(e->description), name);
    error_add_file(all->err, s->manifest_path);
    return sharded_storage_accept_fault(all->f, name, t->joined.dtype, st, &t->joined.storage, all->err);
}

/* ---------------------------------------------------------------------------------- values */

/* make_bytes - sets *OUT to the bytes of TEXT, base64. */
static ckpt_status make_bytes(struct snapshot *s, ckpt_str text, ckpt_str *out)
{
    size_t n;
    unsigned char *bytes = arena_alloc(s->all.f->a, text.len + 1);
    CKPT_TRY_ALLOC(bytes, s->all.err);
    if (!text_decode_base64(text, true, bytes, &n))
        return fail(s->all.err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a value that is {not} {=base64}");
    *out = str_of((const char *)bytes, n);
    return CKPT_OK;
}

/* make_value - sets *NODE to the int, str, bool, float or bytes that E describes. */
static ckpt_status make_value(struct snapshot *s, const struct entry *e, ckpt_value **node)
{
    arena *a = s->all.f->a;
    ckpt_str text, bytes;
    uint64_t at = value_offset(e->description);
    if (!value_text(value_get(e->description, "serialized_value"), &text))
        return fail(s->all.err, CKPT_EFORMAT, at, "{no} {=serialized_value}");
    if (str_is(e->type, "int"))
        return json_read_value(text, at, a, node, s->all.err);
    if (str_is(e->type, "str"))
        *node = value_str(a, text);
    else if (str_is(e->type, "bool"))
        *node = value_bool(a, str_is(text, "True"));
    if (str_is(e->type, "str") || str_is(e->type, "bool"))
        return *node ? CKPT_OK : fail_memory(s->all.err);
    CKPT_TRY(make_bytes(s, text, &bytes));
    if (str_is(e->type, "float") && bytes.len != 8)
        return fail(s->all.err, CKPT_EFORMAT, at, "a float of {%zu bytes}, {=8} were expected", bytes.len);
    *node = str_is(e->type, "float")
                ? value_number(a, CKPT_DT_F64, load_u64le((const unsigned char *)bytes.ptr))
                : value_new(a, CKPT_V_BYTES, 0);
    if (*node && str_is(e->type, "bytes"))
        (*node)->u.str = bytes;
    return *node ? CKPT_OK : fail_memory(s->all.err);
}

/* ----------------------------------------------------------------------------------- graph */

/* make_node - sets e->node. It is NULL after a fault that was reported. */
static ckpt_status make_node(struct snapshot *s, struct entry *e)
{
    arena *a = s->all.f->a;
    ckpt_str serializer = str_of("", 0);
    bool is_list = str_is(e->type, "list"), is_ordered = str_is(e->type, "OrderedDict");
    if (is_list || is_ordered || str_is(e->type, "dict")) {
        e->node = is_ordered ? value_ordered_dict(a) : value_new(a, is_list ? CKPT_V_LIST : CKPT_V_DICT, 0);
        return e->node ? CKPT_OK : fail_memory(s->all.err);
    }
    (void)value_text(value_get(e->description, "serializer"), &serializer);
    if (str_is(e->type, "object") || str_is(serializer, "torch_save"))
        return read_object(s, e, &e->node);
    if (str_matches_word(e->type, "Tensor ChunkedTensor ShardedTensor", str_eq))
        return add_tensor(s, e, &e->node);
    if (str_matches_word(e->type, "int str bool float bytes", str_eq))
        return make_value(s, e, &e->node);
    return fail(s->all.err, CKPT_EUNSUPPORTED, value_offset(e->description),
                "an entry of type {\"%.*s\"}; {=those of 0.1} are read", STR_ARG(e->type));
}

/* link_child - adds CHILD to CONTAINER under KEY, a text or number; to a list, at its end. */
static ckpt_status link_child(struct snapshot *s, ckpt_value *container, ckpt_value *key, struct entry *child)
{
    arena *a = s->all.f->a;
    if (child->is_linked)
        return fail(s->all.err, CKPT_EFORMAT, value_offset(child->description),
                    "\"%.*s\" is listed {twice}, {=once} is allowed", STR_ARG(child->path));
    child->is_linked = true;
    if (!child->node)
        return CKPT_OK;
    bool ok = container->type == CKPT_V_LIST ? value_append(a, container, child->node)
                                             : key && value_put(a, container, key, child->node);
    return ok ? CKPT_OK : fail_memory(s->all.err);
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

/* link_item - links the entry of COMPONENT of the container E under KEY. *FOUND: there is such an entry. */
static ckpt_status link_item(struct snapshot *s, struct entry *e, ckpt_str component, ckpt_value *key,
                             bool *found)
{
    uint64_t rank = 0;
    ckpt_str path = ARENA_CONCAT(s->temp, skip_rank(e->path), STR_LIT("/"), component);
    struct entry *child = path.ptr ? find_entry(s, path, &rank) : NULL;
    *found = child != NULL;
    CKPT_TRY_ALLOC(path.ptr, s->all.err);
    if (!child)
        return CKPT_OK;
    if (rank > 0 && !child->node)
        CKPT_TRY(make_node(s, child));
    return link_child(s, e->node, key, child);
}

static ckpt_status link_items(struct snapshot *s, struct entry *e)
{
    const ckpt_value *keys = value_get(e->description, "keys");
    bool is_list = e->node->type == CKPT_V_LIST, found = true;
    for (uint32_t i = 0; found && (is_list || i < value_count(keys)); i++) {
        char number[STR_NUMBER_MAX];
        ckpt_value *key = is_list ? NULL : value_item(keys, i);
        ckpt_str component = is_list ? format_number(i, number) : encode_key(s->temp, key);
        CKPT_TRY_ALLOC(component.ptr, s->all.err);
        CKPT_TRY(link_item(s, e, component, key, &found));
        if (found || is_list)
            continue;
        (void)fail(s->all.err, CKPT_EFORMAT, value_offset(e->description),
                   "{no entry} of {=the key \"%.*s\"}", STR_ARG(component));
        error_add_file(s->all.err, s->manifest_path);
        CKPT_TRY(file_report_lost(s->all.f, CKPT_EFORMAT, component, s->all.err));
        found = true;
    }
    return CKPT_OK;
}

static bool is_container(const struct entry *e)
{
    return str_matches_word(e->type, "list dict OrderedDict", str_eq);
}
static bool is_of_rank_0(const struct entry *e) { return str_starts(e->path, STR_LIT("0/")); }

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
static ckpt_status link_all(struct snapshot *s, ckpt_value *root)
{
    for (size_t i = 0; i < s->nentries; i++) {
        struct entry *e = &s->entries[i];
        ckpt_str path = skip_rank(e->path), name;
        if (!is_of_rank_0(e) || str_find(path, STR_LIT("/"), 0) != SIZE_MAX)
            continue;
        CKPT_TRY_ALLOC((name = decode_name(s->all.f->a, path)).ptr, s->all.err);
        CKPT_TRY(link_child(s, root, value_str(s->all.f->a, name), e));
    }
    for (size_t i = 0; i < s->nentries; i++)
        if (is_of_rank_0(&s->entries[i]) && is_container(&s->entries[i]))
            CKPT_TRY(link_items(s, &s->entries[i]));
    return CKPT_OK;
}

/* check_linked - refuses entries of rank 0 that no container lists, and counts what only other ranks have. */
static ckpt_status check_linked(struct snapshot *s)
{
    size_t left_out = 0;
    for (size_t i = 0; i < s->nentries; i++) {
        const struct entry *e = &s->entries[i];
        const ckpt_value *replicated = value_get(e->description, "replicated");
        bool is_replica = replicated && replicated->type == CKPT_V_BOOL && replicated->u.b;
        if (e->is_linked)
            continue;
        if (is_of_rank_0(e))
            return fail(s->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "\"%.*s\" is in {no} {=container}", STR_ARG(e->path));
        left_out += !is_container(e) && !is_replica && !str_is(e->type, "ShardedTensor");
    }
    if (left_out)
        file_notice(s->all.f, "%zu value%s that only other ranks than 0 have %s left out", left_out,
                    left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
    s->all.f->leaves_out = s->all.f->leaves_out || left_out;
    return CKPT_OK;
}

/* -------------------------------------------------------------------------------- manifest */

/* index_entries - fills s->entries from MANIFEST. */
static ckpt_status index_entries(struct snapshot *s, const ckpt_value *manifest)
{
    uint32_t n = 0, before;
    const value_pair *pairs = value_pairs(manifest, &n);
    CKPT_TRY_ALLOC(s->entries = arena_array(s->all.f->a, n, sizeof *s->entries), s->all.err);
    for (; s->nentries < n; s->nentries++) {
        struct entry *e = &s->entries[s->nentries];
        *e = (struct entry){.description = pairs[s->nentries].val};
        if (!value_text(pairs[s->nentries].key, &e->path) ||
            !value_text(value_get(e->description, "type"), &e->type) ||
            str_find(e->path, STR_LIT("/"), 0) == SIZE_MAX)
            return fail(s->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "an entry with {no} {=rank and type}");
        CKPT_TRY_ALLOC(map_put(s->entry_of, e->path, (uint32_t)s->nentries, &before), s->all.err);
        if (before != MAP_NONE)
            return fail(s->all.err, CKPT_EFORMAT, value_offset(e->description),
                        "\"%.*s\" comes {twice}, {=once} is allowed", STR_ARG(e->path));
    }
    return CKPT_OK;
}

static ckpt_status read_manifest(struct snapshot *s, ckpt_value **manifest)
{
    ckpt_file *f = s->all.f, *part;
    ckpt_str text;
    ckpt_value *json;
    CKPT_TRY(part_file_add(f, METADATA, STR_LIT(METADATA), &part, s->all.err));
    s->manifest_path = part->path;
    ckpt_status st = kit_read_metadata(f, part->src, 0, part->src->size, &text, s->all.err);
    if (st == CKPT_OK && !str_starts(recognize_skip_space(text), STR_LIT("{")))
        st = fail(s->all.err, CKPT_EUNSUPPORTED, 0,
                  "a manifest that is {no JSON}, as versions before {=0.1} wrote it\n"
                  "restore the snapshot with torchsnapshot and take it again");
    if (st == CKPT_OK)
        st = json_read_value(text, 0, f->a, &json, s->all.err);
    if (st == CKPT_OK && !((*manifest = value_get(json, "manifest")) && (*manifest)->type == CKPT_V_DICT &&
                           value_size(value_get(json, "world_size"), &s->nranks)))
        st = fail(s->all.err, CKPT_EFORMAT, 0, "{no} {=manifest and world_size}");
    return st;
}

static ckpt_status read_entries(struct snapshot *s)
{
    ckpt_file *f = s->all.f;
    struct graph_input input = {
        .user = s, .describe_node = sharded_tensors_describe, .find_storage = part_graph_find_storage};
    ckpt_value *manifest = NULL, *root = value_new(f->a, CKPT_V_DICT, 0);
    CKPT_TRY(read_manifest(s, &manifest));
    f->ranks.ranks = s->nranks;
    CKPT_TRY(index_entries(s, manifest));
    s->nranks = s->nranks < s->nentries ? s->nranks
                                        : s->nentries; /* a rank without an entry changes nothing */
    for (size_t i = 0; i < s->nentries; i++)
        if (is_of_rank_0(&s->entries[i]))
            CKPT_TRY(make_node(s, &s->entries[i]));
    CKPT_TRY_ALLOC(root, s->all.err);
    CKPT_TRY(link_all(s, root));
    CKPT_TRY(check_linked(s));
    f->root = root;
    return graph_walk(f, root, &input, s->all.err);
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
    if (st == CKPT_OK)
        st = s.temp && s.entry_of && s.part_of ? read_entries(&s) : fail_memory(err);
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

static bool probe(const struct probe *p) { return p->is_folder && probe_has(p, METADATA); }

const struct format format_torchsnapshot = {
    .name = "torchsnapshot", .title = "torchsnapshot snapshot", .probe = probe, .read = read};
