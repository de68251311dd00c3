/* recipe.h - what the recipes of all schemes need: facts from tensors and from files next to the checkpoint,
 * shapes, and scales of blocks. Memory is of the arena of the file or of the plan; no caller frees any. */
#pragma once

#include "op/dequantize.h"

/* recipe_absent - the matrix of a tensor that there is not. */
#define recipe_absent ((struct scaled_matrix){.row = CKPT_NO_TENSOR})

static inline ckpt_tensor recipe_tensor(const struct dequantizer *dequantizer, uint32_t row)
{
    return table_tensor(&dequantizer->p->file->table, row);
}

static inline struct scaled_matrix recipe_matrix(uint32_t row, uint64_t rows, uint64_t cols)
{
    return (struct scaled_matrix){.row = row, .rows = rows, .cols = cols};
}

/* recipe_refuse - fails with CKPT_EUNSUPPORTED: a layout that is not dequantized, or not recognized. */
ckpt_status recipe_refuse(const char *what, ckpt_error *err);
/* recipe_make - returns a recipe without codes and scales, for a weight of ROWS x COLS. */
struct scaled_recipe recipe_make(uint64_t rows, uint64_t cols, ckpt_dtype dtype);
/* recipe_set_shape - sets the shape of OUT to that of TENSOR, the last dimension times MULTIPLY, divided by
 * DIVIDE. */
ckpt_status recipe_set_shape(struct dequantizer *dequantizer, struct dequantized *out,
                             const ckpt_tensor *tensor, uint64_t multiply, uint64_t divide, ckpt_error *err);
/* recipe_set_matrix_shape - sets the shape of OUT to ROWS x COLS. */
ckpt_status recipe_set_matrix_shape(struct dequantizer *dequantizer, struct dequantized *out, uint64_t rows,
                                    uint64_t cols, ckpt_error *err);
/* recipe_begin - sets the shape of OUT, and its recipe without scales. CODES: codes in an element of the
 * weight. */
ckpt_status recipe_begin(struct dequantizer *dequantizer, const struct quantized_weight *weight,
                         unsigned codes, ckpt_dtype dtype, struct dequantized *out, ckpt_error *err);
/* recipe_dtype - returns the dtype of numbers whose scale is TENSOR. */
ckpt_dtype recipe_dtype(const ckpt_tensor *tensor);

/* recipe_read_json_file - sets *OUT to the JSON of the file NAME next to the checkpoint; NULL: there is none.
 */
ckpt_status recipe_read_json_file(struct dequantizer *dequantizer, const char *name, ckpt_value **out,
                                  ckpt_error *err);
/* recipe_read_config - sets dequantizer->config from the files next to the checkpoint that describe its
 * quantization. */
ckpt_status recipe_read_config(struct dequantizer *dequantizer, ckpt_error *err);
/* recipe_get_number - returns the positive number KEY of MAPPING, which may be NULL; 0: there is none. */
uint64_t recipe_get_number(const ckpt_value *mapping, const char *key);
/* recipe_get_dtype - returns the dtype that KEY of MAPPING names ("bfloat16", "torch.bfloat16"), if a weight
 * can be dequantized to it; else NONE. */
ckpt_dtype recipe_get_dtype(const ckpt_value *mapping, const char *key);
/* recipe_parse_dtype - the same for TEXT. */
ckpt_dtype recipe_parse_dtype(ckpt_str text);
/* recipe_text_is - returns true if KEY of MAPPING is the text WANTED. */
bool recipe_text_is(const ckpt_value *mapping, const char *key, const char *wanted);
/* recipe_read_part - reads all *NBYTES bytes of ROW, at most MAX, into *OUT. */
ckpt_status recipe_read_part(struct dequantizer *dequantizer, uint32_t row, uint64_t max, unsigned char **out,
                             uint64_t *nbytes, ckpt_error *err);
/* recipe_read_json - sets *OUT to the JSON in the bytes of ROW. */
ckpt_status recipe_read_json(struct dequantizer *dequantizer, uint32_t row, const ckpt_value **out,
                             ckpt_error *err);
/* recipe_read_lookup - sets *OUT to the COUNT float32 of ROW. */
ckpt_status recipe_read_lookup(struct dequantizer *dequantizer, uint32_t row, uint64_t count,
                               const float **out, ckpt_error *err);

/* Rows and columns with their scales, and the blocks that share a scale: those of a config that fit. */
struct block_choice {
    uint64_t rows, cols, scale_rows, scale_cols;
    uint64_t block_rows, block_cols;
    unsigned n; /* different blocks that fit */
};

/* recipe_choose_blocks - sets the blocks of RECIPE for the rows, columns and scales of CHOICE. Without a
 * config that fits, guesses, and emits a notice if the sizes allow others. */
ckpt_status recipe_choose_blocks(struct dequantizer *dequantizer, struct block_choice *choice,
                                 struct scaled_recipe *recipe, ckpt_error *err);
/* recipe_set_scales - sets the scale of RECIPE, whose rows and columns are set, from row SCALE: one for all,
 * one for each of the outermost dimension of SHAPE (NDIM sizes), or one for each block of the last two
 * dimensions. */
ckpt_status recipe_set_scales(struct dequantizer *dequantizer, struct scaled_recipe *recipe, uint32_t scale,
                              const uint64_t *shape, uint32_t ndim, ckpt_error *err);

/* recipe_make_<recipe> - sets *OUT to how the weight W of a scheme of quantized.def is dequantized, see
 * dequantize_make_recipe. */
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe)                                  \
    ckpt_status recipe_make_##recipe(struct dequantizer *d, const struct quantized_weight *w,                \
                                     struct dequantized *out, ckpt_error *err);
#include "op/quantized.def"
#undef SCHEME
