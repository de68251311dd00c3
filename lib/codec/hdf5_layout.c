/*
 * hdf5_layout.c - finds where the elements of an HDF5 data set are: contiguous or in chunks, and which
 * filters were applied to the chunks. A number after a field is its size in bytes, a number in parentheses
 * its value.
 *
 *   layout 3    class 1, then by class: 0 (compact): size 2, bytes; 1 (contiguous): address 8, size 8; 2
 *               (chunked): N 1, address 8, N sizes 4 each. N is rank + 1; the last size is that of an element
 *   layout 4, 5 chunked: flags 1, N 1, width 1, N sizes of that width each, kind of index 1 (1 single chunk,
 *               2 implicit, 3 fixed array, 4 extensible array, 5 B-tree), its parameters, address 8
 *   layout 1, 2 N 1 (rank, or rank + 1 if chunked), class 1, zeros 5, address 8 unless compact, N sizes 4
 *               each; then, if compact, size 4, bytes
 *   filters     version 1 (1, 2), number of filters 1; each: id 2, length of its name 2, flags 2, number of
 *               parameters 2, name, parameters 4 each
 *   fill value  version 1, …, size 4, an element
 *
 * Filters other than those of hdf5_filter.c make only the data set unreadable. Errors: elements in other
 * files (external storage, virtual data sets), more elements than the stored bytes can decode to, sizes that
 * contradict each other, bytes that belong to two data sets.
 */
#include "codec/hdf5_internal.h"

#define MAX_CHUNK     ((uint64_t)256 << 20) /* most bytes of a chunk that is decoded */
#define MAX_RAW_CHUNK ((uint64_t)1 << 40)   /* most bytes of a chunk without filters */
#define MAX_RATIO     1100u                 /* most bytes that are decoded from one byte; 1032 by deflate */
#define HAS_FILL      0x20u                 /* flag of a fill value message: it has a value */

/* Filters that are known by name only. */
static const struct {
    uint32_t id;
    const char *text;
} unreadable_filters[] = {
    {307, "compressed by bzip2 (filter 307)"},   {32013, "compressed by zfp (filter 32013)"},
    {32017, "compressed by SZ (filter 32017)"},  {32019, "compressed by fcidecomp (filter 32019)"},
    {32024, "compressed by SZ3 (filter 32024)"}, {32026, "compressed by blosc2 (filter 32026)"}};

/* get_filter_text - returns why data with filter ID cannot be read. */
static ckpt_status get_filter_text(struct hdf5 *hdf5, uint32_t id, const char **text)
{
    for (size_t i = 0; i < sizeof unreadable_filters / sizeof *unreadable_filters; i++)
        if (unreadable_filters[i].id == id) {
            *text = unreadable_filters[i].text;
            return CKPT_OK;
        }
    *text = arena_printf(hdf5->a, "compressed by filter %u, which is not read", id).ptr;
    return *text ? CKPT_OK : fail_memory(hdf5->err);
}

static bool is_supported(uint32_t id)
{
    switch (id) {
    case HDF5_DEFLATE:
    case HDF5_SHUFFLE:
    case HDF5_FLETCHER32:
    case HDF5_SZIP:
    case HDF5_NBIT:
    case HDF5_SCALEOFFSET:
    case HDF5_LZF:
    case HDF5_BLOSC:
    case HDF5_LZ4:
    case HDF5_BITSHUFFLE:
    case HDF5_ZSTD: return true;
    default: return false;
    }
}

static bool has_filter(const struct hdf5_dataset *dataset, uint32_t id)
{
    for (uint32_t i = 0; i < dataset->nfilters; i++)
        if (dataset->filters[i].id == id)
            return true;
    return false;
}

/* read_filter - adds to DATASET the next filter of IN, a message of VERSION. */
static ckpt_status read_filter(struct hdf5 *hdf5, cursor *in, unsigned version, struct hdf5_dataset *dataset)
{
    uint32_t id = cursor_u16(in), name_size = version == 1 || id >= 256 ? cursor_u16(in) : 0;
    (void)cursor_u16(in);
    uint32_t nparameters = cursor_u16(in);
    (void)cursor_take(in, version == 1 ? (name_size + 7u) & ~7u : name_size); /* version 1 pads to 8 bytes */
    cursor values = cursor_sub(in, 4 * (size_t)nparameters);
    (void)cursor_take(in, version == 1 && nparameters & 1 ? 4 : 0);
    if (in->bad)
        return hdf5_fail_short(hdf5, in, "a list of filters");
    if (dataset->why_unreadable)
        return CKPT_OK;
    if (!is_supported(id))
        return get_filter_text(hdf5, id, &dataset->why_unreadable);
    uint32_t *kept = arena_array(hdf5->a, nparameters > HDF5_MIN_VALUES ? nparameters : HDF5_MIN_VALUES,
                                 sizeof *kept);
    struct hdf5_filter f = {.id = (uint16_t)id, .nvalues = nparameters, .values = kept};
    CKPT_TRY_ALLOC(kept, hdf5->err);
    for (uint32_t i = 0; i < nparameters; i++)
        kept[i] = cursor_u32(&values);
    if (has_filter(dataset, id))
        return fail(hdf5->err, CKPT_EFORMAT, in->pos, "filter %u is applied {twice}, {=once} is allowed", id);
    /* for texts of variable length, libhdf5 writes a size of 0, and then cannot shuffle any chunk */
    if (id == HDF5_SHUFFLE && f.values[0] && f.values[0] != dataset->type.size)
        return fail(hdf5->err, CKPT_EFORMAT, in->pos,
                    "bytes are shuffled for elements of {%u bytes}, but these have {=%u}", f.values[0],
                    dataset->type.size);
    if (dataset->nfilters == HDF5_MAX_FILTERS)
        dataset->why_unreadable = "compressed by more than 6 filters";
    else
        dataset->filters[dataset->nfilters++] = f;
    return CKPT_OK;
}

static ckpt_status read_filters(struct hdf5 *hdf5, cursor in, struct hdf5_dataset *dataset)
{
    unsigned version = cursor_u8(&in), n = cursor_u8(&in);
    if (version != 1 && version != 2)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, in.pos,
                    "a list of filters of version {%u}; {=1 and 2} are read", version);
    if (version == 1)
        (void)cursor_take(&in, 6);
    for (unsigned i = 0; i < n; i++)
        CKPT_TRY(read_filter(hdf5, &in, version, dataset));
    return CKPT_OK;
}

/* read_fill - sets the fill value of DATASET, to zero if the file has none. */
static ckpt_status read_fill(struct hdf5 *hdf5, const struct hdf5_object *object,
                             struct hdf5_dataset *dataset)
{
    cursor c = object->fill.is_there ? object->fill.body : object->old_fill.body;
    unsigned char *fill = arena_alloc(hdf5->scratch, dataset->type.size);
    uint32_t n = 0;
    CKPT_TRY_ALLOC(fill, hdf5->err);
    dataset->fill = fill;
    if (object->fill.is_there) {
        unsigned version = cursor_u8(&c), flags = cursor_u8(&c);
        if (version < 3) {
            (void)cursor_take(&c, 1);
            flags = cursor_u8(&c) || version == 1 ? HAS_FILL : 0;
        }
        n = flags & HAS_FILL ? cursor_u32(&c) : 0;
    } else if (object->old_fill.is_there) {
        n = cursor_u32(&c);
    }
    const unsigned char *b = n == dataset->type.size ? cursor_take(&c, n) : NULL;
    if (b)
        memcpy(fill, b, n);
    if (!b && n && n != UINT32_MAX)
        return fail(hdf5->err, CKPT_EFORMAT, c.pos, "a fill value has {%u bytes}, but an element has {=%u}",
                    n, dataset->type.size);
    return CKPT_OK;
}

/* fail_bomb - fails because DECLARED bytes are more than can be decoded from STORED bytes. */
static ckpt_status fail_bomb(struct hdf5 *hdf5, uint64_t pos, uint64_t declared, uint64_t stored)
{
    return fail(
        hdf5->err, CKPT_ELIMIT, pos,
        "its sizes declare {%llu bytes}, but {=%llu} are stored\n"
        "loading the file may take all memory, and Keras refuses it; to read it, raise --max-expanded "
        "(max_expanded in ckpt_limits)",
        (unsigned long long)declared, (unsigned long long)stored);
}

/* compute_declared_bytes - sets *OUT to the size of all elements by shape and dtype; false: 2^64 or more. */
static bool compute_declared_bytes(const struct hdf5_dataset *dataset, uint64_t *out)
{
    *out = 0;
    return checked_product(dataset->shape, dataset->ndim, out) && checked_mul(*out, dataset->type.size, out);
}

/* count_stored_bytes - counts COUNT stored bytes of a data set. Fails if all data sets so far have more than
 * the file. */
static ckpt_status count_stored_bytes(struct hdf5 *hdf5, uint64_t count, uint64_t pos)
{
    if (count > hdf5->data_left)
        return fail(hdf5->err, CKPT_EFORMAT, pos,
                    "the data sets up to here have {more} bytes than {=the file}: some of them overlap");
    hdf5->data_left -= count;
    return CKPT_OK;
}

/* count_unstored_bytes - counts those of the DECLARED bytes of a data set that are more than the STORED bytes
 * can decode to. Fails if all data sets so far have more of them than a file of this size may have. */
static ckpt_status count_unstored_bytes(struct hdf5 *hdf5, uint64_t declared, uint64_t stored, uint64_t pos)
{
    uint64_t usual;
    if (!checked_mul(stored, MAX_RATIO, &usual) || usual >= declared)
        return CKPT_OK;
    if (declared - usual > hdf5->unstored_left)
        return fail_bomb(hdf5, pos, declared, stored);
    hdf5->unstored_left -= declared - usual;
    return CKPT_OK;
}

/* set_range - makes the NBYTES bytes at AT the elements of DATASET. POS is the offset for errors. */
static ckpt_status set_range(struct hdf5 *hdf5, struct hdf5_dataset *dataset, uint64_t at, uint64_t nbytes,
                             uint64_t pos)
{
    uint64_t declared;
    if (!compute_declared_bytes(dataset, &declared))
        return fail(hdf5->err, CKPT_EFORMAT, pos, "its elements have {more} than {=2^64 bytes}");
    dataset->nbytes = declared;
    dataset->data_offset = at;
    if (!declared)
        return CKPT_OK;
    if (at == HDF5_NOWHERE) {
        dataset->is_unwritten = true;
        return count_unstored_bytes(hdf5, declared, 0, pos);
    }
    if (nbytes != declared)
        return fail(hdf5->err, CKPT_EFORMAT, pos, "{%llu bytes} are stored, dtype and shape take {=%llu}",
                    (unsigned long long)nbytes, (unsigned long long)declared);
    if (!range_within(at, nbytes, hdf5->src->size))
        return fail(hdf5->err, CKPT_ETRUNCATED, at,
                    "the data set needs {=%llu bytes}, the file has {%llu} there", (unsigned long long)nbytes,
                    (unsigned long long)(at < hdf5->src->size ? hdf5->src->size - at : 0));
    return count_stored_bytes(hdf5, nbytes, at);
}

/* set_chunk_shape - sets the shape of the chunks of DATASET from COUNT numbers of WIDTH bytes in IN: a size
 * for each dimension, then the bytes of an element. */
static ckpt_status set_chunk_shape(struct hdf5 *hdf5, cursor *in, uint32_t count, uint32_t width,
                                   struct hdf5_dataset *dataset)
{
    uint64_t max_bytes = dataset->nfilters ? MAX_CHUNK : MAX_RAW_CHUNK, bytes = dataset->type.size;
    uint64_t *shape = arena_array(hdf5->scratch, HDF5_MAX_RANK, sizeof *shape);
    bool valid = dataset->ndim && count == dataset->ndim + 1;
    CKPT_TRY_ALLOC(shape, hdf5->err);
    for (uint32_t i = 0; i < dataset->ndim && valid; i++) {
        shape[i] = cursor_number(in, width);
        valid = shape[i] && checked_mul(bytes, shape[i], &bytes) && bytes <= max_bytes;
    }
    uint64_t element_size = cursor_number(in, width);
    dataset->is_chunked = true;
    dataset->chunk_shape = shape;
    dataset->chunk_bytes = bytes;
    if (in->bad || !valid || element_size != dataset->type.size)
        return fail(hdf5->err, CKPT_EFORMAT, in->pos,
                    "chunks have {rank %u, %llu bytes, elements of %llu}; {=rank %u, up to %llu, %u} are "
                    "allowed",
                    count ? count - 1u : 0, (unsigned long long)bytes, (unsigned long long)element_size,
                    dataset->ndim, (unsigned long long)max_bytes, dataset->type.size);
    return CKPT_OK;
}

static ckpt_status read_chunked(struct hdf5 *hdf5, const struct hdf5_index *index,
                                struct hdf5_dataset *dataset, uint64_t pos)
{
    if (!compute_declared_bytes(dataset, &dataset->nbytes))
        return fail(hdf5->err, CKPT_EFORMAT, pos, "its elements have {more} than {=2^64 bytes}");
    if (dataset->why_unreadable || !dataset->nbytes)
        return CKPT_OK;
    if (index->addr != HDF5_NOWHERE)
        CKPT_TRY(hdf5_read_chunks(hdf5, index, dataset));
    uint64_t stored = 0, decoded = 0;
    for (size_t i = 0; i < dataset->nchunks; i++)
        stored += dataset->chunks[i].stored_size; /* each is in the file, and has an entry there */
    CKPT_TRY(count_stored_bytes(hdf5, stored, pos));
    CKPT_TRY(count_unstored_bytes(hdf5, dataset->nbytes, stored, pos));
    /* the chunks at the edges may have elements outside of the data set, but not many */
    if (!checked_mul(dataset->nchunks, dataset->chunk_bytes, &decoded) ||
        decoded / 8 > dataset->nbytes + ((uint64_t)32 << 20))
        return fail_bomb(hdf5, pos, decoded, dataset->nbytes);
    dataset->is_unwritten = dataset->nchunks == 0;
    return CKPT_OK;
}

static ckpt_status read_layout3(struct hdf5 *hdf5, cursor in, struct hdf5_dataset *dataset, unsigned class)
{
    uint64_t pos = in.pos;
    if (class == 0) {
        uint32_t n = cursor_u16(&in);
        return in.left < n ? hdf5_fail_short(hdf5, &in, "a compact data set")
                           : set_range(hdf5, dataset, in.pos, n, pos);
    }
    if (class == 1) {
        uint64_t at = cursor_u64(&in), n = cursor_u64(&in);
        return in.bad ? hdf5_fail_short(hdf5, &in, "a layout") : set_range(hdf5, dataset, at, n, pos);
    }
    uint32_t n = cursor_u8(&in);
    struct hdf5_index index = {.kind = HDF5_BTREE1, .addr = cursor_u64(&in)};
    CKPT_TRY(set_chunk_shape(hdf5, &in, n, 4, dataset));
    return read_chunked(hdf5, &index, dataset, pos);
}

/* get_size_width - returns how many bytes the stored size of a chunk of DATASET has in an index: one more
 * than the size of a decoded chunk needs, and in layouts from version 5 on always 8. */
static uint32_t get_size_width(const struct hdf5_dataset *dataset, unsigned version)
{
    uint32_t width = 2 + hdf5_get_log2(dataset->chunk_bytes) / 8;
    return !dataset->nfilters ? 0 : version > 4 || width > 8 ? 8 : width;
}

/* read_layout4 - reads a layout of VERSION 4 or 5, in which chunks have one of the newer indexes. */
static ckpt_status read_layout4(struct hdf5 *hdf5, cursor in, unsigned version, const uint64_t *max_shape,
                                struct hdf5_dataset *dataset)
{
    static const struct {
        uint8_t kind, parameters; /* bytes between the kind and the address, which are in the index, too */
    } kinds[] = {[1] = {HDF5_SINGLE, 0},
                 [2] = {HDF5_IMPLICIT, 0},
                 [3] = {HDF5_FIXED_ARRAY, 1},
                 [4] = {HDF5_EXTENSIBLE_ARRAY, 5},
                 [5] = {HDF5_BTREE2, 6}};
    uint64_t pos = in.pos;
    unsigned flags = cursor_u8(&in);
    uint32_t n = cursor_u8(&in), width = cursor_u8(&in);
    if (width < 1 || width > 8)
        return fail(hdf5->err, CKPT_EFORMAT, pos,
                    "the sizes of a chunk have {%u bytes} each, {=1 to 8} are allowed", width);
    CKPT_TRY(set_chunk_shape(hdf5, &in, n, width, dataset));
    unsigned kind = cursor_u8(&in);
    if (!in.bad && (kind < 1 || kind > 5))
        return fail(hdf5->err, CKPT_EFORMAT, pos, "an index of chunks is of kind {%u}, but {=1 to 5} exist",
                    kind);
    struct hdf5_index index = {.kind = kinds[in.bad ? 1 : kind].kind,
                               .max_shape = max_shape,
                               .size_width = get_size_width(dataset, version),
                               .edges_are_unfiltered = flags & 1,
                               .single_size = dataset->chunk_bytes};
    (void)cursor_take(&in, kinds[in.bad ? 1 : kind].parameters);
    if (kind == 1 && flags & 2) {
        index.single_size = cursor_u64(&in);
        index.single_skipped_filters = cursor_u32(&in);
    }
    index.addr = cursor_u64(&in);
    return in.bad ? hdf5_fail_short(hdf5, &in, "a layout") : read_chunked(hdf5, &index, dataset, pos);
}

/* read_old_layout - reads a layout message of version 1 or 2. */
static ckpt_status read_old_layout(struct hdf5 *hdf5, cursor in, struct hdf5_dataset *dataset)
{
    uint64_t pos = in.pos, declared;
    uint32_t n = cursor_u8(&in), class = cursor_u8(&in);
    (void)cursor_take(&in, 5);
    uint64_t addr = class == 0 ? 0 : cursor_u64(&in);
    struct hdf5_index index = {.kind = HDF5_BTREE1, .addr = addr};
    if (class == 2) {
        CKPT_TRY(set_chunk_shape(hdf5, &in, n, 4, dataset));
        return read_chunked(hdf5, &index, dataset, pos);
    }
    (void)cursor_take(&in, 4 * (size_t)n);
    if (class == 1)
        return in.bad ? hdf5_fail_short(hdf5, &in, "a layout")
                      : set_range(hdf5, dataset, addr,
                                  compute_declared_bytes(dataset, &declared) ? declared : 0, pos);
    uint32_t size = cursor_u32(&in);
    if (in.bad || class > 2 || in.left < size)
        return hdf5_fail_short(hdf5, &in, "a layout");
    return set_range(hdf5, dataset, in.pos, size, pos);
}

const char *hdf5_find_other_files(const struct hdf5_object *object)
{
    cursor c = object->layout.body;
    unsigned version = cursor_u8(&c), class = cursor_u8(&c);
    if (object->has_external_data)
        return "external storage";
    return version >= 3 && version <= 5 && !c.bad && class == 3 ? "virtual data set" : NULL;
}

ckpt_status hdf5_read_layout(struct hdf5 *hdf5, const struct hdf5_object *object, const uint64_t *max_shape,
                             struct hdf5_dataset *dataset)
{
    cursor c = object->layout.body;
    uint64_t pos = c.pos;
    unsigned version = cursor_u8(&c);
    const char *other_files = hdf5_find_other_files(object);
    dataset->in_other_files = other_files != NULL;
    if (other_files)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, pos,
                    "its elements are {in other files} (%s); only those {=in this file} are read",
                    other_files);
    if (object->filters.is_there)
        CKPT_TRY(read_filters(hdf5, object->filters.body, dataset));
    CKPT_TRY(read_fill(hdf5, object, dataset));
    if (version == 1 || version == 2)
        return read_old_layout(hdf5, c, dataset);
    unsigned class = cursor_u8(&c);
    if (version < 1 || version > 5 || class > 2)
        return fail(hdf5->err, CKPT_EUNSUPPORTED, pos,
                    "a layout of version {%u}, class %u; {=1 to 5} are read", version, class);
    return version > 3 && class == 2 ? read_layout4(hdf5, c, version, max_shape, dataset)
                                     : read_layout3(hdf5, c, dataset, class);
}
