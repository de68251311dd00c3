/* dequantize_stripes.c - recipes of libraries that divide the rows of a weight into stripes, and pack those
 * into one element:
 *
 *   HQQ             W_q: the weight as a matrix of groups, [groups, group_size] (axis 1) or its transpose
 *                   (axis 0). The first stripe is in the high bits: two of 4 bits in a byte, four of 2, eight
 *                   of 1; ten of 3 bits in an int32. (code - zero) * scale, each step in the compute_dtype.
 *   optimum-quanto  _data._data: the weight, or its groups of 128, 96, 64 or 32 columns as rows. The first
 *                   stripe is in the low bits of a byte. scale * code - shift, each step in the dtype of the
 *                   scale; an integer shift is subtracted from the code.
 *
 * optimum-quanto does not store the shape of a weight that it has grouped: it is that of the module. Refused:
 * what leaves more than one shape or number of bits; scales of the last axis, which its modules do not write.
 * Sources: hqq 0.2.8 core/quantize.py and core/bitpack.py; optimum-quanto 0.2.7 tensor/packed.py,
 * tensor/grouped.py, nn/qmodule.py. */
#include "base/cursor.h"
#include "op/recipe.h"

/* ------------------------------------------------------------------ HQQ */

/* Where the facts are among the parts of a weight, in the order of quantized.def. */
enum {
    HQQ_SCALE,
    HQQ_ZERO,
    HQQ_SHAPE,
    HQQ_GROUP_SIZE,
    HQQ_AXIS,
    HQQ_PACKING,
    HQQ_COMPUTE_DTYPE,
    HQQ_VIEW_AS_FLOAT,
    HQQ_CHANNEL_WISE
};

struct hqq {
    uint64_t elements, group_size, axis; /* group_size 0: no groups */
    uint64_t rows, cols;                 /* of the matrix of groups */
    const struct hqq_packing *packing;   /* NULL: not packed */
};

static const struct hqq_packing {
    const char *name;
    unsigned bits;
    ckpt_dtype dtype;
} hqq_packings[] = {{"8bit_u8", 8, CKPT_DT_U8},
                    {"4bit_u8", 4, CKPT_DT_U8},
                    {"3bit_32", 3, CKPT_DT_I32},
                    {"2bit_u8", 2, CKPT_DT_U8},
                    {"1bit_u8", 1, CKPT_DT_U8}};

/* read_number - sets *OUT to the integer in ROW, a tensor of one element; WITHOUT if ROW is absent. */
static ckpt_status read_number(struct dequantizer *dequantizer, uint32_t row, uint64_t without, uint64_t *out,
                               ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    *out = without;
    if (row == CKPT_NO_TENSOR)
        return CKPT_OK;
    const ckpt_tensor t = recipe_tensor(dequantizer, row);
    char klass = dtype_info((ckpt_dtype)t.dtype)->klass;
    if (t.elements != 1 || (klass != 'i' && klass != 'u' && klass != 'b'))
        return recipe_refuse("one of the tensors that describe it is not an integer", err);
    CKPT_TRY(recipe_read_part(dequantizer, row, 8, &bytes, &n, err));
    *out = 0;
    for (uint64_t i = n; COUNT_DOWN(i);)
        *out = *out << 8 | bytes[i];
    return CKPT_OK;
}

/* read_text - sets *OUT to the text in the bytes of ROW, empty if ROW is absent. */
static ckpt_status read_text(struct dequantizer *dequantizer, uint32_t row, ckpt_str *out, ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    *out = str_of("", 0);
    if (row == CKPT_NO_TENSOR)
        return CKPT_OK;
    CKPT_TRY(recipe_read_part(dequantizer, row, 64, &bytes, &n, err));
    *out = str_of((const char *)bytes, (size_t)n);
    return CKPT_OK;
}

/* read_hqq_shape - sets the shape of OUT, and how many elements it has. */
static ckpt_status read_hqq_shape(struct dequantizer *dequantizer, uint32_t row, struct dequantized *out,
                                  uint64_t *elements, ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    if (row == CKPT_NO_TENSOR || recipe_tensor(dequantizer, row).dtype != CKPT_DT_I64)
        return recipe_refuse("its shape is not a tensor of int64", err);
    CKPT_TRY(recipe_read_part(dequantizer, row, 64, &bytes, &n, err));
    out->ndim = (uint32_t)(n / 8);
    out->shape = arena_array(dequantizer->p->file->a, out->ndim, sizeof *out->shape);
    CKPT_TRY_ALLOC(out->shape, err);
    bool ok = out->ndim > 0;
    *elements = 1;
    for (uint32_t k = 0; ok && k < out->ndim; k++) {
        out->shape[k] = load_u64le(bytes + 8 * k);
        ok = out->shape[k] && checked_mul(*elements, out->shape[k], elements);
    }
    return ok ? CKPT_OK : recipe_refuse("its shape has no or too many elements", err);
}

static ckpt_status find_hqq_packing(struct dequantizer *dequantizer, uint32_t row,
                                    const struct hqq_packing **out, ckpt_error *err)
{
    ckpt_str name;
    CKPT_TRY(read_text(dequantizer, row, &name, err));
    *out = NULL;
    for (size_t i = 0; i < sizeof hqq_packings / sizeof *hqq_packings; i++)
        if (str_is(name, hqq_packings[i].name))
            *out = &hqq_packings[i];
    return *out || !name.len ? CKPT_OK : recipe_refuse("its packing is none of HQQ's", err);
}

/* find_hqq_dtype - returns the dtype that HQQ dequantizes to; NONE: it names none that ckpt can round to.
 * torch promotes scales that have dimensions, others have no effect on the dtype. */
static ckpt_status find_hqq_dtype(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                  ckpt_dtype *out, ckpt_error *err)
{
    const ckpt_tensor scale = recipe_tensor(dequantizer, quantized_part(weight, HQQ_SCALE));
    const ckpt_tensor zero = recipe_tensor(dequantizer, quantized_part(weight, HQQ_ZERO));
    ckpt_str name;
    CKPT_TRY(read_text(dequantizer, quantized_part(weight, HQQ_COMPUTE_DTYPE), &name, err));
    ckpt_dtype computes = name.len ? recipe_parse_dtype(name) : CKPT_DT_F16;
    if (!computes || scale.dtype != zero.dtype || scale.ndim != zero.ndim ||
        dtype_info((ckpt_dtype)scale.dtype)->klass != 'f')
        return recipe_refuse("its scales, zeros and compute_dtype are not of one kind of float", err);
    *out = !scale.ndim || scale.dtype == computes ? computes : CKPT_DT_F32;
    return CKPT_OK;
}

/* read_hqq_groups - sets the rows and columns of the matrix of groups. */
static ckpt_status read_hqq_groups(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                   const struct dequantized *out, struct hqq *hqq, ckpt_error *err)
{
    uint64_t channel_wise;
    CKPT_TRY(read_number(dequantizer, quantized_part(weight, HQQ_GROUP_SIZE), 0, &hqq->group_size, err));
    CKPT_TRY(read_number(dequantizer, quantized_part(weight, HQQ_AXIS), 0, &hqq->axis, err));
    CKPT_TRY(read_number(dequantizer, quantized_part(weight, HQQ_CHANNEL_WISE), 1, &channel_wise, err));
    if (hqq->axis > 1)
        return recipe_refuse("its axis is neither 0 nor 1", err);
    hqq->rows = out->shape[0];
    if (hqq->group_size && channel_wise && hqq->elements % hqq->group_size == 0)
        hqq->rows = hqq->axis ? hqq->elements / hqq->group_size : hqq->group_size;
    hqq->cols = hqq->elements / hqq->rows;
    return CKPT_OK;
}

/* set_hqq_codes - sets the codes of RECIPE, which are as many rows as fill all stripes but the last. */
static ckpt_status set_hqq_codes(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                 const struct hqq *hqq, bool view_as_float, struct scaled_recipe *recipe,
                                 ckpt_error *err)
{
    const struct hqq_packing *packing = hqq->packing;
    recipe->codes.m = recipe_matrix(weight->weight, hqq->rows, hqq->cols);
    if (!packing)
        return CKPT_OK;
    bool is_packed_dtype = recipe_tensor(dequantizer, weight->weight).dtype == packing->dtype;
    if (!view_as_float && !is_packed_dtype)
        return recipe_refuse("its packed numbers do not have the dtype of its packing", err);
    recipe->codes.m.dtype = packing->dtype;
    recipe->codes.m.is_view = view_as_float;
    if (packing->bits == 8)
        return CKPT_OK;
    unsigned stripes = 8u * dtype_info(packing->dtype)->block_bytes / packing->bits;
    recipe->codes.packing = PACKED_STRIPES;
    recipe->codes.bits = packing->bits;
    recipe->codes.high_first = true;
    recipe->codes.m.rows = (hqq->rows - 1) / stripes + 1;
    return CKPT_OK;
}

/* recipe_make_hqq - see the begin of this file. Each fact is a tensor of its own. */
ckpt_status recipe_make_hqq(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                            struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor scale = recipe_tensor(dequantizer, quantized_part(weight, HQQ_SCALE));
    struct scaled_recipe *r = &out->recipe;
    struct hqq h;
    uint64_t view_as_float;
    ckpt_dtype dtype = CKPT_DT_NONE;
    CKPT_TRY(read_hqq_shape(dequantizer, quantized_part(weight, HQQ_SHAPE), out, &h.elements, err));
    CKPT_TRY(read_hqq_groups(dequantizer, weight, out, &h, err));
    CKPT_TRY(find_hqq_packing(dequantizer, quantized_part(weight, HQQ_PACKING), &h.packing, err));
    CKPT_TRY(find_hqq_dtype(dequantizer, weight, &dtype, err));
    CKPT_TRY(read_number(dequantizer, quantized_part(weight, HQQ_VIEW_AS_FLOAT), 0, &view_as_float, err));
    *r = recipe_make(h.rows, h.cols, dtype);
    CKPT_TRY(set_hqq_codes(dequantizer, weight, &h, view_as_float != 0, r, err));
    r->rounds_difference = true;
    bool is_one = scale.elements == 1, by_row = !is_one && h.axis;
    if (is_one || !by_row)
        r->block_rows = r->rows;
    if (is_one || by_row)
        r->block_cols = r->cols;
    r->scale = recipe_matrix(quantized_part(weight, HQQ_SCALE), by_row ? r->rows : 1,
                             is_one || by_row ? 1 : r->cols);
    r->zero.m = recipe_matrix(quantized_part(weight, HQQ_ZERO), r->scale.rows, r->scale.cols);
    return CKPT_OK;
}

/* ------------------------------------------------------------------ optimum-quanto */

/* Modules of transformers whose rows or columns a number of config.json gives. */
static const struct {
    const char *module, *key;
    bool is_rows;
} known_modules[] = {
    {"q_proj", "hidden_size", false},       {"k_proj", "hidden_size", false},
    {"v_proj", "hidden_size", false},       {"qkv_proj", "hidden_size", false},
    {"gate_proj", "hidden_size", false},    {"up_proj", "hidden_size", false},
    {"gate_up_proj", "hidden_size", false}, {"down_proj", "intermediate_size", false},
    {"o_proj", "hidden_size", true},        {"lm_head", "hidden_size", false},
};

/* get_quanto_group - returns how many columns optimum-quanto groups in a module with COLS columns; 0: it does
 * not group. */
static uint64_t get_quanto_group(uint64_t cols)
{
    uint64_t size = 128;
    if (cols <= size)
        return 0;
    while (cols % size && size > 32)
        size -= 32;
    return cols % size ? 0 : size;
}

/* get_module - returns the name of the module of WEIGHT, whose stem is "module.weight". */
static ckpt_str get_module(const struct quantized_weight *weight)
{
    ckpt_str last = str_after_last(weight->stem, '.');
    size_t dot = last.len < weight->stem.len ? 1 : 0;
    return str_of(weight->stem.ptr, weight->stem.len - last.len - dot);
}

/* count_bias_rows - sets *ROWS to the elements of the bias of the module of WEIGHT; 0: it has none. */
static ckpt_status count_bias_rows(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                   uint64_t *rows, ckpt_error *err)
{
    ckpt_str module = get_module(weight);
    ckpt_str name = ARENA_CONCAT(dequantizer->p->a, module, str_c(module.len ? ".bias" : "bias"));
    *rows = 0;
    CKPT_TRY_ALLOC(name.ptr, err);
    uint32_t row = file_find_tensor(dequantizer->p->file, name);
    if (row != CKPT_NO_TENSOR && recipe_tensor(dequantizer, row).ndim == 1)
        *rows = recipe_tensor(dequantizer, row).elements;
    return CKPT_OK;
}

/* count_config_rows - returns the rows that config.json gives the module of WEIGHT, whose weight has
 * ELEMENTS; 0: none. */
static uint64_t count_config_rows(const struct dequantizer *dequantizer,
                                  const struct quantized_weight *weight, uint64_t elements)
{
    ckpt_str last = str_after_last(get_module(weight), '.');
    for (size_t i = 0; i < sizeof known_modules / sizeof *known_modules; i++) {
        uint64_t n = recipe_get_number(dequantizer->model, known_modules[i].key);
        if (str_is(last, known_modules[i].module) && n)
            return known_modules[i].is_rows ? n : elements % n ? 0 : elements / n;
    }
    return 0;
}

/* find_quanto_rows - sets *ROWS to the rows of WEIGHT, whose COUNT rows of COLS numbers may be groups. */
static ckpt_status find_quanto_rows(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                    uint64_t count, uint64_t cols, uint64_t *rows, ckpt_error *err)
{
    uint64_t elements;
    *rows = count;
    if (cols != 32 && cols != 64 && cols != 96 && cols != 128) /* no groups have this size */
        return CKPT_OK;
    if (!checked_mul(count, cols, &elements))
        return recipe_refuse("it has too many elements", err);
    CKPT_TRY(count_bias_rows(dequantizer, weight, rows, err));
    if (!*rows)
        *rows = count_config_rows(dequantizer, weight, elements);
    if (!*rows)
        return recipe_refuse("optimum-quanto does not store its shape, and neither a bias of the module nor "
                             "a config.json gives it",
                             err);
    bool fits = *rows == count || (count % *rows == 0 && get_quanto_group(elements / *rows) == cols);
    if (!fits)
        return recipe_refuse("its groups do not fit the rows that the bias or config.json give", err);
    if (!dequantizer->has_noted_quanto)
        plan_notice(dequantizer->p,
                    "optimum-quanto does not store the shapes of grouped weights; assuming matrices "
                    "with the rows that biases or config.json give");
    dequantizer->has_noted_quanto = true;
    return CKPT_OK;
}

/* read_quanto_files - reads the files that optimum-quanto and transformers write next to a checkpoint. */
static ckpt_status read_quanto_files(struct dequantizer *dequantizer, ckpt_error *err)
{
    ckpt_value *model, *qmap;
    if (dequantizer->quanto_read)
        return CKPT_OK;
    CKPT_TRY(recipe_read_json_file(dequantizer, "config.json", &model, err));
    CKPT_TRY(recipe_read_json_file(dequantizer, "quanto_qmap.json", &qmap, err));
    dequantizer->model = model && model->type == CKPT_V_DICT ? model : NULL;
    dequantizer->qmap = qmap && qmap->type == CKPT_V_DICT ? qmap : NULL;
    dequantizer->quanto_read = true;
    return recipe_read_config(dequantizer, err);
}

/* find_quanto_bits - returns the bits of COUNT rows in PACKED rows; 0: unknown. One row is read the same by
 * both numbers of bits, since its unused bits are 0. */
static unsigned find_quanto_bits(const struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                 uint64_t count, uint64_t packed)
{
    bool fits4 = packed == (count - 1) / 2 + 1, fits2 = packed == (count - 1) / 4 + 1;
    if (!fits4 || !fits2 || count == 1)
        return fits4 ? 4 : fits2 ? 2 : 0;
    uint32_t nmodules;
    const value_pair *modules = value_pairs(dequantizer->qmap, &nmodules);
    const ckpt_value *facts = dequantizer->config;
    for (uint32_t i = 0; i < nmodules; i++) {
        ckpt_str name;
        if (value_text(modules[i].key, &name) && str_eq(name, get_module(weight)))
            facts = modules[i].val;
    }
    bool is4 = recipe_text_is(facts, "weights", "qint4") || recipe_text_is(facts, "weights", "int4");
    bool is2 = recipe_text_is(facts, "weights", "qint2") || recipe_text_is(facts, "weights", "int2");
    return is4 ? 4 : is2 ? 2 : 0;
}

/* set_quanto_shape - sets the shape of OUT: that of the packed numbers TENSOR, but ROWS rows. */
static ckpt_status set_quanto_shape(struct dequantizer *dequantizer, struct dequantized *out,
                                    const ckpt_tensor *tensor, uint64_t rows, uint64_t count, ckpt_error *err)
{
    CKPT_TRY(recipe_set_shape(dequantizer, out, tensor, 1, 1, err));
    out->shape[0] = rows;
    if (rows != count)
        out->shape[1] *= count / rows; /* the elements of the weight were counted */
    return CKPT_OK;
}

/* set_quanto_scales - sets the scales of RECIPE, SCALE_ROWS x SCALE_COLS, and what is subtracted. */
static void set_quanto_scales(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                              uint64_t scale_rows, uint64_t scale_cols, struct scaled_recipe *recipe)
{
    struct scaled_matrix shift = recipe_matrix(quantized_part(weight, 1), scale_rows, scale_cols);
    recipe->block_rows = recipe->rows / scale_rows; /* one scale for each row, or for each column */
    recipe->block_cols = recipe->cols / scale_cols;
    recipe->scale = recipe_matrix(quantized_part(weight, 0), scale_rows, scale_cols);
    if (dtype_info((ckpt_dtype)recipe_tensor(dequantizer, quantized_part(weight, 1)).dtype)->klass != 'f') {
        recipe->zero.m = shift;
        return;
    }
    recipe->bias = shift;
    recipe->subtracts_bias = true;
    recipe->rounds_product = true;
}

/* is_quanto_row - returns true if TENSOR is packed from one row, which has a scale for each index of its last
 * dimension. */
static bool is_quanto_row(const ckpt_tensor *tensor, const ckpt_tensor *scale)
{
    return scale->ndim == tensor->ndim && tensor->shape[0] == 1 && scale->shape[0] == 1 &&
           scale->elements == tensor->shape[tensor->ndim - 1] &&
           scale->elements == scale->shape[tensor->ndim - 1];
}

/* recipe_make_quanto - see the begin of this file. */
ckpt_status recipe_make_quanto(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                               struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      scale = recipe_tensor(dequantizer, quantized_part(weight, 0));
    if (!t.ndim || !t.elements || !scale.ndim || !scale.elements)
        return recipe_refuse("its tensors have no elements", err);
    bool is_row = is_quanto_row(&t, &scale);
    uint64_t n = scale.shape[0], packed = t.shape[0], rows = n; /* n: rows of the unpacked matrix */
    if (n != scale.elements && !is_row)
        return recipe_refuse("its scales are not those of the first axis", err);
    CKPT_TRY(read_quanto_files(dequantizer, err));
    unsigned bits = find_quanto_bits(dequantizer, weight, n, packed);
    if (!bits)
        return recipe_refuse("its scales do not show whether it has 2 or 4 bits, nor does a quanto_qmap.json",
                             err);
    if (t.ndim == 2 && !is_row)
        CKPT_TRY(find_quanto_rows(dequantizer, weight, n, t.shape[1], &rows, err));
    CKPT_TRY(set_quanto_shape(dequantizer, out, &t, rows, n, err));
    if (is_row) /* its other dimensions are rows, none of which is packed with another */
        n = packed = t.elements / scale.elements;
    uint64_t cols = t.elements / packed;
    out->recipe = recipe_make(n, cols, recipe_dtype(&scale));
    out->recipe.codes = (struct scaled_codes){
        .m = recipe_matrix(weight->weight, packed, cols), .packing = PACKED_STRIPES, .bits = bits};
    set_quanto_scales(dequantizer, weight, is_row ? 1 : n, is_row ? cols : 1, &out->recipe);
    return CKPT_OK;
}
