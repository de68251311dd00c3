/* dequantize_torch.c - recipes for tensors of torch and of libraries that extend it. */
#include "codec/json_scan.h"
#include "op/recipe.h"

/* ------------------------------------------------------------------ bitsandbytes, torchao */

static ckpt_status make_bnb_nested(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                   const ckpt_value *state, struct scaled_recipe *recipe, ckpt_error *err)
{
    const ckpt_value *offset = value_get(state, "nested_offset");
    bool has_both = quantized_part(weight, 4) != CKPT_NO_TENSOR &&
                    quantized_part(weight, 5) != CKPT_NO_TENSOR;
    recipe->nested_block = recipe_get_number(state, "nested_blocksize");
    if (!has_both || !recipe->nested_block || !offset || offset->type != CKPT_V_FLOAT)
        return recipe_refuse("its quant_state does not describe the nested absmax", err);
    recipe->nested_offset = (float)offset->u.f;
    recipe->nested = recipe_matrix(quantized_part(weight, 4), 1,
                                   recipe_tensor(dequantizer, quantized_part(weight, 4)).elements);
    return recipe_read_lookup(dequantizer, quantized_part(weight, 5), 256, &recipe->nested_lookup, err);
}

/* read_shape - sets the shape of OUT to the list VALUE. */
static ckpt_status read_shape(struct dequantizer *dequantizer, const ckpt_value *value,
                              struct dequantized *out, uint64_t *elements, ckpt_error *err)
{
    *elements = 1;
    bool ok = value && value->type == CKPT_V_LIST && value->u.seq.n && value->u.seq.n <= 8;
    out->ndim = ok ? value->u.seq.n : 0;
    out->shape = arena_array(dequantizer->p->file->a, out->ndim, sizeof *out->shape);
    CKPT_TRY_ALLOC(out->shape, err);
    for (uint32_t k = 0; ok && k < out->ndim; k++) {
        int64_t n;
        ok = value_integer(value->u.seq.items[k], &n) && n > 0 &&
             checked_mul(*elements, (uint64_t)n, elements);
        out->shape[k] = ok ? (uint64_t)n : 0;
    }
    return ok ? CKPT_OK : recipe_refuse("its quant_state has no shape", err);
}

/* recipe_make_bnb_4bit - one run of codes, the first of a byte in its high bits, with an absmax for each
 * block. */
ckpt_status recipe_make_bnb_4bit(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                 struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight),
                      absmax = recipe_tensor(dequantizer, quantized_part(weight, 0));
    struct scaled_recipe *r = &out->recipe;
    uint32_t row = quantized_part(weight, 2) != CKPT_NO_TENSOR ? quantized_part(weight, 2)
                                                               : quantized_part(weight, 3);
    const ckpt_value *state;
    uint64_t elements;
    if (row == CKPT_NO_TENSOR)
        return recipe_refuse("it has no quant_state", err);
    CKPT_TRY(recipe_read_json(dequantizer, row, &state, err));
    CKPT_TRY(read_shape(dequantizer, value_get(state, "shape"), out, &elements, err));
    *r = recipe_make(1, elements, recipe_get_dtype(state, "dtype"));
    r->block_cols = recipe_get_number(state, "blocksize");
    if (!r->dtype || !r->block_cols)
        return recipe_refuse("its quant_state has no dtype or blocksize", err);
    static const ckpt_dtype words[9] = {[1] = CKPT_DT_U8, [2] = CKPT_DT_U16, [4] = CKPT_DT_U32};
    unsigned width = dtype_info((ckpt_dtype)t.dtype)->block_bytes;
    r->codes = (struct scaled_codes){.m = recipe_matrix(weight->weight, 1, t.elements),
                                     .packing = PACKED_COLS,
                                     .bits = 4,
                                     .high_first = true};
    r->codes.m.dtype = width < 9 ? words[width] : CKPT_DT_NONE;
    if (!r->codes.m.dtype)
        return recipe_refuse("its numbers are not in elements of 1, 2 or 4 bytes", err);
    CKPT_TRY(recipe_read_lookup(dequantizer, quantized_part(weight, 1), 16, &r->codes.lookup, err));
    r->scale = recipe_matrix(quantized_part(weight, 0), 1, absmax.elements);
    return absmax.dtype == CKPT_DT_U8 ? make_bnb_nested(dequantizer, weight, state, r, err) : CKPT_OK;
}

ckpt_status recipe_make_bnb_int8(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                 struct dequantized *out, ckpt_error *err)
{
    unsigned char *format;
    uint64_t n;
    CKPT_TRY(recipe_begin(dequantizer, weight, 1, CKPT_DT_F32, out, err));
    CKPT_TRY(
        recipe_set_scales(dequantizer, &out->recipe, quantized_part(weight, 0), out->shape, out->ndim, err));
    out->recipe.factor = 7.874015718698502e-3f; /* 1 / 127, as bitsandbytes rounds it */
    if (quantized_part(weight, 1) == CKPT_NO_TENSOR)
        return CKPT_OK;
    CKPT_TRY(recipe_read_part(dequantizer, quantized_part(weight, 1), 8, &format, &n, err));
    return n && *format == 0 ? CKPT_OK : recipe_refuse("its weight_format is not that of rows", err);
}

/* is_dequantized_class - returns true if torchao's class NAME is one whose numbers are code - zero, times
 * the scale of their block, in elements of the weight's shape. */
static bool is_dequantized_class(ckpt_str name)
{
    return str_matches_word(name, "Float8Tensor Int8Tensor IntxUnpackedToInt8Tensor", str_eq);
}

static ckpt_status refuse_class(ckpt_str name, ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "of torchao's tensors, {=Float8Tensor, Int8Tensor, IntxUnpackedToInt8Tensor and "
                "AffineQuantizedTensor} are dequantized, and {%.*s} is %s",
                STR_ARG(name), str_starts(name, STR_LIT("Int4")) ? "packed for a kernel" : "none of these");
}

/* set_even_scales - sets the scales of RECIPE, whose blocks are of one size: torchao has no smaller last
 * ones. */
static ckpt_status set_even_scales(struct dequantizer *dequantizer, struct scaled_recipe *recipe,
                                   uint32_t scale, const struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, scale);
    uint32_t ndim = out->ndim;
    bool is_even = t.ndim == ndim && ndim >= 2 && t.elements > 1;
    for (uint32_t k = 0; is_even && k < ndim; k++)
        is_even = k + 2 < ndim ? t.shape[k] == out->shape[k] : out->shape[k] % t.shape[k] == 0;
    if (!is_even)
        return recipe_set_scales(dequantizer, recipe, scale, out->shape, ndim, err);
    recipe->matrix_rows = out->shape[ndim - 2];
    recipe->block_rows = out->shape[ndim - 2] / t.shape[ndim - 2];
    recipe->block_cols = out->shape[ndim - 1] / t.shape[ndim - 1];
    recipe->scale = recipe_matrix(scale, t.elements / t.shape[ndim - 1], t.shape[ndim - 1]);
    return CKPT_OK;
}

/* set_torchao - sets OUT for codes of row CODES, of the shape of WEIGHT, and the scale and zero of rows SCALE
 * and ZERO. */
static ckpt_status set_torchao(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                               uint32_t codes, uint32_t scale, uint32_t zero, ckpt_dtype dtype,
                               struct dequantized *out, ckpt_error *err)
{
    struct scaled_recipe *r = &out->recipe;
    CKPT_TRY(recipe_begin(dequantizer, weight, 1, dtype, out, err));
    r->codes.m.row = codes;
    CKPT_TRY(set_even_scales(dequantizer, r, scale, out, err));
    if (zero != CKPT_NO_TENSOR)
        r->zero.m = recipe_matrix(zero, r->scale.rows, r->scale.cols);
    return CKPT_OK;
}

/* recipe_make_torchao - as torchao's safetensors have it: the attributes of the tensor are in the
 * metadata. */
ckpt_status recipe_make_torchao(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_file *f = dequantizer->p->file;
    ckpt_str last = str_after_last(weight->stem, '.'), text, klass = {0}; /* "_weight" of "0._weight" */
    if (!last.len || last.ptr[0] != '_' || !f->metadata)
        return recipe_refuse("its metadata do not describe it", err);
    ckpt_str name = ARENA_CONCAT(dequantizer->p->a, str_of(weight->stem.ptr, weight->stem.len - last.len),
                                 str_skip(last, 1));
    const ckpt_value *v = name.ptr ? value_get(f->metadata, name.ptr) : NULL;
    ckpt_value *state = NULL;
    if (!v || !value_text(v, &text) ||
        json_read_value(text, CKPT_NO_OFFSET, dequantizer->p->a, &state, err) != CKPT_OK)
        return recipe_refuse("its metadata do not describe it", err);
    const ckpt_value *data = value_get(state, "_data"), *type = value_get(state, "_type");
    if (!type || !value_text(type, &klass) || !is_dequantized_class(klass))
        return refuse_class(klass, err);
    if (quantized_part(weight, 2) != CKPT_NO_TENSOR || quantized_part(weight, 3) != CKPT_NO_TENSOR)
        return recipe_refuse("its activations are scaled, too, which a weight alone cannot express", err);
    ckpt_dtype dtype = recipe_get_dtype(value_get(data, "dtype"), "_data");
    if (!dtype)
        return recipe_refuse("its metadata do not name its dtype", err);
    return set_torchao(dequantizer, weight, weight->weight, quantized_part(weight, 0),
                       quantized_part(weight, 1), dtype, out, err);
}

/* recipe_make_torchao_tensor - a tensor of torchao in a pickle: a composite, whose components are qdata,
 * scale and zero_point; others scale activations. */
ckpt_status recipe_make_torchao_tensor(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                       struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    ckpt_str klass = str_after_last(t.klass, '.');
    if (!is_dequantized_class(klass))
        return refuse_class(klass, err);
    if (quantized_part(weight, 3) != CKPT_NO_TENSOR)
        return recipe_refuse("its activations are scaled, too, which a weight alone cannot express", err);
    if (quantized_part(weight, 0) == CKPT_NO_TENSOR || quantized_part(weight, 1) == CKPT_NO_TENSOR)
        return recipe_refuse("it has no qdata and scale", err);
    if (!recipe_parse_dtype(str_c(ckpt_dtype_name((ckpt_dtype)t.dtype))))
        return recipe_refuse("it is not of float32, float16 or bfloat16", err);
    return set_torchao(dequantizer, weight, quantized_part(weight, 0), quantized_part(weight, 1),
                       quantized_part(weight, 2), (ckpt_dtype)t.dtype, out, err);
}

/* The parts of a torchao_affine, in the order of the components in quantized.c. */
enum affine_part {
    AFFINE_IMPL,
    AFFINE_INT_DATA,
    AFFINE_FLOAT8_DATA,
    AFFINE_SCALE,
    AFFINE_ZERO,
    AFFINE_WEIGHT
};

/* find_wrapper_state - returns the attributes that the call VALUE gives to a tensor subclass; NULL: none. */
static const ckpt_value *find_wrapper_state(const ckpt_value *value)
{
    if (value && value_calls(value, "torch._utils", "_rebuild_parameter", 1))
        value = value_arg(value, 0);
    return value && value_calls(value, "torch._tensor", "_rebuild_from_type_v2", 4) ? value_arg(value, 3)
                                                                                    : NULL;
}

/* set_affine_blocks - sets the blocks of RECIPE from STATE's block_size, one scale for each in row SCALE. */
static ckpt_status set_affine_blocks(const struct dequantized *out, const ckpt_value *state, uint32_t scale,
                                     struct scaled_recipe *recipe, ckpt_error *err)
{
    const ckpt_value *size = value_get(state, "block_size");
    int64_t block[2] = {0};
    bool ok = out->ndim == 2 && size && size->type == CKPT_V_TUPLE && value_count(size) == 2;
    for (uint32_t k = 0; ok && k < 2; k++)
        ok = value_integer(value_item(size, k), &block[k]) && block[k] > 0 &&
             out->shape[k] % (uint64_t)block[k] == 0;
    if (!ok)
        return recipe_refuse("its block_size does not divide a matrix of its shape", err);
    recipe->matrix_rows = recipe->rows;
    recipe->block_rows = (uint64_t)block[0];
    recipe->block_cols = (uint64_t)block[1];
    recipe->scale = recipe_matrix(scale, recipe->rows / recipe->block_rows,
                                  recipe->cols / recipe->block_cols);
    return CKPT_OK;
}

/* has_zero_domain - returns true if STATE's zero_point_domain is one in which zeros are subtracted from
 * codes: ZeroPointDomain.INT is 1, NONE is 3. HAS_ZERO: there are zeros. */
static bool has_zero_domain(const ckpt_value *state, bool has_zero)
{
    const ckpt_value *domain = value_get(state, "zero_point_domain");
    int64_t number;
    if (domain && domain->type == CKPT_V_NONE)
        return !has_zero;
    return domain && value_calls(domain, "torchao.quantization.quant_primitives", "ZeroPointDomain", 1) &&
           value_integer(value_arg(domain, 0), &number) && number == (has_zero ? 1 : 3);
}

/* find_affine_codes - sets *ROW to the codes of WEIGHT, by its layout. */
static ckpt_status find_affine_codes(const struct dequantizer *dequantizer,
                                     const struct quantized_weight *weight, uint32_t *row, ckpt_error *err)
{
    uint32_t impl = quantized_part(weight, AFFINE_IMPL);
    if (impl == CKPT_NO_TENSOR)
        return recipe_refuse("it has no tensor_impl", err);
    ckpt_str layout = str_after_last(recipe_tensor(dequantizer, impl).klass, '.');
    const ckpt_value *state = find_wrapper_state(recipe_tensor(dequantizer, impl).value);
    const ckpt_value *transposed = value_get(state, "transposed");
    bool is_plain = str_is(layout, "PlainAQTTensorImpl"), is_float8 = str_is(layout, "Float8AQTTensorImpl");
    if (!is_plain && !is_float8)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its layout is {%.*s}; {=PlainAQTTensorImpl and Float8AQTTensorImpl} are dequantized",
                    STR_ARG(layout));
    if (is_float8 && !(transposed && transposed->type == CKPT_V_BOOL && !transposed->u.b))
        return recipe_refuse("its float8_data are transposed", err);
    *row = quantized_part(weight, is_float8 ? AFFINE_FLOAT8_DATA : AFFINE_INT_DATA);
    return *row == CKPT_NO_TENSOR || quantized_part(weight, AFFINE_SCALE) == CKPT_NO_TENSOR
               ? recipe_refuse("its tensor_impl has no data or no scale", err)
               : CKPT_OK;
}

static bool has_shape(const ckpt_tensor *tensor, const struct dequantized *out)
{
    bool same = tensor->ndim == out->ndim;
    for (uint32_t k = 0; same && k < out->ndim; k++)
        same = tensor->shape[k] == out->shape[k];
    return same;
}

/* recipe_make_torchao_affine - torchao's AffineQuantizedTensor, or one in a LinearActivationQuantizedTensor,
 * which quantizes activations when it runs. Sources: torchao 0.7, dtypes/affine_quantized_tensor.py,
 * quantization/quant_primitives.py (_dequantize_affine). */
ckpt_status recipe_make_torchao_affine(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                       struct dequantized *out, ckpt_error *err)
{
    bool is_inner = str_is(str_after_last(recipe_tensor(dequantizer, weight->weight).klass, '.'),
                           "LinearActivationQuantizedTensor");
    uint32_t row = is_inner ? quantized_part(weight, AFFINE_WEIGHT) : weight->weight, codes = CKPT_NO_TENSOR;
    uint32_t zero = quantized_part(weight, AFFINE_ZERO);
    if (row == CKPT_NO_TENSOR)
        return recipe_refuse("it has no original_weight_tensor", err);
    const ckpt_tensor t = recipe_tensor(dequantizer, row);
    ckpt_str klass = str_after_last(t.klass, '.');
    const ckpt_value *state = find_wrapper_state(t.value);
    if (!str_is(klass, "AffineQuantizedTensor"))
        return refuse_class(klass, err);
    CKPT_TRY(find_affine_codes(dequantizer, weight, &codes, err));
    if (!recipe_parse_dtype(str_c(ckpt_dtype_name((ckpt_dtype)t.dtype))))
        return recipe_refuse("it is not of float32, float16 or bfloat16", err);
    if (!has_zero_domain(state, zero != CKPT_NO_TENSOR))
        return recipe_refuse("its zeros are not subtracted from its codes (zero_point_domain)", err);
    CKPT_TRY(recipe_begin(dequantizer, weight, 1, (ckpt_dtype)t.dtype, out, err));
    const ckpt_tensor code = recipe_tensor(dequantizer, codes);
    if (!has_shape(&code, out) || !has_shape(&t, out))
        return recipe_refuse("its data have another shape", err);
    struct scaled_recipe *r = &out->recipe;
    r->codes.m.row = codes;
    CKPT_TRY(set_affine_blocks(out, state, quantized_part(weight, AFFINE_SCALE), r, err));
    r->truncates_zero = r->rounds_difference = true;
    if (zero != CKPT_NO_TENSOR)
        r->zero.m = recipe_matrix(zero, r->scale.rows, r->scale.cols);
    return CKPT_OK;
}

/* find_quantizer - returns the quantizer (scheme, scale, zero_point[, axis]) in the call that makes VALUE;
 * NULL: there is none. */
static const ckpt_value *find_quantizer(const ckpt_value *value)
{
    if (value && value_calls(value, "torch._utils", "_rebuild_parameter", 1))
        value = value_arg(value, 0);
    const ckpt_value *quantizer = value && value_calls(value, "torch._utils", "_rebuild_qtensor", 5)
                                      ? value_arg(value, 4)
                                      : NULL;
    bool ok = quantizer && quantizer->type == CKPT_V_TUPLE && value_count(quantizer) >= 3 &&
              value_item(quantizer, 0)->type == CKPT_V_GLOBAL;
    return ok ? quantizer : NULL;
}

/* set_channels - sets the scales and zeros of RECIPE, one for each index of dimension AXIS of the
 * weight. */
static ckpt_status set_channels(const struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                const ckpt_value *axis, struct scaled_recipe *recipe, ckpt_error *err)
{
    int64_t dim;
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    bool ok = quantized_part(weight, 0) != CKPT_NO_TENSOR && quantized_part(weight, 1) != CKPT_NO_TENSOR &&
              axis && value_integer(axis, &dim) && t.ndim;
    if (!ok || (dim != 0 && dim != (int64_t)t.ndim - 1))
        return recipe_refuse("its scales are not those of the first or last dimension", err);
    uint64_t channels = t.shape[dim];
    recipe->matrix_rows = recipe->rows;
    if (dim) {
        recipe->block_rows = recipe->rows;
        recipe->scale = recipe_matrix(quantized_part(weight, 0), 1, channels);
    } else {
        recipe->block_rows = recipe->rows / channels;
        recipe->block_cols = recipe->cols;
        recipe->scale = recipe_matrix(quantized_part(weight, 0), channels, 1);
    }
    recipe->zero.m = recipe_matrix(quantized_part(weight, 1), recipe->scale.rows, recipe->scale.cols);
    recipe->has_wide_scale = recipe_tensor(dequantizer, quantized_part(weight, 0)).dtype == CKPT_DT_F64;
    return CKPT_OK;
}

/* get_qtensor_codes - returns the dtype that elements of DT are stored in, or NONE: several in a byte. */
static ckpt_dtype get_qtensor_codes(ckpt_dtype dt)
{
    const struct dtype_info *d = dtype_info(dt);
    return d->klass == 'q' && d->block_elems == 1 ? (ckpt_dtype)d->number : CKPT_DT_NONE;
}

/* recipe_make_qtensor - torch's quint8, qint8 and qint32, with one scale and zero or those of each
 * channel, as float32. */
ckpt_status recipe_make_qtensor(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                                struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    const ckpt_value *quantizer = find_quantizer(t.value);
    struct scaled_recipe *r = &out->recipe;
    int64_t zero;
    if (!quantizer)
        return recipe_refuse("the call that makes it has no quantizer", err);
    ckpt_str scheme = value_name(value_item(quantizer, 0));
    const ckpt_value *scale = value_item(quantizer, 1);
    ckpt_dtype codes = get_qtensor_codes((ckpt_dtype)t.dtype);
    if (!codes)
        return recipe_refuse("packed numbers of torch are not dequantized", err);
    CKPT_TRY(recipe_begin(dequantizer, weight, 1, CKPT_DT_F32, out, err));
    r->codes.m.dtype = codes;
    if (str_is(scheme, "per_channel_affine"))
        return set_channels(dequantizer, weight, value_count(quantizer) > 3 ? value_item(quantizer, 3) : NULL,
                            r, err);
    bool ok = str_is(scheme, "per_tensor_affine") && scale->type == CKPT_V_FLOAT &&
              value_integer(value_item(quantizer, 2), &zero) && zero >= -(1 << 24) && zero <= 1 << 24;
    if (!ok)
        return recipe_refuse("its scheme is neither per_tensor_affine nor per_channel_affine", err);
    r->matrix_rows = r->block_rows = r->rows;
    r->block_cols = r->cols;
    r->scale = recipe_absent;
    r->multiplier = (float)scale->u.f;
    r->constant_zero = (float)zero;
    r->subtracts_integers = codes == CKPT_DT_I32;
    return CKPT_OK;
}
