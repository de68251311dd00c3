/*
 * saver.c - reads TensorFlow's first format of checkpoints, of tf.train.Saver up to 0.12 and with
 * write_version=V1 (tensorflow/core/util/saved_tensor_slice.proto, tensor_slice_writer.cc).
 *
 *   A table (codec/sstable.h) of SavedTensorSlices {1 meta, 2 data}:
 *     ""          meta: SavedTensorSliceMeta {1 tensor: SavedSliceMeta {1 name, 2 shape, 3 type, 4 slice},
 *                 2 versions}
 *     other keys  keys of slices (codec/tensorflow.c); data: SavedSlice {1 name, 2 slice,
 *                 3 data: TensorProto}
 *
 * Of TensorProto, only the values are set, in the field for their type (codec/tensorflow.def), as packed
 * numbers: floats in binary, integers as varints, half-precision numbers as their bits, complex numbers as
 * pairs. Of a sharded checkpoint, each file NAME-00000-of-00003 … is such a table with some of the slices;
 * opening the first opens all.
 *
 * Numbers are decoded when they are read, a slice at a time; strings are decoded when the file is opened.
 * Refused: more or fewer values than the slice has elements, values that its type cannot hold, slices that
 * overlap or do not cover their tensor.
 */
#include <inttypes.h>

#include "base/store.h"
#include "codec/protobuf.h"
#include "codec/sstable.h"
#include "core/check.h"
#include "format/files/checkpoint_names.h"
#include "format/files/path.h"
#include "format/parts/part_files.h"
#include "format/tensorflow/tensorflow.h"
#include "io/block_cache.h"

struct saved_slice {
    const struct sstable *table;
    const struct tf_dtype *type;
    struct tf_slice box; /* which elements of the tensor it has */
    uint64_t elements;
    ckpt_str key;       /* in TABLE */
    struct block block; /* with DECODER: makes a source of its elements */
    struct block_decoder decoder;
};

struct saved_tensor {
    ckpt_str name;
    const struct tf_dtype *type;
    struct tf_shape shape;
    struct saved_slice **slices;
    size_t nslices, cap;
    uint64_t described_at; /* offset of its shape in the table, for errors */
};

struct saver {
    ckpt_file *f;
    ckpt_error *err;
    struct kit k;
    block_cache *cache;
    struct saved_tensor *tensors;
    size_t ntensors, cap;
    map *tensor_index;
};

/* -------------------------------------------------------------------------- values */

/* Where decoded values are written, little-endian. */
struct values {
    const struct tf_dtype *type;
    spool *to;
    uint64_t count; /* numbers so far; a complex number counts as two */
    ckpt_error *err;
};

static ckpt_status put_number(struct values *values, uint64_t bits, uint8_t width)
{
    unsigned char b[8];
    store_u64le(b, bits);
    values->count++;
    return spool_write(values->to, b, width, values->err);
}

/* fits_type - returns true if NUMBER, an integer that protobuf extends to 64 bits, is in the range of
 * TYPE. */
static bool fits_type(const struct tf_dtype *type, uint64_t number)
{
    bool is_signed = strchr("iq", type->name[0]) && type->name[1] != 'u'; /* int8, qint8, not quint8 */
    unsigned bits = 8u * type->width;
    if (bits == 64)
        return true;
    if (!is_signed)
        return number >> bits == 0;
    int64_t x = (int64_t)number, max = (INT64_C(1) << (bits - 1)) - 1;
    return x >= -max - 1 && x <= max;
}

/* put_integer - appends NUMBER, a varint of the field at POS. Refuses what is not in the range of the
 * type. */
static ckpt_status put_integer(struct values *values, uint64_t number, uint64_t pos)
{
    return fits_type(values->type, number)
               ? put_number(values, number, values->type->width)
               : fail(values->err, CKPT_EFORMAT, pos, "the value {%" PRId64 "} is not {=a %s}",
                      (int64_t)number, values->type->name);
}

static ckpt_status put_varints(struct values *values, cursor in)
{
    uint64_t pos = in.pos;
    while (in.left && !in.bad) {
        uint64_t x = cursor_varint(&in);
        CKPT_TRY(in.bad ? CKPT_OK : put_integer(values, x, pos));
    }
    return in.bad ? fail(values->err, CKPT_EFORMAT, pos, "{malformed} {=values}") : CKPT_OK;
}

/* The fields of TensorProto with floating-point values; a complex number is two values. */
enum { FLOAT_VAL = 5, DOUBLE_VAL = 6, SCOMPLEX_VAL = 9, DCOMPLEX_VAL = 12 };

/* get_float_width - returns how many bytes a value of DTYPE takes, or 0 if values are stored as varints. */
static uint8_t get_float_width(const struct tf_dtype *dtype)
{
    return dtype->field == FLOAT_VAL || dtype->field == SCOMPLEX_VAL    ? 4
           : dtype->field == DOUBLE_VAL || dtype->field == DCOMPLEX_VAL ? 8
                                                                        : 0;
}

static ckpt_status put_packed(struct values *values, cursor in)
{
    uint8_t width = get_float_width(values->type);
    if (!width)
        return put_varints(values, in);
    if (in.left % width)
        return fail(values->err, CKPT_EFORMAT, in.pos, "{%zu bytes} of numbers of {=%u bytes} each", in.left,
                    width);
    values->count += in.left / width;
    return spool_write(values->to, in.p, in.left, values->err);
}

/* put_string - appends a string in the form of tf_strings_source: its length, then its bytes. */
static ckpt_status put_string(struct values *values, cursor in)
{
    CKPT_TRY(put_number(values, in.left, 8));
    return spool_write(values->to, in.p, in.left, values->err);
}

static ckpt_status put_tensor_proto(struct values *values, cursor in)
{
    struct proto_field f;
    uint8_t width = get_float_width(values->type);
    uint64_t pos = in.pos;
    while (proto_next(&in, &f)) {
        if (f.number != values->type->field)
            continue;
        if (f.wire == PROTO_BYTES)
            CKPT_TRY(values->type->number == TF_STRING ? put_string(values, f.bytes)
                                                       : put_packed(values, f.bytes));
        else
            CKPT_TRY(width ? put_number(values, f.value, width) : put_integer(values, f.value, pos));
    }
    return in.bad ? fail(values->err, CKPT_EFORMAT, pos, "{malformed} {=tensor}") : CKPT_OK;
}

/* find_message - returns the message in field NUMBER of the message IN; empty if IN has no such field. */
static cursor find_message(cursor in, uint64_t number)
{
    struct proto_field f;
    cursor found = cursor_of(NULL, 0, in.pos);
    while (proto_next(&in, &f))
        if (proto_is(&f, number, PROTO_BYTES))
            found = f.bytes;
    found.bad = in.bad;
    return found;
}

/* put_slice - appends the values of SLICE to TO. VALUE is its entry in the table. */
static ckpt_status put_slice(const struct saved_slice *slice, cursor value, spool *to, ckpt_error *err)
{
    struct values values = {.type = slice->type, .to = to, .err = err};
    bool is_complex = slice->type->field == SCOMPLEX_VAL || slice->type->field == DCOMPLEX_VAL;
    uint64_t want = slice->elements * (is_complex ? 2 : 1);
    CKPT_TRY(put_tensor_proto(&values, find_message(find_message(value, 2), 3)));
    return values.count == want ? CKPT_OK
                                : fail(err, CKPT_EFORMAT, value.pos,
                                       "{%" PRIu64 " values} for {=%" PRIu64 "}", values.count, want);
}

/* decode_slice - writes the elements of the slice USER to TO, for source_blocks; STORED is not used. */
static ckpt_status decode_slice(void *user, source *stored, spool *to, ckpt_error *err)
{
    const struct saved_slice *slice = user;
    struct sstable_block b;
    ckpt_str key = {"", 0};
    cursor value;
    bool more = true, found = false;
    (void)stored;
    ckpt_status st = sstable_load(slice->table, sstable_find(slice->table, slice->key), &b, err);
    while (st == CKPT_OK && more && !found) {
        st = sstable_next(&b, &key, &value, &more, err);
        found = st == CKPT_OK && more && str_eq(key, slice->key);
    }
    CKPT_THEN(st, found ? put_slice(slice, value, to, err)
                        : fail(err, CKPT_ETRUNCATED, b.at,
                               "{=the values} of a slice are {missing} from the table"));
    sstable_unload(&b);
    return st;
}

/* ------------------------------------------------------------- the list of tensors */

static ckpt_status add_slice(struct saver *saver, const struct sstable *sstable, struct saved_tensor *tensor,
                             cursor in)
{
    arena *a = saver->f->a;
    struct saved_slice *slice = ARENA_NEW(a, struct saved_slice);
    buf key;
    CKPT_TRY_ALLOC(slice, saver->err);
    CKPT_TRY(tf_read_slice(a, in, &tensor->shape, &slice->box, saver->err));
    buf_init(&key, UINT32_MAX);
    tf_put_slice_key(&key, tensor->name, &slice->box, tensor->shape.ndim);
    slice->table = sstable;
    slice->type = tensor->type;
    slice->elements = tf_count_elements(&slice->box, tensor->shape.ndim);
    slice->key = buf_ok(&key) ? arena_str(a, buf_view(&key)) : str_of(NULL, 0);
    buf_free(&key);
    size_t at = slice->key.ptr ? sstable_find(sstable, slice->key) : 0;
    CKPT_TRY_ALLOC(slice->key.ptr, saver->err);
    if (at == sstable->nblocks)
        return fail(saver->err, CKPT_ETRUNCATED, in.pos,
                    "{=the values} of a slice are {missing} from the table");
    slice->block = (struct block){
        .src = sstable->src, .offset = sstable->blocks[at].offset, .stored = sstable->blocks[at].size};
    slice->decoder = (struct block_decoder){"saved slice", decode_slice, slice};
    return arena_push(a, &tensor->slices, &tensor->nslices, &tensor->cap, &slice, sizeof slice)
               ? CKPT_OK
               : fail_memory(saver->err);
}

/* find_tensor - sets *OUT to the tensor NAME. If no file had it so far, adds it and sets *NEW to true. */
static ckpt_status find_tensor(struct saver *saver, ckpt_str name, struct saved_tensor **out, bool *new)
{
    uint32_t at = map_get(saver->tensor_index, name);
    *new = at == MAP_NONE;
    if (!*new) {
        *out = &saver->tensors[at];
        return CKPT_OK;
    }
    struct saved_tensor *added = arena_append(saver->f->a, &saver->tensors, &saver->ntensors, &saver->cap,
                                              sizeof *added);
    ckpt_str kept = arena_str(saver->f->a, name);
    if (!added || !kept.ptr || !map_put(saver->tensor_index, kept, (uint32_t)(added - saver->tensors), NULL))
        return fail_memory(saver->err);
    *out = added;
    **out = (struct saved_tensor){.name = kept};
    return CKPT_OK;
}

/* set_type - sets dtype and shape of TENSOR if it is NEW, else compares them with those of earlier files. */
static ckpt_status set_type(struct saver *saver, struct saved_tensor *tensor, uint64_t type, cursor shape,
                            bool new)
{
    struct tf_shape found;
    const struct tf_dtype *dtype = tf_find_dtype(type);
    CKPT_TRY(tf_read_shape(saver->f->a, shape, &found, saver->err));
    if (!dtype || !dtype->field)
        return fail(saver->err, CKPT_EUNSUPPORTED, shape.pos,
                    "the dtype {%s} in a file of {=the first format}", dtype ? dtype->name : "unknown");
    if (new) {
        tensor->type = dtype;
        tensor->shape = found;
        tensor->described_at = shape.pos;
        return CKPT_OK;
    }
    bool same = tensor->type == dtype && tensor->shape.ndim == found.ndim;
    for (uint32_t i = 0; same && i < found.ndim; i++)
        same = tensor->shape.sizes[i] == found.sizes[i];
    return same ? CKPT_OK
                : fail(saver->err, CKPT_EFORMAT, shape.pos,
                       "has {a different dtype or shape} than in {=the shards before}");
}

/* read_tensor - adds the tensor that IN, a SavedSliceMeta of table SSTABLE, describes. */
static ckpt_status read_tensor(struct saver *saver, const struct sstable *sstable, cursor in)
{
    struct proto_field f;
    struct saved_tensor *tensor = NULL;
    ckpt_str name = {"", 0};
    uint64_t type = 0;
    bool new;
    cursor shape = cursor_of(NULL, 0, in.pos), slices = in;
    while (proto_next(&in, &f)) {
        if (proto_is(&f, 1, PROTO_BYTES))
            name = proto_text(&f);
        else if (proto_is(&f, 2, PROTO_BYTES))
            shape = f.bytes;
        else if (proto_is(&f, 3, PROTO_VARINT))
            type = f.value;
    }
    if (in.bad)
        return fail(saver->err, CKPT_EFORMAT, in.pos, "{malformed} {=tensor}");
    CKPT_TRY(find_tensor(saver, name, &tensor, &new));
    ckpt_status st = set_type(saver, tensor, type, shape, new);
    while (st == CKPT_OK && proto_next(&slices, &f))
        if (proto_is(&f, 4, PROTO_BYTES))
            st = add_slice(saver, sstable, tensor, f.bytes);
    return prefix_where_if_failed(st, name, saver->err);
}

static ckpt_status add_listed_tensors(struct saver *saver, const struct sstable *sstable)
{
    struct sstable_block b;
    struct proto_field f;
    ckpt_str key;
    cursor value;
    bool more;
    ckpt_status st = sstable_load(sstable, 0, &b, saver->err);
    CKPT_THEN(st, sstable_next(&b, &key, &value, &more, saver->err));
    if (st == CKPT_OK && (!more || key.len))
        st = fail(saver->err, CKPT_EFORMAT, b.at, "a table {without} {=a list of its tensors}");
    if (st == CKPT_OK) {
        file_raise_budget(saver->f, value.left);
        cursor meta = find_message(value, 1);
        while (st == CKPT_OK && proto_next(&meta, &f))
            if (proto_is(&f, 1, PROTO_BYTES))
                st = read_tensor(saver, sstable, f.bytes);
        if (st == CKPT_OK && meta.bad)
            st = fail(saver->err, CKPT_EFORMAT, b.at, "{malformed} {=list of tensors}");
    }
    sstable_unload(&b);
    return st;
}

/* ----------------------------------------------------------------------- the tensors */

/* decode_strings - sets *OUT to a source of the strings of TENSOR, which has one slice. */
static ckpt_status decode_strings(struct saver *saver, const struct saved_tensor *tensor, source **out)
{
    spool *to = spool_new(saver->f->limits.max_header);
    ckpt_status st = to ? decode_slice(tensor->slices[0], NULL, to, saver->err) : fail_memory(saver->err);
    if (st == CKPT_OK)
        *out = spool_source(to);
    else
        spool_free(to);
    return st;
}

static ckpt_status add_strings(struct saver *saver, const struct saved_tensor *tensor,
                               struct kit_tensor *added)
{
    if (tensor->nslices != 1 || tensor->slices[0]->elements != tensor->shape.elements) {
        added->t.note = STR_LIT("strings in slices are not read");
        return kit_add_tensor(&saver->k, added);
    }
    CKPT_TRY(decode_strings(saver, tensor, &added->src));
    added->src->serializes_reads = 1; /* elements have no common size */
    added->nbytes = added->t.nbytes = added->src->size;
    added->checks_itself = true;
    ckpt_status st = kit_add_tensor(&saver->k, added);
    source_unref(added->src);
    return st;
}

static ckpt_status add_numbers(struct saver *saver, struct saved_tensor *tensor, struct kit_tensor *added)
{
    struct piece *p = arena_array(saver->f->a, tensor->nslices, sizeof *p);
    ckpt_status st = p ? CKPT_OK : fail_memory(saver->err);
    size_t made = 0;
    for (; st == CKPT_OK && made < tensor->nslices; made++) {
        struct saved_slice *slice = tensor->slices[made];
        slice->block.size = slice->elements * tensor->type->width;
        p[made] = (struct piece){.offset = slice->box.offset, .size = slice->box.size};
        st = source_blocks(saver->cache, &slice->block, 1, &slice->decoder, &p[made].src, saver->err);
    }
    added->pieces = p;
    added->npieces = tensor->nslices;
    added->checks_itself = true;
    CKPT_THEN(st, kit_add_tensor(&saver->k, added));
    for (size_t i = 0; p && i < made; i++)
        source_unref(p[i].src);
    return st;
}

static ckpt_status add_tensors(struct saver *saver)
{
    for (size_t i = 0; i < saver->ntensors; i++) {
        struct saved_tensor *tensor = &saver->tensors[i];
        struct kit_tensor t = {.name = tensor->name, .described_at = tensor->described_at};
        ckpt_status st = tf_describe(saver->f, tensor->type, &tensor->shape, &t, saver->err);
        CKPT_THEN(st, tensor->type->number == TF_STRING ? add_strings(saver, tensor, &t)
                                                        : add_numbers(saver, tensor, &t));
        CKPT_TRY(st == CKPT_OK ? st : kit_add_faulty(&saver->k, &t, st));
    }
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- shards */

static ckpt_status read_table(struct saver *saver, source *src)
{
    struct sstable *t = ARENA_NEW(saver->f->a, struct sstable);
    CKPT_TRY_ALLOC(t, saver->err);
    CKPT_TRY(sstable_open(src, saver->f->a, t, saver->err));
    return t->nblocks ? add_listed_tensors(saver, t)
                      : fail(saver->err, CKPT_EFORMAT, CKPT_NO_OFFSET, "a table of {no} {=entries}");
}

/* read_shard - adds the tensors of the file NAME; FIRST is the first file of the set. */
static ckpt_status read_shard(struct saver *saver, ckpt_str first, ckpt_str name)
{
    ckpt_file *part = NULL;
    ckpt_status st = part_file_add(saver->f, first.ptr, name, &part, saver->err);
    if (st == CKPT_OK && !(st = read_table(saver, part->src)))
        return CKPT_OK;
    error_add_file(saver->err, part ? part->path : name.ptr);
    if (st == CKPT_ENOTFOUND && saver->f->check)
        return file_report_fault_as(saver->f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, saver->err);
    return file_report_lost(saver->f, st == CKPT_ENOTFOUND && saver->f->salvage ? CKPT_ETRUNCATED : st, name,
                            saver->err);
}

static ckpt_status read_other_shards(struct saver *saver, const struct shard_name *name)
{
    ckpt_str first = shard_name_make(saver->f->a, name, 0);
    for (uint64_t i = 1; i < name->count; i++) {
        ckpt_str shard = shard_name_make(saver->f->a, name, i);
        CKPT_TRY(first.ptr && shard.ptr ? read_shard(saver, first, shard) : fail_memory(saver->err));
    }
    return CKPT_OK;
}

static ckpt_status read_all(struct saver *saver)
{
    struct shard_name name;
    bool is_shard = shard_name_parse(name_of(saver->f), &name) && !name.ext.len;
    saver->tensor_index = map_new(64);
    saver->cache = block_cache_new(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE);
    CKPT_TRY_ALLOC(saver->tensor_index && saver->cache && part_file_set_folder(saver->f), saver->err);
    CKPT_TRY(read_table(saver, saver->f->src));
    if (is_shard && name.number == 0)
        CKPT_TRY(read_other_shards(saver, &name));
    else if (is_shard && name.count > 1)
        file_notice(saver->f, "one of %" PRIu64 " shards; %.*s-00000-of-%05" PRIu64 " stands for all of them",
                    name.count, STR_ARG(name.stem), name.count);
    CKPT_TRY(kit_begin(&saver->k, saver->f, value_new(saver->f->a, CKPT_V_DICT, 0), saver->err));
    return kit_end(&saver->k, add_tensors(saver));
}

/* ------------------------------------------------------------------------------ all */

/* begins_with_meta - returns true if the first entry of SSTABLE is a SavedTensorSlices. The first entry of a
 * bundle is another message, whose field 1 is a number. */
static bool begins_with_meta(const struct sstable *sstable)
{
    ckpt_error ignored;
    struct sstable_block b;
    struct proto_field f;
    ckpt_str key;
    cursor value;
    bool more, found = false;
    if (sstable_load(sstable, 0, &b, &ignored) == CKPT_OK &&
        sstable_next(&b, &key, &value, &more, &ignored) == CKPT_OK && more && !key.len)
        while (!found && proto_next(&value, &f))
            found = proto_is(&f, 1, PROTO_BYTES);
    sstable_unload(&b);
    return found;
}

/* is_saver_table - returns true if SRC can be opened as a table of TensorFlow's first format. */
static bool is_saver_table(source *src)
{
    ckpt_error ignored;
    struct sstable t;
    bool fits = src->size < UINT64_MAX >> 8;
    arena *a = arena_new(fits ? src->size * 16 + 65536 : UINT64_MAX);
    bool is_table = a && sstable_has_magic(src) && sstable_open(src, a, &t, &ignored) == CKPT_OK &&
                    t.nblocks && begins_with_meta(&t);
    arena_free(a);
    return is_table;
}

static bool probe(const struct probe *this_probe)
{
    return !this_probe->is_folder && is_saver_table(this_probe->src);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct saver s = {.f = f, .err = err};
    f->producer = STR_LIT("tf.train.Saver");
    ckpt_status st = read_all(&s);
    map_free(s.tensor_index);
    block_cache_unref(s.cache);
    if (st != CKPT_OK && !err->file[0])
        error_add_position(err, 0, STR_LIT("table"));
    return st;
}

const struct format format_tf_saver = {.name = "tf-v1",
                                       .title = "TensorFlow V1 checkpoint",
                                       .suffixes = ".ckpt",
                                       .flat = true,
                                       .probe = probe,
                                       .read = read};
