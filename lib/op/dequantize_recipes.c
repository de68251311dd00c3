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

#include "base/cursor.h"
#include "core/convert.h"
#include "op/recipe.h"

static const float e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

static struct scaled_matrix make_transposed(uint32_t row, uint64_t rows, uint64_t cols)
{
    return (struct scaled_matrix){.row = row, .rows = rows, .cols = cols, .transposed = true};
}

static bool is_matrix(const ckpt_tensor *tensor)
{
    return tensor->has_shape && tensor->ndim == 2 && tensor->elements;
}

/* read_scalar - reads the only element of ROW, a float32. */
static ckpt_status read_scalar(struct dequantizer *dequantizer, uint32_t row, float *out, ckpt_error *err)
{
    const float *numbers;
    CKPT_TRY(recipe_read_lookup(dequantizer, row, 1, &numbers, err));
    *out = *numbers;
    return CKPT_OK;
}

/* read_exponents - makes RECIPE read scales of uint8 as exponents, as OCP's microscaling formats have
 * them. */
static void read_exponents(const struct dequantizer *dequantizer, struct scaled_recipe *recipe)
{
    if (recipe_tensor(dequantizer, recipe->scale.row).dtype == CKPT_DT_U8)
        recipe->scale.dtype = CKPT_DT_F8_E8M0;
}

static void set_fp4(struct scaled_recipe *recipe)
{
    recipe->codes.packing = PACKED_COLS;
    recipe->codes.bits = 4;
    recipe->codes.lookup = e2m1;
    recipe->codes.m.dtype = CKPT_DT_U8;
}

/* has_no_groups - sets *OUT to whether ROW, the groups of columns, has the number -1: they are not used
 * then. */
static ckpt_status has_no_groups(struct dequantizer *dequantizer, uint32_t row, bool *out, ckpt_error *err)
{
    unsigned char first[8];
    const ckpt_tensor t = recipe_tensor(dequantizer, row);
    *out = true;
    if ((t.dtype != CKPT_DT_I32 && t.dtype != CKPT_DT_I64) || !t.elements)
        return CKPT_OK;
    CKPT_TRY(stream_read(&dequantizer->p->file->table, row, 0, 1, first, err));
    *out = first[0] == 0xff && first[3] == 0xff;
    return CKPT_OK;
}

static ckpt_status set_groups(struct dequantizer *dequantizer, struct scaled_recipe *recipe, uint32_t row,
                              ckpt_error *err)
{
    bool none = true;
    if (row != CKPT_NO_TENSOR)
        CKPT_TRY(has_no_groups(dequantizer, row, &none, err));
    if (!none)
        recipe->group = recipe_matrix(row, 1, recipe->cols);
    return CKPT_OK;
}

static bool is_integer(ckpt_dtype dt) { return dtype_info(dt)->klass == 'i' || dtype_info(dt)->klass == 'u'; }

/* recipe_make_scaled - codes that are elements, or pairs of fp4 in a byte, times the scale of their block. */
ckpt_status recipe_make_scaled(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                               struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    bool is_deepseek = weight->scheme == QUANTIZED_SCALE_INV || weight->scheme == QUANTIZED_DEEPSEEK;
    bool is_fp4 = t.dtype == CKPT_DT_F4 || t.dtype == CKPT_DT_U8 || (is_deepseek && t.dtype == CKPT_DT_I8);
    bool is_compressed = weight->scheme == QUANTIZED_SCALE;
    if (is_fp4 && (!is_deepseek || t.ndim < 2))
        return recipe_refuse("its packed numbers are of an unknown layout", err);
    if (weight->scheme == QUANTIZED_QUANTO && quantized_part(weight, 1) != CKPT_NO_TENSOR)
        return recipe_refuse("packed numbers of optimum-quanto begin with _data._data", err);
    CKPT_TRY(recipe_begin(dequantizer, weight, is_fp4 ? 2 : 1, recipe_dtype(&scale), out, err));
    if (is_fp4)
        set_fp4(&out->recipe);
    CKPT_TRY(
        recipe_set_scales(dequantizer, &out->recipe, quantized_part(weight, 0), out->shape, out->ndim, err));
    read_exponents(dequantizer, &out->recipe);
    if (!is_compressed)
        return CKPT_OK;
    if (quantized_part(weight, 1) != CKPT_NO_TENSOR) {
        if (!is_integer((ckpt_dtype)recipe_tensor(dequantizer, quantized_part(weight, 1)).dtype) &&
            t.dtype == CKPT_DT_I8)
            return recipe_refuse("its zeros are no integers", err);
        out->recipe.zero.m = recipe_matrix(quantized_part(weight, 1), out->recipe.scale.rows,
                                           out->recipe.scale.cols);
    }
    return set_groups(dequantizer, &out->recipe, quantized_part(weight, 2), err);
}

/* make_comfy_blocks - makes nvfp4 (IS_FP4) or mxfp8: scales for 16 or 32 numbers, in the tiles of cuBLAS. The
 * first fp4 of a byte is in its high bits. comfy_kitchen dequantizes to bfloat16. */
static ckpt_status make_comfy_blocks(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                     bool is_fp4, struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    struct scaled_recipe *r = &out->recipe;
    unsigned block = is_fp4 ? 16 : 32;
    bool is_float = dtype_info((ckpt_dtype)t.dtype)->klass == 'f';
    bool has_dtype = is_fp4 ? t.dtype == CKPT_DT_U8 : is_float;
    if (!has_dtype || !is_matrix(&t))
        return recipe_refuse("it is no matrix of the dtype of its format", err);
    CKPT_TRY(recipe_begin(dequantizer, weight, is_fp4 ? 2 : 1, CKPT_DT_BF16, out, err));
    if (r->cols % block)
        return recipe_refuse("its columns are not complete blocks", err);
    r->block_cols = block;
    r->scale = recipe_matrix(quantized_part(weight, 1), r->rows, r->cols / block);
    r->scale.tiled = true;
    r->scale.dtype = is_fp4 ? CKPT_DT_F8_E4M3 : CKPT_DT_F8_E8M0;
    if (!is_fp4)
        return CKPT_OK;
    set_fp4(r);
    r->codes.high_first = true;
    r->rounds_scale = true;
    if (quantized_part(weight, 2) == CKPT_NO_TENSOR)
        return recipe_refuse("it has no weight_scale_2", err);
    return read_scalar(dequantizer, quantized_part(weight, 2), &r->multiplier, err);
}

ckpt_status recipe_make_comfy(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                              struct dequantized *out, ckpt_error *err)
{
    const ckpt_value *state;
    const uint32_t scale = quantized_part(weight, 1);
    CKPT_TRY(recipe_read_json(dequantizer, quantized_part(weight, 0), &state, err));
    if (scale == CKPT_NO_TENSOR)
        return recipe_refuse("it has no weight_scale", err);
    if (recipe_text_is(state, "format", "nvfp4") || recipe_text_is(state, "format", "mxfp8"))
        return make_comfy_blocks(dequantizer, weight, recipe_text_is(state, "format", "nvfp4"), out, err);
    if (!recipe_text_is(state, "format", "float8_e4m3fn") && !recipe_text_is(state, "format", "float8_e5m2"))
        return recipe_refuse("of ComfyUI's formats, only float8_e4m3fn, float8_e5m2, mxfp8 and nvfp4 are "
                             "dequantized",
                             err);
    struct quantized_weight scaled = *weight;
    scaled.part = &scale;
    scaled.nparts = 1;
    return recipe_make_scaled(dequantizer, &scaled, out, err);
}

/* recipe_make_fp4 - two fp4 in a byte, the first in its low bits, with a scale for each 16 or 32. */
ckpt_status recipe_make_fp4(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                            struct dequantized *out, ckpt_error *err)
{
    struct scaled_recipe *r = &out->recipe;
    bool is_modelopt = weight->scheme == QUANTIZED_NVFP4, has_global = weight->scheme != QUANTIZED_CT_MXFP4;
    CKPT_TRY(recipe_begin(dequantizer, weight, 2, is_modelopt ? CKPT_DT_F32 : CKPT_DT_BF16, out, err));
    set_fp4(r);
    CKPT_TRY(recipe_set_scales(dequantizer, r, quantized_part(weight, 0), out->shape, out->ndim, err));
    if (r->block_rows != 1 || (r->block_cols != 16 && r->block_cols != 32))
        return recipe_refuse("its scales are not of 16 or 32 numbers", err);
    read_exponents(dequantizer, r);
    r->divides = !is_modelopt;
    return has_global ? read_scalar(dequantizer, quantized_part(weight, 1), &r->multiplier, err) : CKPT_OK;
}

/* recipe_make_gpt_oss - [experts, rows, blocks, 16] bytes of fp4, which transformers transposes when it loads
 * them. */
ckpt_status recipe_make_gpt_oss(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    struct scaled_recipe *r = &out->recipe;
    if (t.ndim != 4 || t.shape[3] != 16 || !t.elements)
        return recipe_refuse("its blocks do not have four dimensions", err);
    uint64_t experts = t.shape[0], rows = t.shape[1], blocks = t.shape[2];
    *r = recipe_make(experts * rows, blocks * 32, CKPT_DT_BF16);
    r->codes.m = recipe_matrix(weight->weight, experts * rows, blocks * 16);
    set_fp4(r);
    r->block_cols = 32;
    r->scale = recipe_matrix(quantized_part(weight, 0), experts * rows, blocks);
    read_exponents(dequantizer, r);
    out->ndim = 3;
    out->shape = arena_array(dequantizer->p->file->a, 3, sizeof *out->shape);
    out->stride = arena_array(dequantizer->p->file->a, 3, sizeof *out->stride);
    CKPT_TRY_ALLOC(out->shape && out->stride, err);
    const uint64_t shape[3] = {experts, r->cols, rows}, stride[3] = {rows * r->cols, 1, r->cols};
    memcpy(out->shape, shape, sizeof shape);
    memcpy(out->stride, stride, sizeof stride);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ packed integers */

/* find_packed_bits - sets *BITS to the bits of COLS codes in WORDS words. If several fit, the configuration
 * has to name the bits. */
static ckpt_status find_packed_bits(struct dequantizer *dequantizer, uint64_t cols, uint64_t words,
                                    unsigned *bits, ckpt_error *err)
{
    unsigned n = 0;
    for (unsigned i = 1; i <= 8; i++)
        if ((cols * i + 31) / 32 == words) {
            *bits = i;
            n++;
        }
    if (n == 1)
        return CKPT_OK;
    CKPT_TRY(recipe_read_config(dequantizer, err));
    uint32_t ngroups;
    const value_pair *pairs = value_pairs(value_get(dequantizer->config, "config_groups"), &ngroups);
    uint64_t given = ngroups == 1 ? recipe_get_number(value_get(pairs[0].val, "weights"), "num_bits") : 0;
    if (n == 0 || given < 1 || given > 8 || (cols * given + 31) / 32 != words)
        return recipe_refuse("its weight_shape does not show how many bits its packed numbers have", err);
    *bits = (unsigned)given;
    return CKPT_OK;
}

/* recipe_make_packed - compressed-tensors: integers of BITS bits without gaps, zeros packed along the
 * rows. */
ckpt_status recipe_make_packed(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                               struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    struct scaled_recipe *r = &out->recipe;
    unsigned char *bytes;
    uint64_t n, cols;
    CKPT_TRY(recipe_read_part(dequantizer, quantized_part(weight, 1), 64, &bytes, &n, err));
    if (recipe_tensor(dequantizer, quantized_part(weight, 1)).dtype != CKPT_DT_I64 || n != 16 ||
        !is_matrix(&t))
        return recipe_refuse("its weight_shape is not two int64", err);
    cols = load_u64le(bytes + 8);
    if (load_u64le(bytes) != t.shape[0] || !cols || cols > UINT64_MAX / 32 / t.shape[0])
        return recipe_refuse("its weight_shape does not match its packed numbers", err);
    unsigned bits = 0;
    CKPT_TRY(find_packed_bits(dequantizer, cols, t.shape[1], &bits, err));
    CKPT_TRY(recipe_set_matrix_shape(dequantizer, out, t.shape[0], cols, err));
    *r = recipe_make(t.shape[0], cols, recipe_dtype(&scale));
    r->codes = (struct scaled_codes){.m = recipe_matrix(weight->weight, t.shape[0], t.shape[1]),
                                     .packing = PACKED_COLS,
                                     .bits = bits,
                                     .offset = -(1 << (bits - 1))};
    CKPT_TRY(recipe_set_scales(dequantizer, r, quantized_part(weight, 0), out->shape, 2, err));
    if (quantized_part(weight, 2) != CKPT_NO_TENSOR) {
        const ckpt_tensor zero = recipe_tensor(dequantizer, quantized_part(weight, 2));
        r->zero = r->codes;
        r->zero.packing = zero.dtype == CKPT_DT_I32 ? PACKED_ROWS : PACKED_NOT;
        r->zero.m = recipe_matrix(quantized_part(weight, 2), zero.ndim ? zero.shape[0] : 0, r->scale.cols);
    }
    return set_groups(dequantizer, r, quantized_part(weight, 3), err);
}

/* The first words of GPTQ's zeros. */
enum { SAMPLE_WORDS = 16 };

/* find_zero_offset - sets *OFFSET to what is added to GPTQ's zeros: 1 in its first format, in which programs
 * subtract 1 when they write, and 0 in the second. A symmetric zero of half the range shows which it is. */
static ckpt_status find_zero_offset(struct dequantizer *dequantizer, uint32_t zeros, unsigned bits,
                                    int *offset, ckpt_error *err)
{
    unsigned char words[4 * SAMPLE_WORDS];
    const ckpt_tensor t = recipe_tensor(dequantizer, zeros);
    uint64_t n = t.elements < SAMPLE_WORDS ? t.elements : SAMPLE_WORDS;
    CKPT_TRY(recipe_read_config(dequantizer, err));
    *offset = 1;
    if (dequantizer->config && value_get(dequantizer->config, "checkpoint_format")) {
        *offset = recipe_text_is(dequantizer->config, "checkpoint_format", "gptq_v2") ? 0 : 1;
        return CKPT_OK;
    }
    if (dequantizer->config)
        return CKPT_OK;
    CKPT_TRY(stream_read(&dequantizer->p->file->table, zeros, 0, n, words, err));
    bool all_half = n > 0 && 32 % bits == 0;
    for (uint64_t i = 0; all_half && i < 8 * n * (4 / bits ? 4 / bits : 1) && i * bits < 32 * n; i++)
        all_half = (load_u32le(words + i * bits / 32 * 4) >> (i * bits % 32) & ((1u << bits) - 1)) ==
                   1u << (bits - 1);
    if (all_half)
        *offset = 0;
    if (!dequantizer->has_noted_gptq)
        plan_notice(dequantizer->p,
                    "no config.json says how GPTQ's zeros are stored; by their values, assuming "
                    "checkpoint_format %s",
                    all_half ? "gptq_v2" : "gptq");
    dequantizer->has_noted_gptq = true;
    return CKPT_OK;
}

/* recipe_make_gptq - qweight [in * bits / 32, out], qzeros [groups, out * bits / 32], scales [groups,
 * out]. */
ckpt_status recipe_make_gptq(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                             struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    const ckpt_tensor zero = recipe_tensor(dequantizer, quantized_part(weight, 1));
    struct scaled_recipe *r = &out->recipe;
    if (!is_matrix(&t) || !is_matrix(&scale) || !is_matrix(&zero) || t.shape[1] != scale.shape[1])
        return recipe_refuse("its tensors are not matrices of one width", err);
    uint64_t rows = t.shape[1], groups = scale.shape[0], bits = zero.shape[1] * 32 / rows;
    bool has_groups = quantized_part(weight, 2) != CKPT_NO_TENSOR;
    if (!bits || bits > 8 || zero.shape[1] * 32 != rows * bits || zero.shape[0] != groups)
        return recipe_refuse("its zeros are not of 1 to 8 bits", err);
    uint64_t cols = has_groups ? recipe_tensor(dequantizer, quantized_part(weight, 2)).elements
                               : t.shape[0] * 32 / bits;
    if (!cols || t.shape[0] * 32 / bits != cols)
        return recipe_refuse("its packed numbers do not have the shape of its g_idx", err);
    CKPT_TRY(recipe_set_matrix_shape(dequantizer, out, rows, cols, err));
    *r = recipe_make(rows, cols, recipe_dtype(&scale));
    r->codes = (struct scaled_codes){.m = make_transposed(weight->weight, rows, t.shape[0]),
                                     .packing = PACKED_COLS,
                                     .bits = (unsigned)bits};
    r->scale = make_transposed(quantized_part(weight, 0), rows, groups);
    r->zero = (struct scaled_codes){.m = make_transposed(quantized_part(weight, 1), zero.shape[1], groups),
                                    .packing = PACKED_ROWS,
                                    .bits = (unsigned)bits};
    CKPT_TRY(find_zero_offset(dequantizer, quantized_part(weight, 1), (unsigned)bits, &r->zero.offset, err));
    CKPT_TRY(set_groups(dequantizer, r, quantized_part(weight, 2), err));
    struct block_choice blocks = {.rows = rows, .cols = cols, .scale_rows = rows, .scale_cols = groups};
    return r->group.row == CKPT_NO_TENSOR ? recipe_choose_blocks(dequantizer, &blocks, r, err) : CKPT_OK;
}

/* recipe_make_awq - qweight [in, out / 8], qzeros [groups, out / 8], scales [groups, out]; 4 bits,
 * interleaved. */
ckpt_status recipe_make_awq(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                            struct dequantized *out, ckpt_error *err)
{
    static const uint8_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    const ckpt_tensor zero = recipe_tensor(dequantizer, quantized_part(weight, 1));
    struct scaled_recipe *r = &out->recipe;
    if (is_matrix(&t) && is_matrix(&scale) && t.shape[1] == scale.shape[1]) /* GPTQ without g_idx */
        return recipe_make_gptq(dequantizer, weight, out, err);
    bool fits = is_matrix(&t) && is_matrix(&scale) && is_matrix(&zero) && zero.shape[1] == t.shape[1] &&
                scale.shape[1] == t.shape[1] * 8 && zero.shape[0] == scale.shape[0] &&
                t.shape[0] % scale.shape[0] == 0;
    if (!fits)
        return recipe_refuse("its tensors are not of AWQ's GEMM layout", err);
    uint64_t rows = scale.shape[1], cols = t.shape[0], groups = scale.shape[0];
    CKPT_TRY(recipe_set_matrix_shape(dequantizer, out, rows, cols, err));
    *r = recipe_make(rows, cols, recipe_dtype(&scale));
    r->block_cols = cols / groups;
    r->codes = (struct scaled_codes){.m = make_transposed(weight->weight, t.shape[1], cols),
                                     .packing = PACKED_ROWS,
                                     .bits = 4,
                                     .order = order};
    r->zero = r->codes;
    r->zero.m = make_transposed(quantized_part(weight, 1), t.shape[1], groups);
    r->scale = make_transposed(quantized_part(weight, 0), rows, groups);
    return CKPT_OK;
}

/* find_mlx_bits - returns the bits of a number of MLX, of which PACKED words and SCALES groups make a row; 0:
 * the sizes allow several, and no config.json says which. */
static uint64_t find_mlx_bits(const struct dequantizer *dequantizer, ckpt_str stem, uint64_t words,
                              uint64_t scales)
{
    static const uint64_t all_bits[] = {2, 3, 4, 5, 6, 8};
    uint64_t found = 0, bits = recipe_get_number(dequantizer->config, "bits");
    ckpt_str name = str_of(stem.ptr, stem.len ? stem.len - 1 : 0);
    uint32_t n;
    const value_pair *pairs = value_pairs(dequantizer->config, &n);
    for (uint32_t i = 0; i < n; i++) { /* a module may have bits of its own */
        ckpt_str key;
        if (value_text(pairs[i].key, &key) && str_eq(key, name) && recipe_get_number(pairs[i].val, "bits"))
            bits = recipe_get_number(pairs[i].val, "bits");
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

/* recipe_make_mlx - uint32 [..., in * bits / 32], scales and biases [..., in / group]. */
ckpt_status recipe_make_mlx(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                            struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    struct scaled_recipe *r = &out->recipe;
    if (!t.ndim || t.ndim != scale.ndim || !t.elements || !scale.elements)
        return recipe_refuse("its tensors do not have the same dimensions", err);
    uint64_t words = t.shape[t.ndim - 1], scales = scale.shape[t.ndim - 1], rows = t.elements / words;
    CKPT_TRY(recipe_read_config(dequantizer, err));
    uint64_t bits = find_mlx_bits(dequantizer, weight->stem, words, scales);
    if (!bits || bits > 8)
        return recipe_refuse("how many bits it has is in a config.json of MLX, which is not next to the file",
                             err);
    CKPT_TRY(recipe_set_shape(dequantizer, out, &t, 32, bits, err));
    *r = recipe_make(rows, out->shape[t.ndim - 1], recipe_dtype(&scale));
    r->codes = (struct scaled_codes){
        .m = recipe_matrix(weight->weight, rows, words), .packing = PACKED_COLS, .bits = (unsigned)bits};
    if (r->cols % scales || scale.elements / scales != rows)
        return recipe_refuse("its scales do not divide its columns", err);
    r->block_cols = r->cols / scales;
    r->scale = recipe_matrix(quantized_part(weight, 0), rows, scales);
    r->bias = recipe_matrix(quantized_part(weight, 1), rows, scales);
    r->rounds_product = true;
    return CKPT_OK;
}

/* make_e4m3 - returns the numbers of the codes of float8_e4m3fn. NULL: no memory. */
static const float *make_e4m3(struct dequantizer *dequantizer)
{
    unsigned char codes[256];
    struct conversion c;
    struct convert_tally ignored = {0};
    float *numbers = arena_array(dequantizer->p->file->a, sizeof codes, sizeof *numbers);
    if (!numbers || !conversion_init(&c, CKPT_DT_F8_E4M3, CKPT_DT_F32))
        return NULL;
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)i;
    convert_run(&c, codes, sizeof codes, numbers, &ignored);
    for (unsigned i = 0; i < sizeof codes; i++)
        numbers[i] = float_of_bits(load_u32le((const unsigned char *)&numbers[i]));
    return numbers;
}

/* recipe_make_mlx_float - uint32 [..., in * bits / 32] and scales of bytes, without biases. The mode
 * follows from the words for each scale: 4 for mxfp4, 2 for nvfp4, 8 for mxfp8; MLX has no other sizes. It
 * dequantizes to bfloat16. */
ckpt_status recipe_make_mlx_float(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                  struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    struct scaled_recipe *r = &out->recipe;
    if (!t.ndim || t.ndim != scale.ndim || !t.elements || !scale.elements)
        return recipe_refuse("its tensors do not have the same dimensions", err);
    uint64_t words = t.shape[t.ndim - 1], scales = scale.shape[t.ndim - 1], rows = t.elements / words;
    uint64_t words_each = words % scales ? 0 : words / scales;
    if (scale.dtype != CKPT_DT_U8 || (words_each != 2 && words_each != 4 && words_each != 8))
        return recipe_refuse("its scales are not those of MLX's mxfp4, nvfp4 or mxfp8", err);
    unsigned bits = words_each == 8 ? 8 : 4;
    CKPT_TRY(recipe_set_shape(dequantizer, out, &t, 32, bits, err));
    *r = recipe_make(rows, out->shape[t.ndim - 1], CKPT_DT_BF16);
    r->codes = (struct scaled_codes){.m = recipe_matrix(weight->weight, rows, words),
                                     .packing = PACKED_COLS,
                                     .bits = bits,
                                     .lookup = bits == 4 ? e2m1 : make_e4m3(dequantizer)};
    r->block_cols = r->cols / scales;
    r->scale = recipe_matrix(quantized_part(weight, 0), rows, scales);
    r->scale.dtype = words_each == 2 ? CKPT_DT_F8_E4M3 : CKPT_DT_F8_E8M0;
    return r->codes.lookup ? CKPT_OK : fail_memory(err);
}

static const char *find_reason(enum quantized_scheme_id scheme)
{
    switch (scheme) {
    case QUANTIZED_EETQ: return ": their numbers are in the order that a kernel of one GPU reads";
    case QUANTIZED_AQLM:
    case QUANTIZED_VPTQ: return ": their numbers are indices of vectors in codebooks";
    case QUANTIZED_HQQ_META: return ": what describes them is not in tensors";
    case QUANTIZED_HQQ_META_SCALE_Q:
    case QUANTIZED_HQQ_META_BOTH_Q:
    case QUANTIZED_HQQ_SCALE_Q:
    case QUANTIZED_HQQ_ZERO_Q:
    case QUANTIZED_HQQ_BOTH_Q: return ": their scales or zeros are quantized, too";
    case QUANTIZED_IN_SHARDS: return ": name the folder of the set, or its index";
    default: return "";
    }
}

ckpt_status recipe_make_unsupported(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                    struct dequantized *out, ckpt_error *err)
{
    (void)dequantizer;
    (void)out;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "weights by %s are not dequantized%s",
                quantized_title(weight->scheme), find_reason(weight->scheme));
}

ckpt_status dequantize_make_recipe(struct dequantizer *dequantizer,
                                   const struct quantized_weight *quantized_weight, struct dequantized *out,
                                   ckpt_error *err)
{
    *out = (struct dequantized){0};
    switch (quantized_weight->scheme) {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe)                                  \
    case QUANTIZED_##id: return recipe_make_##recipe(dequantizer, quantized_weight, out, err);
#include "op/quantized.def"
#undef SCHEME
    default: return recipe_make_unsupported(dequantizer, quantized_weight, out, err);
    }
}
