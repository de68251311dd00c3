/*
 * hdf5.c - reads HDF5 files (codec/hdf5.c) of Keras, h5py and the TensorFlow models of transformers:
 * .weights.h5, whole models as .h5 or .hdf5, tf_model.h5. A tensor's name is its path without the first '/',
 * as "model_weights/dense/dense/kernel:0". An attribute is the value "PATH@NAME", or "@NAME" if it is one of
 * the root. An array in an attribute is a list.
 *
 * The dtype of texts is "string", that of records is "struct", that of 16 opaque bytes is "V16". Two opaque
 * bytes are a bfloat16 if the data set has the attribute dtype = "bfloat16", which Keras writes. Chunks are
 * decoded, and their checksums are compared, when they are read.
 *
 * What HDF5 allows but Keras never writes (blosc2, references) is listed without data, with the reason in a
 * note. Soft and external links are values, and are not followed. Refused: data in other files.
 */
#include "codec/hdf5.h"
#include "core/check.h"
#include "format/keras/keras.h"
#include "format/recognize.h"

struct reading {
    struct kit *k;
    block_cache *cache;
    map *row_of; /* address of the object header of a data set -> its row */
    struct value {
        ckpt_str name;
        ckpt_value *value;
    } *values; /* added after all tensors, because a tensor keeps its name if a value has it, too */
    size_t nvalues, cap_values;
    size_t nrefused; /* data sets that cannot be read */
    ckpt_str first_refused;
    const char *why_refused; /* why the data set FIRST_REFUSED cannot be read */
};

/* ----------------------------------------------------------------------------- values */

static ckpt_status keep_value(struct reading *reading, ckpt_str name, ckpt_value *node)
{
    const struct value value = {name, node};
    bool kept = name.ptr && node && ARENA_PUSH(reading->k->f->a, reading, values, &value);
    return kept ? CKPT_OK : fail_memory(reading->k->err);
}

static ckpt_status take_attribute(void *user, ckpt_str path, ckpt_str name, ckpt_value *value,
                                  const char *why, ckpt_error *err)
{
    struct reading *r = user;
    ckpt_file *f = r->k->f;
    ckpt_str text;
    (void)err;
    if (!value) {
        file_notice(f, "attribute \"%.*s\" of \"/%.*s\" is left out: %s", STR_ARG(name), STR_ARG(path), why);
        return CKPT_OK;
    }
    if (!path.len && str_is(name, "keras_version") && value_text(value, &text) && !f->producer.len)
        f->producer = ARENA_CONCAT(f->a, STR_LIT("Keras "), text);
    return keep_value(r, ARENA_CONCAT(f->a, path, STR_LIT("@"), name), value);
}

static ckpt_status take_link(void *user, ckpt_str path, const char *kind, ckpt_str target, ckpt_error *err)
{
    struct reading *r = user;
    arena *a = r->k->f->a;
    (void)err;
    ckpt_str text = ARENA_CONCAT(a, str_c(kind), str_c(target.len ? " to " : ""), target);
    file_notice(r->k->f, "\"%.*s\" is not followed: %.*s", STR_ARG(path), STR_ARG(text));
    return keep_value(r, path, text.ptr ? value_str(a, text) : NULL);
}

/* add_values - adds the values, after all tensors. A value with the name of a tensor is left out. */
static ckpt_status add_values(struct reading *reading)
{
    for (size_t i = 0; i < reading->nvalues; i++) {
        const struct value *v = &reading->values[i];
        if (map_get(reading->k->names, v->name) != MAP_NONE)
            file_notice(reading->k->f, "\"%.*s\" is a tensor and an attribute: the attribute is left out",
                        STR_ARG(v->name));
        else
            CKPT_TRY(kit_add_value(reading->k, v->name, v->value));
    }
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- chunks */

/* Decodes the chunks to which the same filters were applied. */
struct decoder {
    struct hdf5_decoding how;
    struct block_decoder block_decoder;
    struct block *blocks; /* in the file's arena */
    size_t nblocks;
    source *src;
};

struct chunks {
    struct reading *reading;
    const struct hdf5_dataset *dataset;
    arena *a;                                         /* freed when the tensor was added */
    struct decoder *decoders[1u << HDF5_MAX_FILTERS]; /* index: get_skipped_filters of a chunk */
    struct piece *pieces;
};

static ckpt_status decode_chunk(void *user, source *stored, spool *to, ckpt_error *err)
{
    return hdf5_decode(user, stored, to, err);
}

/* get_skipped_filters - returns the filters of DATASET, as bits, that were not applied to chunk CHUNK. */
static uint32_t get_skipped_filters(const struct hdf5_dataset *dataset, const struct hdf5_chunk *chunk)
{
    return chunk->skipped_filters & ((1u << dataset->nfilters) - 1);
}

static bool is_stored_raw(const struct hdf5_dataset *dataset, const struct hdf5_chunk *chunk)
{
    return get_skipped_filters(dataset, chunk) == (1u << dataset->nfilters) - 1;
}

/* make_decoder - makes a decoder for those of CHUNKS to which just the filters SKIPPED were not applied. */
static ckpt_status make_decoder(struct chunks *chunks, uint32_t skipped)
{
    const struct hdf5_dataset *dataset = chunks->dataset;
    arena *a = chunks->reading->k->f->a;
    struct decoder *decoder = ARENA_NEW(a, struct decoder);
    struct hdf5_filter *filters = arena_array(a, HDF5_MAX_FILTERS, sizeof *filters);
    size_t n = 0;
    for (size_t i = 0; i < dataset->nchunks; i++)
        n += get_skipped_filters(dataset, &dataset->chunks[i]) == skipped;
    struct block *block = arena_array(a, n, sizeof *block);
    CKPT_TRY_ALLOC(decoder && filters && block, chunks->reading->k->err);
    memcpy(filters, dataset->filters, sizeof dataset->filters);
    decoder->how = (struct hdf5_decoding){filters, dataset->nfilters, skipped, dataset->chunk_bytes};
    decoder->block_decoder = (struct block_decoder){"HDF5 chunk", decode_chunk, &decoder->how};
    decoder->blocks = block;
    chunks->decoders[skipped] = decoder;
    return CKPT_OK;
}

static ckpt_status add_blocks_to_decode(struct chunks *chunks)
{
    const struct hdf5_dataset *dataset = chunks->dataset;
    for (size_t i = 0; i < dataset->nchunks; i++) {
        const struct hdf5_chunk *chunk = &dataset->chunks[i];
        uint32_t skipped = get_skipped_filters(dataset, chunk);
        if (is_stored_raw(dataset, chunk))
            continue;
        if (!chunks->decoders[skipped])
            CKPT_TRY(make_decoder(chunks, skipped));
        struct decoder *decoder = chunks->decoders[skipped];
        decoder->blocks[decoder->nblocks++] = (struct block){.src = dataset->src,
                                                             .offset = chunk->offset,
                                                             .stored = chunk->stored_size,
                                                             .size = dataset->chunk_bytes};
    }
    for (uint32_t i = 0; i < 1u << HDF5_MAX_FILTERS; i++)
        if (chunks->decoders[i])
            CKPT_TRY(source_blocks(chunks->reading->cache, chunks->decoders[i]->blocks,
                                   chunks->decoders[i]->nblocks, &chunks->decoders[i]->block_decoder,
                                   &chunks->decoders[i]->src, chunks->reading->k->err));
    return CKPT_OK;
}

/* set_pieces - sets a piece for each chunk: the part of it that is inside of the data set. */
static ckpt_status set_pieces(struct chunks *chunks)
{
    const struct hdf5_dataset *dataset = chunks->dataset;
    uint32_t rank = dataset->ndim;
    size_t used[1u << HDF5_MAX_FILTERS] = {0};
    const uint64_t *stride = kit_strides(chunks->a, dataset->chunk_shape, rank, false); /* of each chunk */
    uint64_t *size = arena_array(chunks->a, (uint64_t)dataset->nchunks * rank, sizeof *size);
    chunks->pieces = arena_array(chunks->a, dataset->nchunks, sizeof *chunks->pieces);
    CKPT_TRY_ALLOC(stride && size && chunks->pieces, chunks->reading->k->err);
    for (size_t i = 0; i < dataset->nchunks; i++, size += rank) {
        const uint64_t *offset = dataset->chunk_offsets + i * rank;
        uint32_t skipped = get_skipped_filters(dataset, &dataset->chunks[i]);
        for (uint32_t k = 0; k < rank; k++) {
            uint64_t left = dataset->shape[k] - offset[k];
            size[k] = left < dataset->chunk_shape[k] ? left : dataset->chunk_shape[k];
        }
        chunks->pieces[i] = (struct piece){.offset = offset, .size = size, .stride = stride};
        chunks->pieces[i].src = is_stored_raw(dataset, &dataset->chunks[i]) ? dataset->src
                                                                            : chunks->decoders[skipped]->src;
        chunks->pieces[i].at = is_stored_raw(dataset, &dataset->chunks[i])
                                   ? dataset->chunks[i].offset
                                   : chunks->decoders[skipped]->blocks[used[skipped]++].start;
        if (is_stored_raw(dataset, &dataset->chunks[i]) &&
            dataset->chunks[i].stored_size != dataset->chunk_bytes)
            return fail(
                chunks->reading->k->err, CKPT_EFORMAT, source_pos(dataset->src, dataset->chunks[i].offset),
                "a chunk of {%llu bytes}, it must have {=%llu}",
                (unsigned long long)dataset->chunks[i].stored_size, (unsigned long long)dataset->chunk_bytes);
    }
    return CKPT_OK;
}

/* has_checksum - returns true if the chunks of DATASET have checksums, those of zlib or fletcher32. */
static bool has_checksum(const struct hdf5_dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->nfilters; i++)
        if (dataset->filters[i].id == HDF5_DEFLATE || dataset->filters[i].id == HDF5_FLETCHER32)
            return true;
    return false;
}

/* set_conversion - sets how the stored elements of DATASET, in pieces of TENSOR, become those of its
 * dtype. */
static void set_conversion(const struct hdf5_dataset *dataset, struct kit_tensor *tensor)
{
    tensor->width = dataset->type.size;
    if (dataset->type.kind != HDF5_NUMBER || !dataset->type.is_converted)
        return;
    tensor->big_endian = false;
    tensor->convert = hdf5_numbers;
    tensor->how_to_convert = &dataset->type;
}

/* add_converted - adds TENSOR, whose elements in DATASET are contiguous, but not stored as those of its
 * dtype. */
static ckpt_status add_converted(struct reading *reading, const struct hdf5_dataset *dataset,
                                 struct kit_tensor *tensor)
{
    static const uint64_t origin[HDF5_MAX_RANK];
    const struct piece whole = {
        .offset = origin, .size = dataset->shape, .src = dataset->src, .at = dataset->data_offset};
    tensor->pieces = &whole;
    tensor->npieces = 1;
    set_conversion(dataset, tensor);
    return kit_add_tensor(reading->k, tensor);
}

/* add_chunked - adds TENSOR, the data set DATASET, which is chunked or unwritten. Elements that are not
 * stored have the fill value. */
static ckpt_status add_chunked(struct reading *reading, const struct hdf5_dataset *dataset,
                               struct kit_tensor *tensor)
{
    static const struct piece none;
    struct chunks chunks = {.reading = reading, .dataset = dataset, .a = arena_new(UINT64_MAX)};
    ckpt_status st = chunks.a ? add_blocks_to_decode(&chunks) : fail_memory(reading->k->err);
    if (st == CKPT_OK && dataset->nchunks)
        st = set_pieces(&chunks);
    if (st == CKPT_OK) {
        tensor->pieces = dataset->nchunks ? chunks.pieces : &none;
        tensor->npieces = dataset->nchunks;
        tensor->fill = dataset->fill;
        set_conversion(dataset, tensor);
        tensor->checks_itself = has_checksum(dataset);
        st = kit_add_tensor(reading->k, tensor);
    }
    for (uint32_t i = 0; i < 1u << HDF5_MAX_FILTERS; i++)
        if (chunks.decoders[i])
            source_unref(chunks.decoders[i]->src);
    arena_free(chunks.a);
    return st;
}

/* ---------------------------------------------------------------------------- tensors */

static bool set_dtype(arena *a, const struct hdf5_dataset *dataset, struct kit_tensor *tensor)
{
    const struct hdf5_type *type = &dataset->type;
    tensor->t.dtype = CKPT_DT_NAMED;
    tensor->t.nbytes = dataset->nbytes;
    tensor->big_endian = type->big_endian;
    switch (type->kind) {
    case HDF5_NUMBER: tensor->t.dtype = (uint16_t)type->dtype; break;
    case HDF5_LONGDOUBLE: tensor->t.dtype_name = "float128"; break;
    case HDF5_FIXED_TEXT:
    case HDF5_TEXT: tensor->t.dtype_name = "string"; break;
    case HDF5_OPAQUE: tensor->t.dtype_name = arena_printf(a, "V%u", type->size).ptr; break;
    case HDF5_RECORD:
        tensor->t.dtype_name = "struct";
        tensor->t.note = ARENA_CONCAT(a, STR_LIT("fields "), type->what);
        break;
    default: tensor->t.dtype = CKPT_DT_NONE; break;
    }
    return tensor->t.dtype != CKPT_DT_NAMED ||
           (tensor->t.dtype_name && (type->kind != HDF5_RECORD || tensor->t.note.ptr));
}

static ckpt_status add_row_without_data(struct reading *reading, const struct hdf5_dataset *dataset,
                                        struct kit_tensor *tensor)
{
    if (!dataset->is_null) {
        tensor->t.kind = CKPT_OPAQUE;
        tensor->t.note = arena_str(reading->k->f->a, str_c(dataset->why_unreadable));
        reading->first_refused = reading->nrefused++ ? reading->first_refused : dataset->path;
        reading->why_refused = reading->why_refused ? reading->why_refused : tensor->t.note.ptr;
        CKPT_TRY_ALLOC(tensor->t.note.ptr, reading->k->err);
    } else {
        tensor->t.note = STR_LIT("null dataspace");
        tensor->has_no_shape = true;
    }
    return kit_add_tensor(reading->k, tensor);
}

/* add_bytes - adds TENSOR with the bytes of SRC, and releases SRC. SRC NULL: fails for lack of memory. */
static ckpt_status add_bytes(struct reading *reading, struct kit_tensor *tensor, source *src)
{
    CKPT_TRY_ALLOC(src, reading->k->err);
    tensor->src = src;
    ckpt_status st = kit_add_tensor(reading->k, tensor);
    source_unref(src);
    return st;
}

static ckpt_status add_tensor(struct reading *reading, struct hdf5_dataset *dataset,
                              struct kit_tensor *tensor)
{
    CKPT_TRY_ALLOC(set_dtype(reading->k->f->a, dataset, tensor), reading->k->err);
    if (dataset->why_unreadable || dataset->is_null)
        return add_row_without_data(reading, dataset, tensor);
    if (dataset->texts.ptr) {
        tensor->t.nbytes = dataset->texts.len;
        tensor->nbytes = dataset->texts.len;
        return add_bytes(reading, tensor, source_mem(dataset->texts.ptr, dataset->texts.len, CKPT_NO_OFFSET));
    }
    if (dataset->is_unwritten)
        tensor->t.note = STR_LIT("unwritten");
    if (dataset->nbytes && (dataset->is_chunked || dataset->is_unwritten))
        return add_chunked(reading, dataset, tensor);
    if (dataset->nbytes && dataset->type.is_converted)
        return add_converted(reading, dataset, tensor);
    tensor->src = dataset->src;
    tensor->src_offset = dataset->nbytes ? dataset->data_offset : 0;
    tensor->nbytes = dataset->nbytes;
    return kit_add_tensor(reading->k, tensor);
}

static ckpt_status take_dataset(void *user, const struct hdf5_dataset *found, ckpt_error *err)
{
    struct reading *r = user;
    struct hdf5_dataset dataset = *found;
    struct kit_tensor t = {.name = dataset.path,
                           .described_at = source_pos(dataset.src, dataset.header_addr)};
    uint32_t row = (uint32_t)r->k->f->table.nrows, before = map_get_num(r->row_of, dataset.header_addr);
    if (before != MAP_NONE && !dataset.why_unreadable) /* row BEFORE is another hard link to it */
        t.key = table_name(&r->k->f->table, before);
    t.t.ndim = dataset.is_null ? 0 : dataset.ndim;
    t.t.shape = dataset.shape;
    CKPT_TRY(add_tensor(r, &dataset, &t));
    bool has_row = r->k->f->table.nrows > row; /* false: a duplicate name was reported */
    return !has_row || map_put_num(r->row_of, dataset.header_addr, row, NULL) ? CKPT_OK : fail_memory(err);
}

static ckpt_status take_fault(void *user, ckpt_str path, ckpt_status st, ckpt_error *err)
{
    struct reading *r = user;
    (void)path;
    return file_report_lost(r->k->f, st, str_c(err->where), err);
}

static ckpt_status read_objects(struct reading *reading, source *src)
{
    ckpt_file *f = reading->k->f;
    const struct hdf5_visitor visitor = {.user = reading,
                                         .max_unstored = f->limits.max_expanded,
                                         .on_dataset = take_dataset,
                                         .on_attribute = take_attribute,
                                         .on_link = take_link,
                                         .on_fault = take_fault};
    CKPT_TRY(hdf5_visit(src, f->a, &visitor, reading->k->err));
    CKPT_TRY(add_values(reading));
    if (reading->nrefused)
        file_notice(f, "%zu tensor%s cannot be read, such as \"%.*s\": %s", reading->nrefused,
                    reading->nrefused == 1 ? "" : "s", STR_ARG(reading->first_refused), reading->why_refused);
    return CKPT_OK;
}

ckpt_status keras_read_hdf5(struct kit *kit, source *src)
{
    struct reading r = {
        .k = kit, .cache = block_cache_new(BLOCKS_IN_MEMORY, BLOCKS_IN_FILE), .row_of = map_new(64)};
    ckpt_status st = r.cache && r.row_of ? read_objects(&r, src) : fail_memory(kit->err);
    block_cache_unref(r.cache);
    map_free(r.row_of);
    return st;
}

static bool probe(const struct probe *this_probe)
{
    return !this_probe->zip && recognize_as(this_probe, SIGN_HDF5);
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    file_raise_budget(f, f->src->size);
    CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    return kit_end(&k, keras_read_hdf5(&k, f->src));
}

const struct format format_hdf5 = {
    .name = "hdf5", .title = "HDF5", .flat = true, .probe = probe, .read = read};
