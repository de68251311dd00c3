/* families.c - includes the tables of all families, and evaluates their products and conditions. */
#include "mem/family.h"

#include "mem/operations.h"

static const struct mem_family families[] = {
#include "mem/families.def"
};

const struct mem_family *mem_family_at(size_t index)
{
    return index < sizeof families / sizeof *families ? &families[index] : NULL;
}

const struct mem_refusal mem_refusals[] = {
#define REFUSAL(glob, refuses_all, why) {glob, refuses_all, why},
#include "mem/refusals.def"
#undef REFUSAL
    {0}};

/* The groups of conditions; each run has one condition of each group. */
static const uint32_t groups[] = {FP32 | MIXED | HALF,
                                  SDPA | EAGER,
                                  ATTENTION_DROPOUT | NO_ATTENTION_DROPOUT,
                                  RESIDUAL_DROPOUT | NO_RESIDUAL_DROPOUT,
                                  EMBEDDING_DROPOUT | NO_EMBEDDING_DROPOUT,
                                  GELU_WRITTEN_OUT | GELU_FUSED,
                                  ONE_SEQUENCE | SEQUENCES,
                                  CHECKPOINTED | NOT_CHECKPOINTED,
                                  QK_NORM | NO_QK_NORM,
                                  QKV_BIAS | NO_QKV_BIAS,
                                  OUT_BIAS | NO_OUT_BIAS,
                                  MLP_BIAS | NO_MLP_BIAS,
                                  UNTIED | TIED};

bool conditions_hold(uint32_t conditions, uint32_t run)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if ((conditions & groups[i]) && !(conditions & groups[i] & run))
            return false;
    return true;
}

bool product_value(ckpt_str text, const struct letters *letters, uint64_t *out)
{
    size_t digits = 0;
    uint64_t product = 1;
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    if (digits && !str_uint(str_of(text.ptr, digits), &product))
        return false;
    for (size_t i = digits; i < text.len; i++) {
        if (!letter_known(letters, text.ptr[i]))
            return false;
        product = size_mul(product, letter_get(letters, text.ptr[i]));
    }
    *out = product;
    return true;
}
