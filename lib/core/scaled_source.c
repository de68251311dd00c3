/* scaled_source.c - see scaled_source.h. A read is divided into boxes: some complete rows, or a part of one.
 * For each box the codes are read and unpacked, then the scales of its rows and columns are read and applied.
 * A weight whose columns are stored as rows takes many small reads for one row, so its boxes are larger. */
#include "core/scaled_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/store.h"
#include "base/cursor.h"
#include "core/convert.h"
#include "core/elements.h"
#include "core/gather.h"
#include "core/tensor.h"

enum {
    BOX = 64 * 1024,             /* elements decoded at a time … */
    TRANSPOSED_BOX = 512 * 1024, /* … if columns are stored as rows */
    MAX_GROUPS = 1 << 22,        /* columns of scales, if each column names its own */
    TILE_ROWS = 128,
    TILE_COLS = 4,
    TILE = TILE_ROWS * TILE_COLS
};

struct matrix {
    source *src;                                              /* not owned: the file has it; NULL: absent */
    uint64_t data_offset, rows, cols, row_stride, col_stride; /* strides in elements */
    uint32_t storage;
    ckpt_dtype dtype;
    uint8_t swap_width;
    bool tiled;
};

struct scaled {
    source as_source;
    ckpt_file *file;
    struct scaled_recipe r;
    struct matrix codes, zero, scale, bias, group, nested;
    uint64_t box_rows; /* rows decoded at a time; 0: parts of one row */
    size_t box;        /* elements decoded at a time, at most */
    unsigned width;    /* bytes of a number */
};

/* A part of the weight or of its scales. */
struct box {
    uint64_t row, col, nrows, ncols;
};

/* ------------------------------------------------------------------ matrices */

static ckpt_status fail_part(const ckpt_file *file, uint32_t row, ckpt_status st, ckpt_error *err,
                             const char *what)
{
    (void)fail(err, st, CKPT_NO_OFFSET, "%s", what);
    error_add_where(err, "%.*s", STR_ARG(table_name(&file->table, row)));
    return st;
}

static bool is_contiguous(const ckpt_tensor *tensor)
{
    uint64_t step = 1;
    for (uint32_t k = tensor->ndim; tensor->stride && COUNT_DOWN(k); step *= tensor->shape[k])
        if (tensor->shape[k] != 1 && tensor->stride[k] != step)
            return false;
    return true;
}

/* set_strides - sets the strides of MATRIX, which is TENSOR with ROWS and COLS as FROM gives them; false:
 * TENSOR is strided in a way that is no matrix. */
static bool set_strides(struct matrix *matrix, const ckpt_tensor *tensor, const struct scaled_matrix *from)
{
    uint64_t first = from->transposed ? from->cols : from->rows;
    uint64_t second = from->transposed ? from->rows : from->cols, outer, inner;
    if (is_contiguous(tensor)) {
        outer = second;
        inner = 1;
    } else if (tensor->ndim == 2 && tensor->shape[0] == first && tensor->shape[1] == second) {
        outer = tensor->stride[0];
        inner = tensor->stride[1];
    } else {
        return false;
    }
    matrix->row_stride = from->transposed ? inner : outer;
    matrix->col_stride = from->transposed ? outer : inner;
    return true;
}

/* count_elements - sets *OUT to the number of elements that the tensor of FROM must have. */
static bool count_elements(const struct scaled_matrix *from, uint64_t *out)
{
    uint64_t rows = from->rows, cols = from->cols;
    if (from->tiled) {
        if (!checked_add(rows, TILE_ROWS - 1, &rows) || !checked_add(cols, TILE_COLS - 1, &cols))
            return false;
        rows -= rows % TILE_ROWS;
        cols -= cols % TILE_COLS;
    }
    return checked_mul(rows, cols, out);
}

static ckpt_status open_matrix(struct scaled *scaled, const struct scaled_matrix *from, struct matrix *matrix,
                               ckpt_error *err)
{
    const struct table *table = &scaled->file->table;
    uint64_t elements, end, bytes, offset;
    *matrix = (struct matrix){
        .rows = from->rows, .cols = from->cols, .dtype = from->dtype, .tiled = from->tiled};
    if (from->row == CKPT_NO_TENSOR)
        return CKPT_OK;
    const ckpt_tensor t = table_tensor(table, from->row);
    matrix->dtype = from->dtype ? from->dtype : (ckpt_dtype)t.dtype;
    const struct dtype_info *d = dtype_info(matrix->dtype), *stored = dtype_info((ckpt_dtype)t.dtype);
    bool has_bytes = (t.kind == CKPT_DENSE || t.kind == CKPT_NDARRAY || t.kind == CKPT_QUANTIZED) &&
                     t.has_data && t.storage < table->nstorages && table->storages[t.storage].src;
    if (!has_bytes || t.conj || t.neg)
        return fail_part(scaled->file, from->row, CKPT_EUNSUPPORTED, err, "is not a dense tensor with bytes");
    bool has_size = d->block_bytes == stored->block_bytes || (from->is_view && d->block_bytes);
    if (d->block_elems != 1 || stored->block_elems != 1 || !has_size)
        return fail_part(scaled->file, from->row, CKPT_EFORMAT, err, "does not have the dtype of its scheme");
    if (!count_elements(from, &elements) || !checked_mul(elements, d->block_bytes, &bytes) ||
        bytes != t.nbytes)
        return fail_part(scaled->file, from->row, CKPT_EFORMAT, err, "does not have the shape of its scheme");
    bool is_one_run = from->tiled || from->is_view;
    if (!set_strides(matrix, &t, from) || (is_one_run && !is_contiguous(&t)))
        return fail_part(scaled->file, from->row, CKPT_EUNSUPPORTED, err, "is a strided view");
    const struct storage *storage = &table->storages[t.storage];
    bool fits = tensor_view_end(&t, &end) && tensor_bytes(&t, end, &bytes) && bytes <= storage->nbytes &&
                tensor_bytes(&t, t.storage_offset, &offset) &&
                checked_add(storage->off, offset, &matrix->data_offset);
    if (!fits || (from->is_view && storage->swap_width))
        return fail_part(scaled->file, from->row, CKPT_EFORMAT, err, "reaches beyond its storage");
    matrix->src = storage->src;
    matrix->storage = t.storage;
    matrix->swap_width = storage->swap_width;
    return CKPT_OK;
}

/* read_raw - reads COUNT elements of MATRIX from element FIRST of its row-major order, little-endian. */
static ckpt_status read_raw(const struct matrix *matrix, uint64_t first, uint64_t count, unsigned char *out,
                            ckpt_error *err)
{
    struct element_transform swap;
    struct gather g = {.src = matrix->src, .data_offset = matrix->data_offset, .ndim = 2};
    g.width = dtype_info(matrix->dtype)->block_bytes;
    g.dim[0] = (struct gather_dim){matrix->rows, matrix->row_stride, matrix->cols};
    g.dim[1] = (struct gather_dim){matrix->cols, matrix->col_stride, 1};
    if (matrix->col_stride == 1 && matrix->row_stride == matrix->cols)
        gather_set_contiguous(&g, matrix->rows * matrix->cols);
    CKPT_TRY(element_transform_init(&swap, matrix->dtype, g.width, matrix->swap_width, false, false, err));
    ckpt_status st = gather_is_contiguous(&g)
                         ? source_read(matrix->src, matrix->data_offset + first * g.width, out,
                                       (size_t)(count * g.width), err)
                         : gather_read(&g, first, count, out, err);
    gather_free(&g);
    if (st == CKPT_OK && swap.swap_width)
        element_transform_apply(&swap, out, (size_t)(count * g.width));
    return st;
}

/* to_little_endian - makes the COUNT floats at IN little-endian, as convert_run takes them.
 * from_little_endian - makes what it returns numbers of this machine. */
static void to_little_endian(float *in, uint64_t count)
{
    for (uint64_t i = 0; i < count && !is_little_endian(); i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        store_u32le((unsigned char *)&in[i], bits);
    }
}

static void from_little_endian(float *in, uint64_t count)
{
    for (uint64_t i = 0; i < count && !is_little_endian(); i++)
        in[i] = float_of_bits(load_u32le((const unsigned char *)&in[i]));
}

/* read_floats - reads COUNT elements of MATRIX from element FIRST as floats. */
static ckpt_status read_floats(const struct matrix *matrix, uint64_t first, uint64_t count, float *out,
                               ckpt_error *err)
{
    struct conversion c;
    struct convert_tally ignored = {0};
    unsigned width = dtype_info(matrix->dtype)->block_bytes;
    if (!conversion_init(&c, matrix->dtype, CKPT_DT_F32))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s are no numbers",
                    ckpt_dtype_name(matrix->dtype));
    unsigned char *raw = malloc((size_t)count * width + 1);
    ckpt_status st = raw ? read_raw(matrix, first, count, raw, err) : fail_memory(err);
    if (st == CKPT_OK) {
        convert_run(&c, raw, (size_t)count, out, &ignored);
        from_little_endian(out, count);
    }
    free(raw);
    return st;
}

static ckpt_status read_tiled_box(const struct matrix *matrix, const struct box *box, float *out,
                                  ckpt_error *err)
{
    uint64_t per_row = (matrix->cols + TILE_COLS - 1) / TILE_COLS;
    uint64_t begin = box->col / TILE_COLS, end = (box->col + box->ncols - 1) / TILE_COLS + 1,
             read = UINT64_MAX;
    float *tiles = malloc((size_t)(end - begin) * TILE * sizeof *tiles);
    ckpt_status st = tiles ? CKPT_OK : fail_memory(err);
    for (uint64_t i = 0; st == CKPT_OK && i < box->nrows; i++) {
        uint64_t row = box->row + i, r = row % TILE_ROWS;
        if (row / TILE_ROWS != read) {
            read = row / TILE_ROWS;
            st = read_floats(matrix, (read * per_row + begin) * TILE, (end - begin) * TILE, tiles, err);
        }
        for (uint64_t k = 0; st == CKPT_OK && k < box->ncols; k++) {
            uint64_t tile = (box->col + k) / TILE_COLS - begin;
            out[i * box->ncols + k] =
                tiles[tile * TILE + r % 32 * 16 + r / 32 * 4 + (box->col + k) % TILE_COLS];
        }
    }
    free(tiles);
    return st;
}

static ckpt_status read_box(const struct matrix *matrix, const struct box *box, float *out, ckpt_error *err)
{
    if (matrix->tiled)
        return read_tiled_box(matrix, box, out, err);
    if (box->col == 0 && box->ncols == matrix->cols)
        return read_floats(matrix, box->row * matrix->cols, box->nrows * matrix->cols, out, err);
    for (uint64_t i = 0; i < box->nrows; i++)
        CKPT_TRY(read_floats(matrix, (box->row + i) * matrix->cols + box->col, box->ncols,
                             out + i * box->ncols, err));
    return CKPT_OK;
}

/* read_wide_box - reads box BOX of MATRIX, whose elements are float64. */
static ckpt_status read_wide_box(const struct matrix *matrix, const struct box *box, double *out,
                                 ckpt_error *err)
{
    bool has_full_rows = box->col == 0 && box->ncols == matrix->cols;
    uint64_t run = has_full_rows ? box->nrows * box->ncols : box->ncols, n = box->nrows * box->ncols;
    for (uint64_t i = 0; i < n; i += run)
        CKPT_TRY(read_raw(matrix, (box->row + i / box->ncols) * matrix->cols + box->col, run,
                          (unsigned char *)(out + i), err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = load_u64le((const unsigned char *)&out[i]);
        memcpy(&out[i], &bits, sizeof bits);
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------ codes */

static float number_of_code(const struct scaled_codes *codes, unsigned code)
{
    return codes->lookup ? codes->lookup[code] : (float)((int)code + codes->offset);
}

/* get_bits - returns the BITS bits from bit AT of BYTES, which has NBYTES. */
static unsigned get_bits(const unsigned char *bytes, size_t nbytes, uint64_t at, unsigned bits)
{
    size_t i = (size_t)(at / 8);
    unsigned word = bytes[i] | (i + 1 < nbytes ? (unsigned)bytes[i + 1] << 8 : 0);
    return word >> (at % 8) & ((1u << bits) - 1);
}

/* unpack_row - unpacks COUNT codes from the one at bit AT of BYTES. */
static void unpack_row(const struct scaled_codes *codes, const unsigned char *bytes, size_t nbytes,
                       uint64_t at, uint64_t count, float *out)
{
    float number[256];
    for (unsigned i = 0; i < 1u << codes->bits; i++)
        number[i] = number_of_code(codes, i);
    for (uint64_t k = 0; k < count; k++, at += codes->bits)
        out[k] = number[get_bits(bytes, nbytes, codes->high_first ? at ^ 4 : at, codes->bits)];
}

/* read_packed_cols - reads box BOX of codes whose rows are packed. */
static ckpt_status read_packed_cols(const struct scaled_codes *codes, const struct matrix *matrix,
                                    const struct box *box, float *out, ckpt_error *err)
{
    unsigned width = dtype_info(matrix->dtype)->block_bytes, unit = 8 * width;
    uint64_t first = box->col * codes->bits / unit; /* the bits of a row are in memory or the file */
    uint64_t end = ((box->col + box->ncols) * codes->bits + unit - 1) / unit, per_row = end - first;
    unsigned char *raw = malloc((size_t)(box->nrows * per_row) * width + 1);
    ckpt_status st = raw ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && per_row == matrix->cols)
        st = read_raw(matrix, box->row * matrix->cols, box->nrows * matrix->cols, raw, err);
    for (uint64_t i = 0; st == CKPT_OK && per_row != matrix->cols && i < box->nrows; i++)
        st = read_raw(matrix, (box->row + i) * matrix->cols + first, per_row, raw + i * per_row * width, err);
    for (uint64_t i = 0; st == CKPT_OK && i < box->nrows; i++)
        unpack_row(codes, raw + i * per_row * width, (size_t)per_row * width,
                   box->col * codes->bits - first * unit, box->ncols, out + i * box->ncols);
    free(raw);
    return st;
}

/* unpack_columns - unpacks box BOX from its words: ROWS rows of BOX->ncols words, the first of which has bit
 * AT of each column. */
static void unpack_columns(const struct scaled_codes *codes, const unsigned char *words,
                           const struct box *box, float *out)
{
    uint64_t first = box->row * codes->bits / 32, mask = (1u << codes->bits) - 1;
    for (uint64_t i = 0; i < box->nrows; i++) {
        uint64_t code = box->row + i;
        if (codes->order)
            code = code - code % 8 + codes->order[code % 8];
        uint64_t at = code * codes->bits - first * 32, shift = at % 32;
        const unsigned char *low = words + at / 32 * box->ncols * 4;
        for (uint64_t k = 0; k < box->ncols; k++) {
            uint64_t word = load_u32le(low + 4 * k);
            if (shift + codes->bits > 32)
                word |= (uint64_t)load_u32le(low + 4 * (box->ncols + k)) << 32;
            out[i * box->ncols + k] = number_of_code(codes, (unsigned)(word >> shift & mask));
        }
    }
}

/* read_packed_rows - reads box BOX of codes whose columns are packed in words of 32 bits. */
static ckpt_status read_packed_rows(const struct scaled_codes *codes, const struct matrix *matrix,
                                    const struct box *box, float *out, ckpt_error *err)
{
    uint64_t first = box->row * codes->bits / 32, end = ((box->row + box->nrows) * codes->bits + 31) / 32;
    unsigned char *words = malloc((size_t)((end - first) * box->ncols) * 4 + 1);
    ckpt_status st = words ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && box->ncols == matrix->cols)
        st = read_raw(matrix, first * matrix->cols, (end - first) * matrix->cols, words, err);
    for (uint64_t i = first; st == CKPT_OK && box->ncols != matrix->cols && i < end; i++)
        st = read_raw(matrix, i * matrix->cols + box->col, box->ncols, words + (i - first) * box->ncols * 4,
                      err);
    if (st == CKPT_OK)
        unpack_columns(codes, words, box, out);
    free(words);
    return st;
}

static unsigned count_stripes(const struct scaled_codes *codes, const struct matrix *matrix)
{
    return 8u * dtype_info(matrix->dtype)->block_bytes / codes->bits;
}

/* unpack_stripe - unpacks COUNT codes of stripe STRIPE from the elements at RAW. */
static void unpack_stripe(const struct scaled_codes *codes, const struct matrix *matrix, unsigned stripe,
                          const unsigned char *raw, uint64_t count, float *out)
{
    float number[256];
    unsigned width = dtype_info(matrix->dtype)->block_bytes, mask = (1u << codes->bits) - 1;
    unsigned shift = (codes->high_first ? count_stripes(codes, matrix) - 1 - stripe : stripe) * codes->bits;
    for (unsigned i = 0; i <= mask; i++)
        number[i] = number_of_code(codes, i);
    for (uint64_t k = 0; k < count; k++)
        out[k] = number[(width == 4 ? load_u32le(raw + 4 * k) : raw[k]) >> shift & mask];
}

/* read_stripes - reads box BOX of codes whose rows are packed in stripes. */
static ckpt_status read_stripes(const struct scaled_codes *codes, const struct matrix *matrix,
                                const struct box *box, float *out, ckpt_error *err)
{
    unsigned width = dtype_info(matrix->dtype)->block_bytes;
    unsigned char *raw = malloc((size_t)(box->nrows * box->ncols) * width + 1);
    ckpt_status st = raw ? CKPT_OK : fail_memory(err);
    for (uint64_t i = 0, n; st == CKPT_OK && i < box->nrows; i += n) {
        uint64_t row = box->row + i, first = row % matrix->rows;
        n = box->ncols == matrix->cols ? matrix->rows - first : 1; /* up to where the next stripe begins */
        n = n < box->nrows - i ? n : box->nrows - i;
        st = read_raw(matrix, first * matrix->cols + box->col, n * box->ncols, raw, err);
        if (st == CKPT_OK)
            unpack_stripe(codes, matrix, (unsigned)(row / matrix->rows), raw, n * box->ncols,
                          out + i * box->ncols);
    }
    free(raw);
    return st;
}

/* read_differences - reads box BOX of MATRIX, whose elements are int32, less ZERO. */
static ckpt_status read_differences(const struct matrix *matrix, const struct box *box, int64_t zero,
                                    float *out, ckpt_error *err)
{
    unsigned char *raw = malloc((size_t)(box->nrows * box->ncols) * 4 + 1);
    ckpt_status st = raw ? read_raw(matrix, box->row * matrix->cols + box->col, box->nrows * box->ncols, raw,
                                    err)
                         : fail_memory(err); /* one run: a box is complete rows or a part of one */
    for (uint64_t i = 0; st == CKPT_OK && i < box->nrows * box->ncols; i++)
        out[i] = (float)((int32_t)load_u32le(raw + 4 * i) - zero);
    free(raw);
    return st;
}

static ckpt_status read_codes(const struct scaled_codes *codes, const struct matrix *matrix,
                              const struct box *box, float *out, ckpt_error *err)
{
    switch (codes->packing) {
    case PACKED_COLS: return read_packed_cols(codes, matrix, box, out, err);
    case PACKED_ROWS: return read_packed_rows(codes, matrix, box, out, err);
    case PACKED_STRIPES: return read_stripes(codes, matrix, box, out, err);
    default: return read_box(matrix, box, out, err);
    }
}

/* ------------------------------------------------------------------ scales */

/* The scales of a box. */
struct scales {
    struct box box;
    float *scale, *zero, *bias; /* ZERO and BIAS: NULL if there are none */
    double *wide;               /* SCALE if has_wide_scale, else NULL */
    float *group;               /* the column of scales of each column of the box; NULL: by block_cols */
};

/* find_scale_row - returns the row of scales for row ROW of the weight. */
static uint64_t find_scale_row(const struct scaled *scaled, uint64_t row)
{
    uint64_t per_matrix = (scaled->r.matrix_rows + scaled->r.block_rows - 1) / scaled->r.block_rows;
    return row / scaled->r.matrix_rows * per_matrix + row % scaled->r.matrix_rows / scaled->r.block_rows;
}

static void free_scales(struct scales *scales)
{
    free(scales->scale);
    free(scales->wide);
    free(scales->zero);
    free(scales->bias);
    free(scales->group);
}

/* apply_nested - replaces the NUMBER scales at SCALE, codes from number FIRST on, by the numbers they stand
 * for. */
static ckpt_status apply_nested(const struct scaled *scaled, uint64_t first, uint64_t number, float *scale,
                                ckpt_error *err)
{
    uint64_t block = scaled->r.nested_block, begin = first / block,
             count = (first + number - 1) / block - begin + 1;
    float *outer = malloc((size_t)count * sizeof *outer);
    ckpt_status st = outer ? read_floats(&scaled->nested, begin, count, outer, err) : fail_memory(err);
    for (uint64_t i = 0; st == CKPT_OK && i < number; i++) {
        float product = scaled->r.nested_lookup[(unsigned char)scale[i]] * outer[(first + i) / block - begin];
        scale[i] = product + scaled->r.nested_offset;
    }
    free(outer);
    return st;
}

/* round_to_dtype - rounds the NUMBER floats at IN to the dtype of SCALED. */
static void round_to_dtype(const struct scaled *scaled, float *in, uint64_t number)
{
    struct conversion there, back;
    struct convert_tally ignored = {0};
    unsigned char rounded[256 * 4];
    if (!conversion_init(&there, CKPT_DT_F32, scaled->r.dtype) ||
        !conversion_init(&back, scaled->r.dtype, CKPT_DT_F32))
        return;
    for (uint64_t i = 0; i < number; i += 256) {
        size_t count = number - i < 256 ? (size_t)(number - i) : 256;
        to_little_endian(in + i, count);
        convert_run(&there, in + i, count, rounded, &ignored);
        convert_run(&back, rounded, count, in + i, &ignored);
        from_little_endian(in + i, count);
    }
}

static void multiply_scales(const struct scaled *scaled, float *scale, uint64_t count)
{
    float by = scaled->r.multiplier;
    if (scaled->r.rounds_scale)
        round_to_dtype(scaled, &by, 1);
    for (uint64_t i = 0; i < count; i++)
        scale[i] = scaled->r.divides ? scale[i] / by : scale[i] * by;
    if (scaled->r.rounds_scale)
        round_to_dtype(scaled, scale, count);
}

static ckpt_status check_groups(const struct scaled *scaled, const float *group, uint64_t count,
                                ckpt_error *err)
{
    for (uint64_t i = 0; i < count; i++)
        if (!(group[i] >= 0 && group[i] < (float)scaled->scale.cols))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "a column is of group {%.0f}, there are {=%" PRIu64 "}", (double)group[i],
                        scaled->scale.cols);
    return CKPT_OK;
}

/* read_scales - reads into SCALES the scales of box BOX of the weight. */
static ckpt_status read_scales(const struct scaled *scaled, const struct box *box, struct scales *scales,
                               ckpt_error *err)
{
    uint64_t begin = scaled->group.src ? 0 : box->col / scaled->r.block_cols;
    uint64_t end = scaled->group.src ? scaled->scale.cols
                                     : (box->col + box->ncols - 1) / scaled->r.block_cols + 1;
    uint64_t row = find_scale_row(scaled, box->row);
    scales->box = (struct box){row, begin, find_scale_row(scaled, box->row + box->nrows - 1) - row + 1,
                               end - begin};
    size_t n = (size_t)(scales->box.nrows * scales->box.ncols); /* at most the box, or MAX_GROUPS columns */
    bool ok = (scales->scale = malloc((n + 1) * sizeof(float))) != NULL;
    ok = ok && (!scaled->r.has_wide_scale || (scales->wide = malloc((n + 1) * sizeof(double))));
    ok = ok && (!scaled->zero.src || (scales->zero = malloc((n + 1) * sizeof(float))));
    ok = ok && (!scaled->bias.src || (scales->bias = malloc((n + 1) * sizeof(float))));
    ok = ok && (!scaled->group.src || (scales->group = malloc((size_t)(box->ncols + 1) * sizeof(float))));
    CKPT_TRY_ALLOC(ok, err);
    for (size_t i = 0; !scaled->scale.src && i < n; i++)
        scales->scale[i] = 1;
    if (scales->wide)
        CKPT_TRY(read_wide_box(&scaled->scale, &scales->box, scales->wide, err));
    else if (scaled->scale.src)
        CKPT_TRY(read_box(&scaled->scale, &scales->box, scales->scale, err));
    if (scaled->nested.src)
        CKPT_TRY(apply_nested(scaled, row * scaled->scale.cols + begin, n, scales->scale, err));
    if (scaled->r.multiplier != 1)
        multiply_scales(scaled, scales->scale, n);
    if (scales->zero)
        CKPT_TRY(read_codes(&scaled->r.zero, &scaled->zero, &scales->box, scales->zero, err));
    if (scales->bias)
        CKPT_TRY(read_box(&scaled->bias, &scales->box, scales->bias, err));
    if (!scales->group)
        return CKPT_OK;
    CKPT_TRY(read_floats(&scaled->group, box->col, box->ncols, scales->group, err));
    return check_groups(scaled, scales->group, box->ncols, err);
}

/* get_run - returns how many of COUNT columns from COL on have the same scale, column *AT of SCALES. */
static uint64_t get_run(const struct scaled *scaled, const struct scales *scales, uint64_t index,
                        uint64_t col, uint64_t count, uint64_t *at)
{
    uint64_t block = (col + index) / scaled->r.block_cols,
             left = (block + 1) * scaled->r.block_cols - (col + index);
    if (scales->group) {
        *at = (uint64_t)scales->group[index];
        return 1;
    }
    *at = block - scales->box.col;
    return left < count - index ? left : count - index;
}

static void multiply_wide(float *in, uint64_t count, double scale)
{
    for (uint64_t i = 0; i < count; i++)
        in[i] = (float)(in[i] * scale);
}

/* scale_row - applies row ROW of SCALES to the COUNT numbers at OUT, whose first is column COL of the
 * weight. */
static void scale_row(const struct scaled *scaled, const struct scales *scales, uint64_t row, uint64_t col,
                      uint64_t count, float *out)
{
    uint64_t first = row * scales->box.ncols, i, run;
    float constant_zero = scaled->r.subtracts_integers ? 0 : scaled->r.constant_zero;
    for (uint64_t k = 0; k < count; k += run) {
        run = get_run(scaled, scales, k, col, count, &i);
        float zero = scales->zero ? scales->zero[first + i] : constant_zero;
        zero = scaled->r.truncates_zero ? truncf(zero) : zero;
        for (uint64_t c = k; c < k + run; c++)
            out[c] -= zero; /* -0 - 0 is -0 */
        if (scaled->r.rounds_difference)
            round_to_dtype(scaled, out + k, run);
        if (scales->wide)
            multiply_wide(out + k, run, scales->wide[first + i]);
        for (uint64_t c = k; !scales->wide && c < k + run; c++)
            out[c] *= scales->scale[first + i];
    }
    if (scales->bias && scaled->r.rounds_product)
        round_to_dtype(scaled, out, count);
    for (uint64_t k = 0; scales->bias && k < count; k += run) {
        run = get_run(scaled, scales, k, col, count, &i);
        for (uint64_t c = k; c < k + run; c++)
            out[c] += scaled->r.subtracts_bias ? -scales->bias[first + i] : scales->bias[first + i];
    }
    for (uint64_t k = 0; scaled->r.factor != 1 && k < count; k++)
        out[k] *= scaled->r.factor;
}

/* ------------------------------------------------------------------ the source */

/* decode - decodes box BOX to OUT. */
static ckpt_status decode(const struct scaled *scaled, const struct box *box, float *out, ckpt_error *err)
{
    struct scales x = {0};
    ckpt_status st = scaled->r.subtracts_integers
                         ? read_differences(&scaled->codes, box, (int64_t)scaled->r.constant_zero, out, err)
                         : read_codes(&scaled->r.codes, &scaled->codes, box, out, err);
    CKPT_THEN(st, read_scales(scaled, box, &x, err));
    for (uint64_t i = 0; st == CKPT_OK && i < box->nrows; i++)
        scale_row(scaled, &x, find_scale_row(scaled, box->row + i) - x.box.row, box->col, box->ncols,
                  out + i * box->ncols);
    free_scales(&x);
    return st;
}

/* choose_box - returns the box to decode next: it begins at element FIRST, and COUNT elements are wanted. */
static struct box choose_box(const struct scaled *scaled, uint64_t first, uint64_t count)
{
    uint64_t row = first / scaled->r.cols, col = first % scaled->r.cols, left = scaled->r.cols - col;
    if (col == 0 && scaled->box_rows && count >= scaled->r.cols) {
        uint64_t nrows = scaled->box_rows -
                         row % scaled->box_rows; /* up to where the next read would begin */
        return (struct box){row, 0, nrows < count / scaled->r.cols ? nrows : count / scaled->r.cols,
                            scaled->r.cols};
    }
    left = left < scaled->box ? left : scaled->box;
    return (struct box){row, col, 1, left < count ? left : count};
}

static ckpt_status check_crcs(const struct scaled *scaled, ckpt_error *err)
{
    const struct matrix *const all[] = {&scaled->codes, &scaled->zero,  &scaled->scale,
                                        &scaled->bias,  &scaled->group, &scaled->nested};
    const struct stream_options o = tensor_stream_options(scaled->file);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->src)
            CKPT_TRY(storage_check_crc(&scaled->file->table, all[i]->storage, &o, err));
    return CKPT_OK;
}

static ckpt_status scaled_read(source *from, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct scaled *s = (const struct scaled *)(const void *)from;
    struct convert_tally ignored = {0};
    struct conversion c;
    unsigned char *out = to;
    CKPT_TRY(check_crcs(s, err));
    float *numbers = malloc(s->box * sizeof *numbers);
    unsigned char *rounded = malloc(s->box * s->width);
    ckpt_status st = numbers && rounded && conversion_init(&c, CKPT_DT_F32, s->r.dtype) ? CKPT_OK
                                                                                        : fail_memory(err);
    while (st == CKPT_OK && nbytes) {
        size_t skip = (size_t)(off % s->width);
        uint64_t wanted = (skip + (uint64_t)nbytes + s->width - 1) / s->width;
        struct box b = choose_box(s, off / s->width, wanted);
        size_t count = (size_t)(b.nrows * b.ncols), got = count * s->width - skip;
        if ((st = decode(s, &b, numbers, err)) != CKPT_OK)
            break;
        to_little_endian(numbers, count);
        convert_run(&c, numbers, count, rounded, &ignored);
        got = got < nbytes ? got : nbytes;
        memcpy(out, rounded + skip, got);
        out += got;
        off += got;
        nbytes -= got;
    }
    free(numbers);
    free(rounded);
    return st;
}

static void scaled_close(source *src) { free(src); }

/* has_codes - returns true if MATRIX holds ROWS x COLS codes, packed as CODES says. */
static bool has_codes(const struct scaled_codes *codes, const struct matrix *matrix, uint64_t rows,
                      uint64_t cols)
{
    uint64_t width = 8u * dtype_info(matrix->dtype)->block_bytes, needed, available;
    if (!matrix->src)
        return false;
    if (codes->packing == PACKED_NOT)
        return matrix->rows == rows && matrix->cols == cols;
    if (codes->packing == PACKED_STRIPES)
        return (width == 8 || width == 32) && matrix->cols == cols && matrix->rows &&
               (rows - 1) / matrix->rows < count_stripes(codes, matrix);
    if (codes->packing == PACKED_ROWS)
        return width == 32 && matrix->cols == cols && checked_mul(rows, codes->bits, &needed) &&
               checked_mul(matrix->rows, width, &available) && needed <= available;
    return matrix->rows == rows && checked_mul(cols, codes->bits, &needed) &&
           checked_mul(matrix->cols, width, &available) && needed <= available;
}

static ckpt_status check_recipe(const struct scaled *scaled, ckpt_error *err)
{
    const struct scaled_recipe *r = &scaled->r;
    bool has_dtypes = (!r->has_wide_scale || (scaled->scale.src && scaled->scale.dtype == CKPT_DT_F64)) &&
                      (!r->subtracts_integers || scaled->codes.dtype == CKPT_DT_I32);
    if (!has_dtypes)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its scales or codes are not of its scheme's dtype");
    if (!r->matrix_rows || !r->block_rows || !r->block_cols || r->rows % r->matrix_rows)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its scales have no rows or columns");
    uint64_t scale_rows = find_scale_row(scaled, r->rows - 1) + 1;
    uint64_t scale_cols = (r->cols - 1) / r->block_cols + 1;
    bool fits = scaled->scale.src ? scaled->scale.rows == scale_rows &&
                                        (scaled->group.src || scaled->scale.cols == scale_cols)
                                  : scale_rows == 1 && scale_cols == 1;
    if (!fits || (scaled->group.src && scaled->scale.cols > MAX_GROUPS))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its scales have {%" PRIu64 " rows and %" PRIu64 " columns}, {=%" PRIu64 " and %" PRIu64
                    "} were expected",
                    scaled->scale.rows, scaled->scale.cols, scale_rows, scale_cols);
    if (!has_codes(&r->codes, &scaled->codes, r->rows, r->cols))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its packed numbers do not have its shape");
    uint64_t nested = r->nested_block ? (scaled->scale.rows * scaled->scale.cols - 1) / r->nested_block + 1
                                      : 0;
    fits = (!scaled->bias.src ||
            (scaled->bias.rows == scale_rows && scaled->bias.cols == scaled->scale.cols)) &&
           (!scaled->zero.src || has_codes(&r->zero, &scaled->zero, scale_rows, scaled->scale.cols)) &&
           (!scaled->group.src || (scaled->group.rows == 1 && scaled->group.cols == r->cols)) &&
           (!scaled->nested.src || (scaled->nested.rows == 1 && nested && scaled->nested.cols >= nested));
    return fits ? CKPT_OK
                : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                       "its zeros, biases, groups or nested scales do not have the shape of its scales");
}

static ckpt_status open_matrices(struct scaled *scaled, ckpt_error *err)
{
    CKPT_TRY(open_matrix(scaled, &scaled->r.codes.m, &scaled->codes, err));
    CKPT_TRY(open_matrix(scaled, &scaled->r.zero.m, &scaled->zero, err));
    CKPT_TRY(open_matrix(scaled, &scaled->r.scale, &scaled->scale, err));
    CKPT_TRY(open_matrix(scaled, &scaled->r.bias, &scaled->bias, err));
    CKPT_TRY(open_matrix(scaled, &scaled->r.group, &scaled->group, err));
    CKPT_TRY(open_matrix(scaled, &scaled->r.nested, &scaled->nested, err));
    return check_recipe(scaled, err);
}

/* choose_box_size - sets how much is decoded at a time, and the block_size of the source. */
static void choose_box_size(struct scaled *scaled)
{
    uint64_t box = scaled->codes.col_stride != 1 ? TRANSPOSED_BOX : BOX;
    scaled->box_rows = box / scaled->r.cols;
    if (scaled->box_rows >= 8)
        scaled->box_rows -= scaled->box_rows % 8; /* packed columns have eight rows in a word */
    scaled->box = (size_t)(scaled->box_rows ? scaled->box_rows * scaled->r.cols : box);
    uint64_t bytes = scaled->box * scaled->width;
    scaled->as_source.block_size =
        (uint32_t)(bytes < scaled->as_source.size ? bytes : scaled->as_source.size) & SOURCE_BLOCK_MAX;
}

ckpt_status scaled_source(ckpt_file *file, const struct scaled_recipe *recipe, source **out, ckpt_error *err)
{
    static const struct source_ops ops = {.read_at = scaled_read, .close = scaled_close};
    struct scaled *s = calloc(1, sizeof *s);
    uint64_t elements, bytes = 0;
    CKPT_TRY_ALLOC(s, err);
    s->file = file;
    s->r = *recipe;
    s->width = dtype_info(recipe->dtype)->block_bytes;
    bool fits = recipe->rows && recipe->cols && checked_mul(recipe->rows, recipe->cols, &elements) &&
                checked_mul(elements, s->width, &bytes) && bytes <= INT64_MAX;
    s->as_source = (source){.ops = &ops, .size = bytes, .position = CKPT_NO_OFFSET, .refs = 1};
    ckpt_status st = fits ? open_matrices(s, err)
                          : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its shape has no or too many elements");
    if (st == CKPT_OK) {
        s->as_source.serializes_reads = s->codes.src->serializes_reads;
        choose_box_size(s);
        *out = &s->as_source;
    } else {
        free(s);
    }
    return st;
}
