/* recipe.c - see recipe.h. */
#include "op/recipe.h"

#include <inttypes.h>

#include "base/cursor.h"
#include "codec/json_scan.h"
#include "core/convert.h"

#define CONFIG_MAX ((uint64_t)16 << 20) /* bytes of a config.json */
#define STATE_MAX  65536u               /* bytes of a JSON in a tensor */

ckpt_status recipe_refuse(const char *what, ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s", what);
}

struct scaled_recipe recipe_make(uint64_t rows, uint64_t cols, ckpt_dtype dtype)
{
    return (struct scaled_recipe){.rows = rows,
                                  .cols = cols,
                                  .matrix_rows = rows,
                                  .block_rows = 1,
                                  .block_cols = 1,
                                  .zero.m = recipe_absent,
                                  .bias = recipe_absent,
                                  .group = recipe_absent,
                                  .nested = recipe_absent,
                                  .multiplier = 1,
                                  .factor = 1,
                                  .dtype = dtype};
}

ckpt_status recipe_set_shape(struct dequantizer *dequantizer, struct dequantized *out,
                             const ckpt_tensor *tensor, uint64_t multiply, uint64_t divide, ckpt_error *err)
{
    out->ndim = tensor->ndim;
    out->shape = arena_array(dequantizer->p->file->a, tensor->ndim, sizeof *out->shape);
    CKPT_TRY_ALLOC(out->shape, err);
    memcpy(out->shape, tensor->shape, tensor->ndim * sizeof *out->shape);
    if (multiply == divide)
        return CKPT_OK;
    uint64_t *last = tensor->ndim ? &out->shape[tensor->ndim - 1] : NULL;
    if (!last || !checked_mul(*last, multiply, last) || *last % divide)
        return recipe_refuse("its packed numbers do not have the shape of the scheme", err);
    *last /= divide;
    return CKPT_OK;
}

ckpt_status recipe_set_matrix_shape(struct dequantizer *dequantizer, struct dequantized *out, uint64_t rows,
                                    uint64_t cols, ckpt_error *err)
{
    out->ndim = 2;
    out->shape = arena_array(dequantizer->p->file->a, 2, sizeof *out->shape);
    CKPT_TRY_ALLOC(out->shape, err);
    out->shape[0] = rows;
    out->shape[1] = cols;
    return CKPT_OK;
}

static bool has_two_bytes_or_more(ckpt_dtype dt)
{
    return dt == CKPT_DT_F32 || dt == CKPT_DT_F16 || dt == CKPT_DT_BF16;
}

/* ------------------------------------------------------------------ facts outside of the tensors */

ckpt_status recipe_read_json_file(struct dequantizer *dequantizer, const char *name, ckpt_value **out,
                                  ckpt_error *err)
{
    const ckpt_file *f = dequantizer->p->file;
    source *src;
    bool is_file = f->src && !f->archive;
    ckpt_str folder = is_file ? str_folder(str_c(f->path)) : str_c(f->folder);
    ckpt_str text, path = ARENA_CONCAT(dequantizer->p->a, folder, str_c(folder.len ? "/" : ""), str_c(name));
    ckpt_error missing;
    *out = NULL;
    if (is_file && !source_is_named_file(f->src))
        return CKPT_OK;
    CKPT_TRY_ALLOC(path.ptr, err);
    ckpt_status st = source_open_in(f->archive, path.ptr, &src, &missing);
    CKPT_THEN(st, source_read_whole(src, CONFIG_MAX, dequantizer->p->a, &text, &missing));
    if (st == CKPT_ENOTFOUND || (st == CKPT_EIO && !f->archive)) /* a server has failed to answer */
        return CKPT_OK;
    if (st == CKPT_OK && !f->archive && !file_note_read(dequantizer->p->file, path.ptr))
        return fail_memory(&missing);
    CKPT_THEN(st, json_read_value(text, 0, dequantizer->p->a, out, &missing));
    if (st == CKPT_OK)
        return st;
    if (err)
        *err = missing;
    return name_file_if_failed(st, path.ptr, err);
}

ckpt_status recipe_read_config(struct dequantizer *dequantizer, ckpt_error *err)
{
    static const struct {
        const char *file, *key;
    } places[] = {{"config.json", "quantization_config"},
                  {"config.json", "quantization"},
                  {"quantize_config.json", NULL},
                  {"quant_config.json", NULL}};
    if (dequantizer->config_read)
        return CKPT_OK;
    dequantizer->config_read = true;
    for (size_t i = 0; !dequantizer->config && i < sizeof places / sizeof *places; i++) {
        ckpt_value *root;
        CKPT_TRY(recipe_read_json_file(dequantizer, places[i].file, &root, err));
        const ckpt_value *found = root && places[i].key ? value_get(root, places[i].key) : root;
        dequantizer->config = found && found->type == CKPT_V_DICT ? found : NULL;
    }
    return CKPT_OK;
}

uint64_t recipe_get_number(const ckpt_value *mapping, const char *key)
{
    int64_t n;
    return value_integer(value_get(mapping, key), &n) && n > 0 ? (uint64_t)n : 0;
}

ckpt_dtype recipe_parse_dtype(ckpt_str text)
{
    ckpt_dtype dt = ckpt_dtype_parse(str_after_last(text, '.'));
    return has_two_bytes_or_more(dt) ? dt : CKPT_DT_NONE;
}

ckpt_dtype recipe_get_dtype(const ckpt_value *mapping, const char *key)
{
    ckpt_str text;
    return value_text(value_get(mapping, key), &text) ? recipe_parse_dtype(text) : CKPT_DT_NONE;
}

bool recipe_text_is(const ckpt_value *mapping, const char *key, const char *wanted)
{
    ckpt_str text;
    return value_text(value_get(mapping, key), &text) && str_is(text, wanted);
}

ckpt_status recipe_read_part(struct dequantizer *dequantizer, uint32_t row, uint64_t max, unsigned char **out,
                             uint64_t *nbytes, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, row);
    *nbytes = t.nbytes;
    if (!t.has_data || t.nbytes > max || dtype_info((ckpt_dtype)t.dtype)->block_elems != 1)
        return recipe_refuse("the tensor that describes it is too large", err);
    *out = arena_alloc(dequantizer->p->file->a, (size_t)t.nbytes + 1);
    CKPT_TRY_ALLOC(*out, err);
    return stream_read(&dequantizer->p->file->table, row, 0, t.elements, *out, err);
}

ckpt_status recipe_read_json(struct dequantizer *dequantizer, uint32_t row, const ckpt_value **out,
                             ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    ckpt_value *v;
    CKPT_TRY(recipe_read_part(dequantizer, row, STATE_MAX, &bytes, &n, err));
    CKPT_TRY(json_read_value(str_of((const char *)bytes, (size_t)n), CKPT_NO_OFFSET, dequantizer->p->file->a,
                             &v, err));
    *out = v;
    return CKPT_OK;
}

ckpt_status recipe_read_lookup(struct dequantizer *dequantizer, uint32_t row, uint64_t count,
                               const float **out, ckpt_error *err)
{
    unsigned char *bytes;
    uint64_t n;
    if (recipe_tensor(dequantizer, row).dtype != CKPT_DT_F32 ||
        recipe_tensor(dequantizer, row).elements != count)
        return recipe_refuse("its table of numbers does not have the size of the scheme", err);
    CKPT_TRY(recipe_read_part(dequantizer, row, 4 * count, &bytes, &n, err));
    float *numbers = arena_array(dequantizer->p->file->a, count, sizeof *numbers);
    for (uint64_t i = 0; numbers && i < count; i++)
        numbers[i] = float_of_bits(load_u32le(bytes + 4 * i));
    *out = numbers;
    return numbers ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------ scales over blocks */

/* is_block_size - returns true if COUNT rows or columns have SCALES blocks of SIZE, of which the last may be
 * smaller. */
static bool is_block_size(uint64_t count, uint64_t size, uint64_t scales)
{
    return count && size && (count - 1) / size + 1 == scales;
}

static void offer_blocks(struct block_choice *choice, uint64_t rows, uint64_t cols)
{
    if (!is_block_size(choice->rows, rows, choice->scale_rows) ||
        !is_block_size(choice->cols, cols, choice->scale_cols))
        return;
    rows = rows < choice->rows ? rows : choice->rows;
    cols = cols < choice->cols ? cols : choice->cols;
    if (choice->n && rows == choice->block_rows && cols == choice->block_cols)
        return;
    choice->block_rows = rows;
    choice->block_cols = cols;
    choice->n++;
}

/* offer_config_blocks - offers the blocks that KEY of MAPPING, which may be NULL, gives: the list
 * [rows, columns], or the number of columns. */
static void offer_config_blocks(struct block_choice *choice, const ckpt_value *mapping, const char *key)
{
    int64_t rows = 1, cols;
    const ckpt_value *v = value_get(mapping, key);
    bool is_pair = v && v->type == CKPT_V_LIST && v->u.seq.n == 2;
    if (!v || (is_pair && !value_integer(v->u.seq.items[0], &rows)) ||
        !value_integer(is_pair ? v->u.seq.items[1] : v, &cols) || rows < 1 || cols < 1)
        return;
    offer_blocks(choice, (uint64_t)rows, (uint64_t)cols);
}

/* find_config_blocks - offers CHOICE all that the config says about blocks: of transformers' fp8, of GPTQ, of
 * the groups of compressed-tensors. */
static ckpt_status find_config_blocks(struct dequantizer *dequantizer, struct block_choice *choice,
                                      ckpt_error *err)
{
    uint32_t n;
    CKPT_TRY(recipe_read_config(dequantizer, err));
    offer_config_blocks(choice, dequantizer->config, "weight_block_size");
    offer_config_blocks(choice, dequantizer->config, "group_size");
    const value_pair *pairs = value_pairs(value_get(dequantizer->config, "config_groups"), &n);
    for (uint32_t i = 0; i < n; i++) {
        const ckpt_value *weights = value_get(pairs[i].val, "weights");
        offer_config_blocks(choice, weights, "block_structure");
        offer_config_blocks(choice, weights, "group_size");
    }
    return choice->n <= 1 ? CKPT_OK
                          : recipe_refuse("its config.json names several sizes of blocks that fit", err);
}

/* guess_block - returns how many of COUNT rows or columns share one of SCALES: all, the power of two that
 * fits, or an equal part; 0: it does not divide. *EXACT: the blocks are of one size, as far as COUNT shows
 * it. */
static uint64_t guess_block(uint64_t count, uint64_t scales, bool *exact)
{
    *exact = scales == 1 || scales == count;
    if (!scales || scales > count)
        return 0;
    if (*exact)
        return count / scales;
    for (uint64_t size = 2; size < count; size *= 2)
        if (is_block_size(count, size, scales)) {
            *exact = count % size == 0;
            return size;
        }
    return count % scales == 0 ? count / scales : 0;
}

ckpt_status recipe_choose_blocks(struct dequantizer *dequantizer, struct block_choice *choice,
                                 struct scaled_recipe *recipe, ckpt_error *err)
{
    bool exact_rows, exact_cols;
    CKPT_TRY(find_config_blocks(dequantizer, choice, err));
    recipe->block_rows = choice->n ? choice->block_rows
                                   : guess_block(choice->rows, choice->scale_rows, &exact_rows);
    recipe->block_cols = choice->n ? choice->block_cols
                                   : guess_block(choice->cols, choice->scale_cols, &exact_cols);
    if (!recipe->block_rows || !recipe->block_cols)
        return recipe_refuse("its scales do not divide its rows and columns into blocks", err);
    if (choice->n || (exact_rows && exact_cols) || dequantizer->has_noted_blocks)
        return CKPT_OK;
    dequantizer->has_noted_blocks = true;
    plan_notice(dequantizer->p,
                "no config.json gives the size of blocks with a scale; by the shapes, assuming %" PRIu64
                " x %" PRIu64,
                recipe->block_rows, recipe->block_cols);
    return CKPT_OK;
}

ckpt_status recipe_set_scales(struct dequantizer *dequantizer, struct scaled_recipe *recipe, uint32_t scale,
                              const uint64_t *shape, uint32_t ndim, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, scale);
    if (t.elements == 1) {
        recipe->matrix_rows = recipe->block_rows = recipe->rows;
        recipe->block_cols = recipe->cols;
        recipe->scale = recipe_matrix(scale, 1, 1);
        return CKPT_OK;
    }
    if (t.ndim && ndim && t.shape[0] == shape[0] && t.elements == shape[0]) {
        recipe->matrix_rows = recipe->rows;
        recipe->block_rows = recipe->rows / shape[0];
        recipe->block_cols = recipe->cols;
        recipe->scale = recipe_matrix(scale, shape[0], 1);
        return CKPT_OK;
    }
    bool same_outer = t.ndim == ndim && ndim >= 2;
    for (uint32_t k = 0; same_outer && k + 2 < ndim; k++)
        same_outer = t.shape[k] == shape[k];
    struct block_choice blocks = {.cols = recipe->cols};
    if (same_outer) {
        blocks.rows = shape[ndim - 2];
        blocks.scale_rows = t.shape[ndim - 2];
        blocks.scale_cols = t.shape[ndim - 1];
    }
    CKPT_TRY(recipe_choose_blocks(dequantizer, &blocks, recipe, err));
    recipe->matrix_rows = blocks.rows;
    recipe->scale = recipe_matrix(scale, t.elements / blocks.scale_cols, blocks.scale_cols);
    return CKPT_OK;
}

ckpt_status recipe_begin(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                         unsigned codes, ckpt_dtype dtype, struct dequantized *out, ckpt_error *err)
{
    const ckpt_tensor t = recipe_tensor(dequantizer, weight->weight);
    CKPT_TRY(recipe_set_shape(dequantizer, out, &t, codes, 1, err));
    uint64_t cols = out->ndim ? out->shape[out->ndim - 1] : 1, elements;
    if (!checked_mul(t.elements, codes, &elements) || !elements)
        return recipe_refuse("it has no elements", err);
    out->recipe = recipe_make(elements / cols, cols, dtype);
    out->recipe.codes.m = recipe_matrix(weight->weight, elements / cols, cols / codes);
    return CKPT_OK;
}

ckpt_dtype recipe_dtype(const ckpt_tensor *tensor)
{
    return has_two_bytes_or_more((ckpt_dtype)tensor->dtype) ? (ckpt_dtype)tensor->dtype : CKPT_DT_BF16;
}
