/* dequantize_recipes.c - how the numbers of each scheme of quantized.def are computed from its tensors. The
 * dtype and the rounding are those of the library that wrote the weights:
 *
 *   torch               (code - zero) * scale in float32
 *   bitsandbytes        quant_map[code] * absmax, as the dtype in quant_state; int8: code * SCB / 127
 *   compressed-tensors  (code - zero) * scale, in the dtype of the scale; nvfp4: scale / global_scale
 *   ComfyUI, DeepSeek   code * scale in float32; nvfp4 and mxfp8: as bfloat16
 *   GPTQ, AWQ           (code - zero) * scale in the dtype of the scale; GPTQ may store zero - 1
 *   MLX                 code * scale + bias, in the dtype of the scale; mxfp4, nvfp4, mxfp8: as bfloat16
 *   torchao             code * scale in float32, as the dtype in the metadata
 *
 * What is not in the tensors (bits, block sizes) follows from their shapes, or from a config.json next to
 * them. */
#include <inttypes.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "codec/json_scan.h"
#include "core/convert.h"
#include "core/stream.h"
#include "op/dequantize.h"

#define CONFIG_MAX ((uint64_t)16 << 20) /* bytes of a config.json */
#define STATE_MAX  65536u               /* bytes of a JSON in a tensor */

static const float e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

static const ckpt_tensor *get_tensor(const struct dequantizer *d, uint32_t row)
{
    return &d->p->file->table.rows[row].t;
}

static ckpt_status fail_layout(const char *what, ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s", what);
}

static struct scaled_matrix make_matrix(uint32_t row, uint64_t rows, uint64_t cols)
{
    return (struct scaled_matrix){.row = row, .rows = rows, .cols = cols};
}

static struct scaled_matrix make_transposed(uint32_t row, uint64_t rows, uint64_t cols)
{
    return (struct scaled_matrix){.row = row, .rows = rows, .cols = cols, .transposed = true};
}

static const struct scaled_matrix absent = {.row = CKPT_NO_TENSOR};

static struct scaled_recipe make_recipe(uint64_t rows, uint64_t cols, ckpt_dtype dtype)
{
    return (struct scaled_recipe){.rows = rows,
                                  .cols = cols,
                                  .matrix_rows = rows,
                                  .block_rows = 1,
                                  .block_cols = 1,
                                  .zero.m = absent,
                                  .bias = absent,
                                  .group = absent,
                                  .nested = absent,
                                  .multiplier = 1,
                                  .factor = 1,
                                  .dtype = dtype};
}

/* set_shape - sets the shape of OUT to that of T, the last dimension times MULTIPLY, divided by DIVIDE. */
static ckpt_status set_shape(struct dequantizer *d, struct dequantized *out, const ckpt_tensor *t,
                             uint64_t multiply, uint64_t divide, ckpt_error *err)
{
    out->ndim = t->ndim;
    out->shape = arena_array(d->p->file->a, t->ndim, sizeof *out->shape);
    if (!out->shape)
        return fail_memory(err);
    memcpy(out->shape, t->shape, t->ndim * sizeof *out->shape);
    if (multiply == divide)
        return CKPT_OK;
    uint64_t *last = t->ndim ? &out->shape[t->ndim - 1] : NULL;
    if (!last || !checked_mul(*last, multiply, last) || *last % divide)
        return fail_layout("its packed numbers do not have the shape of the scheme", err);
    *last /= divide;
    return CKPT_OK;
}

static ckpt_status set_matrix_shape(struct dequantizer *d, struct dequantized *out, uint64_t rows,
                                    uint64_t cols, ckpt_error *err)
{
    out->ndim = 2;
    out->shape = arena_array(d->p->file->a, 2, sizeof *out->shape);
    if (!out->shape)
        return fail_memory(err);
    out->shape[0] = rows;
    out->shape[1] = cols;
    return CKPT_OK;
}

static bool is_matrix(const ckpt_tensor *t) { return t->has_shape && t->ndim == 2 && t->elements; }

static bool has_two_bytes_or_more(ckpt_dtype dt)
{
    return dt == CKPT_DT_F32 || dt == CKPT_DT_F16 || dt == CKPT_DT_BF16;
}

/* ------------------------------------------------------------------ facts outside of the tensors */

static ckpt_status read_json_file(struct dequantizer *d, ckpt_str folder, const char *name, ckpt_value **out,
                                  ckpt_error *err)
{
    ckpt_str text, path = ARENA_CONCAT(d->p->a, folder, str_c(folder.len ? "/" : ""), str_c(name));
    ckpt_error missing;
    *out = NULL;
    if (!path.ptr)
        return fail_memory(err);
    ckpt_status st = source_read_whole_file(path.ptr, CONFIG_MAX, d->p->a, &text, &missing);
    if (st == CKPT_EIO || st == CKPT_ENOTFOUND)
        return CKPT_OK;
    if (st == CKPT_OK)
        st = json_read_value(text, 0, d->p->a, out, &missing);
    if (st == CKPT_OK)
        return st;
    if (err)
        *err = missing;
    return name_file_if_failed(st, path.ptr, err);
}

/* read_config - sets d->config from the files next to the checkpoint that describe its quantization. */
static ckpt_status read_config(struct dequantizer *d, ckpt_error *err)
{
    static const struct {
        const char *file, *key;
    } places[] = {{"config.json", "quantization_config"},
                  {"config.json", "quantization"},
                  {"quantize_config.json", NULL},
                  {"quant_config.json", NULL}};
    const ckpt_file *f = d->p->file;
    bool is_file = f->src != NULL;
    if (d->config_read || (is_file && !source_is_named_file(f->src)))
        return CKPT_OK;
    d->config_read = true;
    ckpt_str folder = is_file ? str_folder(str_c(f->path)) : str_c(f->folder);
    for (size_t i = 0; !d->config && i < sizeof places / sizeof *places; i++) {
        ckpt_value *root;
        CKPT_TRY(read_json_file(d, folder, places[i].file, &root, err));
        const ckpt_value *found = root && places[i].key ? value_get(root, places[i].key) : root;
        d->config = found && found->type == CKPT_V_DICT ? found : NULL;
    }
    return CKPT_OK;
}

/* get_number - returns the positive number KEY of MAPPING, or 0. MAPPING may be NULL. */
static uint64_t get_number(const ckpt_value *mapping, const char *key)
{
    int64_t n;
    const ckpt_value *v = mapping ? value_get(mapping, key) : NULL;
    return v && value_integer(v, &n) && n > 0 ? (uint64_t)n : 0;
}

/* get_dtype - returns the dtype that KEY of MAPPING names ("bfloat16", "torch.bfloat16"), if a weight can be
 * dequantized to it; else NONE. */
static ckpt_dtype get_dtype(const ckpt_value *mapping, const char *key)
{
    ckpt_str text;
    const ckpt_value *v = mapping ? value_get(mapping, key) : NULL;
    if (!v || !value_text(v, &text))
        return CKPT_DT_NONE;
    ckpt_dtype dt = ckpt_dtype_parse(str_after_last(text, '.'));
    return has_two_bytes_or_more(dt) ? dt : CKPT_DT_NONE;
}

static bool text_is(const ckpt_value *mapping, const char *key, const char *wanted)
{
    ckpt_str text;
    const ckpt_value *v = mapping ? value_get(mapping, key) : NULL;
    return v && value_text(v, &text) && str_is(text, wanted);
}

/* read_part - reads all N bytes of ROW, at most MAX, into *OUT, allocated in the arena of the file. */
static ckpt_status read_part(struct dequantizer *d, uint32_t row, uint64_t max, unsigned char **out,
                             uint64_t *n, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, row);
    *n = t->nbytes;
    if (!t->has_data || t->nbytes > max || dtype_info((ckpt_dtype)t->dtype)->block_elems != 1)
        return fail_layout("the tensor that describes it is too large", err);
    if (!(*out = arena_alloc(d->p->file->a, (size_t)t->nbytes + 1)))
        return fail_memory(err);
    return stream_read(&d->p->file->table, row, 0, t->elements, *out, err);
}

static ckpt_status read_json_part(struct dequantizer *d, uint32_t row, const ckpt_value **out,
                                  ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    ckpt_value *v;
    CKPT_TRY(read_part(d, row, STATE_MAX, &bytes, &n, err));
    CKPT_TRY(json_read_value(str_of((const char *)bytes, (size_t)n), CKPT_NO_OFFSET, d->p->file->a, &v, err));
    *out = v;
    return CKPT_OK;
}

/* read_lookup - reads the COUNT float32 of ROW. */
static ckpt_status read_lookup(struct dequantizer *d, uint32_t row, uint64_t count, const float **out,
                               ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    if (get_tensor(d, row)->dtype != CKPT_DT_F32 || get_tensor(d, row)->elements != count)
        return fail_layout("its table of numbers does not have the size of the scheme", err);
    CKPT_TRY(read_part(d, row, 4 * count, &bytes, &n, err));
    float *numbers = arena_array(d->p->file->a, count, sizeof *numbers);
    for (uint64_t i = 0; numbers && i < count; i++)
        numbers[i] = float_of_bits(load_u32le(bytes + 4 * i));
    *out = numbers;
    return numbers ? CKPT_OK : fail_memory(err);
}

/* read_scalar - reads the only element of ROW, a float32. */
static ckpt_status read_scalar(struct dequantizer *d, uint32_t row, float *out, ckpt_error *err)
{
    const float *numbers;
    CKPT_TRY(read_lookup(d, row, 1, &numbers, err));
    *out = *numbers;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ scales over blocks */

/* Rows and columns with their scales, and the blocks that share a scale: those of a config that fit. */
struct block_choice {
    uint64_t rows, cols, scale_rows, scale_cols;
    uint64_t block_rows, block_cols;
    unsigned n; /* different blocks that fit */
};

/* is_block_size - returns true if N rows or columns have SCALES blocks of SIZE, of which the last may be
 * smaller. */
static bool is_block_size(uint64_t n, uint64_t size, uint64_t scales)
{
    return n && size && (n - 1) / size + 1 == scales;
}

static void offer_blocks(struct block_choice *c, uint64_t rows, uint64_t cols)
{
    if (!is_block_size(c->rows, rows, c->scale_rows) || !is_block_size(c->cols, cols, c->scale_cols))
        return;
    rows = rows < c->rows ? rows : c->rows;
    cols = cols < c->cols ? cols : c->cols;
    if (c->n && rows == c->block_rows && cols == c->block_cols)
        return;
    c->block_rows = rows;
    c->block_cols = cols;
    c->n++;
}

/* offer_config_blocks - offers the blocks that KEY of MAPPING, which may be NULL, gives: the list
 * [rows, columns], or the number of columns. */
static void offer_config_blocks(struct block_choice *c, const ckpt_value *mapping, const char *key)
{
    int64_t rows = 1, cols;
    const ckpt_value *v = mapping ? value_get(mapping, key) : NULL;
    bool is_pair = v && v->type == CKPT_V_LIST && v->u.seq.n == 2;
    if (!v || (is_pair && !value_integer(v->u.seq.items[0], &rows)) ||
        !value_integer(is_pair ? v->u.seq.items[1] : v, &cols) || rows < 1 || cols < 1)
        return;
    offer_blocks(c, (uint64_t)rows, (uint64_t)cols);
}

/* find_config_blocks - offers C all that the config says about blocks: of transformers' fp8, of GPTQ, of the
 * groups of compressed-tensors. */
static ckpt_status find_config_blocks(struct dequantizer *d, struct block_choice *c, ckpt_error *err)
{
    uint32_t n = 0;
    CKPT_TRY(read_config(d, err));
    offer_config_blocks(c, d->config, "weight_block_size");
    offer_config_blocks(c, d->config, "group_size");
    const ckpt_value *groups = d->config ? value_get(d->config, "config_groups") : NULL;
    const value_pair *pairs = groups ? value_pairs(groups, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *weights = value_get(pairs[i].val, "weights");
        offer_config_blocks(c, weights, "block_structure");
        offer_config_blocks(c, weights, "group_size");
    }
    return c->n <= 1 ? CKPT_OK : fail_layout("its config.json names several sizes of blocks that fit", err);
}

/* guess_block - returns how many of N rows or columns share one of SCALES: all, the power of two that fits,
 * or an equal part; 0: it does not divide. *EXACT: the blocks are of one size, as far as N shows it. */
static uint64_t guess_block(uint64_t n, uint64_t scales, bool *exact)
{
    *exact = scales == 1 || scales == n;
    if (!scales || scales > n)
        return 0;
    if (*exact)
        return n / scales;
    for (uint64_t size = 2; size < n; size *= 2) /* bounded: below twice n, a size of a tensor */
        if (is_block_size(n, size, scales)) {
            *exact = n % size == 0;
            return size;
        }
    return n % scales == 0 ? n / scales : 0;
}

/* choose_blocks - sets the blocks of R for the rows, columns and scales of C. Without a config that fits,
 * guesses, and says so if the sizes allow others. */
static ckpt_status choose_blocks(struct dequantizer *d, struct block_choice *c, struct scaled_recipe *r,
                                 ckpt_error *err)
{
    bool exact_rows, exact_cols;
    CKPT_TRY(find_config_blocks(d, c, err));
    r->block_rows = c->n ? c->block_rows : guess_block(c->rows, c->scale_rows, &exact_rows);
    r->block_cols = c->n ? c->block_cols : guess_block(c->cols, c->scale_cols, &exact_cols);
    if (!r->block_rows || !r->block_cols)
        return fail_layout("its scales do not divide its rows and columns into blocks", err);
    if (c->n || (exact_rows && exact_cols) || d->has_noted_blocks)
        return CKPT_OK;
    d->has_noted_blocks = true;
    plan_notice(d->p,
                "no config.json gives the size of blocks with a scale; by the shapes, assuming %" PRIu64
                " x %" PRIu64,
                r->block_rows, r->block_cols);
    return CKPT_OK;
}

/* set_scales - sets the scale of R, whose rows and columns are set, from row SCALE: one for all, one for each
 * of the outermost dimension of SHAPE (NDIM sizes), or one for each block of the last two dimensions. */
static ckpt_status set_scales(struct dequantizer *d, struct scaled_recipe *r, uint32_t scale,
                              const uint64_t *shape, uint32_t ndim, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, scale);
    if (t->elements == 1) {
        r->matrix_rows = r->block_rows = r->rows;
        r->block_cols = r->cols;
        r->scale = make_matrix(scale, 1, 1);
        return CKPT_OK;
    }
    if (t->ndim && ndim && t->shape[0] == shape[0] && t->elements == shape[0]) {
        r->matrix_rows = r->rows;
        r->block_rows = r->rows / shape[0];
        r->block_cols = r->cols;
        r->scale = make_matrix(scale, shape[0], 1);
        return CKPT_OK;
    }
    bool same_outer = t->ndim == ndim && ndim >= 2;
    for (uint32_t k = 0; same_outer && k + 2 < ndim; k++)
        same_outer = t->shape[k] == shape[k];
    struct block_choice blocks = {.cols = r->cols};
    if (same_outer) {
        blocks.rows = shape[ndim - 2];
        blocks.scale_rows = t->shape[ndim - 2];
        blocks.scale_cols = t->shape[ndim - 1];
    }
    CKPT_TRY(choose_blocks(d, &blocks, r, err));
    r->matrix_rows = blocks.rows;
    r->scale = make_matrix(scale, t->elements / blocks.scale_cols, blocks.scale_cols);
    return CKPT_OK;
}

/* read_exponents - makes R read scales of uint8 as exponents, as OCP's microscaling formats have them. */
static void read_exponents(const struct dequantizer *d, struct scaled_recipe *r)
{
    if (get_tensor(d, r->scale.row)->dtype == CKPT_DT_U8)
        r->scale.dtype = CKPT_DT_F8_E8M0;
}

/* begin_weight - sets the shape of OUT, and its recipe without scales. CODES: codes in an element of the
 * weight. */
static ckpt_status begin_weight(struct dequantizer *d, const struct quantized_weight *w, unsigned codes,
                                ckpt_dtype dtype, struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight);
    CKPT_TRY(set_shape(d, out, t, codes, 1, err));
    uint64_t cols = out->ndim ? out->shape[out->ndim - 1] : 1, elements;
    if (!checked_mul(t->elements, codes, &elements) || !elements)
        return fail_layout("it has no elements", err);
    out->recipe = make_recipe(elements / cols, cols, dtype);
    out->recipe.codes.m = make_matrix(w->weight, elements / cols, cols / codes);
    return CKPT_OK;
}

static void set_fp4(struct scaled_recipe *r)
{
    r->codes.packing = PACKED_COLS;
    r->codes.bits = 4;
    r->codes.lookup = e2m1;
    r->codes.m.dtype = CKPT_DT_U8;
}

/* scaled_dtype - returns the dtype of numbers whose scale is T. */
static ckpt_dtype scaled_dtype(const ckpt_tensor *t)
{
    return has_two_bytes_or_more((ckpt_dtype)t->dtype) ? (ckpt_dtype)t->dtype : CKPT_DT_BF16;
}

/* has_no_groups - sets *OUT to whether ROW, the groups of columns, has the number -1: they are not used
 * then. */
static ckpt_status has_no_groups(struct dequantizer *d, uint32_t row, bool *out, ckpt_error *err)
{
    unsigned char first[8];
    const ckpt_tensor *t = get_tensor(d, row);
    *out = true;
    if ((t->dtype != CKPT_DT_I32 && t->dtype != CKPT_DT_I64) || !t->elements)
        return CKPT_OK;
    CKPT_TRY(stream_read(&d->p->file->table, row, 0, 1, first, err));
    *out = first[0] == 0xff && first[3] == 0xff;
    return CKPT_OK;
}

static ckpt_status set_groups(struct dequantizer *d, struct scaled_recipe *r, uint32_t row, ckpt_error *err)
{
    bool none = true;
    if (row != CKPT_NO_TENSOR)
        CKPT_TRY(has_no_groups(d, row, &none, err));
    if (!none)
        r->group = make_matrix(row, 1, r->cols);
    return CKPT_OK;
}

static bool is_integer(ckpt_dtype dt) { return dtype_info(dt)->klass == 'i' || dtype_info(dt)->klass == 'u'; }

/* make_scaled - codes that are elements, or pairs of fp4 in a byte, times the scale of their block. */
static ckpt_status make_scaled(struct dequantizer *d, const struct quantized_weight *w,
                               struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    bool is_deepseek = w->scheme == QUANTIZED_SCALE_INV || w->scheme == QUANTIZED_DEEPSEEK;
    bool is_fp4 = t->dtype == CKPT_DT_F4 || t->dtype == CKPT_DT_U8 || (is_deepseek && t->dtype == CKPT_DT_I8);
    bool is_compressed = w->scheme == QUANTIZED_SCALE;
    if (is_fp4 && (!is_deepseek || t->ndim < 2))
        return fail_layout("its packed numbers are of an unknown layout", err);
    if (w->scheme == QUANTIZED_QUANTO && (w->part[1] != CKPT_NO_TENSOR || t->dtype == CKPT_DT_U8))
        return fail_layout("packed numbers of optimum-quanto are not dequantized", err);
    CKPT_TRY(begin_weight(d, w, is_fp4 ? 2 : 1, scaled_dtype(scale), out, err));
    if (is_fp4)
        set_fp4(&out->recipe);
    CKPT_TRY(set_scales(d, &out->recipe, w->part[0], out->shape, out->ndim, err));
    read_exponents(d, &out->recipe);
    if (!is_compressed)
        return CKPT_OK;
    if (w->part[1] != CKPT_NO_TENSOR) {
        if (!is_integer((ckpt_dtype)get_tensor(d, w->part[1])->dtype) && t->dtype == CKPT_DT_I8)
            return fail_layout("its zeros are no integers", err);
        out->recipe.zero.m = make_matrix(w->part[1], out->recipe.scale.rows, out->recipe.scale.cols);
    }
    return set_groups(d, &out->recipe, w->part[2], err);
}

/* make_comfy_blocks - makes nvfp4 (IS_FP4) or mxfp8: scales for 16 or 32 numbers, in the tiles of cuBLAS. The
 * first fp4 of a byte is in its high bits. comfy_kitchen dequantizes to bfloat16. */
static ckpt_status make_comfy_blocks(struct dequantizer *d, const struct quantized_weight *w, bool is_fp4,
                                     struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight);
    struct scaled_recipe *r = &out->recipe;
    unsigned block = is_fp4 ? 16 : 32;
    bool is_float = dtype_info((ckpt_dtype)t->dtype)->klass == 'f';
    bool has_dtype = is_fp4 ? t->dtype == CKPT_DT_U8 : is_float;
    if (!has_dtype || !is_matrix(t))
        return fail_layout("it is no matrix of the dtype of its format", err);
    CKPT_TRY(begin_weight(d, w, is_fp4 ? 2 : 1, CKPT_DT_BF16, out, err));
    if (r->cols % block)
        return fail_layout("its columns are not complete blocks", err);
    r->block_cols = block;
    r->scale = make_matrix(w->part[1], r->rows, r->cols / block);
    r->scale.tiled = true;
    r->scale.dtype = is_fp4 ? CKPT_DT_F8_E4M3 : CKPT_DT_F8_E8M0;
    if (!is_fp4)
        return CKPT_OK;
    set_fp4(r);
    r->codes.high_first = true;
    r->rounds_scale = true;
    if (w->part[2] == CKPT_NO_TENSOR)
        return fail_layout("it has no weight_scale_2", err);
    return read_scalar(d, w->part[2], &r->multiplier, err);
}

static ckpt_status make_comfy(struct dequantizer *d, const struct quantized_weight *w,
                              struct dequantized *out, ckpt_error *err)
{
    const ckpt_value *state;
    struct quantized_weight scaled = *w;
    CKPT_TRY(read_json_part(d, w->part[0], &state, err));
    if (w->part[1] == CKPT_NO_TENSOR)
        return fail_layout("it has no weight_scale", err);
    if (text_is(state, "format", "nvfp4") || text_is(state, "format", "mxfp8"))
        return make_comfy_blocks(d, w, text_is(state, "format", "nvfp4"), out, err);
    if (!text_is(state, "format", "float8_e4m3fn") && !text_is(state, "format", "float8_e5m2"))
        return fail_layout("of ComfyUI's formats, only float8_e4m3fn, float8_e5m2, mxfp8 and nvfp4 are "
                           "dequantized",
                           err);
    scaled.part[0] = w->part[1];
    return make_scaled(d, &scaled, out, err);
}

/* make_fp4 - two fp4 in a byte, the first in its low bits, with a scale for each 16 or 32. */
static ckpt_status make_fp4(struct dequantizer *d, const struct quantized_weight *w, struct dequantized *out,
                            ckpt_error *err)
{
    struct scaled_recipe *r = &out->recipe;
    bool is_modelopt = w->scheme == QUANTIZED_NVFP4, has_global = w->scheme != QUANTIZED_CT_MXFP4;
    CKPT_TRY(begin_weight(d, w, 2, is_modelopt ? CKPT_DT_F32 : CKPT_DT_BF16, out, err));
    set_fp4(r);
    CKPT_TRY(set_scales(d, r, w->part[0], out->shape, out->ndim, err));
    if (r->block_rows != 1 || (r->block_cols != 16 && r->block_cols != 32))
        return fail_layout("its scales are not of 16 or 32 numbers", err);
    read_exponents(d, r);
    r->divides = !is_modelopt;
    return has_global ? read_scalar(d, w->part[1], &r->multiplier, err) : CKPT_OK;
}

/* make_gpt_oss - [experts, rows, blocks, 16] bytes of fp4, which transformers transposes when it loads
 * them. */
static ckpt_status make_gpt_oss(struct dequantizer *d, const struct quantized_weight *w,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight);
    struct scaled_recipe *r = &out->recipe;
    if (t->ndim != 4 || t->shape[3] != 16 || !t->elements)
        return fail_layout("its blocks do not have four dimensions", err);
    uint64_t experts = t->shape[0], rows = t->shape[1], blocks = t->shape[2];
    *r = make_recipe(experts * rows, blocks * 32, CKPT_DT_BF16); /* bounded: by twice the bytes of T */
    r->codes.m = make_matrix(w->weight, experts * rows, blocks * 16);
    set_fp4(r);
    r->block_cols = 32;
    r->scale = make_matrix(w->part[0], experts * rows, blocks);
    read_exponents(d, r);
    out->ndim = 3;
    out->shape = arena_array(d->p->file->a, 3, sizeof *out->shape);
    out->stride = arena_array(d->p->file->a, 3, sizeof *out->stride);
    if (!out->shape || !out->stride)
        return fail_memory(err);
    const uint64_t shape[3] = {experts, r->cols, rows}, stride[3] = {rows * r->cols, 1, r->cols};
    memcpy(out->shape, shape, sizeof shape);
    memcpy(out->stride, stride, sizeof stride);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ packed integers */

/* find_packed_bits - sets *BITS to the bits of COLS codes in WORDS words. If several fit, the configuration
 * has to name the bits. */
static ckpt_status find_packed_bits(struct dequantizer *d, uint64_t cols, uint64_t words, unsigned *bits,
                                    ckpt_error *err)
{
    unsigned n = 0;
    for (unsigned i = 1; i <= 8; i++)
        if ((cols * i + 31) / 32 == words) { /* bounded: the caller has checked cols * 32 */
            *bits = i;
            n++;
        }
    if (n == 1)
        return CKPT_OK;
    CKPT_TRY(read_config(d, err));
    const ckpt_value *groups = d->config ? value_get(d->config, "config_groups") : NULL;
    uint32_t ngroups = 0;
    const value_pair *pairs = groups ? value_pairs(groups, &ngroups) : NULL;
    uint64_t given = ngroups == 1 ? get_number(value_get(pairs[0].val, "weights"), "num_bits") : 0;
    if (n == 0 || given < 1 || given > 8 || (cols * given + 31) / 32 != words)
        return fail_layout("its weight_shape does not show how many bits its packed numbers have", err);
    *bits = (unsigned)given;
    return CKPT_OK;
}

/* make_packed - compressed-tensors: integers of BITS bits without gaps, zeros packed along the rows. */
static ckpt_status make_packed(struct dequantizer *d, const struct quantized_weight *w,
                               struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    struct scaled_recipe *r = &out->recipe;
    unsigned char *bytes;
    uint64_t n, cols;
    CKPT_TRY(read_part(d, w->part[1], 64, &bytes, &n, err));
    if (get_tensor(d, w->part[1])->dtype != CKPT_DT_I64 || n != 16 || !is_matrix(t))
        return fail_layout("its weight_shape is not two int64", err);
    cols = load_u64le(bytes + 8);
    if (load_u64le(bytes) != t->shape[0] || !cols || cols > UINT64_MAX / 32 / t->shape[0])
        return fail_layout("its weight_shape does not match its packed numbers", err);
    unsigned bits = 0;
    CKPT_TRY(find_packed_bits(d, cols, t->shape[1], &bits, err));
    CKPT_TRY(set_matrix_shape(d, out, t->shape[0], cols, err));
    *r = make_recipe(t->shape[0], cols, scaled_dtype(scale));
    r->codes = (struct scaled_codes){.m = make_matrix(w->weight, t->shape[0], t->shape[1]),
                                     .packing = PACKED_COLS,
                                     .bits = bits,
                                     .offset = -(1 << (bits - 1))};
    CKPT_TRY(set_scales(d, r, w->part[0], out->shape, 2, err));
    if (w->part[2] != CKPT_NO_TENSOR) {
        const ckpt_tensor *zero = get_tensor(d, w->part[2]);
        r->zero = r->codes;
        r->zero.packing = zero->dtype == CKPT_DT_I32 ? PACKED_ROWS : PACKED_NOT;
        r->zero.m = make_matrix(w->part[2], zero->ndim ? zero->shape[0] : 0, r->scale.cols);
    }
    return set_groups(d, r, w->part[3], err);
}

/* The first words of GPTQ's zeros. */
enum { SAMPLE_WORDS = 16 };

/* find_zero_offset - sets *OFFSET to what is added to GPTQ's zeros: 1 in its first format, in which programs
 * subtract 1 when they write, and 0 in the second. A symmetric zero of half the range shows which it is. */
static ckpt_status find_zero_offset(struct dequantizer *d, uint32_t zeros, unsigned bits, int *offset,
                                    ckpt_error *err)
{
    unsigned char words[4 * SAMPLE_WORDS];
    const ckpt_tensor *t = get_tensor(d, zeros);
    uint64_t n = t->elements < SAMPLE_WORDS ? t->elements : SAMPLE_WORDS;
    CKPT_TRY(read_config(d, err));
    *offset = 1;
    if (d->config && value_get(d->config, "checkpoint_format")) {
        *offset = text_is(d->config, "checkpoint_format", "gptq_v2") ? 0 : 1;
        return CKPT_OK;
    }
    if (d->config)
        return CKPT_OK;
    CKPT_TRY(stream_read(&d->p->file->table, zeros, 0, n, words, err));
    bool all_half = n > 0 && 32 % bits == 0;
    for (uint64_t i = 0; all_half && i < 8 * n * (4 / bits ? 4 / bits : 1) && i * bits < 32 * n; i++)
        all_half = (load_u32le(words + i * bits / 32 * 4) >> (i * bits % 32) & ((1u << bits) - 1)) ==
                   1u << (bits - 1);
    if (all_half)
        *offset = 0;
    if (!d->has_noted_gptq)
        plan_notice(d->p,
                    "no config.json says how GPTQ's zeros are stored; by their values, assuming "
                    "checkpoint_format %s",
                    all_half ? "gptq_v2" : "gptq");
    d->has_noted_gptq = true;
    return CKPT_OK;
}

/* make_gptq - qweight [in * bits / 32, out], qzeros [groups, out * bits / 32], scales [groups, out]. */
static ckpt_status make_gptq(struct dequantizer *d, const struct quantized_weight *w, struct dequantized *out,
                             ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    const ckpt_tensor *zero = get_tensor(d, w->part[1]);
    struct scaled_recipe *r = &out->recipe;
    if (!is_matrix(t) || !is_matrix(scale) || !is_matrix(zero) || t->shape[1] != scale->shape[1])
        return fail_layout("its tensors are not matrices of one width", err);
    uint64_t rows = t->shape[1], groups = scale->shape[0], bits = zero->shape[1] * 32 / rows;
    bool has_groups = w->part[2] != CKPT_NO_TENSOR;
    if (!bits || bits > 8 || zero->shape[1] * 32 != rows * bits || zero->shape[0] != groups)
        return fail_layout("its zeros are not of 1 to 8 bits", err);
    uint64_t cols = has_groups ? get_tensor(d, w->part[2])->elements : t->shape[0] * 32 / bits;
    if (!cols || t->shape[0] * 32 / bits != cols) /* bounded: a size of a tensor */
        return fail_layout("its packed numbers do not have the shape of its g_idx", err);
    CKPT_TRY(set_matrix_shape(d, out, rows, cols, err));
    *r = make_recipe(rows, cols, scaled_dtype(scale));
    r->codes = (struct scaled_codes){
        .m = make_transposed(w->weight, rows, t->shape[0]), .packing = PACKED_COLS, .bits = (unsigned)bits};
    r->scale = make_transposed(w->part[0], rows, groups);
    r->zero = (struct scaled_codes){.m = make_transposed(w->part[1], zero->shape[1], groups),
                                    .packing = PACKED_ROWS,
                                    .bits = (unsigned)bits};
    CKPT_TRY(find_zero_offset(d, w->part[1], (unsigned)bits, &r->zero.offset, err));
    CKPT_TRY(set_groups(d, r, w->part[2], err));
    struct block_choice blocks = {.rows = rows, .cols = cols, .scale_rows = rows, .scale_cols = groups};
    return r->group.row == CKPT_NO_TENSOR ? choose_blocks(d, &blocks, r, err) : CKPT_OK;
}

/* make_awq - qweight [in, out / 8], qzeros [groups, out / 8], scales [groups, out]; 4 bits, interleaved. */
static ckpt_status make_awq(struct dequantizer *d, const struct quantized_weight *w, struct dequantized *out,
                            ckpt_error *err)
{
    static const uint8_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    const ckpt_tensor *zero = get_tensor(d, w->part[1]);
    struct scaled_recipe *r = &out->recipe;
    if (is_matrix(t) && is_matrix(scale) && t->shape[1] == scale->shape[1]) /* GPTQ without g_idx */
        return make_gptq(d, w, out, err);
    bool fits = is_matrix(t) && is_matrix(scale) && is_matrix(zero) && zero->shape[1] == t->shape[1] &&
                scale->shape[1] == t->shape[1] * 8 && /* bounded: sizes */
                zero->shape[0] == scale->shape[0] && t->shape[0] % scale->shape[0] == 0;
    if (!fits)
        return fail_layout("its tensors are not of AWQ's GEMM layout", err);
    uint64_t rows = scale->shape[1], cols = t->shape[0], groups = scale->shape[0];
    CKPT_TRY(set_matrix_shape(d, out, rows, cols, err));
    *r = make_recipe(rows, cols, scaled_dtype(scale));
    r->block_cols = cols / groups;
    r->codes = (struct scaled_codes){.m = make_transposed(w->weight, t->shape[1], cols),
                                     .packing = PACKED_ROWS,
                                     .bits = 4,
                                     .order = order};
    r->zero = r->codes;
    r->zero.m = make_transposed(w->part[1], t->shape[1], groups);
    r->scale = make_transposed(w->part[0], rows, groups);
    return CKPT_OK;
}

/* find_mlx_bits - returns the bits of a number of MLX, of which PACKED words and SCALES groups make a row; 0:
 * the sizes allow several, and no config.json says which. */
static uint64_t find_mlx_bits(const struct dequantizer *d, ckpt_str stem, uint64_t words, uint64_t scales)
{
    static const uint64_t all_bits[] = {2, 3, 4, 5, 6, 8};
    uint64_t found = 0, bits = get_number(d->config, "bits");
    ckpt_str name = str_of(stem.ptr, stem.len ? stem.len - 1 : 0);
    uint32_t n = 0;
    const value_pair *pairs = d->config ? value_pairs(d->config, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) { /* a module may have bits of its own */
        ckpt_str key;
        if (value_text(pairs[i].key, &key) && str_eq(key, name) && get_number(pairs[i].val, "bits"))
            bits = get_number(pairs[i].val, "bits");
    }
    if (bits)
        return bits;
    for (size_t i = 0; i < sizeof all_bits / sizeof *all_bits; i++) {
        uint64_t group = words * 32 / all_bits[i] / scales;
        if (group * scales * all_bits[i] != words * 32 || (group != 32 && group != 64 && group != 128))
            continue;
        if (found)
            return 0;
        found = all_bits[i];
    }
    return found;
}

/* make_mlx - uint32 [..., in * bits / 32], scales and biases [..., in / group]. */
static ckpt_status make_mlx(struct dequantizer *d, const struct quantized_weight *w, struct dequantized *out,
                            ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    struct scaled_recipe *r = &out->recipe;
    if (!t->ndim || t->ndim != scale->ndim || !t->elements || !scale->elements)
        return fail_layout("its tensors do not have the same dimensions", err);
    uint64_t words = t->shape[t->ndim - 1], scales = scale->shape[t->ndim - 1], rows = t->elements / words;
    CKPT_TRY(read_config(d, err));
    uint64_t bits = find_mlx_bits(d, w->stem, words, scales);
    if (!bits || bits > 8)
        return fail_layout("how many bits it has is in a config.json of MLX, which is not next to the file",
                           err);
    CKPT_TRY(set_shape(d, out, t, 32, bits, err));
    *r = make_recipe(rows, out->shape[t->ndim - 1], scaled_dtype(scale));
    r->codes = (struct scaled_codes){
        .m = make_matrix(w->weight, rows, words), .packing = PACKED_COLS, .bits = (unsigned)bits};
    if (r->cols % scales || scale->elements / scales != rows)
        return fail_layout("its scales do not divide its columns", err);
    r->block_cols = r->cols / scales;
    r->scale = make_matrix(w->part[0], rows, scales);
    r->bias = make_matrix(w->part[1], rows, scales);
    r->rounds_product = true;
    return CKPT_OK;
}

/* make_e4m3 - returns the numbers of the codes of float8_e4m3fn. NULL: no memory. */
static const float *make_e4m3(struct dequantizer *d)
{
    unsigned char codes[256];
    struct conversion c;
    struct convert_tally ignored = {0};
    float *numbers = arena_array(d->p->file->a, sizeof codes, sizeof *numbers);
    if (!numbers || !conversion_init(&c, CKPT_DT_F8_E4M3, CKPT_DT_F32))
        return NULL;
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)i;
    convert_run(&c, codes, sizeof codes, numbers, &ignored);
    for (unsigned i = 0; i < sizeof codes; i++)
        numbers[i] = float_of_bits(load_u32le((const unsigned char *)&numbers[i]));
    return numbers;
}

/* make_mlx_float - uint32 [..., in * bits / 32] and scales of bytes, without biases. The mode follows from
 * the words for each scale: 4 for mxfp4, 2 for nvfp4, 8 for mxfp8; MLX has no other sizes. It dequantizes to
 * bfloat16. */
static ckpt_status make_mlx_float(struct dequantizer *d, const struct quantized_weight *w,
                                  struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *scale = get_tensor(d, w->part[0]);
    struct scaled_recipe *r = &out->recipe;
    if (!t->ndim || t->ndim != scale->ndim || !t->elements || !scale->elements)
        return fail_layout("its tensors do not have the same dimensions", err);
    uint64_t words = t->shape[t->ndim - 1], scales = scale->shape[t->ndim - 1], rows = t->elements / words;
    uint64_t words_each = words % scales ? 0 : words / scales;
    if (scale->dtype != CKPT_DT_U8 || (words_each != 2 && words_each != 4 && words_each != 8))
        return fail_layout("its scales are not those of MLX's mxfp4, nvfp4 or mxfp8", err);
    unsigned bits = words_each == 8 ? 8 : 4;
    CKPT_TRY(set_shape(d, out, t, 32, bits, err));
    *r = make_recipe(rows, out->shape[t->ndim - 1], CKPT_DT_BF16);
    r->codes = (struct scaled_codes){.m = make_matrix(w->weight, rows, words),
                                     .packing = PACKED_COLS,
                                     .bits = bits,
                                     .lookup = bits == 4 ? e2m1 : make_e4m3(d)};
    r->block_cols = r->cols / scales;
    r->scale = make_matrix(w->part[0], rows, scales);
    r->scale.dtype = words_each == 2 ? CKPT_DT_F8_E4M3 : CKPT_DT_F8_E8M0;
    return r->codes.lookup ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------ bitsandbytes, torchao */

static ckpt_status make_bnb_nested(struct dequantizer *d, const struct quantized_weight *w,
                                   const ckpt_value *state, struct scaled_recipe *r, ckpt_error *err)
{
    const ckpt_value *offset = value_get(state, "nested_offset");
    bool has_both = w->part[4] != CKPT_NO_TENSOR && w->part[5] != CKPT_NO_TENSOR;
    r->nested_block = get_number(state, "nested_blocksize");
    if (!has_both || !r->nested_block || !offset || offset->type != CKPT_V_FLOAT)
        return fail_layout("its quant_state does not describe the nested absmax", err);
    r->nested_offset = (float)offset->u.f;
    r->nested = make_matrix(w->part[4], 1, get_tensor(d, w->part[4])->elements);
    return read_lookup(d, w->part[5], 256, &r->nested_lookup, err);
}

/* read_shape - sets the shape of OUT to the list V. */
static ckpt_status read_shape(struct dequantizer *d, const ckpt_value *v, struct dequantized *out,
                              uint64_t *elements, ckpt_error *err)
{
    *elements = 1;
    bool ok = v && v->type == CKPT_V_LIST && v->u.seq.n && v->u.seq.n <= 8;
    out->ndim = ok ? v->u.seq.n : 0;
    out->shape = arena_array(d->p->file->a, out->ndim, sizeof *out->shape);
    if (!out->shape)
        return fail_memory(err);
    for (uint32_t k = 0; ok && k < out->ndim; k++) {
        int64_t n;
        ok = value_integer(v->u.seq.items[k], &n) && n > 0 && checked_mul(*elements, (uint64_t)n, elements);
        out->shape[k] = ok ? (uint64_t)n : 0;
    }
    return ok ? CKPT_OK : fail_layout("its quant_state has no shape", err);
}

/* make_bnb_4bit - one run of codes, the first of a byte in its high bits, with an absmax for each block. */
static ckpt_status make_bnb_4bit(struct dequantizer *d, const struct quantized_weight *w,
                                 struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight), *absmax = get_tensor(d, w->part[0]);
    struct scaled_recipe *r = &out->recipe;
    uint32_t row = w->part[2] != CKPT_NO_TENSOR ? w->part[2] : w->part[3];
    const ckpt_value *state;
    uint64_t elements;
    if (row == CKPT_NO_TENSOR)
        return fail_layout("it has no quant_state", err);
    CKPT_TRY(read_json_part(d, row, &state, err));
    CKPT_TRY(read_shape(d, value_get(state, "shape"), out, &elements, err));
    *r = make_recipe(1, elements, get_dtype(state, "dtype"));
    r->block_cols = get_number(state, "blocksize");
    if (!r->dtype || !r->block_cols)
        return fail_layout("its quant_state has no dtype or blocksize", err);
    static const ckpt_dtype words[9] = {[1] = CKPT_DT_U8, [2] = CKPT_DT_U16, [4] = CKPT_DT_U32};
    unsigned width = dtype_info((ckpt_dtype)t->dtype)->block_bytes;
    r->codes = (struct scaled_codes){
        .m = make_matrix(w->weight, 1, t->elements), .packing = PACKED_COLS, .bits = 4, .high_first = true};
    r->codes.m.dtype = width < 9 ? words[width] : CKPT_DT_NONE;
    if (!r->codes.m.dtype)
        return fail_layout("its numbers are not in elements of 1, 2 or 4 bytes", err);
    CKPT_TRY(read_lookup(d, w->part[1], 16, &r->codes.lookup, err));
    r->scale = make_matrix(w->part[0], 1, absmax->elements);
    return absmax->dtype == CKPT_DT_U8 ? make_bnb_nested(d, w, state, r, err) : CKPT_OK;
}

static ckpt_status make_bnb_int8(struct dequantizer *d, const struct quantized_weight *w,
                                 struct dequantized *out, ckpt_error *err)
{
    unsigned char *format;
    uint64_t n;
    CKPT_TRY(begin_weight(d, w, 1, CKPT_DT_F32, out, err));
    CKPT_TRY(set_scales(d, &out->recipe, w->part[0], out->shape, out->ndim, err));
    out->recipe.factor = 7.874015718698502e-3f; /* 1 / 127, as bitsandbytes rounds it */
    if (w->part[1] == CKPT_NO_TENSOR)
        return CKPT_OK;
    CKPT_TRY(read_part(d, w->part[1], 8, &format, &n, err));
    return n && *format == 0 ? CKPT_OK : fail_layout("its weight_format is not that of rows", err);
}

/* make_torchao - as torchao's safetensors have it: the attributes of the tensor are in the metadata. */
static ckpt_status make_torchao(struct dequantizer *d, const struct quantized_weight *w,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_file *f = d->p->file;
    ckpt_str last = str_after_last(w->stem, '.'), text; /* "_weight" of "0._weight" */
    if (!last.len || last.ptr[0] != '_' || !f->metadata)
        return fail_layout("its metadata do not describe it", err);
    ckpt_str name = ARENA_CONCAT(d->p->a, str_of(w->stem.ptr, w->stem.len - last.len), str_skip(last, 1));
    const ckpt_value *v = name.ptr ? value_get(f->metadata, name.ptr) : NULL;
    ckpt_value *state = NULL;
    if (!v || !value_text(v, &text) || json_read_value(text, CKPT_NO_OFFSET, d->p->a, &state, err) != CKPT_OK)
        return fail_layout("its metadata do not describe it", err);
    const ckpt_value *data = value_get(state, "_data");
    bool is_fp8 = text_is(state, "_type", "Float8Tensor");
    bool is_int8 = text_is(state, "_type", "Int8Tensor") ||
                   text_is(state, "_type", "IntxUnpackedToInt8Tensor");
    if (!(is_fp8 || is_int8) || w->part[2] != CKPT_NO_TENSOR || w->part[3] != CKPT_NO_TENSOR)
        return fail_layout("of torchao's tensors, Float8Tensor, Int8Tensor and IntxUnpackedToInt8Tensor are "
                           "dequantized",
                           err);
    ckpt_dtype dtype = get_dtype(data ? value_get(data, "dtype") : NULL, "_data");
    if (!dtype)
        return fail_layout("its metadata do not name its dtype", err);
    CKPT_TRY(begin_weight(d, w, 1, dtype, out, err));
    CKPT_TRY(set_scales(d, &out->recipe, w->part[0], out->shape, out->ndim, err));
    if (w->part[1] != CKPT_NO_TENSOR)
        out->recipe.zero.m = make_matrix(w->part[1], out->recipe.scale.rows, out->recipe.scale.cols);
    return CKPT_OK;
}

/* find_quantizer - returns the quantizer (scheme, scale, zero_point[, axis]) in the call that makes V; NULL:
 * there is none. */
static const ckpt_value *find_quantizer(const ckpt_value *v)
{
    if (v && value_calls(v, "torch._utils", "_rebuild_parameter", 1))
        v = value_arg(v, 0);
    const ckpt_value *quantizer = v && value_calls(v, "torch._utils", "_rebuild_qtensor", 5) ? value_arg(v, 4)
                                                                                             : NULL;
    bool ok = quantizer && quantizer->type == CKPT_V_TUPLE && value_count(quantizer) >= 3 &&
              value_item(quantizer, 0)->type == CKPT_V_GLOBAL;
    return ok ? quantizer : NULL;
}

/* set_channels - sets the scales and zeros of R, one for each index of dimension AXIS of the
 * weight. */
static ckpt_status set_channels(const struct dequantizer *d, const struct quantized_weight *w,
                                const ckpt_value *axis, struct scaled_recipe *r, ckpt_error *err)
{
    int64_t dim;
    const ckpt_tensor *t = get_tensor(d, w->weight);
    bool ok = w->part[0] != CKPT_NO_TENSOR && w->part[1] != CKPT_NO_TENSOR && axis &&
              value_integer(axis, &dim) && t->ndim;
    if (!ok || (dim != 0 && dim != (int64_t)t->ndim - 1))
        return fail_layout("its scales are not those of the first or last dimension", err);
    uint64_t channels = t->shape[dim];
    r->matrix_rows = r->rows;
    if (dim) {
        r->block_rows = r->rows;
        r->scale = make_matrix(w->part[0], 1, channels);
    } else {
        r->block_rows = r->rows / channels;
        r->block_cols = r->cols;
        r->scale = make_matrix(w->part[0], channels, 1);
    }
    r->zero.m = make_matrix(w->part[1], r->scale.rows, r->scale.cols);
    return CKPT_OK;
}

/* get_qtensor_codes - returns the dtype that elements of DT are stored in, or NONE: several in a byte. */
static ckpt_dtype get_qtensor_codes(ckpt_dtype dt)
{
    switch (dt) {
    case CKPT_DT_QI8: return CKPT_DT_I8;
    case CKPT_DT_QU8: return CKPT_DT_U8;
    case CKPT_DT_QI32: return CKPT_DT_I32;
    default: return CKPT_DT_NONE;
    }
}

/* make_qtensor - torch's quint8, qint8 and qint32, with one scale and zero or those of each channel, as
 * float32. */
static ckpt_status make_qtensor(struct dequantizer *d, const struct quantized_weight *w,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor *t = get_tensor(d, w->weight);
    const ckpt_value *quantizer = find_quantizer(t->value);
    struct scaled_recipe *r = &out->recipe;
    int64_t zero;
    if (!quantizer)
        return fail_layout("the call that makes it has no quantizer", err);
    ckpt_str scheme = value_name(value_item(quantizer, 0));
    const ckpt_value *scale = value_item(quantizer, 1);
    ckpt_dtype codes = get_qtensor_codes((ckpt_dtype)t->dtype);
    if (!codes)
        return fail_layout("packed numbers of torch are not dequantized", err);
    CKPT_TRY(begin_weight(d, w, 1, CKPT_DT_F32, out, err));
    r->codes.m.dtype = codes;
    if (str_is(scheme, "per_channel_affine"))
        return set_channels(d, w, value_count(quantizer) > 3 ? value_item(quantizer, 3) : NULL, r, err);
    bool ok = str_is(scheme, "per_tensor_affine") && scale->type == CKPT_V_FLOAT &&
              value_integer(value_item(quantizer, 2), &zero) && zero >= -(1 << 24) && zero <= 1 << 24;
    if (!ok)
        return fail_layout("its scheme is neither per_tensor_affine nor per_channel_affine", err);
    r->matrix_rows = r->block_rows = r->rows;
    r->block_cols = r->cols;
    r->scale = absent;
    r->multiplier = (float)scale->u.f;
    r->constant_zero = (float)zero;
    return CKPT_OK;
}

static ckpt_status make_unsupported(struct dequantizer *d, const struct quantized_weight *w,
                                    struct dequantized *out, ckpt_error *err)
{
    (void)d;
    (void)out;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "weights by %s are not dequantized",
                quantized_title(w->scheme));
}

ckpt_status dequantize_make_recipe(struct dequantizer *d, const struct quantized_weight *w,
                                   struct dequantized *out, ckpt_error *err)
{
    *out = (struct dequantized){0};
    switch (w->scheme) {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe)                                  \
    case QUANTIZED_##id:                                                                                     \
        return make_##recipe(d, w, out, err);
#include "op/quantized.def"
#undef SCHEME
    default: return make_unsupported(d, w, out, err);
    }
}
