/* lora_config.h - peft's adapter_config.json: the rank and scale of each module. */
#pragma once

#include "base/arena.h"
#include "base/error.h"

#define LORA_CONFIG_MAX (16u << 20) /* bytes */

/* A key of rank_pattern or alpha_pattern: an expression, or a name in which each dot stands for any
 * character. */
struct lora_pattern {
    ckpt_str key;
    struct regexp *expression; /* NULL: KEY is a name */
    double number;
};

struct lora_patterns {
    struct lora_pattern *list;
    size_t nlist, cap_list;
};

struct lora_config {
    bool has_rank, has_alpha;
    uint64_t rank;
    double alpha;
    bool use_rslora, fan_in_fan_out, use_dora, lora_bias;
    struct lora_patterns ranks, alphas;
    ckpt_str *saved; /* modules_to_save */
    size_t nsaved, cap_saved;
    ckpt_str *unknown; /* keys with a value that are not in lora_keys.def */
    size_t nunknown, cap_unknown;
};

/* lora_config_read - reads TEXT, which lives as long as *OUT. PREFIX: only keys that begin with it count,
 * without it. Allocates from A, but expressions, which lora_config_free frees, also after a failure.
 * CKPT_EUNSUPPORTED: an adapter of a kind that is not merged. */
ckpt_status lora_config_read(ckpt_str text, ckpt_str prefix, arena *a, struct lora_config *out,
                             ckpt_error *err);
void lora_config_free(struct lora_config *config);

/* What a config gives for a module. */
struct lora_setting {
    uint64_t rank;
    double alpha, scale; /* SCALE: what the product is multiplied by */
};

/* lora_config_find - sets *OUT for MODULE, the name of a module in the base model, by peft's rule: of the
 * patterns, the first counts that matches the name, or the end of it after a dot. CKPT_EFORMAT: there is
 * no rank or alpha. */
ckpt_status lora_config_find(const struct lora_config *config, ckpt_str module, struct lora_setting *out,
                             ckpt_error *err);
/* lora_config_saves - returns true if modules_to_save names MODULE or a module around it. */
bool lora_config_saves(const struct lora_config *config, ckpt_str module);
