/*
 * bundle.c - reads TensorFlow's second format of checkpoints, the tensor bundle, which tf.train.Saver,
 * tf.train.Checkpoint and SavedModel write (tensorflow/core/util/tensor_bundle,
 * core/protobuf/tensor_bundle.proto).
 *
 *   PREFIX.index               a table (codec/sstable.h) of protobuf messages by name:
 *     "": BundleHeaderProto    1 num_shards, 2 endianness (1: big), 3 version {1 producer, 2 min_consumer}
 *     others: BundleEntryProto 1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 masked CRC-32C, 7 slices
 *   PREFIX.data-00000-of-00001 the bytes of the tensors, row-major, one file for each shard
 *
 * A partitioned tensor has slices in place of bytes; each slice is an entry of its own, whose key
 * (codec/tensorflow.c) begins with a zero byte. Names are those of the file: "scope/kernel", or
 * "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE" of tf.train.Checkpoint, unless ckpt_limits.names has another
 * choice.
 *
 * Refused: entries whose size is not that of dtype and shape, or whose bytes are not in their shard; slices
 * that overlap or do not cover their tensor; shards beyond num_shards; tables that need a later reader.
 * Variants are listed without data; so are partitioned strings, which TensorFlow itself cannot read.
 */
#include <inttypes.h>
#include <stdio.h>

#include "codec/protobuf.h"
#include "codec/sstable.h"
#include "core/check.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/parts/part_files.h"
#include "format/tensorflow/tensorflow.h"

#define OBJECT_GRAPH     "_CHECKPOINTABLE_OBJECT_GRAPH"
#define ATTRIBUTE_SUFFIX "/.ATTRIBUTES/VARIABLE_VALUE"

#define FORMAT_VERSION 1u /* the version of the format that is read here */
#define SLICES_FIELD   7u /* of BundleEntryProto */

struct entry {
    ckpt_str key;
    ckpt_str name; /* of its row: KEY, unless ckpt_limits.names has a different choice */
    const struct tf_dtype *type;
    struct tf_shape shape;
    uint64_t shard, offset, size;
    uint32_t crc, nslices;
    ckpt_str message;      /* of an entry with slices: its BundleEntryProto */
    uint64_t described_at; /* offset in the index */
};

/* A data file, as .data-00000-of-00002. */
struct shard {
    source *src;
    struct storage_extra name;
    const char *path;
};

struct bundle {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    struct entry *entries;
    size_t nentries, cap_entries;
    bool has_header, big_endian;
    uint64_t num_shards;
    ckpt_str prefix;       /* PREFIX in the layout above, without its folder */
    map *shard_index;      /* number -> index into SHARDS */
    struct shard **shards; /* those that were needed so far */
    size_t nshards, cap_shards;
    map *slice_index; /* key of a slice -> its entry */
};

/* ------------------------------------------------------------------------ the table */

static ckpt_status read_version(struct bundle *bundle, cursor in)
{
    struct proto_field f;
    uint64_t min_consumer = 0, pos = in.pos;
    while (proto_next(&in, &f))
        if (proto_is(&f, 2, PROTO_VARINT))
            min_consumer = f.value;
    if (min_consumer <= FORMAT_VERSION)
        return CKPT_OK;
    return fail(bundle->err, CKPT_EUNSUPPORTED, pos,
                "needs a reader of version {%" PRIu64 "}; {=%u} is the last known", min_consumer,
                FORMAT_VERSION);
}

static ckpt_status read_header(struct bundle *bundle, cursor in)
{
    struct proto_field f;
    uint64_t pos = in.pos;
    bundle->has_header = true;
    while (proto_next(&in, &f)) {
        if (proto_is(&f, 1, PROTO_VARINT))
            bundle->num_shards = f.value;
        else if (proto_is(&f, 2, PROTO_VARINT))
            bundle->big_endian = f.value == 1;
        else if (proto_is(&f, 3, PROTO_BYTES))
            CKPT_TRY(read_version(bundle, f.bytes));
    }
    return in.bad ? fail(bundle->err, CKPT_EFORMAT, pos, "{malformed} {=header}") : CKPT_OK;
}

/* read_fields - sets ENTRY from the BundleEntryProto IN, and *TYPE to the number of its dtype. */
static ckpt_status read_fields(struct bundle *bundle, cursor in, struct entry *entry, uint64_t *type)
{
    struct proto_field f;
    uint64_t pos = in.pos;
    *type = 0;
    while (proto_next(&in, &f)) {
        if (proto_is(&f, 1, PROTO_VARINT))
            *type = f.value;
        else if (proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(tf_read_shape(bundle->f->a, f.bytes, &entry->shape, bundle->err));
        else if (proto_is(&f, 3, PROTO_VARINT))
            entry->shard = f.value;
        else if (proto_is(&f, 4, PROTO_VARINT))
            entry->offset = f.value;
        else if (proto_is(&f, 5, PROTO_VARINT))
            entry->size = f.value;
        else if (proto_is(&f, 6, PROTO_FIXED32))
            entry->crc = sstable_unmask((uint32_t)f.value);
        entry->nslices += proto_is(&f, SLICES_FIELD, PROTO_BYTES);
    }
    return in.bad ? fail(bundle->err, CKPT_EFORMAT, pos, "{malformed} {=entry}") : CKPT_OK;
}

static ckpt_status read_entry(struct bundle *bundle, ckpt_str key, cursor in, struct entry *entry)
{
    uint64_t type;
    *entry = (struct entry){.described_at = in.pos, .shape = {.elements = 1}};
    CKPT_TRY(read_fields(bundle, in, entry, &type));
    entry->key = entry->name = arena_str(bundle->f->a, key);
    entry->type = tf_find_dtype(type);
    if (!entry->type)
        return fail(bundle->err, CKPT_EUNSUPPORTED, entry->described_at,
                    "the dtype {%" PRIu64 "}; {=1 to 33} are known", type);
    if (entry->nslices)
        entry->message = arena_str(bundle->f->a, str_of((const char *)in.p, in.left));
    return entry->key.ptr && (!entry->nslices || entry->message.ptr) ? CKPT_OK : fail_memory(bundle->err);
}

static ckpt_status add_entry(struct bundle *bundle, ckpt_str key, cursor value)
{
    struct entry entry;
    if (key.len == 0)
        return read_header(bundle, value);
    if (!bundle->has_header && bundle->nentries == 0)
        return fail(bundle->err, CKPT_EFORMAT, value.pos,
                    "a table {without} {=the header} of a TensorFlow checkpoint\n"
                    "other programs write such tables, too: LevelDB's databases consist of them");
    ckpt_status st = read_entry(bundle, key, value, &entry);
    if (st != CKPT_OK) {
        error_add_where(bundle->err, "%.*s", STR_ARG(key));
        return file_report_lost(bundle->f, st, key, bundle->err);
    }
    return ARENA_PUSH(bundle->f->a, bundle, entries, &entry) ? CKPT_OK : fail_memory(bundle->err);
}

static ckpt_status read_block(struct bundle *bundle, const struct sstable *sstable, size_t index)
{
    struct sstable_block block;
    ckpt_str key;
    cursor value;
    bool more = true;
    ckpt_status st = sstable_load(sstable, index, &block, bundle->err);
    while (st == CKPT_OK && more) {
        st = sstable_next(&block, &key, &value, &more, bundle->err);
        if (st == CKPT_OK && more)
            st = add_entry(bundle, key, value);
    }
    sstable_unload(&block);
    if (st == CKPT_OK || !check_is_fault(st))
        return st;
    if (bundle->f->salvage) {
        bundle->has_header = true; /* the header may have been in this block */
        file_note_loss(bundle->f, "block %zu of the index: %s; the names in it are lost", index,
                       bundle->err->what);
        return CKPT_OK;
    }
    return file_report_fault(bundle->f, st, bundle->err);
}

/* find_num_shards - for salvage: takes the number of data files from the name of one of them. */
static void find_num_shards(struct bundle *bundle)
{
    ckpt_error ignored;
    ckpt_str *names;
    size_t n;
    struct shard_name s;
    (void)folder_list_all(bundle->f, bundle->f->folder, &names, &n, &ignored);
    for (size_t i = 0; i < n; i++)
        if (shard_name_parse(names[i], &s) && str_starts(s.stem, bundle->prefix) &&
            str_is(str_skip(s.stem, bundle->prefix.len), ".data"))
            bundle->num_shards = s.count;
}

static ckpt_status read_table(struct bundle *bundle)
{
    struct sstable t;
    file_raise_budget(bundle->f, bundle->f->src->size);
    CKPT_TRY(sstable_open(bundle->f->src, bundle->f->a, &t, bundle->err));
    for (size_t i = 0; i < t.nblocks; i++)
        CKPT_TRY(read_block(bundle, &t, i));
    if (bundle->f->salvage && !bundle->num_shards)
        find_num_shards(bundle);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------- the data */

/* open_shard - opens data file NUMBER as SHARD. If it is missing, `verify` reports that and leaves SHARD
 * without a source; in salvage, SHARD has an empty source. */
static ckpt_status open_shard(struct bundle *bundle, uint64_t number, struct shard *shard)
{
    ckpt_file *f = bundle->f, *part = NULL;
    ckpt_str index = ARENA_CONCAT(f->a, bundle->prefix, STR_LIT(".index"));
    char ending[64];
    (void)snprintf(ending, sizeof ending, ".data-%05" PRIu64 "-of-%05" PRIu64, number, bundle->num_shards);
    *shard = (struct shard){.name.file = ARENA_CONCAT(f->a, bundle->prefix, str_c(ending))};
    CKPT_TRY_ALLOC(index.ptr && shard->name.file.ptr, bundle->err);
    shard->path = shard->name.file.ptr;
    ckpt_status st = part_file_add(f, index.ptr, shard->name.file, &part, bundle->err);
    if (st == CKPT_OK) {
        shard->src = part->src;
        shard->path = part->path;
        return CKPT_OK;
    }
    if (st != CKPT_ENOTFOUND)
        return st;
    (void)fail(bundle->err, st, CKPT_NO_OFFSET,
               "{no data file} {=%.*s}\n"
               "put the data files next to the index; `ckpt salvage` writes what the others hold",
               STR_ARG(shard->name.file));
    if (!f->salvage)
        return f->check ? file_report_fault_as(f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, bundle->err) : st;
    if (file_new(shard->name.file.ptr, source_mem("", 0, CKPT_NO_OFFSET), &f->limits, &part, bundle->err) !=
        CKPT_OK)
        return fail_memory(bundle->err);
    shard->src = part->src;
    return part_file_keep(f, part, bundle->err);
}

static ckpt_status find_shard(struct bundle *bundle, uint64_t number, struct shard **out)
{
    uint32_t at = map_get_num(bundle->shard_index, number);
    if (at == MAP_NONE) {
        at = (uint32_t)bundle->nshards;
        struct shard **added = arena_append(bundle->f->a, &bundle->shards, &bundle->nshards,
                                            &bundle->cap_shards, sizeof *added);
        CKPT_TRY_ALLOC(added && (*added = ARENA_NEW(bundle->f->a, struct shard)) &&
                           map_put_num(bundle->shard_index, number, at, NULL),
                       bundle->err);
        CKPT_TRY(open_shard(bundle, number, *added));
    }
    *out = bundle->shards[at];
    return CKPT_OK;
}

/* find_bytes - finds the bytes of ENTRY; *SHARD has no source if its file is missing. */
static ckpt_status find_bytes(struct bundle *bundle, const struct entry *entry, struct shard **shard,
                              struct tf_bytes *bytes)
{
    if (entry->shard >= bundle->num_shards)
        return fail(bundle->err, CKPT_EFORMAT, entry->described_at,
                    "is in the data file {%" PRIu64 "} of {=%" PRIu64 "}", entry->shard, bundle->num_shards);
    CKPT_TRY(find_shard(bundle, entry->shard, shard));
    *bytes = (struct tf_bytes){(*shard)->src, entry->offset,  entry->size,
                               entry->crc,    (*shard)->path, bundle->f};
    return CKPT_OK;
}

static ckpt_status check_size(const struct bundle *bundle, const struct entry *entry)
{
    uint64_t need = 0;
    if (!checked_mul(entry->shape.elements, entry->type->width, &need) || need != entry->size)
        return fail(bundle->err, CKPT_EFORMAT, entry->described_at,
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", entry->size, need);
    return CKPT_OK;
}

/* add_record - adds the bytes of ENTRY to the records that `verify` reads. Not called for strings and slices:
 * whatever reads those compares their checksums. */
static ckpt_status add_record(struct bundle *bundle, const struct entry *entry, const struct shard *shard)
{
    const struct check_record r = {.name = entry->name,
                                   .path = shard->path,
                                   .crc = entry->crc,
                                   .is_crc32c = true,
                                   .recorded_in = "index"};
    return shard->src
               ? check_add_slice(bundle->f->check, r, shard->src, entry->offset, entry->size, bundle->err)
               : CKPT_OK;
}

/* ---------------------------------------------------------------------- the tensors */

static ckpt_status add_numbers(struct bundle *bundle, const struct entry *entry, struct kit_tensor *tensor)
{
    struct shard *shard;
    struct tf_bytes bytes;
    CKPT_TRY(check_size(bundle, entry));
    CKPT_TRY(find_bytes(bundle, entry, &shard, &bytes));
    tensor->src = bytes.src;
    tensor->src_offset = bytes.at;
    tensor->nbytes = bytes.size;
    tensor->crc = &entry->crc;
    tensor->is_crc32c = true;
    tensor->src_file = &shard->name;
    tensor->big_endian = bundle->big_endian;
    CKPT_TRY(add_record(bundle, entry, shard));
    return kit_add_tensor(&bundle->k, tensor);
}

static ckpt_status add_strings(struct bundle *bundle, const struct entry *entry, struct kit_tensor *tensor)
{
    struct shard *shard;
    struct tf_bytes bytes;
    CKPT_TRY(find_bytes(bundle, entry, &shard, &bytes));
    if (!bytes.src)
        return kit_add_tensor(&bundle->k, tensor);
    file_raise_budget(bundle->f, entry->size);
    CKPT_TRY(name_file_if_failed(
        tf_strings_source(bundle->f->a, &bytes, entry->shape.elements, &tensor->src, bundle->err),
        shard->path, bundle->err));
    tensor->nbytes = tensor->t.nbytes = tensor->src->size;
    tensor->checks_itself = true;
    tensor->src_file = &shard->name;
    ckpt_status st = kit_add_tensor(&bundle->k, tensor);
    source_unref(tensor->src);
    return st;
}

static ckpt_status find_slice(struct bundle *bundle, const struct entry *entry, const struct tf_slice *slice,
                              const struct entry **out)
{
    buf key;
    buf_init(&key, UINT32_MAX);
    tf_put_slice_key(&key, entry->key, slice, entry->shape.ndim);
    uint32_t at = buf_ok(&key) ? map_get(bundle->slice_index, buf_view(&key)) : MAP_NONE;
    bool ok = buf_ok(&key);
    buf_free(&key);
    CKPT_TRY_ALLOC(ok, bundle->err);
    if (at == MAP_NONE)
        return fail(bundle->err, CKPT_ETRUNCATED, entry->described_at,
                    "{=a slice} is {missing} from the index");
    *out = &bundle->entries[at];
    if ((*out)->type != entry->type || (*out)->nslices ||
        (*out)->shape.elements != tf_count_elements(slice, entry->shape.ndim))
        return fail(bundle->err, CKPT_EFORMAT, (*out)->described_at,
                    "{the entry} of a slice is not {=of its dtype and size}");
    return CKPT_OK;
}

static ckpt_status make_piece(struct bundle *bundle, const struct entry *entry, cursor in,
                              struct piece *piece)
{
    struct tf_slice slice;
    const struct entry *slice_entry = NULL;
    struct shard *shard;
    struct tf_bytes bytes;
    CKPT_TRY(tf_read_slice(bundle->f->a, in, &entry->shape, &slice, bundle->err));
    CKPT_TRY(find_slice(bundle, entry, &slice, &slice_entry));
    CKPT_TRY(check_size(bundle, slice_entry));
    CKPT_TRY(find_bytes(bundle, slice_entry, &shard, &bytes));
    if (!bytes.src)
        return CKPT_OK;
    *piece = (struct piece){.offset = slice.offset, .size = slice.size};
    return name_file_if_failed(tf_checked_source(&bytes, &piece->src, bundle->err), shard->path, bundle->err);
}

/* make_pieces - sets PIECES to the *COUNT slices of ENTRY, and *COMPLETE to false if a data file is
 * missing. */
static ckpt_status make_pieces(struct bundle *bundle, const struct entry *entry, struct piece *pieces,
                               size_t *count, bool *complete)
{
    struct proto_field f;
    cursor c = cursor_of(entry->message.ptr, entry->message.len, entry->described_at);
    *complete = true;
    while (proto_next(&c, &f)) {
        if (!proto_is(&f, SLICES_FIELD, PROTO_BYTES))
            continue;
        CKPT_TRY(make_piece(bundle, entry, f.bytes, &pieces[*count]));
        *complete = *complete && pieces[*count].src;
        ++*count;
    }
    return CKPT_OK;
}

static ckpt_status add_sliced_tensor(struct bundle *bundle, const struct entry *entry,
                                     struct kit_tensor *tensor)
{
    size_t n = 0;
    bool complete;
    struct piece *pieces = arena_array(bundle->f->a, entry->nslices, sizeof *pieces);
    CKPT_TRY_ALLOC(pieces, bundle->err);
    ckpt_status st = make_pieces(bundle, entry, pieces, &n, &complete);
    if (st == CKPT_OK && complete) {
        tensor->pieces = pieces;
        tensor->npieces = n;
        tensor->checks_itself = true;
        tensor->big_endian = bundle->big_endian;
    }
    CKPT_THEN(st, kit_add_tensor(&bundle->k, tensor));
    for (size_t i = 0; i < entry->nslices; i++)
        source_unref(pieces[i].src);
    return st;
}

ckpt_status tf_describe(const ckpt_file *f, const struct tf_dtype *type, const struct tf_shape *shape,
                        struct kit_tensor *tensor, ckpt_error *err)
{
    tensor->t.dtype = (uint16_t)type->dtype;
    tensor->t.dtype_name = type->dtype == CKPT_DT_NAMED ? type->name : NULL;
    tensor->t.ndim = shape->ndim;
    tensor->t.shape = shape->sizes;
    tensor->swap_bytes = type->swap;
    tensor->width = type->width;
    if (!checked_mul(shape->elements, type->width, &tensor->t.nbytes))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a tensor of {more} than {=2^64 bytes}");
    if (!f->salvage || type->dtype != CKPT_DT_NAMED)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has the dtype {%s}, which {=no format} can write",
                type->name);
}

static ckpt_status add_tensor(struct bundle *bundle, const struct entry *entry, struct kit_tensor *tensor)
{
    CKPT_TRY(tf_describe(bundle->f, entry->type, &entry->shape, tensor, bundle->err));
    if (entry->type->width && entry->nslices)
        return add_sliced_tensor(bundle, entry, tensor);
    if (entry->type->width)
        return add_numbers(bundle, entry, tensor);
    if (entry->type->number == TF_STRING && !entry->nslices)
        return add_strings(bundle, entry, tensor);
    tensor->t.note = entry->nslices ? STR_LIT("in slices, which TensorFlow does not read either")
                                    : STR_LIT("not read");
    return kit_add_tensor(&bundle->k, tensor);
}

static bool is_slice_key(ckpt_str key) { return key.len && key.ptr[0] == 0; }

/* ------------------------------------------------------------------------ the names */

/* The entries by their keys, and by their new names. */
struct naming {
    struct bundle *bundle;
    map *entry_of;       /* key -> entry */
    map *first_entry_of; /* name -> the first entry */
};

/* name_by_path - names ENTRY by its key without the suffix that tf.train.Checkpoint appends to the path of a
 * variable. */
static void name_by_path(struct entry *entry)
{
    if (str_ends(entry->key, STR_LIT(ATTRIBUTE_SUFFIX)) && entry->key.len > strlen(ATTRIBUTE_SUFFIX))
        entry->name = str_of(entry->key.ptr, entry->key.len - strlen(ATTRIBUTE_SUFFIX));
}

/* name_by_variable - called by tf_read_object_graph; USER is a struct naming. Names the entry KEY after its
 * VARIABLE, but gives a name that two entries would have to neither. */
static ckpt_status name_by_variable(void *user, ckpt_str key, ckpt_str variable, ckpt_error *err)
{
    struct naming *naming = user;
    uint32_t at = map_get(naming->entry_of, key), first;
    if (at == MAP_NONE)
        return CKPT_OK;
    struct entry *entry = &naming->bundle->entries[at];
    variable = arena_str(naming->bundle->f->a, variable);
    CKPT_TRY_ALLOC(variable.ptr && map_put(naming->first_entry_of, variable, at, &first), err);
    if (first == MAP_NONE)
        entry->name = variable;
    else if (first != at)
        name_by_path(&naming->bundle->entries[first]);
    return CKPT_OK;
}

/* read_graph - sets *IN to the message in ENTRY, the object graph. Its bytes live as long as the file. */
static ckpt_status read_graph(struct bundle *bundle, const struct entry *entry, cursor *in)
{
    struct shard *shard;
    struct tf_bytes bytes;
    source *src = NULL;
    unsigned char *text = NULL;
    CKPT_TRY(find_bytes(bundle, entry, &shard, &bytes));
    if (!bytes.src)
        return CKPT_OK;
    if (entry->size > bundle->f->limits.max_header)
        return fail(bundle->err, CKPT_ELIMIT, entry->described_at,
                    "an object graph of {%" PRIu64 " bytes}; {=%" PRIu64 "} are allowed", entry->size,
                    bundle->f->limits.max_header);
    file_raise_budget(bundle->f, entry->size);
    ckpt_status st = tf_strings_source(bundle->f->a, &bytes, 1, &src, bundle->err);
    if (st == CKPT_OK) {
        size_t n = (size_t)(src->size - 8); /* the length of the string is before it */
        text = arena_alloc(bundle->f->a, n);
        st = text ? source_read(src, 8, text, n, bundle->err) : fail_memory(bundle->err);
        *in = cursor_of(text, n, source_pos(bytes.src, bytes.at));
    }
    source_unref(src);
    if (st == CKPT_ECHECKSUM)
        error_replace_hint(bundle->err, "--names=object does without it");
    return name_file_if_failed(st, shard->path, bundle->err);
}

static ckpt_status read_variables(struct naming *naming)
{
    struct bundle *b = naming->bundle;
    uint32_t at;
    cursor c = cursor_of("", 0, 0);
    naming->entry_of = map_new(b->nentries);
    naming->first_entry_of = map_new(b->nentries);
    CKPT_TRY_ALLOC(naming->entry_of && naming->first_entry_of, b->err);
    for (size_t i = 0; i < b->nentries; i++)
        CKPT_TRY_ALLOC(map_put(naming->entry_of, b->entries[i].key, (uint32_t)i, NULL) &&
                           map_put(naming->first_entry_of, b->entries[i].name, (uint32_t)i, NULL),
                       b->err);
    at = map_get(naming->entry_of, STR_LIT(OBJECT_GRAPH));
    if (at == MAP_NONE || b->entries[at].type->number != TF_STRING || b->entries[at].shape.ndim)
        return CKPT_OK;
    CKPT_TRY(read_graph(b, &b->entries[at], &c));
    return tf_read_object_graph(c, name_by_variable, naming, b->err);
}

static ckpt_status name_entries(struct bundle *bundle)
{
    struct naming naming = {.bundle = bundle};
    ckpt_status st = CKPT_OK;
    if (bundle->f->limits.names == CKPT_NAMES_STORED)
        return CKPT_OK;
    for (size_t i = 0; i < bundle->nentries; i++)
        name_by_path(&bundle->entries[i]);
    if (bundle->f->limits.names == CKPT_NAMES_VARIABLE)
        st = read_variables(&naming);
    map_free(naming.entry_of);
    map_free(naming.first_entry_of);
    return position_if_failed(st, 0, STR_LIT(OBJECT_GRAPH), bundle->err);
}

static ckpt_status index_slices(struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->nentries; i++)
        if (is_slice_key(bundle->entries[i].key) &&
            !map_put(bundle->slice_index, bundle->entries[i].key, (uint32_t)i, NULL))
            return fail_memory(bundle->err);
    return CKPT_OK;
}

static ckpt_status add_tensors(struct bundle *bundle)
{
    CKPT_TRY(index_slices(bundle));
    CKPT_TRY(name_entries(bundle));
    for (size_t i = 0; i < bundle->nentries; i++) {
        if (is_slice_key(bundle->entries[i].key))
            continue;
        uint32_t row = (uint32_t)bundle->f->table.nrows;
        struct kit_tensor t = {.name = bundle->entries[i].name,
                               .described_at = bundle->entries[i].described_at};
        ckpt_status st = add_tensor(bundle, &bundle->entries[i], &t);
        if (st == CKPT_OK && str_is(bundle->entries[i].key, OBJECT_GRAPH))
            bundle->f->description = (struct description){row, "the object graph",
                                                          "the object graph of tf.train.Checkpoint"};
        CKPT_TRY(st == CKPT_OK ? st : kit_add_faulty(&bundle->k, &t, st));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ all */

static bool probe(const struct probe *this_probe)
{
    return !this_probe->is_folder && sstable_has_magic(this_probe->src);
}

static void set_prefix(struct bundle *bundle)
{
    bundle->prefix = name_of(bundle->f);
    if (str_ends(bundle->prefix, STR_LIT(".index")))
        bundle->prefix.len -= strlen(".index");
}

static ckpt_status read_bundle(struct bundle *bundle)
{
    bundle->shard_index = map_new(16);
    bundle->slice_index = map_new(16);
    CKPT_TRY_ALLOC(bundle->shard_index && bundle->slice_index && part_file_set_folder(bundle->f),
                   bundle->err);
    CKPT_TRY(read_table(bundle));
    CKPT_TRY(kit_begin(&bundle->k, bundle->f, value_new(bundle->f->a, CKPT_V_DICT, 0), bundle->err));
    return kit_end(&bundle->k, add_tensors(bundle));
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct bundle b = {.f = f, .err = err};
    set_prefix(&b);
    ckpt_status st = read_bundle(&b);
    map_free(b.shard_index);
    map_free(b.slice_index);
    if (st != CKPT_OK && !err->file[0])
        error_add_position(err, 0, STR_LIT("table"));
    return st;
}

const struct format format_tf_bundle = {
    .name = "tf-v2", .title = "TensorFlow checkpoint", .flat = true, .probe = probe, .read = read};
