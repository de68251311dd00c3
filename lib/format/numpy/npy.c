/* npy.c - reads numpy's .npy: one array (codec/npy.h), which is the root and has no name.
 *
 *   OFFSET SIZE DESCRIPTION
 *   0      …    array
 *   …      …    more arrays, if numpy.save was called several times on one open file, as
 *               equinox.tree_serialise_leaves does; then the root is a list
 *   …      …    other bytes, which numpy.load ignores; they are reported
 *
 * ml_dtypes saves its types without their names: as "<V2", which only bfloat16 is, as "<f1", which only
 * float8_e5m2 is, and all others of one byte as "<V1", which void_dtypes of ckpt_limits can name.
 *
 * Refused: arrays of objects, which are a pickle; truncated arrays. */
#include "format/numpy/numpy.h"
#include "format/recognize.h"

static bool probe(const struct probe *this_probe) { return recognize_as(this_probe, SIGN_NPY); }

/* copy_array - copies dtype and shape of ARRAY to TENSOR. Allocates the copies in the arena of F, because the
 * arena of ARRAY is temporary. */
static ckpt_status copy_array(ckpt_file *f, const struct npy_array *array, struct kit_tensor *tensor,
                              ckpt_error *err)
{
    ckpt_dtype known = numpy_known_dtype(&array->dtype);
    uint64_t *shape = arena_array(f->a, array->ndim, sizeof *shape);
    CKPT_TRY_ALLOC(shape, err);
    for (uint32_t i = 0; i < array->ndim; i++)
        shape[i] = array->shape[i];
    tensor->t.dtype = (uint16_t)(known == CKPT_DT_NONE ? CKPT_DT_NAMED : known);
    tensor->t.ndim = array->ndim;
    tensor->t.shape = shape;
    if (known != CKPT_DT_NONE)
        return CKPT_OK;
    tensor->t.nbytes = array->nbytes;
    tensor->swap_bytes = numpy_swap_bytes(&array->dtype);
    tensor->t.dtype_name = numpy_dtype_text(f->a, &array->dtype);
    tensor->t.note = array->fields.len ? ARENA_CONCAT(f->a, STR_LIT("fields "), array->fields)
                                       : str_of("", 0);
    return tensor->t.dtype_name && tensor->t.note.ptr ? CKPT_OK : fail_memory(err);
}

/* set_void_dtype - sets the dtype that the user gives to the elements DTYPE without a dtype, if any. */
static ckpt_status set_void_dtype(const ckpt_file *f, struct numpy_dtype *dtype, ckpt_error *err)
{
    const char *name;
    CKPT_TRY(numpy_find_void_dtype(f->limits.void_dtypes, dtype->bytes, &name, err));
    dtype->extended = name ? name : dtype->extended;
    return CKPT_OK;
}

ckpt_status numpy_describe(ckpt_file *f, source *src, uint64_t offset, struct kit_tensor *tensor,
                           uint64_t *end, ckpt_error *err)
{
    struct npy_array x;
    arena *scratch = arena_new(f->limits.max_header);
    CKPT_TRY_ALLOC(scratch, err);
    *tensor = (struct kit_tensor){
        .src = src, .described_at = source_pos(src, offset), .nbytes = KIT_AS_NEEDED};
    ckpt_status st = npy_read_array(src, offset, scratch, &x, err);
    if (st == CKPT_OK && x.dtype.kind == 'V' && !x.dtype.record)
        st = set_void_dtype(f, &x.dtype, err);
    CKPT_THEN(st, copy_array(f, &x, tensor, err));
    if (st == CKPT_OK && x.holds_objects)
        st = fail(err, CKPT_EUNSUPPORTED, source_pos(src, x.data_offset),
                  "{an array of Python objects}: its elements are a pickle, which numpy would run\n"
                  "`ckpt scan FILE` shows what that would be");
    if (st == CKPT_OK) {
        tensor->src_offset = x.data_offset;
        tensor->column_major = x.fortran_order;
        tensor->big_endian = x.dtype.big_endian;
        if (!checked_add(x.data_offset, x.nbytes, end))
            *end = UINT64_MAX;
    }
    arena_free(scratch);
    return st;
}

static bool begins_array(source *src, uint64_t offset)
{
    ckpt_error ignored;
    unsigned char magic[NPY_MAGIC_SIZE];
    return offset <= src->size && src->size - offset >= sizeof magic &&
           source_read(src, offset, magic, sizeof magic, &ignored) == CKPT_OK &&
           memcmp(magic, NPY_MAGIC, sizeof magic) == 0;
}

/* read_arrays - adds TENSOR, the first array, and all arrays from END on. */
static ckpt_status read_arrays(struct kit *kit, struct kit_tensor *tensor, uint64_t end)
{
    source *src = kit->f->src;
    CKPT_TRY(kit_add_tensor(kit, tensor));
    while (begins_array(src, end)) {
        CKPT_TRY(numpy_describe(kit->f, src, end, tensor, &end, kit->err));
        CKPT_TRY(kit_add_tensor(kit, tensor));
    }
    if (end < src->size)
        file_notice(kit->f, "%llu bytes after the %s array are ignored",
                    (unsigned long long)(src->size - end),
                    kit->mapping->type == CKPT_V_LIST ? "last" : "only");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    struct kit_tensor t;
    uint64_t end;
    file_raise_budget(f, f->src->size);
    CKPT_TRY(position_if_failed(numpy_describe(f, f->src, 0, &t, &end, err), 0, STR_LIT("header"), err));
    bool several = begins_array(f->src, end);
    f->producer = STR_LIT("numpy.save");
    CKPT_TRY(kit_begin(&k, f, value_new(f->a, several ? CKPT_V_LIST : CKPT_V_TENSOR, 0), err));
    return kit_end(&k, read_arrays(&k, &t, end));
}

const struct format format_npy = {.name = "npy",
                                  .title = "numpy array",
                                  .suffixes = ".npy",
                                  .flat = true,
                                  .holds_dtype = numpy_has_dtype,
                                  .probe = probe,
                                  .read = read,
                                  .write = npy_write};
