/* lora_match.h - finds the tensor of a plan that a module of an adapter stands for. Names are matched from
 * their end, at dots: prefixes that wrappers add are left out, in the adapter or in the plan. */
#pragma once

#include "base/map.h"
#include "core/plan.h"
#include "op/lora_names.h"

#define LORA_SEVERAL (MAP_NONE - 1)

struct lora_index {
    ckpt_plan *p;
    map *names;    /* name -> entry of the plan */
    map *suffixes; /* end of a name after a dot -> the first entry that has it */
    map *
        underscored; /* name without ".weight", or end of it, with underscores for dots; NULL: not made yet */
    map *several;    /* what several entries have of the above */
};

/* A tensor that was found. */
struct lora_found {
    uint32_t entry;      /* of the plan; MAP_NONE: none; LORA_SEVERAL */
    ckpt_str strip, add; /* the prefix that the adapter's name has, and the one that the plan's name has */
};

/* lora_index_init - indexes the entries of P, which stay. CKPT_EEXIST: two have one name. lora_index_free
 * frees what it made, also after a failure. */
ckpt_status lora_index_init(struct lora_index *index, ckpt_plan *p, ckpt_error *err);
void lora_index_free(struct lora_index *index);
/* lora_find - finds the tensor that is called as the module of NAME is, with SUFFIX (".weight"). The
 * longest end of the name counts that a tensor has; a tensor that is called so exactly comes first. */
ckpt_status lora_find(struct lora_index *index, const struct lora_name *name, const char *suffix,
                      struct lora_found *out, ckpt_error *err);
