/*
 * bundle.c - reads TensorFlow's second format of checkpoints, the tensor bundle, which tf.train.Saver,
 * tf.train.Checkpoint and SavedModel write (tensorflow/core/util/tensor_bundle,
 * core/protobuf/tensor_bundle.proto).
 *
 *   PREFIX.index               a table (codec/sstable.h) of protobuf messages by name, the empty one first:
 *     BundleHeaderProto        1 num_shards, 2 endianness (1: big), 3 version {1 producer, 2 min_consumer}
 *     BundleEntryProto         1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 masked CRC-32C, 7 slices
 *   PREFIX.data-00000-of-00001 the bytes of the tensors, row-major, one file for each shard
 *
 * A partitioned tensor has slices in place of bytes; each slice is an entry of its own, whose key
 * (codec/tensorflow.c) begins with a zero byte. Names are those of the file: "scope/kernel", or
 * "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE" of tf.train.Checkpoint, unless ckpt_limits.names has another
 * choice.
 *
 * Refused: entries whose size is not that of dtype and shape, or whose bytes are not in their shard; slices
 * that overlap or do not cover their tensor; shards beyond num_shards; tables that need a later reader.
 * Variants and partitioned strings, which TensorFlow itself cannot read, are listed without data.
 */
#include <inttypes.h>

#include "base/checked.h"
#include "codec/protobuf.h"
#include "codec/sstable.h"
#include "core/check.h"
#include "format/distributed/part_files.h"
#include "format/folder.h"
#include "format/tensorflow/tensorflow.h"

#define OBJECT_GRAPH     "_CHECKPOINTABLE_OBJECT_GRAPH"
#define ATTRIBUTE_SUFFIX "/.ATTRIBUTES/VARIABLE_VALUE"

#define CONSUMER 1u /* the version of the format that is read here */

struct entry {
    ckpt_str key;
    ckpt_str name; /* of its row: KEY, unless ckpt_limits.names has a different choice */
    const struct tf_dtype *type;
    struct tf_shape shape;
    uint64_t shard, offset, size;
    uint32_t crc;
    uint32_t nslices;
    ckpt_str message; /* of an entry with slices: its BundleEntryProto */
    uint64_t at;      /* offset in the index */
};

/* A data file, as .data-00000-of-00002. */
struct shard {
    source *src;
    struct storage_extra in;
    const char *path;
};

struct bundle {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    struct entry *entry;
    size_t n, cap;
    bool has_header, big_endian;
    uint64_t nshards;
    ckpt_str base; /* the name of PREFIX in its folder */
    map *shard_of; /* number -> index of SHARD */
    struct shard **shard;
    size_t nopened, cap_opened;
    map *slice_of; /* key of a slice -> its entry */
};

/* ------------------------------------------------------------------------ the table */

static ckpt_status read_version(struct bundle *b, cursor c)
{
    struct proto_field f;
    uint64_t least = 0, pos = c.pos;
    while (proto_next(&c, &f))
        if (proto_is(&f, 2, PROTO_VARINT))
            least = f.value;
    if (least <= CONSUMER)
        return CKPT_OK;
    return fail(b->err, CKPT_EUNSUPPORTED, pos,
                "needs a reader of version {%" PRIu64 "}; {=%u} is the last known", least, CONSUMER);
}

static ckpt_status read_header(struct bundle *b, cursor c)
{
    struct proto_field f;
    uint64_t pos = c.pos;
    b->has_header = true;
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 1, PROTO_VARINT))
            b->nshards = f.value;
        else if (proto_is(&f, 2, PROTO_VARINT))
            b->big_endian = f.value == 1;
        else if (proto_is(&f, 3, PROTO_BYTES))
            CKPT_TRY(read_version(b, f.bytes));
    }
    return c.bad ? fail(b->err, CKPT_EFORMAT, pos, "{malformed} {=header}") : CKPT_OK;
}

/* read_fields - sets E by the BundleEntryProto C; *TYPE: the number of its dtype. */
static ckpt_status read_fields(struct bundle *b, cursor c, struct entry *e, uint64_t *type)
{
    struct proto_field f;
    uint64_t pos = c.pos;
    *type = 0;
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 1, PROTO_VARINT))
            *type = f.value;
        else if (proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(tf_read_shape(b->f->a, f.bytes, &e->shape, b->err));
        else if (proto_is(&f, 3, PROTO_VARINT))
            e->shard = f.value;
        else if (proto_is(&f, 4, PROTO_VARINT))
            e->offset = f.value;
        else if (proto_is(&f, 5, PROTO_VARINT))
            e->size = f.value;
        else if (proto_is(&f, 6, PROTO_FIXED32))
            e->crc = sstable_unmask((uint32_t)f.value);
        e->nslices += proto_is(&f, 7, PROTO_BYTES); /* bounded: by the message */
    }
    return c.bad ? fail(b->err, CKPT_EFORMAT, pos, "{malformed} {=entry}") : CKPT_OK;
}

static ckpt_status read_entry(struct bundle *b, ckpt_str key, cursor c, struct entry *e)
{
    uint64_t type;
    *e = (struct entry){.at = c.pos, .shape = {.elements = 1}};
    CKPT_TRY(read_fields(b, c, e, &type));
    e->key = e->name = arena_str(b->f->a, key);
    e->type = tf_find_dtype(type);
    if (!e->type)
        return fail(b->err, CKPT_EUNSUPPORTED, e->at, "the dtype {%" PRIu64 "}; {=1 to 33} are known", type);
    if (e->nslices)
        e->message = arena_str(b->f->a, str_of((const char *)c.p, c.left));
    return e->key.ptr && (!e->nslices || e->message.ptr) ? CKPT_OK : fail_memory(b->err);
}

static ckpt_status add_entry(struct bundle *b, ckpt_str key, cursor value)
{
    struct entry e;
    if (key.len == 0)
        return read_header(b, value);
    if (!b->has_header && b->n == 0)
        return fail(b->err, CKPT_EFORMAT, value.pos,
                    "a table {without} {=the header} of a TensorFlow checkpoint\n"
                    "other programs write such tables, too: LevelDB's databases consist of them");
    ckpt_status st = read_entry(b, key, value, &e);
    if (st != CKPT_OK) {
        error_add_where(b->err, "%.*s", STR_ARG(key));
        return file_lose(b->f, st, key, b->err);
    }
    return arena_push(b->f->a, &b->entry, &b->n, &b->cap, &e, sizeof e) ? CKPT_OK : fail_memory(b->err);
}

static ckpt_status read_block(struct bundle *b, const struct sstable *t, size_t i)
{
    struct sstable_block block;
    ckpt_str key;
    cursor value;
    bool more = true;
    ckpt_status st = sstable_load(t, i, &block, b->err);
    while (st == CKPT_OK && more) {
        st = sstable_next(&block, &key, &value, &more, b->err);
        if (st == CKPT_OK && more)
            st = add_entry(b, key, value);
    }
    sstable_unload(&block);
    if (st == CKPT_OK || !check_is_fault(st))
        return st;
    if (b->f->salvage) {
        b->has_header = true; /* it may have been in this block */
        file_notice(b->f, "block %zu of the index: %s; the names in it are lost", i, b->err->what);
        return CKPT_OK;
    }
    return file_report_fault(b->f, st, b->err);
}

/* count_shards - sets the number of data files to that in the name of one of them, for salvage. */
static void count_shards(struct bundle *b)
{
    ckpt_str *names;
    size_t n;
    struct shard_name s;
    (void)folder_list_all(b->f->a, b->f->folder, &names, &n, NULL);
    for (size_t i = 0; i < n; i++)
        if (shard_name_parse(names[i], &s) && str_starts(s.stem, b->base) &&
            str_is(str_skip(s.stem, b->base.len), ".data"))
            b->nshards = s.count;
}

static ckpt_status read_table(struct bundle *b)
{
    struct sstable t;
    file_budget(b->f, b->f->src->size);
    CKPT_TRY(sstable_open(b->f->src, b->f->a, &t, b->err));
    for (size_t i = 0; i < t.nblocks; i++)
        CKPT_TRY(read_block(b, &t, i));
    if (b->f->salvage && !b->nshards)
        count_shards(b);
    return CKPT_OK;
}

/* ------------------------------------------------------------------------- the data */

/* open_shard - opens data file NUMBER as S. If it is missing, `verify` reports that and leaves S without a
 * source; in salvage, S has an empty source. */
static ckpt_status open_shard(struct bundle *b, uint64_t number, struct shard *s)
{
    ckpt_file *f = b->f, *part = NULL;
    ckpt_str index = arena_printf(f->a, "%.*s.index", (int)b->base.len, b->base.ptr);
    *s = (struct shard){.in.file = arena_printf(f->a, "%.*s.data-%05" PRIu64 "-of-%05" PRIu64,
                                                (int)b->base.len, b->base.ptr, number, b->nshards)};
    if (!index.ptr || !s->in.file.ptr)
        return fail_memory(b->err);
    s->path = s->in.file.ptr;
    ckpt_status st = part_file_add(f, index.ptr, s->in.file, &part, b->err);
    if (st == CKPT_OK) {
        s->src = part->src;
        s->path = part->path;
        return CKPT_OK;
    }
    if (st != CKPT_ENOTFOUND)
        return st;
    (void)fail(b->err, st, CKPT_NO_OFFSET,
               "{no data file} {=%.*s}\n"
               "put the data files next to the index; `ckpt salvage` writes what the others hold",
               STR_ARG(s->in.file));
    if (!f->salvage)
        return f->check ? file_report_fault_as(f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, b->err) : st;
    if (file_new(s->in.file.ptr, source_mem("", 0, CKPT_NO_OFFSET), &f->limits, &part, b->err) != CKPT_OK)
        return fail_memory(b->err);
    s->src = part->src;
    return part_file_keep(f, part, b->err);
}

static ckpt_status find_shard(struct bundle *b, uint64_t number, struct shard **out)
{
    uint32_t at = map_get_num(b->shard_of, number);
    if (at == MAP_NONE) {
        at = (uint32_t)b->nopened;
        struct shard **added = arena_append(b->f->a, &b->shard, &b->nopened, &b->cap_opened, sizeof *added);
        if (!added || !(*added = ARENA_NEW(b->f->a, struct shard)) ||
            !map_put_num(b->shard_of, number, at, NULL))
            return fail_memory(b->err);
        CKPT_TRY(open_shard(b, number, *added));
    }
    *out = b->shard[at];
    return CKPT_OK;
}

/* find_bytes - finds the bytes of E; *SHARD has no source if its file is missing. */
static ckpt_status find_bytes(struct bundle *b, const struct entry *e, struct shard **shard,
                              struct tf_bytes *bytes)
{
    if (e->shard >= b->nshards)
        return fail(b->err, CKPT_EFORMAT, e->at, "is in the data file {%" PRIu64 "} of {=%" PRIu64 "}",
                    e->shard, b->nshards);
    CKPT_TRY(find_shard(b, e->shard, shard));
    *bytes = (struct tf_bytes){(*shard)->src, e->offset, e->size, e->crc, (*shard)->path, b->f};
    return CKPT_OK;
}

static ckpt_status check_size(const struct bundle *b, const struct entry *e)
{
    uint64_t need = 0;
    if (!checked_mul(e->shape.elements, e->type->width, &need) || need != e->size)
        return fail(b->err, CKPT_EFORMAT, e->at,
                    "{%" PRIu64 " bytes}, its dtype and shape take {=%" PRIu64 "}", e->size, need);
    return CKPT_OK;
}

/* add_record - adds the bytes of E to the records that `verify` reads. Strings and slices are left out,
 * because reading them compares their checksums. */
static ckpt_status add_record(struct bundle *b, const struct entry *e, const struct shard *s)
{
    struct check_record r = {.name = e->name, .path = s->path, .crc = e->crc, .is_crc32c = true};
    if (!b->f->check || !s->src || !range_within(e->offset, e->size, s->src->size))
        return CKPT_OK;
    CKPT_TRY(source_slice(s->src, e->offset, e->size, &r.src, b->err));
    r.file_offset = source_pos(r.src, 0);
    return check_add_record(b->f->check, &r, b->err);
}

/* ---------------------------------------------------------------------- the tensors */

static ckpt_status add_numbers(struct bundle *b, const struct entry *e, struct kit_tensor *t)
{
    struct shard *s;
    struct tf_bytes bytes;
    CKPT_TRY(check_size(b, e));
    CKPT_TRY(find_bytes(b, e, &s, &bytes));
    t->src = bytes.src;
    t->at = bytes.at;
    t->nbytes = bytes.size;
    t->crc = &e->crc;
    t->is_crc32c = true;
    t->in = &s->in;
    t->big_endian = b->big_endian;
    CKPT_TRY(add_record(b, e, s));
    return kit_add_tensor(&b->k, t);
}

static ckpt_status add_strings(struct bundle *b, const struct entry *e, struct kit_tensor *t)
{
    struct shard *s;
    struct tf_bytes bytes;
    CKPT_TRY(find_bytes(b, e, &s, &bytes));
    if (!bytes.src)
        return kit_add_tensor(&b->k, t);
    file_budget(b->f, e->size);
    CKPT_TRY(name_file_if_failed(tf_strings_source(b->f->a, &bytes, e->shape.elements, &t->src, b->err),
                                 s->path, b->err));
    t->nbytes = t->t.nbytes = t->src->size;
    t->checks_itself = true;
    t->in = &s->in;
    ckpt_status st = kit_add_tensor(&b->k, t);
    source_unref(t->src);
    return st;
}

/* find_slice - sets *OUT to the entry of slice S of E. */
static ckpt_status find_slice(struct bundle *b, const struct entry *e, const struct tf_slice *s,
                              const struct entry **out)
{
    buf key;
    buf_init(&key, UINT32_MAX);
    tf_put_slice_key(&key, e->key, s, e->shape.ndim);
    uint32_t at = buf_ok(&key) ? map_get(b->slice_of, buf_view(&key)) : MAP_NONE;
    bool ok = buf_ok(&key);
    buf_free(&key);
    if (!ok)
        return fail_memory(b->err);
    if (at == MAP_NONE)
        return fail(b->err, CKPT_ETRUNCATED, e->at, "{=a slice} is {missing} from the index");
    *out = &b->entry[at];
    if ((*out)->type != e->type || (*out)->nslices ||
        (*out)->shape.elements != tf_count_elements(s, e->shape.ndim))
        return fail(b->err, CKPT_EFORMAT, (*out)->at,
                    "{the entry} of a slice is not {=of its dtype and size}");
    return CKPT_OK;
}

static ckpt_status make_piece(struct bundle *b, const struct entry *e, cursor c, struct piece *p)
{
    struct tf_slice s;
    const struct entry *of = NULL;
    struct shard *shard;
    struct tf_bytes bytes;
    CKPT_TRY(tf_read_slice(b->f->a, c, &e->shape, &s, b->err));
    CKPT_TRY(find_slice(b, e, &s, &of));
    CKPT_TRY(check_size(b, of));
    CKPT_TRY(find_bytes(b, of, &shard, &bytes));
    if (!bytes.src)
        return CKPT_OK;
    *p = (struct piece){.offset = s.offset, .size = s.size};
    return name_file_if_failed(tf_checked_source(&bytes, &p->src, b->err), shard->path, b->err);
}

/* make_pieces - sets PIECES to the *N slices of E, and *ALL to false if a data file is missing. */
static ckpt_status make_pieces(struct bundle *b, const struct entry *e, struct piece *pieces, size_t *n,
                               bool *all)
{
    struct proto_field f;
    cursor c = cursor_of(e->message.ptr, e->message.len, e->at);
    *all = true;
    while (proto_next(&c, &f)) {
        if (!proto_is(&f, 7, PROTO_BYTES))
            continue;
        CKPT_TRY(make_piece(b, e, f.bytes, &pieces[*n]));
        *all = *all && pieces[*n].src;
        ++*n; /* bounded: as many as were counted */
    }
    return CKPT_OK;
}

static ckpt_status add_sliced(struct bundle *b, const struct entry *e, struct kit_tensor *t)
{
    size_t n = 0;
    bool all;
    struct piece *pieces = arena_array(b->f->a, e->nslices, sizeof *pieces);
    if (!pieces)
        return fail_memory(b->err);
    ckpt_status st = make_pieces(b, e, pieces, &n, &all);
    if (st == CKPT_OK && all) {
        t->pieces = pieces;
        t->npieces = n;
        t->checks_itself = true;
        t->big_endian = b->big_endian;
    }
    if (st == CKPT_OK)
        st = kit_add_tensor(&b->k, t);
    for (size_t i = 0; i < e->nslices; i++)
        source_unref(pieces[i].src);
    return st;
}

ckpt_status tf_describe(const ckpt_file *f, const struct tf_dtype *type, const struct tf_shape *shape,
                        struct kit_tensor *t, ckpt_error *err)
{
    t->t.dtype = (uint16_t)type->dtype;
    t->t.dtype_name = type->dtype == CKPT_DT_NP ? type->name : NULL;
    t->t.ndim = shape->ndim;
    t->t.shape = shape->size;
    t->swap_bytes = type->swap;
    t->width = type->width;
    if (!checked_mul(shape->elements, type->width, &t->t.nbytes))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a tensor of {more} than {=2^64 bytes}");
    if (!f->salvage || type->dtype != CKPT_DT_NP)
        return CKPT_OK;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "of the dtype {%s}, which {=no file} that is written can hold", type->name);
}

static ckpt_status add_tensor(struct bundle *b, const struct entry *e, struct kit_tensor *t)
{
    CKPT_TRY(tf_describe(b->f, e->type, &e->shape, t, b->err));
    if (e->type->width && e->nslices)
        return add_sliced(b, e, t);
    if (e->type->width)
        return add_numbers(b, e, t);
    if (e->type->number == TF_STRING && !e->nslices)
        return add_strings(b, e, t);
    t->t.note = e->nslices ? STR_LIT("in slices, which TensorFlow does not read either")
                           : STR_LIT("not read");
    return kit_add_tensor(&b->k, t);
}

static bool is_slice(ckpt_str key) { return key.len && key.ptr[0] == 0; }

/* ------------------------------------------------------------------------ the names */

/* The entries by their keys, and by their new names. */
struct naming {
    struct bundle *b;
    map *entry_of; /* key -> entry */
    map *named;    /* name -> the first entry */
};

/* name_by_path - names E by its key without the suffix that tf.train.Checkpoint appends to the path of a
 * variable. */
static void name_by_path(struct entry *e)
{
    if (str_ends(e->key, STR_LIT(ATTRIBUTE_SUFFIX)) && e->key.len > strlen(ATTRIBUTE_SUFFIX))
        e->name = str_of(e->key.ptr, e->key.len - strlen(ATTRIBUTE_SUFFIX)); /* bounded: it is longer */
}

/* name_by_variable - names an entry as its variable, for tf_read_object_graph; USER is a struct naming. A
 * name that two entries would have is given to neither. */
static ckpt_status name_by_variable(void *user, ckpt_str key, ckpt_str variable, ckpt_error *err)
{
    struct naming *n = user;
    uint32_t at = map_get(n->entry_of, key), first;
    if (at == MAP_NONE)
        return CKPT_OK;
    struct entry *e = &n->b->entry[at];
    variable = arena_str(n->b->f->a, variable);
    if (!variable.ptr || !map_put(n->named, variable, at, &first))
        return fail_memory(err);
    if (first == MAP_NONE)
        e->name = variable;
    else if (first != at)
        name_by_path(&n->b->entry[first]);
    return CKPT_OK;
}

/* read_graph - sets *C to the text of entry E, the object graph, which lives as long as the file. */
static ckpt_status read_graph(struct bundle *b, const struct entry *e, cursor *c)
{
    struct shard *s;
    struct tf_bytes bytes;
    source *src = NULL;
    unsigned char *text = NULL;
    CKPT_TRY(find_bytes(b, e, &s, &bytes));
    if (!bytes.src)
        return CKPT_OK;
    if (e->size > b->f->limits.max_header)
        return fail(b->err, CKPT_ELIMIT, e->at,
                    "an object graph of {%" PRIu64 " bytes}; {=%" PRIu64 "} are allowed", e->size,
                    b->f->limits.max_header);
    file_budget(b->f, e->size);
    ckpt_status st = tf_strings_source(b->f->a, &bytes, 1, &src, b->err);
    if (st == CKPT_OK) {
        size_t n = (size_t)(src->size - 8); /* bounded: the length of the string is before it */
        text = arena_alloc(b->f->a, n);
        st = text ? source_read(src, 8, text, n, b->err) : fail_memory(b->err);
        *c = cursor_of(text, n, source_pos(bytes.src, bytes.at));
    }
    source_unref(src);
    if (st == CKPT_ECHECKSUM)
        error_replace_hint(b->err, "--names=object does without it");
    return name_file_if_failed(st, s->path, b->err);
}

static ckpt_status read_variables(struct naming *n)
{
    struct bundle *b = n->b;
    uint32_t at;
    cursor c = cursor_of("", 0, 0);
    n->entry_of = map_new(b->n);
    n->named = map_new(b->n);
    if (!n->entry_of || !n->named)
        return fail_memory(b->err);
    for (size_t i = 0; i < b->n; i++)
        if (!map_put(n->entry_of, b->entry[i].key, (uint32_t)i, NULL) ||
            !map_put(n->named, b->entry[i].name, (uint32_t)i, NULL))
            return fail_memory(b->err);
    at = map_get(n->entry_of, STR_LIT(OBJECT_GRAPH));
    if (at == MAP_NONE || b->entry[at].type->number != TF_STRING || b->entry[at].shape.ndim)
        return CKPT_OK;
    CKPT_TRY(read_graph(b, &b->entry[at], &c));
    return tf_read_object_graph(c, name_by_variable, n, b->err);
}

/* name_entries - names the entries as ckpt_limits.names requires. */
static ckpt_status name_entries(struct bundle *b)
{
    struct naming n = {.b = b};
    ckpt_status st = CKPT_OK;
    if (b->f->limits.names == CKPT_NAMES_STORED)
        return CKPT_OK;
    for (size_t i = 0; i < b->n; i++)
        name_by_path(&b->entry[i]);
    if (b->f->limits.names == CKPT_NAMES_VARIABLE)
        st = read_variables(&n);
    map_free(n.entry_of);
    map_free(n.named);
    if (st != CKPT_OK)
        error_add_position(b->err, 0, STR_LIT(OBJECT_GRAPH));
    return st;
}

static ckpt_status index_slices(struct bundle *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (is_slice(b->entry[i].key) && !map_put(b->slice_of, b->entry[i].key, (uint32_t)i, NULL))
            return fail_memory(b->err);
    return CKPT_OK;
}

static ckpt_status add_tensors(struct bundle *b)
{
    CKPT_TRY(index_slices(b));
    CKPT_TRY(name_entries(b));
    table_reserve(&b->f->table, b->n);
    for (size_t i = 0; i < b->n; i++) {
        if (is_slice(b->entry[i].key))
            continue;
        uint32_t row = (uint32_t)b->f->table.nrows;
        struct kit_tensor t = {.name = b->entry[i].name, .entry = b->entry[i].at};
        ckpt_status st = add_tensor(b, &b->entry[i], &t);
        if (st == CKPT_OK && str_is(b->entry[i].key, OBJECT_GRAPH))
            b->f->object_graph = row;
        CKPT_TRY(st == CKPT_OK ? st : kit_add_faulty(&b->k, &t, st));
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ all */

static bool probe(const struct probe *p) { return !p->directory && sstable_has_magic(p->src); }

/* set_base - sets the name of PREFIX to that of the file, without the suffix ".index" if it has it. */
static void set_base(struct bundle *b)
{
    b->base = str_after_last(str_c(b->f->path), '/');
    if (str_ends(b->base, STR_LIT(".index")))
        b->base.len -= strlen(".index"); /* bounded: it ends so */
}

static ckpt_status read_bundle(struct bundle *b)
{
    b->shard_of = map_new(16);
    b->slice_of = map_new(16);
    if (!b->shard_of || !b->slice_of || !part_file_set_folder(b->f))
        return fail_memory(b->err);
    CKPT_TRY(read_table(b));
    CKPT_TRY(kit_begin(&b->k, b->f, value_new(b->f->a, CKPT_V_DICT, 0), b->err));
    return kit_end(&b->k, add_tensors(b));
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct bundle b = {.f = f, .err = err};
    set_base(&b);
    ckpt_status st = read_bundle(&b);
    map_free(b.shard_of);
    map_free(b.slice_of);
    if (st != CKPT_OK && !err->file[0])
        error_add_position(err, 0, STR_LIT("table"));
    return st;
}

const struct format format_tf_bundle = {
    .name = "tf-v2", .title = "TensorFlow checkpoint", .flat = true, .probe = probe, .read = read};
