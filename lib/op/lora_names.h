/* lora_names.h - the names of an adapter's tensors: which matrix of LoRA each is, and of which module. */
#pragma once

#include "base/arena.h"

/* DOWN is [rank, in], UP is [out, rank]: their product UP DOWN is added to a weight. */
enum lora_role {
    LORA_DOWN,
    LORA_UP,
    LORA_BIAS, /* of UP: added to the bias of the module */
    LORA_EMBEDDING_DOWN,
    LORA_EMBEDDING_UP,
    LORA_MAGNITUDE, /* DoRA: the norms of the rows of the result */
    LORA_ALPHA,     /* the scale is this number divided by the rank */
    LORA_BASE,      /* the weight itself, instead of that of the base model */
    LORA_OTHER,     /* a tensor that is not of LoRA */
    LORA_ROLES
};

struct lora_name {
    enum lora_role role;
    ckpt_str module;     /* the name of the module; of LORA_OTHER, the complete name */
    ckpt_str component;  /* the prefix for a part of a pipeline, such as "unet.", in MODULE; may be empty */
    bool is_underscored; /* MODULE has underscores in place of dots, after COMPONENT */
};

/* lora_parse_name - parses NAME, the name of a tensor; texts that are not in NAME are in A. False: no
 * memory. */
bool lora_parse_name(ckpt_str name, arena *a, struct lora_name *out);
/* lora_other_kind - returns what kind of adapter has a tensor called NAME, if it is one that is not
 * merged; else NULL. */
const char *lora_other_kind(ckpt_str name);
