/* dequantize.h - the numbers of quantized weights as floats: what dequantize.c and dequantize_recipes.c
 * share. */
#pragma once

#include "core/scaled_source.h"
#include "op/quantized.h"

/* The weights of one plan that are being dequantized. */
struct dequantizer {
    ckpt_plan *p;
    const ckpt_value *config; /* the quantization_config of the model, or NULL */
    const ckpt_value *model;  /* optimum-quanto: config.json, or NULL */
    const ckpt_value *qmap;   /* optimum-quanto: quanto_qmap.json, or NULL */
    bool config_read, quanto_read, has_noted_gptq, has_noted_blocks, has_noted_quanto;
};

/* What a weight becomes. */
struct dequantized {
    struct scaled_recipe recipe; /* .dtype is that of the weight */
    uint64_t *shape;
    uint64_t *stride; /* NULL: row-major */
    uint32_t ndim;
};

/* dequantize_make_recipe - sets *OUT to how QUANTIZED_WEIGHT is dequantized. CKPT_EUNSUPPORTED or
 * CKPT_EFORMAT: it cannot be. */
ckpt_status dequantize_make_recipe(struct dequantizer *dequantizer,
                                   const struct quantized_weight *quantized_weight, struct dequantized *out,
                                   ckpt_error *err);
