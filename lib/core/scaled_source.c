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

static bool is_contiguous(const ckpt_tensor *t)
{
    uint64_t step = 1;
    for (uint32_t k = t->ndim; t->stride && COUNT_DOWN(k); step *= t->shape[k])
        if (t->shape[k] != 1 && t->stride[k] != step)
            return false;
    return true;
}

/* set_strides - sets the strides of M, which is T with ROWS and COLS as FROM gives them; false: T is strided
 * in a way that is no matrix. */
static bool set_strides(struct matrix *m, const ckpt_tensor *t, const struct scaled_matrix *from)
{
    uint64_t first = from->transposed ? from->cols : from->rows;
    uint64_t second = from->transposed ? from->rows : from->cols, outer, inner;
    if (is_contiguous(t)) {
        outer = second;
        inner = 1;
    } else if (t->ndim == 2 && t->shape[0] == first && t->shape[1] == second) {
        outer = t->stride[0];
        inner = t->stride[1];
    } else {
        return false;
    }
    m->row_stride = from->transposed ? inner : outer;
    m->col_stride = from->transposed ? outer : inner;
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

static ckpt_status open_matrix(struct scaled *s, const struct scaled_matrix *from, struct matrix *m,
                               ckpt_error *err)
{
    const struct table *table = &s->file->table;
    uint64_t elements, end, bytes, offset;
    *m = (struct matrix){.rows = from->rows, .cols = from->cols, .dtype = from->dtype, .tiled = from->tiled};
    if (from->row == CKPT_NO_TENSOR)
        return CKPT_OK;
    const ckpt_tensor t = table_tensor(table, from->row);
    m->dtype = from->dtype ? from->dtype : (ckpt_dtype)t.dtype;
    const struct dtype_info *d = dtype_info(m->dtype), *stored = dtype_info((ckpt_dtype)t.dtype);
    bool has_bytes = (t.kind == CKPT_DENSE || t.kind == CKPT_NDARRAY || t.kind == CKPT_QUANTIZED) &&
                     t.has_data && t.storage < table->nstorages && table->storages[t.storage].src;
    if (!has_bytes || t.conj || t.neg)
        return fail_part(s->file, from->row, CKPT_EUNSUPPORTED, err, "is not a dense tensor with bytes");
    bool has_size = d->block_bytes == stored->block_bytes || (from->is_view && d->block_bytes);
    if (d->block_elems != 1 || stored->block_elems != 1 || !has_size)
        return fail_part(s->file, from->row, CKPT_EFORMAT, err, "does not have the dtype of its scheme");
    if (!count_elements(from, &elements) || !checked_mul(elements, d->block_bytes, &bytes) ||
        bytes != t.nbytes)
        return fail_part(s->file, from->row, CKPT_EFORMAT, err, "does not have the shape of its scheme");
    bool is_one_run = from->tiled || from->is_view;
    if (!set_strides(m, &t, from) || (is_one_run && !is_contiguous(&t)))
        return fail_part(s->file, from->row, CKPT_EUNSUPPORTED, err, "is a strided view");
    const struct storage *storage = &table->storages[t.storage];
    bool fits = tensor_view_end(&t, &end) && tensor_bytes(&t, end, &bytes) && bytes <= storage->nbytes &&
                tensor_bytes(&t, t.storage_offset, &offset) &&
                checked_add(storage->off, offset, &m->data_offset);
    if (!fits || (from->is_view && storage->swap_width))
        return fail_part(s->file, from->row, CKPT_EFORMAT, err, "reaches beyond its storage");
    m->src = storage->src;
    m->storage = t.storage;
    m->swap_width = storage->swap_width;
    return CKPT_OK;
}

/* read_raw - reads COUNT elements of M from element FIRST of its row-major order, little-endian. */
static ckpt_status read_raw(const struct matrix *m, uint64_t first, uint64_t count, unsigned char *out,
                            ckpt_error *err)
{
    struct element_transform swap;
    struct gather g = {.src = m->src, .data_offset = m->data_offset, .ndim = 2};
    g.width = dtype_info(m->dtype)->block_bytes;
    g.dim[0] = (struct gather_dim){m->rows, m->row_stride, m->cols};
    g.dim[1] = (struct gather_dim){m->cols, m->col_stride, 1};
    if (m->col_stride == 1 && m->row_stride == m->cols)
        gather_set_contiguous(&g, m->rows * m->cols);
    CKPT_TRY(element_transform_init(&swap, m->dtype, g.width, m->swap_width, false, false, err));
    ckpt_status st = gather_is_contiguous(&g) ? source_read(m->src, m->data_offset + first * g.width, out,
                                                            (size_t)(count * g.width), err)
                                              : gather_read(&g, first, count, out, err);
    gather_free(&g);
    if (st == CKPT_OK && swap.swap_width)
        element_transform_apply(&swap, out, (size_t)(count * g.width));
    return st;
}

/* to_little_endian - makes the N floats at X little-endian, as convert_run takes them. from_little_endian -
 * makes what it returns numbers of this machine. */
static void to_little_endian(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        store_u32le((unsigned char *)&x[i], bits);
    }
}

static void from_little_endian(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = float_of_bits(load_u32le((const unsigned char *)&x[i]));
}

/* read_floats - reads COUNT elements of M from element FIRST as floats. */
static ckpt_status read_floats(const struct matrix *m, uint64_t first, uint64_t count, float *out,
                               ckpt_error *err)
{
    struct conversion c;
    struct convert_tally ignored = {0};
    unsigned width = dtype_info(m->dtype)->block_bytes;
    if (!conversion_init(&c, m->dtype, CKPT_DT_F32))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s are no numbers", ckpt_dtype_name(m->dtype));
    unsigned char *raw = malloc((size_t)count * width + 1);
    ckpt_status st = raw ? read_raw(m, first, count, raw, err) : fail_memory(err);
    if (st == CKPT_OK) {
        convert_run(&c, raw, (size_t)count, out, &ignored);
        from_little_endian(out, count);
    }
    free(raw);
    return st;
}

/* read_tiled_box - reads box B of M, which is tiled. */
static ckpt_status read_tiled_box(const struct matrix *m, const struct box *b, float *out, ckpt_error *err)
{
    uint64_t per_row = (m->cols + TILE_COLS - 1) / TILE_COLS;
    uint64_t begin = b->col / TILE_COLS, end = (b->col + b->ncols - 1) / TILE_COLS + 1, read = UINT64_MAX;
    float *tiles = malloc((size_t)(end - begin) * TILE * sizeof *tiles);
    ckpt_status st = tiles ? CKPT_OK : fail_memory(err);
    for (uint64_t i = 0; st == CKPT_OK && i < b->nrows; i++) {
        uint64_t row = b->row + i, r = row % TILE_ROWS;
        if (row / TILE_ROWS != read) {
            read = row / TILE_ROWS;
            st = read_floats(m, (read * per_row + begin) * TILE, (end - begin) * TILE, tiles, err);
        }
        for (uint64_t k = 0; st == CKPT_OK && k < b->ncols; k++) {
            uint64_t tile = (b->col + k) / TILE_COLS - begin;
            out[i * b->ncols + k] = tiles[tile * TILE + r % 32 * 16 + r / 32 * 4 + (b->col + k) % TILE_COLS];
        }
    }
    free(tiles);
    return st;
}

/* read_box - reads box B of M as floats. */
static ckpt_status read_box(const struct matrix *m, const struct box *b, float *out, ckpt_error *err)
{
    if (m->tiled)
        return read_tiled_box(m, b, out, err);
    if (b->col == 0 && b->ncols == m->cols)
        return read_floats(m, b->row * m->cols, b->nrows * m->cols, out, err);
    for (uint64_t i = 0; i < b->nrows; i++)
        CKPT_TRY(read_floats(m, (b->row + i) * m->cols + b->col, b->ncols, out + i * b->ncols, err));
    return CKPT_OK;
}

/* read_wide_box - reads box B of M, whose elements are float64. */
static ckpt_status read_wide_box(const struct matrix *m, const struct box *b, double *out, ckpt_error *err)
{
    bool has_full_rows = b->col == 0 && b->ncols == m->cols;
    uint64_t run = has_full_rows ? b->nrows * b->ncols : b->ncols, n = b->nrows * b->ncols;
    for (uint64_t i = 0; i < n; i += run)
        CKPT_TRY(
            read_raw(m, (b->row + i / b->ncols) * m->cols + b->col, run, (unsigned char *)(out + i), err));
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

/* unpack_row - unpacks N codes from the one at bit AT of BYTES. */
static void unpack_row(const struct scaled_codes *codes, const unsigned char *bytes, size_t nbytes,
                       uint64_t at, uint64_t n, float *out)
{
    float number[256];
    for (unsigned i = 0; i < 1u << codes->bits; i++)
        number[i] = number_of_code(codes, i);
    for (uint64_t k = 0; k < n; k++, at += codes->bits)
        out[k] = number[get_bits(bytes, nbytes, codes->high_first ? at ^ 4 : at, codes->bits)];
}

/* read_packed_cols - reads box B of codes whose rows are packed. */
static ckpt_status read_packed_cols(const struct scaled_codes *codes, const struct matrix *m,
                                    const struct box *b, float *out, ckpt_error *err)
{
    unsigned width = dtype_info(m->dtype)->block_bytes, unit = 8 * width;
    uint64_t first = b->col * codes->bits / unit; /* the bits of a row are in memory or the file */
    uint64_t end = ((b->col + b->ncols) * codes->bits + unit - 1) / unit, per_row = end - first;
    unsigned char *raw = malloc((size_t)(b->nrows * per_row) * width + 1);
    ckpt_status st = raw ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && per_row == m->cols)
        st = read_raw(m, b->row * m->cols, b->nrows * m->cols, raw, err);
    for (uint64_t i = 0; st == CKPT_OK && per_row != m->cols && i < b->nrows; i++)
        st = read_raw(m, (b->row + i) * m->cols + first, per_row, raw + i * per_row * width, err);
    for (uint64_t i = 0; st == CKPT_OK && i < b->nrows; i++)
        unpack_row(codes, raw + i * per_row * width, (size_t)per_row * width,
                   b->col * codes->bits - first * unit, b->ncols, out + i * b->ncols);
    free(raw);
    return st;
}

/* unpack_columns - unpacks box B from its words: ROWS rows of B->ncols words, the first of which has bit AT
 * of each column. */
static void unpack_columns(const struct scaled_codes *codes, const unsigned char *words, const struct box *b,
                           float *out)
{
    uint64_t first = b->row * codes->bits / 32, mask = (1u << codes->bits) - 1;
    for (uint64_t i = 0; i < b->nrows; i++) {
        uint64_t code = b->row + i;
        if (codes->order)
            code = code - code % 8 + codes->order[code % 8];
        uint64_t at = code * codes->bits - first * 32, shift = at % 32;
        const unsigned char *low = words + at / 32 * b->ncols * 4;
        for (uint64_t k = 0; k < b->ncols; k++) {
            uint64_t word = load_u32le(low + 4 * k);
            if (shift + codes->bits > 32)
                word |= (uint64_t)load_u32le(low + 4 * (b->ncols + k)) << 32;
            out[i * b->ncols + k] = number_of_code(codes, (unsigned)(word >> shift & mask));
        }
    }
}

/* read_packed_rows - reads box B of codes whose columns are packed in words of 32 bits. */
static ckpt_status read_packed_rows(const struct scaled_codes *codes, const struct matrix *m,
                                    const struct box *b, float *out, ckpt_error *err)
{
    uint64_t first = b->row * codes->bits / 32, end = ((b->row + b->nrows) * codes->bits + 31) / 32;
    unsigned char *words = malloc((size_t)((end - first) * b->ncols) * 4 + 1);
    ckpt_status st = words ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && b->ncols == m->cols)
        st = read_raw(m, first * m->cols, (end - first) * m->cols, words, err);
    for (uint64_t i = first; st == CKPT_OK && b->ncols != m->cols && i < end; i++)
        st = read_raw(m, i * m->cols + b->col, b->ncols, words + (i - first) * b->ncols * 4, err);
    if (st == CKPT_OK)
        unpack_columns(codes, words, b, out);
    free(words);
    return st;
}

static unsigned count_stripes(const struct scaled_codes *codes, const struct matrix *m)
{
    return 8u * dtype_info(m->dtype)->block_bytes / codes->bits;
}

/* unpack_stripe - unpacks N codes of stripe STRIPE from the elements at RAW. */
static void unpack_stripe(const struct scaled_codes *codes, const struct matrix *m, unsigned stripe,
                          const unsigned char *raw, uint64_t n, float *out)
{
    float number[256];
    unsigned width = dtype_info(m->dtype)->block_bytes, mask = (1u << codes->bits) - 1;
    unsigned shift = (codes->high_first ? count_stripes(codes, m) - 1 - stripe : stripe) * codes->bits;
    for (unsigned i = 0; i <= mask; i++)
        number[i] = number_of_code(codes, i);
    for (uint64_t k = 0; k < n; k++)
        out[k] = number[(width == 4 ? load_u32le(raw + 4 * k) : raw[k]) >> shift & mask];
}

/* read_stripes - reads box B of codes whose rows are packed in stripes. */
static ckpt_status read_stripes(const struct scaled_codes *codes, const struct matrix *m, const struct box *b,
                                float *out, ckpt_error *err)
{
    unsigned width = dtype_info(m->dtype)->block_bytes;
    unsigned char *raw = malloc((size_t)(b->nrows * b->ncols) * width + 1);
    ckpt_status st = raw ? CKPT_OK : fail_memory(err);
    for (uint64_t i = 0, n; st == CKPT_OK && i < b->nrows; i += n) {
        uint64_t row = b->row + i, first = row % m->rows;
        n = b->ncols == m->cols ? m->rows - first : 1; /* up to where the next stripe begins */
        n = n < b->nrows - i ? n : b->nrows - i;
        st = read_raw(m, first * m->cols + b->col, n * b->ncols, raw, err);
        if (st == CKPT_OK)
            unpack_stripe(codes, m, (unsigned)(row / m->rows), raw, n * b->ncols, out + i * b->ncols);
    }
    free(raw);
    return st;
}

/* read_differences - reads box B of M, whose elements are int32, less ZERO. */
static ckpt_status read_differences(const struct matrix *m, const struct box *b, int64_t zero, float *out,
                                    ckpt_error *err)
{
    unsigned char *raw = malloc((size_t)(b->nrows * b->ncols) * 4 + 1);
    ckpt_status st = raw ? read_raw(m, b->row * m->cols + b->col, b->nrows * b->ncols, raw, err)
                         : fail_memory(err); /* one run: a box is complete rows or a part of one */
    for (uint64_t i = 0; st == CKPT_OK && i < b->nrows * b->ncols; i++)
        out[i] = (float)((int32_t)load_u32le(raw + 4 * i) - zero);
    free(raw);
    return st;
}

static ckpt_status read_codes(const struct scaled_codes *codes, const struct matrix *m, const struct box *b,
                              float *out, ckpt_error *err)
{
    switch (codes->packing) {
    case PACKED_COLS: return read_packed_cols(codes, m, b, out, err);
    case PACKED_ROWS: return read_packed_rows(codes, m, b, out, err);
    case PACKED_STRIPES: return read_stripes(codes, m, b, out, err);
    default: return read_box(m, b, out, err);
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
static uint64_t find_scale_row(const struct scaled *s, uint64_t row)
{
    uint64_t per_matrix = (s->r.matrix_rows + s->r.block_rows - 1) / s->r.block_rows;
    return row / s->r.matrix_rows * per_matrix + row % s->r.matrix_rows / s->r.block_rows;
}

static void free_scales(struct scales *x)
{
    free(x->scale);
    free(x->wide);
    free(x->zero);
    free(x->bias);
    free(x->group);
}

/* apply_nested - replaces the N scales at SCALE, codes from number FIRST on, by the numbers they stand
 * for. */
static ckpt_status apply_nested(const struct scaled *s, uint64_t first, uint64_t n, float *scale,
                                ckpt_error *err)
{
    uint64_t block = s->r.nested_block, begin = first / block, count = (first + n - 1) / block - begin + 1;
    float *outer = malloc((size_t)count * sizeof *outer);
    ckpt_status st = outer ? read_floats(&s->nested, begin, count, outer, err) : fail_memory(err);
    for (uint64_t i = 0; st == CKPT_OK && i < n; i++) {
        float product = s->r.nested_lookup[(unsigned char)scale[i]] * outer[(first + i) / block - begin];
        scale[i] = product + s->r.nested_offset;
    }
    free(outer);
    return st;
}

/* round_to_dtype - rounds the N floats at X to the dtype of S. */
static void round_to_dtype(const struct scaled *s, float *x, uint64_t n)
{
    struct conversion there, back;
    struct convert_tally ignored = {0};
    unsigned char rounded[256 * 4];
    if (!conversion_init(&there, CKPT_DT_F32, s->r.dtype) || !conversion_init(&back, s->r.dtype, CKPT_DT_F32))
        return;
    for (uint64_t i = 0; i < n; i += 256) {
        size_t count = n - i < 256 ? (size_t)(n - i) : 256;
        to_little_endian(x + i, count);
        convert_run(&there, x + i, count, rounded, &ignored);
        convert_run(&back, rounded, count, x + i, &ignored);
        from_little_endian(x + i, count);
    }
}

static void multiply_scales(const struct scaled *s, float *scale, uint64_t n)
{
    float by = s->r.multiplier;
    if (s->r.rounds_scale)
        round_to_dtype(s, &by, 1);
    for (uint64_t i = 0; i < n; i++)
        scale[i] = s->r.divides ? scale[i] / by : scale[i] * by;
    if (s->r.rounds_scale)
        round_to_dtype(s, scale, n);
}

static ckpt_status check_groups(const struct scaled *s, const float *group, uint64_t n, ckpt_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (!(group[i] >= 0 && group[i] < (float)s->scale.cols))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "a column is of group {%.0f}, there are {=%" PRIu64 "}", (double)group[i],
                        s->scale.cols);
    return CKPT_OK;
}

/* read_scales - reads into X the scales of box B of the weight. */
static ckpt_status read_scales(const struct scaled *s, const struct box *b, struct scales *x, ckpt_error *err)
{
    uint64_t begin = s->group.src ? 0 : b->col / s->r.block_cols;
    uint64_t end = s->group.src ? s->scale.cols : (b->col + b->ncols - 1) / s->r.block_cols + 1;
    uint64_t row = find_scale_row(s, b->row);
    x->box = (struct box){row, begin, find_scale_row(s, b->row + b->nrows - 1) - row + 1, end - begin};
    size_t n = (size_t)(x->box.nrows * x->box.ncols); /* at most the box, or MAX_GROUPS columns */
    bool ok = (x->scale = malloc((n + 1) * sizeof(float))) != NULL;
    ok = ok && (!s->r.has_wide_scale || (x->wide = malloc((n + 1) * sizeof(double))));
    ok = ok && (!s->zero.src || (x->zero = malloc((n + 1) * sizeof(float))));
    ok = ok && (!s->bias.src || (x->bias = malloc((n + 1) * sizeof(float))));
    ok = ok && (!s->group.src || (x->group = malloc((size_t)(b->ncols + 1) * sizeof(float))));
    CKPT_TRY_ALLOC(ok, err);
    for (size_t i = 0; !s->scale.src && i < n; i++)
        x->scale[i] = 1;
    if (x->wide)
        CKPT_TRY(read_wide_box(&s->scale, &x->box, x->wide, err));
    else if (s->scale.src)
        CKPT_TRY(read_box(&s->scale, &x->box, x->scale, err));
    if (s->nested.src)
        CKPT_TRY(apply_nested(s, row * s->scale.cols + begin, n, x->scale, err));
    if (s->r.multiplier != 1)
        multiply_scales(s, x->scale, n);
    if (x->zero)
        CKPT_TRY(read_codes(&s->r.zero, &s->zero, &x->box, x->zero, err));
    if (x->bias)
        CKPT_TRY(read_box(&s->bias, &x->box, x->bias, err));
    if (!x->group)
        return CKPT_OK;
    CKPT_TRY(read_floats(&s->group, b->col, b->ncols, x->group, err));
    return check_groups(s, x->group, b->ncols, err);
}

/* get_run - returns how many of N columns from COL on have the same scale, column *I of X. */
static uint64_t get_run(const struct scaled *s, const struct scales *x, uint64_t k, uint64_t col, uint64_t n,
                        uint64_t *i)
{
    uint64_t block = (col + k) / s->r.block_cols, left = (block + 1) * s->r.block_cols - (col + k);
    if (x->group) {
        *i = (uint64_t)x->group[k];
        return 1;
    }
    *i = block - x->box.col;
    return left < n - k ? left : n - k;
}

static void multiply_wide(float *x, uint64_t n, double scale)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(x[i] * scale);
}

/* scale_row - applies row ROW of X to the N numbers at OUT, whose first is column COL of the weight. */
static void scale_row(const struct scaled *s, const struct scales *x, uint64_t row, uint64_t col, uint64_t n,
                      float *out)
{
    uint64_t first = row * x->box.ncols, i, run;
    float constant_zero = s->r.subtracts_integers ? 0 : s->r.constant_zero;
    for (uint64_t k = 0; k < n; k += run) {
        run = get_run(s, x, k, col, n, &i);
        float zero = x->zero ? x->zero[first + i] : constant_zero;
        zero = s->r.truncates_zero ? truncf(zero) : zero;
        for (uint64_t c = k; c < k + run; c++)
            out[c] -= zero; /* -0 - 0 is -0 */
        if (s->r.rounds_difference)
            round_to_dtype(s, out + k, run);
        if (x->wide)
            multiply_wide(out + k, run, x->wide[first + i]);
        for (uint64_t c = k; !x->wide && c < k + run; c++)
            out[c] *= x->scale[first + i];
    }
    if (x->bias && s->r.rounds_product)
        round_to_dtype(s, out, n);
    for (uint64_t k = 0; x->bias && k < n; k += run) {
        run = get_run(s, x, k, col, n, &i);
        for (uint64_t c = k; c < k + run; c++)
            out[c] += s->r.subtracts_bias ? -x->bias[first + i] : x->bias[first + i];
    }
    for (uint64_t k = 0; s->r.factor != 1 && k < n; k++)
        out[k] *= s->r.factor;
}

/* ------------------------------------------------------------------ the source */

/* decode - decodes box B to OUT. */
static ckpt_status decode(const struct scaled *s, const struct box *b, float *out, ckpt_error *err)
{
    struct scales x = {0};
    ckpt_status st = s->r.subtracts_integers
                         ? read_differences(&s->codes, b, (int64_t)s->r.constant_zero, out, err)
                         : read_codes(&s->r.codes, &s->codes, b, out, err);
    if (st == CKPT_OK)
        st = read_scales(s, b, &x, err);
    for (uint64_t i = 0; st == CKPT_OK && i < b->nrows; i++)
        scale_row(s, &x, find_scale_row(s, b->row + i) - x.box.row, b->col, b->ncols, out + i * b->ncols);
    free_scales(&x);
    return st;
}

/* choose_box - returns the box to decode next: it begins at element FIRST, and COUNT elements are wanted. */
static struct box choose_box(const struct scaled *s, uint64_t first, uint64_t count)
{
    uint64_t row = first / s->r.cols, col = first % s->r.cols, left = s->r.cols - col;
    if (col == 0 && s->box_rows && count >= s->r.cols) {
        uint64_t nrows = s->box_rows - row % s->box_rows; /* up to where the next read would begin */
        return (struct box){row, 0, nrows < count / s->r.cols ? nrows : count / s->r.cols, s->r.cols};
    }
    left = left < s->box ? left : s->box;
    return (struct box){row, col, 1, left < count ? left : count};
}

static ckpt_status check_crcs(const struct scaled *s, ckpt_error *err)
{
    const struct matrix *const all[] = {&s->codes, &s->zero, &s->scale, &s->bias, &s->group, &s->nested};
    const struct stream_options o = tensor_stream_options(s->file);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->src)
            CKPT_TRY(storage_check_crc(&s->file->table, all[i]->storage, &o, err));
    return CKPT_OK;
}

static ckpt_status scaled_read(source *from, uint64_t off, void *to, size_t n, ckpt_error *err)
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
    while (st == CKPT_OK && n) {
        size_t skip = (size_t)(off % s->width);
        uint64_t wanted = (skip + (uint64_t)n + s->width - 1) / s->width;
        struct box b = choose_box(s, off / s->width, wanted);
        size_t count = (size_t)(b.nrows * b.ncols), got = count * s->width - skip;
        if ((st = decode(s, &b, numbers, err)) != CKPT_OK)
            break;
        to_little_endian(numbers, count);
        convert_run(&c, numbers, count, rounded, &ignored);
        got = got < n ? got : n;
        memcpy(out, rounded + skip, got);
        out += got;
        off += got;
        n -= got;
    }
    free(numbers);
    free(rounded);
    return st;
}

static void scaled_close(source *s) { free(s); }

/* has_codes - returns true if M holds ROWS x COLS codes, packed as CODES says. */
static bool has_codes(const struct scaled_codes *codes, const struct matrix *m, uint64_t rows, uint64_t cols)
{
    uint64_t width = 8u * dtype_info(m->dtype)->block_bytes, needed, available;
    if (!m->src)
        return false;
    if (codes->packing == PACKED_NOT)
        return m->rows == rows && m->cols == cols;
    if (codes->packing == PACKED_STRIPES)
        return (width == 8 || width == 32) && m->cols == cols && m->rows &&
               (rows - 1) / m->rows < count_stripes(codes, m);
    if (codes->packing == PACKED_ROWS)
        return width == 32 && m->cols == cols && checked_mul(rows, codes->bits, &needed) &&
               checked_mul(m->rows, width, &available) && needed <= available;
    return m->rows == rows && checked_mul(cols, codes->bits, &needed) &&
           checked_mul(m->cols, width, &available) && needed <= available;
}

static ckpt_status check_recipe(const struct scaled *s, ckpt_error *err)
{
    const struct scaled_recipe *r = &s->r;
    bool has_dtypes = (!r->has_wide_scale || (s->scale.src && s->scale.dtype == CKPT_DT_F64)) &&
                      (!r->subtracts_integers || s->codes.dtype == CKPT_DT_I32);
    if (!has_dtypes)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its scales or codes are not of its scheme's dtype");
    if (!r->matrix_rows || !r->block_rows || !r->block_cols || r->rows % r->matrix_rows)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its scales have no rows or columns");
    uint64_t scale_rows = find_scale_row(s, r->rows - 1) + 1;
    uint64_t scale_cols = (r->cols - 1) / r->block_cols + 1;
    bool fits = s->scale.src ? s->scale.rows == scale_rows && (s->group.src || s->scale.cols == scale_cols)
                             : scale_rows == 1 && scale_cols == 1;
    if (!fits || (s->group.src && s->scale.cols > MAX_GROUPS))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "its scales have {%" PRIu64 " rows and %" PRIu64 " columns}, {=%" PRIu64 " and %" PRIu64
                    "} were expected",
                    s->scale.rows, s->scale.cols, scale_rows, scale_cols);
    if (!has_codes(&r->codes, &s->codes, r->rows, r->cols))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "its packed numbers do not have its shape");
    uint64_t nested = r->nested_block ? (s->scale.rows * s->scale.cols - 1) / r->nested_block + 1 : 0;
    fits = (!s->bias.src || (s->bias.rows == scale_rows && s->bias.cols == s->scale.cols)) &&
           (!s->zero.src || has_codes(&r->zero, &s->zero, scale_rows, s->scale.cols)) &&
           (!s->group.src || (s->group.rows == 1 && s->group.cols == r->cols)) &&
           (!s->nested.src || (s->nested.rows == 1 && nested && s->nested.cols >= nested));
    return fits ? CKPT_OK
                : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                       "its zeros, biases, groups or nested scales do not have the shape of its scales");
}

static ckpt_status open_matrices(struct scaled *s, ckpt_error *err)
{
    CKPT_TRY(open_matrix(s, &s->r.codes.m, &s->codes, err));
    CKPT_TRY(open_matrix(s, &s->r.zero.m, &s->zero, err));
    CKPT_TRY(open_matrix(s, &s->r.scale, &s->scale, err));
    CKPT_TRY(open_matrix(s, &s->r.bias, &s->bias, err));
    CKPT_TRY(open_matrix(s, &s->r.group, &s->group, err));
    CKPT_TRY(open_matrix(s, &s->r.nested, &s->nested, err));
    return check_recipe(s, err);
}

/* choose_box_size - sets how much is decoded at a time, and the block_size of the source. */
static void choose_box_size(struct scaled *s)
{
    uint64_t box = s->codes.col_stride != 1 ? TRANSPOSED_BOX : BOX;
    s->box_rows = box / s->r.cols;
    if (s->box_rows >= 8)
        s->box_rows -= s->box_rows % 8; /* packed columns have eight rows in a word */
    s->box = (size_t)(s->box_rows ? s->box_rows * s->r.cols : box);
    uint64_t bytes = s->box * s->width;
    s->as_source.block_size = (uint32_t)(bytes < s->as_source.size ? bytes : s->as_source.size) & 0x7fffffff;
}

ckpt_status scaled_source(ckpt_file *file, const struct scaled_recipe *r, source **out, ckpt_error *err)
{
    static const struct source_ops ops = {.read_at = scaled_read, .close = scaled_close};
    struct scaled *s = calloc(1, sizeof *s);
    uint64_t elements, bytes = 0;
    CKPT_TRY_ALLOC(s, err);
    s->file = file;
    s->r = *r;
    s->width = dtype_info(r->dtype)->block_bytes;
    bool fits = r->rows && r->cols && checked_mul(r->rows, r->cols, &elements) &&
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
