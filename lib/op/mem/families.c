/* families.c - includes the tables of all families. */
#include "op/mem/family.h"

#include "op/mem/operations.h"

static const struct mem_family families[] = {
#include "op/mem/families.def"
};

const struct mem_family *mem_family_at(size_t i)
{
    return i < sizeof families / sizeof *families ? &families[i] : NULL;
}

const struct mem_refusal mem_refusals[] = {
#define REFUSAL(glob, always, why) {glob, always, why},
#include "op/mem/refusals.def"
#undef REFUSAL
    {0}};

/* The groups of conditions; a run has one of each. */
static const uint32_t groups[] = {FP32 | MIXED | HALF,
                                  SDPA | EAGER,
                                  ATTENTION_DROP | NO_ATTENTION_DROP,
                                  DROP | NO_DROP,
                                  EMBEDDING_DROP | NO_EMBEDDING_DROP,
                                  GELU_WRITTEN_OUT | GELU_FUSED,
                                  ONE_SEQUENCE | SEQUENCES,
                                  CHECKPOINTED | NOT_CHECKPOINTED,
                                  QK_NORM | NO_QK_NORM,
                                  QKV_BIAS | NO_QKV_BIAS,
                                  OUT_BIAS | NO_OUT_BIAS,
                                  MLP_BIAS | NO_MLP_BIAS,
                                  UNTIED | TIED};

bool conditions_hold(uint32_t when, uint32_t state)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if ((when & groups[i]) && !(when & groups[i] & state))
            return false;
    return true;
}
