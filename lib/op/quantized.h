/* quantized.h - finds quantized weights: tensors whose numbers mean nothing without scales that are tensors
 * of their own, with names that end in a known way. */
#pragma once

#include "core/plan.h"

enum quantized_scheme_id {
#define SCHEME(id, title, weight, result, dtypes, scales, optional, recipe) QUANTIZED_##id,
#include "op/quantized.def"
#undef SCHEME
    QUANTIZED_UNKNOWN,   /* a tensor of fp8 or integers next to scales, by names that no scheme has */
    QUANTIZED_IN_SHARDS, /* fp8, or a scale, in one shard of a set: what belongs to it may be in another */
    QUANTIZED_SCHEMES
};

#define QUANTIZED_PARTS_MAX 18 /* tensors that belong to one quantized weight */
#define QUANTIZED_BY_NONE   UINT32_MAX
#define QUANTIZED_BY_ALL    (UINT32_MAX - 1)

/* A weight and the tensors that belong to it. */
struct quantized_weight {
    ckpt_str stem; /* what the names of its tensors begin with */
    enum quantized_scheme_id scheme;
    uint32_t weight;      /* row of the quantized numbers */
    const uint32_t *part; /* rows of the words of `scales` and `optional`, in the order of quantized.def;
                           * CKPT_NO_TENSOR: absent, as all after NPARTS */
    uint32_t nparts;
};

/* quantized_part - returns the row of part INDEX of WEIGHT, or CKPT_NO_TENSOR. */
static inline uint32_t quantized_part(const struct quantized_weight *weight, uint32_t index)
{
    return index < weight->nparts ? weight->part[index] : CKPT_NO_TENSOR;
}

struct quantized_weights {
    struct quantized_weight *list; /* in the order of the file, scheme by scheme */
    size_t n, cap;
    uint32_t *of_row; /* by row: index in LIST of its weight; QUANTIZED_BY_ALL: a scale of activations;
                       * QUANTIZED_BY_NONE: any other tensor */
};

/* quantized_find - lists the quantized weights of FILE in *OUT, allocated in A. */
ckpt_status quantized_find(ckpt_file *file, arena *a, struct quantized_weights *out, ckpt_error *err);
/* plan_find_quantized - sets P->quantized to the quantized weights of its file, unless it is set. */
ckpt_status plan_find_quantized(ckpt_plan *p, ckpt_error *err);
/* quantized_title - returns the name of SCHEME for people, such as "GPTQ", or what stands for one. */
const char *quantized_title(enum quantized_scheme_id scheme);
/* quantized_has_recipe - returns true if weights of the scheme called TITLE are dequantized. */
bool quantized_has_recipe(const char *title);
